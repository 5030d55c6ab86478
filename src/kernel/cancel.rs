//! A flag that ends the runs of an engine, from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether runs end at their next check, with [`Exit::Cancelled`](crate::state::Exit::Cancelled).
/// Clones share the flag. Native code reads it at its address, so whatever owns such code owns a
/// clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(Arc<AtomicU32>);

impl CancelFlag {
    /// Sets or clears the flag.
    pub(crate) fn set(&self, cancelled: bool) {
        // Relaxed: the flag guards no other memory.
        self.0.store(u32::from(cancelled), Ordering::Relaxed);
    }

    /// Whether runs end.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.reader().is_set()
    }

    /// A shorter way to the flag, for loops.
    #[inline]
    pub(crate) fn reader(&self) -> CancelReader<'_> {
        CancelReader(&self.0)
    }

    /// The address of a 32-bit word that is not zero if the flag is set. Valid while a clone lives.
    #[cfg(feature = "jit")]
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }
}

/// Reads a [`CancelFlag`].
#[derive(Clone, Copy)]
pub(crate) struct CancelReader<'a>(&'a AtomicU32);

impl CancelReader<'_> {
    /// Whether runs end.
    #[inline(always)]
    pub(crate) fn is_set(self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}
