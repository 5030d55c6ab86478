//! Whether a batch ever costs more than its vertices one by one: `cargo bench --bench batches`. The same batch, which the compiler knows
//! nothing of, through [`Shader::run_batch`] and through a loop of a host's own around [`Shader::run`], in turn; nanoseconds a call, medians.

#[allow(dead_code, unused_imports)] // this bench uses a part of each
#[path = "../src/bin/picajit/builtin.rs"]
mod builtin;
#[allow(dead_code)]
#[path = "../src/bin/picajit/measure.rs"]
mod measure;
#[allow(dead_code, unused_imports)]
#[path = "../src/bin/picajit/values.rs"]
mod values;

use measure::Workload;
use picajit::engine::{Engine, Options, Shader};
use picajit::isa::Stage;
use picajit::kernel::copy_registers;
use picajit::state::{Batch, Exit, Order, Uniforms, Unit, VerticesMut};
use std::hint::black_box;
use std::time::Instant;

const SIZES: [usize; 10] = [1, 2, 3, 4, 5, 7, 8, 16, 17, 64];
/// Calls that are timed at once run some thousand vertices.
const VERTICES: usize = 4096;

/// What a host does that knows no batches, with vertices as a batch has them.
fn one_by_one(shader: &Shader, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> Exit {
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
    // `cargo test --benches` starts this too, only to see that it works.
    let rounds = if std::env::args().any(|a| a == "--bench") { 201 } else { 3 };
    let engine = Engine::new(Options::default());
    println!("{:12}{:12}{}", "", "vertices", SIZES.map(|n| format!("{n:>8}")).concat());
    for builtin in builtin::BUILTINS {
        let shbin = picajit::text::assemble(builtin.source).expect("a test assembles each").shbin;
        let program = shbin.program().expect("they are shorter than any limit");
        let dvle = &shbin.dvles[0];
        if dvle.entry().stage != Stage::Vertex {
            continue;
        }
        let (uniforms, inputs) = (values::uniforms(dvle), values::inputs(VERTICES));
        let mut work = Workload::new(dvle, &program, uniforms, inputs, measure::Stride::Least);
        let shader = engine.shader(&program, dvle.entry());
        let mut outputs = work.places();
        let columns = SIZES.map(|size| {
            let mut ns = [const { Vec::new() }; 3];
            // What comes first has code for batches made.
            for round in 0..rounds + 2 {
                for (way, ns) in ns.iter_mut().enumerate() {
                    work.unit_stays = way == 2;
                    let took = timed(&work, size, &mut outputs, |uniforms, unit, batch| match way {
                        0 => one_by_one(&shader, uniforms, unit, batch),
                        _ => shader.run_batch(uniforms, unit, batch),
                    });
                    if round >= 2 {
                        ns.push(took);
                    }
                }
            }
            ns.map(|mut all| {
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            })
        });
        for (way, who) in ["loop", "batch", "unit stays"].iter().enumerate() {
            println!("{:12}{who:12}{}", builtin.name, columns.map(|ns| format!("{:>8.1}", ns[way])).concat());
        }
        println!("{:12}{:12}{}", "", "of loop", columns.map(|ns| format!("{:>8.2}", ns[1] / ns[0])).concat());
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
    let (input_mask, output_mask, unit_stays) = black_box((work.input_mask, work.output_mask, work.unit_stays));
    let mut unit = Unit::new();
    let calls = VERTICES / size;
    let start = Instant::now();
    for (n, places) in outputs.chunks_mut(size * stride).take(calls).enumerate() {
        let inputs = black_box(all.part(n * size..(n + 1) * size));
        let outputs = VerticesMut::packed(places, stride, size).expect("there are as many");
        black_box(call(
            &work.uniforms,
            &mut unit,
            &mut Batch { inputs, outputs, input_mask, output_mask, unit_stays, order: Order::Registers },
        ));
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}
