//! Helpers of several modules' tests: workload sizes, and the corpus of real files.

/// `all`, or `few` under Miri. Miri is about a thousand times slower, and for undefined behaviour
/// one case of a kind shows nearly as much as a million.
pub(crate) const fn miri_or<T: Copy>(few: T, all: T) -> T {
    if cfg!(miri) { few } else { all }
}

/// Real files, from the corpus folder.
pub(crate) mod corpus {
    use std::path::PathBuf;

    /// All files of the corpus folder `name` that end in `.name`, as (file name, bytes), sorted.
    /// Without a corpus it prints a note and returns `None`.
    pub(crate) fn files(name: &str) -> Option<Vec<(String, Vec<u8>)>> {
        let root = std::env::var_os("PICAJIT_CORPUS")
            .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/corpus")), PathBuf::from);
        let Ok(dir) = std::fs::read_dir(root.join(name)) else {
            // Bypasses the test harness's capture, so that a run without the corpus is
            // recognisable.
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "skipped: no corpus at {}", root.join(name).display());
            return None;
        };
        let mut files: Vec<_> = dir
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == name))
            .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&p).unwrap()))
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{name}: the corpus folder is there but has no .{name} file");
        Some(files)
    }
}
