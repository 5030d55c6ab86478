//! The `picajit` command must not overwrite inputs, run endlessly, pass control characters to
//! terminals, or fail silently.

use super::{Folder, VERTEX, Value, arguments};
use crate::command::slowness;
use std::time::{Duration, Instant};

#[test]
fn a_result_never_replaces_an_input() {
    let folder = Folder::new("targets");
    folder.file("a.pica", VERTEX).file("u", [0; 1536]).file("in", [0; 256]);
    let before = ["a.pica", "u", "in"].map(|f| folder.read(f));
    std::fs::hard_link(folder.0.join("u"), folder.0.join("link")).unwrap();
    std::fs::create_dir(folder.0.join("sub")).unwrap();
    for (args, words) in [
        ("run a.pica --outputs a.pica", "error: a.pica: is an input and would be overwritten\nhelp: "),
        ("run a.pica --uniforms u --outputs ./sub/../u", "error: ./sub/../u: is the same file as u and would be "),
        ("run a.pica --uniforms u --outputs link", "error: link: is the same file as u and would be overwritten"),
        ("run a.pica --inputs in --outputs in", "error: in: is an input"),
        (
            "bench --quick a.pica --plot ./a.pica",
            "error: ./a.pica: is the same file as a.pica and would be overwritten",
        ),
        ("asm in -o ./in", "error: ./in: is the same file as in and would be overwritten"),
        ("asm a.pica -o new.S", "error: new.S: is a name of assembly text and the result is a SHBIN\nhelp: "),
    ] {
        let err = folder.bad(args);
        assert!(err.starts_with(words), "{args}\n{err}");
    }
    assert_eq!(["a.pica", "u", "in"].map(|f| folder.read(f)), before);
    assert!(!folder.0.join("new.S").exists());
    // Another file that exists is replaced.
    folder.file("old", "old").good("run a.pica --uniforms u --inputs in --outputs old");
    assert_eq!(folder.read("old").len(), 256);
}

#[test]
fn asm_rejects_other_files() {
    let folder = Folder::new("no-assembly");
    folder.file("a.pica", VERTEX).file("latin", b"n \xE9\n");
    assert_eq!(folder.run("asm a.pica -o a.shbin").code, 0);
    let err = folder.bad("asm a.shbin -o b.shbin");
    assert_eq!(
        err,
        "error: a.shbin: is already a PICA200 shader (SHBIN)\nhelp: `disasm` prints its assembly text, which `asm` takes\n"
    );
    assert_eq!(
        folder.bad("asm latin -o b.shbin"),
        "error: latin: is not UTF-8 text (byte 0x2), so it is no assembly\n"
    );
}

#[test]
fn endless_programs_end_soon() {
    let folder = Folder::new("endless");
    folder
        .file("loop.pica", ".raw\n.entry 0\nadd r0, v0, r0\nrjmpu !b15, 0\nend\n")
        .file("emit.pica", ".gsh point c0\n.proc main\nsetemit 2, prim\nagain: emit\njmpu !b9, again\nend\n.end\n");
    for shader in ["loop.pica", "emit.pica"] {
        let start = Instant::now();
        let ended = folder.run(arguments("diff --vertices 1500 --json").and(shader));
        assert_eq!(ended.code, 0, "{}", ended.err);
        let json: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(json["differences"], 0);
        let native = cfg!(feature = "jit");
        assert_eq!((&json["native"], &json["vertices"]), (&native.into(), &if native { 1500 } else { 0 }.into()));
        assert!(ended.err.contains(&format!("note: {shader}: vertices do not end soon: ")), "{}", ended.err);
        let ended = folder.run(arguments("bench --quick").and(shader));
        assert_eq!(ended.code, 0, "{}", ended.err);
        // The number of words depends on the machine's speed.
        assert!(ended.out.contains(" stops at its first backward jump after "), "{}", ended.out);
        // With the default fuel these take minutes.
        assert!(start.elapsed() < slowness() * Duration::from_secs(30), "{shader}: {:?}", start.elapsed());
    }
}

#[test]
fn diff_and_bench_fail_without_files_and_can_require_native_code() {
    let folder = Folder::new("nothing");
    let calls = "rcallu b0, .+1, 200\n".repeat(30) + &"nop\n".repeat(250);
    folder.file("ok.pica", VERTEX).file("calls.pica", format!(".raw\n.entry 0\n{calls}mov o0, v0\nend\n"));
    for args in ["diff nothere no/where", "bench nothere --quick", "bench nothere --json"] {
        assert!(folder.bad(args).starts_with("error: nothere: no such file\n"));
    }
    let code = |args: &'static str| folder.run(args).code;
    let native = i32::from(!cfg!(feature = "jit"));
    assert_eq!(code("diff ok.pica --vertices 9 --require-native"), native);
    assert_eq!(code("diff ok.pica calls.pica --vertices 9"), 0);
    assert_eq!(code("diff ok.pica calls.pica --vertices 9 --require-native"), 1);
    for seed in ["0", "4294967295", "x"] {
        let err = folder.bad(arguments("diff ok.pica --seed").and(seed));
        assert!(err.contains("expected a number from 1 to 4294967294"), "{err}");
    }
    assert_eq!(code("diff ok.pica --vertices 9 --seed 4294967294"), 0);
}

/// A full disk: results that can't be written are an error of every verb that prints, help included.
#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_written_are_an_error() {
    let folder = Folder::new("full");
    folder.file("a.pica", VERTEX);
    for args in [
        "inspect a.pica",
        "lint a.pica --json",
        "verify a.pica",
        "disasm a.pica",
        "asm a.pica -o a.shbin --json",
        "run a.pica",
        "diff a.pica --vertices 9",
        "fuzz --programs 1",
        "stress --programs 1",
        "--help",
        "run --help",
        "--version",
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = folder.command(args).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(
            said.ends_with("error: standard output can't be written: No space left on device (os error 28)\n"),
            "{said}"
        );
    }
}

#[cfg(unix)]
#[test]
fn file_names_are_escaped() {
    let folder = Folder::new("escape");
    let (good, bad) = ("a\x1b[31m.pica", "b\x1b[31m.pica");
    folder.file(good, VERTEX).file(bad, "oops\n").file("c\x07.s", b"\xff");
    let none = "no\x1bwhere";
    for verb in ["inspect", "diff --vertices 9", "bench --quick", "run", "disasm"] {
        let args = arguments(verb).value(good);
        let ended = folder.run(args.clone());
        assert_eq!(ended.code, 0, "{}", ended.err);
        let text = ended.out + &ended.err;
        assert!(!text.contains('\x1b'), "{args:?}: {text}");
        for name in [bad, none, "c\x07.s"] {
            let args = arguments(verb).value(name);
            let ended = folder.run(args.clone());
            let text = ended.out + &ended.err;
            assert!(ended.code == 2 && !text.contains(['\x1b', '\x07']) && text.contains("\\u{"), "{args:?}: {text}");
        }
    }
}
