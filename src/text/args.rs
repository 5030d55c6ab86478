//! A statement's text after its head word -> arguments; and the kinds of argument that several
//! statements have in common.

use super::context::Assembler;
use super::error::{AsmErrorKind, Parse, clip, expected, fault};
use super::lexer::identifier;
use super::limits::MAX_SIZE;
use super::literal::signed_c_number;
use super::operand::Operand;
use super::span::Span;
use super::warning::WarningKind;

/// An iterator over arguments that reports a missing or a surplus one.
pub(super) struct Args<'s> {
    list: Vec<Span<'s>>,
    next: usize,
    end: Span<'s>,
}

impl<'s> Args<'s> {
    pub(super) fn new(list: Vec<Span<'s>>, rest: Span<'s>) -> Args<'s> {
        Args { list, next: 0, end: rest.skip(rest.text.len()) }
    }
    pub(super) fn next(&mut self, what: &'static str) -> Parse<Span<'s>> {
        match self.maybe() {
            Some(arg) if !arg.is_empty() => Ok(arg),
            // An empty argument ends at a comma.
            Some(arg) => fault(arg, AsmErrorKind::Expected { what, found: ",".into() }),
            None => self.missing(what),
        }
    }
    /// An argument is missing: at the end, unless two words have no comma between them.
    fn missing<T>(&self, what: &'static str) -> Parse<T> {
        // Conditions and bracketed offsets may have blanks.
        let plain = |arg: &&Span<'s>| !arg.text.contains(['&', '|', '[']);
        let second = self.list.iter().filter(plain).map(|arg| arg.word().1.trim()).find(|rest| !rest.is_empty());
        match second {
            Some(rest) => {
                let (word, _) = rest.word();
                fault(word, AsmErrorKind::MissingComma { before: clip(word.text) })
            }
            None => expected(what, self.end),
        }
    }
    /// A name, which may be empty where arguments are separated by commas.
    pub(super) fn name(&mut self, what: &'static str) -> Parse<Span<'s>> {
        self.maybe().map_or_else(|| expected(what, self.end), Ok)
    }
    pub(super) fn maybe(&mut self) -> Option<Span<'s>> {
        let arg = self.list.get(self.next).copied();
        self.next += 1;
        arg
    }
    pub(super) fn done(&self) -> Parse<()> {
        match self.list.get(self.next) {
            Some(&extra) => fault(extra, AsmErrorKind::TooManyArguments(clip(extra.text))),
            None => Ok(()),
        }
    }
}

impl<'s> Assembler<'s> {
    /// Warns about a comma after the last argument, which has no meaning.
    pub(super) fn trailing_comma(&mut self, rest: Span<'s>) {
        if rest.text.ends_with(',') {
            let comma = rest.skip(rest.text.len() - 1);
            self.warn(comma, WarningKind::Ignored(",".into()));
        }
    }

    /// Checks a name. It may be empty, as in picasso.
    pub(super) fn name(&mut self, name: Span<'s>) -> Parse<()> {
        if name.is_empty() {
            self.warn(name, WarningKind::EmptyName);
            return Ok(());
        }
        identifier(name).map(|_| ())
    }

    /// An operand without index register.
    pub(super) fn register(&mut self, span: Span<'s>) -> Parse<Operand<'s>> {
        self.file.names.operand(span, false)
    }

    /// A number from 0 to `max` as a C literal; text after it is ignored.
    pub(super) fn literal(&mut self, arg: Span<'s>, what: &'static str, max: u8) -> Parse<u8> {
        let Some((value, len)) = signed_c_number(arg.text) else { return expected("a number", arg) };
        match u8::try_from(value) {
            Ok(number) if number <= max => {
                self.file.names.ignored(arg.skip(len));
                Ok(number)
            }
            _ => fault(arg, AsmErrorKind::ValueRange { what, min: 0, max: max.into(), found: value }),
        }
    }

    /// The size of an array, 1 to 96; decimal like every number in brackets.
    pub(super) fn array_size(&mut self, span: Span<'s>) -> Parse<u32> {
        match self.file.names.decimal(span) {
            size @ 1..=MAX_SIZE => Ok(size as u32),
            found => fault(span, AsmErrorKind::ValueRange { what: "size", min: 1, max: MAX_SIZE, found }),
        }
    }
}
