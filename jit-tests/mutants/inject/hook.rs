//! Filetests for one mutant, or their coverage. Part of the mutated copy only.

use libtest_mimic::{Arguments, Trial};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A trial that takes longer is taken for endless.
const LIMIT: Duration = Duration::from_secs(15);

static STARTED: AtomicU64 = AtomicU64::new(u64::MAX);

pub fn main(trials: Vec<Trial>) {
    let arguments = Arguments { test_threads: Some(1), quiet: true, ..Arguments::default() };
    let run = |trial| libtest_mimic::run(&arguments, vec![trial]).num_failed == 0;
    let Ok(list) = std::env::var("MUTANT_TESTS") else {
        let mut lines = String::new();
        for trial in trials {
            let (name, start) = (trial.name().to_string(), Instant::now());
            let passed = run(trial);
            let reached: Vec<String> = picajit::mutant::take_reached().iter().map(u32::to_string).collect();
            let time = start.elapsed().as_millis();
            lines += &format!("{name}\t{time}\t{}\t{}\n", if passed { "passed" } else { "failed" }, reached.join(","));
        }
        std::fs::write(std::env::var("MUTANT_COVERAGE").unwrap(), lines).unwrap();
        return;
    };
    let begin = Instant::now();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = begin.elapsed().as_millis() as u64;
            if now.saturating_sub(STARTED.load(Relaxed)) > LIMIT.as_millis() as u64 {
                std::process::exit(3);
            }
        }
    });
    let mut trials: HashMap<String, Trial> = trials.into_iter().map(|t| (t.name().to_string(), t)).collect();
    for name in std::fs::read_to_string(list).unwrap().lines() {
        let Some(trial) = trials.remove(name) else { continue };
        STARTED.store(begin.elapsed().as_millis() as u64, Relaxed);
        if !run(trial) {
            println!("\nmutant-caught-by {name}");
            std::process::exit(1);
        }
    }
}
