//! Standard input and output as files, values and traces as text, places in JSON and SARIF, folders
//! to their depth, shell completions, the manual, and Ctrl-C.

use super::{Ended, Folder};
use crate::args::{Args, arguments};
#[cfg(target_os = "linux")]
use crate::cli_stress::is_well;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

const TINT: &str = "\
.fvec tint
.in pos
.out place position
.out colour color
.proc main
    mov place, pos
    mul colour, tint, pos
    end
.end
";

/// The same with two errors.
const BROKEN: &str =
    ".in pos\n.out place position\n.proc main\n    mull place, pos\n    mov place, poss\n    end\n.end\n";

impl Folder {
    /// Runs a command that reads `input`. Its output may be no text.
    fn piped(&self, args: impl Into<Args>, input: &[u8]) -> (Vec<u8>, Ended) {
        let mut command = self.command(args);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        // A command that refuses `-` may end before it reads.
        if let Err(error) = child.stdin.take().unwrap().write_all(input) {
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        }
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (code, out, err) = (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr));
        (output.stdout, Ended { code, out, err })
    }
}

#[test]
fn a_dash_is_standard_input_and_output() {
    let folder = Folder::new("pipes");
    folder.file("a.pica", TINT);
    let (shbin, ended) = folder.piped("asm - -o -", TINT.as_bytes());
    assert_eq!((ended.code, ended.err.as_str()), (0, "-: 3 words, 1 descriptor, 1 entry, 180 bytes\n"));
    folder.good("asm a.pica -o a.shbin --json");
    assert_eq!(shbin, folder.read("a.shbin"));
    for (args, part) in [
        ("inspect -", "SHBIN"),
        ("disasm -", "mul o1, c0, v0"),
        ("lint -", "1 shaders: 0 errors"),
        ("run -", "vertex 0: end"),
        ("diff - --vertices 64", "64 vertices, no difference"),
        ("verify -", "SHBIN"),
        ("explore - -o -", "<html"),
    ] {
        let (_, ended) = folder.piped(args, &shbin);
        assert_eq!(ended.code, 0, "{args}: {}", ended.err);
        assert!(ended.out.contains(part), "{args}: {}", ended.out);
    }
    let (_, ended) = folder.piped("lint -", BROKEN.as_bytes());
    assert_eq!(ended.code, 2);
    assert!(ended.err.starts_with("-:4:5: error: "), "{}", ended.err);

    let (_, ended) = folder.piped("lint --scan -", &shbin);
    assert_eq!((ended.code, ended.err.as_str()), (2, "error: -: can't be read: --scan takes files with names\n"));

    // Floats in and out.
    let inputs: Vec<u8> = (0..64).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let (outputs, ended) = folder.piped("run a.pica --inputs - --outputs -", &inputs);
    assert_eq!((ended.code, &outputs[..16]), (0, &inputs[..16]), "{}", ended.err);
    assert_eq!((outputs.len(), ended.err.as_str()), (256, "-: 1 vertex (1 end), by interp\n"));
    let ended = folder.run("bench --seconds-per-shader 0 a.pica --plot -");
    assert_eq!((ended.code, &ended.out[..4]), (0, "<svg"), "{}", ended.err);
    assert!(ended.out.trim_end().ends_with("</svg>") && ended.err.contains("a.pica"), "{}", ended.err);
    for args in ["run a.pica --outputs - --json", "asm a.pica -o - --json"] {
        let error = folder.bad(args);
        assert!(error.contains("standard output\nhelp: name a file"), "{error}");
    }
    assert!(folder.bad("run a.pica --outputs o.bin --json --trace").contains("leave out --outputs"));
}

#[test]
fn values_are_text_and_a_trace_is_json() {
    let folder = Folder::new("values");
    folder.file("a.pica", TINT);
    folder.file("values.txt", "tint = 2, 0.5, 0, 1 ; a comment\npos = 1, 1, 1, 1\n1: pos = 4, 2, 0, 1\n");
    let json = folder.json("run a.pica --values values.txt --trace --json");
    assert_eq!(json["runs"], 2, "up to the last vertex that the text names");
    assert_eq!(json["results"][0]["outputs"]["o1"], json!([2.0, 0.5, 0.0, 1.0]));
    let result = &json["results"][1];
    assert_eq!(result["outputs"], json!({ "o0": [4.0, 2.0, 0.0, 1.0], "o1": [8.0, 1.0, 0.0, 1.0] }));
    assert_eq!(result["exit"], "end");
    let step = json!({ "pc": 1, "inst": "mul o1, c0, v0", "o1": [8.0, 1.0, 0.0, 1.0] });
    assert_eq!(result["trace"][1], step);
    assert_eq!(result["trace"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["exits"], json!({ "end": 2 }));
    let (_, ended) = folder.piped("run a.pica --values -", b"tint = 1, 2, oops\n");
    assert_eq!(ended.code, 2);
    assert!(ended.err.starts_with("error: -: line 1"), "{}", ended.err);
}

#[test]
fn json_and_sarif_have_places_of_errors() {
    let folder = Folder::new("places");
    folder.file("a b#.pica", BROKEN).file("c.pica", TINT.replace("mov place, pos", "mov place.xyz, pos"));
    let ended = folder.run("lint --json . missing.pica");
    assert_eq!(ended.code, 2);
    let json: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(json[0]["findings"][0]["column"], 1);
    let errors = &json[1]["errors"];
    assert_eq!(json[1]["file"], errors[0]["file"]);
    let places = |n: usize| (errors[n]["line"].as_u64(), errors[n]["column"].as_u64());
    assert_eq!([places(0), places(1)], [(Some(4), Some(5)), (Some(5), Some(16))]);
    assert_eq!(
        (&errors[0]["message"], &errors[0]["help"]),
        (&json!("unknown instruction `mull`"), &json!("did you mean `mul`?"))
    );
    assert_eq!(json[2], json!({ "file": "missing.pica", "error": "missing.pica: no such file\nhelp: check the path" }));

    let sarif: Value = serde_json::from_str(&folder.run("lint --sarif . missing.pica").out).unwrap();
    let run = &sarif["runs"][0];
    let location = |n: usize| &run["results"][n]["locations"][0]["physicalLocation"];
    let region = json!({ "startLine": 3, "startColumn": 1, "endColumn": 20 });
    assert_eq!((&run["results"][0]["ruleId"], &location(0)["region"]), (&json!("unwritten-output"), &region));
    assert_eq!(run["results"][1]["ruleId"], "assembly-error");
    assert_eq!(location(1)["artifactLocation"]["uri"], "./a%20b%23.pica");
    assert_eq!(location(2)["region"], json!({ "startLine": 5, "startColumn": 16 }));
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let notification = &invocation["toolExecutionNotifications"][0];
    assert_eq!(notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "missing.pica");
}

#[test]
fn folders_are_searched_to_their_depth() {
    let folder = Folder::new("depth");
    for name in ["a/b/c", "a/.git", "target", "lib"] {
        std::fs::create_dir_all(folder.0.join(name)).unwrap();
    }
    let main = TINT.replace("    end", "    call light\n    end");
    folder.file("a/b/c/deep.pica", TINT).file("a/.git/no.pica", BROKEN).file("target/no.pica", BROKEN);
    // A library serves the sources beside it alone.
    folder.file("lib/main.pica", main).file("lib/light.pica", ".nodvle\n.proc light\n    nop\n.end\n");
    assert_eq!(folder.good("lint ."), "2 shaders: 0 errors, 0 warnings, 0 notes\n");
    let names = |json: Value| json.as_array().unwrap().iter().map(|f| f["file"].clone()).collect::<Vec<_>>();
    assert_eq!(names(folder.json("inspect --json .")), ["./a/b/c/deep.pica", "./lib/main.pica"]);
}

#[test]
fn shells_complete_and_the_manual_has_a_page_for_each_verb() {
    let folder = Folder::new("man");
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef picajit"), ("fish", "complete -c picajit")] {
        let script = folder.good(arguments("completions").value(shell));
        assert!(script.contains(part) && script.contains("link-check") && script.contains("deny"), "{shell}");
    }
    assert!(folder.bad("completions none").contains("possible values: bash"));
    let page = folder.good("man lint");
    assert!(page.contains(".TH picajit-lint 1") && page.contains("\\-\\-sarif"), "{page}");
    assert!(folder.bad("man none").contains("there is no verb `none`"));
    folder.good("man -o pages");
    for name in ["picajit.1", "picajit-asm.1", "picajit-link-check.1", "picajit-man.1", "picajit-playground.1"] {
        assert!(folder.read(&format!("pages/{name}")).starts_with(b".ie"), "{name}");
    }
}

/// Whether a process has a handler of SIGINT, signal 2.
#[cfg(target_os = "linux")]
fn handles_interrupts(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> 1 & 1 != 0)
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_long_commands_with_their_summary() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new("interrupt");
    for (args, part) in [
        ("fuzz --seconds 600 --threads 1 --seed 5", "programs, "),
        ("stress --seconds 600 --threads 1", "compared with interp"),
    ] {
        let mut command = folder.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        if crate::command::emulator().is_some() {
            // The mask is the emulator's, which catches every signal. A line of progress comes later than the handler.
            let errors = child.stderr.as_mut().expect("a pipe");
            assert_ne!(BufReader::new(errors).read_line(&mut String::new()).unwrap(), 0, "{args}: no progress");
        }
        let start = std::time::Instant::now();
        while !handles_interrupts(id) {
            assert!(start.elapsed().as_secs() < 60, "{args}: no handler");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // The shell's own `kill`: there may be no other.
        let mut shell = std::process::Command::new("/bin/sh");
        assert!(shell.args(["-c", &format!("kill -INT {id}")]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().expect("it handles the signal");
        let ended = Ended { code, out: text(&output.stdout), err: text(&output.stderr) };
        assert!(code == 0 || is_well(&ended), "{args}: {}{}", ended.out, ended.err);
        assert!(ended.out.contains(part) && ended.out.contains("no difference"), "{args}: {}", ended.out);
    }
}
