//! The longest runs of one vertex: `cargo bench --bench endless`, milliseconds until an endless
//! loop of each instruction runs out of the default fuel, on each engine and number format.
//!
//! A loop body is long, so nearly every word is the instruction, and most need the result of the
//! one before. The second row of native code has an infinite factor: a run that speculates ends
//! before it runs again, with exact products.

use picajit::engine::{BackendChoice, Engine, Options, Shader};
use picajit::isa::numeric::Precision;
use picajit::kernel::DEFAULT_FUEL;
use picajit::program::Entry;
use picajit::state::{Batch, Exit, Registers, Uniforms, Unit, VertexLayout};
use std::time::Instant;

/// Words in a loop body.
const BODY: usize = 200;
const INSTRUCTIONS: [&str; 12] = [
    "nop",
    "mov r0, v0",
    "add r0, v0, r0",
    "mul r0, v0, r0",
    "mad r0, v0, r0, r1",
    "dp4 r0, v0, r0",
    "dph r0, v0, r0",
    "rcp r0, r0",
    "ex2 r0, r0",
    "lg2 r0, r0",
    "litp r0, r0",
    "mul r0, c0[a0.x], r0",
];
const ENGINES: [(&str, BackendChoice, f32); 4] = [
    ("oracle", BackendChoice::Oracle, 1.25),
    ("tier 0", BackendChoice::NoNative, 1.25),
    ("native", BackendChoice::NativeRequired, 1.25),
    ("native, inf", BackendChoice::NativeRequired, f32::INFINITY),
];

fn shader(engine: &Engine, instruction: &str) -> Option<Shader> {
    let body = format!("{instruction}\n").repeat(BODY);
    let source = format!(".proc main\nagain:\n{body}jmpu b0, again\nmov o0, r0\nend\n.end");
    let shbin = picajit::text::assemble(&source).expect("a good source").shbin;
    engine.try_shader(&shbin.program().expect("short"), Entry::vertex(0)).ok()
}

/// Milliseconds of a batch of `count` vertices, all of which are endless.
fn measure(shader: &Shader, value: f32, count: usize) -> f64 {
    let mut uniforms = Uniforms::new();
    uniforms.b = 1;
    let (inputs, mut outputs) = (vec![[[value; 4]; 16]; count], vec![[[0.0; 4]; 16]; count]);
    let mut unit = Unit::new();
    let mut batch = Batch {
        inputs: inputs.as_slice().into(),
        outputs: outputs.as_mut_slice().into(),
        input_mask: 3,
        output_mask: 1,
        preserve_unit: false,
        layout: VertexLayout::Aos,
    };
    let start = Instant::now();
    let ended = shader.run_batch(&uniforms, &mut unit, &mut batch);
    let ms = start.elapsed().as_secs_f64() * 1e3;
    assert_eq!((ended.exit, ended.ran), (Exit::Fuel, 1));
    assert_eq!(outputs.iter().filter(|o: &&Registers| o[0] != [0.0; 4]).count(), 0, "no run stores an output");
    ms
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let (rounds, fuel) = if std::env::args().any(|a| a == "--bench") { (5, DEFAULT_FUEL) } else { (1, 1000) };
    println!("ms until a vertex, and a batch of 1,024, run out of {fuel} fuel: least and most of {rounds}");
    for precision in Precision::ALL {
        for (name, backend, value) in ENGINES {
            let options = Options { backend, precision, fuel, compile_after: 0, ..Options::default() };
            let engine = Engine::new(options);
            for instruction in INSTRUCTIONS {
                let Some(shader) = shader(&engine, instruction) else {
                    println!("{:11} {name:12} {instruction:24} not native", precision.name());
                    continue;
                };
                let times = [1, 1024].map(|count| {
                    // Code for groups is compiled, unless it is too large.
                    (1..count.min(3)).for_each(|_| _ = measure(&shader, value, count));
                    let mut ms: Vec<f64> = (0..rounds).map(|_| measure(&shader, value, count)).collect();
                    ms.sort_by(f64::total_cmp);
                    format!("{:7.1} {:7.1}", ms[0], ms[rounds - 1])
                });
                println!("{:11} {name:12} {instruction:24} {} {}", precision.name(), times[0], times[1]);
            }
        }
    }
}
