//! What is wrong with a call -> its status, and a text that names the argument.
//!
//! Invariant: an error is recorded before its call returns, without memory from the allocator: it may
//! have run out. This file must not know which calls there are.

use super::status::*;
use crate::gpu::CpuOnly;
use crate::gpu_code::NoGpuCode;
use crate::kernel::Unsupported;
use crate::layout::LayoutError;
use crate::program::ProgramError;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::fmt::{self, Display, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error that is detected before a call has any effect. Texts are names of arguments, or of fields
/// with their structure.
#[derive(Debug)]
pub(super) enum Fault {
    Null(&'static str),
    /// A number, and the values that it may have.
    Range(&'static str, u64, &'static str),
    /// The declared size of a structure, and its size.
    Size(&'static str, usize, usize),
    /// The length of an array, longer than memory.
    TooLong(&'static str, usize),
    /// With the names of C's fields.
    Layout(LayoutError),
    Program(ProgramError),
    NoNative(Unsupported),
    /// A pointer, and what its address must be a multiple of.
    Misaligned(&'static str, usize),
    Overlap(&'static str, &'static str),
    Busy,
    NoGpuCode(NoGpuCode),
    CpuOnly(CpuOnly),
    /// The version of the host's header; `None`: one before 0.7.
    Version(Option<u32>),
    /// Memory that a call may take, and the process does not get.
    NoMemory(usize),
    /// A text of the host that is not UTF-8.
    Text(&'static str),
    /// Another kind of object than the call takes, and the one that it takes.
    Kind(&'static str, &'static str),
    /// An array, the number of its first wrong element, and what is wrong with that.
    Element(&'static str, usize, ElementFault),
}

/// A [`Fault`] of an element. A box of one would need memory.
#[derive(Debug)]
pub(super) enum ElementFault {
    Null(&'static str),
    TooLong(&'static str, usize),
    Range(&'static str, u64, &'static str),
}

impl Fault {
    /// Says which element of an array is wrong.
    pub(super) fn of_element(self, array: &'static str, n: usize) -> Fault {
        match self {
            Fault::Null(place) => Fault::Element(array, n, ElementFault::Null(place)),
            Fault::TooLong(place, count) => Fault::Element(array, n, ElementFault::TooLong(place, count)),
            Fault::Range(place, value, bounds) => Fault::Element(array, n, ElementFault::Range(place, value, bounds)),
            other => other,
        }
    }

    pub(super) fn status(&self) -> i32 {
        match self {
            Fault::Null(_) | Fault::Element(_, _, ElementFault::Null(_)) => PJ_NULL,
            Fault::Range(..)
            | Fault::Size(..)
            | Fault::TooLong(..)
            | Fault::Text(_)
            | Fault::Kind(..)
            | Fault::Element(..) => PJ_INVALID_ARGUMENT,
            Fault::Layout(_) => PJ_INVALID_LAYOUT,
            Fault::Program(_) => PJ_PROGRAM_TOO_LONG,
            Fault::NoNative(_) => PJ_NO_NATIVE,
            Fault::Misaligned(..) => PJ_MISALIGNED,
            Fault::Overlap(..) => PJ_OVERLAP,
            Fault::Busy => PJ_BUSY,
            Fault::NoGpuCode(NoGpuCode::Interface(_)) => PJ_INVALID_ARGUMENT,
            Fault::NoGpuCode(_) => PJ_NO_GPU_CODE,
            Fault::CpuOnly(_) => PJ_CPU_ONLY,
            Fault::Version(_) => PJ_VERSION_MISMATCH,
            Fault::NoMemory(_) => PJ_NO_MEMORY,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = |version: u32| (version >> 16, version >> 8 & 0xFF, version & 0xFF);
        match self {
            &Fault::Null(place) => ElementFault::Null(place).fmt(f),
            &Fault::Range(place, value, bounds) => ElementFault::Range(place, value, bounds).fmt(f),
            Fault::Size(place, declared, size) => {
                write!(f, "{place}.struct_size is {declared}; help: {size}, the sizeof")
            }
            &Fault::TooLong(place, count) => ElementFault::TooLong(place, count).fmt(f),
            Fault::Layout(error) => write!(f, "pj_layout: {error}"),
            Fault::Program(error) => error.fmt(f),
            Fault::NoNative(reason) => reason.fmt(f),
            Fault::Misaligned(place, align) => write!(f, "{place} is not aligned to {align} bytes"),
            Fault::Overlap(a, b) => write!(f, "{a} overlaps {b}"),
            Fault::Busy => f.write_str("the pj_gpu is in use by another call"),
            Fault::NoGpuCode(reason) => reason.fmt(f),
            Fault::CpuOnly(reason) => reason.fmt(f),
            Fault::Version(host) => {
                let (major, minor, patch) = parts(VERSION);
                match host.map(parts) {
                    None => f.write_str("the host was compiled with a header before 0.7")?,
                    Some((major, minor, patch)) => {
                        write!(f, "the host was compiled with the header of {major}.{minor}.{patch}")?;
                    }
                }
                write!(f, ", the library is {major}.{minor}.{patch}; help: compile the host with the library's header")
            }
            Fault::NoMemory(bytes) => write!(f, "there are no {} KiB of memory", bytes >> 10),
            Fault::Text(place) => write!(f, "{place} is not UTF-8"),
            Fault::Kind(place, kind) => write!(f, "{place} is of another kind; help: {kind}"),
            Fault::Element(array, n, fault) => write!(f, "{array}[{n}]: {fault}"),
        }
    }
}

impl Display for ElementFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementFault::Null(place) => write!(f, "{place} is null"),
            ElementFault::TooLong(place, count) => write!(f, "{place} is {count} long, more than memory can hold"),
            ElementFault::Range(place, value, bounds) => write!(f, "{place} is {value}; help: {bounds}"),
        }
    }
}

/// Describes a status or an exit.
pub(super) fn status_text(status: i32) -> &'static CStr {
    match status {
        PJ_OK => c"no error",
        PJ_OUT_OF_FUEL => c"the run is out of fuel",
        PJ_BREAK_OUTSIDE_LOOP => c"BREAK outside of a loop",
        PJ_PAST_END => c"the run went past the last code word",
        PJ_STOPPED => c"stopped by the callback",
        PJ_CANCELLED => c"cancelled",
        PJ_VERTEX_LIMIT => c"the draws have more vertices than the limit",
        PJ_NULL => c"a pointer is null",
        PJ_INVALID_ARGUMENT => c"an argument is out of range",
        PJ_INVALID_LAYOUT => c"the layout is invalid",
        PJ_PROGRAM_TOO_LONG => c"the program has too many words",
        PJ_NO_NATIVE => c"native code is unavailable",
        PJ_MISALIGNED => c"a pointer is misaligned",
        PJ_OVERLAP => c"memory of the call overlaps",
        PJ_INTERNAL => c"internal error",
        PJ_BUSY => c"the GPU is in use",
        PJ_NO_GPU_CODE => c"code for the host's GPU is unavailable",
        PJ_CPU_ONLY => c"only the CPU can run this draw",
        PJ_VERSION_MISMATCH => c"header and library have different versions",
        PJ_NO_MEMORY => c"there is too little memory",
        _ => c"unknown status",
    }
}

/// Bytes of the longest text of an error, the final 0 included.
const TEXT_BYTES: usize = 512;

/// The text of a thread's last error.
struct LastError(UnsafeCell<[u8; TEXT_BYTES]>);

thread_local! {
    // It needs no destructor, so that the library can be unloaded while the thread lives.
    static LAST_ERROR: LastError = const { LastError(UnsafeCell::new([0; TEXT_BYTES])) };
}

/// Writes whole characters, as many as fit before the final 0, in one line: hosts log them.
struct Truncating<'a> {
    to: &'a mut [u8; TEXT_BYTES],
    len: usize,
}

impl Write for Truncating<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some((line, rest)) = text.split_once('\n') {
            self.write_str(line)?;
            self.write_str("; ")?;
            return self.write_str(rest);
        }
        let room = TEXT_BYTES - 1 - self.len;
        let end = text.floor_char_boundary(room);
        self.to[self.len..self.len + end].copy_from_slice(&text.as_bytes()[..end]);
        self.len += end;
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Makes `error` the thread's last one.
fn record(error: &dyn Display) {
    LAST_ERROR.with(|last| {
        // SAFETY: only this thread has a reference, and only here; formatting an error calls no function
        // of this file. The host reads the text between calls.
        let to = unsafe { &mut *last.0.get() };
        let mut text = Truncating { to, len: 0 };
        // An error says that the rest does not fit.
        let _ = write!(text, "{error}");
        let end = text.len;
        to[end] = 0;
    });
}

/// The text of the thread's last error.
pub(super) fn last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.0.get().cast::<c_char>().cast_const())
}

#[cold]
#[inline(never)]
fn failed(fault: &Fault) -> i32 {
    record(fault);
    fault.status()
}

#[cold]
#[inline(never)]
fn panicked(payload: &(dyn Any + Send)) -> i32 {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    record(&format_args!("internal error: {}", text.unwrap_or("a panic without text")));
    PJ_INTERNAL
}

/// Runs `work` and returns its status. A panic is a bug in picajit and must not unwind into C.
// Each has one caller. A call costs a register write 24 instructions, and the compiler decides anew
// in every build.
#[inline(always)]
pub(super) fn catch_panics(work: impl FnOnce() -> Result<i32, Fault>) -> i32 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => status,
        Ok(Err(fault)) => failed(&fault),
        Err(payload) => panicked(&*payload),
    }
}

/// [`catch_panics`] of work with a length as its result.
pub(super) fn catch_panics_of_length(work: impl FnOnce() -> Result<i64, Fault>) -> i64 {
    let mut length = 0;
    let status = catch_panics(|| {
        length = work()?;
        Ok(PJ_OK)
    });
    if status < 0 { status.into() } else { length }
}
