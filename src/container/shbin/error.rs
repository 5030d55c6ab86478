//! What can be wrong with a shader file, in words: the file being read (linked or not), or the value being written.

use crate::container::reader::PastEnd;
use crate::isa::MAX_CODE_WORDS;
use std::fmt;

/// Tables together may be this many times as large as the file. Each is read once in an ordinary file; the rest is room
/// for entry points that share tables and names.
pub(crate) const MAX_SHARING: usize = 8;

/// Why bytes are not a shader file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShbinError {
    /// Absolute offset of the field that can't be true.
    pub offset: usize,
    /// What is wrong with it.
    pub kind: ShbinErrorKind,
}

/// See [`ShbinError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShbinErrorKind {
    /// A part does not begin with its magic.
    Magic {
        /// Which part.
        part: Part,
        /// What it should begin with.
        expected: [u8; 4],
        /// What it begins with.
        found: [u8; 4],
    },
    /// A part is not wholly inside the file.
    PastEnd {
        /// Which part.
        part: Part,
        /// Where it would be.
        past: PastEnd,
    },
    /// More code than the largest unit holds.
    CodeTooLong {
        /// How much, in words.
        words: u32,
    },
    /// The program would begin outside of the code.
    EntryOutsideCode {
        /// Where, in words.
        entry: u32,
        /// How many words there are.
        words: usize,
    },
    /// A constant is neither a boolean nor integers nor floats.
    ConstantType {
        /// The type field.
        found: u16,
    },
    /// A constant is for a register that does not exist.
    ConstantRegister {
        /// `b`, `i` or `c`.
        class: char,
        /// Its number.
        register: u16,
    },
    /// A name would begin outside of the symbol table.
    NameOutsideSymbols {
        /// Where it would begin in the table.
        name: u32,
        /// Size of the table in bytes.
        symbols: usize,
    },
    /// The tables overlap so much that they hold many times what the file does.
    Overlap {
        /// Which part was one too many.
        part: Part,
        /// Length of the file.
        len: usize,
    },
}

/// The parts of shader files that errors speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is described by its name for people, below
pub enum Part {
    FileHeader,
    DvleOffsets,
    ProgramHeader,
    Code,
    Opdescs,
    FileNames,
    DvleHeader,
    ObjectHeader,
    Constants,
    Labels,
    Outputs,
    Uniforms,
    Symbols,
    SourceLines,
    OperandNotes,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::FileHeader => "the file header",
            Part::DvleOffsets => "the table of DVLE offsets",
            Part::ProgramHeader => "the DVLP header",
            Part::Code => "the code",
            Part::Opdescs => "the descriptor table",
            Part::FileNames => "the table of file names",
            Part::DvleHeader => "the DVLE header",
            Part::ObjectHeader => "the DVOJ header",
            Part::Constants => "the constant table",
            Part::Labels => "the label table",
            Part::Outputs => "the output table",
            Part::Uniforms => "the uniform table",
            Part::Symbols => "the symbol table",
            Part::SourceLines => "the table of source lines",
            Part::OperandNotes => "the table of operand notes",
        })
    }
}

impl fmt::Display for ShbinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x}: {}", self.offset, self.kind)
    }
}

impl fmt::Display for ShbinErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShbinErrorKind::Magic { part, expected, found } => {
                let (expected, found) = (expected.escape_ascii(), found.escape_ascii());
                write!(f, "{part} should begin with \"{expected}\", not \"{found}\"")
            }
            ShbinErrorKind::PastEnd { part, past } => write!(f, "{part} {past}"),
            ShbinErrorKind::CodeTooLong { words } => {
                write!(f, "{words} words of code, but the largest unit holds {MAX_CODE_WORDS}")
            }
            ShbinErrorKind::EntryOutsideCode { entry, words } => {
                write!(f, "the entry point, word {entry}, is outside of the code, which has {words} words")
            }
            ShbinErrorKind::ConstantType { found } => {
                write!(f, "constant of type {found}, but only 0 (bool), 1 (int) and 2 (float) are known")
            }
            ShbinErrorKind::ConstantRegister { class, register } => {
                write!(f, "constant for {class}{register}, a register that does not exist")
            }
            ShbinErrorKind::NameOutsideSymbols { name, symbols } => {
                write!(f, "name at {name:#x} of the symbol table, which has {symbols:#x} bytes")
            }
            ShbinErrorKind::Overlap { part, len } => {
                write!(
                    f,
                    "with {part} the parts of the file overlap to more than {MAX_SHARING} times its {len:#x} bytes"
                )
            }
        }
    }
}

impl std::error::Error for ShbinError {}

/// Why a value can't be written as a shader file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShbinWriteError {
    /// More code than the largest unit holds.
    CodeTooLong {
        /// How much, in words.
        words: usize,
    },
    /// Names are ended by a zero byte, so they can't have one.
    NameHasNul {
        /// The name.
        name: String,
    },
    /// Offsets are 32 bits wide.
    TooLarge,
}

impl fmt::Display for ShbinWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShbinWriteError::CodeTooLong { words } => {
                write!(f, "{words} words of code, but the largest unit holds {MAX_CODE_WORDS}")
            }
            ShbinWriteError::NameHasNul { name } => write!(f, "the name {name:?} has a zero byte in it"),
            ShbinWriteError::TooLarge => f.write_str("the file would be larger than 4 GiB"),
        }
    }
}

impl std::error::Error for ShbinWriteError {}
