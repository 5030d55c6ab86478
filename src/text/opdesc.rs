//! Operand descriptors wanted by instructions -> the descriptor table and the number each instruction names.
//!
//! First fit, bit for bit as picasso does it (language notes, section 8): an instruction cares for some bits of its
//! descriptor, takes the first entry that doesn't contradict them and fills in what nobody cared for yet. `mad` reaches
//! entries 0-31 only; where its entry lies higher, two entries change places and earlier words are renumbered by the
//! caller. Entries given by number (`.opdesc`, `@n`) are *pinned*: they never move. It must not know operands' text.

use super::error::AsmErrorKind;
use crate::isa::encode;
use crate::isa::table::{self, Format};
use crate::isa::{AluOp, DotOp, Inst, OPDESCS, Opcode, VectorOp};

/// Entries that `.opdesc` may give: hosts keep a table as long as its 12-bit index register reaches.
const MAX_GIVEN: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    word: u32,
    extra: u32,
    /// Bits that some instruction or a directive has fixed.
    care: u32,
    pinned: bool,
}

/// The table under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct OpdescTable {
    entries: Vec<Entry>,
    /// Which of entries 0-31 a `mad` names.
    mads: u32,
}

/// Where an instruction's descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its number.
    pub index: u8,
    /// Two numbers that must be exchanged in all earlier words.
    pub swap: Option<(u8, u8)>,
}

/// The descriptor of `inst` and the bits of it that matter to the instruction; `None` if it has none.
pub(super) fn wanted(inst: &Inst) -> Option<(u32, u32)> {
    let value = encode::opdesc(inst)?;
    let opcode = encode::opcode(inst)?;
    let row = table::row(opcode);
    let mask = value & 0xF;
    let mut care = if row.format == Format::F1c { 0 } else { 0xF };
    for source in 0..row.sources() {
        care |= 0x1FF << (4 + 9 * source);
        for lane in 0..4 {
            let written = mask >> (3 - lane) & 1 != 0;
            let matters = match opcode.alu() {
                Some(AluOp::Vector(VectorOp::Pointwise(_))) => written,
                Some(AluOp::Vector(VectorOp::Dot(DotOp::Dp3))) => lane < 3,
                Some(AluOp::Vector(VectorOp::Dot(DotOp::Dph))) => source != 0 || lane < 3,
                Some(AluOp::Vector(VectorOp::Dot(DotOp::Dp4) | VectorOp::Dst | VectorOp::Litp)) => true,
                Some(AluOp::Scalar(_)) => lane == 0,
                None if opcode == Opcode::Cmp => source != 0 || lane < 2,
                // MOVA: no other instruction without an operation has a descriptor.
                None => lane < 2 && written,
            };
            if !matters {
                care &= !(3 << (5 + 9 * source + 6 - 2 * lane));
            }
        }
    }
    Some((value, care))
}

fn is_mad(inst: &Inst) -> bool {
    matches!(encode::opcode(inst), Some(Opcode::Mad | Opcode::Madi))
}

impl OpdescTable {
    /// The entries: word and second word.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.entries.iter().map(|e| (e.word, e.extra))
    }

    /// Appends an entry that stays as it is.
    pub fn give(&mut self, word: u32, extra: u32) -> Result<(), AsmErrorKind> {
        if self.entries.len() >= MAX_GIVEN {
            return Err(AsmErrorKind::TableFull { what: "operand descriptors", limit: MAX_GIVEN });
        }
        self.entries.push(Entry { word, extra, care: !0, pinned: true });
        Ok(())
    }

    /// The entry that first fit would choose for these bits, if it exists.
    pub fn find(&self, value: u32, care: u32) -> Option<usize> {
        self.entries.iter().take(OPDESCS).position(|e| (value ^ e.word) & care & e.care == 0)
    }

    /// Finds or makes the entry of `inst`, which must have one.
    pub fn place(&mut self, inst: &Inst) -> Result<Slot, AsmErrorKind> {
        let (value, care) = wanted(inst).expect("only instructions with operands are placed");
        let index = match self.find(value, care) {
            Some(i) => {
                self.fill(i, value, care);
                i
            }
            None if self.entries.len() >= OPDESCS => return Err(AsmErrorKind::TooManyOpdescs),
            None => {
                self.entries.push(Entry { word: value, extra: 0, care, pinned: false });
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

    /// Makes `inst` use entry `index`, which is created (with the gap before it) if the table is shorter.
    pub fn place_at(&mut self, inst: &Inst, index: u32) -> Result<Slot, AsmErrorKind> {
        let (value, care) = wanted(inst).expect("only instructions with operands are placed");
        let mad = is_mad(inst);
        let i = index as usize;
        if i >= if mad { 32 } else { OPDESCS } {
            return Err(AsmErrorKind::OpdescPinned { index });
        }
        while self.entries.len() <= i {
            self.entries.push(Entry { word: 0, extra: 0, care: 0, pinned: false });
        }
        let e = &self.entries[i];
        if (value ^ e.word) & care & e.care != 0 {
            return Err(AsmErrorKind::OpdescPinned { index });
        }
        self.fill(i, value, care);
        self.entries[i].pinned = true;
        if mad {
            self.mads |= 1 << i;
        }
        Ok(Slot { index: i as u8, swap: None })
    }

    fn fill(&mut self, i: usize, value: u32, care: u32) {
        let e = &mut self.entries[i];
        if e.care != !0 {
            e.word = e.word & !care | value & care;
            e.care |= care;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::decode::decode;

    /// The table after `insts`, as (word, opdesc value) pairs.
    fn table(insts: &[(u32, u32)]) -> (OpdescTable, Vec<Slot>) {
        let mut t = OpdescTable::default();
        let slots = insts.iter().map(|&(w, d)| t.place(&decode(w, d)).expect("room")).collect();
        (t, slots)
    }

    #[test]
    fn lanes_nobody_cares_for_are_filled_in_later() {
        const MOV: u32 = 0x4C00_0000;
        // mask x with selector xxxx, then the same with xyzw: lanes 1-3 are not cared for.
        let (t, slots) = table(&[(MOV, 0x008), (MOV, 0x368)]);
        assert_eq!(slots, [Slot { index: 0, swap: None }; 2]);
        assert_eq!(t.entries().collect::<Vec<_>>(), [(0x008, 0)]);
        // dp4 cares for all of them.
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
        let mad = decode(0xE000_0000, 0x0D86_C36F);
        assert_eq!(t.place(&mad), Err(AsmErrorKind::MadOpdescs));
        assert_eq!(t.place_at(&mad, 40), Err(AsmErrorKind::OpdescPinned { index: 40 }));
        assert_eq!(t.place_at(&mad, 3), Err(AsmErrorKind::OpdescPinned { index: 3 }));
        assert_eq!(t.place_at(&decode(0x4C00_0000, 0x6F), 3), Ok(Slot { index: 3, swap: None }));
    }
}
