//! Seeds -> cases -> every engine against the interpreter, on several threads.
//!
//! Invariant: the result depends on the plan, not on the threads; nothing after the first
//! divergence counts.

use super::blocks;
use super::case::Case;
use super::compare::{Divergence, Engine, compare};
use super::generate::{Tier, case_from_seed};
use super::stats::Stats;
use picajit::isa::numeric::Precision;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Most vertices of a case: enough for batches of every compared size.
pub const VERTICES: u32 = 31;

/// Parameters of a sweep.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the first program; the next one has the next seed.
    pub seed: u64,
    /// Number of programs.
    pub programs: u64,
    /// Their tier; `None` mixes all tiers.
    pub tier: Option<Tier>,
    /// Number formats that each program runs in. If empty, the generator picks one for each
    /// program.
    pub precisions: Vec<Precision>,
    /// Most vertices of a program.
    pub vertices: u32,
    /// Worker threads.
    pub threads: usize,
    /// Time after which no program begins. The number of compared programs then depends on the
    /// machine.
    pub until: Option<Instant>,
    /// Once it is set, no program begins.
    pub stop: Arc<AtomicBool>,
}

impl Default for Plan {
    fn default() -> Plan {
        let (seed, programs) = (1, 10_000);
        let (tier, precisions, until, stop) = (None, Vec::new(), None, Arc::default());
        Plan { seed, programs, tier, precisions, vertices: VERTICES, threads: 1, until, stop }
    }
}

impl Plan {
    /// The cases of program `n`, one for each number format.
    pub fn cases(&self, n: u64) -> Vec<Case> {
        let seed = self.seed.wrapping_add(n);
        let mut case = case_from_seed(seed, self.tier, self.vertices);
        if self.vertices == VERTICES {
            // The command generates cases with this number of vertices.
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

/// Result of a sweep.
pub struct Swept {
    /// Statistics up to the divergence, which counts as a program and not as a comparison.
    pub stats: Stats,
    /// The first divergence, not shrunk.
    pub divergence: Option<Box<Divergence>>,
}

/// Runs a plan. Calls `progress` on this thread with the statistics so far.
pub fn sweep(plan: &Plan, engines: &[Engine<'_>], progress: &mut dyn FnMut(&Stats)) -> Swept {
    let mut stats = Stats::new(engines);
    let stopped = || plan.stop.load(Ordering::Relaxed);
    let begin = || !stopped() && plan.until.is_none_or(|until| Instant::now() < until);
    let take = |(part, divergence): (Stats, Option<Box<Divergence>>)| {
        stats.add(&part);
        progress(&stats);
        divergence.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    };
    let count = blocks::count(plan.programs);
    let divergence = blocks::in_order(count, plan.threads, begin, |n| block(plan, n, engines), take).break_value();
    Swept { stats, divergence }
}

/// Block `n`, up to its first divergence.
fn block(plan: &Plan, n: u64, engines: &[Engine<'_>]) -> (Stats, Option<Box<Divergence>>) {
    let mut stats = Stats::new(engines);
    for program in blocks::programs(n, plan.programs) {
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
