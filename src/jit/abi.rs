//! What compiled code and its callers agree on: signature, return codes, frames, group width,
//! displacements.
//!
//! Every displacement of a register comes from a [`Layout`].

use crate::isa::Setemit;
pub(crate) use crate::kernel::direct::{FrameConstants, Function, OutputsFrame, exit};
use crate::layout::{Bools, HostEmitter, Layout};
use crate::state::{EmittedVertex, Vec4};
use std::any::Any;
use std::mem::offset_of;

/// Vertices of a group: the lanes of a SIMD register in batch code.
pub(crate) const GROUP: usize = 4;

/// Compiled code returns this instead of an [`Exit`] when a guard fails: a NaN may come from 0 *
/// infinity. Nothing was written.
pub(crate) const DEOPTIMISE: u32 = 0xFF;

/// The same when an EMIT of speculative code finds the emit buffer full.
pub(crate) const NO_ROOM: u32 = 0xFE;

/// Bytes of a register.
pub(crate) const VEC4: i32 = size_of::<Vec4>() as i32;

/// Offsets of a layout are below 2^31; its constructor checks them.
pub(crate) fn displacement(offset: u32) -> i32 {
    offset as i32
}

/// Displacement of a component of register `n` of the file at `file`.
fn component(file: u32, n: u8, component: u8) -> i32 {
    displacement(file) + i32::from(n) * VEC4 + 4 * i32::from(component)
}

/// Displacements from the start of the unit and of the uniforms.
impl Layout {
    /// A component of `rn`.
    pub(crate) fn r(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().r, n, c)
    }

    /// A component of `on`, in the first bank.
    pub(crate) fn o(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().o, n, c)
    }

    /// The distance from a register of the first bank to that of the second, and the byte that
    /// selects the bank. `None`: one bank.
    pub(crate) fn banks(&self) -> Option<(i32, i32)> {
        self.offsets().geometry.map(|g| (displacement(g.bank_stride), displacement(g.bank)))
    }

    /// `a0.x` or `a0.y`.
    pub(crate) fn a0(&self, n: u8) -> i32 {
        displacement(self.offsets().a0[usize::from(n)])
    }

    /// `aL`.
    pub(crate) fn al(&self) -> i32 {
        displacement(self.offsets().al)
    }

    /// A flag.
    pub(crate) fn cmp(&self, n: u8) -> i32 {
        displacement(self.offsets().cmp[usize::from(n)])
    }

    /// The bytes that `SETEMIT` sets: vertex, primitive, winding.
    pub(crate) fn setemit(&self) -> Option<[i32; 3]> {
        self.offsets().geometry.map(|g| [g.vertex, g.primitive, g.winding].map(displacement))
    }

    /// A component of `cn`.
    pub(crate) fn c(&self, n: u8, c: u8) -> i32 {
        component(self.offsets().c, n, c)
    }

    /// A component of `in`.
    pub(crate) fn i(&self, n: u8, c: u8) -> i32 {
        displacement(self.offsets().i) + i32::from(n) * 4 + i32::from(c)
    }

    /// The byte of `bn`, or the 16-bit mask that has it and its bit.
    pub(crate) fn b(&self, n: u8) -> (i32, Option<u8>) {
        match self.offsets().b {
            Bools::Mask(at) => (displacement(at), Some(n)),
            Bools::Bytes(at) => (displacement(at) + i32::from(n), None),
        }
    }
}

// Code computes the address of an indexed register by a shift.
const _: () = assert!(VEC4 == 1 << 4);

/// The frame of code for one vertex: what it needs besides registers and uniforms.
#[repr(C, align(16))]
pub(crate) struct Frame {
    pub(crate) constants: FrameConstants,
    /// The record of the next EMIT. The code advances it.
    pub(crate) cursor: *mut EmittedVertex,
    /// The end of the emit buffer.
    pub(crate) end: *mut EmittedVertex,
    /// Called by an EMIT of exact code that finds the buffer full. Empties it and returns the new cursor.
    pub(crate) flush: unsafe extern "C" fn(*mut Frame) -> *mut EmittedVertex,
    /// The start of the emit buffer. From here on the fields are the runtime's.
    pub(crate) start: *mut EmittedVertex,
    /// The runtime's own buffer, for receivers without one.
    pub(crate) spare: *mut EmittedVertex,
    /// The outputs that the code stores in a record; bit n is `on`. The runtime adds the others.
    pub(crate) written: u16,
    /// [`HostEmitter::outputs`].
    pub(crate) wanted: u16,
    /// The unit, and the layout of its memory.
    pub(crate) unit: *const u8,
    pub(crate) layout: *const Layout,
    pub(crate) receiver: *mut dyn HostEmitter,
    /// A panic of the emitter, on its way past the compiled code, which has no unwind information.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

/// What code for one vertex stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// All registers that it changes, to the unit.
    Unit,
    /// The outputs that a batch wants, to the batch. The unit stays as it is.
    Outputs,
}

// Code finds the constants of either frame in the same place.
const _: () = assert!(offset_of!(OutputsFrame, constants) == offset_of!(Frame, constants));

/// Offset of `outputs` in an [`OutputsFrame`].
pub(crate) const OUTPUTS_FRAME_OUTPUTS: i32 = offset_of!(OutputsFrame, outputs) as i32;
/// Offset of `output_mask` in an [`OutputsFrame`].
pub(crate) const OUTPUTS_FRAME_MASK: i32 = offset_of!(OutputsFrame, output_mask) as i32;

/// The frame of batch code. The code writes `done`.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct BatchFrame {
    pub(crate) outputs: *mut Vec4,
    /// The end of the last vertex's inputs.
    pub(crate) end: *const Vec4,
    /// The inputs of the first vertex that did not run.
    pub(crate) done: *const Vec4,
    /// Bytes from one vertex's inputs to the next one's.
    pub(crate) input_stride: usize,
    /// Bytes from one vertex's outputs to the next one's.
    pub(crate) output_stride: usize,
    pub(crate) output_mask: u32,
    /// The start of the last group.
    pub(crate) last_inputs: *const Vec4,
    pub(crate) last_outputs: *mut Vec4,
    /// The written masks of the first vertex, one word each, [`written_mask_stride`] words apart:
    /// not zero if the vertex wrote the components of the mask. The next words are those of the
    /// vertices after it.
    pub(crate) written: *mut u32,
    /// The same of the start of the last group.
    pub(crate) last_written: *mut u32,
}

/// The frame of batch code of a program that emits. The code stores the vertices of an invocation one
/// after another, then those of the next. Every invocation has as many.
#[repr(C, align(16))]
pub(crate) struct EmittingFrame {
    pub(crate) batch: BatchFrame,
    /// [`parameter_bytes`] of the next EMIT. The code sets them.
    pub(crate) parameters: [u8; 16],
    /// The next record of the group's first invocation. The code advances it.
    pub(crate) cursor: *mut EmittedVertex,
    /// The end of that invocation's records. The code advances it from group to group.
    pub(crate) end: *mut EmittedVertex,
    /// Bytes of the records of an invocation.
    pub(crate) stride: usize,
}

// One vector load reads the parameters.
const _: () = assert!(offset_of!(EmittingFrame, parameters).is_multiple_of(16));

/// The parameters of EMIT as a record has them on a little-endian host, as all with native code are: words,
/// normalised.
pub(crate) fn parameter_bytes(Setemit { vertex, primitive, winding }: Setemit) -> [u8; 16] {
    let mut bytes = [0; 16];
    (bytes[0], bytes[4], bytes[8]) = (vertex & 3, primitive.into(), winding.into());
    bytes
}

/// Most masks of written components that batch code may have.
pub(crate) const MAX_WRITTEN_MASKS: usize = 16;
/// Words of the memory for written masks.
pub(crate) const WRITTEN_WORDS: usize = 4096;

/// Words from one mask of a vertex to the next: the vertices that fit one call of code with `masks`
/// masks. Whole pairs of groups fit.
pub(crate) const fn written_mask_stride(masks: usize) -> usize {
    WRITTEN_WORDS / masks / (2 * GROUP) * (2 * GROUP)
}

/// Offsets in a [`BatchFrame`].
pub(crate) const BATCH_OUTPUTS: i32 = offset_of!(BatchFrame, outputs) as i32;
pub(crate) const BATCH_END: i32 = offset_of!(BatchFrame, end) as i32;
pub(crate) const BATCH_DONE: i32 = offset_of!(BatchFrame, done) as i32;
pub(crate) const BATCH_LAST_INPUTS: i32 = offset_of!(BatchFrame, last_inputs) as i32;
pub(crate) const BATCH_LAST_OUTPUTS: i32 = offset_of!(BatchFrame, last_outputs) as i32;
pub(crate) const BATCH_WRITTEN: i32 = offset_of!(BatchFrame, written) as i32;
pub(crate) const BATCH_LAST_WRITTEN: i32 = offset_of!(BatchFrame, last_written) as i32;
pub(crate) const BATCH_INPUT_STRIDE: i32 = offset_of!(BatchFrame, input_stride) as i32;
pub(crate) const BATCH_OUTPUT_STRIDE: i32 = offset_of!(BatchFrame, output_stride) as i32;
pub(crate) const BATCH_OUTPUT_MASK: i32 = offset_of!(BatchFrame, output_mask) as i32;

/// Offsets in an [`EmittingFrame`], which begins with a [`BatchFrame`].
pub(crate) const BATCH_PARAMETERS: i32 = offset_of!(EmittingFrame, parameters) as i32;
pub(crate) const BATCH_CURSOR: i32 = offset_of!(EmittingFrame, cursor) as i32;
pub(crate) const BATCH_RECORDS_END: i32 = offset_of!(EmittingFrame, end) as i32;
pub(crate) const BATCH_RECORDS_STRIDE: i32 = offset_of!(EmittingFrame, stride) as i32;

/// Offset of the vector of ones in the frame.
pub(crate) const FRAME_ONES: i32 = (offset_of!(Frame, constants) + offset_of!(FrameConstants, ones)) as i32;
/// Offset of `uniforms_checked` in the frame.
pub(crate) const FRAME_UNIFORMS_CHECKED: i32 =
    (offset_of!(Frame, constants) + offset_of!(FrameConstants, uniforms_checked)) as i32;
/// Offsets of the emit buffer's fields in the frame.
pub(crate) const FRAME_CURSOR: i32 = offset_of!(Frame, cursor) as i32;
pub(crate) const FRAME_END: i32 = offset_of!(Frame, end) as i32;
pub(crate) const FRAME_FLUSH: i32 = offset_of!(Frame, flush) as i32;
/// Bytes of an emitted vertex.
pub(crate) const EMITTED: i32 = size_of::<EmittedVertex>() as i32;
/// Displacement of a register in an emitted vertex.
pub(crate) fn emitted_output(n: u8) -> i32 {
    offset_of!(EmittedVertex, outputs) as i32 + i32::from(n) * VEC4
}
/// Displacement of the parameters in an emitted vertex: four words, of which the last is 0.
pub(crate) const EMITTED_PARAMETERS: i32 = offset_of!(EmittedVertex, vertex) as i32;

// One vector store writes all parameters.
const _: () = assert!(offset_of!(EmittedVertex, reserved) as i32 + 4 == EMITTED_PARAMETERS + VEC4);
