//! An entry of a program -> the words that it can execute: the cache key.
//!
//! Games upload programs on top of longer, older ones. A [`ShaderKey`] therefore holds the words
//! that can be executed and the descriptors these name, and nothing else: programs that differ only
//! in unreachable words share a key. This file must not depend on how keys are used.

use crate::ir::cfg::{Explored, Limits};
use crate::isa::Pc;
use crate::isa::decode::opdesc_index;
use crate::kernel::{Config, Unsupported};
use crate::program::{Entry, Program};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The first limit of [`ShaderKey::explore_within`]. Most real shaders have fewer states.
pub(crate) const FIRST_STATES: usize = 128;

/// What exploring a program gave: its states, or the reason why there are too many for native code.
pub(crate) type Exploration = Result<Explored, Unsupported>;

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
}

impl ShaderKey {
    /// The key of `entry` in `program`. It explores the words that `entry` reaches, which takes 1
    /// to 70 us for real shaders of 2 to 511 words, and milliseconds for hostile ones. The key of a
    /// program with too many states holds all its words.
    pub fn new(program: &Program, entry: Entry, config: Config) -> ShaderKey {
        ShaderKey::explore(program, entry, config).0
    }

    /// [`ShaderKey::new`], with the exploration that it is made from.
    pub(crate) fn explore(program: &Program, entry: Entry, config: Config) -> (ShaderKey, Exploration) {
        let explored = Explored::new(program, entry, Limits::default().states);
        (ShaderKey::of(program, entry, config, &explored), explored)
    }

    /// [`ShaderKey::explore`] within a budget of `states`. It tries a limit of [`FIRST_STATES`],
    /// then twice as many, and so on, and subtracts each limit from the budget. `None` if the
    /// budget does not suffice.
    pub(crate) fn explore_within(
        program: &Program,
        entry: Entry,
        config: Config,
        states: &mut usize,
    ) -> Option<(ShaderKey, Exploration)> {
        let max_states = Limits::default().states;
        let mut limit = FIRST_STATES;
        let explored = loop {
            *states = states.checked_sub(limit)?;
            match Explored::new(program, entry, limit) {
                Err(_) if limit < max_states => limit = max_states.min(2 * limit),
                explored => break explored,
            }
        };
        Some((ShaderKey::of(program, entry, config, &explored), explored))
    }

    fn of(program: &Program, entry: Entry, config: Config, explored: &Exploration) -> ShaderKey {
        let word = |pc: Pc| (pc, program.code()[usize::from(pc)]);
        let words: Arc<[(Pc, u32)]> = match explored {
            Ok(explored) => explored.reachable().iter().map(|&pc| word(pc)).collect(),
            Err(_) => (0..program.code().len() as Pc).map(word).collect(),
        };
        let mut named = [false; crate::isa::OPDESCS];
        words.iter().filter_map(|(_, w)| opdesc_index(*w)).for_each(|n| named[usize::from(n)] = true);
        let opdescs =
            (0..named.len() as u8).filter(|n| named[usize::from(*n)]).map(|n| (n, program.opdesc(n))).collect();
        // The key need not hold the program's length: an address that is reached but not among the
        // words is past the end in any program with this key, because otherwise its word would be
        // among them.
        let mut hasher = super::hasher();
        (entry, config, &words, &opdescs).hash(&mut hasher);
        ShaderKey { hash: hasher.finish(), entry, config, words, opdescs }
    }

    /// The entry that the key identifies.
    pub fn entry(&self) -> Entry {
        self.entry
    }

    /// The shortest program with this key: words that can't be executed and descriptors that no
    /// instruction names are 0. Its entry has the same key under the same configuration.
    pub fn program(&self) -> Program {
        let mut code = vec![0; self.words.last().map_or(0, |&(pc, _)| usize::from(pc) + 1)];
        let mut opdescs = vec![0; self.opdescs.last().map_or(0, |&(n, _)| usize::from(n) + 1)];
        self.words.iter().for_each(|&(pc, word)| code[usize::from(pc)] = word);
        self.opdescs.iter().for_each(|&(n, opdesc)| opdescs[usize::from(n)] = opdesc);
        Program::from_words(&code, &opdescs).expect("no longer than the original program")
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
    use crate::ir::cfg::count_explorations;
    use crate::testing::miri_or;

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
    fn a_budget_does_not_change_the_key() {
        let cases = [(0, 128), (127, 128), (128, 128 + 256), (1500, 128 + 256 + 512 + 1024 + 2048)];
        for (nops, taken) in cases.into_iter().take(miri_or(2, 4)) {
            let mut words = vec![NOP; nops];
            words.extend([END, MOV_DESC_1]);
            let program = Program::from_words(&words, &[]).expect("short");
            let mut states = 10_000;
            let explore = || ShaderKey::explore_within(&program, Entry::vertex(0), Config::default(), &mut states);
            let (found, explorations) = count_explorations(explore);
            assert_eq!(found.map(|(key, _)| key), Some(key(&words, &[])));
            assert_eq!(explorations, (taken / FIRST_STATES).ilog2() as usize + 1, "{nops}");
            assert_eq!(states, 10_000 - taken, "{nops}");
        }
    }

    #[test]
    fn the_program_of_a_key_has_that_key() {
        // A call over a gap, unreachable words, a descriptor with a high index, an end after the
        // last word.
        let call = 0x24 << 26 | 5 << 10 | 1;
        let cases: [(&[u32], &[u32]); 5] = [
            (&[call, END, 7, 8, 9, MOV_DESC_1, 0xFFFF_FFFF], &[1, 5, 9]),
            (&[NOP, END, 1, 2, 3], &[4; 128]),
            (&[NOP, NOP], &[]),
            (&[0x13 << 26 | 127, END], &[3; 128]),
            (&[], &[1]),
        ];
        for (words, opdescs) in cases {
            let key = key(words, opdescs);
            let program = key.program();
            assert_eq!(ShaderKey::new(&program, key.entry(), Config::default()), key);
            assert!(program.code().len() <= words.len() && program.opdescs().len() <= opdescs.len());
        }
        let short = key(&[NOP, END, 1, 2, 3], &[4; 128]).program();
        assert_eq!((short.code(), short.opdescs()), (&[NOP, END][..], &[][..]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "explores thousands of states: minutes")]
    fn the_program_of_a_key_with_too_many_states_has_that_key() {
        // Nested calls of different lengths: more states than the limit.
        let mut x = 9u32;
        let words: Vec<u32> = (0..4096)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                0x26 << 26 | (x >> 28) << 22 | (x >> 16 & 0xFFF) << 10 | (1 + (x >> 12 & 7))
            })
            .collect();
        let key = key(&words, &[]);
        assert_eq!(key.words.len(), words.len(), "all of them");
        assert_eq!(ShaderKey::new(&key.program(), key.entry(), Config::default()), key);
        let within = |states: &mut usize| {
            let found = ShaderKey::explore_within(&key.program(), key.entry(), Config::default(), states);
            found.map(|(key, explored)| {
                assert!(matches!(explored, Err(Unsupported::TooManyStates { limit: 8192, .. })));
                key
            })
        };
        let mut enough = 128 + 256 + 512 + 1024 + 2048 + 4096 + 8192;
        assert_eq!((within(&mut (enough - 1)), within(&mut enough), enough), (None, Some(key.clone()), 0));
    }
}
