//! Engines as a host sees them.

use super::*;
use crate::interp::Interp;
use crate::kernel::Kernel;
use crate::state::Registers;
use crate::state::VertexLayout;
use crate::testing::miri_or;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const END: u32 = 0x22 << 26;

/// `mov o0, v0` (with descriptor 0), then `len` times `add o0, v0, o0`-like filler, then END, then leftovers.
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
    let asked = miri_or(30, 3000);
    let engine = Engine::default();
    let mut memory = vec![0u32; miri_or(80, 512)];
    let mut x = 7u32;
    for _ in 0..asked {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        // Each upload covers only its own words: what is behind them stays from longer, older ones.
        let new = program(x % 10 * 7, &[]);
        memory[..new.code().len()].copy_from_slice(new.code());
        let image = Program::from_words(&memory, &[0x36F]).expect("512 words");
        engine.shader(&image, Entry::vertex(0));
    }
    let stats = engine.cache_stats();
    assert_eq!((stats.misses, stats.hits, stats.entries), (10, asked - 10, 10));
}

#[test]
fn an_entry_is_a_shader_of_its_own_and_the_same_words_are_one() {
    let engine = Engine::default();
    let shader = |leftovers: &[u32], entry| engine.shader(&program(2, leftovers), entry);
    assert!(shader(&[], Entry::vertex(0)).same_as(&shader(&[1, 2, 3], Entry::vertex(0))));
    assert!(!shader(&[], Entry::vertex(0)).same_as(&shader(&[], Entry::vertex(1))));
    assert!(!shader(&[], Entry::vertex(0)).same_as(&shader(&[], Entry::geometry(0))));
}

struct Refusing;
impl Backend for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }
    fn compile(&self, _: &Arc<Program>, _: Entry, _: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Err(Unsupported::NoExecMemory { error: std::io::ErrorKind::PermissionDenied })
    }
}

#[test]
fn fallback_has_a_reason_and_is_reported_once() {
    let (events, handler) = collecting();
    let mut engine = Engine::new(Options { events: handler, ..Options::default() });
    let queue = engine.background.queue().clone();
    engine.maker = Some(Arc::new(Maker::new(Ok(Arc::new(Refusing)), queue, engine.options.events.clone())));
    for n in 0..3 {
        let shader = engine.shader(&program(n, &[]), Entry::vertex(0));
        assert_eq!(shader.backend(), "interp");
        assert_eq!(
            shader.fallback_reason().map(ToString::to_string).as_deref(),
            Some("the system gives no executable memory: permission denied")
        );
        let mut unit = Unit::new();
        unit.v[0] = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(shader.run(&Uniforms::new(), &mut unit), Exit::End);
    }
    assert_eq!(events.lock().expect("no panic").len(), 1);
    let asked_for = Engine::new(Options { backend: Prefer::Interpreter, ..Options::default() });
    let shader = asked_for.shader(&program(0, &[]), Entry::vertex(0));
    assert_eq!((shader.backend(), shader.fallback_reason()), ("interp", None));
}

/// An engine that compares one run in `crosscheck`, whose native kernels are what `spoil` makes of the interpreter's.
fn checking(crosscheck: u32, spoil: fn(Arc<dyn Kernel>) -> Arc<dyn Kernel>) -> (Arc<Mutex<Vec<Event>>>, Engine) {
    struct Spoilt(fn(Arc<dyn Kernel>) -> Arc<dyn Kernel>);
    impl Backend for Spoilt {
        fn name(&self) -> &'static str {
            "wrong"
        }
        fn compile(&self, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
            Ok((self.0)(Interp.compile(p, e, c)?))
        }
    }
    let (events, handler) = collecting();
    let mut engine = Engine::new(Options { events: handler, crosscheck, ..Options::default() });
    let queue = engine.background.queue().clone();
    engine.maker = Some(Arc::new(Maker::new(Ok(Arc::new(Spoilt(spoil))), queue, engine.options.events.clone())));
    (events, engine)
}

#[test]
fn a_crosscheck_finds_a_wrong_kernel_and_says_so_once() {
    struct Wrong(Arc<dyn Kernel>);
    impl Kernel for Wrong {
        fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
            let exit = self.0.run(uniforms, unit, emitter);
            unit.o[0][0][2] += 1.0;
            exit
        }
    }
    let (events, engine) = checking(3, |kernel| Arc::new(Wrong(kernel)));
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    let (uniforms, mut unit) = (Uniforms::new(), Unit::new());
    let inputs: Vec<Registers> = vec![[[1.0; 4]; 16]; 8];
    let mut outputs = vec![[[0.0; 4]; 16]; 8];
    let mut batch = Batch {
        inputs: (&inputs).into(),
        outputs: (&mut outputs).into(),
        input_mask: 1,
        output_mask: 1,
        preserve_unit: false,
        layout: VertexLayout::Aos,
    };
    assert_eq!(shader.run_batch(&uniforms, &mut unit, &mut batch), Exit::End);
    assert_eq!(outputs[7][0], [1.0, 1.0, 2.0, 1.0], "the run itself is the kernel's");
    let events = events.lock().expect("no panic");
    assert!(matches!(&events[..], [Event::Divergence { .. }]), "{events:?}");
    let text = shader.divergence().expect("found");
    assert!(text.contains("o0.z") && text.contains("wrong"), "{text}");
}

#[test]
fn a_crosscheck_sees_what_only_batches_do() {
    struct Wrong(Arc<dyn Kernel>);
    impl Kernel for Wrong {
        fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
            self.0.run(uniforms, unit, emitter)
        }
        fn run_batch(&self, u: &Uniforms, unit: &mut Unit, b: &mut Batch<'_>, e: &mut dyn Emitter) -> Exit {
            let exit = self.0.run_batch(u, unit, b, e);
            let count = b.inputs.len();
            if count >= 8 {
                b.outputs[count - 1][0][1] += 1.0;
            }
            exit
        }
    }
    let (events, engine) = checking(100, |kernel| Arc::new(Wrong(kernel)));
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    let (uniforms, mut unit) = (Uniforms::new(), Unit::new());
    let mut run = |size: usize| {
        let inputs: Vec<Registers> = vec![[[1.0; 4]; 16]; size];
        let mut outputs = inputs.clone();
        let mut batch = Batch {
            inputs: (&inputs).into(),
            outputs: (&mut outputs).into(),
            input_mask: 1,
            output_mask: 1,
            preserve_unit: false,
            layout: VertexLayout::Aos,
        };
        shader.run_batch(&uniforms, &mut unit, &mut batch);
        events.lock().expect("no panic").len()
    };
    // Runs 0-3 are due but too few to be wrong, 4-67 and 68-99 are not due, 100 is among the next 64.
    assert_eq!([run(4), run(64), run(32), run(64)], [0, 0, 0, 1]);
    assert!(shader.divergence().expect("found").contains("through run_batch"));
}

#[test]
fn threads_share_an_engine() {
    let engine = Engine::default();
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

/// Compiles nothing before it is told to, each time, and then, if so asked, nothing at all.
struct Gate {
    may: Mutex<std::sync::mpsc::Receiver<bool>>,
    begun: std::sync::mpsc::Sender<()>,
}

impl Backend for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }
    fn compile(&self, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        self.begun.send(()).expect("heard");
        match lock(&self.may).recv().expect("told") {
            true => Interp.compile(p, e, c),
            false => Err(Unsupported::Codegen { message: "it was told to".into() }),
        }
    }
}

/// What a [`Gate`] can be told and says.
struct Keeper {
    may: std::sync::mpsc::Sender<bool>,
    begun: std::sync::mpsc::Receiver<()>,
}

/// An engine with one thread that compiles at a gate.
fn gated() -> (Arc<Mutex<Vec<Event>>>, Engine, Keeper) {
    let (events, handler) = collecting();
    let mut engine = Engine::new(Options { events: handler, threads: 1, ..Options::default() });
    let ((may, receive), (send, begun)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let gate = Gate { may: Mutex::new(receive), begun: send };
    let queue = engine.background.queue().clone();
    engine.maker = Some(Arc::new(Maker::new(Ok(Arc::new(gate)), queue, engine.options.events.clone())));
    (events, engine, Keeper { may, begun })
}

fn runs(shader: &Shader) {
    let mut unit = Unit::new();
    unit.v[0] = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(shader.run(&Uniforms::new(), &mut unit), Exit::End);
    assert_eq!(unit.outputs()[0], [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn shaders_run_while_they_are_compiled() {
    let (events, engine, keeper) = gated();
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    keeper.begun.recv().expect("compiling begins by itself");
    runs(&shader);
    assert_eq!((shader.backend(), shader.fallback_reason()), ("interp", None), "not yet");
    assert!(engine.shader(&program(0, &[7]), Entry::vertex(0)).same_as(&shader), "known, compiled or not");
    let before = engine.cache_stats().bytes;
    keeper.may.send(true).expect("heard");
    engine.wait();
    assert_eq!(shader.backend(), "gate");
    runs(&shader);
    assert!(engine.cache_stats().bytes > before, "what it has become is counted");
    let refused = engine.shader(&program(1, &[]), Entry::vertex(0));
    keeper.may.send(false).expect("heard");
    engine.wait();
    runs(&refused);
    assert_eq!(refused.backend(), "interp");
    assert!(matches!(refused.fallback_reason(), Some(Unsupported::Codegen { .. })));
    assert!(matches!(lock(&events)[..], [Event::Fallback { .. }]));
}

#[test]
fn who_hears_of_a_fallback_may_ask_for_the_shader() {
    for threads in [0, 1] {
        let made: Arc<OnceLock<Engine>> = Arc::default();
        let (asked, heard) = (Arc::downgrade(&made), Arc::new(AtomicUsize::new(0)));
        let count = heard.clone();
        let events: EventHandler = Arc::new(move |_: &Event| {
            let engine = asked.upgrade().expect("still there");
            let shader = engine.get().expect("made").shader(&program(0, &[]), Entry::vertex(0));
            shader.compile_now();
            runs(&shader);
            count.fetch_add(1, Ordering::Relaxed);
        });
        let mut engine = Engine::new(Options { events: events.clone(), threads, ..Options::default() });
        let queue = engine.background.queue().clone();
        engine.maker = Some(Arc::new(Maker::new(Ok(Arc::new(Refusing)), queue, events)));
        let engine = made.get_or_init(|| engine);
        let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
        engine.wait();
        assert!(shader.fallback_reason().is_some());
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn what_nobody_wants_is_not_compiled() {
    let (_, engine, keeper) = gated();
    let first = engine.shader(&program(0, &[]), Entry::vertex(0));
    keeper.begun.recv().expect("it begins");
    for n in 1..10 {
        engine.shader(&program(n, &[]), Entry::vertex(0));
    }
    engine.clear();
    keeper.may.send(true).expect("heard");
    engine.wait();
    assert!(keeper.begun.try_recv().is_err(), "nine that have gone did not begin");
    assert_eq!(first.backend(), "gate");
}

#[test]
fn shaders_outlive_those_who_were_to_compile_them() {
    let (_, engine, keeper) = gated();
    let [first, second] = [0, 1].map(|n| engine.shader(&program(n, &[]), Entry::vertex(0)));
    keeper.begun.recv().expect("the first begins");
    keeper.may.send(true).expect("heard");
    let Engine { background, .. } = engine;
    // The second may have begun, or not.
    keeper.may.send(true).expect("heard");
    drop(background);
    assert_eq!(first.backend(), "gate");
    runs(&second);
    assert_eq!(second.backend(), "gate", "compiled by its first run");
    runs(&second);
}

#[test]
#[cfg(feature = "jit")]
fn nobody_sees_when_code_becomes_native() {
    // Products of infinities among them, for single runs, batches, and runs that are made again.
    let source = ".fvec scale\n.in a\n.out o position\n.proc main\nmul r0, scale, a\nmov o, r0\nend\n.end";
    let bytes = crate::text::assemble(source).expect("right").shbin.write().expect("small");
    let program = crate::container::shbin::Shbin::parse(&bytes).expect("just written").program().expect("short");
    let oracle = Engine::new(Options { backend: Prefer::Interpreter, ..Options::default() });
    let mut uniforms = Uniforms::new();
    uniforms.c[0] = [0.5, 0.0, f32::INFINITY, -2.0];
    let inputs: Vec<Registers> = (0..64).map(|n| [[n as f32, f32::INFINITY, (n % 3) as f32, 1.0]; 16]).collect();
    let run = |engine: &Engine, uniforms: &Uniforms, inputs: &[Registers]| {
        let mut unit = Unit::new();
        let mut outputs = vec![[[0.0; 4]; 16]; inputs.len()];
        let mut batch = Batch {
            inputs: inputs.into(),
            outputs: (&mut outputs).into(),
            input_mask: 1,
            output_mask: 1,
            preserve_unit: false,
            layout: VertexLayout::Aos,
        };
        let shader = engine.shader(&program, Entry::vertex(0));
        assert_eq!(shader.run_batch(uniforms, &mut unit, &mut batch), Exit::End);
        let out: Vec<[u32; 4]> = outputs.iter().map(|o| o[0].map(f32::to_bits)).collect();
        (out, unit.r.map(|r| r.map(f32::to_bits)))
    };
    let want = run(&oracle, &uniforms, &inputs);
    let calm: Vec<Registers> = (0..64).map(|n| [[n as f32; 4]; 16]).collect();
    let mut quiet = uniforms.clone();
    quiet.c[0] = [0.5, 0.0, 3.0, -2.0];
    for threads in [0, 1, 3] {
        let engine = Engine::new(Options { threads, ..Options::default() });
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert_eq!(run(&engine, &uniforms, &inputs), want);
                        run(&engine, &quiet, &calm);
                    }
                });
            }
        });
        engine.wait();
        let shader = engine.shader(&program, Entry::vertex(0));
        assert_eq!(shader.backend(), "batch");
        assert_eq!(run(&engine, &uniforms, &inputs), want);
        assert!(shader.stats().deoptimised > 0, "{:?}", shader.stats());
        // On a busy machine all runs above may have been over before there was code, and code for batches comes after 1,024 vertices.
        for _ in 0..20 {
            run(&engine, &quiet, &calm);
            engine.wait();
        }
        assert_eq!(run(&engine, &quiet, &calm), run(&oracle, &quiet, &calm));
        assert!(shader.stats().groups > 0, "{threads} threads: {:?}", shader.stats());
        assert_eq!(engine.cache_stats().entries, 1);
    }
}

#[test]
fn interpreters_count_in_the_cache_as_soon_as_they_will_be_wanted() {
    let program = program(200, &[]);
    let least = Interp.compile(&Arc::new(program.clone()), Entry::vertex(0), &Config::default()).expect("all");
    let interpreting = Options { backend: Prefer::Interpreter, ..Options::default() };
    let checking = Options { crosscheck: 100, ..Options::default() };
    for options in [interpreting, checking] {
        let engine = Engine::new(options);
        engine.shader(&program, Entry::vertex(0));
        assert!(engine.cache_stats().bytes > least.held_bytes());
    }
}
