//! A batch: the input and output registers of many vertices, and the masks that select them.
//!
//! Invariant: a [`Strided`] has `stride * count` registers.

use super::unit::{Registers, Vec4};
use crate::isa::REGS;
use crate::isa::flow::Exit;
use std::ops::{Deref, Index, IndexMut, Range};

/// Vertices that run in order on one unit, with registers carried over.
///
/// ```
/// use picajit::state::{Batch, Registers};
/// let (inputs, mut outputs) = ([[[1.0; 4]; 16]; 8], [[[0.0; 4]; 16]; 8]);
/// // v0 and v1 to o0 and o1; the unit stays ready for the next draw.
/// let batch = Batch {
///     inputs: (&inputs).into(),
///     outputs: (&mut outputs).into(),
///     input_mask: 0b11,
///     output_mask: 0b11,
///     preserve_unit: true,
/// };
/// assert_eq!(batch.len(), 8);
/// # let _: Registers = inputs[0];
/// ```
pub struct Batch<'a> {
    /// The inputs of each vertex.
    pub inputs: Vertices<'a>,
    /// The outputs of each vertex. The shorter of `inputs` and `outputs` is the number of vertices.
    pub outputs: VerticesMut<'a>,
    /// The `v` registers that `inputs` sets (bit n = `vn`). The others, and those beyond the
    /// [stride](Vertices::mask), keep the unit's values.
    pub input_mask: u16,
    /// The `o` registers that are copied to `outputs` (bit n = `on`), as far as the
    /// [stride](Vertices::mask) has them. The others are unchanged.
    pub output_mask: u16,
    /// Whether the unit is unchanged after the batch, as if the batch ran on a copy. Otherwise the
    /// unit ends in the state after the last vertex, which may have to run once more only for that.
    /// For hosts that begin each draw with the same unit.
    pub preserve_unit: bool,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchExit {
    /// [`Exit::Fuel`] if a vertex ran out of fuel, or [`Exit::Cancelled`]. Otherwise the first exit
    /// of a vertex that is not [`Exit::End`], or [`Exit::End`].
    pub exit: Exit,
    /// Number of vertices that ran, in order. [`Exit::Fuel`] and [`Exit::Cancelled`] end a batch
    /// before its last vertex; the outputs of the others are untouched. The vertex that ran out of
    /// fuel is the last one that ran. After [`Exit::Cancelled`] the last one may be interrupted: its
    /// outputs are unspecified, and so is the unit, unless the batch preserves it.
    pub ran: usize,
}

impl BatchExit {
    /// No vertex has run.
    pub(crate) const NONE: BatchExit = BatchExit { exit: Exit::End, ran: 0 };

    /// Counts a vertex that ran. Whether the next one runs.
    #[inline]
    pub(crate) fn count(&mut self, exit: Exit) -> bool {
        self.count_group(exit, 1);
        self.goes_on()
    }

    /// Counts vertices that ran, and how they ended ([`Exit::and_then`]). None but the last one ended
    /// the batch.
    #[inline]
    pub(crate) fn count_group(&mut self, exit: Exit, vertices: usize) {
        self.ran += vertices;
        self.exit = self.exit.and_then(exit);
    }

    /// Ends the batch between two vertices.
    #[cold]
    pub(crate) fn cancel(&mut self) {
        self.exit = self.exit.and_then(Exit::Cancelled);
    }

    /// Number of vertices that ran and whose outputs are specified.
    #[inline]
    pub(crate) fn finished(&self) -> usize {
        self.ran.saturating_sub(usize::from(self.exit == Exit::Cancelled))
    }

    /// Whether the next vertex runs.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        !self.exit.ends_batch()
    }
}

impl PartialEq<Exit> for BatchExit {
    fn eq(&self, exit: &Exit) -> bool {
        self.exit == *exit
    }
}

impl Batch<'_> {
    /// Number of vertices that run.
    #[inline]
    pub fn len(&self) -> usize {
        self.inputs.len().min(self.outputs.len())
    }

    /// Whether no vertex runs.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same batch, borrowed again.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> Batch<'_> {
        let Batch { inputs, ref mut outputs, input_mask, output_mask, preserve_unit } = *self;
        let outputs = Strided { registers: &mut *outputs.registers, stride: outputs.stride, count: outputs.count };
        Batch { inputs, outputs, input_mask, output_mask, preserve_unit }
    }

    /// [`Batch::input_mask`] without registers beyond the stride.
    #[inline]
    pub(crate) fn inputs_taken(&self) -> u16 {
        self.input_mask & self.inputs.mask()
    }

    /// [`Batch::output_mask`] without registers beyond the stride.
    #[inline]
    pub(crate) fn outputs_wanted(&self) -> u16 {
        self.output_mask & self.outputs.mask()
    }
}

/// Registers 0 to `stride - 1` of each vertex: register `k` of vertex `n` is at `n * stride + k`.
/// Whole register files have a stride of 16. Most shaders use only the first few registers; a
/// smaller stride then saves cache.
#[derive(Clone, Copy, Debug)]
pub struct Strided<R> {
    registers: R,
    stride: usize,
    count: usize,
}

/// Vertices that are read.
pub type Vertices<'a> = Strided<&'a [Vec4]>;
/// Vertices that are written.
pub type VerticesMut<'a> = Strided<&'a mut [Vec4]>;

impl<R> Strided<R> {
    /// Number of vertices.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no vertices.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Registers per vertex.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The registers that each vertex has (bit n = register n).
    #[inline]
    pub fn mask(&self) -> u16 {
        mask(self.stride)
    }

    /// The indices of these vertices' registers. Panics if the range exceeds the count; below it,
    /// the products can't overflow.
    #[inline]
    fn register_range(&self, vertices: Range<usize>) -> Range<usize> {
        if vertices.start > vertices.end || vertices.end > self.count {
            out_of_range(vertices, self.count);
        }
        vertices.start * self.stride..vertices.end * self.stride
    }
}

impl<'a> Vertices<'a> {
    /// `count` vertices of `stride` registers each, 1 to 16. `None` for another stride, or if there
    /// are fewer registers.
    #[inline]
    pub fn packed(registers: &'a [Vec4], stride: usize, count: usize) -> Option<Vertices<'a>> {
        let registers = registers.get(..register_count(stride, count)?)?;
        Some(Strided { registers, stride, count })
    }

    /// The least stride that includes all registers of `mask`.
    #[inline]
    pub fn stride_for(mask: u16) -> usize {
        (REGS - mask.leading_zeros() as usize).max(1)
    }

    /// A range of the vertices. Panics if it exceeds the count.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> Vertices<'a> {
        Strided { registers: self.registers_of(range.clone()), stride: self.stride, count: range.len() }
    }

    /// The registers of all vertices.
    #[inline]
    pub fn registers(&self) -> &'a [Vec4] {
        self.registers
    }

    /// The registers of a range of vertices. Panics if it exceeds the count.
    #[inline]
    pub fn registers_of(&self, range: Range<usize>) -> &'a [Vec4] {
        &self.registers[self.register_range(range)]
    }

    /// The registers of each vertex, in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [Vec4]> + use<'a> {
        // Not `chunks`, whose length costs a division.
        let Strided { registers, stride, count } = *self;
        (0..count).map(move |n| &registers[n * stride..][..stride])
    }
}

impl<'a> VerticesMut<'a> {
    /// For a batch that wants no outputs: vertices without registers.
    pub(crate) fn none(count: usize) -> VerticesMut<'a> {
        Strided { registers: &mut [], stride: 0, count }
    }

    /// See [`Vertices::packed`].
    #[inline]
    pub fn packed(registers: &'a mut [Vec4], stride: usize, count: usize) -> Option<VerticesMut<'a>> {
        let registers = registers.get_mut(..register_count(stride, count)?)?;
        Some(Strided { registers, stride, count })
    }

    /// A range of the vertices. Panics if it exceeds the count.
    #[inline]
    pub fn part(&mut self, range: Range<usize>) -> VerticesMut<'_> {
        let stride = self.stride;
        Strided { registers: self.registers_of(range.clone()), stride, count: range.len() }
    }

    /// The registers of all vertices.
    #[inline]
    pub fn registers(&mut self) -> &mut [Vec4] {
        self.registers
    }

    /// The registers of a range of vertices. Panics if it exceeds the count.
    #[inline]
    pub fn registers_of(&mut self, range: Range<usize>) -> &mut [Vec4] {
        let register_range = self.register_range(range);
        &mut self.registers[register_range]
    }
}

#[cold]
#[inline(never)]
fn out_of_range(vertices: Range<usize>, count: usize) -> ! {
    panic!("vertices {vertices:?} of {count}");
}

/// Copies the registers of `mask` that both slices have.
#[inline]
pub fn copy_registers(mask: u16, from: &[Vec4], to: &mut [Vec4]) {
    let len = from.len().min(to.len());
    let (from, to) = (&from[..len], &mut to[..len]);
    let mut left = if len < REGS { mask & self::mask(len) } else { mask };
    while left != 0 {
        let n = left.trailing_zeros() as usize;
        to[n] = from[n];
        left &= left - 1;
    }
}

/// Registers of `count` vertices; `None` for an invalid stride or on overflow.
#[inline]
fn register_count(stride: usize, count: usize) -> Option<usize> {
    if (1..=REGS).contains(&stride) { count.checked_mul(stride) } else { None }
}

#[inline]
fn mask(stride: usize) -> u16 {
    !(u32::MAX << stride) as u16
}

impl<R: Deref<Target = [Vec4]>> Index<usize> for Strided<R> {
    type Output = [Vec4];

    /// The registers of vertex `n`. Panics if `n` is not below the count.
    #[inline]
    fn index(&self, n: usize) -> &[Vec4] {
        &self.registers[self.register_range(n..n.wrapping_add(1))]
    }
}

impl IndexMut<usize> for VerticesMut<'_> {
    #[inline]
    fn index_mut(&mut self, n: usize) -> &mut [Vec4] {
        let register_range = self.register_range(n..n.wrapping_add(1));
        &mut self.registers[register_range]
    }
}

impl<'a, R: AsRef<[Registers]> + ?Sized> From<&'a R> for Vertices<'a> {
    /// Vertices that are whole register files.
    #[inline]
    fn from(files: &'a R) -> Vertices<'a> {
        let files = files.as_ref();
        Strided { registers: files.as_flattened(), stride: REGS, count: files.len() }
    }
}

impl<'a, R: AsMut<[Registers]> + ?Sized> From<&'a mut R> for VerticesMut<'a> {
    /// Vertices that are whole register files.
    #[inline]
    fn from(files: &'a mut R) -> VerticesMut<'a> {
        let files = files.as_mut();
        let count = files.len();
        Strided { registers: files.as_flattened_mut(), stride: REGS, count }
    }
}

#[cfg(test)]
impl<'a> Batch<'a> {
    /// A batch that provides `v0`, wants `o0`, and changes the unit.
    pub(crate) fn of(inputs: impl Into<Vertices<'a>>, outputs: impl Into<VerticesMut<'a>>) -> Batch<'a> {
        Batch { inputs: inputs.into(), outputs: outputs.into(), input_mask: 1, output_mask: 1, preserve_unit: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_stride_has_all_registers_of_a_mask() {
        for mask in [1, 2, 0b101, 0x8000, 0xFFFF, 0x7FFF] {
            let stride = Vertices::stride_for(mask);
            assert_eq!((self::mask(stride) & mask, self::mask(stride - 1) & mask == mask), (mask, false), "{mask:x}");
        }
        assert_eq!(Vertices::stride_for(0), 1);
    }

    #[test]
    fn vertices_and_parts_have_their_registers() {
        let registers: Vec<Vec4> = (0..6).map(|n| [n as f32; 4]).collect();
        let vertices = Vertices::packed(&registers, 2, 3).expect("six registers");
        assert_eq!(vertices.iter().map(|v| (v.len(), v[0][0])).collect::<Vec<_>>(), [(2, 0.0), (2, 2.0), (2, 4.0)]);
        assert_eq!((vertices.part(1..3).len(), vertices.part(1..3)[0][1][0]), (2, 3.0));
        for (range, len) in [(3..3, 0), (0..0, 0), (1..2, 1)] {
            let part = vertices.part(range);
            assert_eq!((part.len(), part.is_empty()), (len, len == 0));
        }
    }

    #[test]
    fn registers_that_both_have_are_copied() {
        let from: Vec<Vec4> = (0..16).map(|n| [n as f32; 4]).collect();
        for (mask, from_len, to_len, copied) in
            [(0b101, 16, 16, 0b101), (0xFFFF, 2, 3, 0b11), (0xFFFC, 16, 3, 0b100), (0xFFFF, 16, 16, 0xFFFF)]
        {
            let mut to = vec![[-1.0; 4]; to_len];
            copy_registers(mask, &from[..from_len], &mut to);
            let is_copied = |n: usize| copied >> n & 1 != 0;
            let want = (0..to_len).map(|n| if is_copied(n) { from[n] } else { [-1.0; 4] });
            assert_eq!(to, want.collect::<Vec<_>>(), "{mask:x}");
        }
    }

    #[test]
    #[should_panic(expected = "of 0")]
    fn a_part_beyond_the_count_panics() {
        Vertices::from(&[] as &[Registers]).part(0..1 << 60);
    }

    #[test]
    #[should_panic(expected = "of 2")]
    fn a_part_that_ends_before_its_start_panics() {
        let (end, mut registers) = (1, [[[0.0; 4]; 16]; 2]);
        VerticesMut::from(&mut registers).part(2..end);
    }

    #[test]
    fn vertices_are_a_stride_apart() {
        let registers: Vec<Vec4> = (0..11).map(|n| [n as f32; 4]).collect();
        let three = Vertices::packed(&registers, 3, 3).expect("there are nine");
        assert_eq!((three.len(), three.mask(), three[2].to_vec()), (3, 0b111, registers[6..9].to_vec()));
        assert_eq!(three.iter().count(), 3);
        let part = three.part(1..3);
        assert_eq!((part.len(), part[0][0]), (2, [3.0; 4]));
        for (stride, count) in [(0, 0), (17, 0), (3, 4), (16, 1), (2, usize::MAX), (4, usize::MAX / 4 + 2)] {
            assert!(Vertices::packed(&registers, stride, count).is_none(), "{stride} {count}");
        }
        assert!(Vertices::packed(&registers, 16, 0).expect("nothing is there").is_empty());
        let mut registers = [[[0.0; 4]; 16]; 2];
        let mut files = VerticesMut::from(&mut registers);
        files.part(1..2)[0][3] = [1.0; 4];
        assert_eq!((files.len(), files.mask(), registers[1][3]), (2, 0xFFFF, [1.0; 4]));
    }
}
