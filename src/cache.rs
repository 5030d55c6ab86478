//! The words that an entry can execute -> the value compiled for them.
//!
//! Games upload programs on top of longer, older ones. A [`ShaderKey`] therefore holds the words
//! that can be executed and the descriptors these name, and nothing else: programs that differ only
//! in unreachable words share a key. A hit compares the whole key; the hash only selects the
//! bucket.
//!
//! Invariant: the bytes of all values stay within the limit, except that the newest requested value
//! always stays. An offered value never evicts a requested one. Users that hold a value keep it
//! alive after its eviction. This file must not depend on how values are compiled.

use crate::ir::cfg::{Explored, Limits};
use crate::isa::Pc;
use crate::isa::decode::opdesc_index;
use crate::kernel::{Config, Unsupported};
use crate::program::{Entry, Program};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
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
        let mut hasher = DefaultHasher::new();
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

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found their shader.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Shaders evicted to stay within the limit.
    pub evictions: u64,
    /// Shaders in the cache.
    pub entries: usize,
    /// Bytes that they and their keys occupy. A shader that waits for compilation counts the graph
    /// it is compiled from.
    pub bytes: usize,
}

struct Slot<T> {
    value: T,
    bytes: usize,
    /// Time of the last request; negative if there was none.
    used: i64,
}

/// A map from keys to `T` that evicts the least recently used value first.
pub(crate) struct Cache<T> {
    slots: HashMap<ShaderKey, Slot<T>>,
    limit: usize,
    clock: i64,
    /// The `used` time of the latest offer. It counts down, so that the latest offer is evicted
    /// first.
    last_offer: i64,
    stats: CacheStats,
}

impl<T: Clone> Cache<T> {
    /// An empty cache with a limit of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Cache<T> {
        Cache { slots: HashMap::new(), limit, clock: 0, last_offer: 0, stats: CacheStats::default() }
    }

    /// Requests the value of `key`.
    pub(crate) fn get(&mut self, key: &ShaderKey) -> Option<T> {
        self.clock += 1;
        match self.slots.get_mut(key) {
            Some(slot) => {
                slot.used = self.clock;
                self.stats.hits += 1;
                Some(slot.value.clone())
            }
            None => {
                self.stats.misses += 1;
                None
            }
        }
    }

    /// Adds a requested value that occupies `held` bytes, evicts as many others as necessary, and
    /// returns the cached value. If another thread has added one for this key since the lookup,
    /// that one stays, so that all users share it.
    pub(crate) fn insert(&mut self, key: ShaderKey, value: T, held: usize) -> T {
        self.clock += 1;
        if let Some(slot) = self.slots.get_mut(&key) {
            // It may be an offer without a request.
            slot.used = self.clock;
            return slot.value.clone();
        }
        self.add(key, Slot { value: value.clone(), bytes: held, used: self.clock });
        value
    }

    /// Adds a value of `held` bytes for later requests. Until the first one it is evicted before
    /// requested values and before earlier offers. Returns false, and adds nothing, if the key has
    /// a value or the limit leaves no room.
    pub(crate) fn offer(&mut self, key: ShaderKey, value: T, held: usize) -> bool {
        if self.has(&key) || !self.has_room(&key, held) {
            return false;
        }
        self.last_offer -= 1;
        self.add(key, Slot { value, bytes: held, used: self.last_offer });
        true
    }

    /// Whether `key` has a value. Does not count as a request.
    pub(crate) fn has(&self, key: &ShaderKey) -> bool {
        self.slots.contains_key(key)
    }

    /// Whether a value of `held` bytes fits without an eviction.
    pub(crate) fn has_room(&self, key: &ShaderKey, held: usize) -> bool {
        self.stats.bytes.saturating_add(key.bytes()).saturating_add(held) <= self.limit
    }

    /// Adds a slot for a key that has none; `slot.bytes` excludes the key.
    fn add(&mut self, key: ShaderKey, mut slot: Slot<T>) {
        slot.bytes += key.bytes();
        self.stats.bytes += slot.bytes;
        self.slots.insert(key, slot);
        self.shrink();
    }

    /// Records that the value of `key` now occupies `held` bytes, and evicts others if necessary.
    /// Does nothing if it was evicted.
    pub(crate) fn resize(&mut self, key: &ShaderKey, held: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            let bytes = key.bytes() + held;
            self.stats.bytes = self.stats.bytes - slot.bytes + bytes;
            slot.bytes = bytes;
            self.shrink();
        }
    }

    /// Evicts the least recently used values until the limit holds or one value is left.
    fn shrink(&mut self) {
        while self.stats.bytes > self.limit && self.slots.len() > 1 {
            let oldest = self.slots.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| key.clone());
            if let Some(slot) = oldest.and_then(|key| self.slots.remove(&key)) {
                self.stats.bytes -= slot.bytes;
                self.stats.evictions += 1;
            }
        }
    }

    /// Drops all values; counters of events stay.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.stats.bytes = 0;
    }

    /// The counters.
    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats { entries: self.slots.len(), ..self.stats }
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
    fn the_least_recently_used_value_is_evicted_first() {
        let words: Vec<[u32; 3]> = (0..4).map(|n| [NOP, NOP | n, END]).collect();
        let one = key(&words[0], &[]).bytes() + 100;
        let mut cache = Cache::new(2 * one);
        for (n, w) in words[..2].iter().enumerate() {
            cache.insert(key(w, &[]), n, 100);
        }
        assert_eq!(cache.get(&key(&words[0], &[])), Some(0));
        cache.insert(key(&words[2], &[]), 2, 100);
        assert_eq!(cache.get(&key(&words[1], &[])), None, "the older of the two was evicted");
        assert_eq!(cache.get(&key(&words[0], &[])), Some(0));
        assert_eq!(cache.insert(key(&words[0], &[]), 9, 100), 0, "the first one stays");
        assert!(cache.stats().bytes <= 2 * one && cache.stats().evictions == 1);
        cache.insert(key(&words[3], &[]), 3, 10 * one);
        assert_eq!(cache.stats().entries, 1, "the newest stays even if it exceeds the limit");
        cache.clear();
        assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
    }

    #[test]
    fn an_offer_evicts_no_requested_value() {
        let words: Vec<[u32; 3]> = (0..5).map(|n| [NOP, NOP | n, END]).collect();
        let keys: Vec<ShaderKey> = words.iter().map(|w| key(w, &[])).collect();
        let one = keys[0].bytes() + 100;
        let mut cache = Cache::new(3 * one);
        cache.insert(keys[0].clone(), 0, 100);
        assert!(cache.offer(keys[1].clone(), 1, 100) && cache.offer(keys[2].clone(), 2, 100));
        assert!(!cache.offer(keys[1].clone(), 9, 100), "the key has a value");
        assert!(!cache.offer(keys[3].clone(), 3, 100), "there is no room");
        assert_eq!((cache.stats().evictions, cache.stats().hits, cache.stats().misses), (0, 0, 0));
        cache.insert(keys[4].clone(), 4, 100);
        assert!(
            cache.has(&keys[0]) && cache.has(&keys[1]) && !cache.has(&keys[2]),
            "the latest offer is evicted first"
        );
        assert_eq!(cache.get(&keys[1]), Some(1), "the first offer, now requested");
        cache.resize(&keys[1], 100 + one);
        assert!(!cache.has(&keys[0]) && cache.has(&keys[1]) && cache.has(&keys[4]));
        // An offer that grows beyond the limit is evicted itself.
        cache.clear();
        cache.insert(keys[0].clone(), 0, 100);
        assert!(cache.offer(keys[2].clone(), 2, 100));
        cache.resize(&keys[2], 3 * one);
        assert!(cache.has(&keys[0]) && !cache.has(&keys[2]));
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
