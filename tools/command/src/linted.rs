//! A shader and its findings -> the file and the columns of each.

use crate::load::Loaded;
use picajit::internals::source::split_line;
use picajit_lint::Finding;

/// A shader and its findings.
pub struct Linted {
    pub loaded: Loaded,
    pub findings: Vec<Finding>,
}

/// The file that a finding concerns.
pub fn file_name<'a>(loaded: &'a Loaded, f: &Finding) -> &'a str {
    let line = loaded.source.as_ref().zip(f.source).and_then(|(source, place)| source.line(place));
    // A single source has the name that its program has.
    let is_joined = loaded.source.as_ref().is_some_and(|source| source.files.len() > 1);
    line.filter(|_| is_joined).map_or(&loaded.name, |(file, _)| &file.name)
}

/// The first column of the statement that a finding concerns, and the one after it, from 1.
pub fn columns(loaded: &Loaded, f: &Finding) -> Option<(usize, usize)> {
    let line = loaded.source.as_ref()?.whole_line(f.source?)?;
    let statement = split_line(line);
    let column = |byte: usize| line[..byte].chars().count() + 1;
    let end = statement.head.end.max(statement.rest.end);
    (!statement.head.is_empty()).then(|| (column(statement.head.start), column(end)))
}
