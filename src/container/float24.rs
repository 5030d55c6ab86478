//! The 24-bit floats of files and uploads <-> `f32`.
//!
//! Sign 1, exponent 7 (bias 63), mantissa 16, in the low 24 bits of a word. Reading is exact: each
//! of the 2^24 patterns has an `f32`. Writing truncates exactly like the free assembler, oddities
//! included, so that files are equal byte for byte. It is a file-format conversion; the unit itself
//! rounds (`isa::float24`).

const EXPONENT_MAX: u32 = 0x7F;
const MANTISSA: u32 = 0xFFFF;

/// The value of the low 24 bits of `bits`; the upper eight are ignored. Subnormals, infinities and
/// NaN payloads survive.
///
/// Selections of what both ways compute, since the compiler converts four numbers at a time then.
#[inline]
pub fn f24_to_f32(bits: u32) -> f32 {
    let sign = (bits >> 23 & 1) << 31;
    // The fields in their places of an f32.
    let magnitude = (bits & 0x7F_FFFF) << 7;
    // 2^-78 is a normal number in f32, so the product is exact. SSE2 converts signed numbers only.
    let subnormal = ((bits & MANTISSA) as i32 as f32 * SUBNORMAL_UNIT).to_bits();
    let normal = magnitude + ((127 - 63) << 23);
    let special = magnitude | 0xFF << 23;
    let value = if magnitude < 1 << 23 {
        subnormal
    } else if magnitude < EXPONENT_MAX << 23 {
        normal
    } else {
        special
    };
    f32::from_bits(sign | value)
}

/// 2^-78, the value of the last mantissa bit of a subnormal.
const SUBNORMAL_UNIT: f32 = f32::from_bits((127 - 78) << 23);

/// The float24 that the free assembler writes for `value`. The mantissa loses its low seven bits,
/// and
///
/// * below 2^-63 it is a zero with the sign of `value`;
/// * from 2^-63 up to 2^-62 the mantissa is written with exponent 0, which reads back as another
///   number (1.5 * 2^-63 as 2^-63);
/// * from 2^64 up to 2^65 the mantissa is written with exponent 0x7F, so 2^64 reads back as
///   infinity and the rest as NaN;
/// * from 2^65 on, infinity and NaN included, it is infinity with the sign of `value`.
pub fn f32_to_f24_truncating(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = bits >> 31 << 23;
    match (bits >> 23 & 0xFF).checked_sub(127 - 63) {
        None => sign,
        Some(exponent @ 0..=EXPONENT_MAX) => sign | exponent << 16 | bits >> 7 & MANTISSA,
        Some(_) => sign | EXPONENT_MAX << 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;

    /// The definition in `f64`, except for infinities and NaNs.
    fn value(bits: u32) -> f64 {
        let exponent = (bits >> 16 & 0x7F) as i32;
        let mantissa = f64::from(bits & 0xFFFF) / 65536.0;
        let magnitude = match exponent {
            0 => mantissa * 2f64.powi(-62),
            _ => (1.0 + mantissa) * 2f64.powi(exponent - 63),
        };
        if bits >> 23 & 1 != 0 { -magnitude } else { magnitude }
    }

    #[test]
    fn reading_is_exact_for_every_pattern() {
        for bits in (0..1 << 24).step_by(miri_or(65_537, 1)) {
            let got = f24_to_f32(bits);
            if bits >> 16 & 0x7F == 0x7F {
                assert_eq!(got.to_bits() >> 31, bits >> 23, "{bits:06x}");
                assert_eq!(got.to_bits() & 0x7FFF_FFFF, 0x7F80_0000 | (bits & 0xFFFF) << 7, "{bits:06x}");
            } else {
                assert_eq!(f64::from(got).to_bits(), value(bits).to_bits(), "{bits:06x}");
            }
        }
        assert_eq!(f24_to_f32(0xAB3F_0000), 1.0, "the upper byte is ignored");
        assert_eq!(f24_to_f32(1), 2f32.powi(-78));
        assert_eq!(f24_to_f32(0xFF0000), f32::NEG_INFINITY);
        assert!(f24_to_f32(0x7F0001).is_nan());
    }

    #[test]
    fn writing_inverts_reading_for_normal_patterns_and_truncates_between() {
        for bits in (0..1 << 24).step_by(miri_or(65_537, 1)) {
            if (1..0x7F).contains(&(bits >> 16 & 0x7F)) {
                let exact = f24_to_f32(bits).to_bits();
                assert_eq!(f32_to_f24_truncating(f32::from_bits(exact)), bits);
                assert_eq!(f32_to_f24_truncating(f32::from_bits(exact | 0x7F)), bits);
            }
        }
    }

    #[test]
    fn writing_has_the_free_assemblers_oddities() {
        let p = |e: i32| 2f32.powi(e);
        for (value, bits) in [
            (1.0, 0x3F0000),
            (-0.5, 0xBE0000),
            (0.1, 0x3B9999),
            (3.0, 0x408000),
            (0.0, 0),
            (-0.0, 0x800000),
            (-1.99 * p(-64), 0x800000),
            (f32::from_bits(1), 0),
            (p(-63), 0),
            (1.5 * p(-63), 0x008000),
            (p(-62), 0x010000),
            (p(64), 0x7F0000),
            (1.5 * p(64), 0x7F8000),
            (-p(65), 0xFF0000),
            (1.5 * p(65), 0x7F0000),
            (f32::MAX, 0x7F0000),
            (f32::NEG_INFINITY, 0xFF0000),
            (f32::NAN.copysign(1.0), 0x7F0000),
            (f32::NAN.copysign(-1.0), 0xFF0000),
        ] {
            assert_eq!(f32_to_f24_truncating(value), bits, "{value:e}");
        }
    }
}
