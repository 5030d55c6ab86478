//! Which mutant is on. Part of the mutated copy only.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNSET: u32 = u32::MAX;
const RECORDING: u32 = u32::MAX - 1;
const COUNT: usize = 1 << 14;

static ACTIVE: AtomicU32 = AtomicU32::new(UNSET);
static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// Whether mutant `n` is on: `MUTANT` has its number. With `MUTANT_RECORD`, none is, and the
/// mutants whose place is executed are recorded, also as lines of the file of that name.
#[inline]
pub fn on(n: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    active == n || active >= RECORDING && slow(n)
}

#[cold]
fn slow(n: u32) -> bool {
    if ACTIVE.load(Relaxed) == UNSET {
        let number = std::env::var("MUTANT").ok().and_then(|n| n.parse().ok());
        let none = if std::env::var_os("MUTANT_RECORD").is_some() { RECORDING } else { 0 };
        ACTIVE.store(number.unwrap_or(none), Relaxed);
    }
    if ACTIVE.load(Relaxed) == RECORDING && !REACHED[n as usize].swap(true, Relaxed) {
        let path = std::env::var_os("MUTANT_RECORD").unwrap_or_default();
        if !path.is_empty() {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(format!("{n}\n").as_bytes()));
        }
    }
    ACTIVE.load(Relaxed) == n
}

/// The mutants whose places were executed since the last call.
pub fn take_reached() -> Vec<u32> {
    (0..COUNT).filter(|&n| REACHED[n].swap(false, Relaxed)).map(|n| n as u32).collect()
}
