//! Bytes -> registers, guest memory and draws from it; the results must be those of a slow
//! reference. A seed supplies what the bytes do not.

#![no_main]

#[path = "../../draws/case.rs"]
mod case;

use case::{AsIs, Bench, Numbers, Tally};
use libfuzzer_sys::fuzz_target;
use picajit::engine::BackendChoice;
use std::sync::LazyLock;

static BENCH: LazyLock<Bench> = LazyLock::new(|| Bench::new(BackendChoice::NativeRequired));

fuzz_target!(|bytes: &[u8]| {
    let mut numbers = Numbers::new(bytes, bytes.len() as u64);
    if let Err(difference) = BENCH.run(&mut numbers, &AsIs, &mut Tally::default()) {
        panic!("{difference}");
    }
});
