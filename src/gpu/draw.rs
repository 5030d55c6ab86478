//! Input registers of vertices -> triangles: the vertex unit runs, then the geometry unit or primitive
//! assembly takes the outputs in drawing order.
//!
//! Sources of vertices ([`host_draw`](super::host_draw), [`guest_draw`](super::guest_draw)) feed an
//! [`ActiveDraw`]. Vertices are collected and run together, if they are independent. Each vertex that
//! ran has a row of outputs, and the stream that leaves the vertex unit is the numbers of rows. Results
//! are the same as vertex by vertex, because nothing after the vertex unit changes its input.
//!
//! This file must not know command lists, nor where attributes come from.

use super::assembly::Assembler;
use super::buffers::{Buffers, resize};
use super::configuration::DrawConfiguration;
use super::deferred_run::DeferredRun;
use super::geometry::{Geometry, GeometryContext};
use super::limits::{self, Budget};
use super::report::Report;
use super::upload::ShaderState;
use super::{Gpu, Sink, State};
use crate::engine::{CancelFlag, Shader};
use crate::isa::Stage;
use crate::semantics::Semantics;
use crate::state::{Batch, BatchExit, Exit, Registers, Vec4, Vertices, VerticesMut};

/// Vertices that run together: enough to amortise the call, few enough that inputs, outputs and rows
/// fit into a first cache of 32 KiB. A multiple of three, so that lists of triangles are not split,
/// and of a group.
pub(super) const CHUNK: usize = 144;
/// Rows of a stream whose length is unknown: those in the vertex cache, and some batches.
pub(super) const STREAM_ROWS: usize = 4 * CHUNK;
const _: () = assert!(STREAM_ROWS > u8::MAX as usize + 1 + CHUNK);
/// Rows that a stream sends on together, at most; a multiple of three. It bounds the memory of draws
/// that only reuse vertices, and what follows a cancellation.
const SENT: usize = 4095;

/// How the vertices of a draw run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// In sequence on the unit, as on hardware.
    Singly,
    /// Together.
    InBatches,
}

/// A draw in progress.
pub(super) struct ActiveDraw<'a> {
    pub(super) state: &'a mut State,
    pub(super) buffers: &'a mut Buffers,
    sink: &'a mut dyn Sink,
    pub(super) cancel: &'a CancelFlag,
    pub(super) configuration: &'a DrawConfiguration,
    pub(super) shader: &'a Shader,
    /// The program of the geometry unit, if that is in use.
    geometry: Option<&'a Shader>,
    deferred: &'a mut DeferredRun,
    budget: &'a mut Budget,
    /// Vertices or indices taken from the budget.
    taken: u64,
    /// How often a vertex counts, once that is known.
    weight: Option<u64>,
    /// Unused with a geometry unit, which assembles what it emits.
    pub(super) assembler: Assembler,
    /// Vertices of the incomplete primitive, which precede the rows.
    pub(super) carried: usize,
    runs: Runs,
    /// Whether the run of a batch's last vertex on the unit is deferred.
    defers: bool,
    /// Rows of vertices that ran.
    rows: usize,
    /// Vertices in the inputs that have not run; theirs are the next rows.
    pending: usize,
    /// Vertices that left the unit: each time that one was in the stream.
    sent: u64,
    pub(super) report: Report,
}

impl<'a> ActiveDraw<'a> {
    pub(super) fn new(gpu: &'a mut Gpu, sink: &'a mut dyn Sink) -> ActiveDraw<'a> {
        let Gpu { engine, cancel, state, vertex, geometry, upload_stats, configuration, buffers, .. } = gpu;
        let (deferred, budget) = (&mut gpu.deferred, &mut gpu.budget);
        let file = &state.registers;
        let configuration = DrawConfiguration::get(configuration, file, sink.format(), &mut buffers.rows);
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats);
        let geometry = configuration
            .geometry
            .as_ref()
            .map(|_| geometry.get(engine, &state.geometry, file.entry(Stage::Geometry), upload_stats));
        // A panic of a sink or host in an earlier draw may have left some.
        buffers.ids.clear();
        ActiveDraw {
            state,
            buffers,
            sink,
            cancel,
            configuration,
            shader,
            geometry,
            deferred,
            budget,
            taken: 0,
            weight: None,
            assembler: Assembler::default(),
            carried: 0,
            runs: Runs::Singly,
            defers: false,
            rows: 0,
            pending: 0,
            sent: 0,
            report: Report::default(),
        }
    }

    /// How many of `more` vertices or indices are within the limits.
    #[inline]
    pub(super) fn take(&mut self, more: u64) -> u64 {
        let ActiveDraw { budget, taken, weight, shader, geometry, state, .. } = self;
        let weigh = || *weight.get_or_insert_with(|| self::weight(shader, *geometry, state));
        let granted = budget.take(*taken, more, weigh);
        *taken += granted;
        self.report.limited |= granted < more;
        granted
    }

    pub(super) fn has_geometry(&self) -> bool {
        self.geometry.is_some()
    }

    // ---- Runs ----

    /// Makes the unit ready for vertices that run so, and as many rows. Vertices that depend on each
    /// other run in order either way.
    #[inline]
    pub(super) fn begin(&mut self, runs: Runs, rows: usize) {
        self.runs = runs;
        self.prepare_rows(rows, rows);
        if runs == Runs::Singly {
            self.deferred.run(&mut self.state.vertex);
        } else {
            self.begin_batches();
        }
    }

    fn begin_batches(&mut self) {
        let plan = &self.configuration.fetch;
        resize(&mut self.buffers.inputs, CHUNK * plan.stride);
        // As on hardware, the next draw may read the registers that vertices leave. Other engines than
        // native code would copy the unit to preserve it.
        self.defers = self.shader.is_native() && self.shader.has_independent_vertices();
        match self.defers {
            true => self.deferred.run_unless_replaced(self.shader, plan.input_mask, &mut self.state.vertex),
            false => self.deferred.run(&mut self.state.vertex),
        }
    }

    /// Makes this many rows ready, and outputs of vertices.
    #[inline]
    pub(super) fn prepare_rows(&mut self, rows: usize, outputs: usize) {
        let DrawConfiguration { plan, output_stride, .. } = self.configuration;
        self.buffers.rows.prepare(plan, rows);
        resize(&mut self.buffers.outputs, outputs * output_stride);
        self.begin_rows();
    }

    /// Makes this many packed inputs ready.
    pub(super) fn prepare_inputs(&mut self, n: usize) {
        resize(&mut self.buffers.inputs, n * self.configuration.fetch.stride);
    }

    /// Adds a vertex, whose attributes `fill` stores in its input registers. Returns its row. `None`:
    /// the draw ends.
    #[inline]
    pub(super) fn add(&mut self, fill: impl FnOnce(&mut [Vec4])) -> Option<usize> {
        if self.runs == Runs::Singly {
            if self.report.ends_now(self.cancel) {
                return None;
            }
            if self.rows == STREAM_ROWS {
                self.recycle_rows();
            }
            fill(&mut self.state.vertex.unit.v);
            return self.run_one();
        }
        if self.pending == CHUNK {
            self.run_pending();
            if self.report.ended() {
                return None;
            }
            if self.rows + CHUNK > STREAM_ROWS {
                self.recycle_rows();
            }
        }
        let stride = self.configuration.fetch.stride;
        fill(&mut self.buffers.inputs[self.pending * stride..][..stride]);
        self.pending += 1;
        Some(self.rows + self.pending - 1)
    }

    /// Runs a vertex on the unit, whose input registers hold its attributes. Returns its row. `None`:
    /// it was interrupted, and the draw ends.
    #[inline]
    fn run_one(&mut self) -> Option<usize> {
        let ActiveDraw { shader, state, configuration, buffers, report, rows: row, .. } = self;
        run_vertex(shader, &mut state.vertex, configuration, buffers, *row, report).then(|| {
            self.rows += 1;
            self.report.vertices += 1;
            self.rows - 1
        })
    }

    /// Runs the pending vertices. If the draw ends at one of them, the stream ends with it.
    fn run_pending(&mut self) {
        let n = std::mem::take(&mut self.pending);
        if n == 0 {
            return;
        }
        let ran = self.run_inputs(n);
        if self.report.ended() {
            let position = |row: usize| {
                let id = (self.carried + row) as u32;
                self.buffers.ids.iter().position(|&other| other == id)
            };
            // The row of the first of them is in the stream before the others.
            let end = match ran {
                0 => position(self.rows),
                _ => position(self.rows - 1).map(|at| at + 1),
            };
            self.buffers.ids.truncate(end.unwrap_or(0));
        }
    }

    /// Runs the first `n` inputs: together, or in order if one of them has no END. Returns how many
    /// have outputs; fewer if the draw ends.
    pub(super) fn run_inputs(&mut self, n: usize) -> usize {
        if self.report.ends_now(self.cancel) {
            return 0;
        }
        let ran = self.run_in_order(n);
        let DrawConfiguration { plan, output_stride, .. } = self.configuration;
        if self.geometry.is_none() {
            let outputs = &self.buffers.outputs[self.rows * output_stride..][..ran * output_stride];
            let rows = self.rows..self.rows + ran;
            plan.map_rows(outputs, *output_stride, self.buffers.rows.rows(plan.format().stride(), rows));
        }
        self.rows += ran;
        self.report.vertices += ran as u64;
        ran
    }

    /// Runs the first `n` inputs as if in order. Returns how many have outputs.
    fn run_in_order(&mut self, n: usize) -> usize {
        let plan = &self.configuration.fetch;
        let outputs = self.rows * self.configuration.output_stride;
        let mut ended = self.run_batch(n, outputs, self.defers);
        if self.defers && ended.exit == Exit::End {
            let last = &self.buffers.inputs[(n - 1) * plan.stride..n * plan.stride];
            self.deferred.defer(self.shader, plan.input_mask, last);
        } else if self.defers {
            // A run without END may depend on the order, and on the unit.
            self.defers = false;
            self.deferred.run(&mut self.state.vertex);
            ended = self.run_batch(n, outputs, false);
        }
        self.report.note_vertices(ended.exit);
        ended.finished()
    }

    /// Runs the first `n` inputs. Their outputs are at `outputs` in that buffer.
    pub(super) fn run_batch(&mut self, n: usize, outputs: usize, preserve_unit: bool) -> BatchExit {
        let DrawConfiguration { fetch, output_mask, output_stride, .. } = self.configuration;
        let Buffers { inputs, outputs: buffer, .. } = &mut *self.buffers;
        let mut batch = Batch {
            inputs: Vertices::packed(inputs, fetch.stride, n).expect("as many rows as a chunk"),
            outputs: VerticesMut::packed(&mut buffer[outputs..], *output_stride, n).expect("as many rows as a chunk"),
            input_mask: fetch.input_mask,
            output_mask: *output_mask,
            preserve_unit,
        };
        let ShaderState { uniforms, unit, .. } = &mut self.state.vertex;
        self.shader.run_batch(uniforms, unit, &mut batch)
    }

    /// Defers the run of the vertex at the start of the inputs, which leaves the unit as the draw does.
    pub(super) fn defer_first_input(&mut self) {
        let plan = &self.configuration.fetch;
        self.deferred.defer(self.shader, plan.input_mask, &self.buffers.inputs[..plan.stride]);
    }

    /// Prepares for runs that preserve the unit.
    pub(super) fn preserve_unit(&mut self) {
        let mask = self.configuration.fetch.input_mask;
        self.deferred.run_unless_replaced(self.shader, mask, &mut self.state.vertex);
    }

    // ---- The stream ----

    /// Appends a row to the stream.
    #[inline]
    pub(super) fn push(&mut self, row: usize) {
        self.buffers.ids.push((self.carried + row) as u32);
        if self.buffers.ids.len() == SENT {
            self.run_pending();
            match self.report.ends_now(self.cancel) {
                true => self.buffers.ids.clear(),
                false => self.send(),
            }
        }
    }

    /// Appends a vertex count. The vertices of the last one proceed first.
    pub(super) fn count(&mut self, count: u32) {
        self.send();
        if !self.report.ended()
            && let Some((unit, mut context, _)) = self.geometry_context()
        {
            unit.vertex_count(count, &mut context);
        }
    }

    /// Sends the stream on.
    #[inline]
    pub(super) fn send(&mut self) {
        let ids = std::mem::take(&mut self.buffers.ids);
        self.send_ids(&ids);
        self.buffers.ids = ids;
        self.buffers.ids.clear();
    }

    /// Sends the first `count` rows on, in order.
    pub(super) fn send_in_order(&mut self, count: usize) {
        let mut sequence = std::mem::take(&mut self.buffers.sequence);
        let end = self.carried + count;
        (sequence.len()..end).for_each(|id| sequence.push(id as u32));
        self.send_ids(&sequence[self.carried..end]);
        self.buffers.sequence = sequence;
    }

    /// Sends vertices on: to the geometry unit, or to primitive assembly and the sink.
    #[inline]
    fn send_ids(&mut self, ids: &[u32]) {
        self.sent += ids.len() as u64;
        if self.geometry.is_some() {
            return self.send_to_geometry(ids);
        }
        let stride = self.configuration.plan.format().stride();
        let Buffers { rows, .. } = &mut *self.buffers;
        self.report.triangles += rows.send(stride, self.carried, &mut self.assembler, ids, self.rows, self.sink);
    }

    fn send_to_geometry(&mut self, ids: &[u32]) {
        let configuration = self.configuration;
        if let Some((_, mut context, buffers)) = self.geometry_context() {
            send_to_geometry(configuration, buffers, ids, &mut context);
        }
    }

    /// The geometry unit with what it changes, and the buffers.
    fn geometry_context(&mut self) -> Option<(&Geometry, GeometryContext<'_>, &mut Buffers)> {
        let State { registers, geometry: memory, geometry_input: input, assembly, .. } = &mut *self.state;
        let (shader, unit) = (self.geometry?, self.configuration.geometry.as_ref()?);
        let (cancel, report, sink) = (self.cancel, &mut self.report, &mut *self.sink);
        let context = GeometryContext { cancel, shader, registers, memory, input, assembly, report, sink };
        Some((unit, context, self.buffers))
    }

    // ---- Rows ----

    /// Begins with the incomplete primitive of the last draw, and no rows.
    #[inline]
    fn begin_rows(&mut self) {
        let DrawConfiguration { plan, topology, .. } = self.configuration;
        self.rows = 0;
        if self.geometry.is_none() {
            (self.assembler, self.carried) = self.buffers.rows.begin(plan, *topology, &self.state.assembly);
        }
    }

    /// Saves the incomplete primitive.
    #[inline]
    fn save(&mut self) {
        let (semantics, output_stride) = (self.configuration.semantics(), self.configuration.output_stride);
        let (carried, outputs) = (self.carried, std::mem::take(&mut self.buffers.outputs));
        self.save_with(|id| {
            let row = id as usize - carried;
            semantics.map_semantics(&outputs[row * output_stride..][..output_stride])
        });
        self.buffers.outputs = outputs;
    }

    /// Saves the incomplete primitive. `semantics` returns all of a vertex, where the sink's format
    /// may lack some.
    #[inline]
    pub(super) fn save_with(&mut self, semantics: impl Fn(u32) -> Semantics) {
        if self.geometry.is_some() {
            return;
        }
        let (plan, carried, rows) = (&self.configuration.plan, self.carried, &self.buffers.rows);
        self.assembler.save(&mut self.state.assembly, |id, to: &mut Semantics| match plan.is_default {
            true => *to = *rows.semantics(id as usize - carried),
            false => *to = semantics(id),
        });
    }

    /// Frees the rows, after the stream is sent.
    pub(super) fn free_rows(&mut self) {
        self.save();
        self.begin_rows();
    }

    /// Frees all rows but those in the vertex cache, which come first then.
    #[cold]
    fn recycle_rows(&mut self) {
        self.send();
        self.free_rows();
        let DrawConfiguration { plan, output_stride, .. } = self.configuration;
        let Buffers { cache, rows, outputs, .. } = &mut *self.buffers;
        // Rows ascend, so none is overwritten before it moves.
        for (to, row) in cache.rows_mut().enumerate() {
            let from = std::mem::replace(row, to as u32) as usize;
            rows.copy(plan.format().stride(), from, to);
            if self.geometry.is_some() || !plan.is_default {
                outputs.copy_within(from * output_stride..(from + 1) * output_stride, to * output_stride);
            }
            self.rows = to + 1;
        }
    }

    /// Sets how many rows there are of vertices that [`ActiveDraw::run_batch`] ran.
    pub(super) fn set_rows(&mut self, rows: usize) {
        self.rows = rows;
        self.report.vertices = rows as u64;
    }

    /// Sets how many vertices the draw has in its stream, also if it ended before.
    pub(super) fn set_sent(&mut self, vertices: usize) {
        self.sent = vertices as u64;
    }

    /// The numbers of an incomplete primitive's vertices whose semantics
    /// [`ActiveDraw::save_with`] asks for.
    pub(super) fn open_vertices(&self) -> [Option<u32>; 2] {
        match self.has_geometry() || self.configuration.plan.is_default {
            true => [None; 2],
            false => self.assembler.pending(),
        }
    }

    /// Ends the draw.
    #[inline]
    pub(super) fn finish(&mut self) -> Report {
        self.run_pending();
        self.send();
        self.save();
        self.report()
    }

    /// Ends the draw, after all is sent and saved.
    #[inline]
    pub(super) fn report(&self) -> Report {
        Report { reused: self.sent.saturating_sub(self.report.vertices), ..self.report }
    }
}

/// How often a vertex of these programs counts.
#[cold]
pub(super) fn weight(shader: &Shader, geometry: Option<&Shader>, state: &State) -> u64 {
    let of = |shader: &Shader, unit: &ShaderState| limits::weight(shader.most_words(&unit.uniforms.i));
    of(shader, &state.vertex) + geometry.map_or(0, |geometry| of(geometry, &state.geometry))
}

/// Runs a vertex, whose attributes are in the unit, and stores its row. Returns whether it has one: it
/// was not interrupted.
#[inline(always)]
pub(super) fn run_vertex(
    shader: &Shader,
    ShaderState { uniforms, unit, .. }: &mut ShaderState,
    configuration: &DrawConfiguration,
    buffers: &mut Buffers,
    row: usize,
    report: &mut Report,
) -> bool {
    let exit = shader.run(uniforms, unit);
    if exit != Exit::End {
        report.note_vertices(exit);
        if exit == Exit::Cancelled {
            return false;
        }
    }
    let DrawConfiguration { plan, output_stride, geometry, .. } = configuration;
    if configuration.keeps_outputs() {
        keep_outputs(&mut buffers.outputs, row, *output_stride, unit.outputs());
    }
    if geometry.is_none() {
        plan.map(unit.outputs().as_flattened(), buffers.rows.row_mut(plan.format().stride(), row));
    }
    true
}

#[inline(never)]
fn keep_outputs(to: &mut [Vec4], row: usize, stride: usize, outputs: &Registers) {
    to[row * stride..][..stride].copy_from_slice(&outputs[..stride]);
}

/// Sends vertices to the geometry unit, if it is in use: rows of the buffer of outputs.
pub(super) fn send_to_geometry(
    configuration: &DrawConfiguration,
    buffers: &mut Buffers,
    ids: &[u32],
    context: &mut GeometryContext<'_>,
) {
    let DrawConfiguration { output_mask, output_stride, geometry, .. } = configuration;
    let Some(unit) = geometry else { return };
    let Buffers { outputs, invocations, .. } = buffers;
    let vertex = |id: u32| &outputs[id as usize * output_stride..][..*output_stride];
    if ids.len() >= unit.together_from {
        return unit.take_together(*output_mask, ids.iter().map(|&id| vertex(id)), invocations, context);
    }
    for &id in ids {
        unit.vertex(*output_mask, vertex(id), context);
        if context.report.geometry_ended() {
            break;
        }
    }
}
