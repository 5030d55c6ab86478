//! Words as a game has uploaded them -> the key of what they can execute, if the same were asked for before.
//!
//! Exploring takes half a microsecond for each word, and many hosts ask again with each draw. Invariant: a key that is found is
//! the one that exploring gives, because all words are compared; what is remembered stays within a bound. It must not know
//! what keys are for.

use crate::cache::ShaderKey;
use crate::program::{Entry, Program};
use std::collections::HashMap;

/// Bytes of programs that are remembered: some hundred of 512 words. With one more, all are forgotten, which costs one
/// exploring each.
const MOST_BYTES: usize = 1 << 20;

struct Seen {
    program: Program,
    entry: Entry,
    own: bool,
    key: ShaderKey,
}

/// The keys of programs that were asked for.
#[derive(Default)]
pub(super) struct KeyMemo {
    seen: Vec<Seen>,
    /// Where in it, by [`hash`]: of two programs with the same one the later is remembered.
    at: HashMap<u64, usize>,
    bytes: usize,
}

/// Where to look. Whoever makes programs that have the same gains nothing but that they are explored each time.
pub(super) fn hash(program: &Program, entry: Entry, own: bool) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let add = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
    let start = u64::from(entry.pc) << 2 | (entry.stage as u64) << 1 | u64::from(own);
    // Four sums, because each multiplication waits for the one before.
    let mut sums = [start, 1, 2, 3];
    for words in [program.code(), program.opdescs()] {
        for four in words.chunks(sums.len()) {
            sums.iter_mut().zip(four).for_each(|(sum, &word)| *sum = add(*sum, u64::from(word)));
        }
        sums[0] = add(sums[0], words.len() as u64);
    }
    sums.into_iter().fold(0, add)
}

impl KeyMemo {
    /// The key of a program with this [`hash`], if it is remembered.
    pub(super) fn key(&self, hash: u64, program: &Program, entry: Entry, own: bool) -> Option<ShaderKey> {
        let seen = &self.seen[*self.at.get(&hash)?];
        ((seen.entry, seen.own) == (entry, own) && seen.program == *program).then(|| seen.key.clone())
    }

    /// Remembers one.
    pub(super) fn remember(&mut self, hash: u64, program: Program, entry: Entry, own: bool, key: ShaderKey) {
        let bytes = |seen: &Seen| size_of::<(Seen, u64, usize)>() + seen.program.bytes() + seen.key.bytes();
        let new = Seen { program, entry, own, key };
        self.bytes += bytes(&new);
        if self.bytes > MOST_BYTES {
            self.clear();
            self.bytes = bytes(&new);
        }
        match self.at.get(&hash) {
            Some(&at) => self.bytes -= bytes(&std::mem::replace(&mut self.seen[at], new)),
            None => {
                self.at.insert(hash, self.seen.len());
                self.seen.push(new);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.seen.clear();
        self.at.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Stage;
    use crate::kernel::Config;
    use crate::testing::miri_or;
    use std::collections::HashSet;

    const END: u32 = 0x22 << 26;

    fn asked(code: &[u32], opdescs: &[u32], entry: Entry, own: bool) -> (u64, Program, Entry, bool, ShaderKey) {
        let program = Program::from_words(code, opdescs).expect("short");
        let key = ShaderKey::new(&program, entry, Config::default());
        (hash(&program, entry, own), program, entry, own, key)
    }

    #[test]
    fn everything_that_is_asked_for_counts() {
        let vertex = Entry::vertex(0);
        let all = [
            asked(&[END], &[], vertex, false),
            asked(&[END], &[], vertex, true),
            asked(&[END], &[], Entry { stage: Stage::Geometry, ..vertex }, false),
            asked(&[END], &[], Entry::vertex(1), false),
            asked(&[END, 0], &[], vertex, false),
            asked(&[END], &[0], vertex, false),
            asked(&[END], &[END], vertex, false),
            asked(&[END, END], &[], vertex, false),
            asked(&[], &[END], vertex, false),
            asked(&[0, 0, 0, 0, END], &[], vertex, false),
            asked(&[0, 0, 0, END, 0], &[], vertex, false),
        ];
        assert_eq!(all.iter().map(|a| a.0).collect::<HashSet<_>>().len(), all.len());
        // As if all had the same place.
        for one in &all {
            for other in &all {
                let mut recent = KeyMemo::default();
                recent.remember(0, one.1.clone(), one.2, one.3, one.4.clone());
                let found = recent.key(0, &other.1, other.2, other.3);
                let same = (&one.1, one.2, one.3) == (&other.1, other.2, other.3);
                assert_eq!(found, same.then(|| one.4.clone()));
            }
        }
    }

    #[test]
    fn there_is_a_bound_and_the_newest_is_within() {
        let mut recent = KeyMemo::default();
        let mut most = 0;
        for n in 0..miri_or(40, 3000) {
            let mut code = vec![END; miri_or(4096, 512)];
            code[1] = n;
            let (hash, program, entry, own, key) = asked(&code, &[], Entry::vertex(0), false);
            // Twice: what takes its own place is counted once.
            (0..2).for_each(|_| recent.remember(hash, program.clone(), entry, own, key.clone()));
            assert_eq!(recent.key(hash, &program, entry, own), Some(key));
            assert!(recent.bytes <= MOST_BYTES);
            let sum: usize = recent.seen.iter().map(|s| s.program.bytes()).sum();
            assert!(recent.bytes > sum && recent.bytes < sum + recent.seen.len() * 1000);
            most = most.max(recent.seen.len());
        }
        assert!(most >= miri_or(40, 300) as usize && (cfg!(miri) || recent.seen.len() < most), "{most}");
    }
}
