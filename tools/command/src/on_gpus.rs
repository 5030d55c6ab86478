//! `diff --gpu` and `bench --gpu`: vertex entries on the devices of the machine's Vulkan drivers.

use crate::measure::median;
use crate::subject::Subject;
use crate::verdict::{Verdict, Vertex};
use crate::vulkan::{self, Gpu};
use crate::{Status, VerbResult, generator, report};
use picajit::gpu_code::{Control, GpuCode, Interface, NoGpuCode};
use picajit::internals::interp::Interp;
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::state::{Exit, NoEmitter, Registers, Uniforms, Unit};
use std::io::Write;
use std::time::{Duration, Instant};

/// Vertices of a dispatch at most.
const MOST: usize = 1 << 14;
/// Rounds of each measurement.
const ROUNDS: usize = 9;
/// The least time of a measured dispatch.
const LEAST: Duration = Duration::from_millis(2);

/// Devices, as a host may use them that tested them.
fn devices() -> Vec<Gpu> {
    let mut devices = vulkan::devices(MOST, false);
    for gpu in &mut devices {
        // SwiftShader rounds to nearest and does not report it.
        if gpu.properties.rounding == Control::Unknown {
            gpu.properties.rounding = Control::Known;
        }
    }
    if devices.is_empty() {
        report::error("no Vulkan device\nhelp: install a driver; mesa-vulkan-drivers has one without a GPU");
    }
    devices
}

fn code(subject: &Subject, precision: Precision, gpu: &Gpu) -> Result<GpuCode, NoGpuCode> {
    let config = Config { precision, ..Config::default() };
    GpuCode::new(&subject.program, subject.entry, &config, &Interface::compute(), &gpu.properties)
}

/// Components that differ, those of subnormal numbers apart.
#[derive(Default)]
struct Differences {
    vertices: usize,
    wrong: usize,
    subnormal: usize,
    first: Option<String>,
}

/// Runs each vertex entry on every device, and on the oracle.
pub fn diff(
    subjects: &[Subject],
    precision: Precision,
    mut values: impl FnMut(&Subject) -> Vec<(Uniforms, Vec<Registers>)>,
    out: &mut dyn Write,
) -> VerbResult {
    let devices = devices();
    if devices.is_empty() {
        return Ok(Status::Unusable);
    }
    let mut different = 0;
    for subject in subjects.iter().filter(|subject| subject.entry.stage == Stage::Vertex) {
        let rounds = values(subject);
        for gpu in &devices {
            write!(out, "{} ({precision}) on {}: ", subject.title(), gpu.name)?;
            let code = match code(subject, precision, gpu) {
                Ok(code) => code,
                Err(reason) => {
                    writeln!(out, "not compared: {}", reason.to_string().replace("\nhelp:", ";"))?;
                    continue;
                }
            };
            let found = compare(gpu, subject, &code, precision, &rounds);
            let Differences { vertices, wrong, subnormal, first } = found;
            match wrong {
                0 => write!(out, "{vertices} vertices, no difference")?,
                _ => write!(out, "{vertices} vertices, {wrong} DIFFERENT COMPONENTS")?,
            }
            if subnormal > 0 {
                write!(out, "; {subnormal} components subnormal")?;
            }
            writeln!(out)?;
            if let Some(first) = first {
                writeln!(out, "  {first}")?;
            }
            different += usize::from(wrong > 0);
            out.flush()?;
        }
    }
    Ok(if different > 0 { Status::Different } else { Status::Fine })
}

fn compare(
    gpu: &Gpu,
    subject: &Subject,
    code: &GpuCode,
    precision: Precision,
    rounds: &[(Uniforms, Vec<Registers>)],
) -> Differences {
    let pipeline = gpu.pipeline(code.spirv(), None);
    let config = Config { precision, fuel: picajit::gpu_code::MOST_FUEL, ..Config::default() };
    let kernel = Interp.kernel(&subject.program, subject.entry, &config);
    let mut found = Differences::default();
    for (uniforms, inputs) in rounds {
        let mut uniforms = uniforms.clone();
        uniforms.narrow(precision);
        let block = code.uniform_block(&uniforms);
        for part in inputs.chunks(MOST) {
            for (&v, got) in part.iter().zip(pipeline.run(&block, part)) {
                let mut unit = Unit { v, ..Unit::new() };
                // The code's fuel ends such a run elsewhere.
                if kernel.run(&uniforms, &mut unit, &mut NoEmitter) == Exit::Fuel {
                    continue;
                }
                let vertex = Vertex::new(code, &uniforms, &v);
                for n in (0..16).filter(|n| code.outputs() >> n & 1 != 0) {
                    for c in 0..4 {
                        let (want, got) = (unit.outputs()[n][c], got[n][c]);
                        match vertex.verdict(n, c, want, got) {
                            Verdict::Equal => continue,
                            Verdict::Subnormal => {
                                found.subnormal += 1;
                                continue;
                            }
                            Verdict::Wrong => {}
                        }
                        found.wrong += 1;
                        let text = || {
                            let bits = [want, got].map(f32::to_bits);
                            format!(
                                "vertex {}: o{n}.{} is {got:e} ({:08x}), not {want:e} ({:08x})",
                                found.vertices,
                                ["x", "y", "z", "w"][c],
                                bits[1],
                                bits[0]
                            )
                        };
                        found.first.get_or_insert_with(text);
                    }
                }
                found.vertices += 1;
            }
        }
    }
    found
}

/// Times of each vertex entry on every device: code, pipeline, a vertex, and a vertex with plain products.
pub fn bench(subjects: &[Subject], precision: Precision, out: &mut dyn Write) -> VerbResult {
    let devices = devices();
    if devices.is_empty() {
        return Ok(Status::Unusable);
    }
    let inputs = generator::inputs(MOST);
    for gpu in &devices {
        writeln!(out, "{}, {precision}\n", gpu.name)?;
        writeln!(
            out,
            "{:<40} {:>7} {:>9} {:>12} {:>10} {:>10} {:>6}",
            "", "words", "code us", "pipeline ms", "ns/vertex", "plain", "ratio"
        )?;
        let mut ratios = Vec::new();
        for subject in subjects.iter().filter(|subject| subject.entry.stage == Stage::Vertex) {
            let exact = match code(subject, precision, gpu) {
                Ok(code) => code,
                Err(reason) => {
                    let reason = reason.to_string();
                    writeln!(out, "{:<40.40} {}", subject.title(), reason.lines().next().unwrap_or_default())?;
                    continue;
                }
            };
            let make = (0..ROUNDS).map(|_| timed(|| drop(code(subject, precision, gpu))));
            let make = median(&mut make.collect::<Vec<_>>());
            let start = Instant::now();
            let plain = exact.clone().with_plain_products(&gpu.properties);
            let plain = gpu.pipeline(plain.spirv(), None);
            let pipeline = gpu.pipeline(exact.spirv(), None);
            let made = start.elapsed().as_secs_f64();
            let block = exact.uniform_block(&generator::uniforms(&subject.dvle));
            // The first run fills the buffers, which both share.
            plain.run(&block, &inputs);
            pipeline.run(&block, &inputs);
            let mut times = [Vec::new(), Vec::new()];
            let repeats = (LEAST.as_secs_f64() / timed(|| pipeline.run_again(MOST))).ceil().max(1.0);
            for _ in 0..ROUNDS {
                for (pipeline, times) in [&pipeline, &plain].into_iter().zip(&mut times) {
                    let time = timed(|| (0..repeats as usize).for_each(|_| pipeline.run_again(MOST)));
                    times.push(time / repeats / MOST as f64 * 1e9);
                }
            }
            let [exact_time, plain_time] = times.map(|mut times| median(&mut times));
            ratios.push(exact_time / plain_time);
            writeln!(
                out,
                "{:<40.40} {:>7} {:>9.1} {:>12.1} {exact_time:>10.1} {plain_time:>10.1} {:>6.2}",
                subject.title(),
                exact.spirv().len(),
                make * 1e6,
                made * 1e3 / 2.0,
                exact_time / plain_time,
            )?;
            out.flush()?;
        }
        let mean = (ratios.iter().map(|ratio: &f64| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        writeln!(out, "{:<40} {:>57.2}\n", "geometric mean", mean)?;
    }
    Ok(Status::Fine)
}

fn timed(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
}
