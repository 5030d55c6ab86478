//! Bytes -> the choices of the sweep's generator: random, unusual instructions; native code must
//! give the interpreter's bits.

#![no_main]

mod judge;

use libfuzzer_sys::{Corpus, fuzz_target};
use picajit_fuzz::{Tier, case_from_bytes};

fuzz_target!(|bytes: &[u8]| -> Corpus { judge::judge(&case_from_bytes(bytes, Some(Tier::Insts), judge::VERTICES)) });
