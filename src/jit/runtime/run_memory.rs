//! The registers, uniforms and emitter of a run: picajit's own types, or a host's memory.

use crate::kernel::{Kernel, copy_registers, with_host_copies};
use crate::layout::{Host, HostEmitter};
use crate::state::{Emitter, Exit, Uniforms, Unit, Vec4};
use std::cell::Cell;

/// Registers and uniforms, for one run or one batch.
pub(crate) enum RunMemory<'a> {
    /// picajit's types.
    Own { uniforms: &'a Uniforms, unit: &'a mut Unit, emitter: &'a mut dyn Emitter },
    /// A host's memory.
    Host { host: &'a Host<'a>, emitter: &'a mut dyn HostEmitter },
}

impl RunMemory<'_> {
    /// Copies the inputs in `mask` into the unit.
    #[inline]
    pub(crate) fn take_inputs(&mut self, mask: u16, inputs: &[Vec4]) {
        match self {
            RunMemory::Own { unit, .. } => copy_registers(mask, inputs, &mut unit.v),
            RunMemory::Host { host, .. } => host.take_inputs(mask, inputs),
        }
    }

    /// Copies the current outputs in `mask` out of the unit.
    pub(crate) fn copy_outputs(&self, mask: u16, outputs: &mut [Vec4]) {
        match self {
            RunMemory::Own { unit, .. } => copy_registers(mask, unit.outputs(), outputs),
            RunMemory::Host { host, .. } => host.copy_outputs(mask, outputs),
        }
    }

    /// Runs `work`, and then restores the unit.
    #[inline(never)]
    pub(crate) fn preserving_unit<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let (before, flags) = match self {
            RunMemory::Own { unit, .. } => (unit.clone(), None),
            RunMemory::Host { host, .. } => (host.load().0, Some(host.flag_bytes().map(|byte| byte.map(Cell::get)))),
        };
        let result = work(self);
        match self {
            RunMemory::Own { unit, .. } => **unit = before,
            RunMemory::Host { host, .. } => {
                host.store(&before);
                // `store` writes flags as 0 and 1; the host may have had other bytes.
                for (byte, was) in host.flag_bytes().into_iter().zip(flags.into_iter().flatten()) {
                    byte.zip(was).into_iter().for_each(|(byte, was)| byte.set(was));
                }
            }
        }
        result
    }

    /// Runs a kernel that reads inputs in the unit only: `inputs` in the mask `reads` are in the
    /// unit for the time of the run.
    pub(crate) fn interpret(&mut self, kernel: &dyn Kernel, reads: u16, inputs: Option<&[Vec4]>) -> Exit {
        let run = |uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter| {
            let own = unit.v;
            copy_registers(reads, inputs.unwrap_or(&own), &mut unit.v);
            let exit = kernel.run(uniforms, unit, emitter);
            unit.v = own;
            exit
        };
        match self {
            RunMemory::Own { uniforms, unit, emitter } => run(uniforms, unit, *emitter),
            RunMemory::Host { host, emitter } => with_host_copies(host, *emitter, run),
        }
    }
}
