//! A text -> the lines that an editor can fold: blocks, each part of an `ifc` or `ifu`, and comments
//! of several lines.

use super::document::Document;
use super::layout::{Shift, block_shift};
use lsp_types::{FoldingRange, FoldingRangeKind};
use picajit::internals::source::{Place, split_line};

/// The ranges of a text, by their first lines.
pub fn ranges(document: &Document) -> Vec<FoldingRange> {
    let mut found: Vec<(u32, u32, FoldingRangeKind)> = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    let mut comment: Option<u32> = None;
    for row in 0..document.rows() {
        let text = document.row(row);
        let statement = split_line(text);
        let is_comment = statement.comment.as_ref().is_some_and(|comment| text[..comment.start].trim().is_empty());
        if is_comment {
            comment.get_or_insert(row);
        } else if let Some(first) = comment.take() {
            found.push((first, row - 1, FoldingRangeKind::Comment));
        }
        let shift = block_shift(&text[statement.head].to_ascii_lowercase(), &text[statement.rest]);
        if matches!(shift, Shift::Middle | Shift::Close)
            && let Some(first) = open.pop()
        {
            // The line that ends the block stays visible.
            found.push((first, row - 1, FoldingRangeKind::Region));
        }
        if matches!(shift, Shift::Open | Shift::Middle) {
            open.push(row);
        }
    }
    if let Some(first) = comment {
        found.push((first, document.rows() - 1, FoldingRangeKind::Comment));
    }
    found.sort_by_key(|(first, last, _)| (*first, *last));
    // A lone CR ends an editor's line and not a row, so a row's end may be on a later line than its
    // start.
    let line =
        |row: u32, byte: usize| document.range(Place { line: row, start: byte as u32, end: byte as u32 }).start.line;
    let range = |(first, last, kind): (u32, u32, FoldingRangeKind)| FoldingRange {
        start_line: line(first, 0),
        end_line: line(last, document.row(last).len()),
        kind: Some(kind),
        ..FoldingRange::default()
    };
    found.into_iter().filter(|(first, last, _)| first < last).map(range).collect()
}
