//! Compiled code that a run calls without its kernel: the fast path of every single run.
//!
//! Invariant: published code lives as long as the [`DirectCode`] that publishes it, and reads and
//! writes memory of one layout. It never emits. This file must not know how code is compiled.

#![allow(unsafe_code)]

use super::Kernel;
use crate::layout::{Host, Layout};
use crate::state::{Exit, Uniforms, Unit, Vec4};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

/// The type of compiled code: `(uniforms, unit, inputs, frame)` -> an [`Exit`]'s number. Any other
/// number: the code has written nothing, and the kernel must serve the run.
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

/// The exit that compiled code returned.
#[inline]
pub(crate) fn exit(code: u32) -> Option<Exit> {
    Some(match code {
        0 => Exit::End,
        1 => Exit::Fuel,
        2 => Exit::BreakOutsideLoop,
        3 => Exit::PastEnd,
        _ => return None,
    })
}

/// A function that may be called without its kernel.
#[derive(Clone, Copy)]
pub struct DirectFunction(Function);

impl DirectFunction {
    /// `function`, for [`Kernel::direct_function`].
    ///
    /// # Safety
    /// While the kernel lives, any thread may call `function` with uniforms and a unit in the
    /// kernel's [layout](Kernel::layout), the unit's `v` registers, and unchecked uniforms.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // then no kernel has machine code
    pub(crate) unsafe fn new(function: Function) -> DirectFunction {
        DirectFunction(function)
    }
}

/// The code that serves the next run of a shader, if that code needs nothing but registers and
/// uniforms. Empty while there is none.
// A cache line of its own: the reference counts of the same allocation change often.
#[repr(align(64))]
pub(crate) struct DirectCode {
    /// Null, or a [`Function`].
    function: AtomicPtr<()>,
    /// Bytes from the unit to `v0`.
    v: usize,
    /// The layout of the memory that the code runs on; `None` is [`Unit`] and [`Uniforms`].
    layout: Option<Layout>,
    /// Owns the code.
    kernel: OnceLock<Arc<dyn Kernel>>,
}

impl DirectCode {
    /// No code yet, for memory of `layout`.
    pub(crate) fn new(layout: Option<Layout>) -> DirectCode {
        let v = layout.unwrap_or(Layout::OWN).offsets().v as usize;
        let (function, kernel) = Default::default();
        DirectCode { function, v, layout, kernel }
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
        let function = kernel.direct_function().map_or(null_mut(), |f| f.0 as *mut ());
        if self.function.load(Ordering::Relaxed) != function {
            self.function.store(function, Ordering::Release);
        }
    }

    /// The code of now.
    #[inline]
    pub(crate) fn get(&self) -> Option<DirectRun<'_>> {
        // A build without native code publishes none. The constant removes the path.
        let function = if cfg!(feature = "jit") { self.function.load(Ordering::Acquire) } else { null_mut() };
        NonNull::new(function).map(|function| DirectRun { function, code: self })
    }

    /// Runs one vertex on picajit's types. `None`: nothing was written, and the kernel must serve
    /// the run.
    #[inline]
    pub(crate) fn run(&self, uniforms: &Uniforms, unit: &mut Unit) -> Option<Exit> {
        if self.layout.is_some() {
            return None;
        }
        // SAFETY: references to the types of this layout.
        unsafe { self.get()?.run((&raw const *uniforms).cast(), (&raw mut *unit).cast()) }
    }

    /// Runs one vertex on a host's memory. `None`: nothing was written, and the kernel must serve
    /// the run.
    #[inline]
    pub(crate) fn run_on(&self, host: &Host<'_>) -> Option<Exit> {
        let layout = self.layout.as_ref()?;
        if !std::ptr::eq(layout, host.layout()) && layout != host.layout() {
            return None;
        }
        // SAFETY: a host's blocks have the size and the alignment of its layout, which is the
        // code's. They are cells, which code may write.
        unsafe { self.get()?.run(host.uniforms().as_ptr().cast(), host.unit().as_ptr().cast_mut().cast()) }
    }
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
    #[inline]
    pub(crate) unsafe fn run(self, uniforms: *const u8, unit: *mut u8) -> Option<Exit> {
        let inputs = unit.wrapping_add(self.code.v).cast_const().cast();
        // SAFETY: the pointer came from a `Function` in `publish`. Its kernel, which the
        // `DirectCode` holds, has the layout of these blocks, so `DirectFunction::new` permits the
        // call.
        exit(unsafe {
            let function: Function = std::mem::transmute(self.function);
            function(uniforms, unit, inputs, &CONSTANTS)
        })
    }
}
