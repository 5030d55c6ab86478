//! Files of `src/` that import each other in a ring, directly or through others.
//!
//! An import of an ancestor does not count: a module owns its children, and methods of one type may
//! be split over the files of its folder (docs/architecture.md names them). Comments and test
//! modules don't count either.

use crate::layers::{collect, without_comments_and_tests};
use libtest_mimic::{Failed, Trial};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The trials of this file.
pub fn trials() -> Vec<Trial> {
    vec![Trial::test("layers/no-ring-of-files", check_sources), Trial::test("layers/a-ring-is-found", check_the_check)]
}

/// A module's path from the crate's root.
type Module = Vec<String>;
/// Sources by module.
type Sources = BTreeMap<Module, String>;

fn check_sources() -> Result<(), Failed> {
    for root in ["src", "tools/command/src"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        let mut files = Vec::new();
        collect(&root, &mut files)?;
        let mut sources = Sources::new();
        for file in &files {
            let relative = file.strip_prefix(&root).expect("found below the root");
            let module = module(relative);
            let ignored = ["bin", "tests", "lib", "main"];
            if module.iter().any(|part| ignored.contains(&part.as_str())) {
                continue;
            }
            let source = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            sources.insert(module, without_comments_and_tests(&source));
        }
        if sources.len() < 10 {
            return Err("hardly any source file was found".into());
        }
        if let Some(ring) = ring(&imports(&sources)) {
            return Err(format!("{}: {}", root.display(), ring.join(" -> ")).into());
        }
    }
    Ok(())
}

fn module(file: &Path) -> Module {
    let mut parts: Module = file.iter().map(|p| p.to_string_lossy().trim_end_matches(".rs").to_string()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// For each module the modules that it imports, ancestors apart.
fn imports(sources: &Sources) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for (module, source) in sources {
        let named = paths(source).into_iter().filter_map(|path| absolute(&path, module, sources));
        let targets = named.filter_map(|path| (1..=path.len()).rev().find_map(|n| sources.get_key_value(&path[..n])));
        let others = targets.map(|(target, _)| target).filter(|target| !module.starts_with(target));
        all.insert(module.join("::"), others.map(|target| target.join("::")).collect());
    }
    all
}

/// A path as it stands in `module` -> from the crate's root; `None` if it leads out of the crate.
fn absolute(path: &[String], module: &Module, sources: &Sources) -> Option<Module> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    if path[0] == "crate" {
        return Some(path[1..].to_vec());
    }
    let base = match supers {
        0 => module.clone(),
        n => module[..module.len().checked_sub(n)?].to_vec(),
    };
    let full: Module = base.into_iter().chain(path[supers..].iter().filter(|p| *p != "self").cloned()).collect();
    // Without a prefix only a child module's name is a path of this crate.
    (supers > 0 || path[0] == "self" || sources.contains_key(&full[..module.len() + 1])).then_some(full)
}

/// Every path of two or more segments, `{...}` groups expanded.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = code;
    while let Some(start) = rest.find(is_word) {
        let preceded = rest[..start].ends_with("::") || rest[..start].ends_with('$');
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if !preceded && rest[end..].starts_with("::") {
            expand(rest, &mut Vec::new(), &mut found);
        }
        rest = &rest[end..];
    }
    found
}

/// Appends the paths that begin at the start of `text`, each after `prefix`. Returns what follows
/// them.
fn expand<'a>(text: &'a str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            let before = rest.len();
            rest = expand(rest, &mut prefix.clone(), found).trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
            if rest.len() == before {
                return rest; // Not a group of paths.
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    if end == 0 {
        return text.strip_prefix('*').unwrap_or(text);
    }
    prefix.push(text[..end].to_string());
    match text[end..].strip_prefix("::") {
        Some(rest) => {
            found.push(prefix.clone());
            expand(rest, prefix, found)
        }
        None => {
            found.push(prefix.clone());
            // `name as other`
            let rest = text[end..].trim_start();
            rest.find([',', '}', ';', ')']).filter(|_| rest.starts_with("as ")).map_or(&text[end..], |at| &rest[at..])
        }
    }
}

/// A ring, first and last module the same.
fn ring(imports: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    imports.keys().find_map(|start| visit(start, imports, &mut Vec::new(), &mut done))
}

fn visit(
    module: &str,
    imports: &BTreeMap<String, BTreeSet<String>>,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = path.iter().position(|m| m == module) {
        return Some(path[at..].iter().cloned().chain([module.to_string()]).collect());
    }
    if !done.insert(module.to_string()) {
        return None;
    }
    path.push(module.to_string());
    let found = imports.get(module).and_then(|to| to.iter().find_map(|to| visit(to, imports, path, done)));
    path.pop();
    found
}

fn check_the_check() -> Result<(), Failed> {
    let of = |files: &[(&str, &str)]| {
        let source = |(path, code): &(&str, &str)| (module(Path::new(path)), without_comments_and_tests(code));
        ring(&imports(&files.iter().map(source).collect()))
    };
    let rings: [&[(&str, &str)]; 4] = [
        &[("a.rs", "use crate::b::X;"), ("b.rs", "fn f() { super::a::g() }")],
        &[("a.rs", "use crate::{c::{Y, Z as W}, b};"), ("b.rs", ""), ("c.rs", "use super::a::{self, T};")],
        &[("a/mod.rs", "mod x;\nmod y;"), ("a/x.rs", "use super::y::Y;"), ("a/y.rs", "use crate::a::x::X;")],
        &[("a/mod.rs", "mod x;\nuse x::X;"), ("a/x.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")],
    ];
    for files in rings {
        if of(files).is_none() {
            return Err(format!("the ring of {files:?} is not found").into());
        }
    }
    let straight: [&[(&str, &str)]; 3] = [
        &[("a.rs", "use crate::b::X; // crate::c"), ("b.rs", "/// [`crate::a`]\nfn f() {}")],
        &[("a/mod.rs", "mod x;\nuse x::X;"), ("a/x.rs", "use super::A;\nuse crate::a::B;")],
        &[("a.rs", "use crate::b::X;"), ("b.rs", "#[cfg(test)]\nmod tests {\n use crate::a::A;\n}")],
    ];
    for files in straight {
        if let Some(ring) = of(files) {
            return Err(format!("found without reason: {ring:?}").into());
        }
    }
    Ok(())
}
