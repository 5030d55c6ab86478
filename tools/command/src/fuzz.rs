//! `picajit fuzz`: random programs -> results of every engine, compared bit by bit; statistics of
//! the programs; and the first difference, shrunk, as a test file.
//!
//! Standard output is the summary, or the test file alone if there is a difference (the summary
//! then goes to standard error). With `--print` it has hashes of one engine's results instead. It
//! depends on seed, tier, formats and number of programs, not on threads.

use crate::measure::{self, Cpu};
use crate::report::{self, Live};
use crate::{Status, VerbResult, cpu, interrupt, regress_file};
use clap::builder::PossibleValuesParser;
use clap::value_parser;
use picajit::internals::kernel::Unsupported;
use picajit::isa::numeric::Precision;
use picajit_fuzz::digest::digests;
use picajit_fuzz::stats::{EXITS, TRAITS};
use picajit_fuzz::{Engine, Plan, Stats, Swept, Tier, sweep};
use serde_json::{Map, Value, json};
use std::fmt;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Default number of programs.
const PROGRAMS: u64 = 10_000;
/// Selects every tier or every number format.
const ALL: &str = "all";
/// Values of `--print`.
const ENGINES: [&str; 4] = ["interp", "tier0", "unoptimised", "batch"];

/// Run random programs on every engine and compare all results bit by bit
#[derive(clap::Args)]
#[command(after_help = "\
The same seed gives the same programs on every machine, with any number of threads; program N of seed S is the first one of seed \
S + N. A difference ends the run: it is shrunk and printed as a test file, and the exit code is 1. Ctrl-C ends the run with its \
summary.")]
pub struct Args {
    /// Programs to run [default: 10000, or until --seconds have passed]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    programs: Option<u64>,
    /// Begin no further programs after N seconds
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=31_536_000))]
    seconds: Option<u64>,
    /// Seed of the first program; each further program has the next seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Kinds of programs: random words, random instructions, sensible programs, or all mixed
    #[arg(long, default_value = ALL, value_parser = names(Tier::ALL.into_iter().map(Tier::name)))]
    tier: String,
    /// Number format, or all
    #[arg(long, default_value = ALL, value_parser = names(Precision::ALL.into_iter().map(Precision::name)))]
    precision: String,
    /// Worker threads [default: one for each of the machine's]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Target CPU of native code: this machine's, or the least that is supported
    #[arg(long, default_value = "host", value_parser = cpu::parser())]
    cpu: Cpu,
    /// Compare nothing; run this engine (interp, tier0, unoptimised or batch) and print a line with a hash
    /// of all results for each program and number format, to compare between machines
    #[arg(long, value_name = "ENGINE", value_parser = ENGINES, conflicts_with_all = ["json", "seconds"])]
    print: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn names(names: impl Iterator<Item = &'static str>) -> PossibleValuesParser {
    PossibleValuesParser::new(names.chain([ALL]))
}

impl Args {
    fn plan(&self, start: Instant) -> Plan {
        let usual = || std::thread::available_parallelism().map_or(1, usize::from);
        let unlimited = if self.seconds.is_some() { u64::MAX } else { PROGRAMS };
        Plan {
            seed: self.seed,
            programs: self.programs.unwrap_or(unlimited),
            tier: Tier::ALL.into_iter().find(|tier| tier.name() == self.tier),
            precisions: self.precision.parse().map_or_else(|_| Precision::ALL.to_vec(), |precision| vec![precision]),
            threads: self.threads.map_or_else(usual, usize::from),
            until: self.seconds.map(|seconds| start + Duration::from_secs(seconds)),
            ..Plan::default()
        }
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let (engines, missing) = measure::witnesses(args.cpu);
    if let Some(name) = &args.print {
        let engine = engines.iter().find(|e| e.name() == name);
        let engine = engine.ok_or_else(|| NoEngine { name: name.clone(), reason: missing })?;
        return print(args, Engine { name: engine.name(), backend: engine.backend() }, out);
    }
    if let Some(reason) = missing {
        report::warning(format_args!("comparing the interpreter's batches with its single runs only: {reason}"));
    }
    fuzz(args, &regress_file::engines(&engines), out)
}

/// An engine that this build or machine lacks.
#[derive(Debug)]
struct NoEngine {
    name: String,
    reason: Option<Unsupported>,
}

impl fmt::Display for NoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine {} is not available", self.name)?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

impl std::error::Error for NoEngine {}

/// A line for each program and number format.
fn print(args: &Args, engine: Engine<'_>, out: &mut dyn Write) -> VerbResult {
    let printed = digests(&args.plan(Instant::now()), engine, &mut |lines| match out.write_all(lines.as_bytes()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    });
    match printed {
        ControlFlow::Continue(()) => Ok(Status::Fine),
        ControlFlow::Break(error) => Err(error.into()),
    }
}

fn fuzz(args: &Args, engines: &[Engine<'_>], out: &mut dyn Write) -> VerbResult {
    let start = Instant::now();
    let plan = Plan { stop: interrupt::flag(), ..args.plan(start) };
    let mut live = Live::new(Some(plan.programs).filter(|&programs| programs < u64::MAX));
    let Swept { stats, divergence } = sweep(&plan, engines, &mut |stats| {
        live.say(stats.programs, || news(stats, start.elapsed()));
    });
    live.finish();
    let time = start.elapsed();
    let file = divergence.map(|divergence| {
        report::note("engines differ; shrinking the program");
        regress_file::file(divergence, engines)
    });
    let status = if file.is_some() { Status::Different } else { Status::Fine };
    if args.json {
        writeln!(out, "{}", object(args, &plan, &stats, engines, time, file.as_deref()))?;
        return Ok(status);
    }
    match file {
        Some(file) => {
            report::plain(summary(args, &plan, &stats, engines, time, "THEN A DIFFERENCE"));
            write!(out, "{file}")?;
        }
        None => writeln!(out, "{}", summary(args, &plan, &stats, engines, time, "no difference"))?,
    }
    Ok(status)
}

/// Progress in a line.
fn news(stats: &Stats, time: Duration) -> String {
    let per_second = |count: u64| count as f64 / time.as_secs_f64().max(1e-9);
    let Stats { programs, vertices, comparisons, .. } = stats;
    let (opcodes, exits) = stats.coverage();
    let mut rejections = rejections(stats);
    rejections.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rejections: Vec<String> = rejections.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    format!(
        "{programs} programs ({:.0}/s), {vertices} vertices ({:.0}/s), opcodes {opcodes}/{}, exits {exits}/{}, native {:.2} %{}{}",
        per_second(*programs),
        per_second(*vertices),
        stats.opcodes().count(),
        EXITS.len(),
        if *comparisons == 0 { 0.0 } else { stats.native_share() * 100.0 },
        if rejections.is_empty() { "" } else { ", rejected: " },
        rejections.join(", "),
    )
}

/// Rejections of all engines by reason.
fn rejections(stats: &Stats) -> Vec<(&'static str, u64)> {
    let mut all = std::collections::BTreeMap::new();
    for (reason, count) in stats.engines.iter().flat_map(|e| &e.rejected) {
        *all.entry(*reason).or_default() += count;
    }
    all.into_iter().collect()
}

fn formats(plan: &Plan) -> Vec<&'static str> {
    plan.precisions.iter().map(|&p| p.name()).collect()
}

fn summary(args: &Args, plan: &Plan, stats: &Stats, engines: &[Engine<'_>], time: Duration, verdict: &str) -> String {
    let rate = stats.programs as f64 / time.as_secs_f64().max(1e-9);
    let names: Vec<&str> = engines.iter().map(|e| e.name).collect();
    let (tier, formats, threads) = (&args.tier, formats(plan).join(" "), plan.threads);
    format!(
        "{stats}seed {}, tier {tier}, {formats}: {} programs, {} comparisons of {} with interp, {verdict}\n\
         {:.1} s on {threads} thread{}, {rate:.0} programs/s, {:.0} vertices/s",
        plan.seed,
        stats.programs,
        stats.comparisons,
        names.join(" and "),
        time.as_secs_f64(),
        if threads == 1 { "" } else { "s" },
        stats.vertices as f64 / time.as_secs_f64().max(1e-9),
    )
}

fn object(
    args: &Args,
    plan: &Plan,
    stats: &Stats,
    engines: &[Engine<'_>],
    time: Duration,
    file: Option<&str>,
) -> Value {
    let map = |pairs: Vec<(&str, u64)>| -> Value {
        pairs.into_iter().map(|(name, count)| (name.to_string(), json!(count))).collect::<Map<_, _>>().into()
    };
    let per_engine = stats.engines.iter().zip(engines).map(|(counts, engine)| {
        let rejected = counts.rejected.iter().map(|(reason, count)| (*reason, *count)).collect();
        json!({ "name": engine.name, "compiled": counts.compiled, "rejected": map(rejected) })
    });
    json!({
        "seed": plan.seed,
        "tier": args.tier,
        "precisions": formats(plan),
        "threads": plan.threads,
        "seconds": time.as_secs_f64(),
        "programs": stats.programs,
        "comparisons": stats.comparisons,
        "vertices": stats.vertices,
        "triangles": stats.triangles,
        "differences": u8::from(file.is_some()),
        "engines": per_engine.collect::<Vec<_>>(),
        "executed": map(stats.opcodes().map(|(row, count)| (row.mnemonic, count)).collect()),
        "exits": map(EXITS.iter().zip(stats.exits).map(|((_, name), count)| (*name, count)).collect()),
        "programs_with": map(TRAITS.iter().zip(stats.traits).map(|((name, _), count)| (*name, count)).collect()),
        "filetest": file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regress_file::tests::Wrong;
    use picajit::internals::interp::Interp;

    fn args(programs: u64, json: bool) -> Args {
        let (tier, precision) = (ALL.to_string(), ALL.to_string());
        let (cpu, print) = (Cpu::Host, None);
        Args { programs: Some(programs), seconds: None, seed: 3, tier, precision, threads: Some(2), cpu, print, json }
    }

    fn text(args: &Args, engine: Engine<'_>) -> (Status, String) {
        let mut out = Vec::new();
        let status = fuzz(args, &[engine], &mut out).expect("writing to memory does not fail");
        (status, String::from_utf8(out).expect("it is text"))
    }

    #[test]
    fn a_faulty_engine_gives_a_test_file_only() {
        let (status, file) = text(&args(500, false), Engine { name: "wrong", backend: &Wrong });
        assert_eq!(status, Status::Different);
        assert!(file.starts_with("; wrong through run, vertex 0: ") && file.contains("mul o0, v0, v0\n"), "{file}");
        assert!(file.contains("\n; run: "), "{file}");
        let (status, json) = text(&args(500, true), Engine { name: "wrong", backend: &Wrong });
        let json: Value = serde_json::from_str(&json).expect("an object");
        assert_eq!((status, &json["filetest"], &json["differences"]), (Status::Different, &json!(file), &json!(1)));
    }

    #[test]
    fn the_summary_has_counts_and_parameters() {
        let (status, summary) = text(&args(200, false), Engine { name: "interp", backend: &Interp });
        assert_eq!(status, Status::Fine);
        assert!(summary.contains("200 programs, "), "{summary}");
        let formats = Precision::ALL.map(Precision::name).join(" ");
        let last =
            format!("seed 3, tier all, {formats}: 200 programs, {} comparisons of interp", 200 * Precision::ALL.len());
        assert!(summary.contains(&last) && summary.contains(" with interp, no difference\n"), "{summary}");
        let line = news(&Stats::new(&[]), Duration::ZERO);
        assert!(line.starts_with("0 programs (0/s)"), "{line}");
    }
}
