//! Printed stages of small programs, compared with snapshots in the programs' files.
//! `BLESS=1 cargo test --test jit-tests` rewrites them; review reads the difference.
//!
//! A snapshot is a block of comments at the end of the file: `; stage NAME:` and then one `; |
//! LINE` for each line. Its blocks select the stages of a file; blessing fills an empty block.
//! Machine code is for a named CPU, not the host; a build without that target ignores those blocks.

use crate::filetest::{Loaded, load};
use libtest_mimic::{Failed, Trial};
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::ir::{Form, Func};
use picajit::internals::kernel::default_fuel;
use picajit::isa::numeric::Precision;
use picajit::isa::{Inst, Pc};
use picajit::text;
use std::path::Path;

/// A printable stage.
pub struct PrintedStage {
    /// Its name in `; stage NAME:`.
    pub name: &'static str,
    /// Its text for a program, or `None` if this build lacks the stage. An error fails the test.
    pub print: fn(&Loaded) -> Result<Option<String>, String>,
}

/// All stages, in the order of the pipeline.
pub const STAGES: &[PrintedStage] = &[
    PrintedStage {
        name: "words",
        print: |loaded| {
            let word = |(pc, word): (usize, &u32)| format!("{pc:3}: {word:08X}\n");
            let code: String = loaded.program.code().iter().enumerate().map(word).collect();
            let opdesc = |(n, word): (usize, &u32)| format!("descriptor {n}: {word:08X}\n");
            Ok(Some(code + &loaded.program.opdescs().iter().enumerate().map(opdesc).collect::<String>()))
        },
    },
    PrintedStage {
        name: "inst",
        print: |loaded| {
            let line = |(pc, inst): (Pc, Inst)| format!("{pc:3}: {inst}\n");
            Ok(Some(loaded.program.insts().map(line).collect()))
        },
    },
    PrintedStage { name: "disasm", print: |loaded| Ok(Some(text::disassemble(&loaded.shbin))) },
    PrintedStage { name: "cfg", print: |loaded| Ok(Some(cfg(loaded)?.to_string())) },
    // As built, then simplified, then the memory form of the unoptimised engine.
    PrintedStage { name: "built", print: |loaded| Ok(Some(func(loaded, Form::Ssa)?.to_string())) },
    PrintedStage { name: "ssa", print: |loaded| simplified(loaded, Form::Ssa) },
    PrintedStage { name: "memory", print: |loaded| simplified(loaded, Form::Memory) },
    PrintedStage { name: "clif", print: |loaded| code(loaded, "x86-64", false) },
    PrintedStage { name: "x86-64", print: |loaded| code(loaded, "x86-64", true) },
    PrintedStage { name: "aarch64", print: |loaded| code(loaded, "aarch64", true) },
    // A batch, a group of four vertices for each instruction.
    PrintedStage { name: "batch clif", print: |loaded| batch(loaded, "x86-64", false) },
    PrintedStage { name: "batch x86-64", print: |loaded| batch(loaded, "x86-64", true) },
    PrintedStage { name: "batch aarch64", print: |loaded| batch(loaded, "aarch64", true) },
];

fn cfg(loaded: &Loaded) -> Result<Cfg, String> {
    Cfg::build(&loaded.program, loaded.entry, Limits::default()).map_err(|e| e.to_string())
}

fn func(loaded: &Loaded, form: Form) -> Result<Func, String> {
    let func = Func::build(&cfg(loaded)?, default_fuel(loaded.entry.stage), form);
    func.verify().map_err(|e| e.to_string())?;
    Ok(func)
}

fn simplified(loaded: &Loaded, form: Form) -> Result<Option<String>, String> {
    let mut func = func(loaded, form)?;
    func.simplify(Precision::F32);
    func.verify().map_err(|e| e.to_string())?;
    Ok(Some(func.to_string()))
}

/// Machine code for the CPU of that name, or its CLIF.
#[cfg(feature = "targets")]
fn code(loaded: &Loaded, name: &str, host: bool) -> Result<Option<String>, String> {
    made(loaded, name, host, picajit::internals::jit::Variant::Vec4)
}

/// The same for batch code.
#[cfg(feature = "targets")]
fn batch(loaded: &Loaded, name: &str, host: bool) -> Result<Option<String>, String> {
    made(loaded, name, host, picajit::internals::jit::Variant::Batch)
}

#[cfg(feature = "targets")]
fn made(
    loaded: &Loaded,
    name: &str,
    host: bool,
    variant: picajit::internals::jit::Variant,
) -> Result<Option<String>, String> {
    use picajit::internals::jit::{Target, explain_for};
    let target = Target::ALL.into_iter().find(|t| t.name() == name).ok_or("no such CPU")?;
    let config = picajit::internals::kernel::Config::default();
    let stages = explain_for(target, variant, &loaded.program, loaded.entry, &config);
    stages.map(|s| Some(if host { s.host } else { s.clif })).map_err(|e| e.to_string())
}

#[cfg(not(feature = "targets"))]
fn batch(_: &Loaded, _: &str, _: bool) -> Result<Option<String>, String> {
    Ok(None)
}

#[cfg(not(feature = "targets"))]
fn code(_: &Loaded, _: &str, _: bool) -> Result<Option<String>, String> {
    Ok(None)
}

const STAGE: &str = "; stage ";
const LINE: &str = "; |";

/// One trial per file.
pub fn trial(name: &str, path: &Path) -> Trial {
    let path = path.to_path_buf();
    Trial::test(name, move || check(&path))
}

fn check(path: &Path) -> Result<(), Failed> {
    let source = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let blocks = source.find(STAGE).ok_or("no `; stage NAME:` block")?;
    let (program, blocks) = source.split_at(blocks);
    let loaded = load(program, None)?;
    let mut fresh = program.to_string();
    let mut lines = blocks.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix(STAGE) else { continue };
        let name = name.trim_end_matches(':');
        let stage = STAGES.iter().find(|s| s.name == name).ok_or(format!("no stage is called `{name}`"))?;
        fresh += &format!("{line}\n");
        let mut kept = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with(STAGE)) {
            kept.push(line);
        }
        match (stage.print)(&loaded)? {
            Some(text) => {
                text.lines().for_each(|printed| fresh += &format!("{}\n", format!("{LINE} {printed}").trim_end()));
            }
            None => kept.iter().for_each(|line| fresh += &format!("{line}\n")),
        }
    }
    if let Some(stray) = blocks.lines().find(|l| !l.starts_with(STAGE) && !l.starts_with(LINE)) {
        return Err(format!("unexpected line among the snapshots: `{stray}`").into());
    }
    if fresh == source {
        return Ok(());
    }
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(path, fresh).map_err(|e| format!("{}: {e}", path.display()).into());
    }
    let old: Vec<&str> = source.lines().collect();
    let new: Vec<&str> = fresh.lines().collect();
    let at = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let show = |lines: &[&str]| lines.get(at).copied().unwrap_or("(the end)").to_string();
    Err(format!("line {}:\n  file: {}\n   now: {}\nBLESS=1 rewrites it", at + 1, show(&old), show(&new)).into())
}
