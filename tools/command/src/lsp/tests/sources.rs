//! Sources: the built-in shaders, those of the text suite, of an example, and third-party shaders as text.

use crate::builtin::BUILTINS;
use crate::prerequisites;
use picajit::container::shbin::Shbin;
use picajit::text::{assemble, disassemble};
use std::path::{Path, PathBuf};

/// Sources that assemble, with their names. Those of third-party files come last; their names end in `.shbin`.
pub fn sources() -> Vec<(String, String)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut all: Vec<_> = BUILTINS.iter().map(|b| (b.name.to_string(), b.source.to_string())).collect();
    let folders = ["flow", "isa", "geometry", "operands", "numeric", "regress", "hardware"];
    for folder in folders.map(|name| root.join("jit-tests").join(name)).into_iter().chain([root.join("examples/scene")])
    {
        for path in files(&folder, &["test", "pica"]) {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            all.push((path.display().to_string(), text));
        }
    }
    for path in files(&root.join("jit-tests/picasso"), &["test"]) {
        let text = std::fs::read_to_string(&path).expect("a source is text");
        for line in text.lines() {
            let Some((kind, source)) = line.split_once(": ") else { continue };
            let source = source.replace(" / ", "\n");
            match kind.split(' ').next() {
                Some("body") => all.push((kind.into(), format!(".proc main\n{source}\n.end\n"))),
                Some("file") => all.push((kind.into(), source)),
                _ => {}
            }
        }
    }
    all.retain(|(_, text)| assemble(text).is_ok());
    assert!(all.len() > 250, "only {} sources", all.len());
    for path in &prerequisites::third_party_files("shbin", "shbin") {
        let bytes = std::fs::read(path).expect("a third-party file is readable");
        if let Ok(shbin) = Shbin::parse(&bytes) {
            all.push((path.display().to_string(), disassemble(&shbin)));
        }
    }
    all
}

fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder's entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)));
    paths.sort();
    paths
}
