//! Bytes -> raw words and their inputs; native code must give the interpreter's bits. Any program
//! is reachable.
//!
//! Register contents come from a seed in the bytes, since mutating them finds little.

#![no_main]

mod judge;

use libfuzzer_sys::{Corpus, fuzz_target};
use picajit_fuzz::choice::Choices;
use picajit_fuzz::{Case, registers};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::internals::kernel::Config;
use picajit::program::{Entry, Program};
use std::sync::Arc;

/// Small, so that a long program that loops takes milliseconds; the sweep has larger ones.
const FUEL: [u32; 8] = [0, 1, 2, 3, 16, 64, 128, 256];

fuzz_target!(|bytes: &[u8]| -> Corpus { judge::judge(&raw(bytes)) });

/// A fixed header, then descriptors, then code to the end. Every field is a whole number of bytes,
/// so that a mutation of one leaves the others.
///
/// | bytes | |
/// |---|---|
/// | 0 | bit 0: geometry; bits 1-3: fuel; bits 4-6: vertices; bit 7: masks from the seed |
/// | 1-2 | entry, modulo two more than there are words |
/// | 3 | number of descriptors, modulo 129 |
/// | 4-7 | seed of registers, uniforms and number format |
/// | 8-9 | boolean uniforms |
/// | 10-25 | integer uniforms |
fn raw(bytes: &[u8]) -> Case {
    let mut header = [0; 26];
    let taken = bytes.len().min(header.len());
    header[..taken].copy_from_slice(&bytes[..taken]);
    let words: Vec<u32> = bytes[taken..].as_chunks().0.iter().map(|&w| u32::from_le_bytes(w)).collect();
    let (opdescs, code) = words.split_at(words.len().min(usize::from(header[3] % 129)));
    let program = Program::from_words(code, opdescs).expect("inputs are shorter than the largest program");

    let flags = header[0];
    let stage = if flags & 1 != 0 { Stage::Geometry } else { Stage::Vertex };
    let pc = u16::from_le_bytes([header[1], header[2]]) % (code.len() as u16 + 2);
    let mut bulk = Choices::from_seed(u64::from(u32::from_le_bytes([header[4], header[5], header[6], header[7]])));
    let mix = bulk.pick(&registers::MIXES);
    let mut uniforms = registers::uniforms(&mut bulk, mix);
    uniforms.b = u16::from_le_bytes([header[8], header[9]]);
    for (i, bytes) in uniforms.i.iter_mut().zip(header[10..].chunks_exact(4)) {
        i.copy_from_slice(bytes);
    }
    let vertices = 1 + u32::from(flags >> 4 & 7) % judge::VERTICES;
    let mut mask = || if flags >> 7 != 0 { bulk.word() as u16 } else { 0xFFFF };
    let (input_mask, output_mask) = (mask(), mask());
    Case {
        name: "raw words".to_string(),
        program: Arc::new(program),
        entry: Entry { pc, stage },
        config: Config {
            precision: bulk.pick(&Precision::ALL),
            fuel: FUEL[usize::from(flags >> 1 & 7)],
            ..Config::default()
        },
        uniforms,
        unit: registers::unit(&mut bulk, mix),
        inputs: (0..vertices).map(|_| registers::file(&mut bulk, mix)).collect(),
        input_mask,
        output_mask,
    }
}
