//! Values -> components, and the sticky over plain products; see [`speculate`](super::super::speculate).
//!
//! It must not know where components come from, nor what becomes of a group that is given up.

use crate::ir::analysis::{self, Components, XYZW, components};
use crate::ir::{Mem, Node, Use, Value};
use crate::isa::Opcode;
use crate::jit::batch::{BatchLowering, BatchValue};
use crate::jit::emit::math::condition;
use crate::jit::emit::memory::{aligned, load_flag};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, types};

impl BatchLowering<'_, '_> {
    pub(crate) fn define(&mut self, value: Value) {
        let live = self.plan.live[value.0 as usize];
        let divergent = self.plan.divergent[value.0 as usize];
        let low = match *self.func.node(value) {
            Node::Load(mem) => match mem {
                // In the entry's slot, or nowhere: a bank is read there.
                Mem::Temp(_) | Mem::Out { .. } | Mem::Bank => return,
                Mem::Address(n) => self.load(self.layout.a0(n)),
                Mem::LoopCounter => self.load(self.layout.al()),
                Mem::Flag(n) => BatchValue::Uniform(load_flag(&mut self.b, &self.layout, self.unit, n)),
            },
            Node::Offset(address) => self.index(value, address),
            Node::Relative { base, offset } => self.relative(base, offset, live),
            Node::Alu { op, src } => BatchValue::Vector(self.alu(value, op, &src, live)),
            Node::Scalar { op, src } => {
                let x = self.lane(&src);
                let y = self.clif().scalar(op, x);
                BatchValue::Vector([Some(y); 4])
            }
            Node::Merge { mask, old, new } => BatchValue::Vector([0, 1, 2, 3].map(|c| {
                let from = if mask.has(c) { new } else { old };
                (live >> c & 1 != 0).then(|| self.component(from, c as u8))
            })),
            Node::ToAddress(src) => {
                self.guard(src.value, 1 << src.component);
                let x = self.lane(&src);
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
                let (a, b) = (self.lane(&a), self.lane(&b));
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
                    let (a, b) = (self.each(a), self.each(b));
                    BatchValue::Divergent(self.b.ins().iadd(a, b))
                }
            },
            ref node => unreachable!("{node:?} has no place, or needs an EMIT"),
        };
        self.folding.made(value, low);
        self.values[value.0 as usize] = Some(low);
    }

    fn load(&mut self, offset: i32) -> BatchValue {
        BatchValue::Uniform(self.b.ins().load(types::I32, aligned(), self.unit, offset))
    }

    fn alu(&mut self, value: Value, op: Opcode, src: &[Use; 3], live: Components) -> [Option<clif::Value>; 4] {
        if analysis::swallows_nan(self.func.node(value)) {
            for (n, s) in src[..crate::ir::alu_sources(op)].iter().enumerate() {
                self.guard(s.value, analysis::source_components(s, analysis::operand_components(op, n, live)));
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
                self.clif().mul(a, b, XYZW)
            })
            .collect();
        self.sum(&products)
    }

    /// Three or four products of a dot product, in its order.
    pub(crate) fn sum(&mut self, products: &[clif::Value]) -> clif::Value {
        let xy = self.b.ins().fadd(products[0], products[1]);
        let zw = match *products {
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
                return self.clif().add(a, b, second.negate, XYZW);
            }
            (Opcode::Dst, 0) => return self.clif().constant(types::F32X4, 1.0),
            (Opcode::Dst, 3) => return self.source(&src[1], c),
            (Opcode::Dst, 2) | (Opcode::Mov, _) => return self.source(&src[0], c),
            (Opcode::Litp, 2) => return self.clif().constant(types::F32X4, 0.0),
            _ => {}
        }
        let a = self.source(&src[0], c);
        match op {
            Opcode::Flr => return self.clif().flr(a, XYZW),
            Opcode::Litp if c == 1 => return self.clif().litp_y(a),
            Opcode::Litp => {
                let zero = self.clif().constant(types::F32X4, 0.0);
                return self.clif().max(a, zero);
            }
            _ => {}
        }
        let b = self.source(&src[1], c);
        match op {
            Opcode::Mul | Opcode::Dst => self.clif().mul(a, b, XYZW),
            Opcode::Max => self.clif().max(a, b),
            Opcode::Min => self.clif().min(a, b),
            Opcode::Sge => self.clif().set(FloatCC::GreaterThanOrEqual, a, b),
            Opcode::Slt => self.clif().set(FloatCC::LessThan, a, b),
            Opcode::Mad => {
                let product = self.clif().mul(a, b, XYZW);
                let c = self.component(src[2].value, src[2].swizzle.lane(c) as u8);
                self.clif().add(product, c, src[2].negate, XYZW)
            }
            _ => unreachable!("{op:?} is lowered elsewhere"),
        }
    }

    /// `value`'s `lanes` are about to be seen or hidden; see [`speculate`](super::super::speculate).
    pub(crate) fn guard(&mut self, value: Value, lanes: Components) {
        if !self.suspect[value.0 as usize] {
            return;
        }
        for c in components(lanes) {
            let v = self.component(value, c);
            if !self.guards.contains(&v) {
                self.guards.push(v);
            }
        }
    }

    /// Gives up if anything that waits is NaN.
    pub(crate) fn test_guards(&mut self) {
        let guards = std::mem::take(&mut self.guards);
        if guards.is_empty() {
            return;
        }
        let guards: Vec<_> = guards.into_iter().map(|v| (v, XYZW)).collect();
        let mut m = self.clif();
        let nan = m.where_nan(&guards).expect("there is a guard");
        let found = m.any_set(nan);
        self.bail_out_if(found);
    }

    /// Leaves the group if `condition` is not zero.
    pub(crate) fn bail_out_if(&mut self, condition: clif::Value) {
        let go_on = self.b.create_block();
        self.b.ins().brif(condition, self.bailout, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }
}
