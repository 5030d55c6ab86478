//! Access to native code: the JIT, or an error in a build without it.

use picajit::internals::kernel::{Backend, Unsupported};
use picajit::isa::numeric::Precision;
use picajit::program::{Entry, Program};
use std::sync::Arc;

#[cfg(feature = "jit")]
pub use picajit::internals::jit::NoBatchCode;

/// Reason for the lack of code.
#[cfg(not(feature = "jit"))]
#[derive(Debug)]
pub enum NoBatchCode {
    /// The build lacks native code.
    Unsupported(Unsupported),
}

#[cfg(not(feature = "jit"))]
impl std::fmt::Display for NoBatchCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NoBatchCode::Unsupported(reason) = self;
        reason.fmt(f)
    }
}

#[cfg(not(feature = "jit"))]
const LEFT_OUT: Unsupported = Unsupported::HostIsa { missing: "picajit was built without the jit feature" };

/// Names of the target CPUs.
pub const TARGETS: [&str; 3] = ["x86-64", "x86-64-v3", "aarch64"];

/// Kind of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// One vertex, registers in SIMD registers
    #[default]
    Vec4,
    /// A batch, a group of four vertices for each instruction
    Batch,
    /// One vertex, registers in memory: the yardstick
    Unoptimised,
}

/// Parameters of a compilation.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "jit"), expect(dead_code))]
pub struct Making<'a> {
    /// One of [`TARGETS`], or this machine.
    pub target: Option<&'a str>,
    /// The kind of code.
    pub shape: Shape,
    /// The number format.
    pub precision: Precision,
}

/// The JIT.
#[cfg(feature = "jit")]
pub fn backend() -> Result<Arc<dyn Backend>, Unsupported> {
    use picajit::internals::jit::{Jit, Variant};
    Ok(Jit::new(Variant::Vec4)?.with_fallback(Arc::new(picajit::internals::tier0::Tier0::default())))
}

/// The JIT.
#[cfg(not(feature = "jit"))]
pub fn backend() -> Result<Arc<dyn Backend>, Unsupported> {
    Err(LEFT_OUT)
}

/// Stages of a compilation, as text.
pub struct Stages {
    /// Blocks.
    pub cfg: String,
    /// Simplified SSA.
    pub ssa: String,
    /// Cranelift's IR.
    pub clif: String,
    /// Machine code.
    pub host: String,
    /// The number of instructions.
    pub instructions: usize,
    /// Machine code and its constants.
    pub code: Vec<u8>,
    /// Ranges of `code`, in order, with the address of their instruction.
    pub ranges: Vec<(std::ops::Range<u32>, picajit::isa::Pc)>,
}

/// Compiles an entry and prints every stage.
#[cfg(feature = "jit")]
pub fn explain(program: &Program, entry: Entry, making: Making<'_>) -> Result<Stages, NoBatchCode> {
    use picajit::internals::jit::{Jit, Variant};
    let config = picajit::internals::kernel::Config { precision: making.precision, ..Default::default() };
    let variant = match making.shape {
        Shape::Vec4 => Variant::Vec4,
        Shape::Batch => Variant::Batch,
        Shape::Unoptimised => Variant::Unoptimised,
    };
    let s = match making.target {
        None => Jit::new(variant).map_err(NoBatchCode::Unsupported)?.explain(program, entry, &config)?,
        Some(name) => {
            let target = picajit::internals::jit::Target::ALL.into_iter().find(|t| t.name() == name);
            let target =
                target.ok_or(NoBatchCode::Unsupported(Unsupported::HostIsa { missing: "a CPU of that name" }))?;
            picajit::internals::jit::explain_for(target, variant, program, entry, &config)?
        }
    };
    let instructions = s.instructions();
    Ok(Stages { cfg: s.cfg, ssa: s.ssa, clif: s.clif, host: s.host, instructions, code: s.code, ranges: s.ranges })
}

/// Compiles an entry and prints every stage.
#[cfg(not(feature = "jit"))]
pub fn explain(_: &Program, _: Entry, _: Making<'_>) -> Result<Stages, NoBatchCode> {
    Err(NoBatchCode::Unsupported(LEFT_OUT))
}

#[cfg(all(test, feature = "jit"))]
mod tests {
    #[test]
    fn names_are_the_librarys() {
        assert_eq!(super::TARGETS, picajit::internals::jit::Target::ALL.map(picajit::internals::jit::Target::name));
    }
}
