//! Checks that a [`Func`] obeys the rules of `ir`. It runs in every test and debug build.
//!
//! 1. Block 0 exists, has no parameters, and no edge leads to it.
//! 2. Every edge names a block and carries one argument of the right type for each parameter.
//! 3. Every value that is not a leaf is defined exactly once, by a parameter or a definition,
//!    before every use of it on every path.
//! 4. Sources have the type that their node, store or test requires.
//! 5. In the SSA form registers are loaded in block 0 only, and after its stores a block ends the
//!    run or emits.
//! 6. Only relative uniforms use the offset of an address register.

use super::order::{dominates, dominators};
use super::{Block, BranchTest, Form, Func, Inst, Mem, Node, Terminator, Type, Value};
use crate::isa::Pc;
use std::collections::HashSet;
use std::fmt;

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule's number in this file's list.
    pub rule: u8,
    /// The block.
    pub block: usize,
    /// Address of the instruction.
    pub pc: Pc,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} of ir::verify is broken in block {} at pc {}", self.rule, self.block, self.pc)
    }
}

impl std::error::Error for Broken {}

impl Func {
    /// The first broken rule, if any.
    pub fn verify(&self) -> Result<(), Broken> {
        let fail = |rule, block: usize, pc| Err(Broken { rule, block, pc });
        let Some(first) = self.blocks.first() else { return fail(1, 0, 0) };
        if !first.params.is_empty() {
            return fail(1, 0, first.pc);
        }
        for (b, block) in self.blocks.iter().enumerate() {
            for edge in block.term.edges() {
                let Some(target) = self.blocks.get(edge.to) else { return fail(2, b, block.pc) };
                if edge.to == 0 {
                    return fail(1, b, block.pc);
                }
                let fits = |(p, a): (&Value, &Value)| self.has_type(*a, self.node(*p).ty());
                if target.params.len() != edge.args.len() || !target.params.iter().zip(&edge.args).all(fits) {
                    return fail(2, b, block.pc);
                }
            }
        }
        let defined_in = self.definitions()?;
        let (places, dominators) = self.dominators();
        let dominates = |d: usize, b: usize| match (places[d], places[b]) {
            (Some(d), Some(b)) => dominates(&dominators, d, b),
            _ => false,
        };
        for (b, block) in self.blocks.iter().enumerate() {
            // Values that this block defines before the current instruction.
            let mut here: HashSet<Value> = block.params.iter().copied().collect();
            let readable = |v: Value, here: &HashSet<Value>| {
                self.nodes.get(v.0 as usize).is_some_and(Node::is_leaf)
                    || here.contains(&v)
                    || defined_in.get(v.0 as usize).copied().flatten().is_some_and(|d| d != b && dominates(d, b))
            };
            let mut stores = false;
            for &(pc, inst) in &block.insts {
                let mut ok = true;
                match inst {
                    Inst::Def(v) => {
                        let node = self.node(v);
                        node.for_each_use(|u| ok &= readable(u, &here));
                        if !ok {
                            return fail(3, b, pc);
                        }
                        if !self.well_typed(node) {
                            return fail(4, b, pc);
                        }
                        if self.form == Form::Ssa && b != 0 && matches!(node, Node::Load(_)) {
                            return fail(5, b, pc);
                        }
                        here.insert(v);
                    }
                    Inst::Store(mut mem, value) => {
                        stores = true;
                        ok &= readable(value, &here);
                        mem.map_uses(|u| {
                            ok &= readable(u, &here);
                            u
                        });
                        if !ok {
                            return fail(3, b, pc);
                        }
                        if !self.has_type(value, mem.ty()) || mem == Mem::Bank {
                            return fail(4, b, pc);
                        }
                    }
                    Inst::Emit => stores = false,
                    Inst::Setemit(_) => {}
                }
            }
            if self.form == Form::Ssa && stores && !matches!(block.term, Terminator::Exit(_)) {
                return fail(5, b, block.pc);
            }
            let mut ok = true;
            if let Terminator::Branch { mut test, .. } = block.term {
                let want = if matches!(test, BranchTest::NonZero(_) | BranchTest::AtLeast(..)) {
                    Type::Int
                } else {
                    Type::Flag
                };
                let mut typed = true;
                test.map_uses(|v| {
                    ok &= readable(v, &here);
                    typed &= self.has_type(v, want);
                    v
                });
                if !typed {
                    return fail(4, b, block.pc);
                }
            }
            ok &= block.term.edges().flat_map(|e| &e.args).all(|a| readable(*a, &here));
            if !ok {
                return fail(3, b, block.pc);
            }
        }
        match self.blocks.iter().position(|block| self.uses_offset_otherwise(block)) {
            Some(b) => fail(6, b, self.blocks[b].pc),
            None => Ok(()),
        }
    }

    /// Whether anything but a relative uniform uses an offset in this block.
    fn uses_offset_otherwise(&self, block: &Block) -> bool {
        let mut found = false;
        let mut check = |v: Value| found |= matches!(self.node(v), Node::Offset(_));
        for (_, inst) in &block.insts {
            match *inst {
                Inst::Def(v) if !matches!(self.node(v), Node::Relative { .. }) => self.node(v).for_each_use(&mut check),
                Inst::Store(_, v) => check(v),
                _ => {}
            }
        }
        if let Terminator::Branch { mut test, .. } = block.term {
            test.map_uses(|v| {
                check(v);
                v
            });
        }
        block.term.edges().flat_map(|edge| &edge.args).for_each(|&v| check(v));
        found
    }

    /// The block that defines each value, if any. Checks that no value is defined twice.
    fn definitions(&self) -> Result<Vec<Option<usize>>, Broken> {
        let mut defined_in = vec![None; self.nodes.len()];
        for (b, block) in self.blocks.iter().enumerate() {
            let defs = block.insts.iter().filter_map(|(_, i)| match i {
                Inst::Def(v) => Some(*v),
                _ => None,
            });
            for v in block.params.iter().copied().chain(defs) {
                let leaf = self.nodes.get(v.0 as usize).is_none_or(Node::is_leaf);
                if leaf || defined_in[v.0 as usize].replace(b).is_some() {
                    return Err(Broken { rule: 3, block: b, pc: block.pc });
                }
            }
        }
        Ok(defined_in)
    }

    /// The place of each block in reverse postorder, and the dominators of these places. `None`:
    /// unreachable.
    fn dominators(&self) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
        let order = self.reverse_postorder();
        let mut places = vec![None; self.blocks.len()];
        order.iter().enumerate().for_each(|(place, &b)| places[b] = Some(place));
        let mut predecessors = vec![Vec::new(); order.len()];
        for (place, &b) in order.iter().enumerate() {
            for to in self.blocks[b].term.edges().filter_map(|edge| places[edge.to]) {
                predecessors[to].push(place);
            }
        }
        (places, dominators(&predecessors))
    }

    fn has_type(&self, v: Value, ty: Type) -> bool {
        self.nodes.get(v.0 as usize).is_some_and(|n| n.ty() == ty)
    }

    fn well_typed(&self, node: &Node) -> bool {
        let want = match node {
            Node::Load(_) | Node::Offset(_) | Node::Relative { .. } | Node::Add(..) | Node::Flip(_) => Type::Int,
            _ => Type::Vec4,
        };
        let mut ok = true;
        node.for_each_use(|v| ok &= self.has_type(v, want));
        if let Node::Relative { offset, .. } = node {
            ok &= matches!(self.node(*offset), Node::Offset(_) | Node::Int(-128..=127));
        }
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Edge, ScalarUse, Use};
    use crate::isa::flow::Exit;
    use crate::isa::{Cond, CondOp, PointwiseOp, Relation};
    use crate::program::Entry;

    const INPUT: Value = Value(0);
    const VECTOR: Value = Value(1);
    const BANK: Value = Value(2);
    const COUNT: Value = Value(3);
    const SUM: Value = Value(4);
    const FLAG: Value = Value(5);
    const THEN: Value = Value(6);
    const OFFSET: Value = Value(7);
    const ELSE: Value = Value(8);
    const PARAM: Value = Value(9);
    const LEFT: Value = Value(10);
    const ONE: Value = Value(11);
    /// The change of a test.
    const NEW: Value = Value(12);

    fn plain(op: PointwiseOp, v: Value) -> Node {
        Node::Alu { op: op.into(), src: [Use::plain(v); 3] }
    }

    fn scalar(value: Value) -> ScalarUse {
        ScalarUse { value, component: 1, negate: false }
    }

    fn edge(to: usize, args: &[Value]) -> Edge {
        Edge { to, args: args.to_vec() }
    }

    fn block(params: &[Value], insts: &[Inst], term: Terminator) -> Block {
        Block { pc: 0, params: params.to_vec(), insts: insts.iter().map(|&i| (0, i)).collect(), term }
    }

    /// A loop around a branch: 0 -> 1 -> 2 or 3 -> 4 -> 1 or 5.
    fn good() -> Func {
        use Inst::{Def, Store};
        let nodes = vec![
            Node::Input(0),
            Node::Load(Mem::Temp(1)),
            Node::Load(Mem::Bank),
            Node::Load(Mem::LoopCounter),
            Node::Add(COUNT, ONE),
            Node::Compare { op: Relation::Lt, a: scalar(INPUT), b: scalar(VECTOR) },
            plain(PointwiseOp::Add, VECTOR),
            Node::Offset(COUNT),
            Node::Relative { base: 3, offset: OFFSET },
            Node::Param(Type::Vec4),
            Node::Param(Type::Int),
            Node::Int(1),
        ];
        let flags = BranchTest::Flags { cond: Cond { op: CondOp::And, ref_x: true, ref_y: true }, x: FLAG, y: FLAG };
        let choice = Terminator::Branch { test: flags, yes: edge(2, &[]), no: edge(3, &[]) };
        let again = Terminator::Branch { test: BranchTest::NonZero(LEFT), yes: edge(1, &[]), no: edge(5, &[]) };
        let stores = [
            Store(Mem::Out { n: 0, bank: BANK }, PARAM),
            Store(Mem::LoopCounter, LEFT),
            Store(Mem::Flag(0), FLAG),
            Store(Mem::Temp(0), INPUT),
        ];
        let blocks = vec![
            block(&[], &[Def(VECTOR), Def(BANK), Def(COUNT)], Terminator::Goto(edge(1, &[]))),
            block(&[], &[Def(SUM), Def(FLAG)], choice),
            block(&[], &[Def(THEN)], Terminator::Goto(edge(4, &[THEN, COUNT]))),
            block(&[], &[Def(OFFSET), Def(ELSE)], Terminator::Goto(edge(4, &[ELSE, SUM]))),
            block(&[PARAM, LEFT], &[], again),
            block(&[], &stores, Terminator::Exit(Exit::End)),
        ];
        Func { entry: Entry::vertex(0), form: Form::Ssa, nodes, blocks }
    }

    /// The broken rule and its block after `change`.
    fn broken(change: impl FnOnce(&mut Func)) -> Option<(u8, usize)> {
        let mut f = good();
        change(&mut f);
        f.verify().err().map(|broken| (broken.rule, broken.block))
    }

    /// The same with a further node, defined at the end of block `b`.
    fn with(b: usize, node: Node) -> Option<(u8, usize)> {
        broken(|f| {
            f.nodes.push(node);
            f.blocks[b].insts.push((0, Inst::Def(NEW)));
        })
    }

    fn with_store(mem: Mem, value: Value) -> Option<(u8, usize)> {
        broken(|f| f.blocks[5].insts.push((0, Inst::Store(mem, value))))
    }

    #[test]
    fn a_valid_function_breaks_no_rule() {
        assert_eq!(good().verify(), Ok(()));
        let text = Broken { rule: 4, block: 2, pc: 9 }.to_string();
        assert_eq!(text, "rule 4 of ir::verify is broken in block 2 at pc 9");
    }

    #[test]
    fn rule_1_the_first_block() {
        assert_eq!(broken(|f| f.blocks.clear()), Some((1, 0)));
        assert_eq!(broken(|f| f.blocks[0].params.push(PARAM)), Some((1, 0)));
        assert_eq!(broken(|f| f.blocks[3].term = Terminator::Goto(edge(0, &[]))), Some((1, 3)));
    }

    #[test]
    fn rule_2_edges_and_their_arguments() {
        let goto = |args: &[Value]| broken(|f| f.blocks[3].term = Terminator::Goto(edge(4, args)));
        assert_eq!(goto(&[ELSE, SUM]), None);
        assert_eq!(goto(&[ELSE]), Some((2, 3)), "one is missing");
        assert_eq!(goto(&[ELSE, SUM, SUM]), Some((2, 3)), "one is too many");
        assert_eq!(goto(&[SUM, ELSE]), Some((2, 3)), "of the wrong types");
        assert_eq!(goto(&[ELSE, ELSE]), Some((2, 3)), "the second of the wrong type");
        assert_eq!(goto(&[Value(99), SUM]), Some((2, 3)), "no value at all");
        assert_eq!(broken(|f| f.blocks[3].term = Terminator::Goto(edge(6, &[]))), Some((2, 3)));
    }

    #[test]
    fn rule_3_one_definition_that_comes_before_its_uses() {
        // In the same block, in one that dominates, in one that does not.
        assert_eq!(with(4, plain(PointwiseOp::Mov, PARAM)), None);
        assert_eq!(with(5, plain(PointwiseOp::Mov, PARAM)), None);
        assert_eq!(with(5, Node::Add(SUM, COUNT)), None);
        assert_eq!(with(5, plain(PointwiseOp::Mov, THEN)), Some((3, 5)));
        assert_eq!(with(5, plain(PointwiseOp::Mov, ELSE)), Some((3, 5)));
        assert_eq!(with(1, plain(PointwiseOp::Mov, PARAM)), Some((3, 1)), "defined after it in the loop");
        assert_eq!(with(2, Node::Add(OFFSET, ONE)), Some((3, 2)), "first of two uses");
        assert_eq!(with(2, Node::Add(ONE, OFFSET)), Some((3, 2)), "second of two uses");
        assert_eq!(with(2, plain(PointwiseOp::Mov, Value(99))), Some((3, 2)), "no value at all");
        assert_eq!(broken(|f| f.blocks[3].insts.reverse()), Some((3, 3)), "a use before the definition");
        // Stores, their banks, tests and arguments are uses.
        assert_eq!(with_store(Mem::Temp(1), THEN), Some((3, 5)));
        assert_eq!(with_store(Mem::Out { n: 1, bank: OFFSET }, PARAM), Some((3, 5)));
        let test = |v: Value| {
            broken(|f| {
                f.blocks[4].term =
                    Terminator::Branch { test: BranchTest::NonZero(v), yes: edge(1, &[]), no: edge(5, &[]) }
            })
        };
        assert_eq!((test(SUM), test(OFFSET)), (None, Some((3, 4))));
        assert_eq!(broken(|f| f.blocks[2].term = Terminator::Goto(edge(4, &[ELSE, SUM]))), Some((3, 2)));
        assert_eq!(broken(|f| f.blocks[2].term = Terminator::Goto(edge(4, &[THEN, OFFSET]))), Some((3, 2)));
        // Twice in a block, in two blocks, as a parameter and otherwise, a leaf.
        for (b, v, found) in [(1, SUM, 1), (2, SUM, 2), (2, PARAM, 4), (2, INPUT, 2)] {
            assert_eq!(broken(|f| f.blocks[b].insts.push((0, Inst::Def(v)))), Some((3, found)), "{v:?} in block {b}");
        }
        assert_eq!(broken(|f| f.blocks[2].params.push(Value(99))), Some((2, 1)));
        // A way around a definition: 0 -> 4 passes by block 1.
        let around = |to: usize| {
            broken(|f| {
                let test = BranchTest::Bool { id: 0, value: true };
                f.blocks[0].term = Terminator::Branch { test, yes: edge(1, &[]), no: edge(to, &[VECTOR, COUNT]) };
            })
        };
        assert_eq!(around(4), Some((3, 5)), "the flag that is stored is not defined on that way");
    }

    #[test]
    fn rule_6_uses_of_offsets() {
        assert_eq!(with(3, Node::Relative { base: 4, offset: OFFSET }), None);
        assert_eq!(with(3, Node::Add(OFFSET, ONE)), Some((6, 3)));
        assert_eq!(with(3, Node::Offset(OFFSET)), Some((6, 3)));
        let terminator = |term: Terminator| broken(|f| f.blocks[3].term = term);
        assert_eq!(terminator(Terminator::Goto(edge(4, &[ELSE, OFFSET]))), Some((6, 3)));
        let test = BranchTest::NonZero(OFFSET);
        let (yes, no) = (edge(4, &[ELSE, SUM]), edge(4, &[ELSE, SUM]));
        assert_eq!(terminator(Terminator::Branch { test, yes, no }), Some((6, 3)));
        let store = broken(|f| {
            f.nodes.push(Node::Offset(SUM));
            f.blocks[5].insts.insert(0, (0, Inst::Def(NEW)));
            f.blocks[5].insts.push((0, Inst::Store(Mem::Address(0), NEW)));
        });
        assert_eq!(store, Some((6, 5)));
    }

    #[test]
    fn rule_4_types() {
        assert_eq!((with(1, Node::Add(COUNT, SUM)), with(1, Node::Add(COUNT, VECTOR))), (None, Some((4, 1))));
        assert_eq!(with(1, Node::Add(VECTOR, COUNT)), Some((4, 1)));
        assert_eq!((with(1, Node::Flip(BANK)), with(1, Node::Flip(FLAG))), (None, Some((4, 1))));
        assert_eq!((with(1, Node::Offset(SUM)), with(1, Node::Offset(INPUT))), (None, Some((4, 1))));
        let out = |bank| with(0, Node::Load(Mem::Out { n: 2, bank }));
        assert_eq!((out(BANK), out(VECTOR)), (None, Some((4, 0))));
        assert_eq!(
            (with(1, plain(PointwiseOp::Flr, VECTOR)), with(1, plain(PointwiseOp::Flr, COUNT))),
            (None, Some((4, 1)))
        );
        let merge = |old, new| with(1, Node::Merge { mask: crate::isa::WriteMask::new(3), old, new });
        assert_eq!((merge(INPUT, VECTOR), merge(SUM, VECTOR), merge(VECTOR, SUM)), (None, Some((4, 1)), Some((4, 1))));
        // The offset of a relative uniform is clamped, or a constant as if it were.
        let relative = |offset: i32| {
            broken(|f| {
                f.nodes[ONE.0 as usize] = Node::Int(offset);
                f.nodes[ELSE.0 as usize] = Node::Relative { base: 3, offset: ONE };
            })
        };
        assert_eq!((relative(-128), relative(127)), (None, None));
        assert_eq!((relative(128), relative(-129)), (Some((4, 3)), Some((4, 3))));
        assert_eq!(with(1, Node::Relative { base: 3, offset: SUM }), Some((4, 1)));
        // Stores: of another type, and the bank, which only EMIT changes.
        assert_eq!((with_store(Mem::Address(0), SUM), with_store(Mem::Address(0), PARAM)), (None, Some((4, 5))));
        assert_eq!((with_store(Mem::Flag(1), FLAG), with_store(Mem::Flag(1), LEFT)), (None, Some((4, 5))));
        assert_eq!((with_store(Mem::Bank, BANK), with_store(Mem::Bank, PARAM)), (Some((4, 5)), Some((4, 5))));
        // Tests.
        let test = |test: BranchTest| {
            broken(|f| f.blocks[4].term = Terminator::Branch { test, yes: edge(1, &[]), no: edge(5, &[]) })
        };
        let flags = |x, y| test(BranchTest::Flags { cond: Cond { op: CondOp::Or, ref_x: true, ref_y: false }, x, y });
        assert_eq!((flags(FLAG, FLAG), flags(SUM, FLAG), flags(FLAG, SUM)), (None, Some((4, 4)), Some((4, 4))));
        assert_eq!((test(BranchTest::NonZero(FLAG)), test(BranchTest::NonZero(PARAM))), (Some((4, 4)), Some((4, 4))));
        // Only the flags that the condition tests are read.
        let one = |op, x, y| test(BranchTest::Flags { cond: Cond { op, ref_x: true, ref_y: true }, x, y });
        assert_eq!((one(CondOp::X, FLAG, SUM), one(CondOp::Y, SUM, FLAG)), (None, None));
        assert_eq!((one(CondOp::X, SUM, FLAG), one(CondOp::Y, FLAG, SUM)), (Some((4, 4)), Some((4, 4))));
    }

    #[test]
    fn rule_5_memory_in_the_ssa_form() {
        let load = Node::Load(Mem::Temp(7));
        assert_eq!((with(0, load), with(1, load), with(5, load)), (None, Some((5, 1)), Some((5, 5))));
        let stores = |form: Form, insts: &[Inst]| {
            broken(|f| {
                f.form = form;
                f.blocks[2].insts.extend(insts.iter().map(|&i| (0, i)));
            })
        };
        let store = Inst::Store(Mem::Temp(0), INPUT);
        assert_eq!(stores(Form::Ssa, &[store]), Some((5, 2)));
        assert_eq!(stores(Form::Ssa, &[store, Inst::Emit]), None);
        assert_eq!(stores(Form::Ssa, &[Inst::Emit, store]), Some((5, 2)));
        assert_eq!(stores(Form::Memory, &[store]), None);
        let loads = broken(|f| {
            f.form = Form::Memory;
            f.nodes.push(load);
            f.blocks[3].insts.push((0, Inst::Def(NEW)));
        });
        assert_eq!(loads, None);
    }
}
