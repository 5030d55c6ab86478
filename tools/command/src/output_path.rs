//! The path of a result -> an error if it names an input, or is named like one.
//!
//! Two paths are the same file if the system resolves them to one. A file that does not exist yet
//! is not an input. The checks open no file.

use crate::display::path_name;
use crate::embedded;
use crate::load;
use crate::pipe;
use crate::report;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// A path that can't take a result.
#[derive(Debug)]
pub enum TargetError {
    /// It is an input.
    IsInput {
        /// As given.
        target: String,
        /// The same file, as given.
        input: String,
    },
    /// A SHBIN with a name of assembly.
    NamedLikeSource {
        /// As given.
        target: String,
    },
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::IsInput { target, input } if target == input => {
                write!(f, "{target}: is an input and would be overwritten\nhelp: name another file for the result")
            }
            TargetError::IsInput { target, input } => {
                write!(f, "{target}: is the same file as {input} and would be overwritten\nhelp: name another file")
            }
            TargetError::NamedLikeSource { target } => {
                write!(f, "{target}: is a name of assembly text and the result is a SHBIN\nhelp: use the ending .shbin")
            }
        }
    }
}

impl std::error::Error for TargetError {}

/// An error in writing a file.
#[derive(Debug)]
pub struct WriteError {
    /// The path.
    pub name: String,
    /// The system's error.
    pub error: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: can't be written: {}", self.name, self.error)
    }
}

impl std::error::Error for WriteError {}

/// Writes a result, which must not replace an input.
pub fn write(target: &Path, input: &Path, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    not_an_input(target, [input])?;
    put(target, bytes)
}

/// Writes a result to a file or to standard output.
pub fn put(target: &Path, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    if pipe::is_pipe(target) {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        return Ok(out.flush()?);
    }
    let error = |error| WriteError { name: path_name(target), error };
    Ok(fs::write(target, bytes).map_err(error)?)
}

/// Prints a line about a result; to standard error if standard output has the result.
pub fn say(target: &Path, message: impl fmt::Display, out: &mut dyn Write) -> io::Result<()> {
    match pipe::is_pipe(target) {
        true => report::plain(message),
        false => writeln!(out, "{message}")?,
    }
    Ok(())
}

/// Fails if the target is one of `inputs`. Devices may be both.
pub fn not_an_input<'a>(target: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), TargetError> {
    if pipe::is_pipe(target) || !target.is_file() {
        return Ok(());
    }
    match inputs.into_iter().find(|input| same_file(target, input)) {
        Some(input) => Err(TargetError::IsInput { target: path_name(target), input: path_name(input) }),
        None => Ok(()),
    }
}

/// Fails if the target has a name of assembly.
pub fn not_source(target: &Path) -> Result<(), TargetError> {
    match load::is_source(target) && !pipe::is_pipe(target) {
        true => Err(TargetError::NamedLikeSource { target: path_name(target) }),
        false => Ok(()),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    let place = embedded::place(b);
    let b = place.as_ref().map_or(b, |(file, _)| file);
    let place = |path| fs::canonicalize(path).ok();
    place(a).is_some_and(|a| place(b) == Some(a)) || linked(a, b)
}

/// Whether both are hard links to one file, which resolved paths don't show.
#[cfg(unix)]
fn linked(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

#[cfg(not(unix))]
fn linked(_: &Path, _: &Path) -> bool {
    false
}
