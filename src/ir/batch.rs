//! [`Func`] -> whether its vertices can run side by side, and what code that does so has to compute.
//!
//! A batch means vertices one after the other on one unit, registers carried over. They can be run in any order, or at
//! once, if none of them sees what another has left. That is proved here, component by component:
//!
//! * A component *changes* if any run may leave something else in it than it found. All others are the same for the
//!   whole batch, and may be read.
//! * A component that changes must be left with something new by every run that [ends](Exit::End), and nothing that such
//!   a run leaves, nor the way it takes, may depend on what it found there.
//!
//! Then a run that ends leaves the same registers whatever ran before it, and to know the unit after vertex n is to run
//! vertex n. Runs that end otherwise (fuel, a stray BREAK) are promised nothing: they are for whoever runs one vertex
//! after the other. It must not know how many vertices run at once, nor on what.

use super::facts::{ALL_LANES, Lanes, for_each_read};
use super::{Form, Func, Inst, Mem, Node, Term, Test, Type, Value};
use crate::isa::flow::Exit;
use std::collections::HashSet;
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
    Carried(Register, u8),
    /// Some runs write this component of a register and some leave it as it was.
    PartlyWritten(Register, u8),
}

/// A register, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// `r0-r15`.
    Temp(u8),
    /// `o0-o15`.
    Out(u8),
    /// `a0`, `aL` and the flags, as components x, y of a0, aL, cmp.x, cmp.y.
    Other(&'static str),
}

impl fmt::Display for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |f: &mut fmt::Formatter<'_>, register, component: &u8| match register {
            Register::Temp(n) => write!(f, "r{n}.{}", b"xyzw"[usize::from(component & 3)] as char),
            Register::Out(n) => write!(f, "o{n}.{}", b"xyzw"[usize::from(component & 3)] as char),
            Register::Other(name) => f.write_str(name),
        };
        match self {
            Sequential::Emits => f.write_str("it emits"),
            Sequential::NeverEnds => f.write_str("no run reaches an END"),
            Sequential::Carried(register, c) => {
                place(f, *register, c)?;
                f.write_str(" may be what an earlier vertex left there")
            }
            Sequential::PartlyWritten(register, c) => {
                place(f, *register, c)?;
                f.write_str(" is written by some vertices and kept by others")
            }
        }
    }
}

/// What code that runs several vertices at once has to know.
#[derive(Clone, Debug)]
pub struct Side {
    /// Lanes that outputs of runs that end, or branches, depend on; see [`Func::live_lanes`]. An output that is a leaf
    /// as it stands asks for none.
    pub live: Vec<Lanes>,
    /// For each integer and flag whether vertices may differ in it. Vectors are left out.
    pub varies: Vec<bool>,
    /// For each output register the components that runs write; the others are as the unit has them.
    pub written: [Lanes; 16],
    /// Whether every run ends as it should.
    pub always_ends: bool,
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

fn register(mem: Mem) -> Register {
    match mem {
        Mem::Temp(n) => Register::Temp(n),
        Mem::Out { n, .. } => Register::Out(n),
        Mem::Address(0) => Register::Other("a0.x"),
        Mem::Address(_) => Register::Other("a0.y"),
        Mem::LoopCounter => Register::Other("aL"),
        Mem::Flag(0) => Register::Other("cmp.x"),
        Mem::Flag(_) => Register::Other("cmp.y"),
        Mem::Bank => Register::Other("the output bank"),
    }
}

fn lanes_of(mem: Mem) -> Lanes {
    if mem.ty() == Type::Vec4 { ALL_LANES } else { 1 }
}

fn each(lanes: Lanes) -> impl Iterator<Item = usize> {
    (0..4).filter(move |l| lanes >> l & 1 != 0)
}

impl Func {
    /// The proof, or the first thing that speaks against it.
    pub fn side_by_side(&self) -> Result<Side, Sequential> {
        debug_assert!(self.form == Form::Ssa, "registers in memory are carried by nature");
        // An EMIT that turned out never to be reached has left its change of banks.
        let sends = |(_, i): &(_, Inst)| match i {
            Inst::Emit | Inst::Setemit(_) => true,
            Inst::Def(v) => matches!(self.node(*v), Node::Flip(_)),
            Inst::Store(..) => false,
        };
        if self.blocks.iter().flat_map(|b| &b.insts).any(sends) {
            return Err(Sequential::Emits);
        }
        let origins = self.origins();
        let ends = |term: &Term| *term == Term::Exit(Exit::End);
        let stores = |b: &super::Block| -> Vec<(Mem, Value)> {
            b.insts.iter().filter_map(|(_, i)| if let Inst::Store(m, v) = i { Some((*m, *v)) } else { None }).collect()
        };
        // Lanes of a stored value that are not what the register held.
        let new = |mem: Mem, value: Value| -> Lanes {
            let kept = |l: &usize| origins[value.0 as usize][*l] == Origin::Kept(mem);
            each(lanes_of(mem)).filter(|l| !kept(l)).fold(0, |m, l| m | 1 << l)
        };
        let mut changing: HashSet<(Mem, usize)> = HashSet::new();
        for block in &self.blocks {
            for (mem, value) in stores(block) {
                changing.extend(each(new(mem, value)).map(|l| (mem, l)));
            }
        }
        let ending: Vec<Vec<(Mem, Value)>> = self.blocks.iter().filter(|b| ends(&b.term)).map(stores).collect();
        if ending.is_empty() {
            return Err(Sequential::NeverEnds);
        }
        let mut written = [0; 16];
        let mut left = Vec::new();
        for stores in &ending {
            let mut missing = changing.clone();
            for (mem, value) in stores {
                let lanes = new(*mem, *value);
                each(lanes).for_each(|l| {
                    missing.remove(&(*mem, l));
                });
                left.push((*mem, *value, lanes));
                if let Mem::Out { n, .. } = mem {
                    written[usize::from(*n)] |= lanes;
                }
            }
            if let Some(&(mem, l)) = missing.iter().min_by_key(|(m, l)| (format!("{m:?}"), *l)) {
                return Err(Sequential::PartlyWritten(register(mem), l as u8));
            }
        }
        let all = self.live_from(left.iter().map(|(_, v, lanes)| (*v, *lanes)));
        for (id, node) in self.nodes.iter().enumerate() {
            if let Node::Load(mem) = *node
                && let Some(l) = each(all[id]).find(|l| changing.contains(&(mem, *l)))
            {
                return Err(Sequential::Carried(register(mem), l as u8));
            }
        }
        // A leaf that is an output as it stands is copied, component or not.
        let copied = |v: Value, lanes: Lanes| lanes == ALL_LANES && self.node(v).is_leaf();
        let outputs = left.iter().filter(|(m, v, lanes)| matches!(m, Mem::Out { .. }) && !copied(*v, *lanes));
        let outputs = outputs.map(|(_, v, lanes)| (*v, *lanes));
        let live = self.live_from(outputs);
        let always_ends = self.blocks.iter().all(|b| !matches!(b.term, Term::Exit(_)) || ends(&b.term));
        Ok(Side { live, varies: self.varies(), written, always_ends })
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

    /// For each integer and flag whether it may depend on an input.
    fn varies(&self) -> Vec<bool> {
        let mut varies = vec![false; self.nodes.len()];
        let mut changed = true;
        while changed {
            changed = false;
            let mut set = |varies: &mut Vec<bool>, v: Value, is: bool| {
                changed |= is && !varies[v.0 as usize];
                varies[v.0 as usize] |= is;
            };
            for block in &self.blocks {
                for (_, inst) in &block.insts {
                    let Inst::Def(v) = inst else { continue };
                    let mut is = false;
                    self.node(*v).for_each_use(|u| is |= varies[u.0 as usize] || self.is_input(u));
                    set(&mut varies, *v, is);
                }
                for edge in block.term.edges() {
                    for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                        let is = varies[arg.0 as usize] || self.is_input(*arg);
                        set(&mut varies, *param, is);
                    }
                }
            }
        }
        varies
    }

    fn is_input(&self, value: Value) -> bool {
        matches!(self.node(value), Node::Input(_))
    }

    /// Lanes that these lanes of these values, or any branch, depend on.
    fn live_from(&self, roots: impl Iterator<Item = (Value, Lanes)>) -> Vec<Lanes> {
        let mut live = vec![0; self.nodes.len()];
        let mut queue: Vec<(Value, Lanes)> = roots.collect();
        let mut feeds: Vec<Vec<Value>> = vec![Vec::new(); self.nodes.len()];
        for block in &self.blocks {
            for edge in block.term.edges() {
                for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                    feeds[param.0 as usize].push(*arg);
                }
            }
            if let Term::Branch { mut test, .. } = block.term {
                Test::map_uses(&mut test, |v| {
                    queue.push((v, 1));
                    v
                });
            }
        }
        while let Some((value, lanes)) = queue.pop() {
            let slot: &mut Lanes = &mut live[value.0 as usize];
            if *slot | lanes == *slot {
                continue;
            }
            *slot |= lanes;
            let lanes = *slot;
            match self.node(value) {
                Node::Param(_) => queue.extend(feeds[value.0 as usize].iter().map(|&arg| (arg, lanes))),
                node => for_each_read(node, lanes, |v, l| queue.push((v, l))),
            }
        }
        live
    }
}

#[cfg(test)]
mod tests;
