//! Errors of reading a shader file, linked or not, and of writing one.

use crate::container::reader::PastEnd;
use crate::isa::MAX_CODE_WORDS;
use std::fmt;

/// Limit of the tables' total size, in file sizes. An ordinary file stays at 1; the rest allows
/// entry points to share tables and names.
pub(crate) const MAX_SHARING: usize = 8;

/// Why bytes are not a shader file, with the offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShbinError {
    /// Absolute offset of the invalid field.
    pub offset: usize,
    /// The kind of error.
    pub kind: ShbinErrorKind,
}

/// See [`ShbinError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShbinErrorKind {
    /// A part does not begin with its magic.
    Magic {
        /// The part.
        part: Part,
        /// The expected magic.
        expected: [u8; 4],
        /// The magic found.
        found: [u8; 4],
    },
    /// A part ends past the end of the file.
    PastEnd {
        /// The part.
        part: Part,
        /// Its extent.
        past: PastEnd,
    },
    /// More code than the largest unit holds.
    CodeTooLong {
        /// Its length in words.
        words: u32,
    },
    /// The entry point is outside the code.
    EntryOutsideCode {
        /// Its address in words.
        entry: u32,
        /// Length of the code in words.
        words: usize,
    },
    /// A constant's type is not boolean, integer or float.
    ConstantType {
        /// The type field.
        found: u16,
    },
    /// A constant's register does not exist.
    ConstantRegister {
        /// `b`, `i` or `c`.
        class: char,
        /// Its number.
        register: u16,
    },
    /// A name's offset is outside the symbol table.
    NameOutsideSymbols {
        /// The offset in the table.
        name: u32,
        /// Size of the table in bytes.
        symbols: usize,
    },
    /// The tables overlap, and their total size exceeds the limit.
    Overlap {
        /// The part that exceeds the limit.
        part: Part,
        /// Length of the file.
        len: usize,
    },
}

/// The parts of shader files that errors name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `Display` describes each part
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
        /// Its length in words.
        words: usize,
    },
    /// A name contains a zero byte, which would end it.
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
