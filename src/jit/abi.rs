//! What compiled code and its caller agree on: what is returned, and where things are in memory.
//!
//! All displacements of fields come from a [`Layout`].

use crate::layout::{Bools, Host, HostEmitter, Layout};
use crate::state::{Emitter, Exit, Unit, Vec4};
use std::any::Any;
use std::mem::offset_of;

/// Vertices of a group: the lanes of a SIMD register in batch code.
pub(crate) const GROUP: usize = 4;

/// What compiled code returns instead of an [`Exit`] when it met a NaN that exact multiplication might not have made.
/// Nothing has been written then.
pub(crate) const DEOPTIMISE: u32 = 0xFF;

/// Bytes of a register.
pub(crate) const VEC4: i32 = size_of::<Vec4>() as i32;

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
    pub(crate) fn r(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().r, n, c)
    }

    /// Of a component of `on`, in the first bank.
    pub(crate) fn o(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().o, n, c)
    }

    /// From a register of the first bank to that of the second, and where the byte is that says which one is written. Without
    /// it there is one bank.
    pub(crate) fn banks(&self) -> Option<(i32, i32)> {
        self.offsets().geometry.map(|g| (displacement(g.bank_stride), displacement(g.bank)))
    }

    /// Of `a0.x` or `a0.y`.
    pub(crate) fn a0(&self, n: u8) -> i32 {
        displacement(self.offsets().a0[usize::from(n)])
    }

    /// Of `aL`.
    pub(crate) fn al(&self) -> i32 {
        displacement(self.offsets().al)
    }

    /// Of a flag.
    pub(crate) fn cmp(&self, n: u8) -> i32 {
        displacement(self.offsets().cmp[usize::from(n)])
    }

    /// Of the bytes that `SETEMIT` sets: vertex, primitive, winding.
    pub(crate) fn setemit(&self) -> Option<[i32; 3]> {
        self.offsets().geometry.map(|g| [g.vertex, g.primitive, g.winding].map(displacement))
    }

    /// Of a component of `cn`.
    pub(crate) fn c(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().c, n, c)
    }

    /// Of a component of `in`.
    pub(crate) fn i(&self, n: u8, c: u8) -> i32 {
        displacement(self.offsets().i) + i32::from(n) * 4 + i32::from(c)
    }

    /// Of what holds `bn`: a byte of its own, or a word of 16 bits, and then which one of these.
    pub(crate) fn b(&self, n: u8) -> (i32, Option<u8>) {
        match self.offsets().b {
            Bools::Mask(at) => (displacement(at), Some(n)),
            Bools::Bytes(at) => (displacement(at) + i32::from(n), None),
        }
    }
}

// Where a register is, is computed by a shift.
const _: () = assert!(VEC4 == 1 << 4);

/// The exit that compiled code returned.
pub(crate) fn exit(code: u32) -> Option<Exit> {
    [Exit::End, Exit::Fuel, Exit::BreakOutsideLoop, Exit::PastEnd].into_iter().find(|e| *e as u32 == code)
}

/// What compiled code is called as. Returns an [`Exit`]'s number or [`abi::DEOPTIMISE`].
pub(crate) type Function = unsafe extern "C" fn(*const u8, *mut u8, *const Vec4, *const Frame) -> u32;

/// All that code without EMIT needs of a frame: its first field.
#[repr(C, align(16))]
pub(crate) struct FrameConstants {
    /// What relative addressing reads beyond `c95`.
    pub(crate) ones: [f32; 4],
    /// 1 if this code has already run with these uniforms and found nothing to deoptimise.
    pub(crate) uniforms_checked: u32,
}

pub(crate) const INITIAL: FrameConstants = FrameConstants { ones: [1.0; 4], uniforms_checked: 0 };
pub(crate) static UNIFORMS_UNCHECKED: FrameConstants = INITIAL;
pub(crate) static UNIFORMS_CHECKED: FrameConstants = FrameConstants { ones: [1.0; 4], uniforms_checked: 1 };

/// What compiled code needs besides registers and uniforms.
#[repr(C, align(16))]
pub(crate) struct Frame {
    pub(crate) constants: FrameConstants,
    /// Called by EMIT with this frame.
    pub(crate) emit: unsafe extern "C" fn(*mut Frame),
    pub(crate) receiver: Receiver,
    /// A panic of the emitter, on its way past the compiled code, which has no unwind information.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

/// Whose EMIT it is.
#[derive(Clone, Copy)]
pub(crate) enum Receiver {
    Own(*mut Unit, *mut dyn Emitter),
    Host(*const Host<'static>, *mut dyn HostEmitter),
}

/// What code that runs a batch needs besides registers and uniforms, and what it says.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct BatchFrame {
    pub(crate) outputs: *mut Vec4,
    /// Behind the last vertex's inputs.
    pub(crate) end: *const Vec4,
    /// The inputs of the first vertex that was not run.
    pub(crate) done: *const Vec4,
    /// Bytes from one vertex's inputs to the next one's.
    pub(crate) input_stride: usize,
    /// The same of outputs.
    pub(crate) output_stride: usize,
    pub(crate) output_mask: u32,
    /// Where the last group begins.
    pub(crate) last_inputs: *const Vec4,
    pub(crate) last_outputs: *mut Vec4,
}

/// Offsets in the frame of code that runs a batch.
pub(crate) const BATCH_OUTPUTS: i32 = offset_of!(BatchFrame, outputs) as i32;
pub(crate) const BATCH_END: i32 = offset_of!(BatchFrame, end) as i32;
pub(crate) const BATCH_DONE: i32 = offset_of!(BatchFrame, done) as i32;
pub(crate) const BATCH_LAST_INPUTS: i32 = offset_of!(BatchFrame, last_inputs) as i32;
pub(crate) const BATCH_LAST_OUTPUTS: i32 = offset_of!(BatchFrame, last_outputs) as i32;
pub(crate) const BATCH_INPUT_STRIDE: i32 = offset_of!(BatchFrame, input_stride) as i32;
pub(crate) const BATCH_OUTPUT_STRIDE: i32 = offset_of!(BatchFrame, output_stride) as i32;
pub(crate) const BATCH_OUTPUT_MASK: i32 = offset_of!(BatchFrame, output_mask) as i32;

/// Offset of the vector of ones in the frame.
pub(crate) const FRAME_ONES: i32 = (offset_of!(Frame, constants) + offset_of!(FrameConstants, ones)) as i32;
/// Offset of the word that says whether the uniforms were seen.
pub(crate) const FRAME_UNIFORMS_CHECKED: i32 =
    (offset_of!(Frame, constants) + offset_of!(FrameConstants, uniforms_checked)) as i32;
/// Offset of the emit function in the frame.
pub(crate) const FRAME_EMIT: i32 = offset_of!(Frame, emit) as i32;
