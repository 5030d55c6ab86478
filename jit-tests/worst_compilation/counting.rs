//! An allocator that counts live bytes: those of the calling thread, with their peak, and those of
//! the process.

#![allow(unsafe_code)] // the interface of allocators is unsafe

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

static PROCESS: AtomicIsize = AtomicIsize::new(0);

/// What the library reserves before a compilation, to see that the process can get it, and never touches.
const RESERVED: usize = 32 << 20;

fn add(bytes: isize) {
    if bytes.unsigned_abs() == RESERVED {
        return;
    }
    PROCESS.fetch_add(bytes, Ordering::Relaxed);
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller guarantees what both require.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        // Both blocks exist while the bytes move.
        add(new as isize);
        // SAFETY: as above.
        let moved = unsafe { System.realloc(at, layout, new) };
        add(-(layout.size() as isize));
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that this thread held during `work`, beyond those before.
#[allow(dead_code)] // each user needs a part
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

/// The live bytes of the process.
#[allow(dead_code)] // each user needs a part
pub fn live() -> isize {
    PROCESS.load(Ordering::Relaxed)
}
