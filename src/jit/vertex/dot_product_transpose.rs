//! Dot products that are merged into one register -> one sum of transposed products.
//!
//! A matrix-vector product is four dot products, each written to one component. Summed separately,
//! each takes two additions of which one lane is used. Transposed, three additions sum all four,
//! and in float24 three narrowings. So the sum of a dot product is deferred to the last merge of
//! the chain: [`UnsummedDots`]. The order of summation in each component is the same.
//!
//! Invariant: a deferred value has one use, a merge in its own block, so nothing reads it before it
//! is summed. It must not know how products and sums are computed.

use super::{VertexLowering, VertexValue};
use crate::ir::analysis::XYZW;
use crate::ir::{Func, Inst, Node, Value};
use crate::isa::numeric::Precision;
use crate::isa::{VectorOp, WriteMask};
use crate::jit::emit::ClifBuilder;
use crate::jit::emit::vector::VecValue;
use cranelift_codegen::ir as clif;
use cranelift_codegen::ir::InstBuilder;

/// The products of one dot product.
#[derive(Clone, Copy)]
pub(crate) struct UnsummedDot {
    pub(crate) value: clif::Value,
    /// `DP3`: the fourth product is not part of the sum.
    pub(crate) is_dp3: bool,
}

/// A register into which dot products of one kind are merged.
#[derive(Clone, Copy)]
pub(crate) struct UnsummedDots {
    /// The register's old value; `None` if no component of it is live.
    old: Option<VecValue>,
    is_dp3: bool,
    /// For each component its products, if it is a dot product.
    products: [Option<clif::Value>; 4],
}

fn is_dot(node: &Node) -> bool {
    matches!(node, Node::Alu { op: VectorOp::Dot(_), .. })
}

fn is_single(mask: WriteMask) -> bool {
    mask.component_bits().is_power_of_two()
}

/// For each value whether its sum can be deferred: a dot product, or a merge of one, whose only use
/// is a merge in its block.
pub(crate) fn deferrable(func: &Func) -> Vec<bool> {
    let mut uses = vec![0u8; func.nodes.len()];
    let mut count = |v: Value| uses[v.0 as usize] = uses[v.0 as usize].saturating_add(1);
    for block in &func.blocks {
        for (_, inst) in &block.insts {
            match inst {
                Inst::Def(v) => func.node(*v).for_each_use(&mut count),
                Inst::Store(mem, v) => {
                    count(*v);
                    let mut mem = *mem;
                    mem.map_uses(|v| {
                        count(v);
                        v
                    });
                }
                Inst::Emit | Inst::Setemit(_) => {}
            }
        }
        // Branch tests read no vectors.
        block.term.edges().flat_map(|e| &e.args).for_each(|&v| count(v));
    }
    let mut deferrable = vec![false; func.nodes.len()];
    let mut defined_in = vec![usize::MAX; func.nodes.len()];
    for (id, block) in func.blocks.iter().enumerate() {
        for (_, inst) in &block.insts {
            let Inst::Def(v) = inst else { continue };
            defined_in[v.0 as usize] = id;
            if let Node::Merge { mask, old, new } = *func.node(*v)
                && is_single(mask)
            {
                let only = |v: Value| uses[v.0 as usize] == 1 && defined_in[v.0 as usize] == id;
                if is_dot(func.node(new)) && only(new) {
                    deferrable[new.0 as usize] = true;
                    let chained = match *func.node(old) {
                        Node::Merge { mask, new, .. } => is_single(mask) && deferrable[new.0 as usize],
                        ref node => is_dot(node),
                    };
                    deferrable[old.0 as usize] = only(old) && chained;
                }
            }
        }
    }
    deferrable
}

impl VertexLowering<'_, '_> {
    /// The merge of a deferred dot product into a register; `None` if `new` is none.
    pub(crate) fn merge_dot(&mut self, mask: WriteMask, old: Value, new: Value) -> Option<UnsummedDots> {
        let Some(VertexValue::Dot(dot)) = self.lowered(new) else { return None };
        let mut dots = match self.lowered(old) {
            Some(VertexValue::Dots(dots)) if dots.is_dp3 == dot.is_dp3 => dots,
            Some(VertexValue::Dots(other)) => UnsummedDots::new(self.clif().sum_dots(other), dot.is_dp3),
            // The first dot product of a chain: simplification removed its merge, because later
            // merges overwrite the old components.
            Some(VertexValue::Dot(first)) if first.is_dp3 == dot.is_dp3 => {
                let live = self.live_components(old);
                let products = [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then_some(first.value));
                UnsummedDots { old: None, is_dp3: first.is_dp3, products }
            }
            Some(VertexValue::Dot(other)) => UnsummedDots::new(self.clif().dot(other), dot.is_dp3),
            _ => UnsummedDots::new(self.vector(old), dot.is_dp3),
        };
        dots.products[mask.component_bits().trailing_zeros() as usize] = Some(dot.value);
        Some(dots)
    }
}

impl UnsummedDots {
    fn new(old: VecValue, is_dp3: bool) -> UnsummedDots {
        UnsummedDots { old: Some(old), is_dp3, products: [None; 4] }
    }
}

impl ClifBuilder<'_, '_> {
    /// A dot product, summed.
    pub(crate) fn dot(&mut self, p: UnsummedDot) -> VecValue {
        if p.is_dp3 { self.sum3(p.value) } else { self.sum4(p.value) }
    }

    /// Sums the dot products of a register.
    pub(crate) fn sum_dots(&mut self, UnsummedDots { old, is_dp3, products }: UnsummedDots) -> VecValue {
        let bits = products.iter().enumerate().fold(0, |bits, (l, p)| bits | u8::from(p.is_some()) << l);
        // Two separate sums are as fast as two transposed ones, except for their narrowings.
        let fewest = if self.precision == Precision::F32 { 3 } else { 2 };
        if bits.count_ones() < fewest {
            let register = products.iter().enumerate().fold(old, |old, (c, p)| {
                let Some(value) = *p else { return old };
                let sum = self.dot(UnsummedDot { value, is_dp3 });
                Some(old.map_or(sum, |old| self.insert(c as u8, old, sum)))
            });
            return register.expect("there is an old value or a dot product");
        }
        let any = products.into_iter().flatten().next().expect("there are two at least");
        // Dead components repeat live ones, so that shuffles can be shared.
        let (even, odd) = (products[0].or(products[2]).unwrap_or(any), products[1].or(products[3]).unwrap_or(any));
        let [a, b, c, d] = [0, 1, 2, 3].map(|l| products[l].unwrap_or(if l % 2 == 0 { even } else { odd }));
        let (low_ab, high_ab) = (self.shuffle(a, b, [0, 4, 1, 5]), self.shuffle(a, b, [2, 6, 3, 7]));
        let (low_cd, high_cd) = match (a, b) == (c, d) {
            true => (low_ab, high_ab),
            false => (self.shuffle(c, d, [0, 4, 1, 5]), self.shuffle(c, d, [2, 6, 3, 7])),
        };
        let (x, y) = (self.shuffle(low_ab, low_cd, [0, 1, 4, 5]), self.shuffle(low_ab, low_cd, [2, 3, 6, 7]));
        let z = self.shuffle(high_ab, high_cd, [0, 1, 4, 5]);
        let xy = self.sum(x, y);
        let sum = if is_dp3 {
            self.sum(xy, z)
        } else {
            let w = self.shuffle(high_ab, high_cd, [2, 3, 6, 7]);
            let zw = self.sum(z, w);
            self.sum(xy, zw)
        };
        match old {
            Some(old) if bits != XYZW => {
                let old = self.wide(old);
                VecValue::Wide(self.blend(bits, old, sum))
            }
            _ => VecValue::Wide(sum),
        }
    }

    fn sum(&mut self, a: clif::Value, b: clif::Value) -> clif::Value {
        let sum = self.b.ins().fadd(a, b);
        self.result(sum, XYZW)
    }
}
