//! Named files and folders -> the files of each program.
//!
//! A file with `.nodvle` is a library. Sources that are named with one are one program, as for
//! `asm`. In a folder each source with an entry is a program, with the libraries beside it.

use crate::load::{self, LoadError};
use crate::source::is_library;
use picajit::container::Kind;
use std::path::{Path, PathBuf};

/// Files that are one program.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its files; several are sources.
    pub paths: Vec<PathBuf>,
    /// They are from a folder, not named.
    pub is_found: bool,
}

/// The programs of `paths`, files and folders, and the errors of folders. `wanted` are the
/// containers to take from folders.
pub fn groups(paths: &[PathBuf], wanted: impl Fn(Kind) -> bool) -> (Vec<Group>, Vec<LoadError>) {
    let (mut groups, mut errors) = (Vec::new(), Vec::new());
    let named: Vec<&PathBuf> = paths.iter().filter(|path| !path.is_dir() && load::is_source(path)).collect();
    let is_joined = named.len() > 1 && named.iter().any(|path| is_library_file(path));
    let mut joined = false;
    for path in paths {
        if path.is_dir() {
            match load::inside(path, &wanted) {
                Ok(files) => groups.extend(in_folder(files)),
                Err(error) => errors.push(error),
            }
        } else if is_joined && load::is_source(path) {
            if !std::mem::replace(&mut joined, true) {
                groups.push(Group { paths: named.iter().map(|path| path.to_path_buf()).collect(), is_found: false });
            }
        } else {
            groups.push(Group { paths: vec![path.clone()], is_found: false });
        }
    }
    (groups, errors)
}

fn in_folder(files: Vec<PathBuf>) -> Vec<Group> {
    let (libraries, others): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|path| load::is_source(path) && is_library_file(path));
    if others.is_empty() {
        return libraries.into_iter().map(|path| Group { paths: vec![path], is_found: true }).collect();
    }
    let group = |path: PathBuf| {
        let with = if load::is_source(&path) { libraries.clone() } else { Vec::new() };
        Group { paths: std::iter::once(path).chain(with).collect(), is_found: true }
    };
    others.into_iter().map(group).collect()
}

/// Whether a file is a library; a file that can't be read is none.
fn is_library_file(path: &Path) -> bool {
    load::read(path, load::MAX_FILE)
        .ok()
        .is_some_and(|bytes| load::text("", &bytes).is_ok_and(|text| is_library(&text)))
}
