//! Vectors in the *vec4* shape: swizzles, merges, sums.
//!
//! A PICA register is one `F32X4`, lane 0 = x. A value whose four components are equal, such as a
//! dot product, stays a scalar until it is used as a vector, because most are written to one
//! component only.
//!
//! Invariant: a live component holds what [`crate::isa::numeric`] says; a dead one may hold
//! anything.

use super::ClifBuilder;
use crate::ir::analysis::{Components, XYZW};
use crate::isa::Swizzle;
use crate::isa::numeric::Precision;
use cranelift_codegen::ir::{InstBuilder, Value, types};

/// A vector value in the vec4 shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VecValue {
    /// A vector.
    Wide(Value),
    /// A scalar, equal to all four components.
    Splat(Value),
}

/// Components `bits` of one vector, the others of an older one.
#[derive(Clone, Copy)]
pub(crate) struct Merged {
    pub(crate) bits: Components,
    pub(crate) old: VecValue,
    pub(crate) new: VecValue,
}

impl ClifBuilder<'_, '_> {
    /// Lane n of the result is lane `lanes[n]`: 0-3 are `a`'s, 4-7 `b`'s.
    pub(crate) fn shuffle(&mut self, a: Value, b: Value, lanes: [usize; 4]) -> Value {
        let bytes: Vec<u8> = lanes.iter().flat_map(|l| (0..4).map(move |k| (4 * l + k) as u8)).collect();
        let mask = self.b.func.dfg.immediates.push(bytes.into());
        let (a, b) = (self.bitcast(types::I8X16, a), self.bitcast(types::I8X16, b));
        let shuffled = self.b.ins().shuffle(a, b, mask);
        self.bitcast(types::F32X4, shuffled)
    }

    /// As a vector.
    pub(crate) fn wide(&mut self, v: VecValue) -> Value {
        match v {
            VecValue::Wide(v) => v,
            VecValue::Splat(s) => self.b.ins().splat(types::F32X4, s),
        }
    }

    /// The component in `lane`.
    pub(crate) fn component(&mut self, v: VecValue, lane: usize) -> Value {
        match v {
            VecValue::Splat(s) => s,
            VecValue::Wide(v) => self.b.ins().extractlane(v, lane as u8),
        }
    }

    /// The lanes `needed` of `v` swizzled.
    pub(crate) fn swizzle(&mut self, v: VecValue, swizzle: Swizzle, needed: Components) -> VecValue {
        let VecValue::Wide(value) = v else { return v };
        let lanes = swizzle.components();
        if (0..4).all(|l| needed >> l & 1 == 0 || lanes[l] == l) {
            return v;
        }
        VecValue::Wide(if self.aarch64 {
            self.aarch64_swizzle(value, lanes, needed)
        } else {
            self.shuffle(value, value, lanes)
        })
    }

    /// The merged vector.
    pub(crate) fn merged(&mut self, Merged { bits, old, new }: Merged) -> VecValue {
        if bits == XYZW || old == new {
            return new;
        }
        if bits.is_power_of_two() {
            return self.insert(bits.trailing_zeros() as u8, old, new);
        }
        let (old, new) = (self.wide(old), self.wide(new));
        VecValue::Wide(self.blend(bits, old, new))
    }

    /// One lane from `new`, the others from `old`.
    fn insert(&mut self, lane: u8, old: VecValue, new: VecValue) -> VecValue {
        let old = self.wide(old);
        VecValue::Wide(match new {
            VecValue::Splat(s) => self.b.ins().insertlane(old, s, lane),
            VecValue::Wide(new) => self.blend(1 << lane, old, new),
        })
    }

    /// Components whose bit is set from `new`, the others from `old`.
    pub(crate) fn blend(&mut self, bits: Components, old: Value, new: Value) -> Value {
        if self.aarch64 {
            return self.aarch64_blend(bits, old, new);
        }
        self.shuffle(old, new, [0, 1, 2, 3].map(|l| if bits >> l & 1 != 0 { l + 4 } else { l }))
    }

    /// `(x + y) + z`.
    pub(crate) fn sum3(&mut self, p: Value) -> VecValue {
        if self.precision == Precision::F32 {
            let [x, y, z] = [0, 1, 2].map(|l| self.b.ins().extractlane(p, l));
            let xy = self.b.ins().fadd(x, y);
            return VecValue::Splat(self.b.ins().fadd(xy, z));
        }
        let [y, z] = [1, 2].map(|l| self.shuffle(p, p, [l; 4]));
        let xy = self.b.ins().fadd(p, y);
        let xy = self.result(xy, 0b0001, self.narrowing.sums);
        let sum = self.b.ins().fadd(xy, z);
        let sum = self.result(sum, 0b0001, self.narrowing.sums);
        let sum = self.finished(sum, 0b0001);
        VecValue::Splat(self.b.ins().extractlane(sum, 0))
    }

    /// `(x + y) + (z + w)`.
    pub(crate) fn sum4(&mut self, p: Value) -> VecValue {
        let neighbours = self.shuffle(p, p, [1, 0, 3, 2]);
        let pairs = self.b.ins().fadd(p, neighbours);
        if self.precision == Precision::F32 {
            let low = self.b.ins().extractlane(pairs, 0);
            let high = self.b.ins().extractlane(pairs, 2);
            return VecValue::Splat(self.b.ins().fadd(low, high));
        }
        // Narrowing works on vectors, so the sum in all lanes costs nothing more.
        let pairs = self.result(pairs, XYZW, self.narrowing.sums);
        let others = self.shuffle(pairs, pairs, [2, 3, 0, 1]);
        let sum = self.b.ins().fadd(pairs, others);
        let sum = self.result(sum, XYZW, self.narrowing.sums);
        VecValue::Wide(self.finished(sum, XYZW))
    }
}
