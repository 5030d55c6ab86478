//! A line with an error -> the state in which the next lines have no errors because of it.
//!
//! A block that the line would open or close is opened or closed, its names are defined, and an
//! instruction is a NOP. Only an [`analysis`](super::analysis) continues after an error.

use super::context::{Assembler, Block};
use super::error::{AsmErrorKind, Fault};
use super::lexer;
use super::operand::Alias;
use super::registers::{BOOL, FLOAT, INT};
use super::span::{Span, is_identifier};
use super::symbols::{Space, SymbolKind};
use crate::isa::Opcode;
use std::ops::Range;

/// The state before a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub blocks: usize,
    pub words: usize,
}

impl<'s> Assembler<'s> {
    pub(super) fn before_line(&self) -> Before {
        Before { blocks: self.file.blocks.len(), words: self.words.len() }
    }

    /// Continues after a line with the error `kind`.
    pub(super) fn recover(&mut self, text: &'s str, before: Before, kind: &AsmErrorKind) {
        self.warn_notes();
        let statement = statement(text);
        let (head, rest) = statement.word();
        let rest = rest.trim();
        let name = head.text.to_ascii_lowercase();
        let line = self.line_number();
        if let Some(record) = &mut self.record {
            record.loose_names(name_space(&name), rest, line);
        }
        match name.as_str() {
            // `.end x` ends its block.
            ".end" | ".else" if matches!(kind, AsmErrorKind::TooManyArguments(_)) => {
                let again = if name == ".end" { self.end_block(head) } else { self.else_block(head) };
                if let Err(fault) = again {
                    self.note_fault(fault);
                }
            }
            _ if name.starts_with('.') => self.define_names(&name, rest),
            _ if head.is_empty() => {}
            _ => {
                if self.words.len() == before.words {
                    // It fails where the code memory is full, which is an error already.
                    let _ = self.emit((Opcode::Nop as u32) << 26, false, head);
                }
                self.file.owns_dvle = true;
                self.after_block = false;
                if name == "setemit" && !self.file.gsh_seen {
                    self.implied_geometry();
                }
            }
        }
        if self.file.blocks.len() == before.blocks {
            let at = self.here().saturating_sub(1);
            let block = match name.as_str() {
                ".proc" => {
                    let name = rest.arguments().first().map_or("", |arg| arg.text);
                    Some(Block::Proc { name, start: self.here() })
                }
                ".constfa" if !rest.text.starts_with('(') => {
                    let name = leading_name(rest);
                    Some(Block::Array { name, line, size: None, values: vec![[0; 4]] })
                }
                "ifc" | "ifu" => Some(Block::If { at, else_at: None }),
                "for" => Some(Block::For { at }),
                _ => None,
            };
            if let Some(block) = block {
                self.file.blocks.push((block, self.site.line));
            }
        }
    }

    /// Defines the names of a declaration that has an error.
    fn define_names(&mut self, directive: &str, rest: Span<'s>) {
        let (kind, alias) = match directive {
            ".alias" => (SymbolKind::Alias, Alias::of('r', super::registers::TEMP)),
            ".in" => (SymbolKind::Input, Alias::of('v', 0)),
            ".out" => (SymbolKind::Output, Alias::of('o', 0)),
            ".fvec" => (SymbolKind::Uniform, Alias::register(FLOAT)),
            ".ivec" => (SymbolKind::Uniform, Alias::register(INT)),
            ".bool" => (SymbolKind::Uniform, Alias::register(BOOL)),
            ".constf" => (SymbolKind::Constant, Alias::register(FLOAT)),
            ".consti" => (SymbolKind::Constant, Alias::register(INT)),
            ".bind" => (SymbolKind::Bound, Alias::register(FLOAT)),
            _ => return,
        };
        self.file.owns_dvle = true;
        let list = if kind == SymbolKind::Uniform { rest.arguments() } else { vec![rest] };
        for name in list.into_iter().map(leading_name) {
            if is_identifier(name.text) && !self.file.names.is_defined(name.text) {
                // It can't be a duplicate.
                let _ = self.define(name, alias, kind, 1);
            }
        }
    }

    /// Adds an error of the current line; only with a record.
    fn note_fault(&mut self, fault: Fault) {
        self.fail(self.site, fault).expect("with a record an error does not end the assembly");
    }
}

/// A source line, split: bytes of its pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Labels without their `:`.
    pub labels: Vec<Range<usize>>,
    /// Mnemonic or directive.
    pub head: Range<usize>,
    /// The arguments.
    pub rest: Range<usize>,
    /// The comment with its `;`, up to the end of the line.
    pub comment: Option<Range<usize>>,
    /// A label is not a name.
    pub bad_label: bool,
}

/// Splits a source line, good or bad.
pub fn split_line(text: &str) -> Statement {
    let range = |span: Span<'_>| span.at..span.at + span.text.len();
    let comment = text.find(';').map(|n| n..text.len());
    match lexer::line(text) {
        Ok(line) => Statement {
            labels: line.labels.into_iter().map(range).collect(),
            head: range(line.head),
            rest: range(line.rest),
            comment,
            bad_label: false,
        },
        Err(_) => {
            let (head, rest) = statement(text).word();
            Statement { labels: Vec::new(), head: range(head), rest: range(rest.trim()), comment, bad_label: true }
        }
    }
}

/// The text of a line after its labels, good or bad, without its comment.
fn statement(text: &str) -> Span<'_> {
    match lexer::line(text) {
        Ok(line) => Span { text: &text[line.head.at..line.rest.at + line.rest.text.len()], at: line.head.at },
        Err(_) => {
            let whole = Span { text, at: 0 };
            let code = whole.cut(';').map_or(whole, |(code, _)| code);
            code.skip(code.text.rfind(':').map_or(0, |n| n + 1)).trim()
        }
    }
}

/// The name that a declaration's argument begins with.
fn leading_name(arg: Span<'_>) -> Span<'_> {
    let len = arg.text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$'));
    arg.take(len.unwrap_or(arg.text.len()))
}

/// The space of the names that a statement uses.
fn name_space(head: &str) -> Space {
    match head {
        "call" | "callc" | "callu" | ".entry" => Space::Procedures,
        "jmpc" | "jmpu" | "rjmpc" | "rjmpu" | "rcall" | "rcallc" | "rcallu" | "rifc" | "rifu" | "rloop" => {
            Space::Labels
        }
        _ => Space::Aliases,
    }
}
