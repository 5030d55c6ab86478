//! LibVega shaders, VBC <-> [`Vbc`]: reflection tables and one SPIR-V module a stage.
//!
//! One version number covers four layouts, so [`Vbc::parse`] takes the first dialect that the whole
//! file fits. The model keeps the defects of the known compiler: [`Vbc::write`] of a parsed value
//! gives the same bytes, and [`Vbc::repaired`] gives a value that obeys the rules.

mod convert;
mod parse;
pub mod spirv;
mod verify;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;

/// A layout. All four store version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Counts of one byte, no shader type. Known from a description alone.
    A0,
    /// Members of the uniform without types. Known from a description alone.
    A1,
    /// Members with types, numbers of 32 bits.
    A2,
    /// Members with short numbers; the compiler's last layout.
    C,
}

impl Dialect {
    /// Every dialect, in the order of detection.
    pub const ALL: [Dialect; 4] = [Dialect::C, Dialect::A2, Dialect::A1, Dialect::A0];

    /// The dialect of this name, in either case.
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|d| d.to_string().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Names of the stages, in file order. The stage masks have a bit for each.
pub const STAGES: [&str; 5] = ["vert", "tesc", "tese", "geom", "frag"];
/// Names of the binding tables, in file order.
pub const TABLES: [&str; 5] = ["samplers", "images", "buffers", "rotexels", "rwtexels"];
/// Sizes of the binding tables that every known file has.
pub const DEFAULT_TABLES: [u16; 5] = [8192, 128, 512, 128, 128];
/// Most words whose number a stage size can hold.
const MOST_WORDS: usize = u16::MAX as usize;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vbc {
    /// Its layout.
    pub dialect: Dialect,
    /// 1, graphics. Dialect A0 does not store it.
    pub shader_type: u8,
    /// Sizes of the binding tables.
    pub tables: [u16; 5],
    /// Vertex inputs.
    pub inputs: Vec<Interface>,
    /// Fragment outputs.
    pub outputs: Vec<Interface>,
    /// Bindings.
    pub bindings: Vec<Binding>,
    /// The uniform block, if there is one.
    pub uniform: Option<Uniform>,
    /// Inputs of subpasses.
    pub subpass_inputs: Vec<SubpassInput>,
    /// SPIR-V of each stage, as bytes; empty for an absent stage.
    pub modules: [Vec<u8>; 5],
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ValueType {
    /// Base type, a number of the dialect.
    pub base: u8,
    /// Components of a column.
    pub rows: u8,
    /// Columns.
    pub columns: u8,
    /// Array length; 1 for no array.
    pub array: u8,
}

/// A vertex input or fragment output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interface {
    /// First location.
    pub location: u8,
    /// Its type.
    pub ty: ValueType,
    /// Zeros.
    pub reserved: [u8; 3],
}

/// A binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Binding {
    /// Its slot.
    pub slot: u8,
    /// Base type, a number of the dialect.
    pub base: u8,
    /// Stages that use it, bit n for `STAGES[n]`; 0 for a binding without uses.
    pub stages: u16,
    /// The size of a buffer's struct and two zeros; rank, texel type, component size and component
    /// count of other kinds.
    pub detail: [u8; 4],
}

/// The uniform block.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Uniform {
    /// Bytes.
    pub size: u32,
    /// Stages that use it.
    pub stages: u16,
    /// Members in order.
    pub members: Vec<Member>,
}

/// A member of the uniform block.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Member {
    /// Its name.
    pub name: Vec<u8>,
    /// Byte offset in the block.
    pub offset: u32,
    /// Its type; dialects A0 and A1 store none.
    pub ty: Option<ValueType>,
}

/// An input of a subpass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubpassInput {
    /// The record that loaders expect.
    Plain {
        /// Texel type, a number of the dialect.
        texel: u8,
        /// Components.
        count: u8,
        /// Zero.
        reserved: u16,
    },
    /// An object of the compiler's memory in place of the record, with pointers in it.
    Dumped(Vec<u8>),
}

impl SubpassInput {
    /// The name in a dumped object of 48 bytes, if it is short enough to be inside.
    pub fn name(&self) -> Option<&[u8]> {
        let SubpassInput::Dumped(bytes) = self else { return None };
        let len = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        (bytes.len() == 48 && len <= 15).then(|| &bytes[16..16 + len as usize])
    }
}

/// The meaning of a base type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // `name` names each
pub enum Base {
    Void,
    Boolean,
    Signed,
    Unsigned,
    Float,
    Sampler,
    Image,
    RoBuffer,
    RwBuffer,
    RoTexels,
    RwTexels,
    SubpassInput,
    Uniform,
    Struct,
}

impl Base {
    const OF_C: [Base; 14] = [
        Base::Void,
        Base::Boolean,
        Base::Signed,
        Base::Unsigned,
        Base::Float,
        Base::Sampler,
        Base::Image,
        Base::RoBuffer,
        Base::RwBuffer,
        Base::RoTexels,
        Base::RwTexels,
        Base::SubpassInput,
        Base::Uniform,
        Base::Struct,
    ];
    const OF_A: [Base; 14] = [
        Base::Void,
        Base::Boolean,
        Base::Signed,
        Base::Unsigned,
        Base::Float,
        Base::Sampler,
        Base::Image,
        Base::Uniform,
        Base::RoBuffer,
        Base::RwBuffer,
        Base::RoTexels,
        Base::RwTexels,
        Base::SubpassInput,
        Base::Struct,
    ];

    const fn numbers(dialect: Dialect) -> &'static [Base; 14] {
        match dialect {
            Dialect::C => &Base::OF_C,
            _ => &Base::OF_A,
        }
    }

    /// The meaning of `number` in a dialect.
    pub fn of(dialect: Dialect, number: u8) -> Option<Base> {
        Base::numbers(dialect).get(usize::from(number)).copied()
    }

    /// Its number in a dialect.
    pub fn number(self, dialect: Dialect) -> u8 {
        let place = Base::numbers(dialect).iter().position(|b| *b == self);
        place.expect("both dialects have every base type") as u8
    }

    /// Its name in LibVega.
    pub const fn name(self) -> &'static str {
        match self {
            Base::Void => "Void",
            Base::Boolean => "Boolean",
            Base::Signed => "Signed",
            Base::Unsigned => "Unsigned",
            Base::Float => "Float",
            Base::Sampler => "Sampler",
            Base::Image => "Image",
            Base::RoBuffer => "ROBuffer",
            Base::RwBuffer => "RWBuffer",
            Base::RoTexels => "ROTexels",
            Base::RwTexels => "RWTexels",
            Base::SubpassInput => "SPInput",
            Base::Uniform => "Uniform",
            Base::Struct => "Struct",
        }
    }

    /// Whether it is a number that a shader's interface can have.
    pub const fn is_numeric(self) -> bool {
        matches!(self, Base::Signed | Base::Unsigned | Base::Float)
    }

    /// Whether a binding of this type describes a buffer.
    pub const fn is_buffer(self) -> bool {
        matches!(self, Base::RoBuffer | Base::RwBuffer)
    }

    /// The binding table that a binding of this type is in.
    pub const fn table(self) -> Option<usize> {
        Some(match self {
            Base::Sampler => 0,
            Base::Image => 1,
            Base::RoBuffer | Base::RwBuffer => 2,
            Base::RoTexels => 3,
            Base::RwTexels => 4,
            _ => return None,
        })
    }
}

/// Names of the ranks of dialect C. The others have `None` before them.
const RANKS: [&str; 7] = ["1D", "2D", "3D", "1DArray", "2DArray", "Cube", "Buffer"];
const TEXELS: [&str; 5] = ["Signed", "Unsigned", "Float", "UNorm", "SNorm"];

impl ValueType {
    /// The type as the language writes it: `float4x4`, `uint`, `float2[4]`.
    pub fn name(&self, dialect: Dialect) -> String {
        let base = match Base::of(dialect, self.base) {
            Some(Base::Boolean) => "bool".to_string(),
            Some(Base::Signed) => "int".into(),
            Some(Base::Unsigned) => "uint".into(),
            Some(Base::Float) => "float".into(),
            Some(other) => other.name().into(),
            None => format!("type{}_", self.base),
        };
        let dims = match (self.rows, self.columns) {
            (1, 1) => String::new(),
            (rows, 1) => rows.to_string(),
            (rows, columns) => format!("{columns}x{rows}"),
        };
        let array = if self.array == 1 { String::new() } else { format!("[{}]", self.array) };
        format!("{base}{dims}{array}")
    }

    /// Bytes in the scalar layout of the uniform block.
    const fn size(&self) -> u32 {
        4 * self.rows as u32 * self.columns as u32 * self.array as u32
    }
}

impl Binding {
    /// Its kind by name; a number if it is unknown.
    pub fn kind(&self, dialect: Dialect) -> String {
        Base::of(dialect, self.base).map_or_else(|| format!("type {}", self.base), |b| b.name().into())
    }

    /// What it holds: `16 bytes`, `2D Float 4x4`.
    pub fn describe(&self, dialect: Dialect) -> String {
        let [a, b, c, d] = self.detail;
        if Base::of(dialect, self.base).is_some_and(Base::is_buffer) {
            return format!("{} bytes", u16::from_le_bytes([a, b]));
        }
        let rank = rank_name(dialect, a).map_or_else(|| format!("rank {a}"), Into::into);
        let texel = texel_name(dialect, b).map_or_else(|| format!("texel {b}"), Into::into);
        format!("{rank} {texel} {c}x{d}")
    }
}

/// The name of a rank.
pub fn rank_name(dialect: Dialect, rank: u8) -> Option<&'static str> {
    match dialect {
        Dialect::C => RANKS.get(usize::from(rank)).copied(),
        _ if rank == 0 => Some("None"),
        _ => RANKS.get(usize::from(rank) - 1).copied(),
    }
}

/// The name of a texel type. Dialects before C use base types.
pub fn texel_name(dialect: Dialect, texel: u8) -> Option<&'static str> {
    match dialect {
        Dialect::C => TEXELS.get(usize::from(texel)).copied(),
        _ => texel.checked_sub(2).and_then(|t| TEXELS[..3].get(usize::from(t)).copied()),
    }
}

/// The names of the stages in a mask: `vert frag`.
pub fn stage_names(mask: u16) -> String {
    let names: Vec<&str> = STAGES.iter().enumerate().filter(|(n, _)| mask >> n & 1 != 0).map(|(_, s)| *s).collect();
    names.join(" ")
}

impl Vbc {
    /// The number of the stage of this name.
    pub fn stage(name: &str) -> Option<usize> {
        STAGES.iter().position(|s| *s == name)
    }

    /// The stages that have a module, as a mask.
    pub fn stages(&self) -> u16 {
        self.modules.iter().enumerate().filter(|(_, m)| !m.is_empty()).map(|(n, _)| 1 << n).sum()
    }

    /// Offset of each module in the written file.
    pub fn module_offsets(&self) -> [u64; 5] {
        let total: usize = self.modules.iter().map(Vec::len).sum();
        let mut at = (self.write().len() - total) as u64;
        self.modules.each_ref().map(|module| {
            let start = at;
            at += module.len() as u64;
            start
        })
    }
}
