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
fn library(names: &[&str], path: &str) -> Vec<u8> {
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
    let archive = archive(path);
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

fn archive(path: &str) -> Vec<u8> {
    let source = b"kernel void f() {}";
    let mut header = tar::Header::new_ustar();
    // The library's own setter rejects unsafe paths.
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(source.len() as u64);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    out.write_all(header.as_bytes()).unwrap();
    out.write_all(source).unwrap();
    out.write_all(&[0; 512 - 18 + 1024]).unwrap();
    out.finish().unwrap()
}

#[test]
fn inspect_shows_every_format() {
    let folder = Folder::new("inspect-containers");
    folder.file("a.mbs", mbs(b"CVER", 6, b"uv\0\0", 2)).file("b.metallib", library(&["one", "t\x1bwo"], "a.metal"));
    let text = folder.good("inspect a.mbs b.metallib");
    for line in [
        "  Mali-200/400 shader (MBS1), 96 bytes\n",
        "    core                Mali-400 GP\n",
        "      name  type  precision  offset\n      uv    vec2  high       4\n",
        "    version             1.2.6\n",
        "    platform            macOS 12.0\n",
        "      t\\u{1b}wo  kernel  2.4  2.4    32\n",
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
    folder.file("wrong.metallib", library(&["one"], "a.metal")).file("cut.shbin", b"DVLB\x01\0\0\0");
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
    let err = folder.bad("disasm a.mbs");
    assert!(err.starts_with("error: a.mbs: is a Mali-200/400 shader (MBS1), no PICA200 shader\nhelp: "), "{err}");
}

#[test]
fn parts_are_extracted() {
    let folder = Folder::new("extract");
    folder
        .file("a.mbs", mbs(b"CVER", 6, b"uv\0\0", 2))
        .file("b.metallib", library(&["one", "two", "two"], "sub/a.metal"));
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
    for (n, path) in
        ["../up.metal", "/tmp/picajit-absolute.metal", "a/../../up.metal", "c:\\up.metal"].iter().enumerate()
    {
        folder.file("a.metallib", library(&["one"], path));
        let err = folder.bad(arguments("extract a.metallib --sources -o").value(format!("src{n}")));
        assert!(err.contains("which leaves the folder\nhelp: nothing is extracted"), "{err}");
        assert!(!folder.0.join(format!("src{n}")).exists());
    }
    assert!(!folder.0.join("up.metal").exists());
}

#[test]
fn libraries_are_stripped() {
    let folder = Folder::new("strip");
    folder.file("a.metallib", library(&["one", "two"], "a.metal"));
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
