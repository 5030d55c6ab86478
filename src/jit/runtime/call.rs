//! Installed code and the memory of a run -> a call of that code.
//!
//! Invariant: every pointer that compiled code gets comes from a reference that outlives the call, or from a host's cells. It must not
//! know what the code computes.

#![allow(unsafe_code)]

use super::code_memory::InstalledCode;
use super::run_memory::RunMemory;
use crate::jit::abi::{self, BatchFrame, Frame, FrameConstants, Function, GROUP, Receiver};
use crate::layout::{HostEmitter, Layout, Offsets};
use crate::state::{Batch, Emitter, Exit, Vec4};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// One finished function.
pub(crate) struct Code {
    code: InstalledCode,
    needs: Needs,
}

/// What code has to be given.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// Whether it may call a frame's emit function.
    pub(crate) emits: bool,
    /// How many input registers, from `v0` on, have to be there: it reads none above.
    pub(crate) inputs: usize,
    /// Of code that runs a batch: vertices come in multiples of this, and a group at least.
    pub(crate) step: usize,
    /// Of the memory that it runs on; `None` is [`Layout::OWN`].
    pub(crate) layout: Option<Layout>,
}

/// Where things are during one call.
struct Pointers {
    uniforms: *const u8,
    unit: *mut u8,
    inputs: *const Vec4,
}

impl Code {
    /// `code`, a function of the type [`Function`], and what its callers owe it.
    pub(crate) fn new(code: InstalledCode, needs: Needs) -> Code {
        Code { code, needs }
    }

    /// The machine code and its constants, where they run.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.code.bytes()
    }

    /// Bytes of machine code and constants.
    pub(crate) fn len(&self) -> usize {
        self.code.bytes().len()
    }

    /// Where the code finds registers, inputs and uniforms, if it is for memory laid out like this.
    #[inline]
    fn pointers(&self, memory: &mut RunMemory<'_>) -> Pointers {
        let inputs = |unit: *mut u8, v: u32| unit.wrapping_add(v as usize).cast_const().cast();
        match (memory, &self.needs.layout) {
            (RunMemory::Own { uniforms, unit, .. }, None) => {
                let unit: *mut u8 = (&raw mut **unit).cast();
                Pointers {
                    uniforms: (&raw const **uniforms).cast(),
                    unit,
                    inputs: inputs(unit, Layout::OWN.offsets().v),
                }
            }
            (RunMemory::Host { host, .. }, Some(layout)) => {
                let Offsets { unit_bytes, uniforms_bytes, v, .. } = *layout.offsets();
                // Whether it is this very layout is a matter of meaning. That it is as large is one of safety.
                assert!(host.unit().len() >= unit_bytes as usize && host.uniforms().len() >= uniforms_bytes as usize);
                let unit = host.unit().as_ptr().cast_mut().cast();
                Pointers { uniforms: host.uniforms().as_ptr().cast(), unit, inputs: inputs(unit, v) }
            }
            _ => unreachable!("a kernel runs its code on the memory that this is for"),
        }
    }

    /// Runs the function. `inputs` replaces the unit's `v` for reading; without it these are read. `None` is
    /// [`abi::DEOPTIMISE`]: nothing was written. `uniforms_checked` only if this code has run with the same uniforms before and
    /// did not ask to be deoptimised.
    #[inline]
    pub(crate) fn run(
        &self,
        memory: &mut RunMemory<'_>,
        inputs: Option<&[Vec4]>,
        uniforms_checked: bool,
    ) -> Option<Exit> {
        let mut at = self.pointers(memory);
        if let Some(inputs) = inputs {
            assert!(inputs.len() >= self.needs.inputs, "it has what the code reads");
            at.inputs = inputs.as_ptr();
        }
        if !self.needs.emits {
            let constants: *const FrameConstants =
                if uniforms_checked { &abi::UNIFORMS_CHECKED } else { &abi::UNIFORMS_UNCHECKED };
            // SAFETY: the pointers are those of this place; the code does not emit, so what is known is all it reads.
            return abi::exit(unsafe { self.call(&at, constants.cast()) });
        }
        // SAFETY: the pointers are those of this place.
        unsafe { self.run_emitting(&at, memory) }
    }

    /// The same for code that emits.
    ///
    /// # Safety
    /// `at` is what [`Code::pointers`] gave for this place, or has other inputs that are valid.
    #[inline(never)]
    unsafe fn run_emitting(&self, at: &Pointers, memory: &mut RunMemory<'_>) -> Option<Exit> {
        let receiver = match memory {
            RunMemory::Own { emitter, .. } => Receiver::Own(at.unit.cast(), shorten(&mut **emitter)),
            RunMemory::Host { host, emitter } => {
                Receiver::Host((&raw const **host).cast(), shorten_host(&mut **emitter))
            }
        };
        let mut frame = Frame { constants: abi::INITIAL, emit, receiver, panic: None };
        let frame: *mut Frame = &mut frame;
        // SAFETY: the pointers are the caller's promise, and the frame is whole.
        let code = unsafe { self.call(at, frame) };
        // SAFETY: the frame is this function's own local; compiled code is done with it.
        if let Some(panic) = unsafe { (*frame).panic.take() } {
            resume_unwind(panic);
        }
        abi::exit(code)
    }

    /// Whether a batch may have any number of vertices, from a group on.
    #[inline]
    pub(crate) fn takes_any_count(&self) -> bool {
        self.needs.step == 1
    }

    /// Runs these vertices of a batch, groups of [`GROUP`] until the last or until one is not the common case. How many are
    /// done. Interleave may have vertices in common, where they need not be whole. Nothing of the unit is written, and of outputs the registers in `output_mask` that the code writes, of the
    /// vertices that are done. Only for code of [`lanes`](super::lanes).
    #[inline]
    pub(crate) fn run_batch(
        &self,
        memory: &mut RunMemory<'_>,
        batch: &mut Batch<'_>,
        vertices: Range<usize>,
        output_mask: u16,
    ) -> usize {
        let count = vertices.len();
        assert!(count >= GROUP && (self.takes_any_count() || count.is_multiple_of(GROUP)));
        assert!(batch.inputs.stride() >= self.needs.inputs && output_mask & !batch.outputs.mask() == 0);
        let [input_stride, output_stride] =
            [batch.inputs.stride(), batch.outputs.stride()].map(|s| s * size_of::<Vec4>());
        let inputs = batch.inputs.registers_of(vertices.clone()).as_ptr_range();
        let outputs = batch.outputs.registers_of(vertices).as_mut_ptr();
        let mut frame = BatchFrame {
            outputs,
            last_inputs: inputs.start.wrapping_add((count - GROUP) * batch.inputs.stride()),
            last_outputs: outputs.wrapping_add((count - GROUP) * batch.outputs.stride()),
            end: inputs.end,
            done: inputs.start,
            input_stride,
            output_stride,
            output_mask: output_mask.into(),
        };
        let frame: *mut BatchFrame = &mut frame;
        let at = Pointers { inputs: inputs.start, ..self.pointers(memory) };
        // SAFETY: all come from references. The frame is the one that such code is made for, in which it writes one field;
        // it goes through inputs and outputs side by side, a group at a time, up to the end of the inputs, which are
        // these vertices' and nothing else, and there are as many outputs. Where groups need not be whole, none begins behind
        // the frame's last one, which is. Of each vertex it reads no register from `needs.inputs` on and writes those of the
        // mask, which are inside the strides.
        unsafe { self.call(&at, frame.cast()) };
        // SAFETY: the frame is this function's own local; compiled code is done with it.
        let done = unsafe { (*frame).done };
        // It mostly comes to the end, and to divide takes its time.
        if done == inputs.end { count } else { done.addr().wrapping_sub(inputs.start.addr()) / input_stride }
    }

    /// The call itself.
    ///
    /// # Safety
    /// `at` is what [`Code::pointers`] gave for a place that is still borrowed, or has other inputs that are valid. `frame`
    /// points to a whole frame, or, if the code does not emit, at least to the known things that a frame begins with; for
    /// code that runs a batch it is that code's frame, for writing and to nobody else, and the inputs are those of a
    /// whole group.
    unsafe fn call(&self, at: &Pointers, frame: *const Frame) -> u32 {
        // SAFETY: the bytes at `offset` are a function of this signature, which cranelift-jit produced for this host
        // and nobody can change: the pages are read+execute and live as long as `self`. It reads uniforms, inputs
        // and `frame`, reads and writes the unit inside the bounds of the layout it was compiled for, which are the types' or
        // no more than the blocks' (each access is a field's offset, or a register number that was masked to its file's
        // size), and keeps no pointer. It writes flags as 0 and 1. Alignment: `Uniforms`, `Unit` and `Frame` are `align(16)`,
        // a host's blocks were found to be so; loads from inputs, which a batch may have anywhere, are not marked aligned.
        // A host's own pointers to its memory are no matter: what we have of it are cells.
        unsafe {
            let function: Function = std::mem::transmute(self.code.bytes().as_ptr());
            function(at.uniforms, at.unit, at.inputs, frame)
        }
    }
}

/// The emitter without its lifetime, for the time of one call.
fn shorten<'a>(emitter: &'a mut (dyn Emitter + 'a)) -> *mut dyn Emitter {
    let emitter: *mut (dyn Emitter + 'a) = emitter;
    // SAFETY: only the lifetime changes. The pointer is used during `Code::run` alone, which holds the borrow.
    unsafe { std::mem::transmute::<*mut (dyn Emitter + 'a), *mut (dyn Emitter + 'static)>(emitter) }
}

/// The same for a host's.
fn shorten_host<'a>(emitter: &'a mut (dyn HostEmitter + 'a)) -> *mut dyn HostEmitter {
    let emitter: *mut (dyn HostEmitter + 'a) = emitter;
    // SAFETY: as in `shorten`.
    unsafe { std::mem::transmute::<*mut (dyn HostEmitter + 'a), *mut (dyn HostEmitter + 'static)>(emitter) }
}

/// EMIT. A panic of the emitter is kept: compiled code can't be unwound. LazyCode emits of that run do nothing.
unsafe extern "C" fn emit(frame: *mut Frame) {
    // SAFETY: compiled code hands on the frame that `Code::run` made, which nothing else refers to meanwhile.
    let frame = unsafe { &mut *frame };
    if frame.panic.is_some() {
        return;
    }
    let sent = match frame.receiver {
        Receiver::Own(unit, emitter) => {
            // SAFETY: unit and emitter were exclusive references in `Code::run` and are used by nobody else during the call.
            let (unit, emitter) = unsafe { (&mut *unit, &mut *emitter) };
            catch_unwind(AssertUnwindSafe(|| unit.emit(emitter)))
        }
        Receiver::Host(host, emitter) => {
            // SAFETY: the same, but that the host was a shared one; its memory is cells, so it may have changed.
            let (host, emitter) = unsafe { (&*host, &mut *emitter) };
            catch_unwind(AssertUnwindSafe(|| host.emit(emitter)))
        }
    };
    frame.panic = sent.err();
}
