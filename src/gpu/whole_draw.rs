//! A draw from guest memory -> triangles: fetch, run, map and assemble, in groups.
//!
//! Vertices without indices run in order. With indices, each vertex of a program whose vertices are
//! independent runs once: all from the least index to the greatest if these are dense, else those
//! of a list. Vertices of other programs run one after another, as the vertex cache decides.
//!
//! Invariant: the triangles are those of the draw's vertices running one by one in order. This file
//! must not know formats, nor what a map does.

use super::buffers::Buffers;
use super::cache::RoundRobin;
use super::configuration::DrawConfiguration;
use super::deferred_run::DeferredRun;
use super::draw::{ActiveDraw, Report, Scratch};
use super::fetch::indices::Indices;
use super::fetch::{self, Fetch, Memory, Selection};
use super::geometry::{Geometry, GeometryContext, GeometryInput, GeometryMode};
use super::registers::{NUMVERTICES, VERTEX_OFFSET};
use super::upload::ShaderState;
use super::{Draw, Gpu, Sink, State};
use crate::engine::{Engine, Shader};
use crate::fp_mode::DefaultMode;
use crate::isa::{REGS, Stage};
use crate::state::{Batch, Exit, Registers, Vec4, Vertices, VerticesMut};

/// Vertices that run together: enough to amortise the call, few enough that inputs, outputs and rows
/// fit into a first cache of 32 KiB. A multiple of three, so that lists of triangles are not split,
/// and of a group.
const CHUNK: usize = 144;
/// Indices that are assembled together; a multiple of three.
const INDICES: usize = 12 << 10;

/// What a host chooses for a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawOptions {
    /// Most vertices, or indices, that are drawn, if that is less than the [`Limits`] of the GPU.
    ///
    /// [`Limits`]: super::Limits
    pub limit: u32,
    /// Vertices that a [`RoundRobin`] cache holds. It serves indexed draws of programs whose
    /// vertices depend on each other; no other results can differ.
    pub vertex_cache: u8,
}

impl Default for DrawOptions {
    /// No other limit, and 64 vertices.
    fn default() -> DrawOptions {
        DrawOptions { limit: u32::MAX, vertex_cache: 64 }
    }
}

impl Gpu {
    /// Draws as [`DRAWARRAYS`](super::registers::DRAWARRAYS) or
    /// [`DRAWELEMENTS`](super::registers::DRAWELEMENTS) requests, from guest memory: the registers
    /// say where the attributes and indices are.
    ///
    /// An incomplete input of the geometry unit from an earlier draw is discarded. An incomplete
    /// primitive continues.
    pub fn draw(&mut self, draw: Draw, memory: &dyn Memory, options: &DrawOptions, sink: &mut dyn Sink) -> Report {
        let _mode = DefaultMode::enter();
        self.state.geometry_input = GeometryInput::default();
        let wanted = self.state.registers.get(NUMVERTICES);
        // At most as many as wanted, so it fits.
        let count = self.budget.take(0, wanted.min(options.limit).into()) as u32;
        let limited = count < wanted;
        if count == 0 {
            return Report { limited, ..Report::default() };
        }
        let report = match draw {
            Draw::Arrays => {
                let first = u64::from(self.state.registers.get(VERTEX_OFFSET));
                let mut run = WholeDraw::new(self, memory, [first, first + u64::from(count) - 1], sink);
                run.arrays(count as usize);
                run.report
            }
            Draw::Elements => self.draw_indexed(memory, count, options, sink),
        };
        Report { limited, ..report }
    }

    fn draw_indexed(&mut self, memory: &dyn Memory, count: u32, options: &DrawOptions, sink: &mut dyn Sink) -> Report {
        let indices = Indices::new(&self.state.registers, memory, count);
        let mut range = None;
        if !self.counts_vertices() {
            range = indices.range();
            let Some([least, greatest]) = range else { return Report::default() };
            let mut run = WholeDraw::new(self, memory, [least.into(), greatest.into()], sink);
            if run.shader.has_independent_vertices() && run.elements(&indices, [least, greatest]) {
                return run.report;
            }
        }
        let [least, greatest] = range.unwrap_or_else(|| indices.vertex_range());
        let Gpu { state, configuration, scratch, .. } = &mut *self;
        let configuration = DrawConfiguration::get(configuration, &state.registers, sink.format(), &mut scratch.rows);
        let plan = configuration.fetch.clone();
        let (base, defaults) = (fetch::base(&state.registers), state.fixed.defaults);
        let size = options.vertex_cache;
        let cache = scratch.whole.cache.take().filter(|(old, _)| *old == size);
        let (_, mut cache) = cache.unwrap_or_else(|| (size, RoundRobin::new(size)));
        let fetch = Fetch::new(&plan, base, &defaults, memory, [least.into(), greatest.into()]);
        let vertex = |n: u32, to: &mut Registers| fetch.vertex(u64::from(n.wrapping_sub(least)), to);
        let all = (0..indices.len()).map(|n| indices.get(n));
        let report = ActiveDraw::new(self, sink).with_taken_vertices().elements(all, vertex, &mut cache);
        self.scratch.whole.cache = Some((size, cache));
        report
    }

    /// Whether the index stream holds vertex counts.
    fn counts_vertices(&self) -> bool {
        let registers = &self.state.registers;
        registers.has_geometry() && matches!(GeometryMode::from_registers(registers), GeometryMode::Variable { .. })
    }
}

/// A draw in progress.
struct WholeDraw<'a> {
    state: &'a mut State,
    scratch: &'a mut Scratch,
    sink: &'a mut dyn Sink,
    engine: &'a Engine,
    configuration: &'a DrawConfiguration,
    memory: &'a dyn Memory,
    /// The least and the greatest vertex.
    range: [u64; 2],
    shader: &'a Shader,
    geometry: Option<Geometry>,
    deferred: &'a mut DeferredRun,
    /// The outputs that are mapped, or that the geometry unit takes.
    output_mask: u16,
    output_stride: usize,
    report: Report,
}

impl<'a> WholeDraw<'a> {
    fn new(gpu: &'a mut Gpu, memory: &'a dyn Memory, range: [u64; 2], sink: &'a mut dyn Sink) -> WholeDraw<'a> {
        let Gpu { engine, state, vertex, geometry, upload_stats, configuration, scratch, deferred, .. } = gpu;
        let file = &state.registers;
        let configuration = DrawConfiguration::get(configuration, file, sink.format(), &mut scratch.rows);
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats);
        let geometry = file.has_geometry().then(|| {
            let shader = geometry.get(engine, &state.geometry, file.entry(Stage::Geometry), upload_stats);
            Geometry::new(file, configuration.topology, shader.clone())
        });
        let output_mask = if geometry.is_some() { file.output_mask(Stage::Vertex) } else { configuration.plan.mask };
        let output_stride = Vertices::stride_for(output_mask);
        let report = Report::default();
        WholeDraw {
            state,
            scratch,
            sink,
            engine,
            configuration,
            memory,
            range,
            shader,
            geometry,
            deferred,
            output_mask,
            output_stride,
            report,
        }
    }

    /// Draws the vertices of the range in order.
    fn arrays(&mut self, count: usize) {
        let DrawConfiguration { fetch: plan, mapping, plan: outputs_plan, topology } = self.configuration;
        let Scratch { whole: Buffers { inputs, outputs, sequence, .. }, rows, .. } = &mut *self.scratch;
        let State { registers, vertex, geometry, geometry_input: input, assembly, fixed, .. } = &mut *self.state;
        let base = fetch::base(registers);
        let fetch = Fetch::new(plan, base, &fixed.defaults, self.memory, self.range);
        let chunk = count.min(CHUNK);
        let stride = outputs_plan.format().stride();
        resize(inputs, chunk * plan.stride);
        resize(outputs, chunk * self.output_stride);
        rows.prepare(outputs_plan, chunk);
        fetch.constants(&mut inputs[..chunk * plan.stride], plan.stride);
        // As on hardware, the next draw may read the registers that vertices leave. Other engines than
        // native code would copy the unit to preserve it.
        let mut defers = self.shader.is_native() && self.shader.has_independent_vertices();
        match defers {
            true => self.deferred.run_unless_replaced(self.shader, plan.input_mask, vertex),
            false => self.deferred.run(vertex),
        }
        for start in (0..count).step_by(CHUNK) {
            if self.report.ends_now(self.engine) {
                break;
            }
            let n = chunk.min(count - start);
            fetch.rows(Selection::From(start as u64), &mut inputs[..n * plan.stride], plan.stride);
            let mut run = |vertex: &mut ShaderState, preserve_unit| {
                let mut batch = Batch {
                    inputs: Vertices::packed(inputs, plan.stride, n).expect("as many rows as a chunk"),
                    outputs: VerticesMut::packed(outputs, self.output_stride, n).expect("as many rows as a chunk"),
                    input_mask: plan.input_mask,
                    output_mask: self.output_mask,
                    preserve_unit,
                };
                self.shader.run_batch(&vertex.uniforms, &mut vertex.unit, &mut batch)
            };
            let mut ended = run(vertex, defers);
            if defers && ended.exit == Exit::End {
                self.deferred.defer(self.shader, plan.input_mask, &inputs[(n - 1) * plan.stride..n * plan.stride]);
            } else if defers {
                // A run without END may depend on the order, and on the unit.
                defers = false;
                self.deferred.run(vertex);
                ended = run(vertex, false);
            }
            let n = ended.finished();
            self.report.note_vertices(ended.exit);
            self.report.vertices += n as u64;
            if let Some(unit) = &self.geometry {
                let (engine, report, sink) = (self.engine, &mut self.report, &mut *self.sink);
                let mut context =
                    GeometryContext { engine, registers, memory: geometry, input, assembly, report, sink };
                for outputs in outputs[..n * self.output_stride].chunks_exact(self.output_stride) {
                    unit.vertex(self.output_mask, outputs, &mut context);
                    if context.report.geometry_ended() {
                        break;
                    }
                }
                if self.report.ended() {
                    break;
                }
                continue;
            }
            outputs_plan.apply(&outputs[..n * self.output_stride], self.output_stride, rows.rows(stride, 0..n));
            let (mut assembler, carried) = rows.begin(outputs_plan, *topology, assembly);
            (sequence.len()..chunk + carried).for_each(|id| sequence.push(id as u32));
            let numbers = &sequence[carried..carried + n];
            self.report.triangles += rows.send(stride, carried, &mut assembler, numbers, n, self.sink);
            assembler.save(assembly, |id, to| match id as usize - carried {
                row if outputs_plan.is_default => to.copy_from_slice(rows.row(stride, row)),
                row => *to = mapping.apply(&unpacked(&outputs[row * self.output_stride..][..self.output_stride])),
            });
            if self.report.ended() {
                break;
            }
        }
    }

    /// Draws the vertices of the indices, each of which runs once. Returns whether it has; a run
    /// without END may depend on the order, so nothing has happened then. Nor has it if the engine
    /// was cancelled meanwhile.
    fn elements(&mut self, indices: &Indices<'_>, [least, greatest]: [u32; 2]) -> bool {
        let DrawConfiguration { fetch: plan, mapping, plan: outputs_plan, topology } = self.configuration;
        let Scratch { whole: Buffers { inputs, outputs, ids, list, .. }, rows, .. } = &mut *self.scratch;
        let State { registers, vertex, geometry, geometry_input: input, assembly, fixed, .. } = &mut *self.state;
        let base = fetch::base(registers);
        let fetch = Fetch::new(plan, base, &fixed.defaults, self.memory, self.range);
        let span = (greatest - least) as usize + 1;
        // No more vertices run than there are indices.
        let listed = span > indices.len();
        if listed {
            list.collect(indices, least);
        }
        let count = if listed { list.vertices.len() } else { span };
        let chunk = count.min(CHUNK);
        let (stride, output_stride) = (outputs_plan.format().stride(), self.output_stride);
        resize(inputs, chunk * plan.stride);
        // The geometry unit takes the outputs by index.
        resize(outputs, if self.geometry.is_some() { count } else { chunk } * output_stride);
        fetch.constants(&mut inputs[..chunk * plan.stride], plan.stride);
        self.deferred.run_unless_replaced(self.shader, plan.input_mask, vertex);
        rows.prepare(outputs_plan, if self.geometry.is_some() { 0 } else { count });
        let mut run = |selection: Selection<'_>, n: usize, outputs: &mut [Vec4]| {
            fetch.rows(selection, &mut inputs[..n * plan.stride], plan.stride);
            let mut batch = Batch {
                inputs: Vertices::packed(inputs, plan.stride, n).expect("as many rows as a chunk"),
                outputs: VerticesMut::packed(outputs, output_stride, n).expect("as many rows as a chunk"),
                input_mask: plan.input_mask,
                output_mask: self.output_mask,
                preserve_unit: true,
            };
            self.shader.run_batch(&vertex.uniforms, &mut vertex.unit, &mut batch)
        };
        for start in (0..count).step_by(CHUNK) {
            let n = chunk.min(count - start);
            let selection = match listed {
                true => Selection::Listed(&list.vertices[start..start + n]),
                false => Selection::From(start as u64),
            };
            let at = if self.geometry.is_some() { start * output_stride } else { 0 };
            let outputs = &mut outputs[at..][..n * output_stride];
            if run(selection, n, outputs) != Exit::End {
                return false;
            }
            if self.geometry.is_none() {
                outputs_plan.apply(outputs, output_stride, rows.rows(stride, start..start + n));
            }
        }
        let carried = if self.geometry.is_some() { 0 } else { assembly.pending() };
        let number = |range, ids: &mut Vec<u32>| {
            ids.clear();
            match listed {
                true => indices.listed(range, list, carried as u32, ids),
                false => indices.consecutive(range, least, carried as u32, ids),
            }
        };
        let mut pending = None;
        for start in (0..indices.len()).step_by(INDICES) {
            if self.report.ends_now(self.engine) {
                break;
            }
            number(start..indices.len().min(start + INDICES), ids);
            match &self.geometry {
                Some(unit) => {
                    let (engine, report, sink) = (self.engine, &mut self.report, &mut *self.sink);
                    let mut context =
                        GeometryContext { engine, registers, memory: geometry, input, assembly, report, sink };
                    for &id in &*ids {
                        let outputs = &outputs[id as usize * output_stride..][..output_stride];
                        unit.vertex(self.output_mask, outputs, &mut context);
                        if context.report.geometry_ended() {
                            break;
                        }
                    }
                    if self.report.geometry_ended() {
                        break;
                    }
                }
                None => {
                    let assembler = pending.get_or_insert_with(|| rows.begin(outputs_plan, *topology, assembly).0);
                    self.report.triangles += rows.send(stride, carried, assembler, ids, count, self.sink);
                }
            }
        }
        self.report.vertices = count as u64;
        self.report.reused = (indices.len() - count) as u64;
        let vertex = |id: usize| match listed {
            true => Selection::From(list.vertices[id].into()),
            false => Selection::From(id as u64),
        };
        if let Some(assembler) = pending {
            assembler.save(assembly, |id, to| match id as usize - carried {
                row if outputs_plan.is_default => to.copy_from_slice(rows.row(stride, row)),
                row => {
                    // Its outputs are not kept. The vertex gives the same again.
                    let outputs = &mut outputs[..output_stride];
                    run(vertex(row), 1, outputs);
                    *to = mapping.apply(&unpacked(outputs));
                }
            });
        }
        let last = u64::from(indices.get(indices.len() - 1) - least);
        // The unit is as the vertex of the last index leaves it.
        fetch.rows(Selection::From(last), &mut inputs[..plan.stride], plan.stride);
        self.deferred.defer(self.shader, plan.input_mask, &inputs[..plan.stride]);
        true
    }
}

/// Makes a buffer at least this long.
fn resize(buffer: &mut Vec<Vec4>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, [0.0; 4]);
    }
}

/// A packed vertex as whole registers; the missing ones are zeros.
fn unpacked(row: &[Vec4]) -> Registers {
    let mut registers = [[0.0; 4]; REGS];
    registers[..row.len()].copy_from_slice(row);
    registers
}
