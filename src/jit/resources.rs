//! The memory and the stack that a compilation takes, checked before it begins.
//!
//! The code generator aborts the process if either runs out, where tier 0 could serve the run. Another
//! thread may take the memory in between; then the process ends.

use crate::kernel::Unsupported;
use std::hint::black_box;

/// What a compilation within its limits allocates, at most (docs/performance.md, "worst compilations").
const MEMORY: usize = 32 << 20;
/// The stack that a compilation takes, with room: `jit-tests/capi/small_stack.c` compiles with it.
const STACK: usize = 400 << 10;

/// Whether a compilation may begin on this thread.
pub(super) fn check() -> Result<(), Unsupported> {
    if let Some(left) = stack_left()
        && left < STACK
    {
        return Err(Unsupported::SmallStack { left, needed: STACK });
    }
    // Reserved, not touched: the system maps no page. The compiler must not see that it has no use.
    match black_box(&mut Vec::<u8>::new()).try_reserve_exact(MEMORY) {
        Ok(()) => Ok(()),
        Err(_) => Err(Unsupported::NoMemory { bytes: MEMORY }),
    }
}

/// Bytes of the thread's stack below this call. `None`: unknown, or the main thread, whose stack grows and
/// whose bounds the C library looks up in a file.
#[cfg(all(target_os = "linux", not(miri)))]
#[allow(unsafe_code)]
fn stack_left() -> Option<usize> {
    use rustix::process::getpid;
    use rustix::thread::gettid;
    use std::cell::Cell;
    use std::mem::MaybeUninit;
    use std::ptr::{from_ref, null_mut};

    thread_local!(static LOWEST: Cell<usize> = const { Cell::new(usize::MAX) });
    let mark = 0u8;
    let here = from_ref(&mark).addr();
    let lowest = LOWEST.get();
    // A stack of another thread would be found by its address: hosts switch stacks within a thread.
    if lowest < here {
        return (lowest != 0).then(|| here - lowest);
    }
    if getpid() == gettid() {
        LOWEST.set(0);
        return None;
    }
    let mut attributes = MaybeUninit::uninit();
    let (mut start, mut bytes) = (null_mut(), 0);
    // SAFETY: the calls fill in the attributes of this thread, read them, and release them; on failure
    // of the first they are not read.
    let known = unsafe {
        libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 && {
            let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut bytes) == 0;
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            known
        }
    };
    // On another stack than the thread's own, as a coroutine's, nothing is known.
    if !known || !(start.addr()..start.addr() + bytes).contains(&here) {
        return None;
    }
    LOWEST.set(start.addr());
    Some(here - start.addr())
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn stack_left() -> Option<usize> {
    None
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_small_stack_and_the_main_thread_are_told_apart() {
        let on = |bytes| std::thread::Builder::new().stack_size(bytes).spawn(check).expect("a thread").join();
        assert!(
            matches!(on(128 << 10).expect("no panic"), Err(Unsupported::SmallStack { left, .. }) if left < 128 << 10)
        );
        assert_eq!(on(1 << 20).expect("no panic"), Ok(()));
    }
}
