//! The direction of dependencies: which modules of `src/` each module may name. Reads the sources,
//! so that a path in an expression counts as well as a `use`.
//!
//! Comments and test modules are exempt. `lib.rs` is above all modules. Packages of `tools` need no check: Cargo knows
//! no cycles.

use libtest_mimic::{Failed, Trial};
use std::path::{Path, PathBuf};

/// Modules that each module may name beside itself. The test fails for a module that is not listed.
const LAYERS: &[(&str, &[&str])] = &[
    ("isa", &[]),
    ("program", &["isa"]),
    ("state", &["isa"]),
    ("layout", &["isa", "state"]),
    ("semantics", &["isa", "state"]),
    ("fp_mode", &[]),
    ("kernel", &["isa", "program", "state", "layout", "fp_mode"]),
    ("container", &["isa", "program", "state"]),
    ("text", &["isa", "program", "state", "container"]),
    ("interp", &["isa", "program", "state", "layout", "kernel", "fp_mode"]),
    ("ir", &["isa", "program", "kernel"]),
    ("analysis", &["isa", "program", "kernel", "ir"]),
    ("tier0", &["isa", "program", "state", "layout", "kernel", "ir", "fp_mode"]),
    // A profiler is shown the program as text.
    (
        "jit",
        &[
            "isa",
            "program",
            "state",
            "layout",
            "kernel",
            "profiler",
            "text",
            "ir",
            "background",
            "executable",
            "fp_mode",
            "headroom",
        ],
    ),
    ("gpu_code", &["isa", "program", "state", "kernel", "ir", "interp"]),
    ("profiler", &[]),
    ("background", &[]),
    ("headroom", &[]),
    ("executable", &[]),
    (
        "engine",
        &[
            "fp_mode",
            "isa",
            "program",
            "state",
            "layout",
            "kernel",
            "profiler",
            "background",
            "executable",
            "interp",
            "tier0",
            "jit",
            "text",
            "cache",
            "diff",
            "analysis",
            "gpu_code",
        ],
    ),
    (
        "capi",
        &[
            "isa",
            "program",
            "state",
            "semantics",
            "layout",
            "kernel",
            "analysis",
            "profiler",
            "executable",
            "interp",
            "text",
            "engine",
            "gpu",
            "gpu_code",
            "headroom",
        ],
    ),
    // The words of uploads are those of files.
    ("gpu", &["isa", "program", "state", "semantics", "container", "ir", "engine", "gpu_code", "fp_mode"]),
    // The control-flow graph determines the words that an entry reaches.
    ("cache", &["isa", "program", "kernel", "ir"]),
    ("diff", &["isa", "program", "state", "kernel", "interp", "text"]),
    ("generator", &["isa", "state", "container"]),
    // Tests only.
    ("testing", &[]),
];

/// The same inside `jit/`: what each of its modules may name beside itself.
const JIT_LAYERS: &[(&str, &[&str])] = &[
    ("abi", &[]),
    ("settings", &[]),
    ("target", &["settings"]),
    ("emit", &["abi"]),
    ("vertex", &["abi", "target", "emit"]),
    ("batch", &["abi", "settings", "target", "emit"]),
    ("stages", &["batch"]),
    ("runtime", &["abi", "stages", "batch"]),
    // A function's kind depends on how it multiplies and what it stores.
    ("profile", &["abi", "settings", "emit", "runtime"]),
    ("codegen", &["abi", "settings", "stages", "target", "emit", "vertex", "batch"]),
];

/// Words that may occur in one module only.
const RESERVED: &[(&str, &str)] = &[("cranelift_", "jit"), ("memmap2::", "jit")];

/// The trials of this file.
pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("layers/nothing-points-upward", check_sources),
        Trial::test("layers/an-upward-path-is-seen", check_the_check),
    ]
}

fn check_sources() -> Result<(), Failed> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&src, &mut files)?;
    let mut wrong = Vec::new();
    for file in &files {
        let relative = file.strip_prefix(&src).expect("the file was found under src").to_path_buf();
        let source = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        wrong.extend(violations(&relative, &source));
    }
    if files.len() < 10 {
        return Err("hardly any source file was found".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

pub fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// Forbidden names in a file; `path` is relative to `src/`.
fn violations(path: &Path, source: &str) -> Vec<String> {
    let parts: Vec<String> = path.iter().map(|p| p.to_string_lossy().trim_end_matches(".rs").to_string()).collect();
    let module = parts[0].as_str();
    if matches!(module, "lib" | "bin") || parts.iter().any(|p| p == "tests") {
        return Vec::new();
    }
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{}: `{module}` has no place in the order of modules", path.display())];
    };
    let mut wrong = upward_inside_jit(path, &parts, source);
    // Number of `super`s from this file to the crate's root.
    let depth = parts.len() - usize::from(parts.last().is_some_and(|p| p == "mod"));
    let code = without_comments_and_tests(source);
    for (line, name) in named_modules(&code, depth) {
        let known = LAYERS.iter().any(|(layer, _)| *layer == name);
        if known && name != module && !allowed.contains(&name.as_str()) {
            wrong.push(format!("{}:{line}: `{module}` must not name `{name}`", path.display()));
        }
    }
    for (n, line) in code.lines().enumerate() {
        for (word, owner) in RESERVED {
            if line.contains(word) && module != *owner {
                wrong.push(format!("{}:{}: `{word}` belongs to `{owner}`", path.display(), n + 1));
            }
        }
    }
    wrong
}

/// What a file of `jit/` names of `jit/` that it may not. `jit/mod.rs` is on top.
fn upward_inside_jit(path: &Path, parts: &[String], source: &str) -> Vec<String> {
    let [jit, module, ..] = parts else { return Vec::new() };
    if jit != "jit" || module == "mod" {
        return Vec::new();
    }
    let Some((_, allowed)) = JIT_LAYERS.iter().find(|(name, _)| name == module) else {
        return vec![format!("{}: `jit::{module}` has no place in the order of modules", path.display())];
    };
    // `super`s to `jit`.
    let depth = parts.len() - 1 - usize::from(parts.last().is_some_and(|p| p == "mod"));
    let code = without_comments_and_tests(source);
    let named = named_in(&code, &["crate::jit::".to_string(), "super::".repeat(depth)]);
    let of_jit = |name: &str| JIT_LAYERS.iter().any(|(layer, _)| *layer == name);
    let upward = named.into_iter().filter(|(_, name)| {
        // A path that ends at `jit` itself, such as `crate::jit::Jit`, points upward as well.
        name != module && name != "super" && !(of_jit(name) && allowed.contains(&name.as_str()))
    });
    upward
        .map(|(line, name)| format!("{}:{line}: `jit::{module}` must not name `jit::{name}`", path.display()))
        .collect()
}

/// The source without comments and without everything from a test module on, also one under further
/// conditions than `test`; line numbers stay. By convention a test module ends its file, or is a
/// file.
pub fn without_comments_and_tests(source: &str) -> String {
    let mut out = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let starts_module = |l: &&str| {
            let item = l.trim_start().trim_start_matches("pub(crate) ");
            item.starts_with("mod ") && l.trim_end().ends_with('{')
        };
        let of_tests = line.trim() == "#[cfg(test)]" || line.trim().starts_with("#[cfg(all(test, ");
        if of_tests && lines.peek().is_some_and(starts_module) {
            break;
        }
        out += line.split("//").next().unwrap_or("");
        out.push('\n');
    }
    out
}

/// Top-level modules named by `crate::` paths, or by `super::` chains to the root; with their
/// lines.
fn named_modules(code: &str, depth: usize) -> Vec<(usize, String)> {
    named_in(code, &["crate::".to_string(), "super::".repeat(depth)])
}

/// The first segments of paths below these roots, with their lines.
fn named_in(code: &str, roots: &[String]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for root in roots {
        for (at, _) in code.match_indices(root.as_str()) {
            let before = code[..at].chars().next_back();
            // `$crate::`, `some_crate::`, and `super::` in the middle of a longer chain are
            // something else.
            if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | ':')) {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            found.extend(heads(&code[at + root.len()..]).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The first segments of a path: one identifier, or those of each branch of a `{...}` group.
fn heads(path: &str) -> Vec<String> {
    let identifier = |s: &str| -> String { s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let Some(group) = path.strip_prefix('{') else { return vec![identifier(path)] };
    let mut out = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                out.push(identifier(group[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    out
}

fn check_the_check() -> Result<(), Failed> {
    let bad: [(&str, &str); 10] = [
        ("isa/decode.rs", "use crate::program::Program;"),
        ("interp.rs", "use crate::{isa::{Inst, Pc}, jit};"),
        ("interp.rs", "fn f() { super::jit::compile() }"),
        ("ir/cfg.rs", "fn f() -> crate::interp::Interp {}"),
        ("text/mod.rs", "use super::interp::Interp;"),
        ("ir/print.rs", "use cranelift_codegen::ir;"),
        ("jit/emit/math.rs", "use crate::jit::batch::policy;"),
        ("jit/batch/policy.rs", "fn f() { super::super::runtime::kernel::f() }"),
        ("jit/runtime/kernel.rs", "use crate::jit::Jit;"),
        ("capi/memory.rs", "#[cfg(all(unix, feature = \"jit\"))]\nmod mapped {\n use memmap2::Mmap;\n}"),
    ];
    for (path, source) in bad {
        if violations(Path::new(path), source).len() != 1 {
            return Err(format!("{path}: `{source}` is not reported once").into());
        }
    }
    let good: [(&str, &str); 7] = [
        ("isa/decode.rs", "use super::table::Row; // crate::interp would be wrong"),
        ("isa/flow.rs", "/// Stops with [`Exit`](crate::state::Exit).\nuse super::Pc;"),
        ("interp.rs", "use crate::{isa::Inst, kernel::{Backend, Kernel}};"),
        ("program.rs", "use crate::isa::Pc;\n#[cfg(test)]\nmod tests {\n use crate::text;\n}"),
        ("capi/memory.rs", "#[cfg(all(test, feature = \"jit\"))]\nmod tests {\n use memmap2::Mmap;\n}"),
        (
            "jit/vertex/mod.rs",
            "use crate::jit::emit::Products;\nuse cranelift_codegen::ir;\nuse super::super::state::Unit;",
        ),
        ("lib.rs", "pub use crate::jit::Jit;"),
    ];
    for (path, source) in good {
        if let Some(wrong) = violations(Path::new(path), source).first() {
            return Err(format!("reported without reason: {wrong}").into());
        }
    }
    Ok(())
}
