//! A recipe -> what each of its compilations takes: processor time, memory and code.

use super::counting;
use picajit::internals::jit::{Jit, LazyKind, NativeKernel, Settings, Variant};
use picajit::internals::kernel::{Backend, Config};
use picajit::internals::tier0::Tier0;
use picajit::isa::numeric::Precision;
use picajit::program::{Entry, Program};
use std::sync::Arc;
use std::time::Duration;

/// What one compilation took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Processor time of the thread.
    pub cpu: Duration,
    /// The most bytes allocated at a time.
    pub memory: usize,
    /// Bytes of code; 0 if it was too much work.
    pub code: usize,
}

/// The code that is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The decoded words of tier 0.
    Tier0,
    /// The first code, which speculates where that pays.
    First,
    /// Code that a kernel compiles when a run first wants it.
    Lazy(LazyKind),
}

const fn batch(interleaved: bool) -> Kind {
    Kind::Lazy(LazyKind::Batch { interleaved })
}

/// Every kind, with its name.
pub const KINDS: [(Kind, &str); 7] = [
    (Kind::Tier0, "tier0"),
    (Kind::First, "single"),
    (Kind::Lazy(LazyKind::Exact), "exact"),
    (Kind::Lazy(LazyKind::Outputs { exact: false }), "outputs"),
    (Kind::Lazy(LazyKind::Outputs { exact: true }), "outputs-exact"),
    (batch(false), "batch"),
    (batch(true), "batch8"),
];

/// Processor time of this thread.
#[cfg(target_os = "linux")]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Elsewhere the wall time stands in, which is at least as much.
#[cfg(not(target_os = "linux"))]
pub fn cpu_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

fn cost<T>(work: impl FnOnce() -> T, code: impl FnOnce(&T) -> usize) -> (T, Cost) {
    let start = cpu_time();
    let (made, memory) = counting::peak(work);
    let cpu = cpu_time() - start;
    let code = code(&made);
    (made, Cost { cpu, memory, code })
}

/// The JIT that engines use, without background threads.
pub fn jit() -> Arc<Jit> {
    Jit::with(Variant::Batch, Settings::default()).expect("native code")
}

/// The costs of these kinds. A kind that depends on code which was too much work is left out.
pub fn costs(
    jit: &Arc<Jit>,
    (program, entry): &(Arc<Program>, Entry),
    precision: Precision,
    kinds: impl IntoIterator<Item = usize>,
) -> Vec<(usize, Cost)> {
    let config = Config { precision, ..Config::default() };
    let mut first: Option<(Option<NativeKernel>, Cost)> = None;
    let mut costs = Vec::new();
    for kind in kinds {
        if KINDS[kind].0 == Kind::Tier0 {
            let work = || Tier0::default().compile(program, *entry, &config);
            costs.push((kind, cost(work, |_| 0).1));
            continue;
        }
        let (kernel, of_first) = first.get_or_insert_with(|| {
            let work = || jit.compile_native(program, *entry, &config).ok();
            let bytes = |kernel: &Option<NativeKernel>| {
                kernel.as_ref().map_or(0, picajit::internals::kernel::Kernel::native_bytes)
            };
            cost(work, bytes)
        });
        match (KINDS[kind].0, kernel) {
            (Kind::Lazy(_), None) | (Kind::Tier0, _) => {}
            (Kind::First, _) => costs.push((kind, *of_first)),
            (Kind::Lazy(lazy), Some(kernel)) => {
                let work = || kernel.compile_lazy(lazy);
                costs.push((kind, cost(work, |made| *made.as_ref().unwrap_or(&0)).1));
            }
        }
    }
    costs
}
