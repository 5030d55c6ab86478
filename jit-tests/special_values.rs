//! Reproducible test numbers: special values among ordinary ones.

use picajit::state::{Registers, Uniforms, Unit};

/// A small generator (xorshift64*); the seed makes every test the same on every run.
pub struct Noise(u64);

/// Values for rare paths: both zeros, both infinities, NaN, subnormals of both formats, bounds of
/// ranges, small integers (addresses, loop indices), halves (rounding).
const SPECIAL: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    3.0,
    -7.0,
    127.0,
    128.0,
    -128.0,
    -129.0,
    1e-40,
    -1e-40,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    2.168_404_3e-19,
    1.844_674_4e19,
    0.333_333_34,
];

impl Noise {
    /// Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.bits() as usize % n
    }

    /// A special value, an ordinary number or any bit pattern.
    pub fn float(&mut self) -> f32 {
        match self.below(8) {
            0..=2 => SPECIAL[self.below(SPECIAL.len())],
            3 => f32::from_bits(self.bits()),
            _ => (self.bits() as i32 % 4096) as f32 / 64.0,
        }
    }

    /// Sixteen registers.
    pub fn registers(&mut self) -> Registers {
        std::array::from_fn(|_| std::array::from_fn(|_| self.float()))
    }

    /// A unit as an earlier program may have left it.
    pub fn unit(&mut self) -> Unit {
        let mut unit = Unit::new();
        unit.v = self.registers();
        unit.r = self.registers();
        unit.o = std::array::from_fn(|_| self.registers());
        unit.slots = std::array::from_fn(|_| self.registers());
        unit.a0 = std::array::from_fn(|_| self.below(300) as i32 - 150);
        unit.al = self.below(300) as i32 - 20;
        unit.cmp = std::array::from_fn(|_| self.below(2) == 1);
        unit.bank = self.below(2) as u8;
        unit.setemit.vertex = self.below(4) as u8;
        unit.setemit.primitive = self.below(2) == 1;
        unit.setemit.winding = self.below(2) == 1;
        unit
    }

    /// Uniforms of any value; loops of at most seven rounds.
    pub fn uniforms(&mut self) -> Uniforms {
        let mut uniforms = Uniforms::new();
        uniforms.c = std::array::from_fn(|_| std::array::from_fn(|_| self.float()));
        uniforms.i = std::array::from_fn(|_| [self.below(7) as u8, self.bits() as u8, self.below(4) as u8, 0]);
        uniforms.b = self.bits() as u16;
        uniforms
    }
}
