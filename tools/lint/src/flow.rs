//! Ends, loops, scopes, and instructions that must not follow each other.

use super::entry::EntryFacts;
use super::scopes::{breaks, drops_transfer, forgets_scope, has_scope_in_loop, leaves_open};
use super::{Findings, Rule};
use picajit::internals::analysis::assignment::Assignment;
use picajit::internals::flow::Exit;
use picajit::internals::ir::cfg::Node;
use picajit::isa::{Inst, Pc};
use std::collections::{BTreeMap, BTreeSet};

/// For each finding its remedy, if it is not that of the rule, and the assignments in which it holds.
type Places<'a> = BTreeMap<(Rule, Pc), (Option<&'static str>, Vec<&'a Assignment>)>;

pub(super) fn check(entry: &EntryFacts<'_>, found: &mut Findings) {
    let mut places = Places::new();
    for (assignment, visit) in entry.visits() {
        let node = &entry.explored.nodes()[visit.node];
        let successors = assignment.successors(entry.program, &entry.explored, visit.node);
        for (rule, help) in of_node(entry, assignment, node, visit.node, &successors) {
            let place = places.entry((rule, node.pc)).or_default();
            place.0 = place.0.or(help);
            if !place.1.iter().any(|&known| std::ptr::eq(known, assignment)) {
                place.1.push(assignment);
            }
        }
    }
    if !entry.strays() {
        for assignment in &entry.assignments.list {
            if let Some(pc) = endless_loop(entry, assignment) {
                places.entry((Rule::EndlessLoop, pc)).or_default().1.push(assignment);
            }
        }
    }
    for ((rule, pc), (help, assignments)) in places {
        let condition = entry.condition(&assignments);
        let message = match rule {
            Rule::RunsOffEnd => format!("after this word the program has no further one, and no end{condition}"),
            Rule::BreakOutsideLoop => format!("this break can run outside of a loop{condition}"),
            Rule::AdjacentMova => format!("another mova runs directly after this one{condition}"),
            Rule::EndlessLoop => format!("a run that comes here never ends{condition}"),
            Rule::ScopeCollision => {
                let jumps = matches!(entry.program.inst(pc), Some(Inst::Jump { .. }));
                match jumps {
                    true => format!("this jump goes to the end of a scope, which stays open{condition}"),
                    false => format!("after this word a scope that ends there stays open{condition}"),
                }
            }
            Rule::DroppedTransfer => {
                format!("this transfer is the last word of a scope, so it does not happen{condition}")
            }
            Rule::ScopeDepth => format!("the scope that this opens makes the unit forget the oldest one{condition}"),
            _ => format!("this break leaves the scope around it open{condition}"),
        };
        let finding = found.add(rule, Some(entry.index), Some(pc), message);
        finding.help = help.unwrap_or(finding.help);
    }
}

/// The first address of the states from which no run ends, without those that only lead there.
fn endless_loop(entry: &EntryFacts<'_>, assignment: &Assignment) -> Option<Pc> {
    let mut region: BTreeSet<usize> = assignment.endless(entry.program, &entry.explored).into_iter().collect();
    let successors = |node: &usize| assignment.successors(entry.program, &entry.explored, *node);
    let mut entries: BTreeMap<usize, usize> = region.iter().map(|&node| (node, 0)).collect();
    for to in region.iter().flat_map(&successors) {
        if let Some(count) = entries.get_mut(&to) {
            *count += 1;
        }
    }
    let mut queue: Vec<usize> = entries.iter().filter(|(_, count)| **count == 0).map(|(&node, _)| node).collect();
    while let Some(node) = queue.pop() {
        region.remove(&node);
        for to in successors(&node) {
            if let Some(count) = entries.get_mut(&to) {
                *count -= 1;
                if *count == 0 {
                    queue.push(to);
                }
            }
        }
    }
    region.iter().map(|&node| entry.pc(node)).min()
}

fn of_node(
    entry: &EntryFacts<'_>,
    assignment: &Assignment,
    node: &Node,
    index: usize,
    successors: &[usize],
) -> Vec<(Rule, Option<&'static str>)> {
    let mut rules = Vec::new();
    let Some(inst) = entry.program.inst(node.pc) else { return Vec::new() };
    let nodes = entry.explored.nodes();
    if assignment.exits(entry.program, &entry.explored, index).contains(&Exit::BreakOutsideLoop) {
        rules.push(Rule::BreakOutsideLoop);
    }
    if successors.iter().any(|&to| entry.inst(to).is_none()) {
        rules.push(Rule::RunsOffEnd);
    }
    let is_mova = |inst: Option<Inst>| matches!(inst, Some(Inst::Mova { .. }));
    if is_mova(Some(inst)) && successors.iter().any(|&to| is_mova(entry.inst(to))) {
        rules.push(Rule::AdjacentMova);
    }
    if successors.iter().any(|&to| leaves_open(&inst, node, &nodes[to])) {
        rules.push(Rule::ScopeCollision);
    }
    if drops_transfer(&inst, node) {
        rules.push(Rule::DroppedTransfer);
    }
    if forgets_scope(&inst, node) {
        rules.push(Rule::ScopeDepth);
    }
    if matches!(inst, Inst::Break | Inst::Breakc { .. }) && breaks(node) && has_scope_in_loop(&node.scopes) {
        rules.push(Rule::BreakInScope);
    }
    let help = |rule| match (rule, inst) {
        (Rule::ScopeCollision, Inst::Jump { target, .. }) => Some(match is_end_of_call(node, target) {
            true => "the label is the end of the procedure: put a `nop` between the label and `.end`",
            false => "the label is the end of a block: put a `nop` between the label and `.end`",
        }),
        _ => None,
    };
    rules.into_iter().map(|rule| (rule, help(rule))).collect()
}

/// Whether the innermost procedure ends at `pc`.
fn is_end_of_call(node: &Node, pc: Pc) -> bool {
    node.scopes.calls.iter().any(|scope| scope.end == pc)
}
