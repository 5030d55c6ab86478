//! An entry of a program -> native code, or the reason why there is none.
//!
//! This file must not depend on the cache, nor on when shaders are compiled.

use super::{BackendChoice, Event, EventHandler, Options, lock};
use crate::background::Queue;
use crate::cache::Exploration;
use crate::kernel::cancel::CancelFlag;
use crate::kernel::{Config, Kernel, Unsupported};
use crate::program::{Entry, Program};
use std::mem::{self, Discriminant};
use std::sync::{Arc, Mutex};

/// What an engine compiles native code with. Its kernels need not serve every run.
pub(super) trait NativeCompiler: Send + Sync {
    /// See [`Backend::name`](crate::kernel::Backend::name).
    fn name(&self) -> &'static str;

    /// Compiles an entry, from its graph if there is one.
    fn compile(
        &self,
        graph: Option<Exploration>,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<Arc<dyn Kernel>, Unsupported>;
}

#[cfg(feature = "jit")]
impl NativeCompiler for Arc<crate::jit::Jit> {
    fn name(&self) -> &'static str {
        crate::jit::Jit::name(self)
    }

    fn compile(
        &self,
        graph: Option<Exploration>,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<Arc<dyn Kernel>, Unsupported> {
        Ok(Arc::new(match graph {
            Some(graph) => self.compile_graph(|_| graph, program, entry, config)?,
            None => self.compile_native(program, entry, config)?,
        }))
    }
}

/// The compiler that the shaders of an engine share.
pub(super) struct Compiler {
    /// `None`: the host wants no native code. An error applies to every program.
    backend: Option<Result<Arc<dyn NativeCompiler>, Unsupported>>,
    choice: BackendChoice,
    compile_after: u32,
    queue: Queue,
    /// The system's refusal of executable memory. Until code memory is released, later compilations
    /// would fail too, so none begins.
    refusal: Mutex<Option<Unsupported>>,
    /// The kinds of reasons.
    reported: Mutex<Vec<Discriminant<Unsupported>>>,
    events: EventHandler,
    cancel: CancelFlag,
}

impl Compiler {
    pub(super) fn new(
        backend: Option<Result<Arc<dyn NativeCompiler>, Unsupported>>,
        options: &Options,
        queue: Queue,
        cancel: &CancelFlag,
    ) -> Compiler {
        let Options { backend: choice, compile_after, ref events, .. } = *options;
        let (refusal, reported) = Default::default();
        let (events, cancel) = (events.clone(), cancel.clone());
        Compiler { backend, choice, compile_after, queue, refusal, reported, events, cancel }
    }

    /// Ends the runs of all kernels.
    pub(super) fn cancel_flag(&self) -> &CancelFlag {
        &self.cancel
    }

    /// The tiers that the host wants.
    pub(super) fn choice(&self) -> BackendChoice {
        self.choice
    }

    /// The vertices after which a run compiles a shader that no thread compiles.
    pub(super) fn compile_after(&self) -> u32 {
        self.compile_after
    }

    /// The name of native code, if there is any.
    pub(super) fn name(&self) -> Option<&'static str> {
        self.backend.as_ref()?.as_ref().ok().map(|backend| backend.name())
    }

    /// Why the next shader gets no native code, whichever it is, although the host wants it.
    pub(super) fn no_native(&self) -> Option<Unsupported> {
        self.backend.as_ref()?.as_ref().err().cloned().or_else(|| lock(&self.refusal).clone())
    }

    /// Code memory was released, so the system may give some again.
    pub(super) fn forget_refusal(&self) {
        *lock(&self.refusal) = None;
    }

    /// Whether a lookup compiles a new shader before it returns: because the host requires it, or
    /// because failing takes no time.
    pub(super) fn compiles_at_lookup(&self) -> bool {
        self.backend.is_none()
            || self.no_native().is_some()
            || self.choice == BackendChoice::NativeRequired
            || self.compile_after == 0 && self.queue().is_none()
    }

    /// The queue for compilations, if there are threads. A build without native code omits the
    /// jobs.
    pub(super) fn queue(&self) -> Option<&Queue> {
        (cfg!(any(feature = "jit", test)) && self.queue.open()).then_some(&self.queue)
    }

    /// Compiles `entry`, from its graph if there is one. `None`: the host wants no native
    /// code.
    pub(super) fn compile(
        &self,
        graph: Option<Exploration>,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Option<Result<Arc<dyn Kernel>, Unsupported>> {
        let backend = self.backend.as_ref()?;
        if let Some(reason) = self.no_native() {
            return Some(Err(reason));
        }
        let result = match backend {
            Ok(backend) => backend.compile(graph, program, entry, config),
            Err(reason) => Err(reason.clone()),
        };
        if let Err(reason @ Unsupported::NoExecMemory { .. }) = &result {
            *lock(&self.refusal) = Some(reason.clone());
        }
        Some(result)
    }

    /// Reports that `entry` runs on tier 0, once for each kind of reason.
    pub(super) fn report(&self, entry: Entry, reason: &Unsupported) {
        let mut reported = lock(&self.reported);
        let kind = mem::discriminant(reason);
        let is_new = !reported.contains(&kind);
        if is_new {
            reported.push(kind);
        }
        // The handler may cause another report.
        drop(reported);
        if is_new {
            (self.events)(&Event::Fallback { entry, reason: reason.clone() });
        }
    }
}
