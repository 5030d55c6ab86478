//! What a program's entry can reach -> the kernel that was compiled for it.
//!
//! Games upload programs on top of longer, older ones. A [`ShaderKey`] therefore holds the words that can be executed
//! and the descriptors these name, nothing behind them: equal programs stay equal whatever lies in the rest of the
//! memory. A hit compares all of it; the hash only finds the place.
//!
//! Invariant: what the cached kernels occupy stays within the bound, except that the newest one is always kept; what is
//! only offered, and nobody has asked for, never drives out what somebody has. Users that hold a kernel keep it alive
//! beyond its eviction. It must not know how kernels are made.

use crate::ir::cfg::{Cfg, Limits};
use crate::isa::Pc;
use crate::isa::decode::opdesc_index;
use crate::kernel::Config;
use crate::program::{Entry, Program};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// More states than most real shaders have.
pub(crate) const FIRST_STATES: usize = 128;

/// The addresses of all words.
fn all(program: &Program) -> Vec<Pc> {
    (0..program.code().len() as Pc).collect()
}

/// Everything that compiled code depends on. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaderKey {
    /// Of all the rest, so that who looks it up need not go through that each time.
    hash: u64,
    entry: Entry,
    config: Config,
    /// Executable words by address.
    words: Arc<[(Pc, u32)]>,
    /// The descriptors they name, by number.
    opdescs: Arc<[(u8, u32)]>,
}

impl ShaderKey {
    /// The key of `entry` in `program`, found by exploring what it reaches: some microseconds for a real shader,
    /// milliseconds for a hostile one. A program with too many states to explore is identified by all its words.
    pub fn new(program: &Program, entry: Entry, config: Config) -> ShaderKey {
        let reachable = Cfg::explore(program, entry, Limits::default()).unwrap_or_else(|_| all(program));
        ShaderKey::of(program, entry, config, reachable)
    }

    /// The same key, for who has to come to an end: `states` are those that may be explored, from which goes what this takes,
    /// [`FIRST_STATES`] at least. `None` if there were too few.
    pub(crate) fn within(program: &Program, entry: Entry, config: Config, states: &mut usize) -> Option<ShaderKey> {
        let all_states = Limits::default().states;
        let mut limit = FIRST_STATES;
        let reachable = loop {
            *states = states.checked_sub(limit)?;
            match Cfg::explore(program, entry, Limits { states: limit, ..Limits::default() }) {
                Ok(reachable) => break reachable,
                Err(_) if limit < all_states => limit = all_states.min(2 * limit),
                Err(_) => break all(program),
            }
        };
        Some(ShaderKey::of(program, entry, config, reachable))
    }

    fn of(program: &Program, entry: Entry, config: Config, reachable: Vec<Pc>) -> ShaderKey {
        let words: Arc<[(Pc, u32)]> = reachable.iter().map(|&pc| (pc, program.code()[usize::from(pc)])).collect();
        let mut named = [false; crate::isa::OPDESCS];
        words.iter().filter_map(|(_, w)| opdesc_index(*w)).for_each(|n| named[usize::from(n)] = true);
        let opdescs =
            (0..named.len() as u8).filter(|n| named[usize::from(*n)]).map(|n| (n, program.opdesc(n))).collect();
        // The program's length need not be in it: an address that is reached but not among the words is past the end in
        // any program with this key, because otherwise its word would be among them.
        let mut hasher = DefaultHasher::new();
        (entry, config, &words, &opdescs).hash(&mut hasher);
        ShaderKey { hash: hasher.finish(), entry, config, words, opdescs }
    }

    /// Which entry it is of.
    pub fn entry(&self) -> Entry {
        self.entry
    }

    /// The shortest program with this key: zeros where nothing can be executed or no instruction names a descriptor. Its entry
    /// has the same key again, under the same configuration.
    pub fn program(&self) -> Program {
        let mut code = vec![0; self.words.last().map_or(0, |&(pc, _)| usize::from(pc) + 1)];
        let mut opdescs = vec![0; self.opdescs.last().map_or(0, |&(n, _)| usize::from(n) + 1)];
        self.words.iter().for_each(|&(pc, word)| code[usize::from(pc)] = word);
        self.opdescs.iter().for_each(|&(n, opdesc)| opdescs[usize::from(n)] = opdesc);
        Program::from_words(&code, &opdescs).expect("no longer than the program that the key is of")
    }

    /// Bytes the key occupies.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words) + size_of_val(&*self.opdescs)
    }
}

impl Hash for ShaderKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// What a cache has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found their kernel.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Kernels dropped to keep within the bound.
    pub evictions: u64,
    /// Kernels held.
    pub entries: usize,
    /// Bytes they and their keys occupy, by [`Kernel::held_bytes`](crate::kernel::Kernel::held_bytes).
    pub bytes: usize,
}

struct Slot<T> {
    value: T,
    bytes: usize,
    /// When somebody last asked for it; negative if nobody has.
    used: i64,
}

/// A map from keys to `T`, least recently used first out.
pub(crate) struct Cache<T> {
    slots: HashMap<ShaderKey, Slot<T>>,
    limit: usize,
    clock: i64,
    /// Counts down: what is offered later is older.
    offered: i64,
    stats: CacheStats,
}

impl<T: Clone> Cache<T> {
    /// An empty cache that may hold `limit` bytes.
    pub(crate) fn new(limit: usize) -> Cache<T> {
        Cache { slots: HashMap::new(), limit, clock: 0, offered: 0, stats: CacheStats::default() }
    }

    /// What was stored for `key`.
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

    /// Stores `value`, which occupies `held` bytes, and evicts what has to go. If somebody else has stored one
    /// meanwhile, that one stays, so that all users share it; the stored one is returned.
    pub(crate) fn insert(&mut self, key: ShaderKey, value: T, held: usize) -> T {
        self.clock += 1;
        if let Some(slot) = self.slots.get_mut(&key) {
            // It may have been offered meanwhile, to nobody.
            slot.used = self.clock;
            return slot.value.clone();
        }
        self.store(key, Slot { value: value.clone(), bytes: held, used: self.clock });
        value
    }

    /// Stores `value`, which occupies `held` bytes, for somebody who may ask for it; until then it goes before all that was
    /// asked for, and before what was offered earlier. Whether it was stored: not if there is one, or no room.
    pub(crate) fn offer(&mut self, key: ShaderKey, value: T, held: usize) -> bool {
        if self.has(&key) || !self.has_room(&key, held) {
            return false;
        }
        self.offered -= 1;
        self.store(key, Slot { value, bytes: held, used: self.offered });
        true
    }

    /// Whether something is stored for `key`; nobody has asked for it by that.
    pub(crate) fn has(&self, key: &ShaderKey) -> bool {
        self.slots.contains_key(key)
    }

    /// Whether nothing would have to go for something of `held` bytes.
    pub(crate) fn has_room(&self, key: &ShaderKey, held: usize) -> bool {
        self.stats.bytes.saturating_add(key.bytes()).saturating_add(held) <= self.limit
    }

    /// Stores what is not there yet, and evicts what has to go. The slot comes with the bytes of the value alone.
    fn store(&mut self, key: ShaderKey, mut slot: Slot<T>) {
        slot.bytes += key.bytes();
        self.stats.bytes += slot.bytes;
        self.slots.insert(key, slot);
        self.shrink();
    }

    /// What is stored for `key` now occupies `held` bytes; others may have to go for it. Nothing happens if it has gone itself.
    pub(crate) fn resize(&mut self, key: &ShaderKey, held: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            let bytes = key.bytes() + held;
            self.stats.bytes = self.stats.bytes - slot.bytes + bytes;
            slot.bytes = bytes;
            self.shrink();
        }
    }

    /// Evicts what has to go.
    fn shrink(&mut self) {
        while self.stats.bytes > self.limit && self.slots.len() > 1 {
            let oldest = self.slots.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| key.clone());
            if let Some(slot) = oldest.and_then(|key| self.slots.remove(&key)) {
                self.stats.bytes -= slot.bytes;
                self.stats.evictions += 1;
            }
        }
    }

    /// Forgets everything, statistics apart.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.stats.bytes = 0;
    }

    /// What it has done and holds.
    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats { entries: self.slots.len(), ..self.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;

    fn key(words: &[u32], opdescs: &[u32]) -> ShaderKey {
        let program = Program::from_words(words, opdescs).expect("short");
        ShaderKey::new(&program, Entry::vertex(0), Config::default())
    }

    const END: u32 = 0x22 << 26;
    const NOP: u32 = 0x21 << 26;
    const MOV_DESC_1: u32 = 0x13 << 26 | 1;

    #[test]
    fn only_what_can_run_counts() {
        assert_eq!(key(&[NOP, END], &[]), key(&[NOP, END, 0xDEAD_BEEF, MOV_DESC_1], &[7, 8, 9]));
        assert_ne!(key(&[NOP, END], &[]), key(&[END, NOP], &[]));
        assert_eq!(key(&[MOV_DESC_1, END], &[1, 5]), key(&[MOV_DESC_1, END], &[2, 5, 3]));
        assert_ne!(key(&[MOV_DESC_1, END], &[1, 5]), key(&[MOV_DESC_1, END], &[1, 6]));
        assert_ne!(key(&[NOP], &[]), key(&[NOP, NOP], &[]), "one more word before the program's end");
    }

    #[test]
    fn a_key_found_within_bounds_is_the_same() {
        let cases = [(0, 128), (127, 128), (128, 128 + 256), (1500, 128 + 256 + 512 + 1024 + 2048)];
        for (nops, taken) in cases.into_iter().take(miri_or(2, 4)) {
            let mut words = vec![NOP; nops];
            words.extend([END, MOV_DESC_1]);
            let program = Program::from_words(&words, &[]).expect("short");
            let mut states = 10_000;
            let found = ShaderKey::within(&program, Entry::vertex(0), Config::default(), &mut states);
            assert_eq!(found, Some(key(&words, &[])));
            assert_eq!(states, 10_000 - taken, "{nops}");
        }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let words: Vec<[u32; 3]> = (0..4).map(|n| [NOP, NOP | n, END]).collect();
        let one = key(&words[0], &[]).bytes() + 100;
        let mut cache = Cache::new(2 * one);
        for (n, w) in words[..2].iter().enumerate() {
            cache.insert(key(w, &[]), n, 100);
        }
        assert_eq!(cache.get(&key(&words[0], &[])), Some(0));
        cache.insert(key(&words[2], &[]), 2, 100);
        assert_eq!(cache.get(&key(&words[1], &[])), None, "the older of the two went");
        assert_eq!(cache.get(&key(&words[0], &[])), Some(0));
        assert_eq!(cache.insert(key(&words[0], &[]), 9, 100), 0, "the first one stays");
        assert!(cache.stats().bytes <= 2 * one && cache.stats().evictions == 1);
        cache.insert(key(&words[3], &[]), 3, 10 * one);
        assert_eq!(cache.stats().entries, 1, "the newest is kept even if it is too large");
        cache.clear();
        assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
    }

    #[test]
    fn what_is_offered_drives_nobody_out() {
        let words: Vec<[u32; 3]> = (0..5).map(|n| [NOP, NOP | n, END]).collect();
        let keys: Vec<ShaderKey> = words.iter().map(|w| key(w, &[])).collect();
        let one = keys[0].bytes() + 100;
        let mut cache = Cache::new(3 * one);
        cache.insert(keys[0].clone(), 0, 100);
        assert!(cache.offer(keys[1].clone(), 1, 100) && cache.offer(keys[2].clone(), 2, 100));
        assert!(!cache.offer(keys[1].clone(), 9, 100), "it is there");
        assert!(!cache.offer(keys[3].clone(), 3, 100), "there is no room");
        assert_eq!((cache.stats().evictions, cache.stats().hits, cache.stats().misses), (0, 0, 0));
        cache.insert(keys[4].clone(), 4, 100);
        assert!(cache.has(&keys[0]) && cache.has(&keys[1]) && !cache.has(&keys[2]), "the last one offered goes first");
        assert_eq!(cache.get(&keys[1]), Some(1), "the first one, which from now on is like any other");
        cache.resize(&keys[1], 100 + one);
        assert!(!cache.has(&keys[0]) && cache.has(&keys[1]) && cache.has(&keys[4]));
        // What grows beyond its room goes itself, if nobody has asked for it.
        cache.clear();
        cache.insert(keys[0].clone(), 0, 100);
        assert!(cache.offer(keys[2].clone(), 2, 100));
        cache.resize(&keys[2], 3 * one);
        assert!(cache.has(&keys[0]) && !cache.has(&keys[2]));
    }

    #[test]
    fn a_keys_program_has_the_key() {
        // A call over a gap, words that can't run, a descriptor with a high number, an end behind the last word.
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
    fn so_has_that_of_a_key_with_too_many_states() {
        // Calls in calls, each of another length: more states than are explored.
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
        // Found out in steps it is the same, if there are enough.
        let within = |states: &mut usize| ShaderKey::within(&key.program(), key.entry(), Config::default(), states);
        let mut enough = 128 + 256 + 512 + 1024 + 2048 + 4096 + 8192;
        assert_eq!((within(&mut (enough - 1)), within(&mut enough), enough), (None, Some(key.clone()), 0));
    }
}
