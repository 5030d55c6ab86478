//! Registers and program of the next draw -> whether a host's GPU may run its vertices, and the
//! surroundings of the code for that.
//!
//! Invariant: a draw without [`CpuOnly`] gives the same triangles and leaves the same state on either
//! side. This file must not know guest memory.

use super::configuration::DrawConfiguration;
use super::fetch::streams::StreamLayout;
use super::fetch::{ComponentType, FetchPlan};
use super::vertex_format::VertexFormat;
use super::{Gpu, State};
use crate::engine::Shader;
use crate::gpu_code::{Attribute, AttributeKind, Component, Inputs, MOST_FUEL, Varying};
use crate::ir::register_set::RegisterSet;
use crate::isa::Stage;
use crate::semantics::{OutputMap, SEMANTICS};
use std::fmt;

/// Why the vertices of a draw must run on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuOnly {
    /// The geometry unit takes them.
    Geometry,
    /// They depend on each other, or may leave different registers to later programs.
    Dependent,
    /// A run may not reach an END, or executes more words than code for GPUs does.
    LongRuns,
    /// The draw continues a primitive of an earlier one.
    Continues,
    /// The program reads these registers, or the output map takes them, and no run writes them; the
    /// unit holds other values there than zeros. The set that the code
    /// [assumes](crate::gpu_code::GpuCode::assumed_zero) to be zero.
    Registers(RegisterSet),
    /// The engine is cancelled.
    Cancelled,
}

impl fmt::Display for CpuOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuOnly::Geometry => f.write_str("the geometry unit takes the vertices"),
            CpuOnly::Dependent => f.write_str("vertices depend on each other, or leave different registers"),
            CpuOnly::LongRuns => write!(f, "a run may not reach an END within {MOST_FUEL} words and its fuel"),
            CpuOnly::Continues => f.write_str("the draw continues a primitive of an earlier one"),
            CpuOnly::Registers(registers) => write!(f, "an earlier program left values in {registers}"),
            CpuOnly::Cancelled => f.write_str("the engine is cancelled"),
        }
    }
}

impl std::error::Error for CpuOnly {}

/// How the next draw may run, and what surrounds its vertex program on a host's GPU. Pipelines are
/// made for a shader, a layout and a map.
#[derive(Clone, Copy)]
pub struct Placement<'a> {
    /// The vertex program.
    pub shader: &'a Shader,
    /// Why only the CPU may run the draw, as far as is known before it begins.
    pub cpu_only: Option<CpuOnly>,
    /// Where the input registers come from.
    pub layout: StreamLayout,
    map: OutputMap,
    format: VertexFormat,
}

impl Placement<'_> {
    /// The inputs of code for the draw: register n at location n.
    pub fn inputs(&self) -> Inputs {
        Inputs::Attributes(std::array::from_fn(|n| {
            let attribute = self.layout.attributes[n];
            let kind = match attribute.component {
                ComponentType::S8 | ComponentType::S16 => AttributeKind::Signed,
                ComponentType::U8 => AttributeKind::Unsigned,
                ComponentType::F32 => AttributeKind::Float,
            };
            // Vulkan's formats of three small components are optional, so four are read.
            let fixed_w = attribute.components == 3 && kind != AttributeKind::Float;
            Attribute { location: n as u32, kind, fixed_w }
        }))
    }

    /// The outputs of code for the draw that are the numbers of a vertex in the host's format: numbers
    /// 4n to 4n + 3 at location n.
    pub fn varyings(&self) -> Vec<Varying> {
        let mut varyings = Vec::new();
        self.each_varying(|location, components| {
            varyings.push(Varying { location: location as u32, components: components.to_vec() });
        });
        varyings
    }

    /// The same as up to four components for each location.
    pub(crate) fn each_varying(&self, mut each: impl FnMut(usize, &[Component])) {
        let sources = self.sources();
        // The semantic of each number of a vertex.
        let mut semantics = [SEMANTICS as u8; u8::MAX as usize];
        for semantic in 0..SEMANTICS {
            if let Some(offset) = self.format.offset(semantic) {
                semantics[offset] = semantic as u8;
            }
        }
        for (location, semantics) in semantics[..self.format.stride()].chunks(4).enumerate() {
            let mut components = [Component::Zero; 4];
            for (to, &semantic) in components.iter_mut().zip(semantics) {
                *to = sources.get(usize::from(semantic)).copied().unwrap_or(Component::Zero);
            }
            each(location, &components[..semantics.len()]);
        }
    }

    /// x, y, z and w of the position.
    pub fn position(&self) -> [Component; 4] {
        let sources = self.sources();
        std::array::from_fn(|n| sources[n])
    }

    /// What the rasteriser takes for each semantic.
    fn sources(&self) -> [Component; SEMANTICS] {
        let selection = self.map.selection();
        let sources = selection.sources();
        std::array::from_fn(|semantic| match sources[semantic] {
            Some((n, c)) if super::output_mapping::COLOUR.contains(&semantic) => Component::Colour(n, c),
            Some((n, c)) => Component::Register(n, c),
            None => Component::One,
        })
    }
}

impl Gpu {
    /// How the next draw may run whose vertices the sink gets in `format`: for hosts that run
    /// vertices on their GPU, with code from [`Shader::gpu_code`](crate::engine::Shader::gpu_code).
    /// Nothing changes.
    pub fn placement(&mut self, format: VertexFormat) -> Placement<'_> {
        let Gpu { engine, state, vertex, upload_stats, configuration, buffers, .. } = self;
        let file = &state.registers;
        let configuration = DrawConfiguration::get(configuration, file, format, &mut buffers.rows);
        let shader = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats);
        let cpu_only = cpu_only(state, configuration, shader);
        let (layout, map) = (FetchPlan::stream_layout(&configuration.fetch), file.output_map(Stage::Vertex));
        Placement { shader, cpu_only, layout, map, format }
    }
}

/// Why only the CPU may run a draw of these registers, as far as its code does not matter.
pub(super) fn cpu_only(state: &State, configuration: &DrawConfiguration, shader: &Shader) -> Option<CpuOnly> {
    match () {
        () if configuration.geometry.is_some() => Some(CpuOnly::Geometry),
        () if !shader.has_independent_vertices() => Some(CpuOnly::Dependent),
        () if !shader.always_ends(&state.vertex.uniforms.i, MOST_FUEL) => Some(CpuOnly::LongRuns),
        () if state.assembly.pending() != 0 => Some(CpuOnly::Continues),
        () => None,
    }
}
