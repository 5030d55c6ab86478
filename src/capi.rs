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
mod fault;
mod geometry;
mod gpu;
mod gpu_code;
mod memory;
mod status;
mod trace;
mod types;

use crate::engine::{self, Compiled, DirectCall, Engine, Options, Shader, Tier};
use crate::executable::ExecutableMemory;
use crate::isa::{MAX_CODE_WORDS, OPDESCS};
use crate::layout::{HostEmitter, HostError, HostMemory, Layout};
use crate::program::{Entry, Program, ProgramError};
use crate::state::{EmitState, NoEmitter, Registers};
use arguments::{check_memory, copy_text, deref, input_slice, out_pointer, read_sized, read_sized_field, write_sized};
pub use batch::*;
use fault::{Fault, catch_panics, catch_panics_of_length};
pub use geometry::*;
pub use gpu::*;
pub use gpu_code::*;
use memory::HostPages;
pub use status::*;
use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;
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

/// A reference to the engine that lasts for the call, whatever its callbacks do.
///
/// # Safety
/// `engine` is null or a live handle of `pj_engine_new`.
unsafe fn retain_engine(engine: *const PjEngine) -> Result<Arc<PjEngine>, Fault> {
    if engine.is_null() {
        return Err(Fault::Null("engine"));
    }
    // SAFETY: it came from `Arc::into_raw`, and the handle is live.
    unsafe {
        Arc::increment_strong_count(engine);
        Ok(Arc::from_raw(engine))
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pj_version() -> u32 {
    VERSION
}

#[unsafe(no_mangle)]
pub extern "C" fn pj_status_text(status: i32) -> *const c_char {
    fault::status_text(status).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn pj_last_error() -> *const c_char {
    fault::last_error()
}

/// The function that hosts compiled with a header before 0.7 call. They don't say their version, and
/// their structures have other fields, so those are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_new(
    _: *const PjOptions,
    _: *mut *mut PjEngine,
    message: *mut c_char,
    message_bytes: usize,
) -> i32 {
    catch_panics(|| {
        let fault = Fault::Version(None);
        // SAFETY: all these headers required a text of that size, or null.
        unsafe { copy_text(&fault.to_string(), message, message_bytes) };
        Err(fault)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_new_for(version: u32, options: *const PjOptions, engine: *mut *mut PjEngine) -> i32 {
    catch_panics(|| {
        // Nothing is read before this: another version has other structures. Patch numbers change none.
        if version >> 8 != VERSION >> 8 {
            return Err(Fault::Version(Some(version)));
        }
        let to = out_pointer(engine, "engine")?;
        check_memory(4 << 20)?;
        let options = match options.is_null() {
            true => PjOptions::ZERO,
            // SAFETY: the header requires a structure of its declared size; any bytes are valid.
            false => unsafe { read_sized(options) }?,
        };
        let layout = match options.layout.is_null() {
            true => UNIT_LAYOUT,
            // SAFETY: as above.
            false => unsafe { read_sized_field(options.layout, "pj_options.layout") }?.offsets()?,
        };
        let layout = Layout::new(layout).map_err(|error| Fault::Layout(types::with_c_names(error)))?;
        let native_required = options.backend == PJ_NATIVE_REQUIRED;
        let memory: Option<Arc<dyn ExecutableMemory>> = match options.memory.is_null() {
            true => None,
            false => {
                // SAFETY: as above.
                let memory = unsafe { read_sized_field(options.memory, "pj_options.memory") }?;
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
    })
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
        let engine = unsafe { retain_engine(engine) }?;
        let cache = engine.engine.cache_stats();
        let value = PjStats {
            struct_size: size_of::<PjStats>(),
            hits: cache.hits,
            misses: cache.misses,
            evictions: cache.evictions,
            entries: cache.entries as u64,
            bytes: cache.bytes as u64,
            compilations: engine.engine.unfinished_compilations() as u64,
            native: engine.engine.has_native().into(),
        };
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(stats, value) }
    })
}

/// The words of a program.
///
/// # Safety
/// The arrays have these lengths for `'a`.
unsafe fn words<'a>(
    code: *const u32,
    code_words: usize,
    opdescs: *const u32,
    opdesc_words: usize,
) -> Result<(&'a [u32], &'a [u32]), Fault> {
    // Checked before slices of impossible lengths exist.
    if code_words > MAX_CODE_WORDS {
        return Err(Fault::Program(ProgramError::TooLong { words: code_words }));
    }
    // SAFETY: the caller guarantees it.
    unsafe { Ok((input_slice(code, code_words, "code")?, input_slice(opdescs, opdesc_words.min(OPDESCS), "opdescs")?)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_program_hash(
    code: *const u32,
    code_words: usize,
    opdescs: *const u32,
    opdesc_words: usize,
    hash: *mut [u8; 16],
) -> i32 {
    catch_panics(|| {
        let to = out_pointer(hash, "hash")?;
        // SAFETY: the header requires arrays of these lengths.
        let (code, opdescs) = unsafe { words(code, code_words, opdescs, opdesc_words) }?;
        let hash = Program::from_words(code, opdescs).map_err(Fault::Program)?.hash128();
        // SAFETY: not null; the header requires it to be writable.
        unsafe { to.write(hash.0.to_be_bytes()) };
        Ok(PJ_OK)
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
    // The largest graph takes 1.6 MB.
    check_memory(4 << 20)?;
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
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_engine_new`. A lookup of known words calls no
        // function of the host, so no callback ends the handle and no count is necessary.
        let &PjEngine { engine: ref known, native_required } = unsafe { deref(engine, "engine") }?;
        let to = out_pointer(shader, "shader")?;
        // SAFETY: the header requires arrays of these lengths.
        let (code, opdescs) = unsafe { words(code, code_words, opdescs, opdesc_words) }?;
        let pc = u16::try_from(entry).map_err(|_| Fault::Range("entry", entry.into(), "at most 65535"))?;
        let entry = match stage {
            PJ_VERTEX => Entry::vertex(pc),
            PJ_GEOMETRY => Entry::geometry(pc),
            _ => return Err(Fault::Range("stage", stage.into(), "PJ_VERTEX (0) or PJ_GEOMETRY (1)")),
        };
        let shader = match known.known_shader(code, opdescs, entry, false) {
            Some(shader) if !native_required || shader.fallback_reason().is_none() => shader,
            // SAFETY: as above.
            _ => unsafe { unknown_shader(engine, code, opdescs, entry) }?,
        };
        // SAFETY: not null; the header requires it to be writable.
        unsafe { to.write(Arc::into_raw(shader.into_inner()).cast::<PjShader>().cast_mut()) };
        Ok(PJ_OK)
    })
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
        // No shader has a program beyond the limit.
        if code_words > MAX_CODE_WORDS {
            return Ok(0);
        }
        // SAFETY: the header requires arrays of these lengths.
        let (code, opdescs) = unsafe { words(code, code_words, opdescs, opdesc_words) }?;
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
        unsafe { write_sized(info, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_analyse(shader: *const PjShader, analysis: *mut PjAnalysis) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        check_memory(4 << 20)?;
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
        unsafe { write_sized(analysis, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_text(shader: *const PjShader, kind: u32, text: *mut c_char, bytes: usize) -> i64 {
    catch_panics_of_length(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        let message = match kind {
            PJ_TEXT_FALLBACK => shader.fallback_reason().map(ToString::to_string),
            PJ_TEXT_SEQUENTIAL => shader.stats().sequential_reason,
            PJ_TEXT_DIVERGENCE => shader.divergence(),
            _ => {
                let kinds = "PJ_TEXT_FALLBACK (0) to PJ_TEXT_DIVERGENCE (2)";
                return Err(Fault::Range("kind", kind.into(), kinds));
            }
        };
        let message = message.unwrap_or_default();
        // SAFETY: the header requires `bytes` writable bytes.
        unsafe { copy_text(&message, text, bytes) };
        Ok(message.len() as i64)
    })
}

/// The shader of a handle. The handle keeps its reference.
///
/// # Safety
/// `shader` is null or a live handle of `pj_shader_get`.
unsafe fn borrow_shader(shader: *const PjShader) -> Result<ManuallyDrop<Shader>, Fault> {
    if shader.is_null() {
        return Err(Fault::Null("shader"));
    }
    // SAFETY: the handle is the pointer of an `Arc`, and live.
    Ok(unsafe { engine::borrow(shader.cast()) })
}

/// A run on a GPU's shader, whose units are none of the header.
const IN_DRAWS_ONLY: Fault = Fault::Kind("shader", "one of pj_shader_get; that of a pj_placement runs in draws only");

/// The host's registers and uniforms.
///
/// # Safety
/// Both are null, or blocks of the shader's layout that live for `'a` and that no other code uses
/// meanwhile, except the host's own callbacks.
unsafe fn host<'a>(shader: &'a Shader, unit: *mut c_void, uniforms: *const c_void) -> Result<HostMemory<'a>, Fault> {
    let layout = shader.layout().ok_or(IN_DRAWS_ONLY)?;
    if unit.is_null() || uniforms.is_null() {
        return Err(Fault::Null(if unit.is_null() { "unit" } else { "uniforms" }));
    }
    // SAFETY: the caller promises blocks of this layout.
    unsafe { engine::host(layout, unit, uniforms) }.map_err(|error| match error {
        HostError::Misaligned { block } => Fault::Misaligned(block, align_of::<PjUnit>()),
        HostError::Short { .. } => unreachable!("the blocks have the sizes of their layout"),
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
        shader.layout().ok_or(IN_DRAWS_ONLY)?;
        // SAFETY: not null; the header requires it to be writable.
        unsafe { out_pointer(call, "call")?.write(shader.direct_call()) };
        Ok(PJ_OK)
    })
}

#[cfg(test)]
mod tests;
