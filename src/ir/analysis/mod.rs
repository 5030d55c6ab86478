//! Facts proved about a [`Func`](super::Func), `carried` and `longest_run` about a [`Cfg`](super::cfg::Cfg). No analysis
//! knows what code costs.
//!
//! | file | question | cost |
//! |---|---|---|
//! | `liveness` | which components of a value do observable effects depend on? | one pass over the uses that matter |
//! | `uniformity` | which values and branches may differ between vertices? | a fixed point over all edges |
//! | `nan_taint` | which values may be NaN only because a product was computed without the 0 * infinity rule? | the same |
//! | `ranges` | in float24, which results are proved to need no flush, no limit, no canonical zero? | the same |
//! | `kept` | which components do some vertices write and others keep, and on which paths? | one pass over the parameters that they reach |
//! | `settled` | does one run settle what later runs read? | one look at the stores of each END |
//! | `effects` | which register components does an instruction read and write? | one look at it |
//! | `carried` | which registers does a run read that an earlier run left? So may the vertices of a batch run in any order? | a fixed point over all blocks |
//! | `longest_run` | how many words does a run execute at most? | two searches for each loop |
//!
//! Results on functions are indexed by value number, and each is an upper bound: no execution reads a component
//! that is not live; a value that is not divergent is equal for all vertices.

pub mod carried;
pub mod effects;
mod kept;
mod liveness;
pub(crate) mod longest_run;
mod nan_taint;
#[cfg_attr(not(feature = "jit"), allow(dead_code))] // only native code asks
pub(crate) mod ranges;
mod settled;
mod uniformity;

#[cfg(test)]
mod tests;

use super::{Block, Func, Inst, Mem, Node, ScalarUse, Terminator, Type, Use, Value};
use crate::isa::flow::Exit;
use crate::isa::{DotOp, VectorOp};
pub use carried::{Dependence, RegisterUse};
pub use kept::KeptComponents;
pub use nan_taint::{multiplies, swallows_nan};

/// Components as bits, bit 0 = x. For integers and flags: 1 if the value is live.
pub type Components = u8;

/// All four components.
pub const XYZW: Components = 0xF;

/// Calls `f(value, components)` for every vector that components `live` of `node` depend on, and
/// `f(value, 1)` for every integer.
pub fn for_each_read(node: &Node, live: Components, mut f: impl FnMut(Value, Components)) {
    match node {
        Node::Alu { op, src } => {
            for (n, s) in src[..op.sources()].iter().enumerate() {
                f(s.value, source_components(s, operand_components(*op, n, live)));
            }
        }
        Node::Scalar { src, .. } | Node::ToAddress(src) => f(src.value, component(src)),
        Node::Compare { a, b, .. } => {
            f(a.value, component(a));
            f(b.value, component(b));
        }
        Node::Merge { mask, old, new } => {
            f(*old, live & !mask.component_bits());
            f(*new, live & mask.component_bits());
        }
        _ => node.for_each_use(|v| f(v, 1)),
    }
}

/// Components of source `n` (after its swizzle) that components `live` of `op`'s result depend on.
pub fn operand_components(op: VectorOp, n: usize, live: Components) -> Components {
    if live == 0 {
        return 0;
    }
    match op {
        VectorOp::Pointwise(_) => live,
        VectorOp::Dot(DotOp::Dp3) => 0b0111,
        VectorOp::Dot(DotOp::Dp4) => XYZW,
        VectorOp::Dot(DotOp::Dph) if n == 0 => 0b0111,
        VectorOp::Dot(DotOp::Dph) => XYZW,
        VectorOp::Dst if n == 0 => live & 0b0110,
        VectorOp::Dst => live & 0b1010,
        VectorOp::Litp => live & 0b1011,
    }
}

/// Components of the value that components `of` of the use select.
pub fn source_components(u: &Use, of: Components) -> Components {
    (0..4).filter(|c| of >> c & 1 != 0).fold(0, |m, c| m | 1 << u.swizzle.component(c))
}

fn component(l: &ScalarUse) -> Components {
    1 << l.component
}

/// The numbers of the set components, x first.
pub fn components(set: Components) -> impl Iterator<Item = u8> {
    (0..4).filter(move |c| set >> c & 1 != 0)
}

/// All components of a value of this type.
pub fn components_of(ty: Type) -> Components {
    if ty == Type::Vec4 { XYZW } else { 1 }
}

impl Block {
    /// The `o` registers that it stores; bit n is `on`.
    pub fn outputs_stored(&self) -> u16 {
        let output =
            |mask, i: &(_, Inst)| if let Inst::Store(Mem::Out { n, .. }, _) = i.1 { mask | 1 << n } else { mask };
        self.insts.iter().fold(0, output)
    }
}

impl Func {
    /// The `v` registers that are read; bit n is `vn`.
    pub fn inputs_read(&self) -> u16 {
        let input = |mask, node: &Node| if let Node::Input(n) = node { mask | 1 << n } else { mask };
        self.nodes.iter().fold(0, input)
    }

    /// Whether anything of EMIT and SETEMIT is left. With an EMIT anywhere, reachable or not, the
    /// other output bank is in values as well.
    pub fn has_emission(&self) -> bool {
        let emission = |(_, inst): &(_, Inst)| match inst {
            Inst::Emit | Inst::Setemit(_) => true,
            Inst::Def(value) => matches!(self.node(*value), Node::Flip(_)),
            Inst::Store(..) => false,
        };
        self.blocks.iter().flat_map(|block| &block.insts).any(emission)
    }

    /// Whether a run reaches an END.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // only native code asks
    pub(crate) fn reaches_end(&self) -> bool {
        self.blocks.iter().any(|block| block.term == Terminator::Exit(Exit::End))
    }

    /// The `o` registers that are written, in either bank; bit n is `on`.
    pub fn outputs_written(&self) -> u16 {
        self.blocks.iter().fold(0, |mask, block| mask | block.outputs_stored())
    }

    /// For each block parameter its incoming values, one per edge.
    pub(super) fn incoming(&self) -> Vec<Vec<Value>> {
        let mut incoming: Vec<Vec<Value>> = vec![Vec::new(); self.nodes.len()];
        for edge in self.blocks.iter().flat_map(|block| block.term.edges()) {
            for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                incoming[param.0 as usize].push(*arg);
            }
        }
        incoming
    }

    /// The definition that a component copies, through merges and moves.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // only code for groups asks
    pub(crate) fn origin(&self, mut value: Value, mut component: u8) -> (Value, u8) {
        loop {
            match *self.node(value) {
                Node::Merge { mask, old, new } => value = if mask.has(component.into()) { new } else { old },
                Node::Alu { op: VectorOp::MOV, src: [u, ..] } if !u.negate => {
                    (value, component) = (u.value, u.swizzle.component(component.into()) as u8);
                }
                _ => return (value, component),
            }
        }
    }

    /// The least set of values that contains those for which `source` holds and is closed under
    /// use: a node joins it with any of its operands, unless `stops` holds for the node, and a
    /// parameter with any of its incoming values.
    fn closure(&self, source: impl Fn(Value) -> bool, stops: impl Fn(&Node) -> bool) -> Vec<bool> {
        let mut members: Vec<bool> = (0..self.nodes.len()).map(|id| source(Value(id as u32))).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for block in &self.blocks {
                for edge in block.term.edges() {
                    for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                        if members[arg.0 as usize] && !members[param.0 as usize] {
                            members[param.0 as usize] = true;
                            changed = true;
                        }
                    }
                }
                for (_, inst) in &block.insts {
                    let Inst::Def(v) = inst else { continue };
                    let node = self.node(*v);
                    let mut is = false;
                    if !stops(node) {
                        node.for_each_use(|u| is |= members[u.0 as usize]);
                    }
                    if is && !members[v.0 as usize] {
                        members[v.0 as usize] = true;
                        changed = true;
                    }
                }
            }
        }
        members
    }
}
