//! Inline sequences for 2^x and log2(x): step for step those of [`crate::isa::elementary`]. Scalar;
//! in single precision also vectors.
//!
//! It must not know which register an argument comes from.

use super::{ClifBuilder, Ends};
use crate::isa::elementary::{
    EX2_CLAMP, EX2_POLY, EX2_POLY_64, EX2_TINY_64, LG2_POLY, LG2_POLY_64, LG2_SPLIT, LG2_SPLIT_64, ROUND_MAGIC,
    ROUND_MAGIC_64,
};
use crate::isa::numeric::Precision;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

impl ClifBuilder<'_, '_> {
    /// `c[0] + x * (c[1] + x * (...))`, where `constant` emits a coefficient.
    fn polynomial<T: Copy>(&mut self, x: Value, c: &[T], constant: impl Fn(&mut Self, T) -> Value) -> Value {
        let (last, rest) = c.split_last().expect("a polynomial has a coefficient");
        let mut sum = constant(self, *last);
        for c in rest.iter().rev() {
            let c = constant(self, *c);
            let product = self.b.ins().fmul(x, sum);
            sum = self.b.ins().fadd(c, product);
        }
        sum
    }

    pub(crate) fn choose(&mut self, cc: FloatCC, a: Value, b: Value, yes: Value, no: Value) -> Value {
        let c = self.b.ins().fcmp(cc, a, b);
        self.pick(c, yes, no)
    }

    /// Selects by a condition, or lane by lane by a mask.
    fn pick(&mut self, c: Value, yes: Value, no: Value) -> Value {
        let ty = self.ty(yes);
        if !ty.is_vector() {
            return self.b.ins().select(c, yes, no);
        }
        let c = self.bitcast(ty, c);
        self.b.ins().bitselect(c, yes, no)
    }

    /// `n + x`, scalar or vector.
    fn plus(&mut self, n: Value, x: i32) -> Value {
        let ty = self.ty(n);
        if !ty.is_vector() {
            return self.b.ins().iadd_imm_s(n, i64::from(x));
        }
        let x = self.vector(ty, [x as u32; 4]);
        self.b.ins().iadd(n, x)
    }

    fn single(&mut self, x: f32) -> Value {
        self.b.ins().f32const(x)
    }

    fn double_constant(&mut self, x: f64) -> Value {
        self.b.ins().f64const(x)
    }

    /// `2^a`, scalar.
    pub(crate) fn ex2(&mut self, a: Value) -> Value {
        match self.precision {
            Precision::F32 => self.ex2_32(a),
            Precision::F24 { rounding } => {
                let r = self.ex2_64(a);
                self.result_64(rounding, r, Ends::Both)
            }
        }
    }

    fn ex2_32(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        let ints = ty.as_int();
        let (high, low) = (self.constant(ty, EX2_CLAMP), self.constant(ty, -EX2_CLAMP));
        let x = self.choose(FloatCC::LessThan, a, high, a, high);
        let x = self.choose(FloatCC::GreaterThan, x, low, x, low);
        let magic = self.constant(ty, ROUND_MAGIC);
        let shifted = self.b.ins().fadd(x, magic);
        let bits = self.bitcast(ints, shifted);
        let n = self.plus(bits, (ROUND_MAGIC.to_bits() as i32).wrapping_neg());
        let whole = self.b.ins().fsub(shifted, magic);
        let f = self.b.ins().fsub(x, whole);
        let p = self.polynomial(f, &EX2_POLY, |m, c| m.constant(ty, c));
        let one = self.constant(ty, 1.0);
        let p = self.b.ins().fmul(f, p);
        let p = self.b.ins().fadd(one, p);
        let half = self.shifted(n, 1, true);
        let rest = self.b.ins().isub(n, half);
        let (half, rest) = (self.power(ty, half), self.power(ty, rest));
        let r = self.b.ins().fmul(p, half);
        let r = self.b.ins().fmul(r, rest);
        self.choose(FloatCC::Unordered, a, a, a, r)
    }

    /// An arithmetic shift to the right, or a shift to the left.
    fn shifted(&mut self, n: Value, by: i64, right: bool) -> Value {
        let by = self.b.ins().iconst(types::I32, by);
        if right { self.b.ins().sshr(n, by) } else { self.b.ins().ishl(n, by) }
    }

    /// `2^n` for a small integer, as a `ty`.
    fn power(&mut self, ty: Type, n: Value) -> Value {
        let biased = self.plus(n, 127);
        let bits = self.shifted(biased, 23, false);
        self.bitcast(ty, bits)
    }

    /// `log2(a)`, scalar.
    pub(crate) fn lg2(&mut self, a: Value) -> Value {
        match self.precision {
            Precision::F32 => self.lg2_32(a),
            Precision::F24 { rounding } => {
                let r = self.lg2_64(a);
                self.result_64(rounding, r, Ends::None)
            }
        }
    }

    fn lg2_32(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        let smallest = self.constant(ty, f32::MIN_POSITIVE);
        let tiny = self.b.ins().fcmp(FloatCC::LessThan, a, smallest);
        let scale = self.constant(ty, 8_388_608.0);
        let scaled = self.b.ins().fmul(a, scale);
        let x = self.pick(tiny, scaled, a);
        let (bias, none) = (self.constant(ty, 23.0), self.constant(ty, 0.0));
        let bias = self.pick(tiny, bias, none);
        let bits = self.bitcast(ty.as_int(), x);
        let above = self.plus(bits, (LG2_SPLIT as i32).wrapping_neg());
        let exponent = self.shifted(above, 23, true);
        let shifted = self.shifted(exponent, 23, false);
        let mantissa = self.b.ins().isub(bits, shifted);
        let m = self.bitcast(ty, mantissa);
        let one = self.constant(ty, 1.0);
        let f = self.b.ins().fsub(m, one);
        let sum = self.b.ins().fadd(m, one);
        let s = self.b.ins().fdiv(f, sum);
        let t = self.b.ins().fmul(s, s);
        let p = self.polynomial(t, &LG2_POLY, |m, c| m.constant(ty, c));
        let y = self.b.ins().fmul(s, p);
        let e = self.b.ins().fcvt_from_sint(ty, exponent);
        let e = self.b.ins().fsub(e, bias);
        let r = self.b.ins().fadd(e, y);
        let infinity = self.constant(ty, f32::INFINITY);
        let r = self.choose(FloatCC::LessThan, a, infinity, r, a);
        let negative_infinity = self.constant(ty, f32::NEG_INFINITY);
        let r = self.choose(FloatCC::Equal, a, none, negative_infinity, r);
        let nan = self.constant(ty, f32::NAN);
        self.choose(FloatCC::LessThan, a, none, nan, r)
    }

    /// `2^a` as a double, for a float24 or any number that is not between 0 and 2^-62.
    fn ex2_64(&mut self, a: Value) -> Value {
        let a = self.flushed_scalar(a);
        let (high, low) = (self.single(EX2_CLAMP), self.single(-EX2_CLAMP));
        let x = self.choose(FloatCC::LessThan, a, high, a, high);
        let x = self.choose(FloatCC::GreaterThan, x, low, x, low);
        let x = self.b.ins().fpromote(types::F64, x);
        let tiny = self.double_constant(EX2_TINY_64);
        let magnitude = self.b.ins().fabs(x);
        let moved = self.b.ins().fcopysign(tiny, x);
        let x = self.choose(FloatCC::GreaterThan, magnitude, tiny, x, moved);
        let magic = self.double_constant(ROUND_MAGIC_64);
        let shifted = self.b.ins().fadd(x, magic);
        let n = self.bitcast(types::I64, shifted);
        let whole = self.b.ins().fsub(shifted, magic);
        let f = self.b.ins().fsub(x, whole);
        let p = self.polynomial(f, &EX2_POLY_64, Self::double_constant);
        let one = self.double_constant(1.0);
        let p = self.b.ins().fmul(f, p);
        let p = self.b.ins().fadd(one, p);
        // The magic number's own low bits are zero, so only its upper ones are shifted out.
        let biased = self.b.ins().iadd_imm_s(n, 1023);
        let power = self.b.ins().ishl_imm_u(biased, 52);
        let power = self.bitcast(types::F64, power);
        let r = self.b.ins().fmul(p, power);
        let nan = self.double_constant(f64::NAN);
        self.choose(FloatCC::Unordered, a, a, nan, r)
    }

    /// `log2(a)` as a double.
    fn lg2_64(&mut self, a: Value) -> Value {
        let a = self.flushed_scalar(a);
        let x = self.b.ins().fpromote(types::F64, a);
        let bits = self.bitcast(types::I64, x);
        let split = self.b.ins().iconst(types::I64, LG2_SPLIT_64 as i64);
        let above = self.b.ins().isub(bits, split);
        let exponent = self.b.ins().sshr_imm_u(above, 52);
        let shifted = self.b.ins().ishl_imm_u(exponent, 52);
        let mantissa = self.b.ins().isub(bits, shifted);
        let m = self.bitcast(types::F64, mantissa);
        let one = self.double_constant(1.0);
        let f = self.b.ins().fsub(m, one);
        let sum = self.b.ins().fadd(m, one);
        let s = self.b.ins().fdiv(f, sum);
        let t = self.b.ins().fmul(s, s);
        let p = self.polynomial(t, &LG2_POLY_64, Self::double_constant);
        let y = self.b.ins().fmul(s, p);
        let e = self.b.ins().fcvt_from_sint(types::F64, exponent);
        let r = self.b.ins().fadd(e, y);
        let none = self.single(0.0);
        let infinity = self.single(f32::INFINITY);
        let r = self.choose(FloatCC::LessThan, a, infinity, r, x);
        let negative_infinity = self.double_constant(f64::NEG_INFINITY);
        let r = self.choose(FloatCC::Equal, a, none, negative_infinity, r);
        let nan = self.double_constant(f64::NAN);
        self.choose(FloatCC::LessThan, a, none, nan, r)
    }
}
