//! Machine code -> a `MAP_JIT` mapping, the executable memory of macOS on 64-bit Arm.
//!
//! To a thread such pages are either writable or executable. Each thread switches all of them for
//! itself alone, and other threads continue to execute them. [`MapJit`] copies finished code, as a
//! host's [`ExecutableMemory`] does.
//!
//! Invariant: a thread can write these pages during one copy only. That copy calls nothing.

#![allow(unsafe_code)]

use crate::executable::ExecutableMemory;
use std::io;
use std::ptr::NonNull;

/// The calls of the system. Tests have others.
///
/// # Safety
/// `map` returns `len` bytes at a multiple of 64 that nothing else uses until `unmap`. All threads
/// can read and execute them, except those that have switched write protection off, which can
/// read and write them.
unsafe trait SystemCalls: Send + Sync {
    /// Maps zeroed memory for code.
    fn map(&self, len: usize) -> io::Result<NonNull<u8>>;
    /// Switches write protection of all such memory for this thread.
    fn set_write_protection(&self, on: bool);
    /// Makes the instruction caches of all cores coherent with the bytes.
    fn invalidate_instruction_cache(&self, at: NonNull<u8>, len: usize);
    /// Unmaps what `map` returned.
    fn unmap(&self, at: NonNull<u8>, len: usize);
}

/// One mapping for each function.
struct MapJit<C>(C);

// SAFETY: `SystemCalls` guarantees memory of the function's own, which every thread can execute. It
// is written here and nowhere else, before its address is known to other threads, and unmapped by
// `release` only. Its instruction caches are synchronised.
unsafe impl<C: SystemCalls> ExecutableMemory for MapJit<C> {
    fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>> {
        let at = self.0.map(code.len())?;
        self.0.set_write_protection(false);
        // SAFETY: the mapping has this many bytes, is not shared yet, and this thread can write it.
        unsafe { at.copy_from_nonoverlapping(NonNull::from(code).cast(), code.len()) };
        self.0.set_write_protection(true);
        self.0.invalidate_instruction_cache(at, code.len());
        Ok(at)
    }

    fn release(&self, at: NonNull<u8>, bytes: usize) {
        self.0.unmap(at, bytes);
    }
}

#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
pub(super) use macos::system;

#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
mod macos {
    use super::*;
    use std::ffi::c_void;
    use std::sync::Arc;

    unsafe extern "C" {
        /// Of `libkern/OSCacheControl.h`.
        fn sys_icache_invalidate(start: *mut c_void, len: usize);
    }

    /// The system's memory for code.
    pub(in super::super) fn system() -> Arc<dyn ExecutableMemory> {
        Arc::new(MapJit(MacOs))
    }

    struct MacOs;

    // SAFETY: mappings are page-aligned. Pages of MAP_JIT have the permissions that the trait
    // demands; `map` fails on a system that lacks the switch.
    unsafe impl SystemCalls for MacOs {
        fn map(&self, len: usize) -> io::Result<NonNull<u8>> {
            // SAFETY: the call has no conditions.
            if unsafe { libc::pthread_jit_write_protect_supported_np() } == 0 {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_JIT;
            // SAFETY: the system chooses the address, so no existing mapping is replaced.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
            match at {
                libc::MAP_FAILED => Err(io::Error::last_os_error()),
                at => NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::InvalidData.into()),
            }
        }

        fn set_write_protection(&self, on: bool) {
            // SAFETY: the caller runs no code in such pages while protection is off. The function
            // exists since macOS 11, the first for this CPU.
            unsafe { libc::pthread_jit_write_protect_np(on.into()) };
        }

        fn invalidate_instruction_cache(&self, at: NonNull<u8>, len: usize) {
            // SAFETY: the range is mapped.
            unsafe { sys_icache_invalidate(at.as_ptr().cast(), len) };
        }

        fn unmap(&self, at: NonNull<u8>, len: usize) {
            // SAFETY: `map` returned the range, and nothing uses it any more. It can't fail.
            unsafe { libc::munmap(at.as_ptr().cast(), len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::code_memory::clear_cache;
    use super::*;
    use crate::jit::{HostServices, Jit, Settings, Variant};
    use crate::kernel::{Config, Kernel};
    use crate::state::{Exit, NoEmitter, Uniforms, Unit};
    use memmap2::{Mmap, MmapMut};
    use std::sync::{Arc, Mutex};

    /// A page as one thread sees it. Wrong accesses end the process.
    enum Page {
        Executable(Mmap),
        Writable(MmapMut),
    }

    impl Page {
        fn bytes(&self) -> &[u8] {
            match self {
                Page::Executable(map) => map,
                Page::Writable(map) => map,
            }
        }

        fn protect(self, on: bool) -> Page {
            match (self, on) {
                (Page::Writable(map), true) => Page::Executable(map.make_exec().expect("Linux and Windows allow it")),
                (Page::Executable(map), false) => Page::Writable(map.make_mut().expect("pages of this process")),
                (_, on) => panic!("write protection is {on} already"),
            }
        }
    }

    /// A call, with what the last page holds at that time.
    #[derive(Debug, PartialEq)]
    enum Call {
        Map(usize),
        WriteProtection(bool, Vec<u8>),
        InvalidateInstructionCache(usize, Vec<u8>),
        Unmap(usize),
    }

    /// macOS with one thread.
    #[derive(Default)]
    struct Fake {
        pages: Mutex<Vec<Page>>,
        calls: Mutex<Vec<Call>>,
        /// `map` fails.
        refuses: bool,
    }

    impl Fake {
        fn last_bytes(&self) -> Vec<u8> {
            self.pages.lock().expect("no panic").last().map(|page| page.bytes().to_vec()).unwrap_or_default()
        }

        fn log(&self, call: Call) {
            self.calls.lock().expect("no panic").push(call);
        }
    }

    // SAFETY: a page is of one of the two kinds, and page-aligned. There is one thread.
    unsafe impl SystemCalls for Arc<Fake> {
        fn map(&self, len: usize) -> io::Result<NonNull<u8>> {
            self.log(Call::Map(len));
            if self.refuses {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let map = MmapMut::map_anon(len)?.make_exec()?;
            let at = NonNull::from(&map[..]).cast();
            self.pages.lock().expect("no panic").push(Page::Executable(map));
            Ok(at)
        }

        fn set_write_protection(&self, on: bool) {
            self.log(Call::WriteProtection(on, self.last_bytes()));
            let mut pages = self.pages.lock().expect("no panic");
            *pages = pages.drain(..).map(|page| page.protect(on)).collect();
        }

        fn invalidate_instruction_cache(&self, at: NonNull<u8>, len: usize) {
            self.log(Call::InvalidateInstructionCache(at.addr().get(), self.last_bytes()));
            // SAFETY: the page is mapped.
            unsafe { clear_cache(at.as_ptr(), len) }.expect("mapped");
        }

        fn unmap(&self, at: NonNull<u8>, len: usize) {
            self.log(Call::Unmap(len));
            let mut pages = self.pages.lock().expect("no panic");
            let n = pages.iter().position(|page| page.bytes().as_ptr() == at.as_ptr()).expect("mapped");
            assert_eq!(pages.remove(n).bytes().len(), len);
        }
    }

    #[test]
    fn a_copy_is_between_two_switches_and_the_cache_is_invalidated_last() {
        let (fake, code) = (Arc::<Fake>::default(), [0x5A; 100]);
        let memory = MapJit(fake.clone());
        let at = memory.install(&code).expect("mapped");
        memory.release(at, code.len());
        let expected = [
            Call::Map(100),
            Call::WriteProtection(false, vec![0; 100]),
            Call::WriteProtection(true, code.to_vec()),
            Call::InvalidateInstructionCache(at.addr().get(), code.to_vec()),
            Call::Unmap(100),
        ];
        assert_eq!(*fake.calls.lock().expect("no panic"), expected);
        assert!(fake.pages.lock().expect("no panic").is_empty());
    }

    #[test]
    fn without_a_mapping_write_protection_stays_on() {
        let fake = Arc::new(Fake { refuses: true, ..Fake::default() });
        let error = MapJit(fake.clone()).install(&[0; 8]).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(*fake.calls.lock().expect("no panic"), [Call::Map(8)]);
    }

    #[test]
    fn shaders_run_in_copied_code_while_others_are_installed() {
        let fake = Arc::<Fake>::default();
        let services = HostServices { memory: Some(Arc::new(MapJit(fake.clone()))), ..HostServices::default() };
        let jit = Jit::hosted(Variant::Vec4, Settings::default(), services).expect("native");
        let pages = || fake.pages.lock().expect("no panic").len();
        let before = pages();
        let kernels = [2.0, 3.0].map(|addend: f32| {
            let source = format!(".constf k({addend}, 0, 0, 0)\n.proc main\n add o0, k, v0\n end\n.end");
            let shbin = crate::text::assemble(&source).expect("a good source").shbin;
            let mut uniforms = Uniforms::new();
            shbin.dvles[0].apply_constants(&mut uniforms);
            let program = Arc::new(shbin.program().expect("short"));
            let entry = shbin.dvles[0].entry();
            (jit.compile_native(&program, entry, &Config::default()).expect("there is memory"), uniforms)
        });
        assert_eq!(pages(), before + 2);
        for ((kernel, uniforms), sum) in kernels.iter().zip([3.0, 4.0]) {
            let mut unit = Unit::new();
            unit.v[0] = [1.0; 4];
            assert_eq!(kernel.run(uniforms, &mut unit, &mut NoEmitter), Exit::End);
            assert_eq!(unit.o[0][0][0], sum);
        }
        drop(kernels);
        assert_eq!(pages(), before);
    }
}
