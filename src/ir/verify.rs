//! Checks that a [`Func`] keeps the rules that [`super`] lists. Runs in every test and debug build.
//!
//! 1. Block 0 exists, has no parameters, and no edge leads to it.
//! 2. Every edge names a block and carries one argument of the right type for each parameter.
//! 3. Every value that is not a leaf is defined exactly once, by a parameter or a definition, before every use of it on
//!    every path.
//! 4. Sources have the type that their node, store or test wants.
//! 5. In the SSA form registers are loaded in block 0 only, and a block with stores ends the run or emits behind them.
//! 6. Opcodes of vector operations are in their normal form and scalar ones among `EX2 LG2 RCP RSQ`.

use super::{Form, Func, Inst, Mem, Node, Term, Test, Type, Value};
use crate::isa::{CmpOp, Opcode, Pc};
use std::collections::HashSet;
use std::fmt;

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its number in this file's list.
    pub rule: u8,
    /// In which block.
    pub block: usize,
    /// At which instruction's address.
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
        let dominators = self.dominators();
        for (b, block) in self.blocks.iter().enumerate() {
            // Values that this block has defined so far.
            let mut here: HashSet<Value> = block.params.iter().copied().collect();
            let readable = |v: Value, here: &HashSet<Value>| {
                self.nodes.get(v.0 as usize).is_some_and(Node::is_leaf)
                    || here.contains(&v)
                    || defined_in
                        .get(v.0 as usize)
                        .copied()
                        .flatten()
                        .is_some_and(|d| d != b && dominates(&dominators, d, b))
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
                        if !well_formed(node) {
                            return fail(6, b, pc);
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
            if self.form == Form::Ssa && stores && !matches!(block.term, Term::Exit(_)) {
                return fail(5, b, block.pc);
            }
            let mut ok = true;
            if let Term::Branch { mut test, .. } = block.term {
                let want = if matches!(test, Test::NonZero(_)) { Type::Int } else { Type::Flag };
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
        Ok(())
    }

    /// The block that defines each value, if one does. Checks that none is defined twice.
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

    /// Each block's immediate dominator (its own number for block 0 and for blocks that nothing reaches), by the iteration
    /// of Cooper, Harvey and Kennedy. Fast because blocks are kept in reverse postorder, right in any order.
    fn dominators(&self) -> Vec<usize> {
        let order = self.reverse_postorder();
        let mut rank = vec![usize::MAX; self.blocks.len()];
        order.iter().enumerate().for_each(|(n, &b)| rank[b] = n);
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.blocks.len()];
        for &b in &order {
            self.blocks[b].term.edges().for_each(|e| before[e.to].push(b));
        }
        let mut idom: Vec<Option<usize>> = vec![None; self.blocks.len()];
        idom[0] = Some(0);
        let mut changed = true;
        while changed {
            changed = false;
            for &b in &order[1..] {
                let mut new = None;
                for &p in before[b].iter().filter(|p| idom[**p].is_some()) {
                    let mut a = p;
                    let Some(mut c) = new else {
                        new = Some(p);
                        continue;
                    };
                    while a != c {
                        let up = |x: usize| idom[x].unwrap_or(0);
                        if rank[a] > rank[c] { a = up(a) } else { c = up(c) }
                    }
                    new = Some(a);
                }
                if idom[b] != new {
                    idom[b] = new;
                    changed = true;
                }
            }
        }
        idom.into_iter().enumerate().map(|(b, d)| d.unwrap_or(b)).collect()
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

/// Whether every path to `b` goes through `a`.
fn dominates(idom: &[usize], a: usize, mut b: usize) -> bool {
    while b != a && idom[b] != b {
        b = idom[b];
    }
    a == b
}

fn well_formed(node: &Node) -> bool {
    use Opcode::{Add, Dp3, Dp4, Dph, Dst, Ex2, Flr, Lg2, Litp, Mad, Max, Min, Mov, Mul, Rcp, Rsq, Sge, Slt};
    match node {
        Node::Alu { op, .. } => {
            matches!(op, Add | Dp3 | Dp4 | Dph | Dst | Litp | Mul | Sge | Slt | Flr | Max | Min | Mov | Mad)
        }
        Node::Scalar { op, .. } => matches!(op, Ex2 | Lg2 | Rcp | Rsq),
        Node::Compare { op, .. } => !matches!(op, CmpOp::True6 | CmpOp::True7),
        _ => true,
    }
}
