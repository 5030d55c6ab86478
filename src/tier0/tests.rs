mod independence;

use super::arith::{F24, F32, Format, Lanes, compare, litp_y, pointwise, positive};
use super::*;
use crate::isa::float24::{Rounding, TAIL, is_subnormal};
use crate::isa::numeric::same;
use crate::isa::{DotOp, PointwiseOp, Relation, ScalarOp, Stage, VectorOp};
use crate::kernel::default_fuel;
use crate::state::{NoEmitter, Uniforms, Unit, Vec4};
use crate::text::assemble;
use fearless_simd::prelude::*;

const DOTS: [DotOp; 3] = [DotOp::Dp3, DotOp::Dp4, DotOp::Dph];
const SCALARS: [ScalarOp; 4] = [ScalarOp::Rcp, ScalarOp::Rsq, ScalarOp::Ex2, ScalarOp::Lg2];
const RELATIONS: [Relation; 6] = [Relation::Eq, Relation::Ne, Relation::Lt, Relation::Le, Relation::Gt, Relation::Ge];

fn values() -> Vec<f32> {
    let mut values = vec![0.0, 1.0, 1.5, 0.3, 127.996, 128.0, 300.0, 1e-39, 1e-20, 8.4e18, 1.9e19, 3e38, f32::INFINITY];
    values.extend([f32::from_bits((127 - 62) << 23), f32::from_bits(0x3F80_0040), f32::from_bits(0x3F80_003F)]);
    values.extend(values.clone().into_iter().map(|x| -x));
    values.extend([f32::NAN, -f32::NAN, f32::from_bits(0x7F80_0001), f32::from_bits(0xFF80_0001)]);
    values
}

/// All operations on one triple of vectors, compared with `numeric` lane by lane.
struct Check<F> {
    format: F,
    precision: Precision,
    /// Lane n of source k is `values[(n * stride[k] + shift[k]) % len]`.
    values: Vec<f32>,
}

impl<F: Format> Work for Check<F> {
    type Result = Exit;

    #[inline(always)]
    fn run<S: Simd, V: Lanes<S>>(self, simd: S) -> Exit {
        let Check { format, precision: p, values } = self;
        let len = values.len();
        let vector = |first: usize| V::from_fn(simd, |n| values[(first + n) % len]);
        for i in 0..len {
            for j in 0..len {
                let (a, b, c) = (vector(i), vector(j), vector(i * 7 + j));
                for n in 0..V::LEN {
                    let (x, y, z) = (a[n], b[n], c[n]);
                    let expect = |what: &str, got: f32, want: f32| {
                        assert!(same(got, want), "{what} in {p}: {x:?} {y:?} {z:?} gives {got:?}, not {want:?}");
                    };
                    for &op in PointwiseOp::ALL {
                        let want = p.vector(VectorOp::Pointwise(op), [[x; 4], [y; 4], [z; 4]])[0];
                        expect(&format!("{op:?}"), pointwise(format, op, a, b, c)[n], want);
                    }
                    for op in DOTS {
                        let got = format.dot(op, [a, b, c, b], [b, c, a, a])[n];
                        expect(&format!("{op:?}"), got, p.dot(op, [x, y, z, y], [y, z, x, x]));
                    }
                    for relation in RELATIONS {
                        let got = compare::<S, V>(relation, a, b).to_bitmask() >> n & 1 != 0;
                        assert_eq!(got, p.compare(relation, x, y), "{relation:?} {x:?} {y:?}");
                    }
                    if j == 0 {
                        for op in SCALARS {
                            expect(&format!("{op:?}"), format.scalar(op, a)[n], p.scalar(op, x));
                        }
                        expect("the x of LITP", positive(a)[n], p.max(x, 0.0));
                        expect("the y of LITP", litp_y(a)[n], p.litp_y(x));
                        assert_eq!(a.to_int_precise::<V::Int>()[n], p.to_address(x), "MOVA of {x:?}");
                    }
                }
            }
        }
        Exit::End
    }
}

#[test]
fn vectors_compute_the_bits_of_scalars_on_every_cpu_level() {
    for level in [Level::new(), Level::baseline()] {
        for precision in Precision::ALL {
            // A float24 program never sees anything else, but for temporaries that a host sets.
            let mut values = values();
            if cfg!(miri) {
                values.truncate(4);
            }
            values.iter_mut().for_each(|x| *x = precision.operand(*x));
            match precision {
                Precision::F32 => at_level(level, Check { format: F32, precision, values }),
                Precision::F24 { rounding } => {
                    let normal: Vec<f32> = values.iter().copied().filter(|&x| !is_subnormal(x)).collect();
                    let format = F24::new(rounding);
                    at_level(level, Check { format, precision, values });
                    at_level(level, Check { format: format.assuming_normal(true), precision, values: normal })
                }
            };
        }
    }
}

/// The scalar operations on each `step`th float24 number.
struct Scalars {
    rounding: Rounding,
    step: usize,
}

impl Work for Scalars {
    type Result = Exit;

    #[inline(always)]
    fn run<S: Simd, V: Lanes<S>>(self, simd: S) -> Exit {
        let (format, precision) = (F24::new(self.rounding), Precision::F24 { rounding: self.rounding });
        for first in (0..=u32::MAX).step_by(self.step * (V::LEN << TAIL)) {
            let a = V::from_fn(simd, |n| precision.operand(f32::from_bits(first + ((n as u32) << TAIL))));
            for op in SCALARS {
                let (any, normal) = (format.scalar(op, a), format.assuming_normal(true).scalar(op, a));
                for n in 0..V::LEN {
                    let want = precision.scalar(op, a[n]);
                    assert!(same(any[n], want) && same(normal[n], want), "{op:?} of {:e} in {precision}", a[n]);
                }
            }
        }
        Exit::End
    }
}

/// All of them with `PICAJIT_FULL=1`.
#[test]
fn scalar_operations_are_exact_for_float24_arguments() {
    let step = crate::testing::miri_or(100_003, if crate::testing::full() { 1 } else { 211 });
    for level in [Level::new(), Level::baseline()] {
        for rounding in Rounding::ALL {
            at_level(level, Scalars { rounding, step });
        }
    }
}

fn kernel(source: &str, fuel: u32) -> Tier0Kernel {
    let shbin = assemble(source).expect("a good source").shbin;
    let (program, entry) = (shbin.program().expect("short"), shbin.dvles[0].entry());
    Tier0::default().kernel_of_entry(&program, entry, &Config { fuel, ..Config::default() })
}

/// Runs `count` vertices; v0 of vertex n is (n, n, n, n).
fn outputs(kernel: &Tier0Kernel, unit: &mut Unit, count: usize, preserve_unit: bool) -> (Vec<Vec4>, Exit) {
    let inputs: Vec<_> = (0..count).map(|n| [[n as f32; 4]; 16]).collect();
    let mut outputs = vec![[[-1.0; 4]; 16]; count];
    let mut batch = Batch {
        inputs: (&inputs).into(),
        outputs: (&mut outputs).into(),
        input_mask: 1,
        output_mask: 1,
        preserve_unit,
    };
    let exit = kernel.run_batch(&Uniforms::new(), unit, &mut batch, &mut NoEmitter);
    (outputs.iter().map(|o| o[0]).collect(), exit.exit)
}

/// A vertex stores its number only from 3 on, and only to x.
const KEEPS: &str = ".constf three(3, 3, 3, 3)
.in a v0
.out o0 position
.proc main
 mov o0.yzw, three
 cmp three, le, le, a
 ifc cmp.x
  mov o0.x, a.x
 .end
 end
.end";

#[test]
fn outputs_that_a_vertex_keeps_are_those_of_the_vertex_before() {
    let kernel = kernel(KEEPS, default_fuel(Stage::Vertex));
    let mut uniforms = Uniforms::new();
    let shbin = assemble(KEEPS).expect("a good source").shbin;
    shbin.dvles[0].apply_constants(&mut uniforms);
    for preserve_unit in [false, true] {
        let inputs: Vec<_> = (0..200).map(|n| [[(n % 7) as f32; 4]; 16]).collect();
        let mut outputs = vec![[[-1.0; 4]; 16]; 200];
        let mut unit = Unit::new();
        unit.o[0][0][0] = 99.0;
        let mut batch = Batch {
            inputs: (&inputs).into(),
            outputs: (&mut outputs).into(),
            input_mask: 1,
            output_mask: 1,
            preserve_unit,
        };
        assert_eq!(kernel.run_batch(&uniforms, &mut unit, &mut batch, &mut NoEmitter), Exit::End);
        let mut last = 99.0;
        for (n, output) in outputs.iter().enumerate() {
            if n % 7 >= 3 {
                last = (n % 7) as f32;
            }
            assert_eq!(output[0], [last, 3.0, 3.0, 3.0], "vertex {n}");
        }
        assert_eq!(unit.o[0][0][0], if preserve_unit { 99.0 } else { last });
    }
    assert_eq!(kernel.stats(), KernelStats { groups: 8, ..KernelStats::default() });
}

#[test]
fn a_group_that_may_lack_fuel_bails_out_and_its_vertices_run_alone() {
    let source = ".in a v0\n.out o0 position\n.proc main\n mov o0, a\n for i0\n  add o0.x, a.x, a.x\n .end\n end\n.end";
    let mut unit = Unit::new();
    let enough = kernel(source, default_fuel(Stage::Vertex));
    let (want, exit) = outputs(&enough, &mut unit, 100, true);
    assert_eq!((exit, want[99], enough.stats().groups), (Exit::End, [198.0, 99.0, 99.0, 99.0], 2));
    let jumps = ".in a v0\n.out o0 position\n.alias k b0\n.proc main\nagain:\n mov r0, a\n mov o0, a\n jmpu !k, again\n end\n.end";
    let endless = kernel(jumps, 5);
    for preserve_unit in [true, false] {
        unit.r[0] = [5.0; 4];
        let before = endless.stats().bailouts;
        let (got, exit) = outputs(&endless, &mut unit, 100, preserve_unit);
        // The first vertex runs out of fuel, and ends the batch.
        assert_eq!((exit, endless.stats().bailouts - before), (Exit::Fuel, 1));
        assert_eq!((got[0], got[1]), ([0.0; 4], [-1.0; 4]));
        assert_eq!(unit.o[0][0], [0.0; 4]);
        assert_eq!(unit.r[0], [if preserve_unit { 5.0 } else { 0.0 }; 4]);
    }
}

/// A program with more states than a graph has runs word by word, and each word takes fuel.
#[test]
fn words_without_a_graph_take_fuel() {
    let calls = |to: &str| format!("call {to}\n").repeat(24);
    let source = format!(
        ".proc main\n mov r0, c1\n ifu b0\n call a\n .end\n for i0\n add r0.x, c0, r0\n .end\n mov o0, r0\n end\n.end\n\
         .proc a\n {}.end\n.proc b\n {}.end\n.proc c\n {}.end\n.proc d\n nop\n.end\n",
        calls("b"),
        calls("c"),
        calls("d")
    );
    let mut uniforms = Uniforms::new();
    (uniforms.c[0], uniforms.i[0]) = ([1.0; 4], [2, 0, 1, 0]);
    // A MOV, an IFU, a LOOP, and two of three rounds of an addition before the last backward transfer.
    for (fuel, exit, sum) in [(5, Exit::End, 3.0), (4, Exit::Fuel, 2.0)] {
        let kernel = kernel(&source, fuel);
        assert!(kernel.code.blocks().is_none());
        let mut unit = Unit::new();
        assert_eq!(kernel.run(&uniforms, &mut unit, &mut NoEmitter), exit, "{fuel} words");
        assert_eq!(unit.r[0][0], sum);
    }
}

/// Vertex n runs n rounds of a loop, so a vertex of the second group is the first without fuel.
#[test]
fn groups_end_with_the_vertex_that_runs_out_of_fuel() {
    // o0.x is kept by all but every tenth vertex, and three words pay for a round.
    let source = "mov r0, c0\n mov r1.x, v0.y\n again:\n add r0.x, c1.x, r0.x\n cmp r0.x, lt, lt, r1.x\n \
        jmpc cmp.x, again\n mov o0.yzw, v0\n cmp c1.x, eq, eq, v0.z\n ifc cmp.x\n mov o0.x, v0.y\n .end\n \
        mov o1, r0";
    let source = format!(".proc main\n {source}\n end\n.end");
    let inputs: Vec<[Vec4; 16]> =
        (0..132).map(|n| [[0.0, n as f32, if n % 10 == 7 { 1.0 } else { 0.0 }, 3.0]; 16]).collect();
    let mut uniforms = Uniforms::new();
    uniforms.c = std::array::from_fn(|n| [n as f32; 4]);
    let shbin = assemble(&source).expect("a good source").shbin;
    let (program, entry) = (Arc::new(shbin.program().expect("short")), shbin.dvles[0].entry());
    for (fuel, preserve_unit) in (200..300).flat_map(|fuel| [(fuel, false), (fuel, true)]) {
        let config = Config { fuel, ..Config::default() };
        let oracle = crate::interp::Interp.compile(&program, entry, &config).expect("always");
        let tested = kernel(&source, fuel);
        let run = |kernel: &dyn Kernel| {
            let mut unit = Unit::new();
            unit.o[0][0] = [99.0; 4];
            let mut outputs = vec![[[-1.0; 4]; 16]; inputs.len()];
            let mut batch = Batch {
                inputs: (&inputs).into(),
                outputs: (&mut outputs).into(),
                input_mask: 1,
                output_mask: 0b11,
                preserve_unit,
            };
            let ended = kernel.run_batch(&uniforms, &mut unit, &mut batch, &mut NoEmitter);
            (ended, outputs, unit.r, unit.o, unit.cmp)
        };
        let (want, got) = (run(&*oracle), run(&tested));
        assert!(want == got, "{fuel}, {preserve_unit}: {:?} {:?}", want.0, got.0);
        assert_eq!((tested.stats().groups, tested.stats().bailouts), (1, 1), "the second group bails out");
    }
}

#[test]
fn decoded_code_stays_in_proportion_to_the_words() {
    // 31 calls of a procedure: without the limit, its operations would be listed 31 times.
    let calls = " call f\n".repeat(31);
    let body = " add r0, r0, v0\n jmpu b0, next\n".replace("next", "l");
    let sources = [
        format!(".proc main\n{calls} end\n.end\n.proc f\n{}.end", " add r0, r0, v0\n".repeat(250)),
        format!(".proc main\n{calls} end\n.end\n.proc f\n{body}l:\n mov r1, r0\n.end"),
        ".proc main\n end\n.end".to_owned(),
    ];
    for source in sources {
        let shbin = assemble(&source).expect("a good source").shbin;
        let words = shbin.program().expect("short").code().len();
        let bytes = kernel(&source, default_fuel(Stage::Vertex)).code.bytes() - size_of::<Code>();
        assert!(bytes <= 64 * 4 * words.max(16), "{bytes} bytes for {words} words");
    }
}

// The targets without threads have one stack of a fixed size.
#[cfg(not(target_family = "wasm"))]
#[test]
#[cfg_attr(miri, ignore = "Miri's own frames are not those of the machine")]
fn decoding_and_runs_of_any_kind_fit_in_64_kib_of_stack() {
    // Groups with each kind of operation, divergent loops and addresses, and vertices in order.
    let groups = ".in a v0\n.out o0 position\n.proc main\n dp4 r0.x, a, a\n mad r0.yzw, a, a, a\n rcp r1, r0.x\n \
        rsq r2, r1.x\n ex2 r3, r1.x\n lg2 r4, r1.x\n litp r5, r4\n mova a0.xy, a\n mov r6, c0[a0.x]\n \
        cmp a, le, gt, r6\n ifc cmp.x\n for i0\n add r0, r1, r0\n .end\n .else\n slt r0, a, r0\n .end\n \
        mov o0, r0\n end\n.end";
    for source in [groups, KEEPS] {
        for precision in Precision::ALL {
            let shbin = assemble(source).expect("a good source").shbin;
            let (program, entry) = (shbin.program().expect("short"), shbin.dvles[0].entry());
            let run = move || {
                let config = Config { precision, ..Config::default() };
                let kernel = Tier0::default().kernel_of_entry(&program, entry, &config);
                let mut unit = Box::new(Unit::new());
                kernel.run(&Uniforms::new(), &mut unit, &mut NoEmitter);
                for (count, preserve_unit) in [(5, false), (5, true), (70, false), (70, true)] {
                    outputs(&kernel, &mut unit, count, preserve_unit);
                }
                kernel.stats().groups
            };
            // The thread's own frames come on top.
            let thread = std::thread::Builder::new().stack_size((64 << 10) + (8 << 10)).spawn(run);
            assert_eq!(thread.expect("a thread").join().expect("no panic"), 4, "{source}");
        }
    }
}

/// What vertices may leave to each other, and whether they run in groups: `v0.x` is 0 to 6, `v0.y`
/// the number of the vertex.
const BATCHES: [(&str, bool); 15] = [
    // Outputs, temporaries, flags and addresses that some vertices keep.
    (
        "mov o1, v1\n cmp c3, lt, lt, v0.x\n ifc cmp.x\n mov o0.yw, v0\n mova a0.x, v0.y\n mov r1.xz, v1\n .end\n cmp c5, lt, gt, v0.x\n ifc cmp.x\n mova a0.y, v0.x\n .end",
        true,
    ),
    ("mov o0, v0\n jmpu b0, over\n cmp c1, lt, lt, v0\n over:\n mov o1.x, c2", true),
    // Flags that only some vertices set.
    (
        "mov o0, v0\n mov r0, c3\n rcp r1.x, v0.x\n mul r1, c2.x, r1.x\n mov o1, r1\n slt r2, v0, r0\n mova a0.x, r2.x\n mov o2, c1[a0.x]",
        true,
    ),
    // A loop that vertices leave in different rounds; aL after it.
    (
        "mov r0, c0\n mov r2, c0\n for i0\n for i1\n add r0, c1, r0\n cmp r0.x, gt, gt, v0.x\n breakc cmp.x\n mov r2, c4[aL]\n .end\n add r0, c0[aL], r0\n .end\n mov o0, r0\n mov o1, r2\n mov o2.x, v0.x",
        true,
    ),
    // It ends past the end, or out of a loop, and keeps outputs.
    ("cmp c4, lt, lt, v0.x\n jmpc cmp.x, away\n mov o0, v0\n mov r1, v1\n end\n away:\n mov r2, v1", true),
    // Carried registers: no groups.
    ("litp r1.z, r0\n mov o0, c0\n ifc cmp.x\n mov o0, c1\n .end\n mov r0.xw, v1\n add r3, r3, v0\n mov o1, r3", false),
    // Carried by one operand alone: the last component of DPH, MOVA's, the second flag.
    ("dph r0.x, v0, r1\n mov o0, r0.x\n mov r1.w, v0.y", false),
    ("mova a0.x, r1.x\n mov o0, c0[a0.x]\n mov r1.x, v0.x", false),
    ("mov o0, v0\n ifc cmp.y\n mov o0, c1\n .end\n cmp c4, lt, lt, v0.x", false),
    // Each exit, in another order in each group.
    ("cmp c4.x, lt, gt, v0.x\n jmpc cmp.x, away\n mov o0, v0\n breakc cmp.y\n end\n away:\n mov r2, v1", true),
    // aL of some vertices, where it was the same for all; then of both kinds.
    ("mov o0, v0\n cmp c3, lt, lt, v0.x\n ifc cmp.x\n for i1\n mov o0, c4[aL]\n .end\n .end", true),
    (
        "cmp c3, lt, lt, v0.x\n ifc cmp.x\n for i1\n mov r0, c4\n .end\n .else\n for i0\n mov r0, c5\n .end\n .end\n add o0, c8[aL], r0",
        true,
    ),
    // aL after inner loops, which end in different rounds, or all in the same.
    ("mov r0, v0\n for i1\n for i0\n add r0, c2[aL], r0\n .end\n add r0, c4[aL], r0\n .end\n mov o0, r0", true),
    (
        "mov r0, v0\n for i1\n cmp c3, lt, lt, v0.x\n for i0\n breakc cmp.x\n add r0, c2[aL], r0\n .end\n add r0, c4[aL], r0\n .end\n mov o0, r0",
        true,
    ),
    // One loop more than the hardware keeps, so the outermost is forgotten.
    (
        "mov r0, v0\n for i0\n add r0, c1[aL], r0\n for i2\n for i0\n add r0, c3[aL], r0\n for i2\n for i0\n add r0, c2[aL], r0\n .end\n .end\n .end\n .end\n add r0, c4[aL], r0\n .end\n mov o0, r0",
        true,
    ),
];

#[test]
fn batches_of_every_size_and_layout_agree_with_the_interpreter() {
    let inputs: Vec<[Vec4; 16]> = (0..132)
        .map(|n| {
            let x = n as f32;
            let mut v = [[x * 0.5, 1.0 - x, -0.0, x]; 16];
            v[0] = [(n * 5 % 7) as f32, x, -x, 1.0];
            v[1] = [if n % 3 == 0 { -1.0 } else { 1.0 }, x, 2.0, if n % 5 == 0 { -2.0 } else { 0.5 }];
            v
        })
        .collect();
    let mut uniforms = Uniforms::new();
    uniforms.c = std::array::from_fn(|n| [n as f32; 4]);
    uniforms.i = [[2, 0, 1, 0], [5, 1, 2, 0], [0; 4], [0; 4]];
    for ((body, in_groups), b0) in BATCHES.into_iter().flat_map(|program| [(program, 0), (program, 1)]) {
        uniforms.b = b0;
        let source = format!(".proc main\n {body}\n{}.end", if body.contains("away") { "" } else { " end\n" });
        let tested = kernel(&source, default_fuel(Stage::Vertex));
        let shbin = assemble(&source).expect("a good source").shbin;
        let (program, entry) = (Arc::new(shbin.program().expect("short")), shbin.dvles[0].entry());
        let oracle = crate::interp::Interp.compile(&program, entry, &Config::default()).expect("always");
        for count in [7, 8, 9, 12, 63, 64, 65, 68, 132] {
            let masks = [(0xFFFF, 0xFFFF), (0b01, 0b1010), (0b10, 0b0001)];
            for ((input_mask, output_mask), preserve_unit) in masks.into_iter().flat_map(|m| [(m, false), (m, true)]) {
                let run = |kernel: &dyn Kernel| {
                    let mut unit = Unit::new();
                    unit.r = std::array::from_fn(|n| [n as f32, -1.0, 0.25, -3.0]);
                    unit.v = [[4.5, 3.0, 2.0, 1.0]; 16];
                    unit.o[0] = std::array::from_fn(|n| [-(n as f32), 11.0, 12.0, 13.0]);
                    (unit.a0, unit.al, unit.cmp) = ([3, -2], 9, [false, true]);
                    let mut outputs = vec![[[-1.0; 4]; 16]; count];
                    let mut batch = Batch {
                        inputs: (&inputs[..count]).into(),
                        outputs: (&mut outputs).into(),
                        input_mask,
                        output_mask,
                        preserve_unit,
                    };
                    let exit = kernel.run_batch(&uniforms, &mut unit, &mut batch, &mut NoEmitter);
                    let files = outputs.iter().chain([&unit.v, &unit.r, &unit.o[0], &unit.o[1]]);
                    let floats: Vec<f32> = files.flat_map(|file| file.as_flattened()).copied().collect();
                    (floats, (exit, unit.a0, unit.al, unit.cmp))
                };
                let (want, got) = (run(&*oracle), run(&tested));
                let at = want.0.iter().zip(&got.0).position(|(a, b)| !same(*a, *b));
                let what = format!("{count}, {preserve_unit}, {input_mask}: {source}");
                assert_eq!((at, want.1), (None, got.1), "{what}");
            }
        }
        assert_eq!(tested.stats().groups > 50, in_groups, "{source}");
    }
}

/// Kernels are an interface of their own: no engine has set the mode before.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[test]
fn a_kernel_runs_single_vertices_in_foreign_modes() {
    let source = ".proc main\n rcp r0, v0.x\n mul o0, v0, r0\n add o1, v0, r0\n mul o2, v0, v0\n end\n.end";
    let program = assemble(source).expect("a good source").shbin.program().expect("short");
    for precision in Precision::ALL {
        let config = Config { precision, ..Config::default() };
        let kernel = Tier0::default().kernel_of_entry(&program, Entry::vertex(0), &config);
        let run = || {
            let mut unit = Unit::new();
            unit.v[0] = [3.0, -7.7, 1e-30, 0.1];
            kernel.run(&Uniforms::new(), &mut unit, &mut NoEmitter);
            unit.outputs().map(|o| o.map(f32::to_bits))
        };
        let want = run();
        crate::fp_mode::in_foreign_modes(|| assert_eq!(run(), want, "{precision}"));
    }
}

#[test]
fn a_loop_may_execute_its_words_once_more_than_its_count_says() {
    let program = assemble(".proc main\n for i0\n nop\n nop\n .end\n end\n.end").expect("a good source").shbin;
    let kernel = |fuel| {
        let config = Config { fuel, ..Config::default() };
        Tier0::default().kernel_of_entry(&program.program().expect("short"), Entry::vertex(0), &config)
    };
    for count in [0, 1, 3, 255] {
        let mut uniforms = Uniforms::new();
        uniforms.i[0] = [count, 0, 0, 0];
        let most = kernel(1 << 18).most_words(&uniforms.i);
        assert_eq!(most, 2 + 2 * (u64::from(count) + 1));
        let exit = |fuel: u64| kernel(fuel as u32).run(&uniforms, &mut Unit::new(), &mut NoEmitter);
        assert_eq!(exit(most), Exit::End);
    }
}

/// In a group, arithmetic flushes operands only if there is something to flush, in each kind of register.
#[test]
fn groups_find_subnormals_wherever_they_are() {
    let (tiny, large) = (f32::from_bits((127 - 70) << 23), f32::from_bits((127 + 60) << 23));
    // A carry out of its tail makes another number of it.
    let nan = f32::from_bits(0x7FFF_FFFF);
    let cases = [
        ("mul o0, c0, v0", tiny, large, 1.0),
        ("mul o0, c0, v0", large, tiny, 1.0),
        ("mul o0, v0, r0", large, 1.0, tiny),
        ("add o0, v0, r0", 1.0, 1.0, nan),
        ("mova a0.x, v1.x\nmul o0, c3[a0.x], v0", large, tiny, 1.0),
        ("mov r1, v1\nmad o0, v0, c0, r1", large, tiny, 1.0),
        ("dp4 o0, c0, v0", large, tiny, 1.0),
        ("flr o0, -v0", tiny, 1.0, 1.0),
    ];
    for (source, v, c, r) in cases {
        let shbin = assemble(&format!(".proc main\n{source}\nend\n.end")).expect("a good source").shbin;
        let (program, entry) = (Arc::new(shbin.program().expect("short")), shbin.dvles[0].entry());
        for precision in Precision::ALL {
            let config = Config { precision, ..Config::default() };
            let tier0 = Tier0::default().kernel_of_entry(&program, entry, &config);
            let oracle = crate::interp::Interp.kernel(&program, entry, &config);
            let run = |kernel: &dyn Kernel| {
                let (mut uniforms, mut unit) = (Uniforms::new(), Unit::new());
                // The relative access, with an offset of 2 words, and the direct one.
                (uniforms.c[0], uniforms.c[5], unit.r[0]) = ([c; 4], [c; 4], [r; 4]);
                // Only one vertex of the first group has the number.
                let inputs: Vec<_> = (0..100).map(|n| [[if n == 7 { v } else { 1.0 }; 4], [2.0; 4]]).collect();
                let mut outputs = vec![[-1.0; 4]; inputs.len()];
                let mut batch = Batch {
                    inputs: crate::state::Vertices::packed(inputs.as_flattened(), 2, inputs.len()).expect("enough"),
                    outputs: crate::state::VerticesMut::packed(&mut outputs, 1, inputs.len()).expect("enough"),
                    input_mask: 3,
                    output_mask: 1,
                    preserve_unit: false,
                };
                kernel.run_batch(&uniforms, &mut unit, &mut batch, &mut NoEmitter);
                outputs
            };
            let (got, want) = (run(&tier0), run(&oracle));
            for (n, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!(same(got[0], want[0]), "{source}, {precision}: vertex {n} is {got:?}, not {want:?}");
            }
            assert_eq!(tier0.stats().groups, 2, "{source}");
        }
    }
}
