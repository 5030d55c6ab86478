//! The normative scalar meaning of every arithmetic primitive.
//!
//! All functions are pure and total. Each written step is one IEEE single-precision operation,
//! never fused, so results have the same bits on every CPU. Interpreter, constant folder and tests
//! call these functions; the recompiler emits the same steps. Special values are measured on
//! consoles (ISA notes, 4.2). Where a behaviour is not measured, the doc comment says *unknown on
//! hardware* and names the choice. All NaNs are equivalent: payload and sign have no meaning, and
//! no function exposes them.

use super::elementary::{ex2_32, ex2_64, lg2_32, lg2_64};
use super::float24::{Rounding, flush};
use super::{DotOp, PointwiseOp, Relation, ScalarOp, VectorOp};
use std::fmt;
use std::str::FromStr;

/// The number format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// Host single precision with the console's special values: no overflow at 2^64, no flush at
    /// 2^-62. Every known emulator uses this.
    #[default]
    F32,
    /// The hardware's 1-7-16 format. Every result is narrowed to it, inputs and float uniforms when
    /// they are read. Arithmetic flushes subnormals; MOV, MAX, MIN and comparisons don't. From 2^64
    /// on a result is infinite. Addition and multiplication are one IEEE operation in `f32` and one
    /// narrowing; RCP, RSQ, EX2 and LG2 are the exact value rounded once. Temporaries that the host
    /// sets are not narrowed.
    F24 {
        /// Rounding of results. *Unknown on hardware.*
        rounding: Rounding,
    },
}

/// Limit of `LITP`'s y: 0x7FFF / 0x100.
pub const LITP_LIMIT: f32 = 0x7FFF as f32 / 0x100 as f32;

impl Precision {
    /// Every format.
    pub const ALL: [Precision; 3] = [
        Precision::F32,
        Precision::F24 { rounding: Rounding::Nearest },
        Precision::F24 { rounding: Rounding::TowardZero },
    ];

    /// Its name on command lines and in test files.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F24 { rounding: Rounding::Nearest } => "f24-nearest",
            Precision::F24 { rounding: Rounding::TowardZero } => "f24-zero",
        }
    }

    /// The value of an input or float uniform as a program reads it.
    pub fn operand(self, x: f32) -> f32 {
        match self {
            Precision::F32 => x,
            Precision::F24 { rounding } => rounding.operand(x),
        }
    }

    /// A vector operation on sources after their swizzles and signs; sources that the operation has
    /// not are ignored.
    #[inline(always)] // the interpreter's inner loop
    pub fn vector(self, op: VectorOp, [a, b, c]: [[f32; 4]; 3]) -> [f32; 4] {
        let each = |f: fn(Precision, f32, f32) -> f32| std::array::from_fn(|n| f(self, a[n], b[n]));
        match op {
            VectorOp::Pointwise(op) => match op {
                PointwiseOp::Add => each(Precision::add),
                PointwiseOp::Mul => each(Precision::mul),
                PointwiseOp::Mad => std::array::from_fn(|n| self.mad(a[n], b[n], c[n])),
                PointwiseOp::Max => each(Precision::max),
                PointwiseOp::Min => each(Precision::min),
                PointwiseOp::Sge => each(Precision::sge),
                PointwiseOp::Slt => each(Precision::slt),
                PointwiseOp::Flr => a.map(|x| self.flr(x)),
                PointwiseOp::Mov => a,
            },
            VectorOp::Dot(op) => [self.dot(op, a, b); 4],
            VectorOp::Dst => [1.0, self.mul(a[1], b[1]), a[2], b[3]],
            VectorOp::Litp => [self.max(a[0], 0.0), self.litp_y(a[1]), 0.0, self.max(a[3], 0.0)],
        }
    }

    /// A dot product. The 1 of `DPH` replaces w after swizzle and negation (measured: citra#1057).
    #[inline]
    pub fn dot(self, op: DotOp, a: [f32; 4], b: [f32; 4]) -> f32 {
        match op {
            DotOp::Dp3 => self.dp3(a, b),
            DotOp::Dp4 => self.dp4(a, b),
            DotOp::Dph => self.dp4([a[0], a[1], a[2], 1.0], b),
        }
    }

    /// A scalar operation.
    #[inline]
    pub fn scalar(self, op: ScalarOp, a: f32) -> f32 {
        match op {
            ScalarOp::Rcp => self.rcp(a),
            ScalarOp::Rsq => self.rsq(a),
            ScalarOp::Ex2 => self.ex2(a),
            ScalarOp::Lg2 => self.lg2(a),
        }
    }

    /// `a + b`.
    pub fn add(self, a: f32, b: f32) -> f32 {
        match self {
            Precision::F32 => a + b,
            Precision::F24 { rounding } => rounding.result(flush(a) + flush(b)),
        }
    }

    /// `a * b`, where zero times infinity is zero; a NaN factor gives NaN even against zero
    /// (measured).
    pub fn mul(self, a: f32, b: f32) -> f32 {
        let (a, b) = match self {
            Precision::F32 => (a, b),
            Precision::F24 { .. } => (flush(a), flush(b)),
        };
        let product = a * b;
        if product.is_nan() && !a.is_nan() && !b.is_nan() {
            return 0.0;
        }
        match self {
            Precision::F32 => product,
            Precision::F24 { rounding } => rounding.result(product),
        }
    }

    /// `a * b + c` in two steps: the product is rounded before the addition (documented by 3dbrew).
    pub fn mad(self, a: f32, b: f32, c: f32) -> f32 {
        self.add(self.mul(a, b), c)
    }

    /// Three-component dot product, summed `(x + y) + z`. The hardware's order is unknown.
    pub fn dp3(self, a: [f32; 4], b: [f32; 4]) -> f32 {
        let p = |n: usize| self.mul(a[n], b[n]);
        self.add(self.add(p(0), p(1)), p(2))
    }

    /// Four-component dot product, summed `(x + y) + (z + w)`. The hardware's order is unknown.
    /// `DPH` is this with `a[3] = 1`.
    pub fn dp4(self, a: [f32; 4], b: [f32; 4]) -> f32 {
        let p = |n: usize| self.mul(a[n], b[n]);
        self.add(self.add(p(0), p(1)), self.add(p(2), p(3)))
    }

    /// The larger operand; the *second* if they are unordered (measured).
    pub fn max(self, a: f32, b: f32) -> f32 {
        if less(b, a) { a } else { b }
    }

    /// The smaller operand; the *second* if they are unordered (measured).
    pub fn min(self, a: f32, b: f32) -> f32 {
        if less(a, b) { a } else { b }
    }

    /// 1 if `a >= b`, else 0; 0 with a NaN on either side (measured).
    pub fn sge(self, a: f32, b: f32) -> f32 {
        if a >= b { 1.0 } else { 0.0 }
    }

    /// 1 if `a < b`, else 0; 0 with a NaN on either side (measured).
    pub fn slt(self, a: f32, b: f32) -> f32 {
        if a < b { 1.0 } else { 0.0 }
    }

    /// The largest integer not above `a`. Infinities and NaN are unchanged (*unknown on hardware*).
    /// A float24 is flushed first, so that a negative subnormal gives 0 (*unknown on hardware*);
    /// its floor needs no rounding.
    pub fn flr(self, a: f32) -> f32 {
        match self {
            Precision::F32 => a.floor(),
            Precision::F24 { rounding } => rounding.result(flush(a).floor()),
        }
    }

    /// `1 / a`. There is no negative zero for it: both zeros give +infinity (measured).
    pub fn rcp(self, a: f32) -> f32 {
        match self {
            Precision::F32 => 1.0 / (a + 0.0),
            Precision::F24 { rounding } => rounding.result_64(1.0 / f64::from(flush(a))),
        }
    }

    /// `1 / sqrt(a)`: both zeros give +infinity, a negative number NaN, 1 exactly 1 (measured).
    pub fn rsq(self, a: f32) -> f32 {
        match self {
            Precision::F32 => 1.0 / (a + 0.0).sqrt(),
            Precision::F24 { rounding } => rounding.result_64(1.0 / f64::from(flush(a)).sqrt()),
        }
    }

    /// `2^a`: exact at integers, within 2 ulp of float24 everywhere; -infinity gives 0 (measured),
    /// +infinity gives +infinity (*unknown on hardware*).
    pub fn ex2(self, a: f32) -> f32 {
        match self {
            Precision::F32 => ex2_32(a),
            Precision::F24 { rounding } => rounding.result_64(ex2_64(flush(a))),
        }
    }

    /// `log2(a)`: both zeros give -infinity and a negative number NaN (measured); within 2 ulp of
    /// float24 everywhere, exact at powers of two; +infinity gives +infinity (*unknown on
    /// hardware*).
    pub fn lg2(self, a: f32) -> f32 {
        match self {
            Precision::F32 => lg2_32(a),
            Precision::F24 { rounding } => rounding.result_64(lg2_64(flush(a))),
        }
    }

    /// The y component of `LITP`: clamped to ±127.99609375 by MAX, then MIN. A NaN becomes the
    /// lower limit (*unknown on hardware*).
    pub fn litp_y(self, a: f32) -> f32 {
        self.min(self.max(a, -LITP_LIMIT), LITP_LIMIT)
    }

    /// `MOVA`: truncates toward zero and saturates to 32 bits; NaN gives 0. Anything but a small
    /// positive number is *unknown on hardware*; only -128..=127 affects addressing.
    pub fn to_address(self, a: f32) -> i32 {
        a as i32
    }

    /// One component of `CMP`. Ordered comparisons fail on NaN, `ne` holds (`eq`, `ne`, `le` with
    /// NaN: *unknown on hardware*). Operators 6 and 7 always hold (3dbrew).
    pub fn compare(self, op: Relation, a: f32, b: f32) -> bool {
        match op {
            Relation::Eq => a == b,
            Relation::Ne => a != b,
            Relation::Lt => a < b,
            Relation::Le => a <= b,
            Relation::Gt => a > b,
            Relation::Ge => a >= b,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = UnknownPrecision;

    /// Reads what [`Display`](fmt::Display) writes: `f32`, `f24-nearest`, `f24-zero`.
    fn from_str(text: &str) -> Result<Precision, UnknownPrecision> {
        Precision::ALL.into_iter().find(|p| p.name() == text).ok_or(UnknownPrecision)
    }
}

/// A text that names no [`Precision`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPrecision;

impl fmt::Display for UnknownPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown number format; there are f32, f24-nearest and f24-zero")
    }
}

impl std::error::Error for UnknownPrecision {}

/// Whether two results count as equal: the same bits, or both NaN.
pub fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// `a < b`, from the bits. For a float comparison that selects between the same operands, one of
/// them constant, LLVM emits FMAXNM or FMINNM on 64-bit Arm. These return NaN for a signalling NaN,
/// not the other operand.
fn less(a: f32, b: f32) -> bool {
    let is_number = |x: f32| x.to_bits() << 1 <= f32::INFINITY.to_bits() << 1;
    let order = |x: f32| {
        let magnitude = (x.to_bits() & 0x7FFF_FFFF).cast_signed();
        if x.is_sign_negative() { -magnitude } else { magnitude }
    };
    is_number(a) && is_number(b) && order(a) < order(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Precision = Precision::F32;
    const INF: f32 = f32::INFINITY;

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
    fn special_values_match_the_console() {
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

    #[test]
    fn max_and_min_of_unordered_operands_give_the_second() {
        let nans = [0x7F80_0001, 0x7F87_C808, 0x7FBF_FFFF, 0x7FC0_0000, 0xFF80_0001, 0xFFFF_FFFF].map(f32::from_bits);
        for p in Precision::ALL {
            for nan in nans {
                // Constants, as in LITP, which a compiler may exploit.
                assert_eq!((p.max(nan, 0.0), p.min(nan, 1.0), p.litp_y(nan)), (0.0, 1.0, -LITP_LIMIT), "{nan:?}");
                assert!(p.max(0.0, nan).is_nan() && p.min(1.0, nan).is_nan());
            }
            let ordered = [-INF, -1.0, -f32::from_bits(1), 0.0, f32::from_bits(1), 1.0, INF];
            for (n, &a) in ordered.iter().enumerate() {
                for (m, &b) in ordered.iter().enumerate() {
                    assert_eq!((p.max(a, b), p.min(a, b)), (ordered[n.max(m)], ordered[n.min(m)]));
                }
            }
            assert_eq!([p.max(0.0, -0.0), p.min(0.0, -0.0)].map(f32::to_bits), [(-0.0f32).to_bits(); 2]);
            assert_eq!([p.max(-0.0, 0.0), p.min(-0.0, 0.0)].map(f32::to_bits), [0; 2]);
        }
    }

    #[test]
    fn float24_narrows_results_and_flushes_arithmetic() {
        let (subnormal, smallest) = (f32::from_bits((127 - 63) << 23), f32::from_bits((127 - 62) << 23));
        let tail = 1.0 + f32::EPSILON * 64.0;
        for p in Precision::ALL.into_iter().filter(|&p| p != Precision::F32) {
            // Measured: MUL flushes operands and results, MAX and CMP do not.
            assert_eq!((p.mul(subnormal, 2.0), p.mul(smallest, 0.5), p.mul(smallest, -0.5).to_bits()), (0.0, 0.0, 0));
            assert_eq!((p.max(subnormal, 0.0), p.min(-subnormal, 0.0)), (subnormal, -subnormal));
            assert!(!p.compare(Relation::Eq, subnormal, 0.0));
            // By analogy.
            assert_eq!((p.add(subnormal, subnormal), p.add(smallest, -subnormal)), (0.0, smallest));
            assert_eq!((p.flr(-subnormal).to_bits(), p.rcp(subnormal), p.rsq(-subnormal)), (0, INF, INF));
            assert_eq!((p.ex2(subnormal), p.lg2(-subnormal)), (1.0, -INF));
            // The ends of the format.
            let top = f32::from_bits((127 + 63) << 23);
            assert_eq!((p.add(top, top), p.mul(top, -2.0), p.ex2(64.0), p.ex2(-63.0)), (INF, -INF, INF, 0.0));
            assert_eq!((p.ex2(63.0), p.ex2(-62.0), p.rcp(top)), (top, smallest, 0.0));
            assert_eq!((p.mul(INF, 0.0), p.mul(INF, subnormal), p.add(1.0, 0.0)), (0.0, 0.0, 1.0));
            assert!(p.mul(f32::NAN, 0.0).is_nan() && p.add(INF, -INF).is_nan());
            // The product is rounded before the addition.
            let x = 1.0 + 1.0 / 65_536.0;
            assert_eq!(p.mad(x, x, -1.0), p.add(p.mul(x, x), -1.0));
            assert_eq!(p.mad(x, x, -1.0), 2.0 / 65_536.0);
        }
        let [_, near, zero] = Precision::ALL;
        // A tie, and a number just above it: 1 + 2^-17 and 1 + 3 * 2^-17.
        assert_eq!((near.add(1.0, tail - 1.0), zero.add(1.0, tail - 1.0)), (1.0, 1.0));
        let three = 3.0 / 131_072.0;
        assert_eq!((near.add(1.0, three), zero.add(1.0, three)), (1.0 + 2.0 / 65_536.0, 1.0 + 1.0 / 65_536.0));
        assert_eq!((near.ex2(-1e-9), zero.ex2(-1e-9), zero.ex2(1e-9)), (1.0, 1.0 - 1.0 / 131_072.0, 1.0));
        assert_eq!((Precision::F32.operand(0.1), near.operand(0.1) == 0.1), (0.1, false));
    }

    #[test]
    fn equal_are_the_same_bits_and_every_nan() {
        let other_nan = f32::from_bits(0xFF80_0001);
        assert!(same(1.5, 1.5) && same(f32::NAN, other_nan) && same(-0.0, -0.0) && same(INF, INF));
        assert!(!same(0.0, -0.0) && !same(1.0, 2.0) && !same(INF, -INF));
        assert!(!same(f32::NAN, 1.0) && !same(1.0, f32::NAN) && !same(f32::NAN, INF));
    }

    #[test]
    fn names_can_be_read_back() {
        for p in Precision::ALL {
            assert_eq!(p.to_string().parse(), Ok(p));
        }
        assert_eq!("f24".parse::<Precision>(), Err(UnknownPrecision));
        assert_eq!(UnknownPrecision.to_string(), "unknown number format; there are f32, f24-nearest and f24-zero");
        assert_eq!(format!("{:>5}|{:<12}|", Precision::F32, Precision::ALL[1]), "  f32|f24-nearest |");
    }
}
