//! How each program runs in batches: in groups, with predicated branches, interleaved; or in order,
//! with the reason. A change of the table `batch_shapes.txt` is on purpose, or a loss that no result
//! shows.
//!
//! It has the filetests and the built-in shaders. `BLESS=1` rewrites it.

use crate::{RUN_FOLDERS, files, filetest, name, root};
use libtest_mimic::{Failed, Trial};
use picajit::internals::jit::{BatchShape, Jit, Variant};
use picajit::internals::kernel::Config;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn trial() -> Trial {
    Trial::test("batches/shapes", check)
}

fn check() -> Result<(), Failed> {
    let Ok(jit) = Jit::new(Variant::Batch) else { return Ok(()) };
    let mut paths: Vec<PathBuf> = RUN_FOLDERS.iter().flat_map(|folder| files(folder)).collect();
    let builtin = root().with_file_name("tools/command/src/shaders");
    let mut shaders: Vec<PathBuf> =
        std::fs::read_dir(&builtin).map_err(|e| e.to_string())?.flatten().map(|entry| entry.path()).collect();
    shaders.sort();
    paths.extend(shaders);
    let lines: Vec<String> = paths.iter().map(|path| line(&jit, path)).collect::<Result<_, _>>()?;
    let (table, path) = (lines.concat(), root().join("batch_shapes.txt"));
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&path, table).map_err(|e| e.to_string().into());
    }
    let known = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let change = |line: &&String| !known.lines().any(|old| old == line.trim_end());
    let mut changes: String = lines.iter().filter(change).map(|line| format!("now:    {line}")).collect();
    for old in known.lines().filter(|old| !lines.iter().any(|line| line.trim_end() == *old)) {
        changes += &format!("before: {old}\n");
    }
    if changes.is_empty() { Ok(()) } else { Err(format!("{changes}help: BLESS=1 accepts the change").into()) }
}

fn line(jit: &Arc<Jit>, path: &Path) -> Result<String, String> {
    let source = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let loaded = filetest::load(&source, None).map_err(|e| format!("{}: {e}", path.display()))?;
    let shape = match jit.explain(&loaded.program, loaded.entry, &Config::default()) {
        Err(reason) => format!("in order: {reason}"),
        Ok(stages) => {
            let BatchShape { interleaved, predicated, bailouts, kept } = stages.batch.unwrap_or_default();
            let mut text = String::from(if interleaved { "interleaved groups" } else { "groups" });
            let counts = [(predicated, "predicated"), (bailouts, "divergent without predication"), (kept, "kept sets")];
            for (count, what) in counts {
                if count != 0 {
                    text += &format!(", {count} {what}");
                }
            }
            text
        }
    };
    let name = name(path);
    let name = name.rsplit_once("/tools/command/src/").map_or(&*name, |(_, name)| name);
    Ok(format!("{name}: {shape}\n"))
}
