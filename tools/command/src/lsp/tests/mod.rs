//! Tests of the language server: sources of the suite, a client on a memory connection.

mod actions;
mod client;
mod editing;
mod editor;
mod features;
mod grammar;
mod libraries;
mod random;
mod sources;

use super::document::Document;
use super::text::Encoding;
use lsp_types::{Position, TextEdit, Uri};
use picajit::text::Options;

/// An open text.
fn document(text: &str) -> Document {
    Document::new(uri(), 1, text.into(), Encoding::Utf16, Options::default())
}

fn uri() -> Uri {
    "file:///a.pica".parse().expect("a URI")
}

/// The position of the first `|` of a text, and the text without it.
fn at_bar(text: &str) -> (Document, Position) {
    let at = text.find('|').expect("a bar");
    let before = &text[..at];
    let line = before.matches('\n').count() as u32;
    let column = before.rsplit('\n').next().unwrap_or("").encode_utf16().count() as u32;
    (document(&text.replacen('|', "", 1)), Position { line, character: column })
}

/// `text` after edits, which don't overlap; written without the server's positions.
fn apply(text: &str, edits: &[TextEdit]) -> String {
    let mut units: Vec<u16> = text.encode_utf16().collect();
    let starts = starts(&units);
    let index = |position| unit_in(&units, &starts, position);
    let mut edits: Vec<_> = edits.iter().map(|e| (index(e.range.start), index(e.range.end), &e.new_text)).collect();
    edits.sort();
    for (start, end, new_text) in edits.into_iter().rev() {
        units.splice(start..end, new_text.encode_utf16());
    }
    String::from_utf16(&units).expect("edits at character boundaries")
}

/// The index of a position in UTF-16 units.
fn unit(units: &[u16], position: Position) -> usize {
    unit_in(units, &starts(units), position)
}

/// The first unit of each line.
fn starts(units: &[u16]) -> Vec<usize> {
    let ends_line = |n: usize| units[n] == 10 || units[n] == 13 && units.get(n + 1) != Some(&10);
    std::iter::once(0).chain((0..units.len()).filter(|&n| ends_line(n)).map(|n| n + 1)).collect()
}

fn unit_in(units: &[u16], starts: &[usize], position: Position) -> usize {
    let Some(&at) = starts.get(position.line as usize) else { return units.len() };
    let len = units[at..].iter().position(|&unit| unit == 10 || unit == 13).unwrap_or(units.len() - at);
    let end = at + len.min(position.character as usize);
    let between_halves = end < at + len && (0xDC00..0xE000).contains(&units[end]);
    end - usize::from(between_halves)
}

/// A generator of pseudo-random numbers (xorshift), for repeatable tests.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Whether slow tests run in their complete form.
fn full() -> bool {
    std::env::var_os("PICAJIT_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}
