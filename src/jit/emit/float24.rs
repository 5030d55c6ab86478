//! Float24 on SIMD registers: the steps of [`crate::isa::float24`], four numbers at a time.
//!
//! Exact code performs all steps. Speculative code assumes that uniforms, inputs and temporaries are in the
//! [band](crate::ir::analysis::ranges), and that what it [checks](ClifBuilder::finished) holds. Under this
//! assumption operands need no flushing and results only what [`Narrowing`](crate::ir::analysis::ranges::Narrowing)
//! says. [`StickyFlags`](super::StickyFlags) accumulates what shows a violation. Infinities from a
//! division or a logarithm are no violation. Scalar results, of RCP, RSQ, EX2 and LG2, are exact in
//! both.
//!
//! It must not know which operation computes a result.

use super::{ClifBuilder, Ends, Float24Constants, Products, StickyFlags, Tails};
use crate::ir::analysis::ranges::{Check, Range, Steps};
use crate::ir::analysis::{Components, XYZW};
use crate::isa::float24::{LIMIT, Rounding, SMALLEST, SUBNORMAL_SCALE, TAIL, TAIL_64};
use crate::isa::numeric::Precision;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

const MAGNITUDE: u32 = 0x7FFF_FFFF;
const TAIL_BITS: u32 = (1 << TAIL) - 1;

/// The factor that splits a number into 17 bits and a rest (Dekker): `g - (g - x)` with `g = x * SPLITTER` is `x` rounded
/// to nearest, ties to even. Equal to the steps by integers for each normal number below 2^120.
const SPLITTER: f32 = ((1 << TAIL) + 1) as f32;

/// The greatest magnitude, as bits, that stays finite when rounded.
const LARGEST: u32 = LIMIT.to_bits() - (1 << (TAIL - 1)) - 1;

impl ClifBuilder<'_, '_> {
    fn ints(&mut self, bits: u32) -> Value {
        self.vector(types::I32X4, [bits; 4])
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
            smallest: self.ints(SMALLEST.to_bits()),
            splitter: self.constant(types::F32X4, SPLITTER),
            minus_one: self.ints(u32::MAX),
            zero: self.constant(types::F32X4, 0.0),
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

    /// Rounds a number that is not infinite and no NaN, vectors only.
    fn rounded_number(&mut self, rounding: Rounding, x: Value) -> Value {
        if rounding == Rounding::Nearest {
            let splitter = self.constants().splitter;
            let g = self.b.ins().fmul(x, splitter);
            let rest = self.b.ins().fsub(g, x);
            return self.b.ins().fsub(g, rest);
        }
        let bits = self.bitcast(types::I32X4, x);
        let r = self.rounded(rounding, bits);
        self.bitcast(types::F32X4, r)
    }

    /// Narrows a result of which `lanes` are live, vectors only; speculative code by these steps.
    pub(crate) fn result(&mut self, x: Value, lanes: Components, steps: Steps) -> Value {
        let Precision::F24 { rounding } = self.precision else { return x };
        if self.products == Products::Speculative {
            return self.speculative_result(rounding, x, lanes, steps);
        }
        let bits = self.bitcast(types::I32X4, x);
        let r = self.rounded(rounding, bits);
        let f = self.bitcast(types::F32X4, r);
        let f = self.limited(f);
        let r = self.bitcast(types::I32X4, f);
        let r = self.without_small(r);
        let r = self.bitcast(types::F32X4, r);
        self.or_nan(x, r)
    }

    fn speculative_result(&mut self, rounding: Rounding, x: Value, lanes: Components, steps: Steps) -> Value {
        let r = if self.narrowing.special {
            let bits = self.bitcast(types::I32X4, x);
            self.rounded(rounding, bits)
        } else {
            self.rounded_number(rounding, x)
        };
        let bits = self.bitcast(types::I32X4, r);
        if steps.limit {
            let mut magnitude = self.magnitude(bits, lanes);
            if self.narrowing.special {
                let infinity = self.ints(f32::INFINITY.to_bits());
                let infinite = self.b.ins().icmp(IntCC::Equal, magnitude, infinity);
                magnitude = self.b.ins().band_not(magnitude, infinite);
            }
            self.sticky.results = Some(self.greatest(self.sticky.results, magnitude));
        }
        let bits = if steps.flush { self.without_small(bits) } else { bits };
        self.bitcast(types::F32X4, bits)
    }

    /// A narrowed result that is checked and has the sign of zero that its readers need, vectors only. A check applies
    /// to `lanes`.
    pub(crate) fn finished(&mut self, x: Value, lanes: Components) -> Value {
        let Check { low, high } = self.narrowing.check;
        self.record(x, if low { lanes } else { 0 }, if high { lanes } else { 0 });
        self.signed_zero(x)
    }

    /// A narrowed result with the sign of zero that its readers need, vectors only.
    pub(crate) fn signed_zero(&mut self, x: Value) -> Value {
        if !self.narrowing.positive_zero {
            return x;
        }
        let zero = self.constants().zero;
        self.b.ins().fadd(x, zero)
    }

    /// Records that lanes `low` must be 0 or not below the band, and lanes `high` not above it.
    pub(crate) fn record(&mut self, x: Value, low: Components, high: Components) {
        let bits = self.bitcast(types::I32X4, x);
        let of_low = (low != 0).then(|| self.magnitude(bits, low));
        if high != 0 {
            let magnitude = of_low.filter(|_| low == high).unwrap_or_else(|| self.magnitude(bits, high));
            self.sticky.high = Some(self.greatest(self.sticky.high, magnitude));
        }
        if let Some(magnitude) = of_low {
            let minus_one = self.constants().minus_one;
            let less = self.b.ins().iadd(magnitude, minus_one);
            self.sticky.low = Some(match self.sticky.low {
                None => less,
                Some(before) => self.b.ins().umin(before, less),
            });
        }
    }

    /// The bits without the sign; zero outside of `lanes`.
    fn magnitude(&mut self, bits: Value, lanes: Components) -> Value {
        if lanes == XYZW {
            let magnitude = self.constants().magnitude;
            return self.b.ins().band(bits, magnitude);
        }
        let mask = self.vector(types::I32X4, [0, 1, 2, 3].map(|l| if lanes >> l & 1 != 0 { MAGNITUDE } else { 0 }));
        self.b.ins().band(bits, mask)
    }

    fn greatest(&mut self, before: Option<Value>, magnitude: Value) -> Value {
        match before {
            None => magnitude,
            Some(before) => self.b.ins().smax(before, magnitude),
        }
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

    /// `f` of the operand in double precision, narrowed; float24 only. A vector is computed in two halves.
    pub(crate) fn in_double(
        &mut self,
        rounding: Rounding,
        x: Value,
        ends: Ends,
        mut f: impl FnMut(&mut Self, Value) -> Value,
    ) -> Value {
        if !self.ty(x).is_vector() {
            let x = self.flushed_scalar(x);
            let x = self.b.ins().fpromote(types::F64, x);
            let exact = f(self, x);
            let rounded = self.rounded_double(rounding, exact);
            let mut r = self.b.ins().fdemote(types::F32, rounded);
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
            let exact = self.b.ins().fdemote(types::F32, exact);
            return self.choose(FloatCC::Unordered, exact, exact, exact, r);
        }
        debug_assert!(self.products == Products::Speculative, "exact code has no groups");
        let zero = self.constant(types::F32X4, 0.0);
        let x = self.b.ins().fadd(x, zero);
        let upper = self.shuffle(x, x, [2, 3, 2, 3]);
        let halves = [x, upper].map(|half| {
            let half = self.b.ins().fvpromote_low(half);
            let exact = f(self, half);
            let rounded = self.rounded_double(rounding, exact);
            self.b.ins().fvdemote(rounded)
        });
        let mut r = self.shuffle(halves[0], halves[1], [0, 1, 4, 5]);
        if ends == Ends::Both {
            r = self.limited(r);
        }
        if ends == Ends::None {
            return r;
        }
        let bits = self.bitcast(types::I32X4, r);
        let bits = self.without_small(bits);
        self.bitcast(types::F32X4, bits)
    }

    /// Rounds one or two doubles to 17 significant bits. A NaN with a tail becomes anything.
    fn rounded_double(&mut self, rounding: Rounding, x: Value) -> Value {
        let (ty, ints) = (self.ty(x), self.ty(x).as_int());
        let bits = self.bitcast(ints, x);
        let moved = match rounding {
            Rounding::TowardZero => bits,
            Rounding::Nearest => {
                let down = self.amount(TAIL_64);
                let odd = self.b.ins().ushr(bits, down);
                let one = self.longs(ints, 1);
                let odd = self.b.ins().band(odd, one);
                let half = self.longs(ints, (1 << (TAIL_64 - 1)) - 1);
                let moved = self.b.ins().iadd(bits, half);
                self.b.ins().iadd(moved, odd)
            }
        };
        let kept = self.longs(ints, !0 << TAIL_64);
        let r = self.b.ins().band(moved, kept);
        self.bitcast(ty, r)
    }

    /// An input as it is read, vectors only.
    pub(crate) fn input(&mut self, x: Value) -> Value {
        match self.precision {
            Precision::F24 { rounding } if self.products == Products::Speculative => self.rounded_number(rounding, x),
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

    /// Records a vector that speculative code loads and of which `lanes` are live.
    pub(crate) fn record_operand(&mut self, x: Value, lanes: Components, tails: Tails) {
        self.record(x, lanes, lanes);
        if tails == Tails::Rounded {
            return;
        }
        let bits = self.bitcast(types::I32X4, x);
        let mask = self.vector(types::I32X4, [0, 1, 2, 3].map(|l| if lanes >> l & 1 != 0 { TAIL_BITS } else { 0 }));
        let tails = self.b.ins().band(bits, mask);
        self.sticky.tails = Some(match self.sticky.tails {
            None => tails,
            Some(before) => self.b.ins().bor(before, tails),
        });
    }

    /// A vector that is nonzero if a violation was recorded since the last call; clears the flags.
    pub(crate) fn take_violations(&mut self) -> Option<Value> {
        let StickyFlags { constants, results, high, low, tails } = std::mem::take(self.sticky);
        self.sticky.constants = constants;
        let (least, above) = Range::band_bits();
        let mut greater = |magnitude: Value, most: u32| {
            let most = self.ints(most);
            self.b.ins().icmp(IntCC::SignedGreaterThan, magnitude, most)
        };
        let results = results.map(|results| greater(results, LARGEST));
        let high = high.map(|high| greater(high, above - 1));
        let low = low.map(|low| {
            let least = self.ints(least - 1);
            self.b.ins().icmp(IntCC::UnsignedLessThan, low, least)
        });
        [results, high, low, tails].into_iter().flatten().reduce(|a, b| self.b.ins().bor(a, b))
    }
}

#[cfg(test)]
mod tests;
