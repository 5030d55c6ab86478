//! A shader and a host's emit buffer -> runs that store the emitted vertices there.
//!
//! Invariant: a vertex is stored in the order of its EMIT, and the host's function is called only
//! when the buffer is full. This file must not know which engine runs the shader.

use super::arguments::{check_pointer, declared_size, input_slice, overlap, read_sized};
use super::batch::report;
use super::types::{BATCH_BYTES, PjBatch};
use super::{Fault, PjShader, borrow_shader, catch_panics, host};
use crate::isa::REGS;
use crate::layout::{HostEmitter, HostMemory};
use crate::state::{BatchExit, EmitState, EmittedVertex, Registers, Vec4, Vertices, copy_registers};
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ops::Range;
use std::slice;

pub type PjFullFn = unsafe extern "C" fn(*mut c_void, *const PjEmitted, usize);

#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct PjEmitted {
    pub outputs: Registers,
    pub vertex: u32,
    pub primitive: u32,
    pub winding: u32,
    pub reserved: u32,
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

/// Sizes of the structure in all versions.
pub(super) const EMIT_BUFFER_BYTES: &[usize] = &[
    offset_of!(PjEmitBuffer, user) + size_of::<*mut c_void>(),
    offset_of!(PjEmitBuffer, output_mask) + size_of::<usize>(),
];

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
        let bytes = unsafe { declared_size(buffer, EMIT_BUFFER_BYTES) }?;
        // SAFETY: not null and aligned, and every valid size is at least this structure's. Field by
        // field: a wider load would wait for the host's last store to one of them.
        let (vertices, capacity, count, full, user) =
            unsafe { ((*buffer).vertices, (*buffer).capacity, (*buffer).count, (*buffer).full, (*buffer).user) };
        let output_mask = match bytes >= size_of::<PjEmitBuffer>() {
            // SAFETY: the structure has the field.
            true => unsafe { (*buffer).output_mask },
            false => 0,
        };
        let outputs = match output_mask {
            0 => u16::MAX,
            mask => u16::try_from(mask).map_err(|_| Fault::InvalidArgument)?,
        };
        let full = full.ok_or(Fault::Null)?;
        check_pointer(vertices, capacity)?;
        if capacity == 0 || count > capacity {
            return Err(Fault::InvalidArgument);
        }
        let memory = addresses(vertices, capacity);
        let [registers, constants] = host.extents();
        let structure = addresses(buffer.cast::<u8>(), bytes.min(size_of::<PjEmitBuffer>()));
        if [registers, constants, structure, inputs].iter().any(|other| overlap(&memory, other)) {
            return Err(Fault::Overlap);
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
        let batch = unsafe { read_sized(batch, PjBatch::ZERO, BATCH_BYTES) }?;
        let stride = if batch.input_stride == 0 { REGS } else { usize::from(batch.input_stride) };
        if stride > REGS || batch.output_mask != 0 || batch.preserve_unit != 0 || batch.reserved != 0 {
            return Err(Fault::InvalidArgument);
        }
        if !batch.ran.is_null() {
            check_pointer(batch.ran, 1)?;
        }
        // SAFETY: the header requires valid inputs, which no other code writes.
        let inputs = unsafe { input_slice::<Vec4>(batch.inputs.cast(), batch.count.saturating_mul(stride)) }?;
        let read = addresses(inputs.as_ptr(), inputs.len());
        if overlap(&read, &host.extents()[0]) {
            return Err(Fault::Overlap);
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
