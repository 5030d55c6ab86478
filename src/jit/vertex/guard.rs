//! The sticky over plain products: what must not be NaN for the wrong reason, tested before it can matter.
//!
//! A plain product differs from the exact one only by being NaN (0 * infinity), and a NaN spreads through every
//! operation until it is stored or meets one that can hide it ([`swallows_nan`](crate::ir::analysis::swallows_nan)). Both
//! are *guards*. A test joins all guards of a block that depend on a product; if a lane that counts is NaN, the function
//! returns [`DEOPTIMISE`](abi::DEOPTIMISE) and the run is done again by exact code. That is sound because in the SSA form the only
//! stores of a program without EMIT are in the blocks that end the run, and there they wait until the test has passed;
//! and because no branch is taken before the comparisons it depends on have been tested.
//!
//! In float24 there is more that is rare, and it is seen where it happens: [`narrow`](super::narrow) watches every
//! operand and result, and the test at a block's end looks at the sticky instead of at NaN.
//!
//! It must not know how values are computed.

use crate::ir::analysis::{Components, XYZW};
use crate::ir::{Func, Value};
use crate::isa::numeric::Precision;
use crate::jit::abi;
use crate::jit::emit::StickyFlags;
use crate::jit::emit::vector::VecValue;
use crate::jit::emit::{ClifBuilder, Products};
use crate::jit::vertex::VertexLowering;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, types};

/// What is to be tested next.
pub(crate) struct Guards {
    /// For each value whether it may be NaN for the wrong reason; empty if products are exact.
    suspect: Vec<bool>,
    /// Vectors with the lanes that count, and the values they come from.
    waiting: Vec<(Value, clif::Value, Components)>,
    /// What float24 has seen.
    pub(crate) sticky: StickyFlags,
    /// Where a failed test goes.
    deoptimise: Option<clif::Block>,
}

/// Guards stay in registers until they are tested: a hostile block may have thousands.
const MAX_PENDING_GUARDS: usize = 32;

impl Guards {
    /// None yet.
    pub(crate) fn new(func: &Func, products: Products, precision: Precision) -> Guards {
        let nan = products == Products::Speculative && precision == Precision::F32;
        let suspect = if nan { func.nan_tainted() } else { Vec::new() };
        Guards { suspect, waiting: Vec::new(), sticky: StickyFlags::default(), deoptimise: None }
    }
}

impl VertexLowering<'_, '_> {
    /// `value`'s `lanes` are about to be seen, or hidden by [an operation that can](crate::ir::analysis::swallows_nan): a
    /// NaN that a plain product made must not get through.
    pub(crate) fn guard(&mut self, value: Value, lanes: Components) {
        let suspect = self.guards.suspect.get(value.0 as usize).copied().unwrap_or(false);
        if !suspect || lanes == 0 {
            return;
        }
        let vector = self.vector(value);
        let lanes = if let VecValue::Splat(_) = vector { 1 } else { lanes };
        if self.guards.waiting.iter().any(|w| (w.0, w.2) == (value, lanes)) {
            return;
        }
        if self.guards.waiting.len() == MAX_PENDING_GUARDS {
            self.test_guards();
        }
        let vector = match vector {
            VecValue::Wide(v) => v,
            VecValue::Splat(s) => self.b.ins().scalar_to_vector(types::F32X4, s),
        };
        self.guards.waiting.push((value, vector, lanes));
    }

    /// Leaves the function if anything that waits is NaN, or the sticky saw anything.
    pub(crate) fn test_guards(&mut self) {
        let mut guards = std::mem::take(&mut self.guards.waiting);
        guards.sort_by_key(|(_, _, lanes)| *lanes);
        let guards: Vec<_> = guards.into_iter().map(|(_, vector, lanes)| (vector, lanes)).collect();
        let mut m = self.clif();
        let (seen, nan) = (m.seen(), m.where_nan(&guards));
        let Some(any) = [seen, nan].into_iter().flatten().reduce(|a, b| m.b.ins().bor(a, b)) else { return };
        let found = m.any_set(any);
        let deoptimise = match self.guards.deoptimise {
            Some(block) => block,
            None => {
                let block = self.b.create_block();
                self.b.set_cold_block(block);
                *self.guards.deoptimise.insert(block)
            }
        };
        let go_on = self.b.create_block();
        self.b.ins().brif(found, deoptimise, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// Writes the block that failed tests go to, if there are any.
    pub(crate) fn emit_deoptimise_block(&mut self) {
        if let Some(deoptimise) = self.guards.deoptimise {
            self.b.switch_to_block(deoptimise);
            let code = self.b.ins().iconst(types::I32, i64::from(abi::DEOPTIMISE));
            self.b.ins().return_(&[code]);
        }
    }
}

impl ClifBuilder<'_, '_> {
    /// Where a vector is NaN in a lane that counts; sorted by these lanes.
    pub(crate) fn where_nan(&mut self, guards: &[(clif::Value, Components)]) -> Option<clif::Value> {
        if self.aarch64 { self.where_nan_by_equality(guards) } else { self.where_nan_by_order(guards) }
    }

    fn where_nan_by_order(&mut self, guards: &[(clif::Value, Components)]) -> Option<clif::Value> {
        let mut any = None;
        let mut rest = guards;
        // One comparison tests two vectors whose lanes count alike.
        while let [(a, lanes), tail @ ..] = rest {
            let (b, tail) = match tail {
                [(b, same), tail @ ..] if same == lanes => (*b, tail),
                _ => (*a, tail),
            };
            rest = tail;
            let mut nan = self.b.ins().fcmp(FloatCC::Unordered, *a, b);
            if *lanes != XYZW {
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
    fn where_nan_by_equality(&mut self, guards: &[(clif::Value, Components)]) -> Option<clif::Value> {
        let mut numbers = None;
        for &(v, lanes) in guards {
            let mut number = self.b.ins().fcmp(FloatCC::Equal, v, v);
            if lanes != XYZW {
                let others = self.lane_mask(types::I32X4, !lanes & XYZW);
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
