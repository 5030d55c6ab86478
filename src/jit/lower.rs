//! [`ir::Func`](Func) -> a Cranelift function, in the vec4 shape. A source location is an instruction's pc.
//!
//! Blocks become blocks, parameters block parameters. Leaves are evaluated where they are used, inputs once a block.
//! With [`Care::Speculate`] stores wait behind a test of everything that could have been spoilt; see
//! [`speculate`](super::speculate).
//!
//! It must not know pc's meaning, nor the numbers that [`math`](super::math) makes.

use super::code::FRAME_EMIT;
use super::dots::{self, Gather, Products};
use super::math::{Care, Math, condition};
use super::memory::{aligned, constant_memory, load_bool};
use super::shape::Vec4;
use super::speculate::Sinks;
use super::target::Machine;
use crate::ir::facts::{self, ALL_LANES, Lanes};
use crate::ir::{Edge, Form, Func, Inst, Lane, Node, Term, Test, Type, Use, Value};
use crate::isa::numeric::Precision;
use crate::isa::{Cond, CondOp, Opcode};
use crate::layout::Layout;
use crate::state::Exit;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as clif, AbiParam, BlockArg, InstBuilder, Signature, SourceLoc, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::collections::HashMap;

/// What a value of the function is in Cranelift's.
#[derive(Clone, Copy)]
pub(super) enum Low {
    Vector(Vec4),
    /// A dot product that waits to be summed.
    Products(Products),
    /// A register in which dot products wait.
    Gather(Gather),
    /// An `I32`, or an `I8` for a flag.
    Scalar(clif::Value),
}

pub(super) struct Lower<'a, 'f> {
    pub(super) b: FunctionBuilder<'f>,
    pub(super) func: &'a Func,
    pub(super) care: Care,
    pub(super) precision: Precision,
    pub(super) live: Vec<Lanes>,
    /// Values that may wait as [`Low::Products`] or [`Low::Gather`].
    waiting: Vec<bool>,
    blocks: Vec<clif::Block>,
    pub(super) values: Vec<Option<Low>>,
    pub(super) layout: Layout,
    pub(super) uniforms: clif::Value,
    pub(super) unit: clif::Value,
    pub(super) inputs: clif::Value,
    pub(super) frame: clif::Value,
    emit_signature: Option<clif::SigRef>,
    /// Addresses of output banks, by the bank's value, where they are known for good.
    pub(super) banks: HashMap<Value, clif::Value>,
    /// Inputs and uniforms loaded in this block, or narrowed in block 0, which dominates all.
    pub(super) loaded: HashMap<Value, clif::Value>,
    pub(super) sinks: Sinks,
    /// See [`Machine::arm`].
    pub(super) arm: bool,
    /// Values that may well be infinite; float24 only.
    infinite: Vec<bool>,
    /// Whether the one that is being defined is among them.
    infinite_now: bool,
}

/// Writes `func` into `out`, whose signature is already set. [`Care::Speculate`] needs the SSA form and no EMIT.
pub(super) fn lower(
    func: &Func,
    care: Care,
    precision: Precision,
    out: &mut clif::Function,
    context: &mut FunctionBuilderContext,
    machine: Machine,
) {
    out.name = UserFuncName::user(0, u32::from(func.entry.pc));
    let call_conv = out.signature.call_conv;
    let mut b = FunctionBuilder::new(out, context);
    let blocks: Vec<clif::Block> = func.blocks.iter().map(|_| b.create_block()).collect();
    b.append_block_params_for_function_params(blocks[0]);
    let &[uniforms, unit, inputs, frame] = b.block_params(blocks[0]) else {
        unreachable!("the signature has four parameters")
    };
    let emits = func.emits();
    debug_assert!(care == Care::Exact || !emits, "what was emitted can't be redone");
    let emit_signature = emits.then(|| {
        let mut s = Signature::new(call_conv);
        s.params.push(AbiParam::new(machine.pointer()));
        b.import_signature(s)
    });
    let mut l = Lower {
        b,
        func,
        care,
        precision,
        live: func.live_lanes(),
        waiting: dots::waiting(func),
        blocks,
        values: vec![None; func.nodes.len()],
        layout: machine.layout,
        uniforms,
        unit,
        inputs,
        frame,
        emit_signature,
        banks: HashMap::new(),
        loaded: HashMap::new(),
        sinks: Sinks::new(func, care, precision),
        arm: machine.arm,
        infinite: if precision == Precision::F32 { Vec::new() } else { func.may_be_infinite() },
        infinite_now: false,
    };
    l.run();
    l.b.seal_all_blocks();
    l.b.finalize(machine.frontend);
}

impl<'f> Lower<'_, 'f> {
    fn run(&mut self) {
        for (id, block) in self.func.blocks.iter().enumerate() {
            let at = self.blocks[id];
            for &param in &block.params {
                let ty = match self.func.node(param).ty() {
                    Type::Vec4 => types::F32X4,
                    Type::Int => types::I32,
                    Type::Flag => types::I8,
                };
                let value = self.b.append_block_param(at, ty);
                self.values[param.0 as usize] = Some(match ty {
                    types::F32X4 => Low::Vector(Vec4::Wide(value)),
                    _ => Low::Scalar(value),
                });
            }
            if block.term == Term::Exit(Exit::Fuel) {
                self.b.set_cold_block(at);
            }
        }
        let func = self.func;
        for (id, block) in func.blocks.iter().enumerate() {
            self.b.switch_to_block(self.blocks[id]);
            // Once narrowed a leaf is worth keeping, if only on the stack; a plain load is not.
            if self.precision == Precision::F32 {
                self.loaded.clear();
            } else if id == 0 {
                self.math().make_constants();
                self.narrow_leaves();
            }
            // Stores come last in their block, and wait for the test.
            let mut stores = Vec::new();
            for &(pc, inst) in &block.insts {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                match inst {
                    Inst::Def(value) => self.define(value),
                    Inst::Store(mem, value) if self.care == Care::Speculate => {
                        if mem.ty() == Type::Vec4 {
                            self.sink(value, ALL_LANES);
                        }
                        stores.push((pc, mem, value));
                    }
                    Inst::Store(mem, value) => self.store(mem, value),
                    Inst::Emit => self.emit(),
                    Inst::Setemit(s) => {
                        let places = self.layout.setemit().expect("others don't get here: Unsupported::NoGeometry");
                        for (byte, offset) in [s.vertex, s.primitive.into(), s.winding.into()].into_iter().zip(places) {
                            let byte = self.b.ins().iconst(types::I8, i64::from(byte));
                            self.b.ins().store(aligned(), byte, self.unit, offset);
                        }
                    }
                }
            }
            self.test_sinks();
            for (pc, mem, value) in stores {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                self.store(mem, value);
            }
            self.terminate(&block.term);
        }
        self.finish_redo();
    }

    pub(super) fn math(&mut self) -> Math<'_, 'f> {
        Math {
            b: &mut self.b,
            care: self.care,
            precision: self.precision,
            watch: &mut self.sinks.watch,
            infinite: self.infinite_now,
            arm: self.arm,
        }
    }

    pub(super) fn set(&mut self, value: Value, low: Low) {
        self.values[value.0 as usize] = Some(low);
    }

    fn define(&mut self, value: Value) {
        self.infinite_now = self.infinite.get(value.0 as usize).copied().unwrap_or(false);
        let low = match *self.func.node(value) {
            Node::Load(mem) => self.load(value, mem),
            Node::Offset(address) => {
                let address = self.scalar(address);
                Low::Scalar(self.math().offset(address))
            }
            Node::Relative { base, offset } => self.relative(base, offset, self.live[value.0 as usize]),
            Node::Alu { op: op @ (Opcode::Dp3 | Opcode::Dp4 | Opcode::Dph), src } => {
                let products = self.products(op, &src);
                match self.waiting[value.0 as usize] {
                    true => Low::Products(products),
                    false => Low::Vector(self.math().dot(products)),
                }
            }
            Node::Alu { op, src } => Low::Vector(self.alu(value, op, &src)),
            Node::Scalar { op, src } => {
                let x = self.lane(&src);
                Low::Vector(Vec4::Splat(self.math().scalar(op, x)))
            }
            Node::Merge { mask, old, new } if let Some(gather) = self.gather(mask, old, new) => {
                match self.waiting[value.0 as usize] {
                    true => Low::Gather(gather),
                    false => Low::Vector(self.gathered(gather)),
                }
            }
            Node::Merge { mask, old, new } => {
                let (old, new) = (self.vector(old), self.vector(new));
                Low::Vector(self.math().merge(mask, old, new))
            }
            Node::ToAddress(src) => {
                self.sink(src.value, 1 << src.component);
                let x = self.lane(&src);
                Low::Scalar(self.math().address(x))
            }
            Node::Compare { op, a, b } => {
                self.sink(a.value, 1 << a.component);
                self.sink(b.value, 1 << b.component);
                let (a, b) = (self.lane(&a), self.lane(&b));
                Low::Scalar(self.b.ins().fcmp(condition(op), a, b))
            }
            Node::Add(a, b) => {
                let a = self.scalar(a);
                Low::Scalar(match *self.func.node(b) {
                    Node::Int(n) => self.b.ins().iadd_imm_s(a, i64::from(n)),
                    _ => {
                        let b = self.scalar(b);
                        self.b.ins().iadd(a, b)
                    }
                })
            }
            Node::Flip(bank) => {
                let bank = self.scalar(bank);
                Low::Scalar(self.b.ins().bxor_imm_u(bank, 1))
            }
            ref leaf => unreachable!("{leaf:?} has no place"),
        };
        self.set(value, low);
    }

    /// A vector; leaves are evaluated here.
    pub(super) fn vector(&mut self, value: Value) -> Vec4 {
        match *self.func.node(value) {
            Node::Const(bits) => Vec4::Wide(self.math().vector(types::F32X4, bits)),
            Node::Input(_) | Node::Uniform(_) if let Some(&v) = self.loaded.get(&value) => Vec4::Wide(v),
            Node::Input(n) => {
                let v = self.raw_input(n);
                let v = self.math().input(v);
                // Registers in memory are read each time, as those do who keep them there. What is narrowed is kept only in
                // block 0.
                if self.func.form == Form::Ssa && self.precision == Precision::F32 {
                    self.loaded.insert(value, v);
                }
                Vec4::Wide(v)
            }
            // Not kept: a register that is read once more is dearer than a load.
            Node::Uniform(n) => {
                let v = self.raw_uniform(n);
                Vec4::Wide(self.math().uniform(v))
            }
            _ => match self.values[value.0 as usize] {
                Some(Low::Vector(v)) => v,
                _ => unreachable!("verified: a vector that is defined before its use"),
            },
        }
    }

    /// An integer or a flag; leaves are evaluated here.
    pub(super) fn scalar(&mut self, value: Value) -> clif::Value {
        match *self.func.node(value) {
            Node::Int(n) => self.b.ins().iconst(types::I32, i64::from(n as u32)),
            Node::Flag(f) => self.b.ins().iconst(types::I8, i64::from(f)),
            Node::IntUniform { id, component } => {
                let offset = self.layout.i(id, component);
                self.b.ins().uload8(types::I32, constant_memory(), self.uniforms, offset)
            }
            _ => match self.values[value.0 as usize] {
                Some(Low::Scalar(v)) => v,
                _ => unreachable!("verified: a scalar that is defined before its use"),
            },
        }
    }

    /// A vector source: the lanes `needed` of it, swizzled; the sign is left to the caller.
    fn unsigned(&mut self, u: &Use, needed: Lanes) -> Vec4 {
        if let Node::Uniform(n) = *self.func.node(u.value)
            && !self.narrows_uniforms()
            && let Some(component) = single_component(u, needed)
        {
            let offset = self.layout.c(n, component);
            return Vec4::Splat(self.b.ins().load(types::F32, constant_memory(), self.uniforms, offset));
        }
        let v = self.vector(u.value);
        self.math().swizzle(v, u.swizzle, needed)
    }

    /// A vector source.
    fn source(&mut self, u: &Use, needed: Lanes) -> Vec4 {
        let v = self.unsigned(u, needed);
        match (u.negate, v) {
            (false, v) => v,
            (true, Vec4::Wide(v)) => Vec4::Wide(self.b.ins().fneg(v)),
            (true, Vec4::Splat(v)) => Vec4::Splat(self.b.ins().fneg(v)),
        }
    }

    /// A scalar source.
    fn lane(&mut self, l: &Lane) -> clif::Value {
        let x = match *self.func.node(l.value) {
            Node::Uniform(n) if !self.narrows_uniforms() => {
                let offset = self.layout.c(n, l.component);
                self.b.ins().load(types::F32, constant_memory(), self.uniforms, offset)
            }
            _ => {
                let v = self.vector(l.value);
                self.math().component(v, usize::from(l.component))
            }
        };
        if l.negate { self.b.ins().fneg(x) } else { x }
    }

    /// What a value has become so far.
    pub(super) fn low(&self, value: Value) -> Option<Low> {
        self.values[value.0 as usize]
    }

    /// Lanes of a vector that anybody reads.
    pub(super) fn live_lanes(&self, value: Value) -> Lanes {
        self.live[value.0 as usize] & ALL_LANES
    }

    /// The products of a dot product.
    fn products(&mut self, op: Opcode, src: &[Use; 3]) -> Products {
        let a = self.source(&src[0], facts::lanes_read(op, 0, ALL_LANES));
        let a = self.math().wide(a);
        let b = self.source(&src[1], facts::lanes_read(op, 1, ALL_LANES));
        let b = self.math().wide(b);
        let mut m = self.math();
        let value = match op {
            Opcode::Dp3 => m.mul(a, b, 0b0111),
            Opcode::Dp4 => m.mul(a, b, ALL_LANES),
            _ => m.dph_products(a, b),
        };
        Products { value, three: op == Opcode::Dp3 }
    }

    fn alu(&mut self, value: Value, op: Opcode, src: &[Use; 3]) -> Vec4 {
        let live = self.live[value.0 as usize] & ALL_LANES;
        if facts::swallows_nan(self.func.node(value)) {
            for (n, s) in src[..crate::ir::alu_sources(op)].iter().enumerate() {
                self.sink(s.value, facts::through(s, facts::lanes_read(op, n, live)));
            }
        }
        let needed = |n| facts::lanes_read(op, n, live);
        if op == Opcode::Add {
            return self.add(src, live);
        }
        let a = self.source(&src[0], needed(0));
        if op == Opcode::Mov {
            return a;
        }
        let a = self.math().wide(a);
        if crate::ir::alu_sources(op) == 1 {
            return Vec4::Wide(match op {
                Opcode::Flr => self.math().flr(a, live),
                _ => self.litp(a, live),
            });
        }
        let b = self.source(&src[1], needed(1));
        let b = self.math().wide(b);
        let mut m = self.math();
        let wide = match op {
            Opcode::Mul => m.mul(a, b, live),
            Opcode::Max => m.max(a, b),
            Opcode::Min => m.min(a, b),
            Opcode::Sge => m.set(FloatCC::GreaterThanOrEqual, a, b),
            Opcode::Slt => m.set(FloatCC::LessThan, a, b),
            Opcode::Mad => {
                let product = m.mul(a, b, live);
                let c = self.unsigned(&src[2], live);
                let c = self.math().wide(c);
                self.math().add(product, c, src[2].negate, live)
            }
            Opcode::Dst => {
                let mut r = m.mul(a, b, live & 0b0010);
                for (lane, from) in [(0, None), (2, Some(a)), (3, Some(b))] {
                    if live >> lane & 1 != 0 {
                        let from = from.unwrap_or_else(|| m.constant(types::F32X4, 1.0));
                        r = m.blend(1 << lane, r, from);
                    }
                }
                r
            }
            _ => unreachable!("{op:?} is lowered elsewhere"),
        };
        Vec4::Wide(wide)
    }

    /// A sum; a negated summand is subtracted, which is the same by IEEE's definition of subtraction.
    fn add(&mut self, src: &[Use; 3], live: Lanes) -> Vec4 {
        let (mut first, mut second) = (&src[0], &src[1]);
        if first.negate && !second.negate {
            std::mem::swap(&mut first, &mut second);
        }
        let a = self.source(first, live);
        let a = self.math().wide(a);
        let b = self.unsigned(second, live);
        let b = self.math().wide(b);
        Vec4::Wide(self.math().add(a, b, second.negate, live))
    }

    fn litp(&mut self, a: clif::Value, live: Lanes) -> clif::Value {
        let mut m = self.math();
        let zero = m.constant(types::F32X4, 0.0);
        let mut r = m.max(a, zero);
        if live & 0b0010 != 0 {
            let y = m.litp_y(a);
            r = m.blend(0b0010, r, y);
        }
        if live & 0b0100 != 0 {
            r = m.blend(0b0100, r, zero);
        }
        r
    }

    fn emit(&mut self) {
        let signature = self.emit_signature.expect("made because the function emits");
        let pointer = self.b.func.dfg.value_type(self.frame);
        let function = self.b.ins().load(pointer, aligned(), self.frame, FRAME_EMIT);
        self.b.ins().call_indirect(signature, function, &[self.frame]);
    }

    fn terminate(&mut self, term: &Term) {
        match term {
            Term::Exit(exit) => {
                let code = self.b.ins().iconst(types::I32, *exit as i64);
                self.b.ins().return_(&[code]);
            }
            Term::Goto(edge) => {
                let args = self.arguments(edge);
                self.b.ins().jump(self.blocks[edge.to], &args);
            }
            Term::Branch { test, yes, no } => {
                let (condition, holds) = self.condition(test);
                let (yes, no) = if holds { (yes, no) } else { (no, yes) };
                let (yes_args, no_args) = (self.arguments(yes), self.arguments(no));
                self.b.ins().brif(condition, self.blocks[yes.to], &yes_args, self.blocks[no.to], &no_args);
            }
        }
    }

    fn arguments(&mut self, edge: &Edge) -> Vec<BlockArg> {
        edge.args
            .iter()
            .map(|&a| {
                let value = match self.func.node(a).ty() {
                    Type::Vec4 => {
                        let v = self.vector(a);
                        self.math().wide(v)
                    }
                    _ => self.scalar(a),
                };
                BlockArg::from(value)
            })
            .collect()
    }

    /// A value that is nonzero or zero, and whether nonzero means that the test holds.
    fn condition(&mut self, test: &Test) -> (clif::Value, bool) {
        match *test {
            Test::NonZero(v) => (self.scalar(v), true),
            Test::Bool { id, value } => (load_bool(&mut self.b, &self.layout, self.uniforms, id), value),
            Test::Flags { cond: Cond { op: CondOp::X, ref_x, .. }, x, .. } => (self.scalar(x), ref_x),
            Test::Flags { cond: Cond { op: CondOp::Y, ref_y, .. }, y, .. } => (self.scalar(y), ref_y),
            Test::Flags { cond: Cond { op, ref_x, ref_y }, x, y } => {
                let mut flag = |v: Value, reference: bool| {
                    let v = self.scalar(v);
                    // Flags are 0 or 1, whether loaded or compared.
                    if reference { v } else { self.b.ins().bxor_imm_u(v, 1) }
                };
                let (x, y) = (flag(x, ref_x), flag(y, ref_y));
                let both = match op {
                    CondOp::And => self.b.ins().band(x, y),
                    _ => self.b.ins().bor(x, y),
                };
                (both, true)
            }
        }
    }
}

/// The one component that all needed lanes of `u` take, in bytes' order.
fn single_component(u: &Use, needed: Lanes) -> Option<u8> {
    let components = facts::through(u, needed);
    components.is_power_of_two().then(|| components.trailing_zeros() as u8)
}
