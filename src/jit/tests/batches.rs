//! Batch code: which batches run as groups, which groups bail out, and that results never differ.

use crate::isa::numeric::same;
use crate::jit::tests::*;
use crate::kernel::NoNextKernel;
use crate::layout::{HostEmitter, HostMemory, Image, Layout, Offsets};
use crate::state::{BatchExit, Vec4, Vertices, VerticesMut};

/// A kernel of `source` whose batch code serves the first vertex already, and the interpreter's.
pub(super) fn kernels(source: &str, config: &Config) -> (NativeKernel, Arc<dyn Kernel>) {
    kernels_with(source, config, Interleave::Off)
}

/// The same with this interleaving.
pub(super) fn kernels_with(source: &str, config: &Config, interleave: Interleave) -> (NativeKernel, Arc<dyn Kernel>) {
    let settings = Settings { batch_threshold: 0, interleave, ..Settings::default() };
    let jit = Jit::with(Variant::Batch, settings).expect("native");
    let (program, entry) = program(source);
    let kernel = jit.compile_native(&program, entry, config).expect("small");
    (kernel, Interp.compile(&program, entry, config).expect("always"))
}

/// The inputs of vertex `n`: no two components are equal.
pub(super) fn numbers(n: usize) -> Registers {
    std::array::from_fn(|r| std::array::from_fn(|c| (n * 7 + r * 5 + c) as f32 * 0.25 - 3.0))
}

/// Compares batches of many sizes with the interpreter, outputs and unit, bit for bit. Returns the
/// number of groups that ran to their end and of those that bailed out.
#[track_caller]
pub(super) fn same_as_interpreter(source: &str, vertex: impl Fn(usize) -> Registers, masks: (u16, u16)) -> (u32, u32) {
    same_with_uniforms(std::array::from_fn(|n| [n as f32, 0.5, -1.0, 2.0]), source, vertex, masks)
}

/// The same with other float uniforms.
#[track_caller]
pub(super) fn same_with_uniforms(
    c: [Vec4; 96],
    source: &str,
    vertex: impl Fn(usize) -> Registers,
    masks: (u16, u16),
) -> (u32, u32) {
    same_in_sizes(&SIZES, c, source, vertex, masks)
}

/// Batch sizes on both sides of each group size, and one with many groups.
const SIZES: [usize; 10] = [1, 2, 3, 4, 5, 7, 8, 9, 17, 64];

/// The same in batches of these sizes.
#[track_caller]
pub(super) fn same_in_sizes(
    sizes: &[usize],
    c: [Vec4; 96],
    source: &str,
    vertex: impl Fn(usize) -> Registers,
    masks: (u16, u16),
) -> (u32, u32) {
    let config = Config { fuel: 120, ..Config::default() };
    let (kernel, interp) = kernels(source, &config);
    // A kernel of its own, because `kernel` counts groups.
    let (preserving, _) = kernels(source, &config);
    let (interleaved, _) = kernels_with(source, &config, Interleave::On);
    let mut uniforms = Uniforms::new();
    uniforms.c = c;
    uniforms.i[0] = [2, 0, 1, 0];
    uniforms.b = 1;
    for &size in sizes {
        let inputs: Vec<Registers> = (0..size).map(&vertex).collect();
        let run = |kernel: &dyn Kernel, preserve_unit: bool| {
            let mut unit = Unit::new();
            unit.r = [[0.75, -0.5, 8.0, 9.0]; 16];
            unit.o = [[[5.0, 6.0, 7.0, 8.0]; 16]; 2];
            unit.bank = 1;
            // Other numbers in each vertex: a copy from a neighbour must show where none is wanted.
            let mut outputs: Vec<Registers> = (0..size).map(|n| [[-9.0 - n as f32; 4]; 16]).collect();
            let mut batch = Batch {
                inputs: (&inputs).into(),
                outputs: (&mut outputs).into(),
                input_mask: masks.0,
                output_mask: masks.1,
                preserve_unit,
            };
            let exit = kernel.run_batch(&uniforms, &mut unit, &mut batch, &mut NoEmitter);
            (exit, outputs, unit)
        };
        for (kernel, preserve_unit) in
            [(&kernel, false), (&preserving, true), (&interleaved, false), (&interleaved, true)]
        {
            let (want, got) = (run(&*interp, preserve_unit), run(kernel, preserve_unit));
            assert_eq!(want.0, got.0, "exit of {size}");
            let bits = |(_, outputs, unit): &(BatchExit, Vec<Registers>, Unit)| -> Vec<f32> {
                let registers = [unit.v, unit.r, unit.o[0], unit.o[1]];
                outputs.iter().chain(&registers).flat_map(|r| r.as_flattened()).copied().collect()
            };
            let (a, b) = (bits(&want), bits(&got));
            let differs = a.iter().zip(&b).position(|(a, b)| !same(*a, *b));
            assert_eq!(differs, None, "float number {differs:?} of a batch of {size}, {preserve_unit}: {source}");
            let rest = |(_, _, u): &(BatchExit, Vec<Registers>, Unit)| (u.a0, u.al, u.cmp, u.bank);
            assert_eq!(rest(&want), rest(&got), "{source}");
            if preserve_unit {
                assert_eq!((got.2.v, got.2.a0, got.2.r[0][0]), ([[0.0; 4]; 16], [0, 0], 0.75), "{source}");
            }
        }
    }
    kernel.groups()
}

/// Groups in batches of all sizes above.
pub(super) const ALL: u32 = 1 + 1 + 1 + 2 + 2 + 4 + 16;
pub(super) const ALL_REGISTERS: (u16, u16) = (0xFFFF, 0xFFFF);

pub(super) fn main(body: &str) -> String {
    format!(".proc main\n{body}\n end\n.end")
}

#[test]
fn every_operation_in_groups() {
    let body = " dp4 r0.x, c1, v0\n dp3 r0.y, c2, v1\n mov r11, v3\n dph r0.zw, r11, v2\n mov r12, v0\n mad r1, v1.wzyx, c3, -r12\n min r2, c4, r1\n
        max r2.yz, r2, -r0\n sge r3, c5, v4\n slt r3.x, r0, r1\n flr r4, r1\n rcp r5.x, v5.x\n rsq r5.y, v5.y\n ex2 r5.z, v0.x\n
        lg2 r5.w, v6.x\n mova a0.xy, v0\n mul r6, c7[a0.x], v0\n mov r7, c8[a0.y]\n litp r8, v1\n dst r9, r1, r0\n add r10, r6, -r7\n
        mov o0, r2\n mov o1, r3\n mov o2, r4\n mov o3, r5\n mov o4, r6\n mov o5, r7\n mov o6, r8\n mov o7, r9\n mov o8.xw, r10";
    // No index is out of range.
    assert_eq!(same_as_interpreter(&main(body), |n| numbers(n % 40), ALL_REGISTERS), (ALL, 0));
}

#[test]
fn outputs_that_are_copies() {
    let body = " mov o0, v1\n mov o1, c3\n mov o2, v1.yxzw\n mov o3.xyz, v2\n mul o4, c1, v2\n mov o5, v2\n mov o6, r5\n mov o7, -v3";
    assert_eq!(same_as_interpreter(&main(body), numbers, ALL_REGISTERS), (ALL, 0));
    assert_eq!(same_as_interpreter(&main(body), numbers, (0xFFFF, 0b10101010)), (ALL, 0));
    // One copy of an input, and no output keeps a component.
    assert_eq!(same_as_interpreter(&main(" mov o0, v1"), numbers, ALL_REGISTERS), (ALL, 0));
}

#[test]
fn uniform_loops_branches_and_indices() {
    let body = " mov r0, c9\n for i0\n add r0, r0, v0\n mul r0, c0[aL], r0\n .end\n ifu b0\n mov o0, r0\n .else\n mov o0, v1\n .end\n
        ifu b1\n mov o1, v2\n .else\n mov o1, -v2\n .end\n mova a0.x, c2.y\n mov o2, c90[a0.x]";
    assert_eq!(same_as_interpreter(&main(body), numbers, ALL_REGISTERS), (ALL, 0));
}

#[test]
fn indices_out_of_range_bail_out() {
    // Several uniforms by one index, which has one guard.
    let body = " mova a0.xy, v0\n add r0, c20[a0.x], v1\n mad r0, v0.x, c24[a0.x], r0\n mov o0, r0\n mul r9, c9[a0.y], r0\n mov o1, r9\n mova a0.x, c6.x\n
        mov o2, c80[a0.x]\n mul o3, c7[a0.x], r0";
    let near = |n| {
        let mut v = numbers(n);
        (v[0][0], v[0][1]) = ((n % 70) as f32 - 9.5, (n % 3) as f32);
        v
    };
    assert_eq!(same_as_interpreter(&main(body), near, ALL_REGISTERS), (ALL, 0));
    // c96 to c127 read ones, c128 is c0 again, and an index outside of -128..=127 counts as 0.
    // c24[72] is c96.
    for (vertex, index) in
        [(0, 72.0), (1, 76.0), (2, 120.0), (3, 128.0), (4, -129.0), (5, -21.0), (6, f32::NAN), (7, 3e9)]
    {
        let far = |n| {
            let mut v = near(n);
            if n == vertex {
                v[0][0] = index;
            }
            v
        };
        let (groups, bailouts) = same_as_interpreter(&main(body), far, ALL_REGISTERS);
        assert_eq!(groups + bailouts, ALL);
        assert!(bailouts > 0, "{index}");
    }
    // A uniform index.
    let ones = " mova a0.y, c6.x\n mov o1, c90[a0.y]";
    let (groups, bailouts) = same_as_interpreter(&main(ones), numbers, ALL_REGISTERS);
    assert_eq!((groups, bailouts), (0, ALL));
    // An index that is also a block's argument has no guard.
    let also = " mova a0.x, v0\n mov r0, v0\n cmp c0.xx, gt, gt, r0.xy\n jmpc cmp.x, over\n mova a0.x, v1\n over:\n mov o0, c90[a0.x]";
    let (groups, bailouts) = same_as_interpreter(&main(also), signs, ALL_REGISTERS);
    assert_eq!(groups + bailouts, ALL);
}

#[test]
fn branches_that_some_groups_find_uniform() {
    let body = " cmp c20.xy, lt, lt, v0.xy\n mov o0, v0\n ifc cmp.x && cmp.y\n mov o0, v1\n .end";
    let alike = |n| if n % 8 < 4 { [[100.0; 4]; 16] } else { numbers(0) };
    assert_eq!(same_as_interpreter(&main(body), alike, ALL_REGISTERS), (ALL, 0));
    // The branch is divergent in the second group of each eight vertices.
    let unlike = |n| if n % 8 < 5 { [[100.0; 4]; 16] } else { numbers(0) };
    assert_eq!(same_as_interpreter(&main(body), unlike, ALL_REGISTERS), (ALL, 0));
}

/// Every combination of four signs in `v0`.
fn signs(n: usize) -> Registers {
    let mut v = numbers(n % 8);
    v[0] = std::array::from_fn(|c| if (n * 7) >> c & 1 == 0 { 1.0 } else { -1.0 });
    v
}

#[test]
fn divergent_branches_are_predicated() {
    let nested = " mov r0, v0
 cmp c0.xx, gt, gt, r0.xy
 mov r1, v1
 mov o2, v2
 ifc cmp.x
 ifc cmp.y
 mul r1.xz, c2, r1
 .else

        add r1, c3, r1
 ifu b0
 mov r1.w, c4
 .end
 .end
 .else
 cmp c0.xx, gt, gt, r0.zw
 ifc cmp.x || cmp.y
 max r1, c5, r1

        mov o2, r1.wzyx
 .end
 .end
 mov o0, r1
 mad o1, r1, c1.y, v3";
    // An empty side, and a jump out of a nested region.
    let jumps = " mov r0, v0
 cmp c0.xx, gt, gt, r0.xy
 mov r1, v1
 jmpc cmp.x, over
 jmpc cmp.y, over
 mov r1, v2
 over:
 mov o0, r1";
    // Addresses and flags that the branch selects.
    let others = " mov r0, v0
 cmp c0.xx, gt, gt, r0.xy
 mova a0.x, v4
 ifc cmp.x
 mova a0.x, v3
 cmp c0.xx, gt, lt, r0.zw
 .else

        mova a0.x, v2
 cmp c0.xx, ge, ne, r0.zw
 .end
 mov o0, c30[a0.x]
 ifc cmp.y
 mov o0.xy, v1
 .end";
    // Both sides reach the same END block.
    let ends = " mov r0, v0\n cmp c0.xx, gt, gt, r0.xy\n mov o0, v1\n ifc cmp.x\n end\n .end\n mov o0, v2";
    for body in [nested, jumps, others, ends] {
        assert_eq!(same_as_interpreter(&main(body), signs, ALL_REGISTERS), (ALL, 0), "{body}");
    }
}

#[test]
fn uniform_vectors_that_a_divergent_branch_selects() {
    // The selected vector is divergent, and so are flags and indices computed from it.
    let head = " mov r0, v0\n cmp c0.xx, gt, gt, r0.xy\n mov r1, c3\n ifc cmp.x\n mov r1, c7\n .end";
    for body in [
        "cmp c5.xx, gt, gt, r1.xx\n mov o0, v1\n ifc cmp.x\n mov o0, v2\n .end",
        "mova a0.x, r1.x\n mov o0, c10[a0.x]",
        "mov o0, v1\n mova a0.x, r1.x\n cmp c5.xx, gt, gt, r1.xx\n ifc cmp.x\n mov o0, c10[a0.x]\n .end",
    ] {
        assert_eq!(same_as_interpreter(&main(&format!("{head}\n {body}")), signs, ALL_REGISTERS), (ALL, 0), "{body}");
    }
}

#[test]
fn divergent_branches_without_a_predicable_region_bail_out() {
    let head = " mov r0, v0\n cmp c0.xx, gt, gt, r0.xy\n mov r1, v1";
    for body in [
        // A loop; two uniform addresses, of which a lane would have to select one.
        "ifc cmp.x\n again:\n add r1, c1, r1\n cmp c9.xx, gt, gt, r1.xx\n jmpc cmp.x, again\n .end\n mov o0, r1",
        "ifc cmp.x\n mova a0.x, c3\n .else\n mova a0.x, c4\n .end\n mov o0, c5[a0.x]",
    ] {
        let (groups, bailouts) = same_as_interpreter(&main(&format!("{head}\n {body}")), signs, ALL_REGISTERS);
        assert_eq!(groups + bailouts, ALL, "{body}");
        assert!(bailouts > 0, "{body}");
    }
}

#[test]
fn bailouts_are_counted_by_reason() {
    let settings = Settings { batch_threshold: 0, count_bailouts: true, ..Settings::default() };
    let jit = Jit::with(Variant::Batch, settings).expect("native");
    for (body, reason) in [
        ("mov o0, c5[a0.x]", None),
        ("ifc cmp.x\n mova a0.x, c3\n .else\n mova a0.x, c4\n .end\n mov o0, c5[a0.x]", Some("a divergent branch")),
        ("mova a0.x, v2\n mov o0, c90[a0.x]", Some("a divergent index")),
    ] {
        let head = " mov r0, v0\n cmp c0.xx, gt, gt, r0.xy\n mova a0.x, c2";
        let (program, entry) = program(&main(&format!("{head}\n {body}")));
        let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small");
        let inputs: Vec<Registers> = (0..64).map(signs).collect();
        let mut outputs = inputs.clone();
        let mut batch = Batch { input_mask: u16::MAX, preserve_unit: true, ..Batch::of(&inputs, &mut outputs) };
        kernel.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch, &mut NoEmitter);
        let stats = kernel.stats();
        assert_eq!(stats.bailouts > 0, reason.is_some(), "{body}");
        let counted: Vec<_> = stats.bailout_reasons.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, reason.map(|reason| (reason, stats.bailouts)).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_tail_that_bails_out_counts() {
    let (kernel, interp) = kernels(&main(" mov r0, v1\n mul r0, v0, r0\n max o0, r0, v2"), &Config::default());
    // The product of 0 and infinity in the fifth vertex.
    let inputs: Vec<Registers> = (0..5)
        .map(|n| {
            let mut v = numbers(n);
            (v[0][2], v[1][2]) = if n == 4 { (0.0, f32::INFINITY) } else { (1.0, 1.0) };
            v
        })
        .collect();
    let run = |kernel: &dyn Kernel| {
        let mut outputs = inputs.clone();
        let mut batch = Batch { input_mask: u16::MAX, preserve_unit: true, ..Batch::of(&inputs, &mut outputs) };
        kernel.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch, &mut NoEmitter);
        outputs.iter().map(|o| o[0].map(f32::to_bits)).collect::<Vec<_>>()
    };
    assert_eq!(run(&kernel), run(&*interp));
    assert_eq!(kernel.groups(), (1, 1));
}

#[test]
fn masks_of_inputs_and_outputs() {
    let body = " mov r0, v1\n add o0, v0, r0\n mov o2.y, v1";
    for masks in [(0xFFFF, 0), (0xFFFF, 0b001), (0b11, 0b100), (0b11, 0b1110)] {
        assert_eq!(same_as_interpreter(&main(body), numbers, masks), (ALL, 0));
    }
    // Inputs outside of the mask come from the unit, which batch code does not read.
    assert_eq!(same_as_interpreter(&main(body), numbers, (0b01, 0xFFFF)), (0, 0));
}

#[test]
fn a_nan_from_a_speculative_product_bails_out() {
    let body = " mov r0, v1\n mul r0, v0, r0\n max o0, r0, v2\n mul o1, r0, v0";
    assert_eq!(same_as_interpreter(&main(body), numbers, ALL_REGISTERS), (ALL, 0));
    let special = |n| {
        let mut v = numbers(n);
        if n == 9 {
            (v[0][2], v[1][2]) = (0.0, f32::INFINITY);
        }
        v
    };
    // In the batches of 17 and of 64.
    assert_eq!(same_as_interpreter(&main(body), special, ALL_REGISTERS), (ALL - 2, 2));
    // A guard can't tell a correct NaN from a wrong one.
    let nan = |n| {
        let mut v = numbers(n);
        v[0][1] = if n == 60 { f32::NAN } else { 1.0 };
        v
    };
    assert_eq!(same_as_interpreter(&main(body), nan, ALL_REGISTERS), (ALL - 1, 1));
}

#[test]
fn groups_that_run_out_of_fuel_or_leave_a_loop_divergently_bail_out() {
    let body = " mov o0, v0\n mov r0, c0\n for i0\n add r0, r0, v1\n .end\n cmp c20.xy, lt, lt, v0.xy\n breakc cmp.x\n mov o1, r0";
    let stray = |n| if n == 10 { [[100.0; 4]; 16] } else { numbers(0) };
    assert_eq!(same_as_interpreter(&main(body), stray, ALL_REGISTERS), (ALL - 2, 2));
    // A loop by a backward jump: vertex 6 takes more than its fuel.
    let jump = " mov r0, v0\n again:\n add r0, c1, r0\n cmp r0.xx, lt, lt, v1.xx\n jmpc cmp.x, again\n mov o0, r0";
    let endless = |n| {
        let mut v = [[1.0; 4]; 16];
        v[1][0] = if n == 6 { 1e9 } else { 5.0 };
        v
    };
    let (groups, bailouts) = same_as_interpreter(&main(jump), endless, ALL_REGISTERS);
    assert_eq!((groups, bailouts), (7, 4), "vertex 6 ends the batches of 8, 9, 17, 64");
}

#[test]
fn a_divergent_branch_in_a_loop_is_predicated_though_its_paths_pay_differently() {
    let body = " mov r0, c0\n for i0\n cmp c1.xy, lt, lt, v0.xy\n ifc cmp.x\n add r0, r0, v1\n add r0, r0, v1\n\
                 add r0, r0, v1\n .end\n add r0, r0, v0\n .end\n mov o0, r0";
    let mixed = |n: usize| {
        let mut v = numbers(n);
        v[0][0] = if n.is_multiple_of(3) { 1e9 } else { -1e9 };
        v
    };
    assert_eq!(same_as_interpreter(&main(body), mixed, ALL_REGISTERS), (ALL, 0));
    // Twice 70 words are more than the fuel: a group in which one vertex takes them bails out, on either side.
    let long = " add r0, r0, v1\n".repeat(70);
    for (yes, no) in [(long.as_str(), " nop\n"), (" nop\n", long.as_str())] {
        let body = format!(
            " mov r0, c0\n for i0\n cmp c1.xy, lt, lt, v0.xy\n ifc cmp.x\n{yes} .else\n{no} .end\n nop\n .end\n mov o0, r0"
        );
        let (groups, bailouts) = same_as_interpreter(&main(&body), mixed, ALL_REGISTERS);
        assert!(bailouts > 0, "{groups} groups, {bailouts} bailouts");
    }
}

#[test]
fn a_run_that_does_not_end_finds_what_the_group_before_left() {
    // It leaves `o0` and `r1` as they are.
    let body = " mov r0, v0\n cmp c20.xy, lt, lt, r0.xy\n breakc cmp.x\n mov r1, v1\n mov o0, r1";
    // The first vertex of the second group, and the tail's only one.
    for stray in [4, 8, 16] {
        let vertex = |n| if n == stray { [[100.0; 4]; 16] } else { numbers(n) };
        let (groups, bailouts) = same_as_interpreter(&main(body), vertex, ALL_REGISTERS);
        assert_eq!(groups + bailouts, ALL);
        assert!(bailouts > 0);
    }
}

#[test]
fn dependent_vertices_run_in_order_with_a_reason() {
    for (body, why) in [
        (" add r0, r0, v0\n mov o0, r0", "r0.xyzw may hold values of an earlier vertex"),
        (
            " mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n ifc cmp.x\n mov r1, v1\n .end\n mov o0, r1",
            "r1.xyzw may hold values of an earlier vertex",
        ),
    ] {
        assert_eq!(same_as_interpreter(&main(body), numbers, ALL_REGISTERS), (0, 0));
        let (kernel, _) = kernels(&main(body), &Config::default());
        let inputs: Vec<Registers> = (0..8).map(numbers).collect();
        let mut outputs = inputs.clone();
        let mut batch = Batch {
            inputs: (&inputs).into(),
            outputs: (&mut outputs).into(),
            input_mask: 0xFFFF,
            output_mask: 0xFFFF,
            preserve_unit: false,
        };
        kernel.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch, &mut NoEmitter);
        assert_eq!(kernel.stats().sequential_reason.as_deref(), Some(why));
    }
}

#[test]
fn a_shader_that_bails_out_often_stops_running_groups() {
    let body = " cmp c20.xy, lt, lt, v0.xy\n mov r0, v0\n ifc cmp.x\n again:\n add r0, c1, r0\n
        cmp c9.xx, gt, gt, r0.xx\n jmpc cmp.x, again\n .end\n mov o0, r0";
    let (kernel, _) = kernels(&main(body), &Config::default());
    let inputs: Vec<Registers> = (0..4096).map(|n| [[if n % 2 == 0 { -100.0 } else { 100.0 }; 4]; 16]).collect();
    let mut outputs = inputs.clone();
    let mut run = || {
        let mut batch = Batch {
            inputs: (&inputs).into(),
            outputs: (&mut outputs).into(),
            input_mask: 0xFFFF,
            output_mask: 0xFFFF,
            preserve_unit: false,
        };
        let uniforms = Uniforms::new();
        kernel.run_batch(&uniforms, &mut Unit::new(), &mut batch, &mut NoEmitter);
        kernel.groups()
    };
    let (groups, bailouts) = run();
    assert_eq!(groups, 0);
    // It stopped within the batch.
    assert_eq!(bailouts, MIN_BAILOUTS);
    assert_eq!(run(), (groups, bailouts));
}

#[test]
fn vertices_may_have_only_the_first_registers() {
    only_the_first_registers(&Config::default());
    // In a host's layout.
    let layout =
        Layout::new(Offsets { geometry: None, ..*Layout::OWN.offsets() }).expect("our own layout without banks");
    only_the_first_registers(&Config { layout: Some(layout), ..Config::default() });
}

fn only_the_first_registers(config: &Config) {
    for groups in [Interleave::Off, Interleave::On] {
        [false, true].into_iter().for_each(|preserve_unit| only_the_first_of(config, groups, preserve_unit));
    }
}

fn only_the_first_of(config: &Config, groups: Interleave, preserve_unit: bool) {
    let source = main(" mul o0, c0, v0\n dp4 o1, c1, v2\n mov o2, v1\n mov r3, v2");
    let (kernel, interp) = kernels_with(&source, config, groups);
    let uniforms = Uniforms { c: [[0.5, 2.0, -1.0, 3.0]; 96], ..Uniforms::new() };
    for (input_stride, output_stride) in [(16, 16), (3, 3), (3, 16), (16, 2), (2, 3), (1, 1), (5, 7)] {
        for (masks, count) in
            [((0xFFFF, 0xFFFF), 9), ((7, 7), 4), ((0b101, 0b010), 12), ((7, 0x8001), 5), ((7, 7), 19), ((1, 0), 8)]
        {
            let inputs: Vec<Vec4> = (0..count * input_stride).map(|n| [n as f32, 1.5, -0.0, 4.0]).collect();
            let run = |kernel: &dyn Kernel| {
                let mut unit = Unit::new();
                unit.v = [[-7.0; 4]; 16];
                let mut outputs = vec![[99.0; 4]; (count + 1) * output_stride];
                let mut batch = Batch {
                    inputs: Vertices::packed(&inputs, input_stride, count).expect("the slice has that length"),
                    outputs: VerticesMut::packed(&mut outputs, output_stride, count + 1)
                        .expect("the slice has that length"),
                    input_mask: masks.0,
                    output_mask: masks.1,
                    preserve_unit,
                };
                let run = |memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter| match kernel.layout() {
                    Some(&layout) => {
                        Image::of(memory, layout, |copy| kernel.run_batch_on(copy, &mut batch, emitter, &NoNextKernel))
                    }
                    None => kernel.run_batch_on(memory, &mut batch, emitter, &NoNextKernel),
                };
                let exit = HostMemory::with_unit(&uniforms, &mut unit, &mut NoEmitter, preserve_unit, run);
                assert_eq!(exit, Exit::End);
                (outputs, unit.v, unit.r, unit.o)
            };
            let (want, got) = (run(&*interp), run(&kernel));
            assert_eq!(want, got, "{input_stride} {output_stride} {masks:?} {count}");
            assert!(want.0[count * output_stride..].iter().all(|v| *v == [99.0; 4]), "memory after the last vertex");
            let present = masks.0 & !(u32::MAX << input_stride) as u16;
            for (n, v) in want.1.iter().enumerate() {
                let taken = present >> n & 1 != 0;
                assert_eq!(*v == [-7.0; 4], !taken || preserve_unit, "v{n} of {input_stride} {masks:?}");
            }
        }
    }
    assert!(kernel.groups().0 > 0);
}
