//! Where the registers of a group's vertices are, from group to group.
//!
//! On x86-64 an address may be a register and twice another, and a displacement besides; so the loop carries the first vertex's
//! address, and the others' are made part of each load and store. On 64-bit Arm, which has more registers, it carries all four.
//! It must not know what is read and written there.

use crate::jit::abi::GROUP;
use cranelift_codegen::ir::{self as clif, InstBuilder};
use cranelift_frontend::FunctionBuilder;

/// The addresses of four vertices in a row.
pub(crate) struct VertexAddresses {
    /// Of each, inside the loop, once that is [entered](VertexAddresses::enter).
    pub(crate) vertices: [clif::Value; GROUP],
    /// Where the loop's turn begins, as it came.
    pub(crate) came: clif::Value,
    /// Bytes from the first to each of the others.
    distances: [clif::Value; GROUP - 1],
    /// How many of the addresses the loop carries.
    carried: usize,
    /// The first of the second group, where there are [two at once](super::pairs).
    second: Option<clif::Value>,
}

impl VertexAddresses {
    /// The loop begins with `header`, which gets parameters and has no instruction yet. The current block is before it. All four are
    /// carried from group to group if `all` says so.
    pub(crate) fn new(
        b: &mut FunctionBuilder<'_>,
        header: clif::Block,
        stride: clif::Value,
        all: bool,
    ) -> VertexAddresses {
        let pointer = b.func.dfg.value_type(stride);
        let carried = if all { GROUP } else { 1 };
        let came = b.append_block_param(header, pointer);
        let mut vertices = [came; GROUP];
        vertices[1..carried].fill_with(|| b.append_block_param(header, pointer));
        let twice = b.ins().ishl_imm_u(stride, 1);
        let thrice = b.ins().iadd(twice, stride);
        VertexAddresses { vertices, came, distances: [stride, twice, thrice], carried, second: None }
    }

    /// The current block is the loop's first, and two groups are run at once: whole groups, of which the last may begin at `last`, so that
    /// at the end they may be the same, or have vertices in common. Gives where both begin.
    pub(crate) fn enter_two(&mut self, b: &mut FunctionBuilder<'_>, last: clif::Value) -> [clif::Value; 2] {
        let group = self.group(b);
        let first = b.ins().umin(self.came, last);
        let second = b.ins().iadd(first, group);
        let second = b.ins().umin(second, last);
        self.vertices[0] = first;
        self.second = Some(second);
        [first, second]
    }

    /// The current block is the loop's first.
    pub(crate) fn enter(&mut self, b: &mut FunctionBuilder<'_>) {
        if self.carried == 1 {
            let [first, others @ ..] = &mut self.vertices;
            for (at, distance) in others.iter_mut().zip(self.distances) {
                *at = b.ins().iadd(*first, distance);
            }
        }
    }

    /// What the loop begins with if the first vertex is at `first`.
    pub(crate) fn start(&self, b: &mut FunctionBuilder<'_>, first: clif::Value) -> Vec<clif::Value> {
        let others = self.distances[..self.carried - 1].iter().map(|distance| b.ins().iadd(first, *distance));
        [first].into_iter().chain(others).collect()
    }

    /// What it goes on with.
    pub(crate) fn next(&self, b: &mut FunctionBuilder<'_>) -> Vec<clif::Value> {
        let group = self.group(b);
        if let Some(second) = self.second {
            return vec![b.ins().iadd(second, group)];
        }
        self.vertices[..self.carried].iter().map(|at| b.ins().iadd(*at, group)).collect()
    }

    /// Bytes from one group to the next.
    fn group(&self, b: &mut FunctionBuilder<'_>) -> clif::Value {
        b.ins().ishl_imm_u(self.distances[0], i64::from(GROUP.trailing_zeros()))
    }
}
