//! The addresses of a group's vertices: the induction variables of the loop over groups.
//!
//! An x86-64 address is base + scaled index + displacement. So the loop carries the first vertex's
//! address only, and the other three fold into loads and stores. 64-bit Arm has more registers and
//! fewer addressing modes; there the loop carries all four. It must not know what is read and
//! written there.

use crate::jit::abi::GROUP;
use cranelift_codegen::ir::{self as clif, InstBuilder};
use cranelift_frontend::FunctionBuilder;

/// The addresses of the four vertices of a group, in inputs or in outputs.
pub(crate) struct VertexAddresses {
    /// One per vertex; valid after [`enter`](VertexAddresses::enter).
    pub(crate) vertices: [clif::Value; GROUP],
    /// The loop header's parameter: the address at which the iteration starts.
    pub(crate) group_start: clif::Value,
    /// Bytes from the first vertex to each of the others.
    offsets: [clif::Value; GROUP - 1],
    /// Number of addresses that the loop carries.
    carried: usize,
    /// The first vertex of the second group, if two groups [interleave](super::unroll).
    second: Option<clif::Value>,
}

impl VertexAddresses {
    /// Appends parameters to the loop's `header`. The current block is the preheader. With `all`,
    /// the loop carries all four addresses.
    pub(crate) fn new(
        b: &mut FunctionBuilder<'_>,
        header: clif::Block,
        stride: clif::Value,
        all: bool,
    ) -> VertexAddresses {
        let pointer = b.func.dfg.value_type(stride);
        let carried = if all { GROUP } else { 1 };
        let group_start = b.append_block_param(header, pointer);
        let mut vertices = [group_start; GROUP];
        vertices[1..carried].fill_with(|| b.append_block_param(header, pointer));
        let twice = b.ins().ishl_imm_u(stride, 1);
        let thrice = b.ins().iadd(twice, stride);
        VertexAddresses { vertices, group_start, offsets: [stride, twice, thrice], carried, second: None }
    }

    /// The current block is the header, and two groups interleave. Returns the addresses of both.
    /// Neither starts after `last`, so the tail overlaps the last full group. Vertices are
    /// independent, so recomputing some is harmless.
    pub(crate) fn enter_two(&mut self, b: &mut FunctionBuilder<'_>, last: clif::Value) -> [clif::Value; 2] {
        let group = self.group(b);
        let first = b.ins().umin(self.group_start, last);
        let second = b.ins().iadd(first, group);
        let second = b.ins().umin(second, last);
        self.vertices[0] = first;
        self.second = Some(second);
        [first, second]
    }

    /// The current block is the header.
    pub(crate) fn enter(&mut self, b: &mut FunctionBuilder<'_>) {
        if self.carried == 1 {
            let [first, others @ ..] = &mut self.vertices;
            for (at, offset) in others.iter_mut().zip(self.offsets) {
                *at = b.ins().iadd(*first, offset);
            }
        }
    }

    /// The header's arguments on entry, with the first vertex at `first`.
    pub(crate) fn start(&self, b: &mut FunctionBuilder<'_>, first: clif::Value) -> Vec<clif::Value> {
        let others = self.offsets[..self.carried - 1].iter().map(|offset| b.ins().iadd(first, *offset));
        [first].into_iter().chain(others).collect()
    }

    /// The header's arguments for the next iteration.
    pub(crate) fn next(&self, b: &mut FunctionBuilder<'_>) -> Vec<clif::Value> {
        let group = self.group(b);
        if let Some(second) = self.second {
            return vec![b.ins().iadd(second, group)];
        }
        self.vertices[..self.carried].iter().map(|at| b.ins().iadd(*at, group)).collect()
    }

    /// Bytes from one group to the next.
    fn group(&self, b: &mut FunctionBuilder<'_>) -> clif::Value {
        b.ins().ishl_imm_u(self.offsets[0], i64::from(GROUP.trailing_zeros()))
    }
}
