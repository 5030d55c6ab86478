//! An entry of a program -> native code, or the reason why there is none.
//!
//! This file must not depend on the cache, nor on when shaders are compiled.

use super::{Event, EventHandler, lock};
use crate::background::Queue;
use crate::cache::Exploration;
use crate::kernel::{Backend, Config, Kernel, Unsupported};
use crate::program::{Entry, Program};
use std::sync::{Arc, Mutex};

/// A backend that an engine compiles native code with.
pub(super) trait NativeBackend: Backend {
    /// [`Backend::compile`] for an entry that has been explored. A backend may ignore the graph.
    fn compile_explored(
        &self,
        _: Exploration,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<Arc<dyn Kernel>, Unsupported> {
        self.compile(program, entry, config)
    }
}

#[cfg(feature = "jit")]
impl NativeBackend for Arc<crate::jit::Jit> {
    fn compile_explored(
        &self,
        explored: Exploration,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<Arc<dyn Kernel>, Unsupported> {
        Ok(Arc::new(crate::jit::Jit::compile_explored(self, explored, program, entry, config)?))
    }
}

/// The compiler that the shaders of an engine share.
pub(super) struct Compiler {
    /// The error applies to every program.
    backend: Result<Arc<dyn NativeBackend>, Unsupported>,
    queue: Queue,
    /// Few: most reasons apply to every program.
    reported: Mutex<Vec<Unsupported>>,
    events: EventHandler,
}

impl Compiler {
    pub(super) fn new(
        backend: Result<Arc<dyn NativeBackend>, Unsupported>,
        queue: Queue,
        events: EventHandler,
    ) -> Compiler {
        Compiler { backend, queue, reported: Mutex::default(), events }
    }

    /// The backend's name, or the reason why it compiles nothing.
    pub(super) fn name(&self) -> Result<&'static str, &Unsupported> {
        self.backend.as_ref().map(|backend| backend.name())
    }

    /// The queue for compilations. `None` without a backend: failing takes no job. A build without
    /// native code omits the jobs.
    pub(super) fn queue(&self) -> Option<&Queue> {
        (cfg!(any(feature = "jit", test)) && self.backend.is_ok()).then_some(&self.queue)
    }

    /// Compiles `entry`, from its exploration if there is one.
    pub(super) fn compile(
        &self,
        explored: Option<Exploration>,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<Arc<dyn Kernel>, Unsupported> {
        let backend = self.backend.as_ref().map_err(Unsupported::clone)?;
        match explored {
            Some(explored) => backend.compile_explored(explored, program, entry, config),
            None => backend.compile(program, entry, config),
        }
    }

    /// Reports that `entry` runs on the interpreter, once for each reason.
    pub(super) fn report(&self, entry: Entry, reason: &Unsupported) {
        let mut reported = lock(&self.reported);
        let is_new = !reported.contains(reason);
        if is_new {
            reported.push(reason.clone());
        }
        // The handler may cause another report.
        drop(reported);
        if is_new {
            (self.events)(&Event::Fallback { entry, reason: reason.clone() });
        }
    }
}
