//! The number space that all register classes share, as in picasso, whose rules are stated in it.
//!
//! `o0-o15` and `v0-v15` are 0x00-0x0F, `r` 0x10, `c` 0x20, `i` 0x80, `b` 0x88 (language notes,
//! section 4).

/// First number of each class in the common space.
pub(super) const TEMP: u32 = 0x10;
pub(super) const FLOAT: u32 = 0x20;
pub(super) const INT: u32 = 0x80;
pub(super) const BOOL: u32 = 0x88;

/// The registers of a number of the common space: `o3 or v3`, `c5`.
pub(super) fn register_name(number: u32) -> String {
    match number {
        ..TEMP => format!("o{number} or v{number}"),
        TEMP..FLOAT => format!("r{}", number - TEMP),
        FLOAT..INT => format!("c{}", number - FLOAT),
        INT..BOOL => format!("i{}", number - INT),
        BOOL..0x98 => format!("b{}", number - BOOL),
        _ => "no register".into(),
    }
}

/// A class of uniforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Float,
    Int,
    Bool,
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        ["float", "integer", "boolean"][self as usize]
    }
    /// The letter of its registers.
    pub(super) fn letter(self) -> char {
        ['c', 'i', 'b'][self as usize]
    }
    /// The number of a register of the class, `c4`.
    pub(super) fn register(self, text: &str) -> Option<u32> {
        let digits = text.strip_prefix(self.letter())?;
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let count = [96, 4, 16][self as usize];
        digits.parse().ok().filter(|number| is_number && *number < count)
    }
    /// Its first number in the operands' common space.
    pub(super) fn base(self) -> u32 {
        [FLOAT, INT, BOOL][self as usize]
    }
}

/// Whether `name` begins with a register letter and a digit, so that picasso rejects it for
/// `.alias`.
pub fn reads_like_a_register(name: &str) -> bool {
    let b = name.as_bytes();
    b.len() > 1 && b"ovrcib".contains(&b[0].to_ascii_lowercase()) && b[1].is_ascii_digit()
}
