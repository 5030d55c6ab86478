//! What a run runs on: a unit of ours, or a host's memory, and who receives what it emits.
//!
//! It must not know what runs.

use crate::kernel::{Kernel, copy_registers, with_host_copies};
use crate::layout::{Host, HostEmitter};
use crate::state::{Emitter, Exit, Uniforms, Unit, Vec4};
use std::cell::Cell;

/// Registers and uniforms, for one run or one batch.
pub(crate) enum RunMemory<'a> {
    /// In our own types.
    Own { uniforms: &'a Uniforms, unit: &'a mut Unit, emitter: &'a mut dyn Emitter },
    /// Where a host has them.
    Host { host: &'a Host<'a>, emitter: &'a mut dyn HostEmitter },
}

impl RunMemory<'_> {
    /// Takes inputs whose bit is set in `mask`.
    #[inline]
    pub(crate) fn take_inputs(&mut self, mask: u16, inputs: &[Vec4]) {
        match self {
            RunMemory::Own { unit, .. } => copy_registers(mask, inputs, &mut unit.v),
            RunMemory::Host { host, .. } => host.take_inputs(mask, inputs),
        }
    }

    /// Copies the current outputs whose bit is set in `mask`.
    pub(crate) fn copy_outputs(&self, mask: u16, outputs: &mut [Vec4]) {
        match self {
            RunMemory::Own { unit, .. } => copy_registers(mask, unit.outputs(), outputs),
            RunMemory::Host { host, .. } => host.copy_outputs(mask, outputs),
        }
    }

    /// Does work behind which the unit is as before.
    #[inline(never)]
    pub(crate) fn keeping_unit<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let (before, flags) = match self {
            RunMemory::Own { unit, .. } => (unit.clone(), None),
            RunMemory::Host { host, .. } => (host.load().0, Some(host.flag_bytes().map(|byte| byte.map(Cell::get)))),
        };
        let result = work(self);
        match self {
            RunMemory::Own { unit, .. } => **unit = before,
            RunMemory::Host { host, .. } => {
                host.store(&before);
                // Where a host has other bytes than 0 and 1, they are these again.
                for (byte, was) in host.flag_bytes().into_iter().zip(flags.into_iter().flatten()) {
                    byte.zip(was).into_iter().for_each(|(byte, was)| byte.set(was));
                }
            }
        }
        result
    }

    /// Runs a kernel that reads inputs in the unit only: those of `reads` are lent to it for the run, if they are elsewhere.
    pub(crate) fn interpret(&mut self, kernel: &dyn Kernel, reads: u16, inputs: Option<&[Vec4]>) -> Exit {
        let lent = |uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter| {
            let own = unit.v;
            copy_registers(reads, inputs.unwrap_or(&own), &mut unit.v);
            let exit = kernel.run(uniforms, unit, emitter);
            unit.v = own;
            exit
        };
        match self {
            RunMemory::Own { uniforms, unit, emitter } => lent(uniforms, unit, *emitter),
            RunMemory::Host { host, emitter } => with_host_copies(host, *emitter, lent),
        }
    }
}
