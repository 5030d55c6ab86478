//! Output registers of a vertex -> the rasteriser's input: an [`OutputMap`] applied, colours
//! clamped.
//!
//! [`OutputPlan`] maps the vertices of a batch as moves of up to four components into the host's
//! [`VertexFormat`]: a loop over the vertices for each width. One vertex takes a loop of its own for
//! all widths, which touches a third of that code.
//!
//! This file must not know the registers of the GPU.

use super::lanes::Lanes;
use super::vertex_format::VertexFormat;
use crate::semantics::{OutputMap, SEMANTICS, Semantics};
use crate::state::Vec4;

/// The semantics that are colours.
pub(super) const COLOUR: std::ops::Range<usize> = 8..12;

/// The kinds of moves: how many components, and whether they are colours. One loop walks each, so that
/// a draw touches little code.
const KINDS: [(u8, bool); 5] = [(4, false), (2, false), (1, false), (4, true), (1, true)];

/// Moves of consecutive components of an output register to consecutive numbers of a vertex.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// The first component's number among those of all output registers, and its number in the vertex. Sorted
    /// by kind.
    moves: [[u8; 2]; SEMANTICS],
    /// Where each of the [`KINDS`] ends.
    ends: [u8; KINDS.len()],
}

impl Moves {
    /// From runs of components: the first one's numbers, how many there are, and whether they are colours.
    fn new(runs: &[Run]) -> Moves {
        let (mut moves, mut ends, mut n) = ([[0; 2]; SEMANTICS], [0; KINDS.len()], 0);
        for ((width, is_clamped), end) in KINDS.into_iter().zip(&mut ends) {
            for run in runs.iter().filter(|run| run.is_clamped() == is_clamped) {
                // A run begins with its widest moves.
                let wider = KINDS.iter().filter(|&&(other, colour)| other > width && colour == is_clamped);
                let done = wider.fold(0, |done, (other, _)| done + (run.count - done) / other * other);
                for component in (done..run.count).step_by(width.into()) {
                    if component + width <= run.count {
                        moves[n] = [run.from + component, run.to + component];
                        n += 1;
                    }
                }
            }
            *end = n as u8;
        }
        Moves { moves, ends }
    }

    /// Moves the components of each row of `stride` numbers to one of the vertices.
    #[inline(always)]
    fn apply(&self, outputs: &[f32], stride: usize, vertices: &mut [f32], vertex_stride: usize) {
        let mut at = Rows { outputs, stride, vertices, vertex_stride };
        let [a, b, c, d, e] = self.ends;
        self.moves(0, a).for_each(|step| at.apply::<4, false>(step));
        self.moves(a, b).for_each(|step| at.apply::<2, false>(step));
        self.moves(b, c).for_each(|step| at.apply::<1, false>(step));
        self.moves(c, d).for_each(|step| at.apply::<4, true>(step));
        self.moves(d, e).for_each(|step| at.apply::<1, true>(step));
    }

    #[inline(always)]
    fn moves(&self, start: u8, end: u8) -> impl Iterator<Item = [usize; 2]> {
        let moves = self.moves.get(usize::from(start)..usize::from(end)).unwrap_or_default();
        moves.iter().map(|step| step.map(usize::from))
    }
}

/// Consecutive components of an output register that go to consecutive numbers of a vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// The first one's number among the components of all output registers.
    from: u8,
    to: u8,
    /// 1 to 4, all of one register.
    count: u8,
    /// The bits that stay of each, and the most that these may be, so that one loop serves colours as well.
    kept: u32,
    limit: i32,
}

impl Run {
    fn new(from: u8, to: u8, is_clamped: bool) -> Run {
        let (kept, limit) = if is_clamped { MAGNITUDE } else { (u32::MAX, i32::MAX) };
        Run { from, to, count: 1, kept, limit }
    }

    fn is_clamped(&self) -> bool {
        self.limit != i32::MAX
    }

    /// Moves the components of one vertex, as four whose others stay.
    #[inline(always)]
    fn apply(&self, outputs: &[f32], vertex: &mut [f32]) {
        let (from, to) = (usize::from(self.from), usize::from(self.to));
        let (Some(&[x, y, z, w]), Some([a, b, c, d])) = (outputs.get(from..from + 4), vertex.get_mut(to..to + 4))
        else {
            return self.apply_each(outputs, vertex);
        };
        let moved = [self.clamped(x), self.clamped(y), self.clamped(z), self.clamped(w)];
        let old = [a.to_bits(), b.to_bits(), c.to_bits(), d.to_bits()];
        let [x, y, z, w] = Lanes::first(self.count).merge(moved, old);
        (*a, *b, *c, *d) = (f32::from_bits(x), f32::from_bits(y), f32::from_bits(z), f32::from_bits(w));
    }

    /// [`Run::apply`] where fewer than four numbers follow.
    #[inline(never)]
    fn apply_each(&self, outputs: &[f32], vertex: &mut [f32]) {
        let (from, to) = (usize::from(self.from), usize::from(self.to));
        let (Some(source), Some(target)) = (outputs.get(from..), vertex.get_mut(to..)) else { return };
        let components = target.iter_mut().zip(source).take(self.count.into());
        components.for_each(|(to, c)| *to = f32::from_bits(self.clamped(*c)));
    }

    #[inline(always)]
    fn clamped(&self, c: f32) -> u32 {
        limited(c, (self.kept, self.limit))
    }
}

/// Outputs of vertices, and where they go.
struct Rows<'a> {
    outputs: &'a [f32],
    stride: usize,
    vertices: &'a mut [f32],
    vertex_stride: usize,
}

impl Rows<'_> {
    #[inline(always)]
    fn apply<const WIDTH: usize, const CLAMP: bool>(&mut self, [mut from, mut to]: [usize; 2]) {
        // The checks of the positions end the loop, after the last row.
        while let (Some(source), Some(vertex)) =
            (self.outputs.get(from..from + WIDTH), self.vertices.get_mut(to..to + WIDTH))
        {
            // Not `array::map`, which is not always inlined.
            vertex.iter_mut().zip(source).for_each(|(to, c)| *to = if CLAMP { clamped(*c) } else { *c });
            (from, to) = (from + self.stride, to + self.vertex_stride);
        }
    }
}

/// An output map and a vertex format, as moves.
#[derive(Clone, Debug)]
#[repr(C)] // what a vertex alone needs comes first
pub(super) struct OutputPlan {
    format: VertexFormat,
    /// Whether vertices are [`Semantics`].
    pub(super) is_default: bool,
    run_count: u8,
    /// The moves of one vertex.
    runs: [Run; SEMANTICS],
    /// The moves of many.
    moves: Moves,
    /// A vertex without outputs.
    unset: Vec<f32>,
    /// The output registers that the map reads; bit n is `on`. An incomplete primitive holds all
    /// semantics, also those that the format leaves out.
    pub(super) mask: u16,
}

impl OutputPlan {
    pub(super) fn new(map: &OutputMap, format: VertexFormat) -> OutputPlan {
        let mut runs: Vec<Run> = Vec::new();
        let mut mask = 0;
        for (semantic, source) in map.selection().sources().iter().enumerate() {
            let Some((register, component)) = *source else { continue };
            mask |= 1 << register;
            let Some(offset) = format.offset(semantic) else { continue };
            let (from, to, is_clamped) = (4 * register + component, offset as u8, COLOUR.contains(&semantic));
            let continues = |run: &&mut Run| {
                let next = (run.from + run.count, run.to.checked_add(run.count), run.is_clamped());
                component != 0 && next == (from, Some(to), is_clamped)
            };
            match runs.last_mut().filter(continues) {
                Some(last) => last.count += 1,
                None => runs.push(Run::new(from, to, is_clamped)),
            }
        }
        let mut unset = vec![0.0; format.stride()];
        format.store(&[1.0; SEMANTICS], &mut unset);
        let moves = Moves::new(&runs);
        let run_count = runs.len() as u8;
        runs.resize(SEMANTICS, Run::default());
        let runs = runs.try_into().expect("no more runs than semantics");
        OutputPlan { format, is_default: format == VertexFormat::default(), run_count, runs, moves, unset, mask }
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

    /// Maps one vertex, whose outputs are registers from `o0` on. The rasteriser takes the absolute values of
    /// colours, at most 1, before it interpolates (observed on hardware, by yuriks).
    #[inline(always)]
    pub(super) fn map(&self, outputs: &[f32], vertex: &mut [f32]) {
        for run in self.runs.get(..self.run_count.into()).unwrap_or_default() {
            run.apply(outputs, vertex);
        }
    }

    /// [`OutputPlan::map`] of a plan with the default format.
    pub(super) fn map_semantics(&self, outputs: &[Vec4]) -> Semantics {
        let mut vertex = [1.0; SEMANTICS];
        self.map(outputs.as_flattened(), &mut vertex);
        vertex
    }

    /// Maps as many vertices as there are rows of `stride` output registers.
    pub(super) fn map_rows(&self, outputs: &[Vec4], stride: usize, vertices: &mut [f32]) {
        self.moves.apply(outputs.as_flattened(), 4 * stride, vertices, self.format.stride());
    }
}

/// The magnitude of a colour, at most 1, and 1 for a NaN.
///
/// Magnitudes have the order of their bits, and every NaN is above 1. A comparison of floats may become
/// an instruction for minima, which returns NaN for a signalling NaN on 64-bit Arm.
#[inline(always)]
fn clamped(c: f32) -> f32 {
    f32::from_bits(limited(c, MAGNITUDE))
}

/// The bits that [`clamped`] keeps, and the most that these may be.
const MAGNITUDE: (u32, i32) = (0x7FFF_FFFF, 1f32.to_bits() as i32);

#[inline(always)]
fn limited(c: f32, (kept, limit): (u32, i32)) -> u32 {
    // Signed, since SSE2 compares such numbers only.
    ((c.to_bits() & kept) as i32).min(limit) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Registers;

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
            let formats = [VertexFormat::default(), VertexFormat::new(offsets, 47).expect("46 is below 47")];
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
                    plan.map(outputs.as_flattened(), single);
                }
                let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&rows), bits(&want));
                assert_eq!(bits(&single), bits(&want));
            }
        }
    }
}
