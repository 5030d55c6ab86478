//! Machine code of one entry -> runs: which code serves a run or a batch, deoptimisation, and
//! bailouts.
//!
//! Invariant: the unit, the outputs and the emitted vertices are as if every vertex had run alone,
//! in order, on exact code. The kernel does not know how code is compiled.

use super::call::{self, Code, Undone};
use super::last_writers::LastWriters;
use super::lazy_code::{BatchCode, LazyCode, LazyKind};
use crate::fp_mode::{self, DefaultMode};
use crate::jit::abi::GROUP;
use crate::jit::batch::policy::{self, BatchVariant, NoBatchCode, Thresholds};
use crate::jit::stages::Timings;
use crate::kernel::cancel::{CancelFlag, CancelReader};
use crate::kernel::direct::DirectFunctions;
use crate::kernel::{Kernel, KernelStats, NextKernel};
use crate::layout::{HostEmitter, HostMemory, Layout};
use crate::state::{Batch, BatchExit, Exit, Vec4};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Deoptimised runs after which a kernel stops speculating, for good: its inputs really hold
/// infinities or NaN, or, in float24, numbers that are not float24.
pub(crate) const MAX_DEOPTIMISATIONS: u32 = 4096;

const SERVES_EVERY_RUN: &str = "the kernel after native code serves every run";

/// One entry as native code. It does not serve memory of other layouts, nor runs that deoptimise
/// while there is no exact code.
pub struct NativeKernel {
    /// The code that runs first.
    pub(crate) code: Code,
    /// Whether `code` speculates and may deoptimise.
    pub(crate) speculates: bool,
    pub(in crate::jit) lazy: Arc<LazyCode>,
    pub(in crate::jit) thresholds: Thresholds,
    /// Groups that ran to their end.
    pub(in crate::jit) groups: AtomicU32,
    /// Groups that bailed out.
    pub(in crate::jit) bailouts: AtomicU32,
    /// The `v` registers that the code reads; bit n is `vn`.
    pub(in crate::jit) reads: u16,
    /// Whether outputs-only code may be compiled: the program does not emit.
    pub(in crate::jit) has_outputs_code: bool,
    /// What the code was compiled for; `None` is the layout of a unit.
    pub(in crate::jit) layout: Option<Layout>,
    pub(in crate::jit) timings: Timings,
    /// Blocks of the control-flow graph.
    pub(in crate::jit) blocks: usize,
    /// Ends runs and batches. Code reads it at its address.
    pub(in crate::jit) cancel: CancelFlag,
}

impl NativeKernel {
    /// How long compiling took.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Blocks of the control-flow graph.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Compiles this code now, unless it exists. Its bytes, or why there is none.
    #[doc(hidden)]
    pub fn compile_lazy(&self, kind: LazyKind) -> Result<usize, String> {
        match kind {
            LazyKind::Outputs { .. } if !self.has_outputs_code => Err("no run wants it".into()),
            kind => self.lazy.compile(kind),
        }
    }

    /// Runs that deoptimised, up to the number that ends speculation.
    pub fn deoptimisations(&self) -> u32 {
        self.lazy.deoptimised.get()
    }

    /// Groups that ran to their end, and groups that bailed out.
    pub fn groups(&self) -> (u32, u32) {
        (self.groups.load(Ordering::Relaxed), self.bailouts.load(Ordering::Relaxed))
    }

    /// Counts groups that ran to their end.
    pub(super) fn count_groups(&self, more: u32) {
        match self.bailouts.load(Ordering::Relaxed) {
            // A locked addition would wait for the stores of the batch. The count of another thread
            // may get lost; without bailouts it serves statistics only.
            0 => self.groups.store(self.groups.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed),
            _ => _ = self.groups.fetch_add(more, Ordering::Relaxed),
        }
    }

    /// Whether bailouts cost more than groups save.
    pub(super) fn bails_out_often(&self) -> bool {
        let (groups, bailouts) = self.groups();
        policy::bails_out_often(groups, bailouts)
    }

    /// The batch code for `count` vertices with these inputs, if there is any and it pays.
    #[inline]
    pub(super) fn batch_code(&self, count: usize, input_mask: u16) -> Option<&BatchCode> {
        if !self.thresholds.runs_groups(count) || self.reads & !input_mask != 0 {
            return None;
        }
        let mut variant = BatchVariant { interleaved: self.thresholds.interleaves(count) };
        if variant.interleaved && matches!(self.lazy.compiled_batch(variant), Some(Err(NoBatchCode::TooLarge))) {
            variant.interleaved = false;
        }
        match self.lazy.compiled_batch(variant) {
            Some(code) => code.as_ref().ok().filter(|_| !self.bails_out_often()),
            None => self.first_batch_code(count, variant),
        }
    }

    /// [`NativeKernel::batch_code`] while that variant is not compiled.
    #[cold]
    fn first_batch_code(&self, count: usize, variant: BatchVariant) -> Option<&BatchCode> {
        let before = self.count_batched(count);
        if !self.thresholds.compiles_after(before) {
            return None;
        }
        // Batches of other sizes may have compiled the other variant, which serves until then.
        let other = BatchVariant { interleaved: !variant.interleaved };
        let meanwhile = || self.lazy.compiled_batch(other).filter(|code| code.is_ok() && !self.bails_out_often());
        let code = match meanwhile() {
            Some(_) if !self.thresholds.compiles_second_after(before) => None,
            _ => self.lazy.batch(variant),
        };
        code.or_else(meanwhile)?.as_ref().ok()
    }

    /// Counts the vertices of a batch that wants code which is not compiled; how many there were
    /// before.
    fn count_batched(&self, count: usize) -> u32 {
        self.lazy.batched.add(count as u32)
    }

    /// [`NativeKernel::count_batched`]; whether to compile the code.
    pub(super) fn may_compile_for_batches(&self, count: usize) -> bool {
        self.thresholds.compiles_after(self.count_batched(count))
    }

    /// One run on memory that fits the code, from `inputs` or those of the unit. `None`: there is no
    /// exact code, and nothing was written.
    #[inline]
    fn run_with(
        &self,
        memory: &HostMemory<'_>,
        emitter: &mut dyn HostEmitter,
        inputs: Option<&[Vec4]>,
        uniforms_checked: &mut bool,
    ) -> Option<Exit> {
        if !self.speculation_pays() {
            return self.deoptimise(memory, emitter, inputs, Undone::Deoptimised);
        }
        match self.code.run(memory, emitter, inputs, *uniforms_checked) {
            Ok(exit) => {
                *uniforms_checked = true;
                Some(exit)
            }
            Err(why) => self.deoptimise(memory, emitter, inputs, why),
        }
    }

    /// Whether the first code still runs: it does not speculate, or few runs deoptimised.
    pub(super) fn speculation_pays(&self) -> bool {
        !self.speculates || self.deoptimisations() < MAX_DEOPTIMISATIONS
    }

    /// The run again, on exact code. The first code has written nothing.
    #[cold]
    fn deoptimise(
        &self,
        memory: &HostMemory<'_>,
        emitter: &mut dyn HostEmitter,
        inputs: Option<&[Vec4]>,
        why: Undone,
    ) -> Option<Exit> {
        if why == Undone::Deoptimised {
            self.count_deoptimisation();
        }
        self.lazy.exact()?.as_ref().ok()?.run(memory, emitter, inputs, false).ok()
    }

    pub(super) fn count_deoptimisation(&self) {
        self.lazy.deoptimised.add(u32::from(self.deoptimisations() < MAX_DEOPTIMISATIONS));
    }

    /// A batch on memory that fits the code.
    #[inline]
    fn run_batch_with(&self, context: &mut BatchContext<'_, '_>, batch: &mut Batch<'_>) -> BatchExit {
        let memory = context.memory;
        if batch.preserve_unit
            && self.has_outputs_code
            && let Some(exit) = self.run_outputs_batch(memory, batch)
        {
            return BatchExit { exit, ran: batch.len() };
        }
        let count = batch.len();
        let (input_mask, output_mask) = (batch.inputs_taken(), batch.outputs_wanted());
        let code = match self.batch_code(count, input_mask) {
            Some(code) if code.emits.is_none() => Some(code),
            // Groups of invocations emit, and that is all.
            Some(code) if output_mask == 0 && !batch.preserve_unit => {
                return BatchRun::new(self, context, batch).run_emitting(code, batch);
            }
            _ => None,
        };
        let Some(code) = code else {
            return match batch.preserve_unit {
                false => BatchRun::new(self, context, batch).in_order(batch, 0..count),
                true => {
                    memory.preserving_unit(|| BatchRun::new(self, context, batch).in_order_outlined(batch, 0..count))
                }
            };
        };
        if batch.preserve_unit {
            return self.run_batch_preserving_unit(code, context, batch);
        }
        let mut writers = LastWriters::default();
        let done = code.run(memory, batch, 0..count / GROUP * GROUP, output_mask, &mut writers);
        if done < count || output_mask & !code.writes != 0 || code.has_kept_components() {
            return BatchRun::new(self, context, batch).finish(code, batch, done, writers);
        }
        // The usual end of a batch; short ones feel each instruction.
        self.count_groups((count / GROUP) as u32);
        // The last vertex again, for the unit: batch code writes outputs only.
        BatchRun::new(self, context, batch).vertex(&batch.inputs[count - 1], true);
        BatchExit { exit: Exit::End, ran: count }
    }

    /// A batch that preserves the unit, which batch code does by itself.
    fn run_batch_preserving_unit(
        &self,
        code: &BatchCode,
        context: &mut BatchContext<'_, '_>,
        batch: &mut Batch<'_>,
    ) -> BatchExit {
        let memory = context.memory;
        let (count, output_mask) = (batch.len(), batch.outputs_wanted());
        let whole = if code.takes_any_count() { count } else { count / GROUP * GROUP };
        let mut writers = LastWriters::default();
        let done = code.run(memory, batch, 0..whole, output_mask, &mut writers);
        // The tail overlaps the last full group. Vertices are independent, so computing some again
        // is harmless.
        let tail_ran = done < whole
            || whole == count
            || code.run(memory, batch, count - GROUP..count, output_mask, &mut writers) == GROUP;
        if done < whole || !tail_ran {
            if done == whole {
                self.bailouts.fetch_add(1, Ordering::Relaxed);
            }
            return memory.preserving_unit(|| BatchRun::new(self, context, batch).finish(code, batch, done, writers));
        }
        self.count_groups(count.div_ceil(GROUP) as u32);
        let unwritten = output_mask & !code.writes;
        if unwritten != 0 {
            (0..count).for_each(|n| memory.copy_outputs(unwritten, &mut batch.outputs[n]));
        }
        BatchExit { exit: Exit::End, ran: count }
    }
}

impl Kernel for NativeKernel {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        fp_mode::assert_default();
        if !self.code.fits(memory) {
            return None;
        }
        self.run_with(memory, emitter, None, &mut false)
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        next: &dyn NextKernel,
    ) -> BatchExit {
        if !self.code.fits(memory) {
            return next.kernel().run_batch_on(memory, batch, emitter, next);
        }
        let _mode = DefaultMode::enter();
        self.run_batch_with(&mut BatchContext { memory, emitter, next }, batch)
    }

    fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    fn direct_functions(&self) -> DirectFunctions {
        let exact = !self.speculation_pays();
        let run = if exact { self.lazy.compiled_exact() } else { Some(&self.code) };
        let outputs = self.lazy.compiled_outputs(exact).and_then(|code| code.as_ref().ok());
        call::direct(run, outputs.map(|outputs| (&outputs.code, outputs.writes)), self.reads)
    }

    fn stats(&self) -> KernelStats {
        let (groups, bailouts) = self.groups();
        // Where two groups are too large, one may serve.
        let grouped = self.lazy.all_compiled_batch().any(|made| made.is_ok());
        let why = self.lazy.all_compiled_batch().find_map(|made| made.as_ref().err()).filter(|_| !grouped);
        let sequential_reason = why.map(|why| why.to_string());
        let mut bailout_reasons: Vec<(&str, u32)> = Vec::new();
        for (n, reason) in self.lazy.all_compiled_batch().flatten().flat_map(|code| code.bailouts.named().enumerate()) {
            match bailout_reasons.get_mut(n) {
                Some((_, count)) => *count += reason.1,
                None => bailout_reasons.push(reason),
            }
        }
        let kept = self.lazy.all_compiled_batch().flatten().map(BatchCode::kept).max().unwrap_or_default();
        KernelStats {
            deoptimised: self.deoptimisations(),
            groups,
            bailouts,
            bailout_reasons,
            kept_sets: kept.0 as u32,
            kept_outputs: kept.1 as u32,
            sequential_reason,
        }
    }

    fn compile_time(&self) -> Duration {
        self.timings.total()
    }

    fn held_bytes(&self) -> usize {
        // Code in whole pages: this one, an exact one that may follow, either again for outputs only,
        // and batch code, which is about twice as large, and twice again with two groups
        // interleaved; and what they would be compiled from.
        let vertex_functions = (1 + usize::from(self.speculates)) << usize::from(self.has_outputs_code);
        let functions = vertex_functions + self.thresholds.batch_functions();
        self.code.len().next_multiple_of(4096) * functions + self.lazy.recompiler().held_bytes() + size_of::<Self>()
    }

    fn native_bytes(&self) -> usize {
        let exact = self.lazy.compiled_exact().map_or(0, Code::len);
        self.code.len() + exact + self.lazy.outputs_bytes() + self.lazy.batch_bytes()
    }
}

/// What the vertices of a batch run on.
pub(super) struct BatchContext<'a, 'p> {
    pub(super) memory: &'a HostMemory<'p>,
    pub(super) emitter: &'a mut dyn HostEmitter,
    /// The kernel for runs that deoptimise while there is no exact code.
    pub(super) next: &'a dyn NextKernel,
}

/// A batch whose vertices run in order, or partly so.
pub(super) struct BatchRun<'a, 'r, 'p> {
    pub(super) kernel: &'a NativeKernel,
    pub(super) cancel: CancelReader<'a>,
    pub(super) context: &'a mut BatchContext<'r, 'p>,
    /// Registers that the batch provides, and that it wants.
    input_mask: u16,
    output_mask: u16,
    /// Whether the batch provides all registers that the code reads: then the code reads them
    /// there.
    complete: bool,
    uniforms_checked: bool,
    pub(super) result: BatchExit,
    pub(super) count: usize,
}

impl<'a, 'r, 'p> BatchRun<'a, 'r, 'p> {
    #[inline]
    pub(super) fn new(
        kernel: &'a NativeKernel,
        context: &'a mut BatchContext<'r, 'p>,
        batch: &Batch<'_>,
    ) -> BatchRun<'a, 'r, 'p> {
        let (input_mask, output_mask) = (batch.inputs_taken(), batch.outputs_wanted());
        let complete = kernel.reads & !input_mask == 0;
        let (cancel, count) = (kernel.cancel.reader(), batch.len());
        let (uniforms_checked, result) = (false, BatchExit::NONE);
        BatchRun { kernel, cancel, context, input_mask, output_mask, complete, uniforms_checked, result, count }
    }

    /// Runs vertices in order, up to one that ends the batch. How all so far ended.
    // Inlined: a small batch on a host's memory would notice if these fields went through memory.
    #[inline(always)]
    fn in_order(&mut self, batch: &mut Batch<'_>, range: Range<usize>) -> BatchExit {
        let (input_stride, output_stride) = (batch.inputs.stride(), batch.outputs.stride());
        // Splitting instead of indexing: a batch of two notices the multiplications.
        let mut inputs = &batch.inputs.registers()[range.start * input_stride..];
        let mut outputs = &mut batch.outputs.registers()[range.start * output_stride..];
        for n in range {
            if self.cancel.is_set() {
                self.result.cancel();
                break;
            }
            let (input, output);
            (input, inputs) = inputs.split_at(input_stride);
            (output, outputs) = outputs.split_at_mut(output_stride);
            let exit = self.vertex(input, n + 1 == self.count);
            self.context.memory.copy_outputs(self.output_mask, output);
            if !self.result.count(exit) {
                // It is the last one.
                self.context.memory.take_inputs(self.input_mask, input);
                break;
            }
        }
        self.result
    }

    /// Runs one vertex. Only the last one's inputs must be in the unit.
    #[inline]
    fn vertex(&mut self, input: &[Vec4], last: bool) -> Exit {
        if !self.complete || last {
            self.context.memory.take_inputs(self.input_mask, input);
        }
        let inputs = self.complete.then_some(input);
        match self.kernel.run_with(self.context.memory, self.context.emitter, inputs, &mut self.uniforms_checked) {
            Some(exit) => exit,
            None => self.vertex_on_next(input),
        }
    }

    /// A vertex on the next kernel, which finds its inputs in the unit.
    #[cold]
    fn vertex_on_next(&mut self, input: &[Vec4]) -> Exit {
        let BatchContext { memory, ref mut emitter, next } = *self.context;
        memory.take_inputs(self.input_mask, input);
        next.kernel().run_on(memory, *emitter).expect(SERVES_EVERY_RUN)
    }

    /// The rest of a batch whose first `done` vertices ran as groups: the vertices of each group
    /// that bails out in order, further groups as long as bailouts are rare, and the tail in order.
    #[inline(never)]
    fn finish(
        &mut self,
        code: &BatchCode,
        batch: &mut Batch<'_>,
        mut done: usize,
        mut writers: LastWriters,
    ) -> BatchExit {
        let groups_end = self.count / GROUP * GROUP;
        // Outputs that no run writes are the unit's.
        let unwritten = self.output_mask & !code.writes;
        let mut at = 0;
        // Whether the unit is as the vertex before `at` leaves it.
        let mut unit_is_current = true;
        loop {
            if unwritten != 0 {
                (at..at + done).for_each(|n| self.context.memory.copy_outputs(unwritten, &mut batch.outputs[n]));
            }
            self.kernel.count_groups((done / GROUP) as u32);
            self.result.count_group(Exit::End, done);
            unit_is_current &= done == 0;
            at += done;
            if at == groups_end {
                break;
            }
            self.kernel.bailouts.fetch_add(1, Ordering::Relaxed);
            self.update_unit(&mut unit_is_current, &mut writers, batch, at);
            if !self.in_order_outlined(batch, at..at + GROUP).goes_on() {
                return self.result;
            }
            at += GROUP;
            if at == groups_end || self.kernel.bails_out_often() {
                break;
            }
            done = code.run(self.context.memory, batch, at..groups_end, self.output_mask, &mut writers);
        }
        // The next vertex finds the unit as the last of these leaves it. If every run ends and writes
        // the same components, it does not depend on the unit.
        if at == self.count || !code.always_ends || code.has_kept_components() {
            self.update_unit(&mut unit_is_current, &mut writers, batch, at);
        }
        self.in_order_outlined(batch, at..self.count)
    }

    /// [`BatchRun::in_order`] as a call, where speed does not matter.
    #[inline(never)]
    pub(super) fn in_order_outlined(&mut self, batch: &mut Batch<'_>, range: Range<usize>) -> BatchExit {
        self.in_order(batch, range)
    }

    /// Makes the unit what the vertex before `at` leaves, by running the last writers of kept
    /// components and that vertex alone.
    fn update_unit(&mut self, is_current: &mut bool, writers: &mut LastWriters, batch: &Batch<'_>, at: usize) {
        if !std::mem::replace(is_current, true) {
            // They ran to their end in groups, and their outputs are written.
            for n in writers.take_before(at - 1).chain([at - 1]) {
                self.vertex(&batch.inputs[n], n + 1 == self.count);
            }
        }
    }
}
