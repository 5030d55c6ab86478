//! What is known of the values of a [`Func`]: which lanes anybody reads, and which may be NaN for the wrong reason,
//! which may well be infinite.
//!
//! Results are indexed by value number. They are upper bounds: a lane that is not live really is read by nobody, a
//! value that is not suspect really does not depend on a product.

use super::{Func, Inst, Lane, Node, Term, Test, Type, Use, Value};
use crate::isa::Opcode;

/// Whether a node multiplies, so that computing it with a plain product may give NaN where the machine gives a number.
pub fn multiplies(node: &Node) -> bool {
    use Opcode::{Dp3, Dp4, Dph, Dst, Mad, Mul};
    matches!(node, Node::Alu { op: Dp3 | Dp4 | Dph | Dst | Mad | Mul, .. })
}

/// Whether a node can hide a NaN in its sources: its result may be a number although a source is not.
pub fn swallows_nan(node: &Node) -> bool {
    use Opcode::{Litp, Max, Min, Sge, Slt};
    matches!(node, Node::Alu { op: Litp | Max | Min | Sge | Slt, .. } | Node::Compare { .. } | Node::ToAddress(_))
}

/// Lanes as bits, bit 0 = x. For integers and flags: 1 if anybody reads the value.
pub type Lanes = u8;

/// All four lanes.
pub const ALL_LANES: Lanes = 0xF;

/// Calls `f(value, lanes)` for every vector that computing lanes `live` of `node` reads, and `f(value, 1)` for every
/// integer.
pub fn for_each_read(node: &Node, live: Lanes, mut f: impl FnMut(Value, Lanes)) {
    match node {
        Node::Alu { op, src } => {
            for (n, s) in src[..super::alu_sources(*op)].iter().enumerate() {
                f(s.value, through(s, lanes_read(*op, n, live)));
            }
        }
        Node::Scalar { src, .. } | Node::ToAddress(src) => f(src.value, component(src)),
        Node::Compare { a, b, .. } => {
            f(a.value, component(a));
            f(b.value, component(b));
        }
        Node::Merge { mask, old, new } => {
            f(*old, live & !mask.lane_bits());
            f(*new, live & mask.lane_bits());
        }
        _ => node.for_each_use(|v| f(v, 1)),
    }
}

/// Lanes of source `n` (after its swizzle) that lanes `live` of `op`'s result depend on.
pub fn lanes_read(op: Opcode, n: usize, live: Lanes) -> Lanes {
    if live == 0 {
        return 0;
    }
    match (op, n) {
        (Opcode::Dp3, _) | (Opcode::Dph, 0) => 0b0111,
        (Opcode::Dp4 | Opcode::Dph, _) => ALL_LANES,
        (Opcode::Dst, 0) => live & 0b0110,
        (Opcode::Dst, _) => live & 0b1010,
        (Opcode::Litp, _) => live & 0b1011,
        _ => live,
    }
}

/// Components of the value that lanes `lanes` of the use take.
pub fn through(u: &Use, lanes: Lanes) -> Lanes {
    (0..4).filter(|l| lanes >> l & 1 != 0).fold(0, |m, l| m | 1 << u.swizzle.lane(l))
}

fn component(l: &Lane) -> Lanes {
    1 << l.component
}

impl Func {
    /// For each value the lanes that something observable depends on.
    pub fn live_lanes(&self) -> Vec<Lanes> {
        let mut live = vec![0; self.nodes.len()];
        let mut queue = Vec::new();
        let need = |live: &mut Vec<Lanes>, queue: &mut Vec<Value>, v: Value, lanes: Lanes| {
            let slot = &mut live[v.0 as usize];
            if *slot | lanes != *slot {
                *slot |= lanes;
                queue.push(v);
            }
        };
        // What feeds each parameter.
        let mut feeds: Vec<Vec<Value>> = vec![Vec::new(); self.nodes.len()];
        for block in &self.blocks {
            for edge in block.term.edges() {
                for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                    feeds[param.0 as usize].push(*arg);
                }
            }
            for (_, inst) in &block.insts {
                if let Inst::Store(mut mem, value) = *inst {
                    let lanes = if mem.ty() == Type::Vec4 { ALL_LANES } else { 1 };
                    need(&mut live, &mut queue, value, lanes);
                    mem.map_uses(|v| {
                        need(&mut live, &mut queue, v, 1);
                        v
                    });
                }
            }
            if let Term::Branch { mut test, .. } = block.term {
                Test::map_uses(&mut test, |v| {
                    need(&mut live, &mut queue, v, 1);
                    v
                });
            }
        }
        while let Some(value) = queue.pop() {
            let lanes = live[value.0 as usize];
            if let Node::Param(_) = self.node(value) {
                for arg in &feeds[value.0 as usize] {
                    need(&mut live, &mut queue, *arg, lanes);
                }
            } else {
                for_each_read(self.node(value), lanes, |v, l| need(&mut live, &mut queue, v, l));
            }
        }
        live
    }
}

impl Func {
    /// For each vector whether it may be NaN only because products were computed plainly, with 0 * infinity = NaN. What
    /// swallows NaN is where such a NaN must be caught, so its result counts as right.
    pub fn suspects(&self) -> Vec<bool> {
        self.tainted(multiplies, swallows_nan)
    }

    /// For each vector whether a division, root, power or logarithm has a part in it: where infinities come from that
    /// are no overflow.
    pub fn may_be_infinite(&self) -> Vec<bool> {
        self.tainted(|node| matches!(node, Node::Scalar { .. }), |_| false)
    }

    /// The values that `source` holds of, and those made from them but by nodes that `stops` holds of.
    fn tainted(&self, source: impl Fn(&Node) -> bool, stops: impl Fn(&Node) -> bool) -> Vec<bool> {
        let mut tainted = vec![false; self.nodes.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for block in &self.blocks {
                for edge in block.term.edges() {
                    for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                        if tainted[arg.0 as usize] && !tainted[param.0 as usize] {
                            tainted[param.0 as usize] = true;
                            changed = true;
                        }
                    }
                }
                for (_, inst) in &block.insts {
                    let Inst::Def(v) = inst else { continue };
                    let node = self.node(*v);
                    let mut is = source(node);
                    if !stops(node) {
                        node.for_each_use(|u| is |= tainted[u.0 as usize]);
                    }
                    if is && !tainted[v.0 as usize] {
                        tainted[v.0 as usize] = true;
                        changed = true;
                    }
                }
            }
        }
        tainted
    }
}
