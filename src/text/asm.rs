//! Source files -> [`Assembly`]: the line loop, and the addresses that are known only at the end.
//!
//! Jumps are resolved at the end of their file, calls and entry points after all files. `inst` and
//! `directive` define the statements. For a source that picasso accepts, the output is picasso's,
//! byte for byte (language notes, section 14).

use super::context::{EntryPoint, Field, File, Finished, Fixup, Site, number};
use super::error::{AsmError, AsmErrorKind, Fault, Parse, clip, expected, fault};
use super::lexer::{self, Marker, identifier};
use super::span::Span;
use super::symbols::{Part, Space, SymbolKind};
use super::warning::{Warning, WarningKind};
use crate::container::shbin::{Dvle, Opdesc, Shbin};
use crate::isa::Stage;

pub use super::context::{Assembler, Options, SharedUniform};

/// The result of an assembly.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The program and its entry points.
    pub shbin: Shbin,
    /// Lenient readings, at most a thousand.
    pub warnings: Vec<Warning>,
    /// The source line of every code word: file index, then line from 1, regardless of line
    /// markers.
    pub lines: Vec<(u32, u32)>,
    /// The same after line markers, as messages have it: index of a file name, then line.
    pub places: Vec<(u32, u32)>,
    /// The file names of `places`. A name may occur several times.
    pub names: Vec<String>,
    /// All procedures, by address.
    pub procs: Vec<Proc>,
    /// Declarations of uniforms that vertex files share, in order and with repetitions, without
    /// names that begin with `_`. For [`Assembly::c_header`].
    pub shared: Vec<SharedUniform>,
    /// Whether the first file that owns an entry point is a geometry program, even if `.nodvle`
    /// suppresses the entry point.
    pub(super) header_geometry: bool,
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

/// Assembles one source text, with picasso's padding.
pub fn assemble(source: &str) -> Result<Assembly, AsmError> {
    assemble_with(source, Options::default())
}

/// Assembles one source text.
pub fn assemble_with(source: &str, options: Options) -> Result<Assembly, AsmError> {
    let mut assembler = Assembler::new(options);
    assembler.add_file("input", source)?;
    assembler.finish()
}

impl<'s> Assembler<'s> {
    /// Appends one file; `name` appears in messages.
    pub fn add_file(&mut self, name: &'s str, text: &'s str) -> Result<(), AsmError> {
        // A NUL byte ends a file.
        let (text, nul) = text.split_once('\0').map_or((text, false), |(text, _)| (text, true));
        self.text = text;
        let first = text.lines().next().unwrap_or("");
        self.site = Site { file: name, index: self.files, line: 1, counted: 1, row: self.first_row, text: first };
        self.files += 1;
        self.begin_file();
        if first.starts_with('\u{FEFF}') {
            self.fail(self.site, Fault { at: 0, len: '\u{FEFF}'.len_utf8(), kind: AsmErrorKind::ByteOrderMark })?;
        }
        let mut line = 1;
        let mut lines = text.lines().enumerate().peekable();
        while let Some((n, text)) = lines.next() {
            (self.site.line, self.site.counted, self.site.text) = (line, n as u32 + 1, text);
            self.site.row = self.first_row + n as u32;
            line = line.saturating_add(1);
            let warnings = self.warnings.len();
            let before = self.before_line();
            let after = match self.line(text, lines.peek().is_none()) {
                Ok(after) => after,
                Err(fault) => {
                    let kind = fault.kind.clone();
                    self.fail(self.site, fault)?;
                    self.recover(text, before, &kind);
                    After::Nothing
                }
            };
            if let (Some(record), Some(seen)) = (&mut self.record, &mut self.file.names.seen) {
                record.line(self.site.row, seen);
            }
            self.warnings[warnings..].sort_by_key(|w| w.column);
            match after {
                After::Nothing => {}
                After::Position(next, file) => (line, self.site.file) = (next, file),
                After::EndFile => {
                    // The rest of the text is a file of its own.
                    self.end_file()?;
                    self.site.index += 1;
                    self.files += 1;
                    self.begin_file();
                }
            }
        }
        if nul {
            self.warn_at(self.site.text.len(), 0, WarningKind::Nul);
        }
        self.end_file()
    }

    /// Resolves calls and entry points, and returns the program.
    pub fn finish(mut self) -> Result<Assembly, AsmError> {
        let dvles = self.resolve()?;
        Ok(self.into_assembly(dvles))
    }

    /// Sets the addresses of calls, and returns the entry points.
    pub(super) fn resolve(&mut self) -> Result<Vec<Dvle>, AsmError> {
        for call in std::mem::take(&mut self.calls) {
            let Some(&(start, len)) = self.procs.get(call.name.text) else {
                let kind = AsmErrorKind::Undefined { what: "procedure", name: clip(call.name.text) };
                self.fail(call.site, Fault::new(call.name, kind))?;
                continue;
            };
            if let Some(record) = &mut self.record {
                record.use_name(Space::Procedures, call.name, call.site.row);
            }
            self.site = call.site;
            if let Err(fault) = self.patch(call.at, start, len, call.name) {
                self.fail(call.site, fault)?;
            }
        }
        let mut dvles = Vec::new();
        for f in std::mem::take(&mut self.finished) {
            // The default entry has no place but the file's first line.
            let (name, site, place) = match f.entry {
                EntryPoint::Named(name, site) => (name.text, site, name),
                EntryPoint::Main => ("main", f.first, Span { text: f.first.text, at: 0 }),
                EntryPoint::Words(..) => ("", f.first, Span { text: f.first.text, at: 0 }),
            };
            if let (Some(record), EntryPoint::Named(..)) = (&mut self.record, f.entry) {
                record.use_name(Space::Procedures, place, site.row);
            }
            let (start, end) = match (f.entry, self.procs.get(name)) {
                (EntryPoint::Words(start, end), _) => (start, end),
                (_, Some(&(start, len))) => (start as u32, (start + len) as u32),
                (_, None) => {
                    let kind = AsmErrorKind::Undefined { what: "entry procedure", name: clip(name) };
                    self.fail(site, Fault::new(place, kind))?;
                    continue;
                }
            };
            let mut dvle = f.dvle.finish(start, end);
            if let Some((input, output)) = f.masks {
                (dvle.input_mask, dvle.output_mask) = (input, output);
            }
            dvles.push(dvle);
        }
        if dvles.is_empty() {
            self.fail(self.site, Fault { at: 0, len: 0, kind: AsmErrorKind::NoDvle })?;
        }
        Ok(dvles)
    }

    pub(super) fn into_assembly(self, dvles: Vec<Dvle>) -> Assembly {
        let mut procs: Vec<Proc> = (self.procs.iter())
            .map(|(name, &(start, len))| Proc { name: (*name).into(), start: start as u32, len: len as u32 })
            .collect();
        procs.sort_by(|a, b| (a.start, a.len, &a.name).cmp(&(b.start, b.len, &b.name)));
        Assembly {
            shbin: Shbin {
                version: self.program.0,
                code: self.words.iter().map(|w| w.bits).collect(),
                opdescs: self.opdescs.entries().map(|(word, extra)| Opdesc { word, extra }).collect(),
                file_names: self.program.1.iter().map(|name| (*name).into()).collect(),
                dvles,
            },
            warnings: self.warnings,
            lines: self.words.iter().map(|w| w.line).collect(),
            places: self.words.iter().map(|w| w.place).collect(),
            names: self.names.iter().map(|name| (*name).into()).collect(),
            procs,
            shared: self.declared,
            header_geometry: self.first_stage == Some(Stage::Geometry),
        }
    }

    /// Assembles a line. `last`: it is the last one of its file.
    fn line(&mut self, text: &'s str, last: bool) -> Parse<After<'s>> {
        let line = lexer::line(text)?;
        for label in line.labels {
            if label.is_empty() {
                self.warn(label, WarningKind::EmptyName);
            }
            let (line, here) = (self.line_number(), self.here());
            if let Some(record) = &mut self.record {
                record.define_code(SymbolKind::Label, label, line, here);
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
        self.warn_notes();
        Ok(After::Nothing)
    }

    /// Adds the warnings about the operands of the current line.
    pub(super) fn warn_notes(&mut self) {
        for (at, len, kind) in std::mem::take(&mut self.file.names.notes) {
            self.warn_at(at, len, kind);
        }
    }

    /// A line that begins with `#`.
    fn marker(&mut self, head: Span<'s>, last: bool) -> Parse<After<'s>> {
        match lexer::marker(head.text) {
            Marker::Position(line, file) => return Ok(After::Position(line, file)),
            // picasso looks for the name in the next lines, and there are none.
            Marker::NoFile if last => return expected("a file name in quotes", head.skip(head.text.len())),
            Marker::NoFile => self.warn(head, WarningKind::MarkerWithoutFile),
            Marker::Nothing => self.warn(head, WarningKind::Ignored(clip(head.text))),
        }
        Ok(After::Nothing)
    }

    fn end_file(&mut self) -> Result<(), AsmError> {
        if let Some(&(_, opened)) = self.file.blocks.last() {
            self.fail(
                self.site,
                Fault { at: 0, len: self.site.text.len(), kind: AsmErrorKind::UnclosedBlock { opened } },
            )?;
        }
        for fixup in std::mem::take(&mut self.file.fixups) {
            if let Some(record) = &mut self.record {
                for (_, term) in terms(fixup.expr) {
                    record.use_name(Space::Labels, term, fixup.site.row);
                }
            }
            let value = match self.evaluate(&fixup) {
                Ok(value) => value,
                Err(fault) => {
                    self.fail(fixup.site, fault)?;
                    continue;
                }
            };
            let word = &mut self.words[fixup.at].bits;
            *word |= match fixup.field {
                Field::Target => value << 10,
                Field::Len => value,
            };
        }
        let file = std::mem::replace(&mut self.file, File::new(self.site));
        if file.no_dvle {
            let end = self.site;
            for &(site, at, directive) in &file.of_tables {
                self.site = site;
                self.warn_at(at, directive.len(), WarningKind::WithoutEntry(directive.to_ascii_lowercase()));
            }
            self.site = end;
        }
        if let Some(record) = &mut self.record {
            let (first_line, tables) = (file.first.row, file.dvle.clone().finish(0, 0));
            record.end_part(Part { first_line, tables, no_dvle: file.no_dvle });
        }
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

    /// Sums and differences of numbers, labels and `.` (the word's own address).
    fn evaluate(&self, fixup: &Fixup<'s>) -> Parse<u32> {
        let mut total = 0i64;
        for (sign, term) in terms(fixup.expr) {
            let value = if term.text == "." {
                fixup.at as i64
            } else if term.text.starts_with(|c: char| c.is_ascii_digit()) {
                i64::from(number(term)?)
            } else if let Some(&address) = self.file.labels.get(term.text) {
                address as i64
            } else {
                identifier(term)?;
                return fault(term, AsmErrorKind::Undefined { what: "label", name: clip(term.text) });
            };
            total += sign * value;
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
}

/// The terms of a sum, each with its sign.
fn terms(expr: Span<'_>) -> impl Iterator<Item = (i64, Span<'_>)> {
    let mut next = Some((1, expr));
    std::iter::from_fn(move || {
        let (sign, rest) = next?;
        let n = rest.text.find(['+', '-']);
        next = n.map(|n| (if rest.text.as_bytes()[n] == b'-' { -1 } else { 1 }, rest.skip(n + 1)));
        Some((sign, n.map_or(rest, |n| rest.take(n)).trim()))
    })
}

/// The effect of a line on the position of the next one.
enum After<'s> {
    Nothing,
    /// Line number and file name of the next line.
    Position(u32, &'s str),
    /// `.file`: the next line begins another file.
    EndFile,
}
