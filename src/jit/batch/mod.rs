//! [`ir::Func`](Func) -> a Cranelift function that runs a batch, one group of four vertices per
//! iteration: the *batch* shape.
//!
//! The code is SoA: each live component is one `F32X4`, a lane per vertex. A swizzle is a renaming,
//! a write mask costs nothing, a dot product needs no shuffle. It requires [independent
//! vertices](crate::ir::analysis::RegisterUse) and single precision.
//!
//! The function computes the common case: products are speculative, branches are uniform or
//! [predicated](predicate), and runs end. Any other group bails out: the function returns before it
//! stores anything of that group and reports how many vertices are done. It stores outputs only,
//! or [vertices that it emits](emission).
//! [Unrolling](unroll) may interleave two groups. It must not know what runs after a bailout.

mod aos_cost;
mod aos_outputs;
pub(super) mod bailout;
mod emission;
pub(super) mod estimate;
mod fold_loads;
mod hoist;
mod latency;
mod lower;
mod matrix_product;
mod operands;
pub(super) mod policy;
mod predicate;
mod relative;
mod unroll;
mod vertex_addresses;

use crate::ir::analysis::ranges::Narrowing;
use crate::ir::analysis::{XYZW, components};
use crate::ir::{BranchTest, Edge, Func, Inst, Mem, Terminator, Type, Value};
use crate::isa::{Cond, CondOp};
use crate::jit::abi::{
    BATCH_END, BATCH_INPUT_STRIDE, BATCH_LAST_INPUTS, BATCH_LAST_OUTPUTS, BATCH_LAST_WRITTEN, BATCH_OUTPUT_MASK,
    BATCH_OUTPUT_STRIDE, BATCH_OUTPUTS, BATCH_WRITTEN, GROUP, VEC4, written_mask_stride,
};
use crate::jit::emit::memory::{aligned, load_bool, load_cancel_flag};
use crate::jit::emit::{ClifBuilder, Products, StickyFlags};
use crate::jit::target::Machine;
use crate::layout::Layout;
use crate::state::Exit;
use bailout::BailoutReason;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self as clif, BlockArg, InstBuilder, MemFlagsData, SourceLoc, StackSlotData, StackSlotKind, UserFuncName, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use emission::StoredOutputs;
use fold_loads::LoadFolding;
use hoist::Hoisted;
use policy::{BatchPlan, BatchShape, BatchVariant};
use predicate::PredicationBudget;
use std::collections::{BTreeMap, HashMap, HashSet};
use unroll::GroupLoop;
use vertex_addresses::VertexAddresses;

/// A value of the IR in CLIF.
#[derive(Clone, Copy)]
enum BatchValue {
    /// A vector: its live components, SoA.
    Vector([Option<clif::Value>; 4]),
    /// A uniform integer (`I32`) or flag (`I8`).
    Uniform(clif::Value),
    /// A divergent integer, or a flag as a mask; `I32X4`.
    Divergent(clif::Value),
    /// Float uniform n relative to an address, loaded at each use.
    UniformAt(clif::Value, u8),
    /// A uniform index, as the address of `c[index]`.
    Address(clif::Value),
    /// A divergent index, as one such address per vertex.
    Addresses([clif::Value; 4]),
}

struct BatchLowering<'a, 'f> {
    b: FunctionBuilder<'f>,
    func: &'a Func,
    plan: &'a BatchPlan,
    /// Whether one iteration runs two groups.
    interleaved: bool,
    aarch64: bool,
    /// See [`Machine::cancel`].
    cancel: usize,
    sticky: StickyFlags,
    /// The narrowing of the component being computed, in float24.
    narrowing: Narrowing,
    /// See [`Func::nan_tainted`].
    nan_tainted: Vec<bool>,
    values: Vec<Option<BatchValue>>,
    blocks: Vec<clif::Block>,
    layout: Layout,
    uniforms: clif::Value,
    unit: clif::Value,
    frame: clif::Value,
    /// Inputs of the group's vertices.
    inputs: VertexAddresses,
    /// Outputs of the group's vertices.
    outputs: VertexAddresses,
    /// Written masks of the group's vertices, if there are any.
    written: Option<VertexAddresses>,
    header: clif::Block,
    /// Offsets of hoisted values from `stack`.
    hoisted: BTreeMap<Hoisted, i32>,
    stack: clif::Value,
    /// Offset of (1, 1, 1, 1) from `stack`.
    ones: i32,
    /// Transposed inputs that the present block can use.
    loaded: HashMap<u8, [Option<clif::Value>; 4]>,
    /// Those of them that all blocks can use.
    shared_inputs: HashMap<u8, [Option<clif::Value>; 4]>,
    /// In float24, inputs of each vertex that the present block can use.
    rows: HashMap<u8, [clif::Value; 4]>,
    folding: LoadFolding,
    /// See [`relative::indices`].
    indices: HashMap<Value, (u8, u8)>,
    /// Components whose guard is pending: NaN means a bailout.
    guards: Vec<clif::Value>,
    /// What EMITs on the only way to the present block stored.
    emitted: StoredOutputs,
    /// Stores the number of vertices done, and returns.
    exit: clif::Block,
    /// The target of groups that bail out.
    bailout: clif::Block,
    /// Conditions that hold if all lanes of a mask are set; all others hold if any lane is.
    all_lanes_tests: HashSet<clif::Value>,
    predication_budget: PredicationBudget,
    shape: BatchShape,
    /// For each value the pc of its definition.
    pcs: Vec<u16>,
}

/// Writes the batch function of `plan` into `out`, whose signature is already set. Returns how
/// vertices run.
pub(crate) fn lower(
    plan: &BatchPlan,
    variant: BatchVariant,
    out: &mut clif::Function,
    context: &mut FunctionBuilderContext,
    machine: Machine,
) -> BatchShape {
    let (func, pointer) = (&plan.func, machine.pointer());
    out.name = UserFuncName::user(1, u32::from(func.entry.pc));
    let mut b = FunctionBuilder::new(out, context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    let &[uniforms, unit, first, frame] = b.block_params(entry) else {
        unreachable!("the signature has four parameters")
    };
    let (header, exit, bailout) = (b.create_block(), b.create_block(), b.create_block());
    b.set_cold_block(bailout);
    let blocks: Vec<clif::Block> = func.blocks.iter().map(|_| b.create_block()).collect();
    b.switch_to_block(entry);
    let hoisted = hoist::hoisted(func, plan);
    let ones = VEC4 * hoisted.len() as i32;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, (ones + VEC4) as u32, VEC4.trailing_zeros() as u8);
    let slot = b.create_sized_stack_slot(slot);
    let stack = b.ins().stack_addr(pointer, slot, 0);
    let [inputs, outputs] = [BATCH_INPUT_STRIDE, BATCH_OUTPUT_STRIDE].map(|stride| {
        let stride = b.ins().load(pointer, aligned(), frame, stride);
        VertexAddresses::new(&mut b, header, stride, machine.aarch64 && !variant.interleaved)
    });
    let written = (!plan.written_masks.is_empty()).then(|| {
        let word = b.ins().iconst(pointer, i64::from(types::I32.bytes()));
        VertexAddresses::new(&mut b, header, word, false)
    });
    let mut l = BatchLowering {
        b,
        func,
        plan,
        interleaved: variant.interleaved,
        aarch64: machine.aarch64,
        cancel: machine.cancel,
        sticky: StickyFlags::default(),
        narrowing: Narrowing::default(),
        // In float24 the sticky flags are the guards.
        nan_tainted: if plan.ranges.is_some() { vec![false; func.nodes.len()] } else { func.nan_tainted() },
        values: vec![None; func.nodes.len()],
        blocks,
        layout: machine.layout,
        uniforms,
        unit,
        frame,
        inputs,
        outputs,
        written,
        header,
        hoisted: hoisted.iter().enumerate().map(|(n, s)| (*s, n as i32 * VEC4)).collect(),
        stack,
        ones,
        loaded: HashMap::new(),
        shared_inputs: HashMap::new(),
        rows: HashMap::new(),
        folding: LoadFolding::new(func, plan, machine.aarch64, variant.interleaved),
        indices: relative::indices(func, plan),
        guards: Vec::new(),
        emitted: StoredOutputs::default(),
        exit,
        bailout,
        all_lanes_tests: HashSet::new(),
        predication_budget: PredicationBudget::default(),
        shape: BatchShape { interleaved: variant.interleaved, kept: plan.written_masks.len(), ..BatchShape::default() },
        pcs: definition_pcs(func),
    };
    l.begin(&hoisted, first, pointer);
    let addresses = l.run();
    l.finish();
    l.b.seal_all_blocks();
    let (shape, all_lanes_tests) = (l.shape, l.all_lanes_tests);
    l.b.finalize(machine.frontend);
    if let Some(addresses) = addresses {
        GroupLoop { header, exits: [exit, bailout], all_lanes_tests, addresses }.interleave(out);
    }
    shape
}

/// For each value the pc of its definition; 0 for leaves and parameters.
fn definition_pcs(func: &Func) -> Vec<u16> {
    let mut pcs = vec![0; func.nodes.len()];
    for (pc, inst) in func.blocks.iter().flat_map(|b| &b.insts) {
        if let Inst::Def(value) = inst {
            pcs[value.0 as usize] = *pc;
        }
    }
    pcs
}

/// A batch's inputs need not be aligned to more than a float.
fn inputs() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_readonly()
}

impl<'a, 'f> BatchLowering<'a, 'f> {
    fn clif(&mut self) -> ClifBuilder<'_, 'f> {
        ClifBuilder {
            b: &mut self.b,
            products: Products::Speculative,
            precision: self.plan.precision,
            sticky: &mut self.sticky,
            narrowing: self.narrowing,
            aarch64: self.aarch64,
        }
    }

    /// The loop's preheader: hoists values and enters the loop.
    fn begin(&mut self, hoisted: &[Hoisted], first: clif::Value, pointer: clif::Type) {
        self.hoist(hoisted);
        self.check_invariants(first);
        let outputs = self.b.ins().load(pointer, aligned(), self.frame, BATCH_OUTPUTS);
        let first = self.inputs.start(&mut self.b, first);
        let outputs = self.outputs.start(&mut self.b, outputs);
        let mut all = [first, outputs].concat();
        if let Some(written) = &self.written {
            let first = self.b.ins().load(pointer, aligned(), self.frame, BATCH_WRITTEN);
            all.extend(written.start(&mut self.b, first));
        }
        let all: Vec<BlockArg> = all.into_iter().map(BlockArg::from).collect();
        self.b.ins().jump(self.header, &all);
    }

    /// The loop. With interleaving, returns the addresses of both groups: inputs, outputs, and
    /// written masks.
    fn run(&mut self) -> Option<Vec<[clif::Value; 2]>> {
        let func = self.func;
        for (id, block) in func.blocks.iter().enumerate() {
            for &param in &block.params {
                let live = self.plan.live[param.0 as usize];
                let (at, divergent) = (self.blocks[id], self.plan.divergent[param.0 as usize]);
                let lowered = match self.func.node(param).ty() {
                    Type::Vec4 => BatchValue::Vector(
                        [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then(|| self.b.append_block_param(at, types::F32X4))),
                    ),
                    _ if live == 0 => continue,
                    _ if divergent => BatchValue::Divergent(self.b.append_block_param(at, types::I32X4)),
                    Type::Int => BatchValue::Uniform(self.b.append_block_param(at, types::I32)),
                    Type::Flag => BatchValue::Uniform(self.b.append_block_param(at, types::I8)),
                };
                self.values[param.0 as usize] = Some(lowered);
            }
        }
        let predecessors = func.predecessors();
        self.b.switch_to_block(self.header);
        let pointer = self.b.func.dfg.value_type(self.frame);
        let groups = self.interleaved.then(|| {
            let all = [(&mut self.inputs, BATCH_LAST_INPUTS), (&mut self.outputs, BATCH_LAST_OUTPUTS)];
            let all = all.into_iter().chain(self.written.as_mut().map(|written| (written, BATCH_LAST_WRITTEN)));
            all.map(|(addresses, last)| {
                let last = self.b.ins().load(pointer, aligned(), self.frame, last);
                addresses.enter_two(&mut self.b, last)
            })
            .collect()
        });
        self.inputs.enter(&mut self.b);
        self.outputs.enter(&mut self.b);
        self.load_shared_inputs();
        self.b.ins().jump(self.blocks[0], &[]);
        for (id, block) in func.blocks.iter().enumerate() {
            self.b.switch_to_block(self.blocks[id]);
            self.loaded.clone_from(&self.shared_inputs);
            self.rows.clear();
            // Blocks that bail out emit nothing, and lie between a fuel check and where it goes on.
            if !matches!(block.term, Terminator::Exit(exit) if exit != Exit::End) {
                self.emitted.enter(id, &predecessors[id]);
            }
            self.start_block();
            block.params.iter().for_each(|param| self.check(*param));
            let mut stores = Vec::new();
            for &(pc, inst) in &block.insts {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                match inst {
                    Inst::Def(value) => self.define_live(value),
                    Inst::Emit => self.emit(&std::mem::take(&mut stores)),
                    Inst::Setemit(parameters) => self.setemit(parameters),
                    Inst::Store(Mem::Out { n, .. }, value) if self.plan.emits => stores.push((pc, n, value)),
                    Inst::Store(Mem::Out { n, .. }, value) if block.term == Terminator::Exit(Exit::End) => {
                        stores.push((pc, n, value));
                    }
                    // The last vertices of a batch run alone and leave all other registers.
                    _ => {}
                }
            }
            match &block.term {
                // What follows the last EMIT is for the unit, which the last invocations leave.
                Terminator::Exit(Exit::End) if self.plan.emits => self.end(&[]),
                Terminator::Exit(Exit::End) => self.end(&stores),
                Terminator::Exit(_) => {
                    self.guards.clear();
                    self.sticky.clear();
                    self.b.set_cold_block(self.blocks[id]);
                    let arguments = self.bailout_arguments(BailoutReason::OtherExit);
                    self.b.ins().jump(self.bailout, &arguments);
                }
                Terminator::Goto(edge) => {
                    self.split_at_end();
                    self.load_inputs(edge.args.iter().copied());
                    // The only successor, if it is lowered next and has no other predecessor, can
                    // test these guards with its own.
                    if edge.to != id + 1 || predecessors[edge.to].len() > 1 {
                        self.test_guards(BailoutReason::GuardBeforeGoto);
                    }
                    let args = self.arguments(edge);
                    self.b.ins().jump(self.blocks[edge.to], &args);
                }
                Terminator::Branch { test, yes, no } => {
                    self.split_at_end();
                    self.load_inputs(yes.args.iter().chain(&no.args).copied());
                    self.test_guards(BailoutReason::GuardBeforeBranch);
                    if test.is_fuel_check() {
                        let pointer = self.b.func.dfg.value_type(self.frame);
                        let cancelled = load_cancel_flag(&mut self.b, pointer, self.cancel);
                        self.bail_out_if(cancelled, BailoutReason::OtherExit);
                    }
                    self.branch(id, test, yes, no);
                }
            }
        }
        groups
    }

    /// Defines a value if it is live.
    fn define_live(&mut self, value: Value) {
        if self.plan.live[value.0 as usize] != 0 {
            self.split_before(value);
            self.define(value);
        }
    }

    /// END: stores the group's outputs and goes on to the next group.
    fn end(&mut self, stores: &[(u16, u8, Value)]) {
        let plan = self.plan;
        self.split(stores.iter().filter(|(_, n, v)| !plan.is_aos_output(*n, *v)).map(|s| s.2));
        // AoS outputs with a guard are computed before the test, all others next to their store.
        let mut computed = BTreeMap::new();
        for &(_, n, value) in stores {
            if !plan.is_aos_output(n, value) {
                self.guard(value, plan.written[usize::from(n)]);
            } else if (self.nan_tainted[value.0 as usize] || plan.is_float24()) && !computed.contains_key(&value) {
                let vector = self.aos_vector(value, XYZW);
                if !plan.is_float24() {
                    self.guards.extend(vector.distinct());
                }
                computed.insert(value, vector);
            }
        }
        self.split_after(computed.values_mut());
        self.load_inputs(stores.iter().filter(|(_, n, v)| !plan.is_aos_output(*n, *v)).map(|store| store.2));
        self.test_guards(BailoutReason::GuardOfOutputs);
        let mask = self.b.ins().load(types::I32, aligned(), self.frame, BATCH_OUTPUT_MASK);
        for &(pc, n, value) in stores {
            let written = plan.written[usize::from(n)];
            if written == 0 {
                continue;
            }
            self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
            let aos = plan.is_aos_output(n, value);
            let columns = (!aos).then(|| {
                [0, 1, 2, 3].map(|c: u8| match written >> c & 1 != 0 {
                    true => self.component(value, c),
                    false => self.load_hoisted(Hoisted::Out(n, c)),
                })
            });
            let wanted = self.b.ins().band_imm_u(mask, 1 << n);
            let (store, go_on) = (self.b.create_block(), self.b.create_block());
            self.b.ins().brif(wanted, store, &[], go_on, &[]);
            self.b.switch_to_block(store);
            let vectors = match columns {
                Some(columns) => self.clif().transposed(columns, XYZW).map(|r| r.expect("all components are wanted")),
                None => computed.get(&value).copied().unwrap_or_else(|| self.aos_vector(value, XYZW)).per_vertex(),
            };
            self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
            let flags = MemFlagsData::new().with_notrap();
            for (vector, at) in vectors.into_iter().zip(self.outputs.vertices) {
                self.b.ins().store(flags, vector, at, i32::from(n) * VEC4);
            }
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
        }
        self.store_written_masks();
        if plan.emits {
            self.end_emission();
        }
        let inputs = self.inputs.next(&mut self.b);
        let outputs = self.outputs.next(&mut self.b);
        let written = self.written.as_ref().map(|written| written.next(&mut self.b)).unwrap_or_default();
        let pointer = self.b.func.dfg.value_type(self.frame);
        let end = self.b.ins().load(pointer, aligned(), self.frame, BATCH_END);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, inputs[0], end);
        let next: Vec<BlockArg> = inputs.iter().chain(&outputs).chain(&written).map(|&v| v.into()).collect();
        let mut done = vec![inputs[0].into()];
        if self.plan.counts_bailouts {
            done.push(self.b.ins().iconst(types::I32, Exit::End as i64).into());
        }
        self.b.ins().brif(more, self.header, &next, self.exit, &done);
    }

    /// Stores for each of the group's vertices which of the kept components it wrote.
    fn store_written_masks(&mut self) {
        let plan = self.plan;
        let Some(written) = &self.written else { return };
        let at = written.vertices[0];
        let stride = written_mask_stride(plan.written_masks.len()) as i32 * types::I32.bytes() as i32;
        for (n, &mask) in plan.written_masks.iter().enumerate() {
            let mask = self.component(mask, 0);
            self.b.ins().store(MemFlagsData::new().with_notrap(), mask, at, n as i32 * stride);
        }
    }

    fn arguments(&mut self, edge: &Edge) -> Vec<BlockArg> {
        let func = self.func;
        let mut args = Vec::new();
        for (param, &arg) in func.blocks[edge.to].params.iter().zip(&edge.args) {
            let live = self.plan.live[param.0 as usize];
            match func.node(*param).ty() {
                Type::Vec4 => args.extend(components(live).map(|c| BlockArg::from(self.component(arg, c)))),
                _ if live == 0 => {}
                _ if self.plan.divergent[param.0 as usize] => args.push(self.per_lane(arg).into()),
                _ => match self.scalar(arg) {
                    BatchValue::Uniform(v) => args.push(v.into()),
                    _ => unreachable!("a parameter is divergent if an argument is"),
                },
            }
        }
        args
    }

    /// A conditional branch at the end of block `from`. A mask that is neither all set nor all
    /// clear means predication or a bailout.
    fn branch(&mut self, from: usize, test: &BranchTest, yes: &'a Edge, no: &'a Edge) {
        let (yes_args, no_args) = (self.arguments(yes), self.arguments(no));
        let (to_yes, to_no) = (self.blocks[yes.to], self.blocks[no.to]);
        let mask = match self.condition(test) {
            BatchValue::Uniform(condition) => {
                self.b.ins().brif(condition, to_yes, &yes_args, to_no, &no_args);
                return;
            }
            BatchValue::Divergent(mask) => mask,
            _ => unreachable!("verified: a test reads flags or an integer"),
        };
        let region = self.predicable_region(from);
        let (divergent, divergent_args) = match region {
            Some(_) => (self.b.create_block(), Vec::new()),
            None => (self.bailout, self.bailout_arguments(BailoutReason::DivergentBranch)),
        };
        match region {
            Some(_) => self.shape.predicated += 1,
            None => self.shape.bailouts += 1,
        }
        let bits = self.b.ins().vhigh_bits(types::I32, mask);
        let (some, all) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(bits, some, &[], to_no, &no_args);
        self.b.switch_to_block(some);
        let every = self.b.ins().icmp_imm_u(IntCC::Equal, bits, (1 << GROUP) - 1);
        self.all_lanes_tests.insert(every);
        self.b.ins().brif(every, all, &[], divergent, &divergent_args);
        self.b.switch_to_block(all);
        self.b.ins().jump(to_yes, &yes_args);
        if let Some(region) = region {
            self.predicate(&region, divergent, mask, yes, no);
        }
    }

    /// The test as a uniform truth value, or as a mask.
    fn condition(&mut self, test: &BranchTest) -> BatchValue {
        match *test {
            BranchTest::Bool { id, value } => {
                let bit = load_bool(&mut self.b, &self.layout, self.uniforms, id);
                BatchValue::Uniform(self.b.ins().icmp_imm_u(if value { IntCC::NotEqual } else { IntCC::Equal }, bit, 0))
            }
            BranchTest::NonZero(v) => match self.scalar(v) {
                BatchValue::Divergent(v) => {
                    let zero = self.clif().vector(types::I32X4, [0; 4]);
                    BatchValue::Divergent(self.b.ins().icmp(IntCC::NotEqual, v, zero))
                }
                uniform => uniform,
            },
            BranchTest::AtLeast(v, least) => {
                let at_least = IntCC::SignedGreaterThanOrEqual;
                match self.scalar(v) {
                    BatchValue::Divergent(v) => {
                        let least = self.clif().vector(types::I32X4, [least.cast_unsigned(); 4]);
                        BatchValue::Divergent(self.b.ins().icmp(at_least, v, least))
                    }
                    BatchValue::Uniform(v) => {
                        BatchValue::Uniform(self.b.ins().icmp_imm_s(at_least, v, i64::from(least)))
                    }
                    _ => unreachable!("verified: an integer"),
                }
            }
            BranchTest::Flags { cond: Cond { op: CondOp::X, ref_x, .. }, x, .. } => self.flag(x, ref_x),
            BranchTest::Flags { cond: Cond { op: CondOp::Y, ref_y, .. }, y, .. } => self.flag(y, ref_y),
            BranchTest::Flags { cond: Cond { op, ref_x, ref_y }, x, y } => {
                let (x, y) = (self.flag(x, ref_x), self.flag(y, ref_y));
                let uniform =
                    if let (BatchValue::Uniform(x), BatchValue::Uniform(y)) = (x, y) { Some((x, y)) } else { None };
                let (x, y) = uniform.unwrap_or_else(|| (self.broadcast(x, Type::Flag), self.broadcast(y, Type::Flag)));
                let both = if op == CondOp::And { self.b.ins().band(x, y) } else { self.b.ins().bor(x, y) };
                if uniform.is_some() { BatchValue::Uniform(both) } else { BatchValue::Divergent(both) }
            }
        }
    }

    /// Whether a flag is `reference`.
    fn flag(&mut self, value: Value, reference: bool) -> BatchValue {
        match self.scalar(value) {
            flag if reference => flag,
            BatchValue::Uniform(v) => BatchValue::Uniform(self.b.ins().bxor_imm_u(v, 1)),
            BatchValue::Divergent(v) => BatchValue::Divergent(self.b.ins().bnot(v)),
            _ => unreachable!("verified: a flag"),
        }
    }
}
