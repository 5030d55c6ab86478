//! The shaders that a benchmark measures: files named on the command line, or the built-in ones.

use crate::builtin;
use picajit::container::shbin::Shbin;

/// Names and files.
pub fn shaders() -> Vec<(String, Shbin)> {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        let assemble = |source| picajit::text::assemble(source).expect("a test assembles each").shbin;
        return builtin::BUILTINS.iter().map(|b| (b.name.to_string(), assemble(b.source))).collect();
    }
    let read = |path: &String| {
        let bytes = std::fs::read(path).map_err(|e| e.to_string());
        match bytes.and_then(|bytes| Shbin::parse(&bytes).map_err(|e| e.to_string())) {
            Ok(shbin) => Some((path.rsplit('/').next().unwrap_or(path).to_string(), shbin)),
            Err(error) => {
                println!("{path}: {error}");
                None
            }
        }
    };
    files.iter().filter_map(read).collect()
}
