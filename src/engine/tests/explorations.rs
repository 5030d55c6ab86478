//! How often a program is explored.

use super::*;
use crate::ir::cfg::count_explorations;
use crate::jit::{Jit, Variant};

/// The JIT, counting compilations and the explorations that they begin.
#[derive(Clone)]
struct CountingJit(Arc<Jit>, Arc<[AtomicUsize; 2]>);

impl CountingJit {
    fn counting<T>(&self, compile: impl FnOnce(&Arc<Jit>) -> T) -> T {
        let (result, explorations) = count_explorations(|| compile(&self.0));
        self.1[0].fetch_add(1, Ordering::Relaxed);
        self.1[1].fetch_add(explorations, Ordering::Relaxed);
        result
    }

    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|n| self.1[n].swap(0, Ordering::Relaxed))
    }
}

impl NativeCompiler for CountingJit {
    fn name(&self) -> &'static str {
        "counting"
    }
    fn compile(
        &self,
        explored: Explored,
        p: &Arc<Program>,
        e: Entry,
        c: &Config,
    ) -> Result<Arc<dyn Kernel>, Unsupported> {
        self.counting(|jit| NativeCompiler::compile(jit, explored, p, e, c))
    }
}

/// A program with more `(pc, scopes)` states than the limit: nested calls of different lengths.
fn program_with_too_many_states() -> Program {
    let mut x = 9u32;
    let word = |_| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0x26 << 26 | (x >> 28) << 22 | (x >> 16 & 0xFFF) << 10 | (1 + (x >> 12 & 7))
    };
    Program::from_words(&(0..4096).map(word).collect::<Vec<u32>>(), &[]).expect("4096 words")
}

#[test]
#[cfg_attr(miri, ignore = "compiles, and explores thousands of states")]
fn a_lookup_and_a_thread_explore_a_new_shader_once_each() {
    let entry = Entry::vertex(0);
    for threads in [0, 1] {
        let mut engine = Engine::new(Options { threads, events: Arc::new(|_| ()), ..Options::at_once() });
        let jit = Jit::new(Variant::Batch).expect("a JIT for this host");
        let jit = CountingJit(jit, Arc::default());
        engine.set_backend(Arc::new(jit.clone()));
        // Explorations by the lookup, then compilations, then explorations by these. Without
        // threads the first number includes the last.
        // A shader keeps no graph while it waits for a thread.
        let again = threads;
        let count = |lookup: &dyn Fn()| {
            let ((), explorations) = count_explorations(lookup);
            engine.wait();
            let [compilations, by_jit] = jit.counts();
            (explorations, compilations, by_jit)
        };
        let request = |program: &Program| {
            engine.shader(program, entry);
        };
        assert_eq!(count(&|| request(&program(3, &[]))), (1, 1, again), "{threads} threads");
        assert_eq!(count(&|| request(&program(3, &[]))), (0, 0, 0), "the upload is known");
        assert_eq!(count(&|| request(&program(3, &[1]))), (1, 0, 0), "the cache has the shader");
        assert_eq!(count(&|| request(&program_with_too_many_states())), (1, 1, again), "the error is handed on");
        let failed = engine.shader(&program_with_too_many_states(), entry);
        assert!(matches!(failed.fallback_reason(), Some(Unsupported::TooManyStates { limit: 8192, .. })));
        engine.clear();
        assert_eq!(count(&|| request(&program(3, &[]))), (1, 1, again), "an empty cache knows no upload");
    }
}
