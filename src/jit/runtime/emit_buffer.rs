//! A run of code that emits -> vertices for the emitter, from a buffer that the code fills.
//!
//! Invariant: vertices reach the receiver in the order of their EMITs. A full buffer is emptied
//! during the run; the rest arrives when the run has ended. The emitter's memory serves as buffer
//! if it has some.

#![allow(unsafe_code)]

use super::call::{Code, Pointers};
use crate::jit::abi::{self, Frame, FrameConstants, Receiver};
use crate::kernel::run_memory::RunMemory;
use crate::layout::HostEmitter;
use crate::state::{EmittedVertex, Emitter, Exit, Unit};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;

/// Vertices in the runtime's own buffer. Most invocations emit fewer, and its pages stay in the CPU
/// cache.
const CAPACITY: usize = 16;

impl Code {
    /// [`Code::run`] for code that emits.
    ///
    /// # Safety
    /// `at` is what [`Code::pointers`] gave for `memory`, or has other inputs that are valid.
    #[inline(never)]
    pub(super) unsafe fn run_emitting(&self, at: &Pointers, memory: &mut RunMemory<'_>) -> Option<Exit> {
        let mut records = [const { MaybeUninit::<EmittedVertex>::uninit() }; CAPACITY];
        let receiver = match memory {
            RunMemory::Own { emitter, .. } => {
                let unit: *mut Unit = at.unit.cast();
                // SAFETY: the unit of `memory`, which is borrowed.
                Receiver::Own(unsafe { &raw mut (*unit).slots }, shorten(&mut **emitter))
            }
            RunMemory::Host { emitter, .. } => Receiver::Host(shorten_host(&mut **emitter)),
        };
        let start: *mut EmittedVertex = records.as_mut_ptr().cast();
        let constants = FrameConstants::new(false);
        let mut frame =
            Frame { constants, cursor: start, end: start, flush, start, spare: start, receiver, panic: None };
        // SAFETY: the receiver's pointers are those of `memory`, and the spare records outlive the
        // frame.
        unsafe { frame.begin_buffer() };
        let frame: *mut Frame = &mut frame;
        // SAFETY: the pointers are the caller's promise, and the frame is whole.
        let code = unsafe { self.call(at, frame) };
        // SAFETY: the frame is this function's own local; compiled code is done with it.
        let frame = unsafe { &mut *frame };
        if let Some(panic) = frame.panic.take() {
            resume_unwind(panic);
        }
        // SAFETY: as above; the code has written the records before the cursor.
        unsafe { frame.deliver(false) };
        abi::exit(code)
    }
}

impl Frame {
    /// Makes the receiver's memory the buffer, or the spare records if it has none.
    ///
    /// # Safety
    /// The receiver's pointers are valid and not in use, and [`CAPACITY`] spare records are.
    unsafe fn begin_buffer(&mut self) {
        let lent = match self.receiver {
            Receiver::Own(..) => None,
            // SAFETY: the caller's promise. The slice is used until the emitter's next call at the
            // latest; the emitter is borrowed for the run, so the memory stays.
            Receiver::Host(emitter) => unsafe { (*emitter).buffer() },
        };
        let (start, capacity) = match lent {
            Some(cells) => (cells.as_ptr().cast_mut().cast(), cells.len()),
            None => (self.spare, CAPACITY),
        };
        self.use_records(start, capacity);
    }

    fn use_records(&mut self, start: *mut EmittedVertex, capacity: usize) {
        (self.start, self.cursor, self.end) = (start, start, start.wrapping_add(capacity));
    }

    /// Passes the records before the cursor to the receiver. `full`: more will follow.
    ///
    /// # Safety
    /// The receiver's pointers are valid and not in use. Compiled code has written the records.
    unsafe fn deliver(&mut self, full: bool) {
        let count = (self.cursor.addr() - self.start.addr()) / size_of::<EmittedVertex>();
        let lent = !std::ptr::eq(self.start, self.spare);
        match self.receiver {
            // SAFETY: the caller's promise.
            Receiver::Host(emitter) if lent => unsafe { (*emitter).stored(count, full) },
            _ if count == 0 => {}
            receiver => {
                // SAFETY: the spare records, written up to the cursor. No other code has a
                // reference to them. Emitter and slots as above.
                unsafe {
                    let vertices = slice::from_raw_parts(self.start, count);
                    match receiver {
                        Receiver::Own(slots, emitter) => (*emitter).emit_all(vertices, &mut *slots),
                        Receiver::Host(emitter) => (*emitter).emit_all(vertices),
                    }
                }
            }
        }
    }
}

/// Empties the buffer of a run. A panic of the emitter is stored, because compiled code can't be
/// unwound; later vertices of that run are dropped.
unsafe extern "C" fn flush(frame: *mut Frame) -> *mut EmittedVertex {
    // SAFETY: compiled code passes the frame of `Code::run_emitting`, which nothing else refers to
    // during the call.
    let frame = unsafe { &mut *frame };
    if frame.panic.is_none() {
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the receiver's pointers are exclusive references in `Code::run_emitting`,
            // unused during the call; the code has written the records before the cursor.
            unsafe {
                frame.deliver(true);
                frame.begin_buffer();
            }
        }));
        frame.panic = delivered.err();
    }
    // An emitter whose memory is full after all loses no vertex.
    if frame.panic.is_some() || std::ptr::eq(frame.start, frame.end) {
        frame.use_records(frame.spare, CAPACITY);
    }
    frame.start
}

/// The emitter without its lifetime, for the time of one call.
fn shorten<'a>(emitter: &'a mut (dyn Emitter + 'a)) -> *mut dyn Emitter {
    let emitter: *mut (dyn Emitter + 'a) = emitter;
    // SAFETY: only the lifetime changes. The pointer is used during `Code::run` alone, which holds
    // the borrow.
    unsafe { std::mem::transmute::<*mut (dyn Emitter + 'a), *mut (dyn Emitter + 'static)>(emitter) }
}

/// [`shorten`] for a host's emitter.
fn shorten_host<'a>(emitter: &'a mut (dyn HostEmitter + 'a)) -> *mut dyn HostEmitter {
    let emitter: *mut (dyn HostEmitter + 'a) = emitter;
    // SAFETY: as in `shorten`.
    unsafe { std::mem::transmute::<*mut (dyn HostEmitter + 'a), *mut (dyn HostEmitter + 'static)>(emitter) }
}
