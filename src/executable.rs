//! The interface to executable memory that a host provides, for systems that restrict it.

#![allow(unsafe_code)] // calls into code rely on an implementation's promises

use std::io;
use std::ptr::NonNull;

/// Storage of native code other than pages that picajit maps itself. Any thread that compiles a
/// shader, or drops the last user of its code, calls it.
///
/// # Safety
/// The memory that `install` returns holds exactly the bytes of `code`. Every core can read and
/// execute it, and it is neither written nor unmapped until `release`. On 64-bit Arm `install` must
/// synchronise the instruction caches, as `__builtin___clear_cache` does.
pub unsafe trait ExecutableMemory: Send + Sync {
    /// Copies code to executable memory and returns its address, a multiple of 64. The code is
    /// position-independent and refers to nothing outside itself. On an error or another address
    /// the shader runs on tier 0, with [`NoExecMemory`] as the reason.
    ///
    /// [`NoExecMemory`]: crate::kernel::Unsupported::NoExecMemory
    fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>>;

    /// Releases the memory of `bytes` bytes that `install` returned. No thread runs it any more.
    fn release(&self, at: NonNull<u8>, bytes: usize);
}
