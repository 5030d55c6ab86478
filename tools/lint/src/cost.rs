//! A program, an entry and its constants -> what the code costs, counted in instructions.
//!
//! No cycle count of the hardware is published, so the unit is the instruction, and every figure of
//! time that is derived from it is an *estimate*.

use super::entry::constant_ints;
use super::{EntryPoint, Subject};
use picajit::internals::analysis::MOST_BLOCKS;
use picajit::internals::analysis::paths::{Iterations, Paths, executions};
use picajit::internals::ir::cfg::{Explored, Limits};
use picajit::internals::kernel::Unsupported;
use picajit::isa::Pc;
use std::collections::BTreeMap;

/// What is documented of the hardware's timing, for output beside the figures.
pub const TIMING: &str = "estimate: one step for each instruction. No cycle counts are published; 3dbrew says that a unit \
                          runs one instruction a step, in order";

/// The cost of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// No run that reaches an END executes fewer instructions; `None` if none does.
    pub shortest: Option<u64>,
    /// No run executes more; `None` if no bound is found.
    pub longest: Option<u64>,
    /// Each reachable word, ascending.
    pub words: Vec<WordCost>,
}

/// How often a run executes a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordCost {
    /// Its address.
    pub pc: Pc,
    /// Every run that ends executes it at least as often.
    pub least: u64,
    /// No run executes it more often; `None` if no bound is found.
    pub most: Option<u64>,
}

/// The cost of a source line: the sum over its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCost {
    /// Instructions that every run executes for this line.
    pub least: u64,
    /// Most instructions; `None` if no bound is found.
    pub most: Option<u64>,
}

impl Cost {
    /// The cost of an entry of `subject`.
    ///
    /// Fails if control flow has too many states.
    pub fn new(subject: &Subject<'_>, point: &EntryPoint<'_>) -> Result<Cost, Unsupported> {
        let explored = Explored::new(subject.program, point.entry, Limits::default().states)?;
        let paths = Paths::new(subject.program, &explored, &explored.cfg(MOST_BLOCKS)?, iterations(point));
        let counts = executions(subject.program, &explored, iterations(point));
        let words = counts.into_iter().map(|(pc, (least, most))| WordCost { pc, least, most }).collect();
        Ok(Cost { shortest: paths.shortest, longest: paths.longest, words })
    }

    /// The cost of each source line, by file index and line.
    pub fn by_line(&self, lines: &[(u32, u32)]) -> BTreeMap<(u32, u32), LineCost> {
        let mut all: BTreeMap<(u32, u32), LineCost> = BTreeMap::new();
        for word in &self.words {
            let Some(&line) = lines.get(usize::from(word.pc)) else { continue };
            let entry = all.entry(line).or_insert(LineCost { least: 0, most: Some(0) });
            entry.least = entry.least.saturating_add(word.least);
            entry.most = entry.most.zip(word.most).map(|(a, b)| a.saturating_add(b));
        }
        all
    }
}

/// Iterations of the loops that the entry's constants determine.
pub(super) fn iterations(point: &EntryPoint<'_>) -> Iterations {
    constant_ints(point.tables).map(|value| value.map(|value| u16::from(value[0]) + 1))
}
