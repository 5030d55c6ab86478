//! Warnings: lenient readings that a careful author would not intend.
//!
//! Each such reading of picasso's is a [`Warning`] here. The words are still picasso's; a warning
//! never changes a result.

use super::error::excerpt;
use std::fmt;

/// A construct that the assembler accepts, but that an author may not intend.
///
/// `{}` shows one line; `{:#}` adds the source line with a caret under the column, as in errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Name of the source, as given to the assembler or by a line marker.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line itself, without its end.
    pub source: String,
    /// Its kind.
    pub kind: WarningKind,
}

/// The kind of a warning. **Q** and numbers: language notes, sections 2 to 13.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarningKind {
    /// Mask letters out of the order x, y, z, w. Their order has no meaning.
    MaskOrder(String),
    /// Padding is off and hardware needs a NOP here.
    MissingNop,
    /// Text that the language ignores (Q4, Q5).
    Ignored(String),
    /// A length over 255. Hardware is known to evaluate only eight bits.
    LongBlock {
        /// Its length in words.
        words: usize,
    },
    /// Text in place of a number, read as 0; in brackets also text that resembles an index register
    /// (Q2).
    NotANumber(String),
    /// A value of an integer constant beyond eight bits, of which the low byte remains.
    LowByte {
        /// The value as written.
        value: i64,
        /// The value that the hardware gets.
        stored: u8,
    },
    /// A register number with a leading 0.
    Octal {
        /// The register as written.
        register: String,
        /// Its number.
        number: u32,
    },
    /// An upper-case register letter: the number counts through all classes (Q1).
    UpperCase {
        /// The register as written.
        register: String,
        /// The register it denotes.
        meaning: String,
    },
    /// An empty name.
    EmptyName,
    /// A procedure's or constant's name that no operand can spell.
    UnusableName(String),
    /// A row of a table in a file with `.nodvle`, which has none.
    WithoutEntry(String),
    /// An alias that hides a register of the same name.
    HidesRegister(String),
    /// A `.` without components after it, read as `.x`.
    NoComponents(String),
    /// An offset that leads into another class of registers.
    OtherClass {
        /// The operand as written.
        operand: String,
        /// The register it denotes.
        register: String,
    },
    /// A read of an `o` register or a write to a `v` register. The other register of that number is
    /// used.
    OtherFile {
        /// The operand as written.
        operand: String,
        /// The register it denotes.
        register: String,
    },
    /// A sign before a destination.
    NegatedDestination(String),
    /// An index on an alias of a `v` or `r` register (Q7).
    IndexedAlias(String),
    /// `cmp` with two different `v` registers, which hardware can't read together.
    TwoInputs,
    /// An instruction inside an array and outside every procedure.
    InsideArray,
    /// `i4` to `i7` (Q12).
    NoSuchInteger(String),
    /// `.gsh` without a mode, which resets an earlier mode.
    ModeDropped,
    /// A name with `_` declared before `.gsh` stays in the shared registers (Q11).
    HiddenBeforeGsh,
    /// A line marker without a file name.
    MarkerWithoutFile,
    /// A NUL byte, at which the file ends.
    Nul,
    /// The limit of kept warnings is reached.
    Further,
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use WarningKind::*;
        match self {
            MaskOrder(s) => write!(f, "components `{s}` are not in order"),
            MissingNop => f.write_str("a nop is needed here and padding is off"),
            Ignored(s) => write!(f, "`{s}` is ignored"),
            LongBlock { words } => write!(f, "block of {words} words: hardware may count only 8 bits"),
            NotANumber(s) if s.is_empty() => f.write_str("a number is missing and counts as 0"),
            NotANumber(s) => write!(f, "`{s}` is not a number here and counts as 0"),
            Octal { register, number } => write!(f, "the 0 makes `{register}` octal: its number is {number}"),
            UpperCase { register, meaning } => write!(f, "`{register}` means {meaning}: expected a lower-case letter"),
            LowByte { value, stored } => write!(f, "{value} is stored as {stored}: expected 0 to 255"),
            EmptyName => f.write_str("the name is empty"),
            UnusableName(s) => write!(f, "nothing can refer to `{s}`: expected letters, digits, `_` or `$`"),
            WithoutEntry(s) => write!(f, "`{s}` has no effect: `.nodvle` drops the tables of this file"),
            HidesRegister(s) => write!(f, "`{s}` hides the register of that name from here on"),
            NoComponents(s) => write!(f, "`{s}` has no components and means `{s}x`"),
            OtherClass { operand, register } => write!(f, "`{operand}` leads to another class: it is {register}"),
            OtherFile { operand, register } => write!(f, "`{operand}` is {register} here"),
            NegatedDestination(s) => write!(f, "the sign of destination `{s}` is ignored"),
            IndexedAlias(s) => write!(f, "`{s}` is not a c register: the index has no known effect"),
            TwoInputs => f.write_str("two different v registers in one cmp: expected at most one"),
            InsideArray => f.write_str("instruction in an array: expected `.end` of the array before it"),
            NoSuchInteger(s) => write!(f, "`{s}` does not exist: expected i0 to i3"),
            ModeDropped => f.write_str("`.gsh` without a mode resets the mode given before"),
            HiddenBeforeGsh => f.write_str("uniforms before `.gsh` stay in the registers that vertex files share"),
            MarkerWithoutFile => f.write_str("line marker without a file name is ignored"),
            Nul => f.write_str("the file ends here, at a NUL byte"),
            Further => f.write_str("further warnings are left out"),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: warning: {}", self.file, self.line, self.column, self.kind)?;
        if f.alternate() {
            writeln!(f)?;
            excerpt(f, self.line, self.column, &self.source)?;
        }
        Ok(())
    }
}
