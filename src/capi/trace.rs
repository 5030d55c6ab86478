//! A shader and a host's memory -> a run that reports each instruction to the host.
//!
//! Invariant: same bits as `pj_run`. This file must not know the meaning of instructions; the
//! interpreter supplies it.

use super::{EmitCallback, Fault, PJ_STOPPED, PjEmitFn, PjShader, borrow_shader, catch_panics, host};
use crate::interp::Step;
use crate::isa::{DstFile, Inst, Opcode, Stage};
use crate::layout::HostEmitter;
use crate::state::{NoEmitter, Vec4};
use std::ffi::{CString, c_char, c_void};
use std::ops::ControlFlow;

pub const PJ_WROTE_OUTPUT: u32 = 1;
pub const PJ_WROTE_TEMPORARY: u32 = 2;
pub const PJ_WROTE_ADDRESS: u32 = 4;
pub const PJ_WROTE_LOOP_COUNTER: u32 = 8;
pub const PJ_WROTE_FLAGS: u32 = 16;
pub const PJ_WROTE_EMIT: u32 = 32;
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

/// A step without its text. `al` is the value of aL before the step.
fn step_fields(step: &Step<'_>, stage: Stage, al: i32) -> PjStep {
    let unit = step.unit;
    let mut fields = PjStep {
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
        (fields.wrote, fields.index, fields.mask, fields.value) =
            (wrote, index.into(), mask.component_bits().into(), value);
    }
    fields.wrote |= match step.inst {
        Inst::Alu(alu) if alu.op == Opcode::Litp => PJ_WROTE_FLAGS,
        Inst::Cmp { .. } => PJ_WROTE_FLAGS,
        Inst::Mova { mask, .. } => {
            fields.mask = u32::from(mask.component_bits() & 3);
            if fields.mask == 0 { 0 } else { PJ_WROTE_ADDRESS }
        }
        Inst::Emit if stage == Stage::Geometry => PJ_WROTE_EMIT,
        Inst::Setemit(_) if stage == Stage::Geometry => PJ_WROTE_SETEMIT,
        _ => 0,
    };
    // The last word of a loop body changes aL, too.
    if unit.al != al || matches!(step.inst, Inst::Loop { .. }) {
        fields.wrote |= PJ_WROTE_LOOP_COUNTER;
    }
    fields
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
    catch_panics(|| {
        // SAFETY: null, or a live handle of `pj_shader_get`.
        let shader = unsafe { borrow_shader(shader) }?;
        // SAFETY: the header requires valid pointers.
        let host = unsafe { host(&shader, unit, uniforms) }?;
        let callback = step.ok_or(Fault::Null("step"))?;
        let stage = shader.source().1.stage;
        let mut al = host.load().0.al;
        let mut hook = |step: Step<'_>| {
            let text = CString::new(step.inst.to_string()).unwrap_or_default();
            let report = PjStep { text: text.as_ptr(), ..step_fields(&step, stage, al) };
            al = step.unit.al;
            // SAFETY: the host's function gets the host's pointer; the text lives during the call.
            match unsafe { callback(user, &report) } {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        let mut emit_callback = emit.map(|emit| EmitCallback { emit, user });
        let emitter: &mut dyn HostEmitter = match &mut emit_callback {
            Some(emitter) => emitter,
            None => &mut NoEmitter,
        };
        let exit = shader.new_oracle().run_traced_on(&host, emitter, &mut hook);
        Ok(exit.map_or(PJ_STOPPED, |exit| exit as i32))
    })
}

#[cfg(test)]
mod tests;
