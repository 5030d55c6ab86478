//! IR values -> SoA code, and the guards of speculative products; see
//! [`guard`](crate::jit::vertex).
//!
//! It must not know where operands come from, nor what runs after a bailout.

use crate::ir::analysis::{self, Components, XYZW, components};
use crate::ir::{Mem, Node, Use, Value};
use crate::isa::{DotOp, VectorOp};
use crate::jit::batch::bailout::BailoutReason;
use crate::jit::batch::{BatchLowering, BatchValue};
use crate::jit::emit::ClifBuilder;
use crate::jit::emit::math::condition;
use crate::jit::emit::memory::{aligned, load_flag};
use crate::jit::emit::op::{self, Shape, SoaShape};
use cranelift_codegen::ir::{self as clif, InstBuilder, types};

impl<'a, 'f> BatchLowering<'a, 'f> {
    pub(crate) fn define(&mut self, value: Value) {
        let live = self.plan.live[value.0 as usize];
        let divergent = self.plan.divergent[value.0 as usize];
        let lowered = match *self.func.node(value) {
            Node::Load(mem) => match mem {
                // Hoisted. A bank is read in the preheader.
                Mem::Temp(_) | Mem::Out { .. } | Mem::Bank => return,
                Mem::Address(n) => self.load(self.layout.a0(n)),
                Mem::LoopCounter => self.load(self.layout.al()),
                Mem::Flag(n) => BatchValue::Uniform(load_flag(&mut self.b, &self.layout, self.unit, n)),
            },
            Node::Offset(address) => self.index(value, address),
            Node::Relative { base, offset } => self.relative(base, offset, live),
            Node::Alu { op, src } => BatchValue::Vector(self.alu(value, op, &src, live)),
            Node::Scalar { op, src } => {
                let x = self.scalar_source(&src);
                self.narrow(value, live);
                let y = self.clif().scalar(op, x);
                BatchValue::Vector([Some(self.finished(y)); 4])
            }
            Node::Merge { mask, old, new } => BatchValue::Vector([0, 1, 2, 3].map(|c| {
                let from = if mask.has(c) { new } else { old };
                (live >> c & 1 != 0).then(|| self.component(from, c as u8))
            })),
            Node::ToAddress(src) => {
                self.guard(src.value, 1 << src.component);
                let x = self.scalar_source(&src);
                let address = self.clif().address(x);
                if divergent {
                    BatchValue::Divergent(address)
                } else {
                    BatchValue::Uniform(self.b.ins().extractlane(address, 0))
                }
            }
            Node::Compare { op, a, b } => {
                self.guard(a.value, 1 << a.component);
                self.guard(b.value, 1 << b.component);
                let (a, b) = (self.scalar_source(&a), self.scalar_source(&b));
                let cc = condition(op);
                if divergent {
                    BatchValue::Divergent(self.b.ins().fcmp(cc, a, b))
                } else {
                    let (a, b) = (self.b.ins().extractlane(a, 0), self.b.ins().extractlane(b, 0));
                    BatchValue::Uniform(self.b.ins().fcmp(cc, a, b))
                }
            }
            Node::Add(a, b) => match (self.scalar(a), self.scalar(b)) {
                (BatchValue::Uniform(a), BatchValue::Uniform(b)) => BatchValue::Uniform(self.b.ins().iadd(a, b)),
                _ => {
                    let (a, b) = (self.per_lane(a), self.per_lane(b));
                    BatchValue::Divergent(self.b.ins().iadd(a, b))
                }
            },
            ref node => unreachable!("{node:?} is a leaf, or a bank, and stores find theirs themselves"),
        };
        self.folding.record(value, lowered);
        self.values[value.0 as usize] = Some(lowered);
    }

    /// Sets the narrowing of what is computed next to that of these components of a value.
    pub(crate) fn narrow(&mut self, value: Value, live: Components) {
        if let Some(ranges) = &self.plan.ranges {
            self.narrowing = ranges.narrowing_of(value, live);
        }
    }

    /// Records the checks of a block's parameter.
    pub(crate) fn check(&mut self, param: Value) {
        for c in components(self.plan.live[param.0 as usize]) {
            let Some(ranges) = &self.plan.ranges else { return };
            let [low, high] = ranges.checked(param, 1 << c).map(|set| if set == 0 { 0 } else { XYZW });
            if low | high != 0 {
                let v = self.component(param, c);
                self.clif().record(v, low, high);
            }
        }
    }

    fn load(&mut self, offset: i32) -> BatchValue {
        BatchValue::Uniform(self.b.ins().load(types::I32, aligned(), self.unit, offset))
    }

    fn alu(&mut self, value: Value, op: VectorOp, src: &[Use; 3], live: Components) -> [Option<clif::Value>; 4] {
        if op.swallows_nan() {
            for (n, s) in src[..op.sources()].iter().enumerate() {
                self.guard(s.value, analysis::source_components(s, analysis::operand_components(op, n, live)));
            }
        }
        match op {
            VectorOp::Dot(op) => {
                self.narrow(value, live);
                let dot = self.dot(op, src);
                [Some(self.finished(dot)); 4]
            }
            VectorOp::Pointwise(op) => self.per_component(value, src, live, |s, _| op::pointwise(s, op, XYZW)),
            VectorOp::Dst => self.per_component(value, src, live, |s, c| op::dst_component(s, c)),
            VectorOp::Litp => self.per_component(value, src, live, |s, c| op::litp_component(s, c)),
        }
    }

    /// `f` for each live component.
    fn per_component(
        &mut self,
        value: Value,
        src: &[Use; 3],
        live: Components,
        f: impl Fn(&mut SoaOperands<'_, 'a, 'f>, usize) -> clif::Value,
    ) -> [Option<clif::Value>; 4] {
        [0, 1, 2, 3].map(|c| {
            (live >> c & 1 != 0).then(|| {
                self.narrow(value, 1 << c);
                let v = f(&mut SoaOperands { l: self, src, c }, c);
                self.finished(v)
            })
        })
    }

    /// A result, checked if the proof of others needs it.
    pub(crate) fn finished(&mut self, v: clif::Value) -> clif::Value {
        if self.plan.is_float24() { self.clif().finished(v, XYZW) } else { v }
    }

    fn dot(&mut self, op: DotOp, src: &[Use; 3]) -> clif::Value {
        let products: Vec<clif::Value> = (0..op.products())
            .map(|l| {
                let b = self.source(&src[1], l);
                if op == DotOp::Dph && l == 3 {
                    return b;
                }
                let a = self.source(&src[0], l);
                self.clif().mul(a, b, XYZW)
            })
            .collect();
        self.sum(&products)
    }

    /// The sum of three or four products, in the order of the dot product.
    pub(crate) fn sum(&mut self, products: &[clif::Value]) -> clif::Value {
        let xy = self.clif().sum(products[0], products[1]);
        let zw = match *products {
            [_, _, z, w] => self.clif().sum(z, w),
            _ => products[2],
        };
        self.clif().sum(xy, zw)
    }

    /// Adds a guard of these components of a value, if it may be NaN only because products are
    /// speculative.
    pub(crate) fn guard(&mut self, value: Value, read: Components) {
        if !self.nan_tainted[value.0 as usize] {
            return;
        }
        for c in components(read) {
            let v = self.component(value, c);
            if !self.guards.contains(&v) {
                self.guards.push(v);
            }
        }
    }

    /// Bails out if a guarded component is NaN, or in float24 if a violation was recorded.
    pub(crate) fn test_guards(&mut self, reason: BailoutReason) {
        let guards = std::mem::take(&mut self.guards);
        let guards: Vec<_> = guards.into_iter().map(|v| (v, XYZW)).collect();
        let mut m = self.clif();
        let (violations, nan) = (m.take_violations(), m.where_nan(&guards));
        let Some(any) = violations.or(nan) else { return };
        let found = m.any_set(any);
        self.bail_out_if(found, reason);
    }
}

/// The SoA shape: operands are one component of all vertices of the group.
struct SoaOperands<'l, 'a, 'f> {
    l: &'l mut BatchLowering<'a, 'f>,
    src: &'l [Use; 3],
    c: usize,
}

impl<'f> Shape<'f> for SoaOperands<'_, '_, 'f> {
    type Value = clif::Value;

    fn source(&mut self, n: usize) -> clif::Value {
        self.l.source(&self.src[n], self.c)
    }

    fn unsigned(&mut self, n: usize) -> clif::Value {
        let u = &self.src[n];
        self.l.component(u.value, u.swizzle.component(self.c) as u8)
    }

    fn is_negated(&self, n: usize) -> bool {
        self.src[n].negate
    }

    fn map(
        &mut self,
        a: clif::Value,
        mut f: impl FnMut(&mut ClifBuilder<'_, 'f>, clif::Value) -> clif::Value,
    ) -> clif::Value {
        f(&mut self.l.clif(), a)
    }

    fn zip(
        &mut self,
        a: clif::Value,
        b: clif::Value,
        mut f: impl FnMut(&mut ClifBuilder<'_, 'f>, clif::Value, clif::Value) -> clif::Value,
    ) -> clif::Value {
        f(&mut self.l.clif(), a, b)
    }
}

impl<'f> SoaShape<'f> for SoaOperands<'_, '_, 'f> {
    fn clif(&mut self) -> ClifBuilder<'_, 'f> {
        self.l.clif()
    }
}
