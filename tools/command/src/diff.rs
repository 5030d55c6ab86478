//! `picajit diff`: shaders -> the same vertices on every engine, compared bit by bit.
//!
//! The first 256 vertices with seed 1 are those of the `run` verb; later ones get new uniforms,
//! booleans included, so that both edges of branches are taken.

use crate::generator::{self, Generator};
use crate::load::LoadError;
use crate::measure::{self, Engine, PROBED, Stride, Workload};
#[cfg(feature = "gpu-tests")]
use crate::on_gpus;
use crate::regress_file;
use crate::report::{self, Progress};
use crate::subject::{self, Subject};
use crate::{Status, VerbResult};
use clap::value_parser;
use picajit::internals::diff::{NamedKernel, Report, Work, compare};
use picajit::internals::kernel::{Config, Kernel, Unsupported};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::state::{Registers, Uniforms, Unit};
use picajit_fuzz::Case;
use picajit_fuzz::registers::SPECIAL;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Vertices that share their uniforms.
const ROUND: u64 = 256;
/// Rounds after which kernels are compiled again. A kernel that has deoptimised often stops
/// speculating; with this number of rounds both kinds of code are compared.
const FRESH: u64 = 8;

/// Run shaders on every engine and compare all results bit by bit
#[derive(clap::Args)]
#[command(after_help = "\
An entry that an engine can't compile is not compared; the output says so, and it counts as no difference (exit \
code 0) unless --require-native is given.
A program that does not end gets little fuel on every engine, with a note.")]
pub struct Args {
    /// Shader files, - for standard input, or folders to their depth; without any, the built-in shaders
    files: Vec<PathBuf>,
    /// Vertices for each entry
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = value_parser!(u64).range(1..=1 << 32))]
    vertices: u64,
    /// Seed of the generated values
    #[arg(long, value_name = "S", default_value_t = generator::UNIFORM_SEED, value_parser = seed)]
    seed: u32,
    /// Mix infinities, NaN, zeros of both signs, subnormal and huge numbers into inputs and
    /// uniforms
    #[arg(long)]
    special: bool,
    /// Number format of results: f32, f24-nearest or f24-zero
    #[arg(long, value_name = "FORMAT", default_value_t)]
    precision: Precision,
    /// Words that a run may execute before its next backward jump ends it [default: 262144,
    /// geometry: 4194304]
    #[arg(long, value_name = "WORDS")]
    fuel: Option<u32>,
    /// Shrink the first difference of an entry and print it as a test file (with --json, to
    /// standard error)
    #[arg(long)]
    shrink: bool,
    /// Exit code 1 if an entry is not native on some engine
    #[arg(long)]
    require_native: bool,
    /// Run vertex entries on the devices of this machine's Vulkan drivers instead
    #[cfg(feature = "gpu-tests")]
    #[arg(long, conflicts_with_all = ["shrink", "require_native", "json", "fuel"])]
    gpu: bool,
    /// Print one JSON object a line instead of text
    #[arg(long)]
    json: bool,
}

/// Inputs use the next seed, and zero is not valid.
fn seed(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|n| (1..u32::MAX).contains(n)).ok_or("expected a number from 1 to 4294967294")
}

/// Result for one engine.
struct Against {
    engine: &'static str,
    result: Result<Report, String>,
    /// The case of the first difference, up to the vertex that differs.
    case: Option<Case>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let (subjects, errors) = subject::of(&args.files);
    errors.iter().for_each(LoadError::report);
    if subjects.is_empty() && !errors.is_empty() {
        return Ok(Status::Unusable);
    }
    #[cfg(feature = "gpu-tests")]
    if args.gpu {
        let values = |subject: &Subject| {
            let mut values = Values::new(subject, args);
            let rounds = (0..args.vertices).step_by(ROUND as usize);
            rounds.map(|done| values.round((args.vertices - done).min(ROUND) as usize)).collect()
        };
        return on_gpus::diff(&subjects, args.precision, values, out);
    }
    let (engines, missing) = measure::engines();
    if let Some(reason) = &missing {
        report::warning(format_args!("no engine to compare with the interpreter: {reason}"));
    }
    let progress = Progress::new(args.vertices * subjects.len() as u64, "vertices");
    let (mut different, mut native) = (0, 0);
    for subject in &subjects {
        let results = compare_engines(subject, &engines, args, &progress);
        let reason = (results.iter().find_map(|r| r.result.as_ref().err().cloned()))
            .or_else(|| missing.as_ref().map(ToString::to_string));
        let first = results.iter().filter_map(|r| r.result.as_ref().ok()).find_map(|r| r.first.as_ref());
        let differences: u64 = results.iter().filter_map(|r| r.result.as_ref().ok()).map(|r| r.differences).sum();
        let vertices = results.iter().filter_map(|r| r.result.as_ref().ok()).map(|r| r.vertices).max().unwrap_or(0);
        native += usize::from(reason.is_none());
        different += usize::from(differences > 0);
        if args.json {
            let names: Vec<_> =
                ["interp"].into_iter().chain(results.iter().filter(|r| r.result.is_ok()).map(|r| r.engine)).collect();
            let line = json!({
                "shader": subject.shader,
                "entry": subject.index,
                "stage": subject.entry.stage.to_string(),
                "precision": args.precision.name(),
                "native": reason.is_none(),
                "reason": reason,
                "engines": names,
                "vertices": vertices,
                "differences": differences,
            });
            writeln!(out, "{line}")?;
        } else {
            let how = reason.map_or("native".to_string(), |r| format!("not native: {r}"));
            let stage = subject.entry.stage;
            let counts = match (vertices, differences) {
                (0, _) => "nothing compared".to_string(),
                (v, 0) => format!("{v} vertices, no difference"),
                (v, d) => format!("{v} vertices, {d} DIFFERENCES"),
            };
            let format = match args.precision {
                Precision::F32 => String::new(),
                other => format!(", {other}"),
            };
            writeln!(out, "{} ({stage}{format}): {how}; {counts}", subject.title())?;
        }
        if let Some(first) = first {
            // With --json the registers go to standard error.
            if args.json { report::plain(first) } else { writeln!(out, "{first}")? }
        }
        if let Some(case) = results.iter().find_map(|r| r.case.as_ref()).filter(|_| args.shrink) {
            let file = regress_file::shrunk(case, &regress_file::engines(&engines));
            let file = file.unwrap_or_else(|| "; The difference does not occur in a run of its own.\n".into());
            if args.json { report::plain(file) } else { writeln!(out, "{file}")? }
        }
        out.flush()?;
    }
    progress.finish();
    if !args.json {
        let count = subjects.len();
        let entries = if count == 1 { "entry" } else { "entries" };
        writeln!(out, "{count} {entries}: {native} native, {different} with differences")?;
    }
    let failed = different > 0 || args.require_native && native < subjects.len();
    Ok(match (failed, errors.len()) {
        (false, 0) => Status::Fine,
        (false, _) => Status::Unusable,
        _ => Status::Different,
    })
}

fn compare_engines(subject: &Subject, engines: &[Engine], args: &Args, progress: &Progress) -> Vec<Against> {
    let compile = |engine: &Engine, config: &Config| {
        engine.compile_for(&subject.program, subject.entry, config).map(|c| c.kernel)
    };
    let (interp, others) = engines.split_first().expect("there is always the interpreter");
    let reference = |config: &Config| compile(interp, config).expect("the interpreter takes every program");
    let mut config = Config { precision: args.precision, ..Config::of(subject.entry.stage) };
    config.fuel = args.fuel.unwrap_or(config.fuel);
    let given = config.fuel;
    let mut want = reference(&config);
    let mut against: Vec<Against> =
        others.iter().map(|e| Against { engine: e.name(), result: Ok(Report::default()), case: None }).collect();
    let (input_mask, output_mask) = measure::masks(&subject.dvle);
    let mut kernels: Vec<Option<Arc<dyn Kernel>>> = Vec::new();
    let mut values = Values::new(subject, args);
    let mut unit = Unit::new();
    let mut done = 0;
    while done < args.vertices {
        let mut fresh = values.round.is_multiple_of(FRESH);
        let (uniforms, inputs) = values.round((args.vertices - done).min(ROUND) as usize);
        // Whether a program ends may depend on booleans, which change from round to round.
        let workload = Workload::new(
            &subject.dvle,
            &subject.program,
            uniforms.clone(),
            inputs.iter().take(PROBED).copied().collect(),
            Stride::File,
        );
        let (enough, _) = workload.config(&subject.program, subject.entry, config);
        if enough.fuel != config.fuel {
            if config.fuel == given {
                let when = if done == 0 { String::new() } else { format!(" from vertex {done} on") };
                report::note(format_args!("{}{when}: {}", subject.title(), measure::stopped(enough.fuel)));
            }
            config = enough;
            want = reference(&config);
            fresh = true;
        }
        if fresh {
            kernels = (others.iter().zip(&mut against))
                .map(|(e, a)| compile(e, &config).map_err(|r| a.reject(&r)).ok())
                .collect();
        }
        let work = Work { uniforms: &uniforms, unit: &unit, inputs: &inputs, input_mask, output_mask };
        for (kernel, Against { engine, result, case }) in kernels.iter().zip(&mut against) {
            let (Some(kernel), Ok(report)) = (kernel, result) else { continue };
            let (want, got) =
                (NamedKernel { name: "interp", kernel: &*want }, NamedKernel { name: engine, kernel: &**kernel });
            let mut found = compare(want, got, &work, &mut |_| {});
            if let Some(first) = &mut found.first {
                case.get_or_insert_with(|| Case {
                    name: format!(
                        "{}, vertex {} of `diff --seed {}`",
                        subject.title(),
                        done + first.vertex as u64,
                        args.seed
                    ),
                    program: subject.program.clone(),
                    entry: subject.entry,
                    config,
                    uniforms: uniforms.clone(),
                    unit: unit.clone(),
                    inputs: inputs[..=first.vertex].to_vec(),
                    input_mask,
                    output_mask,
                });
                first.move_by(done as usize);
            }
            report.add(found);
        }
        progress.add(inputs.len() as u64);
        done += inputs.len() as u64;
        // A unit may begin with any earlier program's registers.
        unit = values.unit();
    }
    against
}

impl Against {
    fn reject(&mut self, reason: &Unsupported) {
        self.result = Err(reason.to_string());
    }
}

/// Uniforms and vertices, round after round.
struct Values<'a> {
    subject: &'a Subject,
    special: bool,
    precision: Precision,
    uniforms: Generator,
    inputs: Generator,
    round: u64,
}

impl<'a> Values<'a> {
    fn new(subject: &'a Subject, args: &Args) -> Values<'a> {
        let (uniforms, inputs) = (Generator::new(args.seed), Generator::new(args.seed + 1));
        Values { subject, special: args.special, precision: args.precision, uniforms, inputs, round: 0 }
    }

    fn round(&mut self, count: usize) -> (Uniforms, Vec<Registers>) {
        let mut uniforms = Uniforms::new();
        uniforms.c.fill_with(|| self.uniforms.vec4());
        uniforms.i = [generator::DEFAULT_INT; 4];
        self.subject.dvle.apply_constants(&mut uniforms);
        let mut inputs = vec![[[0.0; 4]; 16]; count];
        inputs.fill_with(|| self.inputs.vertex());
        if self.round > 0 {
            // A host may override the file's constants at any time.
            uniforms.b = bits(&mut self.uniforms) as u16;
        }
        if self.special {
            for int in &mut uniforms.i {
                let random = bits(&mut self.uniforms);
                *int = [(random & 7) as u8, (random >> 3) as u8, (random >> 11 & 3) as u8, 0];
            }
            // A program that meets NaN early gives similar vertices, so the share of special values
            // varies.
            let one_in = [64, 16, 4, 2][self.round as usize % 4];
            sprinkle(uniforms.c.as_flattened_mut(), one_in * 4, &mut self.uniforms);
            sprinkle(inputs.as_flattened_mut().as_flattened_mut(), one_in, &mut self.inputs);
        }
        // In every second round uploads are narrowed, as native float24 code expects.
        if !self.round.is_multiple_of(2) {
            uniforms.narrow(self.precision);
        }
        self.round += 1;
        (uniforms, inputs)
    }

    fn unit(&mut self) -> Unit {
        let mut unit = Unit::new();
        for file in [&mut unit.v, &mut unit.r].into_iter().chain(&mut unit.o).chain(&mut unit.slots) {
            *file = self.inputs.vertex();
        }
        // Temporaries hold results, or values of the host.
        if self.round.is_multiple_of(2) {
            unit.r.as_flattened_mut().iter_mut().for_each(|x| *x = self.precision.operand(*x));
        }
        let random = bits(&mut self.inputs);
        unit.a0 = [(random & 0xFF) as i32 - 128, (random >> 8 & 0x7F) as i32];
        unit.cmp = [random >> 15 & 1 != 0, random >> 16 & 1 != 0];
        unit.al = (random >> 17 & 3) as i32;
        if self.subject.entry.stage == Stage::Geometry {
            unit.bank = (random >> 19 & 1) as u8;
            unit.setemit.vertex = (random >> 20 & 3) as u8;
            unit.setemit.primitive = random >> 22 & 1 != 0;
        }
        unit
    }
}

/// 23 bits from the generator's float.
fn bits(generator: &mut Generator) -> u32 {
    ((generator.value() + 1.0) * (1 << 22) as f32) as u32
}

/// Replaces about one in `one_in` numbers by a special value or by any bit pattern.
fn sprinkle(numbers: &mut [f32], one_in: u32, generator: &mut Generator) {
    for number in numbers {
        if !bits(generator).is_multiple_of(one_in) {
            continue;
        }
        let random = bits(generator);
        *number = match random % 8 {
            0 => f32::from_bits(random << 12 ^ bits(generator)),
            _ => SPECIAL[(random >> 3) as usize % SPECIAL.len()],
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(special: bool) -> Args {
        Args {
            files: Vec::new(),
            vertices: 700,
            seed: 1,
            special,
            fuel: None,
            shrink: false,
            require_native: false,
            precision: Precision::F32,
            #[cfg(feature = "gpu-tests")]
            gpu: false,
            json: false,
        }
    }

    #[test]
    fn built_in_shaders_give_the_same_bits_on_every_engine() {
        let (engines, missing) = measure::engines();
        assert_eq!(missing.is_none(), cfg!(feature = "jit"), "{missing:?}");
        for special in [false, true] {
            let args = args(special);
            for subject in subject::of(&[]).0 {
                let progress = Progress::new(args.vertices, "vertices");
                let results = compare_engines(&subject, &engines, &args, &progress);
                assert_eq!(results.len(), engines.len() - 1);
                for Against { engine, result, .. } in results {
                    let report = result.unwrap_or_else(|e| panic!("{} on {engine}: {e}", subject.shader));
                    assert_eq!(report.vertices, args.vertices);
                    if let Some(first) = report.first {
                        panic!("{} ({} differences): {first}", subject.shader, report.differences);
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_round_is_what_the_run_verb_uses() {
        let subjects = subject::of(&[]).0;
        let args = args(false);
        let (uniforms, inputs) = Values::new(&subjects[1], &args).round(3);
        let expected = generator::uniforms(&subjects[1].dvle);
        assert_eq!((uniforms.c, uniforms.i, uniforms.b), (expected.c, expected.i, expected.b));
        assert_eq!(inputs, generator::inputs(3));
    }

    #[test]
    fn special_values_are_a_small_share() {
        let subjects = subject::of(&[]).0;
        let args = args(true);
        let mut values = Values::new(&subjects[0], &args);
        let (mut all, mut odd) = (0, 0);
        for _ in 0..8 {
            let (_, inputs) = values.round(64);
            all += 64 * 64;
            odd += inputs.as_flattened().as_flattened().iter().filter(|x| !(-1.0..=1.0).contains(*x)).count();
        }
        // Of the special values a little more than half are outside of -1..1.
        assert!((all / 20..all / 4).contains(&odd), "{odd} of {all}");
    }
}
