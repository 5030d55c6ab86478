//! Objects, and programs of linked objects.

use super::*;
use crate::prerequisites;
use picajit::text::{Assembler, Options};

#[path = "../../../../jit-tests/picasso.rs"]
#[allow(dead_code)] // its trials are another program's
mod picasso;

/// Files -> the linked program of their objects, and the program of all files at once.
fn both(files: &[String], options: Options) -> Result<[Shbin; 2], String> {
    let assemble = |files: &[String]| {
        let mut assembler = Assembler::new(options);
        files.iter().try_for_each(|text| assembler.add_file("a", text))?;
        assembler.finish()
    };
    let at_once = assemble(files).map_err(|_| NOT_ACCEPTED.to_string())?.shbin;
    let mut objects = Vec::new();
    for file in files {
        let alone = assemble(std::slice::from_ref(file)).map_err(|error| error.kind.to_string())?;
        let bytes = object(alone).map_err(|error| error.to_string())?.write().map_err(|error| error.to_string())?;
        objects.push(("a".to_string(), Dvoj::parse(&bytes).unwrap()));
    }
    let (linked, warnings) = link(objects).map_err(|error| error.to_string())?;
    let tables = |program: &Shbin| program.dvles.iter().map(|dvle| dvle.uniforms.clone()).collect::<Vec<_>>();
    if files.len() > 1 && (!warnings.is_empty() || tables(&linked) != tables(&at_once)) {
        return Err(TOGETHER.into());
    }
    Ok([linked, at_once])
}

/// Sources as objects, linked, have the words and tables of the sources assembled at once, so
/// they have the same results.
#[test]
fn linked_objects_are_the_sources_at_once() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jit-tests/picasso");
    let mut sources = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let cases = picasso::cases(&text).unwrap();
        sources.extend(cases.into_iter().map(|c| (c.name, c.files, Options { no_nop: c.no_nop })));
    }
    for path in prerequisites::cases(&["pica"]) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        sources.push((path.display().to_string(), vec![text], Options::default()));
    }
    let (mut equal, mut others) = (0, Vec::new());
    for (name, files, options) in sources {
        match both(&files, options) {
            Ok(mut programs) => {
                for program in &mut programs {
                    program.file_names.clear();
                    program.dvles.iter_mut().for_each(|dvle| dvle.labels.clear());
                }
                let [linked, at_once] = programs;
                assert_eq!(linked, at_once, "{name}");
                equal += 1;
            }
            // The sources of errors.
            Err(reason) if reason == NOT_ACCEPTED => {}
            Err(reason) => others.push((name, reason)),
        }
    }
    println!("{equal} programs are equal; others: {others:#?}");
    assert!(equal > 150 && others.len() < 20, "{equal} programs are equal, {} are not", others.len());
    for (name, reason) in others {
        assert!(REASONS.iter().any(|known| reason.contains(known)), "{name}: {reason}");
    }
}

/// Why sources have no linked objects like the sources at once.
const REASONS: [&str; 6] = [
    TOGETHER,
    // A file that calls another one, and a file without an entry.
    "undefined procedure",
    "undefined entry procedure",
    "no file has an entry point",
    // Names that the files of one program share, and an entry beside the procedure `main`.
    "gives it these registers",
    "that of the object is `main`",
];
const NOT_ACCEPTED: &str = "the assembler rejects the sources";
const TOGETHER: &str = "files at once allocate their uniforms together";

#[test]
fn addresses_move() {
    // call 3 of 2 words; end has no address.
    assert_eq!(relocated(0x9000_0C02, 9), Some(0x9000_3002));
    assert_eq!(relocated(0x9000_0C02, 4093), None);
    assert_eq!(relocated(0x8800_0C00, 9), Some(0x8800_0C00));
}

#[test]
fn descriptors_are_merged() {
    let object = |words: &[u32], opdescs: &[(u32, u32)]| {
        let opdescs = opdescs.iter().map(|&(word, extra)| Opdesc { word, extra }).collect();
        ("a".to_string(), Dvoj { code: words.to_vec(), opdescs, ..Dvoj::default() })
    };
    // mov with two descriptors, then mov and mad of another object with one of them.
    let first = object(&[0x4C00_0000, 0x4C00_0001], &[(0x36F, 0), (0x363, 0)]);
    let second = object(&[0x4C00_0000, 0xE000_0000], &[(0x363, 0)]);
    let (linked, _) = link(vec![first.clone(), second]).unwrap();
    assert_eq!(linked.code[..3], [0x4C00_0000, 0x4C00_0001, 0x4C00_0001]);
    assert_eq!(linked.opdescs.iter().map(|o| o.word).collect::<Vec<_>>()[..2], [0x36F, 0x363]);
    // Second words tell entries apart.
    let second = object(&[0x4C00_0000, 0xE000_0001], &[(0x363, 7), (0x36F, 0)]);
    let (linked, _) = link(vec![first, second]).unwrap();
    assert_eq!(linked.code, [0x4C00_0000, 0x4C00_0001, 0x4C00_0002, 0xE000_0000]);
    assert_eq!(linked.opdescs.iter().map(|o| o.extra).collect::<Vec<_>>(), [0, 0, 7]);
    let error = |objects| link(objects).unwrap_err().to_string();
    assert_eq!(
        error(vec![object(&[0x4C00_0002], &[(0x36F, 0)])]),
        "a: word 0 names descriptor 2, which the object lacks"
    );
    // mad reaches the first 32 entries only.
    let many: Vec<(u32, u32)> = (0..33).map(|n| (0x36F, n)).collect();
    let words: Vec<u32> = (0..33).map(|n| 0x4C00_0000 | n).chain([0xE000_0000]).collect();
    let mad = object(&[0xE000_0000], &[(0x36F, 32)]);
    let message = error(vec![object(&words[..33], &many), mad]);
    assert!(message.starts_with("a: word 0 can name 32 descriptors, "), "{message}");
    let long = object(&[0; 4097], &[]);
    assert_eq!(error(vec![long]), "the objects have 4097 words of code together, a program holds 4096");
}
