//! Source files -> [`Assembly`]: the line loop, open blocks, padding, and the addresses that are known only at the end.
//!
//! Words are emitted in source order and never move, so an address is the number of words before it; jumps are filled
//! in at the end of their file, calls and entry points after all files. What single statements mean is in `inst` and
//! `directive`. Byte for byte picasso's output for what picasso accepts (language notes, section 14).

use super::error::{AsmError, AsmErrorKind, Fault, Parse, clip, expected, fault};
use super::layout::{Class, DvleBuilder, Space};
use super::lexer::{self, Marker, Span};
use super::opdesc::OpdescTable;
use super::operand::{Names, c_number};
use super::warning::{Warning, WarningKind};
use crate::container::shbin::{Opdesc, Shbin};
use crate::isa::{MAX_CODE_WORDS, Stage};
use std::collections::HashMap;

/// Blocks that may be open in each other, of all kinds together.
pub(super) const MAX_BLOCKS: usize = 32;
/// Words a vertex file may add to; the test is "more than", so one more passes, as in picasso.
const VERTEX_WORDS: usize = 512;
/// Warnings that are kept. A file of nothing but oddities would otherwise become many times its size.
const MAX_WARNINGS: usize = 1000;

/// How to assemble.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Insert no NOPs where blocks end; warn instead.
    pub no_nop: bool,
}

/// What a source becomes.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The program and its entry points.
    pub shbin: Shbin,
    /// What is accepted and odd, at most a thousand of it.
    pub warnings: Vec<Warning>,
    /// For every code word the line it comes from (file index, then line from 1, whatever line markers say).
    pub lines: Vec<(u32, u32)>,
    /// All procedures, by address.
    pub procs: Vec<Proc>,
    /// Declarations of uniforms that vertex files share, in order and with repetitions; those that begin with `_` are not
    /// among them. For [`Assembly::c_header`].
    pub shared: Vec<SharedUniform>,
    /// Whether the first file with an entry point of its own, written or not, is a geometry program.
    pub(super) header_geometry: bool,
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

/// A procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proc {
    /// Its name.
    pub name: String,
    /// First word.
    pub start: u32,
    /// Words, padding included.
    pub len: u32,
}

/// Assembles one source text with padding as picasso does it.
pub fn assemble(source: &str) -> Result<Assembly, AsmError> {
    assemble_with(source, Options::default())
}

/// Assembles one source text.
pub fn assemble_with(source: &str, options: Options) -> Result<Assembly, AsmError> {
    let mut assembler = Assembler::new(options);
    assembler.add_file("input", source)?;
    assembler.finish()
}

/// A line of a source file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'s> {
    pub file: &'s str,
    pub index: u32,
    pub line: u32,
    /// The line as counted, where a line marker has changed `line`.
    pub counted: u32,
    pub text: &'s str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub bits: u32,
    /// Given by `.word`: never renumbered.
    raw: bool,
    line: (u32, u32),
}

/// An open block.
#[derive(Debug)]
pub(super) enum Block<'s> {
    Proc { name: &'s str, start: usize },
    If { at: usize, else_at: Option<usize> },
    For { at: usize },
    Array { name: Span<'s>, size: Option<u32>, values: Vec<[u32; 4]> },
}

/// Which field of a word is filled in later.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// DST, from an expression.
    Target,
    /// NUM, from an expression.
    Len,
}

#[derive(Debug)]
struct Fixup<'s> {
    at: usize,
    field: Field,
    expr: Span<'s>,
    site: Site<'s>,
}

/// Where a file's DVLE begins to run.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryPoint<'s> {
    Main,
    Named(Span<'s>, Site<'s>),
    Words(u32, u32),
}

/// What is known of the file being read.
#[derive(Debug)]
pub(super) struct File<'s> {
    first: Site<'s>,
    pub names: Names<'s>,
    pub blocks: Vec<(Block<'s>, u32)>,
    labels: HashMap<&'s str, usize>,
    fixups: Vec<Fixup<'s>>,
    /// The file's own uniforms, if it is a geometry program with a mode.
    pub space: Option<Space<'s>>,
    pub gsh_seen: bool,
    /// A uniform with `_` got a register that vertex files share.
    pub hidden_shared: bool,
    pub dvle: DvleBuilder,
    pub masks: Option<(u16, u16)>,
    pub owns_dvle: bool,
    pub no_dvle: bool,
    pub entry: EntryPoint<'s>,
}

impl<'s> File<'s> {
    fn new(first: Site<'s>) -> File<'s> {
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
            entry: EntryPoint::Main,
        }
    }
}

struct Finished<'s> {
    dvle: DvleBuilder,
    masks: Option<(u16, u16)>,
    entry: EntryPoint<'s>,
    first: Site<'s>,
}

struct Call<'s> {
    at: usize,
    name: Span<'s>,
    site: Site<'s>,
}

/// Assembles several files into one program, one entry point for each file that has one.
pub struct Assembler<'s> {
    pub(super) options: Options,
    pub(super) words: Vec<Word>,
    pub(super) opdescs: OpdescTable,
    pub(super) procs: HashMap<&'s str, (usize, usize)>,
    calls: Vec<Call<'s>>,
    /// A block has just been closed: the next `.end` or `.else` needs a word between (picasso's state E).
    pub(super) after_block: bool,
    pub(super) shared: Space<'s>,
    pub(super) declared: Vec<SharedUniform>,
    /// Kind of the first file that owns an entry point.
    first_stage: Option<Stage>,
    finished: Vec<Finished<'s>>,
    warnings: Vec<Warning>,
    pub(super) file: File<'s>,
    pub(super) site: Site<'s>,
    files: u32,
}

impl<'s> Assembler<'s> {
    /// With nothing in it.
    pub fn new(options: Options) -> Assembler<'s> {
        let site = Site { file: "", index: 0, line: 1, counted: 1, text: "" };
        Assembler {
            options,
            words: Vec::new(),
            opdescs: OpdescTable::default(),
            procs: HashMap::new(),
            calls: Vec::new(),
            after_block: false,
            shared: Space::shared(),
            declared: Vec::new(),
            first_stage: None,
            finished: Vec::new(),
            warnings: Vec::new(),
            file: File::new(site),
            site,
            files: 0,
        }
    }

    /// Reads one file behind the ones before; `name` appears in messages.
    pub fn add_file(&mut self, name: &'s str, text: &'s str) -> Result<(), AsmError> {
        // A NUL byte ends a file.
        let (text, nul) = text.split_once('\0').map_or((text, false), |(text, _)| (text, true));
        let first = text.lines().next().unwrap_or("");
        self.site = Site { file: name, index: self.files, line: 1, counted: 1, text: first };
        self.files += 1;
        self.file = File::new(self.site);
        if first.starts_with('\u{FEFF}') {
            return Err(error(self.site, Fault { at: 0, kind: AsmErrorKind::ByteOrderMark }));
        }
        let mut line = 1;
        let mut lines = text.lines().enumerate().peekable();
        while let Some((n, text)) = lines.next() {
            (self.site.line, self.site.counted, self.site.text) = (line, n as u32 + 1, text);
            line = line.saturating_add(1);
            let warnings = self.warnings.len();
            let after = self.line(text, lines.peek().is_none()).map_err(|f| error(self.site, f))?;
            self.warnings[warnings..].sort_by_key(|w| w.column);
            match after {
                After::Nothing => {}
                After::Position(next, file) => (line, self.site.file) = (next, file),
                After::EndFile => {
                    // What follows is read as if it were a file of its own.
                    self.end_file()?;
                    self.site.index += 1;
                    self.files += 1;
                    self.file = File::new(self.site);
                }
            }
        }
        if nul {
            self.warn_at(self.site.text.len(), WarningKind::Nul);
        }
        self.end_file()
    }

    /// Fills in what needed all files.
    pub fn finish(mut self) -> Result<Assembly, AsmError> {
        for call in std::mem::take(&mut self.calls) {
            let Some(&(start, len)) = self.procs.get(call.name.text) else {
                let kind = AsmErrorKind::Undefined { what: "procedure", name: clip(call.name.text) };
                return Err(error(call.site, Fault { at: call.name.at, kind }));
            };
            self.site = call.site;
            self.patch(call.at, start, len, call.name).map_err(|f| error(call.site, f))?;
        }
        let mut dvles = Vec::new();
        for f in std::mem::take(&mut self.finished) {
            let (name, site, at) = match f.entry {
                EntryPoint::Main => ("main", f.first, 0),
                EntryPoint::Named(name, site) => (name.text, site, name.at),
                EntryPoint::Words(..) => ("", f.first, 0),
            };
            let (start, end) = match (f.entry, self.procs.get(name)) {
                (EntryPoint::Words(start, end), _) => (start, end),
                (_, Some(&(start, len))) => (start as u32, (start + len) as u32),
                (_, None) => {
                    let kind = AsmErrorKind::Undefined { what: "entry procedure", name: clip(name) };
                    return Err(error(site, Fault { at, kind }));
                }
            };
            let mut dvle = f.dvle.finish(start, end);
            if let Some((input, output)) = f.masks {
                (dvle.input_mask, dvle.output_mask) = (input, output);
            }
            dvles.push(dvle);
        }
        if dvles.is_empty() {
            return Err(error(self.site, Fault { at: 0, kind: AsmErrorKind::NoDvle }));
        }
        let mut procs: Vec<Proc> = (self.procs.iter())
            .map(|(name, &(start, len))| Proc { name: (*name).into(), start: start as u32, len: len as u32 })
            .collect();
        procs.sort_by(|a, b| (a.start, a.len, &a.name).cmp(&(b.start, b.len, &b.name)));
        Ok(Assembly {
            shbin: Shbin {
                version: 0,
                code: self.words.iter().map(|w| w.bits).collect(),
                opdescs: self.opdescs.entries().map(|(word, extra)| Opdesc { word, extra }).collect(),
                file_names: Vec::new(),
                dvles,
            },
            warnings: self.warnings,
            lines: self.words.iter().map(|w| w.line).collect(),
            procs,
            shared: self.declared,
            header_geometry: self.first_stage == Some(Stage::Geometry),
        })
    }

    /// Reads a line. `last`: none follows in this file.
    fn line(&mut self, text: &'s str, last: bool) -> Parse<After<'s>> {
        let line = lexer::line(text)?;
        for label in line.labels {
            if label.is_empty() {
                self.warn(label, WarningKind::EmptyName);
            }
            if self.file.labels.insert(label.text, self.words.len()).is_some() {
                return fault(label, AsmErrorKind::Duplicate { what: "label", name: clip(label.text) });
            }
        }
        if line.head.is(".file") {
            return Ok(After::EndFile);
        }
        if line.head.text.starts_with('#') {
            return self.marker(line.head, last);
        }
        if line.head.text.starts_with('.') {
            self.directive(line.head, line.rest)?;
        } else if !line.head.is_empty() {
            self.instruction(line.head, line.rest)?;
        }
        for (at, kind) in std::mem::take(&mut self.file.names.notes) {
            self.warn_at(at, kind);
        }
        Ok(After::Nothing)
    }

    /// A line that begins with `#`.
    fn marker(&mut self, head: Span<'s>, last: bool) -> Parse<After<'s>> {
        match lexer::marker(head.text) {
            Marker::Position(line, file) => return Ok(After::Position(line, file)),
            // picasso looks for the name in what follows, and here nothing does.
            Marker::NoFile if last => return expected("a file name in quotes", head.skip(head.text.len())),
            Marker::NoFile => self.warn(head, WarningKind::MarkerWithoutFile),
            Marker::Nothing => self.warn(head, WarningKind::Ignored(clip(head.text))),
        }
        Ok(After::Nothing)
    }

    fn end_file(&mut self) -> Result<(), AsmError> {
        if let Some(&(_, opened)) = self.file.blocks.last() {
            return Err(error(self.site, Fault { at: 0, kind: AsmErrorKind::UnclosedBlock { opened } }));
        }
        for fixup in std::mem::take(&mut self.file.fixups) {
            let value = self.evaluate(&fixup).map_err(|f| error(fixup.site, f))?;
            let word = &mut self.words[fixup.at].bits;
            *word |= match fixup.field {
                Field::Target => value << 10,
                Field::Len => value,
            };
        }
        let file = std::mem::replace(&mut self.file, File::new(self.site));
        if file.owns_dvle || file.names.saw_output {
            self.first_stage.get_or_insert(file.dvle.stage);
            if !file.no_dvle {
                let (entry, first) = (file.entry, file.first);
                self.finished.push(Finished { dvle: file.dvle, masks: file.masks, entry, first });
            }
        }
        self.shared.next_file();
        Ok(())
    }

    /// Something odd at a piece of the current line.
    pub(super) fn warn(&mut self, span: Span<'_>, kind: WarningKind) {
        self.warn_at(span.at, kind);
    }

    /// Something odd at a byte of the current line.
    pub(super) fn warn_at(&mut self, at: usize, kind: WarningKind) {
        let kind = match self.warnings.len() {
            ..MAX_WARNINGS => kind,
            MAX_WARNINGS => WarningKind::Further,
            _ => return,
        };
        let (column, source) = place(self.site, at);
        self.warnings.push(Warning { file: file_name(self.site), line: self.site.line, column, source, kind });
    }

    /// Appends a word; `at` is where an error would be shown.
    pub(super) fn emit(&mut self, bits: u32, raw: bool, at: Span<'_>) -> Parse<usize> {
        if self.words.len() >= MAX_CODE_WORDS {
            return fault(at, AsmErrorKind::ProgramTooLong { limit: MAX_CODE_WORDS });
        }
        self.words.push(Word { bits, raw, line: (self.site.index, self.site.counted) });
        Ok(self.words.len() - 1)
    }

    /// What every instruction needs: an open block, and room for another word. An open array will do, as in picasso.
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

    /// Exchanges two descriptor numbers in all words so far.
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

    /// Remembers that a field of word `at` comes from an expression of labels, known at the end of the file.
    pub(super) fn fix_later(&mut self, at: usize, field: Field, expr: Span<'s>) {
        self.file.fixups.push(Fixup { at, field, expr, site: self.site });
    }

    /// Remembers that word `at` calls `name`.
    pub(super) fn call_later(&mut self, at: usize, name: Span<'s>) {
        self.calls.push(Call { at, name, site: self.site });
    }

    /// Sums and differences of numbers, labels and `.` (the word's own address).
    fn evaluate(&self, fixup: &Fixup<'s>) -> Parse<u32> {
        let mut total = 0i64;
        let mut rest = fixup.expr;
        let mut sign = 1;
        loop {
            let n = rest.text.find(['+', '-']);
            let term = n.map_or(rest, |n| rest.take(n)).trim();
            let value = if term.text == "." {
                fixup.at as i64
            } else if term.text.starts_with(|c: char| c.is_ascii_digit()) {
                i64::from(number(term)?)
            } else if let Some(&address) = self.file.labels.get(term.text) {
                address as i64
            } else {
                term.identifier()?;
                return fault(term, AsmErrorKind::Undefined { what: "label", name: clip(term.text) });
            };
            total += sign * value;
            let Some(n) = n else { break };
            sign = if rest.text.as_bytes()[n] == b'-' { -1 } else { 1 };
            rest = rest.skip(n + 1);
        }
        let (what, max) = match fixup.field {
            Field::Target => ("address", 0xFFF),
            Field::Len => ("length", 0xFF),
        };
        if !(0..=max).contains(&total) {
            return fault(fixup.expr, AsmErrorKind::ValueRange { what, min: 0, max, found: total });
        }
        Ok(total as u32)
    }

    /// Fills in DST and NUM of word `at`; what is wrong with them is told of `shown`.
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
}

/// All of `span` as a number: decimal, `0x` hex or leading-0 octal, at most 32 bits.
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

/// What a line means for the lines behind it.
enum After<'s> {
    Nothing,
    /// The next line is this one of this file.
    Position(u32, &'s str),
    /// The file ends here, inside its text.
    EndFile,
}

/// Byte `at` of a line as a column, and the line.
fn place(site: Site<'_>, at: usize) -> (u32, String) {
    let before = site.text.get(..at.min(site.text.len())).unwrap_or(site.text);
    (before.chars().count() as u32 + 1, site.text.chars().take(1000).collect())
}

/// The file's name for a person; a line marker may hold anything.
fn file_name(site: Site<'_>) -> String {
    site.file.chars().take(1000).map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// The error for a person.
fn error(site: Site<'_>, fault: Fault) -> AsmError {
    let (column, source) = place(site, fault.at);
    AsmError { file: file_name(site), line: site.line, column, source, kind: fault.kind }
}
