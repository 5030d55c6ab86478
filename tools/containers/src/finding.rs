//! What a verification finds: errors and warnings with their offsets.

use std::fmt;

/// How grave a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Unusual or unknown; loaders accept it, as far as is known.
    Warning,
    /// Against the rules of the format.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Error or warning.
    pub severity: Severity,
    /// Absolute offset in the file.
    pub offset: u64,
    /// What is wrong. Bytes from the file are escaped.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x}: {}", self.offset, self.message)
    }
}

/// Findings in the order of their discovery. The number is bounded, and so is their memory.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    dropped: usize,
}

impl Findings {
    /// Findings that are kept.
    const MOST: usize = 2_000;

    pub(crate) fn error(&mut self, offset: u64, message: impl Into<String>) {
        self.add(Severity::Error, offset, message.into());
    }

    pub(crate) fn warning(&mut self, offset: u64, message: impl Into<String>) {
        self.add(Severity::Warning, offset, message.into());
    }

    fn add(&mut self, severity: Severity, offset: u64, message: String) {
        if self.list.len() < Findings::MOST {
            self.list.push(Finding { severity, offset, message });
        } else {
            self.dropped += 1;
        }
    }

    /// All of them. The last one counts those beyond the limit.
    pub(crate) fn into_vec(mut self) -> Vec<Finding> {
        if self.dropped > 0 {
            let offset = self.list.last().map_or(0, |f| f.offset);
            let message = format!("{} further findings are not listed", self.dropped);
            self.list.push(Finding { severity: Severity::Error, offset, message });
        }
        self.list
    }
}

/// A name from a file for a message: printable ASCII, the rest escaped, shortened beyond 64 bytes.
pub fn quoted(name: &[u8]) -> String {
    let shown = &name[..name.len().min(64)];
    let dots = if name.len() > 64 { "..." } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}
