//! Operations on vectors, in single precision and in float24.

use super::code::{Binary, Id, Op, Scalar, Unary};
use super::lower::Lowering;
use super::scalar::{INFINITY, NAN};
use crate::ir::Use;
use crate::isa::float24::{self, Rounding, SUBNORMAL_SCALE};
use crate::isa::numeric::{LITP_LIMIT, Precision};
use crate::isa::{DotOp, PointwiseOp, VectorOp};

/// The ends of float24's normal numbers, as bits.
const SMALLEST: u32 = float24::SMALLEST.to_bits();
const LIMIT: u32 = float24::LIMIT.to_bits();

impl Lowering<'_> {
    /// A vector operation.
    pub(super) fn vector(&mut self, op: VectorOp, sources: &[Use; 3]) -> Id {
        let s: Vec<Id> = sources[..op.sources()].iter().map(|source| self.source(source)).collect();
        // Sources of arithmetic. A sum or product of -0 has its zero replaced in the result.
        let f = |this: &mut Self, n: usize| this.flushed(s[n], this.is_normal(sources[n].value));
        match op {
            VectorOp::Pointwise(op) => match op {
                PointwiseOp::Add => {
                    let (a, b) = (f(self, 0), f(self, 1));
                    self.add(a, b)
                }
                PointwiseOp::Mul => {
                    let (a, b) = (f(self, 0), f(self, 1));
                    self.mul(a, b)
                }
                PointwiseOp::Mad => {
                    let (a, b, c) = (f(self, 0), f(self, 1), f(self, 2));
                    let product = self.mul(a, b);
                    self.add(product, c)
                }
                PointwiseOp::Max => self.max(s[0], s[1]),
                PointwiseOp::Min => self.min(s[0], s[1]),
                PointwiseOp::Sge => self.one_where(Binary::FloatLessEqual, s[1], s[0]),
                PointwiseOp::Slt => self.one_where(Binary::FloatLess, s[0], s[1]),
                PointwiseOp::Flr => {
                    let is_flushed = self.is_normal(sources[0].value) && !sources[0].negate;
                    let a = self.flushed(s[0], is_flushed);
                    self.code.unary(Unary::Floor, a)
                }
                PointwiseOp::Mov => s[0],
            },
            VectorOp::Dot(op) => {
                let (mut a, b) = (f(self, 0), f(self, 1));
                if op == DotOp::Dph {
                    let one = self.code.float(1.0);
                    let parts = [0, 1, 2].map(|n| self.code.component(a, n));
                    a = self.code.def(Op::Vector([parts[0], parts[1], parts[2], one]));
                }
                let products = self.mul(a, b);
                let [x, y, z] = [0, 1, 2].map(|n| self.code.component(products, n));
                let xy = self.add(x, y);
                let rest = match op {
                    DotOp::Dp3 => z,
                    DotOp::Dp4 | DotOp::Dph => {
                        let w = self.code.component(products, 3);
                        self.add(z, w)
                    }
                };
                let sum = self.add(xy, rest);
                self.code.splat(sum)
            }
            VectorOp::Dst => {
                let (a, b) = (f(self, 0), f(self, 1));
                let [ay, by] = [a, b].map(|v| self.code.component(v, 1));
                let y = self.mul(ay, by);
                let (one, z, w) = (self.code.float(1.0), self.code.component(s[0], 2), self.code.component(s[1], 3));
                self.code.def(Op::Vector([one, y, z, w]))
            }
            VectorOp::Litp => {
                let zero = self.code.float(0.0);
                let [x, y, w] = [0, 1, 3].map(|n| self.code.component(s[0], n));
                let (x, w) = (self.max(x, zero), self.max(w, zero));
                let [least, most] = [-LITP_LIMIT, LITP_LIMIT].map(|limit| self.code.float(limit));
                let y = self.max(y, least);
                let y = self.min(y, most);
                let z = self.zero();
                self.code.def(Op::Vector([x, y, z, w]))
            }
        }
    }

    /// The larger, or the second.
    fn max(&mut self, a: Id, b: Id) -> Id {
        let greater = self.code.binary(Binary::FloatLess, b, a);
        self.code.select(greater, a, b)
    }

    /// The smaller, or the second.
    fn min(&mut self, a: Id, b: Id) -> Id {
        let less = self.code.binary(Binary::FloatLess, a, b);
        self.code.select(less, a, b)
    }

    fn one_where(&mut self, op: Binary, a: Id, b: Id) -> Id {
        let holds = self.code.binary(op, a, b);
        let [one, zero] = [1.0f32, 0.0].map(|x| self.code.like(a, Scalar::Float, x.to_bits()));
        self.code.select(holds, one, zero)
    }

    /// The sum of operands that need no flush.
    pub(super) fn add(&mut self, a: Id, b: Id) -> Id {
        let sum = self.code.binary(Binary::FloatAdd, a, b);
        self.result(sum)
    }

    /// The product of operands that need no flush, 0 for zero times infinity.
    ///
    /// Factors without a NaN have a NaN product if one is zero and the other infinite. Then their magnitudes, as bits,
    /// combine to infinity's; a NaN has further bits.
    pub(super) fn mul(&mut self, a: Id, b: Id) -> Id {
        let product = self.code.binary(Binary::FloatMul, a, b);
        let bits = [a, b].map(|x| self.code.unary(Unary::ToBits, x));
        let both = self.code.binary(Binary::Or, bits[0], bits[1]);
        let both = self.code.with(Binary::And, both, 0x7FFF_FFFF);
        let [zero, infinity] = [0, INFINITY].map(|bits| self.code.like(product, Scalar::Float, bits));
        // One comparison, where a test of the bits takes two operations. Of a NaN product the factors' magnitudes
        // combine to infinity's, or to more.
        let is_number = self.code.binary(Binary::FloatLessEqual, product, infinity);
        let infinity = self.code.like(both, Scalar::Uint, INFINITY);
        let has_nan = self.code.binary(Binary::LessSigned, infinity, both);
        let is_right = self.code.binary(Binary::Either, is_number, has_nan);
        let product = self.code.select(is_right, product, zero);
        self.result(product)
    }

    /// An operand of arithmetic: in float24, +0 below 2^-62.
    pub(super) fn flushed(&mut self, x: Id, is_flushed: bool) -> Id {
        if self.precision == Precision::F32 || is_flushed {
            return x;
        }
        let magnitude = self.magnitude(x);
        let is_small = self.code.with(Binary::Less, magnitude, SMALLEST);
        let zero = self.code.like(x, Scalar::Float, 0);
        self.code.select(is_small, zero, x)
    }

    /// The result of a float operation.
    fn result(&mut self, x: Id) -> Id {
        let Precision::F24 { rounding } = self.precision else { return x };
        let bits = self.code.unary(Unary::ToBits, x);
        let rounded = self.rounded(rounding, bits);
        self.narrowed(bits, rounded, true)
    }

    /// Bits of an f32 -> rounded to 17 significant bits. Not for NaN.
    fn rounded(&mut self, rounding: Rounding, bits: Id) -> Id {
        let moved = match rounding {
            Rounding::TowardZero => bits,
            Rounding::Nearest => {
                let odd = self.code.with(Binary::ShiftRight, bits, 7);
                let odd = self.code.with(Binary::And, odd, 1);
                let half = self.code.with(Binary::Add, odd, 63);
                self.code.binary(Binary::Add, bits, half)
            }
        };
        self.code.with(Binary::And, moved, !0x7F)
    }

    /// The float of rounded bits, infinite from 2^64, NaN where the bits before were; 0 below 2^-62 if `flush`.
    pub(super) fn narrowed(&mut self, bits: Id, rounded: Id, flush: bool) -> Id {
        let magnitude = self.code.with(Binary::And, rounded, 0x7FFF_FFFF);
        let sign = self.code.with(Binary::And, rounded, 1 << 31);
        let infinite = self.code.with(Binary::Or, sign, INFINITY);
        let in_range = self.code.with(Binary::Less, magnitude, LIMIT);
        let mut result = self.code.select(in_range, rounded, infinite);
        if flush {
            let is_small = self.code.with(Binary::Less, magnitude, SMALLEST);
            let zero = self.code.like(result, Scalar::Uint, 0);
            result = self.code.select(is_small, zero, result);
        }
        let before = self.code.with(Binary::And, bits, 0x7FFF_FFFF);
        let infinity = self.code.like(bits, Scalar::Uint, INFINITY);
        let is_nan = self.code.binary(Binary::Less, infinity, before);
        let nan = self.code.like(bits, Scalar::Uint, NAN);
        let result = self.code.select(is_nan, nan, result);
        self.code.unary(Unary::FromBits, result)
    }

    /// An input as a program reads it: in float24 rounded, with subnormals as multiples of 2^-78 and signed zeros.
    pub(super) fn operand(&mut self, x: Id) -> Id {
        let Precision::F24 { rounding } = self.precision else { return x };
        let bits = self.code.unary(Unary::ToBits, x);
        let rounded = self.rounded(rounding, bits);
        let normal = self.narrowed(bits, rounded, false);

        let scale = self.code.like(x, Scalar::Float, SUBNORMAL_SCALE.to_bits());
        let units = self.code.binary(Binary::FloatMul, x, scale);
        // NaN and large numbers don't convert; they are no subnormals either.
        let magnitude = self.code.with(Binary::And, bits, 0x7FFF_FFFF);
        let is_small = self.code.with(Binary::Less, magnitude, SMALLEST);
        let zero = self.code.like(x, Scalar::Float, 0);
        let units = self.code.select(is_small, units, zero);
        let whole = match rounding {
            Rounding::TowardZero => self.code.unary(Unary::Truncate, units),
            Rounding::Nearest => {
                let magic = crate::isa::elementary::ROUND_MAGIC.to_bits();
                let shift = self.code.like(x, Scalar::Float, magic);
                let shifted = self.code.binary(Binary::FloatAdd, units, shift);
                let shifted = self.code.unary(Unary::ToBits, shifted);
                self.code.with(Binary::Sub, shifted, magic)
            }
        };
        let whole = self.code.unary(Unary::FromSigned, whole);
        let scale = self.code.like(x, Scalar::Float, SUBNORMAL_SCALE.recip().to_bits());
        let subnormal = self.code.binary(Binary::FloatMul, whole, scale);
        let subnormal = self.magnitude(subnormal);
        let sign = self.code.with(Binary::And, bits, 1 << 31);
        let subnormal = self.code.binary(Binary::Or, subnormal, sign);
        let subnormal = self.code.unary(Unary::FromBits, subnormal);
        self.code.select(is_small, subnormal, normal)
    }
}
