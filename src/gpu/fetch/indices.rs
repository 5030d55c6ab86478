//! The index buffer of a draw -> the range of its indices, and the vertices to run.
//!
//! Invariant: any bytes are safe; indices that memory lacks are 0. A list of vertices has at most
//! 65,536 entries. This file must not know what vertices are.

use super::Memory;
use crate::gpu::registers::{INDEXBUFFER_CONFIG, RegisterFile};
use std::ops::Range;

/// The number of different indices.
const DIFFERENT: usize = 1 << 16;

/// The indices of a draw.
#[derive(Clone, Copy)]
pub(in crate::gpu) struct Indices<'a> {
    bytes: &'a [u8],
    /// Whether memory lacks bytes of them.
    pub(in crate::gpu) is_short: bool,
    wide: bool,
    count: usize,
}

impl<'a> Indices<'a> {
    pub(in crate::gpu) fn new(registers: &RegisterFile, memory: &'a dyn Memory, count: u32) -> Indices<'a> {
        let config = registers.get(INDEXBUFFER_CONFIG);
        let wide = config >> 31 != 0;
        let address = super::base(registers) + u64::from(config & 0x0FFF_FFFF);
        let length = u64::from(count) << u32::from(wide);
        let bytes = super::read(memory, address, length);
        let is_short = (bytes.len() as u64) < length;
        Indices { bytes, is_short, wide, count: count as usize }
    }

    pub(in crate::gpu) fn len(&self) -> usize {
        self.count
    }

    /// Index `n`.
    pub(in crate::gpu) fn get(&self, n: usize) -> u32 {
        let byte = |at: usize| self.bytes.get(at).map_or(0, |&byte| u32::from(byte));
        let at = n.saturating_mul(1 + usize::from(self.wide));
        if self.wide { byte(at) | byte(at.saturating_add(1)) << 8 } else { byte(at) }
    }

    /// The least and the greatest of the indices. None of no indices.
    pub(in crate::gpu) fn range(&self) -> Option<[u32; 2]> {
        let (mut least, mut greatest) = (u32::MAX, 0);
        self.runs(0..self.count, &mut |indices: Run<'_>| {
            let [low, high] = match indices {
                Run::Narrow(bytes) => bounds(bytes, u16::from),
                Run::Wide(pairs) => bounds(pairs, u16::from_le_bytes),
                Run::Equal(n, _) => [n; 2],
            };
            (least, greatest) = (least.min(low.into()), greatest.max(high.into()));
        });
        (least <= greatest).then_some([least, greatest])
    }

    /// [`Indices::range`] of an index stream with vertex counts, without these. Without vertices it
    /// is 0.
    pub(in crate::gpu) fn vertex_range(&self) -> [u32; 2] {
        let (mut left, mut range) = (0, None);
        for index in (0..self.count).map(|n| self.get(n)) {
            if left == 0 {
                left = index;
                continue;
            }
            left -= 1;
            let [least, greatest] = range.unwrap_or([index; 2]);
            range = Some([index.min(least), index.max(greatest)]);
        }
        range.unwrap_or_default()
    }

    /// Appends `shift` plus each index, counted from `least`.
    pub(in crate::gpu) fn consecutive(&self, range: Range<usize>, least: u32, shift: u32, ids: &mut Vec<u32>) {
        let id = |n: u16| u32::from(n).wrapping_sub(least).wrapping_add(shift);
        self.runs(range, &mut |run| match run {
            Run::Narrow(bytes) => ids.extend(bytes.iter().map(|&n| id(n.into()))),
            Run::Wide(pairs) => ids.extend(pairs.iter().map(|&pair| id(u16::from_le_bytes(pair)))),
            Run::Equal(n, count) => ids.extend(std::iter::repeat_n(id(n), count)),
        });
    }

    /// Appends `shift` plus the position in the list of each index's vertex.
    pub(in crate::gpu) fn listed(&self, range: Range<usize>, list: &VertexList, shift: u32, ids: &mut Vec<u32>) {
        let id = |n: u16| list.position(n) + shift;
        self.runs(range, &mut |run| match run {
            Run::Narrow(bytes) => ids.extend(bytes.iter().map(|&n| id(n.into()))),
            Run::Wide(pairs) => ids.extend(pairs.iter().map(|&pair| id(u16::from_le_bytes(pair)))),
            Run::Equal(n, count) => ids.extend(std::iter::repeat_n(id(n), count)),
        });
    }

    /// Calls `each` with the indices of a range in order: those that memory has whole, then the one
    /// that it has half of, then zeros.
    #[inline]
    fn runs(&self, range: Range<usize>, each: &mut impl FnMut(Run<'_>)) {
        let width = 1 + usize::from(self.wide);
        let whole = (self.bytes.len() / width).clamp(range.start, range.end.max(range.start));
        let bytes = self.bytes.get(range.start.saturating_mul(width)..whole.saturating_mul(width));
        match (self.wide, bytes.unwrap_or_default()) {
            (_, []) => (),
            (false, bytes) => each(Run::Narrow(bytes)),
            (true, bytes) => each(Run::Wide(bytes.as_chunks().0)),
        }
        if whole < range.end {
            each(Run::Equal(self.get(whole) as u16, 1));
            if whole + 1 < range.end {
                each(Run::Equal(0, range.end - whole - 1));
            }
        }
    }
}

/// Consecutive indices.
enum Run<'a> {
    Narrow(&'a [u8]),
    Wide(&'a [[u8; 2]]),
    /// An index, and how often it follows itself.
    Equal(u16, usize),
}

/// The least and the greatest index.
#[inline(always)]
fn bounds<T: Copy>(indices: &[T], number: impl Fn(T) -> u16) -> [u16; 2] {
    // One pair of bounds for each index of a chunk, so that LLVM vectorises the loop.
    let (mut low, mut high) = ([u16::MAX; 32], [0; 32]);
    let (chunks, rest) = indices.as_chunks::<32>();
    for chunk in chunks {
        for ((low, high), &n) in low.iter_mut().zip(&mut high).zip(chunk) {
            let n = number(n);
            (*low, *high) = ((*low).min(n), (*high).max(n));
        }
    }
    let rest = || rest.iter().map(|&n| number(n));
    let least = low.into_iter().chain(rest()).fold(u16::MAX, u16::min);
    [least, high.into_iter().chain(rest()).fold(0, u16::max)]
}

/// The different vertices of a draw, in the order of their first use.
#[derive(Default)]
pub(in crate::gpu) struct VertexList {
    /// For each index its position, below the number of the draw that it is from.
    positions: Vec<u32>,
    draw: u32,
    /// The vertices, counted from the draw's least.
    pub(in crate::gpu) vertices: Vec<u32>,
}

impl VertexList {
    /// Begins a draw's list.
    pub(in crate::gpu) fn collect(&mut self, indices: &Indices<'_>, least: u32) {
        self.draw += 1;
        if self.draw > u32::from(u16::MAX) || self.positions.is_empty() {
            self.draw = 1;
            self.positions.clear();
            self.positions.resize(DIFFERENT, 0);
        }
        self.vertices.clear();
        let VertexList { positions, draw, vertices } = self;
        let mut add = |n: u16| {
            let position = &mut positions[usize::from(n)];
            if *position >> 16 != *draw {
                *position = *draw << 16 | vertices.len() as u32;
                vertices.push(u32::from(n) - least);
            }
        };
        indices.runs(0..indices.count, &mut |run| match run {
            Run::Narrow(bytes) => bytes.iter().for_each(|&n| add(n.into())),
            Run::Wide(pairs) => pairs.iter().for_each(|&pair| add(u16::from_le_bytes(pair))),
            Run::Equal(n, _) => add(n),
        });
    }

    fn position(&self, n: u16) -> u32 {
        self.positions[usize::from(n)] & 0xFFFF
    }
}
