//! What is accepted and worth a second look, and how a person is told.
//!
//! Every lenient reading that picasso has and that a careful writer would not mean is a [`Warning`] here: the words come
//! out as picasso's, and the place is named. A warning never changes a result. It must not know how statements are read.

use super::error::excerpt;
use std::fmt;

/// Something that is accepted and worth a second look.
///
/// Shown as one line; `{:#}` adds the source line with a caret under the place, as errors have it.
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
    /// What.
    pub kind: WarningKind,
}

/// What is worth a second look. **Q** and numbers: language notes, sections 2 to 13.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarningKind {
    /// Mask letters not in the order x, y, z, w; their order means nothing.
    MaskOrder(String),
    /// Padding is off and hardware needs a NOP here.
    MissingNop,
    /// Text that the language ignores (Q4, Q5).
    Ignored(String),
    /// A length over 255 spills over the eight bits that are known to be looked at.
    LongBlock {
        /// Its words.
        words: usize,
    },
    /// Text where a number is needed, read as 0; in brackets also what looks like an index and is none (Q2).
    NotANumber(String),
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
        /// What it stands for.
        meaning: String,
    },
    /// A name of no letters.
    EmptyName,
    /// A procedure's or constant's name that nothing can refer to.
    UnusableName(String),
    /// An alias that hides a register of the same name.
    HidesRegister(String),
    /// A `.` with nothing behind it, read as `.x`.
    NoComponents(String),
    /// An offset that leads into another class of registers.
    OtherClass {
        /// The operand as written.
        operand: String,
        /// The register it is.
        register: String,
    },
    /// An `o` register that is read or a `v` register that is written: the other register of that number is used.
    OtherFile {
        /// The operand as written.
        operand: String,
        /// The register it is.
        register: String,
    },
    /// A sign before a destination.
    NegatedDestination(String),
    /// An index on an alias of a `v` or `r` register (Q7).
    IndexedAlias(String),
    /// `cmp` with two different `v` registers, which hardware can't read together.
    TwoInputs,
    /// An instruction inside of an array and outside of every procedure.
    InsideArray,
    /// `i4` to `i7` (Q12).
    NoSuchInteger(String),
    /// `.gsh` without a mode, taking back the mode before it.
    ModeDropped,
    /// A name with `_` declared before `.gsh` stays in the shared registers (Q11).
    HiddenBeforeGsh,
    /// A line marker without a file name.
    MarkerWithoutFile,
    /// A NUL byte, at which the file ends.
    Nul,
    /// So many warnings that no more are kept.
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
            EmptyName => f.write_str("the name is empty"),
            UnusableName(s) => write!(f, "nothing can refer to `{s}`: expected letters, digits, `_` or `$`"),
            HidesRegister(s) => write!(f, "`{s}` hides the register of that name from here on"),
            NoComponents(s) => write!(f, "`{s}` has no components and means `{s}x`"),
            OtherClass { operand, register } => write!(f, "`{operand}` leads to another class: it is {register}"),
            OtherFile { operand, register } => write!(f, "`{operand}` is {register} here"),
            NegatedDestination(s) => write!(f, "the sign of destination `{s}` is ignored"),
            IndexedAlias(s) => write!(f, "`{s}` is no c register: the index has no known effect"),
            TwoInputs => f.write_str("two different v registers in one cmp: expected at most one"),
            InsideArray => f.write_str("instruction in an array: expected `.end` of the array before it"),
            NoSuchInteger(s) => write!(f, "`{s}` does not exist: expected i0 to i3"),
            ModeDropped => f.write_str("`.gsh` without a mode takes back the mode given before"),
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
