//! Engines with a full queue, whose threads compile the largest programs, are dropped.

use super::*;
use std::time::{Duration, Instant};

/// Generous: an optimised build on an idle machine needs less than 200 ms.
const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// Programs that take nearly all of the budget of a compilation, different ones.
fn large_programs(count: usize, pairs: usize) -> Vec<Program> {
    let large = |n: usize| {
        let body = "ex2 r0, r0.x\nmul r0, c0, r0\n".repeat(pairs - n % 5);
        let source = format!(".proc main\nmov r0, c{}\n{body}mov o0, r0\nend\n.end", n % 90);
        crate::text::assemble(&source).expect("a good source").shbin.program().expect("short")
    };
    (0..count).map(large).collect()
}

#[test]
#[cfg_attr(miri, ignore = "large programs")]
fn dropping_an_engine_with_a_full_queue_takes_as_long_as_a_compilation() {
    for (precision, pairs) in [(Precision::F32, 205), (Precision::ALL[1], 125)] {
        let programs = large_programs(300, pairs);
        let engine = Engine::new(Options { precision, threads: 2, ..Options::default() });
        let shaders: Vec<Shader> = programs.iter().map(|program| engine.shader(program, Entry::vertex(0))).collect();
        // The threads are in the middle of it.
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        drop(engine);
        let time = start.elapsed();
        assert!(time < LIMIT, "{precision}: {time:?}");
        let compiled = shaders.iter().filter(|shader| shader.tier() == Tier::Native).count();
        assert!(compiled < programs.len() / 2, "{precision}: {compiled} were compiled");
        // They are within the budget, and the next run compiles without threads.
        shaders[299].compile_now();
        assert_eq!(shaders[299].tier(), Tier::Native, "{precision}");
        assert_eq!(shaders[299].run(&Uniforms::new(), &mut Unit::new()), Exit::End);
    }
}
