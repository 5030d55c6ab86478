//! Words written to a unit's block of registers -> its code, descriptors and uniforms.
//!
//! Each of the three memories has an index that a write sets and that then increments by itself.
//! All data registers of a memory feed the same queue.
//!
//! Invariant: no write leaves its memory, and an upload that changes no word of code or descriptors
//! reports no change. This file must not know the register file, nor the engine that runs the code.

use super::registers::{GSH, Kind, VSH, merge, offset};
use crate::container::float24::f24_to_f32;
use crate::isa::numeric::Precision;
use crate::isa::{FLOAT_UNIFORMS, INT_UNIFORMS, MAX_CODE_WORDS, OPDESCS, Stage};
use crate::state::{Uniforms, Unit, Vec4};

/// Words of program memory of a vertex unit (measured by the bits of its entry point that read
/// back: GBATEK).
pub const VERTEX_CODE_WORDS: usize = 512;

/// The state of one kind of unit: memories, upload indices, and the registers that carry over from
/// run to run.
///
/// Plain data with any contents: users of lengths and indices check them.
#[derive(Clone, Debug)]
pub struct ShaderState {
    /// Program memory: 512 words for vertex units, 4096 for the geometry unit.
    pub code: Vec<u32>,
    /// The 128 operand descriptors that instructions can select.
    pub opdescs: Vec<u32>,
    /// Uniforms.
    pub uniforms: Uniforms,
    /// Registers. All vertex units share them here: a vertex starts from the registers that the
    /// previous one left.
    pub unit: Unit,
    /// The next code word.
    pub code_index: u16,
    /// The next descriptor.
    pub opdesc_index: u16,
    /// The next float uniform.
    pub float_index: u8,
    /// Whether float uniforms arrive as four words of f32; else as three words of float24.
    pub float32: bool,
    /// Words of an incomplete float uniform.
    pub float_words: PartialVector,
    /// The number format of the engine. A float uniform that arrives as f32 is stored as programs read it, which changes no
    /// result and spares each run a test that fails.
    pub(crate) precision: Precision,
    /// The float uniforms that register writes have stored. For [`Notes`](super::Notes) only.
    pub(crate) floats_written: [bool; FLOAT_UNIFORMS],
}

impl ShaderState {
    /// A unit with all memories zero.
    pub fn new(stage: Stage) -> ShaderState {
        let words = match stage {
            Stage::Vertex => VERTEX_CODE_WORDS,
            Stage::Geometry => MAX_CODE_WORDS,
        };
        ShaderState {
            code: vec![0; words],
            opdescs: vec![0; OPDESCS],
            uniforms: Uniforms::new(),
            unit: Unit::new(),
            code_index: 0,
            opdesc_index: 0,
            float_index: 0,
            float32: false,
            float_words: PartialVector::default(),
            precision: Precision::F32,
            floats_written: [false; FLOAT_UNIFORMS],
        }
    }

    /// Prepares for an engine with this number format.
    pub(super) fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
        self.uniforms.narrow(precision);
    }

    /// Handles a write to a register of the unit. `merged` is the whole register after the write:
    /// booleans and integers take it (citra#2709). Queues take `value` whatever `mask`, as in every
    /// known emulator. Returns whether code or descriptors have changed.
    pub(super) fn write(&mut self, kind: Kind, id: u16, value: u32, mask: u8, merged: u32) -> bool {
        match kind {
            Kind::Booleans => self.uniforms.b = merged as u16,
            Kind::Integers => self.uniforms.i[integer(id)] = merged.to_le_bytes(),
            Kind::FloatIndex => {
                let word = merge(u32::from(self.float_index) | u32::from(self.float32) << 31, value, mask);
                self.float_index = word as u8;
                self.float32 = word >> 31 != 0;
                self.float_words.clear();
            }
            Kind::FloatData => self.write_float(value),
            Kind::CodeIndex => self.code_index = index(self.code_index, value, mask),
            Kind::CodeData => return store(&mut self.code, &mut self.code_index, value),
            Kind::DescriptorIndex => self.opdesc_index = index(self.opdesc_index, value, mask),
            Kind::DescriptorData => return store(&mut self.opdescs, &mut self.opdesc_index, value),
            _ => {}
        }
        false
    }

    /// Adds a word of a float uniform, and stores a uniform that it completes.
    pub(super) fn write_float(&mut self, word: u32) {
        if self.push_float(word) {
            self.store_float(self.float_vector(word));
        }
    }

    /// Whether such a write changes a uniform, or may change one.
    pub(super) fn would_change_uniform(&self, kind: Kind, id: u16, merged: u32) -> bool {
        match kind {
            Kind::Booleans => self.uniforms.b != merged as u16,
            Kind::Integers => self.uniforms.i[integer(id)] != merged.to_le_bytes(),
            Kind::FloatData => true,
            _ => false,
        }
    }

    /// Adds a word of a float uniform. Whether it completes one: [`ShaderState::float_vector`].
    #[inline]
    pub(super) fn push_float(&mut self, word: u32) -> bool {
        self.float_words.push(word, 2 + u8::from(self.float32))
    }

    /// The vector that its last word completes, unless it has to be rounded.
    #[inline]
    pub(super) fn exact_vector(&self, last: u32) -> Option<Vec4> {
        let [a, b, c] = self.float_words.words;
        match (self.float32, self.precision) {
            (false, _) => Some(f24_vector([a, b, last])),
            (true, Precision::F32) => Some([last, c, b, a].map(f32::from_bits)),
            (true, Precision::F24 { .. }) => None,
        }
    }

    /// The vector that its last word completes, as programs read it.
    pub(super) fn float_vector(&self, last: u32) -> Vec4 {
        let [a, b, c] = self.float_words.words;
        let rounded = || [last, c, b, a].map(|word| self.precision.operand(f32::from_bits(word)));
        self.exact_vector(last).unwrap_or_else(rounded)
    }

    /// Whether the same last word completes the same vector here as there, as far as the words
    /// before say.
    #[inline]
    pub(super) fn completes_as(&self, other: &ShaderState) -> bool {
        self.float_words.words == other.float_words.words && self.float32 == other.float32
    }

    /// Whether [`ShaderState::store_float`] changes a uniform.
    #[inline]
    pub(super) fn would_change_float(&self, vector: Vec4) -> bool {
        let old = self.uniforms.c.get(usize::from(self.float_index));
        old.is_some_and(|old| old.map(f32::to_bits) != vector.map(f32::to_bits))
    }

    /// Stores the next float uniform. Past the last one nothing is written and the index stays
    /// (observed on hardware: azahar#2412; games write 0x7F).
    #[inline]
    pub(super) fn store_float(&mut self, vector: Vec4) {
        let index = usize::from(self.float_index);
        if let Some(c) = self.uniforms.c.get_mut(index) {
            *c = vector;
            self.floats_written[index] = true;
            self.float_index += 1;
        }
    }
}

const _: () = assert!(FLOAT_UNIFORMS < u8::MAX as usize);

/// The integer uniform of a register: the blocks have the same low digit, and i0 is the second register.
fn integer(id: u16) -> usize {
    const { assert!((GSH | VSH) & 0xF == 0 && offset::INTUNIFORM_I0 == 1) }
    usize::from(id % 16).saturating_sub(1) % INT_UNIFORMS
}

/// A twelve-bit index after a masked write.
fn index(old: u16, value: u32, mask: u8) -> u16 {
    (merge(u32::from(old), value, mask) & 0xFFF) as u16
}

/// Stores a word at the index and increments the index, also past the end, where words are dropped.
fn store(memory: &mut [u32], index: &mut u16, value: u32) -> bool {
    let word = memory.get_mut(usize::from(*index));
    *index = index.saturating_add(1);
    word.is_some_and(|word| std::mem::replace(word, value) != value)
}

/// Decodes a float24 vector from its three words, high word first. In hexadecimal digits: WWWWWWZZ
/// ZZZZYYYY YYXXXXXX.
pub(super) fn f24_vector([high, middle, low]: [u32; 3]) -> Vec4 {
    let x = low;
    let y = middle << 8 | low >> 24;
    let z = high << 16 | middle >> 16;
    let w = high >> 8;
    // Bits above the low 24 are ignored.
    [x, y, z, w].map(f24_to_f32)
}

/// Words of a vector that is incomplete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialVector {
    /// The words received.
    pub words: [u32; 3],
    /// Their number.
    pub count: u8,
}

impl PartialVector {
    /// Adds a word, unless it is the last of `last` + 1. Whether it is; the others stay in `words`.
    #[inline]
    pub(super) fn push(&mut self, word: u32, last: u8) -> bool {
        let count = self.count;
        let is_last = count >= last.min(3);
        if !is_last {
            self.words[usize::from(count)] = word;
        }
        self.count = if is_last { 0 } else { count + 1 };
        is_last
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::offset::*;
    use super::*;
    use crate::isa::float24::Rounding;

    fn state() -> ShaderState {
        ShaderState::new(Stage::Vertex)
    }

    fn write(s: &mut ShaderState, at: u16, value: u32, mask: u8) -> bool {
        s.write(Kind::of(VSH + at), VSH + at, value, mask, value)
    }

    fn send(s: &mut ShaderState, at: u16, words: &[u32]) -> bool {
        words.iter().fold(false, |changed, &word| write(s, at, word, 15) | changed)
    }

    #[test]
    fn a_vector_of_float24_is_three_words_last_component_first() {
        // Distinct digits, so that a misplaced one shows.
        assert_eq!(
            f24_vector([0x3F00_0040, 0x0000_4080, 0x0041_0000]),
            [0x41_0000, 0x40_8000, 0x40_0000, 0x3F_0000].map(f24_to_f32)
        );
        assert_eq!(
            f24_vector([0x1234_5678, 0x9ABC_DEF0, 0x1134_5678]),
            [0x34_5678, 0xDEF011, 0x78_9ABC, 0x12_3456].map(f24_to_f32)
        );
    }

    #[test]
    fn a_vector_of_f32_is_four_words_last_component_first() {
        let mut s = state();
        send(&mut s, FLOATUNIFORM_INDEX, &[0x8000_0005]);
        send(&mut s, FLOATUNIFORM_DATA0, &[4.0f32, 3.0, 2.0, 0.1].map(f32::to_bits));
        assert_eq!(s.uniforms.c[5], [0.1, 2.0, 3.0, 4.0], "in full precision");
        assert_eq!(s.float_index, 6);
        let precision = Precision::F24 { rounding: Rounding::Nearest };
        s.set_precision(precision);
        assert_eq!(s.uniforms.c[5][0], precision.operand(0.1));
        send(&mut s, FLOATUNIFORM_DATA0, &[4.0f32, 3.0, 0.3, 0.2].map(f32::to_bits));
        assert_eq!(s.uniforms.c[6], [0.2, 0.3, 3.0, 4.0].map(|x| precision.operand(x)), "as programs read it");
    }

    #[test]
    fn all_data_registers_feed_one_queue() {
        let mut s = state();
        send(&mut s, FLOATUNIFORM_INDEX, &[0x8000_0000]);
        for (n, word) in (0..8).zip(1..) {
            write(&mut s, FLOATUNIFORM_DATA0 + 7 - n, (word as f32).to_bits(), 15);
        }
        assert_eq!(s.uniforms.c[..2], [[4.0, 3.0, 2.0, 1.0], [8.0, 7.0, 6.0, 5.0]]);
        for n in 0..8 {
            write(&mut s, CODETRANSFER_DATA0 + 7 - n, 100 + u32::from(n), 15);
            write(&mut s, OPDESCS_DATA0 + n, 200 + u32::from(n), 15);
        }
        assert_eq!(s.code[..9], [100, 101, 102, 103, 104, 105, 106, 107, 0]);
        assert_eq!(s.opdescs[..9], [200, 201, 202, 203, 204, 205, 206, 207, 0]);
    }

    #[test]
    fn writing_the_index_discards_an_incomplete_vector() {
        let mut s = state();
        send(&mut s, FLOATUNIFORM_INDEX, &[0]);
        send(&mut s, FLOATUNIFORM_DATA0, &[1, 2]);
        send(&mut s, FLOATUNIFORM_INDEX, &[0x8000_0002]);
        send(&mut s, FLOATUNIFORM_DATA0, &[1.0f32; 4].map(f32::to_bits));
        assert_eq!((s.uniforms.c[0], s.uniforms.c[2]), ([0.0; 4], [1.0; 4]));
        // Without a write of the index the vector continues.
        send(&mut s, FLOATUNIFORM_DATA0, &[2.0f32; 2].map(f32::to_bits));
        send(&mut s, FLOATUNIFORM_DATA0, &[2.0f32; 2].map(f32::to_bits));
        assert_eq!((s.uniforms.c[3], s.float_words.count), ([2.0; 4], 0));
    }

    #[test]
    fn a_masked_write_merges_with_the_current_index() {
        let mut s = state();
        send(&mut s, FLOATUNIFORM_INDEX, &[7]);
        send(&mut s, FLOATUNIFORM_DATA0, &[0; 3]);
        write(&mut s, FLOATUNIFORM_INDEX, 0x8000_00FF, 0b1000);
        assert_eq!((s.float_index, s.float32), (8, true), "new mode, incremented index");
        send(&mut s, CODETRANSFER_INDEX, &[0x1FE]);
        send(&mut s, CODETRANSFER_DATA0, &[1]);
        write(&mut s, CODETRANSFER_INDEX, 0xFFFF_FF10, 0b0001);
        assert_eq!(s.code_index, 0x110);
    }

    #[test]
    fn words_past_the_end_are_dropped() {
        let mut s = state();
        send(&mut s, CODETRANSFER_INDEX, &[510]);
        assert!(send(&mut s, CODETRANSFER_DATA0, &[1, 2, 3, 4]));
        assert_eq!((&s.code[510..], s.code[0], s.code_index), (&[1, 2][..], 0, 514), "the index does not wrap");
        assert!(!send(&mut s, CODETRANSFER_DATA0, &[5]));
        send(&mut s, OPDESCS_INDEX, &[0xFFFF_F07F]);
        assert!(send(&mut s, OPDESCS_DATA0, &[6]));
        assert!(!send(&mut s, OPDESCS_DATA0, &[7]), "there is no descriptor 128");
        assert_eq!((s.opdescs[127], s.opdescs[0], s.opdescs.len()), (6, 0, 128));
    }

    #[test]
    fn equal_words_report_no_change() {
        let mut s = state();
        assert!(send(&mut s, CODETRANSFER_DATA0, &[1, 2, 3]));
        send(&mut s, CODETRANSFER_INDEX, &[0]);
        assert!(!send(&mut s, CODETRANSFER_DATA0, &[1, 2, 3]));
        send(&mut s, CODETRANSFER_INDEX, &[1]);
        assert!(send(&mut s, CODETRANSFER_DATA0, &[9]));
        assert_eq!(s.code[..4], [1, 9, 3, 0], "older words stay");
    }

    #[test]
    fn any_saved_word_count_is_safe() {
        for count in 0..=u8::MAX {
            for last in [2, 3] {
                let mut words = PartialVector { words: [1, 2, 3], count };
                let pushed = (1..).find(|_| words.push(4, last)).expect("it completes");
                assert_eq!((pushed, words.count), (u32::from(last.saturating_sub(count)) + 1, 0));
            }
        }
    }
}
