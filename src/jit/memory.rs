//! Registers, inputs and uniforms in memory -> values, and back.
//!
//! What the program reads from outside is watched here if float24 speculates; see [`speculate`](super::speculate).
//!
//! It must not know what is computed with it.

use super::abi::VEC4;
use super::code::{FRAME_ONES, FRAME_UNIFORMS_SEEN};
use super::lower::{Low, Lower};
use super::math::Care;
use super::narrow::Tails;
use super::shape::Vec4;
use crate::ir::facts::{ALL_LANES, Lanes};
use crate::ir::{Form, Mem, Node, Type, Value};
use crate::isa::FLOAT_UNIFORMS;
use crate::isa::numeric::Precision;
use crate::layout::Layout;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilder;

/// Memory that holds what its type says, at its type's alignment.
pub(super) fn aligned() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// The same, and nothing changes it while it is read. It is not said that such a load may be moved: some are behind the test that makes
/// their address one.
pub(super) fn constant_memory() -> MemFlagsData {
    MemFlagsData::trusted().with_readonly()
}

/// The number of the output bank that is written.
pub(super) fn bank_number(b: &mut FunctionBuilder<'_>, layout: &Layout, unit: clif::Value) -> clif::Value {
    match layout.banks() {
        None => b.ins().iconst(types::I32, 0),
        Some((_, at)) => {
            let bank = b.ins().uload8(types::I32, aligned(), unit, at);
            b.ins().band_imm_u(bank, 1)
        }
    }
}

/// Where the output bank of this number is, less the displacement of its registers in the first one.
pub(super) fn bank_address(
    b: &mut FunctionBuilder<'_>,
    layout: &Layout,
    unit: clif::Value,
    number: clif::Value,
) -> clif::Value {
    let Some((stride, _)) = layout.banks() else { return unit };
    let pointer = b.func.dfg.value_type(unit);
    let number = b.ins().uextend(pointer, number);
    let bytes = match stride.count_ones() {
        1 => b.ins().ishl_imm_u(number, i64::from(stride.trailing_zeros())),
        _ => b.ins().imul_imm_s(number, i64::from(stride)),
    };
    b.ins().iadd(unit, bytes)
}

/// A flag, 0 or 1. A host may keep it as another byte, and it is rare that a program reads one before it compares.
pub(super) fn load_flag(b: &mut FunctionBuilder<'_>, layout: &Layout, unit: clif::Value, n: u8) -> clif::Value {
    let flag = b.ins().load(types::I8, aligned(), unit, layout.cmp(n));
    b.ins().icmp_imm_u(IntCC::NotEqual, flag, 0)
}

/// Not zero if `bn` is set.
pub(super) fn load_bool(b: &mut FunctionBuilder<'_>, layout: &Layout, uniforms: clif::Value, n: u8) -> clif::Value {
    let (at, bit) = layout.b(n);
    match bit {
        None => b.ins().load(types::I8, constant_memory(), uniforms, at),
        Some(bit) => {
            let bools = b.ins().load(types::I16, constant_memory(), uniforms, at);
            b.ins().band_imm_u(bools, 1 << bit)
        }
    }
}

/// Where uniform `base + offset` is, less the displacement of the first one; of one beyond the last, the same for `ones`, which the
/// caller has put that much before four ones.
pub(super) fn uniform_address(
    b: &mut FunctionBuilder<'_>,
    uniforms: clif::Value,
    base: u8,
    offset: clif::Value,
    ones: clif::Value,
) -> clif::Value {
    let n = b.ins().iadd_imm_s(offset, i64::from(base));
    let n = b.ins().band_imm_u(n, 0x7F);
    let beyond = b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, n, FLOAT_UNIFORMS as i64);
    let pointer = b.func.dfg.value_type(uniforms);
    let n = b.ins().uextend(pointer, n);
    let bytes = b.ins().ishl_imm_u(n, i64::from(VEC4.trailing_zeros()));
    let there = b.ins().iadd(uniforms, bytes);
    b.ins().select(beyond, ones, there)
}

impl Lower<'_, '_> {
    pub(super) fn raw_input(&mut self, n: u8) -> clif::Value {
        // A batch's inputs need not be aligned to more than a float.
        let flags = MemFlagsData::new().with_notrap().with_readonly();
        self.b.ins().load(types::F32X4, flags, self.inputs, i32::from(n) * VEC4)
    }

    pub(super) fn raw_uniform(&mut self, n: u8) -> clif::Value {
        let offset = self.layout.c(n, 0);
        self.b.ins().load(types::F32X4, constant_memory(), self.uniforms, offset)
    }

    /// Whether uniforms have to be narrowed wherever they are read. Speculating code watches them instead.
    pub(super) fn narrows_uniforms(&self) -> bool {
        self.precision != Precision::F32 && self.care == Care::Exact
    }

    /// A vector from memory that speculating code may compute with.
    fn watch(&mut self, v: clif::Value, live: Lanes, tails: Tails) {
        let lanes = live & ALL_LANES;
        if self.precision != Precision::F32 && self.care == Care::Speculate && lanes != 0 {
            self.math().saw_operand(v, lanes, tails);
        }
    }

    /// Narrows the leaves that the function reads, once for the whole run, or watches them if speculating code takes
    /// them as they are: block 0 is always run, and only once.
    pub(super) fn narrow_leaves(&mut self) {
        let func = self.func;
        if func.form == Form::Memory {
            return;
        }
        let live = |id: &usize| self.live[*id] != 0;
        let leaves = |want: fn(&Node) -> Option<u8>| {
            let all = (0..func.nodes.len()).filter(live);
            all.filter_map(|id| want(&func.nodes[id]).map(|n| (Value(id as u32), n))).collect::<Vec<_>>()
        };
        let inputs = leaves(|node| if let Node::Input(n) = node { Some(*n) } else { None });
        let uniforms = leaves(|node| if let Node::Uniform(n) = node { Some(*n) } else { None });
        match self.care {
            Care::Exact => {
                for (value, n) in uniforms {
                    let v = self.raw_uniform(n);
                    let v = self.math().uniform(v);
                    self.loaded.insert(value, v);
                }
            }
            Care::Speculate if !uniforms.is_empty() => {
                // Within a batch they stay the same.
                let seen = self.b.ins().load(types::I32, aligned(), self.frame, FRAME_UNIFORMS_SEEN);
                let (look, go_on) = (self.b.create_block(), self.b.create_block());
                self.b.ins().brif(seen, go_on, &[], look, &[]);
                self.b.switch_to_block(look);
                for (value, n) in uniforms {
                    let v = self.raw_uniform(n);
                    self.watch(v, self.live[value.0 as usize], Tails::Kept);
                }
                self.test_sinks();
                self.b.ins().jump(go_on, &[]);
                self.b.switch_to_block(go_on);
            }
            Care::Speculate => {}
        }
        for (value, n) in inputs {
            let raw = self.raw_input(n);
            self.watch(raw, self.live[value.0 as usize], Tails::Rounded);
            let v = self.math().input(raw);
            self.loaded.insert(value, v);
        }
    }

    pub(super) fn relative(&mut self, base: u8, offset: Value, live: Lanes) -> Low {
        let offset = self.scalar(offset);
        let first = self.layout.c(0, 0);
        let ones = self.b.ins().iadd_imm_s(self.frame, i64::from(FRAME_ONES - first));
        let address = uniform_address(&mut self.b, self.uniforms, base, offset, ones);
        let v = self.b.ins().load(types::F32X4, constant_memory(), address, first);
        let v = self.math().uniform(v);
        self.watch(v, live, Tails::Kept);
        Low::Vector(Vec4::Wide(v))
    }

    /// Where a register is, if the layout has a place for it: an address and a displacement.
    fn address(&mut self, mem: Mem) -> Option<(clif::Value, i32)> {
        let here = self.unit;
        Some(match mem {
            Mem::Temp(n) => (here, self.layout.r(n, 0)),
            Mem::Out { n, bank } => {
                let base = match self.banks.get(&bank) {
                    Some(&base) => base,
                    None => {
                        let bank = self.scalar(bank);
                        bank_address(&mut self.b, &self.layout, here, bank)
                    }
                };
                (base, self.layout.o(n, 0))
            }
            Mem::Address(n) => (here, self.layout.a0(n)),
            Mem::LoopCounter => (here, self.layout.al()),
            Mem::Flag(n) => (here, self.layout.cmp(n)),
            Mem::Bank => (here, self.layout.banks()?.1),
        })
    }

    pub(super) fn load(&mut self, value: Value, mem: Mem) -> Low {
        match mem {
            Mem::Bank => {
                let bank = bank_number(&mut self.b, &self.layout, self.unit);
                let address = bank_address(&mut self.b, &self.layout, self.unit, bank);
                self.banks.insert(value, address);
                Low::Scalar(bank)
            }
            Mem::Flag(n) => Low::Scalar(load_flag(&mut self.b, &self.layout, self.unit, n)),
            _ => {
                let (base, offset) = self.address(mem).expect("all layouts have all registers but the bank");
                if mem.ty() == Type::Vec4 {
                    let v = self.b.ins().load(types::F32X4, aligned(), base, offset);
                    if let Mem::Temp(_) = mem {
                        self.watch(v, self.live[value.0 as usize], Tails::Kept);
                    }
                    Low::Vector(Vec4::Wide(v))
                } else {
                    Low::Scalar(self.b.ins().load(types::I32, aligned(), base, offset))
                }
            }
        }
    }

    pub(super) fn store(&mut self, mem: Mem, value: Value) {
        let stored = match mem.ty() {
            Type::Vec4 => {
                let v = self.vector(value);
                self.math().wide(v)
            }
            _ => self.scalar(value),
        };
        if let Some((base, offset)) = self.address(mem) {
            self.b.ins().store(aligned(), stored, base, offset);
        }
    }
}
