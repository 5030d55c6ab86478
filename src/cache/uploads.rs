//! Words as a game uploads them -> the cached value of an earlier upload, without a lock.
//!
//! Exploring a program takes 1 to 70 us (2 to 511 words), and many hosts look a shader up with each
//! draw. A lookup here hashes the words and compares them.
//!
//! The table is set-associative: the hash selects a set of [`WAYS`] uploads. Readers load a set
//! with `arc-swap` and write nothing that other threads read. Writers replace whole sets.
//!
//! Invariant: a lookup compares all words, so programs with equal hashes cost time only, and no
//! more than one full set. The memory of uploads stays within a limit. This file must not depend on
//! how values are found by their reachable words.

use crate::isa::OPDESCS;
use crate::program::Entry;
use arc_swap::ArcSwapOption;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit on the bytes of uploads: some hundred of 512 words. Exceeding it clears the table, which
/// costs one exploration for each program in use.
const MAX_BYTES: usize = 1 << 20;
/// With some hundred uploads, hardly any set is full.
const SETS: usize = 256;
/// Uploads in a set. The newest one replaces the oldest one.
const WAYS: usize = 8;

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
    /// An upload. As in [`Program::from_words`](crate::program::Program::from_words), descriptors
    /// after the first 128 are ignored. `on_unit` selects one of an engine's two configurations.
    #[inline]
    pub(crate) fn new(code: &'a [u32], opdescs: &'a [u32], entry: Entry, on_unit: bool) -> Upload<'a> {
        let opdescs = &opdescs[..opdescs.len().min(OPDESCS)];
        let mut hasher = super::hasher();
        u32::hash_slice(code, &mut hasher);
        u32::hash_slice(opdescs, &mut hasher);
        let entry_bits = (entry.pc as u64) << 2 | (entry.stage as u64) << 1 | on_unit as u64;
        hasher.write_u64((code.len() as u64) << 32 | entry_bits);
        Upload { hash: hasher.finish(), code, opdescs, entry, on_unit }
    }
}

/// An upload in the table.
struct Record<T> {
    hash: u64,
    entry: Entry,
    on_unit: bool,
    code_words: usize,
    /// Code, then descriptors.
    words: Arc<[u32]>,
    value: Arc<T>,
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Record<T> {
        Record { words: self.words.clone(), value: self.value.clone(), ..*self }
    }
}

impl<T> Record<T> {
    fn new(upload: &Upload<'_>, value: Arc<T>) -> Record<T> {
        let &Upload { hash, code, opdescs, entry, on_unit } = upload;
        Record { hash, entry, on_unit, code_words: code.len(), words: [code, opdescs].concat().into(), value }
    }

    #[inline]
    fn is_of(&self, upload: &Upload<'_>) -> bool {
        self.hash == upload.hash
            && (self.entry, self.on_unit) == (upload.entry, upload.on_unit)
            && self.words.split_at_checked(self.code_words) == Some((upload.code, upload.opdescs))
    }

    fn bytes(&self) -> usize {
        size_of::<Record<T>>() + size_of_val(&*self.words)
    }
}

/// Uploads whose hashes select the same set, newest first.
type Set<T> = Vec<Record<T>>;

/// The table of uploads.
pub(super) struct Uploads<T> {
    sets: Box<[ArcSwapOption<Set<T>>]>,
    /// Bytes of all records. Only writers use it.
    bytes: AtomicUsize,
}

impl<T> Uploads<T> {
    pub(super) fn new() -> Uploads<T> {
        Uploads { sets: (0..SETS).map(|_| ArcSwapOption::empty()).collect(), bytes: AtomicUsize::new(0) }
    }

    fn set(&self, hash: u64) -> &ArcSwapOption<Set<T>> {
        &self.sets[hash as usize % SETS]
    }

    /// What `found` makes of an upload's value, if the table has the upload.
    #[inline]
    pub(super) fn find<R>(&self, upload: &Upload<'_>, found: impl FnOnce(&T) -> R) -> Option<R> {
        let set = self.set(upload.hash).load();
        let record = set.as_ref()?.iter().find(|record| record.is_of(upload))?;
        Some(found(&record.value))
    }

    /// Adds an upload, or replaces its value. Callers must not write concurrently.
    pub(super) fn insert(&self, upload: &Upload<'_>, value: Arc<T>) {
        let new = Record::new(upload, value);
        if self.bytes.load(Ordering::Relaxed) + new.bytes() > MAX_BYTES {
            self.clear();
        }
        let set = self.set(upload.hash);
        let mut records = vec![new];
        if let Some(old) = &*set.load() {
            records.extend(old.iter().filter(|record| !record.is_of(upload)).take(WAYS - 1).cloned());
        }
        self.replace(set, records);
    }

    /// Removes the uploads of these values. Callers must not write concurrently.
    pub(super) fn remove(&self, values: &[Arc<T>]) {
        let stays = |record: &&Record<T>| !values.iter().any(|value| Arc::ptr_eq(value, &record.value));
        for set in &self.sets {
            let records: Set<T> = match &*set.load() {
                Some(old) if !old.iter().all(|record| stays(&record)) => old.iter().filter(stays).cloned().collect(),
                _ => continue,
            };
            self.replace(set, records);
        }
    }

    /// Removes all uploads. Callers must not write concurrently.
    pub(super) fn clear(&self) {
        self.sets.iter().for_each(|set| self.replace(set, Vec::new()));
    }

    #[inline(never)]
    fn replace(&self, set: &ArcSwapOption<Set<T>>, new: Set<T>) {
        let bytes = |set: &Set<T>| set.iter().map(Record::bytes).sum::<usize>();
        let added = bytes(&new);
        let old = set.swap((!new.is_empty()).then(|| Arc::new(new)));
        let removed = old.as_deref().map_or(0, bytes);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + added - removed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Stage;
    use crate::testing::miri_or;
    use std::collections::HashSet;

    const END: u32 = 0x22 << 26;

    fn get(uploads: &Uploads<u32>, upload: &Upload<'_>) -> Option<u32> {
        uploads.find(upload, |value| *value)
    }

    /// Uploads that differ in one word, one length, the entry, the stage or the configuration.
    fn similar() -> [Upload<'static>; 11] {
        let vertex = Entry::vertex(0);
        [
            Upload::new(&[END], &[], vertex, false),
            Upload::new(&[END], &[], vertex, true),
            Upload::new(&[END], &[], Entry { stage: Stage::Geometry, ..vertex }, false),
            Upload::new(&[END], &[], Entry::vertex(1), false),
            Upload::new(&[END, 0], &[], vertex, false),
            Upload::new(&[END], &[0], vertex, false),
            Upload::new(&[END], &[END], vertex, false),
            Upload::new(&[END, END], &[], vertex, false),
            Upload::new(&[], &[END], vertex, false),
            Upload::new(&[0, 0, 0, 0, END], &[], vertex, false),
            Upload::new(&[0, 0, 0, END, 0], &[], vertex, false),
        ]
    }

    #[test]
    fn a_lookup_compares_words_descriptors_entry_and_configuration() {
        let all = similar();
        assert_eq!(all.iter().map(|a| a.hash).collect::<HashSet<_>>().len(), all.len());
        // As if all had the same hash.
        let all = all.map(|upload| Upload { hash: 0, ..upload });
        for n in 0..all.len() {
            let uploads = Uploads::new();
            uploads.insert(&all[n], Arc::new(7));
            for (m, other) in all.iter().enumerate() {
                assert_eq!(get(&uploads, other), (m == n).then_some(7), "{m} {n}");
            }
        }
    }

    #[test]
    fn of_colliding_uploads_the_newest_stay() {
        let all = similar().map(|upload| Upload { hash: 0, ..upload });
        let uploads = Uploads::new();
        (0..all.len()).for_each(|n| uploads.insert(&all[n], Arc::new(n as u32)));
        let found: Vec<_> = all.iter().map(|upload| get(&uploads, upload)).collect();
        let stays = |n: usize| (n + WAYS >= all.len()).then_some(n as u32);
        assert_eq!(found, (0..all.len()).map(stays).collect::<Vec<_>>());
        // A value that changes takes no second place.
        uploads.insert(&all[10], Arc::new(99));
        assert_eq!([3, 10].map(|n| get(&uploads, &all[n])), [Some(3), Some(99)]);
    }

    #[test]
    fn descriptors_that_no_instruction_can_name_are_ignored() {
        let (short, long) = ([5; OPDESCS], [5; OPDESCS + 9]);
        let [short, long] = [&short[..], &long].map(|opdescs| Upload::new(&[END], opdescs, Entry::vertex(0), false));
        let uploads = Uploads::new();
        uploads.insert(&short, Arc::new(1));
        assert_eq!(get(&uploads, &long), Some(1));
    }

    #[test]
    fn removed_values_have_no_references() {
        let uploads = Uploads::new();
        let values = [1, 2].map(Arc::new);
        let all = similar();
        all.iter().enumerate().for_each(|(n, upload)| uploads.insert(upload, values[n % 2].clone()));
        uploads.remove(&values[..1]);
        assert_eq!(values.each_ref().map(Arc::strong_count), [1, 1 + all.len() / 2]);
        assert_eq!([0, 1].map(|n| get(&uploads, &all[n])), [None, Some(2)]);
        uploads.clear();
        assert_eq!((Arc::strong_count(&values[1]), uploads.bytes.load(Ordering::Relaxed)), (1, 0));
    }

    #[test]
    fn several_values_leave_the_sets_that_they_share() {
        let uploads = Uploads::new();
        let values = [0, 1, 2].map(Arc::new);
        // One set.
        let all = similar().map(|upload| Upload { hash: 0, ..upload });
        all[..6].iter().enumerate().for_each(|(n, upload)| uploads.insert(upload, values[n % 3].clone()));
        uploads.remove(&values[..2]);
        assert_eq!(values.each_ref().map(Arc::strong_count), [1, 1, 3]);
    }

    #[test]
    fn the_limit_holds_and_the_latest_upload_stays() {
        let uploads = Uploads::new();
        let mut longest = 0;
        for n in 0..miri_or(80, 3000) {
            let mut code = vec![END; miri_or(4096, 512)];
            code[1] = n;
            let upload = Upload::new(&code, &[], Entry::vertex(0), false);
            // A replaced record is counted once.
            (0..2).for_each(|_| uploads.insert(&upload, Arc::new(n)));
            assert_eq!(get(&uploads, &upload), Some(n));
            let sets: Vec<_> = uploads.sets.iter().filter_map(|set| set.load_full()).collect();
            let records: Vec<_> = sets.iter().flat_map(|set| set.iter()).collect();
            let bytes = uploads.bytes.load(Ordering::Relaxed);
            assert_eq!(bytes, records.iter().map(|record| record.bytes()).sum::<usize>());
            assert!(bytes <= MAX_BYTES);
            if records.len() < longest {
                assert_eq!(records.len(), 1, "the table was cleared");
                return;
            }
            longest = records.len();
        }
        panic!("the limit was never exceeded");
    }
}
