//! Seeds -> cases -> every engine against the interpreter, on several threads.
//!
//! Invariant: the result depends on the plan and not on the threads. Blocks of programs are taken in turn and put together in
//! their order; after a divergence nothing that comes later counts. It must not know which engines there are.

use super::case::Case;
use super::compare::{Divergence, Engine, compare};
use super::generate::{Tier, case_from_seed};
use super::stats::Stats;
use crate::isa::numeric::Precision;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// Vertices that a case has at most: batches of every size, and some more.
pub const VERTICES: u32 = 31;
/// Programs that a thread takes at a time.
const BLOCK: u64 = 32;

/// What a sweep is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the first program; the next one has the next seed.
    pub seed: u64,
    /// How many programs.
    pub programs: u64,
    /// Their tier; all tiers mixed if there is none.
    pub tier: Option<Tier>,
    /// The number formats that each program is run in. None at all: one for each program, that the generator picks.
    pub precisions: Vec<Precision>,
    /// Vertices of a program at most.
    pub vertices: u32,
    /// Threads that work.
    pub threads: usize,
    /// When no further programs are begun. What has been compared then depends on the machine.
    pub until: Option<Instant>,
}

impl Default for Plan {
    fn default() -> Plan {
        let (seed, programs) = (1, 10_000);
        Plan { seed, programs, tier: None, precisions: Vec::new(), vertices: VERTICES, threads: 1, until: None }
    }
}

impl Plan {
    /// The cases of program `n`, one for each number format.
    pub fn cases(&self, n: u64) -> Vec<Case> {
        let seed = self.seed.wrapping_add(n);
        let mut case = case_from_seed(seed, self.tier, self.vertices);
        if self.vertices == VERTICES {
            // The command makes cases of that many.
            let tier = self.tier.map_or(String::new(), |tier| format!(" --tier {}", tier.name()));
            case.name = format!("{} (picajit fuzz --programs 1 --seed {seed}{tier})", case.name);
        }
        if self.precisions.is_empty() {
            return vec![case];
        }
        let mut cases = vec![case; self.precisions.len()];
        cases.iter_mut().zip(&self.precisions).for_each(|(case, &precision)| case.config.precision = precision);
        cases
    }
}

/// What came of a sweep.
pub struct Swept {
    /// All programs, up to the divergence if there is one: that one is counted as a program and not as a comparison.
    pub stats: Stats,
    /// The first divergence, as it was found.
    pub divergence: Option<Box<Divergence>>,
}

/// A block's number and what came of it.
type Block = (u64, Stats, Option<Box<Divergence>>);

/// Runs a plan. `progress` is called on this thread with what has been counted so far.
pub fn sweep(plan: &Plan, engines: &[Engine<'_>], progress: &mut dyn FnMut(&Stats)) -> Swept {
    let blocks = plan.programs.div_ceil(BLOCK);
    let (next, divergent) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            let (sender, next, divergent) = (sender.clone(), &next, &divergent);
            scope.spawn(move || {
                // A block that has been taken is finished, so that there are no gaps.
                while plan.until.is_none_or(|until| Instant::now() < until) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= blocks || n > divergent.load(Ordering::Relaxed) {
                        break;
                    }
                    let (stats, divergence) = block(plan, n, engines, divergent);
                    if divergence.is_some() {
                        divergent.fetch_min(n, Ordering::Relaxed);
                    }
                    if sender.send((n, stats, divergence)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        collect(receiver, engines, progress)
    })
}

/// Puts blocks together in their order.
fn collect(receiver: mpsc::Receiver<Block>, engines: &[Engine<'_>], progress: &mut dyn FnMut(&Stats)) -> Swept {
    let mut swept = Swept { stats: Stats::new(engines), divergence: None };
    let (mut waiting, mut wanted) = (BTreeMap::new(), 0);
    for (n, stats, divergence) in receiver {
        waiting.insert(n, (stats, divergence));
        while let Some((stats, divergence)) = waiting.remove(&wanted).filter(|_| swept.divergence.is_none()) {
            swept.stats.add(&stats);
            swept.divergence = divergence;
            wanted += 1;
        }
        progress(&swept.stats);
    }
    swept
}

/// Block `n`, up to its first divergence. Given up when an earlier block has one.
fn block(plan: &Plan, n: u64, engines: &[Engine<'_>], divergent: &AtomicU64) -> (Stats, Option<Box<Divergence>>) {
    let mut stats = Stats::new(engines);
    for program in n * BLOCK..plan.programs.min(n.saturating_add(1).saturating_mul(BLOCK)) {
        if divergent.load(Ordering::Relaxed) < n {
            break;
        }
        for (k, case) in plan.cases(program).iter().enumerate() {
            if k == 0 {
                stats.program(case);
            }
            match compare(case, engines) {
                Ok(outcome) => stats.comparison(&outcome),
                Err(divergence) => return (stats, Some(divergence)),
            }
        }
    }
    (stats, None)
}
