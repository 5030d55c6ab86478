//! EMIT and SETEMIT -> stores to the emit buffer.
//!
//! EMIT stores the outputs that the program writes in the next record; the runtime adds the others.
//! The buffer's cursor lies in the frame. This file must not know who receives the vertices.
//!
//! Speculative code changes nothing that a failed guard can't undo: the records are not handed over
//! before the run has ended, and the bank and the parameters are restored. A full buffer would have
//! to be handed over earlier, so the run ends there with [`NO_ROOM`], and exact code repeats it.
//! Tests of the pending guards before a hand-over would not do: a later guard may fail as well.

use super::VertexLowering;
use crate::ir::{Form, Func, Inst, Value};
use crate::isa::Setemit;
use crate::jit::abi::{
    EMITTED, EMITTED_PARAMETERS, FRAME_CURSOR, FRAME_END, FRAME_FLUSH, NO_ROOM, VEC4, emitted_output, parameter_bytes,
};
use crate::jit::emit::Products;
use crate::jit::emit::memory::{aligned, bank_address, bank_number};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, types};

/// What is known of the state of EMIT at a point of the code. It agrees with the unit's memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Emission {
    /// The last SETEMIT.
    parameters: Option<Setemit>,
    bank: Option<Bank>,
    /// The record of the next EMIT.
    cursor: Option<clif::Value>,
}

/// The numbers of the output banks.
#[derive(Clone, Copy)]
struct Bank {
    current: clif::Value,
    other: clif::Value,
}

/// [`Emission`] by block.
#[derive(Default)]
pub(super) struct Emissions {
    /// The only block that leads to a block.
    predecessors: Vec<Option<usize>>,
    /// At the ends of the lowered blocks.
    ends: Vec<Emission>,
    now: Emission,
    /// The outputs that the program writes; bit n is `on`.
    written: u16,
    /// The outputs of the next EMIT, in SSA form.
    pub(super) outputs: Vec<(u8, Value)>,
    /// The bytes of the unit that EMIT and SETEMIT change, before the run.
    before: Vec<(i32, clif::Value)>,
    /// The block that returns [`NO_ROOM`].
    no_room: Option<clif::Block>,
}

impl Emissions {
    /// Of a function that emits.
    pub(super) fn new(func: &Func) -> Emissions {
        let only = |all: &Vec<usize>| if let [from] = all[..] { Some(from) } else { None };
        let mut predecessors: Vec<Option<usize>> = func.predecessors().iter().map(only).collect();
        // The function begins with block 0.
        predecessors[0] = None;
        Emissions { predecessors, written: func.outputs_written(), ..Emissions::default() }
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
        match self.func.form {
            Form::Ssa => {
                let outputs = std::mem::take(&mut self.emissions.outputs);
                debug_assert_eq!(outputs.iter().fold(0, |mask, (n, _)| mask | 1 << n), self.emissions.written);
                for (n, value) in outputs {
                    let v = self.vector(value);
                    let v = self.clif().wide(v);
                    self.b.ins().store(aligned(), v, record, emitted_output(n));
                }
            }
            Form::Memory => {
                let address = bank_address(&mut self.b, &self.layout, self.unit, bank.current);
                for n in (0..16).filter(|n| self.emissions.written >> n & 1 != 0) {
                    let v = self.b.ins().load(types::F32X4, aligned(), address, self.layout.o(n, 0));
                    self.b.ins().store(aligned(), v, record, emitted_output(n));
                }
            }
        }
        self.store_parameters(record);
        let next = self.b.ins().iadd_imm_s(record, i64::from(EMITTED));
        self.b.ins().store(aligned(), next, self.frame, FRAME_CURSOR);
        self.emissions.now.cursor = Some(next);
        self.toggle(bank);
    }

    /// Loads what [`VertexLowering::restore_emission`] stores. For block 0, which dominates all.
    pub(super) fn save_emission(&mut self) {
        if self.products != Products::Speculative {
            return;
        }
        let sets = |(_, inst): &(_, Inst)| matches!(inst, Inst::Setemit(_));
        let mut places = Vec::new();
        if self.func.blocks.iter().flat_map(|block| &block.insts).any(sets) {
            places.extend(self.setemit_offsets());
        }
        if self.func.emits() {
            places.extend(self.layout.banks().map(|(_, at)| at));
        }
        for at in places {
            let byte = self.b.ins().load(types::I8, aligned(), self.unit, at);
            self.emissions.before.push((at, byte));
        }
    }

    /// Undoes what EMIT and SETEMIT changed in the unit.
    pub(super) fn restore_emission(&mut self) {
        for &(at, byte) in &self.emissions.before {
            self.b.ins().store(aligned(), byte, self.unit, at);
        }
    }

    /// Writes the end of speculative runs that find the buffer full, if there are any.
    pub(super) fn emit_no_room_block(&mut self) {
        if let Some(block) = self.emissions.no_room {
            self.b.switch_to_block(block);
            self.restore_emission();
            let code = self.b.ins().iconst(types::I32, i64::from(NO_ROOM));
            self.b.ins().return_(&[code]);
        }
    }

    /// The record at the cursor. Exact code empties a full buffer first.
    fn next_record(&mut self) -> clif::Value {
        let pointer = self.b.func.dfg.value_type(self.frame);
        let cursor = match self.emissions.now.cursor {
            Some(cursor) => cursor,
            None => self.b.ins().load(pointer, aligned(), self.frame, FRAME_CURSOR),
        };
        let end = self.b.ins().load(pointer, aligned(), self.frame, FRAME_END);
        let full = self.b.ins().icmp(IntCC::Equal, cursor, end);
        if self.products == Products::Speculative {
            let no_room = *self.emissions.no_room.get_or_insert_with(|| {
                let block = self.b.create_block();
                self.b.set_cold_block(block);
                block
            });
            let go_on = self.b.create_block();
            self.b.ins().brif(full, no_room, &[], go_on, &[]);
            self.b.switch_to_block(go_on);
            return cursor;
        }
        let (flush, store) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(flush);
        let record = self.b.append_block_param(store, pointer);
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
        let current = bank_number(&mut self.b, &self.layout, self.unit);
        Bank { current, other: self.b.ins().bxor_imm_u(current, 1) }
    }

    fn toggle(&mut self, Bank { current, other }: Bank) {
        let (_, at) = self.layout.banks().expect("others are Unsupported::NoGeometry");
        self.b.ins().istore8(aligned(), other, self.unit, at);
        self.emissions.now.bank = Some(Bank { current: other, other: current });
    }

    /// Stores the parameters of the last SETEMIT: words, normalised.
    fn store_parameters(&mut self, record: clif::Value) {
        if let Some(parameters) = self.emissions.now.parameters {
            let constant = clif::ConstantData::from(&parameter_bytes(parameters)[..]);
            let constant = self.b.func.dfg.constants.insert(constant);
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
