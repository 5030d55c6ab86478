//! A linked shader file, SHBIN: one program image (DVLP) and the entry points (DVLE) that share it.
//!
//! [`Shbin::parse`] accepts the file layout of every producer, [`Shbin::write`] has one file
//! layout. Writing a parsed value and parsing it again gives an equal value: only offsets, padding
//! and the order of tables in the file are lost. Code is words here, not instructions.

mod error;
pub(crate) mod tables;

mod parse;
mod write;

#[cfg(test)]
mod tests;

use crate::container::float24::f24_to_f32;
use crate::isa::{BOOL_UNIFORMS, FLOAT_UNIFORMS, INT_UNIFORMS, Pc, Stage};
use crate::program::{Entry, Program, ProgramError};
use crate::state::Uniforms;

pub use error::{Part, ShbinError, ShbinErrorKind, ShbinWriteError};

/// A compiled shader file: one program image and the entry points with their metadata.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Shbin {
    /// Version word of the program header (0 from the free tools).
    pub version: u32,
    /// Code words.
    pub code: Vec<u32>,
    /// Operand descriptors.
    pub opdescs: Vec<Opdesc>,
    /// Entry points in file order.
    pub dvles: Vec<Dvle>,
    /// Names of source files, from official tools; the free tools write none.
    pub file_names: Vec<String>,
}

impl Shbin {
    /// The program image as a [`Program`]. Descriptors past the 128th are dropped: no instruction
    /// can name them.
    ///
    /// Fails only for a value that no reader returned: the reader rejects code longer than a
    /// program holds.
    pub fn program(&self) -> Result<Program, ProgramError> {
        program(&self.code, &self.opdescs)
    }

    /// Address and stage of each entry point, in file order.
    pub fn entries(&self) -> Vec<Entry> {
        self.dvles.iter().map(Dvle::entry).collect()
    }
}

/// Code and descriptors as a [`Program`].
pub(crate) fn program(code: &[u32], opdescs: &[Opdesc]) -> Result<Program, ProgramError> {
    let words: Vec<u32> = opdescs.iter().map(|o| o.word).collect();
    Program::from_words(code, &words)
}

/// One entry of the descriptor table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Opdesc {
    /// The descriptor itself.
    pub word: u32,
    /// Second word of the eight-byte entry; not zero in official files, meaning unknown.
    pub extra: u32,
}

/// How a geometry program receives its vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GeometryMode {
    /// One point at a time, in input registers.
    #[default]
    Point,
    /// A variable number of vertices, in uniforms.
    Variable {
        /// Vertices with all their outputs.
        main_vertices: u8,
    },
    /// A fixed number of vertices, in uniforms.
    Fixed {
        /// First float uniform that receives them (number within the class).
        start: u8,
        /// Vertices per primitive.
        vertices: u8,
    },
    /// A mode byte that no document describes.
    Unknown {
        /// The four bytes at DVLE+0x14.
        bytes: [u8; 4],
    },
}

/// One entry point (DVLE).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Dvle {
    /// Version word (0x1002 from picasso).
    pub version: u16,
    /// Kind of unit.
    pub stage: Stage,
    /// Whether the geometry program's output map is merged with the vertex program's.
    pub merge_outmaps: bool,
    /// Entry point, in words. The reader corrects the field of a producer known to write another
    /// value there.
    pub entry: u32,
    /// End of the entry procedure, in words; 0 from some tools.
    pub end: u32,
    /// Declared input registers.
    pub input_mask: u16,
    /// Declared output registers.
    pub output_mask: u16,
    /// Geometry mode; `Point` in vertex programs.
    pub geometry: GeometryMode,
    /// Values that binding the shader loads into uniforms.
    pub constants: Vec<Constant>,
    /// Debug labels.
    pub labels: Vec<Label>,
    /// Output table.
    pub outputs: Vec<Output>,
    /// Names of uniforms and inputs.
    pub uniforms: Vec<Uniform>,
}

impl Dvle {
    /// Address and stage. An `entry` that no pc can hold, which the reader never returns, becomes
    /// the largest pc, outside all code.
    pub fn entry(&self) -> Entry {
        Entry { pc: Pc::try_from(self.entry).unwrap_or(Pc::MAX), stage: self.stage }
    }

    /// Loads the constants, as binding the shader does; other registers are unchanged. Later rows
    /// win. A register that does not exist, which the reader never returns, is ignored.
    pub fn apply_constants(&self, uniforms: &mut Uniforms) {
        constants_into(&self.constants, uniforms);
    }
}

/// See [`Dvle::apply_constants`].
pub(crate) fn constants_into(constants: &[Constant], uniforms: &mut Uniforms) {
    constants.iter().for_each(|c| c.apply(uniforms));
}

/// Only bit 0 of the type byte is known; the documents mention possible other flags.
pub(crate) fn stage_of(byte: u8) -> Stage {
    if byte & 1 != 0 { Stage::Geometry } else { Stage::Vertex }
}

/// A constant: register number within its class, and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// Boolean uniform.
    Bool {
        /// b0-b15.
        register: u16,
        /// Its value.
        value: bool,
    },
    /// Integer uniform.
    Int {
        /// i0-i3.
        register: u16,
        /// x, y, z, w.
        value: [u8; 4],
    },
    /// Float uniform.
    Float {
        /// c0-c95.
        register: u16,
        /// x, y, z, w as float24 in the low 24 bits of each word; the upper eight are preserved and
        /// have no meaning.
        value: [u32; 4],
    },
}

impl Default for Constant {
    fn default() -> Constant {
        Constant::Float { register: 0, value: [0; 4] }
    }
}

impl Constant {
    /// Register number within its class.
    pub const fn register(&self) -> u16 {
        match *self {
            Constant::Bool { register, .. } | Constant::Int { register, .. } | Constant::Float { register, .. } => {
                register
            }
        }
    }

    /// Letter and size of the class: `('c', 96)`, `('i', 4)` or `('b', 16)`.
    pub(crate) const fn class(&self) -> (char, usize) {
        match self {
            Constant::Bool { .. } => ('b', BOOL_UNIFORMS),
            Constant::Int { .. } => ('i', INT_UNIFORMS),
            Constant::Float { .. } => ('c', FLOAT_UNIFORMS),
        }
    }

    fn apply(&self, uniforms: &mut Uniforms) {
        let n = usize::from(self.register());
        if n >= self.class().1 {
            return;
        }
        match *self {
            Constant::Bool { value, .. } => uniforms.b = uniforms.b & !(1 << n) | u16::from(value) << n,
            Constant::Int { value, .. } => uniforms.i[n] = value,
            Constant::Float { value, .. } => uniforms.c[n] = value.map(f24_to_f32),
        }
    }
}

/// A debug label.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Label {
    /// Label id.
    pub id: u16,
    /// Field at +2, 1 in known files.
    pub unknown: u16,
    /// Position, in words.
    pub position: u32,
    /// Size in words; `None` where the file says 0xFFFFFFFF.
    pub size: Option<u32>,
    /// Name.
    pub name: String,
}

/// One row of the output table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Output {
    /// Semantic: 0 position, 1 normalquat, 2 color, 3 texcoord0, 4 texcoord0w, 5 texcoord1, 6
    /// texcoord2, 8 view, 9 dummy.
    pub semantic: u16,
    /// o register.
    pub register: u16,
    /// Components, bit 0 = x (the opposite order of operand descriptors).
    pub mask: u16,
    /// Last field, 0 from the free tools.
    pub unknown: u16,
}

/// The name of a range of registers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Uniform {
    /// Name.
    pub name: String,
    /// First register, unified numbering: 00-0F v, 10-6F c, 70-73 i, 78-87 b.
    pub first: u16,
    /// Last register, inclusive.
    pub last: u16,
}
