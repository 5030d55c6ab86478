//! A function -> how long a group waits for results, next to how much it computes.
//!
//! An estimate for one vertex without loops, in the latencies of present CPUs. It must not know what
//! follows from it.

use crate::ir::analysis::{Components, XYZW, components, for_each_read};
use crate::ir::{Func, Inst, Mem, Node, Terminator};
use crate::isa::VectorOp;
use crate::jit::emit::cost::{self, ADD, Cost};
use crate::state::Exit;

/// Instructions that load and transpose a register of four vertices, or that transpose and store
/// it.
const TRANSPOSE: u32 = 12;

/// What one group costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupCost {
    /// Cycles of the longest chain of dependent operations.
    pub(super) chain: u32,
    /// Instructions.
    pub(super) instructions: u32,
}

/// Cycles and instructions of one component of a node, without its operands.
fn component_cost(node: &Node) -> (u32, u32) {
    let of = |cost: Cost| (cost.cycles, cost.instructions);
    match node {
        Node::Alu { op, .. } => of(cost::vector(*op)),
        Node::Scalar { op, .. } => of(cost::scalar(*op)),
        Node::Relative { .. } => (ADD, 6),
        Node::Offset(_) | Node::Add(..) | Node::Flip(_) => (1, 1),
        Node::ToAddress(_) => (3 * ADD, 8),
        Node::Compare { .. } => (ADD, 1),
        Node::Input(_) | Node::Param(_) | Node::Const(_) | Node::Int(_) | Node::Flag(_) | Node::Uniform(_) => (0, 0),
        Node::IntUniform { .. } | Node::Load(_) | Node::Merge { .. } => (0, 0),
    }
}

impl GroupCost {
    /// The estimate for `func`, in SSA form.
    pub(super) fn of(func: &Func) -> GroupCost {
        let ends = func.blocks.iter().filter(|b| b.term == Terminator::Exit(Exit::End));
        let stores = ends.flat_map(|b| &b.insts).filter_map(|(_, inst)| match *inst {
            Inst::Store(Mem::Out { .. }, value) => Some((value, XYZW)),
            _ => None,
        });
        let stores: Vec<_> = stores.collect();
        let outputs = stores.len() as u32;
        let live = func.live_from(stores);
        let inputs = func.nodes.iter().zip(&live).filter(|(node, live)| matches!(node, Node::Input(_)) && **live != 0);
        let mut cost = GroupCost { chain: 0, instructions: TRANSPOSE * (inputs.count() as u32 + outputs) };
        // The cycle in which each component is known.
        let mut known = vec![[0u32; 4]; func.nodes.len()];
        for block in &func.blocks {
            for (_, inst) in &block.insts {
                let Inst::Def(value) = *inst else { continue };
                let (node, live) = (func.node(value), live[value.0 as usize]);
                let (cycles, instructions) = component_cost(node);
                let read = |set: Components| {
                    let mut latest = 0;
                    for_each_read(node, set, |v, of| {
                        latest =
                            components(of).fold(latest, |latest, c| latest.max(known[v.0 as usize][usize::from(c)]));
                    });
                    latest
                };
                // The result of these is the same in all components.
                let once = matches!(node, Node::Scalar { .. } | Node::Alu { op: VectorOp::Dot(_), .. });
                let at = [0, 1, 2, 3].map(|c| if live >> c & 1 != 0 { read(1 << c) + cycles } else { 0 });
                known[value.0 as usize] = at;
                cost.chain = at.into_iter().fold(cost.chain, u32::max);
                cost.instructions += instructions * if once { live.count_ones().min(1) } else { live.count_ones() };
            }
            for edge in block.term.edges() {
                for (param, arg) in func.blocks[edge.to].params.iter().zip(&edge.args) {
                    let arg = known[arg.0 as usize];
                    let param = &mut known[param.0 as usize];
                    (0..4).for_each(|c| param[c] = param[c].max(arg[c]));
                }
            }
        }
        cost
    }
}
