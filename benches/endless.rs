//! The longest runs of one vertex: `cargo bench --bench endless`, milliseconds until an endless
//! loop of each instruction runs out of the default fuel, on each engine and number format.
//!
//! A loop body is long, so nearly every word is the instruction, and most need the result of the
//! one before. The second row of native code has an infinite factor: a run that speculates ends
//! before it runs again, with exact products.
//!
//! Then how soon what runs ends when another thread cancels it, and how long dropping an engine takes
//! whose threads compile the largest programs.

use picajit::engine::{BackendChoice, Engine, Options, Shader};
use picajit::gpu::{Gpu, RegisterFile as Reg, TriangleSink};
use picajit::internals::kernel::default_fuel;
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::program::Entry;
use picajit::semantics::Semantics;
use picajit::state::{Batch, Exit, Registers, Uniforms, Unit, Vertices, VerticesMut};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

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
    };
    let start = Instant::now();
    let ended = shader.run_batch(&uniforms, &mut unit, &mut batch);
    let ms = start.elapsed().as_secs_f64() * 1e3;
    assert_eq!((ended.exit, ended.ran), (Exit::Fuel, 1));
    assert_eq!(outputs.iter().filter(|o: &&Registers| o[0] != [0.0; 4]).count(), 0, "no run stores an output");
    ms
}

/// Milliseconds from a cancel to the return of `work`, sorted. `work` starts anew each time.
fn cancel(engine: &Engine, tries: usize, mut work: impl FnMut() -> Exit) -> Vec<f64> {
    let mut all: Vec<f64> = (0..)
        .filter_map(|n| {
            let (exit, latency) = thread::scope(|scope| {
                let canceller = scope.spawn(move || {
                    // At different points of the work.
                    thread::sleep(Duration::from_micros(2000 + n % 50 * 41));
                    let now = Instant::now();
                    engine.cancel();
                    now
                });
                let exit = work();
                let end = Instant::now();
                let start = canceller.join().expect("no panic");
                engine.resume();
                (exit, end.saturating_duration_since(start).as_secs_f64() * 1e3)
            });
            // Some work ends before a busy machine wakes the other thread.
            (exit == Exit::Cancelled).then_some(latency)
        })
        .take(tries)
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Milliseconds from a cancel to the return of a batch that compiles a large program first, sorted.
fn cancel_compilations(tries: usize, inputs: &[[f32; 4]], outputs: &mut [[f32; 4]]) -> Vec<f64> {
    let count = inputs.len();
    let engine = Engine::new(Options { compile_after: 1, ..Options::default() });
    let mut new = 0;
    cancel(&engine, tries, || {
        new += 1;
        let body = "ex2 r0, r0.x\nmul r0, c0, r0\n".repeat(200);
        let source = format!(
            ".proc main\nmov r0, v0\nmul r0, c{}, r0\nmul r0, c{}, r0\n{body}mov o0, r0\nend\n.end",
            new % 96,
            new / 96 % 96
        );
        let shbin = picajit::text::assemble(&source).expect("a good source").shbin;
        let shader = engine.shader(&shbin.program().expect("short"), Entry::vertex(0));
        let mut batch = Batch {
            inputs: Vertices::packed(inputs, 1, count).expect("enough"),
            outputs: VerticesMut::packed(outputs, 1, count).expect("enough"),
            input_mask: 1,
            output_mask: 1,
            preserve_unit: false,
        };
        shader.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch).exit
    })
}

/// Counts nothing.
struct Nowhere;

impl TriangleSink for Nowhere {
    fn triangle(&mut self, _: [&Semantics; 3]) {}
}

/// A GPU with this vertex program.
fn gpu(engine: &Arc<Engine>, source: &str) -> Gpu {
    let shbin = picajit::text::assemble(source).expect("a good source").shbin;
    let program = shbin.program().expect("short");
    let mut gpu = Gpu::new(engine.clone());
    let mut write = |id: u16, value| _ = gpu.write(id, value, 0xF);
    write(Reg::VSH_CODETRANSFER_INDEX, 0);
    program.code().iter().for_each(|&word| write(Reg::VSH_CODETRANSFER_DATA0, word));
    write(Reg::VSH_OPDESCS_INDEX, 0);
    program.opdescs().iter().for_each(|&word| write(Reg::VSH_OPDESCS_DATA0, word));
    write(Reg::VSH_ENTRYPOINT, 0x7FFF_0000);
    write(Reg::VSH_INPUTBUFFER_CONFIG, 0xA000_0000);
    write(Reg::VSH_OUTMAP_MASK, 1);
    write(Reg::SH_OUTMAP_TOTAL, 1);
    write(Reg::SH_OUTMAP_O0, 0x0302_0100);
    gpu
}

/// Prints how soon runs, batches and draws end when they are cancelled.
fn cancels(tries: usize) {
    let straight = format!(".proc main\nmov r0, v0\n{}mov o0, r0\nend\n.end", "mul r0, v0, r0\n".repeat(BODY));
    println!("ms from a cancel to the return: median, nine of ten, and most of {tries}");
    for (name, backend, _) in &ENGINES[..3] {
        let options = Options {
            backend: *backend,
            fuel: u32::MAX,
            geometry_fuel: u32::MAX,
            compile_after: 0,
            ..Options::default()
        };
        let engine = Arc::new(Engine::new(options));
        let mut uniforms = Uniforms::new();
        uniforms.b = 1;
        let row = |what: &str, ms: Vec<f64>| {
            println!(
                "{name:12} {what:32} {:7.3} {:7.3} {:7.3}",
                ms[ms.len() / 2],
                ms[ms.len() * 9 / 10],
                ms[ms.len() - 1]
            )
        };
        for instruction in ["nop", "lg2 r0, r0"] {
            let Some(endless) = shader(&engine, instruction) else { continue };
            let ms = cancel(&engine, tries, || endless.run(&uniforms, &mut Unit::new()));
            row(&format!("a run: {instruction}"), ms);
        }
        let shbin = picajit::text::assemble(&straight).expect("a good source").shbin;
        let shader = engine.shader(&shbin.program().expect("short"), Entry::vertex(0));
        let count = 1 << 18;
        let (inputs, mut outputs) = (vec![[0.5; 4]; count], vec![[0.0; 4]; count]);
        let mut batch = || {
            let mut batch = Batch {
                inputs: Vertices::packed(&inputs, 1, count).expect("enough"),
                outputs: VerticesMut::packed(&mut outputs, 1, count).expect("enough"),
                input_mask: 1,
                output_mask: 1,
                preserve_unit: false,
            };
            shader.run_batch(&uniforms, &mut Unit::new(), &mut batch).exit
        };
        (0..3).for_each(|_| _ = batch());
        row("a batch: 200 mul, no loop", cancel(&engine, tries, batch));
        if *backend == BackendChoice::NativeRequired {
            row("the same, which compiles first", cancel_compilations(tries, &inputs, &mut outputs));
        }
        let mut gpu = gpu(&engine, &straight);
        let vertices = || (0..1 << 18).map(|_| [[0.5; 4]; 16]);
        row(
            "a draw: 200 mul, no loop",
            cancel(&engine, tries, || gpu.draw_arrays(vertices(), &mut Nowhere).vertex_exit),
        );
    }
}

/// Prints how long dropping an engine takes while its threads compile large programs.
fn drops(tries: usize) {
    println!("ms to drop an engine with 100 large programs in the queue of 2 threads: median and most of {tries}");
    for precision in Precision::ALL {
        // As many instructions as the budget allows.
        let pairs = if precision == Precision::F32 { 205 } else { 125 };
        let programs: Vec<_> = (0..100)
            .map(|n| {
                let body = "ex2 r0, r0.x\nmul r0, c0, r0\n".repeat(pairs - n % 7);
                let source = format!(".proc main\nmov r0, c{}\n{body}mov o0, r0\nend\n.end", n % 90);
                picajit::text::assemble(&source).expect("a good source").shbin.program().expect("short")
            })
            .collect();
        let mut ms: Vec<f64> = (0..tries)
            .map(|n| {
                let engine = Engine::new(Options { precision, threads: 2, ..Options::default() });
                programs.iter().for_each(|program| _ = engine.shader(program, Entry::vertex(0)));
                thread::sleep(Duration::from_millis(n as u64 % 20));
                let start = Instant::now();
                drop(engine);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        ms.sort_by(f64::total_cmp);
        println!("{:11} {:7.1} {:7.1}", precision.name(), ms[tries / 2], ms[tries - 1]);
    }
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let (rounds, fuel, tries) =
        if std::env::args().any(|a| a == "--bench") { (5, default_fuel(Stage::Vertex), 50) } else { (1, 1000, 1) };
    cancels(tries);
    drops(tries);
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
