//! `f32` or `f64` -> the nearby float24 number, as the `f32` that equals it.
//!
//! A float24 has sign 1, exponent 7 (bias 63) and mantissa 16 (ISA notes, 4.1): 17 significant
//! bits, normal from 2^-62 to just below 2^64, subnormal multiples of 2^-78, infinities and NaN.
//! Each is an `f32` exactly, so registers stay `f32` and only results are narrowed. Measured: MUL
//! flushes subnormal operands and results to +0, and the format has infinities (ISA notes, 4.1,
//! 4.2). The rounding of results is *unknown on hardware*, hence the choice of [`Rounding`].
//!
//! Invariant: pure and total, with the same bits on every CPU. A float24 number is unchanged,
//! except for flushing.

/// Rounding of a result between two float24 numbers. Both modes have been proposed for the
/// hardware, neither is measured (ISA notes, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Toward zero: the mantissa is truncated.
    TowardZero,
}

/// Bits of an f32 mantissa that float24 lacks.
pub const TAIL: u32 = 23 - 16;

/// Bits of an f64 mantissa that float24 lacks.
pub const TAIL_64: u32 = 52 - 16;

/// The smallest normal float24, 2^-62.
pub const SMALLEST: f32 = f32::from_bits((127 - 62) << 23);

/// 2^64, from which on a result is infinite. Multiplication by it, then by its inverse, turns such
/// numbers into infinities and leaves others unchanged.
pub const LIMIT: f32 = f32::from_bits((127 + 64) << 23);

/// 2^78, the inverse of a subnormal's last mantissa bit.
pub const SUBNORMAL_SCALE: f32 = f32::from_bits((127 + 78) << 23);

impl Rounding {
    /// Both modes.
    pub const ALL: [Rounding; 2] = [Rounding::Nearest, Rounding::TowardZero];

    /// An operation's result: rounded to 17 significant bits, then infinite from 2^64 and +0 below
    /// 2^-62. There is no -0.
    pub fn result(self, x: f32) -> f32 {
        if x.is_nan() { f32::NAN } else { flush(limit(self.round(x))) }
    }

    /// [`result`](Rounding::result) of a number that was computed in double precision, rounded
    /// once.
    pub fn result_64(self, x: f64) -> f32 {
        if x.is_nan() {
            return f32::NAN;
        }
        let bits = x.to_bits();
        let moved = match self {
            Rounding::Nearest => bits + ((1 << (TAIL_64 - 1)) - 1) + (bits >> TAIL_64 & 1),
            Rounding::TowardZero => bits,
        };
        // Seventeen bits fit an f32; results beyond its exponents are flushed or infinite.
        flush(limit(f64::from_bits(moved >> TAIL_64 << TAIL_64) as f32))
    }

    /// An input or an upload: rounded like a result, but subnormals stay, as multiples of 2^-78,
    /// and zeros keep their sign. The rounding of these is *unknown on hardware*.
    pub fn operand(self, x: f32) -> f32 {
        if x.is_nan() {
            return f32::NAN;
        }
        if x.abs() < SMALLEST {
            let units = x * SUBNORMAL_SCALE;
            let whole = match self {
                Rounding::Nearest => units.round_ties_even(),
                Rounding::TowardZero => units.trunc(),
            };
            return whole * SUBNORMAL_SCALE.recip();
        }
        limit(self.round(x))
    }

    /// Rounds to 17 significant bits with the exponents of f32. Not for NaN.
    fn round(self, x: f32) -> f32 {
        let bits = x.to_bits();
        let moved = match self {
            Rounding::Nearest => bits + ((1 << (TAIL - 1)) - 1) + (bits >> TAIL & 1),
            Rounding::TowardZero => bits,
        };
        f32::from_bits(moved >> TAIL << TAIL)
    }
}

/// Whether arithmetic takes a number for 0 that is not 0.
pub fn is_subnormal(x: f32) -> bool {
    x != 0.0 && x.abs() < SMALLEST
}

/// Replaces numbers below 2^-62 by +0, as arithmetic does with its operands and results.
pub fn flush(x: f32) -> f32 {
    if x.abs() < SMALLEST { 0.0 } else { x }
}

/// From 2^64 on infinite.
fn limit(x: f32) -> f32 {
    x * LIMIT * LIMIT.recip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;
    use Rounding::{Nearest, TowardZero};

    /// Every float24 number of one sign, ascending: subnormals, normals, infinity.
    fn numbers() -> impl Iterator<Item = f32> {
        (0..=0x7F_0000u32).map(|bits| match bits >> 16 {
            0 => bits as f32 / SUBNORMAL_SCALE,
            0x7F => f32::INFINITY,
            exponent => f32::from_bits((exponent + 64) << 23 | (bits & 0xFFFF) << 7),
        })
    }

    /// An f32 between two neighbours, and the same in f64.
    fn between(a: f32, b: f32, share: f64) -> (f32, f64) {
        let x = f64::from(a) + (f64::from(b) - f64::from(a)) * share;
        (x as f32, x)
    }

    #[test]
    fn a_float24_number_is_unchanged_and_others_round_to_the_right_neighbour() {
        let mut last = 0.0f32;
        for (n, x) in numbers().enumerate().take(miri_or(100, usize::MAX)) {
            for r in Rounding::ALL {
                assert_eq!(r.operand(x), x);
                assert_eq!(r.operand(-x).to_bits(), (-x).to_bits());
                let kept = if x < SMALLEST { 0.0 } else { x };
                assert_eq!(r.result(x), kept);
                assert_eq!(r.result(-x).to_bits(), if kept == 0.0 { 0 } else { (-x).to_bits() });
                assert_eq!(r.result_64(f64::from(x)), kept);
            }
            // f32 represents these fractions exactly for all 17-bit numbers.
            if n > 0 && x.is_finite() && n % 7 == 0 {
                let even = if n % 2 == 0 { x } else { last };
                for (share, near) in [(0.25, last), (0.5, even), (0.75, x)] {
                    let (mid, mid64) = between(last, x, share);
                    assert_eq!(f64::from(mid), mid64);
                    assert_eq!((Nearest.operand(mid), TowardZero.operand(mid)), (near, last), "{mid:e}");
                    assert_eq!((Nearest.operand(-mid), TowardZero.operand(-mid)), (-near, -last));
                    if last >= SMALLEST {
                        assert_eq!((Nearest.result(mid), TowardZero.result(mid)), (near, last));
                        assert_eq!((Nearest.result_64(mid64), TowardZero.result_64(mid64)), (near, last));
                    }
                }
            }
            last = x;
        }
    }

    #[test]
    fn the_ends_of_the_format() {
        let largest = f32::from_bits(0x5F7F_FF80);
        if !cfg!(miri) {
            assert_eq!(numbers().filter(|x| x.is_finite()).last(), Some(largest));
        }
        let almost = f32::from_bits(LIMIT.to_bits() - 1);
        for (r, want) in [(Nearest, f32::INFINITY), (TowardZero, largest)] {
            assert_eq!((r.result(almost), r.operand(almost), r.result_64(f64::from(almost))), (want, want, want));
        }
        for r in Rounding::ALL {
            for big in [LIMIT, f32::MAX, f32::INFINITY] {
                assert_eq!((r.result(big), r.operand(-big)), (f32::INFINITY, f32::NEG_INFINITY));
                assert_eq!(r.result_64(f64::from(big) * 1e30), f32::INFINITY);
            }
            for tiny in [f32::from_bits(1), 1e-30, -1e-40, -0.0] {
                assert_eq!((r.result(tiny).to_bits(), r.result_64(f64::from(tiny) * 1e-9).to_bits()), (0, 0));
            }
            assert_eq!(r.operand(-0.0).to_bits(), (-0.0f32).to_bits());
            assert_eq!(r.operand(-1e-40).to_bits(), (-0.0f32).to_bits());
            for nan in [f32::from_bits(0x7FFF_FFFF), f32::from_bits(0xFF80_0001)] {
                assert!(r.result(nan).is_nan() && r.operand(nan).is_nan() && r.result_64(f64::from(nan)).is_nan());
            }
            // Flushing follows rounding: a number that rounds up to the smallest normal one is
            // normal.
            let below = f32::from_bits(SMALLEST.to_bits() - 1);
            assert_eq!(r.result(below), if r == Nearest { SMALLEST } else { 0.0 });
        }
    }
}
