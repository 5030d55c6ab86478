//! Register writes by id -> stored words, and their fields that affect how shaders run.
//!
//! Ids are those of command lists, names those of 3dbrew without the prefix `GPUREG_`. 3dbrew is
//! the source of every field unless a comment names another.
//!
//! Invariants: every field is in range for any stored words, so callers need no further checks. A
//! register that any of them reads is not `Kind::Unused`.

use crate::isa::{Pc, REGS, Stage};
use crate::program::Entry;
use crate::semantics::{OutputMap, SLOTS};

/// Number of registers. Writes to higher ids are ignored; reads return 0.
pub const REGISTERS: usize = 0x300;
/// The first register of the geometry unit's block.
pub const GSH: u16 = 0x280;
/// The first register of the vertex units' block.
pub const VSH: u16 = 0x2B0;
/// Number of registers in a block.
pub const BLOCK: u16 = 0x30;

/// Defines ids as constants of [`RegisterFile`] for hosts, and with short names in this module.
macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident = $id:literal;)*) => {
        $($(#[$doc])* pub const $name: u16 = $id;)*

        /// Ids of registers, as in command lists.
        impl RegisterFile {
            $($(#[$doc])* pub const $name: u16 = $id;)*
        }
    };
}

/// Defines ids in the blocks of both units, as constants of [`RegisterFile`], and their [`offset`] in
/// a block.
macro_rules! unit_registers {
    ($($(#[$doc:meta])* $name:ident, $gsh:ident, $vsh:ident = $at:literal;)*) => {
        /// Offsets in a block: add [`GSH`] or [`VSH`].
        pub mod offset {
            $($(#[$doc])* pub const $name: u16 = $at;)*
        }

        /// Ids of the registers that the geometry unit and the vertex units have each.
        impl RegisterFile {
            $(
                $(#[$doc])* pub const $gsh: u16 = GSH + $at;
                $(#[$doc])* pub const $vsh: u16 = VSH + $at;
            )*
        }
    };
}

registers! {
    /// Number of `SH_OUTMAP` slots used, bits 2:0.
    SH_OUTMAP_TOTAL = 0x04F;
    /// The first of seven words, one per slot: the semantics of x, y, z, w.
    SH_OUTMAP_O0 = 0x050;
    /// The address that offsets of arrays and indices count from, shifted right by 3.
    ATTRIBBUFFERS_LOC = 0x200;
    /// Types of attributes 0-7, four bits each: component format in bits 1:0, components minus 1 in
    /// bits 3:2.
    ATTRIBBUFFERS_FORMAT_LOW = 0x201;
    /// Types of attributes 8-11; bits 27:16: attributes without an array.
    ATTRIBBUFFERS_FORMAT_HIGH = 0x202;
    /// The first of twelve groups of three: offset; components 0-7 of a vertex; components 8-11, stride
    /// in bits 23:16, number of components in bits 31:28.
    ATTRIBBUFFER0_OFFSET = 0x203;
    /// Bits 27:0: offset. Bit 31: indices have 16 bits, not 8.
    INDEXBUFFER_CONFIG = 0x227;
    /// Vertices or indices of a draw.
    NUMVERTICES = 0x228;
    /// Bits 1:0 are 2 when the geometry unit is in use, 0 when not.
    GEOSTAGE_CONFIG = 0x229;
    /// The first vertex of a draw without indices.
    VERTEX_OFFSET = 0x22A;
    /// Draws vertices in order.
    DRAWARRAYS = 0x22E;
    /// Draws vertices in the order of an index stream.
    DRAWELEMENTS = 0x22F;
    /// The attribute that `FIXEDATTRIB_DATA0` writes, bits 3:0; 15 selects immediate mode.
    FIXEDATTRIB_INDEX = 0x232;
    /// The first of three registers that take the words of an attribute, in any order of the registers. In
    /// hexadecimal digits they are WWWWWWZZ ZZZZYYYY YYXXXXXX, of float24.
    FIXEDATTRIB_DATA0 = 0x233;
    /// The last of the three.
    FIXEDATTRIB_DATA2 = 0x235;
    /// Attributes of a vertex in immediate mode minus 1, bits 3:0.
    VSH_NUM_ATTR = 0x242;
    /// Bit 0: the fourth unit has a configuration of its own.
    VSH_COM_MODE = 0x244;
    /// 0 while drawing, 1 while configuring.
    START_DRAW_FUNC0 = 0x245;
    /// Vectors per vertex that reach the geometry unit minus 1, bits 3:0.
    VSH_OUTMAP_TOTAL1 = 0x24A;
    /// A copy of the same number.
    VSH_OUTMAP_TOTAL2 = 0x251;
    /// Mode of the geometry unit; see [`GeometryMode`](super::GeometryMode).
    GSH_MISC0 = 0x252;
    /// Main vertices of a primitive of variable size minus 1, bits 4:0.
    GSH_MISC1 = 0x254;
    /// Bits 9:8 are the [`Topology`](super::Topology).
    PRIMITIVE_CONFIG = 0x25E;
    /// Discards an incomplete primitive.
    RESTART_PRIMITIVE = 0x25F;
}

unit_registers! {
    /// b0 to b15.
    BOOLUNIFORM, GSH_BOOLUNIFORM, VSH_BOOLUNIFORM = 0x00;
    /// The first of four words, one per integer uniform: x, y, z, w in its bytes.
    INTUNIFORM_I0, GSH_INTUNIFORM_I0, VSH_INTUNIFORM_I0 = 0x01;
    /// Attributes minus 1, bits 3:0.
    INPUTBUFFER_CONFIG, GSH_INPUTBUFFER_CONFIG, VSH_INPUTBUFFER_CONFIG = 0x09;
    /// The entry point of the program.
    ENTRYPOINT, GSH_ENTRYPOINT, VSH_ENTRYPOINT = 0x0A;
    /// Registers of attributes 0-7, one nibble each.
    ATTRIBUTES_PERMUTATION_LOW, GSH_ATTRIBUTES_PERMUTATION_LOW, VSH_ATTRIBUTES_PERMUTATION_LOW = 0x0B;
    /// Registers of attributes 8-15.
    ATTRIBUTES_PERMUTATION_HIGH, GSH_ATTRIBUTES_PERMUTATION_HIGH, VSH_ATTRIBUTES_PERMUTATION_HIGH = 0x0C;
    /// Mask of the output registers that leave the unit, bits 15:0.
    OUTMAP_MASK, GSH_OUTMAP_MASK, VSH_OUTMAP_MASK = 0x0D;
    /// Ends an upload of code. The console requires it at some time; here words take effect as they
    /// arrive.
    CODETRANSFER_END, GSH_CODETRANSFER_END, VSH_CODETRANSFER_END = 0x0F;
    /// The next float uniform, bits 7:0; bit 31 selects words of f32.
    FLOATUNIFORM_INDEX, GSH_FLOATUNIFORM_INDEX, VSH_FLOATUNIFORM_INDEX = 0x10;
    /// The first of eight registers that take words of float uniforms, in any order of the registers. The words
    /// of f32 are w, z, y, x; those of float24 are in hexadecimal digits WWWWWWZZ ZZZZYYYY YYXXXXXX.
    FLOATUNIFORM_DATA0, GSH_FLOATUNIFORM_DATA0, VSH_FLOATUNIFORM_DATA0 = 0x11;
    /// The next code word, bits 11:0.
    CODETRANSFER_INDEX, GSH_CODETRANSFER_INDEX, VSH_CODETRANSFER_INDEX = 0x1B;
    /// The first of eight registers that take code words.
    CODETRANSFER_DATA0, GSH_CODETRANSFER_DATA0, VSH_CODETRANSFER_DATA0 = 0x1C;
    /// The next operand descriptor, bits 11:0.
    OPDESCS_INDEX, GSH_OPDESCS_INDEX, VSH_OPDESCS_INDEX = 0x25;
    /// The first of eight registers that take descriptors.
    OPDESCS_DATA0, GSH_OPDESCS_DATA0, VSH_OPDESCS_DATA0 = 0x26;
}

/// The value of [`offset::INPUTBUFFER_CONFIG`] of the geometry unit at power-on (observed on
/// hardware, citra#7381; *Tales of the Abyss* relies on it).
pub(super) const GSH_INPUTBUFFER_CONFIG_AT_RESET: u32 = 0xA000_0001;

/// Bits of the entry point that read back (measured: GBATEK): enough for 512 words in the vertex
/// units, for 4096 in the geometry unit. The upper half is a second field, which games set to
/// 0x7FFF.
const fn entry_readback(stage: Stage) -> u32 {
    match stage {
        Stage::Vertex => 0x01FF_01FF,
        Stage::Geometry => 0x0FFF_0FFF,
    }
}

/// The id of the first register of a block.
pub(super) const fn block(stage: Stage) -> u16 {
    match stage {
        Stage::Vertex => VSH,
        Stage::Geometry => GSH,
    }
}

/// What a write does, beyond storing the value.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Nothing, and nothing here reads the register.
    Unused,
    /// Nothing.
    Stored,
    /// Some new values change the [`DrawConfiguration`](super::configuration::DrawConfiguration):
    /// see [`configuring_bits`].
    Configuration,
    /// As [`Kind::Configuration`]. A new topology discards an incomplete primitive.
    Topology,
    /// The kinds up to here act on new values only. Discards an incomplete primitive.
    Restart,
    DrawArrays,
    DrawElements,
    FixedIndex,
    FixedData,
    // Registers of a unit. While the fourth unit has no configuration of its own, it receives these
    // writes to the vertex units as well: uniforms, output mask, code, descriptors, but not input,
    // entry point, permutation (observed on hardware: citra#7367, citra#7381).
    OutputMask,
    Booleans,
    Integers,
    FloatIndex,
    FloatData,
    CodeIndex,
    CodeData,
    DescriptorIndex,
    DescriptorData,
    TransferEnd,
}

impl Kind {
    /// The kind of register `id`.
    #[inline]
    pub(super) fn of(id: u16) -> Kind {
        KINDS.get(usize::from(id)).copied().unwrap_or(Kind::Unused)
    }

    /// Whether a write only stores the value.
    #[inline]
    pub(super) fn only_stores(self) -> bool {
        self <= Kind::Stored
    }

    /// Whether a [`DrawConfiguration`](super::configuration::DrawConfiguration) derives from the
    /// register.
    #[inline]
    pub(super) fn configures_draws(self) -> bool {
        matches!(self, Kind::Configuration | Kind::Topology | Kind::OutputMask)
    }

    /// Whether unchanged values have no effect.
    #[inline]
    pub(super) fn acts_on_change(self) -> bool {
        self < Kind::Restart
    }

    const fn of_id(id: u16) -> Kind {
        match id {
            // Where an array begins changes from draw to draw.
            ATTRIBBUFFER0_OFFSET..INDEXBUFFER_CONFIG if (id - ATTRIBBUFFER0_OFFSET).is_multiple_of(3) => Kind::Stored,
            SH_OUTMAP_TOTAL..=0x056 | ATTRIBBUFFERS_FORMAT_LOW..INDEXBUFFER_CONFIG => Kind::Configuration,
            GEOSTAGE_CONFIG | VSH_OUTMAP_TOTAL1 | GSH_MISC0 | GSH_MISC1 => Kind::Configuration,
            ATTRIBBUFFERS_LOC | INDEXBUFFER_CONFIG..=VERTEX_OFFSET | VSH_NUM_ATTR | VSH_COM_MODE => Kind::Stored,
            DRAWARRAYS => Kind::DrawArrays,
            DRAWELEMENTS => Kind::DrawElements,
            FIXEDATTRIB_INDEX => Kind::FixedIndex,
            FIXEDATTRIB_DATA0..=FIXEDATTRIB_DATA2 => Kind::FixedData,
            PRIMITIVE_CONFIG => Kind::Topology,
            RESTART_PRIMITIVE => Kind::Restart,
            GSH..VSH => Kind::of_unit(id - GSH),
            VSH..END => Kind::of_unit(id - VSH),
            _ => Kind::Unused,
        }
    }

    const fn of_unit(at: u16) -> Kind {
        use offset::*;
        match at {
            BOOLUNIFORM => Kind::Booleans,
            INTUNIFORM_I0..=0x04 => Kind::Integers,
            INPUTBUFFER_CONFIG | ATTRIBUTES_PERMUTATION_LOW | ATTRIBUTES_PERMUTATION_HIGH => Kind::Configuration,
            ENTRYPOINT => Kind::Stored,
            OUTMAP_MASK => Kind::OutputMask,
            CODETRANSFER_END => Kind::TransferEnd,
            FLOATUNIFORM_INDEX => Kind::FloatIndex,
            FLOATUNIFORM_DATA0..=0x18 => Kind::FloatData,
            CODETRANSFER_INDEX => Kind::CodeIndex,
            CODETRANSFER_DATA0..=0x23 => Kind::CodeData,
            OPDESCS_INDEX => Kind::DescriptorIndex,
            OPDESCS_DATA0..=0x2D => Kind::DescriptorData,
            _ => Kind::Unused,
        }
    }
}

/// The bits of a [`Kind::Configuration`], [`Kind::Topology`] or [`Kind::OutputMask`] that the
/// [`DrawConfiguration`](super::configuration::DrawConfiguration) derives from. Games change others
/// at each draw.
pub(super) fn configuring_bits(id: u16) -> u32 {
    match id {
        SH_OUTMAP_TOTAL => 7,
        GEOSTAGE_CONFIG => 3,
        VSH_OUTMAP_TOTAL1 => 0xF,
        GSH_MISC1 => 0x1F,
        PRIMITIVE_CONFIG => 0x300,
        _ => match id.wrapping_sub(GSH) % BLOCK {
            offset::INPUTBUFFER_CONFIG if id >= GSH => 0xF,
            offset::OUTMAP_MASK if id >= GSH => 0xFFFF,
            _ => u32::MAX,
        },
    }
}

/// The end of the vertex units' block.
const END: u16 = VSH + BLOCK;

/// The kind of each register.
static KINDS: [Kind; REGISTERS] = {
    let mut kinds = [Kind::Unused; REGISTERS];
    let mut id = 0;
    while id < REGISTERS {
        kinds[id] = Kind::of_id(id as u16);
        id += 1;
    }
    kinds
};

/// The bits of the bytes that `mask` selects; only its low four bits count.
#[inline]
pub(super) fn byte_mask(mask: u8) -> u32 {
    BYTE_MASKS[usize::from(mask)]
}

/// For each `u8`, so that no index needs a check.
static BYTE_MASKS: [u32; 256] = {
    let mut masks = [0; 256];
    let mut bit = 0;
    while bit < 4 * masks.len() {
        let (mask, byte) = (bit / 4, bit % 4);
        masks[mask] |= if mask >> byte & 1 != 0 { 0xFF << (8 * byte) } else { 0 };
        bit += 1;
    }
    masks
};

/// Replaces the bytes of `old` that `mask` selects by those of `value`.
#[inline]
pub(super) fn merge(old: u32, value: u32, mask: u8) -> u32 {
    old ^ (old ^ value) & byte_mask(mask)
}

/// All registers as last written. The memories that index and data registers access are in
/// [`ShaderState`](super::ShaderState).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterFile(pub Box<[u32; REGISTERS]>);

impl Default for RegisterFile {
    /// The registers at power-on, as far as known; the rest is 0.
    fn default() -> RegisterFile {
        let mut words = Box::new([0; REGISTERS]);
        words[usize::from(GSH + offset::INPUTBUFFER_CONFIG)] = GSH_INPUTBUFFER_CONFIG_AT_RESET;
        RegisterFile(words)
    }
}

impl RegisterFile {
    /// The stored word of `id`; 0 for ids that do not exist.
    #[inline]
    pub fn get(&self, id: u16) -> u32 {
        self.0.get(usize::from(id)).copied().unwrap_or(0)
    }

    /// The value that a read of `id` returns.
    pub fn read(&self, id: u16) -> u32 {
        const VERTEX_ENTRY: u16 = VSH + offset::ENTRYPOINT;
        const GEOMETRY_ENTRY: u16 = GSH + offset::ENTRYPOINT;
        match id {
            // Index, data and end registers (measured: GBATEK).
            _ if Kind::of(id) >= Kind::FloatIndex => 0,
            VERTEX_ENTRY => self.get(id) & entry_readback(Stage::Vertex),
            GEOMETRY_ENTRY => self.get(id) & entry_readback(Stage::Geometry),
            _ => self.get(id),
        }
    }

    /// Loads what a draw reads. See [`prefetch`](super::prefetch).
    #[inline(always)]
    pub(super) fn prefetch(&self, stage: Stage) -> u32 {
        self.get(ATTRIBBUFFERS_LOC) ^ self.get(NUMVERTICES) ^ self.field(stage, offset::ENTRYPOINT)
    }

    /// Whether a write would change nothing.
    #[inline]
    pub(super) fn has(&self, id: u16, value: u32, mask: u8) -> bool {
        self.0.get(usize::from(id)).is_none_or(|&word| merge(word, value, mask) == word)
    }

    /// Writes the bytes that `mask` selects. Returns the words before and after.
    #[inline]
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

    /// The entry point of a unit: only the bits that read back exist.
    pub fn entry(&self, stage: Stage) -> Entry {
        let pc = (self.field(stage, offset::ENTRYPOINT) & entry_readback(stage)) as Pc;
        Entry { pc, stage }
    }

    /// Attributes that a unit takes, 1-16.
    pub fn attributes(&self, stage: Stage) -> usize {
        (self.field(stage, offset::INPUTBUFFER_CONFIG) & 0xF) as usize + 1
    }

    /// The `v` register of each attribute. Several attributes may share a register.
    pub fn permutation(&self, stage: Stage) -> [u8; REGS] {
        let [low, high] = [offset::ATTRIBUTES_PERMUTATION_LOW, offset::ATTRIBUTES_PERMUTATION_HIGH]
            .map(|at| u64::from(self.field(stage, at)));
        let nibbles = low | high << 32;
        std::array::from_fn(|n| (nibbles >> (4 * n) & 0xF) as u8)
    }

    /// The output registers that leave a unit: bit n for `on`.
    pub fn output_mask(&self, stage: Stage) -> u16 {
        self.field(stage, offset::OUTMAP_MASK) as u16
    }

    /// The map from a unit's output registers to the rasteriser's input.
    pub fn output_map(&self, stage: Stage) -> OutputMap {
        let words: [u32; SLOTS] = std::array::from_fn(|n| self.get(SH_OUTMAP_O0 + n as u16));
        OutputMap::new(self.output_mask(stage), self.get(SH_OUTMAP_TOTAL), words)
    }

    /// Vectors per vertex that reach the geometry unit, 1-16.
    pub fn vertex_outputs(&self) -> usize {
        (self.get(VSH_OUTMAP_TOTAL1) & 0xF) as usize + 1
    }

    /// Attributes of a vertex in immediate mode, 1-16.
    pub fn immediate_attributes(&self) -> usize {
        (self.get(VSH_NUM_ATTR) & 0xF) as usize + 1
    }

    /// Whether vertices pass through the geometry unit.
    pub fn has_geometry(&self) -> bool {
        self.get(GEOSTAGE_CONFIG) & 3 == 2
    }

    /// Whether writes to the vertex units reach the fourth unit.
    #[inline]
    pub fn is_mirroring(&self) -> bool {
        self.get(VSH_COM_MODE) & 1 == 0 && self.get(GEOSTAGE_CONFIG) & 3 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_adjacent() {
        let kinds = |at: u16| [0x280 + at, 0x2B0 + at].map(Kind::of);
        assert_eq!((Kind::of(0x27F), Kind::of(0x2E0)), (Kind::Unused, Kind::Unused), "units 2 and 3 are not modelled");
        assert_eq!(kinds(0), [Kind::Booleans; 2]);
        assert_eq!(kinds(0x0B), [Kind::Configuration; 2]);
        assert_eq!(kinds(0x2D), [Kind::DescriptorData; 2]);
        assert_eq!(kinds(0x2E), [Kind::Unused; 2]);
        assert_eq!([0x2FF, 0x300, 0xFFFF].map(Kind::of), [Kind::Unused; 3]);
    }

    #[test]
    fn the_mask_selects_bytes() {
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
    fn only_mode_two_enables_the_geometry_unit() {
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
