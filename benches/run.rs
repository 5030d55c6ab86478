//! How long running takes for the shaders that come with the program: `cargo bench --bench run`. Nanoseconds a vertex; the
//! module `measure` says what is timed. The `bench` verb shows the same with more about each shader, and checks results.

#[allow(unused_imports)] // its tests have no harness here
#[path = "../src/bin/picajit/builtin.rs"]
mod builtin;
#[allow(dead_code)] // this bench uses a part of it
#[path = "../src/bin/picajit/measure.rs"]
mod measure;
#[allow(dead_code, unused_imports)]
#[path = "../src/bin/picajit/values.rs"]
mod values;

use std::sync::Arc;
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(500);

fn main() {
    // `cargo test --benches` starts this too, only to see that it works.
    let real = std::env::args().any(|a| a == "--bench");
    let (budget, vertices) = if real { (BUDGET, measure::VERTICES) } else { (Duration::ZERO, 64) };
    let (engines, missing) = measure::engines();
    if let Some(reason) = missing {
        println!("only the interpreter: {reason}");
    }
    println!("{:24}{}", "batch", measure::BATCHES.map(|b| format!("{b:>10}")).concat());
    for builtin in builtin::BUILTINS {
        let shbin = picajit::text::assemble(builtin.source).expect("a test assembles each").shbin;
        let program = Arc::new(shbin.program().expect("they are shorter than any limit"));
        let dvle = &shbin.dvles[0];
        let work = measure::Workload::new(
            dvle,
            &program,
            values::uniforms(dvle),
            values::inputs(vertices),
            measure::Stride::Least,
        );
        let compiled: Vec<_> = engines.iter().filter_map(|e| e.compile(&program, dvle.entry()).ok()).collect();
        let kernels: Vec<_> = compiled.iter().map(|c| &*c.kernel).collect();
        let speed = measure::run(&kernels, &work, budget);
        for (c, ns) in compiled.iter().zip(&speed.ns) {
            println!("{:12}{:12}{}", builtin.name, c.engine, ns.map(|ns| format!("{ns:>10.1}")).concat());
        }
    }
}
