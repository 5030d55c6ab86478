//! What an emulator does between two draws, as far as caches notice: it executes other code and
//! touches other data.

use picajit::engine::{BackendChoice, Engine, Options, Shader};
use picajit::program::Entry;
use picajit::state::{Uniforms, Unit};
use std::fmt::Write;
use std::hint::black_box;

/// Bytes of code and of data.
const CODE: usize = 512 << 10;
const DATA: usize = 8 << 20;
const LINE: usize = 64;

/// Other code and data.
pub struct Displacer {
    /// Straight-line programs, each of which runs once as native code. Without native code there is
    /// no other code.
    programs: Vec<Shader>,
    data: Vec<u8>,
    unit: Box<Unit>,
    uniforms: Box<Uniforms>,
    _engine: Engine,
}

impl Displacer {
    pub fn new() -> Displacer {
        let native = cfg!(feature = "jit");
        let backend = if native { BackendChoice::NativePreferred } else { BackendChoice::NoNative };
        let engine = Engine::new(Options { backend, compile_after: 0, cache_bytes: 1 << 30, ..Options::default() });
        let (mut programs, mut bytes) = (Vec::new(), 0);
        while native && bytes < CODE {
            let mut source = String::from(".proc main\n");
            for n in 0..480 {
                // No sum is unused: each register becomes a part of the next one, and the last ones of the output.
                let uniform = (n + programs.len()) % 96;
                writeln!(source, "add r{}, c{uniform}, r{}", n % 12, (n + 1) % 12).expect("memory is enough");
            }
            (0..12).for_each(|n| source += &format!("add r12, r12, r{n}\n"));
            source += "mov o0, r12\nend\n.end\n";
            let program = picajit::text::assemble(&source).expect("it is correct").shbin.program().expect("it fits");
            let shader = engine.shader(&program, Entry::vertex(0));
            if shader.native_bytes() == 0 {
                break;
            }
            bytes += shader.native_bytes();
            programs.push(shader);
        }
        let (unit, uniforms) = Default::default();
        Displacer { programs, data: vec![1; DATA], unit, uniforms, _engine: engine }
    }

    /// Displaces the caches.
    #[inline(never)]
    pub fn run(&mut self) {
        for shader in &self.programs {
            black_box(shader.run(&self.uniforms, &mut self.unit));
        }
        self.data.iter_mut().step_by(LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&mut self.data);
    }
}
