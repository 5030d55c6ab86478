//! A draw from guest memory -> its vertices as streams, and its triangles, for a host whose GPU runs the
//! vertex program.
//!
//! Nothing runs here but what the state needs: the last vertex, whose run is deferred as in other
//! draws, and vertices of an incomplete primitive.
//!
//! Invariant: the triangles, in order, and the state are those of [`Gpu::draw`]. This file must not
//! know how the host's GPU draws.

use super::assembly::Topology;
use super::diagnostics::Source as NoteSource;
use super::draw::ActiveDraw;
use super::fetch::streams::{STREAMS, Source};
use super::fetch::{Fetch, Memory, Selection};
use super::placement::{CpuOnly, cpu_only};
use super::registers::VERTEX_OFFSET;
use super::report::Report;
use super::vertex_format::VertexFormat;
use super::{Draw, DrawOptions, Gpu, Sink};
use crate::fp_mode::DefaultMode;
use crate::gpu_code::GpuCode;
use crate::ir::register_set::RegisterSet;
use crate::semantics::{SEMANTICS, Semantics};
use crate::state::Unit;

/// A stream of vertices. Room for 16 bytes must follow them where the host's GPU reads.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// Its bytes, up to the last vertex's last attribute. Empty if no attribute is in it.
    pub bytes: &'a [u8],
    /// Bytes from a vertex to the next.
    pub stride: u32,
}

/// A draw for a host's GPU.
#[derive(Clone, Debug)]
pub struct HandedDraw<'a> {
    /// By number, as [`Placement::layout`](super::Placement::layout) says.
    pub streams: [Stream<'a>; STREAMS],
    /// The number of vertices in each stream.
    pub vertices: usize,
    /// Triangles in order, as numbers of vertices. The order of their vertices determines the front face.
    pub triangles: &'a [[u32; 3]],
    /// As [`Gpu::draw`] reports the draw: its vertices are those that the host's GPU runs.
    pub report: Report,
}

/// A sink that no triangle reaches.
struct NoTriangles(VertexFormat);

impl Sink for NoTriangles {
    fn format(&self) -> VertexFormat {
        self.0
    }

    fn triangles(&mut self, _: &[f32], _: &[[u32; 3]]) {}
}

impl Gpu {
    /// Draws as [`Gpu::draw`], except that the host's GPU runs the vertices: with `code`, which is that
    /// of the [placement](Gpu::placement)'s shader and surroundings. The host fetches vertices from the
    /// streams, and draws the triangles.
    ///
    /// Fails if the CPU must run the draw; nothing has changed then, and the host calls [`Gpu::draw`].
    pub fn hand_over<'a>(
        &'a mut self,
        code: &GpuCode,
        format: VertexFormat,
        draw: Draw,
        memory: &'a dyn Memory,
        options: &DrawOptions,
    ) -> Result<HandedDraw<'a>, CpuOnly> {
        let _mode = DefaultMode::enter();
        let mut sink = NoTriangles(format);
        let mut active = ActiveDraw::new(self, &mut sink);
        if let Some(reason) = active.cpu_only(code) {
            return Err(reason);
        }
        active.state.geometry_input.discard();
        let count = active.take_wanted(options);
        active.buffers.streams.clear();
        let handed = if count == 0 { None } else { active.hand_over(code, draw, memory, count) };
        let mut report = active.report;
        self.note(NoteSource::Memory, &mut report);
        let (sources, strides, vertices, whole) = handed.unwrap_or_else(|| {
            let none = std::array::from_fn(|_| Source::Guest(&[]));
            (none, [0; STREAMS], 0, true)
        });
        let own = &self.buffers.streams;
        let streams = std::array::from_fn(|n| Stream {
            bytes: match &sources[n] {
                Source::Guest(bytes) => bytes,
                Source::Own(range) => &own[range.clone()],
            },
            stride: strides[n],
        });
        let triangles: &[[u32; 3]] = match (vertices, whole) {
            (0, _) => &[],
            (_, true) => self.buffers.ids.as_chunks().0,
            (_, false) => &self.buffers.triangles,
        };
        Ok(HandedDraw { streams, vertices, triangles, report })
    }
}

/// The sources and strides of streams, the number of vertices, and whether the stream of vertices
/// itself is the triangles.
type Handed<'a> = ([Source<'a>; STREAMS], [u32; STREAMS], usize, bool);

impl ActiveDraw<'_> {
    /// Why the CPU must run the draw.
    fn cpu_only(&mut self, code: &GpuCode) -> Option<CpuOnly> {
        if self.cancel.is_set() {
            return Some(CpuOnly::Cancelled);
        }
        cpu_only(self.state, self.configuration, self.shader).or_else(|| {
            let assumed = code.assumed_zero();
            // The registers that the deferred run of this very program leaves are not among them.
            self.preserve_unit();
            (!has_zeros(&self.state.vertex.unit, assumed)).then_some(CpuOnly::Registers(assumed))
        })
    }

    /// Prepares the streams, the triangles and the state. `None` without vertices.
    fn hand_over<'m>(&mut self, code: &GpuCode, draw: Draw, memory: &'m dyn Memory, count: u32) -> Option<Handed<'m>> {
        let indices = match draw {
            Draw::Arrays => None,
            Draw::Elements => Some(self.indices(memory, count)),
        };
        let [least, greatest] = match &indices {
            None => {
                let first = u64::from(self.state.registers.get(VERTEX_OFFSET));
                [first, first + u64::from(count) - 1]
            }
            Some(indices) => indices.range()?.map(u64::from),
        };
        let fetch = self.fetch(memory, [least, greatest]);
        let span = (greatest - least) as usize + 1;
        // No more vertices run than there are indices.
        let listed = span > count as usize;
        let mut list = std::mem::take(&mut self.buffers.list);
        self.buffers.ids.clear();
        match &indices {
            None => self.buffers.ids.extend(0..count),
            Some(indices) if listed => {
                list.collect(indices, least as u32);
                indices.listed(0..indices.len(), &list, 0, &mut self.buffers.ids);
            }
            Some(indices) => indices.consecutive(0..indices.len(), least as u32, 0, &mut self.buffers.ids),
        }
        let vertices = if listed { list.vertices.len() } else { span };
        let selection = |start: usize, n: usize| match listed {
            true => Selection::Listed(&list.vertices[start..start + n]),
            false => Selection::From(start as u64),
        };
        let plan = &self.configuration.fetch;
        let constants = (code.inputs() & plan.constant_registers() != 0).then(|| {
            // Registers without an attribute keep their values.
            let mut registers = self.state.vertex.unit.v;
            plan.constants_of_vertex(&self.state.fixed.defaults, &mut registers);
            registers
        });
        let strides = plan.stream_layout().strides;
        let sources = fetch.streams(selection(0, vertices), vertices, constants.as_ref(), &mut self.buffers.streams);

        // The state, as the draw leaves it.
        self.prepare_rows(0, 1);
        self.prepare_inputs(1);
        self.store_defaults(1);
        let (stream, mut triangles) =
            (std::mem::take(&mut self.buffers.ids), std::mem::take(&mut self.buffers.triangles));
        let formed = self.assembler.add(&stream, &mut triangles).len();
        let mut open = [[0.0; SEMANTICS]; 2];
        let pending = self.assembler.pending();
        for (to, id) in open.iter_mut().zip(pending) {
            if let Some(id) = id {
                *to = self.semantics_of(&fetch, selection(id as usize, 1));
            }
        }
        self.assembler.save(&mut self.state.assembly, |id, to| *to = open[usize::from(pending[0] != Some(id))]);
        // The unit is as the last vertex leaves it.
        let last = stream.last().map_or(0, |&id| id as usize);
        self.fetch_rows(&fetch, selection(last, 1), 1);
        self.defer_first_input();
        let whole = matches!(self.configuration.topology, Topology::List | Topology::Geometry);
        self.report.vertices = vertices as u64;
        self.report.reused = u64::from(count).saturating_sub(vertices as u64);
        self.report.triangles = formed as u64;
        (self.buffers.ids, self.buffers.triangles, self.buffers.list) = (stream, triangles, list);
        Some((sources, strides, vertices, whole))
    }

    /// What the rasteriser takes of a vertex.
    fn semantics_of(&mut self, fetch: &Fetch<'_, '_>, vertex: Selection<'_>) -> Semantics {
        self.fetch_rows(fetch, vertex, 1);
        self.run_batch(1, 0, true);
        let configuration = self.configuration;
        configuration.semantics().map_semantics(&self.buffers.outputs[..configuration.output_stride])
    }
}

/// Whether the unit holds zeros in these registers.
fn has_zeros(unit: &Unit, registers: RegisterSet) -> bool {
    let are_zero = |mut components: u64, file: &[[f32; 4]; 16]| {
        while components != 0 {
            let n = components.trailing_zeros() as usize;
            if file[n / 4][n % 4].to_bits() != 0 {
                return false;
            }
            components &= components - 1;
        }
        true
    };
    let state = [
        (RegisterSet::A0_X, unit.a0[0] != 0),
        (RegisterSet::A0_Y, unit.a0[1] != 0),
        (RegisterSet::A_L, unit.al != 0),
        (RegisterSet::CMP_X, unit.cmp[0]),
        (RegisterSet::CMP_Y, unit.cmp[1]),
    ];
    are_zero(registers.temps, &unit.r)
        && are_zero(registers.outputs, unit.outputs())
        && !state.iter().any(|&(bit, is_set)| registers.state & bit != 0 && is_set)
}
