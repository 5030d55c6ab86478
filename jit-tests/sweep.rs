//! Random programs on every engine, singly and in batches; and faulty engines that the comparison
//! must catch.

// The harness of the text files, for `seeded_faults`.
#[allow(dead_code)]
mod directive;
#[allow(dead_code)]
mod engines;
mod extent;
#[allow(dead_code)]
mod filetest;
mod hosted;
mod items;
#[allow(dead_code)]
mod outcome;
mod prerequisites;
mod special_values;

mod seeded_faults;

use picajit::internals::interp::Interp;
use picajit::internals::kernel::{Backend, Config, Kernel, OnUnits, UnitKernel, Unsupported};
use picajit::internals::tier0::{Cpu, Tier0};
use picajit::isa::Opcode;
use picajit::isa::numeric::Precision;
use picajit::program::{Entry, Program};
use picajit::state::{Batch, BatchExit, Emitter, Exit, Registers, Uniforms, Unit, copy_registers};
use picajit_fuzz::{Engine, Misbehaviour, Plan, Stats, Tier, case_from_bytes, case_from_seed, compare, shrink, sweep};
use std::sync::Arc;

/// Programs of a sweep: a short form by default, `complete` with `PICAJIT_FULL=1`, N with
/// `PICAJIT_SWEEP=N`.
fn size(complete: u64) -> u64 {
    static ANNOUNCED: std::sync::Once = std::sync::Once::new();
    let size = extent::amount("PICAJIT_SWEEP", 1_000, complete);
    if size < complete {
        ANNOUNCED.call_once(|| {
            extent::announce(&format!("short form: {size} programs a part; PICAJIT_FULL=1 runs up to {complete}"));
        });
    }
    size
}

/// Fewest programs whose statistics are checked.
const CHECKED: u64 = 1_000;

/// Executions of each opcode that a sweep of this size needs.
fn least_executions(programs: u64) -> u64 {
    if programs >= 3_000 { 200 } else { programs / 25 }
}

/// The statistics of a sweep without divergence. A divergence is shrunk, printed, and fails the
/// test.
fn clean_sweep(plan: &Plan, engines: &[Engine<'_>]) -> Stats {
    let swept = sweep(plan, engines, &mut |_| ());
    if let Some(divergence) = swept.divergence {
        println!("{divergence:?}");
        panic!("{}", picajit_fuzz::report(&shrink(divergence, engines), engines));
    }
    swept.stats
}

const INTERP: Engine<'static> = Engine { name: "interp", backend: &Interp };
const TIER0: Engine<'static> = Engine { name: "tier0", backend: &Tier0::new(Cpu::Detected) };
const TIER0_BASELINE: Engine<'static> = Engine { name: "tier0-baseline", backend: &Tier0::new(Cpu::Baseline) };

/// The fixed-seed sweep, in six parts so that the test runner spreads it over the cores. A case
/// has 1 to 31 vertices, 16 on average, so that batches of 17 and more occur.
#[cfg(feature = "jit")]
fn native_sweep(part: u64) {
    use picajit::internals::jit::{Interleave, Jit, Settings, Variant};
    use picajit_fuzz::percent;
    use picajit_fuzz::stats::EngineStats;
    // Every second part interleaves two groups wherever that is possible. The last two have
    // programs made for groups only.
    let groups_only = part >= 4;
    let (groups, name) = if part.is_multiple_of(2) { (Interleave::Auto, "batch") } else { (Interleave::On, "batch8") };
    let settings = Settings { batch_threshold: 0, interleave: groups, count_bailouts: true, ..Settings::default() };
    let jit = |variant| match Jit::with(variant, settings.clone()) {
        Ok(jit) => Some(jit.with_fallback(Arc::new(Interp))),
        Err(reason) => {
            prerequisites::skipped(&format!("engines of native code: {reason}"));
            None
        }
    };
    let (Some(batch), Some(unoptimised)) = (jit(Variant::Batch), jit(Variant::Unoptimised)) else { return };
    let hosted = hosted::Hosted::new(batch.clone());
    let mut engines = vec![Engine { name, backend: &*batch }, Engine { name: "unoptimised", backend: &*unoptimised }];
    if part == 3 {
        engines.push(Engine { name: "batch8-hosted", backend: &hosted });
    }
    let (programs, tier) = if groups_only { (size(5_000) / 2, Some(Tier::Groups)) } else { (size(5_000), None) };
    let plan = Plan { seed: (part + 1) << 32, programs, tier, ..Plan::default() };
    let stats = clean_sweep(&plan, &engines);
    println!("{stats}");
    if groups_only && plan.programs >= CHECKED / 2 {
        // In float24 a special value in a uniform is beyond the band, so no group runs.
        assert!(percent(stats.engines[0].grouped, stats.comparisons) >= 33.0, "{stats}");
        stats.engines[0].check_bailouts(plan.programs / 250).unwrap_or_else(|rare| panic!("{rare}\n{stats}"));
        // Enough of them emit.
        assert!(percent(stats.engines[0].emitting, stats.comparisons) >= 3.0, "{stats}");
        // Enough of them have components that some vertices write and others keep.
        let EngineStats { kept, kept_outputs, kept_bailouts, .. } = stats.engines[0];
        for (count, least) in [(kept, 5.0), (kept_outputs, 2.0), (kept_bailouts, 1.5)] {
            assert!(percent(count, stats.comparisons) >= least, "{stats}");
        }
    } else if plan.programs >= CHECKED {
        // Native code rejects few programs, and only for the size of their control flow.
        assert!(stats.native_share() >= 0.97, "{stats}");
        stats.check(least_executions(plan.programs)).unwrap();
        // Enough programs run vertices as groups, and some of those diverge and bail out.
        assert!(percent(stats.engines[0].grouped, stats.comparisons) >= 5.0, "{stats}");
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
    #[test]
    fn groups() {
        super::native_sweep(4);
    }
    #[test]
    fn interleaved_groups() {
        super::native_sweep(5);
    }
}

#[test]
fn random_programs_are_varied_and_run_the_same_on_both_interpreters() {
    let plan = Plan { programs: size(3000), vertices: 17, ..Plan::default() };
    let hosted = hosted::Hosted::new(Arc::new(Tier0::default()));
    let hosted = Engine { name: "tier0-hosted", backend: &hosted };
    let stats = clean_sweep(&plan, &[TIER0, INTERP, TIER0_BASELINE, hosted]);
    println!("{stats}");
    assert!(stats.engines[0].grouped > 0, "{stats}");
    if plan.programs >= CHECKED {
        stats.check(least_executions(plan.programs)).unwrap();
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

/// Faults of an engine.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// One component of one temporary is off by one unit in the last place, if the program has
    /// `DP4`.
    OneBit,
    /// aL after a loop is wrong.
    LoopCounter,
    /// A flag is wrong.
    Flag,
    /// The inactive output bank is written.
    OtherBank,
    /// The bank number is wrong.
    Bank,
    /// A vertex slot is wrong.
    Slot,
    /// `END` where the fuel ran out.
    Exit,
    /// A triangle is missing.
    Triangle,
    /// The winding of triangles is wrong.
    Winding,
    /// The outputs of a batch's third vertex are wrong.
    BatchOutput,
    /// A batch writes after its last output.
    BatchOverrun,
    /// The exit of a batch is that of its last vertex.
    BatchExit,
    /// Registers are not carried from vertex to vertex in a batch.
    BatchCarry,
    /// An output that a vertex keeps is that of the vertex before the last writer.
    KeptVertex,
    /// A vertex that writes the next component of an output does not keep this one.
    KeptComponent,
    /// Every eighth vertex, as after a bailout, keeps the outputs that the batch began with.
    KeptBailout,
    /// The same for all vertices of a batch that preserves the unit.
    KeptPreserved,
    /// The engine panics.
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
        let has = |op| program.insts().any(|(_, inst)| inst.opcode() == Some(op));
        Ok(Arc::new(OnUnits(Faulty {
            fault: *self,
            honest: Interp.compile(program, entry, config)?,
            with_dp4: has(Opcode::Dp4),
            with_loop: has(Opcode::Loop),
        })))
    }
}

/// Forwards triangles, with a fault.
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

impl UnitKernel for Faulty {
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

    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        to: &mut dyn Emitter,
    ) -> BatchExit {
        let before = unit.clone();
        if let Fault::KeptVertex | Fault::KeptComponent | Fault::KeptBailout | Fault::KeptPreserved = self.fault {
            let exit = self.honest.run_batch(uniforms, unit, batch, to);
            self.misplace_kept_outputs(uniforms, &before, batch);
            return exit;
        }
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
                    return BatchExit { exit: last_exit.exit, ..exit };
                }
                unit.r = alone.r;
            }
            _ => {}
        }
        exit
    }
}

impl Faulty {
    /// The components of outputs that vertex `n` of a batch writes, four bits for each register.
    fn written(&self, uniforms: &Uniforms, before: &Unit, batch: &Batch<'_>, n: usize) -> u64 {
        let other = Unit { o: before.o.map(|bank| bank.map(|o| o.map(|x| x + 1.0 + x.abs()))), ..before.clone() };
        let [a, b] = [before, &other].map(|unit| {
            let mut unit = unit.clone();
            copy_registers(batch.input_mask, &batch.inputs[n], &mut unit.v);
            self.honest.run(uniforms, &mut unit, &mut picajit::state::NoEmitter);
            unit.outputs().as_flattened().iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
        });
        a.iter().zip(&b).enumerate().filter(|(_, (a, b))| a == b).fold(0, |mask, (c, _)| mask | 1 << c)
    }

    fn misplace_kept_outputs(&self, uniforms: &Uniforms, before: &Unit, batch: &mut Batch<'_>) {
        let wanted = batch.output_mask;
        let mut written_before = 0;
        for n in 0..batch.len() {
            let written = self.written(uniforms, before, batch, n);
            for place in (0..64).filter(|place| written >> place & 1 == 0 && wanted >> (place / 4) & 1 != 0) {
                let (k, c) = (place / 4, place % 4);
                let initial = before.outputs()[k][c];
                match self.fault {
                    Fault::KeptVertex if n > 1 && written_before >> place & 1 != 0 => {
                        batch.outputs[n][k][c] = batch.outputs[n - 2][k][c];
                    }
                    Fault::KeptComponent if c < 3 && written >> (place + 1) & 1 != 0 => {
                        batch.outputs[n][k][c] = initial
                    }
                    Fault::KeptBailout if n % 8 == 4 => batch.outputs[n][k][c] = initial,
                    Fault::KeptPreserved if batch.preserve_unit => batch.outputs[n][k][c] = initial,
                    _ => {}
                }
            }
            written_before = written;
        }
    }
}

#[test]
fn every_kind_of_faulty_engine_is_caught() {
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
        KeptVertex,
        KeptComponent,
        KeptBailout,
        KeptPreserved,
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
        "output o",
        "output o",
        "output o",
        "output o",
        "a panic",
    ];
    for (fault, place) in faults.into_iter().zip(places) {
        let engines = [INTERP, Engine { name: "faulty", backend: &fault }];
        let plan = Plan { seed: 77, programs: 1500, vertices: 9, ..Plan::default() };
        let Some(divergence) = sweep(&plan, &engines, &mut |_| ()).divergence else {
            panic!("{fault:?} is not caught")
        };
        assert_eq!(divergence.engine, "faulty", "{divergence:?}");
        let found = match &divergence.found {
            Misbehaviour::Difference(difference) => difference.to_string(),
            Misbehaviour::Panic(message) => format!("a panic: {message}"),
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
