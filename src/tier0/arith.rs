//! The arithmetic of both number formats on SIMD vectors of any width.
//!
//! Every function gives the bits of its namesake in [`crate::isa::numeric`], in each lane; the
//! tests compare them. Callers inline everything here into code for one CPU level.

use crate::isa::elementary::{
    EX2_CLAMP, EX2_POLY, EX2_POLY_64, EX2_TINY_64, LG2_POLY, LG2_POLY_64, LG2_SPLIT, LG2_SPLIT_64, ROUND_MAGIC,
    ROUND_MAGIC_64,
};
use crate::isa::float24::{LIMIT, Rounding, SMALLEST, SUBNORMAL_SCALE, TAIL, TAIL_64};
use crate::isa::numeric::LITP_LIMIT;
use crate::isa::{DotOp, PointwiseOp, Relation, ScalarOp};
use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x4, f32x8, f32x16, f64x2, f64x4, f64x8, i32x4, i32x8, i32x16};

/// A vector of floats whose lanes can also be taken as integers.
pub trait Lanes<S: Simd>:
    SimdFloat<S, Element = f32, Bits: SimdInt<S, Element = u32>> + SimdCvtFloat<Self::Int>
{
    /// As many signed integers.
    type Int: SimdInt<S, Element = i32, ByteVector = Self::ByteVector> + SimdCvtTruncate<Self>;
    /// Half as many doubles.
    type Wide: Doubles<S>;
    /// Each lane as a double.
    fn doubles(self) -> [Self::Wide; 2];
    /// Each double rounded to nearest.
    fn of_doubles(doubles: [Self::Wide; 2]) -> Self;
}

/// A vector of doubles.
pub trait Doubles<S: Simd>: SimdFloat<S, Element = f64, Bits: SimdInt<S, Element = u64>> {}

impl<S: Simd, W: SimdFloat<S, Element = f64, Bits: SimdInt<S, Element = u64>>> Doubles<S> for W {}

/// Implements [`Lanes`] for a vector of floats, with those of its integers and doubles.
macro_rules! lanes {
    ($($float:ident, $int:ident, $wide:ident;)*) => {$(
        impl<S: Simd> Lanes<S> for $float<S> {
            type Int = $int<S>;
            type Wide = $wide<S>;

            #[inline(always)]
            fn doubles(self) -> [$wide<S>; 2] {
                let (low, high) = self.widen();
                [low, high]
            }

            #[inline(always)]
            fn of_doubles([low, high]: [$wide<S>; 2]) -> $float<S> {
                low.narrow(high)
            }
        }
    )*};
}

lanes! {
    f32x4, i32x4, f64x2;
    f32x8, i32x8, f64x4;
    f32x16, i32x16, f64x8;
}

/// The sign bit.
const SIGN: u32 = 1 << 31;

/// `value`, with all signs flipped if `negate`.
#[inline(always)]
pub fn signed<S: Simd, V: Lanes<S>>(value: V, negate: bool) -> V {
    V::from_bits(value.to_bits() ^ if negate { SIGN } else { 0 })
}

/// The larger; the second if they are unordered.
#[inline(always)]
pub fn max<S: Simd, V: Lanes<S>>(a: V, b: V) -> V {
    a.simd_gt(b).select(a, b)
}

/// The smaller; the second if they are unordered.
#[inline(always)]
pub fn min<S: Simd, V: Lanes<S>>(a: V, b: V) -> V {
    a.simd_lt(b).select(a, b)
}

/// The larger of `a` and 0, and 0 for a NaN: the x and w components of `LITP`.
///
/// Like [`litp_y`] it compares bits. Where one operand of [`max`] or [`min`] is a constant, LLVM emits
/// FMAXNM or FMINNM on 64-bit Arm, which return NaN for a signalling NaN, not the constant.
#[inline(always)]
pub fn positive<S: Simd, V: Lanes<S>>(a: V) -> V {
    let (simd, bits) = (a.token(), a.to_bits());
    let is_positive = (bits - 1).simd_lt(V::Bits::splat(simd, f32::INFINITY.to_bits()));
    V::from_bits(is_positive.select(bits, V::Bits::splat(simd, 0)))
}

/// The y component of `LITP`: at most its limit in magnitude, and the lower limit for a NaN.
#[inline(always)]
pub fn litp_y<S: Simd, V: Lanes<S>>(a: V) -> V {
    let (simd, sign) = (a.token(), a.to_bits() & SIGN);
    let (magnitude, limit) = (a.to_bits() ^ sign, V::Bits::splat(simd, LITP_LIMIT.to_bits()));
    let limited = magnitude.simd_lt(limit).select(magnitude, limit);
    let is_nan = magnitude.simd_gt(V::Bits::splat(simd, f32::INFINITY.to_bits()));
    V::from_bits(is_nan.select(limit | SIGN, limited | sign))
}

/// One test of `CMP`.
#[inline(always)]
pub fn compare<S: Simd, V: Lanes<S>>(relation: Relation, a: V, b: V) -> V::Mask {
    match relation {
        Relation::Eq => a.simd_eq(b),
        Relation::Ne => a.simd_ne(b),
        Relation::Lt => a.simd_lt(b),
        Relation::Le => a.simd_le(b),
        Relation::Gt => a.simd_gt(b),
        Relation::Ge => a.simd_ge(b),
    }
}

/// 1 where `a >= b`, else 0.
#[inline(always)]
pub fn sge<S: Simd, V: Lanes<S>>(a: V, b: V) -> V {
    a.simd_ge(b).select(V::splat(a.token(), 1.0), V::splat(a.token(), 0.0))
}

/// 1 where `a < b`, else 0.
#[inline(always)]
pub fn slt<S: Simd, V: Lanes<S>>(a: V, b: V) -> V {
    a.simd_lt(b).select(V::splat(a.token(), 1.0), V::splat(a.token(), 0.0))
}

/// The operations that depend on the number format.
pub trait Format: Copy {
    /// The same format. If `is_normal`, no operand [is subnormal](Format::is_subnormal), and none is a NaN with a tail.
    fn assuming_normal(self, is_normal: bool) -> Self;
    /// Where arithmetic takes an operand for 0 that is not 0.
    fn is_subnormal<S: Simd, V: Lanes<S>>(self, a: V) -> V::Mask;
    /// An input or a uniform as the program reads it.
    fn operand<S: Simd, V: Lanes<S>>(self, a: V) -> V;
    /// `a + b`
    fn add<S: Simd, V: Lanes<S>>(self, a: V, b: V) -> V;
    /// `a * b`, where zero times infinity is zero.
    fn mul<S: Simd, V: Lanes<S>>(self, a: V, b: V) -> V;
    /// `a * b + c`
    fn mad<S: Simd, V: Lanes<S>>(self, a: V, b: V, c: V) -> V;
    /// A dot product.
    fn dot<S: Simd, V: Lanes<S>>(self, op: DotOp, a: [V; 4], b: [V; 4]) -> V;
    /// A dot product of the components of two registers.
    fn dot_product<S: Simd>(self, op: DotOp, a: f32x4<S>, b: f32x4<S>) -> f32;
    /// The largest integer not above `a`.
    fn floor<S: Simd, V: Lanes<S>>(self, a: V) -> V;
    /// A function of one number.
    fn scalar<S: Simd, V: Lanes<S>>(self, op: ScalarOp, a: V) -> V;
}

/// A pointwise operation; sources that it has not are ignored.
#[inline(always)]
pub fn pointwise<S: Simd, V: Lanes<S>, F: Format>(format: F, op: PointwiseOp, a: V, b: V, c: V) -> V {
    match op {
        PointwiseOp::Add => format.add(a, b),
        PointwiseOp::Mul => format.mul(a, b),
        PointwiseOp::Mad => format.mad(a, b, c),
        PointwiseOp::Max => max(a, b),
        PointwiseOp::Min => min(a, b),
        PointwiseOp::Sge => sge(a, b),
        PointwiseOp::Slt => slt(a, b),
        PointwiseOp::Flr => format.floor(a),
        PointwiseOp::Mov => a,
    }
}

/// A dot product from its products and sums.
#[inline(always)]
fn sum_of_products<S: Simd, V: Lanes<S>>(
    op: DotOp,
    [ax, ay, az, aw]: [V; 4],
    [bx, by, bz, bw]: [V; 4],
    mul: impl Fn(V, V) -> V,
    add: impl Fn(V, V) -> V,
) -> V {
    let xy = add(mul(ax, bx), mul(ay, by));
    match op {
        DotOp::Dp3 => add(xy, mul(az, bz)),
        DotOp::Dp4 => add(xy, add(mul(az, bz), mul(aw, bw))),
        DotOp::Dph => add(xy, add(mul(az, bz), mul(V::splat(ax.token(), 1.0), bw))),
    }
}

/// The first operand of a `DPH`.
#[inline(always)]
fn with_one<S: Simd>(a: f32x4<S>) -> f32x4<S> {
    f32x4::load_array(a.token(), [a[0], a[1], a[2], 1.0])
}

/// The sum of a dot product's products.
#[inline(always)]
fn sum<S: Simd>(op: DotOp, p: f32x4<S>) -> f32 {
    match op {
        DotOp::Dp3 => (p[0] + p[1]) + p[2],
        DotOp::Dp4 | DotOp::Dph => (p[0] + p[1]) + (p[2] + p[3]),
    }
}

/// [`Precision::F32`](crate::isa::numeric::Precision::F32).
#[derive(Clone, Copy)]
pub struct F32;

impl Format for F32 {
    #[inline(always)]
    fn assuming_normal(self, _: bool) -> F32 {
        self
    }

    #[inline(always)]
    fn is_subnormal<S: Simd, V: Lanes<S>>(self, a: V) -> V::Mask {
        a.simd_ne(a) & a.simd_eq(a)
    }

    #[inline(always)]
    fn operand<S: Simd, V: Lanes<S>>(self, a: V) -> V {
        a
    }

    #[inline(always)]
    fn add<S: Simd, V: Lanes<S>>(self, a: V, b: V) -> V {
        a + b
    }

    #[inline(always)]
    fn mul<S: Simd, V: Lanes<S>>(self, a: V, b: V) -> V {
        let product = a * b;
        let numbers = a.simd_eq(a) & b.simd_eq(b);
        (product.simd_ne(product) & numbers).select(V::splat(a.token(), 0.0), product)
    }

    // Where no lane is NaN, no product was zero times infinity.
    #[inline(always)]
    fn mad<S: Simd, V: Lanes<S>>(self, a: V, b: V, c: V) -> V {
        let sum = a * b + c;
        if sum.simd_ne(sum).any_true() { self.mul(a, b) + c } else { sum }
    }

    #[inline(always)]
    fn dot<S: Simd, V: Lanes<S>>(self, op: DotOp, a: [V; 4], b: [V; 4]) -> V {
        let sum = sum_of_products(
            op,
            a,
            b,
            #[inline(always)]
            |a, b| a * b,
            #[inline(always)]
            |a, b| a + b,
        );
        if sum.simd_ne(sum).any_true() {
            return sum_of_products(
                op,
                a,
                b,
                #[inline(always)]
                |a, b| self.mul(a, b),
                #[inline(always)]
                |a, b| a + b,
            );
        }
        sum
    }

    #[inline(always)]
    fn dot_product<S: Simd>(self, op: DotOp, a: f32x4<S>, b: f32x4<S>) -> f32 {
        let a = if op == DotOp::Dph { with_one(a) } else { a };
        let speculated = sum(op, a * b);
        if speculated.is_nan() { sum(op, self.mul(a, b)) } else { speculated }
    }

    #[inline(always)]
    fn floor<S: Simd, V: Lanes<S>>(self, a: V) -> V {
        a.floor()
    }

    #[inline(always)]
    fn scalar<S: Simd, V: Lanes<S>>(self, op: ScalarOp, a: V) -> V {
        let one = V::splat(a.token(), 1.0);
        match op {
            ScalarOp::Rcp => one / (a + 0.0),
            ScalarOp::Rsq => one / (a + 0.0).sqrt(),
            ScalarOp::Ex2 => ex2(a),
            ScalarOp::Lg2 => lg2(a),
        }
    }
}

/// [`crate::isa::elementary::ex2_32`], step by step.
#[inline(always)]
fn ex2<S: Simd, V: Lanes<S>>(a: V) -> V {
    let limit = V::splat(a.token(), EX2_CLAMP);
    let x = a.simd_lt(limit).select(a, limit);
    let x = x.simd_gt(-limit).select(x, -limit);
    let shifted = x + ROUND_MAGIC;
    let n: V::Int = (shifted.to_bits() - ROUND_MAGIC.to_bits()).bitcast();
    let f = x - (shifted - ROUND_MAGIC);
    let [c0, c1, c2, c3, c4, c5] = EX2_POLY;
    let p = f * (f * (f * (f * (f * (f * c5 + c4) + c3) + c2) + c1) + c0) + 1.0;
    let half = n >> 1;
    let r = p * power::<S, V>(half) * power::<S, V>(n - half);
    a.simd_ne(a).select(a, r)
}

/// `2^n`
#[inline(always)]
fn power<S: Simd, V: Lanes<S>>(n: V::Int) -> V {
    ((n + 127) << 23).bitcast()
}

/// [`crate::isa::elementary::lg2_32`], step by step.
#[inline(always)]
fn lg2<S: Simd, V: Lanes<S>>(a: V) -> V {
    let simd = a.token();
    let zero = V::splat(simd, 0.0);
    let tiny = a.simd_lt(V::splat(simd, f32::MIN_POSITIVE));
    let x = tiny.select(a * 8_388_608.0, a);
    let bias: V = tiny.select(V::splat(simd, 23.0), zero);
    let exponent: V::Int = (x.to_bits() - LG2_SPLIT).bitcast();
    let exponent = exponent >> 23;
    let m = V::from_bits(x.to_bits() - (exponent << 23).bitcast::<V::Bits>());
    let s = (m - 1.0) / (m + 1.0);
    let t = s * s;
    let [c0, c1, c2, c3] = LG2_POLY;
    let y = s * (t * (t * (t * c3 + c2) + c1) + c0);
    let r = (exponent.to_float::<V>() - bias) + y;
    let r = a.simd_lt(V::splat(simd, f32::INFINITY)).select(r, a);
    let r = a.simd_eq(zero).select(V::splat(simd, f32::NEG_INFINITY), r);
    a.simd_lt(zero).select(V::splat(simd, f32::NAN), r)
}

/// [`Precision::F24`](crate::isa::numeric::Precision::F24).
#[derive(Clone, Copy)]
pub struct F24 {
    rounding: Rounding,
    /// Whether no operand is subnormal, nor a NaN with a tail: then none needs a flush, and rounding keeps each NaN.
    is_normal: bool,
}

impl F24 {
    /// With any operands.
    pub fn new(rounding: Rounding) -> F24 {
        F24 { rounding, is_normal: false }
    }

    /// [`Rounding::result`].
    #[inline(always)]
    fn result<S: Simd, V: Lanes<S>>(self, x: V) -> V {
        let rounded = flush(self.rounded(x));
        if self.is_normal { rounded } else { x.simd_ne(x).select(V::splat(x.token(), f32::NAN), rounded) }
    }

    /// Rounded to 17 significant bits, and infinite from 2^64 on. Rounding may turn a NaN with a tail into another
    /// number.
    #[inline(always)]
    fn rounded<S: Simd, V: Lanes<S>>(self, x: V) -> V {
        let bits = x.to_bits();
        let rounded = match self.rounding {
            Rounding::Nearest => bits + ((bits >> TAIL & 1) + ((1 << (TAIL - 1)) - 1)),
            Rounding::TowardZero => bits,
        };
        V::from_bits(rounded & !((1 << TAIL) - 1)) * LIMIT * LIMIT.recip()
    }

    /// A function of a double that is not -0, rounded to 17 significant bits; of a NaN, anything.
    #[inline(always)]
    fn scalar_double<S: Simd, W: Doubles<S>>(self, op: ScalarOp, x: W) -> W {
        let one = W::splat(x.token(), 1.0);
        let exact = match op {
            ScalarOp::Rcp => one / x,
            ScalarOp::Rsq => one / x.sqrt(),
            ScalarOp::Ex2 => ex2_double(x),
            ScalarOp::Lg2 => lg2_double(x),
        };
        let bits = exact.to_bits();
        let rounded = match self.rounding {
            Rounding::Nearest => bits + ((bits >> TAIL_64 & 1) + ((1 << (TAIL_64 - 1)) - 1)),
            Rounding::TowardZero => bits,
        };
        W::from_bits(rounded & !((1 << TAIL_64) - 1))
    }

    /// An operand as arithmetic reads it.
    #[inline(always)]
    fn flushed<S: Simd, V: Lanes<S>>(self, a: V) -> V {
        if self.is_normal { a } else { flush(a) }
    }
}

/// Where a number is below the normal ones, or 0.
#[inline(always)]
fn is_small<S: Simd, V: Lanes<S>>(x: V) -> V::Mask {
    x.abs().simd_lt(V::splat(x.token(), SMALLEST))
}

/// [`crate::isa::float24::flush`].
#[inline(always)]
fn flush<S: Simd, V: Lanes<S>>(x: V) -> V {
    is_small(x).select(V::splat(x.token(), 0.0), x)
}

impl Format for F24 {
    #[inline(always)]
    fn assuming_normal(self, is_normal: bool) -> F24 {
        F24 { is_normal, ..self }
    }

    #[inline(always)]
    fn is_subnormal<S: Simd, V: Lanes<S>>(self, a: V) -> V::Mask {
        is_small(a) & a.simd_ne(V::splat(a.token(), 0.0))
    }

    /// [`Rounding::operand`].
    #[inline(always)]
    fn operand<S: Simd, V: Lanes<S>>(self, a: V) -> V {
        let units = a * SUBNORMAL_SCALE;
        let whole = match self.rounding {
            Rounding::Nearest => units.round_ties_even(),
            Rounding::TowardZero => units.trunc(),
        };
        let number = is_small(a).select(whole * SUBNORMAL_SCALE.recip(), self.rounded(a));
        a.simd_ne(a).select(V::splat(a.token(), f32::NAN), number)
    }

    #[inline(always)]
    fn add<S: Simd, V: Lanes<S>>(self, a: V, b: V) -> V {
        self.result(self.flushed(a) + self.flushed(b))
    }

    #[inline(always)]
    fn mul<S: Simd, V: Lanes<S>>(self, a: V, b: V) -> V {
        self.result(F32.mul(self.flushed(a), self.flushed(b)))
    }

    // Where no lane is NaN, no product was zero times infinity.
    #[inline(always)]
    fn mad<S: Simd, V: Lanes<S>>(self, a: V, b: V, c: V) -> V {
        if self.is_normal {
            let sum = self.result(self.result(a * b) + c);
            if !sum.simd_ne(sum).any_true() {
                return sum;
            }
        }
        self.add(self.mul(a, b), c)
    }

    #[inline(always)]
    fn dot<S: Simd, V: Lanes<S>>(self, op: DotOp, a: [V; 4], b: [V; 4]) -> V {
        if self.is_normal {
            let sum = sum_of_products(
                op,
                a,
                b,
                #[inline(always)]
                |a, b| self.result(a * b),
                #[inline(always)]
                |a, b| self.result(a + b),
            );
            if !sum.simd_ne(sum).any_true() {
                return sum;
            }
        }
        sum_of_products(
            op,
            a,
            b,
            #[inline(always)]
            |a, b| self.mul(a, b),
            #[inline(always)]
            |a, b| self.add(a, b),
        )
    }

    #[inline(always)]
    fn dot_product<S: Simd>(self, op: DotOp, a: f32x4<S>, b: f32x4<S>) -> f32 {
        let p = self.mul(if op == DotOp::Dph { with_one(a) } else { a }, b);
        // x + y and z + w.
        let pairs = self.add(p, f32x4::load_array(p.token(), [p[1], p[0], p[3], p[2]]));
        let rest = if op == DotOp::Dp3 { p[2] } else { pairs[2] };
        self.add(pairs, f32x4::splat(p.token(), rest))[0]
    }

    #[inline(always)]
    fn floor<S: Simd, V: Lanes<S>>(self, a: V) -> V {
        self.result(self.flushed(a).floor())
    }

    /// In double precision, rounded once.
    #[inline(always)]
    fn scalar<S: Simd, V: Lanes<S>>(self, op: ScalarOp, a: V) -> V {
        let [low, high] = flush(a).doubles();
        let doubles = [self.scalar_double::<S, V::Wide>(op, low), self.scalar_double::<S, V::Wide>(op, high)];
        let number = flush(V::of_doubles(doubles) * LIMIT * LIMIT.recip());
        a.simd_ne(a).select(V::splat(a.token(), f32::NAN), number)
    }
}

/// [`crate::isa::elementary::ex2_64`], step by step; of a NaN, anything.
#[inline(always)]
fn ex2_double<S: Simd, W: Doubles<S>>(a: W) -> W {
    let simd = a.token();
    let (limit, tiny) = (W::splat(simd, EX2_CLAMP.into()), W::splat(simd, EX2_TINY_64));
    let x = a.simd_lt(limit).select(a, limit);
    let x = x.simd_gt(-limit).select(x, -limit);
    let x = x.abs().simd_gt(tiny).select(x, tiny.copysign(x));
    let shifted = x + ROUND_MAGIC_64;
    let n = shifted.to_bits() - ROUND_MAGIC_64.to_bits();
    let f = x - (shifted - ROUND_MAGIC_64);
    let power = W::from_bits((n + 1023) << 52);
    (f * polynomial(f, &EX2_POLY_64) + 1.0) * power
}

/// [`crate::isa::elementary::lg2_64`], step by step; of a NaN, anything.
#[inline(always)]
fn lg2_double<S: Simd, W: Doubles<S>>(a: W) -> W {
    /// Makes exponents positive.
    const BIAS: u64 = 1024;
    let (simd, bits) = (a.token(), a.to_bits());
    let zero = W::splat(simd, 0.0);
    let exponent = (bits - LG2_SPLIT_64 + (BIAS << 52)) >> 52;
    let m = W::from_bits(bits - (exponent << 52) + (BIAS << 52));
    let s = (m - 1.0) / (m + 1.0);
    let y = s * polynomial(s * s, &LG2_POLY_64);
    // 2^52 with an integer in its last bits is their sum.
    let whole = 1u64 << 52;
    let exponent = W::from_bits(exponent | (whole as f64).to_bits()) - (whole + BIAS) as f64;
    let r = exponent + y;
    let r = a.simd_lt(W::splat(simd, f64::INFINITY)).select(r, a);
    let r = a.simd_eq(zero).select(W::splat(simd, f64::NEG_INFINITY), r);
    a.simd_lt(zero).select(W::splat(simd, f64::NAN), r)
}

/// `c0 + x * (c1 + x * (c2 ...))`.
#[inline(always)]
fn polynomial<S: Simd, W: Doubles<S>>(x: W, coefficients: &[f64]) -> W {
    let mut n = coefficients.len() - 1;
    let mut sum = W::splat(x.token(), coefficients[n]);
    while n > 0 {
        n -= 1;
        sum = x * sum + coefficients[n];
    }
    sum
}
