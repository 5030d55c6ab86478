//! [`Shbin`] -> a source text that assembles back to the same code words and descriptor table.
//!
//! The disassembler verifies this: it assembles each candidate text, and falls back to a plainer
//! style if the result differs. The styles are picasso's own language (plus padding), `.raw` text
//! without padding, the descriptor table by index, and `.word` only.
//!
//! A text of any style has every entry point with its stage. Table rows that the language can't
//! express become comments, row by row. Scopes appear as blocks where they nest, and as `r...`
//! forms where they don't. A word whose unused bits are set, or whose descriptor isn't in the
//! table, is a `.word`. Programs beyond 4096 words or descriptors have no text that assembles.

use super::asm::assemble;
use super::declarations::{DUMMY, VERSION};
use super::directive::PROPERTIES;
use super::limits::{MAX_OUTPUTS, MAX_ROWS};
use super::literal::format_f24;
use super::opdesc::{OpdescTable, descriptor_of};
use super::print::test_text;
use super::registers::reads_like_a_register;
use super::span::is_identifier;
use crate::container::shbin::{Constant, Dvle, GeometryMode, Output, Shbin};
use crate::isa::{Inst, Stage, WriteMask};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;

/// The style of a text, from structured to plain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// All code inside procedures, padding on.
    Picasso,
    /// `.raw`: no padding.
    Raw,
    /// `.raw`, and the descriptor table by index.
    Pinned,
    /// `.word` only.
    Words,
}

/// The text of a program and its entry points.
///
/// [`assemble`] turns it into the same code words, descriptor table and entry points (address and
/// stage). A program without entry points gets one at word 0, since the language requires one.
/// Constants, inputs, outputs and names that the language can't express appear as comments.
pub fn disassemble(shbin: &Shbin) -> String {
    disassemble_with_places(shbin, &[])
}

/// The same with a line marker before each word whose file and line, an element of `places`, are not
/// those of the text before it.
pub fn disassemble_with_places(shbin: &Shbin, places: &[(String, u32)]) -> String {
    // Table rows are checked before they are written. The attempts without rows cover a gap in that
    // check: they lose the tables, but never code or entry points.
    for rows in [true, false] {
        for style in [Style::Picasso, Style::Raw, Style::Pinned, Style::Words] {
            let text = Writer { places, ..Writer::new(shbin, style, rows) }.text();
            if assemble(&text).is_ok_and(|a| same_program(&a.shbin, shbin)) {
                return text;
            }
        }
    }
    Writer { places, ..Writer::new(shbin, Style::Words, true) }.text()
}

/// Whether code, descriptors and entry points are equal.
fn same_program(again: &Shbin, given: &Shbin) -> bool {
    let entry = |d: &Dvle| (d.entry, d.end, d.stage);
    again.code == given.code
        && again.opdescs == given.opdescs
        && (given.dvles.is_empty() || again.dvles.iter().map(entry).eq(given.dvles.iter().map(entry)))
}

/// Nesting depth shown as blocks; the language allows 32, of which the procedure takes one.
const MAX_DEPTH: usize = 30;

struct Writer<'a> {
    shbin: &'a Shbin,
    style: Style,
    /// Whether table rows are statements rather than comments.
    rows: bool,
    /// Instruction per word; `None` where only `.word` expresses it.
    insts: Vec<Option<Inst>>,
    /// Procedures by first word: length and name. They don't overlap.
    procs: HashMap<usize, (usize, String)>,
    labels: BTreeSet<usize>,
    /// The given table, to test whether first fit chooses the right entry.
    table: OpdescTable,
    /// File and line of each word.
    places: &'a [(String, u32)],
    /// The place of the next line of the text, after a line marker.
    here: Option<(&'a str, u32)>,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(shbin: &'a Shbin, style: Style, rows: bool) -> Writer<'a> {
        let mut table = OpdescTable::default();
        for d in &shbin.opdescs {
            // Beyond the table's limit every attempt fails, and the last style is returned.
            let _ = table.give(d.word, d.extra);
        }
        let insts: Vec<_> = shbin.code.iter().map(|&w| faithful(w, shbin).filter(|_| style != Style::Words)).collect();
        let n = insts.len();
        let labels = (insts.iter().flatten())
            .filter_map(|i| if let Inst::Jump { target, .. } = i { Some(usize::from(*target)) } else { None })
            .filter(|&t| t <= n)
            .collect();
        let (procs, places, here) = (HashMap::new(), &[][..], None);
        let mut w = Writer { shbin, style, rows, insts, procs, labels, table, places, here, out: String::new() };
        w.find_procs();
        w
    }

    /// Chooses procedures that don't overlap: entry points first, then call targets.
    fn find_procs(&mut self) {
        let entries =
            (self.shbin.dvles.iter()).map(|d| (d.entry as usize, (d.end as usize).saturating_sub(d.entry as usize)));
        let calls = (self.insts.iter().flatten()).filter_map(|i| match *i {
            Inst::Call { target, len, .. } => Some((usize::from(target), usize::from(len))),
            _ => None,
        });
        let mut taken = vec![false; self.insts.len()];
        let mut named_main = false;
        for (start, len) in entries.chain(calls) {
            let Some(range) = taken.get_mut(start..start.saturating_add(len)) else { continue };
            if len == 0 || range.contains(&true) {
                continue;
            }
            range.fill(true);
            let name = if named_main { format!("p{start}") } else { "main".into() };
            named_main = true;
            self.procs.insert(start, (len, name));
        }
    }

    fn text(mut self) -> String {
        let (known, odd): (Vec<_>, Vec<_>) = self.shbin.file_names.iter().partition(|name| !name.contains(is_odd));
        if self.shbin.version != 0 || !known.is_empty() {
            let names: String = known.iter().map(|name| format!(" \"{name}\"")).collect();
            self.row(&format!(".program 0x{:X}{names}", self.shbin.version));
        }
        for name in odd {
            self.line(0, &format!("; source file {name:?}"));
        }
        if self.style != Style::Picasso {
            self.line(0, ".raw");
        }
        if matches!(self.style, Style::Pinned | Style::Words) {
            for d in &self.shbin.opdescs {
                let extra = if d.extra == 0 { String::new() } else { format!(", 0x{:X}", d.extra) };
                self.line(0, &format!(".opdesc 0x{:08X}{extra}", d.word));
            }
        }
        let has_setemit = self.insts.iter().flatten().any(|i| matches!(i, Inst::Setemit(_)));
        match self.shbin.dvles.as_slice() {
            [only] if !(only.stage == Stage::Vertex && has_setemit) => {
                self.dvle(only);
                self.code();
            }
            [] => {
                self.line(0, ".entry 0 0 ; none in the program");
                self.code();
            }
            several => {
                // The code has no entry point of its own; each entry point is a file after it.
                self.line(0, ".nodvle");
                self.code();
                for dvle in several {
                    self.line(0, "");
                    self.line(0, ".file");
                    self.dvle(dvle);
                }
            }
        }
        self.out
    }

    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", depth * 4);
        if let Some((_, line)) = &mut self.here {
            *line = line.saturating_add(1);
        }
    }

    /// Writes a line marker for a word, if its place is another one than the text's.
    fn place(&mut self, pc: usize) {
        let Some((file, line)) = self.places.get(pc) else { return };
        if self.here != Some((file, *line)) {
            self.line(0, &format!("# {line} \"{}\"", file.replace(is_odd, "_")));
            self.here = Some((file, *line));
        }
    }

    fn code(&mut self) {
        let n = self.insts.len();
        let mut starts: Vec<usize> = self.procs.keys().copied().collect();
        starts.sort_unstable();
        let mut pc = 0;
        for start in starts {
            self.between(pc, start);
            let (len, name) = self.procs[&start].clone();
            self.wrapped(&name, start, start + len);
            pc = start + len;
        }
        self.between(pc, n);
        if self.labels.contains(&n) {
            self.line(0, &format!("l{n}:"));
        }
    }

    /// Words outside procedures.
    fn between(&mut self, start: usize, end: usize) {
        if start == end {
            return;
        }
        if self.style == Style::Picasso {
            self.wrapped(&format!("code{start}"), start, end);
        } else {
            self.region(start, end, 0);
        }
    }

    fn wrapped(&mut self, name: &str, start: usize, end: usize) {
        self.line(0, &format!(".proc {name}"));
        self.region(start, end, 1);
        self.line(0, ".end");
    }

    /// The words from `start` to `end`; scopes that end inside become blocks.
    fn region(&mut self, start: usize, end: usize, depth: usize) {
        let mut pc = start;
        while pc < end {
            if self.labels.contains(&pc) {
                self.line(0, &format!("l{pc}:"));
            }
            self.place(pc);
            let inside = depth < MAX_DEPTH;
            match self.insts[pc] {
                Some(Inst::If { test, target, len })
                    if inside && usize::from(target) > pc && usize::from(target) + usize::from(len) <= end =>
                {
                    let (target, len) = (usize::from(target), usize::from(len));
                    self.line(depth, &format!("if{}", test_text(test)));
                    self.region(pc + 1, target, depth + 1);
                    if len != 0 {
                        self.line(depth, ".else");
                        self.region(target, target + len, depth + 1);
                    }
                    self.line(depth, ".end");
                    pc = target + len;
                }
                Some(Inst::Loop { int, last }) if inside && usize::from(last) >= pc && usize::from(last) < end => {
                    self.line(depth, &format!("for i{int}"));
                    self.region(pc + 1, usize::from(last) + 1, depth + 1);
                    self.line(depth, ".end");
                    pc = usize::from(last) + 1;
                }
                _ => {
                    let text = self.statement(pc);
                    self.line(depth, &text);
                    pc += 1;
                }
            }
        }
    }

    fn statement(&self, pc: usize) -> String {
        let word = self.shbin.code[pc];
        let Some(inst) = self.insts[pc] else {
            let meaning = Inst::decode(word, self.opdesc_of(word).unwrap_or(0)).to_string();
            return format!(".word 0x{word:08X} ; {meaning}");
        };
        match inst {
            Inst::Jump { test, target } if self.labels.contains(&usize::from(target)) => {
                format!("jmp{}, l{target}", test_text(test))
            }
            Inst::Call { test, target, len } => match self.procs.get(&usize::from(target)) {
                Some((n, name)) if *n == usize::from(len) => match test {
                    None => format!("call {name}"),
                    Some(t) => format!("call{}, {name}", test_text(t)),
                },
                _ => inst.to_string(),
            },
            _ => match (self.style, Inst::opdesc_index(word), descriptor_of(&inst)) {
                (Style::Pinned, Some(index), Some((value, relevant)))
                    if self.table.find(value, relevant) != Some(usize::from(index)) =>
                {
                    format!("{inst} @{index}")
                }
                _ => inst.to_string(),
            },
        }
    }

    fn opdesc_of(&self, word: u32) -> Option<u32> {
        Some(self.shbin.opdescs.get(usize::from(Inst::opdesc_index(word)?))?.word)
    }

    /// Writes a table row.
    fn row(&mut self, text: &str) {
        self.line(0, &if self.rows { text.into() } else { format!("; {text}") });
    }

    fn dvle(&mut self, dvle: &Dvle) {
        if dvle.version != VERSION {
            self.row(&format!(".version 0x{:X}", dvle.version));
        }
        if dvle.stage == Stage::Geometry {
            self.line(0, &geometry(dvle));
        } else if dvle.geometry != GeometryMode::Point {
            self.line(0, &format!("; geometry mode {:02X?}", dvle.geometry.to_bytes()));
        }
        let input_mask = self.names(dvle);
        let output_mask = self.outputs(dvle);
        for (n, c) in dvle.constants.iter().enumerate() {
            let text = constant(c);
            let exists = usize::from(c.register()) < c.class().1;
            if exists && n < MAX_ROWS {
                self.row(&text);
            } else {
                self.line(0, &format!("; {text}"));
            }
        }
        for l in &dvle.labels {
            let (name, (id, position, unknown)) = (l.name.replace('.', "$"), (l.id, l.position, l.unknown));
            let size = l.size.map_or("-".into(), |n| n.to_string());
            if is_identifier(&name) && !l.name.contains('$') {
                self.row(&format!(".label {name} {id} {position} {size} {unknown}"));
            } else {
                self.line(0, &format!("; label {:?} {id} {position} {size} {unknown}", l.name));
            }
        }
        // Without rows the masks don't follow from them, so both are written.
        if !self.rows || (input_mask, output_mask) != (dvle.input_mask, dvle.output_mask) {
            self.line(0, &format!(".masks 0x{:04X}, 0x{:04X}", dvle.input_mask, dvle.output_mask));
        }
        let named =
            (self.procs.get(&(dvle.entry as usize))).filter(|(len, _)| dvle.entry as usize + len == dvle.end as usize);
        let text = match named {
            Some((_, name)) => format!(".entry {name}"),
            None => format!(".entry {} {}", dvle.entry, dvle.end),
        };
        self.line(0, &text);
    }

    /// Writes the uniform table; returns the input mask that follows from it.
    fn names(&mut self, dvle: &Dvle) -> u16 {
        let mut names = HashSet::new();
        let mut input_mask = 0;
        for u in &dvle.uniforms {
            let name = u.name.replace('.', "$");
            // The assembler turns a `$` of the name into a dot.
            let usable = is_identifier(&name) && !reads_like_a_register(&name) && !u.name.contains('$');
            let size = u32::from(u.last.saturating_sub(u.first)) + 1;
            let fits = u.last >= u.first && size <= 96 && names.len() < MAX_ROWS;
            match register_name(u.first) {
                Some(r) if usable && fits && names.insert(name.clone()) => {
                    if u.first < 16 && size == 1 {
                        input_mask |= 1 << u.first;
                        self.row(&format!(".in {name} {r}"));
                    } else {
                        let size = if size == 1 { String::new() } else { format!(" {size}") };
                        self.row(&format!(".bind {name} {r}{size}"));
                    }
                }
                _ => self.line(0, &format!("; name {:?} for 0x{:X} to 0x{:X}", u.name, u.first, u.last)),
            }
        }
        input_mask
    }

    /// Writes the output table; returns the output mask that follows from it.
    fn outputs(&mut self, dvle: &Dvle) -> u16 {
        let mut assigned = [0u16; 16];
        let mut output_mask = 0u16;
        let mut merges = false;
        for (n, o) in dvle.outputs.iter().enumerate() {
            let text = output(o, dvle, &assigned);
            if n >= MAX_OUTPUTS {
                self.line(0, &format!("; {text}"));
                continue;
            }
            assigned[usize::from(o.register & 15)] |= o.mask;
            output_mask |= 1 << (o.register & 15);
            merges |= dvle.stage == Stage::Geometry && o.semantic == DUMMY && text.starts_with(".out");
            self.row(&text);
        }
        if dvle.merge_outmaps && !merges {
            // In the language only a dummy output after `.gsh` with a mode expresses this.
            self.line(0, "; output maps are merged");
        }
        output_mask
    }
}

/// Whether a file name in quotes can't have the character.
fn is_odd(c: char) -> bool {
    matches!(c, '"' | ';' | ':') || c.is_control()
}

/// The statement that makes a file a geometry program, with the mode if the language can express
/// it.
fn geometry(dvle: &Dvle) -> String {
    // Merging needs a mode; point is also the mode of a file without one.
    let plain = if dvle.merge_outmaps { ".gsh point c0" } else { ".gsh" };
    match dvle.geometry {
        GeometryMode::Point => plain.into(),
        GeometryMode::Variable { main_vertices } => format!(".gsh variable c0 {main_vertices}"),
        // The file does not store the first free uniform; this is the lowest that the language
        // accepts.
        GeometryMode::Fixed { start, vertices } if start < 95 => {
            format!(".gsh fixed c{} c{start} {vertices}", u32::from(start) + 1)
        }
        GeometryMode::Fixed { start, vertices } => format!("{plain} ; fixed mode from c{start}, {vertices} vertices"),
        GeometryMode::Unknown { bytes } => format!("{plain} ; unknown mode {bytes:02X?}"),
    }
}

/// The statement for a constant, with the unused bits of float words in a comment after it.
fn constant(c: &Constant) -> String {
    match c {
        Constant::Bool { register, value } => format!(".setb b{register} {value}"),
        Constant::Int { register, value: [x, y, z, w] } => format!(".seti i{register}({x}, {y}, {z}, {w})"),
        Constant::Float { register, value } => {
            let [x, y, z, w] = value.map(|bits| format_f24(bits & 0xFF_FFFF));
            let text = format!(".setf c{register}({x}, {y}, {z}, {w})");
            match value.map(|bits| bits >> 24) {
                [0, 0, 0, 0] => text,
                [x, y, z, w] => format!("{text} ; high bytes 0x{x:02X}, 0x{y:02X}, 0x{z:02X}, 0x{w:02X}"),
            }
        }
    }
}

/// The statement for a row of the output table; earlier rows use the components in `assigned`.
fn output(o: &Output, dvle: &Dvle, assigned: &[u16; 16]) -> String {
    let property = PROPERTIES.iter().find(|p| p.2 == o.semantic);
    // A register above o7 is rejected, since picasso's collision test is undefined there.
    let limit = if dvle.stage == Stage::Geometry || o.semantic != DUMMY { 6 } else { 7 };
    // A dummy by name merges output maps if a mode is given.
    let merges = o.semantic == DUMMY && dvle.stage == Stage::Geometry && !dvle.merge_outmaps;
    match property {
        Some((name, ..))
            if o.unknown == 0
                && !merges
                && o.register <= limit
                && (1..16).contains(&o.mask)
                && assigned[usize::from(o.register)] & o.mask == 0 =>
        {
            let mask = (0..4).filter(|l| o.mask >> l & 1 != 0).fold(WriteMask::NONE, WriteMask::with);
            format!(".out - {name} o{}.{mask}", o.register)
        }
        _ => format!(".wire {}, {}, 0x{:X}, {}", o.semantic, o.register, o.mask, o.unknown),
    }
}

/// The instruction of `word` if it encodes to the same word.
fn faithful(word: u32, shbin: &Shbin) -> Option<Inst> {
    let index = Inst::opdesc_index(word);
    let opdesc = match index {
        Some(i) => shbin.opdescs.get(usize::from(i))?.word,
        None => 0,
    };
    let inst = Inst::decode(word, opdesc);
    let complete = !matches!(inst, Inst::Undefined { .. }) && inst.encode(index.unwrap_or(0)) == Ok(word);
    complete.then_some(inst)
}

/// The register of a number in the uniform table.
fn register_name(unified: u16) -> Option<String> {
    match unified {
        0x00..=0x0F => Some(format!("v{unified}")),
        0x10..=0x6F => Some(format!("c{}", unified - 0x10)),
        0x70..=0x73 => Some(format!("i{}", unified - 0x70)),
        0x78..=0x87 => Some(format!("b{}", unified - 0x78)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::shbin::Opdesc;

    /// Each style, with rows and without, has the entry points with their stages; rows are at least
    /// comments.
    #[test]
    fn every_style_has_the_entry_points() {
        let dvle = |stage, entry, n: u16| Dvle {
            stage,
            entry,
            end: entry + 1,
            input_mask: 2,
            output_mask: 1,
            geometry: GeometryMode::Point,
            constants: vec![Constant::Float { register: n, value: [0xFF3F_0000, 0, 0, 0] }],
            outputs: vec![Output { semantic: 0, register: 0, mask: 15, unknown: 0 }],
            ..Dvle::default()
        };
        let all = [dvle(Stage::Vertex, 0, 3), dvle(Stage::Geometry, 1, 4), dvle(Stage::Vertex, 1, 5)];
        for dvles in [&all[..], &all[..1], &all[1..2]] {
            let opdescs = vec![Opdesc { word: 0x0000_036F, extra: 0 }];
            let s = Shbin { code: vec![0x4C00_0000, 0x8800_0000], opdescs, dvles: dvles.into(), ..Shbin::default() };
            for style in [Style::Picasso, Style::Raw, Style::Pinned, Style::Words] {
                for rows in [true, false] {
                    let text = Writer::new(&s, style, rows).text();
                    let again = assemble(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).shbin;
                    assert!(same_program(&again, &s), "{text}");
                    for (a, d) in again.dvles.iter().zip(&s.dvles) {
                        assert_eq!((a.input_mask, a.output_mask), (d.input_mask, d.output_mask), "{text}");
                        assert_eq!(a.constants.len(), usize::from(rows), "{text}");
                        let said = format!(".setf c{}(1, 0, 0, 0) ; high bytes 0xFF,", d.constants[0].register());
                        assert!(text.contains(&said), "{text}");
                    }
                }
            }
        }
    }
}
