//! Uniformity: a value is *uniform* if it is the same for all vertices that run on the same
//! uniforms and registers, else *divergent*.

use crate::ir::{Func, Node, Terminator, Type, Value};

impl Func {
    /// For each value whether it is divergent. Data divergence (an operand is) counts for every
    /// type; control divergence (a block parameter that merges different values after a divergent
    /// branch) for vectors only.
    pub fn is_divergent(&self) -> Vec<bool> {
        let input = |v: Value| matches!(self.node(v), Node::Input(_));
        let divergent = self.closure(input, |_| false);
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
        self.closure(|v| input(v) || merging[v.0 as usize], |_| false)
    }

    /// Whether vertices may take different edges of a branch, given the divergent values.
    pub(in crate::ir) fn has_divergent_branch(&self, divergent: &[bool]) -> bool {
        self.blocks.iter().any(|block| is_divergent_branch(&block.term, divergent))
    }

    /// The branches of which vertices may take different edges.
    pub(crate) fn divergent_branches(&self) -> u32 {
        let divergent = self.is_divergent();
        self.blocks.iter().filter(|block| is_divergent_branch(&block.term, &divergent)).count() as u32
    }
}

fn is_divergent_branch(term: &Terminator, divergent: &[bool]) -> bool {
    let mut found = false;
    if let Terminator::Branch { mut test, .. } = *term {
        test.map_uses(|v| {
            found |= divergent[v.0 as usize];
            v
        });
    }
    found
}
