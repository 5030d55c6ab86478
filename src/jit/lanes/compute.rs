//! Values -> components, and the watch over plain products; see [`speculate`](super::super::speculate).
//!
//! It must not know where components come from, nor what becomes of a group that is given up.

use super::super::math::condition;
use super::super::memory::{aligned, load_flag};
use super::{Low, Lower};
use crate::ir::facts::{self, ALL_LANES, Lanes, components};
use crate::ir::{Mem, Node, Use, Value};
use crate::isa::Opcode;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, types};

impl Lower<'_, '_> {
    pub(super) fn define(&mut self, value: Value) {
        let live = self.side.live[value.0 as usize];
        let varies = self.side.varies[value.0 as usize];
        let low = match *self.func.node(value) {
            Node::Load(mem) => match mem {
                // In the entry's slot, or nowhere: a bank is read there.
                Mem::Temp(_) | Mem::Out { .. } | Mem::Bank => return,
                Mem::Address(n) => self.load(self.layout.a0(n)),
                Mem::LoopCounter => self.load(self.layout.al()),
                Mem::Flag(n) => Low::Same(load_flag(&mut self.b, &self.layout, self.unit, n)),
            },
            Node::Offset(address) => self.index(value, address),
            Node::Relative { base, offset } => self.relative(base, offset, live),
            Node::Alu { op, src } => Low::Vector(self.alu(value, op, &src, live)),
            Node::Scalar { op, src } => {
                let x = self.lane(&src);
                let y = self.math().scalar(op, x);
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
                let cc = condition(op);
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
        self.seams.made(value, low);
        self.values[value.0 as usize] = Some(low);
    }

    fn load(&mut self, offset: i32) -> Low {
        Low::Same(self.b.ins().load(types::I32, aligned(), self.unit, offset))
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
        self.sum(&products)
    }

    /// Three or four products of a dot product, in its order.
    pub(super) fn sum(&mut self, products: &[clif::Value]) -> clif::Value {
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

    /// `value`'s `lanes` are about to be seen or hidden; see [`speculate`](super::super::speculate).
    pub(super) fn sink(&mut self, value: Value, lanes: Lanes) {
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
    pub(super) fn test_sinks(&mut self) {
        let sinks = std::mem::take(&mut self.sinks);
        if sinks.is_empty() {
            return;
        }
        let sinks: Vec<_> = sinks.into_iter().map(|v| (v, ALL_LANES)).collect();
        let mut m = self.math();
        let nan = m.where_nan(&sinks).expect("there is a sink");
        let found = m.any_set(nan);
        self.give_up_if(found);
    }

    /// Leaves the group if `condition` is not zero.
    pub(super) fn give_up_if(&mut self, condition: clif::Value) {
        let go_on = self.b.create_block();
        self.b.ins().brif(condition, self.give_up, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }
}
