//! The `picajit` command: verbs, exit codes, error texts, JSON, and values derived by hand.

mod args;
mod cli_asm;
mod cli_containers;
mod cli_disasm;
mod cli_explore;
mod cli_frames;
mod cli_fuzz;
mod cli_gpu_code;
mod cli_lint;
mod cli_pipes;
mod cli_profile;
mod cli_serve;
mod cli_stress;
#[cfg(feature = "jit")]
mod cli_targets;
mod command;
mod prerequisites;
mod safety;

use args::{Args, arguments};
use command::picajit;
use prerequisites::{temporary_folder, third_party_files};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

/// How a command ended.
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Folder {
    fn new(test: &str) -> Folder {
        // Tests run in parallel, and two may use the same name.
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let n = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = temporary_folder().join(format!("picajit-cli-{}-{n}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Folder {
        std::fs::write(self.0.join(name), bytes).unwrap();
        self
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }

    fn command(&self, args: impl Into<Args>) -> Command {
        let mut command = picajit();
        command.current_dir(&self.0).args(args.into().0);
        command
    }

    fn run(&self, args: impl Into<Args>) -> Ended {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The standard output of a command that succeeds without messages.
    #[track_caller]
    fn good(&self, args: impl Into<Args>) -> String {
        let args = args.into();
        let ended = self.run(args.clone());
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{args:?}");
        ended.out
    }

    #[track_caller]
    fn json(&self, args: impl Into<Args>) -> Value {
        serde_json::from_str(&self.good(args)).unwrap()
    }

    /// The standard error of a command that ends with 2 and prints no results.
    #[track_caller]
    fn bad(&self, args: impl Into<Args>) -> String {
        let args = args.into();
        let ended = self.run(args.clone());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{args:?}");
        ended.err
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Doubles and halves its input, counts vertices in r0 and iterations of i0 in r1.
const VERTEX: &str = "\
.fvec matrix[4]
.constf k(2.0, 0.5, 1.0, 0.0)
.in pos v0
.out outpos position
.out outtc texcoord0.xy
.out outclr color
.proc main
    mul outpos, k.xxyy, pos
    add outtc.xy, k.zw, pos.xy
    add r0, k.zzzz, r0
    mov r1, k.wwww
    for i0
        add r1, k.zzzz, r1
    .end
    mov outclr.x, r0
    mov outclr.y, r1
    ifu b1
        mov outclr.z, k.zzzz
    .else
        mov outclr.z, k.wwww
    .end
    end
.end
";

/// One triangle in the first invocation, two when b15 is set.
const GEOMETRY: &str = "\
.gsh point c0
.entry emitter
.out p position
.out c color
.proc triangle
    mov p, v0
    mov c, v1
    setemit 0
    emit
    mov p, v1
    mov c, v2
    setemit 1
    emit
    mov p, v2
    mov c, v0
    setemit 2, prim inv
    emit
.end
.proc emitter
    call triangle
    callu b15, triangle
    end
.end
";

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// A vertex whose v0-v2 are given and whose other inputs are zero.
fn vertex(first: [[f32; 4]; 3]) -> Vec<u8> {
    let mut all = [0.0; 64];
    all[..12].copy_from_slice(first.as_flattened());
    floats(&all)
}

#[test]
fn run_shows_what_a_vertex_program_writes() {
    let folder = Folder::new("run-text");
    let two =
        [vertex([[1.0, 2.0, 3.0, 4.0], [0.0; 4], [0.0; 4]]), vertex([[-1.0, 0.25, 8.0, 0.0], [0.0; 4], [0.0; 4]])];
    folder.file("a.pica", VERTEX).file("in", two.concat());
    // o0 = v0 * (2, 2, .5, .5); o1.xy = v0.xy + (1, 0); o2 = vertices so far, iterations of i0 (x +
    // 1), b1.
    let text = folder.good("run a.pica --inputs in --int 0=4,0,1 --bools 2");
    assert_eq!(
        text,
        "\
vertex 0: end
  o0  position      (2, 4, 1.5, 2)
  o1  xy texcoord0  (2, 2, 0, 0)
  o2  color         (1, 5, 1, 0)
vertex 1: end
  o0  position      (-2, 0.5, 4, 0)
  o1  xy texcoord0  (0, 0.25, 0, 0)
  o2  color         (2, 5, 1, 0)
"
    );
    // i0 is (3, 0, 1) and b1 false by default.
    let json = folder.json("run a.pica --inputs in --json");
    assert_eq!(json["results"][1]["outputs"]["o2"].to_string(), "[2.0,4.0,0.0,0.0]");
    assert_eq!((&json["exits"]["end"], &json["runs"], &json["backend"]), (&2.into(), &2.into(), &"interp".into()));
}

#[test]
fn generated_values_are_those_of_the_definition() {
    let folder = Folder::new("run-generated");
    folder.file("a.pica", ".constf k(7.0, 7.0, 7.0, 7.0)\n.alias u c1\n.alias first c0\n.proc main\nmov o0, v0\nmov o1, v15\nmov o2, first\nmov o3, u\nmov o4, k\nend\n.end\n");
    let json = folder.json("run a.pica --vertices 2 --json");
    let mut expected: Vec<Vec<f32>> = Vec::new();
    for (seed, count) in [(1u32, 96 * 4), (2, 2 * 64)] {
        let mut x = seed;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            ((x >> 8) as f64 * 2f64.powi(-23) - 1.0) as f32
        };
        expected.push((0..count).map(|_| next()).collect());
    }
    let register = |n: usize, name: &str| -> Vec<f32> {
        let all = json["results"][n]["outputs"][name].as_array().unwrap();
        all.iter().map(|v| v.as_f64().unwrap() as f32).collect()
    };
    assert_eq!(register(0, "o0"), expected[1][..4]);
    assert_eq!(register(0, "o1"), expected[1][60..64]);
    assert_eq!(register(1, "o0"), expected[1][64..68]);
    assert_eq!(register(1, "o2"), expected[0][..4]);
    assert_eq!(register(1, "o3"), expected[0][4..8]);
    assert_eq!(register(0, "o4"), [7.0; 4]);
}

#[test]
fn files_of_floats_go_in_and_out() {
    let folder = Folder::new("run-files");
    let uniforms: Vec<f32> = (0..384).map(|n| n as f32).collect();
    folder.file("a.pica", ".alias u c95\n.proc main\nadd o0, u, v0\nmov o15, v1\nend\n.end\n");
    folder.file("u", floats(&uniforms)).file("in", vertex([[1.0, 2.0, 3.0, 4.0], [9.0, 8.0, 7.0, 6.0], [0.0; 4]]));
    let text = folder.good("run a.pica --uniforms u --inputs in --outputs out");
    assert_eq!(text, "out: 1 vertex (1 end), by interp\n");
    let mut expected = [0.0; 64];
    expected[..4].copy_from_slice(&[381.0, 383.0, 385.0, 387.0]);
    expected[60..].copy_from_slice(&[9.0, 8.0, 7.0, 6.0]);
    assert_eq!(values(&folder.read("out")), expected);
}

#[test]
fn native_code_gives_the_same_bytes_or_a_reason() {
    let folder = Folder::new("run-jit");
    folder.file("a.pica", VERTEX).file("g.pica", GEOMETRY);
    for shader in ["a.pica", "g.pica"] {
        folder.good(arguments("run --vertices 19 --outputs one").and(shader));
        let ended = folder.run(arguments("run --vertices 19 --backend jit --outputs two").and(shader));
        assert_eq!(ended.code, 0);
        assert_eq!(folder.read("one"), folder.read("two"), "{shader}");
        if cfg!(feature = "jit") {
            assert_eq!(ended.err, "");
            assert!(ended.out.ends_with("by vec4\n"), "{}", ended.out);
        } else {
            assert!(ended.err.contains("built without the jit feature"), "{}", ended.err);
            assert!(ended.out.ends_with("by tier0\n"), "{}", ended.out);
        }
    }
}

#[test]
fn a_fallback_is_reported_with_its_reason_and_gives_the_same_results() {
    let folder = Folder::new("fallback");
    // Each call continues at the next word, taken or not: thousands of combinations of open calls.
    let calls = "rcallu b0, .+1, 200\n".repeat(30) + &"nop\n".repeat(250);
    folder.file("a.pica", format!(".raw\n.entry 0\n{calls}mov o0, v0\nend\n"));
    let ended = folder.run("run a.pica --backend jit");
    assert_eq!((ended.code, ended.out.replace("by tier0", "by interp")), (0, folder.good("run a.pica")));
    let why =
        if cfg!(feature = "jit") { "control flow has more than 8192 states (at pc " } else { "built without the jit" };
    assert!(ended.err.starts_with("warning: running on tier 0, without native code: "), "{}", ended.err);
    assert!(ended.err.contains(why), "{}", ended.err);
    let text = folder.good("inspect a.pica");
    assert!(text.contains("reaches    unknown: control flow has more than 8192 states"), "{text}");
}

#[test]
fn geometry_emits_triangles_and_the_unit_sets_b15() {
    let folder = Folder::new("run-geometry");
    let (a, b, c) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]);
    folder.file("g.pica", GEOMETRY).file("in", [vertex([a, b, c]), vertex([b, c, a])].concat());
    let text = folder.good("run g.pica --inputs in");
    let head = "\
invocation 0: end, 1 triangle
  triangle 0, first two vertices exchanged in topology 3
    vertex 0
      o0  position  (1, 2, 3, 4)
      o1  color     (5, 6, 7, 8)
    vertex 1
      o0  position  (5, 6, 7, 8)
      o1  color     (9, 10, 11, 12)
    vertex 2
      o0  position  (9, 10, 11, 12)
      o1  color     (1, 2, 3, 4)
invocation 1: end, 2 triangles
";
    assert!(text.starts_with(head), "{text}");
    let json = folder.json("run g.pica --inputs in --json");
    assert_eq!(json["triangles"], 3);
    assert_eq!(json["results"][1]["triangles"][1]["vertices"][2]["o1"].to_string(), "[5.0,6.0,7.0,8.0]");
    // --bools sets b15 for the first invocation too.
    assert_eq!(folder.json("run g.pica --inputs in --bools 0x8000 --json")["triangles"], 4);
    assert_eq!(
        folder.good("run g.pica --inputs in --outputs out"),
        "out: 2 invocations (2 end), 3 triangles, by interp\n"
    );
    let out = values(&folder.read("out"));
    assert_eq!(out.len(), 3 * 3 * 64);
    // Triangle 2 is the second invocation's second: its vertex 1 has p = v1 = c, c = v2 = a.
    assert_eq!(out[(2 * 3 + 1) * 64..][..8], [c, a].concat());
}

#[test]
fn a_trace_shows_every_executed_instruction() {
    let folder = Folder::new("trace");
    folder.file("a.pica", ".constf k(2.0, 0.5, 1.0, 0.0)\n.proc main\nmov r0.xy, k\ncmp k.x, gt, lt, r0.x\njmpc !cmp.x, out\nnop\nout: mova a0.x, r0\nmov o0, r0\nend\n.end\n");
    let text = folder.good("run a.pica --trace");
    let lines: Vec<String> = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "vertex 0:",
            "0 mov r0.xy, c95 r0 = (2, 0.5, 0, 0)",
            "1 cmp c95.xxxx, gt, lt, r0.xxxx cmp = (false, false)",
            "2 rjmpc !cmp.x, 4 -> 4",
            "4 mova a0.x, r0.xxxx a0 = (2, 0)",
            "5 mov o0, r0 o0 = (2, 0.5, 0, 0)",
            "6 end",
            "end",
            "o0 (2, 0.5, 0, 0)",
        ]
    );
}

#[test]
fn a_trace_shows_the_loop_counter_and_the_backward_edge() {
    let folder = Folder::new("trace-loop");
    folder.file("a.pica", ".proc main\nfor i0\nmov r0, v0\nnop\n.end\nend\n.end\n");
    let text = folder.good("run a.pica --trace --int 0=1,5,2");
    let seen: Vec<_> =
        text.lines().filter(|l| l.contains("aL")).map(|l| l.split_whitespace().collect::<String>()).collect();
    // From y = 5 in steps of z = 2, x + 1 = 2 times, with an increment after the last.
    assert_eq!(seen, ["0rloopi0,2aL=5", "2nopaL=7,->1", "2nopaL=9"], "{text}");
}

#[test]
fn a_run_that_does_not_end_is_reported() {
    let folder = Folder::new("exits");
    folder.file("a.pica", ".raw\n.entry 0\nnop\nrjmpu !b0, 0\nnop\n");
    assert_eq!(folder.good("run a.pica"), "vertex 0: out of fuel (writes no output)\n");
    assert_eq!(folder.good("run a.pica --bools 1"), "vertex 0: past the last word (writes no output)\n");
    assert_eq!(folder.json("run a.pica --vertices 2 --json")["exits"].to_string(), r#"{"fuel":2}"#);
    let findings = folder.run("lint a.pica --json").out;
    assert!(findings.contains("runs-off-end") && findings.contains("endless-loop"), "{findings}");
}

#[test]
fn inspect_shows_tables_and_reads_and_writes() {
    let folder = Folder::new("inspect");
    folder.file("a.pica", VERTEX);
    let json = folder.json("inspect a.pica --json");
    let file = &json[0];
    assert_eq!((&file["kind"], &file["file"]), (&"PICA200 assembly".into(), &"a.pica".into()));
    let entry = &file["entries"][0];
    assert_eq!((&entry["stage"], &entry["pc"]), (&"vertex".into(), &0.into()));
    assert_eq!(entry["writes"].to_string(), r#"["o0","o1","o2"]"#);
    assert_eq!(entry["constants"].to_string(), r#"[{"register":"c95","value":[2.0,0.5,1.0,0.0]}]"#);
    assert_eq!(entry["uniforms"].to_string(), r#"[{"name":"matrix","registers":"c0-c3"}]"#);
    assert_eq!(entry["inputs"].to_string(), r#"[{"name":"pos","registers":"v0"}]"#);
    assert_eq!(entry["outputs"][1].to_string(), r#"{"register":"o1","components":"xy","semantic":"texcoord0"}"#);
    let reads = r#"{"inputs":["v0"],"floats":["c95"],"relative":[],"ints":["i0"],"bools":["b1"]}"#;
    assert_eq!(entry["reads"].to_string(), reads);
    assert_eq!(file["opcodes"]["add"], 3);
    let text = folder.good("inspect a.pica");
    for line in [
        "  entry 0: vertex at 0 to 12",
        "    reads      v0, c95, i0, b1",
        "    outputs    o0     position",
        "               o1.xy  texcoord0",
        "    uniforms   c0-c3  matrix",
        "    constants  c95  (2, 0.5, 1, 0)",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }
}

#[test]
fn a_folder_stands_for_its_shaders_and_a_bad_file_does_not_hide_others() {
    let folder = Folder::new("folder");
    folder.file("b.pica", VERTEX).file("g.asm", GEOMETRY).file("notes.txt", "nothing").file("a.pica", "oops\n");
    let ended = folder.run("inspect . --json");
    assert_eq!(ended.code, 2);
    assert_eq!(ended.err, "./a.pica:1:1: error: unknown instruction `oops`\n1 | oops\n  | ^\n");
    let json: Value = serde_json::from_str(&ended.out).unwrap();
    let names: Vec<_> = json.as_array().unwrap().iter().map(|f| f["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["./a.pica", "./b.pica", "./g.asm"]);
    assert!(json[0]["error"].as_str().unwrap().contains("unknown instruction"));
}

#[test]
fn an_unlinked_object_is_a_shader_with_one_entry() {
    let folder = Folder::new("object");
    let mut words = [0u32; 0x58 / 4];
    words[0] = u32::from_le_bytes(*b"DVOJ");
    // Offset and count of code and of descriptors.
    (words[8], words[9], words[10], words[11]) = (0x58, 2, 0x60, 1);
    let object: Vec<u8> =
        words.iter().chain(&[0x4C00_0000, 0x8800_0000, 0x36F, 0]).flat_map(|w| w.to_le_bytes()).collect();
    folder.file("a.dvoj", object).file("in", vertex([[1.0, 2.0, 3.0, 4.0], [0.0; 4], [0.0; 4]]));
    assert_eq!(folder.good("run a.dvoj --inputs in"), "vertex 0: end\n  o0  (1, 2, 3, 4)\n");
    let text = folder.good("inspect a.dvoj");
    assert!(text.starts_with("a.dvoj\n  unlinked PICA200 object (DVOJ), 104 bytes, version 0x0\n"), "{text}");
}

#[test]
fn the_bench_runs_on_the_oldest_cpu_too() {
    let folder = Folder::new("bench-cpu");
    folder.file("a.pica", ".proc main\nmul r0, v0, v0\nflr o0, r0\nend\n.end\n");
    let engines = |cpu: &'static str| -> Vec<String> {
        // A debug build warns.
        let ended = folder.run(arguments("bench --json --seconds-per-shader 0 a.pica --cpu").and(cpu));
        assert_eq!(ended.code, 0, "{}", ended.err);
        let engine = |line: &str| serde_json::from_str::<Value>(line).unwrap()["engine"].as_str().unwrap().to_string();
        ended.out.lines().map(engine).collect()
    };
    let host = engines("host");
    assert!(host.iter().any(|name| name == "tier0"), "{host:?}");
    assert_eq!(engines("baseline"), host);
    assert!(folder.bad("bench --cpu mips a.pica").contains("host, baseline"));
    assert!(folder.bad("bench --static --cpu baseline a.pica").contains("--static"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported() {
    let folder = Folder::new("full");
    folder.file("a.pica", VERTEX);
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = folder.command("run a.pica").stdout(full()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err.starts_with("error: standard output can't be written: "), "{err}");
    let err = folder.bad("run a.pica --outputs /dev/full");
    assert!(err.starts_with("error: /dev/full: can't be written: "), "{err}");
}

#[test]
fn errors_suggest_a_remedy() {
    let folder = Folder::new("errors");
    folder.file("a.pica", VERTEX).file("short", [0; 100]).file("mali", b"MBS1....").file("what", b"\x7fELF....");
    folder
        .file("cut.shbin", b"DVLB\x01\0\0\0")
        .file("pack", b"\x1f\x8b\x08\0")
        .file("empty", b"")
        .file("latin.s", b"n \xE9\n");
    std::fs::create_dir_all(folder.0.join("none")).unwrap();
    for (args, words) in [
        ("inspect nothere", "error: nothere: no such file\nhelp: check the path\n"),
        ("inspect none", "error: none: has no shader files in it\nhelp: picajit reads SHBIN, DVOJ"),
        ("disasm none", "error: none: is a folder\nhelp: name one shader file in it\n"),
        ("run mali", "error: mali: is a Mali-200/400 shader (MBS1), no PICA200 shader\nhelp: "),
        ("inspect mali", "error: mali: begins like a Mali-200/400 shader (MBS1) and is damaged or cut off: at 0x4: "),
        ("inspect what", "error: what: no known shader file begins with \"\\x7fELF\"\nhelp: "),
        ("inspect empty", "error: empty: is empty\nhelp: "),
        ("inspect pack", "error: pack: is gzip-compressed\nhelp: decompress it with gunzip\n"),
        ("disasm cut.shbin", "error: cut.shbin: begins like a PICA200 shader (SHBIN) and is damaged or cut off: at 0x"),
        ("disasm latin.s", "error: latin.s: is named like assembly and is not UTF-8 text (byte 0x2)\n"),
        ("run a.pica --entry 1", "error: a.pica: has no entry 1\nhelp: its only entry is 0\n"),
        ("run a.pica --uniforms short", "error: short: has 100 bytes; uniforms are 1536 "),
        ("run a.pica --inputs short", "error: short: has 100 bytes; inputs are a multiple of 256"),
        ("run a.pica --inputs short --vertices 3", "error: short: has 100 bytes; inputs of 3 vertices are 768 "),
        ("run a.pica --trace --backend jit", "error: only the interpreter can trace\nhelp: leave out "),
        ("run a.pica --outputs none/no/out", "error: none/no/out: can't be written: "),
        (
            "run a.pica --vertices 0",
            "error: invalid value '0' for '--vertices <N>': expected a number from 1 to 1048576",
        ),
        (
            "run a.pica --int 4=1,2,3",
            "error: invalid value '4=1,2,3' for '--int <K=x,y,z>': expected K=x,y,z with K from 0 to 3",
        ),
        ("run a.pica --bools 65536", "error: invalid value '65536' for '--bools <MASK>': expected sixteen bits"),
        ("asm a.pica", "error: the following required arguments were not provided:\n  --output <OUT>"),
        ("frobnicate", "error: unrecognized subcommand 'frobnicate'"),
    ] {
        let err = folder.bad(args);
        assert!(err.starts_with(words), "{args}\n{err}");
    }
    // A run that can't begin does not touch its output file.
    folder.file("kept", "precious");
    folder.bad("run a.pica --inputs short --outputs kept");
    assert_eq!(folder.read("kept"), b"precious");
}

#[test]
fn warnings_of_the_assembler_are_printed_and_do_not_fail() {
    let folder = Folder::new("warnings");
    folder.file("a.pica", ".proc main\nmov o0.yx, v0\nend\n.end\n");
    let ended = folder.run("asm a.pica -o a.shbin");
    assert_eq!(ended.code, 0);
    assert!(ended.err.starts_with("a.pica:2:5: warning: components `o0.yx` are not in order\n"), "{}", ended.err);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = Folder::new("pipe");
    folder.file("a.pica", VERTEX);
    for args in
        ["run a.pica --vertices 100000", "run a.pica --vertices 100000 --json", "run a.pica --vertices 20000 --trace"]
    {
        let mut child = folder.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""), "{args}");
    }
}

#[test]
fn the_corpus_is_readable_and_gives_the_same_results_on_every_engine() {
    let files = third_party_files("shbin", "shbin");
    if files.is_empty() {
        return;
    }
    let folder = Folder::new("corpus");
    let json = folder.json(files.iter().fold(arguments("inspect --json"), Args::value));
    assert_eq!(json.as_array().unwrap().len(), files.len());
    for file in json.as_array().unwrap() {
        let path = file["file"].as_str().unwrap();
        for entry in file["entries"].as_array().unwrap() {
            let index = entry["index"].to_string();
            let run = arguments("run --vertices 5").value(path).and("--entry").value(index);
            assert_eq!(folder.run(run.clone().and("--outputs one")).code, 0, "{path}");
            assert_eq!(folder.run(run.and("--outputs two --backend jit")).code, 0, "{path}");
            assert_eq!(folder.read("one"), folder.read("two"), "{path}");
        }
    }
}
