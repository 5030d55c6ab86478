//! The quality of native code: no needless deoptimisation, guards, loads or additions. Results
//! would be the same, so no comparison of engines shows a regression.

use crate::background::{Background, Priority};
use crate::isa::float24::Rounding;
use crate::isa::numeric::{Precision, same};
use crate::jit::tests::*;
use crate::state::{Vec4, Vertices, VerticesMut};

const NEAREST: Precision = Precision::F24 { rounding: Rounding::Nearest };
const INF: f32 = f32::INFINITY;
/// Subnormal in float24.
const TINY: f32 = f32::from_bits((127 - 63) << 23);
/// 2^63.
const HUGE: f32 = f32::from_bits((127 + 63) << 23);
const ONES: Vec4 = [1.0; 4];

/// Whether a run with these `v0`, `v1`, `r5`, `c0` deoptimises. Checks its outputs, too.
fn deoptimised(body: &str, precision: Precision, [v0, v1, r5, c0]: [Vec4; 4]) -> bool {
    let (program, entry) = program(&format!(".proc main\n{body}\n end\n.end"));
    let config = Config { precision, ..Config::default() };
    let kernel = jit_with(CodeMemory::default).compile_native(&program, entry, &config).expect("small");
    assert!(kernel.speculates, "{body}");
    let (mut uniforms, mut unit) = (Uniforms::new(), Unit::new());
    (unit.v[0], unit.v[1], unit.r[5], uniforms.c[0]) = (v0, v1, r5, c0);
    let mut expected = unit.clone();
    Interp.kernel(&program, entry, &config).run(&uniforms, &mut expected, &mut NoEmitter);
    kernel.run(&uniforms, &mut unit, &mut NoEmitter);
    let pairs = unit.o[0].as_flattened().iter().zip(expected.o[0].as_flattened());
    assert!(pairs.clone().all(|(&a, &b)| same(a, b)), "{body}: {:?}, not {:?}", unit.o[0], expected.o[0]);
    kernel.deoptimisations() == 1
}

/// `x` in one component, 1 in the others.
fn at(component: usize, x: f32) -> Vec4 {
    std::array::from_fn(|c| if c == component { x } else { 1.0 })
}

#[test]
fn only_a_nan_tainted_value_deoptimises() {
    let body = " mul r0, v0, v0\n add o0, v1, r5\n mov o1, r0";
    assert!(!deoptimised(body, Precision::F32, [ONES; 4]));
    assert!(!deoptimised(body, Precision::F32, [ONES, at(2, f32::NAN), at(1, INF), ONES]), "no product in that sum");
    assert!(deoptimised(body, Precision::F32, [at(3, f32::NAN), ONES, ONES, ONES]));
    // A product's guard stands before the operation that swallows NaN. Its result has none.
    let body = " mul r0, c0, v0\n max r1, r0, r5\n add o0, r1, v1\n mov r0, v1\n mov r1, v1";
    assert!(deoptimised(body, Precision::F32, [at(1, INF), ONES, ONES, at(1, 0.0)]));
    assert!(!deoptimised(body, Precision::F32, [ONES, at(0, f32::NAN), ONES, ONES]));
}

#[test]
fn dead_components_have_no_guard() {
    let reads = [
        (" sge o0, r0.xxxx, v1", 0b0001),
        (" sge o0.y, r0, v1", 0b0010),
        (" max o0.xz, r0.yyww, v1", 0b1010),
        (" mova a0.x, r0.zzzz\n mov o0, c0[a0.x]", 0b0100),
        (" mova a0.y, r0.yyyy\n mov o0, c0[a0.y]", 0b0010),
        (" cmp v1.xx, gt, lt, r0.wz\n ifc cmp.x\n mov o0, v1\n .end\n ifc cmp.y\n mov o1, v1\n .end", 0b1100),
        (" cmp r0.yx, gt, lt, v1.xx\n ifc cmp.x\n mov o0, v1\n .end\n ifc cmp.y\n mov o1, v1\n .end", 0b0011),
        (" min o0.x, r0.zzzz, v1\n max o0.y, r0.wwww, v1\n sge o1.x, r0.xyzw, v1", 0b1101),
        (" litp r1, r0\n mov o0.yw, r1\n mov r1, v1", 0b1011),
        (" max o0, v1, r0", 0b1111),
        (" flr o0.z, r0\n max o0.y, r0.yyyy, v1\n slt o1.x, r0.yyyy, v1", 0b0110),
    ];
    for (read, live) in reads {
        let body = format!(" mul r0, c0, v0\n{read}\n mov r0, v1\n mova a0.xy, v1");
        for c in 0..4 {
            let got = deoptimised(&body, Precision::F32, [at(c, INF), ONES, ONES, at(c, 0.0)]);
            assert_eq!(got, live >> c & 1 != 0, "component {c} of{read}");
        }
    }
}

#[test]
fn float24_deoptimises_on_violations_only() {
    for precision in [NEAREST, Precision::F24 { rounding: Rounding::TowardZero }] {
        let add = |v0, v1, r5, c0| {
            let body = " add r0, c0, v0\n add o0.xyz, r0, v1\n add o1.xyz, r0, r5\n mov r0, c1\n mov r5, c1";
            deoptimised(body, precision, [v0, v1, r5, c0])
        };
        assert!(!add(ONES, ONES, ONES, ONES));
        assert!(!add(at(0, 0.1), at(1, -0.0), at(2, 0.0), at(0, -0.0)), "an input is rounded, zeros are common");
        assert!(!add(at(3, f32::NAN), at(3, INF), at(3, TINY), at(3, 0.1)), "w is dead");
        for c in 0..3 {
            for x in [f32::NAN, INF, -INF, TINY, -TINY, HUGE * 2.0] {
                let x = at(c, x);
                assert!(add(x, ONES, ONES, ONES) && add(ONES, x, ONES, ONES), "{x:?} in an input");
                assert!(add(ONES, ONES, x, ONES) && add(ONES, ONES, ONES, x), "{x:?} in a temporary or a uniform");
            }
            let tail = at(c, 0.1);
            assert!(!add(tail, tail, ONES, ONES) && add(ONES, ONES, tail, ONES) && add(ONES, ONES, ONES, tail));
        }
        let relative = |c0| deoptimised(" mova a0.x, v0\n mov o0.x, c0[a0.x]", precision, [[0.0; 4], ONES, ONES, c0]);
        assert!(relative(at(0, 0.1)) && relative(at(0, TINY)) && !relative(at(1, 0.1)) && !relative(ONES));
        let dot = |v0, c0| deoptimised(" dp3 o0.x, c0, v0\n rcp o1, v0.x", precision, [v0, ONES, ONES, c0]);
        assert!(!dot(ONES, ONES) && !dot(at(3, INF), at(3, TINY)), "w is not part of the sum");
        assert!(dot(at(1, HUGE), at(1, 4.0)) && dot(at(2, TINY), ONES));
        let (least, greatest) = (f32::from_bits((127 - 31) << 23), f32::from_bits(0x4E7F_FF80));
        assert!(!dot(at(1, least), at(1, greatest)), "the ends of the band are no violation");
    }
}

/// Occurrences of `what` in the CLIF of a program.
fn count(body: &str, precision: Precision, what: &str) -> usize {
    let (program, entry) = program(&format!(".proc main\n{body}\n end\n.end"));
    let config = Config { precision, ..Config::default() };
    let clif = jit_with(CodeMemory::default).explain(&program, entry, &config).expect("small").clif;
    clif.matches(what).count()
}

#[test]
fn dot_products_of_a_matrix_are_summed_together() {
    let rows = |op: &str, mask: &str| -> String {
        mask.chars().zip(0..).map(|(c, n)| format!(" {op} o0.{c}, c{n}, v0\n")).collect()
    };
    let adds = |op, mask, precision| count(&rows(op, mask), precision, " fadd ");
    // In float24 one more turns -0 into +0.
    assert_eq!((adds("dp4", "xyzw", Precision::F32), adds("dp4", "xyzw", NEAREST)), (3, 4));
    assert_eq!((adds("dp3", "xyz", Precision::F32), adds("dp3", "zyx", NEAREST)), (2, 3));
    assert_eq!((adds("dp4", "wyx", Precision::F32), adds("dp3", "xyzw", Precision::F32)), (3, 2));
    // Two dot products share both additions.
    assert_eq!((adds("dp4", "xy", Precision::F32), adds("dp4", "xy", NEAREST)), (2, 3));
    assert_eq!((adds("dp4", "x", Precision::F32), adds("dp3", "x", NEAREST)), (2, 3));
    // Two pairs of the same products share shuffles. On 64-bit Arm one of them is a blend.
    let shuffles = |mask, precision| count(&rows("dp4", mask), precision, " shuffle ");
    let blend = usize::from(cfg!(target_arch = "x86_64"));
    let few = (6, 4 + blend, 6 + blend);
    assert_eq!((shuffles("xyzw", Precision::F32), shuffles("xy", NEAREST), shuffles("xz", NEAREST)), few);
    // A dot product with another use, or of two components, is not deferred.
    let other = format!("{} dp4 r1, c9, v0\n mov o0.w, r1\n", rows("dp4", "xyz"));
    assert_eq!(count(&other, Precision::F32, " fadd "), 5);
    let twice = format!("{} dp4 o0.zw, c9, v0\n", rows("dp4", "xy"));
    assert_eq!(count(&twice, Precision::F32, " fadd "), 4);
    // DP3 and DP4 of one register are summed separately.
    let mixed = format!("{} dp3 o0.w, c9, v0\n", rows("dp4", "xyz"));
    assert_eq!(count(&mixed, Precision::F32, " fadd "), 5);
}

// 64-bit Arm has the same guards, in other instructions.
#[cfg(target_arch = "x86_64")]
#[test]
fn guards_are_few() {
    let swallowed = |n: usize| " mul r1, r1, v0\n max r2, r1, r2\n".repeat(n);
    let tests = |body: &str| count(body, Precision::F32, " vany_true");
    // One test for the operands of MAX, one for the stored values.
    assert_eq!((tests(&swallowed(1)), tests(&swallowed(32)), tests(&swallowed(33))), (2, 2, 3));
    // One comparison for two vectors, and one guard for several uses.
    let compared = |body: &str| count(body, Precision::F32, " uno ");
    assert_eq!((compared(&swallowed(4)), compared(&swallowed(5))), (2 + 1, 3 + 1));
    assert_eq!(compared(" mul r0, v0, v0\n max o0, r0, v1\n max o1, r0, v0\n min o2, r0, v0"), 1 + 1);
    // Vectors with the same guarded components share a comparison.
    let unlike = " mul r0, v0, v0\n mul r1, c0, v0\n sge o0, r0.x, v0\n sge o1, r1.yyyy, v0\n sge o2, v0, r1.x\n";
    assert_eq!(compared(&format!("{unlike} mov r0, v0\n mov r1, v0")), 2);
    // A sum without a product has no guard.
    assert_eq!(compared(" mul o0, v0, v0\n add r0, v0, v0\n max o1, r0, v0"), 1);
}

#[test]
fn rare_blocks_are_cold() {
    let cold = |body: &str| count(body, Precision::F32, " cold:");
    assert_eq!((cold(" mov o0, v0"), cold(" mul o0, v0, v0")), (0, 1));
    assert_eq!(cold(" for i0\n add r0, v0, r0\n .end"), 2, "the ends of runs without fuel and of cancelled ones");
}

#[test]
fn only_cycles_test_the_cancel_flag() {
    let tests = |body: &str| count(body, Precision::F32, " atomic_load");
    assert_eq!((tests(" ifu b0\n mov o0, v0\n .end"), tests(" for i0\n add r0, v0, r0\n .end")), (0, 1));
}

#[test]
fn loads_are_few_and_small() {
    let loads = |body: &str, ty: &str| count(body, Precision::F32, &format!("load.{ty} "));
    // One component of a uniform is loaded alone.
    assert_eq!((loads(" add o0, c0.y, v0", "f32"), loads(" add o0, c0.y, v0", "f32x4")), (1, 1));
    assert_eq!((loads(" rcp o0, c0.z", "f32"), loads(" rcp o0, c0.z", "f32x4")), (1, 0));
    assert_eq!((loads(" add o0.x, c0.w, v0", "f32"), loads(" add o0, c0.xy, v0", "f32")), (1, 0));
}

#[test]
fn only_large_batches_of_latency_bound_programs_interleave() {
    let wide: String = (1..7).map(|n| format!(" mul o{n}, c{n}, v{n}\n")).collect();
    let wide = format!("{wide} rsq o0, v0.xxxx");
    let long = format!(" mov r1, v0\n{} mov o1, r1\n rsq o0, v0.xxxx", " mul r1.xy, v0, r1\n".repeat(300));
    for (body, interleaves) in [
        (" rsq o0, v0.xxxx", true),
        (" ifu b0\n rcp o0, v0.xxxx\n .else\n mov o0, v0\n .end", true),
        (" dp4 o0, c0, v0\n mul o1, c1, v1", false),
        (" mov r0, v0\n for i0\n rsq r0, r0.xxxx\n .end\n mov o0, r0", false),
        (&*wide, false),
        (&*long, false),
    ] {
        let settings = Settings { batch_threshold: 0, ..Settings::default() };
        let jit = Jit::with(Variant::Batch, settings).expect("native");
        let (program, entry) = program(&format!(".proc main\n{body}\n end\n.end"));
        let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small");
        let compiled_bytes = |count: usize| {
            let before = kernel.native_bytes();
            let (inputs, mut outputs) = (vec![[[2.0; 4]; 16]; count], vec![[[0.0; 4]; 16]; count]);
            let mut batch = Batch {
                inputs: (&inputs).into(),
                outputs: (&mut outputs).into(),
                input_mask: 0xFFFF,
                output_mask: 0xFFFF,
                preserve_unit: false,
            };
            kernel.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch, &mut NoEmitter);
            kernel.native_bytes() - before
        };
        let [four, twelve, eight, sixty_four] = [4, 12, 8, 64].map(compiled_bytes);
        assert!(four > 0 && twelve == 0 && sixty_four == 0, "{body}");
        assert_eq!(eight > 0, interleaves, "{body}");
        // On Windows ten vector registers are callee-saved, and interleaved code uses more of them.
        assert!(cfg!(windows) || eight < 2 * four, "interleaved groups share code: {four} and {eight} bytes of {body}");
    }
}

#[test]
fn code_for_one_group_serves_while_interleaved_code_compiles() {
    let background = Background::new(1);
    let services = HostServices { queue: Some(background.queue().clone()), ..HostServices::default() };
    let settings = Settings { batch_threshold: 0, ..Settings::default() };
    let jit = Jit::hosted(Variant::Batch, settings, services).expect("native");
    let (program, entry) = program(".proc main\n rsq o0, v0.xxxx\n end\n.end");
    let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small");
    let groups_after = |count: usize| {
        let (inputs, mut outputs) = (vec![[[4.0; 4]; 16]; count], vec![[[0.0; 4]; 16]; count]);
        let mut batch = Batch {
            inputs: (&inputs).into(),
            outputs: (&mut outputs).into(),
            input_mask: 0xFFFF,
            output_mask: 1,
            preserve_unit: false,
        };
        kernel.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch, &mut NoEmitter);
        assert!(outputs.iter().all(|o| o[0] == [0.5; 4]));
        kernel.stats().groups
    };
    // Keeps the only thread busy until the sender sends.
    let block = || {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        assert!(background.queue().push(
            Priority::TierUp(&crate::background::Hotness::default()),
            Box::new(move || wait.recv().expect("`go` sends"))
        ));
        go
    };
    let go = block();
    assert_eq!(groups_after(4), 0, "no batch code is published yet");
    go.send(()).expect("the thread receives");
    background.queue().wait();
    let one = kernel.native_bytes();
    let go = block();
    assert_eq!((groups_after(64), kernel.native_bytes()), (16, one));
    go.send(()).expect("the thread receives");
    background.queue().wait();
    assert!(kernel.native_bytes() > one);
    assert_eq!(groups_after(64), 32);
}

#[test]
fn the_first_variant_serves_until_the_second_pays() {
    const THRESHOLD: u32 = 64;
    let settings = Settings { batch_threshold: THRESHOLD, ..Settings::default() };
    let jit = Jit::with(Variant::Batch, settings).expect("native");
    let (program, entry) = program(".proc main\n rsq o0, v0.xxxx\n end\n.end");
    for sizes in [[64, 4], [4, 64]] {
        let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small");
        let run = |count: usize| {
            let (inputs, mut outputs) = (vec![[4.0f32; 4]; count], vec![[0.0; 4]; count]);
            let mut batch = Batch {
                inputs: Vertices::packed(&inputs, 1, count).expect("one register a vertex"),
                outputs: VerticesMut::packed(&mut outputs, 1, count).expect("one register a vertex"),
                input_mask: 1,
                output_mask: 1,
                preserve_unit: true,
            };
            kernel.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch, &mut NoEmitter);
            assert!(outputs.iter().all(|o| *o == [0.5; 4]));
            kernel.native_bytes()
        };
        let alone = kernel.native_bytes();
        let vertices = |size: usize, count: u32| (0..count / size as u32).map(move |_| size);
        let bytes = vertices(sizes[0], 2 * THRESHOLD).map(run).last().expect("several");
        assert!(bytes > alone, "the first variant is compiled");
        assert!(vertices(sizes[1], 12 * THRESHOLD).map(run).all(|b| b == bytes), "it serves");
        let groups = kernel.stats().groups;
        assert_eq!(groups, 13 * THRESHOLD / 4, "all batches after the threshold run as groups");
        assert!(vertices(sizes[1], 8 * THRESHOLD).map(run).last() > Some(bytes), "the second one is compiled");
    }
}

/// A host's flags may be any bytes, and code that does not use them has no instruction for that.
#[test]
fn a_host_layout_costs_no_code() {
    let jit = jit_with(CodeMemory::default);
    for body in [
        " mov o0, v0",
        " dp4 o0.x, c0, v0\n dp4 o0.y, c1, v0\n dp4 o0.z, c2, v0\n dp4 o0.w, c3, v0\n mov o1, v1\n mov o2, v2\n nop",
        " mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n ifc cmp.x && !cmp.y\n mov o0, v0\n .end",
    ] {
        let (program, entry) = program(&format!(".proc main\n{body}\n end\n.end"));
        let bytes = [None, Some(Layout::OWN)].map(|layout| {
            let config = Config { layout, ..Config::default() };
            jit.compile_native(&program, entry, &config).expect("small").native_bytes()
        });
        println!("{bytes:?} bytes: {body}");
        assert_eq!(bytes[0], bytes[1], "{body}");
    }
}
