//! Operand text -> register number, index, selector, sign; conditions; and the aliases that
//! operands may name.
//!
//! Registers are numbers of the space in `registers`. An offset is added without regard to the
//! class (`r15[1]` is c0); each use checks the final number only. Language notes, sections 4 and
//! 13.

use super::error::{AsmErrorKind, Parse, clip, expected, fault};
use super::literal::{c_number, decimal_prefix};
use super::registers::{BOOL, FLOAT, INT, TEMP, reads_like_a_register, register_name};
use super::span::{Span, is_space};
use super::warning::WarningKind;
use crate::isa::{Cond, CondOp, DstReg, Index, Src, SrcReg, Swizzle, WriteMask};
use std::collections::HashMap;

/// The register that a name stands for, with selector and sign.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alias {
    pub reg: u32,
    pub components: [u8; 4],
    pub negate: bool,
    /// The letter of its definition, if known: the number alone does not distinguish `o` from `v`.
    pub letter: Option<char>,
}

impl Alias {
    pub(super) fn register(reg: u32) -> Alias {
        Alias { reg, components: [0, 1, 2, 3], negate: false, letter: None }
    }
    pub(super) fn of(letter: char, reg: u32) -> Alias {
        Alias { letter: Some(letter), ..Alias::register(reg) }
    }
}

/// The access to an `o` or `v` register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

/// An operand as written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'s> {
    /// Number in the common space; offsets can carry it beyond every class.
    pub reg: u32,
    pub index: Index,
    pub components: [u8; 4],
    pub negate: bool,
    /// The components are `_`: the empty set.
    pub no_components: bool,
    /// The register's letter, as in [`Alias`].
    pub letter: Option<char>,
    pub span: Span<'s>,
}

impl Operand<'_> {
    fn class_error<T>(&self, what: &'static str) -> Parse<T> {
        fault(self.span, AsmErrorKind::WrongClass { expected: what, found: clip(self.span.text) })
    }

    /// The operand as a source.
    pub(super) fn src(&self) -> Parse<Src> {
        if self.no_components {
            return fault(self.span, AsmErrorKind::BadSwizzle("_".into()));
        }
        if self.reg >= INT {
            return self.class_error("a v, r or c register");
        }
        Ok(Src {
            reg: SrcReg::new(self.reg as u8),
            index: self.index,
            swizzle: Swizzle::from_components(self.components),
            negate: self.negate,
        })
    }

    /// The components as a set.
    pub(super) fn mask(&self) -> WriteMask {
        if self.no_components {
            return WriteMask::NONE;
        }
        self.components.iter().fold(WriteMask::NONE, |m, &l| m.with(usize::from(l)))
    }

    /// The number within a class of `count` registers from `first` on.
    pub(super) fn number_in(&self, first: u32, count: u32, what: &'static str) -> Parse<u8> {
        match self.reg.checked_sub(first) {
            Some(n) if n < count => Ok(n as u8),
            _ => self.class_error(what),
        }
    }
}

/// An operand of the current line, with the span of its register or alias.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'s> {
    pub operand: Operand<'s>,
    pub base: Span<'s>,
    pub written: bool,
}

/// The names of one file, and the rules for its operands.
#[derive(Debug, Default)]
pub(super) struct Names<'s> {
    aliases: HashMap<&'s str, Alias>,
    /// Geometry programs have o0-o6 only.
    pub geometry: bool,
    /// `.raw`: index registers on `v` and `r`, all output registers.
    pub raw: bool,
    /// An `o` register was named. This alone gives a file a DVLE.
    pub saw_output: bool,
    /// Warnings of the current line with their byte offsets and lengths.
    pub notes: Vec<(usize, usize, WarningKind)>,
    /// Operands of the current line, for an analysis.
    pub seen: Option<Vec<Seen<'s>>>,
}

impl<'s> Names<'s> {
    /// Defines `name`; a second definition is an error. As in picasso, an alias may hide a
    /// register.
    pub(super) fn define(&mut self, name: Span<'s>, alias: Alias) -> Parse<()> {
        if reads_like_a_register(name.text) && !is_register(name.text, alias) {
            self.note(name, WarningKind::HidesRegister(clip(name.text)));
        }
        match self.aliases.insert(name.text, alias) {
            None => Ok(()),
            Some(_) => fault(name, AsmErrorKind::Duplicate { what: "alias", name: clip(name.text) }),
        }
    }

    /// Whether `name` is an alias.
    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.aliases.contains_key(name)
    }

    /// All aliases.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'s str, Alias)> {
        self.aliases.iter().map(|(&name, &alias)| (name, alias))
    }

    /// The number in the common space of an alias or register without offset.
    pub(super) fn register_of(&self, name: &str) -> Option<u32> {
        if let Some(alias) = self.aliases.get(name) {
            return Some(alias.reg);
        }
        let (letter, digits) = (name.chars().next()?, name.get(1..)?);
        let number: u32 = digits.parse().ok()?;
        let first = match letter {
            'o' | 'v' => 0,
            'r' => TEMP,
            'c' => FLOAT,
            'i' => INT,
            'b' => BOOL,
            _ => return None,
        };
        Some(first + number.min(95))
    }

    /// Reads an operand. `relative`: the language allows an index register here.
    pub(super) fn operand(&mut self, span: Span<'s>, relative: bool) -> Parse<Operand<'s>> {
        let (negate, body) = match span.strip('-') {
            Some(rest) => (true, rest),
            None => (false, span),
        };
        if body.is_empty() {
            return expected("a register or alias", body);
        }
        if body.text.starts_with(is_space) {
            // Only after `-` or `!`; the operand itself is trimmed.
            return expected("a register or alias without a blank before it", body.trim());
        }
        let (mut index, mut offset) = (Index::None, 0);
        let (base, components) = match body.cut('[') {
            Some((base, rest)) => {
                let Some((inside, tail)) = rest.cut(']') else { return expected("`]`", rest.skip(rest.text.len())) };
                (index, offset) = self.bracket(inside.trim())?;
                if index != Index::None && !relative {
                    return fault(inside, AsmErrorKind::IndexNotAllowed(clip(base.text)));
                }
                match tail.cut('.') {
                    Some((junk, components)) => {
                        self.ignored(junk);
                        (base, Some(components))
                    }
                    None => {
                        self.ignored(tail);
                        (base, None)
                    }
                }
            }
            None => match body.cut('.') {
                Some((base, components)) => (base, Some(components)),
                None => (body, None),
            },
        };
        let is_number = |text: &str| text.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
        if is_number(body.text) && !self.is_defined(base.text) {
            return fault(body, AsmErrorKind::NumberAsOperand(clip(body.text)));
        }
        let no_components = components.is_some_and(|c| c.text == "_");
        let chosen = match components {
            Some(c) if !no_components => parse_components(c)?,
            _ => [0, 1, 2, 3],
        };
        if components.is_some_and(Span::is_empty) {
            self.note(span, WarningKind::NoComponents(clip(span.text)));
        }
        let (alias, named) = match self.aliases.get(base.text) {
            Some(&alias) => (alias, true),
            None => (self.register(base)?, false),
        };
        if index != Index::None && !self.raw && !(FLOAT..INT).contains(&alias.reg) {
            if !named {
                return fault(base, AsmErrorKind::IndexNotAllowed(clip(base.text)));
            }
            self.note(base, WarningKind::IndexedAlias(clip(base.text)));
        }
        let reg = alias.reg.saturating_add(offset);
        let class = [0, TEMP, FLOAT, INT, BOOL].partition_point(|&first| first <= alias.reg);
        if [0, TEMP, FLOAT, INT, BOOL].partition_point(|&first| first <= reg) != class {
            self.note(span, WarningKind::OtherClass { operand: clip(span.text), register: register_name(reg) });
        }
        let operand = Operand {
            reg,
            index,
            letter: alias.letter,
            components: chosen.map(|l| alias.components[usize::from(l)]),
            negate: negate ^ alias.negate,
            no_components,
            span,
        };
        if let Some(seen) = &mut self.seen {
            seen.push(Seen { operand, base, written: false });
        }
        Ok(operand)
    }

    /// Reads a destination: register and mask.
    pub(super) fn destination(&mut self, span: Span<'s>) -> Parse<(DstReg, WriteMask)> {
        let operand = self.operand(span, false)?;
        if let Some(seen) = self.seen.as_mut().and_then(|seen| seen.last_mut()) {
            seen.written = true;
        }
        if operand.reg >= FLOAT {
            return fault(span, AsmErrorKind::NotWritable(clip(span.text)));
        }
        if operand.negate {
            self.note(span, WarningKind::NegatedDestination(clip(span.text)));
        }
        self.note_order(&operand);
        self.note_use(&operand, Use::Write);
        Ok((DstReg::new(operand.reg as u8), operand.mask()))
    }

    pub(super) fn note_order(&mut self, operand: &Operand<'_>) {
        if !operand.components.is_sorted() {
            self.note(operand.span, WarningKind::MaskOrder(clip(operand.span.text)));
        }
    }

    /// Warns if the letter of an operand's definition contradicts its use.
    pub(super) fn note_use(&mut self, operand: &Operand<'_>, what: Use) {
        let (wrong, right) = if what == Use::Read { ('o', 'v') } else { ('v', 'o') };
        if operand.letter == Some(wrong) && operand.reg < TEMP {
            let register = format!("{right}{}", operand.reg);
            self.note(operand.span, WarningKind::OtherFile { operand: clip(operand.span.text), register });
        }
    }

    fn note(&mut self, span: Span<'_>, kind: WarningKind) {
        self.notes.push((span.at, span.text.len(), kind));
    }

    /// Warns about text that the language ignores.
    pub(super) fn ignored(&mut self, junk: Span<'_>) {
        let junk = junk.trim();
        if !junk.is_empty() {
            self.note(junk, WarningKind::Ignored(clip(junk.text)));
        }
    }

    /// The inside of `[...]`: an index register, `index + offset`, or an offset.
    fn bracket(&mut self, inside: Span<'s>) -> Parse<(Index, u32)> {
        if let Some(index) = index_register(inside.text) {
            return Ok((index, 0));
        }
        if let Some((left, right)) = inside.cut('+') {
            let Some(index) = index_register(left.trim().text) else {
                return fault(left, AsmErrorKind::UnknownIndex(clip(left.text)));
            };
            return Ok((index, self.offset(right.trim())?));
        }
        Ok((Index::None, self.offset(inside)?))
    }

    /// An offset in brackets.
    fn offset(&mut self, text: Span<'s>) -> Parse<u32> {
        let value = self.decimal(text);
        if value < 0 {
            return fault(text, AsmErrorKind::NegativeOffset(clip(text.text)));
        }
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Decimal, like C's `atoi`: text after the digits is ignored, and a missing number is 0.
    pub(super) fn decimal(&mut self, text: Span<'s>) -> i64 {
        let (value, len) = decimal_prefix(text.text);
        if len == 0 {
            self.note(text, WarningKind::NotANumber(clip(text.text)));
        } else {
            self.ignored(text.skip(len));
        }
        value
    }

    /// A register from its text, which has no leading blank. As in picasso, text after the number
    /// is ignored.
    fn register(&mut self, text: Span<'s>) -> Parse<Alias> {
        let undefined = || {
            let (first, rest) = text.word();
            let (second, _) = rest.word();
            // Two operands: an alias has no blank in its name.
            if self.is_defined(first.text) && !second.is_empty() {
                return fault(second, AsmErrorKind::MissingComma { before: clip(second.text) });
            }
            fault(text, AsmErrorKind::Undefined { what: "register or alias", name: clip(text.text.trim_end()) })
        };
        let letter = text.text.chars().next().unwrap_or(' ');
        if !letter.is_ascii_alphabetic() || !text.skip(1).text.starts_with(|c: char| c.is_ascii_digit()) {
            return undefined();
        }
        let digits = text.skip(1);
        let (number, len) = c_number(digits.text).expect("it starts with a digit");
        let (first, max) = match letter {
            'o' => (0, if self.geometry && !self.raw { 6 } else { 15 }),
            'v' => (0, 15),
            'r' => (TEMP, 15),
            'c' => (FLOAT, 95),
            'i' => (INT, 7),
            'b' => (BOOL, 15),
            // Upper case: the number is one of the common space (language notes, quirk Q1).
            'O' | 'V' | 'R' | 'C' | 'I' | 'B' => (0, 255),
            _ => return undefined(),
        };
        let shown = || clip(text.take(1 + len).text);
        if number > u64::from(max) {
            return fault(text, AsmErrorKind::RegisterRange { register: shown(), max });
        }
        let number = number as u32;
        if letter.is_ascii_uppercase() {
            self.note(text, WarningKind::UpperCase { register: shown(), meaning: register_name(number) });
        } else if digits.text.starts_with('0') && digits.text.as_bytes()[1..len].first().is_some_and(u8::is_ascii_digit)
        {
            self.note(text, WarningKind::Octal { register: shown(), number });
        }
        self.saw_output |= letter == 'o';
        self.ignored(digits.skip(len));
        Ok(if letter.is_ascii_uppercase() { Alias::register(number) } else { Alias::of(letter, first + number) })
    }
}

/// Whether `name` is also the name of the register that the alias stands for: it hides nothing.
fn is_register(name: &str, alias: Alias) -> bool {
    let low = alias.letter.unwrap_or('v');
    let (letter, first) = match alias.reg {
        ..TEMP => (low, 0),
        TEMP..FLOAT => ('r', TEMP),
        FLOAT..INT => ('c', FLOAT),
        INT..BOOL => ('i', INT),
        _ => ('b', BOOL),
    };
    alias.components == [0, 1, 2, 3] && !alias.negate && name == format!("{letter}{}", alias.reg - first)
}

fn index_register(text: &str) -> Option<Index> {
    let is = |s: &str| text.eq_ignore_ascii_case(s);
    if is("a0.x") || is("a0") {
        Some(Index::A0x)
    } else if is("a0.y") || is("a1") {
        Some(Index::A0y)
    } else if is("aL") || is("a2") || is("lcnt") {
        Some(Index::AL)
    } else {
        None
    }
}

/// Up to four component letters. The last letter is repeated; the empty text is x.
pub(super) fn parse_components(span: Span<'_>) -> Parse<[u8; 4]> {
    let bad = || fault(span, AsmErrorKind::BadSwizzle(clip(span.text)));
    if span.text.len() > 4 {
        return bad();
    }
    let mut out = [0; 4];
    let mut last = 0;
    for (n, slot) in out.iter_mut().enumerate() {
        if let Some(letter) = span.text.as_bytes().get(n) {
            last = match letter.to_ascii_lowercase() {
                b'x' | b'r' | b's' => 0,
                b'y' | b'g' | b't' => 1,
                b'z' | b'b' | b'p' => 2,
                b'w' | b'a' | b'q' => 3,
                _ => return bad(),
            };
        }
        *slot = last;
    }
    Ok(out)
}

/// A condition on the flags: `cmp.x`, `!cmp.y`, `cmp.x && !cmp.y`, `cmp.x || cmp.y`. Beyond
/// picasso: `cmp.x ignore !cmp.y`, which gives the reference bit of a flag that isn't tested.
pub(super) fn condition(span: Span<'_>) -> Parse<Cond> {
    let joined = span.text.find(['&', '|']).map(|n| {
        let c = if span.text.as_bytes()[n] == b'&' { '&' } else { '|' };
        let rest = span.skip(n + 1);
        (span.take(n), if c == '&' { CondOp::And } else { CondOp::Or }, rest.strip(c).unwrap_or(rest))
    });
    let joined = joined.or_else(|| {
        // Bytewise, so that a position inside a multi-byte character can't be used as a boundary.
        let n = span.text.as_bytes().windows(8).position(|w| w.eq_ignore_ascii_case(b" ignore "))?;
        Some((span.take(n), CondOp::X, span.skip(n + 8)))
    });
    let Some((left, op, right)) = joined else {
        let (component, value) = flag(span)?;
        let op = if component == 0 { CondOp::X } else { CondOp::Y };
        return Ok(Cond { op, ref_x: value || component != 0, ref_y: value || component != 1 });
    };
    let (first, second) = (flag(left)?, flag(right)?);
    if first.0 == second.0 {
        return fault(right.trim(), AsmErrorKind::FlagTwice);
    }
    let (x, y) = if first.0 == 0 { (first.1, second.1) } else { (second.1, first.1) };
    let op = if op == CondOp::X && first.0 == 1 { CondOp::Y } else { op };
    Ok(Cond { op, ref_x: x, ref_y: y })
}

/// `cmp.x` or `cmp.y` with any number of `!` before it: the flag's number, and the value required.
fn flag(span: Span<'_>) -> Parse<(u8, bool)> {
    let span = span.trim();
    let name = span.text.trim_start_matches('!');
    let value = (span.text.len() - name.len()).is_multiple_of(2);
    if name.eq_ignore_ascii_case("cmp.x") {
        Ok((0, value))
    } else if name.eq_ignore_ascii_case("cmp.y") {
        Ok((1, value))
    } else {
        fault(span, AsmErrorKind::UnknownFlag(clip(span.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Span<'_> {
        Span { text, at: 0 }
    }

    #[test]
    fn conditions() {
        let c = |s| condition(span(s)).map(|c| (c.op, c.ref_x, c.ref_y)).map_err(|f| f.kind);
        assert_eq!(c("cmp.x"), Ok((CondOp::X, true, true)));
        assert_eq!(c("!!!cmp.Y"), Ok((CondOp::Y, true, false)));
        assert_eq!(c("!cmp.y & cmp.x"), Ok((CondOp::And, true, false)));
        assert_eq!(c("cmp.x||!cmp.y"), Ok((CondOp::Or, true, false)));
        assert_eq!(c("cmp.y ignore !cmp.x"), Ok((CondOp::Y, false, true)));
        assert_eq!(c("cmp.x && cmp.x"), Err(AsmErrorKind::FlagTwice));
        assert_eq!(c("cmp.z"), Err(AsmErrorKind::UnknownFlag("cmp.z".into())));
    }
}
