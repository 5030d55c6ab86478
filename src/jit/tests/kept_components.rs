//! Batches in which a branch decides what is written: outputs and registers that some vertices
//! keep, bit for bit those of vertices in order.

use super::batches::{ALL, ALL_REGISTERS, kernels, main, numbers, same_in_sizes, same_with_uniforms};
use crate::isa::numeric::Precision;
use crate::jit::tests::*;
use crate::state::Vec4;

fn uniforms() -> [Vec4; 96] {
    std::array::from_fn(|n| [n as f32, 0.5, -1.0, 2.0])
}

/// Flags that tell in which of two sets a vertex is: `cmp.x` and `cmp.y` hold if `v15.x` and
/// `v15.y` are 1.
const FLAGS: &str = " mov r15, v15\n cmp c1.xx, eq, eq, r15.xy\n mov o0, v0\n";

/// Numbers, and the sets of the vertex.
fn vertex(sets: impl Fn(usize) -> [bool; 2]) -> impl Fn(usize) -> Registers {
    move |n| {
        let mut v = numbers(n);
        v[15] = [0.0; 4];
        (v[15][0], v[15][1]) = (f32::from(sets(n)[0]), f32::from(sets(n)[1]));
        v
    }
}

/// Sets of all kinds: empty, full, one vertex, alternating, and irregular.
fn sets() -> Vec<Box<dyn Fn(usize) -> [bool; 2]>> {
    let mut sets: Vec<Box<dyn Fn(usize) -> [bool; 2]>> = vec![
        Box::new(|_| [false, false]),
        Box::new(|_| [true, false]),
        Box::new(|_| [true, true]),
        Box::new(|n| [n == 0, n == 1]),
        Box::new(|n| [n % 2 == 0, n % 2 == 1]),
        Box::new(|n| [n < 4, n % 8 >= 4]),
        Box::new(|n| [n % 4 == 3, n % 3 == 0]),
    ];
    for last in [2, 3, 4, 6, 7, 8, 15, 16, 62, 63] {
        sets.push(Box::new(move |n| [n == last, n + 1 == last]));
    }
    for factor in [0x9E37_79B1_usize, 0x85EB_CA6B, 0xC2B2_AE35] {
        sets.push(Box::new(move |n| {
            let hash = (n + 1).wrapping_mul(factor) >> 7;
            [hash % 5 < 2, hash / 5 % 7 == 0]
        }));
    }
    sets
}

/// Bodies after [`FLAGS`], and the sets of components that their vertices keep.
const BODIES: [(&str, usize); 9] = [
    // Temporaries, an address register, and part of an output.
    (" ifc cmp.x\n mov r3, v1\n mova a0.y, v2\n .end", 1),
    (" ifc cmp.x\n mov o1.yz, v1\n .end", 1),
    (" mov o1.x, v2\n ifc cmp.x\n mov o1.yz, v1\n mov r3.w, v1\n .else\n mov o2, v3\n mov o1.z, v4\n .end", 2),
    // Two branches in sequence, and one in another.
    (" ifc cmp.x\n mov o1, v1\n .end\n ifc cmp.y\n mov o1.w, v2\n mov o2, v2\n .end", 3),
    (" ifc cmp.x\n mov o1, v1\n ifc cmp.y\n mov o2, v2\n mov r3, v2\n .end\n .else\n mov r3.x, v3\n .end", 3),
    // Flags, of which the first branch changes one that the second one tests.
    (
        " ifc cmp.y\n mov o3, v3\n .end\n ifc cmp.x\n cmp c1.xx, eq, ne, r15.yx\n mov r3, v1\n .end\n ifc cmp.y\n mov o1, v1\n .end",
        3,
    ),
    // A jump, and a procedure.
    (" jmpc !cmp.x, over\n mov o1, v1\n mov r4, v5\n over:\n mov o2, v2", 1),
    // Uniforms decide about r5 for all vertices.
    (" ifu b0\n mov r5, v1\n .end\n ifc cmp.x\n ifu b0\n mov o1.y, v1\n .else\n mov o1.x, v1\n .end\n .end", 2),
    // Computed values, from which a merge takes some components.
    (" mul r1, c3, v1\n mov r2, v2\n ifc cmp.x\n add r1.xz, r1, r2\n mul o1.xw, c4, v2\n .end\n mov o3, r1", 1),
];

fn masks(source: &str) -> usize {
    let jit = Jit::new(Variant::Batch).expect("native");
    let (program, entry) = program(source);
    jit.explain(&program, entry, &Config::default()).expect("independent").batch.expect("batch code").kept
}

#[test]
fn vertices_keep_what_the_last_writer_left() {
    for (body, kept) in BODIES {
        let source = main(&format!("{FLAGS}{body}"));
        assert_eq!(masks(&source), kept, "{body}");
        for (n, sets) in sets().iter().enumerate() {
            let outputs = [0xFFFF, 0xFFFF, 0b0010, 0b1101][n % 4];
            let got = same_with_uniforms(uniforms(), &source, vertex(sets), (0xFFFF, outputs));
            assert_eq!(got, (ALL, 0), "{body}");
        }
    }
}

/// A product of 0 and infinity, in vertices that `v14.x` selects: their groups bail out.
const GUARD: &str = " mov r14, v14\n mul r13, c2.x, r14\n max r12.x, c0.x, r13.x\n mov o4, r12\n";

#[test]
fn a_bailout_finds_the_unit_as_the_last_writers_left_it() {
    for (body, _) in BODIES {
        let source = main(&format!("{FLAGS}{body}\n{GUARD}")).replace("c2.x, r14", "c0.x, r14");
        for (n, sets) in sets().iter().enumerate() {
            let fails = [3, 5, 9, 16, 40][n % 5];
            let vertex = |n| {
                let mut v = vertex(sets)(n);
                v[14] = [if n == fails { f32::INFINITY } else { 1.0 }; 4];
                v
            };
            let (groups, bailouts) = same_with_uniforms(uniforms(), &source, vertex, ALL_REGISTERS);
            assert!(bailouts > 0 && groups > 0 && groups + bailouts == ALL, "{body}");
        }
    }
}

#[test]
fn a_run_without_end_carries_what_it_writes() {
    // A BREAK outside a loop, after writes that the others do not make.
    let body = " ifc cmp.x\n mov o1.xy, v1\n mov r3, v1\n .end\n ifc cmp.y\n mov o1.zw, v2\n mov o2, v2\n mov r4, v2\n breakc cmp.y\n .end\n mov o3, v3";
    let source = main(&format!("{FLAGS}{body}"));
    for sets in sets() {
        let (groups, bailouts) = same_with_uniforms(uniforms(), &source, vertex(&sets), ALL_REGISTERS);
        assert_eq!(groups + bailouts, ALL);
    }
}

#[test]
fn batches_that_need_several_calls() {
    // One mask: 4,096 vertices a call. Three: 1,360.
    for (body, kept) in [BODIES[1], BODIES[3]] {
        let source = main(&format!("{FLAGS}{body}"));
        assert_eq!(masks(&source), kept);
        let sizes = match kept {
            1 => [4095, 4096, 4097, 4098, 4100, 4103],
            _ => [1360, 1361, 1363, 1364, 2720, 2722],
        };
        for writer in [0, 5, 1355, 1359, 1360, 4094, 4096, usize::MAX] {
            let sets = |n: usize| [n == writer, n % 1000 == 3];
            let (_, bailouts) = same_in_sizes(&sizes, uniforms(), &source, vertex(sets), ALL_REGISTERS);
            assert_eq!(bailouts, 0, "{body}");
        }
    }
}

#[test]
fn many_masks_run_in_groups_and_more_run_in_order() {
    let branches = |count: usize| -> String {
        let one = |n: usize| format!(" cmp c{n}.xx, gt, lt, r15.zw\n ifc cmp.x\n mov r{n}, v1\n .end\n");
        (1..=count).map(one).collect()
    };
    // Each branch keeps its own register; eight more are outputs.
    let outputs = |count: usize| branches(count).replace("mov r", "mov o");
    let source = |count: usize| main(&format!("{FLAGS}{}{}", branches(12), outputs(count)));
    let vertex = |n: usize| {
        let mut v = vertex(|_| [false; 2])(n);
        (v[15][2], v[15][3]) = ((n * 5 % 14) as f32, (n * 3 % 14) as f32);
        v
    };
    assert_eq!(masks(&source(4)), 16);
    assert_eq!(same_with_uniforms(uniforms(), &source(4), vertex, ALL_REGISTERS), (ALL, 0));
    assert_eq!(same_with_uniforms(uniforms(), &source(5), vertex, ALL_REGISTERS), (0, 0));
    let jit = Jit::new(Variant::Batch).expect("native");
    let (program, entry) = program(&source(5));
    let reason = jit.explain(&program, entry, &Config::default()).expect_err("17 masks");
    assert_eq!(
        (&reason, reason.to_string().as_str()),
        (&NoBatchCode::TooManyPaths, "vertices keep registers on too many different paths")
    );
}

#[test]
fn two_vertices_that_preserve_the_unit_keep_the_outputs_of_the_first() {
    let source = main(&format!("{FLAGS} ifc cmp.x\n mov o1, v1\n .end"));
    let (kernel, interp) = kernels(&source, &Config { precision: Precision::F32, ..Config::default() });
    let inputs: Vec<Registers> = (0..2).map(vertex(|n| [n == 0, false])).collect();
    let run = |kernel: &dyn Kernel| {
        let mut outputs = [[[0.0; 4]; 16]; 2];
        let mut batch = Batch {
            inputs: (&inputs).into(),
            outputs: (&mut outputs).into(),
            input_mask: 0xFFFF,
            output_mask: 0xFFFF,
            preserve_unit: true,
        };
        let mut uniforms = Uniforms::new();
        uniforms.c = self::uniforms();
        kernel.run_batch(&uniforms, &mut Unit::new(), &mut batch, &mut NoEmitter);
        outputs
    };
    assert_eq!(run(&kernel), run(&*interp));
    assert_eq!(run(&kernel)[1][1], inputs[0][1]);
}
