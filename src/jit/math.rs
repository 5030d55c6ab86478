//! Inline sequences for the arithmetic primitives: step for step those of [`crate::isa::numeric`], on any float type.
//!
//! Each function says whether it takes scalars or vectors. No fused operation, no estimate instruction: the bits don't
//! depend on the CPU.

use crate::isa::numeric::{EX2_CLAMP, EX2_POLY, LG2_POLY, LG2_SPLIT, LITP_LIMIT, ROUND_MAGIC};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Multiply {
    /// 0 * infinity = 0, right away.
    Exact,
    /// One multiplication; a NaN that might be wrong is caught before it can matter, and the run redone exactly.
    Speculate,
}

/// Float arithmetic on a function under construction.
pub(super) struct Math<'a, 'f> {
    pub(super) b: &'a mut FunctionBuilder<'f>,
}

impl Math<'_, '_> {
    fn ty(&self, v: Value) -> Type {
        self.b.func.dfg.value_type(v)
    }

    /// `bits` in every lane of a value of type `ty`.
    pub(super) fn constant(&mut self, ty: Type, x: f32) -> Value {
        if ty.is_vector() { self.vector(ty, [x.to_bits(); 4]) } else { self.b.ins().f32const(x) }
    }

    /// Four lanes of bits.
    pub(super) fn vector(&mut self, ty: Type, bits: [u32; 4]) -> Value {
        let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
        let constant = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(ty, constant)
    }

    /// The same bits as another type of the same size.
    pub(super) fn bitcast(&mut self, ty: Type, v: Value) -> Value {
        if self.ty(v) == ty {
            return v;
        }
        // Lane order is defined by an endianness; all hosts that are supported are little-endian.
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.b.ins().bitcast(ty, flags, v)
    }

    /// `a * b` as the hardware has it, vectors only: NaN from two numbers is 0.
    pub(super) fn mul(&mut self, how: Multiply, a: Value, b: Value) -> Value {
        let product = self.b.ins().fmul(a, b);
        if how == Multiply::Speculate {
            return product;
        }
        let nan = self.b.ins().fcmp(FloatCC::Unordered, product, product);
        let numbers = self.b.ins().fcmp(FloatCC::Ordered, a, b);
        let wrong = self.b.ins().band(nan, numbers);
        let bits = self.bitcast(types::I32X4, product);
        let right = self.b.ins().band_not(bits, wrong);
        self.bitcast(types::F32X4, right)
    }

    /// `a > b ? a : b`, vectors only.
    pub(super) fn max(&mut self, a: Value, b: Value) -> Value {
        let c = self.b.ins().fcmp(FloatCC::LessThan, b, a);
        let c = self.bitcast(types::F32X4, c);
        self.b.ins().bitselect(c, a, b)
    }

    /// `a < b ? a : b`, vectors only.
    pub(super) fn min(&mut self, a: Value, b: Value) -> Value {
        let c = self.b.ins().fcmp(FloatCC::LessThan, a, b);
        let c = self.bitcast(types::F32X4, c);
        self.b.ins().bitselect(c, a, b)
    }

    /// 1 where `a cc b`, else 0, vectors only.
    pub(super) fn set(&mut self, cc: FloatCC, a: Value, b: Value) -> Value {
        let c = self.b.ins().fcmp(cc, a, b);
        let one = self.vector(types::I32X4, [1.0f32.to_bits(); 4]);
        let bits = self.b.ins().band(c, one);
        self.bitcast(types::F32X4, bits)
    }

    /// `LITP`'s second lane, vectors only.
    pub(super) fn litp_y(&mut self, a: Value) -> Value {
        let (low, high) = (self.constant(types::F32X4, -LITP_LIMIT), self.constant(types::F32X4, LITP_LIMIT));
        let above = self.max(a, low);
        self.min(above, high)
    }

    /// `1 / (a + 0)`, scalar or vector: the sum takes the sign off a zero.
    pub(super) fn rcp(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        let (zero, one) = (self.constant(ty, 0.0), self.constant(ty, 1.0));
        let a = self.b.ins().fadd(a, zero);
        self.b.ins().fdiv(one, a)
    }

    /// `1 / sqrt(a + 0)`, scalar or vector.
    pub(super) fn rsq(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        let (zero, one) = (self.constant(ty, 0.0), self.constant(ty, 1.0));
        let a = self.b.ins().fadd(a, zero);
        let root = self.b.ins().sqrt(a);
        self.b.ins().fdiv(one, root)
    }

    /// `c[0] + x * (c[1] + x * (...))`.
    fn polynomial(&mut self, x: Value, c: &[f32]) -> Value {
        let ty = self.ty(x);
        let (last, rest) = c.split_last().expect("a polynomial has a coefficient");
        let mut sum = self.constant(ty, *last);
        for c in rest.iter().rev() {
            let c = self.constant(ty, *c);
            let product = self.b.ins().fmul(x, sum);
            sum = self.b.ins().fadd(c, product);
        }
        sum
    }

    fn choose(&mut self, cc: FloatCC, a: Value, b: Value, yes: Value, no: Value) -> Value {
        let c = self.b.ins().fcmp(cc, a, b);
        self.b.ins().select(c, yes, no)
    }

    /// `2^a`, scalar.
    pub(super) fn ex2(&mut self, a: Value) -> Value {
        let ty = types::F32;
        let (high, low) = (self.constant(ty, EX2_CLAMP), self.constant(ty, -EX2_CLAMP));
        let x = self.choose(FloatCC::LessThan, a, high, a, high);
        let x = self.choose(FloatCC::GreaterThan, x, low, x, low);
        let magic = self.constant(ty, ROUND_MAGIC);
        let shifted = self.b.ins().fadd(x, magic);
        let bits = self.bitcast(types::I32, shifted);
        let n = self.b.ins().iadd_imm_s(bits, -i64::from(ROUND_MAGIC.to_bits()));
        let whole = self.b.ins().fsub(shifted, magic);
        let f = self.b.ins().fsub(x, whole);
        let p = self.polynomial(f, &EX2_POLY);
        let one = self.constant(ty, 1.0);
        let p = self.b.ins().fmul(f, p);
        let p = self.b.ins().fadd(one, p);
        let half = self.b.ins().sshr_imm_u(n, 1);
        let rest = self.b.ins().isub(n, half);
        let (half, rest) = (self.power(half), self.power(rest));
        let r = self.b.ins().fmul(p, half);
        let r = self.b.ins().fmul(r, rest);
        self.choose(FloatCC::Unordered, a, a, a, r)
    }

    /// `2^n` for a small integer.
    fn power(&mut self, n: Value) -> Value {
        let biased = self.b.ins().iadd_imm_s(n, 127);
        let bits = self.b.ins().ishl_imm_u(biased, 23);
        self.bitcast(types::F32, bits)
    }

    /// `log2(a)`, scalar.
    pub(super) fn lg2(&mut self, a: Value) -> Value {
        let ty = types::F32;
        let smallest = self.constant(ty, f32::MIN_POSITIVE);
        let tiny = self.b.ins().fcmp(FloatCC::LessThan, a, smallest);
        let scale = self.constant(ty, 8_388_608.0);
        let scaled = self.b.ins().fmul(a, scale);
        let x = self.b.ins().select(tiny, scaled, a);
        let (bias, none) = (self.constant(ty, 23.0), self.constant(ty, 0.0));
        let bias = self.b.ins().select(tiny, bias, none);
        let bits = self.bitcast(types::I32, x);
        let above = self.b.ins().iadd_imm_s(bits, -i64::from(LG2_SPLIT));
        let exponent = self.b.ins().sshr_imm_u(above, 23);
        let shifted = self.b.ins().ishl_imm_u(exponent, 23);
        let mantissa = self.b.ins().isub(bits, shifted);
        let m = self.bitcast(types::F32, mantissa);
        let one = self.constant(ty, 1.0);
        let f = self.b.ins().fsub(m, one);
        let sum = self.b.ins().fadd(m, one);
        let s = self.b.ins().fdiv(f, sum);
        let t = self.b.ins().fmul(s, s);
        let p = self.polynomial(t, &LG2_POLY);
        let y = self.b.ins().fmul(s, p);
        let e = self.b.ins().fcvt_from_sint(types::F32, exponent);
        let e = self.b.ins().fsub(e, bias);
        let r = self.b.ins().fadd(e, y);
        let infinity = self.constant(ty, f32::INFINITY);
        let r = self.choose(FloatCC::LessThan, a, infinity, r, a);
        let negative_infinity = self.constant(ty, f32::NEG_INFINITY);
        let r = self.choose(FloatCC::Equal, a, none, negative_infinity, r);
        let nan = self.constant(ty, f32::NAN);
        self.choose(FloatCC::LessThan, a, none, nan, r)
    }

    /// A float as an address, scalar.
    pub(super) fn address(&mut self, a: Value) -> Value {
        self.b.ins().fcvt_to_sint_sat(types::I32, a)
    }

    /// The integer if it is in -128..=127, else 0.
    pub(super) fn offset(&mut self, address: Value) -> Value {
        let moved = self.b.ins().iadd_imm_s(address, 128);
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, moved, 256);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.ins().select(inside, address, zero)
    }
}
