//! The time of the first draw with a shader: `cargo bench --bench first`.
//!
//! A host requests a shader that is new to its engine and runs 64 vertices: once the draw waits for
//! native code, once a thread compiles in the background. Microseconds, medians and worst of 101
//! new engines each, in turn; then the time until native code is published.

#[allow(dead_code, unused_imports)] // this bench uses a part of it, and its tests have no harness here
#[path = "../src/bin/picajit/builtin.rs"]
mod builtin;

use picajit::engine::{Engine, Options};
use picajit::state::{Batch, Registers, Uniforms, Unit, VertexLayout};
use std::time::{Duration, Instant};

const ROUNDS: usize = 101;
const VERTICES: usize = 64;

fn main() {
    // `cargo test --benches` only checks that this starts.
    let rounds = if std::env::args().any(|a| a == "--bench") { ROUNDS } else { 1 };
    let us = |times: &mut Vec<Duration>| {
        times.sort();
        (times[times.len() / 2].as_secs_f64() * 1e6, times[times.len() - 1].as_secs_f64() * 1e6)
    };
    println!(
        "first draw of {VERTICES} vertices, us       median   worst   | in the background: median   worst   native after"
    );
    for builtin in builtin::BUILTINS {
        let shbin = picajit::text::assemble(builtin.source).expect("a test assembles each").shbin;
        let program = shbin.program().expect("they are shorter than any limit");
        let entry = shbin.dvles[0].entry();
        let mut uniforms = Uniforms::new();
        shbin.dvles[0].apply_constants(&mut uniforms);
        let inputs: Vec<Registers> = (0..VERTICES).map(|n| [[n as f32, 0.5, -1.0, 1.0]; 16]).collect();
        let mut outputs = vec![[[0.0; 4]; 16]; VERTICES];
        let (mut draws, mut until) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..rounds {
            for (threads, draws) in draws.iter_mut().enumerate() {
                let engine = Engine::new(Options { threads, compile_after: 0, ..Options::default() });
                let mut unit = Unit::new();
                let start = Instant::now();
                let shader = engine.shader(&program, entry);
                let mut batch = Batch {
                    inputs: (&inputs).into(),
                    outputs: (&mut outputs).into(),
                    input_mask: u16::MAX,
                    output_mask: u16::MAX,
                    preserve_unit: false,
                    layout: VertexLayout::Aos,
                };
                shader.run_batch(&uniforms, &mut unit, &mut batch);
                draws.push(start.elapsed());
                if threads > 0 {
                    engine.wait();
                    until.push(start.elapsed());
                }
            }
        }
        let [(now, worst), (later, worst_later)] = draws.each_mut().map(us);
        let (native, _) = us(&mut until);
        println!("  {:32}{now:>8.0}{worst:>8.0}   |{later:>26.0}{worst_later:>8.0}{native:>15.0}", builtin.name);
    }
}
