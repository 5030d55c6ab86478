//! Run times of the built-in shaders, or of files: `cargo bench --bench run [-- FILE...]`.
//! Nanoseconds a vertex, in batches; the module `measure` defines what is timed. The `bench` verb
//! shows the same with more about each shader, and checks results. This bench also measures batch
//! code with one group at a time and with two interleaved ones, whichever the policy prefers.

#[allow(unused_imports)] // its tests have no harness here
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[allow(dead_code, unused_imports)] // this bench uses a part of it
#[path = "../tools/command/src/measure.rs"]
mod measure;
#[path = "common/shaders.rs"]
mod shaders;

use measure::Engine;
use picajit::internals::generator;
use std::sync::Arc;
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(500);

/// All engines with their names, and the batch engine with and without interleaving.
fn engines() -> Vec<(&'static str, Engine)> {
    let (engines, missing) = measure::engines();
    if let Some(reason) = missing {
        println!("only the interpreter: {reason}");
    }
    #[cfg_attr(not(feature = "jit"), allow(unused_mut))]
    let mut engines: Vec<_> = engines.into_iter().map(|e| (e.name(), e)).collect();
    #[cfg(feature = "jit")]
    for (name, groups) in
        [("batch4", picajit::internals::jit::Interleave::Off), ("batch8", picajit::internals::jit::Interleave::On)]
    {
        use picajit::internals::jit::{Jit, Settings, Variant};
        let settings = Settings { interleave: groups, batch_threshold: 1, ..Settings::default() };
        if let Ok(jit) = Jit::with(Variant::Batch, settings) {
            engines.push((name, Engine::native(jit)));
        }
    }
    engines
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let real = std::env::args().any(|a| a == "--bench");
    let (budget, vertices) = if real { (BUDGET, measure::VERTICES) } else { (Duration::ZERO, 64) };
    let engines = engines();
    println!("{:36}{}", "batch", measure::BATCHES.map(|b| format!("{b:>10}")).concat());
    for (name, shbin) in shaders::shaders() {
        let (Some(dvle), Ok(program)) = (shbin.dvles.first(), shbin.program()) else { continue };
        let program = Arc::new(program);
        let work = measure::Workload::new(
            dvle,
            &program,
            generator::uniforms(dvle),
            generator::inputs(vertices),
            measure::Stride::Least,
        );
        let compile = |(name, e): &(&'static str, Engine)| Some((*name, e.compile(&program, dvle.entry()).ok()?));
        let compiled: Vec<_> = engines.iter().filter_map(compile).collect();
        let kernels: Vec<_> = compiled.iter().map(|(_, c)| &*c.kernel).collect();
        let speed = measure::run(&kernels, &work, budget);
        let short: String = name.chars().take(23).collect();
        for ((engine, _), ns) in compiled.iter().zip(&speed.ns) {
            println!("{short:24}{engine:12}{}", ns.map(|ns| format!("{ns:>10.1}")).concat());
        }
    }
}
