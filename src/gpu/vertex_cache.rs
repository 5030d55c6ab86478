//! An index of an indexed draw -> the row with the outputs of an earlier run.
//!
//! The cache sits before the geometry unit (citra#2865). The hardware's policy is unknown; Azahar
//! replaces the oldest of 64. Register 0x22D sets the hardware's size; values of 4 and 0x84 are known.
//! Only programs whose vertices depend on each other show which vertices run.

/// The vertices that ran most recently. The oldest is replaced first.
#[derive(Debug, Default)]
pub(super) struct VertexCache {
    /// The most vertices.
    size: u8,
    /// The index of each.
    indices: Vec<u32>,
    /// The row of its outputs, in the same place.
    rows: Vec<u32>,
    /// The place of the next vertex.
    next: u8,
}

impl VertexCache {
    /// Empties the cache for a draw that caches `size` vertices.
    pub(super) fn clear(&mut self, size: u8) {
        (self.size, self.next) = (size, 0);
        self.indices.clear();
        self.rows.clear();
    }

    /// The row of an index, if the cache has it.
    #[inline]
    pub(super) fn row(&self, index: u32) -> Option<usize> {
        let place = self.indices.iter().position(|&i| i == index)?;
        Some(self.rows[place] as usize)
    }

    /// Stores the row of an index that the cache lacks.
    #[inline]
    pub(super) fn insert(&mut self, index: u32, row: u32) {
        let place = usize::from(self.next);
        if place < self.indices.len() {
            (self.indices[place], self.rows[place]) = (index, row);
        } else if self.size > 0 {
            self.indices.push(index);
            self.rows.push(row);
        }
        self.next = (self.next + 1).checked_rem(self.size).unwrap_or(0);
    }

    /// The stored rows, the oldest first. So they ascend, if new vertices take new rows.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        let (newer, older) = self.rows.split_at_mut(usize::from(self.next));
        older.iter_mut().chain(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;

    #[test]
    fn the_oldest_is_replaced_first() {
        let mut cache = VertexCache::default();
        cache.clear(2);
        let mut look = |(index, row)| cache.row(index).unwrap_or_else(|| (cache.insert(index, row), usize::MAX).1);
        let looked = [(5, 0), (6, 1), (5, 9), (7, 2), (6, 9), (5, 3)].map(&mut look);
        assert_eq!(looked, [usize::MAX, usize::MAX, 0, usize::MAX, 1, usize::MAX]);
        assert_eq!(cache.rows_mut().map(|row| *row).collect::<Vec<_>>(), [2, 3]);
        cache.clear(2);
        assert_eq!((cache.row(5), cache.rows_mut().count()), (None, 0));
    }

    #[test]
    fn sizes_at_the_bounds() {
        let mut none = VertexCache::default();
        none.clear(0);
        none.insert(1, 0);
        assert_eq!((none.row(1), none.next), (None, 0));
        let mut all = VertexCache::default();
        all.clear(u8::MAX);
        let count = miri_or(260, 600);
        (0..count).for_each(|n| all.insert(n, n));
        assert_eq!([count - 256, count - 255, count - 1].map(|n| all.row(n).is_some()), [false, true, true]);
    }
}
