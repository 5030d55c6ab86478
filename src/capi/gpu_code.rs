//! The header's section on code for the host's GPU.

mod types;

use super::arguments::{check_memory, copy_text, deref, input_slice, out_pointer, read_sized, write_sized};
use super::status::PJ_OK;
use super::types::precision as precision_of;
use super::{Fault, PjShader, borrow_shader, catch_panics, catch_panics_of_length, host};
use crate::gpu_code::{Device, GpuCode, Interface, Promise, SelfTest};
use crate::state::Registers;
use std::ffi::{c_char, c_void};
pub use types::*;

/// `pj_gpu_code`. C owns it.
pub enum PjGpuCode {
    Shader(GpuCode),
    SelfTest(SelfTest),
}

impl PjGpuCode {
    pub(super) fn code(&self) -> &GpuCode {
        match self {
            PjGpuCode::Shader(code) => code,
            PjGpuCode::SelfTest(test) => &test.code,
        }
    }
}

/// Checks that a uniform block fits in the host's memory.
pub(super) fn at_least_the_block(bytes: usize, size: usize) -> Result<(), Fault> {
    if bytes >= size { Ok(()) } else { Err(Fault::Range("bytes", bytes as u64, "pj_gpu_code_info.block_bytes")) }
}

/// What the host describes.
///
/// # Safety
/// As the header requires: structures of their declared sizes, arrays of their lengths.
unsafe fn surroundings(interface: *const PjInterface, device: *const PjDevice) -> Result<(Interface, Device), Fault> {
    // SAFETY: the caller guarantees it; any bytes are valid.
    unsafe {
        let interface = match interface.is_null() {
            true => PjInterface::ZERO,
            false => read_sized(interface)?,
        };
        Ok((interface.interface()?, read_sized(device)?.device()?))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_code_get(
    shader: *const PjShader,
    interface: *const PjInterface,
    device: *const PjDevice,
    code: *mut *mut PjGpuCode,
) -> i32 {
    catch_panics(|| {
        let to = out_pointer(code, "code")?;
        // SAFETY: null, or a live handle of `pj_shader_get`; the header requires the rest.
        let (shader, (interface, device)) = unsafe { (borrow_shader(shader)?, surroundings(interface, device)?) };
        check_memory(8 << 20)?;
        let code = shader.gpu_code(&interface, &device).map_err(Fault::NoGpuCode)?;
        let code = Box::new(PjGpuCode::Shader(code));
        // SAFETY: not null; the header requires it to be writable.
        unsafe { to.write(Box::into_raw(code)) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_self_test_get(
    precision: u32,
    interface: *const PjInterface,
    device: *const PjDevice,
    code: *mut *mut PjGpuCode,
    test: *mut PjGpuSelfTest,
) -> i32 {
    catch_panics(|| {
        let to = out_pointer(code, "code")?;
        // SAFETY: the header requires it.
        let (interface, device) = unsafe { surroundings(interface, device) }?;
        check_memory(8 << 20)?;
        let made =
            SelfTest::new(precision_of(precision, "precision")?, &interface, &device).map_err(Fault::NoGpuCode)?;
        let value = PjGpuSelfTest {
            struct_size: size_of::<PjGpuSelfTest>(),
            block: made.block.as_ptr().cast(),
            block_bytes: made.block.len(),
            count: made.inputs.len(),
            inputs: made.inputs.as_ptr().cast(),
            outputs: made.outputs.as_ptr().cast(),
        };
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(test, value) }?;
        let code = Box::new(PjGpuCode::SelfTest(made));
        // SAFETY: not null; the header requires it to be writable.
        unsafe { to.write(Box::into_raw(code)) };
        Ok(PJ_OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_self_test_differences(
    code: *const PjGpuCode,
    outputs: *const f32,
    count: usize,
) -> i64 {
    catch_panics_of_length(|| {
        // SAFETY: null, or a live handle; the header requires `count` vertices.
        let (code, outputs) =
            unsafe { (deref(code, "code")?, input_slice(outputs.cast::<Registers>(), count, "outputs")?) };
        let PjGpuCode::SelfTest(test) = code else { return Err(Fault::Kind("code", "that of pj_gpu_self_test_get")) };
        Ok(test.differences(outputs) as i64)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_code_free(code: *mut PjGpuCode) {
    catch_panics(|| {
        if !code.is_null() {
            // SAFETY: a live handle of this file, which this call ends.
            drop(unsafe { Box::from_raw(code) });
        }
        Ok(PJ_OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_code_info_get(code: *const PjGpuCode, info: *mut PjGpuCodeInfo) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle.
        let code = unsafe { deref(code, "code") }?.code();
        let assumed = code.assumed_zero();
        let value = PjGpuCodeInfo {
            struct_size: size_of::<PjGpuCodeInfo>(),
            spirv: code.spirv().as_ptr(),
            spirv_words: code.spirv().len(),
            inputs: code.inputs().into(),
            outputs: code.outputs().into(),
            equal_subnormals: (code.promise() == Promise::EqualBits).into(),
            assumed_state: assumed.state.into(),
            assumed_temps: assumed.temps,
            assumed_outputs: assumed.outputs,
            block_bytes: code.uniform_block_size(),
        };
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(info, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_code_glsl(
    code: *const PjGpuCode,
    dialect: u32,
    text: *mut c_char,
    bytes: usize,
) -> i64 {
    catch_panics_of_length(|| {
        // SAFETY: null, or a live handle.
        let code = unsafe { deref(code, "code") }?;
        let whole = code.code().glsl(types::dialect(dialect)?);
        // SAFETY: the header requires `bytes` writable bytes.
        unsafe { copy_text(&whole, text, bytes) };
        Ok(whole.len() as i64)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_code_uniforms(
    code: *const PjGpuCode,
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    block: *mut c_void,
    bytes: usize,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or live handles.
        let (code, shader) = unsafe { (deref(code, "code")?, borrow_shader(shader)?) };
        let to = out_pointer(block.cast::<u8>(), "block")?;
        // SAFETY: the header requires valid pointers.
        let uniforms = unsafe { host(&shader, unit, uniforms) }?.load().1;
        let contents = code.code().uniform_block(&uniforms);
        at_least_the_block(bytes, contents.len())?;
        // SAFETY: the header requires `bytes` writable bytes, and the block has no more.
        unsafe { to.as_ptr().copy_from_nonoverlapping(contents.as_ptr(), contents.len()) };
        Ok(PJ_OK)
    })
}
