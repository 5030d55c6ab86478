//! Two aliases of one temporary, of which one overwrites what the other is read for.
//!
//! Aliases often share a register one after the other, which is no fault. A finding needs a read of
//! one name that certainly gives what was written to another name, afresh, over a value of the
//! first.

use super::entry::EntryFacts;
use super::source::{Sources, Text};
use super::{Findings, Rule, Subject};
use picajit::internals::ir::analysis::effects::{reads, writes};
use picajit::internals::source::{OperandAt, Symbol, SymbolKind};
use picajit::isa::Pc;
use std::collections::{BTreeMap, BTreeSet};

/// A component's writers that may have been the last one; none is what the run began with.
type Writers = BTreeSet<Option<Pc>>;

pub(super) fn check(entry: &EntryFacts<'_>, subject: &Subject<'_>, sources: &Sources, found: &mut Findings) {
    for register in shared_registers(sources) {
        for (pc, (name, other, place)) in overwritten(entry, subject, sources, register) {
            let message =
                format!("this overwrites `{name}`, since `{other}` is r{register} too; line {place} reads it");
            found.add(Rule::SharedRegister, Some(entry.index), Some(pc), message);
            found.explained.push(register);
        }
    }
}

/// The temporaries with two names.
fn shared_registers(sources: &Sources) -> BTreeSet<u8> {
    let mut shared = BTreeSet::new();
    for text in &sources.texts {
        let mut named = BTreeSet::new();
        for symbol in text.analysis.symbols.iter().filter(|symbol| is_of_temporary(symbol)) {
            let Some(register) = symbol.register else { continue };
            if !named.insert((register.number, symbol.components)) {
                shared.insert(register.number as u8);
            }
        }
    }
    shared
}

/// Whether a symbol is an alias of a temporary, or of some components of one.
fn is_of_temporary(symbol: &Symbol) -> bool {
    symbol.kind == SymbolKind::Alias
        && !symbol.negate
        && symbol.register.is_some_and(|register| register.letter == 'r' && register.number < 16)
}

/// The name by which an operand denotes `r{register}`, and the components that the name stands for. Names of
/// different components are views of one value.
type Name<'a> = (&'a str, [u8; 4]);

fn name<'a>(text: &'a Text, operand: &OperandAt, register: u8) -> Option<Name<'a>> {
    let is_register = operand.register.is_some_and(|r| (r.letter, r.number) == ('r', register.into()));
    let symbol = text.symbol(operand).filter(|symbol| is_register && is_of_temporary(symbol))?;
    Some((&symbol.name, symbol.components))
}

/// Writes of `r{register}` over a value of another name that is read later: that name, the one of
/// the write, and the line of the read.
fn overwritten(
    entry: &EntryFacts<'_>,
    subject: &Subject<'_>,
    sources: &Sources,
    register: u8,
) -> BTreeMap<Pc, (String, String, u32)> {
    let nodes = entry.explored.nodes();
    // What reaches each state, by component.
    let mut before: Vec<Option<[Writers; 4]>> = vec![None; nodes.len()];
    before[0] = Some([(); 4].map(|()| BTreeSet::from([None])));
    let mut queue = vec![0];
    while let Some(node) = queue.pop() {
        let Some(mut after) = before[node].clone() else { continue };
        let written = entry.inst(node).map_or(0, |inst| writes(&inst).temp(register));
        for (c, writers) in after.iter_mut().enumerate() {
            if written >> c & 1 != 0 {
                *writers = BTreeSet::from([Some(entry.pc(node))]);
            }
        }
        for to in nodes[node].out.successors() {
            let slot = before[to].get_or_insert_with(Default::default);
            let had: usize = slot.iter().map(BTreeSet::len).sum();
            slot.iter_mut().zip(&after).for_each(|(all, more)| all.extend(more));
            if slot.iter().map(BTreeSet::len).sum::<usize>() > had {
                queue.push(to);
            }
        }
    }
    let written_as = |pc: Pc| {
        let (text, operands) = sources.operands(subject, pc)?;
        operands.iter().find(|operand| operand.written).and_then(|operand| name(text, operand, register))
    };
    // A write that reads the register changes a value in place.
    let is_fresh = |pc: Pc| entry.program.inst(pc).is_some_and(|inst| reads(&inst).temp(register) == 0);
    // The names of the values that each write replaces, by component.
    let mut replaced: BTreeMap<(Pc, usize), BTreeSet<Name<'_>>> = BTreeMap::new();
    for (node, writers) in before.iter().enumerate() {
        let Some(writers) = writers else { continue };
        let written = entry.inst(node).map_or(0, |inst| writes(&inst).temp(register));
        for c in (0..4).filter(|c| written >> c & 1 != 0) {
            let names = writers[c].iter().flatten().filter_map(|&pc| written_as(pc));
            replaced.entry((entry.pc(node), c)).or_default().extend(names);
        }
    }
    let mut all = BTreeMap::new();
    for (node, writers) in before.iter().enumerate() {
        let (Some(writers), Some(inst)) = (writers, entry.inst(node)) else { continue };
        let pc = entry.pc(node);
        let Some((text, operands)) = sources.operands(subject, pc) else { continue };
        let line = subject.lines.get(usize::from(pc)).map_or(0, |&(_, line)| line);
        for operand in operands.iter().filter(|operand| !operand.written) {
            let Some(read) = name(text, operand, register) else { continue };
            let selected = operand.components.iter().fold(0, |set, c| set | 1 << c) & reads(&inst).temp(register);
            for c in (0..4).filter(|c| selected >> c & 1 != 0) {
                let meant = |writer: &Option<Pc>| {
                    let pc = (*writer)?;
                    let is_other = |other: &Name<'_>| other.0 != read.0 && other.1 == read.1;
                    let (other, _) = written_as(pc).filter(is_other).filter(|_| is_fresh(pc))?;
                    let replaces = replaced.get(&(pc, c)).is_some_and(|names| names.contains(&read));
                    replaces.then(|| (pc, other.to_string()))
                };
                let Some(found) = writers[c].iter().map(meant).collect::<Option<Vec<(Pc, String)>>>() else {
                    continue;
                };
                for (at, other) in found {
                    all.entry(at).or_insert((read.0.to_string(), other, line));
                }
            }
        }
    }
    all
}
