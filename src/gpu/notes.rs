//! What looks wrong in a draw, as bits and as text. This file must not know draws.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// What looks wrong in a draw: a set of bits. `docs/gpu.md` gives the evidence of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Notes(pub u32);

impl Notes {
    /// An array's stride differs from the sum of its components, with padding.
    pub const STRIDE: Notes = Notes(1);
    /// A program reads a float uniform that nothing has written.
    pub const UNIFORM: Notes = Notes(2);
    /// The output map names a component that the program never writes.
    pub const OUTPUT: Notes = Notes(4);
    /// The vertex program reads an attribute that has neither an array nor a default.
    pub const ATTRIBUTE: Notes = Notes(8);
    /// Code of the geometry unit was replaced since the last draw, and the unit was on all the time.
    pub const GEOMETRY_CODE: Notes = Notes(16);
    /// Guest memory lacks bytes of an array or of the indices.
    pub const MEMORY: Notes = Notes(32);
    /// The output map names no component of the position.
    pub const POSITION: Notes = Notes(64);

    /// Whether no note is in the set.
    pub fn is_empty(self) -> bool {
        self == Notes::default()
    }

    /// Whether all of these notes are in the set.
    pub fn contains(self, notes: Notes) -> bool {
        self.0 & notes.0 == notes.0
    }

    pub(super) fn when(self, holds: bool) -> Notes {
        if holds { self } else { Notes::default() }
    }
}

impl BitOr for Notes {
    type Output = Notes;

    fn bitor(self, other: Notes) -> Notes {
        Notes(self.0 | other.0)
    }
}

impl BitOrAssign for Notes {
    fn bitor_assign(&mut self, other: Notes) {
        *self = *self | other;
    }
}

/// Texts by bit.
const TEXTS: [(Notes, &str); 7] = [
    (Notes::STRIDE, "a stride differs from the sum of the components"),
    (Notes::UNIFORM, "a float uniform is read and was never written"),
    (Notes::OUTPUT, "a mapped output is never written"),
    (Notes::ATTRIBUTE, "an attribute has neither an array nor a default"),
    (Notes::GEOMETRY_CODE, "geometry code was replaced while the unit was on"),
    (Notes::MEMORY, "guest memory lacks bytes of an array or of the indices"),
    (Notes::POSITION, "the output map names no position"),
];

impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = TEXTS.iter().filter(|(note, _)| self.contains(*note)).map(|(_, text)| *text);
        f.write_str(&Vec::from_iter(texts).join("; "))
    }
}
