//! Attributes of vertices -> triangles: the vertex units in batches, then the geometry unit or primitive assembly,
//! vertex by vertex.
//!
//! Vertices are collected until there are [`BATCH`] of them, run together, and go on in the order in which they were
//! drawn. That can't be told from one by one: nothing behind the vertex units changes what they see. It must not know
//! command lists.

use super::assembly::Topology;
use super::cache::{Lookup, VertexCache};
use super::geometry::{Fed, Feed, Geometry, Work};
use super::registers::PRIMITIVE_CONFIG;
use super::wiring::Wiring;
use super::{Attributes, Gpu, Sink, State};
use crate::engine::Shader;
use crate::isa::{REGS, Stage};
use crate::state::{Batch, Exit, Registers, VertexLayout};
use std::borrow::Borrow;

/// Vertices that are run together: enough to pay, and small enough for a second-level cache.
const BATCH: usize = 256;
/// Places in front of a batch's outputs, for those that a vertex cache keeps.
const SLOTS: usize = u8::MAX as usize + 1;

/// What a draw has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Vertices that a vertex unit has run.
    pub vertices: u64,
    /// Vertices that took the outputs of an earlier one.
    pub reused: u64,
    /// Runs of the geometry unit.
    pub geometry_runs: u64,
    /// Vertices that no geometry run can take: in the variable mode, those that no count has announced.
    pub dropped: u64,
    /// Triangles that the sink was given.
    pub triangles: u64,
    /// How runs of the vertex program ended: [`Exit::End`], or the first other way.
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

/// Memory that draws use and leave nothing in.
#[derive(Default)]
pub(super) struct Scratch {
    /// A batch's worth, of which the first `waiting` are to run.
    inputs: Vec<Registers>,
    waiting: usize,
    outputs: Vec<Registers>,
    order: Vec<Item>,
}

/// What comes out of the vertex units, in the order of drawing.
#[derive(Clone, Copy)]
enum Item {
    /// A vertex: where in the outputs it is.
    Vertex(u16),
    /// A vertex count of a variable primitive.
    Count(u32),
}

const _: () = assert!(SLOTS + BATCH <= u16::MAX as usize);

impl Gpu {
    /// Draws `vertices` in their order, as [`DRAWARRAYS`](super::registers::DRAWARRAYS) asks for. Attributes are as
    /// fetched: from arrays, or [`Gpu::default_attribute`]; those from
    /// [`attributes`](super::registers::RegisterFile::attributes) on are not looked at.
    ///
    /// What an earlier draw has left incomplete in the geometry unit's input is forgotten; what it has left in
    /// primitive assembly is not.
    pub fn draw_arrays<V: Borrow<Attributes>>(
        &mut self,
        vertices: impl IntoIterator<Item = V>,
        sink: &mut dyn Sink,
    ) -> Report {
        self.state.fed = Fed::default();
        let mut draw = Draw::new(self, sink);
        for vertex in vertices {
            draw.vertex(vertex.borrow());
        }
        draw.finish()
    }

    /// Draws the vertices that `indices` names, as [`DRAWELEMENTS`](super::registers::DRAWELEMENTS) asks for. `fetch`
    /// gives the attributes of an index; it is not called for vertices that `cache` knows, nor for the vertex counts
    /// that stand among the indices if the geometry unit takes primitives of variable size. Otherwise as
    /// [`Gpu::draw_arrays`].
    pub fn draw_elements(
        &mut self,
        indices: impl IntoIterator<Item = u32>,
        mut fetch: impl FnMut(u32) -> Attributes,
        cache: &mut dyn VertexCache,
        sink: &mut dyn Sink,
    ) -> Report {
        self.state.fed = Fed::default();
        cache.begin();
        let mut draw = Draw::new(self, sink);
        let counted = draw.geometry.as_ref().is_some_and(|g| matches!(g.feed, Feed::Variable { .. }));
        let mut left = 0;
        for index in indices {
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
                    let place = draw.vertex(&fetch(index));
                    draw.kept[usize::from(slot)] = Some(place);
                }
                Lookup::Reuse(slot) => match draw.kept[usize::from(slot)] {
                    Some(place) => draw.again(place),
                    None => {
                        draw.vertex(&fetch(index));
                    }
                },
            }
        }
        draw.finish()
    }

    /// Draws vertices of immediate mode ([`Effect::Vertex`](super::Effect::Vertex)). An incomplete input of the
    /// geometry unit goes on, until immediate mode is begun again.
    pub fn draw_immediate(&mut self, vertices: &[Attributes], sink: &mut dyn Sink) -> Report {
        let mut draw = Draw::new(self, sink);
        for vertex in vertices {
            draw.vertex(vertex);
        }
        draw.finish()
    }
}

/// A draw that is going on.
struct Draw<'a> {
    state: &'a mut State,
    scratch: &'a mut Scratch,
    sink: &'a mut dyn Sink,
    shader: Shader,
    /// The `v` register of each attribute that there is.
    registers: [u8; REGS],
    attributes: usize,
    input_mask: u16,
    output_mask: u16,
    wiring: Wiring,
    topology: Topology,
    geometry: Option<Geometry>,
    /// Where outputs are that the cache keeps.
    kept: [Option<u16>; SLOTS],
    report: Report,
}

impl<'a> Draw<'a> {
    fn new(gpu: &'a mut Gpu, sink: &'a mut dyn Sink) -> Draw<'a> {
        let Gpu { engine, state, vertex, geometry, work, scratch } = gpu;
        let file = &state.registers;
        let topology = Topology::from_register(file.get(PRIMITIVE_CONFIG));
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), work);
        let geometry = file.has_geometry().then(|| {
            let shader = geometry.get(engine, &state.geometry, file.entry(Stage::Geometry), work);
            Geometry::new(file, topology, shader)
        });
        let (registers, attributes) = (file.permutation(Stage::Vertex), file.attributes(Stage::Vertex));
        // A panic of a sink or of the host may have left something.
        scratch.waiting = 0;
        scratch.order.clear();
        scratch.inputs.resize(BATCH, [[0.0; 4]; REGS]);
        scratch.outputs.resize(SLOTS + BATCH, [[0.0; 4]; REGS]);
        Draw {
            shader,
            registers,
            attributes,
            input_mask: registers[..attributes].iter().fold(0, |mask, n| mask | 1 << n),
            output_mask: file.output_mask(Stage::Vertex),
            wiring: Wiring::new(&file.output_map(Stage::Vertex)),
            topology,
            geometry,
            kept: [None; SLOTS],
            report: Report::default(),
            state,
            scratch,
            sink,
        }
    }

    /// Takes a vertex that is to run. Gives where its outputs will be, until 256 others have come.
    fn vertex(&mut self, attributes: &Attributes) -> u16 {
        if self.scratch.waiting == BATCH {
            self.flush();
            self.keep();
        }
        let Scratch { inputs, waiting, order, .. } = &mut *self.scratch;
        // Registers that no attribute goes to hold anything, and are left out by the mask.
        for (&register, attribute) in self.registers[..self.attributes].iter().zip(attributes) {
            inputs[*waiting][usize::from(register)] = *attribute;
        }
        let place = (SLOTS + *waiting) as u16;
        *waiting += 1;
        order.push(Item::Vertex(place));
        place
    }

    fn again(&mut self, place: u16) {
        self.report.reused += 1;
        self.item(Item::Vertex(place));
    }

    fn count(&mut self, count: u32) {
        self.item(Item::Count(count));
    }

    /// Something that needs no run. However many of them there are, no more than some wait.
    fn item(&mut self, item: Item) {
        self.scratch.order.push(item);
        if self.scratch.order.len() >= 16 * BATCH {
            self.flush();
            self.keep();
        }
    }

    fn finish(mut self) -> Report {
        self.flush();
        self.report
    }

    /// Runs what waits and sends it on.
    fn flush(&mut self) {
        let Scratch { inputs, waiting, outputs, order } = &mut *self.scratch;
        let State { registers, vertex, geometry, fed, assembly, .. } = &mut *self.state;
        let mut batch = Batch {
            inputs: (&inputs[..*waiting]).into(),
            outputs: (&mut outputs[SLOTS..]).into(),
            input_mask: self.input_mask,
            output_mask: self.output_mask,
            // As hardware has it: what vertices leave may be read in the next draw.
            preserve_unit: false,
            layout: VertexLayout::Aos,
        };
        if !batch.inputs.is_empty() {
            let exit = self.shader.run_batch(&vertex.uniforms, &mut vertex.unit, &mut batch);
            if self.report.vertex_exit == Exit::End {
                self.report.vertex_exit = exit;
            }
        }
        self.report.vertices += std::mem::take(waiting) as u64;
        match &self.geometry {
            None => {
                for item in order.drain(..) {
                    let Item::Vertex(place) = item else { continue };
                    let vertex = self.wiring.apply(&outputs[usize::from(place)]);
                    let sent = assembly.push(self.topology, &vertex, false, self.sink);
                    self.report.triangles += u64::from(sent);
                }
            }
            Some(unit) => {
                let (report, sink) = (&mut self.report, &mut *self.sink);
                let mut work = Work { registers, memory: geometry, fed, assembly, report, sink };
                for item in order.drain(..) {
                    match item {
                        Item::Vertex(place) => unit.vertex(self.output_mask, &outputs[usize::from(place)], &mut work),
                        Item::Count(count) => unit.vertex_count(count, &mut work),
                    }
                }
            }
        }
    }

    /// Moves outputs that the cache keeps from where the next batch writes.
    fn keep(&mut self) {
        let outputs = &mut self.scratch.outputs;
        for (slot, place) in self.kept.iter_mut().enumerate() {
            if let Some(place) = place.as_mut().filter(|place| usize::from(**place) >= SLOTS) {
                outputs[slot] = outputs[usize::from(*place)];
                *place = slot as u16;
            }
        }
    }
}
