//! [`Choices`] -> the contents of registers: what a unit and the uniforms hold when a program begins.
//!
//! Mostly small numbers, so that sums stay finite and addresses plausible, with a share of special values. It must not know
//! programs, but for what the generator counts on (`c0-c4`, loop counts).

use super::choice::Choices;
use crate::isa::REGS;
use crate::state::{EmitState, Registers, Uniforms, Unit, Vec4};

/// Numbers that arithmetic treats specially, or nearly so.
const SPECIAL: [f32; 22] = [
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
];

/// Where indices begin and stop counting, and what may be mistaken for it.
const ADDRESS_EDGES: [i32; 8] = [-129, -128, -127, 126, 127, 128, 255, 256];

/// A register component; `wild` is the percentage of special values.
fn component(choices: &mut Choices<'_>, wild: u32) -> f32 {
    if choices.percent(wild) {
        return if choices.percent(75) { choices.pick(&SPECIAL) } else { f32::from_bits(choices.word()) };
    }
    match choices.below(10) {
        0..=4 => choices.below(17) as f32 - 8.0,
        5..=7 => (choices.below(8192) as f32 - 4096.0) / 1024.0,
        8 => choices.below(300) as f32 - 150.0,
        _ => choices.below(1 << 20) as f32 / 256.0 - 100.0,
    }
}

fn vector(choices: &mut Choices<'_>, wild: u32) -> Vec4 {
    std::array::from_fn(|_| component(choices, wild))
}

/// A register file.
pub fn registers(choices: &mut Choices<'_>, wild: u32) -> Registers {
    std::array::from_fn::<Vec4, REGS, _>(|_| vector(choices, wild))
}

/// Uniforms. `c0-c3` are small integers, good for addresses, and `c4` is -1 everywhere, to count down with; loop counts
/// are mostly small, so that most runs end.
pub fn uniforms(choices: &mut Choices<'_>, wild: u32) -> Uniforms {
    let mut u = Uniforms::new();
    u.c = std::array::from_fn(|_| vector(choices, wild));
    for c in &mut u.c[..4] {
        *c = std::array::from_fn(|_| match choices.below(12) {
            0 => choices.pick(&ADDRESS_EDGES) as f32,
            _ => choices.below(7) as f32 - 2.0,
        });
    }
    u.c[4] = [-1.0; 4];
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
pub fn unit(choices: &mut Choices<'_>, wild: u32) -> Unit {
    let address = |choices: &mut Choices<'_>| match choices.below(10) {
        0..=6 => choices.below(12) as i32 - 4,
        7 => choices.below(300) as i32 - 150,
        8 => choices.pick(&ADDRESS_EDGES),
        _ => choices.word() as i32,
    };
    Unit {
        v: registers(choices, wild),
        r: registers(choices, wild),
        o: std::array::from_fn(|_| registers(choices, wild)),
        slots: std::array::from_fn(|_| registers(choices, wild)),
        a0: [address(choices), address(choices)],
        al: address(choices),
        cmp: [choices.percent(50), choices.percent(50)],
        // Only the lowest bits count; the others must survive.
        bank: if choices.percent(5) { choices.word() as u8 } else { choices.below(2) as u8 },
        setemit: EmitState {
            vertex: if choices.percent(5) { choices.word() as u8 } else { choices.below(4) as u8 },
            primitive: choices.percent(50),
            winding: choices.percent(50),
        },
    }
}
