//! Default uniforms and inputs, identical on every machine and in every version.
//!
//! The generator is xorshift32 with shifts 13, 17, 5; a state `x` gives `(x >> 8) * 2^-23 - 1`,
//! which is in [-1, 1) and exact. Uniforms are drawn with seed 1 over c0.x, c0.y .. c95.w, inputs
//! with seed 2 over v0.x .. v15.w of the first vertex, then of the second, and so on.

use crate::container::shbin::Dvle;
use crate::isa::{INT_UNIFORMS, REGS};
use crate::state::{Registers, Uniforms, Vec4};

/// Seed of the float uniforms.
pub const UNIFORM_SEED: u32 = 1;
/// Seed of the inputs.
pub const INPUT_SEED: u32 = 2;
/// Default integer uniforms: four iterations, aL from 0 in steps of 1.
pub const DEFAULT_INT: [u8; 4] = [3, 0, 1, 0];

/// The generator.
#[derive(Clone, Debug)]
pub struct Generator(u32);

impl Generator {
    /// `seed` is not 0, which would only give -1.
    pub const fn new(seed: u32) -> Generator {
        assert!(seed != 0);
        Generator(seed)
    }

    /// The next number.
    pub fn value(&mut self) -> f32 {
        let mut x = self.0;
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.0 = x;
        (x >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    /// The next four.
    pub fn vec4(&mut self) -> Vec4 {
        std::array::from_fn(|_| self.value())
    }

    /// The next vertex.
    pub fn vertex(&mut self) -> Registers {
        let mut vertex = [[0.0; 4]; REGS];
        vertex.fill_with(|| self.vec4());
        vertex
    }
}

/// Generated uniforms, overridden by the constants of `dvle`.
pub fn uniforms(dvle: &Dvle) -> Uniforms {
    let mut generator = Generator::new(UNIFORM_SEED);
    let mut uniforms = Uniforms::new();
    uniforms.c.fill_with(|| generator.vec4());
    uniforms.i = [DEFAULT_INT; INT_UNIFORMS];
    dvle.apply_constants(&mut uniforms);
    uniforms
}

/// `count` generated vertices.
pub fn inputs(count: usize) -> Vec<Registers> {
    let mut generator = Generator::new(INPUT_SEED);
    (0..count).map(|_| generator.vertex()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::shbin::Constant;

    #[test]
    fn the_first_values_are_those_of_the_definition() {
        // States by hand: 1 -> 270369 -> 67634689, of which the upper 24 bits are 1056 and 264198.
        let mut generator = Generator::new(1);
        let expected = [1056, 264198].map(|n| n as f32 * 2f32.powi(-23) - 1.0);
        assert_eq!([generator.value(), generator.value()], expected);
    }

    #[test]
    fn constants_override_generated_values() {
        let dvle = Dvle {
            constants: vec![
                Constant::Float { register: 1, value: [0x3F0000; 4] },
                Constant::Int { register: 2, value: [9, 8, 7, 6] },
                Constant::Bool { register: 15, value: true },
            ],
            ..Dvle::default()
        };
        let u = uniforms(&dvle);
        let mut generator = Generator::new(UNIFORM_SEED);
        assert_eq!((u.c[0], u.c[1]), (generator.vec4(), [1.0; 4]));
        generator.vec4();
        assert_eq!(u.c[2], generator.vec4());
        assert_eq!((u.i, u.b), ([[3, 0, 1, 0], [3, 0, 1, 0], [9, 8, 7, 6], [3, 0, 1, 0]], 1 << 15));
    }
}
