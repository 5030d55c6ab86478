//! Compile times by stage for the built-in shaders, or for files, and the size of the code:
//! `cargo bench --bench compile [-- FILE...]`. Microseconds, medians of 51 compilations after a
//! warm-up. Batch code is compiled by a kernel's first batch: its time is that of the first batch
//! less that of the second, for one group and for two interleaved groups.

#[allow(unused_imports)] // its tests have no harness here
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[allow(dead_code, unused_imports)] // this bench uses a part of it
#[path = "../tools/command/src/measure.rs"]
mod measure;
#[path = "common/shaders.rs"]
mod shaders;

use measure::{Engine, Workload};
use picajit::container::shbin::Shbin;
use picajit::internals::generator;
use picajit::internals::kernel::Config;
use picajit::isa::Stage;
use picajit::program::Program;
use picajit::state::Unit;
use std::sync::Arc;
use std::time::{Duration, Instant};

const COMPILES: usize = 51;

/// A batch of one group, and one of two groups that may interleave.
const BATCHES: [(&str, usize); 2] = [("one group", 4), ("two groups", 8)];

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Bytes of the batch code that a kernel's first batch of `count` vertices compiles, and how long
/// that takes.
fn batch_code(
    engine: &Engine,
    program: &Arc<Program>,
    work: &Workload,
    shbin: &Shbin,
    count: usize,
    compiles: usize,
) -> (usize, Duration) {
    let (mut times, mut bytes) = (Vec::new(), 0);
    let mut outputs = work.places();
    for _ in 0..=compiles {
        let kernel = engine.compile(program, shbin.dvles[0].entry()).expect("it compiled before").kernel;
        let before = kernel.native_bytes();
        let mut unit = Unit::new();
        let mut batch = || {
            let start = Instant::now();
            work.batch(&mut unit, &*kernel, work.vertices().part(0..count), &mut outputs);
            start.elapsed()
        };
        batch();
        let (first, second) = (batch(), batch());
        times.push(first.saturating_sub(second));
        bytes = kernel.native_bytes() - before;
    }
    (bytes, measure::median(&mut times[1..]))
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let compiles = if std::env::args().any(|a| a == "--bench") { COMPILES } else { 1 };
    let (engines, missing) = measure::engines();
    if let Some(reason) = missing {
        println!("only the interpreter: {reason}");
    }
    for (name, shbin) in shaders::shaders() {
        let (Some(dvle), Ok(program)) = (shbin.dvles.first(), shbin.program()) else { continue };
        let program = Arc::new(program);
        println!("{name} ({} words)", program.code().len());
        for engine in &engines {
            match engine.compile_often(&program, dvle.entry(), &Config::default(), compiles, Duration::MAX) {
                Ok(c) => {
                    print!("  {:12}{:>8} bytes{:>10.1} us", c.engine, c.kernel.native_bytes(), us(c.time));
                    c.stages.iter().for_each(|(name, time)| print!("  {name} {:.1}", us(*time)));
                    println!();
                }
                Err(reason) => println!("  {:12}{reason}", engine.name()),
            }
        }
        let (Some(engine), Stage::Vertex) = (engines.iter().find(|e| e.name() == "batch"), dvle.entry().stage) else {
            continue;
        };
        let (uniforms, inputs) = (generator::uniforms(dvle), generator::inputs(64));
        let work = Workload::new(dvle, &program, uniforms, inputs, measure::Stride::Least);
        for (name, count) in BATCHES {
            let (bytes, time) = batch_code(engine, &program, &work, &shbin, count, compiles);
            println!("  {name:12}{bytes:>8} bytes{:>10.1} us", us(time));
        }
    }
}
