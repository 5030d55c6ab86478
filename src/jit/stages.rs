//! What the stages of one compilation took, and what they made, as text.

use crate::isa::Pc;
use crate::jit::batch::policy::BatchShape;
use std::ops::Range;
use std::time::Duration;

/// Times of the stages of one compilation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// Words to blocks.
    pub cfg: Duration,
    /// Blocks to simplified SSA.
    pub ssa: Duration,
    /// SSA to CLIF.
    pub lower: Duration,
    /// CLIF to machine code.
    pub codegen: Duration,
    /// Machine code to executable memory.
    pub install: Duration,
}

impl Timings {
    /// All stages together.
    pub fn total(&self) -> Duration {
        self.cfg + self.ssa + self.lower + self.codegen + self.install
    }
}

/// Every stage of one compilation as text.
#[derive(Clone, Debug)]
pub struct Stages {
    /// How vertices run, if it is batch code.
    pub batch: Option<BatchShape>,
    /// Blocks.
    pub cfg: String,
    /// Simplified SSA.
    pub ssa: String,
    /// Cranelift's IR.
    pub clif: String,
    /// Machine code, in Cranelift's notation.
    pub host: String,
    /// Machine code and its constants.
    pub code: Vec<u8>,
    /// Ranges of [`Stages::code`], in order, with the address of their instruction.
    pub ranges: Vec<(Range<u32>, Pc)>,
}

impl Stages {
    /// Lines of [`Stages::host`] that become an instruction. A few of them become two.
    pub fn instructions(&self) -> usize {
        let mut lines = self.host.lines().map(str::trim).peekable();
        let mut count = 0;
        while let Some(line) = lines.next() {
            // Cranelift leaves out a jump to the next block, and `uninit` speaks to the register
            // allocator.
            let next = lines.peek().and_then(|l| l.strip_prefix("block")?.strip_suffix(':')).unwrap_or("");
            let jump = line.strip_prefix("jmp").or(line.strip_prefix("b ")).map(str::trim);
            let falls = jump.is_some_and(|to| to.strip_prefix("label") == Some(next));
            count += usize::from(!falls && !line.is_empty() && !line.ends_with(':') && !line.starts_with("uninit"));
        }
        count
    }
}
