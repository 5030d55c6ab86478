//! What compiled code and its caller agree on: what is returned, and where things are in memory.
//!
//! All displacements of fields come from a [`Layout`].

use crate::layout::{Bools, Layout};
use crate::state::{Exit, Vec4};

/// What compiled code returns instead of an [`Exit`] when it met a NaN that exact multiplication might not have made.
/// Nothing has been written then.
pub(super) const REDO: u32 = 0xFF;

/// Bytes of a register.
pub(super) const VEC4: i32 = size_of::<Vec4>() as i32;

/// A layout's offsets are less than 2^31: it was checked.
fn displacement(offset: u32) -> i32 {
    offset as i32
}

/// Of a component of register `n` of a file that begins at `file`.
fn component(file: u32, n: u8, component: u8) -> i32 {
    displacement(file) + i32::from(n) * VEC4 + 4 * i32::from(component)
}

/// Displacements from where the unit is, and from where the uniforms are.
impl Layout {
    /// Of a component of `rn`.
    pub(super) fn r(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().r, n, c)
    }

    /// Of a component of `on`, in the first bank.
    pub(super) fn o(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().o, n, c)
    }

    /// From a register of the first bank to that of the second, and where the byte is that says which one is written. Without
    /// it there is one bank.
    pub(super) fn banks(&self) -> Option<(i32, i32)> {
        self.offsets().geometry.map(|g| (displacement(g.bank_stride), displacement(g.bank)))
    }

    /// Of `a0.x` or `a0.y`.
    pub(super) fn a0(&self, n: u8) -> i32 {
        displacement(self.offsets().a0[usize::from(n)])
    }

    /// Of `aL`.
    pub(super) fn al(&self) -> i32 {
        displacement(self.offsets().al)
    }

    /// Of a flag.
    pub(super) fn cmp(&self, n: u8) -> i32 {
        displacement(self.offsets().cmp[usize::from(n)])
    }

    /// Of the bytes that `SETEMIT` sets: vertex, primitive, winding.
    pub(super) fn setemit(&self) -> Option<[i32; 3]> {
        self.offsets().geometry.map(|g| [g.vertex, g.primitive, g.winding].map(displacement))
    }

    /// Of a component of `cn`.
    pub(super) fn c(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().c, n, c)
    }

    /// Of a component of `in`.
    pub(super) fn i(&self, n: u8, c: u8) -> i32 {
        displacement(self.offsets().i) + i32::from(n) * 4 + i32::from(c)
    }

    /// Of what holds `bn`: a byte of its own, or a word of 16 bits, and then which one of these.
    pub(super) fn b(&self, n: u8) -> (i32, Option<u8>) {
        match self.offsets().b {
            Bools::Mask(at) => (displacement(at), Some(n)),
            Bools::Bytes(at) => (displacement(at) + i32::from(n), None),
        }
    }
}

// Where a register is, is computed by a shift.
const _: () = assert!(VEC4 == 1 << 4);

/// The exit that compiled code returned.
pub(super) fn exit(code: u32) -> Option<Exit> {
    [Exit::End, Exit::Fuel, Exit::BreakOutsideLoop, Exit::PastEnd].into_iter().find(|e| *e as u32 == code)
}
