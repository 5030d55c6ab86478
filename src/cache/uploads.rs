//! Words as a game uploads them -> the cached value of an equal program, without a lock.
//!
//! Exploring a program takes 1 to 70 us (2 to 511 words), and many hosts look a shader up with each
//! draw. Between two draws a host executes other code, so a lookup finds its data and code in no
//! cache: it reads few lines of both. It hashes the first words of the entry, and compares those
//! that the entry can execute. They decide what else it executes, so unequal words elsewhere don't
//! matter.
//!
//! The table is set-associative: the hash selects a set of [`WAYS`] uploads. Readers load a set
//! with `arc-swap` and write nothing that other threads read. Writers replace whole sets.
//!
//! Invariant: a lookup compares all words that count, so programs with equal hashes cost time only,
//! and no more than one full set. This file must not depend on how values are found by their keys.

use super::ShaderKey;
use crate::program::Entry;
use arc_swap::ArcSwapOption;
use std::hash::Hasher;
use std::sync::Arc;

/// With some hundred uploads, hardly any set is full.
const SETS: usize = 256;
/// Uploads in a set. The newest one replaces the oldest one.
const WAYS: usize = 8;
/// The first words of an entry, which select the set: one or two cache lines.
const HASHED: usize = 16;
/// An odd factor with bits everywhere.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// A program in the words of its upload, with the entry that the host requests.
#[derive(Clone, Copy)]
pub(crate) struct Upload<'a> {
    hash: u64,
    code: &'a [u32],
    opdescs: &'a [u32],
    entry: Entry,
    on_unit: bool,
}

impl<'a> Upload<'a> {
    /// An upload. `on_unit` selects one of an engine's two configurations.
    #[inline]
    pub(crate) fn new(code: &'a [u32], opdescs: &'a [u32], entry: Entry, on_unit: bool) -> Upload<'a> {
        let first = code.get(usize::from(entry.pc)..).unwrap_or_default();
        let first = &first[..first.len().min(HASHED)];
        // The hasher's own loop over a slice is ten cache lines of code.
        let fold = |hash: u64, &word: &u32| (hash.rotate_left(5) ^ u64::from(word)).wrapping_mul(FACTOR);
        let mut hasher = super::hasher();
        hasher.write_u64(first.iter().fold(0, fold));
        hasher.write_u32(u32::from(entry.pc) << 2 | (entry.stage as u32) << 1 | u32::from(on_unit));
        Upload { hash: hasher.finish(), code, opdescs, entry, on_unit }
    }
}

/// An upload in the table.
struct Record<T> {
    hash: u64,
    on_unit: bool,
    key: ShaderKey,
    value: Arc<T>,
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Record<T> {
        Record { key: self.key.clone(), value: self.value.clone(), ..*self }
    }
}

impl<T> Record<T> {
    #[inline]
    fn is_of(&self, upload: &Upload<'_>) -> bool {
        let &Upload { hash, code, opdescs, entry, on_unit } = upload;
        (self.hash, self.on_unit) == (hash, on_unit) && self.key.is_of(code, opdescs, entry)
    }
}

/// Uploads whose hashes select the same set, newest first.
type Set<T> = Vec<Record<T>>;

/// The table of uploads.
pub(super) struct Uploads<T>(Box<[ArcSwapOption<Set<T>>]>);

impl<T> Uploads<T> {
    pub(super) fn new() -> Uploads<T> {
        Uploads((0..SETS).map(|_| ArcSwapOption::empty()).collect())
    }

    fn set(&self, hash: u64) -> &ArcSwapOption<Set<T>> {
        &self.0[hash as usize % SETS]
    }

    /// What `found` makes of an upload's value, if the table has the upload.
    #[inline]
    pub(super) fn find<R>(&self, upload: &Upload<'_>, found: impl FnOnce(&T) -> R) -> Option<R> {
        let set = self.set(upload.hash).load();
        let record = set.as_ref()?.iter().find(|record| record.is_of(upload))?;
        Some(found(&record.value))
    }

    /// Adds an upload with its key, or replaces its value. Callers must not write concurrently.
    pub(super) fn insert(&self, upload: &Upload<'_>, key: ShaderKey, value: Arc<T>) {
        let &Upload { hash, on_unit, .. } = upload;
        let set = self.set(hash);
        let mut records = vec![Record { hash, on_unit, key, value }];
        if let Some(old) = &*set.load() {
            records.extend(old.iter().filter(|record| !record.is_of(upload)).take(WAYS - 1).cloned());
        }
        replace(set, records);
    }

    /// Removes the uploads of these values. Callers must not write concurrently.
    pub(super) fn remove(&self, values: &[Arc<T>]) {
        let stays = |record: &&Record<T>| !values.iter().any(|value| Arc::ptr_eq(value, &record.value));
        for set in &self.0 {
            let records: Set<T> = match &*set.load() {
                Some(old) if !old.iter().all(|record| stays(&record)) => old.iter().filter(stays).cloned().collect(),
                _ => continue,
            };
            replace(set, records);
        }
    }

    /// Removes all uploads. Callers must not write concurrently.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|set| replace(set, Vec::new()));
    }
}

#[inline(never)]
fn replace<T>(set: &ArcSwapOption<Set<T>>, new: Set<T>) {
    set.store((!new.is_empty()).then(|| Arc::new(new)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Stage;
    use crate::kernel::Config;
    use crate::program::Program;
    use std::collections::HashSet;

    const END: u32 = 0x22 << 26;
    const NOP: u32 = 0x21 << 26;
    /// With descriptor 0.
    const MOV: u32 = 0x13 << 26;

    fn get<T: Copy>(uploads: &Uploads<T>, upload: &Upload<'_>) -> Option<T> {
        uploads.find(upload, |value| *value)
    }

    /// Uploads that differ in a word, a descriptor, the length where the entry passes the last word, the
    /// entry, the stage or the configuration.
    fn similar() -> [Upload<'static>; 11] {
        let vertex = Entry::vertex(0);
        [
            Upload::new(&[END], &[], vertex, false),
            Upload::new(&[END], &[], vertex, true),
            Upload::new(&[END], &[], Entry { stage: Stage::Geometry, ..vertex }, false),
            Upload::new(&[NOP, END], &[], Entry::vertex(1), false),
            Upload::new(&[NOP], &[], vertex, false),
            Upload::new(&[NOP, NOP], &[], vertex, false),
            Upload::new(&[NOP, END], &[], vertex, false),
            Upload::new(&[MOV, END], &[], vertex, false),
            Upload::new(&[MOV, END], &[1], vertex, false),
            Upload::new(&[NOP, MOV, END], &[1, 2], Entry::vertex(1), false),
            Upload::new(&[], &[END], vertex, false),
        ]
    }

    fn insert<T>(uploads: &Uploads<T>, upload: &Upload<'_>, value: T) {
        uploads.insert(upload, key(upload), Arc::new(value));
    }

    fn key(upload: &Upload<'_>) -> ShaderKey {
        let program = Program::from_words(upload.code, upload.opdescs).expect("short");
        ShaderKey::new(&program, upload.entry, Config::default())
    }

    #[test]
    fn a_lookup_compares_words_descriptors_entry_and_configuration() {
        let all = similar();
        let without_opdescs = |upload: &&Upload<'_>| upload.opdescs.is_empty();
        let hashes: HashSet<u64> = all.iter().filter(without_opdescs).map(|upload| upload.hash).collect();
        assert_eq!(hashes.len(), all.iter().filter(without_opdescs).count());
        // As if all had the same hash.
        let all = all.map(|upload| Upload { hash: 0, ..upload });
        for n in 0..all.len() {
            let uploads = Uploads::new();
            insert(&uploads, &all[n], 7);
            for (m, other) in all.iter().enumerate() {
                assert_eq!(get(&uploads, other), (m == n).then_some(7), "{m} {n}");
            }
        }
    }

    #[test]
    fn what_the_entry_does_not_reach_is_not_compared() {
        fn new<'a>(code: &'a [u32], opdescs: &'a [u32]) -> Upload<'a> {
            Upload::new(code, opdescs, Entry::vertex(0), false)
        }
        let mut long = vec![NOP; HASHED];
        long.extend([MOV, END]);
        let uploads = Uploads::new();
        insert(&uploads, &new(&long, &[5, 6]), 1);
        long.extend([1, 2, 3]);
        assert_eq!(get(&uploads, &new(&long, &[5, 7, 8])), Some(1));
        assert_eq!(get(&uploads, &new(&long, &[6, 6])), None, "its descriptor");
        long[HASHED] = MOV | 1;
        assert_eq!(get(&uploads, &new(&long, &[5, 6])), None, "its word, after those that are hashed");
        // A descriptor that is missing is zero.
        insert(&uploads, &new(&long, &[5, 0]), 2);
        assert_eq!(get(&uploads, &new(&long, &[])), Some(2));
    }

    #[test]
    fn of_colliding_uploads_the_newest_stay() {
        let all = similar().map(|upload| Upload { hash: 0, ..upload });
        let uploads = Uploads::new();
        (0..all.len()).for_each(|n| insert(&uploads, &all[n], n));
        let found: Vec<_> = all.iter().map(|upload| get(&uploads, upload)).collect();
        let stays = |n: usize| (n + WAYS >= all.len()).then_some(n);
        assert_eq!(found, (0..all.len()).map(stays).collect::<Vec<_>>());
        // A value that changes takes no second place.
        insert(&uploads, &all[10], 99);
        assert_eq!([3, 10].map(|n| get(&uploads, &all[n])), [Some(3), Some(99)]);
    }

    #[test]
    fn removed_values_have_no_references() {
        let uploads = Uploads::new();
        let values = [1, 2].map(Arc::new);
        let all = similar();
        let add = |(n, upload): (usize, _)| uploads.insert(upload, key(upload), values[n % 2].clone());
        all.iter().enumerate().for_each(add);
        uploads.remove(&values[..1]);
        assert_eq!(values.each_ref().map(Arc::strong_count), [1, 1 + all.len() / 2]);
        assert_eq!([0, 1].map(|n| get(&uploads, &all[n])), [None, Some(2)]);
        uploads.clear();
        assert_eq!(Arc::strong_count(&values[1]), 1);
    }

    #[test]
    fn several_values_leave_the_sets_that_they_share() {
        let uploads = Uploads::new();
        let values = [0, 1, 2].map(Arc::new);
        // One set.
        let all = similar().map(|upload| Upload { hash: 0, ..upload });
        let add = |(n, upload): (usize, _)| uploads.insert(upload, key(upload), values[n % 3].clone());
        all[..6].iter().enumerate().for_each(add);
        uploads.remove(&values[..2]);
        assert_eq!(values.each_ref().map(Arc::strong_count), [1, 1, 3]);
    }
}
