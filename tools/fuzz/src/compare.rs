//! [`Case`] x engines -> [`Agreement`], or the first [`Divergence`] from the interpreter.
//!
//! [`picajit::internals::diff`] compares two kernels. This file adds engines that reject a program, which is
//! counted and no divergence, and engines that panic, which is one.

use super::case::Case;
use picajit::internals::diff::{Difference, NamedKernel, Reference};
use picajit::internals::kernel::{Backend, KernelStats, Unsupported};
use picajit::state::Exit;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Name of the engine that all others are compared with.
pub const REFERENCE: &str = "interp";

/// An engine and its name in reports.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// The name.
    pub name: &'a str,
    /// The engine.
    pub backend: &'a dyn Backend,
}

/// Result of a comparison without divergence.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// How each vertex ended.
    pub exits: Vec<Exit>,
    /// Emitted triangles, over all vertices.
    pub triangles: u64,
    /// Emitted vertices.
    pub emitted: u64,
    /// For each engine, the reason if it rejected the program.
    pub rejected: Vec<Option<Unsupported>>,
    /// Statistics of each engine's kernel.
    pub seen: Vec<KernelStats>,
}

/// How an engine differs from the interpreter.
#[derive(Clone, Debug)]
pub enum Misbehaviour {
    /// Its results have other bits.
    Difference(Difference),
    /// It panicked, with this message.
    Panic(String),
}

/// An engine that differs from the interpreter on a case.
#[derive(Clone)]
pub struct Divergence {
    /// The case.
    pub case: Case,
    /// The engine's name.
    pub engine: String,
    /// How it differs.
    pub found: Misbehaviour,
    /// [`Divergence::summary`] before shrinking, which may end at another divergence.
    pub originally: Option<String>,
}

impl Divergence {
    /// Everything but the case, in a line.
    pub fn summary(&self) -> String {
        let Difference { vertex, how, rows, .. } = match &self.found {
            Misbehaviour::Panic(message) => return format!("{}: a panic: {message}", self.engine),
            Misbehaviour::Difference(difference) => difference,
        };
        let place = rows.iter().find(|row| row.differs);
        let (place, want, got) = place.map_or(("something", "", ""), |r| (&r.location, &r.values[0], &r.values[1]));
        let (want, got) = (want.trim(), got.trim());
        format!("{} {how}, vertex {vertex}: {place} is {got}, but on the interpreter {want}", self.engine)
    }

    /// The vertex at which the engines differ.
    pub fn vertex(&self) -> usize {
        match &self.found {
            Misbehaviour::Difference(difference) => difference.vertex,
            Misbehaviour::Panic(_) => self.case.inputs.len().saturating_sub(1),
        }
    }
}

impl fmt::Debug for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.summary(), self.case.name)
    }
}

/// Runs `case` on the interpreter and on every engine, in order. The divergence is not shrunk; see
/// [`super::shrink()`].
pub fn compare(case: &Case, engines: &[Engine<'_>]) -> Result<Agreement, Box<Divergence>> {
    let interp = case.interp();
    let reference = Reference::run(NamedKernel { name: REFERENCE, kernel: &interp }, &case.work());
    let (mut rejected, mut seen) = (Vec::new(), Vec::new());
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
            Ok(Ok((Some(difference), _))) => Some(Misbehaviour::Difference(difference)),
            Ok(Err(unsupported)) => {
                rejected.push(Some(unsupported));
                seen.push(KernelStats::default());
                continue;
            }
            Err(panic) => {
                let message = panic.downcast_ref::<String>().cloned();
                let message = message.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
                Some(Misbehaviour::Panic(message.unwrap_or_else(|| "without a message".into())))
            }
        };
        if let Some(found) = found {
            return Err(Box::new(Divergence { case: case.clone(), engine: name.into(), found, originally: None }));
        }
        rejected.push(None);
    }
    let (triangles, emitted) = (reference.triangles(), reference.emitted());
    Ok(Agreement { exits: reference.exits().collect(), triangles, emitted, rejected, seen })
}
