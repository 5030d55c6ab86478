//! Sources with the words that picasso generates for them (language notes, section 17).

use super::super::{Options, assemble, assemble_with};
use super::lines;
use crate::container::shbin::{Constant, GeometryMode, Output, Uniform};
use crate::isa::Stage;

pub(super) const BODIES: &[(&str, &str, &str, &str)] = &[
    ("B01", "mov r0.xyz, v0 / mov r0.w, c95.y / end", "4E000000 4E07F001 88000000", "0000036E 00000AA1"),
    ("B02", "add r1, -c4, r2.wzyx / mul o0.xy, r1, r2.yyyy", "02224900 20011901", "0039037F 0015436C"),
    ("B03", "dph r0, r1, c3[a0.x] / dph r0, c3, r1 / sgei r0, r1, r2", "620C5180 0E023880 26011900", "0006C36F"),
    (
        "B04",
        "mad r2, r14, c5.x, r2 / mad r2, r14, r3, c5.x / mad r2, r1, r1, -r1",
        "F23C9640 D23D34A1 F2224622",
        "0D80036F 0006C36F 0DC6C36F",
    ),
    (
        "B05",
        "mova a0.xy, r0.yx / mov o0, c8[a0.y+2] / mov o1, c8[aL] / mov o2, c8[3]",
        "48010000 4C12A001 4C3A8001 4C42B001",
        "0000080C 0000036F",
    ),
    ("B06", "cmp c0.y, ge, lt, r1.x / mov r0.x, -r1", "BD420880 4E011001", "00000AA0 00000378"),
    (
        "B07",
        "mov r0.x, r1.xxxx / mov r2.x, r1 / mul r3.x, r1, r2.yyyy / rcp r3.x, r1.xyzw",
        "4E011000 4E411000 22611900 3A611000",
        "00100008",
    ),
    ("B08", "mov r0.x, r1 / dp3 r0.x, c0, r1 / dp4 r0.x, c0, r1.xyzz", "4E011000 06020880 0A020880", "00068368"),
    ("B09", "ifc cmp.x && !cmp.y / nop / .else / nop / .end / end", "A2400801 84000000 84000000 88000000", ""),
    ("B10", "ifc !cmp.y / .end / end", "A2C00800 84000000 88000000", ""),
    ("B11", "for i1 / ifu b2 / nop / .end / .end", "A4400C00 9C800C00 84000000 84000000 84000000", ""),
    ("B12", "for i0 / breakc cmp.x || cmp.y / .end / end", "A4000800 8F000000 84000000 88000000", ""),
    ("B13", "ifu b0 / jmpu !b3, out / .else / .end / out: end", "9C000C00 B4C00C01 84000000 88000000", ""),
    ("B14", "ifu b0 / nop / in: .end / jmpc cmp.y, in", "9C000800 84000000 B3C00800 84000000", ""),
    (
        "B16",
        "setemit 0 / setemit 1, inv / setemit 2, prim inv / emit / break / end",
        "AC000000 AD400000 AEC00000 A8000000 80000000 88000000",
        "",
    ),
    (
        "B18",
        "mov r0, v14[1] / mov r0, r15[1] / mov r0, c010 / mov r0, c0[a0.x-1]",
        "4E00F000 4E020000 4E028000 4E020000",
        "0000036F",
    ),
    (
        "B22",
        "litp r0, r1 / dst r2, r3, c4 / ex2 r0.y, r1.z / slt r0, v1, v1",
        "1E011000 6644D200 16011001 2A001080",
        "0006C36F 00001544",
    ),
];

pub(super) const FILES: &[(&str, &str, &str, &str)] = &[
    (
        "F15",
        ".proc main / callc !cmp.x, sub / call sub / .end / .proc sub / .end",
        "95800C01 90000C01 84000000 84000000",
        "",
    ),
    (
        "F17",
        ".alias a -c6.wyxz / .proc main / mov r0, a.xxww / mov r0, -a.y / mov r0, a[2] / end / .end",
        "4E026000 4E026001 4E028002 88000000",
        "00001F5F 00000AAF 00001A5F",
    ),
    (
        "F19",
        ".fvec m[4], t / .bool f / .constf k(1, -0.5, 0.1, 3) / .out p position / .proc main / dp4 p.x, m[1], v0 / \
         mov p.yzw, k / ifu f / mov r0, t / .end / end / .end",
        "08021000 4C07F001 9C001000 4E024002 88000000",
        "0006C368 00000367 0000036F",
    ),
    (
        "F20",
        ".gsh point c4 / .fvec q / .bool b / .consti n(3, 0, 1, -1) / .proc main / for n / mov o0, q[aL] / .end / \
         ifu b / emit / .end / end / .end",
        "A4C00400 4C1A4000 9C001000 A8000000 88000000",
        "0000036F",
    ),
    ("F21", ".proc e / .end / .fvec u / .proc main / nop / .end", "84000000", ""),
];

fn hex(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|w| u32::from_str_radix(w, 16).expect("hex")).collect()
}

pub(super) fn body(text: &str) -> String {
    format!(".proc main\n{}\n.end\n", lines(text))
}

#[test]
fn known_words_and_descriptors() {
    let bodies = BODIES.iter().map(|&(n, s, c, d)| (n, body(s), c, d));
    let files = FILES.iter().map(|&(n, s, c, d)| (n, lines(s), c, d));
    let mut count = 0;
    for (name, source, code, descriptors) in bodies.chain(files) {
        let a = assemble(&source).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(a.shbin.code, hex(code), "{name}: {:08X?}", a.shbin.code);
        let words: Vec<u32> = a.shbin.opdescs.iter().map(|d| d.word).collect();
        assert_eq!(words, hex(descriptors), "{name}: {words:08X?}");
        assert_eq!(a.lines.len(), a.shbin.code.len(), "{name}");
        count += 1;
    }
    assert_eq!(count, 22);
}

#[test]
fn tables_of_the_vertex_file() {
    let a = assemble(&lines(FILES[2].1)).expect("F19");
    let d = &a.shbin.dvles[0];
    assert_eq!(d.constants, [Constant::Float { register: 95, value: [0x3F0000, 0xBE0000, 0x3B9999, 0x408000] }]);
    let names: Vec<_> = d.uniforms.iter().map(|u| (u.name.as_str(), u.first, u.last)).collect();
    assert_eq!(names, [("m", 0x10, 0x13), ("t", 0x14, 0x14), ("f", 0x78, 0x78)]);
    assert_eq!((d.stage, d.entry, d.end, d.input_mask, d.output_mask), (Stage::Vertex, 0, 5, 0, 1));
}

#[test]
fn tables_of_the_geometry_file() {
    let a = assemble(&lines(FILES[3].1)).expect("F20");
    let d = &a.shbin.dvles[0];
    assert_eq!(d.constants, [Constant::Int { register: 3, value: [3, 0, 1, 255] }]);
    let names: Vec<_> = d.uniforms.iter().map(|u| (u.name.as_str(), u.first)).collect();
    assert_eq!(names, [("q", 0x14), ("b", 0x78)]);
    assert_eq!((d.stage, d.geometry, d.merge_outmaps), (Stage::Geometry, GeometryMode::Point, false));
}

#[test]
fn whole_files() {
    let a = assemble(".proc main\nend\n.end\n").expect("the smallest program");
    assert_eq!(a.shbin.code, [0x8800_0000]);
    let d = &a.shbin.dvles[0];
    assert_eq!((a.shbin.version, d.version, d.entry, d.end), (0, 0x1002, 0, 1));
    assert_eq!((d.input_mask, d.output_mask), (0, 0));
    assert!(d.constants.is_empty() && d.labels.is_empty() && d.outputs.is_empty() && d.uniforms.is_empty());

    let source = ".in a / .fvec m$x[2] / .constf k(1,0,0,2) / .out p pos.xy / .proc main / mov p, k / end / .end";
    let a = assemble(&lines(source)).expect("the second whole file");
    assert_eq!(a.shbin.code, [0x4C07_F000, 0x8800_0000]);
    assert_eq!(a.shbin.opdescs.iter().map(|d| (d.word, d.extra)).collect::<Vec<_>>(), [(0x36F, 0)]);
    let d = &a.shbin.dvles[0];
    assert_eq!((d.entry, d.end, d.input_mask, d.output_mask, d.merge_outmaps), (0, 2, 1, 1, false));
    assert_eq!(d.constants, [Constant::Float { register: 95, value: [0x3F0000, 0, 0, 0x400000] }]);
    assert_eq!(d.outputs, [Output { semantic: 0, register: 0, mask: 3, unknown: 0 }]);
    let row = |name: &str, first, last| Uniform { name: name.into(), first, last };
    assert_eq!(d.uniforms, [row("a", 0, 0), row("m.x", 0x10, 0x11)]);
}

#[test]
fn a_mad_takes_the_place_of_a_low_descriptor() {
    let mut source = String::from(".proc main\n");
    for n in 0..32u32 {
        let letter = |k: u32| ["x", "y", "z", "w"][(n >> (2 * k) & 3) as usize];
        source += &format!("mov r0, r1.{}{}{}x\n", letter(0), letter(1), letter(2));
    }
    source += "mad r0, r1, r2, r3\n.end\n";
    let a = assemble(&source).expect("fits");
    let od: Vec<u32> = a.shbin.opdescs.iter().map(|d| d.word).collect();
    assert_eq!((a.shbin.code[32], od[0], od.len()), (0xF022_4A60, 0x0D86_C36F, 33));
    // xxxx was the first entry. It is at 32 after the swap, and the first mov names that.
    assert_eq!((a.shbin.code[0] & 0x7F, od[32]), (0x20, 0xF));
}

#[test]
fn padding_can_be_left_out() {
    let source = lines(".proc main / ifu b0 / .end / call main / .end");
    let a = assemble_with(&source, Options { no_nop: true }).expect("assembles");
    assert_eq!(a.shbin.code, [0x9C00_0400, 0x9000_0002]);
    assert_eq!(a.warnings.len(), 2);
    assert_eq!(a.warnings[0].to_string(), "input:3:1: warning: a nop is needed here and padding is off");
}

#[test]
fn arrays_and_outputs() {
    let source = ".constfa t[3] / .constfa (1, 2, 3, 4) / .end / .constf u(5, 0, 0, 0) / .out - tcoord0.xy / \
                  .out tex texcoord1 o3.yx / .out - texcoord0w tex.z / .in x v4 / .in y / .proc main / mov r0, t[2] / .end";
    let a = assemble(&lines(source)).expect("assembles");
    assert_eq!(a.shbin.code[0] >> 12 & 0x7F, 0x20 + 95);
    let d = &a.shbin.dvles[0];
    let registers: Vec<_> = (d.constants.iter())
        .map(|c| if let Constant::Float { register, value } = c { (*register, value[0]) } else { (0, 0) })
        .collect();
    assert_eq!(registers, [(93, 0x3F0000), (94, 0), (95, 0), (92, 0x414000)]);
    let outputs: Vec<_> = d.outputs.iter().map(|o| (o.semantic, o.register, o.mask)).collect();
    assert_eq!(outputs, [(3, 0, 3), (5, 3, 3), (4, 3, 4)]);
    assert_eq!((d.input_mask, d.output_mask), (0x11, 9));
}
