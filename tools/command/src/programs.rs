//! Named files and folders -> the files of each program.
//!
//! A file with `.nodvle` is a library. Sources that are named with one are one program, as for
//! `asm`. Where their procedures have the same names, and in a folder, each source with an entry is
//! a program, with the libraries beside it.

use crate::load::{self, LoadError};
use crate::source::{is_library, procedures};
use picajit::container::Kind;
use std::collections::BTreeSet;
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
                Ok(files) => {
                    let in_one_folder = files.chunk_by(|a, b| a.parent() == b.parent());
                    groups.extend(in_one_folder.flat_map(|files| with_libraries(files.to_vec(), true)));
                }
                Err(error) => errors.push(error),
            }
        } else if is_joined && load::is_source(path) {
            if !std::mem::replace(&mut joined, true) {
                let paths: Vec<PathBuf> = named.iter().map(|path| path.to_path_buf()).collect();
                match has_name_twice(&paths) {
                    true => groups.extend(with_libraries(paths, false)),
                    false => groups.push(Group { paths, is_found: false }),
                }
            }
        } else {
            groups.push(Group { paths: vec![path.clone()], is_found: false });
        }
    }
    (groups, errors)
}

/// Each file with the libraries among them.
fn with_libraries(files: Vec<PathBuf>, is_found: bool) -> Vec<Group> {
    let (libraries, others): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|path| load::is_source(path) && is_library_file(path));
    if others.is_empty() {
        return libraries.into_iter().map(|path| Group { paths: vec![path], is_found }).collect();
    }
    let group = |path: PathBuf| {
        let with = if load::is_source(&path) { libraries.clone() } else { Vec::new() };
        Group { paths: std::iter::once(path).chain(with).collect(), is_found }
    };
    others.into_iter().map(group).collect()
}

/// Whether two of the sources have a procedure of one name, so that they can't be one program.
fn has_name_twice(paths: &[PathBuf]) -> bool {
    let texts: Vec<String> = paths.iter().filter_map(|path| text(path)).collect();
    let mut names = BTreeSet::new();
    texts.iter().flat_map(|text| procedures(text)).any(|name| !names.insert(name))
}

/// Whether a file is a library; a file that can't be read is none.
fn is_library_file(path: &Path) -> bool {
    text(path).is_some_and(|text| is_library(&text))
}

fn text(path: &Path) -> Option<String> {
    let bytes = load::read(path, load::MAX_FILE).ok()?;
    load::text("", &bytes).ok().map(|text| text.into_owned())
}
