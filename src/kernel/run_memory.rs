//! The registers, uniforms and emitter of a run: picajit's own types, or a host's memory.

#[cfg(feature = "jit")]
use crate::kernel::{Kernel, with_host_copies};
use crate::layout::{File, Host, HostEmitter};
use crate::state::{EmitState, Emitter, Uniforms, Unit, Vec4, copy_registers};
#[cfg(feature = "jit")]
use crate::state::{EmittedVertex, Exit, Registers};
use std::cell::Cell;

/// Registers and uniforms, for one run or one batch.
pub(crate) enum RunMemory<'a> {
    /// picajit's types.
    Own { uniforms: &'a Uniforms, unit: &'a mut Unit, emitter: &'a mut dyn Emitter },
    /// A host's memory.
    Host { host: &'a Host<'a>, emitter: &'a mut dyn HostEmitter },
}

impl RunMemory<'_> {
    /// Sets slots from registers of a file; each pair is a slot and a register's number.
    #[inline(always)] // callers name the file
    pub(crate) fn load(&self, file: File, pairs: &[(u8, u8)], slots: &mut [Vec4]) {
        match self {
            RunMemory::Own { uniforms, unit, .. } => {
                let file: &[Vec4] = match file {
                    File::Inputs => &unit.v,
                    File::Temps => &unit.r,
                    File::Outputs => unit.outputs(),
                    File::Uniforms => &uniforms.c,
                };
                for &(slot, n) in pairs {
                    slots[usize::from(slot)] = file[usize::from(n)];
                }
            }
            RunMemory::Host { host, .. } => {
                let file = host.file(file);
                for &(slot, n) in pairs {
                    slots[usize::from(slot)] = file.get(n);
                }
            }
        }
    }

    /// Sets temporary or output registers from slots; pairs as in [`RunMemory::load`].
    #[inline(always)] // as above
    pub(crate) fn store(&mut self, file: File, pairs: &[(u8, u8)], slots: &[Vec4]) {
        match self {
            RunMemory::Own { unit, .. } => {
                let bank = usize::from(unit.bank & 1);
                let file = match file {
                    File::Temps => &mut unit.r,
                    File::Outputs => &mut unit.o[bank],
                    File::Inputs | File::Uniforms => unreachable!("no run writes them"),
                };
                for &(slot, n) in pairs {
                    file[usize::from(n)] = slots[usize::from(slot)];
                }
            }
            RunMemory::Host { host, .. } => {
                let file = host.file(file);
                for &(slot, n) in pairs {
                    file.set(n, slots[usize::from(slot)]);
                }
            }
        }
    }

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

    /// `v` register `n`.
    pub(crate) fn input(&self, n: u8) -> Vec4 {
        match self {
            RunMemory::Own { unit, .. } => unit.v[usize::from(n)],
            RunMemory::Host { host, .. } => host.input(n),
        }
    }

    /// `r` register `n`.
    pub(crate) fn temp(&self, n: u8) -> Vec4 {
        match self {
            RunMemory::Own { unit, .. } => unit.r[usize::from(n)],
            RunMemory::Host { host, .. } => host.temp(n),
        }
    }

    /// `o` register `n` of the current bank.
    pub(crate) fn output(&self, n: u8) -> Vec4 {
        match self {
            RunMemory::Own { unit, .. } => unit.outputs()[usize::from(n)],
            RunMemory::Host { host, .. } => host.output(n),
        }
    }

    /// `c` register `n`.
    pub(crate) fn uniform(&self, n: u8) -> Vec4 {
        match self {
            RunMemory::Own { uniforms, .. } => uniforms.c[usize::from(n)],
            RunMemory::Host { host, .. } => host.uniform(n),
        }
    }

    /// Integer uniform `n`.
    pub(crate) fn int(&self, n: u8) -> [u8; 4] {
        match self {
            RunMemory::Own { uniforms, .. } => uniforms.i[usize::from(n)],
            RunMemory::Host { host, .. } => host.int(n),
        }
    }

    /// The boolean uniforms; bit n is `bn`.
    pub(crate) fn bools(&self) -> u16 {
        match self {
            RunMemory::Own { uniforms, .. } => uniforms.b,
            RunMemory::Host { host, .. } => host.bools(),
        }
    }

    /// `a0.x`, `a0.y` and `aL`.
    pub(crate) fn addresses(&self) -> [i32; 3] {
        match self {
            RunMemory::Own { unit, .. } => [unit.a0[0], unit.a0[1], unit.al],
            RunMemory::Host { host, .. } => host.addresses(),
        }
    }

    /// Sets `a0.x`, `a0.y` or `aL` (0, 1, 2).
    pub(crate) fn set_address(&mut self, n: usize, value: i32) {
        match self {
            RunMemory::Own { unit, .. } if n == 2 => unit.al = value,
            RunMemory::Own { unit, .. } => unit.a0[n] = value,
            RunMemory::Host { host, .. } => host.set_address(n, value),
        }
    }

    /// The flags.
    pub(crate) fn flags(&self) -> [bool; 2] {
        match self {
            RunMemory::Own { unit, .. } => unit.cmp,
            RunMemory::Host { host, .. } => host.flags(),
        }
    }

    /// Sets both flags.
    pub(crate) fn set_flags(&mut self, flags: [bool; 2]) {
        match self {
            RunMemory::Own { unit, .. } => unit.cmp = flags,
            RunMemory::Host { host, .. } => (0..2).for_each(|n| host.set_flag(n, flags[n])),
        }
    }

    /// `SETEMIT`.
    pub(crate) fn set_emit_state(&mut self, how: EmitState) {
        match self {
            RunMemory::Own { unit, .. } => unit.setemit = how,
            RunMemory::Host { host, .. } => host.set_emit_state(how),
        }
    }

    /// `EMIT`.
    pub(crate) fn emit(&mut self) {
        match self {
            RunMemory::Own { unit, emitter, .. } => unit.emit(*emitter),
            RunMemory::Host { host, emitter } => {
                emitter.emit(&host.outputs(), host.emit_state());
                host.toggle_bank();
            }
        }
    }

    /// The outputs in both banks, the current bank's first.
    #[cfg(feature = "jit")]
    pub(crate) fn banks(&self) -> [Registers; 2] {
        match self {
            RunMemory::Own { unit, .. } => {
                let [first, second] = unit.o;
                if unit.bank & 1 == 0 { [first, second] } else { [second, first] }
            }
            RunMemory::Host { host, .. } => {
                let current = host.outputs();
                host.toggle_bank();
                let other = host.outputs();
                host.toggle_bank();
                [current, other]
            }
        }
    }

    /// The vertices of several EMITs, in order.
    #[cfg(feature = "jit")]
    pub(crate) fn send(&mut self, vertices: &[EmittedVertex]) {
        match self {
            RunMemory::Own { unit, emitter, .. } => emitter.emit_all(vertices, &mut unit.slots),
            RunMemory::Host { emitter, .. } => emitter.emit_all(vertices),
        }
    }

    /// Runs a kernel that reads inputs in the unit only: `inputs` in the mask `reads` are in the
    /// unit for the time of the run.
    #[cfg(feature = "jit")]
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
