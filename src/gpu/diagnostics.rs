//! The state and the programs of a draw -> what looks wrong in it, for people who ask why a draw hangs
//! on a console, or shows nothing.
//!
//! Off at first. Then a draw tests one flag, and a write that stores a float uniform, a default
//! attribute or geometry code notes that it has.
//!
//! Invariant: no note changes a draw.

use super::configuration::DrawConfiguration;
use super::notes::Notes;
use super::registers::RegisterFile;
use super::report::Report;
use super::upload::ShaderState;
use super::{Gpu, State};
use crate::gpu::GeometryMode;
use crate::isa::Stage;

/// What draws note.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Diagnostics {
    is_on: bool,
    /// Whether the geometry unit was on in the last draw, and has been since.
    geometry_drew: bool,
    geometry_code_changed: bool,
}

impl Diagnostics {
    /// Notes a change of the geometry unit's code or descriptors.
    pub(super) fn geometry_code_changed(&mut self) {
        self.geometry_code_changed |= self.geometry_drew;
    }

    /// Notes a change of registers that configure draws.
    pub(super) fn configuration_changed(&mut self, registers: &RegisterFile) {
        self.geometry_drew &= registers.has_geometry();
    }
}

/// What supplies the attributes of a draw.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The library, from guest memory.
    Memory,
    /// The host.
    Host,
    /// The guest, word by word.
    Immediate,
}

impl Gpu {
    /// Whether draws note what looks wrong, in [`Report::notes`]. Off at first. A draw then also
    /// explores its programs, which takes some microseconds. Of a uniform or a default attribute that
    /// a [`State`] brought, a value other than zero counts as written.
    pub fn set_diagnostics(&mut self, is_on: bool) {
        self.diagnostics = Diagnostics { is_on, ..Diagnostics::default() };
    }

    /// Adds notes to the report of a draw; none while they are off.
    #[inline]
    pub(super) fn note(&mut self, source: Source, report: &mut Report) {
        match self.diagnostics.is_on {
            true => report.notes |= self.notes(source),
            false => report.notes = Notes::default(),
        }
    }

    #[cold]
    fn notes(&mut self, source: Source) -> Notes {
        let Gpu { engine, state, vertex, geometry, upload_stats, configuration, diagnostics, .. } = self;
        let geometry_code_changed = std::mem::take(&mut diagnostics.geometry_code_changed);
        let Some(configuration) = configuration else { return Notes::default() };
        let file = &state.registers;
        let mut accesses = vertex.get(engine, &state.vertex, file.entry(Stage::Vertex), upload_stats).accesses();
        let mut notes = Notes::STRIDE.when(source == Source::Memory && configuration.fetch.has_odd_stride)
            | Notes::ATTRIBUTE.when(accesses.inputs & without_source(source, state, configuration) != 0)
            | Notes::UNIFORM.when(accesses.floats & unwritten(&state.vertex) != 0)
            | Notes::GEOMETRY_CODE.when(geometry_code_changed);
        diagnostics.geometry_drew = configuration.geometry.is_some();
        let mut last = Stage::Vertex;
        if let Some(unit) = &configuration.geometry {
            last = Stage::Geometry;
            accesses = geometry.get(engine, &state.geometry, file.entry(last), upload_stats).accesses();
            // Vertices fill the other uniforms.
            let own = match unit.mode {
                GeometryMode::Point => u128::MAX,
                GeometryMode::Variable { .. } => 0,
                GeometryMode::Fixed { first, .. } => !(u128::MAX << first.min(127)),
            };
            notes |= Notes::UNIFORM.when(accesses.floats & own & unwritten(&state.geometry) != 0);
        }
        let map = file.output_map(last).selection();
        let mut mapped = map.sources().iter().flatten();
        notes
            | Notes::POSITION.when(map.sources().iter().take(4).all(Option::is_none))
            | Notes::OUTPUT
                .when(mapped.any(|(register, component)| accesses.written >> (4 * register + component) & 1 == 0))
    }
}

/// The float uniforms that nothing has written; bit n is `cn`.
fn unwritten(memory: &ShaderState) -> u128 {
    let values = memory.uniforms.c.iter().zip(&memory.floats_written);
    let unwritten = values.map(|(c, written)| !written && c.iter().all(|x| x.to_bits() == 0));
    unwritten.enumerate().fold(0, |bits, (n, unwritten)| bits | u128::from(unwritten) << n)
}

/// The input registers of a vertex that no attribute supplies, or a default that nothing has written;
/// bit n is `vn`.
fn without_source(source: Source, state: &State, configuration: &DrawConfiguration) -> u16 {
    let State { registers, fixed, .. } = state;
    let is_missing = |attribute: usize| {
        fixed.written >> attribute & 1 == 0 && fixed.defaults[attribute].iter().all(|x| x.to_bits() == 0)
    };
    let plan = &configuration.fetch;
    let mut without = !plan.input_mask;
    match source {
        Source::Host => {}
        Source::Memory => plan.default_attributes().iter().for_each(|&(register, attribute)| {
            without |= u16::from(is_missing(attribute.into())) << register;
        }),
        // The guest sends the first ones.
        Source::Immediate => {
            let attributes = configuration.attribute_registers().iter().enumerate();
            attributes.skip(registers.immediate_attributes()).for_each(|(attribute, register)| {
                without |= u16::from(is_missing(attribute)) << register;
            });
        }
    }
    without
}
