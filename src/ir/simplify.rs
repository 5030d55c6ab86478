//! [`Func`] -> smaller [`Func`] of the same meaning.
//!
//! Passes, in order: fold constants through [`crate::isa::numeric`] and branches on them; remove
//! redundant block parameters; remove stores of unchanged registers; resolve merges of which one
//! side is dead or overwritten; share equal values; remove dead code, and the values that it leaves
//! unused. Observable effects stay: stores, emits, exits.

use super::analysis::{XYZW, operand_components};
use super::order::{dominators, reverse_postorder};
use super::{Block, BranchTest, Edge, Form, Func, Inst, Mem, Node, Terminator, Use, Value};
use crate::isa::numeric::Precision;
use std::collections::HashMap;

/// Replacements of values, as a union-find forest.
struct Replacements(Vec<Value>);

impl Replacements {
    fn new(len: usize) -> Replacements {
        Replacements((0..len as u32).map(Value).collect())
    }
    /// The replacement of `v`. Path halving keeps long chains cheap.
    fn get(&mut self, mut v: Value) -> Value {
        while self.0[v.0 as usize] != v {
            let next = self.0[v.0 as usize];
            self.0[v.0 as usize] = self.0[next.0 as usize];
            v = next;
        }
        v
    }
    fn set(&mut self, v: Value, by: Value) {
        self.0[v.0 as usize] = by;
    }
}

/// A merge that reads past the merges in its sources, where it takes components of one side only.
fn shortened(node: Node, nodes: &[Node]) -> Node {
    let Node::Merge { mask, mut old, mut new } = node else { return node };
    let taken = mask.component_bits();
    let merged = |v: Value| match nodes[v.0 as usize] {
        Node::Merge { mask, old, new } => Some((mask.component_bits(), old, new)),
        _ => None,
    };
    while let Some((inner, past, _)) = merged(old)
        && inner & !taken == 0
    {
        old = past;
    }
    while let Some((inner, past, written)) = merged(new)
        && (inner & taken == 0 || taken & !inner == 0)
    {
        new = if inner & taken == 0 { past } else { written };
    }
    Node::Merge { mask, old, new }
}

impl Func {
    /// Simplifies in place.
    pub fn simplify(&mut self, precision: Precision) {
        self.fold_constants(precision);
        self.decide_branches();
        self.resolve_parameters();
        if self.form == Form::Ssa {
            self.drop_idle_stores();
        }
        self.resolve_merges();
        if self.form == Form::Ssa {
            self.share_values();
        }
        self.remove_dead();
        self.remove_unused_values();
    }

    /// The function without its stores to registers other than outputs, and without what only these
    /// need.
    pub fn outputs_only(&self, precision: Precision) -> Func {
        let kept = |inst: &Inst| !matches!(inst, Inst::Store(mem, _) if !matches!(mem, Mem::Out { .. }));
        let mut func = self.clone();
        func.blocks.iter_mut().for_each(|block| block.insts.retain(|(_, inst)| kept(inst)));
        func.simplify(precision);
        func
    }

    fn apply(&mut self, by: &mut Replacements) {
        for node in &mut self.nodes {
            node.map_uses(|v| by.get(v));
        }
        for block in &mut self.blocks {
            block.map_uses(|v| by.get(v));
        }
    }

    /// Nodes with constant sources only become constants. Except for parameters, which are never
    /// folded, definitions come before uses, so one pass in value order suffices.
    fn fold_constants(&mut self, precision: Precision) {
        let mut folded = false;
        for i in 0..self.nodes.len() {
            if let Some(constant) = self.fold(&self.nodes[i], precision) {
                self.nodes[i] = constant;
                folded = true;
            }
        }
        if folded {
            let Func { blocks, nodes, .. } = self;
            for block in blocks {
                block.insts.retain(|(_, i)| !matches!(i, Inst::Def(v) if nodes[v.0 as usize].is_leaf()));
            }
        }
    }

    fn fold(&self, node: &Node, p: Precision) -> Option<Node> {
        let vector = |v: Value| match self.node(v) {
            Node::Const(bits) => Some(bits.map(f32::from_bits)),
            _ => None,
        };
        let sign = |x: f32, negate: bool| if negate { -x } else { x };
        let fetch = |u: &Use| vector(u.value).map(|v| u.swizzle.components().map(|c| sign(v[c], u.negate)));
        let scalar = |l: &super::ScalarUse| vector(l.value).map(|v| sign(v[usize::from(l.component)], l.negate));
        let constant = |v: [f32; 4]| Some(Node::Const(v.map(f32::to_bits)));
        match node {
            Node::Alu { op, src } => {
                let mut s = [[0.0; 4]; 3];
                for (to, from) in s.iter_mut().zip(&src[..op.sources()]) {
                    *to = fetch(from)?;
                }
                constant(p.vector(*op, s))
            }
            Node::Scalar { op, src } => constant([p.scalar(*op, scalar(src)?); 4]),
            Node::Compare { op, a, b } => Some(Node::Flag(p.compare(*op, scalar(a)?, scalar(b)?))),
            Node::ToAddress(src) => Some(Node::Int(p.to_address(scalar(src)?))),
            Node::Merge { mask, old, new } => {
                let (old, new) = (vector(*old)?, vector(*new)?);
                constant([0, 1, 2, 3].map(|n| if mask.has(n) { new[n] } else { old[n] }))
            }
            Node::Offset(v) => match self.node(*v) {
                Node::Int(n) => Some(Node::Int(if (-128..=127).contains(n) { *n } else { 0 })),
                _ => None,
            },
            Node::Add(a, b) => match (self.node(*a), self.node(*b)) {
                (Node::Int(a), Node::Int(b)) => Some(Node::Int(a.wrapping_add(*b))),
                _ => None,
            },
            _ => None,
        }
    }

    /// Branches on constants become plain edges; blocks that become unreachable are emptied.
    fn decide_branches(&mut self) {
        let mut decided = false;
        for i in 0..self.blocks.len() {
            if let Terminator::Branch { test, yes, no } = &self.blocks[i].term
                && let Some(holds) = self.decide(test)
            {
                let edge = if holds { yes } else { no };
                self.blocks[i].term = Terminator::Goto(edge.clone());
                decided = true;
            }
        }
        if decided {
            self.order_blocks();
        }
    }

    fn decide(&self, test: &BranchTest) -> Option<bool> {
        let flag = |v: Value| match self.node(v) {
            Node::Flag(f) => Some(*f),
            _ => None,
        };
        match test {
            BranchTest::Flags { cond, x, y } => {
                use crate::isa::CondOp::{X, Y};
                let x = if cond.op == Y { false } else { flag(*x)? };
                let y = if cond.op == X { false } else { flag(*y)? };
                Some(cond.eval([x, y]))
            }
            BranchTest::NonZero(v) => match self.node(*v) {
                Node::Int(n) => Some(*n != 0),
                _ => None,
            },
            BranchTest::AtLeast(v, least) => match self.node(*v) {
                Node::Int(n) => Some(n >= least),
                _ => None,
            },
            BranchTest::Bool { .. } => None,
        }
    }

    /// Block numbers in reverse postorder, the first successor directly after its block where
    /// possible. Unreachable blocks are omitted.
    pub(super) fn reverse_postorder(&self) -> Vec<usize> {
        let successors = |b: usize| self.blocks[b].term.edges().map(|e| e.to).collect::<Vec<_>>().into_iter();
        reverse_postorder(self.blocks.len(), successors)
    }

    /// Orders blocks in reverse postorder and removes unreachable ones. Then every definition
    /// precedes its uses.
    pub(super) fn order_blocks(&mut self) {
        let order = self.reverse_postorder();
        let mut new_id = vec![usize::MAX; self.blocks.len()];
        order.iter().enumerate().for_each(|(new, &old)| new_id[old] = new);
        let mut old: Vec<Option<Block>> = std::mem::take(&mut self.blocks).into_iter().map(Some).collect();
        for id in order {
            let mut block = old[id].take().expect("a block is in the postorder once");
            block.term.edges_mut().for_each(|e| e.to = new_id[e.to]);
            self.blocks.push(block);
        }
    }

    /// A parameter whose incoming values are one value, or itself, is replaced by that value.
    fn resolve_parameters(&mut self) {
        let mut by = Replacements::new(self.nodes.len());
        let mut edges_in: Vec<Vec<&Edge>> = vec![Vec::new(); self.blocks.len()];
        for edge in self.blocks.iter().flat_map(|b| b.term.edges()) {
            edges_in[edge.to].push(edge);
        }
        let mut users: HashMap<Value, Vec<usize>> = HashMap::new();
        for (to, edges) in edges_in.iter().enumerate() {
            for arg in edges.iter().flat_map(|e| &e.args) {
                if matches!(self.node(*arg), Node::Param(_)) {
                    users.entry(*arg).or_default().push(to);
                }
            }
        }
        let mut queue: Vec<usize> = (0..self.blocks.len()).rev().collect();
        let mut queued = vec![true; self.blocks.len()];
        while let Some(b) = queue.pop() {
            queued[b] = false;
            for (n, &param) in self.blocks[b].params.iter().enumerate() {
                if by.get(param) != param {
                    continue;
                }
                let mut only = None;
                let same = edges_in[b].iter().all(|edge| {
                    let arg = by.get(edge.args[n]);
                    arg == param || *only.get_or_insert(arg) == arg || self.same_leaf(only, arg)
                });
                if let (true, Some(value)) = (same, only) {
                    by.set(param, value);
                    for &user in users.get(&param).map_or(&[][..], |u| u) {
                        if !std::mem::replace(&mut queued[user], true) {
                            queue.push(user);
                        }
                    }
                }
            }
        }
        let dropped: Vec<Vec<bool>> =
            self.blocks.iter().map(|b| b.params.iter().map(|&p| by.get(p) != p).collect()).collect();
        drop(edges_in);
        self.drop_parameters(&dropped);
        self.apply(&mut by);
    }

    /// Whether both are the same leaf, which may exist twice.
    fn same_leaf(&self, a: Option<Value>, b: Value) -> bool {
        a.is_some_and(|a| self.node(a).is_leaf() && self.node(a) == self.node(b))
    }

    fn drop_parameters(&mut self, dropped: &[Vec<bool>]) {
        fn keep<T>(list: &mut Vec<T>, dropped: &[bool]) {
            let mut flags = dropped.iter();
            list.retain(|_| !flags.next().expect("one flag a parameter"));
        }
        for (b, block) in self.blocks.iter_mut().enumerate() {
            keep(&mut block.params, &dropped[b]);
            for edge in block.term.edges_mut() {
                keep(&mut edge.args, &dropped[edge.to]);
            }
        }
    }

    /// In the SSA form a register is loaded at the start of the run. A store of that value is
    /// redundant unless an emit may have stored another one.
    fn drop_idle_stores(&mut self) {
        let emits = self.emits();
        let Func { blocks, nodes, .. } = self;
        for block in blocks {
            block.insts.retain(|(_, inst)| match inst {
                Inst::Store(Mem::Out { .. }, _) if emits => true,
                Inst::Store(mem, value) => nodes[value.0 as usize] != Node::Load(*mem),
                _ => true,
            });
        }
    }

    fn resolve_merges(&mut self) {
        let live = self.live_components();
        let mut by = Replacements::new(self.nodes.len());
        for (i, node) in self.nodes.iter().enumerate() {
            if let Node::Merge { mask, old, new } = *node {
                let read = live[i];
                if read & !mask.component_bits() & XYZW == 0 {
                    by.set(Value(i as u32), new);
                } else if read & mask.component_bits() == 0 {
                    by.set(Value(i as u32), old);
                }
            }
        }
        self.apply(&mut by);
        for i in 0..self.nodes.len() {
            self.nodes[i] = shortened(self.nodes[i], &self.nodes);
        }
    }

    /// Global value numbering: where a value dominates an equal one, only the first remains. Code
    /// generation has no such pass. In the SSA form a load is not repeated, and all other nodes depend on
    /// their operands alone.
    fn share_values(&mut self) {
        /// A step of a walk over the dominator tree.
        enum Visit {
            Enter(usize),
            Leave(usize),
        }
        let mut children = vec![Vec::new(); self.blocks.len()];
        for (b, dominator) in dominators(&self.predecessors()).into_iter().enumerate() {
            if let Some(dominator) = dominator {
                children[dominator].push(b);
            }
        }
        // The latest value of each node, and its block. It serves the subtree of that block, so until the
        // walk leaves it. Removal from the map would hash each node again.
        let mut latest = HashMap::with_capacity(self.nodes.len());
        let mut left = vec![false; self.blocks.len()];
        let mut by = Replacements::new(self.nodes.len());
        for (i, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_leaf()) {
            let (_, first) = *latest.entry(*node).or_insert((0, Value(i as u32)));
            by.set(Value(i as u32), first);
        }
        let mut walk = vec![Visit::Enter(0)];
        while let Some(visit) = walk.pop() {
            let b = match visit {
                Visit::Enter(b) => b,
                Visit::Leave(b) => {
                    left[b] = true;
                    continue;
                }
            };
            walk.push(Visit::Leave(b));
            walk.extend(children[b].iter().map(|&child| Visit::Enter(child)));
            self.blocks[b].insts.retain(|&(_, inst)| {
                let Inst::Def(v) = inst else { return true };
                let node = &mut self.nodes[v.0 as usize];
                node.map_uses(|operand| by.get(operand));
                let (at, first) = latest.entry(*node).or_insert((b, v));
                if left[*at] {
                    (*at, *first) = (b, v);
                }
                by.set(v, *first);
                *first == v
            });
        }
        self.apply(&mut by);
    }

    fn remove_dead(&mut self) {
        let live = self.live_components();
        // A source without live components (e.g. of DST without y) may be removed below.
        let nothing = self.value(Node::Const([0; 4]));
        for (node, &live) in self.nodes.iter_mut().zip(&live) {
            if let Node::Alu { op, src } = node {
                for (n, s) in src.iter_mut().enumerate() {
                    if operand_components(*op, n, live) == 0 {
                        *s = Use::plain(nothing);
                    }
                }
            }
        }
        let dead = |v: Value| live[v.0 as usize] == 0;
        for block in &mut self.blocks {
            block.insts.retain(|(_, inst)| !matches!(inst, Inst::Def(v) if dead(*v)));
        }
        let dropped: Vec<Vec<bool>> = self.blocks.iter().map(|b| b.params.iter().map(|&p| dead(p)).collect()).collect();
        self.drop_parameters(&dropped);
    }

    /// Removes the values that no block has any more, and numbers the others anew, in order: passes that
    /// follow have tables of values, and a kernel keeps its function. Of 20,000 a few dozen may be left.
    fn remove_unused_values(&mut self) {
        let mut used = vec![false; self.nodes.len()];
        for block in &mut self.blocks {
            let mut mark = |v: Value| {
                used[v.0 as usize] = true;
                v
            };
            for &mut v in block.definitions_mut() {
                mark(v);
                self.nodes[v.0 as usize].for_each_use(|operand| _ = mark(operand));
            }
            block.map_uses(mark);
        }
        let mut new = Vec::with_capacity(used.len());
        let mut count = 0;
        for &used in &used {
            new.push(Value(count));
            count += u32::from(used);
        }
        let mut kept = used.into_iter();
        self.nodes.retain(|_| kept.next().expect("one flag a value"));
        let renumbered = |v: Value| new[v.0 as usize];
        self.nodes.iter_mut().for_each(|node| node.map_uses(renumbered));
        for block in &mut self.blocks {
            block.definitions_mut().for_each(|v| *v = renumbered(*v));
            block.map_uses(renumbered);
        }
    }
}

impl Block {
    /// Its parameters, and the values that its instructions define.
    fn definitions_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        let defined = self.insts.iter_mut().filter_map(|(_, inst)| match inst {
            Inst::Def(v) => Some(v),
            _ => None,
        });
        self.params.iter_mut().chain(defined)
    }

    /// Replaces every operand of its stores and terminator.
    fn map_uses(&mut self, mut f: impl FnMut(Value) -> Value) {
        for (_, inst) in &mut self.insts {
            if let Inst::Store(mem, value) = inst {
                *value = f(*value);
                mem.map_uses(&mut f);
            }
        }
        if let Terminator::Branch { test, .. } = &mut self.term {
            test.map_uses(&mut f);
        }
        for edge in self.term.edges_mut() {
            edge.args.iter_mut().for_each(|a| *a = f(*a));
        }
    }
}
