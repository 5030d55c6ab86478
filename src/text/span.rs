//! A piece of a source line that remembers its byte offset, and the operations that cut it.
//!
//! Invariant: `text` is the part of the line that begins at byte `at`. Every cut keeps that.

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

/// Word separators.
const BLANKS: [char; 2] = [' ', '\t'];

impl<'s> Span<'s> {
    /// The text from byte `n` on. `n` must be a character boundary; callers pass positions next to
    /// ASCII bytes.
    pub(super) fn skip(self, n: usize) -> Span<'s> {
        Span { text: &self.text[n..], at: self.at + n }
    }
    /// The first `n` bytes.
    pub(super) fn take(self, n: usize) -> Span<'s> {
        Span { text: &self.text[..n], at: self.at }
    }
    /// Without white space at both ends.
    pub(super) fn trim(self) -> Span<'s> {
        let start = self.text.trim_start_matches(is_space);
        let n = self.text.len() - start.len();
        Span { text: start.trim_end_matches(is_space), at: self.at + n }
    }
    /// The text before and the text after the first `c` (an ASCII character).
    pub(super) fn cut(self, c: char) -> Option<(Span<'s>, Span<'s>)> {
        let n = self.text.find(c)?;
        Some((self.take(n), self.skip(n + c.len_utf8())))
    }
    /// Without the prefix `c`.
    pub(super) fn strip(self, c: char) -> Option<Span<'s>> {
        self.text.starts_with(c).then(|| self.skip(c.len_utf8()))
    }
    /// Whether the text is empty.
    pub(super) fn is_empty(self) -> bool {
        self.text.is_empty()
    }
    /// Whether the text is `word`, ignoring case.
    pub(super) fn is(self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }
    /// The first word and the rest. Words are separated by blanks and tabs; other white space is
    /// part of one.
    pub(super) fn word(self) -> (Span<'s>, Span<'s>) {
        let n = self.text.len() - self.text.trim_start_matches(BLANKS).len();
        let s = self.skip(n);
        let n = s.text.find(BLANKS).unwrap_or(s.text.len());
        (s.take(n), s.skip(n))
    }
    /// All words.
    pub(super) fn words(self) -> Vec<Span<'s>> {
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
    pub(super) fn arguments(self) -> Vec<Span<'s>> {
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
}

/// Whether `s` is a letter, `_` or `$`, followed by letters, digits, `_`, `$`.
pub fn is_identifier(s: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b'$';
    s.bytes().next().is_some_and(letter) && s.bytes().all(|b| letter(b) || b.is_ascii_digit())
}
