//! Random float24 numbers at the edges of random bounds: no result is outside of its range. And the
//! decisions for small programs.

use super::*;
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::{Form, Mem};
use crate::isa::float24::Rounding;
use crate::isa::numeric::Precision;
use crate::testing::{full, miri_or};

/// A generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as u64) as i32
    }

    /// Bounds of results. One in four has a grain that is coarser than its least number needs.
    fn range(&mut self) -> Range {
        let low = self.between(LEAST, 20);
        let high = self.between(low + 1, LIMIT);
        let grain = if self.below(4) == 0 { self.between(low - MANTISSA, low) } else { low - MANTISSA };
        Range::new(high, low, grain, false)
    }

    /// A float24 number in a range, often at its edges.
    fn number(&mut self, range: Range) -> f32 {
        let exponent = match self.below(6) {
            0 => return 0.0,
            1 | 2 => range.low,
            3 | 4 => range.high - 1,
            _ => self.between(range.low, range.high - 1),
        };
        let exponent = exponent.clamp(range.low, range.high - 1);
        let mantissa = match self.below(4) {
            0 => 0,
            1 => 0xFFFF,
            2 => 1 << self.below(16),
            _ => self.below(1 << 16) as u32,
        };
        // The lowest bits that the grain excludes.
        let excluded = (range.grain - (exponent - MANTISSA)).clamp(0, MANTISSA) as u32;
        let sign = (self.below(2) as u32) << 31;
        f32::from_bits(sign | ((exponent + 127) as u32) << 23 | (mantissa >> excluded << excluded) << 7)
    }
}

fn power(exponent: i32) -> f64 {
    f64::powi(2.0, exponent)
}

fn holds(range: Range, x: f32) -> bool {
    let x = f64::from(x);
    x == 0.0 || x.abs() < power(range.high) && x.abs() >= power(range.low) && (x / power(range.grain)).fract() == 0.0
}

/// An `f32` rounded to 17 bits: a result before it is flushed and limited.
fn rounded(rounding: Rounding, x: f32) -> f32 {
    // Scaled into the middle of the format, where nothing is flushed or infinite.
    let exponent = (x.to_bits() >> 23 & 0xFF) as i32 - 127;
    let scale = |x: f32, by: i32| (f64::from(x) * power(by)) as f32;
    if x == 0.0 { x } else { scale(rounding.result(scale(x, -exponent)), exponent) }
}

/// Samples of a test.
fn samples() -> usize {
    miri_or(200, if full() { 10_000_000 } else { 100_000 })
}

#[test]
fn random_results_are_in_their_ranges() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for n in 0..samples() {
        let (a, b) = (random.range(), random.range());
        let (x, y) = (random.number(a), random.number(b));
        assert!(holds(a, x) && holds(b, y), "{a:?} {x:e}, {b:?} {y:e}");
        assert!(holds(a.or(b), x) && holds(a.or(b), y));
        for rounding in Rounding::ALL {
            let product = rounded(rounding, x * y);
            assert!(holds(a.product(b), product), "{x:e} * {y:e} = {product:e}: {a:?} {b:?}");
            let sum = rounded(rounding, x + y);
            assert!(holds(a.sum(b), sum), "{x:e} + {y:e} = {sum:e}: {a:?} {b:?}");
            let format = Precision::F24 { rounding };
            // Products and sums that are proved to need no further step are results.
            if a.product(b).low >= LEAST && a.product(b).high <= LIMIT {
                assert_eq!(format.mul(x, y), product, "{x:e} * {y:e}");
            }
            if a.sum(b).low >= LEAST && a.sum(b).high <= LIMIT {
                assert_eq!(format.add(x, y), sum, "{x:e} + {y:e}");
            }
            assert!(holds(a.floor(), format.flr(x)), "floor {x:e}: {a:?}");
            if n % 8 == 0 {
                for op in [ScalarOp::Rcp, ScalarOp::Rsq, ScalarOp::Ex2, ScalarOp::Lg2] {
                    let (range, check) = a.scalar(op);
                    let y = format.scalar(op, x);
                    let passes = !check.high || y.abs() < power(Range::BAND.high) as f32;
                    assert!(
                        !y.is_finite() && (range.special || !passes) || holds(range, y),
                        "{op:?} {x:e} = {y:e}: {a:?}"
                    );
                }
            }
        }
        let check = Check { low: random.below(2) == 0, high: random.below(2) == 0 };
        let band = |x: f32| {
            (!check.low || x == 0.0 || f64::from(x.abs()) >= power(Range::BAND.low))
                && (!check.high || f64::from(x.abs()) < power(Range::BAND.high))
        };
        assert!(!band(x) || holds(a.checked(check), x), "{x:e}: {a:?} {check:?}");
    }
}

/// A dot product that is 0 or in the band has the bits of one whose partial sums are flushed.
#[test]
fn a_checked_dot_product_needs_no_flush_of_its_parts() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut tiny, mut flushed) = (0, 0);
    for _ in 0..samples() {
        // The second of two terms often cancels the first but for the last bits, so that their sum is less than 2^-62.
        let mut terms = [0; 4].map(|_| {
            let scale = *[-62, -60, -46, -40, -31, 0].get(random.below(6) as usize).expect("one of six");
            random.number(Range::new(scale + 1, scale, scale - MANTISSA, false))
        });
        for pair in [0, 2] {
            if random.below(2) == 0 {
                let bits = terms[pair].to_bits() ^ 1 << 31;
                terms[pair + 1] = f32::from_bits(bits ^ (random.below(4) as u32) << 7);
            }
        }
        let terms = terms.map(|x| if x.abs() < SMALLEST { 0.0 } else { x });
        for rounding in Rounding::ALL {
            let format = Precision::F24 { rounding };
            let plain = |x: f32, y: f32| rounded(rounding, x + y);
            let [x, y, z, w] = terms;
            for (checked, exact) in [
                (plain(plain(x, y), plain(z, w)), format.add(format.add(x, y), format.add(z, w))),
                (plain(plain(x, y), z), format.add(format.add(x, y), z)),
            ] {
                if checked == 0.0 || f64::from(checked.abs()) >= power(Range::BAND.low) {
                    assert_eq!(checked, exact, "{terms:?}");
                    tiny += u32::from(plain(x, y) != 0.0 && plain(x, y).abs() < SMALLEST);
                } else {
                    flushed += 1;
                }
            }
        }
    }
    assert!(cfg!(miri) || tiny > 1000 && flushed > 1000, "{tiny} {flushed}");
}

#[test]
fn constants_have_exact_ranges() {
    for (x, high, low, grain) in [(1.0f32, 1, 0, 0), (-1.5, 1, 0, -1), (0.75, 0, -1, -2), (255.0, 8, 7, 0)] {
        let range = Range::of(x.to_bits());
        assert!(holds(range, x) && !range.special);
        assert_eq!((range.high, range.low, range.grain), (high, low, grain), "{x}");
    }
    assert!(Range::of(f32::INFINITY.to_bits()).special && Range::of(f32::NAN.to_bits()).special);
    assert_eq!((Range::of(0), Range::of(1 << 31)), (Range::ZERO, Range::ZERO));
}

/// A program, simplified.
fn simplified(body: &str) -> Func {
    let source = format!(".proc main\n{body} end\n.end");
    let shbin = crate::text::assemble(&source).expect("a good source").shbin;
    let program = shbin.program().expect("short");
    let cfg = Cfg::build(&program, shbin.dvles[0].entry(), Limits::default()).expect("small");
    let mut func = Func::build(&cfg, 1 << 18, Form::Ssa);
    func.simplify(Precision::F24 { rounding: Rounding::Nearest });
    func
}

#[test]
fn a_program_with_a_constant_of_another_format_has_no_ranges() {
    let has_ranges = |constant: f32| {
        let mut func = simplified(" mov o0, v0\n");
        func.value(Node::Const([0, 0, 0, constant.to_bits()]));
        func.ranges(&func.live_from(Vec::new()), &[]).is_some()
    };
    let numbers = [0.0, -1.5, SMALLEST, -SMALLEST, f32::INFINITY, f32::NAN];
    assert!(numbers.into_iter().all(has_ranges));
    // Too many bits; subnormal in float24; subnormal in both.
    let others = [0.1, 1.0 + f32::EPSILON, SMALLEST / 2.0, -SMALLEST / 2.0, f32::from_bits(1 << TAIL)];
    assert!(!others.into_iter().any(has_ranges));
}

/// The steps of a program's results, as printed.
fn steps(body: &str) -> Vec<String> {
    let func = simplified(body);
    let insts = func.blocks.iter().flat_map(|block| &block.insts);
    let outputs = insts.filter_map(|(_, inst)| match *inst {
        Inst::Store(Mem::Out { .. }, value) => Some((value, XYZW)),
        _ => None,
    });
    let outputs: Vec<_> = outputs.collect();
    let ranges = func.ranges(&func.live_from(outputs.clone()), &outputs).expect("real");
    let lines = ranges.to_string();
    lines.lines().map(|line| line.split_once(": ").expect("a value and its steps").1.to_owned()).collect()
}

#[test]
fn one_product_of_the_band_needs_rounding_only() {
    assert_eq!(steps(" mul o0, c0, v0\n"), ["+0 for -0 in xyzw"]);
    // What no store shows needs no canonical zero, and numbers that are copied no step at all.
    assert_eq!(steps(" mul r0, c0, v0\n sge o0, r0, v0\n mov o1, c1\n max o2, c1, v1\n"), [""; 0]);
}

#[test]
fn a_product_of_a_product_checks_it() {
    let [first, second] = &steps(" mul r0.x, c0, v0\n mul o0, c1, r0.x\n")[..] else { panic!("two products") };
    assert_eq!(first, "at least 2^-31 or 0 in x, below 2^30 in x");
    assert_eq!(second, "+0 for -0 in xyzw");
    // Through merges, moves and negations; only the component that is read.
    let moved = steps(" mul r0, c0, v0\n mov r1.xz, -r0.yyww\n mul o0.x, c1, r1.z\n mov o0.yzw, v0\n");
    assert_eq!(moved[0], "at least 2^-31 or 0 in w, below 2^30 in w");
}

#[test]
fn dot_products_are_checked_in_place_of_a_flush() {
    assert_eq!(steps(" dp4 o0.x, c0, v0\n mov o0.yzw, v0\n"), ["at least 2^-31 or 0 in x, +0 for -0 in x"]);
    let of_sums = steps(" add r0, c0, v0\n dp3 o0.x, r0, r0\n mov o0.yzw, v0\n");
    assert_eq!(of_sums[0], "at least 2^-31 or 0 in xyz, below 2^30 in xyz");
    assert_eq!(of_sums[1], "at least 2^-31 or 0 in x, +0 for -0 in x");
}

#[test]
fn infinities_are_steps_of_all_that_depends_on_them() {
    let highlight = steps(" lg2 r0, v0\n mul r0, c0, r0\n ex2 r0, r0.x\n mul o0, c1, r0\n");
    assert_eq!(highlight[0], "limit products of x, may be infinite in x");
    assert_eq!(highlight[1], "below 2^30 in xyzw");
    assert_eq!(highlight[2], "flush products of xyzw");
    // A quotient that is infinite is none that a program goes on with.
    let quotient = steps(" rcp r0, v0\n mul o0, c1, r0\n");
    assert_eq!(quotient, ["at least 2^-31 or 0 in xyzw, below 2^30 in xyzw", "+0 for -0 in xyzw"]);
}

/// A logarithm may be infinite, so the greater of it and another number may be.
#[test]
fn either_source_may_be_the_greater_one() {
    let last = |sources: &str| {
        let steps = steps(&format!(" lg2 r1, v0\n mov r2, v2\n max r0, {sources}\n mul o0, c1, r0\n mov o1, r1\n"));
        steps.last().expect("a product").clone()
    };
    assert_eq!(last("v1, r1"), last("r1, v1"));
    assert_ne!(last("v1, r1"), last("v1, r2"));
}

#[test]
fn a_loop_widens_and_checks_its_parameter() {
    let body = " mov r0, v0\n for i0\n mul r0, c0, r0\n .end\n mov o0, r0\n";
    let steps = steps(body);
    assert!(steps.iter().any(|step| step.starts_with("at least 2^-31 or 0 in xyzw, below 2^30")), "{steps:?}");
    assert!(!steps.iter().any(|step| step.contains("flush")), "{steps:?}");
}
