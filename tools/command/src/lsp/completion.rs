//! A half-typed line -> the words that may continue it.
//!
//! The line up to the cursor determines the position: a statement, or an argument of one. Each
//! position has its own words.

use super::document::Document;
use super::manual::{COMPARISONS, DIRECTIVES, Entry, FLAGS, INDICES, INSTRUCTIONS};
use super::registers::{kind, name};
use lsp_types::{CompletionItem, CompletionItemKind as Icon, CompletionTextEdit, Documentation, Position, TextEdit};
use picajit::internals::source::{PROPERTIES, Place, Register, Symbol, SymbolKind, split_line};
use picajit::isa::table::{self, Format};

/// The classes of registers that a position takes, as letters.
type Letters = &'static str;

/// The words of a position.
enum Words {
    None,
    Statements,
    Directives,
    Registers(Letters),
    /// Sources: v and r registers, and c registers in the wide field. `earlier` are the sources before.
    Sources {
        wide: bool,
        earlier: Vec<String>,
    },
    Procedures,
    Labels,
    Properties,
    List(&'static [Entry]),
    Plain(&'static [&'static str]),
}

/// The words that may stand at a position.
pub fn completions(document: &Document, position: Position) -> Vec<CompletionItem> {
    let (line, byte) = document.place_of(position);
    let before = &document.row(line)[..byte as usize];
    if before.contains([';', '\0']) || before.trim_start().starts_with('#') {
        return Vec::new();
    }
    let (words, token) = words(before);
    let range = document.range(Place { line, start: token as u32, end: byte });
    let mut items = items(document, line, words);
    for item in &mut items {
        let new_text = item.label.clone();
        item.text_edit = Some(CompletionTextEdit::Edit(TextEdit { range, new_text }));
    }
    items
}

/// The words at the end of `before`, and the byte where the half-typed word begins.
fn words(before: &str) -> (Words, usize) {
    let statement = split_line(before);
    let rest_start = statement.head.end;
    let token_of = |separators: &[char]| before.rfind(separators).map_or(0, |n| n + 1).max(statement.head.start);
    if statement.rest.is_empty() && before.len() == statement.head.end || statement.head.is_empty() {
        let start = if statement.head.is_empty() { before.len() } else { statement.head.start };
        let directive = before[start..].starts_with('.');
        return (if directive { Words::Directives } else { Words::Statements }, start);
    }
    let rest = &before[rest_start..];
    if let Some(bracket) = rest.rfind('[')
        && !rest[bracket..].contains(']')
    {
        return (Words::List(INDICES), token_of(&['[', ' ', '\t', '+']));
    }
    let head = before[statement.head.clone()].to_ascii_lowercase();
    let separators: &[char] = &[' ', '\t', ',', '(', '-', '!', '&', '|'];
    let token = token_of(separators).max(rest_start);
    // Complete words before the token, for directives; commas, for instructions.
    let blanks = before[rest_start..token].split_whitespace().count();
    let commas = rest.matches(',').count();
    let words = argument(&head, if head.starts_with('.') { blanks } else { commas });
    let earlier = rest.rsplit_once(',').map_or("", |(earlier, _)| earlier);
    (fitting(words, &head, commas, earlier), token)
}

/// The words of argument `n` of a statement.
fn argument(head: &str, n: usize) -> Words {
    use Words::*;
    match (head, n) {
        (".out", 1) => Properties,
        (".out", 2) => Registers("o"),
        (".in", 1) => Registers("v"),
        (".alias" | ".bind", 1) => Registers("ovrcib"),
        (".entry", 0) => Procedures,
        (".gsh", 0) => Plain(&["point", "variable", "fixed"]),
        (".gsh", _) | (".setf", 0) => Registers("c"),
        (".seti", 0) => Registers("i"),
        (".setb", 0) => Registers("b"),
        (".setb", 1) => Plain(&["true", "false"]),
        ("call", 0) | ("callc" | "callu", 1) => Procedures,
        ("jmpc" | "jmpu", 1) => Labels,
        ("callc" | "jmpc" | "ifc" | "breakc", 0) => List(FLAGS),
        ("callu" | "jmpu" | "ifu", 0) => Registers("b"),
        ("for", 0) => Registers("i"),
        ("setemit", 0) => Plain(&["0", "1", "2"]),
        ("setemit", 1) => Plain(&["prim", "inv"]),
        ("cmp", 1 | 2) => List(COMPARISONS),
        ("mova", 0) => Plain(&["a0.x", "a0.y", "a0.xy"]),
        _ => operand(head, n),
    }
}

/// The words of operand `n` that fit those typed before it, `earlier`.
fn fitting(words: Words, head: &str, n: usize, earlier: &str) -> Words {
    match words {
        // A source; `cmp` begins with one.
        Words::Registers("vrc") => Words::Sources {
            wide: is_wide(head, if head == "cmp" { n } else { n - 1 }),
            earlier: earlier.split(',').skip(usize::from(head != "cmp")).map(|text| text.trim().into()).collect(),
        },
        words => words,
    }
}

/// Whether source `n` of an instruction can be in the wide field, in one of its encodings.
fn is_wide(head: &str, n: usize) -> bool {
    let stem = head.strip_suffix('!').unwrap_or(head);
    let n = if head == "cmp" && n == 3 { 1 } else { n };
    let is_form = |row: &&table::Row| {
        let inverted = row.mnemonic.strip_suffix('i') == Some(stem) && !head.ends_with('!');
        row.mnemonic == stem || inverted
    };
    table::ROWS.iter().filter(is_form).any(|row| row.wide_source() == Some(n))
}

/// The registers of operand `n` of an arithmetic instruction: the destination, or a source.
fn operand(head: &str, n: usize) -> Words {
    let head = head.strip_suffix('!').unwrap_or(head);
    let Some(row) = table::ROWS.iter().find(|row| row.mnemonic == head) else { return Words::None };
    match row.format {
        Format::F0 | Format::F2 | Format::F3 | Format::F4 => Words::None,
        _ if n > 3 || !matches!(row.format, Format::F1c) && n > row.sources() => Words::None,
        Format::F1a | Format::F1c => Words::Registers("vrc"),
        _ if n == 0 => Words::Registers("or"),
        _ => Words::Registers("vrc"),
    }
}

fn items(document: &Document, line: u32, words: Words) -> Vec<CompletionItem> {
    match words {
        Words::None => Vec::new(),
        Words::Statements => {
            INSTRUCTIONS.iter().chain(DIRECTIVES).map(|entry| item_of_entry(entry, Icon::KEYWORD)).collect()
        }
        Words::Directives => DIRECTIVES.iter().map(|entry| item_of_entry(entry, Icon::KEYWORD)).collect(),
        Words::List(entries) => entries.iter().map(|entry| item_of_entry(entry, Icon::OPERATOR)).collect(),
        Words::Plain(words) => words.iter().map(|word| item(word, Icon::VALUE, None)).collect(),
        Words::Properties => PROPERTIES.iter().map(|(long, ..)| item(long, Icon::ENUM_MEMBER, None)).collect(),
        Words::Procedures => names(document, line, |s| s.kind == SymbolKind::Procedure),
        Words::Labels => names(document, line, |s| s.kind == SymbolKind::Label),
        Words::Sources { wide, earlier } => sources(document, line, wide, &earlier),
        Words::Registers(letters) => {
            let fits = |s: &Symbol| s.register.is_some_and(|register| letters.contains(register.letter));
            let mut items = names(document, line, fits);
            for letter in letters.chars() {
                items.extend((0..count(letter)).map(|n| item(&format!("{letter}{n}"), Icon::VARIABLE, None)));
            }
            items
        }
    }
}

/// The registers and names of a source. One instruction reads one uniform and one input at most.
fn sources(document: &Document, line: u32, wide: bool, earlier: &[String]) -> Vec<CompletionItem> {
    let read: Vec<Register> = earlier.iter().filter_map(|text| register_of(document, line, text)).collect();
    let has_uniform = read.iter().any(|register| register.letter == 'c');
    let input = read.iter().find(|register| register.letter == 'v');
    let fits = |register: Register| match register.letter {
        'c' => wide && !has_uniform,
        'v' => input.is_none_or(|input| *input == register),
        letter => letter == 'r',
    };
    let mut items = names(document, line, |symbol| symbol.register.is_some_and(fits));
    for letter in ['v', 'r', 'c'] {
        let registers = (0..count(letter) as u32).map(|number| Register { letter, number });
        let fitting = registers.filter(|register| fits(*register));
        items.extend(fitting.map(|register| item(&name(register), Icon::VARIABLE, None)));
    }
    items
}

/// The register of an operand's text, without its offset.
fn register_of(document: &Document, line: u32, operand: &str) -> Option<Register> {
    let base = operand.trim_start_matches('-').split(['[', '.']).next()?.trim();
    let (_, lines) = document.analysis().part(line);
    let is_here =
        |symbol: &&Symbol| symbol.name == base && symbol.definitions.iter().any(|place| lines.contains(&place.line));
    let named = document.analysis().symbols.iter().filter(|symbol| !symbol.is_code()).find(is_here);
    if let Some(symbol) = named {
        return symbol.register;
    }
    let letter = base.chars().next().filter(|letter| "vrc".contains(*letter))?;
    Some(Register { letter, number: base[1..].parse().ok()? })
}

/// Registers of a class.
fn count(letter: char) -> usize {
    use picajit::isa::{BOOL_UNIFORMS, FLOAT_UNIFORMS, INT_UNIFORMS, REGS};
    match letter {
        'c' => FLOAT_UNIFORMS,
        'i' => INT_UNIFORMS,
        'b' => BOOL_UNIFORMS,
        _ => REGS,
    }
}

/// The names of the text that fit and are visible at a line: aliases and labels belong to one part.
fn names(document: &Document, line: u32, fits: impl Fn(&Symbol) -> bool) -> Vec<CompletionItem> {
    let analysis = document.analysis();
    let (_, lines) = analysis.part(line);
    let visible = |s: &&Symbol| {
        let here = s.definitions.iter().any(|place| lines.contains(&place.line));
        (here || s.kind == SymbolKind::Procedure) && !s.name.is_empty()
    };
    let of = |s: &Symbol| {
        let icon = match s.kind {
            SymbolKind::Procedure => Icon::FUNCTION,
            SymbolKind::Label => Icon::REFERENCE,
            SymbolKind::Constant => Icon::CONSTANT,
            _ => Icon::VARIABLE,
        };
        let register = s.register.map(|register| format!(" {}", name(register))).unwrap_or_default();
        // Names before registers.
        let sort_text = Some(format!(" {}", s.name));
        CompletionItem { sort_text, ..item(&s.name, icon, Some(format!("{}{register}", kind(s)))) }
    };
    analysis.symbols.iter().filter(visible).filter(|s| fits(s)).map(of).collect()
}

fn item_of_entry(entry: &Entry, icon: Icon) -> CompletionItem {
    let detail = Some(entry.arguments).filter(|text| !text.is_empty());
    let documentation = Some(Documentation::String(entry.meaning.into()));
    CompletionItem { documentation, ..item(entry.name, icon, detail.map(Into::into)) }
}

fn item(label: &str, icon: Icon, detail: Option<String>) -> CompletionItem {
    CompletionItem { label: label.into(), kind: Some(icon), detail, ..CompletionItem::default() }
}
