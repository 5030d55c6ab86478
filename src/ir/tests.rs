//! Simplification and verification of functions built by hand.

use super::*;
use crate::isa::numeric::{Precision, same};
use crate::isa::{CondOp, DotOp, PointwiseOp};

/// A function of one block that stores `values` in `r0, r1, ...`.
fn func(make: impl FnOnce(&mut Func) -> Vec<Value>) -> Func {
    let mut f = Func { entry: Entry::vertex(0), form: Form::Ssa, nodes: Vec::new(), blocks: Vec::new() };
    let values = make(&mut f);
    let defs = (0..f.nodes.len() as u32).map(Value).filter(|v| !f.node(*v).is_leaf()).map(Inst::Def);
    let stores = values.iter().enumerate().map(|(n, v)| Inst::Store(Mem::Temp(n as u8), *v));
    let insts = defs.chain(stores).map(|i| (0, i)).collect();
    f.blocks = vec![Block { pc: 0, params: Vec::new(), insts, term: Terminator::Exit(Exit::End) }];
    f
}

fn bits(v: [f32; 4]) -> Node {
    Node::Const(v.map(f32::to_bits))
}

#[test]
fn constants_are_folded_through_numeric() {
    let inf = f32::INFINITY;
    let (a, b) = ([2.0, 0.0, -1.0, 1.0], [3.0, inf, 0.5, 1.0]);
    let mut f = func(|f| {
        let (a, b) = (f.value(bits(a)), f.value(bits(b)));
        let swapped = Use { value: b, swizzle: Swizzle::from_components([3, 2, 1, 0]), negate: true };
        let product =
            f.value(Node::Alu { op: PointwiseOp::Mul.into(), src: [Use::plain(a), Use::plain(b), Use::plain(a)] });
        let sum =
            f.value(Node::Alu { op: PointwiseOp::Add.into(), src: [Use::plain(product), swapped, Use::plain(a)] });
        let power = f.value(Node::Scalar { op: ScalarOp::Ex2, src: Use::plain(b).component(0) });
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
fn dead_values_are_removed() {
    let mut f = func(|f| {
        let old = f.value(Node::Load(Mem::Temp(5)));
        let new = f.value(Node::Uniform(1));
        let dead = f.value(Node::Alu { op: PointwiseOp::Flr.into(), src: [Use::plain(old); 3] });
        let all = f.value(Node::Merge { mask: WriteMask::ALL, old: dead, new });
        vec![all]
    });
    f.simplify(Precision::F32);
    f.verify().expect("well made");
    assert_eq!(f.blocks[0].insts.len(), 1, "{f}");
    assert!(f.to_string().contains("store r0, c1"), "{f}");
    // What is left is numbered anew.
    assert_eq!(f.nodes, [Node::Uniform(1)], "{f}");
}

#[test]
fn a_condition_of_one_flag_names_no_removed_value() {
    for op in [CondOp::X, CondOp::Y] {
        let mut f = func(|f| vec![f.value(Node::Load(Mem::Flag(0))), f.value(Node::Load(Mem::Flag(1)))]);
        f.blocks[0].insts.retain(|(_, inst)| matches!(inst, Inst::Def(_)));
        let (x, y) = if op == CondOp::X { (Value(0), Value(1)) } else { (Value(1), Value(0)) };
        let test = BranchTest::Flags { cond: Cond { op, ref_x: true, ref_y: true }, x, y };
        let edge = |to| Edge { to, args: Vec::new() };
        f.blocks[0].term = Terminator::Branch { test, yes: edge(1), no: edge(2) };
        for exit in [Exit::PastEnd, Exit::Fuel] {
            f.blocks.push(Block { pc: 0, params: Vec::new(), insts: Vec::new(), term: Terminator::Exit(exit) });
        }
        f.simplify(Precision::F32);
        f.verify().expect("well made");
        assert_eq!(f.nodes, [Node::Load(Mem::Flag(0))], "{f}");
        let Terminator::Branch { test: BranchTest::Flags { x, y, .. }, .. } = f.blocks[0].term else {
            panic!("{f}");
        };
        assert_eq!((x, y), (Value(0), Value(0)), "{f}");
    }
}

#[test]
fn verify_names_the_broken_rule() {
    let rule = |f: &Func| f.verify().expect_err("broken").rule;
    let good = func(|f| vec![f.value(Node::Load(Mem::Temp(1)))]);
    good.verify().expect("good");

    let mut f = good.clone();
    f.blocks[0].params.push(Value(0));
    assert_eq!(rule(&f), 1);
    let mut f = good.clone();
    f.blocks[0].term = Terminator::Goto(Edge { to: 7, args: Vec::new() });
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
    f.blocks[0] = Block { insts: Vec::new(), term: Terminator::Goto(Edge { to: 1, args: Vec::new() }), ..to.clone() };
    f.blocks.push(to);
    assert_eq!(rule(&f), 5, "a load after block 0");
}

/// A function of one block with `stores`.
fn storing(make: impl FnOnce(&mut Func) -> Vec<(Mem, Value)>) -> Func {
    let mut stores = Vec::new();
    let mut f = func(|f| {
        stores = make(f);
        Vec::new()
    });
    f.blocks[0].insts.extend(stores.into_iter().map(|(mem, v)| (0, Inst::Store(mem, v))));
    f.verify().expect("well made");
    f
}

/// The values that block `b` stores.
fn stored(f: &Func, b: usize) -> Vec<Node> {
    let stores = f.blocks[b].insts.iter().filter_map(|(_, i)| if let Inst::Store(_, v) = i { Some(v) } else { None });
    stores.map(|v| *f.node(*v)).collect()
}

#[test]
fn every_vector_operation_on_constants_is_a_constant() {
    use PointwiseOp::{Add, Flr, Mad, Max, Min, Mov, Mul, Sge, Slt};
    let wanted: [(VectorOp, [f32; 4]); 14] = [
        (Add.into(), [3.5, -1.5, 2.0, 12.0]),
        (Mul.into(), [3.0, -1.0, -3.0, 32.0]),
        (Mad.into(), [13.0, 19.0, 27.0, 72.0]),
        (Max.into(), [2.0, 0.5, 3.0, 8.0]),
        (Min.into(), [1.5, -2.0, -1.0, 4.0]),
        (Sge.into(), [0.0, 0.0, 1.0, 0.0]),
        (Slt.into(), [1.0, 1.0, 0.0, 1.0]),
        (Flr.into(), [1.0, -2.0, 3.0, 4.0]),
        (Mov.into(), [1.5, -2.0, 3.0, 4.0]),
        (DotOp::Dp3.into(), [-1.0; 4]),
        (DotOp::Dp4.into(), [31.0; 4]),
        (DotOp::Dph.into(), [7.0; 4]),
        (VectorOp::Dst, [1.0, -1.0, 3.0, 8.0]),
        (VectorOp::Litp, [1.5, -2.0, 0.0, 4.0]),
    ];
    for precision in Precision::ALL {
        for (op, want) in wanted {
            let mut f = func(|f| {
                let a = f.value(bits([1.5, -2.0, 3.0, 4.0]));
                let b = f.value(bits([2.0, 0.5, -1.0, 8.0]));
                let c = f.value(bits([10.0, 20.0, 30.0, 40.0]));
                vec![f.value(Node::Alu { op, src: [Use::plain(a), Use::plain(b), Use::plain(c)] })]
            });
            f.simplify(precision);
            f.verify().expect("well made");
            assert_eq!(stored(&f, 0), [bits(want)], "{op:?} in {precision}");
        }
        for (op, component, negate, want) in [
            (ScalarOp::Rcp, 3, false, 0.25),
            (ScalarOp::Rsq, 3, false, 0.5),
            (ScalarOp::Ex2, 2, true, 0.125),
            (ScalarOp::Lg2, 1, true, 1.0),
        ] {
            let mut f = func(|f| {
                let value = f.value(bits([1.5, -2.0, 3.0, 4.0]));
                vec![f.value(Node::Scalar { op, src: ScalarUse { value, component, negate } })]
            });
            f.simplify(precision);
            assert_eq!(stored(&f, 0), [bits([want; 4])], "{op:?} in {precision}");
        }
    }
    // One source that is not constant prevents folding.
    let mut f = func(|f| {
        let (a, b) = (f.value(bits([1.0; 4])), f.value(Node::Uniform(0)));
        vec![f.value(Node::Alu { op: Add.into(), src: [Use::plain(a), Use::plain(b), Use::plain(a)] })]
    });
    f.simplify(Precision::F32);
    assert!(matches!(stored(&f, 0)[..], [Node::Alu { op: VectorOp::Pointwise(Add), .. }]), "{f}");
}

#[test]
fn integers_and_flags_of_constants_are_constants() {
    let mut f = storing(|f| {
        let vector = f.value(bits([1.5, -2.5, 300.0, 4.0]));
        let scalar = |component, negate| ScalarUse { value: vector, component, negate };
        let address = f.value(Node::ToAddress(scalar(1, false)));
        let negated = f.value(Node::ToAddress(scalar(2, true)));
        let (most, two, loaded) =
            (f.value(Node::Int(i32::MAX)), f.value(Node::Int(2)), f.value(Node::Load(Mem::Address(1))));
        let wrapped = f.value(Node::Add(most, two));
        let open = f.value(Node::Add(loaded, two));
        let less = f.value(Node::Compare { op: crate::isa::Relation::Lt, a: scalar(0, false), b: scalar(3, false) });
        let more = f.value(Node::Compare { op: crate::isa::Relation::Lt, a: scalar(0, false), b: scalar(3, true) });
        let uniforms = [-129, -128, 127, 128].map(|n| {
            let n = f.value(Node::Int(n));
            let offset = f.value(Node::Offset(n));
            f.value(Node::Relative { base: 3, offset })
        });
        let mut stores = vec![(Mem::Flag(0), less), (Mem::Flag(1), more)];
        stores.extend([address, negated, wrapped, open].map(|v| (Mem::LoopCounter, v)));
        stores.extend(uniforms.map(|v| (Mem::Temp(0), v)));
        stores
    });
    f.simplify(Precision::F32);
    f.verify().expect("well made");
    let stored = stored(&f, 0);
    assert_eq!(
        stored[..5],
        [Node::Flag(true), Node::Flag(false), Node::Int(-2), Node::Int(-300), Node::Int(i32::MIN + 1)]
    );
    assert!(matches!(stored[5], Node::Add(..)), "{f}");
    let offset = |node: &Node| if let Node::Relative { offset, .. } = node { Some(*f.node(*offset)) } else { None };
    assert_eq!(stored[6..].iter().map(offset).collect::<Vec<_>>(), [0, -128, 127, 0].map(|n| Some(Node::Int(n))));
    let defs = f.blocks[0].insts.iter().filter(|(_, i)| matches!(i, Inst::Def(_))).count();
    assert_eq!(defs, 2 + 3, "the load and the sum with it, and a uniform for each offset: {f}");
}

/// The block that `test` leads to after simplification: `Some` if the test is constant.
fn decided(make: impl FnOnce(&mut Func, Value) -> BranchTest) -> Option<bool> {
    let mut f = func(|f| vec![f.value(Node::Load(Mem::Flag(0)))]);
    f.blocks[0].insts.pop();
    let test = make(&mut f, Value(0));
    let edge = |to| Edge { to, args: Vec::new() };
    f.blocks[0].term = Terminator::Branch { test, yes: edge(1), no: edge(2) };
    for exit in [Exit::PastEnd, Exit::Fuel] {
        f.blocks.push(Block { pc: 0, params: Vec::new(), insts: Vec::new(), term: Terminator::Exit(exit) });
    }
    f.verify().expect("well made");
    f.simplify(Precision::F32);
    f.verify().expect("well made");
    match &f.blocks[0].term {
        Terminator::Branch { .. } => {
            assert_eq!(f.blocks.len(), 3);
            None
        }
        Terminator::Goto(edge) => {
            assert_eq!((edge.to, f.blocks.len()), (1, 2), "the other block is gone");
            Some(f.blocks[1].term == Terminator::Exit(Exit::PastEnd))
        }
        Terminator::Exit(exit) => panic!("{exit:?}"),
    }
}

#[test]
fn branches_on_constants_are_decided() {
    for (n, holds) in [(0, false), (1, true), (-1, true)] {
        assert_eq!(decided(|f, _| BranchTest::NonZero(f.value(Node::Int(n)))), Some(holds), "{n}");
    }
    for (n, least, holds) in [(0, 1, false), (5, 5, true), (5, 6, false), (-1, 0, false), (-1, -1, true)] {
        let test = decided(|f, _| BranchTest::AtLeast(f.value(Node::Int(n)), least));
        assert_eq!(test, Some(holds), "{n} {least}");
    }
    assert_eq!(decided(|_, _| BranchTest::Bool { id: 3, value: true }), None);
    for op in [CondOp::Or, CondOp::And, CondOp::X, CondOp::Y] {
        for n in 0..16 {
            let [x, y, ref_x, ref_y] = [0, 1, 2, 3].map(|bit| n >> bit & 1 != 0);
            let cond = Cond { op, ref_x, ref_y };
            let known = |f: &mut Func, flag| f.value(Node::Flag(flag));
            let both = decided(|f, _| BranchTest::Flags { cond, x: known(f, x), y: known(f, y) });
            assert_eq!(both, Some(cond.eval([x, y])), "{cond:?} of {x}, {y}");
            let only_x = decided(|f, open| BranchTest::Flags { cond, x: known(f, x), y: open });
            assert_eq!(only_x, (op == CondOp::X).then_some(x == ref_x), "{cond:?} of {x}");
            let only_y = decided(|f, open| BranchTest::Flags { cond, x: open, y: known(f, y) });
            assert_eq!(only_y, (op == CondOp::Y).then_some(y == ref_y), "{cond:?} of {y}");
        }
    }
}

/// 0 -> 1 -> 2 -> 1 or 3: a loop whose parameters pass through a second block.
#[test]
fn redundant_parameters_are_removed() {
    let zeros = [bits([0.0; 4]), bits([0.0; 4]), bits([1.0; 4])];
    let mut f = Func { entry: Entry::vertex(0), form: Form::Ssa, nodes: Vec::new(), blocks: Vec::new() };
    let [a, b] = [0, 1].map(|n| f.value(Node::Load(Mem::Temp(n))));
    let [zero, other_zero, one] = zeros.map(|node| f.value(node));
    let [outer, inner] = [(); 2].map(|()| [(); 6].map(|()| f.value(Node::Param(Type::Vec4))));
    let sum =
        f.value(Node::Alu { op: PointwiseOp::Add.into(), src: [Use::plain(inner[5]), Use::plain(a), Use::plain(a)] });
    let edge = |to, args: &[Value]| Edge { to, args: args.to_vec() };
    let defs = |list: &[Value]| list.iter().map(|&v| (0, Inst::Def(v))).collect::<Vec<_>>();
    let block = |params: &[Value], insts, term| Block { pc: 0, params: params.to_vec(), insts, term };
    let test = BranchTest::Bool { id: 0, value: true };
    // Always a; a, then b; a constant that exists twice; two constants; a through the other block;
    // a sum.
    let back = [inner[0], b, other_zero, one, inner[4], sum];
    let stores = inner.iter().zip(2..).map(|(&v, n)| (0, Inst::Store(Mem::Temp(n), v))).collect();
    f.blocks = vec![
        block(&[], defs(&[a, b]), Terminator::Goto(edge(1, &[a, a, zero, zero, a, a]))),
        block(&outer, Vec::new(), Terminator::Goto(edge(2, &outer))),
        block(&inner, defs(&[sum]), Terminator::Branch { test, yes: edge(1, &back), no: edge(3, &[]) }),
        block(&[], stores, Terminator::Exit(Exit::End)),
    ];
    f.verify().expect("well made");
    f.simplify(Precision::F32);
    f.verify().expect("well made");
    assert_eq!((f.blocks[1].params.len(), f.blocks[2].params.len()), (3, 0), "{f}");
    let params: Vec<Node> = f.blocks[1].params.iter().map(|&p| *f.node(p)).collect();
    assert_eq!(params, [Node::Param(Type::Vec4); 3]);
    let (vector, load) = (Node::Param(Type::Vec4), Node::Load(Mem::Temp(0)));
    assert_eq!(stored(&f, 3), [load, vector, zeros[0], vector, load, vector], "{f}");
}

#[test]
fn stores_of_unchanged_registers_are_removed_unless_an_emit_intervenes() {
    let made = |form: Form, emits: bool| {
        let mut f = storing(|f| {
            let bank = f.value(Node::Load(Mem::Bank));
            let places = [Mem::Temp(1), Mem::Out { n: 2, bank }, Mem::LoopCounter];
            let [r1, o2, al] = places.map(|mem| f.value(Node::Load(mem)));
            let [r1_mem, o2_mem, al_mem] = places;
            vec![(r1_mem, r1), (o2_mem, o2), (al_mem, al), (Mem::Temp(3), r1), (Mem::Out { n: 3, bank }, o2)]
        });
        f.form = form;
        if emits {
            f.blocks[0].insts.push((0, Inst::Emit));
        }
        f.simplify(Precision::F32);
        f.verify().expect("well made");
        stored(&f, 0).len()
    };
    assert_eq!((made(Form::Ssa, false), made(Form::Ssa, true), made(Form::Memory, false)), (2, 3, 5));
}

/// 0 -> 1 or 2 -> 3. All define the same sum; 1, 2 and 3 the same product as well.
#[test]
fn equal_values_are_shared_where_one_dominates() {
    let mut f = Func { entry: Entry::vertex(0), form: Form::Ssa, nodes: Vec::new(), blocks: Vec::new() };
    let loaded = f.value(Node::Load(Mem::Temp(0)));
    let mut alu = |op: PointwiseOp| {
        // A leaf may exist more than once.
        let uniform = f.value(Node::Uniform(7));
        f.value(Node::Alu { op: op.into(), src: [Use::plain(loaded), Use::plain(uniform), Use::plain(loaded)] })
    };
    let sums = [(); 4].map(|()| alu(PointwiseOp::Add));
    let products = [(); 3].map(|()| alu(PointwiseOp::Mul));
    let [sum, product] = [(); 2].map(|()| f.value(Node::Param(Type::Vec4)));
    let edge = |to, args: &[Value]| Edge { to, args: args.to_vec() };
    let block = |params: &[Value], defs: &[Value], term| {
        let insts = defs.iter().map(|&v| (0, Inst::Def(v))).collect();
        Block { pc: 0, params: params.to_vec(), insts, term }
    };
    let arm = |n: usize| {
        let defined = [sums[n], products[n - 1]];
        block(&[], &defined, Terminator::Goto(edge(3, &defined)))
    };
    let test = BranchTest::Bool { id: 0, value: true };
    f.blocks = vec![
        block(&[], &[loaded, sums[0]], Terminator::Branch { test, yes: edge(1, &[]), no: edge(2, &[]) }),
        arm(1),
        arm(2),
        block(&[sum, product], &[sums[3], products[2]], Terminator::Exit(Exit::End)),
    ];
    let stores = [sum, product, sums[3], products[2]].into_iter().zip(1..);
    f.blocks[3].insts.extend(stores.map(|(v, n)| (0, Inst::Store(Mem::Temp(n), v))));
    f.verify().expect("well made");
    f.simplify(Precision::F32);
    f.verify().expect("well made");
    let defined = |b: usize| {
        let insts = f.blocks[b].insts.iter();
        insts.filter_map(|(_, inst)| if let Inst::Def(v) = inst { Some(*v) } else { None }).collect::<Vec<_>>()
    };
    // The load, a uniform, one sum, three products: what is left is numbered anew.
    let [sum, last_product] = [Value(2), Value(5)];
    assert_eq!([0, 1, 2, 3].map(defined).concat(), [Value(0), sum, Value(3), Value(4), last_product], "{f}");
    let stored: Vec<Inst> = f.blocks[3].insts.iter().map(|(_, inst)| *inst).skip(3).collect();
    assert_eq!(stored, [(3, sum), (4, last_product)].map(|(n, v)| Inst::Store(Mem::Temp(n), v)), "{f}");
}

#[test]
fn a_merge_reads_past_merges_of_which_it_takes_one_side() {
    // A merge of `a` and `b`, one that reads it, and what this one reads instead: as its old value, as
    // its new one.
    let [x, y, xy, yz] = [0b1000, 0b0100, 0b1100, 0b0110].map(WriteMask::new);
    let (a, b) = (Some(Node::Uniform(1)), Some(Node::Uniform(2)));
    for (below, mask, instead) in
        [(x, y, [None, a]), (y, y, [a, b]), (yz, y, [None, b]), (y, yz, [a, None]), (xy, yz, [None, None])]
    {
        for (side, wanted) in instead.into_iter().enumerate() {
            let mut f = func(|f| {
                let [a, b, other] = [1, 2, 3].map(|n| f.value(Node::Uniform(n)));
                let inner = f.value(Node::Merge { mask: below, old: a, new: b });
                let [old, new] = if side == 0 { [inner, other] } else { [other, inner] };
                // The merge below has another reader, so it stays.
                vec![inner, f.value(Node::Merge { mask, old, new })]
            });
            f.simplify(Precision::F32);
            f.verify().expect("well made");
            let [inner, Node::Merge { old, new, .. }] = stored(&f, 0)[..] else { panic!("{f}") };
            assert_eq!(*f.node([old, new][side]), wanted.unwrap_or(inner), "{below} {mask} {side} {f}");
        }
    }
}
