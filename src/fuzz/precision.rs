//! The number formats that engines are compared in, and what to call them. The only list of them.

use crate::isa::numeric::Precision;

/// Every number format, with its name on command lines and in test files.
pub const PRECISIONS: &[(Precision, &str)] = &[(Precision::F32, "f32")];

/// What to call a number format.
pub fn name(precision: Precision) -> &'static str {
    PRECISIONS.iter().find(|(p, _)| *p == precision).map_or("unlisted", |(_, name)| name)
}

/// The number format of that name.
pub fn named(name: &str) -> Option<Precision> {
    PRECISIONS.iter().find(|(_, n)| *n == name).map(|(p, _)| *p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_lead_back() {
        for &(precision, text) in PRECISIONS {
            assert_eq!((name(precision), named(text)), (text, Some(precision)));
        }
        assert_eq!(named("f16"), None);
    }
}
