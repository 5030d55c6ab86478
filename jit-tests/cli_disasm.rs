//! `picajit disasm`: text that assembles again, words as C, and the stages.

use super::{Folder, GEOMETRY, VERTEX, arguments};
use serde_json::Value;
#[cfg(unix)]
use {crate::prerequisites::skipped, std::process::Command};

#[test]
fn disassembly_assembles_to_the_same_program() {
    let folder = Folder::new("round");
    folder.file("a.pica", VERTEX).file("g.pica", GEOMETRY);
    let ended = folder.run("asm a.pica g.pica -o both.shbin");
    assert_eq!((ended.code, ended.out.as_str()), (0, ""));
    assert!(ended.err.starts_with("both.shbin: ") && ended.err.contains("2 entries"), "{}", ended.err);
    assert!(folder.read("both.shbin").starts_with(b"DVLB"));
    folder.file("again.pica", folder.good("disasm both.shbin"));
    let json = folder.json("asm again.pica -o again.shbin --json");
    assert_eq!(json["bytes"], folder.read("again.shbin").len());
    let hash = |file: &'static str| folder.json(arguments("inspect --json").and(file))[0]["hash"].clone();
    assert_eq!(hash("both.shbin"), hash("again.shbin"));
    assert_ne!(hash("both.shbin"), hash("a.pica"));
    // Entry 1 is the geometry program.
    assert!(folder.good("disasm both.shbin --entry 1").contains(".gsh"));
    assert!(!folder.good("disasm both.shbin --entry 0").contains(".gsh"));
    assert!(folder.good("run both.shbin --entry 1").starts_with("invocation 0: end, 1 triangle"));
}

#[test]
#[cfg(unix)]
fn words_of_several_shaders_are_one_c_file() {
    let folder = Folder::new("arrays");
    folder.file(
        "a.pica",
        ".constf k(1.5, -2, 0, 1)\n.consti n(1, 2, 3, 4)\n.out o position\n.proc main\nmov o, k\nend\n.end\n",
    );
    folder.file("b.g.pica", GEOMETRY);
    folder.file("a.h", folder.good("disasm a.pica --stage words"));
    folder.file("b.h", folder.good("disasm b.g.pica --stage words"));
    folder.file(
        "main.c",
        r#"
#include "a.h"
#include "b.h"
#include <stdio.h>
int main(void) {
    printf("%d %u %d ", A_CODE_WORDS, (unsigned)(a_code[A_ENTRY_0] >> 26), A_OPDESCS_WORDS);
    printf("%d ", b_g_code[B_G_ENTRY_0] != 0 && B_G_OPDESCS_WORDS == sizeof b_g_opdescs / 4);
    for (int k = 0; k < A_0_C_CONSTANTS; k++)
        printf("c%d %g %g ", a_0_c_constants[k].n, a_0_c_constants[k].value[0], a_0_c_constants[k].value[1]);
    printf("%d %d", A_0_I_CONSTANTS, a_0_i_constants[0].value[3]);
}
"#,
    );
    for compiler in [&["gcc", "-std=c99"][..], &["g++", "-xc++"][..]] {
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "main.c", "-o", "main"]);
        let Ok(ended) = command.current_dir(&folder.0).output() else {
            skipped("definitions in C: no gcc or g++");
            return;
        };
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let ended = Command::new(folder.0.join("main")).output().unwrap();
        let out = String::from_utf8(ended.stdout).unwrap();
        let fields: Vec<&str> = out.split(' ').collect();
        assert_eq!(fields, ["2", "19", "1", "1", "c95", "1.5", "-2", "1", "4"], "{out}");
    }
}

#[test]
fn every_stage_can_be_printed() {
    let folder = Folder::new("stages");
    folder.file("a.pica", ".proc main\nmov o0, v1\nend\n.end\n");
    let words = folder.good("disasm a.pica --stage words");
    let code = "#define A_CODE_WORDS 2\nstatic const uint32_t a_code[2] = {\n    0x4c001000, 0x88000000,\n};\n";
    let opdescs = "#define A_OPDESCS_WORDS 1\nstatic const uint32_t a_opdescs[1] = {\n    0x0000036f,\n};\n";
    assert_eq!(words, format!("#include <stdint.h>\n#define A_ENTRY_0 0 /* the vertex shader */\n{code}{opdescs}"));
    let listing = folder.good("disasm a.pica --stage inst");
    assert!(listing.contains("; entry 0 (vertex)\n   0  4c001000    0 0000036f  mov o0, v1\n"), "{listing}");
    assert!(listing.ends_with("   1  88000000                end\n"), "{listing}");
    let json = folder.json("disasm a.pica --stage inst --json");
    let first = r#"{"pc":0,"word":"4c001000","descriptor":{"index":0,"word":"0000036f"},"text":"mov o0, v1"}"#;
    assert_eq!(json["words"][0].to_string(), first);
    for (stage, has) in
        [("cfg", "vertex entry at 0: "), ("ssa", "vertex entry at 0, "), ("clif", "function "), ("host", "ret")]
    {
        let ended = folder.run(arguments("disasm a.pica --json --stage").and(stage));
        if cfg!(feature = "jit") {
            let json: Value = serde_json::from_str(&ended.out).unwrap();
            assert!(json["text"].as_str().unwrap().contains(has), "{stage}: {}", ended.out);
            assert_eq!(json["entry"], 0);
        } else {
            assert_eq!((ended.code, ended.out.as_str()), (2, ""));
            assert!(ended.err.contains("built without the jit feature"), "{}", ended.err);
        }
    }
}
