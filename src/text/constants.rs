//! `.constf .consti .constfa .setf .seti .setb` -> registers and rows of the constant table.

use super::args::Args;
use super::context::{Assembler, Block};
use super::error::{AsmErrorKind, Fault, Parse, clip, expected, fault};
use super::limits::MAX_SIZE;
use super::literal::{f24_from_f32, prefix_f64};
use super::operand::Alias;
use super::registers::{BOOL, Class, FLOAT, INT};
use super::span::Span;
use super::span::is_identifier;
use super::symbols::SymbolKind;
use super::warning::WarningKind;
use crate::container::shbin::Constant;

impl<'s> Assembler<'s> {
    /// `(x, y, z, w)`, possibly after a name: the name and the texts of the four values.
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
                    _ => return expected("six hex digits after f24#", span),
                },
                None => {
                    let (value, len) = prefix_f64(span.text).unwrap_or((0.0, 0));
                    if len == 0 {
                        self.warn(span, WarningKind::NotANumber(clip(span.text)));
                    } else {
                        self.file.names.ignored(span.skip(len));
                    }
                    // Text to f64 to f32 to float24: picasso's steps, each of which rounds.
                    f24_from_f32(value as f32)
                }
            };
        }
        Ok(out)
    }

    fn ints(&mut self, texts: [Span<'s>; 4]) -> [u8; 4] {
        texts.map(|span| {
            let value = self.file.names.decimal(span);
            // A negative byte is a step backwards.
            if !(-128..=255).contains(&value) {
                self.warn(span, WarningKind::LowByte { value, stored: value as u8 });
            }
            value as u8
        })
    }

    fn constant_value(&mut self, class: Class, register: u32, texts: [Span<'s>; 4]) -> Parse<Constant> {
        let register = register as u16;
        Ok(match class {
            Class::Float => Constant::Float { register, value: self.floats(texts)? },
            _ => Constant::Int { register, value: self.ints(texts) },
        })
    }

    pub(super) fn constant(&mut self, class: Class, rest: Span<'s>) -> Parse<()> {
        let (name, texts) = self.vector(rest)?;
        if name.is_empty() {
            self.warn(name, WarningKind::EmptyName);
        } else if !is_identifier(name.text) {
            self.warn(name, WarningKind::UnusableName(clip(name.text)));
        }
        let at = |kind| Fault::new(name, kind);
        let register = self.space().constant(class, 1).map_err(at)?;
        self.define(name, Alias::register(register + class.base()), SymbolKind::Constant, 1)?;
        let constant = self.constant_value(class, register, texts)?;
        self.file.dvle.constant(constant).map_err(at)
    }

    pub(super) fn array(&mut self, rest: Span<'s>, head: Span<'s>) -> Parse<()> {
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
        let line = self.line_number();
        self.open(Block::Array { name, line, size, values: Vec::new() }, head)
    }

    pub(super) fn end_array(&mut self, block: Block<'s>, head: Span<'s>) -> Parse<()> {
        let Block::Array { name, line, size, values } = block else { unreachable!("called for arrays only") };
        // `.end` allocates the array, so an error is shown there; the name is in an earlier line.
        let at = |kind| Fault::new(head, kind);
        let count = size.unwrap_or(values.len() as u32);
        if count == 0 {
            if let Some(record) = &mut self.record {
                // Its uses are no errors.
                record.define_alias(SymbolKind::Constant, name, line, Alias::register(FLOAT), 1);
                let _ = self.file.names.define(name, Alias::register(FLOAT));
            }
            return fault(head, AsmErrorKind::EmptyArray);
        }
        let first = self.space().constant(Class::Float, count).map_err(at)?;
        let alias = Alias::register(first + FLOAT);
        if let Some(record) = &mut self.record {
            record.define_alias(SymbolKind::Constant, name, line, alias, count);
        }
        self.file.names.define(Span { text: name.text, at: head.at }, alias)?;
        for n in 0..count {
            let value = values.get(n as usize).copied().unwrap_or_default();
            let constant = Constant::Float { register: (first + n) as u16, value };
            self.file.dvle.constant(constant).map_err(at)?;
        }
        self.file.owns_dvle = true;
        Ok(())
    }

    pub(super) fn set(&mut self, class: Class, rest: Span<'s>) -> Parse<()> {
        let (target, texts) = self.vector(rest)?;
        let operand = self.register(target)?;
        let register = match class {
            Class::Float => operand.number_in(FLOAT, 96, "a c register")?,
            _ => operand.number_in(INT, 4, "an i register (i0 to i3)")?,
        };
        let constant = self.constant_value(class, register.into(), texts)?;
        self.file.dvle.constant(constant).map_err(|kind| Fault::new(target, kind))
    }

    pub(super) fn set_bool(&mut self, mut words: Args<'s>) -> Parse<()> {
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
        self.file.dvle.constant(Constant::Bool { register, value }).map_err(|kind| Fault::new(target, kind))
    }
}
