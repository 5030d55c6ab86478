//! An integer of each vertex of a group: address registers and loop counters, which mostly agree.

use super::columns::{Active, LANES};

/// One integer for each lane.
#[derive(Clone, Debug)]
pub enum LaneInts {
    /// The same in all lanes.
    Uniform(i32),
    /// Divergent.
    Divergent(Box<[i32; LANES]>),
}

impl Default for LaneInts {
    fn default() -> LaneInts {
        LaneInts::Uniform(0)
    }
}

impl LaneInts {
    /// The value in a lane.
    pub fn get(&self, lane: usize) -> i32 {
        match self {
            LaneInts::Uniform(x) => *x,
            LaneInts::Divergent(lanes) => lanes[lane],
        }
    }

    /// `f` of both values in each lane.
    pub fn zip(&self, other: &LaneInts, f: impl Fn(i32, i32) -> i32) -> LaneInts {
        match (self, other) {
            (LaneInts::Uniform(a), LaneInts::Uniform(b)) => LaneInts::Uniform(f(*a, *b)),
            (a, b) => LaneInts::Divergent(Box::new(std::array::from_fn(|n| f(a.get(n), b.get(n))))),
        }
    }

    /// Sets the active lanes.
    pub fn assign(&mut self, value: LaneInts, active: Active) {
        match (&mut *self, value) {
            (_, value) if active.all => *self = value,
            (LaneInts::Uniform(a), LaneInts::Uniform(b)) if *a == b => {}
            (old, value) => {
                let blend = |n: usize| if active.lanes >> n & 1 != 0 { value.get(n) } else { old.get(n) };
                *self = LaneInts::Divergent(Box::new(std::array::from_fn(blend)));
            }
        }
    }

    /// The lanes whose value is not zero.
    pub fn nonzero(&self) -> u64 {
        match self {
            LaneInts::Uniform(0) => 0,
            LaneInts::Uniform(_) => !0,
            LaneInts::Divergent(lanes) => {
                lanes.iter().enumerate().fold(0, |bits, (n, x)| bits | u64::from(*x != 0) << n)
            }
        }
    }
}
