//! A mutant: one small change to the sources.

use std::ops::Range;

/// A change of one source file.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Its name in results: stable while the function around it stays.
    pub key: String,
    /// Path from the project's root.
    pub file: String,
    /// Line of the change.
    pub line: usize,
    /// The bytes that it replaces.
    pub range: Range<usize>,
    pub form: Form,
    /// The replacement.
    pub new: String,
    /// Whether it comes from the committed list.
    pub semantic: bool,
    /// Why no test can tell it, if none can.
    pub equivalent: Option<String>,
    /// Whether the reason is that of its whole function, of which a test may tell other mutants.
    pub by_function: bool,
}

/// How a replacement and its original share the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An expression with a value.
    Expression,
    /// Statements; also those inserted at an empty range.
    Statements,
}
