//! The cache, with integers as values.

use super::*;
use crate::kernel::Config;
use crate::program::{Entry, Program};
use crate::testing::miri_or;

fn key(words: &[u32], opdescs: &[u32]) -> ShaderKey {
    let program = Program::from_words(words, opdescs).expect("short");
    ShaderKey::new(&program, Entry::vertex(0), Config::default())
}

const END: u32 = 0x22 << 26;
const NOP: u32 = 0x21 << 26;

#[test]
fn the_least_recently_used_value_is_evicted_first() {
    let words: Vec<[u32; 3]> = (0..4).map(|n| [NOP, NOP | n, END]).collect();
    let one = key(&words[0], &[]).bytes() + 100;
    let cache = Cache::new(2 * one);
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
fn an_insertion_that_finds_a_value_counts_as_its_use() {
    let keys: Vec<ShaderKey> = (0..3).map(|n| key(&[NOP, NOP | n, END], &[])).collect();
    let cache = Cache::new(2 * (keys[0].bytes() + 100));
    for n in [0, 1, 0, 2] {
        cache.insert(keys[n].clone(), n, 100);
    }
    assert_eq!([0, 1].map(|n| cache.get(&keys[n])), [Some(0), None]);
}

#[test]
fn sizes_are_those_of_the_last_resize() {
    let keys: Vec<ShaderKey> = (0..2).map(|n| key(&[NOP, NOP | n, END], &[])).collect();
    let cache = Cache::new(2 * (keys[0].bytes() + 100));
    cache.insert(keys[0].clone(), 0, 10);
    for held in [70, 20, 90] {
        cache.resize(&keys[0], held);
        assert_eq!(cache.stats().bytes, keys[0].bytes() + held);
    }
    cache.insert(keys[1].clone(), 1, 150);
    assert_eq!((cache.stats().entries, cache.stats().bytes), (1, keys[1].bytes() + 150));
}

/// A value whose drop notes whether the cache's lock is free.
#[derive(Clone)]
struct Noting(#[expect(dead_code, reason = "it is dropped")] Arc<Note>);

struct Note {
    cache: std::sync::Weak<Cache<Noting>>,
    free: Arc<Mutex<Vec<bool>>>,
}

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            self.free.lock().expect("no test panics").push(cache.state.try_lock().is_ok());
        }
    }
}

#[test]
fn values_are_dropped_outside_the_lock() {
    let (cache, free) = (Arc::new(Cache::new(1)), Arc::new(Mutex::new(Vec::new())));
    for n in 0..3 {
        let note = Note { cache: Arc::downgrade(&cache), free: free.clone() };
        drop(cache.insert(key(&[NOP, NOP | n, END], &[]), Noting(Arc::new(note)), 10));
    }
    cache.clear();
    assert_eq!(*free.lock().expect("no test panics"), [true; 3], "two evicted, and one cleared");
}

/// An upload of these words for [`key`].
fn upload<'a>(words: &'a [u32], opdescs: &'a [u32]) -> Upload<'a> {
    Upload::new(words, opdescs, Entry::vertex(0), false)
}

#[test]
fn a_known_upload_leads_to_the_value_of_its_key() {
    let cache = Cache::new(1000);
    let (short, long) = ([NOP, END], [NOP, END, 7]);
    assert_eq!(cache.find(&upload(&short, &[])), None);
    cache.memorise(&upload(&short, &[]), &key(&short, &[]));
    assert_eq!(cache.find(&upload(&short, &[])), None, "the key has no value");
    cache.insert(key(&short, &[]), 1, 0);
    cache.memorise(&upload(&short, &[]), &key(&short, &[]));
    assert_eq!(cache.find(&upload(&short, &[])), Some(1));
    assert_eq!(cache.find(&upload(&long, &[])), None, "an unreachable word differs");
    assert_eq!(cache.get(&key(&long, &[])), Some(1));
    cache.memorise(&upload(&long, &[]), &key(&long, &[]));
    assert_eq!(cache.find(&upload(&long, &[])), Some(1));
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.entries), (3, 0, 1));
    cache.clear();
    assert_eq!([&short[..], &long].map(|words| cache.find(&upload(words, &[]))), [None; 2]);
    assert_eq!((cache.stats().hits, cache.stats().bytes), (3, 0), "hits of dropped values count");
}

#[test]
fn requests_of_known_uploads_count_as_uses_and_evicted_values_are_dropped() {
    let words: Vec<[u32; 3]> = (0..4).map(|n| [NOP, NOP | n, END]).collect();
    let keys: Vec<ShaderKey> = words.iter().map(|w| key(w, &[])).collect();
    let values: Vec<Arc<usize>> = (0..4).map(Arc::new).collect();
    let cache = Cache::new(3 * (keys[0].bytes() + 100));
    let add = |n: usize| {
        cache.insert(keys[n].clone(), values[n].clone(), 100);
        cache.memorise(&upload(&words[n], &[]), &keys[n]);
    };
    let find = |n: usize| cache.find(&upload(&words[n], &[])).map(|value| *value);
    let references = |n: usize| Arc::strong_count(&values[n]);
    (0..3).for_each(add);
    assert_eq!([find(0), find(0), find(2)], [Some(0), Some(0), Some(2)]);
    add(3);
    assert_eq!([0, 1, 2, 3].map(references), [2, 1, 2, 2], "1 was used least recently");
    assert_eq!([0, 1, 2, 3].map(find), [Some(0), None, Some(2), Some(3)]);
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.evictions, stats.entries), (6, 0, 1, 3));
    // An evicted value returns, and the cache counts it again.
    add(1);
    assert_eq!((find(1), references(1)), (Some(1), 2));
    assert_eq!((cache.stats().evictions, cache.stats().entries, cache.stats().bytes), (2, 3, stats.bytes));
    cache.resize(&keys[1], 100 + stats.bytes);
    assert_eq!(cache.stats().entries, 1, "the newest value stays");
    assert_eq!((find(1), cache.stats().hits), (Some(1), 8), "hits of evicted values count");
}

#[test]
fn threads_find_insert_and_evict() {
    const PROGRAMS: usize = 12;
    let words: Vec<[u32; 3]> = (0..PROGRAMS as u32).map(|n| [NOP, NOP | n, END]).collect();
    let keys: Vec<ShaderKey> = words.iter().map(|w| key(w, &[])).collect();
    let values: Vec<Arc<usize>> = (0..PROGRAMS).map(Arc::new).collect();
    // Two thirds fit.
    let cache = Cache::new(PROGRAMS * 2 / 3 * keys[0].bytes());
    let rounds = miri_or(40, 5000);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (cache, words, keys, values) = (&cache, &words, &keys, &values);
            scope.spawn(move || {
                let mut x = seed + 1u32;
                for round in 0..rounds {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let n = (x >> 16) as usize % PROGRAMS;
                    let known = cache.find(&upload(&words[n], &[])).or_else(|| cache.get(&keys[n]));
                    let value = known.unwrap_or_else(|| {
                        let value = cache.insert(keys[n].clone(), values[n].clone(), 0);
                        cache.memorise(&upload(&words[n], &[]), &keys[n]);
                        value
                    });
                    assert_eq!(*value, n);
                    if round % 1000 == 500 {
                        cache.clear();
                    }
                }
            });
        }
    });
    let stats = cache.stats();
    assert!(stats.evictions > 0 && stats.misses > 0 && stats.entries > 0, "{stats:?}");
    assert_eq!(stats.bytes, stats.entries * keys[0].bytes());
    assert!(stats.bytes <= PROGRAMS * 2 / 3 * keys[0].bytes());
    cache.clear();
    assert!(values.iter().all(|value| Arc::strong_count(value) == 1), "nothing keeps an evicted value");
}
