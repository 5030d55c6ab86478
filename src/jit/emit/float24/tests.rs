//! Violations deoptimise speculative float24 code, and usual numbers do not. The filetests check
//! results; these tests check which code computes them.

use super::*;
use crate::jit::{Interleave, Jit, NativeKernel, Settings, Variant};
use crate::kernel::{Config, Kernel};
use crate::state::{Batch, NoEmitter, Registers, Uniforms, Unit, Vec4};
use std::sync::Arc;

fn kernel(body: &str, rounding: Rounding) -> NativeKernel {
    let source = format!(".proc main\n{body} end\n.end");
    let shbin = crate::text::assemble(&source).expect("a good source").shbin;
    let program = Arc::new(shbin.program().expect("short"));
    let settings = Settings { batch_threshold: 0, interleave: Interleave::Off, ..Settings::default() };
    let jit = Jit::with(Variant::Batch, settings).expect("tests run where there is native code");
    let config = Config { precision: Precision::F24 { rounding }, ..Config::default() };
    jit.compile_native(&program, shbin.dvles[0].entry(), &config).expect("native")
}

/// The number of float24 formats in which `body` deoptimises with these `v0`, `c0` to `c3` and `r0`. Vertices of a batch
/// deoptimise as one alone does, whether they run in groups or, with an `r0`, in order.
fn deoptimised(body: &str, v: Vec4, c: Vec4, r: Vec4) -> u32 {
    let one = |rounding| {
        let kernel = kernel(body, rounding);
        let (mut uniforms, mut unit) = (Uniforms::new(), Unit::new());
        uniforms.c[..4].fill(c);
        (unit.v[0], unit.r[0]) = (v, r);
        kernel.run(&uniforms, &mut unit, &mut NoEmitter);
        let alone = kernel.deoptimisations();
        let inputs: [Registers; 4] = [[v; 16]; 4];
        let mut outputs = inputs;
        (unit.r[0], unit.a0) = (r, [0; 2]);
        run_batch(&kernel, &uniforms, &mut unit, &inputs, &mut outputs);
        assert_eq!(kernel.deoptimisations(), 5 * alone, "{body} {v:?} {c:?}");
        alone
    };
    Rounding::ALL.map(one).into_iter().sum()
}

fn run_batch(
    kernel: &NativeKernel,
    uniforms: &Uniforms,
    unit: &mut Unit,
    inputs: &[Registers; 4],
    outputs: &mut [Registers; 4],
) {
    let (inputs, outputs) = (inputs.into(), outputs.into());
    let mut batch = Batch { inputs, outputs, input_mask: 1, output_mask: 1, preserve_unit: false };
    kernel.run_batch(uniforms, unit, &mut batch, &mut NoEmitter);
}

const PLAIN: Vec4 = [1.5, -2.0, 0.25, 3.0];
const ZEROS: Vec4 = [0.0, -0.0, 0.0, -0.0];
const MATRIX: &str = " dp4 o0.x, c0, v0\n dp4 o0.y, c1, v0\n dp4 o0.z, c2, v0\n dp4 o0.w, c3, v0\n";

#[test]
fn usual_numbers_do_not_deoptimise() {
    // The largest and the smallest number of the band.
    let (largest, smallest) = (f32::from_bits(0x4E7F_FF80), f32::from_bits((127 - 31) << 23));
    for body in [
        MATRIX,
        " mul r1, c0, v0\n mad o0, v0, c0, r1\n dp3 o1, c0, v0\n add o2, c0, v0\n dph o3, c0, v0\n flr o4, v0\n",
        " add r1, r0, v0\n max o0, r1, v0\n sge o1, r1, v0\n mov o2, c0\n dst o3, c0, v0\n litp o4, v0\n",
    ] {
        for v in [PLAIN, ZEROS, [0.1, -1e-3, 12_345.678, 1.0]] {
            for c in [PLAIN, ZEROS] {
                assert_eq!(deoptimised(body, v, c, PLAIN), 0, "{body} {v:?} {c:?}");
            }
        }
    }
    let ends = [largest, -largest, smallest, -smallest];
    assert_eq!(deoptimised(" mul o0, c0, v0\n mul o1, v0, v0\n mul o2, c0, v0.yzwx\n", ends, ends, ZEROS), 0);
    // An infinity without an overflow: LG2 of 0, as in specular highlights.
    let highlight = " max r1, c0, v0\n lg2 r1.x, r1.x\n mul r1.x, c0.y, r1.x\n ex2 o0, r1.x\n";
    assert_eq!(deoptimised(highlight, ZEROS, [0.0, 16.0, 0.0, 0.0], ZEROS), 0);
    // Dead components.
    assert_eq!(deoptimised(" dp3 o0, c0, v0\n", [1.0, 1.0, 1.0, f32::NAN], [1.0, 1.0, 1.0, 0.1], ZEROS), 0);
}

#[test]
fn every_violation_deoptimises() {
    let long = [1.0, 0.1, 1.0, 1.0];
    let subnormal = [1.0, 1.0, SMALLEST / 2.0, 1.0];
    let (above, below) = (f32::from_bits((127 + 30) << 23), f32::from_bits(((127 - 31) << 23) - 128));
    let small = f32::from_bits((127 - 15) << 23);
    // Without a tail, so that only the sum is a violation.
    let nearly_opposite = [-small, small * 0.9375, 0.0, 0.0];
    for (what, body, v, c, r) in [
        ("an input above the band", " mul o0, c0, v0\n", [1.0, above, 1.0, 1.0], PLAIN, ZEROS),
        ("an input below the band", " mul o0, c0, v0\n", [1.0, 1.0, -below, 1.0], PLAIN, ZEROS),
        ("a uniform above the band", " mul o0, c0, v0\n", PLAIN, [1.0, 1.0, 1.0, -above], ZEROS),
        ("a uniform below the band", " mul o0, c0, v0\n", PLAIN, [below, 1.0, 1.0, 1.0], ZEROS),
        ("a product that is a factor", " mul r1, v0, v0\n mul o0, c0, r1\n", [1e5; 4], PLAIN, ZEROS),
        ("the same, below", " mul r1, v0, v0\n mul o0, c0, r1\n", [1e-5; 4], PLAIN, ZEROS),
        ("a dot product that nearly cancels", " dp3 o0, c0, v0\n", [small, small, 0.0, 0.0], nearly_opposite, ZEROS),
        ("a matrix product that nearly cancels", MATRIX, [small, small, 0.0, 0.0], nearly_opposite, ZEROS),
        ("a quotient by 0", " rcp o0, c0.x\n", PLAIN, ZEROS, ZEROS),
        ("a power beyond the band", " ex2 o0, v0.x\n", [30.5, 1.0, 1.0, 1.0], ZEROS, ZEROS),
        ("zero times infinity", " rcp r1, c0.x\n mul o0, c0, r1\n", PLAIN, ZEROS, ZEROS),
        (
            "an overflow besides infinities",
            " lg2 r1, c0\n mul r2, v0, v0\n mul r2, r2, v0\n mul r1, r1, r2\n add o0, v0, r1\n",
            [1e7; 4],
            [2.0; 4],
            ZEROS,
        ),
        ("an input NaN", " mov o0, v0\n", [f32::NAN, 1.0, 1.0, 1.0], ZEROS, ZEROS),
        (
            "a NaN whose rounding would carry",
            " mov o0, v0\n",
            [f32::from_bits(0x7FFF_FFFF), 1.0, 1.0, 1.0],
            ZEROS,
            ZEROS,
        ),
        (
            "an input that rounds up to infinity",
            " mov o0, v0\n",
            [f32::from_bits(0x5F7F_FFC0), 1.0, 1.0, 1.0],
            ZEROS,
            ZEROS,
        ),
        ("a subnormal input", " mov o0, v0\n", subnormal, ZEROS, ZEROS),
        ("a subnormal uniform", " mul o0, c0, v0\n", PLAIN, subnormal, ZEROS),
        ("a uniform with a tail", " mul o0, c0, v0\n", PLAIN, long, ZEROS),
        ("a uniform by address with a tail", " mova a0.x, v0.x\n mov o0, c0[a0.x]\n", ZEROS, long, ZEROS),
        ("a temporary with a tail", " add o0, r0, v0\n", PLAIN, ZEROS, long),
        ("a subnormal temporary", " add o0, r0, v0\n", PLAIN, ZEROS, subnormal),
    ] {
        assert_eq!(deoptimised(body, v, c, r), 2, "{what}");
    }
}

#[test]
fn an_input_that_rounds_to_the_end_of_the_band_is_beyond_it() {
    // The last f32 below 2^30: toward zero it stays in the band.
    let last = f32::from_bits(((127 + 30) << 23) - 1);
    assert_eq!(deoptimised(" mov o0, v0\n", [last; 4], ZEROS, ZEROS), 1);
}

#[test]
fn a_batch_checks_uniforms_until_a_vertex_passes() {
    let kernel = kernel(MATRIX, Rounding::Nearest);
    let mut uniforms = Uniforms::new();
    let mut inputs: [Registers; 4] = [[[1.0; 4]; 16]; 4];
    inputs[0][0] = [f32::NAN; 4];
    let mut outputs = inputs;
    let mut run = |uniforms: &Uniforms| {
        run_batch(&kernel, uniforms, &mut Unit::new(), &inputs, &mut outputs);
        kernel.deoptimisations()
    };
    assert_eq!(run(&uniforms), 1, "only the first vertex has a NaN");
    uniforms.c[0] = [0.1; 4];
    assert_eq!(run(&uniforms), 5, "uniforms with a tail deoptimise every vertex");
    uniforms.narrow(Precision::F24 { rounding: Rounding::Nearest });
    assert_eq!(run(&uniforms), 6);
}

#[test]
fn the_split_rounds_to_nearest_like_the_steps_by_integers() {
    // Each sign, from the smallest normal number to 2^120.
    let (first, end) = (1 << 23, (127 + 120) << 23);
    let step = if crate::testing::full() { 1 } else { 1009 };
    for bits in (first..end).step_by(step).flat_map(|bits: u32| [bits, bits | 1 << 31]) {
        let x = f32::from_bits(bits);
        let g = x * SPLITTER;
        let rounded = (bits + (TAIL_BITS >> 1) + (bits >> TAIL & 1)) & !TAIL_BITS;
        assert_eq!((g - (g - x)).to_bits(), rounded, "{x:e}");
    }
    // Zeros and infinities are no numbers that it rounds; zeros stay all the same.
    for zero in [0.0f32, -0.0] {
        let g = zero * SPLITTER;
        assert_eq!((g - (g - zero)).to_bits(), zero.to_bits());
    }
}
