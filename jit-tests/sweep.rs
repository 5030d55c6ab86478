//! Seeds -> cases -> every engine against the interpreter, and what those cases were like.
//!
//! The statistics are half of the result: a sweep whose programs all stop at once proves nothing, so
//! [`Stats::check`] says where the programs were too poor. Test targets and fuzz targets include this file; its parts are
//! its children. It must not know which engines there are.

#![allow(dead_code)] // several targets include it, each using a part

#[path = "case.rs"]
pub mod case;
#[path = "choice.rs"]
pub mod choice;
#[path = "compare.rs"]
pub mod compare;
#[path = "gen.rs"]
pub mod generate;

use compare::{Divergence, Engine, compare, shrink};
use picajit::isa::encode::opcode;
use picajit::isa::table::ROWS;
use picajit::isa::{Inst, Opcode, Src};
use picajit::kernel::Unsupported;
use picajit::state::Exit;
use std::collections::BTreeMap;
use std::fmt;

/// What the programs of a sweep did.
#[derive(Default)]
pub struct Stats {
    /// Programs run.
    pub programs: u64,
    /// Vertices run, on each engine once alone and several times in batches.
    pub vertices: u64,
    /// Triangles sent, on the interpreter.
    pub triangles: u64,
    /// How often each opcode was executed, first vertex of each program.
    pub opcodes: BTreeMap<Opcode, u64>,
    /// Words without a meaning executed, likewise.
    pub undefined: u64,
    /// How the vertices ended: `End`, `Fuel`, `BreakOutsideLoop`, `PastEnd`.
    pub exits: [u64; 4],
    /// Programs that took a condition, ran a loop's body, used relative addressing, emitted, pushed on a full ring, wrote
    /// outputs that depend on nothing before (first vertex).
    pub with: [u64; 6],
    /// For every engine by name: programs compiled, and those refused by reason.
    pub engines: Vec<(String, u64, BTreeMap<&'static str, u64>)>,
}

const EXITS: [Exit; 4] = [Exit::End, Exit::Fuel, Exit::BreakOutsideLoop, Exit::PastEnd];
const WITH: [&str; 6] =
    ["branches", "loops", "relative addressing", "emits", "forgotten scopes", "outputs of their own vertex alone"];
/// Least percentage of each.
const WITH_LEAST: [f64; 6] = [30.0, 20.0, 30.0, 5.0, 2.0, 10.0];

/// How many programs a sweep is to run: `usual`, or what the environment variable `PICAJIT_SWEEP` says.
pub fn size(usual: u64) -> u64 {
    std::env::var("PICAJIT_SWEEP").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Runs `programs` random programs with at most `vertices` vertices each on every engine. The cases of a seed are the same
/// whatever the engines are. Returns the first divergence, shrunk.
pub fn sweep(seed: u64, programs: u64, vertices: u32, engines: &[Engine<'_>]) -> Result<Stats, Box<Divergence>> {
    let engine_stats = engines.iter().map(|(name, _)| (name.to_string(), 0, BTreeMap::new())).collect();
    let mut stats = Stats { engines: engine_stats, ..Stats::default() };
    for n in 0..programs {
        let case = generate::case_from_seed(seed.wrapping_add(n), vertices);
        stats.look_at(&case);
        let outcome = compare(&case, engines).map_err(|divergence| {
            let engine = engines.iter().find(|(name, _)| *name == divergence.engine);
            shrink(divergence, *engine.expect("it is one of those that ran"))
        })?;
        stats.programs += 1;
        stats.vertices += outcome.exits.len() as u64;
        stats.triangles += outcome.triangles as u64;
        outcome.exits.iter().for_each(|&exit| stats.exits[exit as usize] += 1);
        for ((_, compiled, refused), unsupported) in stats.engines.iter_mut().zip(&outcome.refused) {
            match unsupported {
                None => *compiled += 1,
                Some(reason) => *refused.entry(reason_name(reason)).or_default() += 1,
            }
        }
    }
    Ok(stats)
}

fn reason_name(reason: &Unsupported) -> &'static str {
    match reason {
        Unsupported::HostIsa { .. } => "host",
        Unsupported::NoExecMemory { .. } => "no executable memory",
        Unsupported::TooManyStates { .. } => "too many states",
        Unsupported::TooManyBlocks { .. } => "too many blocks",
        Unsupported::Codegen { .. } => "code generator",
        _ => "another",
    }
}

impl Stats {
    /// Counts what the first vertex of `case` executes.
    fn look_at(&mut self, case: &case::Case) {
        let mut with = [false; 6];
        let mut full = [false; 3];
        compare::trace(case, &mut |step| {
            match opcode(step.inst) {
                Some(opcode) => *self.opcodes.entry(opcode).or_default() += 1,
                None => self.undefined += 1,
            }
            let relative = |src: &[Src]| src.iter().any(|s| s.relative().is_some());
            match step.inst {
                Inst::If { .. } | Inst::Jump { .. } | Inst::Breakc { .. } | Inst::Call { test: Some(_), .. } => {
                    with[0] = true;
                }
                Inst::Loop { .. } => with[1] = true,
                Inst::Alu(alu) => with[2] |= relative(alu.sources()),
                Inst::Cmp { src, .. } => with[2] |= relative(src),
                Inst::Mova { src, .. } => with[2] |= relative(std::slice::from_ref(src)),
                Inst::Emit => with[3] |= case.entry.stage == picajit::isa::Stage::Geometry,
                _ => {}
            }
            // A ring that was full and whose newest entry is the one that this instruction opens has forgotten one.
            let scopes = step.scopes;
            let lens = [scopes.calls.is_full(), scopes.ifs.is_full(), scopes.loops.is_full()];
            with[4] |= match step.inst {
                Inst::Call { .. } => full[0] && scopes.calls.top().is_some_and(|call| call.ret == step.pc + 1),
                Inst::If { target, .. } => {
                    full[1] && scopes.ifs.top().is_some_and(|s| s.end == *target) && step.next == Some(step.pc + 1)
                }
                Inst::Loop { .. } => full[2],
                _ => false,
            };
            full = lens;
        });
        with[5] = compare::is_independent(case);
        for (count, with) in self.with.iter_mut().zip(with) {
            *count += u64::from(with);
        }
    }

    fn percent(part: u64, whole: u64) -> f64 {
        part as f64 * 100.0 / whole.max(1) as f64
    }

    /// The smallest share of programs that an engine did not refuse.
    pub fn native_share(&self) -> f64 {
        let compiled = self.engines.iter().map(|(_, compiled, _)| *compiled).min().unwrap_or(0);
        compiled as f64 / self.programs.max(1) as f64
    }

    /// Whether the programs were varied enough for the sweep to mean something: each opcode executed at least
    /// `each_opcode` times, all exits seen, neither nearly all nor hardly any runs ended by `END`, and every kind of
    /// program there in numbers.
    pub fn check(&self, each_opcode: u64) -> Result<(), String> {
        for row in &ROWS {
            let count = self.opcodes.get(&row.opcode).copied().unwrap_or(0);
            if count < each_opcode {
                return Err(format!("{} was executed {count} times only, not {each_opcode}\n{self}", row.mnemonic));
            }
        }
        if self.undefined == 0 {
            return Err(format!("no undefined word was executed\n{self}"));
        }
        if let Some(n) = self.exits.iter().position(|&count| count == 0) {
            return Err(format!("no run ended with {:?}\n{self}", EXITS[n]));
        }
        let ended = Self::percent(self.exits[Exit::End as usize], self.vertices);
        if !(30.0..=95.0).contains(&ended) {
            return Err(format!("{ended:.1} % of the runs ended with END\n{self}"));
        }
        for ((what, &count), least) in WITH.iter().zip(&self.with).zip(WITH_LEAST) {
            if Self::percent(count, self.programs) < least {
                return Err(format!("only {count} programs with {what}\n{self}"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} programs, {} vertices, {} triangles", self.programs, self.vertices, self.triangles)?;
        let executed: u64 = self.opcodes.values().sum();
        writeln!(f, "executed for the first vertices: {executed} instructions, {} undefined words", self.undefined)?;
        for rows in ROWS.chunks(13) {
            let counts = rows.iter().map(|row| (row.mnemonic, self.opcodes.get(&row.opcode).copied().unwrap_or(0)));
            let line: Vec<String> = counts.map(|(mnemonic, count)| format!("{mnemonic} {count}")).collect();
            writeln!(f, "  {}", line.join(", "))?;
        }
        for (exit, &count) in EXITS.iter().zip(&self.exits) {
            writeln!(f, "exit {exit:?}: {:.1} %", Self::percent(count, self.vertices))?;
        }
        for (what, &count) in WITH.iter().zip(&self.with) {
            writeln!(f, "programs with {what}: {:.1} %", Self::percent(count, self.programs))?;
        }
        for (name, compiled, refused) in &self.engines {
            writeln!(f, "{name}: {:.2} % compiled, refused: {refused:?}", Self::percent(*compiled, self.programs))?;
        }
        Ok(())
    }
}
