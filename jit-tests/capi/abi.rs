//! The header, against the library and against the last release: functions, constants, structures,
//! versions.

use crate::{compilers, folder, read, ready};
use std::collections::BTreeSet;
use std::process::Command;

/// Sources that define functions.
const FUNCTIONS: [&str; 8] = [
    "src/capi.rs",
    "src/capi/batch.rs",
    "src/capi/geometry.rs",
    "src/capi/trace.rs",
    "src/capi/gpu.rs",
    "src/capi/gpu/guest_draw.rs",
    "src/capi/gpu/hand_over.rs",
    "src/capi/gpu_code.rs",
];
/// Sources that define constants and structures.
const STRUCTURES: [&str; 7] = [
    "src/capi/status.rs",
    "src/capi/types.rs",
    "src/capi/geometry.rs",
    "src/capi/trace.rs",
    "src/capi/gpu/types.rs",
    "src/capi/gpu_code/types.rs",
    "src/capi/gpu/hand_over.rs",
];

fn sources(files: &[&str]) -> String {
    files.iter().map(|file| read(file)).collect()
}

/// Compares the functions, their numbers of parameters, and the constants of the header with those
/// of the library. The examples check parameter types.
#[test]
fn functions_and_constants_of_the_header_and_the_library_are_the_same() {
    let (header, library, types) = (read("include/picajit.h"), sources(&FUNCTIONS), sources(&STRUCTURES));
    let commas = |text: &str, open: usize| {
        let end = open + text[open..].find(')').expect("it ends");
        let inside = text[open + 1..end].trim().trim_end_matches(',');
        if inside.is_empty() || inside == "void" { 0 } else { inside.matches(',').count() + 1 }
    };
    let functions = |text: &str, before: &[&str]| {
        let mut found = BTreeSet::new();
        for (at, _) in text.match_indices("pj_") {
            let name: String = text[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let open = at + name.len();
            let starts = before.iter().any(|before| text[..at].ends_with(before)) && text[open..].starts_with('(');
            let line = text[..at].rsplit('\n').next().unwrap_or("");
            if starts && !line.trim_start().starts_with('*') && !line.trim_start().starts_with("/*") {
                found.insert((name, commas(text, open)));
            }
        }
        found
    };
    let declared = functions(&header, &[" ", "*"]);
    // `pj_engine_new` is a function of the header, and in the library the one of headers before 0.7.
    let mut defined = functions(&library, &["extern \"C\" fn "]);
    assert!(defined.remove(&("pj_engine_new".to_owned(), 4)) && defined.insert(("pj_engine_new".to_owned(), 2)));
    assert!(defined.len() >= 12, "{defined:?}");
    assert_eq!(declared, defined);

    let numbers: Vec<(String, String)> = types
        .lines()
        .filter_map(|line| line.strip_prefix("pub const PJ_")?.split_once(": "))
        .map(|(name, rest)| {
            (format!("PJ_{name}"), rest.split_once("= ").expect("a value").1.trim_end_matches(';').to_owned())
        })
        .collect();
    assert!(numbers.len() >= 30);
    for (name, value) in &numbers {
        let says = header.match_indices(&**name).any(|(at, _)| {
            let rest = &header[at + name.len()..];
            rest.strip_prefix(" = ").is_some_and(|rest| {
                rest.trim_start_matches('-').len() < rest.len() || !value.starts_with('-')
            } && rest.starts_with(&**value) && !rest[value.len()..].starts_with(|c: char| c.is_ascii_digit()))
        });
        assert!(says, "{name} is {value}, but not in the header");
    }
    let enumerators = header.lines().filter(|l| l.trim_start().starts_with("PJ_") && l.contains(" = ")).count();
    assert_eq!(enumerators, numbers.len(), "every enumerator has a constant");
}

#[test]
fn structures_have_the_same_fields_at_the_same_offsets() {
    if !ready(false) {
        return;
    }
    // The fields of each structure come from the library's sources. A C program prints their
    // offsets.
    // `DirectCall` is a structure of the Rust interface too, and has its name there.
    let direct_call = read("src/engine/direct_call.rs").replace("pub struct DirectCall", "pub struct PjDirectCall");
    let types = sources(&STRUCTURES) + &direct_call;
    let mut source = String::from("#include \"picajit.h\"\n#include <stdio.h>\nint main(void) {\n");
    let mut fields = 0;
    for part in types.split("pub struct Pj").skip(1) {
        let (name, rest) = part.split_once(" {").expect("a structure");
        let c_name = name.chars().fold("pj".to_owned(), |mut all, c| {
            if c.is_uppercase() {
                all.push('_');
            }
            all.push(c.to_ascii_lowercase());
            all
        });
        source += &format!("printf(\"{c_name} %zu\\n\", sizeof({c_name}));\n");
        for line in rest.split('}').next().unwrap_or("").lines() {
            if let Some((field, _)) = line.trim().strip_prefix("pub ").and_then(|l| l.split_once(':')) {
                source += &format!("printf(\"{c_name}.{field} %zu\\n\", offsetof({c_name}, {field}));\n");
                fields += 1;
            }
        }
    }
    source += "return 0;\n}\n";
    assert!(fields > 60, "{fields}");
    let (file, program) = (folder().join("fields.c"), folder().join("fields"));
    std::fs::write(&file, source).expect("written");
    let compiler = *compilers().iter().find(|c| !c.cpp).expect("ready");
    compiler.run("c99", &file, &program, &[]);
    let output = Command::new(&program).output().expect("it was built");
    let c = String::from_utf8(output.stdout).expect("text");
    let expected = read("jit-tests/capi/fields.txt");
    assert_eq!(c, expected, "C, and the record that a unit test compares with the library");
}

/// The ids of `picajit_registers.h` are the constants of `gpu::RegisterFile`.
#[test]
fn registers_of_the_header_and_the_library_are_the_same() {
    let source = read("src/gpu/registers.rs");
    let list = |of: &str| source.split_once(of).expect("a list").1.split_once("\n}").expect("it ends").0;
    let ids = |list: &str| -> Vec<(String, u16)> {
        let lines = list.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once(" = 0x"));
        lines.map(|(names, id)| (names.to_owned(), u16::from_str_radix(id, 16).expect("an id"))).collect()
    };
    let mut library: BTreeSet<(String, u16)> =
        ids(list("\nregisters! {")).into_iter().map(|(name, id)| (format!("PJ_{name}"), id)).collect();
    for (names, offset) in ids(list("\nunit_registers! {")) {
        let names: Vec<_> = names.split(", ").collect();
        let [name, gsh, vsh] = names[..] else { panic!("{names:?}") };
        assert_eq!([gsh, vsh], [format!("GSH_{name}"), format!("VSH_{name}")]);
        library.extend([(format!("PJ_{gsh}"), 0x280 + offset), (format!("PJ_{vsh}"), 0x2B0 + offset)]);
    }
    let header = read("include/picajit_registers.h");
    let header = header.split_once("\n};").expect("the ids end").0;
    let lines = header.lines().filter_map(|line| line.trim().split_once(" = 0x"));
    let declared: BTreeSet<(String, u16)> =
        lines.map(|(name, rest)| (name.to_owned(), u16::from_str_radix(&rest[..3], 16).expect("an id"))).collect();
    assert!(declared.len() > 50);
    assert_eq!(declared, library);
}

/// The declarations of a header, one a line without comments, and its comments.
struct Interface {
    version: Vec<u32>,
    declarations: Vec<String>,
    comments: String,
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Interface {
    fn of_header(header: &str) -> Interface {
        let version = |part: &str| {
            let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define PJ_VERSION_{part} ")));
            line.and_then(|number| number.parse().ok()).expect("a number")
        };
        let (mut code, mut comments) = (String::new(), String::new());
        for (n, part) in header.split("/*").enumerate() {
            let rest = if n == 0 { part } else { part.split_once("*/").expect("comments end").1 };
            if n > 0 {
                comments += &part[..part.len() - rest.len() - 2];
            }
            code += rest;
        }
        // Without macros, and the block of C++ around all.
        let code = code.replace("\\\n", " ").replace("extern \"C\" {", "");
        let code = code.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join(" ");
        let (mut declarations, mut depth, mut start) = (Vec::new(), 0, 0);
        for (at, c) in code.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => start = at + 1,
                '}' => depth -= 1,
                ';' if depth == 0 => {
                    declarations.push(words(&code[start..=at]));
                    start = at + 1;
                }
                _ => {}
            }
        }
        Interface {
            version: ["MAJOR", "MINOR", "PATCH"].map(version).into(),
            declarations,
            comments: words(&comments.replace(" * ", " ")),
        }
    }

    /// A name of the comments: 64-bit FNV-1a.
    fn meaning(&self) -> String {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        format!("{:016x}", self.comments.bytes().fold(0xCBF2_9CE4_8422_2325, hash))
    }

    fn record(&self) -> String {
        let version = self.version.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
        format!("version {version}\ncomments {}\n{}\n", self.meaning(), self.declarations.join("\n"))
    }

    /// What the version must be for this record of the last release; `None`: it is.
    fn outdated(&self, released: &str) -> Option<&'static str> {
        let mut lines = released.lines();
        let version = lines.next().and_then(|line| line.strip_prefix("version ")).expect("a version");
        let version: Vec<u32> = version.split('.').map(|part| part.parse().expect("a number")).collect();
        let same_meaning = lines.next().and_then(|line| line.strip_prefix("comments ")) == Some(&self.meaning());
        let same_declarations = lines.eq(self.declarations.iter().map(String::as_str));
        match (same_declarations, same_meaning) {
            (false, _) if self.version[..2] <= version[..2] => Some("functions or structures changed: a minor version"),
            (_, false) if self.version <= version => Some("comments changed: a patch, or a minor version"),
            _ => None,
        }
    }
}

#[test]
fn a_header_that_changes_gets_a_version() {
    let header = read("include/picajit.h");
    let now = Interface::of_header(&header);
    assert_eq!(now.version.iter().map(u32::to_string).collect::<Vec<_>>().join("."), env!("CARGO_PKG_VERSION"));
    assert!(now.declarations.len() > 100 && now.comments.len() > 20_000);
    // A release takes this file (docs/releasing.md).
    std::fs::write(folder().join("abi.txt"), now.record()).expect("written");
    assert_eq!(now.outdated(&read("jit-tests/capi/abi.txt")), None, "{}", folder().join("abi.txt").display());

    // Changes of a released header.
    let released = now.record();
    assert_eq!(now.outdated(&released), None, "the header of the release itself");
    let changed = |from: &str, to: &str| {
        assert!(header.contains(from), "{from}");
        let mut changed = Interface::of_header(&header.replace(from, to));
        let verdict = changed.outdated(&released);
        changed.version[2] += 1;
        let after_a_patch = changed.outdated(&released);
        changed.version[1] += 1;
        assert_eq!(changed.outdated(&released), None, "{from}");
        (verdict.is_some(), after_a_patch.is_some())
    };
    assert_eq!(changed("uint32_t fuel; ", "uint64_t fuel; "), (true, true), "the type of a field");
    assert_eq!(changed("PJ_BUSY = -9", "PJ_BUSY = -90"), (true, true), "a constant");
    assert_eq!(changed("void pj_engine_free(pj_engine *engine);", ""), (true, true), "a function");
    assert_eq!(changed("null is allowed", "null is an error"), (true, false), "a meaning");
    assert_eq!(changed("/* Null is allowed. */\n", "/*\n * Null is\n * allowed.\n */\n"), (false, false), "a line");
}

/// Structures that the host fills in, and each of whose fields `each_field.c` tries.
const FILLED_IN: [&str; 10] = [
    "pj_options",
    "pj_memory",
    "pj_layout",
    "pj_batch",
    "pj_emit_buffer",
    "pj_draw",
    "pj_guest_draw",
    "pj_gpu_host",
    "pj_interface",
    "pj_device",
];
/// Structures that the library fills in. `pj_gpu_state` is data, of which any is valid.
const RESULTS: [&str; 11] = [
    "pj_stats",
    "pj_shader_info",
    "pj_analysis",
    "pj_step",
    "pj_report",
    "pj_gpu_upload_stats",
    "pj_gpu_state",
    "pj_gpu_code_info",
    "pj_gpu_self_test",
    "pj_placement",
    "pj_handed_draw",
];

#[test]
fn each_field_of_a_host_has_a_test_of_zero_and_of_wrong_values() {
    let record = read("jit-tests/capi/fields.txt");
    let fields = record.lines().filter_map(|line| line.split_once(' ')?.0.split_once('.'));
    let sized: BTreeSet<&str> =
        fields.clone().filter(|(_, field)| *field == "struct_size").map(|(name, _)| name).collect();
    assert_eq!(sized, FILLED_IN.into_iter().chain(RESULTS).collect());
    if !ready(false) {
        return;
    }
    let compiler = *compilers().iter().find(|c| !c.cpp).expect("ready");
    let program = crate::built(compiler, "c11", "jit-tests/capi/each_field.c", &[]);
    let output = crate::run_successfully(&program, &[], &[], &[]);
    let tried: BTreeSet<&str> = output.lines().filter_map(|line| line.split_once(": ").map(|(name, _)| name)).collect();
    let expected: BTreeSet<String> =
        fields.filter(|(name, _)| FILLED_IN.contains(name)).map(|(name, field)| format!("{name}.{field}")).collect();
    assert_eq!(tried, expected.iter().map(String::as_str).collect());
}
