//! A batch of a program that emits -> runs: groups, whose vertices reach the emitter in the order of
//! the invocations, and the invocations of groups that bail out in order.
//!
//! Invariant: the unit and the emitted vertices are as if every invocation had run alone. All
//! invocations that end emit as many vertices, so a group leaves the number of the bank as it was,
//! and so do any two invocations.

use super::emit_buffer::SlotFiller;
use super::kernel::{BatchRun, NativeKernel};
use super::lazy_code::BatchCode;
use crate::ir::analysis::{Components, XYZW, components};
use crate::isa::REGS;
use crate::jit::abi::{GROUP, MAX_EMITTING_GROUPS};
use crate::jit::batch::policy::EmittedOutputs;
use crate::kernel::run_memory::RunMemory;
use crate::state::{Batch, BatchExit, EmitState, EmittedVertex, Exit, NoEmitter, Unit, VertexLayout};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Smaller batches run in order: a batch prepares records, and runs two invocations again.
const MIN_INVOCATIONS: usize = 16;
/// Records of a batch at first. They stay in the CPU's first cache.
const RECORDS: usize = 64;
/// Most records. Groups that emit more run in order.
const MAX_RECORDS: usize = 1024;

impl NativeKernel {
    /// A batch of a program that emits, on memory of the layout that the code was compiled for.
    #[inline(never)]
    pub(super) fn run_emitting_batch(&self, memory: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> BatchExit {
        let count = batch.len();
        if let RunMemory::Own { unit, .. } = memory
            && count >= MIN_INVOCATIONS
            && (batch.layout, batch.outputs_wanted(), batch.preserve_unit) == (VertexLayout::Aos, 0, false)
            && let Some(code) = self.batch_code(count, batch.inputs_taken(), VertexLayout::Aos)
            && let Some(outputs) = &code.emission
            // Code has one copy of the components that no run changes.
            && banks_agree(unit, outputs.stored, |n| !outputs.changed[n] & XYZW)
        {
            let banks_agree = banks_agree(unit, !outputs.stored, |_| XYZW);
            let records = records(unit, RECORDS);
            return EmittingRun { kernel: self, code, outputs, banks_agree, records }.run(memory, batch);
        }
        match (batch.layout, batch.preserve_unit) {
            (VertexLayout::Soa, _) => self.run_soa_batch(memory, batch),
            (_, false) => BatchRun::new(self, memory, batch).in_order_outlined(batch, 0..count),
            (_, true) => {
                memory.preserving_unit(|memory| BatchRun::new(self, memory, batch).in_order_outlined(batch, 0..count))
            }
        }
    }
}

/// Whether both banks have the same bits in these components of the registers in `mask`.
fn banks_agree(unit: &Unit, mask: u16, of: impl Fn(usize) -> Components) -> bool {
    let same = |n: usize, c: u8| {
        let [first, second] = [0, 1].map(|bank| unit.o[bank][n][usize::from(c)].to_bits());
        first == second
    };
    (0..REGS).filter(|n| mask >> n & 1 != 0).all(|n| components(of(n)).all(|c| same(n, c)))
}

/// This many records with the outputs of the current bank.
fn records(unit: &Unit, count: usize) -> Vec<EmittedVertex> {
    vec![EmittedVertex::new(unit.outputs(), EmitState::default()); count]
}

/// A batch whose invocations run as groups.
struct EmittingRun<'a> {
    kernel: &'a NativeKernel,
    code: &'a BatchCode,
    outputs: &'a EmittedOutputs,
    /// Whether both banks have the same bits in the registers that code does not store.
    banks_agree: bool,
    records: Vec<EmittedVertex>,
}

impl EmittingRun<'_> {
    fn run(&mut self, memory: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> BatchExit {
        let (count, kernel) = (batch.len(), self.kernel);
        let groups_end = count / GROUP * GROUP;
        let cancel = kernel.cancel.reader();
        let (mut result, mut at) = (BatchExit::NONE, 0);
        let mut unit_is_current = true;
        while at < groups_end && !cancel.is_set() {
            let end = groups_end.min(at + MAX_EMITTING_GROUPS * GROUP);
            let (done, full) = self.groups(memory, batch, at..end);
            kernel.count_groups((done / GROUP) as u32);
            result.count_group(Exit::End, done);
            unit_is_current &= done == 0;
            at += done;
            if at == end || full && (done != 0 || self.grow(memory)) {
                continue;
            }
            kernel.bailouts.fetch_add(1, Ordering::Relaxed);
            self.update_unit(&mut unit_is_current, memory, batch, at);
            let exit = BatchRun::new(kernel, memory, batch).in_order_outlined(batch, at..at + GROUP);
            if !result.append(exit) {
                return result;
            }
            at += GROUP;
            if kernel.bails_out_often() {
                break;
            }
        }
        self.update_unit(&mut unit_is_current, memory, batch, at);
        let rest = BatchRun::new(kernel, memory, batch).in_order_outlined(batch, at..count);
        result.append(rest);
        result
    }

    /// Runs groups and sends their vertices. How many invocations ran, and whether the records are
    /// full.
    fn groups(&mut self, memory: &mut RunMemory<'_>, batch: &mut Batch<'_>, range: Range<usize>) -> (usize, bool) {
        let mut ends = [0; MAX_EMITTING_GROUPS];
        let (ends, full) = self.code.run_emitting(memory, batch, range, &mut self.records, &mut ends);
        let RunMemory::Own { unit, emitter, .. } = memory else { unreachable!("others run in order") };
        if !self.banks_agree {
            for (group, start) in groups(ends) {
                fill_unstored(&mut self.records[start..start + group], unit, self.outputs.stored);
            }
        }
        let mut filler = SlotFiller::new(&mut unit.slots, *emitter);
        for (len, start) in groups(ends) {
            // Each EMIT of a group stored a vertex of each invocation.
            for invocation in start..(start + GROUP).min(start + len) {
                for at in (invocation..start + len).step_by(GROUP) {
                    filler.send(&self.records[at]);
                }
            }
        }
        filler.finish();
        (ends.len() * GROUP, full)
    }

    /// Makes room for more records, if that may be.
    fn grow(&mut self, memory: &RunMemory<'_>) -> bool {
        let RunMemory::Own { unit, .. } = memory else { unreachable!("others run in order") };
        let grown = 4 * self.records.len();
        if grown <= MAX_RECORDS {
            self.records = records(unit, grown);
        }
        grown <= MAX_RECORDS
    }

    /// Makes the unit what the invocation before `at` leaves, by running the last two again. Their
    /// vertices have been sent.
    fn update_unit(&self, is_current: &mut bool, memory: &mut RunMemory<'_>, batch: &Batch<'_>, at: usize) {
        if std::mem::replace(is_current, true) {
            return;
        }
        let RunMemory::Own { uniforms, unit, .. } = memory else { unreachable!("others run in order") };
        let mut memory = RunMemory::Own { uniforms, unit, emitter: &mut NoEmitter };
        let mut run = BatchRun::new(self.kernel, &mut memory, batch);
        for n in at - 2..at {
            run.vertex(&batch.inputs[n], n + 1 == batch.len());
        }
    }
}

/// The length and the start of each group, of their ends.
fn groups(ends: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| (end - start, start))
}

/// Copies the registers that code does not store to the records of a group. The banks alternate
/// from EMIT to EMIT.
fn fill_unstored(group: &mut [EmittedVertex], unit: &Unit, stored: u16) {
    let emits = group.len() / GROUP;
    for (at, record) in group.iter_mut().enumerate() {
        let (emit, invocation) = (at / GROUP, at % GROUP);
        let bank = (usize::from(unit.bank) + invocation * emits + emit) & 1;
        for n in (0..REGS).filter(|n| stored >> n & 1 == 0) {
            record.outputs[n] = unit.o[bank][n];
        }
    }
}
