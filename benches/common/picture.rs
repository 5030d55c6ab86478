//! `--plot FILE` -> the picture of a benchmark.

use crate::plot::Plot;

/// The file that the command line names.
pub fn file() -> Option<String> {
    std::env::args().skip_while(|a| a != "--plot").nth(1)
}

/// Draws into the file.
pub fn draw(plot: &Plot, file: &str) {
    match std::fs::write(file, plot.svg()) {
        Ok(()) => println!("drawn: {file}"),
        Err(error) => println!("{file}: {error}"),
    }
}
