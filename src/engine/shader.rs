//! A shader and the memory of a run -> a run on the engine that serves it now.
//!
//! Invariant: direct code comes first, and a kernel serves what direct code does not. This file
//! must not know how shaders are compiled or cached.

use super::Tier;
use super::compiled::Compiled;
use super::crosscheck::Crosscheck;
use crate::analysis::{Accesses, Analysis};
#[cfg(feature = "gpu-code")]
use crate::gpu_code::{Device, GpuCode, Interface, NoGpuCode};
use crate::isa::INT_UNIFORMS;
use crate::kernel::direct::Vertex;
use crate::kernel::{KernelStats, NextKernel, Unsupported};
use crate::layout::{HostEmitter, HostMemory, Layout};
use crate::program::Entry;
use crate::state::{Batch, BatchExit, Emitter, Exit, NoEmitter, Uniforms, Unit, Vertices, VerticesMut};
use std::sync::Arc;

/// One entry of a program, ready to run. Cheap to clone. Any number of threads may run it at once,
/// each on its own [`Unit`].
///
/// Single runs need a thread whose floating-point mode is the default: round to nearest, subnormals
/// preserved, no traps. On a thread of audio code that sets flush-to-zero their results differ;
/// debug builds panic. Batches and draws switch to the default mode for the time of the call.
///
/// ```
/// # use picajit::{Engine, Entry, Program, Uniforms, Unit};
/// # let engine = Engine::default();
/// // `mul o0, c5, v0`, `end`, in memory that holds more words: those are not compared.
/// let (code, opdescs) = ([0x2002_5000, 0x8800_0000, 0xFFFF_FFFF], [0x6_C36F]);
/// let shader = engine.shader(&Program::from_words(&code, &opdescs)?, Entry::vertex(0));
/// assert!(shader.serves(&code[..2], &opdescs, Entry::vertex(0)));
/// assert!(!shader.serves(&code, &[0], Entry::vertex(0)));
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| shader.run(&Uniforms::default(), &mut Unit::new()));
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Shader(pub(super) Arc<Compiled>);

impl Shader {
    /// Whether a run needs no kernel now.
    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        self.0.direct().get().is_some()
    }

    /// Runs one vertex on `unit`: inputs in `unit.v`, results in [`Unit::outputs`]. Vertices that a
    /// geometry program emits are dropped; see [`Shader::run_geometry`].
    #[inline]
    pub fn run(&self, uniforms: &Uniforms, unit: &mut Unit) -> Exit {
        self.run_geometry(uniforms, unit, &mut NoEmitter)
    }

    /// Runs one geometry invocation on `unit` and sends its triangles to `emitter`. After an
    /// invocation the hardware sets boolean uniform b15; the host must do so in its uniforms.
    #[inline]
    pub fn run_geometry(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        match self.0.direct().run_on(&HostMemory::of(uniforms, unit)) {
            Some(exit) => exit,
            None => self.run_by_kernel_on_unit(uniforms, unit, emitter),
        }
    }

    /// [`Shader::run_by_kernel`] on a unit.
    #[inline(never)]
    fn run_by_kernel_on_unit(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        HostMemory::with_unit(uniforms, unit, emitter, false, |memory, emitter| self.run_by_kernel(memory, emitter))
    }

    /// Runs the vertices of `batch`. The result is as if they ran in order on `unit`; see
    /// [`Kernel::run_batch_on`](crate::kernel::Kernel::run_batch_on).
    // Inlined, so that a batch of one never exists in memory.
    #[inline(always)]
    pub fn run_batch(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> BatchExit {
        match self.run_only_vertex(&HostMemory::of(uniforms, unit), batch) {
            Some(exit) => BatchExit { exit, ran: 1 },
            // Another borrow, so that the caller's batch may stay in registers.
            None => self.run_batch_by_kernel_on_unit(uniforms, unit, &mut batch.reborrow()),
        }
    }

    /// [`Shader::run_batch_by_kernel`] on a unit.
    #[inline(never)]
    fn run_batch_by_kernel_on_unit(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> BatchExit {
        HostMemory::with_unit(uniforms, unit, &mut NoEmitter, batch.preserve_unit, |memory, emitter| {
            self.run_batch_by_kernel(memory, batch, emitter)
        })
    }

    /// Runs a geometry invocation for each vertex of `inputs`, whose registers in `input_mask` it takes, all
    /// with the same uniforms. The result is as if they ran in order on `unit`; see
    /// [`Shader::run_geometry`]. Native code runs them in groups without
    /// [divergent branches](Analysis::divergent_branches) and [carried registers](Analysis::carried), or
    /// if all leave the same values in these; [`KernelStats::sequential_reason`] names the reason
    /// otherwise.
    #[inline(never)]
    pub fn run_geometry_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        inputs: Vertices<'_>,
        input_mask: u16,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        HostMemory::with_unit(uniforms, unit, emitter, false, |memory, emitter| {
            self.run_geometry_batch_on(memory, inputs, input_mask, emitter)
        })
    }

    /// [`Shader::run_geometry_batch`] on a host's memory.
    #[inline(never)]
    pub(crate) fn run_geometry_batch_on(
        &self,
        memory: &HostMemory<'_>,
        inputs: Vertices<'_>,
        input_mask: u16,
        emitter: &mut dyn HostEmitter,
    ) -> BatchExit {
        let outputs = VerticesMut::none(inputs.len());
        let mut batch = Batch { inputs, outputs, input_mask, output_mask: 0, preserve_unit: false };
        self.run_batch_by_kernel(memory, &mut batch, emitter)
    }

    /// Code for the host's GPU with the results of this shader, or the reason why it has none. It is made
    /// anew by each call, in less than a tenth of the time that drivers take for a pipeline; the host keeps
    /// it with the pipeline.
    #[cfg(feature = "gpu-code")]
    pub fn gpu_code(&self, interface: &Interface, device: &Device) -> Result<GpuCode, NoGpuCode> {
        self.0.gpu_code(interface, device)
    }

    /// Runs one vertex or one geometry invocation on a host's memory. Native code copies nothing if
    /// the engine has the memory's [layout](super::Options::layout); for other layouts tier 0 serves.
    #[inline]
    pub fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        match self.0.direct().run_on(memory) {
            Some(exit) => exit,
            None => self.run_by_kernel(memory, emitter),
        }
    }

    /// [`Shader::run_batch`] on a host's memory.
    #[inline]
    pub fn run_batch_on(&self, memory: &HostMemory<'_>, batch: &mut Batch<'_>) -> BatchExit {
        match self.run_only_vertex(memory, batch) {
            Some(exit) => BatchExit { exit, ran: 1 },
            None => self.run_batch_by_kernel_on(memory, &mut batch.reborrow()),
        }
    }

    /// [`Shader::run_batch_by_kernel`] on a host's memory.
    #[inline(never)]
    fn run_batch_by_kernel_on(&self, memory: &HostMemory<'_>, batch: &mut Batch<'_>) -> BatchExit {
        self.run_batch_by_kernel(memory, batch, &mut NoEmitter)
    }

    /// A run that direct code did not serve: it emits, is crosschecked, deoptimises, has no native
    /// code, or native code for another layout.
    #[inline(never)]
    fn run_by_kernel(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if let Some(crosscheck) = self.0.crosscheck()
            && crosscheck.selects_next()
        {
            self.check_run(crosscheck, memory);
        }
        let exit = self.0.first_kernel(1).run_on(memory, emitter);
        let exit = exit.or_else(|| self.0.kernel().run_on(memory, emitter));
        self.0.republish();
        exit.expect("tier 0 and the oracle serve every run")
    }

    /// Runs a batch of one on direct code. `None`: it has other vertices, or the kernel must run, and
    /// nothing was written but the batch's inputs.
    #[inline(always)]
    fn run_only_vertex(&self, memory: &HostMemory<'_>, batch: &mut Batch<'_>) -> Option<Exit> {
        if batch.len() != 1 {
            return None;
        }
        if batch.preserve_unit {
            return self.0.direct().run_outputs(memory, only_vertex(batch));
        }
        let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
        memory.take_inputs(taken, batch.inputs.registers());
        let exit = self.0.direct().run_copied(memory, batch.inputs.registers(), taken)?;
        memory.copy_outputs(wanted, batch.outputs.registers());
        Some(exit)
    }

    #[inline(always)]
    fn run_batch_by_kernel(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
    ) -> BatchExit {
        if let Some(crosscheck) = self.0.crosscheck() {
            self.check_batch(crosscheck, memory, batch);
        }
        let exit = self.0.first_kernel(batch.len()).run_batch_on(memory, batch, emitter, &*self.0);
        if batch.len() == 1 {
            self.0.republish();
        }
        exit
    }

    // Not inlined: copies of a unit take kilobytes of stack, which runs must not reserve.
    #[inline(never)]
    fn check_run(&self, crosscheck: &Crosscheck, memory: &HostMemory<'_>) {
        let (unit, uniforms) = memory.load();
        crosscheck.check_run(&self.0.pair(), &uniforms, &unit);
    }

    // Not inlined, for the same reason.
    #[inline(never)]
    fn check_batch(&self, crosscheck: &Crosscheck, memory: &HostMemory<'_>, batch: &Batch<'_>) {
        let (unit, uniforms) = memory.load();
        crosscheck.check_batch(&self.0.pair(), &uniforms, &unit, batch);
    }

    /// Compiles the shader before this returns, unless it is compiled. For hosts that need native
    /// code of this shader at once.
    pub fn compile_now(&self) {
        self.0.compile_now();
    }

    /// The tier that serves the next run.
    pub fn tier(&self) -> Tier {
        self.0.tier()
    }

    /// Whether native code for [`Unit`] serves the next run.
    pub(crate) fn is_native(&self) -> bool {
        self.tier() == Tier::Native && self.layout().is_none()
    }

    /// Whether no vertex that ends observes what another one leaves in the unit, so that vertices
    /// may run in any order. The first call analyses the program. The answer does not depend on the
    /// tier.
    pub(crate) fn has_independent_vertices(&self) -> bool {
        self.0.has_independent_vertices()
    }

    /// Whether each run with these integer uniforms reaches an END before it has executed `limit` words.
    #[cfg(feature = "gpu-code")]
    pub(crate) fn always_ends(&self, ints: &[[u8; 4]; INT_UNIFORMS], limit: u32) -> bool {
        self.0.always_ends(ints, limit)
    }

    /// The most words that a run with these integer uniforms, and no more than the default fuel,
    /// executes. The answer does not depend on the tier.
    pub(crate) fn most_words(&self, ints: &[[u8; 4]; INT_UNIFORMS]) -> u64 {
        self.0.most_words(ints)
    }

    /// The name of the backend of this tier: `batch` (native code), `tier0`, or `interp` (the
    /// oracle).
    pub fn backend(&self) -> &'static str {
        self.0.backend()
    }

    /// The [layout](super::Options::layout) that the shader is compiled for.
    pub fn layout(&self) -> Option<&Layout> {
        self.0.direct().layout()
    }

    /// Why the shader has no native code although the host wants it. `None` while it waits for
    /// compilation.
    pub fn fallback_reason(&self) -> Option<&Unsupported> {
        self.0.fallback_reason()
    }

    /// What is certain of the shader before it runs, such as whether runs are independent. Analyses
    /// the program at each call.
    ///
    /// Fails if control flow is too large to analyse.
    pub fn analysis(&self) -> Result<Analysis, Unsupported> {
        let (program, entry, _) = self.source();
        Analysis::new(program, entry)
    }

    /// Whether this shader runs `entry` in a program of these words, so that a host need not look one
    /// up. It compares the words that the entry reaches, and touches less memory than
    /// [`Engine::shader`](super::Engine::shader).
    pub fn serves(&self, code: &[u32], opdescs: &[u32], entry: Entry) -> bool {
        self.0.serves(code, opdescs, entry)
    }

    /// The registers that its program names. Explores the program at each call.
    pub(crate) fn accesses(&self) -> Accesses {
        let (program, entry, _) = self.source();
        Accesses::of(program, entry)
    }

    /// Counters of its runs, over all threads.
    pub fn stats(&self) -> KernelStats {
        self.0.serving().stats()
    }

    /// How long compiling its first native code took; zero without native code.
    #[doc(hidden)]
    pub fn compile_time(&self) -> std::time::Duration {
        self.0.serving().compile_time()
    }

    /// Bytes of native code.
    pub fn native_bytes(&self) -> usize {
        self.0.serving().native_bytes()
    }

    /// The first difference that a [crosscheck](super::Options::crosscheck) found, as text.
    pub fn divergence(&self) -> Option<String> {
        self.0.crosscheck().and_then(Crosscheck::difference)
    }

    /// The shared state, for handles that are raw pointers.
    #[cfg(feature = "capi")]
    pub(crate) fn into_inner(self) -> Arc<Compiled> {
        self.0
    }

    /// The same without a reference of its own.
    #[cfg(feature = "capi")]
    pub(crate) fn as_ptr(&self) -> *const Compiled {
        Arc::as_ptr(&self.0)
    }

    /// An oracle for one run, which the engine cancels.
    #[cfg(feature = "capi")]
    pub(crate) fn new_oracle(&self) -> crate::interp::InterpKernel {
        self.0.new_oracle()
    }

    /// The words, entry and options that it is compiled from.
    pub(crate) fn source(&self) -> (&crate::program::Program, crate::program::Entry, &crate::kernel::Config) {
        self.0.source()
    }

    /// Whether both are the same compiled shader.
    pub fn same_as(&self, other: &Shader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The vertex of a batch of one.
#[inline]
fn only_vertex<'a>(batch: &'a mut Batch<'_>) -> Vertex<'a> {
    let (input_mask, output_mask) = (batch.inputs_taken(), batch.outputs_wanted());
    Vertex { inputs: batch.inputs.registers(), outputs: batch.outputs.registers(), input_mask, output_mask }
}
