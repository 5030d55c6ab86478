//! [`Case`], [`Divergence`] -> a complete test file for `jit-tests/`: assembly, `; run:` lines with
//! exact values, the interpreter's results as expectations. For a divergence, comments name the
//! engine, the place and the values that differ.
//!
//! The text assembles to the exact words and descriptors of the case; values read back bit for bit.
//! Comments state what the format can't express: masks, and that vertices run in sequence.

use super::case::Case;
use super::compare::{Divergence, Engine, Misbehaviour, REFERENCE};
use super::explain::{Blame, Explanation, explain};
use picajit::container::shbin::{Dvle, Opdesc, Shbin};
use picajit::internals::diff::Difference;
use picajit::internals::kernel::{Kernel, copy_registers, default_fuel};
use picajit::internals::literal::format_vec4;
use picajit::isa::Stage;
use picajit::isa::numeric::{Precision, same};
use picajit::program::{Entry, Program};
use picajit::state::{Emitter, Exit, Registers, Uniforms, Unit, Vec4};
use picajit::text::{assemble, disassemble};
use std::fmt::Write;

/// Columns of a line of values.
const WIDTH: usize = 118;
/// Vertices that get a `; run:` line, the last ones.
const RUNS: usize = 8;
/// Triangles whose registers are expected.
const TRIANGLES: usize = 2;

/// The test file of a divergence: the difference, and the case. Runs `engines` again to find the
/// instruction to blame.
pub fn report(divergence: &Divergence, engines: &[Engine<'_>]) -> String {
    let mut text = String::new();
    comment(&mut text, &divergence.summary());
    if let Misbehaviour::Difference(Difference { rows, .. }) = &divergence.found {
        for row in rows.iter().filter(|row| row.differs).skip(1).take(8) {
            let [want, got] = &row.values;
            comment(&mut text, &format!("Also {}: {got}, but on the interpreter {want}", row.location));
        }
    }
    if let Some(originally) = &divergence.originally {
        comment(&mut text, &format!("Before it was shrunk: {originally}"));
    }
    let engine = engines.iter().find(|e| e.name == divergence.engine);
    match engine.map(|&engine| explain(divergence, engine)) {
        Some(Explanation::At(blame)) => blamed(&mut text, &blame, divergence),
        Some(Explanation::Unknown(why)) => comment(&mut text, &format!("No instruction to blame: {why}.")),
        None => {}
    }
    let engine = engine.and_then(|e| {
        let Case { program, entry, config, .. } = &divergence.case;
        // An engine that panics has no result, and would panic here.
        let panics = matches!(divergence.found, Misbehaviour::Panic(_));
        (!panics).then(|| e.backend.compile(program, *entry, config).ok()).flatten()
    });
    text + &file(&divergence.case, engine.as_deref())
}

/// The test file of a case.
pub fn filetest(case: &Case) -> String {
    file(case, None)
}

/// A comment; text that the parser of test files would take for a directive is altered.
fn comment(text: &mut String, words: &str) {
    for line in words.lines() {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ").replace("=>", "->");
        let directive = ["run", "skip", "entry", "error", "precision", "..."].iter().any(|word| line.starts_with(word));
        let _ = writeln!(text, "; {}{line}", if directive { "| " } else { "" });
    }
}

fn blamed(text: &mut String, blame: &Blame, divergence: &Divergence) {
    let Blame { pc, inst, step, agreed, difference, units: [want, got] } = blame;
    let inst = inst.to_string();
    let first = "First instruction whose result differs:";
    comment(
        text,
        &match agreed + 1 == *step {
            true => format!("{first} {inst} at {pc}, executed as number {step}."),
            false => format!("{first} {inst} at {pc}, executed as number {step}, or one since number {}.", agreed + 1),
        },
    );
    if *difference != divergence.summary() {
        comment(text, &format!("Cut after it: {difference}"));
    }
    for (name, unit) in [(REFERENCE, want), (&*divergence.engine, got)] {
        let Some(unit) = unit else { continue };
        let mut items = Vec::new();
        unit_items(&mut items, unit);
        let items = if items.is_empty() { "all zero".into() } else { items.join(", ") };
        comment(text, &format!("registers after it, {name}: {items}"));
    }
}

/// The assembly of the program of `case`, without comments about the case.
fn assembly(program: &Program, entry: Entry) -> String {
    let opdescs = program.opdescs().iter().map(|&word| Opdesc { word, extra: 0 }).collect();
    // All words from the entry on are its procedure; the version is what the assembler writes.
    let end = program.code().len().max(entry.pc.into()) as u32;
    let dvle = Dvle { version: 0x1002, stage: entry.stage, entry: entry.pc.into(), end, ..Dvle::default() };
    disassemble(&Shbin { code: program.code().to_vec(), opdescs, dvles: vec![dvle], ..Shbin::default() })
}

fn file(case: &Case, engine: Option<&dyn Kernel>) -> String {
    let mut text = String::new();
    comment(&mut text, &format!("From {}.", case.name));
    if (case.input_mask, case.output_mask) != (u16::MAX, u16::MAX) {
        let masks =
            format!("Masks of its batches: inputs {:#06x}, outputs {:#06x}.", case.input_mask, case.output_mask);
        comment(&mut text, &masks);
    }
    if case.inputs.len() > 1 {
        let count = case.inputs.len();
        comment(
            &mut text,
            &format!("{count} vertices in sequence; each line begins with the state after the one before."),
        );
    }
    text += &assembly(&case.program, case.entry);
    match assemble(&text) {
        Ok(again) if again.shbin.dvles.first().map(Dvle::entry) == Some(case.entry) => {}
        Ok(_) => _ = writeln!(text, "; entry: {}", case.entry.pc),
        Err(error) => comment(&mut text, &format!("This text does not assemble: {error}")),
    }
    if case.config.precision != Precision::default() {
        let _ = writeln!(text, "; precision: {}", case.config.precision);
    }
    let interp = case.interp();
    let mut unit = case.unit.clone();
    let first = case.inputs.len().saturating_sub(RUNS);
    for (n, input) in case.inputs.iter().enumerate() {
        copy_registers(case.input_mask, input, &mut unit.v);
        let before = unit.clone();
        let after = run(&interp, &case.uniforms, &mut unit);
        if n < first {
            continue;
        }
        let mut wrong = before.clone();
        let got = engine.map_or(&unit, |kernel| {
            run(kernel, &case.uniforms, &mut wrong);
            &wrong
        });
        let mut set = Vec::new();
        if case.config.fuel != default_fuel(case.entry.stage) {
            set.push(format!("fuel = {}", case.config.fuel));
        }
        uniform_items(&mut set, &case.uniforms);
        unit_items(&mut set, &before);
        let expect = expectations(case.entry.stage, &before, &unit, got, &after);
        directive(&mut text, &set, &expect);
    }
    text
}

/// Results of a run besides registers.
struct After {
    exit: Exit,
    triangles: Triangles,
}

/// Triangles, the first few completely.
#[derive(Default)]
struct Triangles {
    count: usize,
    kept: Vec<([Registers; 3], bool)>,
}

impl Emitter for Triangles {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.count += 1;
        if self.kept.len() < TRIANGLES {
            self.kept.push((vertices.map(|v| *v), winding));
        }
    }
}

fn run(kernel: &dyn Kernel, uniforms: &Uniforms, unit: &mut Unit) -> After {
    let mut triangles = Triangles::default();
    let exit = kernel.run(uniforms, unit, &mut triangles);
    After { exit, triangles }
}

/// `; run: set => expect`, over several lines if need be.
fn directive(text: &mut String, set: &[String], expect: &[String]) {
    let mut line = String::from("; run:");
    let last = expect.len().saturating_sub(1);
    let set = set.iter().enumerate().map(|(n, item)| format!("{item}{}", if n + 1 < set.len() { "," } else { "" }));
    let expect = expect.iter().enumerate().map(|(n, item)| format!("{item}{}", if n < last { "," } else { "" }));
    for item in set.chain(["=>".to_string()]).chain(expect) {
        if line.len() + item.len() >= WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from("; ...");
        }
        let _ = write!(line, " {item}");
    }
    let _ = writeln!(text, "{line}");
}

fn is_zero(value: &Vec4) -> bool {
    value.iter().all(|x| x.to_bits() == 0)
}

fn uniform_items(items: &mut Vec<String>, uniforms: &Uniforms) {
    for (n, value) in uniforms.c.iter().enumerate().filter(|(_, value)| !is_zero(value)) {
        items.push(format!("c{n} = {}", format_vec4(*value)));
    }
    for (n, [x, y, z, w]) in uniforms.i.iter().enumerate().filter(|(_, value)| **value != [0; 4]) {
        items.push(format!("i{n} = ({x}, {y}, {z}, {w})"));
    }
    items.extend((0..16).filter(|n| uniforms.b >> n & 1 != 0).map(|n| format!("b{n} = true")));
}

/// The vector registers of a unit by their names in test files.
fn vectors(unit: &Unit) -> impl Iterator<Item = (String, &Vec4)> {
    let bank = usize::from(unit.bank & 1);
    let files = [("v", &unit.v), ("r", &unit.r), ("o", &unit.o[bank])].map(|(name, file)| (name.to_string(), file));
    let other = (format!("bank{}.o", bank ^ 1), &unit.o[bank ^ 1]);
    let slots = unit.slots.iter().enumerate().map(|(n, slot)| (format!("slot{n}.o"), slot));
    let all = files.into_iter().chain([other]).chain(slots);
    all.flat_map(|(name, file)| file.iter().enumerate().map(move |(n, value)| (format!("{name}{n}"), value)))
}

/// The scalar fields of a unit, with their values in a new unit.
fn scalars(unit: &Unit) -> [(&'static str, String, &'static str); 7] {
    let s = unit.setemit;
    [
        ("a0.x", unit.a0[0].to_string(), "0"),
        ("a0.y", unit.a0[1].to_string(), "0"),
        ("aL", unit.al.to_string(), "0"),
        ("cmp.x", unit.cmp[0].to_string(), "false"),
        ("cmp.y", unit.cmp[1].to_string(), "false"),
        ("bank", unit.bank.to_string(), "0"),
        ("setemit", format!("({}, {}, {})", s.vertex, s.primitive, s.winding), "(0, false, false)"),
    ]
}

/// The fields of a unit that differ from a new unit.
fn unit_items(items: &mut Vec<String>, unit: &Unit) {
    let vectors = vectors(unit).filter(|(_, value)| !is_zero(value));
    items.extend(vectors.map(|(name, value)| format!("{name} = {}", format_vec4(*value))));
    let scalars = scalars(unit).into_iter().filter(|(_, value, zero)| value != zero);
    items.extend(scalars.map(|(name, value, _)| format!("{name} = {value}")));
}

/// Fields that the interpreter changes from `before` to `unit`, and fields that differ in `got`.
fn expectations(stage: Stage, before: &Unit, unit: &Unit, got: &Unit, after: &After) -> Vec<String> {
    let mut items = Vec::new();
    let differs = |a: &Vec4, b: &Vec4| a.iter().zip(b).any(|(&a, &b)| !same(a, b));
    // By the names that the banks have afterwards.
    let banked = [before, got].map(|other| Unit { bank: unit.bank, ..other.clone() });
    for (((name, value), (_, was)), (_, got)) in vectors(unit).zip(vectors(&banked[0])).zip(vectors(&banked[1])) {
        if differs(value, was) || differs(value, got) {
            items.push(format!("{name} = {}", format_vec4(*value)));
        }
    }
    let now = Unit { bank: unit.bank & 1, ..unit.clone() };
    let others = scalars(before).into_iter().zip(scalars(got));
    for ((name, value, _), ((_, was, _), (_, got, _))) in scalars(&now).into_iter().zip(others) {
        if value != was || value != got {
            items.push(format!("{name} = {value}"));
        }
    }
    if after.exit != Exit::End || items.is_empty() {
        let exit = match after.exit {
            Exit::End => "end",
            Exit::Fuel => "fuel",
            Exit::BreakOutsideLoop => "break-outside-loop",
            Exit::PastEnd => "past-end",
            Exit::Cancelled => "cancelled",
        };
        items.push(format!("exit = {exit}"));
    }
    if stage == Stage::Geometry {
        items.push(format!("tris = {}", after.triangles.count));
    }
    for (n, (vertices, winding)) in after.triangles.kept.iter().enumerate() {
        items.push(format!("tri[{n}].winding = {winding}"));
        for (v, vertex) in vertices.iter().enumerate() {
            let some = vertex.iter().enumerate().filter(|(_, value)| !is_zero(value));
            items.extend(some.map(|(r, value)| format!("tri[{n}].v{v}.o{r} = {}", format_vec4(*value))));
        }
    }
    items
}
