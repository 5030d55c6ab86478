//! A source text, finished or half typed -> all its errors and warnings, its symbol table, its
//! operands and its words. For editors.
//!
//! The assembler itself analyzes the text: it continues after errors, and records names.

use super::asm::{Assembler, Assembly, Options};
use super::error::{AsmError, AsmErrorKind};
use super::help::dialect;
use super::symbols::{OperandAt, Part, Place, Record, Space, Symbol};
use super::warning::WarningKind;
use std::fmt;

/// An error or warning of the assembler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its cause.
    pub place: Place,
    /// Its kind.
    pub kind: DiagnosticKind,
    /// What to do, where the kind does not say it.
    pub help: Option<Box<str>>,
}

/// The kind of a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiagnosticKind {
    /// The text does not assemble.
    Error(AsmErrorKind),
    /// A lenient reading.
    Warning(WarningKind),
}

impl fmt::Display for DiagnosticKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiagnosticKind::Error(kind) => kind.fmt(f),
            DiagnosticKind::Warning(kind) => kind.fmt(f),
        }
    }
}

/// What is known of a source text.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Errors and warnings, in order of the source.
    pub diagnostics: Vec<Diagnostic>,
    /// All names.
    pub symbols: Vec<Symbol>,
    /// All operands, in order of the source.
    pub operands: Vec<OperandAt>,
    /// The parts that `.file` separates; at least one.
    pub parts: Vec<Part>,
    /// The program. Statements with errors are NOPs, and their addresses are 0.
    pub assembly: Assembly,
    /// The first line of each text.
    first_lines: Vec<u32>,
    /// The line of each word, from 0.
    rows: Vec<u32>,
}

impl Analysis {
    /// Whether the text assembles.
    pub fn is_correct(&self) -> bool {
        self.errors().next().is_none()
    }

    /// All errors.
    pub fn errors(&self) -> impl Iterator<Item = (Place, &AsmErrorKind)> {
        self.diagnostics.iter().filter_map(|d| match &d.kind {
            DiagnosticKind::Error(kind) => Some((d.place, kind)),
            DiagnosticKind::Warning(_) => None,
        })
    }

    /// The part that a line belongs to, and its lines.
    pub fn part(&self, line: u32) -> (&Part, std::ops::Range<u32>) {
        let n = self.parts.partition_point(|part| part.first_line <= line).max(1);
        let end = self.parts.get(n).map_or(u32::MAX, |next| next.first_line);
        (&self.parts[n - 1], self.parts[n - 1].first_line..end)
    }

    /// The symbol with a definition or use at a byte of a line, and that place.
    pub fn symbol_at(&self, line: u32, byte: u32) -> Option<(&Symbol, Place)> {
        self.symbols.iter().find_map(|symbol| {
            let mut places = symbol.definitions.iter().chain(&symbol.uses);
            places.find(|place| place.touches(line, byte)).map(|&place| (symbol, place))
        })
    }

    /// The addresses of a line's words.
    pub fn words(&self, line: u32) -> std::ops::Range<usize> {
        self.rows.partition_point(|&n| n < line)..self.rows.partition_point(|&n| n <= line)
    }

    /// The line, from 0 in all texts, of a file index and a line from 1, as in [`Assembly::lines`].
    pub fn line(&self, (file, line): (u32, u32)) -> u32 {
        let part = self.parts.get(file as usize).map_or(0, |part| part.first_line);
        let text = self.first_lines.partition_point(|&first| first <= part).saturating_sub(1);
        self.first_lines[text] + line.saturating_sub(1)
    }

    /// The index of the text that a line belongs to.
    pub fn text(&self, line: u32) -> usize {
        self.first_lines.partition_point(|&first| first <= line).saturating_sub(1)
    }
}

/// Analyzes a source text.
pub fn analyze(text: &str, options: Options) -> Analysis {
    analyze_all(&[text], options)
}

/// Analyzes source texts that become one program; at least one. The lines of each text count on
/// from those of the texts before it, split at `\n`.
pub fn analyze_all(texts: &[&str], options: Options) -> Analysis {
    let mut assembler = Assembler::new(options);
    assembler.record = Some(Box::default());
    let recovered = "an assembler with a record continues after errors";
    let mut first_lines = Vec::new();
    for text in texts {
        first_lines.push(assembler.first_row);
        assembler.add_file("input", text).expect(recovered);
        assembler.first_row += text.split('\n').count() as u32;
    }
    let dvles = assembler.resolve().expect(recovered);
    let mut record: Record<'_> = *assembler.record.take().expect("it was set above");
    record.set_sizes(&assembler.procs);
    record.resolve(Space::Procedures);
    // Files with `.nodvle` are parts of a program with other files; elsewhere an entry point is
    // missing because of another error.
    let second_text = first_lines.get(1).copied().unwrap_or(u32::MAX);
    let mut first_parts = record.parts.iter().take_while(|part| part.first_line < second_text);
    let explained = first_parts.any(|part| part.no_dvle) || record.faults.len() > 1;
    let fault = |((line, fault), (_, error)): ((u32, super::error::Fault), (_, AsmError))| Diagnostic {
        place: Place { line, start: fault.at as u32, end: (fault.at + fault.len) as u32 },
        kind: DiagnosticKind::Error(fault.kind),
        help: error.help,
    };
    let warning = |(place, kind)| Diagnostic { place, kind: DiagnosticKind::Warning(kind), help: None };
    let mut diagnostics: Vec<Diagnostic> = (record.faults.into_iter().zip(record.errors))
        .filter(|((_, fault), _)| !(explained && fault.kind == AsmErrorKind::NoDvle))
        .map(fault)
        .chain(record.warnings.into_iter().map(warning))
        .collect();
    diagnostics.sort_by_key(|d| d.place);
    for symbol in &mut record.symbols {
        symbol.uses.retain(|place| !symbol.definitions.contains(place));
        symbol.uses.sort();
        symbol.uses.dedup();
    }
    Analysis {
        diagnostics,
        symbols: record.symbols,
        operands: record.operands,
        parts: record.parts,
        first_lines,
        rows: assembler.words.iter().map(|word| word.row).collect(),
        assembly: assembler.into_assembly(dvles),
    }
}

/// All errors of source files, given by name and text, that become one program: in order of the
/// sources, and none if they assemble.
///
/// ```
/// use picajit::text::{Options, errors};
/// let found = errors(&[("a", ".proc main\nmul r0, v0, 2.0\nmull r0, v0, v0\nend\n.end\n")], Options::default());
/// assert_eq!(found.iter().map(|e| e.line).collect::<Vec<_>>(), [2, 3]);
/// assert_eq!(found[1].help.as_deref(), Some("did you mean `mul`?"));
/// ```
pub fn errors(files: &[(&str, &str)], options: Options) -> Vec<AsmError> {
    let mut assembler = Assembler::new(options);
    assembler.record = Some(Box::default());
    let recovered = "an assembler with a record continues after errors";
    for (name, text) in files {
        assembler.add_file(name, text).expect(recovered);
    }
    assembler.resolve().expect(recovered);
    let mut errors = assembler.record.take().expect("it was set above").errors;
    errors.sort_by_key(|&(at, _)| at);
    // Another error may explain that there is no entry point.
    if errors.len() > 1 {
        errors.retain(|(_, error)| !is_missing(&error.kind));
    }
    if files.iter().any(|(_, text)| dialect(text).is_some()) {
        // The first error names the other language; the rest follows from it.
        errors.truncate(1);
    }
    errors.into_iter().map(|(_, error)| error).collect()
}

/// Whether there is no entry point.
fn is_missing(kind: &AsmErrorKind) -> bool {
    matches!(kind, AsmErrorKind::NoDvle | AsmErrorKind::Undefined { what: "entry procedure", .. })
}
