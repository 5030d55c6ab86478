//! What an operation costs: a row for each, from which both bounds of code size and the latency of a
//! group derive.
//!
//! Instructions of CLIF are measured, with swizzled and negated operands; a test compares the bounds
//! with the code of random programs. Cycles are those of present CPUs. No figure changes a result. It
//! must not know how operations are lowered.

use crate::isa::elementary::{EX2_POLY, LG2_POLY};
use crate::isa::{DotOp, PointwiseOp, ScalarOp, VectorOp};

/// Cycles until a sum or a product is known.
pub(in crate::jit) const ADD: u32 = 4;
/// The same of a quotient, and about that of a root.
const QUOTIENT: u32 = 12;

/// The costs of an operation. What float24 and exact products add is not in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jit) struct Cost {
    /// CLIF instructions in code for one vertex, at most.
    pub(in crate::jit) vertex: usize,
    /// CLIF instructions for each component of a group, at most; of a dot product, `DST` and `LITP` for
    /// the whole result.
    pub(in crate::jit) group: usize,
    /// Cycles until a component of a group is known.
    pub(in crate::jit) cycles: u32,
    /// Machine instructions for a component of a group.
    pub(in crate::jit) instructions: u32,
}

const fn cost(vertex: usize, group: usize, cycles: u32, instructions: u32) -> Cost {
    Cost { vertex, group, cycles, instructions }
}

/// The costs of a vector operation.
pub(in crate::jit) const fn vector(op: VectorOp) -> Cost {
    match op {
        VectorOp::Pointwise(op) => match op {
            PointwiseOp::Add => cost(10, 2, ADD, 1),
            PointwiseOp::Mul => cost(10, 2, ADD, 1),
            PointwiseOp::Mad => cost(16, 4, 2 * ADD, 2),
            PointwiseOp::Max => cost(14, 8, ADD, 1),
            PointwiseOp::Min => cost(14, 8, ADD, 1),
            PointwiseOp::Sge => cost(16, 9, ADD + 1, 2),
            PointwiseOp::Slt => cost(16, 9, ADD + 1, 2),
            PointwiseOp::Flr => cost(8, 2, 2 * ADD, 1),
            PointwiseOp::Mov => cost(6, 2, 0, 0),
        },
        VectorOp::Dot(DotOp::Dp3) => cost(28, 8, 3 * ADD, 5),
        VectorOp::Dot(DotOp::Dp4 | DotOp::Dph) => cost(28, 12, 4 * ADD, 7),
        VectorOp::Dst => cost(18, 8, ADD, 1),
        VectorOp::Litp => cost(16, 20, ADD, 1),
    }
}

/// The costs of a scalar operation: the same instructions for one vertex and for a group.
pub(in crate::jit) const fn scalar(op: ScalarOp) -> Cost {
    let (ex2, lg2) = (EX2_POLY.len() as u32, LG2_POLY.len() as u32);
    match op {
        ScalarOp::Rcp => cost(9, 9, ADD + QUOTIENT, 2),
        ScalarOp::Rsq => cost(9, 9, ADD + 2 * QUOTIENT, 3),
        ScalarOp::Ex2 => cost(60, 60, 2 * ADD * (ex2 + 5), 2 * ex2 + 24),
        ScalarOp::Lg2 => cost(56, 56, 2 * ADD * (lg2 + 5) + QUOTIENT, 2 * lg2 + 28),
    }
}
