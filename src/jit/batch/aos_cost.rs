//! Outputs -> which of them code for several vertices should make by rows: a register of one vertex at a time.
//!
//! Independence by plan, a component of several vertices is a value, and what is read and written has to be turned round. An output that is made
//! component by component of inputs and uniforms, as colours are scaled and coordinates put into place, can do without: the
//! register of each vertex is one vector, as memory has it. It costs an operation a vertex instead of one a component, which is the
//! same, and a shuffle wherever components change places.
//!
//! So is a matrix times an input (`ir::matrix`), as a position is made: a product of each column instead of one of each row, and the
//! matrix need not be in all lanes.
//!
//! It must not know how anything is computed.

use super::matrix_product::{Factor, matrix_product};
use crate::ir::analysis::{Components, components, operand_components, source_components, swallows_nan};
use crate::ir::{Func, Node, Use, Value};
use crate::isa::VectorOp;
use std::collections::BTreeSet;

/// What is larger is left alone; no real shader comes near.
const MAX_NODES: usize = 24;
/// Operations that turn a register of four vertices round, for four at a time.
const TRANSPOSE: usize = 8;
/// Operations of one instruction, for four vertices.
const PER_GROUP: usize = 4;
/// What it costs to load a component of four inputs, each into all lanes: most CPUs do that beside other work.
const BROADCAST: usize = PER_GROUP / 2;

/// What an output costs either way.
struct Costs<'a> {
    func: &'a Func,
    nan_tainted: &'a [bool],
    nodes: usize,
    aos: usize,
    soa: usize,
    inputs: BTreeSet<u8>,
}

/// Whether the AoS form of these components of a vector costs less than the SoA form. `nan_tainted` as from [`Func::nan_tainted`].
pub(super) fn pays(func: &Func, value: Value, lanes: Components, nan_tainted: &[bool]) -> bool {
    let mut costs = Costs { func, nan_tainted, nodes: 0, aos: 0, soa: TRANSPOSE, inputs: BTreeSet::new() };
    // Other outputs may need the same input transposed anyway, hence half.
    let possible = costs.add(value, lanes).is_some();
    possible && costs.aos <= costs.soa + costs.inputs.len() * TRANSPOSE / 2
}

impl Costs<'_> {
    /// Adds what these lanes of a vector cost. Whether vertices may differ in it; `None` if it can't be made by rows.
    fn add(&mut self, value: Value, lanes: Components) -> Option<bool> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return None;
        }
        let func = self.func;
        if let Some(terms) = matrix_product(func, value, lanes) {
            self.aos += (terms.len() - 1) * PER_GROUP;
            let row = |lane: u8| terms.iter().map(move |(_, column)| column[usize::from(lane)]).collect::<Vec<_>>();
            let rows: BTreeSet<_> = components(lanes).map(row).collect();
            self.soa += rows.len() * (2 * terms.len() - 1);
            for (factor, _) in terms {
                self.aos += if let Factor::Input(n, _) = factor {
                    self.inputs.insert(n);
                    PER_GROUP + BROADCAST
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
                let divergent = self.add(old, kept)? | self.add(new, taken)?;
                self.aos += if divergent { PER_GROUP } else { 1 };
                Some(divergent)
            }
            Node::Alu { op: op @ VectorOp::Pointwise(_), src } => {
                let src = &src[..op.sources()];
                // There the operands would have to be tested.
                if swallows_nan(node) && src.iter().any(|u| self.nan_tainted[u.value.0 as usize]) {
                    return None;
                }
                let mut divergent = false;
                for (n, u) in src.iter().enumerate() {
                    let read = operand_components(op, n, lanes);
                    let differs = self.add(u.value, source_components(u, read))?;
                    if differs {
                        self.aos += PER_GROUP * usize::from(moves(u, read));
                        self.aos += PER_GROUP * usize::from(u.negate && !op.subtracts(n));
                    }
                    divergent |= differs;
                }
                if op != VectorOp::MOV {
                    self.aos += if divergent { PER_GROUP } else { 1 };
                    self.soa += lanes.count_ones() as usize;
                }
                Some(divergent)
            }
            _ => None,
        }
    }
}

/// Whether a use takes any of these lanes from another component.
pub(crate) fn moves(u: &Use, lanes: Components) -> bool {
    components(lanes).any(|l| u.swizzle.lane(l.into()) != usize::from(l))
}
