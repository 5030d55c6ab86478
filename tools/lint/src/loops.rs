//! Loops whose integer constant is known: a step of 0 where the body reads aL, and runs of very
//! many instructions.

use super::cost::iterations;
use super::entry::{EntryFacts, constant_ints};
use super::{Findings, Rule, Subject};
use picajit::internals::analysis::paths::shortest;
use picajit::isa::{Index, Inst, Pc, Src, Stage};
use std::collections::BTreeSet;

/// Instructions of each run of a vertex program from which it counts as long: a thousand vertices
/// take three units of 268 MHz longer than a sixtieth of a second.
const MANY_INSTRUCTIONS: u64 = 1 << 14;

pub(super) fn check(entry: &EntryFacts<'_>, subject: &Subject<'_>, found: &mut Findings) {
    let ints = constant_ints(entry.tables);
    let nodes = entry.explored.nodes();
    // The innermost loops in which aL is read, by the first word of their bodies.
    let mut reads_counter: BTreeSet<Pc> = BTreeSet::new();
    let mut known: BTreeSet<Pc> = BTreeSet::new();
    for (_, visit) in entry.visits() {
        let Some(inst) = entry.inst(visit.node) else { continue };
        if sources(&inst).iter().any(|src| src.relative().is_some_and(|(_, index)| index == Index::AL))
            && let Some(scope) = nodes[visit.node].scopes.loops.top()
        {
            reads_counter.insert(scope.start);
        }
        if let Inst::Loop { int, .. } = inst
            && ints[usize::from(int & 3)].is_some()
        {
            known.insert(entry.pc(visit.node));
        }
    }
    for &pc in &known {
        let Some(Inst::Loop { int, .. }) = entry.program.inst(pc) else { continue };
        if let Some([count, _, 0, _]) = ints[usize::from(int & 3)]
            && count > 0
            && reads_counter.contains(&(pc + 1))
        {
            let message = format!("the step is 0, so aL is the same in all {} iterations", u16::from(count) + 1);
            found.add(Rule::LoopStep, Some(entry.index), Some(pc), message);
        }
    }
    if let Some(&pc) = known.first()
        && entry.stage() == Stage::Vertex
        && let Some(point) = subject.entries.get(entry.index)
        && let Some(count) = shortest(entry.program, &entry.explored, iterations(point))
        && count >= MANY_INSTRUCTIONS
    {
        let message = format!("with its loops every run executes at least {count} instructions");
        found.add(Rule::LongRun, Some(entry.index), Some(pc), message);
    }
}

/// The sources of an instruction.
pub(super) fn sources(inst: &Inst) -> &[Src] {
    match inst {
        Inst::Alu(alu) => alu.sources(),
        Inst::Mova { src, .. } => std::slice::from_ref(src),
        Inst::Cmp { src, .. } => src,
        _ => &[],
    }
}
