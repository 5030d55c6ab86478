//! A draw of few vertices -> its triangles: they run in sequence on the unit, or as one batch.
//!
//! In a frame each draw finds its code and data outside of the first caches, so this path touches
//! little of either: a loop for each table, what is rare out of line, all else in one function. An
//! [`ActiveDraw`](super::draw::ActiveDraw) has loops for each format; that executes fewer instructions
//! and touches twice as many lines.
//!
//! Invariant: triangles, report and state are those of an `ActiveDraw` of the same vertices. This file
//! must not know where attributes come from.

use super::assembly::Assembler;
use super::buffers::{Buffers, resize};
use super::configuration::DrawConfiguration;
use super::deferred_run::DeferredRun;
use super::draw;
use super::geometry::GeometryContext;
use super::limits::Budget;
use super::program_cache::ProgramCache;
use super::report::Report;
use super::upload::ShaderState;
use super::{Gpu, Sink, State, UploadStats};
use crate::engine::{CancelFlag, Engine, Shader};
use crate::isa::Stage;
use crate::state::{Batch, Exit, Registers, Vertices, VerticesMut};

/// Up to this many vertices run in sequence: measured in frames (docs/performance.md).
pub(super) const FEW: usize = 12;
/// Up to this many vertices run as one batch that is fetched and mapped vertex by vertex.
pub(super) const SMALL_BATCH: usize = 64;

/// A draw of at most [`SMALL_BATCH`] vertices.
pub(super) struct FewVertices<'a> {
    cancel: &'a CancelFlag,
    pub(super) state: &'a mut State,
    pub(super) configuration: &'a DrawConfiguration,
    pub(super) shader: &'a Shader,
    /// The program of the geometry unit, if that is in use.
    geometry: Option<&'a Shader>,
    pub(super) buffers: &'a mut Buffers,
    sink: &'a mut dyn Sink,
    deferred: &'a mut DeferredRun,
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
        let Gpu { engine, cancel, state, vertex, geometry, upload_stats, configuration, buffers, .. } = gpu;
        let (deferred, budget) = (&mut gpu.deferred, &mut gpu.budget);
        let file = &state.registers;
        let configuration = DrawConfiguration::get(configuration, file, sink.format(), &mut buffers.rows);
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats);
        let geometry = configuration.geometry.as_ref().map(|_| geometry_shader(geometry, engine, state, upload_stats));
        let (assembler, carried, rows) = Default::default();
        FewVertices {
            cancel,
            state,
            configuration,
            shader,
            geometry,
            buffers,
            sink,
            deferred,
            budget,
            assembler,
            carried,
            rows,
            report,
        }
    }

    /// Makes the unit ready, and rows for `wanted` vertices or indices. Returns how many of them are
    /// drawn: none if the engine is cancelled, and no more than the limits allow.
    #[inline(always)]
    pub(super) fn begin(&mut self, wanted: usize) -> usize {
        let FewVertices { deferred, budget, shader, geometry, state, configuration, buffers, .. } = self;
        deferred.run(&mut state.vertex);
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
        if self.report.ends_now(self.cancel) { 0 } else { granted }
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

    /// Whether `count` vertices may run as a batch of native code: they are independent, no limit ends
    /// the draw, and no geometry unit takes them.
    pub(super) fn is_batch(&mut self, count: usize) -> bool {
        let FewVertices { budget, shader, geometry, state, cancel, report, .. } = self;
        geometry.is_none()
            && shader.is_native()
            && shader.has_independent_vertices()
            && budget.allows(count as u64, || draw::weight(shader, *geometry, state))
            && !report.ends_now(cancel)
    }

    /// Runs the vertices in the inputs as a batch, of which `last` leaves the unit as the draw does. False:
    /// nothing happened, since one has no END and may depend on the order.
    #[inline(always)]
    pub(super) fn run_batch(&mut self, count: usize, last: usize) -> bool {
        let FewVertices { deferred, shader, state, configuration, buffers, .. } = self;
        let DrawConfiguration { fetch, plan, topology, output_mask, output_stride, .. } = *configuration;
        deferred.run_unless_replaced(shader, fetch.input_mask, &mut state.vertex);
        resize(&mut buffers.outputs, count * output_stride);
        let mut batch = Batch {
            inputs: Vertices::packed(&buffers.inputs, fetch.stride, count).expect("as many inputs"),
            outputs: VerticesMut::packed(&mut buffers.outputs, *output_stride, count).expect("as many outputs"),
            input_mask: fetch.input_mask,
            output_mask: *output_mask,
            preserve_unit: true,
        };
        let ShaderState { uniforms, unit, .. } = &mut state.vertex;
        if shader.run_batch(uniforms, unit, &mut batch) != Exit::End {
            return false;
        }
        let last = &buffers.inputs[last * fetch.stride..][..fetch.stride];
        deferred.defer(shader, fetch.input_mask, last);
        buffers.rows.prepare(plan, count);
        let outputs = &buffers.outputs[..count * output_stride];
        plan.map_rows(outputs, *output_stride, buffers.rows.rows(plan.format().stride(), 0..count));
        (self.assembler, self.carried) = buffers.rows.begin(plan, *topology, &state.assembly);
        self.rows = count;
        true
    }

    /// Ends the draw of these rows of a batch.
    #[inline(always)]
    pub(super) fn finish_batch(&mut self, rows: impl ExactSizeIterator<Item = u32>) {
        let FewVertices { budget, shader, geometry, state, carried, .. } = self;
        let _ = budget.take(0, rows.len() as u64, || draw::weight(shader, *geometry, state));
        let carried = *carried as u32;
        self.finish(rows.map(|row| row + carried));
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
        if self.assembler.is_pending() {
            self.save_vertices();
        }
        self.assembler.save_counts(&mut self.state.assembly);
    }

    /// Saves the vertices of the incomplete primitive.
    #[inline(never)]
    fn save_vertices(&mut self) {
        let (plan, carried) = (&self.configuration.plan, self.carried);
        let (assembly, rows) = (&mut self.state.assembly, &self.buffers.rows);
        for (to, id) in assembly.vertices.iter_mut().zip(self.assembler.pending()) {
            // Others stay where they are: `Assembler::push` never moves a vertex.
            let Some(row) = id.and_then(|id| (id as usize).checked_sub(carried)) else { continue };
            match plan.is_default {
                true => *to = *rows.semantics(row),
                false => self.configuration.map_saved(&self.buffers.outputs, row, to),
            }
        }
    }

    /// Sends vertices to the geometry unit.
    #[inline(never)]
    fn send_to_geometry(&mut self, ids: &mut dyn Iterator<Item = u32>) {
        let State { registers, geometry: memory, geometry_input: input, assembly, .. } = &mut *self.state;
        let Some(shader) = self.geometry else { return };
        let (cancel, report, sink) = (self.cancel, &mut *self.report, &mut *self.sink);
        let mut context = GeometryContext { cancel, shader, registers, memory, input, assembly, report, sink };
        let mut list = std::mem::take(&mut self.buffers.ids);
        list.clear();
        list.extend(ids);
        draw::send_to_geometry(self.configuration, self.buffers, &list, &mut context);
        self.buffers.ids = list;
        self.buffers.ids.clear();
    }
}

// Not inlined: few draws use the geometry unit.
#[inline(never)]
fn geometry_shader<'a>(
    cache: &'a mut ProgramCache,
    engine: &Engine,
    state: &State,
    stats: &mut UploadStats,
) -> &'a Shader {
    cache.get(engine, &state.geometry, state.registers.entry(Stage::Geometry), stats)
}
