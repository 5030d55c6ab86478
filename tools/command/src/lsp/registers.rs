//! A register at a line -> what it holds: its names, its value, its use, its last writes.

use super::document::Document;
use super::manual;
use picajit::container::float24::f24_to_f32;
use picajit::container::shbin::Constant;
use picajit::internals::literal::format_f32;
use picajit::internals::source::{Analysis, OperandAt, Register, Symbol, SymbolKind};
use std::ops::Range;

const COMPONENTS: [char; 4] = ['x', 'y', 'z', 'w'];

/// Writes that a description shows.
const SHOWN_WRITES: usize = 3;

/// `c5`, `c5.wzyx`, `-c5[aL]`.
pub fn operand_text(operand: &OperandAt) -> String {
    use picajit::isa::Index;
    let Some(register) = operand.register else { return "no register".into() };
    let index = match operand.index {
        Index::None => "",
        Index::A0x => "[a0.x]",
        Index::A0y => "[a0.y]",
        Index::AL => "[aL]",
    };
    let sign = if operand.negate && !operand.written { "-" } else { "" };
    format!("{sign}{}{index}{}", name(register), components(operand))
}

/// The components of an operand: a selector, or a mask in order without repetitions.
fn components(operand: &OperandAt) -> String {
    let mut chosen = operand.components.to_vec();
    if operand.written {
        chosen.sort();
        chosen.dedup();
    }
    if chosen == [0, 1, 2, 3] || operand.register.is_some_and(|r| matches!(r.letter, 'b' | 'i')) {
        return String::new();
    }
    chosen.iter().fold(String::from("."), |text, &n| text + &COMPONENTS[usize::from(n)].to_string())
}

pub fn name(register: Register) -> String {
    format!("{}{}", register.letter, register.number)
}

/// The value that the file gives a register, if any.
pub fn constant(analysis: &Analysis, line: u32, register: Register) -> Option<String> {
    let constants = &analysis.part(line).0.tables.constants;
    // The last row counts: a loader writes them in order.
    constants.iter().rev().find_map(|c| match (register.letter, c) {
        ('c', Constant::Float { register: n, value }) if u32::from(*n) == register.number => {
            Some(vector(value.iter().map(|&bits| format_f32(f24_to_f32(bits)))))
        }
        ('i', Constant::Int { register: n, value }) if u32::from(*n) == register.number => {
            Some(vector(value.iter().map(u8::to_string)))
        }
        ('b', Constant::Bool { register: n, value }) if u32::from(*n) == register.number => Some(value.to_string()),
        _ => None,
    })
}

fn vector(values: impl Iterator<Item = String>) -> String {
    format!("({})", values.collect::<Vec<_>>().join(", "))
}

/// The components that an operand selects of its register's constant value.
pub fn operand_value(analysis: &Analysis, operand: &OperandAt) -> Option<String> {
    let register = operand.register?;
    if register.letter != 'c' || operand.index != picajit::isa::Index::None || operand.written {
        return None;
    }
    let constants = &analysis.part(operand.place.line).0.tables.constants;
    let value = constants.iter().rev().find_map(|c| match c {
        Constant::Float { register: n, value } if u32::from(*n) == register.number => Some(value),
        _ => None,
    })?;
    let sign = if operand.negate { 1 << 23 } else { 0 };
    Some(vector(operand.components.iter().map(|&n| format_f32(f24_to_f32(value[usize::from(n)] ^ sign)))))
}

/// The sentences about a register that an operand at `line` names.
pub fn contents(document: &Document, line: u32, register: Register) -> Vec<String> {
    let analysis = document.analysis();
    let (part, lines) = analysis.part(line);
    let mut out = Vec::new();
    for symbol in named(analysis, &lines, register) {
        out.push(role(symbol, register));
    }
    if register.letter == 'o' {
        for row in part.tables.outputs.iter().filter(|row| u32::from(row.register) == register.number) {
            let mask: String = (0..4).filter(|n| row.mask >> n & 1 != 0).map(|n| COMPONENTS[n]).collect();
            out.push(format!("{}.{mask} is the output `{}`.", name(register), manual::property(row.semantic)));
        }
    }
    if let Some(value) = constant(analysis, line, register) {
        out.push(format!("Its value is {value}."));
    }
    if matches!(register.letter, 'r' | 'o') {
        out.extend(writes(document, line, &lines, register));
    }
    out
}

/// The names other than aliases that denote a register, alone or as a part.
fn named<'a>(
    analysis: &'a Analysis,
    lines: &'a Range<u32>,
    register: Register,
) -> impl Iterator<Item = &'a Symbol> + 'a {
    analysis.symbols.iter().filter(move |symbol| {
        let covers = |first: Register| {
            first.letter == register.letter && (first.number..first.number + symbol.size).contains(&register.number)
        };
        symbol.kind != SymbolKind::Alias
            && symbol.register.is_some_and(covers)
            && symbol.definitions.iter().any(|place| lines.contains(&place.line))
    })
}

/// The kind of a symbol, in words.
pub fn kind(symbol: &Symbol) -> &'static str {
    let letter = symbol.register.map(|r| r.letter);
    match (symbol.kind, letter) {
        (SymbolKind::Alias, _) => "alias",
        (SymbolKind::Input, _) => "input",
        (SymbolKind::Output, _) => "output",
        (SymbolKind::Uniform, Some('i')) => "integer uniform",
        (SymbolKind::Uniform, Some('b')) => "boolean uniform",
        (SymbolKind::Uniform, _) => "float uniform",
        (SymbolKind::Constant, Some('i')) => "integer constant",
        (SymbolKind::Constant, _) => "float constant",
        (SymbolKind::Bound, _) => "uniform",
        (SymbolKind::Procedure, _) => "procedure",
        (SymbolKind::Label, _) => "label",
    }
}

fn role(symbol: &Symbol, register: Register) -> String {
    let first = symbol.register.map_or(0, |first| first.number);
    let (kind, symbol_name) = (kind(symbol), &symbol.name);
    if symbol.size == 1 {
        return format!("{} is the {kind} `{symbol_name}`.", name(register));
    }
    let (number, last) = (register.number - first, first + symbol.size - 1);
    let letter = register.letter;
    format!("{} is element {number} of the {kind} `{symbol_name}` ({letter}{first} to {letter}{last}).", name(register))
}

/// The nearest writes above a line, in order of the source.
fn writes(document: &Document, line: u32, lines: &Range<u32>, register: Register) -> Vec<String> {
    let operands = &document.analysis().operands;
    let above = operands.partition_point(|o| o.place.line < line);
    let writes = operands[..above].iter().rev().take_while(|o| lines.contains(&o.place.line));
    let writes: Vec<_> = writes.filter(|o| o.written && o.register == Some(register)).take(SHOWN_WRITES).collect();
    if writes.is_empty() {
        return vec![format!("No line above writes {}.", name(register))];
    }
    let of = |o: &&OperandAt| {
        let code = document.row(o.place.line).split(';').next().unwrap_or("").trim();
        format!("Written in line {}: `{}`", o.place.line + 1, code.replace('`', "'"))
    };
    writes.iter().rev().map(of).collect()
}
