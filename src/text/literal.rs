//! Number literals as text <-> `f32`, vec4, the container's float24, and integers.
//!
//! A printed value is the shortest text that reads back to the same bits, NaN payloads included.
//! Reading rounds once, to nearest even. Accepted: decimals with exponent, hex floats (`0x1.8p3`),
//! `inf`, `infinity`, `nan`, a sign, and `nan#7fc00001` for a NaN by its bits. The assembler reads
//! constants like C's `strtod` (`prefix_f64`), because picasso does, and the result can differ in
//! the last bit.

use std::fmt;

/// Why a text is not a number or vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralError {
    /// Not a number.
    NotANumber,
}

impl fmt::Display for LiteralError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiteralError::NotANumber => f.write_str("expected a number such as 1.5, -0, 1e-3, 0x1.8p3, inf or nan"),
        }
    }
}

impl std::error::Error for LiteralError {}

/// Reads all of `text` (trimmed) as an `f32`.
pub fn parse_f32(text: &str) -> Result<f32, LiteralError> {
    let text = text.trim();
    if let Some((sign, bits)) = text.split_once('#') {
        let bits = u32::from_str_radix(bits, 16).map_err(|_| LiteralError::NotANumber)?;
        let value = f32::from_bits(bits);
        return if sign == "nan" && value.is_nan() { Ok(value) } else { Err(LiteralError::NotANumber) };
    }
    match scan(text) {
        Some(s) if s.len == text.len() => Ok(match s.kind {
            // A hex float is rounded to 24 bits here; the `as` is then exact, or an overflow to
            // infinity.
            Kind::Hex(h) => signed(s.negative, h.round(24, -126)) as f32,
            Kind::Decimal(digits) => {
                let v: f32 = digits.parse().map_err(|_| LiteralError::NotANumber)?;
                if s.negative { -v } else { v }
            }
            Kind::Inf => signed(s.negative, f64::INFINITY) as f32,
            Kind::Nan => f32::from_bits(0x7FC0_0000 | (s.negative as u32) << 31),
        }),
        _ => Err(LiteralError::NotANumber),
    }
}

/// The shortest text that [`parse_f32`] reads back to the same bits.
pub fn format_f32(value: f32) -> String {
    match value.to_bits() {
        0x7FC0_0000 => return "nan".into(),
        0xFFC0_0000 => return "-nan".into(),
        bits if value.is_nan() => return format!("nan#{bits:08x}"),
        _ => {}
    }
    let text = format!("{value:?}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.into(),
        None => text,
    }
}

/// `(x, y, z, w)`, each component formatted by [`format_f32`].
pub fn format_vec4(v: [f32; 4]) -> String {
    format!("({}, {}, {}, {})", format_f32(v[0]), format_f32(v[1]), format_f32(v[2]), format_f32(v[3]))
}

/// The number at the start of `text` (white space allowed before it) and its length in bytes, like
/// C's `strtod`.
pub(super) fn prefix_f64(text: &str) -> Option<(f64, usize)> {
    let trimmed = text.trim_start();
    let s = scan(trimmed)?;
    let magnitude = match s.kind {
        Kind::Hex(h) => h.round(53, -1022),
        Kind::Decimal(digits) => digits.parse().ok()?,
        Kind::Inf => f64::INFINITY,
        Kind::Nan => f64::NAN,
    };
    Some((signed(s.negative, magnitude), text.len() - trimmed.len() + s.len))
}

/// float24 as picasso writes it: the mantissa is truncated and exponents 0 and 0x7F get no special
/// treatment. Larger numbers and NaN become infinity, smaller numbers zero (container notes 4.1).
pub(super) fn f24_from_f32(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = (bits >> 31) << 23;
    let exponent = (bits >> 23 & 0xFF) as i32 - 127 + 63;
    match exponent {
        ..0 => sign,
        0x80.. => sign | 0x7F_0000,
        _ => sign | (exponent as u32) << 16 | (bits & 0x7F_FFFF) >> 7,
    }
}

/// The text of a float24 component: a decimal where reading that text gives the same pattern,
/// `f24#XXXXXX` otherwise.
pub(super) fn format_f24(bits: u32) -> String {
    let exponent = bits >> 16 & 0x7F;
    let value = match (exponent, bits & 0xFFFF) {
        (0, 0) => Some(f32::from_bits(bits << 8 & 0x8000_0000)),
        (0x7F, 0) => Some(if bits & 0x80_0000 != 0 { f32::NEG_INFINITY } else { f32::INFINITY }),
        (0 | 0x7F, _) => None,
        (e, m) => Some(f32::from_bits((bits >> 23 & 1) << 31 | (e + 127 - 63) << 23 | m << 7)),
    };
    match value {
        Some(v) if f24_from_f32(v) == bits => format_f32(v),
        _ => format!("f24#{bits:06X}"),
    }
}

/// The number at the start of `text` as a C literal (decimal, `0x` hex, leading-0 octal),
/// saturated, and its length.
pub(super) fn c_number(text: &str) -> Option<(u64, usize)> {
    let (radix, start) = match text.as_bytes() {
        [b'0', b'x' | b'X', d, ..] if d.is_ascii_hexdigit() => (16, 2),
        [b'0', ..] => (8, 0),
        _ => (10, 0),
    };
    let digits = text[start..].chars().map_while(|c| c.to_digit(radix));
    let (value, len) = digits
        .fold((0u64, start), |(v, n), d| (v.saturating_mul(u64::from(radix)).saturating_add(u64::from(d)), n + 1));
    (len > start).then_some((value, len))
}

/// As [`c_number`], with an optional sign.
pub(super) fn signed_c_number(text: &str) -> Option<(i64, usize)> {
    let sign = text.starts_with(['-', '+']) as usize;
    let (value, len) = c_number(&text[sign..])?;
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Some((if text.starts_with('-') { -value } else { value }, sign + len))
}

/// Optional sign and decimal digits at the start of `text`, saturated, and their length; nothing is
/// 0.
pub(super) fn decimal_prefix(text: &str) -> (i64, usize) {
    let (sign, start) = match text.as_bytes().first() {
        Some(b'-') => (-1, 1),
        Some(b'+') => (1, 1),
        _ => (1, 0),
    };
    let digits = text[start..].bytes().take_while(u8::is_ascii_digit);
    let (value, len) =
        digits.fold((0i64, 0), |(v, n), d| (v.saturating_mul(10).saturating_add(i64::from(d - b'0')), n + 1));
    if len == 0 { (0, 0) } else { (sign * value, start + len) }
}

fn signed(negative: bool, magnitude: f64) -> f64 {
    if negative { -magnitude } else { magnitude }
}

struct Scan<'s> {
    negative: bool,
    kind: Kind<'s>,
    len: usize,
}

enum Kind<'s> {
    Inf,
    Nan,
    Decimal(&'s str),
    Hex(Hex),
}

/// `mantissa * 2^exponent`, and whether non-zero digits below the mantissa were dropped.
struct Hex {
    mantissa: u64,
    exponent: i64,
    sticky: bool,
}

impl Hex {
    /// Rounds to `precision` bits, to nearest even, with subnormals below 2^`least`. An `f64` holds
    /// up to 53 bits exactly.
    fn round(&self, precision: i64, least: i64) -> f64 {
        if self.mantissa == 0 {
            return 0.0;
        }
        let bits = 64 - i64::from(self.mantissa.leading_zeros());
        let top = self.exponent + bits - 1;
        if top > 1100 {
            return f64::INFINITY;
        }
        let keep = precision - (least - top).max(0);
        if keep < 0 {
            return 0.0;
        }
        let drop = (bits - keep).max(0);
        let (mut kept, rest) = match drop {
            0 => (self.mantissa, 0),
            64 => (0, self.mantissa),
            n => (self.mantissa >> n, self.mantissa & ((1 << n) - 1)),
        };
        if drop > 0 {
            let half = 1u64 << (drop - 1);
            if rest > half || rest == half && (self.sticky || kept & 1 == 1) {
                kept += 1;
            }
        }
        let exponent = self.exponent + drop;
        // Two factors: a single power of two leaves the range of `f64` for subnormal results.
        let (a, b) = (exponent / 2, exponent - exponent / 2);
        kept as f64 * f64::powi(2.0, a as i32) * f64::powi(2.0, b as i32)
    }
}

fn scan(text: &str) -> Option<Scan<'_>> {
    let bytes = text.as_bytes();
    let (negative, start) = match bytes.first() {
        Some(b'-') => (true, 1),
        Some(b'+') => (false, 1),
        _ => (false, 0),
    };
    let body = &bytes[start..];
    let word = |w: &str| body.get(..w.len()).is_some_and(|b| b.eq_ignore_ascii_case(w.as_bytes()));
    for (name, kind) in [("infinity", Kind::Inf), ("inf", Kind::Inf), ("nan", Kind::Nan)] {
        if word(name) {
            return Some(Scan { negative, kind, len: start + name.len() });
        }
    }
    if word("0x")
        && let Some((hex, n)) = scan_hex(&body[2..])
    {
        return Some(Scan { negative, kind: Kind::Hex(hex), len: start + 2 + n });
    }
    let digits = |from: usize| body[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut n = whole;
    let mut fraction = 0;
    if body.get(n) == Some(&b'.') {
        fraction = digits(n + 1);
        n += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    n += exponent(&body[n..], b'e').map_or(0, |(_, len)| len);
    Some(Scan { negative, kind: Kind::Decimal(&text[start..start + n]), len: start + n })
}

/// An exponent part (`e+5`, `p-3`): its value, saturated, and its length.
fn exponent(bytes: &[u8], letter: u8) -> Option<(i64, usize)> {
    if bytes.first()?.to_ascii_lowercase() != letter {
        return None;
    }
    let sign = matches!(bytes.get(1), Some(b'+' | b'-')) as usize;
    let digits = bytes[1 + sign..].iter().take_while(|b| b.is_ascii_digit());
    let (value, count) = digits.fold((0i64, 0), |(v, n), d| ((v * 10 + i64::from(d - b'0')).min(1 << 40), n + 1));
    (count > 0).then(|| (if bytes[1] == b'-' { -value } else { value }, 1 + sign + count))
}

fn scan_hex(bytes: &[u8]) -> Option<(Hex, usize)> {
    let mut hex = Hex { mantissa: 0, exponent: 0, sticky: false };
    let (mut n, mut digits, mut point) = (0, 0, false);
    while let Some(&b) = bytes.get(n) {
        if b == b'.' && !point {
            point = true;
        } else if let Some(d) = (b as char).to_digit(16) {
            digits += 1;
            if hex.mantissa >> 60 == 0 {
                hex.mantissa = hex.mantissa << 4 | u64::from(d);
                hex.exponent -= 4 * point as i64;
            } else {
                hex.sticky |= d != 0;
                hex.exponent += 4 * !point as i64;
            }
        } else {
            break;
        }
        n += 1;
    }
    if digits == 0 {
        return None;
    }
    if let Some((e, len)) = exponent(&bytes[n..], b'p') {
        hex.exponent += e;
        n += len;
    }
    Some((hex, n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;

    #[test]
    fn every_form_reads() {
        let bits = |s: &str| parse_f32(s).map(f32::to_bits);
        for (text, value) in [
            ("0.5", 0.5f32),
            ("-0", -0.0),
            ("+1e3", 1000.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("0x1p-3", 0.125),
            ("0x1.8p3", 12.0),
            ("0X.8", 0.5),
            ("-0x1.fffffep127", f32::MIN),
            ("0x1.ffffffp127", f32::INFINITY),
            ("0x1p-149", f32::from_bits(1)),
            ("0x1p-150", 0.0),
            ("0x1.8p-150", f32::from_bits(1)),
            ("0x1.000001p0", 1.0),
            ("0x1.00000100000000000000001p0", f32::from_bits(0x3F80_0001)),
            ("0x1p999999999999999999999", f32::INFINITY),
            ("-INF", f32::NEG_INFINITY),
            ("infinity", f32::INFINITY),
        ] {
            assert_eq!(bits(text), Ok(value.to_bits()), "{text}");
        }
        assert_eq!(bits("nan"), Ok(0x7FC0_0000));
        assert_eq!(bits("-nan"), Ok(0xFFC0_0000));
        assert_eq!(bits("nan#7f800001"), Ok(0x7F80_0001));
        for text in ["", "x", "1.0f", "0x", "e5", "--1", "nan#0", "nan#zz", ".", "1 2", "é"] {
            assert_eq!(bits(text), Err(LiteralError::NotANumber), "{text}");
        }
    }

    #[test]
    fn vectors() {
        assert_eq!(format_vec4([0.5, f32::NAN, -0.0, 0.125]), "(0.5, nan, -0, 0.125)");
    }

    #[test]
    fn printing_reads_back() {
        let mut x = 1u32;
        for _ in 0..miri_or(30, 200_000) {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let text = format_f32(f32::from_bits(x));
            assert_eq!(parse_f32(&text).map(f32::to_bits), Ok(x), "{text}");
        }
    }

    #[test]
    fn every_float24_reads_back() {
        for bits in (0..1u32 << 24)
            .step_by(miri_or(1_000_003, 7))
            .chain([0, 0x80_0000, 0x7F_0000, 0xFF_0000, 0x7F_8000, 0x00_8000])
        {
            let text = format_f24(bits);
            let again = match text.strip_prefix("f24#") {
                Some(hex) => u32::from_str_radix(hex, 16).expect("hex"),
                None => f24_from_f32(prefix_f64(&text).expect("a number").0 as f32),
            };
            assert_eq!(again, bits, "{text}");
        }
        // Edges that the container notes list.
        assert_eq!(f24_from_f32(1.5 * 2f32.powi(-63)), 0x00_8000);
        assert_eq!(f24_from_f32(1.5 * 2f32.powi(64)), 0x7F_8000);
        assert_eq!(f24_from_f32(f32::NAN), 0x7F_0000);
    }

    #[test]
    fn prefixes_like_strtod() {
        let p = |s| prefix_f64(s).map(|(v, n)| (v.to_bits(), n));
        assert_eq!(p(" 1.0f"), Some((1f64.to_bits(), 4)));
        assert_eq!(p("1/2"), Some((1f64.to_bits(), 1)));
        assert_eq!(p("1e"), Some((1f64.to_bits(), 1)));
        assert_eq!(p("0x1p3z"), Some((8f64.to_bits(), 5)));
        assert_eq!(p("0xg"), Some((0f64.to_bits(), 1)));
        assert_eq!(p("abc"), None);
        assert_eq!(prefix_f64("0x0.0000000000001p-1022").map(|v| v.0.to_bits()), Some(1));
    }

    #[test]
    fn numbers_as_c_reads_them() {
        assert_eq!(c_number("010"), Some((8, 3)));
        assert_eq!(c_number("09"), Some((0, 1)));
        assert_eq!(c_number("0x1Fz"), Some((31, 4)));
        assert_eq!(c_number("0x"), Some((0, 1)));
        assert_eq!(c_number("99999999999999999999999").map(|n| n.0), Some(u64::MAX));
        assert_eq!(decimal_prefix("0x10"), (0, 1));
        assert_eq!(decimal_prefix("-2]"), (-2, 2));
        assert_eq!(decimal_prefix("name"), (0, 0));
    }
}
