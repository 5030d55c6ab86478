//! [`Func`] -> a proof that the vertices of a batch are independent, or the first dependence.
//!
//! A batch means vertices in order on one unit, with registers carried over. Vertices may run in
//! any order, or as groups, if no vertex observes the state that another one leaves. The proof
//! works component by component:
//!
//! * A component is *variable* if some run may leave another value in it than it found. All others
//!   are loop-invariant for the batch and may be read.
//! * Neither the values that a run writes nor its control flow may depend on what a variable
//!   component held at the start: no run reads one before it writes it.
//! * Some paths may *keep* a variable component. Without divergent branches all vertices of the
//!   batch keep it, or none does. With them it has the value of the last vertex that wrote it;
//!   [`Independence::kept`] lists these components.
//!
//! So what a run that [ends](Exit::End) writes does not depend on earlier runs: vertex n, after the
//! last writers of the kept components in order, gives the unit after vertex n. Runs with another
//! exit (fuel, BREAK outside a loop) are not covered; their callers run vertices in order. The
//! proof holds for any group size.

use super::kept::KeptComponents;
use super::{Components, components, components_of};
use crate::ir::print::Component;
use crate::ir::{Block, Form, Func, Inst, Mem, Node, Terminator, Value};
use crate::isa::flow::Exit;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The first dependence between the vertices of a batch; such vertices run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dependence {
    /// The program emits, and the host sees the order.
    Emits,
    /// Invocations emit, and may take different paths around it.
    EmitsOnPaths,
    /// An EMIT may use the parameters of an earlier invocation's SETEMIT.
    CarriedParameters,
    /// No run reaches an END, so nothing is proved.
    NeverEnds,
    /// A run depends on a carried register: a component that an earlier run left.
    Carried(Mem, u8),
}

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Dependence::Emits => f.write_str("it emits"),
            Dependence::EmitsOnPaths => f.write_str("it emits on some paths"),
            Dependence::CarriedParameters => f.write_str("EMIT may use an earlier vertex's SETEMIT"),
            Dependence::NeverEnds => f.write_str("no run reaches an END"),
            Dependence::Carried(mem, c) => write!(f, "{} may hold a value of an earlier vertex", Component(mem, c)),
        }
    }
}

/// The value of an output register at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputStore {
    /// Output register, 0-15.
    pub register: u8,
    /// Its value.
    pub value: Value,
    /// The components that the run writes; the others keep the unit's value.
    pub components: Components,
}

/// The proof: facts about a function whose vertices are independent.
#[derive(Clone, Debug)]
pub struct Independence {
    /// For each value whether it is divergent; see [`Func::is_divergent`].
    pub divergent: Vec<bool>,
    /// Every store to an output in a block that ends the run.
    pub outputs: Vec<OutputStore>,
    /// For each output register the components that runs write; the others keep the unit's value.
    pub written: [Components; 16],
    /// Components that some vertices of a batch may write while others keep them.
    pub kept: Vec<KeptComponents>,
    /// Whether every run reaches an END.
    pub always_ends: bool,
}

impl Independence {
    /// Whether some vertices keep a component of an output that others write.
    pub fn keeps_outputs(&self) -> bool {
        let mut kept = self.kept.iter().flat_map(|kept| &kept.components);
        kept.any(|(mem, _)| matches!(mem, Mem::Out { .. }))
    }
}

/// Where a component of a value comes from: a lattice with `Unknown` on top and `New` at the
/// bottom.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// No definition seen yet.
    Unknown,
    /// The initial contents of this register.
    Initial(Mem),
    /// Anything else.
    New,
}

impl Origin {
    fn meet(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Unknown, o) | (o, Origin::Unknown) => o,
            (a, b) if a == b => a,
            _ => Origin::New,
        }
    }
}

/// Proves that the vertices of a batch are independent, or names the first dependence. `func` is in
/// SSA form.
pub fn prove(func: &Func) -> Result<Independence, Dependence> {
    debug_assert!(func.form == Form::Ssa, "registers in memory are carried by nature");
    if func.has_emission() {
        return Err(Dependence::Emits);
    }
    let origins = func.origins();
    // A block's stores, with the components that may differ from what the register held at the
    // start.
    let stores = |block: &Block| -> Vec<(Mem, Value, Components)> {
        let stores = block.insts.iter().filter_map(|(_, inst)| match *inst {
            Inst::Store(mem, value) => Some((mem, value)),
            _ => None,
        });
        let new = |mem: Mem, value: Value, c: u8| origins[value.0 as usize][usize::from(c)] != Origin::Initial(mem);
        let changed = |mem, value| {
            components(components_of(Mem::ty(mem))).filter(|&c| new(mem, value, c)).fold(0, |m, c| m | 1 << c)
        };
        stores.map(|(mem, value)| (mem, value, changed(mem, value))).collect()
    };
    let by_component = |(mem, _, set): &(Mem, Value, Components)| {
        let mem = *mem;
        components(*set).map(move |c| (mem, c))
    };
    let variable: BTreeSet<(Mem, u8)> =
        func.blocks.iter().flat_map(stores).flat_map(|store| by_component(&store).collect::<Vec<_>>()).collect();
    let ends = |block: &&Block| block.term == Terminator::Exit(Exit::End);
    let exit_stores: Vec<Vec<(Mem, Value, Components)>> = func.blocks.iter().filter(ends).map(stores).collect();
    if exit_stores.is_empty() {
        return Err(Dependence::NeverEnds);
    }
    let exit_stores = exit_stores.concat();
    let divergent = func.is_divergent();
    let depended_on = func.live_from(func.new_values(exit_stores.clone(), &origins));
    for (node, &set) in func.nodes.iter().zip(&depended_on) {
        if let Node::Load(mem) = *node
            && let Some(c) = components(set).find(|&c| variable.contains(&(mem, c)))
        {
            return Err(Dependence::Carried(mem, c));
        }
    }
    let output = |&(mem, value, components): &(Mem, Value, Components)| match mem {
        Mem::Out { n, .. } => Some(OutputStore { register: n, value, components }),
        _ => None,
    };
    let outputs: Vec<OutputStore> = exit_stores.iter().filter_map(output).collect();
    let mut written = [0; 16];
    outputs.iter().for_each(|store| written[usize::from(store.register)] |= store.components);
    let always_ends = func.blocks.iter().all(|b| !matches!(b.term, Terminator::Exit(_)) || ends(&b));
    let kept = func.kept_components();
    Ok(Independence { divergent, outputs, written, kept, always_ends })
}

impl Func {
    /// The new values among these stores, as components of nodes that are neither parameters nor
    /// merges: stored components whose origin is the register itself, on any path, are omitted.
    pub(super) fn new_values(
        &self,
        exit_stores: Vec<(Mem, Value, Components)>,
        origins: &[[Origin; 4]],
    ) -> Vec<(Value, Components)> {
        let incoming = self.incoming();
        let mut seen: BTreeMap<(Mem, Value), Components> = BTreeMap::new();
        let (mut queue, mut found) = (exit_stores, Vec::new());
        while let Some((mem, value, set)) = queue.pop() {
            let seen = seen.entry((mem, value)).or_default();
            let id = value.0 as usize;
            let other = |&c: &u8| origins[id][usize::from(c)] != Origin::Initial(mem);
            let set = components(set & !*seen).filter(other).fold(0, |m, c| m | 1 << c);
            *seen |= set;
            match *self.node(value) {
                _ if set == 0 => (),
                Node::Param(_) => queue.extend(incoming[id].iter().map(|&arg| (mem, arg, set))),
                Node::Merge { mask, old, new } => {
                    let of = components(set).filter(|&c| mask.has(c.into())).fold(0, |m, c| m | 1 << c);
                    queue.extend([(mem, new, of), (mem, old, set & !of)]);
                }
                _ => found.push((value, set)),
            }
        }
        found
    }

    /// For each value and component its origin.
    pub(super) fn origins(&self) -> Vec<[Origin; 4]> {
        let mut origins = vec![[Origin::Unknown; 4]; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            origins[id] = match *node {
                Node::Load(mem) => [Origin::Initial(mem); 4],
                Node::Param(_) | Node::Merge { .. } => continue,
                _ => [Origin::New; 4],
            };
        }
        // An origin names a register, not a component of it: only merges separate components, and a
        // merge moves none.
        let mut changed = true;
        while changed {
            changed = false;
            for block in &self.blocks {
                for (_, inst) in &block.insts {
                    let Inst::Def(v) = inst else { continue };
                    let Node::Merge { mask, old, new } = *self.node(*v) else { continue };
                    let (old, new) = (origins[old.0 as usize], origins[new.0 as usize]);
                    let merged = [0, 1, 2, 3].map(|l| if mask.has(l) { new[l] } else { old[l] });
                    changed |= origins[v.0 as usize] != merged;
                    origins[v.0 as usize] = merged;
                }
                for edge in block.term.edges() {
                    for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                        let (before, arg) = (origins[param.0 as usize], origins[arg.0 as usize]);
                        let met = [0, 1, 2, 3].map(|l| before[l].meet(arg[l]));
                        changed |= met != before;
                        origins[param.0 as usize] = met;
                    }
                }
            }
        }
        origins
    }
}

#[cfg(test)]
mod tests;
