//! The emulator's door: an [`Engine`] turns programs into [`Shader`]s, chooses who runs them, and says why.
//!
//! Programs are compiled once each ([`crate::cache`]). Where native code can't serve, the interpreter does, and that is
//! never silent: [`Shader::fallback_reason`] has the reason, and the engine reports it once. With
//! [`Options::crosscheck`] one run in N is done twice, on the interpreter as well, and compared.
//!
//! Whether a shader is native can't be observed in what it computes. Engine and shaders are shared between threads
//! freely; a [`Unit`] belongs to one thread at a time.

use crate::cache::{Cache, CacheStats, ShaderKey};
use crate::diff::{self, Side, Work};
use crate::interp::Interp;
use crate::isa::numeric::Precision;
use crate::kernel::{Backend, Config, DEFAULT_FUEL, Kernel, KernelStats, Unsupported};
use crate::layout::{Host, HostEmitter, Layout};
use crate::profiler::{Profiler, Unprofiled};
use crate::program::{Entry, Program};
use crate::state::{Batch, Emitter, Exit, NoEmitter, Uniforms, Unit};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who should run shaders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Prefer {
    /// Native code where the host allows it, the interpreter where not.
    #[default]
    Native,
    /// The interpreter.
    Interpreter,
}

/// Something the engine wants to be known.
#[derive(Clone, Debug)]
pub enum Event {
    /// A shader runs on the interpreter although native code was preferred. Reported once for each reason.
    Fallback {
        /// Which entry.
        entry: Entry,
        /// Why.
        reason: Unsupported,
    },
    /// A crosscheck found native code and interpreter to differ: a bug in picajit. Reported once for each shader.
    Divergence {
        /// Which entry.
        entry: Entry,
        /// What differed first.
        difference: String,
    },
    /// The profiler that was asked for is not told of shaders, or no more. Reported once for each engine.
    Unprofiled {
        /// Why.
        reason: Unprofiled,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Fallback { entry, reason } => {
                write!(f, "the {} shader at {} runs on the interpreter: {reason}", entry.stage, entry.pc)
            }
            Event::Divergence { entry, difference } => {
                write!(f, "the {} shader at {} differs from the interpreter: {difference}", entry.stage, entry.pc)
            }
            Event::Unprofiled { reason } => write!(f, "profilers don't see shaders: {reason}"),
        }
    }
}

/// Receives events.
pub type EventHandler = Arc<dyn Fn(&Event) + Send + Sync>;

/// How an engine works.
#[derive(Clone)]
pub struct Options {
    /// Who runs shaders.
    pub backend: Prefer,
    /// Number format of results.
    pub precision: Precision,
    /// Backward transfers that one run may take before it ends with [`Exit::Fuel`]. Between two of them there are at
    /// most as many instructions as the program has words, so a hostile program of 4096 words and the usual fuel can
    /// still take seconds a vertex; a host that must answer sooner sets less.
    pub fuel: u32,
    /// Compare one run in so many with the interpreter; 0 for none. Runs that are compared cost as much as
    /// interpreting. In a batch it is 16 vertices from that one on, so that those that run side by side are seen to.
    pub crosscheck: u32,
    /// Where the host keeps registers and uniforms: [`Shader::run_on`] and [`Shader::run_batch_on`] run there, in place.
    /// Without it they belong in [`Unit`] and [`Uniforms`], and a host's are copied there and back.
    pub layout: Option<Layout>,
    /// Bytes that cached kernels may occupy.
    pub cache_bytes: usize,
    /// Which profiler is told of native code, so that it shows shaders by name.
    pub profiler: Profiler,
    /// Who is told of events; standard error unless changed.
    pub events: EventHandler,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            backend: Prefer::default(),
            precision: Precision::default(),
            fuel: DEFAULT_FUEL,
            crosscheck: 0,
            layout: None,
            cache_bytes: 64 << 20,
            profiler: Profiler::None,
            events: Arc::new(|event| eprintln!("picajit: {event}")),
        }
    }
}

/// Compiles programs and keeps what it has compiled.
pub struct Engine {
    options: Options,
    /// Native code, or why there is none. `None` if it was not asked for.
    native: Option<Result<Arc<dyn Backend>, Unsupported>>,
    cache: Mutex<Cache<Arc<Compiled>>>,
    reported: Mutex<HashSet<Unsupported>>,
}

struct Compiled {
    entry: Entry,
    kernel: Arc<dyn Kernel>,
    backend: &'static str,
    reason: Option<Unsupported>,
    check: Option<Check>,
}

/// What a crosschecked shader needs besides.
struct Check {
    every: u64,
    runs: AtomicU64,
    oracle: Arc<dyn Kernel>,
    found: Mutex<Option<String>>,
    events: EventHandler,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is whole after every statement, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// An engine. Always succeeds: without native code it interprets.
    pub fn new(options: Options) -> Engine {
        let native = (options.backend == Prefer::Native).then(|| native(&options));
        if options.profiler != Profiler::None && !matches!(native, Some(Ok(_))) {
            (options.events)(&Event::Unprofiled { reason: Unprofiled::NoNativeCode });
        }
        Engine { native, cache: Mutex::new(Cache::new(options.cache_bytes)), reported: Mutex::default(), options }
    }

    /// The shader of `entry` in `program`, compiled now or found in the cache. The lookup explores the program (some
    /// microseconds): keep the shader until code, descriptors or entry change.
    pub fn shader(&self, program: &Program, entry: Entry) -> Shader {
        self.shader_on(program, entry, self.options.layout)
    }

    /// The same for runs on [`Unit`] and [`Uniforms`]: it copies nothing there, also if the engine was made for a host's
    /// layout.
    pub fn own_shader(&self, program: &Program, entry: Entry) -> Shader {
        self.shader_on(program, entry, None)
    }

    fn shader_on(&self, program: &Program, entry: Entry, layout: Option<Layout>) -> Shader {
        let Options { precision, fuel, .. } = self.options;
        let config = Config { precision, fuel, layout };
        let key = ShaderKey::new(program, entry, config);
        if let Some(compiled) = lock(&self.cache).get(&key) {
            return Shader(compiled);
        }
        // Not under the lock: other threads go on. If two compile the same, the first to finish is kept.
        let compiled = Arc::new(self.compile(Arc::new(program.clone()), entry, &config));
        let oracle = compiled.check.as_ref().map_or(0, |c| c.oracle.held_bytes());
        let held = compiled.kernel.held_bytes() + oracle;
        Shader(lock(&self.cache).insert(key, compiled, held))
    }

    fn compile(&self, program: Arc<Program>, entry: Entry, config: &Config) -> Compiled {
        let interp = || Interp.compile(&program, entry, config).expect("the interpreter compiles everything");
        let native = match &self.native {
            None => None,
            Some(Err(reason)) => Some(Err(reason.clone())),
            Some(Ok(backend)) => Some(backend.compile(&program, entry, config).map(|k| (k, backend.name()))),
        };
        let (kernel, backend, reason) = match native {
            Some(Ok((kernel, name))) => (kernel, name, None),
            Some(Err(reason)) => {
                if lock(&self.reported).insert(reason.clone()) {
                    (self.options.events)(&Event::Fallback { entry, reason: reason.clone() });
                }
                (interp(), "interp", Some(reason))
            }
            None => (interp(), "interp", None),
        };
        let check = (self.options.crosscheck > 0 && backend != "interp").then(|| Check {
            every: u64::from(self.options.crosscheck),
            runs: AtomicU64::new(0),
            oracle: interp(),
            found: Mutex::default(),
            events: self.options.events.clone(),
        });
        Compiled { entry, kernel, backend, reason, check }
    }

    /// Why no shader of this engine is native, if that is so and native code was preferred.
    pub fn no_native(&self) -> Option<&Unsupported> {
        self.native.as_ref().and_then(|native| native.as_ref().err())
    }

    /// What the cache has done and holds.
    pub fn cache_stats(&self) -> CacheStats {
        lock(&self.cache).stats()
    }

    /// Drops all cached kernels; shaders that are held stay usable.
    pub fn clear(&self) {
        lock(&self.cache).clear();
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new(Options::default())
    }
}

#[cfg(feature = "jit")]
fn native(options: &Options) -> Result<Arc<dyn Backend>, Unsupported> {
    use crate::jit::{Jit, Settings, Variant};
    let settings = Settings { profiler: options.profiler.clone(), ..Settings::default() };
    let jit = Jit::with(Variant::Lanes, settings, Arc::new(Interp))?;
    let events = options.events.clone();
    jit.on_unprofiled(move |reason| events(&Event::Unprofiled { reason: reason.clone() }));
    Ok(Arc::new(jit))
}

#[cfg(not(feature = "jit"))]
fn native(_: &Options) -> Result<Arc<dyn Backend>, Unsupported> {
    Err(Unsupported::HostIsa { missing: "the `jit` feature of this build" })
}

/// One entry of a program, ready to run. Cheap to clone; immutable; many threads may run it at once.
#[derive(Clone)]
pub struct Shader(Arc<Compiled>);

impl Shader {
    /// Runs one vertex on `unit`, on a thread whose floating-point mode is the usual one (round to nearest, subnormals
    /// kept): whoever sets another, as some audio code does, gets other numbers. Inputs from `unit.v`, results in
    /// [`Unit::outputs`]. What the program emits goes nowhere; see [`Shader::run_geometry`].
    pub fn run(&self, uniforms: &Uniforms, unit: &mut Unit) -> Exit {
        self.run_geometry(uniforms, unit, &mut NoEmitter)
    }

    /// Runs one geometry invocation on `unit` and sends its triangles to `emitter`. Afterwards the hardware sets
    /// boolean uniform b15; uniforms are the host's, so that is the host's to do.
    pub fn run_geometry(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        if let Some(check) = self.0.check.as_ref().filter(|check| check.due()) {
            check.once(&self.0, uniforms, unit);
        }
        self.0.kernel.run(uniforms, unit, emitter)
    }

    /// Runs the vertices of `batch` one after the other on `unit`; see [`Kernel::run_batch`].
    pub fn run_batch(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> Exit {
        if let Some(check) = &self.0.check {
            check.batch(&self.0, uniforms, unit, batch);
        }
        self.0.kernel.run_batch(uniforms, unit, batch, &mut NoEmitter)
    }

    /// [`Shader::run_geometry`], which is [`Shader::run`] too, on a host's memory. Nothing is copied if the engine was made
    /// for its layout and the shader is native.
    pub fn run_on(&self, host: &Host<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if let Some(check) = self.0.check.as_ref().filter(|check| check.due()) {
            let (unit, uniforms) = host.load();
            check.once(&self.0, &uniforms, &unit);
        }
        self.0.kernel.run_on(host, emitter)
    }

    /// [`Shader::run_batch`] on a host's memory.
    pub fn run_batch_on(&self, host: &Host<'_>, batch: &mut Batch<'_>) -> Exit {
        if let Some(check) = &self.0.check {
            let (unit, uniforms) = host.load();
            check.batch(&self.0, &uniforms, &unit, batch);
        }
        self.0.kernel.run_batch_on(host, batch, &mut NoEmitter)
    }

    /// Who runs it: `lanes` or `interp`.
    pub fn backend(&self) -> &'static str {
        self.0.backend
    }

    /// The layout that its engine was made for.
    pub fn layout(&self) -> Option<&Layout> {
        self.0.kernel.layout()
    }

    /// Why it is not native, if native code was preferred.
    pub fn fallback_reason(&self) -> Option<&Unsupported> {
        self.0.reason.as_ref()
    }

    /// What its runs have met so far, over all threads.
    pub fn stats(&self) -> KernelStats {
        self.0.kernel.stats()
    }

    /// Bytes of native code.
    pub fn native_bytes(&self) -> usize {
        self.0.kernel.native_bytes()
    }

    /// The first difference that a crosscheck has found, in words.
    pub fn divergence(&self) -> Option<String> {
        self.0.check.as_ref().and_then(|c| lock(&c.found).clone())
    }

    /// Whether both are the same compiled shader.
    pub fn same_as(&self, other: &Shader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Vertices of a batch that are compared from one that is due on: as many as it takes to run several at once.
const STRETCH: usize = 16;

impl Check {
    fn due(&self) -> bool {
        self.runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every)
    }

    /// Compares one run on copies of the unit.
    fn once(&self, shader: &Compiled, uniforms: &Uniforms, unit: &Unit) {
        let inputs = [unit.v];
        let work = Work { uniforms, unit, inputs: &inputs, input_mask: u16::MAX, output_mask: u16::MAX };
        self.compare(shader, &work);
    }

    /// Compares stretches of a batch, alone and in batches, on copies of the unit. They begin at the runs that are due,
    /// and with the registers that the whole batch begins with.
    fn batch(&self, shader: &Compiled, uniforms: &Uniforms, unit: &Unit, batch: &Batch<'_>) {
        let count = batch.inputs.len().min(batch.outputs.len());
        let before = self.runs.fetch_add(count as u64, Ordering::Relaxed);
        let first = before.next_multiple_of(self.every) - before;
        let step = usize::try_from(self.every).unwrap_or(usize::MAX).max(STRETCH);
        let Ok(first) = usize::try_from(first) else { return };
        for n in (first..count).step_by(step) {
            let inputs = &batch.inputs[n..count.min(n + STRETCH)];
            let (input_mask, output_mask) = (batch.input_mask, batch.output_mask);
            self.compare(shader, &Work { uniforms, unit, inputs, input_mask, output_mask });
        }
    }

    fn compare(&self, shader: &Compiled, work: &Work<'_>) {
        let [want, got] = [("interp", &*self.oracle), (shader.backend, &*shader.kernel)];
        let [want, got] = [want, got].map(|(name, kernel)| Side { name, kernel });
        let Some(difference) = diff::compare(want, got, work, &mut |_| ()).first else { return };
        let mut found = lock(&self.found);
        let first = found.is_none();
        let difference = found.get_or_insert_with(|| difference.to_string()).clone();
        drop(found);
        if first {
            (self.events)(&Event::Divergence { entry: shader.entry, difference });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Registers;

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
        let engine = Engine::default();
        let mut memory = vec![0u32; 512];
        let mut x = 7u32;
        for _ in 0..3000 {
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
        assert_eq!((stats.misses, stats.hits, stats.entries), (10, 2990, 10));
    }

    #[test]
    fn an_entry_is_a_shader_of_its_own_and_the_same_words_are_one() {
        let engine = Engine::default();
        let shader = |leftovers: &[u32], entry| engine.shader(&program(2, leftovers), entry);
        assert!(shader(&[], Entry::vertex(0)).same_as(&shader(&[1, 2, 3], Entry::vertex(0))));
        assert!(!shader(&[], Entry::vertex(0)).same_as(&shader(&[], Entry::vertex(1))));
        assert!(!shader(&[], Entry::vertex(0)).same_as(&shader(&[], Entry::geometry(0))));
    }

    #[test]
    fn fallback_has_a_reason_and_is_reported_once() {
        struct Refusing;
        impl Backend for Refusing {
            fn name(&self) -> &'static str {
                "refusing"
            }
            fn compile(&self, _: &Arc<Program>, _: Entry, _: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
                Err(Unsupported::NoExecMemory { error: std::io::ErrorKind::PermissionDenied })
            }
        }
        let (events, handler) = collecting();
        let mut engine = Engine::new(Options { events: handler, ..Options::default() });
        engine.native = Some(Ok(Arc::new(Refusing)));
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
        engine.native = Some(Ok(Arc::new(Spoilt(spoil))));
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
        let mut batch = Batch { inputs: &inputs, outputs: &mut outputs, input_mask: 1, output_mask: 1 };
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
            let mut batch = Batch { inputs: &inputs, outputs: &mut outputs, input_mask: 1, output_mask: 1 };
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
                    for n in 0..40 {
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
}
