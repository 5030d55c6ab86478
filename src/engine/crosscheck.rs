//! A crosscheck: some runs of a shader are done twice, on the interpreter as well, and compared.
//!
//! Works on copies: what the host sees is the shader's own run. It must not know how code is made.

use super::compiled::Compiled;
use super::{Event, EventHandler, lock};
use crate::diff::{self, NamedKernel, Work};
use crate::state::{Batch, Uniforms, Unit};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a shader that is checked needs besides.
pub(super) struct Crosscheck {
    every: u64,
    runs: AtomicU64,
    found: Mutex<Option<String>>,
    events: EventHandler,
}

/// Vertices of a batch that are compared from one that is due on: as many as it takes to run several at once.
const STRETCH: usize = 16;

impl Crosscheck {
    /// One run in so many.
    pub(super) fn new(every: u32, events: EventHandler) -> Crosscheck {
        Crosscheck { every: every.into(), runs: AtomicU64::new(0), found: Mutex::default(), events }
    }

    /// The first difference, in words.
    pub(super) fn found(&self) -> Option<String> {
        lock(&self.found).clone()
    }

    /// Whether the run that now begins is to be compared.
    pub(super) fn due(&self) -> bool {
        self.runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every)
    }

    /// Compares one run on copies of the unit.
    pub(super) fn once(&self, shader: &Compiled, uniforms: &Uniforms, unit: &Unit) {
        let inputs = [unit.v];
        let work = Work { uniforms, unit, inputs: &inputs, input_mask: u16::MAX, output_mask: u16::MAX };
        self.compare(shader, &work);
    }

    /// Compares stretches of a batch, alone and in batches, on copies of the unit. They begin at the runs that are due,
    /// and with the registers that the whole batch begins with.
    pub(super) fn batch(&self, shader: &Compiled, uniforms: &Uniforms, unit: &Unit, batch: &Batch<'_>) {
        let count = batch.len();
        let before = self.runs.fetch_add(count as u64, Ordering::Relaxed);
        let first = before.next_multiple_of(self.every) - before;
        let step = usize::try_from(self.every).unwrap_or(usize::MAX).max(STRETCH);
        let Ok(first) = usize::try_from(first) else { return };
        for n in (first..count).step_by(step) {
            let mut inputs = [[[0.0; 4]; 16]; STRETCH];
            let vertices = n..count.min(n + STRETCH);
            let (input_mask, output_mask) = (batch.inputs_taken(), batch.outputs_wanted());
            // A host may have left the others as they were, even without a value.
            vertices.clone().zip(&mut inputs).for_each(|(n, to)| batch.take(n, to));
            let inputs = &inputs[..vertices.len()];
            self.compare(shader, &Work { uniforms, unit, inputs, input_mask, output_mask });
        }
    }

    fn compare(&self, shader: &Compiled, work: &Work<'_>) {
        let Some(native) = shader.native() else { return };
        let want = NamedKernel { name: "interp", kernel: shader.interpreted() };
        let got = NamedKernel { name: shader.backend(), kernel: native };
        let Some(difference) = diff::compare(want, got, work, &mut |_| ()).first else { return };
        let mut found = lock(&self.found);
        let first = found.is_none();
        let difference = found.get_or_insert_with(|| difference.to_string()).clone();
        drop(found);
        if first {
            (self.events)(&Event::Divergence { entry: shader.entry, difference });
        }
    }
}
