//! A range of lines -> the edits that remove the causes of diagnostics there.
//!
//! Only causes with one likely remedy have an edit: a misspelled name, exchanged operands, a missing
//! `nop`, a component that one instruction could write.

use super::diagnostics::{of_assembler, of_finding};
use super::document::Document;
use lsp_types::{CodeAction, CodeActionKind, Diagnostic, Range, TextEdit};
use picajit::internals::source::{self, DiagnosticKind, OperandAt, Place, split_line};
use picajit::text::{AsmErrorKind, WarningKind};
use picajit_lint::{Finding, Rule};

/// An edit of the text and what it does.
struct Fix {
    title: String,
    place: Place,
    new_text: String,
}

/// The actions for the lines of a range.
pub fn actions(document: &Document, range: Range) -> Vec<CodeAction> {
    let (first, last) = (document.place_of(range.start).0, document.place_of(range.end).0);
    let lines = first..=last.min(document.rows() - 1);
    let of_errors = (document.analysis().diagnostics.iter())
        .filter(|d| lines.contains(&d.place.line))
        .filter_map(|d| Some((of_assembler(document, d), fix_of_error(document, d)?)));
    let of_findings = (document.known_findings().iter())
        .filter_map(|f| f.source.map(|source| (document.analysis().line(source), f)))
        .filter(|(line, _)| lines.contains(line))
        .filter_map(|(line, f)| Some((of_finding(document, f), fix_of_finding(document, f, line)?)));
    of_errors.chain(of_findings).map(|(diagnostic, fix)| action(document, diagnostic.1, fix)).collect()
}

#[allow(clippy::mutable_key_type)] // the key is the protocol's; its hash doesn't change
fn action(document: &Document, diagnostic: Diagnostic, fix: Fix) -> CodeAction {
    let edit = TextEdit { range: document.range(fix.place), new_text: fix.new_text };
    CodeAction {
        title: fix.title,
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(vec![diagnostic]),
        edit: Some(lsp_types::WorkspaceEdit {
            changes: Some([(document.uri().clone(), vec![edit])].into()),
            ..lsp_types::WorkspaceEdit::default()
        }),
        is_preferred: Some(true),
        ..CodeAction::default()
    }
}

fn fix_of_error(document: &Document, d: &source::Diagnostic) -> Option<Fix> {
    use AsmErrorKind::*;
    let kind = match &d.kind {
        DiagnosticKind::Error(kind) => kind,
        DiagnosticKind::Warning(WarningKind::MissingNop) => return Some(nop_before(document, d.place.line)),
        DiagnosticKind::Warning(_) => return None,
    };
    let help = d.help.as_deref()?;
    match kind {
        NarrowUniform { .. } => {
            let new_text = help.strip_prefix("exchange the operands: `")?.strip_suffix('`')?.to_string();
            let statement = split_line(document.row(d.place.line));
            let place = Place {
                line: d.place.line,
                start: statement.head.start as u32,
                end: statement.head.end.max(statement.rest.end) as u32,
            };
            // Long operands are cut off in texts.
            let is_whole = new_text.len() <= (place.end - place.start) as usize + 8 && !new_text.contains("...");
            is_whole.then(|| Fix { title: "exchange the operands".into(), place, new_text })
        }
        UnknownMnemonic(name)
        | UnknownDirective(name)
        | UnknownProperty(name)
        | UnknownComparison(name)
        | Undefined { name, .. } => {
            let new_text = suggested(help)?.to_string();
            let row = document.row(d.place.line);
            let at = row.get(d.place.start as usize..d.place.end as usize)?.find(name.as_str())?;
            let start = d.place.start + at as u32;
            let place = Place { line: d.place.line, start, end: start + name.len() as u32 };
            Some(Fix { title: format!("write `{new_text}`"), place, new_text })
        }
        _ => None,
    }
}

/// The name that a help suggests in place of the wrong one.
fn suggested(help: &str) -> Option<&str> {
    let begins = ["did you mean `", "write `", "the instruction is `", "the directive is `"];
    let rest = begins.into_iter().find_map(|begin| help.strip_prefix(begin))?;
    let name = rest.trim_end_matches('?').strip_suffix('`')?;
    (!name.contains([' ', '`'])).then_some(name)
}

fn fix_of_finding(document: &Document, f: &Finding, line: u32) -> Option<Fix> {
    match f.rule {
        Rule::AdjacentMova | Rule::DroppedTransfer => Some(nop_after(document, line)),
        Rule::UnwrittenOutput => write_too(document, f, line),
        _ => None,
    }
}

fn nop_before(document: &Document, line: u32) -> Fix {
    let place = Place { line, start: 0, end: 0 };
    Fix { title: "insert `nop`".into(), place, new_text: format!("{}nop\n", indent(document, line)) }
}

fn nop_after(document: &Document, line: u32) -> Fix {
    let end = document.row(line).len() as u32;
    let place = Place { line, start: end, end };
    Fix { title: "insert `nop`".into(), place, new_text: format!("\n{}nop", indent(document, line)) }
}

/// The blanks before the instruction in a line, or before the one above a directive.
fn indent(document: &Document, line: u32) -> &str {
    let is_instruction = |line: &u32| {
        let row = document.row(*line);
        let head = &row[split_line(row).head];
        !head.is_empty() && !head.starts_with('.')
    };
    let row = document.row((0..=line).rev().find(is_instruction).unwrap_or(line));
    &row[..row.len() - row.trim_start_matches([' ', '\t']).len()]
}

/// Adds the missing components to the one instruction that writes the output.
fn write_too(document: &Document, f: &Finding, line: u32) -> Option<Fix> {
    // `o0.w is mapped and never written`
    let (register, missing) = f.message.split(' ').next()?.split_once('.')?;
    let number: u32 = register.strip_prefix('o')?.parse().ok()?;
    let analysis = document.analysis();
    let (_, lines) = analysis.part(line);
    let is_write = |o: &&OperandAt| {
        let is_it = o.register.is_some_and(|r| (r.letter, r.number) == ('o', number));
        o.written && is_it && lines.contains(&o.place.line) && !analysis.words(o.place.line).is_empty()
    };
    let mut writes = analysis.operands.iter().filter(is_write);
    let (write, other) = (writes.next()?, writes.next());
    if other.is_some() || write.place.line >= document.rows() {
        return None;
    }
    let has = |n: usize, c: char| missing.contains(c) || write.components.contains(&(n as u8));
    let mask: String = "xyzw".chars().enumerate().filter(|&(n, c)| has(n, c)).map(|(_, c)| c).collect();
    let place = Place { start: write.base.end, ..write.place };
    let title = format!("write `.{missing}` too in line {}", place.line + 1);
    Some(Fix { title, place, new_text: format!(".{mask}") })
}
