//! The suite of text files: every file of `isa/ operands/ flow/ numeric/ geometry/ regress/
//! hardware/` on every engine, plus picasso's language, the rejected inputs, the snapshots of
//! printed stages, the direction of dependencies, the tables of docs/isa.md, and the corpus.
//!
//! One named test per file and engine, so that `cargo test --test jit-tests -- flow/loop` selects
//! by name. Engines come from [`engines::engines`] alone: no test is for one engine only.
//! `PICAJIT_PART=K/N` keeps every N-th test from the K-th on, so that the parts 0/N to N-1/N have
//! each test once (`.ci/part`).

#[cfg(feature = "jit")]
mod batch_shapes;
mod corpus;
mod directive;
mod engines;
mod extent;
mod filetest;
#[cfg(feature = "gpu-code")]
mod gpu_filetest;
mod hardware;
mod hosted;
mod import_rings;
mod isa_tables;
mod items;
mod layers;
mod lint;
mod lint_mutants;
mod mutant_list;
mod outcome;
mod picasso;
mod prerequisites;
mod reject;
mod selftest;
mod snapshots;
mod special_values;
#[cfg(feature = "gpu-code")]
mod verdict;
#[cfg(feature = "gpu-tests")]
#[allow(dead_code)] // other tests need the rest
mod vulkan;

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};

/// Folders whose files run on every engine.
const RUN_FOLDERS: [&str; 7] = ["isa", "operands", "flow", "numeric", "geometry", "hardware", "regress"];

fn main() {
    let arguments = Arguments::from_args();
    if !extent::full() && !arguments.list {
        extent::announce("short form: variants of engines run in one number format; PICAJIT_FULL=1 runs them in all");
    }
    let mut trials = layers::trials();
    trials.extend(import_rings::trials());
    trials.extend(filetests());
    if cfg!(miri) {
        // Only filetests; the rest takes Miri minutes.
        libtest_mimic::run(&arguments, part(trials, arguments.list)).exit();
    }
    #[cfg(feature = "gpu-code")]
    for path in RUN_FOLDERS.iter().flat_map(|folder| files(folder)) {
        trials.push(gpu_filetest::trial(&name(&path), &path));
    }
    #[cfg(feature = "gpu-tests")]
    trials.push(gpu_filetest::trial_on_drivers(
        RUN_FOLDERS.iter().flat_map(|folder| files(folder)).map(|path| (name(&path), path)).collect(),
    ));
    trials.extend(files("reject").iter().map(|path| reject::trial(&name(path), path)));
    trials.extend(files("picasso").iter().flat_map(|path| picasso::trials(&name(path), path)));
    trials.extend(files("snapshots").iter().map(|path| snapshots::trial(&name(path), path)));
    trials.extend(corpus::trials());
    trials.extend(lint::trials(&files("lint")));
    trials.extend(lint_mutants::trials());
    trials.extend(selftest::trials());
    trials.extend(hardware::trials());
    trials.extend(isa_tables::trials());
    trials.push(Trial::test("mutants/list", mutant_list_fits));
    #[cfg(feature = "jit")]
    trials.push(batch_shapes::trial());
    trials.push(Trial::test("harness/every-folder-has-files", || {
        let needed = ["isa", "operands", "flow", "numeric", "geometry", "hardware", "reject", "picasso", "snapshots"];
        match needed.iter().find(|folder| files(folder).is_empty()) {
            Some(folder) => Err(format!("no test files in {folder}/").into()),
            None => Ok(()),
        }
    }));
    libtest_mimic::run(&arguments, part(trials, arguments.list)).exit();
}

/// The trials of the part that `PICAJIT_PART` selects, and a line that says which.
fn part(trials: Vec<Trial>, is_list: bool) -> Vec<Trial> {
    let Some((k, n)) = extent::part("PICAJIT_PART") else { return trials };
    let all = trials.len();
    let kept: Vec<Trial> = trials.into_iter().skip(k).step_by(n).collect();
    if !is_list {
        extent::announce(&format!("part {k}/{n}: {} of {all} tests", kept.len()));
    }
    kept
}

/// The trials of every file that runs on every engine.
fn filetests() -> Vec<Trial> {
    let paths = RUN_FOLDERS.iter().flat_map(|folder| files(folder));
    paths.flat_map(|path| filetest::trials(&name(&path), &path)).collect()
}

/// Whether every semantic mutant still finds its place in the sources.
fn mutant_list_fits() -> Result<(), Failed> {
    let changes = mutant_list::read(&root())?;
    let sources = root().with_file_name("");
    let misfits = changes.iter().filter_map(|change| {
        let source = std::fs::read_to_string(sources.join(&change.file));
        source.map_err(|e| format!("{}: {e}", change.file)).and_then(|source| change.find(&source)).err()
    });
    let misfits: Vec<String> = misfits.collect();
    if misfits.is_empty() { Ok(()) } else { Err(misfits.join("\n").into()) }
}

/// The folder of this file.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jit-tests")
}

/// The test files of a folder, sorted; empty if the folder does not exist.
fn files(folder: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root().join(folder)) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "test" || e == "hex"))
        .collect();
    found.sort();
    found
}

/// `flow/loop-count` for `.../jit-tests/flow/loop-count.test`.
fn name(path: &Path) -> String {
    let relative = path.strip_prefix(root()).unwrap_or(path);
    relative.with_extension("").to_string_lossy().replace('\\', "/")
}
