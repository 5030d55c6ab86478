//! What tests of several modules share: how much they do, and real files.

/// `all`; or `few` in Miri, where everything takes some thousand times as long, and one case of a kind tells nearly what
/// a million do, that nothing undefined is done.
pub(crate) const fn miri_or<T: Copy>(few: T, all: T) -> T {
    if cfg!(miri) { few } else { all }
}

/// Real files, read from where they are kept beside the project.
pub(crate) mod corpus {
    use std::path::PathBuf;

    /// All files below the corpus folder `name` that end in `.name`, as (file name, bytes) in order; `None`, after
    /// saying so, where there is no corpus.
    pub(crate) fn files(name: &str) -> Option<Vec<(String, Vec<u8>)>> {
        let root = std::env::var_os("PICAJIT_CORPUS")
            .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/corpus")), PathBuf::from);
        let Ok(dir) = std::fs::read_dir(root.join(name)) else {
            // Not through the test harness's capture, so that a run without the corpus can be told from one with it.
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
