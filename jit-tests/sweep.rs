//! Random programs on every engine, alone and in batches; and proof that the comparison would notice a wrong engine.

// The harness of the text files, for `planted`.
#[allow(dead_code)]
mod directive;
#[allow(dead_code)]
mod engines;
#[allow(dead_code)]
mod filetest;
mod hosted;
mod items;
#[allow(dead_code)]
mod outcome;
mod special_values;

mod seeded_faults;

use picajit::fuzz::{Engine, Found, Plan, Stats, Tier, case_from_bytes, case_from_seed, compare, shrink, sweep};
use picajit::interp::Interp;
use picajit::isa::Opcode;
use picajit::isa::numeric::Precision;
use picajit::kernel::{Backend, Config, Kernel, Unsupported};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, Emitter, Exit, Registers, Uniforms, Unit};
use std::sync::Arc;

/// How many programs a sweep is to run: `usual`, or what the environment variable `PICAJIT_SWEEP` says.
fn size(usual: u64) -> u64 {
    std::env::var("PICAJIT_SWEEP").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// The statistics of a sweep that finds nothing. What it finds is printed, shrunk.
fn clean_sweep(plan: &Plan, engines: &[Engine<'_>]) -> Stats {
    let swept = sweep(plan, engines, &mut |_| ());
    if let Some(divergence) = swept.divergence {
        println!("{divergence:?}");
        panic!("{}", picajit::fuzz::report(&shrink(divergence, engines), engines));
    }
    swept.stats
}

const INTERP: Engine<'static> = Engine { name: "interp", backend: &Interp };

/// The fixed-seed sweep of every CI run, in four parts so that the test runner spreads it over the cores.
/// `PICAJIT_SWEEP=programs` says how many programs each part has. A case has 1 to 31 vertices, 16 on average, so that
/// batches of 17 and more are among them.
#[cfg(feature = "jit")]
fn native_sweep(part: u64) {
    use picajit::fuzz::percent;
    use picajit::jit::{Interleave, Jit, Settings, Variant};
    // Eight vertices at once in every second part, also where that does not pay.
    let (groups, name) = if part.is_multiple_of(2) { (Interleave::Auto, "batch") } else { (Interleave::On, "batch8") };
    let settings = Settings { batch_threshold: 0, interleave: groups, ..Settings::default() };
    let jit = |variant| match Jit::with(variant, settings.clone(), Arc::new(Interp)) {
        Ok(jit) => Some(jit),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    };
    let (Some(batch), Some(unoptimised)) = (jit(Variant::Batch), jit(Variant::Unoptimised)) else { return };
    let hosted = hosted::Hosted::new(Arc::new(batch.clone()));
    let mut engines = vec![Engine { name, backend: &batch }, Engine { name: "unoptimised", backend: &unoptimised }];
    if part == 3 {
        engines.push(Engine { name: "batch8-hosted", backend: &hosted });
    }
    let plan = Plan { seed: (part + 1) << 32, programs: size(5_000), ..Plan::default() };
    let stats = clean_sweep(&plan, &engines);
    println!("{stats}");
    if plan.programs >= 5_000 {
        // Programs that native code is refused for are rare, and only for the size of their control flow.
        assert!(stats.native_share() >= 0.97, "{stats}");
        stats.check(200).unwrap();
        // And enough programs are such that batches run vertices side by side, some of which then disagree.
        assert!(percent(stats.engines[0].side_by_side, stats.comparisons) >= 5.0, "{stats}");
        assert!(percent(stats.engines[0].bailouts, stats.comparisons) >= 1.0, "{stats}");
    }
}

#[cfg(feature = "jit")]
mod native_code_gives_the_interpreters_bits {
    #[test]
    fn part_1() {
        super::native_sweep(0);
    }
    #[test]
    fn part_2() {
        super::native_sweep(1);
    }
    #[test]
    fn part_3() {
        super::native_sweep(2);
    }
    #[test]
    fn part_4() {
        super::native_sweep(3);
    }
}

#[test]
fn random_programs_are_varied_and_batches_of_the_interpreter_are_its_runs() {
    let plan = Plan { programs: size(3000), vertices: 9, ..Plan::default() };
    let stats = clean_sweep(&plan, &[INTERP]);
    println!("{stats}");
    if plan.programs >= 3000 {
        stats.check(200).unwrap();
    }
}

#[test]
fn a_seed_gives_the_same_case_every_time() {
    for seed in 0..50 {
        let [a, b] = [(); 2].map(|()| case_from_seed(seed, None, 5));
        assert_eq!((a.name, a.program, a.entry, a.config), (b.name, b.program, b.entry, b.config));
        assert_eq!(format!("{:?}", (a.unit, a.inputs)), format!("{:?}", (b.unit, b.inputs)));
    }
}

#[test]
fn any_bytes_make_a_case() {
    let mut bytes = Vec::new();
    for n in 0..400u32 {
        let tier = [None, Some(Tier::Words), Some(Tier::Insts), Some(Tier::Programs)][n as usize % 4];
        let case = case_from_bytes(&bytes, tier, 3);
        assert!(!case.program.code().is_empty() && !case.inputs.is_empty());
        compare(&case, &[INTERP]).unwrap_or_else(|d| panic!("{d:?}"));
        bytes.push((n.wrapping_mul(0x9E37_79B1) >> 24) as u8);
    }
}

/// Ways for an engine to be wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// One lane of one temporary, by one unit in the last place, when `DP4` is in the program.
    OneBit,
    /// aL after a loop.
    LoopCounter,
    /// A flag.
    Flag,
    /// The other output bank.
    OtherBank,
    /// The bank itself.
    Bank,
    /// One slot.
    Slot,
    /// `END` where the fuel ran out.
    Exit,
    /// One triangle less.
    Triangle,
    /// The winding of triangles.
    Winding,
    /// The outputs of a batch's third vertex.
    BatchOutput,
    /// The place behind a batch's last output.
    BatchOverrun,
    /// The exit of a batch is that of its last vertex.
    BatchExit,
    /// Registers are not carried from vertex to vertex in a batch.
    BatchCarry,
    /// A panic.
    Panic,
}

struct Faulty {
    fault: Fault,
    honest: Arc<dyn Kernel>,
    with_dp4: bool,
    with_loop: bool,
}

impl Backend for Fault {
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        let has = |op| program.insts().any(|(_, inst)| picajit::isa::encode::opcode(&inst) == Some(op));
        Ok(Arc::new(Faulty {
            fault: *self,
            honest: Interp.compile(program, entry, config)?,
            with_dp4: has(Opcode::Dp4),
            with_loop: has(Opcode::Loop),
        }))
    }
}

/// Passes triangles on, wrongly.
struct Meddler<'a> {
    fault: Fault,
    seen: usize,
    to: &'a mut dyn Emitter,
}

impl Emitter for Meddler<'_> {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.seen += 1;
        match self.fault {
            Fault::Triangle if self.seen == 2 => {}
            Fault::Winding => self.to.triangle(vertices, false),
            _ => self.to.triangle(vertices, winding),
        }
    }
}

impl Kernel for Faulty {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        let exit = self.honest.run(uniforms, unit, &mut Meddler { fault: self.fault, seen: 0, to: emitter });
        match self.fault {
            Fault::OneBit if self.with_dp4 => unit.r[3][2] = f32::from_bits(unit.r[3][2].to_bits() ^ 1),
            Fault::LoopCounter if self.with_loop => unit.al = unit.al.wrapping_add(1),
            Fault::Flag => unit.cmp[1] = false,
            Fault::OtherBank => unit.o[usize::from(!unit.bank & 1)][15][3] = 0.25,
            Fault::Bank => unit.bank &= 1,
            Fault::Slot => unit.slots[3][7][0] = -0.0,
            Fault::Exit if exit == Exit::Fuel => return Exit::End,
            // Without the message that `panic!` prints each time.
            Fault::Panic => std::panic::resume_unwind(Box::new("on purpose")),
            _ => {}
        }
        exit
    }

    fn run_batch(&self, uniforms: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>, to: &mut dyn Emitter) -> Exit {
        let before = unit.clone();
        let exit = self.honest.run_batch(uniforms, unit, batch, to);
        let count = batch.inputs.len();
        match self.fault {
            Fault::BatchOutput if count > 2 => batch.outputs[2][1][1] = 99.0,
            Fault::BatchOverrun => {
                let last = batch.outputs[count - 1].to_vec();
                batch.outputs[count].copy_from_slice(&last);
            }
            Fault::BatchExit | Fault::BatchCarry => {
                let (mut alone, mut scratch) = (before, [[[0.0; 4]; 16]]);
                let inputs = batch.inputs.part(count - 1..count);
                let mut last = Batch { inputs, outputs: (&mut scratch).into(), ..*batch };
                let last_exit = self.honest.run_batch(uniforms, &mut alone, &mut last, &mut picajit::state::NoEmitter);
                if let Fault::BatchExit = self.fault {
                    return last_exit;
                }
                unit.r = alone.r;
            }
            _ => {}
        }
        exit
    }
}

#[test]
fn every_kind_of_wrong_engine_is_caught() {
    use Fault::*;
    let faults = [
        OneBit,
        LoopCounter,
        Flag,
        OtherBank,
        Bank,
        Slot,
        Exit,
        Triangle,
        Winding,
        BatchOutput,
        BatchOverrun,
        BatchExit,
        BatchCarry,
        Panic,
    ];
    let places = [
        "r3.z",
        "aL",
        "cmp.y",
        "o15.w (bank",
        "bank",
        "o7.x (slot 3)",
        "exit",
        "triangle",
        "inverted",
        "output o1.y",
        "after the batch",
        "exit",
        "r",
        "a panic",
    ];
    for (fault, place) in faults.into_iter().zip(places) {
        let engines = [INTERP, Engine { name: "faulty", backend: &fault }];
        let plan = Plan { seed: 77, programs: 1500, vertices: 9, ..Plan::default() };
        let Some(divergence) = sweep(&plan, &engines, &mut |_| ()).divergence else {
            panic!("{fault:?} goes unnoticed")
        };
        assert_eq!(divergence.engine, "faulty", "{divergence:?}");
        let found = match &divergence.found {
            Found::Difference(difference) => difference.to_string(),
            Found::Panic(message) => format!("a panic: {message}"),
        };
        assert!(found.contains(place), "{fault:?}: {found}");
        let summary = divergence.summary();
        assert!(summary.starts_with("faulty") && divergence.case.name.starts_with("seed "), "{summary}");
    }
}

#[test]
fn a_sweep_is_the_same_on_any_number_of_threads() {
    let faulty = [INTERP, Engine { name: "faulty", backend: &Fault::OneBit }];
    let mut seen = Vec::new();
    for threads in [1, 2, 5] {
        let plan = Plan { seed: 9, programs: 300, vertices: 4, threads, ..Plan::default() };
        let clean = sweep(&plan, &[INTERP], &mut |_| ());
        assert!(clean.divergence.is_none() && clean.stats.programs == 300);
        let found = sweep(&plan, &faulty, &mut |_| ());
        let divergence = found.divergence.expect("there are many DP4 in 300 programs");
        seen.push((clean.stats, found.stats, divergence.case.name.clone(), divergence.summary()));
    }
    assert!(seen[0] == seen[1] && seen[1] == seen[2], "{seen:?}");
}

#[test]
fn a_plan_makes_the_same_programs_in_every_number_format() {
    let all = Precision::ALL.to_vec();
    let plan = Plan { precisions: all.clone(), ..Plan::default() };
    for n in 0..20 {
        let cases = plan.cases(n);
        let one = &Plan::default().cases(n)[0];
        assert!(cases.iter().all(|case| case.program == one.program && case.config.fuel == one.config.fuel));
        assert_eq!(cases.iter().map(|case| case.config.precision).collect::<Vec<_>>(), all);
    }
}
