//! Compiled code that a run calls without its kernel: the fast path of every single run.
//!
//! Invariant: published code lives as long as the [`DirectCode`] that publishes it, and reads and
//! writes memory of one layout. It never emits. This file must not know how code is compiled.

#![allow(unsafe_code)]

use super::Kernel;
use crate::fp_mode::{self, DefaultMode};
use crate::layout::{HostMemory, Layout};
use crate::state::{Exit, Vec4};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The type of compiled code: `(uniforms, unit, inputs, frame)` -> an [`Exit`]'s number. Any other
/// number: the code has written nothing, and the kernel must serve the run. A frame begins with
/// [`FrameConstants`].
pub type Function = unsafe extern "C" fn(*const u8, *mut u8, *const Vec4, *const FrameConstants) -> u32;

/// The first field of a frame, and all that code without EMIT reads of one.
#[repr(C, align(16))]
pub struct FrameConstants {
    /// The value of uniforms beyond `c95`, for relative addressing.
    pub(crate) ones: [f32; 4],
    /// 1 if this code has run with the same uniforms before and did not deoptimise.
    pub(crate) uniforms_checked: u32,
}

impl FrameConstants {
    pub(crate) const fn new(uniforms_checked: bool) -> FrameConstants {
        FrameConstants { ones: [1.0; 4], uniforms_checked: uniforms_checked as u32 }
    }
}

static CONSTANTS: FrameConstants = FrameConstants::new(false);

/// The frame of outputs-only code for one vertex.
#[repr(C, align(16))]
pub(crate) struct OutputsFrame {
    pub(crate) constants: FrameConstants,
    /// Registers that take the outputs of `output_mask`.
    pub(crate) outputs: *mut Vec4,
    pub(crate) output_mask: u32,
}

/// The exit that compiled code returned.
#[inline]
pub(crate) fn exit(code: u32) -> Option<Exit> {
    // Not in a table, which would be one more line of data.
    if code == 0 { Some(Exit::End) } else { other_exit(code) }
}

#[cold]
fn other_exit(code: u32) -> Option<Exit> {
    Some(match code {
        1 => Exit::Fuel,
        2 => Exit::BreakOutsideLoop,
        3 => Exit::PastEnd,
        5 => Exit::Cancelled,
        _ => return None,
    })
}

/// Functions that may be called without their kernel.
#[derive(Clone, Copy, Default)]
pub struct DirectFunctions {
    run: Option<Function>,
    outputs: Option<Function>,
    masks: Masks,
}

/// What code reads and writes; bit n is register n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// The `v` registers that code reads.
    pub reads: u16,
    /// The outputs that outputs-only code writes, in every run.
    pub writes: u16,
}

impl DirectFunctions {
    /// For [`Kernel::direct_functions`]: code for one vertex, and outputs-only code with its masks.
    ///
    /// # Safety
    /// While the kernel lives, any thread may call each function with uniforms and a unit in the
    /// kernel's [layout](Kernel::layout), inputs, and a frame with unchecked uniforms. Either reads
    /// the inputs of [`Masks::reads`]. `outputs` leaves the unit unchanged, and writes those of its
    /// [`Masks::writes`] that an [`OutputsFrame`] wants. What a function reads and writes never
    /// changes.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // then no kernel has machine code
    pub(crate) unsafe fn new(run: Option<Function>, outputs: Option<Function>, masks: Masks) -> DirectFunctions {
        DirectFunctions { run, outputs, masks }
    }
}

/// The code that serves the next run of a shader, if that code needs nothing but registers and
/// uniforms. Empty while there is none.
// A cache line of its own: the reference counts of the same allocation change often.
#[repr(align(64))]
pub(crate) struct DirectCode {
    /// Null, or a [`Function`] that runs one vertex.
    run: AtomicPtr<()>,
    /// Bytes from the unit to `v0`.
    v: usize,
    /// Null, or a [`Function`] that runs one vertex and leaves the unit unchanged.
    outputs: AtomicPtr<()>,
    /// [`Masks`]: what either function reads, then what `outputs` writes. Published before these.
    masks: AtomicU32,
    /// The layout of the memory that the code runs on; `None` is [`Unit`] and [`Uniforms`].
    layout: Option<Layout>,
    /// Owns the code.
    kernel: OnceLock<Arc<dyn Kernel>>,
}

impl DirectCode {
    /// No code yet, for memory of `layout`.
    pub(crate) fn new(layout: Option<Layout>) -> DirectCode {
        let v = layout.unwrap_or(Layout::OWN).offsets().v as usize;
        let (run, outputs, masks, kernel) = Default::default();
        DirectCode { run, v, outputs, masks, layout, kernel }
    }

    /// The layout of the memory that the code runs on; `None` is [`Unit`] and [`Uniforms`].
    #[inline]
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// Publishes the code with which `kernel`, compiled for this layout, now serves a run. Of
    /// several kernels the first one stays.
    pub(crate) fn publish(&self, kernel: &Arc<dyn Kernel>) {
        let kernel = self.kernel.get_or_init(|| kernel.clone());
        assert!(kernel.layout() == self.layout(), "the layout is part of the key");
        let DirectFunctions { run, outputs, masks } = kernel.direct_functions();
        self.masks.store(u32::from(masks.reads) | u32::from(masks.writes) << 16, Ordering::Release);
        for (to, function) in [(&self.run, run), (&self.outputs, outputs)] {
            let function = function.map_or(null_mut(), |function| function as *mut ());
            // The load keeps the cache line shared while nothing changes.
            if to.load(Ordering::Relaxed) != function {
                to.store(function, Ordering::Release);
            }
        }
    }

    /// The currently published code for one vertex.
    #[inline]
    pub(crate) fn get(&self) -> Option<DirectRun<'_>> {
        load(&self.run).map(|function| DirectRun { function, code: self })
    }

    /// Runs one vertex. `None`: nothing was written, and the kernel must serve the run.
    #[inline]
    pub(crate) fn run_on(&self, memory: &HostMemory<'_>) -> Option<Exit> {
        if !self.fits(memory) {
            return None;
        }
        let (uniforms, unit) = memory.addresses();
        // SAFETY: the memory has the size and the alignment of its layout, which is the code's.
        unsafe { self.get()?.run(uniforms, unit) }
    }

    /// [`DirectCode::run_on`] for a unit whose `v` registers of `input_mask` are copies of `inputs`.
    #[inline]
    pub(crate) fn run_copied(&self, memory: &HostMemory<'_>, inputs: &[Vec4], input_mask: u16) -> Option<Exit> {
        assert!(above(input_mask, inputs.len()) == 0);
        if !self.fits(memory) {
            return None;
        }
        let (uniforms, unit) = memory.addresses();
        // SAFETY: as in `run_on`, and the inputs have the registers.
        unsafe { self.get()?.run_copied(uniforms, unit, inputs.as_ptr(), input_mask) }
    }

    /// Runs one vertex from its inputs to its outputs. The unit stays unchanged. `None`: the kernel
    /// must serve the run.
    #[inline]
    pub(crate) fn run_outputs(&self, memory: &HostMemory<'_>, vertex: Vertex<'_>) -> Option<Exit> {
        if !self.fits(memory) {
            return None;
        }
        vertex.check();
        let (uniforms, unit) = memory.addresses();
        // SAFETY: as in `run_on`, and the vertex is checked.
        unsafe { self.run_outputs_raw(uniforms, unit, vertex) }
    }

    /// [`DirectCode::run_outputs`] on memory that the caller answers for.
    ///
    /// # Safety
    /// `uniforms` and `unit` are blocks in the layout of [`DirectCode::new`], aligned to 16 bytes.
    /// No other thread uses them. The vertex has the registers of its masks.
    #[inline(always)]
    pub(crate) unsafe fn run_outputs_raw(
        &self,
        uniforms: *const u8,
        unit: *mut u8,
        vertex: Vertex<'_>,
    ) -> Option<Exit> {
        let Vertex { inputs, outputs, input_mask, output_mask } = vertex;
        let function = load(&self.outputs)?;
        let masks = self.masks.load(Ordering::Relaxed);
        let (reads, writes) = (masks as u16, (masks >> 16) as u16);
        if reads & !input_mask != 0 || output_mask & !writes != 0 {
            return None;
        }
        let frame = OutputsFrame {
            constants: FrameConstants::new(false),
            outputs: outputs.as_mut_ptr(),
            output_mask: output_mask.into(),
        };
        let _mode = DefaultMode::enter();
        // SAFETY: the pointer came from a `Function` in `publish`, whose kernel this holds. The
        // blocks have its layout. It reads inputs of its mask and writes outputs of the frame's,
        // and the vertex has these. `FrameConstants` is the first field of a frame.
        exit(unsafe {
            let function: Function = std::mem::transmute(function);
            function(uniforms, unit, inputs.as_ptr(), (&raw const frame).cast())
        })
    }

    #[inline(always)]
    fn fits(&self, memory: &HostMemory<'_>) -> bool {
        memory.has_layout(self.layout())
    }
}

/// A vertex of a batch: its registers, and which of them the batch provides and wants.
pub(crate) struct Vertex<'a> {
    pub(crate) inputs: &'a [Vec4],
    pub(crate) outputs: &'a mut [Vec4],
    pub(crate) input_mask: u16,
    pub(crate) output_mask: u16,
}

impl Vertex<'_> {
    /// Panics unless it has the registers of its masks.
    #[inline]
    fn check(&self) {
        assert!(above(self.input_mask, self.inputs.len()) == 0 && above(self.output_mask, self.outputs.len()) == 0);
    }
}

/// The bits of a mask from bit `len` on.
#[inline]
fn above(mask: u16, len: usize) -> u32 {
    u32::from(mask) >> len.min(16)
}

/// A function, if it is published.
#[inline]
fn load(function: &AtomicPtr<()>) -> Option<NonNull<()>> {
    // A build without native code publishes none. The constant removes all paths to code.
    NonNull::new(if cfg!(feature = "jit") { function.load(Ordering::Acquire) } else { null_mut() })
}

/// Code that was published when a run looked.
#[derive(Clone, Copy)]
pub(crate) struct DirectRun<'a> {
    /// A [`Function`].
    function: NonNull<()>,
    code: &'a DirectCode,
}

/// One call of published code in its parts, for benchmarks.
#[derive(Clone, Copy)]
pub struct MachineCode {
    /// The code. The kernel that owns it must live.
    pub function: Function,
    /// Bytes from the unit to `v0`, which are the inputs of a call.
    pub v: usize,
    /// The frame of a call.
    pub frame: *const FrameConstants,
}

impl DirectRun<'_> {
    /// The parts of [`DirectRun::run`].
    pub(crate) fn machine_code(self) -> MachineCode {
        // SAFETY: the pointer came from a `Function` in `publish`.
        let function: Function = unsafe { std::mem::transmute(self.function) };
        MachineCode { function, v: self.code.v, frame: &CONSTANTS }
    }

    /// Runs one vertex. `None`: nothing was written, and the kernel must serve the run.
    ///
    /// # Safety
    /// `uniforms` and `unit` are blocks in the layout of the [`DirectCode`], aligned to 16 bytes.
    /// No other thread uses them.
    #[inline(always)]
    pub(crate) unsafe fn run(self, uniforms: *const u8, unit: *mut u8) -> Option<Exit> {
        fp_mode::assert_default();
        let inputs = unit.wrapping_add(self.code.v).cast_const().cast();
        // SAFETY: the unit's own inputs; the caller promises the rest.
        unsafe { self.call(uniforms, unit, inputs) }
    }

    /// [`DirectRun::run`] for a unit whose `v` registers of `input_mask` are copies of `inputs`. It
    /// reads `inputs` where it can: a load from the unit would wait for the copy's store.
    ///
    /// # Safety
    /// As for [`DirectRun::run`], and `inputs` has the registers of the mask.
    #[inline(always)]
    pub(crate) unsafe fn run_copied(
        self,
        uniforms: *const u8,
        unit: *mut u8,
        inputs: *const Vec4,
        input_mask: u16,
    ) -> Option<Exit> {
        let own = unit.wrapping_add(self.code.v).cast_const().cast();
        let reads = self.code.masks.load(Ordering::Relaxed) as u16;
        let inputs = if reads & !input_mask == 0 { inputs } else { own };
        let _mode = DefaultMode::enter();
        // SAFETY: both have the registers that the code reads; the caller promises the rest.
        unsafe { self.call(uniforms, unit, inputs) }
    }

    /// # Safety
    /// As for [`DirectRun::run`], and `inputs` has the registers that the code reads.
    #[inline(always)]
    unsafe fn call(self, uniforms: *const u8, unit: *mut u8, inputs: *const Vec4) -> Option<Exit> {
        // SAFETY: the pointer came from a `Function` in `publish`. Its kernel, which the
        // `DirectCode` holds, has the layout of these blocks, so `DirectFunctions::new` permits
        // the call.
        exit(unsafe {
            let function: Function = std::mem::transmute(self.function);
            function(uniforms, unit, inputs, &CONSTANTS)
        })
    }
}
