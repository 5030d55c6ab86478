//! Random and mutated sources: no panic, no hang.

use super::super::{assemble, literal};
use super::snippets::{BODIES, FILES, body};
use super::{Rng, lines};
use crate::testing::miri_or;
use std::time::{Duration, Instant};

/// Fragments that reach deep into the parsers.
const PIECES: &[&str] = &[
    ".proc main",
    "\n",
    "\n",
    " ",
    ",",
    ".end",
    ".else",
    "mov",
    "mad!",
    "dphi!",
    "r0",
    "c5",
    "v15",
    "b3",
    "i2",
    "o0",
    "[",
    "]",
    "[a0.x+",
    "a0.",
    "aL",
    ".xyzw",
    "._",
    "-",
    "!",
    "(",
    ")",
    "1",
    "0x",
    "99999999999999999999",
    "1e999",
    "nan",
    "f24#",
    ":",
    ";",
    "#",
    "@",
    "@5",
    "ifc",
    "cmp.x",
    "&&",
    "|",
    " ignore ",
    "for",
    "rcall",
    "rjmpu",
    "x",
    "é",
    "\0",
    "\t",
    ".constfa",
    ".constf",
    ".fvec",
    ".out",
    ".in",
    "pos",
    ".gsh",
    "point",
    "fixed",
    ".alias",
    ".word",
    ".opdesc",
    ".raw",
    ".file",
    ".bind",
    ".wire",
    ".masks",
    ".entry",
    ".setf",
    ".seti",
    ".setb",
    "setemit",
    "prim",
    "cmp",
    "true6",
    "mova",
    "call",
    "jmpc",
    "+",
    ".",
];

#[test]
fn random_text_does_not_panic() {
    let mut rng = Rng(0xDEAD_BEEF_CAFE_F00D);
    let mut accepted = 0;
    for _ in 0..miri_or(20, 20_000) {
        let n = 1 + rng.below(20);
        let text: String = (0..n).map(|_| PIECES[rng.below(PIECES.len())]).collect();
        match assemble(&text) {
            Ok(_) => accepted += 1,
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
    // Line by line: the same fragments after a valid beginning.
    for _ in 0..miri_or(20, 20_000) {
        let n = 1 + rng.below(6);
        let tail: String = (0..n).map(|_| PIECES[rng.below(PIECES.len())]).collect();
        let text = format!(".raw\n.entry 0 0\n{} {tail}", PIECES[rng.below(PIECES.len())]);
        accepted += assemble(&text).is_ok() as u32;
    }
    assert!(accepted > 0 || cfg!(miri), "the pieces should make a valid text now and then");
}

#[test]
fn mutated_sources_do_not_panic() {
    let sources: Vec<String> = BODIES.iter().map(|b| body(b.1)).chain(FILES.iter().map(|f| lines(f.1))).collect();
    let mut rng = Rng(0x1234_5678_9ABC_DEF1);
    for round in 0..miri_or(30, 20_000) {
        let mut text: Vec<char> = sources[round % sources.len()].chars().collect();
        for _ in 0..1 + rng.below(3) {
            if text.is_empty() {
                break;
            }
            let at = rng.below(text.len());
            match rng.below(4) {
                0 => drop(text.remove(at)),
                1 => text[at] = char::from(rng.below(128) as u8),
                2 => text.insert(at, PIECES[rng.below(PIECES.len())].chars().next().expect("no empty pieces")),
                _ => text.truncate(at + 1),
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(e) = assemble(&text) {
            assert!(e.line >= 1 && e.column >= 1);
            let _ = e.to_string();
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "measures time")]
fn big_sources_take_linear_time() {
    let names = |n: usize| (0..n).map(|i| format!(".alias n{i} r0\n")).collect::<String>().replace("n", "name");
    let chain: String =
        (1..40_000).map(|i| format!(".alias w{i} w{}\n", i - 1)).collect::<String>().replace(" w0\n", " r1.yx\n");
    let texts = [
        ("one line", "x".repeat(1 << 20)),
        ("colons", "a:".repeat(1 << 19)),
        ("labels", (0..150_000).map(|i| format!("l{i}:\n")).collect()),
        ("commas", format!(".raw\n.word {}", "1,".repeat(1 << 19))),
        ("brackets", format!(".proc main\nmov r0, {}", "[".repeat(1 << 20))),
        ("terms", format!(".raw\nrcall {}", "1+".repeat(1 << 19))),
        ("bangs", format!(".proc main\nifc {}cmp.x", "!".repeat(1 << 20))),
        (
            "digits",
            format!(".constf k({}, 0x{}, 1e{}, 0)", "9".repeat(300_000), "f".repeat(300_000), "9".repeat(300_000)),
        ),
        ("words", format!(".out {}", "a ".repeat(1 << 19))),
        ("aliases", names(60_000)),
        ("chain", chain),
        ("files", ".file\n".repeat(170_000)),
        ("empty arrays", ".constfa a[1]\n.end\n".repeat(50_000)),
        ("comments", "; nothing\n".repeat(100_000)),
        ("markers", "# 1 \"x\"\n".repeat(100_000)),
        ("a marker's long name", format!("# 1 \"{}\"\n{}", "n".repeat(500_000), "#\n".repeat(200_000))),
        ("empty labels", ":".repeat(1 << 20)),
        ("surplus values", format!(".constf k({})", "1,".repeat(1 << 19))),
        ("oddities", format!(".proc main\n{}", "mov -R16., c0[x]y.\n".repeat(500))),
        ("odd names", (0..50_000).map(|i| format!(".proc {i}\n.end\n")).collect()),
        ("rows", ".label a 0 0 - 0\n".repeat(50_000)),
        ("signs", format!(".proc main\nmov r0, {}r1", "-".repeat(1 << 20))),
        ("parentheses", format!(".constf k{}", "(".repeat(1 << 20))),
        ("uniforms", format!(".fvec {}", "a[1]x,".repeat(170_000))),
        ("redeclared", ".fvec a\n.nodvle\n.file\n".repeat(50_000)),
        ("flags", format!(".proc main\nsetemit 0, {}", "prim ".repeat(200_000))),
        ("operators", format!(".proc main\nifc {}", "cmp.x&&".repeat(150_000))),
        (
            "descriptors",
            format!(".gsh\n.proc main\n{}", "mov r0, r1.x\nmad r0, r1, r2, r3.y\ndp4 r0, c1, -r2\n".repeat(1300)),
        ),
        ("calls", format!(".gsh\n.proc main\n{}.end", "call main\n".repeat(1000))),
        ("long nops", format!(".raw\n{}", "nop\n".repeat(260_000))),
    ];
    // Slowdown of the machine, for emulated ones.
    let slower = std::env::var("PICAJIT_SLOW").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for (what, text) in texts {
        let start = Instant::now();
        match assemble(&text) {
            Ok(a) => {
                let shown: usize = a.warnings.iter().map(|w| format!("{w:#}").len()).sum();
                assert!(a.warnings.len() <= 1001 && shown < 4 << 20, "{what}: {shown} bytes of warnings");
            }
            Err(e) => assert!(e.to_string().len() < 4096, "{what}"),
        }
        assert!(start.elapsed() < slower * Duration::from_secs(5), "{what}: {:?}", start.elapsed());
    }
    assert!(literal::parse_f32(&"9".repeat(1 << 20)).is_ok());
}
