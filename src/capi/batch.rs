//! A batch in the host's memory -> one run of all its vertices.
//!
//! Invariant: arrays that overlap each other, the registers or, for outputs, the uniforms are an
//! error. This file must not know how vertices run.

use super::arguments::{at_most, check_pointer, optional_pointer, overlap, read_sized};
use super::status::PJ_END;
use super::types::PjBatch;
use super::{Fault, PjShader, are_blocks, borrow_shader, catch_panics, host};
use crate::engine::Compiled;
use crate::isa::REGS;
use crate::kernel::direct::Vertex;
use crate::layout::Offsets;
use crate::state::{Batch, BatchExit, Exit, Registers, Vec4, Vertices, VerticesMut};
use std::ffi::c_void;
use std::ops::Range;
use std::slice;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_run_batch(
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    batch: *const PjBatch,
) -> i32 {
    if !shader.is_null() && are_blocks(unit, uniforms) && !batch.is_null() && batch.is_aligned() {
        // SAFETY: a live handle of `pj_shader_get`, blocks of its layout, and a structure of which
        // as much is read as it declares. Read as a whole: the host may have placed it in its outputs.
        unsafe {
            if (*batch).struct_size == size_of::<PjBatch>() && (*batch).count == 1 {
                let batch = batch.read();
                if let Some(exit) = run_one(&(*shader).0, unit.cast(), uniforms.cast(), &batch) {
                    report(batch.ran, 1);
                    return exit as i32;
                }
            }
        }
    }
    // SAFETY: the same, or an error.
    unsafe { run_any(shader, unit, uniforms, batch) }
}

/// Reports the number of vertices that ran.
///
/// # Safety
/// `to` is null, or valid as the header says.
#[inline(always)]
pub(super) unsafe fn report(to: *mut usize, ran: usize) {
    if !to.is_null() {
        // SAFETY: the caller promises it.
        unsafe { to.write(ran) };
    }
}

/// A batch of one vertex on direct code, which does not panic. `None`: direct code does not serve
/// it, or an argument is wrong.
///
/// # Safety
/// `unit` and `uniforms` are blocks of the shader's layout. The batch's pointers are wrong as
/// [`Arrays::new`] notices, or valid.
#[inline(always)]
unsafe fn run_one(shader: &Compiled, unit: *mut u8, uniforms: *const u8, batch: &PjBatch) -> Option<Exit> {
    let &PjBatch { input_stride, output_stride, preserve_unit, reserved, .. } = batch;
    if input_stride.max(output_stride) > REGS as u16 || preserve_unit > 1 || reserved != 0 {
        return None;
    }
    if !batch.ran.is_aligned() {
        return None;
    }
    // 0 stands for 16.
    let [input_stride, output_stride] = [input_stride, output_stride].map(|s| usize::from(s.wrapping_sub(1) & 15) + 1);
    let &PjBatch { input_mask, output_mask, .. } = batch;
    // Registers beyond the stride are left to the general case.
    if (u32::from(input_mask) >> input_stride | u32::from(output_mask) >> output_stride) != 0 {
        return None;
    }
    let (inputs, outputs): (*const Vec4, *mut Vec4) = (batch.inputs.cast(), batch.outputs.cast());
    if inputs.is_null() || outputs.is_null() || !(inputs.addr() | outputs.addr()).is_multiple_of(align_of::<Vec4>()) {
        return None;
    }
    let direct = shader.direct();
    let &Offsets { unit_bytes, uniforms_bytes, v, o, ref geometry, .. } = direct.layout()?.offsets();
    // One comparison: `b - a` is neither in `0..a_bytes` nor in `-b_bytes + 1..0`.
    let apart = |(a, a_bytes): (usize, usize), (b, b_bytes): (usize, usize)| {
        b.wrapping_sub(a).wrapping_add(b_bytes - 1) >= a_bytes + b_bytes - 1
    };
    let (from, to) = ((inputs.addr(), input_stride * 16), (outputs.addr(), output_stride * 16));
    let (registers, constants) = ((unit.addr(), unit_bytes as usize), (uniforms.addr(), uniforms_bytes as usize));
    if !(apart(from, to) && apart(to, registers) && apart(to, constants) && apart(from, registers)) {
        return None;
    }
    // SAFETY: the arrays are not null, aligned, and overlap nothing that the run uses. The files of
    // registers and the bank lie within the unit. The caller promises the rest.
    unsafe {
        if preserve_unit == 1 {
            let inputs = slice::from_raw_parts(inputs, input_stride);
            let outputs = slice::from_raw_parts_mut(outputs, output_stride);
            return direct.run_outputs_raw(uniforms, unit, Vertex { inputs, outputs, input_mask, output_mask });
        }
        let code = direct.get()?;
        copy_registers(input_mask, inputs, unit.add(v as usize).cast());
        // `None` is harmless: the run that follows takes the same inputs.
        let exit = code.run_copied(uniforms, unit, inputs, input_mask)?;
        let bank = geometry.as_ref().filter(|g| unit.add(g.bank as usize).read() & 1 != 0);
        let o = o + bank.map_or(0, |g| g.bank_stride);
        copy_registers(output_mask, unit.add(o as usize).cast(), outputs);
        Some(exit)
    }
}

/// Copies the registers in `mask`.
///
/// # Safety
/// Both files have these registers.
#[inline(always)]
unsafe fn copy_registers(mask: u16, from: *const Vec4, to: *mut Vec4) {
    let mut left = mask;
    while left != 0 {
        let n = left.trailing_zeros() as usize;
        // SAFETY: the caller promises it.
        unsafe { to.add(n).write(from.add(n).read()) };
        left &= left - 1;
    }
}

/// Any batch, with errors as statuses.
///
/// # Safety
/// As the header says of `pj_run_batch`.
#[inline(never)]
unsafe fn run_any(shader: *const PjShader, unit: *mut c_void, uniforms: *const c_void, batch: *const PjBatch) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        // SAFETY: the header requires valid pointers.
        let host = unsafe { host(&shader, unit, uniforms) }?;
        // SAFETY: the header requires a structure of its declared size; any bytes are valid.
        let batch = unsafe { read_sized(batch) }?;
        let arrays = Arrays::new(&batch, host.extents())?;
        optional_pointer(batch.ran, "pj_batch.ran")?;
        if batch.count == 0 {
            // SAFETY: checked; the header requires the rest.
            unsafe { report(batch.ran, 0) };
            return Ok(PJ_END);
        }
        // SAFETY: checked; the header requires the rest.
        let (inputs, outputs) = unsafe { arrays.slices() };
        let to = batch.ran;
        let mut batch = Batch {
            inputs: Vertices::packed(inputs, arrays.input_stride, batch.count).expect("checked"),
            outputs: VerticesMut::packed(outputs, arrays.output_stride, batch.count).expect("checked"),
            input_mask: batch.input_mask,
            output_mask: batch.output_mask,
            preserve_unit: batch.preserve_unit == 1,
        };
        let BatchExit { exit, ran } = shader.run_batch_on(&host, &mut batch);
        // SAFETY: as above.
        unsafe { report(to, ran) };
        Ok(exit as i32)
    })
}

/// Registers per vertex; 0 stands for all.
#[inline(always)]
pub(super) fn stride(stride: u16, name: &'static str) -> Result<usize, Fault> {
    at_most(stride, REGS as u64, name, "0 to 16")?;
    Ok(if stride == 0 { REGS } else { stride.into() })
}

/// The checked arrays of a batch. Without vertices, the pointers are anything.
struct Arrays {
    inputs: *const Vec4,
    outputs: *mut Vec4,
    input_stride: usize,
    output_stride: usize,
    /// Input registers of all vertices.
    read: usize,
    /// Output registers of all vertices.
    written: usize,
}

impl Arrays {
    /// Checks every field of a batch but its size, for a unit and uniforms at these addresses.
    #[inline(always)]
    fn new(batch: &PjBatch, [unit, uniforms]: [Range<usize>; 2]) -> Result<Arrays, Fault> {
        let &PjBatch { count, preserve_unit, reserved, .. } = batch;
        let input_stride = stride(batch.input_stride, "pj_batch.input_stride")?;
        let output_stride = stride(batch.output_stride, "pj_batch.output_stride")?;
        at_most(preserve_unit, 1, "pj_batch.preserve_unit", "0 or 1")?;
        at_most(reserved, 0, "pj_batch.reserved", "0")?;
        let (inputs, outputs): (*const Vec4, *mut Vec4) = (batch.inputs.cast(), batch.outputs.cast());
        let [read, written] = [input_stride, output_stride].map(|stride| count.saturating_mul(stride));
        if count != 0 {
            let most = isize::MAX as usize / size_of::<Registers>();
            at_most(count as u64, most as u64, "pj_batch.count", "what memory can hold")?;
            check_pointer(inputs, read, "pj_batch.inputs")?;
            check_pointer(outputs, written, "pj_batch.outputs")?;
            let bytes = |at: usize, registers: usize| at..at.saturating_add(registers * size_of::<Vec4>());
            let (from, to) = (bytes(inputs.addr(), read), bytes(outputs.addr(), written));
            let (inputs, outputs) = ("pj_batch.inputs", "pj_batch.outputs");
            let pairs = [
                (&to, &from, outputs, inputs),
                (&to, &unit, outputs, "unit"),
                (&to, &uniforms, outputs, "uniforms"),
                (&from, &unit, inputs, "unit"),
            ];
            if let Some((.., a, b)) = pairs.into_iter().find(|(a, b, ..)| overlap(a, b)) {
                return Err(Fault::Overlap(a, b));
            }
        }
        Ok(Arrays { inputs, outputs, input_stride, output_stride, read, written })
    }

    /// The registers of all vertices.
    ///
    /// # Safety
    /// There are vertices, and the pointers are valid for `'a`. No other code uses the arrays
    /// meanwhile.
    #[inline(always)]
    unsafe fn slices<'a>(&self) -> (&'a [Vec4], &'a mut [Vec4]) {
        // SAFETY: checked for null, alignment and length; no other memory in use overlaps them. The
        // caller promises the rest.
        unsafe {
            (slice::from_raw_parts(self.inputs, self.read), slice::from_raw_parts_mut(self.outputs, self.written))
        }
    }
}
