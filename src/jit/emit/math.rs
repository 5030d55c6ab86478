//! Inline sequences for the arithmetic primitives: step for step those of [`crate::isa::numeric`].
//!
//! Each function says whether it takes scalars or vectors. No fused operation, no estimate
//! instruction: the bits don't depend on the CPU. It must not know values of the IR, nor when
//! guards are tested.

use super::{ClifBuilder, Ends, Products};
use crate::ir::analysis::Components;
use crate::ir::analysis::ranges::Steps;
use crate::isa::Relation;
use crate::isa::numeric::{LITP_LIMIT, Precision};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};

/// A comparison of `CMP`.
pub(crate) fn condition(op: Relation) -> FloatCC {
    match op {
        Relation::Eq => FloatCC::Equal,
        Relation::Ne => FloatCC::NotEqual,
        Relation::Lt => FloatCC::LessThan,
        Relation::Le => FloatCC::LessThanOrEqual,
        Relation::Gt => FloatCC::GreaterThan,
        Relation::Ge => FloatCC::GreaterThanOrEqual,
    }
}

impl ClifBuilder<'_, '_> {
    pub(crate) fn ty(&self, v: Value) -> Type {
        self.b.func.dfg.value_type(v)
    }

    /// `bits` in every lane of a value of type `ty`.
    pub(crate) fn constant(&mut self, ty: Type, x: f32) -> Value {
        if ty.is_vector() { self.vector(ty, [x.to_bits(); 4]) } else { self.b.ins().f32const(x) }
    }

    /// Four lanes of bits.
    pub(crate) fn vector(&mut self, ty: Type, bits: [u32; 4]) -> Value {
        let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
        let constant = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(ty, constant)
    }

    /// `bits` as an `I64`, or in each lane of an `I64X2`.
    pub(super) fn longs(&mut self, ty: Type, bits: u64) -> Value {
        if !ty.is_vector() {
            return self.b.ins().iconst(types::I64, bits.cast_signed());
        }
        let bytes: Vec<u8> = [bits; 2].into_iter().flat_map(u64::to_le_bytes).collect();
        let constant = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(ty, constant)
    }

    /// `x` as a number of the type of `like`, which is in double precision.
    pub(super) fn double_constant(&mut self, like: Value, x: f64) -> Value {
        let ty = self.ty(like);
        if !ty.is_vector() {
            return self.b.ins().f64const(x);
        }
        let bits = self.longs(types::I64X2, x.to_bits());
        self.bitcast(ty, bits)
    }

    /// A mask of `lanes`.
    pub(crate) fn lane_mask(&mut self, ty: Type, lanes: Components) -> Value {
        self.vector(ty, [0, 1, 2, 3].map(|l| if lanes >> l & 1 != 0 { u32::MAX } else { 0 }))
    }

    /// Nonzero if any lane of a mask is set.
    pub(crate) fn any_set(&mut self, mask: Value) -> Value {
        if !self.aarch64 {
            return self.b.ins().vany_true(mask);
        }
        let halves = self.bitcast(types::I64X2, mask);
        let (low, high) = (self.b.ins().extractlane(halves, 0), self.b.ins().extractlane(halves, 1));
        self.b.ins().bor(low, high)
    }

    /// The same bits as another type of the same size.
    pub(crate) fn bitcast(&mut self, ty: Type, v: Value) -> Value {
        if self.ty(v) == ty {
            return v;
        }
        // The endianness defines the order of lanes; all supported hosts are little-endian.
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.b.ins().bitcast(ty, flags, v)
    }

    /// `a * b` as the hardware has it, vectors only: a NaN from two numbers becomes 0. `lanes` are
    /// live.
    pub(crate) fn mul(&mut self, a: Value, b: Value, lanes: Components) -> Value {
        let product = self.b.ins().fmul(a, b);
        if self.products == Products::Speculative {
            return self.result(product, lanes, self.narrowing.products);
        }
        if self.precision != Precision::F32 {
            let product = self.flushed_product(product, a, b);
            return self.result(product, lanes, Steps::default());
        }
        // Equality, because 64-bit Arm has no unordered comparison.
        let right = self.b.ins().fcmp(FloatCC::Equal, product, product);
        let numbers = self.b.ins().fcmp(FloatCC::Ordered, a, b);
        let wrong = self.b.ins().band_not(numbers, right);
        let bits = self.bitcast(types::I32X4, product);
        let right = self.b.ins().band_not(bits, wrong);
        self.bitcast(types::F32X4, right)
    }

    /// `a + b`, or `a - b`, vectors only.
    pub(crate) fn add(&mut self, a: Value, b: Value, minus: bool, lanes: Components) -> Value {
        let (a, b) = (self.flushed(a), self.flushed(b));
        let sum = if minus { self.b.ins().fsub(a, b) } else { self.b.ins().fadd(a, b) };
        self.result(sum, lanes, self.narrowing.sums)
    }

    /// The floor, vectors only.
    pub(crate) fn flr(&mut self, a: Value, lanes: Components) -> Value {
        let a = self.flushed(a);
        let floor = self.b.ins().floor(a);
        // The floor of a float24 number is one, but for -0.
        if self.products == Products::Speculative { floor } else { self.result(floor, lanes, Steps::default()) }
    }

    /// `a > b ? a : b`, vectors only.
    pub(crate) fn max(&mut self, a: Value, b: Value) -> Value {
        let c = self.b.ins().fcmp(FloatCC::LessThan, b, a);
        let c = self.bitcast(types::F32X4, c);
        self.b.ins().bitselect(c, a, b)
    }

    /// `a < b ? a : b`, vectors only.
    pub(crate) fn min(&mut self, a: Value, b: Value) -> Value {
        let c = self.b.ins().fcmp(FloatCC::LessThan, a, b);
        let c = self.bitcast(types::F32X4, c);
        self.b.ins().bitselect(c, a, b)
    }

    /// 1 where `a cc b`, else 0, vectors only.
    pub(crate) fn set(&mut self, cc: FloatCC, a: Value, b: Value) -> Value {
        let c = self.b.ins().fcmp(cc, a, b);
        let one = self.vector(types::I32X4, [1.0f32.to_bits(); 4]);
        let bits = self.b.ins().band(c, one);
        self.bitcast(types::F32X4, bits)
    }

    /// `LITP`'s second lane, vectors only.
    pub(crate) fn litp_y(&mut self, a: Value) -> Value {
        let (low, high) = (self.constant(types::F32X4, -LITP_LIMIT), self.constant(types::F32X4, LITP_LIMIT));
        let above = self.max(a, low);
        self.min(above, high)
    }

    /// `1 / a`.
    pub(super) fn rcp(&mut self, a: Value) -> Value {
        if let Precision::F24 { rounding } = self.precision {
            return self.in_double(rounding, a, Ends::Low, |m, x| {
                let one = m.double_constant(x, 1.0);
                m.b.ins().fdiv(one, x)
            });
        }
        let ty = self.ty(a);
        let (zero, one) = (self.constant(ty, 0.0), self.constant(ty, 1.0));
        // Adding +0 turns -0 into +0.
        let a = self.b.ins().fadd(a, zero);
        self.b.ins().fdiv(one, a)
    }

    /// `1 / sqrt(a)`.
    pub(super) fn rsq(&mut self, a: Value) -> Value {
        if let Precision::F24 { rounding } = self.precision {
            return self.in_double(rounding, a, Ends::Low, |m, x| {
                let (one, root) = (m.double_constant(x, 1.0), m.b.ins().sqrt(x));
                m.b.ins().fdiv(one, root)
            });
        }
        let ty = self.ty(a);
        let (zero, one) = (self.constant(ty, 0.0), self.constant(ty, 1.0));
        let a = self.b.ins().fadd(a, zero);
        let root = self.b.ins().sqrt(a);
        self.b.ins().fdiv(one, root)
    }

    /// A float as an address register, scalar or vector.
    pub(crate) fn address(&mut self, a: Value) -> Value {
        let ty = self.ty(a).as_int();
        self.b.ins().fcvt_to_sint_sat(ty, a)
    }

    /// The integer if it is in -128..=127, else 0, scalar or vector.
    pub(crate) fn offset(&mut self, address: Value) -> Value {
        if self.ty(address).is_vector() {
            let (low, range) = (self.vector(types::I32X4, [128; 4]), self.vector(types::I32X4, [256; 4]));
            let moved = self.b.ins().iadd(address, low);
            let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, moved, range);
            return self.b.ins().band(address, inside);
        }
        let moved = self.b.ins().iadd_imm_s(address, 128);
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, moved, 256);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.ins().select(inside, address, zero)
    }
}
