//! Output registers of a vertex -> what the rasteriser is given: an [`OutputMap`] made fast to apply to many vertices.
//!
//! Invariant: it gives what the map gives, but for colours. It must not know registers of the GPU.

use crate::isa::REGS;
use crate::semantics::{OutputMap, SEMANTICS, Semantics};
use crate::state::Registers;

/// Which component of the output registers each number is.
pub(super) struct Wiring([u8; SEMANTICS]);

/// A number that is no component: it is 1.
const UNSET: u8 = u8::MAX;
/// Components of the output registers.
const COMPONENTS: usize = 4 * REGS;
const COLOUR: std::ops::Range<usize> = 8..12;

impl Wiring {
    pub(super) fn new(map: &OutputMap) -> Wiring {
        // What the map makes of registers that hold the numbers of their components, none of which is 1.
        let numbered: Registers = std::array::from_fn(|n| std::array::from_fn(|lane| (4 * n + lane + 2) as f32));
        Wiring(map.apply(&numbered).map(|x| if x == 1.0 { UNSET } else { x as u8 - 2 }))
    }

    /// The rasteriser takes the absolute values of colours, at most 1, before it interpolates (seen on hardware, by
    /// yuriks).
    pub(super) fn apply(&self, outputs: &Registers) -> Semantics {
        let components = outputs.as_flattened();
        let mut semantics = self.0.map(|at| if at == UNSET { 1.0 } else { components[usize::from(at) % COMPONENTS] });
        semantics[COLOUR].iter_mut().for_each(|c| *c = c.abs().min(1.0));
        semantics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_is_the_same_when_it_is_fast() {
        let outputs: Registers = std::array::from_fn(|n| std::array::from_fn(|lane| (4 * n + lane) as f32 / 128.0));
        for seed in 0..2000u32 {
            let word = |n: u32| (seed ^ n << 16).wrapping_mul(0x9E37_79B9) ^ seed.wrapping_mul(0x85EB_CA6B) >> n;
            let map = OutputMap::new(word(8) as u16, word(9), std::array::from_fn(|n| word(n as u32)));
            assert_eq!(Wiring::new(&map).apply(&outputs), map.apply(&outputs), "{map:?}");
        }
    }

    #[test]
    fn colours_are_magnitudes_of_one_at_most() {
        let wiring = |word| Wiring::new(&OutputMap::new(1, 1, [word, 0, 0, 0, 0, 0, 0]));
        let mut outputs: Registers = Default::default();
        outputs[0] = [-0.5, 2.0, -f32::INFINITY, f32::NAN];
        assert_eq!(wiring(0x0B0A_0908).apply(&outputs)[COLOUR], [0.5, 1.0, 1.0, 1.0]);
        assert_eq!(wiring(0x0302_0100).apply(&outputs)[..3], outputs[0][..3], "and nothing else is");
    }
}
