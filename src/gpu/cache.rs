//! Which vertices of an indexed draw are run, and which take the outputs of an earlier one.
//!
//! The cache holds what vertex programs put out and sits before the geometry unit (citra#2865). A host may have its own
//! idea of its size and order: it implements [`VertexCache`]. Whatever an implementation answers is safe. It must not
//! know vertices.

/// What is to be done for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Run the vertex and keep nothing.
    Run,
    /// Run the vertex and keep its outputs here.
    Store(u8),
    /// Take the outputs kept here in this draw. If there are none, the vertex is run.
    Reuse(u8),
}

/// Decides which outputs are used again.
pub trait VertexCache {
    /// A draw begins: of what earlier ones kept nothing is left.
    fn begin(&mut self);

    /// The next index. Vertex counts in the index stream of variable primitives are not asked about.
    fn lookup(&mut self, index: u32) -> Lookup;
}

/// Every vertex is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl VertexCache for NoCache {
    fn begin(&mut self) {}

    fn lookup(&mut self, _: u32) -> Lookup {
        Lookup::Run
    }
}

/// The last few indices that were run, the oldest replaced first. How the hardware chooses is unknown.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    indices: Vec<u32>,
    size: u8,
    next: u8,
}

impl RoundRobin {
    /// A cache of so many vertices.
    pub fn new(size: u8) -> RoundRobin {
        RoundRobin { indices: Vec::with_capacity(usize::from(size)), size, next: 0 }
    }
}

impl Default for RoundRobin {
    /// 64 vertices, as Azahar has it. The hardware's size is set by register 0x22D; values of 4 and 0x84 are known.
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
            Some(place) => *place = index,
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
    fn the_oldest_goes_first() {
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
