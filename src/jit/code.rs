//! Machine code in memory, and the call into it: the one place in the JIT with `unsafe`.
//!
//! A [`CodeMemory`] is handed to cranelift-jit, which writes one function into it. Pages are writable first and then
//! executable, never both: the mapping is made read+write, filled, and turned into read+execute by one call, which
//! takes the writable handle away. What is left is a [`Code`], immutable, of exactly the pages the function needs,
//! unmapped when its last user drops it. A host that has executable memory of its own is given a copy of what was written.
//!
//! It must not know what the code computes.

#![allow(unsafe_code)]

use super::abi;
use super::lanes::WIDTH;
use super::place::Place;
use crate::executable::ExecutableMemory;
use crate::layout::{Host, HostEmitter, Layout, Offsets};
use crate::state::{Batch, Emitter, Exit, Unit, Vec4};
use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};
use memmap2::{Mmap, MmapMut};
use std::any::Any;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use wasmtime_internal_jit_icache_coherence as coherence;

/// A memory provider for one function.
#[derive(Clone, Default)]
pub(super) struct CodeMemory(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Who has the memory where it will run, if not the system's pages do.
    host: Option<Arc<dyn ExecutableMemory>>,
    writable: Option<MmapMut>,
    /// Where that began.
    base: usize,
    executable: Option<Pages>,
    /// What the system said when it refused.
    refusal: Option<io::ErrorKind>,
    /// For tests: refuse as a hardened system would.
    refuse: bool,
}

/// Where code runs.
enum Pages {
    Own(Mmap),
    Host(Installed),
}

/// Code in a host's memory.
struct Installed {
    at: NonNull<u8>,
    len: usize,
    memory: Arc<dyn ExecutableMemory>,
}

// SAFETY: it is read and executed only, and given back by its last user; who gave it may be called from any thread.
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
            Pages::Own(map) => map,
            // SAFETY: so many bytes, readable and written by nobody, as the trait asks for.
            Pages::Host(code) => unsafe { std::slice::from_raw_parts(code.at.as_ptr(), code.len) },
        }
    }
}

impl CodeMemory {
    /// A provider of memory that a host has.
    pub(super) fn of(host: Arc<dyn ExecutableMemory>) -> CodeMemory {
        let memory = CodeMemory::default();
        memory.state(|s| s.host = Some(host));
        memory
    }

    /// A provider that fails as on a system that lets no page become executable.
    #[cfg(test)]
    pub(super) fn refusing() -> CodeMemory {
        let memory = CodeMemory::default();
        memory.state(|s| s.refuse = true);
        memory
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // Nothing in here panics half-way, so a poisoned lock still guards a whole state.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why the system gave no memory, if it did not.
    pub(super) fn refusal(&self) -> Option<io::ErrorKind> {
        self.state(|s| s.refusal)
    }

    /// The finished code, whose function begins at `entry`. `None` before finalization or if `entry` is not in it.
    pub(super) fn into_code(self, entry: *const u8, len: usize, needs: Needs) -> Option<Code> {
        let (map, base) = self.state(|s| (s.executable.take(), s.base));
        let (map, offset) = (map?, (entry as usize).checked_sub(base)?);
        (offset.checked_add(len)? <= map.len()).then_some(Code { map, offset, len, needs })
    }
}

impl JITMemoryProvider for CodeMemory {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        self.state(|s| {
            // A mapping is page-aligned, which is more than any function asks for.
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
        // Pages belong to `Code` and go with it.
        self.state(|s| (s.writable, s.executable) = (None, None));
    }

    #[allow(clippy::result_large_err)] // the trait's error
    fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
        self.state(|s| {
            let Some(map) = s.writable.take() else { return Ok(()) };
            let pages = match &s.host {
                Some(host) => Installed::new(host, &map).map(Pages::Host),
                None => own(map, s.refuse).map(Pages::Own),
            };
            // The addresses may have held other code, unmapped since, that other cores have in their pipelines. Nothing that
            // this thread does to the caches reaches there; the system makes each of them synchronise: membarrier with
            // SYNC_CORE on aarch64 Linux, FlushProcessWriteBuffers on Windows on Arm. x86-64 sees to it itself. How the pointer
            // to the code gets to other threads is not the matter here: kernels are shared by `Arc` and `OnceLock`, which
            // release and acquire.
            match pages.and_then(|pages| coherence::pipeline_flush_mt().map_err(told).map(|()| pages)) {
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

/// Pages that were written, executable from now on.
fn own(map: MmapMut, refuse: bool) -> io::Result<Mmap> {
    // Before the pages become executable, as the code must be in place first (VirtualProtect's documentation asks for
    // FlushInstructionCache "once the code has been set in place"; on x86-64 elsewhere this does nothing).
    // SAFETY: the range is the whole of a mapping that this function owns.
    unsafe { clear_cache(map.as_ptr(), map.len()) }?;
    if refuse { Err(io::ErrorKind::PermissionDenied.into()) } else { map.make_exec() }
}

/// Makes instructions fetched from `start` on those that were written there. On Arm the caches of data and of instructions do not
/// know of each other. Linux sees to pages that become executable, which `coherence` leaves the data cache to; this is the whole
/// sequence of Arm's architecture manual (DDI 0487, "synchronization and coherency issues between data and instruction
/// accesses"), which needs nobody's help. An emulator can't show whether any of it matters.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
unsafe fn clear_cache(start: *const u8, len: usize) -> io::Result<()> {
    use std::arch::asm;
    let start = start as usize;
    let ctr: usize;
    // SAFETY: reads an identification register, which Linux lets every process read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    // Two logarithms of the smallest lines there are, counted in words.
    let (data, instructions) = (4 << (ctr >> 16 & 15), 4 << (ctr & 15));
    // SAFETY, for all of these: they change no value in memory and no register. Each sees the range that the caller vouches for,
    // rounded down to the beginning of a line, which is on the same page.
    for line in (start & !(data - 1)..start + len).step_by(data) {
        // SAFETY: see above. The code goes to where instructions are fetched from.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: see above. All of it is there before anything is dropped.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in (start & !(instructions - 1)..start + len).step_by(instructions) {
        // SAFETY: see above. What was fetched from there before is dropped, on all cores.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: see above. The dropping is done, and this core forgets what it has begun to decode.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    Ok(())
}

/// Makes instructions fetched from `start` on those that were written there.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(not(all(target_arch = "aarch64", target_os = "linux")))]
unsafe fn clear_cache(start: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's.
    unsafe { coherence::clear_cache(start.cast(), len) }.map_err(told)
}

/// What `coherence` says. Its error is of another type where nothing can fail, as on macOS.
fn told(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Maps a page of `file` executable until the process ends, which is how a running `perf record` learns that there is such a file.
/// Nothing looks at the page.
#[cfg(target_os = "linux")]
pub(super) fn show_to_perf(file: &std::fs::File) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let (protection, flags) = (ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE);
    // memmap2 maps files executable as shared ones only. The file is written to by `write`, never through a page.
    // SAFETY: the system chooses the place, so nothing that is mapped is mapped over; and the address is forgotten at once, so
    // nobody ever reads or runs what is there, whatever others do to the file.
    unsafe { mmap(std::ptr::null_mut(), 1, protection, flags, file, 0) }?;
    Ok(())
}

/// One finished function.
pub(super) struct Code {
    map: Pages,
    offset: usize,
    len: usize,
    needs: Needs,
}

/// What code has to be given.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// Whether it may call a frame's emit function.
    pub(super) emits: bool,
    /// How many input registers, from `v0` on, have to be there: it reads none above.
    pub(super) inputs: usize,
    /// Of code that runs a batch: vertices come in multiples of this, and a group at least.
    pub(super) step: usize,
    /// Of the memory that it runs on; `None` is [`Layout::OWN`].
    pub(super) layout: Option<Layout>,
}

/// Where things are during one call.
struct Pointers {
    uniforms: *const u8,
    unit: *mut u8,
    inputs: *const Vec4,
}

/// What compiled code is called as. Returns an [`Exit`]'s number or [`abi::REDO`].
type Function = unsafe extern "C" fn(*const u8, *mut u8, *const Vec4, *const Frame) -> u32;

/// All that code without EMIT needs of a frame: its first field.
#[repr(C, align(16))]
struct Known {
    /// What relative addressing reads beyond `c95`.
    ones: [f32; 4],
    /// 1 if this code has already run with these uniforms and found nothing to redo.
    uniforms_seen: u32,
}

const UNSEEN: Known = Known { ones: [1.0; 4], uniforms_seen: 0 };
static FIRST: Known = UNSEEN;
static SEEN: Known = Known { ones: [1.0; 4], uniforms_seen: 1 };

/// What compiled code needs besides registers and uniforms.
#[repr(C, align(16))]
struct Frame {
    known: Known,
    /// Called by EMIT with this frame.
    emit: unsafe extern "C" fn(*mut Frame),
    receiver: Receiver,
    /// A panic of the emitter, on its way past the compiled code, which has no unwind information.
    panic: Option<Box<dyn Any + Send>>,
}

/// Whose EMIT it is.
#[derive(Clone, Copy)]
enum Receiver {
    Own(*mut Unit, *mut dyn Emitter),
    Host(*const Host<'static>, *mut dyn HostEmitter),
}

/// What code that runs a batch needs besides registers and uniforms, and what it says.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct LanesFrame {
    outputs: *mut Vec4,
    /// Behind the last vertex's inputs.
    end: *const Vec4,
    /// The inputs of the first vertex that was not run.
    done: *const Vec4,
    /// Bytes from one vertex's inputs to the next one's.
    input_stride: usize,
    /// The same of outputs.
    output_stride: usize,
    output_mask: u32,
    /// Where the last group begins.
    last_inputs: *const Vec4,
    last_outputs: *mut Vec4,
}

/// Offsets in the frame of code that runs a batch.
pub(super) const LANES_OUTPUTS: i32 = offset_of!(LanesFrame, outputs) as i32;
pub(super) const LANES_END: i32 = offset_of!(LanesFrame, end) as i32;
pub(super) const LANES_DONE: i32 = offset_of!(LanesFrame, done) as i32;
pub(super) const LANES_LAST_INPUTS: i32 = offset_of!(LanesFrame, last_inputs) as i32;
pub(super) const LANES_LAST_OUTPUTS: i32 = offset_of!(LanesFrame, last_outputs) as i32;
pub(super) const LANES_INPUT_STRIDE: i32 = offset_of!(LanesFrame, input_stride) as i32;
pub(super) const LANES_OUTPUT_STRIDE: i32 = offset_of!(LanesFrame, output_stride) as i32;
pub(super) const LANES_OUTPUT_MASK: i32 = offset_of!(LanesFrame, output_mask) as i32;

/// Offset of the vector of ones in the frame.
pub(super) const FRAME_ONES: i32 = (offset_of!(Frame, known) + offset_of!(Known, ones)) as i32;
/// Offset of the word that says whether the uniforms were seen.
pub(super) const FRAME_UNIFORMS_SEEN: i32 = (offset_of!(Frame, known) + offset_of!(Known, uniforms_seen)) as i32;
/// Offset of the emit function in the frame.
pub(super) const FRAME_EMIT: i32 = offset_of!(Frame, emit) as i32;

impl Code {
    /// The machine code and its constants, where they run.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.map[self.offset..self.offset + self.len]
    }

    /// Bytes of machine code and constants.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where the code finds registers, inputs and uniforms, if it is for memory laid out like this.
    #[inline]
    fn pointers(&self, place: &mut Place<'_>) -> Pointers {
        let inputs = |unit: *mut u8, v: u32| unit.wrapping_add(v as usize).cast_const().cast();
        match (place, &self.needs.layout) {
            (Place::Own { uniforms, unit, .. }, None) => {
                let unit: *mut u8 = (&raw mut **unit).cast();
                Pointers {
                    uniforms: (&raw const **uniforms).cast(),
                    unit,
                    inputs: inputs(unit, Layout::OWN.offsets().v),
                }
            }
            (Place::Host { host, .. }, Some(layout)) => {
                let Offsets { unit_bytes, uniforms_bytes, v, .. } = *layout.offsets();
                // Whether it is this very layout is a matter of meaning. That it is as large is one of safety.
                assert!(host.unit().len() >= unit_bytes as usize && host.uniforms().len() >= uniforms_bytes as usize);
                let unit = host.unit().as_ptr().cast_mut().cast();
                Pointers { uniforms: host.uniforms().as_ptr().cast(), unit, inputs: inputs(unit, v) }
            }
            _ => unreachable!("a kernel runs its code on the memory that this is for"),
        }
    }

    /// Runs the function. `inputs` replaces the unit's `v` for reading; without it these are read. `None` is
    /// [`abi::REDO`]: nothing was written. `uniforms_seen` only if this code has run with the same uniforms before and
    /// did not ask to be redone.
    #[inline]
    pub(super) fn run(&self, place: &mut Place<'_>, inputs: Option<&[Vec4]>, uniforms_seen: bool) -> Option<Exit> {
        let mut at = self.pointers(place);
        if let Some(inputs) = inputs {
            assert!(inputs.len() >= self.needs.inputs, "it has what the code reads");
            at.inputs = inputs.as_ptr();
        }
        if !self.needs.emits {
            let known: *const Known = if uniforms_seen { &SEEN } else { &FIRST };
            // SAFETY: the pointers are those of this place; the code does not emit, so what is known is all it reads.
            return abi::exit(unsafe { self.call(&at, known.cast()) });
        }
        // SAFETY: the pointers are those of this place.
        unsafe { self.run_emitting(&at, place) }
    }

    /// The same for code that emits.
    ///
    /// # Safety
    /// `at` is what [`Code::pointers`] gave for this place, or has other inputs that are valid.
    #[inline(never)]
    unsafe fn run_emitting(&self, at: &Pointers, place: &mut Place<'_>) -> Option<Exit> {
        let receiver = match place {
            Place::Own { emitter, .. } => Receiver::Own(at.unit.cast(), shorten(&mut **emitter)),
            Place::Host { host, emitter } => Receiver::Host((&raw const **host).cast(), shorten_host(&mut **emitter)),
        };
        let mut frame = Frame { known: UNSEEN, emit, receiver, panic: None };
        let frame: *mut Frame = &mut frame;
        // SAFETY: the pointers are the caller's promise, and the frame is whole.
        let code = unsafe { self.call(at, frame) };
        // SAFETY: the frame is this function's own local; compiled code is done with it.
        if let Some(panic) = unsafe { (*frame).panic.take() } {
            resume_unwind(panic);
        }
        abi::exit(code)
    }

    /// Whether a batch may have any number of vertices, from a group on.
    #[inline]
    pub(super) fn takes_any_count(&self) -> bool {
        self.needs.step == 1
    }

    /// Runs these vertices of a batch, groups of [`WIDTH`] until the last or until one is not the common case. How many are
    /// done. Groups may have vertices in common, where they need not be whole. Nothing of the unit is written, and of outputs the registers in `output_mask` that the code writes, of the
    /// vertices that are done. Only for code of [`lanes`](super::lanes).
    #[inline]
    pub(super) fn run_lanes(
        &self,
        place: &mut Place<'_>,
        batch: &mut Batch<'_>,
        vertices: Range<usize>,
        output_mask: u16,
    ) -> usize {
        let count = vertices.len();
        assert!(count >= WIDTH && (self.takes_any_count() || count.is_multiple_of(WIDTH)));
        assert!(batch.inputs.stride() >= self.needs.inputs && output_mask & !batch.outputs.mask() == 0);
        let [input_stride, output_stride] =
            [batch.inputs.stride(), batch.outputs.stride()].map(|s| s * size_of::<Vec4>());
        let inputs = batch.inputs.registers_of(vertices.clone()).as_ptr_range();
        let outputs = batch.outputs.registers_of(vertices).as_mut_ptr();
        let mut frame = LanesFrame {
            outputs,
            last_inputs: inputs.start.wrapping_add((count - WIDTH) * batch.inputs.stride()),
            last_outputs: outputs.wrapping_add((count - WIDTH) * batch.outputs.stride()),
            end: inputs.end,
            done: inputs.start,
            input_stride,
            output_stride,
            output_mask: output_mask.into(),
        };
        let frame: *mut LanesFrame = &mut frame;
        let at = Pointers { inputs: inputs.start, ..self.pointers(place) };
        // SAFETY: all come from references. The frame is the one that such code is made for, in which it writes one field;
        // it goes through inputs and outputs side by side, a group at a time, up to the end of the inputs, which are
        // these vertices' and nothing else, and there are as many outputs. Where groups need not be whole, none begins behind
        // the frame's last one, which is. Of each vertex it reads no register from `needs.inputs` on and writes those of the
        // mask, which are inside the strides.
        unsafe { self.call(&at, frame.cast()) };
        // SAFETY: the frame is this function's own local; compiled code is done with it.
        let done = unsafe { (*frame).done };
        // It mostly comes to the end, and to divide takes its time.
        if done == inputs.end { count } else { done.addr().wrapping_sub(inputs.start.addr()) / input_stride }
    }

    /// The call itself.
    ///
    /// # Safety
    /// `at` is what [`Code::pointers`] gave for a place that is still borrowed, or has other inputs that are valid. `frame`
    /// points to a whole frame, or, if the code does not emit, at least to the known things that a frame begins with; for
    /// code that runs a batch it is that code's frame, for writing and to nobody else, and the inputs are those of a
    /// whole group.
    unsafe fn call(&self, at: &Pointers, frame: *const Frame) -> u32 {
        // SAFETY: the bytes at `offset` are a function of this signature, which cranelift-jit produced for this host
        // and nobody can change: the pages are read+execute and live as long as `self`. It reads uniforms, inputs
        // and `frame`, reads and writes the unit inside the bounds of the layout it was compiled for, which are the types' or
        // no more than the blocks' (each access is a field's offset, or a register number that was masked to its file's
        // size), and keeps no pointer. It writes flags as 0 and 1. Alignment: `Uniforms`, `Unit` and `Frame` are `align(16)`,
        // a host's blocks were found to be so; loads from inputs, which a batch may have anywhere, are not marked aligned.
        // A host's own pointers to its memory are no matter: what we have of it are cells.
        unsafe {
            let function: Function = std::mem::transmute(self.map.as_ptr().add(self.offset));
            function(at.uniforms, at.unit, at.inputs, frame)
        }
    }
}

/// The emitter without its lifetime, for the time of one call.
fn shorten<'a>(emitter: &'a mut (dyn Emitter + 'a)) -> *mut dyn Emitter {
    let emitter: *mut (dyn Emitter + 'a) = emitter;
    // SAFETY: only the lifetime changes. The pointer is used during `Code::run` alone, which holds the borrow.
    unsafe { std::mem::transmute::<*mut (dyn Emitter + 'a), *mut (dyn Emitter + 'static)>(emitter) }
}

/// The same for a host's.
fn shorten_host<'a>(emitter: &'a mut (dyn HostEmitter + 'a)) -> *mut dyn HostEmitter {
    let emitter: *mut (dyn HostEmitter + 'a) = emitter;
    // SAFETY: as in `shorten`.
    unsafe { std::mem::transmute::<*mut (dyn HostEmitter + 'a), *mut (dyn HostEmitter + 'static)>(emitter) }
}

/// EMIT. A panic of the emitter is kept: compiled code can't be unwound. Later emits of that run do nothing.
unsafe extern "C" fn emit(frame: *mut Frame) {
    // SAFETY: compiled code hands on the frame that `Code::run` made, which nothing else refers to meanwhile.
    let frame = unsafe { &mut *frame };
    if frame.panic.is_some() {
        return;
    }
    let sent = match frame.receiver {
        Receiver::Own(unit, emitter) => {
            // SAFETY: unit and emitter were exclusive references in `Code::run` and are used by nobody else during the call.
            let (unit, emitter) = unsafe { (&mut *unit, &mut *emitter) };
            catch_unwind(AssertUnwindSafe(|| unit.emit(emitter)))
        }
        Receiver::Host(host, emitter) => {
            // SAFETY: the same, but that the host was a shared one; its memory is cells, so it may have changed.
            let (host, emitter) = unsafe { (&*host, &mut *emitter) };
            catch_unwind(AssertUnwindSafe(|| host.emit(emitter)))
        }
    };
    frame.panic = sent.err();
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[cfg(target_os = "linux")] // asks the kernel what the pages' permissions are
    #[test]
    fn memory_is_written_first_and_executable_then_and_never_both() {
        if let Some(size) = std::env::var_os("QEMU_PAGESIZE") {
            println!("skipped: an emulator told to have pages of {size:?} bytes lists no page that is smaller");
            return;
        }
        // Another test's thread may be given the pages as soon as they are free, but hardly every time.
        assert!((0..20).any(|_| last_permissions().is_empty()), "unmapped with its last user");
    }

    /// Uses a page as a kernel does; its permissions behind that.
    #[cfg(target_os = "linux")]
    fn last_permissions() -> String {
        let mut memory = CodeMemory::default();
        let p = memory.allocate(100, 16, JITMemoryKind::Executable).expect("a page");
        assert!(memory.allocate(1, 1, JITMemoryKind::Executable).is_err(), "one function a provider");
        assert_eq!(permissions(p), "rw-p");
        memory.finalize(BranchProtection::None).expect("executable");
        assert_eq!(permissions(p), "r-xp");
        let code = memory
            .into_code(p.cast_const(), 100, Needs { emits: false, inputs: 0, step: WIDTH, layout: None })
            .expect("inside");
        assert_eq!(code.len(), 100);
        drop(code);
        permissions(p)
    }

    /// A host that has a page for each, and can be told to have none, or to hand out odd addresses.
    pub(in crate::jit) struct Shelf {
        pages: Mutex<Vec<(usize, Mmap)>>,
        odd: usize,
    }

    impl Shelf {
        pub(in crate::jit) fn new(odd: usize) -> Arc<Shelf> {
            Arc::new(Shelf { pages: Mutex::default(), odd })
        }

        /// How much is installed.
        pub(in crate::jit) fn len(&self) -> usize {
            self.pages.lock().expect("no panic").len()
        }
    }

    // SAFETY: the bytes are copied to a page of their own, which becomes executable and stays so, unwritten, until it is unmapped.
    unsafe impl ExecutableMemory for Shelf {
        fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>> {
            let mut page = MmapMut::map_anon(code.len() + self.odd)?;
            page[self.odd..].copy_from_slice(code);
            let page = own(page, false)?;
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

    #[test]
    fn a_refusing_system_is_reported() {
        let mut memory = CodeMemory::refusing();
        memory.allocate(10, 1, JITMemoryKind::Executable).expect("a page");
        assert!(memory.finalize(BranchProtection::None).is_err());
        assert_eq!(memory.refusal(), Some(io::ErrorKind::PermissionDenied));
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
