//! Machine code -> memory that is executable and no longer writable.
//!
//! A [`CodeMemory`] is handed to cranelift-jit, which writes one function into it. Pages of its own
//! are writable first and then executable, never both: the mapping is made read+write, filled, and
//! turned into read+execute by one call, which takes the writable handle away. What is left is a
//! [`InstalledCode`], immutable, of exactly the pages the function needs, unmapped when its last
//! user drops it. Memory that only takes copies, a host's or macOS's, is given a copy of what was
//! written. macOS maps such memory writable and executable, but each thread can do one of the two
//! only.
//!
//! It must not know what the code computes.

#![allow(unsafe_code)]

use crate::executable::ExecutableMemory;
use crate::kernel::Unsupported;
use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};
use memmap2::{Mmap, MmapMut};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use wasmtime_internal_jit_icache_coherence as coherence;

/// A memory provider for one function.
#[derive(Clone)]
pub(crate) struct CodeMemory(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Memory that code is copied to; without it, code runs where it was written.
    copies: Option<Arc<dyn ExecutableMemory>>,
    /// Whether that memory is the host's.
    lent: bool,
    writable: Option<MmapMut>,
    /// The address of `writable`.
    base: usize,
    executable: Option<Pages>,
    /// Why the system gave no memory.
    refusal: Option<io::ErrorKind>,
}

/// Executable memory.
enum Pages {
    InPlace(Mmap),
    Copy(Installed),
}

/// Code in memory that took a copy.
struct Installed {
    at: NonNull<u8>,
    len: usize,
    memory: Arc<dyn ExecutableMemory>,
}

// SAFETY: the code is only read and executed, its last user gives it back, and `ExecutableMemory`
// is called from any thread.
unsafe impl Send for Installed {}
// SAFETY: as above.
unsafe impl Sync for Installed {}

impl Installed {
    fn new(memory: &Arc<dyn ExecutableMemory>, code: &[u8]) -> io::Result<Installed> {
        let installed = Installed { at: memory.install(code)?, len: code.len(), memory: memory.clone() };
        match installed.at.addr().get().is_multiple_of(64) {
            true => Ok(installed),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        self.memory.release(self.at, self.len);
    }
}

impl std::ops::Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Pages::InPlace(map) => map,
            // SAFETY: `ExecutableMemory` guarantees `len` readable bytes at `at` that nothing
            // writes.
            Pages::Copy(code) => unsafe { std::slice::from_raw_parts(code.at.as_ptr(), code.len) },
        }
    }
}

/// The system's memory.
impl Default for CodeMemory {
    fn default() -> CodeMemory {
        CodeMemory::new(cfg_select! {
            all(target_os = "macos", target_arch = "aarch64") => { Some(super::map_jit::system()) }
            _ => { None }
        })
    }
}

impl CodeMemory {
    fn new(copies: Option<Arc<dyn ExecutableMemory>>) -> CodeMemory {
        CodeMemory(Arc::new(Mutex::new(State { copies, ..State::default() })))
    }

    /// A provider of a host's memory.
    pub(crate) fn of(host: Arc<dyn ExecutableMemory>) -> CodeMemory {
        let memory = CodeMemory::new(Some(host));
        memory.state(|s| s.lent = true);
        memory
    }

    /// A provider that fails as on a system where no page becomes executable.
    #[cfg(test)]
    pub(crate) fn refusing() -> CodeMemory {
        CodeMemory::of(Arc::new(tests::Refuses))
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // `f` leaves the state consistent at every point where it may panic, so a poisoned lock
        // does not matter.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why there was no memory, if it failed.
    pub(crate) fn refusal(&self) -> Option<Unsupported> {
        self.state(|s| s.refusal.map(|error| Unsupported::NoExecMemory { error, lent: s.lent }))
    }

    /// The finished code, whose function begins at `entry`. `None` before finalization or if
    /// `entry` is not in it.
    pub(crate) fn into_code(self, entry: *const u8, len: usize) -> Option<InstalledCode> {
        let (pages, base) = self.state(|s| (s.executable.take(), s.base));
        let (pages, offset) = (pages?, (entry as usize).checked_sub(base)?);
        (offset.checked_add(len)? <= pages.len()).then_some(InstalledCode { pages, offset, len })
    }
}

/// One function in executable memory.
pub(crate) struct InstalledCode {
    pages: Pages,
    offset: usize,
    len: usize,
}

impl InstalledCode {
    /// The machine code, from the function's first instruction on, and its constants.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.pages[self.offset..self.offset + self.len]
    }

    /// The address of the function's first instruction.
    #[inline]
    pub(crate) fn entry(&self) -> *const u8 {
        self.pages.as_ptr().wrapping_add(self.offset)
    }
}

impl JITMemoryProvider for CodeMemory {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        self.state(|s| {
            // A mapping is page-aligned, which exceeds the alignment of any function.
            let fits = matches!(kind, JITMemoryKind::Executable) && align <= 4096 && s.writable.is_none();
            let map = match fits {
                true => MmapMut::map_anon(size.max(1)),
                false => Err(io::ErrorKind::Unsupported.into()),
            };
            match map {
                Ok(map) => {
                    let start = s.writable.insert(map).as_mut_ptr();
                    s.base = start.addr();
                    Ok(start)
                }
                Err(error) => {
                    s.refusal = Some(error.kind());
                    Err(error)
                }
            }
        })
    }

    unsafe fn free_memory(&mut self) {
        // Finished pages belong to an `InstalledCode`.
        self.state(|s| (s.writable, s.executable) = (None, None));
    }

    #[allow(clippy::result_large_err)] // the trait's error
    fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
        self.state(|s| {
            let Some(map) = s.writable.take() else { return Ok(()) };
            let pages = match &s.copies {
                Some(memory) => Installed::new(memory, &map).map(Pages::Copy),
                None => make_executable(map).map(Pages::InPlace),
            };
            // Other cores may have stale code of these addresses, unmapped since, in their
            // pipelines. Cache maintenance on this core does not reach them; the system
            // synchronises each core: membarrier with SYNC_CORE on aarch64 Linux,
            // FlushProcessWriteBuffers on Windows on Arm. x86-64 needs neither, and macOS has none.
            // The pointer to the code reaches other threads through `Arc` and `OnceLock`, which
            // release and acquire.
            match pages.and_then(|pages| coherence::pipeline_flush_mt().map_err(io_error).map(|()| pages)) {
                Ok(pages) => {
                    s.executable = Some(pages);
                    Ok(())
                }
                Err(err) => {
                    s.refusal = Some(err.kind());
                    Err(ModuleError::Allocation { err })
                }
            }
        })
    }
}

/// Turns written pages into executable ones.
fn make_executable(map: MmapMut) -> io::Result<Mmap> {
    // Flush before the pages become executable: VirtualProtect's documentation demands
    // FlushInstructionCache "once the code has been set in place". On x86-64 outside Windows this
    // does nothing. SAFETY: the range is the whole of a mapping that this function owns.
    unsafe { clear_cache(map.as_ptr(), map.len()) }?;
    map.make_exec()
}

/// Makes the instruction cache coherent with the bytes from `start` on. On Arm the data and
/// instruction caches are not coherent. Linux cleans them for pages that become executable, and
/// `coherence` relies on that; this is the whole sequence of Arm's architecture manual (DDI 0487,
/// "synchronization and coherency issues between data and instruction accesses"). Emulation can't
/// test it.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(all(target_arch = "aarch64", any(target_os = "linux", target_os = "android")))]
pub(super) unsafe fn clear_cache(start: *const u8, len: usize) -> io::Result<()> {
    use std::arch::asm;
    let start = start as usize;
    let ctr: usize;
    // SAFETY: reads an identification register, which Linux lets every process read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    // Log2 of the smallest cache lines, in words.
    let (data, instructions) = (4 << (ctr >> 16 & 15), 4 << (ctr & 15));
    // SAFETY, for all of these: cache maintenance changes no value in memory and no register. The
    // range is the caller's, rounded down to the start of a cache line, which is on the same page.
    for line in (start & !(data - 1)..start + len).step_by(data) {
        // SAFETY: see above. Cleans the line to the point of unification.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: see above. Completes the cleaning before the invalidation.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in (start & !(instructions - 1)..start + len).step_by(instructions) {
        // SAFETY: see above. Invalidates the line in the instruction caches of all cores.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: see above. Completes the invalidation and flushes this core's pipeline.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    Ok(())
}

/// Makes the instruction cache coherent with the bytes from `start` on.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(not(all(target_arch = "aarch64", any(target_os = "linux", target_os = "android"))))]
pub(super) unsafe fn clear_cache(start: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's.
    unsafe { coherence::clear_cache(start.cast(), len) }.map_err(io_error)
}

/// The error of `coherence`, whose type differs where nothing can fail, as on macOS.
fn io_error(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Maps a page of `file` executable until the process ends: this event tells a running `perf
/// record` of the file. Nothing reads the page.
#[cfg(target_os = "linux")]
pub(crate) fn show_to_perf(file: &std::fs::File) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let (protection, flags) = (ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE);
    // memmap2 maps executable files as shared ones only. `write` writes the file, never a page of
    // it. SAFETY: the system chooses the address, so no existing mapping is replaced; and the
    // address is dropped at once, so nothing reads or runs the page, whatever other processes do to
    // the file.
    unsafe { mmap(std::ptr::null_mut(), 1, protection, flags, file, 0) }?;
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[cfg(target_os = "linux")] // asks the kernel what the pages' permissions are
    #[test]
    fn memory_is_written_first_and_executable_then_and_never_both() {
        if let Some(size) = std::env::var_os("QEMU_PAGESIZE") {
            crate::testing::prerequisites::skipped(&format!(
                "pages of code: an emulator told to have pages of {size:?} bytes lists no smaller one"
            ));
            return;
        }
        // Another test's thread may be given the pages as soon as they are free, but hardly every
        // time.
        assert!((0..20).any(|_| last_permissions().is_empty()), "unmapped with its last user");
    }

    /// Uses a page as a kernel does, and gives its permissions afterwards.
    #[cfg(target_os = "linux")]
    fn last_permissions() -> String {
        let mut memory = CodeMemory::default();
        let p = memory.allocate(100, 16, JITMemoryKind::Executable).expect("a page");
        assert!(memory.allocate(1, 1, JITMemoryKind::Executable).is_err(), "one function a provider");
        assert_eq!(permissions(p), "rw-p");
        memory.finalize(BranchProtection::None).expect("executable");
        assert_eq!(permissions(p), "r-xp");
        let code = memory.into_code(p.cast_const(), 100).expect("inside");
        assert_eq!(code.bytes().len(), 100);
        drop(code);
        permissions(p)
    }

    /// A host with a page for each function, whose addresses are `odd` bytes off.
    pub(crate) struct Shelf {
        pages: Mutex<Vec<(usize, Mmap)>>,
        odd: usize,
    }

    impl Shelf {
        pub(crate) fn new(odd: usize) -> Arc<Shelf> {
            Arc::new(Shelf { pages: Mutex::default(), odd })
        }

        /// The number of functions installed.
        pub(crate) fn len(&self) -> usize {
            self.pages.lock().expect("no panic").len()
        }
    }

    // SAFETY: the bytes are copied to a page of their own, which becomes executable and stays so,
    // unwritten, until it is unmapped.
    unsafe impl ExecutableMemory for Shelf {
        fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>> {
            let mut page = MmapMut::map_anon(code.len() + self.odd)?;
            page[self.odd..].copy_from_slice(code);
            let page = make_executable(page)?;
            let at = NonNull::from(&page[self.odd..]).cast::<u8>();
            self.pages.lock().expect("no panic").push((at.as_ptr().addr(), page));
            Ok(at)
        }

        fn release(&self, at: NonNull<u8>, bytes: usize) {
            let mut pages = self.pages.lock().expect("no panic");
            let n = pages.iter().position(|(start, _)| *start == at.as_ptr().addr()).expect("given and not taken back");
            assert_eq!(pages.remove(n).1.len(), bytes + self.odd);
        }
    }

    /// A system on which no page becomes executable.
    pub(super) struct Refuses;

    // SAFETY: it returns no memory.
    unsafe impl ExecutableMemory for Refuses {
        fn install(&self, _: &[u8]) -> io::Result<NonNull<u8>> {
            Err(io::ErrorKind::PermissionDenied.into())
        }

        fn release(&self, _: NonNull<u8>, _: usize) {
            unreachable!("nothing was installed");
        }
    }

    #[test]
    fn memory_is_for_one_function_of_usual_alignment() {
        for (align, kind, fits) in [
            (4096, JITMemoryKind::Executable, true),
            (8192, JITMemoryKind::Executable, false),
            (1, JITMemoryKind::ReadOnly, false),
            (1, JITMemoryKind::Writable, false),
        ] {
            let mut memory = CodeMemory::default();
            assert_eq!(memory.allocate(10, align, kind).is_ok(), fits, "{align}");
            assert_eq!(memory.refusal().is_none(), fits);
        }
    }

    #[test]
    fn a_refusing_system_is_reported() {
        let mut memory = CodeMemory::refusing();
        memory.allocate(10, 1, JITMemoryKind::Executable).expect("a page");
        assert!(memory.finalize(BranchProtection::None).is_err());
        let refusal = Unsupported::NoExecMemory { error: io::ErrorKind::PermissionDenied, lent: true };
        assert_eq!(memory.refusal(), Some(refusal));
    }

    /// The permissions of the page at `p` as Linux shows them; empty where it is not mapped.
    #[cfg(target_os = "linux")]
    fn permissions(p: *const u8) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        let inside = |line: &&str| {
            let (from, to) = line.split(' ').next().and_then(|r| r.split_once('-')).expect("a range");
            let number = |s| usize::from_str_radix(s, 16).expect("hex");
            (number(from)..number(to)).contains(&(p as usize))
        };
        maps.lines().find(inside).map_or(String::new(), |l| l.split(' ').nth(1).expect("permissions").into())
    }
}
