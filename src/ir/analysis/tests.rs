//! Analyses of small functions built by hand.

use super::*;
use crate::ir::{Block, BranchTest, Edge, Form, Terminator};
use crate::isa::flow::Exit;
use crate::isa::table::ROWS;
use crate::isa::{AluOp, Cond, CondOp, Opcode, PointwiseOp, Relation, ScalarOp, Swizzle, WriteMask};
use crate::program::Entry;

fn alu(op: impl Into<VectorOp>, value: Value) -> Node {
    Node::Alu { op: op.into(), src: [Use::plain(value); 3] }
}

fn scalar(value: Value, component: u8) -> ScalarUse {
    ScalarUse { value, component, negate: false }
}

#[test]
fn operations_that_multiply_and_operations_that_swallow_nan() {
    use Opcode::{Dp3, Dp4, Dph, Dphi, Dst, Dsti, Litp, Mad, Madi, Max, Min, Mul, Sge, Sgei, Slt, Slti};
    for row in &ROWS {
        let (op, Some(AluOp::Vector(vector))) = (row.opcode, row.opcode.alu()) else { continue };
        let node = alu(vector, Value(0));
        assert_eq!(multiplies(&node), [Dp3, Dp4, Dph, Dphi, Dst, Dsti, Mad, Madi, Mul].contains(&op), "{op:?}");
        assert_eq!(swallows_nan(&node), [Litp, Max, Min, Sge, Sgei, Slt, Slti].contains(&op), "{op:?}");
    }
    let x = scalar(Value(0), 0);
    assert!(swallows_nan(&Node::Compare { op: Relation::Ne, a: x, b: x }) && swallows_nan(&Node::ToAddress(x)));
    let scalar = Node::Scalar { op: ScalarOp::Rcp, src: x };
    assert!(!swallows_nan(&scalar) && !multiplies(&scalar) && !multiplies(&Node::ToAddress(x)));
}

#[test]
fn components_that_a_component_depends_on() {
    use VectorOp::{Dst, Litp};
    let add = VectorOp::from(PointwiseOp::Add);
    let [dp3, dp4, dph] = [DotOp::Dp3, DotOp::Dp4, DotOp::Dph].map(VectorOp::from);
    for live in 1..=XYZW {
        assert_eq!((operand_components(add, 0, live), operand_components(add, 1, live)), (live, live));
        assert_eq!((operand_components(dp3, 0, live), operand_components(dp3, 1, live)), (7, 7));
        assert_eq!((operand_components(dp4, 0, live), operand_components(dp4, 1, live)), (15, 15));
        assert_eq!((operand_components(dph, 0, live), operand_components(dph, 1, live)), (7, 15));
        assert_eq!((operand_components(Dst, 0, live), operand_components(Dst, 1, live)), (live & 6, live & 10));
        assert_eq!(operand_components(Litp, 0, live), live & 11);
    }
    for op in [add, dp3, dp4, dph, Dst, Litp] {
        assert_eq!(operand_components(op, 0, 0), 0, "{op:?}");
    }
    let wzzx = Use { value: Value(0), swizzle: Swizzle::from_components([3, 2, 2, 0]), negate: true };
    let got = [0b0000, 0b0001, 0b0010, 0b0110, 0b1000, 0b1111].map(|of| source_components(&wzzx, of));
    assert_eq!(got, [0b0000, 0b1000, 0b0100, 0b0100, 0b0001, 0b1101]);
}

fn reads(node: Node, live: Components) -> Vec<(u32, Components)> {
    let mut out = Vec::new();
    for_each_read(&node, live, |v, components| out.push((v.0, components)));
    out
}

#[test]
fn reads_of_each_kind_of_node() {
    let (a, b) = (Value(1), Value(2));
    let src = [Use { swizzle: Swizzle::from_components([1, 1, 3, 3]), ..Use::plain(a) }, Use::plain(b), Use::plain(a)];
    assert_eq!(reads(Node::Alu { op: PointwiseOp::Max.into(), src }, 0b0101), [(1, 0b1010), (2, 0b0101)]);
    assert_eq!(reads(Node::Alu { op: PointwiseOp::Mad.into(), src }, 0b1000), [(1, 0b1000), (2, 0b1000), (1, 0b1000)]);
    assert_eq!(reads(Node::Scalar { op: ScalarOp::Rcp, src: scalar(a, 2) }, 0b0001), [(1, 0b0100)]);
    assert_eq!(reads(Node::ToAddress(scalar(b, 3)), 1), [(2, 0b1000)]);
    assert_eq!(
        reads(Node::Compare { op: Relation::Lt, a: scalar(a, 1), b: scalar(b, 2) }, 1),
        [(1, 0b0010), (2, 0b0100)]
    );
    let merge = Node::Merge { mask: WriteMask::new(0b1100), old: a, new: b };
    let mask = WriteMask::new(0b1100).component_bits();
    assert_eq!(reads(merge, 0b0111), [(1, 0b0111 & !mask), (2, 0b0111 & mask)]);
    assert_eq!((reads(Node::Add(a, b), 1), reads(Node::Offset(b), 1)), (vec![(1, 1), (2, 1)], vec![(2, 1)]));
    assert_eq!(reads(Node::Relative { base: 4, offset: b }, 0b0010), [(2, 1)]);
}

/// 0 -> 1 -> 1 or 2: a product enters a loop's parameter, MAX swallows its NaN in the loop, and it
/// is stored after the loop.
#[test]
fn facts_flow_through_parameters() {
    let nodes = vec![
        Node::Input(0),                                                                     // 0
        Node::Load(Mem::Bank),                                                              // 1
        alu(PointwiseOp::Mul, Value(0)),                                                    // 2
        alu(PointwiseOp::Add, Value(0)),                                                    // 3
        Node::Param(Type::Vec4),                                                            // 4: 2, then 4 itself
        Node::Param(Type::Vec4),                                                            // 5: 3, then 6
        alu(PointwiseOp::Max, Value(4)),                                                    // 6: swallows NaN
        Node::Param(Type::Vec4),                                                            // 7: 2, dead
        Node::Compare { op: Relation::Lt, a: scalar(Value(5), 3), b: scalar(Value(0), 1) }, // 8
        Node::Compare { op: Relation::Gt, a: scalar(Value(5), 0), b: scalar(Value(0), 1) }, // 9: dead
        alu(PointwiseOp::Flr, Value(4)),                                                    // 10
        Node::Merge { mask: WriteMask::new(0b1000), old: Value(10), new: Value(6) },        // 11
        Node::Scalar { op: ScalarOp::Rcp, src: scalar(Value(11), 1) },                      // 12
    ];
    let insts = |list: &[Inst]| list.iter().map(|&i| (0, i)).collect::<Vec<_>>();
    let defs = |list: &[u32]| insts(&list.iter().map(|&v| Inst::Def(Value(v))).collect::<Vec<_>>());
    let edge = |to, args: &[u32]| Edge { to, args: args.iter().map(|&v| Value(v)).collect() };
    let test = BranchTest::Flags { cond: Cond { op: CondOp::X, ref_x: true, ref_y: true }, x: Value(8), y: Value(9) };
    let blocks = vec![
        Block { pc: 0, params: vec![], insts: defs(&[1, 2, 3]), term: Terminator::Goto(edge(1, &[2, 3, 2])) },
        Block {
            pc: 1,
            params: vec![Value(4), Value(5), Value(7)],
            insts: defs(&[6, 8, 9]),
            term: Terminator::Branch { test, yes: edge(1, &[4, 6, 2]), no: edge(2, &[]) },
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
            term: Terminator::Exit(Exit::End),
        },
    ];
    let f = Func { entry: Entry::vertex(0), form: Form::Ssa, nodes, blocks };
    f.verify().expect("well made");
    let new = WriteMask::new(0b1000).component_bits();
    assert_eq!(new, 0b0001, "the mask's high bit is x");
    // The store reads y of 11, which is old: 10 <- 4 <- 2 <- 0. The test reads w of 5: 3 and, from
    // the loop, 6 <- 4.
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
    assert_eq!(f.live_components(), wanted.map(|(_, live)| live));
    let nan_tainted: Vec<usize> = f.nan_tainted().iter().enumerate().filter(|(_, s)| **s).map(|(n, _)| n).collect();
    assert_eq!(nan_tainted, [2, 4, 7, 10, 11, 12]);
}
