//! Hand-made files for each rule, and third-party files.

use super::*;
use crate::finding::Severity;
use crate::testing::{hostile, third_party};

fn chunk(tag: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&tag[..], &(body.len() as u32).to_le_bytes(), body].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A vertex program with a row in every table, every known chunk and two unknown ones.
fn vertex() -> Vec<u8> {
    let record = |kind: u8, count: u8, offset: u16| {
        let mut r = vec![0, kind, count, 0, 4, 0, 0, 0, 4, 0, 0x10, 3, 0, 0, 0, 0];
        r.extend(offset.to_le_bytes());
        r.extend([0xFF, 0xFF]);
        r
    };
    let name = |name: &[u8]| chunk(b"STRI", name);
    let index = chunk(b"VIDX", &[chunk(b"ITDR", &[0xFF; 4]), chunk(b"IGRD", &[1, 0, 0, 0])].concat());
    let initial = chunk(b"VINI", &words(&[4, 0, 1, 2, 3]));
    let uniform = chunk(b"VUNI", &[name(b"k\0\0\0"), record(1, 4, 0), index, initial].concat());
    let varying = chunk(b"VVAR", &[name(b"tex\0"), record(1, 2, 4), chunk(b"ODD!", b"x")].concat());
    let mut attribute = record(1, 4, 0);
    attribute.drain(12..14);
    attribute.truncate(16);
    let attribute = chunk(b"VATT", &[name(b"pos\0"), attribute].concat());
    let program = [
        words(&[6]),
        chunk(b"FINS", &words(&[0, 2, 1])),
        chunk(b"SUNI", &[words(&[1, 4]), uniform].concat()),
        chunk(b"SATT", &[words(&[1]), attribute].concat()),
        chunk(b"SVAR", &[words(&[1]), varying].concat()),
        chunk(b"NEW!", b"odd"),
        chunk(b"DBIN", &[7; 32]),
    ];
    chunk(b"MBS1", &chunk(b"CVER", &program.concat()))
}

fn messages(bytes: &[u8]) -> Vec<String> {
    Mbs::parse(bytes).unwrap().verify().iter().map(|f| format!("{}: {f}", f.severity)).collect()
}

/// The file with bytes replaced, `skip` bytes after the first occurrence of `after`.
fn patched(after: &[u8], skip: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = vertex();
    let at = file.windows(after.len()).position(|w| w == after).unwrap() + after.len() + skip;
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn every_field_has_its_place() {
    let file = vertex();
    let mbs = Mbs::parse(&file).unwrap();
    assert_eq!(mbs.write().unwrap(), file);
    let program = mbs.program(MbsStage::Vertex).unwrap();
    assert_eq!((program.core_name(), program.code().unwrap().len()), (Some("Mali-400 GP"), 32));
    let uniform = program.uniforms().unwrap().symbols().next().unwrap();
    assert_eq!(
        (uniform.name(), uniform.type_name(), uniform.initial()),
        (&b"k"[..], "vec4".into(), Some(&[0, 1, 2, 3][..]))
    );
    assert!(matches!(&uniform.extras[0], Extra::Index(chunks) if chunks.len() == 2));
    let varying = program.varyings().unwrap().symbols().next().unwrap();
    assert_eq!((varying.offset, varying.parent, varying.precision_name()), (4, NO_PARENT, "high".into()));
    assert_eq!(program.attributes().unwrap().symbols().next().unwrap().type_name(), "vec4");
    // Findings have the offsets of their chunks: the record of `tex`, and the tag `NEW!`.
    let at = |tag: &[u8]| file.windows(tag.len()).position(|w| w == tag).unwrap();
    let record = at(b"tex\0") + 4;
    let unknown = at(b"NEW!");
    assert_eq!(
        messages(&file),
        [
            format!("warning: at {record:#x}: `tex`: unknown chunk `ODD!`"),
            format!("warning: at {unknown:#x}: unknown chunk `NEW!`"),
        ]
    );
}

#[test]
fn broken_rules_are_found() {
    let has = |file: Vec<u8>, wanted: &str| {
        let found = messages(&file);
        assert!(found.iter().any(|m| m.contains(wanted)), "{wanted}: {found:?}");
    };
    has(patched(b"FINS", 8, &[3]), "3 instructions announced, the code has 2");
    has(patched(b"FINS", 12, &[9]), "error: at 0x24: attributes are read up to instruction 9 of 2");
    has(patched(b"SUNI", 4, &[2]), "2 symbols announced, the table has 1");
    let mut no_constant = patched(b"SUNI", 8, &[3]);
    let at = no_constant.windows(4).position(|w| w == b"VINI").unwrap();
    no_constant[at..at + 4].copy_from_slice(b"VINX");
    has(no_constant, "uniforms reach slot 4, beyond the space of 3");
    has(patched(b"CVER", 4, &[7]), "unknown vertex core 7");
    has(patched(b"tex\0", 1, &[7]), "`tex` has the unknown type 7");
    has(patched(b"tex\0", 18, &[0, 0]), "the parent of `tex`, `tex`, is no struct");
    has(patched(b"tex\0", 18, &[9, 0]), "`tex` has parent 9, beyond the table");
    has(patched(b"VINI", 4, &[3]), "`VINI` of `k` does not have its announced size");
    has(patched(b"VUNI", 12, b"long"), "the name `long` has no zero byte");
}

#[test]
fn the_grammar_is_checked_with_offsets() {
    let fails = |file: &[u8], wanted: &str| assert_eq!(Mbs::parse(file).unwrap_err().to_string(), wanted);
    fails(b"MBS", "at 0x0: the magic needs 0x4 bytes, and 0x3 are left");
    fails(b"MBS2\0\0\0\0", "at 0x0: the file should begin with \"MBS1\", not \"MBS2\"");
    fails(b"MBS1\x01\0\0\0", "at 0x4: the header announces 0x9 bytes, the file has 0x8");
    fails(b"MBS1\x08\0\0\0CVER\x09\0\0\0", "at 0x10: the chunk `CVER` needs 0x9 bytes, and 0x0 are left");
}

#[test]
fn the_canonical_form_obeys_the_rules() {
    let mut mbs = Mbs::parse(&patched(b"SUNI", 4, &[9])).unwrap();
    let RootPart::Program(program) = &mut mbs.parts[0] else { unreachable!() };
    program.parts.reverse();
    assert!(mbs.verify().iter().any(|f| f.severity == Severity::Error));
    let canonical = mbs.canonical();
    assert!(canonical.verify().iter().all(|f| f.severity == Severity::Warning), "{:?}", canonical.verify());
    let bytes = canonical.write().unwrap();
    assert_eq!(Mbs::parse(&bytes).unwrap(), canonical);
}

#[test]
fn varyings_fit_or_do_not() {
    let vertex = Mbs::parse(&vertex()).unwrap();
    let mut fragment = vertex.clone();
    let RootPart::Program(program) = &mut fragment.parts[0] else { unreachable!() };
    (program.stage, program.core) = (MbsStage::Fragment, 7);
    assert_eq!(link_check(&fragment, &vertex), []);
    assert_eq!(link_check(&vertex, &vertex)[0].message, "neither file has a fragment program");
    let varying = |mbs: &mut Mbs, change: &dyn Fn(&mut Symbol)| {
        let RootPart::Program(program) = &mut mbs.parts[0] else { unreachable!() };
        for part in &mut program.parts {
            if let ProgramPart::Varyings(Table { rows, .. }) = part
                && let Row::Symbol(symbol) = &mut rows[0]
            {
                change(symbol);
            }
        }
    };
    let check = |change: &dyn Fn(&mut Symbol), wanted: &str| {
        let mut fragment = fragment.clone();
        varying(&mut fragment, change);
        assert_eq!(link_check(&vertex, &fragment)[0].message, wanted);
    };
    check(&|s| s.component_count = 3, "`tex` is vec2 in the vertex program, vec3 in the fragment program");
    check(
        &|s| s.precision = 1,
        "`tex` has high precision in the vertex program, low in the fragment program: allowed, and the fragment program \
         gets rounded values if its precision is lower",
    );
    check(&|s| s.invariant = 1, "`tex` is invariant in the fragment program only: both must declare it or neither");
    check(
        &|s| s.padded_name = b"t\0\0\0".into(),
        "the fragment program reads `t`, and the vertex program has no such varying",
    );
    let mut unused = fragment.clone();
    varying(&mut unused, &|s| (s.padded_name, s.offset) = (b"t\0\0\0".into(), UNUSED));
    assert_eq!(link_check(&vertex, &unused), []);
    let with_core = |core| {
        let mut fragment = fragment.clone();
        let RootPart::Program(program) = &mut fragment.parts[0] else { unreachable!() };
        program.core = core;
        link_check(&vertex, &fragment)[0].message.clone()
    };
    assert_eq!(with_core(5), "the vertex program is for Mali-400, the fragment program for Mali-200: no GPU runs both");
    assert_eq!(with_core(9), "the fragment program is for the unknown core 9, which is not compared");
}

/// Uniforms of one name are one uniform; members of structs go by the names of their structs.
#[test]
fn uniforms_of_both_programs_agree() {
    let symbol = |name: &[u8], kind, parent| Symbol {
        padded_name: [name, b"\0"].concat(),
        kind,
        component_count: 1,
        precision: 3,
        parent,
        ..Symbol::default()
    };
    let program = |stage, core, symbols: Vec<Symbol>| {
        let rows: Vec<Row> = symbols.into_iter().map(Row::Symbol).collect();
        let table = Table { count: rows.len() as u32, space: 4, rows };
        Mbs { parts: vec![RootPart::Program(MbsProgram { stage, core, parts: vec![ProgramPart::Uniforms(table)] })] }
    };
    let uniforms = || {
        vec![
            symbol(b"light", 8, NO_PARENT),
            symbol(b"power", 1, 0),
            symbol(b"power", 2, NO_PARENT),
            symbol(b"gl_x", 1, NO_PARENT),
        ]
    };
    let vertex = program(MbsStage::Vertex, 6, uniforms());
    let check = |change: &dyn Fn(&mut Vec<Symbol>)| {
        let mut uniforms = uniforms();
        change(&mut uniforms);
        let findings = link_check(&vertex, &program(MbsStage::Fragment, 7, uniforms));
        findings.into_iter().map(|f| (f.severity, f.message)).collect::<Vec<_>>()
    };
    let error = |text: &str| vec![(Severity::Error, text.to_string())];
    assert_eq!(check(&|_| ()), []);
    let kind = "the uniform `light.power` is float in the vertex program, bool in the fragment program";
    assert_eq!(check(&|u| u[1].kind = 3), error(kind));
    let precision = "the uniform `power` has high precision in the vertex program, low in the fragment program: one \
                     uniform has one precision";
    assert_eq!(check(&|u| u[2].precision = 1), error(precision));
    // What only one program has, the compiler's own names, and names beyond any compiler's.
    assert_eq!(check(&|u| u[2].padded_name = b"other\0".into()), []);
    assert_eq!(check(&|u| u[3].kind = 3), []);
    assert_eq!(check(&|u| u[2].padded_name = vec![b'a'; 2000]), []);
}

#[test]
fn the_corpus_is_sound_and_written_back() {
    for (name, bytes) in third_party::files("mbs") {
        let mbs = Mbs::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(mbs.write().unwrap(), bytes, "{name}");
        let errors: Vec<_> = mbs.verify().into_iter().filter(|f| f.severity == Severity::Error).collect();
        assert_eq!(errors, [], "{name}");
        assert!(mbs.programs().all(|p| p.core_name().is_some() && p.code().is_some()), "{name}");
        assert_eq!(mbs.clone().canonical().write().unwrap(), bytes, "{name}: canonical already");
    }
}

#[test]
fn hostile_files_give_an_error_or_a_model() {
    let files = third_party::files("mbs");
    for (name, bytes) in files.iter().map(|(n, b)| (n.as_str(), b.clone())).chain([("by hand", vertex())]) {
        hostile::files(&bytes, |file| {
            if let Ok(mbs) = Mbs::parse(file) {
                mbs.verify();
                assert_eq!(mbs.write().unwrap(), file, "{name}");
                let canonical = mbs.canonical().write().unwrap();
                Mbs::parse(&canonical).unwrap();
            }
        });
    }
}
