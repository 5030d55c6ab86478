//! A kernel that runs on a [`Unit`] -> one that runs on any memory, by copies.

use super::{Kernel, NextKernel};
use crate::layout::{HostEmitter, HostMemory};
use crate::state::{Batch, BatchExit, Emitter, Exit, Uniforms, Unit, copy_registers};

/// A [`Kernel`] whose memory is a [`Unit`]: for kernels that wrap another one in tests.
pub trait UnitKernel: Send + Sync {
    /// [`Kernel::run_on`] a unit, whose slots receive what it emits.
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit;

    /// [`Kernel::run_batch_on`] a unit.
    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        run_in_order(unit, batch, || false, |unit| self.run(uniforms, unit, emitter))
    }
}

/// Loads, runs and copies out one vertex after the other, until `cancelled`: the meaning of a batch.
pub(crate) fn run_in_order(
    unit: &mut Unit,
    batch: &mut Batch<'_>,
    cancelled: impl Fn() -> bool,
    mut run: impl FnMut(&mut Unit) -> Exit,
) -> BatchExit {
    let mut copy = batch.preserve_unit.then(|| unit.clone());
    let unit = copy.as_mut().unwrap_or(unit);
    let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
    let mut result = BatchExit::NONE;
    for n in 0..batch.len() {
        if cancelled() {
            result.cancel();
            break;
        }
        copy_registers(taken, &batch.inputs[n], &mut unit.v);
        let exit = run(unit);
        copy_registers(wanted, unit.outputs(), &mut batch.outputs[n]);
        if !result.count(exit) {
            break;
        }
    }
    result
}

/// A [`UnitKernel`] as a [`Kernel`].
#[derive(Clone, Debug)]
pub struct OnUnits<K>(pub K);

impl<K: UnitKernel> Kernel for OnUnits<K> {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        Some(memory.with_copies(emitter, false, |uniforms, unit, emitter| self.0.run(uniforms, unit, emitter)))
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        _: &dyn NextKernel,
    ) -> BatchExit {
        memory.with_copies(emitter, batch.preserve_unit, |uniforms, unit, emitter| {
            self.0.run_batch(uniforms, unit, batch, emitter)
        })
    }

    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        self.0.run(uniforms, unit, emitter)
    }

    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        self.0.run_batch(uniforms, unit, batch, emitter)
    }
}
