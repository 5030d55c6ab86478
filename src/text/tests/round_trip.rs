//! Words -> text -> words: real programs, known sources, random words.

use super::super::{assemble, disassemble};
use super::snippets::{BODIES, FILES, body};
use super::{Rng, lines};
use crate::container::shbin::{Dvle, Opdesc, Shbin};
use crate::testing::{miri_or, third_party};

/// Asserts that the text of `s` assembles to its words and descriptors; returns the text.
fn round_trip(s: &Shbin, what: &str) -> String {
    let text = disassemble(s);
    let again = assemble(&text).unwrap_or_else(|e| panic!("{what}: {e}\n{text}")).shbin;
    assert_eq!(again.code, s.code, "{what}\n{text}");
    assert_eq!(again.opdescs, s.opdescs, "{what}\n{text}");
    text
}

fn shbin(code: Vec<u32>, opdescs: &[u32]) -> Shbin {
    let opdescs = opdescs.iter().map(|&word| Opdesc { word, extra: 0 }).collect();
    Shbin { code, opdescs, dvles: vec![Dvle::default()], ..Shbin::default() }
}

#[test]
fn known_sources_round_trip() {
    let bodies = BODIES.iter().map(|b| (b.0, body(b.1)));
    let files = FILES.iter().map(|f| (f.0, lines(f.1)));
    for (name, source) in bodies.chain(files) {
        let s = assemble(&source).expect(name).shbin;
        let text = round_trip(&s, name);
        let mut again = assemble(&text).expect(name).shbin;
        // A text writes `.gsh point` only for the merge flag; all other table fields survive.
        assert_eq!(again.dvles.len(), 1, "{name}");
        again.dvles[0].geometry = s.dvles[0].geometry;
        assert_eq!(again.dvles, s.dvles, "{name}\n{text}");
        assert!(!text.contains(".raw") && !text.contains(".word"), "{name}\n{text}");
    }
}

#[test]
fn several_entry_points_round_trip() {
    let source = ".in pos v3 / .fvec view[4], $x / .bool lit / .out - position / .out - texcoord0 o1.xy / .out - view o1.zw / \
                  .constf k(0.1, -inf, 0x1p-63, f24#7F8001) / .setb b3 on / .seti i2(1, 2, 3, 255) / .proc vmain / mov o0, v3 / \
                  end / .end / .entry vmain / .file / .gsh fixed c8 c2 3 / .fvec g[2] / .out - color / .out - dummy / \
                  .proc gmain / setemit 2, prim / emit / end / .end / .entry gmain / .file / .gsh variable c4 7 / .entry vmain / \
                  .out - pos / .wire 7, 5, 0x13, 9 / .masks 0x8001, 0x21 / .label a$b 3 1 - 1 / .label c 65535 2 0 0 / .version 7";
    let s = assemble(&lines(source)).unwrap_or_else(|e| panic!("{e}")).shbin;
    assert_eq!(s.dvles.len(), 3);
    let text = round_trip(&s, "three entry points");
    assert_eq!(assemble(&text).expect("assembled before").shbin, s, "{text}");
}

#[test]
fn structure_is_shown() {
    let source = ".proc main / for i1 / ifc cmp.x / breakc !cmp.y / .else / call sub / .end / .end / jmpu b1, far / end / \
                  far: .end / .proc sub / nop / .end";
    let text = disassemble(&assemble(&lines(source)).expect("assembles").shbin);
    let expected = "\
.proc main
    for i1
        ifc cmp.x
            breakc !cmp.y
        .else
            call p8
            nop
        .end
        nop
    .end
    jmpu b1, l8
    end
.end
.proc p8
l8:
    nop
.end
";
    assert_eq!(text.split_once('\n').expect("lines").1, expected, "{text}");
}

#[test]
fn random_words_round_trip() {
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    for round in 0..miri_or(3, 400) {
        let n = 1 + rng.below(60);
        // Addresses inside the program now and then, so that blocks and labels appear.
        let code: Vec<u32> = (0..n)
            .map(|_| {
                let word = rng.next() as u32;
                match rng.below(4) {
                    0 => word,
                    1 => word & 0xFC00_0000,
                    2 => (0x20 + rng.below(14) as u32) << 26 | word & 0x03C0_0003 | (rng.below(n + 2) as u32) << 10,
                    _ => word & !0x300 & !0x7F | rng.below(8) as u32,
                }
            })
            .collect();
        let opdescs: Vec<u32> = (0..rng.below(140)).map(|_| rng.next() as u32).collect();
        let mut s = shbin(code, &opdescs);
        s.dvles[0].entry = rng.below(n) as u32;
        s.dvles[0].end = rng.below(n + 3) as u32;
        round_trip(&s, &format!("round {round}"));
    }
}

/// Every instruction on its own: several thousand words with one descriptor.
#[test]
fn single_words_round_trip() {
    let mut rng = Rng(0x0123_4567_89AB_CDEF);
    for op in 0..64u32 {
        let code: Vec<u32> = (0..miri_or(2, 200)).map(|_| op << 26 | rng.next() as u32 & 0x03FF_FF80).collect();
        let descriptors: Vec<u32> = (0..32).map(|_| rng.next() as u32 & 0x7FFF_FFFF).collect();
        let text = round_trip(&shbin(code, &descriptors), &format!("opcode {op:02X}"));
        // These formats have no unused bits: every word of theirs must read as an instruction.
        if matches!(op, 0x00..=0x04 | 0x08..=0x0A | 0x0C | 0x0D | 0x18..=0x1B | 0x2E..=0x3F) {
            assert!(!text.contains(".word"), "{op:02X}\n{text}");
        }
    }
}

#[test]
fn extremes() {
    round_trip(&shbin(vec![], &[]), "nothing");
    round_trip(&Shbin { dvles: vec![], ..shbin(vec![0x8800_0000], &[]) }, "no entry point");
    let nested = miri_or(64, 4096);
    // Nested IFs whose blocks all end at the last word: no deep recursion.
    round_trip(&shbin(vec![0x9C00_0000 | (nested as u32 - 1) << 10; nested], &[]), "nested");
    let mut s = shbin(vec![0x4C00_0000; 3], &[0x36F]);
    s.opdescs[0].extra = 0xFFFF_FFFF;
    round_trip(&s, "a second descriptor word");
}

/// Reads the parts of DVLB and DVLP that these tests need; the full reader is in `container`.
fn code_and_opdescs(bytes: &[u8]) -> Option<Shbin> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let n = word(4)? as usize;
    let dvlp = 8 + 4 * n;
    if word(0)? != 0x424C_5644 || word(dvlp)? != 0x504C_5644 {
        return None;
    }
    let field = |k: usize| word(dvlp + k).map(|v| v as usize);
    let (code, descriptors) = (dvlp + field(8)?, dvlp + field(0x10)?);
    let words = (0..field(0xC)?).map(|i| word(code + 4 * i)).collect::<Option<_>>()?;
    let descriptors: Vec<u32> = (0..field(0x14)?).map(|i| word(descriptors + 8 * i)).collect::<Option<_>>()?;
    let mut s = shbin(words, &descriptors);
    s.dvles = (0..n)
        .map(|i| {
            let dvle = word(8 + 4 * i)? as usize;
            Some(Dvle { entry: word(dvle + 8)?, end: word(dvle + 0xC)?, ..Dvle::default() })
        })
        .collect::<Option<_>>()?;
    Some(s)
}

#[test]
fn real_programs_round_trip() {
    let files = third_party::files("shbin");
    if files.is_empty() {
        return;
    }
    let (mut count, mut plain) = (0, 0);
    for (name, bytes) in files {
        let s = code_and_opdescs(&bytes).unwrap_or_else(|| panic!("{name}"));
        let text = round_trip(&s, &name);
        assert!(!text.contains("\n.word"), "{name}\n{text}");
        count += 1;
        plain += !text.contains(".raw") as usize;
    }
    println!("{count} files, {plain} without extensions");
    assert!(count > 0 && plain * 2 > count, "{plain} of {count}");
}
