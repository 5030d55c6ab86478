//! Attributes of the geometry unit -> runs that are due, as a batch.
//!
//! In point mode no run changes the input of another, so the runs of many vertices may form one
//! batch. This file must not know what a run does.

use crate::state::{Vec4, Vertices};

/// Runs of a batch: as many as amortise its set-up.
const MOST: usize = 256;

/// The attributes of runs that are due, in order.
#[derive(Default)]
pub(super) struct Invocations {
    vectors: Vec<Vec4>,
    count: usize,
    /// The vectors in the registers of the unit, if attributes are permuted.
    registers: Vec<Vec4>,
}

impl Invocations {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= MOST
    }

    pub(super) fn clear(&mut self) {
        self.vectors.clear();
        self.count = 0;
    }

    /// One more run. All until [`Invocations::clear`] have as many attributes.
    pub(super) fn push(&mut self, vectors: &[Vec4]) {
        self.vectors.extend_from_slice(vectors);
        self.count += 1;
    }

    /// The attributes of run `n`.
    pub(super) fn vectors(&self, n: usize, attributes: usize) -> &[Vec4] {
        &self.vectors[n * attributes..][..attributes]
    }

    /// The input registers of all runs, and their mask. `permutation` has the register of each
    /// attribute.
    pub(super) fn inputs(&mut self, permutation: &[u8]) -> (Vertices<'_>, u16) {
        let mask = permutation.iter().fold(0, |mask, &register| mask | 1 << register);
        let stride = Vertices::stride_for(mask);
        let in_order = permutation.iter().enumerate().all(|(n, &register)| n == usize::from(register));
        let rows = match in_order {
            true => &self.vectors,
            false => {
                self.registers.clear();
                self.registers.resize(self.count * stride, [0.0; 4]);
                let all = self.vectors.chunks_exact(permutation.len()).zip(self.registers.chunks_exact_mut(stride));
                for (vectors, row) in all {
                    // Of two attributes of the same register the later one stays.
                    permutation.iter().zip(vectors).for_each(|(&to, vector)| row[usize::from(to)] = *vector);
                }
                &self.registers
            }
        };
        (Vertices::packed(rows, stride, self.count).expect("a row for each run"), mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_permuted_and_the_later_of_two_stays() {
        let mut due = Invocations::default();
        for n in [1.0, 5.0] {
            due.push(&[[n; 4], [n + 1.0; 4], [n + 2.0; 4]]);
        }
        let (inputs, mask) = due.inputs(&[2, 0, 2]);
        assert_eq!((inputs.len(), inputs.stride(), mask), (2, 3, 0b101));
        assert_eq!([inputs[0][0], inputs[0][2]], [[2.0; 4], [3.0; 4]]);
        assert_eq!([inputs[1][0], inputs[1][2]], [[6.0; 4], [7.0; 4]]);
        let (inputs, mask) = due.inputs(&[0, 1, 2]);
        assert_eq!((inputs[1][2], mask), ([7.0; 4], 0b111));
        assert_eq!(due.vectors(1, 3)[0], [5.0; 4]);
    }
}
