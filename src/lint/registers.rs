//! Reads before writes, outputs that are not written, EMITs of stale outputs, and geometry
//! invocations that depend on each other.

use super::entry::EntryFacts;
use super::{Findings, Rule};
use crate::analysis::assignment::Assignment;
use crate::analysis::carried::carried;
use crate::ir::analysis::effects::reads;
use crate::ir::register_set::RegisterSet;
use crate::isa::{Inst, Pc, Stage};
use std::collections::BTreeMap;

/// What a rule finds at an address: the components, and the assignments in which it finds them.
type Places<'a> = BTreeMap<(Rule, Pc), (RegisterSet, Vec<&'a Assignment>)>;

pub(super) fn check(entry: &EntryFacts<'_>, found: &mut Findings) {
    let mut places = Places::new();
    let mut seen_by_emit = RegisterSet::NONE;
    for assignment in &entry.assignments.list {
        for visit in assignment.visits() {
            let Some(inst) = entry.inst(visit.node) else { continue };
            let mut add = |rule, set: RegisterSet| {
                if set.is_empty() {
                    return;
                }
                let place = places.entry((rule, entry.pc(visit.node))).or_default();
                place.0 = place.0 | set;
                if !place.1.iter().any(|&known| std::ptr::eq(known, assignment)) {
                    place.1.push(assignment);
                }
            };
            add(Rule::ReadBeforeWrite, reads(&inst) & !visit.facts.written & entry.shown_at_start);
            let outputs = |set: u64| RegisterSet { outputs: set, ..RegisterSet::NONE };
            match (inst, entry.stage()) {
                (Inst::End, Stage::Vertex) => {
                    add(Rule::UnwrittenOutput, entry.mapped() & outputs(!visit.facts.written.outputs));
                }
                (Inst::Emit, Stage::Geometry) => {
                    seen_by_emit = seen_by_emit | entry.mapped();
                    add(Rule::StaleOutput, entry.mapped() & outputs(!visit.facts.since_emit));
                    if visit.facts.written.state & RegisterSet::SETEMIT == 0 {
                        add(Rule::EmitWithoutSetemit, RegisterSet::state(RegisterSet::SETEMIT));
                    }
                }
                _ => {}
            }
        }
    }
    let ever = entry.assignments.list.iter().fold(RegisterSet::NONE, |all, a| all | a.ever_written);
    // An output that no path writes is one finding, not one for each EMIT.
    let never = seen_by_emit & !ever;
    if !never.is_empty() {
        let message = format!("{never} is mapped and never written");
        found.add(Rule::UnwrittenOutput, Some(entry.index), Some(entry.entry.pc), message);
    }
    for ((rule, pc), (set, assignments)) in places {
        let set = if rule == Rule::StaleOutput { set & ever } else { set };
        if set.is_empty() {
            continue;
        }
        let condition = entry.condition(&assignments);
        let message = match rule {
            Rule::ReadBeforeWrite if (set & ever).is_empty() => {
                format!("{set} is read{condition}, and no instruction writes it")
            }
            Rule::ReadBeforeWrite => format!("{set} is read before the run has written it on every path{condition}"),
            Rule::UnwrittenOutput if (set & ever).is_empty() => {
                format!("{set} is mapped and not written when the run ends here{condition}")
            }
            Rule::UnwrittenOutput => {
                format!("{set} is mapped and not written on some path to this end{condition}")
            }
            Rule::StaleOutput => format!("{set} is not written between the emit before and this one{condition}"),
            _ => format!("this emit can run before any setemit{condition}"),
        };
        found.add(rule, Some(entry.index), Some(pc), message);
    }
    if entry.stage() == Stage::Geometry && entry.assignments.complete {
        let list = &entry.assignments.list;
        let carried = carried(entry.program, &entry.explored, entry.shown_at_start, list, Stage::Geometry);
        if !carried.is_empty() {
            let message = format!("an invocation depends on what an earlier one leaves in {carried}");
            found.add(Rule::CarriedState, Some(entry.index), Some(entry.entry.pc), message);
        }
    }
}
