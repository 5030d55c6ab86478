//! Code that a kernel compiles when a run first wants it: exact code, and batch code of each
//! variant.
//!
//! It does not know how code is compiled; a [`Recompiler`] does.

use super::call::Code;
use super::last_writers::{LastWriters, WrittenMasks};
use crate::background::{Hotness, Lazy, Priority, Queue};
use crate::ir::Inst;
use crate::ir::analysis::XYZW;
use crate::jit::abi::GROUP;
use crate::jit::batch::bailout::BailoutCounts;
use crate::jit::batch::policy::{BatchPlan, BatchVariant, KeptOutput, NoBatchCode};
use crate::kernel::Unsupported;
use crate::kernel::cancel::CancelFlag;
use crate::layout::HostMemory;
use crate::state::Batch;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Compiles more code of the function that a kernel's first code is of.
pub(crate) trait Recompiler: Send + Sync {
    /// Code for one vertex with exact products.
    fn exact_code(&self) -> Result<Code, Unsupported>;
    /// Outputs-only code, with exact products or those of the first code.
    fn outputs_code(&self, exact: bool) -> Result<OutputsCode, Unsupported>;
    /// Code for batches.
    fn batch_code(&self, variant: BatchVariant) -> Result<BatchCode, NoBatchCode>;
    /// Bytes of memory that it keeps for this.
    fn held_bytes(&self) -> usize;
}

/// Batch code of one variant.
pub(crate) struct BatchCode {
    pub(super) code: Code,
    /// Output registers that it writes; the others are as the unit has them.
    pub(crate) writes: u16,
    /// Those of which it writes some components only.
    pub(super) partial: u16,
    /// Whether every run reaches an END.
    pub(crate) always_ends: bool,
    /// The sets of components that some vertices write and others keep.
    written_masks: usize,
    /// The outputs among them.
    kept_outputs: Vec<KeptOutput>,
    /// Of a program that emits: the vertices of an invocation, in the last batch whose groups bailed out.
    pub(super) emits: Option<AtomicUsize>,
    /// Whether groups read what an invocation before them must have left.
    pub(super) needs_settled: bool,
    pub(crate) bailouts: BailoutCounts,
    /// Vertices that run between two looks at `cancel`, in whole pairs of groups.
    chunk: usize,
    cancel: CancelFlag,
}

/// Most vertices of a chunk: enough to amortise what a call prepares.
const MAX_CHUNK: usize = 1024;
/// Instructions of the IR that the vertices of a larger chunk run at most, outside of loops, which
/// look themselves. They take some milliseconds at most.
const CHUNK_INSTRUCTIONS: usize = 1 << 18;

impl BatchCode {
    pub(crate) fn new(code: Code, plan: &BatchPlan, cancel: &CancelFlag) -> BatchCode {
        let instructions: usize = plan.func.blocks.iter().map(|block| 1 + block.insts.len()).sum();
        let pair = 2 * GROUP;
        // As many as the program has, until a batch shows how often a loop runs.
        let emits = plan.func.blocks.iter().flat_map(|block| &block.insts).filter(|(_, inst)| *inst == Inst::Emit);
        let emits = plan.emits.then(|| AtomicUsize::new(emits.count()));
        let writes = (0..16).filter(|&n| plan.written[n] != 0).fold(0, |mask, n| mask | 1 << n);
        let whole = (0..16).filter(|&n| plan.written[n] == XYZW).fold(0, |mask, n| mask | 1 << n);
        BatchCode {
            code,
            writes,
            partial: writes & !whole,
            always_ends: plan.always_ends,
            written_masks: plan.written_masks.len(),
            kept_outputs: plan.kept_outputs.clone(),
            emits,
            needs_settled: plan.needs_settled,
            bailouts: BailoutCounts::default(),
            chunk: (CHUNK_INSTRUCTIONS / instructions).clamp(pair, MAX_CHUNK) / pair * pair,
            cancel: cancel.clone(),
        }
    }

    /// Whether some vertices keep components that others write. Then the unit after a vertex needs
    /// the last writers too, and not that vertex alone.
    #[inline]
    pub(crate) fn has_kept_components(&self) -> bool {
        self.written_masks != 0
    }

    /// Sets of components that some vertices write and others keep, and components of outputs among
    /// them.
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.written_masks, self.kept_outputs.len())
    }

    /// Runs vertices as [`Code::run_batch`] does, up to a chunk that finds the engine cancelled, and
    /// notes the last writers of kept components. Kept outputs are those of the vertex before, which
    /// ran already.
    #[inline]
    pub(super) fn run(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        vertices: Range<usize>,
        output_mask: u16,
        writers: &mut LastWriters,
    ) -> usize {
        match self.written_masks {
            0 if vertices.len() <= self.chunk && !self.cancel.is_set() => {
                self.code.run_batch(memory, batch, vertices, output_mask, &mut [], |code| self.bailouts.count(code))
            }
            0 => self.run_in_chunks(batch, vertices, self.chunk, |batch, chunk| {
                self.code.run_batch(memory, batch, chunk, output_mask, &mut [], |code| self.bailouts.count(code))
            }),
            _ => self.run_with_masks(memory, batch, vertices, output_mask, writers),
        }
    }

    #[inline(never)]
    fn run_with_masks(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        vertices: Range<usize>,
        output_mask: u16,
        writers: &mut LastWriters,
    ) -> usize {
        WrittenMasks::with(self.written_masks, |written| {
            self.run_in_chunks(batch, vertices, self.chunk.min(written.capacity()), |batch, chunk| {
                let bailed_out = |code| self.bailouts.count(code);
                let words = written.words_mut();
                let done = self.code.run_batch(memory, batch, chunk.clone(), output_mask, words, bailed_out);
                let ran = chunk.start..chunk.start + done;
                written.fill(&self.kept_outputs, batch, ran.clone(), output_mask);
                writers.note(written, self.written_masks, ran);
                done
            })
        })
    }

    /// Runs vertices in chunks of at most `size`, up to a bailout or until the engine is cancelled.
    /// Returns how many vertices ran. `run` returns it for a chunk.
    #[inline(never)]
    fn run_in_chunks(
        &self,
        batch: &mut Batch<'_>,
        vertices: Range<usize>,
        size: usize,
        mut run: impl FnMut(&mut Batch<'_>, Range<usize>) -> usize,
    ) -> usize {
        let mut at = vertices.start;
        while at < vertices.end && !self.cancel.is_set() {
            let mut end = vertices.end.min(at + size);
            // The rest is at least one group, too.
            if end < vertices.end && vertices.end - end < GROUP {
                end -= GROUP;
            }
            at += run(batch, at..end);
            if at < end {
                break;
            }
        }
        at - vertices.start
    }

    /// See [`Code::takes_any_count`].
    #[inline]
    pub(crate) fn takes_any_count(&self) -> bool {
        self.code.takes_any_count()
    }
}

/// Outputs-only code: it runs one vertex of a batch, and leaves the unit as it was.
pub(crate) struct OutputsCode {
    pub(crate) code: Code,
    /// Output registers that it writes; the others are as the unit has them.
    pub(crate) writes: u16,
    /// Whether vertices that reach an END are independent, so that each may find the unit as the
    /// batch does.
    pub(crate) independent: bool,
}

/// Code of a kernel besides its first.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LazyKind {
    /// For one vertex, with exact products.
    Exact,
    /// Outputs-only code.
    Outputs {
        /// Whether its products are exact.
        exact: bool,
    },
    /// For groups.
    Batch {
        /// Whether two groups are interleaved.
        interleaved: bool,
    },
}

type OutputsResult = Result<OutputsCode, Unsupported>;
type BatchResult = Result<BatchCode, NoBatchCode>;

/// The code of a kernel besides its first.
pub(crate) struct LazyCode {
    recompiler: Box<dyn Recompiler>,
    /// Where compilation is left to; without it, the run that wants code compiles it.
    queue: Option<Queue>,
    /// Set while runs end soon: then they compile nothing.
    cancel: CancelFlag,
    /// Runs that deoptimised.
    pub(super) deoptimised: Hotness,
    /// Vertices in batches that wanted code which was not compiled.
    pub(super) batched: Hotness,
    exact: Lazy<Result<Code, Unsupported>>,
    /// By whether products are exact.
    outputs: [Lazy<OutputsResult>; 2],
    /// By whether two groups are interleaved.
    batch: [Lazy<BatchResult>; 2],
}

impl LazyCode {
    /// Nothing is compiled yet.
    pub(crate) fn new(recompiler: Box<dyn Recompiler>, queue: Option<Queue>, cancel: &CancelFlag) -> Arc<LazyCode> {
        let (deoptimised, batched, exact, outputs, batch) = Default::default();
        Arc::new(LazyCode { recompiler, queue, cancel: cancel.clone(), deoptimised, batched, exact, outputs, batch })
    }

    fn place<'a>(&'a self, priority: Priority<'a>) -> Option<(&'a Queue, Priority<'a>)> {
        self.queue.as_ref().map(|queue| (queue, priority))
    }

    /// Whether this code is missing and no run compiles it now.
    fn declines<T>(&self, code: &Lazy<T>) -> bool {
        code.get().is_none() && self.cancel.is_set()
    }

    pub(crate) fn recompiler(&self) -> &dyn Recompiler {
        &*self.recompiler
    }

    /// The exact code, or why there is none. `None` while the queue's threads are about to compile
    /// it, and in a cancelled run.
    pub(crate) fn exact(self: &Arc<LazyCode>) -> Option<&Result<Code, Unsupported>> {
        if self.declines(&self.exact) {
            return None;
        }
        self.exact.get_or_request(self, self.place(Priority::TierUp(&self.deoptimised)), |this| {
            this.exact.get_or_init(|| this.recompiler.exact_code())
        })
    }

    /// Compiles this code, unless it exists. Its bytes, or why there is none.
    pub(super) fn compile(self: &Arc<LazyCode>, kind: LazyKind) -> Result<usize, String> {
        let code = match kind {
            LazyKind::Exact => self.exact().map(|code| code.as_ref().map_err(Unsupported::to_string)),
            LazyKind::Outputs { exact } => {
                let outputs = self.outputs(exact);
                outputs.map(|outputs| outputs.as_ref().map(|o| &o.code).map_err(Unsupported::to_string))
            }
            LazyKind::Batch { interleaved } => {
                let batch = self.batch(BatchVariant { interleaved });
                batch.map(|batch| batch.as_ref().map(|b| &b.code).map_err(NoBatchCode::to_string))
            }
        };
        code.ok_or("the queue's threads compile it, or the engine is cancelled")?.map(Code::len)
    }

    /// The exact code, if it is compiled.
    pub(crate) fn compiled_exact(&self) -> Option<&Code> {
        self.exact.get()?.as_ref().ok()
    }

    /// Outputs-only code, or why there is none. `None` as of
    /// [`LazyCode::exact`].
    pub(crate) fn outputs(self: &Arc<LazyCode>, exact: bool) -> Option<&OutputsResult> {
        if self.declines(&self.outputs[usize::from(exact)]) {
            return None;
        }
        self.outputs[usize::from(exact)].get_or_request(
            self,
            self.place(Priority::Improve(&self.batched)),
            move |this| this.outputs[usize::from(exact)].get_or_init(|| this.recompiler.outputs_code(exact)),
        )
    }

    /// Outputs-only code, if it was compiled.
    #[inline]
    pub(crate) fn compiled_outputs(&self, exact: bool) -> Option<&OutputsResult> {
        self.outputs[usize::from(exact)].get()
    }

    /// Bytes of all outputs-only code that was compiled.
    pub(crate) fn outputs_bytes(&self) -> usize {
        self.outputs.iter().filter_map(Lazy::get).flatten().map(|outputs| outputs.code.len()).sum()
    }

    fn slot(&self, variant: BatchVariant) -> &Lazy<BatchResult> {
        &self.batch[usize::from(variant.interleaved)]
    }

    /// The batch code, or why there is none. `None` as of
    /// [`LazyCode::exact`].
    pub(crate) fn batch(self: &Arc<LazyCode>, variant: BatchVariant) -> Option<&BatchResult> {
        if self.declines(self.slot(variant)) {
            return None;
        }
        self.slot(variant).get_or_request(self, self.place(Priority::Improve(&self.batched)), move |this| {
            this.slot(variant).get_or_init(|| this.recompiler.batch_code(variant))
        })
    }

    /// The batch code, if it was compiled.
    #[inline]
    pub(crate) fn compiled_batch(&self, variant: BatchVariant) -> Option<&BatchResult> {
        self.slot(variant).get()
    }

    /// Bytes of all batch code that was compiled.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.all_compiled_batch().flatten().map(|batch| batch.code.len()).sum()
    }

    /// All batch code that was compiled, with the reasons where it failed.
    pub(crate) fn all_compiled_batch(&self) -> impl Iterator<Item = &BatchResult> {
        self.batch.iter().filter_map(Lazy::get)
    }
}
