//! How a PICA value sits in SIMD registers.
//!
//! The *vec4* shape: one vertex; a register is one `F32X4`, lane 0 = x. A value whose four lanes are equal (dot
//! products, reciprocals) stays a scalar until somebody wants a vector, because most are written to one component only.
//!
//! Invariant: a lane that nobody reads may hold anything; one that somebody reads holds what [`crate::isa::numeric`]
//! says.

use super::math::Math;
use crate::ir::facts::{ALL_LANES, Lanes};
use crate::isa::numeric::Precision;
use crate::isa::{Swizzle, WriteMask};
use cranelift_codegen::ir::{InstBuilder, Value, types};

/// A vector value in the vec4 shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Vec4 {
    /// Four lanes.
    Wide(Value),
    /// One scalar that stands in all four lanes.
    Splat(Value),
}

impl Math<'_, '_> {
    /// Bytes 4n..4n+4 of lane n for each of four lanes; 0-3 are `a`'s, 4-7 `b`'s.
    pub(super) fn shuffle(&mut self, a: Value, b: Value, lanes: [usize; 4]) -> Value {
        let bytes: Vec<u8> = lanes.iter().flat_map(|l| (0..4).map(move |k| (4 * l + k) as u8)).collect();
        let mask = self.b.func.dfg.immediates.push(bytes.into());
        let (a, b) = (self.bitcast(types::I8X16, a), self.bitcast(types::I8X16, b));
        let shuffled = self.b.ins().shuffle(a, b, mask);
        self.bitcast(types::F32X4, shuffled)
    }

    /// All four lanes.
    pub(super) fn wide(&mut self, v: Vec4) -> Value {
        match v {
            Vec4::Wide(v) => v,
            Vec4::Splat(s) => self.b.ins().splat(types::F32X4, s),
        }
    }

    /// The component in `lane`.
    pub(super) fn component(&mut self, v: Vec4, lane: usize) -> Value {
        match v {
            Vec4::Splat(s) => s,
            Vec4::Wide(v) => self.b.ins().extractlane(v, lane as u8),
        }
    }

    /// The lanes `needed` of `v` swizzled.
    pub(super) fn swizzle(&mut self, v: Vec4, swizzle: Swizzle, needed: Lanes) -> Vec4 {
        let Vec4::Wide(value) = v else { return v };
        let lanes = swizzle.lanes();
        if (0..4).all(|l| needed >> l & 1 == 0 || lanes[l] == l) {
            return v;
        }
        Vec4::Wide(if self.arm { self.arm_swizzle(value, lanes, needed) } else { self.shuffle(value, value, lanes) })
    }

    /// Lanes of `mask` from `new`, the others from `old`.
    pub(super) fn merge(&mut self, mask: WriteMask, old: Vec4, new: Vec4) -> Vec4 {
        let bits = mask.lane_bits();
        if bits.is_power_of_two() {
            return self.insert(bits.trailing_zeros() as u8, old, new);
        }
        let (old, new) = (self.wide(old), self.wide(new));
        Vec4::Wide(self.blend(bits, old, new))
    }

    /// One lane from `new`, the others from `old`.
    pub(super) fn insert(&mut self, lane: u8, old: Vec4, new: Vec4) -> Vec4 {
        let old = self.wide(old);
        Vec4::Wide(match new {
            Vec4::Splat(s) => self.b.ins().insertlane(old, s, lane),
            Vec4::Wide(new) => self.blend(1 << lane, old, new),
        })
    }

    /// Lanes whose bit is set from `new`, the others from `old`.
    pub(super) fn blend(&mut self, bits: Lanes, old: Value, new: Value) -> Value {
        if self.arm {
            return self.arm_blend(bits, old, new);
        }
        self.shuffle(old, new, [0, 1, 2, 3].map(|l| if bits >> l & 1 != 0 { l + 4 } else { l }))
    }

    /// `(x + y) + z`.
    pub(super) fn sum3(&mut self, p: Value) -> Vec4 {
        if self.precision == Precision::F32 {
            let [x, y, z] = [0, 1, 2].map(|l| self.b.ins().extractlane(p, l));
            let xy = self.b.ins().fadd(x, y);
            return Vec4::Splat(self.b.ins().fadd(xy, z));
        }
        let [y, z] = [1, 2].map(|l| self.shuffle(p, p, [l; 4]));
        let xy = self.b.ins().fadd(p, y);
        let xy = self.result(xy, 0b0001);
        let sum = self.b.ins().fadd(xy, z);
        let sum = self.result(sum, 0b0001);
        Vec4::Splat(self.b.ins().extractlane(sum, 0))
    }

    /// `(x + y) + (z + w)`.
    pub(super) fn sum4(&mut self, p: Value) -> Vec4 {
        let neighbours = self.shuffle(p, p, [1, 0, 3, 2]);
        let pairs = self.b.ins().fadd(p, neighbours);
        if self.precision == Precision::F32 {
            let low = self.b.ins().extractlane(pairs, 0);
            let high = self.b.ins().extractlane(pairs, 2);
            return Vec4::Splat(self.b.ins().fadd(low, high));
        }
        // Narrowing is done on vectors, where the sum stands in all lanes at no cost.
        let pairs = self.result(pairs, ALL_LANES);
        let others = self.shuffle(pairs, pairs, [2, 3, 0, 1]);
        let sum = self.b.ins().fadd(pairs, others);
        Vec4::Wide(self.result(sum, ALL_LANES))
    }
}
