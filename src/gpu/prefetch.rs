//! A draw that begins -> loads of the data that it will read.
//!
//! In a frame a draw finds its data outside of the near caches, and its code as well. While a line of
//! code is missing, the processor sees no later load, so the misses of data would follow each other.
//! Here they overlap: no load waits for another, but for a pointer. Rust has no portable instruction to
//! prefetch; a load whose result is unused does the same. docs/performance.md has what it gains.
//!
//! Invariant: nothing changes.

use super::configuration::DrawConfiguration;
use super::{Gpu, State};
use crate::isa::Stage;
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Words of the stack that a small draw uses below the caller's.
const STACK: usize = 160;
/// Words, and vectors, of a cache line.
const LINE: usize = 8;
const VECTORS: usize = 4;
/// Inputs, outputs and float uniforms that most programs use.
const REGISTERS: usize = 2 * VECTORS;
const UNIFORMS: usize = 4 * VECTORS;

impl Gpu {
    /// Loads what a draw of few vertices reads, and its stack. Not inlined: its own stack lies where that of the draw's
    /// functions will.
    #[inline(never)]
    pub(super) fn prefetch(&self) {
        let mut stack = [MaybeUninit::<u64>::uninit(); STACK];
        // Two lines at a time: few instructions, and little code.
        for lines in stack.as_chunks_mut::<{ 2 * LINE }>().0 {
            lines[0].write(0);
            lines[LINE].write(0);
        }
        black_box(&mut stack);
        let State { registers, vertex, assembly, .. } = &self.state;
        // One sum, so that all loads count as used and none is stored.
        let mut sum = registers.prefetch(Stage::Vertex) ^ u32::from(assembly.count);
        sum ^= self.buffers.rows.prefetch() ^ self.configuration.as_ref().map_or(0, DrawConfiguration::prefetch);
        sum ^= u32::from(self.vertex.prefetch()) ^ u32::from(self.cancel.is_set());
        let unit = &vertex.unit;
        for n in (0..REGISTERS).step_by(VECTORS) {
            sum ^= unit.v[n][0].to_bits() ^ unit.o[0][n][0].to_bits();
        }
        for n in (0..UNIFORMS).step_by(VECTORS) {
            sum ^= vertex.uniforms.c[n][0].to_bits();
        }
        black_box(sum ^ u32::from(unit.bank) ^ u32::from(vertex.uniforms.b));
    }
}
