//! The C interface: what `include/picajit.h` declares -> calls of [`engine`](crate::engine).
//!
//! Invariant: every pointer is looked at before it is used, no panic gets out, and nothing is kept of what a call was given
//! but what the header says. Runs are made on the host's memory, in place. It must not know how shaders run.

#![allow(unsafe_code)]
// The header has the words for these; here they would be said twice. C has no fewer arguments either.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]

mod gpu;
mod memory;
mod trace;
mod types;

use crate::engine::{Engine, Options, Shader};
use crate::executable::ExecutableMemory;
use crate::isa::{MAX_CODE_WORDS, OPDESCS, REGS};
use crate::kernel::{Config, Unsupported};
use crate::layout::{Host, HostEmitter, HostError, Layout};
use crate::program::{Entry, Program, ProgramError};
use crate::state::{Batch, EmitState, NoEmitter, Registers, Vec4, VertexLayout, Vertices, VerticesMut};
pub use gpu::*;
use memory::HostMemory;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
pub use trace::*;
pub use types::*;

/// `pj_engine`, which C has the one strong count of that is not a call's: a callback may free the engine that is at work.
pub struct PjEngine {
    engine: Arc<Engine>,
    /// What it was made with.
    config: Config,
    native_required: bool,
}

/// `pj_shader`, which C has a strong count of an `Arc` of.
pub struct PjShader(Shader, Source);

/// What goes wrong before anything is done.
#[derive(Debug)]
enum Fault {
    Null,
    Argument,
    Layout(crate::layout::LayoutError),
    Program(ProgramError),
    NoNative(Option<Unsupported>),
    Misaligned,
    Overlap,
    Busy,
    Directory(std::io::ErrorKind),
}

impl Fault {
    fn status(&self) -> i32 {
        match self {
            Fault::Null => PJ_NULL,
            Fault::Argument => PJ_ARGUMENT,
            Fault::Layout(_) => PJ_LAYOUT,
            Fault::Program(_) => PJ_PROGRAM,
            Fault::NoNative(_) => PJ_NO_NATIVE,
            Fault::Misaligned => PJ_MISALIGNED,
            Fault::Overlap => PJ_OVERLAP,
            Fault::Busy => PJ_BUSY,
            Fault::Directory(_) => PJ_IO,
        }
    }

    fn message(&self) -> String {
        match self {
            Fault::Layout(error) => error.to_string(),
            Fault::Program(error) => error.to_string(),
            Fault::NoNative(Some(reason)) => reason.to_string(),
            Fault::Directory(error) => format!("{}: {error}", status_text(self.status()).to_string_lossy()),
            _ => status_text(self.status()).to_string_lossy().into_owned(),
        }
    }
}

/// The result of `work` as C knows it. A panic is a bug of ours and must not go on into C.
fn guarded(work: impl FnOnce() -> Result<i32, Fault>) -> i32 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.unwrap_or_else(|fault| fault.status()),
        Err(_) => PJ_INTERNAL,
    }
}

/// [`guarded`], with words for who asked for them.
///
/// # Safety
/// `message` is null or `bytes` bytes may be written there.
unsafe fn explained(message: *mut c_char, bytes: usize, work: impl FnOnce() -> Result<i32, Fault>) -> i32 {
    let mut said = String::new();
    let status = guarded(|| work().inspect_err(|fault| said = fault.message()));
    if status < 0 && said.is_empty() {
        said = status_text(status).to_string_lossy().into_owned();
    }
    if status < 0 {
        // SAFETY: the caller's.
        unsafe { copy_text(&said, message, bytes) };
    }
    status
}

/// Copies as much of a text as fits, whole characters, and ends it.
///
/// # Safety
/// `to` is null or `bytes` bytes may be written there.
unsafe fn copy_text(text: &str, to: *mut c_char, bytes: usize) {
    if to.is_null() || bytes == 0 {
        return;
    }
    let end = (0..bytes.min(text.len() + 1)).rev().find(|&n| text.is_char_boundary(n)).unwrap_or(0);
    // SAFETY: `end` is less than `bytes`, which the caller vouches for, and no more than the text's length.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), end);
        to.add(end).write(0);
    }
}

/// # Safety
/// `pointer` is null or valid for `'a`.
unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller's.
    unsafe { pointer.as_ref() }.ok_or(Fault::Null)
}

/// The engine, which lives until the call is over whatever its callbacks do.
///
/// # Safety
/// `engine` is null or one that `pj_engine_new` gave, and nobody has freed it yet.
unsafe fn held(engine: *const PjEngine) -> Result<Arc<PjEngine>, Fault> {
    if engine.is_null() {
        return Err(Fault::Null);
    }
    // SAFETY: it came from `Arc::into_raw`, and the caller has not given it back.
    unsafe {
        Arc::increment_strong_count(engine);
        Ok(Arc::from_raw(engine))
    }
}

/// A place for a result.
fn place<T>(pointer: *mut T) -> Result<NonNull<T>, Fault> {
    checked(pointer, 1)?;
    NonNull::new(pointer).ok_or(Fault::Null)
}

/// # Safety
/// `pointer` is null, or `len` of its type can be read there for `'a`, and nobody writes them meanwhile.
unsafe fn array<'a, T>(pointer: *const T, len: usize) -> Result<&'a [T], Fault> {
    if len == 0 {
        return Ok(&[]);
    }
    checked(pointer, len)?;
    // SAFETY: not null, aligned, no longer than a slice may be; the rest is the caller's.
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

fn checked<T>(pointer: *const T, len: usize) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::Null);
    }
    if !pointer.is_aligned() {
        return Err(Fault::Misaligned);
    }
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Fault::Argument),
    }
}

/// What a structure says of its size, if that can be: one that a version had, all of which are in `known`, or more than ours,
/// from a host that knows more.
///
/// # Safety
/// `pointer` is null or valid for reading its first field.
unsafe fn said_size<T>(pointer: *const T, known: &[usize]) -> Result<usize, Fault> {
    checked(pointer, 1)?;
    // SAFETY: such structures begin with their size.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    let version = known.contains(&bytes) || (size_of::<T>()..=largest::<T>()).contains(&bytes);
    if version { Ok(bytes) } else { Err(Fault::Argument) }
}

/// The fields that both sides know of a structure that begins with its size, over those of `default`. Half a field, as half a
/// pointer, would be worse than none: sizes that no version had are refused.
///
/// # Safety
/// `pointer` is null or valid for as many bytes as its first field says. Any bytes make a `T`.
unsafe fn sized<T>(pointer: *const T, mut default: T, known: &[usize]) -> Result<T, Fault> {
    // SAFETY: the caller's.
    let bytes = unsafe { said_size(pointer, known) }?;
    // SAFETY: no more bytes than either side has, and any make a `T`.
    unsafe { (&raw mut default).cast::<u8>().copy_from_nonoverlapping(pointer.cast(), bytes.min(size_of::<T>())) };
    Ok(default)
}

/// Puts as much of `value`, which begins with its size, as the host has room for. The size field stays the host's.
///
/// # Safety
/// `to` is null, or valid for writing as many bytes as its first field says.
unsafe fn answer<T>(to: *mut T, value: &T, known: &[usize]) -> Result<i32, Fault> {
    let head = size_of::<usize>();
    // SAFETY: the caller's.
    let bytes = unsafe { said_size(to, known) }?.min(size_of::<T>()) - head;
    // SAFETY: behind the size, no more bytes than either side has. Our structures have no padding.
    unsafe {
        let from = std::ptr::from_ref(value).cast::<u8>().add(head);
        to.cast::<u8>().add(head).copy_from_nonoverlapping(from, bytes);
    }
    Ok(PJ_OK)
}

#[unsafe(no_mangle)]
pub extern "C" fn pj_version() -> u32 {
    let part = |text: &str| text.parse::<u32>().expect("cargo's version numbers are numbers");
    let [major, minor, patch] =
        [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")].map(part);
    major << 16 | minor << 8 | patch
}

/// A status in words.
fn status_text(status: i32) -> &'static CStr {
    match status {
        PJ_NULL => c"a pointer is null",
        PJ_ARGUMENT => c"a number means nothing here",
        PJ_LAYOUT => c"a layout is wrong",
        PJ_PROGRAM => c"a program is too long",
        PJ_NO_NATIVE => c"there is no native code",
        PJ_MISALIGNED => c"memory is not aligned",
        PJ_OVERLAP => c"inputs or outputs of the batch lie where they must not",
        PJ_INTERNAL => c"an internal error",
        PJ_BUSY => c"the GPU is in use",
        PJ_IO => c"the directory of programs can't be read",
        0.. => c"no error",
        _ => c"an unknown status",
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
        let to = place(engine)?;
        let options = match options.is_null() {
            true => PjOptions::DEFAULT,
            // SAFETY: the header asks for a structure of the size that it says; any bytes make one.
            false => unsafe { sized(options, PjOptions::DEFAULT, OPTIONS_BYTES) }?,
        };
        let layout = match options.layout.is_null() {
            true => UNIT_LAYOUT,
            // SAFETY: as above.
            false => unsafe { sized(options.layout, PjLayout::default(), LAYOUT_BYTES) }?.offsets()?,
        };
        let layout = Layout::new(layout).map_err(Fault::Layout)?;
        let native_required = options.backend == PJ_NATIVE_REQUIRED;
        let memory: Option<Arc<dyn ExecutableMemory>> = match options.memory.is_null() {
            true => None,
            false => {
                // SAFETY: as above.
                let memory = unsafe { sized(options.memory, PjMemory::NOTHING, MEMORY_BYTES) }?;
                Some(Arc::new(HostMemory::new(&memory)?))
            }
        };
        let options = Options { memory, ..options.translated(layout)? };
        let config = Config { precision: options.precision, fuel: options.fuel, layout: options.layout };
        let engine = Arc::new(Engine::new(options));
        if native_required && let Some(reason) = engine.no_native() {
            return Err(Fault::NoNative(Some(reason.clone())));
        }
        let engine = Arc::new(PjEngine { engine, config, native_required });
        // SAFETY: not null, and the header asks for a place to write a pointer to.
        unsafe { to.write(Arc::into_raw(engine).cast_mut()) };
        Ok(PJ_OK)
    };
    // SAFETY: the header's words on `message`.
    unsafe { explained(message, message_bytes, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_free(engine: *mut PjEngine) {
    guarded(|| {
        if !engine.is_null() {
            // SAFETY: it is one that `pj_engine_new` gave, and nobody uses it any more.
            drop(unsafe { Arc::from_raw(engine.cast_const()) });
        }
        Ok(PJ_OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_clear(engine: *const PjEngine) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_engine_new` gave.
        unsafe { held(engine) }?.engine.clear();
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_wait(engine: *const PjEngine) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_engine_new` gave.
        unsafe { held(engine) }?.engine.wait();
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_preload(
    engine: *const PjEngine,
    preloaded: *mut PjPreloaded,
    message: *mut c_char,
    message_bytes: usize,
) -> i32 {
    let work = || {
        // SAFETY: null, or one that `pj_engine_new` gave.
        let engine = unsafe { held(engine) }?;
        if !preloaded.is_null() {
            // SAFETY: the header asks for a structure that begins with its size.
            unsafe { said_size(preloaded, PRELOADED_BYTES) }?;
        }
        let seen = engine.engine.preload().map_err(|error| Fault::Directory(error.kind()))?;
        if preloaded.is_null() {
            return Ok(PJ_OK);
        }
        let [programs, rejected, skipped] = [seen.programs, seen.rejected, seen.skipped].map(|n| n as u64);
        let value = PjPreloaded { struct_size: size_of::<PjPreloaded>(), programs, rejected, skipped };
        // SAFETY: and of the size that it says.
        unsafe { answer(preloaded, &value, PRELOADED_BYTES) }
    };
    // SAFETY: the header's words on `message`.
    unsafe { explained(message, message_bytes, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_engine_stats(engine: *const PjEngine, stats: *mut PjStats) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_engine_new` gave.
        let seen = unsafe { held(engine) }?.engine.cache_stats();
        let value = PjStats {
            struct_size: size_of::<PjStats>(),
            hits: seen.hits,
            misses: seen.misses,
            evictions: seen.evictions,
            entries: seen.entries as u64,
            bytes: seen.bytes as u64,
        };
        // SAFETY: the header asks for a structure of the size that it says.
        unsafe { answer(stats, &value, STATS_BYTES) }
    })
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
        // SAFETY: null, or one that `pj_engine_new` gave.
        let engine = unsafe { held(engine) }?;
        let to = place(shader)?;
        // Before there are slices of lengths that no memory has.
        if code_words > MAX_CODE_WORDS {
            return Err(Fault::Program(ProgramError::TooLong { words: code_words }));
        }
        // SAFETY: the header asks for arrays of these lengths.
        let (code, opdescs) = unsafe { (array(code, code_words)?, array(opdescs, opdesc_words.min(OPDESCS))?) };
        let program = Program::from_words(code, opdescs).map_err(Fault::Program)?;
        let pc = u16::try_from(entry).map_err(|_| Fault::Argument)?;
        let entry = match stage {
            PJ_VERTEX => Entry::vertex(pc),
            PJ_GEOMETRY => Entry::geometry(pc),
            _ => return Err(Fault::Argument),
        };
        let shader = engine.engine.shader(&program, entry);
        if engine.native_required {
            shader.compile_now();
        }
        if engine.native_required && shader.backend() == "interp" {
            return Err(Fault::NoNative(shader.fallback_reason().cloned()));
        }
        let shader = Arc::new(PjShader(shader, Source { program, entry, config: engine.config }));
        // SAFETY: not null, and the header asks for a place to write a pointer to.
        unsafe { to.write(Arc::into_raw(shader).cast_mut()) };
        Ok(PJ_OK)
    };
    // SAFETY: the header's words on `message`.
    unsafe { explained(message, message_bytes, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_retain(shader: *const PjShader) {
    if !shader.is_null() {
        // SAFETY: it came from `Arc::into_raw`, and the caller is one of its users.
        unsafe { Arc::increment_strong_count(shader) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_release(shader: *const PjShader) {
    guarded(|| {
        if !shader.is_null() {
            // SAFETY: it came from `Arc::into_raw`, and the caller is one of its users, and is none any more.
            unsafe { Arc::decrement_strong_count(shader) };
        }
        Ok(PJ_OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_info_get(shader: *const PjShader, info: *mut PjShaderInfo) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_shader_get` gave and somebody uses.
        let shader = &unsafe { given(shader) }?.0;
        let seen = shader.stats();
        let value = PjShaderInfo {
            struct_size: size_of::<PjShaderInfo>(),
            native: u32::from(shader.backend() != "interp"),
            deoptimised: seen.deoptimised,
            groups: seen.groups,
            bailouts: seen.bailouts,
            native_bytes: shader.native_bytes() as u64,
        };
        // SAFETY: the header asks for a structure of the size that it says.
        unsafe { answer(info, &value, INFO_BYTES) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_shader_text(shader: *const PjShader, what: u32, text: *mut c_char, bytes: usize) -> i64 {
    let mut len = 0;
    let status = guarded(|| {
        // SAFETY: null, or one that `pj_shader_get` gave and somebody uses.
        let shader = &unsafe { given(shader) }?.0;
        let told = match what {
            PJ_TEXT_FALLBACK => shader.fallback_reason().map(ToString::to_string),
            PJ_TEXT_SEQUENTIAL => shader.stats().sequential_reason,
            PJ_TEXT_DIVERGENCE => shader.divergence(),
            _ => return Err(Fault::Argument),
        };
        let told = told.unwrap_or_default();
        // SAFETY: the header asks for room for so many bytes.
        unsafe { copy_text(&told, text, bytes) };
        len = told.len() as i64;
        Ok(PJ_OK)
    });
    if status < 0 { status.into() } else { len }
}

/// The host's memory.
///
/// # Safety
/// Both are null, or blocks as the shader's layout says, that live for `'a` and are used by nobody else meanwhile, but for
/// the host's own callbacks.
unsafe fn host<'a>(shader: &'a PjShader, unit: *mut c_void, uniforms: *const c_void) -> Result<Host<'a>, Fault> {
    let layout = shader.0.layout().expect("engines are made for one here");
    if unit.is_null() || uniforms.is_null() {
        return Err(Fault::Null);
    }
    // Here already, because what is not aligned need not have a whole block behind it.
    if [unit.addr(), uniforms.addr()].iter().any(|at| !at.is_multiple_of(align_of::<PjUnit>())) {
        return Err(Fault::Misaligned);
    }
    // SAFETY: cells may be written by others on this thread, and are written here if they are the unit's: those of the uniforms
    // are not, and C's `const` pointer may be one to the unit. The lengths are those of the layout, less than 2^31.
    let (unit, uniforms) = unsafe {
        let bytes = |at: *const c_void, len: u32| slice::from_raw_parts(at.cast::<Cell<u8>>(), len as usize);
        (bytes(unit, layout.offsets().unit_bytes), bytes(uniforms, layout.offsets().uniforms_bytes))
    };
    Host::new(layout, unit, uniforms).map_err(|error| match error {
        HostError::Misaligned { .. } => Fault::Misaligned,
        HostError::Short { .. } => Fault::Argument,
    })
}

/// The host's callback.
struct Callback {
    emit: PjEmitFn,
    user: *mut c_void,
}

impl HostEmitter for Callback {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        let [primitive, winding] = [how.primitive, how.winding].map(u32::from);
        // SAFETY: a function of this type, with the pointer that came with it.
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
    guarded(|| {
        // SAFETY: null, or one that `pj_shader_get` gave and somebody uses.
        let shader = unsafe { given(shader) }?;
        // SAFETY: the header's words on both.
        let host = unsafe { host(shader, unit, uniforms) }?;
        let exit = match emit {
            None => shader.0.run_on(&host, &mut NoEmitter),
            Some(emit) => shader.0.run_on(&host, &mut Callback { emit, user }),
        };
        Ok(exit as i32)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_run_batch(
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    batch: *const PjBatch,
) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_shader_get` gave and somebody uses.
        let shader = unsafe { given(shader) }?;
        // SAFETY: the header's words on both.
        let host = unsafe { host(shader, unit, uniforms) }?;
        // SAFETY: the header asks for a structure of the size that it says; any bytes make one.
        let PjBatch {
            count,
            inputs,
            outputs,
            input_mask,
            output_mask,
            input_stride,
            output_stride,
            preserve_unit,
            vertex_layout,
            ..
        } = unsafe { sized(batch, PjBatch::NOTHING, BATCH_BYTES) }?;
        let [input_stride, output_stride] =
            [input_stride, output_stride].map(|stride| if stride == 0 { REGS } else { stride.into() });
        if input_stride.max(output_stride) > REGS
            || preserve_unit.max(vertex_layout) > 1
            || vertex_layout == PJ_SOA && !count.is_multiple_of(4)
        {
            return Err(Fault::Argument);
        }
        if count == 0 {
            return Ok(PJ_END);
        }
        let (inputs, outputs): (*const Vec4, *mut Vec4) = (inputs.cast(), outputs.cast());
        let [read, written] = [input_stride, output_stride].map(|stride| count.saturating_mul(stride));
        checked(inputs, read)?;
        checked(outputs, written)?;
        let bytes = |at: usize, len: usize| at..at.saturating_add(len);
        let from = bytes(inputs.addr(), read * size_of::<Vec4>());
        let to = bytes(outputs.addr(), written * size_of::<Vec4>());
        let [registers, constants] = [host.unit(), host.uniforms()].map(|m| bytes(m.as_ptr().addr(), m.len()));
        let meet = |a: &std::ops::Range<usize>, b: &std::ops::Range<usize>| a.start < b.end && b.start < a.end;
        if meet(&from, &to) || meet(&to, &registers) || meet(&to, &constants) || meet(&from, &registers) {
            return Err(Fault::Overlap);
        }
        // SAFETY: checked for null, alignment and length; nothing else that is used here meets them; the header asks for the rest.
        let (inputs, outputs) =
            unsafe { (slice::from_raw_parts(inputs, read), slice::from_raw_parts_mut(outputs, written)) };
        let inputs = Vertices::packed(inputs, input_stride, count).expect("checked");
        let outputs = VerticesMut::packed(outputs, output_stride, count).expect("checked");
        let preserve_unit = preserve_unit == 1;
        let layout = if vertex_layout == PJ_SOA { VertexLayout::Soa } else { VertexLayout::Aos };
        let mut batch = Batch { inputs, outputs, input_mask, output_mask, preserve_unit, layout };
        let exit = shader.0.run_batch_on(&host, &mut batch);
        Ok(exit as i32)
    })
}

#[cfg(test)]
mod tests;
