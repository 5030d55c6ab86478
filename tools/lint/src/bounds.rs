//! Elements of arrays that don't exist: by a number in the source, or by an address register whose
//! value is certain.

use super::entry::{EntryFacts, constant_ints};
use super::loops::sources;
use super::source::{Sources, Text};
use super::values::Known;
use super::{Findings, Rule, Subject};
use picajit::internals::ir::cfg::{self, Out};
use picajit::internals::ir::{Inst as Step, Node};
use picajit::internals::source::{OperandAt, SymbolKind};
use picajit::isa::{FLOAT_UNIFORMS, Index, Inst, Pc, Test};
use std::collections::{BTreeMap, BTreeSet};

/// Names of aliases of aliases that are followed.
const MOST_ALIASES: usize = 8;

/// A declared array.
struct Array<'a> {
    name: &'a str,
    /// Its first register, and their number.
    first: u32,
    size: u32,
}

impl Array<'_> {
    fn elements(&self) -> String {
        format!("`{}` has {} element{}", self.name, self.size, if self.size == 1 { "" } else { "s" })
    }
}

/// The array to whose registers an operand belongs by its name.
fn array_of<'a>(text: &'a Text, operand: &OperandAt, depth: usize) -> Option<Array<'a>> {
    let symbol = text.symbol(operand)?;
    match symbol.kind {
        SymbolKind::Uniform | SymbolKind::Constant | SymbolKind::Bound => {
            let register = symbol.register?;
            (operand.register?.letter == register.letter).then_some(Array {
                name: &symbol.name,
                first: register.number,
                size: symbol.size,
            })
        }
        SymbolKind::Alias if depth > 0 => {
            let definition = symbol.definitions.first()?;
            let of = text.operands(definition.line).first()?;
            array_of(text, of, depth - 1)
        }
        _ => None,
    }
}

/// Elements that the source names by number.
pub(super) fn check_text(text: &Text, is_reached: impl Fn(&Pc) -> bool, found: &mut Findings) {
    for operand in text.analysis.operands.iter().filter(|operand| operand.index == Index::None) {
        let Some(register) = operand.register else { continue };
        let Some(array) = array_of(text, operand, MOST_ALIASES) else { continue };
        // The element of an alias stands in its definition.
        let is_defined = |symbol: &picajit::internals::source::Symbol| symbol.register == operand.register;
        if text.symbol(operand).is_some_and(|symbol| symbol.kind == SymbolKind::Alias && is_defined(symbol)) {
            continue;
        }
        let words = text.words(operand.place.line);
        if register.number.wrapping_sub(array.first) < array.size || !words.is_empty() && !words.iter().any(&is_reached)
        {
            continue;
        }
        let element = i64::from(register.number) - i64::from(array.first);
        let message = format!("{}, and this is element {element}", array.elements());
        let finding = found.add(Rule::OutOfBounds, None, words.first().copied(), message);
        finding.source = Some(text.source(operand.place));
    }
}

/// Elements that address registers select.
pub(super) fn check_entry(entry: &EntryFacts<'_>, subject: &Subject<'_>, names: &Sources, found: &mut Findings) {
    let mut places: BTreeMap<Pc, String> = BTreeMap::new();
    for (pc, index, values) in address_values(entry).into_iter().chain(counter_values(entry)) {
        let Some(inst) = entry.program.inst(pc) else { continue };
        let base = sources(&inst).iter().filter_map(|src| src.relative()).find(|&(_, of)| of == index);
        let Some((base, _)) = base else { continue };
        let (text, operands) = names.operands(subject, pc).unzip();
        let operand = operands.into_iter().flatten().find(|operand| operand.index == index && !operand.written);
        let array = text.zip(operand).and_then(|(text, operand)| array_of(text, operand, MOST_ALIASES));
        // The number of the base within the array, which an offset in the source is part of.
        let within = array.as_ref().zip(operand.and_then(|operand| operand.register));
        let within = within.map(|(array, register)| i64::from(register.number) - i64::from(array.first));
        let message = values.into_iter().find_map(|value| {
            let beyond = beyond_registers(base, index, value);
            let element = within.map(|within| within + i64::from(value));
            let outside = array.as_ref().zip(element).filter(|(array, n)| !(0..i64::from(array.size)).contains(n));
            match (outside, beyond) {
                (Some((array, element)), beyond) => {
                    let so = beyond.map(|beyond| format!("; {beyond}")).unwrap_or_default();
                    let elements = array.elements();
                    Some(format!("{} is {value} here, so this is element {element}, and {elements}{so}", name(index)))
                }
                (None, Some(beyond)) => Some(format!("{} is {value} here: {beyond}", name(index))),
                (None, None) => None,
            }
        });
        if let Some(message) = message {
            places.entry(pc).or_insert(message);
        }
    }
    for (pc, message) in places {
        found.add(Rule::OutOfBounds, Some(entry.index), Some(pc), message);
    }
}

fn name(index: Index) -> &'static str {
    match index {
        Index::A0x => "a0.x",
        Index::A0y => "a0.y",
        Index::AL | Index::None => "aL",
    }
}

/// What the hardware reads instead if `base` and an offset lead to no register.
fn beyond_registers(base: u8, index: Index, value: i32) -> Option<String> {
    if !(-128..=127).contains(&value) {
        return Some(format!("{} counts as 0 outside of -128 to 127", name(index)));
    }
    let number = (i32::from(base) + value) & 0x7F;
    (number >= FLOAT_UNIFORMS as i32).then(|| format!("c{number} does not exist, and the read gives (1, 1, 1, 1)"))
}

/// Relative reads with an address register of one certain value: word, register and value.
fn address_values(entry: &EntryFacts<'_>) -> Vec<(Pc, Index, Vec<i32>)> {
    let Some(func) = &entry.func else { return Vec::new() };
    let known = Known::new(entry, func);
    let reached: BTreeSet<Pc> = entry.visits().map(|(_, visit)| entry.pc(visit.node)).collect();
    let mut all = Vec::new();
    for &(pc, inst) in func.blocks.iter().flat_map(|block| &block.insts) {
        let Step::Def(value) = inst else { continue };
        let Node::Relative { offset, .. } = func.node(value) else { continue };
        let Node::Offset(address) = func.node(*offset) else { continue };
        let Some(value) = known.int(*address).filter(|_| reached.contains(&pc)) else { continue };
        let inst = entry.program.inst(pc);
        let indices = inst.iter().flat_map(sources).filter_map(|src| src.relative()).map(|(_, index)| index);
        all.extend(indices.filter(|&index| index != Index::AL).map(|index| (pc, index, vec![value])));
    }
    all
}

/// Relative reads with aL in a loop whose constant is known: the values in its iterations. Only the
/// values of the first one if a condition may end the loop or leave out the read.
fn counter_values(entry: &EntryFacts<'_>) -> Vec<(Pc, Index, Vec<i32>)> {
    let ints = constant_ints(entry.tables);
    let nodes = entry.explored.nodes();
    let mut all = Vec::new();
    let mut steady: BTreeMap<(Pc, Pc), bool> = BTreeMap::new();
    let visited: BTreeSet<usize> = entry.visits().map(|(_, visit)| visit.node).collect();
    for index in visited {
        let node = &nodes[index];
        let inst = entry.inst(index);
        let reads = inst.iter().flat_map(sources).any(|src| src.relative().is_some_and(|(_, i)| i == Index::AL));
        let Some(scope) = node.scopes.loops.top().filter(|_| reads) else { continue };
        let Some(Inst::Loop { int, .. }) = entry.program.inst(scope.start.wrapping_sub(1)) else { continue };
        let Some([count, first, step, _]) = ints[usize::from(int & 3)] else { continue };
        let inside = |n: &&cfg::Node| n.scopes.loops.iter().any(|open| open == scope);
        let is_condition = |n: &cfg::Node| match n.out {
            Out::Two(Test::Flags(_), ..) => true,
            Out::Two(Test::Bool { .. }, ..) => !matches!(entry.program.inst(n.pc), Some(Inst::If { .. })),
            Out::One(_) => matches!(entry.program.inst(n.pc), Some(Inst::Break | Inst::End)),
        };
        let is_steady =
            *steady.entry((scope.start, scope.end)).or_insert_with(|| !nodes.iter().filter(inside).any(is_condition));
        let iterations = if is_steady { i32::from(count) } else { 0 };
        let values = (0..=iterations).map(|n| i32::from(first) + n * i32::from(step));
        // How many bits of aL the hardware keeps is unknown.
        all.push((entry.pc(index), Index::AL, values.filter(|value| *value <= 127).collect()));
    }
    all
}
