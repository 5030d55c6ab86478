//! Swizzles and blends for 64-bit Arm.
//!
//! Cranelift lowers a shuffle that Arm has to one instruction, and any other to four: a constant,
//! two moves into adjacent registers, and a two-register TBL. Here such a swizzle is a one-register
//! TBL, which needs no moves, and a blend is a bitwise select. It must not know why lanes are
//! rearranged.

use super::ClifBuilder;
use crate::ir::analysis::Components;
use cranelift_codegen::ir::{InstBuilder, Value, types};

/// One-instruction shuffles of a register with itself. Cranelift matches lanes 4-7, the register's
/// second copy, only as written here.
const RECOGNISED: [[usize; 4]; 16] = [
    // DUP of a lane or of a half.
    [0, 0, 0, 0],
    [1, 1, 1, 1],
    [2, 2, 2, 2],
    [3, 3, 3, 3],
    [0, 1, 0, 1],
    [2, 3, 2, 3],
    // EXT.
    [1, 2, 3, 4],
    [2, 3, 4, 5],
    [3, 4, 5, 6],
    // UZP1, UZP2, ZIP1, ZIP2, TRN1, TRN2.
    [0, 2, 4, 6],
    [1, 3, 5, 7],
    [0, 4, 1, 5],
    [2, 6, 3, 7],
    [0, 4, 2, 6],
    [1, 5, 3, 7],
    // REV64.
    [1, 0, 3, 2],
];

impl ClifBuilder<'_, '_> {
    /// The lanes `needed` of `v` rearranged.
    pub(crate) fn aarch64_swizzle(&mut self, v: Value, lanes: [usize; 4], needed: Components) -> Value {
        let fits = |r: &&[usize; 4]| (0..4).all(|l| needed >> l & 1 == 0 || r[l] % 4 == lanes[l]);
        if let Some(recognised) = RECOGNISED.iter().find(fits) {
            return self.shuffle(v, v, *recognised);
        }
        let bytes = lanes.map(|l| u32::from_le_bytes([0, 1, 2, 3].map(|k| 4 * l as u8 + k)));
        let (v, bytes) = (self.bitcast(types::I8X16, v), self.vector(types::I8X16, bytes));
        let swizzled = self.b.ins().swizzle(v, bytes);
        self.bitcast(types::F32X4, swizzled)
    }

    /// Components whose bit is set from `new`, the others from `old`.
    pub(crate) fn aarch64_blend(&mut self, bits: Components, old: Value, new: Value) -> Value {
        let lane = bits.trailing_zeros() as u8;
        if bits == 1 << lane {
            let x = self.b.ins().extractlane(new, lane);
            return self.b.ins().insertlane(old, x, lane);
        }
        let mask = self.lane_mask(types::F32X4, bits);
        self.b.ins().bitselect(mask, new, old)
    }
}

#[cfg(test)]
mod tests {
    use super::RECOGNISED;

    #[test]
    fn recognised_swizzles_differ() {
        let mut swizzles = RECOGNISED.map(|lanes| lanes.map(|l| l % 4));
        swizzles.sort();
        assert!(swizzles.windows(2).all(|pair| pair[0] != pair[1]));
        // The identity needs no instruction.
        assert!(!swizzles.contains(&[0, 1, 2, 3]));
    }
}
