//! [`Case`] x engines -> [`Outcome`], or the first [`Divergence`] from the interpreter.
//!
//! How two kernels are compared is [`crate::diff`]'s to say; here are the engines that refuse a program, which is noted and
//! not blamed, and those that panic, which is a divergence like any other. It must not know which engines there are.

use super::case::Case;
use crate::diff::{Difference, NamedKernel, Reference};
use crate::kernel::{Backend, KernelStats, Unsupported};
use crate::state::Exit;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What everything is compared with, by name.
pub const REFERENCE: &str = "interp";

/// An engine and the name it goes by in reports.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// The name.
    pub name: &'a str,
    /// The engine.
    pub backend: &'a dyn Backend,
}

/// What a comparison without divergence saw.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How each vertex ended.
    pub exits: Vec<Exit>,
    /// Triangles sent in all.
    pub triangles: u64,
    /// For every engine, why it did not compile the program, if it did not.
    pub refused: Vec<Option<Unsupported>>,
    /// What each engine's kernel has seen.
    pub seen: Vec<KernelStats>,
}

/// What an engine did that the interpreter does not do.
#[derive(Clone, Debug)]
pub enum Found {
    /// It left other bits.
    Difference(Difference),
    /// It panicked, with this message.
    Panic(String),
}

/// An engine that did something else than the interpreter.
#[derive(Clone)]
pub struct Divergence {
    /// What was run.
    pub case: Case,
    /// The engine's name.
    pub engine: String,
    /// What it did.
    pub found: Found,
    /// [`Divergence::summary`] as it was before shrinking, which may have come upon another one.
    pub originally: Option<String>,
}

impl Divergence {
    /// Everything but the case, in a line.
    pub fn summary(&self) -> String {
        let Difference { vertex, how, rows, .. } = match &self.found {
            Found::Panic(message) => return format!("{}: a panic: {message}", self.engine),
            Found::Difference(difference) => difference,
        };
        let place = rows.iter().find(|row| row.differs);
        let (place, want, got) = place.map_or(("something", "", ""), |r| (&r.location, &r.values[0], &r.values[1]));
        let (want, got) = (want.trim(), got.trim());
        format!("{} {how}, vertex {vertex}: {place} is {got}, but on the interpreter {want}", self.engine)
    }

    /// The vertex that it was noticed at.
    pub fn vertex(&self) -> usize {
        match &self.found {
            Found::Difference(difference) => difference.vertex,
            Found::Panic(_) => self.case.inputs.len().saturating_sub(1),
        }
    }
}

impl fmt::Debug for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.summary(), self.case.name)
    }
}

/// Runs `case` on the interpreter and on every engine, in their order. The divergence is reported as it was found; see
/// [`super::shrink()`].
pub fn compare(case: &Case, engines: &[Engine<'_>]) -> Result<Outcome, Box<Divergence>> {
    let interp = case.interp();
    let reference = Reference::run(NamedKernel { name: REFERENCE, kernel: &interp }, &case.work());
    let (mut refused, mut seen) = (Vec::new(), Vec::new());
    for &Engine { name, backend } in engines {
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let kernel = backend.compile(&case.program, case.entry, &case.config)?;
            let difference = reference.compare(NamedKernel { name, kernel: &*kernel }).first;
            Ok((difference, kernel.stats()))
        }));
        let found = match checked {
            Ok(Ok((None, stats))) => {
                seen.push(stats);
                None
            }
            Ok(Ok((Some(difference), _))) => Some(Found::Difference(difference)),
            Ok(Err(unsupported)) => {
                refused.push(Some(unsupported));
                seen.push(KernelStats::default());
                continue;
            }
            Err(panic) => {
                let message = panic.downcast_ref::<String>().cloned();
                let message = message.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
                Some(Found::Panic(message.unwrap_or_else(|| "without a message".into())))
            }
        };
        if let Some(found) = found {
            return Err(Box::new(Divergence { case: case.clone(), engine: name.into(), found, originally: None }));
        }
        refused.push(None);
    }
    Ok(Outcome { exits: reference.exits().collect(), triangles: reference.triangles(), refused, seen })
}
