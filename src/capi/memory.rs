//! A host's functions for executable memory -> [`ExecutableMemory`]. It must not know what is kept there.

use super::Fault;
use super::types::{PjInstallFn, PjMemory, PjReleaseFn, User};
use crate::executable::ExecutableMemory;
use std::io;
use std::ptr::NonNull;

/// Memory that C functions give and take back.
pub(super) struct HostMemory {
    install: PjInstallFn,
    release: PjReleaseFn,
    user: User,
}

impl HostMemory {
    /// Both functions must be there.
    pub(super) fn new(memory: &PjMemory) -> Result<HostMemory, Fault> {
        let (install, release) = memory.install.zip(memory.release).ok_or(Fault::Null)?;
        Ok(HostMemory { install, release, user: User::new(memory.user) })
    }
}

// SAFETY: what the header asks of the two functions is what the trait asks for.
unsafe impl ExecutableMemory for HostMemory {
    fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>> {
        // SAFETY: a function of this type, with the pointer that came with it, on any thread, as the header says.
        let at = unsafe { (self.install)(self.user.get(), code.as_ptr().cast(), code.len()) };
        NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    fn release(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: as above.
        unsafe { (self.release)(self.user.get(), at.as_ptr().cast(), bytes) };
    }
}
