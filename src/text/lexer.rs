//! Source line -> labels, head word and arguments, each a [`Span`] of the line.
//!
//! The language is line based: one statement per line. Its first word decides how the rest is
//! split: at commas for instructions, at blanks for most directives. So the tokens are spans that
//! statements cut further.

use super::error::{AsmErrorKind, Parse, clip, fault};
use super::span::{Span, is_identifier, is_space};
use std::borrow::Cow;

/// The bytes of a source file as text. picasso does not read comments, so they may be in any
/// encoding: bytes that are not UTF-8 are replaced there. Elsewhere such a byte is an error, and
/// its offset is returned.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, usize> {
    let mut start = 0;
    for line in bytes.split(|&b| b == b'\n') {
        let code = line.split(|&b| b == b';').next().unwrap_or(line);
        if let Err(e) = std::str::from_utf8(code) {
            return Err(start + e.valid_up_to());
        }
        start += line.len() + 1;
    }
    Ok(String::from_utf8_lossy(bytes))
}

/// The text of `span` if it is an identifier.
pub(super) fn identifier(span: Span<'_>) -> Parse<&str> {
    if is_identifier(span.text) { Ok(span.text) } else { fault(span, AsmErrorKind::BadIdentifier(clip(span.text))) }
}

/// One source line, split.
#[derive(Debug)]
pub(super) struct Line<'s> {
    /// Names before a `:`.
    pub labels: Vec<Span<'s>>,
    /// Mnemonic or directive; empty if there is no statement.
    pub head: Span<'s>,
    /// The rest of the line, trimmed.
    pub rest: Span<'s>,
}

/// Splits a line. Comments (`;`) are removed, then labels, also where the line begins with `#`; the
/// whole text of such a line is `head`.
pub(super) fn line(text: &str) -> Parse<Line<'_>> {
    let whole = Span { text, at: 0 };
    let mut rest = whole.cut(';').map_or(whole, |(code, _)| code).trim();
    let mut labels = Vec::new();
    while let Some((label, tail)) = rest.cut(':') {
        if !label.is_empty() {
            identifier(label)?;
        }
        labels.push(label);
        rest = tail.trim();
    }
    let (head, rest) = if rest.text.starts_with('#') { (rest, rest.skip(rest.text.len())) } else { rest.word() };
    Ok(Line { labels, head, rest: rest.trim() })
}

/// The meaning of a line that begins with `#`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker<'s> {
    /// Line number and file name of the next line.
    Position(u32, &'s str),
    /// A line number alone.
    NoFile,
    /// Anything else.
    Nothing,
}

/// Reads a preprocessor's line marker, `# LINE "FILE"`, with or without flags after it.
pub(super) fn marker(text: &str) -> Marker<'_> {
    let text = text.trim_start_matches('#').trim_start_matches(is_space);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let Ok(line) = number.parse() else { return Marker::Nothing };
    match rest.trim_start_matches(is_space).strip_prefix('"') {
        Some(name) => Marker::Position(line, name.split('"').next().unwrap_or(name)),
        None => Marker::NoFile,
    }
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
    fn comments_in_any_encoding() {
        assert!(matches!(decode("é ; é\n".as_bytes()), Ok(Cow::Borrowed("é ; é\n"))));
        assert_eq!(decode(b"a ; \xE9;\xFF\nb").as_deref(), Ok("a ; \u{FFFD};\u{FFFD}\nb"));
        assert_eq!(decode(b"a ; \xE9\nb\xE9").as_deref(), Err(&7));
        assert_eq!(decode(b"\xC3;\xA9").as_deref(), Err(&0));
    }

    #[test]
    fn markers() {
        assert_eq!(marker("# 12 \"a b.pica\" 1 3"), Marker::Position(12, "a b.pica"));
        assert_eq!(marker("#7\t\"open"), Marker::Position(7, "open"));
        assert_eq!(marker("# 12"), Marker::NoFile);
        for text in ["#", "# define X 1", "#line 3 \"a\"", "# 99999999999 \"a\""] {
            assert_eq!(marker(text), Marker::Nothing, "{text}");
        }
    }

    #[test]
    fn commas_blanks_and_bad_labels() {
        let args = |s| Span { text: s, at: 0 }.arguments().iter().map(|s| s.text).collect::<Vec<_>>();
        assert_eq!(args("a, b,"), ["a", "b"]);
        assert_eq!(args("a,,b"), ["a", "", "b"]);
        assert!(args(" ").is_empty());
        assert_eq!(line("9a: nop").map(|_| ()).map_err(|f| f.at).unwrap_err(), 0);
        assert!(line("# 1 \"x\" : y").is_err());
        assert_eq!(line(" : nop").map(|l| (l.labels[0].text, l.head.text)).expect("an empty label"), ("", "nop"));
        assert_eq!(line("mov\x0Br0 r1").expect("one word").head.text, "mov\x0Br0");
    }
}
