//! The text of a recording <-> guest memory and a command list.
//!
//! ```text
//! picajit recording 1
//! memory 20000000
//! ; anything
//! 00010203 04050607
//! list
//! 00000001 000F022E
//! ```
//!
//! Words are hexadecimal, those of memory as a little-endian machine reads them. `;` begins a
//! comment; comments on their own line are kept. The number in the title is the version. Invariant: a
//! printed recording reads back equal, and no text takes more memory than a small multiple of its own
//! size, nor more than [`MAX_WORDS`] words and notes.

use std::fmt::{self, Write};
use std::str::FromStr;

const TITLE: &str = "picajit recording 1";
/// [`TITLE`] without the version.
const ANY_VERSION: &str = "picajit recording ";

/// Most words and notes of a section: 16 MiB of memory, far above what a draw reads.
pub const MAX_WORDS: usize = 1 << 22;

/// Words, and comments in front of some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The words.
    pub words: Vec<u32>,
    /// The index of the word that each precedes, in order.
    pub notes: Vec<(usize, String)>,
}

/// Input of a GPU: memory for attribute arrays and indices, and a list of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Physical address of the first word of memory.
    pub address: u32,
    /// The words from there on.
    pub memory: Words,
    /// Values and headers as in guest memory.
    pub list: Words,
}

/// An error in the text of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub kind: RecordingErrorKind,
}

/// The kind of a [`RecordingError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingErrorKind {
    /// The text is no recording.
    NoTitle,
    /// Another version of the format.
    Version,
    /// A text that is no word.
    NoWord,
    /// `memory` without an address.
    NoAddress,
    /// A word in front of both sections.
    Nowhere,
    /// A second section of its kind, or `memory` after `list`.
    SectionTwice,
    /// The text ends without `list`.
    NoList,
    /// More than [`MAX_WORDS`].
    TooLong,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.kind {
            RecordingErrorKind::NoTitle => write!(f, "expected `{TITLE}`"),
            RecordingErrorKind::Version => write!(f, "another version of the format: expected `{TITLE}`"),
            RecordingErrorKind::TooLong => write!(f, "more than {MAX_WORDS} words in a section"),
            RecordingErrorKind::NoWord => f.write_str("expected words of at most eight hexadecimal digits"),
            RecordingErrorKind::NoAddress => f.write_str("expected `memory` and its address"),
            RecordingErrorKind::Nowhere => f.write_str("expected `memory` or `list` before the first word"),
            RecordingErrorKind::SectionTwice => f.write_str("expected one `memory` section, then one `list` section"),
            RecordingErrorKind::NoList => f.write_str("the text ends without `list`"),
        }
    }
}

impl std::error::Error for RecordingError {}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TITLE}\nmemory {:08X}\n{}list\n{}", self.address, self.memory, self.list)
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut start = 0;
        let ends = self.notes.iter().map(|(at, note)| (*at, Some(note))).chain([(self.words.len(), None)]);
        for (end, note) in ends {
            // Eight words a line, four commands.
            for line in self.words[start..end].chunks(8) {
                for (n, word) in line.iter().enumerate() {
                    write!(f, "{}{word:08X}", if n == 0 { "" } else { " " })?;
                }
                f.write_char('\n')?;
            }
            if let Some(note) = note {
                writeln!(f, "; {note}")?;
            }
            start = end;
        }
        Ok(())
    }
}

impl FromStr for Recording {
    type Err = RecordingError;

    fn from_str(text: &str) -> Result<Recording, RecordingError> {
        let mut recording = Recording::default();
        let (mut has_memory, mut has_list, mut last) = (false, false, 1);
        for (n, line) in text.lines().enumerate() {
            last = n + 1;
            let fail = |kind| RecordingError { line: n + 1, kind };
            if n == 0 {
                match line.trim_end() {
                    TITLE => continue,
                    other if other.starts_with(ANY_VERSION) => return Err(fail(RecordingErrorKind::Version)),
                    _ => return Err(fail(RecordingErrorKind::NoTitle)),
                }
            }
            let (code, note) = line.split_once(';').map_or((line, None), |(code, note)| (code, Some(note)));
            let mut words = code.split_whitespace().peekable();
            if let Some(section @ ("memory" | "list")) = words.peek().copied() {
                words.next();
                if has_list || has_memory && section == "memory" {
                    return Err(fail(RecordingErrorKind::SectionTwice));
                }
                if section == "list" {
                    has_list = true;
                } else {
                    has_memory = true;
                    recording.address = words.next().and_then(word).ok_or(fail(RecordingErrorKind::NoAddress))?;
                }
                if words.next().is_some() {
                    return Err(fail(RecordingErrorKind::NoWord));
                }
                continue;
            }
            let section = match (has_list, has_memory) {
                (true, _) => &mut recording.list,
                (_, true) => &mut recording.memory,
                _ if words.peek().is_none() => continue,
                _ => return Err(fail(RecordingErrorKind::Nowhere)),
            };
            if let (None, Some(note)) = (words.peek(), note) {
                if section.notes.len() == MAX_WORDS {
                    return Err(fail(RecordingErrorKind::TooLong));
                }
                section.notes.push((section.words.len(), note.strip_prefix(' ').unwrap_or(note).to_string()));
            }
            for text in words {
                if section.words.len() == MAX_WORDS {
                    return Err(fail(RecordingErrorKind::TooLong));
                }
                section.words.push(word(text).ok_or(fail(RecordingErrorKind::NoWord))?);
            }
        }
        match has_list {
            true => Ok(recording),
            false if text.is_empty() => Err(RecordingError { line: 1, kind: RecordingErrorKind::NoTitle }),
            false => Err(RecordingError { line: last, kind: RecordingErrorKind::NoList }),
        }
    }
}

fn word(text: &str) -> Option<u32> {
    // `from_str_radix` would accept a sign.
    (text.len() <= 8 && text.bytes().all(|b| b.is_ascii_hexdigit())).then(|| u32::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_text_reads_back_equal() {
        let recording = Recording {
            address: 0x2000_0000,
            memory: Words { words: (0..19).collect(), notes: vec![(0, "a".into()), (9, "b ; c".into())] },
            list: Words { words: vec![1, 0x000F_022E], notes: vec![(2, "at the end".into())] },
        };
        let text = recording.to_string();
        assert!(text.contains("00000008\n; b ; c\n00000009"), "{text}");
        assert_eq!(text.parse(), Ok(recording));
    }

    #[test]
    fn errors_have_a_line() {
        use RecordingErrorKind::*;
        let read = |body: &str| format!("{TITLE}\n{body}").parse::<Recording>().map_err(|e| (e.line, e.kind));
        assert_eq!(read("; first\n\nlist\n1 2 ; one command").map(|r| r.list.words), Ok(vec![1, 2]));
        assert_eq!(read("memory 0\n1"), Err((3, NoList)));
        assert_eq!(read("memory"), Err((2, NoAddress)));
        assert_eq!(read("memory 0 1"), Err((2, NoWord)));
        assert_eq!(read("12"), Err((2, Nowhere)));
        for (text, kind) in
            [("+1", NoWord), ("123456789", NoWord), ("x", NoWord), ("list", SectionTwice), ("memory 1", SectionTwice)]
        {
            assert_eq!(read(&format!("list\n1\n{text}")), Err((4, kind)), "{text}");
        }
        assert_eq!("".parse::<Recording>(), Err(RecordingError { line: 1, kind: NoTitle }));
        assert_eq!("list".parse::<Recording>(), Err(RecordingError { line: 1, kind: NoTitle }));
        let next = "picajit recording 2\nlist\n".parse::<Recording>();
        assert_eq!(next, Err(RecordingError { line: 1, kind: Version }));
    }

    #[test]
    fn a_section_is_bounded() {
        let words = "0 0 0 0 0 0 0 0\n".repeat(MAX_WORDS / 8);
        let read =
            |rest: &str| format!("{TITLE}\nlist\n{words}{rest}").parse::<Recording>().map_err(|e| (e.line, e.kind));
        assert_eq!(read("").map(|r| r.list.words.len()), Ok(MAX_WORDS));
        assert_eq!(read("0"), Err((MAX_WORDS / 8 + 3, RecordingErrorKind::TooLong)));
    }
}
