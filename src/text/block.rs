//! `.proc`, `.else` and `.end` -> padding NOPs, and the addresses of the enclosed blocks.
//!
//! Where the ends of two scopes would collide, one NOP separates them, exactly where picasso
//! inserts it (language notes, section 9.3). The state for that persists across files.

use super::context::{Assembler, Block};
use super::error::{AsmErrorKind, Parse, clip, fault};
use super::span::{Span, is_identifier};
use super::symbols::SymbolKind;
use super::warning::WarningKind;
use crate::isa::Opcode;

/// Instructions that need a word between themselves and the end of a block.
const TRANSFERS: &[Opcode] = &[Opcode::Call, Opcode::Callc, Opcode::Callu, Opcode::Jmpc, Opcode::Jmpu];

impl<'s> Assembler<'s> {
    /// Inserts the padding NOP, or warns that it is missing.
    fn pad(&mut self, at: Span<'_>) -> Parse<()> {
        self.after_block = false;
        if self.file.names.raw {
            return Ok(());
        }
        if self.options.no_nop {
            self.warn(at, WarningKind::MissingNop);
            return Ok(());
        }
        self.emit((Opcode::Nop as u32) << 26, false, at).map(|_| ())
    }

    fn last_opcode_is(&self, ops: &[Opcode]) -> bool {
        self.words.last().is_some_and(|w| ops.iter().any(|&o| o as u32 == w.bits >> 26))
    }

    pub(super) fn else_block(&mut self, head: Span<'_>) -> Parse<()> {
        let Some(&(Block::If { at, else_at }, _)) = self.file.blocks.last() else {
            return fault(head, AsmErrorKind::ElseWithoutIf);
        };
        if else_at.is_some() {
            return fault(head, AsmErrorKind::SecondElse);
        }
        if self.after_block || self.last_opcode_is(TRANSFERS) || self.here() < at + 2 {
            self.pad(head)?;
        }
        let here = self.here();
        if let Some((Block::If { else_at, .. }, _)) = self.file.blocks.last_mut() {
            *else_at = Some(here);
        }
        Ok(())
    }

    pub(super) fn end_block(&mut self, head: Span<'s>) -> Parse<()> {
        let Some((block, _)) = self.file.blocks.pop() else {
            return fault(head, AsmErrorKind::EndWithoutBlock);
        };
        let (start, least) = match &block {
            Block::Array { .. } => return self.end_array(block, head),
            Block::Proc { start, .. } => (*start, 1),
            Block::If { at, .. } | Block::For { at } => (*at, 2),
        };
        let in_loop = matches!(block, Block::For { .. });
        let needed = self.after_block
            || !self.words.is_empty()
                && (self.last_opcode_is(TRANSFERS)
                    || in_loop && self.last_opcode_is(&[Opcode::Break, Opcode::Breakc])
                    || self.here() - start < least);
        if needed {
            self.pad(head)?;
        }
        let here = self.here();
        match block {
            Block::Proc { name, start } => {
                self.procs.insert(name, (start, here - start));
                Ok(())
            }
            Block::If { at, else_at } => {
                self.after_block = true;
                let target = else_at.unwrap_or(here);
                self.patch(at, target, here - target, head)
            }
            Block::For { at } => {
                self.after_block = true;
                self.patch(at, here - 1, 0, head)
            }
            Block::Array { .. } => unreachable!("handled above"),
        }
    }

    /// Opens a procedure. As in picasso, its name need not be an identifier, but `call` accepts
    /// identifiers only.
    pub(super) fn open_proc(&mut self, name: Span<'s>, head: Span<'_>) -> Parse<()> {
        if !is_identifier(name.text) {
            self.warn(name, WarningKind::UnusableName(clip(name.text)));
        }
        let start = self.here();
        let line = self.line_number();
        if let Some(record) = &mut self.record {
            record.define_code(SymbolKind::Procedure, name, line, start);
        }
        // Entered now, so that a second `.proc` of this name inside this one is a duplicate; `.end`
        // sets the length.
        if self.procs.insert(name.text, (start, 0)).is_some() {
            return fault(name, AsmErrorKind::Duplicate { what: "procedure", name: clip(name.text) });
        }
        self.open(Block::Proc { name: name.text, start }, head)
    }
}
