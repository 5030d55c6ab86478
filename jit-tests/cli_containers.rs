//! The command on containers of other GPUs: `inspect`, `verify`, `extract`, `strip`, `convert` and
//! `link-check`, on files made here and on the corpus.

use super::{Ended, Folder, VERTEX, arguments};
use crate::prerequisites::third_party_files;
use std::io::Write;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn chunk(tag: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&tag[..], &words(&[body.len() as u32]), body].concat()
}

/// An MBS file with one program and one varying of two or three components.
fn mbs(tag: &[u8; 4], core: u32, name: &[u8; 4], components: u8) -> Vec<u8> {
    let record = [0, 1, components, 0, 4, 0, 0, 0, 4, 0, 0x10, 3, 0, 0, 0, 0, 4, 0, 0xFF, 0xFF];
    let varying = chunk(b"VVAR", &[chunk(b"STRI", name), record.to_vec()].concat());
    let code = if tag == b"CVER" { vec![0; 16] } else { words(&[0x21]) };
    let parts = [words(&[core]), chunk(b"SVAR", &[words(&[1]), varying].concat()), chunk(b"DBIN", &code)];
    chunk(b"MBS1", &chunk(tag, &parts.concat()))
}

fn tag(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&name[..], &(body.len() as u16).to_le_bytes(), body].concat()
}

fn group(tags: &[u8]) -> Vec<u8> {
    [&words(&[tags.len() as u32 + 8]), tags, b"ENDT"].concat()
}

/// A library with an empty module for each name, and an archive with one source at `path`.
fn library(names: &[&str], path: &str, entry: tar::EntryType) -> Vec<u8> {
    let module = [words(&[0x0B17_C0DE, 0, 20, 8, u32::MAX]), b"BC\xC0\xDE\0\0\0\0\0\0\0\0".to_vec()].concat();
    let function = |(n, name): (usize, &&str)| {
        let offsets: Vec<u8> =
            [8 * n, 8 * n, module.len() * n].iter().flat_map(|o| (*o as u64).to_le_bytes()).collect();
        let tags = [
            tag(b"NAME", format!("{name}\0").as_bytes()),
            tag(b"TYPE", &[2]),
            tag(b"HASH", &[0; 32]),
            tag(b"OFFT", &offsets),
            tag(b"VERS", &[2, 0, 4, 0, 2, 0, 4, 0]),
            tag(b"MDSZ", &(module.len() as u64).to_le_bytes()),
        ];
        group(&tags.concat())
    };
    let list = [words(&[names.len() as u32]), names.iter().enumerate().flat_map(function).collect()].concat();
    let metadata = group(&[]).repeat(names.len());
    let modules = module.repeat(names.len());
    let archive = archive(path, entry);
    let archive = [b"SARC", &words(&[archive.len() as u32 + 2])[..], b"0\0", &archive, b"ENDT"].concat();
    let sources = [words(&[1]), b"-o out\0".to_vec(), words(&[archive.len() as u32]), archive].concat();

    let lens = [list.len(), 6 + 16 + 4, metadata.len(), metadata.len(), modules.len(), sources.len()].map(|n| n as u64);
    let at: Vec<u64> = (0..=6).map(|n| 88 + lens[..n].iter().sum::<u64>()).collect();
    let fields = [at[6], at[0], lens[0] - 4, at[2], lens[2], at[3], lens[3], at[4], lens[4]];
    let number = |n: &u64| n.to_le_bytes();
    let header =
        [b"MTLB\x01\x80\x02\0\x06\0\0\x81\x0C\0\0\0".to_vec(), fields.iter().flat_map(number).collect()].concat();
    let extension =
        [tag(b"HSRC", &[at[5], lens[5]].iter().flat_map(number).collect::<Vec<_>>()), b"ENDT".to_vec()].concat();
    [header, list, extension, metadata.clone(), metadata, modules, sources].concat()
}

fn archive(path: &str, entry: tar::EntryType) -> Vec<u8> {
    let source: &[u8] = if entry.is_file() { b"kernel void f() {}" } else { b"" };
    let mut header = tar::Header::new_ustar();
    // The library's own setter rejects unsafe paths.
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(source.len() as u64);
    header.set_entry_type(entry);
    if matches!(entry, tar::EntryType::Link | tar::EntryType::Symlink) {
        header.set_link_name("target").unwrap();
    }
    header.set_cksum();
    let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    out.write_all(header.as_bytes()).unwrap();
    out.write_all(source).unwrap();
    out.write_all(&vec![0; source.len().next_multiple_of(512) - source.len() + 1024]).unwrap();
    out.finish().unwrap()
}

#[test]
fn inspect_shows_every_format() {
    let folder = Folder::new("inspect-containers");
    folder
        .file("a.mbs", mbs(b"CVER", 6, b"uv\0\0", 2))
        .file("b.metallib", library(&["one", "t\x1bwo"], "a.metal", tar::EntryType::Regular));
    let text = folder.good("inspect a.mbs b.metallib");
    for line in [
        "  Mali-200/400 shader (MBS1), 96 bytes\n",
        "    core                Mali-400 GP\n",
        "      name  type  precision  offset  components  element  stride\n      uv    vec2  high       4       2           4        4\n",
        "    version             1.2.6\n",
        "    platform            macOS 12.0\n",
        "      t\\u{1b}wo  kernel  2.4  2.4    32            8, 8, 32  0000000000000000",
        "      section    offset  size\n      functions  88      ",
        "    link options        -o out\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json = folder.json("inspect --json a.mbs b.metallib");
    assert_eq!(json[0]["programs"][0]["varyings"][0]["type"], "vec2");
    assert_eq!(json[1]["functions"][1]["name"], "t\u{1b}wo");
    // A folder has files of every format.
    folder.file("c.pica", VERTEX);
    assert_eq!(folder.json("inspect --json .").as_array().unwrap().len(), 3);
}

#[test]
fn verify_tells_sound_files_from_others() {
    let folder = Folder::new("verify");
    let good = mbs(b"CVER", 6, b"uv\0\0", 2);
    let mut odd = good.clone();
    odd[16] = 9;
    folder.file("good.mbs", &good).file("odd.mbs", odd).file("cut.mbs", &good[..50]).file("a.pica", VERTEX);
    folder
        .file("wrong.metallib", library(&["one"], "a.metal", tar::EntryType::Regular))
        .file("cut.shbin", b"DVLB\x01\0\0\0");
    assert_eq!(folder.good("verify good.mbs"), "good.mbs: Mali-200/400 shader (MBS1), sound\n");
    assert!(folder.good("verify odd.mbs").starts_with("odd.mbs: warning: at 0x10: unknown vertex core 9\n"));
    assert!(folder.good("verify a.pica").ends_with("a.pica: PICA200 assembly, sound\n"));
    let fails = |args: &'static str, wanted: &str| {
        let Ended { code, out, err } = folder.run(args);
        assert_eq!((code, err.as_str()), (1, ""), "{args}");
        assert!(out.starts_with(wanted), "{out}");
    };
    fails("verify cut.mbs", "cut.mbs: error: at 0x4: the header announces 0x60 bytes, the file has 0x32\n");
    fails("verify cut.shbin", "cut.shbin: error: at 0x4: the table of DVLE offsets ");
    fails("verify wrong.metallib", "wrong.metallib: error: at 0x5c: the hash of the module of `one` is wrong\n");
    assert!(folder.bad("verify nothere").starts_with("error: nothere: no such file"));
    let json: serde_json::Value = serde_json::from_str(&folder.run("verify --json cut.mbs good.mbs").out).unwrap();
    assert_eq!((&json[0]["sound"], &json[1]["sound"]), (&false.into(), &true.into()));
    assert_eq!(json[0]["findings"][0]["offset"], 4);
}

#[test]
fn near_misses_are_named() {
    let folder = Folder::new("near-misses");
    let cases: [(&str, &[u8], &str); 9] = [
        ("a.air", b"\xDE\xC0\x17\x0B\0\0\0\0", "is LLVM bitcode, such as a compiled .air"),
        ("b.bc", b"BC\xC0\xDE\x35\x14\0\0", "is LLVM bitcode"),
        ("c.spv", b"\x03\x02\x23\x07\0\0\x01\0", "is bare SPIR-V, without a container"),
        ("d.metallib", b"\xCA\xFE\xBA\xBE\0\0\0\x02", "is a fat file with a slice for each GPU"),
        ("e.metallib", b"\xCB\xFE\xBA\xBE\0\0\0\x02", "is a fat file with a slice for each GPU"),
        ("f.mbs", b"MBS2\0\0\0\0", "is an MBS2, the format of later Mali GPUs"),
        ("g.mbs", b"MB", "is cut off within its first four bytes"),
        ("h.metallib", b"<!DOCTYPE html>", "is a web page"),
        ("i.metallib", b"version https://git-lfs.github.com/spec/v1", "is a pointer of Git LFS"),
    ];
    for (name, bytes, wanted) in cases {
        folder.file(name, bytes);
        for verb in ["inspect", "verify", "extract -o out --stage frag"] {
            let err = folder.bad(arguments(verb).value(name));
            assert!(err.starts_with(&format!("error: {name}: {wanted}")) && err.contains("\nhelp: "), "{err}");
        }
    }
    folder.file("a.mbs", mbs(b"CVER", 6, b"uv\0\0", 2));
    let err = folder.bad("run a.mbs");
    assert!(err.starts_with("error: a.mbs: is a Mali-200/400 shader (MBS1), no PICA200 shader\nhelp: "), "{err}");
}

#[test]
fn parts_are_extracted() {
    let folder = Folder::new("extract");
    folder
        .file("a.mbs", mbs(b"CVER", 6, b"uv\0\0", 2))
        .file("b.metallib", library(&["one", "two", "two"], "sub/a.metal", tar::EntryType::Regular));
    assert_eq!(folder.good("extract a.mbs --stage vertex -o code"), "code: 16 bytes\n");
    assert_eq!(folder.read("code"), [0; 16]);
    let ended = folder.run("extract b.metallib --function one -o one.bc");
    assert_eq!((ended.code, ended.out.as_str()), (0, "one.bc: 32 bytes\n"));
    assert_eq!(&folder.read("one.bc")[20..24], b"BC\xC0\xDE");
    assert_eq!(folder.run("extract b.metallib --function two --index 1 -o two.bc").code, 0);
    folder.good("extract b.metallib --sources -o src");
    assert_eq!(folder.read("src/sub/a.metal"), b"kernel void f() {}");
    for (args, wanted) in [
        ("extract a.mbs --stage fragment -o x", "error: a.mbs: has no stage fragment\nhelp: its stages are vertex\n"),
        ("extract a.mbs --function f -o x", "error: a.mbs: is a Mali-200/400 shader (MBS1), which has no functions\n"),
        ("extract b.metallib --function f -o x", "error: b.metallib: has no function f\nhelp: `picajit inspect` lists"),
        (
            "extract b.metallib --function two -o x",
            "error: b.metallib: has 2 functions two\nhelp: --index chooses one, 0 to 1\n",
        ),
        ("extract b.metallib --function one -o b.metallib", "error: b.metallib: is an input and would be overwritten"),
        ("extract b.metallib --sources -o src", "error: src/sub/a.metal: can't be written: "),
        ("extract b.metallib -o x", "error: the following required arguments were not provided"),
        ("strip a.mbs -o x", "error: a.mbs: is no Metal library\n"),
        ("convert a.mbs --to C -o x", "error: a.mbs: has no other dialect\n"),
    ] {
        let err = folder.bad(args);
        assert!(err.starts_with(wanted), "{args}\n{err}");
    }
    assert!(!folder.0.join("x").exists());
}

#[test]
fn sources_never_leave_their_folder() {
    let folder = Folder::new("unsafe-sources");
    for (n, path) in ["../up.metal", "/../up.metal", "a/../../up.metal", "c:\\up.metal"].iter().enumerate() {
        folder.file("a.metallib", library(&["one"], path, tar::EntryType::Regular));
        let err = folder.bad(arguments("extract a.metallib --sources -o").value(format!("src{n}")));
        assert!(err.contains("which leaves the folder\nhelp: nothing is extracted"), "{err}");
        assert!(!folder.0.join(format!("src{n}")).exists());
    }
    assert!(!folder.0.join("up.metal").exists());
    // The root goes, as with tar; current tools store absolute paths.
    folder.file("a.metallib", library(&["one"], "//tmp/sub/a.metal", tar::EntryType::Regular));
    let ended = folder.run("extract a.metallib --sources -o src");
    assert_eq!((ended.code, ended.err.as_str()), (0, "note: removing the leading `/` of 1 path\n"));
    assert_eq!(folder.read("src/tmp/sub/a.metal"), b"kernel void f() {}");
}

/// Entries of an archive that are no files are named, and folders are not.
#[test]
fn links_and_pipes_of_sources_are_named() {
    use tar::EntryType;
    let folder = Folder::new("source-kinds");
    for (entry, wanted) in [
        (EntryType::Fifo, "warning: p is a named pipe and is left out\n"),
        (EntryType::Link, "warning: p is a hard link to target and is left out\n"),
        (EntryType::Symlink, "warning: p is a symbolic link to target and is left out\n"),
        (EntryType::Char, "warning: p is a device and is left out\n"),
        (EntryType::Directory, ""),
    ] {
        folder.file("a.metallib", library(&["one"], "p", entry));
        let ended = folder.run("extract a.metallib --sources -o src");
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", wanted));
    }
}

/// A fat file around slices: CPU type and bytes of each. The index has either byte order.
fn fat(magic: [u8; 4], order: fn(u32) -> [u8; 4], slices: &[(u32, &[u8])]) -> Vec<u8> {
    let mut at = 8 + 20 * slices.len();
    let mut index = [magic.to_vec(), order(slices.len() as u32).to_vec()].concat();
    for (cpu, bytes) in slices {
        index.extend([*cpu, 0, at as u32, bytes.len() as u32, 4].iter().flat_map(|n| order(*n)));
        at += bytes.len();
    }
    slices.iter().for_each(|(_, bytes)| index.extend(*bytes));
    index
}

#[test]
fn fat_libraries_are_read_by_slices() {
    let folder = Folder::new("fat");
    let [one, two] = [["one"], ["two"]].map(|names| library(&names, "a.metal", tar::EntryType::Regular));
    const AIR: u32 = 0x0100_0017;
    let gpu = (0x0100_0013, &b"\xCF\xFA\xED\xFE\0\0\0\0"[..]);
    folder.file("one", fat(*b"\xCB\xFE\xBA\xBE", u32::to_le_bytes, &[gpu, (AIR, &one)]));
    folder.file("two", fat(*b"\xCA\xFE\xBA\xBE", u32::to_be_bytes, &[(AIR, &one), (0x0100_0014, &two)]));
    folder.file("none", fat(*b"\xCA\xFE\xBA\xBE", u32::to_be_bytes, &[gpu])).file("thin", &one);
    let mut fat = folder.json("inspect --json one");
    assert_eq!((&fat[0]["slices"][0]["arch"], &fat[0]["slices"][1]["library"]), (&"applegpu".into(), &true.into()));
    let mut thin = folder.json("inspect --json thin");
    for json in [&mut fat[0], &mut thin[0]] {
        let fields = json.as_object_mut().unwrap();
        fields.retain(|key, _| key != "file" && key != "slices");
    }
    assert_eq!(fat, thin, "the slice is read as a file of its own");
    assert!(folder.good("inspect one").contains("    slices\n      arch      cpu type"));
    for (args, name) in [("--arch 1", "two"), ("--arch amdgpu", "two"), ("--arch air64", "one")] {
        let json = folder.json(arguments("inspect --json two").and(args));
        assert_eq!(json[0]["functions"][0]["name"], name, "{args}");
    }
    folder.good("extract one --sources -o src");
    assert_eq!(folder.read("src/a.metal"), b"kernel void f() {}");
    folder.good("strip one -o stripped");
    assert_eq!(folder.read("stripped")[..4], *b"MTLB");
    for (args, wanted) in [
        (
            "inspect two",
            "error: two: is a fat file with 2 Metal libraries\nhelp: --arch takes a name or number of its slices: 0 air64 (Metal library), 1 amdgpu (Metal library)\n",
        ),
        ("inspect none", "error: none: is a fat file without a Metal library\n"),
        ("verify one --arch applegpu", "error: one: the slice applegpu is no Metal library\n"),
        ("extract one --arch x --function f -o x", "error: one: has no slice x\n"),
    ] {
        let err = folder.bad(args);
        assert!(err.starts_with(wanted), "{args}\n{err}");
    }
}

/// What Core Image libraries hash is not known, so their hashes are no errors.
#[test]
fn hashes_of_core_image_are_warnings() {
    let folder = Folder::new("core-image");
    let mut library = library(&["one"], "a.metal", tar::EntryType::Regular);
    library[10] = 1;
    folder.file("a.metallib", library);
    let out = folder.good("verify a.metallib");
    let wanted = "a.metallib: warning: at 0x5c: the hash of the module of `one` is wrong; what Core Image libraries hash is not known\n";
    assert!(out.starts_with(wanted) && out.ends_with("a.metallib: Metal library (MTLB), sound\n"), "{out}");
}

/// Why no dialect fits: the offset is that of the wrong byte.
#[test]
fn detection_errors_name_the_byte() {
    let folder = Folder::new("detection");
    let good = include_bytes!("containers/seed.vbc");
    for (at, byte, wanted) in [
        (0x8F, b'-', "the name `m-p` of a member is no identifier"),
        (0x93, 9, "the type of the member `mvp` is no number"),
        (0x26, 7, "base type 7 in the inputs"),
        (0x22, 7, "a reserved byte is 0x7, not 0"),
        (0x5A, 99, "texel type 99 in the bindings"),
        (0xBC, 1, "a reserved number is 0x1, not 0"),
    ] {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        folder.file("a.vbc", bytes);
        let err = folder.bad("inspect a.vbc");
        assert!(err.contains(&format!(": at {at:#x}: no dialect fits; C fits best: {wanted}\n")), "{at:#x}: {err}");
    }
}

/// `build` writes what `inspect --json` printed, for every file at hand.
#[test]
fn what_is_inspected_is_built_back() {
    let folder = Folder::new("build");
    let own = |name: &str| std::path::Path::new(crate::command::REPOSITORY).join("jit-tests/containers").join(name);
    let mut files: Vec<_> = ["all.dvoj", "odd_flags.shbin", "both.mbs", "seed.vbc", "a2.vbc"].map(own).into();
    for kind in ["shbin", "mbs", "vbc"] {
        files.extend(third_party_files(kind, kind));
    }
    files.extend(crate::prerequisites::cases(&["shbin", "dvoj", "mbs", "vbc"]));
    for path in files {
        let json = folder.good(arguments("inspect --json").value(path.to_str().unwrap()));
        folder.file("a.json", json);
        folder.good("build a.json -o out");
        assert!(folder.read("out") == std::fs::read(&path).unwrap(), "{}", path.display());
    }
    folder.file("two.json", "[{}, {}]").file("none.json", "[{}]").file("no.json", "[");
    folder.file("bad.json", r#"{"fields": {"format": "MBS1", "chunks": [{"tag": "CFRA", "body": {"hex": ""}}]}}"#);
    for (args, wanted) in [
        ("build two.json -o x", "error: two.json: has 2 files\nhelp: "),
        ("build none.json -o x", "error: none.json: has no `fields`\nhelp: "),
        ("build no.json -o x", "error: no.json: is no JSON: EOF"),
        ("build a.json -o a.json", "error: a.json: is an input and would be overwritten\n"),
        ("build bad.json -o x", "error: bad.json: the fields are no Mali-200/400 shader (MBS1): at 0x10: "),
    ] {
        let err = folder.bad(args);
        assert!(err.starts_with(wanted), "{args}\n{err}");
    }
    assert!(!folder.0.join("x").exists());
}

/// Fields that other views lack: an object's lines, unusual values, and everything with `--all`.
#[test]
fn every_field_is_shown() {
    let folder = Folder::new("all-fields");
    for (name, bytes) in [
        ("a.dvoj", &include_bytes!("containers/all.dvoj")[..]),
        ("b.shbin", include_bytes!("containers/odd_flags.shbin")),
        ("c.mbs", include_bytes!("containers/both.mbs")),
        ("d.vbc", include_bytes!("containers/seed.vbc")),
    ] {
        folder.file(name, bytes);
    }
    for (args, lines) in [
        (
            "inspect a.dvoj",
            &[
                "  unlinked PICA200 object (DVOJ), 312 bytes, version 0x1234\n",
                "    lines      0-2  src/shader.vsh: 10 11 12\n    operands   0  0x11 0x22\n",
                "at 0xc4: descriptor 04: second word 2864381953\n",
            ][..],
        ),
        ("inspect b.shbin", &[", unknown mode [00, 05, 06, 07]\n", "at 0x5e: DVLE 06: type 130\n"]),
        (
            "inspect c.mbs",
            &[
                "    stack               9, 5\n    discard             1\n",
                "        power  float ",
                "at 0x2d0: FINS 00: zero 119\n",
            ],
        ),
        ("inspect d.vbc", &["    version             1\n    shader type         1\n"]),
        ("inspect --all b.shbin", &["      dvles 0\n", "        geometry start        5\n", "unknown 06 119"]),
        ("inspect --all c.mbs", &[", instructions 2, attribute prefetch 1\n"]),
    ] {
        let text = folder.good(args);
        for line in lines {
            assert!(text.contains(line), "{args}: {line}\n{text}");
        }
    }
    let json = folder.json("inspect --json a.dvoj b.shbin");
    assert_eq!((&json[0]["version"], &json[0]["lines"][2]["line"]), (&0x1234.into(), &12.into()));
    assert_eq!(json[1]["fields"]["dvles"][0]["type"], 0x82);
}

#[test]
fn libraries_are_stripped() {
    let folder = Folder::new("strip");
    folder.file("a.metallib", library(&["one", "two"], "a.metal", tar::EntryType::Regular));
    folder.good("strip a.metallib -o b.metallib");
    let json = folder.json("inspect --json b.metallib");
    assert_eq!(json[0]["functions"].as_array().unwrap().len(), 2);
    assert_eq!((&json[0]["sources"], &json[0]["extension"]), (&serde_json::Value::Null, &serde_json::json!([])));
    assert!(folder.read("b.metallib").len() < folder.read("a.metallib").len());
    folder.bad("strip a.metallib -o ./a.metallib");
}

#[test]
fn varyings_are_linked() {
    let folder = Folder::new("link");
    folder.file("v.mbs", mbs(b"CVER", 6, b"uv\0\0", 2)).file("f.mbs", mbs(b"CFRA", 7, b"uv\0\0", 2));
    folder.file("g.mbs", mbs(b"CFRA", 7, b"uv\0\0", 3));
    assert_eq!(folder.good("link-check v.mbs f.mbs"), "the programs fit\n");
    assert_eq!(folder.good("link-check f.mbs v.mbs"), "the programs fit\n");
    let ended = folder.run("link-check v.mbs g.mbs");
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (1, "error: `uv` is vec2 in the vertex program, vec3 in the fragment program\n")
    );
    folder.file("a.pica", VERTEX);
    assert!(folder.bad("link-check v.mbs a.pica").starts_with("error: a.pica: is no Mali shader (MBS1)\n"));
}

#[test]
fn dialects_convert_there_and_back() {
    let files = third_party_files("vbc", "vbc");
    let file = |name: &str| files.iter().find(|path| path.ends_with(name)).map(|path| std::fs::read(path).unwrap());
    let (Some(full), Some(subpass)) = (file("vslc-a77136f_full.vbc"), file("vslc-c110b1b_subpass.vbc")) else {
        return;
    };
    let folder = Folder::new("convert");
    folder.file("a.vbc", &full).file("s.vbc", subpass);
    folder.good("convert a.vbc --to C -o c.vbc");
    assert_eq!(folder.json("inspect --json c.vbc")[0]["dialect"], "C");
    folder.good("convert c.vbc --to A2 -o b.vbc");
    assert_eq!(folder.read("b.vbc"), full);
    folder.good("extract a.vbc --stage vert -o v.spv");
    assert_eq!(folder.read("v.spv")[..4], 0x0723_0203u32.to_le_bytes());
    for (args, wanted) in [
        ("convert s.vbc --repair -o x", "error: s.vbc: the type of subpass input 0 is not known"),
        ("convert s.vbc --to A2 -o x", "error: s.vbc: subpass input 0 is an object of the compiler's memory"),
        (
            "inspect a.vbc --dialect C",
            "error: a.vbc: begins like a LibVega shader (VBC) and is damaged or cut off: at 0x",
        ),
    ] {
        let err = folder.bad(args);
        assert!(err.starts_with(wanted), "{args}\n{err}");
    }
}

/// Every format inside of another file, with its size; every verb opens `FILE@OFFSET`.
#[test]
fn files_inside_of_others_are_found_and_opened() {
    let folder = Folder::new("inside");
    let files: [(&str, &[u8]); 6] = [
        ("a.shbin", include_bytes!("containers/odd_flags.shbin")),
        ("b.dvoj", include_bytes!("containers/all.dvoj")),
        ("c.mbs", include_bytes!("containers/both.mbs")),
        ("d.vbc", include_bytes!("containers/seed.vbc")),
        ("e.vbc", include_bytes!("containers/a2.vbc")),
        ("f.metallib", &library(&["one"], "a.metal", tar::EntryType::Regular)),
    ];
    let mut all = b"MBS1 VBC\x01 MTLB DVOJ".to_vec();
    let mut places = Vec::new();
    for (name, bytes) in files {
        folder.file(name, bytes);
        places.push((format!("all.bin@{:#x}", all.len()), bytes.len() as u64));
        all.extend(bytes);
        all.extend(b"\xFF more");
    }
    folder.file("all.bin", &all);
    let json = folder.json("inspect --scan --json all.bin");
    let found = json
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["file"].as_str().unwrap().to_string(), f["bytes"].as_u64().unwrap()));
    assert_eq!(found.collect::<Vec<_>>(), places);
    let text = folder.good("inspect --scan all.bin");
    assert!(text.contains("  LibVega shader (VBC), 1138 bytes\n"), "{text}");
    for ((name, _), (place, _)) in files.iter().zip(&places) {
        let outputs = |path: &str| {
            let mut json = folder.json(arguments("inspect --json").value(path));
            json[0]["file"] = "".into();
            let verified = folder.run(arguments("verify").value(path));
            (json, verified.code, verified.out.replace(path, ""), verified.err.replace(path, ""))
        };
        assert_eq!(outputs(place), outputs(name));
    }
    let place = |n: usize| places[n].0.as_str();
    assert_eq!(folder.run(arguments("disasm").value(place(1))).out, folder.run("disasm b.dvoj").out);
    for (args, name, wanted) in [
        ("extract --stage vertex -o out", "c.mbs", 2),
        ("extract --stage vert -o out", "d.vbc", 3),
        ("convert --to C -o out", "e.vbc", 4),
        ("strip -o out", "f.metallib", 5),
        ("extract --function one -o out", "f.metallib", 5),
    ] {
        assert_eq!(folder.run(arguments(args).value(name)).code, 0, "{args}");
        let alone = folder.read("out");
        let ended = folder.run(arguments(args).value(place(wanted)));
        assert_eq!((ended.code, folder.read("out") == alone), (0, true), "{args}: {}", ended.err);
    }
    for args in ["strip -o all.bin", "convert --to C -o all.bin"] {
        let n = if args.starts_with("strip") { 5 } else { 4 };
        let err = folder.bad(arguments(args).value(place(n)));
        assert!(err.contains("would be overwritten"), "{err}");
    }
    // An offset in decimal, one without a shader, and a file that has the whole name.
    let (_, offset) = place(2).split_once("@0x").unwrap();
    let decimal = format!("all.bin@{}", u64::from_str_radix(offset, 16).unwrap());
    assert_eq!(folder.run(arguments("verify").value(&decimal)).code, folder.run("verify c.mbs").code);
    assert!(folder.bad("inspect all.bin@1").starts_with("error: all.bin@1: no known shader file begins with \"BS1 \""));
    assert!(
        folder
            .bad("inspect all.bin@0")
            .starts_with("error: all.bin@0: begins like a Mali-200/400 shader (MBS1) and is damaged")
    );
    assert!(folder.bad("inspect none@0x0").starts_with("error: none@0x0: no such file"));
    folder.file("all.bin@0x4", files[2].1);
    assert_eq!(folder.json("inspect --json all.bin@0x4")[0]["bytes"], places[2].1);
}

/// The words of a Mali shader as text, in `disasm` and in JSON, from which `build` makes the words.
#[test]
fn mali_code_passes_through_text() {
    let folder = Folder::new("mali-code");
    folder
        .file("a.mbs", include_bytes!("containers/st_frag_Mali-400.mbs"))
        .file("v.mbs", mbs(b"CVER", 6, b"uv\0\0", 2));
    let text = folder.good("disasm a.mbs");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("; program 0 (fragment), Mali-400 PP"));
    assert!(lines.all(|line| line.starts_with("length=4 ") && line.contains(" unit")), "{text}");
    assert!(folder.good("disasm v.mbs").starts_with("; program 0 (vertex), Mali-400 GP\nmul0.a=reg0.x mul0.b=reg0.x "));
    assert_eq!(folder.json("disasm --json a.mbs")["text"], text);
    let mut json = folder.json("inspect --json v.mbs");
    let chunks = json[0]["fields"]["chunks"][0]["chunks"].as_array_mut().unwrap();
    let code = chunks.iter_mut().find(|chunk| chunk["tag"] == "DBIN").unwrap();
    code["code"] = serde_json::json!(["mul0.a=load.y store0.x=mul0", "word=7", "word=0", "word=0", "word=0"]);
    folder.file("edited.json", json.to_string());
    folder.good("build edited.json -o new.mbs");
    assert!(folder.good("disasm new.mbs").ends_with("GP\nmul0.a=load.y store0.x=mul0\nmul0.a=reg1.w mul0.b=reg0.x mul1.a=reg0.x mul1.b=reg0.x acc0.a=reg0.x acc0.b=reg0.x acc1.a=reg0.x acc1.b=reg0.x load.offset=0 store0.x=acc0 store0.y=acc0 store1.z=acc0 store1.w=acc0 pass.op=0 complex.a=reg0.x pass.a=reg0.x\n"));
    folder.file("wrong.json", json.to_string().replace("mul0.a", "mul9.a"));
    let err = folder.bad("build wrong.json -o x");
    assert!(
        err.starts_with(
            "error: wrong.json: `fields.chunks[0].chunks[1].code[0]` is not an instruction: no field is called `mul9.a`"
        ),
        "{err}"
    );
    for (args, wanted) in [
        ("disasm --stage host a.mbs", "error: a.mbs: the words of Mali shaders have no other form\nhelp: "),
        ("disasm --entry 1 a.mbs", "error: a.mbs: the file has no such program\n"),
    ] {
        assert!(folder.bad(args).starts_with(wanted), "{args}: {}", folder.bad(args));
    }
}
