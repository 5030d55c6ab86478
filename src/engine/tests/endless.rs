//! Programs that never end, with the default fuel, on every engine.

use super::super::*;
use crate::state::{Batch, BatchExit, Exit, Uniforms, Unit};
use std::time::{Duration, Instant};

/// Generous: an optimised build on an idle machine needs less than 100 ms.
const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// A loop of one word, and one of 100; `b0` must be set.
const ENDLESS: [(&str, usize); 3] = [("nop", 1), ("lg2 r0, v0", 99), ("mad r0, v0, v0, r0", 99)];

fn source(instruction: &str, count: usize) -> String {
    let body = format!("{instruction}\n").repeat(count);
    format!(".proc main\nagain:\n{body}jmpu b0, again\nmov o0, v0\nend\n.end")
}

#[test]
#[cfg_attr(miri, ignore = "a quarter of a million instructions")]
fn a_batch_of_endless_vertices_ends_soon_by_default() {
    use BackendChoice::{NativeRequired, NoNative, Oracle};
    let mut uniforms = Uniforms::new();
    uniforms.b = 1;
    for backend in [NativeRequired, NoNative, Oracle] {
        let engine = Engine::new(Options { backend, ..Options::at_once() });
        for (instruction, count) in ENDLESS {
            let shbin = crate::text::assemble(&source(instruction, count)).expect("a good source").shbin;
            let shader = engine.shader(&shbin.program().expect("short"), Entry::vertex(0));
            // Code for groups serves the last ones.
            for n in 0..3 {
                let (inputs, mut outputs) = ([[[1.25; 4]; 16]; 1024], [[[-1.0; 4]; 16]; 1024]);
                let mut batch = Batch {
                    inputs: inputs.as_slice().into(),
                    outputs: outputs.as_mut_slice().into(),
                    input_mask: 1,
                    output_mask: 1,
                    preserve_unit: n == 2,
                };
                let start = Instant::now();
                let ended = shader.run_batch(&uniforms, &mut Unit::new(), &mut batch);
                let time = start.elapsed();
                assert_eq!(ended, BatchExit { exit: Exit::Fuel, ran: 1 }, "{backend:?} {instruction}");
                assert!(outputs[1..].iter().all(|o| o[0] == [-1.0; 4]), "{backend:?} {instruction}");
                assert!(time < LIMIT, "{backend:?} {instruction}: {time:?}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a quarter of a million instructions")]
fn the_default_fuel_pays_for_long_loops() {
    // 32 times 256 iterations of some thirty words.
    let body = "add r0, c0, r0\n".repeat(30);
    let source = format!(".proc main\nfor i0\nfor i1\n{body}.end\n.end\nmov o0, r0\nend\n.end");
    let shbin = crate::text::assemble(&source).expect("a good source").shbin;
    let mut uniforms = Uniforms::new();
    uniforms.i[0] = [31, 0, 1, 0];
    uniforms.i[1] = [255, 0, 1, 0];
    for backend in [BackendChoice::NativeRequired, BackendChoice::NoNative, BackendChoice::Oracle] {
        let engine = Engine::new(Options { backend, ..Options::at_once() });
        let shader = engine.shader(&shbin.program().expect("short"), Entry::vertex(0));
        assert_eq!(shader.run(&uniforms, &mut Unit::new()), Exit::End, "{backend:?}");
    }
}

/// A program that is known to run on a console draws a screen of pixels, two triangles each, in one invocation.
#[test]
#[cfg_attr(miri, ignore = "a million instructions")]
fn a_geometry_run_may_fill_the_screen() {
    #[derive(Default)]
    struct Count(usize);
    impl crate::state::Emitter for Count {
        fn triangle(&mut self, _: [&crate::state::Registers; 3], _: bool) {
            self.0 += 1;
        }
    }
    let vertex = |n: &str| format!("setemit {n}\nmov o0, r0\nemit\n");
    let source = format!(
        ".gsh point c0\n.proc main\nfor i0\nfor i1\ncall one\ncall one\nadd r0, c4, r0\nnop\n.end\nnop\n.end\nend\n.end\n\
         .proc one\n{}{}{}.end",
        vertex("0"),
        vertex("1"),
        vertex("2, prim")
    );
    let shbin = crate::text::assemble(&source).expect("a good source").shbin;
    let program = shbin.program().expect("short");
    let mut uniforms = Uniforms::new();
    (uniforms.i[0], uniforms.i[1]) = ([199, 0, 1, 0], [239, 0, 1, 0]);
    for backend in [BackendChoice::NativeRequired, BackendChoice::NoNative, BackendChoice::Oracle] {
        let engine = Engine::new(Options { backend, ..Options::at_once() });
        let shader = engine.shader(&program, shbin.dvles[0].entry());
        let mut count = Count::default();
        let exit = shader.run_geometry(&uniforms, &mut Unit::new(), &mut count);
        assert_eq!((exit, count.0), (Exit::End, 96_000), "{backend:?}");
    }
}
