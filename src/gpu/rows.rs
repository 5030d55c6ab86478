//! Mapped vertices of a draw -> triangles for the sink.
//!
//! Invariant: rows that no draw has mapped yet are [`OutputPlan::unset`], so that a plan stores only
//! what outputs supply. This file must not know how vertices run.

use super::Sink;
use super::assembly::{Assembler, Assembly, Topology};
use super::output_mapping::OutputPlan;
use crate::semantics::{SEMANTICS, Semantics};
use std::ops::Range;

/// Rows for the vertices of an incomplete primitive.
const CARRIED: usize = 2;

/// Vertices in the sink's format. Draws reuse the rows.
#[derive(Default)]
pub(super) struct VertexRows {
    numbers: Vec<f32>,
    /// Rows that are ready to be mapped.
    prepared: usize,
    triangles: Vec<[u32; 3]>,
}

impl VertexRows {
    /// The plan has changed, and with it what an unmapped row is.
    pub(super) fn discard(&mut self) {
        self.numbers.clear();
        self.prepared = 0;
    }

    /// Makes `rows` rows ready to be mapped.
    #[inline]
    pub(super) fn prepare(&mut self, plan: &OutputPlan, rows: usize) {
        if self.prepared < rows || self.numbers.is_empty() {
            self.append(plan, rows);
        }
    }

    #[cold]
    fn append(&mut self, plan: &OutputPlan, rows: usize) {
        let unset = plan.unset();
        self.numbers.truncate((CARRIED + self.prepared) * unset.len());
        let missing = CARRIED + rows - self.numbers.len() / unset.len();
        self.numbers.reserve(missing * unset.len());
        (0..missing).for_each(|_| self.numbers.extend_from_slice(unset));
        self.prepared = rows;
    }

    /// These rows.
    pub(super) fn rows(&mut self, stride: usize, rows: Range<usize>) -> &mut [f32] {
        &mut self.numbers[(CARRIED + rows.start) * stride..(CARRIED + rows.end) * stride]
    }

    /// Copies a row.
    pub(super) fn copy(&mut self, stride: usize, from: usize, to: usize) {
        let from = (CARRIED + from) * stride;
        self.numbers.copy_within(from..from + stride, (CARRIED + to) * stride);
    }

    /// Begins assembly: vertices of the incomplete primitive are numbers from 0 on, and row n is
    /// number n plus their count, which this returns.
    #[inline(always)]
    pub(super) fn begin(&mut self, plan: &OutputPlan, topology: Topology, assembly: &Assembly) -> (Assembler, usize) {
        let carried = assembly.pending();
        if carried > 0 {
            self.carry(plan, &assembly.vertices[..carried]);
        }
        (Assembler::new(topology, assembly), carried)
    }

    #[inline(never)]
    fn carry(&mut self, plan: &OutputPlan, vertices: &[Semantics]) {
        let stride = plan.format().stride();
        for (n, vertex) in vertices.iter().enumerate() {
            plan.format().store(vertex, &mut self.numbers[(CARRIED - vertices.len() + n) * stride..]);
        }
    }

    /// Assembles vertices, for [`VertexRows::send_assembled`].
    #[inline(always)]
    pub(super) fn assemble(&mut self, assembler: &mut Assembler, ids: impl ExactSizeIterator<Item = u32>) {
        self.triangles.clear();
        self.triangles.reserve(ids.len());
        ids.for_each(|id| self.triangles.extend(assembler.push(id)));
    }

    /// Sends the triangles of [`VertexRows::assemble`]. Returns how many.
    #[inline(always)]
    pub(super) fn send_assembled(&self, stride: usize, carried: usize, rows: usize, sink: &mut dyn Sink) -> u64 {
        if !self.triangles.is_empty() {
            let vertices = &self.numbers[(CARRIED - carried) * stride..(CARRIED + rows) * stride];
            sink.triangles(vertices, &self.triangles);
        }
        self.triangles.len() as u64
    }

    /// Assembles these vertices and sends their triangles. Returns how many.
    pub(super) fn send(
        &mut self,
        stride: usize,
        carried: usize,
        assembler: &mut Assembler,
        ids: &[u32],
        rows: usize,
        sink: &mut dyn Sink,
    ) -> u64 {
        let triangles = assembler.add(ids, &mut self.triangles);
        if !triangles.is_empty() {
            let vertices = &self.numbers[(CARRIED - carried) * stride..(CARRIED + rows) * stride];
            sink.triangles(vertices, triangles);
        }
        triangles.len() as u64
    }

    /// Loads the first rows. See [`prefetch`](super::prefetch).
    #[inline(always)]
    pub(super) fn prefetch(&self) -> u32 {
        let mut sum = self.triangles.first().map_or(0, |triangle| triangle[0]);
        // Lines of 16 numbers.
        if let Some(rows) = self.numbers.get(CARRIED * SEMANTICS..(CARRIED + 6) * SEMANTICS) {
            rows.iter().step_by(16).for_each(|number| sum ^= number.to_bits());
        }
        sum
    }

    /// A row, to be mapped.
    #[inline]
    pub(super) fn row_mut(&mut self, stride: usize, row: usize) -> &mut [f32] {
        &mut self.numbers[(CARRIED + row) * stride..][..stride]
    }

    /// A row of the default format.
    #[inline]
    pub(super) fn semantics(&self, row: usize) -> &Semantics {
        self.numbers[(CARRIED + row) * SEMANTICS..].first_chunk().expect("a row that was prepared")
    }
}
