//! Blocks cut in two, so that what is loaded once is read by the instruction that computes with it.
//!
//! Cranelift makes a load part of an instruction only if its value has one use, and so has everything that is computed
//! from it in the same block: a value with two might be computed twice. A component of a register mostly has more. So a block is cut behind
//! what is used more than once, and this becomes parameters of the rest, where counting begins anew. A parameter that is the same
//! on every way in is removed before; so there is a second way in, from cold code that is never run.
//!
//! Invariant: only what was made in the block that is cut becomes a parameter: nothing else leads to all that reads it. It must
//! not know what is computed.

use super::{BatchLowering, BatchPlan, BatchValue};
use crate::ir::analysis::{self, components};
use crate::ir::{Func, Inst, Mem, Node, Value};
use crate::isa::VectorOp;
use crate::jit::batch::aos_outputs::AosVector;
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, types};
use std::collections::{BTreeSet, HashMap};

/// A split costs an instruction. From so many loads on it saves more.
const WORTH: u32 = 2;

/// What is known between two folding.
pub(crate) struct LoadFolding {
    /// For each component of each value how often it is used, up to many; empty if folding are of no use.
    uses: Vec<[u8; 4]>,
    /// What was made since the last split and is used more than once.
    fresh: BTreeSet<clif::Value>,
    /// What folding have made parameters of.
    behind: HashMap<clif::Value, clif::Value>,
    /// Loads since the last split.
    pub(crate) loads: u32,
    /// Whether loads into all lanes are waiting for one, which saves as many instructions.
    pub(crate) spread: bool,
    /// Number of the first value that was made since. Older ones, which go by another name here, are not for folding: other blocks
    /// may read them, which this one doesn't lead to.
    first: usize,
}

impl LoadFolding {
    /// 64-bit Arm computes with registers only. It can load into all lanes, but that is [another matter](BatchLowering::split_after).
    pub(crate) fn new(func: &Func, plan: &BatchPlan, aarch64: bool) -> LoadFolding {
        let uses = if aarch64 { Vec::new() } else { uses(func, plan) };
        LoadFolding { uses, fresh: BTreeSet::new(), behind: HashMap::new(), loads: 0, spread: false, first: 0 }
    }

    /// A value has been made.
    pub(crate) fn made(&mut self, value: Value, low: BatchValue) {
        let (Some(uses), BatchValue::Vector(made)) = (self.uses.get(value.0 as usize), low) else { return };
        for &v in made.iter().flatten() {
            // All components may be one.
            let all: u32 = made.iter().zip(uses).filter(|(m, _)| **m == Some(v)).map(|(_, u)| u32::from(*u)).sum();
            if all > 1 && v.index() >= self.first {
                self.fresh.insert(v);
            }
        }
    }

    /// What `v` is now.
    pub(crate) fn behind(&self, v: clif::Value) -> clif::Value {
        self.behind.get(&v).copied().unwrap_or(v)
    }
}

/// How often the code for batches will use each component, about. What only gets another name is not used by that.
fn uses(func: &Func, plan: &BatchPlan) -> Vec<[u8; 4]> {
    let mut uses = vec![[0u8; 4]; func.nodes.len()];
    let own = |v: usize| [0, 1, 2, 3].map(|c| (Value(v as u32), c));
    let mut origins: Vec<[(Value, u8); 4]> = (0..func.nodes.len()).map(own).collect();
    for block in &func.blocks {
        // In order: what a value is another name of is defined before.
        for (_, inst) in &block.insts {
            let Inst::Def(value) = *inst else { continue };
            let origin = |v: Value, c: usize| origins[v.0 as usize][c];
            origins[value.0 as usize] = match *func.node(value) {
                Node::Merge { mask, old, new } => [0, 1, 2, 3].map(|c| origin(if mask.has(c) { new } else { old }, c)),
                Node::Alu { op: VectorOp::MOV, src: [u, ..] } => {
                    [0, 1, 2, 3].map(|c| origin(u.value, u.swizzle.lane(c)))
                }
                _ => continue,
            };
        }
    }
    let mut add = |value: Value, component: u8, times: u8| {
        let (value, component) = origins[value.0 as usize][usize::from(component)];
        let count = &mut uses[value.0 as usize][usize::from(component)];
        *count = count.saturating_add(times);
    };
    for block in &func.blocks {
        for (_, inst) in &block.insts {
            match *inst {
                Inst::Def(value) => {
                    let (node, live) = (func.node(value), plan.live[value.0 as usize]);
                    // What can hide a NaN is tested first.
                    let times = 1 + u8::from(analysis::swallows_nan(node));
                    let mut read = |live| {
                        analysis::for_each_read(node, live, |v, lanes| {
                            components(lanes).for_each(|c| add(v, c, times))
                        });
                    };
                    match node {
                        node if renames(node) => {}
                        Node::Alu { op: VectorOp::Dot(_), .. } | Node::Scalar { .. } if live != 0 => {
                            read(live);
                        }
                        // For each lane on its own.
                        _ => components(live).for_each(|c| read(1 << c)),
                    }
                }
                // Tested, and twice rearranged.
                Inst::Store(Mem::Out { n, .. }, value) if !plan.is_aos_output(n, value) => {
                    components(plan.written[usize::from(n)]).for_each(|c| add(value, c, 3));
                }
                Inst::Store(..) | Inst::Emit | Inst::Setemit(_) => {}
            }
        }
        for edge in block.term.edges() {
            for (param, &arg) in func.blocks[edge.to].params.iter().zip(&edge.args) {
                components(plan.live[param.0 as usize]).for_each(|c| add(arg, c, 1));
            }
        }
    }
    uses
}

/// Whether a value is others' components under another name, and nothing else. Of DST two components are; they count as its own.
fn renames(node: &Node) -> bool {
    matches!(node, Node::Merge { .. } | Node::Alu { op: VectorOp::MOV, .. })
}

impl BatchLowering<'_, '_> {
    /// A block begins, or what is left of one.
    pub(crate) fn start_piece(&mut self) {
        self.folding.fresh.clear();
        self.folding.loads = 0;
        self.folding.spread = false;
        self.folding.first = self.b.func.dfg.num_values();
    }

    /// Cuts the block if what `value` is made of asks for it.
    pub(crate) fn split_before(&mut self, value: Value) {
        let node = self.func.node(value);
        if !renames(node) {
            let mut used = Vec::new();
            node.for_each_use(|v| used.push(v));
            self.split(used.into_iter());
        }
    }

    /// Cuts the block if these values come from many loads and are used more than once.
    pub(crate) fn split(&mut self, mut used: impl Iterator<Item = Value>) {
        let fresh = |v: Value| match self.values[v.0 as usize] {
            Some(BatchValue::Vector(made)) => made.iter().flatten().any(|v| self.folding.fresh.contains(v)),
            _ => false,
        };
        if self.folding.loads >= WORTH && used.any(fresh) {
            self.cut();
        }
    }

    /// Cuts the block at its end, if what later ones read comes from many loads.
    pub(crate) fn split_at_end(&mut self) {
        if self.folding.loads >= WORTH && !self.folding.fresh.is_empty() {
            self.cut();
        }
    }

    /// Cuts the block behind rows that will be used more than once.
    pub(crate) fn split_after<'r>(&mut self, rows: impl Iterator<Item = &'r mut AosVector>) {
        if self.folding.spread {
            let rows: Vec<&mut AosVector> = rows.collect();
            self.folding.fresh.extend(rows.iter().flat_map(|row| row.distinct()));
            self.cut();
            rows.into_iter().for_each(|row| *row = row.map(|v| self.folding.behind(v)));
        }
    }

    fn cut(&mut self) {
        let (next, never) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(never);
        let fresh = std::mem::take(&mut self.folding.fresh);
        let args: Vec<BlockArg> = fresh.iter().map(|&v| v.into()).collect();
        // A pointer is never zero.
        self.b.ins().brif(self.frame, next, &args, never, &[]);
        self.b.switch_to_block(never);
        let zero = self.clif().constant(types::F32X4, 0.0);
        self.b.ins().jump(next, &vec![zero.into(); fresh.len()]);
        for v in fresh {
            let param = self.b.append_block_param(next, types::F32X4);
            self.folding.behind.insert(v, param);
        }
        // What waits to be tested would be a second use.
        self.guards.iter_mut().for_each(|v| *v = self.folding.behind(*v));
        self.b.switch_to_block(next);
        self.start_piece();
    }
}
