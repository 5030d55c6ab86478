//! `picajit bench`: shaders -> each checked against the interpreter, then a table of compile and
//! run times.
//!
//! Uniforms and inputs are the generated ones of the `run` verb (-1 to 1, so that hardly any result
//! is infinite), overridden by the entry's constants. `measure` defines what is timed.

use crate::count_instructions::tally;
use crate::load::LoadError;
use crate::measure::{self, BATCHES, Compiled, Cpu, Engine, Speed, Stride, VERTICES, Workload, median};
#[cfg(feature = "gpu-tests")]
use crate::on_gpus;
use crate::plot::{Group, Plot};
use crate::report::{self, Progress};
use crate::subject::{self, Subject};
use crate::{Status, VerbResult, cpu, draws, frames_verb, generator, output_path, pipe};
use picajit::internals::diff::{NamedKernel, Work, compare};
use picajit::internals::float24::Rounding;
use picajit::internals::kernel::{Config, default_fuel};
use picajit::isa::numeric::Precision;
use picajit::profiler::{Profiler, ProfilerError};
use picajit::program::{Entry, Program};
use picajit::state::{Exit, NoEmitter, Registers, Unit};
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Compilations of each entry, for the median.
const COMPILES: usize = 15;
/// Least time spent on checking an entry, if there are enough vertices.
const CHECKING: Duration = Duration::from_millis(100);
/// Fewest vertices that are checked.
const FEWEST_CHECKED: usize = 5;
/// Time for each entry with `--quick`.
const QUICK: f64 = 0.15;
/// Engines in the other number formats: the name, the engine, the format.
const F24: [(&str, &str, Precision); 4] = [
    ("tier0-nearest", "tier0", Precision::F24 { rounding: Rounding::Nearest }),
    ("tier0-zero", "tier0", Precision::F24 { rounding: Rounding::TowardZero }),
    ("f24-nearest", "batch", Precision::F24 { rounding: Rounding::Nearest }),
    ("f24-zero", "batch", Precision::F24 { rounding: Rounding::TowardZero }),
];
/// Columns of a table.
const WIDTH: usize = 100;

/// Recompile shaders, check them against the interpreter, and print compile and run times
#[derive(clap::Args)]
#[command(after_help = "\
ns a vertex: the median over many rounds in which the engines take turns, on 1,024 vertices that stay in the cache. \
Batch 1 is one call of run for each vertex, with its inputs copied to the unit; larger batches are run_batch, which \
also copies the outputs away; there a vertex has as many registers as the shader's masks ask for. Native code is first checked against the interpreter.
A program that does not end gets little fuel on every engine, with a note; where vertices are slow, fewer \
of them are checked.
--frames: us of a frame's register writes and draws, through Gpu and through a lean reference, which is what an \
emulator's author writes around the engine's direct call. Hot: the frame repeated, the least of many passes. Cold: before each \
draw and its writes, 512 KiB of other code run and 8 MiB of other data are written, so that these displace the caches; \
the median.")]
pub struct Args {
    /// Shader files, - for standard input, or folders to their depth; without any, the shaders that come with picajit
    files: Vec<PathBuf>,
    /// Time to measure each entry, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds_per_shader: f64,
    /// Measure roughly: 0.15 seconds for each entry
    #[arg(long, conflicts_with = "seconds_per_shader")]
    quick: bool,
    /// Use batches of whole register files: 16 registers a vertex
    #[arg(long)]
    whole_files: bool,
    /// Also draw an SVG of the speed-up of each shader over unoptimised code; with - the table goes to standard error
    #[arg(long, value_name = "FILE", conflicts_with = "only_count")]
    plot: Option<PathBuf>,
    /// Run nothing; count the instructions of native code for each target CPU
    #[arg(long = "static", conflicts_with_all = ["seconds_per_shader", "quick", "whole_files"])]
    only_count: bool,
    /// Measure whole draws instead, from guest memory to triangles, beside hand-written ones
    #[arg(long, conflicts_with_all = ["files", "seconds_per_shader", "whole_files", "plot", "only_count", "json"])]
    draws: bool,
    /// Measure frames of real programs instead, from recordings of register writes and draws
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["files", "seconds_per_shader", "whole_files", "plot", "only_count", "draws", "cpu", "perf_map", "jitdump"]
    )]
    frames: Vec<PathBuf>,
    /// Measure vertex entries on the devices of this machine's Vulkan drivers instead
    #[cfg(feature = "gpu-tests")]
    #[arg(long, conflicts_with_all = ["seconds_per_shader", "whole_files", "plot", "only_count", "draws", "frames", "json"])]
    gpu: bool,
    /// Number format for --gpu: f32, f24-nearest or f24-zero
    #[cfg(feature = "gpu-tests")]
    #[arg(long, value_name = "FORMAT", requires = "gpu", default_value_t)]
    precision: Precision,
    /// Use the instructions of this machine's CPU, or of the least that native code supports
    #[arg(long, default_value = "host", conflicts_with_all = ["only_count", "draws"], value_parser = cpu::parser())]
    cpu: Cpu,
    /// Name native code for perf report in /tmp/perf-PID.map; compiles each shader once
    #[arg(long, conflicts_with_all = ["jitdump", "only_count"])]
    perf_map: bool,
    /// Write names, code and lines for perf inject to DIR/jit-PID.dump; compile each shader once
    #[arg(long, value_name = "DIR", conflicts_with = "only_count")]
    jitdump: Option<PathBuf>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

impl Args {
    fn profiler(&self) -> Profiler {
        match &self.jitdump {
            Some(directory) => Profiler::Jitdump { directory: directory.clone() },
            None if self.perf_map => Profiler::PerfMap,
            None => Profiler::None,
        }
    }
}

/// The engines, registered with the profiler where possible; warns otherwise.
fn engines(cpu: Cpu, profiler: &Profiler) -> Vec<Engine> {
    let (engines, missing) = measure::profiled(cpu, profiler);
    if let Some(reason) = missing {
        report::warning(format_args!("measuring interpreters only: {reason}"));
    }
    let told = Arc::new(AtomicBool::new(false));
    let unprofiled = |reason: &ProfilerError, told: &AtomicBool| {
        if !told.swap(true, Ordering::Relaxed) {
            report::warning(format_args!("profilers don't see shaders: {reason}"));
        }
    };
    if *profiler != Profiler::None && !engines.iter().any(Engine::is_native) {
        unprofiled(&ProfilerError::NoNativeCode, &told);
    }
    for engine in &engines {
        // All of them write to one file, which fails once.
        let told = told.clone();
        engine.on_profiler_error(move |reason| unprofiled(reason, &told));
    }
    engines
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.0..=3600.0).contains(&value) { Ok(value) } else { Err("from 0 to 3600".into()) }
}

/// Everything measured for one entry.
struct Measured<'a> {
    subject: &'a Subject,
    words: usize,
    blocks: Option<usize>,
    engines: Vec<Compiled>,
    rejected: Vec<String>,
    exit: Exit,
    fuel: u32,
    checked: u64,
    speed: Speed,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    if args.draws {
        let samples = if args.quick { 20 } else { 400 };
        write!(out, "{}", draws::table(&draws::measure(samples, "")))?;
        return Ok(Status::Fine);
    }
    if let Some(path) = &args.plot {
        output_path::not_an_input(path, args.files.iter().map(PathBuf::as_path))?;
    }
    // Standard output has one thing: the picture, if it goes there, else the table.
    let mut errors_too = io::stderr();
    let out: &mut dyn Write = if args.plot.as_deref().is_some_and(pipe::is_pipe) { &mut errors_too } else { out };
    if !args.frames.is_empty() {
        return frames_verb::run(&args.frames, args.quick, args.json, out);
    }
    let (subjects, errors) = subject::of(&args.files);
    errors.iter().for_each(LoadError::report);
    if subjects.is_empty() && !errors.is_empty() {
        return Ok(Status::Unusable);
    }
    #[cfg(feature = "gpu-tests")]
    if args.gpu {
        return on_gpus::bench(&subjects, args.precision, out);
    }
    if args.only_count {
        let whole = tally(&subjects, args.json, out)?;
        return Ok(if whole && errors.is_empty() { Status::Fine } else { Status::Unusable });
    }
    let first = FirstRun::measure();
    let profiler = args.profiler();
    let engines = engines(args.cpu, &profiler);
    // A map can't express that other code has replaced some, so each shader is compiled once.
    let compiles = if profiler == Profiler::None { COMPILES } else { 0 };
    if cfg!(debug_assertions) {
        report::warning("times of a debug build mean little\nhelp: use cargo run --release");
    }
    let budget = Duration::from_secs_f64(if args.quick { QUICK } else { args.seconds_per_shader });
    let inputs = generator::inputs(VERTICES);
    let stride = if args.whole_files { Stride::File } else { Stride::Least };
    let progress = Progress::new(subjects.len() as u64, "entries");
    let mut all = Vec::new();
    let mut different = 0;
    if !args.json {
        heading(out)?;
    }
    for subject in &subjects {
        match measure(subject, &engines, compiles, &inputs, stride, budget) {
            Ok(measured) if args.json => {
                if measured.fuel != default_fuel(subject.entry.stage) {
                    report::note(format_args!("{}: {}", subject.title(), measure::stopped(measured.fuel)));
                }
                json_lines(&measured, out)?;
                all.push(measured);
            }
            Ok(measured) => {
                block(&measured, out)?;
                all.push(measured);
            }
            Err(difference) => {
                different += 1;
                report::error(format_args!("{}: an engine differs from the interpreter", subject.title()));
                report::plain(difference);
            }
        }
        out.flush()?;
        progress.add(1);
    }
    progress.finish();
    if !args.json {
        if different > 0 {
            writeln!(out, "\n{} not measured because of a difference", count(different, "entry", "entries"))?;
        }
        summary(&all, &first, out)?;
    }
    if let Some(path) = &args.plot {
        output_path::put(path, picture(&all).as_bytes())?;
    }
    Ok(match (different, errors.len()) {
        (0, 0) => Status::Fine,
        (0, _) => Status::Unusable,
        _ => Status::Different,
    })
}

/// Cold start: from words to a first result.
struct FirstRun(Option<(Duration, Duration)>);

impl FirstRun {
    /// The first compilation of this process: the time to create an engine, then the time until a
    /// two-word shader has run.
    fn measure() -> FirstRun {
        let program = Program::from_words(&[0x4C00_0000, 0x8800_0000], &[0x36F]).expect("two words");
        let program = Arc::new(program);
        let start = Instant::now();
        let (engines, _) = measure::engines();
        let engine = start.elapsed();
        let Some(jit) = engines.last().filter(|e| e.is_native()) else { return FirstRun(None) };
        let start = Instant::now();
        let Ok(compiled) = jit.compile(&program, Entry::vertex(0)) else { return FirstRun(None) };
        compiled.kernel.run(&Default::default(), &mut Unit::new(), &mut NoEmitter);
        FirstRun(Some((engine, start.elapsed())))
    }
}

/// Compiles, checks, and measures. The error is a difference from the interpreter.
fn measure<'a>(
    subject: &'a Subject,
    engines: &[Engine],
    compiles: usize,
    inputs: &[Registers],
    stride: Stride,
    budget: Duration,
) -> Result<Measured<'a>, String> {
    let uniforms = generator::uniforms(&subject.dvle);
    let mut work = Workload::new(&subject.dvle, &subject.program, uniforms, inputs.to_vec(), stride);
    // As a host narrows uploads; single precision takes the same time either way.
    work.uniforms.narrow(F24[0].2);
    let (config, vertex) = work.config(&subject.program, subject.entry, Config::of(subject.entry.stage));
    let (mut compiled, mut rejected) = (Vec::<Compiled>::new(), Vec::new());
    for engine in engines {
        match engine.compile_often(&subject.program, subject.entry, &config, compiles, budget.max(CHECKING)) {
            Ok(c) => compiled.push(c),
            Err(reason) => rejected.push(format!("{}: {reason}", engine.name())),
        }
    }
    let mut formats = vec![Config::default().precision; compiled.len()];
    for (name, engine, precision) in F24 {
        let config = Config { precision, ..config };
        let compile = |engine: &Engine| {
            engine.compile_often(&subject.program, subject.entry, &config, compiles, budget.max(CHECKING)).ok()
        };
        if let Some(c) = engines.iter().find(|e| e.name() == engine).and_then(compile) {
            compiled.push(Compiled { engine: name, ..c });
            formats.push(precision);
        }
    }
    let affordable = budget.max(CHECKING).as_nanos() / (vertex.as_nanos().max(1) * compiled.len() as u128);
    let oracle = |precision| {
        let config = Config { precision, ..config };
        engines[0].compile_for(&subject.program, subject.entry, &config).expect("the interpreter takes every program")
    };
    let oracles: Vec<_> = formats.into_iter().map(oracle).collect();
    let checked =
        check(&oracles, &compiled, &work, usize::try_from(affordable).unwrap_or(usize::MAX).max(FEWEST_CHECKED))?;
    let kernels: Vec<_> = compiled.iter().map(|c| &*c.kernel).collect();
    let speed = measure::run(&kernels, &work, budget);
    let exit = work.exit(kernels[0], 0);
    let (words, blocks) = subject.size();
    let fuel = config.fuel;
    Ok(Measured { subject, words, blocks, engines: compiled, rejected, exit, fuel, checked, speed })
}

/// Compares each engine with the interpreter in the same number format, on the measured vertices or
/// the first `most` of them. Returns their number.
fn check(oracles: &[Compiled], compiled: &[Compiled], work: &Workload, most: usize) -> Result<u64, String> {
    let unit = Unit::new();
    let Workload { uniforms, inputs, input_mask, output_mask, .. } = work;
    let inputs = &inputs[..most.min(inputs.len())];
    let work = Work { uniforms, unit: &unit, inputs, input_mask: *input_mask, output_mask: *output_mask };
    let mut vertices = 0;
    for (oracle, other) in oracles.iter().zip(compiled).skip(1) {
        let side = |c: &'_ Compiled| (c.engine, c.kernel.clone());
        let ((want_name, want), (got_name, got)) = (side(oracle), side(other));
        let (want, got) =
            (NamedKernel { name: want_name, kernel: &*want }, NamedKernel { name: got_name, kernel: &*got });
        let report = compare(want, got, &work, &mut |_| {});
        if let Some(first) = report.first {
            return Err(first.to_string());
        }
        vertices = report.vertices;
    }
    Ok(vertices)
}

fn json_lines(m: &Measured<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (compiled, ns) in m.engines.iter().zip(&m.speed.ns) {
        for (batch, ns) in BATCHES.iter().zip(ns) {
            let line = json!({
                "shader": m.subject.shader,
                "entry": m.subject.index,
                "stage": m.subject.entry.stage.to_string(),
                "words": m.words,
                "engine": compiled.engine,
                "batch": batch,
                "ns_per_vertex": round(*ns, 100.0),
                "compile_us": round(micros(compiled.time), 100.0),
                "native_bytes": compiled.kernel.native_bytes(),
            });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn round(value: f64, by: f64) -> f64 {
    (value * by).round() / by
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn heading(out: &mut dyn Write) -> io::Result<()> {
    let batches = "ns a vertex, in batches of";
    writeln!(out, "{:15}{:>9}{:>8}   {batches:^36}   times as fast as", "", "compile", "native")?;
    write!(out, "{:15}{:>9}{:>8}   ", "engine", "us", "bytes")?;
    BATCHES.iter().try_for_each(|batch| write!(out, "{batch:>9}"))?;
    writeln!(out, "   {:>8}{:>9}", "interp", "unopt.")
}

fn block(m: &Measured<'_>, out: &mut dyn Write) -> io::Result<()> {
    let stage = m.subject.entry.stage;
    let blocks = m.blocks.map_or("too many blocks to count".to_string(), |n| count(n, "block", "blocks"));
    let (title, words) = (m.subject.title(), count(m.words, "word", "words"));
    let details = format!("({stage}, {words}, {blocks})");
    // Names of files can be long.
    let between = if title.chars().count() + 1 + details.len() > WIDTH { "\n  " } else { " " };
    writeln!(out, "\n{title}{between}{details}")?;
    for (n, compiled) in m.engines.iter().enumerate() {
        let bytes = match compiled.kernel.native_bytes() {
            0 => "-".to_string(),
            bytes => bytes.to_string(),
        };
        write!(out, "  {:13}{:>9} {bytes:>7}   ", compiled.engine, cell(micros(compiled.time), 1))?;
        m.speed.ns[n].iter().try_for_each(|ns| write!(out, "{:>9}", cell(*ns, 1)))?;
        // In the largest batch, where the cost of calls is least.
        let ratio = |engine| m.ratio(engine, compiled.engine, BATCHES.len() - 1);
        let [interp, unoptimised] = ["interp", "unoptimised"].map(|e| ratio(e).filter(|_| e != compiled.engine));
        let show = |r: Option<f64>| r.map_or("-".to_string(), |r| cell(r, 2));
        writeln!(out, "   {:>8}{:>9}", show(interp), show(unoptimised))?;
    }
    if let Some(last) = m.index("vec4").map(|n| &m.engines[n]) {
        let stages: Vec<_> = last.stages.iter().map(|(name, t)| format!("{name} {:.1}", micros(*t))).collect();
        writeln!(out, "  {} compiles in us: {}", last.engine, stages.join(", "))?;
    }
    if let Some(stats) = m.index("batch").map(|n| m.engines[n].kernel.stats()) {
        match stats.sequential_reason {
            Some(why) => writeln!(out, "  batches run in sequence: {why}")?,
            None if stats.bailouts > 0 => {
                let all = u64::from(stats.groups) + u64::from(stats.bailouts);
                let share = 100.0 * f64::from(stats.bailouts) / all as f64;
                writeln!(out, "  bailouts: {share:.1} % of {all} groups, whose vertices ran in sequence")?;
            }
            None => {}
        }
    }
    for rejected in &m.rejected {
        writeln!(out, "  not measured, {rejected}")?;
    }
    if m.fuel != default_fuel(m.subject.entry.stage) {
        writeln!(out, "  {}", measure::stopped(m.fuel))?;
    } else if m.exit != Exit::End {
        writeln!(out, "  the first vertex does not reach END: {:?}", m.exit)?;
    }
    if let Some(fewest) = m.speed.vertices.iter().min().filter(|&&n| n < 32) {
        writeln!(out, "  slow: timed {} at once, no larger batches", count(*fewest, "vertex", "vertices"))?;
    }
    Ok(())
}

/// A number in at most eight columns: with `decimals` while it is small, then without, then as a
/// power of ten.
fn cell(value: f64, decimals: usize) -> String {
    match value {
        ..9_999.9 => format!("{value:.decimals$}"),
        ..9_999_999.0 => format!("{value:.0}"),
        _ => format!("{value:.2e}"),
    }
}

/// A number and its noun.
fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

impl Measured<'_> {
    fn index(&self, engine: &str) -> Option<usize> {
        self.engines.iter().position(|e| e.engine == engine)
    }

    /// Speed-up of `engine` over `base`, in column `batch`.
    fn ratio(&self, base: &str, engine: &str, batch: usize) -> Option<f64> {
        Some(self.speed.ns[self.index(base)?][batch] / self.speed.ns[self.index(engine)?][batch])
    }
}

/// The entries with native code, as a picture.
fn picture(all: &[Measured<'_>]) -> String {
    let series = BATCHES.map(|batch| match batch {
        1 => "one a call".to_string(),
        _ => format!("batches of {batch}"),
    });
    let ratios = |m: &Measured<'_>| (0..BATCHES.len()).map(|b| m.ratio("unoptimised", "batch", b)).collect();
    let group = |m: &Measured<'_>| Group { title: m.subject.title(), bars: ratios(m), ceiling: None };
    let groups: Vec<Group> = all.iter().filter(|m| m.index("batch").is_some()).map(group).collect();
    let (title, one) = ("Times as fast as native code that keeps registers in memory", "unoptimised");
    Plot { title, one, series: &series, groups: &groups, ceilings: None }.svg()
}

fn summary(all: &[Measured<'_>], first: &FirstRun, out: &mut dyn Write) -> io::Result<()> {
    let compared: Vec<_> = all.iter().filter(|m| m.index("vec4").is_some()).collect();
    writeln!(out, "\n{} measured, {} as native code", count(all.len(), "entry", "entries"), compared.len())?;
    if compared.is_empty() {
        return Ok(());
    }
    let vertices: u64 = compared.iter().map(|m| m.checked).sum();
    writeln!(
        out,
        "checked: here every engine gave the interpreter's bits on all {vertices} vertices, alone and in batches"
    )?;
    writeln!(out, "geometric means, times as fast:")?;
    let bases = [
        ("tier0", "interp"),
        ("tier0", "unoptimised"),
        ("vec4", "interp"),
        ("vec4", "unoptimised"),
        ("batch", "interp"),
        ("batch", "unoptimised"),
    ];
    for (engine, base) in bases {
        write!(out, "  {:29}   ", format!("{engine} against {base}"))?;
        for batch in 0..BATCHES.len() {
            let ratios = || compared.iter().filter_map(|m| m.ratio(base, engine, batch));
            let mean = (ratios().map(f64::ln).sum::<f64>() / ratios().count() as f64).exp();
            write!(out, "{:>9}", cell(mean, 2))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "geometric means of what float24 costs, times the time of single precision:")?;
    for (name, engine, _) in F24 {
        write!(out, "  {:29}   ", format!("{name} against {engine}"))?;
        for batch in 0..BATCHES.len() {
            let ratios = || compared.iter().filter_map(|m| m.ratio(name, engine, batch));
            let mean = (ratios().map(f64::ln).sum::<f64>() / ratios().count() as f64).exp();
            write!(out, "{:>9}", cell(mean, 2))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "medians:")?;
    for engine in ["tier0", "unoptimised", "vec4", "batch"] {
        let of = || compared.iter().filter_map(|m| Some(&m.engines[m.index(engine)?]));
        let time = median(&mut of().map(|e| micros(e.time)).collect::<Vec<_>>());
        let bytes = median(&mut of().map(|e| e.kernel.native_bytes()).collect::<Vec<_>>());
        writeln!(out, "  {engine}: compiled in {time:.1} us to {bytes} bytes")?;
    }
    if let FirstRun(Some((engine, shader))) = first {
        let (engine, shader) = (micros(*engine), micros(*shader));
        writeln!(
            out,
            "first of the process: engine ready in {engine:.1} us, a two-word shader compiled and run in {shader:.1} us"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(subject: &Subject) -> Measured<'_> {
        let (engines, _) = measure::engines();
        measure(subject, &engines, 1, &generator::inputs(40), Stride::Least, Duration::ZERO).unwrap()
    }

    #[test]
    fn numbers_are_narrower_than_their_column() {
        let cells = |values: &[f64]| values.iter().map(|v| cell(*v, 1)).collect::<Vec<_>>();
        assert_eq!(cells(&[0.04, 9_999.8, 9_999.96, 123_456.7]), ["0.0", "9999.8", "10000", "123457"]);
        assert_eq!(cells(&[9_999_998.6, 9_999_999.0, 2.5e15]), ["9999999", "1.00e7", "2.50e15"]);
        assert!((-3..300).all(|n| cell(9.999_999 * 10f64.powi(n), 2).len() <= 8));
    }

    #[test]
    fn built_in_shaders_reach_their_end_with_finite_results() {
        let (engines, _) = measure::engines();
        for subject in subject::of(&[]).0 {
            let (uniforms, inputs) = (generator::uniforms(&subject.dvle), generator::inputs(100));
            let work = Workload::new(&subject.dvle, &subject.program, uniforms, inputs, Stride::Least);
            let kernel = engines[0].compile(&subject.program, subject.entry).unwrap().kernel;
            assert_eq!(work.exit(&*kernel, 0), Exit::End, "{}", subject.shader);
            let mut unit = Unit::new();
            let mut finite = 0;
            for input in &work.inputs {
                unit.v = *input;
                kernel.run(&work.uniforms, &mut unit, &mut NoEmitter);
                finite += usize::from(unit.outputs().as_flattened().iter().all(|x| x.is_finite()));
            }
            assert!(finite >= 95, "{}: {finite} of 100", subject.shader);
        }
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns_and_every_line_of_json_is_whole() {
        for subject in subject::of(&[]).0 {
            let m = measured(&subject);
            assert!(m.speed.vertices.iter().all(|&n| n <= 40), "{:?}", m.speed.vertices);
            let mut text = Vec::new();
            heading(&mut text).unwrap();
            block(&m, &mut text).unwrap();
            summary(std::slice::from_ref(&m), &FirstRun::measure(), &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
            let drawn = picture(std::slice::from_ref(&m));
            let title = format!(">{}</text>", subject.title());
            assert_eq!(drawn.contains(&title), m.index("batch").is_some(), "{drawn}");
            let mut lines = Vec::new();
            json_lines(&m, &mut lines).unwrap();
            let lines = String::from_utf8(lines).unwrap();
            assert_eq!(lines.lines().count(), m.engines.len() * BATCHES.len());
            for line in lines.lines() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(value["ns_per_vertex"].as_f64().unwrap() > 0.0, "{line}");
                assert!(value["words"].as_u64().unwrap() >= 7, "{line}");
                let engine = value["engine"].as_str().unwrap();
                let is_native = engine != "interp" && !engine.starts_with("tier0");
                assert_eq!(value["native_bytes"].as_u64().unwrap() != 0, is_native, "{line}");
            }
        }
    }
}
