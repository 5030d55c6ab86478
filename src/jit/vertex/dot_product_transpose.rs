//! Dot products that are merged into one register -> one sum of transposed products.
//!
//! A matrix-vector product is four dot products, each written to one component. Summed separately,
//! each takes two additions of which one lane is used. Shuffled, three additions sum all four, and
//! in float24 three narrowings. So the sum of a dot product is deferred to the last merge of
//! the chain: [`UnsummedDots`]. The order of summation in each component is the same.
//!
//! Invariant: a deferred value has one use, a merge in its own block, so nothing reads it before it
//! is summed. It must not know how products and sums are computed.

use super::{VertexLowering, VertexValue};
use crate::ir::analysis::XYZW;
use crate::ir::analysis::ranges::Narrowing;
use crate::ir::{Func, Inst, Node, Value};
use crate::isa::{VectorOp, WriteMask};
use crate::jit::emit::ClifBuilder;
use crate::jit::emit::vector::{Merged, VecValue};
use cranelift_codegen::ir as clif;
use cranelift_codegen::ir::InstBuilder;

/// The products of one dot product.
#[derive(Clone, Copy)]
pub(crate) struct UnsummedDot {
    pub(crate) value: clif::Value,
    /// `DP3`: the fourth product is not part of the sum.
    pub(crate) is_dp3: bool,
    /// How its sums are narrowed.
    pub(crate) narrowing: Narrowing,
}

/// A register into which dot products of one kind are merged.
#[derive(Clone, Copy)]
pub(crate) struct UnsummedDots {
    /// The register's old value; `None` if no component of it is live.
    old: Option<VecValue>,
    is_dp3: bool,
    narrowing: Narrowing,
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
                Inst::Store(_, v) => count(*v),
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
            Some(VertexValue::Dots(other)) => {
                let merged = self.sum_dots(other);
                UnsummedDots::new(self.clif().merged(merged), dot.is_dp3)
            }
            // The first dot product of a chain: simplification removed its merge, because later
            // merges overwrite the old components.
            Some(VertexValue::Dot(first)) if first.is_dp3 == dot.is_dp3 => {
                let live = self.live_components(old);
                let products = [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then_some(first.value));
                UnsummedDots { old: None, is_dp3: first.is_dp3, narrowing: first.narrowing, products }
            }
            Some(VertexValue::Dot(other)) => {
                self.narrowing = other.narrowing;
                UnsummedDots::new(self.clif().dot(other), dot.is_dp3)
            }
            _ => UnsummedDots::new(self.vector(old), dot.is_dp3),
        };
        dots.products[mask.component_bits().trailing_zeros() as usize] = Some(dot.value);
        dots.narrowing = dots.narrowing.or(dot.narrowing);
        Some(dots)
    }

    /// Sums the dot products of a register. Its old value and the sums, to be merged.
    pub(crate) fn sum_dots(&mut self, dots: UnsummedDots) -> Merged {
        self.narrowing = dots.narrowing;
        self.clif().sum_dots(dots)
    }
}

impl UnsummedDots {
    fn new(old: VecValue, is_dp3: bool) -> UnsummedDots {
        UnsummedDots { old: Some(old), is_dp3, narrowing: Narrowing::default(), products: [None; 4] }
    }
}

impl ClifBuilder<'_, '_> {
    /// A dot product, summed.
    pub(crate) fn dot(&mut self, p: UnsummedDot) -> VecValue {
        if p.is_dp3 { self.sum3(p.value) } else { self.sum4(p.value) }
    }

    fn sum_dots(&mut self, UnsummedDots { old, is_dp3, narrowing, products }: UnsummedDots) -> Merged {
        let bits = products.iter().enumerate().fold(0, |bits, (l, p)| bits | u8::from(p.is_some()) << l);
        let mut summed = products.into_iter().flatten();
        let first = summed.next().expect("there is a dot product");
        let new = match (summed.next(), is_dp3) {
            (None, _) => self.dot(UnsummedDot { value: first, is_dp3, narrowing }),
            (_, is_dp3) => {
                let sums =
                    if is_dp3 { self.transposed_dp3(products, first) } else { self.transposed_dp4(products, first) };
                VecValue::Wide(self.finished(sums, XYZW))
            }
        };
        Merged { bits, old: old.unwrap_or(new), new }
    }

    /// `(x + y) + (z + w)` of each product. Dead components repeat live ones.
    fn transposed_dp4(&mut self, products: [Option<clif::Value>; 4], any: clif::Value) -> clif::Value {
        let [a, b, c, d] = repeated(products, any);
        let ab = self.pair_sums(a, b);
        let cd = if (a, b) == (c, d) { ab } else { self.pair_sums(c, d) };
        self.pair_sums(ab, cd)
    }

    /// The sums of neighbouring lanes: two of `a`, two of `b`.
    fn pair_sums(&mut self, a: clif::Value, b: clif::Value) -> clif::Value {
        let (even, odd) = (self.shuffle(a, b, [0, 2, 4, 6]), self.shuffle(a, b, [1, 3, 5, 7]));
        self.sum(even, odd)
    }

    /// `(x + y) + z` of each product.
    fn transposed_dp3(&mut self, products: [Option<clif::Value>; 4], any: clif::Value) -> clif::Value {
        let [a, b, c, d] = repeated(products, any);
        let (low_ab, high_ab) = (self.shuffle(a, b, [0, 4, 1, 5]), self.shuffle(a, b, [2, 6, 3, 7]));
        let [x, y, z] = match products[2].xor(products[3]) {
            // x86-64 takes any two lanes of one product.
            Some(last) if !self.aarch64 => [(low_ab, [0, 1, 4, 4]), (low_ab, [2, 3, 5, 5]), (high_ab, [0, 1, 6, 6])]
                .map(|(ab, lanes)| self.shuffle(ab, last, lanes)),
            _ => {
                let (low_cd, high_cd) = match (a, b) == (c, d) {
                    true => (low_ab, high_ab),
                    false => (self.shuffle(c, d, [0, 4, 1, 5]), self.shuffle(c, d, [2, 6, 3, 7])),
                };
                [(low_ab, low_cd, [0, 1, 4, 5]), (low_ab, low_cd, [2, 3, 6, 7]), (high_ab, high_cd, [0, 1, 4, 5])]
                    .map(|(ab, cd, lanes)| self.shuffle(ab, cd, lanes))
            }
        };
        let xy = self.sum(x, y);
        self.sum(xy, z)
    }

    /// A narrowed sum.
    pub(crate) fn sum(&mut self, a: clif::Value, b: clif::Value) -> clif::Value {
        let sum = self.b.ins().fadd(a, b);
        self.result(sum, XYZW, self.narrowing.sums)
    }
}

/// The products, with live ones repeated in dead components, so that shuffles can be shared.
fn repeated(products: [Option<clif::Value>; 4], any: clif::Value) -> [clif::Value; 4] {
    let [even, odd] = [0, 1].map(|c| products[c].or(products[c + 2]).unwrap_or(any));
    [0, 1, 2, 3].map(|c| products[c].unwrap_or(if c % 2 == 0 { even } else { odd }))
}
