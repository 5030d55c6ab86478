//! Definite assignment and liveness -> the registers that a run reads from an earlier one.
//!
//! A component carries if some run may change it, and another run with the same uniforms may depend
//! on what it held at the start. Two analyses must agree on a read: on some path nothing has
//! written the component, and an observable effect depends on the register's initial contents
//! ([`shown_at_start`](crate::ir::analysis::carried::shown_at_start)).

use super::assignment::{Assignment, Facts};
use super::tests_bool;
use crate::ir::analysis::effects::reads;
use crate::ir::cfg::Explored;
use crate::ir::register_set::RegisterSet;
use crate::isa::{Inst, Stage};
use crate::program::Program;

/// The registers that carry, over all assignments, of those in `shown`.
pub fn carried(
    program: &Program,
    explored: &Explored,
    shown: RegisterSet,
    assignments: &[Assignment],
    stage: Stage,
) -> RegisterSet {
    let nodes = explored.nodes();
    let mut all = RegisterSet::NONE;
    for assignment in assignments {
        let mut read_first = RegisterSet::NONE;
        for visit in assignment.visits() {
            let node = &nodes[visit.node];
            let inst = program.inst(node.pc);
            if let Some(inst) = &inst {
                read_first = read_first | reads(inst) & !visit.facts.written & shown;
            }
            let seen_outputs = match inst {
                // Past the last word a run ends, as at an END.
                None | Some(Inst::End) => stage == Stage::Vertex,
                Some(Inst::Emit) => stage == Stage::Geometry,
                _ => false,
            };
            if seen_outputs {
                read_first.outputs |= !visit.facts.written.outputs;
            }
            if stage == Stage::Geometry && inst == Some(Inst::Emit) {
                all.state |= emit_state(&visit.facts) & (assignment.ever_written.state | RegisterSet::SLOTS);
            }
        }
        all = all | read_first & assignment.ever_written;
    }
    if stage == Stage::Geometry && tests_bool(explored, 15) {
        all.state |= RegisterSet::B15;
    }
    all
}

/// What an EMIT takes from an earlier run: its parameters, or a vertex of its triangle.
fn emit_state(facts: &Facts) -> u8 {
    let from_before = if facts.written.state & RegisterSet::SETEMIT == 0 { RegisterSet::SETEMIT } else { 0 };
    let (triangle, filled) = match facts.setemit {
        Some(how) => (how.primitive, facts.slots | 1 << how.vertex),
        None => (true, facts.slots),
    };
    from_before | if triangle && filled & 0b111 != 0b111 { RegisterSet::SLOTS } else { 0 }
}
