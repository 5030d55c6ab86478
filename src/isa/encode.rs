//! [`Inst`] -> word and operand descriptor: the inverse of [`super::decode`].
//!
//! `Inst::decode(i.encode()) == i` for every instruction whose operands fit its format, and
//! `Inst::decode(w).encode() == w` for every word whose unused bits are zero; tests check both.

use super::decode::source_fields;
use super::table::Format;
use super::{Cond, Inst, Opcode, Setemit, Src, Test, WriteMask};

/// Why an instruction has no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// SRC`n` (1-3) is a uniform, but its field holds only `v` and `r` registers.
    NarrowUniform(u8),
    /// SRC`n` (1-3) is relative, but IDX applies to another source.
    NarrowIndex(u8),
    /// A target address does not fit twelve bits.
    Target(u16),
    /// `MAD` and `MADI` name descriptors 0-31 only, the others 0-127.
    OpdescIndex(u8),
    /// The instruction has no encoding for this test (e.g. `CALLU` on a false boolean).
    Test,
}

impl std::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EncodeError::NarrowUniform(n) => write!(f, "source {n} can't be a uniform in this instruction"),
            EncodeError::NarrowIndex(n) => write!(f, "source {n} can't be indexed in this instruction"),
            EncodeError::Target(t) => write!(f, "address {t} is beyond the 12 bits of a target"),
            EncodeError::OpdescIndex(n) => write!(f, "operand descriptor {n} can't be named by this instruction"),
            EncodeError::Test => f.write_str("only jmpu can test a boolean for false"),
        }
    }
}

impl std::error::Error for EncodeError {}

impl Inst {
    /// The opcode that an instruction is encoded with; `None` for an undefined word.
    pub fn opcode(&self) -> Option<Opcode> {
        Some(match self {
            Inst::Alu(alu) => alu.op,
            Inst::Mova { .. } => Opcode::Mova,
            Inst::Cmp { .. } => Opcode::Cmp,
            Inst::Nop => Opcode::Nop,
            Inst::End => Opcode::End,
            Inst::Break => Opcode::Break,
            Inst::Breakc { .. } => Opcode::Breakc,
            Inst::Call { test: None, .. } => Opcode::Call,
            Inst::Call { test: Some(Test::Flags(_)), .. } => Opcode::Callc,
            Inst::Call { test: Some(Test::Bool { .. }), .. } => Opcode::Callu,
            Inst::If { test: Test::Flags(_), .. } => Opcode::Ifc,
            Inst::If { test: Test::Bool { .. }, .. } => Opcode::Ifu,
            Inst::Loop { .. } => Opcode::Loop,
            Inst::Jump { test: Test::Flags(_), .. } => Opcode::Jmpc,
            Inst::Jump { test: Test::Bool { .. }, .. } => Opcode::Jmpu,
            Inst::Emit => Opcode::Emit,
            Inst::Setemit(_) => Opcode::Setemit,
            Inst::Undefined { .. } => return None,
        })
    }

    /// The operand descriptor that gives the instruction its mask, selectors and signs; fields it does not have
    /// are zero. `None` if it has no descriptor.
    pub fn opdesc(&self) -> Option<u32> {
        let (mask, src): (WriteMask, &[Src]) = match self {
            Inst::Alu(alu) => (alu.mask, alu.sources()),
            Inst::Mova { mask, src } => (*mask, std::slice::from_ref(src)),
            Inst::Cmp { src, .. } => (WriteMask::NONE, src),
            _ => return None,
        };
        let fields = src.iter().enumerate().map(|(n, s)| {
            let negate_bit = 4 + 9 * n as u32;
            (s.negate as u32) << negate_bit | (s.swizzle.0 as u32) << (negate_bit + 1)
        });
        Some(fields.fold(mask.bits() as u32, |d, f| d | f))
    }

    /// The word of the instruction with operand descriptor index `opdesc`, which instructions without a
    /// descriptor ignore.
    pub fn encode(&self, opdesc: u8) -> Result<u32, EncodeError> {
        let Some(opcode) = self.opcode() else {
            let Inst::Undefined { word } = *self else { unreachable!("only undefined words have no opcode") };
            return Ok(word);
        };
        let row = opcode.row();
        let top = (opcode as u32) << 26;
        let (src, dst): (&[Src], u32) = match self {
            Inst::Alu(alu) => (alu.sources(), alu.dst.number() as u32),
            Inst::Mova { src, .. } => (std::slice::from_ref(src), 0),
            Inst::Cmp { ops, src } => {
                // Two three-bit operators replace DST and the lowest opcode bit.
                let cmp = (ops[0] as u32) << 24 | (ops[1] as u32) << 21;
                return Ok(top | cmp | sources(row.format, src)? | opdesc_field(row.format, opdesc)?);
            }
            Inst::Breakc { cond } => return Ok(top | flags(*cond)),
            Inst::Call { test, target, len } => return Ok(top | transfer(*test, *target)? | *len as u32),
            Inst::If { test, target, len } => return Ok(top | transfer(Some(*test), *target)? | *len as u32),
            Inst::Loop { int, last } => return Ok(top | (*int as u32 & 3) << 22 | target(*last)?),
            Inst::Jump { test: Test::Bool { id, value }, target: t } => {
                return Ok(top | (*id as u32 & 0xF) << 22 | target(*t)? | !*value as u32);
            }
            Inst::Jump { test, target } => return Ok(top | transfer(Some(*test), *target)?),
            Inst::Setemit(Setemit { vertex, primitive, winding }) => {
                return Ok(top | (*vertex as u32 & 3) << 24 | (*primitive as u32) << 23 | (*winding as u32) << 22);
            }
            Inst::Nop | Inst::End | Inst::Break | Inst::Emit | Inst::Undefined { .. } => return Ok(top),
        };
        let dst_shift = if matches!(row.format, Format::F5 | Format::F5i) { 24 } else { 21 };
        Ok(top | dst << dst_shift | sources(row.format, src)? | opdesc_field(row.format, opdesc)?)
    }
}

fn opdesc_field(format: Format, opdesc: u8) -> Result<u32, EncodeError> {
    let limit = if matches!(format, Format::F5 | Format::F5i) { 0x1F } else { 0x7F };
    if opdesc > limit { Err(EncodeError::OpdescIndex(opdesc)) } else { Ok(opdesc as u32) }
}

fn sources(format: Format, src: &[Src]) -> Result<u32, EncodeError> {
    let (fields, idx_shift) = source_fields(format);
    let mut bits = 0;
    for (n, (s, &(shift, width))) in src.iter().zip(fields).enumerate() {
        if width == 5 {
            if !s.reg.is_narrow() {
                return Err(EncodeError::NarrowUniform(n as u8 + 1));
            }
            if s.index != super::Index::None {
                return Err(EncodeError::NarrowIndex(n as u8 + 1));
            }
        } else {
            bits |= (s.index as u32) << idx_shift;
        }
        bits |= (s.reg.number() as u32) << shift;
    }
    Ok(bits)
}

fn target(t: u16) -> Result<u32, EncodeError> {
    if t > 0xFFF { Err(EncodeError::Target(t)) } else { Ok((t as u32) << 10) }
}

fn flags(c: Cond) -> u32 {
    (c.op as u32) << 22 | (c.ref_y as u32) << 24 | (c.ref_x as u32) << 25
}

fn transfer(test: Option<Test>, to: u16) -> Result<u32, EncodeError> {
    let test = match test {
        None => 0,
        Some(Test::Flags(cond)) => flags(cond),
        Some(Test::Bool { id, value: true }) => (id as u32 & 0xF) << 22,
        Some(Test::Bool { value: false, .. }) => return Err(EncodeError::Test),
    };
    Ok(test | target(to)?)
}

#[cfg(test)]
mod tests {
    use super::super::table::Row;
    use super::*;
    use crate::testing::miri_or;

    /// Bits of a word that its instruction reads.
    fn used_bits(word: u32) -> u32 {
        let Some(row) = Row::of_word(word) else { return !0 };
        row.bits.chars().filter(|c| *c != ' ').fold(0, |m, c| m << 1 | (c != '-') as u32)
    }

    #[test]
    fn encode_after_decode_is_the_identity_on_every_legal_shape() {
        // Every opcode, with windows of 12 bits through all values over several backgrounds. Fields
        // are at most 12 bits wide, and every neighbouring pair shares a window.
        let mut checked = 0u64;
        for op in 0..64u32 {
            for background in [0u32, !0, 0x5555_5555, 0x1234_5678, 0x0F0F_0F0F] {
                for window in (0..15u32).step_by(miri_or(7, 1)) {
                    for value in (0..4096u32).step_by(miri_or(4095, 1)) {
                        let body = background & !(0xFFF << window) | value << window;
                        let word = op << 26 | body & 0x03FF_FFFF;
                        let word = word & used_bits(word);
                        let desc = body.wrapping_mul(0x9E37_79B9) & 0x7FFF_FFFF;
                        let inst = Inst::decode(word, desc);
                        let again = inst.encode(Inst::opdesc_index(word).unwrap_or(0));
                        assert_eq!(again, Ok(word), "{word:08X} {inst:?}");
                        let redecoded = Inst::decode(word, inst.opdesc().unwrap_or(0));
                        // CMP's descriptor mask has no meaning; all other bits survive.
                        assert_eq!(redecoded, inst, "{word:08X}");
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked > miri_or(1000, 15_000_000));
    }

    #[test]
    fn unused_bits_do_not_change_the_instruction() {
        for op in 0..64u32 {
            let zero = op << 26;
            let ones = zero | 0x03FF_FFFF & !used_bits(zero);
            if Row::of_word(zero).is_some() {
                assert_eq!(Inst::decode(zero, 0x1B), Inst::decode(ones, 0x1B), "opcode {op:02X}");
            }
        }
    }

    #[test]
    fn operands_that_do_not_fit_are_rejected() {
        let c0 = Src::plain(super::super::SrcReg::uniform(0));
        let r0 = Src::plain(super::super::SrcReg::temp(0));
        let alu = |op, src| {
            Inst::Alu(super::super::Alu { op, dst: super::super::DstReg::temp(0), mask: WriteMask::ALL, src })
        };
        assert_eq!(alu(Opcode::Add, [r0, c0, r0]).encode(0), Err(EncodeError::NarrowUniform(2)));
        assert_eq!(alu(Opcode::Dphi, [c0, r0, r0]).encode(0), Err(EncodeError::NarrowUniform(1)));
        assert_eq!(alu(Opcode::Mad, [r0, r0, r0]).encode(32), Err(EncodeError::OpdescIndex(32)));
        let indexed = Src { index: super::super::Index::AL, ..r0 };
        assert_eq!(alu(Opcode::Add, [r0, indexed, r0]).encode(0), Err(EncodeError::NarrowIndex(2)));
        let jump = Inst::Jump { test: Test::Bool { id: 0, value: false }, target: 0x1000 };
        assert_eq!(jump.encode(0), Err(EncodeError::Target(0x1000)));
        let call = Inst::Call { test: Some(Test::Bool { id: 0, value: false }), target: 0, len: 0 };
        assert_eq!(call.encode(0), Err(EncodeError::Test));
    }
}
