//! `picajit stress`: distinct random programs through one engine with a small cache and background
//! threads -> its memory, evictions, tiers and compile times; sampled results against the oracle.
//!
//! Programs depend on the seed alone; which tier serves a run depends on the threads. Exit code 1
//! if a result differs or the process needed more memory than the limits allow.

use crate::report::{self, Live};
use crate::{Status, VerbResult, interrupt};
use clap::value_parser;
use picajit::engine::{Engine, Event, Options, Shader, Tier};
use picajit::internals::diff::{NamedKernel, Reference};
use picajit::internals::kernel::{Config, Kernel, NextKernel};
use picajit::isa::numeric::Precision;
use picajit::isa::{Inst, Pc, Stage};
use picajit::layout::{HostEmitter, HostMemory};
use picajit::program::Program;
use picajit::state::{Batch, BatchExit, Exit, NoEmitter};
use picajit_fuzz::choice::Choices;
use picajit_fuzz::{Case, case_from_seed};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory that the process may need besides the cache.
const MIB_BESIDES_CACHE: u64 = 64;
/// Shaders that the host holds: the latest ones.
const HELD: usize = 256;
/// Vertices of a program's first runs, and of a compared batch.
const VERTICES: u32 = 9;
/// Vertices of a large batch, after which code for groups is compiled.
const LARGE_BATCH: usize = 1088;
/// Every Nth compared shader runs a large batch first.
const LARGE_BATCHES: u64 = 8;
/// Calls of a large program's procedure, and its words: nearly as many states as a graph may have.
const CALLS: usize = 31;
const PROCEDURE: usize = 255;
/// Programs of a stretch, and how many of them are compiled at a time.
const STRETCH: u64 = 512;
const WAIT: u64 = 32;
/// Fuel of each run, so that endless loops end soon.
const FUEL: u32 = 4096;

/// Run random programs through one engine with a small cache, and check its memory and results
#[derive(clap::Args)]
#[command(after_help = "\
Peak memory is known on Linux only. Exit code 1: a result differs from the interpreter's, or the process needed more than the \
cache and 64 MiB. Ctrl-C ends the run with its summary.")]
pub struct Args {
    /// Programs to run
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..))]
    programs: u64,
    /// Begin no further programs after N seconds
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=31_536_000))]
    seconds: Option<u64>,
    /// Seed of the first program; each further program has the next seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Limit of the engine's cache, in MiB
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u64).range(1..=4096))]
    cache: u64,
    /// Background threads of the engine
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u16).range(0..=64))]
    threads: u16,
    /// Compare one of N runs with the interpreter
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u64).range(1..))]
    sample: u64,
    /// Number format of results: f32, f24-nearest or f24-zero
    #[arg(long, value_name = "FORMAT", default_value_t)]
    precision: Precision,
}

/// A shader as a kernel of vertices.
struct Vertices<'a>(&'a Shader);

impl Kernel for Vertices<'_> {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        Some(self.0.run_on(memory, emitter))
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        _: &mut dyn HostEmitter,
        _: &dyn NextKernel,
    ) -> BatchExit {
        self.0.run_batch_on(memory, batch)
    }
}

/// A shader as a kernel of geometry invocations.
struct Invocations<'a>(&'a Shader);

impl Kernel for Invocations<'_> {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        Some(self.0.run_on(memory, emitter))
    }
}

/// The first difference between a shader and the interpreter.
fn difference(case: &Case, shader: &Shader) -> Option<String> {
    let (interp, work) = (case.interp(), case.work());
    let reference = Reference::run(NamedKernel { name: "interp", kernel: &interp }, &work);
    let name = shader.backend();
    let report = match case.entry.stage {
        Stage::Vertex => reference.compare(NamedKernel { name, kernel: &Vertices(shader) }),
        Stage::Geometry => reference.compare(NamedKernel { name, kernel: &Invocations(shader) }),
    };
    report.first.map(|difference| format!("{}:\n{difference}", case.name))
}

/// A batch that is large enough for code that runs groups.
fn large_batch(case: &Case, shader: &Shader) {
    let inputs: Vec<_> = case.inputs.iter().cycle().take(LARGE_BATCH).copied().collect();
    let mut outputs = vec![[[0.0; 4]; 16]; LARGE_BATCH];
    let mut batch = Batch {
        inputs: inputs.as_slice().into(),
        outputs: outputs.as_mut_slice().into(),
        input_mask: case.input_mask,
        output_mask: case.output_mask,
        preserve_unit: case.input_mask & 1 != 0,
    };
    shader.run_batch(&case.uniforms, &mut case.unit.clone(), &mut batch);
}

/// Calls of one procedure, with a case's operations.
fn large_program(case: &Case) -> Option<Program> {
    let computes = |inst: &Inst| matches!(inst, Inst::Alu(_) | Inst::Mova { .. } | Inst::Cmp { .. });
    let operations = case.program.insts().filter(|(_, inst)| computes(inst));
    let words: Vec<u32> = operations.map(|(pc, _)| case.program.code()[usize::from(pc)]).collect();
    let call = Inst::Call { test: None, target: case.entry.pc + CALLS as Pc + 1, len: PROCEDURE as u8 };
    let main = [vec![call.encode(0).ok()?; CALLS], vec![Inst::End.encode(0).ok()?]].concat();
    let before = vec![main[CALLS]; usize::from(case.entry.pc)];
    let procedure = words.iter().cycle().take(PROCEDURE).copied().collect();
    Program::from_words(&[before, main, procedure].concat(), case.program.opdescs()).ok()
}

/// A figure of this process from Linux, in KiB.
fn kib(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

/// The most KiB that a process with a cache of this many MiB may need.
fn limit(cache: u64) -> u64 {
    (cache + MIB_BESIDES_CACHE) << 10
}

fn exceeds(peak: Option<u64>, cache: u64) -> bool {
    peak.is_some_and(|peak| peak > limit(cache))
}

/// What was seen of the shaders.
#[derive(Default)]
struct Seen {
    programs: u64,
    compared: u64,
    /// Of compared shaders, and of all when the host let them go: those on native code.
    compared_native: u64,
    native: u64,
    fallbacks: u64,
    compile_times: Vec<Duration>,
}

impl Seen {
    /// The host lets a shader go.
    fn release(&mut self, shader: &Shader) {
        self.fallbacks += u64::from(shader.fallback_reason().is_some());
        if shader.tier() == Tier::Native {
            self.native += 1;
            self.compile_times.push(shader.compile_time());
        }
    }

    /// Compile times by percentile, in us.
    fn percentiles(&mut self) -> String {
        self.compile_times.sort_unstable();
        let Some(last) = self.compile_times.len().checked_sub(1) else { return "none compiled".into() };
        let at = |share: f64| self.compile_times[(last as f64 * share) as usize].as_micros();
        let list = [("50 %", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999), ("all", 1.0)];
        list.map(|(name, share)| format!("{name} {}", at(share))).join(", ")
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let start = Instant::now();
    let precision = args.precision;
    let (events, kinds) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (counted, listed) = (events.clone(), kinds.clone());
    let options = Options {
        precision,
        fuel: FUEL,
        geometry_fuel: FUEL,
        cache_bytes: (args.cache << 20) as usize,
        threads: args.threads.into(),
        events: Arc::new(move |event: &Event| {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut kinds = listed.lock().unwrap_or_else(PoisonError::into_inner);
            if kinds.len() < 8 {
                kinds.push(event.to_string());
            }
        }),
        ..Options::default()
    };
    let engine = Engine::new(options);
    let until = args.seconds.map(|seconds| start + Duration::from_secs(seconds));
    let (mut seen, mut held, mut different) = (Seen::default(), VecDeque::new(), None);
    let mut choices = Choices::from_seed(args.seed);
    let mut live = Live::new(Some(args.programs));
    let interrupted = interrupt::flag();
    for n in 0..args.programs {
        let stopped = interrupted.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until);
        if different.is_some() || stopped {
            break;
        }
        let mut case = case_from_seed(args.seed.wrapping_add(n), None, VERTICES);
        case.config = Config { precision, fuel: FUEL, ..case.config };
        if (n / STRETCH) % 4 == 1
            && let Some(program) = large_program(&case)
        {
            case.program = Arc::new(program);
        }
        let shader = engine.shader(&case.program, case.entry);
        let mut unit = case.unit.clone();
        shader.run_geometry(&case.uniforms, &mut unit, &mut NoEmitter);
        held.push_back((case, shader));
        if held.len() > HELD
            && let Some((_, shader)) = held.pop_front()
        {
            seen.release(&shader);
        }
        seen.programs += 1;
        // One stretch of four has large programs. One leaves the threads time. In the others they fall behind, and shaders are
        // evicted before their turn.
        if (n / STRETCH).is_multiple_of(4) && n % WAIT == WAIT - 1 {
            engine.wait();
        }
        if n % args.sample == 0 {
            // Any of the last ones, so that some have native code by now.
            let (case, shader) = &held[choices.below(held.len() as u32) as usize];
            if seen.compared.is_multiple_of(LARGE_BATCHES) && case.entry.stage == Stage::Vertex {
                large_batch(case, shader);
            }
            seen.compared += 1;
            seen.compared_native += u64::from(shader.tier() == Tier::Native);
            different = difference(case, shader);
        }
        live.say(seen.programs, || {
            let rate = seen.programs as f64 / start.elapsed().as_secs_f64();
            format!("{} programs ({rate:.0}/s)", seen.programs)
        });
    }
    live.finish();
    let running = start.elapsed();
    engine.wait();
    held.iter().for_each(|(_, shader)| seen.release(shader));
    drop(held);
    let stats = engine.cache_stats();
    let (peak, most) = (kib("VmHWM"), limit(args.cache));
    engine.clear();
    let mib = |kib: Option<u64>| kib.map_or("unknown".into(), |kib| format!("{:.1} MiB", kib as f64 / 1024.0));
    let percentiles = seen.percentiles();
    let Seen { programs, compared, compared_native, native, fallbacks, .. } = seen;
    writeln!(
        out,
        "{programs} programs from seed {}, {}, cache {} MiB, {} background threads: {:.1} s, and {:.1} s until idle\n\
         lookups: {} known, {} new; evictions {}; {} entries of {:.1} MiB at the end\n\
         native when released: {native} of {programs}; fallbacks {fallbacks}; events {}\n\
         compile time of single code in us: {percentiles}\n\
         compared with interp: {compared}, {compared_native} of them on native code: {}\n\
         peak memory: {}, limit {} MiB; after clear {}",
        args.seed,
        precision.name(),
        args.cache,
        args.threads,
        running.as_secs_f64(),
        (start.elapsed() - running).as_secs_f64(),
        stats.hits,
        stats.misses,
        stats.evictions,
        stats.entries,
        stats.bytes as f64 / 1048576.0,
        events.load(Ordering::Relaxed),
        if different.is_some() { "A DIFFERENCE" } else { "no difference" },
        mib(peak),
        most >> 10,
        mib(kib("VmRSS")),
    )?;
    for kind in kinds.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        writeln!(out, "event: {kind}")?;
    }
    if let Some(difference) = &different {
        writeln!(out, "{difference}")?;
    }
    let exceeded = exceeds(peak, args.cache);
    if exceeded {
        report::error("the process needed more memory than the limits allow");
    }
    Ok(if exceeded || different.is_some() { Status::Different } else { Status::Fine })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_programs_results_differ() {
        let engine = Engine::new(Options { fuel: FUEL, geometry_fuel: FUEL, ..Options::default() });
        let cases = (1..40).map(|seed| {
            let mut case = case_from_seed(seed, None, VERTICES);
            case.config = Config { fuel: FUEL, precision: Precision::F32, ..case.config };
            case
        });
        let cases: Vec<_> = cases.collect();
        for pair in cases.windows(2) {
            let shader = engine.shader(&pair[0].program, pair[0].entry);
            assert_eq!(difference(&pair[0], &shader), None);
            if pair[0].entry.stage == Stage::Vertex {
                large_batch(&pair[0], &shader);
            }
        }
        let differs = |pair: &[Case]| {
            let shader = engine.shader(&pair[0].program, pair[0].entry);
            difference(&Case { entry: pair[0].entry, ..pair[1].clone() }, &shader).is_some()
        };
        assert!(cases.windows(2).filter(|pair| differs(pair)).count() > 20);
    }

    #[test]
    fn memory_beyond_the_cache_and_64_mib_is_too_much() {
        assert!(!exceeds(None, 16) && !exceeds(Some(80 << 10), 16) && exceeds(Some((80 << 10) + 1), 16));
        if cfg!(target_os = "linux") {
            assert!(kib("VmHWM") > Some(1000) && kib("VmRSS") > Some(1000) && kib("VmPic").is_none());
        }
    }

    #[test]
    fn percentiles_are_of_all_compile_times() {
        let times = (1..=1000).rev().map(Duration::from_micros).collect();
        let mut seen = Seen { compile_times: times, ..Seen::default() };
        assert_eq!(seen.percentiles(), "50 % 500, 90 % 900, 99 % 990, 99.9 % 999, all 1000");
    }
}
