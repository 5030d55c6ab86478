//! Linked files: reading, writing, real files, and corruption.

use super::*;
use crate::testing::{miri_or, third_party};

fn le(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A value with content in every table and field, and an entry point of each stage.
fn full() -> Shbin {
    Shbin {
        version: 0x1234,
        code: vec![0x4E000000, 0x88000000, 0x88000000],
        opdescs: vec![Opdesc { word: 0x36F, extra: 0xF }, Opdesc { word: 0x8000_0AA1, extra: u32::MAX }],
        dvles: vec![
            Dvle {
                version: 0x1002,
                stage: Stage::Geometry,
                merge_outmaps: true,
                entry: 2,
                end: 3,
                input_mask: 0x8001,
                output_mask: 3,
                geometry: GeometryMode::Fixed { start: 4, vertices: 6 },
                constants: vec![
                    Constant::Bool { register: 15, value: true },
                    Constant::Int { register: 3, value: [255, 1, 2, 128] },
                    Constant::Float { register: 95, value: [0x3F0000, 0xBE0000, 0x7F0001, 1] },
                    Constant::Bool { register: 0, value: false },
                ],
                labels: vec![
                    Label { id: 1, unknown: 1, position: 2, size: Some(1), name: "gmain".into() },
                    Label { id: 0, unknown: 0, position: 0, size: None, name: "ünï".into() },
                ],
                outputs: vec![
                    Output { semantic: 0, register: 0, mask: 0xF, unknown: 0 },
                    Output { semantic: 9, register: 7, mask: 3, unknown: 0x55AA },
                ],
                uniforms: vec![
                    Uniform { name: "in.pos".into(), first: 0, last: 0 },
                    Uniform { name: String::new(), first: 0x10, last: 0x6F },
                ],
            },
            Dvle {
                geometry: GeometryMode::Unknown { bytes: [7, 1, 2, 3] },
                constants: vec![Constant::Int { register: 0, value: [1; 4] }],
                ..Dvle::default()
            },
        ],
        file_names: vec!["a.vsh".into(), String::new(), "b.gsh".into()],
    }
}

/// The file layout of the other free tool: a short program header, the DVLE before the code, and a
/// symbol offset instead of the entry point.
fn short_header() -> Vec<u8> {
    let mut b = b"DVLB".to_vec();
    b.extend(le(&[1, 0x28]));
    b.extend(b"DVLP");
    // Code at DVLP+0x5C = 0x68, descriptors at DVLP+0x68 = 0x74.
    b.extend(le(&[0, 0x5C, 3, 0x68, 1, 0]));
    b.extend(b"DVLE");
    b.extend(le(&[0, 5, 0, 0, 0]));
    // No constants (an invalid offset), labels at DVLE+0x54 = 0x7C, no outputs, no uniforms,
    // symbols.
    b.extend(le(&[0xFFFF_0000, 0, 0x54, 2, 0, 0, 0, 0, 0x74, 10]));
    b.extend(le(&[0x84000000, 0x84000000, 0x88000000]));
    b.extend(le(&[0x36F, 0]));
    b.extend(le(&[0, 0, 0, 0, 0, 2, 0, 5]));
    // The last name has no zero byte.
    b.extend(b"proc\0main");
    b.push(0);
    b
}

fn round_trip(shbin: &Shbin) -> Vec<u8> {
    let bytes = shbin.write().unwrap();
    assert_eq!(Shbin::parse(&bytes).as_ref(), Ok(shbin));
    bytes
}

#[test]
fn the_smallest_file_is_the_free_assemblers() {
    let shbin = Shbin {
        code: vec![0x88000000],
        dvles: vec![Dvle { version: 0x1002, end: 1, ..Dvle::default() }],
        ..Shbin::default()
    };
    let file = le(&[
        0x424C5644, 1, 0x38, 0x504C5644, 0, 0x28, 1, 0x2C, 0, 0x2C, 0, 0, 0, 0x88000000, 0x454C5644, 0x1002, 0, 1, 0,
        0, 0x40, 0, 0x40, 0, 0x40, 0, 0x40, 0, 0x40, 0,
    ]);
    assert_eq!(file.len(), 120);
    assert_eq!(round_trip(&shbin), file);
}

#[test]
fn a_file_with_every_usual_table_is_the_free_assemblers() {
    let shbin = Shbin {
        code: vec![0x4C07F000, 0x88000000],
        opdescs: vec![Opdesc { word: 0x36F, extra: 0 }],
        dvles: vec![Dvle {
            version: 0x1002,
            end: 2,
            input_mask: 1,
            output_mask: 1,
            constants: vec![Constant::Float { register: 95, value: [0x3F0000, 0, 0, 0x400000] }],
            outputs: vec![Output { semantic: 0, register: 0, mask: 3, unknown: 0 }],
            uniforms: vec![
                Uniform { name: "a".into(), first: 0, last: 0 },
                Uniform { name: "m.x".into(), first: 0x10, last: 0x11 },
            ],
            ..Dvle::default()
        }],
        ..Shbin::default()
    };
    let file = le(&[
        0x424C5644, 1, 0x44, 0x504C5644, 0, 0x28, 2, 0x30, 1, 0x38, 0, 0, 0, 0x4C07F000, 0x88000000, 0x36F, 0,
        0x454C5644, 0x1002, 0, 2, 0x00010001, 0, 0x40, 1, 0x54, 0, 0x54, 1, 0x5C, 2, 0x6C, 6, 0x005F0002, 0x3F0000, 0,
        0, 0x400000, 0, 3, 0, 0, 2, 0x00110010, 0x2E6D0061, 0x00000078,
    ]);
    assert_eq!(file.len(), 184);
    assert_eq!(round_trip(&shbin), file);
}

#[test]
fn everything_a_file_holds_survives() {
    round_trip(&full());
    round_trip(&Shbin::default());
    for geometry in [GeometryMode::Point, GeometryMode::Variable { main_vertices: 255 }] {
        let mut shbin = full();
        shbin.dvles[0].geometry = geometry;
        shbin.dvles.reverse();
        round_trip(&shbin);
    }
    for bytes in [[0, 0, 0, 1], [1, 9, 2, 0], [2, 1, 1, 3], [3, 0, 0, 0], [2, 4, 0, 6], [1, 0, 5, 0]] {
        assert_eq!(GeometryMode::from_bytes(bytes).to_bytes(), bytes);
    }
}

#[test]
fn a_short_header_and_a_misplaced_entry_are_understood() {
    let shbin = Shbin::parse(&short_header()).unwrap();
    assert_eq!(shbin.entries(), [Entry::vertex(2)], "the label main, not the name's offset");
    assert_eq!(shbin.code, [0x84000000, 0x84000000, 0x88000000]);
    assert_eq!(shbin.opdescs, [Opdesc { word: 0x36F, extra: 0 }]);
    assert_eq!(shbin.file_names, [""; 0], "those fields are the entry point's header here");
    let names: Vec<_> = shbin.dvles[0].labels.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["proc", "main"]);
    round_trip(&shbin);

    // Without one of the three signs, the field is used as written.
    for at in [0x10, 0x2C] {
        let mut other = short_header();
        other[at] = 1;
        let error = Shbin::parse(&other).unwrap_err();
        assert_eq!(error.kind, ShbinErrorKind::EntryOutsideCode { entry: 5, words: 3 });
        other[0x30] = 1;
        assert_eq!(Shbin::parse(&other).unwrap().entries(), [Entry::vertex(1)]);
    }
    let mut long = Shbin::parse(&short_header()).unwrap();
    long.dvles[0].entry = 1;
    round_trip(&long);
}

#[test]
fn odd_names_are_accepted() {
    let mut bytes = short_header();
    let end = bytes.len();
    bytes[end - 10] = 0xFF;
    bytes.pop();
    bytes[0x64] = 9;
    let shbin = Shbin::parse(&bytes).unwrap();
    assert_eq!(shbin.dvles[0].labels[0].name, "\u{FFFD}roc");
    assert_eq!(shbin.dvles[0].labels[1].name, "main", "no zero byte at the table's end");
    round_trip(&shbin);
    // Without symbols their offset is not checked, and names are empty.
    bytes[0x60..0x68].copy_from_slice(&le(&[u32::MAX, 0]));
    bytes[0x30] = 0;
    assert!(Shbin::parse(&bytes).unwrap().dvles[0].labels.iter().all(|l| l.name.is_empty()));
}

#[test]
fn flags_beside_the_type_are_ignored() {
    let mut bytes = full().write().unwrap();
    let dvle = u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()) as usize;
    bytes[dvle + 6] |= 0xF0;
    assert_eq!(Shbin::parse(&bytes).unwrap(), full());
    bytes[dvle + 6] &= 0xF0;
    assert_eq!(Shbin::parse(&bytes).unwrap().dvles[0].stage, Stage::Vertex);
}

#[test]
fn program_entries_and_constants_come_out() {
    let shbin = full();
    assert_eq!(shbin.program().unwrap().opdescs(), [0x36F, 0x80000AA1]);
    assert_eq!(shbin.entries(), [Entry::geometry(2), Entry::vertex(0)]);
    assert_eq!(Dvle { entry: 0x10000, ..Dvle::default() }.entry().pc, Pc::MAX);

    let mut uniforms = Uniforms { b: 0x4001, i: [[9; 4]; 4], ..Uniforms::new() };
    shbin.dvles[0].apply_constants(&mut uniforms);
    assert_eq!(uniforms.b, 0xC000, "b15 set, b0 cleared, b14 left");
    assert_eq!(uniforms.i, [[9; 4], [9; 4], [9; 4], [255, 1, 2, 128]]);
    let [x, y, z, w] = uniforms.c[95];
    assert_eq!((x, y, w), (1.0, -0.5, 2f32.powi(-78)));
    assert!(z.is_nan());
    assert_eq!(uniforms.c[..95], [[0.0; 4]; 95]);

    let nowhere = Dvle { constants: vec![Constant::Int { register: 4, value: [1; 4] }], ..Dvle::default() };
    nowhere.apply_constants(&mut uniforms);
    assert_eq!(uniforms.i[0], [9; 4]);
}

#[test]
fn an_invalid_value_is_not_written() {
    let text = |s: Shbin| s.write().unwrap_err().to_string();
    let long = Shbin { code: vec![0; 4097], ..Shbin::default() };
    assert_eq!(text(long), "4097 words of code, but the largest unit holds 4096");
    let mut named = full();
    named.dvles[0].uniforms[0].name = "a\0b".into();
    assert_eq!(text(named), r#"the name "a\0b" has a zero byte in it"#);
}

#[test]
fn a_bad_file_gives_the_expected_error() {
    let good = full().write().unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(*good[at..].first_chunk().unwrap());
    let (len, dvle) = (good.len(), u32_at(8) as usize);
    let constants = dvle + u32_at(dvle + 0x18) as usize;
    assert_eq!((len, dvle, constants), (0x19C, 0x64, 0xA4), "the texts below have these in them");
    let text = |at: usize, value: u32| {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
        Shbin::parse(&bad).unwrap_err().to_string()
    };
    let end = "reaches past the end of the file (0x19c bytes)";

    assert_eq!(text(0, 0x314B), r#"at 0x0: the file header should begin with "DVLB", not "K1\x00\x00""#);
    assert_eq!(
        text(4, 1 << 31),
        format!("at 0x4: the table of DVLE offsets (2147483648 entries of 4 bytes at 0x8) {end}")
    );
    assert_eq!(text(4, 1), r#"at 0xc: the DVLP header should begin with "DVLP", not "H\x01\x00\x00""#);
    assert_eq!(text(8, 0x19A), format!("at 0x8: the DVLE header (0x4 bytes at 0x19a) {end}"));
    assert_eq!(text(8, 0x10), r#"at 0x10: the DVLE header should begin with "DVLE", not "DVLP""#);
    assert_eq!(text(0x1C, 4097), "at 0x1c: 4097 words of code, but the largest unit holds 4096");
    assert_eq!(text(0x18, u32::MAX), format!("at 0x18: the code (3 entries of 4 bytes at 0x10000000f) {end}"));
    assert_eq!(text(0x24, 57), format!("at 0x20: the descriptor table (57 entries of 8 bytes at 0x44) {end}"));
    assert_eq!(text(0x34, 0x1E0), format!("at 0x30: the table of file names (0x1e0 bytes at 0x54) {end}"));
    assert_eq!(text(dvle + 8, 3), "at 0x6c: the entry point, word 3, is outside of the code, which has 3 words");
    assert_eq!(
        text(constants, 0x0000_0003),
        "at 0xa4: constant of type 3, but only 0 (bool), 1 (int) and 2 (float) are known"
    );
    assert_eq!(text(constants, 0x0010_0000), "at 0xa6: constant for b16, a register that does not exist");
    assert_eq!(
        text(dvle + 0x34, 0xFFFF_FFFF),
        format!("at 0x94: the uniform table (4294967295 entries of 8 bytes at 0x124) {end}")
    );
    assert_eq!(text(dvle + 0x3C, 3), "at 0x100: name at 0x8 of the symbol table, which has 0x3 bytes");
    assert_eq!(
        Shbin::parse(&good[..0x30]).unwrap_err().to_string(),
        "at 0x18: the code (3 entries of 4 bytes at 0x38) reaches past the end of the file (0x30 bytes)"
    );
}

#[test]
fn no_corruption_makes_the_reader_panic() {
    let small = Shbin { code: vec![0x88000000], dvles: vec![Dvle::default()], ..Shbin::default() };
    let mut refused = 0;
    for good in [full().write().unwrap(), short_header(), small.write().unwrap()] {
        let mut try_out = |bytes: &[u8]| match Shbin::parse(bytes) {
            Err(_) => refused += 1,
            Ok(shbin) => {
                round_trip(&shbin);
                assert!(shbin.program().is_ok());
                shbin.dvles.iter().for_each(|d| d.apply_constants(&mut Uniforms::new()));
                assert!(heap_bytes(&shbin) <= 64 * bytes.len());
            }
        };
        for len in (0..good.len()).step_by(miri_or(61, 1)) {
            try_out(&good[..len]);
        }
        for at in (0..good.len()).step_by(miri_or(31, 1)) {
            for change in [|_| 0, |_| 0xFF, |b: u8| b ^ 1, |b: u8| b ^ 0x80] {
                let mut bad = good.clone();
                bad[at] = change(bad[at]);
                try_out(&bad);
            }
        }
    }
    assert!(refused > miri_or(5, 500), "only {refused}");
}

/// Heap bytes of a value, from its capacities.
fn heap_bytes(s: &Shbin) -> usize {
    fn rows<T>(v: &Vec<T>) -> usize {
        v.capacity() * size_of::<T>()
    }
    let names = |n: &mut dyn Iterator<Item = &String>| n.map(String::capacity).sum::<usize>();
    let dvle = |d: &Dvle| {
        rows(&d.constants)
            + rows(&d.labels)
            + rows(&d.outputs)
            + rows(&d.uniforms)
            + names(&mut d.labels.iter().map(|l| &l.name))
            + names(&mut d.uniforms.iter().map(|u| &u.name))
    };
    rows(&s.code)
        + rows(&s.opdescs)
        + rows(&s.dvles)
        + rows(&s.file_names)
        + names(&mut s.file_names.iter())
        + s.dvles.iter().map(dvle).sum::<usize>()
}

/// A file of `entries` offsets of one DVLE with `uniforms` rows, all with one name of `name` bytes.
fn overlapping(entries: usize, uniforms: usize, name: usize) -> Vec<u8> {
    let shbin = Shbin {
        code: vec![0x88000000],
        dvles: vec![Dvle {
            uniforms: vec![Uniform::default(); uniforms],
            labels: vec![Label { name: "\u{1}".repeat(name), ..Label::default() }],
            ..Dvle::default()
        }],
        ..Shbin::default()
    };
    let one = shbin.write().unwrap();
    let dvle = u32::from_le_bytes(*one[8..].first_chunk().unwrap()) as usize;
    let mut file = b"DVLB".to_vec();
    file.extend(le(&[entries as u32]));
    let moved = (dvle + 4 * (entries - 1)) as u32;
    (0..entries).for_each(|_| file.extend(moved.to_le_bytes()));
    let mut rest = one[12..].to_vec();
    let rows = dvle - 12 + 0x40 + 0x10;
    for row in 0..uniforms {
        // All point at the long name, after the empty ones.
        rest[rows + 8 * row..][..4].copy_from_slice(&(uniforms as u32).to_le_bytes());
    }
    file.extend(rest);
    file
}

#[test]
#[cfg_attr(miri, ignore = "a file of a megabyte: hours")]
fn overlapping_tables_do_not_multiply_memory() {
    for (entries, uniforms, name) in [(20_000, 1, 1), (1, 5_000, 50_000), (3_000, 3_000, 1), (1, 20_000, 20_000)] {
        let file = overlapping(entries, uniforms, name);
        let error = Shbin::parse(&file).unwrap_err();
        assert!(matches!(error.kind, ShbinErrorKind::Overlap { .. }), "{error}");
    }
    // Sharing within the limit stays small.
    for (entries, uniforms, name) in [(1, 4_000, 2), (4, 1_000, 6), (1, 500, 60), (1, 1, 100_000)] {
        let file = overlapping(entries, uniforms, name);
        let shbin = Shbin::parse(&file).unwrap();
        assert!(heap_bytes(&shbin) <= 64 * file.len(), "{} of {}", heap_bytes(&shbin), file.len());
        assert_eq!(shbin.dvles[0].uniforms[0].name.len(), name);
    }
    assert_eq!(
        Shbin::parse(&overlapping(20_000, 1, 1)).unwrap_err().to_string().split_once(": ").unwrap().1,
        format!(
            "with the DVLE header the parts of the file overlap to more than 8 times its {:#x} bytes",
            overlapping(20_000, 1, 1).len()
        )
    );
}

#[test]
fn every_corpus_file_round_trips() {
    let files = third_party::files("shbin");
    if files.is_empty() {
        return;
    }
    let (mut entries, mut short, mut identical) = (0, 0, 0);
    for (name, bytes) in &files {
        let shbin = Shbin::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let written = round_trip(&shbin);
        assert!(!shbin.entries().is_empty() && !shbin.code.is_empty(), "{name}");
        assert!(shbin.dvles.iter().all(|d| !d.outputs.is_empty()), "{name}");
        assert!(shbin.program().is_ok());
        entries += shbin.entries().len();
        short += usize::from(bytes[0x14] != 0x28 && shbin.dvles.len() == 1);
        // Older assemblers did not pad the last symbol table.
        identical += usize::from(written.starts_with(bytes) && written.len() - bytes.len() < 4);
    }
    println!("{} files, {entries} entry points, {short} with a short header, {identical} written alike", files.len());
    assert!(short >= 1, "the short-header files are gone from the corpus");
    assert_eq!(identical + short, files.len(), "every long-header file is written as it was found");
}
