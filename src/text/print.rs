//! [`Inst`] -> one line of text that the assembler reads back to the same instruction.
//!
//! Only a selector or mask `xyzw` is omitted. Transfers print in their `r...` form, with numbers,
//! since an instruction alone has no labels.

use super::inst::choose_form;
use crate::isa::{Alu, Cond, CondOp, Index, Inst, Setemit, Src, Swizzle, Test, WriteMask};
use std::fmt;

/// As the assembler reads it: `mad r2.xyz, -v1.xxyz, c5[a0.x].wzyx, r3`, `rcall 12, 3`.
impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Inst::Alu(alu) => {
                let natural = choose_form(alu.op.normal_form(), alu.sources()) == alu.op;
                let bang = if natural { "" } else { "!" };
                write!(f, "{}{bang} {}{}", alu.op.row().mnemonic, alu.dst, dst_mask(&alu))?;
                alu.sources().iter().try_for_each(|s| write!(f, ", {}", src(s)))
            }
            Inst::Mova { mask, src: s } => write!(f, "mova a0.{}, {}", mask_letters(mask), src(&s)),
            Inst::Cmp { ops, src: [a, b] } => {
                write!(f, "cmp {}, {}, {}, {}", src(&a), ops[0].mnemonic(), ops[1].mnemonic(), src(&b))
            }
            Inst::Nop => f.write_str("nop"),
            Inst::End => f.write_str("end"),
            Inst::Break => f.write_str("break"),
            Inst::Breakc { cond } => write!(f, "breakc {}", cond_text(cond)),
            Inst::Call { test: None, target, len } => write!(f, "rcall {target}, {len}"),
            Inst::Call { test: Some(t), target, len } => write!(f, "rcall{}, {target}, {len}", test_text(t)),
            Inst::If { test, target, len } => write!(f, "rif{}, {target}, {len}", test_text(test)),
            Inst::Loop { int, last } => write!(f, "rloop i{int}, {last}"),
            Inst::Jump { test, target } => write!(f, "rjmp{}, {target}", test_text(test)),
            Inst::Emit => f.write_str("emit"),
            Inst::Setemit(Setemit { vertex, primitive, winding }) => {
                let flags = match (primitive, winding) {
                    (false, false) => "",
                    (true, false) => ", prim",
                    (false, true) => ", inv",
                    (true, true) => ", prim inv",
                };
                write!(f, "setemit {vertex}{flags}")
            }
            Inst::Undefined { word } => write!(f, ".word 0x{word:08X}"),
        }
    }
}

/// The rest of a transfer's mnemonic and its test: `c cmp.x`, `u !b3`.
pub(super) fn test_text(test: Test) -> String {
    match test {
        Test::Flags(cond) => format!("c {}", cond_text(cond)),
        Test::Bool { id, value } => format!("u {}b{id}", if value { "" } else { "!" }),
    }
}

fn cond_text(c: Cond) -> String {
    let x = if c.ref_x { "cmp.x" } else { "!cmp.x" };
    let y = if c.ref_y { "cmp.y" } else { "!cmp.y" };
    match c.op {
        CondOp::Or => format!("{x} || {y}"),
        CondOp::And => format!("{x} && {y}"),
        // The assembler sets the untested reference bit, so only a clear bit needs text.
        CondOp::X if c.ref_y => x.into(),
        CondOp::X => format!("{x} ignore {y}"),
        CondOp::Y if c.ref_x => y.into(),
        CondOp::Y => format!("{y} ignore {x}"),
    }
}

fn mask_letters(mask: WriteMask) -> String {
    if mask == WriteMask::NONE { "_".into() } else { mask.to_string() }
}

fn dst_mask(alu: &Alu) -> String {
    if alu.mask == WriteMask::ALL { String::new() } else { format!(".{}", mask_letters(alu.mask)) }
}

fn src(s: &Src) -> String {
    let sign = if s.negate { "-" } else { "" };
    let index = match s.index {
        Index::None => "",
        Index::A0x => "[a0.x]",
        Index::A0y => "[a0.y]",
        Index::AL => "[aL]",
    };
    if s.swizzle == Swizzle::IDENTITY {
        format!("{sign}{}{index}", s.reg)
    } else {
        format!("{sign}{}{index}.{}", s.reg, s.swizzle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_instruction_has_its_text() {
        for (word, desc, text) in [
            (0xF242_9660, 0x1B << 23 | 0xE4 << 14 | 0x06 << 5 | 0x1E, "mad r2.xyz, -v1.xxyz, c5[a0.x].wzyx, r3"),
            (0x4E00_F000, 0x36F, "mov r0, v15"),
            (0x4E00_F000, 0x360, "mov r0._, v15"),
            (0x6005_0880, 0x0006_C36F, "dphi! o0, r4, r1"),
            (0xA240_0801, 0, "rifc cmp.x && !cmp.y, 2, 1"),
            (0xB4C0_0C01, 0, "rjmpu !b3, 3"),
            (0xAFC0_0000, 0, "setemit 3, prim inv"),
            (0x4000_0000, 0, ".word 0x40000000"),
        ] {
            assert_eq!(Inst::decode(word, desc).to_string(), text, "{word:08X}");
        }
    }
}
