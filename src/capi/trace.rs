//! A shader and a host's memory -> a run that shows the host each instruction.
//!
//! Invariant: the bits are those of `pj_run`. It must not know what instructions do; the interpreter says.

use super::{Callback, Fault, PJ_STOPPED, PjEmitFn, PjShader, given, guarded, host};
use crate::interp::{Interp, Step};
use crate::isa::{DstFile, Inst, Opcode, Stage};
use crate::kernel::Config;
use crate::layout::HostEmitter;
use crate::program::{Entry, Program};
use crate::state::{NoEmitter, Vec4};
use crate::text::inst_to_string;
use std::ffi::{CString, c_char, c_void};
use std::ops::ControlFlow;

pub const PJ_WROTE_OUTPUT: u32 = 1;
pub const PJ_WROTE_TEMPORARY: u32 = 2;
pub const PJ_WROTE_ADDRESS: u32 = 4;
pub const PJ_WROTE_LOOP: u32 = 8;
pub const PJ_WROTE_FLAGS: u32 = 16;
pub const PJ_WROTE_VERTEX: u32 = 32;
pub const PJ_WROTE_SETEMIT: u32 = 64;

pub type PjStepFn = unsafe extern "C" fn(*mut c_void, *const PjStep) -> i32;

#[repr(C)]
pub struct PjStep {
    pub struct_size: usize,
    pub text: *const c_char,
    pub pc: u32,
    pub next: i32,
    pub wrote: u32,
    pub index: u32,
    pub mask: u32,
    pub value: Vec4,
    pub a0: [i32; 2],
    pub al: i32,
    pub cmp: [u8; 2],
    pub bank: u8,
    pub emit_vertex: u8,
    pub emit_primitive: u8,
    pub emit_winding: u8,
    pub reserved: [u8; 2],
}

/// What a shader was made of, for the interpreter.
pub(super) struct Source {
    pub(super) program: Program,
    pub(super) entry: Entry,
    pub(super) config: Config,
}

/// A step without its text. `al` is aL from before it.
fn shown(step: &Step<'_>, stage: Stage, al: i32) -> PjStep {
    let unit = step.unit;
    let mut shown = PjStep {
        struct_size: size_of::<PjStep>(),
        text: std::ptr::null(),
        pc: step.pc.into(),
        next: step.next.map_or(-1, i32::from),
        wrote: 0,
        index: 0,
        mask: 0,
        value: [0.0; 4],
        a0: unit.a0,
        al: unit.al,
        cmp: unit.cmp.map(u8::from),
        bank: unit.bank & 1,
        emit_vertex: unit.setemit.vertex & 3,
        emit_primitive: unit.setemit.primitive.into(),
        emit_winding: unit.setemit.winding.into(),
        reserved: [0; 2],
    };
    if let Some((file, mask, value)) = step.written() {
        let (wrote, index) = match file {
            DstFile::Output(n) => (PJ_WROTE_OUTPUT, n),
            DstFile::Temp(n) => (PJ_WROTE_TEMPORARY, n),
        };
        (shown.wrote, shown.index, shown.mask, shown.value) =
            (wrote, index.into(), mask.component_bits().into(), value);
    }
    shown.wrote |= match step.inst {
        Inst::Alu(alu) if alu.op == Opcode::Litp => PJ_WROTE_FLAGS,
        Inst::Cmp { .. } => PJ_WROTE_FLAGS,
        Inst::Mova { mask, .. } => {
            shown.mask = u32::from(mask.component_bits() & 3);
            if shown.mask == 0 { 0 } else { PJ_WROTE_ADDRESS }
        }
        Inst::Emit if stage == Stage::Geometry => PJ_WROTE_VERTEX,
        Inst::Setemit(_) if stage == Stage::Geometry => PJ_WROTE_SETEMIT,
        _ => 0,
    };
    // The last word of a body changes it, too.
    if unit.al != al || matches!(step.inst, Inst::Loop { .. }) {
        shown.wrote |= PJ_WROTE_LOOP;
    }
    shown
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pj_run_traced(
    shader: *const PjShader,
    unit: *mut c_void,
    uniforms: *const c_void,
    emit: Option<PjEmitFn>,
    step: Option<PjStepFn>,
    user: *mut c_void,
) -> i32 {
    guarded(|| {
        // SAFETY: null, or one that `pj_shader_get` gave and somebody uses.
        let shader = unsafe { given(shader) }?;
        // SAFETY: the header's words on both.
        let host = unsafe { host(shader, unit, uniforms) }?;
        let tell = step.ok_or(Fault::Null)?;
        let Source { program, entry, config } = &shader.1;
        let mut al = host.load().0.al;
        let mut hook = |step: Step<'_>| {
            let text = CString::new(inst_to_string(step.inst)).unwrap_or_default();
            let shown = PjStep { text: text.as_ptr(), ..shown(&step, entry.stage, al) };
            al = step.unit.al;
            // SAFETY: a function of this type, with the pointer that came with it; the text lives during the call.
            match unsafe { tell(user, &shown) } {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        let mut callback = emit.map(|emit| Callback { emit, user });
        let emitter: &mut dyn HostEmitter = match &mut callback {
            Some(callback) => callback,
            None => &mut NoEmitter,
        };
        let exit = Interp.kernel(program, *entry, config).run_traced_on(&host, emitter, &mut hook);
        Ok(exit.map_or(PJ_STOPPED, |exit| exit as i32))
    })
}

#[cfg(test)]
mod tests;
