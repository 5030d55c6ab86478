//! Liveness, component by component: backwards from stores and branches to all values that they
//! depend on.

use super::{Components, components_of, for_each_read};
use crate::ir::{BranchTest, Func, Inst, Node, Terminator, Value};

impl Func {
    /// For each value its live components: those that a store or a branch depends on.
    pub fn live_components(&self) -> Vec<Components> {
        let mut roots = Vec::new();
        for (_, inst) in self.blocks.iter().flat_map(|b| &b.insts) {
            if let Inst::Store(mut mem, value) = *inst {
                roots.push((value, components_of(mem.ty())));
                mem.map_uses(|v| {
                    roots.push((v, 1));
                    v
                });
            }
        }
        self.live_from(roots)
    }

    /// For each value the components that `roots` or a branch depend on.
    pub fn live_from(&self, roots: Vec<(Value, Components)>) -> Vec<Components> {
        let mut live = vec![0; self.nodes.len()];
        let mut queue = roots;
        let incoming = self.incoming();
        for block in &self.blocks {
            if let Terminator::Branch { mut test, .. } = block.term {
                BranchTest::map_uses(&mut test, |v| {
                    queue.push((v, 1));
                    v
                });
            }
        }
        while let Some((value, components)) = queue.pop() {
            let slot: &mut Components = &mut live[value.0 as usize];
            if *slot | components == *slot {
                continue;
            }
            *slot |= components;
            let components = *slot;
            match self.node(value) {
                Node::Param(_) => queue.extend(incoming[value.0 as usize].iter().map(|&arg| (arg, components))),
                node => for_each_read(node, components, |v, c| queue.push((v, c))),
            }
        }
        live
    }
}
