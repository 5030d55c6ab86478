//! The loop of a function for batches -> the same loop for two groups at once, each of whose instructions stands there twice.
//!
//! A CPU that waits for one group's long chain of results has another's to go on with; how far it could look ahead by itself is limited.
//! What both groups have in common, such as uniforms, is computed once. A group is asked about together with the other: where
//! something is found in either, it is found in both, so both are given up, or go both ways under masks.
//!
//! Invariant: what an instruction computes for the second group is what it computes for the first, from the second's addresses. It must
//! not know what is computed.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, InstructionData};
use std::collections::{HashMap, HashSet};

/// What is to be known of a function's loop.
pub(crate) struct GroupLoop {
    pub(crate) header: clif::Block,
    /// Where the loop is left: behind the last group, and by one that is given up.
    pub(crate) exits: [clif::Block; 2],
    /// Tests that ask whether all vertices of a group agree; others ask whether any does.
    pub(crate) all_lanes_tests: HashSet<clif::Value>,
    /// The addresses of the first group and, made behind each, of the second.
    pub(crate) addresses: [[clif::Value; 2]; 2],
}

/// What the second group has in place of what the first has.
struct Interleaver<'a> {
    f: &'a mut clif::Function,
    of: HashMap<clif::Value, clif::Value>,
    /// Values that may differ between the groups.
    differ: HashSet<clif::Value>,
    /// The instructions that make the second group's addresses, and those before them in the header.
    apart: HashSet<clif::Inst>,
}

impl GroupLoop {
    /// Makes it a loop of two groups.
    pub(crate) fn interleave(&self, f: &mut clif::Function) {
        let blocks = self.blocks(f);
        let of: HashMap<_, _> = self.addresses.iter().map(|[first, second]| (*first, *second)).collect();
        let apart = self.made_apart(f);
        let mut twins = Interleaver { f, differ: of.keys().copied().collect(), of, apart };
        twins.find(&blocks);
        twins.append_params(self.header, &blocks);
        for &block in &blocks {
            let insts: Vec<clif::Inst> = twins.f.layout.block_insts(block).collect();
            for inst in insts {
                if twins.f.dfg.insts[inst].opcode().is_terminator() {
                    twins.test_both(inst, &self.all_lanes_tests);
                    twins.pass_both(inst);
                } else if twins.differs(inst) {
                    twins.add(inst);
                }
            }
        }
    }

    /// The loop's blocks, as they stand: what is computed comes before what it is used for.
    fn blocks(&self, f: &clif::Function) -> Vec<clif::Block> {
        let (mut inside, mut ahead) = (HashSet::new(), vec![self.header]);
        while let Some(block) = ahead.pop() {
            if !self.exits.contains(&block) && inside.insert(block) {
                ahead.extend(f.block_successors(block));
            }
        }
        f.layout.blocks().filter(|b| inside.contains(b)).collect()
    }

    /// What the header begins with: addresses, which are there for both groups.
    fn made_apart(&self, f: &clif::Function) -> HashSet<clif::Inst> {
        let made = |v: clif::Value| f.dfg.value_def(v).unwrap_inst();
        let last: HashSet<clif::Inst> = self.addresses.iter().map(|[_, second]| made(*second)).collect();
        let insts: Vec<clif::Inst> = f.layout.block_insts(self.header).collect();
        let behind = 1 + insts.iter().rposition(|i| last.contains(i)).expect("they are made there");
        insts[..behind].iter().copied().collect()
    }
}

impl Interleaver<'_> {
    fn differs(&self, inst: clif::Inst) -> bool {
        !self.apart.contains(&inst) && self.f.dfg.inst_values(inst).any(|v| self.differ.contains(&v))
    }

    /// Everything that depends on the addresses.
    fn find(&mut self, blocks: &[clif::Block]) {
        loop {
            let known = self.differ.len();
            for &block in blocks {
                for inst in self.f.layout.block_insts(block) {
                    if self.differs(inst) {
                        self.differ.extend(self.f.dfg.inst_results(inst));
                    }
                    let dfg = &self.f.dfg;
                    for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                        let params = dfg.block_params(call.block(&dfg.value_lists));
                        for (arg, &param) in call.args(&dfg.value_lists).zip(params) {
                            if arg.as_value().is_some_and(|v| self.differ.contains(&v)) {
                                self.differ.insert(param);
                            }
                        }
                    }
                }
            }
            if self.differ.len() == known {
                return;
            }
        }
    }

    /// Parameters of the second group's.
    fn append_params(&mut self, header: clif::Block, blocks: &[clif::Block]) {
        for &block in blocks.iter().filter(|b| **b != header) {
            for param in self.f.dfg.block_params(block).to_vec() {
                if self.differ.contains(&param) {
                    let ty = self.f.dfg.value_type(param);
                    self.of.insert(param, self.f.dfg.append_block_param(block, ty));
                }
            }
        }
    }

    /// The instruction again, behind itself.
    fn add(&mut self, inst: clif::Inst) {
        let (next, at) = (self.f.layout.next_inst(inst), self.f.srcloc(inst));
        let twin = self.f.dfg.clone_inst(inst);
        self.f.dfg.map_inst_values(twin, |v| self.of.get(&v).copied().unwrap_or(v));
        self.f.layout.insert_inst(twin, next.expect("a block does not end with it"));
        self.f.set_srcloc(twin, at);
        let dfg = &self.f.dfg;
        self.of.extend(dfg.inst_results(inst).iter().copied().zip(dfg.inst_results(twin).iter().copied()));
    }

    /// A test that asks one group asks the other, too.
    fn test_both(&mut self, inst: clif::Inst, all_lanes_tests: &HashSet<clif::Value>) {
        let InstructionData::Brif { arg, .. } = self.f.dfg.insts[inst] else { return };
        let Some(&twin) = self.of.get(&arg) else { return };
        let mut before = FuncCursor::new(self.f).at_inst(inst);
        let both =
            if all_lanes_tests.contains(&arg) { before.ins().band(arg, twin) } else { before.ins().bor(arg, twin) };
        if let InstructionData::Brif { arg, .. } = &mut self.f.dfg.insts[inst] {
            *arg = both;
        }
    }

    /// Arguments of the second group's.
    fn pass_both(&mut self, inst: clif::Inst) {
        let dfg = &mut self.f.dfg;
        let added: Vec<Vec<BlockArg>> = dfg.insts[inst]
            .branch_destination(&dfg.jump_tables, &dfg.exception_tables)
            .iter()
            .map(|call| {
                let params = dfg.block_params(call.block(&dfg.value_lists));
                let twin = |(arg, param): (BlockArg, &clif::Value)| {
                    let twin = |v| self.of.get(&v).copied().unwrap_or(v);
                    self.of.contains_key(param).then(|| arg.map_value(twin))
                };
                call.args(&dfg.value_lists).zip(params).filter_map(twin).collect()
            })
            .collect();
        let calls = dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        for (call, args) in calls.iter_mut().zip(added) {
            call.extend(args, &mut dfg.value_lists);
        }
    }
}
