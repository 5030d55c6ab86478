//! What a stage prints for a small program, kept in the file of the program: `BLESS=1 cargo test --test jit-tests` writes
//! it anew, and the difference is read in review.
//!
//! A snapshot is a block of comments at the end of the file: `; stage NAME:` and then one `; | LINE` for each line. A
//! file says which stages it wants by having their blocks; an empty block is filled in by blessing.

use crate::filetest::{Loaded, load};
use libtest_mimic::{Failed, Trial};
use picajit::ir::cfg::{Cfg, Limits};
use picajit::ir::{Form, Func};
use picajit::isa::numeric::Precision;
use picajit::kernel::DEFAULT_FUEL;
use picajit::text;
use std::path::Path;

/// A stage that can print itself.
pub struct Stage {
    /// Its name in `; stage NAME:`.
    pub name: &'static str,
    /// Its text for a program. An error is a failure of the test.
    pub print: fn(&Loaded) -> Result<String, String>,
}

/// All of them, in the order of the pipeline. A stage is added here and nowhere else.
pub const STAGES: &[Stage] = &[
    Stage {
        name: "words",
        print: |loaded| {
            let word = |(pc, word): (usize, &u32)| format!("{pc:3}: {word:08X}\n");
            let code: String = loaded.program.code().iter().enumerate().map(word).collect();
            let opdesc = |(n, word): (usize, &u32)| format!("descriptor {n}: {word:08X}\n");
            Ok(code + &loaded.program.opdescs().iter().enumerate().map(opdesc).collect::<String>())
        },
    },
    Stage {
        name: "inst",
        print: |loaded| {
            Ok(loaded.program.insts().map(|(pc, i)| format!("{pc:3}: {}\n", text::inst_to_string(&i))).collect())
        },
    },
    Stage { name: "disasm", print: |loaded| Ok(text::disassemble(&loaded.shbin)) },
    Stage { name: "cfg", print: |loaded| Ok(cfg(loaded)?.to_string()) },
    // As it was built, then simplified, and the witness that keeps registers in memory.
    Stage { name: "built", print: |loaded| Ok(func(loaded, Form::Ssa)?.to_string()) },
    Stage { name: "ssa", print: |loaded| simplified(loaded, Form::Ssa) },
    Stage { name: "memory", print: |loaded| simplified(loaded, Form::Memory) },
];

fn cfg(loaded: &Loaded) -> Result<Cfg, String> {
    Cfg::build(&loaded.program, loaded.entry, Limits::default()).map_err(|e| e.to_string())
}

fn func(loaded: &Loaded, form: Form) -> Result<Func, String> {
    let func = Func::build(&cfg(loaded)?, DEFAULT_FUEL, form);
    func.verify().map_err(|e| e.to_string())?;
    Ok(func)
}

fn simplified(loaded: &Loaded, form: Form) -> Result<String, String> {
    let mut func = func(loaded, form)?;
    func.simplify(Precision::F32);
    func.verify().map_err(|e| e.to_string())?;
    Ok(func.to_string())
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
    for line in blocks.lines().filter(|line| line.starts_with(STAGE)) {
        let name = line[STAGE.len()..].trim_end_matches(':');
        let stage = STAGES.iter().find(|s| s.name == name).ok_or(format!("no stage is called `{name}`"))?;
        fresh += &format!("{line}\n");
        for printed in (stage.print)(&loaded)?.lines() {
            fresh += format!("{LINE} {printed}").trim_end();
            fresh.push('\n');
        }
    }
    if let Some(stray) = blocks.lines().find(|l| !l.starts_with(STAGE) && !l.starts_with(LINE)) {
        return Err(format!("`{stray}` stands among the snapshots").into());
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
