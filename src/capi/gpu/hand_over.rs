//! Draws on the host's GPU in C: [`Placement`](crate::gpu::Placement), streams, the uniform block.
//!
//! Pointers in results are to memory of the `Gpu`, or to guest memory; the header says how long they
//! are valid. This file must not know registers and formats.

use super::guest_draw::{HostMemory, vertex_format};
use super::*;
use crate::capi::PjShader;
use crate::capi::arguments::{check_size, structures};
use crate::capi::gpu_code::{PjAttribute, PjGpuCode, PjVarying, at_least_the_block};
use crate::gpu::{ComponentType, CpuOnly, Placement, STREAMS, StreamAttribute};
use crate::gpu_code::Inputs;

pub const PJ_STREAMS: u32 = 14;
const _: () = assert!(PJ_STREAMS as usize == STREAMS);
pub const PJ_CPU_OR_GPU: u32 = 0;
pub const PJ_CPU_GEOMETRY: u32 = 1;
pub const PJ_CPU_DEPENDENT: u32 = 2;
pub const PJ_CPU_LONG_RUNS: u32 = 3;
pub const PJ_CPU_CONTINUES: u32 = 4;

/// Varyings of a placement: 255 numbers of a vertex.
const VARYINGS: usize = 64;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjStreamAttribute {
    pub stream: u32,
    pub offset: u32,
    pub vk_format: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjPlacement {
    pub struct_size: usize,
    pub shader: *const PjShader,
    pub cpu_only: u32,
    pub varying_count: u32,
    pub strides: [u32; STREAMS],
    pub streams: [PjStreamAttribute; 16],
    pub attributes: [PjAttribute; 16],
    pub varyings: [PjVarying; VARYINGS],
    pub position_components: [u8; 4],
    pub reserved: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjStream {
    pub bytes: *const u8,
    pub length: usize,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjHandedDraw {
    pub struct_size: usize,
    pub streams: [PjStream; STREAMS],
    pub triangles: *const u32,
    pub triangle_count: usize,
    pub vertex_count: usize,
}

structures! {
    PjPlacement "pj_placement"
    PjHandedDraw "pj_handed_draw"
}

impl PjStreamAttribute {
    fn new(attribute: &StreamAttribute) -> PjStreamAttribute {
        // The numbers of `VkFormat`; three small components are read as four.
        let formats = match attribute.component {
            ComponentType::U8 => [13, 20, 41, 41],
            ComponentType::S8 => [14, 21, 42, 42],
            ComponentType::S16 => [75, 82, 96, 96],
            ComponentType::F32 => [100, 103, 106, 109],
        };
        let vk_format = formats[usize::from(attribute.components.clamp(1, 4)) - 1];
        PjStreamAttribute { stream: attribute.stream.into(), offset: attribute.offset, vk_format }
    }
}

impl PjPlacement {
    fn new(placement: &Placement<'_>) -> PjPlacement {
        let Inputs::Attributes(attributes) = placement.inputs() else { unreachable!("placements are vertex stages") };
        let mut varyings = [PjVarying { location: 0, count: 0, components: [0; 4] }; VARYINGS];
        let mut varying_count = 0;
        placement.each_varying(|location, components| {
            varyings[location] = PjVarying::new(location as u32, components);
            varying_count += 1;
        });
        PjPlacement {
            struct_size: size_of::<PjPlacement>(),
            // The `Gpu` keeps a reference.
            shader: placement.shader.as_ptr().cast(),
            cpu_only: match placement.cpu_only {
                None => PJ_CPU_OR_GPU,
                Some(CpuOnly::Geometry) => PJ_CPU_GEOMETRY,
                Some(CpuOnly::LongRuns) => PJ_CPU_LONG_RUNS,
                Some(CpuOnly::Continues) => PJ_CPU_CONTINUES,
                Some(_) => PJ_CPU_DEPENDENT,
            },
            varying_count,
            strides: placement.layout.strides,
            streams: placement.layout.attributes.each_ref().map(PjStreamAttribute::new),
            attributes: attributes.each_ref().map(PjAttribute::new),
            varyings,
            position_components: placement.position().map(crate::capi::gpu_code::number_of),
            reserved: 0,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_placement(
    gpu: *mut PjGpu,
    offsets: *const u8,
    stride: u32,
    placement: *mut PjPlacement,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let mut gpu = unsafe { deref(gpu, "gpu") }?.take()?;
        // SAFETY: null, or 24 numbers.
        let format = unsafe { vertex_format(gpu.get(), offsets, stride, ["offsets", "stride"]) }?;
        let value = PjPlacement::new(&gpu.get().placement(format));
        // SAFETY: the header requires a structure of its declared size.
        unsafe { write_sized(placement, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_hand_over(
    gpu: *mut PjGpu,
    code: *const PjGpuCode,
    draw: *const PjGuestDraw,
    handed: *mut PjHandedDraw,
    report: *mut PjReport,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or live handles.
        let (mut gpu, code) = unsafe { (deref(gpu, "gpu")?.take()?, deref(code, "code")?) };
        // SAFETY: the header requires structures of their declared sizes; any bytes are valid.
        let draw: PjGuestDraw = unsafe { read_sized(draw) }?;
        // SAFETY: as above. Errors must be found before anything is drawn.
        unsafe {
            check_size(handed)?;
            check_optional(report)?;
        }
        // SAFETY: the header requires arrays of these lengths.
        let (memory, format) = unsafe { (HostMemory::new(&draw)?, draw.format(gpu.get())?) };
        let (kind, options) = (draw.kind()?, draw.options()?);
        let result = gpu.get().hand_over(code.code(), format, kind, &memory, &options).map_err(Fault::CpuOnly)?;
        let value = PjHandedDraw {
            struct_size: size_of::<PjHandedDraw>(),
            streams: result.streams.map(|stream| PjStream { bytes: stream.bytes.as_ptr(), length: stream.bytes.len() }),
            triangles: result.triangles.as_flattened().as_ptr(),
            triangle_count: result.triangles.len(),
            vertex_count: result.vertices,
        };
        let statistics = PjReport::new(&result.report);
        // SAFETY: as above.
        unsafe {
            write_optional(report, statistics)?;
            write_sized(handed, value)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_uniforms(
    gpu: *const PjGpu,
    code: *const PjGpuCode,
    block: *mut c_void,
    bytes: usize,
    first: *mut usize,
    count: *mut usize,
) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or live handles.
        let (gpu, code) = unsafe { (deref(gpu, "gpu")?, deref(code, "code")?.code()) };
        let to = out_pointer(block.cast::<u8>(), "block")?;
        let (first, count) = (optional_pointer(first, "first")?, optional_pointer(count, "count")?);
        let size = code.uniform_block_size();
        at_least_the_block(bytes, size)?;
        // SAFETY: the header requires `bytes` bytes that this call alone uses.
        let block = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), size) };
        let changed = gpu.read(|gpu| code.update_uniform_block(gpu.vertex_uniforms(), block))?;
        let changed = changed.expect("the block has its size");
        for (to, value) in [(first, changed.start), (count, changed.len())] {
            if let Some(to) = to {
                // SAFETY: aligned; the header requires that it is writable.
                unsafe { to.write(value) };
            }
        }
        Ok(PJ_OK)
    })
}
