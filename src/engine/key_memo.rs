//! Words as a game uploads them -> the [`ShaderKey`] that exploring them gave, if they have been
//! explored.
//!
//! Exploring takes 1 to 70 us (2 to 511 words), and many hosts look a shader up with each draw. A
//! lookup here takes 0.2 to 1 us.
//!
//! Invariant: a memorised key equals the key that exploring gives, because a lookup compares all
//! words. The memo stays within a limit. This file must not depend on the use of keys.

use crate::cache::ShaderKey;
use crate::program::{Entry, Program};
use std::collections::HashMap;

/// Limit on the bytes of memorised programs: some hundred of 512 words. Exceeding it clears the
/// memo, which costs one exploration for each program in use.
const MAX_BYTES: usize = 1 << 20;

struct Record {
    program: Program,
    entry: Entry,
    on_unit: bool,
    key: ShaderKey,
}

/// The keys of programs that were looked up.
#[derive(Default)]
pub(super) struct KeyMemo {
    records: Vec<Record>,
    /// Indices of records by [`hash`]. Of programs with equal hashes, the latest stays.
    index: HashMap<u64, usize>,
    bytes: usize,
}

/// The hash of a lookup. A program crafted to collide with another one costs an exploration each
/// time, and nothing else.
pub(super) fn hash(program: &Program, entry: Entry, on_unit: bool) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let add = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
    let start = u64::from(entry.pc) << 2 | (entry.stage as u64) << 1 | u64::from(on_unit);
    // Four independent sums hide the latency of the multiplications.
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
    /// The memorised key of a program; `hash` is its [`hash`].
    pub(super) fn get(&self, hash: u64, program: &Program, entry: Entry, on_unit: bool) -> Option<ShaderKey> {
        let record = &self.records[*self.index.get(&hash)?];
        let equal = (record.entry, record.on_unit) == (entry, on_unit) && record.program == *program;
        equal.then(|| record.key.clone())
    }

    /// Memorises the key of a program.
    pub(super) fn insert(&mut self, hash: u64, program: Program, entry: Entry, on_unit: bool, key: ShaderKey) {
        let bytes = |record: &Record| size_of::<(Record, u64, usize)>() + record.program.bytes() + record.key.bytes();
        let new = Record { program, entry, on_unit, key };
        self.bytes += bytes(&new);
        if self.bytes > MAX_BYTES {
            self.clear();
            self.bytes = bytes(&new);
        }
        match self.index.get(&hash) {
            Some(&at) => self.bytes -= bytes(&std::mem::replace(&mut self.records[at], new)),
            None => {
                self.index.insert(hash, self.records.len());
                self.records.push(new);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.index.clear();
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

    fn lookup(code: &[u32], opdescs: &[u32], entry: Entry, on_unit: bool) -> (u64, Program, Entry, bool, ShaderKey) {
        let program = Program::from_words(code, opdescs).expect("short");
        let key = ShaderKey::new(&program, entry, Config::default());
        (hash(&program, entry, on_unit), program, entry, on_unit, key)
    }

    #[test]
    fn a_lookup_compares_words_descriptors_entry_and_memory() {
        let vertex = Entry::vertex(0);
        let all = [
            lookup(&[END], &[], vertex, false),
            lookup(&[END], &[], vertex, true),
            lookup(&[END], &[], Entry { stage: Stage::Geometry, ..vertex }, false),
            lookup(&[END], &[], Entry::vertex(1), false),
            lookup(&[END, 0], &[], vertex, false),
            lookup(&[END], &[0], vertex, false),
            lookup(&[END], &[END], vertex, false),
            lookup(&[END, END], &[], vertex, false),
            lookup(&[], &[END], vertex, false),
            lookup(&[0, 0, 0, 0, END], &[], vertex, false),
            lookup(&[0, 0, 0, END, 0], &[], vertex, false),
        ];
        assert_eq!(all.iter().map(|a| a.0).collect::<HashSet<_>>().len(), all.len());
        // As if all had the same hash.
        for one in &all {
            for other in &all {
                let mut memo = KeyMemo::default();
                memo.insert(0, one.1.clone(), one.2, one.3, one.4.clone());
                let found = memo.get(0, &other.1, other.2, other.3);
                let same = (&one.1, one.2, one.3) == (&other.1, other.2, other.3);
                assert_eq!(found, same.then(|| one.4.clone()));
            }
        }
    }

    #[test]
    fn the_limit_holds_and_the_latest_key_stays() {
        let mut memo = KeyMemo::default();
        let mut longest = 0;
        for n in 0..miri_or(40, 3000) {
            let mut code = vec![END; miri_or(4096, 512)];
            code[1] = n;
            let (hash, program, entry, on_unit, key) = lookup(&code, &[], Entry::vertex(0), false);
            // A replaced record is counted once.
            (0..2).for_each(|_| memo.insert(hash, program.clone(), entry, on_unit, key.clone()));
            assert_eq!(memo.get(hash, &program, entry, on_unit), Some(key));
            assert!(memo.bytes <= MAX_BYTES);
            let sum: usize = memo.records.iter().map(|record| record.program.bytes()).sum();
            assert!(memo.bytes > sum && memo.bytes < sum + memo.records.len() * 1000);
            longest = longest.max(memo.records.len());
        }
        assert!(longest >= miri_or(40, 300) as usize && (cfg!(miri) || memo.records.len() < longest), "{longest}");
    }
}
