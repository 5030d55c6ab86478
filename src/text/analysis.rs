//! A source text, finished or half typed -> all its errors and warnings, its symbol table, its
//! operands and its words. For editors.
//!
//! The assembler itself analyzes the text: it continues after errors, and records names.

use super::asm::{Assembler, Assembly, Options};
use super::error::AsmErrorKind;
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
        let lines = &self.assembly.lines;
        lines.partition_point(|&(_, n)| n <= line)..lines.partition_point(|&(_, n)| n <= line + 1)
    }
}

/// Analyzes a source text.
pub fn analyze(text: &str, options: Options) -> Analysis {
    let mut assembler = Assembler::new(options);
    assembler.record = Some(Box::default());
    let recovered = "an assembler with a record continues after errors";
    assembler.add_file("input", text).expect(recovered);
    let dvles = assembler.resolve().expect(recovered);
    let mut record: Record<'_> = *assembler.record.take().expect("it was set above");
    record.set_sizes(&assembler.procs);
    record.resolve(Space::Procedures);
    // Files with `.nodvle` are parts of a program with other files; elsewhere an entry point is
    // missing because of another error.
    let explained = record.parts.iter().any(|part| part.no_dvle) || record.faults.len() > 1;
    let fault = |(line, fault): (u32, super::error::Fault)| Diagnostic {
        place: Place { line, start: fault.at as u32, end: (fault.at + fault.len) as u32 },
        kind: DiagnosticKind::Error(fault.kind),
    };
    let warning = |(place, kind)| Diagnostic { place, kind: DiagnosticKind::Warning(kind) };
    let mut diagnostics: Vec<Diagnostic> = (record.faults.into_iter())
        .filter(|(_, fault)| !(explained && fault.kind == AsmErrorKind::NoDvle))
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
        assembly: assembler.into_assembly(dvles),
    }
}
