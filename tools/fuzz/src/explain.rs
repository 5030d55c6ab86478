//! [`Divergence`] -> the first instruction whose result differs, with the registers of both engines
//! after it.
//!
//! Native code can't stop between instructions, so the program is truncated instead. Where the
//! interpreter reaches a word for the first time, that word becomes `END`. Where it branches
//! backward, fuel runs out. Either way the truncated program executes a prefix of the run, on the
//! interpreter and on the engine, singly and in batches. The first prefix that differs ends with
//! the instruction to blame. In later iterations of a loop several instructions may be to blame;
//! the report then names the range.
//!
//! Limits: a difference that needs earlier vertices has no prefix to compare. A truncated program
//! is another program, whose compilation may lack the fault, so that a later instruction is blamed.
//! Emitted triangles are compared like registers, but the registers shown are those after `run`.

use super::case::Case;
use super::compare::{Divergence, Engine, Misbehaviour, compare};
use super::edit::{END, with_code};
use picajit::internals::flow::is_backward;
use picajit::internals::kernel::Kernel;
use picajit::isa::{Inst, Pc};
use picajit::state::{NoEmitter, Unit};
use std::collections::HashSet;
use std::sync::Arc;

/// Most prefixes that are tried. A shrunk program has a handful of words.
const MAX_CUTS: usize = 512;

/// Where a divergence begins.
#[derive(Clone, Debug)]
pub enum Explanation {
    /// The instruction whose result differs.
    At(Box<Blame>),
    /// No instruction can be named, for this reason.
    Unknown(&'static str),
}

/// An instruction, and the state of two engines after it.
#[derive(Clone, Debug)]
pub struct Blame {
    /// Its address.
    pub pc: Pc,
    /// The instruction.
    pub inst: Inst,
    /// Instructions that the interpreter has executed, this one included.
    pub step: usize,
    /// Instructions executed when the engines last agree. Less than `step - 1` if the instructions
    /// between may be to blame too.
    pub agreed: usize,
    /// The difference, in a line.
    pub difference: String,
    /// The interpreter's registers and the engine's; `None` if the engine panics.
    pub units: [Option<Box<Unit>>; 2],
}

/// Finds the first instruction whose result `engine` gets wrong.
pub fn explain(divergence: &Divergence, engine: Engine<'_>) -> Explanation {
    let vertex = divergence.vertex();
    let case = if divergence.case.inputs.len() == 1 { divergence.case.clone() } else { divergence.case.alone(vertex) };
    if compare(&case, &[engine]).is_ok() {
        return Explanation::Unknown("the vertex does not differ without those before it");
    }
    let mut points: Vec<Point> = Vec::new();
    let mut seen = HashSet::from([case.entry.pc]);
    let mut step = 0;
    case.trace(&mut |at| {
        step += 1;
        let cut = match at.next {
            Some(next) if seen.insert(next) => Cut::End(next),
            // This transfer, and none before it, finds more words executed.
            Some(next) if is_backward(at.pc, next) => Cut::Fuel(step as u32 - 1),
            Some(_) => return,
            None => Cut::Nothing,
        };
        // The complete run is the last prefix.
        points.truncate(MAX_CUTS);
        points.push(Point { pc: at.pc, inst: *at.inst, step, cut });
    });
    let mut agreed = 0;
    for Point { pc, inst, step, cut } in points {
        let cut = cut.of(&case);
        let Err(found) = compare(&cut, &[engine]) else {
            agreed = step;
            continue;
        };
        let (difference, panics) = (found.summary(), matches!(found.found, Misbehaviour::Panic(_)));
        let want = run(&cut, &cut.interp());
        let kernel = || engine.backend.compile(&cut.program, cut.entry, &cut.config).ok();
        let got = if panics { None } else { kernel().map(|kernel| run(&cut, &*kernel)) };
        return Explanation::At(Box::new(Blame { pc, inst, step, agreed, difference, units: [Some(want), got] }));
    }
    Explanation::Unknown("every part of the run agrees, and only the whole differs")
}

/// An instruction of a run, and how to stop after it.
struct Point {
    pc: Pc,
    inst: Inst,
    step: usize,
    cut: Cut,
}

/// How a run is stopped.
enum Cut {
    /// By `END` at the word that follows.
    End(Pc),
    /// By this amount of fuel.
    Fuel(u32),
    /// By the program's own end.
    Nothing,
}

impl Cut {
    fn of(&self, case: &Case) -> Case {
        let mut cut = case.clone();
        match *self {
            Cut::End(pc) if usize::from(pc) < case.program.code().len() => {
                cut.program = Arc::new(with_code(&case.program, |code| code[usize::from(pc)] = END));
            }
            Cut::Fuel(fuel) => cut.config.fuel = fuel,
            Cut::End(_) | Cut::Nothing => {}
        }
        cut
    }
}

fn run(case: &Case, kernel: &dyn Kernel) -> Box<Unit> {
    let mut unit = case.unit_at(0);
    kernel.run(&case.uniforms, &mut unit, &mut NoEmitter);
    Box::new(unit)
}
