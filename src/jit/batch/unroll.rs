//! The loop of batch code -> the same loop unrolled by two, the instructions of two groups
//! interleaved.
//!
//! Two independent dependence chains hide latency that the CPU's reorder window does not reach.
//! Instructions that depend on no address of a group are shared. Branches are shared too: a guard
//! of either group makes both bail out, and a branch that is divergent in either predicates both.
//!
//! Invariant: each copy computes from the second group's addresses what its original computes from
//! the first's. It must not know what is computed.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, InstructionData};
use std::collections::HashSet;

/// The loop of a batch function.
pub(crate) struct GroupLoop {
    pub(crate) header: clif::Block,
    /// The loop's exits: after the last group, and by a bailout.
    pub(crate) exits: [clif::Block; 2],
    /// Conditions that hold if all lanes of a mask are set; all others hold if any lane is.
    pub(crate) all_lanes_tests: HashSet<clif::Value>,
    /// For inputs, outputs and written masks the addresses of the first group and of the second,
    /// defined in the header.
    pub(crate) addresses: Vec<[clif::Value; 2]>,
}

/// Duplicates what depends on a group.
struct Interleaver<'a> {
    f: &'a mut clif::Function,
    /// For a value of the first group that of the second.
    twins: SecondaryMap<clif::Value, Option<clif::Value>>,
    /// Values that depend on a group.
    dependent: EntitySet<clif::Value>,
    /// Instructions that compute the addresses of both groups already.
    address_code: EntitySet<clif::Inst>,
}

impl GroupLoop {
    /// Unrolls the loop by two.
    pub(crate) fn interleave(&self, f: &mut clif::Function) {
        let blocks = self.blocks(f);
        let address_code = self.address_code(f);
        let mut l = Interleaver { f, twins: SecondaryMap::new(), dependent: EntitySet::new(), address_code };
        for &[first, second] in &self.addresses {
            l.twins[first] = Some(second);
            l.dependent.insert(first);
        }
        l.find_dependent(&blocks);
        l.append_params(self.header, &blocks);
        for &block in &blocks {
            let insts: Vec<clif::Inst> = l.f.layout.block_insts(block).collect();
            for inst in insts {
                if l.f.dfg.insts[inst].opcode().is_terminator() {
                    l.join_tests(inst, &self.all_lanes_tests);
                    l.append_arguments(inst);
                } else if l.depends(inst) {
                    l.duplicate(inst);
                }
            }
        }
    }

    /// The loop's blocks in layout order, in which definitions come before uses.
    fn blocks(&self, f: &clif::Function) -> Vec<clif::Block> {
        let (mut inside, mut worklist) = (EntitySet::new(), vec![self.header]);
        while let Some(block) = worklist.pop() {
            if !self.exits.contains(&block) && inside.insert(block) {
                worklist.extend(f.block_successors(block));
            }
        }
        f.layout.blocks().filter(|b| inside.contains(*b)).collect()
    }

    /// The header's first instructions, up to the last that defines an address of the second group.
    fn address_code(&self, f: &clif::Function) -> EntitySet<clif::Inst> {
        let definition = |v: clif::Value| f.dfg.value_def(v).unwrap_inst();
        let last: HashSet<clif::Inst> = self.addresses.iter().map(|[_, second]| definition(*second)).collect();
        let insts: Vec<clif::Inst> = f.layout.block_insts(self.header).collect();
        let end = 1 + insts.iter().rposition(|i| last.contains(i)).expect("the header defines the addresses");
        let mut code = EntitySet::new();
        insts[..end].iter().for_each(|inst| _ = code.insert(*inst));
        code
    }
}

impl Interleaver<'_> {
    fn depends(&self, inst: clif::Inst) -> bool {
        !self.address_code.contains(inst) && self.f.dfg.inst_values(inst).any(|v| self.dependent.contains(v))
    }

    /// The values that depend on a group's addresses: a fixed point over instructions and block
    /// parameters.
    fn find_dependent(&mut self, blocks: &[clif::Block]) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &block in blocks {
                for inst in self.f.layout.block_insts(block) {
                    let dfg = &self.f.dfg;
                    if self.depends(inst) {
                        dfg.inst_results(inst).iter().for_each(|v| changed |= self.dependent.insert(*v));
                    }
                    for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                        let params = dfg.block_params(call.block(&dfg.value_lists));
                        for (arg, &param) in call.args(&dfg.value_lists).zip(params) {
                            if arg.as_value().is_some_and(|v| self.dependent.contains(v)) {
                                changed |= self.dependent.insert(param);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Block parameters for the second group.
    fn append_params(&mut self, header: clif::Block, blocks: &[clif::Block]) {
        for &block in blocks.iter().filter(|b| **b != header) {
            for param in self.f.dfg.block_params(block).to_vec() {
                if self.dependent.contains(param) {
                    let ty = self.f.dfg.value_type(param);
                    self.twins[param] = Some(self.f.dfg.append_block_param(block, ty));
                }
            }
        }
    }

    /// Inserts the second group's copy after an instruction.
    fn duplicate(&mut self, inst: clif::Inst) {
        let (next, at) = (self.f.layout.next_inst(inst), self.f.srcloc(inst));
        let twin = self.f.dfg.clone_inst(inst);
        self.f.dfg.map_inst_values(twin, |v| self.twins[v].unwrap_or(v));
        self.f.layout.insert_inst(twin, next.expect("a block does not end with it"));
        self.f.set_srcloc(twin, at);
        let dfg = &self.f.dfg;
        let results = dfg.inst_results(inst).iter().zip(dfg.inst_results(twin));
        results.for_each(|(&first, &second)| self.twins[first] = Some(second));
    }

    /// Joins a branch's condition with that of the second group.
    fn join_tests(&mut self, inst: clif::Inst, all_lanes_tests: &HashSet<clif::Value>) {
        let InstructionData::Brif { arg, .. } = self.f.dfg.insts[inst] else { return };
        let Some(twin) = self.twins[arg] else { return };
        let mut before = FuncCursor::new(self.f).at_inst(inst);
        let both =
            if all_lanes_tests.contains(&arg) { before.ins().band(arg, twin) } else { before.ins().bor(arg, twin) };
        if let InstructionData::Brif { arg, .. } = &mut self.f.dfg.insts[inst] {
            *arg = both;
        }
    }

    /// Appends the second group's block arguments.
    fn append_arguments(&mut self, inst: clif::Inst) {
        let dfg = &mut self.f.dfg;
        let added: Vec<Vec<BlockArg>> = dfg.insts[inst]
            .branch_destination(&dfg.jump_tables, &dfg.exception_tables)
            .iter()
            .map(|call| {
                let params = dfg.block_params(call.block(&dfg.value_lists));
                let twin = |(arg, param): (BlockArg, &clif::Value)| {
                    let twin = |v| self.twins[v].unwrap_or(v);
                    self.twins[*param].is_some().then(|| arg.map_value(twin))
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
