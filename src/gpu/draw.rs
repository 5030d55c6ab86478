//! Attributes of vertices -> triangles: the vertex units run in batches, then the geometry unit or
//! primitive assembly takes their outputs vertex by vertex.
//!
//! Vertices are collected until [`BATCH`] are pending, run together, and proceed in drawing order.
//! Results are the same as vertex by vertex, because nothing after the vertex units changes their
//! input. This file must not know command lists.

use super::buffers::Buffers;
use super::cache::{Lookup, VertexCache};
use super::configuration::DrawConfiguration;
use super::geometry::{Geometry, GeometryContext, GeometryInput, GeometryMode};
use super::limits::Budget;
use super::rows::VertexRows;
use super::{Attributes, Gpu, Sink, State};
use crate::engine::{Engine, Shader};
use crate::fp_mode::DefaultMode;
use crate::isa::{REGS, Stage};
use crate::state::{Batch, Exit, Registers};
use std::borrow::Borrow;

/// Vertices that run together: enough to amortise the call, few enough for a second-level cache.
const BATCH: usize = 256;
/// Slots of a vertex cache, which precede the outputs of the batch.
const SLOTS: usize = u8::MAX as usize + 1;

/// The statistics of one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Vertices that a vertex unit ran. [`Gpu::draw`] may run some that no index names.
    pub vertices: u64,
    /// Vertices that reused the outputs of an earlier one: where each runs once, what the indices
    /// exceed [`Report::vertices`] by.
    pub reused: u64,
    /// Runs of the geometry unit.
    pub geometry_runs: u64,
    /// Vertices that no geometry run takes: in variable mode, those without a count.
    pub dropped: u64,
    /// Triangles that the sink received.
    pub triangles: u64,
    /// [`Exit::Fuel`] if a vertex ran out of fuel: the draw ends there. [`Exit::Cancelled`] if the
    /// engine is cancelled: the draw ends with the last vertex that is known to be complete.
    /// Otherwise [`Exit::End`], or the first other exit of the vertex program.
    pub vertex_exit: Exit,
    /// The same of the geometry program, whose runs a draw ends at likewise.
    pub geometry_exit: Exit,
    /// Whether the draw has more vertices, or indices, than a limit: [`DrawOptions::limit`] or one of
    /// [`Limits`]. All up to the limit were drawn.
    ///
    /// [`DrawOptions::limit`]: super::DrawOptions::limit
    /// [`Limits`]: super::Limits
    pub limited: bool,
}

impl Report {
    /// Whether the draw ends: a run of either unit ran out of fuel, or was cancelled.
    pub(super) fn ended(&self) -> bool {
        self.vertex_exit.ends_batch() || self.geometry_ended()
    }

    /// Whether the geometry unit takes no further vertex: a run ran out of fuel, or was cancelled.
    pub(super) fn geometry_ended(&self) -> bool {
        self.geometry_exit.ends_batch()
    }

    /// Whether the draw ends between two batches.
    pub(super) fn ends_now(&mut self, engine: &Engine) -> bool {
        if engine.is_cancelled() {
            self.note_vertices(Exit::Cancelled);
        }
        self.ended()
    }

    /// Notes how runs of the vertex unit ended.
    pub(super) fn note_vertices(&mut self, exit: Exit) {
        self.vertex_exit = self.vertex_exit.and_then(exit);
    }

    /// Notes how a run of the geometry unit ended.
    pub(super) fn note_geometry(&mut self, exit: Exit) {
        self.geometry_exit = self.geometry_exit.and_then(exit);
    }
}

impl Default for Report {
    fn default() -> Report {
        let [vertex_exit, geometry_exit] = [Exit::End; 2];
        Report {
            vertices: 0,
            reused: 0,
            geometry_runs: 0,
            dropped: 0,
            triangles: 0,
            vertex_exit,
            geometry_exit,
            limited: false,
        }
    }
}

/// Buffers that draws reuse. They carry no state from draw to draw.
#[derive(Default)]
pub(super) struct Scratch {
    /// Inputs of a batch, of which the first `pending` are valid.
    inputs: Vec<Registers>,
    pending: usize,
    outputs: Vec<Registers>,
    order: Vec<StreamItem>,
    ids: Vec<u32>,
    pub(super) rows: VertexRows,
    pub(super) whole: Buffers,
}

/// An element of the stream that leaves the vertex units, in drawing order.
#[derive(Clone, Copy)]
enum StreamItem {
    /// A vertex, by its position in the outputs.
    Vertex(u16),
    /// A vertex count of a variable primitive.
    Count(u32),
}

const _: () = assert!(SLOTS + BATCH <= u16::MAX as usize);

impl Gpu {
    /// Draws `vertices` in order, as [`DRAWARRAYS`](super::registers::DRAWARRAYS) requests. The
    /// host fetches their attributes from arrays, or takes [`Gpu::default_attribute`]. Attributes
    /// from [`attributes`](super::registers::RegisterFile::attributes) on are ignored.
    ///
    /// An incomplete input of the geometry unit from an earlier draw is discarded. An incomplete
    /// primitive continues.
    pub fn draw_arrays<V: Borrow<Attributes>>(
        &mut self,
        vertices: impl IntoIterator<Item = V>,
        sink: &mut dyn Sink,
    ) -> Report {
        let _mode = DefaultMode::enter();
        self.state.geometry_input = GeometryInput::default();
        let mut draw = ActiveDraw::new(self, sink);
        for vertex in vertices {
            if draw.report.ended() || !draw.may_add() {
                break;
            }
            draw.vertex(vertex.borrow());
        }
        draw.finish()
    }

    /// Draws the vertices that `indices` select, as
    /// [`DRAWELEMENTS`](super::registers::DRAWELEMENTS) requests. `fetch` returns the attributes of
    /// an index. It is not called for vertices in `cache`, nor for the vertex counts in the index
    /// stream of variable primitives. Otherwise as [`Gpu::draw_arrays`].
    pub fn draw_elements(
        &mut self,
        indices: impl IntoIterator<Item = u32>,
        mut fetch: impl FnMut(u32) -> Attributes,
        cache: &mut dyn VertexCache,
        sink: &mut dyn Sink,
    ) -> Report {
        let _mode = DefaultMode::enter();
        self.state.geometry_input = GeometryInput::default();
        let draw = ActiveDraw::new(self, sink);
        let (registers, attributes) = (draw.registers, draw.attributes);
        let fetch = |index, to: &mut Registers| permute(&registers[..attributes], &fetch(index), to);
        draw.elements(indices.into_iter(), fetch, cache)
    }

    /// Draws vertices of immediate mode ([`Effect::Vertex`](super::Effect::Vertex)). An incomplete
    /// input of the geometry unit continues until immediate mode is selected again.
    pub fn draw_immediate(&mut self, vertices: &[Attributes], sink: &mut dyn Sink) -> Report {
        let _mode = DefaultMode::enter();
        let mut draw = ActiveDraw::new(self, sink);
        for vertex in vertices {
            if draw.report.ended() || !draw.may_add() {
                break;
            }
            draw.vertex(vertex);
        }
        draw.finish()
    }
}

/// Stores attributes in their registers. Registers without an attribute hold old values; the input
/// mask excludes them.
fn permute(registers: &[u8], attributes: &Attributes, to: &mut Registers) {
    registers.iter().zip(attributes).for_each(|(&register, attribute)| to[usize::from(register)] = *attribute);
}

/// A draw in progress.
pub(super) struct ActiveDraw<'a> {
    state: &'a mut State,
    scratch: &'a mut Scratch,
    sink: &'a mut dyn Sink,
    engine: &'a Engine,
    shader: Shader,
    /// The `v` register of each attribute.
    registers: [u8; REGS],
    attributes: usize,
    input_mask: u16,
    output_mask: u16,
    configuration: &'a DrawConfiguration,
    geometry: Option<Geometry>,
    /// The output position of each vertex cache slot.
    cached: [Option<u16>; SLOTS],
    budget: &'a mut Budget,
    /// Vertices or indices taken from the budget; `None`: all were taken before.
    taken: Option<u64>,
    report: Report,
}

impl<'a> ActiveDraw<'a> {
    pub(super) fn new(gpu: &'a mut Gpu, sink: &'a mut dyn Sink) -> ActiveDraw<'a> {
        let Gpu { engine, state, vertex, geometry, upload_stats, configuration, scratch, deferred, budget } = gpu;
        deferred.run(&mut state.vertex);
        let file = &state.registers;
        let configuration = DrawConfiguration::get(configuration, file, sink.format(), &mut scratch.rows);
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats).clone();
        let geometry = file.has_geometry().then(|| {
            let shader = geometry.get(engine, &state.geometry, file.entry(Stage::Geometry), upload_stats);
            Geometry::new(file, configuration.topology, shader.clone())
        });
        let (registers, attributes) = (file.permutation(Stage::Vertex), file.attributes(Stage::Vertex));
        // A panic of a sink or host in an earlier draw may have left items.
        scratch.pending = 0;
        scratch.order.clear();
        scratch.rows.prepare(&configuration.plan, SLOTS + BATCH);
        scratch.inputs.resize(BATCH, [[0.0; 4]; REGS]);
        scratch.outputs.resize(SLOTS + BATCH, [[0.0; 4]; REGS]);
        ActiveDraw {
            engine,
            shader,
            registers,
            attributes,
            input_mask: registers[..attributes].iter().fold(0, |mask, n| mask | 1 << n),
            output_mask: file.output_mask(Stage::Vertex),
            configuration,
            geometry,
            cached: [None; SLOTS],
            budget,
            taken: Some(0),
            report: Report::default(),
            state,
            scratch,
            sink,
        }
    }

    /// The draw without limits, for a caller that has taken its vertices from the budget.
    pub(super) fn with_taken_vertices(self) -> ActiveDraw<'a> {
        ActiveDraw { taken: None, ..self }
    }

    /// Whether another vertex or index is within the limits.
    fn may_add(&mut self) -> bool {
        let Some(taken) = &mut self.taken else { return true };
        let granted = self.budget.take(*taken, 1);
        *taken += granted;
        self.report.limited |= granted == 0;
        granted != 0
    }

    /// Draws the vertices of an index stream. `fetch` stores the input registers of an index.
    pub(super) fn elements(
        mut self,
        indices: impl Iterator<Item = u32>,
        mut fetch: impl FnMut(u32, &mut Registers),
        cache: &mut dyn VertexCache,
    ) -> Report {
        cache.begin();
        let draw = &mut self;
        let counted = draw.geometry.as_ref().is_some_and(|g| matches!(g.mode, GeometryMode::Variable { .. }));
        let mut left = 0;
        for index in indices {
            if draw.report.ended() || !draw.may_add() {
                break;
            }
            if counted && left == 0 {
                left = index;
                draw.count(index);
                continue;
            }
            left = left.saturating_sub(1);
            match cache.lookup(index) {
                Lookup::Run => fetch(index, draw.add()),
                Lookup::Store(slot) => {
                    fetch(index, draw.add());
                    draw.cached[usize::from(slot)] = Some(draw.last());
                }
                Lookup::Reuse(slot) => match draw.cached[usize::from(slot)] {
                    Some(position) => draw.reuse(position),
                    None => fetch(index, draw.add()),
                },
            }
        }
        self.finish()
    }

    /// Adds a vertex that must run.
    fn vertex(&mut self, attributes: &Attributes) {
        let (registers, attribute_count) = (self.registers, self.attributes);
        permute(&registers[..attribute_count], attributes, self.add());
    }

    /// Adds a vertex that must run, and returns its input registers.
    fn add(&mut self) -> &mut Registers {
        if self.scratch.pending == BATCH {
            self.flush();
            self.save_cached_outputs();
        }
        let Scratch { inputs, pending, order, .. } = &mut *self.scratch;
        *pending += 1;
        order.push(StreamItem::Vertex((SLOTS + *pending - 1) as u16));
        &mut inputs[*pending - 1]
    }

    /// The position of the last added vertex's outputs, valid until [`BATCH`] more are added.
    fn last(&self) -> u16 {
        (SLOTS + self.scratch.pending - 1) as u16
    }

    fn reuse(&mut self, position: u16) {
        self.report.reused += 1;
        self.item(StreamItem::Vertex(position));
    }

    fn count(&mut self, count: u32) {
        self.item(StreamItem::Count(count));
    }

    /// Appends an item that needs no run. The bound limits the memory of draws that only reuse
    /// vertices.
    fn item(&mut self, item: StreamItem) {
        self.scratch.order.push(item);
        if self.scratch.order.len() >= 16 * BATCH {
            self.flush();
            self.save_cached_outputs();
        }
    }

    fn finish(mut self) -> Report {
        self.flush();
        self.report
    }

    /// Runs the pending vertices and sends the stream on.
    fn flush(&mut self) {
        if self.report.ends_now(self.engine) {
            self.drop_stream(0);
            return;
        }
        let Scratch { inputs, pending, outputs, .. } = &mut *self.scratch;
        let mut batch = Batch {
            inputs: (&inputs[..*pending]).into(),
            outputs: (&mut outputs[SLOTS..]).into(),
            input_mask: self.input_mask,
            output_mask: self.output_mask,
            // As on hardware, the next draw may read the registers that vertices leave.
            preserve_unit: false,
        };
        if !batch.inputs.is_empty() {
            let vertex = &mut self.state.vertex;
            let ended = self.shader.run_batch(&vertex.uniforms, &mut vertex.unit, &mut batch);
            self.report.note_vertices(ended.exit);
            if ended.exit.ends_batch() {
                self.drop_stream(ended.finished());
            }
        }
        let Scratch { pending, outputs, order, ids, rows, .. } = &mut *self.scratch;
        let State { registers, geometry, geometry_input: input, assembly, .. } = &mut *self.state;
        let ran = SLOTS..SLOTS + std::mem::take(pending);
        self.report.vertices += ran.len() as u64;
        match &self.geometry {
            None => {
                let DrawConfiguration { mapping, plan, topology, .. } = self.configuration;
                let stride = plan.format().stride();
                plan.apply(outputs[ran.clone()].as_flattened(), REGS, rows.rows(stride, ran));
                let (mut assembler, carried) = rows.begin(plan, *topology, assembly);
                ids.clear();
                ids.extend(order.drain(..).filter_map(|item| match item {
                    StreamItem::Vertex(position) => Some(u32::from(position) + carried as u32),
                    StreamItem::Count(_) => None,
                }));
                self.report.triangles += rows.send(stride, carried, &mut assembler, ids, SLOTS + BATCH, self.sink);
                assembler.save(assembly, |id, to| *to = mapping.apply(&outputs[id as usize - carried]));
            }
            Some(unit) => {
                let (report, sink) = (&mut self.report, &mut *self.sink);
                let engine = self.engine;
                let mut context =
                    GeometryContext { engine, registers, memory: geometry, input, assembly, report, sink };
                for item in order.drain(..) {
                    match item {
                        StreamItem::Vertex(position) => {
                            unit.vertex(self.output_mask, &outputs[usize::from(position)], &mut context)
                        }
                        StreamItem::Count(count) => unit.vertex_count(count, &mut context),
                    }
                    if context.report.geometry_ended() {
                        break;
                    }
                }
            }
        }
    }

    /// The draw ends after the first `ran` pending vertices: drops the others, and the stream after
    /// the last of these.
    fn drop_stream(&mut self, ran: usize) {
        let Scratch { pending, order, .. } = &mut *self.scratch;
        let is_last = |item: &StreamItem| matches!(item, StreamItem::Vertex(at) if usize::from(*at) + 1 == SLOTS + ran);
        let end = if ran == 0 { 0 } else { order.iter().position(is_last).map_or(0, |at| at + 1) };
        let dropped = order.drain(end..).filter(|item| matches!(item, StreamItem::Vertex(_))).count();
        self.report.reused -= (dropped - (*pending - ran)) as u64;
        *pending = ran;
    }

    /// Moves cached outputs out of the area that the next batch overwrites.
    fn save_cached_outputs(&mut self) {
        let Scratch { outputs, rows, .. } = &mut *self.scratch;
        let stride = self.configuration.plan.format().stride();
        for (slot, position) in self.cached.iter_mut().enumerate() {
            if let Some(position) = position.as_mut().filter(|position| usize::from(**position) >= SLOTS) {
                outputs[slot] = outputs[usize::from(*position)];
                rows.copy(stride, usize::from(*position), slot);
                *position = slot as u16;
            }
        }
    }
}
