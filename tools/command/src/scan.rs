//! A file of any kind, such as a program or an archive -> the shaders inside of it, as `FILE@OFFSET`.
//!
//! Their first bytes and their readers identify them. Bytes that only begin like a shader are left
//! out.

use crate::Status;
use crate::display::path_name;
use crate::embedded;
use crate::load::{self, LoadError};
use crate::pipe;
use picajit::container::Kind;
use std::io;
use std::path::{Path, PathBuf};

/// Largest file that is scanned.
const MOST: u64 = 1 << 30;

/// The shaders inside of a file of any kind, such as a `.3dsx`, `.elf` or `.a`, as `FILE@OFFSET`.
fn inside(path: &Path, wanted: impl Fn(Kind) -> bool) -> Result<Vec<PathBuf>, LoadError> {
    if pipe::is_pipe(path) {
        // What is found is opened again, by the name of the file.
        let error = io::Error::other("--scan takes files with names");
        return Err(LoadError::Io { name: path_name(path), error });
    }
    let bytes = load::read(path, MOST)?;
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= 4) {
        let kind = Kind::sniff(rest);
        match kind.and_then(|kind| embedded::size(kind, rest)) {
            Some(size) => {
                if kind.is_some_and(&wanted) {
                    found.push(PathBuf::from(format!("{}@{at:#x}", path.display())));
                }
                at += size;
            }
            None => at += 1,
        }
    }
    Ok(found)
}

/// The shaders inside of each file, or the file and why there are none.
pub fn all(paths: &[PathBuf], wanted: impl Fn(Kind) -> bool) -> Vec<Result<Vec<PathBuf>, (PathBuf, LoadError)>> {
    let mut all = Vec::new();
    for path in paths {
        match inside(path, &wanted) {
            Ok(found) if found.is_empty() => {
                all.push(Err((path.clone(), LoadError::NothingInside { name: path_name(path) })));
            }
            Ok(found) => all.extend(found.into_iter().map(|path| Ok(vec![path]))),
            Err(error) => all.push(Err((path.clone(), error))),
        }
    }
    all
}

/// The exit code of an error: a file without shaders is a result.
pub fn status(error: &LoadError) -> Status {
    if matches!(error, LoadError::NothingInside { .. }) { Status::Different } else { Status::Unusable }
}
