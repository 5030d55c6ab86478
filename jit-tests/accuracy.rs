//! RCP, RSQ, EX2 and LG2 over float24 arguments: their error in each number format; and how often a
//! float24 sum or product, which is rounded twice, differs from the exact one rounded once. Prints a
//! table, and fails where docs/numerics.md does not hold.
//!
//! The exact value comes from the platform's double-precision functions, accurate to a few units of
//! 2^-52. An argument is undecided if that does not determine the float24 result; there must be
//! none.
//!
//! By default every 13th argument is tested; `PICAJIT_FULL=1` tests each, `PICAJIT_ACCURACY=N`
//! every Nth.

mod extent;

use libtest_mimic::{Arguments, Failed, Trial};
use picajit::container::float24::f24_to_f32;
use picajit::internals::float24::{LIMIT, Rounding, SMALLEST, TAIL_64};
use picajit::isa::numeric::Precision;

/// Distance between two tested arguments.
fn stride() -> usize {
    extent::amount("PICAJIT_ACCURACY", 13, 1) as usize
}

/// Assumed error of the platform's functions, in units of 2^-52; generous.
const DOUBT: u64 = 64;

/// Below this magnitude, 2^x is too near to 1 for a double.
const NEAR_ZERO: f64 = 1.0 / (1u64 << 25) as f64;

/// Largest error in F32, in units of float24's last place.
const F32_LIMIT: f64 = 0.51;

#[derive(Clone, Copy)]
struct Function {
    name: &'static str,
    ours: fn(Precision, f32) -> f32,
    exact: fn(f64) -> f64,
    /// Whether the exact value for this argument is a float24 number, by theory.
    hits: fn(f64) -> bool,
}

fn power_of_two(x: f64) -> bool {
    x.to_bits() << 12 == 0
}

const FUNCTIONS: [Function; 4] = [
    Function { name: "RCP", ours: Precision::rcp, exact: |x| 1.0 / x, hits: power_of_two },
    // 1 / sqrt(x) is a binary fraction only if sqrt(x) is a power of two.
    Function { name: "RSQ", ours: Precision::rsq, exact: |x| 1.0 / x.sqrt(), hits: power_of_two },
    Function { name: "EX2", ours: Precision::ex2, exact: f64::exp2, hits: |x| x.fract() == 0.0 },
    Function { name: "LG2", ours: Precision::lg2, exact: f64::log2, hits: power_of_two },
];

/// Errors of one function in one format.
#[derive(Default)]
struct ErrorStats {
    arguments: u32,
    /// The largest error in units of the last place, and where.
    worst: (f64, f32),
    /// Results other than the exact value rounded once.
    wrong: u32,
    undecided: u32,
    /// The first wrong result.
    complaint: Option<String>,
}

impl ErrorStats {
    fn complain(&mut self, x: f32, got: f32, want: impl std::fmt::Display) {
        self.complaint.get_or_insert_with(|| format!("of {x:e} it is {got:e}, not {want}"));
    }
}

/// The exact value as a double, distinct from 1 where it is near 1.
fn exact(function: &Function, x: f64) -> f64 {
    if function.name == "EX2" && x != 0.0 && x.abs() < NEAR_ZERO {
        let next_to_one = 1.0f64.to_bits();
        return f64::from_bits(if x < 0.0 { next_to_one - (1 << 20) } else { next_to_one + (1 << 20) });
    }
    (function.exact)(x)
}

/// Whether an error of [`DOUBT`] could change the rounding of `y`.
fn undecided(rounding: Rounding, y: f64) -> bool {
    let tail = y.to_bits() & ((1 << TAIL_64) - 1);
    let boundary = match rounding {
        Rounding::Nearest => 1u64 << (TAIL_64 - 1),
        Rounding::TowardZero => 0,
    };
    let distance = tail.wrapping_sub(boundary) & ((1 << TAIL_64) - 1);
    distance.min((1 << TAIL_64) - distance) <= DOUBT
}

fn look(function: &Function, precision: Precision, bits: u32, found: &mut ErrorStats) {
    let x = f24_to_f32(bits);
    let got = (function.ours)(precision, x);
    found.arguments += 1;
    // Both formats read -0 as +0, and float24 reads subnormals as 0.
    let seen = match precision {
        Precision::F24 { .. } if x.abs() < SMALLEST => 0.0,
        _ if x == 0.0 => 0.0,
        _ => x,
    };
    let y = exact(function, f64::from(seen));
    if y.is_nan() {
        if !got.is_nan() {
            found.complain(x, got, "NaN");
        }
        return;
    }
    let (low, high) = (f64::from(SMALLEST), f64::from(LIMIT));
    if (low..high).contains(&y.abs()) {
        let ulp = f64::from_bits(y.to_bits() >> 52 << 52).abs() / 65_536.0;
        let error = (f64::from(got) - y).abs() / ulp;
        if error > found.worst.0 || error.is_nan() {
            found.worst = (error, x);
        }
    }
    match precision {
        Precision::F32 => {
            let close =
                if y.is_finite() && y != 0.0 { (f64::from(got) / y - 1.0).abs() < 1e-5 } else { got == y as f32 };
            // Outside f32's normal numbers only the limit counts.
            let normal = (f64::from(f32::MIN_POSITIVE)..f64::from(f32::MAX)).contains(&y.abs());
            if normal && !close || !normal && got.is_finite() && (f64::from(got) - y).abs() > 1e-37 {
                found.complain(x, got, y);
            }
        }
        Precision::F24 { rounding } => {
            let matters = (low / 2.0..high * 2.0).contains(&y.abs());
            if matters && !(function.hits)(f64::from(seen)) && undecided(rounding, y) {
                found.undecided += 1;
            }
            let want = rounding.result_64(y);
            if got.to_bits() != want.to_bits() {
                found.wrong += 1;
                found.complain(x, got, format_args!("{want:e}"));
            }
        }
    }
}

fn measure(function: &'static Function) -> Result<(), Failed> {
    for precision in Precision::ALL {
        let mut found = ErrorStats::default();
        let arguments = (0..1 << 24).step_by(stride()).filter(|&bits| !f24_to_f32(bits).is_nan());
        arguments.for_each(|bits| look(function, precision, bits, &mut found));
        let ErrorStats { arguments, worst: (error, at), wrong, undecided, complaint } = found;
        let rounded = match precision {
            Precision::F32 => String::new(),
            Precision::F24 { .. } => format!(", {wrong} not the exact value rounded once, {undecided} undecided"),
        };
        println!(
            "{:4}{precision:12} {arguments} arguments, largest error {error:.4} ulp of float24, at {at:e}{rounded}",
            function.name
        );
        let limit = match precision {
            Precision::F32 => F32_LIMIT,
            Precision::F24 { rounding: Rounding::Nearest } => 0.5,
            Precision::F24 { rounding: Rounding::TowardZero } => 1.0,
        };
        if error.is_nan() || error > limit || undecided > 0 || complaint.is_some() {
            let complaint =
                complaint.unwrap_or_else(|| format!("an error above {limit} ulp, or {undecided} undecided"));
            return Err(format!("{} in {precision}: {complaint}", function.name).into());
        }
    }
    Ok(())
}

/// Sums and products of random normal float24 numbers. Exponents are near each other, or sums would
/// all be trivial.
fn rounded_twice(rounding: Rounding) -> Result<(), Failed> {
    let pairs = (1 << 22) / stride() as u32;
    let precision = Precision::F24 { rounding };
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut number = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = (seed >> 40) as u32;
        f24_to_f32(bits & 0x80_FFFF | (0x38 + (bits >> 16 & 0xF)) << 16)
    };
    let (mut twice, mut worst) = ([0u32; 2], [0.0f64; 2]);
    for _ in 0..pairs {
        let (a, b) = (number(), number());
        let pair =
            [(precision.add(a, b), f64::from(a) + f64::from(b)), (precision.mul(a, b), f64::from(a) * f64::from(b))];
        // Both are exact in double precision: exponents differ by 15 at most, and a product has 34
        // bits.
        for (n, (got, exact)) in pair.into_iter().enumerate() {
            twice[n] += u32::from(got != rounding.result_64(exact));
            if exact != 0.0 {
                let ulp = f64::from_bits(exact.to_bits() >> 52 << 52).abs() / 65_536.0;
                worst[n] = worst[n].max((f64::from(got) - exact).abs() / ulp);
            }
        }
    }
    for (n, name) in ["ADD", "MUL"].into_iter().enumerate() {
        let share = f64::from(twice[n]) / f64::from(pairs) * 100.0;
        let format = precision.to_string();
        println!(
            "{name} {format:12} {pairs} pairs, {share:.3} % not the exact value rounded once, largest error {:.4} ulp of float24",
            worst[n]
        );
        // One rounding is off by half a unit or a whole one; the rounding to f32 before it adds
        // 2^-8 at most.
        let limit = if rounding == Rounding::Nearest { 0.5 } else { 1.0 } + 1.0 / 256.0;
        if worst[n] > limit || share > 1.0 {
            return Err(format!("{name}: {share} %, {} ulp", worst[n]).into());
        }
    }
    Ok(())
}

fn main() {
    let mut trials: Vec<Trial> = FUNCTIONS
        .iter()
        .map(|function| Trial::test(format!("accuracy::{}", function.name.to_lowercase()), move || measure(function)))
        .collect();
    for rounding in Rounding::ALL {
        trials
            .push(Trial::test(format!("rounded-twice::{rounding:?}").to_lowercase(), move || rounded_twice(rounding)));
    }
    if stride() > 1 {
        extent::announce(&format!("short form: one argument in {}; PICAJIT_FULL=1 tests all of them", stride()));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
