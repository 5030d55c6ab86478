//! [`Func`] -> whether its vertices can run side by side, and what code that does so has to compute.
//!
//! A batch means vertices one after the other on one unit, registers carried over. They can be run in any order, or at
//! once, if none of them sees what another has left. That is proved here, component by component:
//!
//! * A component *changes* if any run may leave something else in it than it found. All others are the same for the
//!   whole batch, and may be read.
//! * A component that changes must be left with something new by every run that [ends](Exit::End), and nothing that such
//!   a run leaves, nor the way it takes, may depend on what it found there.
//! * Where all vertices go the same way, as where only uniforms decide, it may also be left as it was on some ways: then it is
//!   by all vertices of the batch or by none.
//!
//! Then a run that ends leaves the same registers whatever ran before it, and to know the unit after vertex n is to run
//! vertex n. Runs that end otherwise (fuel, a stray BREAK) are promised nothing: they are for whoever runs one vertex
//! after the other. It must not know how many vertices run at once, nor on what.

use super::facts::{ALL_LANES, Lanes, components, lanes_of};
use super::print::Component;
use super::{Block, Form, Func, Inst, Mem, Node, Term, Value};
use crate::isa::flow::Exit;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why vertices have to run one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sequential {
    /// It emits, and the host sees the order.
    Emits,
    /// No run ends as it should, so nothing is ever proved.
    NeverEnds,
    /// A run depends on what an earlier one left in a component of a register.
    Carried(Mem, u8),
    /// Some runs write this component of a register and some leave it as it was.
    PartlyWritten(Mem, u8),
}

impl fmt::Display for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Sequential::Emits => f.write_str("it emits"),
            Sequential::NeverEnds => f.write_str("no run reaches an END"),
            Sequential::Carried(mem, c) => write!(f, "{} may be what an earlier vertex left there", Component(mem, c)),
            Sequential::PartlyWritten(mem, c) => {
                write!(f, "{} is written by some vertices and kept by others", Component(mem, c))
            }
        }
    }
}

/// What code that runs several vertices at once has to know.
#[derive(Clone, Debug)]
pub struct Side {
    /// Lanes that outputs of runs that end, or branches, depend on; see [`Func::live_lanes`]. An output that is made by
    /// rows asks for none.
    pub live: Vec<Lanes>,
    /// For each value whether a whole output that it is should be made [by rows](super::rows).
    pub by_rows: Vec<bool>,
    /// For each value whether vertices may differ in it; see [`Func::varies`].
    pub varies: Vec<bool>,
    /// For each output register the components that runs write; the others are as the unit has them.
    pub written: [Lanes; 16],
    /// Whether every run ends as it should.
    pub always_ends: bool,
}

impl Side {
    /// Whether output register `n`, if it is to hold `value` at a run's end, should be made [by rows](super::rows).
    pub fn made_by_rows(&self, n: u8, value: Value) -> bool {
        self.written[usize::from(n)] == ALL_LANES && self.by_rows[value.0 as usize]
    }
}

/// What a lane of a value is known to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Nothing yet.
    Unknown,
    /// What this register held when the run began.
    Kept(Mem),
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

impl Func {
    /// The proof, or the first thing that speaks against it.
    pub fn side_by_side(&self) -> Result<Side, Sequential> {
        self.proved(true)
    }

    /// The same where memory has components side by side, so that no output should be made by rows.
    pub fn side_by_components(&self) -> Result<Side, Sequential> {
        self.proved(false)
    }

    fn proved(&self, rows: bool) -> Result<Side, Sequential> {
        debug_assert!(self.form == Form::Ssa, "registers in memory are carried by nature");
        // With an EMIT anywhere, reached or not, the other bank is in values as well.
        let sends = |(_, i): &(_, Inst)| match i {
            Inst::Emit | Inst::Setemit(_) => true,
            Inst::Def(v) => matches!(self.node(*v), Node::Flip(_)),
            Inst::Store(..) => false,
        };
        if self.blocks.iter().flat_map(|b| &b.insts).any(sends) {
            return Err(Sequential::Emits);
        }
        let origins = self.origins();
        // What a block stores, with the lanes that are not what the register held.
        let stores = |block: &Block| -> Vec<(Mem, Value, Lanes)> {
            let stores = block.insts.iter().filter_map(|(_, inst)| match *inst {
                Inst::Store(mem, value) => Some((mem, value)),
                _ => None,
            });
            let new = |mem: Mem, value: Value, c: u8| origins[value.0 as usize][usize::from(c)] != Origin::Kept(mem);
            let lanes = |mem, value| {
                components(lanes_of(Mem::ty(mem))).filter(|&c| new(mem, value, c)).fold(0, |m, c| m | 1 << c)
            };
            stores.map(|(mem, value)| (mem, value, lanes(mem, value))).collect()
        };
        let each = |(mem, _, lanes): &(Mem, Value, Lanes)| {
            let mem = *mem;
            components(*lanes).map(move |c| (mem, c))
        };
        let changing: BTreeSet<(Mem, u8)> =
            self.blocks.iter().flat_map(stores).flat_map(|store| each(&store).collect::<Vec<_>>()).collect();
        let ends = |block: &&Block| block.term == Term::Exit(Exit::End);
        let left: Vec<Vec<(Mem, Value, Lanes)>> = self.blocks.iter().filter(ends).map(stores).collect();
        if left.is_empty() {
            return Err(Sequential::NeverEnds);
        }
        for stores in &left {
            let written: BTreeSet<(Mem, u8)> = stores.iter().flat_map(each).collect();
            if let Some(&(mem, c)) = changing.difference(&written).next() {
                return Err(Sequential::PartlyWritten(mem, c));
            }
        }
        let left = left.concat();
        let varies = self.varies();
        let computed = match self.parts(&varies) {
            true => left.iter().map(|&(_, v, lanes)| (v, lanes)).collect(),
            false => self.not_as_it_was(left.clone(), &origins),
        };
        let depended_on = self.live_from(computed);
        for (node, &lanes) in self.nodes.iter().zip(&depended_on) {
            if let Node::Load(mem) = *node
                && let Some(c) = components(lanes).find(|&c| changing.contains(&(mem, c)))
            {
                return Err(Sequential::Carried(mem, c));
            }
        }
        let outputs = left.iter().filter_map(|&(mem, value, lanes)| match mem {
            Mem::Out { n, .. } => Some((n, value, lanes)),
            _ => None,
        });
        let mut written = [0; 16];
        outputs.clone().for_each(|(n, _, lanes)| written[usize::from(n)] |= lanes);
        let suspects = self.suspects();
        let mut by_rows = vec![false; self.nodes.len()];
        // All runs that end do so in one block, so this is made once.
        for (_, v, _) in outputs.clone().filter(|(_, _, lanes)| *lanes == ALL_LANES) {
            by_rows[v.0 as usize] = rows && self.pays_by_rows(v, ALL_LANES, &suspects);
        }
        let computed = outputs.filter(|&(_, v, lanes)| lanes != ALL_LANES || !by_rows[v.0 as usize]);
        let live = self.live_from(computed.map(|(_, v, lanes)| (v, lanes)).collect());
        let always_ends = self.blocks.iter().all(|b| !matches!(b.term, Term::Exit(_)) || ends(&b));
        Ok(Side { live, by_rows, varies, written, always_ends })
    }

    /// What these stores leave, but for what the register held already, on whichever way it came through: as lanes of values that
    /// are neither chosen by the way nor merged.
    fn not_as_it_was(&self, left: Vec<(Mem, Value, Lanes)>, origins: &[[Origin; 4]]) -> Vec<(Value, Lanes)> {
        let feeds = self.feeds();
        let mut seen: BTreeMap<(Mem, Value), Lanes> = BTreeMap::new();
        let (mut queue, mut found) = (left, Vec::new());
        while let Some((mem, value, lanes)) = queue.pop() {
            let seen = seen.entry((mem, value)).or_default();
            let id = value.0 as usize;
            let other = |&c: &u8| origins[id][usize::from(c)] != Origin::Kept(mem);
            let lanes = components(lanes & !*seen).filter(other).fold(0, |m, c| m | 1 << c);
            *seen |= lanes;
            match *self.node(value) {
                _ if lanes == 0 => (),
                Node::Param(_) => queue.extend(feeds[id].iter().map(|&arg| (mem, arg, lanes))),
                Node::Merge { mask, old, new } => {
                    let of = components(lanes).filter(|&c| mask.has(c.into())).fold(0, |m, c| m | 1 << c);
                    queue.extend([(mem, new, of), (mem, old, lanes & !of)]);
                }
                _ => found.push((value, lanes)),
            }
        }
        found
    }

    /// For each value and lane where it comes from.
    fn origins(&self) -> Vec<[Origin; 4]> {
        let mut origins = vec![[Origin::Unknown; 4]; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            origins[id] = match *node {
                Node::Load(mem) => [Origin::Kept(mem); 4],
                Node::Param(_) | Node::Merge { .. } => continue,
                _ => [Origin::New; 4],
            };
        }
        // A lane says which register only; that it is the same lane of it holds because nothing but a merge keeps lanes
        // apart, and a merge moves none.
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
