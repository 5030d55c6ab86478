//! A draw of vertices that the host fetches -> these vertices, in drawing order.
//!
//! This file must not know guest memory.

use super::diagnostics::Source;
use super::draw::{ActiveDraw, Runs, STREAM_ROWS};
use super::few_vertices::{FEW, FewVertices};
use super::report::Report;
use super::{Attributes, Gpu, Sink};
use crate::fp_mode::DefaultMode;
use crate::state::Vec4;
use std::borrow::Borrow;

impl Gpu {
    /// Draws `vertices` in order, as [`DRAWARRAYS`](super::RegisterFile::DRAWARRAYS) requests. The
    /// host fetches their attributes from arrays, or takes [`Gpu::default_attribute`]. Attributes
    /// from [`attributes`](super::RegisterFile::attributes) on are ignored.
    ///
    /// An incomplete input of the geometry unit from an earlier draw is discarded. An incomplete
    /// primitive continues.
    pub fn draw_arrays<V: Borrow<Attributes>>(
        &mut self,
        vertices: impl IntoIterator<Item = V>,
        sink: &mut dyn Sink,
    ) -> Report {
        let _mode = DefaultMode::enter();
        self.state.geometry_input.discard();
        let mut report = ActiveDraw::new(self, sink).vertices(vertices.into_iter());
        self.note(Source::Host, &mut report);
        report
    }

    /// Draws the vertices that `indices` select, as
    /// [`DRAWELEMENTS`](super::RegisterFile::DRAWELEMENTS) requests. `fetch` returns the attributes of
    /// an index. It is not called for the vertices that a cache of `vertex_cache` vertices holds
    /// ([`DrawOptions::vertex_cache`](super::DrawOptions::vertex_cache)), nor for the vertex counts in
    /// the index stream of variable primitives. Otherwise as [`Gpu::draw_arrays`].
    pub fn draw_elements(
        &mut self,
        indices: impl IntoIterator<Item = u32>,
        mut fetch: impl FnMut(u32) -> Attributes,
        vertex_cache: u8,
        sink: &mut dyn Sink,
    ) -> Report {
        let _mode = DefaultMode::enter();
        self.state.geometry_input.discard();
        let mut draw = ActiveDraw::new(self, sink);
        let registers = draw.configuration.attribute_registers();
        let mut report =
            draw.elements(indices.into_iter(), |index, to| permute(registers, &fetch(index), to), vertex_cache);
        self.note(Source::Host, &mut report);
        report
    }

    /// Draws vertices of immediate mode ([`Effect::Vertex`](super::Effect::Vertex)). An incomplete
    /// input of the geometry unit continues until immediate mode is selected again.
    pub fn draw_immediate(&mut self, vertices: &[Attributes], sink: &mut dyn Sink) -> Report {
        self.prefetch();
        let _mode = DefaultMode::enter();
        let mut report = Report::default();
        match vertices.len() <= FEW {
            true => self.few_attributes(vertices, sink, &mut report),
            false => report = self.many_attributes(vertices, sink),
        }
        self.note(Source::Immediate, &mut report);
        report
    }

    // Not inlined: its stack is below this call, as `prefetch` expects.
    #[inline(never)]
    fn few_attributes(&mut self, vertices: &[Attributes], sink: &mut dyn Sink, report: &mut Report) {
        let mut draw = FewVertices::new(self, sink, report);
        let count = draw.begin(vertices.len());
        let registers = draw.configuration.attribute_registers();
        for vertex in &vertices[..count] {
            permute(registers, vertex, draw.inputs());
            if !draw.run() {
                break;
            }
        }
        draw.finish_in_order();
    }

    #[inline(never)]
    fn many_attributes(&mut self, vertices: &[Attributes], sink: &mut dyn Sink) -> Report {
        ActiveDraw::new(self, sink).vertices(vertices.iter())
    }
}

/// Stores attributes in their registers. Registers without an attribute hold old values; the input
/// mask excludes them.
#[inline]
fn permute(registers: &[u8], attributes: &Attributes, to: &mut [Vec4]) {
    registers.iter().zip(attributes).for_each(|(&register, attribute)| to[usize::from(register)] = *attribute);
}

impl ActiveDraw<'_> {
    /// Draws vertices in order.
    fn vertices<V: Borrow<Attributes>>(&mut self, vertices: impl Iterator<Item = V>) -> Report {
        self.begin_stream(vertices.size_hint().1, 0);
        let registers = self.configuration.attribute_registers();
        for vertex in vertices {
            if self.take(1) == 0 {
                break;
            }
            let Some(row) = self.add(|to| permute(registers, vertex.borrow(), to)) else { break };
            self.push(row);
        }
        self.finish()
    }

    /// Draws the vertices of an index stream. `fetch` stores the input registers of an index.
    pub(super) fn elements(
        &mut self,
        indices: impl Iterator<Item = u32>,
        mut fetch: impl FnMut(u32, &mut [Vec4]),
        vertex_cache: u8,
    ) -> Report {
        self.begin_stream(indices.size_hint().1, vertex_cache);
        let counted = self.configuration.counts_vertices();
        let mut left = 0;
        for index in indices {
            if self.report.ended() || self.take(1) == 0 {
                break;
            }
            if counted && left == 0 {
                left = index;
                self.count(index);
                continue;
            }
            left = left.saturating_sub(1);
            if let Some(row) = self.buffers.cache.row(index) {
                self.push(row);
                continue;
            }
            let Some(row) = self.add(|to| fetch(index, to)) else { break };
            self.buffers.cache.insert(index, row as u32);
            self.push(row);
        }
        self.finish()
    }

    /// Begins a stream of at most `most` vertices. Few vertices run in sequence, and those that depend
    /// on each other; with vertex counts, each primitive proceeds before the next begins.
    fn begin_stream(&mut self, most: Option<usize>, vertex_cache: u8) {
        self.buffers.cache.clear(vertex_cache);
        let most = most.unwrap_or(usize::MAX);
        let singly = most <= FEW || self.configuration.counts_vertices() || !self.shader.has_independent_vertices();
        self.begin(if singly { Runs::Singly } else { Runs::InBatches }, most.min(STREAM_ROWS));
    }
}
