//! A seed, or a fuzzer's bytes -> the choices that a generator makes.
//!
//! Total: bytes that have run out choose 0 for ever, so generators must end by their own limits. The same source gives the
//! same choices on every machine. It must not know what is generated.

/// Where choices come from.
pub struct Choices<'a> {
    source: Source<'a>,
}

enum Source<'a> {
    Random(u64),
    Bytes(&'a [u8]),
}

impl<'a> Choices<'a> {
    /// Choices that depend on `seed` alone.
    pub fn from_seed(seed: u64) -> Choices<'static> {
        Choices { source: Source::Random(seed) }
    }

    /// Choices read off `bytes`, as few as each one needs.
    pub fn from_bytes(bytes: &'a [u8]) -> Choices<'a> {
        Choices { source: Source::Bytes(bytes) }
    }

    /// A random source of its own, for bulk (register contents) that would eat up a fuzzer's bytes.
    pub fn fork(&mut self) -> Choices<'static> {
        let seed = u64::from(self.word()) << 32 | u64::from(self.word());
        Choices::from_seed(seed)
    }

    /// 64 bits of the generator "splitmix64".
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Any 32 bits.
    pub fn word(&mut self) -> u32 {
        match &mut self.source {
            Source::Random(state) => (Self::random(state) >> 32) as u32,
            Source::Bytes(bytes) => take(bytes, 4),
        }
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u32) -> u32 {
        match &mut self.source {
            Source::Random(state) => (((Self::random(state) >> 32) * u64::from(n)) >> 32) as u32,
            Source::Bytes(bytes) => take(bytes, if n <= 1 << 8 { 1 } else { 4 }) % n,
        }
    }

    /// True in `p` of 100 cases.
    pub fn percent(&mut self, p: u32) -> bool {
        self.below(100) < p
    }

    /// One of `items`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u32) as usize]
    }

    /// The place of one of `weights`, as often as it weighs.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut at = self.below(weights.iter().sum());
        weights
            .iter()
            .position(|&w| {
                let here = at < w;
                at = at.saturating_sub(w);
                here
            })
            .expect("the choice is below the sum of the weights")
    }
}

/// Little endian; missing bytes are 0.
fn take(bytes: &mut &[u8], n: usize) -> u32 {
    let (head, rest) = bytes.split_at(n.min(bytes.len()));
    *bytes = rest;
    head.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}
