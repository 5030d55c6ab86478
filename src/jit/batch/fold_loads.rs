//! Folds loads: splits blocks so that Cranelift makes a load the memory operand of the instruction
//! that uses it.
//!
//! Cranelift folds a load only if it has one use, and if every value computed from it in the same
//! block has one use; otherwise it might be executed twice. Most components have more uses. So a
//! block is split after values with several uses, and these become block parameters of the rest, in
//! which uses are counted anew. Cranelift removes block parameters whose incoming values agree. A
//! dead predecessor with a different value keeps these alive: a cold block that never runs.
//!
//! Invariant: only values that the split block defines become parameters, because its rest
//! dominates all their further uses. It must not know what is computed.

use super::{BatchLowering, BatchPlan, BatchValue};
use crate::ir::analysis::{self, components};
use crate::ir::{Func, Inst, Mem, Node, Value};
use crate::isa::VectorOp;
use crate::jit::batch::aos_outputs::AosVector;
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, types};
use std::collections::{BTreeSet, HashMap};

/// The loads that pay for a split, which costs an instruction.
const MIN_LOADS: u32 = 2;

/// The state between two splits.
pub(crate) struct LoadFolding {
    /// For each component of each value its number of uses, saturating; empty where folding has no
    /// use.
    uses: Vec<[u8; 4]>,
    /// Values with several uses, defined since the last split.
    fresh: BTreeSet<clif::Value>,
    /// The block parameters that stand for values from before a split.
    renames: HashMap<clif::Value, clif::Value>,
    /// Loads since the last split.
    pub(crate) loads: u32,
    /// Whether broadcasts of loads since the last split can be folded: a broadcasting load saves an
    /// instruction.
    pub(crate) broadcasts: bool,
    /// Index of the first value since the last split. A parameter can't stand for an older one:
    /// this block need not dominate its uses.
    first: usize,
}

impl LoadFolding {
    /// 64-bit Arm has no memory operands. Its broadcasting loads are folded by
    /// [`split_after`](BatchLowering::split_after) alone. So are those of interleaved code: both
    /// groups use a load of a hoisted value, so it can't be folded.
    pub(crate) fn new(func: &Func, plan: &BatchPlan, aarch64: bool, interleaved: bool) -> LoadFolding {
        let uses = if aarch64 || interleaved { Vec::new() } else { uses(func, plan) };
        LoadFolding { uses, fresh: BTreeSet::new(), renames: HashMap::new(), loads: 0, broadcasts: false, first: 0 }
    }

    /// Records the definition of a value.
    pub(crate) fn record(&mut self, value: Value, lowered: BatchValue) {
        let (Some(uses), BatchValue::Vector(vector)) = (self.uses.get(value.0 as usize), lowered) else { return };
        for &v in vector.iter().flatten() {
            // One CLIF value may be several components.
            let all: u32 = vector.iter().zip(uses).filter(|(m, _)| **m == Some(v)).map(|(_, u)| u32::from(*u)).sum();
            if all > 1 && v.index() >= self.first {
                self.fresh.insert(v);
            }
        }
    }

    /// `v`, or the block parameter that stands for it.
    pub(crate) fn renamed(&self, v: clif::Value) -> clif::Value {
        self.renames.get(&v).copied().unwrap_or(v)
    }
}

/// An estimate of how often SoA code uses each component. A copy is no use.
fn uses(func: &Func, plan: &BatchPlan) -> Vec<[u8; 4]> {
    let mut uses = vec![[0u8; 4]; func.nodes.len()];
    let own = |v: usize| [0, 1, 2, 3].map(|c| (Value(v as u32), c));
    let mut origins: Vec<[(Value, u8); 4]> = (0..func.nodes.len()).map(own).collect();
    for block in &func.blocks {
        // Definitions come before uses, so origins are final when they are read.
        for (_, inst) in &block.insts {
            let Inst::Def(value) = *inst else { continue };
            let origin = |v: Value, c: usize| origins[v.0 as usize][c];
            origins[value.0 as usize] = match *func.node(value) {
                Node::Merge { mask, old, new } => [0, 1, 2, 3].map(|c| origin(if mask.has(c) { new } else { old }, c)),
                Node::Alu { op: VectorOp::MOV, src: [u, ..] } => {
                    [0, 1, 2, 3].map(|c| origin(u.value, u.swizzle.component(c)))
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
                    // A guard of an operand is a use.
                    let times = 1 + u8::from(analysis::swallows_nan(node));
                    let mut read = |live| {
                        analysis::for_each_read(node, live, |v, read| components(read).for_each(|c| add(v, c, times)));
                    };
                    match node {
                        node if is_copy(node) => {}
                        Node::Alu { op: VectorOp::Dot(_), .. } | Node::Scalar { .. } if live != 0 => {
                            read(live);
                        }
                        // Each component of the result reads its operands again.
                        _ => components(live).for_each(|c| read(1 << c)),
                    }
                }
                // A guard and two shuffles.
                Inst::Store(Mem::Out { n, .. }, value) => {
                    components(plan.stored_components(n, value)).for_each(|c| add(value, c, 3));
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

/// Whether a node only copies components. DST copies two, which count as its own.
fn is_copy(node: &Node) -> bool {
    matches!(node, Node::Merge { .. } | Node::Alu { op: VectorOp::MOV, .. })
}

impl BatchLowering<'_, '_> {
    /// Begins a block, or the rest of one that was split.
    pub(crate) fn start_block(&mut self) {
        self.folding.fresh.clear();
        self.folding.loads = 0;
        self.folding.broadcasts = false;
        self.folding.first = self.b.func.dfg.num_values();
    }

    /// Splits the block before the definition of `value` if that lets its operands' loads fold.
    pub(crate) fn split_before(&mut self, value: Value) {
        let node = self.func.node(value);
        if !is_copy(node) {
            let mut used = Vec::new();
            node.for_each_use(|v| used.push(v));
            self.split(used.into_iter());
        }
    }

    /// Splits the block before a use of these values if there were enough loads and a value has
    /// several uses.
    pub(crate) fn split(&mut self, mut used: impl Iterator<Item = Value>) {
        let fresh = |v: Value| match self.values[v.0 as usize] {
            Some(BatchValue::Vector(vector)) => vector.iter().flatten().any(|v| self.folding.fresh.contains(v)),
            _ => false,
        };
        if self.folding.loads >= MIN_LOADS && used.any(fresh) {
            self.split_block();
        }
    }

    /// Splits the block before its terminator if there were enough loads and successors may read
    /// values with several uses.
    pub(crate) fn split_at_end(&mut self) {
        if self.folding.loads >= MIN_LOADS && !self.folding.fresh.is_empty() {
            self.split_block();
        }
    }

    /// Splits the block after the computation of AoS vectors that have several uses.
    pub(crate) fn split_after<'r>(&mut self, vectors: impl Iterator<Item = &'r mut AosVector>) {
        if self.folding.broadcasts {
            let vectors: Vec<&mut AosVector> = vectors.collect();
            self.folding.fresh.extend(vectors.iter().flat_map(|vector| vector.distinct()));
            self.split_block();
            vectors.into_iter().for_each(|vector| *vector = vector.map(|v| self.folding.renamed(v)));
        }
    }

    fn split_block(&mut self) {
        let (next, dead) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(dead);
        let fresh = std::mem::take(&mut self.folding.fresh);
        let args: Vec<BlockArg> = fresh.iter().map(|&v| v.into()).collect();
        // A pointer is never zero.
        self.b.ins().brif(self.frame, next, &args, dead, &[]);
        self.b.switch_to_block(dead);
        let zero = self.clif().constant(types::F32X4, 0.0);
        self.b.ins().jump(next, &vec![zero.into(); fresh.len()]);
        for v in fresh {
            let param = self.b.append_block_param(next, types::F32X4);
            self.folding.renames.insert(v, param);
        }
        // A pending guard of the original would be a further use in the block that was split.
        self.guards.iter_mut().for_each(|v| *v = self.folding.renamed(*v));
        self.b.switch_to_block(next);
        self.start_block();
    }
}
