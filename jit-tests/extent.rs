//! `PICAJIT_FULL` -> whether slow tests run in their complete form. `cargo test` alone runs a short
//! form, and says so.

use std::io::Write;

/// Whether the complete form is requested.
pub fn full() -> bool {
    std::env::var_os("PICAJIT_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The number in an environment variable, or the amount of the requested form.
#[allow(dead_code)] // not every test binary has an amount to vary
pub fn amount(variable: &str, short: u64, complete: u64) -> u64 {
    let set = std::env::var(variable).ok().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    set.unwrap_or(if full() { complete } else { short })
}

/// K and N of a variable that selects every N-th of something from the K-th on.
///
/// # Panics
/// If the variable has another form.
#[allow(dead_code)] // not every test binary has parts
pub fn part(variable: &str) -> Option<(usize, usize)> {
    let text = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    let numbers = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    match numbers.filter(|(k, n)| k < n) {
        None => panic!("{variable} is K/N with K < N"),
        part => part,
    }
}

/// Prints a line that the test runner does not capture.
pub fn announce(line: &str) {
    // A closed standard error is no reason for a test to fail.
    let _ = writeln!(std::io::stderr(), "{line}");
}
