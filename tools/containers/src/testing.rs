//! Third-party files, and damaged versions of a file.

/// `all`, or `few` under Miri, which is about a thousand times slower.
pub(crate) const fn miri_or<T: Copy>(few: T, all: T) -> T {
    if cfg!(miri) { few } else { all }
}

/// Whether `PICAJIT_FULL` requests the complete form of slow tests.
pub(crate) fn full() -> bool {
    std::env::var_os("PICAJIT_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Damaged versions of a file, for readers of hostile input.
pub(crate) mod hostile {
    use super::miri_or;
    use std::time::{Duration, Instant};

    /// Limit of each kind of mutation of one file in the complete form.
    const LIMIT: Duration = Duration::from_secs(3);
    /// Cuts and positions of the short form in each file.
    const PLACES: usize = 6_000;

    /// Calls `check` for the file cut off at every byte, and with a changed byte at every position.
    /// Files of more than 6,000 bytes have 6,000 of both.
    ///
    /// `PICAJIT_FULL` cuts at every byte. It also tries all 255 changes of each byte, and 100,000
    /// random mutations, each within three seconds.
    pub(crate) fn files(bytes: &[u8], mut check: impl FnMut(&[u8])) {
        let full = super::full();
        let short = miri_or(bytes.len() / 16, bytes.len().div_ceil(PLACES)).max(1);
        for end in (0..bytes.len()).step_by(if full { 1 } else { short }) {
            check(&bytes[..end]);
        }
        let mut file = bytes.to_vec();
        let mut change = |at: usize, change: u8| {
            file[at] = bytes[at] ^ change;
            check(&file);
            file[at] = bytes[at];
        };
        for at in (0..bytes.len()).step_by(short) {
            // The change differs from position to position, so that many kinds of change occur.
            change(at, (at as u8).wrapping_mul(151) | 1);
        }
        if !full {
            return;
        }
        let start = Instant::now();
        let all = (1..=255).flat_map(|n| (0..bytes.len()).map(move |at| (n, at)));
        for (n, at) in all.take_while(|_| start.elapsed() < LIMIT) {
            change(at, n);
        }
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let start = Instant::now();
        for _ in (0..100_000).take_while(|_| start.elapsed() < LIMIT) {
            let places: [usize; 3] = std::array::from_fn(|_| random(bytes.len()));
            places.iter().for_each(|&at| file[at] = random(256) as u8);
            check(&file);
            places.iter().for_each(|&at| file[at] = bytes[at]);
        }
    }
}

#[path = "../../../jit-tests/prerequisites.rs"]
pub(crate) mod prerequisites;

/// Real shader files of other projects.
pub(crate) mod third_party {
    use super::prerequisites::third_party_files;

    /// All files `*.name` of the folder `name`, as (file name, bytes), sorted. Empty without them.
    pub(crate) fn files(name: &str) -> Vec<(String, Vec<u8>)> {
        with_ending(name, name)
    }

    /// All files of the folder `name` that end in `.ending`.
    pub(crate) fn with_ending(name: &str, ending: &str) -> Vec<(String, Vec<u8>)> {
        let read = |path: std::path::PathBuf| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
        };
        third_party_files(name, ending).into_iter().map(read).collect()
    }
}
