//! Draws from guest memory in C: regions or a callback -> [`Memory`], slices of triangles -> a
//! callback.
//!
//! This file must not know registers and formats.

use super::*;
use crate::gpu::{DrawOptions, Memory, Sink, VertexFormat};
use crate::semantics::SEMANTICS;

/// Guest memory as the host describes it.
pub(super) struct HostMemory<'a> {
    regions: &'a [PjRegion],
    memory: Option<PjMemoryFn>,
    user: *mut c_void,
}

impl<'a> HostMemory<'a> {
    /// # Safety
    /// The draw's arrays have their lengths for `'a`.
    pub(super) unsafe fn new(draw: &PjGuestDraw) -> Result<HostMemory<'a>, Fault> {
        // SAFETY: the caller guarantees it.
        let regions = unsafe { input_slice(draw.regions, draw.region_count) }?;
        for region in regions.iter().filter(|region| region.length > 0) {
            check_pointer(region.bytes, region.length)?;
        }
        Ok(HostMemory { regions, memory: draw.memory, user: draw.user })
    }
}

impl Memory for HostMemory<'_> {
    fn bytes(&self, address: u32, length: usize) -> &[u8] {
        for region in self.regions {
            let offset = address.checked_sub(region.address).and_then(|offset| usize::try_from(offset).ok());
            let Some(offset) = offset.filter(|&offset| offset < region.length) else { continue };
            // SAFETY: the header requires an array of the region's length, which the draw only
            // reads. Nulls were rejected.
            return unsafe { input_slice(region.bytes.add(offset), length.min(region.length - offset)) }
                .unwrap_or_default();
        }
        let Some(memory) = self.memory else { return &[] };
        let mut available = 0;
        // SAFETY: the host's function gets the host's pointer, and a place for a number.
        let bytes = unsafe { memory(self.user, address, length, &raw mut available) };
        // SAFETY: the header requires an array of this length, which stays until the draw returns.
        unsafe { input_slice(bytes.cast::<u8>(), length.min(available)) }.unwrap_or_default()
    }
}

/// The host's callback for slices of triangles.
struct SliceCallback {
    triangles: PjTrianglesFn,
    user: *mut c_void,
    format: VertexFormat,
}

impl Sink for SliceCallback {
    fn format(&self) -> VertexFormat {
        self.format
    }

    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
        let count = vertices.len() / self.format.stride();
        let numbers = triangles.as_flattened().as_ptr();
        // SAFETY: the host's function gets the host's pointer.
        unsafe { (self.triangles)(self.user, vertices.as_ptr(), count, numbers, triangles.len()) };
    }
}

/// The format of 24 offsets, 255 for components that it leaves out.
///
/// # Safety
/// `offsets` is null or has its length.
pub(super) unsafe fn vertex_format(offsets: *const u8, stride: u32) -> Result<VertexFormat, Fault> {
    if offsets.is_null() {
        return Ok(VertexFormat::default());
    }
    // SAFETY: the caller guarantees it.
    let offsets = unsafe { input_slice(offsets, SEMANTICS) }?;
    let offsets = std::array::from_fn(|n| Some(offsets[n]).filter(|&offset| offset != u8::MAX));
    let stride = u8::try_from(stride).map_err(|_| Fault::InvalidArgument)?;
    VertexFormat::new(offsets, stride).ok_or(Fault::InvalidArgument)
}

impl PjGuestDraw {
    pub(super) fn kind(&self) -> Result<Draw, Fault> {
        match self.effect {
            PJ_EFFECT_DRAW_ARRAYS => Ok(Draw::Arrays),
            PJ_EFFECT_DRAW_ELEMENTS => Ok(Draw::Elements),
            _ => Err(Fault::InvalidArgument),
        }
    }

    pub(super) fn options(&self) -> Result<DrawOptions, Fault> {
        let vertex_cache = u8::try_from(self.vertex_cache_entries).map_err(|_| Fault::InvalidArgument)?;
        Ok(DrawOptions { limit: (self.limit != 0).then_some(self.limit), vertex_cache })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw(gpu: *mut PjGpu, draw: *const PjGuestDraw, report: *mut PjReport) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let mut gpu = unsafe { deref(gpu) }?.take()?;
        // SAFETY: the header requires a structure of its declared size; any bytes are valid.
        let draw = unsafe { read_sized(draw, PjGuestDraw::ZERO, GUEST_DRAW_BYTES) }?;
        if !report.is_null() {
            // SAFETY: as above. Errors must be found before anything is drawn.
            unsafe { read_sized(report, PjReport::default(), REPORT_BYTES) }?;
        }
        // SAFETY: the header requires arrays of these lengths.
        let (memory, format) = unsafe { (HostMemory::new(&draw)?, vertex_format(draw.offsets, draw.stride)?) };
        let (kind, options) = (draw.kind()?, draw.options()?);
        let mut sink = SliceCallback { triangles: draw.triangles.ok_or(Fault::Null)?, user: draw.user, format };
        let value = PjReport::new(&gpu.get().draw(kind, &memory, &options, &mut sink));
        match report.is_null() {
            true => Ok(PJ_OK),
            // SAFETY: as above.
            false => unsafe { write_sized(report, &value, REPORT_BYTES) },
        }
    })
}
