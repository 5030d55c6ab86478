//! Programs -> the values compiled for them. Two maps lead to a value: the first words of its
//! entry ([`uploads`]), without a lock, and all that it can execute ([`shader_key`]), which are found
//! by exploring the program.
//!
//! Invariants:
//! * The bytes of all values stay within the limit, except that the newest requested value always
//!   stays. An offered value never evicts a requested one.
//! * Every upload leads to a value that is in the cache. So eviction drops all references of the
//!   cache; users that hold a value keep it alive.
//! * A lookup of a known upload writes only to memory of the value that it finds, and allocates
//!   nothing.
//!
//! This file must not depend on how values are compiled.

mod shader_key;
mod uploads;

use foldhash::SharedSeed;
use foldhash::quality::{FoldHasher, RandomState};
pub use shader_key::ShaderKey;
pub(crate) use shader_key::{Exploration, graph};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub(crate) use uploads::Upload;
use uploads::Uploads;

/// A hasher with a seed of this process: a guest does not know which words collide.
fn hasher() -> FoldHasher<'static> {
    FoldHasher::with_seed(0, SharedSeed::global_random())
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
    /// Bytes that they and their keys occupy.
    pub bytes: usize,
}

/// A value, with what lookups record. Aligned, so that no two values share a cache line.
#[repr(align(64))]
struct Slot<T> {
    value: T,
    /// The epoch of the last request; negative if there was none.
    used: AtomicI64,
    hits: AtomicU64,
}

struct CacheEntry<T> {
    slot: Arc<Slot<T>>,
    bytes: usize,
    /// The epoch of its insertion. Of values used in one epoch, the oldest is evicted first.
    inserted: i64,
}

/// A map from programs to `T` that evicts the least recently used value first.
///
/// Time passes with insertions: each has an epoch of its own, and all requests until the next one
/// share one. So a value requested since the last insertion is newer than all others, and requests
/// write to no memory that they share.
pub(crate) struct Cache<T> {
    uploads: Uploads<Slot<T>>,
    epoch: AtomicI64,
    limit: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    entries: HashMap<ShaderKey, CacheEntry<T>, RandomState>,
    /// The entries' hits are not among these.
    stats: CacheStats,
}

impl<T: Clone> Cache<T> {
    /// An empty cache with a limit of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Cache<T> {
        let state = State { entries: HashMap::default(), stats: CacheStats::default() };
        Cache { uploads: Uploads::new(), epoch: AtomicI64::new(0), limit, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // The state is consistent after every statement, so a panic elsewhere leaves it valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a value as the most recently used one.
    fn touch(&self, slot: &Slot<T>) {
        slot.used.store(self.epoch.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn hit(&self, slot: &Slot<T>) -> T {
        self.touch(slot);
        slot.hits.fetch_add(1, Ordering::Relaxed);
        slot.value.clone()
    }

    /// Requests the value of a known upload. `None` counts as no request: [`Cache::get`] follows.
    #[inline]
    pub(crate) fn find(&self, upload: &Upload<'_>) -> Option<T> {
        self.uploads.find(upload, |slot| self.hit(slot))
    }

    /// Requests the value of `key`.
    pub(crate) fn get(&self, key: &ShaderKey) -> Option<T> {
        let mut state = self.state();
        let found = state.entries.get(key).map(|entry| self.hit(&entry.slot));
        state.stats.misses += u64::from(found.is_none());
        found
    }

    /// Adds a requested value that occupies `held` bytes, evicts as many others as necessary, and
    /// returns the cached value. If another thread has added one for this key since the lookup,
    /// that one stays, so that all users share it.
    pub(crate) fn insert(&self, key: ShaderKey, value: T, held: usize) -> T {
        let mut state = self.state();
        if let Some(entry) = state.entries.get(&key) {
            self.touch(&entry.slot);
            return entry.slot.value.clone();
        }
        let inserted = self.epoch.fetch_add(2, Ordering::Relaxed) + 1;
        state.add(key, value.clone(), held, inserted);
        self.evict(state);
        value
    }

    /// Memorises that an upload has this key. Does nothing if the value of `key` was evicted.
    pub(crate) fn memorise(&self, upload: &Upload<'_>, key: &ShaderKey) {
        let state = self.state();
        if let Some((key, entry)) = state.entries.get_key_value(key) {
            self.uploads.insert(upload, key.clone(), entry.slot.clone());
        }
    }

    /// Records that the value of `key` now occupies `held` bytes, and evicts others if necessary.
    /// Does nothing if it was evicted.
    pub(crate) fn resize(&self, key: &ShaderKey, held: usize) {
        let mut state = self.state();
        let State { entries, stats, .. } = &mut *state;
        if let Some(entry) = entries.get_mut(key) {
            let bytes = key.bytes() + held;
            stats.bytes = stats.bytes - entry.bytes + bytes;
            entry.bytes = bytes;
            self.evict(state);
        }
    }

    /// Evicts the least recently used values until the limit holds or one value is left.
    fn evict(&self, mut state: MutexGuard<'_, State<T>>) {
        let mut evicted = Vec::new();
        while state.stats.bytes > self.limit && state.entries.len() > 1 {
            let age = |entry: &CacheEntry<T>| (entry.slot.used.load(Ordering::Relaxed), entry.inserted);
            let oldest = state.entries.iter().min_by_key(|(_, entry)| age(entry)).map(|(key, _)| key.clone());
            evicted.extend(oldest.and_then(|key| state.remove(&key)));
            state.stats.evictions += 1;
        }
        if !evicted.is_empty() {
            self.uploads.remove(&evicted);
        }
        // Values are dropped outside the lock: that may take long.
        drop(state);
    }

    /// Drops all values; counters of events stay.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.stats.hits += state.hits();
        state.stats.bytes = 0;
        let _entries = std::mem::take(&mut state.entries);
        self.uploads.clear();
        // As above.
        drop(state);
    }

    /// The counters. Exact, except that a hit during an eviction by another thread may be missing.
    pub(crate) fn stats(&self) -> CacheStats {
        let state = self.state();
        CacheStats { entries: state.entries.len(), hits: state.stats.hits + state.hits(), ..state.stats }
    }
}

impl<T> State<T> {
    /// Adds a value for a key that has none.
    fn add(&mut self, key: ShaderKey, value: T, held: usize, epoch: i64) {
        let bytes = key.bytes() + held;
        self.stats.bytes += bytes;
        let slot = Arc::new(Slot { value, used: AtomicI64::new(epoch), hits: AtomicU64::new(0) });
        self.entries.insert(key, CacheEntry { slot, bytes, inserted: epoch });
    }

    /// The hits of all entries.
    fn hits(&self) -> u64 {
        self.entries.values().map(|entry| entry.slot.hits.load(Ordering::Relaxed)).sum()
    }

    /// Removes a value from this map, and keeps its hits.
    fn remove(&mut self, key: &ShaderKey) -> Option<Arc<Slot<T>>> {
        let CacheEntry { slot, bytes, .. } = self.entries.remove(key)?;
        self.stats.bytes -= bytes;
        self.stats.hits += slot.hits.load(Ordering::Relaxed);
        Some(slot)
    }
}

#[cfg(test)]
mod tests;
