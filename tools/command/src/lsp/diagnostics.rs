//! A text -> the protocol's diagnostics: those of the assembler, and the findings of lint.

use super::document::Document;
use lsp_types::{Diagnostic, DiagnosticSeverity, NumberOrString, Uri};
use picajit::internals::source::{self, DiagnosticKind, Place, split_line};
use picajit_lint::{Finding, Rule, Severity};

/// Name of the origin that editors show.
pub const SOURCE: &str = "picajit";

/// The errors and warnings of a text and its libraries, and the findings that are known already;
/// each with its text.
pub fn diagnostics(document: &Document) -> Vec<(Uri, Diagnostic)> {
    let first = Place { line: 0, start: 0, end: 0 };
    let of_list = document.faults.iter().map(|fault| {
        let message = format!("a library of the settings is missing: {fault}");
        diagnostic(document, first, DiagnosticSeverity::WARNING, "library".into(), message)
    });
    let of_text = document.analysis().diagnostics.iter().map(|d| of_assembler(document, d));
    // The assembler's own diagnostics have these with their columns.
    let findings = document.known_findings().iter().filter(|finding| finding.rule != Rule::LenientReading);
    of_list.chain(of_text).chain(findings.map(|finding| of_finding(document, finding))).collect()
}

/// The diagnostic of an error or a warning.
pub fn of_assembler(document: &Document, d: &source::Diagnostic) -> (Uri, Diagnostic) {
    let (severity, name) = match &d.kind {
        DiagnosticKind::Error(kind) => (DiagnosticSeverity::ERROR, format!("{kind:?}")),
        DiagnosticKind::Warning(kind) => (DiagnosticSeverity::WARNING, format!("{kind:?}")),
    };
    let help = d.help.as_ref().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
    diagnostic(document, d.place, severity, rule(&name), format!("{}{help}", d.kind))
}

/// The diagnostic of a finding.
pub fn of_finding(document: &Document, finding: &Finding) -> (Uri, Diagnostic) {
    let severity = match finding.severity() {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
        Severity::Note => DiagnosticSeverity::INFORMATION,
    };
    let message = format!("{finding}\nhelp: {}", finding.help());
    diagnostic(document, place(document, finding), severity, finding.rule.name().into(), message)
}

fn diagnostic(
    document: &Document,
    place: Place,
    severity: DiagnosticSeverity,
    code: String,
    message: String,
) -> (Uri, Diagnostic) {
    let place = visible(document, place);
    let diagnostic = Diagnostic {
        range: document.range(place),
        severity: Some(severity),
        code: Some(NumberOrString::String(code)),
        source: Some(SOURCE.into()),
        message,
        ..Diagnostic::default()
    };
    (document.location(place).uri, diagnostic)
}

/// The statement that a finding concerns; the first line if there is none.
fn place(document: &Document, finding: &Finding) -> Place {
    let line = finding.source.map_or(0, |source| document.analysis().line(source));
    let statement = split_line(document.row(line));
    let end = statement.head.end.max(statement.rest.end);
    Place { line, start: statement.head.start as u32, end: end as u32 }
}

/// At least one byte: editors hardly show an empty range.
fn visible(document: &Document, place: Place) -> Place {
    let len = document.row(place.line).len() as u32;
    match place {
        Place { start, end, .. } if start < end => place,
        Place { start, .. } if start < len => Place { end: start + 1, ..place },
        Place { start, .. } => Place { start: start.saturating_sub(1), ..place },
    }
}

/// The name of a kind, `unknown-mnemonic`, from its form in Rust, `UnknownMnemonic("x")`.
fn rule(debug: &str) -> String {
    let mut name = String::new();
    for c in debug.chars().take_while(char::is_ascii_alphanumeric) {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}
