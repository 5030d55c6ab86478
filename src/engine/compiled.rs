//! One entry of a program -> the kernel that runs it: native code once compiled, tier 0 before that
//! and as fallback.
//!
//! Invariant: every kernel gives the same bits, and published native code stays. This file must not
//! depend on how the cache finds it.

use super::compiler::Compiler;
use super::crosscheck::{Crosscheck, Pair, Tested};
use super::{BackendChoice, Tier};
use crate::background::{Hotness, Lazy, Priority};
use crate::cache::{Exploration, ShaderKey};
use crate::interp::{Interp, InterpKernel};
use crate::isa::INT_UNIFORMS;
use crate::kernel::direct::DirectCode;
use crate::kernel::{Backend, Config, Kernel, NextKernel, Unsupported};
use crate::program::{Entry, Program};
use crate::tier0::{Tier0, Tier0Kernel};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The result of compiling a shader.
enum Native {
    Code(Arc<dyn Kernel>),
    Unsupported(Unsupported),
    /// The host wants no native code.
    NotWanted,
}

/// Called with the bytes that a shader occupies, once it is compiled.
pub(super) type Resized = Box<dyn Fn(usize) + Send + Sync>;

/// The state of a [`Shader`](super::Shader). Aligned, so that no two reference counts share a cache
/// line.
// `repr(C)`: a run touches the first field only, and finds it at the address of the whole.
#[repr(C, align(64))]
pub(crate) struct Compiled {
    /// Empty while there is no native code, and for good if runs are crosschecked.
    direct: DirectCode,
    key: ShaderKey,
    pub(super) entry: Entry,
    program: Arc<Program>,
    config: Config,
    compiler: Arc<Compiler>,
    /// Whether the engine has returned this shader to a caller.
    requested: AtomicBool,
    /// Vertices that ran before there was native code.
    hotness: Hotness,
    native: Lazy<Native>,
    resized: Resized,
    tier0: OnceLock<Tier0Kernel>,
    oracle: OnceLock<InterpKernel>,
    independent: OnceLock<bool>,
    crosscheck: Option<Crosscheck>,
}

impl Compiled {
    /// See [`Shader::gpu_code`](super::Shader::gpu_code).
    #[cfg(feature = "gpu-code")]
    pub(super) fn gpu_code(
        &self,
        interface: &crate::gpu_code::Interface,
        device: &crate::gpu_code::Device,
    ) -> Result<crate::gpu_code::GpuCode, crate::gpu_code::NoGpuCode> {
        crate::gpu_code::GpuCode::new(&self.program, self.entry, &self.config, interface, device)
    }

    /// A shader that is not compiled yet.
    pub(super) fn new(
        program: Program,
        key: ShaderKey,
        config: Config,
        compiler: Arc<Compiler>,
        crosscheck: Option<Crosscheck>,
        resized: Resized,
    ) -> Compiled {
        let (requested, hotness, native, tier0, oracle, independent) = Default::default();
        Compiled {
            direct: DirectCode::new(config.layout),
            entry: key.entry(),
            key,
            program: Arc::new(program),
            config,
            compiler,
            requested,
            hotness,
            native,
            resized,
            tier0,
            oracle,
            independent,
            crosscheck,
        }
    }

    /// Makes the shader ready for its first run, on this thread: compiles it from its graph if
    /// lookups do that, and otherwise decodes it for tier 0. A later compilation explores the program
    /// again: a graph is larger than all else that a shader holds, and many shaders are never compiled.
    pub(super) fn prepare(&self, graph: Exploration) {
        if !self.compiler.compiles_at_lookup() {
            self.decode(&graph);
            if self.crosscheck().is_some() {
                self.oracle();
            }
            return;
        }
        if graph.is_err() || self.compiler.name().is_none() {
            // No native code follows.
            self.prepare_without_native(&graph);
        }
        self.compile(Some(graph));
    }

    /// On the first request of a caller, queues the compilation. Reports a fallback if lookups
    /// compile: then [`Compiled::prepare`] has compiled the shader.
    pub(super) fn request(self: &Arc<Compiled>) {
        if self.requested.load(Ordering::Relaxed) || self.requested.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.native.get().is_some() {
            self.compile(None);
        } else if let Some(queue) = self.compiler.queue() {
            self.native.request(self, Some((queue, Priority::TierUp(&self.hotness))), |compiled| {
                compiled.compile(None);
            });
        }
    }

    /// Compiles the shader on this thread, unless it is compiled. Of concurrent callers one
    /// compiles and the others wait.
    pub(super) fn compile_now(&self) {
        self.compile(None);
    }

    /// [`Compiled::compile_now`], from the graph if there is one.
    fn compile(&self, graph: Option<Exploration>) {
        let mut is_new = false;
        let native = self.native.get_or_init(|| {
            is_new = true;
            match self.compiler.compile(graph, &self.program, self.entry, &self.config) {
                Some(Ok(code)) => Native::Code(code),
                Some(Err(reason)) => Native::Unsupported(reason),
                None => Native::NotWanted,
            }
        });
        self.publish();
        // Runs will need these. Created here, the cache counts them.
        if self.crosscheck().is_some() {
            self.oracle();
        }
        if !matches!(native, Native::Code(_)) {
            self.without_native();
        }
        if is_new {
            (self.resized)(self.held_bytes());
        }
        if let Native::Unsupported(reason) = native
            // `prepare` comes before the first request, which comes here again.
            && self.requested.load(Ordering::Relaxed)
        {
            // Outside `get_or_init`: the handler may request this very shader.
            self.compiler.report(self.entry, reason);
        }
    }

    /// Publishes the code that serves a run now. A run that deoptimised may have changed which.
    pub(super) fn publish(&self) {
        if self.crosscheck().is_none()
            && let Some(Native::Code(kernel)) = self.native.get()
        {
            self.direct.publish(kernel);
        }
    }

    /// [`Compiled::publish`] after a run that direct code did not serve.
    pub(super) fn republish(&self) {
        if self.direct.get().is_some() {
            self.publish();
        }
    }

    /// Whether its entry in a program of these words is this shader.
    pub(crate) fn serves(&self, code: &[u32], opdescs: &[u32], entry: Entry) -> bool {
        self.key.is_of(code, opdescs, entry)
    }

    /// The words, entry and options that it is compiled from.
    pub(crate) fn source(&self) -> (&Program, Entry, &Config) {
        (&self.program, self.entry, &self.config)
    }

    /// The code that a run calls without its kernel.
    #[inline]
    pub(crate) fn direct(&self) -> &DirectCode {
        &self.direct
    }

    /// The crosscheck of its runs, if there is one. Always `None` in a build without native code,
    /// which then omits the comparison.
    #[inline]
    pub(super) fn crosscheck(&self) -> Option<&Crosscheck> {
        if cfg!(any(feature = "jit", test)) { self.crosscheck.as_ref() } else { None }
    }

    /// The kernels that a crosscheck compares: the one that serves the next run, and the oracle.
    pub(super) fn pair(&self) -> Pair<'_> {
        let layout = self.native().and(self.config.layout);
        let tested = Tested { first: self.serving(), next: self, layout };
        Pair { tested, name: self.backend(), oracle: self.oracle() }
    }

    /// The kernel that serves the next run, which has this many vertices.
    #[inline]
    pub(super) fn first_kernel(&self, vertices: usize) -> &dyn Kernel {
        match self.native.get() {
            Some(Native::Code(native)) => &**native,
            Some(_) => self.without_native(),
            None => self.kernel_of_uncompiled(vertices),
        }
    }

    /// [`Compiled::first_kernel`] of a shader that is not compiled. Compiles one that is hot enough, if
    /// no thread does: there is none, or they have ended with their engine. A cancelled run ends soon,
    /// so it compiles nothing.
    #[cold]
    #[inline(never)]
    fn kernel_of_uncompiled(&self, vertices: usize) -> &dyn Kernel {
        let vertices = u32::try_from(vertices).unwrap_or(u32::MAX);
        let total = self.hotness.add(vertices).saturating_add(vertices);
        let may_compile = self.compiler.queue().is_none() && !self.compiler.cancel_flag().is_set();
        if total >= self.compiler.compile_after() && may_compile {
            self.compile(None);
        }
        self.serving()
    }

    /// The kernel that serves now.
    pub(super) fn serving(&self) -> &dyn Kernel {
        self.native().unwrap_or_else(|| self.without_native())
    }

    fn native(&self) -> Option<&dyn Kernel> {
        match self.native.get()? {
            Native::Code(native) => Some(&**native),
            Native::Unsupported(_) | Native::NotWanted => None,
        }
    }

    /// The kernel that serves while there is no native code, and the runs that it leaves.
    #[inline]
    fn without_native(&self) -> &dyn Kernel {
        match self.compiler.choice() {
            BackendChoice::Oracle => self.oracle(),
            _ => self.tier0(),
        }
    }

    /// Creates the kernel of [`Compiled::without_native`].
    fn prepare_without_native(&self, graph: &Exploration) {
        match self.compiler.choice() {
            BackendChoice::Oracle => _ = self.oracle(),
            _ => self.decode(graph),
        }
    }

    #[inline]
    fn tier0(&self) -> &Tier0Kernel {
        let kernel = || Tier0::default().kernel_of_entry(&self.program, self.entry, &self.config);
        self.tier0.get_or_init(|| kernel().cancelled_by(self.compiler.cancel_flag()))
    }

    /// Creates the kernel of [`Compiled::tier0`].
    fn decode(&self, graph: &Exploration) {
        let kernel = || Tier0::default().kernel(graph.as_ref().ok(), &self.program, self.entry, &self.config);
        self.tier0.get_or_init(|| kernel().cancelled_by(self.compiler.cancel_flag()));
    }

    fn oracle(&self) -> &dyn Kernel {
        self.oracle.get_or_init(|| self.new_oracle())
    }

    /// An oracle for one run.
    pub(crate) fn new_oracle(&self) -> InterpKernel {
        Interp.kernel(&self.program, self.entry, &self.config).cancelled_by(self.compiler.cancel_flag())
    }

    /// Whether vertices that end can run in any order, as tier 0 knows of any program. The first
    /// call analyses the program.
    pub(super) fn has_independent_vertices(&self) -> bool {
        *self.independent.get_or_init(|| self.tier0().has_independent_vertices())
    }

    /// Whether each run with these integer uniforms reaches an END before it has executed `limit` words, on
    /// any tier.
    #[cfg(feature = "gpu-code")]
    pub(super) fn always_ends(&self, ints: &[[u8; 4]; INT_UNIFORMS], limit: u32) -> bool {
        self.tier0().always_ends() && self.most_words(ints) <= limit.min(self.config.fuel).into()
    }

    /// The most words that a run with these integer uniforms, and no more than the default fuel,
    /// executes, on any tier.
    pub(super) fn most_words(&self, ints: &[[u8; 4]; INT_UNIFORMS]) -> u64 {
        self.tier0().most_words(ints)
    }

    /// The name of the backend that serves the next run.
    pub(super) fn backend(&self) -> &'static str {
        match self.tier() {
            Tier::Native => self.compiler.name().expect("it compiled this"),
            Tier::Oracle => Interp.name(),
            Tier::Tier0 => Tier0::default().name(),
        }
    }

    /// What serves the next run.
    pub(super) fn tier(&self) -> Tier {
        match (self.native(), self.compiler.choice()) {
            (Some(_), _) => Tier::Native,
            (None, BackendChoice::Oracle) => Tier::Oracle,
            (None, _) => Tier::Tier0,
        }
    }

    /// Why there is no native code although the host wants it.
    pub(super) fn fallback_reason(&self) -> Option<&Unsupported> {
        match self.native.get()? {
            Native::Unsupported(reason) => Some(reason),
            Native::Code(_) | Native::NotWanted => None,
        }
    }

    /// Bytes of memory it occupies.
    pub(super) fn held_bytes(&self) -> usize {
        let native = self.native().map_or(0, |native| native.held_bytes());
        let tier0 = self.tier0.get().map_or(0, |kernel| kernel.held_bytes());
        let oracle = self.oracle.get().map_or(0, |kernel| kernel.held_bytes());
        // Native code shares the program and counts it.
        native.max(self.program.bytes()) + tier0 + oracle
    }
}

impl NextKernel for Compiled {
    fn kernel(&self) -> &dyn Kernel {
        self.without_native()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(Native::Code(_)) = self.native.get() {
            self.compiler.forget_refusal();
        }
    }
}
