//! The C interface as C and C++ use it: the header in every supported language, README.md's C
//! blocks, and the hosts of `examples/c` and `jit-tests/capi`, built against the static library and
//! run alone, with sanitizers and under valgrind. The structures of the header are compared with
//! those of the library.
//!
//! Tests skip with a line where there is no C compiler for this machine, as on an emulated one, or
//! none with sanitizers.

#[path = "capi/abi.rs"]
mod abi;
mod extent;
#[path = "capi/gpu.rs"]
mod gpu;
mod prerequisites;
#[path = "capi/vulkan_host.rs"]
mod vulkan_host;

use prerequisites::skipped;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// A compiler for this machine.
#[derive(Clone, Copy)]
struct Compiler {
    command: &'static str,
    cpp: bool,
}

/// The installed compilers of both languages.
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

    /// The standards of programs that run. The short form uses one; the header compiles as all.
    fn program_standards(self) -> &'static [&'static str] {
        if extent::full() { self.standards() } else { &self.standards()[1..] }
    }

    /// Compiles `source` to an object or program.
    fn run(self, standard: &str, source: &Path, to: &Path, flags: &[&str]) {
        let mut command = Command::new(self.command);
        command.arg(format!("-std={standard}")).args(WARNINGS).arg(format!("-I{ROOT}/include"));
        command.args(["-g", "-O1"]).arg(source).arg("-o").arg(to).args(flags);
        let output = command.output().expect("it was found");
        let output_text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} -std={standard} {}:\n{output_text}", self.command, source.display());
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
        let options = "rustc --locked --package picajit --features capi,targets --crate-type staticlib";
        cargo.current_dir(ROOT).args(options.split(' '));
        // Cargo rebuilds no dependencies in the folder that this test was built in.
        let own = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().map(Path::to_path_buf);
        let output = cargo.env("CARGO_TARGET_DIR", own.as_ref().unwrap_or(&target)).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let library = own.unwrap_or(target).join("debug/libpicajit.a");
        assert!(library.is_file(), "{} was built", library.display());
        library
    })
}

/// A host with these flags, built once: several tests may run the same one.
fn built(compiler: Compiler, standard: &str, source: &str, flags: &[&str]) -> PathBuf {
    static PROGRAMS: Mutex<BTreeMap<PathBuf, Arc<OnceLock<()>>>> = Mutex::new(BTreeMap::new());
    let source = Path::new(ROOT).join(source);
    let name = source.file_name().expect("a file").to_string_lossy();
    let kind = if flags.is_empty() { "plain" } else { "sanitized" };
    let program = folder().join(format!("{kind}-{name}-{}-{standard}", compiler.command));
    let once = PROGRAMS.lock().expect("no panic").entry(program.clone()).or_default().clone();
    once.get_or_init(|| {
        let library = library().to_str().expect("the path is text");
        compiler.run(standard, &source, &program, &[&[library, "-lpthread", "-ldl", "-lm"], flags].concat());
    });
    program
}

/// Runs a program, under a tool if there is one. Returns whether it succeeded, and its output.
fn run_program(program: &Path, under: &[&str], arguments: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
    let mut command = match under {
        [] => Command::new(program),
        [tool, options @ ..] => {
            let mut command = Command::new(tool);
            command.args(options).arg(program);
            command
        }
    };
    let output = command.args(arguments).envs(environment.iter().copied()).output().expect("it was built");
    let output_text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), output_text)
}

/// The output of a program that must succeed.
fn run_successfully(program: &Path, under: &[&str], arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let (success, output_text) = run_program(program, under, arguments, environment);
    assert!(success, "{under:?} {} {arguments:?}: {output_text}", program.display());
    output_text
}

/// The hosts in C, and the ends of their outputs.
const HOSTS: [(&str, &str); 13] = [
    ("examples/c/host.c", ""),
    ("examples/c/gpu.c", ""),
    ("examples/c/calls.c", "the same bits\n"),
    ("jit-tests/capi/abuse.c", "as the header says\n"),
    ("jit-tests/capi/emit_buffers.c", "as the header says\n"),
    ("jit-tests/capi/callbacks.c", "as the header says\n"),
    ("jit-tests/capi/each_field.c", "as the header says\n"),
    ("jit-tests/capi/old_host.c", "as the header says\n"),
    ("jit-tests/capi/forked.c", "as the header says\n"),
    ("jit-tests/capi/gpu_code.c", "as the header says\n"),
    ("jit-tests/capi/hand_over.c", "as the header says\n"),
    ("jit-tests/capi/guest_draws.c", "as the header says\n"),
    ("jit-tests/capi/threads.c", "the same bits\n"),
];
/// A host's arguments: engine, and rounds, for hosts that take rounds. The short form of `cargo
/// test`.
const SHORT_RUNS: [[&str; 2]; 3] = [["native", "8"], ["background", "8"], ["interpreter", "3"]];
/// The same with `PICAJIT_FULL=1`.
const FULL_RUNS: [[&str; 2]; 3] = [["native", "100"], ["background", "100"], ["interpreter", "30"]];
/// The same under valgrind, which runs one thread at a time. The short form uses the first only.
const VALGRIND_RUNS: [[&str; 2]; 3] = [["native", "4"], ["interpreter", "4"], ["background", "4"]];

fn runs() -> &'static [[&'static str; 2]] {
    if extent::full() { &FULL_RUNS } else { &SHORT_RUNS }
}

fn valgrind_runs() -> &'static [[&'static str; 2]] {
    if extent::full() { &VALGRIND_RUNS } else { &VALGRIND_RUNS[..1] }
}

/// Whether a compiler and native code are available.
fn ready(cpp: bool) -> bool {
    static ANNOUNCED: std::sync::Once = std::sync::Once::new();
    if !extent::full() {
        ANNOUNCED.call_once(|| {
            extent::announce(
                "short form: fewer rounds, one language standard, one compiler with sanitizers, one engine under \
                 valgrind; PICAJIT_FULL=1 runs all of them",
            );
        });
    }
    let ready = compilers().iter().any(|c| c.cpp == cpp) && cfg!(feature = "jit") && cfg!(target_os = "linux");
    if !ready {
        skipped(&format!("hosts in {}: no compiler, or no native code", if cpp { "C++" } else { "C" }));
    }
    ready
}

#[test]
fn the_header_compiles_as_c99_c11_and_cpp() {
    for compiler in compilers() {
        let source = folder().join(if compiler.cpp { "header.cpp" } else { "header.c" });
        let headers = ["picajit.h", "picajit_registers.h", if compiler.cpp { "picajit.hpp" } else { "picajit.h" }];
        let lines: String = headers.iter().map(|header| format!("#include \"{header}\"\n")).collect();
        std::fs::write(&source, lines.repeat(2) + "int main(void) { return 0; }\n").expect("written");
        for standard in compiler.standards() {
            let object = folder().join(format!("header-{}-{standard}.o", compiler.command));
            compiler.run(standard, &source, &object, &["-c"]);
        }
    }
    ready(false);
}

/// The `c` blocks of README.md, each a complete translation unit.
fn readme_blocks() -> Vec<String> {
    let text = read("README.md");
    let parts = text.split("\n```c\n").skip(1);
    parts.map(|part| part.split_once("\n```").expect("the block ends").0.to_owned() + "\n").collect()
}

#[test]
fn c_blocks_of_the_readme_compile_and_run() {
    let blocks = readme_blocks();
    assert!(!blocks.is_empty(), "README.md has C blocks");
    if !ready(false) {
        return;
    }
    for compiler in compilers().iter().filter(|c| !c.cpp) {
        for (n, block) in blocks.iter().enumerate() {
            let source = folder().join(format!("readme-{n}-{}.c", compiler.command));
            std::fs::write(&source, block).expect("written");
            let has_main = block.contains("int main(");
            // The block is linked in either case, so that every function that it calls must exist.
            let calls = folder().join(format!("readme-{n}-{}-main.c", compiler.command));
            std::fs::write(&calls, "int main(void) { return 0; }\n").expect("written");
            for standard in compiler.program_standards() {
                let program = folder().join(format!("readme-{n}-{}-{standard}", compiler.command));
                let library = library().to_str().expect("the path is text");
                let calls = (!has_main).then(|| calls.to_str().expect("the path is text"));
                let flags: Vec<&str> = calls.into_iter().chain([library, "-lpthread", "-ldl", "-lm"]).collect();
                compiler.run(standard, &source, &program, &flags);
                let output_text = run_successfully(&program, &[], &[], &[]);
                assert!(!has_main || output_text.ends_with(", native\n"), "{output_text}");
            }
        }
    }
}

#[test]
fn the_c_host_has_the_same_bits_on_both_engines() {
    if !ready(false) {
        return;
    }
    for compiler in compilers().iter().filter(|c| !c.cpp) {
        for standard in compiler.program_standards() {
            let output_text = run_successfully(&built(*compiler, standard, "examples/c/host.c", &[]), &[], &[], &[]);
            assert!(output_text.ends_with("the same bits\n"), "{output_text}");
        }
    }
}

#[test]
fn calls_of_the_c_interface_have_the_same_bits_and_a_time() {
    if !ready(false) {
        return;
    }
    for compiler in compilers().iter().filter(|c| !c.cpp) {
        for standard in compiler.program_standards() {
            let program = built(*compiler, standard, "examples/c/calls.c", &[]);
            for arguments in SHORT_RUNS {
                let output_text = run_successfully(&program, &[], &arguments, &[]);
                assert_eq!(output_text.matches(" ns a call\n").count(), 6, "{output_text}");
                assert!(output_text.ends_with("the same bits\n"), "{output_text}");
            }
        }
    }
}

#[test]
fn the_cpp_emulator_has_the_same_bytes_in_its_own_structures() {
    if !ready(true) {
        return;
    }
    for compiler in compilers().iter().filter(|c| c.cpp) {
        for standard in compiler.program_standards() {
            let output_text =
                run_successfully(&built(*compiler, standard, "examples/c/emulator.cpp", &[]), &[], &[], &[]);
            assert!(output_text.contains("a wrong layout: pj_layout: r is at "), "{output_text}");
        }
    }
}

#[test]
fn misuse_has_the_documented_results() {
    if !ready(false) {
        return;
    }
    for compiler in compilers().iter().filter(|c| !c.cpp) {
        for (source, end) in &HOSTS[3..] {
            let program = built(*compiler, "c11", source, &[]);
            for arguments in runs() {
                let output_text = run_successfully(&program, &[], arguments, &[]);
                assert!(output_text.ends_with(end), "{output_text}");
            }
        }
    }
}

/// Sanitizers need more stack and address space than these hosts have.
#[test]
fn little_stack_and_little_memory_are_told() {
    if !ready(false) {
        return;
    }
    for compiler in compilers().iter().filter(|c| !c.cpp) {
        for source in ["jit-tests/capi/small_stack.c", "jit-tests/capi/memory_limit.c"] {
            let program = built(*compiler, "c11", source, &[]);
            for arguments in runs() {
                let output_text = run_successfully(&program, &[], arguments, &[]);
                assert!(output_text.starts_with("as the header says\n"), "{output_text}");
            }
        }
    }
}

/// A compiler with working sanitizers, and the environment that they need.
struct Sanitizer {
    compiler: Compiler,
    environment: [(&'static str, &'static str); 2],
}

const SANITIZE: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// With one argument it leaks, with two it reads past a block, with three it overflows.
const FAULTY: &str = "#include <stdlib.h>
static void *volatile lost;
static volatile int sink = 0x7FFFFFFF;
int main(int n, char **a) {
    volatile char *block = (volatile char *)malloc(8);
    (void)a;
    if (n == 2) { lost = malloc(100); lost = NULL; }
    if (n == 3) sink = block[8];
    if (n == 4) sink += n;
    free((void *)block);
    return 0;
}
";

/// AddressSanitizer and UndefinedBehaviorSanitizer of one compiler, if they work and find the
/// seeded faults.
fn sanitizer(compiler: Compiler) -> Option<Sanitizer> {
    let name = compiler.command;
    let source = folder().join(if compiler.cpp { "faulty.cpp" } else { "faulty.c" });
    let program = folder().join(format!("faulty-{name}"));
    std::fs::write(&source, FAULTY).expect("written");
    let mut build = Command::new(name);
    let output = build.args(SANITIZE).args(["-g", "-o"]).arg(&program).arg(&source).output().expect("it was found");
    if !output.status.success() {
        skipped(&format!("hosts with sanitizers of {name}, which has none"));
        return None;
    }
    let options = ["detect_leaks=1:detect_stack_use_after_return=1", "detect_leaks=0:detect_stack_use_after_return=1"];
    let environment = |options| [("ASAN_OPTIONS", options), ("UBSAN_OPTIONS", "print_stacktrace=1")];
    let works = |options| run_program(&program, &[], &[], &environment(options));
    let options = match works(options[0]) {
        (true, _) => options[0],
        (false, why) if works(options[1]).0 => {
            skipped(&format!("leaks with {name}, whose sanitizer can't detect them here: {why}"));
            options[1]
        }
        (false, why) => {
            skipped(&format!("hosts with sanitizers of {name}, which don't run here: {why}"));
            return None;
        }
    };
    let environment = environment(options);
    let leaks = options.starts_with("detect_leaks=1").then_some((1, "LeakSanitizer: detected memory leaks"));
    for (arguments, finding) in leaks.into_iter().chain([(2, "heap-buffer-overflow"), (3, "signed integer overflow")]) {
        let (success, output_text) = run_program(&program, &[], &["x"; 3][..arguments], &environment);
        assert!(!success && output_text.contains(finding), "{name} finds the seeded fault: {output_text}");
    }
    Some(Sanitizer { compiler, environment })
}

#[test]
fn sanitizers_find_nothing_in_hosts() {
    if !ready(false) {
        return;
    }
    let mut tried = [0, 0];
    for Sanitizer { compiler, environment } in compilers().iter().copied().filter_map(sanitizer) {
        // The short form uses one compiler of each language.
        let tried = &mut tried[usize::from(compiler.cpp)];
        *tried += 1;
        if *tried > 1 && !extent::full() {
            continue;
        }
        if compiler.cpp {
            let program = built(compiler, "c++20", "examples/c/emulator.cpp", &SANITIZE);
            run_successfully(&program, &[], &[], &environment);
            continue;
        }
        for (source, end) in &HOSTS {
            let program = built(compiler, "c11", source, &SANITIZE);
            for arguments in runs() {
                let output_text = run_successfully(&program, &[], arguments, &environment);
                assert!(output_text.ends_with(end), "{output_text}");
            }
        }
    }
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if !ready(false) || !Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success()) {
        skipped("hosts under valgrind: no valgrind");
        return;
    }
    let compiler = *compilers().iter().find(|c| !c.cpp).expect("ready");
    for (source, end) in &HOSTS {
        // The child of a fork has what the parent's threads held, and none of these threads. What the parent
        // itself leaks is in the summary.
        let leaks = match source.ends_with("forked.c") {
            true => "--errors-for-leak-kinds=none",
            false => "--errors-for-leak-kinds=definite,indirect,possible",
        };
        let tool = ["valgrind", "--error-exitcode=99", "--leak-check=full", leaks];
        let program = built(compiler, "c11", source, &[]);
        for arguments in valgrind_runs() {
            let output_text = run_successfully(&program, &tool, arguments, &[]);
            assert!(output_text.contains(end), "{output_text}");
            assert!(output_text.contains("ERROR SUMMARY: 0 errors"), "{output_text}");
            assert!(
                output_text.contains("definitely lost: 0 bytes") || output_text.contains("no leaks are possible"),
                "{output_text}"
            );
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).expect("it is in the repository")
}
