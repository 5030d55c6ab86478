//! Bytes -> a program and what it runs on; native code must give the interpreter's bits.
//!
//! The first byte chooses: even, and the rest are the choices of the sweep's generator (mostly sensible programs, which
//! get far); odd, and the rest are raw words, so that nothing is out of reach. Register contents come from a seed in the
//! bytes, since mutating them finds little.

#![no_main]

#[path = "../../sweep.rs"]
mod sweep;

use libfuzzer_sys::{Corpus, fuzz_target};
use picajit::interp::Interp;
use picajit::ir::cfg::{Cfg, Limits};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::jit::{Jit, Variant};
use picajit::kernel::Config;
use picajit::program::{Entry, Program};
use std::sync::{Arc, OnceLock};
use sweep::case::{self, Case};
use sweep::choice::Choices;
use sweep::compare::{Engine, compare, shrink};
use sweep::generate::case_from_bytes;

/// Enough for batches of a whole, of three and a rest, and of one.
const VERTICES: u32 = 5;

/// Small, so that a long program that loops takes milliseconds; the sweep has larger ones.
const FUEL: [u32; 8] = [0, 1, 2, 3, 16, 64, 128, 256];

/// States of control flow that a program may have here. Beyond, the checks that debug builds make of every stage take
/// seconds for one program; the sweep, without instrumentation, goes up to the engine's own limit.
const STATES: usize = 512;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some((&mode, rest)) = bytes.split_first() else { return Corpus::Reject };
    let case = match mode & 1 {
        0 => case_from_bytes(rest, VERTICES),
        _ => raw(rest),
    };
    if Cfg::build(&case.program, case.entry, Limits { states: STATES, ..Limits::default() }).is_err() {
        return Corpus::Reject;
    }
    let [vec4, unoptimised] = jits();
    let engines: [Engine<'_>; 2] = [("vec4", vec4), ("unoptimised", unoptimised)];
    match compare(&case, &engines) {
        Ok(outcome) => {
            for (refused, (name, _)) in outcome.refused.iter().zip(engines) {
                if let Some(reason) = refused {
                    panic!("{name}: {reason}\n{case}");
                }
            }
        }
        Err(found) => {
            // Shrinking runs the case many times and may meet libFuzzer's time limit; this much is known before.
            eprintln!("{found}");
            let engine = engines.into_iter().find(|(name, _)| *name == found.engine).expect("it is one that ran");
            panic!("{}", shrink(found, engine));
        }
    }
    Corpus::Keep
});

fn jits() -> &'static [Arc<Jit>; 2] {
    static JITS: OnceLock<[Arc<Jit>; 2]> = OnceLock::new();
    JITS.get_or_init(|| {
        [Variant::Vec4, Variant::Unoptimised]
            .map(|variant| Jit::new(variant, Arc::new(Interp)).expect("this host runs native code"))
    })
}

/// A fixed header, then descriptors, then code to the end. Every field is a whole number of bytes, so that a mutation of
/// one leaves the others.
///
/// | bytes | |
/// |---|---|
/// | 0 | bit 0: geometry; bits 1-3: fuel; bits 4-6: vertices; bit 7: masks from the seed |
/// | 1-2 | entry, modulo two more than there are words |
/// | 3 | number of descriptors, modulo 129 |
/// | 4-7 | seed of registers and uniforms |
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
    let wild = bulk.pick(&[0, 5, 30]);
    let mut uniforms = case::uniforms(&mut bulk, wild);
    uniforms.b = u16::from_le_bytes([header[8], header[9]]);
    for (i, bytes) in uniforms.i.iter_mut().zip(header[10..].chunks_exact(4)) {
        i.copy_from_slice(bytes);
    }
    let vertices = 1 + u32::from(flags >> 4 & 7) % VERTICES;
    let mut mask = || if flags >> 7 != 0 { bulk.word() as u16 } else { 0xFFFF };
    let (input_mask, output_mask) = (mask(), mask());
    Case {
        name: "raw words".to_string(),
        program: Arc::new(program),
        entry: Entry { pc, stage },
        config: Config { precision: Precision::default(), fuel: FUEL[usize::from(flags >> 1 & 7)] },
        uniforms,
        unit: case::unit(&mut bulk, wild),
        inputs: (0..vertices).map(|_| case::registers(&mut bulk, wild)).collect(),
        input_mask,
        output_mask,
    }
}
