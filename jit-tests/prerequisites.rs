//! What a test needs and a machine may lack: third-party files and tools, of which an absent one is one visible line of each
//! test program; and a folder for files.

#![allow(dead_code)] // no test program uses all of it

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Says once in this program that tests leave something out, and what would make them run. The test runner does not
/// capture the line.
pub fn skipped(what: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_string()) {
        // A closed standard error is no reason for a test to fail.
        let _ = writeln!(std::io::stderr(), "skipped: {what}");
    }
}

/// The third-party files `*.ending` of `kind`, a folder such as `shbin`, sorted. `PICAJIT_CORPUS` names the folder of
/// these folders; docs/third-party-files.md lists the files. Empty without them.
///
/// # Panics
/// If `PICAJIT_CORPUS` names no folder: tests that are meant to read the files must not pass without them.
pub fn third_party_files(kind: &str, ending: &str) -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("PICAJIT_CORPUS").filter(|root| !root.is_empty()) else {
        skipped("tests of third-party files: no PICAJIT_CORPUS (docs/third-party-files.md lists the files)");
        return Vec::new();
    };
    // Tests start commands in folders of their own.
    let root = std::path::absolute(Path::new(&root)).unwrap_or_else(|_| root.into());
    assert!(root.is_dir(), "PICAJIT_CORPUS: no folder {}", root.display());
    let Ok(entries) = std::fs::read_dir(root.join(kind)) else {
        skipped(&format!("tests of {kind} files: PICAJIT_CORPUS has no folder {kind}"));
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder's entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == ending));
    files.sort();
    files
}

/// The inputs with known answers in the folder `cases` beside the third-party files, those with one of `endings`, sorted.
/// Empty without them.
pub fn cases(endings: &[&str]) -> Vec<PathBuf> {
    let root = std::env::var_os("PICAJIT_CORPUS").filter(|root| !root.is_empty());
    let folder = root.map(|root| std::path::absolute(Path::new(&root)).unwrap_or_else(|_| root.into()));
    let folder = folder.and_then(|root| Some(root.parent()?.join("cases"))).filter(|folder| folder.is_dir());
    let Some(folder) = folder else {
        skipped("tests of cases: no folder `cases` beside PICAJIT_CORPUS");
        return Vec::new();
    };
    let inside = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = inside(folder).filter(|path| path.is_dir()).flat_map(inside);
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending))).collect();
    files.sort();
    files
}

/// The folder for files of tests. It is beside the test program, where files can be written and code can be mapped,
/// whatever `TMPDIR` names: a folder that is missing, full, or mounted without execution.
pub fn temporary_folder() -> PathBuf {
    let beside = std::env::current_exe().map(|program| program.with_file_name("files-of-tests"));
    beside.ok().filter(|folder| std::fs::create_dir_all(folder).is_ok()).unwrap_or_else(std::env::temp_dir)
}
