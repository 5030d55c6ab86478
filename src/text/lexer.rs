//! Source line -> labels, head word and arguments, each with its place in the line.
//!
//! The language is line based: one statement per line, its first word decides how the rest is split (commas for
//! instructions, blanks for most directives). So a "token" here is a [`Span`]: a piece of the line that remembers its
//! byte offset, with a few cutting operations that keep it. It must not know any statement.

use super::error::{AsmErrorKind, Parse, clip, fault};
use super::span::{Span, is_identifier, is_space};
use std::borrow::Cow;

/// The bytes of a source file as text. Comments may have other encodings than UTF-8, which picasso does not see: what can't
/// be read there is replaced. Elsewhere it is an error: the offset of the first such byte.
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
    /// What follows it, trimmed.
    pub rest: Span<'s>,
}

/// Takes a line apart. Comments (`;`) are nothing. Labels come off before anything else, also where the line begins with
/// `#`, whose whole text is then `head`.
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

/// What a line that begins with `#` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker<'s> {
    /// The next line is this one of this file.
    Position(u32, &'s str),
    /// A line number alone.
    NoFile,
    /// Anything else.
    Nothing,
}

/// Reads a preprocessor's line marker, `# LINE "FILE"`, with or without flags behind it.
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
