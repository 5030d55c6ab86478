//! Faults planted in real shaders, and whether `lint` finds each by the rule meant for it and by no
//! other.
//!
//! The programs are the built-in shaders, the corpus where it is present, and for the faults of
//! EMIT the geometry files of this suite. A fault that removes an instruction counts only if the
//! oracle tells the mutant from the original: with some inputs, uniforms and registers left by an
//! earlier run, their outputs or triangles differ. The other faults concern the hardware alone, or
//! the tables, so there is nothing to tell.

mod faults;

use crate::prerequisites::third_party_files;
use faults::FAULTS;
use libtest_mimic::{Failed, Trial};
use picajit::container::shbin::{Dvle, Shbin};
use picajit::internals::interp::Interp;
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::{DstFile, Inst, Stage};
use picajit::state::{Emitter, Registers, Uniforms, Unit};
use picajit::text::{self, Assembly};
use picajit_lint::{Finding, Rule, Subject, lint};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What an instruction writes.
enum Written {
    /// An output that something receives.
    Output,
    /// A temporary, address register or flag.
    Other,
}

/// A program to plant faults in.
struct Original {
    name: String,
    source: String,
    assembly: Assembly,
}

impl Original {
    fn new(name: &str, source: String) -> Option<Original> {
        let assembly = text::assemble(&source).ok()?;
        let is_one = assembly.shbin.dvles.len() == 1;
        let original = Original { name: name.into(), source, assembly };
        (is_one && original.first_procedure().is_some()).then_some(original)
    }

    /// The program with o0 as the position if it declares no output, so that something receives
    /// what it emits.
    fn with_a_map(self) -> Original {
        let writes = |inst: &Inst| matches!(inst, Inst::Alu(alu) if alu.dst.file() == DstFile::Output(0));
        if !self.dvle().outputs.is_empty() || !self.has(writes) {
            return self;
        }
        let line = |line: &str| {
            let map = if line.trim_start().starts_with(".gsh") { ".out mapped position\n" } else { "" };
            format!("{line}\n{map}")
        };
        let source: String = self.source.lines().map(line).collect();
        Original::new(&self.name, source).expect("no name of the suite is `mapped`")
    }

    fn dvle(&self) -> &Dvle {
        &self.assembly.shbin.dvles[0]
    }

    fn insts(&self) -> Vec<Inst> {
        let program = self.assembly.shbin.program().expect("it was assembled");
        program.insts().map(|(_, inst)| inst).collect()
    }

    fn has(&self, f: impl Fn(&Inst) -> bool) -> bool {
        self.insts().iter().any(f)
    }

    /// An input that the program declares, if it declares any.
    fn an_input(&self) -> String {
        format!("v{}", self.dvle().input_mask.trailing_zeros() % 15)
    }

    /// The source with each statement replaced for which `f` gives another.
    fn replaced(&self, f: impl Fn(&str) -> Option<String>) -> String {
        let line = |line: &str| {
            let statement = line.split(';').next().unwrap_or("").trim();
            f(statement).map_or_else(|| format!("{line}\n"), |new| new + "\n")
        };
        self.source.lines().map(line).collect()
    }

    /// The line, from 0, that opens the procedure of the entry.
    fn first_procedure(&self) -> Option<usize> {
        let (_, line) = *self.assembly.lines.get(self.dvle().entry as usize)?;
        let lines: Vec<&str> = self.source.lines().collect();
        (0..line as usize).rev().find(|&n| lines[n].trim_start().starts_with(".proc"))
    }

    /// The source with statements at the start of the entry procedure.
    fn begun_with(&self, statements: &str) -> String {
        let procedure = self.first_procedure().expect("checked when it was read");
        let lines: Vec<&str> = self.source.lines().collect();
        let (before, after) = lines.split_at(procedure + 1);
        format!("{}\n{statements}\n{}\n", before.join("\n"), after.join("\n"))
    }

    /// The source with a new constant of these values, and with statements of its register and of a
    /// free temporary; none if no register is free.
    fn with_constant(&self, values: &str, statements: impl Fn(&str, &str) -> String) -> Vec<String> {
        self.with_register(('c', 96), |c| format!(".setf {c}({values})"), statements)
    }

    /// The same with an integer.
    fn with_integer(&self, values: &str, statements: impl Fn(&str, &str) -> String) -> Vec<String> {
        self.with_register(('i', 4), |i| format!(".seti {i}({values})"), statements)
    }

    fn with_register(
        &self,
        (letter, count): (char, u16),
        declaration: impl Fn(&str) -> String,
        statements: impl Fn(&str, &str) -> String,
    ) -> Vec<String> {
        // The disassembly has all registers by number.
        let text = text::disassemble(&self.assembly.shbin);
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let first = if letter == 'c' { 0x10 } else { 0x70 };
        let is_bound = |n: u16| self.dvle().uniforms.iter().any(|row| (row.first..=row.last).contains(&(first + n)));
        let names = |letter: char, count: u16| (0..count).rev().map(move |n| (n, format!("{letter}{n}")));
        let free = names(letter, count).find(|(n, name)| !words.contains(name.as_str()) && !is_bound(*n));
        let temporary = names('r', 16).find(|(_, name)| !words.contains(name.as_str()));
        let (Some((_, register)), Some((_, temporary))) = (free, temporary) else { return Vec::new() };
        let begun = self.begun_with(&statements(&register, &temporary));
        vec![format!("{begun}{}\n", declaration(&register))]
    }

    /// One mutant for each instruction of which no other writes any of its components: a `nop` in
    /// its place.
    fn without_sole_writers(&self, wanted: impl Fn(&Written) -> bool) -> Vec<String> {
        let insts = self.insts();
        // A key for each component.
        let components = |inst: &Inst| -> Vec<(u8, u8, usize)> {
            match inst {
                Inst::Alu(alu) => {
                    let (file, n) = match alu.dst.file() {
                        DstFile::Output(n) => (0, n),
                        DstFile::Temp(n) => (1, n),
                    };
                    (0..4).filter(|&c| alu.mask.has(c)).map(|c| (file, n, c)).collect()
                }
                Inst::Mova { mask, .. } => (0..2).filter(|&c| mask.has(c)).map(|c| (2, 0, c)).collect(),
                Inst::Cmp { .. } => vec![(3, 0, 0), (3, 0, 1)],
                _ => Vec::new(),
            }
        };
        let mut writers: BTreeMap<(u8, u8, usize), usize> = BTreeMap::new();
        insts.iter().flat_map(&components).for_each(|key| *writers.entry(key).or_default() += 1);
        let mut mutants = Vec::new();
        for (pc, inst) in insts.iter().enumerate() {
            let keys = components(inst);
            let is_output = keys.first().is_some_and(|key| key.0 == 0);
            let is_received = |key: &(u8, u8, usize)| self.receives(key.1, key.2);
            let kind = if is_output { Written::Output } else { Written::Other };
            let is_sole = !keys.is_empty() && keys.iter().all(|key| writers[key] == 1);
            if !wanted(&kind) || !is_sole || is_output && !keys.iter().any(is_received) {
                continue;
            }
            let (_, line) = self.assembly.lines[pc];
            let mut lines: Vec<&str> = self.source.lines().collect();
            lines[line as usize - 1] = "nop";
            mutants.push(lines.join("\n") + "\n");
        }
        mutants
    }

    /// Whether component `c` of `on` has a meaning.
    fn receives(&self, n: u8, c: usize) -> bool {
        let width = |semantic| match semantic {
            0..=2 => 4,
            3 | 5 | 6 => 2,
            4 => 1,
            8 => 3,
            _ => 0,
        };
        let mut rows = self.dvle().outputs.iter().filter(|row| row.register == u16::from(n));
        rows.any(|row| (0..4).filter(|c| row.mask >> c & 1 != 0).take(width(row.semantic)).any(|k| k == c))
    }
}

/// The findings of a program.
struct Found {
    words: usize,
    list: Vec<Finding>,
}

impl Found {
    fn new(source: &str, assembly: &Assembly) -> Found {
        let program = assembly.shbin.program().expect("it was assembled");
        Found { words: program.code().len(), list: lint(&Subject::assembly(&program, assembly, &[source])) }
    }

    fn count(&self, rule: Rule) -> usize {
        self.list.iter().filter(|finding| finding.rule == rule).count()
    }

    /// Whether `rule` fires more often than in `before`.
    fn fires_more(&self, before: &Found, rule: Rule) -> bool {
        self.count(rule) > before.count(rule)
    }

    /// Whether `rule` says more than in `before`. Where it fires on the original already, on one
    /// path, it says that of all paths of the mutant. Words keep their addresses in a mutant of the
    /// same length, so other messages are other findings there.
    fn says_more(&self, before: &Found, rule: Rule) -> bool {
        let is_new = |finding: &&Finding| finding.rule == rule && !before.list.contains(finding);
        self.fires_more(before, rule) || self.words == before.words && self.list.iter().any(|f| is_new(&f))
    }
}

/// The triangles of a run, as bits.
#[derive(Default)]
struct Triangles(Vec<u32>);

impl Emitter for Triangles {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.0.push(u32::from(winding));
        for vertex in vertices {
            self.0.extend(vertex.iter().flatten().map(|x| bits(*x)));
        }
    }
}

fn bits(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

/// What the oracle computes of a program in many runs: outputs that something receives, triangles
/// and exits. Registers begin with values that no shader computes.
fn observed(o: &Original, shbin: &Shbin) -> Vec<u32> {
    let program = shbin.program().expect("short");
    let kernel = Interp.kernel(&program, shbin.dvles[0].entry(), &Config { fuel: 4096, ..Config::default() });
    let mut seed = 1u32;
    let mut random = move || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 22) as f32 - 2.0
    };
    let mut all = Vec::new();
    for run in 0..96u16 {
        let mut uniforms = Uniforms::new();
        uniforms.c.iter_mut().flatten().for_each(|x| *x = random());
        uniforms.i = [[2, 1, 1, 0]; 4];
        o.dvle().apply_constants(&mut uniforms);
        uniforms.b = match run % 3 {
            0 => 0,
            1 => u16::MAX,
            _ => (random() * 16384.0) as i32 as u16,
        };
        let mut unit = Unit::new();
        unit.v.iter_mut().flatten().for_each(|x| *x = random());
        unit.r.iter_mut().flatten().for_each(|x| *x = 1000.0 + random());
        unit.o.iter_mut().flatten().flatten().for_each(|x| *x = 1000.0 + random());
        unit.a0 = [70, 71];
        unit.cmp = [run & 8 != 0, run & 16 != 0];
        let mut triangles = Triangles::default();
        let exit = kernel.run(&uniforms, &mut unit, &mut triangles);
        all.push(exit as u32);
        all.extend(triangles.0);
        if o.dvle().stage == Stage::Vertex {
            for (n, register) in (0u8..).zip(unit.outputs()) {
                let received = register.iter().enumerate().filter(|(c, _)| o.receives(n, *c));
                all.extend(received.map(|(_, x)| bits(*x)));
            }
        }
    }
    all
}

/// The trials of this file.
pub fn trials() -> Vec<Trial> {
    vec![Trial::test("lint/mutants", check)]
}

fn originals() -> Vec<Original> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sorted = |folder: PathBuf, ending: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == ending));
        paths.sort();
        paths
    };
    let mut all = Vec::new();
    for path in sorted(root.join("tools/command/src/shaders"), "pica") {
        all.extend(Original::new(&path.display().to_string(), std::fs::read_to_string(&path).expect("readable")));
    }
    for path in sorted(root.join("jit-tests/geometry"), "test") {
        let original = Original::new(&path.display().to_string(), std::fs::read_to_string(&path).expect("readable"));
        let original = original.filter(|o| o.dvle().stage == Stage::Geometry && !o.source.contains(".raw"));
        all.extend(original.map(Original::with_a_map));
    }
    for path in third_party_files("shbin", "shbin") {
        let Ok(shbin) = Shbin::parse(&std::fs::read(&path).expect("readable")) else { continue };
        all.extend(Original::new(&path.display().to_string(), text::disassemble(&shbin)));
    }
    all
}

#[derive(Default)]
struct Count {
    programs: usize,
    mutants: usize,
    excluded: usize,
    found: usize,
    unrelated: usize,
}

fn check() -> Result<(), Failed> {
    let originals = originals();
    let has_corpus = originals.iter().any(|o| o.name.ends_with(".shbin"));
    let mut problems = Vec::new();
    let (mut total, mut unrelated) = (0, 0);
    let mut kinds = 0;
    for fault in FAULTS {
        let mut count = Count::default();
        let mut missed = Vec::new();
        for original in originals.iter().filter(|o| fault.stages.contains(&o.dvle().stage)) {
            let before = Found::new(&original.source, &original.assembly);
            let wanted = if fault.observable { observed(original, &original.assembly.shbin) } else { Vec::new() };
            let mut has_mutant = false;
            for source in (fault.plant)(original) {
                let assembly = text::assemble(&source)
                    .map_err(|e| format!("{} of {}: {e}\n{source}", fault.name, original.name))?;
                if fault.observable && observed(original, &assembly.shbin) == wanted {
                    count.excluded += 1;
                    continue;
                }
                has_mutant = true;
                count.mutants += 1;
                let after = Found::new(&source, &assembly);
                if fault.meant.iter().any(|&rule| after.says_more(&before, rule)) {
                    count.found += 1;
                } else {
                    missed.push(format!("missed: {} in {}", fault.name, original.name));
                }
                let is_expected = |rule: &&Rule| fault.meant.contains(rule) || fault.consequences.contains(rule);
                let fired: BTreeSet<Rule> = after.list.iter().map(|finding| finding.rule).collect();
                let is_more = |rule: &&Rule| after.fires_more(&before, **rule);
                let others: Vec<&Rule> = fired.iter().filter(|rule| is_more(rule) && !is_expected(rule)).collect();
                if !others.is_empty() {
                    count.unrelated += 1;
                    missed.push(format!("unrelated: {others:?} for {} in {}", fault.name, original.name));
                }
            }
            count.programs += usize::from(has_mutant);
        }
        let Count { programs, mutants, excluded, found, unrelated: others } = count;
        println!(
            "{}: {mutants} mutants of {programs} programs, {found} found, {others} unrelated, {excluded} equal",
            fault.name
        );
        total += mutants;
        unrelated += others;
        kinds += usize::from(programs >= 20);
        if mutants == 0 || found * 100 < mutants * 95 {
            problems.push(format!("{}: {found} of {mutants} mutants found\n{}", fault.name, missed.join("\n")));
        } else if others > 0 {
            println!("{}", missed.join("\n"));
        }
    }
    if unrelated * 100 > total * 2 {
        problems.push(format!("{unrelated} of {total} mutants have unrelated findings"));
    }
    if has_corpus && kinds < 8 {
        problems.push(format!("{kinds} kinds of faults in 20 programs: expected 8"));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}
