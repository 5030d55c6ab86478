//! Random programs, singly and after one another: what `Analysis` says of a program holds for runs
//! of the interpreter.
//!
//! The short form has 20,000 runs; `PICAJIT_FULL=1` makes a million, `PICAJIT_ANALYSIS=N` as many.

mod extent;

use picajit::analysis::{Analysis, RegisterSet};
use picajit::internals::interp::InterpKernel;
use picajit::internals::ir::analysis::{Dependence, RegisterUse};
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::kernel::copy_registers;
use picajit::isa::Stage;
use picajit::isa::numeric::same;
use picajit::state::{EmitState, Emitter, Exit, Registers, Uniforms, Unit};
use picajit_fuzz::case_from_seed;

/// What a host sees of a run.
#[derive(Default)]
struct Seen {
    /// Outputs at the end of a vertex, emitted vertices and triangles.
    registers: Vec<Registers>,
    parameters: Vec<EmitState>,
    exit: Option<Exit>,
    /// Instructions that it executed.
    instructions: u64,
}

impl Emitter for Seen {
    fn vertex(&mut self, outputs: &Registers, how: EmitState) {
        self.registers.push(*outputs);
        self.parameters.push(how);
    }

    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.registers.extend(vertices);
        self.parameters.push(EmitState { winding, ..EmitState::default() });
    }
}

impl Seen {
    fn of(kernel: &InterpKernel, stage: Stage, uniforms: &Uniforms, unit: &mut Unit) -> Seen {
        let (mut seen, mut instructions) = (Seen::default(), 0);
        let exit = kernel.run_traced(uniforms, unit, &mut seen, &mut |_| instructions += 1);
        (seen.exit, seen.instructions) = (Some(exit), instructions);
        if stage == Stage::Vertex && matches!(exit, Exit::End | Exit::PastEnd) {
            seen.registers.push(*unit.outputs());
        }
        seen
    }

    /// Whether a host sees the same. Any NaN equals any NaN.
    fn equals(&self, other: &Seen) -> bool {
        let numbers = |seen: &Seen| seen.registers.concat().concat();
        let (a, b) = (numbers(self), numbers(other));
        self.exit == other.exit
            && self.parameters == other.parameters
            && a.len() == b.len()
            && a.iter().zip(&b).all(|(a, b)| same(*a, *b))
    }
}

/// The unit that a run left, but with the registers of `carried` as before it.
fn without_carried(left: &Unit, before: &Unit, carried: RegisterSet) -> Unit {
    let mut unit = left.clone();
    for n in 0..16 {
        for c in (0..4).filter(|c| carried.temp(n) >> c & 1 != 0) {
            unit.r[usize::from(n)][c] = before.r[usize::from(n)][c];
        }
        for c in (0..4).filter(|c| carried.output(n) >> c & 1 != 0) {
            (0..2).for_each(|bank| unit.o[bank][usize::from(n)][c] = before.o[bank][usize::from(n)][c]);
        }
    }
    let has = |state: u8| carried.state & state != 0;
    for n in 0..2 {
        if has([RegisterSet::A0_X, RegisterSet::A0_Y][n]) {
            unit.a0[n] = before.a0[n];
        }
        if has([RegisterSet::CMP_X, RegisterSet::CMP_Y][n]) {
            unit.cmp[n] = before.cmp[n];
        }
    }
    if has(RegisterSet::A_L) {
        unit.al = before.al;
    }
    if has(RegisterSet::SETEMIT) {
        unit.setemit = before.setemit;
    }
    if has(RegisterSet::SLOTS) {
        unit.slots = before.slots;
    }
    unit
}

#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    analysed: u64,
    independent: u64,
    emitted: u64,
    dependent: u64,
    grouped: u64,
}

/// Whether two units are the same but for inputs and slots.
fn same_unit(a: &Unit, b: &Unit) -> bool {
    let numbers = |unit: &Unit| [unit.r, unit.o[0], unit.o[1]].concat().concat();
    let numbers_equal = numbers(a).iter().zip(&numbers(b)).all(|(a, b)| same(*a, *b));
    numbers_equal && (a.a0, a.al, a.cmp, a.bank, a.setemit) == (b.a0, b.al, b.cmp, b.bank, b.setemit)
}

/// Compares the analysis of one program with five runs.
fn check(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let case = case_from_seed(seed, None, 3);
    let Ok(analysis) = Analysis::new(&case.program, case.entry) else { return Ok(()) };
    tally.analysed += 1;
    tally.independent += u64::from(analysis.is_independent());
    let (kernel, stage) = (case.interp(), case.entry.stage);
    let mut before = case.unit.clone();
    // Components that no run writes may differ between the banks.
    before.o[1] = before.o[0];
    let (first, last) = (&case.inputs[0], &case.inputs[case.inputs.len() - 1]);
    let load = |unit: &mut Unit, input: &Registers| copy_registers(case.input_mask, input, &mut unit.v);
    let run = |unit: &mut Unit, uniforms: &Uniforms| Seen::of(&kernel, stage, uniforms, unit);

    let mut left = before.clone();
    load(&mut left, first);
    let earlier = run(&mut left, &case.uniforms);
    let mut alone = before.clone();
    load(&mut alone, last);
    let start = alone.clone();
    let want = run(&mut alone, &case.uniforms);
    for seen in [&earlier, &want] {
        let (least, most) = (analysis.shortest_path.unwrap_or(0), analysis.longest_path.unwrap_or(u64::MAX));
        if seen.instructions > most || seen.exit == Some(Exit::End) && seen.instructions < least {
            return Err(format!("{} instructions, not {least} to {most}", seen.instructions));
        }
    }
    if stage == Stage::Vertex {
        let changes = |n: usize| (0..4).any(|c| !same(alone.outputs()[n][c], before.outputs()[n][c]));
        if let Some(n) = (0..16).find(|&n| analysis.outputs >> n & 1 == 0 && changes(n)) {
            return Err(format!("o{n} is written"));
        }
    }

    // After another run, of which only the registers that carry are undone.
    let mut after = without_carried(&left, &before, analysis.carried);
    after.v = start.v;
    let mut uniforms = case.uniforms.clone();
    // The hardware sets it after each invocation.
    if stage == Stage::Geometry && analysis.carried.state & RegisterSet::B15 == 0 {
        uniforms.b |= 1 << 15;
    }
    let got = run(&mut after, &uniforms);
    if !want.equals(&got) {
        return Err(format!("it depends on an earlier run, not on {} alone", analysis.carried));
    }
    // With these as well, which shows that the check above matters.
    left.v = start.v;
    tally.dependent += u64::from(!want.equals(&run(&mut left, &case.uniforms)));

    // Code for groups of invocations relies on this: an invocation that ends emits the same after another
    // one, as many vertices as that one, and two of them leave the unit that they find whatever it is.
    let registers = Cfg::build(&case.program, case.entry, Limits::default()).map(|cfg| RegisterUse::new(&cfg));
    if let Ok(RegisterUse { dependence: Some(Dependence::Emits), carried, .. }) = registers
        && carried == RegisterSet::NONE
        && analysis.divergent_branches == 0
        && want.exit == Some(Exit::End)
    {
        let order = |unit: &mut Unit, inputs: &[&Registers]| {
            let run = |input: &&Registers| {
                load(unit, input);
                unit.slots = before.slots;
                run(unit, &case.uniforms)
            };
            inputs.iter().map(run).collect::<Vec<_>>()
        };
        let (mut pair, mut longer) = (before.clone(), before.clone());
        let seen = order(&mut pair, &[first, last]);
        let again = order(&mut longer, &[last, first, first, last]);
        if !want.equals(&seen[1]) || !again[0].equals(&seen[1]) || !again[3].equals(&seen[1]) {
            return Err("an invocation emits other vertices after another one".into());
        }
        if seen[0].parameters != seen[1].parameters || !same_unit(&pair, &longer) {
            return Err("invocations take different paths, or leave another unit".into());
        }
        tally.grouped += u64::from(!want.parameters.is_empty());
    }

    // With other numbers in the inputs that it does not read.
    let mut other = start.clone();
    (0..16).filter(|n| analysis.inputs >> n & 1 == 0).for_each(|n| other.v[n] = [seed as f32, -1.5, f32::NAN, 7.0]);
    if !want.equals(&run(&mut other, &case.uniforms)) {
        return Err(format!("it reads other inputs than {:016b}", analysis.inputs));
    }
    tally.emitted += want.parameters.len() as u64;
    tally.runs += 5;
    Ok(())
}

#[test]
fn analyses_hold_for_random_runs() {
    if !extent::full() {
        extent::announce("short form: 20,000 runs; PICAJIT_FULL=1 makes a million");
    }
    let runs = extent::amount("PICAJIT_ANALYSIS", 20_000, 1_000_000);
    let mut tally = Tally::default();
    for seed in 1.. {
        if let Err(difference) = check(seed, &mut tally) {
            let case = case_from_seed(seed, None, 3);
            panic!("seed {seed}: {difference}, {:?} {:?}", case.entry, case.program.code());
        }
        if tally.runs >= runs {
            break;
        }
    }
    println!("{tally:?}");
    let Tally { analysed, independent, emitted, dependent, grouped, .. } = tally;
    assert!(100 * grouped >= analysed, "invocations that may run as groups: {tally:?}");
    let reached = [10 * independent, 10 * (analysed - independent), 10 * emitted, 10 * dependent];
    assert!(reached.iter().all(|&n| n >= analysed), "runs that reach everything: {tally:?}");
}
