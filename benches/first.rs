//! The time of the first draw with a shader: `cargo bench --bench first [-- FILE...]`, for the
//! built-in shaders or for files.
//!
//! A host requests a shader that is new to its engine and runs 64 vertices as one batch: on the
//! oracle, on tier 0 while a thread compiles in the background, and on native code that the draw
//! waits for. Microseconds, medians and 99th percentiles over new engines, in turn; then the time
//! until native code is published.

#[allow(dead_code, unused_imports)] // this bench uses a part of each
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[allow(dead_code)]
#[path = "../tools/command/src/measure.rs"]
mod measure;
#[path = "common/shaders.rs"]
mod shaders;

use measure::{Stride, Workload};
use picajit::engine::{BackendChoice, Engine, Options};
use picajit::internals::generator;
use picajit::isa::Stage;
use picajit::state::{Batch, Unit, VerticesMut};
use std::time::{Duration, Instant};

const ROUNDS: usize = 501;
const VERTICES: usize = 64;
const TIERS: [&str; 3] = ["oracle", "tier 0", "native"];

/// Median and 99th percentile, in microseconds.
fn us(times: &mut [Duration]) -> [f64; 2] {
    times.sort();
    [times.len() / 2, times.len() * 99 / 100].map(|n| times[n].as_secs_f64() * 1e6)
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let rounds = if std::env::args().any(|a| a == "--bench") { ROUNDS } else { 1 };
    let heading = TIERS.map(|tier| format!("{tier:>8}     p99")).concat();
    println!("{:38}{heading}   native after", format!("first draw of {VERTICES} vertices, us"));
    let mut all: [Vec<[f64; 2]>; 3] = Default::default();
    for (name, shbin) in shaders::shaders() {
        let Ok(program) = shbin.program() else { continue };
        for dvle in &shbin.dvles {
            let stride = if dvle.entry().stage == Stage::Vertex { Stride::Least } else { Stride::File };
            let inputs = generator::inputs(VERTICES);
            let work = Workload::new(dvle, &program, generator::uniforms(dvle), inputs, stride);
            let mut outputs = work.places();
            let (mut draws, mut until): ([Vec<_>; 3], Vec<_>) = Default::default();
            for _ in 0..rounds {
                for (tier, draws) in draws.iter_mut().enumerate() {
                    let options = match tier {
                        0 => Options { backend: BackendChoice::Oracle, ..Options::default() },
                        1 => Options { threads: 1, ..Options::default() },
                        _ => Options { compile_after: 0, ..Options::default() },
                    };
                    let engine = Engine::new(options);
                    let mut unit = Unit::new();
                    let stride = outputs.len() / VERTICES;
                    let start = Instant::now();
                    let shader = engine.shader(&program, dvle.entry());
                    let mut batch = Batch {
                        inputs: work.vertices(),
                        outputs: VerticesMut::packed(&mut outputs, stride, VERTICES).expect("there are as many"),
                        input_mask: work.input_mask,
                        output_mask: work.output_mask,
                        preserve_unit: false,
                    };
                    shader.run_batch(&work.uniforms, &mut unit, &mut batch);
                    draws.push(start.elapsed());
                    if tier == 1 {
                        engine.wait();
                        until.push(start.elapsed());
                    }
                }
            }
            let figures = draws.each_mut().map(|times| us(times));
            let columns = figures.map(|[median, p99]| format!("{median:>8.1}{p99:>8.1}")).concat();
            println!("  {:36}{columns}{:15.0}", name.chars().take(35).collect::<String>(), us(&mut until)[0]);
            all.iter_mut().zip(figures).for_each(|(all, figures)| all.push(figures));
        }
    }
    for (tier, all) in TIERS.iter().zip(&all) {
        let mut sorted = [0, 1].map(|n| all.iter().map(|figures| figures[n]).collect::<Vec<_>>());
        sorted.iter_mut().for_each(|figures| figures.sort_by(f64::total_cmp));
        let [medians, p99s] = &sorted;
        let (Some(most), Some(most_p99)) = (medians.last(), p99s.last()) else { continue };
        let (median, p99) = (medians[medians.len() / 2], p99s[p99s.len() / 2]);
        println!("{tier}: median {median:.1} (most {most:.1}), p99 {p99:.1} (most {most_p99:.1}), us over all entries");
    }
}
