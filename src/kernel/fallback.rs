//! Two backends -> one: the second serves what the first one's kernels don't.

use super::{Backend, Config, Kernel, KernelStats, NextKernel, Unsupported};
use crate::kernel::direct::DirectFunctions;
use crate::layout::{HostEmitter, HostMemory, Layout};
use crate::program::{Entry, Program};
use crate::state::{Batch, BatchExit, Exit};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A compiler of kernels that don't serve every run, and a backend for the runs that they leave.
pub struct WithFallback<C> {
    name: &'static str,
    first: C,
    fallback: Arc<dyn Backend>,
}

impl<C> WithFallback<C> {
    /// `fallback` must compile every program, as tier 0 and the interpreter do.
    pub fn new(name: &'static str, first: C, fallback: Arc<dyn Backend>) -> WithFallback<C> {
        WithFallback { name, first, fallback }
    }
}

impl<C, K> Backend for WithFallback<C>
where
    C: Fn(&Arc<Program>, Entry, &Config) -> Result<K, Unsupported> + Send + Sync,
    K: Kernel + 'static,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        let (fallback, program, config) = (self.fallback.clone(), program.clone(), *config);
        let first = (self.first)(&program, entry, &config)?;
        let next = move || fallback.compile(&program, entry, &config).expect("the fallback compiles every program");
        Ok(Arc::new(Pair { first, next, compiled: OnceLock::new() }))
    }
}

/// A kernel, and the next one once it is needed.
struct Pair<K, N> {
    first: K,
    next: N,
    compiled: OnceLock<Arc<dyn Kernel>>,
}

impl<K: Kernel, N: Fn() -> Arc<dyn Kernel> + Send + Sync> NextKernel for Pair<K, N> {
    fn kernel(&self) -> &dyn Kernel {
        &**self.compiled.get_or_init(&self.next)
    }
}

impl<K: Kernel, N: Fn() -> Arc<dyn Kernel> + Send + Sync> Kernel for Pair<K, N> {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        self.first.run_on(memory, emitter).or_else(|| self.kernel().run_on(memory, emitter))
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        _: &dyn NextKernel,
    ) -> BatchExit {
        self.first.run_batch_on(memory, batch, emitter, self)
    }

    fn layout(&self) -> Option<&Layout> {
        self.first.layout()
    }

    fn direct_functions(&self) -> DirectFunctions {
        self.first.direct_functions()
    }

    fn stats(&self) -> KernelStats {
        self.first.stats()
    }

    fn compile_time(&self) -> Duration {
        self.first.compile_time()
    }

    fn held_bytes(&self) -> usize {
        self.first.held_bytes()
    }

    fn native_bytes(&self) -> usize {
        self.first.native_bytes()
    }
}
