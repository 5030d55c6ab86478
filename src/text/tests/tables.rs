//! A disassembly keeps entry points and tables even if the language can't express some rows.

use super::super::{assemble, disassemble};
use super::{Rng, lines};
use crate::container::shbin::{Constant, Dvle, GeometryMode, Label, Output, Shbin, Uniform};
use crate::isa::Stage;
use crate::testing::{miri_or, third_party};

/// A constant as uniforms hold it: without the bits above float24.
fn meaning(c: &Constant) -> Constant {
    match *c {
        Constant::Float { register, value } => Constant::Float { register, value: value.map(|w| w & 0xFF_FFFF) },
        other => other,
    }
}

/// Asserts that code, descriptors and entry points survive; returns the text and its assembly.
fn comes_back(s: &Shbin, what: &str) -> (String, Shbin) {
    let text = disassemble(s);
    let again = assemble(&text).unwrap_or_else(|e| panic!("{what}: {e}\n{text}")).shbin;
    assert_eq!(again.code, s.code, "{what}\n{text}");
    assert_eq!(again.opdescs, s.opdescs, "{what}\n{text}");
    let entries = |s: &Shbin| s.dvles.iter().map(|d| (d.entry, d.end, d.stage)).collect::<Vec<_>>();
    assert_eq!(entries(&again), entries(s), "{what}\n{text}");
    (text, again)
}

fn without_comments(text: &str) -> Vec<&str> {
    text.lines().map(|l| l.split(';').next().expect("one piece").trim_end()).filter(|l| !l.is_empty()).collect()
}

#[test]
fn high_bytes_of_real_constants_do_not_lose_tables() {
    let files = third_party::files("shbin");
    if files.is_empty() {
        return;
    }
    let (mut own, mut words) = (0, 0);
    for (name, bytes) in files {
        let clean = Shbin::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let floats = |s: &Shbin| {
            s.dvles.iter().flat_map(|d| &d.constants).filter(|c| matches!(c, Constant::Float { .. })).count()
        };
        own += usize::from(floats(&clean) != 0);
        let mut clean = clean;
        if floats(&clean) == 0 {
            clean.dvles[0]
                .constants
                .push(Constant::Float { register: 95, value: [0x3F_0000, 0, 0x12_3456, 0xFF_FFFF] });
        }
        let mut dirty = clean.clone();
        for (n, c) in dirty.dvles.iter_mut().flat_map(|d| &mut d.constants).enumerate() {
            if let Constant::Float { value, .. } = c {
                value[n % 4] |= 0x5A00_0000;
                words += 1;
            }
        }
        // The mutation survives a file, so a reader sees it.
        let dirty = Shbin::parse(&dirty.write().expect("writable")).expect("readable");
        let (text, again) = comes_back(&dirty, &name);
        assert!(text.contains(" ; high bytes 0x") && text.contains("0x5A"), "{name}\n{text}");
        assert_eq!(without_comments(&text), without_comments(&disassemble(&clean)), "{name}");
        for (a, b) in again.dvles.iter().zip(&clean.dvles) {
            assert_eq!(a.constants, b.constants.iter().map(meaning).collect::<Vec<_>>(), "{name}\n{text}");
            assert_eq!(a.outputs, b.outputs, "{name}\n{text}");
            assert_eq!((a.input_mask, a.output_mask), (b.input_mask, b.output_mask), "{name}\n{text}");
            let mut uniforms = b.uniforms.clone();
            uniforms.sort_by_key(|u| u.first);
            assert_eq!(a.uniforms, uniforms, "{name}\n{text}");
        }
    }
    println!("{own} files have float constants of their own; {words} words changed");
    assert!(own > 0 && words >= own);
}

/// A vertex and a geometry entry point of one program.
fn two_entries() -> Shbin {
    let source = ".fvec view[4] / .in pos v1 / .out - position / .setf c90(1, 2, 3, 4) / .seti i1(1, 2, 3, 4) / .proc vmain / \
                  mov o0, v1 / end / .end / .entry vmain / .file / .gsh variable c4 7 / .out - color o0 / .setb b2 on / \
                  .setf c91(5, 6, 7, 8) / .proc gmain / setemit 2, prim / emit / end / .end / .entry gmain";
    assemble(&lines(source)).unwrap_or_else(|e| panic!("{e}")).shbin
}

#[test]
fn rows_the_language_lacks_become_comments_alone() {
    let clean = two_entries();
    let name = |name: &str, first, last| Uniform { name: name.into(), first, last };
    let dirty_rows = |d: &mut Dvle| {
        d.version = 7;
        d.constants.insert(0, Constant::Float { register: 96, value: [0; 4] });
        d.constants.insert(1, Constant::Int { register: 4, value: [1; 4] });
        d.constants.insert(2, Constant::Bool { register: 16, value: true });
        d.uniforms.extend([
            name("a\nb", 0x10, 0x10),
            name("c5", 0x15, 0x15),
            name("twice", 0x11, 0x11),
            name("twice", 0x12, 0x12),
            name("a$b", 0x13, 0x13),
            name("", 0x14, 0x14),
            name("back", 0x15, 0x14),
            name("hole", 0x74, 0x74),
            name("wide", 0x10, 0xFFFF),
        ]);
        d.labels.push(Label { name: "end\n.word 1".into(), ..Label::default() });
    };
    let mut dirty = clean.clone();
    dirty.file_names.push("a.vsh\n.word 2".into());
    dirty.dvles.iter_mut().for_each(dirty_rows);
    let (text, again) = comes_back(&dirty, "two entry points");
    for (a, b) in again.dvles.iter().zip(&clean.dvles) {
        assert_eq!(a.constants, b.constants, "{text}");
        assert_eq!(a.outputs, b.outputs, "{text}");
        assert_eq!(a.geometry, b.geometry, "{text}");
        let mut uniforms = b.uniforms.clone();
        uniforms.push(name("twice", 0x11, 0x11));
        uniforms.sort_by_key(|u| u.first);
        assert_eq!(a.uniforms, uniforms, "{text}");
    }
    for comment in
        ["; .setf c96(", "; .seti i4(", "; .setb b16 ", "; name \"a\\nb\"", "; label \"end\\n", "; source file"]
    {
        assert!(text.contains(comment), "{comment}\n{text}");
    }
    // The same alone: a program with one geometry entry point is one file.
    dirty.dvles.remove(0);
    let (text, again) = comes_back(&dirty, "the geometry program");
    assert_eq!(again.dvles[0].constants, clean.dvles[1].constants, "{text}");
}

#[test]
fn full_tables_and_odd_modes_keep_the_unit() {
    let modes = [
        GeometryMode::Fixed { start: 94, vertices: 3 },
        GeometryMode::Fixed { start: 95, vertices: 3 },
        GeometryMode::Fixed { start: 255, vertices: 255 },
        GeometryMode::Variable { main_vertices: 255 },
        GeometryMode::Unknown { bytes: [3, 1, 2, 3] },
        GeometryMode::Point,
    ];
    for (n, mode) in modes.into_iter().flat_map(|m| [false, true].map(|merge| (m, merge))).enumerate() {
        let mut s = two_entries();
        let d = &mut s.dvles[1];
        (d.geometry, d.merge_outmaps) = mode;
        d.constants = (0..200).map(|i| Constant::Bool { register: i % 16, value: i % 3 == 0 }).collect();
        d.outputs = (0..20).map(|i| Output { semantic: 9, register: i, mask: 3, unknown: 0 }).collect();
        d.uniforms = (0..120).map(|i| Uniform { name: format!("u{i}"), first: 0x10, last: 0x10 }).collect();
        let (text, again) = comes_back(&s, &format!("mode {n}"));
        let (a, d) = (&again.dvles[1], &s.dvles[1]);
        assert_eq!(a.constants, d.constants[..96], "{text}");
        assert_eq!(a.outputs, d.outputs[..16], "{text}");
        assert_eq!(a.uniforms, d.uniforms[..96], "{text}");
        assert_eq!((a.input_mask, a.output_mask, a.merge_outmaps), (d.input_mask, d.output_mask, mode.1), "{text}");
        assert_eq!(again.dvles[0].constants, s.dvles[0].constants, "{text}");
        assert_eq!(text.matches("\n; .setb").count(), 104, "{text}");
    }
}

#[test]
fn random_tables_keep_the_rows_the_language_has() {
    let mut rng = Rng(0x1357_9BDF_0246_8ACE);
    let words = [
        "aL", "a0", "a0.x", "lcnt", "_", "main", "p0", "end", "x", "o", "true6", "mov", "é", "a b", ";", "-", "9",
        "m.v",
    ];
    for round in 0..miri_or(3, 300) {
        let mut s = two_entries();
        for d in &mut s.dvles {
            let some =
                |rng: &mut Rng, n: usize| if rng.below(8) == 0 { rng.next() as u16 } else { rng.below(n) as u16 };
            d.constants = (0..rng.below(12))
                .map(|_| match rng.below(3) {
                    0 => Constant::Bool { register: some(&mut rng, 16), value: rng.below(2) == 0 },
                    1 => Constant::Int { register: some(&mut rng, 4), value: (rng.next() as u32).to_le_bytes() },
                    _ => Constant::Float { register: some(&mut rng, 96), value: [(); 4].map(|_| rng.next() as u32) },
                })
                .collect();
            d.outputs = (0..rng.below(12))
                .map(|_| Output {
                    semantic: some(&mut rng, 10),
                    register: some(&mut rng, 16),
                    mask: some(&mut rng, 16),
                    unknown: some(&mut rng, 1),
                })
                .collect();
            d.uniforms = (0..rng.below(12))
                .map(|_| {
                    let first = some(&mut rng, 0x88);
                    let last = first.wrapping_add(some(&mut rng, 6));
                    Uniform { name: words[rng.below(words.len())].into(), first, last }
                })
                .collect();
            (d.input_mask, d.output_mask) = (some(&mut rng, 4), some(&mut rng, 4));
            (d.entry, d.end) = (rng.below(5) as u32, rng.next() as u32 >> rng.below(32));
        }
        if rng.below(3) == 0 {
            s.dvles.truncate(1);
        }
        let (text, again) = comes_back(&s, &format!("round {round}"));
        for (a, d) in again.dvles.iter().zip(&s.dvles) {
            let possible = d.constants.iter().filter(|c| usize::from(c.register()) < c.class().1);
            assert_eq!(a.constants, possible.map(meaning).collect::<Vec<_>>(), "round {round}\n{text}");
            assert_eq!(a.outputs, d.outputs, "round {round}\n{text}");
            assert_eq!((a.input_mask, a.output_mask), (d.input_mask, d.output_mask), "round {round}\n{text}");
            assert!(a.uniforms.iter().all(|u| d.uniforms.contains(u)), "round {round}\n{text}");
        }
    }
}
#[test]
fn stage_follows_the_entry_point_not_the_code() {
    // Code of a geometry program with only a vertex entry point, and the reverse.
    let mut s = two_entries();
    s.dvles.truncate(1);
    comes_back(&s, "setemit in a vertex program");
    s.code = vec![0x8800_0000];
    s.opdescs.clear();
    s.dvles[0].stage = Stage::Geometry;
    comes_back(&s, "a geometry program without setemit");
}
