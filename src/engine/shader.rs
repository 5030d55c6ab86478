//! A shader and the memory of a run -> a run on the engine that serves it now.
//!
//! Invariant: direct code comes first, and a kernel serves what direct code does not. This file
//! must not know how shaders are compiled or cached.

use super::Tier;
use super::compiled::Compiled;
use super::crosscheck::Crosscheck;
use crate::analysis::Analysis;
use crate::fp_mode::DefaultMode;
use crate::kernel::direct::Vertex;
use crate::kernel::{KernelStats, Unsupported, copy_registers};
use crate::layout::{Host, HostEmitter, Layout};
use crate::state::{Batch, BatchExit, Emitter, Exit, NoEmitter, Uniforms, Unit, VertexLayout, Vertices, VerticesMut};
use std::sync::Arc;

/// One entry of a program, ready to run. Cheap to clone. Any number of threads may run it at once,
/// each on its own [`Unit`].
///
/// Single runs need a thread whose floating-point mode is the default: round to nearest, subnormals
/// preserved, no traps. On a thread of audio code that sets flush-to-zero their results differ;
/// debug builds panic. Batches and draws switch to the default mode for the time of the call.
#[derive(Clone)]
pub struct Shader(pub(super) Arc<Compiled>);

impl Shader {
    /// Runs one vertex on `unit`: inputs in `unit.v`, results in [`Unit::outputs`]. Vertices that a
    /// geometry program emits are dropped; see [`Shader::run_geometry`].
    #[inline]
    pub fn run(&self, uniforms: &Uniforms, unit: &mut Unit) -> Exit {
        match self.0.direct().run(uniforms, unit) {
            Some(exit) => exit,
            None => self.run_by_kernel(uniforms, unit, &mut NoEmitter),
        }
    }

    /// Runs one geometry invocation on `unit` and sends its triangles to `emitter`. After an
    /// invocation the hardware sets boolean uniform b15; the host must do so in its uniforms.
    #[inline]
    pub fn run_geometry(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        match self.0.direct().run(uniforms, unit) {
            Some(exit) => exit,
            None => self.run_by_kernel(uniforms, unit, emitter),
        }
    }

    /// A run that direct code did not serve: it emits, is crosschecked, deoptimises, has no native
    /// code, or has native code for a host's layout.
    #[inline(never)]
    fn run_by_kernel(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        if let Some(crosscheck) = self.0.crosscheck()
            && crosscheck.selects_next()
        {
            crosscheck.check_run(&self.0.pair(), uniforms, unit);
        }
        let exit = self.0.kernel(1).run(uniforms, unit, emitter);
        self.0.republish();
        exit
    }

    /// Runs the vertices of `batch`. The result is as if they ran in order on `unit`; see
    /// [`Kernel::run_batch`](crate::kernel::Kernel::run_batch).
    // Inlined, so that a batch of one never exists in memory.
    #[inline(always)]
    pub fn run_batch(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> BatchExit {
        if batch.len() == 1 {
            if batch.preserve_unit {
                if let Some(exit) = self.0.direct().run_outputs(uniforms, unit, only_vertex(batch)) {
                    return BatchExit { exit, ran: 1 };
                }
            } else {
                let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
                copy_registers(taken, batch.inputs.registers(), &mut unit.v);
                let exit = match self.0.direct().run_copied(uniforms, unit, batch.inputs.registers(), taken) {
                    Some(exit) => exit,
                    None => {
                        let _mode = DefaultMode::enter();
                        self.run_by_kernel(uniforms, unit, &mut NoEmitter)
                    }
                };
                copy_registers(wanted, unit.outputs(), batch.outputs.registers());
                return BatchExit { exit, ran: 1 };
            }
        }
        // Another borrow, so that the caller's batch may stay in registers.
        self.run_batch_by_kernel(uniforms, unit, &mut batch.reborrow())
    }

    #[inline(never)]
    fn run_batch_by_kernel(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>) -> BatchExit {
        self.run_emitting_batch(uniforms, unit, batch, &mut NoEmitter)
    }

    /// Runs a geometry invocation for each vertex of `inputs`, whose registers in `input_mask` it
    /// takes, all with the same uniforms, and sends their triangles to `emitter` in order. The result
    /// is as if they ran in order on `unit` ([`Shader::run_geometry`]). Native code runs
    /// [independent](Shader::analysis) invocations in groups.
    pub fn run_geometry_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        inputs: Vertices<'_>,
        input_mask: u16,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        self.run_emitting_batch(uniforms, unit, &mut invocations(inputs, input_mask), emitter)
    }

    fn run_emitting_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        if let Some(crosscheck) = self.0.crosscheck() {
            crosscheck.check_batch(&self.0.pair(), uniforms, unit, batch);
        }
        let exit = self.0.kernel(batch.len()).run_batch(uniforms, unit, batch, emitter);
        if batch.len() == 1 {
            self.0.republish();
        }
        exit
    }

    /// [`Shader::run_geometry`] on a host's memory; serves vertex programs too. Native code copies
    /// nothing if the engine has the host's [layout](super::Options::layout).
    #[inline]
    pub fn run_on(&self, host: &Host<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        match self.0.direct().run_on(host) {
            Some(exit) => exit,
            None => self.run_on_by_kernel(host, emitter),
        }
    }

    /// [`Shader::run_by_kernel`] on a host's memory.
    #[inline(never)]
    fn run_on_by_kernel(&self, host: &Host<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if let Some(crosscheck) = self.0.crosscheck().filter(|crosscheck| crosscheck.selects_next()) {
            let (unit, uniforms) = host.load();
            crosscheck.check_run(&self.0.pair(), &uniforms, &unit);
        }
        let exit = self.0.kernel(1).run_on(host, emitter);
        self.0.republish();
        exit
    }

    /// [`Shader::run_batch`] on a host's memory.
    #[inline]
    pub fn run_batch_on(&self, host: &Host<'_>, batch: &mut Batch<'_>) -> BatchExit {
        if batch.len() == 1 {
            if batch.preserve_unit {
                if let Some(exit) = self.0.direct().run_outputs_on(host, only_vertex(batch)) {
                    return BatchExit { exit, ran: 1 };
                }
            } else {
                let _mode = DefaultMode::enter();
                host.take_inputs(batch.inputs_taken(), batch.inputs.registers());
                let exit = self.run_on(host, &mut NoEmitter);
                host.copy_outputs(batch.outputs_wanted(), batch.outputs.registers());
                return BatchExit { exit, ran: 1 };
            }
        }
        self.run_batch_on_by_kernel(host, &mut batch.reborrow())
    }

    #[inline(never)]
    fn run_batch_on_by_kernel(&self, host: &Host<'_>, batch: &mut Batch<'_>) -> BatchExit {
        self.run_emitting_batch_on(host, batch, &mut NoEmitter)
    }

    /// [`Shader::run_geometry_batch`] on a host's memory.
    pub fn run_geometry_batch_on(
        &self,
        host: &Host<'_>,
        inputs: Vertices<'_>,
        input_mask: u16,
        emitter: &mut dyn HostEmitter,
    ) -> BatchExit {
        self.run_emitting_batch_on(host, &mut invocations(inputs, input_mask), emitter)
    }

    fn run_emitting_batch_on(
        &self,
        host: &Host<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
    ) -> BatchExit {
        if let Some(crosscheck) = self.0.crosscheck() {
            let (unit, uniforms) = host.load();
            crosscheck.check_batch(&self.0.pair(), &uniforms, &unit, batch);
        }
        let exit = self.0.kernel(batch.len()).run_batch_on(host, batch, emitter);
        if batch.len() == 1 {
            self.0.republish();
        }
        exit
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

    /// The words, entry and options that it is compiled from.
    pub(crate) fn source(&self) -> (&crate::program::Program, crate::program::Entry, &crate::kernel::Config) {
        self.0.source()
    }

    /// Whether both are the same compiled shader.
    pub fn same_as(&self, other: &Shader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The batch of geometry invocations with these inputs.
fn invocations(inputs: Vertices<'_>, input_mask: u16) -> Batch<'_> {
    Batch {
        inputs,
        outputs: VerticesMut::none(inputs.len()),
        input_mask,
        output_mask: 0,
        preserve_unit: false,
        layout: VertexLayout::Aos,
    }
}

/// The vertex of a batch of one.
#[inline]
fn only_vertex<'a>(batch: &'a mut Batch<'_>) -> Vertex<'a> {
    let (input_mask, output_mask) = (batch.inputs_taken(), batch.outputs_wanted());
    Vertex { inputs: batch.inputs.registers(), outputs: batch.outputs.registers(), input_mask, output_mask }
}
