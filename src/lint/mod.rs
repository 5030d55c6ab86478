//! A program, its entries, their tables and their source, as far as known -> findings: what goes
//! wrong on consoles.
//!
//! | file | contents |
//! |---|---|
//! | `rule` | the table of rules |
//! | `entry` | one entry, explored and analysed once for all rules |
//! | `registers` | reads before writes, unwritten and stale outputs, dependent invocations |
//! | `flow` | ends, loops, scopes, adjacent instructions |
//! | `words` | single words |
//! | `tables` | masks, names and constants against the code |
//! | `products` | 0 * infinity |
//! | `allow` | comments that allow a rule |
//! | [`cost`] | instructions of each word and line |
//!
//! Invariant: every finding is true of some run, or of the file. A rule that can't decide says
//! nothing. Nothing runs.

mod allow;
pub mod cost;
mod entry;
mod flow;
mod products;
mod registers;
mod rule;
pub mod survey;
mod tables;
mod words;

pub use rule::{Rule, Severity};

use crate::container::shbin::{Dvle, Shbin};
use crate::isa::Pc;
use crate::program::{Entry, Program};
use crate::text::Assembly;
use entry::EntryFacts;
use std::fmt;

/// What is checked. Fields that are unknown are empty.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its entries.
    pub entries: Vec<EntryPoint<'a>>,
    /// The source line of every code word: file index, then line from 1.
    pub lines: &'a [(u32, u32)],
    /// The texts of the source files, for `allow` comments.
    pub sources: Vec<&'a str>,
}

/// An entry of a [`Subject`].
#[derive(Clone, Copy, Debug)]
pub struct EntryPoint<'a> {
    /// Its address and stage.
    pub entry: Entry,
    /// Its tables.
    pub tables: Option<&'a Dvle>,
}

impl<'a> Subject<'a> {
    /// A file without its source. `program` is the file's.
    pub fn file(program: &'a Program, shbin: &'a Shbin) -> Subject<'a> {
        let point = |dvle: &'a Dvle| EntryPoint { entry: dvle.entry(), tables: Some(dvle) };
        Subject { program, entries: shbin.dvles.iter().map(point).collect(), lines: &[], sources: Vec::new() }
    }

    /// An assembly with its sources, in the order in which the assembler got them. `program` is the
    /// assembly's.
    pub fn assembly(program: &'a Program, assembly: &'a Assembly, sources: &[&'a str]) -> Subject<'a> {
        Subject { lines: &assembly.lines, sources: sources.to_vec(), ..Subject::file(program, &assembly.shbin) }
    }

    /// A single entry without tables, such as a program that an emulator recorded.
    pub fn program(program: &'a Program, entry: Entry) -> Subject<'a> {
        let entries = vec![EntryPoint { entry, tables: None }];
        Subject { program, entries, lines: &[], sources: Vec::new() }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The word that it concerns, if it is one.
    pub pc: Option<Pc>,
    /// The rule.
    pub rule: Rule,
    /// The index of the entry, if it concerns one.
    pub entry: Option<usize>,
    /// The source file and its line, from 1, of the word; of the entry's first word if there is
    /// none.
    pub source: Option<(u32, u32)>,
    /// What is wrong, in lower case.
    pub message: String,
}

impl Finding {
    /// Its severity.
    pub fn severity(&self) -> Severity {
        self.rule.severity()
    }
    /// What to do.
    pub fn help(&self) -> &'static str {
        self.rule.help()
    }
    /// The source of the claim.
    pub fn evidence(&self) -> &'static str {
        self.rule.evidence()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Findings in the order of their discovery.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, rule: Rule, entry: Option<usize>, pc: Option<Pc>, message: impl Into<String>) {
        self.0.push(Finding { rule, entry, pc, source: None, message: message.into() });
    }
}

/// The findings of `subject`, by address; those that a comment allows are left out.
pub fn lint(subject: &Subject<'_>) -> Vec<Finding> {
    let mut found = Findings::default();
    let mut facts: Vec<EntryFacts<'_>> = Vec::new();
    let mut left = entry::MOST_STATES;
    for (index, point) in subject.entries.iter().enumerate() {
        match EntryFacts::new(subject.program, index, *point, &mut left) {
            Ok(entry) => facts.push(entry),
            Err(why) => found.add(Rule::ControlFlow, Some(index), Some(point.entry.pc), why.to_string()),
        }
    }
    for entry in &facts {
        registers::check(entry, &mut found);
        flow::check(entry, &mut found);
        tables::check_entry(entry, subject, &mut found);
        products::check(entry, &mut found);
    }
    words::check(subject, &facts, &mut found);
    tables::check_file(subject, &mut found);
    let mut findings = found.0;
    for finding in &mut findings {
        let first = finding.entry.and_then(|entry| subject.entries.get(entry)).map(|point| point.entry.pc);
        let line = |pc: Pc| subject.lines.get(usize::from(pc)).copied();
        finding.source = finding.pc.and_then(line).or_else(|| first.and_then(line));
    }
    allow::apply(&subject.sources, &mut findings);
    // Entries that share a procedure find the same in it.
    findings.sort();
    findings.dedup_by(|a, b| a.pc.is_some() && (a.pc, a.rule, &a.message) == (b.pc, b.rule, &b.message));
    findings
}
