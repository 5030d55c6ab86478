//! Word + operand descriptor -> [`Inst`]: the meaning of each bit.
//!
//! Total: all 2^32 words decode, those with an undocumented opcode to [`Inst::Undefined`]. Field
//! positions are from the ISA notes, section 2; every shift in this file is one of theirs.

use super::table::{Format, Row};
use super::{Alu, CmpOp, Cond, CondOp, DstReg, Index, Inst, Opcode, Setemit, Src, SrcReg, Swizzle, Test, WriteMask};

impl Inst {
    /// The operand-descriptor index of a word, if its instruction has one: seven bits, five for `MAD`
    /// and `MADI`.
    pub fn opdesc_index(word: u32) -> Option<u8> {
        let row = Row::of_word(word)?;
        match row.format {
            Format::F5 | Format::F5i => Some((word & 0x1F) as u8),
            _ if row.has_opdesc() => Some((word & 0x7F) as u8),
            _ => None,
        }
    }

    /// Decodes `word`; `opdesc` is the descriptor that [`Inst::opdesc_index`] names and is ignored where it
    /// names none.
    pub fn decode(word: u32, opdesc: u32) -> Inst {
        let Some(row) = Row::of_word(word) else { return Inst::Undefined { word } };
        match row.format {
            Format::F0 => match row.opcode {
                Opcode::Break => Inst::Break,
                Opcode::End => Inst::End,
                Opcode::Emit => Inst::Emit,
                _ => Inst::Nop,
            },
            Format::F1 | Format::F1i | Format::F1u | Format::F5 | Format::F5i => {
                let dst_shift = if matches!(row.format, Format::F5 | Format::F5i) { 24 } else { 21 };
                Inst::Alu(Alu {
                    op: row.opcode,
                    dst: DstReg::new(field(word, dst_shift, 5)),
                    mask: mask(opdesc),
                    src: sources(row, word, opdesc),
                })
            }
            Format::F1a => Inst::Mova { mask: mask(opdesc), src: sources(row, word, opdesc)[0] },
            Format::F1c => {
                let [a, b, _] = sources(row, word, opdesc);
                Inst::Cmp { ops: [CmpOp::new(field(word, 24, 3)), CmpOp::new(field(word, 21, 3))], src: [a, b] }
            }
            Format::F2 => {
                let cond = Cond {
                    op: CondOp::new(field(word, 22, 2)),
                    ref_y: word >> 24 & 1 != 0,
                    ref_x: word >> 25 & 1 != 0,
                };
                let (target, len) = (target(word), field(word, 0, 8));
                match row.opcode {
                    Opcode::Breakc => Inst::Breakc { cond },
                    Opcode::Call => Inst::Call { test: None, target, len },
                    Opcode::Callc => Inst::Call { test: Some(Test::Flags(cond)), target, len },
                    Opcode::Ifc => Inst::If { test: Test::Flags(cond), target, len },
                    _ => Inst::Jump { test: Test::Flags(cond), target },
                }
            }
            Format::F3 => {
                let id = field(word, 22, 4);
                let (target, len) = (target(word), field(word, 0, 8));
                match row.opcode {
                    Opcode::Callu => Inst::Call { test: Some(Test::Bool { id, value: true }), target, len },
                    Opcode::Ifu => Inst::If { test: Test::Bool { id, value: true }, target, len },
                    // Only i0-i3 exist: the low two bits of the field (ISA notes, discrepancy 8).
                    Opcode::Loop => Inst::Loop { int: id & 3, last: target },
                    // Bit 0 of NUM inverts the test.
                    _ => Inst::Jump { test: Test::Bool { id, value: word & 1 == 0 }, target },
                }
            }
            Format::F4 => Inst::Setemit(Setemit {
                vertex: field(word, 24, 2),
                primitive: word >> 23 & 1 != 0,
                winding: word >> 22 & 1 != 0,
            }),
        }
    }
}

fn field(word: u32, shift: u32, width: u32) -> u8 {
    (word >> shift & ((1 << width) - 1)) as u8
}

fn target(word: u32) -> u16 {
    (word >> 10 & 0xFFF) as u16
}

fn mask(opdesc: u32) -> WriteMask {
    WriteMask::new((opdesc & 0xF) as u8)
}

/// Register-field positions of a format: (shift, width) of SRC1, SRC2, SRC3, and the shift of IDX.
pub(super) fn source_fields(format: Format) -> (&'static [(u32, u32)], u32) {
    match format {
        Format::F0 | Format::F2 | Format::F3 | Format::F4 => (&[], 0),
        Format::F1u | Format::F1a => (&[(12, 7)], 19),
        Format::F1 | Format::F1c => (&[(12, 7), (7, 5)], 19),
        Format::F1i => (&[(14, 5), (7, 7)], 19),
        Format::F5 => (&[(17, 5), (10, 7), (5, 5)], 22),
        Format::F5i => (&[(17, 5), (12, 5), (5, 7)], 22),
    }
}

fn sources(row: &Row, word: u32, opdesc: u32) -> [Src; 3] {
    let (fields, idx_shift) = source_fields(row.format);
    let mut src = [Alu::NO_SRC; 3];
    for (n, &(shift, width)) in fields.iter().enumerate() {
        // Descriptor fields follow the operand's number, not its position in the word: negate at 4,
        // 13, 22, and the selector above it.
        let negate_bit = 4 + 9 * n as u32;
        src[n] = Src {
            reg: SrcReg::new(field(word, shift, width)),
            index: if row.wide_source() == Some(n) { Index::new(field(word, idx_shift, 2)) } else { Index::None },
            swizzle: Swizzle((opdesc >> (negate_bit + 1)) as u8),
            negate: opdesc >> negate_bit & 1 != 0,
        };
    }
    src
}
