//! Dot products that go to different components of one register -> one sum of transposed products.
//!
//! A product of a matrix and a vector is four dot products, each written to one component. Summed one by one, each
//! costs two additions of which one lane counts; transposed, three additions serve all four, and in float24 three
//! narrowings. So the products of a dot product wait until the last merge that takes one: [`UnsummedRow`]. The order of
//! summation is the same, lane by lane.
//!
//! Invariant: what waits is used once, by a merge in its own block, so that it is summed before anybody else could want
//! it. It must not know how products and sums are computed.

use super::{VertexLowering, VertexValue};
use crate::ir::analysis::XYZW;
use crate::ir::{Func, Inst, Node, Value};
use crate::isa::numeric::Precision;
use crate::isa::{VectorOp, WriteMask};
use crate::jit::emit::ClifBuilder;
use crate::jit::emit::vector::VecValue;
use cranelift_codegen::ir as clif;
use cranelift_codegen::ir::InstBuilder;

/// The products of one dot product, not summed yet.
#[derive(Clone, Copy)]
pub(crate) struct UnsummedDot {
    pub(crate) value: clif::Value,
    /// `DP3`: the fourth product does not count.
    pub(crate) three: bool,
}

/// A register's old value, and the products whose sums will stand in some of its components.
#[derive(Clone, Copy)]
pub(crate) struct UnsummedRow {
    /// `None` if no component of it is read.
    old: Option<VecValue>,
    three: bool,
    lanes: [Option<clif::Value>; 4],
}

fn is_dot(node: &Node) -> bool {
    matches!(node, Node::Alu { op: VectorOp::Dot(_), .. })
}

fn one_lane(mask: WriteMask) -> bool {
    mask.lane_bits().is_power_of_two()
}

/// For each value whether it can wait: a dot product, or a merge of one, whose only use is by the right merge of its
/// block.
pub(crate) fn waiting(func: &Func) -> Vec<bool> {
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
        // Flags and counters in tests are no vectors.
        block.term.edges().flat_map(|e| &e.args).for_each(|&v| count(v));
    }
    let mut can_wait = vec![false; func.nodes.len()];
    let mut here = vec![usize::MAX; func.nodes.len()];
    for (id, block) in func.blocks.iter().enumerate() {
        for (_, inst) in &block.insts {
            let Inst::Def(v) = inst else { continue };
            here[v.0 as usize] = id;
            if let Node::Merge { mask, old, new } = *func.node(*v)
                && one_lane(mask)
            {
                let only = |v: Value| uses[v.0 as usize] == 1 && here[v.0 as usize] == id;
                if is_dot(func.node(new)) && only(new) {
                    can_wait[new.0 as usize] = true;
                    let chained = match *func.node(old) {
                        Node::Merge { mask, new, .. } => one_lane(mask) && can_wait[new.0 as usize],
                        ref node => is_dot(node),
                    };
                    can_wait[old.0 as usize] = only(old) && chained;
                }
            }
        }
    }
    can_wait
}

impl VertexLowering<'_, '_> {
    /// What a merge makes of a dot product that waits; `None` if there is none.
    pub(crate) fn gather(&mut self, mask: WriteMask, old: Value, new: Value) -> Option<UnsummedRow> {
        let Some(VertexValue::Dot(products)) = self.low(new) else { return None };
        let mut gather = match self.low(old) {
            Some(VertexValue::DotRow(gather)) if gather.three == products.three => gather,
            Some(VertexValue::DotRow(other)) => UnsummedRow::new(self.gathered(other), products.three),
            // The first of a row was no merge any more, since all it kept is overwritten later.
            Some(VertexValue::Dot(first)) if first.three == products.three => {
                let live = self.live_components(old);
                let lanes = [0, 1, 2, 3].map(|l| (live >> l & 1 != 0).then_some(first.value));
                UnsummedRow { old: None, three: first.three, lanes }
            }
            Some(VertexValue::Dot(other)) => UnsummedRow::new(self.clif().dot(other), products.three),
            _ => UnsummedRow::new(self.vector(old), products.three),
        };
        gather.lanes[mask.lane_bits().trailing_zeros() as usize] = Some(products.value);
        Some(gather)
    }

    /// Sums everything that waits.
    pub(crate) fn gathered(&mut self, gather: UnsummedRow) -> VecValue {
        self.clif().gathered(gather)
    }
}

impl UnsummedRow {
    fn new(old: VecValue, three: bool) -> UnsummedRow {
        UnsummedRow { old: Some(old), three, lanes: [None; 4] }
    }
}

impl ClifBuilder<'_, '_> {
    /// The sum of products, in all lanes.
    pub(crate) fn dot(&mut self, p: UnsummedDot) -> VecValue {
        if p.three { self.sum3(p.value) } else { self.sum4(p.value) }
    }

    fn gathered(&mut self, UnsummedRow { old, three, lanes }: UnsummedRow) -> VecValue {
        let bits = lanes.iter().enumerate().fold(0, |bits, (l, p)| bits | u8::from(p.is_some()) << l);
        // Two sums one by one are as fast as two transposed, unless they have to be narrowed.
        let fewest = if self.precision == Precision::F32 { 3 } else { 2 };
        if bits.count_ones() < fewest {
            let sequential_reason = lanes.iter().enumerate().fold(old, |old, (lane, p)| {
                let Some(value) = *p else { return old };
                let sum = self.dot(UnsummedDot { value, three });
                Some(old.map_or(sum, |old| self.insert(lane as u8, old, sum)))
            });
            return sequential_reason.expect("there is an old value or a dot product");
        }
        let any = lanes.into_iter().flatten().next().expect("there are two at least");
        // Components that nobody asked for repeat what is there already.
        let (even, odd) = (lanes[0].or(lanes[2]).unwrap_or(any), lanes[1].or(lanes[3]).unwrap_or(any));
        let [a, b, c, d] = [0, 1, 2, 3].map(|l| lanes[l].unwrap_or(if l % 2 == 0 { even } else { odd }));
        let (low_ab, high_ab) = (self.shuffle(a, b, [0, 4, 1, 5]), self.shuffle(a, b, [2, 6, 3, 7]));
        let (low_cd, high_cd) = match (a, b) == (c, d) {
            true => (low_ab, high_ab),
            false => (self.shuffle(c, d, [0, 4, 1, 5]), self.shuffle(c, d, [2, 6, 3, 7])),
        };
        let (x, y) = (self.shuffle(low_ab, low_cd, [0, 1, 4, 5]), self.shuffle(low_ab, low_cd, [2, 3, 6, 7]));
        let z = self.shuffle(high_ab, high_cd, [0, 1, 4, 5]);
        let xy = self.sum(x, y);
        let sum = if three {
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
