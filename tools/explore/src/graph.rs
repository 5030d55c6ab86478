//! A control-flow graph -> blocks with all their words, also those that only transfer control.

use picajit::internals::flow::{Action, Next, Scopes, is_backward};
use picajit::internals::ir::cfg::{Cfg, Edge, Step, Terminator};
use picajit::internals::ir::print::test;
use picajit::isa::{Inst, Pc};
use picajit::program::Program;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Blocks in reverse postorder, the entry first.
pub fn graph(program: &Program, cfg: &Cfg) -> Value {
    let starts: HashSet<(Pc, Scopes)> = cfg.blocks.iter().map(|b| (b.pc, b.scopes)).collect();
    let mut known = HashSet::new();
    let mut blocks = Vec::new();
    for block in &cfg.blocks {
        let mut pcs = Vec::new();
        // A conditional transfer out of a loop has a block of its own for what it does to the loop.
        // It bears the transfer's state, so the transfer counts for the first of the two.
        let is_twin = block.steps.is_empty() && !matches!(block.term, Terminator::Branch { .. });
        if !(is_twin && known.contains(&(block.pc, block.scopes))) {
            walk(program, (block.pc, block.scopes), &starts, |state| {
                pcs.push(state.0);
                known.insert(state);
            });
        }
        let loops = block.steps.iter().filter_map(|step| match step {
            Step::LoopBegin { pc, int, .. } => Some(json!([pc, format!("i{int}")])),
            Step::Inst(..) => None,
        });
        let (end, edges) = terminator(&block.term);
        blocks.push(json!({
            "pcs": pcs,
            "scopes": scopes(&block.scopes),
            "loops": loops.collect::<Vec<_>>(),
            "end": end,
            "edges": edges,
        }));
    }
    json!({ "states": cfg.states, "reachable": cfg.reachable, "blocks": blocks })
}

/// Visits the states of the block that begins with `state`.
fn walk(
    program: &Program,
    mut state: (Pc, Scopes),
    starts: &HashSet<(Pc, Scopes)>,
    mut visit: impl FnMut((Pc, Scopes)),
) {
    loop {
        let (pc, mut scopes) = state;
        let Some(inst) = program.inst(pc) else { return };
        visit(state);
        let action = match inst {
            Inst::End | Inst::Break => return,
            Inst::Breakc { .. } | Inst::If { .. } | Inst::Jump { .. } | Inst::Call { test: Some(_), .. } => return,
            Inst::Call { test: None, target, len } => Action::Call { target, len },
            Inst::Loop { last, .. } => Action::Loop { last },
            _ => Action::Next,
        };
        match scopes.step(pc, action) {
            Next::Go(next) if !is_backward(pc, next) && !starts.contains(&(next, scopes)) => state = (next, scopes),
            _ => return,
        }
    }
}

/// Open scopes as text, the outermost of each kind first; empty if there are none.
pub fn scopes(scopes: &Scopes) -> String {
    let calls = scopes.calls.iter().map(|c| format!("call to {}, returns to {}", c.end, c.ret));
    let ifs = scopes.ifs.iter().map(|i| format!("if to {}, then {}", i.end, i.cont));
    let loops = scopes.loops.iter().map(|l| format!("loop {} to {}", l.start, l.end));
    calls.chain(ifs).chain(loops).collect::<Vec<_>>().join("; ")
}

/// The terminator as text, and its edges: target, label, whether it is backward.
fn terminator(term: &Terminator) -> (String, Vec<Value>) {
    let edge = |e: &Edge, label: &str| json!([e.to, label, e.backward]);
    match term {
        Terminator::Exit(exit) => (format!("exit: {exit:?}"), Vec::new()),
        Terminator::Goto(e) => (String::new(), vec![edge(e, "")]),
        Terminator::Branch { test: t, yes, no } => (format!("if {}", test(t)), vec![edge(yes, "yes"), edge(no, "no")]),
        Terminator::LoopEnd { again, exit, .. } => {
            ("end of the loop's body".into(), vec![edge(again, "again"), edge(exit, "done")])
        }
        Terminator::LoopBreak { exit, .. } => ("break".into(), vec![edge(exit, "break")]),
    }
}
