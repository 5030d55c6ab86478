//! The whole state of a GPU: registers, memories, units, and what is incomplete.
//!
//! Invariant: plain data; a copy is a savestate, and any contents are safe. This file must not know what
//! a write does.

use super::Attributes;
use super::assembly::Assembly;
use super::geometry::GeometryInput;
use super::registers::RegisterFile;
use super::upload::{PartialVector, ShaderState};
use crate::isa::Stage;
use crate::isa::numeric::Precision;

/// The state of the `FIXEDATTRIB` registers: default attributes and immediate mode.
#[derive(Clone, Debug)]
pub struct FixedAttributes {
    /// The next attribute; 15 in immediate mode.
    pub index: u8,
    /// Words of an incomplete attribute.
    pub words: PartialVector,
    /// The default attributes. No register selects the last one.
    pub defaults: Attributes,
    /// Immediate mode: attributes of an incomplete vertex, or the last complete one.
    pub vertex: Attributes,
    /// Number of attributes in `vertex`.
    pub count: u8,
    /// The default attributes that have been written; bit n. For [`Notes`] only.
    pub(crate) written: u16,
}

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
        let zeros = Attributes::default();
        State {
            registers: RegisterFile::default(),
            vertex: ShaderState::new(Stage::Vertex),
            geometry: ShaderState::new(Stage::Geometry),
            fixed: FixedAttributes {
                index: 0,
                words: PartialVector::default(),
                defaults: zeros,
                vertex: zeros,
                count: 0,
                written: 0,
            },
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
