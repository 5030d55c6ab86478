//! A position -> the definitions and uses of the name there; a new name -> edits.
//!
//! Invariant: a rename changes no word, descriptor or entry point, and gives no error. The server
//! assembles the new text to verify that, so that a new name can't hide a register or another name.

use super::document::Document;
use super::text::Text;
use lsp_types::{DocumentHighlight, DocumentHighlightKind, Location, Position, Range, TextEdit, Uri};
use picajit::container::shbin::{Shbin, Uniform};
use picajit::internals::source::{Analysis, Place, Symbol, SymbolKind, is_identifier, reads_like_a_register};
use std::fmt;

/// Why a name can't be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum RenameError {
    /// There is no name, or it is not defined in this text.
    NoName,
    /// Not an identifier.
    NotAName(String),
    /// It reads like a register.
    Register(String),
    /// The new text has an error that the old one doesn't have.
    Error { name: String, error: String },
    /// The new text has another meaning.
    Taken(String),
}

impl fmt::Display for RenameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RenameError::NoName => f.write_str("no name that this text defines"),
            RenameError::NotAName(s) => {
                write!(f, "`{s}` is not a name: expected a letter, `_` or `$`, then letters, digits, `_` or `$`")
            }
            RenameError::Register(s) => write!(f, "`{s}` reads like a register"),
            RenameError::Error { name, error } => write!(f, "`{name}` is not possible here: {error}"),
            RenameError::Taken(s) => write!(f, "`{s}` would change the program: the name has a meaning already"),
        }
    }
}

/// The definitions of the name at a position.
pub fn definitions(document: &Document, position: Position) -> Vec<Location> {
    let (line, byte) = document.place_of(position);
    let Some((symbol, _)) = document.analysis().symbol_at(line, byte) else { return Vec::new() };
    locations(document, symbol, false)
}

/// The uses of the name at a byte of a line, with or without its definitions.
pub fn references(document: &Document, (line, byte): (u32, u32), declaration: bool) -> Vec<Location> {
    let Some((symbol, _)) = document.analysis().symbol_at(line, byte) else { return Vec::new() };
    let definitions = if declaration { locations(document, symbol, false) } else { Vec::new() };
    definitions.into_iter().chain(locations(document, symbol, true)).collect()
}

fn locations(document: &Document, symbol: &Symbol, uses: bool) -> Vec<Location> {
    let places = if uses { &symbol.uses } else { &symbol.definitions };
    places.iter().map(|&place| document.location(place)).collect()
}

/// The places in the text with the name or the register at a position, and whether each one writes it.
pub fn highlights(document: &Document, position: Position) -> Vec<DocumentHighlight> {
    let (line, byte) = document.place_of(position);
    let analysis = document.analysis();
    let mut places: Vec<(Place, bool)> = Vec::new();
    if let Some((symbol, _)) = analysis.symbol_at(line, byte) {
        places.extend(symbol.definitions.iter().map(|&place| (place, true)));
        let is_written = |place: Place| {
            let first = analysis.operands.partition_point(|operand| operand.place.line < place.line);
            let line = analysis.operands[first..].iter().take_while(|operand| operand.place.line == place.line);
            line.into_iter().any(|operand| operand.base == place && operand.written)
        };
        places.extend(symbol.uses.iter().map(|&place| (place, is_written(place))));
    } else if let Some(at) = analysis.operands.iter().find(|operand| operand.base.touches(line, byte)) {
        let (_, lines) = analysis.part(line);
        let same = analysis.operands.iter().filter(|o| o.register == at.register && lines.contains(&o.place.line));
        places.extend(same.map(|operand| (operand.base, operand.written)));
    }
    places.retain(|(place, _)| place.line < document.rows());
    places.sort();
    let kind = |writes| if writes { DocumentHighlightKind::WRITE } else { DocumentHighlightKind::READ };
    let highlight = |(place, writes)| DocumentHighlight { range: document.range(place), kind: Some(kind(writes)) };
    places.into_iter().map(highlight).collect()
}

/// The range and text of the name at a position, if it can be renamed.
pub fn renameable(document: &Document, position: Position) -> Option<(Range, String)> {
    let (line, byte) = document.place_of(position);
    let (symbol, place) = document.analysis().symbol_at(line, byte)?;
    is_identifier(&symbol.name).then(|| (document.range(place), symbol.name.clone()))
}

/// The edits that rename the name at a byte of a line, each with its text.
pub fn rename(document: &Document, (line, byte): (u32, u32), new: &str) -> Result<Vec<(Uri, TextEdit)>, RenameError> {
    let analysis = document.analysis();
    let Some((symbol, _)) = analysis.symbol_at(line, byte) else { return Err(RenameError::NoName) };
    if !is_identifier(&symbol.name) {
        return Err(RenameError::NoName);
    }
    if !is_identifier(new) {
        return Err(RenameError::NotAName(new.into()));
    }
    if new == symbol.name {
        return Ok(Vec::new());
    }
    if !symbol.is_code() && reads_like_a_register(new) {
        return Err(RenameError::Register(new.into()));
    }
    let renamed: Vec<String> = document.texts().map(|(first, text)| renamed_text(text, first, symbol, new)).collect();
    let after = document.analysis_with(&renamed.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(error) = new_error(analysis, &after) {
        return Err(RenameError::Error { name: new.into(), error });
    }
    if !same_program(analysis, &after) || !takes_over(symbol, &after, new) {
        return Err(RenameError::Taken(new.into()));
    }
    let places = symbol.definitions.iter().chain(&symbol.uses);
    let edit = |place| {
        let Location { uri, range } = document.location(place);
        (uri, TextEdit { range, new_text: new.into() })
    };
    Ok(places.copied().map(edit).collect())
}

/// The text that begins at line `first`, with a symbol's new name.
fn renamed_text(text: &Text, first: u32, symbol: &Symbol, new: &str) -> String {
    let mut places: Vec<_> = symbol.definitions.iter().chain(&symbol.uses).filter(|p| p.line >= first).collect();
    places.sort();
    let mut places = places.into_iter().peekable();
    let mut out = String::new();
    for row in 0..text.rows() {
        let text = text.row(row);
        if row > 0 {
            out.push('\n');
        }
        let mut from = 0;
        while let Some(place) = places.next_if(|place| place.line == first + row) {
            out += &text[from..place.start as usize];
            out += new;
            from = place.end as usize;
        }
        out += &text[from..];
    }
    out
}

/// Whether the new name has the definitions and uses of the old one, and no other.
fn takes_over(old: &Symbol, after: &Analysis, new: &str) -> bool {
    let count = |s: &Symbol| (s.definitions.len(), s.uses.len());
    let space = |kind: SymbolKind| match kind {
        SymbolKind::Procedure | SymbolKind::Label => kind,
        _ => SymbolKind::Alias,
    };
    let same = |s: &&Symbol| space(s.kind) == space(old.kind) && s.definitions.len() == old.definitions.len();
    let lines = |s: &Symbol| s.definitions.iter().map(|place| place.line).collect::<Vec<_>>();
    (after.symbols.iter().filter(|s| s.name == new).filter(same))
        .any(|s| count(s) == count(old) && lines(s) == lines(old))
}

/// The first error of `after` in a line without errors in `before`.
fn new_error(before: &Analysis, after: &Analysis) -> Option<String> {
    let known: Vec<u32> = before.errors().map(|(place, _)| place.line).collect();
    after.errors().find(|(place, _)| !known.contains(&place.line)).map(|(_, kind)| kind.to_string())
}

/// Whether two texts give the same program, names apart, and errors in the same lines.
pub fn same_program(a: &Analysis, b: &Analysis) -> bool {
    let errors = |x: &Analysis| x.errors().map(|(place, _)| place.line).collect::<Vec<_>>();
    without_names(&a.assembly.shbin) == without_names(&b.assembly.shbin) && errors(a) == errors(b)
}

fn without_names(shbin: &Shbin) -> Shbin {
    let mut shbin = shbin.clone();
    for dvle in &mut shbin.dvles {
        dvle.uniforms.iter_mut().for_each(|u: &mut Uniform| u.name.clear());
    }
    shbin
}
