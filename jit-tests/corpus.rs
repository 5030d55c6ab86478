//! Real shader files, where they are there: each parses, every entry compiles on every engine, and 64 vertices with
//! special values among them leave the same bits everywhere.
//!
//! The files are nobody's to distribute and are not part of the repository; without them one line says so.

use crate::engines::{Engine, engines, reference};
use crate::noise::Noise;
use crate::outcome;
use libtest_mimic::{Failed, Trial};
use picajit::container::shbin::Shbin;
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::kernel::{Config, Kernel};
use picajit::state::{Registers, Uniforms, Unit};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Vertices per entry and engine: sixteen groups of four and more than any lane count.
const VERTICES: usize = 64;

/// One trial per file and engine.
pub fn trials() -> Vec<Trial> {
    let root = std::env::var_os("PICAJIT_CORPUS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/corpus")), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(root.join("shbin")) else {
        eprintln!("skipped: corpus: no folder {} (PICAJIT_CORPUS names another)", root.join("shbin").display());
        return vec![Trial::test("corpus", || Ok(())).with_ignored_flag(true)];
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "shbin"));
    files.sort();
    let trial = |path: &PathBuf, engine: Engine| {
        let name = format!("corpus/{} [{}]", path.file_stem().unwrap_or_default().to_string_lossy(), engine.name);
        let path = path.clone();
        Trial::test(name, move || check(&path, &engine))
    };
    files.iter().flat_map(|path| engines().into_iter().map(|e| trial(path, e)).collect::<Vec<_>>()).collect()
}

fn check(path: &Path, engine: &Engine) -> Result<(), Failed> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let shbin = Shbin::parse(&bytes).map_err(|e| format!("does not parse: {e}"))?;
    let program = Arc::new(shbin.program().map_err(|e| e.to_string())?);
    if shbin.dvles.is_empty() {
        return Err("no entry point".into());
    }
    for (n, dvle) in shbin.dvles.iter().enumerate() {
        let entry = dvle.entry();
        let at = format!("entry {n} (pc {}, {:?})", entry.pc, entry.stage);
        // Data that means nothing may well send a program in circles; a small budget ends that, equally everywhere.
        for (precision, round) in Precision::ALL.into_iter().flat_map(|p| (0..4).map(move |round| (p, round))) {
            let config = Config { fuel: 2048, precision };
            let compile = |engine: &Engine| {
                engine.backend.compile(&program, entry, &config).map_err(|e| format!("{at}: {}: {e}", engine.name))
            };
            let (tested, reference) = (compile(engine)?, compile(&reference())?);
            let mut noise = Noise::new((n * 4 + round) as u64 + 1);
            let uniforms = uniforms(&mut noise, round, |u| dvle.apply_constants(u));
            // The first round as a host begins: zeroed registers.
            let unit = if round == 0 { Unit::new() } else { noise.unit() };
            compare(&*tested, &*reference, &uniforms, &unit, &mut noise, entry.stage, round)
                .map_err(|e| format!("{at}, {precision}, round {round}: {e}"))?;
        }
    }
    Ok(())
}

/// Even rounds with numbers as a game would have them, odd ones with anything.
fn uniforms(noise: &mut Noise, round: usize, constants: impl Fn(&mut Uniforms)) -> Uniforms {
    let mut uniforms = noise.uniforms();
    if round.is_multiple_of(2) {
        uniforms.c = std::array::from_fn(|_| std::array::from_fn(|_| tame(noise)));
    }
    constants(&mut uniforms);
    uniforms
}

/// Between -8 and 8.
fn tame(noise: &mut Noise) -> f32 {
    (noise.below(4097) as f32 - 2048.0) / 256.0
}

fn compare(
    tested: &dyn Kernel,
    reference: &dyn Kernel,
    uniforms: &Uniforms,
    unit: &Unit,
    noise: &mut Noise,
    stage: Stage,
    round: usize,
) -> Result<(), String> {
    let inputs: Vec<Registers> = (0..VERTICES)
        .map(|_| {
            if round.is_multiple_of(2) {
                std::array::from_fn(|_| std::array::from_fn(|_| tame(noise)))
            } else {
                noise.registers()
            }
        })
        .collect();
    let masks = (0xFFFF, 0xFFFF);
    let want = outcome::run_one_by_one(reference, uniforms, unit, &inputs, masks);
    let wrong = outcome::differences(&want, &outcome::run_one_by_one(tested, uniforms, unit, &inputs, masks));
    if !wrong.is_empty() {
        return Err(format!("one by one:\n    {}", wrong.join("\n    ")));
    }
    let wrong = outcome::differences(&want, &outcome::run_batch(tested, uniforms, unit, &inputs, masks));
    if !wrong.is_empty() {
        return Err(format!("as a batch:\n    {}", wrong.join("\n    ")));
    }
    if stage == Stage::Vertex && !want.triangles.is_empty() {
        return Err("a vertex program emitted triangles".into());
    }
    Ok(())
}
