//! Which tier serves a run, and when that changes.

use super::*;
use crate::tier0::Tier0;

/// Lookups don't compile; the run that reaches 100 vertices does.
fn after_100_vertices() -> Options {
    Options { compile_after: 100, ..Options::default() }
}

/// `mov r0, v0` and so on, `len` times, then `mov o0, v0`, `end`.
fn copies(len: u32) -> Program {
    let mut code: Vec<u32> = (0..len).map(|n| 0x13 << 26 | (0x10 + n) << 21).collect();
    code.extend([0x13 << 26, END]);
    Program::from_words(&code, &[0x36F]).expect("short")
}

/// Runs a batch of `count` vertices of a program that copies `v0` to `o0`.
fn run_batch(shader: &Shader, count: usize) {
    let inputs: Vec<Registers> = (0..count).map(|n| [[n as f32; 4]; 16]).collect();
    let mut outputs = vec![[[0.0; 4]; 16]; count];
    let mut batch = Batch::of(&inputs, &mut outputs);
    assert_eq!(shader.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch), Exit::End);
    assert!(outputs.iter().enumerate().all(|(n, o)| o[0] == [n as f32; 4]));
}

/// Kernels of the oracle, as if they were native code.
struct Native;
impl NativeCompiler for Native {
    fn name(&self) -> &'static str {
        "native"
    }
    fn compile(&self, _: Explored, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Interp.compile(p, e, c)
    }
}

#[test]
fn without_threads_the_run_that_reaches_the_number_of_vertices_compiles() {
    let mut engine = Engine::new(after_100_vertices());
    engine.set_backend(Arc::new(Native));
    let by = |advance: fn(&Shader), len: u32| {
        let shader = engine.shader(&copies(len), Entry::vertex(0));
        run_batch(&shader, 60);
        (0..39).for_each(|_| advance(&shader));
        assert_eq!((shader.tier(), shader.backend()), (Tier::Tier0, "tier0"), "99 vertices");
        let before = engine.cache_stats().bytes;
        advance(&shader);
        assert_eq!((shader.tier(), shader.backend()), (Tier::Native, "native"));
        assert_ne!(engine.cache_stats().bytes, before, "the cache counts the code");
        advance(&shader);
    };
    by(runs, 0);
    by(|shader| run_batch(shader, 1), 1);
    by(|shader| direct_call::end(shader.direct_call()), 2);
    let at_once = engine.shader(&copies(3), Entry::vertex(0));
    run_batch(&at_once, 100);
    assert_eq!(at_once.tier(), Tier::Native, "one batch has them all");
}

#[test]
fn lookups_compile_where_an_option_says_so() {
    let mut bytes = Vec::new();
    for (backend, compile_after, threads, tier) in [
        (BackendChoice::NativePreferred, 0, 0, Tier::Native),
        (BackendChoice::NativePreferred, 1, 0, Tier::Tier0),
        (BackendChoice::NativeRequired, 1, 0, Tier::Native),
        (BackendChoice::NativeRequired, 1, 1, Tier::Native),
    ] {
        let mut engine = Engine::new(Options { backend, compile_after, threads, ..Options::default() });
        engine.set_backend(Arc::new(Native));
        let shader = engine.try_shader(&program(0, &[]), Entry::vertex(0)).expect("native code");
        assert_eq!(shader.tier(), tier, "{backend:?}, {compile_after}, {threads} threads");
        if tier == Tier::Native {
            bytes.push(engine.cache_stats().bytes);
        }
        runs(&shader);
        engine.wait();
        assert_eq!(shader.tier(), Tier::Native);
    }
    assert!(bytes.iter().all(|&b| b == bytes[0]), "none is decoded for tier 0: {bytes:?}");
}

/// Runs allocate nothing that lasts: the lookup or the compilation did.
#[test]
fn the_cache_counts_all_that_runs_of_a_shader_need() {
    let (program, entry, config) = (Arc::new(copies(9)), Entry::vertex(0), Config::default());
    let oracle = Interp.compile(&program, entry, &config).expect("any program").held_bytes();
    let tier0 = Tier0::default().kernel_of_entry(&program, entry, &config).held_bytes();
    // Here native code is a kernel of the oracle.
    let (words, native) = (program.bytes(), oracle.max(program.bytes()));
    let succeeds = || -> Option<Arc<dyn NativeCompiler>> { Some(Arc::new(Native)) };
    let fails = || -> Option<Arc<dyn NativeCompiler>> { Some(Arc::new(Failing)) };
    let checked = |options: Options| Options { crosscheck: 1, ..options };
    let with = |backend| Options { backend, ..after_100_vertices() };
    for (case, (options, backend, at_lookup, compiled)) in [
        (after_100_vertices(), succeeds(), words + tier0, native + tier0),
        (Options::at_once(), succeeds(), native, native),
        (after_100_vertices(), fails(), words + tier0, words + tier0),
        (Options::at_once(), fails(), words + tier0, words + tier0),
        (with(BackendChoice::NoNative), None, words + tier0, words + tier0),
        (with(BackendChoice::Oracle), None, words + oracle, words + oracle),
        (checked(after_100_vertices()), succeeds(), words + tier0 + oracle, native + tier0 + oracle),
        (checked(Options::at_once()), succeeds(), native + oracle, native + oracle),
    ]
    .into_iter()
    .enumerate()
    {
        let mut engine = Engine::new(Options { events: collecting().1, ..options });
        if let Some(backend) = backend {
            engine.set_backend(backend);
        }
        let shader = engine.shader(&program, entry);
        let key = ShaderKey::new(&program, entry, config).bytes();
        let check = |when: &str, want: usize| {
            assert_eq!(engine.cache_stats().bytes, key + want, "case {case}, {when}");
            runs(&shader);
            let held = shader.0.held_bytes();
            assert_eq!((engine.cache_stats().bytes, held), (key + want, want), "case {case}, {when}, after a run");
        };
        check("found", at_lookup);
        shader.compile_now();
        check("compiled", compiled);
    }
}

/// A backend of a system that has memory for this number of kernels.
struct Scarce(Arc<AtomicUsize>);
impl NativeCompiler for Scarce {
    fn name(&self) -> &'static str {
        "scarce"
    }
    fn compile(&self, _: Explored, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        let take = |left: usize| left.checked_sub(1);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Interp.compile(p, e, c),
            Err(_) => Failing.compile(None, p, e, c),
        }
    }
}

#[test]
fn a_dropped_shader_with_native_code_lets_the_next_compilation_try_again() {
    let left = Arc::new(AtomicUsize::new(1));
    // Each shader evicts the one before.
    let mut engine = Engine::new(Options { cache_bytes: 1, events: collecting().1, ..Options::at_once() });
    engine.set_backend(Arc::new(Scarce(left.clone())));
    let shader = |len: u32| engine.shader(&copies(len), Entry::vertex(0));
    let first = shader(0);
    let tiers = [1, 2].map(|len| shader(len).tier());
    assert_eq!((first.tier(), tiers), (Tier::Native, [Tier::Tier0; 2]));
    left.store(1, Ordering::Relaxed);
    assert_eq!(shader(3).tier(), Tier::Tier0, "no shader with native code was dropped");
    drop(first);
    assert_eq!(shader(4).tier(), Tier::Native);
}

#[test]
fn lookups_after_a_refusal_have_its_reason_at_once() {
    let (events, handler) = collecting();
    let mut engine = Engine::new(Options { events: handler, ..after_100_vertices() });
    engine.set_backend(Arc::new(Failing));
    let first = engine.shader(&copies(0), Entry::vertex(0));
    assert_eq!(first.fallback_reason(), None, "nothing was tried");
    first.compile_now();
    assert!(first.fallback_reason().is_some());
    let second = engine.shader(&copies(1), Entry::vertex(0));
    assert_eq!(second.fallback_reason(), first.fallback_reason());
    assert_eq!(lock(&events).len(), 1);
}

#[test]
fn a_profiler_without_native_code_is_an_event() {
    for backend in [BackendChoice::NoNative, BackendChoice::Oracle] {
        let (events, handler) = collecting();
        let profiler = Profiler::Jitdump { directory: "/nonexistent".into() };
        Engine::new(Options { backend, profiler, events: handler, ..Options::default() });
        assert!(matches!(lock(&events)[..], [Event::ProfilerFailed { reason: ProfilerError::NoNativeCode }]));
    }
}

#[test]
fn a_required_shader_without_native_code_is_an_error() {
    for (backend, fails) in [(BackendChoice::NativePreferred, false), (BackendChoice::NativeRequired, true)] {
        for threads in [0, 1] {
            let (events, handler) = collecting();
            let options = Options { backend, threads, events: handler, ..Options::at_once() };
            let mut engine = Engine::new(options);
            engine.set_backend(Arc::new(Failing));
            for _ in 0..2 {
                let result = engine.try_shader(&program(0, &[]), Entry::vertex(0));
                assert_eq!(result.is_err(), fails, "{backend:?}");
            }
            let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
            engine.wait();
            runs(&shader);
            assert_eq!((shader.tier(), lock(&events).len()), (Tier::Tier0, 1));
        }
    }
}

#[test]
fn engines_without_native_code_stay_on_their_tier_without_an_event() {
    for (backend, tier, name) in
        [(BackendChoice::NoNative, Tier::Tier0, "tier0"), (BackendChoice::Oracle, Tier::Oracle, "interp")]
    {
        for threads in [0, 1] {
            let (events, handler) = collecting();
            let engine = Engine::new(Options { backend, threads, events: handler, ..Options::at_once() });
            let shader = engine.try_shader(&program(0, &[]), Entry::vertex(0)).expect("none is required");
            run_batch(&shader, 70);
            runs(&shader);
            assert_eq!((shader.tier(), shader.backend(), shader.fallback_reason()), (tier, name, None));
            assert_eq!(shader.stats().groups > 0, tier == Tier::Tier0, "the oracle has no groups");
            assert!(lock(&events).is_empty());
        }
    }
}

#[test]
fn threads_compile_the_shader_first_that_has_run_the_most_vertices() {
    let (_, engine, gate) = gated();
    let shaders = [0, 1, 2, 3].map(|n| engine.shader(&copies(n), Entry::vertex(0)));
    gate.begun.recv().expect("the first begins");
    run_batch(&shaders[2], 64);
    runs(&shaders[3]);
    assert!(shaders.iter().all(|shader| shader.tier() == Tier::Tier0));
    for want in [0, 2, 3, 1] {
        assert_eq!(shaders[want].tier(), Tier::Tier0);
        gate.finish.send(true).expect("received");
        if want != 1 {
            gate.begun.recv().expect("the next begins");
        } else {
            engine.wait();
        }
        assert_eq!(shaders[want].tier(), Tier::Native);
    }
}

#[test]
fn a_crosscheck_compares_tier_0_too() {
    let (events, handler) = collecting();
    let engine = Engine::new(Options { crosscheck: 1, events: handler, ..after_100_vertices() });
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    run_batch(&shader, 40);
    runs(&shader);
    assert_eq!((shader.tier(), shader.divergence()), (Tier::Tier0, None));
    assert!(lock(&events).iter().all(|event| matches!(event, Event::Fallback { .. })));
}

#[cfg(feature = "jit")]
mod memory {
    #![allow(unsafe_code)]

    use super::*;
    use crate::executable::ExecutableMemory;
    use std::io;
    use std::ptr::NonNull;

    /// Memory for a number of functions, then none.
    struct Limited {
        left: AtomicUsize,
        refused: AtomicUsize,
    }

    impl Limited {
        fn new(functions: usize) -> Arc<Limited> {
            Arc::new(Limited { left: AtomicUsize::new(functions), refused: AtomicUsize::new(0) })
        }
    }

    // SAFETY: the pages hold the code, executable and unchanged until `release`.
    unsafe impl ExecutableMemory for Limited {
        fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>> {
            let take = |left: usize| left.checked_sub(1);
            if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let mut pages = memmap2::MmapMut::map_anon(code.len())?;
            pages.copy_from_slice(code);
            let pages = pages.make_exec()?;
            let at = NonNull::new(pages.as_ptr().cast_mut()).expect("mapped");
            // The process ends soon.
            std::mem::forget(pages);
            Ok(at)
        }
        fn release(&self, _: NonNull<u8>, _: usize) {}
    }

    /// Runs `count` shaders on limited memory: shaders with native code, refusals and events.
    fn shaders(functions: usize, count: u32, threads: usize) -> (usize, usize, Vec<Event>) {
        // The first engine of a process warms up, and this test may be alone in its process.
        drop(Engine::new(Options::default()));
        let memory = Limited::new(functions);
        let (events, handler) = collecting();
        let options = Options { memory: Some(memory.clone()), threads, events: handler, ..Options::at_once() };
        let engine = Engine::new(options);
        let oracle = Engine::new(Options { backend: BackendChoice::Oracle, ..Options::default() });
        let mut native = 0;
        for n in 0..count {
            // `add o0, v0, vn`, then filler: each program has a result of its own.
            let code = [(n % 16) << 7, END].into_iter().chain([n]).collect::<Vec<u32>>();
            let opdescs = [0x36F ^ ((n / 16) << 4)];
            let program = Program::from_words(&code, &opdescs).expect("short");
            let [tested, reference] = [&engine, &oracle].map(|engine| engine.shader(&program, Entry::vertex(0)));
            engine.wait();
            let results = [&tested, &reference].map(|shader| {
                let mut unit = Unit::new();
                for (m, v) in unit.v.iter_mut().enumerate() {
                    *v = [1.0, m as f32, -2.5, n as f32];
                }
                assert_eq!(shader.run(&Uniforms::new(), &mut unit), Exit::End);
                unit.outputs()[0].map(f32::to_bits)
            });
            assert_eq!(results[0], results[1], "shader {n}");
            assert_eq!(tested.tier() == Tier::Tier0, tested.fallback_reason().is_some());
            native += usize::from(tested.tier() == Tier::Native);
        }
        assert!(matches!(engine.no_native(), Some(Unsupported::NoExecMemory { .. })));
        let refused = memory.refused.load(Ordering::Relaxed);
        // Cleared, the engine tries once more.
        memory.left.store(1, Ordering::Relaxed);
        engine.clear();
        assert_eq!(engine.no_native(), None);
        let again = engine.shader(&Program::from_words(&[END], &[]).expect("short"), Entry::vertex(0));
        engine.wait();
        assert_eq!(again.tier(), Tier::Native);
        let seen = lock(&events).clone();
        (native, refused, seen)
    }

    /// Only on x86-64 does code become executable without cache maintenance.
    const RUNS: bool = cfg!(target_arch = "x86_64") && cfg!(not(miri));

    #[test]
    fn memory_that_is_refused_at_start_leaves_tier_0_and_one_event() {
        for threads in [0, 1] {
            let (native, refused, events) = shaders(0, 20, threads);
            assert_eq!((native, refused), (0, 1), "later shaders don't try");
            let [Event::Fallback { reason: Unsupported::NoExecMemory { error, .. }, .. }] = &events[..] else {
                panic!("{events:?}")
            };
            assert_eq!(*error, io::ErrorKind::OutOfMemory);
            assert!(events[0].to_string().contains("runs on tier 0: the memory that the host lends has no room"));
        }
    }

    #[test]
    fn memory_that_is_refused_after_the_hundredth_shader_leaves_tier_0_and_one_event() {
        for threads in [0, 1].into_iter().filter(|_| RUNS) {
            let (native, refused, events) = shaders(100, 150, threads);
            assert_eq!((native, refused), (100, 1), "later shaders don't try");
            assert!(matches!(events[..], [Event::Fallback { .. }]), "{events:?}");
        }
    }
}
