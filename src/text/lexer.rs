//! Source line -> labels, head word and arguments, each with its place in the line.
//!
//! The language is line based: one statement per line, its first word decides how the rest is split (commas for
//! instructions, blanks for most directives). So a "token" here is a [`Span`]: a piece of the line that remembers its
//! byte offset, with a few cutting operations that keep it. It must not know any statement.

use super::error::{AsmErrorKind, Parse, clip, fault};

/// A piece of a source line and its byte offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<'s> {
    pub text: &'s str,
    pub at: usize,
}

/// White space of the language: that of C's `isspace`.
pub(super) fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0B'
}

impl<'s> Span<'s> {
    /// The part from byte `n` on. `n` must be a character boundary, as all callers' are (they found an ASCII byte).
    pub fn skip(self, n: usize) -> Span<'s> {
        Span { text: &self.text[n..], at: self.at + n }
    }
    /// The first `n` bytes.
    pub fn take(self, n: usize) -> Span<'s> {
        Span { text: &self.text[..n], at: self.at }
    }
    /// Without white space at both ends.
    pub fn trim(self) -> Span<'s> {
        let start = self.text.trim_start_matches(is_space);
        let n = self.text.len() - start.len();
        Span { text: start.trim_end_matches(is_space), at: self.at + n }
    }
    /// The parts before and behind the first `c` (an ASCII character).
    pub fn cut(self, c: char) -> Option<(Span<'s>, Span<'s>)> {
        let n = self.text.find(c)?;
        Some((self.take(n), self.skip(n + c.len_utf8())))
    }
    /// Without the prefix `c`.
    pub fn strip(self, c: char) -> Option<Span<'s>> {
        self.text.starts_with(c).then(|| self.skip(c.len_utf8()))
    }
    /// Whether nothing is left.
    pub fn is_empty(self) -> bool {
        self.text.is_empty()
    }
    /// Whether the text is `word`, ignoring case.
    pub fn is(self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }
    /// The first word and the trimmed rest.
    pub fn word(self) -> (Span<'s>, Span<'s>) {
        let s = self.trim();
        let n = s.text.find(is_space).unwrap_or(s.text.len());
        (s.take(n), s.skip(n).trim())
    }
    /// All words.
    pub fn words(self) -> Vec<Span<'s>> {
        let (mut out, mut rest) = (Vec::new(), self);
        loop {
            let (word, tail) = rest.word();
            if word.is_empty() {
                return out;
            }
            out.push(word);
            rest = tail;
        }
    }
    /// Comma-separated arguments, trimmed. One trailing comma is ignored, as in picasso.
    pub fn arguments(self) -> Vec<Span<'s>> {
        let (mut out, mut rest) = (Vec::new(), self.trim());
        if rest.is_empty() {
            return out;
        }
        while let Some((arg, tail)) = rest.cut(',') {
            out.push(arg.trim());
            rest = tail;
        }
        let last = rest.trim();
        if !last.is_empty() {
            out.push(last);
        }
        out
    }
    /// This span as an identifier.
    pub fn identifier(self) -> Parse<&'s str> {
        if is_identifier(self.text) { Ok(self.text) } else { fault(self, AsmErrorKind::BadIdentifier(clip(self.text))) }
    }
}

/// Whether `s` is a letter, `_` or `$`, followed by letters, digits, `_`, `$`.
pub(super) fn is_identifier(s: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b'$';
    s.bytes().next().is_some_and(letter) && s.bytes().all(|b| letter(b) || b.is_ascii_digit())
}

/// One source line, taken apart.
#[derive(Debug)]
pub(super) struct Line<'s> {
    /// Names before a `:`.
    pub labels: Vec<Span<'s>>,
    /// Mnemonic or directive; empty if there is no statement.
    pub head: Span<'s>,
    /// What follows it, trimmed.
    pub rest: Span<'s>,
}

/// Takes a line apart. Comments (`;`) and lines that begin with `#` (preprocessor markers) are nothing.
pub(super) fn line(text: &str) -> Parse<Line<'_>> {
    let whole = Span { text, at: 0 };
    let mut rest = whole.cut(';').map_or(whole, |(code, _)| code).trim();
    let mut labels = Vec::new();
    if rest.text.starts_with('#') {
        rest = rest.take(0);
    }
    while let Some((label, tail)) = rest.cut(':') {
        label.identifier()?;
        labels.push(label);
        rest = tail.trim();
    }
    let (head, rest) = rest.word();
    Ok(Line { labels, head, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_know_their_columns() {
        let l = line("  a: b:\tmov  r0 , r1 ; c: d").expect("a good line");
        assert_eq!(l.labels.iter().map(|s| (s.text, s.at)).collect::<Vec<_>>(), [("a", 2), ("b", 5)]);
        assert_eq!((l.head.text, l.head.at), ("mov", 8));
        let args: Vec<_> = l.rest.arguments().iter().map(|s| (s.text, s.at)).collect();
        assert_eq!(args, [("r0", 13), ("r1", 18)]);
    }

    #[test]
    fn commas_blanks_and_bad_labels() {
        let args = |s| Span { text: s, at: 0 }.arguments().iter().map(|s| s.text).collect::<Vec<_>>();
        assert_eq!(args("a, b,"), ["a", "b"]);
        assert_eq!(args("a,,b"), ["a", "", "b"]);
        assert!(args(" ").is_empty());
        assert_eq!(line("9a: nop").map(|_| ()).map_err(|f| f.at).unwrap_err(), 0);
        assert!(line("# 1 \"x\" : y").expect("a marker").head.is_empty());
    }
}
