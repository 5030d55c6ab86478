//! Vertices of a group that disagree on a branch: both ways, one after the other, under masks.
//!
//! Between the branch and the block where its ways meet again, blocks only make values, so nothing has to be kept from vertices
//! that are elsewhere: each block is run for all, and a parameter takes, for each vertex, what comes along the vertex's own way.
//! Such code exists besides the one for groups that agree. Loops and ways that end the run have none; there the group is given up.
//!
//! It must not know what values are made of.

use crate::ir::analysis::components;
use crate::ir::{Edge, Func, Inst, Terminator, Type, Value};
use crate::jit::batch::{BatchLowering, BatchValue};
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, SourceLoc, types};
use std::collections::{BTreeMap, BTreeSet};

/// Instructions and blocks that are written a second time for groups that disagree, in all. Real shaders have some dozens.
pub(crate) const MAX_PREDICATED: usize = 512;

/// What lies between a branch and the block where its ways meet.
pub(crate) struct Region {
    /// In an order in which each comes before those it leads to.
    blocks: Vec<usize>,
    join: usize,
    /// Instructions and blocks.
    cost: usize,
}

/// One way into a block, and the vertices that take it.
struct IncomingEdge<'a> {
    edge: &'a Edge,
    mask: clif::Value,
}

/// Ways that have been gone, by where they lead.
type IncomingEdges<'a> = BTreeMap<usize, Vec<IncomingEdge<'a>>>;

impl Region {
    /// Behind the branch at the end of block `from`, if there are at most `most` instructions and blocks in between.
    fn behind(func: &Func, from: usize, most: usize) -> Option<Region> {
        let mut ahead: BTreeSet<usize> = func.blocks[from].term.edges().map(|e| e.to).collect();
        if ahead.first().is_none_or(|first| *first <= from) {
            return None;
        }
        let (mut blocks, mut cost) = (Vec::new(), 0);
        // The first block in order that nothing else is ahead of is where all ways meet.
        while let Some(block) = ahead.pop_first() {
            if ahead.is_empty() {
                return Some(Region { blocks, join: block, cost });
            }
            let (Terminator::Goto(_) | Terminator::Branch { .. }) = func.blocks[block].term else { return None };
            cost += 1 + func.blocks[block].insts.len();
            if cost > most || func.blocks[block].insts.iter().any(|(_, i)| !matches!(i, Inst::Def(_))) {
                return None;
            }
            for edge in func.blocks[block].term.edges() {
                // Back, as in a loop.
                if edge.to <= block {
                    return None;
                }
                ahead.insert(edge.to);
            }
            blocks.push(block);
        }
        None
    }
}

impl<'a> BatchLowering<'a, '_> {
    /// What can be run under masks behind the branch at the end of block `from`.
    pub(crate) fn predicable_region(&self, from: usize) -> Option<Region> {
        let func = self.func;
        let region = Region::behind(func, from, self.predication_budget)?;
        let mut ways: BTreeMap<usize, Vec<&Edge>> = BTreeMap::new();
        for edge in region.blocks.iter().chain([&from]).flat_map(|&b| func.blocks[b].term.edges()) {
            ways.entry(edge.to).or_default().push(edge);
        }
        ways.iter().all(|(&to, ways)| self.can_select(to, ways)).then_some(region)
    }

    /// Writes `at`, where a group goes whose vertices disagree: those of `mask` go `yes`.
    pub(crate) fn predicate(
        &mut self,
        region: &Region,
        at: clif::Block,
        mask: clif::Value,
        yes: &'a Edge,
        no: &'a Edge,
    ) {
        let func = self.func;
        self.predication_budget -= region.cost;
        self.b.set_cold_block(at);
        self.b.switch_to_block(at);
        self.start_piece();
        // The blocks in between are also written for groups that agree.
        let values = self.values.clone();
        let others = self.b.ins().bnot(mask);
        let mut ways: IncomingEdges<'a> = BTreeMap::new();
        ways.entry(yes.to).or_default().push(IncomingEdge { edge: yes, mask });
        ways.entry(no.to).or_default().push(IncomingEdge { edge: no, mask: others });
        for &id in &region.blocks {
            let block = &func.blocks[id];
            let coming = ways.remove(&id).expect("a block in between is led to by one before it");
            for (n, &param) in block.params.iter().enumerate() {
                if self.plan.live[param.0 as usize] != 0 {
                    let low = self.select(param, n, &coming);
                    self.folding.made(param, low);
                    self.values[param.0 as usize] = Some(low);
                }
            }
            let mask = coming.iter().map(|way| way.mask).reduce(|a, b| self.b.ins().bor(a, b));
            let mask = mask.expect("there is a way");
            for &(pc, inst) in &block.insts {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                if let Inst::Def(value) = inst {
                    self.make(value);
                }
            }
            match &block.term {
                Terminator::Goto(edge) => ways.entry(edge.to).or_default().push(IncomingEdge { edge, mask }),
                Terminator::Branch { test, yes, no } => {
                    let holds = self.condition(test);
                    let holds = self.spread(holds, Type::Flag);
                    let (to_yes, to_no) = (self.b.ins().band(mask, holds), self.b.ins().band_not(mask, holds));
                    ways.entry(yes.to).or_default().push(IncomingEdge { edge: yes, mask: to_yes });
                    ways.entry(no.to).or_default().push(IncomingEdge { edge: no, mask: to_no });
                }
                Terminator::Exit(_) => unreachable!("such a region is none"),
            }
        }
        let coming = ways.remove(&region.join).expect("all ways lead there");
        let mut args: Vec<BlockArg> = Vec::new();
        for (n, &param) in func.blocks[region.join].params.iter().enumerate() {
            if self.plan.live[param.0 as usize] == 0 {
                continue;
            }
            match self.select(param, n, &coming) {
                BatchValue::Vector(v) => args.extend(v.into_iter().flatten().map(BlockArg::from)),
                BatchValue::Uniform(v) | BatchValue::Divergent(v) => args.push(v.into()),
                BatchValue::UniformAt(..) | BatchValue::Address(_) | BatchValue::Addresses(_) => {
                    unreachable!("used for uniforms only")
                }
            }
        }
        self.test_guards();
        self.b.ins().jump(self.blocks[region.join], &args);
        self.values = values;
    }

    /// Whether each parameter of block `to` can differ between vertices, or is the same along all ways. Vectors always can: those
    /// that are chosen by the way [vary](crate::ir::Func::divergent).
    fn can_select(&self, to: usize, ways: &[&Edge]) -> bool {
        self.func.blocks[to].params.iter().enumerate().all(|(n, &param)| {
            self.plan.live[param.0 as usize] == 0
                || self.func.node(param).ty() == Type::Vec4
                || self.plan.divergent[param.0 as usize]
                || ways.windows(2).all(|pair| pair[0].args[n] == pair[1].args[n])
        })
    }

    /// Parameter `n` of a block, for each vertex along its own way.
    fn select(&mut self, param: Value, n: usize, ways: &[IncomingEdge<'a>]) -> BatchValue {
        let (first, rest) = ways.split_first().expect("there is a way");
        let of = |way: &IncomingEdge<'a>| way.edge.args[n];
        if self.func.node(param).ty() == Type::Vec4 {
            let mut predicate = [None; 4];
            for c in components(self.plan.live[param.0 as usize]) {
                let mut v = self.component(of(first), c);
                for way in rest.iter().filter(|way| of(way) != of(first)) {
                    let other = self.component(of(way), c);
                    if other != v {
                        let mask = self.clif().bitcast(types::F32X4, way.mask);
                        v = self.b.ins().bitselect(mask, other, v);
                    }
                }
                predicate[usize::from(c)] = Some(v);
            }
            return BatchValue::Vector(predicate);
        }
        if !self.plan.divergent[param.0 as usize] {
            return self.scalar(of(first));
        }
        let mut v = self.each(of(first));
        for way in rest {
            let other = self.each(of(way));
            v = self.b.ins().bitselect(way.mask, other, v);
        }
        BatchValue::Divergent(v)
    }
}
