//! A run of code that emits -> vertices for the emitter, from a buffer that the code fills.
//!
//! Invariant: vertices reach the receiver in the order of their EMITs. A full buffer is emptied
//! during the run; the rest arrives when the run has ended. The emitter's memory serves as buffer
//! if it has some.

#![allow(unsafe_code)]

use super::call::{Code, Pointers, Undone};
use crate::jit::abi::{self, Frame, FrameConstants, VEC4, emitted_output};
use crate::layout::{HostEmitter, Layout};
use crate::state::{EmittedVertex, Exit};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;
use std::sync::atomic::Ordering;

/// Vertices in the runtime's own buffer. Most invocations emit fewer, and its pages stay in the CPU
/// cache.
const CAPACITY: usize = 16;

impl Code {
    /// [`Code::run`] for code that emits. A speculative run hands its vertices over when it has ended,
    /// so a failed guard takes them back; a run for which the buffer is too small must be exact.
    ///
    /// # Safety
    /// `at` is what [`Code::pointers`] gave for memory that is still borrowed, or has other inputs that
    /// are valid.
    #[inline(never)]
    pub(super) unsafe fn run_emitting(&self, at: &Pointers, emitter: &mut dyn HostEmitter) -> Result<Exit, Undone> {
        let mut records = [const { MaybeUninit::<EmittedVertex>::uninit() }; CAPACITY];
        let start: *mut EmittedVertex = records.as_mut_ptr().cast();
        let constants = FrameConstants::new(false);
        let mut frame = Frame {
            constants,
            cursor: start,
            end: start,
            flush,
            start,
            spare: start,
            written: self.needs.emitted,
            wanted: emitter.outputs(),
            unit: at.unit,
            layout: self.needs.layout.as_ref().unwrap_or(const { &Layout::OWN }),
            receiver: shorten(emitter),
            panic: None,
        };
        // SAFETY: the receiver is borrowed for this run, and the spare records outlive the frame.
        unsafe { frame.begin_buffer() };
        let capacity = record_count(frame.start, frame.end);
        if capacity < self.room.load(Ordering::Relaxed) {
            return Err(Undone::NoRoom);
        }
        let frame: *mut Frame = &mut frame;
        // SAFETY: the pointers are the caller's promise, and the frame is whole.
        let code = unsafe { self.call(at, frame) };
        // SAFETY: the frame is this function's own local; compiled code is done with it.
        let frame = unsafe { &mut *frame };
        if let Some(panic) = frame.panic.take() {
            resume_unwind(panic);
        }
        match code {
            abi::DEOPTIMISE => Err(Undone::Deoptimised),
            abi::NO_ROOM => {
                self.room.fetch_max(capacity + 1, Ordering::Relaxed);
                Err(Undone::NoRoom)
            }
            code => {
                // SAFETY: as above; the code has written the records before the cursor.
                unsafe { frame.deliver(false) };
                Ok(abi::exit(code).expect("no other code is no exit"))
            }
        }
    }
}

impl Frame {
    /// Makes the receiver's memory the buffer, or the spare records if it has none.
    ///
    /// # Safety
    /// The receiver's pointers are valid and not in use, and [`CAPACITY`] spare records are.
    unsafe fn begin_buffer(&mut self) {
        // Code stores all that it writes. What the emitter does not want must stay as it is.
        let lent = match self.written & !self.wanted {
            // SAFETY: the caller's promise. The slice is used until the emitter's next call at the
            // latest; the emitter is borrowed for the run, so the memory stays.
            0 => unsafe { (*self.receiver).buffer() },
            _ => None,
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

    /// Adds the outputs in `mask` to the first `count` records of the buffer. The program writes none
    /// of them, so they are in the unit still; records come from its banks in turn.
    ///
    /// # Safety
    /// The unit is not in use. Compiled code has begun the records.
    unsafe fn add_unwritten(&self, count: usize, mask: u16) {
        if mask == 0 || count == 0 {
            return;
        }
        // SAFETY: the runtime's reference.
        let layout = unsafe { &*self.layout };
        let (stride, at) = layout.banks().expect("code that emits has two");
        let at_byte = |offset: i32| self.unit.wrapping_add(offset as usize);
        // SAFETY: a byte of the unit. The last EMIT has toggled the bank.
        let now = usize::from(unsafe { *at_byte(at) });
        let mut rest = u32::from(mask);
        while rest != 0 {
            // Neighbours together.
            let first = rest.trailing_zeros();
            let registers = (rest >> first).trailing_ones();
            rest = rest >> (first + registers) << (first + registers);
            let first = first as u8;
            let banks = [0, stride].map(|bank| at_byte(layout.o(first, 0) + bank));
            for n in 0..count {
                let from = banks[(now + count - n) & 1];
                let to = self.start.wrapping_add(n).cast::<u8>().wrapping_add(emitted_output(first) as usize);
                // SAFETY: registers of the unit's file, of which a record has as many. The record is
                // the buffer's, which shares no memory with the unit.
                unsafe { to.copy_from_nonoverlapping(from, registers as usize * VEC4 as usize) };
            }
        }
    }

    /// Passes the records before the cursor to the receiver. `full`: more will follow.
    ///
    /// # Safety
    /// The receiver's pointers are valid and not in use. Compiled code has written the records.
    unsafe fn deliver(&mut self, full: bool) {
        let count = record_count(self.start, self.cursor);
        let lent = !std::ptr::eq(self.start, self.spare);
        let wanted = if lent { self.wanted } else { u16::MAX };
        // SAFETY: the caller's promise. The spare records are written up to the cursor, and no other
        // code has a reference to them.
        unsafe {
            self.add_unwritten(count, wanted & !self.written);
            match (lent, count) {
                (true, _) => (*self.receiver).stored(count, full),
                (false, 0) => {}
                (false, _) => (*self.receiver).emit_all(slice::from_raw_parts(self.start, count)),
            }
        }
    }
}

/// The number of records in this memory.
fn record_count(start: *mut EmittedVertex, end: *mut EmittedVertex) -> usize {
    (end.addr() - start.addr()) / size_of::<EmittedVertex>()
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
fn shorten<'a>(emitter: &'a mut (dyn HostEmitter + 'a)) -> *mut dyn HostEmitter {
    let emitter: *mut (dyn HostEmitter + 'a) = emitter;
    // SAFETY: only the lifetime changes. The pointer is used during `Code::run` alone, which holds
    // the borrow.
    unsafe { std::mem::transmute::<*mut (dyn HostEmitter + 'a), *mut (dyn HostEmitter + 'static)>(emitter) }
}
