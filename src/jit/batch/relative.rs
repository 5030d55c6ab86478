//! Relative addressing of float uniforms, by a uniform or a divergent index.
//!
//! An index normally selects an existing uniform, although out of range it wraps around or reads
//! (1, 1, 1, 1). So an index has one guard for all bases that are added to it, and becomes an
//! address; out of range, the group bails out.
//!
//! It must not know where an index comes from.

use super::bailout::BailoutReason;
use super::{BatchLowering, BatchPlan, BatchValue};
use crate::ir::analysis::Components;
use crate::ir::{Func, Node, Value};
use crate::isa::FLOAT_UNIFORMS;
use crate::jit::abi;
use crate::jit::emit::Tails;
use crate::jit::emit::memory::{constant_memory, uniform_address};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, types};
use std::collections::HashMap;

/// The least and the greatest base that is added to each index.
pub(crate) fn indices(func: &Func, plan: &BatchPlan) -> HashMap<Value, (u8, u8)> {
    let mut indices = HashMap::new();
    for (node, live) in func.nodes.iter().zip(&plan.live) {
        if let Node::Relative { base, offset } = *node
            && *live != 0
        {
            let (least, most) = indices.entry(offset).or_insert((base, base));
            (*least, *most) = (base.min(*least), base.max(*most));
        }
    }
    indices
}

impl BatchLowering<'_, '_> {
    /// The index `value` from the address register `address`.
    pub(crate) fn index(&mut self, value: Value, address: Value) -> BatchValue {
        let address = self.scalar(address);
        // Verified: only relative uniforms use an index, so one that is live has a range.
        let (least, most) = self.indices[&value];
        // The guard also excludes addresses outside -128..=127, which count as 0.
        let (least, below) = (u32::from(least), FLOAT_UNIFORMS as u32 - u32::from(most - least));
        let shift = i64::from(abi::VEC4.trailing_zeros());
        let pointer = self.b.func.dfg.value_type(self.uniforms);
        match address {
            BatchValue::Uniform(v) => {
                let moved = self.b.ins().iadd_imm_s(v, i64::from(least));
                let out_of_range = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, moved, i64::from(below));
                self.bail_out_if(out_of_range, BailoutReason::UniformIndex);
                let wide = self.b.ins().sextend(pointer, v);
                let bytes = self.b.ins().ishl_imm_u(wide, shift);
                BatchValue::Address(self.b.ins().iadd(self.uniforms, bytes))
            }
            BatchValue::Divergent(v) => {
                let mut m = self.clif();
                let (least, below) = (m.vector(types::I32X4, [least; 4]), m.vector(types::I32X4, [below; 4]));
                let moved = m.b.ins().iadd(v, least);
                let out_of_range = m.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, moved, below);
                let out_of_range = m.any_set(out_of_range);
                self.bail_out_if(out_of_range, BailoutReason::DivergentIndex);
                let bytes = self.b.ins().ishl_imm_u(v, shift);
                BatchValue::Addresses([0, 1, 2, 3].map(|j| {
                    let bytes = self.b.ins().extractlane(bytes, j);
                    let bytes = self.b.ins().sextend(pointer, bytes);
                    self.b.ins().iadd(self.uniforms, bytes)
                }))
            }
            _ => unreachable!("verified: an integer"),
        }
    }

    /// Uniform `base + index`.
    pub(crate) fn relative(&mut self, base: u8, index: Value, live: Components) -> BatchValue {
        BatchValue::Vector(match self.scalar(index) {
            BatchValue::Address(at) => return self.uniform_at(at, base, live),
            BatchValue::Addresses(at) => self.gather(at, base, live),
            // A constant.
            BatchValue::Uniform(index) => {
                let at = self.unguarded_address(base, index);
                return self.uniform_at(at, 0, live);
            }
            BatchValue::Divergent(_) | BatchValue::Vector(_) | BatchValue::UniformAt(..) => {
                unreachable!("verified: an index or a constant")
            }
        })
    }

    /// The address of uniform `base + index` for an index without a guard.
    fn unguarded_address(&mut self, base: u8, index: clif::Value) -> clif::Value {
        let ones = self.b.ins().iadd_imm_s(self.stack, i64::from(self.ones - self.layout.c(0, 0)));
        uniform_address(&mut self.b, self.uniforms, base, index, ones)
    }

    /// The uniform at `at`, of which components `live` are read.
    fn uniform_at(&mut self, at: clif::Value, n: u8, live: Components) -> BatchValue {
        if self.plan.is_float24() {
            let vector = self.b.ins().load(types::F32X4, constant_memory(), at, self.layout.c(n, 0));
            self.clif().record_operand(vector, live, Tails::Kept);
        }
        BatchValue::UniformAt(at, n)
    }

    /// Loads and broadcasts component `c` of the uniform at `at`.
    pub(crate) fn broadcast_uniform(&mut self, at: clif::Value, n: u8, c: u8) -> clif::Value {
        self.folding.loads += 1;
        let x = self.b.ins().load(types::F32, constant_memory(), at, self.layout.c(n, c));
        self.b.ins().splat(types::F32X4, x)
    }

    /// Loads one uniform per vertex and transposes them.
    fn gather(&mut self, at: [clif::Value; 4], n: u8, live: Components) -> [Option<clif::Value>; 4] {
        let offset = self.layout.c(n, 0);
        let vectors = at.map(|at| self.b.ins().load(types::F32X4, constant_memory(), at, offset));
        if self.plan.is_float24() {
            vectors.iter().for_each(|vector| self.clif().record_operand(*vector, live, Tails::Kept));
        }
        self.clif().transposed(vectors, live)
    }
}
