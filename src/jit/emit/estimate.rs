//! A function -> an upper bound of the CLIF instructions of its code for one vertex, before any is
//! made.
//!
//! Time, memory and code size of a compilation grow with the number of CLIF instructions. Beyond
//! [`MAX_INSTRUCTIONS`] nothing is lowered, and tier 0 serves. Real shaders need a small part of it.
//!
//! The weights of operations are those of [`cost`]; a test compares the bound with the code of random
//! programs. It must not know how operations are lowered.

use super::{Products, cost};
use crate::ir::{Form, Func, Inst, Node, Terminator, Value};
use crate::isa::numeric::Precision;
use crate::isa::{PointwiseResult, VectorOp};
use std::collections::HashSet;

/// The most instructions of code for one vertex. In f32 the vertex units' memory full of any instruction
/// but EX2 fits. With 32,768 a search found code in float24 that took 31 of 32 MB to compile.
const MAX_INSTRUCTIONS: usize = 28_672;

/// The same in memory form, which only tests and benchmarks run.
const MAX_INSTRUCTIONS_IN_MEMORY: usize = 131_072;

/// The limit for code of `func`.
pub(in crate::jit) fn limit(func: &Func) -> usize {
    match func.form {
        Form::Ssa => MAX_INSTRUCTIONS,
        Form::Memory => MAX_INSTRUCTIONS_IN_MEMORY,
    }
}

/// What the number format and the form of products add to an operation.
#[derive(Clone, Copy)]
struct Steps {
    /// Instructions that round a result.
    rounding: usize,
    /// Instructions that test a product.
    product: usize,
    /// Instructions that narrow an input or a uniform.
    operand: usize,
    /// Instructions that guard an operand.
    guard: usize,
}

impl Steps {
    fn new(products: Products, precision: Precision) -> Steps {
        let speculates = products == Products::Speculative;
        match precision {
            Precision::F32 if speculates => Steps { rounding: 0, product: 0, operand: 0, guard: 4 },
            Precision::F32 => Steps { rounding: 0, product: 9, operand: 0, guard: 0 },
            Precision::F24 { .. } if speculates => Steps { rounding: 17, product: 0, operand: 26, guard: 0 },
            Precision::F24 { .. } => Steps { rounding: 37, product: 2, operand: 26, guard: 0 },
        }
    }
}

/// The bound for code that runs one vertex.
pub(in crate::jit) fn vertex_instructions(func: &Func, products: Products, precision: Precision) -> usize {
    let steps = Steps::new(products, precision);
    let mut total = 64;
    for block in &func.blocks {
        total += 8 + 2 * block.params.len();
        let mut leaves = HashSet::new();
        for (_, inst) in &block.insts {
            total += match *inst {
                Inst::Def(value) => {
                    let mut operands = 0;
                    let node = func.node(value);
                    node.for_each_use(|operand| {
                        // Narrowed once a block in SSA form.
                        if is_external(func, operand) && (leaves.insert(operand) || func.form == Form::Memory) {
                            operands += 3 + steps.operand;
                        }
                    });
                    operands + vertex_node(node, steps)
                }
                Inst::Store(..) => 4 + steps.guard,
                Inst::Emit => 100,
                Inst::Setemit(_) => 8,
            };
        }
        total += arguments(func, &block.term, |_| 2);
    }
    total
}

/// Whether the value is loaded from outside of the code's registers.
pub(in crate::jit) fn is_external(func: &Func, value: Value) -> bool {
    matches!(func.node(value), Node::Input(_) | Node::Uniform(_) | Node::Load(_))
}

/// Instructions of a terminator, of which each argument takes `each`.
pub(in crate::jit) fn arguments(func: &Func, term: &Terminator, each: impl Fn(Value) -> usize) -> usize {
    let params = term.edges().flat_map(|edge| &func.blocks[edge.to].params);
    // The test of the cancel flag.
    let check = if matches!(term, Terminator::Branch { test, .. } if test.is_fuel_check()) { 6 } else { 0 };
    8 + check + params.map(|param| each(*param)).sum::<usize>()
}

fn vertex_node(node: &Node, steps: Steps) -> usize {
    let Steps { rounding, product, operand, guard } = steps;
    match node {
        Node::Alu { op, .. } => {
            let more = match op {
                VectorOp::Pointwise(op) => match op.result() {
                    PointwiseResult::Source | PointwiseResult::Truth if op.swallows_nan() => op.sources() * guard,
                    PointwiseResult::Source | PointwiseResult::Truth => 0,
                    PointwiseResult::Integer | PointwiseResult::Sum => rounding,
                    PointwiseResult::Product => rounding + product,
                    PointwiseResult::ProductSum => 2 * rounding + product,
                },
                VectorOp::Dot(_) => 3 * rounding + product,
                VectorOp::Dst => rounding + product,
                VectorOp::Litp => guard,
            };
            cost::vector(*op).vertex + more
        }
        Node::Scalar { op, .. } => cost::scalar(*op).vertex + 2 * rounding,
        Node::Compare { .. } => 8 + 2 * guard,
        Node::ToAddress(_) => 12 + guard,
        Node::Relative { .. } => 26 + operand,
        Node::Load(_) => 8,
        Node::Merge { .. } | Node::Offset(_) | Node::Add(..) | Node::Flip(_) => 6,
        Node::Param(_)
        | Node::Const(_)
        | Node::Int(_)
        | Node::Flag(_)
        | Node::Input(_)
        | Node::Uniform(_)
        | Node::IntUniform { .. } => 1,
    }
}
