//! Outputs -> which of them code for several vertices should make by rows: a register of one vertex at a time.
//!
//! Side by side, a component of several vertices is a value, and what is read and written has to be turned round. An output that is made
//! component by component of inputs and uniforms, as colours are scaled and coordinates put into place, can do without: the
//! register of each vertex is one vector, as memory has it. It costs an operation a vertex instead of one a component, which is the
//! same, and a shuffle wherever components change places.
//!
//! So is a matrix times an input (`ir::matrix`), as a position is made: a product of each column instead of one of each row, and the
//! matrix need not be in all lanes.
//!
//! It must not know how anything is computed.

use super::facts::{Lanes, components, lanes_read, subtracts, swallows_nan, through};
use super::matrix::Factor;
use super::{Func, Node, Use, Value, alu_sources};
use crate::isa::Opcode;
use std::collections::BTreeSet;

/// What is larger is left alone; no real shader comes near.
const MOST_NODES: usize = 24;
/// Operations that turn a register of four vertices round, for four at a time.
const TURN: usize = 8;
/// Operations of one instruction, for four vertices.
const EACH: usize = 4;
/// What it costs to load a component of four inputs, each into all lanes: most CPUs do that beside other work.
const SPREAD: usize = EACH / 2;

/// What an output costs either way.
struct Costs<'a> {
    func: &'a Func,
    suspects: &'a [bool],
    nodes: usize,
    by_rows: usize,
    by_components: usize,
    inputs: BTreeSet<u8>,
}

impl Func {
    /// Whether these lanes of a vector should be made by rows. `suspects` as from [`Func::suspects`].
    pub(super) fn pays_by_rows(&self, value: Value, lanes: Lanes, suspects: &[bool]) -> bool {
        let mut costs =
            Costs { func: self, suspects, nodes: 0, by_rows: 0, by_components: TURN, inputs: BTreeSet::new() };
        // Others may turn the same input round anyway.
        let possible = costs.add(value, lanes).is_some();
        possible && costs.by_rows <= costs.by_components + costs.inputs.len() * TURN / 2
    }
}

impl Costs<'_> {
    /// Adds what these lanes of a vector cost. Whether vertices may differ in it; `None` if it can't be made by rows.
    fn add(&mut self, value: Value, lanes: Lanes) -> Option<bool> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return None;
        }
        let func = self.func;
        if let Some(terms) = func.matrix_product(value, lanes) {
            self.by_rows += (terms.len() - 1) * EACH;
            let row = |lane: u8| terms.iter().map(move |(_, column)| column[usize::from(lane)]).collect::<Vec<_>>();
            let rows: BTreeSet<_> = components(lanes).map(row).collect();
            self.by_components += rows.len() * (2 * terms.len() - 1);
            for (factor, _) in terms {
                self.by_rows += if let Factor::Input(n, _) = factor {
                    self.inputs.insert(n);
                    EACH + SPREAD
                } else {
                    1
                };
            }
            return Some(true);
        }
        let node = func.node(value);
        match *node {
            Node::Input(n) => {
                self.inputs.insert(n);
                Some(true)
            }
            Node::Uniform(_) | Node::Const(_) => Some(false),
            Node::Merge { mask, old, new } => {
                let (kept, taken) = (lanes & !mask.lane_bits(), lanes & mask.lane_bits());
                if kept == 0 || taken == 0 {
                    return self.add(if kept == 0 { new } else { old }, lanes);
                }
                let varies = self.add(old, kept)? | self.add(new, taken)?;
                self.by_rows += if varies { EACH } else { 1 };
                Some(varies)
            }
            Node::Alu { op, src } => {
                use Opcode::{Add, Flr, Mad, Max, Min, Mov, Mul, Sge, Slt};
                if !matches!(op, Add | Flr | Mad | Max | Min | Mov | Mul | Sge | Slt) {
                    return None;
                }
                let src = &src[..alu_sources(op)];
                // There the operands would have to be tested.
                if swallows_nan(node) && src.iter().any(|u| self.suspects[u.value.0 as usize]) {
                    return None;
                }
                let mut varies = false;
                for (n, u) in src.iter().enumerate() {
                    let read = lanes_read(op, n, lanes);
                    let differs = self.add(u.value, through(u, read))?;
                    if differs {
                        self.by_rows += EACH * usize::from(moves(u, read));
                        self.by_rows += EACH * usize::from(u.negate && !subtracts(op, n));
                    }
                    varies |= differs;
                }
                if op != Mov {
                    self.by_rows += if varies { EACH } else { 1 };
                    self.by_components += lanes.count_ones() as usize;
                }
                Some(varies)
            }
            _ => None,
        }
    }
}

/// Whether a use takes any of these lanes from another component.
pub(crate) fn moves(u: &Use, lanes: Lanes) -> bool {
    components(lanes).any(|l| u.swizzle.lane(l.into()) != usize::from(l))
}
