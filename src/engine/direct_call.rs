//! A shader -> a function with C's calling convention, and its context.
//!
//! Invariant: the context is the shader itself, so the pair follows it from tier to tier. This file
//! must not know how shaders are compiled.

#![allow(unsafe_code)]

use super::compiled::Compiled;
use super::shader::Shader;
use crate::kernel::direct::{DirectRun, MachineCode};
use crate::layout::{HostError, HostMemory, Layout};
use crate::state::{NoEmitter, Uniforms, Unit};
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

/// `(context, unit, uniforms)` -> the number of an [`Exit`](crate::state::Exit), or
/// [`DirectCall::FAILED`].
pub type DirectCallFn = unsafe extern "C" fn(*const c_void, *mut c_void, *const c_void) -> i32;

/// A function and its context, which run one vertex of a shader. For hosts that call from code they
/// generate, or keep a pair of pointers with their draw state.
///
/// The pair is valid while a [`Shader`] of the same program is held, also after the engine has
/// evicted it, was cleared or was dropped. Each call runs on the code that serves the shader then:
/// native code as soon as it is compiled, tier 0 before that and without native code, and with
/// crosschecks the oracle too.
///
/// The call skips the checks of a safe run. `unit` and `uniforms` must be blocks of the shader's
/// [layout](Shader::layout), or a [`Unit`] and [`Uniforms`] if it has none: aligned to 16 bytes,
/// complete, and used by no other thread. Vertices that a geometry program emits are dropped.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DirectCall {
    /// The function.
    pub function: DirectCallFn,
    /// Its first argument.
    pub context: *const c_void,
}

// SAFETY: the context is a shader, which any number of threads may run.
unsafe impl Send for DirectCall {}
// SAFETY: the same.
unsafe impl Sync for DirectCall {}

impl DirectCall {
    /// Returned instead of an exit after a bug in picajit. Registers are then unspecified.
    pub const FAILED: i32 = -8;

    /// The machine code that serves the next call, unless the kernel serves it. For benchmarks.
    ///
    /// # Safety
    /// The pair is valid.
    #[doc(hidden)]
    pub unsafe fn machine_code(&self) -> Option<MachineCode> {
        // SAFETY: the context of a valid pair points into a live `Arc<Compiled>`.
        let compiled = unsafe { &*self.context.cast::<Compiled>() };
        compiled.direct().get().map(DirectRun::machine_code)
    }
}

impl Shader {
    /// The shader as a function and its context. Both stay valid while any clone of the shader is
    /// held.
    pub fn direct_call(&self) -> DirectCall {
        DirectCall { function: run, context: Arc::as_ptr(&self.0).cast() }
    }
}

/// The function of every pair.
///
/// # Safety
/// As [`DirectCall`] says.
unsafe extern "C" fn run(context: *const c_void, unit: *mut c_void, uniforms: *const c_void) -> i32 {
    // SAFETY: the context points into a live `Arc<Compiled>`.
    let compiled = unsafe { &*context.cast::<Compiled>() };
    // SAFETY: the caller promises blocks of the shader's layout.
    let exit = compiled.direct().get().and_then(|code| unsafe { code.run(uniforms.cast(), unit.cast()) });
    match exit {
        Some(exit) => exit as i32,
        // SAFETY: the same promises.
        None => unsafe { run_by_kernel(compiled, unit, uniforms) },
    }
}

/// A run that direct code did not serve.
///
/// # Safety
/// As for [`run`]; `compiled` is the content of a live `Arc`.
#[cold]
unsafe fn run_by_kernel(compiled: &Compiled, unit: *mut c_void, uniforms: *const c_void) -> i32 {
    let work = || {
        // SAFETY: the content of a live `Arc`, whose count this does not change.
        let shader = unsafe { borrow(compiled) };
        match shader.layout() {
            Some(layout) => {
                // SAFETY: the caller promises blocks of this layout.
                let memory = unsafe { host(layout, unit, uniforms) }.ok()?;
                Some(shader.run_on(&memory, &mut NoEmitter))
            }
            None => {
                // SAFETY: without a layout the blocks are these types, which nothing else uses.
                let (uniforms, unit) = unsafe { (&*uniforms.cast::<Uniforms>(), &mut *unit.cast::<Unit>()) };
                Some(shader.run(uniforms, unit))
            }
        }
    };
    // A panic must not unwind into the caller.
    let exit = catch_unwind(AssertUnwindSafe(work)).ok().flatten();
    exit.map_or(DirectCall::FAILED, |exit| exit as i32)
}

/// A shader that another reference keeps alive.
///
/// # Safety
/// `compiled` is the content of an `Arc` that outlives the result.
pub(crate) unsafe fn borrow(compiled: *const Compiled) -> ManuallyDrop<Shader> {
    // SAFETY: `ManuallyDrop` leaves the count as it was.
    ManuallyDrop::new(Shader(unsafe { Arc::from_raw(compiled) }))
}

/// A host's blocks of registers and uniforms.
///
/// # Safety
/// Each is misaligned, or a block of `layout` that lives for `'a` and that no other thread uses
/// meanwhile.
#[inline]
pub(crate) unsafe fn host<'a>(
    layout: &'a Layout,
    unit: *mut c_void,
    uniforms: *const c_void,
) -> Result<HostMemory<'a>, HostError> {
    // Checked before slices exist: a misaligned pointer need not have a whole block after it.
    for (block, at) in [("unit", unit.addr()), ("uniforms", uniforms.addr())] {
        if !at.is_multiple_of(align_of::<Unit>()) {
            return Err(HostError::Misaligned { block });
        }
    }
    // SAFETY: other code on this thread may write cells. Runs write those of the unit only: a
    // `const` pointer to uniforms may alias the unit. The lengths are those of the layout, less
    // than 2^31.
    let (unit, uniforms) = unsafe {
        let bytes = |at: *const c_void, len: u32| slice::from_raw_parts(at.cast::<Cell<u8>>(), len as usize);
        (bytes(unit, layout.offsets().unit_bytes), bytes(uniforms, layout.offsets().uniforms_bytes))
    };
    HostMemory::new(layout, unit, uniforms)
}
