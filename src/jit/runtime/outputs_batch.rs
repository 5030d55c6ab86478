//! A batch that is smaller than a group and preserves the unit -> runs of outputs-only code.
//!
//! Invariant: the unit stays untouched, and the outputs are as if the vertices had run in order on
//! a copy of it.

use super::kernel::NativeKernel;
use super::lazy_code::OutputsCode;
use crate::jit::abi::GROUP;
use crate::layout::HostMemory;
use crate::state::{Batch, Exit, Vec4};

impl NativeKernel {
    /// Runs the batch. `None`: outputs-only code does not serve it, and what was written must be
    /// written again.
    pub(super) fn run_outputs_batch(&self, memory: &HostMemory<'_>, batch: &mut Batch<'_>) -> Option<Exit> {
        let (count, output_mask) = (batch.len(), batch.outputs_wanted());
        if count >= GROUP || self.reads & !batch.inputs_taken() != 0 {
            return None;
        }
        let exact = !self.speculation_pays();
        let code = match self.lazy.compiled_outputs(exact) {
            Some(code) => code.as_ref().ok()?,
            None => self.first_outputs_code(count, exact)?,
        };
        if count > 1 && !code.independent {
            return None;
        }
        let mut result = Exit::End;
        for n in 0..count {
            let (input, output) = (&batch.inputs[n], &mut batch.outputs[n]);
            let unwritten = output_mask & !code.writes;
            if unwritten != 0 {
                memory.copy_outputs(unwritten, output);
            }
            let exit = match code.code.run_outputs(memory, input, output, output_mask) {
                Some(exit) => exit,
                None => self.deoptimise_outputs(memory, input, output, output_mask)?,
            };
            // The proof of independence concerns runs that reach an END.
            if count > 1 && exit != Exit::End {
                return None;
            }
            result = exit;
        }
        Some(result)
    }

    /// Outputs-only code that is not compiled yet.
    #[cold]
    fn first_outputs_code(&self, count: usize, exact: bool) -> Option<&OutputsCode> {
        if !self.may_compile_for_batches(count) {
            return None;
        }
        self.lazy.outputs(exact)?.as_ref().ok()
    }

    /// The vertex again, on exact code, if there is some.
    #[cold]
    fn deoptimise_outputs(
        &self,
        memory: &HostMemory<'_>,
        input: &[Vec4],
        output: &mut [Vec4],
        output_mask: u16,
    ) -> Option<Exit> {
        self.count_deoptimisation();
        self.lazy.outputs(true)?.as_ref().ok()?.code.run_outputs(memory, input, output, output_mask)
    }
}
