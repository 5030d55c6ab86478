//! Executable memory that a host provides, for systems with rules of their own: a trait, and nothing that implements it.
//!
//! It must not know what is put there.

#![allow(unsafe_code)] // what is promised here is what the call into code rests on

use std::io;
use std::ptr::NonNull;

/// Where native code is kept, if not in pages that picajit maps itself. Called from any thread that compiles or drops the last
/// user of some code.
///
/// # Safety
/// What `install` gives holds the very bytes of `code`, can be read and executed, on every core, and is neither written to nor
/// unmapped until it is given to `release`. On 64-bit Arm that means caches of instructions were seen to, as by
/// `__builtin___clear_cache`.
pub unsafe trait ExecutableMemory: Send + Sync {
    /// Copies code to where it can run; its address, a multiple of 64. The code is position-independent and refers to nothing
    /// outside of it. An error, or another address, and the shader is interpreted, with [`NoExecMemory`] as the reason.
    ///
    /// [`NoExecMemory`]: crate::kernel::Unsupported::NoExecMemory
    fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>>;

    /// Takes back what `install` gave for so many bytes. Nobody runs it any more.
    fn release(&self, at: NonNull<u8>, bytes: usize);
}
