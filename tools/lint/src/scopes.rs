//! A state and its successors -> whether scopes close there as the source says.

use picajit::internals::flow::Scopes;
use picajit::internals::ir::cfg::{Explored, Node, Out, Terminator};
use picajit::isa::{Inst, Pc};
use picajit::program::Program;

/// The successors of a state to which control flow strays: a scope stays open, the unit forgets
/// one, or a transfer does not happen.
pub(super) fn strayed(program: &Program, explored: &Explored, index: usize, successors: &[usize]) -> Vec<usize> {
    let nodes = explored.nodes();
    let node = &nodes[index];
    let Some(inst) = program.inst(node.pc) else { return Vec::new() };
    let all = drops_transfer(&inst, node) || forgets_scope(&inst, node);
    let breaks_out = breaks(node) && has_scope_in_loop(&node.scopes);
    let next = node.pc.wrapping_add(1);
    let is_break = |to: usize| matches!(inst, Inst::Break) || nodes[to].pc != next;
    let strays = |to: usize| all || breaks_out && is_break(to) || leaves_open(&inst, node, &nodes[to]);
    successors.iter().copied().filter(|&to| strays(to)).collect()
}

/// Whether a scope that ends at `to` stays open.
pub(super) fn leaves_open(inst: &Inst, node: &Node, to: &Node) -> bool {
    // A taken call leaves its caller for a while, also if its procedure begins where the caller's ends.
    let is_called = matches!(*inst, Inst::Call { target, .. } if to.pc == target);
    !is_called && stays_open(node, to)
}

/// Whether a taken transfer is the last word of a scope.
pub(super) fn drops_transfer(inst: &Inst, node: &Node) -> bool {
    let next = node.pc.wrapping_add(1);
    let transfers = match *inst {
        Inst::Jump { .. } | Inst::Call { .. } => true,
        Inst::If { target, .. } => target != next,
        _ => false,
    };
    transfers && ends_a_scope(&node.scopes, next)
}

/// Whether the scope that an instruction opens is one more than the unit remembers.
pub(super) fn forgets_scope(inst: &Inst, node: &Node) -> bool {
    match inst {
        Inst::Call { .. } => node.scopes.calls.is_full(),
        Inst::If { .. } => node.scopes.ifs.is_full(),
        Inst::Loop { .. } => node.scopes.loops.is_full(),
        _ => false,
    }
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
pub(super) fn breaks(node: &Node) -> bool {
    let is_break = |term: &Terminator| matches!(term, Terminator::LoopBreak { .. });
    match &node.out {
        Out::One(a) => is_break(&a.0),
        Out::Two(_, a, b) => is_break(&a.0) || is_break(&b.0),
    }
}

/// Whether an IF or a procedure is open that began in the innermost loop.
pub(super) fn has_scope_in_loop(scopes: &Scopes) -> bool {
    let Some(body) = scopes.loops.top() else { return false };
    let inside = |pc: Pc| (body.start..=body.end).contains(&pc);
    scopes.ifs.top().is_some_and(|s| inside(s.end) && s.end > body.start)
        || scopes.calls.top().is_some_and(|s| inside(s.ret) && s.ret > body.start)
}
