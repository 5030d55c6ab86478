//! A file with `; run:` lines, on one engine: every case alone and in batches, against its
//! expectations and against the reference's complete state.
//!
//! A case runs alone from zeroed registers plus the ones it sets. It runs again with noise in all
//! other registers, compared with the reference only, which shows writes outside the mask. Then it
//! runs as the first, the middle and the last of a batch whose other vertices have other inputs.
//! All of this happens in every number format; the short form runs variants of an engine in one.
//! Expectations hold for the formats that the file or the case names, single precision by
//! default.

use crate::directive::{self, Case, Directives};
use crate::engines::{Engine, engines, reference};
use crate::extent;
use crate::items::{File, Item, Location};
use crate::outcome::{self, Outcome};
use crate::special_values::Noise;
use libtest_mimic::{Completion, Failed, Trial};
use picajit::container::shbin::Shbin;
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::REGS;
use picajit::isa::numeric::Precision;
use picajit::program::{Entry, Program};
use picajit::state::{Registers, Uniforms, Unit};
use picajit::text;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Sizes on both sides of each group size, and one with several groups and a tail.
const BATCH_SIZES: [usize; 5] = [1, 3, 4, 5, 17];
/// Every register.
const ALL: u16 = 0xFFFF;

/// One trial per engine.
pub fn trials(name: &str, path: &Path) -> Vec<Trial> {
    let path = path.to_path_buf();
    let trial = |engine: Engine| {
        let path = path.clone();
        Trial::ignorable_test(format!("{name} [{}]", engine.name), move || run_file(&path, &engine))
    };
    engines().into_iter().map(trial).collect()
}

/// A program ready to run, with uniforms from its constants.
pub struct Loaded {
    pub program: Arc<Program>,
    pub entry: Entry,
    pub uniforms: Uniforms,
    pub shbin: Shbin,
}

/// Assembles a file and applies its constants.
pub fn load(source: &str, entry: Option<u16>) -> Result<Loaded, String> {
    let shbin = text::assemble(source).map_err(|e| format!("does not assemble:\n{e}"))?.shbin;
    let dvle = shbin.dvles.first().ok_or("the file has no entry point")?;
    let pc = entry.unwrap_or(dvle.entry().pc);
    let mut uniforms = Uniforms::new();
    dvle.apply_constants(&mut uniforms);
    let entry = Entry { pc, stage: dvle.stage };
    let program = shbin.program().map_err(|e| e.to_string())?;
    Ok(Loaded { program: Arc::new(program), entry, uniforms, shbin })
}

fn run_file(path: &Path, engine: &Engine) -> Result<Completion, Failed> {
    let source = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    run_source(&path.file_name().unwrap_or_default().to_string_lossy(), &source, engine)
}

/// All cases of a text on an engine; `file` is for messages. An engine that the text opts out of
/// must fail.
pub fn run_source(file: &str, source: &str, engine: &Engine) -> Result<Completion, Failed> {
    let directives = directive::parse(source).map_err(|e| format!("{file}: {e}"))?;
    let result = run_cases(file, source, &directives, engine);
    match (directives.skips.iter().find(|(name, _)| name == engine.name), result) {
        (None, Ok(())) => Ok(Completion::Completed),
        (None, Err(e)) => Err(e.into()),
        (Some((_, reason)), Err(_)) => Ok(Completion::ignored_with(reason)),
        (Some((_, reason)), Ok(())) => {
            Err(format!("{file}: passes on {} although it opts out ({reason}): remove the line", engine.name).into())
        }
    }
}

fn run_cases(file: &str, source: &str, directives: &Directives, engine: &Engine) -> Result<(), String> {
    if directives.cases.is_empty() {
        return Err(format!("{file}: no `; run:` line"));
    }
    let known: Vec<&str> = engines().iter().map(|e| e.name).collect();
    // Engines that this build leaves out may be named; other names are errors.
    let unknown = |name: &&(String, String)| !known.contains(&name.0.as_str()) && !BUILD_DEPENDENT.contains(&&*name.0);
    if let Some((name, _)) = directives.skips.iter().find(unknown) {
        return Err(format!("{file}: `; skip {name}` names no engine"));
    }
    let loaded = load(source, directives.entry).map_err(|e| format!("{file}: {e}"))?;
    let mut kernels = Kernels { engine: engine.clone(), loaded: &loaded, known: HashMap::new() };
    let failures: Vec<String> = directives
        .cases
        .iter()
        .enumerate()
        .flat_map(|(n, case)| formats(case, engine).into_iter().map(move |precision| (n, case, precision)))
        .filter_map(|(n, case, precision)| {
            let expected = case.precisions.contains(&precision);
            let pair = kernels.get(case.fuel, precision);
            let result = pair.and_then(|pair| run_case(&loaded, case, &pair, n as u64, expected));
            result.err().map(|e| format!("{file}:{} on {} in {precision}: {e}", case.line, engine.name))
        })
        .collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The number formats in which a case runs on an engine.
fn formats(case: &Case, engine: &Engine) -> Vec<Precision> {
    // The reference is compared with itself in the case's formats only.
    if engine.name == reference().name || cfg!(miri) {
        return case.precisions.clone();
    }
    match extent::full() || !engine.is_variant() {
        true => Precision::ALL.to_vec(),
        // The short form: the engine that it is a variant of runs in all formats.
        false => case.precisions.iter().copied().take(1).collect(),
    }
}

/// Engines that exist only in some builds and may still be named by `; skip`.
const BUILD_DEPENDENT: [&str; 4] = ["vec4", "batch", "batch8", "unoptimised"];

/// The engine's kernel and the reference's.
struct Pair {
    tested: Arc<dyn Kernel>,
    reference: Arc<dyn Kernel>,
}

struct Kernels<'a> {
    engine: Engine,
    loaded: &'a Loaded,
    known: HashMap<(Option<u32>, Precision), Arc<Pair>>,
}

impl Kernels<'_> {
    fn get(&mut self, fuel: Option<u32>, precision: Precision) -> Result<Arc<Pair>, String> {
        if let Some(pair) = self.known.get(&(fuel, precision)) {
            return Ok(pair.clone());
        }
        let mut config = Config { precision, ..Config::of(self.loaded.entry.stage) };
        // Enough for every program that ends. Endless ones stop soon in Miri, which takes minutes
        // for ten thousand steps.
        let usual = if cfg!(miri) { 1_000 } else { config.fuel };
        config.fuel = fuel.unwrap_or(usual);
        let compile = |engine: &Engine| {
            let kernel = engine.backend.compile(&self.loaded.program, self.loaded.entry, &config);
            kernel.map_err(|e| format!("{} does not compile it: {e}", engine.name))
        };
        let pair = Arc::new(Pair { tested: compile(&self.engine)?, reference: compile(&reference())? });
        self.known.insert((fuel, precision), pair.clone());
        Ok(pair)
    }
}

/// One case, with its expectations if they hold in this number format.
fn run_case(loaded: &Loaded, case: &Case, pair: &Pair, seed: u64, expected: bool) -> Result<(), String> {
    let wanted = if expected { &case.expect[..] } else { &[] };
    let state = |mut uniforms: Uniforms, mut unit: Unit| -> Result<(Uniforms, Unit), String> {
        // The bank first: `o` is the current bank.
        let bank_first = case.set.iter().filter(|i| i.place == Location::Bank);
        for item in bank_first.chain(case.set.iter().filter(|i| i.place != Location::Bank)) {
            outcome::set(item, &mut uniforms, &mut unit)?;
        }
        Ok((uniforms, unit))
    };
    let (uniforms, unit) = state(loaded.uniforms.clone(), Unit::new())?;

    let alone = outcome::run(&*pair.tested, &uniforms, &unit);
    expect("alone", wanted, &alone, case.ulps)?;
    agree("alone", &outcome::run(&*pair.reference, &uniforms, &unit), &alone)?;
    // Miri looks for undefined behaviour, not for wrong results, and takes seconds for each run.
    if cfg!(miri) {
        return Ok(());
    }

    let mut noise = Noise::new(seed + 1);
    let (noisy_uniforms, noisy) = {
        let mut all = noise.uniforms();
        // Only floats that the case and its constants do not set become noise, so control flow
        // stays.
        (all.i, all.b) = (loaded.uniforms.i, loaded.uniforms.b);
        for (n, c) in all.c.iter_mut().enumerate().filter(|(n, _)| loaded.uniforms.c[*n] != [0.0; 4]) {
            *c = loaded.uniforms.c[n];
        }
        state(all, noise.unit())?
    };
    let want = outcome::run(&*pair.reference, &noisy_uniforms, &noisy);
    agree("alone, other registers noise", &want, &outcome::run(&*pair.tested, &noisy_uniforms, &noisy))?;

    for size in BATCH_SIZES {
        let mut positions = vec![0, size / 2, size - 1];
        positions.dedup();
        for position in positions {
            let at = format!("vertex {position} of a batch of {size}");
            let (uniforms, unit) = if position == 0 { (&uniforms, &unit) } else { (&noisy_uniforms, &noisy) };
            let inputs: Vec<Registers> =
                (0..size).map(|n| if n == position { unit.v } else { neighbour(&mut noise, unit) }).collect();
            // The second pair of masks takes most inputs from the unit and leaves most outputs
            // unwritten. Invocations that emit form groups if the host wants no outputs.
            let no_outputs = (loaded.entry.stage == picajit::isa::Stage::Geometry).then_some((ALL, 0));
            for masks in [(ALL, ALL), (named_inputs(&case.set), 0b0101)].into_iter().chain(no_outputs) {
                let want = outcome::run_sequentially(&*pair.reference, uniforms, unit, &inputs, masks);
                let stays = Outcome { unit: unit.clone(), ..want.clone() };
                for preserve_unit in [false, true] {
                    let got = outcome::run_batch(&*pair.tested, uniforms, unit, &inputs, masks, preserve_unit);
                    let want = if preserve_unit { &stays } else { &want };
                    agree(&format!("{at}, preserve_unit = {preserve_unit}"), want, &got)?;
                }
                // The comparison above covers it.
                let got = want;
                if position == 0 && size == 1 {
                    expect(&at, wanted, &got, case.ulps)?;
                }
                // Carried registers change later vertices; the first vertex starts from the case's
                // own state.
                if position == 0 && masks.1 == ALL {
                    let mut first = got.clone();
                    let bank = usize::from(first.unit.bank & 1);
                    first.unit.o[bank] = got.outputs[0];
                    let outputs: Vec<Item> = wanted.iter().filter(|i| is_output(i)).cloned().collect();
                    expect(&format!("{at}, its outputs"), &outputs, &first, case.ulps)?;
                }
            }
        }
    }
    Ok(())
}

/// Other inputs for the vertices around a case: half its own values, half noise, so that branches
/// diverge.
fn neighbour(noise: &mut Noise, unit: &Unit) -> Registers {
    let other = noise.registers();
    std::array::from_fn(|n| std::array::from_fn(|l| if noise.below(2) == 0 { unit.v[n][l] } else { other[n][l] }))
}

fn named_inputs(set: &[Item]) -> u16 {
    let inputs = set.iter().filter_map(|item| match item.place {
        Location::Vector { file: File::V, number, .. } => Some(1u16 << number),
        _ => None,
    });
    inputs.fold(0, |mask, bit| mask | bit)
}

fn is_output(item: &Item) -> bool {
    matches!(item.place, Location::Vector { file: File::O, number, .. } if number < REGS)
}

fn expect(at: &str, items: &[Item], got: &Outcome, ulps: f64) -> Result<(), String> {
    let mut wrong = Vec::new();
    for item in items {
        wrong.extend(outcome::check(item, got, ulps)?);
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{at}:\n    {}", wrong.join("\n    "))) }
}

fn agree(at: &str, want: &Outcome, got: &Outcome) -> Result<(), String> {
    let wrong = outcome::differences(want, got);
    if wrong.is_empty() { Ok(()) } else { Err(format!("{at}: not as the reference:\n    {}", wrong.join("\n    "))) }
}
