//! Budgets of compilations: the estimate bounds the code, and programs beyond the limit fail before
//! anything is lowered.

use crate::isa::float24::Rounding;
use crate::isa::numeric::Precision;
use crate::jit::emit::estimate;
use crate::jit::tests::*;

const PRECISIONS: [Precision; 3] =
    [Precision::F32, Precision::F24 { rounding: Rounding::Nearest }, Precision::F24 { rounding: Rounding::TowardZero }];

/// Each operation with swizzled and negated operands, as the weights of the estimate assume.
const OPERATIONS: [&str; 21] = [
    "add r0, r0.wzyx, -r1.yxwz",
    "add r0.xz, r0.wzyx, -r1.yxwz",
    "mul r0, r0.wzyx, r1.yxwz",
    "mad r0, r0.wzyx, r1.yxwz, r0",
    "max r0, r0.wzyx, -r1.yxwz",
    "sge r0, r0.wzyx, -r1.yxwz",
    "slt r0, -r0.wzyx, r1.yxwz",
    "flr r0, r0.wzyx",
    "dp3 r0.y, r0.wzyx, r1.yxwz",
    "dp4 r0, r0.wzyx, r1.yxwz",
    "dph r0, -r0.wzyx, r1.yxwz",
    "dst r0, r0.wzyx, -r1.yxwz",
    "litp r0, r0.wzyx",
    "rcp r0, r0.y",
    "rsq r0, r0.w",
    "ex2 r0, r0.y",
    "lg2 r0, r0.w",
    "mova a0.xy, r0.wzyx\n add r0, c0[a0.x], r0",
    "cmp r0.wz, lt, ge, r1.xy\n mov r0.y, -r0.wzyx\n ifc cmp.x\n add r0, r0, r1\n .end",
    "add r1, r1.wzyx, v1.yzwx",
    "ifu b0\n add r0, r0, r1\n .end",
];

/// The estimates and the sizes of all code of `entry`, by name.
fn sizes(program: &Arc<Program>, entry: Entry, config: &Config) -> Vec<(&'static str, usize, usize)> {
    let mut sizes = Vec::new();
    for variant in [Variant::Batch, Variant::Unoptimised] {
        let jit = Jit::new(variant).expect("native");
        let generator = &jit.generator;
        let mut timings = Timings::default();
        let build = |limits| Cfg::build(program, entry, limits);
        let Ok(cfg) = generator.cfg(build, entry, config, &mut timings) else { return sizes };
        let func = generator.ssa(&cfg, config, &mut timings);
        let mut scratch = Scratch::new(&CancelFlag::default());
        let first = generator.products(&func, config.precision);
        for products in [first, Products::Exact] {
            generator.vertex_clif(&func, products, Stores::Unit, config, &mut scratch);
            let name = profile::kind(variant, products, Stores::Unit);
            sizes.push((name, estimate::vertex_instructions(&func, products, config.precision), made(&scratch)));
        }
        for interleaved in [false, true] {
            let batch = BatchVariant { interleaved };
            if variant == Variant::Batch
                && let Ok(plan) = BatchPlan::new(&func, &RegisterUse::new(&cfg), config.precision)
            {
                generator.batch_clif(&plan, batch, config, &mut scratch);
                let estimate = batch::estimate::batch_instructions(&plan, interleaved);
                sizes.push((batch.name(), estimate, made(&scratch)));
            }
        }
    }
    sizes
}

fn made(scratch: &Scratch) -> usize {
    let layout = &scratch.context.func.layout;
    layout.blocks().map(|block| layout.block_insts(block).count()).sum()
}

#[test]
fn the_estimate_bounds_the_code_of_each_operation() {
    for operation in OPERATIONS {
        let body = format!(" {operation}\n").repeat(60);
        let (program, entry) =
            program(&format!(".proc main\n mov r0, v0\n mov r1, v1\n mova a0.xy, v0\n{body} mov o0, r0\n end\n.end"));
        for precision in PRECISIONS {
            let config = Config { precision, ..Config::default() };
            for (name, estimate, made) in sizes(&program, entry, &config) {
                assert!(made <= estimate, "{operation}: {name} {precision}: {made}, not at most {estimate}");
                assert!(estimate <= 12 * made + 1000, "{operation}: {name} {precision}: {estimate} for {made}");
            }
        }
    }
}

#[test]
fn the_estimate_bounds_the_code_of_random_programs() {
    let mut compared = 0;
    for seed in 0..400 {
        for precision in PRECISIONS {
            let case = crate::fuzz::case_from_seed(seed, None, 1);
            let config = Config { precision, ..case.config };
            for (name, estimate, made) in sizes(&case.program, case.entry, &config) {
                assert!(made <= estimate, "seed {seed}: {name} {precision}: {made}, not at most {estimate}");
                compared += 1;
            }
        }
    }
    assert!(compared > 2000, "{compared}");
}

#[test]
fn a_procedure_called_often_is_too_much_code() {
    let source =
        format!(".proc main\n{} end\n.end\n.proc f\n{}.end", " call f\n".repeat(31), " ex2 r0, r0.x\n".repeat(255));
    let (program, entry) = program(&source);
    for precision in PRECISIONS {
        for variant in [Variant::Vec4, Variant::Batch, Variant::Unoptimised] {
            let jit = Jit::new(variant).expect("native");
            let reason = jit.compile_native(&program, entry, &Config { precision, ..Config::default() }).err();
            assert!(
                matches!(reason, Some(Unsupported::TooMuchCode { limit, estimate }) if estimate > limit),
                "{reason:?}"
            );
        }
    }
}

#[test]
fn a_memory_full_of_any_instruction_but_ex2_is_native() {
    let jit = Jit::new(Variant::Batch).expect("native");
    // EX2 takes 60 instructions, by far the most.
    let one = OPERATIONS.into_iter().filter(|text| !text.contains('\n') && !text.starts_with("ex2"));
    for instruction in one.chain(["mad r0, v0, c8[a0.x], r0"]) {
        let body = format!(" {instruction}\n").repeat(507);
        let source = format!(".proc main\n mov r0, v0\n mov r1, v1\n mova a0.x, v0\n{body} mov o0, r0\n end\n.end");
        let (program, entry) = program(&source);
        assert_eq!(program.code().len(), crate::gpu::VERTEX_CODE_WORDS, "{instruction}");
        let kernel = jit.compile_native(&program, entry, &Config::default());
        let kernel = kernel.unwrap_or_else(|reason| panic!("{instruction}: {reason}"));
        // Runs with an infinite product take this code.
        let exact = kernel.compile_lazy(LazyKind::Exact);
        assert!(exact.is_ok(), "{instruction}: {:?}", exact.err());
    }
}

#[test]
fn a_program_without_end_in_a_full_memory_is_native() {
    // `add o0, v0, v0` in each word.
    let program = Arc::new(Program::from_words(&[0; 4096], &[0x36F]).expect("it fits"));
    let jit = Jit::new(Variant::Batch).expect("native");
    for precision in PRECISIONS {
        let config = Config { precision, ..Config::default() };
        let kernel = jit.compile_native(&program, Entry::vertex(0), &config).expect("dead values cost nothing");
        assert!(kernel.native_bytes() < 1024);
    }
}

/// Runs a batch of two groups.
fn run_eight(kernel: &NativeKernel) {
    let (inputs, mut outputs) = ([[[0.5; 4]; 16]; 8], [[[0.0; 4]; 16]; 8]);
    let mut batch = Batch::of(&inputs, &mut outputs);
    kernel.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch, &mut NoEmitter);
}

#[test]
fn one_group_at_a_time_runs_where_two_are_too_large() {
    let source = format!(".proc main\n mov r0, v0\n{} mov o0, r0\n end\n.end", " ex2 r0, r0.x\n".repeat(90));
    let (program, entry) = program(&source);
    let settings = Settings { batch_threshold: 0, interleave: Interleave::On, ..Settings::default() };
    let jit = Jit::with(Variant::Batch, settings).expect("native");
    let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small for one vertex");
    let sizes = [true, false].map(|interleaved| kernel.compile_lazy(LazyKind::Batch { interleaved }).map_err(|_| ()));
    assert!(sizes[0].is_err() && sizes[1].is_ok(), "{sizes:?}");
    run_eight(&kernel);
    assert_eq!((kernel.groups(), kernel.stats().sequential_reason), ((2, 0), None));
}

#[test]
fn batch_code_beyond_the_limit_leaves_vertices_in_order() {
    let source = format!(".proc main\n mov r0, v0\n{} mov o0, r0\n end\n.end", " ex2 r0, r0.x\n".repeat(200));
    let (program, entry) = program(&source);
    let settings = Settings { batch_threshold: 0, interleave: Interleave::On, ..Settings::default() };
    let kernel = Jit::with(Variant::Batch, settings).expect("native");
    let kernel = kernel.compile_native(&program, entry, &Config::default()).expect("small for one vertex");
    run_eight(&kernel);
    assert_eq!(kernel.groups(), (0, 0));
    assert_eq!(kernel.stats().sequential_reason.as_deref(), Some("the program is too large for batch code"));
}

#[test]
fn native_bytes_are_those_of_all_code() {
    let (program, entry) = program(".proc main\n mov r0, v1\n mul o0, v0, r0\n end\n.end");
    let jit = Jit::new(Variant::Batch).expect("native");
    let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small");
    let mut all = kernel.native_bytes();
    assert!(all > 0);
    let batch = |interleaved| LazyKind::Batch { interleaved };
    let outputs = |exact| LazyKind::Outputs { exact };
    for kind in [LazyKind::Exact, outputs(false), outputs(true), batch(false), batch(true)] {
        all += kernel.compile_lazy(kind).expect("small");
        assert_eq!(kernel.native_bytes(), all, "{kind:?}");
    }
    assert_eq!(kernel.blocks(), 1);
}

#[test]
fn code_that_emits_has_no_outputs_only_code() {
    for (body, exists) in [("mov o0, v0", true), ("mov o0, v0\n emit", false)] {
        let (program, entry) = program(&format!(".gsh\n.proc main\n {body}\n end\n.end"));
        let jit = Jit::new(Variant::Batch).expect("native");
        let kernel = jit.compile_native(&program, entry, &Config::default()).expect("small");
        assert_eq!(kernel.compile_lazy(LazyKind::Outputs { exact: true }).is_ok(), exists, "{body}");
    }
}

/// Code that may follow is counted in pages, so that the cache need not follow it.
#[test]
fn held_bytes_count_all_code_that_may_follow() {
    const PAGE: usize = 4096;
    let held = |body: &str, unreachable: usize| {
        let source =
            format!(".gsh\n.raw\n.proc main\n{body}\n end\n.end\n.proc more\n{}.end", " nop\n".repeat(unreachable));
        let (program, entry) = program(&source);
        let jit = Jit::new(Variant::Batch).expect("native");
        jit.compile_native(&program, entry, &Config::default()).expect("small").held_bytes()
    };
    let copies = held(" mov o0, v0", 0);
    assert!(copies > 2 * PAGE, "code for one vertex, outputs-only code, and batch code: {copies}");
    // A product needs exact code too, for the unit and for outputs only.
    let product = held(" mov r0, v1\n mul o0, v0, r0", 0);
    assert_eq!((product - copies + PAGE / 2) / PAGE, 2, "{copies}, {product}");
    // Code that emits has no outputs-only code.
    let emits = held(" mov o0, v0\n emit", 0);
    assert!(emits < copies, "{emits}, {copies}");
    let long = held(" mov o0, v0", 1000);
    assert!(long >= copies + 4 * 1000, "the program's words count: {copies}, {long}");
}

/// Batch code is twice as large as code for one vertex, and again with two groups.
#[test]
fn held_bytes_count_pages_by_variant() {
    const PAGE: usize = 4096;
    let held = |variant, interleave| {
        let jit = Jit::with(variant, Settings { interleave, ..Settings::default() }).expect("native");
        let (program, entry) = program(".proc main\n mov o0, v0\n end\n.end");
        jit.compile_native(&program, entry, &Config::default()).expect("small").held_bytes()
    };
    let single = held(Variant::Vec4, Interleave::Off);
    let batch = [Interleave::Off, Interleave::On].map(|interleave| held(Variant::Batch, interleave) - single);
    // One for outputs-only code.
    assert_eq!(batch, [(1 + 2) * PAGE, (1 + 2 + 2) * PAGE]);
}
