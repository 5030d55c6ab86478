//! Blocks of a [`Cfg`](crate::ir::cfg::Cfg) -> the registers that runs read, write and keep, by
//! component, and whether the vertices of a batch are independent.
//!
//! A batch means vertices in order on one unit, with registers carried over. Vertices may run in
//! any order, or as groups, if no vertex observes the state that another one leaves:
//!
//! * A component that no run writes is loop-invariant for the batch and may be read.
//! * Neither the values that a run writes nor its control flow may depend on what a written
//!   component held at the start.
//! * Some paths may *keep* a written component. In the unit it then has the value of the last vertex
//!   that wrote it.
//!
//! So what a run writes does not depend on earlier runs: vertex n, after the last writers of the
//! kept components in order, gives the unit after vertex n. Runs that end for want of fuel are not
//! covered; their callers run vertices in order. The proof holds for any group size.
//!
//! What an EMIT sends is written like what a run leaves. Both output banks count as one: a run may begin
//! with either, and a value never leaves its bank. So where nothing is carried, invocations that end may
//! run in any order, if their vertices are sent in order. If all take the same path too, the last two in
//! order give the unit: an odd number of EMITs puts the outputs of one invocation and of the next into
//! different banks.
//!
//! The analysis is liveness, backward to a fixed point, in its strong form: an instruction reads
//! only what its live results depend on. Both branches of each condition count.

use super::effects::{reads, reads_for, tested, writes};
use crate::ir::cfg::{Block, Cfg, Step, Terminator};
use crate::ir::register_set::RegisterSet;
use crate::isa::flow::Exit;
use crate::isa::{Inst, Stage, Test};
use std::fmt;
use std::ops::BitOr;

/// Why the vertices of a batch may depend on each other; such vertices run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dependence {
    /// The program emits, and the host sees the order.
    Emits,
    /// Invocations emit, and may take different paths.
    EmitsOnPaths,
    /// Control flow exceeds the limits of a graph, so nothing is proved.
    NoGraph,
    /// No run reaches an END, the only exit that code for groups has.
    NeverEnds,
    /// A run depends on carried registers: components that an earlier run left.
    Carried(RegisterSet),
}

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dependence::Emits => f.write_str("it emits"),
            Dependence::EmitsOnPaths => f.write_str("it emits, and a branch is divergent"),
            Dependence::NoGraph => f.write_str("control flow exceeds the limits of a graph"),
            Dependence::NeverEnds => f.write_str("no run reaches an END"),
            Dependence::Carried(components) => write!(f, "{components} may hold values of an earlier vertex"),
        }
    }
}

/// What the runs of an entry read, write and keep, by component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterUse {
    /// Components that some run writes.
    pub written: RegisterSet,
    /// Components that instructions set. An EMIT exchanges the outputs, so it writes all of them; these are
    /// without that.
    pub set: RegisterSet,
    /// Written components that some run leaves as they are.
    pub kept: RegisterSet,
    /// Components whose value at the start is read for one that a run leaves, or for its control
    /// flow.
    pub read_first: RegisterSet,
    /// Components that an earlier run may have left and that are read first: for one that a run that
    /// ends leaves or emits, or for its control flow. Outputs of either bank; with EMIT its parameters too.
    pub carried: RegisterSet,
    /// Why vertices may depend on each other; `None`: they are independent.
    pub dependence: Option<Dependence>,
    /// Whether some run ends, and all that end on the same uniforms are known to write the same components. Either
    /// no branch tests a flag, so runs take the same path, or each path to an exit writes all of
    /// them. Programs whose flags depend on uniforms alone, or that write some components where a
    /// flag decides and others where a uniform decides, may do so without being known to.
    pub writes_alike: bool,
    /// Whether each run that has fuel reaches an END.
    pub always_ends: bool,
}

impl RegisterUse {
    /// That of a graph.
    pub fn new(cfg: &Cfg) -> RegisterUse {
        let flow = Flow::new(cfg, OUTPUTS);
        let Flow { stage, blocks, ref effects } = flow;
        let written = effects.iter().fold(RegisterSet::NONE, |all, effect| all | effect.written);
        // A run that ends leaves each written component, be it as it was.
        let left = Live { kept: written, ..Live::NONE };
        let at_exits = flow.live_at_start(&|_| left, Live::NONE);
        let runs_out = blocks.iter().flat_map(|block| block.term.edges()).any(|edge| edge.backward);
        let at_ends = if runs_out { flow.live_at_start(&|_| left, left) } else { at_exits };

        let steps = || blocks.iter().flat_map(|block| &block.steps);
        let emission = |step: &Step| matches!(step, Step::Inst(_, Inst::Emit | Inst::Setemit(_)));
        let emits = stage == Stage::Geometry && steps().any(emission);
        let set = steps().fold(RegisterSet::NONE, |all, step| match step {
            Step::Inst(_, inst) => all | writes(inst),
            Step::LoopBegin { .. } => all | RegisterSet::state(RegisterSet::A_L),
        });
        let either_bank = RegisterSet { outputs: at_exits.hidden, ..at_exits.read } | at_exits.read;
        let carried = either_bank & set;
        let dependence = match () {
            () if emits => Some(Dependence::Emits),
            () if !carried.is_empty() => Some(Dependence::Carried(carried)),
            () => None,
        };
        let tests_flags = |block: &Block| matches!(block.term, Terminator::Branch { test: Test::Flags(_), .. });
        let ends = blocks.iter().any(|block| block.term == Terminator::Exit(Exit::End));
        let writes_alike = ends && (!blocks.iter().any(tests_flags) || at_exits.kept.is_empty());
        let always_ends =
            ends && blocks.iter().all(|block| !matches!(block.term, Terminator::Exit(exit) if exit != Exit::End));
        let read_first = at_ends.read & !RegisterSet::state(RegisterSet::SETEMIT);
        RegisterUse { written, set, kept: at_ends.kept, read_first, carried, dependence, writes_alike, always_ends }
    }

    /// That of a program whose control flow is not a graph: all that its instructions may.
    pub fn of_words(stage: Stage, insts: impl Iterator<Item = Inst>) -> RegisterUse {
        let nothing = (RegisterSet::NONE, RegisterSet::state(RegisterSet::A_L));
        let (read, written) = insts.fold(nothing, |(read, written), inst| {
            (read | reads(&inst) | emitted(&inst, stage), written | inst_writes(&inst, stage))
        });
        let dependence = Some(Dependence::NoGraph);
        let read_first = read | written;
        let (set, kept, carried) = (written, written, read_first);
        RegisterUse { written, set, kept, read_first, carried, dependence, writes_alike: false, always_ends: false }
    }
}

/// The registers whose initial contents show in observable effects: the outputs `shown` where a vertex
/// run ends and in emitted vertices, control flow, and registers that a run leaves for the next one to show.
pub fn shown_at_start(cfg: &Cfg, shown: RegisterSet) -> RegisterSet {
    let flow = Flow::new(cfg, shown);
    let mut before = Live::NONE;
    loop {
        let at_exit = |exit| match (flow.stage, exit) {
            (Stage::Vertex, Exit::End | Exit::PastEnd) => before | Live { read: shown, ..Live::NONE },
            _ => before,
        };
        let mut live = flow.live_at_start(&at_exit, before);
        // The next run may begin with the other bank.
        live.read.outputs |= live.hidden;
        if flow.stage == Stage::Geometry {
            live.hidden = live.read.outputs;
        }
        if live == before {
            return live.read;
        }
        before = live;
    }
}

/// All outputs.
pub const OUTPUTS: RegisterSet = RegisterSet { outputs: !0, ..RegisterSet::NONE };

/// What is live at a point.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Live {
    /// Components that may be read from here on. Outputs: those of the current bank.
    read: RegisterSet,
    /// Outputs of the other bank that may be read.
    hidden: u64,
    /// Components that a run may leave as they are here.
    kept: RegisterSet,
}

impl Live {
    const NONE: Live = Live { read: RegisterSet::NONE, hidden: 0, kept: RegisterSet::NONE };
}

impl BitOr for Live {
    type Output = Live;
    fn bitor(self, o: Live) -> Live {
        Live { read: self.read | o.read, hidden: self.hidden | o.hidden, kept: self.kept | o.kept }
    }
}

/// What a step writes, and what it reads if all of that is live.
struct Effect {
    written: RegisterSet,
    read: RegisterSet,
}

/// The blocks of an entry, and the effects of their steps in order: most steps are live as a whole
/// or dead, so their effects are found once.
struct Flow<'a> {
    stage: Stage,
    blocks: &'a [Block],
    effects: Vec<Effect>,
}

impl Flow<'_> {
    /// `shown`: the outputs that an EMIT reads.
    fn new(cfg: &Cfg, shown: RegisterSet) -> Flow<'_> {
        let stage = cfg.entry.stage;
        let effect = |step: &Step| match step {
            Step::Inst(_, inst) => {
                Effect { written: inst_writes(inst, stage), read: reads(inst) | emitted(inst, stage) & shown }
            }
            // The outermost loop never restores aL.
            Step::LoopBegin { slot, .. } => Effect {
                written: RegisterSet::state(RegisterSet::A_L),
                read: RegisterSet::state(if *slot > 0 { RegisterSet::A_L } else { 0 }),
            },
        };
        let mut effects = Vec::with_capacity(cfg.blocks.iter().map(|block| block.steps.len()).sum());
        effects.extend(cfg.blocks.iter().flat_map(|block| &block.steps).map(effect));
        Flow { stage, blocks: &cfg.blocks, effects }
    }

    /// What is live at the start of a run. `at_exit` is live where it ends, and `out_of_fuel` where
    /// it ends at a backward transfer.
    fn live_at_start(&self, at_exit: &dyn Fn(Exit) -> Live, out_of_fuel: Live) -> Live {
        let mut live = vec![Live::NONE; self.blocks.len()];
        loop {
            let (mut changed, mut cyclic) = (false, false);
            let mut effects = self.effects.iter().rev();
            for (n, block) in self.blocks.iter().enumerate().rev() {
                let mut at = match &block.term {
                    Terminator::Exit(exit) => at_exit(*exit),
                    _ => Live::NONE,
                };
                for edge in block.term.edges() {
                    at = at | live[edge.to] | if edge.backward { out_of_fuel } else { Live::NONE };
                    cyclic |= edge.to <= n;
                }
                match &block.term {
                    Terminator::Branch { test, .. } => at.read = at.read | tested(test),
                    // The sum of aL and the increment is read if aL is. A LOOP has set it.
                    Terminator::LoopEnd { .. } | Terminator::LoopBreak { .. } => at.kept.state &= !RegisterSet::A_L,
                    Terminator::Exit(_) | Terminator::Goto(_) => {}
                }
                for (step, effect) in block.steps.iter().rev().zip(&mut effects) {
                    at = self.before(step, effect, at);
                }
                changed |= at != live[n];
                live[n] = at;
            }
            if !(changed && cyclic) {
                return live[0];
            }
        }
    }

    /// What is live before a step.
    fn before(&self, step: &Step, effect: &Effect, after: Live) -> Live {
        let Live { read, hidden, kept } = after;
        let set = effect.written;
        let live = (read | kept) & set;
        let needed = match step {
            Step::Inst(_, Inst::Emit) if self.stage == Stage::Geometry => {
                // The other bank comes next.
                let read = RegisterSet { outputs: hidden, ..read } | effect.read;
                let read = read | RegisterSet::state(RegisterSet::SETEMIT);
                return Live { read, hidden: after.read.outputs, kept: kept & !set };
            }
            Step::Inst(_, Inst::Setemit(_)) => {
                return Live { read: read & !RegisterSet::state(RegisterSet::SETEMIT), ..after };
            }
            Step::Inst(_, inst) if live != set => reads_for(inst, live),
            _ => effect.read,
        };
        Live { read: read & !set | needed, hidden, kept: kept & !set }
    }
}

/// The components that an instruction writes. An EMIT exchanges the outputs; the state of EMIT is
/// not among them.
fn inst_writes(inst: &Inst, stage: Stage) -> RegisterSet {
    match inst {
        Inst::Setemit(_) => RegisterSet::NONE,
        _ => writes(inst) | emitted(inst, stage),
    }
}

/// The outputs that an instruction emits.
fn emitted(inst: &Inst, stage: Stage) -> RegisterSet {
    if *inst == Inst::Emit && stage == Stage::Geometry { OUTPUTS } else { RegisterSet::NONE }
}

#[cfg(test)]
mod tests;
