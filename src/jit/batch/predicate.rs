//! Predication: a divergent branch -> both sides in sequence, for all lanes, under masks.
//!
//! Between the branch and its join, blocks only define values, so no store needs a mask: each block
//! runs for all lanes, and a block parameter selects per lane the argument of the edge that the
//! lane took. The predicated copy of the region is cold; groups for which the branch is uniform run
//! the original. A region with a loop or an exit has no predicated copy, and the group bails out.
//!
//! It must not know how values are computed.

use crate::ir::analysis::components;
use crate::ir::{Edge, Func, Inst, Terminator, Type, Value};
use crate::jit::batch::bailout::BailoutReason;
use crate::jit::batch::estimate::{self, MAX_PREDICATED_INSTRUCTIONS};
use crate::jit::batch::{BatchLowering, BatchValue};
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, SourceLoc, types};
use std::collections::{BTreeMap, BTreeSet};

/// Instructions and blocks that predication may copy, in all. Real shaders have some dozens.
const MAX_PREDICATED: usize = 512;

/// The blocks between a branch and its join.
pub(crate) struct Region {
    /// In reverse postorder.
    blocks: Vec<usize>,
    join: usize,
    /// Number of instructions and blocks.
    cost: usize,
}

/// What predication may still add.
pub(super) struct PredicationBudget {
    /// Instructions and blocks of the IR.
    cost: usize,
    /// Instructions of CLIF.
    instructions: usize,
}

impl Default for PredicationBudget {
    fn default() -> PredicationBudget {
        PredicationBudget { cost: MAX_PREDICATED, instructions: MAX_PREDICATED_INSTRUCTIONS }
    }
}

/// An edge into a block, and the lanes that take it.
struct IncomingEdge<'a> {
    edge: &'a Edge,
    mask: clif::Value,
}

/// The edges of lowered blocks, by target.
type IncomingEdges<'a> = BTreeMap<usize, Vec<IncomingEdge<'a>>>;

impl Region {
    /// The region of the branch at the end of block `from`, if its cost is at most `limit`.
    fn of(func: &Func, from: usize, limit: usize) -> Option<Region> {
        let mut worklist: BTreeSet<usize> = func.blocks[from].term.edges().map(|e| e.to).collect();
        if worklist.first().is_none_or(|first| *first <= from) {
            return None;
        }
        let (mut blocks, mut cost) = (Vec::new(), 0);
        // Blocks are in reverse postorder: all paths pass a block that is alone in the worklist.
        while let Some(block) = worklist.pop_first() {
            if worklist.is_empty() {
                return Some(Region { blocks, join: block, cost });
            }
            let (Terminator::Goto(_) | Terminator::Branch { .. }) = func.blocks[block].term else { return None };
            cost += 1 + func.blocks[block].insts.len();
            if cost > limit || func.blocks[block].insts.iter().any(|(_, i)| !matches!(i, Inst::Def(_))) {
                return None;
            }
            for edge in func.blocks[block].term.edges() {
                // A back edge: the region is a loop.
                if edge.to <= block {
                    return None;
                }
                worklist.insert(edge.to);
            }
            blocks.push(block);
        }
        None
    }
}

impl<'a> BatchLowering<'a, '_> {
    /// The region that predicates the branch at the end of block `from`, if one can.
    pub(crate) fn predicable_region(&self, from: usize) -> Option<Region> {
        let func = self.func;
        let region = Region::of(func, from, self.predication_budget.cost)?;
        if self.instructions_of(&region) > self.predication_budget.instructions {
            return None;
        }
        let mut incoming: BTreeMap<usize, Vec<&Edge>> = BTreeMap::new();
        for edge in region.blocks.iter().chain([&from]).flat_map(|&b| func.blocks[b].term.edges()) {
            incoming.entry(edge.to).or_default().push(edge);
        }
        incoming.iter().all(|(&to, edges)| self.can_select(to, edges)).then_some(region)
    }

    fn instructions_of(&self, region: &Region) -> usize {
        let blocks = region.blocks.iter().map(|&id| &self.func.blocks[id]);
        blocks.map(|block| estimate::batch_block(self.plan, block)).sum()
    }

    /// Writes the predicated copy of `region`, from block `at` on. The lanes of `mask` take `yes`,
    /// the others `no`.
    pub(crate) fn predicate(
        &mut self,
        region: &Region,
        at: clif::Block,
        mask: clif::Value,
        yes: &'a Edge,
        no: &'a Edge,
    ) {
        let func = self.func;
        self.predication_budget.cost -= region.cost;
        self.predication_budget.instructions -= self.instructions_of(region);
        self.b.set_cold_block(at);
        self.b.switch_to_block(at);
        self.start_block();
        // The original of the region defines the same IR values later.
        let values = self.values.clone();
        let inverse = self.b.ins().bnot(mask);
        let mut pending: IncomingEdges<'a> = BTreeMap::new();
        pending.entry(yes.to).or_default().push(IncomingEdge { edge: yes, mask });
        pending.entry(no.to).or_default().push(IncomingEdge { edge: no, mask: inverse });
        for &id in &region.blocks {
            let block = &func.blocks[id];
            let incoming = pending.remove(&id).expect("a block of a region has a predecessor before it");
            for (n, &param) in block.params.iter().enumerate() {
                if self.plan.live[param.0 as usize] != 0 {
                    let lowered = self.select(param, n, &incoming);
                    self.folding.record(param, lowered);
                    self.values[param.0 as usize] = Some(lowered);
                    self.check(param);
                }
            }
            let mask = incoming.iter().map(|edge| edge.mask).reduce(|a, b| self.b.ins().bor(a, b));
            let mask = mask.expect("there is an edge");
            for &(pc, inst) in &block.insts {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                if let Inst::Def(value) = inst {
                    self.define_live(value);
                }
            }
            match &block.term {
                Terminator::Goto(edge) => pending.entry(edge.to).or_default().push(IncomingEdge { edge, mask }),
                Terminator::Branch { test, yes, no } => {
                    let holds = self.condition(test);
                    let holds = self.broadcast(holds, Type::Flag);
                    let (to_yes, to_no) = (self.b.ins().band(mask, holds), self.b.ins().band_not(mask, holds));
                    pending.entry(yes.to).or_default().push(IncomingEdge { edge: yes, mask: to_yes });
                    pending.entry(no.to).or_default().push(IncomingEdge { edge: no, mask: to_no });
                }
                Terminator::Exit(_) => unreachable!("a region has no exit"),
            }
        }
        let incoming = pending.remove(&region.join).expect("all paths lead to the join");
        let mut args: Vec<BlockArg> = Vec::new();
        for (n, &param) in func.blocks[region.join].params.iter().enumerate() {
            if self.plan.live[param.0 as usize] == 0 {
                continue;
            }
            match self.select(param, n, &incoming) {
                BatchValue::Vector(v) => args.extend(v.into_iter().flatten().map(BlockArg::from)),
                BatchValue::Uniform(v) | BatchValue::Divergent(v) => args.push(v.into()),
                BatchValue::UniformAt(..) | BatchValue::Address(_) | BatchValue::Addresses(_) => {
                    unreachable!("a parameter is no uniform and no uniform index")
                }
            }
        }
        self.test_guards(BailoutReason::GuardBeforeJoin);
        self.b.ins().jump(self.blocks[region.join], &args);
        self.values = values;
    }

    /// Whether [`select`](Self::select) can represent each parameter of block `to`: a vector or a
    /// divergent scalar is selected per lane, of fuel the least counts, and another uniform scalar
    /// must have the same argument on all edges.
    fn can_select(&self, to: usize, edges: &[&Edge]) -> bool {
        self.func.blocks[to].params.iter().enumerate().all(|(n, &param)| {
            self.plan.live[param.0 as usize] == 0
                || self.func.node(param).ty() == Type::Vec4
                || self.plan.divergent[param.0 as usize]
                || self.plan.fuel[param.0 as usize]
                || edges.windows(2).all(|pair| pair[0].args[n] == pair[1].args[n])
        })
    }

    fn fuel(&mut self, value: Value) -> clif::Value {
        match self.scalar(value) {
            BatchValue::Uniform(fuel) => fuel,
            _ => unreachable!("fuel depends on no input"),
        }
    }

    /// Parameter `n` of a block: per lane the argument of the edge that the lane took.
    fn select(&mut self, param: Value, n: usize, edges: &[IncomingEdge<'a>]) -> BatchValue {
        let (first, rest) = edges.split_first().expect("there is an edge");
        let argument = |incoming: &IncomingEdge<'a>| incoming.edge.args[n];
        if self.func.node(param).ty() == Type::Vec4 {
            let mut selected = [None; 4];
            for c in components(self.plan.live[param.0 as usize]) {
                let mut v = self.component(argument(first), c);
                for incoming in rest.iter().filter(|incoming| argument(incoming) != argument(first)) {
                    let other = self.component(argument(incoming), c);
                    if other != v {
                        let mask = self.clif().bitcast(types::F32X4, incoming.mask);
                        v = self.b.ins().bitselect(mask, other, v);
                    }
                }
                selected[usize::from(c)] = Some(v);
            }
            return BatchValue::Vector(selected);
        }
        if self.plan.fuel[param.0 as usize] {
            // A group without fuel bails out, so a group may have less than one of its vertices.
            let mut least = self.fuel(argument(first));
            for incoming in rest.iter().filter(|incoming| argument(incoming) != argument(first)) {
                let other = self.fuel(argument(incoming));
                least = self.b.ins().smin(least, other);
            }
            return BatchValue::Uniform(least);
        }
        if !self.plan.divergent[param.0 as usize] {
            return self.scalar(argument(first));
        }
        let mut v = self.per_lane(argument(first));
        for incoming in rest {
            let other = self.per_lane(argument(incoming));
            v = self.b.ins().bitselect(incoming.mask, other, v);
        }
        BatchValue::Divergent(v)
    }
}
