//! Installed code and the memory of a run -> a call of that code.
//!
//! Invariant: every pointer that compiled code gets comes from a reference that outlives the call,
//! or from a host's cells. The caller does not know what the code computes.

#![allow(unsafe_code)]

use super::code_memory::InstalledCode;
use crate::isa::Setemit;
use crate::jit::abi::{
    self, BatchFrame, EmittingFrame, Frame, FrameConstants, Function, GROUP, OutputsFrame, WRITTEN_WORDS,
};
use crate::kernel::direct::{DirectFunctions, Masks};
use crate::layout::{HostEmitter, HostMemory, Layout};
use crate::state::{Batch, EmittedVertex, Exit, Vec4};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

static UNCHECKED: FrameConstants = FrameConstants::new(false);
static CHECKED: FrameConstants = FrameConstants::new(true);

/// One compiled function.
pub(crate) struct Code {
    code: InstalledCode,
    pub(super) needs: Needs,
    /// Records that an emit buffer needs before speculative code runs: more than were in any buffer
    /// that was too small for a run. Each such run raises it, so they are few.
    pub(crate) room: AtomicUsize,
}

/// Why a run must be repeated on exact code. It has written nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// A guard failed.
    Deoptimised,
    /// The emit buffer has no room for the vertices of a speculative run.
    NoRoom,
}

/// What callers owe compiled code.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// Whether the code uses a frame's emit buffer. Of batch code: whether its frame is an
    /// [`EmittingFrame`].
    pub(crate) emits: bool,
    /// The outputs that an EMIT stores; bit n is `on`.
    pub(crate) emitted: u16,
    /// Input registers, from `v0` on, that must be readable: the code reads none above.
    pub(crate) inputs: usize,
    /// For batch code: vertices come in multiples of this, at least one group.
    pub(crate) step: usize,
    /// For batch code: its written masks.
    pub(crate) written_masks: usize,
    /// The layout of the memory; `None` is [`Layout::OWN`].
    pub(crate) layout: Option<Layout>,
}

/// The arguments of one call.
pub(super) struct Pointers {
    uniforms: *const u8,
    pub(super) unit: *mut u8,
    inputs: *const Vec4,
}

impl Code {
    /// `code`, a function of the type [`Function`], and what its callers owe it.
    pub(crate) fn new(code: InstalledCode, needs: Needs) -> Code {
        Code { code, needs, room: AtomicUsize::new(0) }
    }

    /// The machine code and its constants, where they run.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.code.bytes()
    }

    /// Bytes of machine code and constants.
    pub(crate) fn len(&self) -> usize {
        self.code.bytes().len()
    }

    /// Whether the memory has the layout that the code was compiled for.
    #[inline]
    pub(crate) fn fits(&self, memory: &HostMemory<'_>) -> bool {
        memory.has_layout(self.needs.layout.as_ref())
    }

    /// The addresses of registers, inputs and uniforms in `memory`, which [fits](Code::fits).
    #[inline]
    fn pointers(&self, memory: &HostMemory<'_>) -> Pointers {
        let layout = self.needs.layout.as_ref().unwrap_or(&Layout::OWN).offsets();
        // That the layouts are equal is a matter of meaning; that the blocks are large enough, one of
        // safety.
        let own = memory.layout().offsets();
        assert!(own.unit_bytes >= layout.unit_bytes && own.uniforms_bytes >= layout.uniforms_bytes);
        let (uniforms, unit) = memory.addresses();
        Pointers { uniforms, unit, inputs: unit.wrapping_add(layout.v as usize).cast_const().cast() }
    }

    /// Runs the function. It reads `inputs`, or the unit's `v` without them. `uniforms_checked` only
    /// if this code has run with the same uniforms before and did not deoptimise.
    #[inline]
    pub(crate) fn run(
        &self,
        memory: &HostMemory<'_>,
        emitter: &mut dyn HostEmitter,
        inputs: Option<&[Vec4]>,
        uniforms_checked: bool,
    ) -> Result<Exit, Undone> {
        let mut at = self.pointers(memory);
        if let Some(inputs) = inputs {
            assert!(inputs.len() >= self.needs.inputs, "the batch provides what the code reads");
            at.inputs = inputs.as_ptr();
        }
        if !self.needs.emits {
            let constants: *const FrameConstants = if uniforms_checked { &CHECKED } else { &UNCHECKED };
            // SAFETY: the pointers are those of `memory`; the code does not emit, so it reads the
            // frame's constants only.
            return abi::exit(unsafe { self.call(&at, constants.cast()) }).ok_or(Undone::Deoptimised);
        }
        // SAFETY: the pointers are those of `memory`.
        unsafe { self.run_emitting(&at, emitter) }
    }

    /// Runs one vertex on outputs-only code, which leaves the unit as it is. It writes the outputs in
    /// `output_mask` that the program writes. `None`: it wrote nothing, and exact code must run.
    #[inline]
    pub(crate) fn run_outputs(
        &self,
        memory: &HostMemory<'_>,
        inputs: &[Vec4],
        outputs: &mut [Vec4],
        output_mask: u16,
    ) -> Option<Exit> {
        assert!(inputs.len() >= self.needs.inputs && u32::from(output_mask) >> outputs.len().min(31) == 0);
        let at = Pointers { inputs: inputs.as_ptr(), ..self.pointers(memory) };
        let frame = OutputsFrame {
            constants: FrameConstants::new(false),
            outputs: outputs.as_mut_ptr(),
            output_mask: output_mask.into(),
        };
        // SAFETY: all pointers come from references. The frame is the one that outputs-only code
        // expects; it has no EMIT. It writes the registers of the mask, which `outputs` has.
        abi::exit(unsafe { self.call(&at, (&raw const frame).cast()) })
    }

    /// Whether a batch may have any number of vertices, from one group on.
    #[inline]
    pub(crate) fn takes_any_count(&self) -> bool {
        self.needs.step == 1
    }

    /// Runs vertices of a batch on batch code, in groups of [`GROUP`], up to the last group or to
    /// one that bails out. Returns how many vertices ran. Where the code takes any count, the last
    /// group overlaps the one before. The code writes nothing of the unit; of the vertices that ran
    /// it writes the outputs in `output_mask` that the program writes. Code with written masks writes
    /// them to `written`, which has memory for them; other code needs none.
    #[inline]
    pub(crate) fn run_batch(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        vertices: Range<usize>,
        output_mask: u16,
        written: &mut [u32],
        bailed_out: impl FnOnce(u32),
    ) -> usize {
        let (count, masks) = (vertices.len(), self.needs.written_masks);
        assert!(!self.needs.emits, "there are no records");
        assert!(masks == 0 || written.len() >= WRITTEN_WORDS && count <= abi::written_mask_stride(masks));
        let mut frame = self.batch_frame(batch, vertices, output_mask, written);
        // SAFETY: the frame is of this batch. Written masks advance in step with the vertices, a word for
        // each. All masks of the vertices of one call are within the memory for them, which was checked.
        unsafe { self.run_groups(memory, count, &raw mut frame, bailed_out) }
    }

    /// Runs invocations of a batch as [`Code::run_batch`] does, on code that emits, and returns as it
    /// does. It writes nothing but records: `emits` for each invocation, in order. A group with another
    /// number of EMITs bails out. `parameters` are those of an EMIT without SETEMIT.
    pub(crate) fn run_emitting_batch(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        invocations: Range<usize>,
        (records, emits): (&[Cell<EmittedVertex>], usize),
        parameters: Setemit,
        bailed_out: impl FnOnce(u32),
    ) -> usize {
        let count = invocations.len();
        assert!(self.needs.emits && self.needs.written_masks == 0, "the frame is another one");
        assert!(count.checked_mul(emits).is_some_and(|all| all <= records.len()));
        let (cursor, stride) = (records.as_ptr().cast_mut().cast(), emits * size_of::<EmittedVertex>());
        let mut frame = EmittingFrame {
            batch: self.batch_frame(batch, invocations, 0, &mut []),
            parameters: abi::parameter_bytes(parameters),
            cursor,
            end: cursor.wrapping_byte_add(stride),
            stride,
        };
        let frame: *mut EmittingFrame = &mut frame;
        // SAFETY: the frame is of this batch, and begins with a frame of batch code. The code writes a
        // record of each invocation of a group only while the cursor is below the end of the first one's
        // records; the others are multiples of the stride after it. Both advance by a group's records.
        // There are as many as the invocations need, which was checked.
        unsafe { self.run_groups(memory, count, frame.cast(), bailed_out) }
    }

    /// The frame for these vertices of a batch.
    #[inline(always)]
    fn batch_frame(
        &self,
        batch: &mut Batch<'_>,
        vertices: Range<usize>,
        output_mask: u16,
        written: &mut [u32],
    ) -> BatchFrame {
        let count = vertices.len();
        assert!(count >= GROUP && (self.takes_any_count() || count.is_multiple_of(GROUP)));
        assert!(batch.inputs.stride() >= self.needs.inputs && output_mask & !batch.outputs.mask() == 0);
        let [input_stride, output_stride] =
            [batch.inputs.stride(), batch.outputs.stride()].map(|s| s * size_of::<Vec4>());
        let inputs = batch.inputs.registers_of(vertices.clone()).as_ptr_range();
        let outputs = batch.outputs.registers_of(vertices).as_mut_ptr();
        BatchFrame {
            outputs,
            last_inputs: inputs.start.wrapping_add((count - GROUP) * batch.inputs.stride()),
            last_outputs: outputs.wrapping_add((count - GROUP) * batch.outputs.stride()),
            end: inputs.end,
            done: inputs.start,
            input_stride,
            output_stride,
            output_mask: output_mask.into(),
            written: written.as_mut_ptr(),
            last_written: written.as_mut_ptr().wrapping_add(count - GROUP),
        }
    }

    /// Runs the `count` vertices of a frame, and returns as [`Code::run_batch`] does.
    ///
    /// # Safety
    /// `frame` points to what [`Code::batch_frame`] gave for a batch that is still borrowed. It is
    /// writable, and the start of the frame that this code expects. Memory for written masks or records is
    /// large enough.
    #[inline(always)]
    unsafe fn run_groups(
        &self,
        memory: &HostMemory<'_>,
        count: usize,
        frame: *mut BatchFrame,
        bailed_out: impl FnOnce(u32),
    ) -> usize {
        // SAFETY: the caller's promise. Until the code runs, `done` is the start of the inputs.
        let (start, end, input_stride) = unsafe { ((*frame).done, (*frame).end, (*frame).input_stride) };
        let at = Pointers { inputs: start, ..self.pointers(memory) };
        // SAFETY: all pointers come from references. The frame is the one that batch code expects,
        // and the code writes one field of its start. The code advances through inputs and outputs in
        // step, a group at a time, up to the end of the inputs, which are these vertices' alone;
        // there are as many outputs. Where the count is no multiple of a group, no group begins
        // after the frame's last one, which is whole. Of each vertex the code reads no register
        // from `needs.inputs` on and writes those of the mask, which are within the strides.
        let code = unsafe { self.call(&at, frame.cast()) };
        // SAFETY: the caller's promise; compiled code is done with the frame.
        let done = unsafe { (*frame).done };
        // Most batches run to the end, and a division is slow.
        if done == end {
            return count;
        }
        bailed_out(code);
        done.addr().wrapping_sub(start.addr()) / input_stride
    }

    /// The call itself.
    ///
    /// # Safety
    /// `at` is what [`Code::pointers`] gave for memory that is still borrowed, or has other inputs
    /// that are valid. `frame` points to a whole frame that the code may write, or, if the code does
    /// not emit, at least to the constants that a frame begins with. For batch code it is a
    /// [`BatchFrame`], writable and not shared, and the inputs are those of at least one group. For
    /// outputs-only code it is an [`OutputsFrame`].
    pub(super) unsafe fn call(&self, at: &Pointers, frame: *const Frame) -> u32 {
        // SAFETY: the caller promises what the function needs.
        unsafe { self.function()(at.uniforms, at.unit, at.inputs, frame.cast()) }
    }

    /// The compiled function. A call is sound under the conditions of [`Code::call`].
    #[inline]
    fn function(&self) -> Function {
        // SAFETY: the bytes at `entry` are a function of this signature that cranelift-jit produced
        // for this host. They can't change: the pages are read+execute and live as long as `self`.
        // The function reads uniforms, inputs and `frame`. Of a frame it writes the emit buffer's
        // cursor, and at the cursor one record, unless that is the buffer's end; the memory between
        // is the buffer's. It reads and writes the unit inside the bounds of the layout it was
        // compiled for, which are the types' or at most the blocks' (each access is at a field's
        // offset, or at a register number masked to its file's size). It keeps no pointer. It
        // writes flags as 0 and 1. Alignment: `Uniforms`, `Unit` and `Frame` are `align(16)`, and
        // so are a host's blocks, which were checked; loads of inputs are not marked aligned. A
        // host's own pointers to its memory don't matter: picajit holds it as cells.
        unsafe { std::mem::transmute(self.code.entry()) }
    }
}

/// The functions that runs may call without their kernel, which owns all of this code: code for one
/// vertex, and outputs-only code with the outputs that it writes. `reads` has the inputs
/// that either reads.
pub(crate) fn direct(run: Option<&Code>, outputs: Option<(&Code, u16)>, reads: u16) -> DirectFunctions {
    let run = run.filter(|code| !code.needs.emits).map(Code::function);
    let masks = Masks { reads, writes: outputs.map_or(0, |(_, writes)| writes) };
    // SAFETY: the functions need what `Code::function` lists, which is what `DirectFunctions`
    // promises. Without EMIT, constants are a whole frame. Outputs-only code has its own.
    unsafe { DirectFunctions::new(run, outputs.map(|(code, _)| code.function()), masks) }
}
