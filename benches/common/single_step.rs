//! A function -> the addresses of the instructions that it executes, by single steps: x86-64 Linux.
//!
//! A forked child runs the work; this process steps it through each
//! [`section`]. The counts depend on the code alone, so they are the same in every run, under any load.

#![allow(unsafe_code)] // a debugger's system calls

use std::ffi::{c_int, c_long, c_void};
use std::ptr::{null_mut, without_provenance_mut};

unsafe extern "C" {
    fn fork() -> c_int;
    fn ptrace(request: c_long, child: c_int, address: *mut c_void, data: *mut c_void) -> c_long;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn raise(signal: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

const TRACEME: c_long = 0;
const CONT: c_long = 7;
const STEP: c_long = 9;
const GETREGS: c_long = 12;
const SIGTRAP: c_int = 5;

/// Position of `rip` in the registers that the system returns.
const RIP: usize = 16;

/// Runs `work` in a child and returns the addresses of the instructions of each section, or an error
/// where a debugger is impossible. The child has this thread only, so no other thread may hold a lock.
pub fn sections(work: impl FnOnce()) -> Result<Vec<Vec<u64>>, String> {
    // SAFETY: the child runs Rust code on the state of the only thread.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: no pointers.
        unsafe { ptrace(TRACEME, 0, null_mut(), null_mut()) };
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err();
        // SAFETY: ends the child without what this process would do when it ends.
        unsafe { _exit(failed.into()) }
    }
    if child < 0 {
        return Err("a child can't be created".into());
    }
    let mut sections = Vec::new();
    let stop = || {
        let mut status = 0;
        // SAFETY: a place for the status.
        let pid = unsafe { waitpid(child, &mut status, 0) };
        match status {
            _ if pid != child => Err("the child can't be waited for".to_string()),
            0 => Ok(false),
            _ if status & 0xFF == 0x7F && status >> 8 & 0xFF == SIGTRAP => Ok(true),
            _ => Err(format!("the child ended with status {status:#x}")),
        }
    };
    // SAFETY: these requests ignore the address, and no signal is delivered.
    let resume = |request| unsafe { ptrace(request, child, null_mut(), null_mut()) };
    let address = || {
        let mut registers = [0u64; 27];
        // SAFETY: the structure has 27 words.
        unsafe { ptrace(GETREGS, child, without_provenance_mut(0), registers.as_mut_ptr().cast()) };
        registers[RIP]
    };
    let last = end as extern "C" fn() as usize as u64;
    let first = begin as extern "C" fn() as usize as u64;
    while stop()? {
        let mut section = Vec::new();
        let mut is_inside = false;
        loop {
            resume(STEP);
            if !stop()? {
                return Err("the child ended in a section".into());
            }
            let at = address();
            match is_inside {
                _ if at == last => break,
                true => section.push(at),
                // The rest of `raise`.
                false => is_inside = at == first,
            }
        }
        sections.push(section);
        resume(CONT);
    }
    Ok(sections)
}

/// Runs `work` as a section.
#[inline(never)]
pub fn section(work: &mut dyn FnMut()) {
    // SAFETY: the signal stops a traced process, and sections run in one only.
    unsafe { raise(SIGTRAP) };
    begin();
    work();
    end();
}

/// Where counting begins.
#[inline(never)]
extern "C" fn begin() {
    std::hint::black_box(1);
}

/// Where counting ends.
#[inline(never)]
extern "C" fn end() {
    std::hint::black_box(2);
}
