//! Attributes of vertices -> triangles: the vertex units run in batches, then the geometry unit or
//! primitive assembly takes their outputs vertex by vertex.
//!
//! Vertices are collected until [`BATCH`] are pending, run together, and proceed in drawing order.
//! Results are the same as vertex by vertex, because nothing after the vertex units changes their
//! input. This file must not know command lists.

use super::assembly::Topology;
use super::cache::{Lookup, VertexCache};
use super::geometry::{Geometry, GeometryContext, GeometryInput, GeometryMode};
use super::output_mapping::OutputMapping;
use super::registers::PRIMITIVE_CONFIG;
use super::{Attributes, Gpu, Sink, State};
use crate::engine::Shader;
use crate::isa::{REGS, Stage};
use crate::state::{Batch, BatchExit, Exit, Registers, VertexLayout};
use std::borrow::Borrow;

/// Vertices that run together: enough to amortise the call, few enough for a second-level cache.
const BATCH: usize = 256;
/// Slots of a vertex cache, which precede the outputs of the batch.
const SLOTS: usize = u8::MAX as usize + 1;

/// The statistics of one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Vertices that a vertex unit ran.
    pub vertices: u64,
    /// Vertices that reused the outputs of an earlier one.
    pub reused: u64,
    /// Runs of the geometry unit.
    pub geometry_runs: u64,
    /// Vertices that no geometry run takes: in variable mode, those without a count.
    pub dropped: u64,
    /// Triangles that the sink received.
    pub triangles: u64,
    /// [`Exit::Fuel`] if a vertex ran out of fuel: the draw ends there. Otherwise [`Exit::End`], or
    /// the first other exit of the vertex program.
    pub vertex_exit: Exit,
    /// The same of the geometry program.
    pub geometry_exit: Exit,
}

impl Default for Report {
    fn default() -> Report {
        let [vertex_exit, geometry_exit] = [Exit::End; 2];
        Report { vertices: 0, reused: 0, geometry_runs: 0, dropped: 0, triangles: 0, vertex_exit, geometry_exit }
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
        self.state.geometry_input = GeometryInput::default();
        let mut draw = ActiveDraw::new(self, sink);
        for vertex in vertices {
            if draw.ended() {
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
        self.state.geometry_input = GeometryInput::default();
        cache.begin();
        let mut draw = ActiveDraw::new(self, sink);
        let counted = draw.geometry.as_ref().is_some_and(|g| matches!(g.mode, GeometryMode::Variable { .. }));
        let mut left = 0;
        for index in indices {
            if draw.ended() {
                break;
            }
            if counted && left == 0 {
                left = index;
                draw.count(index);
                continue;
            }
            left = left.saturating_sub(1);
            match cache.lookup(index) {
                Lookup::Run => {
                    draw.vertex(&fetch(index));
                }
                Lookup::Store(slot) => {
                    let position = draw.vertex(&fetch(index));
                    draw.cached[usize::from(slot)] = Some(position);
                }
                Lookup::Reuse(slot) => match draw.cached[usize::from(slot)] {
                    Some(position) => draw.reuse(position),
                    None => {
                        draw.vertex(&fetch(index));
                    }
                },
            }
        }
        draw.finish()
    }

    /// Draws vertices of immediate mode ([`Effect::Vertex`](super::Effect::Vertex)). An incomplete
    /// input of the geometry unit continues until immediate mode is selected again.
    pub fn draw_immediate(&mut self, vertices: &[Attributes], sink: &mut dyn Sink) -> Report {
        let mut draw = ActiveDraw::new(self, sink);
        for vertex in vertices {
            draw.vertex(vertex);
        }
        draw.finish()
    }
}

/// A draw in progress.
struct ActiveDraw<'a> {
    state: &'a mut State,
    scratch: &'a mut Scratch,
    sink: &'a mut dyn Sink,
    shader: Shader,
    /// The `v` register of each attribute.
    registers: [u8; REGS],
    attributes: usize,
    input_mask: u16,
    output_mask: u16,
    mapping: OutputMapping,
    topology: Topology,
    geometry: Option<Geometry>,
    /// The output position of each vertex cache slot.
    cached: [Option<u16>; SLOTS],
    report: Report,
}

impl<'a> ActiveDraw<'a> {
    fn new(gpu: &'a mut Gpu, sink: &'a mut dyn Sink) -> ActiveDraw<'a> {
        let Gpu { engine, state, vertex, geometry, upload_stats, scratch } = gpu;
        let file = &state.registers;
        let topology = Topology::from_register(file.get(PRIMITIVE_CONFIG));
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats);
        let geometry = file.has_geometry().then(|| {
            let shader = geometry.get(engine, &state.geometry, file.entry(Stage::Geometry), upload_stats);
            Geometry::new(file, topology, shader)
        });
        let (registers, attributes) = (file.permutation(Stage::Vertex), file.attributes(Stage::Vertex));
        // A panic of a sink or host in an earlier draw may have left items.
        scratch.pending = 0;
        scratch.order.clear();
        scratch.inputs.resize(BATCH, [[0.0; 4]; REGS]);
        scratch.outputs.resize(SLOTS + BATCH, [[0.0; 4]; REGS]);
        ActiveDraw {
            shader,
            registers,
            attributes,
            input_mask: registers[..attributes].iter().fold(0, |mask, n| mask | 1 << n),
            output_mask: file.output_mask(Stage::Vertex),
            mapping: OutputMapping::new(&file.output_map(Stage::Vertex)),
            topology,
            geometry,
            cached: [None; SLOTS],
            report: Report::default(),
            state,
            scratch,
            sink,
        }
    }

    /// Adds a vertex that must run. Returns the position of its outputs, valid until [`BATCH`] more
    /// vertices are added.
    fn vertex(&mut self, attributes: &Attributes) -> u16 {
        if self.scratch.pending == BATCH {
            self.flush();
            self.save_cached_outputs();
        }
        let Scratch { inputs, pending, order, .. } = &mut *self.scratch;
        // Registers without an attribute hold old values; the mask excludes them.
        for (&register, attribute) in self.registers[..self.attributes].iter().zip(attributes) {
            inputs[*pending][usize::from(register)] = *attribute;
        }
        let position = (SLOTS + *pending) as u16;
        *pending += 1;
        order.push(StreamItem::Vertex(position));
        position
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

    /// Whether a vertex has run out of fuel, which ends the draw.
    fn ended(&self) -> bool {
        self.report.vertex_exit == Exit::Fuel
    }

    /// Runs the pending vertices and sends the stream on.
    fn flush(&mut self) {
        if self.ended() {
            self.scratch.order.clear();
            self.scratch.pending = 0;
            return;
        }
        let Scratch { inputs, pending, outputs, order } = &mut *self.scratch;
        let State { registers, vertex, geometry, geometry_input: input, assembly, .. } = &mut *self.state;
        let mut batch = Batch {
            inputs: (&inputs[..*pending]).into(),
            outputs: (&mut outputs[SLOTS..]).into(),
            input_mask: self.input_mask,
            output_mask: self.output_mask,
            // As on hardware, the next draw may read the registers that vertices leave.
            preserve_unit: false,
            layout: VertexLayout::Aos,
        };
        if !batch.inputs.is_empty() {
            let BatchExit { exit, ran } = self.shader.run_batch(&vertex.uniforms, &mut vertex.unit, &mut batch);
            if exit == Exit::Fuel || self.report.vertex_exit == Exit::End {
                self.report.vertex_exit = exit;
            }
            if ran < *pending {
                // The draw ends here: what follows in the stream has no outputs.
                let beyond =
                    |item: &StreamItem| matches!(item, StreamItem::Vertex(at) if usize::from(*at) >= SLOTS + ran);
                let end = order.iter().position(beyond).unwrap_or(order.len());
                order.truncate(end);
                *pending = ran;
            }
        }
        self.report.vertices += std::mem::take(pending) as u64;
        match &self.geometry {
            None => {
                for item in order.drain(..) {
                    let StreamItem::Vertex(position) = item else { continue };
                    let vertex = self.mapping.apply(&outputs[usize::from(position)]);
                    let completed = assembly.push(self.topology, &vertex, false, self.sink);
                    self.report.triangles += u64::from(completed);
                }
            }
            Some(unit) => {
                let (report, sink) = (&mut self.report, &mut *self.sink);
                let mut context = GeometryContext { registers, memory: geometry, input, assembly, report, sink };
                for item in order.drain(..) {
                    match item {
                        StreamItem::Vertex(position) => {
                            unit.vertex(self.output_mask, &outputs[usize::from(position)], &mut context)
                        }
                        StreamItem::Count(count) => unit.vertex_count(count, &mut context),
                    }
                }
            }
        }
    }

    /// Moves cached outputs out of the area that the next batch overwrites.
    fn save_cached_outputs(&mut self) {
        let outputs = &mut self.scratch.outputs;
        for (slot, position) in self.cached.iter_mut().enumerate() {
            if let Some(position) = position.as_mut().filter(|position| usize::from(**position) >= SLOTS) {
                outputs[slot] = outputs[usize::from(*position)];
                *position = slot as u16;
            }
        }
    }
}
