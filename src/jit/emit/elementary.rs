//! Inline sequences for 2^x and log2(x): step for step those of [`crate::isa::elementary`]. Scalars and vectors.
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

/// From here on each double is an integer, and consecutive ones differ by 1.
const INTEGERS: f64 = (1u64 << 52) as f64;

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

    /// `2^a`.
    pub(crate) fn ex2(&mut self, a: Value) -> Value {
        match self.precision {
            Precision::F32 => self.ex2_32(a),
            Precision::F24 { rounding } => self.in_double(rounding, a, Ends::Both, Self::ex2_64),
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

    /// `log2(a)`.
    pub(crate) fn lg2(&mut self, a: Value) -> Value {
        match self.precision {
            Precision::F32 => self.lg2_32(a),
            Precision::F24 { rounding } => self.in_double(rounding, a, Ends::None, Self::lg2_64),
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

    /// `x` with the sign of `of`, one or two doubles.
    fn with_sign(&mut self, x: Value, of: Value) -> Value {
        let ty = self.ty(x);
        if !ty.is_vector() {
            return self.b.ins().fcopysign(x, of);
        }
        let sign = self.double_constant(x, -0.0);
        let sign = self.b.ins().band(of, sign);
        self.b.ins().bor(x, sign)
    }

    /// `2^a` for a float24 that is not between 0 and 2^-62, as one or two doubles.
    fn ex2_64(&mut self, a: Value) -> Value {
        let ints = self.ty(a).as_int();
        let (high, low) = (f64::from(EX2_CLAMP), f64::from(-EX2_CLAMP));
        let (high, low) = (self.double_constant(a, high), self.double_constant(a, low));
        let x = self.choose(FloatCC::LessThan, a, high, a, high);
        let x = self.choose(FloatCC::GreaterThan, x, low, x, low);
        let tiny = self.double_constant(a, EX2_TINY_64);
        let magnitude = self.b.ins().fabs(x);
        let moved = self.with_sign(tiny, x);
        let x = self.choose(FloatCC::GreaterThan, magnitude, tiny, x, moved);
        let magic = self.double_constant(a, ROUND_MAGIC_64);
        let shifted = self.b.ins().fadd(x, magic);
        let n = self.bitcast(ints, shifted);
        let whole = self.b.ins().fsub(shifted, magic);
        let f = self.b.ins().fsub(x, whole);
        let p = self.polynomial(f, &EX2_POLY_64, |m, c| m.double_constant(a, c));
        let one = self.double_constant(a, 1.0);
        let p = self.b.ins().fmul(f, p);
        let p = self.b.ins().fadd(one, p);
        // The magic number's own low bits are zero, so only its upper ones are shifted out.
        let bias = self.longs(ints, 1023);
        let biased = self.b.ins().iadd(n, bias);
        let up = self.b.ins().iconst(types::I32, 52);
        let power = self.b.ins().ishl(biased, up);
        let power = self.bitcast(self.ty(a), power);
        let r = self.b.ins().fmul(p, power);
        let nan = self.double_constant(a, f64::NAN);
        self.choose(FloatCC::Unordered, a, a, nan, r)
    }

    /// `log2(a)` as one or two doubles.
    fn lg2_64(&mut self, a: Value) -> Value {
        let (ty, ints) = (self.ty(a), self.ty(a).as_int());
        let bits = self.bitcast(ints, a);
        let split = self.longs(ints, LG2_SPLIT_64);
        let above = self.b.ins().isub(bits, split);
        let exponent = self.longs(ints, !0 << 52);
        let exponent = self.b.ins().band(above, exponent);
        let mantissa = self.b.ins().isub(bits, exponent);
        let m = self.bitcast(ty, mantissa);
        let one = self.double_constant(a, 1.0);
        let f = self.b.ins().fsub(m, one);
        let sum = self.b.ins().fadd(m, one);
        let s = self.b.ins().fdiv(f, sum);
        let t = self.b.ins().fmul(s, s);
        let p = self.polynomial(t, &LG2_POLY_64, |m, c| m.double_constant(a, c));
        let y = self.b.ins().fmul(s, p);
        // Few CPUs convert a vector of 64-bit integers. The exponent plus 1024 is not negative, so as the mantissa of
        // 2^52 it is a number.
        let bias = self.longs(ints, 1024 << 52);
        let exponent = self.b.ins().iadd(exponent, bias);
        let down = self.b.ins().iconst(types::I32, 52);
        let exponent = self.b.ins().ushr(exponent, down);
        let magic = self.longs(ints, INTEGERS.to_bits());
        let e = self.b.ins().bor(exponent, magic);
        let e = self.bitcast(ty, e);
        let magic = self.double_constant(a, INTEGERS + 1024.0);
        let e = self.b.ins().fsub(e, magic);
        let r = self.b.ins().fadd(e, y);
        let none = self.double_constant(a, 0.0);
        let infinity = self.double_constant(a, f64::INFINITY);
        let r = self.choose(FloatCC::LessThan, a, infinity, r, a);
        let negative_infinity = self.double_constant(a, f64::NEG_INFINITY);
        let r = self.choose(FloatCC::Equal, a, none, negative_infinity, r);
        let nan = self.double_constant(a, f64::NAN);
        self.choose(FloatCC::LessThan, a, none, nan, r)
    }
}
