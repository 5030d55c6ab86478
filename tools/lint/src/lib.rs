//! A program, its entries, their tables and their source, as far as known -> findings: what goes
//! wrong on consoles.
//!
//! | file | contents |
//! |---|---|
//! | `rule` | the table of rules |
//! | `entry` | one entry, explored and analysed once for all rules |
//! | `registers` | reads before writes, unwritten and stale outputs, dependent invocations |
//! | `flow` | ends, loops, scopes, adjacent instructions |
//! | `scopes` | whether scopes close as the source says |
//! | `words` | single words |
//! | `tables` | masks, names and constants against the code |
//! | `values` | values that are certain: 0 * infinity, infinite results |
//! | `bounds` | array elements that don't exist |
//! | `loops` | steps and iterations |
//! | `unused` | values and names that nothing uses |
//! | `aliases` | two names for one register |
//! | `source` | declarations and operands by line |
//! | `allow` | comments that allow a rule |
//! | [`cost`] | instructions of each word and line |
//!
//! Invariant: every finding is true of some run, or of the file. A rule that can't decide says
//! nothing. Nothing runs.

mod aliases;
mod allow;
mod bounds;
pub mod cost;
mod entry;
mod flow;
mod loops;
mod registers;
mod rule;
mod scopes;
mod source;
pub mod survey;
mod tables;
mod unused;
mod values;
mod words;

pub use rule::{Rule, Severity};

use entry::EntryFacts;
use picajit::container::shbin::{Dvle, Shbin};
use picajit::isa::Pc;
use picajit::program::{Entry, Program};
use picajit::text::Assembly;
use source::Sources;
use std::collections::BTreeSet;
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
    /// The texts of the source files, for `allow` comments and for rules about names. The parts of
    /// one text may have an entry each.
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
    /// The source file and its line, from 1: of the declaration or the word that it concerns; of
    /// the entry's first word if there is none.
    pub source: Option<(u32, u32)>,
    /// What is wrong, in lower case.
    pub message: String,
    severity: Severity,
    help: &'static str,
}

impl Finding {
    /// Its severity: the rule's, or a lower one where less is known.
    pub fn severity(&self) -> Severity {
        self.severity
    }
    /// What to do.
    pub fn help(&self) -> &'static str {
        self.help
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
pub(crate) struct Findings {
    list: Vec<Finding>,
    /// Temporaries of which a finding says that one alias overwrites another.
    explained: Vec<u8>,
}

impl Findings {
    /// Adds a finding. The caller may change its place, its severity and its remedy.
    fn add(&mut self, rule: Rule, entry: Option<usize>, pc: Option<Pc>, message: impl Into<String>) -> &mut Finding {
        let (severity, help) = (rule.severity(), rule.help());
        self.list.push(Finding { rule, entry, pc, source: None, message: message.into(), severity, help });
        self.list.last_mut().expect("it was pushed")
    }
}

/// The findings of `subject`, by line and address; those that a comment allows are left out.
pub fn lint(subject: &Subject<'_>) -> Vec<Finding> {
    let mut found = Findings::default();
    let mut facts: Vec<EntryFacts<'_>> = Vec::new();
    let sources = Sources::new(subject);
    let mut left = entry::MOST_STATES;
    for (index, point) in subject.entries.iter().enumerate() {
        match EntryFacts::new(subject.program, index, *point, &mut left) {
            Ok(entry) => facts.push(entry),
            Err(why) => {
                found.add(Rule::ControlFlow, Some(index), Some(point.entry.pc), why.to_string());
            }
        }
    }
    for entry in &facts {
        registers::check(entry, subject, &sources, &mut found);
        flow::check(entry, &mut found);
        tables::check_entry(entry, subject, &sources, &mut found);
        values::check(entry, &mut found);
        bounds::check_entry(entry, subject, &sources, &mut found);
        loops::check(entry, subject, &mut found);
        aliases::check(entry, subject, &sources, &mut found);
    }
    let has_all_facts = facts.len() == subject.entries.len();
    if has_all_facts {
        unused::check_values(&facts, &mut found);
    }
    words::check(subject, &facts, &mut found);
    tables::check_file(subject, &sources, &mut found);
    let reached: BTreeSet<Pc> = facts.iter().flat_map(|entry| entry.explored.reachable()).copied().collect();
    let is_reached = |pc: &Pc| reached.contains(pc) || !has_all_facts;
    for text in &sources.texts {
        bounds::check_text(text, is_reached, &mut found);
    }
    unused::check_names(&sources, &mut found);
    tables::check_readings(&sources, &mut found);
    let mut findings = found.list;
    for finding in findings.iter_mut().filter(|finding| finding.source.is_none()) {
        let first = finding.entry.and_then(|entry| subject.entries.get(entry)).map(|point| point.entry.pc);
        let line = |pc: Pc| subject.lines.get(usize::from(pc)).copied();
        finding.source = finding.pc.and_then(line).or_else(|| first.and_then(line));
    }
    drop_consequences(&mut findings);
    allow::apply(&sources.by_file(subject), &mut findings);
    // Entries that share a procedure find the same in it.
    findings.sort_by(|a, b| (a.source, a).cmp(&(b.source, b)));
    findings.dedup_by(|a, b| a.pc.is_some() && (a.pc, a.rule, &a.message) == (b.pc, b.rule, &b.message));
    findings
}

/// Removes findings whose cause is another one: an element beyond an array has no name of its own,
/// and a name that is read as another register has no declaration there.
fn drop_consequences(findings: &mut Vec<Finding>) {
    let outside = findings.iter().filter(|f| f.rule == Rule::OutOfBounds).filter_map(|f| f.source);
    let outside: BTreeSet<(u32, u32)> = outside.collect();
    let words = findings.iter().filter(|f| f.rule == Rule::OutOfBounds).filter_map(|f| f.pc);
    let words: BTreeSet<Pc> = words.collect();
    let read_otherwise = findings.iter().filter(|f| f.rule == Rule::LenientReading).filter_map(|f| f.pc);
    let read_otherwise: BTreeSet<Pc> = read_otherwise.collect();
    findings.retain(|f| match f.rule {
        Rule::UndeclaredInput => !f.pc.is_some_and(|pc| read_otherwise.contains(&pc)),
        Rule::UnboundUniform => {
            !f.pc.is_some_and(|pc| words.contains(&pc)) && !f.source.is_some_and(|line| outside.contains(&line))
        }
        _ => true,
    });
}
