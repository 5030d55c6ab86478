//! 2^x and log2(x) as fixed sequences of IEEE operations, in single and in double precision.
//!
//! Each written step is one operation, never fused, so results have the same bits on every CPU. The
//! recompiler emits the same steps with the same constants. The single-precision functions are
//! within 0.05 ulp of float24. The double-precision functions round correctly to float24 for every
//! argument. `jit-tests/accuracy.rs` measures both.

/// `2^23 * 1.5`: adding and subtracting it rounds a small number to the nearest integer, ties to
/// even; the low bits of the sum hold that integer.
pub const ROUND_MAGIC: f32 = 12_582_912.0;

/// `(2^f - 1) / f` on [-0.5, 0.5], from the constant term up. Chebyshev fit, coefficients rounded
/// to f32.
pub const EX2_POLY: [f32; 6] = [
    f32::from_bits(0x3F31_7218),
    f32::from_bits(0x3E75_FDF0),
    f32::from_bits(0x3D63_57B6),
    f32::from_bits(0x3C1D_952A),
    f32::from_bits(0x3AAF_8448),
    f32::from_bits(0x3922_09C5),
];

/// Beyond this magnitude 2^x is 0 or infinity in any format used here.
pub const EX2_CLAMP: f32 = 160.0;

/// `log2((1 + s) / (1 - s)) / s` as a polynomial in `s * s`, for |s| <= 0.1716, from the constant
/// term up.
pub const LG2_POLY: [f32; 4] = [
    f32::from_bits(0x4038_AA3B),
    f32::from_bits(0x3F76_3873),
    f32::from_bits(0x3F13_A39A),
    f32::from_bits(0x3EDD_0A59),
];

/// Bits of sqrt(1/2): mantissas are in [sqrt(1/2), sqrt(2)), which preserves the relative accuracy
/// of logarithms near 1.
pub const LG2_SPLIT: u32 = 0x3F35_04F3;

/// [`ROUND_MAGIC`] for doubles, 2^52 * 1.5.
pub const ROUND_MAGIC_64: f64 = 6_755_399_441_055_744.0;

/// [`EX2_POLY`] to 50 bits.
pub const EX2_POLY_64: [f64; 10] = [
    f64::from_bits(0x3FE6_2E42_FEFA_39F7),
    f64::from_bits(0x3FCE_BFBD_FF82_C590),
    f64::from_bits(0x3FAC_6B08_D704_4119),
    f64::from_bits(0x3F83_B2AB_6FBA_385F),
    f64::from_bits(0x3F55_D87F_E908_F88A),
    f64::from_bits(0x3F24_3091_3037_8460),
    f64::from_bits(0x3EEF_FCB7_6789_860F),
    f64::from_bits(0x3EB6_2BFE_4611_7445),
    f64::from_bits(0x3E7B_6571_DE2F_2351),
    f64::from_bits(0x3E3E_5E9F_548E_5725),
];

/// Arguments nearer to zero are replaced by it: 2^x rounds to 1 there on either side, and a double
/// still distinguishes the sides.
pub const EX2_TINY_64: f64 = f64::from_bits((1023 - 30) << 52);

/// [`LG2_POLY`] to 52 bits.
pub const LG2_POLY_64: [f64; 7] = [
    f64::from_bits(0x4007_1547_652B_82FF),
    f64::from_bits(0x3FEE_C709_DC39_CA37),
    f64::from_bits(0x3FE2_776C_516A_1832),
    f64::from_bits(0x3FDA_6175_67FC_56E6),
    f64::from_bits(0x3FD4_84FA_9F30_749D),
    f64::from_bits(0x3FD0_BB7F_E8AA_139E),
    f64::from_bits(0x3FCF_17F2_67F4_D056),
];

/// [`LG2_SPLIT`] for doubles.
pub const LG2_SPLIT_64: u64 = 0x3FE6_A09E_667F_3BCD;

/// `2^a` in single precision.
pub fn ex2_32(a: f32) -> f32 {
    let x = if a < EX2_CLAMP { a } else { EX2_CLAMP };
    let x = if x > -EX2_CLAMP { x } else { -EX2_CLAMP };
    let shifted = x + ROUND_MAGIC;
    let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits()) as i32;
    let f = x - (shifted - ROUND_MAGIC);
    let [c0, c1, c2, c3, c4, c5] = EX2_POLY;
    let p = 1.0 + f * (c0 + f * (c1 + f * (c2 + f * (c3 + f * (c4 + f * c5)))));
    // 2^n in two halves: the first product is exact, the second rounds once, into the subnormals or
    // to infinity.
    let half = n >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    let r = p * power(half) * power(n - half);
    if a.is_nan() { a } else { r }
}

/// `log2(a)` in single precision.
pub fn lg2_32(a: f32) -> f32 {
    let tiny = a < f32::MIN_POSITIVE;
    let x = if tiny { a * 8_388_608.0 } else { a };
    let bias = if tiny { 23.0 } else { 0.0 };
    let exponent = (x.to_bits().wrapping_sub(LG2_SPLIT) as i32) >> 23;
    let m = f32::from_bits(x.to_bits().wrapping_sub((exponent as u32) << 23));
    let f = m - 1.0;
    let s = f / (m + 1.0);
    let t = s * s;
    let [c0, c1, c2, c3] = LG2_POLY;
    let y = s * (c0 + t * (c1 + t * (c2 + t * c3)));
    let r = (exponent as f32 - bias) + y;
    // The formula is valid for positive finite numbers; selects replace the other results.
    let r = if a < f32::INFINITY { r } else { a };
    let r = if a == 0.0 { f32::NEG_INFINITY } else { r };
    if a < 0.0 { f32::NAN } else { r }
}

/// `2^a` to more than 49 bits, in double precision.
pub fn ex2_64(a: f32) -> f64 {
    let x = if a < EX2_CLAMP { a } else { EX2_CLAMP };
    let x = f64::from(if x > -EX2_CLAMP { x } else { -EX2_CLAMP });
    let x = if x.abs() > EX2_TINY_64 { x } else { EX2_TINY_64.copysign(x) };
    let shifted = x + ROUND_MAGIC_64;
    let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC_64.to_bits());
    let f = x - (shifted - ROUND_MAGIC_64);
    let p = 1.0 + f * EX2_POLY_64.iter().rev().copied().reduce(|sum, c| c + f * sum).expect("there are coefficients");
    let power = f64::from_bits(n.wrapping_add(1023) << 52);
    if a.is_nan() { f64::NAN } else { p * power }
}

/// `log2(a)` to more than 49 bits, in double precision, for zero and normal `a`.
pub fn lg2_64(a: f32) -> f64 {
    let bits = f64::from(a).to_bits();
    let exponent = bits.wrapping_sub(LG2_SPLIT_64) as i64 >> 52;
    let m = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let t = s * s;
    let y = s * LG2_POLY_64.iter().rev().copied().reduce(|sum, c| c + t * sum).expect("there are coefficients");
    let r = exponent as f64 + y;
    // The formula is valid for positive finite numbers; selects replace the other results.
    let r = if a < f32::INFINITY { r } else { f64::from(a) };
    let r = if a == 0.0 { f64::NEG_INFINITY } else { r };
    if a < 0.0 { f64::NAN } else { r }
}
