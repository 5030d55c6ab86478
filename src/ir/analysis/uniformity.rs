//! Uniformity: a value is *uniform* if it is the same for all vertices that run on the same
//! uniforms and registers, else *divergent*.

use crate::ir::{BranchTest, Func, Node, Terminator, Type, Value};
use crate::isa::flow::Exit;
use std::collections::BTreeSet;

impl Func {
    /// For each value whether it is divergent. Data divergence (an operand is) counts for every
    /// type; control divergence (a block parameter that merges different values after a divergent
    /// branch) for vectors only.
    pub fn is_divergent(&self) -> Vec<bool> {
        let divergent = self.dependent_on_inputs(&vec![false; self.nodes.len()]);
        if !self.has_divergent_branch(&divergent) {
            return divergent;
        }
        // Parameters whose incoming values are not all the same value.
        let mut first: Vec<Option<Value>> = vec![None; self.nodes.len()];
        let mut merging = vec![false; self.nodes.len()];
        for edge in self.blocks.iter().flat_map(|block| block.term.edges()) {
            for (param, &arg) in self.blocks[edge.to].params.iter().zip(&edge.args) {
                let other = first[param.0 as usize].replace(arg).is_some_and(|before| before != arg);
                merging[param.0 as usize] |= other && self.node(*param).ty() == Type::Vec4;
            }
        }
        self.dependent_on_inputs(&merging)
    }

    /// For each value whether it depends on an input, or on a parameter that merges different
    /// values.
    fn dependent_on_inputs(&self, merging: &[bool]) -> Vec<bool> {
        self.closure(|v| matches!(self.node(v), Node::Input(_)) || merging[v.0 as usize], |_| false)
    }

    /// For each value whether it is the fuel that is left, which only fuel checks use.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // only code for groups asks
    pub(crate) fn is_fuel(&self) -> Vec<bool> {
        let mut fuel = vec![false; self.nodes.len()];
        let mut worklist = Vec::new();
        for block in &self.blocks {
            if let Terminator::Branch { test: BranchTest::AtLeast(value, _), .. } = block.term {
                worklist.push(value);
            }
        }
        while let Some(value) = worklist.pop() {
            if std::mem::replace(&mut fuel[value.0 as usize], true) {
                continue;
            }
            if let Node::Add(before, _) = *self.node(value) {
                worklist.push(before);
            }
            for edge in self.blocks.iter().flat_map(|block| block.term.edges()) {
                let params = self.blocks[edge.to].params.iter().zip(&edge.args);
                worklist.extend(params.filter(|(param, _)| **param == value).map(|(_, arg)| *arg));
            }
        }
        fuel
    }

    /// Whether vertices may take different edges of a branch, given the divergent values.
    fn has_divergent_branch(&self, divergent: &[bool]) -> bool {
        self.blocks.iter().any(|block| is_divergent_branch(&block.term, divergent))
    }

    /// The branches of which vertices may take different edges.
    pub(crate) fn divergent_branches(&self) -> u32 {
        let divergent = self.is_divergent();
        self.blocks.iter().filter(|block| is_divergent_branch(&block.term, &divergent)).count() as u32
    }

    /// For each block whether two vertices of a batch that reach an END may enter it by different
    /// edges. Unlike [`Func::is_divergent`], which describes one group, it counts control
    /// divergence for every type.
    pub(super) fn divergent_joins(&self) -> Vec<bool> {
        let mut predecessors = vec![0; self.blocks.len()];
        self.blocks.iter().flat_map(|block| block.term.edges()).for_each(|edge| predecessors[edge.to] += 1);
        let mut joins = vec![false; self.blocks.len()];
        loop {
            let mut merging = vec![false; self.nodes.len()];
            for (block, _) in self.blocks.iter().zip(&joins).filter(|(_, joins)| **joins) {
                block.params.iter().for_each(|param| merging[param.0 as usize] = true);
            }
            let divergent = self.dependent_on_inputs(&merging);
            let mut found = joins.clone();
            for (from, block) in self.blocks.iter().enumerate() {
                if is_divergent_branch(&block.term, &divergent) {
                    self.joins_after(from, &predecessors, &mut found);
                }
            }
            if found == joins {
                return joins;
            }
            joins = found;
        }
    }

    /// Adds the blocks up to the join of the branch at the end of block `from` that have several
    /// predecessors, and that join. All blocks, if the branch is part of a loop.
    fn joins_after(&self, from: usize, predecessors: &[usize], joins: &mut [bool]) {
        let ends = |to: &usize| !matches!(self.blocks[*to].term, Terminator::Exit(exit) if exit != Exit::End);
        let next = |block: usize| self.blocks[block].term.edges().map(|edge| edge.to).filter(ends);
        let mut last = from;
        let mut worklist: BTreeSet<usize> = next(from).collect();
        // Blocks are in reverse postorder: all paths pass a block that is alone in the worklist.
        while let Some(block) = worklist.pop_first() {
            if block <= last {
                joins.fill(true);
                return;
            }
            last = block;
            joins[block] |= predecessors[block] > 1;
            if worklist.is_empty() {
                return;
            }
            worklist.extend(next(block));
        }
    }
}

/// Whether vertices may take different edges of a branch, given the divergent values.
fn is_divergent_branch(term: &Terminator, divergent: &[bool]) -> bool {
    let mut found = false;
    if let Terminator::Branch { mut test, .. } = term.clone()
        // A vertex without fuel reaches no END, and its group bails out.
        && !test.is_fuel_check()
    {
        test.map_uses(|v| {
            found |= divergent[v.0 as usize];
            v
        });
    }
    found
}
