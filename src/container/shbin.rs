//! SHBIN (DVLB / DVLP / DVLE): types.

use crate::isa::Stage;

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
}

/// One entry of the descriptor table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Opdesc {
    /// The descriptor itself.
    pub word: u32,
    /// Second word of the eight-byte entry; official files have something here, nobody knows what.
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
        /// Vertices that arrive with all their outputs.
        main_vertices: u8,
    },
    /// A fixed number of vertices, in uniforms.
    Fixed {
        /// First float uniform that receives them (class-local number).
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
    /// Whether the geometry program's output map is to be merged with the vertex program's.
    pub merge_outmaps: bool,
    /// Entry point, in words.
    pub entry: u32,
    /// End of the entry procedure, in words; 0 from some tools.
    pub end: u32,
    /// Declared input registers.
    pub input_mask: u16,
    /// Declared output registers.
    pub output_mask: u16,
    /// Geometry mode; `Point` in vertex programs.
    pub geometry: GeometryMode,
    /// Values that are loaded into uniforms when the shader is bound.
    pub constants: Vec<Constant>,
    /// Debug labels.
    pub labels: Vec<Label>,
    /// Output wiring.
    pub outputs: Vec<Output>,
    /// Names of uniforms and inputs.
    pub uniforms: Vec<Uniform>,
}

/// A constant: register number within its class, and value.
#[derive(Clone, Copy, Debug, PartialEq)]
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
        /// x, y, z, w as float24 in the low 24 bits of each word.
        value: [u32; 4],
    },
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Semantic: 0 position, 1 normalquat, 2 color, 3 texcoord0, 4 texcoord0w, 5 texcoord1, 6 texcoord2, 8 view,
    /// 9 dummy.
    pub semantic: u16,
    /// o register.
    pub register: u16,
    /// Components, bit 0 = x (the opposite order of operand descriptors).
    pub mask: u16,
    /// Last field, 0 from the free tools.
    pub unknown: u16,
}

/// The name of a range of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uniform {
    /// Name.
    pub name: String,
    /// First register, unified numbering: 00-0F v, 10-6F c, 70-73 i, 78-87 b.
    pub first: u16,
    /// Last register, inclusive.
    pub last: u16,
}
