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
        let regions = unsafe { input_slice(draw.regions, draw.region_count, "pj_guest_draw.regions") }?;
        for (n, region) in regions.iter().enumerate().filter(|(_, region)| region.length > 0) {
            check_pointer(region.bytes, region.length, "pj_region.bytes")
                .map_err(|fault| fault.of_element("pj_guest_draw.regions", n))?;
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
            return unsafe { input_slice(region.bytes.add(offset), length.min(region.length - offset), "") }
                .unwrap_or_default();
        }
        let Some(memory) = self.memory else { return &[] };
        let mut available = 0;
        // SAFETY: the host's function gets the host's pointer, and a place for a number.
        let bytes = unsafe { memory(self.user, address, length, &raw mut available) };
        // SAFETY: the header requires an array of this length, which stays until the draw returns.
        unsafe { input_slice(bytes.cast::<u8>(), length.min(available), "") }.unwrap_or_default()
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

/// The format of 24 offsets, 255 for components that it leaves out. That of the GPU's last draw is not
/// checked again.
///
/// # Safety
/// `offsets` is null or has its length.
pub(super) unsafe fn vertex_format(
    gpu: &Gpu,
    offsets: *const u8,
    stride: u32,
    names: [&'static str; 2],
) -> Result<VertexFormat, Fault> {
    if offsets.is_null() {
        return Ok(VertexFormat::default());
    }
    // SAFETY: the caller guarantees it. Bytes are aligned.
    let offsets: &[u8; SEMANTICS] = unsafe { &*offsets.cast() };
    match gpu.vertex_format().filter(|format| format.has_offsets(offsets, stride)) {
        Some(format) => Ok(*format),
        None => checked_format(offsets, stride, names),
    }
}

#[cold]
#[inline(never)]
fn checked_format(
    offsets: &[u8; SEMANTICS],
    stride: u32,
    [offsets_name, stride_name]: [&'static str; 2],
) -> Result<VertexFormat, Fault> {
    let offsets: [_; SEMANTICS] = std::array::from_fn(|n| Some(offsets[n]).filter(|&offset| offset != u8::MAX));
    let valid = u8::try_from(stride).ok().filter(|&stride| stride > 0);
    let valid = valid.ok_or(Fault::Range(stride_name, stride.into(), "1 to 255 with offsets"))?;
    VertexFormat::new(offsets, valid).ok_or_else(|| {
        let is_wrong =
            |n: usize| offsets[n].is_some_and(|offset| offset >= valid || offsets[..n].contains(&Some(offset)));
        let n = (0..SEMANTICS).find(|&n| is_wrong(n)).unwrap_or_default();
        let offset = offsets[n].unwrap_or_default();
        Fault::Range("the offset", offset.into(), "less than the stride and no other's, or 255")
            .of_element(offsets_name, n)
    })
}

impl PjGuestDraw {
    /// # Safety
    /// The offsets are null or have their length.
    pub(super) unsafe fn format(&self, gpu: &Gpu) -> Result<VertexFormat, Fault> {
        // SAFETY: the caller guarantees it.
        unsafe { vertex_format(gpu, self.offsets, self.stride, ["pj_guest_draw.offsets", "pj_guest_draw.stride"]) }
    }

    pub(super) fn kind(&self) -> Result<Draw, Fault> {
        match self.effect {
            PJ_EFFECT_DRAW_ARRAYS => Ok(Draw::Arrays),
            PJ_EFFECT_DRAW_ELEMENTS => Ok(Draw::Elements),
            other => {
                let effects = "PJ_EFFECT_DRAW_ARRAYS (1) or PJ_EFFECT_DRAW_ELEMENTS (2)";
                Err(Fault::Range("pj_guest_draw.effect", other as u32 as u64, effects))
            }
        }
    }

    pub(super) fn options(&self) -> Result<DrawOptions, Fault> {
        let vertex_cache = cache_entries(self.vertex_cache_entries, "pj_guest_draw.vertex_cache_entries")?;
        Ok(DrawOptions { limit: (self.limit != 0).then_some(self.limit), vertex_cache })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_gpu_draw(gpu: *mut PjGpu, draw: *const PjGuestDraw, report: *mut PjReport) -> i32 {
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_gpu_new`.
        let mut gpu = unsafe { deref(gpu, "gpu") }?.take()?;
        // SAFETY: the header requires a structure of its declared size; any bytes are valid.
        let draw: PjGuestDraw = unsafe { read_sized(draw) }?;
        // SAFETY: as above. Errors must be found before anything is drawn.
        unsafe { check_optional(report) }?;
        // SAFETY: the header requires arrays of these lengths.
        let (memory, format) = unsafe { (HostMemory::new(&draw)?, draw.format(gpu.get())?) };
        let (kind, options) = (draw.kind()?, draw.options()?);
        let Some(triangles) = draw.triangles else { return Err(Fault::Null("pj_guest_draw.triangles")) };
        let mut sink = SliceCallback { triangles, user: draw.user, format };
        let value = PjReport::new(&gpu.get().draw(kind, &memory, &options, &mut sink));
        // SAFETY: as above.
        unsafe { write_optional(report, value) }
    })
}
