//! A batch of a program that emits -> runs: groups, whose vertices reach the emitter in order, and
//! the invocations of groups that bail out in order.
//!
//! Invariant: the unit and the emitted vertices are as if every invocation had run alone. All
//! invocations that end emit as many vertices, so a group leaves the number of the bank as it was,
//! and so do any two invocations.

use super::kernel::{BatchRun, NativeKernel};
use super::lazy_code::{BatchCode, EmissionFacts};
use crate::ir::analysis::{Components, XYZW, components};
use crate::isa::REGS;
use crate::jit::abi::GROUP;
use crate::jit::batch::bailout::BailoutReason;
use crate::jit::batch::policy::EmittedOutputs;
use crate::kernel::run_memory::RunMemory;
use crate::state::{Batch, BatchExit, EmitState, EmittedVertex, Exit, NoEmitter, Registers, VertexLayout};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Records of a batch, unless a group needs more. What code writes of them stays in the CPU's first
/// cache.
const RECORDS: usize = 64;
/// Most records. Groups that emit more run in order.
const MAX_RECORDS: usize = 1024;
/// Most invocations of a call: a program may emit nothing.
const MAX_INVOCATIONS: usize = 256;

impl NativeKernel {
    /// A batch of a program that emits, on memory of the layout that the code was compiled for.
    #[inline(never)]
    pub(super) fn run_emitting_batch(&self, memory: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> BatchExit {
        let count = batch.len();
        if self.thresholds.runs_emitting_groups(count)
            && (batch.layout, batch.outputs_wanted(), batch.preserve_unit) == (VertexLayout::Aos, 0, false)
            && let Some(code) = self.batch_code(count, batch.inputs_taken(), VertexLayout::Aos)
            && let Some(facts) = &code.emission
        {
            let banks = memory.banks();
            let EmittedOutputs { stored, changed } = &facts.outputs;
            // Code has one copy of the components that no run changes.
            if banks_agree(&banks, *stored, |n| !changed[n] & XYZW) {
                return EmittingRun::new(self, code, facts, banks).run(memory, batch);
            }
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
fn banks_agree([first, second]: &[Registers; 2], mask: u16, of: impl Fn(usize) -> Components) -> bool {
    let same = |n: usize, c: u8| first[n][usize::from(c)].to_bits() == second[n][usize::from(c)].to_bits();
    (0..REGS).filter(|n| mask >> n & 1 != 0).all(|n| components(of(n)).all(|c| same(n, c)))
}

/// How a call of batch code ended.
enum Ended {
    AtTheEnd,
    /// An invocation has more EMITs than it has records.
    MoreEmits,
    /// An invocation has this many only.
    Emits(usize),
    BailedOut,
}

/// A batch whose invocations run as groups.
struct EmittingRun<'a> {
    kernel: &'a NativeKernel,
    code: &'a BatchCode,
    facts: &'a EmissionFacts,
    /// The outputs at the start, the current bank's first. Groups change none; in what code does not
    /// store, nor does any invocation.
    banks: [Registers; 2],
    /// Whether both have the same bits in the registers that code does not store.
    banks_agree: bool,
    /// The EMITs of an invocation.
    emits: usize,
    records: Vec<EmittedVertex>,
}

impl<'a> EmittingRun<'a> {
    fn new(
        kernel: &'a NativeKernel,
        code: &'a BatchCode,
        facts: &'a EmissionFacts,
        banks: [Registers; 2],
    ) -> EmittingRun<'a> {
        let banks_agree = banks_agree(&banks, !facts.outputs.stored, |_| XYZW);
        let emits = facts.emits.load(Ordering::Relaxed);
        EmittingRun { kernel, code, facts, banks, banks_agree, emits, records: Vec::new() }
    }

    fn run(&mut self, memory: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> BatchExit {
        let (count, kernel) = (batch.len(), self.kernel);
        let groups_end = count / GROUP * GROUP;
        let cancel = kernel.cancel.reader();
        let (mut result, mut at) = (BatchExit::NONE, 0);
        let mut unit_is_current = true;
        while at < groups_end && !cancel.is_set() {
            let group_records = GROUP * self.emits;
            let ended = match group_records <= MAX_RECORDS {
                true => {
                    let size = (RECORDS / group_records.max(1)).max(1) * GROUP;
                    let end = groups_end.min(at + size.min(MAX_INVOCATIONS));
                    let (done, ended) = self.groups(memory, batch, at..end);
                    kernel.count_groups((done / GROUP) as u32);
                    result.count_group(Exit::End, done);
                    unit_is_current &= done == 0;
                    at += done;
                    ended
                }
                false => Ended::BailedOut,
            };
            match ended {
                Ended::AtTheEnd => continue,
                Ended::Emits(emits) => self.emits = emits,
                Ended::MoreEmits => self.emits = (2 * self.emits).max(1),
                Ended::BailedOut => {
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
            }
        }
        self.facts.emits.store(self.emits, Ordering::Relaxed);
        self.update_unit(&mut unit_is_current, memory, batch, at);
        let rest = BatchRun::new(kernel, memory, batch).in_order_outlined(batch, at..count);
        result.append(rest);
        result
    }

    /// Runs groups and sends their vertices. How many invocations ran.
    fn groups(&mut self, memory: &mut RunMemory<'_>, batch: &mut Batch<'_>, range: Range<usize>) -> (usize, Ended) {
        let wanted = range.len() * self.emits;
        if self.records.len() < wanted {
            self.records.resize(wanted, EmittedVertex::new(&self.banks[0], EmitState::default()));
        }
        let mut ended = Ended::AtTheEnd;
        let bailed_out = |reason, emitted| {
            self.code.bailouts.count(reason);
            ended = match reason {
                _ if reason == BailoutReason::MoreEmits.code() => Ended::MoreEmits,
                _ if reason == BailoutReason::FewerEmits.code() => Ended::Emits(emitted),
                _ => Ended::BailedOut,
            };
        };
        let done = self.code.code.run_emitting_batch(memory, batch, range, &mut self.records, self.emits, bailed_out);
        let records = &mut self.records[..done * self.emits];
        if !self.banks_agree {
            fill_unstored(records, &self.banks, self.facts.outputs.stored);
        }
        memory.send(records);
        (done, ended)
    }

    /// Makes the unit what the invocation before `at` leaves, by running the last two again. Their
    /// vertices have been sent.
    fn update_unit(&self, is_current: &mut bool, memory: &mut RunMemory<'_>, batch: &Batch<'_>, at: usize) {
        if std::mem::replace(is_current, true) {
            return;
        }
        let mut nobody = NoEmitter;
        let mut memory = match memory {
            RunMemory::Own { uniforms, unit, .. } => RunMemory::Own { uniforms, unit, emitter: &mut nobody },
            RunMemory::Host { host, .. } => RunMemory::Host { host, emitter: &mut nobody },
        };
        let mut run = BatchRun::new(self.kernel, &mut memory, batch);
        for n in at - 2..at {
            run.vertex(&batch.inputs[n], n + 1 == batch.len());
        }
    }
}

/// Copies the registers that code does not store to records. The banks alternate from EMIT to EMIT.
fn fill_unstored(records: &mut [EmittedVertex], banks: &[Registers; 2], stored: u16) {
    for (record, bank) in records.iter_mut().zip([0, 1].into_iter().cycle()) {
        for n in (0..REGS).filter(|n| stored >> n & 1 == 0) {
            record.outputs[n] = banks[bank][n];
        }
    }
}
