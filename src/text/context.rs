//! The state of an assembly: emitted words, open blocks, names, fixups and warnings.
//!
//! Words are emitted in source order and never move, so an address is the number of words before
//! it. The statement files (`inst`, `directive`, `block`, `constants`, `args`) act on this state;
//! `asm` drives them.

use super::declarations::{DvleBuilder, RegisterSpace};
use super::error::{AsmError, AsmErrorKind, Fault, Parse, expected, fault};
use super::limits::{MAX_BLOCKS, MAX_WARNINGS, VERTEX_WORDS};
use super::literal::c_number;
use super::opdesc::OpdescTable;
use super::operand::{Alias, Names};
use super::registers::Class;
use super::span::Span;
use super::symbols::{Place, Record, SymbolKind};
use super::warning::{Warning, WarningKind};
use crate::container::shbin::GeometryMode;
use crate::isa::{MAX_CODE_WORDS, Stage};
use std::collections::HashMap;

/// Options of an assembly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Insert no NOPs where blocks end; warn instead.
    pub no_nop: bool,
}

/// A declaration of a uniform that vertex files share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedUniform {
    /// Its name.
    pub name: String,
    /// First register, within its class.
    pub register: u32,
    /// Registers.
    pub size: u32,
    pub(super) class: Class,
}

/// A line of a source file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'s> {
    pub file: &'s str,
    pub index: u32,
    pub line: u32,
    /// The line number regardless of line markers, which change `line`.
    pub counted: u32,
    /// The line, from 0, in all texts that are analyzed together.
    pub row: u32,
    pub text: &'s str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub bits: u32,
    /// From `.word`: its descriptor index is never renumbered.
    pub raw: bool,
    pub line: (u32, u32),
    /// The line, from 0, in all texts that are analyzed together.
    pub row: u32,
    /// The line as line markers say, and its file: an index of `Assembler::names`.
    pub place: (u32, u32),
}

/// An open block.
#[derive(Debug)]
pub(super) enum Block<'s> {
    Proc {
        name: &'s str,
        start: usize,
    },
    If {
        at: usize,
        else_at: Option<usize>,
    },
    For {
        at: usize,
    },
    /// `line` is the name's, from 0.
    Array {
        name: Span<'s>,
        line: u32,
        size: Option<u32>,
        values: Vec<[u32; 4]>,
    },
}

/// The field of a word that a fixup sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// DST, from an expression.
    Target,
    /// NUM, from an expression.
    Len,
}

#[derive(Debug)]
pub(super) struct Fixup<'s> {
    pub at: usize,
    pub field: Field,
    pub expr: Span<'s>,
    pub site: Site<'s>,
}

/// The entry point of a file's DVLE.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryPoint<'s> {
    Main,
    Named(Span<'s>, Site<'s>),
    Words(u32, u32),
}

/// The state of the file being read.
#[derive(Debug)]
pub(super) struct File<'s> {
    pub first: Site<'s>,
    pub names: Names<'s>,
    pub blocks: Vec<(Block<'s>, u32)>,
    pub labels: HashMap<&'s str, usize>,
    pub fixups: Vec<Fixup<'s>>,
    /// The file's own uniforms, if it is a geometry program with a mode.
    pub space: Option<RegisterSpace<'s>>,
    pub gsh_seen: bool,
    /// A uniform with `_` got a register that vertex files share.
    pub hidden_shared: bool,
    pub dvle: DvleBuilder,
    pub masks: Option<(u16, u16)>,
    pub owns_dvle: bool,
    pub no_dvle: bool,
    /// Statements of the tables, which `.nodvle` drops: place, first byte, and the directive.
    pub of_tables: Vec<(Site<'s>, usize, &'s str)>,
    pub entry: EntryPoint<'s>,
}

impl<'s> File<'s> {
    pub(super) fn new(first: Site<'s>) -> File<'s> {
        File {
            first,
            names: Names::default(),
            blocks: Vec::new(),
            labels: HashMap::new(),
            fixups: Vec::new(),
            space: None,
            gsh_seen: false,
            hidden_shared: false,
            dvle: DvleBuilder::default(),
            masks: None,
            owns_dvle: false,
            no_dvle: false,
            of_tables: Vec::new(),
            entry: EntryPoint::Main,
        }
    }
}

pub(super) struct Finished<'s> {
    pub dvle: DvleBuilder,
    pub masks: Option<(u16, u16)>,
    pub entry: EntryPoint<'s>,
    pub first: Site<'s>,
}

pub(super) struct Call<'s> {
    pub at: usize,
    pub name: Span<'s>,
    pub site: Site<'s>,
}

/// Assembles several files into one program with one entry point per file that has one.
pub struct Assembler<'s> {
    pub(super) options: Options,
    pub(super) words: Vec<Word>,
    /// The files that line markers and `add_file` name, for the places of words.
    pub(super) names: Vec<&'s str>,
    /// Version and file names of the program.
    pub(super) program: (u32, Vec<&'s str>),
    pub(super) opdescs: OpdescTable,
    pub(super) procs: HashMap<&'s str, (usize, usize)>,
    pub(super) calls: Vec<Call<'s>>,
    /// A block was closed by the previous statement: the next `.end` or `.else` needs a padding
    /// word (picasso's state E).
    pub(super) after_block: bool,
    pub(super) shared: RegisterSpace<'s>,
    pub(super) declared: Vec<SharedUniform>,
    /// Stage of the first file that owns an entry point.
    pub(super) first_stage: Option<Stage>,
    pub(super) finished: Vec<Finished<'s>>,
    pub(super) warnings: Vec<Warning>,
    pub(super) file: File<'s>,
    pub(super) site: Site<'s>,
    /// The text that is being read.
    pub(super) text: &'s str,
    pub(super) files: u32,
    /// Lines of the texts before it.
    pub(super) first_row: u32,
    /// Collects names and errors for an analysis.
    pub(super) record: Option<Box<Record<'s>>>,
}

impl<'s> Assembler<'s> {
    /// An assembler without files.
    pub fn new(options: Options) -> Assembler<'s> {
        let site = Site { file: "", index: 0, line: 1, counted: 1, row: 0, text: "" };
        Assembler {
            options,
            words: Vec::new(),
            names: Vec::new(),
            program: (0, Vec::new()),
            opdescs: OpdescTable::default(),
            procs: HashMap::new(),
            calls: Vec::new(),
            after_block: false,
            shared: RegisterSpace::shared(),
            declared: Vec::new(),
            first_stage: None,
            finished: Vec::new(),
            warnings: Vec::new(),
            file: File::new(site),
            site,
            text: "",
            files: 0,
            first_row: 0,
            record: None,
        }
    }

    /// Adds a warning at a span of the current line.
    pub(super) fn warn(&mut self, span: Span<'_>, kind: WarningKind) {
        self.warn_at(span.at, span.text.len(), kind);
    }

    /// Adds a warning at bytes of the current line.
    pub(super) fn warn_at(&mut self, at: usize, len: usize, kind: WarningKind) {
        let line = self.line_number();
        if let Some(record) = &mut self.record {
            record.warning(Place { line, start: at as u32, end: (at + len) as u32 }, kind);
            return;
        }
        let kind = match self.warnings.len() {
            ..MAX_WARNINGS => kind,
            MAX_WARNINGS => WarningKind::Further,
            _ => return,
        };
        let (column, source) = place(self.site, at);
        self.warnings.push(Warning { file: file_name(self.site), line: self.site.line, column, source, kind });
    }

    /// The current line, from 0, in all texts, regardless of line markers.
    pub(super) fn line_number(&self) -> u32 {
        self.site.row
    }

    /// Begins a file at the current line.
    pub(super) fn begin_file(&mut self) {
        self.file = File::new(self.site);
        self.file.names.seen = self.record.as_ref().map(|_| Vec::new());
    }

    /// Ends the assembly with an error; with a record, adds it there and continues.
    pub(super) fn fail(&mut self, site: Site<'s>, fault: Fault) -> Result<(), AsmError> {
        let error = error(site, &fault, self.help(site, &fault));
        match &mut self.record {
            Some(record) => {
                record.fault((site.index, site.row), fault, error);
                Ok(())
            }
            None => Err(error),
        }
    }

    /// Defines an alias of `size` registers.
    pub(super) fn define(&mut self, name: Span<'s>, alias: Alias, kind: SymbolKind, size: u32) -> Parse<()> {
        let line = self.line_number();
        if let Some(record) = &mut self.record {
            record.define_alias(kind, name, line, alias, size);
        }
        self.file.names.define(name, alias)
    }

    /// Appends a word and returns its address; `at` is the position of a possible error.
    pub(super) fn emit(&mut self, bits: u32, raw: bool, at: Span<'_>) -> Parse<usize> {
        if self.words.len() >= MAX_CODE_WORDS {
            return fault(at, AsmErrorKind::ProgramTooLong { limit: MAX_CODE_WORDS });
        }
        if self.names.last() != Some(&self.site.file) {
            self.names.push(self.site.file);
        }
        let place = (self.names.len() as u32 - 1, self.site.line);
        self.words.push(Word { bits, raw, line: (self.site.index, self.site.counted), row: self.site.row, place });
        Ok(self.words.len() - 1)
    }

    /// Checks that an instruction may begin: a block is open, and there is room for another word.
    /// As in picasso, an open array counts as a block.
    pub(super) fn begin_instruction(&mut self, head: Span<'_>) -> Parse<()> {
        if self.file.blocks.is_empty() && !self.file.names.raw {
            return fault(head, AsmErrorKind::OutsideProc);
        }
        if self.file.dvle.stage == Stage::Vertex && !self.file.names.raw && self.words.len() > VERTEX_WORDS {
            return fault(head, AsmErrorKind::ProgramTooLong { limit: VERTEX_WORDS });
        }
        if !self.file.names.raw && self.file.blocks.iter().all(|(b, _)| matches!(b, Block::Array { .. })) {
            self.warn(head, WarningKind::InsideArray);
        }
        self.file.owns_dvle = true;
        self.after_block = false;
        Ok(())
    }

    pub(super) fn open(&mut self, block: Block<'s>, at: Span<'_>) -> Parse<()> {
        if self.file.blocks.len() >= MAX_BLOCKS {
            return fault(at, AsmErrorKind::NestingTooDeep);
        }
        self.file.blocks.push((block, self.site.line));
        Ok(())
    }

    pub(super) fn here(&self) -> usize {
        self.words.len()
    }

    /// Exchanges two descriptor indices in all words so far.
    pub(super) fn swap_opdescs(&mut self, (a, b): (u8, u8)) {
        let (a, b) = (u32::from(a), u32::from(b));
        for w in self.words.iter_mut().filter(|w| !w.raw) {
            let opcode = w.bits >> 26;
            if opcode < 0x20 || opcode == 0x2E || opcode == 0x2F {
                let index = w.bits & 0x7F;
                if index == a {
                    w.bits = w.bits & !0x7F | b;
                } else if index == b {
                    w.bits = w.bits & !0x7F | a;
                }
            }
        }
    }

    /// Records a fixup: a field of word `at` is an expression of labels, known at the end of the
    /// file.
    pub(super) fn fix_later(&mut self, at: usize, field: Field, expr: Span<'s>) {
        self.file.fixups.push(Fixup { at, field, expr, site: self.site });
    }

    /// Records a call: word `at` calls `name`, known after all files.
    pub(super) fn call_later(&mut self, at: usize, name: Span<'s>) {
        self.calls.push(Call { at, name, site: self.site });
    }

    /// Sets DST and NUM of word `at`; `shown` is the position of a possible error.
    pub(super) fn patch(&mut self, at: usize, target: usize, len: usize, shown: Span<'_>) -> Parse<()> {
        if len > 0x3FF {
            return fault(shown, AsmErrorKind::BlockTooLong { words: len });
        }
        if target > 0xFFF {
            let (max, found) = (0xFFF, target as i64);
            return fault(shown, AsmErrorKind::ValueRange { what: "address", min: 0, max, found });
        }
        if len > 0xFF {
            self.warn(shown, WarningKind::LongBlock { words: len });
        }
        self.words[at].bits |= (target as u32) << 10 | len as u32;
        Ok(())
    }

    pub(super) fn space(&mut self) -> &mut RegisterSpace<'s> {
        self.file.space.as_mut().unwrap_or(&mut self.shared)
    }

    /// A `.gsh` without mode: a geometry program that shares the vertex files' uniforms.
    pub(super) fn implied_geometry(&mut self) {
        self.file.gsh_seen = true;
        self.file.names.geometry = true;
        let DvleBuilder { stage, has_mode, geometry, .. } = &mut self.file.dvle;
        *stage = Stage::Geometry;
        *has_mode = false;
        *geometry = GeometryMode::Point;
        self.file.space = None;
    }
}

/// The whole of `span` as a number: decimal, `0x` hex or leading-0 octal, at most 32 bits.
pub(super) fn number(span: Span<'_>) -> Parse<u32> {
    match c_number(span.text) {
        Some((value, len)) if len == span.text.len() => match u32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => {
                let found = i64::try_from(value).unwrap_or(i64::MAX);
                fault(span, AsmErrorKind::ValueRange { what: "number", min: 0, max: u32::MAX.into(), found })
            }
        },
        _ => expected("a number", span),
    }
}

/// The column of byte `at` of a line, and the line.
fn place(site: Site<'_>, at: usize) -> (u32, String) {
    let before = site.text.get(..at.min(site.text.len())).unwrap_or(site.text);
    (before.chars().count() as u32 + 1, site.text.chars().take(1000).collect())
}

/// The file's name without control characters; a line marker may contain any text.
fn file_name(site: Site<'_>) -> String {
    site.file.chars().take(1000).map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// A fault of the line `site` as a public error.
fn error(site: Site<'_>, fault: &Fault, help: Option<String>) -> AsmError {
    let (column, source) = place(site, fault.at);
    AsmError {
        file: file_name(site),
        line: site.line,
        column,
        source,
        kind: fault.kind.clone(),
        help: help.map(String::into_boxed_str),
    }
}
