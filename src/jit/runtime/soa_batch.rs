//! A batch in [SoA layout](VertexLayout::Soa) -> runs: groups, and the vertices of groups that bail
//! out in order.
//!
//! Invariant: as for AoS batches. A vertex that runs alone is copied from and to its block, so the
//! layout pays where few do.

use super::kernel::NativeKernel;
use super::last_writers::LastWriters;
use super::lazy_code::BatchCode;
use crate::isa::REGS;
use crate::jit::abi::GROUP;
use crate::kernel::run_memory::RunMemory;
use crate::state::{Batch, BatchExit, Exit, Vec4, VertexLayout};
use std::sync::atomic::Ordering;

impl NativeKernel {
    /// An SoA batch on memory of the layout that the code was compiled for.
    pub(crate) fn run_soa_batch(&self, memory: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> BatchExit {
        let (count, output_mask) = (batch.len(), batch.outputs_wanted());
        let code = self.batch_code(count, batch.inputs_taken(), VertexLayout::Soa);
        let mut writers = LastWriters::default();
        let done = code.map_or(0, |code| code.run(memory, batch, 0..count, output_mask, &mut writers));
        if let Some(code) = code
            && done == count
            && output_mask & !code.writes == 0
        {
            self.count_groups((count / GROUP) as u32);
            if !batch.preserve_unit {
                self.update_unit(memory, batch, count, &mut writers);
            }
            return BatchExit { exit: Exit::End, ran: count };
        }
        match batch.preserve_unit {
            false => self.group_by_group(code, memory, batch, done, writers),
            true => memory.preserving_unit(|memory| self.group_by_group(code, memory, batch, done, writers)),
        }
    }

    /// Makes the unit what the vertex before `at` leaves. Batch code writes outputs only, so that
    /// vertex runs again, after the last writers of kept components.
    fn update_unit(&self, memory: &mut RunMemory<'_>, batch: &Batch<'_>, at: usize, writers: &mut LastWriters) {
        for n in writers.take_before(at - 1).chain([at - 1]) {
            self.run_alone(memory, batch, n);
        }
    }

    /// Runs one vertex, without its outputs.
    fn run_alone(&self, memory: &mut RunMemory<'_>, batch: &Batch<'_>, n: usize) -> Exit {
        let mut input = [[0.0; 4]; REGS];
        batch.take(n, &mut input);
        memory.take_inputs(batch.inputs_taken(), &input);
        self.run_with(memory, None, &mut false)
    }

    /// Groups as long as bailouts are rare, and the vertices of those that bail out in order. The
    /// first `done` vertices ran as groups, if there is batch code.
    #[inline(never)]
    fn group_by_group(
        &self,
        code: Option<&BatchCode>,
        memory: &mut RunMemory<'_>,
        batch: &mut Batch<'_>,
        mut done: usize,
        mut writers: LastWriters,
    ) -> BatchExit {
        let (count, output_mask) = (batch.len(), batch.outputs_wanted());
        let mut result = BatchExit::NONE;
        let mut at = 0;
        while at < count {
            if let Some(code) = code.filter(|_| at == 0 || !self.bails_out_often()) {
                if at != 0 {
                    done = code.run(memory, batch, at..count, output_mask, &mut writers);
                }
                self.count_groups((done / GROUP) as u32);
                result.count_group(Exit::End, done);
                // Outputs that no run writes are the unit's.
                let unwritten = output_mask & !code.writes;
                if done != 0 && unwritten != 0 {
                    let registers = outputs(memory, unwritten);
                    (at..at + done).for_each(|n| batch.give(n, unwritten, &registers));
                }
                at += done;
                if done != 0 {
                    // For the unit that the next vertex finds.
                    self.update_unit(memory, batch, at, &mut writers);
                }
                if at == count {
                    break;
                }
                self.bailouts.fetch_add(1, Ordering::Relaxed);
            }
            for n in at..at + GROUP {
                if self.cancel.is_set() {
                    result.cancel();
                    return result;
                }
                let exit = self.run_alone(memory, batch, n);
                let registers = outputs(memory, output_mask);
                batch.give(n, output_mask, &registers);
                if !result.count(exit) {
                    return result;
                }
            }
            at += GROUP;
        }
        result
    }
}

/// These outputs of the unit, the others as zeros.
fn outputs(memory: &RunMemory<'_>, mask: u16) -> [Vec4; REGS] {
    let mut registers = [[0.0; 4]; REGS];
    memory.copy_outputs(mask, &mut registers);
    registers
}
