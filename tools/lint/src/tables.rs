//! Masks, names, constants and the output table against the code and against each other.

use super::entry::EntryFacts;
use super::loops::sources;
use super::source::Sources;
use super::{Findings, Rule, Subject};
use picajit::container::shbin::{Constant, Dvle, GeometryMode};
use picajit::internals::source::DiagnosticKind;
use picajit::isa::{DstFile, Index, Inst, Src, SrcFile, Stage, Test};
use picajit::text::WarningKind;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of the first registers of each class in uniform tables.
const FLOATS: u16 = 0x10;
const INTS: u16 = 0x70;
const BOOLS: u16 = 0x78;

/// Meanings of outputs.
const POSITION: u16 = 0;
const DUMMY: u16 = 9;

pub(super) fn check_entry(entry: &EntryFacts<'_>, subject: &Subject<'_>, texts: &Sources, found: &mut Findings) {
    let Some(dvle) = entry.tables else { return };
    let survey = super::survey::Survey::of_words(entry.program, entry.explored.reachable());
    // Some assemblers leave the masks empty.
    if dvle.input_mask != 0 {
        let undeclared = survey.inputs & !dvle.input_mask;
        for n in (0..16).filter(|n| undeclared >> n & 1 != 0) {
            let pc = entry.explored.reachable().iter().copied().find(|&pc| reads_input(entry.program.inst(pc), n));
            let message = format!("v{n} is read, and the input mask does not have it");
            found.add(Rule::UndeclaredInput, Some(entry.index), pc, message);
        }
        let unused = dvle.input_mask & !survey.inputs;
        let mut elsewhere = 0;
        for n in (0..16).filter(|n| unused >> n & 1 != 0) {
            match texts.declaration(subject, entry.index, 'v', n) {
                Some(line) => {
                    let message = format!("v{n} is declared and never read");
                    found.add(Rule::UnusedInput, Some(entry.index), None, message).source = Some(line);
                }
                None => elsewhere |= 1 << n,
            }
        }
        if elsewhere != 0 {
            let message = format!("{} is declared and never read", registers("v", elsewhere));
            found.add(Rule::UnusedInput, Some(entry.index), None, message);
        }
    }
    if dvle.output_mask != 0 {
        let unmapped = survey.outputs & !dvle.output_mask;
        for n in (0..16).filter(|n| unmapped >> n & 1 != 0) {
            let pc = entry.explored.reachable().iter().copied().find(|&pc| writes_output(entry.program.inst(pc), n));
            let message = format!("o{n} is written, and nothing receives it");
            found.add(Rule::UnmappedOutput, Some(entry.index), pc, message);
        }
    }
    no_position(entry, dvle, subject, texts, found);
    unbound(entry, subject, &survey, found);
}

/// A program whose outputs the rasteriser receives, and none of them is a position. Beside a
/// geometry program, or with a dummy for one, a vertex program needs none.
fn no_position(entry: &EntryFacts<'_>, dvle: &Dvle, subject: &Subject<'_>, texts: &Sources, found: &mut Findings) {
    let has_geometry = subject.entries.iter().any(|point| point.entry.stage == Stage::Geometry);
    let is_last = entry.stage() == Stage::Geometry || !has_geometry;
    let has = |semantic| dvle.outputs.iter().any(|row| row.semantic == semantic);
    if let Some(row) = dvle.outputs.first()
        && is_last
        && !has(POSITION)
        && !has(DUMMY)
    {
        let finding = found.add(Rule::NoPosition, Some(entry.index), None, "no output is the position");
        finding.source = texts.declaration(subject, entry.index, 'o', row.register.into());
    }
}

fn writes_output(inst: Option<Inst>, n: u8) -> bool {
    matches!(inst, Some(Inst::Alu(alu)) if alu.dst.file() == DstFile::Output(n) && alu.mask.bits() != 0)
}

fn reads_input(inst: Option<Inst>, n: u8) -> bool {
    inst.is_some_and(|inst| sources(&inst).iter().any(|src| src.reg.file() == SrcFile::Input(n)))
}

/// Uniforms that the code uses and no constant and no name of any entry covers. A file without
/// names of uniforms says nothing about them.
fn unbound(entry: &EntryFacts<'_>, subject: &Subject<'_>, survey: &super::survey::Survey, found: &mut Findings) {
    let tables: Vec<&Dvle> = subject.entries.iter().filter_map(|point| point.tables).collect();
    let named = tables.iter().flat_map(|dvle| &dvle.uniforms).filter(|u| u.first >= FLOATS);
    let ranges: Vec<(u16, u16)> = named.map(|u| (u.first, u.last)).collect();
    if ranges.is_empty() {
        return;
    }
    let constants = tables.iter().flat_map(|dvle| &dvle.constants).map(unified);
    let bound: Vec<(u16, u16)> = ranges.into_iter().chain(constants.map(|n| (n, n))).collect();
    let is_bound = |n: u16| bound.iter().any(|&(first, last)| (first..=last).contains(&n));
    let mut missing = Vec::new();
    // The vertices of a primitive arrive in float uniforms.
    let receives = entry.stage() == Stage::Geometry && entry.tables.is_some_and(|d| d.geometry != GeometryMode::Point);
    if !receives {
        // A relative operand may read others than its base.
        let reachable = entry.explored.reachable().iter().filter_map(|&pc| entry.program.inst(pc));
        let named = reachable.flat_map(|inst| sources(&inst).to_vec()).filter(|src| src.index == Index::None);
        let floats: BTreeSet<u8> = named.filter_map(|src| uniform(&src)).collect();
        let floats = floats.into_iter().filter(|&n| !is_bound(FLOATS + u16::from(n)));
        missing.extend(floats.map(|n| format!("c{n}")));
    }
    let ints = (0..4).filter(|n| survey.ints >> n & 1 != 0 && !is_bound(INTS + n));
    missing.extend(ints.map(|n| format!("i{n}")));
    // Hardware sets b15 of the geometry unit.
    let bools = (0..16).filter(|n| survey.bools >> n & 1 != 0 && !is_bound(BOOLS + n));
    let of_hardware = |n: &u16| *n == 15 && entry.stage() == Stage::Geometry;
    missing.extend(bools.filter(|n| !of_hardware(n)).map(|n| format!("b{n}")));
    for name in missing {
        let pc = entry.explored.reachable().iter().copied().find(|&pc| uses(entry.program.inst(pc), &name));
        found.add(Rule::UnboundUniform, Some(entry.index), pc, format!("{name} is used, and nothing binds it"));
    }
}

fn uniform(src: &Src) -> Option<u8> {
    match src.reg.file() {
        SrcFile::Uniform(n) => Some(n),
        SrcFile::Input(_) | SrcFile::Temp(_) => None,
    }
}

fn uses(inst: Option<Inst>, name: &str) -> bool {
    let float = |src: &Src| src.index == Index::None && uniform(src).is_some_and(|n| name == format!("c{n}"));
    match inst {
        Some(inst @ (Inst::Alu(_) | Inst::Mova { .. } | Inst::Cmp { .. })) => sources(&inst).iter().any(float),
        Some(Inst::Loop { int, .. }) => name == format!("i{}", int & 3),
        Some(
            Inst::Call { test: Some(Test::Bool { id, .. }), .. }
            | Inst::If { test: Test::Bool { id, .. }, .. }
            | Inst::Jump { test: Test::Bool { id, .. }, .. },
        ) => name == format!("b{id}"),
        _ => false,
    }
}

/// A constant's register in the numbering of uniform tables.
fn unified(constant: &Constant) -> u16 {
    constant.register().saturating_add(match constant {
        Constant::Float { .. } => FLOATS,
        Constant::Int { .. } => INTS,
        Constant::Bool { .. } => BOOLS,
    })
}

fn unified_name(number: u16) -> String {
    match number {
        BOOLS.. => format!("b{}", number - BOOLS),
        INTS.. => format!("i{}", number - INTS),
        FLOATS.. => format!("c{}", number - FLOATS),
        _ => format!("v{number}"),
    }
}

fn registers(prefix: &str, mask: u16) -> String {
    let names: Vec<String> = (0..16).filter(|n| mask >> n & 1 != 0).map(|n| format!("{prefix}{n}")).collect();
    names.join(", ")
}

/// What the tables of a file say, without its code.
pub(super) fn check_file(subject: &Subject<'_>, texts: &Sources, found: &mut Findings) {
    if subject.entries.is_empty() {
        found.add(Rule::NoEntries, None, None, "the file has no entry");
        return;
    }
    for (index, point) in subject.entries.iter().enumerate() {
        let Some(dvle) = point.tables else { continue };
        let mut values: BTreeMap<u16, &Constant> = BTreeMap::new();
        for constant in &dvle.constants {
            let register = unified(constant);
            if let Some(before) = values.insert(register, constant)
                && before != constant
            {
                let message = format!("{} is a constant twice, with two values", unified_name(register));
                let letter = ['c', 'i', 'b'][usize::from(register >= INTS) + usize::from(register >= BOOLS)];
                let finding = found.add(Rule::ConstantOverwritten, Some(index), None, message);
                finding.source = texts.setting(letter, constant.register().into());
            }
        }
        for (n, row) in dvle.outputs.iter().enumerate() {
            let mut before = dvle.outputs[..n].iter().filter(|other| other.mask & row.mask != 0);
            let again = before.find_map(|other| match other {
                _ if other.register == row.register => Some("is mapped again"),
                _ if other.semantic == row.semantic && row.semantic != DUMMY => {
                    Some("has the meaning that an earlier row has")
                }
                _ => None,
            });
            if let Some(again) = again {
                let message = format!("o{} {again} in row {n} of the output table", row.register);
                let finding = found.add(Rule::DuplicateOutput, Some(index), None, message);
                finding.source = texts.declaration(subject, index, 'o', row.register.into());
            }
        }
    }
    let has = |stage| subject.entries.iter().any(|point| point.entry.stage == stage);
    if has(Stage::Geometry) && subject.entries.iter().filter(|p| p.entry.stage == Stage::Vertex).count() > 1 {
        let message = "several vertex entries beside a geometry entry: draws with and without it can alternate";
        found.add(Rule::MixedStages, None, None, message);
    }
}

/// Whether a warning may be about another meaning than the author's. Two kinds are findings of other
/// rules, where runs reach them.
fn is_other_than_meant(kind: &WarningKind) -> bool {
    match kind {
        WarningKind::TwoInputs | WarningKind::LongBlock { .. } | WarningKind::MarkerWithoutFile => false,
        // A comma at the end, and a C suffix of a number.
        WarningKind::Ignored(text) => !matches!(text.as_str(), "," | "f" | "F"),
        _ => true,
    }
}

/// The assembler's warnings: readings that an author may not intend.
pub(super) fn check_readings(texts: &Sources, found: &mut Findings) {
    for text in &texts.texts {
        for diagnostic in &text.analysis.diagnostics {
            if let DiagnosticKind::Warning(kind) = &diagnostic.kind
                && is_other_than_meant(kind)
            {
                let pc = text.words(diagnostic.place.line).first().copied();
                let finding = found.add(Rule::LenientReading, None, pc, kind.to_string());
                finding.source = Some(text.source(diagnostic.place));
                if matches!(kind, WarningKind::WithoutEntry(_)) {
                    finding.help = "move it to the file with the entry procedure";
                }
            }
        }
    }
}
