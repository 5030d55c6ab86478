//! Third-party shader files: each parses, every entry compiles on every engine, 64 vertices with
//! special values give the same bits on all of them, and the disassembly assembles back to the file.
//! Each listed file of any kind has its hash.

use crate::engines::{Engine, engines, reference};
use crate::outcome::{self, Outcome};
use crate::prerequisites::third_party_files;
use crate::special_values::Noise;
use libtest_mimic::{Failed, Trial};
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::{Constant, Shbin};
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::state::{Registers, Uniforms, Unit};
use picajit::text;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Vertices per entry and engine: sixteen groups of four.
const VERTICES: usize = 64;

/// One trial per file and engine.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("corpus/the-page-lists-files-of-each-kind", || page_lists_each_kind(&listed()))];
    let files = third_party_files("shbin", "shbin");
    if files.is_empty() {
        trials.push(Trial::test("corpus", || Ok(())).with_ignored_flag(true));
        return trials;
    }
    trials.push(Trial::test("corpus/hashes", || hashes(&listed())));
    let trial = |path: &PathBuf, engine: Engine| {
        let name = format!("corpus/{} [{}]", path.file_stem().unwrap_or_default().to_string_lossy(), engine.name);
        let path = path.clone();
        Trial::test(name, move || check(&path, &engine))
    };
    trials.extend(files.iter().flat_map(|path| engines().into_iter().map(|e| trial(path, e)).collect::<Vec<_>>()));
    trials.push(Trial::test("corpus/text-and-back", move || text_and_back(&files)));
    trials
}

/// A row of docs/third-party-files.md.
struct Listed {
    kind: &'static str,
    name: &'static str,
    sha256: &'static str,
    size: u64,
}

/// The files that docs/third-party-files.md lists.
fn listed() -> Vec<Listed> {
    let mut kind = "";
    let mut all = Vec::new();
    for line in include_str!("../docs/third-party-files.md").lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            kind = heading;
        }
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        if let [_, name, sha256, size, ..] = cells[..]
            && sha256.len() == 64
        {
            all.push(Listed { kind, name, sha256, size: size.parse().expect("a size in bytes") });
        }
    }
    all
}

fn page_lists_each_kind(listed: &[Listed]) -> Result<(), Failed> {
    for kind in ["shbin", "metallib", "mbs", "vbc", "frames"] {
        if !listed.iter().any(|row| row.kind == kind && row.size > 0) {
            return Err(format!("docs/third-party-files.md lists no file of {kind}").into());
        }
    }
    Ok(())
}

/// What a listed name stands for is the file that results were published of.
fn hashes(listed: &[Listed]) -> Result<(), Failed> {
    use sha2::{Digest, Sha256};
    let mut wrong = Vec::new();
    for row in listed {
        let ending = row.name.rsplit('.').next().expect("one piece");
        let files = third_party_files(row.kind, ending);
        let Some(path) = files.iter().find(|path| path.ends_with(row.name)) else { continue };
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if hash != row.sha256 || bytes.len() as u64 != row.size {
            wrong.push(format!("{}: {} bytes, sha256 {hash}", path.display(), bytes.len()));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Counts over the round trips through text.
#[derive(Debug, Default)]
struct Counts {
    files: usize,
    objects: usize,
    plain: usize,
    words: usize,
    descriptors: usize,
    entries: usize,
    geometry: usize,
    constants: usize,
    outputs: usize,
    uniforms: usize,
    labels: usize,
    /// File names that the language can't express.
    comments: usize,
}

/// Disassembled and assembled again every shader file is equal.
fn text_and_back(paths: &[PathBuf]) -> Result<(), Failed> {
    let mut counts = Counts::default();
    for path in paths {
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        let at = |e: String| format!("{}: {e}", path.display());
        let given = match Kind::sniff(&bytes) {
            Some(Kind::Shbin) => Shbin::parse(&bytes).map_err(|e| at(e.to_string()))?,
            Some(Kind::Dvoj) => {
                counts.objects += 1;
                Dvoj::parse(&bytes).map_err(|e| at(e.to_string()))?.linked_alone()
            }
            _ => continue,
        };
        comes_back(&given, &mut counts).map_err(at)?;
    }
    // Not captured by the harness, so that runs with and without the corpus differ visibly.
    eprintln!("corpus: text and back: {counts:?}");
    if counts.files == 0 || counts.entries < counts.files { Err("hardly any shader was found".into()) } else { Ok(()) }
}

fn comes_back(given: &Shbin, counts: &mut Counts) -> Result<(), String> {
    let shown = text::disassemble(given);
    let again = text::assemble(&shown).map_err(|e| format!("{e}\n{shown}"))?.shbin;
    let mut wanted = given.clone();
    let all = wanted.file_names.len();
    wanted.file_names.retain(|name| !name.contains(|c: char| matches!(c, '"' | ';' | ':') || c.is_control()));
    counts.comments += all - wanted.file_names.len();
    for dvle in &mut wanted.dvles {
        counts.labels += dvle.labels.len();
        // Rows may stand in any order; the assembler writes them as picasso does.
        dvle.uniforms.sort_by_key(|u| u.first);
        for constant in &mut dvle.constants {
            if let Constant::Float { value, .. } = constant {
                *value = value.map(|word| word & 0xFF_FFFF);
            }
        }
        counts.constants += dvle.constants.len();
        counts.outputs += dvle.outputs.len();
        counts.uniforms += dvle.uniforms.len();
        counts.geometry += usize::from(dvle.stage == Stage::Geometry);
    }
    counts.files += 1;
    counts.plain += usize::from(!shown.contains("\n.raw\n") && !shown.starts_with(".raw\n"));
    counts.words += wanted.code.len();
    counts.descriptors += wanted.opdescs.len();
    counts.entries += wanted.dvles.len();
    if again.code != wanted.code || again.opdescs != wanted.opdescs {
        return Err(format!("other words or descriptors\n{shown}"));
    }
    match again.dvles.iter().zip(&wanted.dvles).find(|(a, w)| a != w) {
        Some((a, w)) => Err(format!("a table differs\n  given: {w:?}\n  again: {a:?}\n{shown}")),
        None if again != wanted => Err(format!("something else differs\n{shown}")),
        None => Ok(()),
    }
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
        // Meaningless data may make a program endless; a small budget ends it at the same point on
        // every engine.
        for (precision, round) in Precision::ALL.into_iter().flat_map(|p| (0..4).map(move |round| (p, round))) {
            let config = Config { fuel: 16_384, precision, ..Config::default() };
            let compile = |engine: &Engine| {
                engine.backend.compile(&program, entry, &config).map_err(|e| format!("{at}: {}: {e}", engine.name))
            };
            let (tested, reference) = (compile(engine)?, compile(&reference())?);
            let mut noise = Noise::new((n * 4 + round) as u64 + 1);
            let uniforms = uniforms(&mut noise, round, |u| dvle.apply_constants(u));
            // The first round begins with zeroed registers, as a host does.
            let unit = if round == 0 { Unit::new() } else { noise.unit() };
            compare(&*tested, &*reference, &uniforms, &unit, &mut noise, entry.stage, round)
                .map_err(|e| format!("{at}, {precision}, round {round}: {e}"))?;
        }
    }
    Ok(())
}

/// Even rounds have ordinary numbers, odd ones any.
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
    let want = outcome::run_sequentially(reference, uniforms, unit, &inputs, masks);
    let wrong = outcome::differences(&want, &outcome::run_sequentially(tested, uniforms, unit, &inputs, masks));
    if !wrong.is_empty() {
        return Err(format!("in sequence:\n    {}", wrong.join("\n    ")));
    }
    let stays = Outcome { unit: unit.clone(), ..want.clone() };
    for preserve_unit in [false, true] {
        let got = outcome::run_batch(tested, uniforms, unit, &inputs, masks, preserve_unit);
        let wrong = outcome::differences(if preserve_unit { &stays } else { &want }, &got);
        if !wrong.is_empty() {
            return Err(format!("as a batch, preserve_unit = {preserve_unit}:\n    {}", wrong.join("\n    ")));
        }
    }
    if stage == Stage::Vertex && !want.triangles.is_empty() {
        return Err("a vertex program emitted triangles".into());
    }
    Ok(())
}
