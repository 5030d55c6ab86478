//! Native kernels: deoptimisation, missing memory, hosts' memory, panicking emitters, printed
//! stages.

mod aos_outputs;
mod batches;
mod budget;
mod codegen_quality;
mod emit_buffers;
mod emitting_batches;
mod kept_components;

use crate::interp::Interp;
use crate::jit::batch::policy::MIN_BAILOUTS;
use crate::jit::runtime::code_memory::tests::Shelf;
use crate::jit::runtime::kernel::MAX_DEOPTIMISATIONS;
use crate::jit::*;
use crate::kernel::{Kernel, NextKernel};
use crate::layout::{HostMemory, Layout};
use crate::state::{Batch, Emitter, Exit, NoEmitter, Registers, Uniforms, Unit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;

fn program(source: &str) -> (Arc<Program>, Entry) {
    let shbin = crate::text::assemble(source).expect("a good source").shbin;
    (Arc::new(shbin.program().expect("short")), shbin.dvles[0].entry())
}

fn jit_with(memory: fn() -> CodeMemory) -> Arc<Jit> {
    let jit = Jit::new(Variant::Vec4).expect("tests run where there is native code");
    let mut jit = Arc::into_inner(jit).expect("there is one reference");
    jit.memory = memory;
    Arc::new(jit)
}

fn kernel(jit: &Arc<Jit>, source: &str) -> Result<NativeKernel, Unsupported> {
    let (program, entry) = program(source);
    jit.compile_native(&program, entry, &Config::default())
}

const PRODUCT: &str = ".proc main\n mov r0, v1\n mul o0, v0, r0\n end\n.end";

#[test]
fn a_failed_guard_deoptimises_and_a_shader_that_deoptimises_often_stops_speculating() {
    let kernel = kernel(&jit_with(CodeMemory::default), PRODUCT).expect("native");
    let speculative = kernel.native_bytes();
    let mut unit = Unit::new();
    unit.v[0] = [2.0, f32::INFINITY, f32::NAN, 1.0];
    unit.v[1] = [3.0, 1.0, 1.0, 1.0];
    let mut run = |y: f32, z: f32| {
        unit.v[1][1] = y;
        unit.v[0][2] = z;
        assert_eq!(kernel.run(&Uniforms::new(), &mut unit, &mut NoEmitter), Exit::End);
        unit.o[0][0]
    };
    assert_eq!(run(1.0, 5.0), [6.0, f32::INFINITY, 5.0, 1.0]);
    assert_eq!(
        (kernel.deoptimisations(), kernel.native_bytes()),
        (0, speculative),
        "no exact code before it is needed"
    );
    assert_eq!(run(0.0, 5.0), [6.0, 0.0, 5.0, 1.0]);
    assert_eq!(kernel.deoptimisations(), 1);
    assert!(kernel.native_bytes() > speculative);
    assert!(run(0.0, f32::NAN)[2].is_nan(), "a correct NaN stays");
    for _ in 0..MAX_DEOPTIMISATIONS + 10 {
        assert_eq!(run(0.0, 5.0)[1], 0.0);
    }
    assert_eq!(kernel.deoptimisations(), MAX_DEOPTIMISATIONS);
    assert_eq!(run(1.0, 5.0), [6.0, f32::INFINITY, 5.0, 1.0], "the exact code serves every run now");
}

#[test]
fn without_executable_memory_there_is_a_reason() {
    let refused = kernel(&jit_with(CodeMemory::refusing), PRODUCT).err();
    assert_eq!(refused, Some(Unsupported::NoExecMemory { error: std::io::ErrorKind::PermissionDenied, lent: true }));
}

#[test]
fn code_runs_in_memory_of_the_host_and_is_returned() {
    let on = |shelf: &Arc<Shelf>| {
        let services = HostServices { memory: Some(shelf.clone()), ..HostServices::default() };
        let settings = Settings { batch_threshold: 0, ..Settings::default() };
        kernel(&Jit::hosted(Variant::Batch, settings, services).expect("native"), PRODUCT)
    };
    let shelf = Shelf::new(0);
    let kernel = on(&shelf).expect("there is room");
    assert_eq!(shelf.len(), 1);
    let inputs: Vec<Registers> = (0..8).map(|n| [[n as f32, 2.0, -1.0, 0.0]; 16]).collect();
    let mut outputs = vec![[[0.0; 4]; 16]; 8];
    let mut batch = Batch {
        inputs: (&inputs).into(),
        outputs: (&mut outputs).into(),
        input_mask: u16::MAX,
        output_mask: 1,
        preserve_unit: false,
    };
    let mut unit = Unit::new();
    assert_eq!(kernel.run_batch(&Uniforms::new(), &mut unit, &mut batch, &mut NoEmitter), Exit::End);
    assert_eq!(outputs[5][0], [25.0, 4.0, 1.0, 0.0]);
    unit.v[1] = [f32::INFINITY; 4];
    unit.v[0] = [0.0; 4];
    assert_eq!(kernel.run(&Uniforms::new(), &mut unit, &mut NoEmitter), Exit::End);
    assert_eq!((unit.o[0][0], kernel.deoptimisations()), ([0.0; 4], 1));
    assert_eq!(shelf.len(), 3, "vec4, batch and exact code");
    drop(kernel);
    assert_eq!(shelf.len(), 0);
    // Misaligned memory: constants in the code would be misaligned.
    let odd = Shelf::new(16);
    assert_eq!(on(&odd).err(), Some(Unsupported::NoExecMemory { error: std::io::ErrorKind::InvalidData, lent: true }));
    assert_eq!(odd.len(), 0, "returned at once");
}

#[test]
fn without_memory_for_exact_code_a_deoptimised_run_falls_back_to_the_interpreter() {
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    fn once() -> CodeMemory {
        match GIVEN.fetch_add(1, Ordering::Relaxed) {
            0 => CodeMemory::default(),
            _ => CodeMemory::refusing(),
        }
    }
    struct Interpreter(Arc<dyn Kernel>);
    impl NextKernel for Interpreter {
        fn kernel(&self) -> &dyn Kernel {
            &*self.0
        }
    }
    let kernel = kernel(&jit_with(once), PRODUCT).expect("the first request succeeds");
    let (program, entry) = program(PRODUCT);
    let next = Interpreter(Interp.compile(&program, entry, &Config::default()).expect("any program"));
    let (mut unit, mut outputs) = (Unit::new(), [[[9.0; 4]; 16]; 2]);
    let mut inputs: [Registers; 2] = [[[1.0; 4]; 16]; 2];
    inputs[0][0] = [f32::INFINITY; 4];
    inputs[0][1] = [0.0; 4];
    unit.v[2] = [7.0; 4];
    // v2 is outside of the batch's input mask: the unit keeps it on either engine.
    let mut batch = Batch {
        inputs: (&inputs).into(),
        outputs: (&mut outputs).into(),
        input_mask: !(1 << 2),
        output_mask: 1,
        preserve_unit: false,
    };
    let exit = HostMemory::with_unit(&Uniforms::new(), &mut unit, &mut NoEmitter, false, |memory, emitter| {
        assert_eq!(kernel.run_on(memory, emitter), Some(Exit::End), "no guard fails");
        kernel.run_batch_on(memory, &mut batch, emitter, &next)
    });
    assert_eq!(exit, Exit::End);
    let mut deoptimising = unit.clone();
    (deoptimising.v[0], deoptimising.v[1]) = (inputs[0][0], inputs[0][1]);
    HostMemory::with_unit(&Uniforms::new(), &mut deoptimising, &mut NoEmitter, false, |memory, emitter| {
        assert_eq!(kernel.run_on(memory, emitter), None, "another kernel must run");
    });
    assert_eq!((outputs[0][0], outputs[1][0], outputs[1][1]), ([0.0; 4], [1.0; 4], [9.0; 4]));
    inputs[1][2] = [7.0; 4];
    assert_eq!(unit.v, inputs[1], "the unit holds the last vertex's inputs, and keeps what the mask leaves out");
}

#[test]
fn a_panic_of_the_emitter_resumes_after_the_code_returns() {
    struct Panics(u32);
    impl Emitter for Panics {
        fn triangle(&mut self, _: [&Registers; 3], _: bool) {
            self.0 += 1;
            // `panic!` would print a message.
            std::panic::resume_unwind(Box::new("out of triangles"));
        }
    }
    let source = ".gsh\n.proc main\n setemit 0, prim\n mov o0, v0\n emit\n emit\n mov r0, v0\n end\n.end";
    let kernel = kernel(&jit_with(CodeMemory::default), source).expect("native");
    let (mut unit, mut emitter) = (Unit::new(), Panics(0));
    unit.v[0] = [4.0; 4];
    let run = catch_unwind(AssertUnwindSafe(|| kernel.run(&Uniforms::new(), &mut unit, &mut emitter)));
    let payload = run.expect_err("the panic is not swallowed");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"out of triangles"));
    assert_eq!(emitter.0, 1, "no triangle after the panic");
    assert_eq!(unit.r[0], [4.0; 4], "the code itself ran to its end");
}

#[test]
fn every_stage_prints() {
    let (program, entry) = program(".proc main\n dp4 o0.x, c0, v0\n ifu b0\n mov o0.y, c1\n .end\n end\n.end");
    for variant in [Variant::Vec4, Variant::Unoptimised] {
        let jit = Jit::new(variant).expect("native");
        let stages = jit.explain(&program, entry, &Config::default()).expect("small");
        assert!(stages.cfg.contains("if b0 goto"), "{}", stages.cfg);
        assert!(stages.ssa.contains("dp4 c0, v0"), "{}", stages.ssa);
        assert!(stages.clif.contains("fmul"), "{}", stages.clif);
        assert!(stages.host.contains("ret"), "{}", stages.host);
    }
}

#[test]
fn a_hostile_program_gets_no_huge_frame() {
    // Hundreds of products, each swallowed by a MAX: each operand has a pending guard.
    let body: String = (0..300).map(|_| " dp4 r1, v0, r1\n max r3, r1, r3\n").collect();
    let source = format!(".gsh\n.proc main\n{body} end\n.end");
    let (program, entry) = program(&source);
    let jit = jit_with(CodeMemory::default);
    let host = jit.explain(&program, entry, &Config::default()).expect("one block").host;
    // `subq $0x20, %rsp` or `sub sp, sp, #32`.
    let frames =
        host.lines().filter(|l| ["subq", "sub sp"].iter().any(|s| l.trim().starts_with(s)) && l.contains("sp"));
    let number = |l: &str| {
        let digits = l.split([' ', ',']).find_map(|w| w.strip_prefix(['$', '#']))?;
        let hex = digits.strip_prefix("0x");
        hex.map_or_else(|| digits.parse().ok(), |hex| i64::from_str_radix(hex, 16).ok())
    };
    let bytes: i64 = frames.map(|l| number(l).unwrap_or_else(|| panic!("no number in {l}"))).sum();
    assert!(bytes < 4096, "{bytes}");
    assert!(host.contains("%rsp") || host.contains("sp, #"), "the stage prints machine code");
}

#[test]
fn baseline_code_has_no_avx_instructions() {
    let (program, entry) = program(".proc main\n mul r0, c0, v0\n add r0, r0, v1\n flr o0, r0\n end\n.end");
    let settings = Settings { cpu: Cpu::Baseline, ..Settings::default() };
    let jit = Jit::with(Variant::Vec4, settings).expect("native");
    let host = jit.explain(&program, entry, &Config::default()).expect("small").host;
    // Mnemonics of AVX instructions, and no others, begin with a v.
    assert!(!host.lines().any(|l| l.trim_start().starts_with('v')), "{host}");
    let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small");
    let (mut unit, mut uniforms) = (Unit::new(), Uniforms::new());
    (unit.v[0], uniforms.c[0], unit.v[1]) = ([1.5; 4], [3.0; 4], [0.25; 4]);
    assert_eq!(kernel.run(&uniforms, &mut unit, &mut NoEmitter), Exit::End);
    assert_eq!(unit.o[0][0], [4.0; 4]);
}

#[cfg(feature = "targets")]
#[test]
fn every_cpus_code_prints_on_every_host() {
    let (program, entry) = program(".proc main\n mul r0, c0, v0\n add r0, r0, v1\n flr o0, r0\n end\n.end");
    for (target, floor) in [(Target::X86_64, "roundps"), (Target::X86_64V3, "vroundps"), (Target::Aarch64, "frintm")] {
        for variant in [Variant::Vec4, Variant::Unoptimised] {
            let stages = explain_for(target, variant, &program, entry, &Config::default()).expect("small");
            assert!(stages.host.contains(floor), "{}: {}", target.name(), stages.host);
            assert!((8..200).contains(&stages.instructions()) && stages.code.len() > 2 * stages.instructions());
        }
    }
}
