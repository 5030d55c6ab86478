//! [`Divergence`] -> the first instruction whose result differs, with the registers of both engines behind it.
//!
//! Native code has no place to stop at, so the program is cut instead, in two ways. Where the interpreter arrives at a
//! word for the first time, that word becomes `END`; where it goes backward, fuel runs out. Either way what is left
//! runs exactly as far as the whole did until then, on the interpreter and on the engine, each in every way of running.
//! The first cut that differs ends with the instruction to blame, or, in the later rounds of a loop, with one of
//! several: then it is said which ones they are.
//!
//! Where that is not sound, it says so or nothing: a difference that needs the vertices before it has no cut; and a cut
//! is another program, whose compiler may no longer make the mistake, so that a later instruction is blamed. Emitted
//! triangles are compared like registers, but the registers shown are those that `run` leaves. It must not know how the
//! result is printed.

use super::case::Case;
use super::compare::{Divergence, Engine, Found, compare};
use super::edit::{END, with_code};
use crate::isa::flow::is_backward;
use crate::isa::{Inst, Pc};
use crate::kernel::Kernel;
use crate::state::{NoEmitter, Unit};
use std::collections::HashSet;
use std::sync::Arc;

/// Cuts that are tried. A program that has been shrunk has a handful of words.
const MAX_CUTS: usize = 512;

/// What is known of a divergence's beginning.
#[derive(Clone, Debug)]
pub enum Explanation {
    /// The instruction whose result differs.
    At(Box<Blame>),
    /// No instruction can be named, for this reason.
    Unknown(&'static str),
}

/// An instruction, and what two engines have behind it.
#[derive(Clone, Debug)]
pub struct Blame {
    /// Its address.
    pub pc: Pc,
    /// Itself.
    pub inst: Inst,
    /// How many instructions the interpreter has executed then, this one included.
    pub step: usize,
    /// How many it has executed when everything still agrees; one less, or the instructions between are under suspicion
    /// too.
    pub agreed: usize,
    /// What differs, in a line.
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
    let (mut step, mut backward) = (0, 0);
    case.trace(&mut |at| {
        step += 1;
        let cut = match at.next {
            Some(next) if seen.insert(next) => Cut::End(next),
            Some(next) if is_backward(at.pc, next) => Cut::Fuel(backward),
            Some(_) => return,
            None => Cut::Nothing,
        };
        backward += u32::from(at.next.is_some_and(|next| is_backward(at.pc, next)));
        // The whole run is the last point, whatever there was before.
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
        let (difference, panics) = (found.summary(), matches!(found.found, Found::Panic(_)));
        let want = run(&cut, &cut.interp());
        let kernel = || engine.backend.compile(&cut.program, cut.entry, &cut.config).ok();
        let got = if panics { None } else { kernel().map(|kernel| run(&cut, &*kernel)) };
        return Explanation::At(Box::new(Blame { pc, inst, step, agreed, difference, units: [Some(want), got] }));
    }
    Explanation::Unknown("every part of the run agrees, and only the whole differs")
}

/// An instruction of a run, and how to stop behind it.
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
    /// By so little fuel.
    Fuel(u32),
    /// It ends there anyway.
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
