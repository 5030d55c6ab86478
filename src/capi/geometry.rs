//! A shader and a host's emit buffer -> runs that store the emitted vertices there.
//!
//! Invariant: a vertex is stored in the order of its EMIT, and the host's function is called only
//! when the buffer is full. This file must not know which engine runs the shader.

use super::arguments::{
    at_most, check_pointer, check_size, input_slice, optional_pointer, overlap, read_sized, structures,
};
use super::batch::{report, stride};
use super::types::PjBatch;
use super::{Fault, PjShader, borrow_shader, catch_panics, host};
use crate::layout::{HostEmitter, HostMemory};
use crate::state::{BatchExit, EmitState, EmittedVertex, Registers, Vec4, Vertices, copy_registers};
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ops::Range;
use std::slice;

pub type PjFullFn = unsafe extern "C" fn(*mut c_void, *const PjEmitted, usize);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct PjEmitted {
    pub vertex: u32,
    pub primitive: u32,
    pub winding: u32,
    pub reserved: u32,
    pub outputs: Registers,
}

// Native code stores an `EmittedVertex` where the host reads a `pj_emitted`.
const _: () = assert!(
    size_of::<PjEmitted>() == size_of::<EmittedVertex>()
        && align_of::<PjEmitted>() == align_of::<EmittedVertex>()
        && offset_of!(PjEmitted, outputs) == offset_of!(EmittedVertex, outputs)
        && offset_of!(PjEmitted, vertex) == offset_of!(EmittedVertex, vertex)
        && offset_of!(PjEmitted, primitive) == offset_of!(EmittedVertex, primitive)
        && offset_of!(PjEmitted, winding) == offset_of!(EmittedVertex, winding)
);

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjEmitBuffer {
    pub struct_size: usize,
    pub vertices: *mut PjEmitted,
    pub capacity: usize,
    pub count: usize,
    pub full: Option<PjFullFn>,
    pub user: *mut c_void,
    pub output_mask: usize,
}

structures! { PjEmitBuffer "pj_emit_buffer" }

/// A host's buffer. Its memory is cells because the host's function may read and write it.
struct HostBuffer<'a> {
    vertices: &'a [Cell<EmittedVertex>],
    /// Vertices in it, at most its length.
    count: usize,
    full: PjFullFn,
    user: *mut c_void,
    outputs: u16,
}

impl<'a> HostBuffer<'a> {
    /// Checks the buffer of a run on `host` that reads inputs at these addresses too.
    ///
    /// # Safety
    /// `buffer` is null, or valid as the header says.
    #[inline(always)] // a single run is short
    unsafe fn new(
        buffer: *mut PjEmitBuffer,
        host: &HostMemory<'a>,
        inputs: Range<usize>,
    ) -> Result<HostBuffer<'a>, Fault> {
        // SAFETY: the header requires a structure of its declared size.
        unsafe { check_size(buffer) }?;
        // SAFETY: not null and aligned, and of its size. Field by field: a wider load would wait for the
        // host's last store to one of them.
        let (vertices, capacity, count, full, user, output_mask) = unsafe {
            let PjEmitBuffer { vertices, capacity, count, full, user, output_mask, .. } = *buffer;
            (vertices, capacity, count, full, user, output_mask)
        };
        at_most(output_mask as u64, 0xFFFF, "pj_emit_buffer.output_mask", "at most 65535")?;
        let outputs = if output_mask == 0 { u16::MAX } else { output_mask as u16 };
        let full = full.ok_or(Fault::Null("pj_emit_buffer.full"))?;
        check_pointer(vertices, capacity, "pj_emit_buffer.vertices")?;
        if capacity == 0 {
            return Err(Fault::Range("pj_emit_buffer.capacity", 0, "at least 1"));
        }
        at_most(count as u64, capacity as u64, "pj_emit_buffer.count", "at most `capacity`")?;
        let memory = addresses(vertices, capacity);
        let [registers, constants] = host.extents();
        let others = [
            (registers, "unit"),
            (constants, "uniforms"),
            (addresses(buffer, 1), "the pj_emit_buffer"),
            (inputs, "pj_batch.inputs"),
        ];
        if let Some((_, other)) = others.into_iter().find(|(other, _)| overlap(&memory, other)) {
            return Err(Fault::Overlap("pj_emit_buffer.vertices", other));
        }
        // SAFETY: checked for null, alignment and length; no other memory in use overlaps them; the
        // header requires the rest. Cells, because the host's function may change them.
        let vertices = unsafe { slice::from_raw_parts(vertices.cast::<Cell<EmittedVertex>>(), capacity) };
        Ok(HostBuffer { vertices, count, full, user, outputs })
    }

    /// Passes the vertices to the host's function if there is no room for another.
    fn make_room(&mut self) {
        if self.count == self.vertices.len() {
            // SAFETY: the host's function gets the host's pointers.
            unsafe { (self.full)(self.user, self.vertices.as_ptr().cast(), self.count) };
            self.count = 0;
        }
    }
}

impl HostEmitter for HostBuffer<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        self.make_room();
        let cell = &self.vertices[self.count];
        let kept = cell.get().outputs;
        let mut vertex = EmittedVertex::new(&kept, how);
        copy_registers(self.outputs, outputs, &mut vertex.outputs);
        cell.set(vertex);
        self.count += 1;
    }

    fn outputs(&self) -> u16 {
        self.outputs
    }

    fn buffer(&mut self) -> Option<&[Cell<EmittedVertex>]> {
        Some(&self.vertices[self.count..])
    }

    fn stored(&mut self, count: usize, full: bool) {
        self.count += count;
        if full {
            self.make_room();
        }
    }
}

fn addresses<T>(start: *const T, len: usize) -> Range<usize> {
    start.addr()..start.addr().saturating_add(len * size_of::<T>())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_run_geometry(
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    buffer: *mut PjEmitBuffer,
) -> i32 {
    catch_panics(move || {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        // SAFETY: the header requires valid pointers.
        let host = unsafe { host(&shader, unit, uniforms) }?;
        // SAFETY: as above.
        let mut emitter = unsafe { HostBuffer::new(buffer, &host, 0..0) }?;
        let exit = shader.run_on(&host, &mut emitter);
        // SAFETY: as for the read; the field's place alone.
        unsafe { (*buffer).count = emitter.count };
        Ok(exit as i32)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_run_geometry_batch(
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    batch: *const PjBatch,
    buffer: *mut PjEmitBuffer,
) -> i32 {
    catch_panics(move || {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        // SAFETY: the header requires valid pointers.
        let host = unsafe { host(&shader, unit, uniforms) }?;
        // SAFETY: the header requires a structure of its declared size; any bytes are valid.
        let batch: PjBatch = unsafe { read_sized(batch) }?;
        let stride = stride(batch.input_stride, "pj_batch.input_stride")?;
        at_most(batch.output_mask, 0, "pj_batch.output_mask", "0 for geometry")?;
        at_most(batch.preserve_unit, 0, "pj_batch.preserve_unit", "0 for geometry")?;
        at_most(batch.reserved, 0, "pj_batch.reserved", "0")?;
        optional_pointer(batch.ran, "pj_batch.ran")?;
        // SAFETY: the header requires valid inputs, which no other code writes.
        let inputs =
            unsafe { input_slice::<Vec4>(batch.inputs.cast(), batch.count.saturating_mul(stride), "pj_batch.inputs") }?;
        let read = addresses(inputs.as_ptr(), inputs.len());
        if overlap(&read, &host.extents()[0]) {
            return Err(Fault::Overlap("pj_batch.inputs", "unit"));
        }
        // SAFETY: the header requires a valid pointer.
        let mut emitter = unsafe { HostBuffer::new(buffer, &host, read) }?;
        let inputs = Vertices::packed(inputs, stride, batch.count).expect("checked");
        let BatchExit { exit, ran } = shader.run_geometry_batch_on(&host, inputs, batch.input_mask, &mut emitter);
        // SAFETY: as for the reads; the buffer's field alone.
        unsafe {
            (*buffer).count = emitter.count;
            report(batch.ran, ran);
        }
        Ok(exit as i32)
    })
}
