//! The rules of `lint`: sources in lint/ with the rules that each line must give, and no others.
//!
//! `; finds: RULE ...` ends a line that must have exactly these findings; `; finds-file: RULE`
//! stands for a finding of the file. Each rule has a file `RULE.test` in which it fires and a file
//! `RULE-absent.test` in which it does not.

use crate::prerequisites::{cases, third_party_files};
use libtest_mimic::{Failed, Trial};
use picajit::container::shbin::Shbin;
use picajit::program::{Entry, Program};
use picajit::text::{self, Assembly};
use picajit_lint::{Finding, Rule, Subject, lint};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A rule and the line of its finding.
type Places = BTreeSet<(Option<u32>, String)>;

/// The rules of which this file makes the programs.
const MADE: [Rule; 3] = [Rule::NoEntries, Rule::BeyondVertexUnit, Rule::ControlFlow];

/// The trials of this file.
pub fn trials(files: &[PathBuf]) -> Vec<Trial> {
    let mut trials: Vec<Trial> = files.iter().map(|path| trial(&crate::name(path), path)).collect();
    let names: BTreeSet<String> = files.iter().map(|path| crate::name(path)).collect();
    trials.push(Trial::test("lint/every-rule-has-both-files", move || both_files(&names)));
    trials.push(Trial::test("lint/made-programs", made_programs));
    trials.push(Trial::test("lint/every-rule-is-documented", documented));
    trials.push(Trial::test("lint/findings-on-built-in-shaders", || findings_are_listed(&builtins())));
    let corpus = corpus();
    let is_ignored = corpus.is_empty();
    let listed = Trial::test("lint/findings-on-the-corpus", move || findings_are_listed(&corpus));
    trials.push(listed.with_ignored_flag(is_ignored));
    let cases = cases_that_assemble();
    let is_ignored = cases.is_empty();
    let listed = Trial::test("lint/findings-on-cases", move || findings_are_listed(&cases));
    trials.push(listed.with_ignored_flag(is_ignored));
    trials
}

fn trial(name: &str, path: &Path) -> Trial {
    let path = path.to_path_buf();
    Trial::test(name, move || {
        let source = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
        let assembly = text::assemble(&source).map_err(|e| e.to_string())?;
        let program = assembly.shbin.program().map_err(|e| e.to_string())?;
        let found = lint(&Subject::assembly(&program, &assembly, &[&source]));
        let (want, got) = (wanted(&source), places(&found));
        if want == got { Ok(()) } else { Err(format!("expected: {want:?}\n     got: {got:?}\n{found:#?}").into()) }
    })
}

fn wanted(source: &str) -> Places {
    let mut all = Places::new();
    for (line, text) in (1..).zip(source.lines()) {
        for (marker, place) in [("; finds: ", Some(line)), ("; finds-file: ", None)] {
            let rules = text.split_once(marker).map_or("", |(_, rules)| rules);
            all.extend(rules.split_whitespace().map(|rule| (place, rule.to_string())));
        }
    }
    all
}

fn places(found: &[Finding]) -> Places {
    found.iter().map(|f| (f.source.map(|(_, line)| line), f.rule.name().to_string())).collect()
}

fn both_files(names: &BTreeSet<String>) -> Result<(), Failed> {
    let missing = |rule: &&Rule| {
        let (fires, absent) = (format!("lint/{rule}"), format!("lint/{rule}-absent"));
        !(MADE.contains(rule) || names.contains(&fires) && names.contains(&absent))
    };
    let missing: Vec<&str> = Rule::ALL.iter().filter(missing).map(|rule| rule.name()).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("no two files: {}", missing.join(", ")).into()) }
}

const PAGE: &str = include_str!("../docs/lint.md");

/// Each rule has a row with its severity and its evidence.
fn documented() -> Result<(), Failed> {
    let row = |rule: &Rule| format!("| `{rule}` | {} | ", rule.severity());
    let missing = |rule: &&Rule| {
        let line = PAGE.lines().find(|line| line.starts_with(&row(rule)));
        line.is_none_or(|line| !line.ends_with(&format!(" | {} |", rule.evidence())))
    };
    let missing: Vec<&str> = Rule::ALL.iter().filter(missing).map(|rule| rule.name()).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("docs/lint.md differs: {}", missing.join(", ")).into()) }
}

/// A shader whose findings docs/lint.md lists.
struct Known {
    name: String,
    shbin: Shbin,
    source: Option<(Assembly, String)>,
}

impl Known {
    fn assembled(path: &Path) -> Option<Known> {
        let source = text::decode(&std::fs::read(path).expect("readable")).ok()?.into_owned();
        let assembly = text::assemble(&source).ok()?;
        Some(Known { name: stem(path), shbin: assembly.shbin.clone(), source: Some((assembly, source)) })
    }

    fn rules(&self) -> Result<BTreeSet<String>, Failed> {
        let program = self.shbin.program().map_err(|e| e.to_string())?;
        let found = match &self.source {
            Some((assembly, source)) => lint(&Subject::assembly(&program, assembly, &[source])),
            None => lint(&Subject::file(&program, &self.shbin)),
        };
        Ok(found.iter().map(|f| f.rule.name().to_string()).collect())
    }
}

/// The built-in shaders.
fn builtins() -> Vec<Known> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/command/src/shaders");
    let paths = std::fs::read_dir(folder).expect("part of the package").map(|e| e.expect("readable").path());
    paths.map(|path| Known::assembled(&path).expect("a test assembles each")).collect()
}

/// The cases that are PICA200 programs.
fn cases_that_assemble() -> Vec<Known> {
    cases(&["pica", "vsh", "test"]).iter().filter_map(|path| Known::assembled(path)).collect()
}

/// Third-party shaders.
fn corpus() -> Vec<Known> {
    let parsed = |path: PathBuf| {
        Some(Known { name: stem(&path), shbin: Shbin::parse(&std::fs::read(&path).ok()?).ok()?, source: None })
    };
    third_party_files("shbin", "shbin").into_iter().filter_map(parsed).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The findings of these files are those that docs/lint.md lists for them, each with its verdict. A row may be of several
/// files.
fn findings_are_listed(files: &[Known]) -> Result<(), Failed> {
    let mut got: BTreeSet<(String, String)> = BTreeSet::new();
    for file in files {
        got.extend(file.rules()?.into_iter().map(|rule| (file.name.clone(), rule)));
    }
    let cell = |text: &str| text.trim().trim_matches('`').to_string();
    let rows = PAGE.lines().flat_map(|line| {
        let cells: Vec<&str> = line.split('|').collect();
        let (names, rule) = match cells[..] {
            [_, names, rule, why, _] if !why.trim().is_empty() => (names, cell(rule)),
            _ => ("", String::new()),
        };
        let names: Vec<String> = names.split(',').map(cell).collect();
        names.into_iter().map(move |name| (name, rule.clone()))
    });
    let want: BTreeSet<(String, String)> =
        rows.filter(|(name, _)| files.iter().any(|file| file.name == *name)).collect();
    if want == got { Ok(()) } else { Err(format!("docs/lint.md lists {want:?}, and there are {got:?}").into()) }
}

/// Programs that have no short source.
fn made_programs() -> Result<(), Failed> {
    const NOP: u32 = 0x8400_0000;
    const END: u32 = 0x8800_0000;
    let rules = |code: &[u32], entry: Option<Entry>| -> Vec<Rule> {
        let program = Program::from_words(code, &[]).expect("short");
        let mut subject = Subject::program(&program, Entry::vertex(0));
        match entry {
            Some(entry) => subject.entries[0].entry = entry,
            None => subject.entries.clear(),
        }
        lint(&subject).iter().map(|f| f.rule).collect()
    };
    let long = |words: usize| -> Vec<u32> { std::iter::repeat_n(NOP, words - 1).chain([END]).collect() };
    // Four procedures, each with ten calls of the next: more states than a graph takes.
    let mut nested = vec![];
    for level in 0..5u32 {
        let next = (level + 1) * 11;
        nested.extend(std::iter::repeat_n(0x9000_0000 | next << 10 | 11, 10));
        nested.push(if level == 0 { END } else { NOP });
    }
    nested.extend([NOP; 11]);
    let vertex = Some(Entry::vertex(0));
    let cases: [(&str, Vec<Rule>, Vec<Rule>); 6] = [
        ("no entries", rules(&[END], None), vec![Rule::NoEntries]),
        ("an entry", rules(&[END], vertex), vec![]),
        ("513 words", rules(&long(513), vertex), vec![Rule::BeyondVertexUnit]),
        ("513 words of a geometry unit", rules(&long(513), Some(Entry::geometry(0))), vec![]),
        ("512 words", rules(&long(512), vertex), vec![]),
        ("ten calls in each of five procedures", rules(&nested, vertex), vec![Rule::ControlFlow]),
    ];
    for (what, got, want) in cases {
        if got != want {
            return Err(format!("{what}: expected {want:?}, got {got:?}").into());
        }
    }
    Ok(())
}
