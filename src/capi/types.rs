//! Numbers and structures of the header, and their translation to the engine's types.
//!
//! Invariant: the same fields in the same order as in `include/picajit.h`; a test compares sizes
//! and offsets with those of a C compiler. Structures that begin with their size have no padding,
//! and any bytes are valid. Zeros are the defaults.

#![allow(missing_docs)]

use super::Fault;
use super::arguments::structures;
use crate::engine::{BackendChoice, DEFAULT_COMPILE_AFTER, Event, Options};
use crate::isa::Stage;
use crate::isa::float24::Rounding;
use crate::isa::numeric::Precision;
use crate::kernel::default_fuel;
use crate::layout::{Bools, GeometryOffsets, Layout, LayoutError, Offsets};
use crate::profiler::Profiler;
use crate::state::{Registers, Vec4};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::offset_of;
use std::path::PathBuf;
use std::ptr::null;
use std::sync::Arc;

pub const PJ_BOOLS_MASK: u32 = 0;
pub const PJ_BOOLS_BYTES: u32 = 1;
pub const PJ_NATIVE: u32 = 0;
pub const PJ_NATIVE_REQUIRED: u32 = 1;
pub const PJ_INTERPRETER: u32 = 2;
pub const PJ_ORACLE: u32 = 3;
pub const PJ_TIER_0: u32 = 0;
pub const PJ_TIER_NATIVE: u32 = 1;
pub const PJ_TIER_ORACLE: u32 = 2;
pub const PJ_F32: u32 = 0;
pub const PJ_F24_NEAREST: u32 = 1;
pub const PJ_F24_TOWARD_ZERO: u32 = 2;
pub const PJ_EVENT_FALLBACK: u32 = 0;
pub const PJ_EVENT_DIVERGENCE: u32 = 1;
pub const PJ_EVENT_PROFILER_FAILED: u32 = 2;
pub const PJ_NO_PROFILER: u32 = 0;
pub const PJ_PERF_MAP: u32 = 1;
pub const PJ_JITDUMP: u32 = 2;
pub const PJ_VERTEX: u32 = 0;
pub const PJ_GEOMETRY: u32 = 1;
pub const PJ_TEXT_FALLBACK: u32 = 0;
pub const PJ_TEXT_SEQUENTIAL: u32 = 1;
pub const PJ_TEXT_DIVERGENCE: u32 = 2;

structures! {
    PjLayout "pj_layout"
    PjOptions "pj_options"
    PjMemory "pj_memory"
    PjStats "pj_stats"
    PjShaderInfo "pj_shader_info"
    PjAnalysis "pj_analysis"
    PjBatch "pj_batch"
}

pub type PjEmitFn = unsafe extern "C" fn(*mut c_void, *const Vec4, u32, u32, u32);
pub type PjInstallFn = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
pub type PjReleaseFn = unsafe extern "C" fn(*mut c_void, *mut c_void, usize);
pub type PjEventFn = unsafe extern "C" fn(*mut c_void, u32, *const c_char);

#[repr(C, align(16))]
pub struct PjUnit {
    pub v: Registers,
    pub r: Registers,
    pub o: [Registers; 2],
    pub a0: [i32; 2],
    pub al: i32,
    pub cmp: [u8; 2],
    pub bank: u8,
    pub emit_vertex: u8,
    pub emit_primitive: u8,
    pub emit_winding: u8,
    pub reserved: [u8; 14],
}

#[repr(C, align(16))]
pub struct PjUniforms {
    pub c: [Vec4; 96],
    pub i: [[u8; 4]; 4],
    pub b: u16,
    pub reserved: [u8; 14],
}

/// The number format of a number.
pub(super) fn precision(number: u32, name: &'static str) -> Result<Precision, Fault> {
    match number {
        PJ_F32 => Ok(Precision::F32),
        PJ_F24_NEAREST => Ok(Precision::F24 { rounding: Rounding::Nearest }),
        PJ_F24_TOWARD_ZERO => Ok(Precision::F24 { rounding: Rounding::TowardZero }),
        _ => Err(Fault::Range(name, number.into(), "PJ_F32 (0) to PJ_F24_TOWARD_ZERO (2)")),
    }
}

/// The layout of [`PjUnit`] and [`PjUniforms`].
pub(super) const UNIT_LAYOUT: Offsets = Offsets {
    unit_bytes: size_of::<PjUnit>() as u32,
    v: offset_of!(PjUnit, v) as u32,
    r: offset_of!(PjUnit, r) as u32,
    o: offset_of!(PjUnit, o) as u32,
    geometry: Some(GeometryOffsets {
        bank_stride: size_of::<Registers>() as u32,
        bank: offset_of!(PjUnit, bank) as u32,
        vertex: offset_of!(PjUnit, emit_vertex) as u32,
        primitive: offset_of!(PjUnit, emit_primitive) as u32,
        winding: offset_of!(PjUnit, emit_winding) as u32,
    }),
    a0: [offset_of!(PjUnit, a0) as u32, offset_of!(PjUnit, a0) as u32 + 4],
    al: offset_of!(PjUnit, al) as u32,
    cmp: [offset_of!(PjUnit, cmp) as u32, offset_of!(PjUnit, cmp) as u32 + 1],
    uniforms_bytes: size_of::<PjUniforms>() as u32,
    c: offset_of!(PjUniforms, c) as u32,
    i: offset_of!(PjUniforms, i) as u32,
    b: Bools::Mask(offset_of!(PjUniforms, b) as u32),
};

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct PjLayout {
    pub struct_size: usize,
    pub unit_bytes: u32,
    pub v: u32,
    pub r: u32,
    pub o: u32,
    pub a0x: u32,
    pub a0y: u32,
    pub al: u32,
    pub cmp_x: u32,
    pub cmp_y: u32,
    pub geometry: u32,
    pub bank_stride: u32,
    pub bank: u32,
    pub emit_vertex: u32,
    pub emit_primitive: u32,
    pub emit_winding: u32,
    pub uniforms_bytes: u32,
    pub c: u32,
    pub i: u32,
    pub bools: u32,
    pub b: u32,
}

/// An error with the names that fields have in C.
pub(super) fn with_c_names(error: LayoutError) -> LayoutError {
    let name = |field| match field {
        "a0.x" => "a0x",
        "a0.y" => "a0y",
        "aL" => "al",
        "cmp.x" => "cmp_x",
        "cmp.y" => "cmp_y",
        "the second bank" => "bank_stride",
        "vertex" => "emit_vertex",
        "primitive" => "emit_primitive",
        "winding" => "emit_winding",
        same => same,
    };
    match error {
        LayoutError::Outside { field, end, bytes } => LayoutError::Outside { field: name(field), end, bytes },
        LayoutError::Misaligned { field, offset, align } => {
            LayoutError::Misaligned { field: name(field), offset, align }
        }
        LayoutError::Overlap { field, with } => LayoutError::Overlap { field: name(field), with: name(with) },
        other => other,
    }
}

impl PjLayout {
    pub(super) fn offsets(&self) -> Result<Offsets, Fault> {
        let geometry = GeometryOffsets {
            bank_stride: self.bank_stride,
            bank: self.bank,
            vertex: self.emit_vertex,
            primitive: self.emit_primitive,
            winding: self.emit_winding,
        };
        Ok(Offsets {
            unit_bytes: self.unit_bytes,
            v: self.v,
            r: self.r,
            o: self.o,
            geometry: match self.geometry {
                0 => None,
                1 => Some(geometry),
                _ => return Err(Fault::Range("pj_layout.geometry", self.geometry.into(), "0 or 1")),
            },
            a0: [self.a0x, self.a0y],
            al: self.al,
            cmp: [self.cmp_x, self.cmp_y],
            uniforms_bytes: self.uniforms_bytes,
            c: self.c,
            i: self.i,
            b: match self.bools {
                PJ_BOOLS_MASK => Bools::Mask(self.b),
                PJ_BOOLS_BYTES => Bools::Bytes(self.b),
                _ => {
                    let formats = "PJ_BOOLS_MASK (0) or PJ_BOOLS_BYTES (1)";
                    return Err(Fault::Range("pj_layout.bools", self.bools.into(), formats));
                }
            },
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjOptions {
    pub struct_size: usize,
    pub backend: u32,
    pub precision: u32,
    pub fuel: u32,
    pub crosscheck: u32,
    pub cache_bytes: usize,
    pub layout: *const PjLayout,
    pub event: Option<PjEventFn>,
    pub user: *mut c_void,
    pub profile_directory: *const c_char,
    pub profiler: u32,
    pub threads: u32,
    pub memory: *const PjMemory,
    pub compile_after: usize,
    pub geometry_fuel: usize,
}

#[repr(C)]
pub struct PjMemory {
    pub struct_size: usize,
    pub install: Option<PjInstallFn>,
    pub release: Option<PjReleaseFn>,
    pub user: *mut c_void,
}

/// The host's pointer, which any thread may pass to the host's functions.
pub(super) struct User(*mut c_void);

// SAFETY: the pointer is only passed back to the host. The header requires that any thread may call
// the host's function with it.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    pub(super) fn new(pointer: *mut c_void) -> User {
        User(pointer)
    }

    /// The pointer. A method, so that closures capture the whole struct and not the field.
    pub(super) fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// `text` is valid and ends with 0.
unsafe fn path(text: *const c_char, name: &'static str) -> Result<PathBuf, Fault> {
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(text.to_str().map_err(|_| Fault::Text(name))?.into())
}

impl PjOptions {
    /// The defaults.
    pub const ZERO: PjOptions = PjOptions {
        struct_size: size_of::<PjOptions>(),
        backend: PJ_NATIVE,
        precision: PJ_F32,
        fuel: 0,
        crosscheck: 0,
        cache_bytes: 0,
        layout: null(),
        event: None,
        user: std::ptr::null_mut(),
        profile_directory: null(),
        profiler: PJ_NO_PROFILER,
        threads: 0,
        memory: null(),
        compile_after: 0,
        geometry_fuel: 0,
    };

    fn profiler(&self) -> Result<Profiler, Fault> {
        match self.profiler {
            PJ_NO_PROFILER => Ok(Profiler::None),
            PJ_PERF_MAP => Ok(Profiler::PerfMap),
            PJ_JITDUMP if self.profile_directory.is_null() => Err(Fault::Null("pj_options.profile_directory")),
            PJ_JITDUMP => {
                // SAFETY: not null; the header requires text with a final 0.
                let directory = unsafe { path(self.profile_directory, "pj_options.profile_directory") }?;
                Ok(Profiler::Jitdump { directory })
            }
            other => Err(Fault::Range("pj_options.profiler", other.into(), "PJ_NO_PROFILER (0) to PJ_JITDUMP (2)")),
        }
    }

    pub(super) fn engine_options(&self, layout: Layout) -> Result<Options, Fault> {
        let mut options = Options {
            backend: match self.backend {
                PJ_NATIVE => BackendChoice::NativePreferred,
                PJ_NATIVE_REQUIRED => BackendChoice::NativeRequired,
                PJ_INTERPRETER => BackendChoice::NoNative,
                PJ_ORACLE => BackendChoice::Oracle,
                other => {
                    return Err(Fault::Range("pj_options.backend", other.into(), "PJ_NATIVE (0) to PJ_ORACLE (3)"));
                }
            },
            precision: precision(self.precision, "pj_options.precision")?,
            fuel: if self.fuel == 0 { default_fuel(Stage::Vertex) } else { self.fuel },
            geometry_fuel: match self.geometry_fuel {
                0 => default_fuel(Stage::Geometry),
                fuel => u32::try_from(fuel).unwrap_or(u32::MAX),
            },
            crosscheck: self.crosscheck,
            threads: usize::try_from(self.threads).unwrap_or(usize::MAX),
            compile_after: match self.compile_after {
                0 => DEFAULT_COMPILE_AFTER,
                vertices => u32::try_from(vertices).unwrap_or(u32::MAX),
            },
            cache_bytes: if self.cache_bytes == 0 { Options::default().cache_bytes } else { self.cache_bytes },
            layout: Some(layout),
            profiler: self.profiler()?,
            ..Options::default()
        };
        if let Some(event) = self.event {
            let user = User::new(self.user);
            options.events = Arc::new(move |e: &Event| {
                let kind = match e {
                    Event::Fallback { .. } => PJ_EVENT_FALLBACK,
                    Event::Divergence { .. } => PJ_EVENT_DIVERGENCE,
                    Event::ProfilerFailed { .. } => PJ_EVENT_PROFILER_FAILED,
                };
                let text = CString::new(e.to_string()).unwrap_or_default();
                // SAFETY: the host's function gets the host's pointer; the text lives during the
                // call.
                unsafe { event(user.get(), kind, text.as_ptr()) };
            });
        }
        Ok(options)
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjStats {
    pub struct_size: usize,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub entries: u64,
    pub bytes: u64,
    pub compilations: u64,
    pub native: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjShaderInfo {
    pub struct_size: usize,
    pub tier: u32,
    pub deoptimised: u32,
    pub groups: u32,
    pub bailouts: u32,
    pub native_bytes: u64,
}

pub const PJ_CARRIED_A0_X: u32 = 1;
pub const PJ_CARRIED_A0_Y: u32 = 2;
pub const PJ_CARRIED_AL: u32 = 4;
pub const PJ_CARRIED_CMP_X: u32 = 8;
pub const PJ_CARRIED_CMP_Y: u32 = 16;
pub const PJ_CARRIED_SETEMIT: u32 = 32;
pub const PJ_CARRIED_SLOTS: u32 = 64;
pub const PJ_CARRIED_B15: u32 = 128;

// `PjAnalysis::carried_state` holds the bits of the set itself.
const _: () = {
    use crate::analysis::RegisterSet as Set;
    assert!(PJ_CARRIED_A0_X == Set::A0_X as u32 && PJ_CARRIED_A0_Y == Set::A0_Y as u32);
    assert!(PJ_CARRIED_AL == Set::A_L as u32 && PJ_CARRIED_B15 == Set::B15 as u32);
    assert!(PJ_CARRIED_CMP_X == Set::CMP_X as u32 && PJ_CARRIED_CMP_Y == Set::CMP_Y as u32);
    assert!(PJ_CARRIED_SETEMIT == Set::SETEMIT as u32 && PJ_CARRIED_SLOTS == Set::SLOTS as u32);
};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjAnalysis {
    pub struct_size: usize,
    pub carried_temps: u64,
    pub carried_outputs: u64,
    pub shortest_path: u64,
    pub longest_path: u64,
    pub carried_state: u32,
    pub independent: u32,
    pub inputs: u32,
    pub outputs: u32,
    pub divergent_branches: u32,
    pub reserved: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjBatch {
    pub struct_size: usize,
    pub count: usize,
    pub inputs: *const f32,
    pub outputs: *mut f32,
    pub input_mask: u16,
    pub output_mask: u16,
    pub input_stride: u16,
    pub output_stride: u16,
    pub preserve_unit: u32,
    pub reserved: u32,
    pub ran: *mut usize,
}
