//! A text -> the edits that indent and space it.
//!
//! Invariant: only blanks change, so the words and tables stay; laying out twice changes nothing
//! more. The server assembles the new text to verify the first, and makes no edit if it differs.

use super::document::Document;
use super::names::same_program;
use lsp_types::{FormattingOptions, TextEdit};
use picajit::internals::source::{Place, Statement, split_line};
use std::collections::HashMap;

/// Blanks between a statement and its comment.
const COMMENT_GAP: usize = 2;
/// Code beyond this width doesn't move the comments of the lines around it.
const WIDEST_ALIGNED: usize = 60;
/// Nesting that is indented further.
const DEEPEST: usize = 32;

/// A line, laid out.
struct Line {
    code: String,
    comment: String,
    /// The line has no statement and no label: its comment is indented, and not aligned with others.
    comment_only: bool,
    /// The line stays as it is.
    verbatim: bool,
}

/// The edits that lay out a text.
pub fn edits(document: &Document, options: &FormattingOptions) -> Vec<TextEdit> {
    let rows = laid_out(document, options);
    let text = rows.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    if !same_program(document.analysis(), &document.analysis_with(&[&text])) {
        return Vec::new();
    }
    let mut edits = Vec::new();
    for (row, new) in (0..).zip(rows) {
        let old = document.row(row);
        if old != new {
            let range = document.range(Place { line: row, start: 0, end: old.len() as u32 });
            edits.push(TextEdit { range, new_text: new });
        }
    }
    edits
}

/// All lines, laid out.
fn laid_out(document: &Document, options: &FormattingOptions) -> Vec<String> {
    let unit = if options.insert_spaces { " ".repeat(options.tab_size.clamp(1, 16) as usize) } else { "\t".into() };
    let mut depth = 0usize;
    let mut ended = false;
    let mut lines: Vec<Line> = Vec::new();
    for row in 0..document.rows() {
        let text = document.row(row);
        // The assembler reads no further than a NUL.
        ended |= text.contains('\0');
        let statement = split_line(text);
        let head = text[statement.head.clone()].to_ascii_lowercase();
        let shift = block_shift(&head, &text[statement.rest.clone()]);
        let outdented = matches!(shift, Shift::Close | Shift::Middle);
        let level = depth.saturating_sub(usize::from(outdented)).min(DEEPEST);
        lines.push(match ended || statement.bad_label || head.starts_with('#') || text.contains('\r') {
            true => Line { code: text.into(), comment: String::new(), comment_only: false, verbatim: true },
            false => line(text, &statement, &head, &unit.repeat(level)),
        });
        match shift {
            Shift::Open => depth += 1,
            Shift::Close => depth = depth.saturating_sub(1),
            Shift::Middle | Shift::None => {}
        }
    }
    align(lines)
}

fn line(text: &str, statement: &Statement, head: &str, indent: &str) -> Line {
    let labels: Vec<String> = statement.labels.iter().map(|label| format!("{}:", &text[label.clone()])).collect();
    let labels = labels.join(" ");
    let code = code(head, &text[statement.head.clone()], &text[statement.rest.clone()]);
    let comment = statement.comment.clone().map_or(String::new(), |range| text[range].trim_end().into());
    let comment_only = labels.is_empty() && code.is_empty();
    // A label takes the place of the indentation, as far as it fits.
    let code = match (labels.is_empty(), code.is_empty()) {
        (true, true) => indent.into(),
        (true, false) => format!("{indent}{code}"),
        (false, true) => labels,
        (false, false) if labels.len() < indent.len() => {
            format!("{labels}{}{code}", &indent[labels.len()..])
        }
        (false, false) => format!("{labels} {code}"),
    };
    Line { code, comment, comment_only, verbatim: false }
}

/// A statement with single blanks.
fn code(head: &str, written: &str, rest: &str) -> String {
    let by_blanks = [".alias", ".in", ".out", ".entry", ".gsh", ".setb", ".bind", ".label"].contains(&head);
    let rest = if by_blanks {
        rest.split([' ', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    } else {
        let arguments: Vec<&str> = rest.split(',').map(trimmed).collect();
        arguments.join(", ").trim_end().into()
    };
    if rest.is_empty() { written.into() } else { format!("{written} {rest}") }
}

/// Without the blanks at both ends.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Joins code and comments. The comments after neighbouring statements begin in one column.
fn align(lines: Vec<Line>) -> Vec<String> {
    let aligned = |line: &Line| !line.comment.is_empty() && !line.comment_only && !line.verbatim;
    let mut out = Vec::with_capacity(lines.len());
    let mut rest = lines.as_slice();
    while let Some(first) = rest.first() {
        if !aligned(first) {
            out.push(match (first.verbatim, first.comment.is_empty()) {
                (true, _) => first.code.clone(),
                (false, true) => first.code.trim_end().into(),
                (false, false) => format!("{}{}", first.code, first.comment),
            });
            rest = &rest[1..];
            continue;
        }
        let group = rest.iter().take_while(|line| aligned(line)).count();
        let width = |line: &Line| line.code.chars().count();
        let widest = rest[..group].iter().map(width).filter(|&n| n <= WIDEST_ALIGNED).max().unwrap_or(0);
        for line in &rest[..group] {
            let gap = widest.saturating_sub(width(line)) + COMMENT_GAP;
            out.push(format!("{}{}{}", line.code, " ".repeat(gap), line.comment));
        }
        rest = &rest[group..];
    }
    out
}

/// The effect of a statement on the nesting of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    None,
    Open,
    Middle,
    Close,
}

pub fn block_shift(head: &str, rest: &str) -> Shift {
    match head {
        ".proc" | "ifc" | "ifu" | "for" => Shift::Open,
        ".constfa" if !rest.starts_with('(') => Shift::Open,
        ".else" => Shift::Middle,
        ".end" => Shift::Close,
        _ => Shift::None,
    }
}

/// For each line that opens a block, the line that closes it.
pub fn block_ends(document: &Document) -> HashMap<u32, u32> {
    let mut open = Vec::new();
    let mut ends = HashMap::new();
    for row in 0..document.rows() {
        let text = document.row(row);
        let statement = split_line(text);
        match block_shift(&text[statement.head].to_ascii_lowercase(), &text[statement.rest]) {
            Shift::Open => open.push(row),
            Shift::Close => {
                if let Some(start) = open.pop() {
                    ends.insert(start, row);
                }
            }
            _ => {}
        }
    }
    ends
}
