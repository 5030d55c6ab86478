//! An analysis -> semantic tokens: the kind of each word, as editors colour it.

use super::document::Document;
use lsp_types::{Position, Range, SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokensLegend};
use picajit::internals::source::{Place, Symbol, SymbolKind, split_line};

/// Types, in the order of their numbers.
const TYPES: [SemanticTokenType; 9] = [
    SemanticTokenType::KEYWORD,
    SemanticTokenType::MACRO,
    SemanticTokenType::VARIABLE,
    SemanticTokenType::PARAMETER,
    SemanticTokenType::PROPERTY,
    SemanticTokenType::ENUM_MEMBER,
    SemanticTokenType::FUNCTION,
    SemanticTokenType::new("label"),
    SemanticTokenType::COMMENT,
];
const INSTRUCTION: u32 = 0;
const DIRECTIVE: u32 = 1;
const VARIABLE: u32 = 2;
const COMMENT: u32 = 8;
/// The bit of the modifier of definitions.
const DECLARATION: u32 = 1;

pub fn legend() -> SemanticTokensLegend {
    SemanticTokensLegend { token_types: TYPES.to_vec(), token_modifiers: vec![SemanticTokenModifier::DECLARATION] }
}

fn number(symbol: &Symbol) -> u32 {
    match symbol.kind {
        SymbolKind::Alias | SymbolKind::Uniform | SymbolKind::Bound => VARIABLE,
        SymbolKind::Input => 3,
        SymbolKind::Output => 4,
        SymbolKind::Constant => 5,
        SymbolKind::Procedure => 6,
        SymbolKind::Label => 7,
    }
}

/// A line, whose columns are bytes if all its characters are ASCII.
struct Line {
    row: u32,
    start: Position,
    is_plain: bool,
}

impl Line {
    fn new(document: &Document, row: u32) -> Line {
        let text = document.row(row);
        let start = document.range(Place { line: row, start: 0, end: 0 }).start;
        Line { row, start, is_plain: text.is_ascii() && !text.contains('\r') }
    }

    fn range(&self, document: &Document, place: Place) -> Range {
        let at = |byte: u32| Position { line: self.start.line, character: self.start.character + byte };
        if self.is_plain { Range { start: at(place.start), end: at(place.end) } } else { document.range(place) }
    }
}

/// The tokens of a text, in order.
pub fn tokens(document: &Document) -> Vec<SemanticToken> {
    let analysis = document.analysis();
    let mut all: Vec<(Place, u32, u32)> = Vec::new();
    for line in 0..document.rows() {
        let row = document.row(line);
        let statement = split_line(row);
        let place = |range: std::ops::Range<usize>| Place { line, start: range.start as u32, end: range.end as u32 };
        if !statement.head.is_empty() {
            let is_directive = row[statement.head.clone()].starts_with('.');
            all.push((place(statement.head), if is_directive { DIRECTIVE } else { INSTRUCTION }, 0));
        }
        all.extend(statement.comment.map(|comment| (place(comment), COMMENT, 0)));
    }
    for symbol in &analysis.symbols {
        all.extend(symbol.definitions.iter().map(|&place| (place, number(symbol), DECLARATION)));
        all.extend(symbol.uses.iter().map(|&place| (place, number(symbol), 0)));
    }
    // Registers, where no name is at the same place.
    all.extend(analysis.operands.iter().map(|operand| (operand.base, VARIABLE, 0)));
    all.retain(|(place, ..)| place.line < document.rows() && place.start < place.end);
    // The sort is stable, so names come before registers.
    all.sort_by_key(|(place, ..)| (place.line, place.start));
    let (mut tokens, mut last) = (Vec::new(), Range::default());
    let mut line = Line::new(document, 0);
    for (place, token_type, modifiers) in all {
        if place.line != line.row {
            line = Line::new(document, place.line);
        }
        let range = line.range(document, place);
        let overlaps = (range.start.line, range.start.character) < (last.end.line, last.end.character);
        if overlaps || range.start.line != range.end.line {
            continue;
        }
        let same_line = range.start.line == last.start.line;
        tokens.push(SemanticToken {
            delta_line: range.start.line - last.start.line,
            delta_start: range.start.character - if same_line { last.start.character } else { 0 },
            length: range.end.character - range.start.character,
            token_type,
            token_modifiers_bitset: modifiers,
        });
        last = range;
    }
    tokens
}
