//! Assembly errors: their kinds, their position, and their text.
//!
//! An [`AsmError`] names a position (file, line, column), shows the line with a caret under the
//! column, and says what was expected. Inside the assembler an error is a `Fault`: a kind and a
//! byte offset in the current line. Only `asm` turns a `Fault` into an [`AsmError`].

use super::limits::MAX_BLOCKS;
use super::span::Span;
use std::fmt;

/// The kind of an assembly error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsmErrorKind {
    /// No instruction has this name.
    UnknownMnemonic(String),
    /// No directive has this name.
    UnknownDirective(String),
    /// The text at this position is not `what`.
    Expected {
        /// The construct that the grammar requires.
        what: &'static str,
        /// The text found; empty at the end of the line.
        found: String,
    },
    /// An instruction or directive has too many arguments.
    TooManyArguments(String),
    /// Not a letter, `_` or `$` followed by letters, digits, `_` or `$`.
    BadIdentifier(String),
    /// An instruction outside of every block.
    OutsideProc,
    /// `.else` where the innermost open block is not an `ifc` or `ifu`.
    ElseWithoutIf,
    /// `.else` twice in one block.
    SecondElse,
    /// `.end` without an open block.
    EndWithoutBlock,
    /// The text ends inside a block.
    UnclosedBlock {
        /// Line of the statement that opened the block.
        opened: u32,
    },
    /// Blocks nested deeper than the language allows.
    NestingTooDeep,
    /// A name is defined twice.
    Duplicate {
        /// `label`, `alias`, `procedure`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// `.alias` with a name that reads like a register.
    ReservedName(String),
    /// A name is used and never defined.
    Undefined {
        /// `label`, `procedure`, `entry procedure`, `register or alias`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No file contributes an entry point.
    NoDvle,
    /// A number where an operand must be a register.
    NumberAsOperand(String),
    /// Two words without a comma between them, and too few operands.
    MissingComma {
        /// The word after the place of the comma.
        before: String,
    },
    /// A uniform's given register is not free.
    RegisterTaken(String),
    /// A register number beyond its class.
    RegisterRange {
        /// The register as written.
        register: String,
        /// The highest number there is.
        max: u32,
    },
    /// A register of the wrong class.
    WrongClass {
        /// The class required.
        expected: &'static str,
        /// The operand as written.
        found: String,
    },
    /// A destination that is neither an `o` nor an `r` register.
    NotWritable(String),
    /// A letter that names no component, or more than four letters.
    BadSwizzle(String),
    /// A negative offset in brackets.
    NegativeOffset(String),
    /// An index register where the encoding or the language has none.
    IndexNotAllowed(String),
    /// Text before `+` in brackets is not an index register.
    UnknownIndex(String),
    /// A uniform or an index in a source field of five bits.
    NarrowUniform {
        /// The operand as written.
        operand: String,
        /// Its number among the sources, from 1.
        source: u8,
    },
    /// More than one uniform (or indexed operand) in one instruction.
    TwoUniforms,
    /// Two different `v` registers in one instruction.
    TwoInputs,
    /// A word that is not `cmp.x` or `cmp.y`.
    UnknownFlag(String),
    /// The same flag on both sides of a condition.
    FlagTwice,
    /// `!` before a boolean of an instruction that can only test for true.
    InvertNotAllowed,
    /// A comparison that does not exist.
    UnknownComparison(String),
    /// A number out of range.
    ValueRange {
        /// The quantity.
        what: &'static str,
        /// Its minimum.
        min: i64,
        /// Its maximum.
        max: i64,
        /// The value found.
        found: i64,
    },
    /// A `.constfa` with no elements and no size.
    EmptyArray,
    /// A `.constfa` with more elements than its size.
    ArrayTooLong {
        /// The size.
        size: u32,
    },
    /// No registers left for a uniform or constant.
    UniformsFull {
        /// `float`, `integer`, `boolean`.
        class: &'static str,
    },
    /// A table of the output file is full.
    TableFull {
        /// The table.
        what: &'static str,
        /// Its capacity in rows.
        limit: usize,
    },
    /// A shared uniform is redeclared with another type or size.
    UniformChanged(String),
    /// More operand descriptors than instructions can name.
    TooManyOpdescs,
    /// No descriptor below 32 is left for a `mad`.
    MadOpdescs,
    /// `@n` names a descriptor that `mad` can't reach, or whose bits conflict with the instruction.
    OpdescPinned {
        /// The descriptor.
        index: u32,
    },
    /// More code than the unit holds.
    ProgramTooLong {
        /// The unit's capacity in words.
        limit: usize,
    },
    /// A procedure or ELSE part longer than its length field.
    BlockTooLong {
        /// Its length in words.
        words: usize,
    },
    /// An output property that does not exist.
    UnknownProperty(String),
    /// Components of an output register are assigned twice.
    ComponentsTaken(String),
    /// A property other than `dummy` on an output register from o7 up.
    DummyOnly(String),
    /// `.gsh` after a declaration that depends on it, or a second `.gsh`.
    GshLate,
    /// An output register whose collision test is undefined in picasso.
    OutputByNumber(String),
    /// The file begins with a byte order mark.
    ByteOrderMark,
}

impl fmt::Display for AsmErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use AsmErrorKind::*;
        match self {
            UnknownMnemonic(s) | BadIdentifier(s) if s.starts_with("//") => {
                write!(f, "`//` begins no comment: expected `;`")
            }
            UnknownMnemonic(s) => write!(f, "unknown instruction `{s}`"),
            UnknownDirective(s) => write!(f, "unknown directive `{s}`"),
            Expected { what, found } if found.is_empty() => write!(f, "expected {what}, found the end of the line"),
            Expected { what, found } => write!(f, "expected {what}, found `{found}`"),
            NumberAsOperand(s) => write!(f, "`{s}` is a number, and an operand is a register"),
            MissingComma { before } => write!(f, "expected `,` before `{before}`"),
            TooManyArguments(s) => write!(f, "expected no more arguments, found `{s}`"),
            BadIdentifier(s) => {
                write!(f, "`{s}` is not a name: expected a letter, `_` or `$`, then letters, digits, `_` or `$`")
            }
            OutsideProc => f.write_str("instruction outside of a block: expected `.proc NAME` before it"),
            ElseWithoutIf => f.write_str("`.else` without an open `ifc` or `ifu`"),
            SecondElse => f.write_str("second `.else` in one block"),
            EndWithoutBlock => f.write_str("`.end` without an open block"),
            UnclosedBlock { opened } => write!(f, "the block opened in line {opened} is not closed: expected `.end`"),
            NestingTooDeep => write!(f, "more than {} nested blocks", MAX_BLOCKS),
            Duplicate { what, name } => write!(f, "{what} `{name}` is already defined"),
            ReservedName(s) => write!(f, "`{s}` can't be an alias: it reads like a register"),
            Undefined { what, name } => write!(f, "undefined {what} `{name}`"),
            NoDvle => f.write_str("no file has an entry point"),
            RegisterRange { register, max } => {
                write!(f, "register `{register}` does not exist: expected a number from 0 to {max}")
            }
            WrongClass { expected, found } => write!(f, "`{found}` does not fit here: expected {expected}"),
            NotWritable(s) => write!(f, "`{s}` can't be written: expected an o or r register"),
            BadSwizzle(s) => {
                write!(f, "bad components `{s}`: expected one to four letters of xyzw, rgba or stpq")
            }
            NegativeOffset(s) => write!(f, "negative offset `{s}`: expected 0 or more"),
            IndexNotAllowed(s) => write!(f, "`{s}` can't be indexed here: expected no index register"),
            UnknownIndex(s) => write!(f, "unknown index register `{s}`: expected a0.x, a0.y or aL"),
            NarrowUniform { operand, source } => {
                write!(f, "source {source} is `{operand}`: expected a v or r register without index here")
            }
            TwoUniforms => f.write_str("two uniforms in one instruction: expected at most one, in the wide operand"),
            TwoInputs => f.write_str("two different v registers in one instruction: expected at most one"),
            UnknownFlag(s) => write!(f, "unknown flag `{s}`: expected cmp.x or cmp.y"),
            FlagTwice => f.write_str("the same flag twice: expected cmp.x and cmp.y"),
            InvertNotAllowed => {
                f.write_str("`!` is not possible here: expected a boolean (only jmpu can test for false)")
            }
            UnknownComparison(s) => write!(f, "unknown comparison `{s}`: expected eq, ne, lt, le, gt or ge"),
            ValueRange { what, min, max, found } => write!(f, "{what} {found}: expected {min} to {max}"),
            EmptyArray => {
                f.write_str("array without elements: expected a size or at least one `.constfa (x, y, z, w)`")
            }
            ArrayTooLong { size } => write!(f, "too many elements: expected at most {size}"),
            UniformsFull { class } => write!(f, "no room left for this {class} uniform or constant"),
            TableFull { what, limit } => write!(f, "too many {what}: expected at most {limit}"),
            RegisterTaken(s) => write!(f, "`{s}` is not free for this uniform"),
            UniformChanged(s) => write!(f, "uniform `{s}` has another type or size in an earlier file"),
            TooManyOpdescs => f.write_str("too many operand descriptors: expected at most 128 different ones"),
            MadOpdescs => f.write_str("no operand descriptor below 32 is left for this mad"),
            OpdescPinned { index } => write!(f, "operand descriptor {index} can't be used by this instruction"),
            ProgramTooLong { limit } => write!(f, "program too long: expected at most {limit} words"),
            BlockTooLong { words } => write!(f, "block of {words} words: expected at most 1023"),
            UnknownProperty(s) => write!(
                f,
                "unknown output property `{s}`: expected position, normalquat, color, texcoord0, texcoord0w, texcoord1, \
                 texcoord2, view or dummy"
            ),
            ComponentsTaken(s) => write!(f, "components of `{s}` are already assigned to another output"),
            DummyOnly(s) => write!(f, "`{s}` can only be a dummy: expected o0 to o6 for this property"),
            OutputByNumber(s) => {
                write!(f, "`{s}` can't be assigned by number: expected o0 to o7, or no register (the next free one)")
            }
            ByteOrderMark => f.write_str("the file begins with a byte order mark: expected plain text"),
            GshLate => f.write_str("`.gsh` must come once, before uniforms, constants, inputs and outputs"),
        }
    }
}

/// An assembly error with its position in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsmError {
    /// Name of the source, as given to the assembler.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line itself, without its end.
    pub source: String,
    /// The kind of an assembly error.
    pub kind: AsmErrorKind,
    /// What to do, where the kind and the place don't say it all.
    pub help: Option<Box<str>>,
}

/// Characters of a source line that a message shows.
const SHOWN: usize = 160;

impl fmt::Display for AsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}:{}: error: {}", self.file, self.line, self.column, self.kind)?;
        excerpt(f, self.line, self.column, &self.source)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "\nhelp: {help}"))
    }
}

/// The source line with its number, and a caret under `column`.
pub(super) fn excerpt(f: &mut fmt::Formatter<'_>, line: u32, column: u32, source: &str) -> fmt::Result {
    let number = line.to_string();
    let before = (column as usize).saturating_sub(1);
    let start = (before + 20).saturating_sub(SHOWN);
    // One terminal cell per character keeps the caret aligned.
    let shown: String = source.chars().skip(start).take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(f, "{number} | {shown}")?;
    write!(f, "{:w$} | {:c$}^", "", "", w = number.len(), c = before - start)
}

impl std::error::Error for AsmError {}

/// An error in the current line: its kind, and the bytes of its cause.
#[derive(Debug)]
pub(super) struct Fault {
    pub at: usize,
    pub len: usize,
    pub kind: AsmErrorKind,
}

impl Fault {
    pub(super) fn new(span: Span<'_>, kind: AsmErrorKind) -> Fault {
        Fault { at: span.at, len: span.text.len(), kind }
    }
}

/// The result type inside the assembler.
pub(super) type Parse<T> = Result<T, Fault>;

pub(super) fn fault<T>(span: Span<'_>, kind: AsmErrorKind) -> Parse<T> {
    Err(Fault::new(span, kind))
}

pub(super) fn expected<T>(what: &'static str, span: Span<'_>) -> Parse<T> {
    fault(span, AsmErrorKind::Expected { what, found: clip(span.text) })
}

/// `text` for a message: at most 80 characters, and without terminal control characters.
pub(super) fn clip(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\t' { '\u{FFFD}' } else { c };
    text.chars().take(80).map(shown).collect()
}
