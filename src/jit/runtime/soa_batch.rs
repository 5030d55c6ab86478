//! A batch whose registers lie [by components](VertexLayout::Soa) -> runs: groups side by side, and the rest one by one.
//!
//! Invariant: as of the other order. Vertices that run alone are copied from and to their block, so it pays where few do.

use super::kernel::NativeKernel;
use super::lazy_code::BatchCode;
use super::run_memory::RunMemory;
use crate::isa::REGS;
use crate::jit::abi::GROUP;
use crate::state::{Batch, Exit, Vec4, VertexLayout};
use std::sync::atomic::Ordering;

impl NativeKernel {
    /// A batch in this order, on memory of the layout that the code is for.
    pub(crate) fn run_components(&self, place: &mut RunMemory<'_>, batch: &mut Batch<'_>) -> Exit {
        let (count, wanted) = (batch.len(), batch.outputs_wanted());
        let lanes = self.batch_code(count, batch.inputs_taken(), VertexLayout::Soa);
        let done = lanes.map_or(0, |lanes| lanes.code.run_batch(place, batch, 0..count, wanted));
        if let Some(lanes) = lanes
            && done == count
            && wanted & !lanes.writes == 0
        {
            self.count_groups((count / GROUP) as u32);
            if !batch.preserve_unit {
                // It ended, and its outputs are there: this is for the unit.
                self.alone(place, batch, count - 1);
            }
            return Exit::End;
        }
        match batch.preserve_unit {
            false => self.group_by_group(lanes, place, batch, done),
            true => place.keeping_unit(|place| self.group_by_group(lanes, place, batch, done)),
        }
    }

    /// One vertex, without its outputs.
    fn alone(&self, place: &mut RunMemory<'_>, batch: &Batch<'_>, n: usize) -> Exit {
        let mut input = [[0.0; 4]; REGS];
        batch.take(n, &mut input);
        place.take_inputs(batch.inputs_taken(), &input);
        self.run_with(place, None, &mut false)
    }

    /// Interleave side by side as long as that pays, and those that are given up one by one. The first `done` vertices have run side by
    /// side, if there is code for it.
    #[inline(never)]
    fn group_by_group(
        &self,
        lanes: Option<&BatchCode>,
        place: &mut RunMemory<'_>,
        batch: &mut Batch<'_>,
        mut done: usize,
    ) -> Exit {
        let (count, wanted) = (batch.len(), batch.outputs_wanted());
        let mut result = Exit::End;
        let mut at = 0;
        while at < count {
            if let Some(lanes) = lanes.filter(|_| at == 0 || !self.bails_out_often()) {
                if at != 0 {
                    done = lanes.code.run_batch(place, batch, at..count, wanted);
                }
                self.count_groups((done / GROUP) as u32);
                // What no run writes is copied from the unit.
                let same = wanted & !lanes.writes;
                if done != 0 && same != 0 {
                    let registers = outputs(place, same);
                    (at..at + done).for_each(|n| batch.give(n, same, &registers));
                }
                at += done;
                if done != 0 {
                    // It ended, and its outputs are there: the next one finds the unit as it leaves it.
                    self.alone(place, batch, at - 1);
                }
                if at == count {
                    break;
                }
                self.bailouts.fetch_add(1, Ordering::Relaxed);
            }
            for n in at..at + GROUP {
                let exit = self.alone(place, batch, n);
                let registers = outputs(place, wanted);
                batch.give(n, wanted, &registers);
                if result == Exit::End {
                    result = exit;
                }
            }
            at += GROUP;
        }
        result
    }
}

/// These outputs of the unit, the others as zeros.
fn outputs(place: &RunMemory<'_>, mask: u16) -> [Vec4; REGS] {
    let mut registers = [[0.0; 4]; REGS];
    place.copy_outputs(mask, &mut registers);
    registers
}
