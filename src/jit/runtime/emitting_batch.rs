//! A batch of a program that emits -> groups, whose vertices reach the emitter in order, and invocations
//! that run singly.
//!
//! Invariant: the unit and the emitted vertices are as if every invocation had run alone. All take the same
//! path. So either all end, or none does and no group runs to its end. And all emit as many vertices, so a
//! group leaves the number of the bank as it was. Groups write nothing of the unit: the last two
//! invocations of a batch run singly and leave it, whatever it holds before.

use super::kernel::{BatchContext, BatchRun};
use super::lazy_code::BatchCode;
use crate::isa::{REGS, Setemit};
use crate::jit::abi::GROUP;
use crate::layout::{HostEmitter, HostMemory};
use crate::state::{Batch, BatchExit, EmitState, EmittedVertex, Exit, Registers};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Records of a call that go through memory of the runtime, unless a group needs more. They stay in the
/// CPU's second cache.
const RECORDS: usize = 256;
/// Most records. Groups that emit more run singly.
const MAX_RECORDS: usize = 1024;
/// Most invocations of a call: it looks at `cancel` after each.
const MAX_INVOCATIONS: usize = 256;

impl BatchRun<'_, '_, '_> {
    /// Runs a batch that wants no outputs, as groups where that is possible.
    #[inline(never)]
    pub(super) fn run_emitting(&mut self, code: &BatchCode, batch: &mut Batch<'_>) -> BatchExit {
        let groups_end = self.count.saturating_sub(2) / GROUP * GROUP;
        let hint = code.emits.as_ref().expect("the code emits");
        let mut at = 0;
        if code.needs_settled && groups_end > 0 && !self.cancel.is_set() {
            self.group_in_order(batch, at);
            if !self.result.goes_on() {
                return self.result;
            }
            at = GROUP;
        }
        let mut groups = Groups::new(code, self.context.memory, hint.load(Ordering::Relaxed));
        // Whole groups run, so the bank stays that of the first one's start.
        while at < groups_end && !self.cancel.is_set() {
            let (ran, bailed_out) = groups.run(self.context.emitter, batch, at..groups_end);
            self.kernel.count_groups((ran / GROUP) as u32);
            self.result.count_group(Exit::End, ran);
            at += ran;
            if !bailed_out {
                continue;
            }
            let emits = self.group_in_order(batch, at);
            if !self.result.goes_on() {
                return self.result;
            }
            at += GROUP;
            if emits == groups.emits {
                self.kernel.bailouts.fetch_add(1, Ordering::Relaxed);
            }
            hint.store(emits, Ordering::Relaxed);
            groups.emits = emits;
            if self.kernel.bails_out_often() {
                break;
            }
        }
        self.in_order_outlined(batch, at..self.count)
    }

    /// Runs the invocations of the group at `at` in order. How many vertices each emits.
    fn group_in_order(&mut self, batch: &mut Batch<'_>, at: usize) -> usize {
        let BatchContext { memory, ref mut emitter, next } = *self.context;
        let mut emitter = Counting { emitter: &mut **emitter, count: 0 };
        let mut context = BatchContext { memory, emitter: &mut emitter, next };
        let group = BatchRun::new(self.kernel, &mut context, batch).in_order_outlined(batch, at..at + GROUP);
        self.result.count_group(group.exit, group.ran);
        emitter.count / GROUP
    }
}

/// The groups of a batch.
struct Groups<'a, 'm> {
    code: &'a BatchCode,
    memory: &'a HostMemory<'m>,
    /// The vertices of an invocation.
    emits: usize,
    /// The outputs, the current bank's first. Of what the program does not write, an EMIT sends those of
    /// the two in turn.
    banks: [Registers; 2],
    /// Those in force before the first SETEMIT.
    parameters: Setemit,
    /// Memory for receivers without their own. It holds the outputs that the program does not write.
    records: Vec<EmittedVertex>,
}

impl<'a, 'm> Groups<'a, 'm> {
    fn new(code: &'a BatchCode, memory: &'a HostMemory<'m>, emits: usize) -> Groups<'a, 'm> {
        let EmitState { vertex, primitive, winding } = memory.emit_state();
        let parameters = Setemit { vertex, primitive, winding };
        Groups { code, memory, emits, banks: memory.banks_from_current(), parameters, records: Vec::new() }
    }

    /// Runs some of these invocations, and sends their vertices. How many ran, and whether the next group
    /// bailed out.
    fn run(
        &mut self,
        emitter: &mut dyn HostEmitter,
        batch: &mut Batch<'_>,
        invocations: Range<usize>,
    ) -> (usize, bool) {
        let group = GROUP * self.emits;
        if group > MAX_RECORDS {
            return (0, true);
        }
        let fitting = |records: usize| {
            let groups = records.checked_div(group).unwrap_or(MAX_INVOCATIONS);
            invocations.start..invocations.end.min(invocations.start + GROUP * groups.min(MAX_INVOCATIONS / GROUP))
        };
        let (written, wanted) = (self.code.writes, emitter.outputs());
        // Code stores all that it writes. What the emitter does not want must stay as it is.
        let lends = written & !wanted == 0;
        if lends && group > 0 && emitter.buffer().is_some_and(<[_]>::is_empty) {
            emitter.stored(0, true);
        }
        let lent = if lends { emitter.buffer() } else { None };
        // A host's buffer that is nearly full takes the vertices of one group by way of the runtime's memory.
        let records = if lent.is_some() { group } else { RECORDS.max(group) };
        if let Some(lent) = lent.filter(|lent| lent.len() >= group) {
            let range = fitting(lent.len());
            // Of these code stores some components.
            self.add_unwritten(&lent[..range.len() * self.emits], self.code.partial);
            let ran = self.run_on(lent, batch, range.clone());
            let stored = ran * self.emits;
            self.add_unwritten(&lent[..stored], wanted & !written);
            emitter.stored(stored, false);
            return (ran, ran < range.len());
        }
        let range = fitting(records);
        for n in self.records.len()..range.len() * self.emits {
            self.records.push(EmittedVertex::new(&self.banks[n % 2], EmitState::default()));
        }
        let mut records = std::mem::take(&mut self.records);
        let ran = self.run_on(Cell::from_mut(&mut *records).as_slice_of_cells(), batch, range.clone());
        emitter.emit_all(&records[..ran * self.emits]);
        self.records = records;
        (ran, ran < range.len())
    }

    /// Runs these invocations up to a group that bails out. How many ran.
    fn run_on(&self, records: &[Cell<EmittedVertex>], batch: &mut Batch<'_>, invocations: Range<usize>) -> usize {
        let bailed_out = |reason| self.code.bailouts.count(reason);
        let records = (records, self.emits);
        self.code.code.run_emitting_batch(self.memory, batch, invocations, records, self.parameters, bailed_out)
    }

    /// Adds the outputs in `mask`, which the program does not write.
    fn add_unwritten(&self, records: &[Cell<EmittedVertex>], mask: u16) {
        for (record, bank) in records.iter().zip(self.banks.iter().cycle()).filter(|_| mask != 0) {
            let mut vertex = record.get();
            (0..REGS).filter(|n| mask >> n & 1 != 0).for_each(|n| vertex.outputs[n] = bank[n]);
            record.set(vertex);
        }
    }
}

/// Counts the vertices of a run.
struct Counting<'a> {
    emitter: &'a mut dyn HostEmitter,
    count: usize,
}

impl HostEmitter for Counting<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        self.count += 1;
        self.emitter.emit(outputs, how);
    }

    fn emit_all(&mut self, vertices: &[EmittedVertex]) {
        self.count += vertices.len();
        self.emitter.emit_all(vertices);
    }

    fn outputs(&self) -> u16 {
        self.emitter.outputs()
    }

    fn buffer(&mut self) -> Option<&[Cell<EmittedVertex>]> {
        self.emitter.buffer()
    }

    fn stored(&mut self, count: usize, full: bool) {
        self.count += count;
        self.emitter.stored(count, full);
    }
}
