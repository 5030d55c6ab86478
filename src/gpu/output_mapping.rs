//! Output registers of a vertex -> the rasteriser's input: an [`OutputMap`] applied, colours
//! clamped.
//!
//! [`OutputPlan`] maps one vertex, or the vertices of a batch, as moves of up to four components into
//! the host's [`VertexFormat`].
//!
//! This file must not know the registers of the GPU.

use super::vertex_format::VertexFormat;
use crate::isa::REGS;
use crate::semantics::{OutputMap, SEMANTICS, Semantics};
use crate::state::{Registers, Vec4};

/// The semantics that are colours.
pub(super) const COLOUR: std::ops::Range<usize> = 8..12;

/// Consecutive components of an output register that go to consecutive numbers of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    /// The first one's number among the components of all output registers.
    from: u8,
    /// 1 to 4, all of one register.
    count: u8,
    /// Whether they are colours.
    is_clamped: bool,
    to: u8,
}

/// Moves as copies of one component each, but those of whole registers. One loop walks each kind, so a
/// vertex alone touches little code: [`Move`] has eight loops. A copy is two positions among the
/// components of all output registers, and in a vertex.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// Whole registers, then components, then colours.
    copies: [[u8; 2]; SEMANTICS],
    /// Where the components and the colours begin, and the end.
    ends: [u8; 3],
}

impl Copies {
    fn new(moves: &[Move]) -> Copies {
        let (mut copies, mut ends, mut n) = ([[0; 2]; SEMANTICS], [0; 3], 0);
        let kind = |m: &&Move| match (m.is_clamped, m.count) {
            (false, 4) => 0,
            (false, _) => 1,
            (true, _) => 2,
        };
        for (k, end) in ends.iter_mut().enumerate() {
            for m in moves.iter().filter(|m| kind(m) == k) {
                for component in 0..if k == 0 { 1 } else { m.count } {
                    copies[n] = [m.from + component, m.to + component];
                    n += 1;
                }
            }
            *end = n as u8;
        }
        Copies { copies, ends }
    }

    fn kind(&self, range: std::ops::Range<u8>) -> impl Iterator<Item = [usize; 2]> {
        let copies = self.copies.get(usize::from(range.start)..usize::from(range.end)).unwrap_or_default();
        copies.iter().map(|copy| copy.map(usize::from))
    }
}

/// An output map and a vertex format, as moves.
#[derive(Clone, Debug)]
pub(super) struct OutputPlan {
    format: VertexFormat,
    /// Whether vertices are [`Semantics`].
    pub(super) is_default: bool,
    moves: Vec<Move>,
    /// The same for a vertex alone.
    copies: Copies,
    /// A vertex without outputs.
    unset: Vec<f32>,
    /// The output registers that the map reads; bit n is `on`. An incomplete primitive holds all
    /// semantics, also those that the format leaves out.
    pub(super) mask: u16,
}

impl OutputPlan {
    pub(super) fn new(map: &OutputMap, format: VertexFormat) -> OutputPlan {
        let mut moves: Vec<Move> = Vec::new();
        let mut mask = 0;
        for (semantic, source) in map.selection().sources().iter().enumerate() {
            let Some((register, component)) = *source else { continue };
            mask |= 1 << register;
            let Some(offset) = format.offset(semantic) else { continue };
            let (from, to, is_clamped) = (4 * register + component, offset as u8, COLOUR.contains(&semantic));
            let continues = |m: &&mut Move| {
                let next = (m.from + m.count, m.to.checked_add(m.count), m.is_clamped);
                component != 0 && next == (from, Some(to), is_clamped)
            };
            match moves.last_mut().filter(continues) {
                Some(last) => last.count += 1,
                None => moves.push(Move { from, count: 1, is_clamped, to }),
            }
        }
        let mut unset = vec![0.0; format.stride()];
        format.store(&[1.0; SEMANTICS], &mut unset);
        let copies = Copies::new(&moves);
        OutputPlan { format, is_default: format == VertexFormat::default(), moves, copies, unset, mask }
    }

    /// The plan whose vertices are [`Semantics`].
    pub(super) fn semantics(map: &OutputMap) -> OutputPlan {
        OutputPlan::new(map, VertexFormat::default())
    }

    pub(super) fn format(&self) -> &VertexFormat {
        &self.format
    }

    /// A vertex without outputs. [`OutputPlan::map`] and [`OutputPlan::map_rows`] expect vertices
    /// that begin as copies of it.
    pub(super) fn unset(&self) -> &[f32] {
        &self.unset
    }

    /// Maps one vertex. The rasteriser takes the absolute values of colours, at most 1, before it
    /// interpolates (observed on hardware, by yuriks).
    #[inline]
    pub(super) fn map(&self, outputs: &Registers, vertex: &mut [f32]) {
        let Copies { ends: [registers, components, colours], .. } = self.copies;
        let outputs: &[f32; 4 * REGS] = outputs.as_flattened().try_into().expect("all registers");
        // No `from` is greater; the remainder shows that to the compiler.
        let output = |from: usize| outputs[from % (4 * REGS)];
        for [from, to] in self.copies.kind(0..registers) {
            if let (Some(from), Some(to)) = (outputs.get(from..from + 4), vertex.get_mut(to..to + 4)) {
                to.copy_from_slice(from);
            }
        }
        for [from, to] in self.copies.kind(registers..components) {
            if let Some(to) = vertex.get_mut(to) {
                *to = output(from);
            }
        }
        for [from, to] in self.copies.kind(components..colours) {
            if let Some(to) = vertex.get_mut(to) {
                *to = clamped(output(from));
            }
        }
    }

    /// [`OutputPlan::map`] of a plan with the default format.
    pub(super) fn map_semantics(&self, outputs: &Registers) -> Semantics {
        let mut vertex = [1.0; SEMANTICS];
        self.map(outputs, &mut vertex);
        vertex
    }

    /// [`OutputPlan::map_semantics`] of the first output registers.
    pub(super) fn map_packed(&self, outputs: &[Vec4]) -> Semantics {
        let mut all = Registers::default();
        all.iter_mut().zip(outputs).for_each(|(to, output)| *to = *output);
        self.map_semantics(&all)
    }

    /// Maps as many vertices as there are rows of `stride` output registers, move by move.
    pub(super) fn map_rows(&self, outputs: &[Vec4], stride: usize, vertices: &mut [f32]) {
        for &step in &self.moves {
            match (step.count, step.is_clamped) {
                (1, false) => step.apply_rows::<1, false>(outputs, stride, vertices, self.format.stride()),
                (2, false) => step.apply_rows::<2, false>(outputs, stride, vertices, self.format.stride()),
                (3, false) => step.apply_rows::<3, false>(outputs, stride, vertices, self.format.stride()),
                (_, false) => step.apply_rows::<4, false>(outputs, stride, vertices, self.format.stride()),
                (1, true) => step.apply_rows::<1, true>(outputs, stride, vertices, self.format.stride()),
                (2, true) => step.apply_rows::<2, true>(outputs, stride, vertices, self.format.stride()),
                (3, true) => step.apply_rows::<3, true>(outputs, stride, vertices, self.format.stride()),
                (_, true) => step.apply_rows::<4, true>(outputs, stride, vertices, self.format.stride()),
            }
        }
    }
}

impl Move {
    #[inline(always)]
    fn apply<const COUNT: usize, const CLAMP: bool>(self, outputs: &[Vec4], vertex: &mut [f32]) {
        let (from, to) = (usize::from(self.from), usize::from(self.to));
        let (from, to) = (outputs.as_flattened().get(from..from + COUNT), vertex.get_mut(to..to + COUNT));
        if let (Some(from), Some(to)) = (from, to) {
            // Not `array::map`, which is not always inlined.
            to.iter_mut().zip(from).for_each(|(to, c)| *to = if CLAMP { clamped(*c) } else { *c });
        }
    }

    fn apply_rows<const COUNT: usize, const CLAMP: bool>(
        self,
        outputs: &[Vec4],
        output_stride: usize,
        vertices: &mut [f32],
        vertex_stride: usize,
    ) {
        let rows = outputs.chunks_exact(output_stride).zip(vertices.chunks_exact_mut(vertex_stride));
        rows.for_each(|(outputs, vertex)| self.apply::<COUNT, CLAMP>(outputs, vertex));
    }
}

/// The magnitude of a colour, at most 1, and 1 for a NaN.
///
/// Magnitudes have the order of their bits, and every NaN is above 1. A comparison of floats may become
/// an instruction for minima, which returns NaN for a signalling NaN on 64-bit Arm.
#[inline(always)]
fn clamped(c: f32) -> f32 {
    // Signed, since SSE2 compares such numbers only.
    f32::from_bits((c.abs().to_bits() as i32).min(1f32.to_bits() as i32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a plan does, without moves.
    fn semantics(map: &OutputMap, outputs: &Registers) -> Semantics {
        let mut semantics = map.apply(outputs);
        semantics[COLOUR].iter_mut().for_each(|c| *c = if c.is_nan() { 1.0 } else { c.abs().min(1.0) });
        semantics
    }

    #[test]
    fn colours_are_absolute_values_clamped_to_one() {
        let plan = |word| OutputPlan::semantics(&OutputMap::new(1, 1, [word, 0, 0, 0, 0, 0, 0]));
        let mut outputs: Registers = Default::default();
        outputs[0] = [-0.5, 2.0, -f32::INFINITY, f32::NAN];
        assert_eq!(plan(0x0B0A_0908).map_semantics(&outputs)[COLOUR], [0.5, 1.0, 1.0, 1.0]);
        outputs[0][3] = f32::from_bits(0x7F80_0001);
        assert_eq!(plan(0x0B0A_0908).map_semantics(&outputs)[COLOUR], [0.5, 1.0, 1.0, 1.0], "a signalling NaN");
        outputs[0][3] = 0.25;
        assert_eq!(plan(0x0302_0100).map_semantics(&outputs)[..3], outputs[0][..3], "only colours are clamped");
    }

    #[test]
    fn a_plan_maps_like_the_map() {
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
                let plan = OutputPlan::new(&map, format);
                let mut rows = plan.unset().repeat(3);
                plan.map_rows(outputs.as_flattened(), 16, &mut rows);
                let mut want = vec![0.0; 3 * format.stride()];
                let mut single = plan.unset().repeat(3);
                for ((outputs, want), single) in outputs
                    .iter()
                    .zip(want.chunks_exact_mut(format.stride()))
                    .zip(single.chunks_exact_mut(format.stride()))
                {
                    format.store(&semantics(&map, outputs), want);
                    plan.map(outputs, single);
                }
                let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&rows), bits(&want));
                assert_eq!(bits(&single), bits(&want));
            }
        }
    }
}
