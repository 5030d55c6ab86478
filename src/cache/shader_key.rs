//! An entry of a program -> the words that it can execute: the cache key.
//!
//! Games upload programs on top of longer, older ones. A [`ShaderKey`] therefore holds the words
//! that can be executed and the descriptors these name, and nothing else: programs that differ only
//! in unreachable words share a key. This file must not depend on how keys are used.

use crate::ir::cfg::{Cfg, Explored, Limits};
use crate::isa::{Inst, Pc};
use crate::kernel::{Config, Unsupported};
use crate::program::{Entry, Program};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What exploring a program gave: its graph, or the reason why it is too large for native code.
pub(crate) type Exploration = Result<Cfg, Unsupported>;

/// The graph of these states.
pub(crate) fn graph(explored: Explored) -> Exploration {
    explored.cfg(Limits::default().blocks)
}

/// Everything that compiled code depends on. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaderKey {
    /// Hash of all other fields, computed once so that a lookup does not read them.
    hash: u64,
    entry: Entry,
    config: Config,
    /// Executable words by address.
    words: Arc<[(Pc, u32)]>,
    /// The operand descriptors that these words name, by index.
    opdescs: Arc<[(u8, u32)]>,
    /// The most words that a program with this key has: where the entry passes the last word, the
    /// first address that it reaches there. It follows from the other fields.
    longest_code: usize,
}

impl ShaderKey {
    /// The key of `entry` in `program`. It explores the words that `entry` reaches, which takes 1
    /// to 70 us for real shaders of 2 to 511 words, and milliseconds for hostile ones. The key of a
    /// program with too many states holds all its words.
    pub fn new(program: &Program, entry: Entry, config: Config) -> ShaderKey {
        ShaderKey::explore(program, entry, config).0
    }

    /// [`ShaderKey::new`], with the states that it is made from.
    pub(crate) fn explore(
        program: &Program,
        entry: Entry,
        config: Config,
    ) -> (ShaderKey, Result<Explored, Unsupported>) {
        let explored = Explored::new(program, entry, Limits::default().states);
        (ShaderKey::of(program, entry, config, &explored), explored)
    }

    fn of(program: &Program, entry: Entry, config: Config, explored: &Result<Explored, Unsupported>) -> ShaderKey {
        let word = |pc: Pc| (pc, program.code()[usize::from(pc)]);
        let words: Arc<[(Pc, u32)]> = match explored {
            Ok(explored) => explored.reachable().iter().map(|&pc| word(pc)).collect(),
            Err(_) => (0..program.code().len() as Pc).map(word).collect(),
        };
        let mut named = [false; crate::isa::OPDESCS];
        words.iter().filter_map(|(_, w)| Inst::opdesc_index(*w)).for_each(|n| named[usize::from(n)] = true);
        let opdescs =
            (0..named.len() as u8).filter(|n| named[usize::from(*n)]).map(|n| (n, program.opdesc(n))).collect();
        let length = program.code().len();
        let longest_code = match explored {
            Ok(explored) => {
                let reached = explored.nodes().iter().map(|node| usize::from(node.pc));
                reached.filter(|&pc| pc >= length).min().unwrap_or(usize::MAX)
            }
            Err(_) => length,
        };
        // The hash need not include the length: an address that is reached but not among the
        // words is past the end in any program with this key, because otherwise its word would be
        // among them.
        let mut hasher = super::hasher();
        (entry, config, &words, &opdescs).hash(&mut hasher);
        ShaderKey { hash: hasher.finish(), entry, config, words, opdescs, longest_code }
    }

    /// The entry that the key identifies.
    pub fn entry(&self) -> Entry {
        self.entry
    }

    /// Whether `entry` in a program of these words has this key, with the same configuration. The words
    /// that it reaches are equal, so they lead to the same ones.
    #[inline]
    pub(crate) fn is_of(&self, code: &[u32], opdescs: &[u32], entry: Entry) -> bool {
        let has = |&(pc, word): &(Pc, u32)| code.get(usize::from(pc)).is_some_and(|&other| other == word);
        let describes = |&(n, opdesc): &(u8, u32)| opdescs.get(usize::from(n)).copied().unwrap_or(0) == opdesc;
        self.entry == entry
            && code.len() <= self.longest_code
            && self.words.iter().all(has)
            && self.opdescs.iter().all(describes)
    }

    /// Bytes of memory it occupies.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words) + size_of_val(&*self.opdescs)
    }
}

impl Hash for ShaderKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(words: &[u32], opdescs: &[u32]) -> ShaderKey {
        let program = Program::from_words(words, opdescs).expect("short");
        ShaderKey::new(&program, Entry::vertex(0), Config::default())
    }

    const END: u32 = 0x22 << 26;
    const NOP: u32 = 0x21 << 26;
    const MOV_DESC_1: u32 = 0x13 << 26 | 1;

    #[test]
    fn keys_depend_on_executable_words_and_named_descriptors_only() {
        assert_eq!(key(&[NOP, END], &[]), key(&[NOP, END, 0xDEAD_BEEF, MOV_DESC_1], &[7, 8, 9]));
        assert_ne!(key(&[NOP, END], &[]), key(&[END, NOP], &[]));
        assert_eq!(key(&[MOV_DESC_1, END], &[1, 5]), key(&[MOV_DESC_1, END], &[2, 5, 3]));
        assert_ne!(key(&[MOV_DESC_1, END], &[1, 5]), key(&[MOV_DESC_1, END], &[1, 6]));
        assert_ne!(key(&[NOP], &[]), key(&[NOP, NOP], &[]), "one more word before the program's end");
    }

    #[test]
    fn a_key_counts_its_words_and_descriptors() {
        let (word, opdesc) = (size_of::<(Pc, u32)>(), size_of::<(u8, u32)>());
        assert_eq!(key(&[NOP, MOV_DESC_1, END], &[7, 8]).bytes(), size_of::<ShaderKey>() + 3 * word + opdesc);
    }

    #[test]
    fn the_hashes_of_keys_differ() {
        let hash = |key: ShaderKey| {
            let mut hasher = crate::cache::hasher();
            key.hash(&mut hasher);
            hasher.finish()
        };
        let all = [key(&[END], &[]), key(&[NOP, END], &[]), key(&[MOV_DESC_1, END], &[0, 1])].map(hash);
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{all:?}");
    }
}
