//! What is left of the process's memory and of a thread's stack, for work that would abort without it.
//!
//! Another thread may take the memory in between. This file must not know which work begins.

use std::hint::black_box;

/// Whether the process gets this much memory now. It is reserved, not touched, so the system maps no page.
pub(crate) fn has_memory(bytes: usize) -> bool {
    // The compiler must not see that the memory has no use.
    black_box(&mut Vec::<u8>::new()).try_reserve_exact(bytes).is_ok()
}

/// Bytes below this call in the mapping of the thread's stack. `None`: unknown, or the main thread, whose
/// mapping grows: its first pages say nothing of what it may still get.
#[cfg(all(feature = "jit", target_os = "linux", not(miri)))]
pub(crate) fn stack() -> Option<usize> {
    use std::cell::Cell;

    // The system's list of mappings is read once for each thread. A host that runs on several stacks within
    // one thread gets a number that is wrong for the others: no number, if they lie lower.
    thread_local!(static START: Cell<Option<Option<usize>>> = const { Cell::new(None) });
    let mark = 0u8;
    let here = std::ptr::from_ref(&mark).addr();
    let start = START.get().unwrap_or_else(|| {
        let start = (is_main_thread() == Some(false)).then(|| start_of_mapping(here)).flatten();
        START.set(Some(start));
        start
    });
    here.checked_sub(start?)
}

/// By its number: under valgrind the main thread's stack is a mapping without the name `[stack]`. `None`: unknown.
#[cfg(all(feature = "jit", target_os = "linux", not(miri)))]
fn is_main_thread() -> Option<bool> {
    // PID/task/TID.
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    Some(link.iter().next()? == link.file_name()?)
}

/// The start of the mapping that has this address.
#[cfg(all(feature = "jit", target_os = "linux", not(miri)))]
fn start_of_mapping(address: usize) -> Option<usize> {
    use std::io::{BufRead, BufReader};

    let mappings = BufReader::new(std::fs::File::open("/proc/self/maps").ok()?);
    mappings.lines().map_while(Result::ok).find_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, _) = rest.split_once(' ')?;
        let [start, end] = [start, end].map(|at| usize::from_str_radix(at, 16).ok());
        start.filter(|&start| start <= address && end.is_some_and(|end| address < end))
    })
}

#[cfg(all(feature = "jit", not(all(target_os = "linux", not(miri)))))]
pub(crate) fn stack() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        assert!(has_memory(1 << 20));
        assert!(!has_memory(usize::MAX / 2));
    }

    #[test]
    #[cfg(all(feature = "jit", target_os = "linux", not(miri)))]
    fn a_thread_knows_its_stack() {
        let left = |bytes| std::thread::Builder::new().stack_size(bytes).spawn(stack).expect("a thread").join();
        for size in [64 << 10, 128 << 10, 1 << 20] {
            let left = left(size).expect("no panic").expect("it is known");
            // The C library may hand out the larger stack of a thread that has ended.
            assert!(left > size / 2 && left < 1 << 30, "{left} of {size}");
        }
    }
}
