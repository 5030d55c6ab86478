//! Words written to a unit's block of registers -> its code, descriptors and uniforms.
//!
//! Each of the three memories has an index that a write sets and that then increments by itself.
//! All data registers of a memory feed the same queue.
//!
//! Invariant: no write leaves its memory, and an upload that changes no word of code or descriptors
//! reports no change. This file must not know the register file, nor the engine that runs the code.

use super::registers::{merge, offset};
use crate::container::float24::f24_to_f32;
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
        }
    }

    /// Handles a write to offset `at` of the unit's block. `merged` is the whole register after the
    /// write: booleans and integers take it (citra#2709). Queues take `value` whatever `mask`, as
    /// in every known emulator. Returns whether code or descriptors have changed.
    pub(super) fn write(&mut self, at: u16, value: u32, mask: u8, merged: u32) -> bool {
        use offset::*;
        match at {
            BOOLUNIFORM => self.uniforms.b = merged as u16,
            INTUNIFORM_I0..=0x04 => {
                self.uniforms.i[usize::from(at - INTUNIFORM_I0)] = merged.to_le_bytes();
            }
            FLOATUNIFORM_INDEX => {
                let word = merge(u32::from(self.float_index) | u32::from(self.float32) << 31, value, mask);
                self.float_index = word as u8;
                self.float32 = word >> 31 != 0;
                self.float_words.clear();
            }
            FLOATUNIFORM_DATA0..=0x18 => self.push_float(value),
            CODETRANSFER_INDEX => self.code_index = index(self.code_index, value, mask),
            CODETRANSFER_DATA0..=0x23 => return store(&mut self.code, &mut self.code_index, value),
            OPDESCS_INDEX => self.opdesc_index = index(self.opdesc_index, value, mask),
            OPDESCS_DATA0..=0x2D => return store(&mut self.opdescs, &mut self.opdesc_index, value),
            _ => {}
        }
        false
    }

    fn push_float(&mut self, word: u32) {
        let vector = if self.float32 {
            self.float_words.push::<4>(word).map(|[w, z, y, x]| [x, y, z, w].map(f32::from_bits))
        } else {
            self.float_words.push::<3>(word).map(f24_vector)
        };
        let Some(vector) = vector else { return };
        // Past the last uniform nothing is written and the index stays (observed on hardware:
        // azahar#2412; games write 0x7F).
        if let Some(c) = self.uniforms.c.get_mut(usize::from(self.float_index)) {
            *c = vector;
            self.float_index += 1;
        }
    }
}

const _: () = assert!(FLOAT_UNIFORMS < u8::MAX as usize && INT_UNIFORMS == 4);

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
    /// Adds a word. Returns all words once there are `N`.
    pub(super) fn push<const N: usize>(&mut self, word: u32) -> Option<[u32; N]> {
        const { assert!(N <= 4) }
        let count = usize::from(self.count).min(N - 1);
        if count < N - 1 {
            self.words[count] = word;
            self.count = count as u8 + 1;
            return None;
        }
        self.clear();
        Some(std::array::from_fn(|n| if n < count { self.words[n] } else { word }))
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use offset::*;

    fn state() -> ShaderState {
        ShaderState::new(Stage::Vertex)
    }

    fn send(s: &mut ShaderState, at: u16, words: &[u32]) -> bool {
        words.iter().fold(false, |changed, &word| s.write(at, word, 15, word) | changed)
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
    }

    #[test]
    fn all_data_registers_feed_one_queue() {
        let mut s = state();
        send(&mut s, FLOATUNIFORM_INDEX, &[0x8000_0000]);
        for (n, word) in (0..8).zip(1..) {
            s.write(FLOATUNIFORM_DATA0 + 7 - n, (word as f32).to_bits(), 15, 0);
        }
        assert_eq!(s.uniforms.c[..2], [[4.0, 3.0, 2.0, 1.0], [8.0, 7.0, 6.0, 5.0]]);
        for n in 0..8 {
            s.write(CODETRANSFER_DATA0 + 7 - n, 100 + u32::from(n), 15, 0);
            s.write(OPDESCS_DATA0 + n, 200 + u32::from(n), 15, 0);
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
        s.write(FLOATUNIFORM_INDEX, 0x8000_00FF, 0b1000, 0);
        assert_eq!((s.float_index, s.float32), (8, true), "new mode, incremented index");
        send(&mut s, CODETRANSFER_INDEX, &[0x1FE]);
        send(&mut s, CODETRANSFER_DATA0, &[1]);
        s.write(CODETRANSFER_INDEX, 0xFFFF_FF10, 0b0001, 0);
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
            let mut words = PartialVector { words: [1, 2, 3], count };
            while words.push::<3>(4).is_none() {}
            assert_eq!(words.count, 0);
        }
    }
}
