//! An index of an indexed draw -> whether its vertex runs, or reuses the outputs of an earlier run.
//!
//! The cache holds outputs of vertex programs and sits before the geometry unit (citra#2865). A
//! host with a policy of its own implements [`VertexCache`]; any answer is safe. This file must not
//! know vertices.

/// The decision for one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Run the vertex; cache nothing.
    Run,
    /// Run the vertex; cache its outputs in this slot.
    Store(u8),
    /// Reuse the outputs that this draw cached in this slot. If there are none, run the vertex.
    Reuse(u8),
}

/// A policy that decides which outputs are reused.
pub trait VertexCache {
    /// A draw begins. The slots are empty.
    fn begin(&mut self);

    /// Decides on the next index. Vertex counts in the index stream of variable primitives are not
    /// looked up.
    fn lookup(&mut self, index: u32) -> Lookup;
}

/// A policy without reuse: every vertex runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl VertexCache for NoCache {
    fn begin(&mut self) {}

    fn lookup(&mut self, _: u32) -> Lookup {
        Lookup::Run
    }
}

/// The most recently run indices; the oldest is replaced first. The hardware's policy is unknown.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    indices: Vec<u32>,
    size: u8,
    next: u8,
}

impl RoundRobin {
    /// A cache of `size` vertices.
    pub fn new(size: u8) -> RoundRobin {
        RoundRobin { indices: Vec::with_capacity(usize::from(size)), size, next: 0 }
    }
}

impl Default for RoundRobin {
    /// 64 vertices, as in Azahar. Register 0x22D sets the hardware's size; values of 4 and 0x84 are
    /// known.
    fn default() -> RoundRobin {
        RoundRobin::new(64)
    }
}

impl VertexCache for RoundRobin {
    fn begin(&mut self) {
        self.indices.clear();
        self.next = 0;
    }

    fn lookup(&mut self, index: u32) -> Lookup {
        if let Some(slot) = self.indices.iter().position(|&i| i == index) {
            return Lookup::Reuse(slot as u8);
        }
        if self.size == 0 {
            return Lookup::Run;
        }
        let slot = self.next;
        match self.indices.get_mut(usize::from(slot)) {
            Some(cached) => *cached = index,
            None => self.indices.push(index),
        }
        self.next = (slot + 1) % self.size;
        Lookup::Store(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;

    #[test]
    fn the_oldest_is_replaced_first() {
        let mut cache = RoundRobin::new(2);
        cache.begin();
        let mut look = |index| cache.lookup(index);
        use Lookup::*;
        assert_eq!([5, 6, 5, 7, 6, 5].map(&mut look), [Store(0), Store(1), Reuse(0), Store(0), Reuse(1), Store(1)]);
        cache.begin();
        assert_eq!(cache.lookup(6), Store(0));
    }

    #[test]
    fn sizes_at_the_bounds() {
        let mut none = RoundRobin::new(0);
        assert_eq!([1, 1].map(|n| none.lookup(n)), [Lookup::Run; 2]);
        let mut all = RoundRobin::new(u8::MAX);
        (0..miri_or(260, 600)).for_each(|n| assert_eq!(all.lookup(n), Lookup::Store((n % 255) as u8)));
    }
}
