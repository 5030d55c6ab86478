//! Single words: undefined opcodes, unknown bits, descriptors, inputs; and words that no entry
//! reaches.

use super::entry::EntryFacts;
use super::{Findings, Rule, Subject};
use picajit::isa::table::{Format, Row};
use picajit::isa::{Inst, Opcode, Pc, SrcFile, Stage, WriteMask};
use std::collections::BTreeSet;

/// Words of a vertex unit's memory.
const VERTEX_WORDS: usize = 512;

pub(super) fn check(subject: &Subject<'_>, facts: &[EntryFacts<'_>], found: &mut Findings) {
    let program = subject.program;
    let mut reached: BTreeSet<Pc> = BTreeSet::new();
    for entry in facts {
        let pcs = entry.explored.reachable();
        reached.extend(pcs);
        if entry.stage() == Stage::Vertex {
            let emits = |pc: &&Pc| matches!(program.inst(**pc), Some(Inst::Emit | Inst::Setemit(_)));
            if let Some(&pc) = pcs.iter().find(emits) {
                found.add(Rule::EmitInVertex, Some(entry.index), Some(pc), "an emit or setemit in a vertex program");
            }
            if let Some(&pc) = pcs.iter().find(|pc| usize::from(**pc) >= VERTEX_WORDS) {
                let message = format!("a vertex unit has {VERTEX_WORDS} words, and this is word {pc}");
                found.add(Rule::BeyondVertexUnit, Some(entry.index), Some(pc), message);
            }
        }
    }
    for &pc in &reached {
        let word = program.code()[usize::from(pc)];
        of_word(pc, word, program.opdescs().len(), found);
        if let Some(inst) = program.inst(pc) {
            of_inst(pc, &inst, found);
        }
    }
    // An entry without a graph may reach every word.
    // Where control flow strays, words that it should reach are a consequence.
    if facts.len() == subject.entries.len() && !facts.is_empty() && !facts.iter().any(EntryFacts::strays) {
        unreachable(subject, &reached, found);
    }
}

fn of_word(pc: Pc, word: u32, descriptors: usize, found: &mut Findings) {
    match Row::of_word(word) {
        None => {
            let message = format!("0x{word:08X} has an opcode that no document defines");
            found.add(Rule::UndefinedOpcode, None, Some(pc), message);
        }
        Some(row) if matches!(row.format, Format::F2 | Format::F3) && word & 0x300 != 0 => {
            let message = format!("0x{word:08X} has bits 9:8 set, whose meaning is unknown");
            found.add(Rule::LengthBits, None, Some(pc), message);
        }
        Some(_) => {}
    }
    if let Some(index) = Inst::opdesc_index(word)
        && usize::from(index) >= descriptors
    {
        let message = format!("descriptor {index} is used, but there are {descriptors}");
        found.add(Rule::MissingDescriptor, None, Some(pc), message);
    }
}

fn of_inst(pc: Pc, inst: &Inst, found: &mut Findings) {
    let (sources, mask): (&[_], _) = match inst {
        Inst::Alu(alu) => (alu.sources(), (alu.op != Opcode::Litp).then_some(alu.mask)),
        // z and w have no meaning.
        Inst::Mova { src, mask } => (std::slice::from_ref(src), Some(WriteMask::new(mask.bits() & 0b1100))),
        Inst::Cmp { src, .. } => (src, None),
        _ => return,
    };
    let input = |src: &picajit::isa::Src| match src.reg.file() {
        SrcFile::Input(n) => Some(n),
        _ => None,
    };
    let inputs: BTreeSet<u8> = sources.iter().filter_map(input).collect();
    if let [a, b, ..] = inputs.iter().collect::<Vec<_>>()[..] {
        found.add(Rule::TwoInputs, None, Some(pc), format!("v{a} and v{b} are read by one instruction"));
    }
    if mask == Some(WriteMask::NONE) {
        found.add(Rule::EmptyMask, None, Some(pc), "the instruction writes no component");
    }
}

fn unreachable(subject: &Subject<'_>, reached: &BTreeSet<Pc>, found: &mut Findings) {
    let count = subject.program.code().len();
    let mut first = None;
    for pc in 0..=count {
        let is_reached = pc == count || reached.contains(&(pc as Pc));
        match (is_reached, first) {
            (false, None) => first = Some(pc),
            (true, Some(start)) => {
                let last = pc - 1;
                let padding = |pc: usize| subject.program.inst(pc as Pc) == Some(Inst::Nop);
                if !(start..=last).all(padding) {
                    let message = match start == last {
                        true => format!("word {start} is reached by no entry"),
                        false => format!("words {start}-{last} are reached by no entry"),
                    };
                    found.add(Rule::Unreachable, None, Some(start as Pc), message);
                }
                first = None;
            }
            _ => {}
        }
    }
}
