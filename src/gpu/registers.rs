//! Register writes by id -> the words that are kept, and the fields of them that shape how shaders run.
//!
//! Ids are those of command lists, names those of 3dbrew without the prefix `GPUREG_`, and 3dbrew is the source of
//! every field here unless another is named. Invariant: every field is in range for whatever words are kept, so that
//! nobody behind it has to check again. This file must not know what a write sets off.

use crate::isa::{Pc, REGS, Stage};
use crate::program::Entry;
use crate::semantics::{OutputMap, SLOTS};

/// Registers there are. A write to an id from here on is passed over, a read gives 0.
pub const REGISTERS: usize = 0x300;

/// Number of `SH_OUTMAP` slots used, bits 2:0.
pub const SH_OUTMAP_TOTAL: u16 = 0x04F;
/// The first of seven words, one a slot: the meaning of x, y, z, w.
pub const SH_OUTMAP_O0: u16 = 0x050;
/// Bits 1:0 are 2 when the geometry unit is in use, 0 when not.
pub const GEOSTAGE_CONFIG: u16 = 0x229;
/// Draws vertices in their order.
pub const DRAWARRAYS: u16 = 0x22E;
/// Draws vertices in the order of an index stream.
pub const DRAWELEMENTS: u16 = 0x22F;
/// Which attribute [`FIXEDATTRIB_DATA0`] goes to, bits 3:0; 15 is immediate mode.
pub const FIXEDATTRIB_INDEX: u16 = 0x232;
/// The first of three registers that take the words of an attribute, each any of them.
pub const FIXEDATTRIB_DATA0: u16 = 0x233;
/// The last of them.
pub const FIXEDATTRIB_DATA2: u16 = 0x235;
/// Attributes of a vertex in immediate mode less 1, bits 3:0.
pub const VSH_NUM_ATTR: u16 = 0x242;
/// Bit 0: the fourth unit has a configuration of its own.
pub const VSH_COM_MODE: u16 = 0x244;
/// 0 while drawing, 1 while configuring.
pub const START_DRAW_FUNC0: u16 = 0x245;
/// Vectors of a vertex that reach the geometry unit less 1, bits 3:0.
pub const VSH_OUTMAP_TOTAL1: u16 = 0x24A;
/// The same number once more.
pub const VSH_OUTMAP_TOTAL2: u16 = 0x251;
/// How the geometry unit is fed; see [`Feed`](super::Feed).
pub const GSH_MISC0: u16 = 0x252;
/// Main vertices of a primitive of variable size less 1, bits 4:0.
pub const GSH_MISC1: u16 = 0x254;
/// Bits 9:8 are the [`Topology`](super::Topology).
pub const PRIMITIVE_CONFIG: u16 = 0x25E;
/// Primitive assembly begins anew.
pub const RESTART_PRIMITIVE: u16 = 0x25F;

/// The first register of the geometry unit's block.
pub const GSH: u16 = 0x280;
/// The first register of the vertex units' block.
pub const VSH: u16 = 0x2B0;
/// Ids that a block spans.
pub const BLOCK: u16 = 0x30;

/// Where registers are in a block: add [`GSH`] or [`VSH`].
pub mod offset {
    /// b0 to b15.
    pub const BOOLUNIFORM: u16 = 0x00;
    /// The first of four words, one an integer uniform: x, y, z, w in its bytes.
    pub const INTUNIFORM_I0: u16 = 0x01;
    /// Attributes less 1 in bits 3:0.
    pub const INPUTBUFFER_CONFIG: u16 = 0x09;
    /// Where programs begin.
    pub const ENTRYPOINT: u16 = 0x0A;
    /// Registers of attributes 0-7, a nibble each.
    pub const ATTRIBUTES_PERMUTATION_LOW: u16 = 0x0B;
    /// Registers of attributes 8-15.
    pub const ATTRIBUTES_PERMUTATION_HIGH: u16 = 0x0C;
    /// Which output registers leave the unit, bits 15:0.
    pub const OUTMAP_MASK: u16 = 0x0D;
    /// Ends an upload of code. The console needs one at some time; here code counts as it comes.
    pub const CODETRANSFER_END: u16 = 0x0F;
    /// Float uniform that is written next in bits 7:0; bit 31 for words of f32.
    pub const FLOATUNIFORM_INDEX: u16 = 0x10;
    /// The first of eight registers that take float uniforms, each any word.
    pub const FLOATUNIFORM_DATA0: u16 = 0x11;
    /// Code word that is written next, bits 11:0.
    pub const CODETRANSFER_INDEX: u16 = 0x1B;
    /// The first of eight registers that take code words.
    pub const CODETRANSFER_DATA0: u16 = 0x1C;
    /// Operand descriptor that is written next, bits 11:0.
    pub const OPDESCS_INDEX: u16 = 0x25;
    /// The first of eight registers that take descriptors.
    pub const OPDESCS_DATA0: u16 = 0x26;
}

/// What [`offset::INPUTBUFFER_CONFIG`] of the geometry unit holds when the console is switched on (seen on hardware,
/// citra#7381; *Tales of the Abyss* relies on it).
pub const GSH_INPUTBUFFER_CONFIG_AT_RESET: u32 = 0xA000_0001;

/// Bits of the entry point that read back (measured: GBATEK), those of the vertex units' 512 words and of the geometry
/// unit's 4096. The upper half is a second field, into which games write 0x7FFF.
const fn entry_readback(stage: Stage) -> u32 {
    match stage {
        Stage::Vertex => 0x01FF_01FF,
        Stage::Geometry => 0x0FFF_0FFF,
    }
}

/// The first id of a unit's block.
pub(super) const fn block(stage: Stage) -> u16 {
    match stage {
        Stage::Vertex => VSH,
        Stage::Geometry => GSH,
    }
}

/// The unit in whose block `id` is, and where.
pub(super) fn place(id: u16) -> Option<(Stage, u16)> {
    [Stage::Geometry, Stage::Vertex].into_iter().find_map(|stage| {
        let at = id.checked_sub(block(stage))?;
        (at < BLOCK).then_some((stage, at))
    })
}

/// Whether writes of the vertex units' block at `at` reach the fourth unit too while it has no configuration of its
/// own: uniforms, output mask, code, descriptors; not input, entry point and permutation (seen on hardware: citra#7367,
/// citra#7381).
pub(super) fn is_mirrored(at: u16) -> bool {
    use offset::*;
    matches!(at, BOOLUNIFORM | 0x01..=0x04 | OUTMAP_MASK | CODETRANSFER_END) || is_fifo(at)
}

/// Index and data registers. They read as 0 (measured: GBATEK).
fn is_fifo(at: u16) -> bool {
    matches!(at, 0x10..=0x18 | 0x1B..=0x23 | 0x25..=0x2D)
}

/// The bits of the bytes that `mask` names; only its low four bits count.
pub(super) fn byte_mask(mask: u8) -> u32 {
    (0..4).filter(|n| mask >> n & 1 != 0).fold(0, |bits, n| bits | 0xFF << (8 * n))
}

/// The bytes of `value` that `mask` names, over `old`.
pub(super) fn merge(old: u32, value: u32, mask: u8) -> u32 {
    let bits = byte_mask(mask);
    old & !bits | value & bits
}

/// All registers as they were last written. What the units hold behind index and data registers is in
/// [`ShaderState`](super::ShaderState).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterFile(pub Box<[u32; REGISTERS]>);

impl Default for RegisterFile {
    /// As when the console is switched on, as far as known; all that isn't is 0.
    fn default() -> RegisterFile {
        let mut words = Box::new([0; REGISTERS]);
        words[usize::from(GSH + offset::INPUTBUFFER_CONFIG)] = GSH_INPUTBUFFER_CONFIG_AT_RESET;
        RegisterFile(words)
    }
}

impl RegisterFile {
    /// The word kept for `id`; 0 for ids there are not.
    pub fn get(&self, id: u16) -> u32 {
        self.0.get(usize::from(id)).copied().unwrap_or(0)
    }

    /// What a read of `id` gives.
    pub fn read(&self, id: u16) -> u32 {
        match place(id) {
            Some((_, at)) if is_fifo(at) || at == offset::CODETRANSFER_END => 0,
            Some((stage, offset::ENTRYPOINT)) => self.get(id) & entry_readback(stage),
            _ => self.get(id),
        }
    }

    /// Writes the bytes that `mask` names. Gives the word before and after.
    pub(super) fn write(&mut self, id: u16, value: u32, mask: u8) -> (u32, u32) {
        let Some(word) = self.0.get_mut(usize::from(id)) else { return (0, 0) };
        let old = *word;
        *word = merge(old, value, mask);
        (old, *word)
    }

    pub(super) fn set_bits(&mut self, id: u16, bits: u32) {
        if let Some(word) = self.0.get_mut(usize::from(id)) {
            *word |= bits;
        }
    }

    fn field(&self, stage: Stage, at: u16) -> u32 {
        self.get(block(stage) + at)
    }

    /// Where a unit begins: only bits that read back are there.
    pub fn entry(&self, stage: Stage) -> Entry {
        let pc = (self.field(stage, offset::ENTRYPOINT) & entry_readback(stage)) as Pc;
        Entry { pc, stage }
    }

    /// Attributes that a unit is given, 1-16.
    pub fn attributes(&self, stage: Stage) -> usize {
        (self.field(stage, offset::INPUTBUFFER_CONFIG) & 0xF) as usize + 1
    }

    /// The `v` register of each attribute. It goes from attribute to register; several may go to one.
    pub fn permutation(&self, stage: Stage) -> [u8; REGS] {
        let [low, high] = [offset::ATTRIBUTES_PERMUTATION_LOW, offset::ATTRIBUTES_PERMUTATION_HIGH]
            .map(|at| u64::from(self.field(stage, at)));
        let nibbles = low | high << 32;
        std::array::from_fn(|n| (nibbles >> (4 * n) & 0xF) as u8)
    }

    /// Which output registers leave a unit: bit n for `on`.
    pub fn output_mask(&self, stage: Stage) -> u16 {
        self.field(stage, offset::OUTMAP_MASK) as u16
    }

    /// From a unit's output registers to what the rasteriser is given.
    pub fn output_map(&self, stage: Stage) -> OutputMap {
        let words: [u32; SLOTS] = std::array::from_fn(|n| self.get(SH_OUTMAP_O0 + n as u16));
        OutputMap::new(self.output_mask(stage), self.get(SH_OUTMAP_TOTAL), words)
    }

    /// Vectors of a vertex that reach the geometry unit, 1-16.
    pub fn vertex_outputs(&self) -> usize {
        (self.get(VSH_OUTMAP_TOTAL1) & 0xF) as usize + 1
    }

    /// Attributes of a vertex in immediate mode, 1-16.
    pub fn immediate_attributes(&self) -> usize {
        (self.get(VSH_NUM_ATTR) & 0xF) as usize + 1
    }

    /// Whether vertices go through the geometry unit.
    pub fn has_geometry(&self) -> bool {
        self.get(GEOSTAGE_CONFIG) & 3 == 2
    }

    /// Whether the fourth unit takes part in writes to the vertex units.
    pub fn is_mirroring(&self) -> bool {
        self.get(VSH_COM_MODE) & 1 == 0 && self.get(GEOSTAGE_CONFIG) & 3 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_side_by_side() {
        assert_eq!(place(0x27F), None);
        assert_eq!(place(0x280), Some((Stage::Geometry, 0)));
        assert_eq!(place(0x2AF), Some((Stage::Geometry, 0x2F)));
        assert_eq!(place(0x2B0), Some((Stage::Vertex, 0)));
        assert_eq!(place(0x2DF), Some((Stage::Vertex, 0x2F)));
        assert_eq!(place(0x2E0), None, "the blocks of units 2 and 3 are not modelled");
    }

    #[test]
    fn bytes_are_written_by_mask() {
        assert_eq!([0, 1, 2, 4, 8, 15, 0xF0].map(byte_mask), [0, 0xFF, 0xFF00, 0xFF_0000, 0xFF00_0000, u32::MAX, 0]);
        let mut file = RegisterFile::default();
        assert_eq!(file.write(0x100, 0x1122_3344, 0b0101), (0, 0x0022_0044));
        assert_eq!(file.write(0x100, u32::MAX, 0b1000), (0x0022_0044, 0xFF22_0044));
        assert_eq!((file.read(0x100), file.read(0xFFFF)), (0xFF22_0044, 0));
        assert_eq!(file.write(0xFFFF, 1, 15), (0, 0));
    }

    #[test]
    fn the_permutation_has_sixteen_nibbles() {
        let mut file = RegisterFile::default();
        file.write(VSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x7654_3210, 15);
        file.write(VSH + offset::ATTRIBUTES_PERMUTATION_HIGH, 0x89AB_CDEF, 15);
        assert_eq!(file.permutation(Stage::Vertex), [0, 1, 2, 3, 4, 5, 6, 7, 15, 14, 13, 12, 11, 10, 9, 8]);
        assert_eq!(file.permutation(Stage::Geometry), [0; 16]);
    }

    #[test]
    fn the_geometry_unit_is_on_at_two_only() {
        let mut file = RegisterFile::default();
        let states = [0, 1, 2, 3, 0x8000_0102].map(|word| {
            file.write(GEOSTAGE_CONFIG, word, 15);
            (file.has_geometry(), file.is_mirroring())
        });
        assert_eq!(states, [(false, true), (false, false), (true, false), (false, false), (true, false)]);
        file.write(GEOSTAGE_CONFIG, 0, 15);
        file.write(VSH_COM_MODE, 1, 15);
        assert!(!file.is_mirroring());
    }
}
