//! The written masks of batch code -> the values of components that some vertices keep: a vertex
//! that keeps one has that of the last vertex before it that wrote it.
//!
//! Invariant: a group neither waits for another one nor knows it, so groups may run in any order,
//! and twice. Kept outputs are filled afterwards, from the vertex before. The unit needs no value:
//! the last writers run again, in order.

use crate::jit::abi::{WRITTEN_WORDS, written_mask_stride};
use crate::jit::batch::policy::KeptOutput;
use crate::state::Batch;
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Memory for written masks, used by one call after the other.
    static WORDS: Cell<Option<Box<[u32]>>> = const { Cell::new(None) };
}

/// The written masks of the vertices of one call.
pub(super) struct WrittenMasks {
    words: Box<[u32]>,
    stride: usize,
}

impl WrittenMasks {
    /// Runs `work` with memory for `masks` masks, which is not cleared.
    pub(super) fn with<T>(masks: usize, work: impl FnOnce(&mut WrittenMasks) -> T) -> T {
        let words = WORDS.take().unwrap_or_else(|| vec![0; WRITTEN_WORDS].into());
        let mut written = WrittenMasks { words, stride: written_mask_stride(masks) };
        let result = work(&mut written);
        WORDS.set(Some(written.words));
        result
    }

    /// The vertices that fit one call.
    pub(super) fn capacity(&self) -> usize {
        self.stride
    }

    /// All words.
    pub(super) fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }

    /// One mask of the call's first `count` vertices.
    fn mask(&self, mask: usize, count: usize) -> &[u32] {
        &self.words[mask * self.stride..][..count]
    }

    /// Sets the outputs that these vertices of a batch, which ran last, kept.
    pub(super) fn fill(&self, kept: &[KeptOutput], batch: &mut Batch<'_>, vertices: Range<usize>, output_mask: u16) {
        let stride = batch.outputs.stride();
        for &KeptOutput { register, component, mask } in kept {
            if output_mask >> register & 1 == 0 {
                continue;
            }
            let (k, c) = (usize::from(register), usize::from(component));
            let outputs = batch.outputs.registers();
            for (n, &written) in vertices.clone().zip(self.mask(mask, vertices.len())) {
                // What the batch's first vertex keeps is the unit's, which batch code stores.
                if written == 0 && n > 0 {
                    outputs[n * stride + k][c] = outputs[(n - 1) * stride + k][c];
                }
            }
        }
    }
}

/// For each written mask the last vertex that ran in a group and wrote its components, since the
/// unit was current. Empty, and without memory, for code without masks.
#[derive(Default)]
pub(super) struct LastWriters(Vec<Option<usize>>);

impl LastWriters {
    /// Notes the writers among the vertices that ran last.
    pub(super) fn note(&mut self, written: &WrittenMasks, masks: usize, vertices: Range<usize>) {
        self.0.resize(masks, None);
        for (mask, last) in self.0.iter_mut().enumerate() {
            if let Some(at) = written.mask(mask, vertices.len()).iter().rposition(|&word| word != 0) {
                *last = Some(vertices.start + at);
            }
        }
    }

    /// The last writers before vertex `last`, in order, each once. The unit is current afterwards.
    pub(super) fn take_before(&mut self, last: usize) -> impl Iterator<Item = usize> + use<> {
        let mut all = std::mem::take(&mut self.0);
        all.sort_unstable();
        let mut before = None;
        all.into_iter().flatten().filter(move |&n| n < last && before.replace(n) != Some(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_writers_come_in_order_and_once() {
        let mut writers = LastWriters::default();
        WrittenMasks::with(4, |written| {
            assert_eq!((written.capacity(), written.words_mut().len()), (1024, 4096));
            written.words_mut().fill(0);
            for (mask, vertex) in [(0, 5), (0, 2), (1, 7), (2, 5)] {
                written.words_mut()[1024 * mask + vertex] = !0;
            }
            writers.note(written, 4, 100..108);
            written.words_mut()[..1024].fill(0);
            // A call in which vertex 109 writes the components of the second mask, and no other.
            written.words_mut()[1024 + 1] = !0;
            written.words_mut()[2048..].fill(0);
            writers.note(written, 4, 108..110);
        });
        assert_eq!(writers.take_before(110).collect::<Vec<_>>(), [105, 109]);
        assert_eq!(writers.take_before(110).count(), 0, "the unit is current");
    }
}
