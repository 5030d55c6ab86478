//! A group of vertices through the control-flow graph: lanes that disagree wait at blocks, the
//! lowest block runs next, and lanes that meet there run on together.
//!
//! Invariant: blocks are in reverse postorder, so running the lowest one first lets lanes of
//! structured branches meet at the join. A group writes nothing but its own columns; it bails out
//! where fuel may end a run, before anything of it is visible.

use super::arith::{Format, Lanes};
use super::code::{BlockId, Code, Edge, Op, Terminator, components, holds};
use super::columns::{Active, Columns, LANES};
use super::lane_ints::LaneInts;
use crate::isa::flow::Exit;
use crate::isa::{FLOAT_UNIFORMS, Index, Test};
use crate::state::Vec4;
use fearless_simd::Simd;

/// The counters of an open loop.
#[derive(Clone, Debug, Default)]
struct Counter {
    /// Iterations after this one.
    left: LaneInts,
    /// Increment of aL per iteration.
    inc: LaneInts,
    /// aL before the loop.
    saved: LaneInts,
}

/// The state of a group, reused from batch to batch.
pub struct Group {
    /// Registers and flags.
    pub columns: Columns,
    /// `a0.x`, `a0.y`, `aL`.
    pub addresses: [LaneInts; 3],
    /// The lanes in which each was written.
    pub addresses_written: [u64; 3],
    /// Float uniforms, if the entry fetches any by an address register.
    pub uniforms: Vec<Vec4>,
    /// Integer uniforms.
    pub ints: [[u8; 4]; 4],
    /// Boolean uniforms.
    pub bools: u16,
    /// Memory for what a batch carries, by slot.
    pub carried: Vec<Vec4>,
    counters: [Counter; 4],
    /// Blocks at which lanes wait. The lanes are disjoint.
    waiting: Vec<(BlockId, u64)>,
}

/// Fuel of a group. An endless group costs as much as many endless vertices, and a batch ends at the
/// first of these, so a group bails out long before one does.
const GROUP_FUEL: u32 = 1 << 14;

/// The group needs fuel that a run may not have, or is cancelled: its vertices run in order.
pub struct Bailout;

/// The lanes that ended with each exit, indexed by [`Exit`].
pub type Exits = [u64; 4];

impl Group {
    /// An empty group.
    pub fn new() -> Group {
        Group {
            columns: Columns::new(),
            addresses: Default::default(),
            addresses_written: [0; 3],
            uniforms: Vec::new(),
            ints: [[0; 4]; 4],
            bools: 0,
            carried: Vec::new(),
            counters: Default::default(),
            waiting: Vec::new(),
        }
    }

    /// Runs `count` vertices from the entry, with inputs, uniforms and state set.
    #[inline(always)]
    pub fn run<S: Simd, V: Lanes<S>, F: Format>(
        &mut self,
        simd: S,
        format: F,
        code: &Code,
        count: usize,
    ) -> Result<Exits, Bailout> {
        let (blocks, pieces) = code.blocks().expect("groups run on blocks");
        let everyone = !0 >> (LANES - count);
        let mut exits = [0; 4];
        let mut fuel = code.fuel.min(GROUP_FUEL).cast_signed();
        self.waiting.clear();
        self.addresses_written = [0; 3];
        let mut next = (0, everyone);
        loop {
            let (at, lanes) = next;
            let active = Active { lanes, all: lanes == everyone };
            let block = &blocks[usize::from(at)];
            // Each run has executed at most the words of the group.
            fuel = fuel.wrapping_sub_unsigned(block.words);
            for piece in &pieces[block.pieces.start as usize..block.pieces.end as usize] {
                for op in &code.ops[piece.start as usize..piece.end as usize] {
                    match op {
                        Op::Vector { .. } | Op::Scalar { .. } | Op::Compare { .. } => {
                            self.columns.execute::<S, V, F>(simd, format, op, active);
                        }
                        Op::ToAddress { mask, src } => {
                            for c in components(*mask) {
                                let mut value = Box::new([0; LANES]);
                                self.columns.to_address::<S, V>(simd, src, c, &mut value);
                                self.set_address(c, LaneInts::Divergent(value), active);
                            }
                        }
                        Op::Fetch { dst, base, index } => self.fetch(*dst, *base, *index, code),
                        Op::LoopBegin { int, slot, shift } => self.begin_loop(*int, *slot, *shift, active),
                        Op::Emit | Op::Setemit(_) => unreachable!("geometry programs don't run in groups"),
                    }
                }
            }
            let (first, second) = match block.end {
                Terminator::Exit(exit) => {
                    exits[exit as usize] |= lanes;
                    (None, None)
                }
                Terminator::Goto(edge) => (Some((edge, lanes)), None),
                Terminator::Branch { test, yes, no } => {
                    let taken = match test {
                        Test::Flags(cond) => holds(cond, self.columns.flags),
                        Test::Bool { id, value } => {
                            if (self.bools >> (id & 0xF) & 1 != 0) == value {
                                !0
                            } else {
                                0
                            }
                        }
                    };
                    (Some((yes, lanes & taken)), Some((no, lanes & !taken)))
                }
                Terminator::LoopEnd { slot, again, exit, restore } => {
                    let repeats = self.end_iteration(slot, active, everyone);
                    self.leave_loop(slot, lanes & !repeats, everyone, restore);
                    (Some((again, lanes & repeats)), Some((exit, lanes & !repeats)))
                }
                Terminator::LoopBreak { slot, exit, restore } => {
                    self.step_address(slot, active);
                    self.leave_loop(slot, lanes, everyone, restore);
                    (Some((exit, lanes)), None)
                }
            };
            for (edge, lanes) in [first, second].into_iter().flatten().filter(|(_, lanes)| *lanes != 0) {
                if edge.backward && (fuel < 0 || code.is_cancelled()) {
                    return Err(Bailout);
                }
                self.wait(edge, lanes);
            }
            let lowest = (0..self.waiting.len()).min_by_key(|&n| self.waiting[n].0);
            next = match lowest {
                Some(n) => self.waiting.swap_remove(n),
                None => return Ok(exits),
            };
        }
    }

    fn wait(&mut self, edge: Edge, lanes: u64) {
        match self.waiting.iter_mut().find(|(block, _)| *block == edge.to) {
            Some((_, waiting)) => *waiting |= lanes,
            None => self.waiting.push((edge.to, lanes)),
        }
    }

    fn set_address(&mut self, n: usize, value: LaneInts, active: Active) {
        self.addresses[n].assign(value, active);
        self.addresses_written[n] |= active.lanes;
    }

    /// A uniform by an address register, to a slot that only the next operation reads.
    fn fetch(&mut self, dst: u8, base: u8, index: Index, code: &Code) {
        let index = match index {
            Index::None => &LaneInts::Uniform(0),
            Index::A0x => &self.addresses[0],
            Index::A0y => &self.addresses[1],
            Index::AL => &self.addresses[2],
        };
        let value = |index: i32| relative(base, index, |n| self.uniforms[usize::from(n)]);
        debug_assert!(code.fetches);
        match index {
            LaneInts::Uniform(index) => {
                let value = value(*index);
                (0..4).for_each(|c| self.columns.column_mut(dst, c).fill(value[c]));
            }
            LaneInts::Divergent(lanes) => {
                let values = lanes.map(value);
                for c in 0..4 {
                    self.columns.column_mut(dst, c).iter_mut().zip(&values).for_each(|(x, value)| *x = value[c]);
                }
            }
        }
    }

    fn begin_loop(&mut self, int: u8, slot: u8, shift: bool, active: Active) {
        if shift {
            for n in 1..self.counters.len() {
                let Counter { left, inc, saved } = self.counters[n].clone();
                self.counters[n - 1].assign(left, inc, saved, active);
            }
        }
        let [x, y, z, _] = self.ints[usize::from(int)];
        let [left, inc] = [x, z].map(|n| LaneInts::Uniform(n.into()));
        let saved = self.addresses[2].clone();
        self.counters[usize::from(slot)].assign(left, inc, saved, active);
        self.set_address(2, LaneInts::Uniform(y.into()), active);
    }

    /// aL plus the increment.
    fn step_address(&mut self, slot: u8, active: Active) {
        let next = self.addresses[2].zip(&self.counters[usize::from(slot)].inc, i32::wrapping_add);
        self.set_address(2, next, active);
    }

    /// Ends an iteration; the lanes that have another one.
    fn end_iteration(&mut self, slot: u8, active: Active, everyone: u64) -> u64 {
        self.step_address(slot, active);
        let left = &mut self.counters[usize::from(slot)].left;
        let repeats = left.nonzero() & active.lanes;
        if repeats != 0 {
            let fewer = left.zip(&LaneInts::Uniform(1), i32::wrapping_sub);
            left.assign(fewer, Active { lanes: repeats, all: repeats == everyone });
        }
        repeats
    }

    /// Restores aL of the outer loop, if one is open.
    fn leave_loop(&mut self, slot: u8, lanes: u64, everyone: u64, restore: bool) {
        if restore && lanes != 0 {
            let saved = self.counters[usize::from(slot)].saved.clone();
            self.set_address(2, saved, Active { lanes, all: lanes == everyone });
        }
    }
}

impl Counter {
    fn assign(&mut self, left: LaneInts, inc: LaneInts, saved: LaneInts, active: Active) {
        self.left.assign(left, active);
        self.inc.assign(inc, active);
        self.saved.assign(saved, active);
    }
}

/// Uniform `base` plus the value of an address register, as the ISA notes have it (2.4).
pub fn relative(base: u8, index: i32, uniform: impl Fn(u8) -> Vec4) -> Vec4 {
    let index = if (-128..=127).contains(&index) { index } else { 0 };
    let n = ((i32::from(base) + index) & 0x7F) as u8;
    if usize::from(n) < FLOAT_UNIFORMS { uniform(n) } else { [1.0; 4] }
}

/// The exit of the first lane that did not reach END. No group is cancelled.
pub fn first_exit(exits: &Exits) -> Exit {
    let others = [Exit::Fuel, Exit::BreakOutsideLoop, Exit::PastEnd];
    let first =
        others.into_iter().filter(|e| exits[*e as usize] != 0).min_by_key(|e| exits[*e as usize].trailing_zeros());
    first.unwrap_or(Exit::End)
}
