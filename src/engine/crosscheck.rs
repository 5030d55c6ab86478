//! Runs of a shader -> differences between the tier that serves it and the oracle.
//!
//! A crosscheck compares on copies: the host sees the shader's own run. This file must not depend
//! on how kernels are compiled.

use super::{Event, EventHandler, lock};
use crate::diff::{self, NamedKernel, Work};
use crate::fp_mode::DefaultMode;
use crate::kernel::cancel::CancelFlag;
use crate::kernel::{Kernel, NextKernel};
use crate::layout::{HostEmitter, HostMemory, Image, Layout};
use crate::program::Entry;
use crate::state::{Batch, BatchExit, Exit, Uniforms, Unit, copy_registers};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Compares every Nth run of one shader.
pub(super) struct Crosscheck {
    entry: Entry,
    interval: u64,
    runs: AtomicU64,
    difference: Mutex<Option<String>>,
    events: EventHandler,
    cancel: CancelFlag,
}

/// The kernels to compare.
pub(super) struct Pair<'a> {
    pub(super) tested: Tested<'a>,
    /// The name of its backend.
    pub(super) name: &'static str,
    pub(super) oracle: &'a dyn Kernel,
}

/// The kernels that serve a shader's runs, on memory of the layout that native code is compiled for.
/// Runs are compared on units.
pub(super) struct Tested<'a> {
    pub(super) first: &'a dyn Kernel,
    pub(super) next: &'a dyn NextKernel,
    pub(super) layout: Option<Layout>,
}

impl Tested<'_> {
    fn in_layout<T>(&self, memory: &HostMemory<'_>, work: impl FnOnce(&HostMemory<'_>) -> T) -> T {
        match self.layout {
            Some(layout) => Image::of(memory, layout, work),
            None => work(memory),
        }
    }
}

impl Kernel for Tested<'_> {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        self.in_layout(memory, |memory| {
            self.first.run_on(memory, emitter).or_else(|| self.next.kernel().run_on(memory, emitter))
        })
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        _: &dyn NextKernel,
    ) -> BatchExit {
        self.in_layout(memory, |memory| self.first.run_batch_on(memory, batch, emitter, self.next))
    }
}

/// The number of vertices to compare from each selected run of a batch: enough for two interleaved
/// groups.
const SAMPLE: usize = 16;

impl Crosscheck {
    /// Compares the first of every `interval` runs of `entry`.
    pub(super) fn new(entry: Entry, interval: u32, events: EventHandler, cancel: &CancelFlag) -> Crosscheck {
        let (runs, difference) = Default::default();
        Crosscheck { entry, interval: interval.into(), runs, difference, events, cancel: cancel.clone() }
    }

    /// A description of the first difference.
    pub(super) fn difference(&self) -> Option<String> {
        lock(&self.difference).clone()
    }

    /// Counts a run; whether it is to be compared.
    pub(super) fn selects_next(&self) -> bool {
        self.runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.interval)
    }

    /// Compares one run on copies of the unit.
    pub(super) fn check_run(&self, pair: &Pair<'_>, uniforms: &Uniforms, unit: &Unit) {
        let _mode = DefaultMode::enter();
        let inputs = [unit.v];
        let work = Work { uniforms, unit, inputs: &inputs, input_mask: u16::MAX, output_mask: u16::MAX };
        self.compare(pair, &work);
    }

    /// Counts the runs of a batch, and compares samples on copies of the unit, as single runs and
    /// as batches. A sample begins at each selected run, with the registers that the whole batch
    /// begins with.
    pub(super) fn check_batch(&self, pair: &Pair<'_>, uniforms: &Uniforms, unit: &Unit, batch: &Batch<'_>) {
        let _mode = DefaultMode::enter();
        let count = batch.len();
        let before = self.runs.fetch_add(count as u64, Ordering::Relaxed);
        let first = before.next_multiple_of(self.interval) - before;
        let step = usize::try_from(self.interval).unwrap_or(usize::MAX).max(SAMPLE);
        let Ok(first) = usize::try_from(first) else { return };
        for n in (first..count).step_by(step) {
            if self.cancel.is_set() {
                return;
            }
            let mut inputs = [[[0.0; 4]; 16]; SAMPLE];
            let vertices = n..count.min(n + SAMPLE);
            let (input_mask, output_mask) = (batch.inputs_taken(), batch.outputs_wanted());
            // Only the registers in the mask: a host may have left the others uninitialised.
            vertices.clone().zip(&mut inputs).for_each(|(n, to)| copy_registers(input_mask, &batch.inputs[n], to));
            let inputs = &inputs[..vertices.len()];
            self.compare(pair, &Work { uniforms, unit, inputs, input_mask, output_mask });
        }
    }

    fn compare(&self, pair: &Pair<'_>, work: &Work<'_>) {
        let want = NamedKernel { name: "interp", kernel: pair.oracle };
        let got = NamedKernel { name: pair.name, kernel: &pair.tested };
        let Some(difference) = diff::compare(want, got, work, &mut |_| ()).first else { return };
        let mut known = lock(&self.difference);
        let first = known.is_none();
        let difference = known.get_or_insert_with(|| difference.to_string()).clone();
        // The handler may call `Shader::divergence`.
        drop(known);
        if first {
            (self.events)(&Event::Divergence { entry: self.entry, difference });
        }
    }
}
