//! An instruction -> the register components that it reads, and those that it writes.

use super::operand_components;
use crate::ir::register_set::RegisterSet;
use crate::isa::{AluOp, CondOp, DstFile, Index, Inst, Src, SrcFile, Test, VectorOp};

const FLAGS: RegisterSet = RegisterSet::state(RegisterSet::CMP_X | RegisterSet::CMP_Y);

/// The components that `inst` reads. Conditions count too; the bank and parameters of EMIT do not.
pub fn reads(inst: &Inst) -> RegisterSet {
    reads_for(inst, !RegisterSet::NONE)
}

/// The components on which those of `live` depend that `inst` writes, and its condition.
pub(super) fn reads_for(inst: &Inst, live: RegisterSet) -> RegisterSet {
    let flag = |flag: u8, component: u8| if live.state & flag != 0 { component } else { 0 };
    match inst {
        Inst::Alu(alu) => {
            let live = alu.mask.component_bits()
                & match alu.dst.file() {
                    DstFile::Output(n) => live.output(n),
                    DstFile::Temp(n) => live.temp(n),
                };
            let of = |(n, src): (usize, &Src)| match alu.operation() {
                AluOp::Vector(VectorOp::Litp) => {
                    let flags = flag(RegisterSet::CMP_X, 0b0001) | flag(RegisterSet::CMP_Y, 0b1000);
                    source(src, operand_components(VectorOp::Litp, n, live) | flags)
                }
                AluOp::Vector(op) => source(src, operand_components(op, n, live)),
                AluOp::Scalar(_) => source(src, u8::from(live != 0)),
            };
            alu.sources().iter().enumerate().map(of).fold(RegisterSet::NONE, |all, set| all | set)
        }
        // a0.x and a0.y are the lowest bits.
        Inst::Mova { mask, src } => source(src, mask.component_bits() & live.state & 0b0011),
        Inst::Cmp { src, .. } => {
            let of = flag(RegisterSet::CMP_X, 0b0001) | flag(RegisterSet::CMP_Y, 0b0010);
            source(&src[0], of) | source(&src[1], of)
        }
        Inst::Breakc { cond } => tested(&Test::Flags(*cond)),
        Inst::Call { test: Some(test), .. } | Inst::If { test, .. } | Inst::Jump { test, .. } => tested(test),
        _ => RegisterSet::NONE,
    }
}

/// The components of a source that components `of` of the operand select, and its index.
fn source(src: &Src, of: u8) -> RegisterSet {
    if of == 0 {
        return RegisterSet::NONE;
    }
    match src.reg.file() {
        SrcFile::Input(_) => RegisterSet::NONE,
        SrcFile::Temp(n) => {
            let selected = (0..4).filter(|c| of >> c & 1 != 0).fold(0, |m, c| m | 1 << src.swizzle.component(c));
            RegisterSet::of_temp(n, selected)
        }
        SrcFile::Uniform(_) => RegisterSet::state(match src.index {
            Index::None => 0,
            Index::A0x => RegisterSet::A0_X,
            Index::A0y => RegisterSet::A0_Y,
            Index::AL => RegisterSet::A_L,
        }),
    }
}

/// The flags that a test reads.
pub(super) fn tested(test: &Test) -> RegisterSet {
    RegisterSet::state(match test {
        Test::Bool { .. } => 0,
        Test::Flags(cond) => match cond.op {
            CondOp::X => RegisterSet::CMP_X,
            CondOp::Y => RegisterSet::CMP_Y,
            CondOp::Or | CondOp::And => RegisterSet::CMP_X | RegisterSet::CMP_Y,
        },
    })
}

/// The components that `inst` sets.
pub fn writes(inst: &Inst) -> RegisterSet {
    match inst {
        Inst::Alu(alu) => {
            let mask = alu.mask.component_bits();
            let set = match alu.dst.file() {
                DstFile::Output(n) => RegisterSet::of_output(n, mask),
                DstFile::Temp(n) => RegisterSet::of_temp(n, mask),
            };
            if alu.operation() == AluOp::Vector(VectorOp::Litp) { set | FLAGS } else { set }
        }
        // a0.x and a0.y are the lowest bits.
        Inst::Mova { mask, .. } => RegisterSet::state(mask.component_bits() & 3),
        Inst::Cmp { .. } => FLAGS,
        Inst::Loop { .. } => RegisterSet::state(RegisterSet::A_L),
        Inst::Setemit(_) => RegisterSet::state(RegisterSet::SETEMIT),
        _ => RegisterSet::NONE,
    }
}
