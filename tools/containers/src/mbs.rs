//! Mali-200/400 (Utgard) shaders, MBS1 <-> [`Mbs`]: a tree of tagged chunks.
//!
//! The model keeps everything: unknown chunks verbatim, the order of chunks, and counts as stored.
//! Only sizes are derived. [`Mbs::write`] of a parsed value therefore gives the same bytes, and
//! [`Mbs::canonical`] gives a value that obeys the rules. Code is bytes here; [`code`] gives its
//! instructions.

pub mod code;
mod link;
mod parse;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use link::link_check;

use std::fmt;

/// A file: zero, one or two programs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Mbs {
    /// Chunks below the root, in file order.
    pub parts: Vec<RootPart>,
}

/// A chunk below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootPart {
    /// `CFRA` or `CVER`.
    Program(MbsProgram),
    /// Another tag.
    Unknown(Chunk),
}

/// A chunk that the model does not interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its tag.
    pub tag: [u8; 4],
    /// Its bytes.
    pub body: Vec<u8>,
}

/// The stage of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MbsStage {
    /// `CFRA`, for the pixel processor (PP).
    Fragment,
    /// `CVER`, for the geometry processor (GP).
    Vertex,
}

impl fmt::Display for MbsStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MbsStage::Fragment => "fragment",
            MbsStage::Vertex => "vertex",
        })
    }
}

/// The program of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MbsProgram {
    /// Its stage.
    pub stage: MbsStage,
    /// The core it is compiled for, see [`MbsProgram::core_name`].
    pub core: u32,
    /// Its chunks in file order.
    pub parts: Vec<ProgramPart>,
}

/// A chunk of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPart {
    /// `FSTA`.
    Stack {
        /// Size, 1 in known files.
        size: u32,
        /// Offset, 1 in known files.
        offset: u32,
    },
    /// `FDIS`: whether the program discards fragments.
    Discard(u32),
    /// `FBUU`: reads and writes of colour, depth and stencil, and two zeros.
    Buffers([u8; 8]),
    /// `FINS`.
    Instructions {
        /// 0.
        zero: u32,
        /// Number of instructions.
        count: u32,
        /// Index after the last instruction that reads an attribute.
        attribute_prefetch: u32,
    },
    /// `SUNI`.
    Uniforms(Table),
    /// `SVAR`.
    Varyings(Table),
    /// `SATT`.
    Attributes(Table),
    /// `DBIN`.
    Code(Vec<u8>),
    /// Another tag, or a known tag with a body of unexpected size.
    Unknown(Chunk),
}

/// A table of symbols.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Table {
    /// Number of symbols, as stored.
    pub count: u32,
    /// Uniforms only: memory in scalar slots.
    pub space: u32,
    /// Rows in file order.
    pub rows: Vec<Row>,
}

impl Table {
    /// The symbols in order.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.rows.iter().filter_map(|row| match row {
            Row::Symbol(symbol) => Some(symbol),
            Row::Unknown(_) => None,
        })
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// `VUNI`, `VVAR` or `VATT`.
    Symbol(Symbol),
    /// Another tag.
    Unknown(Chunk),
}

/// A uniform, varying or attribute.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Symbol {
    /// Body of `STRI`: name, zero byte, padding.
    pub padded_name: Vec<u8>,
    /// First byte of the record, 0.
    pub zero: u8,
    /// Type, see [`Symbol::type_name`].
    pub kind: u8,
    /// Components of a vector, columns of a matrix, members of a struct.
    pub component_count: u16,
    /// Size of an element in slots; of a column in a matrix.
    pub component_size: u16,
    /// Array length; 0 for no array.
    pub entry_count: u16,
    /// Slots from one array element to the next.
    pub src_stride: u16,
    /// 0x10; bit 3 is set for varyings that address a texture.
    pub flags: u8,
    /// 1 low, 2 medium, 3 high.
    pub precision: u8,
    /// Whether it is invariant; the 16-bit zero of an attribute.
    pub invariant: u32,
    /// First slot; [`UNUSED`] in a varying that is declared but unused.
    pub offset: u16,
    /// Index of the struct that has it as a member, or [`NO_PARENT`]. Attributes store none.
    pub parent: u16,
    /// Chunks after the record.
    pub extras: Vec<Extra>,
}

/// [`Symbol::offset`] of an unused varying.
pub const UNUSED: u16 = 0xFFFF;
/// [`Symbol::parent`] of a symbol outside of structs.
pub const NO_PARENT: u16 = 0xFFFF;

/// A chunk after a symbol's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extra {
    /// `VINI`: initial values, words of 32 bits.
    Initial(Vec<u32>),
    /// `VIDX`: chunks of unpublished meaning.
    Index(Vec<Chunk>),
    /// Another tag, or a known tag with an unexpected body.
    Unknown(Chunk),
}

impl Mbs {
    /// The programs in file order.
    pub fn programs(&self) -> impl Iterator<Item = &MbsProgram> {
        self.parts.iter().filter_map(|part| match part {
            RootPart::Program(program) => Some(program),
            RootPart::Unknown(_) => None,
        })
    }

    /// The program of a stage; the first one of several.
    pub fn program(&self, stage: MbsStage) -> Option<&MbsProgram> {
        self.programs().find(|p| p.stage == stage)
    }
}

impl MbsProgram {
    /// The core's name; `None` if unknown for this stage.
    pub fn core_name(&self) -> Option<&'static str> {
        match (self.stage, self.core) {
            (MbsStage::Fragment, 5) => Some("Mali-200 PP"),
            (MbsStage::Fragment, 7) => Some("Mali-400 PP"),
            (MbsStage::Vertex, 2) => Some("MaliGP2"),
            (MbsStage::Vertex, 6) => Some("Mali-400 GP"),
            _ => None,
        }
    }

    /// The code of the first `DBIN`.
    pub fn code(&self) -> Option<&[u8]> {
        self.parts.iter().find_map(|part| match part {
            ProgramPart::Code(code) => Some(&code[..]),
            _ => None,
        })
    }

    /// Number of instructions in the code. An instruction of a fragment program has its length in
    /// its first word; length 0 ends the count.
    pub fn instructions(&self) -> Option<usize> {
        let code = self.code()?;
        if self.stage == MbsStage::Vertex {
            return Some(code.len() / 16);
        }
        let (mut words, mut n) = (code.as_chunks::<4>().0, 0);
        while let Some(first) = words.first() {
            let len = (u32::from_le_bytes(*first) & 31) as usize;
            if len == 0 {
                break;
            }
            words = words.get(len..).unwrap_or(&[]);
            n += 1;
        }
        Some(n)
    }

    /// The uniform table.
    pub fn uniforms(&self) -> Option<&Table> {
        self.parts.iter().find_map(|p| if let ProgramPart::Uniforms(t) = p { Some(t) } else { None })
    }

    /// The varying table.
    pub fn varyings(&self) -> Option<&Table> {
        self.parts.iter().find_map(|p| if let ProgramPart::Varyings(t) = p { Some(t) } else { None })
    }

    /// The attribute table.
    pub fn attributes(&self) -> Option<&Table> {
        self.parts.iter().find_map(|p| if let ProgramPart::Attributes(t) = p { Some(t) } else { None })
    }
}

impl Symbol {
    /// The name without its padding.
    pub fn name(&self) -> &[u8] {
        let end = self.padded_name.iter().position(|&b| b == 0).unwrap_or(self.padded_name.len());
        &self.padded_name[..end]
    }

    /// The type as GLSL names it: `vec4[2]`, `mat3`, `sampler2D`; a number if it is unknown.
    pub fn type_name(&self) -> String {
        let n = self.component_count;
        let base = match (self.kind, n) {
            (1, 1) => "float".into(),
            (1, _) => format!("vec{n}"),
            (2, 1) => "int".into(),
            (2, _) => format!("ivec{n}"),
            (3, 1) => "bool".into(),
            (3, _) => format!("bvec{n}"),
            (4, _) => format!("mat{n}"),
            (5, _) => "sampler2D".into(),
            (6, _) => "samplerCube".into(),
            (8, _) => format!("struct of {n}"),
            (9, _) => "samplerExternalOES".into(),
            (kind, _) => format!("type {kind}"),
        };
        if self.entry_count == 0 { base } else { format!("{base}[{}]", self.entry_count) }
    }

    /// The precision's name.
    pub fn precision_name(&self) -> String {
        match self.precision {
            1 => "low".into(),
            2 => "medium".into(),
            3 => "high".into(),
            4 => "super".into(),
            n => n.to_string(),
        }
    }

    /// The initial values, if the file has some.
    pub fn initial(&self) -> Option<&[u32]> {
        self.extras.iter().find_map(|e| if let Extra::Initial(words) = e { Some(&words[..]) } else { None })
    }
}
