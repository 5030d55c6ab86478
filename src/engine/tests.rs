//! The public interface of engines.

use super::*;
use crate::interp::Interp;
use crate::kernel::{Backend, Kernel, OnUnits, UnitKernel};
use crate::state::{Batch, BatchExit, Emitter, Exit, Registers, Uniforms, Unit};
use crate::testing::miri_or;
use crate::tier0::Tier0;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

mod cancel;
mod crosschecks;
mod direct_call;
#[cfg(feature = "jit")]
mod drop_engine;
mod endless;
#[cfg(feature = "jit")]
mod explorations;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod foreign_mode;
mod host_flags;
mod small_batches;
mod tiers;

const END: u32 = 0x22 << 26;

/// `mov o0, v0` (with descriptor 0), then `len` times `add o0, v0, o0`-like filler, then END, then
/// leftovers.
fn program(len: u32, leftovers: &[u32]) -> Program {
    let mut code = vec![0x13 << 26];
    code.extend((0..len).map(|n| 0x08 << 26 | n << 21 & 0x01E0_0000));
    code.push(END);
    code.extend(leftovers);
    Program::from_words(&code, &[0x36F]).expect("short")
}

fn collecting() -> (Arc<Mutex<Vec<Event>>>, EventHandler) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let to = events.clone();
    (events, Arc::new(move |e: &Event| to.lock().expect("no panic").push(e.clone())))
}

#[test]
fn ten_programs_uploaded_three_thousand_times_compile_ten_times() {
    let uploads = miri_or(30, 3000);
    let engine = Engine::new(Options::at_once());
    let mut memory = vec![0u32; miri_or(80, 512)];
    let mut x = 7u32;
    for _ in 0..uploads {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        // An upload overwrites its own words only; words of longer, older programs stay after it.
        let new = program(x % 10 * 7, &[]);
        memory[..new.code().len()].copy_from_slice(new.code());
        let image = Program::from_words(&memory, &[0x36F]).expect("512 words");
        engine.shader(&image, Entry::vertex(0));
    }
    let stats = engine.cache_stats();
    assert_eq!((stats.misses, stats.hits, stats.entries), (10, uploads - 10, 10));
}

#[test]
fn each_entry_is_a_shader_and_equal_reachable_words_share_one() {
    let engine = Engine::new(Options::at_once());
    let shader = |leftovers: &[u32], entry| engine.shader(&program(2, leftovers), entry);
    assert!(shader(&[], Entry::vertex(0)).same_as(&shader(&[1, 2, 3], Entry::vertex(0))));
    assert!(!shader(&[], Entry::vertex(0)).same_as(&shader(&[], Entry::vertex(1))));
    assert!(!shader(&[], Entry::vertex(0)).same_as(&shader(&[], Entry::geometry(0))));
}

type Explored = Option<Exploration>;

struct Failing;
impl NativeCompiler for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }
    fn compile(&self, _: Explored, _: &Arc<Program>, _: Entry, _: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Err(Unsupported::NoExecMemory { error: std::io::ErrorKind::PermissionDenied, lent: false })
    }
}

#[test]
fn a_fallback_has_a_reason_and_is_reported_once() {
    let (events, handler) = collecting();
    let mut engine = Engine::new(Options { events: handler, ..Options::at_once() });
    engine.set_backend(Arc::new(Failing));
    for n in 0..3 {
        let shader = engine.shader(&program(n, &[]), Entry::vertex(0));
        assert_eq!(shader.backend(), "tier0");
        assert_eq!(
            shader.fallback_reason().map(ToString::to_string).as_deref(),
            Some("the system gives no executable memory: permission denied")
        );
        let mut unit = Unit::new();
        unit.v[0] = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(shader.run(&Uniforms::new(), &mut unit), Exit::End);
    }
    assert_eq!(events.lock().expect("no panic").len(), 1);
    let interpreting = Engine::new(Options { backend: BackendChoice::Oracle, ..Options::at_once() });
    let shader = interpreting.shader(&program(0, &[]), Entry::vertex(0));
    assert_eq!((shader.backend(), shader.fallback_reason()), ("interp", None));
}

/// An engine with a crosscheck of every Nth run, and its events. Its native kernels are the oracle's,
/// changed by `wrap`.
fn crosschecking(crosscheck: u32, wrap: fn(Arc<dyn Kernel>) -> Arc<dyn Kernel>) -> (Arc<Mutex<Vec<Event>>>, Engine) {
    let (events, handler) = collecting();
    (events, crosschecking_for(handler, crosscheck, wrap))
}

/// The same for a handler of events.
fn crosschecking_for(events: EventHandler, crosscheck: u32, wrap: fn(Arc<dyn Kernel>) -> Arc<dyn Kernel>) -> Engine {
    struct Wrapping(fn(Arc<dyn Kernel>) -> Arc<dyn Kernel>);
    impl NativeCompiler for Wrapping {
        fn name(&self) -> &'static str {
            "wrong"
        }
        fn compile(&self, _: Explored, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
            Ok((self.0)(Interp.compile(p, e, c)?))
        }
    }
    let mut engine = Engine::new(Options { events, crosscheck, ..Options::at_once() });
    engine.set_backend(Arc::new(Wrapping(wrap)));
    engine
}

#[test]
fn a_crosscheck_reports_a_wrong_kernel_once() {
    struct Wrong(Arc<dyn Kernel>);
    impl UnitKernel for Wrong {
        fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
            let exit = self.0.run(uniforms, unit, emitter);
            unit.o[0][0][2] += 1.0;
            exit
        }
    }
    let (events, engine) = crosschecking(3, |kernel| Arc::new(OnUnits(Wrong(kernel))));
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    let (uniforms, mut unit) = (Uniforms::new(), Unit::new());
    let inputs: Vec<Registers> = vec![[[1.0; 4]; 16]; 8];
    let mut outputs = vec![[[0.0; 4]; 16]; 8];
    let mut batch = Batch::of(&inputs, &mut outputs);
    assert_eq!(shader.run_batch(&uniforms, &mut unit, &mut batch), Exit::End);
    assert_eq!(outputs[7][0], [1.0, 1.0, 2.0, 1.0], "the run itself is the kernel's");
    let events = events.lock().expect("no panic");
    assert!(matches!(&events[..], [Event::Divergence { .. }]), "{events:?}");
    let text = shader.divergence().expect("found");
    assert!(text.contains("o0.z") && text.contains("wrong"), "{text}");
}

#[test]
fn a_crosscheck_finds_errors_of_batch_code() {
    struct Wrong(Arc<dyn Kernel>);
    impl UnitKernel for Wrong {
        fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
            self.0.run(uniforms, unit, emitter)
        }
        fn run_batch(&self, u: &Uniforms, unit: &mut Unit, b: &mut Batch<'_>, e: &mut dyn Emitter) -> BatchExit {
            let exit = self.0.run_batch(u, unit, b, e);
            let count = b.inputs.len();
            if count >= 8 {
                b.outputs[count - 1][0][1] += 1.0;
            }
            exit
        }
    }
    let (events, engine) = crosschecking(100, |kernel| Arc::new(OnUnits(Wrong(kernel))));
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    let (uniforms, mut unit) = (Uniforms::new(), Unit::new());
    let mut run = |size: usize| {
        let inputs: Vec<Registers> = vec![[[1.0; 4]; 16]; size];
        let mut outputs = inputs.clone();
        let mut batch = Batch::of(&inputs, &mut outputs);
        shader.run_batch(&uniforms, &mut unit, &mut batch);
        events.lock().expect("no panic").len()
    };
    // Run 0 is selected, in a batch too small for the error. Runs 4-67 and 68-99 are not selected;
    // run 100 is one of the next 64.
    assert_eq!([run(4), run(64), run(32), run(64)], [0, 0, 0, 1]);
    assert!(shader.divergence().expect("found").contains("through run_batch"));
}

#[test]
fn threads_share_an_engine() {
    let engine = Engine::new(Options::at_once());
    std::thread::scope(|scope| {
        for seed in 0..4u32 {
            let engine = &engine;
            scope.spawn(move || {
                for n in 0..miri_or(5, 40) {
                    let shader = engine.shader(&program((n + seed) % 5, &[n]), Entry::vertex(0));
                    let mut unit = Unit::new();
                    unit.v[0] = [n as f32; 4];
                    assert_eq!(shader.run(&Uniforms::new(), &mut unit), Exit::End);
                }
            });
        }
    });
    assert_eq!(engine.cache_stats().entries, 5);
}

/// A backend whose compilations each wait for a message: true to succeed, false to fail.
struct Gate {
    results: Mutex<std::sync::mpsc::Receiver<bool>>,
    begun: std::sync::mpsc::Sender<()>,
}

impl NativeCompiler for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }
    fn compile(&self, _: Explored, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        self.begun.send(()).expect("received");
        match lock(&self.results).recv().expect("sent") {
            true => Interp.compile(p, e, c),
            false => Err(Unsupported::Codegen { message: "failed on request".into() }),
        }
    }
}

/// The test's ends of a [`Gate`]'s channels.
struct GateControl {
    finish: std::sync::mpsc::Sender<bool>,
    begun: std::sync::mpsc::Receiver<()>,
}

/// An engine with one thread and a [`Gate`].
fn gated() -> (Arc<Mutex<Vec<Event>>>, Engine, GateControl) {
    let (events, handler) = collecting();
    let mut engine = Engine::new(Options { events: handler, threads: 1, ..Options::at_once() });
    let ((finish, receive), (send, begun)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let gate = Gate { results: Mutex::new(receive), begun: send };
    engine.set_backend(Arc::new(gate));
    (events, engine, GateControl { finish, begun })
}

fn runs(shader: &Shader) {
    let mut unit = Unit::new();
    unit.v[0] = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(shader.run(&Uniforms::new(), &mut unit), Exit::End);
    assert_eq!(unit.outputs()[0], [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn tier_0_serves_a_shader_until_its_code_is_compiled() {
    let (events, engine, gate) = gated();
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    gate.begun.recv().expect("compilation begins without a run");
    runs(&shader);
    assert_eq!((shader.backend(), shader.fallback_reason()), ("tier0", None), "not compiled yet");
    assert!(engine.shader(&program(0, &[7]), Entry::vertex(0)).same_as(&shader), "cached, compiled or not");
    let before = engine.cache_stats().bytes;
    gate.finish.send(true).expect("received");
    engine.wait();
    assert_eq!(shader.backend(), "gate");
    runs(&shader);
    assert_ne!(engine.cache_stats().bytes, before, "the cache counts the code");
    let failed = engine.shader(&program(1, &[]), Entry::vertex(0));
    gate.finish.send(false).expect("received");
    engine.wait();
    runs(&failed);
    assert_eq!(failed.backend(), "tier0");
    assert!(matches!(failed.fallback_reason(), Some(Unsupported::Codegen { .. })));
    assert!(matches!(lock(&events)[..], [Event::Fallback { .. }]));
}

#[test]
fn a_handler_of_a_fallback_may_request_the_shader() {
    for threads in [0, 1] {
        let slot: Arc<OnceLock<Engine>> = Arc::default();
        let (weak, events_received) = (Arc::downgrade(&slot), Arc::new(AtomicUsize::new(0)));
        let count = events_received.clone();
        let events: EventHandler = Arc::new(move |_: &Event| {
            let engine = weak.upgrade().expect("the engine exists");
            let shader = engine.get().expect("initialised").shader(&program(0, &[]), Entry::vertex(0));
            shader.compile_now();
            runs(&shader);
            count.fetch_add(1, Ordering::Relaxed);
        });
        let mut engine = Engine::new(Options { events: events.clone(), threads, ..Options::at_once() });
        engine.set_backend(Arc::new(Failing));
        let engine = slot.get_or_init(|| engine);
        let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
        engine.wait();
        assert!(shader.fallback_reason().is_some());
        assert_eq!(events_received.load(Ordering::Relaxed), 1);
        assert_eq!(engine.cache_stats().misses, 1, "the handler's request finds the shader");
    }
}

#[test]
fn dropped_shaders_are_not_compiled() {
    let (_, engine, gate) = gated();
    let first = engine.shader(&program(0, &[]), Entry::vertex(0));
    gate.begun.recv().expect("it begins");
    for n in 1..10 {
        engine.shader(&program(n, &[]), Entry::vertex(0));
    }
    engine.clear();
    gate.finish.send(true).expect("received");
    engine.wait();
    assert!(gate.begun.try_recv().is_err(), "nine evicted shaders were not compiled");
    assert_eq!(first.backend(), "gate");
}

#[test]
fn a_shader_whose_engine_was_dropped_is_compiled_by_its_first_run() {
    let (_, engine, gate) = gated();
    let [first, second] = [0, 1].map(|n| engine.shader(&program(n, &[]), Entry::vertex(0)));
    gate.begun.recv().expect("the first begins");
    gate.finish.send(true).expect("received");
    let Engine { background, .. } = engine;
    // The thread may have begun the second compilation, or not.
    gate.finish.send(true).expect("received");
    drop(background);
    assert_eq!(first.backend(), "gate");
    runs(&second);
    assert_eq!(second.backend(), "gate", "compiled by its first run");
    runs(&second);
}

#[test]
#[cfg(feature = "jit")]
fn results_do_not_depend_on_when_code_is_compiled() {
    // Some inputs are infinite, so that single runs deoptimise and groups bail out.
    let source = ".fvec scale\n.in a\n.out o position\n.proc main\nmul r0, scale, a\nmov o, r0\nend\n.end";
    let bytes = crate::text::assemble(source).expect("right").shbin.write().expect("small");
    let program = crate::container::shbin::Shbin::parse(&bytes).expect("just written").program().expect("short");
    let oracle = Engine::new(Options { backend: BackendChoice::Oracle, ..Options::at_once() });
    let mut uniforms = Uniforms::new();
    uniforms.c[0] = [0.5, 0.0, f32::INFINITY, -2.0];
    let inputs: Vec<Registers> = (0..64).map(|n| [[n as f32, f32::INFINITY, (n % 3) as f32, 1.0]; 16]).collect();
    let run = |engine: &Engine, uniforms: &Uniforms, inputs: &[Registers]| {
        let mut unit = Unit::new();
        let mut outputs = vec![[[0.0; 4]; 16]; inputs.len()];
        let mut batch = Batch::of(inputs, &mut outputs);
        let shader = engine.shader(&program, Entry::vertex(0));
        assert_eq!(shader.run_batch(uniforms, &mut unit, &mut batch), Exit::End);
        let out: Vec<[u32; 4]> = outputs.iter().map(|o| o[0].map(f32::to_bits)).collect();
        (out, unit.r.map(|r| r.map(f32::to_bits)))
    };
    let want = run(&oracle, &uniforms, &inputs);
    let finite_inputs: Vec<Registers> = (0..64).map(|n| [[n as f32; 4]; 16]).collect();
    let mut finite_uniforms = uniforms.clone();
    finite_uniforms.c[0] = [0.5, 0.0, 3.0, -2.0];
    for threads in [0, 1, 3] {
        let engine = Engine::new(Options { threads, ..Options::at_once() });
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert_eq!(run(&engine, &uniforms, &inputs), want);
                        run(&engine, &finite_uniforms, &finite_inputs);
                    }
                });
            }
        });
        engine.wait();
        let shader = engine.shader(&program, Entry::vertex(0));
        assert_eq!(shader.backend(), "batch");
        assert_eq!(run(&engine, &uniforms, &inputs), want);
        assert!(shader.stats().deoptimised > 0, "{:?}", shader.stats());
        // On a busy machine all runs above may precede the code, and batch code is compiled after
        // 1,024 vertices.
        for _ in 0..20 {
            run(&engine, &finite_uniforms, &finite_inputs);
            engine.wait();
        }
        assert_eq!(run(&engine, &finite_uniforms, &finite_inputs), run(&oracle, &finite_uniforms, &finite_inputs));
        assert!(shader.stats().groups > 0, "{threads} threads: {:?}", shader.stats());
        assert_eq!(engine.cache_stats().entries, 1);
    }
}

#[test]
fn the_cache_counts_an_interpreter_that_runs_will_need() {
    let program = program(200, &[]);
    let interpreter = Interp
        .compile(&Arc::new(program.clone()), Entry::vertex(0), &Config::default())
        .expect("it compiles every program");
    let interpreting = Options { backend: BackendChoice::Oracle, ..Options::at_once() };
    let crosschecking = Options { crosscheck: 100, ..Options::at_once() };
    for options in [interpreting, crosschecking] {
        let engine = Engine::new(options);
        engine.shader(&program, Entry::vertex(0));
        assert!(engine.cache_stats().bytes > interpreter.held_bytes());
    }
}

#[test]
fn a_shader_that_waits_for_its_compilation_keeps_no_graph() {
    let (_, engine, gate) = gated();
    let program = program(200, &[]);
    let key = ShaderKey::new(&program, Entry::vertex(0), Config::default());
    let tier0 = Tier0::default().kernel_of_entry(&program, Entry::vertex(0), &Config::default()).held_bytes();
    let shader = engine.shader(&program, Entry::vertex(0));
    gate.begun.recv().expect("it begins");
    assert_eq!(engine.cache_stats().bytes, key.bytes() + program.bytes() + tier0);
    gate.finish.send(true).expect("received");
    engine.wait();
    assert_eq!(engine.cache_stats().bytes, key.bytes() + shader.0.held_bytes());
}
