//! Output registers of a vertex -> the rasteriser's input: an [`OutputMap`] applied, colours
//! clamped.
//!
//! [`OutputMapping`] maps one vertex and is the definition. [`OutputPlan`] does the same for the
//! vertices of a batch, as moves of up to four components into the host's [`VertexFormat`].
//!
//! This file must not know the registers of the GPU.

use super::vertex_format::VertexFormat;
use crate::semantics::{OutputMap, OutputSelection, SEMANTICS, Semantics};
use crate::state::{Registers, Vec4};

/// An output map, prepared for a draw.
#[derive(Clone, Debug)]
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
        semantics[COLOUR].iter_mut().for_each(|c| *c = clamped(*c));
        semantics
    }
}

/// Consecutive components of an output register that go to consecutive numbers of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    register: u8,
    component: u8,
    count: u8,
    /// Whether they are colours.
    is_clamped: bool,
    offset: u8,
}

/// An output map and a vertex format, as moves.
#[derive(Clone, Debug)]
pub(super) struct OutputPlan {
    format: VertexFormat,
    /// Whether vertices are [`Semantics`].
    pub(super) is_default: bool,
    moves: Vec<Move>,
    /// A vertex without outputs.
    unset: Vec<f32>,
    /// The output registers that the map reads; bit n is `on`. An incomplete primitive holds all
    /// semantics, also those that the format leaves out.
    pub(super) mask: u16,
}

impl OutputPlan {
    pub(super) fn new(mapping: &OutputMapping, format: VertexFormat) -> OutputPlan {
        let mut moves: Vec<Move> = Vec::new();
        let mut mask = 0;
        for (semantic, source) in mapping.0.sources().iter().enumerate() {
            let Some((register, component)) = *source else { continue };
            mask |= 1 << register;
            let Some(offset) = format.offset(semantic) else { continue };
            let (offset, is_clamped) = (offset as u8, COLOUR.contains(&semantic));
            let continues = |m: &&mut Move| {
                let next = (m.register, m.component + m.count, m.offset.checked_add(m.count), m.is_clamped);
                next == (register, component, Some(offset), is_clamped)
            };
            match moves.last_mut().filter(continues) {
                Some(last) => last.count += 1,
                None => moves.push(Move { register, component, count: 1, is_clamped, offset }),
            }
        }
        let mut unset = vec![0.0; format.stride()];
        format.store(&[1.0; SEMANTICS], &mut unset);
        OutputPlan { format, is_default: format == VertexFormat::default(), moves, unset, mask }
    }

    pub(super) fn format(&self) -> &VertexFormat {
        &self.format
    }

    /// A vertex without outputs. [`OutputPlan::apply`] expects vertices that begin as copies of it.
    pub(super) fn unset(&self) -> &[f32] {
        &self.unset
    }

    /// Maps as many vertices as there are rows of `stride` output registers.
    pub(super) fn apply(&self, outputs: &[Vec4], stride: usize, vertices: &mut [f32]) {
        for &step in &self.moves {
            match (step.count, step.is_clamped) {
                (1, false) => step.apply::<1, false>(outputs, stride, vertices, self.format.stride()),
                (2, false) => step.apply::<2, false>(outputs, stride, vertices, self.format.stride()),
                (3, false) => step.apply::<3, false>(outputs, stride, vertices, self.format.stride()),
                (_, false) => step.apply::<4, false>(outputs, stride, vertices, self.format.stride()),
                (1, true) => step.apply::<1, true>(outputs, stride, vertices, self.format.stride()),
                (2, true) => step.apply::<2, true>(outputs, stride, vertices, self.format.stride()),
                (3, true) => step.apply::<3, true>(outputs, stride, vertices, self.format.stride()),
                (_, true) => step.apply::<4, true>(outputs, stride, vertices, self.format.stride()),
            }
        }
    }
}

impl Move {
    fn apply<const COUNT: usize, const CLAMP: bool>(
        self,
        outputs: &[Vec4],
        output_stride: usize,
        vertices: &mut [f32],
        vertex_stride: usize,
    ) {
        let [register, component, offset] = [self.register, self.component, self.offset].map(usize::from);
        let rows = outputs.chunks_exact(output_stride).zip(vertices.chunks_exact_mut(vertex_stride));
        for (outputs, vertex) in rows {
            let from = outputs[register][component..].first_chunk::<COUNT>();
            let to = vertex[offset..].first_chunk_mut::<COUNT>();
            if let (Some(from), Some(to)) = (from, to) {
                // Not `array::map`, which is not always inlined.
                to.iter_mut().zip(from).for_each(|(to, c)| *to = if CLAMP { clamped(*c) } else { *c });
            }
        }
    }
}

/// The magnitude of a colour, at most 1, and 1 for a NaN.
///
/// Magnitudes have the order of their bits, and every NaN is above 1. A comparison of floats may become
/// an instruction for minima, which returns NaN for a signalling NaN on 64-bit Arm.
#[inline(always)]
fn clamped(c: f32) -> f32 {
    f32::from_bits(c.abs().to_bits().min(1f32.to_bits()))
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

    #[test]
    fn a_plan_maps_like_the_mapping() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for _ in 0..crate::testing::miri_or(20, 2000) {
            let words = std::array::from_fn(|_| match next() % 3 {
                0 => [0x0302_0100, 0x0B0A_0908, 0x1F1F_0D0C, 0x0706_0504][next() as usize % 4],
                _ => next() << 16 | next() & 0xFFFF,
            });
            let map = OutputMap::new(next() as u16, next() % 8, words);
            let mapping = OutputMapping::new(&map);
            let offsets = std::array::from_fn(|n| (next() % 4 != 0).then_some(n as u8 * 2));
            let formats = [VertexFormat::default(), VertexFormat::new(offsets, 50).expect("46 is below 50")];
            let outputs: [Registers; 3] = std::array::from_fn(|_| {
                std::array::from_fn(|_| {
                    std::array::from_fn(|_| match next() % 8 {
                        0 => f32::NAN,
                        1 => f32::NEG_INFINITY,
                        2 => -0.0,
                        // A signalling NaN.
                        3 => f32::from_bits(0x7F80_0001),
                        _ => next() as f32 / (1 << 22) as f32 - 2.0,
                    })
                })
            });
            for format in formats {
                let plan = OutputPlan::new(&mapping, format);
                let mut vertices = plan.unset().repeat(3);
                plan.apply(outputs.as_flattened(), 16, &mut vertices);
                let mut want = vec![0.0; 3 * format.stride()];
                for (outputs, want) in outputs.iter().zip(want.chunks_exact_mut(format.stride())) {
                    format.store(&mapping.apply(outputs), want);
                }
                let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&vertices), bits(&want));
            }
        }
    }
}
