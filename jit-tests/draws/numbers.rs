//! Bytes or a seed -> the numbers that determine a case.

/// Numbers that determine a case: bytes of a fuzzer, then a generator's.
pub struct Numbers<'a> {
    bytes: &'a [u8],
    seed: u64,
}

impl<'a> Numbers<'a> {
    pub fn new(bytes: &'a [u8], seed: u64) -> Numbers<'a> {
        Numbers { bytes, seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    pub fn word(&mut self) -> u32 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let mut word = (self.seed >> 16) as u32;
        if let Some((bytes, rest)) = self.bytes.split_first_chunk() {
            (word, self.bytes) = (u32::from_le_bytes(*bytes), rest);
        }
        word
    }

    pub fn below(&mut self, n: u32) -> u32 {
        (u64::from(self.word() >> 4) % u64::from(n)) as u32
    }

    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}
