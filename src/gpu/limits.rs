//! The work that a draw and a command list do at most.
//!
//! A game's registers can request 2^32 vertices, and a list many such draws. A vertex may execute
//! 2^18 words by default, so limits weigh vertices by their words. They don't measure time, so they
//! end a draw at the same vertex on every engine. They are no part of the
//! [`State`](super::State): a savestate holds none.

use crate::engine::most_words;
use crate::isa::{MAX_CODE_WORDS, Stage};

/// The most vertices, or indices, of a draw and of a command list. The rest is not drawn, and
/// [`Report::limited`](super::Report::limited) or [`ListExit`](super::ListExit) says so.
///
/// A vertex counts once for each 4,096 words, or part of them, that its run executes at most, and
/// so does its geometry run. 4,096 words are the largest program, so without loops a run counts
/// once. The integer uniforms say how often loops repeat. A run that jumps back counts as its fuel
/// says, or the default fuel if that is less.
///
/// The hardware sets up some 15 million triangles a second at most. The defaults are more than a
/// quarter of a second of that for one draw, and more than a second for a list. No game reaches
/// them, because it draws a frame in less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Vertices, or indices, of a draw. The default is 2^22.
    pub draw: u32,
    /// The same of all draws of one [`Gpu::execute`](super::Gpu::execute). The default is 2^24.
    pub list: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { draw: 1 << 22, list: 1 << 24 }
    }
}

/// How often a run counts that executes at most `words` words: at least once.
pub(super) const fn weight(words: u64) -> u64 {
    let count = words.div_ceil(MAX_CODE_WORDS as u64);
    if count == 0 { 1 } else { count }
}

/// How often a vertex and its geometry run count at most.
const HEAVIEST: u64 = weight(most_words(Stage::Vertex)) + weight(most_words(Stage::Geometry));

/// What the present list may still draw.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    pub(super) limits: Limits,
    /// `None` outside of a list.
    left: Option<u64>,
    /// Whether a draw of the list wanted more than was left.
    exceeded: bool,
}

impl Budget {
    /// Limits, outside of a list.
    pub(super) fn new(limits: Limits) -> Budget {
        Budget { limits, ..Budget::default() }
    }

    /// Begins a list, unless one is executing. Whether it did.
    pub(super) fn begin_list(&mut self) -> bool {
        let begins = self.left.is_none();
        if begins {
            (self.left, self.exceeded) = (Some(self.limits.list), false);
        }
        begins
    }

    pub(super) fn end_list(&mut self) {
        self.left = None;
    }

    /// Whether the list ends: a draw wanted more vertices than were left.
    pub(super) fn is_exceeded(&self) -> bool {
        self.left.is_some() && self.exceeded
    }

    /// Takes the vertices of a draw that has taken `before` and wants `more`. `weight` returns how
    /// often each counts. Returns how many of them it may run.
    #[inline]
    pub(super) fn take(&mut self, before: u64, more: u64, weight: impl FnOnce() -> u64) -> u64 {
        // Most draws are small, and outside of a list they are far from their limit.
        if self.left.is_none() && (before + more) * HEAVIEST <= u64::from(self.limits.draw) {
            return more;
        }
        self.take_weighed(before, more, weight())
    }

    /// Whether [`Budget::take`] would grant all vertices of a draw.
    #[inline]
    pub(super) fn allows(&self, wanted: u64, weight: impl FnOnce() -> u64) -> bool {
        self.left.is_none() && wanted * HEAVIEST <= u64::from(self.limits.draw) || self.allows_weighed(wanted, weight())
    }

    fn allows_weighed(&self, wanted: u64, weight: u64) -> bool {
        wanted * weight <= self.left.unwrap_or(u64::MAX).min(self.limits.draw.into())
    }

    fn take_weighed(&mut self, before: u64, more: u64, weight: u64) -> u64 {
        let wanted = more.min((u64::from(self.limits.draw) / weight).saturating_sub(before));
        let Some(left) = &mut self.left else { return wanted };
        let granted = wanted.min(*left / weight);
        *left -= granted * weight;
        self.exceeded |= granted < wanted;
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_a_list_share_its_limit_by_weight() {
        let mut budget = Budget::new(Limits { list: 100, ..Limits::default() });
        // Outside of a list nothing is counted.
        assert_eq!([budget.take(0, 90, || 3), budget.take(0, 90, || 3)], [90, 90]);
        assert!(budget.begin_list() && !budget.begin_list());
        assert_eq!(budget.take(0, 10, || 3), 10);
        assert!(!budget.is_exceeded());
        // 70 are left, and each vertex takes three of them.
        assert_eq!(budget.take(0, 30, || 3), 23);
        assert!(budget.is_exceeded());
        assert_eq!([budget.take(0, 1, || 1), budget.take(0, 1, || 1)], [1, 0]);
        budget.end_list();
        assert_eq!(budget.take(0, 30, || 3), 30);
    }
}
