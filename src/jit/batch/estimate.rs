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

/// What float24 adds to an operation: instructions for each SIMD register.
#[derive(Clone, Copy)]
struct Narrowing {
    /// A product or a sum.
    step: usize,
    /// The check of a result.
    check: usize,
    /// An input, a uniform or a register in memory.
    leaf: usize,
    /// A scalar operation in double precision.
    scalar: usize,
}

impl Narrowing {
    fn of(plan: &BatchPlan) -> Narrowing {
        match plan.is_float24() {
            false => Narrowing { step: 0, check: 0, leaf: 0, scalar: 0 },
            true => Narrowing { step: 22, check: 8, leaf: 14, scalar: 130 },
        }
    }
}

/// The bound for batch code.
pub(in crate::jit) fn batch_instructions(plan: &BatchPlan, interleaved: bool) -> usize {
    let leaves = plan.func.nodes.iter().filter(|node| matches!(node, Node::Uniform(_) | Node::Load(_))).count();
    let blocks: usize = plan.func.blocks.iter().map(|block| batch_block(plan, block)).sum();
    let predicated = if plan.func.divergent_branches() == 0 { 0 } else { blocks.min(MAX_PREDICATED_INSTRUCTIONS) };
    let total = 256 + blocks + predicated + 16 * plan.written_masks.len() + Narrowing::of(plan).leaf * leaves;
    if interleaved { 2 * total } else { total }
}

/// The bound for one block in batch code.
pub(super) fn batch_block(plan: &BatchPlan, block: &Block) -> usize {
    let (func, narrowing) = (&plan.func, Narrowing::of(plan));
    let live = |value: Value| plan.live[value.0 as usize].count_ones() as usize;
    let insts = block.insts.iter().map(|(_, inst)| match *inst {
        Inst::Def(value) if live(value) == 0 => 0,
        Inst::Def(value) => {
            let mut operands = 0;
            let node = func.node(value);
            let external = GROUP * (2 + narrowing.leaf);
            node.for_each_use(|operand| operands += usize::from(is_external(func, operand)) * external);
            operands + batch_node(node, live(value), narrowing)
        }
        // Guards, the transpose, and a store for each vertex.
        Inst::Store(..) => 32 + GROUP * narrowing.leaf,
        // The parameters of each vertex, and the cursor.
        Inst::Emit => 16,
        Inst::Setemit(_) => 2,
    });
    let param = 1 + narrowing.check;
    24 + block.params.iter().map(|value| param * live(*value)).sum::<usize>()
        + insts.sum::<usize>()
        + arguments(func, &block.term, live)
}

/// Instructions of an operation whose result has `live` components.
fn batch_node(node: &Node, live: usize, narrowing: Narrowing) -> usize {
    let Narrowing { step, check, leaf, scalar: double } = narrowing;
    match node {
        Node::Alu { op, .. } => match op {
            VectorOp::Pointwise(op) => {
                live * match op {
                    PointwiseOp::Add | PointwiseOp::Mul => 2 + step + check,
                    PointwiseOp::Mov => 2,
                    PointwiseOp::Flr => 2 + check,
                    PointwiseOp::Mad => 4 + 2 * step + check,
                    PointwiseOp::Max | PointwiseOp::Min => 8 + check,
                    PointwiseOp::Sge | PointwiseOp::Slt => 9,
                }
            }
            VectorOp::Dot(DotOp::Dp3) => 8 + 5 * step + check,
            VectorOp::Dot(DotOp::Dp4 | DotOp::Dph) => 12 + 7 * step + check,
            VectorOp::Dst => 8 + step + live * check,
            VectorOp::Litp => 20 + live * check,
        },
        Node::Scalar { op, .. } => scalar(*op) + double + check,
        Node::Relative { .. } => 16 + 12 * live + GROUP * leaf,
        Node::ToAddress(_) => 16,
        Node::Offset(_) => 24,
        node if node.ty() == Type::Vec4 => live,
        _ => 8,
    }
}
