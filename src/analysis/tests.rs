//! Programs whose analysis follows from their text.

use super::*;
use crate::ir::analysis::RegisterUse;
use crate::isa::Stage;

fn analysis(source: &str) -> Analysis {
    let shbin = crate::text::assemble(source).expect("a good source").shbin;
    Analysis::new(&shbin.program().expect("short"), shbin.dvles[0].entry()).expect("small")
}

fn carried(source: &str) -> String {
    analysis(source).carried.to_string()
}

#[test]
fn vertex_programs() {
    let of = |body: &str| carried(&format!(".bool b\n.fvec c[4]\n.proc main\n{body}\n end\n.end"));
    assert_eq!(of(" mov r0, v0\n mov o0, r0"), "");
    assert_eq!(of(" add r0, v0, r0\n mov o0, r0"), "r0.xyzw");
    assert_eq!(of(" mov r0.x, v0\n mov o0, r0\n mov r0.y, v0"), "r0.y");
    assert_eq!(of(" mov o0, r0"), "", "no run changes r0");
    assert_eq!(of(" mov o0, c[a0.x]\n mova a0.x, v0"), "a0.x");
    assert_eq!(of(" mov o0, v0\n cmp v0, lt, lt, v0\n ifc cmp.x\n mov o1.x, v0\n .end"), "o1.x");
    assert_eq!(of(" ifu b\n mov o0.x, v0\n .end"), "", "all runs with the same uniforms do the same");
    assert_eq!(of(" ifu b\n mov r0, v0\n .end\n ifu b\n mov o0, r0\n .end"), "", "the same boolean");
    assert_eq!(of(" add r1, v0, r1\n mov o0, v0"), "", "nothing shows r1");
}

#[test]
fn geometry_programs() {
    let of = |body: &str| carried(&format!(".gsh point c0\n.proc main\n{body}\n end\n.end"));
    let three = " setemit 0\n mov o0, v0\n emit\n setemit 1\n mov o0, v0\n emit\n setemit 2, prim\n mov o0, v0\n emit";
    assert_eq!(of(three), "");
    assert_eq!(of(" setemit 2, prim\n mov o0, v0\n emit"), "the vertex slots");
    assert_eq!(of(" mov o0, v0\n emit\n setemit 1"), "the parameters of setemit, the vertex slots");
    // Four emits: the second and the fourth show one bank, so the fourth shows the second's o0 and
    // the second the o1 of the invocation before.
    assert_eq!(of(&format!("{three}\n setemit 0\n mov o1, v0\n emit")), "o1.xyzw");
    assert_eq!(of(&format!(" ifu b15\n nop\n .end\n{three}")), "b15");
    assert_eq!(
        of(&three.replace("mov o0, v0\n emit\n setemit 1", "add r3.x, v0, r3\n mov o0, r3.x\n emit\n setemit 1")),
        "r3.x"
    );
}

#[test]
fn paths_and_branches() {
    let of = |body: &str| {
        let a = analysis(&format!(".ivec n, m\n.bool b\n.proc main\n{body}\n end\n.end"));
        (a.shortest_path, a.longest_path, a.divergent_branches)
    };
    assert_eq!(of(" nop"), (Some(2), Some(2), 0));
    assert_eq!(of(" ifu b\n nop\n .else\n nop\n nop\n .end"), (Some(3), Some(4), 0));
    assert_eq!(of(" for n\n nop\n nop\n .end"), (Some(4), Some(2 + 256 * 2), 0));
    assert_eq!(of(" for n\n for m\n nop\n nop\n .end\n nop\n .end"), (Some(6), Some(2 + 256 * (2 + 256 * 2)), 0));
    assert_eq!(of(" cmp v0, lt, lt, v0\n ifc cmp.x\n nop\n .end"), (Some(3), Some(4), 1));
    assert_eq!(of("here:\n cmp v0, lt, lt, v0\n jmpc cmp.x, here"), (Some(3), None, 1));
    assert_eq!(of("here:\n nop\n jmpu b, here\n jmpu !b, here"), (Some(4), None, 0));
}

/// The proof for batches is the other analysis of the same question.
#[test]
fn it_agrees_with_the_independence_analysis() {
    let sources = [
        ".proc main\n mov r0, v0\n mov o0, r0\n end\n.end",
        ".proc main\n add r0, v0, r0\n mov o0, r0\n end\n.end",
        ".bool b\n.proc main\n ifu b\n mov r0, v0\n .end\n mov o0, v0\n end\n.end",
        ".fvec c[4]\n.proc main\n mova a0.x, v0\n mov o0, c[a0.x]\n end\n.end",
    ];
    for source in sources {
        let shbin = crate::text::assemble(source).expect("a good source").shbin;
        let (program, entry) = (shbin.program().expect("short"), shbin.dvles[0].entry());
        assert_eq!(entry.stage, Stage::Vertex);
        let cfg = Cfg::build(&program, entry, Limits::default()).expect("small");
        let independent = RegisterUse::new(&cfg).dependence.is_none();
        let analysis = Analysis::new(&program, entry).expect("small");
        assert!(!independent || analysis.is_independent(), "{source}: {}", analysis.carried);
    }
}

/// A run that ends past the last word has outputs too.
#[test]
fn outputs_are_kept_past_the_end() {
    let source = ".proc main\n cmp v0, lt, lt, v1\n jmpc cmp.x, over\n mov o0.x, v0\nover:\n nop\n.end";
    assert_eq!(carried(source), "o0.x");
}

fn paths_of_words(code: &[u32]) -> (Option<u64>, Option<u64>) {
    let program = Program::from_words(code, &[]).expect("short");
    let analysis = Analysis::new(&program, Entry::vertex(0)).expect("small");
    (analysis.shortest_path, analysis.longest_path)
}

/// A loop's end goes back to words from which another way leads to the END.
#[test]
fn overlapping_loops_have_shorter_paths() {
    let code = [
        0x6264_BB00,
        0x2A01_2100,
        0x9A40_2006,
        0x3E84_3001,
        0xAF00_0000,
        0x4347_4D4B,
        0x1661_D001,
        0xCB64_4042,
        0xA440_3400,
        0x1E83_B000,
        0xAEC0_0000,
        0x2001_F000,
        0xA480_1400,
        0x0C04_3883,
        0xEB25_AA41,
        0x8800_0000,
    ];
    // 0 1 2 8 9 10 11 12 13 3 4 5 13 14 15
    assert!(paths_of_words(&code).0.is_some_and(|shortest| shortest <= 15));
}

/// A procedure begins a loop anew that calls it.
#[test]
fn loops_that_begin_within_themselves_have_no_longest_path() {
    let code = [0x8400_0000, 0xA4C0_1000, 0x9000_0002, 0x8400_0000, 0x8400_0000, 0x8800_0000];
    assert_eq!(paths_of_words(&code).1, None);
}
