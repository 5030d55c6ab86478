//! The speed-up of a second core: `cargo bench --bench threads`. A draw's vertices on one thread,
//! and in halves on two, each with its own unit, as a host may split independent vertices.
//! Nanoseconds a vertex, and the speed-up.
//!
//! The second thread spins while it waits, so the figures contain the least cost of handing work
//! over; a sleeping pool takes some microseconds more. Both methods take turns; medians.

#[allow(dead_code, unused_imports)] // this bench uses a part of each
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[allow(dead_code, unused_imports)]
#[path = "../tools/command/src/measure.rs"]
mod measure;

use measure::Workload;
use picajit::internals::generator;
use picajit::internals::kernel::Kernel;
use picajit::state::{Batch, NoEmitter, Unit, Vec4, Vertices, VerticesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Vertices of a draw.
const DRAWS: [usize; 4] = [256, 1024, 4096, 16384];
/// Time for each shader and draw.
const BUDGET: Duration = Duration::from_millis(400);
/// State of the second thread: waiting, running its part (it then returns to waiting by itself), or
/// ending.
const IDLE: u32 = 0;
const RUN: u32 = 1;
const STOP: u32 = 2;

/// Packed vertices of one thread, and memory for their outputs.
struct Part {
    unit: Unit,
    inputs: Vec<Vec4>,
    outputs: Vec<Vec4>,
    count: usize,
}

impl Part {
    fn new(work: &Workload, count: usize) -> Part {
        let stride = Vertices::stride_for(work.input_mask);
        let inputs = (0..count).flat_map(|n| &work.inputs[n % work.inputs.len()][..stride]).copied().collect();
        let outputs = vec![[0.0; 4]; count * Vertices::stride_for(work.output_mask)];
        Part { unit: Unit::new(), inputs, outputs, count }
    }

    /// Runs the first `count` vertices.
    fn run(&mut self, kernel: &dyn Kernel, work: &Workload, count: usize) {
        let [from, to] = [work.input_mask, work.output_mask].map(Vertices::stride_for);
        let (inputs, outputs) = (&self.inputs[..count * from], &mut self.outputs[..count * to]);
        let mut batch = Batch {
            inputs: Vertices::packed(inputs, from, count).expect("the buffer has that many vertices"),
            outputs: VerticesMut::packed(outputs, to, count).expect("the buffer has that many vertices"),
            input_mask: work.input_mask,
            output_mask: work.output_mask,
            preserve_unit: false,
        };
        kernel.run_batch(&work.uniforms, &mut self.unit, &mut batch, &mut NoEmitter);
    }
}

/// Median nanoseconds of a draw of `count` vertices on one thread and on two.
fn measure(kernel: &dyn Kernel, work: &Workload, count: usize, budget: Duration) -> [f64; 2] {
    let (mut whole, mut second) = (Part::new(work, count), Part::new(work, count / 2));
    let told = AtomicU32::new(IDLE);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match told.load(Ordering::Acquire) {
                    RUN => {
                        let count = second.count;
                        second.run(kernel, work, count);
                        told.store(IDLE, Ordering::Release);
                    }
                    STOP => return,
                    _ => std::hint::spin_loop(),
                }
            }
        });
        let mut times: [Vec<Duration>; 2] = Default::default();
        let begun = Instant::now();
        while times[0].len() < 5 || begun.elapsed() < budget {
            let start = Instant::now();
            whole.run(kernel, work, count);
            times[0].push(start.elapsed());
            let start = Instant::now();
            told.store(RUN, Ordering::Release);
            whole.run(kernel, work, count - count / 2);
            while told.load(Ordering::Acquire) != IDLE {
                std::hint::spin_loop();
            }
            times[1].push(start.elapsed());
        }
        told.store(STOP, Ordering::Release);
        times.map(|mut all| measure::median(&mut all).as_nanos() as f64)
    })
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let real = std::env::args().any(|a| a == "--bench");
    let (budget, draws) = if real { (BUDGET, &DRAWS[..]) } else { (Duration::ZERO, &DRAWS[..1]) };
    let (engines, missing) = measure::engines();
    let Some(batch) = engines.iter().find(|e| e.name() == "batch") else {
        println!(
            "nothing to measure here: {}",
            missing.map_or("no native code".to_string(), |reason| reason.to_string())
        );
        return;
    };
    println!("{:12}{:>12}{:>12}{:>12}{:>12}", "", "vertices", "one thread", "two", "times");
    for builtin in builtin::BUILTINS {
        let shbin = picajit::text::assemble(builtin.source).expect("a test assembles each").shbin;
        let program = Arc::new(shbin.program().expect("they are shorter than any limit"));
        let dvle = &shbin.dvles[0];
        let (uniforms, inputs) = (generator::uniforms(dvle), generator::inputs(measure::VERTICES));
        let work = Workload::new(dvle, &program, uniforms, inputs, measure::Stride::Least);
        let kernel = batch.compile(&program, dvle.entry()).expect("a test compiles each").kernel;
        for &count in draws {
            let [one, two] = measure(&*kernel, &work, count, budget).map(|ns| ns / count as f64);
            // Results of dependent vertices would depend on the order of the threads.
            if kernel.stats().sequential_reason.is_some() {
                break;
            }
            println!("{:12}{count:>12}{one:>12.2}{two:>12.2}{:>12.2}", builtin.name, one / two);
        }
    }
}
