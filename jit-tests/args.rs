//! Literals and values -> arguments of a command.

use std::ffi::{OsStr, OsString};

/// Arguments of the command. A literal is split at its blanks; a value, such as a path, is one argument whatever it holds.
#[derive(Clone, Debug)]
pub struct Args(pub Vec<OsString>);

/// The words of a literal. A text made at run time does not compile here: it may hold a path with a blank.
pub fn arguments(words: &'static str) -> Args {
    Args(Vec::new()).and(words)
}

impl Args {
    pub fn and(mut self, words: &'static str) -> Args {
        self.0.extend(words.split_whitespace().map(OsString::from));
        self
    }

    pub fn value(mut self, value: impl AsRef<OsStr>) -> Args {
        self.0.push(value.as_ref().into());
        self
    }
}

impl From<&'static str> for Args {
    fn from(literal: &'static str) -> Args {
        arguments(literal)
    }
}
