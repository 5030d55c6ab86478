//! `picajit lint` and `inspect --cost`: texts, exit codes, JSON, SARIF; shaders inside of other
//! files; endings of names; what verbs do with folders.

use super::{Folder, arguments};
use serde_json::Value;

/// An error in line 3, a warning in line 5, and notes in lines 1 and 2.
const FAULTY: &str = "\
.in pos
.in unused
.out position position
.proc main
    mov position.xyz, r1
    end
.end
";
const GOOD: &str = ".in pos\n.out position position\n.proc main\n    mov position, pos\n    end\n.end\n";

#[test]
fn findings_have_places_helps_and_exit_codes() {
    let folder = Folder::new("lint");
    folder.file("a.pica", FAULTY).file("good.vsh", GOOD);
    let ended = folder.run("lint a.pica good.vsh");
    assert_eq!((ended.code, ended.err.as_str()), (1, ""));
    let expected = "\
a.pica:1: note: v0 is declared and never read [unused-input]
    .in pos
    help: remove the declaration, or read the input
a.pica:2: note: v1 is declared and never read [unused-input]
    .in unused
    help: remove the declaration, or read the input
a.pica:3: error: o0.w is mapped and never written [unwritten-output]
    .out position position
    help: write every mapped component on every path, or map fewer
a.pica:5: warning: r1.xyz is read, and no instruction writes it [read-before-write]
    mov position.xyz, r1
    help: write the component first
2 shaders: 1 errors, 1 warnings, 2 notes
";
    assert_eq!(ended.out, expected);
    assert_eq!(folder.good("lint good.vsh"), "1 shaders: 0 errors, 0 warnings, 0 notes\n");
    assert_eq!(folder.run("lint --deny nonsense good.vsh").code, 2);
    assert_eq!(folder.run("lint missing.pica").code, 2);
}

#[test]
fn deny_takes_rules_and_severities() {
    let folder = Folder::new("lint-deny");
    folder.file("a.pica", FAULTY.replace("mov position.xyz, r1", "mov position, pos"));
    assert_eq!(folder.run("lint a.pica").code, 0, "a note");
    for (deny, code) in [("note", 1), ("warning", 0), ("unused-input", 1), ("stale-output", 0)] {
        assert_eq!(folder.run(arguments("lint a.pica --deny").and(deny)).code, code, "{deny}");
    }
}

#[test]
fn json_and_sarif_have_rules_lines_and_evidence() {
    let folder = Folder::new("lint-json");
    folder.file("a.pica", FAULTY);
    let json: Value = serde_json::from_str(&folder.run("lint a.pica --json").out).unwrap();
    let findings = json[0]["findings"].as_array().unwrap();
    let error = findings.iter().find(|f| f["severity"] == "error").unwrap();
    assert_eq!((&error["rule"], &error["line"], &error["pc"]), (&"unwritten-output".into(), &3.into(), &1.into()));
    assert!(error["evidence"].as_str().unwrap().contains("3dbrew"));
    let sarif: Value = serde_json::from_str(&folder.run("lint a.pica --sarif").out).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let result = run["results"].as_array().unwrap().iter().find(|r| r["level"] == "error").unwrap();
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 3);
    assert_eq!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "a.pica");
    let ids: Vec<&Value> = run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|r| &r["id"]).collect();
    assert!(ids.contains(&&result["ruleId"]));
    let rules = folder.json("lint --rules --json");
    // Errors of sources are results of one more rule.
    assert_eq!(rules.as_array().unwrap().len() + 1, ids.len());
}

#[test]
fn shaders_inside_of_other_files_are_found() {
    let folder = Folder::new("scan");
    folder.file("a.pica", GOOD);
    assert_eq!(folder.run("asm a.pica -o a.shbin").code, 0);
    let shader = folder.read("a.shbin");
    let mut game = b"3DSX junk DVLB junk".to_vec();
    game.extend(&shader);
    game.extend([0; 9]);
    game.extend(&shader);
    folder.file("game.3dsx", &game);
    let json = folder.json("inspect --scan game.3dsx --json");
    let names: Vec<&str> = json.as_array().unwrap().iter().map(|f| f["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["game.3dsx@0x13".to_string(), format!("game.3dsx@{:#x}", 19 + shader.len() + 9)]);
    assert_eq!(folder.good("lint --scan game.3dsx"), "2 shaders: 0 errors, 0 warnings, 0 notes\n");
    let sizes: Vec<u64> = json.as_array().unwrap().iter().map(|f| f["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [shader.len() as u64; 2]);
    folder.file("none.elf", "nothing");
    for args in ["inspect --scan none.elf", "lint --scan none.elf"] {
        let ended = folder.run(args);
        assert_eq!((ended.code, ended.out.starts_with("error")), (1, false), "{args}");
        assert!(ended.err.starts_with("error: none.elf: no shader is inside of it\nhelp: "), "{}", ended.err);
    }
}

#[test]
fn costs_count_instructions_of_paths_words_and_lines() {
    let folder = Folder::new("cost");
    let source = ".in pos\n.out position position\n.bool b\n.consti n(2, 0, 1, 0)\n.proc main\n    mov position, pos\n\
                  for n\n    nop\n    nop\n.end\n    ifu b\n    nop\n.end\n    end\n.end\n";
    folder.file("a.pica", source);
    let json = folder.json("inspect --cost a.pica --json");
    let cost = &json[0]["entries"][0]["cost"];
    // mov, for, three times two nops, ifu, end; and the nop of the branch.
    assert_eq!((&cost["shortest"], &cost["longest"]), (&10.into(), &11.into()), "{cost:#}");
    let words: Vec<(u64, u64)> = cost["words"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| (w["least"].as_u64().unwrap(), w["most"].as_u64().unwrap()))
        .collect();
    assert_eq!(words, [(1, 1), (1, 1), (3, 3), (3, 3), (1, 1), (0, 1), (1, 1)]);
    let text = folder.good("inspect --cost a.pica");
    assert!(text.contains("10 to 11 instructions a run") && text.contains("estimate"), "{text}");
    folder.file("loop.pica", ".proc main\nhere:\n    cmp v0, lt, lt, v0\n    jmpc cmp.x, here\n    end\n.end\n");
    let json = folder.json("inspect --cost loop.pica --json");
    let cost = &json[0]["entries"][0]["cost"];
    assert_eq!((&cost["shortest"], &cost["longest"]), (&3.into(), &Value::Null));
    assert!(folder.good("inspect --cost loop.pica").contains("3 to unbounded instructions a run"));
}

#[test]
fn verbs_take_sources_by_every_ending_and_folders_with_fragments() {
    let folder = Folder::new("endings");
    folder.file("a.vsh", GOOD).file("b.gsh", ".gsh\n.out - position\n.proc main\n    emit\n    end\n.end\n");
    assert_eq!(folder.good("inspect a.vsh b.gsh --json").matches("\"file\"").count(), 2);
    folder.file("part.pica", "mov r0, r1\n");
    let ended = folder.run("diff . --vertices 4");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(
        ended.err.contains("part.pica:1:1: error:") && ended.out.contains("2 entries"),
        "{}{}",
        ended.out,
        ended.err
    );
    assert_eq!(folder.run("diff part.pica a.vsh --vertices 4").code, 2, "a named file must be good");
}

#[test]
fn other_comments_have_a_hint() {
    let folder = Folder::new("comments");
    folder.file("a.pica", "// a comment\n").file("b.pica", ".proc main\n  // x: y\nend\n.end\n");
    for file in ["a.pica", "b.pica"] {
        let ended = folder.run(arguments("inspect").and(file));
        assert!(ended.err.contains("error: `//` begins no comment: expected `;`"), "{}", ended.err);
    }
}

#[test]
fn a_file_of_uniforms_leaves_the_constants() {
    let folder = Folder::new("constants");
    folder.file(
        "a.pica",
        ".constf k(1, 2, 3, 4)\n.out position position\n.proc main\n    mov position, k\n    end\n.end\n",
    );
    folder.file("u", [0u8; 1536]);
    assert!(folder.good("run a.pica --uniforms u").contains("(1, 2, 3, 4)"));
    let nan = ".constf k(inf, -inf, 0, 0)\n.proc main\n    mov r0, k\n    add o0, k.yyyy, r0.xxxx\n    end\n.end\n";
    folder.file("nan.pica", nan);
    let trace = folder.good("run nan.pica --trace");
    assert!(trace.contains("o0 = (nan, ") && !trace.contains("-nan"), "{trace}");
}

/// A program of two files: the second is a library, whose constant is lost.
const MAIN: &str = ".in pos\n.out position position\n.proc main\n    mov r0, pos\n    call scale\n    mov position, r0\n    end\n.end\n";
const LIBRARY: &str =
    ".nodvle\n.constf half(0.5, 0.5, 0.5, 0.5)\n.proc scale\n    mul r0, half, r0\n    mov r7, r0\n.end\n";

#[test]
fn sources_with_a_library_are_one_program() {
    let folder = Folder::new("library");
    folder.file("main.pica", MAIN).file("scale.pica", LIBRARY);
    let lost =
        "scale.pica:2: warning: `.constf` has no effect: `.nodvle` drops the tables of this file [lenient-reading]";
    let unused = "scale.pica:5: note: r7.xyzw is written and never read [unused-value]";
    for args in ["lint main.pica scale.pica", "lint scale.pica main.pica"] {
        let ended = folder.run(args);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{args}");
        let lines: Vec<&str> = ended.out.lines().filter(|line| !line.starts_with("    ")).collect();
        assert_eq!(lines, [lost, unused, "1 shaders: 0 errors, 1 warnings, 1 notes"], "{args}");
    }
    let json: Value = serde_json::from_str(&folder.run("lint main.pica scale.pica --json").out).unwrap();
    assert_eq!((&json[0]["file"], &json[0]["findings"][1]["file"]), (&"main.pica".into(), &"scale.pica".into()));
    let inspected = folder.json("inspect main.pica scale.pica --cost --json");
    assert_eq!((inspected.as_array().unwrap().len(), &inspected[0]["file"]), (1, &"main.pica".into()));
    let cost = folder.good("inspect main.pica scale.pica --cost");
    assert!(cost.contains("mul r0, half, r0"), "{cost}");
    assert_eq!(folder.run("run main.pica scale.pica").code, 0);
    assert!(folder.run("diff main.pica scale.pica --vertices 4").out.contains("1 entry"));
    assert_eq!(folder.run("explore scale.pica main.pica -o page.html").code, 0);
    let page = String::from_utf8(folder.read("page.html")).unwrap();
    assert!(page.contains("; ---- scale.pica ----") && page.contains(".file ; ---- main.pica ----"));
    // Alone neither is a program; in a folder the library serves each source beside it.
    assert_eq!(folder.run("lint main.pica").code, 2);
    let alone = folder.run("lint scale.pica");
    assert!(alone.err.contains("help: a file with `.nodvle` is a library"), "{}", alone.err);
    std::fs::create_dir(folder.0.join("sub")).unwrap();
    folder.file("sub/one.pica", MAIN).file("sub/two.pica", MAIN).file("sub/scale.pica", LIBRARY);
    let ended = folder.run("lint sub");
    assert!(
        ended.code == 0 && ended.out.ends_with("2 shaders: 0 errors, 2 warnings, 2 notes\n"),
        "{}{}",
        ended.out,
        ended.err
    );
    // Two sources with a `main` each are no one program.
    folder.file("other.pica", MAIN);
    let ended = folder.run("lint main.pica other.pica scale.pica");
    assert!(ended.code == 0 && ended.out.ends_with("2 shaders: 0 errors, 2 warnings, 2 notes\n"), "{}", ended.out);
    // A container joins no sources.
    assert_eq!(folder.run("asm main.pica scale.pica -o both.shbin").code, 0);
    assert!(folder.bad("run both.shbin scale.pica").contains("several files are sources of one program"));
}
