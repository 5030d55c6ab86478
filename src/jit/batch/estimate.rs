//! A plan -> an upper bound of the CLIF instructions of its batch code, before any is made.

use crate::ir::{Block, Inst, Node, Type, Value};
use crate::isa::{DotOp, PointwiseOp, VectorOp};
use crate::jit::abi::GROUP;
use crate::jit::batch::policy::{BatchPlan, NoBatchCode};
use crate::jit::emit::estimate::{MAX_INSTRUCTIONS, arguments, is_external, scalar};

/// CLIF instructions that predication may add, as estimated, beyond those of the originals.
pub(super) const MAX_PREDICATED_INSTRUCTIONS: usize = 4096;

/// The most instructions of code for two groups. They share the registers of one, so most values
/// are spilled, and an instruction takes several times as long to compile.
const MAX_INTERLEAVED_INSTRUCTIONS: usize = MAX_INSTRUCTIONS / 2;

/// Fails if the code would be too large.
pub(in crate::jit) fn check_size(plan: &BatchPlan, interleaved: bool) -> Result<(), NoBatchCode> {
    let limit = if interleaved { MAX_INTERLEAVED_INSTRUCTIONS } else { MAX_INSTRUCTIONS };
    match batch_instructions(plan, interleaved) > limit {
        true => Err(NoBatchCode::TooLarge),
        false => Ok(()),
    }
}

/// The bound for batch code.
pub(in crate::jit) fn batch_instructions(plan: &BatchPlan, interleaved: bool) -> usize {
    let blocks: usize = plan.func.blocks.iter().map(|block| batch_block(plan, block)).sum();
    let predicated = if plan.func.divergent_branches() == 0 { 0 } else { blocks.min(MAX_PREDICATED_INSTRUCTIONS) };
    let total = 256 + blocks + predicated + 16 * plan.written_masks.len();
    if interleaved { 2 * total } else { total }
}

/// The bound for one block in batch code.
pub(super) fn batch_block(plan: &BatchPlan, block: &Block) -> usize {
    let func = &plan.func;
    let live = |value: Value| plan.live[value.0 as usize].count_ones() as usize;
    let insts = block.insts.iter().map(|(_, inst)| match *inst {
        Inst::Def(value) if live(value) == 0 => 0,
        Inst::Def(value) => {
            let mut operands = 0;
            let node = func.node(value);
            node.for_each_use(|operand| operands += usize::from(is_external(func, operand)) * 2 * GROUP);
            operands + batch_node(node, live(value))
        }
        // Guards, the transpose, and a store for each vertex.
        Inst::Store(..) => 32,
        // The parameters of each vertex, and the cursor.
        Inst::Emit => 16,
        Inst::Setemit(_) => 2,
    });
    24 + block.params.iter().map(|param| live(*param)).sum::<usize>()
        + insts.sum::<usize>()
        + arguments(func, &block.term, live)
}

/// Instructions of an operation whose result has `live` components.
fn batch_node(node: &Node, live: usize) -> usize {
    match node {
        Node::Alu { op, .. } => match op {
            VectorOp::Pointwise(op) => {
                live * match op {
                    PointwiseOp::Add | PointwiseOp::Mul | PointwiseOp::Mov => 2,
                    PointwiseOp::Flr => 2,
                    PointwiseOp::Mad => 4,
                    PointwiseOp::Max | PointwiseOp::Min => 8,
                    PointwiseOp::Sge | PointwiseOp::Slt => 9,
                }
            }
            VectorOp::Dot(DotOp::Dp3) => 8,
            VectorOp::Dot(DotOp::Dp4 | DotOp::Dph) => 12,
            VectorOp::Dst => 8,
            VectorOp::Litp => 20,
        },
        Node::Scalar { op, .. } => scalar(*op),
        Node::Relative { .. } => 16 + 12 * live,
        Node::ToAddress(_) => 16,
        Node::Offset(_) => 24,
        node if node.ty() == Type::Vec4 => live,
        _ => 8,
    }
}
