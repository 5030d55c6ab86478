//! What nothing uses: values that instructions write, and names that the source declares.

use super::entry::EntryFacts;
use super::source::{Sources, Text};
use super::{Findings, Rule};
use picajit::internals::ir::analysis::effects::{reads, writes};
use picajit::internals::ir::cfg::{Out, Terminator};
use picajit::internals::ir::register_set::RegisterSet;
use picajit::internals::source::{Register, Symbol, SymbolKind};
use picajit::isa::{Index, Inst, Pc, Stage};
use std::collections::BTreeMap;

const OUTPUTS: RegisterSet = RegisterSet { outputs: u64::MAX, ..RegisterSet::NONE };

/// Instructions of which no run uses any component that they write. `facts` are all entries. Where
/// control flow strays, an instruction that does not run may be the one that reads.
///
/// A vertex may use what the one before left, so registers that an entry reads first are in use at
/// the end of each.
pub(super) fn check_values(facts: &[EntryFacts<'_>], found: &mut Findings) {
    if facts.iter().any(EntryFacts::strays) {
        return;
    }
    let mut used: BTreeMap<Pc, bool> = BTreeMap::new();
    for stage in [Stage::Vertex, Stage::Geometry] {
        let of_stage = || facts.iter().filter(|entry| entry.stage() == stage);
        let read_first =
            of_stage().fold(RegisterSet::NONE, |all, entry| all | Liveness::new(entry, RegisterSet::NONE).at_start());
        for entry in of_stage() {
            let liveness = Liveness::new(entry, read_first);
            for (node, after) in liveness.after.iter().enumerate() {
                let is_used = match entry.inst(node) {
                    Some(inst @ (Inst::Alu(_) | Inst::Mova { .. } | Inst::Cmp { .. })) => {
                        let set = writes(&inst);
                        set.is_empty() || !(set & *after).is_empty()
                    }
                    _ => true,
                };
                *used.entry(entry.pc(node)).or_default() |= is_used;
            }
        }
    }
    for (pc, _) in used.into_iter().filter(|(_, is_used)| !is_used) {
        let Some(set) = facts.first().and_then(|entry| entry.program.inst(pc)).map(|inst| writes(&inst)) else {
            continue;
        };
        // An alias of the register overwrites it, which is a finding already.
        if found.explained.iter().any(|&register| set.temp(register) != 0) {
            continue;
        }
        let message = match set.outputs {
            0 => format!("{set} is written and never read"),
            _ => format!("{set} is written again before anything receives it"),
        };
        found.add(Rule::UnusedValue, None, Some(pc), message);
    }
}

/// The components that some run may read later.
struct Liveness {
    /// After each state, and before it.
    after: Vec<RegisterSet>,
    before: Vec<RegisterSet>,
}

impl Liveness {
    /// `at_end` is in use after a run.
    fn new(entry: &EntryFacts<'_>, at_end: RegisterSet) -> Liveness {
        let nodes = entry.explored.nodes();
        let mut sources: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (from, node) in nodes.iter().enumerate() {
            node.out.successors().for_each(|to| sources[to].push(from));
        }
        let mut ends: Vec<bool> = nodes.iter().map(|node| exits(&node.out)).collect();
        let mut queue: Vec<usize> = (0..nodes.len()).filter(|&node| ends[node]).collect();
        while let Some(node) = queue.pop() {
            for &from in &sources[node] {
                if !std::mem::replace(&mut ends[from], true) {
                    queue.push(from);
                }
            }
        }
        // A run that never ends has no result, and another rule says so.
        let at_first = |node: usize| match ends[node] {
            true if exits(&nodes[node].out) => at_end | OUTPUTS,
            true => RegisterSet::NONE,
            false => !RegisterSet::NONE,
        };
        let mut liveness =
            Liveness { after: (0..nodes.len()).map(at_first).collect(), before: vec![RegisterSet::NONE; nodes.len()] };
        let mut queue: Vec<usize> = (0..nodes.len()).collect();
        while let Some(node) = queue.pop() {
            let after = nodes[node].out.successors().fold(liveness.after[node], |all, to| all | liveness.before[to]);
            let before = match entry.inst(node) {
                Some(inst) => {
                    let emits = inst == Inst::Emit && entry.stage() == Stage::Geometry;
                    reads(&inst) | after & !writes(&inst) | if emits { OUTPUTS } else { RegisterSet::NONE }
                }
                None => after,
            };
            liveness.after[node] = after;
            if liveness.before[node] != before {
                liveness.before[node] = before;
                queue.extend(&sources[node]);
            }
        }
        liveness
    }

    fn at_start(&self) -> RegisterSet {
        self.before.first().copied().unwrap_or(RegisterSet::NONE)
    }
}

/// Whether a run may end at a state.
fn exits(out: &Out) -> bool {
    let is_exit = |term: &Terminator| matches!(term, Terminator::Exit(_));
    match out {
        Out::One(a) => is_exit(&a.0),
        Out::Two(_, a, b) => is_exit(&a.0) || is_exit(&b.0),
    }
}

/// Names that the sources declare and no statement uses.
pub(super) fn check_names(sources: &Sources, found: &mut Findings) {
    for text in &sources.texts {
        for symbol in text.analysis.symbols.iter().filter(|symbol| is_unused(text, symbol)) {
            // Another file may use the uniforms that both declare.
            let is_same = |other: &&Symbol| other.kind == SymbolKind::Uniform && other.name == symbol.name;
            let others = || sources.texts.iter().filter(|other| !std::ptr::eq(*other, text));
            let is_used = |other: &Text| {
                let mut symbols = other.analysis.symbols.iter().filter(is_same);
                symbols.any(|symbol| !is_unused(other, symbol))
            };
            let Some(&place) = symbol.definitions.first() else { continue };
            if symbol.kind == SymbolKind::Uniform && others().any(is_used) {
                continue;
            }
            let what = match symbol.kind {
                SymbolKind::Uniform => "uniform",
                SymbolKind::Constant => "constant",
                _ => "alias",
            };
            let message = format!("{what} `{}` is declared and never used", symbol.name);
            found.add(Rule::UnusedName, None, None, message).source = Some(text.source(place));
        }
    }
}

/// Whether no operand names a symbol or one of its registers.
fn is_unused(text: &Text, symbol: &Symbol) -> bool {
    let is_kind = matches!(symbol.kind, SymbolKind::Uniform | SymbolKind::Constant | SymbolKind::Alias);
    // A leading `_` hides a uniform from hosts: it may keep registers free.
    if !is_kind || !symbol.uses.is_empty() || symbol.name.starts_with('_') || symbol.name.is_empty() {
        return false;
    }
    if symbol.kind == SymbolKind::Alias {
        return true;
    }
    let Some(Register { letter, number: first }) = symbol.register else { return false };
    let covers = |r: Register| r.letter == letter && r.number.wrapping_sub(first) < symbol.size;
    // From a single register an index leads anywhere above.
    let leads_anywhere = |r: Register, base: Option<&Symbol>| {
        r.letter == letter && r.number <= first && base.is_none_or(|base| base.size == 1)
    };
    !text.analysis.operands.iter().any(|operand| {
        let indexed = operand.index != Index::None;
        operand.register.is_some_and(|r| covers(r) || indexed && leads_anywhere(r, text.symbol(operand)))
    })
}
