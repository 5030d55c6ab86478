//! Numbers and structures of the header's GPU section, and their translation to
//! [`gpu`](crate::gpu).
//!
//! Invariant: the same fields in the same order as in the header; structures that begin with their
//! size have no padding.

use super::PjGpu;
use crate::capi::arguments::structures;
use crate::gpu::{Notes, Report};
use crate::state::{Exit, Registers, Vec4};
use std::ffi::c_void;

pub const PJ_EFFECT_NONE: i32 = 0;
pub const PJ_EFFECT_DRAW_ARRAYS: i32 = 1;
pub const PJ_EFFECT_DRAW_ELEMENTS: i32 = 2;
pub const PJ_EFFECT_VERTEX: i32 = 3;
pub const PJ_NOTE_STRIDE: u32 = 1;
pub const PJ_NOTE_UNIFORM: u32 = 2;
pub const PJ_NOTE_OUTPUT: u32 = 4;
pub const PJ_NOTE_ATTRIBUTE: u32 = 8;
pub const PJ_NOTE_GEOMETRY_CODE: u32 = 16;
pub const PJ_NOTE_MEMORY: u32 = 32;
pub const PJ_NOTE_POSITION: u32 = 64;
const _: () = {
    assert!(PJ_NOTE_STRIDE == Notes::STRIDE.0 && PJ_NOTE_UNIFORM == Notes::UNIFORM.0);
    assert!(PJ_NOTE_OUTPUT == Notes::OUTPUT.0 && PJ_NOTE_ATTRIBUTE == Notes::ATTRIBUTE.0);
    assert!(PJ_NOTE_GEOMETRY_CODE == Notes::GEOMETRY_CODE.0);
    assert!(PJ_NOTE_MEMORY == Notes::MEMORY.0);
    assert!(PJ_NOTE_POSITION == Notes::POSITION.0);
};

pub type PjTriangleFn = unsafe extern "C" fn(*mut c_void, *const f32, *const f32, *const f32);
pub type PjDrawFn = unsafe extern "C" fn(*mut c_void, *mut PjGpu, i32);
pub type PjWroteFn = unsafe extern "C" fn(*mut c_void, *const PjGpu, u16, u32, u8);
pub type PjFetchFn = unsafe extern "C" fn(*mut c_void, u32, *mut Vec4);
pub type PjMemoryFn = unsafe extern "C" fn(*mut c_void, u32, usize, *mut usize) -> *const c_void;
pub type PjTrianglesFn = unsafe extern "C" fn(*mut c_void, *const f32, usize, *const u32, usize);

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjGpuHost {
    pub struct_size: usize,
    pub triangle: Option<PjTriangleFn>,
    pub draw: Option<PjDrawFn>,
    pub wrote: Option<PjWroteFn>,
    pub user: *mut c_void,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PjListPosition {
    pub command: usize,
    pub values: usize,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjDraw {
    pub struct_size: usize,
    pub count: usize,
    pub vertices: *const Registers,
    pub fetch: Option<PjFetchFn>,
    pub indices: *const c_void,
    pub triangle: Option<PjTriangleFn>,
    pub user: *mut c_void,
    pub index_bytes: u32,
    pub vertex_cache_entries: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjRegion {
    pub bytes: *const u8,
    pub length: usize,
    pub address: u32,
    pub reserved: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjGuestDraw {
    pub struct_size: usize,
    pub regions: *const PjRegion,
    pub region_count: usize,
    pub memory: Option<PjMemoryFn>,
    pub triangles: Option<PjTrianglesFn>,
    pub offsets: *const u8,
    pub user: *mut c_void,
    pub stride: u32,
    pub limit: u32,
    pub vertex_cache_entries: u32,
    pub effect: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PjReport {
    pub struct_size: usize,
    pub vertices: u64,
    pub reused: u64,
    pub geometry_runs: u64,
    pub dropped: u64,
    pub triangles: u64,
    pub vertex_exit: i32,
    pub geometry_exit: i32,
    pub limited: u32,
    pub notes: u32,
}

impl PjReport {
    pub(super) fn new(report: &Report) -> PjReport {
        let [vertex_exit, geometry_exit] = [report.vertex_exit, report.geometry_exit].map(|exit: Exit| exit as i32);
        let &Report { vertices, reused, geometry_runs, dropped, triangles, .. } = report;
        PjReport {
            struct_size: size_of::<PjReport>(),
            vertices,
            reused,
            geometry_runs,
            dropped,
            triangles,
            vertex_exit,
            geometry_exit,
            limited: report.limited.into(),
            notes: report.notes.0,
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjGpuUploadStats {
    pub struct_size: usize,
    pub lookups: u64,
    pub programs: u64,
}

/// The state of one kind of unit, without code memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjGpuUnit {
    pub v: Registers,
    pub r: Registers,
    pub o: [Registers; 2],
    pub slots: [Registers; 4],
    pub c: [Vec4; 96],
    pub opdescs: [u32; 128],
    pub a0: [i32; 2],
    pub al: i32,
    pub float_words: [u32; 3],
    pub i: [[u8; 4]; 4],
    pub b: u16,
    pub code_index: u16,
    pub opdesc_index: u16,
    pub float_index: u8,
    pub float32: u8,
    pub float_count: u8,
    pub cmp: [u8; 2],
    pub bank: u8,
    pub emit_vertex: u8,
    pub emit_primitive: u8,
    pub emit_winding: u8,
    pub reserved: u8,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjGpuState {
    pub struct_size: usize,
    pub registers: [u32; 768],
    pub vertex_code: [u32; 512],
    pub geometry_code: [u32; 4096],
    pub vertex: PjGpuUnit,
    pub geometry: PjGpuUnit,
    pub fixed_defaults: Registers,
    pub fixed_vertex: Registers,
    pub fixed_words: [u32; 3],
    pub fixed_index: u8,
    pub fixed_words_count: u8,
    pub fixed_count: u8,
    pub assembly_count: u8,
    pub assembly_vertices: [[f32; 24]; 2],
    pub geometry_input_vectors: Registers,
    pub geometry_input_vertices: u32,
    pub geometry_input_expected: u32,
    pub geometry_input_count: u8,
    pub geometry_input_uniform: u8,
    pub assembly_oldest: u8,
    pub reserved: [u8; 5],
}

structures! {
    PjGpuHost "pj_gpu_host"
    PjDraw "pj_draw"
    PjGuestDraw "pj_guest_draw"
    PjReport "pj_report"
    PjGpuUploadStats "pj_gpu_upload_stats"
    PjGpuState "pj_gpu_state"
}

// The structures have no padding, and the memories have the sizes of C's arrays.
const _: () = {
    use crate::gpu::{VERTEX_CODE_WORDS, registers::REGISTERS};
    use crate::isa::{MAX_CODE_WORDS, OPDESCS};
    assert!(REGISTERS == 768 && VERTEX_CODE_WORDS == 512 && MAX_CODE_WORDS == 4096 && OPDESCS == 128);
    let registers = size_of::<Registers>();
    assert!(size_of::<PjGpuUnit>() == 8 * registers + size_of::<[Vec4; 96]>() + 4 * 128 + 2 * 4 + 4 + 3 * 4 + 16 + 16);
    let rest = 3 * 4 + 4 + 2 * 24 * 4 + 2 * 4 + 8;
    let words = 4 * (768 + 512 + 4096);
    assert!(size_of::<PjGpuState>() == size_of::<usize>() + words + 2 * size_of::<PjGpuUnit>() + 3 * registers + rest);
};
