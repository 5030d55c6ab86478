//! Output registers -> the 24 numbers that the rasteriser is given, by what they mean.
//!
//! Between a shader and the rasteriser stand two tables that a game sets. A mask says which output registers leave the
//! shader; these fill the slots 0, 1, 2, ... in the order of their numbers. For each of up to seven slots a word says, lane by lane,
//! which number the lane is. What no lane is holds 1 (measured: citra#6966); of two lanes that are the same number the later one
//! counts (as Azahar and Panda have it; *unknown on hardware*).
//!
//! It must not know shaders, nor what becomes of the numbers.

use crate::isa::REGS;
use crate::state::Registers;

/// Numbers that the rasteriser takes for a vertex: position x y z w, quaternion x y z w, colour r g b a, texture coordinates 0 u v,
/// 1 u v, 0 w, one that means nothing, view x y z, one that means nothing, texture coordinates 2 u v.
pub type Semantics = [f32; SEMANTICS];

/// How many there are.
pub const SEMANTICS: usize = 24;

/// Slots that can be given a meaning: the registers `SH_OUTMAP_O0` to `O6`.
pub const SLOTS: usize = 7;

/// The two tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OutputMap {
    mask: u16,
    total: u8,
    slots: [[u8; 4]; SLOTS],
}

impl OutputMap {
    /// From the registers as they are written: bit n of `mask` lets `on` out, the low three bits of `total` are the number of
    /// slots that count, and each byte of `words`, x first, is the number of a lane in its low five bits. Numbers from 24 on mean
    /// nothing; games write 31.
    pub fn new(mask: u16, total: u32, words: [u32; SLOTS]) -> OutputMap {
        let slots = words.map(|word| word.to_le_bytes().map(|byte| byte & 0x1F));
        OutputMap { mask, total: (total & 7) as u8, slots }
    }

    /// What the rasteriser is given for a vertex.
    pub fn apply(&self, outputs: &Registers) -> Semantics {
        self.gather().apply(outputs)
    }

    /// The same, made fast to apply to many vertices.
    pub fn gather(&self) -> Gather {
        let mut gather = [None; SEMANTICS];
        let leaving = (0..REGS as u8).filter(|n| self.mask >> n & 1 != 0);
        for (register, meanings) in leaving.zip(&self.slots[..usize::from(self.total)]) {
            for (lane, &meaning) in (0..).zip(meanings) {
                if let Some(place) = gather.get_mut(usize::from(meaning)) {
                    *place = Some((register, lane));
                }
            }
        }
        Gather(gather)
    }
}

/// For each number the output register and lane that it is, or none if it is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather([Option<(u8, u8)>; SEMANTICS]);

impl Gather {
    /// What the rasteriser is given for a vertex.
    pub fn apply(&self, outputs: &Registers) -> Semantics {
        self.0.map(|source| source.map_or(1.0, |(register, lane)| outputs[usize::from(register)][usize::from(lane)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: u32 = 0x1F1F_1F1F;

    fn outputs() -> Registers {
        std::array::from_fn(|n| std::array::from_fn(|lane| (10 * n + lane) as f32 + 0.5))
    }

    #[test]
    fn registers_that_leave_fill_the_slots_in_order() {
        // o1 and o4 leave; slot 0 is the position, slot 1 the colour backwards.
        let map = OutputMap::new(1 << 1 | 1 << 4, 2, [0x0302_0100, 0x0809_0A0B, 0, 0, 0, 0, 0]);
        let got = map.apply(&outputs());
        assert_eq!(got[..4], [10.5, 11.5, 12.5, 13.5]);
        assert_eq!(got[8..12], [43.5, 42.5, 41.5, 40.5]);
        assert!(got[4..8].iter().chain(&got[12..]).all(|&x| x == 1.0), "nothing else is set");
    }

    #[test]
    fn the_later_of_two_counts_and_bits_beyond_the_fields_do_not() {
        // Two lanes of one slot, then a slot over another; the upper bits of bytes and of the total are nobody's.
        let words = [0x1F1F_E0E0, NOTHING, 0x1F1F_1F00, 0x0000_0000, NOTHING, NOTHING, NOTHING];
        let got = |total| OutputMap::new(0xFFFF, total, words).apply(&outputs())[0];
        assert_eq!((got(0), got(1), got(2), got(3), got(4), got(0xFFFF_FFF9)), (1.0, 1.5, 1.5, 20.5, 33.5, 1.5));
    }

    #[test]
    fn there_may_be_fewer_registers_than_slots_and_no_meaning_is_out_of_bounds() {
        let map = OutputMap::new(1, 7, [0x1716_1817, 0x0302_0100, 0, 0, 0, 0, 0]);
        let got = map.apply(&outputs());
        assert_eq!((got[22], got[23]), (2.5, 3.5));
        assert!(got[..22].iter().all(|&x| x == 1.0));
        assert_eq!(OutputMap::default().apply(&outputs()), [1.0; SEMANTICS]);
    }
}
