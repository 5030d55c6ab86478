//! Directive statements -> blocks, names, declarations, tables, and the raw forms beyond picasso.
//!
//! One function per family. Only `.word` emits code. Forms and limits: language notes, section 5.

use super::args::Args;
use super::context::{Assembler, EntryPoint, SharedUniform, number};
use super::declarations::{DUMMY, RegisterSpace};
use super::error::{AsmErrorKind, Fault, Parse, clip, expected, fault};
use super::lexer::identifier;
use super::limits::MAX_WARNINGS;
use super::operand::{Alias, Use, parse_components};
use super::registers::{BOOL, Class, FLOAT, reads_like_a_register};
use super::span::Span;
use super::symbols::SymbolKind;
use super::warning::WarningKind;
use crate::container::shbin::{GeometryMode, Label, Output};
use crate::isa::{Stage, WriteMask};

/// Output properties: long name, short name, and number in the output table.
pub const PROPERTIES: [(&str, &str, u16); 9] = [
    ("position", "pos", 0),
    ("normalquat", "nquat", 1),
    ("color", "clr", 2),
    ("texcoord0", "tcoord0", 3),
    ("texcoord0w", "tcoord0w", 4),
    ("texcoord1", "tcoord1", 5),
    ("texcoord2", "tcoord2", 6),
    ("view", "view", 8),
    ("dummy", "dummy", DUMMY),
];

impl<'s> Assembler<'s> {
    pub(super) fn directive(&mut self, head: Span<'s>, rest: Span<'s>) -> Parse<()> {
        let name = head.text.to_ascii_lowercase();
        let words = Args::new(rest.words(), rest);
        let owns = matches!(
            name.as_str(),
            ".fvec"
                | ".ivec"
                | ".bool"
                | ".constf"
                | ".consti"
                | ".setf"
                | ".seti"
                | ".setb"
                | ".in"
                | ".out"
                | ".entry"
                | ".nodvle"
                | ".gsh"
                | ".bind"
                | ".wire"
                | ".masks"
                | ".label"
                | ".version"
        );
        match name.as_str() {
            ".proc" => {
                let mut args = Args::new(rest.arguments(), rest);
                let name = args.next("a procedure name")?;
                args.done()?;
                self.trailing_comma(rest);
                self.open_proc(name, head)?;
            }
            ".else" => {
                words.done()?;
                self.else_block(head)?;
            }
            ".end" => {
                words.done()?;
                self.end_block(head)?;
            }
            ".alias" => self.alias(words)?,
            ".fvec" => self.uniforms(Class::Float, rest)?,
            ".ivec" => self.uniforms(Class::Int, rest)?,
            ".bool" => self.uniforms(Class::Bool, rest)?,
            ".constf" | ".consti" => self.constant(if name == ".constf" { Class::Float } else { Class::Int }, rest)?,
            ".constfa" => self.array(rest, head)?,
            ".setf" => self.set(Class::Float, rest)?,
            ".seti" => self.set(Class::Int, rest)?,
            ".setb" => self.set_bool(words)?,
            ".in" => self.input(words)?,
            ".out" => self.output(words)?,
            ".entry" => self.entry(words)?,
            ".nodvle" => {
                words.done()?;
                self.file.no_dvle = true;
            }
            ".gsh" => self.geometry(words, head)?,
            // The rest does not exist in picasso's language.
            ".raw" => {
                words.done()?;
                self.file.names.raw = true;
            }
            ".word" => self.words_as_they_are(head, rest)?,
            ".opdesc" => {
                let mut args = Args::new(rest.arguments(), rest);
                let word = number(args.next("a descriptor word")?)?;
                let extra = args.maybe().map(number).transpose()?.unwrap_or(0);
                args.done()?;
                self.opdescs.give(word, extra).map_err(|kind| Fault::new(head, kind))?;
            }
            ".bind" => self.bind(words)?,
            ".wire" => self.wire(rest)?,
            ".label" => self.label_row(words)?,
            ".version" => {
                let mut args = Args::new(rest.arguments(), rest);
                self.file.dvle.version = ranged(args.next("a version")?, "version", 0xFFFF)? as u16;
                args.done()?;
            }
            ".program" => self.program(rest)?,
            ".masks" => {
                let mut args = Args::new(rest.arguments(), rest);
                let input = ranged(args.next("an input mask")?, "mask", 0xFFFF)? as u16;
                let output = ranged(args.next("an output mask")?, "mask", 0xFFFF)? as u16;
                args.done()?;
                self.file.masks = Some((input, output));
            }
            _ => return fault(head, AsmErrorKind::UnknownDirective(clip(head.text))),
        }
        self.file.owns_dvle |= owns;
        let is_element = name == ".constfa" && rest.text.starts_with('(');
        let of_tables =
            matches!(name.as_str(), ".constf" | ".consti" | ".constfa" | ".setf" | ".seti" | ".setb" | ".entry");
        if of_tables && !is_element && self.file.of_tables.len() < MAX_WARNINGS {
            self.file.of_tables.push((self.site, head.at, head.text));
        }
        Ok(())
    }

    /// The program's version, and the names of its source files in quotes.
    fn program(&mut self, rest: Span<'s>) -> Parse<()> {
        let (version, mut rest) = rest.word();
        let version = number(version)?;
        let mut names = Vec::new();
        while !rest.trim().is_empty() {
            let name = rest.trim().strip('"').and_then(|name| name.cut('"'));
            let Some((name, tail)) = name else { return expected("a file name in quotes", rest.trim()) };
            names.push(name.text);
            rest = tail;
        }
        self.program = (version, names);
        Ok(())
    }

    fn alias(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name")?;
        identifier(name)?;
        if reads_like_a_register(name.text) {
            return fault(name, AsmErrorKind::ReservedName(clip(name.text)));
        }
        let o = self.register(words.next("a register or alias")?)?;
        words.done()?;
        if o.no_components {
            return fault(o.span, AsmErrorKind::BadSwizzle("_".into()));
        }
        let alias = Alias { reg: o.reg, components: o.components, negate: o.negate, letter: o.letter };
        self.define(name, alias, SymbolKind::Alias, 1)
    }

    fn uniforms(&mut self, class: Class, rest: Span<'s>) -> Parse<()> {
        self.trailing_comma(rest);
        for arg in rest.arguments() {
            let (name, size, rest) = match arg.cut('[') {
                Some((name, tail)) => {
                    let Some((size, rest)) = tail.cut(']') else { return expected("`]`", tail.skip(tail.text.len())) };
                    (name, self.array_size(size.trim())?, rest.trim())
                }
                None => {
                    let (name, rest) = arg.word();
                    (name, 1, rest.trim())
                }
            };
            let fixed = class.register(rest.text);
            if fixed.is_none() && name.text.len() < arg.text.len() && !arg.text.contains('[') {
                // Only a register may follow.
                identifier(arg)?;
            }
            if fixed.is_none() {
                self.file.names.ignored(rest);
            }
            self.name(name)?;
            let at = |kind| Fault::new(name, kind);
            if self.file.names.is_defined(name.text) {
                return fault(name, AsmErrorKind::Duplicate { what: "alias", name: clip(name.text) });
            }
            if self.file.space.is_some() && self.shared.is_full() {
                // picasso counts a declaration before it determines the register space.
                return Err(at(self.shared.full()));
            }
            let register = match fixed {
                Some(first) => {
                    let at = |kind| Fault::new(rest, kind);
                    self.space().fixed_uniform(class, name.text, size, first).map_err(at)?
                }
                None => self.space().uniform(class, name.text, size).map_err(at)?,
            };
            self.define(name, Alias::register(register + class.base()), SymbolKind::Uniform, size)?;
            if self.file.space.is_none()
                && let Some(record) = &mut self.record
            {
                record.share(name);
            }
            if name.text.starts_with('_') {
                self.file.hidden_shared |= self.file.space.is_none();
                continue;
            }
            self.file.dvle.name(name.text, register + class.base(), size).map_err(at)?;
            if self.file.space.is_none() {
                self.declared.push(SharedUniform { name: name.text.into(), register, size, class });
            }
        }
        Ok(())
    }

    fn input(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name")?;
        identifier(name)?;
        let given = match words.maybe() {
            Some(span) => {
                let operand = self.register(span)?;
                self.file.names.note_use(&operand, Use::Read);
                Some(operand.number_in(0, 16, "a v register")?)
            }
            None => None,
        };
        words.done()?;
        let at = |kind| Fault::new(name, kind);
        let register = u32::from(self.file.dvle.input(given).map_err(at)?);
        self.define(name, Alias::of('v', register), SymbolKind::Input, 1)?;
        self.file.dvle.name(name.text, register, 1).map_err(at)
    }

    fn output(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name or `-`")?;
        if name.text != "-" {
            identifier(name)?;
        }
        let property = words.next("an output property")?;
        let (word, components) = property.cut('.').map_or((property, None), |(w, c)| (w, Some(c)));
        let Some(&(_, _, semantic)) = PROPERTIES.iter().find(|(long, short, _)| word.is(long) || word.is(short)) else {
            return fault(word, AsmErrorKind::UnknownProperty(clip(word.text)));
        };
        let (register, mask) = match (words.maybe(), components) {
            (Some(_), Some(c)) => return expected("no components, since a register follows", c),
            (Some(span), None) => {
                let operand = self.register(span)?;
                self.file.names.note_order(&operand);
                self.file.names.note_use(&operand, Use::Write);
                (Some(operand.number_in(0, 16, "an o register")?), operand.mask())
            }
            (None, None) => (None, WriteMask::ALL),
            (None, Some(c)) => {
                let chosen = parse_components(c)?;
                if c.is_empty() {
                    self.warn(property, WarningKind::NoComponents(clip(property.text)));
                }
                if !chosen.is_sorted() {
                    self.warn(property, WarningKind::MaskOrder(clip(property.text)));
                }
                (None, chosen.iter().fold(WriteMask::NONE, |m, &l| m.with(usize::from(l))))
            }
        };
        words.done()?;
        let at = |kind| Fault::new(property, kind);
        let register = self.file.dvle.output(semantic, register, mask.component_bits()).map_err(at)?;
        if name.text == "-" {
            return Ok(());
        }
        self.define(name, Alias::of('o', register.into()), SymbolKind::Output, 1)
    }

    fn entry(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a procedure name")?;
        self.file.entry = if name.text.starts_with(|c: char| c.is_ascii_digit()) {
            let end = words.maybe().map(number).transpose()?.unwrap_or(0);
            EntryPoint::Words(number(name)?, end)
        } else {
            identifier(name)?;
            EntryPoint::Named(name, self.site)
        };
        words.done()
    }

    fn geometry(&mut self, mut words: Args<'s>, head: Span<'s>) -> Parse<()> {
        let Some(mode) = words.maybe() else {
            if self.file.dvle.has_mode {
                self.warn(head, WarningKind::ModeDropped);
            }
            self.implied_geometry();
            return Ok(());
        };
        if self.file.gsh_seen || !self.file.dvle.is_fresh() {
            return fault(head, AsmErrorKind::GshLate);
        }
        let float = |asm: &mut Self, words: &mut Args<'s>| {
            let span = words.next("a c register")?;
            asm.register(span)?.number_in(FLOAT, 96, "a c register").map(|n| (n, span))
        };
        let (first, _) = float(self, &mut words)?;
        let count = |asm: &mut Self, words: &mut Args<'s>| {
            asm.literal(words.next("a number of vertices")?, "number of vertices", 255)
        };
        self.file.dvle.geometry = if mode.is("point") {
            GeometryMode::Point
        } else if mode.is("variable") || mode.is("subdivision") {
            GeometryMode::Variable { main_vertices: count(self, &mut words)? }
        } else if mode.is("fixed") || mode.is("particle") {
            let (start, span) = float(self, &mut words)?;
            if start >= first {
                let (max, found) = (i64::from(first) - 1, i64::from(start));
                return fault(span, AsmErrorKind::ValueRange { what: "start register", min: 0, max, found });
            }
            GeometryMode::Fixed { start, vertices: count(self, &mut words)? }
        } else {
            return expected("point, variable or fixed", mode);
        };
        words.done()?;
        if self.file.hidden_shared {
            self.warn(head, WarningKind::HiddenBeforeGsh);
        }
        self.file.gsh_seen = true;
        self.file.names.geometry = true;
        self.file.dvle.stage = Stage::Geometry;
        self.file.dvle.has_mode = true;
        self.file.space = Some(RegisterSpace::geometry(first.into()));
        Ok(())
    }

    fn words_as_they_are(&mut self, head: Span<'s>, rest: Span<'s>) -> Parse<()> {
        let list = rest.arguments();
        if list.is_empty() {
            return expected("a code word", rest);
        }
        for arg in list {
            let word = number(arg)?;
            self.begin_instruction(head)?;
            self.emit(word, true, arg)?;
        }
        Ok(())
    }

    /// `.bind NAME REG [SIZE]`: a row of the uniform table for registers that are not allocated,
    /// and an alias.
    fn bind(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name")?;
        identifier(name)?;
        let span = words.next("a register")?;
        let operand = self.register(span)?;
        let size = match words.maybe() {
            Some(size) => self.array_size(size)?,
            None => 1,
        };
        words.done()?;
        // v0-v15 and all registers from c0 on: the uniform table has no r registers.
        if operand.number_in(0, 16, "").is_err() {
            operand.number_in(FLOAT, BOOL + 16 - FLOAT, "a v, c, i or b register")?;
        }
        let letter = operand.letter;
        self.define(name, Alias { letter, ..Alias::register(operand.reg) }, SymbolKind::Bound, size)?;
        self.file.dvle.name(name.text, operand.reg, size).map_err(|kind| Fault::new(name, kind))
    }

    /// `.label NAME ID POSITION SIZE UNKNOWN`: a row of the label table; `-` for no size.
    fn label_row(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = identifier(words.next("a name")?)?.replace('$', ".");
        let id = ranged(words.next("a label's number")?, "label", 0xFFFF)? as u16;
        let position = number(words.next("a position in words")?)?;
        let size = words.next("a size in words or `-`")?;
        let size = if size.text == "-" { None } else { Some(ranged(size, "size", u32::MAX - 1)?) };
        let unknown = ranged(words.next("the last field")?, "field", 0xFFFF)? as u16;
        words.done()?;
        self.file.dvle.labels.push(Label { id, unknown, position, size, name });
        Ok(())
    }

    /// `.wire TYPE, REGISTER, MASK [, UNKNOWN]`: a row of the output table, by number.
    fn wire(&mut self, rest: Span<'s>) -> Parse<()> {
        let mut args = Args::new(rest.arguments(), rest);
        let mut field = |what| ranged(args.next(what)?, what, 0xFFFF).map(|n| n as u16);
        let (semantic, register, mask) = (field("an output type")?, field("an output number")?, field("a mask")?);
        let unknown = args.maybe().map(|s| ranged(s, "field", 0xFFFF)).transpose()?.unwrap_or(0) as u16;
        args.done()?;
        let row = Output { semantic, register, mask, unknown };
        self.file.dvle.raw_output(row).map_err(|kind| Fault::new(rest, kind))
    }
}

/// A number from 0 to `max`.
fn ranged(span: Span<'_>, what: &'static str, max: u32) -> Parse<u32> {
    let value = number(span)?;
    if value > max {
        let (max, found) = (max.into(), value.into());
        return fault(span, AsmErrorKind::ValueRange { what, min: 0, max, found });
    }
    Ok(value)
}
