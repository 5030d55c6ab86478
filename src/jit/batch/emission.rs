//! EMIT in batch code: a vertex of each invocation of the group, in the records of that invocation.
//!
//! Every invocation has the same number of records, so the vertices of a batch lie in order and
//! without gaps. A group with another number of EMITs bails out; what it leaves behind the records
//! of the last complete group nobody reads. It must not know who receives the vertices.

use super::BatchLowering;
use super::bailout::BailoutReason;
use crate::ir::Value;
use crate::ir::analysis::XYZW;
use crate::isa::Setemit;
use crate::jit::abi::{
    BATCH_CURSOR, BATCH_RECORDS_LIMIT, BATCH_RECORDS_STRIDE, EMITTED, EMITTED_PARAMETERS, GROUP, emitted_output,
    parameter_bytes,
};
use crate::jit::emit::memory::aligned;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, types};

impl BatchLowering<'_, '_> {
    /// Stores these output registers, and the parameters, as a vertex of each invocation.
    pub(super) fn emit(&mut self, parameters: Setemit, outputs: &[(u8, Value)]) {
        let pointer = self.b.func.dfg.value_type(self.frame);
        self.split(outputs.iter().map(|(_, value)| *value));
        let record = self.b.ins().load(pointer, aligned(), self.frame, BATCH_CURSOR);
        let limit = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_LIMIT);
        let full = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, record, limit);
        self.bail_out_if(full, BailoutReason::MoreEmits);
        let stride = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_STRIDE);
        let mut records = [record; GROUP];
        for lane in 1..GROUP {
            records[lane] = self.b.ins().iadd(records[lane - 1], stride);
        }
        for &(n, value) in outputs {
            self.guard(value, XYZW);
            let columns = [0, 1, 2, 3].map(|c| self.component(value, c));
            let rows = self.clif().transposed(columns, XYZW);
            for (row, &record) in rows.into_iter().zip(&records) {
                let row = row.expect("all components are wanted");
                self.b.ins().store(aligned(), row, record, emitted_output(n));
            }
        }
        let constant = self.b.func.dfg.constants.insert(clif::ConstantData::from(&parameter_bytes(parameters)[..]));
        let parameters = self.b.ins().vconst(types::I32X4, constant);
        for &record in &records {
            self.b.ins().store(aligned(), parameters, record, EMITTED_PARAMETERS);
        }
        let next = self.b.ins().iadd_imm_s(record, i64::from(EMITTED));
        self.b.ins().store(aligned(), next, self.frame, BATCH_CURSOR);
    }

    /// Moves on to the records of the next group, if this one's are full.
    pub(super) fn end_emission(&mut self) {
        let pointer = self.b.func.dfg.value_type(self.frame);
        let cursor = self.b.ins().load(pointer, aligned(), self.frame, BATCH_CURSOR);
        let limit = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_LIMIT);
        let fewer = self.b.ins().icmp(IntCC::NotEqual, cursor, limit);
        self.bail_out_if(fewer, BailoutReason::FewerEmits);
        let stride = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_STRIDE);
        let others = self.b.ins().imul_imm_s(stride, GROUP as i64 - 1);
        let cursor = self.b.ins().iadd(limit, others);
        self.b.ins().store(aligned(), cursor, self.frame, BATCH_CURSOR);
        let limit = self.b.ins().iadd(cursor, stride);
        self.b.ins().store(aligned(), limit, self.frame, BATCH_RECORDS_LIMIT);
    }
}
