//! Words written to the `FIXEDATTRIB` registers -> default attributes, and vertices of immediate mode.
//!
//! Invariant: any contents are safe, and defaults never become immediate mode. This file must not know
//! the register file.

use super::Attributes;
use super::registers::merge;
use super::upload::{PartialVector, f24_vector};

/// The index that selects immediate mode.
const IMMEDIATE: u8 = 15;

/// The state of the `FIXEDATTRIB` registers: default attributes and immediate mode.
#[derive(Clone, Debug, Default)]
pub struct FixedAttributes {
    /// The next attribute; 15 in immediate mode.
    pub index: u8,
    /// Words of an incomplete attribute.
    pub words: PartialVector,
    /// The default attributes. No register selects the last one.
    pub defaults: Attributes,
    /// Immediate mode: attributes of an incomplete vertex, or the last complete one.
    pub vertex: Attributes,
    /// Number of attributes in `vertex`.
    pub count: u8,
    /// The default attributes that have been written; bit n. For [`Notes`](super::Notes) only.
    pub(crate) written: u16,
}

impl FixedAttributes {
    /// Selects the next attribute. Whether that is immediate mode, which begins a vertex.
    pub(super) fn select(&mut self, value: u32, mask: u8) -> bool {
        self.index = (merge(u32::from(self.index), value, mask) & 0xF) as u8;
        self.words.clear();
        let is_immediate = self.index == IMMEDIATE;
        if is_immediate {
            self.count = 0;
        }
        is_immediate
    }

    /// Stores the attribute that its last word completes. Whether that completes a vertex of immediate
    /// mode, which has `attributes` of its own and defaults after them.
    #[inline]
    pub(super) fn complete(&mut self, last: u32, attributes: usize) -> bool {
        let [high, middle, _] = self.words.words;
        let vector = f24_vector([high, middle, last]);
        if self.index != IMMEDIATE {
            let index = self.index & 0xF;
            self.defaults[usize::from(index)] = vector;
            self.written |= 1 << index;
            // Stop at the last default.
            self.index = (index + 1).min(IMMEDIATE - 1);
            return false;
        }
        let n = usize::from(self.count).min(attributes - 1);
        self.vertex[n] = vector;
        self.count = n as u8 + 1;
        if n + 1 < attributes {
            return false;
        }
        self.count = 0;
        self.vertex[attributes..].copy_from_slice(&self.defaults[attributes..]);
        true
    }
}
