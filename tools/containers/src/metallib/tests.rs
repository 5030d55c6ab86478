//! Third-party libraries, and libraries made from them.

use super::bitcode::Bitcode;
use super::metadata::data_type_name;
use super::sources::Sources;
use super::sources::Unpacked;
use super::*;
use crate::finding::Severity;
use crate::testing::prerequisites::{skipped, temporary_folder};
use crate::testing::{hostile, third_party};
use std::io::Cursor as Bytes;

fn files() -> Vec<(String, Vec<u8>)> {
    third_party::files("metallib")
}

#[test]
fn every_part_of_the_description_is_read() {
    let bytes = handmade::library();
    let mut source = Bytes::new(&bytes);
    let library = Metallib::parse(&bytes).unwrap();
    assert_eq!(library.verify(&mut source).unwrap(), []);
    assert_eq!((library.header.version(), library.header.platform_name()), ("1.2.9".into(), "macOS 26.1.2".into()));
    let mut out = Vec::new();
    library.write(&mut source, &mut out).unwrap();
    assert!(out == bytes && stripped(&bytes, Strip::default()) == bytes);

    let functions: Vec<_> = library.functions().collect();
    assert_eq!(functions.iter().map(|f| f.type_name()).collect::<Vec<_>>(), ["vertex", "mesh", "object"]);
    assert_eq!((functions[0].name(), functions[0].tessellation()), (&b"ns::f0"[..], Some((2, 16))));
    assert_eq!(functions[0].versions(), Some(["2.8".into(), "4.0.1".into()]));
    let metadata = |n: usize| library.metadata(functions[n], true).unwrap();
    assert_eq!(metadata(0).vertex_attributes().unwrap()[0].data_type, Some(6));
    assert_eq!((metadata(1).is_empty(), metadata(2).constants().unwrap()[0].index), (true, 7));
    let debug = library.metadata(functions[1], false).unwrap().debug_line();
    assert_eq!(debug, Some((5, &b"/Users/a/x.metal"[..])));
    // The second and the third function share a module.
    assert_eq!(library.module_extent(functions[1]), library.module_extent(functions[2]));
    let sources = library.sources(&mut source).unwrap().unwrap();
    assert_eq!(
        (&sources.link_options[..], sources.working_directory.as_deref()),
        (&b"-o lib"[..], Some(&b"/Users/a"[..]))
    );
    let dynamic = library.dynamic(&mut source).unwrap().unwrap();
    assert_eq!((&dynamic[0].body[..], &dynamic[1].body[..]), (&b"lib.metallib\0"[..], &b"other.metallib\0"[..]));

    for (strip, sections) in [
        (Strip { sources: true, debug: true, ..Strip::default() }, [false, true, true]),
        (Strip { debug: true, ..Strip::default() }, [true, true, true]),
        (Strip::ALL, [false, true, false]),
    ] {
        let out = stripped(&bytes, strip);
        let after = Metallib::parse(&out).unwrap();
        assert_eq!(after.verify(&mut Bytes::new(&out)).unwrap(), [], "{strip:?}");
        let left = [*b"HSRD", *b"HDYN", *b"RLST"].map(|tag| after.tagged_section(tag).is_some());
        assert_eq!(left, sections);
        assert!(!out.windows(7).any(|w| w == b"x.metal"));
    }
}

#[test]
fn odd_sections_of_the_extension_are_stripped() {
    let bytes = handmade::library();
    let tag = |name: &[u8]| bytes.windows(4).position(|w| w == name).unwrap();
    // A section without bytes. What it was is then a gap, which a new file does not have.
    let mut empty = bytes.clone();
    empty[tag(b"HDYN") + 14..][..8].fill(0);
    assert!(errors(&empty).is_empty());
    let out = stripped(&empty, Strip::default());
    assert_eq!(errors(&out), [""; 0]);
    assert!(out.len() < bytes.len() && !out.windows(4).any(|w| w == b"DYNL"));
    // Two sections of one name.
    let mut twice = bytes.clone();
    twice[tag(b"HDYN")..][..4].copy_from_slice(b"HSRD");
    let out = stripped(&twice, Strip::default());
    assert!(out == twice);
}

#[test]
fn a_module_without_a_size_ends_at_the_next_one() {
    let mut bytes = handmade::library();
    // An unknown tag of the same length takes the size's place.
    while let Some(at) = bytes.windows(4).position(|w| w == b"MDSZ") {
        bytes[at..at + 4].copy_from_slice(b"ODD!");
    }
    let library = Metallib::parse(&bytes).unwrap();
    let extents: Vec<_> = library.functions().map(|f| library.module_extent(f).unwrap()).collect();
    let start = library.header.modules.offset;
    assert_eq!(extents, [0, 32, 32].map(|at| Section { offset: start + at, size: 32 }));
    let found = library.verify(&mut Bytes::new(&bytes)).unwrap();
    assert!(found.iter().all(|f| f.message.contains("unknown tag `ODD!`")), "{found:?}");
}

fn errors(bytes: &[u8]) -> Vec<String> {
    let mut source = Bytes::new(bytes);
    let found = Metallib::parse(bytes).unwrap().verify(&mut source).unwrap();
    found.into_iter().filter(|f| f.severity == Severity::Error).map(|f| f.to_string()).collect()
}

fn stripped(bytes: &[u8], strip: Strip) -> Vec<u8> {
    let mut out = Vec::new();
    Metallib::parse(bytes).unwrap().strip(&mut Bytes::new(bytes), strip, &mut out).unwrap();
    out
}

#[test]
fn the_corpus_is_sound_and_written_back() {
    for (name, bytes) in files() {
        let library = Metallib::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut out = Vec::new();
        library.write(&mut Bytes::new(&bytes), &mut out).unwrap();
        assert_eq!(out, bytes, "{name}");
        assert_eq!(library.verify(&mut Bytes::new(&bytes)).unwrap(), [], "{name}");
        assert!(!library.parts.iter().any(|(part, _)| *part == Part::Gap), "{name}: every byte has a part");
        // The canonical layout is that of Apple's linkers.
        assert_eq!(stripped(&bytes, Strip::default()), bytes, "{name}");
    }
}

#[test]
fn modules_say_who_made_them() {
    let (mut functions, mut triples) = (0, 0);
    for (name, bytes) in files() {
        let library = Metallib::parse(&bytes).unwrap();
        for function in library.functions() {
            functions += 1;
            let module = library.module(&mut Bytes::new(&bytes), function).unwrap();
            let bitcode = Bitcode::parse(&module).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(bitcode.triple.as_ref().is_some_and(|t| t.starts_with("air64")), "{name}: {bitcode:?}");
            let ident = bitcode.ident.as_deref().unwrap_or_default();
            assert!(ident.starts_with("Apple ") && ident.ends_with(')'), "{name}: {ident:?}");
            triples += usize::from(bitcode.producer.is_some());
            assert!(function.versions().is_some() && function.hash().is_some(), "{name}");
        }
    }
    assert!(triples * 2 >= functions, "{triples} of {functions} functions name their producer");
}

/// `llvm-bcanalyzer` of the machine, any version.
fn bcanalyzer() -> Option<String> {
    let names = ["llvm-bcanalyzer".to_string()].into_iter().chain((14..30).map(|n| format!("llvm-bcanalyzer-{n}")));
    let found = names
        .into_iter()
        .find(|n| std::process::Command::new(n).arg("--version").output().is_ok_and(|o| o.status.success()));
    if found.is_none() {
        skipped("modules of Metal libraries in LLVM: no llvm-bcanalyzer");
    }
    found
}

#[test]
fn llvm_accepts_the_modules() {
    let files = files();
    if files.is_empty() {
        return;
    }
    let Some(tool) = bcanalyzer() else { return };
    let path = temporary_folder().join(format!("picajit-{}.bc", std::process::id()));
    for (name, bytes) in files {
        let library = Metallib::parse(&bytes).unwrap();
        for function in library.functions() {
            std::fs::write(&path, library.module(&mut Bytes::new(&bytes), function).unwrap()).unwrap();
            let output = std::process::Command::new(&tool).arg(&path).output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let _ = std::fs::remove_file(path);
}

#[test]
fn stripped_libraries_are_sound_and_hold_the_same_modules() {
    for (name, bytes) in files() {
        let before = Metallib::parse(&bytes).unwrap();
        for strip in
            [Strip::ALL, Strip { debug: true, ..Strip::default() }, Strip { sources: true, ..Strip::default() }]
        {
            let out = stripped(&bytes, strip);
            let after = Metallib::parse(&out).unwrap();
            assert_eq!(after.verify(&mut Bytes::new(&out)).unwrap(), [], "{name}, {strip:?}");
            assert!(out.len() <= bytes.len() + 16 * before.functions().len(), "{name}, {strip:?}");
            assert_eq!(after.source_section().is_none(), strip.sources || before.source_section().is_none());
            for (a, b) in before.functions().zip(after.functions()) {
                assert_eq!((a.name(), a.hash()), (b.name(), b.hash()), "{name}");
                let module = |library: &Metallib, bytes, f| library.module(&mut Bytes::new(bytes), f).unwrap();
                assert!(module(&before, &bytes, a) == module(&after, &out, b), "{name}");
            }
        }
        let out = stripped(&bytes, Strip::ALL);
        // Modules are unchanged, and may hold paths of their own.
        let modules = Metallib::parse(&out).unwrap().header.modules;
        let rest = [&out[..modules.offset as usize], &out[modules.end().unwrap() as usize..]].concat();
        for path in [&b"/Users/"[..], b".metal\0", b"BZh9", b"AIRR"] {
            assert!(!rest.windows(path.len()).any(|w| w == path), "{name} still has {}", path.escape_ascii());
        }
    }
}

#[test]
fn sources_are_unpacked() {
    let mut unpacked = 0;
    for (name, bytes) in files() {
        let library = Metallib::parse(&bytes).unwrap();
        let Some((section, has_directory)) = library.source_section() else { continue };
        let section_bytes = read_at(&mut Bytes::new(&bytes), section).unwrap();
        let sources = Sources::parse(section.offset, &section_bytes, has_directory).unwrap();
        let Unpacked { files, .. } = sources.unpack().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(files.iter().any(|f| f.path.ends_with(b".metal")), "{name}");
        unpacked += files.len();
    }
    assert!(unpacked > 0 || files().is_empty());
}

#[test]
fn metadata_are_decoded() {
    let find = |wanted: &str| files().into_iter().find(|(n, _)| n.contains(wanted)).map(|(_, b)| b);
    let (Some(constants), Some(attributes)) = (find("constants.14"), find("imgui_impl_sdlgpu3_shaders.h_0x2bc1"))
    else {
        return;
    };
    let library = Metallib::parse(&constants).unwrap();
    let function = library.functions().next().unwrap();
    assert_eq!(library.header.version(), "1.2.7");
    assert_eq!(library.header.platform_name(), "macOS 14.0");
    assert_eq!(function.type_name(), "kernel");
    let found = library.metadata(function, true).unwrap().constants().unwrap();
    let constant = |name: &[u8], index| Constant { name: name.into(), data_type: 3, index, active: true };
    assert_eq!(found, [constant(b"foo", 0), constant(b"bar", 2)]);
    let library = Metallib::parse(&attributes).unwrap();
    let vertex = library.functions().next().unwrap();
    let found = library.metadata(vertex, true).unwrap();
    let found = found.vertex_attributes().unwrap();
    let attribute = |name: &[u8], index, ty| {
        let data_type = Some(ty);
        VertexAttribute { name: name.into(), index, usage: 0, active: true, data_type }
    };
    assert_eq!(found, [attribute(b"aPos", 0, 4), attribute(b"aUV", 1, 4), attribute(b"aColor", 2, 6)]);
    assert_eq!(
        [3, 4, 6, 0x1D, 0x21, 0x35, 200].map(data_type_name),
        ["float", "float2", "float4", "int", "uint", "bool", "type 200"]
    );
}

#[test]
fn broken_rules_are_found() {
    let Some((_, bytes)) = files().into_iter().find(|(n, _)| n.contains("constants.14")) else { return };
    let library = Metallib::parse(&bytes).unwrap();
    let find = |wanted: &[u8]| bytes.windows(wanted.len()).position(|w| w == wanted).unwrap();
    let has = |at: usize, new: &[u8], wanted: &str| {
        let mut file = bytes.clone();
        file[at..at + new.len()].copy_from_slice(new);
        let found = errors(&file);
        assert!(found.iter().any(|m| m.contains(wanted)), "{wanted}: {found:?}");
    };
    has(find(b"HASH") + 6, &[0; 4], "the hash of the module");
    has(library.header.modules.offset as usize + 100, &[0xA5; 4], "the hash of the module");
    has(16, &[1], "the header announces");
    has(find(b"OFFT") + 6, &[1], "public metadata");
    has(find(b"RFLT") + 6, &[5], "`RFLT` gives 0x5, where no group is");
    has(find(b"MDSZ") + 6, &[0, 0, 1], "is outside of the module section");
    has(library.header.modules.offset as usize + 12, &[0], "its wrapper announces");
    has(find(b"CNST") + 6, &[9], "the tag `CNST` is damaged");
    let fails = |at: usize, new: &[u8], wanted: &str| {
        let mut file = bytes.clone();
        file[at..at + new.len()].copy_from_slice(new);
        let message = Metallib::parse(&file).unwrap_err().to_string();
        assert!(message.contains(wanted), "{wanted}: {message}");
    };
    fails(0, b"X", "should begin with \"MTLB\"");
    fails(48, &[0xFF; 8], "the public metadata, 0xffffffffffffffff bytes at");
    fails(32, &[0xFF; 8], "the function list, 0xffffffffffffffff bytes at 0x58, is outside of the file");
    fails(88, &[2], "2 functions announced, the list has 1");
    fails(56, &(library.header.public.offset as u32).to_le_bytes(), "the length of a tag needs");
    fails(library.header.public.offset as usize, &[1], "a group announces 0x1 bytes, its tags end after 0x20");
}

/// A file whose reads fail from an offset on, as if another process had cut it off.
struct CutOff<'a>(Bytes<&'a [u8]>, u64);

impl Read for CutOff<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let left = self.1.saturating_sub(self.0.position()) as usize;
        let n = out.len().min(left);
        self.0.read(&mut out[..n])
    }
}

impl Seek for CutOff<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_file_that_shrinks_meanwhile_is_an_error() {
    let Some((_, bytes)) = files().into_iter().find(|(n, _)| n.contains("constants.14")) else { return };
    let library = Metallib::parse(&bytes).unwrap();
    let modules = library.header.modules.offset;
    let mut early = CutOff(Bytes::new(&bytes), 200);
    assert!(Metallib::open(&mut early).unwrap_err().message.contains("the file is cut off at 0xc8"));
    let mut late = CutOff(Bytes::new(&bytes), modules + 10);
    let library = Metallib::open(&mut late).unwrap();
    assert!(library.module(&mut late, library.functions().next().unwrap()).is_err());
    assert!(library.verify(&mut late).is_err());
    assert!(library.write(&mut late, &mut Vec::new()).is_err());
}

#[test]
fn hostile_files_give_an_error_or_a_model() {
    for (name, bytes) in files().into_iter().chain([("by hand".into(), handmade::library())]) {
        hostile::files(&bytes, |file| {
            let mut source = Bytes::new(file);
            let Ok(library) = Metallib::parse(file) else { return };
            let mut out = Vec::new();
            library.write(&mut source, &mut out).unwrap();
            assert_eq!(out, file, "{name}");
            library.verify(&mut source).unwrap();
            for function in library.functions() {
                if let Ok(module) = library.module(&mut source, function) {
                    drop(Bitcode::parse(&module));
                }
            }
            let mut out = Vec::new();
            if library.strip(&mut source, Strip::ALL, &mut out).is_ok() {
                Metallib::parse(&out).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        });
    }
}
