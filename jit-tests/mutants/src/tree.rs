//! The project -> a copy with all mutants in it, and its test binaries.

use crate::mutant::Mutant;
use crate::schemata::{Rendered, render};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The mutated copy.
pub struct Tree {
    pub root: PathBuf,
    pub project: PathBuf,
    pub out: PathBuf,
}

/// All but the command, whose build takes time and whose tests do not run.
const FEATURES: &str = "--features=jit,targets,capi";

/// A mutant may overflow; it then panics when it runs.
const ALLOW: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic)]";

/// Test binaries by name: `jit-tests`, `picajit` (the unit tests), `sweep`, `draws`, `gpu-code`, `capi`.
pub type Binaries = HashMap<String, PathBuf>;

fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("{command:?}: {}", output.status)) }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    // Unchanged files keep their time, so that cargo builds nothing for them.
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    let folder = path.parent().ok_or("a path without a folder")?;
    fs::create_dir_all(folder).and_then(|()| fs::write(path, text)).map_err(|e| format!("{}: {e}", path.display()))
}

impl Tree {
    /// Copies the files that git knows but those with mutants, and adds the switch and the runner.
    pub fn new(project: &Path, out: &Path, mutated: &BTreeSet<&str>) -> Result<Tree, String> {
        let root = out.join("tree");
        let mut list = Command::new("git");
        list.current_dir(project).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let files = run(&mut list)?;
        let files: Vec<&str> =
            files.split(|b| *b == 0).filter_map(|f| std::str::from_utf8(f).ok()).filter(|f| !f.is_empty()).collect();
        let own = ["src/mutant.rs", "src/lib.rs", "jit-tests/hook.rs", "jit-tests/main.rs", "jit-tests/sweep.rs"];
        let known: BTreeSet<PathBuf> = files.iter().chain(&own).map(|f| root.join(f)).collect();
        for folder in ["src", "tools", "jit-tests"] {
            remove_others(&root.join(folder), &known);
        }
        for file in files.into_iter().filter(|file| !own.contains(file) && !mutated.contains(file)) {
            let Ok(bytes) = fs::read(project.join(file)) else { continue };
            let target = root.join(file);
            if fs::read(&target).is_ok_and(|old| old == bytes) {
                continue;
            }
            fs::create_dir_all(target.parent().ok_or("a file without a folder")?).map_err(|e| e.to_string())?;
            fs::write(&target, bytes).map_err(|e| e.to_string())?;
        }
        let tree = Tree { root, project: project.to_path_buf(), out: out.to_path_buf() };
        write(&tree.root.join("src/mutant.rs"), include_str!("../inject/mutant.rs"))?;
        write(&tree.root.join("jit-tests/hook.rs"), include_str!("../inject/hook.rs"))?;
        // The switch has one path in the library and in other packages.
        let own_name = "extern crate self as picajit;\n";
        tree.patch("src/lib.rs", |text| {
            let text = text.replacen(&format!("#[cfg(test)]\n{own_name}"), own_name, 1);
            format!("{ALLOW}\n{text}\n#[doc(hidden)]\npub mod mutant;\n")
        })?;
        let hook = "mod hook;\nfn main() {\n    if std::env::var_os(\"MUTANT_HOOK\").is_some() {\n        \
                    return hook::main(filetests());\n    }\n";
        tree.patch("jit-tests/main.rs", |text| text.replacen("fn main() {\n", hook, 1))?;
        // A difference is enough; making its program smaller takes minutes.
        let found = "        println!(\"{divergence:?}\");\n";
        let exit =
            "        if std::env::var_os(\"MUTANT\").is_some() {\n            std::process::exit(1);\n        }\n";
        tree.patch("jit-tests/sweep.rs", |text| text.replacen(found, &format!("{found}{exit}"), 1))?;
        Ok(tree)
    }

    fn patch(&self, file: &str, change: impl Fn(&str) -> String) -> Result<(), String> {
        let text = fs::read_to_string(self.project.join(file)).map_err(|e| format!("{file}: {e}"))?;
        write(&self.root.join(file), &change(&text))
    }

    /// Writes the mutants into the copy and builds it. Mutants that do not compile are removed from
    /// `alive`; a semantic one is an error.
    pub fn build(&self, all: &[Mutant], alive: &mut BTreeSet<usize>) -> Result<Binaries, String> {
        loop {
            let rendered = self.write_mutants(all, alive)?;
            // With `--profile=test`, sources that only tests compile count too.
            let check = ["check", "--lib", "--profile=test", "--message-format=json"];
            let (ok, messages) = self.cargo(&check)?;
            if ok {
                break;
            }
            let dead = blame(&messages, &rendered);
            if dead.is_empty() {
                return Err(errors(&messages));
            }
            alive.retain(|i| !dead.contains(i));
        }
        let broken = |i: &usize| all[*i].semantic && !alive.contains(i);
        let broken: Vec<&str> = (0..all.len()).filter(broken).map(|i| &*all[i].key).collect();
        if !broken.is_empty() {
            return Err(format!("semantic mutants that do not compile:\n{}", broken.join("\n")));
        }
        let mut build = vec!["test", "--no-run", "--lib", "--message-format=json"];
        build.extend(["--test=jit-tests", "--test=sweep", "--test=draws", "--test=gpu-code", "--test=capi"]);
        let (ok, messages) = self.cargo(&build)?;
        if !ok {
            return Err(errors(&messages));
        }
        let executable = |m: &Value| {
            let path = m["executable"].as_str()?;
            Some((m["target"]["name"].as_str()?.to_string(), PathBuf::from(path)))
        };
        Ok(messages.iter().filter_map(executable).collect())
    }

    fn write_mutants(&self, all: &[Mutant], alive: &BTreeSet<usize>) -> Result<BTreeMap<String, Rendered>, String> {
        let mut files: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, mutant) in all.iter().enumerate() {
            let list = files.entry(&mutant.file).or_default();
            if alive.contains(&i) {
                list.push(i);
            }
        }
        let mut rendered = BTreeMap::new();
        for (file, indices) in files {
            let source = fs::read_to_string(self.project.join(file)).map_err(|e| format!("{file}: {e}"))?;
            let done = render(&source, all, &indices);
            write(&self.root.join(file), &done.text)?;
            rendered.insert(file.to_string(), done);
        }
        Ok(rendered)
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(bool, Vec<Value>), String> {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root).args(arguments).args(["--locked", "--no-default-features", FEATURES]);
        if std::env::var_os("CARGO_TARGET_DIR").is_none() {
            command.env("CARGO_TARGET_DIR", self.out.join("build"));
        }
        let output = command.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.success(), lines.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()))
    }
}

fn errors(messages: &[Value]) -> String {
    let texts = messages.iter().filter(|m| m["message"]["level"] == "error");
    texts.filter_map(|m| m["message"]["rendered"].as_str()).collect()
}

fn remove_others(folder: &Path, known: &BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            remove_others(&path, known);
        } else if !known.contains(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The mutants that these errors concern.
fn blame(messages: &[Value], rendered: &BTreeMap<String, Rendered>) -> BTreeSet<usize> {
    let mut dead = BTreeSet::new();
    for message in messages.iter().filter(|m| m["message"]["level"] == "error") {
        let mut spans: Vec<&Value> = message["message"]["spans"].as_array().into_iter().flatten().collect();
        spans.sort_by_key(|span| !span["is_primary"].as_bool().unwrap_or(false));
        // The changed text itself, else the whole place: of the innermost mutant.
        let at = |span: &Value, whole: bool| {
            let file = rendered.get(span["file_name"].as_str()?)?;
            let start = span["byte_start"].as_u64()? as usize;
            let end = span["byte_end"].as_u64()? as usize;
            let ranges = file.places.iter().map(|(i, new, place)| (*i, if whole { place } else { new }));
            let around = ranges.filter(|(_, range)| range.start <= start && end <= range.end);
            around.min_by_key(|(_, range)| range.len()).map(|(i, _)| i)
        };
        let changed = spans.iter().find_map(|span| at(span, false));
        let found = changed.or_else(|| spans.iter().find_map(|span| at(span, true)));
        dead.extend(found);
        if found.is_some() {
            continue;
        }
        // All inside; or, without an early exit between these places, a value is moved before its
        // use.
        let ends = |key: &str| spans.iter().filter_map(|s| Some(s[key].as_u64()? as usize)).collect::<Vec<_>>();
        let (first, last) = (ends("byte_start").into_iter().min(), ends("byte_end").into_iter().max());
        let file = spans.first().and_then(|span| rendered.get(span["file_name"].as_str()?));
        if let (Some(first), Some(last), Some(file)) = (first, last, file) {
            let between = file.places.iter().filter(|(_, _, place)| first <= place.start && place.end <= last);
            dead.extend(between.map(|(i, ..)| *i));
        }
    }
    dead
}
