//! Guards: tests that speculation holds, before its failure is observable.
//!
//! A speculative product differs from the exact one only by being NaN (0 * infinity). NaN
//! propagates through every operation until it is stored or meets an operation that
//! [swallows](crate::ir::analysis::swallows_nan) it. Operands of these and stored values get a
//! *guard* if they are NaN-tainted. One test per block joins its guards; if a guarded component is
//! NaN, the function returns [`DEOPTIMISE`](abi::DEOPTIMISE), and exact code runs the vertex again.
//!
//! That is sound: in the SSA form only blocks that end the run store registers, after their guards;
//! a branch follows the guards of the comparisons that it tests; and what EMIT and SETEMIT change is
//! [undone](super::emission).
//!
//! In float24, [`emit::float24`](crate::jit::emit) records violations in sticky flags where they
//! happen, and the test reads these instead of comparing with NaN.
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

/// The pending guards of the present block.
pub(crate) struct Guards {
    /// See [`Func::nan_tainted`]; empty if products are exact.
    nan_tainted: Vec<bool>,
    /// Values, their vectors, and the guarded components.
    pending: Vec<(Value, clif::Value, Components)>,
    /// Violations of float24 speculation.
    pub(crate) sticky: StickyFlags,
    /// The block that returns [`abi::DEOPTIMISE`].
    deoptimise: Option<clif::Block>,
}

/// Pending guards occupy registers, and a hostile block may have thousands.
const MAX_PENDING_GUARDS: usize = 32;

impl Guards {
    /// No guards yet.
    pub(crate) fn new(func: &Func, products: Products, precision: Precision) -> Guards {
        let nan = products == Products::Speculative && precision == Precision::F32;
        let nan_tainted = if nan { func.nan_tainted() } else { Vec::new() };
        Guards { nan_tainted, pending: Vec::new(), sticky: StickyFlags::default(), deoptimise: None }
    }
}

impl VertexLowering<'_, '_> {
    /// Adds a guard of these components of a value, if it is NaN-tainted.
    pub(crate) fn guard(&mut self, value: Value, read: Components) {
        let tainted = self.guards.nan_tainted.get(value.0 as usize).copied().unwrap_or(false);
        if !tainted || read == 0 {
            return;
        }
        let vector = self.vector(value);
        let read = if let VecValue::Splat(_) = vector { 1 } else { read };
        if self.guards.pending.iter().any(|guard| (guard.0, guard.2) == (value, read)) {
            return;
        }
        if self.guards.pending.len() == MAX_PENDING_GUARDS {
            self.test_guards();
        }
        let vector = match vector {
            VecValue::Wide(v) => v,
            VecValue::Splat(s) => self.b.ins().scalar_to_vector(types::F32X4, s),
        };
        self.guards.pending.push((value, vector, read));
    }

    /// Deoptimises if a guarded component is NaN or a sticky flag is set.
    pub(crate) fn test_guards(&mut self) {
        let mut guards = std::mem::take(&mut self.guards.pending);
        guards.sort_by_key(|(_, _, read)| *read);
        let guards: Vec<_> = guards.into_iter().map(|(_, vector, read)| (vector, read)).collect();
        let mut m = self.clif();
        let (violations, nan) = (m.take_violations(), m.where_nan(&guards));
        let Some(any) = [violations, nan].into_iter().flatten().reduce(|a, b| m.b.ins().bor(a, b)) else { return };
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

    /// Writes the target of failed tests, if there are any.
    pub(crate) fn emit_deoptimise_block(&mut self) {
        if let Some(deoptimise) = self.guards.deoptimise {
            self.b.switch_to_block(deoptimise);
            self.restore_emission();
            let code = self.b.ins().iconst(types::I32, i64::from(abi::DEOPTIMISE));
            self.b.ins().return_(&[code]);
        }
    }
}

impl ClifBuilder<'_, '_> {
    /// A mask of the guarded lanes that are NaN in any vector. `guards` is sorted by lanes.
    pub(crate) fn where_nan(&mut self, guards: &[(clif::Value, Components)]) -> Option<clif::Value> {
        if self.aarch64 { self.where_nan_by_equality(guards) } else { self.where_nan_by_order(guards) }
    }

    fn where_nan_by_order(&mut self, guards: &[(clif::Value, Components)]) -> Option<clif::Value> {
        let mut any = None;
        let mut rest = guards;
        // One comparison tests two vectors of which the same lanes are guarded.
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

    /// The same for 64-bit Arm, which has no unordered comparison.
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
