//! Code for a host's GPU: words of each module and the time to make it, for the built-in shaders and third-party files;
//! then the same for the programs of `jit-tests/worst_compilation/known.txt`, of which the worst are shown.
//!
//! ```sh
//! PICAJIT_CORPUS=... cargo bench --bench gpu-code
//! ```

#[allow(dead_code)] // the search changes recipes
#[path = "../jit-tests/worst_compilation/recipe.rs"]
mod recipe;

use picajit::container::shbin::Shbin;
use picajit::gpu_code::{Device, Dialect, GpuCode, Interface};
use picajit::internals::kernel::Config;
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use recipe::Recipe;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Times that each module is made; the least counts.
const ROUNDS: usize = 25;

fn main() {
    let mut files: Vec<(String, Shbin)> = Vec::new();
    let mut add = |path: &Path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let shbin = if path.extension().is_some_and(|e| e == "pica") {
            let source = std::fs::read_to_string(path).expect("a readable source");
            picajit::text::assemble(&source).expect("a good source").shbin
        } else {
            Shbin::parse(&std::fs::read(path).expect("a readable file")).expect("a good file")
        };
        files.push((name, shbin));
    };
    let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/command/src/shaders");
    let corpus = std::env::var("PICAJIT_CORPUS").map(|root| format!("{root}/shbin"));
    for folder in [Ok(built_in.to_owned()), corpus].into_iter().flatten() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == "pica" || e == "shbin"));
        paths.sort();
        paths.iter().for_each(|path| add(path));
    }

    println!("{:<44} {:<12} {:>7} {:>9} {:>9}", "program", "format", "words", "SPIR-V us", "GLSL us");
    for precision in Precision::ALL {
        let (mut words, mut times, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (name, shbin) in &files {
            let program = shbin.program().expect("a good program");
            for dvle in shbin.dvles.iter().filter(|dvle| dvle.stage == Stage::Vertex) {
                let config = Config { precision, ..Config::default() };
                let make = || GpuCode::new(&program, dvle.entry(), &config, &Interface::vertex(), &Device::PLAIN);
                let Ok(code) = make() else {
                    println!("{name:<44} {precision:<12} no code");
                    continue;
                };
                let time = least(|| drop(make()));
                let text = least(|| drop(code.glsl(Dialect::Vulkan)));
                println!("{name:<44.44} {precision:<12} {:>7} {time:>9.1} {text:>9.1}", code.spirv().len());
                words.push(code.spirv().len() as f64);
                times.push(time);
                texts.push(text);
            }
        }
        let [words, time, text] = [words, times, texts].map(median);
        println!("{:<44} {precision:<12} {words:>7} {time:>9.1} {text:>9.1}\n", "median");
    }
    worst();
}

/// The programs whose native code costs most.
fn worst() {
    let lines = include_str!("../jit-tests/worst_compilation/known.txt").lines().map(str::trim);
    let recipes: Vec<Recipe> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.parse().unwrap_or_else(|bad| panic!("known.txt: {bad}")))
        .collect();
    let (mut made, mut refused) = (Vec::new(), BTreeMap::<String, u32>::new());
    for recipe in &recipes {
        let (program, entry) = recipe.program();
        for precision in Precision::ALL {
            let config = Config { precision, ..Config::default() };
            let start = Instant::now();
            let code = GpuCode::new(&program, entry, &config, &Interface::vertex(), &Device::PLAIN);
            let time = start.elapsed().as_secs_f64() * 1e3;
            match code {
                Ok(code) => made.push((time, code.spirv().len(), precision, recipe)),
                Err(reason) => *refused.entry(reason.to_string()).or_default() += 1,
            }
        }
    }
    made.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("{:>8} {:>9} {:<12} recipe, the worst of {}", "ms", "words", "format", made.len());
    for (time, words, precision, recipe) in made.iter().take(8) {
        println!("{time:>8.1} {words:>9} {precision:<12} {recipe}");
    }
    let most = made.iter().map(|made| made.1).max().unwrap_or(0);
    println!("most words: {most}");
    refused.iter().for_each(|(reason, count)| println!("{count} refused: {}", reason.replace('\n', "; ")));
}

/// Microseconds of the quickest round.
fn least(f: impl Fn()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
