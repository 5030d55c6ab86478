//! A position -> a text about the instruction, operand or name there.

use super::document::Document;
use super::manual;
use super::registers::{constant, contents, kind, name, operand_text, operand_value};
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind, Position};
use picajit::internals::source::{Place, Symbol, SymbolKind, split_line};
use picajit::isa::Inst;
use picajit_lint::Subject;
use picajit_lint::cost::{Cost, TIMING};
use std::ops::Range;

/// Words of a line that a hover shows; `.word` can give many.
const SHOWN_WORDS: usize = 4;

/// The text about a position.
pub fn hover(document: &Document, position: Position) -> Option<Hover> {
    let (line, byte) = document.place_of(position);
    let text = document.row(line);
    let statement = split_line(text);
    if statement.comment.as_ref().is_some_and(|comment| byte as usize >= comment.start) {
        return None;
    }
    let place = |range: &Range<usize>| Place { line, start: range.start as u32, end: range.end as u32 };
    let (place, paragraphs) = if place(&statement.head).touches(line, byte) && !statement.head.is_empty() {
        (place(&statement.head), about_statement(document, line, &text[statement.head.clone()])?)
    } else {
        about_name(document, line, byte)?
    };
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value: paragraphs.join("\n\n") }),
        range: Some(document.range(place)),
    })
}

fn about_statement(document: &Document, line: u32, head: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    if let Some(entry) = manual::find(head) {
        out.push(format!("```picasso\n{}\n```", format!("{} {}", entry.name, entry.arguments).trim_end()));
        out.push(entry.meaning.into());
    }
    out.extend(words(document, line));
    (!out.is_empty()).then_some(out)
}

/// Address, bits and reading of a line's words.
fn words(document: &Document, line: u32) -> Vec<String> {
    let analysis = document.analysis();
    if analysis.errors().any(|(place, _)| place.line == line) {
        return Vec::new();
    }
    let shbin = &analysis.assembly.shbin;
    let addresses = analysis.words(line);
    let count = addresses.len();
    let mut out = Vec::new();
    for address in addresses.take(SHOWN_WORDS) {
        let word = shbin.code[address];
        let index = Inst::opdesc_index(word);
        let descriptor = index.and_then(|n| shbin.opdescs.get(usize::from(n))).map_or(0, |d| d.word);
        let read = Inst::decode(word, descriptor).to_string();
        let descriptor = index.map(|n| format!(", descriptor {n}: `{descriptor:08X}`")).unwrap_or_default();
        out.push(format!("Word {address}: `{word:08X}`{descriptor}\n\n`{read}`"));
    }
    if count > SHOWN_WORDS {
        out.push(format!("{count} words."));
    }
    out.extend(costs(document, line));
    out
}

/// How often a run executes a line, in each entry that reaches it.
fn costs(document: &Document, line: u32) -> Vec<String> {
    let Some(program) = document.program() else { return Vec::new() };
    let assembly = &document.analysis().assembly;
    let subject = Subject::assembly(&program, assembly, &[]);
    let of = |cost: Cost| {
        let lines = cost.by_line(&assembly.lines);
        lines.into_iter().find(|(at, _)| document.analysis().line(*at) == line).map(|(_, cost)| cost)
    };
    let costs = subject.entries.iter().filter_map(|point| Cost::new(&subject, point).ok().and_then(of));
    costs.map(|cost| format!("Cost in a run: {}.", range(Some(cost.least), cost.most))).collect()
}

/// The cost of the entries that begin at an address.
fn entry_costs(document: &Document, address: u32) -> Vec<String> {
    let Some(program) = document.program() else { return Vec::new() };
    let subject = Subject::assembly(&program, &document.analysis().assembly, &[]);
    let at = subject.entries.iter().filter(|point| u32::from(point.entry.pc) == address);
    let costs = at.filter_map(|point| Cost::new(&subject, point).ok());
    costs.map(|cost| format!("A run: {}.\n\n{TIMING}", range(cost.shortest, cost.longest))).collect()
}

/// `4 to 9 instructions`, `4 instructions or more`.
fn range(least: Option<u64>, most: Option<u64>) -> String {
    let Some(least) = least else { return "no path reaches an `end`".into() };
    match most {
        Some(most) if most == least && least == 1 => "1 instruction".into(),
        Some(most) if most == least => format!("{least} instructions"),
        Some(most) => format!("{least} to {most} instructions"),
        None => format!("{least} instructions or more, unbounded"),
    }
}

fn about_name(document: &Document, line: u32, byte: u32) -> Option<(Place, Vec<String>)> {
    let analysis = document.analysis();
    let symbol = analysis.symbol_at(line, byte);
    let operand = analysis.operands.iter().find(|o| o.place.touches(line, byte));
    let mut out = Vec::new();
    if let Some((symbol, _)) = symbol {
        out.push(definition(document, line, symbol));
    }
    if let Some(operand) = operand {
        let direction = if operand.written { "Writes" } else { "Reads" };
        let declares = document.row(line).trim_start().starts_with('.');
        let verb = if declares { "Names" } else { direction };
        out.push(format!("{verb} `{}`.", operand_text(operand)));
        if let Some(value) = operand_value(analysis, operand) {
            out.push(format!("The operand is {value}."));
        }
        if let Some(register) = operand.register {
            out.extend(contents(document, line, register));
        }
        return Some((operand.place, out));
    }
    let (symbol, place) = symbol?;
    if symbol.kind == SymbolKind::Procedure {
        out.extend(entry_costs(document, symbol.address));
    }
    if let Some(register) = symbol.register
        && symbol.kind != SymbolKind::Output
        && let Some(value) = constant(analysis, line, register)
    {
        out.push(format!("Its value is {value}."));
    }
    Some((place, out))
}

/// One sentence about a name's definition.
fn definition(document: &Document, line: u32, symbol: &Symbol) -> String {
    let at = symbol.definitions.iter().find(|place| place.line != line);
    let at = at.map_or(String::new(), |place| format!(", defined in line {}", document.line_name(place.line)));
    let kind = kind(symbol);
    let symbol_name = &symbol.name;
    match symbol.kind {
        SymbolKind::Procedure => {
            let words = match symbol.size {
                1 => "1 word".into(),
                n => format!("{n} words"),
            };
            format!("{kind} `{symbol_name}`: {words} from word {}{at}", symbol.address)
        }
        SymbolKind::Label => format!("{kind} `{symbol_name}`: word {}{at}", symbol.address),
        _ => {
            let register = symbol.register.map_or("no register".into(), |register| match symbol.size {
                1 => name(register),
                n => format!("{} to {}{}", name(register), register.letter, register.number + n - 1),
            });
            let property = match (symbol.kind, symbol.register) {
                (SymbolKind::Output, Some(register)) => {
                    let outputs = &document.analysis().part(line).0.tables.outputs;
                    let rows = outputs.iter().filter(|row| u32::from(row.register) == register.number);
                    rows.map(|row| format!(", {}", manual::property(row.semantic))).collect()
                }
                _ => String::new(),
            };
            format!("{kind} `{symbol_name}`: {register}{property}{at}")
        }
    }
}
