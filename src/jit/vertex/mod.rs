//! [`ir::Func`](Func) -> a Cranelift function, in the vec4 shape: one vertex, a PICA register per
//! SIMD register.
//!
//! Blocks become blocks, parameters become block parameters. Leaves are evaluated at each use,
//! inputs once a block. Source locations are pcs. With [`Products::Speculative`] a block's stores
//! follow its [guards](guard).
//!
//! It must not know the meaning of pc, nor the sequences of [`emit`](super::emit).

mod dot_product_transpose;
mod emission;
mod guard;
mod operands;
mod registers;

use crate::ir::analysis::ranges::{Check, Narrowing, Ranges};
use crate::ir::analysis::{self, Components, XYZW};
use crate::ir::{BranchTest, Edge, Form, Func, Inst, Mem, Node, ScalarUse, Terminator, Type, Use, Value};
use crate::isa::numeric::Precision;
use crate::isa::{Cond, CondOp, DotOp, VectorOp};
use crate::jit::abi::Stores;
use crate::jit::emit::memory::{constant_memory, load_bool, load_cancel_flag};
use crate::jit::emit::op;
use crate::jit::emit::vector::{Merged, VecValue};
use crate::jit::emit::{ClifBuilder, Products, math::condition};
use crate::jit::target::Machine;
use crate::jit::vertex::dot_product_transpose::{UnsummedDot, UnsummedDots};
use crate::jit::vertex::emission::Emissions;
use crate::jit::vertex::guard::Guards;
use crate::jit::vertex::operands::Operands;
use crate::layout::Layout;
use crate::state::Exit;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, AbiParam, BlockArg, InstBuilder, Signature, SourceLoc, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::collections::HashMap;

/// A value of the IR in CLIF.
#[derive(Clone, Copy)]
pub(crate) enum VertexValue {
    Vector(VecValue),
    /// A dot product whose sum is deferred.
    Dot(UnsummedDot),
    /// A register of which some components are deferred sums.
    Dots(UnsummedDots),
    /// An `I32`, or an `I8` for a flag: 0 for false, and any other for true.
    Scalar(clif::Value),
}

pub(crate) struct VertexLowering<'a, 'f> {
    pub(crate) b: FunctionBuilder<'f>,
    pub(crate) func: &'a Func,
    pub(crate) products: Products,
    pub(crate) stores: Stores,
    pub(crate) precision: Precision,
    pub(crate) live: Vec<Components>,
    /// Values that may be a [`VertexValue::Dot`] or [`VertexValue::Dots`].
    deferrable: Vec<bool>,
    blocks: Vec<clif::Block>,
    pub(crate) values: Vec<Option<VertexValue>>,
    /// Both sides of merges, in the SSA form.
    merged: HashMap<Value, Merged>,
    pub(crate) layout: Layout,
    pub(crate) uniforms: clif::Value,
    pub(crate) unit: clif::Value,
    pub(crate) inputs: clif::Value,
    pub(crate) frame: clif::Value,
    /// Of [`FRAME_FLUSH`](crate::jit::abi::FRAME_FLUSH), if the function emits.
    flush_signature: Option<clif::SigRef>,
    emissions: Emissions,
    /// The addresses of output banks, by the bank's value.
    pub(crate) banks: HashMap<Value, clif::Value>,
    /// Inputs loaded in this block; in float24 the leaves narrowed in block 0, which dominates all.
    pub(crate) loaded: HashMap<Value, clif::Value>,
    pub(crate) guards: Guards,
    /// See [`Machine::aarch64`].
    pub(crate) aarch64: bool,
    /// See [`Machine::cancel`].
    cancel: usize,
    /// The exit of cancelled runs, if there is a check.
    cancelled: Option<clif::Block>,
    /// How speculative float24 code narrows.
    pub(crate) ranges: Option<Ranges>,
    /// The narrowing of the value being defined.
    pub(crate) narrowing: Narrowing,
}

/// Writes `func` into `out`, whose signature is already set. [`Products::Speculative`] and
/// [`Stores::Outputs`] need the SSA form, and the latter no EMIT.
pub(crate) fn lower(
    func: &Func,
    products: Products,
    stores: Stores,
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
    let flush_signature = emits.then(|| {
        let mut s = Signature::new(call_conv);
        s.params.push(AbiParam::new(machine.pointer()));
        s.returns.push(AbiParam::new(machine.pointer()));
        b.import_signature(s)
    });
    let live = func.live_components();
    let speculates = products == Products::Speculative;
    let ranges =
        (speculates && precision != Precision::F32).then(|| func.ranges(&live, &func.stored_vectors())).flatten();
    let products = if precision != Precision::F32 && ranges.is_none() { Products::Exact } else { products };
    let mut l = VertexLowering {
        b,
        func,
        products,
        stores,
        precision,
        ranges,
        narrowing: Narrowing::default(),
        live,
        deferrable: dot_product_transpose::deferrable(func),
        blocks,
        values: vec![None; func.nodes.len()],
        merged: HashMap::new(),
        layout: machine.layout,
        uniforms,
        unit,
        inputs,
        frame,
        flush_signature,
        emissions: if emits { Emissions::new(func) } else { Emissions::default() },
        banks: HashMap::new(),
        loaded: HashMap::new(),
        guards: Guards::new(func, products, precision),
        aarch64: machine.aarch64,
        cancel: machine.cancel,
        cancelled: None,
    };
    l.run();
    l.b.seal_all_blocks();
    l.b.finalize(machine.frontend);
}

impl<'f> VertexLowering<'_, 'f> {
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
                    types::F32X4 => VertexValue::Vector(VecValue::Wide(value)),
                    _ => VertexValue::Scalar(value),
                });
            }
            if block.term == Terminator::Exit(Exit::Fuel) {
                self.b.set_cold_block(at);
            }
        }
        let func = self.func;
        for (id, block) in func.blocks.iter().enumerate() {
            self.b.switch_to_block(self.blocks[id]);
            self.emissions.begin_block();
            if id == 0 {
                self.save_emission();
            }
            // A narrowed leaf costs more than a spill, so it stays; a plain load is repeated.
            if self.precision == Precision::F32 {
                self.loaded.clear();
            } else if id == 0 {
                self.clif().make_constants();
                self.narrow_leaves();
            }
            for &param in &block.params {
                self.check(param);
            }
            // Speculative stores follow the block's guards.
            let mut stores = Vec::new();
            // In SSA form an EMIT takes the values of the stores before it. Memory receives them when
            // the run ends.
            let last_emit = match func.form {
                Form::Ssa => block.insts.iter().rposition(|(_, inst)| *inst == Inst::Emit).unwrap_or(0),
                Form::Memory => 0,
            };
            for (n, &(pc, inst)) in block.insts.iter().enumerate() {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                match inst {
                    Inst::Def(value) => self.define(value),
                    Inst::Store(Mem::Out { n: output, .. }, value) if n < last_emit => {
                        self.guard(value, XYZW);
                        self.emissions.outputs.push((output, value));
                    }
                    Inst::Store(mem, value) if self.products == Products::Speculative => {
                        if mem.ty() == Type::Vec4 {
                            self.guard(value, XYZW);
                        }
                        stores.push((pc, mem, value));
                    }
                    Inst::Store(mem, value) => self.store(mem, value),
                    Inst::Emit => self.emit(),
                    Inst::Setemit(parameters) => self.setemit(parameters),
                }
            }
            self.test_guards();
            for (pc, mem, value) in stores {
                self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
                self.store(mem, value);
            }
            self.store_unchanged_outputs(block);
            self.emissions.end_block();
            self.terminate(&block.term);
        }
        self.emit_deoptimise_block();
        self.emit_no_room_block();
        self.emit_cancelled_block();
    }

    pub(crate) fn clif(&mut self) -> ClifBuilder<'_, 'f> {
        ClifBuilder {
            b: &mut self.b,
            products: self.products,
            precision: self.precision,
            sticky: &mut self.guards.sticky,
            narrowing: self.narrowing,
            aarch64: self.aarch64,
        }
    }

    pub(crate) fn set(&mut self, value: Value, lowered: VertexValue) {
        self.values[value.0 as usize] = Some(lowered);
    }

    fn define(&mut self, value: Value) {
        if let Some(ranges) = &self.ranges {
            self.narrowing = ranges.narrowing_of(value, self.live_components(value));
        }
        let lowered = match *self.func.node(value) {
            Node::Load(mem) => self.load(value, mem),
            Node::Offset(address) => {
                let address = self.scalar(address);
                VertexValue::Scalar(self.clif().offset(address))
            }
            Node::Relative { base, offset } => self.relative(base, offset, self.live[value.0 as usize]),
            Node::Alu { op, src } => self.alu(value, op, &src),
            Node::Scalar { op, src } => {
                let x = self.scalar_source(&src);
                let y = self.clif().scalar(op, x);
                self.check_scalar(y);
                VertexValue::Vector(VecValue::Splat(y))
            }
            Node::Merge { mask, old, new } if let Some(dots) = self.merge_dot(mask, old, new) => {
                match self.deferrable[value.0 as usize] {
                    true => VertexValue::Dots(dots),
                    false => {
                        let merged = self.sum_dots(dots);
                        self.merge(value, merged)
                    }
                }
            }
            Node::Merge { mask, old, new } => {
                let (bits, live) = (mask.component_bits(), self.live_components(value));
                let (old, new) = (self.vector_reading(old, live & !bits), self.vector_reading(new, live & bits));
                self.merge(value, Merged { bits, old, new })
            }
            Node::ToAddress(src) => {
                self.guard(src.value, 1 << src.component);
                let x = self.scalar_source(&src);
                VertexValue::Scalar(self.clif().address(x))
            }
            Node::Compare { op, a, b } => {
                self.guard(a.value, 1 << a.component);
                self.guard(b.value, 1 << b.component);
                let (a, b) = (self.scalar_source(&a), self.scalar_source(&b));
                VertexValue::Scalar(self.b.ins().fcmp(condition(op), a, b))
            }
            Node::Add(a, b) => {
                let a = self.scalar(a);
                VertexValue::Scalar(match *self.func.node(b) {
                    Node::Int(n) => self.b.ins().iadd_imm_s(a, i64::from(n)),
                    _ => {
                        let b = self.scalar(b);
                        self.b.ins().iadd(a, b)
                    }
                })
            }
            Node::Flip(bank) => {
                let bank = self.scalar(bank);
                VertexValue::Scalar(self.b.ins().bxor_imm_u(bank, 1))
            }
            ref leaf => unreachable!("{leaf:?} is a leaf: it has no definition"),
        };
        self.set(value, lowered);
    }

    /// A merge. Readers of one side alone do not wait for the other one.
    fn merge(&mut self, value: Value, merged: Merged) -> VertexValue {
        if self.func.form == Form::Ssa {
            self.merged.insert(value, merged);
        }
        VertexValue::Vector(self.clif().merged(merged))
    }

    /// A vector whose components `needed` are those of `value`.
    fn vector_reading(&mut self, value: Value, needed: Components) -> VecValue {
        match self.merged.get(&value) {
            Some(&Merged { bits, new, .. }) if needed & !bits == 0 => new,
            Some(&Merged { bits, old, .. }) if needed & bits == 0 => old,
            _ => self.vector(value),
        }
    }

    /// A vector; leaves are evaluated here.
    pub(crate) fn vector(&mut self, value: Value) -> VecValue {
        match *self.func.node(value) {
            Node::Const(bits) => VecValue::Wide(self.clif().vector(types::F32X4, bits)),
            Node::Input(_) | Node::Uniform(_) if let Some(&v) = self.loaded.get(&value) => VecValue::Wide(v),
            Node::Input(n) => {
                let v = self.raw_input(n);
                let v = self.clif().input(v);
                // The memory form loads at each use. In float24 only block 0 narrows.
                if self.func.form == Form::Ssa && self.precision == Precision::F32 {
                    self.loaded.insert(value, v);
                }
                VecValue::Wide(v)
            }
            // Loaded at each use: a load is cheaper than a register that stays live.
            Node::Uniform(n) => {
                let v = self.raw_uniform(n);
                VecValue::Wide(self.clif().uniform(v))
            }
            _ => match self.values[value.0 as usize] {
                Some(VertexValue::Vector(v)) => v,
                _ => unreachable!("verified: a vector that is defined before its use"),
            },
        }
    }

    /// An integer or a flag; leaves are evaluated here.
    pub(crate) fn scalar(&mut self, value: Value) -> clif::Value {
        match *self.func.node(value) {
            Node::Int(n) => self.b.ins().iconst(types::I32, i64::from(n as u32)),
            Node::Flag(f) => self.b.ins().iconst(types::I8, i64::from(f)),
            Node::IntUniform { id, component } => {
                let offset = self.layout.i(id, component);
                self.b.ins().uload8(types::I32, constant_memory(), self.uniforms, offset)
            }
            _ => match self.values[value.0 as usize] {
                Some(VertexValue::Scalar(v)) => v,
                _ => unreachable!("verified: a scalar that is defined before its use"),
            },
        }
    }

    /// Components `needed` of a swizzled source, without its sign.
    fn unsigned(&mut self, u: &Use, needed: Components) -> VecValue {
        if let Node::Uniform(n) = *self.func.node(u.value)
            && !self.narrows_uniforms()
            && let Some(component) = single_component(u, needed)
        {
            let offset = self.layout.c(n, component);
            return VecValue::Splat(self.b.ins().load(types::F32, constant_memory(), self.uniforms, offset));
        }
        let v = self.vector_reading(u.value, analysis::source_components(u, needed));
        self.clif().swizzle(v, u.swizzle, needed)
    }

    /// Components `needed` of a source after its swizzle and sign.
    fn source(&mut self, u: &Use, needed: Components) -> VecValue {
        let v = self.unsigned(u, needed);
        match (u.negate, v) {
            (false, v) => v,
            (true, VecValue::Wide(v)) => VecValue::Wide(self.b.ins().fneg(v)),
            (true, VecValue::Splat(v)) => VecValue::Splat(self.b.ins().fneg(v)),
        }
    }

    /// A scalar source.
    fn scalar_source(&mut self, l: &ScalarUse) -> clif::Value {
        let x = match *self.func.node(l.value) {
            Node::Uniform(n) if !self.narrows_uniforms() => {
                let offset = self.layout.c(n, l.component);
                self.b.ins().load(types::F32, constant_memory(), self.uniforms, offset)
            }
            _ => {
                let v = self.vector_reading(l.value, 1 << l.component);
                self.clif().component(v, usize::from(l.component))
            }
        };
        if l.negate { self.b.ins().fneg(x) } else { x }
    }

    /// A value in CLIF, if it is defined yet.
    pub(crate) fn lowered(&self, value: Value) -> Option<VertexValue> {
        self.values[value.0 as usize]
    }

    /// The live components of a vector.
    pub(crate) fn live_components(&self, value: Value) -> Components {
        self.live[value.0 as usize] & XYZW
    }

    /// The products of a dot product.
    fn unsummed_dot(&mut self, op: DotOp, src: &[Use; 3]) -> UnsummedDot {
        let [a, b] = [0, 1].map(|n| {
            let v = self.source(&src[n], analysis::operand_components(op.into(), n, XYZW));
            self.clif().wide(v)
        });
        let value = self.clif().dot_products(op, a, b);
        UnsummedDot { value, is_dp3: op == DotOp::Dp3, narrowing: self.narrowing }
    }

    fn alu(&mut self, value: Value, op: VectorOp, src: &[Use; 3]) -> VertexValue {
        let live = self.live[value.0 as usize] & XYZW;
        if op.swallows_nan() {
            for (n, s) in src[..op.sources()].iter().enumerate() {
                self.guard(s.value, analysis::source_components(s, analysis::operand_components(op, n, live)));
            }
        }
        let mut source = |n: usize| {
            let v = self.source(&src[n], analysis::operand_components(op, n, live));
            self.clif().wide(v)
        };
        let wide = match op {
            VectorOp::Dot(op) => {
                let dot = self.unsummed_dot(op, src);
                return match self.deferrable[value.0 as usize] {
                    true => VertexValue::Dot(dot),
                    false => VertexValue::Vector(self.clif().dot(dot)),
                };
            }
            // A copy of a splat is a splat.
            VectorOp::MOV => return VertexValue::Vector(self.source(&src[0], live)),
            VectorOp::Pointwise(op) => op::pointwise(&mut Operands { l: self, src, live }, op, live),
            VectorOp::Dst => {
                let (a, b) = (source(0), source(1));
                self.clif().dst(a, b, live)
            }
            VectorOp::Litp => {
                let a = source(0);
                self.clif().litp(a, live)
            }
        };
        if let Some([low, high]) = self.ranges.as_ref().map(|ranges| ranges.checked(value, live)) {
            self.clif().record(wide, low, high);
        }
        let signed = if op == VectorOp::Dst { wide } else { self.clif().signed_zero(wide) };
        VertexValue::Vector(VecValue::Wide(signed))
    }

    /// Records the checks of a scalar result.
    fn check_scalar(&mut self, y: clif::Value) {
        let Check { low, high } = self.narrowing.check;
        if self.ranges.is_some() && (low || high) {
            let vector = self.b.ins().scalar_to_vector(types::F32X4, y);
            self.clif().record(vector, low.into(), high.into());
        }
    }

    /// Records the checks of a parameter.
    fn check(&mut self, param: Value) {
        let Some(ranges) = &self.ranges else { return };
        let [low, high] = ranges.checked(param, self.live_components(param));
        if low | high != 0 {
            let vector = self.vector(param);
            let vector = self.clif().wide(vector);
            self.clif().record(vector, low, high);
        }
    }

    fn terminate(&mut self, term: &Terminator) {
        match term {
            Terminator::Exit(exit) => {
                let code = self.b.ins().iconst(types::I32, *exit as i64);
                self.b.ins().return_(&[code]);
            }
            Terminator::Goto(edge) => {
                let args = self.arguments(edge);
                self.b.ins().jump(self.blocks[edge.to], &args);
            }
            Terminator::Branch { test, yes, no } => {
                if test.is_fuel_check() {
                    self.exit_if_cancelled();
                }
                let (condition, holds) = self.condition(test);
                let (yes, no) = if holds { (yes, no) } else { (no, yes) };
                let (yes_args, no_args) = (self.arguments(yes), self.arguments(no));
                self.b.ins().brif(condition, self.blocks[yes.to], &yes_args, self.blocks[no.to], &no_args);
            }
        }
    }

    /// Ends the run if the engine is cancelled. It stores nothing: registers may be anything then.
    fn exit_if_cancelled(&mut self) {
        let pointer = self.b.func.dfg.value_type(self.frame);
        let flag = load_cancel_flag(&mut self.b, pointer, self.cancel);
        let cancelled = *self.cancelled.get_or_insert_with(|| {
            let block = self.b.create_block();
            self.b.set_cold_block(block);
            block
        });
        let go_on = self.b.create_block();
        self.b.ins().brif(flag, cancelled, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    fn emit_cancelled_block(&mut self) {
        if let Some(block) = self.cancelled {
            self.b.switch_to_block(block);
            let code = self.b.ins().iconst(types::I32, Exit::Cancelled as i64);
            self.b.ins().return_(&[code]);
        }
    }

    fn arguments(&mut self, edge: &Edge) -> Vec<BlockArg> {
        edge.args
            .iter()
            .map(|&a| {
                let value = match self.func.node(a).ty() {
                    Type::Vec4 => {
                        let v = self.vector(a);
                        self.clif().wide(v)
                    }
                    _ => self.scalar(a),
                };
                BlockArg::from(value)
            })
            .collect()
    }

    /// A value that is nonzero or zero, and whether nonzero means that the test holds.
    fn condition(&mut self, test: &BranchTest) -> (clif::Value, bool) {
        match *test {
            BranchTest::NonZero(v) => (self.scalar(v), true),
            BranchTest::AtLeast(v, least) => {
                let v = self.scalar(v);
                (self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, v, i64::from(least)), true)
            }
            BranchTest::Bool { id, value } => (load_bool(&mut self.b, &self.layout, self.uniforms, id), value),
            BranchTest::Flags { cond: Cond { op: CondOp::X, ref_x, .. }, x, .. } => (self.scalar(x), ref_x),
            BranchTest::Flags { cond: Cond { op: CondOp::Y, ref_y, .. }, y, .. } => (self.scalar(y), ref_y),
            BranchTest::Flags { cond: Cond { op, ref_x, ref_y }, x, y } => {
                let mut flag = |v: Value, reference: bool| {
                    // A comparison gives 0 or 1; a host may represent true by any nonzero byte.
                    let is_bit = matches!(self.func.node(v), Node::Compare { .. } | Node::Flag(_));
                    let v = self.scalar(v);
                    match (is_bit, reference) {
                        (true, true) => v,
                        (true, false) => self.b.ins().bxor_imm_u(v, 1),
                        (false, true) => self.b.ins().icmp_imm_u(IntCC::NotEqual, v, 0),
                        (false, false) => self.b.ins().icmp_imm_u(IntCC::Equal, v, 0),
                    }
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

/// The component that all `needed` components of a use read, if it is one.
fn single_component(u: &Use, needed: Components) -> Option<u8> {
    let components = analysis::source_components(u, needed);
    components.is_power_of_two().then(|| components.trailing_zeros() as u8)
}
