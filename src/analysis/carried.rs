//! Definite assignment and SSA liveness -> the registers that a run reads from an earlier one.
//!
//! A component carries if some run may change it, and another run with the same uniforms may depend
//! on what it held at the start. Two analyses must agree on a read: on some path nothing has
//! written the component, and an observable effect depends on the register's initial contents.

use super::assignment::{Assignment, Facts};
use super::effects::reads;
use super::tests_bool;
use crate::ir::analysis::{Components, components_of};
use crate::ir::cfg::Explored;
use crate::ir::register_set::RegisterSet;
use crate::ir::{Func, Inst as Step, Mem, Node, Terminator, Value};
use crate::isa::flow::Exit;
use crate::isa::{Inst, Stage};
use crate::program::Program;

/// The registers of which some observable effect depends on the initial contents: outputs where a
/// vertex run ends, emitted vertices, control flow, and registers that carry such contents on.
pub(crate) fn live_at_start(func: &Func, stage: Stage) -> RegisterSet {
    let mut roots: Vec<(Value, Components)> = Vec::new();
    let mut left: Vec<(Mem, Value)> = Vec::new();
    for block in &func.blocks {
        let ends = match block.term {
            Terminator::Exit(Exit::End | Exit::PastEnd) => stage == Stage::Vertex,
            Terminator::Exit(_) => false,
            _ => true,
        };
        for (_, inst) in &block.insts {
            let Step::Store(mem, value) = *inst else { continue };
            match mem {
                Mem::Out { .. } if ends => roots.push((value, components_of(mem.ty()))),
                _ => left.push((mem, value)),
            }
        }
    }
    loop {
        let live = func.live_from(roots.clone());
        let mut set = RegisterSet::NONE;
        for (node, &components) in func.nodes.iter().zip(&live) {
            if let Node::Load(mem) = *node {
                set = set | of_mem(mem, components);
            }
        }
        // The value that a run leaves in a live register is live for the next run.
        let before = roots.len();
        left.retain(|&(mem, value)| {
            let components = components_of(mem.ty());
            let is_live = !(of_mem(mem, components) & set).is_empty();
            if is_live {
                roots.push((value, components));
            }
            !is_live
        });
        if roots.len() == before {
            return set;
        }
    }
}

fn of_mem(mem: Mem, components: Components) -> RegisterSet {
    match mem {
        _ if components == 0 => RegisterSet::NONE,
        Mem::Temp(n) => RegisterSet::of_temp(n, components),
        Mem::Out { n, .. } => RegisterSet::of_output(n, components),
        Mem::Address(n) => RegisterSet::state(RegisterSet::A0_X << n),
        Mem::LoopCounter => RegisterSet::state(RegisterSet::A_L),
        Mem::Flag(n) => RegisterSet::state(RegisterSet::CMP_X << n),
        Mem::Bank => RegisterSet::NONE,
    }
}

/// The registers that carry, over all assignments.
pub(crate) fn carried(
    program: &Program,
    explored: &Explored,
    func: &Func,
    assignments: &[Assignment],
    stage: Stage,
) -> RegisterSet {
    let live = live_at_start(func, stage);
    let nodes = explored.nodes();
    let mut all = RegisterSet::NONE;
    for assignment in assignments {
        let mut read_first = RegisterSet::NONE;
        for visit in assignment.visits() {
            let node = &nodes[visit.node];
            let inst = program.inst(node.pc);
            if let Some(inst) = &inst {
                read_first = read_first | reads(inst) & !visit.facts.written & live;
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
