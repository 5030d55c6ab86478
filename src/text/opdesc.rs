//! The operand descriptors of instructions -> the descriptor table, and the index that each
//! instruction encodes.
//!
//! Allocation is first fit, bit for bit as in picasso (language notes, section 8). An instruction
//! has *relevant* bits in its descriptor. It takes the first entry whose fixed bits don't conflict
//! with them, and fixes those that are still free. `mad` encodes indices 0-31 only: where its entry
//! lies higher, two entries are swapped and the caller renumbers earlier words. Entries given by
//! index (`.opdesc`, `@n`) are *pinned*: they are never swapped.

use super::error::AsmErrorKind;
use super::limits::MAX_GIVEN;
use crate::isa::table::Format;
use crate::isa::{AluOp, DotOp, Inst, OPDESCS, Opcode, VectorOp};

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    word: u32,
    extra: u32,
    /// Bits that an instruction or a directive has fixed.
    fixed: u32,
    pinned: bool,
}

/// The table under construction.
#[derive(Clone, Debug, Default)]
pub struct OpdescTable {
    entries: Vec<Descriptor>,
    /// Bit n: a `mad` encodes index n.
    mads: u32,
}

/// The descriptor entry of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its index.
    pub index: u8,
    /// Two indices that the caller must exchange in all earlier words.
    pub swap: Option<(u8, u8)>,
}

/// The descriptor of `inst` and its relevant bits; `None` if the instruction has none.
pub(super) fn descriptor_of(inst: &Inst) -> Option<(u32, u32)> {
    let value = inst.opdesc()?;
    let opcode = inst.opcode()?;
    let row = opcode.row();
    let mask = value & 0xF;
    let mut relevant = if row.format == Format::F1c { 0 } else { 0xF };
    for source in 0..row.sources() {
        relevant |= 0x1FF << (4 + 9 * source);
        for component in 0..4 {
            let written = mask >> (3 - component) & 1 != 0;
            let matters = match opcode.alu() {
                Some(AluOp::Vector(VectorOp::Pointwise(_))) => written,
                Some(AluOp::Vector(VectorOp::Dot(DotOp::Dp3))) => component < 3,
                Some(AluOp::Vector(VectorOp::Dot(DotOp::Dph))) => source != 0 || component < 3,
                Some(AluOp::Vector(VectorOp::Dot(DotOp::Dp4) | VectorOp::Dst | VectorOp::Litp)) => true,
                Some(AluOp::Scalar(_)) => component == 0,
                None if opcode == Opcode::Cmp => source != 0 || component < 2,
                // MOVA: no other instruction without an operation has a descriptor.
                None => component < 2 && written,
            };
            if !matters {
                relevant &= !(3 << (5 + 9 * source + 6 - 2 * component));
            }
        }
    }
    Some((value, relevant))
}

fn is_mad(inst: &Inst) -> bool {
    matches!(inst.opcode(), Some(Opcode::Mad | Opcode::Madi))
}

impl OpdescTable {
    /// The entries: first and second word.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.entries.iter().map(|e| (e.word, e.extra))
    }

    /// Appends a pinned entry.
    pub(super) fn give(&mut self, word: u32, extra: u32) -> Result<(), AsmErrorKind> {
        if self.entries.len() >= MAX_GIVEN {
            return Err(AsmErrorKind::TableFull { what: "operand descriptors", limit: MAX_GIVEN });
        }
        self.entries.push(Descriptor { word, extra, fixed: !0, pinned: true });
        Ok(())
    }

    /// The entry that first fit chooses for these bits, if it exists.
    pub(super) fn find(&self, value: u32, relevant: u32) -> Option<usize> {
        self.entries.iter().take(OPDESCS).position(|e| (value ^ e.word) & relevant & e.fixed == 0)
    }

    /// Finds or creates the entry of `inst`, which must have a descriptor.
    pub fn place(&mut self, inst: &Inst) -> Result<Slot, AsmErrorKind> {
        let (value, relevant) = descriptor_of(inst).expect("only instructions with operands are placed");
        let index = match self.find(value, relevant) {
            Some(i) => {
                self.fill(i, value, relevant);
                i
            }
            None if self.entries.len() >= OPDESCS => return Err(AsmErrorKind::TooManyOpdescs),
            None => {
                self.entries.push(Descriptor { word: value, extra: 0, fixed: relevant, pinned: false });
                self.entries.len() - 1
            }
        };
        if !is_mad(inst) {
            return Ok(Slot { index: index as u8, swap: None });
        }
        if index < 32 {
            self.mads |= 1 << index;
            return Ok(Slot { index: index as u8, swap: None });
        }
        let free = (0..32).find(|&w| self.mads >> w & 1 == 0 && !self.entries[w].pinned);
        match free {
            Some(w) if !self.entries[index].pinned => {
                self.entries.swap(w, index);
                self.mads |= 1 << w;
                Ok(Slot { index: w as u8, swap: Some((w as u8, index as u8)) })
            }
            _ => Err(AsmErrorKind::MadOpdescs),
        }
    }

    /// Assigns entry `index` to `inst`. A shorter table grows with free entries.
    pub(super) fn place_at(&mut self, inst: &Inst, index: u32) -> Result<Slot, AsmErrorKind> {
        let (value, relevant) = descriptor_of(inst).expect("only instructions with operands are placed");
        let mad = is_mad(inst);
        let i = index as usize;
        if i >= if mad { 32 } else { OPDESCS } {
            return Err(AsmErrorKind::OpdescPinned { index });
        }
        while self.entries.len() <= i {
            self.entries.push(Descriptor { word: 0, extra: 0, fixed: 0, pinned: false });
        }
        let e = &self.entries[i];
        if (value ^ e.word) & relevant & e.fixed != 0 {
            return Err(AsmErrorKind::OpdescPinned { index });
        }
        self.fill(i, value, relevant);
        self.entries[i].pinned = true;
        if mad {
            self.mads |= 1 << i;
        }
        Ok(Slot { index: i as u8, swap: None })
    }

    fn fill(&mut self, i: usize, value: u32, relevant: u32) {
        let e = &mut self.entries[i];
        if e.fixed != !0 {
            e.word = e.word & !relevant | value & relevant;
            e.fixed |= relevant;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table after `insts`, as (word, opdesc value) pairs.
    fn table(insts: &[(u32, u32)]) -> (OpdescTable, Vec<Slot>) {
        let mut t = OpdescTable::default();
        let slots = insts.iter().map(|&(w, d)| t.place(&Inst::decode(w, d)).expect("room")).collect();
        (t, slots)
    }

    #[test]
    fn irrelevant_components_are_fixed_by_a_later_instruction() {
        const MOV: u32 = 0x4C00_0000;
        // Mask x with selector xxxx, then mask x with xyzw: components 1-3 are irrelevant.
        let (t, slots) = table(&[(MOV, 0x008), (MOV, 0x368)]);
        assert_eq!(slots, [Slot { index: 0, swap: None }; 2]);
        assert_eq!(t.entries().collect::<Vec<_>>(), [(0x008, 0)]);
        // For dp4 all components are relevant.
        let (t, _) = table(&[(MOV, 0x008), (0x0800_0000, 0x0006_C368)]);
        assert_eq!(t.entries().collect::<Vec<_>>(), [(0x0006_C368, 0)]);
        // A different mask is a different entry.
        let (t, _) = table(&[(MOV, 0x008), (MOV, 0x36F)]);
        assert_eq!(t.entries().count(), 2);
    }

    #[test]
    fn pinned_entries_stay_and_can_run_out() {
        let mut t = OpdescTable::default();
        for i in 0..32 {
            t.give(i << 5 | 0xF, 0).expect("room");
        }
        let mad = Inst::decode(0xE000_0000, 0x0D86_C36F);
        assert_eq!(t.place(&mad), Err(AsmErrorKind::MadOpdescs));
        assert_eq!(t.place_at(&mad, 40), Err(AsmErrorKind::OpdescPinned { index: 40 }));
        assert_eq!(t.place_at(&mad, 3), Err(AsmErrorKind::OpdescPinned { index: 3 }));
        assert_eq!(t.place_at(&Inst::decode(0x4C00_0000, 0x6F), 3), Ok(Slot { index: 3, swap: None }));
    }
}
