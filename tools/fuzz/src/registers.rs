//! [`Choices`] -> the initial contents of a unit and of the uniforms.
//!
//! Mostly small numbers, so that sums stay finite and addresses plausible, with a share of special
//! values. Sensible programs rely on `c0-c6` and on small loop counts.

use super::choice::Choices;
use picajit::isa::REGS;
use picajit::state::{EmitState, Registers, Uniforms, Unit, Vec4};

/// Numbers that are special, or next to special, for arithmetic or addressing in some format.
pub const SPECIAL: [f32; 46] = [
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-45,
    -1e-45,
    1.1e-38,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-30,
    f32::MAX,
    f32::MIN,
    1e20,
    -1e20,
    16_777_216.0,
    127.996_09,
    -128.5,
    0.499_999_97,
    -149.5,
    1e-40,
    0.5,
    -0.5,
    127.0,
    -128.0,
    -129.0,
    2_147_483_648.0,
    -2_147_483_904.0,
    1e9,
    // Float24: the largest subnormal and a tie above it, the smallest normal, the smallest of all,
    // the largest; numbers near overflow or underflow; ties of the rounding to float24.
    f32::from_bits(0x207F_FF00),
    f32::from_bits(0x207F_FF80),
    -f32::from_bits(0x2080_0000),
    f32::from_bits(0x1880_0000),
    -f32::from_bits(0x5F7F_FF80),
    f32::from_bits(0x5F7F_FFC0),
    f32::from_bits(0x5300_0000),
    -f32::from_bits(0x2B80_0000),
    f32::from_bits(0x3F80_0040),
    -f32::from_bits(0x3F80_00C0),
    f32::from_bits(0x2F80_0000),
    // The ends of the band in which native code assumes float24 numbers, and their neighbours outside.
    f32::from_bits(0x3000_0000),
    -f32::from_bits(0x2FFF_FF80),
    f32::from_bits(0x4E7F_FF80),
    -f32::from_bits(0x4E80_0000),
];

/// Shares of the kinds of numbers in a case.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// The percentage of special values.
    pub special: u32,
    /// The percentage of numbers with more significant bits than float24 has. Native code does not
    /// expect them in uniforms and temporaries.
    pub long: u32,
}

/// The mixtures that cases have.
pub const MIXES: [Mix; 4] = [
    Mix { special: 0, long: 0 },
    Mix { special: 0, long: 10 },
    Mix { special: 5, long: 0 },
    Mix { special: 30, long: 10 },
];

/// Bounds of relative indices, and values next to them.
const ADDRESS_EDGES: [i32; 8] = [-129, -128, -127, 126, 127, 128, 255, 256];

/// A register component.
fn component(choices: &mut Choices<'_>, mix: Mix) -> f32 {
    if choices.percent(mix.special) {
        return if choices.percent(75) { choices.pick(&SPECIAL) } else { f32::from_bits(choices.word()) };
    }
    if choices.percent(mix.long) {
        return choices.below(1 << 20) as f32 / 256.0 - 100.0;
    }
    match choices.below(9) {
        0..=4 => choices.below(17) as f32 - 8.0,
        5..=7 => (choices.below(8192) as f32 - 4096.0) / 1024.0,
        _ => choices.below(300) as f32 - 150.0,
    }
}

fn vector(choices: &mut Choices<'_>, mix: Mix) -> Vec4 {
    std::array::from_fn(|_| component(choices, mix))
}

/// A register file.
pub fn file(choices: &mut Choices<'_>, mix: Mix) -> Registers {
    std::array::from_fn::<Vec4, REGS, _>(|_| vector(choices, mix))
}

/// Uniforms. `c0-c3` are small integers, usable as addresses; `c4` is -1 in each component, for
/// counting down; `c5` is infinity, `c6` its negative. Loop counts are mostly small, so that most runs end.
pub fn uniforms(choices: &mut Choices<'_>, mix: Mix) -> Uniforms {
    let mut u = Uniforms::new();
    u.c = std::array::from_fn(|_| vector(choices, mix));
    for c in &mut u.c[..4] {
        *c = std::array::from_fn(|_| match choices.below(12) {
            0 => choices.pick(&ADDRESS_EDGES) as f32,
            _ => choices.below(7) as f32 - 2.0,
        });
    }
    u.c[4] = [-1.0; 4];
    [u.c[5], u.c[6]] = [f32::INFINITY, f32::NEG_INFINITY].map(|x| [x; 4]);
    for i in &mut u.i {
        let any = choices.word().to_le_bytes();
        let small = [choices.below(4) as u8, choices.below(8) as u8, choices.below(3) as u8, 0];
        let anything: [Option<u8>; 4] = std::array::from_fn(|n| choices.percent([4, 15, 15, 50][n]).then_some(any[n]));
        *i = std::array::from_fn(|n| anything[n].unwrap_or(small[n]));
    }
    u.b = choices.word() as u16;
    u
}

/// A unit with something in every register.
pub fn unit(choices: &mut Choices<'_>, mix: Mix) -> Unit {
    let address = |choices: &mut Choices<'_>| match choices.below(10) {
        0..=6 => choices.below(12) as i32 - 4,
        7 => choices.below(300) as i32 - 150,
        8 => choices.pick(&ADDRESS_EDGES),
        _ => choices.word() as i32,
    };
    Unit {
        v: file(choices, mix),
        r: file(choices, mix),
        o: std::array::from_fn(|_| file(choices, mix)),
        slots: std::array::from_fn(|_| file(choices, mix)),
        a0: [address(choices), address(choices)],
        al: address(choices),
        cmp: [choices.percent(50), choices.percent(50)],
        // Only the lowest bits have a meaning; the others must be preserved.
        bank: if choices.percent(5) { choices.word() as u8 } else { choices.below(2) as u8 },
        setemit: EmitState {
            vertex: if choices.percent(5) { choices.word() as u8 } else { choices.below(4) as u8 },
            primitive: choices.percent(50),
            winding: choices.percent(50),
        },
    }
}
