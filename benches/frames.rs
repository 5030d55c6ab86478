//! Frames of real programs: `cargo bench --bench frames [--features capi] -- FILE...` measures the
//! times of recordings as `picajit bench --frames` does, and counts each draw's instructions and
//! distinct 64-byte lines of code (x86-64 Linux).
//!
//! `--counts` only counts. `--functions` also prints where the lines of each recording's median draw
//! are; it needs `nm`. `--limits` counts a strip of four vertices and register writes of each kind, and
//! fails above the limits.

#[allow(dead_code)] // this bench uses a part
#[path = "../tools/command/src/frames.rs"]
mod frames;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "common/frame_counts.rs"]
mod frame_counts;
#[cfg(all(target_os = "linux", target_arch = "x86_64", feature = "capi"))]
#[path = "common/lookup_counts.rs"]
mod lookup_counts;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "common/single_step.rs"]
mod single_step;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "common/write_counts.rs"]
mod write_counts;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", feature = "capi")))]
mod lookup_counts {
    pub fn lookups(_: bool) -> Result<bool, String> {
        Ok(true)
    }
}
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod frame_counts {
    pub fn strip(_: bool) -> Result<bool, String> {
        Err("instructions are counted on x86-64 Linux only".into())
    }

    pub fn print(_: &str, _: &str, _: bool) -> Result<(), String> {
        strip(false).map(|_| ())
    }
}
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod write_counts {
    pub fn kinds() -> Result<bool, String> {
        super::frame_counts::strip(false)
    }

    pub fn print(_: &str, _: &str) -> Result<(), String> {
        kinds().map(|_| ())
    }
}

use std::process::ExitCode;

fn main() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|a| a == flag);
    // `cargo test --benches` only checks that this starts.
    if !has("--bench") {
        return ExitCode::SUCCESS;
    }
    let mut is_fine = true;
    let mut failed = |what: &str, error: String| {
        eprintln!("{what}: {error}");
        is_fine = false;
    };
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let name = |file: &String| file.rsplit('/').next().unwrap_or(file).split('.').next().unwrap_or(file).to_string();
    let texts: Vec<(String, String)> = files
        .iter()
        .filter_map(|file| match std::fs::read_to_string(file) {
            Ok(text) => Some((name(file), text)),
            Err(error) => {
                failed(file, error.to_string());
                None
            }
        })
        .collect();
    if !has("--counts") && !has("--functions") {
        let rows = texts.iter().filter_map(|(name, text)| {
            frames::measure(name, text, 101, 11).map_err(|error| failed(name, error.to_string())).ok()
        });
        let rows: Vec<_> = rows.collect();
        if !rows.is_empty() {
            println!("{}", frames::table(&rows));
        }
    }
    for (what, counted) in [
        ("a draw of four vertices", frame_counts::strip(has("--functions"))),
        ("writes", write_counts::kinds()),
        ("lookups", lookup_counts::lookups(has("--functions"))),
    ] {
        match counted {
            Ok(is_below) if is_below || !has("--limits") => {}
            Ok(_) => failed(what, "above the limits".into()),
            Err(error) => failed(what, error),
        }
    }
    for (name, text) in &texts {
        let printed =
            frame_counts::print(name, text, has("--functions")).and_then(|()| write_counts::print(name, text));
        if let Err(error) = printed {
            failed(name, error);
        }
    }
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
