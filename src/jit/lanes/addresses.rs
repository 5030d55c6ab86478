//! Where the registers of a group's vertices are, from group to group.
//!
//! On x86-64 an address may be a register and twice another, and a displacement besides; so the loop carries the first vertex's
//! address, and the others' are made part of each load and store. On 64-bit Arm, which has more registers, it carries all four.
//! It must not know what is read and written there.

use super::WIDTH;
use cranelift_codegen::ir::{self as clif, InstBuilder};
use cranelift_frontend::FunctionBuilder;

/// The addresses of four vertices in a row.
pub(super) struct Addresses {
    /// Of each, inside the loop.
    pub(super) vertices: [clif::Value; WIDTH],
    /// Bytes from one to the next.
    stride: clif::Value,
    /// How many of the addresses the loop carries.
    carried: usize,
}

impl Addresses {
    /// The loop begins with `head`, which gets parameters. The current block is before it.
    pub(super) fn new(b: &mut FunctionBuilder<'_>, head: clif::Block, stride: clif::Value, arm: bool) -> Addresses {
        let pointer = b.func.dfg.value_type(stride);
        let first = b.append_block_param(head, pointer);
        let mut vertices = [first; WIDTH];
        if arm {
            vertices[1..].fill_with(|| b.append_block_param(head, pointer));
            return Addresses { vertices, stride, carried: WIDTH };
        }
        let twice = b.ins().ishl_imm_u(stride, 1);
        let thrice = b.ins().iadd(twice, stride);
        let before = b.current_block().expect("the one before the loop");
        b.switch_to_block(head);
        for (at, distance) in vertices[1..].iter_mut().zip([stride, twice, thrice]) {
            *at = b.ins().iadd(first, distance);
        }
        b.switch_to_block(before);
        Addresses { vertices, stride, carried: 1 }
    }

    /// What the loop begins with if the first vertex is at `first`.
    pub(super) fn start(&self, b: &mut FunctionBuilder<'_>, first: clif::Value) -> Vec<clif::Value> {
        let next = |at: &clif::Value| Some(b.ins().iadd(*at, self.stride));
        std::iter::successors(Some(first), next).take(self.carried).collect()
    }

    /// What it goes on with.
    pub(super) fn next(&self, b: &mut FunctionBuilder<'_>) -> Vec<clif::Value> {
        let group = b.ins().ishl_imm_u(self.stride, i64::from(WIDTH.trailing_zeros()));
        self.vertices[..self.carried].iter().map(|at| b.ins().iadd(*at, group)).collect()
    }
}
