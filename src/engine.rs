//! Programs -> [`Shader`]s, compiled once each and cached. An emulator creates one [`Engine`] and
//! uses it from all threads.
//!
//! | to | use |
//! |---|---|
//! | run vertices, or geometry invocations | [`Shader::run_batch`], [`Shader::run_geometry`] |
//! | run in the host's register memory | [`Options::layout`], [`Shader::run_batch_on`] |
//! | keep compilation off the emulation thread | [`Options::threads`] |
//! | find out why a shader is slow | [`Shader::fallback_reason`], [`Shader::stats`] |
//! | test for bugs in picajit | [`Options::crosscheck`] |
//!
//! A new shader starts on tier 0, the fast interpreter, and goes on in native code once that is
//! compiled. Where there can be none, it stays on tier 0. Results never depend on the tier. Each
//! reason for such a fallback is reported once as an [`Event`].
//!
//! Engines and shaders are `Sync`; one [`Unit`](crate::state::Unit) belongs to one thread at a
//! time.

mod compiled;
mod compiler;
mod crosscheck;
mod direct_call;
mod shader;

use crate::background::{Background, Queue};
use crate::cache::{Cache, CacheStats, Exploration, ShaderKey, Upload, graph};
use crate::executable::ExecutableMemory;
use crate::isa::Stage;
use crate::isa::numeric::Precision;
pub(crate) use crate::kernel::cancel::CancelFlag;
use crate::kernel::default_fuel;
pub(crate) use crate::kernel::most_words;
pub use crate::kernel::{Config, KernelStats, Unsupported};
use crate::layout::Layout;
use crate::profiler::{Profiler, ProfilerError};
use crate::program::{Entry, Program};
pub(crate) use compiled::Compiled;
use compiler::{Compiler, NativeCompiler};
use crosscheck::Crosscheck;
pub use direct_call::{DirectCall, DirectCallFn};
#[cfg(feature = "capi")]
pub(crate) use direct_call::{borrow, host};
pub use shader::Shader;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The tiers that an engine may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendChoice {
    /// Tier 0, and native code once it is compiled. Where it is impossible, tier 0 stays, and an
    /// [`Event`] says why.
    #[default]
    NativePreferred,
    /// Native code from the first run on: a lookup compiles the shader before it returns, with
    /// [threads](Options::threads) or without. [`Engine::try_shader`] returns an error where native
    /// code is impossible.
    NativeRequired,
    /// Tier 0 only, for systems that allow no executable memory. No event says so.
    NoNative,
    /// The oracle only: many times slower than tier 0, with the same results. For comparisons.
    Oracle,
}

/// What serves the runs of a shader now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The fast interpreter.
    Tier0,
    /// Native code.
    Native,
    /// The oracle, because [`BackendChoice::Oracle`] says so.
    Oracle,
}

/// A problem that a host should log. No event changes a result, and none stops a run. Its text is for
/// a log:
/// ```
/// # use picajit::{Entry, engine::{Event, Unsupported}};
/// let (entry, reason) = (Entry::vertex(4), Unsupported::NoGeometry);
/// let text = Event::Fallback { entry, reason }.to_string();
/// assert!(text.starts_with("the vertex shader at 4 runs on tier 0: "));
/// ```
#[derive(Clone, Debug)]
pub enum Event {
    /// A shader stays on tier 0 although the host wants native code. Its results are the same, and
    /// its runs slower. Reported once for each kind of reason.
    Fallback {
        /// The entry of the first such shader.
        entry: Entry,
        /// Why it has no native code.
        reason: Unsupported,
    },
    /// A [crosscheck](Options::crosscheck) found a difference from the oracle: a bug in picajit. Reported once for each shader.
    Divergence {
        /// The entry of the shader.
        entry: Entry,
        /// The first difference, as text.
        difference: String,
    },
    /// The [profiler](Options::profiler) does not receive the shaders compiled from now on.
    /// Reported once for each engine.
    ProfilerFailed {
        /// The cause.
        reason: ProfilerError,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Fallback { entry, reason } => {
                write!(f, "the {} shader at {} runs on tier 0: {reason}", entry.stage, entry.pc)
            }
            Event::Divergence { entry, difference } => {
                write!(f, "the {} shader at {} differs from the oracle: {difference}", entry.stage, entry.pc)
            }
            Event::ProfilerFailed { reason } => write!(f, "profilers don't see shaders: {reason}"),
        }
    }
}

/// Receives events, on the thread that causes them. It may use the engine.
pub type EventHandler = Arc<dyn Fn(&Event) + Send + Sync>;

/// The configuration of an [`Engine`].
///
/// A host that logs events, gives runs less fuel, and lets one thread compile:
/// ```
/// use picajit::engine::{Engine, Event, Options};
/// use std::sync::{Arc, Mutex};
///
/// let log = Arc::new(Mutex::new(Vec::new()));
/// let to = log.clone();
/// let engine = Engine::new(Options {
///     fuel: 10_000,
///     threads: 1,
///     // Any thread may call it.
///     events: Arc::new(move |event: &Event| to.lock().unwrap().push(event.to_string())),
///     ..Options::default()
/// });
/// engine.wait();
/// assert!(log.lock().unwrap().is_empty());
/// ```
#[derive(Clone)]
pub struct Options {
    /// The tiers that serve shaders.
    pub backend: BackendChoice,
    /// Number format of results.
    pub precision: Precision,
    /// Words that one vertex run may execute. A run that has executed more ends at its next backward
    /// jump, return or iteration with [`Exit::Fuel`](crate::state::Exit::Fuel), and ends its batch.
    /// So it executes at most as many words as its fuel, and once more those of the program.
    pub fuel: u32,
    /// The same of one geometry invocation, which may draw a whole screen.
    pub geometry_fuel: u32,
    /// Compare every Nth run with the oracle, and report differences as [`Event::Divergence`]; 0
    /// compares none. A compared run costs as much as two runs of the oracle. In a batch, 16 vertices
    /// from the Nth on are compared, so that code for groups is tested too.
    pub crosscheck: u32,
    /// The host's layout of registers and uniforms: [`Shader::run_on`] and [`Shader::run_batch_on`]
    /// run in place on memory of this layout. With `None`, these functions copy registers and
    /// uniforms to a [`Unit`](crate::state::Unit) and [`Uniforms`](crate::state::Uniforms), and
    /// registers back.
    pub layout: Option<Layout>,
    /// Limit on the bytes of cached shaders. The least recently used ones are evicted.
    pub cache_bytes: usize,
    /// Number of threads that compile in the background; values above 64 count as 64. With threads,
    /// no run waits for compilation: tier 0 serves a shader until its code is published. The
    /// threads compile the shader first that has run the most vertices, and code for batches after
    /// the first code of all shaders. One thread is enough for any game. With 0, runs compile; see
    /// [`Options::compile_after`].
    pub threads: usize,
    /// Without [threads](Options::threads), the number of vertices at which a shader is compiled:
    /// the run that reaches it compiles first, and earlier ones use tier 0. With 0 a lookup compiles
    /// a new shader before it returns. Threads need no such number.
    pub compile_after: u32,
    /// The source of executable memory, for systems that restrict it. With `None`, picajit maps
    /// pages.
    pub memory: Option<Arc<dyn ExecutableMemory>>,
    /// The profiler that receives the names and addresses of native code.
    pub profiler: Profiler,
    /// Receives events. The default prints them to standard error.
    pub events: EventHandler,
}

/// The default of [`Options::compile_after`].
pub const DEFAULT_COMPILE_AFTER: u32 = 4096;

impl Default for Options {
    fn default() -> Options {
        Options {
            backend: BackendChoice::default(),
            precision: Precision::default(),
            fuel: default_fuel(Stage::Vertex),
            geometry_fuel: default_fuel(Stage::Geometry),
            crosscheck: 0,
            layout: None,
            cache_bytes: 64 << 20,
            threads: 0,
            compile_after: DEFAULT_COMPILE_AFTER,
            memory: None,
            profiler: Profiler::None,
            // A closed standard error must not end a run.
            events: Arc::new(|event| drop(writeln!(io::stderr(), "picajit: {event}"))),
        }
    }
}

/// Compiles programs and caches the shaders.
///
/// ```
/// use picajit::{Engine, Entry, Exit, Program, Uniforms, Unit};
///
/// let engine = Engine::default();
/// // `mul o0, c5, v0`, `end`, and their descriptor.
/// let program = Program::from_words(&[0x2002_5000, 0x8800_0000], &[0x6_C36F])?;
/// let shader = engine.shader(&program, Entry::vertex(0));
/// let (mut unit, mut uniforms) = (Unit::new(), Uniforms::default());
/// unit.v[0] = [1.0, 2.0, 3.0, 4.0];
/// uniforms.c[5] = [0.5; 4];
/// assert_eq!(shader.run(&uniforms, &mut unit), Exit::End);
/// assert_eq!(unit.outputs()[0], [0.5, 1.0, 1.5, 2.0]);
/// // The same words give the same shader.
/// engine.shader(&program, Entry::vertex(0));
/// assert_eq!((engine.cache_stats().hits, engine.cache_stats().misses), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    /// The first field: its threads end before the fields that they use are dropped.
    background: Background,
    options: Options,
    compiler: Arc<Compiler>,
    cache: Arc<Cache<Arc<Compiled>>>,
    /// Shared by all code and kernels.
    cancel: CancelFlag,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded values are consistent after every statement, so a panic elsewhere leaves them
    // valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// An engine. Never fails: without native code tier 0 serves all shaders;
    /// [`Engine::no_native`] says why.
    pub fn new(options: Options) -> Engine {
        let wants_native = matches!(options.backend, BackendChoice::NativePreferred | BackendChoice::NativeRequired);
        // Without native code there are no jobs. The tests have backends of their own.
        let has_jobs = cfg!(any(feature = "jit", test)) && wants_native;
        let background = Background::new(if has_jobs { options.threads } else { 0 });
        let cancel = CancelFlag::default();
        let native = wants_native.then(|| native(&options, background.queue(), &cancel));
        if options.profiler != Profiler::None && !matches!(native, Some(Ok(_))) {
            (options.events)(&Event::ProfilerFailed { reason: ProfilerError::NoNativeCode });
        }
        let compiler = Arc::new(Compiler::new(native, &options, background.queue().clone(), &cancel));
        let cache = Arc::new(Cache::new(options.cache_bytes));
        Engine { compiler, cache, background, options, cancel }
    }

    /// The number format of all results.
    pub(crate) fn precision(&self) -> Precision {
        self.options.precision
    }

    /// The shader of `entry` in `program`, from the cache or new. A new shader is ready to run on
    /// tier 0. It is compiled before this returns only if the [backend](Options::backend) or
    /// [`Options::compile_after`] says so.
    ///
    /// The same program and entry give the same shader, as a further reference. A lookup of a
    /// program that was looked up lately compares its words, takes no lock and allocates nothing:
    /// less than 0.2 us. Otherwise it explores the words that `entry` reaches, in 1 to 70 us for
    /// programs of 2 to 511 words. Unreachable words don't matter, so leftovers of earlier uploads
    /// cause no recompilation. Keep the shader until code, descriptors or entry change.
    pub fn shader(&self, program: &Program, entry: Entry) -> Shader {
        self.shader_on(program, entry, false)
    }

    /// [`Engine::shader`] for a host that requires native code: with
    /// [`BackendChoice::NativeRequired`] fails if the shader has none. Otherwise never fails.
    pub fn try_shader(&self, program: &Program, entry: Entry) -> Result<Shader, Unsupported> {
        let shader = self.shader(program, entry);
        match shader.fallback_reason().filter(|_| self.options.backend == BackendChoice::NativeRequired) {
            Some(reason) => Err(reason.clone()),
            None => Ok(shader),
        }
    }

    /// [`Engine::shader`] for runs on [`Unit`](crate::state::Unit) and
    /// [`Uniforms`](crate::state::Uniforms): these then copy nothing, even if the engine has a
    /// [layout](Options::layout).
    pub fn own_shader(&self, program: &Program, entry: Entry) -> Shader {
        self.shader_on(program, entry, true)
    }

    fn shader_on(&self, program: &Program, entry: Entry, on_unit: bool) -> Shader {
        let upload = Upload::new(program.code(), program.opdescs(), entry, on_unit);
        match self.cache.find(&upload) {
            Some(compiled) => Shader(compiled),
            None => self.shader_of_unknown(&upload, program, entry, on_unit),
        }
    }

    /// [`Engine::shader`] or [`Engine::own_shader`] of uploaded words, if they are known. Calls no
    /// function of the host.
    #[inline]
    pub(crate) fn known_shader(&self, code: &[u32], opdescs: &[u32], entry: Entry, on_unit: bool) -> Option<Shader> {
        self.cache.find(&Upload::new(code, opdescs, entry, on_unit)).map(Shader)
    }

    /// The shader of an unknown upload, from the cache or new.
    #[cold]
    #[inline(never)]
    fn shader_of_unknown(&self, upload: &Upload<'_>, program: &Program, entry: Entry, on_unit: bool) -> Shader {
        let config = self.config(entry.stage, on_unit);
        let (key, explored) = ShaderKey::explore(program, entry, config);
        let cached = self.cache.get(&key);
        let compiled = cached.unwrap_or_else(|| self.insert_new(program, &key, config, explored.and_then(graph)));
        compiled.request();
        // After the request, so that known uploads lead to requested shaders only.
        self.cache.memorise(upload, &key);
        Shader(compiled)
    }

    /// The configuration of shaders that run on [`Unit`](crate::state::Unit) and
    /// [`Uniforms`](crate::state::Uniforms), or on the host's layout.
    fn config(&self, stage: Stage, on_unit: bool) -> Config {
        let Options { precision, layout, .. } = self.options;
        let fuel = match stage {
            Stage::Vertex => self.options.fuel,
            Stage::Geometry => self.options.geometry_fuel,
        };
        Config { precision, fuel, layout: layout.filter(|_| !on_unit) }
    }

    /// A shader that is not compiled yet.
    fn new_shader(&self, program: &Program, key: &ShaderKey, config: Config) -> Arc<Compiled> {
        let Options { crosscheck, ref events, .. } = self.options;
        let checks = crosscheck > 0 && self.options.backend != BackendChoice::Oracle;
        let crosscheck = checks.then(|| Crosscheck::new(key.entry(), crosscheck, events.clone(), &self.cancel));
        let (cache, of) = (Arc::downgrade(&self.cache), key.clone());
        let resized = move |bytes| {
            if let Some(cache) = cache.upgrade() {
                cache.resize(&of, bytes);
            }
        };
        let compiler = self.compiler.clone();
        let program = program.clone();
        Arc::new(Compiled::new(program, key.clone(), config, compiler, crosscheck, Box::new(resized)))
    }

    /// Adds a new shader to the cache, ready to run. If another thread has added one for this key
    /// since the lookup, returns that one.
    fn insert_new(&self, program: &Program, key: &ShaderKey, config: Config, graph: Exploration) -> Arc<Compiled> {
        let compiled = self.new_shader(program, key, config);
        // Outside the lock, so that other threads' lookups don't wait.
        compiled.prepare(graph);
        self.cache.insert(key.clone(), compiled.clone(), compiled.held_bytes())
    }

    /// Blocks until the [threads](Options::threads) are idle: all requested shaders are compiled,
    /// with the batch code that runs have requested. Returns at once if there are no threads, and
    /// on one of these threads, as in an event handler.
    pub fn wait(&self) {
        self.background.queue().wait();
    }

    /// Why this engine compiles no native code now, although the host wants it. After a refusal of
    /// executable memory no compilation begins, until a shader with native code is dropped, or
    /// [`Engine::clear`].
    pub fn no_native(&self) -> Option<Unsupported> {
        self.compiler.no_native()
    }

    /// Whether shaders of this engine may have native code now.
    #[cfg(feature = "capi")]
    pub(crate) fn has_native(&self) -> bool {
        self.compiler.name().is_some() && self.compiler.no_native().is_none()
    }

    /// Compilations that wait for a thread or run on one.
    #[cfg(feature = "capi")]
    pub(crate) fn unfinished_compilations(&self) -> usize {
        self.background.queue().unfinished()
    }

    /// Counters of the cache.
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Ends what runs on this engine's shaders, on all threads, until [`Engine::resume`]. From any
    /// thread; for hosts that stop or reset the guest while another thread runs it.
    ///
    /// Runs notice at their next backward transfer, batches and draws also between vertices, command
    /// lists also between writes, in some milliseconds. A run that compiles code notices when that is
    /// compiled, and compiles no more: with [`Options::threads`] no run compiles. They end with
    /// [`Exit::Cancelled`](crate::state::Exit::Cancelled). So do later ones, except that a single
    /// run without a backward transfer may finish. The registers that they leave are unspecified. The
    /// engine stays usable, and so do its shaders, also after it is dropped: then no call resumes
    /// them.
    pub fn cancel(&self) {
        self.cancel.set(true);
    }

    /// Lets runs go on after [`Engine::cancel`]. Wait for the cancelled ones first: one that has not
    /// noticed goes on too.
    pub fn resume(&self) {
        self.cancel.set(false);
    }

    /// Whether [`Engine::cancel`] was called, and [`Engine::resume`] not since then.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_set()
    }

    /// The flag that [`Engine::cancel`] sets.
    pub(crate) fn cancel_flag(&self) -> &CancelFlag {
        &self.cancel
    }

    /// Empties the cache. Shaders that the host holds stay usable. If the system has refused
    /// executable memory, the next compilation tries again.
    pub fn clear(&self) {
        self.cache.clear();
        self.compiler.forget_refusal();
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new(Options::default())
    }
}

#[cfg(feature = "jit")]
fn native(options: &Options, queue: &Queue, cancel: &CancelFlag) -> Result<Arc<dyn NativeCompiler>, Unsupported> {
    use crate::jit::{HostServices, Jit, Settings, Variant};
    let settings = Settings { profiler: options.profiler.clone(), ..Settings::default() };
    let services = HostServices { queue: Some(queue.clone()), memory: options.memory.clone(), cancel: cancel.clone() };
    let jit = Jit::hosted(Variant::Batch, settings, services)?;
    let events = options.events.clone();
    jit.on_profiler_error(move |reason| events(&Event::ProfilerFailed { reason: reason.clone() }));
    Ok(Arc::new(jit))
}

#[cfg(not(feature = "jit"))]
fn native(_: &Options, _: &Queue, _: &CancelFlag) -> Result<Arc<dyn NativeCompiler>, Unsupported> {
    Err(Unsupported::HostIsa { missing: "the `jit` feature of this build" })
}

#[cfg(test)]
impl Options {
    /// Lookups compile.
    pub(crate) fn at_once() -> Options {
        Options { compile_after: 0, ..Options::default() }
    }
}

#[cfg(test)]
impl Engine {
    /// Replaces native code by kernels of another backend.
    fn set_backend(&mut self, backend: Arc<dyn NativeCompiler>) {
        let queue = self.background.queue().clone();
        self.compiler = Arc::new(Compiler::new(Some(Ok(backend)), &self.options, queue, &self.cancel));
    }
}

#[cfg(test)]
mod tests;
