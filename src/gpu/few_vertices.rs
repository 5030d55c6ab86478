//! A draw of few vertices -> its triangles: they run in sequence on the unit.
//!
//! In a frame each draw finds its code and data outside of the first caches, so this path touches
//! little of either: a loop for each table, what is rare out of line, all else in one function. An
//! [`ActiveDraw`](super::draw::ActiveDraw) runs vertices together; that executes fewer instructions
//! and touches twice as many lines.
//!
//! Invariant: triangles, report and state are those of an `ActiveDraw` of the same vertices. This file
//! must not know where attributes come from.

use super::assembly::Assembler;
use super::buffers::{Buffers, resize};
use super::configuration::DrawConfiguration;
use super::draw;
use super::geometry::GeometryContext;
use super::limits::Budget;
use super::report::Report;
use super::upload::ShaderState;
use super::{Gpu, Sink, State};
use crate::engine::{Engine, Shader};
use crate::isa::Stage;
use crate::state::{Exit, Registers};

/// Up to this many vertices run in sequence: measured in frames (docs/performance.md).
pub(super) const FEW: usize = 12;

/// A draw of at most [`FEW`] vertices.
pub(super) struct FewVertices<'a> {
    engine: &'a Engine,
    pub(super) state: &'a mut State,
    pub(super) configuration: &'a DrawConfiguration,
    pub(super) shader: &'a Shader,
    /// The program of the geometry unit, if that is in use.
    geometry: Option<&'a Shader>,
    buffers: &'a mut Buffers,
    sink: &'a mut dyn Sink,
    budget: &'a mut Budget,
    assembler: Assembler,
    /// Vertices of the incomplete primitive, which precede the rows.
    carried: usize,
    /// Rows of vertices that ran.
    rows: usize,
    /// The caller's, since a report is large.
    pub(super) report: &'a mut Report,
}

impl<'a> FewVertices<'a> {
    #[inline(always)]
    pub(super) fn new(gpu: &'a mut Gpu, sink: &'a mut dyn Sink, report: &'a mut Report) -> FewVertices<'a> {
        let Gpu { engine, state, vertex, geometry, upload_stats, configuration, buffers, deferred, budget, .. } = gpu;
        let file = &state.registers;
        let configuration = DrawConfiguration::get(configuration, file, sink.format(), &mut buffers.rows);
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats);
        let geometry = configuration
            .geometry
            .as_ref()
            .map(|_| geometry.get(engine, &state.geometry, file.entry(Stage::Geometry), upload_stats));
        deferred.run(&mut state.vertex);
        let (assembler, carried, rows) = Default::default();
        FewVertices {
            engine,
            state,
            configuration,
            shader,
            geometry,
            buffers,
            sink,
            budget,
            assembler,
            carried,
            rows,
            report,
        }
    }

    /// Makes rows for `wanted` vertices or indices. Returns how many of them are drawn: none if the engine is
    /// cancelled, and no more than the limits allow.
    #[inline(always)]
    pub(super) fn begin(&mut self, wanted: usize) -> usize {
        let FewVertices { budget, shader, geometry, state, configuration, buffers, .. } = self;
        let granted = budget.take(0, wanted as u64, || draw::weight(shader, *geometry, state)) as usize;
        self.report.limited = granted < wanted;
        let DrawConfiguration { plan, topology, output_stride, .. } = *configuration;
        buffers.rows.prepare(plan, granted);
        if self.configuration.keeps_outputs() {
            resize(&mut self.buffers.outputs, granted * output_stride);
        }
        if self.geometry.is_none() {
            (self.assembler, self.carried) = self.buffers.rows.begin(plan, *topology, &self.state.assembly);
        }
        // Also without vertices the draw ends with the incomplete primitive.
        if self.report.ends_now(self.engine) { 0 } else { granted }
    }

    /// The registers that take the attributes of the next vertex.
    #[inline(always)]
    pub(super) fn inputs(&mut self) -> &mut Registers {
        &mut self.state.vertex.unit.v
    }

    /// Runs the unit as it is.
    #[inline(always)]
    pub(super) fn run_unit(&mut self) -> Exit {
        let ShaderState { uniforms, unit, .. } = &mut self.state.vertex;
        self.shader.run(uniforms, unit)
    }

    /// Runs a vertex, whose attributes are in the unit. Returns whether it has a row, and the draw goes on.
    #[inline(always)]
    pub(super) fn run(&mut self) -> bool {
        let FewVertices { shader, state, configuration, buffers, report, rows: row, .. } = self;
        let has_row = draw::run_vertex(shader, &mut state.vertex, configuration, buffers, *row, report);
        *row += usize::from(has_row);
        has_row && !report.vertex_exit.ends_batch()
    }

    /// The number of the next vertex that runs.
    #[inline(always)]
    pub(super) fn next_id(&self) -> u32 {
        (self.carried + self.rows) as u32
    }

    /// Ends a draw whose vertices are in the stream in the order in which they ran.
    #[inline(always)]
    pub(super) fn finish_in_order(&mut self) {
        let ids = self.carried as u32..self.next_id();
        self.finish(ids);
    }

    /// Ends a draw of this stream of vertices.
    #[inline(always)]
    pub(super) fn finish(&mut self, ids: impl ExactSizeIterator<Item = u32>) {
        let (sent, vertices) = (ids.len() as u64, self.rows as u64);
        (self.report.vertices, self.report.reused) = (vertices, sent - vertices);
        match self.geometry {
            Some(_) => self.send_to_geometry(&mut { ids }),
            None => self.send(ids),
        }
    }

    /// Assembles vertices, sends their triangles, and saves the incomplete primitive.
    #[inline(always)]
    fn send(&mut self, ids: impl ExactSizeIterator<Item = u32>) {
        let (plan, carried) = (&self.configuration.plan, self.carried);
        let rows = &mut self.buffers.rows;
        rows.assemble(&mut self.assembler, ids);
        self.report.triangles = rows.send_assembled(plan.format().stride(), carried, self.rows, self.sink);
        let assembly = &mut self.state.assembly;
        for (to, id) in assembly.vertices.iter_mut().zip(self.assembler.pending()) {
            // Others stay where they are: `Assembler::push` never moves a vertex.
            let Some(row) = id.and_then(|id| (id as usize).checked_sub(carried)) else { continue };
            match plan.is_default {
                true => *to = *rows.semantics(row),
                false => self.configuration.map_saved(&self.buffers.outputs, row, to),
            }
        }
        self.assembler.save_counts(assembly);
    }

    /// Sends vertices to the geometry unit.
    #[inline(never)]
    fn send_to_geometry(&mut self, ids: &mut dyn Iterator<Item = u32>) {
        let State { registers, geometry: memory, geometry_input: input, assembly, .. } = &mut *self.state;
        let Some(shader) = self.geometry else { return };
        let (engine, report, sink) = (self.engine, &mut *self.report, &mut *self.sink);
        let mut context = GeometryContext { engine, shader, registers, memory, input, assembly, report, sink };
        let mut list = std::mem::take(&mut self.buffers.ids);
        list.clear();
        list.extend(ids);
        draw::send_to_geometry(self.configuration, self.buffers, &list, &mut context);
        self.buffers.ids = list;
        self.buffers.ids.clear();
    }
}
