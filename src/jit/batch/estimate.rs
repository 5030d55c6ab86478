//! A plan -> an upper bound of the CLIF instructions of its batch code, before any is made.

use crate::ir::analysis::ranges::{Check, Steps};
use crate::ir::analysis::{Components, XYZW};
use crate::ir::{Block, Inst, Mem, Node, Type, Value};
use crate::isa::{PointwiseResult, ScalarOp, VectorOp};
use crate::jit::abi::GROUP;
use crate::jit::batch::policy::{BatchPlan, NoBatchCode};
use crate::jit::emit::cost;
use crate::jit::emit::estimate::{arguments, is_external};
use std::collections::HashSet;

/// CLIF instructions that predication may add, as estimated, beyond those of the originals.
pub(super) const MAX_PREDICATED_INSTRUCTIONS: usize = 4096;

/// The most instructions of code for a group. They take longer to compile than those for one vertex,
/// whose limit is larger.
const MAX_INSTRUCTIONS: usize = 16_384;

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

/// Instructions that narrow an input, a uniform or a register in memory.
const LEAF: usize = 14;

/// Instructions that narrow one component of a result in float24.
#[derive(Clone, Copy, Default)]
struct NarrowingCost {
    product: usize,
    sum: usize,
    /// After the operation.
    end: usize,
}

impl NarrowingCost {
    fn of(plan: &BatchPlan, value: Value, live: Components) -> NarrowingCost {
        let Some(ranges) = &plan.ranges else { return NarrowingCost::default() };
        let narrowing = ranges.narrowing_of(value, live);
        let step = |steps: Steps| {
            let rounding = if narrowing.special { 11 } else { 4 };
            rounding + 7 * usize::from(steps.limit) + 5 * usize::from(steps.flush)
        };
        let Check { low, high } = narrowing.check;
        let end = 5 * usize::from(low) + 4 * usize::from(high) + usize::from(narrowing.positive_zero);
        NarrowingCost { product: step(narrowing.products), sum: step(narrowing.sums), end }
    }
}

/// The bound for batch code.
pub(in crate::jit) fn batch_instructions(plan: &BatchPlan, interleaved: bool) -> usize {
    let leaves = plan.func.nodes.iter().filter(|node| matches!(node, Node::Uniform(_) | Node::Load(_))).count();
    let blocks: usize = plan.func.blocks.iter().map(|block| batch_block(plan, block)).sum();
    let predicated = if plan.func.divergent_branches() == 0 { 0 } else { blocks.min(MAX_PREDICATED_INSTRUCTIONS) };
    let total =
        256 + blocks + predicated + 16 * plan.written_masks.len() + LEAF * leaves * usize::from(plan.is_float24());
    if interleaved { 2 * total } else { total }
}

/// The bound for one block in batch code.
pub(super) fn batch_block(plan: &BatchPlan, block: &Block) -> usize {
    let func = &plan.func;
    let mut narrowed = HashSet::new();
    // An input is narrowed where the block reads it first.
    let mut input = |value: Value| {
        let first = plan.is_float24() && matches!(func.node(value), Node::Input(_)) && narrowed.insert(value);
        usize::from(first) * GROUP * LEAF
    };
    let live = |value: Value| plan.live[value.0 as usize].count_ones() as usize;
    let mut total = 24;
    for (_, inst) in &block.insts {
        total += match *inst {
            Inst::Def(value) if live(value) == 0 => 0,
            Inst::Def(value) => {
                let mut operands = 0;
                let node = func.node(value);
                node.for_each_use(|operand| {
                    operands += usize::from(is_external(func, operand)) * 2 * GROUP + input(operand);
                });
                operands + batch_node(plan, value)
            }
            // Guards, the transpose, and a store for each vertex. In AoS form results are narrowed for each vertex.
            Inst::Store(Mem::Out { .. }, value) if plan.is_float24() => 32 + input(value) + GROUP * LEAF,
            Inst::Store(_, value) => 32 + input(value),
            // The parameters of each vertex, and the cursor.
            Inst::Emit => 16,
            Inst::Setemit(_) => 2,
        };
    }
    for edge in block.term.edges() {
        total += edge.args.iter().map(|arg| input(*arg)).sum::<usize>();
    }
    let check = if plan.is_float24() { 8 } else { 0 };
    total
        + block.params.iter().map(|value| (1 + check) * live(*value)).sum::<usize>()
        + arguments(func, &block.term, live)
}

/// Instructions of an operation.
fn batch_node(plan: &BatchPlan, value: Value) -> usize {
    let (node, live) = (plan.func.node(value), plan.live[value.0 as usize]);
    let count = live.count_ones() as usize;
    let NarrowingCost { product, sum, end } = NarrowingCost::of(plan, value, live & XYZW);
    match node {
        Node::Alu { op, .. } => {
            let group = cost::vector(*op).group;
            match op {
                VectorOp::Pointwise(op) => {
                    let more = match op.result() {
                        PointwiseResult::Truth => 0,
                        PointwiseResult::Source | PointwiseResult::Integer => end,
                        PointwiseResult::Product => product + end,
                        PointwiseResult::Sum => sum + end,
                        PointwiseResult::ProductSum => product + sum + end,
                    };
                    count * (group + more)
                }
                VectorOp::Dot(op) => group + op.products() * product + (op.products() - 1) * sum + end,
                VectorOp::Dst => group + product + count * end,
                VectorOp::Litp => group + count * end,
            }
        }
        Node::Scalar { op, .. } if plan.is_float24() => {
            end + match op {
                ScalarOp::Rcp | ScalarOp::Rsq => 50,
                ScalarOp::Ex2 | ScalarOp::Lg2 => 80 + 2 * cost::scalar(*op).group,
            }
        }
        Node::Scalar { op, .. } => cost::scalar(*op).group,
        Node::Relative { .. } => 16 + 12 * count + if plan.is_float24() { GROUP * LEAF } else { 0 },
        Node::ToAddress(_) => 16,
        Node::Offset(_) => 24,
        node if node.ty() == Type::Vec4 => count,
        _ => 8,
    }
}
