//! Tests of the language as a whole: known sources, bad sources, texts made from words, and garbage.

mod errors;
mod extensions;
mod robust;
mod round_trip;
mod snippets;
mod tables;

/// Statements as the notes write them, separated by ` / `, to lines.
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
