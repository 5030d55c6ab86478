//! Machine code of one entry -> runs: which code serves a run or a batch, and what is done when it asks to be deoptimised.
//!
//! Invariant: the unit, the outputs and what is emitted are as if every vertex had run alone, one after the other, on exact code.
//! It must not know how code is made.

use super::call::Code;
use super::lazy_code::{BatchCode, LazyCode, Recompiler};
use super::run_memory::RunMemory;
use crate::background::Queue;
use crate::jit::abi::GROUP;
use crate::jit::batch::policy::{self, BatchVariant, Thresholds};
use crate::jit::stages::Timings;
use crate::kernel::{Kernel, KernelStats, batch_with_host_copies, run_sequentially, with_host_copies, with_unit_copy};
use crate::layout::{Host, HostEmitter, Image, Layout};
use crate::state::{Batch, Emitter, Exit, Uniforms, Unit, Vec4, VertexLayout};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Deoptimised runs after which a kernel stops speculating, for good: its inputs really hold infinities or NaN, or, in float24, numbers
/// that are not float24.
pub(crate) const MAX_DEOPTIMISATIONS: u32 = 4096;

/// One entry as native code.
pub struct NativeKernel {
    /// The code that runs first.
    pub(crate) code: Code,
    /// Whether `code` speculates and may ask to be deoptimised.
    pub(crate) speculates: bool,
    lazy: Arc<LazyCode>,
    thresholds: Thresholds,
    deoptimisations: AtomicU32,
    /// Vertices in batches so far, up to where it no longer matters.
    batched: AtomicU32,
    /// Groups that ran to their end.
    groups: AtomicU32,
    /// Groups that bailed out.
    pub(super) bailouts: AtomicU32,
    /// The `v` registers that the code reads; bit n is `vn`.
    reads: u16,
    /// What the code was compiled for; `None` is [`Unit`].
    layout: Option<Layout>,
    timings: Timings,
    blocks: usize,
}

/// What a kernel is built of.
pub(crate) struct Parts {
    /// The code that runs first.
    pub(crate) code: Code,
    /// Whether it speculates and may deoptimise.
    pub(crate) speculates: bool,
    pub(crate) recompiler: Box<dyn Recompiler>,
    pub(crate) queue: Option<Queue>,
    pub(crate) thresholds: Thresholds,
    /// The `v` registers that the code reads; bit n is `vn`.
    pub(crate) reads: u16,
    pub(crate) layout: Option<Layout>,
    pub(crate) timings: Timings,
    /// Blocks of the control-flow graph.
    pub(crate) blocks: usize,
}

impl NativeKernel {
    pub(crate) fn new(parts: Parts) -> NativeKernel {
        let Parts { code, speculates, recompiler, queue, thresholds, reads, layout, timings, blocks } = parts;
        let lazy = LazyCode::new(recompiler, queue);
        let (deoptimisations, batched, groups, bailouts) = Default::default();
        NativeKernel {
            code,
            speculates,
            lazy,
            thresholds,
            deoptimisations,
            batched,
            groups,
            bailouts,
            reads,
            layout,
            timings,
            blocks,
        }
    }

    /// How long compiling took.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Blocks of the control-flow graph.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// How many runs were deoptimised by exact code.
    pub fn deoptimisations(&self) -> u32 {
        self.deoptimisations.load(Ordering::Relaxed)
    }

    /// How many groups of vertices ran side by side, and how many were given up and run one by one.
    pub fn groups(&self) -> (u32, u32) {
        (self.groups.load(Ordering::Relaxed), self.bailouts.load(Ordering::Relaxed))
    }

    /// Interleave have run side by side.
    pub(super) fn count_groups(&self, more: u32) {
        match self.bailouts.load(Ordering::Relaxed) {
            // Not added at once, which would wait for all that was just stored: another thread's may get lost, as long as the
            // number is good for nothing but to be shown.
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
    pub(super) fn batch_code(&self, count: usize, input_mask: u16, layout: VertexLayout) -> Option<&BatchCode> {
        if !self.thresholds.runs_groups(count) || self.reads & !input_mask != 0 {
            return None;
        }
        let variant = BatchVariant { layout, interleaved: self.thresholds.interleaves(count) };
        if let Some(code) = self.lazy.compiled_batch(variant) {
            return code.as_ref().ok().filter(|_| !self.bails_out_often());
        }
        self.first_batch_code(count, variant)
    }

    /// The same, as long as that variant is not compiled.
    #[cold]
    fn first_batch_code(&self, count: usize, variant: BatchVariant) -> Option<&BatchCode> {
        let before = self.batched.fetch_add(count as u32, Ordering::Relaxed);
        if !self.thresholds.compiles_after(before) {
            return None;
        }
        let code = self.lazy.batch(variant);
        // Smaller batches may have compiled code without interleaving, which serves meanwhile.
        let plain = || self.lazy.compiled_batch(BatchVariant { interleaved: false, ..variant });
        let meanwhile = || plain().filter(|_| variant.interleaved && !self.bails_out_often());
        code.or_else(meanwhile)?.as_ref().ok()
    }

    /// One run on memory of the layout that the code is for.
    #[inline]
    pub(super) fn run_with(
        &self,
        place: &mut RunMemory<'_>,
        inputs: Option<&[Vec4]>,
        uniforms_seen: &mut bool,
    ) -> Exit {
        if self.speculation_pays()
            && let Some(exit) = self.code.run(place, inputs, *uniforms_seen)
        {
            *uniforms_seen = true;
            return exit;
        }
        self.deoptimise(place, inputs)
    }

    /// Whether the code that runs first should still be tried.
    fn speculation_pays(&self) -> bool {
        !self.speculates || self.deoptimisations.load(Ordering::Relaxed) < MAX_DEOPTIMISATIONS
    }

    #[cold]
    fn deoptimise(&self, place: &mut RunMemory<'_>, inputs: Option<&[Vec4]>) -> Exit {
        self.deoptimisations.fetch_add(u32::from(self.deoptimisations() < MAX_DEOPTIMISATIONS), Ordering::Relaxed);
        if let Some(Ok(code)) = self.lazy.exact()
            && let Some(exit) = code.run(place, inputs, false)
        {
            return exit;
        }
        place.interpret(&*self.lazy.recompiler().last_resort(), self.reads, inputs)
    }

    /// A batch on memory of the layout that the code is for.
    #[inline]
    fn run_batch_with(&self, place: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> Exit {
        if batch.layout == VertexLayout::Soa {
            return self.run_components(place, batch);
        }
        let count = batch.len();
        let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
        let Some(lanes) = self.batch_code(count, taken, VertexLayout::Aos) else {
            return match batch.preserve_unit {
                false => Run::new(self, place, batch).some(batch, 0..count),
                true => place.keeping_unit(|place| Run::new(self, place, batch).more(batch, 0..count)),
            };
        };
        if batch.preserve_unit {
            return self.run_batch_apart(lanes, place, batch);
        }
        let done = lanes.code.run_batch(place, batch, 0..count / GROUP * GROUP, wanted);
        if done < count || wanted & !lanes.writes != 0 {
            return Run::new(self, place, batch).behind_first_groups(lanes, batch, done);
        }
        // Nearly all batches come here, and short ones feel each instruction.
        self.count_groups((count / GROUP) as u32);
        let last = &batch.inputs[count - 1];
        place.take_inputs(taken, last);
        // It ended, and its outputs are there: this is for the unit.
        self.run_with(place, Some(last), &mut false);
        Exit::End
    }

    /// The same of a batch that leaves the unit as it is, which code for batches does.
    fn run_batch_apart(&self, lanes: &BatchCode, place: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> Exit {
        let (count, wanted) = (batch.len(), batch.outputs_wanted());
        let whole = if lanes.code.takes_any_count() { count } else { count / GROUP * GROUP };
        let done = lanes.code.run_batch(place, batch, 0..whole, wanted);
        // What is no group is one with some that have run already: they see no other vertex, so they do the same again.
        let rest = usize::from(whole < count);
        let rest_ran =
            done < whole || rest == 0 || lanes.code.run_batch(place, batch, count - GROUP..count, wanted) == GROUP;
        if done < whole || !rest_ran {
            if done == whole {
                self.bailouts.fetch_add(1, Ordering::Relaxed);
            }
            return place.keeping_unit(|place| Run::new(self, place, batch).behind_first_groups(lanes, batch, done));
        }
        self.count_groups(count.div_ceil(GROUP) as u32);
        let same = wanted & !lanes.writes;
        if same != 0 {
            (0..count).for_each(|n| place.copy_outputs(same, &mut batch.outputs[n]));
        }
        Exit::End
    }

    /// Whether the code is for this memory.
    fn is_for(&self, host: &Host<'_>) -> bool {
        let layout = self.layout.as_ref();
        layout.is_some_and(|own| std::ptr::eq(own, host.layout()) || own == host.layout())
    }
}

impl Kernel for NativeKernel {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        match self.layout {
            None => self.run_with(&mut RunMemory::Own { uniforms, unit, emitter }, None, &mut false),
            Some(layout) => Image::run(layout, uniforms, unit, emitter, |host, emitter| self.run_on(host, emitter)),
        }
    }

    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> Exit {
        let stays = batch.preserve_unit;
        match self.layout {
            // What is done to run many well would take longer than they do.
            None if batch.len() < GROUP => run_sequentially(unit, batch, |unit| {
                self.run_with(&mut RunMemory::Own { uniforms, unit, emitter }, None, &mut false)
            }),
            None => self.run_batch_with(&mut RunMemory::Own { uniforms, unit, emitter }, batch),
            Some(layout) => {
                let mut run = |unit: &mut Unit| {
                    Image::run(layout, uniforms, unit, emitter, |host, e| self.run_batch_on(host, batch, e))
                };
                // A host's memory lacks what is only in a unit.
                if stays { with_unit_copy(unit, run) } else { run(unit) }
            }
        }
    }

    fn run_on(&self, host: &Host<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if self.is_for(host) {
            return self.run_with(&mut RunMemory::Host { host, emitter }, None, &mut false);
        }
        with_host_copies(host, emitter, |uniforms, unit, emitter| self.run(uniforms, unit, emitter))
    }

    fn run_batch_on(&self, host: &Host<'_>, batch: &mut Batch<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if self.is_for(host) {
            return self.run_batch_with(&mut RunMemory::Host { host, emitter }, batch);
        }
        batch_with_host_copies(host, batch, emitter, |uniforms, unit, batch, emitter| {
            self.run_batch(uniforms, unit, batch, emitter)
        })
    }

    fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    fn stats(&self) -> KernelStats {
        let (groups, bailouts) = self.groups();
        let why = self.lazy.all_compiled_batch().find_map(|made| made.as_ref().err());
        let sequential_reason = why.map(|why| why.to_string());
        KernelStats { deoptimised: self.deoptimisations(), groups, bailouts, sequential_reason }
    }

    fn held_bytes(&self) -> usize {
        // Code in whole pages: this one, an exact one that may follow, and batch code, which is about twice as large, and twice again with
        // two groups interleaved; and what they would be compiled from.
        let functions = 1 + usize::from(self.speculates) + self.thresholds.batch_functions();
        self.code.len().next_multiple_of(4096) * functions + self.lazy.recompiler().held_bytes() + size_of::<Self>()
    }

    fn native_bytes(&self) -> usize {
        let exact = self.lazy.compiled_exact().map_or(0, Code::len);
        let batches: usize = self.lazy.all_compiled_batch().flatten().map(|s| s.code.len()).sum();
        self.code.len() + exact + batches
    }
}

/// A batch that is being run.
struct Run<'a, 'p> {
    kernel: &'a NativeKernel,
    place: &'a mut RunMemory<'p>,
    /// Registers that inputs have, and outputs want.
    taken: u16,
    wanted: u16,
    /// Whether inputs have all that the code reads: then it reads them there.
    whole: bool,
    uniforms_seen: bool,
    result: Exit,
    count: usize,
}

impl<'a, 'p> Run<'a, 'p> {
    #[inline]
    fn new(kernel: &'a NativeKernel, place: &'a mut RunMemory<'p>, batch: &Batch<'_>) -> Run<'a, 'p> {
        let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
        let whole = kernel.reads & !taken == 0;
        Run { kernel, place, taken, wanted, whole, uniforms_seen: false, result: Exit::End, count: batch.len() }
    }

    /// Some vertices, one after the other. The first exit of all so far that is not [`Exit::End`].
    // A batch of a few on a host's memory would notice if a run's fields went through memory.
    #[inline(always)]
    fn some(&mut self, batch: &mut Batch<'_>, range: Range<usize>) -> Exit {
        for n in range {
            let exit = self.one(&batch.inputs[n], n + 1 == self.count);
            self.place.copy_outputs(self.wanted, &mut batch.outputs[n]);
            if self.result == Exit::End {
                self.result = exit;
            }
        }
        self.result
    }

    /// One vertex. Only the last one's inputs must be in the unit.
    #[inline]
    fn one(&mut self, input: &[Vec4], last: bool) -> Exit {
        if !self.whole || last {
            self.place.take_inputs(self.taken, input);
        }
        let inputs = self.whole.then_some(input);
        self.kernel.run_with(self.place, inputs, &mut self.uniforms_seen)
    }

    /// What is left when the first `done` vertices have run side by side, in whole groups: as many groups as there are, or as it
    /// pays to run, and what is no group.
    #[inline(never)]
    fn behind_first_groups(&mut self, lanes: &BatchCode, batch: &mut Batch<'_>, mut done: usize) -> Exit {
        let groups_end = self.count / GROUP * GROUP;
        // What no run writes is copied from the unit.
        let same = self.wanted & !lanes.writes;
        let mut at = 0;
        // Whether the unit is as the vertex before `at` leaves it.
        let mut known = true;
        loop {
            if same != 0 {
                (at..at + done).for_each(|n| self.place.copy_outputs(same, &mut batch.outputs[n]));
            }
            self.kernel.count_groups((done / GROUP) as u32);
            known &= done == 0;
            at += done;
            if at == groups_end {
                break;
            }
            self.kernel.bailouts.fetch_add(1, Ordering::Relaxed);
            self.know(&mut known, batch, at);
            self.more(batch, at..at + GROUP);
            at += GROUP;
            if at == groups_end || self.kernel.bails_out_often() {
                break;
            }
            done = lanes.code.run_batch(self.place, batch, at..groups_end, self.wanted);
        }
        // The next one finds the unit as the last of these leaves it, or as good as that.
        if at == self.count || !lanes.always_ends {
            self.know(&mut known, batch, at);
        }
        self.more(batch, at..self.count)
    }

    /// Some vertices besides groups: once, not in each place.
    #[inline(never)]
    fn more(&mut self, batch: &mut Batch<'_>, range: Range<usize>) -> Exit {
        self.some(batch, range)
    }

    /// Makes the unit what the vertex before `at` leaves, by running that alone.
    fn know(&mut self, known: &mut bool, batch: &Batch<'_>, at: usize) {
        if !std::mem::replace(known, true) {
            // It ended, and its outputs are there.
            self.one(&batch.inputs[at - 1], at == self.count);
        }
    }
}
