//! Functions made by hand: what simplification and verification do with them.

use super::*;
use crate::isa::numeric::{Precision, same};

/// A function of one block that stores `values` in `r0, r1, ...`.
fn func(make: impl FnOnce(&mut Func) -> Vec<Value>) -> Func {
    let mut f = Func { entry: Entry::vertex(0), form: Form::Ssa, nodes: Vec::new(), blocks: Vec::new() };
    let values = make(&mut f);
    let defs = (0..f.nodes.len() as u32).map(Value).filter(|v| !f.node(*v).is_leaf()).map(Inst::Def);
    let stores = values.iter().enumerate().map(|(n, v)| Inst::Store(Mem::Temp(n as u8), *v));
    let insts = defs.chain(stores).map(|i| (0, i)).collect();
    f.blocks = vec![Block { pc: 0, params: Vec::new(), insts, term: Term::Exit(Exit::End) }];
    f
}

fn bits(v: [f32; 4]) -> Node {
    Node::Const(v.map(f32::to_bits))
}

#[test]
fn constants_are_folded_through_the_meaning() {
    let inf = f32::INFINITY;
    let (a, b) = ([2.0, 0.0, -1.0, 1.0], [3.0, inf, 0.5, 1.0]);
    let mut f = func(|f| {
        let (a, b) = (f.value(bits(a)), f.value(bits(b)));
        let swapped = Use { value: b, swizzle: Swizzle::from_lanes([3, 2, 1, 0]), negate: true };
        let product = f.value(Node::Alu { op: Opcode::Mul, src: [Use::plain(a), Use::plain(b), Use::plain(a)] });
        let sum = f.value(Node::Alu { op: Opcode::Add, src: [Use::plain(product), swapped, Use::plain(a)] });
        let power = f.value(Node::Scalar { op: Opcode::Ex2, src: Use::plain(b).lane(0) });
        let merged = f.value(Node::Merge { mask: WriteMask::new(0b1000), old: product, new: power });
        vec![product, sum, merged]
    });
    f.verify().expect("well made");
    f.simplify(Precision::F32);
    f.verify().expect("still well made");
    let stored = |n: usize| match f.blocks[0].insts[n] {
        (_, Inst::Store(_, v)) => match f.node(v) {
            Node::Const(bits) => bits.map(f32::from_bits),
            other => panic!("{other:?} is not folded"),
        },
        other => panic!("{other:?} is left"),
    };
    assert_eq!(f.blocks[0].insts.len(), 3, "only stores are left: {f}");
    assert_eq!(stored(0), [6.0, 0.0, -0.5, 1.0]);
    assert!(stored(1).iter().zip([5.0, -0.5, -inf, -2.0]).all(|(a, b)| same(*a, b)), "{:?}", stored(1));
    assert_eq!(stored(2), [8.0, 0.0, -0.5, 1.0]);
}

#[test]
fn what_nobody_reads_goes() {
    let mut f = func(|f| {
        let old = f.value(Node::Load(Mem::Temp(5)));
        let new = f.value(Node::Uniform(1));
        let dead = f.value(Node::Alu { op: Opcode::Flr, src: [Use::plain(old); 3] });
        let all = f.value(Node::Merge { mask: WriteMask::ALL, old: dead, new });
        vec![all]
    });
    f.simplify(Precision::F32);
    f.verify().expect("well made");
    assert_eq!(f.blocks[0].insts.len(), 1, "{f}");
    assert!(f.to_string().contains("store r0, c1"), "{f}");
}

#[test]
fn broken_rules_are_named() {
    let rule = |f: &Func| f.verify().expect_err("broken").rule;
    let good = func(|f| vec![f.value(Node::Load(Mem::Temp(1)))]);
    good.verify().expect("good");

    let mut f = good.clone();
    f.blocks[0].params.push(Value(0));
    assert_eq!(rule(&f), 1);
    let mut f = good.clone();
    f.blocks[0].term = Term::Goto(Edge { to: 7, args: Vec::new() });
    assert_eq!(rule(&f), 2);
    let mut f = good.clone();
    f.blocks[0].insts.reverse();
    assert_eq!(rule(&f), 3, "used before it is defined");
    let mut f = good.clone();
    let again = f.blocks[0].insts[0];
    f.blocks[0].insts.push(again);
    assert_eq!(rule(&f), 3, "defined twice");
    let mut f = good.clone();
    f.blocks[0].insts.push((0, Inst::Store(Mem::LoopCounter, Value(0))));
    assert_eq!(rule(&f), 4, "a vector in an integer register");
    let mut f = good.clone();
    let to = f.blocks[0].clone();
    f.blocks[0] = Block { insts: Vec::new(), term: Term::Goto(Edge { to: 1, args: Vec::new() }), ..to.clone() };
    f.blocks.push(to);
    assert_eq!(rule(&f), 5, "a load behind block 0");
    let f = func(|f| {
        let x = f.value(Node::Uniform(0));
        vec![f.value(Node::Alu { op: Opcode::Madi, src: [Use::plain(x); 3] })]
    });
    assert_eq!(rule(&f), 6);
}
