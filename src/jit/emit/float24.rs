//! Float24 on SIMD registers: the steps of [`crate::isa::float24`], four numbers at a time.
//!
//! Exact code performs all steps. Speculative code assumes that uniforms and temporaries are zeros
//! or normal float24 numbers, that inputs round to such, and that no result overflows. Under this
//! assumption operands need no flushing, and results need neither a limit nor a selection for NaN.
//! [`StickyFlags`](super::StickyFlags) accumulates what shows a violation. Infinities from a
//! division or a logarithm are no violation. Scalar results, of RCP, RSQ, EX2 and LG2, are exact in
//! both.
//!
//! It must not know which operation computes a result.

use super::{ClifBuilder, Ends, Float24Constants, Products, Tails};
use crate::ir::analysis::{Components, XYZW};
use crate::isa::float24::{LIMIT, Rounding, SMALLEST, SUBNORMAL_SCALE, TAIL, TAIL_64};
use crate::isa::numeric::Precision;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

const MAGNITUDE: u32 = 0x7FFF_FFFF;
const TAIL_BITS: u32 = (1 << TAIL) - 1;

/// The greatest magnitude, as bits, that stays finite when rounded.
const LARGEST: u32 = LIMIT.to_bits() - (1 << (TAIL - 1)) - 1;

impl ClifBuilder<'_, '_> {
    fn ints(&mut self, bits: u32) -> Value {
        self.vector(types::I32X4, [bits; 4])
    }

    /// Zero outside of `lanes`.
    fn masked(&mut self, bits: Value, lanes: Components) -> Value {
        if lanes == XYZW {
            return bits;
        }
        let mask = self.lane_mask(types::I32X4, lanes);
        self.b.ins().band(bits, mask)
    }

    /// Adds the rounding increment, so that truncating the tail rounds to 17 significant bits. A
    /// NaN with a tail becomes anything.
    fn incremented(&mut self, rounding: Rounding, bits: Value) -> Value {
        match rounding {
            Rounding::TowardZero => bits,
            Rounding::Nearest => {
                // Two shifts instead of a shift and a mask: one constant fewer to keep in a
                // register.
                let (up, down) = (self.amount(31 - TAIL), self.amount(31));
                let odd = self.b.ins().ishl(bits, up);
                let odd = self.b.ins().ushr(odd, down);
                let half = self.constants().half;
                let moved = self.b.ins().iadd(bits, half);
                self.b.ins().iadd(moved, odd)
            }
        }
    }

    fn amount(&mut self, bits: u32) -> Value {
        self.b.ins().iconst(types::I32, i64::from(bits))
    }

    fn rounded(&mut self, rounding: Rounding, bits: Value) -> Value {
        let moved = self.incremented(rounding, bits);
        let kept = self.constants().kept;
        self.b.ins().band(moved, kept)
    }

    fn constants(&mut self) -> Float24Constants {
        self.sticky.constants.expect("constants are defined before the first narrowing")
    }

    /// Defines the constants. The current block must dominate all others.
    pub(crate) fn make_constants(&mut self) {
        self.sticky.constants = Some(Float24Constants {
            half: self.ints(TAIL_BITS >> 1),
            kept: self.ints(!TAIL_BITS),
            magnitude: self.ints(MAGNITUDE),
            kept_magnitude: self.ints(MAGNITUDE & !TAIL_BITS),
            smallest: self.ints(SMALLEST.to_bits()),
        });
    }

    /// Infinity from 2^64 on, vector or scalar.
    fn limited(&mut self, x: Value) -> Value {
        let ty = self.ty(x);
        let (limit, inverse) = (self.constant(ty, LIMIT), self.constant(ty, LIMIT.recip()));
        let x = self.b.ins().fmul(x, limit);
        self.b.ins().fmul(x, inverse)
    }

    /// +0 below 2^-62, as bits.
    fn without_small(&mut self, bits: Value) -> Value {
        let Float24Constants { magnitude, smallest, .. } = self.constants();
        let magnitude = self.b.ins().band(bits, magnitude);
        let small = self.b.ins().icmp(IntCC::SignedGreaterThan, smallest, magnitude);
        self.b.ins().band_not(bits, small)
    }

    /// Narrows a result of which `lanes` are live, vectors only.
    pub(crate) fn result(&mut self, x: Value, lanes: Components) -> Value {
        let Precision::F24 { rounding } = self.precision else { return x };
        let bits = self.bitcast(types::I32X4, x);
        if self.products == Products::Speculative {
            let Float24Constants { kept, kept_magnitude, smallest, .. } = self.constants();
            let moved = self.incremented(rounding, bits);
            let r = self.b.ins().band(moved, kept);
            let magnitude = self.b.ins().band(moved, kept_magnitude);
            let small = self.b.ins().icmp(IntCC::SignedGreaterThan, smallest, magnitude);
            let r = self.b.ins().band_not(r, small);
            let mut magnitude = self.masked(magnitude, lanes);
            if self.infinite {
                let infinity = self.ints(f32::INFINITY.to_bits());
                let infinite = self.b.ins().icmp(IntCC::Equal, magnitude, infinity);
                magnitude = self.b.ins().band_not(magnitude, infinite);
            }
            self.record_high(magnitude);
            return self.bitcast(types::F32X4, r);
        }
        let r = self.rounded(rounding, bits);
        let f = self.bitcast(types::F32X4, r);
        let f = self.limited(f);
        let r = self.bitcast(types::I32X4, f);
        let r = self.without_small(r);
        let r = self.bitcast(types::F32X4, r);
        self.or_nan(x, r)
    }

    /// `x` where that is NaN, else `r`, vectors only.
    fn or_nan(&mut self, x: Value, r: Value) -> Value {
        let number = self.b.ins().fcmp(FloatCC::Equal, x, x);
        let number = self.bitcast(types::F32X4, number);
        self.b.ins().bitselect(number, r, x)
    }

    /// An operand of arithmetic, vectors only. Speculative code assumes that there are no
    /// subnormals.
    pub(crate) fn flushed(&mut self, x: Value) -> Value {
        if self.precision == Precision::F32 || self.products == Products::Speculative {
            return x;
        }
        let bits = self.bitcast(types::I32X4, x);
        let r = self.without_small(bits);
        self.bitcast(types::F32X4, r)
    }

    /// `a * b` where operands below 2^-62 count as 0, vectors only: +0 if either is and the other
    /// is no NaN. That covers 0 * infinity.
    pub(crate) fn flushed_product(&mut self, product: Value, a: Value, b: Value) -> Value {
        let numbers = self.b.ins().fcmp(FloatCC::Ordered, a, b);
        let Float24Constants { magnitude, smallest, .. } = self.constants();
        let small = [a, b].map(|x| {
            let bits = self.bitcast(types::I32X4, x);
            let magnitude = self.b.ins().band(bits, magnitude);
            self.b.ins().icmp(IntCC::SignedGreaterThan, smallest, magnitude)
        });
        let small = self.b.ins().bor(small[0], small[1]);
        let nothing = self.b.ins().band(small, numbers);
        let bits = self.bitcast(types::I32X4, product);
        let r = self.b.ins().band_not(bits, nothing);
        self.bitcast(types::F32X4, r)
    }

    /// An operand of arithmetic, scalar, float24 only.
    pub(crate) fn flushed_scalar(&mut self, x: Value) -> Value {
        if self.products == Products::Speculative {
            // Adding +0 turns -0 into +0; there are no subnormals.
            let zero = self.b.ins().f32const(0.0);
            return self.b.ins().fadd(x, zero);
        }
        self.scalar_without_small(x)
    }

    fn scalar_without_small(&mut self, x: Value) -> Value {
        let wide = self.b.ins().scalar_to_vector(types::F32X4, x);
        let bits = self.bitcast(types::I32X4, wide);
        let r = self.without_small(bits);
        let r = self.bitcast(types::F32X4, r);
        self.b.ins().extractlane(r, 0)
    }

    /// A scalar operand of arithmetic as a double, float24 only.
    pub(crate) fn double(&mut self, x: Value) -> Value {
        let x = self.flushed_scalar(x);
        self.b.ins().fpromote(types::F64, x)
    }

    /// A scalar result that was computed in double precision.
    pub(crate) fn result_64(&mut self, rounding: Rounding, x: Value, ends: Ends) -> Value {
        let bits = self.bitcast(types::I64, x);
        let moved = match rounding {
            Rounding::TowardZero => bits,
            Rounding::Nearest => {
                let odd = self.b.ins().ushr_imm_u(bits, i64::from(TAIL_64));
                let odd = self.b.ins().band_imm_u(odd, 1);
                let half = self.b.ins().iconst(types::I64, (1 << (TAIL_64 - 1)) - 1);
                let moved = self.b.ins().iadd(bits, half);
                self.b.ins().iadd(moved, odd)
            }
        };
        let kept = self.b.ins().iconst(types::I64, !0 << TAIL_64);
        let r = self.b.ins().band(moved, kept);
        let r = self.bitcast(types::F64, r);
        let mut r = self.b.ins().fdemote(types::F32, r);
        if ends == Ends::Both {
            r = self.limited(r);
        }
        if ends != Ends::None {
            r = self.scalar_without_small(r);
        }
        if self.products == Products::Speculative {
            return r;
        }
        // A NaN from the host's temporaries may have any tail.
        let x = self.b.ins().fdemote(types::F32, x);
        self.choose(FloatCC::Unordered, x, x, x, r)
    }

    /// An input as it is read, vectors only.
    pub(crate) fn input(&mut self, x: Value) -> Value {
        match self.precision {
            Precision::F24 { rounding } if self.products == Products::Speculative => {
                let bits = self.bitcast(types::I32X4, x);
                let r = self.rounded(rounding, bits);
                self.bitcast(types::F32X4, r)
            }
            _ => self.uniform(x),
        }
    }

    /// A uniform as it is read, vectors only.
    pub(crate) fn uniform(&mut self, x: Value) -> Value {
        match self.precision {
            Precision::F24 { rounding } if self.products == Products::Exact => self.operand(rounding, x),
            _ => x,
        }
    }

    fn operand(&mut self, rounding: Rounding, x: Value) -> Value {
        let bits = self.bitcast(types::I32X4, x);
        let r = self.rounded(rounding, bits);
        let f = self.bitcast(types::F32X4, r);
        let normal = self.limited(f);
        let (scale, unit) =
            (self.constant(types::F32X4, SUBNORMAL_SCALE), self.constant(types::F32X4, SUBNORMAL_SCALE.recip()));
        let units = self.b.ins().fmul(x, scale);
        let whole = match rounding {
            Rounding::Nearest => self.b.ins().nearest(units),
            Rounding::TowardZero => self.b.ins().trunc(units),
        };
        let subnormal = self.b.ins().fmul(whole, unit);
        let Float24Constants { magnitude, smallest, .. } = self.constants();
        let magnitude = self.b.ins().band(bits, magnitude);
        let small = self.b.ins().icmp(IntCC::SignedGreaterThan, smallest, magnitude);
        let small = self.bitcast(types::F32X4, small);
        let r = self.b.ins().bitselect(small, subnormal, normal);
        self.or_nan(x, r)
    }

    fn record_high(&mut self, magnitude: Value) {
        self.sticky.high = Some(match self.sticky.high {
            None => magnitude,
            Some(before) => self.b.ins().smax(before, magnitude),
        });
    }

    /// Records a vector that speculative code loads and of which `lanes` are live.
    pub(crate) fn record_operand(&mut self, x: Value, lanes: Components, tails: Tails) {
        let bits = self.bitcast(types::I32X4, x);
        let bits = self.masked(bits, lanes);
        let magnitude = self.constants().magnitude;
        let magnitude = self.b.ins().band(bits, magnitude);
        self.record_high(magnitude);
        let minus_one = self.ints(u32::MAX);
        let less = self.b.ins().iadd(magnitude, minus_one);
        self.sticky.low = Some(match self.sticky.low {
            None => less,
            Some(before) => self.b.ins().umin(before, less),
        });
        if tails == Tails::Rounded {
            return;
        }
        self.sticky.tails = Some(match self.sticky.tails {
            None => bits,
            Some(before) => self.b.ins().bor(before, bits),
        });
    }

    /// A vector that is nonzero if a violation was recorded since the last call; clears the flags.
    pub(crate) fn take_violations(&mut self) -> Option<Value> {
        let (high, low, tails) = (self.sticky.high.take(), self.sticky.low.take(), self.sticky.tails.take());
        let high = high.map(|high| {
            let largest = self.ints(LARGEST);
            self.b.ins().icmp(IntCC::SignedGreaterThan, high, largest)
        });
        let low = low.map(|low| {
            let least = self.ints(SMALLEST.to_bits() - 1);
            self.b.ins().icmp(IntCC::UnsignedLessThan, low, least)
        });
        let tails = tails.map(|tails| {
            let tail = self.ints(TAIL_BITS);
            self.b.ins().band(tails, tail)
        });
        [high, low, tails].into_iter().flatten().reduce(|a, b| self.b.ins().bor(a, b))
    }
}

#[cfg(test)]
mod tests;
