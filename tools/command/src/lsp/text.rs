//! A text and its positions, of an open file or of a library.
//!
//! Positions of the protocol count UTF-16 units or bytes in lines that end at `\n`, `\r\n` or `\r`.
//! Places of the assembler count bytes in lines that end at `\n`. Both convert through byte
//! offsets. A position outside of the text is the nearest one inside.

use crate::source::{is_library, procedures};
use crate::uri;
use lsp_types::{Position, Range, TextDocumentContentChangeEvent, Uri};
use picajit::internals::source::{Place, split_line};
use std::cell::OnceCell;

/// The unit of a position's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16,
}

/// The procedures that a text has and needs.
#[derive(Clone, Debug)]
pub struct Procedures {
    /// Those that it defines.
    pub defined: Vec<String>,
    /// Those that it calls or begins at.
    pub called: Vec<String>,
}

/// A text.
#[derive(Clone, Debug)]
pub struct Text {
    pub uri: Uri,
    text: String,
    encoding: Encoding,
    /// First bytes of the protocol's lines.
    lines: Vec<usize>,
    /// First bytes of the assembler's lines.
    rows: Vec<usize>,
    procedures: OnceCell<Procedures>,
    is_library: OnceCell<bool>,
}

impl Text {
    pub fn new(uri: Uri, text: String, encoding: Encoding) -> Text {
        let (lines, rows) = (Vec::new(), Vec::new());
        let (procedures, is_library) = (OnceCell::new(), OnceCell::new());
        let mut text = Text { uri, text, encoding, lines, rows, procedures, is_library };
        text.find_lines();
        text
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name of its file.
    pub fn name(&self) -> String {
        let path = uri::path(self.uri.as_str());
        let name = path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| self.uri.as_str().into())
    }

    /// The procedures that it has and needs.
    pub fn procedures(&self) -> &Procedures {
        self.procedures.get_or_init(|| Procedures {
            defined: self
                .text
                .lines()
                .filter(|line| begins_with(line, "."))
                .flat_map(procedures)
                .map(Into::into)
                .collect(),
            called: self
                .text
                .lines()
                .filter(|line| begins_with(line, ".cC"))
                .filter_map(called)
                .map(Into::into)
                .collect(),
        })
    }

    /// Whether it gives no entry.
    pub fn is_library(&self) -> bool {
        *self.is_library.get_or_init(|| is_library(&self.text))
    }

    /// Applies an edit; without a range it replaces the whole text.
    pub fn edit(&mut self, change: &TextDocumentContentChangeEvent) {
        match change.range {
            Some(range) => {
                let start = self.offset(range.start);
                let end = self.offset(range.end).max(start);
                self.text.replace_range(start..end, &change.text);
            }
            None => self.text.clone_from(&change.text),
        }
        self.find_lines();
        self.procedures = OnceCell::new();
        self.is_library = OnceCell::new();
    }

    fn find_lines(&mut self) {
        self.lines.clear();
        self.rows.clear();
        self.lines.push(0);
        self.rows.push(0);
        let bytes = self.text.as_bytes();
        for (n, &byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' => {
                    self.lines.push(n + 1);
                    self.rows.push(n + 1);
                }
                b'\r' if bytes.get(n + 1) != Some(&b'\n') => self.lines.push(n + 1),
                _ => {}
            }
        }
    }

    /// A line of the assembler, without its end; empty beyond the text.
    pub fn row(&self, row: u32) -> &str {
        let Some(&start) = self.rows.get(row as usize) else { return "" };
        let Some(&next) = self.rows.get(row as usize + 1) else { return &self.text[start..] };
        let line = &self.text[start..next - 1];
        line.strip_suffix('\r').unwrap_or(line)
    }

    /// Number of lines of the assembler.
    pub fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    /// The byte offset of a position.
    fn offset(&self, position: Position) -> usize {
        let Some(&start) = self.lines.get(position.line as usize) else { return self.text.len() };
        let end = self.lines.get(position.line as usize + 1).copied().unwrap_or(self.text.len());
        let line = self.text[start..end].trim_end_matches(['\r', '\n']);
        let column = position.character as usize;
        if self.encoding == Encoding::Utf8 {
            let mut byte = column.min(line.len());
            while !line.is_char_boundary(byte) {
                byte -= 1;
            }
            return start + byte;
        }
        let mut units = 0;
        for (byte, c) in line.char_indices() {
            units += c.len_utf16();
            if units > column {
                return start + byte;
            }
        }
        start + line.len()
    }

    /// The position of a byte offset.
    fn position(&self, offset: usize) -> Position {
        let line = self.lines.partition_point(|&start| start <= offset) - 1;
        let before = &self.text[self.lines[line]..offset];
        let character = match self.encoding {
            Encoding::Utf8 => before.len(),
            Encoding::Utf16 if before.is_ascii() => before.len(),
            Encoding::Utf16 => before.encode_utf16().count(),
        };
        Position { line: line as u32, character: character as u32 }
    }

    /// A position as a line of the assembler and a byte in it.
    pub fn place_of(&self, position: Position) -> (u32, u32) {
        let offset = self.offset(position);
        let row = self.rows.partition_point(|&start| start <= offset) - 1;
        (row as u32, (offset - self.rows[row]) as u32)
    }

    /// A place of the assembler as a range of the protocol.
    pub fn range(&self, place: Place) -> Range {
        let Place { line, start, end } = place;
        Range { start: self.position_in_row(line, start), end: self.position_in_row(line, end) }
    }

    fn position_in_row(&self, row: u32, byte: u32) -> Position {
        let start = self.rows.get(row as usize).copied().unwrap_or(self.text.len());
        let mut offset = start + (byte as usize).min(self.row(row).len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        self.position(offset)
    }
}

/// Whether a line's statement can begin with one of these letters. A label may be before it.
fn begins_with(line: &str, letters: &str) -> bool {
    line.trim_start().starts_with(|c| letters.contains(c)) || line.contains(':')
}

/// The procedure that a line calls or begins at.
fn called(line: &str) -> Option<&str> {
    let statement = split_line(line);
    let head = &line[statement.head];
    let names = ["call", "callc", "callu", ".entry"].into_iter().any(|name| head.eq_ignore_ascii_case(name));
    let last = line[statement.rest].rsplit(',').next().map(str::trim);
    last.filter(|name| names && !name.is_empty())
}
