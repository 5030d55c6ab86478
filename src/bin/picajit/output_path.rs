//! Where a result is to go -> an error if it would replace something that the command reads, or look like it.
//!
//! Two paths are the same file if the system resolves them to the same place; a file that does not exist yet is none that
//! is read. It must not know which verb asks, and it opens nothing.

use crate::display::path_name;
use crate::load;
use std::fmt;
use std::fs;
use std::path::Path;

/// A place that no result goes to.
#[derive(Debug)]
pub enum TargetError {
    /// It is one of the files that are read.
    IsInput {
        /// As given.
        target: String,
        /// The same file, as given.
        input: String,
    },
    /// Assembly by its name, which a SHBIN is not.
    NamedLikeSource {
        /// As given.
        target: String,
    },
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::IsInput { target, input } if target == input => {
                write!(f, "{target}: is also read and would be overwritten; name another file for the result")
            }
            TargetError::IsInput { target, input } => {
                write!(f, "{target}: is the same file as {input} and would be overwritten; name another one")
            }
            TargetError::NamedLikeSource { target } => {
                write!(
                    f,
                    "{target}: is a name of assembly text and the result is a SHBIN; choose another ending (.shbin)"
                )
            }
        }
    }
}

impl std::error::Error for TargetError {}

/// Refuses a target that is one of `inputs`. Devices may be both.
pub fn not_an_input<'a>(target: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), TargetError> {
    if !target.is_file() {
        return Ok(());
    }
    match inputs.into_iter().find(|input| same_file(target, input)) {
        Some(input) => Err(TargetError::IsInput { target: path_name(target), input: path_name(input) }),
        None => Ok(()),
    }
}

/// Refuses a target whose name says that it is assembly.
pub fn not_source(target: &Path) -> Result<(), TargetError> {
    match load::is_source(target) {
        true => Err(TargetError::NamedLikeSource { target: path_name(target) }),
        false => Ok(()),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    let place = |path| fs::canonicalize(path).ok();
    place(a).is_some_and(|a| place(b) == Some(a)) || linked(a, b)
}

/// Whether both are names of one file (hard links), which have no path in common.
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
