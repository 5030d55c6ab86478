//! The project's own tests -> a seed corpus for every fuzz target, in `DIR/TARGET/`.
//!
//! Programs are those of `jit-tests/*/*.test`, read for their assembly alone (text after `;` is a
//! comment of the assembler). Inputs are in each target's own format; this file repeats those
//! formats and must change with them.

#[path = "../../prerequisites.rs"]
mod prerequisites;

use picajit::container::shbin::Shbin;
use picajit::isa::Stage;
use picajit::text::assemble;
use prerequisites::third_party_files;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let dir = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "corpus".into()));
    let sources = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")))?;
    let mut seeds = Seeds { dir, written: 0 };
    for (name, source) in &sources {
        seeds.put("assembler", name, source.as_bytes())?;
        // Tests of assembler errors, and files of several programs, are seeds for the assembler
        // alone.
        let Ok(assembly) = assemble(source) else { continue };
        if let Ok(file) = assembly.shbin.write() {
            seeds.put("shbin", name, &file)?;
        }
        seeds.put("shbin", &format!("{name}-object"), &object(&assembly.shbin))?;
        seeds.put("words", name, &raw_words(&assembly.shbin))?;
        seeds.put("disassembler", name, &program(&assembly.shbin))?;
    }
    for target in ["shbin", "mbs", "vbc", "metallib"] {
        for file in third_party_files(target, target) {
            // Long inputs are slow, and have the same parts.
            if fs::metadata(&file)?.len() < 16 << 10 {
                let (name, bytes) = (file_name(&file), fs::read(&file)?);
                seeds.put(target, &name, &bytes)?;
                seeds.put("fields", &name, &bytes)?;
            }
        }
    }
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../containers"))? {
        let file = file?.path();
        seeds.put("fields", &file_name(&file), &fs::read(&file)?)?;
    }
    // Further texts of fields are those that `inspect --json` prints.
    seeds.put("fields", "small.json", br#"{"format": "MBS1", "chunks": [{"tag": "FDIS", "discard": 1}]}"#)?;
    for n in 0..200 {
        for target in ["insts", "programs"] {
            seeds.put(target, &format!("choices-{n}"), &choices(n))?;
        }
    }
    println!("{} seeds from {} sources in {}", seeds.written, sources.len(), seeds.dir.display());
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

struct Seeds {
    dir: PathBuf,
    written: usize,
}

impl Seeds {
    fn put(&mut self, target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let dir = self.dir.join(target);
        fs::create_dir_all(&dir)?;
        self.written += 1;
        fs::write(dir.join(name), bytes)
    }
}

/// (folder-file, text) of all tests.
fn sources(tests: &Path) -> io::Result<Vec<(String, String)>> {
    let mut sources = Vec::new();
    for folder in fs::read_dir(tests)? {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        for file in fs::read_dir(&folder)? {
            let file = file?.path();
            if file.extension().is_some_and(|e| e == "test") {
                let part = |p: &Path| p.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
                sources.push((format!("{}-{}", part(&folder), part(&file)), fs::read_to_string(&file)?));
            }
        }
    }
    sources.sort();
    Ok(sources)
}

/// An unlinked object with the code, descriptors and constants of `shbin`, and one row in each
/// debug table.
fn object(shbin: &Shbin) -> Vec<u8> {
    const HEADER: usize = 0x58;
    const SYMBOLS: &[u8] = b"main\0proj.vsh\0";
    let dvle = shbin.dvles.first();
    let geometry = dvle.is_some_and(|d| d.stage == Stage::Geometry);
    let words: Vec<u32> = shbin.opdescs.iter().flat_map(|o| [o.word, o.extra]).collect();
    // Entry size in words, and entries, in the header's order.
    let tables: [(usize, &[u32]); 8] = [
        (5, &[0x0005_0002, 0x3F0000, 0xBE0000, 0x3B9999, 0, 0x0001_0001, 0x0403_0201, 0, 0, 0]),
        (4, &[0x0001_0007, 0, u32::MAX, 0]),
        (1, &shbin.code),
        (2, &words),
        (2, &[5, 12]),
        (3, &[0, 0, 0]),
        (2, &[0x0001_0002, 0xF]),
        (2, &[5, 0x0013_0010]),
    ];
    let mut body = Vec::new();
    let mut file = b"DVOJ".to_vec();
    let put = |to: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| to.extend(w.to_le_bytes()));
    put(&mut file, &[u32::from(geometry) << 16 | 0x1002, 0x0003_0005, u32::MAX]);
    for (size, rows) in tables {
        put(&mut file, &[(HEADER + body.len()) as u32, (rows.len() / size) as u32]);
        put(&mut body, rows);
    }
    put(&mut file, &[(HEADER + body.len()) as u32, SYMBOLS.len() as u32]);
    file.extend(body);
    file.extend(SYMBOLS);
    file
}

/// An input of `disassembler`, see there.
fn program(shbin: &Shbin) -> Vec<u8> {
    let mut bytes = vec![shbin.dvles.len().min(3) as u8, shbin.opdescs.len().min(128) as u8, 0, 0, 0, 0, 0, 0];
    for (dvle, entry) in shbin.dvles.iter().zip(bytes[2..].chunks_mut(2)) {
        let len = dvle.end.saturating_sub(dvle.entry).min(0x7F) as u8;
        entry.copy_from_slice(&[dvle.entry as u8, len | u8::from(dvle.stage == Stage::Geometry) << 7]);
    }
    shbin.opdescs.iter().take(128).for_each(|o| bytes.extend(o.word.to_le_bytes()));
    shbin.code.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    bytes
}

/// An input of `words`: its header, see there.
fn raw_words(shbin: &Shbin) -> Vec<u8> {
    let (pc, geometry) = shbin.dvles.first().map_or((0, false), |d| (d.entry as u16, d.stage == Stage::Geometry));
    let opdescs = &shbin.opdescs[..shbin.opdescs.len().min(128)];
    // Fuel 64, five vertices.
    let mut bytes = vec![u8::from(geometry) | 5 << 1 | 4 << 4];
    bytes.extend(pc.to_le_bytes());
    bytes.push(opdescs.len() as u8);
    bytes.extend(7u32.to_le_bytes());
    bytes.extend([0x55, 0xAA]);
    bytes.extend([2, 1, 1, 0].repeat(4));
    opdescs.iter().for_each(|o| bytes.extend(o.word.to_le_bytes()));
    shbin.code.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    bytes
}

/// Random choices for the generator, more than most programs need.
fn choices(n: u32) -> Vec<u8> {
    let mut state = n;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let len = 256 + usize::from(byte()) * 8;
    std::iter::repeat_with(byte).take(len).collect()
}
