//! [`Divergence`] -> the first instruction whose result differs, with the registers of both engines behind it.
//!
//! Native code has no place to stop at, so the program is cut instead: the word that follows an instruction becomes `END`, and the
//! interpreter and the engine run what is left, each in every way. The cuts are made in the order in which the interpreter
//! first arrives at the words, so each run is a prefix of the run in question, and the first that differs ends with
//! the instruction to blame.
//!
//! Where that is not sound, it says nothing: a difference that needs a word to be executed again (the second round of a loop) has no
//! cut of its own, nor has one that needs the fuel to run out or the vertices before it; and a cut is another program, whose
//! compiler may no longer make the mistake. Emitted triangles are compared like registers, but the registers shown are those
//! of one vertex alone. It must not know how the result is printed.

use super::case::Case;
use super::compare::{Divergence, Engine, Found, compare};
use super::edit::{END, with_code};
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
    let mut steps: Vec<(Pc, Inst, Pc, usize)> = Vec::new();
    let mut seen = HashSet::from([case.entry.pc]);
    let (mut count, mut again) = (0, false);
    case.trace(&mut |step| {
        count += 1;
        match step.next {
            Some(next) if seen.insert(next) => steps.push((step.pc, *step.inst, next, count)),
            Some(_) => again = true,
            None => {}
        }
    });
    for (pc, inst, next, step) in steps.into_iter().take(MAX_CUTS) {
        let mut cut = case.clone();
        let code = case.program.code();
        if let Some(&word) = code.get(usize::from(next))
            && word != END
        {
            cut.program = Arc::new(with_code(&case.program, |code| code[usize::from(next)] = END));
        }
        if let Err(found) = compare(&cut, &[engine]) {
            let (difference, panics) = (found.summary(), matches!(found.found, Found::Panic(_)));
            let want = run(&cut, &cut.interp());
            let got = (!panics)
                .then(|| engine.backend.compile(&cut.program, cut.entry, &cut.config).ok())
                .flatten()
                .map(|kernel| run(&cut, &*kernel));
            return Explanation::At(Box::new(Blame { pc, inst, step, difference, units: [Some(want), got] }));
        }
    }
    Explanation::Unknown(match again {
        true => "every prefix that runs no word twice agrees, so it takes a loop or fuel",
        false => "every prefix agrees, and only the whole program differs",
    })
}

fn run(case: &Case, kernel: &dyn Kernel) -> Box<Unit> {
    let mut unit = case.unit_at(0);
    kernel.run(&case.uniforms, &mut unit, &mut NoEmitter);
    Box::new(unit)
}
