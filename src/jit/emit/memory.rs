//! Addresses and flags of memory accesses: banks, flags, booleans, uniforms by index.
//!
//! It must not know what is computed with loaded values.

use crate::isa::FLOAT_UNIFORMS;
use crate::jit::abi::VEC4;
use crate::layout::Layout;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilder;

/// Memory at its type's alignment, to which no access traps.
pub(crate) fn aligned() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// The same, constant during the run. Loads are not marked as movable: some follow the guard that
/// makes their address valid.
pub(crate) fn constant_memory() -> MemFlagsData {
    MemFlagsData::trusted().with_readonly()
}

/// Not zero if the engine is cancelled. Atomic: another thread sets the flag, and no two loads may
/// become one.
pub(crate) fn load_cancel_flag(b: &mut FunctionBuilder<'_>, pointer: clif::Type, address: usize) -> clif::Value {
    let at = b.ins().iconst(pointer, address as i64);
    b.ins().atomic_load(types::I32, aligned(), at)
}

/// The number of the current output bank.
pub(crate) fn bank_number(b: &mut FunctionBuilder<'_>, layout: &Layout, unit: clif::Value) -> clif::Value {
    match layout.banks() {
        None => b.ins().iconst(types::I32, 0),
        Some((_, at)) => {
            let bank = b.ins().uload8(types::I32, aligned(), unit, at);
            b.ins().band_imm_u(bank, 1)
        }
    }
}

/// The address of an output bank, minus the displacement of its registers in the first bank.
pub(crate) fn bank_address(
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

/// A flag, 0 or 1. A host may represent true by any nonzero byte.
pub(crate) fn load_flag(b: &mut FunctionBuilder<'_>, layout: &Layout, unit: clif::Value, n: u8) -> clif::Value {
    let flag = b.ins().load(types::I8, aligned(), unit, layout.cmp(n));
    b.ins().icmp_imm_u(IntCC::NotEqual, flag, 0)
}

/// Not zero if `bn` is set.
pub(crate) fn load_bool(b: &mut FunctionBuilder<'_>, layout: &Layout, uniforms: clif::Value, n: u8) -> clif::Value {
    let (at, bit) = layout.b(n);
    match bit {
        None => b.ins().load(types::I8, constant_memory(), uniforms, at),
        Some(bit) => {
            let bools = b.ins().load(types::I16, constant_memory(), uniforms, at);
            b.ins().band_imm_u(bools, 1 << bit)
        }
    }
}

/// The address of uniform `base + offset`, minus the displacement of the first uniform; `ones` if
/// it is out of range. The caller places `ones` that displacement before (1, 1, 1, 1).
pub(crate) fn uniform_address(
    b: &mut FunctionBuilder<'_>,
    uniforms: clif::Value,
    base: u8,
    offset: clif::Value,
    ones: clif::Value,
) -> clif::Value {
    let n = b.ins().iadd_imm_s(offset, i64::from(base));
    let n = b.ins().band_imm_u(n, 0x7F);
    let out_of_range = b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, n, FLOAT_UNIFORMS as i64);
    let pointer = b.func.dfg.value_type(uniforms);
    let n = b.ins().uextend(pointer, n);
    let bytes = b.ins().ishl_imm_u(n, i64::from(VEC4.trailing_zeros()));
    let address = b.ins().iadd(uniforms, bytes);
    b.ins().select(out_of_range, ones, address)
}
