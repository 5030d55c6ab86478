//! Tier 0, the fast interpreter: an entry is decoded in microseconds and runs without executable
//! memory.
//!
//! | stage | file | from -> to |
//! |---|---|---|
//! | decode | `decode` | words and control-flow graph -> `Code`: operations on slots |
//! | one vertex | `vertex` | dispatches each operation for one vertex |
//! | a batch | `batch`, `group`, `columns` | dispatches each operation for up to 64 vertices |
//!
//! Both executors take their arithmetic from `arith`, generic over the number format, the width of
//! a vector and the CPU level, which is detected at run time. The tier shares `isa` with the oracle
//! and no code beyond it, so each checks the other.

mod arith;
mod batch;
mod code;
mod columns;
mod decode;
mod group;
mod lane_ints;
mod vertex;

use crate::fp_mode::DefaultMode;
use crate::ir::cfg::{Cfg, Limits};
use crate::isa::INT_UNIFORMS;
use crate::isa::numeric::Precision;
use crate::kernel::cancel::CancelFlag;
use crate::kernel::{Backend, Config, Kernel, KernelStats, NextKernel, Unsupported, most_words};
use crate::layout::{HostEmitter, HostMemory, Layout};
use crate::program::{Entry, Program};
use crate::state::{Batch, BatchExit, Exit};
use arith::{F24, F32, Format, Lanes};
use batch::Counts;
use code::Code;
#[cfg(target_arch = "x86_64")]
use fearless_simd::f32x8;
use fearless_simd::{Level, Simd, f32x4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Tier 0 as a [`Backend`]: it takes every program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tier0 {
    cpu: Cpu,
}

/// The instructions that tier 0 uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// What the CPU has.
    #[default]
    Detected,
    /// What every CPU of the architecture has.
    Baseline,
}

impl Tier0 {
    /// Tier 0 with these instructions. Results don't depend on it.
    pub const fn new(cpu: Cpu) -> Tier0 {
        Tier0 { cpu }
    }

    /// The kernel of an entry.
    pub(crate) fn kernel_of_entry(&self, program: &Program, entry: Entry, config: &Config) -> Tier0Kernel {
        let cfg = Cfg::build(program, entry, Limits::default()).ok();
        self.kernel(cfg.as_ref(), program, entry, config)
    }

    /// The kernel of an entry with this graph, if it is within the limits.
    pub(crate) fn kernel(&self, cfg: Option<&Cfg>, program: &Program, entry: Entry, config: &Config) -> Tier0Kernel {
        let code = decode::decode(program, entry, config, cfg);
        let level = match self.cpu {
            Cpu::Detected => Level::new(),
            Cpu::Baseline => Level::baseline(),
        };
        Tier0Kernel { code, layout: config.layout, level, groups: AtomicU32::new(0), bailouts: AtomicU32::new(0) }
    }
}

impl Backend for Tier0 {
    fn name(&self) -> &'static str {
        "tier0"
    }

    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Ok(Arc::new(self.kernel_of_entry(program, entry, config)))
    }
}

/// A decoded entry, ready to run.
pub struct Tier0Kernel {
    code: Code,
    layout: Option<Layout>,
    level: Level,
    groups: AtomicU32,
    bailouts: AtomicU32,
}

/// Work that is compiled for each CPU level.
trait Work {
    type Result;

    fn run<S: Simd, V: Lanes<S>>(self, simd: S) -> Self::Result;
}

/// Runs `work` with the widest vectors of `level`.
#[inline(always)]
fn at_level<W: Work>(level: Level, work: W) -> W::Result {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = level.as_avx2() {
            return simd.vectorize(
                #[inline(always)]
                || work.run::<_, f32x8<_>>(simd),
            );
        }
        let simd = level.as_sse2().expect("x86-64 has SSE2");
        simd.vectorize(
            #[inline(always)]
            || work.run::<_, f32x4<_>>(simd),
        )
    }
    #[cfg(not(target_arch = "x86_64"))]
    fearless_simd::dispatch!(level, simd => work.run::<_, f32x4<_>>(simd))
}

struct Vertices<'a, 'm, 'b, F> {
    format: F,
    code: &'a Code,
    memory: &'a HostMemory<'m>,
    emitter: &'a mut dyn HostEmitter,
    batch: &'a mut Batch<'b>,
    counts: &'a mut Counts,
}

impl<F: Format> Work for Vertices<'_, '_, '_, F> {
    type Result = BatchExit;

    #[inline(always)]
    fn run<S: Simd, V: Lanes<S>>(self, simd: S) -> BatchExit {
        batch::run::<S, V, F>(simd, self.format, self.code, (self.memory, self.emitter), self.batch, self.counts)
    }
}

impl Tier0Kernel {
    /// The same kernel, whose runs end when `cancel` is set.
    pub(crate) fn cancelled_by(mut self, cancel: &CancelFlag) -> Tier0Kernel {
        self.code.cancel = cancel.clone();
        self
    }

    /// Whether vertices that end can run in any order: none observes what another one leaves in the
    /// unit, and all write the same registers. A sufficient condition; see
    /// [`RegisterUse::writes_alike`](crate::ir::analysis::RegisterUse::writes_alike).
    pub(crate) fn has_independent_vertices(&self) -> bool {
        self.code.usage.dependence.is_none() && self.code.usage.writes_alike
    }

    /// Whether each run that has fuel reaches an END.
    #[cfg(feature = "gpu-code")]
    pub(crate) fn always_ends(&self) -> bool {
        self.code.usage.always_ends
    }

    /// The most words that a run with these integer uniforms, and no more than the default fuel,
    /// executes.
    pub(crate) fn most_words(&self, ints: &[[u8; 4]; INT_UNIFORMS]) -> u64 {
        let fueled = most_words(self.code.entry.stage);
        self.code
            .longest_run
            .as_ref()
            .map_or(fueled, |longest| longest.words(&ints.map(|[count, ..]| u64::from(count) + 1)).min(fueled))
    }

    fn run_vertex(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        let _mode = DefaultMode::enter();
        match self.code.precision {
            Precision::F32 => vertex::run(F32, &self.code, memory, emitter),
            Precision::F24 { rounding } => vertex::run(F24::new(rounding), &self.code, memory, emitter),
        }
    }

    fn run_vertices(&self, memory: &HostMemory<'_>, batch: &mut Batch<'_>, emitter: &mut dyn HostEmitter) -> BatchExit {
        let _mode = DefaultMode::enter();
        let (code, level) = (&self.code, self.level);
        let mut counted = Counts::default();
        let counts = &mut counted;
        let exit = match code.precision {
            Precision::F32 => at_level(level, Vertices { format: F32, code, memory, emitter, batch, counts }),
            Precision::F24 { rounding } => {
                at_level(level, Vertices { format: F24::new(rounding), code, memory, emitter, batch, counts })
            }
        };
        for (total, new) in [(&self.groups, counted.groups), (&self.bailouts, counted.bailouts)] {
            if new != 0 {
                total.fetch_add(new, Ordering::Relaxed);
            }
        }
        exit
    }

    /// Whether the memory has all that the entry changes.
    fn fits(&self, memory: &HostMemory<'_>) -> bool {
        !self.code.is_geometry() || memory.layout().offsets().geometry.is_some()
    }
}

impl Kernel for Tier0Kernel {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        if !self.fits(memory) {
            return Some(
                memory.with_copies(emitter, false, |uniforms, unit, emitter| self.run(uniforms, unit, emitter)),
            );
        }
        Some(self.run_vertex(memory, emitter))
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        _: &dyn NextKernel,
    ) -> BatchExit {
        if !self.fits(memory) {
            return memory.with_copies(emitter, batch.preserve_unit, |uniforms, unit, emitter| {
                self.run_batch(uniforms, unit, batch, emitter)
            });
        }
        self.run_vertices(memory, batch, emitter)
    }

    fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    fn stats(&self) -> KernelStats {
        let sequential_reason = self.code.usage.dependence.map(|dependence| dependence.to_string());
        let [groups, bailouts] = [&self.groups, &self.bailouts].map(|count| count.load(Ordering::Relaxed));
        KernelStats { groups, bailouts, sequential_reason, ..KernelStats::default() }
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.code.bytes()
    }
}

#[cfg(test)]
mod tests;
