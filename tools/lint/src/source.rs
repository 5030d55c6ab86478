//! Source texts -> declarations and operands by line, for rules about names.
//!
//! Each text is analyzed by itself, as in an editor. Registers that several texts share may then
//! have other numbers than in the program, so rules compare registers of one text only.

use super::Subject;
use picajit::internals::source::{Analysis, analyze};
use picajit::internals::source::{OperandAt, Place, Symbol, SymbolKind};
use picajit::isa::Pc;
use picajit::text::Options;
use std::collections::{BTreeMap, HashMap};

/// The texts of a subject.
pub(super) struct Sources {
    pub texts: Vec<Text>,
}

/// One text.
pub(super) struct Text {
    /// The file index of its first part; `.file` separates parts.
    first_file: u32,
    pub analysis: Analysis,
    /// The symbol at a place, by line and first byte.
    symbols: HashMap<(u32, u32), usize>,
    /// The words of each line, from 0.
    words: BTreeMap<u32, Vec<Pc>>,
}

impl Sources {
    pub fn new(subject: &Subject<'_>) -> Sources {
        let mut texts: Vec<Text> = Vec::new();
        let mut first_file = 0;
        for (n, source) in subject.sources.iter().enumerate() {
            // The parts of one text have one entry each, or share a single one.
            if n > 0 && std::ptr::eq(*source, subject.sources[n - 1]) {
                continue;
            }
            let text = Text::new(subject, first_file, source);
            first_file += text.analysis.parts.len() as u32;
            texts.push(text);
        }
        Sources { texts }
    }

    /// The text of each file index.
    pub fn by_file<'a>(&self, subject: &Subject<'a>) -> Vec<&'a str> {
        let parts = self.texts.iter().map(|text| text.analysis.parts.len());
        let mut distinct = subject.sources.clone();
        distinct.dedup_by(|a, b| std::ptr::eq(*a, *b));
        distinct.into_iter().zip(parts).flat_map(|(text, parts)| std::iter::repeat_n(text, parts)).collect()
    }

    /// The line of an entry's declaration of `letter` register `number`: file index, then line from 1.
    pub fn declaration(&self, subject: &Subject<'_>, entry: usize, letter: char, number: u32) -> Option<(u32, u32)> {
        let point = subject.entries.get(entry)?;
        let &(file, line) = subject.lines.get(usize::from(point.entry.pc))?;
        let text = self.text(file)?;
        let (_, part) = text.analysis.part(line.saturating_sub(1));
        let declares = |symbol: &&Symbol| {
            matches!(symbol.kind, SymbolKind::Input | SymbolKind::Output)
                && symbol.register.is_some_and(|r| (r.letter, r.number) == (letter, number))
        };
        let places = text.analysis.symbols.iter().filter(declares).flat_map(|symbol| &symbol.definitions);
        places.copied().find(|place| part.contains(&place.line)).map(|place| text.source(place))
    }

    /// The last line that sets a uniform register, as `.setf` does.
    pub fn setting(&self, letter: char, number: u32) -> Option<(u32, u32)> {
        self.texts.iter().rev().find_map(|text| {
            let is_alias = |line: u32| {
                let aliases = text.analysis.symbols.iter().filter(|symbol| symbol.kind == SymbolKind::Alias);
                aliases.flat_map(|symbol| &symbol.definitions).any(|place| place.line == line)
            };
            let sets = |operand: &&OperandAt| {
                let line = operand.place.line;
                let is_register = operand.register.is_some_and(|r| (r.letter, r.number) == (letter, number));
                is_register && text.words(line).is_empty() && !is_alias(line)
            };
            text.analysis.operands.iter().rev().find(sets).map(|operand| text.source(operand.place))
        })
    }

    /// The text of a file index, and the operands of a word's line.
    pub fn operands(&self, subject: &Subject<'_>, pc: Pc) -> Option<(&Text, &[OperandAt])> {
        let &(file, line) = subject.lines.get(usize::from(pc))?;
        let text = self.text(file)?;
        Some((text, text.operands(line.saturating_sub(1))))
    }

    fn text(&self, file: u32) -> Option<&Text> {
        self.texts.iter().find(|text| text.files().contains(&file))
    }
}

impl Text {
    fn new(subject: &Subject<'_>, first_file: u32, source: &str) -> Text {
        let analysis = analyze(source, Options::default());
        let mut symbols = HashMap::new();
        for (index, symbol) in analysis.symbols.iter().enumerate() {
            let places = symbol.definitions.iter().chain(&symbol.uses);
            symbols.extend(places.map(|place| ((place.line, place.start), index)));
        }
        let mut text = Text { first_file, analysis, symbols, words: BTreeMap::new() };
        for (pc, (file, line)) in (0..).zip(subject.lines) {
            if text.files().contains(file) {
                text.words.entry(line.saturating_sub(1)).or_default().push(pc);
            }
        }
        text
    }

    fn files(&self) -> std::ops::Range<u32> {
        self.first_file..self.first_file + self.analysis.parts.len() as u32
    }

    /// A place as file index and line from 1.
    pub fn source(&self, place: Place) -> (u32, u32) {
        let part = self.analysis.parts.partition_point(|part| part.first_line <= place.line).max(1) - 1;
        (self.first_file + part as u32, place.line + 1)
    }

    /// The symbol that an operand names.
    pub fn symbol(&self, operand: &OperandAt) -> Option<&Symbol> {
        let index = self.symbols.get(&(operand.base.line, operand.base.start))?;
        self.analysis.symbols.get(*index)
    }

    /// The operands of a line, from 0.
    pub fn operands(&self, line: u32) -> &[OperandAt] {
        let operands = &self.analysis.operands;
        let first = operands.partition_point(|operand| operand.place.line < line);
        let end = operands.partition_point(|operand| operand.place.line <= line);
        &operands[first..end]
    }

    /// The words of a line, from 0.
    pub fn words(&self, line: u32) -> &[Pc] {
        self.words.get(&line).map_or(&[], Vec::as_slice)
    }
}
