//! EMIT and SETEMIT in batch code: a vertex of each invocation of the group, in records of that
//! invocation.
//!
//! Every invocation has the same number of records, so the vertices of a batch lie in order and without
//! gaps. A group with another number of EMITs bails out, and what it left is not read. The records hold
//! the outputs that the program does not write. This file must not know who receives the vertices.

use super::BatchLowering;
use super::bailout::BailoutReason;
use crate::ir::Value;
use crate::ir::analysis::{XYZW, components};
use crate::isa::Setemit;
use crate::jit::abi::{
    BATCH_CURSOR, BATCH_PARAMETERS, BATCH_RECORDS_END, BATCH_RECORDS_STRIDE, EMITTED, EMITTED_PARAMETERS, GROUP,
    emitted_output, parameter_bytes,
};
use crate::jit::emit::memory::aligned;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, SourceLoc, types};
use std::collections::HashMap;

/// What the EMITs before the present one stored, if it runs after all of them. Strips emit the same
/// colour and often the same position again: a copy from record to record is shorter than a further
/// transpose and guard.
#[derive(Default)]
pub(super) struct StoredOutputs {
    /// The block at whose end this holds.
    block: usize,
    /// The displacement of the present record from the first one of these EMITs.
    record: i32,
    /// For each value the displacement of its register from that record.
    registers: HashMap<Value, i32>,
}

impl StoredOutputs {
    /// Enters a block. The records still hold the values if it runs after the present block only.
    pub(super) fn enter(&mut self, block: usize, predecessors: &[usize]) {
        if predecessors != [self.block] {
            self.registers.clear();
        }
        self.block = block;
    }
}

impl BatchLowering<'_, '_> {
    /// Stores the parameters of the next EMITs in the frame.
    pub(super) fn setemit(&mut self, parameters: Setemit) {
        let constant = clif::ConstantData::from(&parameter_bytes(parameters)[..]);
        let constant = self.b.func.dfg.constants.insert(constant);
        let parameters = self.b.ins().vconst(types::I32X4, constant);
        self.b.ins().store(aligned(), parameters, self.frame, BATCH_PARAMETERS);
    }

    /// Stores these output registers, each with its pc, as a vertex of each invocation.
    pub(super) fn emit(&mut self, outputs: &[(u16, u8, Value)]) {
        let pointer = self.b.func.dfg.value_type(self.frame);
        self.split(outputs.iter().map(|(.., value)| *value));
        let record = self.b.ins().load(pointer, aligned(), self.frame, BATCH_CURSOR);
        let end = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_END);
        let full = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, record, end);
        self.bail_out_if(full, BailoutReason::Emits);
        let stride = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_STRIDE);
        let mut records = [record; GROUP];
        for lane in 1..GROUP {
            records[lane] = self.b.ins().iadd(records[lane - 1], stride);
        }
        for &(pc, n, value) in outputs {
            let written = self.plan.written[usize::from(n)];
            self.b.set_srcloc(SourceLoc::new(u32::from(pc)));
            let present = self.emitted.record;
            let stored = self.emitted.registers.get(&value).map(|stored| stored - present);
            if stored.is_none() {
                self.guard(value, written);
            }
            if written == XYZW {
                let rows = match stored {
                    Some(stored) => records.map(|record| self.b.ins().load(types::F32X4, aligned(), record, stored)),
                    None => {
                        let columns = [0, 1, 2, 3].map(|c| self.component(value, c));
                        let rows = self.clif().transposed(columns, XYZW);
                        rows.map(|row| row.expect("all components are wanted"))
                    }
                };
                self.emitted.registers.insert(value, present + emitted_output(n));
                for (row, &record) in rows.into_iter().zip(&records) {
                    self.b.ins().store(aligned(), row, record, emitted_output(n));
                }
                continue;
            }
            for c in components(written) {
                let column = self.component(value, c);
                for (lane, &record) in (0..).zip(&records) {
                    let x = self.b.ins().extractlane(column, lane);
                    self.b.ins().store(aligned(), x, record, emitted_output(n) + 4 * i32::from(c));
                }
            }
        }
        let parameters = self.b.ins().load(types::I32X4, aligned(), self.frame, BATCH_PARAMETERS);
        for &record in &records {
            self.b.ins().store(aligned(), parameters, record, EMITTED_PARAMETERS);
        }
        let next = self.b.ins().iadd_imm_s(record, i64::from(EMITTED));
        self.b.ins().store(aligned(), next, self.frame, BATCH_CURSOR);
        self.emitted.record += EMITTED;
    }

    /// Moves on to the records of the next group, if this one's are full.
    pub(super) fn end_emission(&mut self) {
        let pointer = self.b.func.dfg.value_type(self.frame);
        let cursor = self.b.ins().load(pointer, aligned(), self.frame, BATCH_CURSOR);
        let end = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_END);
        let fewer = self.b.ins().icmp(IntCC::NotEqual, cursor, end);
        self.bail_out_if(fewer, BailoutReason::Emits);
        let stride = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_STRIDE);
        let others = self.b.ins().imul_imm_s(stride, GROUP as i64 - 1);
        let cursor = self.b.ins().iadd(end, others);
        self.b.ins().store(aligned(), cursor, self.frame, BATCH_CURSOR);
        let end = self.b.ins().iadd(cursor, stride);
        self.b.ins().store(aligned(), end, self.frame, BATCH_RECORDS_END);
    }
}
