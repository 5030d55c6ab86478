//! Statistics of a sweep's programs. A sweep whose programs all stop at once proves nothing;
//! [`Stats::check`] fails if the programs lack variety.
//!
//! Invariant: adding parts in any order gives the same numbers.

use super::case::Case;
use super::compare::{Agreement, Engine};
use picajit::internals::flow::Scopes;
use picajit::internals::interp::Step;
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::kernel::Kernel;
use picajit::isa::table::{ROWS, Row};
use picajit::isa::{Index, Inst, Opcode, Pc, Src, Stage};
use picajit::program::Program;
use picajit::state::{Exit, NoEmitter, Unit};
use std::collections::BTreeMap;
use std::fmt;

/// Exits of a run, and their names.
pub const EXITS: [(Exit, &str); 4] = [
    (Exit::End, "end"),
    (Exit::Fuel, "fuel"),
    (Exit::BreakOutsideLoop, "break outside of a loop"),
    (Exit::PastEnd, "past the last word"),
];

/// Properties of programs (counted for the first vertex), and the least percentage of each in a
/// sweep.
pub const TRAITS: [(&str, f64); 19] = [
    ("a condition", 30.0),
    ("a loop", 18.0),
    ("a loop in a loop", 4.0),
    ("a break that is taken", 2.0),
    ("a call", 15.0),
    ("a call in a call", 4.0),
    ("calls that share an end", 1.0),
    ("a jump into a scope that is not open", 2.0),
    ("a forgotten scope", 2.0),
    ("an address of a0.x", 10.0),
    ("an address of a0.y", 10.0),
    ("an address of aL", 10.0),
    ("setemit", 5.0),
    ("emit", 5.0),
    ("a triangle", 2.0),
    ("infinities or NaN in their results", 10.0),
    ("outputs that depend on no earlier vertex", 10.0),
    ("too many states for a graph", 0.2),
    ("a forgotten scope in vertices that differ and are independent", 0.2),
];

/// Least percentage of each opcode among the instructions executed. `END` ends a run and `BREAK` a
/// loop, so these two are rarer than others.
const LEAST_SHARE: f64 = 0.05;

/// Statistics of one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Its name.
    pub name: String,
    /// Programs that it compiled.
    pub compiled: u64,
    /// Programs that it rejected, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Programs with vertices that ran as groups.
    pub grouped: u64,
    /// Programs that emit, the same.
    pub emitting: u64,
    /// Programs with groups that bailed out.
    pub bailouts: u64,
    /// Programs with a deoptimised run.
    pub deoptimised: u64,
    /// Programs with groups in which some vertices keep components that others write.
    pub kept: u64,
    /// The same with components of outputs.
    pub kept_outputs: u64,
    /// The same, and groups bailed out.
    pub kept_bailouts: u64,
    /// Programs with a bailout at each place where batch code may have one.
    pub bailout_reasons: BTreeMap<&'static str, u64>,
}

/// Statistics of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Programs generated.
    pub programs: u64,
    /// Comparisons: each program once for every number format.
    pub comparisons: u64,
    /// Vertices compared, each on all engines, alone and in batches.
    pub vertices: u64,
    /// Triangles emitted on the interpreter.
    pub triangles: u64,
    /// How often each row of [`ROWS`] was executed, first vertex of each program.
    opcodes: [u64; ROWS.len()],
    /// Undefined words executed, likewise.
    pub undefined: u64,
    /// Vertices by exit, in the order of [`EXITS`].
    pub exits: [u64; EXITS.len()],
    /// Programs that have each of [`TRAITS`].
    pub traits: [u64; TRAITS.len()],
    /// The engines.
    pub engines: Vec<EngineStats>,
}

/// `part` of `whole` in percent.
pub fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

impl Stats {
    /// Empty statistics.
    pub fn new(engines: &[Engine<'_>]) -> Stats {
        let engines = engines.iter().map(|e| EngineStats { name: e.name.into(), ..EngineStats::default() }).collect();
        Stats {
            programs: 0,
            comparisons: 0,
            vertices: 0,
            triangles: 0,
            opcodes: [0; ROWS.len()],
            undefined: 0,
            exits: [0; EXITS.len()],
            traits: [0; TRAITS.len()],
            engines,
        }
    }

    /// Counts a program by the instructions of its first vertex.
    pub fn program(&mut self, case: &Case) {
        self.programs += 1;
        let mut watch = Watch::new(case);
        case.trace(&mut |step| {
            match step.inst.opcode().and_then(row_number) {
                Some(row) => self.opcodes[row] += 1,
                None => self.undefined += 1,
            }
            watch.step(&step);
        });
        for (count, has) in self.traits.iter_mut().zip(watch.finish(case)) {
            *count += u64::from(has);
        }
    }

    /// Counts a comparison without divergence.
    pub fn comparison(&mut self, outcome: &Agreement) {
        self.comparisons += 1;
        self.vertices += outcome.exits.len() as u64;
        self.triangles += outcome.triangles;
        outcome.exits.iter().for_each(|&exit| self.exits[exit as usize] += 1);
        for (engine, rejected) in self.engines.iter_mut().zip(&outcome.rejected) {
            match rejected {
                None => engine.compiled += 1,
                Some(reason) => *engine.rejected.entry(reason.name()).or_default() += 1,
            }
        }
        for (engine, seen) in self.engines.iter_mut().zip(&outcome.seen) {
            engine.grouped += u64::from(seen.groups > 0);
            engine.emitting += u64::from(seen.groups > 0 && outcome.emitted > 0);
            engine.bailouts += u64::from(seen.bailouts > 0);
            engine.deoptimised += u64::from(seen.deoptimised > 0);
            let kept = seen.groups > 0 && seen.kept_sets > 0;
            engine.kept += u64::from(kept);
            engine.kept_outputs += u64::from(kept && seen.kept_outputs > 0);
            engine.kept_bailouts += u64::from(kept && seen.bailouts > 0);
            for (reason, count) in &seen.bailout_reasons {
                *engine.bailout_reasons.entry(reason).or_default() += u64::from(*count > 0);
            }
        }
    }

    /// Adds the counts of another part, on the same engines.
    pub fn add(&mut self, other: &Stats) {
        self.programs += other.programs;
        self.comparisons += other.comparisons;
        self.vertices += other.vertices;
        self.triangles += other.triangles;
        self.undefined += other.undefined;
        let sum = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        sum(&mut self.opcodes, &other.opcodes);
        sum(&mut self.exits, &other.exits);
        sum(&mut self.traits, &other.traits);
        for (to, from) in self.engines.iter_mut().zip(&other.engines) {
            to.compiled += from.compiled;
            to.grouped += from.grouped;
            to.emitting += from.emitting;
            to.bailouts += from.bailouts;
            to.deoptimised += from.deoptimised;
            to.kept += from.kept;
            to.kept_outputs += from.kept_outputs;
            to.kept_bailouts += from.kept_bailouts;
            from.rejected.iter().for_each(|(reason, count)| *to.rejected.entry(reason).or_default() += count);
            for (reason, count) in &from.bailout_reasons {
                *to.bailout_reasons.entry(reason).or_default() += count;
            }
        }
    }

    /// Every opcode and how often it was executed.
    pub fn opcodes(&self) -> impl Iterator<Item = (&'static Row, u64)> {
        ROWS.iter().zip(self.opcodes)
    }

    /// Instructions executed for first vertices.
    pub fn executed(&self) -> u64 {
        self.opcodes.iter().sum()
    }

    /// Number of opcodes executed at least once, and of different exits.
    pub fn coverage(&self) -> (usize, usize) {
        let some = |counts: &[u64]| counts.iter().filter(|&&count| count > 0).count();
        (some(&self.opcodes), some(&self.exits))
    }

    /// The smallest share of programs that an engine compiled; 1 without engines.
    pub fn native_share(&self) -> f64 {
        let share = |e: &EngineStats| e.compiled as f64 / self.comparisons.max(1) as f64;
        self.engines.iter().map(share).fold(1.0, f64::min)
    }

    /// Checks the variety of the programs: each opcode executed at least `each_opcode` times and in
    /// a fair share, all exits seen, neither nearly all nor hardly any runs ended by `END`, and
    /// enough programs with each of [`TRAITS`].
    pub fn check(&self, each_opcode: u64) -> Result<(), String> {
        for (row, count) in self.opcodes() {
            let share = percent(count, self.executed());
            if count < each_opcode || share < LEAST_SHARE {
                let least = format!("at least {each_opcode} and {LEAST_SHARE} %");
                return Err(format!("{} was executed {count} times, {share:.3} %, not {least}\n{self}", row.mnemonic));
            }
        }
        if self.undefined == 0 {
            return Err(format!("no undefined word was executed\n{self}"));
        }
        if let Some(n) = self.exits.iter().position(|&count| count == 0) {
            return Err(format!("no run ended with {}\n{self}", EXITS[n].1));
        }
        let ended = percent(self.exits[Exit::End as usize], self.vertices);
        if !(30.0..=95.0).contains(&ended) {
            return Err(format!("{ended:.1} % of the runs ended with END\n{self}"));
        }
        for ((what, least), &count) in TRAITS.iter().zip(&self.traits) {
            if percent(count, self.programs) < *least {
                return Err(format!("only {count} programs with {what}\n{self}"));
            }
        }
        Ok(())
    }
}

impl EngineStats {
    /// Checks that groups bailed out at every place where they may, at least in `each` programs.
    pub fn check_bailouts(&self, each: u64) -> Result<(), String> {
        let rare: Vec<String> = self
            .bailout_reasons
            .iter()
            .filter(|(_, count)| **count < each)
            .map(|(reason, count)| format!("{}: {count} programs bailed out by {reason}, fewer than {each}", self.name))
            .collect();
        if rare.is_empty() && !self.bailout_reasons.is_empty() { Ok(()) } else { Err(rare.join("\n")) }
    }
}

fn row_number(opcode: Opcode) -> Option<usize> {
    ROWS.iter().position(|row| row.opcode == opcode)
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { programs, comparisons, vertices, triangles, .. } = self;
        writeln!(f, "{programs} programs, {comparisons} comparisons, {vertices} vertices, {triangles} triangles")?;
        let executed = self.executed();
        writeln!(f, "executed for the first vertices: {executed} instructions, {} undefined words", self.undefined)?;
        let all: Vec<(&Row, u64)> = self.opcodes().collect();
        for rows in all.chunks(7) {
            let cell = |(row, count): &(&Row, u64)| format!("{:>7} {:5.2} %", row.mnemonic, percent(*count, executed));
            writeln!(f, "{}", rows.iter().map(cell).collect::<Vec<_>>().join(" "))?;
        }
        for ((_, name), &count) in EXITS.iter().zip(&self.exits) {
            writeln!(f, "{:6.2} % of the vertices end: {name}", percent(count, *vertices))?;
        }
        for ((what, _), &count) in TRAITS.iter().zip(&self.traits) {
            writeln!(f, "{:6.2} % of the programs have {what}", percent(count, *programs))?;
        }
        for engine in &self.engines {
            let EngineStats { name, compiled, rejected, grouped, bailouts, deoptimised, bailout_reasons, .. } = engine;
            let rejected: Vec<String> = rejected.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            let rejected = if rejected.is_empty() { "none".into() } else { rejected.join(", ") };
            writeln!(f, "{:6.2} % compiled by {name}; rejected: {rejected}", percent(*compiled, *comparisons))?;
            let seen = [
                (deoptimised, "deoptimised a run"),
                (grouped, "ran vertices as groups"),
                (&engine.emitting, "ran invocations that emit as groups"),
                (bailouts, "bailed out of a group"),
                (&engine.kept, "ran groups in which vertices keep what others write"),
                (&engine.kept_outputs, "ran groups in which vertices keep outputs"),
                (&engine.kept_bailouts, "bailed out of such a group"),
            ];
            for (count, what) in seen.into_iter().filter(|(count, _)| **count > 0) {
                writeln!(f, "{:6.2} % {what}", percent(*count, *comparisons))?;
            }
            for (reason, count) in bailout_reasons {
                writeln!(f, "{count:6} bailed out by {reason}")?;
            }
        }
        Ok(())
    }
}

/// Observes a program's execution for its [`TRAITS`].
struct Watch<'a> {
    has: [bool; TRAITS.len()],
    program: &'a Program,
    geometry: bool,
    before: Scopes,
}

impl<'a> Watch<'a> {
    fn new(case: &'a Case) -> Watch<'a> {
        let geometry = case.entry.stage == Stage::Geometry;
        Watch { has: [false; TRAITS.len()], program: &case.program, geometry, before: Scopes::default() }
    }

    fn step(&mut self, step: &Step<'_>) {
        let Step { pc, inst, unit, scopes, next, .. } = *step;
        let [
            condition,
            a_loop,
            nested,
            broke,
            call,
            deep,
            shared,
            into,
            forgotten,
            a0x,
            a0y,
            al,
            set,
            emit,
            triangle,
            ..,
        ] = &mut self.has;
        let sources: &[Src] = match inst {
            Inst::Alu(alu) => alu.sources(),
            Inst::Cmp { src, .. } => src,
            Inst::Mova { src, .. } => std::slice::from_ref(src),
            _ => &[],
        };
        for (_, index) in sources.iter().filter_map(Src::relative) {
            *a0x |= index == Index::A0x;
            *a0y |= index == Index::A0y;
            *al |= index == Index::AL;
        }
        let conditional = matches!(
            inst,
            Inst::If { .. } | Inst::Jump { .. } | Inst::Breakc { .. } | Inst::Call { test: Some(_), .. }
        );
        *condition |= conditional;
        *a_loop |= matches!(inst, Inst::Loop { .. });
        *nested |= scopes.loops.len() > 1;
        *broke |= matches!(inst, Inst::Break | Inst::Breakc { .. }) && next.is_some_and(|next| next != pc + 1);
        *call |= !scopes.calls.is_empty();
        *deep |= scopes.calls.len() > 1;
        let mut ends = scopes.calls.iter().map(|call| call.end);
        let innermost = scopes.calls.top().map(|call| call.end);
        *shared |= innermost.is_some_and(|end| ends.by_ref().filter(|&other| other == end).count() > 1);
        if let (Inst::Jump { target, .. }, false) = (inst, *into) {
            *into = next == Some(*target) && is_inside_something(self.program, *target, scopes);
        }
        // A full ring whose newest entry is the one that this instruction opens has dropped its
        // oldest.
        let full = [self.before.calls.is_full(), self.before.ifs.is_full(), self.before.loops.is_full()];
        *forgotten |= match inst {
            Inst::Call { .. } => full[0] && scopes.calls.top().is_some_and(|call| call.ret == pc + 1),
            Inst::If { target, .. } => {
                full[1] && scopes.ifs.top().is_some_and(|s| s.end == *target) && next == Some(pc + 1)
            }
            Inst::Loop { .. } => full[2],
            _ => false,
        };
        *set |= self.geometry && matches!(inst, Inst::Setemit(_));
        *emit |= self.geometry && *inst == Inst::Emit;
        *triangle |= self.geometry && *inst == Inst::Emit && unit.setemit.primitive;
        self.before = *scopes;
    }

    fn finish(mut self, case: &Case) -> [bool; TRAITS.len()] {
        let mut unit: Unit = case.unit_at(0);
        case.interp().run(&case.uniforms, &mut unit, &mut NoEmitter);
        let files = [&unit.r, &unit.o[0], &unit.o[1]];
        let wild = files.iter().any(|file| file.as_flattened().iter().any(|x| !x.is_finite()));
        let [.., forgotten, _, _, _, _, _, _, odd, independent, without_graph, divergent] = &mut self.has;
        (*odd, *independent) = (wild, case.is_independent());
        *without_graph = Cfg::build(&case.program, case.entry, Limits::default()).is_err();
        *divergent = *forgotten && *independent && case.has_divergent_vertices();
        self.has
    }
}

/// Whether `target` lies in the middle of an IF or loop of which no instance is open.
fn is_inside_something(program: &Program, target: Pc, open: &Scopes) -> bool {
    program.insts().any(|(pc, inst)| match inst {
        Inst::If { target: end, .. } => {
            (pc + 2..end).contains(&target) && !open.ifs.iter().any(|scope| scope.end == end)
        }
        Inst::Loop { last, .. } => {
            (pc + 2..=last).contains(&target) && !open.loops.iter().any(|scope| scope.start == pc + 1)
        }
        _ => false,
    })
}
