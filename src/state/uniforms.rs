//! The registers that a run reads and never writes.

use super::unit::Vec4;
use crate::isa::numeric::Precision;
use crate::isa::{BOOL_UNIFORMS, FLOAT_UNIFORMS, INT_UNIFORMS};

/// The uniforms of a run, which it reads and never writes.
#[derive(Clone, Debug)]
#[repr(C, align(16))]
pub struct Uniforms {
    /// Float uniforms `c0-c95`.
    pub c: [Vec4; FLOAT_UNIFORMS],
    /// Integer uniforms `i0-i3`: x, y, z, w. No instruction uses w.
    pub i: [[u8; 4]; INT_UNIFORMS],
    /// Boolean uniforms: bit n is `bn`.
    pub b: u16,
}

const _: () = assert!(BOOL_UNIFORMS == u16::BITS as usize);

impl Uniforms {
    /// All zero and false.
    pub fn new() -> Uniforms {
        Uniforms { c: [[0.0; 4]; FLOAT_UNIFORMS], i: [[0; 4]; INT_UNIFORMS], b: 0 }
    }

    /// Rounds every float uniform to the value that a program in this number format reads. This
    /// never changes results. In float24, native code is about twice as fast with narrowed
    /// uniforms; uniforms uploaded as float24 words are narrow already.
    pub fn narrow(&mut self, precision: Precision) {
        self.c.as_flattened_mut().iter_mut().for_each(|x| *x = precision.operand(*x));
    }
}

impl Default for Uniforms {
    fn default() -> Uniforms {
        Uniforms::new()
    }
}
