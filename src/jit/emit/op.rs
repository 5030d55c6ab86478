//! [`VectorOp`](crate::isa::VectorOp), [`ScalarOp`] and their operands -> CLIF: each operation
//! once, generic over the operands' shape.
//!
//! A pointwise operation is written against [`Shape`], which fetches operands and applies a
//! sequence of instructions to them. The shapes are the vec4 register of one vertex, a component of
//! a group (SoA), and a register of each vertex of a group (AoS).
//!
//! Invariant: operands are fetched in the order in which an operation names them here, because the
//! order numbers CLIF values and steers register allocation. It must not know where operands come
//! from.

use super::ClifBuilder;
use crate::ir::analysis::{Components, XYZW};
use crate::isa::numeric::Precision;
use crate::isa::{DotOp, PointwiseOp, ScalarOp};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{Value, types};

/// One operation's operands in one shape of code.
pub(crate) trait Shape<'f> {
    /// An operand or a result.
    type Value: Copy;
    /// Source `n`, swizzled, with its sign.
    fn source(&mut self, n: usize) -> Self::Value;
    /// The same without its sign. Only for sources that the operation
    /// [subtracts](crate::isa::VectorOp::subtracts).
    fn unsigned(&mut self, n: usize) -> Self::Value;
    /// Whether source `n` is negated.
    fn is_negated(&self, n: usize) -> bool;
    /// `f(a)` for each SIMD register of a value.
    fn map(&mut self, a: Self::Value, f: impl FnMut(&mut ClifBuilder<'_, 'f>, Value) -> Value) -> Self::Value;
    /// `f(a, b)` for each SIMD register of two values.
    fn zip(
        &mut self,
        a: Self::Value,
        b: Self::Value,
        f: impl FnMut(&mut ClifBuilder<'_, 'f>, Value, Value) -> Value,
    ) -> Self::Value;
}

/// A pointwise operation. `live` are the live lanes of the result's SIMD registers.
pub(crate) fn pointwise<'f, S: Shape<'f>>(s: &mut S, op: PointwiseOp, live: Components) -> S::Value {
    match op {
        PointwiseOp::Add => {
            // At most one operand keeps its sign: the other one is subtracted.
            let (first, second) = if s.is_negated(0) && !s.is_negated(1) { (1, 0) } else { (0, 1) };
            let a = s.source(first);
            add(s, a, second, live)
        }
        PointwiseOp::Mul => binary(s, |m, a, b| m.mul(a, b, live)),
        PointwiseOp::Mad => {
            let product = binary(s, |m, a, b| m.mul(a, b, live));
            add(s, product, 2, live)
        }
        PointwiseOp::Max => binary(s, |m, a, b| m.max(a, b)),
        PointwiseOp::Min => binary(s, |m, a, b| m.min(a, b)),
        PointwiseOp::Sge => binary(s, |m, a, b| m.set(FloatCC::GreaterThanOrEqual, a, b)),
        PointwiseOp::Slt => binary(s, |m, a, b| m.set(FloatCC::LessThan, a, b)),
        PointwiseOp::Flr => {
            let a = s.source(0);
            s.map(a, |m, a| m.flr(a, live))
        }
        PointwiseOp::Mov => s.source(0),
    }
}

fn binary<'f, S: Shape<'f>>(s: &mut S, f: impl FnMut(&mut ClifBuilder<'_, 'f>, Value, Value) -> Value) -> S::Value {
    let (a, b) = (s.source(0), s.source(1));
    s.zip(a, b, f)
}

/// `a` plus source `n`. A negated source is subtracted, which is the same by IEEE's definition of
/// subtraction.
fn add<'f, S: Shape<'f>>(s: &mut S, a: S::Value, n: usize, live: Components) -> S::Value {
    let b = s.unsigned(n);
    let minus = s.is_negated(n);
    s.zip(a, b, |m, a, b| m.add(a, b, minus, live))
}

/// Component `c` of `DST`.
pub(crate) fn dst_component<'f>(s: &mut impl SoaShape<'f>, c: usize) -> Value {
    match c {
        0 => s.clif().constant(types::F32X4, 1.0),
        1 => pointwise(s, PointwiseOp::Mul, XYZW),
        2 => s.source(0),
        _ => s.source(1),
    }
}

/// Component `c` of `LITP`.
pub(crate) fn litp_component<'f>(s: &mut impl SoaShape<'f>, c: usize) -> Value {
    if c == 2 {
        return s.clif().constant(types::F32X4, 0.0);
    }
    let a = s.source(0);
    let mut m = s.clif();
    if c == 1 {
        return m.litp_y(a);
    }
    let zero = m.constant(types::F32X4, 0.0);
    m.max(a, zero)
}

/// The shape of one component of a group, for operations that have a formula for each component.
pub(crate) trait SoaShape<'f>: Shape<'f, Value = Value> {
    /// Appends instructions that have no operands.
    fn clif(&mut self) -> ClifBuilder<'_, 'f>;
}

impl ClifBuilder<'_, '_> {
    /// The components `live` of `DST`, vec4.
    pub(crate) fn dst(&mut self, a: Value, b: Value, live: Components) -> Value {
        let r = self.mul(a, b, live & 0b0010);
        // The other components are copies, which keep the sign of zero.
        let mut r = self.signed_zero(r);
        for (lane, from) in [(0, None), (2, Some(a)), (3, Some(b))] {
            if live >> lane & 1 != 0 {
                let from = from.unwrap_or_else(|| self.constant(types::F32X4, 1.0));
                r = self.blend(1 << lane, r, from);
            }
        }
        r
    }

    /// The components `live` of `LITP`, vec4.
    pub(crate) fn litp(&mut self, a: Value, live: Components) -> Value {
        let zero = self.constant(types::F32X4, 0.0);
        let mut r = self.max(a, zero);
        if live & 0b0010 != 0 {
            let y = self.litp_y(a);
            r = self.blend(0b0010, r, y);
        }
        if live & 0b0100 != 0 {
            r = self.blend(0b0100, r, zero);
        }
        r
    }

    /// The products that a dot product sums, vec4. The 1 of `DPH` makes the fourth one the second
    /// source's w.
    pub(crate) fn dot_products(&mut self, op: DotOp, a: Value, b: Value) -> Value {
        match op {
            DotOp::Dp3 => self.mul(a, b, 0b0111),
            DotOp::Dp4 => self.mul(a, b, XYZW),
            DotOp::Dph if self.precision == Precision::F32 => {
                let products = self.mul(a, b, XYZW);
                self.blend(0b1000, products, b)
            }
            DotOp::Dph => {
                let one = self.constant(types::F32X4, 1.0);
                let a = self.blend(0b1000, a, one);
                self.mul(a, b, XYZW)
            }
        }
    }

    /// A scalar operation; in single precision also on each lane of a vector.
    pub(crate) fn scalar(&mut self, op: ScalarOp, x: Value) -> Value {
        match op {
            ScalarOp::Rcp => self.rcp(x),
            ScalarOp::Rsq => self.rsq(x),
            ScalarOp::Ex2 => self.ex2(x),
            ScalarOp::Lg2 => self.lg2(x),
        }
    }
}
