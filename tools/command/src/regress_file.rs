//! A difference between engines -> a shrunk test file. For the verbs that compare.
//!
//! It must not know where the difference comes from.

use crate::measure;
use picajit_fuzz::{Case, Divergence, Engine, compare, report, shrink};
use std::panic;

/// The engines of this build for [`picajit_fuzz`], without the interpreter, which is
/// the reference; the interpreter itself if there is no other.
pub fn engines(engines: &[measure::Engine]) -> Vec<Engine<'_>> {
    let others = if engines.len() > 1 { &engines[1..] } else { engines };
    others.iter().map(|e| Engine { name: e.name(), backend: e.backend() }).collect()
}

/// The test file of a divergence, shrunk.
pub fn file(divergence: Box<Divergence>, engines: &[Engine<'_>]) -> String {
    // A panicking engine panics again for many smaller cases; the file has its message.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let file = report(&shrink(divergence, engines), engines);
    panic::set_hook(hook);
    file
}

/// The shrunk test file of a difference in `case`; `None` if engines agree.
pub fn shrunk(case: &Case, engines: &[Engine<'_>]) -> Option<String> {
    compare(case, engines).err().map(|divergence| file(divergence, engines))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::subject;
    use picajit::internals::interp::Interp;
    use picajit::internals::kernel::{Backend, Config, Kernel, Unsupported};
    use picajit::isa::Opcode;
    use picajit::isa::table::Row;
    use picajit::program::{Entry, Program};
    use picajit::state::Unit;
    use std::sync::Arc;

    /// An engine that takes `MUL` for `ADD`.
    pub struct Wrong;

    impl Backend for Wrong {
        fn name(&self) -> &'static str {
            "wrong"
        }
        fn compile(&self, p: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
            let is_mul = |word: u32| Row::of_word(word).is_some_and(|row| row.opcode == Opcode::Mul);
            let wrong =
                |&word: &u32| if is_mul(word) { word ^ (Opcode::Mul as u32 ^ Opcode::Add as u32) << 26 } else { word };
            let code: Vec<u32> = p.code().iter().map(wrong).collect();
            Interp.compile(&Arc::new(Program::from_words(&code, p.opdescs()).expect("as long")), entry, config)
        }
    }

    #[test]
    fn a_difference_in_a_real_shader_becomes_a_few_lines() {
        let subjects = subject::of(&[]).0;
        let subject = subjects.iter().find(|s| s.shader.contains("lighting")).expect("it comes with the program");
        let case = Case {
            name: "lighting".into(),
            program: subject.program.clone(),
            entry: subject.entry,
            config: Config::default(),
            uniforms: crate::generator::uniforms(&subject.dvle),
            unit: Unit::new(),
            inputs: crate::generator::inputs(40),
            input_mask: 0xF,
            output_mask: 3,
        };
        let text = shrunk(&case, &[Engine { name: "wrong", backend: &Wrong }]).expect("it multiplies");
        assert!(text.starts_with("; wrong through run, vertex 0: ") && text.contains("\n; From lighting.\n"), "{text}");
        assert!(text.contains("\n    mul o0, v0, v0\n    end\n.end\n; run: "), "{text}");
        assert!(shrunk(&case, &[Engine { name: "right", backend: &Interp }]).is_none());
    }
}
