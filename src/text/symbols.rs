//! The statements of an assembly -> its symbol table: each name with its definitions and uses; its
//! operands; its errors, where they don't end the assembly.
//!
//! An [`Assembler`](super::Assembler) has a [`Record`] for an [`analysis`](super::analysis) only.
//! Invariant: a [`Place`] lies within one line, at character boundaries.

use super::error::{AsmError, AsmErrorKind, Fault};
use super::limits::MAX_WARNINGS;
use super::operand::{Alias, Seen};
use super::registers::{BOOL, FLOAT, INT, TEMP};
use super::span::Span;
use super::warning::WarningKind;
use crate::container::shbin::Dvle;
use crate::isa::Index;
use std::collections::HashMap;

/// Bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line, from 0.
    pub line: u32,
    /// The first byte, from 0.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Place {
    pub(super) fn new(line: u32, span: Span<'_>) -> Place {
        Place { line, start: span.at as u32, end: (span.at + span.text.len()) as u32 }
    }

    /// Whether a cursor at this byte touches the place.
    pub fn touches(&self, line: u32, byte: u32) -> bool {
        self.line == line && (self.start..=self.end).contains(&byte)
    }
}

/// A register as its class letter and its number within the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// One of `ovrcib`.
    pub letter: char,
    /// Its number.
    pub number: u32,
}

impl Register {
    /// The register of a number in the common space; `None` beyond every class.
    fn new(number: u32, low: char) -> Option<Register> {
        let (letter, first) = match number {
            ..TEMP => (low, 0),
            TEMP..FLOAT => ('r', TEMP),
            FLOAT..INT => ('c', FLOAT),
            INT..BOOL => ('i', INT),
            BOOL..0x98 => ('b', BOOL),
            _ => return None,
        };
        Some(Register { letter, number: number - first })
    }
}

/// The statement that defines a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// `.alias`
    Alias,
    /// `.in`
    Input,
    /// `.out`
    Output,
    /// `.fvec`, `.ivec`, `.bool`
    Uniform,
    /// `.constf`, `.consti`, `.constfa`
    Constant,
    /// `.bind`
    Bound,
    /// `.proc`
    Procedure,
    /// `name:`
    Label,
}

/// A name of the source.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// The statement that defines it.
    pub kind: SymbolKind,
    /// The name.
    pub name: String,
    /// Its first register, except of procedures and labels.
    pub register: Option<Register>,
    /// The register's components, in the order that a use without components selects.
    pub components: [u8; 4],
    /// The name stands for the negated register.
    pub negate: bool,
    /// Registers, or the words of a procedure.
    pub size: u32,
    /// The address of a procedure or label.
    pub address: u32,
    /// Definitions in order of the source. Several: a uniform that several parts declare, or an
    /// error.
    pub definitions: Vec<Place>,
    /// Uses in order of the source.
    pub uses: Vec<Place>,
}

impl Symbol {
    /// Whether the name denotes code.
    pub fn is_code(&self) -> bool {
        matches!(self.kind, SymbolKind::Procedure | SymbolKind::Label)
    }
}

/// An operand that names a register, directly or through an alias.
#[derive(Clone, Copy, Debug)]
pub struct OperandAt {
    /// The whole operand, sign and components included.
    pub place: Place,
    /// The register or alias alone.
    pub base: Place,
    /// The register, offset included; `None` beyond every class.
    pub register: Option<Register>,
    /// The index register.
    pub index: Index,
    /// Selected components.
    pub components: [u8; 4],
    /// The operand is negated.
    pub negate: bool,
    /// The operand is the destination of an instruction.
    pub written: bool,
}

/// What is known of a part of the source; `.file` separates parts.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its first line, from 0.
    pub first_line: u32,
    /// Its tables; the entry point is not set.
    pub tables: Dvle,
    /// It has `.nodvle`.
    pub no_dvle: bool,
}

/// The three spaces of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Aliases,
    Labels,
    Procedures,
}

/// The symbol table under construction.
#[derive(Debug, Default)]
pub(super) struct Record<'s> {
    pub faults: Vec<(u32, Fault)>,
    /// The same errors with their file's index and line.
    pub errors: Vec<((u32, u32), AsmError)>,
    pub warnings: Vec<(Place, WarningKind)>,
    pub symbols: Vec<Symbol>,
    pub operands: Vec<OperandAt>,
    pub parts: Vec<Part>,
    aliases: HashMap<&'s str, usize>,
    labels: HashMap<&'s str, usize>,
    procedures: HashMap<&'s str, usize>,
    /// Uniforms of vertex files, which all parts share.
    shared: HashMap<&'s str, usize>,
    /// Names in lines with errors, which may be defined further on.
    loose: Vec<(Space, Span<'s>, u32)>,
}

impl<'s> Record<'s> {
    /// Adds an error, at a file's index and a line from 0.
    pub(super) fn fault(&mut self, at: (u32, u32), fault: Fault, error: AsmError) {
        let too_long = |f: &Fault| matches!(f.kind, AsmErrorKind::ProgramTooLong { .. });
        // Every further instruction is beyond the limit too.
        let repeated = too_long(&fault) && self.faults.iter().any(|(_, f)| too_long(f));
        if !repeated && self.faults.len() < MAX_WARNINGS {
            self.faults.push((at.1, fault));
            self.errors.push((at, error));
        }
    }

    /// Adds a warning at bytes of a line.
    pub(super) fn warning(&mut self, place: Place, kind: WarningKind) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push((place, kind));
        }
    }

    fn space(&mut self, space: Space) -> &mut HashMap<&'s str, usize> {
        match space {
            Space::Aliases => &mut self.aliases,
            Space::Labels => &mut self.labels,
            Space::Procedures => &mut self.procedures,
        }
    }

    /// Adds a definition. A second one of the same name joins the first.
    fn define(&mut self, space: Space, kind: SymbolKind, name: Span<'s>, line: u32) -> &mut Symbol {
        let next = self.symbols.len();
        let index = *self.space(space).entry(name.text).or_insert(next);
        if index == next {
            self.symbols.push(Symbol {
                kind,
                name: name.text.into(),
                register: None,
                components: [0, 1, 2, 3],
                negate: false,
                size: 1,
                address: 0,
                definitions: Vec::new(),
                uses: Vec::new(),
            });
        }
        let symbol = &mut self.symbols[index];
        symbol.definitions.push(Place::new(line, name));
        symbol
    }

    /// Adds the definition of an alias of `size` registers.
    pub(super) fn define_alias(&mut self, kind: SymbolKind, name: Span<'s>, line: u32, alias: Alias, size: u32) {
        let symbol = self.define(Space::Aliases, kind, name, line);
        let low = alias.letter.unwrap_or('v');
        symbol.register = Register::new(alias.reg, low);
        (symbol.components, symbol.negate, symbol.size) = (alias.components, alias.negate, size);
    }

    /// Makes the uniform that was defined last one of all vertex files.
    pub(super) fn share(&mut self, name: Span<'s>) {
        let Some(&index) = self.aliases.get(name.text) else { return };
        let first = *self.shared.entry(name.text).or_insert(index);
        if first != index && index + 1 == self.symbols.len() {
            let again = self.symbols.pop().expect("its index is the last one");
            self.symbols[first].definitions.extend(again.definitions);
            self.aliases.insert(name.text, first);
        }
    }

    /// Adds the definition of a label or procedure.
    pub(super) fn define_code(&mut self, kind: SymbolKind, name: Span<'s>, line: u32, address: usize) {
        let space = if kind == SymbolKind::Label { Space::Labels } else { Space::Procedures };
        self.define(space, kind, name, line).address = address as u32;
    }

    /// Sets the words of each procedure.
    pub(super) fn set_sizes(&mut self, procedures: &HashMap<&'s str, (usize, usize)>) {
        for (name, &index) in &self.procedures {
            if let Some(&(start, len)) = procedures.get(name) {
                (self.symbols[index].address, self.symbols[index].size) = (start as u32, len as u32);
            }
        }
    }

    /// Adds a use, if the name is defined.
    pub(super) fn use_name(&mut self, space: Space, name: Span<'s>, line: u32) {
        if let Some(&index) = self.space(space).get(name.text) {
            self.symbols[index].uses.push(Place::new(line, name));
        }
    }

    /// Adds the operands of a line.
    pub(super) fn line(&mut self, line: u32, seen: &mut Vec<Seen<'s>>) {
        for Seen { operand, base, written } in seen.drain(..) {
            self.use_name(Space::Aliases, base, line);
            let low = if written { 'o' } else { 'v' };
            self.operands.push(OperandAt {
                place: Place::new(line, operand.span),
                base: Place::new(line, base),
                register: Register::new(operand.reg, low),
                index: operand.index,
                components: operand.components,
                negate: operand.negate,
                written,
            });
        }
    }

    /// Adds the names of a line whose statement has an error.
    pub(super) fn loose_names(&mut self, space: Space, mut rest: Span<'s>, line: u32) {
        let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
        while let Some(n) = rest.text.find(inside) {
            // Letters after a dot are components.
            let dotted = rest.text[..n].ends_with('.');
            rest = rest.skip(n);
            let len = rest.text.find(|c| !inside(c)).unwrap_or(rest.text.len());
            let word = rest.take(len);
            if !dotted && !word.text.starts_with(|c: char| c.is_ascii_digit()) {
                match space {
                    Space::Aliases => self.use_name(space, word, line),
                    _ => self.loose.push((space, word, line)),
                }
            }
            rest = rest.skip(len);
        }
    }

    /// Ends a part: labels and aliases belong to one only.
    pub(super) fn end_part(&mut self, part: Part) {
        self.resolve(Space::Labels);
        self.parts.push(part);
        self.aliases.clear();
        self.labels.clear();
    }

    /// Adds the uses among the loose names.
    pub(super) fn resolve(&mut self, space: Space) {
        let (now, later) = std::mem::take(&mut self.loose).into_iter().partition(|(of, ..)| *of == space);
        self.loose = later;
        let now: Vec<(Space, Span<'s>, u32)> = now;
        now.into_iter().for_each(|(_, name, line)| self.use_name(space, name, line));
    }
}
