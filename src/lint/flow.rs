//! Ends, loops, scopes, and instructions that must not follow each other.

use super::entry::EntryFacts;
use super::{Findings, Rule};
use crate::analysis::assignment::Assignment;
use crate::ir::cfg::{Node, Out, Terminator};
use crate::isa::flow::{Exit, Scopes};
use crate::isa::{Inst, Pc};
use std::collections::{BTreeMap, BTreeSet};

/// For each finding the assignments in which it holds.
type Places<'a> = BTreeMap<(Rule, Pc), Vec<&'a Assignment>>;

pub(super) fn check(entry: &EntryFacts<'_>, found: &mut Findings) {
    let mut places = Places::new();
    for assignment in &entry.assignments.list {
        let mut add = |rule, pc| {
            let list = places.entry((rule, pc)).or_default();
            if !list.iter().any(|&known| std::ptr::eq(known, assignment)) {
                list.push(assignment);
            }
        };
        let nodes: BTreeSet<usize> = assignment.visits().map(|visit| visit.node).collect();
        for &index in &nodes {
            let node = &entry.explored.nodes()[index];
            let successors = assignment.successors(entry.program, &entry.explored, index);
            for rule in of_node(entry, assignment, node, index, &successors) {
                add(rule, node.pc);
            }
        }
        endless_loop(entry, assignment).into_iter().for_each(|pc| add(Rule::EndlessLoop, pc));
    }
    for ((rule, pc), assignments) in places {
        let condition = entry.condition(&assignments);
        let message = match rule {
            Rule::RunsOffEnd => format!("after this word the program has no further one, and no end{condition}"),
            Rule::BreakOutsideLoop => format!("this break can run outside of a loop{condition}"),
            Rule::AdjacentMova => format!("another mova runs directly after this one{condition}"),
            Rule::EndlessLoop => format!("a run that comes here never ends{condition}"),
            Rule::ScopeCollision => {
                format!("after this word a scope that ends there stays open{condition}")
            }
            Rule::DroppedTransfer => {
                format!("this transfer is the last word of a scope, so it does not happen{condition}")
            }
            Rule::ScopeDepth => format!("the scope that this opens makes the unit forget the oldest one{condition}"),
            _ => format!("this break leaves the scope around it open{condition}"),
        };
        found.add(rule, Some(entry.index), Some(pc), message);
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
) -> Vec<Rule> {
    let mut rules = Vec::new();
    let Some(inst) = entry.program.inst(node.pc) else { return rules };
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
    let next = node.pc.wrapping_add(1);
    // A taken call leaves its caller for a while, also if its procedure begins where the caller's ends.
    let is_called = |to: &usize| matches!(inst, Inst::Call { target, .. } if nodes[*to].pc == target);
    if successors.iter().any(|to| !is_called(to) && stays_open(node, &nodes[*to])) {
        rules.push(Rule::ScopeCollision);
    }
    // A taken transfer in the last word of a scope.
    let transfers = matches!(inst, Inst::Jump { .. } | Inst::Call { .. });
    if transfers && ends_a_scope(&node.scopes, next) {
        rules.push(Rule::DroppedTransfer);
    }
    if let Inst::If { target, .. } = inst
        && ends_a_scope(&node.scopes, next)
        && target != next
    {
        rules.push(Rule::DroppedTransfer);
    }
    let full = match inst {
        Inst::Call { .. } => node.scopes.calls.is_full(),
        Inst::If { .. } => node.scopes.ifs.is_full(),
        Inst::Loop { .. } => node.scopes.loops.is_full(),
        _ => false,
    };
    if full {
        rules.push(Rule::ScopeDepth);
    }
    if matches!(inst, Inst::Break | Inst::Breakc { .. }) && breaks(node) && has_scope_in_loop(&node.scopes) {
        rules.push(Rule::BreakInScope);
    }
    rules
}

/// Whether going from `node` to `to` reaches the end of a scope that stays open, without leaving
/// the scope for a place elsewhere: arriving by a jump closes nothing, and so does the second end
/// at one address.
fn stays_open(node: &Node, to: &Node) -> bool {
    let at_end = |end: Pc| end == to.pc;
    let scopes = &to.scopes;
    let (calls, ifs, loops) = (&node.scopes.calls, &node.scopes.ifs, &node.scopes.loops);
    // A scope that opens with this step, such as a call of no words, did not stay open.
    let known_call = scopes.calls.iter().any(|s| at_end(s.end) && calls.iter().any(|k| k == s));
    let known_if = scopes.ifs.iter().any(|s| at_end(s.end) && ifs.iter().any(|k| k == s));
    let known_loop = scopes.loops.iter().any(|s| at_end(s.end) && loops.iter().any(|k| k == s));
    known_call || known_if || known_loop
}

fn ends_a_scope(scopes: &Scopes, next: Pc) -> bool {
    let call = scopes.calls.top().is_some_and(|s| s.end == next);
    let then = scopes.ifs.top().is_some_and(|s| s.end == next);
    let body = scopes.loops.top().is_some_and(|s| s.end == next);
    call || then || body
}

/// Whether a node's instruction leaves a loop.
fn breaks(node: &Node) -> bool {
    let is_break = |term: &Terminator| matches!(term, Terminator::LoopBreak { .. });
    match &node.out {
        Out::One(a) => is_break(&a.0),
        Out::Two(_, a, b) => is_break(&a.0) || is_break(&b.0),
    }
}

/// Whether an IF or a procedure is open that began in the innermost loop.
fn has_scope_in_loop(scopes: &Scopes) -> bool {
    let Some(body) = scopes.loops.top() else { return false };
    let inside = |pc: Pc| (body.start..=body.end).contains(&pc);
    scopes.ifs.top().is_some_and(|s| inside(s.end) && s.end > body.start)
        || scopes.calls.top().is_some_and(|s| inside(s.ret) && s.ret > body.start)
}
