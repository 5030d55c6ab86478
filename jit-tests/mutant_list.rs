//! The committed list of semantic mutants: `semantic_mutants.txt` -> changes to the sources.
//!
//! Each change removes or weakens one guard, bailout, mask or condition of a proof. The tool in
//! `mutants/` applies them; a test of the text suite fails when one no longer fits the sources.

use std::ops::Range;
use std::path::Path;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name, unique.
    pub name: String,
    /// Path of the source file from the project's root.
    pub file: String,
    /// Source text with the changed part between `«` and `»`; without these, all of it. White space
    /// and comments do not matter.
    pub old: String,
    /// The text that replaces the changed part.
    pub new: String,
    /// Why no test can tell the change, if none can.
    pub equivalent: Option<String>,
}

/// Parses the list: paragraphs of `key: value` lines. A line that starts with a blank continues the
/// one before; `#` starts a comment line.
pub fn parse(text: &str) -> Result<Vec<Change>, String> {
    let mut changes: Vec<Change> = Vec::new();
    let mut file = String::new();
    for paragraph in text.split("\n\n") {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if let (true, Some((_, value))) = (line.starts_with(' '), fields.last_mut()) {
                value.push('\n');
                value.push_str(line.trim());
                continue;
            }
            let (key, value) = line.split_once(':').ok_or_else(|| format!("no `key: value`: {line}"))?;
            fields.push((key.to_string(), value.trim().to_string()));
        }
        let mut field = |key: &str| {
            let at = fields.iter().position(|(k, _)| k == key)?;
            Some(fields.remove(at).1)
        };
        if let Some(path) = field("file") {
            file = path;
        }
        if let Some(name) = field("mutant") {
            let needed = |key: &str, value: Option<String>| value.ok_or_else(|| format!("{name}: no `{key}:`"));
            let (old, new) = (needed("old", field("old"))?, needed("new", field("new"))?);
            if changes.iter().any(|change| change.name == name) {
                return Err(format!("{name}: twice"));
            }
            changes.push(Change { equivalent: field("equivalent"), file: file.clone(), old, new, name });
        }
        if let Some((key, _)) = fields.first() {
            return Err(format!("unknown or misplaced `{key}:`"));
        }
    }
    Ok(changes)
}

impl Change {
    /// The bytes of `source` that the change replaces: empty to insert. The old text must occur
    /// exactly once.
    pub fn find(&self, source: &str) -> Result<Range<usize>, String> {
        let (marked, dense) = dense(&self.old);
        let (start, end) = match marked[..] {
            [] => (0, dense.len()),
            [start, end] => (start, end),
            _ => return Err(format!("{}: not one «...»", self.name)),
        };
        let (places, text): (Vec<usize>, String) = code(source).unzip();
        let found: Vec<usize> = text.match_indices(&dense).map(|(at, _)| text[..at].chars().count()).collect();
        let &[at] = &found[..] else {
            return Err(format!("{}: the old text occurs {} times in {}", self.name, found.len(), self.file));
        };
        let (start, end) = (dense[..start].chars().count(), dense[..end].chars().count());
        if start == end {
            // After the character before, so that an insertion lies on its line.
            let before = places[at + start - 1];
            let next = before + source[before..].chars().next().map_or(0, char::len_utf8);
            return Ok(next..next);
        }
        let last = places[at + end - 1];
        Ok(places[at + start]..last + source[last..].chars().next().map_or(0, char::len_utf8))
    }
}

/// The characters of code with their places, without white space and comments.
fn code(source: &str) -> impl Iterator<Item = (usize, char)> {
    let mut start = 0;
    let lines = source.split_inclusive('\n').map(move |line| {
        start += line.len();
        (start - line.len(), line)
    });
    lines.flat_map(|(start, line)| {
        let code = line.split("//").next().unwrap_or_default();
        code.char_indices().map(move |(at, c)| (start + at, c)).filter(|(_, c)| !c.is_whitespace())
    })
}

/// Text without white space and marks, and the places of the marks.
fn dense(text: &str) -> (Vec<usize>, String) {
    let (mut marks, mut out) = (Vec::new(), String::new());
    for c in text.chars() {
        match c {
            '«' | '»' => marks.push(out.len()),
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    (marks, out)
}

/// The list in the folder `tests`.
pub fn read(tests: &Path) -> Result<Vec<Change>, String> {
    let path = tests.join("semantic_mutants.txt");
    parse(&std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?)
}
