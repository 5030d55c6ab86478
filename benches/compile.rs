//! Compile times by stage for the built-in shaders: `cargo bench --bench compile`. Microseconds,
//! medians of 51 compilations after a warm-up. Nothing runs.

#[allow(unused_imports)] // its tests have no harness here
#[path = "../src/bin/picajit/builtin.rs"]
mod builtin;
#[allow(dead_code)] // this bench uses a part of it
#[path = "../src/bin/picajit/measure.rs"]
mod measure;

use picajit::kernel::Config;
use std::sync::Arc;
use std::time::Duration;

const COMPILES: usize = 51;

fn main() {
    // `cargo test --benches` only checks that this starts.
    let compiles = if std::env::args().any(|a| a == "--bench") { COMPILES } else { 1 };
    let (engines, missing) = measure::engines();
    if let Some(reason) = missing {
        println!("only the interpreter: {reason}");
    }
    for builtin in builtin::BUILTINS {
        let shbin = picajit::text::assemble(builtin.source).expect("a test assembles each").shbin;
        let program = Arc::new(shbin.program().expect("they are shorter than any limit"));
        println!("{} ({} words)", builtin.name, program.code().len());
        for engine in &engines {
            match engine.compile_often(&program, shbin.dvles[0].entry(), &Config::default(), compiles, Duration::MAX) {
                Ok(c) => {
                    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
                    print!("  {:12}{:>8} bytes{:>10.1} us", c.engine, c.kernel.native_bytes(), us(c.time));
                    c.stages.iter().for_each(|(name, time)| print!("  {name} {:.1}", us(*time)));
                    println!();
                }
                Err(reason) => println!("  {:12}{reason}", engine.name()),
            }
        }
    }
}
