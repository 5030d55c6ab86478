//! Why a group bails out, for tests: with [`Settings::count_bailouts`], batch code returns the
//! reason of its bailout.
//!
//! [`Settings::count_bailouts`]: crate::jit::Settings::count_bailouts

use super::BatchLowering;
use crate::jit::emit::memory::aligned;
use crate::state::Exit;
use cranelift_codegen::ir::{self as clif, BlockArg, InstBuilder, types};
use std::sync::atomic::{AtomicU32, Ordering};

/// The places at which a group may bail out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BailoutReason {
    GuardBeforeGoto,
    GuardBeforeBranch,
    /// At the end of the predicated copy of a region.
    GuardBeforeJoin,
    GuardOfOutputs,
    UniformIndex,
    DivergentIndex,
    /// A divergent branch without a predicated copy.
    DivergentBranch,
    /// The run does not reach an END.
    OtherExit,
    /// An invocation emits more or fewer vertices than it has records.
    Emits,
    /// In float24, a number that all vertices read is not in the band.
    Uniforms,
}

impl BailoutReason {
    const NAMES: [&'static str; 10] = [
        "a guard before a goto",
        "a guard before a branch",
        "a guard before a join",
        "a guard of outputs",
        "a uniform index",
        "a divergent index",
        "a divergent branch",
        "another exit than END",
        "another number of EMITs",
        "a uniform beyond the band",
    ];
}

/// Bailouts by reason.
#[derive(Default)]
pub(crate) struct BailoutCounts([AtomicU32; BailoutReason::NAMES.len()]);

impl BailoutCounts {
    /// Counts a bailout of code that returned `code`: 0 if it was compiled without counting.
    #[cold]
    pub(crate) fn count(&self, code: u32) {
        if let Some(count) = (code as usize).checked_sub(1).and_then(|reason| self.0.get(reason)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All reasons, with the number of bailouts.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u32)> {
        BailoutReason::NAMES.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

impl BatchLowering<'_, '_> {
    /// The arguments of a jump to the block of bailouts.
    pub(super) fn bailout_arguments(&mut self, reason: BailoutReason) -> Vec<BlockArg> {
        match self.plan.counts_bailouts {
            true => vec![self.b.ins().iconst(types::I32, reason as i64 + 1).into()],
            false => Vec::new(),
        }
    }

    /// Bails out if `condition` is not zero.
    pub(super) fn bail_out_if(&mut self, condition: clif::Value, reason: BailoutReason) {
        let go_on = self.b.create_block();
        let arguments = self.bailout_arguments(reason);
        self.b.ins().brif(condition, self.bailout, &arguments, go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// The blocks after the loop: of bailouts, and the end of the function.
    pub(super) fn finish(&mut self) {
        use crate::jit::abi::BATCH_DONE;
        let pointer = self.b.func.dfg.value_type(self.frame);
        let done = self.b.append_block_param(self.exit, pointer);
        let mut arguments = vec![self.inputs.group_start.into()];
        let mut code = None;
        if self.plan.counts_bailouts {
            arguments.push(self.b.append_block_param(self.bailout, types::I32).into());
            code = Some(self.b.append_block_param(self.exit, types::I32));
        }
        self.b.switch_to_block(self.bailout);
        self.b.ins().jump(self.exit, &arguments);
        self.b.switch_to_block(self.exit);
        self.b.ins().store(aligned(), done, self.frame, BATCH_DONE);
        let code = code.unwrap_or_else(|| self.b.ins().iconst(types::I32, Exit::End as i64));
        self.b.ins().return_(&[code]);
    }
}
