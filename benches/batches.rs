//! Whether a batch ever costs more than single calls: `cargo bench --bench batches`. The same
//! vertices, opaque to the compiler, through [`Shader::run_batch`] and through a host's own loop
//! around [`Shader::run`], in turn; nanoseconds a call, medians.

#[allow(dead_code, unused_imports)] // this bench uses a part of each
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[allow(dead_code, unused_imports)]
#[path = "../tools/command/src/measure.rs"]
mod measure;

use measure::Workload;
use picajit::engine::{Engine, Options, Shader};
use picajit::internals::generator;
use picajit::internals::kernel::copy_registers;
use picajit::isa::Stage;
use picajit::state::{Batch, Exit, Uniforms, Unit, VerticesMut};
use std::hint::black_box;
use std::time::Instant;

const SIZES: [usize; 10] = [1, 2, 3, 4, 5, 7, 8, 16, 17, 64];
/// Vertices of the calls that are timed together.
const VERTICES: usize = 4096;

/// A loop, a batch, and a batch that preserves the unit.
const METHODS: [&str; 3] = ["loop", "batch", "preserve"];

/// The loop of a host without batches, on the same vertices.
fn sequential_reason(shader: &Shader, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> Exit {
    let mut result = Exit::End;
    for n in 0..batch.len() {
        copy_registers(batch.input_mask, &batch.inputs[n], &mut unit.v);
        let exit = shader.run(uniforms, unit);
        copy_registers(batch.output_mask, unit.outputs(), &mut batch.outputs[n]);
        if result == Exit::End {
            result = exit;
        }
    }
    result
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let rounds = if std::env::args().any(|a| a == "--bench") { 201 } else { 3 };
    let engine = Engine::new(Options { compile_after: 0, ..Options::default() });
    println!("{:12}{:12}{}", "", "vertices", SIZES.map(|n| format!("{n:>8}")).concat());
    for builtin in builtin::BUILTINS {
        let shbin = picajit::text::assemble(builtin.source).expect("a test assembles each").shbin;
        let program = shbin.program().expect("they are shorter than any limit");
        let dvle = &shbin.dvles[0];
        if dvle.entry().stage != Stage::Vertex {
            continue;
        }
        let (uniforms, inputs) = (generator::uniforms(dvle), generator::inputs(VERTICES));
        let mut work = Workload::new(dvle, &program, uniforms, inputs, measure::Stride::Least);
        let shader = engine.shader(&program, dvle.entry());
        let mut outputs = work.places();
        let columns = SIZES.map(|size| {
            let mut ns = [const { Vec::new() }; METHODS.len()];
            // The first calls compile the batch code.
            for round in 0..rounds + 2 {
                for (way, ns) in ns.iter_mut().enumerate() {
                    work.preserve_unit = way == 2;
                    let took = timed(&work, size, &mut outputs, |uniforms, unit, batch| match way {
                        0 => sequential_reason(&shader, uniforms, unit, batch),
                        _ => shader.run_batch(uniforms, unit, batch).exit,
                    });
                    if round >= 2 {
                        ns.push(took);
                    }
                }
            }
            ns.map(|mut all| {
                all.sort_by(f64::total_cmp);
                all.get(all.len() / 2).copied()
            })
        });
        let shown = |ns: Option<f64>, digits| ns.map_or(format!("{:>8}", "-"), |ns| format!("{ns:>8.digits$}"));
        for (n, method) in METHODS.iter().enumerate() {
            println!("{:12}{method:12}{}", builtin.name, columns.map(|ns| shown(ns[n], 1)).concat());
        }
        let times = columns.map(|ns| shown(ns[1].zip(ns[0]).map(|(batch, alone)| batch / alone), 2));
        println!("{:12}{:12}{}", "", "of loop", times.concat());
    }
}

/// Nanoseconds a call, over all vertices in batches of `size`.
fn timed(
    work: &Workload,
    size: usize,
    outputs: &mut [picajit::state::Vec4],
    mut call: impl FnMut(&Uniforms, &mut Unit, &mut Batch<'_>) -> Exit,
) -> f64 {
    let (all, stride) = (work.vertices(), outputs.len() / work.inputs.len());
    let Workload { input_mask, output_mask, preserve_unit, .. } = *black_box(work);
    let mut unit = Unit::new();
    let calls = VERTICES / size;
    let start = Instant::now();
    for (n, places) in outputs.chunks_mut(size * stride).take(calls).enumerate() {
        let inputs = black_box(all.part(n * size..(n + 1) * size));
        let outputs = VerticesMut::packed(places, stride, size).expect("the buffer has that many vertices");
        black_box(call(
            &work.uniforms,
            &mut unit,
            &mut Batch { inputs, outputs, input_mask, output_mask, preserve_unit },
        ));
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}
