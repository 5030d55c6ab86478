//! Directive statements: blocks, names, declarations, tables, and the raw forms beyond picasso.
//!
//! One function per family. Registers come from `layout`, operands from `operand`; a directive never emits code except
//! `.word`. Forms and limits: language notes, section 5. It must not know instruction encodings.

use super::asm::{Assembler, Block, EntryPoint, SharedUniform, number};
use super::error::{AsmErrorKind, Fault, Parse, clip, expected, fault};
use super::inst::Args;
use super::layout::{Class, DUMMY, Space};
use super::lexer::{Span, is_identifier};
use super::operand::{Alias, BOOL, FLOAT, INT, Operand, Use, lanes, reads_like_a_register};
use super::value::{f24_from_f32, prefix_f64};
use super::warning::WarningKind;
use crate::container::shbin::{Constant, GeometryMode, Label, Output};
use crate::isa::{Stage, WriteMask};

/// Names of output properties and their numbers in the output table; the first of two names is the long one.
pub(super) const PROPERTIES: [(&str, &str, u16); 9] = [
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

/// Registers one uniform or array may span; no class has more.
const MAX_SIZE: i64 = 96;

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
            // What follows does not exist in picasso's language.
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
                self.opdescs.give(word, extra).map_err(|kind| Fault { at: head.at, kind })?;
            }
            ".bind" => self.bind(words)?,
            ".wire" => self.wire(rest)?,
            ".label" => self.label_row(words)?,
            ".version" => {
                let mut args = Args::new(rest.arguments(), rest);
                self.file.dvle.version = ranged(args.next("a version")?, "version", 0xFFFF)? as u16;
                args.done()?;
            }
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
        Ok(())
    }

    fn alias(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name")?;
        name.identifier()?;
        if reads_like_a_register(name.text) {
            return fault(name, AsmErrorKind::ReservedName(clip(name.text)));
        }
        let o = self.register(words.next("a register or alias")?)?;
        words.done()?;
        if o.no_lanes {
            return fault(o.span, AsmErrorKind::BadSwizzle("_".into()));
        }
        self.file.names.define(name, Alias { reg: o.reg, lanes: o.lanes, negate: o.negate, letter: o.letter })
    }

    /// An operand without index register.
    fn register(&mut self, span: Span<'s>) -> Parse<Operand<'s>> {
        self.file.names.operand(span, false)
    }

    fn space(&mut self) -> &mut Space<'s> {
        self.file.space.as_mut().unwrap_or(&mut self.shared)
    }

    /// A name that may be empty, which picasso does not mind.
    pub(super) fn name(&mut self, name: Span<'s>) -> Parse<()> {
        if name.is_empty() {
            self.warn(name, WarningKind::EmptyName);
            return Ok(());
        }
        name.identifier().map(|_| ())
    }

    fn uniforms(&mut self, class: Class, rest: Span<'s>) -> Parse<()> {
        self.trailing_comma(rest);
        for arg in rest.arguments() {
            let (name, size) = match arg.cut('[') {
                Some((name, tail)) => {
                    let Some((size, junk)) = tail.cut(']') else { return expected("`]`", tail.skip(tail.text.len())) };
                    self.file.names.ignored(junk);
                    (name, self.array_size(size.trim())?)
                }
                None => (arg, 1),
            };
            self.name(name)?;
            let at = |kind| Fault { at: name.at, kind };
            if self.file.names.is_defined(name.text) {
                return fault(name, AsmErrorKind::Duplicate { what: "alias", name: clip(name.text) });
            }
            if self.file.space.is_some() && self.shared.is_full() {
                // picasso counts before it looks whose registers these are.
                return Err(at(self.shared.full()));
            }
            let register = self.space().uniform(class, name.text, size).map_err(at)?;
            self.file.names.define(name, Alias::register(register + class.base()))?;
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

    /// The size of an array, 1 to 96; decimal like every number in brackets.
    fn array_size(&mut self, span: Span<'s>) -> Parse<u32> {
        match self.file.names.decimal(span) {
            size @ 1..=MAX_SIZE => Ok(size as u32),
            found => fault(span, AsmErrorKind::ValueRange { what: "size", min: 1, max: MAX_SIZE, found }),
        }
    }

    /// `(x, y, z, w)`, possibly behind a name: the name and the four values' texts.
    fn vector(&mut self, rest: Span<'s>) -> Parse<(Span<'s>, [Span<'s>; 4])> {
        let Some((name, tail)) = rest.cut('(') else { return expected("`(x, y, z, w)`", rest.skip(rest.text.len())) };
        let Some((inside, junk)) = tail.cut(')') else { return expected("`)`", tail.skip(tail.text.len())) };
        let values = inside.arguments();
        let Some(&four) = values.first_chunk::<4>() else {
            return expected("four values", inside);
        };
        if let Some(&fifth) = values.get(4) {
            let more = inside.skip(fifth.at - inside.at);
            self.warn(more, WarningKind::Ignored(clip(more.text)));
        }
        self.file.names.ignored(junk);
        Ok((name.trim(), four))
    }

    fn floats(&mut self, texts: [Span<'s>; 4]) -> Parse<[u32; 4]> {
        let mut out = [0; 4];
        for (slot, span) in out.iter_mut().zip(texts) {
            *slot = match span.text.strip_prefix("f24#") {
                Some(hex) => match u32::from_str_radix(hex, 16) {
                    Ok(bits) if bits < 1 << 24 => bits,
                    _ => return expected("six hex digits behind f24#", span),
                },
                None => {
                    let (value, len) = prefix_f64(span.text).unwrap_or((0.0, 0));
                    if len == 0 {
                        self.warn(span, WarningKind::NotANumber(clip(span.text)));
                    } else {
                        self.file.names.ignored(span.skip(len));
                    }
                    // Text to f64 to f32 to float24, each step as picasso takes it.
                    f24_from_f32(value as f32)
                }
            };
        }
        Ok(out)
    }

    fn ints(&mut self, texts: [Span<'s>; 4]) -> [u8; 4] {
        texts.map(|span| self.file.names.decimal(span) as u8)
    }

    fn constant_value(&mut self, class: Class, register: u32, texts: [Span<'s>; 4]) -> Parse<Constant> {
        let register = register as u16;
        Ok(match class {
            Class::Float => Constant::Float { register, value: self.floats(texts)? },
            _ => Constant::Int { register, value: self.ints(texts) },
        })
    }

    fn constant(&mut self, class: Class, rest: Span<'s>) -> Parse<()> {
        let (name, texts) = self.vector(rest)?;
        if name.is_empty() {
            self.warn(name, WarningKind::EmptyName);
        } else if !is_identifier(name.text) {
            self.warn(name, WarningKind::UnusableName(clip(name.text)));
        }
        let at = |kind| Fault { at: name.at, kind };
        let register = self.space().constant(class, 1).map_err(at)?;
        self.file.names.define(name, Alias::register(register + class.base()))?;
        let constant = self.constant_value(class, register, texts)?;
        self.file.dvle.constant(constant).map_err(at)
    }

    fn array(&mut self, rest: Span<'s>, head: Span<'s>) -> Parse<()> {
        if rest.text.starts_with('(') {
            let (_, texts) = self.vector(rest)?;
            let vector = self.floats(texts)?;
            let Some((Block::Array { size, values, .. }, _)) = self.file.blocks.last_mut() else {
                return expected("an open array `.constfa NAME[]`", rest);
            };
            let size = size.unwrap_or(MAX_SIZE as u32);
            if values.len() >= size as usize {
                return fault(rest, AsmErrorKind::ArrayTooLong { size });
            }
            values.push(vector);
            return Ok(());
        }
        let Some((name, tail)) = rest.cut('[') else { return expected("NAME[], NAME[SIZE] or (x, y, z, w)", rest) };
        self.name(name)?;
        let Some((size, junk)) = tail.cut(']') else { return expected("`]`", tail.skip(tail.text.len())) };
        self.file.names.ignored(junk);
        let size = size.trim();
        let size = if size.is_empty() { None } else { Some(self.array_size(size)?) };
        self.open(Block::Array { name, size, values: Vec::new() }, head)
    }

    pub(super) fn end_array(&mut self, block: Block<'s>, head: Span<'s>) -> Parse<()> {
        let Block::Array { name, size, values } = block else { unreachable!("called for arrays only") };
        // The name is in an earlier line; this line's `.end` is where the array is placed.
        let at = |kind| Fault { at: head.at, kind };
        let count = size.unwrap_or(values.len() as u32);
        if count == 0 {
            return fault(head, AsmErrorKind::EmptyArray);
        }
        let first = self.space().constant(Class::Float, count).map_err(at)?;
        let name = Span { text: name.text, at: head.at };
        self.file.names.define(name, Alias::register(first + FLOAT))?;
        for n in 0..count {
            let value = values.get(n as usize).copied().unwrap_or_default();
            let constant = Constant::Float { register: (first + n) as u16, value };
            self.file.dvle.constant(constant).map_err(at)?;
        }
        self.file.owns_dvle = true;
        Ok(())
    }

    fn set(&mut self, class: Class, rest: Span<'s>) -> Parse<()> {
        let (target, texts) = self.vector(rest)?;
        let operand = self.register(target)?;
        let register = match class {
            Class::Float => operand.number_in(FLOAT, 96, "a c register")?,
            _ => operand.number_in(INT, 4, "an i register (i0 to i3)")?,
        };
        let constant = self.constant_value(class, register.into(), texts)?;
        self.file.dvle.constant(constant).map_err(|kind| Fault { at: target.at, kind })
    }

    fn set_bool(&mut self, mut words: Args<'s>) -> Parse<()> {
        let target = words.next("a b register")?;
        let register = self.register(target)?.number_in(BOOL, 16, "a b register")?.into();
        let word = words.next("true or false")?;
        words.done()?;
        let value = if ["true", "on", "1"].iter().any(|w| word.is(w)) {
            true
        } else if ["false", "off", "0"].iter().any(|w| word.is(w)) {
            false
        } else {
            return expected("true or false", word);
        };
        self.file.dvle.constant(Constant::Bool { register, value }).map_err(|kind| Fault { at: target.at, kind })
    }

    fn input(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name")?;
        name.identifier()?;
        let given = match words.maybe() {
            Some(span) => {
                let operand = self.register(span)?;
                self.file.names.note_use(&operand, Use::Read);
                Some(operand.number_in(0, 16, "a v register")?)
            }
            None => None,
        };
        words.done()?;
        let at = |kind| Fault { at: name.at, kind };
        let register = u32::from(self.file.dvle.input(given).map_err(at)?);
        self.file.names.define(name, Alias::of('v', register))?;
        self.file.dvle.name(name.text, register, 1).map_err(at)
    }

    fn output(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name or `-`")?;
        if name.text != "-" {
            name.identifier()?;
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
                let lanes = lanes(c)?;
                if c.is_empty() {
                    self.warn(property, WarningKind::NoComponents(clip(property.text)));
                }
                if !lanes.is_sorted() {
                    self.warn(property, WarningKind::MaskOrder(clip(property.text)));
                }
                (None, lanes.iter().fold(WriteMask::NONE, |m, &l| m.with(usize::from(l))))
            }
        };
        words.done()?;
        let at = |kind| Fault { at: property.at, kind };
        let register = self.file.dvle.output(semantic, register, mask.lane_bits()).map_err(at)?;
        if name.text == "-" { Ok(()) } else { self.file.names.define(name, Alias::of('o', register.into())) }
    }

    fn entry(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a procedure name")?;
        self.file.entry = if name.text.starts_with(|c: char| c.is_ascii_digit()) {
            let end = words.maybe().map(number).transpose()?.unwrap_or(0);
            EntryPoint::Words(number(name)?, end)
        } else {
            name.identifier()?;
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
        self.file.space = Some(Space::geometry(first.into()));
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

    /// `.bind NAME REG [SIZE]`: a row of the uniform table for registers that are not allocated, and an alias.
    fn bind(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name")?;
        name.identifier()?;
        let span = words.next("a register")?;
        let operand = self.register(span)?;
        let size = match words.maybe() {
            Some(size) => self.array_size(size)?,
            None => 1,
        };
        words.done()?;
        // v0-v15 and everything from c0 on: the uniform table knows no r registers.
        if operand.number_in(0, 16, "").is_err() {
            operand.number_in(FLOAT, BOOL + 16 - FLOAT, "a v, c, i or b register")?;
        }
        let letter = operand.letter;
        self.file.names.define(name, Alias { letter, ..Alias::register(operand.reg) })?;
        self.file.dvle.name(name.text, operand.reg, size).map_err(|kind| Fault { at: name.at, kind })
    }

    /// `.label NAME ID POSITION SIZE UNKNOWN`: a row of the label table; `-` for no size.
    fn label_row(&mut self, mut words: Args<'s>) -> Parse<()> {
        let name = words.next("a name")?.identifier()?.replace('$', ".");
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
        self.file.dvle.raw_output(row).map_err(|kind| Fault { at: rest.at, kind })
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
