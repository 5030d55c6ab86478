//! [`ir::Func`](Func) -> a Cranelift function that runs a batch, four vertices at a time: the *lanes* shape.
//!
//! Each component that anybody reads is one `F32X4` across four vertices, so a swizzle is a renaming, a write mask costs
//! nothing, and a dot product needs no shuffles. Only for programs whose vertices [don't see each
//! other](Func::side_by_side), in single precision.
//!
//! The function does the common case: products are plain, vertices agree on every branch, or [both ways](mixed) can be
//! gone, and runs end. Where a group of four does otherwise, it returns before anything of that group is written, and
//! says how far it came; one vertex after the other is what happens then. Only outputs are written. [Two groups](pairs) may be run at
//! once. It must not know what runs instead.

mod addresses;
mod by_rows;
mod compute;
mod indexed;
mod mixed;
mod pairs;
mod seams;
mod values;

use super::abi::VEC4;
use super::code::{
    LANES_DONE, LANES_END, LANES_INPUT_STRIDE, LANES_LAST_INPUTS, LANES_LAST_OUTPUTS, LANES_OUTPUT_MASK,
    LANES_OUTPUT_STRIDE, LANES_OUTPUTS,
};
use super::kernel::Way;
use super::math::{Care, Math};
use super::memory::{aligned, bank_address, bank_number, load_bool};
use super::narrow::Watch;
use super::target::Machine;
use crate::ir::batch::Side;
use crate::ir::facts::{self, ALL_LANES, components};
use crate::ir::matrix::Column;
use crate::ir::{Block, Edge, Func, Inst, Mem, Node, Term, Test, Type, Value, alu_sources};
use crate::isa::numeric::Precision;
use crate::isa::{Cond, CondOp, Swizzle};
use crate::layout::Layout;
use crate::state::{Exit, Order};
use addresses::Addresses;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self as clif, BlockArg, InstBuilder, MemFlagsData, SourceLoc, StackSlotData, StackSlotKind, UserFuncName, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use pairs::Loop;
use seams::Seams;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Vertices of a group.
pub(super) const WIDTH: usize = 4;
/// More nodes than this are not worth the time to compile; no real shader comes near.
pub(super) const MOST_NODES: usize = 4096;

/// More than this would be much code for two groups.
const MOST_NODES_OF_TWO: usize = 512;

/// What a value has become.
#[derive(Clone, Copy)]
enum Low {
    /// The components that are live.
    Vector([Option<clif::Value>; 4]),
    /// An `I32` or a flag's `I8`, the same for all vertices.
    Same(clif::Value),
    /// An `I32X4`: integers, or all bits of a lane for a flag.
    Each(clif::Value),
    /// The uniform that is this number on from an address: loaded where it is read.
    There(clif::Value, u8),
    /// An index of uniforms as the address of the uniforms that many registers on.
    Place(clif::Value),
    /// The same for each vertex.
    Places([clif::Value; 4]),
}

/// Something that is the same for the whole batch, in all lanes, on the stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Splat {
    Uniform(u8, u8),
    /// With the other sign.
    Negative(u8, u8),
    /// Not one component, but a uniform as a vector, swizzled and signed.
    Row {
        n: u8,
        swizzle: Swizzle,
        negate: bool,
    },
    /// A component of several uniforms.
    Column(Column),
    /// A register that no run changes.
    Temp(u8, u8),
    Out(u8, u8),
}

struct Lower<'a, 'f> {
    b: FunctionBuilder<'f>,
    func: &'a Func,
    side: &'a Side,
    order: Order,
    /// Whether two groups are run at once.
    two: bool,
    arm: bool,
    watch: Watch,
    suspect: Vec<bool>,
    values: Vec<Option<Low>>,
    blocks: Vec<clif::Block>,
    layout: Layout,
    uniforms: clif::Value,
    unit: clif::Value,
    frame: clif::Value,
    /// Of the vertices of the group that is run.
    inputs: Addresses,
    outputs: Addresses,
    head: clif::Block,
    splats: BTreeMap<Splat, i32>,
    /// Where these are, and ones behind them.
    stack: clif::Value,
    ones: i32,
    /// Inputs that have been turned into components, in block 0 or in this one.
    loaded: HashMap<u8, [Option<clif::Value>; 4]>,
    early: HashMap<u8, [Option<clif::Value>; 4]>,
    seams: Seams,
    /// See [`indexed::indices`].
    indices: HashMap<Value, (u8, u8)>,
    /// Components that must not be NaN for the wrong reason, to be tested.
    sinks: Vec<clif::Value>,
    /// Stores how far the function came, and returns.
    leave: clif::Block,
    /// Where a group goes that is not the common case.
    give_up: clif::Block,
    /// Tests that ask whether all vertices of a group agree.
    of_all: HashSet<clif::Value>,
    /// How much may still be written for groups that disagree.
    mixed_left: usize,
    /// Where each value is made, of those that an instruction makes.
    pcs: Vec<u16>,
}

/// Writes the batch function for `func` into `out`, whose signature is already set. It says how vertices lie, and how many groups
/// are run at once.
pub(super) fn lower(
    func: &Func,
    side: &Side,
    way: Way,
    out: &mut clif::Function,
    context: &mut FunctionBuilderContext,
    machine: Machine,
) {
    let pointer = machine.pointer();
    out.name = UserFuncName::user(1, u32::from(func.entry.pc));
    let mut b = FunctionBuilder::new(out, context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    let &[uniforms, unit, first, frame] = b.block_params(entry) else {
        unreachable!("the signature has four parameters")
    };
    let (head, leave, give_up) = (b.create_block(), b.create_block(), b.create_block());
    b.set_cold_block(give_up);
    let blocks: Vec<clif::Block> = func.blocks.iter().map(|_| b.create_block()).collect();
    b.switch_to_block(entry);
    let splats = splats(func, side);
    let ones = VEC4 * splats.len() as i32;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, (ones + VEC4) as u32, VEC4.trailing_zeros() as u8);
    let slot = b.create_sized_stack_slot(slot);
    let stack = b.ins().stack_addr(pointer, slot, 0);
    let [inputs, outputs] = [LANES_INPUT_STRIDE, LANES_OUTPUT_STRIDE].map(|stride| {
        let stride = b.ins().load(pointer, aligned(), frame, stride);
        Addresses::new(&mut b, head, stride, machine.arm && !way.two)
    });
    let mut l = Lower {
        b,
        func,
        side,
        order: way.order,
        two: way.two,
        arm: machine.arm,
        watch: Watch::default(),
        suspect: func.suspects(),
        values: vec![None; func.nodes.len()],
        blocks,
        layout: machine.layout,
        uniforms,
        unit,
        frame,
        inputs,
        outputs,
        head,
        splats: splats.iter().enumerate().map(|(n, s)| (*s, n as i32 * VEC4)).collect(),
        stack,
        ones,
        loaded: HashMap::new(),
        early: HashMap::new(),
        seams: Seams::new(func, side, machine.arm),
        indices: indexed::indices(func, side),
        sinks: Vec::new(),
        leave,
        give_up,
        of_all: HashSet::new(),
        mixed_left: mixed::MOST_MIXED,
        pcs: made_at(func),
    };
    l.begin(&splats, first, pointer);
    let addresses = l.run();
    l.finish();
    l.b.seal_all_blocks();
    let of_all = l.of_all;
    l.b.finalize(machine.frontend);
    if let Some(addresses) = addresses {
        Loop { head, ways_out: [leave, give_up], of_all, addresses }.pair(out);
    }
}

/// Whether two groups at once should take less time than one after the other: where one waits for roots and quotients, the other goes on.
/// Elsewhere registers would be too few, which costs more; and the turns of a loop overlap as it is.
pub(super) fn two_pay(func: &Func) -> bool {
    let back = |(id, block): (usize, &Block)| block.term.edges().any(|edge| edge.to <= id);
    func.nodes.len() <= MOST_NODES_OF_TWO
        && func.nodes.iter().any(|node| matches!(node, Node::Scalar { .. }))
        && !func.blocks.iter().enumerate().any(back)
}

/// The instruction that makes each value; the first, for what none makes.
fn made_at(func: &Func) -> Vec<u16> {
    let mut pcs = vec![0; func.nodes.len()];
    for (pc, inst) in func.blocks.iter().flat_map(|b| &b.insts) {
        if let Inst::Def(value) = inst {
            pcs[value.0 as usize] = *pc;
        }
    }
    pcs
}

/// Everything that the function wants in all lanes, in a fixed order.
fn splats(func: &Func, side: &Side) -> Vec<Splat> {
    let mut all = BTreeSet::new();
    let uniform = |v: Value| if let Node::Uniform(n) = *func.node(v) { Some(n) } else { None };
    for (id, node) in func.nodes.iter().enumerate() {
        let live = side.live[id];
        match *node {
            Node::Uniform(n) => all.extend(components(live).map(|c| Splat::Uniform(n, c))),
            Node::Load(Mem::Temp(n)) => all.extend(components(live).map(|c| Splat::Temp(n, c))),
            Node::Load(Mem::Out { n, .. }) => all.extend(components(live).map(|c| Splat::Out(n, c))),
            Node::Alu { op, ref src } => {
                for (k, u) in src[..alu_sources(op)].iter().enumerate().filter(|(_, u)| u.negate) {
                    // What is added is subtracted instead.
                    let subtracted = facts::subtracts(op, k);
                    if let Some(n) = uniform(u.value).filter(|_| !subtracted) {
                        let read = facts::through(u, facts::lanes_read(op, k, live));
                        all.extend(components(read).map(|c| Splat::Negative(n, c)));
                    }
                }
            }
            _ => {}
        }
    }
    let ends = func.blocks.iter().filter(|b| b.term == Term::Exit(Exit::End));
    for (_, inst) in ends.flat_map(|b| &b.insts) {
        if let Inst::Store(Mem::Out { n, .. }, value) = *inst
            && side.made_by_rows(n, value)
        {
            by_rows::find_prepared(func, value, ALL_LANES, &mut all);
        }
    }
    for (n, &written) in side.written.iter().enumerate() {
        if written != 0 {
            all.extend(components(!written & ALL_LANES).map(|c| Splat::Out(n as u8, c)));
        }
    }
    all.into_iter().collect()
}

/// A batch's inputs need not be aligned to more than a float.
fn inputs() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_readonly()
}

/// Where component `c` of register `n` is in a block of vertices.
fn block_offset(n: u8, c: usize) -> i32 {
    (i32::from(n) * 4 + c as i32) * VEC4
}

impl<'a, 'f> Lower<'a, 'f> {
    fn math(&mut self) -> Math<'_, 'f> {
        Math {
            b: &mut self.b,
            care: Care::Speculate,
            precision: Precision::F32,
            watch: &mut self.watch,
            infinite: false,
            arm: self.arm,
        }
    }

    /// What is done once for the whole batch.
    fn begin(&mut self, splats: &[Splat], first: clif::Value, pointer: clif::Type) {
        let mut bank = None;
        for (at, splat) in splats.iter().enumerate() {
            let (base, offset) = match *splat {
                Splat::Uniform(n, c) | Splat::Negative(n, c) => (self.uniforms, self.layout.c(n, c)),
                Splat::Row { n, swizzle, negate } => {
                    let row = self.b.ins().load(types::F32X4, aligned(), self.uniforms, self.layout.c(n, 0));
                    let row = self.swizzled(row, swizzle);
                    let row = if negate { self.b.ins().fneg(row) } else { row };
                    self.b.ins().store(aligned(), row, self.stack, at as i32 * VEC4);
                    continue;
                }
                Splat::Column(column) => {
                    let column = self.column(&column);
                    self.b.ins().store(aligned(), column, self.stack, at as i32 * VEC4);
                    continue;
                }
                Splat::Temp(n, c) => (self.unit, self.layout.r(n, c)),
                Splat::Out(n, c) => {
                    let base = *bank.get_or_insert_with(|| {
                        let bank = bank_number(&mut self.b, &self.layout, self.unit);
                        bank_address(&mut self.b, &self.layout, self.unit, bank)
                    });
                    (base, self.layout.o(n, c))
                }
            };
            let x = self.b.ins().load(types::F32, aligned(), base, offset);
            let x = if let Splat::Negative(..) = splat { self.b.ins().fneg(x) } else { x };
            let all = self.b.ins().splat(types::F32X4, x);
            self.b.ins().store(aligned(), all, self.stack, at as i32 * VEC4);
        }
        let one = self.math().constant(types::F32X4, 1.0);
        self.b.ins().store(aligned(), one, self.stack, self.ones);
        let outputs = self.b.ins().load(pointer, aligned(), self.frame, LANES_OUTPUTS);
        let first = self.inputs.start(&mut self.b, first);
        let outputs = self.outputs.start(&mut self.b, outputs);
        let all: Vec<BlockArg> = first.into_iter().chain(outputs).map(BlockArg::from).collect();
        self.b.ins().jump(self.head, &all);
    }

    /// Where two groups begin, if it is two.
    fn run(&mut self) -> Option<[[clif::Value; 2]; 2]> {
        let func = self.func;
        for (id, block) in func.blocks.iter().enumerate() {
            for &param in &block.params {
                let live = self.side.live[param.0 as usize];
                let (at, varies) = (self.blocks[id], self.side.varies[param.0 as usize]);
                let low = match self.func.node(param).ty() {
                    Type::Vec4 => Low::Vector(
                        [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then(|| self.b.append_block_param(at, types::F32X4))),
                    ),
                    _ if live == 0 => continue,
                    _ if varies => Low::Each(self.b.append_block_param(at, types::I32X4)),
                    Type::Int => Low::Same(self.b.append_block_param(at, types::I32)),
                    Type::Flag => Low::Same(self.b.append_block_param(at, types::I8)),
                };
                self.values[param.0 as usize] = Some(low);
            }
        }
        let mut ways_in = vec![0; func.blocks.len()];
        func.blocks.iter().flat_map(|b| b.term.edges()).for_each(|edge| ways_in[edge.to] += 1);
        self.b.switch_to_block(self.head);
        let pointer = self.b.func.dfg.value_type(self.frame);
        let two = self.two.then(|| {
            let [inputs, outputs] =
                [LANES_LAST_INPUTS, LANES_LAST_OUTPUTS].map(|at| self.b.ins().load(pointer, aligned(), self.frame, at));
            [self.inputs.enter_two(&mut self.b, inputs), self.outputs.enter_two(&mut self.b, outputs)]
        });
        self.inputs.enter(&mut self.b);
        self.outputs.enter(&mut self.b);
        self.load_shared_inputs();
        self.b.ins().jump(self.blocks[0], &[]);
        for (id, block) in func.blocks.iter().enumerate() {
            self.b.switch_to_block(self.blocks[id]);
            self.loaded.clone_from(&self.early);
            self.unbroken();
            let mut stores = Vec::new();
            for &(pc, inst) in &block.insts {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                match inst {
                    Inst::Def(value) => self.make(value),
                    Inst::Store(Mem::Out { n, .. }, value) if block.term == Term::Exit(Exit::End) => {
                        stores.push((pc, n, value));
                    }
                    // Other registers are as the last vertex leaves them, which is run alone.
                    _ => {}
                }
            }
            match &block.term {
                Term::Exit(Exit::End) => self.end(&stores),
                Term::Exit(_) => {
                    self.sinks.clear();
                    self.b.set_cold_block(self.blocks[id]);
                    self.b.ins().jump(self.give_up, &[]);
                }
                Term::Goto(edge) => {
                    self.seam_at_end();
                    // A block that only this one leads to, and that comes next, can test for both.
                    if edge.to != id + 1 || ways_in[edge.to] > 1 {
                        self.test_sinks();
                    }
                    let args = self.arguments(edge);
                    self.b.ins().jump(self.blocks[edge.to], &args);
                }
                Term::Branch { test, yes, no } => {
                    self.seam_at_end();
                    self.test_sinks();
                    self.branch(id, test, yes, no);
                }
            }
        }
        two
    }

    /// A value, if anybody reads it.
    fn make(&mut self, value: Value) {
        if self.side.live[value.0 as usize] != 0 {
            self.seam_before(value);
            self.define(value);
        }
    }

    /// The end of a group's run: outputs, and the next group.
    fn end(&mut self, stores: &[(u16, u8, Value)]) {
        let side = self.side;
        self.seam(stores.iter().filter(|(_, n, v)| !side.made_by_rows(*n, *v)).map(|s| s.2));
        // What must be tested is made before, the rest where it is stored.
        let mut made = BTreeMap::new();
        for &(_, n, value) in stores {
            if !side.made_by_rows(n, value) {
                self.sink(value, side.written[usize::from(n)]);
            } else if self.suspect[value.0 as usize] && !made.contains_key(&value) {
                let row = self.row(value, ALL_LANES);
                self.sinks.extend(row.distinct());
                made.insert(value, row);
            }
        }
        self.seam_behind(made.values_mut());
        self.test_sinks();
        let mask = self.b.ins().load(types::I32, aligned(), self.frame, LANES_OUTPUT_MASK);
        for &(pc, n, value) in stores {
            let written = side.written[usize::from(n)];
            if written == 0 {
                continue;
            }
            self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
            let by_rows = side.made_by_rows(n, value);
            let columns = (!by_rows).then(|| {
                [0, 1, 2, 3].map(|c: u8| match written >> c & 1 != 0 {
                    true => self.component(value, c),
                    false => self.splat(Splat::Out(n, c)),
                })
            });
            let wanted = self.b.ins().band_imm_u(mask, 1 << n);
            let (store, go_on) = (self.b.create_block(), self.b.create_block());
            self.b.ins().brif(wanted, store, &[], go_on, &[]);
            self.b.switch_to_block(store);
            let rows = match columns {
                Some(columns) if self.order == Order::Components => columns,
                Some(columns) => self.math().transposed(columns, ALL_LANES).map(|r| r.expect("all were asked for")),
                None => made.get(&value).copied().unwrap_or_else(|| self.row(value, ALL_LANES)).each(),
            };
            self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
            let flags = MemFlagsData::new().with_notrap();
            for (j, row) in rows.into_iter().enumerate() {
                let (at, offset) = match self.order {
                    Order::Registers => (self.outputs.vertices[j], i32::from(n) * VEC4),
                    Order::Components => (self.outputs.vertices[0], block_offset(n, j)),
                };
                self.b.ins().store(flags, row, at, offset);
            }
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
        }
        let inputs = self.inputs.next(&mut self.b);
        let outputs = self.outputs.next(&mut self.b);
        let pointer = self.b.func.dfg.value_type(self.frame);
        let end = self.b.ins().load(pointer, aligned(), self.frame, LANES_END);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, inputs[0], end);
        let next: Vec<BlockArg> = inputs.iter().chain(&outputs).map(|&v| v.into()).collect();
        self.b.ins().brif(more, self.head, &next, self.leave, &[inputs[0].into()]);
    }

    fn finish(&mut self) {
        self.b.switch_to_block(self.give_up);
        self.b.ins().jump(self.leave, &[self.inputs.came.into()]);
        let pointer = self.b.func.dfg.value_type(self.frame);
        let done = self.b.append_block_param(self.leave, pointer);
        self.b.switch_to_block(self.leave);
        self.b.ins().store(aligned(), done, self.frame, LANES_DONE);
        let code = self.b.ins().iconst(types::I32, Exit::End as i64);
        self.b.ins().return_(&[code]);
    }

    fn arguments(&mut self, edge: &Edge) -> Vec<BlockArg> {
        let func = self.func;
        let mut args = Vec::new();
        for (param, &arg) in func.blocks[edge.to].params.iter().zip(&edge.args) {
            let live = self.side.live[param.0 as usize];
            match func.node(*param).ty() {
                Type::Vec4 => args.extend(components(live).map(|c| BlockArg::from(self.component(arg, c)))),
                _ if live == 0 => {}
                _ if self.side.varies[param.0 as usize] => args.push(self.each(arg).into()),
                _ => match self.scalar(arg) {
                    Low::Same(v) => args.push(v.into()),
                    _ => unreachable!("a parameter varies if an argument does"),
                },
            }
        }
        args
    }

    /// The end of block `from`.
    fn branch(&mut self, from: usize, test: &Test, yes: &'a Edge, no: &'a Edge) {
        let (yes_args, no_args) = (self.arguments(yes), self.arguments(no));
        let (to_yes, to_no) = (self.blocks[yes.to], self.blocks[no.to]);
        let mask = match self.condition(test) {
            Low::Same(condition) => {
                self.b.ins().brif(condition, to_yes, &yes_args, to_no, &no_args);
                return;
            }
            Low::Each(mask) => mask,
            _ => unreachable!("a test is of flags or an integer"),
        };
        let region = self.mixable(from);
        let disagree = if region.is_some() { self.b.create_block() } else { self.give_up };
        let bits = self.b.ins().vhigh_bits(types::I32, mask);
        let (some, all) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(bits, some, &[], to_no, &no_args);
        self.b.switch_to_block(some);
        let every = self.b.ins().icmp_imm_u(IntCC::Equal, bits, (1 << WIDTH) - 1);
        self.of_all.insert(every);
        self.b.ins().brif(every, all, &[], disagree, &[]);
        self.b.switch_to_block(all);
        self.b.ins().jump(to_yes, &yes_args);
        if let Some(region) = region {
            self.mixed(&region, disagree, mask, yes, no);
        }
    }

    /// Not zero if the test holds for all vertices, or a mask of those it holds for.
    fn condition(&mut self, test: &Test) -> Low {
        match *test {
            Test::Bool { id, value } => {
                let bit = load_bool(&mut self.b, &self.layout, self.uniforms, id);
                Low::Same(self.b.ins().icmp_imm_u(if value { IntCC::NotEqual } else { IntCC::Equal }, bit, 0))
            }
            Test::NonZero(v) => match self.scalar(v) {
                Low::Each(v) => {
                    let zero = self.math().vector(types::I32X4, [0; 4]);
                    Low::Each(self.b.ins().icmp(IntCC::NotEqual, v, zero))
                }
                same => same,
            },
            Test::Flags { cond: Cond { op: CondOp::X, ref_x, .. }, x, .. } => self.flag(x, ref_x),
            Test::Flags { cond: Cond { op: CondOp::Y, ref_y, .. }, y, .. } => self.flag(y, ref_y),
            Test::Flags { cond: Cond { op, ref_x, ref_y }, x, y } => {
                let (x, y) = (self.flag(x, ref_x), self.flag(y, ref_y));
                let same = if let (Low::Same(x), Low::Same(y)) = (x, y) { Some((x, y)) } else { None };
                let (x, y) = same.unwrap_or_else(|| (self.spread(x, Type::Flag), self.spread(y, Type::Flag)));
                let both = if op == CondOp::And { self.b.ins().band(x, y) } else { self.b.ins().bor(x, y) };
                if same.is_some() { Low::Same(both) } else { Low::Each(both) }
            }
        }
    }

    /// Whether a flag is `reference`.
    fn flag(&mut self, value: Value, reference: bool) -> Low {
        match self.scalar(value) {
            flag if reference => flag,
            Low::Same(v) => Low::Same(self.b.ins().bxor_imm_u(v, 1)),
            Low::Each(v) => Low::Each(self.b.ins().bnot(v)),
            _ => unreachable!("verified: a flag"),
        }
    }
}
