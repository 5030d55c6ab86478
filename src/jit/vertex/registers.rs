//! Registers, inputs and uniforms in memory -> values, and back.
//!
//! Speculative float24 code records what it loads in the sticky flags; see [`guard`](super::guard).
//! It must not know how values are used.

use super::{VertexLowering, VertexValue};
use crate::ir::analysis::{Components, XYZW};
use crate::ir::{Block, Form, Mem, Node, Terminator, Type, Value};
use crate::isa::numeric::Precision;
use crate::jit::abi::{FRAME_ONES, FRAME_UNIFORMS_CHECKED, OUTPUTS_FRAME_MASK, OUTPUTS_FRAME_OUTPUTS, Stores, VEC4};
use crate::jit::emit::memory::{aligned, bank_address, bank_number, constant_memory, uniform_address};
use crate::jit::emit::vector::VecValue;
use crate::jit::emit::{Products, Tails};
use cranelift_codegen::ir::{self as clif, InstBuilder, MemFlagsData, types};

impl VertexLowering<'_, '_> {
    pub(crate) fn raw_input(&mut self, n: u8) -> clif::Value {
        // A batch's inputs need not be aligned to more than a float.
        let flags = MemFlagsData::new().with_notrap().with_readonly();
        self.b.ins().load(types::F32X4, flags, self.inputs, i32::from(n) * VEC4)
    }

    pub(crate) fn raw_uniform(&mut self, n: u8) -> clif::Value {
        let offset = self.layout.c(n, 0);
        self.b.ins().load(types::F32X4, constant_memory(), self.uniforms, offset)
    }

    /// Whether uniforms are narrowed when they are read. Speculative code records violations
    /// instead.
    pub(crate) fn narrows_uniforms(&self) -> bool {
        self.precision != Precision::F32 && self.products == Products::Exact
    }

    /// Records a vector from memory in the sticky flags of speculative float24 code.
    fn record(&mut self, v: clif::Value, live: Components, tails: Tails) {
        let live = live & XYZW;
        if self.precision != Precision::F32 && self.products == Products::Speculative && live != 0 {
            self.clif().record_operand(v, live, tails);
        }
    }

    /// Narrows the live leaves, or records them if speculative code reads them unnarrowed. For
    /// block 0, which runs exactly once.
    pub(crate) fn narrow_leaves(&mut self) {
        let func = self.func;
        if func.form == Form::Memory {
            return;
        }
        let live = |id: &usize| self.live[*id] != 0;
        let leaves = |number: fn(&Node) -> Option<u8>| {
            let all = (0..func.nodes.len()).filter(live);
            all.filter_map(|id| number(&func.nodes[id]).map(|n| (Value(id as u32), n))).collect::<Vec<_>>()
        };
        let inputs = leaves(|node| if let Node::Input(n) = node { Some(*n) } else { None });
        let uniforms = leaves(|node| if let Node::Uniform(n) = node { Some(*n) } else { None });
        match self.products {
            Products::Exact => {
                for (value, n) in uniforms {
                    let v = self.raw_uniform(n);
                    let v = self.clif().uniform(v);
                    self.loaded.insert(value, v);
                }
            }
            Products::Speculative if !uniforms.is_empty() => {
                // Uniforms are loop-invariant: a batch checks them until a vertex passes.
                let checked = self.b.ins().load(types::I32, aligned(), self.frame, FRAME_UNIFORMS_CHECKED);
                let (check, go_on) = (self.b.create_block(), self.b.create_block());
                self.b.ins().brif(checked, go_on, &[], check, &[]);
                self.b.switch_to_block(check);
                for (value, n) in uniforms {
                    let v = self.raw_uniform(n);
                    self.record(v, self.live[value.0 as usize], Tails::Kept);
                }
                self.test_guards();
                self.b.ins().jump(go_on, &[]);
                self.b.switch_to_block(go_on);
            }
            Products::Speculative => {}
        }
        for (value, n) in inputs {
            let raw = self.raw_input(n);
            // Rounding may leave the band.
            let v = self.clif().input(raw);
            self.record(v, self.live[value.0 as usize], Tails::Rounded);
            self.loaded.insert(value, v);
        }
    }

    pub(crate) fn relative(&mut self, base: u8, offset: Value, live: Components) -> VertexValue {
        let offset = self.scalar(offset);
        let first = self.layout.c(0, 0);
        let ones = self.b.ins().iadd_imm_s(self.frame, i64::from(FRAME_ONES - first));
        let address = uniform_address(&mut self.b, self.uniforms, base, offset, ones);
        let v = self.b.ins().load(types::F32X4, constant_memory(), address, first);
        let v = self.clif().uniform(v);
        self.record(v, live, Tails::Kept);
        VertexValue::Vector(VecValue::Wide(v))
    }

    /// The address and displacement of a register, if the layout has it.
    fn address(&mut self, mem: Mem) -> Option<(clif::Value, i32)> {
        Some(match mem {
            Mem::Temp(n) => (self.unit, self.layout.r(n, 0)),
            Mem::Out { n, bank } => {
                let base = match self.banks.get(&bank) {
                    Some(&base) => base,
                    None => {
                        let bank = self.scalar(bank);
                        bank_address(&mut self.b, &self.layout, self.unit, bank)
                    }
                };
                (base, self.layout.o(n, 0))
            }
            Mem::Address(n) => (self.unit, self.layout.a0(n)),
            Mem::LoopCounter => (self.unit, self.layout.al()),
            Mem::Flag(n) => (self.unit, self.layout.cmp(n)),
            Mem::Bank => (self.unit, self.layout.banks()?.1),
        })
    }

    pub(crate) fn load(&mut self, value: Value, mem: Mem) -> VertexValue {
        match mem {
            Mem::Bank => {
                let bank = bank_number(&mut self.b, &self.layout, self.unit);
                let address = bank_address(&mut self.b, &self.layout, self.unit, bank);
                self.banks.insert(value, address);
                VertexValue::Scalar(bank)
            }
            // As it is: where a run does not set it, it is stored again.
            Mem::Flag(n) => VertexValue::Scalar(self.b.ins().load(types::I8, aligned(), self.unit, self.layout.cmp(n))),
            _ => {
                let (base, offset) = self.address(mem).expect("all layouts have all registers but the bank");
                if mem.ty() == Type::Vec4 {
                    let v = self.b.ins().load(types::F32X4, aligned(), base, offset);
                    if let Mem::Temp(_) = mem {
                        self.record(v, self.live[value.0 as usize], Tails::Kept);
                    }
                    VertexValue::Vector(VecValue::Wide(v))
                } else {
                    VertexValue::Scalar(self.b.ins().load(types::I32, aligned(), base, offset))
                }
            }
        }
    }

    pub(crate) fn store(&mut self, mem: Mem, value: Value) {
        let stored = match mem.ty() {
            Type::Vec4 => {
                let v = self.vector(value);
                self.clif().wide(v)
            }
            _ => self.scalar(value),
        };
        if let (Mem::Out { n, .. }, Stores::Outputs) = (mem, self.stores) {
            return self.store_wanted(n, stored);
        }
        if let Some((base, offset)) = self.address(mem) {
            self.b.ins().store(aligned(), stored, base, offset);
        }
    }

    /// Copies outputs from the unit to the batch that a run leaves unchanged if it ends in `block`,
    /// and changes if it ends elsewhere: so every run writes the same registers.
    pub(crate) fn store_unchanged_outputs(&mut self, block: &Block) {
        let unchanged = self.func.outputs_written() & !block.outputs_stored();
        if self.stores == Stores::Unit || unchanged == 0 || !matches!(block.term, Terminator::Exit(_)) {
            return;
        }
        let bank = bank_number(&mut self.b, &self.layout, self.unit);
        let base = bank_address(&mut self.b, &self.layout, self.unit, bank);
        for n in (0..16).filter(|n| unchanged >> n & 1 != 0) {
            let offset = self.layout.o(n, 0);
            let output = self.b.ins().load(types::F32X4, aligned(), base, offset);
            self.store_wanted(n, output);
        }
    }

    /// Stores an output to the batch, if the batch wants it.
    fn store_wanted(&mut self, n: u8, stored: clif::Value) {
        let mask = self.b.ins().load(types::I32, aligned(), self.frame, OUTPUTS_FRAME_MASK);
        let wanted = self.b.ins().band_imm_u(mask, 1 << n);
        let (store, next) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(wanted, store, &[], next, &[]);
        self.b.switch_to_block(store);
        let pointer = self.b.func.dfg.value_type(self.frame);
        let outputs = self.b.ins().load(pointer, aligned(), self.frame, OUTPUTS_FRAME_OUTPUTS);
        // A batch's outputs need not be aligned to more than a float.
        self.b.ins().store(MemFlagsData::new().with_notrap(), stored, outputs, i32::from(n) * VEC4);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }
}
