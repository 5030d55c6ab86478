//! The C interface: calls of `include/picajit.h` -> calls of [`engine`](crate::engine).
//!
//! Invariant: every pointer is checked before use, no panic reaches C, and no argument outlives its
//! call unless the header says so. Runs work in place on the host's memory. This module must not
//! know how shaders run.

#![allow(unsafe_code)]
// The header documents these items and dictates their parameters.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]

mod arguments;
mod batch;
mod geometry;
mod gpu;
mod gpu_code;
mod memory;
mod trace;
mod types;

use crate::engine::{self, Compiled, DirectCall, Engine, Options, Shader, Tier};
use crate::executable::ExecutableMemory;
use crate::gpu::CpuOnly;
use crate::gpu_code::NoGpuCode;
use crate::isa::{MAX_CODE_WORDS, OPDESCS};
use crate::kernel::Unsupported;
use crate::layout::{HostEmitter, HostError, HostMemory, Layout};
use crate::program::{Entry, Program, ProgramError};
use crate::state::{EmitState, NoEmitter, Registers};
use arguments::{copy_text, deref, input_slice, out_pointer, read_sized, write_sized};
pub use batch::*;
pub use geometry::*;
pub use gpu::*;
pub use gpu_code::*;
use memory::HostPages;
use std::ffi::{CStr, c_char, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;
pub use trace::*;
pub use types::*;

/// `pj_engine`. C owns one strong count, and each call another one: a callback may free the engine
/// that called it.
pub struct PjEngine {
    engine: Arc<Engine>,
    native_required: bool,
}

/// `pj_shader`. C owns strong counts of the `Arc` that holds the shader.
#[repr(transparent)]
pub struct PjShader(Compiled);

/// An error that is detected before a call has any effect.
#[derive(Debug)]
enum Fault {
    Null,
    InvalidArgument,
    InvalidLayout(crate::layout::LayoutError),
    Program(ProgramError),
    NoNative(Unsupported),
    Misaligned,
    Overlap,
    Busy,
    NoGpuCode(NoGpuCode),
    CpuOnly(CpuOnly),
}

impl Fault {
    fn status(&self) -> i32 {
        match self {
            Fault::Null => PJ_NULL,
            Fault::InvalidArgument => PJ_INVALID_ARGUMENT,
            Fault::InvalidLayout(_) => PJ_INVALID_LAYOUT,
            Fault::Program(_) => PJ_PROGRAM_TOO_LONG,
            Fault::NoNative(_) => PJ_NO_NATIVE,
            Fault::Misaligned => PJ_MISALIGNED,
            Fault::Overlap => PJ_OVERLAP,
            Fault::Busy => PJ_BUSY,
            Fault::NoGpuCode(_) => PJ_NO_GPU_CODE,
            Fault::CpuOnly(_) => PJ_CPU_ONLY,
        }
    }

    fn message(&self) -> String {
        match self {
            Fault::InvalidLayout(error) => error.to_string(),
            Fault::Program(error) => error.to_string(),
            Fault::NoNative(reason) => reason.to_string(),
            Fault::NoGpuCode(reason) => reason.to_string(),
            Fault::CpuOnly(reason) => reason.to_string(),
            _ => status_text(self.status()).to_string_lossy().into_owned(),
        }
    }
}

/// Runs `work` and returns its status. A panic is a bug in picajit and must not unwind into C.
// Each has one caller. A call costs a register write 24 instructions, and the compiler decides anew
// in every build.
#[inline(always)]
fn catch_panics(work: impl FnOnce() -> Result<i32, Fault>) -> i32 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.unwrap_or_else(|fault| fault.status()),
        Err(_) => PJ_INTERNAL,
    }
}

/// [`catch_panics`], with a message for the host.
///
/// # Safety
/// `message` is null, or `bytes` bytes may be written there.
unsafe fn catch_panics_with_message(
    message: *mut c_char,
    bytes: usize,
    work: impl FnOnce() -> Result<i32, Fault>,
) -> i32 {
    let mut text = String::new();
    let status = catch_panics(|| work().inspect_err(|fault| text = fault.message()));
    if status < 0 && text.is_empty() {
        text = status_text(status).to_string_lossy().into_owned();
    }
    if status < 0 {
        // SAFETY: the caller guarantees it.
        unsafe { copy_text(&text, message, bytes) };
    }
    status
}

/// A reference to the engine that lasts for the call, whatever its callbacks do.
///
/// # Safety
/// `engine` is null or a live handle of `pj_engine_new`.
unsafe fn retain_engine(engine: *const PjEngine) -> Result<Arc<PjEngine>, Fault> {
    if engine.is_null() {
        return Err(Fault::Null);
    }
    // SAFETY: it came from `Arc::into_raw`, and the handle is live.
    unsafe {
        Arc::increment_strong_count(engine);
        Ok(Arc::from_raw(engine))
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pj_version() -> u32 {
    let part = |text: &str| text.parse::<u32>().expect("cargo's version numbers are numbers");
    let [major, minor, patch] =
        [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")].map(part);
    major << 16 | minor << 8 | patch
}

/// Describes a status.
fn status_text(status: i32) -> &'static CStr {
    match status {
        PJ_NULL => c"a pointer is null",
        PJ_INVALID_ARGUMENT => c"an argument is out of range",
        PJ_INVALID_LAYOUT => c"the layout is invalid",
        PJ_PROGRAM_TOO_LONG => c"the program has too many words",
        PJ_NO_NATIVE => c"native code is unavailable",
        PJ_MISALIGNED => c"a pointer is misaligned",
        PJ_OVERLAP => c"arrays of the batch overlap each other, the registers or the uniforms",
        PJ_INTERNAL => c"internal error",
        PJ_BUSY => c"the GPU is in use",
        PJ_NO_GPU_CODE => c"code for the host's GPU is unavailable",
        PJ_CPU_ONLY => c"only the CPU can run this draw",
        0.. => c"no error",
        _ => c"unknown status",
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pj_status_text(status: i32) -> *const c_char {
    status_text(status).as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_new(
    options: *const PjOptions,
    engine: *mut *mut PjEngine,
    message: *mut c_char,
    message_bytes: usize,
) -> i32 {
    let work = || {
        let to = out_pointer(engine)?;
        let options = match options.is_null() {
            true => PjOptions::DEFAULT,
            // SAFETY: the header requires a structure of its declared size; any bytes are valid.
            false => unsafe { read_sized(options, PjOptions::DEFAULT, OPTIONS_BYTES) }?,
        };
        let layout = match options.layout.is_null() {
            true => UNIT_LAYOUT,
            // SAFETY: as above.
            false => unsafe { read_sized(options.layout, PjLayout::default(), LAYOUT_BYTES) }?.offsets()?,
        };
        let layout = Layout::new(layout).map_err(Fault::InvalidLayout)?;
        let native_required = options.backend == PJ_NATIVE_REQUIRED;
        let memory: Option<Arc<dyn ExecutableMemory>> = match options.memory.is_null() {
            true => None,
            false => {
                // SAFETY: as above.
                let memory = unsafe { read_sized(options.memory, PjMemory::ZERO, MEMORY_BYTES) }?;
                Some(Arc::new(HostPages::new(&memory)?))
            }
        };
        let options = Options { memory, ..options.engine_options(layout)? };
        let engine = Arc::new(Engine::new(options));
        if native_required && let Some(reason) = engine.no_native() {
            return Err(Fault::NoNative(reason.clone()));
        }
        let engine = Arc::new(PjEngine { engine, native_required });
        // SAFETY: not null; the header requires it to be writable.
        unsafe { to.write(Arc::into_raw(engine).cast_mut()) };
        Ok(PJ_OK)
    };
    // SAFETY: the header requires a valid `message`.
    unsafe { catch_panics_with_message(message, message_bytes, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_free(engine: *mut PjEngine) {
    catch_panics(|| {
        if !engine.is_null() {
            // SAFETY: a live handle of `pj_engine_new`, which this call ends.
            drop(unsafe { Arc::from_raw(engine.cast_const()) });
        }
        Ok(PJ_OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_clear(engine: *const PjEngine) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_engine_new`.
        unsafe { retain_engine(engine) }?.engine.clear();
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_cancel(engine: *const PjEngine) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_engine_new`.
        unsafe { retain_engine(engine) }?.engine.cancel();
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_resume(engine: *const PjEngine) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_engine_new`.
        unsafe { retain_engine(engine) }?.engine.resume();
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_wait(engine: *const PjEngine) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_engine_new`.
        unsafe { retain_engine(engine) }?.engine.wait();
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_stats(engine: *const PjEngine, stats: *mut PjStats) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_engine_new`.
        let cache = unsafe { retain_engine(engine) }?.engine.cache_stats();
        let value = PjStats {
            struct_size: size_of::<PjStats>(),
            hits: cache.hits,
            misses: cache.misses,
            evictions: cache.evictions,
            entries: cache.entries as u64,
            bytes: cache.bytes as u64,
        };
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(stats, &value, STATS_BYTES) }
    })
}

/// The shader of words that are unknown, or that have no native code though it is required.
///
/// # Safety
/// `engine` is null or a live handle of `pj_engine_new`.
#[cold]
#[inline(never)]
unsafe fn unknown_shader(
    engine: *const PjEngine,
    code: &[u32],
    opdescs: &[u32],
    entry: Entry,
) -> Result<Shader, Fault> {
    // SAFETY: the caller guarantees it.
    let engine = unsafe { retain_engine(engine) }?;
    let program = Program::from_words(code, opdescs).map_err(Fault::Program)?;
    engine.engine.try_shader(&program, entry).map_err(Fault::NoNative)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_get(
    engine: *const PjEngine,
    code: *const u32,
    code_words: usize,
    opdescs: *const u32,
    opdesc_words: usize,
    entry: u32,
    stage: u32,
    shader: *mut *mut PjShader,
    message: *mut c_char,
    message_bytes: usize,
) -> i32 {
    let work = || {
        // SAFETY: null, or a live handle of `pj_engine_new`. A lookup of known words calls no
        // function of the host, so no callback ends the handle and no count is necessary.
        let &PjEngine { engine: ref known, native_required } = unsafe { deref(engine) }?;
        let to = out_pointer(shader)?;
        // Checked before slices of impossible lengths exist.
        if code_words > MAX_CODE_WORDS {
            return Err(Fault::Program(ProgramError::TooLong { words: code_words }));
        }
        // SAFETY: the header requires arrays of these lengths.
        let (code, opdescs) =
            unsafe { (input_slice(code, code_words)?, input_slice(opdescs, opdesc_words.min(OPDESCS))?) };
        let pc = u16::try_from(entry).map_err(|_| Fault::InvalidArgument)?;
        let entry = match stage {
            PJ_VERTEX => Entry::vertex(pc),
            PJ_GEOMETRY => Entry::geometry(pc),
            _ => return Err(Fault::InvalidArgument),
        };
        let shader = match known.known_shader(code, opdescs, entry, false) {
            Some(shader) if !native_required || shader.fallback_reason().is_none() => shader,
            // SAFETY: as above.
            _ => unsafe { unknown_shader(engine, code, opdescs, entry) }?,
        };
        // SAFETY: not null; the header requires it to be writable.
        unsafe { to.write(Arc::into_raw(shader.into_inner()).cast::<PjShader>().cast_mut()) };
        Ok(PJ_OK)
    };
    // SAFETY: the header requires a valid `message`.
    unsafe { catch_panics_with_message(message, message_bytes, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_serves(
    shader: *const PjShader,
    code: *const u32,
    code_words: usize,
    opdescs: *const u32,
    opdesc_words: usize,
    entry: u32,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        // Checked before slices of impossible lengths exist.
        if code_words > MAX_CODE_WORDS {
            return Ok(0);
        }
        // SAFETY: the header requires arrays of these lengths.
        let (code, opdescs) =
            unsafe { (input_slice(code, code_words)?, input_slice(opdescs, opdesc_words.min(OPDESCS))?) };
        let stage = shader.source().1.stage;
        Ok(u16::try_from(entry).is_ok_and(|pc| shader.serves(code, opdescs, Entry { pc, stage })).into())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_retain(shader: *const PjShader) {
    if !shader.is_null() {
        // SAFETY: it came from `Arc::into_raw`, and the caller owns a reference.
        unsafe { Arc::increment_strong_count(shader.cast::<Compiled>()) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_release(shader: *const PjShader) {
    catch_panics(|| {
        if !shader.is_null() {
            // SAFETY: it came from `Arc::into_raw`, and the caller gives up its reference.
            unsafe { Arc::decrement_strong_count(shader.cast::<Compiled>()) };
        }
        Ok(PJ_OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_info_get(shader: *const PjShader, info: *mut PjShaderInfo) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        let stats = shader.stats();
        let value = PjShaderInfo {
            struct_size: size_of::<PjShaderInfo>(),
            tier: match shader.tier() {
                Tier::Tier0 => PJ_TIER_0,
                Tier::Native => PJ_TIER_NATIVE,
                Tier::Oracle => PJ_TIER_ORACLE,
            },
            deoptimised: stats.deoptimised,
            groups: stats.groups,
            bailouts: stats.bailouts,
            native_bytes: shader.native_bytes() as u64,
        };
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(info, &value, INFO_BYTES) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_analyse(shader: *const PjShader, analysis: *mut PjAnalysis) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        let found = shader.analysis().map_err(Fault::NoNative)?;
        let value = PjAnalysis {
            struct_size: size_of::<PjAnalysis>(),
            carried_temps: found.carried.temps,
            carried_outputs: found.carried.outputs,
            shortest_path: found.shortest_path.unwrap_or(u64::MAX),
            longest_path: found.longest_path.unwrap_or(u64::MAX),
            carried_state: found.carried.state.into(),
            independent: found.is_independent().into(),
            inputs: found.inputs.into(),
            outputs: found.outputs.into(),
            divergent_branches: found.divergent_branches,
            reserved: 0,
        };
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(analysis, &value, ANALYSIS_BYTES) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_text(shader: *const PjShader, kind: u32, text: *mut c_char, bytes: usize) -> i64 {
    let mut len = 0;
    let status = catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        let message = match kind {
            PJ_TEXT_FALLBACK => shader.fallback_reason().map(ToString::to_string),
            PJ_TEXT_SEQUENTIAL => shader.stats().sequential_reason,
            PJ_TEXT_DIVERGENCE => shader.divergence(),
            _ => return Err(Fault::InvalidArgument),
        };
        let message = message.unwrap_or_default();
        // SAFETY: the header requires `bytes` writable bytes.
        unsafe { copy_text(&message, text, bytes) };
        len = message.len() as i64;
        Ok(PJ_OK)
    });
    if status < 0 { status.into() } else { len }
}

/// The shader of a handle. The handle keeps its reference.
///
/// # Safety
/// `shader` is null or a live handle of `pj_shader_get`.
unsafe fn borrow_shader(shader: *const PjShader) -> Result<ManuallyDrop<Shader>, Fault> {
    if shader.is_null() {
        return Err(Fault::Null);
    }
    // SAFETY: the handle is the pointer of an `Arc`, and live.
    Ok(unsafe { engine::borrow(shader.cast()) })
}

/// The host's registers and uniforms.
///
/// # Safety
/// Both are null, or blocks of the shader's layout that live for `'a` and that no other code uses
/// meanwhile, except the host's own callbacks.
unsafe fn host<'a>(shader: &'a Shader, unit: *mut c_void, uniforms: *const c_void) -> Result<HostMemory<'a>, Fault> {
    // Shaders of a GPU have none.
    let layout = shader.layout().ok_or(Fault::InvalidArgument)?;
    if unit.is_null() || uniforms.is_null() {
        return Err(Fault::Null);
    }
    // SAFETY: the caller promises blocks of this layout.
    unsafe { engine::host(layout, unit, uniforms) }.map_err(|error| match error {
        HostError::Misaligned { .. } => Fault::Misaligned,
        HostError::Short { .. } => Fault::InvalidArgument,
    })
}

/// Whether neither pointer is null or misaligned.
#[inline]
fn are_blocks(unit: *const c_void, uniforms: *const c_void) -> bool {
    let aligned = (unit.addr() | uniforms.addr()).is_multiple_of(align_of::<PjUnit>());
    aligned && !unit.is_null() && !uniforms.is_null()
}

/// The host's EMIT callback.
struct EmitCallback {
    emit: PjEmitFn,
    user: *mut c_void,
}

impl HostEmitter for EmitCallback {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        let [primitive, winding] = [how.primitive, how.winding].map(u32::from);
        // SAFETY: the host's function gets the host's pointer.
        unsafe { (self.emit)(self.user, outputs.as_ptr(), u32::from(how.vertex & 3), primitive, winding) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_run(
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    emit: Option<PjEmitFn>,
    user: *mut c_void,
) -> i32 {
    if !shader.is_null() && are_blocks(unit, uniforms) {
        // SAFETY: a live handle of `pj_shader_get`.
        let compiled = unsafe { &(*shader).0 };
        if let Some(code) = compiled.direct().get() {
            // SAFETY: blocks of the shader's layout.
            return match unsafe { code.run(uniforms.cast(), unit.cast()) } {
                Some(exit) => exit as i32,
                // Direct code does not emit, so the callback need not be kept during the run.
                // SAFETY: the same.
                None => unsafe { run_by_kernel(shader, unit, uniforms, None, null_mut()) },
            };
        }
    }
    // SAFETY: the same.
    unsafe { run_by_kernel(shader, unit, uniforms, emit, user) }
}

/// `pj_run` where direct code does not serve the run, or an argument is wrong.
///
/// # Safety
/// As for `pj_run`.
#[inline(never)]
unsafe fn run_by_kernel(
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    emit: Option<PjEmitFn>,
    user: *mut c_void,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        // SAFETY: the header requires valid pointers.
        let host = unsafe { host(&shader, unit, uniforms) }?;
        let exit = match emit {
            None => shader.run_on(&host, &mut NoEmitter),
            Some(emit) => shader.run_on(&host, &mut EmitCallback { emit, user }),
        };
        Ok(exit as i32)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_direct_call(shader: *const PjShader, call: *mut DirectCall) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        // A shader of a GPU, whose units are none of the header.
        shader.layout().ok_or(Fault::InvalidArgument)?;
        // SAFETY: not null; the header requires it to be writable.
        unsafe { out_pointer(call)?.write(shader.direct_call()) };
        Ok(PJ_OK)
    })
}

#[cfg(test)]
mod tests;
