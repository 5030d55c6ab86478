//! Output registers of a vertex -> what the rasteriser is given: an [`OutputMap`]'s numbers, colours in range.
//!
//! It must not know registers of the GPU.

use crate::isa::numeric::Precision;
use crate::semantics::{OutputMap, OutputSelection, Semantics};
use crate::state::Registers;

/// Set up for a draw.
pub(super) struct Wiring(OutputSelection);

const COLOUR: std::ops::Range<usize> = 8..12;

impl Wiring {
    pub(super) fn new(map: &OutputMap) -> Wiring {
        Wiring(map.selection())
    }

    /// The rasteriser takes the absolute values of colours, at most 1, before it interpolates (seen on hardware, by
    /// yuriks).
    pub(super) fn apply(&self, outputs: &Registers) -> Semantics {
        let mut semantics = self.0.apply(outputs);
        semantics[COLOUR].iter_mut().for_each(|c| *c = Precision::F32.min(c.abs(), 1.0));
        semantics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_magnitudes_of_one_at_most() {
        let wiring = |word| Wiring::new(&OutputMap::new(1, 1, [word, 0, 0, 0, 0, 0, 0]));
        let mut outputs: Registers = Default::default();
        outputs[0] = [-0.5, 2.0, -f32::INFINITY, f32::NAN];
        assert_eq!(wiring(0x0B0A_0908).apply(&outputs)[COLOUR], [0.5, 1.0, 1.0, 1.0]);
        outputs[0][3] = f32::from_bits(0x7F80_0001);
        assert_eq!(wiring(0x0B0A_0908).apply(&outputs)[COLOUR], [0.5, 1.0, 1.0, 1.0], "a signalling NaN");
        outputs[0][3] = 0.25;
        assert_eq!(wiring(0x0302_0100).apply(&outputs)[..3], outputs[0][..3], "and nothing else is");
    }
}
