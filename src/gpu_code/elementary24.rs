//! EX2 and LG2 in float24: the exact value, rounded once.
//!
//! The CPU computes them in double precision, which a GPU may lack. Here fractions of 64 bits, in two words, have an
//! error below 2^-43. That is enough: a test compares every float24 argument.

use super::code::{Binary, Id, Unary};
use super::lower::Lowering;
use super::scalar::{Parts, Special, UNIT};
use crate::isa::elementary::{LG2_POLY_64, LG2_SPLIT};
use crate::isa::float24::Rounding;

/// `(2^f - 1) / f` on [0, 1], from the constant term up, times 2^64. Chebyshev fit, within 2^-49.
const EX2_POLY: [u64; 10] = [
    0xB172_17F7_D1CF_27E7,
    0x3D7F_7BFF_05CA_FA3C,
    0x0E35_846B_7A17_E884,
    0x0276_556E_603A_4295,
    0x0057_61FC_F6F7_D887,
    0x000A_1852_6F2B_86FC,
    0x0000_FFCF_D777_E1A0,
    0x0000_164A_B203_38C7,
    0x0000_019B_BC09_24F4,
    0x0000_0029_A26B_BD41,
];

/// [`LG2_POLY_64`] divided by 4, times 2^64.
const LG2_POLY: [u64; 7] = {
    let mut fractions = [0; 7];
    let mut n = 0;
    while n < fractions.len() {
        fractions[n] = (LG2_POLY_64[n] * 4_611_686_018_427_387_904.0) as u64;
        n += 1;
    }
    fractions
};

/// Beyond this magnitude 2^x is 0 or infinity in float24.
const EX2_LIMIT: f32 = 100.0;
/// Nearer to zero, 2^x rounds as if the argument were this.
const EX2_LEAST: f32 = f32::from_bits((127 - 20) << 23);

/// A fraction of 64 bits, below 1.
#[derive(Clone, Copy)]
struct Fraction {
    high: Id,
    low: Id,
}

impl Lowering<'_> {
    pub(super) fn ex2_24(&mut self, rounding: Rounding, x: Id) -> Id {
        let input = self.code.unary(Unary::ToBits, x);
        let sign = self.code.with(Binary::ShiftRight, input, 31);
        let magnitude = self.code.with(Binary::And, input, 0x7FFF_FFFF);
        let most = self.code.uint(EX2_LIMIT.to_bits());
        let magnitude = self.code.binary(Binary::Min, magnitude, most);
        let least = self.code.uint(EX2_LEAST.to_bits());
        let is_small = self.code.binary(Binary::Less, magnitude, least);
        let magnitude = self.code.select(is_small, least, magnitude);
        let a = self.code.unary(Unary::FromBits, magnitude);
        // Whole part and 48 bits of the fraction, all exact.
        let whole = self.code.unary(Unary::Truncate, a);
        let (high, rest) = self.next_bits(a, whole);
        let (low, _) = self.next_bits(rest, high);
        let fraction = self.fraction(high, low);
        // -(whole + f) = -(whole + 1) + (1 - f).
        let fraction = self.negated_if(sign, fraction);
        let any = self.code.binary(Binary::Or, fraction.high, fraction.low);
        let [zero, one] = [0, 1].map(|n| self.code.uint(n));
        let borrow = self.where_equal(any, 0, zero, sign);
        let all = self.code.binary(Binary::Sub, zero, sign);
        let signed = self.code.binary(Binary::Xor, whole, all);
        let signed = self.code.binary(Binary::Add, signed, sign);
        let n = self.code.binary(Binary::Sub, signed, borrow);

        let sum = self.fixed_polynomial(fraction, &EX2_POLY);
        let p = self.product(fraction, sum);
        let significand = self.code.with(Binary::ShiftRight, p.high, 9);
        let significand = self.code.with(Binary::Or, significand, UNIT);
        let below = self.code.with(Binary::And, p.high, 0x1FF);
        let below = self.code.binary(Binary::Or, below, p.low);
        let sticky = self.where_equal(below, 0, zero, one);
        let significand = self.rounded_significand(rounding, significand, sticky, 7);
        let field = self.code.with(Binary::Add, n, 126);
        let bits = self.packed(field, significand);
        let result = self.narrowed(bits, bits, true);
        let bits = self.code.unary(Unary::ToBits, result);
        let bits = self.nan_where_nan(x, bits);
        self.code.unary(Unary::FromBits, bits)
    }

    pub(super) fn lg2_24(&mut self, rounding: Rounding, x: Id) -> Id {
        let Parts { significand, exponent } = self.parts(x);
        let [zero, one] = [0, 1].map(|n| self.code.uint(n));
        // x = m * 2^power, m in [sqrt(1/2), sqrt(2)) or nearly so.
        let is_low = self.code.with(Binary::Less, significand, UNIT | LG2_SPLIT & (UNIT - 1));
        let above = self.code.select(is_low, zero, one);
        let power = self.code.with(Binary::Sub, exponent, 127);
        let power = self.code.binary(Binary::Add, power, above);
        // s = |m - 1| / (m + 1) = significand * 2^(-places - 24), with 48 bits.
        let unit = self.code.uint(UNIT);
        let unit = self.code.binary(Binary::ShiftLeft, unit, above);
        let greater = self.code.binary(Binary::Sub, significand, unit);
        let less = self.code.binary(Binary::Sub, unit, significand);
        let difference = self.code.select(is_low, greater, less);
        let is_one = self.code.with(Binary::Equal, difference, 0);
        let difference = self.code.select(is_one, one, difference);
        let sum = self.code.binary(Binary::Add, significand, unit);
        // Both have seven zeros at their end; the sum has 25 bits.
        let divisor = self.code.with(Binary::ShiftRight, sum, 1);
        let highest = self.code.unary(Unary::HighestBit, difference);
        let place = self.code.uint(23);
        let moved = self.code.binary(Binary::Sub, place, highest);
        let dividend = self.code.binary(Binary::ShiftLeft, difference, moved);
        let quotient = self.quotient(dividend, divisor);
        // Another 24 bits, not exact: the remainder through the divisor.
        let remainder = self.code.unary(Unary::FromUnsigned, quotient.remainder);
        let d = self.code.with(Binary::Add, divisor, (127 << 23) - UNIT);
        let d = self.code.unary(Unary::FromBits, d);
        let inverse = self.inverse(d);
        let rest = self.code.binary(Binary::FloatMul, remainder, inverse);
        let two = self.code.float(2.0);
        let rest = self.code.binary(Binary::FloatMul, rest, two);
        let rest = self.code.unary(Unary::Truncate, rest);
        let rest = self.code.with(Binary::Min, rest, (1 << 24) - 1);
        let s = self.fraction(quotient.whole, rest);
        // s is this fraction, which is at least 1/2, by 2^-places.
        let places = self.code.binary(Binary::Add, moved, quotient.doubled);

        let absolute = self.shifted(s, places);
        let square = self.product(absolute, absolute);
        let sum = self.fixed_polynomial(square, &LG2_POLY);
        let y = self.product(s, sum);
        // With a power: |power| and y in units of 2^-56; y has the opposite sign if m is below 1.
        let sign = self.code.with(Binary::ShiftRight, power, 31);
        let negative = self.code.binary(Binary::Sub, zero, power);
        let is_positive = self.code.with(Binary::Equal, sign, 0);
        let whole = self.code.select(is_positive, power, negative);
        let base = self.code.with(Binary::ShiftLeft, whole, 24);
        let base = Fraction { high: base, low: zero };
        let moved = self.code.with(Binary::Add, places, 6);
        let small = self.shifted(y, moved);
        let high = self.code.select(is_one, zero, small.high);
        let low = self.code.select(is_one, zero, small.low);
        let differ = self.code.binary(Binary::Xor, sign, above);
        let small = self.negated_if(differ, Fraction { high, low });
        let sum = self.sum(base, small);
        // Without: y alone.
        let high = self.where_equal(power, 0, y.high, sum.high);
        let low = self.where_equal(power, 0, y.low, sum.low);
        let sign = self.where_equal(power, 0, above, sign);
        let alone = self.code.uint(127 - 31);
        let alone = self.code.binary(Binary::Sub, alone, places);
        let beside = self.code.uint(126 - 24);
        let field = self.where_equal(power, 0, alone, beside);

        let highest = self.code.unary(Unary::HighestBit, high);
        let places = self.code.with(Binary::Sub, highest, 23);
        let places = self.code.with(Binary::And, places, 15);
        let significand = self.code.binary(Binary::ShiftRight, high, places);
        let back = self.code.binary(Binary::ShiftLeft, significand, places);
        let below = self.code.binary(Binary::Xor, back, high);
        let below = self.code.binary(Binary::Or, below, low);
        let sticky = self.where_equal(below, 0, zero, one);
        let significand = self.rounded_significand(rounding, significand, sticky, 7);
        let field = self.code.binary(Binary::Add, field, highest);
        let bits = self.packed(field, significand);
        let sign = self.code.with(Binary::ShiftLeft, sign, 31);
        let bits = self.code.binary(Binary::Or, bits, sign);

        let input = self.code.unary(Unary::ToBits, x);
        let bits = self.where_equal(input, 1.0f32.to_bits(), zero, bits);
        self.with_special_results(x, bits, Special::LG2)
    }

    /// The next 24 bits of a number without its whole part: they, and the number times 2^24.
    fn next_bits(&mut self, x: Id, whole: Id) -> (Id, Id) {
        let whole = self.code.unary(Unary::FromUnsigned, whole);
        let rest = self.code.binary(Binary::FloatSub, x, whole);
        let scale = self.code.float((1 << 24) as f32);
        let rest = self.code.binary(Binary::FloatMul, rest, scale);
        (self.code.unary(Unary::Truncate, rest), rest)
    }

    /// 48 bits, 24 in each word.
    fn fraction(&mut self, high: Id, low: Id) -> Fraction {
        let upper = self.code.with(Binary::ShiftLeft, high, 8);
        let middle = self.code.with(Binary::ShiftRight, low, 16);
        Fraction { high: self.code.binary(Binary::Or, upper, middle), low: self.code.with(Binary::ShiftLeft, low, 16) }
    }

    /// `c0 + x * (c1 + x * (c2 ...))`.
    fn fixed_polynomial(&mut self, x: Fraction, coefficients: &[u64]) -> Fraction {
        let constant = |this: &mut Self, c: u64| Fraction {
            high: this.code.uint((c >> 32) as u32),
            low: this.code.uint(c as u32),
        };
        let (last, rest) = coefficients.split_last().expect("there are coefficients");
        let mut sum = constant(self, *last);
        for &c in rest.iter().rev() {
            let product = self.product(x, sum);
            let c = constant(self, c);
            sum = self.sum(c, product);
        }
        sum
    }

    /// The product, too small by at most 3 * 2^-64.
    fn product(&mut self, a: Fraction, b: Fraction) -> Fraction {
        let low = self.code.binary(Binary::Mul, a.high, b.high);
        let high = self.code.binary(Binary::MulHigh, a.high, b.high);
        let first = self.code.binary(Binary::MulHigh, a.high, b.low);
        let second = self.code.binary(Binary::MulHigh, a.low, b.high);
        let zero = self.code.uint(0);
        let sum = self.sum(Fraction { high, low }, Fraction { high: zero, low: first });
        self.sum(sum, Fraction { high: zero, low: second })
    }

    fn sum(&mut self, a: Fraction, b: Fraction) -> Fraction {
        let low = self.code.binary(Binary::Add, a.low, b.low);
        let carries = self.code.binary(Binary::Less, low, b.low);
        let [zero, one] = [0, 1].map(|n| self.code.uint(n));
        let carry = self.code.select(carries, one, zero);
        let high = if b.high == zero { a.high } else { self.code.binary(Binary::Add, a.high, b.high) };
        Fraction { high: self.code.binary(Binary::Add, high, carry), low }
    }

    /// 1 less the fraction, or 0 for 0, if `sign` is 1.
    fn negated_if(&mut self, sign: Id, x: Fraction) -> Fraction {
        let zero = self.code.uint(0);
        let all = self.code.binary(Binary::Sub, zero, sign);
        let high = self.code.binary(Binary::Xor, x.high, all);
        let low = self.code.binary(Binary::Xor, x.low, all);
        self.sum(Fraction { high, low }, Fraction { high: zero, low: sign })
    }

    /// The fraction by 2^-places, for 0 to 31 places.
    fn shifted(&mut self, x: Fraction, places: Id) -> Fraction {
        let high = self.code.binary(Binary::ShiftRight, x.high, places);
        let low = self.code.binary(Binary::ShiftRight, x.low, places);
        // 32 - places may be 32: two shifts.
        let rest = self.code.with(Binary::Xor, places, 31);
        let carried = self.code.with(Binary::ShiftLeft, x.high, 1);
        let carried = self.code.binary(Binary::ShiftLeft, carried, rest);
        Fraction { high, low: self.code.binary(Binary::Or, low, carried) }
    }
}
