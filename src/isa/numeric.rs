//! The normative scalar meaning of every arithmetic primitive: what a number becomes.
//!
//! All functions are pure and total, and use IEEE single-precision operations only, one for each step that is written,
//! never fused: the same bits on every CPU. Interpreter, constant folder and tests call these; the recompiler emits the
//! same steps. Special values were measured on consoles (ISA notes, 4.2); where nobody has measured, the doc comment says
//! *unknown on hardware* and names the behaviour picked. Any NaN stands for every NaN: payload and sign of a NaN mean
//! nothing and no function lets them be seen.
//!
//! It must not know registers, masks or instructions' operands.

use super::CmpOp;

/// The number format that results are computed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Precision {
    /// Host single precision with the console's special values: no overflow at 2^64, nothing flushed at 2^-62.
    /// Every known emulator computes so.
    #[default]
    F32,
}

/// `2^23 * 1.5`: adding and taking it away again rounds a small number to the nearest integer, ties to even, and leaves
/// that integer in the low bits of the sum.
pub const ROUND_MAGIC: f32 = 12_582_912.0;

/// `(2^f - 1) / f` on [-0.5, 0.5], from the constant term up. Chebyshev fit, coefficients rounded to f32.
pub const EX2_POLY: [f32; 6] = [
    f32::from_bits(0x3F31_7218),
    f32::from_bits(0x3E75_FDF0),
    f32::from_bits(0x3D63_57B6),
    f32::from_bits(0x3C1D_952A),
    f32::from_bits(0x3AAF_8448),
    f32::from_bits(0x3922_09C5),
];

/// Beyond this magnitude 2^x is 0 or infinity in any format used here.
pub const EX2_CLAMP: f32 = 160.0;

/// `log2((1 + s) / (1 - s)) / s` as a polynomial in `s * s`, for |s| <= 0.1716, from the constant term up.
pub const LG2_POLY: [f32; 4] = [
    f32::from_bits(0x4038_AA3B),
    f32::from_bits(0x3F76_3873),
    f32::from_bits(0x3F13_A39A),
    f32::from_bits(0x3EDD_0A59),
];

/// Bits of sqrt(1/2): a mantissa is taken from [sqrt(1/2), sqrt(2)) so that logarithms near 1 keep their relative accuracy.
pub const LG2_SPLIT: u32 = 0x3F35_04F3;

/// Limit of `LITP`'s second lane: 0x7FFF / 0x100.
pub const LITP_LIMIT: f32 = 0x7FFF as f32 / 0x100 as f32;

impl Precision {
    /// `a + b`.
    pub fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }

    /// `a * b`, where zero times infinity is zero; a NaN factor gives NaN even against zero (measured).
    pub fn mul(self, a: f32, b: f32) -> f32 {
        let product = a * b;
        if product.is_nan() && !a.is_nan() && !b.is_nan() { 0.0 } else { product }
    }

    /// `a * b + c` in two steps: the product is rounded before the addition (documented by 3dbrew).
    pub fn mad(self, a: f32, b: f32, c: f32) -> f32 {
        self.add(self.mul(a, b), c)
    }

    /// Three-lane dot product, summed `(x + y) + z`. The hardware's order is unknown.
    pub fn dp3(self, a: [f32; 4], b: [f32; 4]) -> f32 {
        let p = |n: usize| self.mul(a[n], b[n]);
        self.add(self.add(p(0), p(1)), p(2))
    }

    /// Four-lane dot product, summed `(x + y) + (z + w)`. The hardware's order is unknown. `DPH` is this with `a[3] = 1`.
    pub fn dp4(self, a: [f32; 4], b: [f32; 4]) -> f32 {
        let p = |n: usize| self.mul(a[n], b[n]);
        self.add(self.add(p(0), p(1)), self.add(p(2), p(3)))
    }

    /// The larger one; the *second* if they can't be ordered (measured).
    pub fn max(self, a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }

    /// The smaller one; the *second* if they can't be ordered (measured).
    pub fn min(self, a: f32, b: f32) -> f32 {
        if a < b { a } else { b }
    }

    /// 1 if `a >= b`, else 0; 0 with a NaN on either side (measured).
    pub fn sge(self, a: f32, b: f32) -> f32 {
        if a >= b { 1.0 } else { 0.0 }
    }

    /// 1 if `a < b`, else 0; 0 with a NaN on either side (measured).
    pub fn slt(self, a: f32, b: f32) -> f32 {
        if a < b { 1.0 } else { 0.0 }
    }

    /// The largest integer not above `a`. Infinities and NaN stay (*unknown on hardware*).
    pub fn flr(self, a: f32) -> f32 {
        a.floor()
    }

    /// `1 / a`. There is no negative zero for it: both zeros give +infinity (measured).
    pub fn rcp(self, a: f32) -> f32 {
        1.0 / (a + 0.0)
    }

    /// `1 / sqrt(a)`: both zeros give +infinity, a negative number NaN, 1 exactly 1 (measured).
    pub fn rsq(self, a: f32) -> f32 {
        1.0 / (a + 0.0).sqrt()
    }

    /// `2^a`: exact at integers, within 2 ulp of float24 everywhere; -infinity gives 0 (measured), +infinity gives
    /// +infinity (*unknown on hardware*).
    pub fn ex2(self, a: f32) -> f32 {
        let x = if a < EX2_CLAMP { a } else { EX2_CLAMP };
        let x = if x > -EX2_CLAMP { x } else { -EX2_CLAMP };
        let shifted = x + ROUND_MAGIC;
        let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits()) as i32;
        let f = x - (shifted - ROUND_MAGIC);
        let [c0, c1, c2, c3, c4, c5] = EX2_POLY;
        let p = 1.0 + f * (c0 + f * (c1 + f * (c2 + f * (c3 + f * (c4 + f * c5)))));
        // 2^n in two halves: the first product is exact, the second rounds once, into the subnormals or to infinity.
        let half = n >> 1;
        let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
        let r = p * power(half) * power(n - half);
        if a.is_nan() { a } else { r }
    }

    /// `log2(a)`: both zeros give -infinity and a negative number NaN (measured); within 2 ulp of float24 everywhere,
    /// exact at powers of two; +infinity gives +infinity (*unknown on hardware*).
    pub fn lg2(self, a: f32) -> f32 {
        let tiny = a < f32::MIN_POSITIVE;
        let x = if tiny { a * 8_388_608.0 } else { a };
        let bias = if tiny { 23.0 } else { 0.0 };
        let exponent = (x.to_bits().wrapping_sub(LG2_SPLIT) as i32) >> 23;
        let m = f32::from_bits(x.to_bits().wrapping_sub((exponent as u32) << 23));
        let f = m - 1.0;
        let s = f / (m + 1.0);
        let t = s * s;
        let [c0, c1, c2, c3] = LG2_POLY;
        let y = s * (c0 + t * (c1 + t * (c2 + t * c3)));
        let r = (exponent as f32 - bias) + y;
        // The formula is for positive finite numbers; the rest is written over it.
        let r = if a < f32::INFINITY { r } else { a };
        let r = if a == 0.0 { f32::NEG_INFINITY } else { r };
        if a < 0.0 { f32::NAN } else { r }
    }

    /// The second lane of `LITP`: clamped to ±127.99609375 by MAX, then MIN. A NaN becomes the lower limit
    /// (*unknown on hardware*).
    pub fn litp_y(self, a: f32) -> f32 {
        self.min(self.max(a, -LITP_LIMIT), LITP_LIMIT)
    }

    /// `MOVA`: truncates toward zero and saturates to 32 bits; NaN gives 0. What the hardware does with anything but a
    /// small positive number is *unknown on hardware*; only -128..=127 matters to addressing.
    pub fn to_address(self, a: f32) -> i32 {
        a as i32
    }

    /// One lane of `CMP`. Ordered comparisons fail on NaN, `ne` holds (`eq`, `ne`, `le` with NaN: *unknown on
    /// hardware*). Operators 6 and 7 always hold (3dbrew).
    pub fn compare(self, op: CmpOp, a: f32, b: f32) -> bool {
        match op {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Lt => a < b,
            CmpOp::Le => a <= b,
            CmpOp::Gt => a > b,
            CmpOp::Ge => a >= b,
            CmpOp::True6 | CmpOp::True7 => true,
        }
    }
}

/// Whether two results count as equal: the same bits, or both NaN.
pub fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Precision = Precision::F32;
    const INF: f32 = f32::INFINITY;

    /// Units in the last place of float24 (16 mantissa bits) between `got` and `want`, for a normal `want`.
    fn f24_ulps(got: f32, want: f64) -> f64 {
        let exponent = want.abs().log2().floor();
        (f64::from(got) - want).abs() / (exponent - 16.0).exp2()
    }

    #[test]
    fn ex2_is_within_two_ulps_over_the_whole_float24_range() {
        let mut worst = 0.0f64;
        // Every float24 input whose result is a normal number, through its f32 value.
        for bits in 0..1u32 << 24 {
            let (exp, mant) = (bits >> 16 & 0x7F, bits & 0xFFFF);
            if exp == 0 || exp == 0x7F {
                continue;
            }
            let x = f32::from_bits(bits >> 23 << 31 | (exp + 64) << 23 | mant << 7);
            if x.abs() < 126.0 {
                worst = worst.max(f24_ulps(P.ex2(x), f64::from(x).exp2()));
            }
        }
        assert!(worst <= 0.05, "{worst}");
    }

    #[test]
    fn lg2_is_within_two_ulps_over_the_whole_float24_range() {
        let mut worst = 0.0f64;
        for bits in 0x1_0000..0x7F_0000u32 {
            let x = f32::from_bits(((bits >> 16) + 64) << 23 | (bits & 0xFFFF) << 7);
            let want = f64::from(x).log2();
            if want != 0.0 {
                worst = worst.max(f24_ulps(P.lg2(x), want));
            }
        }
        assert!(worst <= 0.05, "{worst}");
    }

    #[test]
    fn ex2_and_lg2_are_exact_where_they_can_be() {
        for n in -149..128 {
            let power = (n as f64).exp2() as f32;
            assert_eq!(P.ex2(n as f32), power);
            assert_eq!(P.lg2(power), n as f32);
        }
        assert_eq!(P.ex2(128.0), INF);
        assert_eq!(P.ex2(-150.5), 0.0);
        assert_eq!(P.ex2(INF), INF);
        assert_eq!(P.ex2(-INF), 0.0);
        assert!(P.ex2(f32::NAN).is_nan());
        assert_eq!(P.lg2(0.0), -INF);
        assert_eq!(P.lg2(-0.0), -INF);
        assert_eq!(P.lg2(INF), INF);
        assert!(P.lg2(-1.0).is_nan() && P.lg2(-1e-40).is_nan() && P.lg2(-INF).is_nan() && P.lg2(f32::NAN).is_nan());
    }

    #[test]
    fn special_values_are_the_consoles() {
        let nan = f32::NAN;
        assert_eq!(P.mul(INF, 0.0).to_bits(), 0);
        assert_eq!(P.mul(0.0, -INF).to_bits(), 0);
        assert!(P.mul(nan, 0.0).is_nan() && P.mul(0.0, nan).is_nan());
        assert_eq!(P.mad(INF, 0.0, 1.0), 1.0);
        assert_eq!((P.rcp(0.0), P.rcp(-0.0), P.rcp(INF)), (INF, INF, 0.0));
        assert_eq!((P.rsq(0.0), P.rsq(-0.0), P.rsq(1.0), P.rsq(INF)), (INF, INF, 1.0, 0.0));
        assert!(P.rsq(-1.0).is_nan() && P.rsq(-INF).is_nan() && P.rcp(nan).is_nan());
        assert_eq!(P.rsq(P.rcp(-INF)), INF);
        assert_eq!((P.max(0.0, INF), P.max(-INF, INF), P.max(0.0, -INF), P.max(nan, 0.0)), (INF, INF, 0.0, 0.0));
        assert!(P.max(0.0, nan).is_nan() && P.min(0.0, nan).is_nan());
        assert_eq!((P.min(0.0, INF), P.min(0.0, -INF), P.min(nan, 0.0)), (0.0, -INF, 0.0));
        assert_eq!((P.sge(nan, 0.0), P.slt(nan, 0.0), P.sge(0.0, nan), P.slt(0.0, nan)), (0.0, 0.0, 0.0, 0.0));
        assert_eq!(P.flr(-0.1), -1.0);
        assert_eq!((P.to_address(-1.9), P.to_address(nan), P.to_address(1e30)), (-1, 0, i32::MAX));
    }
}
