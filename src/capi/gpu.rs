//! The GPU's shader side in C: calls of the header's last section -> calls of [`gpu`](crate::gpu).
//!
//! Invariant: one call at a time uses the [`Gpu`]. A call that finds it in use, on another thread
//! or in a callback, returns `PJ_BUSY` and does nothing. Callbacks that get the GPU in Rust get it
//! here, too. This file must not know the meaning of registers, draws and states.

mod guest_draw;
mod hand_over;
mod state;
mod types;

use super::arguments::{at_most, check_memory, check_optional, check_pointer, optional_pointer, write_optional};
use super::{
    Fault, PJ_CANCELLED, PJ_OK, PJ_VERTEX_LIMIT, PjEngine, catch_panics, deref, input_slice, out_pointer, read_sized,
    write_sized,
};
use crate::gpu::{Attributes, Commands, Draw, Effect, Gpu, Host, Limits, ListExit, Report, TriangleSink, Write};
use crate::semantics::Semantics;
use crate::state::{Registers, Vec4};
pub use guest_draw::pj_gpu_draw;
pub use hand_over::*;
use std::ffi::c_void;
use std::ptr::{self, NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
pub use types::*;

/// `pj_gpu`.
#[derive(Default)]
pub struct PjGpu {
    /// The GPU for the next call; null during a call.
    idle: AtomicPtr<Gpu>,
    /// The [id](thread_id) of the thread that runs a callback with access to the GPU; 0 without
    /// one. Only the thread whose call uses the GPU changes it, so a thread that finds its own id
    /// here is in such a callback, whatever other threads do.
    callback_thread: AtomicUsize,
    /// The GPU for any call of that thread; null during such a call, or if the callback may only
    /// read.
    lent: AtomicPtr<Gpu>,
    /// The GPU for read-only calls of that thread.
    readable: AtomicPtr<Gpu>,
}

/// An id that no other running thread has, and not 0.
fn thread_id() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| ptr::from_ref(mark).addr())
}

/// Exclusive access to the GPU, until it is dropped.
struct GpuGuard<'a> {
    /// The slot that the GPU returns to.
    slot: &'a AtomicPtr<Gpu>,
    gpu: NonNull<Gpu>,
}

impl Drop for GpuGuard<'_> {
    fn drop(&mut self) {
        self.slot.store(self.gpu.as_ptr(), Ordering::Release);
    }
}

impl<'a> GpuGuard<'a> {
    fn take(slot: &'a AtomicPtr<Gpu>) -> Option<GpuGuard<'a>> {
        let gpu = NonNull::new(slot.swap(null_mut(), Ordering::Acquire))?;
        Some(GpuGuard { slot, gpu })
    }

    fn get(&mut self) -> &mut Gpu {
        // SAFETY: it was in `idle`, where `pj_gpu_new` put it, or in `lent`: borrowed for a
        // callback that has not returned, as this thread is in it. Access is exclusive, since
        // taking it leaves null there.
        unsafe { self.gpu.as_mut() }
    }
}

impl PjGpu {
    fn take(&self) -> Result<GpuGuard<'_>, Fault> {
        match GpuGuard::take(&self.idle) {
            Some(guard) => Ok(guard),
            None => self.take_in_callback(),
        }
    }

    /// [`PjGpu::take`] during a call, when `idle` is null.
    #[cold]
    fn take_in_callback(&self) -> Result<GpuGuard<'_>, Fault> {
        self.in_callback().then(|| GpuGuard::take(&self.lent)).flatten().ok_or(Fault::Busy)
    }

    /// Whether this call comes from a callback with access to the GPU.
    fn in_callback(&self) -> bool {
        self.callback_thread.load(Ordering::Relaxed) == thread_id()
    }

    fn read<T>(&self, read: impl FnOnce(&Gpu) -> T) -> Result<T, Fault> {
        if let Ok(mut guard) = self.take() {
            return Ok(read(guard.get()));
        }
        let readable = if self.in_callback() { self.readable.load(Ordering::Relaxed) } else { null_mut() };
        let readable = NonNull::new(readable).ok_or(Fault::Busy)?;
        // SAFETY: borrowed for a callback that has not returned, as this thread is in it. The call
        // that could change it waits for that callback.
        Ok(read(unsafe { readable.as_ref() }))
    }

    /// Gives calls in `callback` access to the GPU.
    fn lend(&self, gpu: &mut Gpu, callback: impl FnOnce()) {
        self.during(&self.lent, ptr::from_mut(gpu), callback);
    }

    /// Gives read-only calls in `callback` access to the GPU.
    fn lend_readable(&self, gpu: &Gpu, callback: impl FnOnce()) {
        self.during(&self.readable, ptr::from_ref(gpu).cast_mut(), callback);
    }

    fn during(&self, slot: &AtomicPtr<Gpu>, gpu: *mut Gpu, callback: impl FnOnce()) {
        let before = self.callback_thread.swap(thread_id(), Ordering::Relaxed);
        slot.store(gpu, Ordering::Relaxed);
        callback();
        slot.store(null_mut(), Ordering::Relaxed);
        self.callback_thread.store(before, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_new(engine: *const PjEngine, gpu: *mut *mut PjGpu) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_engine_new`.
        let engine = unsafe { deref(engine, "engine") }?;
        let to = out_pointer(gpu, "gpu")?;
        check_memory(1 << 20)?;
        let idle = AtomicPtr::new(Box::into_raw(Box::new(Gpu::new(engine.engine.clone()))));
        let handle = PjGpu { idle, ..PjGpu::default() };
        // SAFETY: not null; the header requires it to be writable.
        unsafe { to.write(Box::into_raw(Box::new(handle))) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_free(gpu: *mut PjGpu) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let Some(owner) = (unsafe { gpu.as_ref() }) else { return Ok(PJ_OK) };
        // During a callback `idle` is null.
        let guard = owner.idle.swap(null_mut(), Ordering::Acquire);
        if guard.is_null() {
            return Err(Fault::Busy);
        }
        // SAFETY: both came from `Box::into_raw`: `idle` holds the pointer that `pj_gpu_new` put
        // there. No call uses either, and this one ends the handle.
        unsafe { (drop(Box::from_raw(guard)), drop(Box::from_raw(gpu))) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_limits_set(gpu: *mut PjGpu, draw: u32, list: u64) -> i32 {
    catch_panics(|| {
        let default = Limits::default();
        let draw = if draw == 0 { default.draw } else { draw };
        let list = if list == 0 { default.list } else { list };
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        unsafe { deref(gpu, "gpu") }?.take()?.get().set_limits(Limits { draw, list });
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_diagnostics_set(gpu: *mut PjGpu, on: u32) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        unsafe { deref(gpu, "gpu") }?.take()?.get().set_diagnostics(on != 0);
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_write(gpu: *mut PjGpu, id: u16, value: u32, mask: u8, vertex: *mut Registers) -> i32 {
    // Most writes only store a value. They need the exclusive access of every call, but no guard
    // against panics, nor a pointer for attributes.
    if Gpu::only_stores(id)
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        && let Some(mut guard) = unsafe { gpu.as_ref() }.and_then(|owner| GpuGuard::take(&owner.idle))
    {
        guard.get().store(id, value, mask);
        return PJ_EFFECT_NONE;
    }
    // SAFETY: as the header requires.
    unsafe { write_guarded(gpu, id, value, mask, vertex) }
}

/// [`pj_gpu_write`] of a register whose write may do more than store the value.
///
/// # Safety
/// As the header requires of [`pj_gpu_write`].
#[inline(never)]
unsafe extern "C" fn write_guarded(gpu: *const PjGpu, id: u16, value: u32, mask: u8, vertex: *mut Registers) -> i32 {
    let is_valid = check_pointer(vertex, 1, "vertex").is_ok();
    // SAFETY: null, or a live handle of `pj_gpu_new`.
    match unsafe { gpu.as_ref() }.and_then(|owner| GpuGuard::take(&owner.idle)) {
        Some(mut gpu) if is_valid => catch_panics(|| {
            let effect = gpu.get().write(id, value, mask);
            // SAFETY: neither null nor unaligned; the header requires room for sixteen vectors.
            Ok(unsafe { effect_with_vertex(gpu.get(), effect, vertex) })
        }),
        taken => {
            drop(taken);
            // SAFETY: as the header requires.
            unsafe { write_checked(gpu, id, value, mask, vertex) }
        }
    }
}

/// [`pj_gpu_write`] of a GPU in use, or with a pointer that is not valid. Out of line: it saves registers
/// that other writes don't need.
///
/// # Safety
/// As the header requires of [`pj_gpu_write`].
#[cold]
#[inline(never)]
unsafe extern "C" fn write_checked(gpu: *const PjGpu, id: u16, value: u32, mask: u8, vertex: *mut Registers) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let mut gpu = unsafe { deref(gpu, "gpu") }?.take()?;
        check_pointer(vertex, 1, "vertex")?;
        let effect = gpu.get().write(id, value, mask);
        // SAFETY: not null and aligned; the header requires room for sixteen vectors.
        Ok(unsafe { effect_with_vertex(gpu.get(), effect, vertex) })
    })
}

/// The number of a write's effect. The attributes of a vertex go to `vertex`.
///
/// # Safety
/// `vertex` is writable.
unsafe fn effect_with_vertex(gpu: &Gpu, effect: Effect, vertex: *mut Registers) -> i32 {
    if effect == Effect::Vertex {
        // SAFETY: the caller guarantees it.
        unsafe { vertex.write(*gpu.immediate_vertex()) };
    }
    effect_number(effect)
}

fn effect_number(effect: Effect) -> i32 {
    match effect {
        Effect::None => PJ_EFFECT_NONE,
        Effect::Draw(Draw::Arrays) => PJ_EFFECT_DRAW_ARRAYS,
        Effect::Draw(Draw::Elements) => PJ_EFFECT_DRAW_ELEMENTS,
        Effect::Vertex => PJ_EFFECT_VERTEX,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_write_list(
    gpu: *mut PjGpu,
    list: *const u32,
    words: usize,
    position: *mut PjListPosition,
    vertex: *mut Registers,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let mut gpu = unsafe { deref(gpu, "gpu") }?.take()?;
        // SAFETY: the header requires an array of this length.
        let list = unsafe { input_slice(list, words, "list") }?;
        check_pointer(vertex, 1, "vertex")?;
        let position = out_pointer(position, "position")?;
        // SAFETY: not null and aligned; the header requires that it can be read and written.
        let PjListPosition { command, values } = unsafe { position.read() };
        let mut commands = Commands::at(list, (command, values));
        let effect = gpu.get().write_list(&mut commands);
        let (command, values) = commands.position();
        // SAFETY: as above; the header requires room for sixteen vectors.
        unsafe {
            position.write(PjListPosition { command, values });
            Ok(effect_with_vertex(gpu.get(), effect, vertex))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_read(gpu: *const PjGpu, id: u16, value: *mut u32) -> i32 {
    // SAFETY: the header requires valid pointers.
    unsafe { read_into(gpu, value, |gpu| gpu.read(id)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_default_attribute(gpu: *const PjGpu, n: u32, value: *mut Vec4) -> i32 {
    // SAFETY: the header requires valid pointers.
    unsafe { read_into(gpu, value, |gpu| gpu.default_attribute(usize::try_from(n).unwrap_or(usize::MAX))) }
}

/// Reads a value of the GPU into the host's memory.
///
/// # Safety
/// Both are null, or a live handle of `pj_gpu_new` and writable memory.
unsafe fn read_into<T>(gpu: *const PjGpu, to: *mut T, read: impl FnOnce(&Gpu) -> T) -> i32 {
    catch_panics(|| {
        // SAFETY: the caller guarantees it.
        let gpu = unsafe { deref(gpu, "gpu") }?;
        check_pointer(to, 1, "value")?;
        let value = gpu.read(read)?;
        // SAFETY: not null and aligned; the caller guarantees that it is writable.
        unsafe { to.write(value) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_upload_stats_get(gpu: *const PjGpu, stats: *mut PjGpuUploadStats) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let current = unsafe { deref(gpu, "gpu") }?.read(Gpu::upload_stats)?;
        let struct_size = size_of::<PjGpuUploadStats>();
        let value = PjGpuUploadStats { struct_size, lookups: current.lookups, programs: current.programs };
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(stats, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_state_get(gpu: *const PjGpu, state: *mut PjGpuState) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let value = unsafe { deref(gpu, "gpu") }?.read(|gpu| PjGpuState::new(&gpu.state()))?;
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(state, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_state_set(gpu: *mut PjGpu, state: *const PjGpuState) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let mut gpu = unsafe { deref(gpu, "gpu") }?.take()?;
        // SAFETY: the header requires a structure of its declared size; any bytes are valid.
        let state: PjGpuState = unsafe { read_sized(state) }?;
        gpu.get().set_state(state.state());
        Ok(PJ_OK)
    })
}

/// The host's callback for triangles.
struct TriangleCallback {
    triangle: PjTriangleFn,
    user: *mut c_void,
}

impl TriangleSink for TriangleCallback {
    fn triangle(&mut self, [a, b, c]: [&Semantics; 3]) {
        // SAFETY: the host's function gets the host's pointer.
        unsafe { (self.triangle)(self.user, a.as_ptr(), b.as_ptr(), c.as_ptr()) };
    }
}

/// The host's callback that fetches vertices.
#[derive(Clone, Copy)]
struct FetchCallback {
    fetch: PjFetchFn,
    user: *mut c_void,
}

impl FetchCallback {
    fn get(self, index: u32) -> Attributes {
        let mut attributes = Attributes::default();
        // SAFETY: the host's function gets the host's pointer, and room for what it gives.
        unsafe { (self.fetch)(self.user, index, attributes.as_mut_ptr()) };
        attributes
    }
}

/// The entries of a vertex cache.
fn cache_entries(number: u32, name: &'static str) -> Result<u8, Fault> {
    at_most(number, 255, name, "at most 255")?;
    Ok(number as u8)
}

/// Checks the arguments that all draws share, has `work` draw, and writes the report.
///
/// # Safety
/// As the header requires of the three pointers.
unsafe fn draw(
    gpu: *mut PjGpu,
    draw: *const PjDraw,
    report: *mut PjReport,
    work: impl FnOnce(&mut Gpu, &PjDraw, &mut TriangleCallback) -> Result<Report, Fault>,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let mut gpu = unsafe { deref(gpu, "gpu") }?.take()?;
        // SAFETY: the header requires a structure of its declared size; any bytes are valid.
        let draw: PjDraw = unsafe { read_sized(draw) }?;
        // SAFETY: as above. Errors must be found before anything is drawn.
        unsafe { check_optional(report) }?;
        let triangle = draw.triangle.ok_or(Fault::Null("pj_draw.triangle"))?;
        let mut sink = TriangleCallback { triangle, user: draw.user };
        let value = PjReport::new(&work(gpu.get(), &draw, &mut sink)?);
        // SAFETY: as above.
        unsafe { write_optional(report, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw_arrays(gpu: *mut PjGpu, draw: *const PjDraw, report: *mut PjReport) -> i32 {
    let work = |gpu: &mut Gpu, draw: &PjDraw, sink: &mut TriangleCallback| {
        if !draw.vertices.is_null() {
            // SAFETY: the header requires an array of this length.
            return Ok(gpu.draw_arrays(unsafe { input_slice(draw.vertices, draw.count, "pj_draw.vertices") }?, sink));
        }
        let count = u32::try_from(draw.count);
        let count =
            count.map_err(|_| Fault::Range("pj_draw.count", draw.count as u64, "less than 2^32 with `fetch`"))?;
        let fetch = FetchCallback { fetch: draw.fetch.ok_or(Fault::Null("pj_draw.fetch"))?, user: draw.user };
        Ok(gpu.draw_arrays((0..count).map(|n| fetch.get(n)), sink))
    };
    // SAFETY: the header requires valid pointers.
    unsafe { self::draw(gpu, draw, report, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw_elements(gpu: *mut PjGpu, draw: *const PjDraw, report: *mut PjReport) -> i32 {
    let work = |gpu: &mut Gpu, draw: &PjDraw, sink: &mut TriangleCallback| {
        let read: fn(&[u8]) -> u32 = match draw.index_bytes {
            1 => |bytes| bytes.first().map_or(0, |&n| n.into()),
            0 | 2 => |bytes| bytes.first_chunk().map_or(0, |&n| u16::from_ne_bytes(n).into()),
            4 => |bytes| bytes.first_chunk().map_or(0, |&n| u32::from_ne_bytes(n)),
            other => return Err(Fault::Range("pj_draw.index_bytes", other.into(), "1, 2 or 4; 0: 2")),
        };
        let width = if draw.index_bytes == 0 { 2 } else { draw.index_bytes as usize };
        let bytes = draw.count.checked_mul(width).ok_or(Fault::TooLong("pj_draw.indices", draw.count))?;
        // SAFETY: the header requires an array of `bytes` bytes.
        let indices =
            unsafe { input_slice(draw.indices.cast::<u8>(), bytes, "pj_draw.indices") }?.chunks_exact(width).map(read);
        let fetch = FetchCallback { fetch: draw.fetch.ok_or(Fault::Null("pj_draw.fetch"))?, user: draw.user };
        let vertex_cache = cache_entries(draw.vertex_cache_entries, "pj_draw.vertex_cache_entries")?;
        Ok(gpu.draw_elements(indices, |index| fetch.get(index), vertex_cache, sink))
    };
    // SAFETY: the header requires valid pointers.
    unsafe { self::draw(gpu, draw, report, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw_immediate(gpu: *mut PjGpu, draw: *const PjDraw, report: *mut PjReport) -> i32 {
    let work = |gpu: &mut Gpu, draw: &PjDraw, sink: &mut TriangleCallback| {
        // SAFETY: the header requires an array of this length.
        Ok(gpu.draw_immediate(unsafe { input_slice(draw.vertices, draw.count, "pj_draw.vertices") }?, sink))
    };
    // SAFETY: the header requires valid pointers.
    unsafe { self::draw(gpu, draw, report, work) }
}

/// The host of a command list.
struct HostCallbacks<'a> {
    owner: &'a PjGpu,
    /// The handle of the host.
    handle: *mut PjGpu,
    triangles: TriangleCallback,
    draw: PjDrawFn,
    wrote: Option<PjWroteFn>,
}

impl TriangleSink for HostCallbacks<'_> {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.triangles.triangle(vertices);
    }
}

impl Host for HostCallbacks<'_> {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let (draws, user, handle) = (self.draw, self.triangles.user, self.handle);
        // SAFETY: the host's function gets the host's pointer; calls in it have access to the GPU.
        self.owner.lend(gpu, || unsafe { draws(user, handle, effect_number(Effect::Draw(draw))) });
    }

    fn wrote(&mut self, gpu: &Gpu, Write { id, value, mask }: Write) {
        let (Some(wrote), user, handle) = (self.wrote, self.triangles.user, self.handle) else { return };
        // SAFETY: the host's function gets the host's pointer; calls in it may read the GPU.
        self.owner.lend_readable(gpu, || unsafe { wrote(user, handle, id, value, mask) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_execute(
    gpu: *mut PjGpu,
    list: *const u32,
    words: usize,
    host: *const PjGpuHost,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let owner = unsafe { deref(gpu, "gpu") }?;
        let mut guard = owner.take()?;
        // SAFETY: the header requires a structure of its declared size; any bytes are valid.
        let host: PjGpuHost = unsafe { read_sized(host) }?;
        // SAFETY: the header requires an array of this length.
        let list = unsafe { input_slice(list, words, "list") }?;
        let triangle = host.triangle.ok_or(Fault::Null("pj_gpu_host.triangle"))?;
        let triangles = TriangleCallback { triangle, user: host.user };
        let draw = host.draw.ok_or(Fault::Null("pj_gpu_host.draw"))?;
        let mut calls = HostCallbacks { owner, handle: gpu, triangles, draw, wrote: host.wrote };
        Ok(match guard.get().execute(list, &mut calls) {
            ListExit::End => PJ_OK,
            ListExit::Cancelled => PJ_CANCELLED,
            ListExit::VertexLimit => PJ_VERTEX_LIMIT,
        })
    })
}

#[cfg(test)]
mod tests;
