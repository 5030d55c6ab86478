//! Output registers of a vertex -> the rasteriser's input: an [`OutputMap`] applied, colours
//! clamped.
//!
//! This file must not know the registers of the GPU.

use crate::isa::numeric::Precision;
use crate::semantics::{OutputMap, OutputSelection, Semantics};
use crate::state::Registers;

/// An output map, prepared for a draw.
pub(super) struct OutputMapping(OutputSelection);

const COLOUR: std::ops::Range<usize> = 8..12;

impl OutputMapping {
    pub(super) fn new(map: &OutputMap) -> OutputMapping {
        OutputMapping(map.selection())
    }

    /// Maps one vertex. The rasteriser takes the absolute values of colours, at most 1, before it
    /// interpolates (observed on hardware, by yuriks).
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
    fn colours_are_absolute_values_clamped_to_one() {
        let mapping = |word| OutputMapping::new(&OutputMap::new(1, 1, [word, 0, 0, 0, 0, 0, 0]));
        let mut outputs: Registers = Default::default();
        outputs[0] = [-0.5, 2.0, -f32::INFINITY, f32::NAN];
        assert_eq!(mapping(0x0B0A_0908).apply(&outputs)[COLOUR], [0.5, 1.0, 1.0, 1.0]);
        outputs[0][3] = f32::from_bits(0x7F80_0001);
        assert_eq!(mapping(0x0B0A_0908).apply(&outputs)[COLOUR], [0.5, 1.0, 1.0, 1.0], "a signalling NaN");
        outputs[0][3] = 0.25;
        assert_eq!(mapping(0x0302_0100).apply(&outputs)[..3], outputs[0][..3], "only colours are clamped");
    }
}
