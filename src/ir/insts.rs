//! A decoded instruction -> the values that it computes and the state variables that it writes.

use super::build::{Builder, StateVar};
use super::{Inst, Node, ScalarUse, Use, Value};
use crate::isa::{self, Alu, AluOp, DstFile, Index, Relation, Src, SrcFile, Stage, Swizzle, VectorOp, WriteMask};

impl Builder {
    /// Adds the effect of `inst`. Control flow is in the graph's terminators and adds nothing.
    pub(super) fn inst(&mut self, inst: &isa::Inst) {
        match inst {
            isa::Inst::Alu(alu) => self.alu(alu),
            isa::Inst::Mova { mask, src } => {
                let src = self.source(src);
                let addresses = [0, 1].map(|n| mask.has(n).then(|| self.define(Node::ToAddress(src.component(n)))));
                for (n, address) in addresses.into_iter().enumerate() {
                    if let Some(value) = address {
                        self.write(StateVar::a0(n as u8), value);
                    }
                }
            }
            isa::Inst::Cmp { ops, src } => {
                let [a, b] = [self.source(&src[0]), self.source(&src[1])];
                let flags = [0, 1].map(|n| match ops[n].relation() {
                    None => self.define(Node::Flag(true)),
                    Some(op) => self.define(Node::Compare { op, a: a.component(n), b: b.component(n) }),
                });
                self.set_flags(flags);
            }
            isa::Inst::Emit if self.func.entry.stage == Stage::Geometry => self.emit(),
            isa::Inst::Setemit(setemit) if self.func.entry.stage == Stage::Geometry => {
                self.push(Inst::Setemit(*setemit));
            }
            _ => {}
        }
    }

    fn set_flags(&mut self, flags: [Value; 2]) {
        for (n, value) in flags.into_iter().enumerate() {
            self.write(StateVar::flag(n as u8), value);
        }
    }

    fn alu(&mut self, alu: &Alu) {
        let mut src = [Use::plain(Value(0)); 3];
        for (n, s) in alu.sources().iter().enumerate() {
            src[n] = self.source(s);
        }
        for n in alu.sources().len()..3 {
            src[n] = src[0];
        }
        let op = alu.operation();
        // Both flags are set regardless of the mask (ISA notes 4.4).
        let flags = (op == AluOp::Vector(VectorOp::Litp)).then(|| {
            let zero = self.func.value(Node::Const([0; 4]));
            let zero = ScalarUse { value: zero, component: 0, negate: false };
            [0, 3].map(|n| self.define(Node::Compare { op: Relation::Ge, a: src[0].component(n), b: zero }))
        });
        if alu.mask != WriteMask::NONE {
            let new = match op {
                AluOp::Vector(VectorOp::MOV) if src[0].is_plain() => src[0].value,
                AluOp::Vector(op) => self.define(Node::Alu { op, src }),
                AluOp::Scalar(op) => self.define(Node::Scalar { op, src: src[0].component(0) }),
            };
            let var = match alu.dst.file() {
                DstFile::Output(n) => StateVar::out(n),
                DstFile::Temp(n) => StateVar::temp(n),
            };
            let value = if alu.mask == WriteMask::ALL {
                new
            } else {
                let old = self.read(var);
                self.define(Node::Merge { mask: alu.mask, old, new })
            };
            self.write(var, value);
        }
        if let Some(flags) = flags {
            self.set_flags(flags);
        }
    }

    /// The source, propagated through an unmasked MOV.
    fn source(&mut self, src: &Src) -> Use {
        let value = match (src.relative(), src.reg.file()) {
            (Some((base, index)), _) => {
                let var = match index {
                    Index::A0x => StateVar::a0(0),
                    Index::A0y => StateVar::a0(1),
                    Index::None | Index::AL => StateVar::AL,
                };
                let address = self.read(var);
                let offset = self.define(Node::Offset(address));
                self.define(Node::Relative { base, offset })
            }
            (None, SrcFile::Input(n)) => self.leaf(Node::Input(n)),
            (None, SrcFile::Uniform(n)) => self.leaf(Node::Uniform(n)),
            (None, SrcFile::Temp(n)) => self.read(StateVar::temp(n)),
        };
        let outer = Use { value, swizzle: src.swizzle, negate: src.negate };
        match *self.func.node(value) {
            Node::Alu { op: VectorOp::MOV, src: [inner, ..] } => Use {
                value: inner.value,
                swizzle: Swizzle::from_components(outer.swizzle.components().map(|c| inner.swizzle.component(c) as u8)),
                negate: inner.negate != outer.negate,
            },
            _ => outer,
        }
    }
}
