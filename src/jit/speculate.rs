//! The watch over plain products: what must not be NaN for the wrong reason, tested before it can matter.
//!
//! A plain product differs from the exact one only by being NaN (0 * infinity), and a NaN spreads through every
//! operation until it is stored or meets one that can hide it ([`swallows_nan`](crate::ir::facts::swallows_nan)). Both
//! are *sinks*. A test joins all sinks of a block that depend on a product; if a lane that counts is NaN, the function
//! returns [`REDO`](abi::REDO) and the run is done again by exact code. That is sound because in the SSA form the only
//! stores of a program without EMIT are in the blocks that end the run, and there they wait until the test has passed;
//! and because no branch is taken before the comparisons it depends on have been tested.
//!
//! In float24 there is more that is rare, and it is seen where it happens: [`narrow`](super::narrow) watches every
//! operand and result, and the test at a block's end looks at the watch instead of at NaN.
//!
//! It must not know how values are computed.

use super::abi;
use super::lower::Lower;
use super::math::{Care, Math};
use super::narrow::Watch;
use super::shape::Vec4;
use crate::ir::facts::{ALL_LANES, Lanes};
use crate::ir::{Func, Value};
use crate::isa::numeric::Precision;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, types};

/// What is to be tested next.
pub(super) struct Sinks {
    /// For each value whether it may be NaN for the wrong reason; empty if products are exact.
    suspect: Vec<bool>,
    /// Vectors with the lanes that count, and the values they come from.
    waiting: Vec<(Value, clif::Value, Lanes)>,
    /// What float24 has seen.
    pub(super) watch: Watch,
    /// Where a failed test goes.
    redo: Option<clif::Block>,
}

/// Sinks stay in registers until they are tested: a hostile block may have thousands.
const MOST_WAITING: usize = 32;

impl Sinks {
    /// None yet.
    pub(super) fn new(func: &Func, care: Care, precision: Precision) -> Sinks {
        let nan = care == Care::Speculate && precision == Precision::F32;
        let suspect = if nan { func.suspects() } else { Vec::new() };
        Sinks { suspect, waiting: Vec::new(), watch: Watch::default(), redo: None }
    }
}

impl Lower<'_, '_> {
    /// `value`'s `lanes` are about to be seen, or hidden by [an operation that can](crate::ir::facts::swallows_nan): a
    /// NaN that a plain product made must not get through.
    pub(super) fn sink(&mut self, value: Value, lanes: Lanes) {
        let suspect = self.sinks.suspect.get(value.0 as usize).copied().unwrap_or(false);
        if !suspect || lanes == 0 {
            return;
        }
        let vector = self.vector(value);
        let lanes = if let Vec4::Splat(_) = vector { 1 } else { lanes };
        if self.sinks.waiting.iter().any(|w| (w.0, w.2) == (value, lanes)) {
            return;
        }
        if self.sinks.waiting.len() == MOST_WAITING {
            self.test_sinks();
        }
        let vector = match vector {
            Vec4::Wide(v) => v,
            Vec4::Splat(s) => self.b.ins().scalar_to_vector(types::F32X4, s),
        };
        self.sinks.waiting.push((value, vector, lanes));
    }

    /// Leaves the function if anything that waits is NaN, or the watch saw anything.
    pub(super) fn test_sinks(&mut self) {
        let mut sinks = std::mem::take(&mut self.sinks.waiting);
        sinks.sort_by_key(|(_, _, lanes)| *lanes);
        let sinks: Vec<_> = sinks.into_iter().map(|(_, vector, lanes)| (vector, lanes)).collect();
        let mut m = self.math();
        let (seen, nan) = (m.seen(), m.where_nan(&sinks));
        let Some(any) = [seen, nan].into_iter().flatten().reduce(|a, b| m.b.ins().bor(a, b)) else { return };
        let found = m.any_set(any);
        let redo = match self.sinks.redo {
            Some(block) => block,
            None => {
                let block = self.b.create_block();
                self.b.set_cold_block(block);
                *self.sinks.redo.insert(block)
            }
        };
        let go_on = self.b.create_block();
        self.b.ins().brif(found, redo, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// Writes the block that failed tests go to, if there are any.
    pub(super) fn finish_redo(&mut self) {
        if let Some(redo) = self.sinks.redo {
            self.b.switch_to_block(redo);
            let code = self.b.ins().iconst(types::I32, i64::from(abi::REDO));
            self.b.ins().return_(&[code]);
        }
    }
}

impl Math<'_, '_> {
    /// Where a vector is NaN in a lane that counts; sorted by these lanes.
    pub(super) fn where_nan(&mut self, sinks: &[(clif::Value, Lanes)]) -> Option<clif::Value> {
        if self.arm { self.where_nan_by_equality(sinks) } else { self.where_nan_by_order(sinks) }
    }

    fn where_nan_by_order(&mut self, sinks: &[(clif::Value, Lanes)]) -> Option<clif::Value> {
        let mut any = None;
        let mut rest = sinks;
        // One comparison tests two vectors whose lanes count alike.
        while let [(a, lanes), tail @ ..] = rest {
            let (b, tail) = match tail {
                [(b, same), tail @ ..] if same == lanes => (*b, tail),
                _ => (*a, tail),
            };
            rest = tail;
            let mut nan = self.b.ins().fcmp(FloatCC::Unordered, *a, b);
            if *lanes != ALL_LANES {
                let mask = self.lane_mask(types::I32X4, *lanes);
                nan = self.b.ins().band(nan, mask);
            }
            any = Some(match any {
                None => nan,
                Some(before) => self.b.ins().bor(before, nan),
            });
        }
        any
    }

    /// The same for a CPU that compares for equality and order only, 64-bit Arm.
    fn where_nan_by_equality(&mut self, sinks: &[(clif::Value, Lanes)]) -> Option<clif::Value> {
        let mut numbers = None;
        for &(v, lanes) in sinks {
            let mut number = self.b.ins().fcmp(FloatCC::Equal, v, v);
            if lanes != ALL_LANES {
                let others = self.lane_mask(types::I32X4, !lanes & ALL_LANES);
                number = self.b.ins().bor(number, others);
            }
            numbers = Some(match numbers {
                None => number,
                Some(before) => self.b.ins().band(before, number),
            });
        }
        numbers.map(|numbers| self.b.ins().bnot(numbers))
    }
}
