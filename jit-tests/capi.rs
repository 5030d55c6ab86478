//! The C interface as C and C++ see it: the header in every language it is made for, the hosts of `examples/c` built against the
//! static library and run, and the header's structures compared with those of the library.
//!
//! Skips with a line where there is no C compiler for this machine, as on an emulated one.

#[path = "capi/gpu.rs"]
mod gpu;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// A compiler that makes code for this machine.
#[derive(Clone, Copy)]
struct Compiler {
    command: &'static str,
    cpp: bool,
}

/// Those of both languages that are installed.
fn compilers() -> &'static [Compiler] {
    static FOUND: OnceLock<Vec<Compiler>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let all = [("gcc", false), ("clang", false), ("g++", true), ("clang++", true)];
        let here = |command: &str| {
            let machine = Command::new(command).arg("-dumpmachine").output();
            machine.is_ok_and(|m| String::from_utf8_lossy(&m.stdout).starts_with(std::env::consts::ARCH))
        };
        all.into_iter().filter(|(c, _)| here(c)).map(|(command, cpp)| Compiler { command, cpp }).collect()
    })
}

impl Compiler {
    fn standards(self) -> &'static [&'static str] {
        if self.cpp { &["c++11", "c++20"] } else { &["c99", "c11"] }
    }

    /// `of` as an object or program.
    fn run(self, standard: &str, of: &Path, to: &Path, with: &[&str]) {
        let mut command = Command::new(self.command);
        command.arg(format!("-std={standard}")).args(WARNINGS).arg(format!("-I{ROOT}/include"));
        command.args(["-g", "-O1"]).arg(of).arg("-o").arg(to).args(with);
        let output = command.output().expect("it was found");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} -std={standard} {}:\n{said}", self.command, of.display());
    }
}

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("capi");
    std::fs::create_dir_all(&folder).expect("a folder for what is built");
    folder
}

/// The static library, built once.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = folder().join("target");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(ROOT).args(["rustc", "--locked", "--lib", "--features", "capi", "--crate-type", "staticlib"]);
        // The dependencies are those that this test was built with, if the folder is the same.
        let own = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().map(Path::to_path_buf);
        let output = cargo.env("CARGO_TARGET_DIR", own.as_ref().unwrap_or(&target)).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let library = own.unwrap_or(target).join("debug/libpicajit.a");
        assert!(library.is_file(), "{} was built", library.display());
        library
    })
}

/// Builds an example with one compiler and runs it with `arguments`; what it prints.
fn example(compiler: Compiler, standard: &str, name: &str, under: &[&str], arguments: &[&str]) -> String {
    let program = folder().join(format!("{name}-{}-{standard}", compiler.command));
    let library = library().to_str().expect("the path is text");
    let source = Path::new(ROOT).join("examples/c").join(name);
    compiler.run(standard, &source, &program, &[library, "-lpthread", "-ldl", "-lm"]);
    let mut command = match under {
        [] => Command::new(&program),
        [tool, options @ ..] => {
            let mut command = Command::new(tool);
            command.args(options).arg(&program);
            command
        }
    };
    let output = command.args(arguments).output().expect("it was built");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} of {}: {said}", compiler.command);
    said
}

/// Whether there is anything to test with.
fn ready(cpp: bool) -> bool {
    let ready = compilers().iter().any(|c| c.cpp == cpp) && cfg!(feature = "jit") && cfg!(target_os = "linux");
    if !ready {
        println!("skipped: no {} compiler for this machine, or no native code", if cpp { "C++" } else { "C" });
    }
    ready
}

#[test]
fn the_header_is_c99_c11_and_cpp() {
    for compiler in compilers() {
        let source = folder().join(if compiler.cpp { "header.cpp" } else { "header.c" });
        std::fs::write(&source, "#include \"picajit.h\"\n#include \"picajit.h\"\nint main(void) { return 0; }\n")
            .expect("written");
        for standard in compiler.standards() {
            let object = folder().join(format!("header-{}-{standard}.o", compiler.command));
            compiler.run(standard, &source, &object, &["-c"]);
        }
    }
    ready(false);
}

#[test]
fn the_c_host_gets_the_same_bits_from_both_engines() {
    if !ready(false) {
        return;
    }
    for compiler in compilers().iter().filter(|c| !c.cpp) {
        for standard in compiler.standards() {
            let said = example(*compiler, standard, "host.c", &[], &[]);
            assert!(said.ends_with("the same bits\n"), "{said}");
        }
    }
}

#[test]
fn the_emulator_in_cpp_gets_the_same_bytes_in_its_own_structures() {
    if !ready(true) {
        return;
    }
    for compiler in compilers().iter().filter(|c| c.cpp) {
        for standard in compiler.standards() {
            let said = example(*compiler, standard, "emulator.cpp", &[], &[]);
            assert!(said.contains("a wrong layout: r is at "), "{said}");
        }
    }
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if !ready(false) || !Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success()) {
        println!("skipped: no valgrind");
        return;
    }
    let compiler = *compilers().iter().find(|c| !c.cpp).expect("ready");
    let tool = ["valgrind", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect"];
    // Alone first, then with code made at run time, which valgrind translates like any other.
    for (name, arguments) in
        [("host.c", &["interpreter"][..]), ("host.c", &[]), ("gpu.c", &["interpreter"]), ("gpu.c", &[])]
    {
        let said = example(compiler, "c11", name, &tool, arguments);
        assert!(said.contains("ERROR SUMMARY: 0 errors"), "{said}");
        assert!(said.contains("definitely lost: 0 bytes") || said.contains("no leaks are possible"), "{said}");
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).expect("it is in the repository")
}

/// Where the library defines functions, and where numbers and structures.
const FUNCTIONS: [&str; 3] = ["src/capi.rs", "src/capi/trace.rs", "src/capi/gpu.rs"];
const STRUCTURES: [&str; 3] = ["src/capi/types.rs", "src/capi/trace.rs", "src/capi/gpu/types.rs"];

fn sources(files: &[&str]) -> String {
    files.iter().map(|file| read(file)).collect()
}

/// What the header declares, compared with what the library defines. Types and numbers of parameters are the C compiler's to
/// check in the examples; that nothing is missing is checked here.
#[test]
fn every_function_and_number_of_the_header_is_the_librarys() {
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
    let defined = functions(&library, &["extern \"C\" fn "]);
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
        assert!(says, "{name} is {value}, which the header does not say");
    }
    let enumerators = header.lines().filter(|l| l.trim_start().starts_with("PJ_") && l.contains(" = ")).count();
    assert_eq!(enumerators, numbers.len(), "each is on both sides");
}

#[test]
fn structures_have_the_same_fields_at_the_same_places() {
    if !ready(false) {
        return;
    }
    // Of each structure the fields as the library has them, in order; C says where its own are.
    let types = sources(&STRUCTURES);
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
    assert_eq!(c, expected, "C's view, and what a test of the library says of its own");
}
