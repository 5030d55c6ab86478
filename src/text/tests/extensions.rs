//! Forms beyond picasso's language.

use super::super::{Assembler, Options, assemble};
use super::lines;
use crate::isa::{Inst, Stage};

fn code(source: &str) -> Vec<u32> {
    let source = format!(".raw\n.entry 0 0\n{}", lines(source));
    assemble(&source).unwrap_or_else(|e| panic!("{e}")).shbin.code
}

#[test]
fn raw_words_and_transfers() {
    assert_eq!(code(".word 0x40000000, 1"), [0x4000_0000, 1]);
    assert_eq!(code("rcall 12, 3 / rcallc cmp.x, 4095, 255"), [0x9000_3003, 0x97BF_FCFF]);
    assert_eq!(code("rcallu b1, 2, 0 / rifu b15, 0, 1"), [0x9840_0800, 0x9FC0_0001]);
    assert_eq!(code("rifc cmp.y ignore !cmp.x, 5, 0"), [0xA1C0_1400]);
    assert_eq!(code("rloop i2, 9 / rjmpc !cmp.x || !cmp.y, 4"), [0xA480_2400, 0xB000_1000]);
    assert_eq!(code("rjmpu !b0, 7"), [0xB400_1C01]);
    // Labels, forwards and backwards, and the word's own address.
    assert_eq!(code("a: nop / rloop i0, b-1 / nop / b: rcall a, b-a / rjmpu b0, .+2")[1], 0xA400_0800);
    assert_eq!(code("a: nop / rloop i0, b-1 / nop / b: rcall a, b-a / rjmpu b0, .+2")[3..], [0x9000_0003, 0xB400_1800]);
    let e = assemble(".raw\nrcall 1, 256").expect_err("length");
    assert_eq!(e.kind.to_string(), "length 256: expected 0 to 255");
    let e = assemble(".raw\nrjmpu b0, 0-1").expect_err("address");
    assert_eq!(e.kind.to_string(), "address -1: expected 0 to 4095");
}

#[test]
fn exact_forms_and_odd_operands() {
    let shown = |source: &str| {
        let a = assemble(&format!(".raw\n.entry 0 0\n{source}")).unwrap_or_else(|e| panic!("{e}"));
        let od = a.shbin.opdescs.first().map_or(0, |d| d.word);
        Inst::decode(a.shbin.code[0], od).to_string()
    };
    for text in [
        "dphi! r0, r1, r2",
        "dphi r0, r1, c2",
        "madi! r0, r1, r2, r3",
        "slti! o9.xw, v15, -r2[aL].wzyx",
        "mov r0, v3[a0.y]",
        "mov r0._, r1",
        "mova a0._, r1",
        "mova a0.yzw, c1",
        "cmp r1, true6, true7, r2",
        "setemit 3, inv",
        "breakc cmp.x ignore !cmp.y",
        "add r0, v1, v2",
        "mad r2.xyz, -v1.xxyz, c5[a0.x].wzyx, r3",
    ] {
        assert_eq!(shown(text), text);
    }
    // `.raw` disables padding.
    assert_eq!(code("ifu b0 / .end / ifu b1 / .else / .end"), [0x9C00_0400, 0x9C40_0800]);
}

#[test]
fn versions_file_names_and_places() {
    let source = ".program 0x12 \"a b.vsh\" \"c\"\n.proc main\n# 70 \"inc.h\"\nnop\nnop\n# 9 \"input\"\n.end\n";
    let a = assemble(source).unwrap();
    assert_eq!((a.shbin.version, &a.shbin.file_names[..]), (0x12, &["a b.vsh".to_string(), "c".to_string()][..]));
    assert_eq!((&a.places[..], &a.names[..]), (&[(0, 70), (0, 71)][..], &["inc.h".to_string()][..]));
    let places = [("inc.h".to_string(), 70), ("x:y".to_string(), 71)];
    let text = super::super::disasm::disassemble_with_places(&a.shbin, &places);
    assert!(text.starts_with(".program 0x12 \"a b.vsh\" \"c\"\n"), "{text}");
    assert!(text.contains("\n# 70 \"inc.h\"\n    nop\n# 71 \"x_y\"\n    nop\n"), "{text}");
    let again = assemble(&text).unwrap();
    assert_eq!((again.shbin, again.places), (a.shbin, vec![(0, 70), (1, 71)]));
    for (line, message) in
        [(".program 1 a", "expected a file name in quotes, found `a`"), (".program x", "expected a number, found `x`")]
    {
        assert_eq!(assemble(line).unwrap_err().kind.to_string(), message);
    }
}

#[test]
fn descriptors_by_number() {
    let a = assemble(
        ".raw\n.entry 0 0\n.opdesc 0x123, 7\n.opdesc 0x36F\nmov r0, r1\nmov r0, r1 @3\nmad r0, r1, r1, r1 @3\n",
    )
    .expect("assembles");
    let od: Vec<_> = a.shbin.opdescs.iter().map(|d| (d.word, d.extra)).collect();
    assert_eq!(od, [(0x123, 7), (0x36F, 0), (0, 0), (0x0D86_C36F, 0)]);
    assert_eq!(a.shbin.code.iter().map(|w| w & 0x1F).collect::<Vec<_>>(), [1, 3, 3]);
    let e = assemble(".raw\n.opdesc 0x123\nmov r0, r1 @0").expect_err("another descriptor");
    assert_eq!(e.kind.to_string(), "operand descriptor 0 can't be used by this instruction");
}

#[test]
fn several_files_one_program() {
    let vertex =
        ".fvec m[4], n\n.constf k(1, 2, 3, 4)\n.out p pos\n.proc vmain\ncall shared\nend\n.end\n.entry vmain\n";
    let geometry =
        ".gsh point c8\n.fvec g\n.out p pos\n.out - dummy\n.proc gmain\nsetemit 0\nend\n.end\n.entry gmain\n";
    let library = ".fvec n, m[4]\n.nodvle\n.proc shared\nmov p9, n\nmov r0, m\n.end\n.alias x r0\n".replace("p9", "r9");
    let mut asm = Assembler::new(Options::default());
    asm.add_file("v", vertex).expect("vertex");
    asm.add_file("l", &library).expect("library");
    asm.add_file("g", geometry).expect("geometry");
    let a = asm.finish().expect("links");
    assert_eq!(a.shbin.dvles.len(), 2);
    let [v, g] = a.shbin.dvles.as_slice() else { unreachable!() };
    assert_eq!((v.stage, v.entry, v.end, g.stage, g.entry, g.end), (Stage::Vertex, 0, 2, Stage::Geometry, 4, 6));
    assert!(g.merge_outmaps && !v.merge_outmaps);
    // n was c4 in the vertex file and still is.
    assert_eq!(a.shbin.code[2] >> 12 & 0x7F, 0x24);
    assert_eq!(a.lines[2], (1, 4));
    // The same in one text.
    let one = format!("{vertex}.file\n{library}.file\n{geometry}");
    assert_eq!(assemble(&one).unwrap_or_else(|e| panic!("{e}")).shbin, a.shbin);

    // An error found at the end of a file is shown at its cause.
    let e = assemble(".proc main\njmpc cmp.x, gone\n.end\n.file\n").expect_err("no such label");
    assert_eq!((e.line, e.column), (2, 13));

    let mut asm = Assembler::new(Options::default());
    asm.add_file("v", vertex).expect("vertex");
    let e = asm.add_file("w", ".fvec m[3]").expect_err("another size");
    assert_eq!(
        e.to_string().lines().next(),
        Some("w:1:7: error: uniform `m` has another type or size in an earlier file")
    );
}
