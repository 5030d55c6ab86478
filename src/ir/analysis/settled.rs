//! Settled components: every run leaves a temporary with the same value, which depends on uniforms
//! alone. What the first run reads there is what an earlier program or other uniforms left; any later
//! run reads that value. So after one run no later one depends on another.
//!
//! mGBA's geometry program reads r4.zw as factors of zeros, and ends with r4.zw = c95.zy.

use super::components;
use crate::ir::register_set::RegisterSet;
use crate::ir::{Func, Inst, Mem, Node, Terminator};
use crate::isa::flow::Exit;

impl Func {
    /// Whether one run settles all these components: they are temporaries, and the runs that end leave
    /// them with the same values of the uniforms, whatever registers held. For a function in SSA form.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // only code for groups asks
    pub(crate) fn settles(&self, carried: RegisterSet) -> bool {
        let temps = RegisterSet { temps: carried.temps, ..RegisterSet::NONE };
        if carried != temps {
            return false;
        }
        let varies = self
            .closure(|value| matches!(self.node(value), Node::Input(_) | Node::Load(_) | Node::Param(_)), |_| false);
        // All runs that end do so in one block.
        let mut ends = self.blocks.iter().filter(|block| block.term == Terminator::Exit(Exit::End));
        let (Some(end), None) = (ends.next(), ends.next()) else { return false };
        let left = |n: u8| {
            end.insts.iter().rev().find_map(|(_, inst)| match *inst {
                Inst::Store(Mem::Temp(to), value) if to == n => Some(value),
                _ => None,
            })
        };
        let settles = |value, c| !varies[self.origin(value, c).0.0 as usize];
        (0..16)
            .filter(|&n| carried.temp(n) != 0)
            .all(|n| left(n).is_some_and(|value| components(carried.temp(n)).all(|c| settles(value, c))))
    }
}
