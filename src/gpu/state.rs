//! The whole state of a GPU: registers, memories, units, and what is incomplete.
//!
//! Invariant: plain data; a copy is a savestate, and any contents are safe. This file must not know what
//! a write does.

use super::assembly::Assembly;
use super::fixed_attributes::FixedAttributes;
use super::geometry::GeometryInput;
use super::registers::RegisterFile;
use super::upload::ShaderState;
use crate::isa::Stage;
use crate::isa::numeric::Precision;

/// The whole state of a GPU: plain data to copy, save and restore. Any contents are safe.
#[derive(Clone, Debug)]
#[repr(C)] // what most draws read lies together, at the end of the first field
pub struct State {
    /// Incomplete input of the geometry unit.
    pub geometry_input: GeometryInput,
    /// Registers as last written.
    pub registers: RegisterFile,
    /// Vertices of an incomplete primitive.
    pub assembly: Assembly,
    /// The vertex units.
    pub vertex: ShaderState,
    /// The geometry unit, which is the fourth vertex unit while no geometry program is in use.
    pub geometry: ShaderState,
    /// Default attributes and immediate mode.
    pub fixed: FixedAttributes,
}

impl Default for State {
    /// The state at power-on, as far as known; the rest is 0.
    fn default() -> State {
        State {
            registers: RegisterFile::default(),
            vertex: ShaderState::new(Stage::Vertex),
            geometry: ShaderState::new(Stage::Geometry),
            fixed: FixedAttributes::default(),
            geometry_input: GeometryInput::default(),
            assembly: Assembly::default(),
        }
    }
}

impl State {
    /// Prepares for an engine with this number format.
    pub(super) fn set_precision(&mut self, precision: Precision) {
        self.vertex.set_precision(precision);
        self.geometry.set_precision(precision);
    }
}
