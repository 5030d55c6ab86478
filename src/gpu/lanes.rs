//! Attributes and outputs of one to four components, handled as vectors of four.
//!
//! Masks from a table: one loop serves every number of components, and attributes and outputs read the
//! same two cache lines.

/// Four components of which only the first ones are meant.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Lanes {
    /// The bits of the others.
    others: [u32; 4],
    /// (0, 0, 0, 1) in the others.
    filled: [u32; 4],
}

impl Lanes {
    /// The first `count` of four, 1-4.
    #[inline(always)]
    pub(super) fn first(count: u8) -> &'static Lanes {
        &TABLE.0[usize::from(count & 7)]
    }

    /// The bits of `vector`, whose other components become (0, 0, 0, 1).
    #[inline(always)]
    pub(super) fn fill(&self, vector: [u32; 4]) -> [u32; 4] {
        let lane = |n: usize| vector[n] & !self.others[n] | self.filled[n];
        // `array::map` is not always inlined.
        [lane(0), lane(1), lane(2), lane(3)]
    }

    /// The bits of `vector`, whose other components become those of `old`.
    #[inline(always)]
    pub(super) fn merge(&self, vector: [u32; 4], old: [u32; 4]) -> [u32; 4] {
        let lane = |n: usize| vector[n] & !self.others[n] | old[n] & self.others[n];
        [lane(0), lane(1), lane(2), lane(3)]
    }
}

/// Lanes by the number of components. The entries of 5 to 7 serve nothing: without them the compiler
/// knows some lanes, stores a vector in parts, and a load of the whole waits for each.
#[repr(align(64))]
struct Table([Lanes; 8]);

static TABLE: Table = {
    const fn lanes(count: usize) -> Lanes {
        if count > 4 {
            return Lanes { others: [u32::MAX; 4], filled: [u32::MAX; 4] };
        }
        let (mut others, mut filled, mut n) = ([0; 4], [0; 4], count);
        while n < 4 {
            others[n] = u32::MAX;
            filled[n] = if n == 3 { 1f32.to_bits() } else { 0 };
            n += 1;
        }
        Lanes { others, filled }
    }
    Table([lanes(0), lanes(1), lanes(2), lanes(3), lanes(4), lanes(5), lanes(6), lanes(7)])
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lanes_are_the_vector_s() {
        for count in 1..=4u8 {
            let is_first = |n: usize| n < usize::from(count);
            let (vector, old) = ([1, 2, 3, 4], [5, 6, 7, 8]);
            let merged = std::array::from_fn(|n| if is_first(n) { vector[n] } else { old[n] });
            assert_eq!(Lanes::first(count).merge(vector, old), merged);
            let fill = [0, 0, 0, 1f32.to_bits()];
            let filled = std::array::from_fn(|n| if is_first(n) { vector[n] } else { fill[n] });
            assert_eq!(Lanes::first(count).fill(vector), filled);
        }
    }
}
