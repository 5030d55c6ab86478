//! Engines with one wrong opcode. The fuzzer must find them, shrink the programs to a few
//! instructions, blame the right instruction, and print a test file that passes on the interpreter
//! and fails on the faulty engine.

use crate::engines::{Engine as Tested, engines, reference};
use crate::filetest::run_source;
use picajit::internals::interp::Interp;
use picajit::internals::kernel::{Backend, Config, Kernel, Unsupported};
use picajit::isa::Opcode;
use picajit::isa::table::Row;
use picajit::program::{Entry, Program};
use picajit_fuzz::explain::{Explanation, explain};
use picajit_fuzz::{Case, Divergence, Engine, Plan, case_from_seed, compare, filetest, report, shrink, sweep};
use std::sync::Arc;

/// The interpreter on another program: every word of one opcode has some bits flipped.
#[derive(Clone, Copy)]
struct Planted {
    opcode: Opcode,
    flip: u32,
}

/// One opcode taken for another one of the same format.
const fn swapped(opcode: Opcode, other: Opcode) -> Planted {
    Planted { opcode, flip: (opcode as u32 ^ other as u32) << 26 }
}

const FAULTS: [Planted; 12] = [
    swapped(Opcode::Add, Opcode::Mul),
    swapped(Opcode::Max, Opcode::Min),
    swapped(Opcode::Dp4, Opcode::Dp3),
    swapped(Opcode::Slti, Opcode::Sgei),
    swapped(Opcode::Flr, Opcode::Mov),
    swapped(Opcode::Rcp, Opcode::Rsq),
    swapped(Opcode::Litp, Opcode::Mov),
    // The wrong register.
    Planted { opcode: Opcode::Mad, flip: 1 << 24 },
    // The wrong address register.
    Planted { opcode: Opcode::Mov, flip: 3 << 19 },
    // The wrong operator for one of two flags.
    Planted { opcode: Opcode::Cmp, flip: 1 << 24 },
    // The inverted condition.
    Planted { opcode: Opcode::Jmpu, flip: 1 },
    // The wrong counter.
    Planted { opcode: Opcode::Loop, flip: 1 << 22 },
];

impl Backend for Planted {
    fn name(&self) -> &'static str {
        "seeded"
    }
    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        let is_it = |word: u32| Row::of_word(word).is_some_and(|row| row.opcode == self.opcode);
        let code: Vec<u32> =
            program.code().iter().map(|&word| if is_it(word) { word ^ self.flip } else { word }).collect();
        let wrong = Program::from_words(&code, program.opdescs()).expect("it is as long as before");
        Interp.compile(&Arc::new(wrong), entry, config)
    }
}

fn engine(fault: &Planted) -> Engine<'_> {
    Engine { name: "seeded", backend: fault }
}

fn found(fault: &Planted) -> Box<Divergence> {
    let plan = Plan { seed: 4000, programs: 3000, vertices: 9, threads: 2, ..Plan::default() };
    let swept = sweep(&plan, &[engine(fault)], &mut |_| ());
    swept.divergence.unwrap_or_else(|| panic!("{:?} is not caught", fault.opcode))
}

#[test]
fn a_printed_divergence_passes_on_the_interpreter_and_fails_on_the_faulty_engine() {
    for fault in &FAULTS {
        let engines = [engine(fault)];
        let original = found(fault);
        let first = original.summary();
        let small = shrink(original, &engines);
        let text = report(&small, &engines);
        let case = &small.case;

        // It is small, and names the original.
        assert!(case.program.code().len() <= 5, "{:?}\n{text}", fault.opcode);
        assert!(case.inputs.len() == 1 && case.program.opdescs().len() <= 3, "{text}");
        let words = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&words(&first)) && text.contains(&words(&small.summary())), "{first}\n{text}");
        assert!(text.contains("From seed "), "{text}");

        // It blames the right instruction, with the registers of both. A wrong transfer shows after
        // its target.
        let blame = text.lines().find_map(|line| line.strip_prefix("; First instruction whose result differs: "));
        let mnemonic = fault.opcode.row().mnemonic;
        let is_flow = matches!(fault.opcode, Opcode::Jmpu | Opcode::Loop);
        assert!(blame.is_some(), "{text}");
        assert!(is_flow || blame.is_some_and(|blame| blame.starts_with(mnemonic)), "{text}");
        assert!(text.contains("; registers after it, interp: "), "{text}");
        assert!(text.contains("; registers after it, seeded: "), "{text}");

        // It is a test file.
        let wrong = Tested { name: "interp", backend: Arc::new(*fault) };
        run_source("printed", &text, &reference()).unwrap_or_else(|e| panic!("{}\n{text}", e.message().unwrap_or("")));
        let failed = run_source("printed", &text, &wrong).map(drop).expect_err(&text);
        let failed = failed.message().unwrap_or("").to_string();
        assert!(failed.contains("expected"), "fails by its own expectations: {failed}\n{text}");

        // Shrinking is deterministic.
        assert_eq!(text, report(&shrink(found(fault), &engines), &engines));
    }
}

/// 2 + 2 equals 2 * 2, so only the second iteration of a loop distinguishes a sum from a product.
#[test]
fn a_fault_of_the_second_iteration_is_found_there() {
    let fault = swapped(Opcode::Add, Opcode::Mul);
    let mut case = case_from_seed(0, None, 1);
    case.config = Config::default();
    case.unit.r[0] = [2.0; 4];
    // Source, iterations of its loop less one, and the instruction: address, number, first
    // suspected number.
    let cases = [
        ("add r0, r0, r0\nadd r0, r0, r0", 0, Some((1, 2, 1))),
        ("for i0\nadd r0, r0, r0\n.end", 0, None),
        ("for i0\nadd r0, r0, r0\n.end", 1, Some((1, 3, 2))),
        ("for i0\nnop\nadd r0, r0, r0\nnop\n.end\nnop", 4, Some((3, 7, 4))),
    ];
    for (body, rounds, blamed) in cases {
        let loaded = crate::filetest::load(&format!(".raw\n.proc main\n{body}\nend\n.end\n"), None).unwrap();
        (case.program, case.entry) = (loaded.program, loaded.entry);
        case.uniforms.i[0] = [rounds, 0, 0, 0];
        let found = compare(&case, &[engine(&fault)]).err();
        let blame = found.map(|found| match explain(&found, engine(&fault)) {
            Explanation::At(blame) => blame,
            Explanation::Unknown(why) => panic!("{body}: {why}"),
        });
        assert_eq!(blame.as_ref().map(|b| (b.pc, b.step, b.agreed)), blamed, "{body}");
        if let Some(blame) = blame {
            let registers = blame.units.map(|unit| unit.expect("neither engine panics").r[0]);
            assert_eq!(registers, [[8.0; 4], [16.0; 4]], "{body}");
        }
    }
}

/// Panics at programs that multiply matrices. Without the message that `panic!` prints each time.
struct Panics;

impl Backend for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }
    fn compile(&self, p: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        if p.code().iter().any(|&word| Row::of_word(word).is_some_and(|row| row.opcode == Opcode::Dp4)) {
            std::panic::resume_unwind(Box::new("no room\nerror: for => DP4"));
        }
        Interp.compile(p, entry, config)
    }
}

#[test]
fn a_panic_is_shrunk_and_printed_as_well() {
    let engines = [Engine { name: "panics", backend: &Panics }];
    let swept = sweep(&Plan { seed: 50, programs: 100, ..Plan::default() }, &engines, &mut |_| ());
    let small = shrink(swept.divergence.expect("DP4 is frequent"), &engines);
    let text = report(&small, &engines);
    assert!(text.starts_with("; panics: a panic: no room\n; | error: for -> DP4\n"), "{text}");
    let words = |text: &str| text.contains("    dp4 o0, v0, v0\n") || text.contains("    end\n");
    assert!(small.case.program.code().len() <= 2 && words(&text) && text.contains("\n; run:"), "{text}");
    run_source("printed", &text, &reference()).unwrap_or_else(|e| panic!("{}\n{text}", e.message().unwrap_or("")));
}

/// A printed file assembles to its own program, and the interpreter passes it.
#[test]
fn every_case_has_a_file_that_passes() {
    for seed in 0..300 {
        let case = case_from_seed(seed, None, 3);
        let text = filetest(&case);
        let loaded = crate::filetest::load(&text, crate::directive::parse(&text).unwrap().entry);
        let loaded = loaded.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        assert_eq!((&loaded.program, loaded.entry), (&case.program, case.entry), "seed {seed}:\n{text}");
        assert_eq!(text.matches("; run:").count(), case.inputs.len());
        let run = run_source("printed", &text, &reference());
        run.unwrap_or_else(|e| panic!("seed {seed}: {}\n{text}", e.message().unwrap_or("")));
    }
    // All engines that there are, for a few.
    for engine in engines() {
        for seed in 0..20 {
            let text = filetest(&case_from_seed(seed, None, 2));
            let run = run_source("printed", &text, &engine);
            run.unwrap_or_else(|e| panic!("{}: {}\n{text}", engine.name, e.message().unwrap_or("")));
        }
    }
}

/// A difference that needs two vertices keeps both, and the file says so.
#[test]
fn dependent_vertices_are_kept() {
    struct Forgets;
    struct Kern(Arc<dyn Kernel>);
    impl picajit::internals::kernel::UnitKernel for Kern {
        fn run(
            &self,
            uniforms: &picajit::state::Uniforms,
            unit: &mut picajit::state::Unit,
            emitter: &mut dyn picajit::state::Emitter,
        ) -> picajit::state::Exit {
            self.0.run(uniforms, unit, emitter)
        }
        fn run_batch(
            &self,
            uniforms: &picajit::state::Uniforms,
            unit: &mut picajit::state::Unit,
            batch: &mut picajit::state::Batch<'_>,
            emitter: &mut dyn picajit::state::Emitter,
        ) -> picajit::state::BatchExit {
            let exit = self.0.run_batch(uniforms, unit, batch, emitter);
            if batch.inputs.len() > 1 {
                unit.r[2][1] += 1.0;
            }
            exit
        }
    }
    impl Backend for Forgets {
        fn name(&self) -> &'static str {
            "forgets"
        }
        fn compile(&self, p: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
            Ok(Arc::new(picajit::internals::kernel::OnUnits(Kern(Interp.compile(p, entry, config)?))))
        }
    }
    let engines = [Engine { name: "forgets", backend: &Forgets }];
    let case: Case = (0..).map(|seed| case_from_seed(seed, None, 20)).find(|case| case.inputs.len() > 4).unwrap();
    let small = shrink(compare(&case, &engines).expect_err("it differs in every batch"), &engines);
    assert_eq!((small.case.inputs.len(), small.case.program.code().len()), (2, 1));
    let text = report(&small, &engines);
    assert!(text.contains("2 vertices in sequence") && text.contains("No instruction to blame"), "{text}");
    run_source("printed", &text, &reference()).unwrap();
}
