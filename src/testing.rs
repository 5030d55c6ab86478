//! Helpers of several modules' tests: workload sizes, hostile files, and third-party files.

/// `all`, or `few` under Miri. Miri is about a thousand times slower, and for undefined behaviour
/// one case of a kind shows nearly as much as a million.
pub(crate) const fn miri_or<T: Copy>(few: T, all: T) -> T {
    if cfg!(miri) { few } else { all }
}

/// Whether `PICAJIT_FULL` requests the complete form of slow tests.
pub(crate) fn full() -> bool {
    std::env::var_os("PICAJIT_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}

#[path = "../jit-tests/prerequisites.rs"]
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
