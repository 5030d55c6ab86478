//! Random programs on every engine of this build -> a line of results for each program and number
//! format, the lines of `picajit fuzz --print`.
//!
//! For systems that lack what the command needs, such as threads. `PICAJIT_LINES=N` prints the lines
//! of N programs, from seed 1 on; without it a few programs run and nothing is printed.

#[allow(dead_code)]
mod engines;
mod hosted;
mod prerequisites;

use engines::{Engine, engines, reference};
use picajit::internals::kernel::Unsupported;
use picajit::isa::numeric::Precision;
use picajit_fuzz::digest::digest;
use picajit_fuzz::{Case, Plan};
use std::io::Write;

fn main() {
    let number = |text: String| text.parse().expect("PICAJIT_LINES is a number of programs");
    let wanted: Option<u64> = std::env::var("PICAJIT_LINES").ok().map(number);
    let plan =
        Plan { programs: wanted.unwrap_or(20), precisions: Precision::ALL.to_vec(), threads: 1, ..Plan::default() };
    let (engines, mut out) = (engines(), std::io::stdout().lock());
    for n in 0..plan.programs {
        for case in plan.cases(n) {
            let results = line(&case, &reference()).expect("the reference runs every program");
            for engine in &engines {
                // Native code rejects programs with too many states.
                if let Ok(own) = line(&case, engine) {
                    assert_eq!(own, results, "{} in {}: {}", case.name, case.config.precision, engine.name);
                }
            }
            if wanted.is_some() {
                let (seed, precision) = (plan.seed + n, case.config.precision);
                writeln!(out, "{seed} {precision} {results}").expect("standard output is open");
            }
        }
    }
    let names: Vec<&str> = engines.iter().map(|engine| engine.name).collect();
    eprintln!("{} programs in every number format, the same results from {}", plan.programs, names.join(", "));
}

fn line(case: &Case, engine: &Engine) -> Result<String, Unsupported> {
    let kernel = engine.backend.compile(&case.program, case.entry, &case.config)?;
    Ok(digest(case, &*kernel).to_string())
}
