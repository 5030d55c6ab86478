//! Reads before writes, outputs that are not written, EMITs of stale outputs, and geometry
//! invocations that depend on each other.

use super::entry::EntryFacts;
use super::source::Sources;
use super::{Finding, Findings, Rule, Severity, Subject};
use picajit::internals::analysis::assignment::{Assignment, Visit};
use picajit::internals::analysis::carried::carried;
use picajit::internals::analysis::tests_bool;
use picajit::internals::ir::analysis::effects::reads;
use picajit::internals::ir::register_set::RegisterSet;
use picajit::isa::{Inst, Pc, Stage};
use std::collections::BTreeMap;

/// What a rule finds at an address: the components, and the assignments in which it finds them.
type Places<'a> = BTreeMap<(Rule, Pc), (RegisterSet, Vec<&'a Assignment>)>;

pub(super) fn check(entry: &EntryFacts<'_>, subject: &Subject<'_>, sources: &Sources, found: &mut Findings) {
    let mut places = Places::new();
    let first_run = written_in_first_run(entry);
    // Mapped components that some end or EMIT finds unwritten, and the first such word.
    let mut unwritten = RegisterSet::NONE;
    let mut first_unwritten = None;
    for (assignment, visit) in entry.visits() {
        let Some(inst) = entry.inst(visit.node) else { continue };
        let pc = entry.pc(visit.node);
        let mut add = |rule, set: RegisterSet| {
            if set.is_empty() {
                return;
            }
            let place = places.entry((rule, pc)).or_default();
            place.0 = place.0 | set;
            if !place.1.iter().any(|&known| std::ptr::eq(known, assignment)) {
                place.1.push(assignment);
            }
        };
        let known = if assignment.bools.get(15) == Some(true) { first_run } else { RegisterSet::NONE };
        add(Rule::ReadBeforeWrite, reads(&inst) & !visit.facts.written & !known & entry.shown_at_start);
        let outputs = |set: u64| RegisterSet { outputs: set, ..RegisterSet::NONE };
        let missing = match (inst, entry.stage()) {
            (Inst::End, Stage::Vertex) => entry.mapped() & outputs(!visit.facts.written.outputs),
            (Inst::Emit, Stage::Geometry) => {
                let current = entry.mapped() & outputs(!visit.facts.since_emit);
                let in_run = outputs(visit.facts.written_in_run);
                add(Rule::StaleOutput, current & in_run);
                if visit.facts.written.state & RegisterSet::SETEMIT == 0 {
                    add(Rule::EmitWithoutSetemit, RegisterSet::state(RegisterSet::SETEMIT));
                }
                current & !in_run
            }
            _ => RegisterSet::NONE,
        };
        add(Rule::UnwrittenOutput, missing);
        if !missing.is_empty() {
            unwritten = unwritten | missing;
            first_unwritten = Some(first_unwritten.map_or(pc, |first: Pc| first.min(pc)));
        }
    }
    let ever = entry.assignments.list.iter().fold(RegisterSet::NONE, |all, a| all | a.ever_written);
    never_written(entry, subject, sources, unwritten & !ever, first_unwritten, found);
    // A component is one finding: at the first EMIT that sends it, or where it is read first.
    let mut known = RegisterSet::NONE;
    let mut read = RegisterSet::NONE;
    // Registers of which a finding says that the run takes what is there already.
    let mut explained = unwritten & !ever;
    let mut has_setemit = true;
    for ((rule, pc), (set, assignments)) in places {
        let set = match rule {
            Rule::UnwrittenOutput if entry.stage() == Stage::Geometry => {
                let new = set & ever & !known;
                known = known | set;
                new
            }
            Rule::UnwrittenOutput => set & ever,
            Rule::ReadBeforeWrite => {
                let new = set & !read;
                read = read | set;
                new
            }
            Rule::EmitWithoutSetemit if !has_setemit => continue,
            _ => set,
        };
        if set.is_empty() {
            continue;
        }
        let condition = entry.condition(&assignments);
        let message = match rule {
            Rule::ReadBeforeWrite if (set & ever).is_empty() => {
                format!("{set} is read{condition}, and no instruction writes it")
            }
            Rule::ReadBeforeWrite => format!("{set} is read before the run has written it on every path{condition}"),
            Rule::UnwrittenOutput => {
                let end = if entry.stage() == Stage::Geometry { "emit" } else { "end" };
                format!("{set} is mapped and not written on some path to this {end}{condition}")
            }
            Rule::StaleOutput => format!("{set} is not written between the emit before and this one{condition}"),
            _ => {
                has_setemit = false;
                format!("this emit can run before any setemit{condition}")
            }
        };
        if matches!(rule, Rule::StaleOutput | Rule::UnwrittenOutput | Rule::ReadBeforeWrite) {
            explained = explained | set;
        }
        let finding = found.add(rule, Some(entry.index), Some(pc), message);
        soften(entry, finding);
    }
    if entry.stage() == Stage::Geometry && entry.assignments.complete {
        let of_emit = RegisterSet::state(RegisterSet::SETEMIT | RegisterSet::SLOTS);
        carried_state(entry, if has_setemit { explained } else { explained | of_emit }, found);
    }
}

/// What the first invocation of a geometry program writes, if the program tests b15, which hardware
/// sets after it: later ones may then take registers from it.
fn written_in_first_run(entry: &EntryFacts<'_>) -> RegisterSet {
    let is_first = |assignment: &&Assignment| assignment.bools.get(15) == Some(false);
    let first_runs: Vec<&Assignment> = entry.assignments.list.iter().filter(is_first).collect();
    let tested = entry.stage() == Stage::Geometry && tests_bool(&entry.explored, 15) && !first_runs.is_empty();
    if !tested {
        return RegisterSet::NONE;
    }
    first_runs.iter().fold(!RegisterSet::NONE, |all, assignment| all & assignment.ever_written)
}

/// In a geometry program an output that is not written is less grave: programs shipped on consoles
/// have some.
fn soften(entry: &EntryFacts<'_>, finding: &mut Finding) {
    if finding.rule == Rule::UnwrittenOutput && entry.stage() == Stage::Geometry {
        finding.severity = Severity::Warning;
    }
}

/// Mapped components that no path writes: one finding for each declaration, at it.
fn never_written(
    entry: &EntryFacts<'_>,
    subject: &Subject<'_>,
    sources: &Sources,
    never: RegisterSet,
    pc: Option<Pc>,
    found: &mut Findings,
) {
    let mut elsewhere = RegisterSet::NONE;
    for n in 0..16 {
        let set = RegisterSet::of_output(n, never.output(n));
        match sources.declaration(subject, entry.index, 'o', n.into()) {
            Some(line) if !set.is_empty() => {
                let message = format!("{set} is mapped and never written");
                let finding = found.add(Rule::UnwrittenOutput, Some(entry.index), pc, message);
                finding.source = Some(line);
                soften(entry, finding);
            }
            _ => elsewhere = elsewhere | set,
        }
    }
    if !elsewhere.is_empty() {
        let message = format!("{elsewhere} is mapped and never written");
        let finding = found.add(Rule::UnwrittenOutput, Some(entry.index), pc, message);
        soften(entry, finding);
    }
}

/// What an invocation takes from an earlier one, at the first word that takes it. `explained` are
/// registers of which another finding says so.
fn carried_state(entry: &EntryFacts<'_>, explained: RegisterSet, found: &mut Findings) {
    let list = &entry.assignments.list;
    let carried = carried(entry.program, &entry.explored, entry.shown_at_start, list, Stage::Geometry);
    let of_emit = RegisterSet::state(RegisterSet::SETEMIT | RegisterSet::SLOTS);
    if (carried & !explained).is_empty() {
        return;
    }
    let takes = |visit: &Visit| match entry.inst(visit.node) {
        Some(Inst::Emit) => carried.outputs & !visit.facts.written.outputs != 0 || !(carried & of_emit).is_empty(),
        Some(inst) => !(reads(&inst) & carried & !visit.facts.written).is_empty(),
        None => false,
    };
    let words = entry.visits().filter(|(_, visit)| takes(visit)).map(|(_, visit)| entry.pc(visit.node));
    let pc = words.min().unwrap_or(entry.entry.pc);
    let message = format!("an invocation depends on what an earlier one leaves in {carried}");
    found.add(Rule::CarriedState, Some(entry.index), Some(pc), message);
}
