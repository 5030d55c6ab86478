//! The stack that calls need, on threads that have no more.

use super::{alone, options, recipes, run};
use picajit::engine::{BackendChoice, Engine, Options};
use picajit::gpu::{Draw, DrawOptions, Gpu, Host, Regions, RegisterFile as Reg, Sink};
use picajit::isa::numeric::Precision;
use std::sync::Arc;

/// Enough for runs, batches, geometry invocations, lookups of known programs, and command lists
/// with draws, where nothing is left to compile.
const RUNS: usize = 96 << 10;
/// Enough for compiling, and so for every call.
const COMPILING: usize = 512 << 10;

/// `work` on a thread with a stack of this size. An overflow ends the process.
fn on_stack(bytes: usize, work: impl FnOnce() + Send) {
    let thread = std::thread::Builder::new().stack_size(bytes);
    std::thread::scope(|scope| thread.spawn_scoped(scope, work).expect("a thread").join().expect("no panic"));
}

#[test]
fn runs_need_96_kib_of_stack() {
    let _alone = alone();
    for backend in [BackendChoice::NativePreferred, BackendChoice::NoNative, BackendChoice::Oracle] {
        for precision in Precision::ALL {
            let engine = Engine::new(Options { backend, compile_after: 0, ..options(precision, 0) });
            for recipe in recipes().iter().step_by(2) {
                let (program, entry) = recipe.program();
                let shader = engine.shader(&program, entry);
                // Everything is compiled here.
                run(&shader, recipe);
                on_stack(RUNS, || {
                    assert!(engine.shader(&program, entry).same_as(&shader));
                    run(&shader, recipe);
                });
            }
        }
    }
}

#[test]
fn compiling_needs_512_kib_of_stack() {
    let _alone = alone();
    for precision in Precision::ALL {
        let options = Options { compile_after: 0, ..options(precision, 0) };
        on_stack(COMPILING, || {
            let engine = Engine::new(options);
            for recipe in recipes() {
                let (program, entry) = recipe.program();
                run(&engine.shader(&program, entry), &recipe);
            }
        });
    }
}

struct Emulator {
    memory: Arc<[u8]>,
    drawn: usize,
}

impl Sink for Emulator {
    fn triangles(&mut self, _: &[f32], triangles: &[[u32; 3]]) {
        self.drawn += triangles.len();
    }
}

impl Host for Emulator {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let memory = self.memory.clone();
        gpu.draw(draw, &Regions(&[(0x1800_0000, &memory)]), &DrawOptions::default(), self);
    }
}

#[test]
fn draws_need_96_kib_of_stack() {
    let _alone = alone();
    let memory = [[0.5f32; 3].map(f32::to_le_bytes).concat(), [0, 1, 2, 2, 1, 0].repeat(500)].concat();
    let write = |id: u16, value: u32| [value, 0x000F_0000 | u32::from(id)];
    // `mov o0, v0`, `end`.
    let list = [
        write(Reg::VSH_CODETRANSFER_DATA0, 0x4C00_0000),
        write(Reg::VSH_CODETRANSFER_DATA0, 0x8800_0000),
        write(Reg::VSH_OPDESCS_DATA0, 0x0000_036F),
        write(Reg::VSH_OUTMAP_MASK, 1),
        write(Reg::SH_OUTMAP_TOTAL, 1),
        write(Reg::SH_OUTMAP_O0, 0x0302_0100),
        write(Reg::ATTRIBBUFFERS_LOC, 0x1800_0000 >> 3),
        write(Reg::ATTRIBBUFFERS_FORMAT_LOW, 0b11),
        write(Reg::ATTRIBBUFFER0_OFFSET + 2, 1 << 28 | 4 << 16),
        write(Reg::INDEXBUFFER_CONFIG, 12),
        write(Reg::NUMVERTICES, 3000),
        write(Reg::DRAWELEMENTS, 1),
    ]
    .concat();
    for backend in [BackendChoice::NativePreferred, BackendChoice::NoNative] {
        let engine = Engine::new(Options { backend, compile_after: 0, ..options(Precision::F32, 0) });
        let mut gpu = Gpu::new(Arc::new(engine));
        let mut emulator = Emulator { memory: memory.clone().into(), drawn: 0 };
        let again = [write(Reg::DRAWELEMENTS, 1), write(Reg::DRAWELEMENTS, 1)].concat();
        gpu.execute(&list, &mut emulator);
        gpu.execute(&again, &mut emulator);
        on_stack(RUNS, || _ = gpu.execute(&again, &mut emulator));
        assert_eq!(emulator.drawn, 5 * 1000);
    }
}
