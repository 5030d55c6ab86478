//! [`Func`] that emits -> a proof that the invocations of a batch are independent, or the first
//! dependence.
//!
//! It is [`prove`](super::prove) for geometry programs. What an EMIT reads is observed, too: each
//! component of the outputs that the program stores there is new, or one that no run changes. All
//! invocations of a batch emit the same number of vertices: no EMIT is on a path that only some of
//! them take.
//!
//! EMIT exchanges the banks, and the bank at the start of an invocation may depend on those before.
//! So the proof takes both banks for one: an output is changed if it is in either. That is sound
//! because a value never leaves its bank. Invocations that end may run in any order, if their
//! vertices are sent in order. The last two, again, give the unit: with an odd number of EMITs each
//! of them leaves its outputs in another bank.

use super::independence::{Dependence, Origin};
use super::{Components, XYZW, components, components_of};
use crate::ir::{Form, Func, Inst, Mem, Node, Terminator, Value};
use crate::isa::Setemit;
use crate::isa::flow::Exit;
use std::collections::BTreeSet;

/// The proof: facts about a function that emits, and whose invocations are independent.
#[derive(Clone, Debug)]
pub struct IndependentInvocations {
    /// For each value whether it is divergent; see [`Func::is_divergent`].
    pub divergent: Vec<bool>,
    /// For each block the parameters of its EMITs, in order.
    pub parameters: Vec<Vec<Setemit>>,
    /// For each output register the components that a run may change, in either bank.
    pub changed: [Components; 16],
    /// What EMITs read of the registers that the program writes.
    pub emitted: Vec<(Value, Components)>,
    /// Whether every run reaches an END.
    pub always_ends: bool,
}

/// Proves that the invocations of a batch are independent, or names the first dependence. `func` is
/// in SSA form.
pub fn prove_invocations(func: &Func) -> Result<IndependentInvocations, Dependence> {
    debug_assert!(func.form == Form::Ssa, "registers in memory are carried by nature");
    let func = &func.with_one_bank();
    let ends = |term: &Terminator| *term == Terminator::Exit(Exit::End);
    match func.blocks.iter().filter(|block| ends(&block.term)).count() {
        0 => return Err(Dependence::NeverEnds),
        1 => {}
        _ => return Err(Dependence::EmitsOnPaths),
    }
    let paths = func.divergent_paths();
    let emits = |inst: &(_, Inst)| matches!(inst.1, Inst::Emit | Inst::Setemit(_));
    let optional = func.blocks.iter().zip(&paths.optional).filter(|(_, optional)| **optional);
    if optional.flat_map(|(block, _)| &block.insts).any(emits) || !func.kept_components().is_empty() {
        return Err(Dependence::EmitsOnPaths);
    }
    let parameters = func.emit_parameters().ok_or(Dependence::CarriedParameters)?;
    let emitted = func.emitted_values().ok_or(Dependence::Emits)?;

    let origins = func.origins();
    let mut changed = [0; 16];
    let mut variable: BTreeSet<(Mem, u8)> = BTreeSet::new();
    let mut exit_stores = Vec::new();
    for block in &func.blocks {
        for (_, inst) in &block.insts {
            let Inst::Store(mem, value) = *inst else { continue };
            let new = |c: &u8| origins[value.0 as usize][usize::from(*c)] != Origin::Initial(mem);
            let set = components(components_of(mem.ty())).filter(new).fold(0, |set, c| set | 1 << c);
            match mem {
                Mem::Out { n, .. } => changed[usize::from(n)] |= set,
                _ => variable.extend(components(set).map(|c| (mem, c))),
            }
            if ends(&block.term) {
                exit_stores.push((mem, value, set));
            }
        }
    }
    let roots = [func.new_values(exit_stores, &origins), emitted.clone()].concat();
    for (node, &set) in func.nodes.iter().zip(&func.live_from(roots)) {
        let Node::Load(mem) = *node else { continue };
        let carried = components(set).find(|&c| match mem {
            Mem::Out { n, .. } => changed[usize::from(n)] >> c & 1 != 0,
            _ => variable.contains(&(mem, c)),
        });
        if let Some(c) = carried {
            return Err(Dependence::Carried(mem, c));
        }
    }
    let always_ends = func.blocks.iter().all(|b| !matches!(b.term, Terminator::Exit(_)) || ends(&b.term));
    Ok(IndependentInvocations { divergent: func.is_divergent(), parameters, changed, emitted, always_ends })
}

impl Func {
    /// The function with all outputs in the bank at the start.
    fn with_one_bank(&self) -> Func {
        let mut func = self.clone();
        let Some(bank) = self.nodes.iter().position(|node| *node == Node::Load(Mem::Bank)) else { return func };
        let to_bank = |mem: &mut Mem| mem.map_uses(|_| Value(bank as u32));
        for node in &mut func.nodes {
            if let Node::Load(mem) = node {
                to_bank(mem);
            }
        }
        for (_, inst) in func.blocks.iter_mut().flat_map(|block| &mut block.insts) {
            if let Inst::Store(mem, _) = inst {
                to_bank(mem);
            }
        }
        func
    }

    /// For each block the parameters of its EMITs, in order. `None`: those of one are not known.
    fn emit_parameters(&self) -> Option<Vec<Vec<Setemit>>> {
        // At the start of each block, once a path to it is known.
        let mut starts: Vec<Option<Option<Setemit>>> = vec![None; self.blocks.len()];
        starts[0] = Some(None);
        let mut changed = true;
        while changed {
            changed = false;
            for (id, block) in self.blocks.iter().enumerate() {
                let Some(start) = starts[id] else { continue };
                let setemit = |inst: &(_, Inst)| if let Inst::Setemit(to) = inst.1 { Some(to) } else { None };
                let end = block.insts.iter().rev().find_map(setemit).or(start);
                for edge in block.term.edges() {
                    let joined = match starts[edge.to] {
                        Some(other) if other != end => None,
                        _ => end,
                    };
                    changed |= starts[edge.to] != Some(joined);
                    starts[edge.to] = Some(joined);
                }
            }
        }
        let of_block = |(block, start): (&crate::ir::Block, &Option<Option<Setemit>>)| {
            let mut now = start.flatten();
            let mut all = Vec::new();
            for (_, inst) in &block.insts {
                match *inst {
                    Inst::Setemit(to) => now = Some(to),
                    Inst::Emit => all.push(now?),
                    _ => {}
                }
            }
            Some(all)
        };
        self.blocks.iter().zip(&starts).map(of_block).collect()
    }

    /// What EMITs read of the registers that the program writes. `None`: an EMIT reads one from
    /// memory.
    fn emitted_values(&self) -> Option<Vec<(Value, Components)>> {
        let written = self.outputs_written();
        let mut all = Vec::new();
        for block in &self.blocks {
            let mut stored = Vec::new();
            for (_, inst) in &block.insts {
                match *inst {
                    Inst::Store(Mem::Out { n, .. }, value) => stored.push((n, value)),
                    Inst::Emit if stored.iter().fold(0, |mask, (n, _)| mask | 1 << n) != written => return None,
                    Inst::Emit => all.extend(stored.drain(..).map(|(_, value)| (value, XYZW))),
                    _ => {}
                }
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests;
