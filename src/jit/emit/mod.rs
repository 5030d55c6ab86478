//! Sequences of CLIF instructions that both shapes of code share: arithmetic, float24, vectors, memory.
//!
//! [`ClifBuilder`] appends them to a function under construction; its methods are split over the files of this folder by subject.
//! Invariant: what a sequence computes is what [`crate::isa::numeric`] says, bit for bit, on every CPU. Nothing here knows values of
//! the IR, nor blocks.

mod aarch64_shuffle;
mod elementary;
mod float24;
pub(super) mod math;
pub(super) mod memory;
pub(super) mod op;
pub(super) mod vector;

use crate::isa::numeric::Precision;
use cranelift_codegen::ir::Value;
use cranelift_frontend::FunctionBuilder;

/// What becomes of numbers that are rare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Products {
    /// They are computed right away: 0 * infinity = 0, and in float24 all of [`crate::isa::float24`].
    Exact,
    /// The common case is computed; what might be wrong is caught before it can matter, and the run deoptimised exactly.
    Speculative,
}

/// Float arithmetic on a function under construction.
pub(crate) struct ClifBuilder<'a, 'f> {
    pub(crate) b: &'a mut FunctionBuilder<'f>,
    pub(crate) products: Products,
    pub(crate) precision: Precision,
    /// What was computed in float24 and must be looked at.
    pub(crate) sticky: &'a mut StickyFlags,
    /// Whether what is computed may well be infinite, so that this is nothing to deoptimise.
    pub(crate) infinite: bool,
    /// See [`Machine::aarch64`](crate::jit::target::Machine::aarch64).
    pub(crate) aarch64: bool,
}

/// Constants that every narrowing needs, made once in the block that dominates all.
#[derive(Clone, Copy)]
pub(crate) struct Float24Constants {
    pub(super) half: Value,
    pub(super) kept: Value,
    pub(super) magnitude: Value,
    pub(super) kept_magnitude: Value,
    pub(super) smallest: Value,
}

/// What speculating code has seen since the last test: each is joined lane by lane.
#[derive(Default)]
pub(crate) struct StickyFlags {
    pub(super) constants: Option<Float24Constants>,
    /// The largest magnitude, as bits.
    pub(super) high: Option<Value>,
    /// The smallest magnitude that came from memory, as bits, less 1: a zero counts as large.
    pub(super) low: Option<Value>,
    /// All bits that came from memory.
    pub(super) tails: Option<Value>,
}

/// What becomes of the bits that float24 has not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tails {
    /// They are rounded away.
    Rounded,
    /// There must be none.
    Kept,
}

/// Which ends of the format a result may lie beyond.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    None,
    Low,
    Both,
}
