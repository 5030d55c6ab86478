//! An output -> whether its AoS form costs less than its SoA form.
//!
//! SoA code transposes the inputs it reads and the outputs it writes in AoS memory. A pointwise
//! function of inputs and uniforms, such as a scaled colour, needs neither in AoS form: the
//! register of each vertex is one vector. It costs an operation per vertex instead of one per
//! component, which is the same, and a shuffle per vertex where a swizzle moves components.
//!
//! A [matrix times an input](super::matrix_product), such as a position, costs a product per column
//! and vertex, and its matrix is not broadcast.
//!
//! It must not know how anything is computed.

use super::matrix_product::{Factor, matrix_product};
use crate::ir::analysis::{Components, components, operand_components, source_components, swallows_nan};
use crate::ir::{Func, Node, Use, Value};
use crate::isa::VectorOp;
use std::collections::BTreeSet;

/// Outputs of more nodes are SoA. No real shader has them.
const MAX_NODES: usize = 24;
/// Shuffles that transpose one register of a group.
const TRANSPOSE: usize = 8;
/// AoS operations of one instruction for a group.
const PER_GROUP: usize = 4;
/// The cost of broadcasting a component of the four vertices' inputs from memory: most CPUs do that
/// in their load units.
const BROADCAST: usize = PER_GROUP / 2;

/// The cost of an output in both forms.
struct Costs<'a> {
    func: &'a Func,
    nan_tainted: &'a [bool],
    nodes: usize,
    aos: usize,
    soa: usize,
    inputs: BTreeSet<u8>,
}

/// Whether the AoS form of these components of a vector costs less than the SoA form. `nan_tainted`
/// as from [`Func::nan_tainted`].
pub(super) fn pays(func: &Func, value: Value, live: Components, nan_tainted: &[bool]) -> bool {
    let mut costs = Costs { func, nan_tainted, nodes: 0, aos: 0, soa: TRANSPOSE, inputs: BTreeSet::new() };
    // Half, because another output may need the same transposed input.
    let possible = costs.add(value, live).is_some();
    possible && costs.aos <= costs.soa + costs.inputs.len() * TRANSPOSE / 2
}

impl Costs<'_> {
    /// Adds the costs of components `live` of a vector. Returns whether it is divergent, or `None`
    /// if it has no AoS form.
    fn add(&mut self, value: Value, live: Components) -> Option<bool> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return None;
        }
        let func = self.func;
        if let Some(terms) = matrix_product(func, value, live) {
            self.aos += (terms.len() - 1) * PER_GROUP;
            let row = |c: u8| terms.iter().map(move |(_, column)| column[usize::from(c)]).collect::<Vec<_>>();
            let rows: BTreeSet<_> = components(live).map(row).collect();
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
                let (kept, taken) = (live & !mask.component_bits(), live & mask.component_bits());
                if kept == 0 || taken == 0 {
                    return self.add(if kept == 0 { new } else { old }, live);
                }
                let divergent = self.add(old, kept)? | self.add(new, taken)?;
                self.aos += if divergent { PER_GROUP } else { 1 };
                Some(divergent)
            }
            Node::Alu { op: op @ VectorOp::Pointwise(_), src } => {
                let src = &src[..op.sources()];
                // Guards of operands are emitted for SoA code only.
                if swallows_nan(node) && src.iter().any(|u| self.nan_tainted[u.value.0 as usize]) {
                    return None;
                }
                let mut divergent = false;
                for (n, u) in src.iter().enumerate() {
                    let read = operand_components(op, n, live);
                    let differs = self.add(u.value, source_components(u, read))?;
                    if differs {
                        self.aos += PER_GROUP * usize::from(moves(u, read));
                        self.aos += PER_GROUP * usize::from(u.negate && !op.subtracts(n));
                    }
                    divergent |= differs;
                }
                if op != VectorOp::MOV {
                    self.aos += if divergent { PER_GROUP } else { 1 };
                    self.soa += live.count_ones() as usize;
                }
                Some(divergent)
            }
            _ => None,
        }
    }
}

/// Whether a use takes any of these components from another one.
pub(crate) fn moves(u: &Use, read: Components) -> bool {
    components(read).any(|c| u.swizzle.component(c.into()) != usize::from(c))
}
