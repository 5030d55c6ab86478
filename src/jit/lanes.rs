//! [`ir::Func`](Func) -> a Cranelift function that runs a batch, four vertices at a time: the *lanes* shape.
//!
//! Each component that anybody reads is one `F32X4` across four vertices, so a swizzle is a renaming, a write mask costs
//! nothing, and a dot product needs no shuffles. Only for programs whose vertices [don't see each
//! other](Func::side_by_side), in single precision.
//!
//! The function does the common case: products are plain, vertices agree on every branch, and runs end. Where a group
//! of four does otherwise, it returns before anything of that group is written, and says how far it came; one vertex
//! after the other is what happens then. Only outputs are written. It must not know what runs instead.

use super::abi::{self, VEC4};
use super::code::{LANES_DONE, LANES_END, LANES_OUTPUT_MASK, LANES_OUTPUTS};
use super::lower::Target;
use super::math::{Care, Math};
use super::memory::{aligned, constant_memory};
use super::narrow::Watch;
use crate::ir::batch::Side;
use crate::ir::facts::{self, ALL_LANES, Lanes};
use crate::ir::{Edge, Func, Inst, Lane, Mem, Node, Term, Test, Type, Use, Value};
use crate::isa::numeric::Precision;
use crate::isa::{CmpOp, CondOp, FLOAT_UNIFORMS, Opcode};
use crate::state::{Exit, Registers};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    self as clif, BlockArg, InstBuilder, MemFlagsData, SourceLoc, StackSlotData, StackSlotKind, UserFuncName, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::collections::HashMap;

/// Vertices of a group.
pub(super) const WIDTH: usize = 4;
/// More nodes than this are not worth the time to compile; no real shader comes near.
pub(super) const MOST_NODES: usize = 4096;

const VERTEX: i32 = size_of::<Registers>() as i32;

/// What a value has become.
#[derive(Clone, Copy)]
enum Low {
    /// The components that are live.
    Vector([Option<clif::Value>; 4]),
    /// An `I32` or a flag's `I8`, the same for all vertices.
    Same(clif::Value),
    /// An `I32X4`: integers, or all bits of a lane for a flag.
    Each(clif::Value),
}

/// Something that is the same for the whole batch, in all lanes, on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Splat {
    Uniform(u8, u8),
    /// A register that no run changes.
    Temp(u8, u8),
    Out(u8, u8),
}

struct Lower<'a, 'f> {
    b: FunctionBuilder<'f>,
    func: &'a Func,
    side: &'a Side,
    arm: bool,
    watch: Watch,
    suspect: Vec<bool>,
    values: Vec<Option<Low>>,
    blocks: Vec<clif::Block>,
    uniforms: clif::Value,
    unit: clif::Value,
    frame: clif::Value,
    /// Of the group that is run.
    inputs: clif::Value,
    outputs: clif::Value,
    head: clif::Block,
    splats: HashMap<Splat, i32>,
    /// Where these are, and ones behind them.
    stack: clif::Value,
    ones: i32,
    /// Inputs that have been turned into components, in block 0 or in this one.
    loaded: HashMap<u8, [Option<clif::Value>; 4]>,
    early: HashMap<u8, [Option<clif::Value>; 4]>,
    /// Components that must not be NaN for the wrong reason, to be tested.
    sinks: Vec<clif::Value>,
    /// Where a group goes that is not the common case.
    give_up: clif::Block,
}

/// Writes the batch function for `func` into `out`, whose signature is already set.
pub(super) fn lower(
    func: &Func,
    side: &Side,
    out: &mut clif::Function,
    context: &mut FunctionBuilderContext,
    target: Target,
) {
    let pointer = target.frontend.pointer_type();
    out.name = UserFuncName::user(1, u32::from(func.entry.pc));
    let mut b = FunctionBuilder::new(out, context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    let &[uniforms, unit, first, frame] = b.block_params(entry) else {
        unreachable!("the signature has four parameters")
    };
    let (head, give_up) = (b.create_block(), b.create_block());
    let inputs = b.append_block_param(head, pointer);
    let outputs = b.append_block_param(head, pointer);
    b.set_cold_block(give_up);
    let blocks: Vec<clif::Block> = func.blocks.iter().map(|_| b.create_block()).collect();
    b.switch_to_block(entry);
    let splats = splats(func, side);
    let ones = VEC4 * splats.len() as i32;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, (ones + VEC4) as u32, VEC4.trailing_zeros() as u8);
    let slot = b.create_sized_stack_slot(slot);
    let stack = b.ins().stack_addr(pointer, slot, 0);
    let mut l = Lower {
        b,
        func,
        side,
        arm: target.arm,
        watch: Watch::default(),
        suspect: func.suspects(),
        values: vec![None; func.nodes.len()],
        blocks,
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
        sinks: Vec::new(),
        give_up,
    };
    l.begin(&splats, first, pointer);
    l.run();
    l.finish();
    l.b.seal_all_blocks();
    l.b.finalize(target.frontend);
}

/// Everything that the function wants in all lanes, in a fixed order.
fn splats(func: &Func, side: &Side) -> Vec<Splat> {
    let mut all = Vec::new();
    for (id, node) in func.nodes.iter().enumerate() {
        for c in components(side.live[id]) {
            match *node {
                Node::Uniform(n) => all.push(Splat::Uniform(n, c)),
                Node::Load(Mem::Temp(n)) => all.push(Splat::Temp(n, c)),
                Node::Load(Mem::Out { n, .. }) => all.push(Splat::Out(n, c)),
                _ => {}
            }
        }
    }
    for (n, &written) in side.written.iter().enumerate() {
        if written != 0 {
            all.extend(components(!written & ALL_LANES).map(|c| Splat::Out(n as u8, c)));
        }
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|s| seen.insert(*s));
    all
}

fn components(lanes: Lanes) -> impl Iterator<Item = u8> {
    (0..4u8).filter(move |l| lanes >> l & 1 != 0)
}

impl<'f> Lower<'_, 'f> {
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
        for (n, splat) in splats.iter().enumerate() {
            let (base, offset) = match *splat {
                Splat::Uniform(n, c) => (self.uniforms, abi::uniforms::C + i32::from(n) * VEC4 + 4 * i32::from(c)),
                Splat::Temp(n, c) => (self.unit, abi::unit::R + i32::from(n) * VEC4 + 4 * i32::from(c)),
                Splat::Out(n, c) => {
                    let base = *bank.get_or_insert_with(|| {
                        let bank = self.b.ins().uload8(types::I32, aligned(), self.unit, abi::unit::BANK);
                        let bank = self.b.ins().band_imm_u(bank, 1);
                        let bank = self.b.ins().uextend(pointer, bank);
                        let bytes = self.b.ins().ishl_imm_u(bank, i64::from(abi::BANK_BYTES.trailing_zeros()));
                        self.b.ins().iadd(self.unit, bytes)
                    });
                    (base, abi::unit::O + i32::from(n) * VEC4 + 4 * i32::from(c))
                }
            };
            let x = self.b.ins().load(types::F32, aligned(), base, offset);
            let all = self.b.ins().splat(types::F32X4, x);
            self.b.ins().store(aligned(), all, self.stack, n as i32 * VEC4);
        }
        let one = self.math().constant(types::F32X4, 1.0);
        self.b.ins().store(aligned(), one, self.stack, self.ones);
        let outputs = self.b.ins().load(pointer, aligned(), self.frame, LANES_OUTPUTS);
        self.b.ins().jump(self.head, &[first.into(), outputs.into()]);
    }

    fn run(&mut self) {
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
        self.b.switch_to_block(self.head);
        self.load_shared_inputs();
        self.b.ins().jump(self.blocks[0], &[]);
        for (id, block) in func.blocks.iter().enumerate() {
            self.b.switch_to_block(self.blocks[id]);
            self.loaded.clone_from(&self.early);
            let mut stores = Vec::new();
            for &(pc, inst) in &block.insts {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                match inst {
                    Inst::Def(value) if self.side.live[value.0 as usize] != 0 => self.define(value),
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
                    self.test_sinks();
                    let args = self.arguments(edge);
                    self.b.ins().jump(self.blocks[edge.to], &args);
                }
                Term::Branch { test, yes, no } => {
                    self.test_sinks();
                    self.branch(test, yes, no);
                }
            }
        }
    }

    /// Inputs that more than one block reads are turned into components before the first.
    fn load_shared_inputs(&mut self) {
        let func = self.func;
        let mut readers: HashMap<u8, Vec<usize>> = HashMap::new();
        for (id, block) in func.blocks.iter().enumerate() {
            let mut read = |v: Value| {
                if let Node::Input(n) = *func.node(v) {
                    let blocks = readers.entry(n).or_default();
                    if blocks.last() != Some(&id) {
                        blocks.push(id);
                    }
                }
            };
            for (_, inst) in &block.insts {
                match inst {
                    Inst::Def(v) if self.side.live[v.0 as usize] != 0 => func.node(*v).for_each_use(&mut read),
                    Inst::Store(_, v) => read(*v),
                    _ => {}
                }
            }
            block.term.edges().flat_map(|e| &e.args).for_each(|&v| read(v));
        }
        let mut shared: Vec<u8> = readers.into_iter().filter(|(_, blocks)| blocks.len() > 1).map(|(n, _)| n).collect();
        shared.sort_unstable();
        for n in shared {
            let components = self.input(n);
            self.early.insert(n, components);
        }
    }

    /// The live components of an input.
    fn input(&mut self, n: u8) -> [Option<clif::Value>; 4] {
        if let Some(&components) = self.loaded.get(&n) {
            return components;
        }
        let leaf = self.func.nodes.iter().zip(&self.side.live).filter(|(node, _)| **node == Node::Input(n));
        let live = leaf.fold(0, |live, (_, l)| live | l);
        let mut out = [None; 4];
        // A batch's inputs need not be aligned to more than a float.
        let flags = MemFlagsData::new().with_notrap().with_readonly();
        if live.count_ones() == 1 {
            let c = live.trailing_zeros() as usize;
            let at = |j: i32| j * VERTEX + i32::from(n) * VEC4 + 4 * c as i32;
            let x = self.b.ins().load(types::F32, flags, self.inputs, at(0));
            let mut all = self.b.ins().scalar_to_vector(types::F32X4, x);
            for j in 1..WIDTH as i32 {
                let x = self.b.ins().load(types::F32, flags, self.inputs, at(j));
                all = self.b.ins().insertlane(all, x, j as u8);
            }
            out[c] = Some(all);
        } else if live != 0 {
            let rows = [0, 1, 2, 3]
                .map(|j| self.b.ins().load(types::F32X4, flags, self.inputs, j * VERTEX + i32::from(n) * VEC4));
            let columns = self.math().transposed(rows, live);
            out = [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then_some(columns[c]).flatten());
        }
        self.loaded.insert(n, out);
        out
    }

    /// Component `c` of a vector, in all lanes.
    fn component(&mut self, value: Value, c: u8) -> clif::Value {
        match *self.func.node(value) {
            Node::Const(bits) => self.math().vector(types::F32X4, [bits[usize::from(c)]; 4]),
            Node::Input(n) => self.input(n)[usize::from(c)].expect("live, as somebody reads it"),
            Node::Uniform(n) => self.splat(Splat::Uniform(n, c)),
            Node::Load(Mem::Temp(n)) => self.splat(Splat::Temp(n, c)),
            Node::Load(Mem::Out { n, .. }) => self.splat(Splat::Out(n, c)),
            _ => match self.values[value.0 as usize] {
                Some(Low::Vector(v)) => v[usize::from(c)].expect("live, as somebody reads it"),
                _ => unreachable!("verified: a vector that is defined before its use"),
            },
        }
    }

    /// Not kept: to load it where it is used is cheaper than a register.
    fn splat(&mut self, splat: Splat) -> clif::Value {
        let offset = self.splats[&splat];
        self.b.ins().load(types::F32X4, constant_memory(), self.stack, offset)
    }

    fn scalar(&mut self, value: Value) -> Low {
        match *self.func.node(value) {
            Node::Int(n) => Low::Same(self.b.ins().iconst(types::I32, i64::from(n as u32))),
            Node::Flag(f) => Low::Same(self.b.ins().iconst(types::I8, i64::from(f))),
            Node::IntUniform { id, component } => {
                let offset = abi::uniforms::I + i32::from(id) * 4 + i32::from(component);
                Low::Same(self.b.ins().uload8(types::I32, constant_memory(), self.uniforms, offset))
            }
            _ => self.values[value.0 as usize].expect("verified: defined before its use"),
        }
    }

    /// An integer of each vertex, or a flag as a mask.
    fn each(&mut self, value: Value) -> clif::Value {
        match (self.scalar(value), self.func.node(value).ty()) {
            (Low::Each(v), _) => v,
            (Low::Same(v), Type::Flag) => {
                let wide = self.b.ins().uextend(types::I32, v);
                let all = self.b.ins().ineg(wide);
                self.b.ins().splat(types::I32X4, all)
            }
            (Low::Same(v), _) => self.b.ins().splat(types::I32X4, v),
            (Low::Vector(_), _) => unreachable!("verified: a scalar"),
        }
    }

    /// A source's component for `lane` of the result.
    fn source(&mut self, u: &Use, lane: usize) -> clif::Value {
        let v = self.component(u.value, u.swizzle.lane(lane) as u8);
        if u.negate { self.b.ins().fneg(v) } else { v }
    }

    fn lane(&mut self, l: &Lane) -> clif::Value {
        let v = self.component(l.value, l.component);
        if l.negate { self.b.ins().fneg(v) } else { v }
    }

    fn define(&mut self, value: Value) {
        let live = self.side.live[value.0 as usize];
        let varies = self.side.varies[value.0 as usize];
        let low = match *self.func.node(value) {
            Node::Load(mem) => match mem {
                // In the entry's slot, or nowhere: a bank is read there.
                Mem::Temp(_) | Mem::Out { .. } | Mem::Bank => return,
                Mem::Address(n) => self.load(types::I32, abi::unit::A0 + i32::from(n) * 4),
                Mem::LoopCounter => self.load(types::I32, abi::unit::AL),
                Mem::Flag(n) => self.load(types::I8, abi::unit::CMP + i32::from(n)),
            },
            Node::Offset(address) => match self.scalar(address) {
                Low::Same(v) => Low::Same(self.math().offset(v)),
                _ => {
                    let v = self.each(address);
                    Low::Each(self.math().offset(v))
                }
            },
            Node::Relative { base, offset } => Low::Vector(self.relative(base, offset, live)),
            Node::Alu { op, src } => Low::Vector(self.alu(value, op, &src, live)),
            Node::Scalar { op, src } => {
                let x = self.lane(&src);
                let mut m = self.math();
                let y = match op {
                    Opcode::Rcp => m.rcp(x),
                    Opcode::Rsq => m.rsq(x),
                    Opcode::Ex2 => m.ex2(x),
                    _ => m.lg2(x),
                };
                Low::Vector([Some(y); 4])
            }
            Node::Merge { mask, old, new } => Low::Vector([0, 1, 2, 3].map(|c| {
                let from = if mask.has(c) { new } else { old };
                (live >> c & 1 != 0).then(|| self.component(from, c as u8))
            })),
            Node::ToAddress(src) => {
                self.sink(src.value, 1 << src.component);
                let x = self.lane(&src);
                let address = self.math().address(x);
                if varies { Low::Each(address) } else { Low::Same(self.b.ins().extractlane(address, 0)) }
            }
            Node::Compare { op, a, b } => {
                self.sink(a.value, 1 << a.component);
                self.sink(b.value, 1 << b.component);
                let (a, b) = (self.lane(&a), self.lane(&b));
                let cc = match op {
                    CmpOp::Eq => FloatCC::Equal,
                    CmpOp::Ne => FloatCC::NotEqual,
                    CmpOp::Lt => FloatCC::LessThan,
                    CmpOp::Le => FloatCC::LessThanOrEqual,
                    CmpOp::Gt => FloatCC::GreaterThan,
                    _ => FloatCC::GreaterThanOrEqual,
                };
                if varies {
                    Low::Each(self.b.ins().fcmp(cc, a, b))
                } else {
                    let (a, b) = (self.b.ins().extractlane(a, 0), self.b.ins().extractlane(b, 0));
                    Low::Same(self.b.ins().fcmp(cc, a, b))
                }
            }
            Node::Add(a, b) => match (self.scalar(a), self.scalar(b)) {
                (Low::Same(a), Low::Same(b)) => Low::Same(self.b.ins().iadd(a, b)),
                _ => {
                    let (a, b) = (self.each(a), self.each(b));
                    Low::Each(self.b.ins().iadd(a, b))
                }
            },
            ref node => unreachable!("{node:?} has no place, or needs an EMIT"),
        };
        self.values[value.0 as usize] = Some(low);
    }

    fn load(&mut self, ty: clif::Type, offset: i32) -> Low {
        Low::Same(self.b.ins().load(ty, aligned(), self.unit, offset))
    }

    fn alu(&mut self, value: Value, op: Opcode, src: &[Use; 3], live: Lanes) -> [Option<clif::Value>; 4] {
        if facts::swallows_nan(self.func.node(value)) {
            for (n, s) in src[..crate::ir::alu_sources(op)].iter().enumerate() {
                self.sink(s.value, facts::through(s, facts::lanes_read(op, n, live)));
            }
        }
        if let Opcode::Dp3 | Opcode::Dp4 | Opcode::Dph = op {
            return [Some(self.dot(op, src)); 4];
        }
        [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then(|| self.alu_lane(op, src, c)))
    }

    fn dot(&mut self, op: Opcode, src: &[Use; 3]) -> clif::Value {
        let count = if op == Opcode::Dp3 { 3 } else { 4 };
        let products: Vec<clif::Value> = (0..count)
            .map(|l| {
                let b = self.source(&src[1], l);
                if op == Opcode::Dph && l == 3 {
                    return b;
                }
                let a = self.source(&src[0], l);
                self.math().mul(a, b, ALL_LANES)
            })
            .collect();
        let xy = self.b.ins().fadd(products[0], products[1]);
        let zw = match products[..] {
            [_, _, z, w] => self.b.ins().fadd(z, w),
            _ => products[2],
        };
        self.b.ins().fadd(xy, zw)
    }

    fn alu_lane(&mut self, op: Opcode, src: &[Use; 3], c: usize) -> clif::Value {
        match (op, c) {
            (Opcode::Add, _) => {
                let (mut first, mut second) = (&src[0], &src[1]);
                if first.negate && !second.negate {
                    std::mem::swap(&mut first, &mut second);
                }
                let a = self.source(first, c);
                let b = self.component(second.value, second.swizzle.lane(c) as u8);
                return self.math().add(a, b, second.negate, ALL_LANES);
            }
            (Opcode::Dst, 0) => return self.math().constant(types::F32X4, 1.0),
            (Opcode::Dst, 3) => return self.source(&src[1], c),
            (Opcode::Dst, 2) | (Opcode::Mov, _) => return self.source(&src[0], c),
            (Opcode::Litp, 2) => return self.math().constant(types::F32X4, 0.0),
            _ => {}
        }
        let a = self.source(&src[0], c);
        match op {
            Opcode::Flr => return self.math().flr(a, ALL_LANES),
            Opcode::Litp if c == 1 => return self.math().litp_y(a),
            Opcode::Litp => {
                let zero = self.math().constant(types::F32X4, 0.0);
                return self.math().max(a, zero);
            }
            _ => {}
        }
        let b = self.source(&src[1], c);
        match op {
            Opcode::Mul | Opcode::Dst => self.math().mul(a, b, ALL_LANES),
            Opcode::Max => self.math().max(a, b),
            Opcode::Min => self.math().min(a, b),
            Opcode::Sge => self.math().set(FloatCC::GreaterThanOrEqual, a, b),
            Opcode::Slt => self.math().set(FloatCC::LessThan, a, b),
            Opcode::Mad => {
                let product = self.math().mul(a, b, ALL_LANES);
                let c = self.component(src[2].value, src[2].swizzle.lane(c) as u8);
                self.math().add(product, c, src[2].negate, ALL_LANES)
            }
            _ => unreachable!("{op:?} is lowered elsewhere"),
        }
    }

    /// Uniforms by an address: one for all vertices, or one for each.
    fn relative(&mut self, base: u8, offset: Value, live: Lanes) -> [Option<clif::Value>; 4] {
        match self.scalar(offset) {
            Low::Same(offset) => {
                let at = self.uniform_address(base, offset);
                [0, 1, 2, 3].map(|c| {
                    (live >> c & 1 != 0).then(|| {
                        let x = self.b.ins().load(types::F32, constant_memory(), at, 4 * c);
                        self.b.ins().splat(types::F32X4, x)
                    })
                })
            }
            _ => {
                let offsets = self.each(offset);
                let rows = [0, 1, 2, 3].map(|j| {
                    let offset = self.b.ins().extractlane(offsets, j);
                    let at = self.uniform_address(base, offset);
                    self.b.ins().load(types::F32X4, constant_memory(), at, 0)
                });
                let columns = self.math().transposed(rows, live);
                [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then_some(columns[c]).flatten())
            }
        }
    }

    /// Where uniform `base + offset` is, or the ones that are read beyond the last.
    fn uniform_address(&mut self, base: u8, offset: clif::Value) -> clif::Value {
        let n = self.b.ins().iadd_imm_s(offset, i64::from(base));
        let n = self.b.ins().band_imm_u(n, 0x7F);
        let beyond = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, n, FLOAT_UNIFORMS as i64);
        let pointer = self.b.func.dfg.value_type(self.uniforms);
        let n = self.b.ins().uextend(pointer, n);
        let bytes = self.b.ins().ishl_imm_u(n, 4);
        let there = self.b.ins().iadd(self.uniforms, bytes);
        let there = self.b.ins().iadd_imm_s(there, i64::from(abi::uniforms::C));
        let ones = self.b.ins().iadd_imm_s(self.stack, i64::from(self.ones));
        self.b.ins().select(beyond, ones, there)
    }

    /// `value`'s `lanes` are about to be seen or hidden; see [`speculate`](super::speculate).
    fn sink(&mut self, value: Value, lanes: Lanes) {
        if !self.suspect[value.0 as usize] {
            return;
        }
        for c in components(lanes) {
            let v = self.component(value, c);
            if !self.sinks.contains(&v) {
                self.sinks.push(v);
            }
        }
    }

    /// Gives up if anything that waits is NaN.
    fn test_sinks(&mut self) {
        let sinks = std::mem::take(&mut self.sinks);
        if sinks.is_empty() {
            return;
        }
        let (arm, mut joined) = (self.arm, None);
        for pair in sinks.chunks(2) {
            let (a, b) = (pair[0], *pair.last().expect("a chunk is not empty"));
            // One comparison tests two where there is one that holds for NaN.
            let cc = if arm { FloatCC::Ordered } else { FloatCC::Unordered };
            let test = self.b.ins().fcmp(cc, a, b);
            joined = Some(match joined {
                None => test,
                Some(before) if arm => self.b.ins().band(before, test),
                Some(before) => self.b.ins().bor(before, test),
            });
        }
        let joined = joined.expect("there is a sink");
        let found = match arm {
            false => self.b.ins().vany_true(joined),
            true => {
                let nan = self.b.ins().bnot(joined);
                self.any(nan)
            }
        };
        let go_on = self.b.create_block();
        self.b.ins().brif(found, self.give_up, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// Not zero if any bit is set.
    fn any(&mut self, mask: clif::Value) -> clif::Value {
        let halves = self.math().bitcast(types::I64X2, mask);
        let (low, high) = (self.b.ins().extractlane(halves, 0), self.b.ins().extractlane(halves, 1));
        self.b.ins().bor(low, high)
    }

    /// The end of a group's run: outputs, and the next group.
    fn end(&mut self, stores: &[(u16, u8, Value)]) {
        for &(_, n, value) in stores {
            self.sink(value, self.side.written[usize::from(n)]);
        }
        self.test_sinks();
        let mask = self.b.ins().load(types::I32, aligned(), self.frame, LANES_OUTPUT_MASK);
        for &(pc, n, value) in stores {
            let written = self.side.written[usize::from(n)];
            if written == 0 {
                continue;
            }
            self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
            let columns = [0, 1, 2, 3].map(|c: u8| match written >> c & 1 != 0 {
                true => self.component(value, c),
                false => self.splat(Splat::Out(n, c)),
            });
            let wanted = self.b.ins().band_imm_u(mask, 1 << n);
            let (store, go_on) = (self.b.create_block(), self.b.create_block());
            self.b.ins().brif(wanted, store, &[], go_on, &[]);
            self.b.switch_to_block(store);
            let rows = self.math().transposed(columns, ALL_LANES);
            let flags = MemFlagsData::new().with_notrap();
            for (j, row) in rows.into_iter().enumerate() {
                let row = row.expect("all were asked for");
                self.b.ins().store(flags, row, self.outputs, j as i32 * VERTEX + i32::from(n) * VEC4);
            }
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
        }
        let group = i64::from(VERTEX) * WIDTH as i64;
        let inputs = self.b.ins().iadd_imm_s(self.inputs, group);
        let outputs = self.b.ins().iadd_imm_s(self.outputs, group);
        let pointer = self.b.func.dfg.value_type(self.frame);
        let end = self.b.ins().load(pointer, aligned(), self.frame, LANES_END);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, inputs, end);
        let done = self.b.create_block();
        self.b.ins().brif(more, self.head, &[inputs.into(), outputs.into()], done, &[]);
        self.b.switch_to_block(done);
        self.b.ins().store(aligned(), inputs, self.frame, LANES_DONE);
        let code = self.b.ins().iconst(types::I32, Exit::End as i64);
        self.b.ins().return_(&[code]);
    }

    fn finish(&mut self) {
        self.b.switch_to_block(self.give_up);
        self.b.ins().store(aligned(), self.inputs, self.frame, LANES_DONE);
        let code = self.b.ins().iconst(types::I32, i64::from(abi::REDO));
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

    fn branch(&mut self, test: &Test, yes: &Edge, no: &Edge) {
        let vary = |v: Value| self.side.varies[v.0 as usize];
        let varies = match *test {
            Test::Flags { cond, x, y } => cond.op != CondOp::Y && vary(x) || cond.op != CondOp::X && vary(y),
            Test::Bool { .. } => false,
            Test::NonZero(v) => vary(v),
        };
        let (yes_args, no_args) = (self.arguments(yes), self.arguments(no));
        let (yes, no) = (self.blocks[yes.to], self.blocks[no.to]);
        if !varies {
            let condition = match *test {
                Test::Bool { id, value } => {
                    let bools = self.b.ins().load(types::I16, constant_memory(), self.uniforms, abi::uniforms::B);
                    let bit = self.b.ins().band_imm_u(bools, 1 << id);
                    self.b.ins().icmp_imm_u(if value { IntCC::NotEqual } else { IntCC::Equal }, bit, 0)
                }
                Test::NonZero(v) => match self.scalar(v) {
                    Low::Same(v) => v,
                    _ => unreachable!("it does not vary"),
                },
                Test::Flags { cond, x, y } => {
                    let mut flag = |v: Value, reference: bool| match self.scalar(v) {
                        Low::Same(v) if reference => v,
                        Low::Same(v) => self.b.ins().bxor_imm_u(v, 1),
                        _ => unreachable!("it does not vary"),
                    };
                    match cond.op {
                        CondOp::X => flag(x, cond.ref_x),
                        CondOp::Y => flag(y, cond.ref_y),
                        op => {
                            let (x, y) = (flag(x, cond.ref_x), flag(y, cond.ref_y));
                            if op == CondOp::And { self.b.ins().band(x, y) } else { self.b.ins().bor(x, y) }
                        }
                    }
                }
            };
            self.b.ins().brif(condition, yes, &yes_args, no, &no_args);
            return;
        }
        let mask = match *test {
            Test::Flags { cond, x, y } => {
                let mut flag = |v: Value, reference: bool| {
                    let v = self.each(v);
                    if reference { v } else { self.b.ins().bnot(v) }
                };
                match cond.op {
                    CondOp::X => flag(x, cond.ref_x),
                    CondOp::Y => flag(y, cond.ref_y),
                    op => {
                        let (x, y) = (flag(x, cond.ref_x), flag(y, cond.ref_y));
                        if op == CondOp::And { self.b.ins().band(x, y) } else { self.b.ins().bor(x, y) }
                    }
                }
            }
            Test::NonZero(v) => {
                let v = self.each(v);
                let zero = self.math().vector(types::I32X4, [0; 4]);
                self.b.ins().icmp(IntCC::NotEqual, v, zero)
            }
            Test::Bool { .. } => unreachable!("the same for all vertices"),
        };
        // Vertices that disagree run one after the other.
        let bits = self.b.ins().vhigh_bits(types::I32, mask);
        let (some, all) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(bits, some, &[], no, &no_args);
        self.b.switch_to_block(some);
        let every = self.b.ins().icmp_imm_u(IntCC::Equal, bits, (1 << WIDTH) - 1);
        self.b.ins().brif(every, all, &[], self.give_up, &[]);
        self.b.switch_to_block(all);
        self.b.ins().jump(yes, &yes_args);
    }
}

impl Math<'_, '_> {
    /// Rows of four to the columns that are wanted.
    fn transposed(&mut self, [a, b, c, d]: [clif::Value; 4], wanted: Lanes) -> [Option<clif::Value>; 4] {
        let mut columns = [None; 4];
        for (half, unpack) in [[0, 4, 1, 5], [2, 6, 3, 7]].into_iter().enumerate() {
            let (first, second) = (2 * half, 2 * half + 1);
            if wanted >> first & 3 == 0 {
                continue;
            }
            let (ab, cd) = (self.shuffle(a, b, unpack), self.shuffle(c, d, unpack));
            if wanted >> first & 1 != 0 {
                columns[first] = Some(self.shuffle(ab, cd, [0, 1, 4, 5]));
            }
            if wanted >> second & 1 != 0 {
                columns[second] = Some(self.shuffle(ab, cd, [2, 3, 6, 7]));
            }
        }
        columns
    }
}
