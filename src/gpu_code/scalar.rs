//! RCP, RSQ, EX2 and LG2 from operations that every driver computes exactly.
//!
//! Drivers may be wrong by some units in the last place of a quotient, a square root, an exponential. So a quotient's
//! first guess is Newton's iteration in additions and multiplications, and integers correct it: the remainder of a
//! guess that is wrong by a few units fits 32 bits, although the product does not, since its high bits cancel.

use super::code::{Binary, Id, Scalar, Unary};
use super::lower::Lowering;
use crate::isa::ScalarOp;
use crate::isa::elementary::{EX2_CLAMP, EX2_POLY, LG2_POLY, LG2_SPLIT, ROUND_MAGIC};
use crate::isa::numeric::Precision;

pub(super) const INFINITY: u32 = f32::INFINITY.to_bits();
pub(super) const NAN: u32 = f32::NAN.to_bits();
/// The implied bit of a significand.
pub(super) const UNIT: u32 = 1 << 23;

/// A positive number: `significand * 2^(exponent - 150)`.
pub(super) struct Parts {
    /// 24 bits, the highest set.
    pub(super) significand: Id,
    /// With f32's bias; below 1 for subnormals. As a signed number's bits.
    pub(super) exponent: Id,
}

/// A quotient of significands, truncated.
pub(super) struct Quotient {
    /// 24 bits, the highest set.
    pub(super) whole: Id,
    /// Below the divisor.
    pub(super) remainder: Id,
    /// 1 if the dividend was less than the divisor, and so doubled.
    pub(super) doubled: Id,
}

/// The bits of a function's results where its formula does not hold. Those of negative numbers and of NaN are NaN.
#[derive(Clone, Copy)]
pub(super) struct Special {
    pub(super) of_infinity: u32,
    pub(super) of_zero: u32,
}

impl Special {
    pub(super) const LG2: Special = Special { of_infinity: INFINITY, of_zero: 1 << 31 | INFINITY };
    pub(super) const RSQ: Special = Special { of_infinity: 0, of_zero: INFINITY };
    const SQUARE_ROOT: Special = Special { of_infinity: INFINITY, of_zero: 0 };
}

impl Lowering<'_> {
    /// A scalar operation. The argument needs no flush.
    pub(super) fn scalar(&mut self, op: ScalarOp, x: Id) -> Id {
        match (self.precision, op) {
            (Precision::F32, ScalarOp::Rcp) => self.rcp(x),
            (Precision::F32, ScalarOp::Rsq) => self.rsq(x),
            (Precision::F32, ScalarOp::Ex2) => self.ex2(x),
            (Precision::F32, ScalarOp::Lg2) => self.lg2(x),
            (Precision::F24 { rounding }, op) => self.scalar24(op, rounding, x),
        }
    }

    /// `1 / x`, rounded to nearest; infinity for both zeros.
    fn rcp(&mut self, x: Id) -> Id {
        let parts = self.parts(x);
        let one = self.code.uint(UNIT);
        let quotient = self.quotient(one, parts.significand);
        // 1 is 2^23 * 2^(127 - 150).
        let bias = self.code.uint(127 + 127);
        let exponent = self.code.binary(Binary::Sub, bias, parts.exponent);
        let bits = self.rounded_quotient(&quotient, parts.significand, exponent);

        let input = self.code.unary(Unary::ToBits, x);
        let sign = self.code.with(Binary::And, input, 1 << 31);
        let magnitude = self.code.with(Binary::And, input, 0x7FFF_FFFF);
        let bits = self.code.binary(Binary::Or, bits, sign);
        let bits = self.where_equal(magnitude, INFINITY, sign, bits);
        let infinity = self.code.uint(INFINITY);
        let bits = self.where_equal(magnitude, 0, infinity, bits);
        let bits = self.nan_where_nan(x, bits);
        self.code.unary(Unary::FromBits, bits)
    }

    /// `1 / sqrt(x)`, in two steps, each rounded to nearest.
    fn rsq(&mut self, x: Id) -> Id {
        let root = self.sqrt(x);
        self.rcp(root)
    }

    /// The square root, rounded to nearest; NaN for a negative number, +0 for both zeros.
    fn sqrt(&mut self, x: Id) -> Id {
        let Parts { significand, exponent } = self.parts(x);
        // x = (significand * 2^23 or 24) * 2^(2 * half - 2 * 150 + 150 - 23): an even power.
        let odd = self.code.with(Binary::And, exponent, 1);
        let even = self.code.with(Binary::Xor, odd, 1);
        let shift = self.code.with(Binary::Add, even, 23);
        // The low 32 bits of the radicand, of 47 or 48 bits.
        let radicand = self.code.binary(Binary::ShiftLeft, significand, shift);

        // 1 / sqrt(m) for m in [1, 4).
        let mantissa = self.code.with(Binary::And, significand, UNIT - 1);
        let one = self.code.uint(127 << 23);
        let field = self.code.with(Binary::ShiftLeft, even, 23);
        let field = self.code.binary(Binary::Add, one, field);
        let bits = self.code.binary(Binary::Or, field, mantissa);
        let m = self.code.unary(Unary::FromBits, bits);
        let y = self.inverse_root(m, bits);
        let guess = self.code.binary(Binary::FloatMul, m, y);
        let scale = self.code.float(UNIT as f32);
        let guess = self.code.binary(Binary::FloatMul, guess, scale);
        let mut root = self.code.unary(Unary::Truncate, guess);
        let square = self.code.binary(Binary::Mul, root, root);
        let mut rest = self.code.binary(Binary::Sub, radicand, square);
        // (r + 1)^2 = r^2 + 2 r + 1. The rest is that of the truncated root if it is in 0..=2 r.
        for _ in 0..MOST_ABOVE {
            let negative = self.code.with(Binary::ShiftRight, rest, 31);
            let twice = self.code.with(Binary::ShiftLeft, root, 1);
            let step = self.code.with(Binary::Sub, twice, 1);
            let step = self.code.binary(Binary::Mul, step, negative);
            rest = self.code.binary(Binary::Add, rest, step);
            root = self.code.binary(Binary::Sub, root, negative);
        }
        for _ in 0..MOST_BELOW {
            let twice = self.code.with(Binary::ShiftLeft, root, 1);
            let fits = self.code.binary(Binary::LessSigned, twice, rest);
            let step = self.code.with(Binary::Add, twice, 1);
            let less = self.code.binary(Binary::Sub, rest, step);
            rest = self.code.select(fits, less, rest);
            let more = self.code.with(Binary::Add, root, 1);
            root = self.code.select(fits, more, root);
        }
        // Half a unit more is (r + 1/2)^2 = r^2 + r + 1/4.
        let up = self.code.binary(Binary::LessSigned, root, rest);
        let more = self.code.with(Binary::Add, root, 1);
        let root = self.code.select(up, more, root);
        // The exponent of the root: that of x, halved. An odd one has an odd bias.
        let biased = self.code.with(Binary::Add, exponent, 127);
        let half = self.code.with(Binary::ShiftRightSigned, biased, 1);
        let half = self.code.with(Binary::Sub, half, 1);
        let bits = self.code.with(Binary::ShiftLeft, half, 23);
        let bits = self.code.binary(Binary::Add, bits, root);

        self.with_special_results(x, bits, Special::SQUARE_ROOT)
    }

    /// `2^x`: the steps of [`crate::isa::elementary::ex2_32`].
    fn ex2(&mut self, x: Id) -> Id {
        let [most, least] = [EX2_CLAMP, -EX2_CLAMP].map(|limit| self.code.float(limit));
        let below = self.code.binary(Binary::FloatLess, x, most);
        let a = self.code.select(below, x, most);
        let above = self.code.binary(Binary::FloatLess, least, a);
        let a = self.code.select(above, a, least);
        let magic = self.code.float(ROUND_MAGIC);
        let shifted = self.code.binary(Binary::FloatAdd, a, magic);
        let bits = self.code.unary(Unary::ToBits, shifted);
        let n = self.code.with(Binary::Sub, bits, ROUND_MAGIC.to_bits());
        let whole = self.code.binary(Binary::FloatSub, shifted, magic);
        let f = self.code.binary(Binary::FloatSub, a, whole);
        let sum = self.polynomial(f, &EX2_POLY);
        let product = self.code.binary(Binary::FloatMul, f, sum);
        let one = self.code.float(1.0);
        let p = self.code.binary(Binary::FloatAdd, one, product);
        let half = self.code.with(Binary::ShiftRightSigned, n, 1);
        let other = self.code.binary(Binary::Sub, n, half);
        let [first, second] = [half, other].map(|n| {
            let biased = self.code.with(Binary::Add, n, 127);
            let bits = self.code.with(Binary::ShiftLeft, biased, 23);
            self.code.unary(Unary::FromBits, bits)
        });
        let r = self.code.binary(Binary::FloatMul, p, first);
        let r = self.code.binary(Binary::FloatMul, r, second);
        let bits = self.code.unary(Unary::ToBits, r);
        let bits = self.nan_where_nan(x, bits);
        self.code.unary(Unary::FromBits, bits)
    }

    /// `log2(x)`: the steps of [`crate::isa::elementary::lg2_32`].
    fn lg2(&mut self, x: Id) -> Id {
        // What the steps there do by a multiplication of subnormals: significand and exponent.
        let Parts { significand, exponent } = self.parts(x);
        let magnitude = self.code.with(Binary::Sub, significand, UNIT);
        // From sqrt(1/2) to sqrt(2): significands from that of sqrt(1/2) on count as below 1.
        let is_low = self.code.with(Binary::Less, magnitude, LG2_SPLIT & (UNIT - 1));
        let [zero, one] = [0, 1].map(|n| self.code.uint(n));
        let above = self.code.select(is_low, zero, one);
        let field = self.code.uint(127);
        let field = self.code.binary(Binary::Sub, field, above);
        let bits = self.code.with(Binary::ShiftLeft, field, 23);
        let bits = self.code.binary(Binary::Or, bits, magnitude);
        let m = self.code.unary(Unary::FromBits, bits);
        let power = self.code.with(Binary::Sub, exponent, 127);
        let power = self.code.binary(Binary::Add, power, above);

        let unit = self.code.float(1.0);
        let f = self.code.binary(Binary::FloatSub, m, unit);
        let g = self.code.binary(Binary::FloatAdd, m, unit);
        let s = self.divide(f, g);
        let t = self.code.binary(Binary::FloatMul, s, s);
        let sum = self.polynomial(t, &LG2_POLY);
        let y = self.code.binary(Binary::FloatMul, s, sum);
        let power = self.code.unary(Unary::FromSigned, power);
        let r = self.code.binary(Binary::FloatAdd, power, y);

        let bits = self.code.unary(Unary::ToBits, r);
        self.with_special_results(x, bits, Special::LG2)
    }

    /// `f / g`, rounded to nearest, for normal `g` > 0 and a normal result or `f` = +0.
    fn divide(&mut self, f: Id, g: Id) -> Id {
        let (a, b) = (self.parts(f), self.parts(g));
        let quotient = self.quotient(a.significand, b.significand);
        let exponent = self.code.binary(Binary::Sub, a.exponent, b.exponent);
        let exponent = self.code.with(Binary::Add, exponent, 127);
        let bits = self.rounded_quotient(&quotient, b.significand, exponent);
        let input = self.code.unary(Unary::ToBits, f);
        let sign = self.code.with(Binary::And, input, 1 << 31);
        let bits = self.code.binary(Binary::Or, bits, sign);
        let bits = self.where_equal(input, 0, input, bits);
        self.code.unary(Unary::FromBits, bits)
    }

    /// `c0 + x * (c1 + x * (c2 ...))`.
    fn polynomial(&mut self, x: Id, coefficients: &[f32]) -> Id {
        let (last, rest) = coefficients.split_last().expect("there are coefficients");
        let mut sum = self.code.float(*last);
        for &c in rest.iter().rev() {
            let product = self.code.binary(Binary::FloatMul, x, sum);
            let c = self.code.float(c);
            sum = self.code.binary(Binary::FloatAdd, c, product);
        }
        sum
    }

    /// Significand and exponent of a number that is not zero; of others, anything.
    pub(super) fn parts(&mut self, x: Id) -> Parts {
        let magnitude = self.magnitude(x);
        // Subnormals move up until their highest bit is that of normal numbers.
        let highest = self.code.unary(Unary::HighestBit, magnitude);
        let highest = self.code.with(Binary::Min, highest, 23);
        let place = self.code.uint(23);
        let moved = self.code.binary(Binary::Sub, place, highest);
        let significand = self.code.binary(Binary::ShiftLeft, magnitude, moved);
        let significand = self.code.with(Binary::And, significand, UNIT - 1);
        let significand = self.code.with(Binary::Or, significand, UNIT);
        let field = self.code.with(Binary::ShiftRight, magnitude, 23);
        let is_subnormal = self.code.with(Binary::Equal, field, 0);
        let one = self.code.uint(1);
        let field = self.code.select(is_subnormal, one, field);
        Parts { significand, exponent: self.code.binary(Binary::Sub, field, moved) }
    }

    /// The quotient of significands of 24 bits.
    pub(super) fn quotient(&mut self, a: Id, b: Id) -> Quotient {
        let is_less = self.code.binary(Binary::Less, a, b);
        let [zero, one] = [0, 1].map(|n| self.code.uint(n));
        let doubled = self.code.select(is_less, one, zero);
        let [x, y] = [a, b].map(|significand| {
            let bits = self.code.with(Binary::Add, significand, (127 << 23) - UNIT);
            self.code.unary(Unary::FromBits, bits)
        });
        // In [1/2, 2), then in [1, 2).
        let inverse = self.inverse(y);
        let guess = self.code.binary(Binary::FloatMul, x, inverse);
        let more = self.code.with(Binary::ShiftLeft, doubled, 23);
        let bits = self.code.unary(Unary::ToBits, guess);
        let bits = self.code.binary(Binary::Add, bits, more);
        let guess = self.code.unary(Unary::FromBits, bits);
        let scale = self.code.float(UNIT as f32);
        let guess = self.code.binary(Binary::FloatMul, guess, scale);
        let mut whole = self.code.unary(Unary::Truncate, guess);

        // The low 32 bits of the dividend less the product.
        let shift = self.code.with(Binary::Add, doubled, 23);
        let dividend = self.code.binary(Binary::ShiftLeft, a, shift);
        let product = self.code.binary(Binary::Mul, whole, b);
        let mut remainder = self.code.binary(Binary::Sub, dividend, product);
        for _ in 0..MOST_ABOVE {
            let negative = self.code.with(Binary::ShiftRight, remainder, 31);
            let step = self.code.binary(Binary::Mul, b, negative);
            remainder = self.code.binary(Binary::Add, remainder, step);
            whole = self.code.binary(Binary::Sub, whole, negative);
        }
        for _ in 0..MOST_BELOW {
            let is_less = self.code.binary(Binary::LessSigned, remainder, b);
            let less = self.code.binary(Binary::Sub, remainder, b);
            remainder = self.code.select(is_less, remainder, less);
            let more = self.code.with(Binary::Add, whole, 1);
            whole = self.code.select(is_less, whole, more);
        }
        Quotient { whole, remainder, doubled }
    }

    /// Bits of a positive quotient with this exponent, were the dividend not less; rounded to nearest, to subnormals
    /// and infinity too. No quotient of two f32 numbers lies in the middle of two others.
    fn rounded_quotient(&mut self, quotient: &Quotient, divisor: Id, exponent: Id) -> Id {
        let exponent = self.code.binary(Binary::Sub, exponent, quotient.doubled);
        // Half, then what lies below half.
        let twice = self.code.with(Binary::ShiftLeft, quotient.remainder, 1);
        let is_less = self.code.binary(Binary::Less, twice, divisor);
        let is_exact = self.code.with(Binary::Equal, quotient.remainder, 0);
        let [zero, one, three] = [0, 1, 3].map(|n| self.code.uint(n));
        let tail = self.code.select(is_less, one, three);
        let tail = self.code.select(is_exact, zero, tail);
        let value = self.code.with(Binary::ShiftLeft, quotient.whole, 2);
        let value = self.code.binary(Binary::Or, value, tail);
        // Below f32's least exponent the value moves right; what drops out counts as below half.
        let places = self.code.binary(Binary::Sub, one, exponent);
        let is_negative = self.code.with(Binary::LessSigned, places, 0);
        let places = self.code.select(is_negative, zero, places);
        let places = self.code.with(Binary::Min, places, 30);
        let moved = self.code.binary(Binary::ShiftRight, value, places);
        let back = self.code.binary(Binary::ShiftLeft, moved, places);
        let is_whole = self.code.binary(Binary::Equal, back, value);
        let sticky = self.code.select(is_whole, zero, one);
        let moved = self.code.binary(Binary::Or, moved, sticky);
        let even = self.code.with(Binary::ShiftRight, moved, 2);
        let even = self.code.with(Binary::And, even, 1);
        let sum = self.code.with(Binary::Add, moved, 1);
        let sum = self.code.binary(Binary::Add, sum, even);
        let significand = self.code.with(Binary::ShiftRight, sum, 2);

        let field = self.code.with(Binary::Sub, exponent, 1);
        let is_negative = self.code.with(Binary::LessSigned, field, 0);
        let field = self.code.select(is_negative, zero, field);
        let field = self.code.with(Binary::Min, field, 254);
        let bits = self.code.with(Binary::ShiftLeft, field, 23);
        let bits = self.code.binary(Binary::Add, bits, significand);
        self.code.with(Binary::Min, bits, INFINITY)
    }

    /// Nearly `1 / y` for `y` in [1, 2).
    pub(super) fn inverse(&mut self, y: Id) -> Id {
        let bits = self.code.unary(Unary::ToBits, y);
        let magic = self.code.uint(0x7EF3_11C7);
        let bits = self.code.binary(Binary::Sub, magic, bits);
        let mut x = self.code.unary(Unary::FromBits, bits);
        let two = self.code.float(2.0);
        for _ in 0..3 {
            let product = self.code.binary(Binary::FloatMul, y, x);
            let error = self.code.binary(Binary::FloatSub, two, product);
            x = self.code.binary(Binary::FloatMul, x, error);
        }
        x
    }

    /// Nearly `1 / sqrt(m)` for `m` in [1, 4), from its bits.
    pub(super) fn inverse_root(&mut self, m: Id, bits: Id) -> Id {
        let half = self.code.with(Binary::ShiftRight, bits, 1);
        let magic = self.code.uint(0x5F37_59DF);
        let bits = self.code.binary(Binary::Sub, magic, half);
        let mut y = self.code.unary(Unary::FromBits, bits);
        let [one_half, three_halves] = [0.5, 1.5].map(|x| self.code.float(x));
        let half = self.code.binary(Binary::FloatMul, m, one_half);
        for _ in 0..4 {
            let square = self.code.binary(Binary::FloatMul, y, y);
            let product = self.code.binary(Binary::FloatMul, half, square);
            let error = self.code.binary(Binary::FloatSub, three_halves, product);
            y = self.code.binary(Binary::FloatMul, y, error);
        }
        y
    }

    /// The result of a function of `x` whose formula gives `bits`.
    pub(super) fn with_special_results(&mut self, x: Id, bits: Id, special: Special) -> Id {
        let input = self.code.unary(Unary::ToBits, x);
        let magnitude = self.code.with(Binary::And, input, 0x7FFF_FFFF);
        let [of_infinity, of_zero, nan] = [special.of_infinity, special.of_zero, NAN].map(|bits| self.code.uint(bits));
        let bits = self.where_equal(magnitude, INFINITY, of_infinity, bits);
        let is_negative = self.code.with(Binary::LessSigned, input, 0);
        let bits = self.code.select(is_negative, nan, bits);
        let bits = self.where_equal(magnitude, 0, of_zero, bits);
        let bits = self.nan_where_nan(x, bits);
        self.code.unary(Unary::FromBits, bits)
    }

    /// `yes` where the integer `x` equals `bits`.
    pub(super) fn where_equal(&mut self, x: Id, bits: u32, yes: Id, no: Id) -> Id {
        let is = self.code.with(Binary::Equal, x, bits);
        self.code.select(is, yes, no)
    }

    /// The bits, or a NaN's where the float `x` is NaN.
    pub(super) fn nan_where_nan(&mut self, x: Id, bits: Id) -> Id {
        let is_nan = self.is_nan(x);
        let nan = self.code.like(bits, Scalar::Uint, NAN);
        self.code.select(is_nan, nan, bits)
    }
}

/// Units by which a truncated guess may be too large and too small. Found with all divisors of 1, all square roots, all
/// quotients of LG2, and 300 million random quotients.
const MOST_ABOVE: u32 = 3;
const MOST_BELOW: u32 = 2;
