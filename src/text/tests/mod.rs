//! Tests of the whole language: known sources, bad sources, disassembled words, and random text.

mod analysis;
mod errors;
mod extensions;
mod help;
mod libraries;
mod robust;
mod round_trip;
mod snippets;
mod tables;

/// Replaces the notes' separator ` / ` by line ends.
fn lines(text: &str) -> String {
    text.replace(" / ", "\n")
}

/// A small generator of pseudo-random numbers (xorshift), for repeatable tests.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n
    }
}
