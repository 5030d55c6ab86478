//! Sequences of CLIF instructions that both shapes of code share: arithmetic, float24, vectors,
//! memory.
//!
//! [`ClifBuilder`] appends them to a function under construction; its methods are split over the
//! files of this folder by subject.
//!
//! Invariant: what a sequence computes is what
//! [`crate::isa::numeric`] says, bit for bit, on every CPU. It must not know values of the IR, nor
//! blocks.

mod aarch64_shuffle;
pub(super) mod cost;
mod elementary;
pub(super) mod estimate;
mod float24;
pub(super) mod math;
pub(super) mod memory;
pub(super) mod op;
pub(super) mod vector;

use crate::ir::analysis::ranges::Narrowing;
use crate::isa::numeric::Precision;
use cranelift_codegen::ir::Value;
use cranelift_frontend::FunctionBuilder;

/// How code treats rare numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Products {
    /// It computes them: 0 * infinity = 0, and in float24 all of [`crate::isa::float24`].
    Exact,
    /// It computes the common case; guards deoptimise the run before a wrong number is observable.
    Speculative,
}

/// Float arithmetic on a function under construction.
pub(crate) struct ClifBuilder<'a, 'f> {
    pub(crate) b: &'a mut FunctionBuilder<'f>,
    pub(crate) products: Products,
    pub(crate) precision: Precision,
    /// Violations of float24 speculation since the last guard.
    pub(crate) sticky: &'a mut StickyFlags,
    /// What speculative float24 code does with the result besides rounding.
    pub(crate) narrowing: Narrowing,
    /// See [`Machine::aarch64`](crate::jit::target::Machine::aarch64).
    pub(crate) aarch64: bool,
}

/// Constants of narrowings, defined in a block that dominates all.
#[derive(Clone, Copy)]
pub(crate) struct Float24Constants {
    pub(super) half: Value,
    pub(super) kept: Value,
    pub(super) magnitude: Value,
    pub(super) smallest: Value,
    pub(super) splitter: Value,
    pub(super) minus_one: Value,
    pub(super) zero: Value,
}

/// What speculative float24 code has read and computed since the last guard, accumulated lane by
/// lane. Magnitudes are bits without the sign.
#[derive(Default)]
pub(crate) struct StickyFlags {
    pub(super) constants: Option<Float24Constants>,
    /// The largest magnitude of results that must not overflow.
    pub(super) results: Option<Value>,
    /// The largest magnitude of numbers that must lie in the band.
    pub(super) high: Option<Value>,
    /// The smallest magnitude of such numbers, minus 1, so that zero counts as large.
    pub(super) low: Option<Value>,
    /// The union of all bits loaded from memory.
    pub(super) tails: Option<Value>,
}

impl StickyFlags {
    /// Forgets what was recorded: the run does not go on.
    pub(crate) fn clear(&mut self) {
        *self = StickyFlags { constants: self.constants, ..StickyFlags::default() };
    }
}

/// The mantissa bits beyond float24's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tails {
    /// The reader rounds them away.
    Rounded,
    /// The reader keeps them: set ones are a violation.
    Kept,
}

/// The ends of the format beyond which a result may lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    None,
    Low,
    Both,
}
