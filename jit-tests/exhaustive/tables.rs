//! Programs whose outputs are functions of `v0`, with all arguments and the answers.

use picajit::container::float24::f24_to_f32;
use picajit::internals::float24::{LIMIT, Rounding, flush};
use picajit::isa::Relation;
use picajit::isa::numeric::Precision;
use picajit::state::{Uniforms, Vec4};

/// Registers of answers.
pub const ANSWERS: usize = 2;

pub type Answers = [Vec4; ANSWERS];

/// A function, by program and by [`Precision`].
pub struct Table {
    pub name: &'static str,
    /// The program. It writes all of o0 and o1.
    pub source: &'static str,
    /// How many arguments there are in a number format, a power of two; 0 for a format that the
    /// table does not concern.
    pub arguments: fn(Precision) -> u64,
    /// The low bits in which arguments of one sign and exponent differ.
    pub mantissa: fn(Precision) -> u32,
    /// v0 of an argument.
    pub input: fn(Precision, u64) -> Vec4,
    /// o0 and o1 for a v0.
    pub answers: fn(Precision, Vec4) -> Answers,
}

pub const ALL: [Table; 9] = [
    Table {
        name: "rcp",
        source: RCP,
        arguments: numbers,
        mantissa,
        input: number,
        answers: |p, v0| [[p.rcp(v0[0]); 4], v0],
    },
    Table {
        name: "rsq",
        source: RSQ,
        arguments: numbers,
        mantissa,
        input: number,
        answers: |p, v0| [[p.rsq(v0[0]); 4], v0],
    },
    Table {
        name: "ex2",
        source: EX2,
        arguments: numbers,
        mantissa,
        input: number,
        answers: |p, v0| [[p.ex2(v0[0]); 4], v0],
    },
    Table {
        name: "lg2",
        source: LG2,
        arguments: numbers,
        mantissa,
        input: number,
        answers: |p, v0| [[p.lg2(v0[0]); 4], v0],
    },
    Table { name: "flr-litp", source: FLR, arguments: numbers, mantissa, input: number, answers: floor_and_lighting },
    Table { name: "addresses", source: ADDRESSES, arguments: numbers, mantissa, input: number, answers: addresses },
    Table { name: "rounding", source: ROUNDING, arguments: sums, mantissa: |_| 23, input: summands, answers: rounded },
    Table { name: "pairs", source: PAIRS, arguments: |_| 1 << 24, mantissa: |_| 10, input: pair, answers: pairs },
    Table {
        name: "comparisons",
        source: COMPARISONS,
        arguments: |_| 1 << 24,
        mantissa: |_| 10,
        input: pair,
        answers: comparisons,
    },
];

/// Constants of the programs: c0 is ones, c1 zeros, any other register has its number.
pub fn uniforms() -> Uniforms {
    let mut uniforms = Uniforms::new();
    uniforms.c = std::array::from_fn(|n| [constant(n); 4]);
    uniforms
}

fn constant(n: usize) -> f32 {
    match n {
        0 => 1.0,
        1 => 0.0,
        _ => n as f32,
    }
}

// ---- One argument ----

fn numbers(precision: Precision) -> u64 {
    match precision {
        Precision::F32 => 1 << 32,
        Precision::F24 { .. } => 1 << 24,
    }
}

fn mantissa(precision: Precision) -> u32 {
    match precision {
        Precision::F32 => 23,
        Precision::F24 { .. } => 16,
    }
}

fn number(precision: Precision, n: u64) -> Vec4 {
    let x = match precision {
        Precision::F32 => f32::from_bits(n as u32),
        Precision::F24 { .. } => f24_to_f32(n as u32),
    };
    [x, 0.0, 0.0, 0.0]
}

const RCP: &str = "
.proc main
    rcp o0, v0.x
    mov o1, v0
    end
.end
";

const RSQ: &str = "
.proc main
    rsq o0, v0.x
    mov o1, v0
    end
.end
";

const EX2: &str = "
.proc main
    ex2 o0, v0.x
    mov o1, v0
    end
.end
";

const LG2: &str = "
.proc main
    lg2 o0, v0.x
    mov o1, v0
    end
.end
";

const FLR: &str = "
.proc main
    flr o0, v0.x
    litp o1, -v0.xxxx
    end
.end
";

fn floor_and_lighting(p: Precision, [x, ..]: Vec4) -> Answers {
    let positive = p.max(-x, 0.0);
    [[p.flr(x); 4], [positive, p.litp_y(-x), 0.0, positive]]
}

const ADDRESSES: &str = "
.proc main
    mova a0.xy, v0.xx
    mov o0, c40[a0.x]
    mov o1, c90[a0.y]
    end
.end
";

fn addresses(p: Precision, [x, ..]: Vec4) -> Answers {
    let address = p.to_address(x);
    // An address that is no signed byte counts as 0; sums have seven bits; beyond c95 are ones.
    let at = |n: i32| {
        let sum = if address == i32::from(address as i8) { n + address } else { n };
        let register = (sum & 0x7F) as usize;
        [if register < 96 { constant(register) } else { 1.0 }; 4]
    };
    [at(40), at(90)]
}

// ---- Rounding ----

const ROUNDING: &str = "
.proc main
    add o0, v0.xxxx, v0.yyyy
    add o1.xy, -v0.xxxx, -v0.yyyy
    mad o1.z, v0.x, c0.x, v0.y
    dp3 o1.w, c0, v0
    end
.end
";

/// One of 128 exponents, and the mantissa of an f32.
fn sums(precision: Precision) -> u64 {
    if precision == Precision::F32 { 0 } else { 1 << 30 }
}

/// Two float24 numbers whose sum is a positive f32: its first 17 significant bits, and the rest. Its
/// exponent is that of a float24 number or the next on either side. The program negates both, too.
fn summands(precision: Precision, n: u64) -> Vec4 {
    const LEAST_EXPONENT: u32 = 127 - 63;
    let bits = n as u32 + (LEAST_EXPONENT << 23);
    let first = f32::from_bits(bits >> TAIL << TAIL);
    if first >= LIMIT {
        return [f32::INFINITY, 0.0, 0.0, 0.0];
    }
    [first, f32::from_bits(bits) - first, 0.0, 0.0].map(|x| precision.operand(x))
}

/// Bits of an f32 that a float24 number has not.
const TAIL: u32 = 7;

fn rounded(precision: Precision, [a, b, ..]: Vec4) -> Answers {
    let Precision::F24 { rounding } = precision else { unreachable!("only float24 rounds sums of float24 numbers") };
    // The operands are flushed; then the sum is exact in f32, and above that exact in f64.
    let sum = f64::from(flush(a)) + f64::from(flush(b));
    let [plus, minus] = [sum, -sum].map(|sum| to_float24(rounding, sum));
    [[plus; 4], [minus, minus, plus, plus]]
}

/// A sum, rounded by arithmetic, where the engines do it by bits. It is 0 or at least the smallest
/// number, as its first summand is.
fn to_float24(rounding: Rounding, sum: f64) -> f32 {
    if sum == 0.0 {
        return 0.0;
    }
    if !sum.is_finite() {
        return sum as f32;
    }
    let unit = f64::from_bits(sum.to_bits() >> 52 << 52) / 65_536.0;
    let units = match rounding {
        Rounding::Nearest => (sum / unit).round_ties_even(),
        Rounding::TowardZero => (sum / unit).trunc(),
    };
    let value = units * unit;
    if value.abs() >= f64::from(LIMIT) { f32::INFINITY.copysign(value as f32) } else { value as f32 }
}

// ---- Two arguments ----

/// 4,096 values in float24 and in f32: both signs of 64 exponents with 32 mantissas.
fn special(precision: Precision, n: u64) -> f32 {
    // Around 0, 1, the ends of both formats, their square roots, the range of addresses, 2^24.
    const EXPONENTS: [u32; 64] = [
        0, 1, 2, 3, 62, 63, 64, 65, 66, 67, 68, 69, 93, 94, 95, 96, 97, 98, 118, 119, 120, 121, 122, 123, 124, 125,
        126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 142, 143, 144, 145, 150, 151, 157, 158, 159, 160, 187,
        188, 189, 190, 191, 192, 193, 222, 223, 224, 250, 251, 252, 253, 254, 255, 255,
    ];
    // Around 0, the ends, the middle, and ties of float24.
    const MANTISSAS: [u32; 32] = [
        0, 1, 2, 0x3F, 0x40, 0x41, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0xC1, 0xFF, 0x100, 0x2A_AAAA, 0x2A_AA80, 0x2A_AB00,
        0x3F_FFFF, 0x40_0000, 0x40_0001, 0x40_0040, 0x40_0080, 0x55_5555, 0x55_5580, 0x60_0000, 0x7F_0000, 0x7F_FF00,
        0x7F_FF40, 0x7F_FF7F, 0x7F_FF80, 0x7F_FFC0, 0x7F_FFFF,
    ];
    let n = n as usize;
    let bits = (n as u32 >> 11 & 1) << 31 | EXPONENTS[n >> 5 & 63] << 23 | MANTISSAS[n & 31];
    precision.operand(f32::from_bits(bits))
}

fn pair(precision: Precision, n: u64) -> Vec4 {
    // The mantissas are the low bits, so that a batch has two exponents.
    let [a, b] = [n >> 10 & 0x7F, n >> 17];
    [special(precision, a << 5 | n & 31), special(precision, b << 5 | n >> 5 & 31), 0.0, 0.0]
}

const PAIRS: &str = "
.proc main
    max o0.x, v0.x, v0.y
    min o0.y, v0.x, v0.y
    sge o0.z, v0.x, v0.y
    slt o0.w, v0.x, v0.y
    add o1.x, v0.x, v0.y
    mul o1.y, v0.x, v0.y
    mad o1.z, v0.x, v0.y, v0.x
    dp4 o1.w, v0.xyxy, v0.yyxx
    end
.end
";

fn pairs(p: Precision, [a, b, ..]: Vec4) -> Answers {
    [
        [p.max(a, b), p.min(a, b), p.sge(a, b), p.slt(a, b)],
        [p.add(a, b), p.mul(a, b), p.mad(a, b, a), p.dp4([a, b, a, b], [b, b, a, a])],
    ]
}

const COMPARISONS: &str = "
.proc main
    mov o0, c1
    mov o1, c1
    cmp v0.xx, eq, ne, v0.yy
    ifc cmp.x
        mov o0.x, c0
    .end
    ifc cmp.y
        mov o0.y, c0
    .end
    cmp v0.xx, lt, le, v0.yy
    ifc cmp.x
        mov o0.z, c0
    .end
    ifc cmp.y
        mov o0.w, c0
    .end
    cmp v0.xx, gt, ge, v0.yy
    ifc cmp.x
        mov o1.x, c0
    .end
    ifc cmp.y
        mov o1.y, c0
    .end
    end
.end
";

fn comparisons(p: Precision, [a, b, ..]: Vec4) -> Answers {
    use Relation::*;
    let flag = |relation| f32::from(u8::from(p.compare(relation, a, b)));
    [[Eq, Ne, Lt, Le].map(flag), [flag(Gt), flag(Ge), 0.0, 0.0]]
}
