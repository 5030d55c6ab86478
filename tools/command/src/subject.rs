//! Files, or the built-in shaders -> [`Subject`]s: entries to compare or to measure.

use crate::builtin::BUILTINS;
use crate::display::printable;
use crate::load::{self, LoadError};
use crate::programs::groups;
use crate::report;
use picajit::container::shbin::Dvle;
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::program::{Entry, Program};
use picajit::text;
use std::path::PathBuf;
use std::sync::Arc;

/// An entry of a shader.
pub struct Subject {
    /// The path of the file, or a built-in shader's name.
    pub shader: String,
    /// Its index in the file.
    pub index: usize,
    /// Number of entries of the file.
    pub of: usize,
    /// The words.
    pub program: Arc<Program>,
    /// Its address and stage.
    pub entry: Entry,
    /// Its tables.
    pub dvle: Dvle,
}

impl Subject {
    /// Its title: the file's name without folders, and the entry if there are several; escaped for
    /// terminals.
    pub fn title(&self) -> String {
        let name = self.shader.rsplit('/').next().unwrap_or(&self.shader);
        let name = printable(name);
        match self.of {
            1 => name,
            of => format!("{name}, entry {} of {of}", self.index),
        }
    }

    /// Reachable words and their blocks. If control flow has too many states, all words and `None`.
    pub fn size(&self) -> (usize, Option<usize>) {
        match Cfg::build(&self.program, self.entry, Limits::default()) {
            Ok(cfg) => (cfg.reachable.len(), Some(cfg.blocks.len())),
            Err(_) => (self.program.code().len(), None),
        }
    }
}

/// All entries of `files`, and the errors of unreadable ones.
fn from_files(files: &[PathBuf]) -> (Vec<Subject>, Vec<LoadError>) {
    let (mut subjects, mut errors) = (Vec::new(), Vec::new());
    let (groups, of_folders) = groups(files, |kind| kind.is_pica());
    errors.extend(of_folders);
    for group in groups {
        match load::load_all(&group.paths) {
            Ok(l) => {
                let of = l.entries.len();
                subjects.extend(l.entries.into_iter().map(|e| Subject {
                    shader: l.name.clone(),
                    index: e.index,
                    of,
                    program: l.program.clone(),
                    entry: e.entry,
                    dvle: e.dvle,
                }));
            }
            // A folder may hold fragments that are no shaders by themselves.
            Err(e) if group.is_found => {
                report::warning("a file of the folder is left out");
                e.report();
            }
            Err(e) => errors.push(e),
        }
    }
    (subjects, errors)
}

/// The built-in shaders.
fn builtins() -> Vec<Subject> {
    let subject = |b: &crate::builtin::Builtin| {
        let shbin = text::assemble(b.source).expect("a test assembles each").shbin;
        let program = Arc::new(shbin.program().expect("they are shorter than any limit"));
        let dvle = shbin.dvles[0].clone();
        Subject { shader: b.name.into(), index: 0, of: 1, program, entry: dvle.entry(), dvle }
    };
    BUILTINS.iter().map(subject).collect()
}

/// Entries of `files`, or the built-in shaders if there are none.
pub fn of(files: &[PathBuf]) -> (Vec<Subject>, Vec<LoadError>) {
    if files.is_empty() { (builtins(), Vec::new()) } else { from_files(files) }
}
