//! A lookup of a known program allocates nothing. A test binary of its own, because it counts the
//! allocations of the whole process.

#![allow(unsafe_code)] // the interface of allocators is unsafe

use picajit::engine::{Engine, Options};
use picajit::program::{Entry, Program};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller guarantees what both require.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `nop`s and an `end`, then words that no entry reaches.
fn words(len: u32, nops: u32) -> Vec<u32> {
    let word = |n| match n {
        n if n < nops => 0x21 << 26,
        n if n == nops => 0x22 << 26,
        n => n,
    };
    (0..len).map(word).collect()
}

/// Allocations of `work` on this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn a_lookup_of_a_known_program_allocates_nothing() {
    let engine = Engine::new(Options::default());
    for (len, nops) in [(1, 0), (20, 1), (512, 2)] {
        let program = Program::from_words(&words(len, nops), &[7; 128]).expect("short");
        let lookup = || assert_eq!(engine.shader(&program, Entry::vertex(0)).divergence(), None);
        assert_ne!(allocations(lookup), 0, "a new program does");
        // The first lookup of a thread in the process sets up its part of `arc-swap`.
        lookup();
        assert_eq!(allocations(|| (0..100).for_each(|_| lookup())), 0, "{len} words");
    }
}

#[test]
#[cfg(feature = "capi")]
fn a_lookup_through_c_allocates_no_more_than_the_handle() {
    use picajit::capi::{PJ_OK, pj_engine_free, pj_engine_new_for, pj_shader_get, pj_shader_release, pj_version};
    use std::ptr::{null, null_mut};
    let (code, opdescs) = (words(512, 0), [7; 128]);
    let mut engine = null_mut();
    // SAFETY: null selects the defaults; the rest is valid.
    assert_eq!(unsafe { pj_engine_new_for(pj_version(), null(), &mut engine) }, PJ_OK);
    let get = || {
        let mut shader = null_mut();
        // SAFETY: all pointers are valid.
        let status = unsafe { pj_shader_get(engine, code.as_ptr(), 512, opdescs.as_ptr(), 128, 0, 0, &mut shader) };
        assert_eq!(status, PJ_OK);
        shader
    };
    let first = get();
    // SAFETY: each handle is released once, and the engine freed last.
    unsafe {
        pj_shader_release(get());
        let repeated = allocations(|| (0..100).for_each(|_| pj_shader_release(get())));
        pj_shader_release(first);
        pj_engine_free(engine);
        assert_eq!(repeated, 0);
    }
}
