//! The emulator's door: an [`Engine`] turns programs into [`Shader`]s, chooses who runs them, and says why.
//!
//! Programs are compiled once each ([`crate::cache`]). Where native code can't serve, the interpreter does, and that is
//! never silent: [`Shader::fallback_reason`] has the reason, and the engine reports it once. With
//! [`Options::crosscheck`] one run in N is done twice, on the interpreter as well, and compared. With
//! [`Options::store_directory`] programs, not code, are written down for the next start.
//!
//! Whether a shader is native can't be observed in what it computes. Engine and shaders are shared between threads
//! freely; a [`Unit`] belongs to one thread at a time.

mod compiled;
mod crosscheck;
mod key_memo;
mod preload;
mod program_store;

use crate::background::{Background, Queue};
use crate::cache::{Cache, CacheStats, ShaderKey};
use crate::executable::ExecutableMemory;
#[cfg(feature = "jit")]
use crate::interp::Interp;
use crate::isa::numeric::Precision;
use crate::kernel::{Backend, Config, DEFAULT_FUEL, KernelStats, Unsupported, copy_registers};
use crate::layout::{Host, HostEmitter, Layout};
use crate::profiler::{Profiler, ProfilerError};
use crate::program::{Entry, Program};
use crate::state::{Batch, Emitter, Exit, NoEmitter, Uniforms, Unit};
use compiled::{Compiled, Maker};
use crosscheck::Crosscheck;
use key_memo::KeyMemo;
pub use preload::Preloaded;
use program_store::ProgramStore;
pub use program_store::StoreError;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
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
    ProfilerFailed {
        /// Why.
        reason: ProfilerError,
    },
    /// Programs are not written to [`Options::store_directory`], or no more. Reported once for each engine.
    StoreFailed {
        /// Why.
        reason: StoreError,
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
            Event::ProfilerFailed { reason } => write!(f, "profilers don't see shaders: {reason}"),
            Event::StoreFailed { reason } => write!(f, "programs are not kept for the next start: {reason}"),
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
    /// Threads that compile in the background, so that nobody who runs shaders waits for code: a shader is interpreted until its
    /// code is there, batches run one by one, and what comes out is the same. One is enough for any game; more than 64 are 64.
    /// With 0 whoever first wants code makes it.
    pub threads: usize,
    /// Where native code is kept, on a system with rules of its own; pages that picajit maps if there is nothing else.
    pub memory: Option<Arc<dyn ExecutableMemory>>,
    /// Which profiler is told of native code, so that it shows shaders by name.
    pub profiler: Profiler,
    /// Where programs are written that were asked for and not known, a small file for each; made if it is not there. An engine
    /// writes none where it knows of 4096. [`Engine::preload`] has their code made before they are asked for again.
    /// [Threads](Options::threads) write them if there are any, and else who asks. A host with several games names a directory for
    /// each. `None`: nothing is written, nor by a build without native code.
    pub store_directory: Option<PathBuf>,
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
            threads: 0,
            memory: None,
            profiler: Profiler::None,
            store_directory: None,
            // Who reads there may have gone, which must not end a run.
            events: Arc::new(|event| drop(writeln!(io::stderr(), "picajit: {event}"))),
        }
    }
}

/// Compiles programs and keeps what it has compiled.
pub struct Engine {
    /// First, so that its threads have ended before anything that they use goes.
    background: Background,
    options: Options,
    /// What makes native code. `None` if it was not asked for.
    maker: Option<Arc<Maker>>,
    cache: Arc<Mutex<Cache<Arc<Compiled>>>>,
    recent: Mutex<KeyMemo>,
    /// Where programs are written. `None` if that was not asked for.
    kept: Option<Arc<ProgramStore>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is whole after every statement, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// An engine. Always succeeds: without native code it interprets, and without threads whoever asks compiles.
    pub fn new(options: Options) -> Engine {
        let wanted = options.backend == Prefer::Native;
        let background = Background::new(if wanted { options.threads } else { 0 });
        let native = wanted.then(|| native(&options, background.queue()));
        if options.profiler != Profiler::None && !matches!(native, Some(Ok(_))) {
            (options.events)(&Event::ProfilerFailed { reason: ProfilerError::NoNativeCode });
        }
        let maker = |native| Arc::new(Maker::new(native, background.queue().clone(), options.events.clone()));
        let maker = native.map(maker);
        let kept =
            options.store_directory.clone().map(|path| Arc::new(ProgramStore::new(path, options.events.clone())));
        let cache = Arc::new(Mutex::new(Cache::new(options.cache_bytes)));
        Engine { maker, cache, recent: Mutex::default(), kept, background, options }
    }

    /// The shader of `entry` in `program`: found in the cache, or compiled, now or by threads in the
    /// [background](Options::threads). The lookup explores the program (some microseconds): keep the shader until code,
    /// descriptors or entry change.
    pub fn shader(&self, program: &Program, entry: Entry) -> Shader {
        self.shader_on(program, entry, false)
    }

    /// The same for runs on [`Unit`] and [`Uniforms`]: it copies nothing there, also if the engine was made for a host's
    /// layout.
    pub fn own_shader(&self, program: &Program, entry: Entry) -> Shader {
        self.shader_on(program, entry, true)
    }

    fn shader_on(&self, program: &Program, entry: Entry, own: bool) -> Shader {
        let config = self.config(own);
        let key = self.key(program, entry, own, config);
        let known = lock(&self.cache).get(&key);
        if let Some(compiled) = known {
            self.ask(&compiled, &key);
            return Shader(compiled);
        }
        let compiled = self.unknown(program, &key, config);
        self.ask(&compiled, &key);
        if let Some(kept) = self.kept() {
            // Behind the code, which is what somebody waits for.
            kept.keep(key, own, self.background.queue());
        }
        Shader(compiled)
    }

    /// What the cache has it under.
    fn key(&self, program: &Program, entry: Entry, own: bool, config: Config) -> ShaderKey {
        let hash = key_memo::hash(program, entry, own);
        let known = lock(&self.recent).key(hash, program, entry, own);
        known.unwrap_or_else(|| {
            let key = ShaderKey::new(program, entry, config);
            lock(&self.recent).remember(hash, program.clone(), entry, own, key.clone());
            key
        })
    }

    /// Who keeps programs, if anybody. Nobody in a build that compiles nothing, which then need not have what it takes.
    fn kept(&self) -> Option<&Arc<ProgramStore>> {
        if cfg!(feature = "jit") { self.kept.as_ref() } else { None }
    }

    /// Somebody asks for a shader of the cache. If nobody has before, its code may be unmade, or far behind in a row of others.
    fn ask(&self, compiled: &Arc<Compiled>, key: &ShaderKey) {
        if !compiled.ask() {
            return;
        }
        let (cache, known) = (self.cache.clone(), key.clone());
        if !compiled.make_later(move |compiled| lock(&cache).resize(&known, compiled.held_bytes())) {
            compiled.make();
            lock(&self.cache).resize(key, compiled.held_bytes());
        }
    }

    /// What shaders are made with, for runs on [`Unit`] and [`Uniforms`] or on a host's memory.
    fn config(&self, own: bool) -> Config {
        let Options { precision, fuel, layout, .. } = self.options;
        Config { precision, fuel, layout: layout.filter(|_| !own) }
    }

    /// A shader of which nothing is made yet.
    fn new_shader(&self, program: &Program, entry: Entry, config: Config) -> Arc<Compiled> {
        let every = self.options.crosscheck;
        let check = (every > 0 && self.maker.is_some()).then(|| Crosscheck::new(every, self.options.events.clone()));
        Arc::new(Compiled::new(program.clone(), entry, config, self.maker.clone(), check))
    }

    /// One that was not in the cache, and now is. With threads its code is left unmade.
    fn unknown(&self, program: &Program, key: &ShaderKey, config: Config) -> Arc<Compiled> {
        let compiled = self.new_shader(program, key.entry(), config);
        if !self.background.queue().open() {
            // Not under the lock: other threads go on. If two compile the same, the first to finish is kept.
            compiled.make();
        }
        lock(&self.cache).insert(key.clone(), compiled.clone(), compiled.held_bytes())
    }

    /// Returns when all shaders that were asked for or [preloaded](Engine::preload) are compiled, with all code that their runs have
    /// asked for, and all programs that are [kept](Options::store_directory) are written; at once where nothing is done in the
    /// [background](Options::threads), and on the threads that do it, which events come on.
    pub fn wait(&self) {
        self.background.queue().wait();
    }

    /// Why no shader of this engine is native, if that is so and native code was preferred.
    pub fn no_native(&self) -> Option<&Unsupported> {
        self.maker.as_ref().and_then(|maker| maker.backend.as_ref().err())
    }

    /// What the cache has done and holds.
    pub fn cache_stats(&self) -> CacheStats {
        lock(&self.cache).stats()
    }

    /// Drops all cached kernels; shaders that are held stay usable.
    pub fn clear(&self) {
        lock(&self.cache).clear();
        lock(&self.recent).clear();
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new(Options::default())
    }
}

#[cfg(feature = "jit")]
fn native(options: &Options, queue: &Queue) -> Result<Arc<dyn Backend>, Unsupported> {
    use crate::jit::{HostServices, Jit, Settings, Variant};
    let settings = Settings { profiler: options.profiler.clone(), ..Settings::default() };
    let lent = HostServices { queue: Some(queue.clone()), memory: options.memory.clone() };
    let jit = Jit::hosted(Variant::Batch, settings, lent, Arc::new(Interp))?;
    let events = options.events.clone();
    jit.on_profiler_error(move |reason| events(&Event::ProfilerFailed { reason: reason.clone() }));
    Ok(Arc::new(jit))
}

#[cfg(not(feature = "jit"))]
fn native(_: &Options, _: &Queue) -> Result<Arc<dyn Backend>, Unsupported> {
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
        if let Some(check) = self.0.check().filter(|check| check.due()) {
            check.once(&self.0, uniforms, unit);
        }
        self.0.kernel().run(uniforms, unit, emitter)
    }

    /// Runs the vertices of `batch` one after the other on `unit`; see [`Kernel::run_batch`](crate::kernel::Kernel::run_batch).
    #[inline]
    pub fn run_batch(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> Exit {
        if batch.len() == 1 && !batch.preserve_unit {
            let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
            copy_registers(taken, batch.inputs.registers(), &mut unit.v);
            let exit = self.run(uniforms, unit);
            copy_registers(wanted, unit.outputs(), batch.outputs.registers());
            return exit;
        }
        self.run_many(uniforms, unit, batch)
    }

    fn run_many(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> Exit {
        if let Some(check) = self.0.check() {
            check.batch(&self.0, uniforms, unit, batch);
        }
        self.0.kernel().run_batch(uniforms, unit, batch, &mut NoEmitter)
    }

    /// [`Shader::run_geometry`], which is [`Shader::run`] too, on a host's memory. Nothing is copied if the engine was made
    /// for its layout and the shader is native.
    pub fn run_on(&self, host: &Host<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if let Some(check) = self.0.check().filter(|check| check.due()) {
            let (unit, uniforms) = host.load();
            check.once(&self.0, &uniforms, &unit);
        }
        self.0.kernel().run_on(host, emitter)
    }

    /// [`Shader::run_batch`] on a host's memory.
    pub fn run_batch_on(&self, host: &Host<'_>, batch: &mut Batch<'_>) -> Exit {
        if let Some(check) = self.0.check() {
            let (unit, uniforms) = host.load();
            check.batch(&self.0, &uniforms, &unit, batch);
        }
        self.0.kernel().run_batch_on(host, batch, &mut NoEmitter)
    }

    /// Compiles it here and now, if that is to be done in the [background](Options::threads) and has not been.
    pub fn compile_now(&self) {
        self.0.make();
    }

    /// Who runs it now: `lanes` or `interp`.
    pub fn backend(&self) -> &'static str {
        self.0.backend()
    }

    /// The layout that its engine was made for.
    pub fn layout(&self) -> Option<&Layout> {
        self.0.kernel().layout()
    }

    /// Why it is not native, if native code was preferred. `None` too while it may still become so.
    pub fn fallback_reason(&self) -> Option<&Unsupported> {
        self.0.reason()
    }

    /// What its runs have met so far, over all threads.
    pub fn stats(&self) -> KernelStats {
        self.0.kernel().stats()
    }

    /// Bytes of native code.
    pub fn native_bytes(&self) -> usize {
        self.0.kernel().native_bytes()
    }

    /// The first difference that a crosscheck has found, in words.
    pub fn divergence(&self) -> Option<String> {
        self.0.check().and_then(Crosscheck::found)
    }

    /// Whether both are the same compiled shader.
    pub fn same_as(&self, other: &Shader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests;
