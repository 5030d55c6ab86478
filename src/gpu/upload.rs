//! Words written to a unit's block -> its code, descriptors and uniforms, one word at a time.
//!
//! Each of the three memories has an index that a write sets and that then counts by itself; all data registers of a
//! memory feed the same queue. Invariant: nothing is written outside of a memory, and an upload that changes no word of
//! code says so. It must not know the register file, nor who runs the code.

use super::registers::{merge, offset};
use crate::container::float24::f24_to_f32;
use crate::isa::{FLOAT_UNIFORMS, INT_UNIFORMS, MAX_CODE_WORDS, OPDESCS, Stage};
use crate::state::{Uniforms, Unit, Vec4};

/// Words of program memory of a vertex unit (measured by what reads back of its entry point: GBATEK).
pub const VERTEX_CODE_WORDS: usize = 512;

/// What a kind of unit holds: memories, the indices of uploads, and the registers that carry over from run to run.
///
/// Plain data. Whatever its fields hold is taken as it is: lengths and indices are checked where they are used.
#[derive(Clone, Debug)]
pub struct ShaderState {
    /// Program memory: 512 words for vertex units, 4096 for the geometry unit.
    pub code: Vec<u32>,
    /// The 128 operand descriptors that instructions can name.
    pub opdescs: Vec<u32>,
    /// Uniforms.
    pub uniforms: Uniforms,
    /// Registers. All vertex units are one here: what one vertex leaves, the next one finds.
    pub unit: Unit,
    /// Code word that is written next.
    pub code_index: u16,
    /// Descriptor that is written next.
    pub opdesc_index: u16,
    /// Float uniform that is written next.
    pub float_index: u8,
    /// Whether float uniforms come as four words of f32; else they are three words of float24.
    pub float32: bool,
    /// Words of a float uniform that is not complete.
    pub float_words: Words,
}

impl ShaderState {
    /// All zero.
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
            float_words: Words::default(),
        }
    }

    /// A write to offset `at` of the unit's block. `merged` is the whole register behind it: booleans and integers
    /// follow that (citra#2709), queues take `value` whatever `mask` says, as in every known emulator. Gives whether
    /// code or descriptors have changed.
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
        // Past the last uniform nothing happens, and the index stays (seen on hardware: azahar#2412; games write 0x7F).
        if let Some(c) = self.uniforms.c.get_mut(usize::from(self.float_index)) {
            *c = vector;
            self.float_index += 1;
        }
    }
}

const _: () = assert!(FLOAT_UNIFORMS < u8::MAX as usize && INT_UNIFORMS == 4);

/// A twelve-bit index, of which only some bytes may be written.
fn index(old: u16, value: u32, mask: u8) -> u16 {
    (merge(u32::from(old), value, mask) & 0xFFF) as u16
}

/// Stores a word where the index is and moves the index on, also past the end, where words are dropped.
fn store(memory: &mut [u32], index: &mut u16, value: u32) -> bool {
    let word = memory.get_mut(usize::from(*index));
    *index = index.saturating_add(1);
    word.is_some_and(|word| std::mem::replace(word, value) != value)
}

/// A vector of float24 numbers from its three words: WWWWWWZZ ZZZZYYYY YYXXXXXX in hexadecimal digits, the high ones
/// first.
pub(super) fn f24_vector([high, middle, low]: [u32; 3]) -> Vec4 {
    let x = low;
    let y = middle << 8 | low >> 24;
    let z = high << 16 | middle >> 16;
    let w = high >> 8;
    // What is above the low 24 bits does not count.
    [x, y, z, w].map(f24_to_f32)
}

/// Words of a vector that has not come completely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Those that have come.
    pub words: [u32; 3],
    /// How many.
    pub count: u8,
}

impl Words {
    /// Adds one. Gives all once they are `N`.
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
        // w = 0x123456 and so on: each digit is somewhere else.
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
    fn writing_the_index_forgets_words_of_an_incomplete_vector() {
        let mut s = state();
        send(&mut s, FLOATUNIFORM_INDEX, &[0]);
        send(&mut s, FLOATUNIFORM_DATA0, &[1, 2]);
        send(&mut s, FLOATUNIFORM_INDEX, &[0x8000_0002]);
        send(&mut s, FLOATUNIFORM_DATA0, &[1.0f32; 4].map(f32::to_bits));
        assert_eq!((s.uniforms.c[0], s.uniforms.c[2]), ([0.0; 4], [1.0; 4]));
        // Without a write it goes on where it was.
        send(&mut s, FLOATUNIFORM_DATA0, &[2.0f32; 2].map(f32::to_bits));
        send(&mut s, FLOATUNIFORM_DATA0, &[2.0f32; 2].map(f32::to_bits));
        assert_eq!((s.uniforms.c[3], s.float_words.count), ([2.0; 4], 0));
    }

    #[test]
    fn a_masked_index_is_merged_with_where_it_stands() {
        let mut s = state();
        send(&mut s, FLOATUNIFORM_INDEX, &[7]);
        send(&mut s, FLOATUNIFORM_DATA0, &[0; 3]);
        s.write(FLOATUNIFORM_INDEX, 0x8000_00FF, 0b1000, 0);
        assert_eq!((s.float_index, s.float32), (8, true), "the mode is new, the index the one that has counted");
        send(&mut s, CODETRANSFER_INDEX, &[0x1FE]);
        send(&mut s, CODETRANSFER_DATA0, &[1]);
        s.write(CODETRANSFER_INDEX, 0xFFFF_FF10, 0b0001, 0);
        assert_eq!(s.code_index, 0x110);
    }

    #[test]
    fn memories_end() {
        let mut s = state();
        send(&mut s, CODETRANSFER_INDEX, &[510]);
        assert!(send(&mut s, CODETRANSFER_DATA0, &[1, 2, 3, 4]));
        assert_eq!((&s.code[510..], s.code[0], s.code_index), (&[1, 2][..], 0, 514), "no way round");
        assert!(!send(&mut s, CODETRANSFER_DATA0, &[5]));
        send(&mut s, OPDESCS_INDEX, &[0xFFFF_F07F]);
        assert!(send(&mut s, OPDESCS_DATA0, &[6]));
        assert!(!send(&mut s, OPDESCS_DATA0, &[7]), "no instruction names descriptor 128");
        assert_eq!((s.opdescs[127], s.opdescs[0], s.opdescs.len()), (6, 0, 128));
    }

    #[test]
    fn equal_words_change_nothing() {
        let mut s = state();
        assert!(send(&mut s, CODETRANSFER_DATA0, &[1, 2, 3]));
        send(&mut s, CODETRANSFER_INDEX, &[0]);
        assert!(!send(&mut s, CODETRANSFER_DATA0, &[1, 2, 3]));
        send(&mut s, CODETRANSFER_INDEX, &[1]);
        assert!(send(&mut s, CODETRANSFER_DATA0, &[9]));
        assert_eq!(s.code[..4], [1, 9, 3, 0], "older words stay");
    }

    #[test]
    fn words_of_a_strange_count_do_no_harm() {
        for count in 0..=u8::MAX {
            let mut words = Words { words: [1, 2, 3], count };
            while words.push::<3>(4).is_none() {}
            assert_eq!(words.count, 0);
        }
    }
}
