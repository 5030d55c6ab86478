//! Native code as this build has it: all of it, or a plain word that it was left out.

use picajit::isa::numeric::Precision;
use picajit::kernel::{Backend, Unsupported};
use picajit::program::{Entry, Program};
use std::sync::Arc;

#[cfg(not(feature = "jit"))]
const LEFT_OUT: Unsupported = Unsupported::HostIsa { missing: "picajit was built without the jit feature" };

/// The engine that makes native code.
#[cfg(feature = "jit")]
pub fn backend() -> Result<Arc<dyn Backend>, Unsupported> {
    Ok(Arc::new(jit()?))
}

/// The engine that makes native code.
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
}

/// Compiles an entry and prints every stage.
#[cfg(feature = "jit")]
pub fn explain(program: &Program, entry: Entry, precision: Precision) -> Result<Stages, Unsupported> {
    let config = picajit::kernel::Config { precision, ..Default::default() };
    let s = jit()?.explain(program, entry, &config)?;
    Ok(Stages { cfg: s.cfg, ssa: s.ssa, clif: s.clif, host: s.host })
}

/// Compiles an entry and prints every stage.
#[cfg(not(feature = "jit"))]
pub fn explain(_: &Program, _: Entry, _: Precision) -> Result<Stages, Unsupported> {
    Err(LEFT_OUT)
}

#[cfg(feature = "jit")]
fn jit() -> Result<Arc<picajit::jit::Jit>, Unsupported> {
    picajit::jit::Jit::new(picajit::jit::Variant::Vec4, Arc::new(picajit::interp::Interp))
}
