//! Outcomes of mutants: the results file, and the table by source file.

use crate::mutant::Mutant;
use crate::run::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Begins the name of a step of slow tests.
pub const SLOW: &str = "slow ";

/// The outcome of each step by mutant: a line each, the last one counts.
pub struct Results {
    path: PathBuf,
    by_key: BTreeMap<(String, String), String>,
}

impl Results {
    pub fn open(path: &Path) -> Results {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut by_key = BTreeMap::new();
        for line in text.lines() {
            if let [step, outcome, key] = line.splitn(3, '\t').collect::<Vec<_>>()[..] {
                by_key.insert((step.to_string(), key.to_string()), outcome.to_string());
            }
        }
        Results { path: path.to_path_buf(), by_key }
    }

    pub fn get(&self, step: &str, key: &str) -> Option<&str> {
        self.by_key.get(&(step.to_string(), key.to_string())).map(|s| &**s)
    }

    /// Whether a step caught the mutant, or the slow tests of the same kind did.
    pub fn is_caught(&self, step: &str, key: &str) -> bool {
        let catches = |outcome: &str| outcome.starts_with("caught") || outcome.starts_with("timed out");
        [step, &format!("{SLOW}{step}")].iter().any(|step| self.get(step, key).is_some_and(catches))
    }

    /// Whether a filetest or a unit test caught the mutant, or a program with random draws or in C.
    pub fn is_caught_by_tests(&self, key: &str) -> bool {
        ["filetests", "unit", "programs"].iter().any(|step| self.is_caught(step, key))
    }

    pub fn put(&mut self, step: &str, key: &str, outcome: &Outcome) -> Result<(), String> {
        let text = match outcome {
            Outcome::Caught(by) => format!("caught by {by}"),
            Outcome::TimedOut => "timed out".into(),
            Outcome::Missed => "missed".into(),
            Outcome::NotReached => "not reached".into(),
        };
        let file = fs::OpenOptions::new().create(true).append(true).open(&self.path);
        let line = format!("{step}\t{text}\t{key}\n");
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|e| e.to_string())?;
        self.by_key.insert((step.into(), key.into()), text);
        Ok(())
    }
}

/// Counts of a file.
#[derive(Clone, Copy, Default)]
struct Row {
    mutants: usize,
    by_filetests: usize,
    by_units: usize,
    by_programs: usize,
    equivalent: usize,
    missed: usize,
}

impl Row {
    fn add(&mut self, other: Row) {
        self.mutants += other.mutants;
        self.by_filetests += other.by_filetests;
        self.by_units += other.by_units;
        self.by_programs += other.by_programs;
        self.equivalent += other.equivalent;
        self.missed += other.missed;
    }

    fn print(&self, name: &str) {
        let Row { mutants, by_filetests, by_units, by_programs, equivalent, missed } = self;
        println!("| {name} | {mutants} | {by_filetests} | {by_units} | {by_programs} | {equivalent} | {missed} |");
    }
}

/// The table by file, of mutants that have run, and the missed ones.
pub fn print(mutants: &[&Mutant], results: &Results) {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let mut missed = Vec::new();
    let (mut swept, mut sweep_missed) = (0, Vec::new());
    for mutant in mutants {
        let (files, units) = (results.get("filetests", &mutant.key), results.get("unit", &mutant.key));
        if files.is_none() {
            continue;
        }
        let row = rows.entry(&mutant.file).or_default();
        row.mutants += 1;
        let steps = ["filetests", "unit", "programs"];
        if let Some(first) = steps.iter().position(|step| results.is_caught(step, &mutant.key)) {
            let counts = [&mut row.by_filetests, &mut row.by_units, &mut row.by_programs];
            *counts.into_iter().nth(first).expect("a count for each step") += 1;
            if mutant.equivalent.is_some() && !mutant.by_function {
                println!("note: {} is caught, so not equivalent", mutant.key);
            }
        } else if mutant.equivalent.is_some() {
            row.equivalent += 1;
        } else {
            row.missed += 1;
            missed.push((mutant, units.or(files).unwrap_or_default()));
        }
        if mutant.equivalent.is_none() && results.get("sweep", &mutant.key).is_some() {
            swept += 1;
            if !results.is_caught("sweep", &mutant.key) {
                sweep_missed.push(mutant);
            }
        }
    }
    for (mutant, outcome) in missed {
        println!("missed ({outcome}): {} (line {})", mutant.key, mutant.line);
    }
    for mutant in &sweep_missed {
        println!("missed by the sweep: {}", mutant.key);
    }
    println!(
        "\n| file | mutants | caught by filetests | by unit tests alone | by draws or C hosts alone | equivalent | missed |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut total = Row::default();
    for (file, row) in rows {
        row.print(&format!("`{file}`"));
        total.add(row);
    }
    total.print("all");
    let good = total.mutants - total.missed;
    println!("{:.1} % caught or equivalent", 100.0 * good as f64 / total.mutants.max(1) as f64);
    if swept != 0 {
        println!("the sweep caught {} of {swept}", swept - sweep_missed.len());
    }
}
