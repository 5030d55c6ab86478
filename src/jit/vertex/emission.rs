//! EMIT and SETEMIT -> stores to the emit buffer.
//!
//! EMIT copies the current bank from memory to the next record. The buffer's cursor lies in the
//! frame. This file must not know who receives the vertices.

use super::VertexLowering;
use crate::ir::Func;
use crate::isa::{REGS, Setemit};
use crate::jit::abi::{
    EMITTED, EMITTED_PARAMETERS, FRAME_CURSOR, FRAME_END, FRAME_FLUSH, VEC4, emitted_output, parameter_bytes,
};
use crate::jit::emit::memory::{aligned, bank_address, bank_number};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, types};

/// What is known of the state of EMIT at a point of the code. It agrees with the unit's memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Emission {
    /// The last SETEMIT.
    parameters: Option<Setemit>,
    bank: Option<Bank>,
}

/// The current bank.
#[derive(Clone, Copy)]
struct Bank {
    number: clif::Value,
    /// As [`bank_address`].
    address: clif::Value,
    /// The same of the other bank.
    other: clif::Value,
}

/// [`Emission`] by block.
#[derive(Default)]
pub(super) struct Emissions {
    /// The only block that leads to a block.
    predecessors: Vec<Option<usize>>,
    /// At the ends of the lowered blocks.
    ends: Vec<Emission>,
    pub(super) now: Emission,
}

impl Emissions {
    /// Of a function that emits.
    pub(super) fn new(func: &Func) -> Emissions {
        let mut predecessors = vec![None; func.blocks.len()];
        let mut edges = vec![0; func.blocks.len()];
        // The function begins with block 0.
        edges[0] = 1;
        for (id, block) in func.blocks.iter().enumerate() {
            for edge in block.term.edges() {
                edges[edge.to] += 1;
                predecessors[edge.to] = (edges[edge.to] == 1).then_some(id);
            }
        }
        Emissions { predecessors, ends: Vec::new(), now: Emission::default() }
    }

    /// Continues with the next block. A sole predecessor dominates it.
    pub(super) fn begin_block(&mut self) {
        let predecessor = self.predecessors.get(self.ends.len()).copied().flatten();
        self.now = predecessor.and_then(|id| self.ends.get(id)).copied().unwrap_or_default();
    }

    pub(super) fn end_block(&mut self) {
        self.ends.push(self.now);
    }
}

impl VertexLowering<'_, '_> {
    fn setemit_offsets(&self) -> [i32; 3] {
        self.layout.setemit().expect("others are Unsupported::NoGeometry")
    }

    pub(super) fn setemit(&mut self, parameters: Setemit) {
        let Setemit { vertex, primitive, winding } = parameters;
        for (byte, offset) in [vertex, primitive.into(), winding.into()].into_iter().zip(self.setemit_offsets()) {
            let byte = self.b.ins().iconst(types::I8, i64::from(byte));
            self.b.ins().store(aligned(), byte, self.unit, offset);
        }
        self.emissions.now.parameters = Some(parameters);
    }

    pub(super) fn emit(&mut self) {
        let record = self.next_record();
        let bank = self.current_bank();
        for n in 0..REGS as u8 {
            let v = self.b.ins().load(types::F32X4, aligned(), bank.address, self.layout.o(n, 0));
            self.b.ins().store(aligned(), v, record, emitted_output(n));
        }
        self.store_parameters(record);
        let next = self.b.ins().iadd_imm_s(record, i64::from(EMITTED));
        self.b.ins().store(aligned(), next, self.frame, FRAME_CURSOR);
        self.toggle(bank);
    }

    /// The record at the cursor. A full buffer is emptied first.
    fn next_record(&mut self) -> clif::Value {
        let pointer = self.b.func.dfg.value_type(self.frame);
        let (flush, store) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(flush);
        let record = self.b.append_block_param(store, pointer);
        let cursor = self.b.ins().load(pointer, aligned(), self.frame, FRAME_CURSOR);
        let end = self.b.ins().load(pointer, aligned(), self.frame, FRAME_END);
        let full = self.b.ins().icmp(IntCC::Equal, cursor, end);
        self.b.ins().brif(full, flush, &[], store, &[BlockArg::from(cursor)]);
        self.b.switch_to_block(flush);
        let signature = self.flush_signature.expect("a function that emits has it");
        let function = self.b.ins().load(pointer, aligned(), self.frame, FRAME_FLUSH);
        let call = self.b.ins().call_indirect(signature, function, &[self.frame]);
        let start = self.b.inst_results(call)[0];
        self.b.ins().jump(store, &[BlockArg::from(start)]);
        self.b.switch_to_block(store);
        record
    }

    fn current_bank(&mut self) -> Bank {
        if let Some(bank) = self.emissions.now.bank {
            return bank;
        }
        let number = bank_number(&mut self.b, &self.layout, self.unit);
        let address = bank_address(&mut self.b, &self.layout, self.unit, number);
        let other = self.b.ins().bxor_imm_u(number, 1);
        let other = bank_address(&mut self.b, &self.layout, self.unit, other);
        Bank { number, address, other }
    }

    fn toggle(&mut self, Bank { number, address, other }: Bank) {
        let (_, at) = self.layout.banks().expect("others are Unsupported::NoGeometry");
        let number = self.b.ins().bxor_imm_u(number, 1);
        self.b.ins().istore8(aligned(), number, self.unit, at);
        self.emissions.now.bank = Some(Bank { number, address: other, other: address });
    }

    /// Stores the parameters of the last SETEMIT: words, normalised.
    fn store_parameters(&mut self, record: clif::Value) {
        if let Some(parameters) = self.emissions.now.parameters {
            let bytes = parameter_bytes(parameters);
            let constant = self.b.func.dfg.constants.insert(clif::ConstantData::from(&bytes[..]));
            let words = self.b.ins().vconst(types::I32X4, constant);
            self.b.ins().store(aligned(), words, record, EMITTED_PARAMETERS);
            return;
        }
        let [vertex, primitive, winding] =
            self.setemit_offsets().map(|at| self.b.ins().uload8(types::I32, aligned(), self.unit, at));
        let vertex = self.b.ins().band_imm_u(vertex, 3);
        // A host may represent true by any nonzero byte.
        let [primitive, winding] = [primitive, winding].map(|flag| {
            let flag = self.b.ins().icmp_imm_u(IntCC::NotEqual, flag, 0);
            self.b.ins().uextend(types::I32, flag)
        });
        let zero = self.b.ins().iconst(types::I32, 0);
        for (n, word) in [vertex, primitive, winding, zero].into_iter().enumerate() {
            self.b.ins().store(aligned(), word, record, EMITTED_PARAMETERS + n as i32 * (VEC4 / 4));
        }
    }
}
