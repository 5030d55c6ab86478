//! What is known of a [`Func`] and its values: registers that are read and written, which lanes anybody reads, which may
//! be NaN for the wrong reason, which may well be infinite.
//!
//! Results are indexed by value number. They are upper bounds: a lane that is not live really is read by nobody, a
//! value that is not suspect really does not depend on a product.

use super::{Func, Inst, Lane, Mem, Node, Term, Test, Type, Use, Value};
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

/// Whether an operation subtracts its source `n` if that has a sign, instead of adding the opposite.
pub fn subtracts(op: Opcode, n: usize) -> bool {
    op == Opcode::Add || op == Opcode::Mad && n == 2
}

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

/// Components whose bit is set, x first.
pub fn components(lanes: Lanes) -> impl Iterator<Item = u8> {
    (0..4).filter(move |c| lanes >> c & 1 != 0)
}

/// All that a value of this type has.
pub fn lanes_of(ty: Type) -> Lanes {
    if ty == Type::Vec4 { ALL_LANES } else { 1 }
}

impl Func {
    /// The `v` registers that are read; bit n is `vn`.
    pub fn inputs_read(&self) -> u16 {
        let input = |mask, node: &Node| if let Node::Input(n) = node { mask | 1 << n } else { mask };
        self.nodes.iter().fold(0, input)
    }

    /// The `o` registers that are written, in whichever bank; bit n is `on`.
    pub fn outputs_written(&self) -> u16 {
        let insts = self.blocks.iter().flat_map(|b| &b.insts);
        let output =
            |mask, i: &(_, Inst)| if let Inst::Store(Mem::Out { n, .. }, _) = i.1 { mask | 1 << n } else { mask };
        insts.fold(0, output)
    }

    /// For each value the lanes that something observable depends on.
    pub fn live_lanes(&self) -> Vec<Lanes> {
        let mut roots = Vec::new();
        for (_, inst) in self.blocks.iter().flat_map(|b| &b.insts) {
            if let Inst::Store(mut mem, value) = *inst {
                roots.push((value, lanes_of(mem.ty())));
                mem.map_uses(|v| {
                    roots.push((v, 1));
                    v
                });
            }
        }
        self.live_from(roots)
    }

    /// For each value the lanes that these lanes of these values depend on, or the way that a run takes.
    pub fn live_from(&self, roots: Vec<(Value, Lanes)>) -> Vec<Lanes> {
        let mut live = vec![0; self.nodes.len()];
        let mut queue = roots;
        let feeds = self.feeds();
        for block in &self.blocks {
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

    /// What feeds each parameter.
    pub(super) fn feeds(&self) -> Vec<Vec<Value>> {
        let mut feeds: Vec<Vec<Value>> = vec![Vec::new(); self.nodes.len()];
        for edge in self.blocks.iter().flat_map(|block| block.term.edges()) {
            for (param, arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                feeds[param.0 as usize].push(*arg);
            }
        }
        feeds
    }
}

impl Func {
    /// For each vector whether it may be NaN only because products were computed plainly, with 0 * infinity = NaN. What
    /// swallows NaN is where such a NaN must be caught, so its result counts as right.
    pub fn suspects(&self) -> Vec<bool> {
        self.tainted(|v| multiplies(self.node(v)), swallows_nan)
    }

    /// For each vector whether a division, root, power or logarithm has a part in it: where infinities come from that
    /// are no overflow.
    pub fn may_be_infinite(&self) -> Vec<bool> {
        self.tainted(|v| matches!(self.node(v), Node::Scalar { .. }), |_| false)
    }

    /// For each value whether it may differ between vertices that run on the same uniforms and registers: because of what it
    /// is made from, and, if it is a vector, because of the way a vertex took. Of integers and flags only the former is said.
    pub fn varies(&self) -> Vec<bool> {
        let input = |v: Value| matches!(self.node(v), Node::Input(_));
        let varies = self.tainted(input, |_| false);
        if !self.parts(&varies) {
            return varies;
        }
        // Vectors that are chosen by the way.
        let mut passed: Vec<Option<Value>> = vec![None; self.nodes.len()];
        let mut chosen = vec![false; self.nodes.len()];
        for edge in self.blocks.iter().flat_map(|block| block.term.edges()) {
            for (param, &arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                let other = passed[param.0 as usize].replace(arg).is_some_and(|before| before != arg);
                chosen[param.0 as usize] |= other && self.node(*param).ty() == Type::Vec4;
            }
        }
        self.tainted(|v| input(v) || chosen[v.0 as usize], |_| false)
    }

    /// Whether vertices may go different ways, given the values that they may differ in.
    pub(super) fn parts(&self, varies: &[bool]) -> bool {
        let mut parts = false;
        for block in &self.blocks {
            if let Term::Branch { mut test, .. } = block.term.clone() {
                test.map_uses(|v| {
                    parts |= varies[v.0 as usize];
                    v
                });
            }
        }
        parts
    }

    /// The values that `source` holds of, and those made from them but by nodes that `stops` holds of.
    fn tainted(&self, source: impl Fn(Value) -> bool, stops: impl Fn(&Node) -> bool) -> Vec<bool> {
        let mut tainted: Vec<bool> = (0..self.nodes.len()).map(|id| source(Value(id as u32))).collect();
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
                    let mut is = false;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Block, Edge, Form};
    use crate::isa::flow::Exit;
    use crate::isa::{CmpOp, Cond, CondOp, Swizzle, WriteMask};
    use crate::program::Entry;

    fn alu(op: Opcode, value: Value) -> Node {
        Node::Alu { op, src: [Use::plain(value); 3] }
    }

    fn lane(value: Value, component: u8) -> Lane {
        Lane { value, component, negate: false }
    }

    #[test]
    fn who_multiplies_and_who_hides_a_nan() {
        use Opcode::{Add, Dp3, Dp4, Dph, Dst, Flr, Litp, Mad, Max, Min, Mov, Mul, Sge, Slt};
        for op in [Add, Dp3, Dp4, Dph, Dst, Flr, Litp, Mad, Max, Min, Mov, Mul, Sge, Slt] {
            let node = alu(op, Value(0));
            assert_eq!(multiplies(&node), [Dp3, Dp4, Dph, Dst, Mad, Mul].contains(&op), "{op:?}");
            assert_eq!(swallows_nan(&node), [Litp, Max, Min, Sge, Slt].contains(&op), "{op:?}");
        }
        let x = lane(Value(0), 0);
        assert!(swallows_nan(&Node::Compare { op: CmpOp::Ne, a: x, b: x }) && swallows_nan(&Node::ToAddress(x)));
        let scalar = Node::Scalar { op: Opcode::Rcp, src: x };
        assert!(!swallows_nan(&scalar) && !multiplies(&scalar) && !multiplies(&Node::ToAddress(x)));
    }

    #[test]
    fn lanes_that_a_lane_depends_on() {
        use Opcode::{Add, Dp3, Dp4, Dph, Dst, Litp};
        for live in 1..=ALL_LANES {
            assert_eq!((lanes_read(Add, 0, live), lanes_read(Add, 1, live)), (live, live));
            assert_eq!((lanes_read(Dp3, 0, live), lanes_read(Dp3, 1, live)), (7, 7));
            assert_eq!((lanes_read(Dp4, 0, live), lanes_read(Dp4, 1, live)), (15, 15));
            assert_eq!((lanes_read(Dph, 0, live), lanes_read(Dph, 1, live)), (7, 15));
            assert_eq!((lanes_read(Dst, 0, live), lanes_read(Dst, 1, live)), (live & 6, live & 10));
            assert_eq!(lanes_read(Litp, 0, live), live & 11);
        }
        for op in [Add, Dp3, Dp4, Dph, Dst, Litp] {
            assert_eq!(lanes_read(op, 0, 0), 0, "{op:?}");
        }
        let wzzx = Use { value: Value(0), swizzle: Swizzle::from_lanes([3, 2, 2, 0]), negate: true };
        let got = [0b0000, 0b0001, 0b0010, 0b0110, 0b1000, 0b1111].map(|lanes| through(&wzzx, lanes));
        assert_eq!(got, [0b0000, 0b1000, 0b0100, 0b0100, 0b0001, 0b1101]);
    }

    fn reads(node: Node, live: Lanes) -> Vec<(u32, Lanes)> {
        let mut out = Vec::new();
        for_each_read(&node, live, |v, lanes| out.push((v.0, lanes)));
        out
    }

    #[test]
    fn reads_of_each_kind_of_node() {
        let (a, b) = (Value(1), Value(2));
        let src = [Use { swizzle: Swizzle::from_lanes([1, 1, 3, 3]), ..Use::plain(a) }, Use::plain(b), Use::plain(a)];
        assert_eq!(reads(Node::Alu { op: Opcode::Max, src }, 0b0101), [(1, 0b1010), (2, 0b0101)]);
        assert_eq!(reads(Node::Alu { op: Opcode::Mad, src }, 0b1000), [(1, 0b1000), (2, 0b1000), (1, 0b1000)]);
        assert_eq!(reads(Node::Scalar { op: Opcode::Rcp, src: lane(a, 2) }, 0b0001), [(1, 0b0100)]);
        assert_eq!(reads(Node::ToAddress(lane(b, 3)), 1), [(2, 0b1000)]);
        assert_eq!(reads(Node::Compare { op: CmpOp::Lt, a: lane(a, 1), b: lane(b, 2) }, 1), [(1, 0b0010), (2, 0b0100)]);
        let merge = Node::Merge { mask: WriteMask::new(0b1100), old: a, new: b };
        let mask = WriteMask::new(0b1100).lane_bits();
        assert_eq!(reads(merge, 0b0111), [(1, 0b0111 & !mask), (2, 0b0111 & mask)]);
        assert_eq!((reads(Node::Add(a, b), 1), reads(Node::Offset(b), 1)), (vec![(1, 1), (2, 1)], vec![(2, 1)]));
        assert_eq!(reads(Node::Relative { base: 4, offset: b }, 0b0010), [(2, 1)]);
    }

    /// 0 -> 1 -> 1 or 2: a product that comes into a loop's parameter, is hidden in the loop, and is stored behind it.
    #[test]
    fn facts_flow_through_parameters() {
        let nodes = vec![
            Node::Input(0),                                                              // 0
            Node::Load(Mem::Bank),                                                       // 1
            alu(Opcode::Mul, Value(0)),                                                  // 2
            alu(Opcode::Add, Value(0)),                                                  // 3
            Node::Param(Type::Vec4),                                                     // 4: 2, then 4 itself
            Node::Param(Type::Vec4),                                                     // 5: 3, then 6
            alu(Opcode::Max, Value(4)),                                                  // 6: hides
            Node::Param(Type::Vec4),                                                     // 7: 2, nobody reads it
            Node::Compare { op: CmpOp::Lt, a: lane(Value(5), 3), b: lane(Value(0), 1) }, // 8
            Node::Compare { op: CmpOp::Gt, a: lane(Value(5), 0), b: lane(Value(0), 1) }, // 9: not asked for
            alu(Opcode::Flr, Value(4)),                                                  // 10
            Node::Merge { mask: WriteMask::new(0b1000), old: Value(10), new: Value(6) }, // 11
            Node::Scalar { op: Opcode::Rcp, src: lane(Value(11), 1) },                   // 12
        ];
        let insts = |list: &[Inst]| list.iter().map(|&i| (0, i)).collect::<Vec<_>>();
        let defs = |list: &[u32]| insts(&list.iter().map(|&v| Inst::Def(Value(v))).collect::<Vec<_>>());
        let edge = |to, args: &[u32]| Edge { to, args: args.iter().map(|&v| Value(v)).collect() };
        let test = Test::Flags { cond: Cond { op: CondOp::X, ref_x: true, ref_y: true }, x: Value(8), y: Value(9) };
        let blocks = vec![
            Block { pc: 0, params: vec![], insts: defs(&[1, 2, 3]), term: Term::Goto(edge(1, &[2, 3, 2])) },
            Block {
                pc: 1,
                params: vec![Value(4), Value(5), Value(7)],
                insts: defs(&[6, 8, 9]),
                term: Term::Branch { test, yes: edge(1, &[4, 6, 2]), no: edge(2, &[]) },
            },
            Block {
                pc: 2,
                params: vec![],
                insts: [
                    defs(&[10, 11, 12]),
                    insts(&[
                        Inst::Store(Mem::Out { n: 0, bank: Value(1) }, Value(12)),
                        Inst::Store(Mem::Flag(0), Value(8)),
                    ]),
                ]
                .concat(),
                term: Term::Exit(Exit::End),
            },
        ];
        let f = Func { entry: Entry::vertex(0), form: Form::Ssa, nodes, blocks };
        f.verify().expect("well made");
        let new = WriteMask::new(0b1000).lane_bits();
        assert_eq!(new, 0b0001, "the mask's high bit is x");
        // The store reads y of 11, which is old: 10 <- 4 <- 2 <- 0. The test reads w of 5: 3 and, from the loop, 6 <- 4.
        let wanted = [
            (0, 0b1010),
            (1, 1),
            (2, 0b1010),
            (3, 0b1000),
            (4, 0b1010),
            (5, 0b1000),
            (6, 0b1000),
            (7, 0),
            (8, 1),
            (9, 0),
            (10, 0b0010),
            (11, 0b0010),
            (12, 0b1111),
        ];
        assert_eq!(f.live_lanes(), wanted.map(|(_, lanes)| lanes));
        let suspects: Vec<usize> = f.suspects().iter().enumerate().filter(|(_, s)| **s).map(|(n, _)| n).collect();
        assert_eq!(suspects, [2, 4, 7, 10, 11, 12]);
    }
}
