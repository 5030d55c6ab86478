//! The GPU's shader side in C: what the header's last section declares -> calls of [`gpu`](crate::gpu).
//!
//! Invariant: one call at a time has the [`Gpu`]. A call that finds it taken, from a callback or from another thread, says so
//! and does nothing; a callback that Rust's hosts are given the GPU in is given it here. What registers, draws and states
//! mean is not known here.

mod state;
mod types;

use super::{Fault, PJ_OK, PjEngine, answer, array, checked, given, guarded, place, sized};
use crate::gpu::cache::Lookup;
use crate::gpu::{Attributes, Draw, Effect, Gpu, Host, NoCache, Report, RoundRobin, Sink, VertexCache, Write};
use crate::semantics::Semantics;
use crate::state::{Registers, Vec4};
use std::ffi::c_void;
use std::ptr::{self, NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
pub use types::*;

/// `pj_gpu`.
#[derive(Default)]
pub struct PjGpu {
    /// Whom the next call may have; null while one has it.
    free: AtomicPtr<Gpu>,
    /// The [thread](here) on which a callback runs that was lent or shown it; 0 while there is none. Only the thread whose call
    /// has the GPU changes it, so that a thread that finds itself here is in such a callback, whatever others do meanwhile.
    here: AtomicUsize,
    /// Whom calls on that thread may have; null while one has it, or where it was not lent.
    lent: AtomicPtr<Gpu>,
    /// Whom calls on that thread that only look may have besides.
    shown: AtomicPtr<Gpu>,
}

/// A number that no other thread has meanwhile, and not 0.
fn here() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| ptr::from_ref(mark).addr())
}

/// The GPU, until it is dropped.
struct Taken<'a> {
    /// Where it goes back to.
    slot: &'a AtomicPtr<Gpu>,
    gpu: NonNull<Gpu>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.slot.store(self.gpu.as_ptr(), Ordering::Release);
    }
}

impl Taken<'_> {
    fn get(&mut self) -> &mut Gpu {
        // SAFETY: it was in `free`: the one this `PjGpu` was made with; or in `lent`: borrowed for a callback that has not
        // returned, as this thread is in it. Nobody else has it, since whoever takes it leaves null there.
        unsafe { self.gpu.as_mut() }
    }
}

impl PjGpu {
    fn take(&self) -> Result<Taken<'_>, Fault> {
        let slot = if self.in_callback() { &self.lent } else { &self.free };
        let gpu = NonNull::new(slot.swap(null_mut(), Ordering::Acquire)).ok_or(Fault::Busy)?;
        Ok(Taken { slot, gpu })
    }

    /// Whether this is a call from a callback that was lent or shown it.
    fn in_callback(&self) -> bool {
        self.here.load(Ordering::Relaxed) == here()
    }

    fn look<T>(&self, look: impl FnOnce(&Gpu) -> T) -> Result<T, Fault> {
        if let Ok(mut taken) = self.take() {
            return Ok(look(taken.get()));
        }
        let shown = if self.in_callback() { self.shown.load(Ordering::Relaxed) } else { null_mut() };
        let shown = NonNull::new(shown).ok_or(Fault::Busy)?;
        // SAFETY: borrowed for a callback that has not returned, as this thread is in it, and nobody changes it meanwhile:
        // whoever could is waiting for that callback.
        Ok(look(unsafe { shown.as_ref() }))
    }

    /// Lets calls have it that come during `callback`.
    fn lend(&self, gpu: &mut Gpu, callback: impl FnOnce()) {
        self.during(&self.lent, ptr::from_mut(gpu), callback);
    }

    /// Lets calls look at it that come during `callback`.
    fn show(&self, gpu: &Gpu, callback: impl FnOnce()) {
        self.during(&self.shown, ptr::from_ref(gpu).cast_mut(), callback);
    }

    fn during(&self, slot: &AtomicPtr<Gpu>, gpu: *mut Gpu, callback: impl FnOnce()) {
        let before = self.here.swap(here(), Ordering::Relaxed);
        slot.store(gpu, Ordering::Relaxed);
        callback();
        slot.store(null_mut(), Ordering::Relaxed);
        self.here.store(before, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_new(engine: *const PjEngine, gpu: *mut *mut PjGpu) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_engine_new` gave.
        let engine = unsafe { given(engine) }?;
        let to = place(gpu)?;
        let free = AtomicPtr::new(Box::into_raw(Box::new(Gpu::new(engine.engine.clone()))));
        let made = PjGpu { free, ..PjGpu::default() };
        // SAFETY: not null, and the header asks for a place to write a pointer to.
        unsafe { to.write(Box::into_raw(Box::new(made))) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_free(gpu: *mut PjGpu) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_gpu_new` gave.
        let Some(owner) = (unsafe { gpu.as_ref() }) else { return Ok(PJ_OK) };
        // While there is a callback `free` is null.
        let taken = owner.free.swap(null_mut(), Ordering::Acquire);
        if taken.is_null() {
            return Err(Fault::Busy);
        }
        // SAFETY: both came from `Box::into_raw`: what is in `free` is what `pj_gpu_new` put there. No call
        // has either, and none will come.
        unsafe { (drop(Box::from_raw(taken)), drop(Box::from_raw(gpu))) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_write(gpu: *mut PjGpu, id: u16, value: u32, mask: u8, vertex: *mut Registers) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_gpu_new` gave.
        let mut gpu = unsafe { given(gpu) }?.take()?;
        checked(vertex, 1)?;
        Ok(match gpu.get().write(id, value, mask) {
            Effect::None => PJ_EFFECT_NONE,
            Effect::Draw(draw) => effect(draw),
            Effect::Vertex(attributes) => {
                // SAFETY: not null and aligned; the header asks for a place for sixteen vectors.
                unsafe { vertex.write(attributes) };
                PJ_EFFECT_VERTEX
            }
        })
    })
}

fn effect(draw: Draw) -> i32 {
    match draw {
        Draw::Arrays => PJ_EFFECT_DRAW_ARRAYS,
        Draw::Elements => PJ_EFFECT_DRAW_ELEMENTS,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_read(gpu: *const PjGpu, id: u16, value: *mut u32) -> i32 {
    // SAFETY: the header's words on both.
    unsafe { look(gpu, value, |gpu| gpu.read(id)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_default_attribute(gpu: *const PjGpu, n: u32, value: *mut Vec4) -> i32 {
    // SAFETY: the header's words on both.
    unsafe { look(gpu, value, |gpu| gpu.default_attribute(usize::try_from(n).unwrap_or(usize::MAX))) }
}

/// Puts something that the GPU knows where the host wants it.
///
/// # Safety
/// Both are null, or one that `pj_gpu_new` gave and a place to write to.
unsafe fn look<T>(gpu: *const PjGpu, to: *mut T, what: impl FnOnce(&Gpu) -> T) -> i32 {
    guarded(|| {
        // SAFETY: the caller's.
        let gpu = unsafe { given(gpu) }?;
        checked(to, 1)?;
        let value = gpu.look(what)?;
        // SAFETY: not null and aligned; that it may be written is the caller's.
        unsafe { to.write(value) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_work_get(gpu: *const PjGpu, work: *mut PjGpuWork) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_gpu_new` gave.
        let seen = unsafe { given(gpu) }?.look(Gpu::work)?;
        let struct_size = size_of::<PjGpuWork>();
        let value =
            PjGpuWork { struct_size, comparisons: seen.comparisons, programs: seen.programs, lookups: seen.lookups };
        // SAFETY: the header asks for a structure of the size that it says.
        unsafe { answer(work, &value, WORK_BYTES) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_state_get(gpu: *const PjGpu, state: *mut PjGpuState) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_gpu_new` gave.
        let value = unsafe { given(gpu) }?.look(|gpu| PjGpuState::new(gpu.state()))?;
        // SAFETY: the header asks for a structure of the size that it says.
        unsafe { answer(state, &value, STATE_BYTES) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_state_set(gpu: *mut PjGpu, state: *const PjGpuState) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_gpu_new` gave.
        let mut gpu = unsafe { given(gpu) }?.take()?;
        // SAFETY: the header asks for a structure of the size that it says; any bytes make one.
        let state = unsafe { sized(state, PjGpuState::default(), STATE_BYTES) }?;
        *gpu.get().state_mut() = state.translated();
        Ok(PJ_OK)
    })
}

/// Who is told of triangles.
struct Triangles {
    triangle: PjTriangleFn,
    user: *mut c_void,
}

impl Sink for Triangles {
    fn triangle(&mut self, [a, b, c]: [&Semantics; 3]) {
        // SAFETY: a function of this type, with the pointer that came with it.
        unsafe { (self.triangle)(self.user, a.as_ptr(), b.as_ptr(), c.as_ptr()) };
    }
}

/// Who fetches vertices.
#[derive(Clone, Copy)]
struct Fetch {
    fetch: PjFetchFn,
    user: *mut c_void,
}

impl Fetch {
    fn get(self, index: u32) -> Attributes {
        let mut attributes = Attributes::default();
        // SAFETY: a function of this type, with the pointer that came with it, and room for what it gives.
        unsafe { (self.fetch)(self.user, index, attributes.as_mut_ptr()) };
        attributes
    }
}

/// Who decides which vertices are used again.
struct Asked {
    lookup: PjLookupFn,
    user: *mut c_void,
}

impl VertexCache for Asked {
    // The host knows by itself: it is the one that draws.
    fn begin(&mut self) {}

    fn lookup(&mut self, index: u32) -> Lookup {
        // SAFETY: a function of this type, with the pointer that came with it.
        let answer = unsafe { (self.lookup)(self.user, index) };
        let slot = answer as u8;
        match answer & !0xFF {
            PJ_LOOKUP_STORE => Lookup::Store(slot),
            PJ_LOOKUP_REUSE => Lookup::Reuse(slot),
            _ => Lookup::Run,
        }
    }
}

/// One of the draws: checks what all of them are given, has `work` draw, and reports.
///
/// # Safety
/// What the header says of the three.
unsafe fn draw(
    gpu: *mut PjGpu,
    draw: *const PjDraw,
    report: *mut PjReport,
    work: impl FnOnce(&mut Gpu, &PjDraw, &mut Triangles) -> Result<Report, Fault>,
) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_gpu_new` gave.
        let mut gpu = unsafe { given(gpu) }?.take()?;
        // SAFETY: the header asks for a structure of the size that it says; any bytes make one.
        let draw = unsafe { sized(draw, PjDraw::NOTHING, DRAW_BYTES) }?;
        if !report.is_null() {
            // SAFETY: as above. What could be wrong with it is found before anything is drawn.
            unsafe { sized(report, PjReport::default(), REPORT_BYTES) }?;
        }
        let mut sink = Triangles { triangle: draw.triangle.ok_or(Fault::Null)?, user: draw.user };
        let value = PjReport::new(&work(gpu.get(), &draw, &mut sink)?);
        match report.is_null() {
            true => Ok(PJ_OK),
            // SAFETY: as above.
            false => unsafe { answer(report, &value, REPORT_BYTES) },
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw_arrays(gpu: *mut PjGpu, draw: *const PjDraw, report: *mut PjReport) -> i32 {
    let work = |gpu: &mut Gpu, draw: &PjDraw, sink: &mut Triangles| {
        if !draw.vertices.is_null() {
            // SAFETY: the header asks for an array of this length.
            return Ok(gpu.draw_arrays(unsafe { array(draw.vertices, draw.count) }?, sink));
        }
        let count = u32::try_from(draw.count).map_err(|_| Fault::Argument)?;
        let fetch = Fetch { fetch: draw.fetch.ok_or(Fault::Null)?, user: draw.user };
        Ok(gpu.draw_arrays((0..count).map(|n| fetch.get(n)), sink))
    };
    // SAFETY: the header's words on all three.
    unsafe { self::draw(gpu, draw, report, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw_elements(gpu: *mut PjGpu, draw: *const PjDraw, report: *mut PjReport) -> i32 {
    let work = |gpu: &mut Gpu, draw: &PjDraw, sink: &mut Triangles| {
        let read: fn(&[u8]) -> u32 = match draw.index_bytes {
            1 => |bytes| bytes.first().map_or(0, |&n| n.into()),
            2 => |bytes| bytes.first_chunk().map_or(0, |&n| u16::from_ne_bytes(n).into()),
            4 => |bytes| bytes.first_chunk().map_or(0, |&n| u32::from_ne_bytes(n)),
            _ => return Err(Fault::Argument),
        };
        let width = draw.index_bytes as usize;
        let bytes = draw.count.checked_mul(width).ok_or(Fault::Argument)?;
        // SAFETY: the header asks for an array of so many bytes.
        let indices = unsafe { array(draw.indices.cast::<u8>(), bytes) }?.chunks_exact(width).map(read);
        let fetch = Fetch { fetch: draw.fetch.ok_or(Fault::Null)?, user: draw.user };
        let fetch = |index| fetch.get(index);
        let size = u8::try_from(draw.cache).map_err(|_| Fault::Argument)?;
        Ok(match draw.lookup {
            Some(lookup) => gpu.draw_elements(indices, fetch, &mut Asked { lookup, user: draw.user }, sink),
            None if size == 0 => gpu.draw_elements(indices, fetch, &mut NoCache, sink),
            None => gpu.draw_elements(indices, fetch, &mut RoundRobin::new(size), sink),
        })
    };
    // SAFETY: the header's words on all three.
    unsafe { self::draw(gpu, draw, report, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw_immediate(gpu: *mut PjGpu, draw: *const PjDraw, report: *mut PjReport) -> i32 {
    let work = |gpu: &mut Gpu, draw: &PjDraw, sink: &mut Triangles| {
        // SAFETY: the header asks for an array of this length.
        Ok(gpu.draw_immediate(unsafe { array(draw.vertices, draw.count) }?, sink))
    };
    // SAFETY: the header's words on all three.
    unsafe { self::draw(gpu, draw, report, work) }
}

/// The host of a command list.
struct Calls<'a> {
    owner: &'a PjGpu,
    /// The pointer that the host knows it by.
    name: *mut PjGpu,
    triangles: Triangles,
    draw: PjDrawFn,
    wrote: Option<PjWroteFn>,
}

impl Sink for Calls<'_> {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.triangles.triangle(vertices);
    }
}

impl Host for Calls<'_> {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let (draws, user, name) = (self.draw, self.triangles.user, self.name);
        // SAFETY: a function of this type, with the pointer that came with it; the GPU is lent for it.
        self.owner.lend(gpu, || unsafe { draws(user, name, effect(draw)) });
    }

    fn wrote(&mut self, gpu: &Gpu, Write { id, value, mask }: Write) {
        let (Some(wrote), user, name) = (self.wrote, self.triangles.user, self.name) else { return };
        // SAFETY: a function of this type, with the pointer that came with it; the GPU is shown for it.
        self.owner.show(gpu, || unsafe { wrote(user, name, id, value, mask) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_execute(
    gpu: *mut PjGpu,
    list: *const u32,
    words: usize,
    host: *const PjGpuHost,
) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_gpu_new` gave.
        let owner = unsafe { given(gpu) }?;
        let mut taken = owner.take()?;
        // SAFETY: the header asks for a structure of the size that it says; any bytes make one.
        let host = unsafe { sized(host, PjGpuHost::NOTHING, HOST_BYTES) }?;
        // SAFETY: the header asks for an array of this length.
        let list = unsafe { array(list, words) }?;
        let triangles = Triangles { triangle: host.triangle.ok_or(Fault::Null)?, user: host.user };
        let draw = host.draw.ok_or(Fault::Null)?;
        let mut calls = Calls { owner, name: gpu, triangles, draw, wrote: host.wrote };
        taken.get().execute(list, &mut calls);
        Ok(PJ_OK)
    })
}

#[cfg(test)]
mod tests;
