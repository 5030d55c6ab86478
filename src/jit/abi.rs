//! What compiled code and its caller agree on: what is returned, and where things are in memory.
//!
//! All displacements of fields come from the types in [`crate::state`].

use crate::state::{EmitState, Exit, Registers, Uniforms, Unit, Vec4};
use std::mem::offset_of;

/// What compiled code returns instead of an [`Exit`] when it met a NaN that exact multiplication might not have made.
/// Nothing has been written then.
pub(super) const REDO: u32 = 0xFF;

/// Bytes of a register.
pub(super) const VEC4: i32 = size_of::<Vec4>() as i32;
/// Bytes of one output bank.
pub(super) const BANK_BYTES: i32 = size_of::<Registers>() as i32;

/// Offsets in [`Unit`].
pub(super) mod unit {
    use super::{EmitState, Unit, offset_of};
    const R: i32 = offset_of!(Unit, r) as i32;
    const O: i32 = offset_of!(Unit, o) as i32;
    pub const A0: i32 = offset_of!(Unit, a0) as i32;
    pub const AL: i32 = offset_of!(Unit, al) as i32;
    pub const CMP: i32 = offset_of!(Unit, cmp) as i32;
    pub const BANK: i32 = offset_of!(Unit, bank) as i32;
    pub const EMIT_VERTEX: i32 = (offset_of!(Unit, setemit) + offset_of!(EmitState, vertex)) as i32;
    pub const EMIT_PRIMITIVE: i32 = (offset_of!(Unit, setemit) + offset_of!(EmitState, primitive)) as i32;
    pub const EMIT_WINDING: i32 = (offset_of!(Unit, setemit) + offset_of!(EmitState, winding)) as i32;

    /// Of a component of `rn`.
    pub fn r(n: u8, component: u8) -> i32 {
        R + i32::from(n) * super::VEC4 + 4 * i32::from(component)
    }

    /// Of a component of `on`, in the first bank.
    pub fn o(n: u8, component: u8) -> i32 {
        O + i32::from(n) * super::VEC4 + 4 * i32::from(component)
    }
}

/// Offsets in [`Uniforms`].
pub(super) mod uniforms {
    use super::{Uniforms, offset_of};
    pub const C: i32 = offset_of!(Uniforms, c) as i32;
    pub const I: i32 = offset_of!(Uniforms, i) as i32;
    pub const B: i32 = offset_of!(Uniforms, b) as i32;

    /// Of a component of `cn`.
    pub fn c(n: u8, component: u8) -> i32 {
        C + i32::from(n) * super::VEC4 + 4 * i32::from(component)
    }

    /// Of a component of `in`.
    pub fn i(n: u8, component: u8) -> i32 {
        I + i32::from(n) * 4 + i32::from(component)
    }
}

// A bank's address is computed by a shift.
const _: () = assert!(BANK_BYTES == 1 << 8 && VEC4 == 1 << 4);

/// The exit that compiled code returned.
pub(super) fn exit(code: u32) -> Option<Exit> {
    [Exit::End, Exit::Fuel, Exit::BreakOutsideLoop, Exit::PastEnd].into_iter().find(|e| *e as u32 == code)
}
