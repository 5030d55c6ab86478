//! The first frame with 300 shaders that are new to the engine: `cargo bench --bench frame [--
//! FILE...]`, with the built-in shaders or files, and generated programs up to 300.
//!
//! A frame looks up each shader and draws 64 vertices with it, while one thread compiles in the
//! background. Then the same frame again, after the first code of all shaders is compiled.
//! Milliseconds over new engines: median and worst.

#[allow(dead_code, unused_imports)] // this bench uses a part of each
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[path = "common/shaders.rs"]
mod shaders;

use picajit::engine::{Engine, Options};
use picajit::internals::generator;
use picajit::internals::kernel::{Backend, Config};
use picajit::internals::tier0::Tier0;
use picajit::isa::Stage;
use picajit::program::{Entry, Program};
use picajit::state::{Batch, Exit, NoEmitter, Uniforms, Unit, Vertices, VerticesMut};
use picajit_fuzz::{Tier, case_from_seed};
use std::time::{Duration, Instant};

const ROUNDS: usize = 11;
const SHADERS: usize = 300;
const VERTICES: usize = 64;
/// Registers a vertex.
const STRIDE: usize = 4;
/// Backward transfers of a generated program's run. Programs that take more would be most of a
/// frame.
const FUEL: u32 = 16;

/// A shader with its uniforms.
struct Subject {
    program: Program,
    entry: Entry,
    uniforms: Uniforms,
}

/// Vertex shaders: given ones, then generated ones that end soon.
fn subjects(inputs: &[[f32; 4]]) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for (_, shbin) in shaders::shaders() {
        let Ok(program) = shbin.program() else { continue };
        for dvle in shbin.dvles.iter().filter(|dvle| dvle.entry().stage == Stage::Vertex) {
            let uniforms = generator::uniforms(dvle);
            subjects.push(Subject { program: program.clone(), entry: dvle.entry(), uniforms });
        }
    }
    for seed in 1.. {
        if subjects.len() >= SHADERS {
            break;
        }
        let case = case_from_seed(seed, Some(Tier::Groups), 1);
        let config = Config { fuel: FUEL, ..Config::default() };
        let kernel = Tier0::default().compile(&case.program, case.entry, &config).expect("it takes every program");
        let ends = |vertex: &[[f32; 4]]| {
            let mut unit = Unit::new();
            unit.v[..STRIDE].copy_from_slice(vertex);
            kernel.run(&case.uniforms, &mut unit, &mut NoEmitter) == Exit::End
        };
        if inputs.chunks(STRIDE).all(ends) {
            subjects.push(Subject { program: (*case.program).clone(), entry: case.entry, uniforms: case.uniforms });
        }
    }
    subjects
}

/// The time of one frame.
fn frame(engine: &Engine, subjects: &[Subject], inputs: &[[f32; 4]], outputs: &mut [[f32; 4]]) -> Duration {
    let mut unit = Unit::new();
    let start = Instant::now();
    for Subject { program, entry, uniforms } in subjects {
        let shader = engine.shader(program, *entry);
        let mut batch = Batch {
            inputs: Vertices::packed(inputs, STRIDE, VERTICES).expect("there are as many"),
            outputs: VerticesMut::packed(outputs, STRIDE, VERTICES).expect("there are as many"),
            input_mask: (1 << STRIDE) - 1,
            output_mask: (1 << STRIDE) - 1,
            preserve_unit: false,
        };
        shader.run_batch(uniforms, &mut unit, &mut batch);
    }
    start.elapsed()
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let rounds = if std::env::args().any(|a| a == "--bench") { ROUNDS } else { 1 };
    let inputs: Vec<[f32; 4]> = generator::inputs(VERTICES).iter().flat_map(|file| file[..STRIDE].to_vec()).collect();
    let subjects = subjects(&inputs);
    let mut outputs = vec![[0.0; 4]; VERTICES * STRIDE];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let engine = Engine::new(Options { threads: 1, ..Options::default() });
        times[0].push(frame(&engine, &subjects, &inputs, &mut outputs));
        engine.wait();
        times[1].push(frame(&engine, &subjects, &inputs, &mut outputs));
    }
    println!("frame of {} shaders, {VERTICES} vertices each, ms     median   worst", subjects.len());
    for (name, times) in ["first", "compiled"].iter().zip(&mut times) {
        times.sort();
        let [median, worst] = [times.len() / 2, times.len() - 1].map(|n| times[n].as_secs_f64() * 1e3);
        println!("  {name:20}{median:33.2}{worst:8.2}");
    }
}
