//! An open text: edits, positions, and the analysis of its current version.
//!
//! Positions of the protocol count UTF-16 units or bytes in lines that end at `\n`, `\r\n` or `\r`.
//! Places of the assembler count bytes in lines that end at `\n`. Both convert through byte
//! offsets. A position outside of the text is the nearest one inside.

use lsp_types::{Position, Range, TextDocumentContentChangeEvent, Uri};
use picajit::internals::lint::{Finding, Subject, lint};
use picajit::internals::source::{Analysis, Place, analyze};
use picajit::program::Program;
use picajit::text::Options;
use std::cell::OnceCell;

/// The unit of a position's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16,
}

/// Words of a vertex unit's memory.
const VERTEX_WORDS: usize = 512;

/// An open text.
pub struct Document {
    pub uri: Uri,
    pub version: i32,
    text: String,
    encoding: Encoding,
    options: Options,
    /// First bytes of the protocol's lines.
    lines: Vec<usize>,
    /// First bytes of the assembler's lines.
    rows: Vec<usize>,
    analysis: OnceCell<Analysis>,
    findings: OnceCell<Vec<Finding>>,
}

impl Document {
    pub fn new(uri: Uri, version: i32, text: String, encoding: Encoding, options: Options) -> Document {
        let mut document = Document {
            uri,
            version,
            text,
            encoding,
            options,
            lines: Vec::new(),
            rows: Vec::new(),
            analysis: OnceCell::new(),
            findings: OnceCell::new(),
        };
        document.find_lines();
        document
    }

    pub fn options(&self) -> Options {
        self.options
    }

    /// The analysis of the current text.
    pub fn analysis(&self) -> &Analysis {
        self.analysis.get_or_init(|| analyze(&self.text, self.options))
    }

    /// Whether lint of the text takes long, so that it waits for a pause between edits.
    pub fn is_large(&self) -> bool {
        self.analysis().assembly.shbin.code.len() > VERTEX_WORDS
    }

    /// The findings of lint; none of a text with errors.
    pub fn findings(&self) -> &[Finding] {
        self.findings.get_or_init(|| {
            let of = |program: &Program, sources: &[&str]| {
                lint(&Subject::assembly(program, &self.analysis().assembly, sources))
            };
            // The parts of a text count its lines on.
            let sources: Vec<&str> = self.analysis().parts.iter().map(|_| self.text.as_str()).collect();
            self.program().map_or_else(Vec::new, |program| of(&program, &sources))
        })
    }

    /// The findings, if they are known already.
    pub fn known_findings(&self) -> &[Finding] {
        self.findings.get().map_or(&[], Vec::as_slice)
    }

    /// The program of a text without errors.
    pub fn program(&self) -> Option<Program> {
        let analysis = self.analysis();
        if analysis.is_correct() { analysis.assembly.shbin.program().ok() } else { None }
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
        self.analysis = OnceCell::new();
        self.findings = OnceCell::new();
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
