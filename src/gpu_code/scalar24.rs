//! RCP and RSQ in float24: the exact value, rounded once.

use super::code::{Binary, Id, Unary};
use super::lower::Lowering;
use super::scalar::{INFINITY, Parts, Special, UNIT};
use crate::isa::ScalarOp;
use crate::isa::float24::Rounding;

impl Lowering<'_> {
    /// A scalar operation on a float24 number that is zero or normal.
    pub(super) fn scalar24(&mut self, op: ScalarOp, rounding: Rounding, x: Id) -> Id {
        match op {
            ScalarOp::Rcp => self.rcp24(rounding, x),
            ScalarOp::Rsq => self.rsq24(rounding, x),
            ScalarOp::Ex2 => self.ex2_24(rounding, x),
            ScalarOp::Lg2 => self.lg2_24(rounding, x),
        }
    }

    fn rcp24(&mut self, rounding: Rounding, x: Id) -> Id {
        let Parts { significand, exponent } = self.parts(x);
        let one = self.code.uint(UNIT);
        let quotient = self.quotient(one, significand);
        let bias = self.code.uint(127 + 126);
        let field = self.code.binary(Binary::Sub, bias, exponent);
        let field = self.code.binary(Binary::Sub, field, quotient.doubled);
        // What is below the 24 bits counts as less than their last.
        let zero = self.code.uint(0);
        let one = self.code.uint(1);
        let sticky = self.where_equal(quotient.remainder, 0, zero, one);
        let significand = self.rounded_significand(rounding, quotient.whole, sticky, 7);
        let input = self.code.unary(Unary::ToBits, x);
        let sign = self.code.with(Binary::And, input, 1 << 31);
        let bits = self.packed(field, significand);
        let bits = self.code.binary(Binary::Or, bits, sign);
        let result = self.narrowed(bits, bits, true);
        let bits = self.code.unary(Unary::ToBits, result);
        let magnitude = self.code.with(Binary::And, input, 0x7FFF_FFFF);
        let infinity = self.code.uint(INFINITY);
        let bits = self.where_equal(magnitude, INFINITY, zero, bits);
        let bits = self.where_equal(magnitude, 0, infinity, bits);
        let bits = self.nan_where_nan(x, bits);
        self.code.unary(Unary::FromBits, bits)
    }

    fn rsq24(&mut self, rounding: Rounding, x: Id) -> Id {
        let Parts { significand, exponent } = self.parts(x);
        // 17 bits, or 18 with an odd power: b * 2^-16 in [1, 4).
        let short = self.code.with(Binary::ShiftRight, significand, 7);
        let odd = self.code.with(Binary::And, exponent, 1);
        let even = self.code.with(Binary::Xor, odd, 1);
        let b = self.code.binary(Binary::ShiftLeft, short, even);
        let mantissa = self.code.with(Binary::And, significand, UNIT - 1);
        let field = self.code.with(Binary::ShiftLeft, even, 23);
        let bits = self.code.binary(Binary::Or, field, mantissa);
        let bits = self.code.with(Binary::Add, bits, 127 << 23);
        let m = self.code.unary(Unary::FromBits, bits);
        let y = self.inverse_root(m, bits);
        // 2^18 / sqrt(m), truncated: 18 bits, of which the last decides how the others are rounded. It is the greatest
        // n with n^2 * b <= 2^(36 + 16). The guess may be wrong by one.
        let scale = self.code.float((1 << 18) as f32);
        let guess = self.code.binary(Binary::FloatMul, y, scale);
        let guess = self.code.unary(Unary::Truncate, guess);
        let least = self.code.with(Binary::Sub, guess, 1);
        let more = self.code.with(Binary::Add, guess, 1);
        let fits = self.is_root(guess, b);
        let root = self.code.select(fits, guess, least);
        let fits = self.is_root(more, b);
        let root = self.code.select(fits, more, root);
        // 1 and its like are exact: 2^18 has one bit more.
        let is_one = self.code.with(Binary::Equal, root, 1 << 18);
        let [zero, one] = [0, 1].map(|n| self.code.uint(n));
        let exact = self.code.select(is_one, one, zero);
        // As 24 bits; the rest of a root that is not exact is never in the middle.
        let places = self.code.uint(6);
        let places = self.code.binary(Binary::Sub, places, exact);
        let whole = self.code.binary(Binary::ShiftLeft, root, places);
        let sticky = self.code.with(Binary::Xor, exact, 1);
        let significand = self.rounded_significand(rounding, whole, sticky, 7);
        // 1 / sqrt(m * 2^(2 h)): 2^-h, less one for m > 1.
        let half = self.code.with(Binary::Add, exponent, 127);
        let half = self.code.with(Binary::ShiftRightSigned, half, 1);
        let field = self.code.uint(127 + 127 - 2);
        let field = self.code.binary(Binary::Sub, field, half);
        let field = self.code.binary(Binary::Add, field, exact);
        let bits = self.packed(field, significand);

        self.with_special_results(x, bits, Special::RSQ)
    }

    /// Whether `n^2 * b <= 2^52`, for `n` of 19 bits and `b` of 18.
    fn is_root(&mut self, n: Id, b: Id) -> Id {
        let low = self.code.binary(Binary::Mul, n, n);
        let high = self.code.binary(Binary::MulHigh, n, n);
        let last = self.code.binary(Binary::Mul, low, b);
        let carried = self.code.binary(Binary::MulHigh, low, b);
        let product = self.code.binary(Binary::Mul, high, b);
        let product = self.code.binary(Binary::Add, product, carried);
        let is_less = self.code.with(Binary::Less, product, 1 << 20);
        let is_equal = self.code.with(Binary::Equal, product, 1 << 20);
        let is_whole = self.code.with(Binary::Equal, last, 0);
        let is_equal = self.code.binary(Binary::Both, is_equal, is_whole);
        self.code.binary(Binary::Either, is_less, is_equal)
    }

    /// A significand without its last `places` bits, rounded; `sticky` is 1 if there is anything below it.
    pub(super) fn rounded_significand(&mut self, rounding: Rounding, whole: Id, sticky: Id, places: u32) -> Id {
        let moved = match rounding {
            Rounding::TowardZero => whole,
            Rounding::Nearest => {
                // Half less one, and one more if it is above half, or at half and odd.
                let odd = self.code.with(Binary::ShiftRight, whole, places);
                let odd = self.code.with(Binary::And, odd, 1);
                let up = self.code.binary(Binary::Or, odd, sticky);
                let sum = self.code.with(Binary::Add, whole, (1 << (places - 1)) - 1);
                self.code.binary(Binary::Add, sum, up)
            }
        };
        self.code.with(Binary::And, moved, !0 << places)
    }

    /// Bits of a number with a significand of 24 bits; `field` is its exponent less one.
    pub(super) fn packed(&mut self, field: Id, significand: Id) -> Id {
        let bits = self.code.with(Binary::ShiftLeft, field, 23);
        self.code.binary(Binary::Add, bits, significand)
    }
}
