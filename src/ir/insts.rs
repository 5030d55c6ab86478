//! A decoded instruction -> the values it computes and the places it writes.

use super::build::{Builder, Place};
use super::{Inst, Node, ScalarUse, Use, Value};
use crate::isa::{self, Alu, AluOp, CmpOp, DstFile, Index, Src, SrcFile, Stage, Swizzle, VectorOp, WriteMask};

impl Builder {
    /// Adds what `inst` does. Instructions that only steer are the graph's and do nothing here.
    pub(super) fn inst(&mut self, inst: &isa::Inst) {
        match inst {
            isa::Inst::Alu(alu) => self.alu(alu),
            isa::Inst::Mova { mask, src } => {
                let src = self.source(src);
                let addresses = [0, 1].map(|n| mask.has(n).then(|| self.define(Node::ToAddress(src.lane(n)))));
                for (n, address) in addresses.into_iter().enumerate() {
                    if let Some(value) = address {
                        self.write(Place::a0(n as u8), value);
                    }
                }
            }
            isa::Inst::Cmp { ops, src } => {
                let [a, b] = [self.source(&src[0]), self.source(&src[1])];
                let flags = [0, 1].map(|n| match ops[n] {
                    CmpOp::True6 | CmpOp::True7 => self.define(Node::Flag(true)),
                    op => self.define(Node::Compare { op, a: a.lane(n), b: b.lane(n) }),
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
            self.write(Place::flag(n as u8), value);
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
        // Both flags are set even if no lane is written (ISA notes 4.4: whatever the mask).
        let flags = (op == AluOp::Vector(VectorOp::Litp)).then(|| {
            let zero = self.func.value(Node::Const([0; 4]));
            let zero = ScalarUse { value: zero, component: 0, negate: false };
            [0, 3].map(|n| self.define(Node::Compare { op: CmpOp::Ge, a: src[0].lane(n), b: zero }))
        });
        if alu.mask != WriteMask::NONE {
            let new = match op {
                AluOp::Vector(VectorOp::MOV) if src[0].is_plain() => src[0].value,
                AluOp::Vector(op) => self.define(Node::Alu { op, src }),
                AluOp::Scalar(op) => self.define(Node::Scalar { op, src: src[0].lane(0) }),
            };
            let place = match alu.dst.file() {
                DstFile::Output(n) => Place::out(n),
                DstFile::Temp(n) => Place::temp(n),
            };
            let value = if alu.mask == WriteMask::ALL {
                new
            } else {
                let old = self.read(place);
                self.define(Node::Merge { mask: alu.mask, old, new })
            };
            self.write(place, value);
        }
        if let Some(flags) = flags {
            self.set_flags(flags);
        }
    }

    /// The source, read through a plain copy: MOV is not an operation of its own to its readers.
    fn source(&mut self, src: &Src) -> Use {
        let value = match (src.relative(), src.reg.file()) {
            (Some((base, index)), _) => {
                let place = match index {
                    Index::A0x => Place::a0(0),
                    Index::A0y => Place::a0(1),
                    Index::None | Index::AL => Place::AL,
                };
                let address = self.read(place);
                let offset = self.define(Node::Offset(address));
                self.define(Node::Relative { base, offset })
            }
            (None, SrcFile::Input(n)) => self.leaf(Node::Input(n)),
            (None, SrcFile::Uniform(n)) => self.leaf(Node::Uniform(n)),
            (None, SrcFile::Temp(n)) => self.read(Place::temp(n)),
        };
        let outer = Use { value, swizzle: src.swizzle, negate: src.negate };
        match *self.func.node(value) {
            Node::Alu { op: VectorOp::MOV, src: [inner, ..] } => Use {
                value: inner.value,
                swizzle: Swizzle::from_lanes(outer.swizzle.lanes().map(|c| inner.swizzle.lane(c) as u8)),
                negate: inner.negate != outer.negate,
            },
            _ => outer,
        }
    }
}
