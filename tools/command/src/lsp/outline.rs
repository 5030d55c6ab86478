//! An analysis -> the symbols of a text: declarations, and procedures with their labels.

use super::document::Document;
use super::layout::block_ends;
use super::registers::{kind, name};
use lsp_types::{DocumentSymbol, SymbolKind as Icon};
use picajit::internals::source::{Place, Symbol, SymbolKind};

/// The symbols of a text, in order of the source.
pub fn outline(document: &Document) -> Vec<DocumentSymbol> {
    let ends = block_ends(document);
    let mut all: Vec<(Place, &Symbol)> = (document.analysis().symbols.iter())
        .flat_map(|symbol| symbol.definitions.iter().map(move |&place| (place, symbol)))
        .filter(|(place, _)| place.line < document.rows())
        // The protocol forbids empty names.
        .filter(|(_, symbol)| !symbol.name.is_empty())
        .collect();
    all.sort_by_key(|(place, _)| *place);
    let mut out: Vec<DocumentSymbol> = Vec::new();
    for (place, symbol) in all {
        let last = if symbol.kind == SymbolKind::Procedure { ends.get(&place.line).copied() } else { None };
        let item = item(document, place, last.unwrap_or(place.line), symbol);
        let open = out.last_mut().filter(|open| {
            open.kind == Icon::FUNCTION && symbol.kind == SymbolKind::Label && open.range.end >= item.range.end
        });
        match open {
            Some(procedure) => procedure.children.get_or_insert_default().push(item),
            None => out.push(item),
        }
    }
    out
}

fn item(document: &Document, place: Place, last: u32, symbol: &Symbol) -> DocumentSymbol {
    let selection = document.range(place);
    let end = document.range(Place { line: last, start: u32::MAX, end: u32::MAX }).end;
    let start = document.range(Place { line: place.line, start: 0, end: 0 }).start;
    let detail = match symbol.register {
        Some(register) => format!("{} {}", kind(symbol), name(register)),
        None => kind(symbol).into(),
    };
    #[allow(deprecated)] // a field that the type still has
    DocumentSymbol {
        name: symbol.name.clone(),
        detail: Some(detail),
        kind: match symbol.kind {
            SymbolKind::Procedure => Icon::FUNCTION,
            SymbolKind::Label => Icon::KEY,
            SymbolKind::Constant => Icon::CONSTANT,
            SymbolKind::Input | SymbolKind::Output => Icon::FIELD,
            _ => Icon::VARIABLE,
        },
        tags: None,
        deprecated: None,
        range: lsp_types::Range { start, end },
        selection_range: selection,
        children: None,
    }
}
