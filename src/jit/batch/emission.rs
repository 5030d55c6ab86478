//! EMIT in batch code: a vertex of each invocation of the group, side by side in the buffer.
//!
//! A group that bails out leaves records behind its last complete group, which nobody reads. It must
//! not know who receives the vertices.

use super::BatchLowering;
use super::bailout::BailoutReason;
use crate::ir::Value;
use crate::ir::analysis::XYZW;
use crate::isa::Setemit;
use crate::jit::abi::{
    BATCH_CURSOR, BATCH_GROUP_ENDS, BATCH_RECORDS_END, EMITTED, EMITTED_PARAMETERS, GROUP, emitted_output,
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
        let end = self.b.ins().load(pointer, aligned(), self.frame, BATCH_RECORDS_END);
        let full = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, record, end);
        self.bail_out_if(full, BailoutReason::FullBuffer);
        let at = |lane: usize, offset: i32| lane as i32 * EMITTED + offset;
        for &(n, value) in outputs {
            self.guard(value, XYZW);
            let columns = [0, 1, 2, 3].map(|c| self.component(value, c));
            let rows = self.clif().transposed(columns, XYZW);
            for (lane, row) in rows.into_iter().enumerate() {
                let row = row.expect("all components are wanted");
                self.b.ins().store(aligned(), row, record, at(lane, emitted_output(n)));
            }
        }
        let parameters = self.parameters(parameters);
        for lane in 0..GROUP {
            self.b.ins().store(aligned(), parameters, record, at(lane, EMITTED_PARAMETERS));
        }
        let next = self.b.ins().iadd_imm_s(record, GROUP as i64 * i64::from(EMITTED));
        self.b.ins().store(aligned(), next, self.frame, BATCH_CURSOR);
    }

    fn parameters(&mut self, Setemit { vertex, primitive, winding }: Setemit) -> clif::Value {
        let words = [u32::from(vertex), primitive.into(), winding.into(), 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let constant = self.b.func.dfg.constants.insert(clif::ConstantData::from(&bytes[..]));
        self.b.ins().vconst(types::I32X4, constant)
    }

    /// Notes where the vertices of a group that is done end.
    pub(super) fn end_emission(&mut self) {
        let pointer = self.b.func.dfg.value_type(self.frame);
        let cursor = self.b.ins().load(pointer, aligned(), self.frame, BATCH_CURSOR);
        let ends = self.b.ins().load(pointer, aligned(), self.frame, BATCH_GROUP_ENDS);
        self.b.ins().store(aligned(), cursor, ends, 0);
        let next = self.b.ins().iadd_imm_s(ends, i64::from(pointer.bytes()));
        self.b.ins().store(aligned(), next, self.frame, BATCH_GROUP_ENDS);
    }
}
