//! Output registers -> the 24 semantic components that the rasteriser receives for a vertex.
//!
//! A game sets two tables between shader and rasteriser. A mask selects output registers; these
//! fill slots 0, 1, 2, ... in register order. For each of up to seven slots, a word names the
//! semantic of each component. A semantic without a component is 1 (measured: citra#6966). If two
//! components have the same semantic, the later one wins (as in Azahar and Panda; *unknown on
//! hardware*).

use crate::isa::REGS;
use crate::state::Registers;

/// The semantic components of a vertex: position x y z w, quaternion x y z w, colour r g b a,
/// texture coordinates 0 u v, 1 u v, 0 w, one unused, view x y z, one unused, texture coordinates 2
/// u v.
pub type Semantics = [f32; SEMANTICS];

/// Number of semantic components.
pub const SEMANTICS: usize = 24;

/// Slots with semantics: the registers `SH_OUTMAP_O0` to `O6`.
pub const SLOTS: usize = 7;

/// The mask of output registers and the semantics of the slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OutputMap {
    mask: u16,
    total: u8,
    slots: [[u8; 4]; SLOTS],
}

impl OutputMap {
    /// The map of these register values. Bit n of `mask` selects `on`. The low three bits of
    /// `total` are the number of slots in use. The low five bits of each byte of `words`, x first,
    /// are the semantic of a component; values from 24 on mean none, and games write 31.
    pub fn new(mask: u16, total: u32, words: [u32; SLOTS]) -> OutputMap {
        let slots = words.map(|word| word.to_le_bytes().map(|byte| byte & 0x1F));
        OutputMap { mask, total: (total & 7) as u8, slots }
    }

    /// The semantic components of a vertex.
    pub fn apply(&self, outputs: &Registers) -> Semantics {
        self.selection().apply(outputs)
    }

    /// The same map, inverted: fast to apply to many vertices.
    pub fn selection(&self) -> OutputSelection {
        let mut sources = [None; SEMANTICS];
        let leaving = (0..REGS as u8).filter(|n| self.mask >> n & 1 != 0);
        for (register, meanings) in leaving.zip(&self.slots[..usize::from(self.total)]) {
            for (component, &meaning) in (0..).zip(meanings) {
                if let Some(source) = sources.get_mut(usize::from(meaning)) {
                    *source = Some((register, component));
                }
            }
        }
        OutputSelection(sources)
    }
}

/// For each semantic its output register and component, or none if the semantic is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputSelection([Option<(u8, u8)>; SEMANTICS]);

impl OutputSelection {
    /// For each semantic its output register and component.
    pub(crate) fn sources(&self) -> &[Option<(u8, u8)>; SEMANTICS] {
        &self.0
    }

    /// The semantic components of a vertex.
    pub fn apply(&self, outputs: &Registers) -> Semantics {
        self.0.map(|source| {
            source.map_or(1.0, |(register, component)| outputs[usize::from(register)][usize::from(component)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: u32 = 0x1F1F_1F1F;

    fn outputs() -> Registers {
        std::array::from_fn(|n| std::array::from_fn(|component| (10 * n + component) as f32 + 0.5))
    }

    #[test]
    fn selected_registers_fill_the_slots_in_order() {
        // The mask selects o1 and o4. Slot 0 is the position, slot 1 the colour in reverse.
        let map = OutputMap::new(1 << 1 | 1 << 4, 2, [0x0302_0100, 0x0809_0A0B, 0, 0, 0, 0, 0]);
        let got = map.apply(&outputs());
        assert_eq!(got[..4], [10.5, 11.5, 12.5, 13.5]);
        assert_eq!(got[8..12], [43.5, 42.5, 41.5, 40.5]);
        assert!(got[4..8].iter().chain(&got[12..]).all(|&x| x == 1.0), "nothing else is set");
    }

    #[test]
    fn the_later_component_wins_and_unused_bits_are_ignored() {
        // Two components of one slot, then one slot over another. The upper bits of each byte and
        // of the total are unused.
        let words = [0x1F1F_E0E0, NOTHING, 0x1F1F_1F00, 0x0000_0000, NOTHING, NOTHING, NOTHING];
        let got = |total| OutputMap::new(0xFFFF, total, words).apply(&outputs())[0];
        assert_eq!((got(0), got(1), got(2), got(3), got(4), got(0xFFFF_FFF9)), (1.0, 1.5, 1.5, 20.5, 33.5, 1.5));
    }

    #[test]
    fn fewer_registers_than_slots_and_unused_semantics_are_in_bounds() {
        let map = OutputMap::new(1, 7, [0x1716_1817, 0x0302_0100, 0, 0, 0, 0, 0]);
        let got = map.apply(&outputs());
        assert_eq!((got[22], got[23]), (2.5, 3.5));
        assert!(got[..22].iter().all(|&x| x == 1.0));
        assert_eq!(OutputMap::default().apply(&outputs()), [1.0; SEMANTICS]);
    }
}
