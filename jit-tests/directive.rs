//! The comments of a test file -> [`Directives`]: runs, opt-outs, and expected errors.
//!
//! A directive is a comment line of its own: `; word: text`, continued by following lines `; ...
//! text`. Other comments are prose, also those with an unknown word in that position. To catch a
//! misspelled `run` or a missing `...`, prose must not contain `=>`, and a run folder's file needs
//! a case.

use crate::items::{Item, Location, Value, items};
use picajit::isa::numeric::Precision;

/// All directives of one file.
#[derive(Default)]
pub struct Directives {
    pub cases: Vec<Case>,
    /// Engines that fail this file, with the reason.
    pub skips: Vec<(String, String)>,
    /// Entry address, if not the one of the first DVLE.
    pub entry: Option<u16>,
    /// The exact error text expected.
    pub error: Option<String>,
}

/// One `; run:` line.
pub struct Case {
    /// One-based, in the file.
    pub line: usize,
    pub set: Vec<Item>,
    pub expect: Vec<Item>,
    /// Backward transfers allowed, if not the default.
    pub fuel: Option<u32>,
    /// Number formats in which the expectations hold.
    pub precisions: Vec<Precision>,
    /// Tolerance in units in the last place of float24; 0 means the same bits.
    pub ulps: f64,
}

/// Reads the directives of a file; errors name the line.
pub fn parse(source: &str) -> Result<Directives, String> {
    let mut found = Directives::default();
    let mut usual = vec![Precision::F32];
    for (line, word, text) in joined(source)? {
        let at = |e: String| format!("line {line}: {e}");
        if let Some(format) = word.strip_prefix("run ") {
            found.cases.push(case(line, &text, precisions(format).map_err(at)?).map_err(at)?);
            continue;
        }
        match word.as_str() {
            "run" => found.cases.push(case(line, &text, usual.clone()).map_err(at)?),
            "precision" if !found.cases.is_empty() => return Err(at("the precision comes before the runs".into())),
            "precision" => usual = precisions(&text).map_err(at)?,
            "entry" => found.entry = Some(text.parse().map_err(|_| at(format!("`{text}` is not an address")))?),
            "error" => found.error = Some(text),
            _ => match word.strip_prefix("skip ") {
                Some(_) if text.is_empty() => return Err(at("a skip needs a reason".into())),
                Some(engine) => found.skips.push((engine.trim().to_string(), text)),
                None => {}
            },
        }
    }
    Ok(found)
}

/// `(line, word, text)` of each directive, continuation lines joined by a space.
fn joined(source: &str) -> Result<Vec<(usize, String, String)>, String> {
    let mut out: Vec<(usize, String, String)> = Vec::new();
    let mut open = false;
    for (n, line) in source.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix(';').map(str::trim) else {
            open = false;
            continue;
        };
        if let (true, Some(more)) = (open, comment.strip_prefix("...")) {
            if let Some(last) = out.last_mut() {
                last.2 = format!("{} {}", last.2, more.trim());
            }
            continue;
        }
        let split = comment.split_once(':').filter(|(word, _)| {
            let first = word.split(' ').next().unwrap_or("");
            matches!(first, "run" | "skip" | "entry" | "error" | "precision") && word.split(' ').count() <= 2
        });
        open = split.is_some();
        match split {
            Some((word, text)) => out.push((n + 1, word.to_string(), text.trim().to_string())),
            None if comment.contains("=>") => return Err(format!("line {}: `=>` in prose: is it a run?", n + 1)),
            None => {}
        }
    }
    Ok(out)
}

/// Number formats by name; `f24` means both of its kind, `all` every one.
fn precisions(names: &str) -> Result<Vec<Precision>, String> {
    let mut found = Vec::new();
    for name in names.split([' ', ',']).filter(|name| !name.is_empty()) {
        match name {
            "all" => found.extend(Precision::ALL),
            "f24" => found.extend(&Precision::ALL[1..]),
            name => found.push(name.parse().map_err(|e| format!("`{name}`: {e}"))?),
        }
    }
    if found.is_empty() { Err("no number format is named".into()) } else { Ok(found) }
}

fn case(line: usize, text: &str, precisions: Vec<Precision>) -> Result<Case, String> {
    let (before, after) = text.split_once("=>").ok_or("a run needs `=>`")?;
    let (after, tolerance) = after.split_once('~').map_or((after, None), |(a, t)| (a, Some(t)));
    let ulps = tolerance.map(self::tolerance).transpose()?.unwrap_or(0.0);
    let set = items(before.trim())?;
    let mut expect = items(after.trim())?;
    let fuel = set.iter().find_map(|item| match (&item.place, &item.value) {
        (Location::Fuel, Value::Ints(v)) => Some(v[0] as u32),
        _ => None,
    });
    if expect.is_empty() {
        return Err("a run without an expectation tests nothing".into());
    }
    if !expect.iter().any(|item| item.place == Location::Exit) {
        expect.extend(items("exit = end")?);
    }
    Ok(Case { line, set, expect, fuel, precisions, ulps })
}

/// `2 ulp(f24): why`
fn tolerance(text: &str) -> Result<f64, String> {
    let (count, reason) =
        text.trim().split_once(" ulp(f24)").ok_or("a tolerance reads `~ 2 ulp(f24): reason`".to_string())?;
    if reason.trim_start_matches(':').trim().is_empty() {
        return Err("a tolerance needs a reason".into());
    }
    count.trim().parse().map_err(|_| format!("`{count}` is not a number of units"))
}
