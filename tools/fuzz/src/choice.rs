//! A seed, or a fuzzer's bytes -> the choices that a generator makes.
//!
//! Total: exhausted bytes choose 0 for ever, so generators must end by their own limits. The same
//! entropy gives the same choices on every machine.

/// Makes choices from a seed or from bytes.
pub struct Choices<'a> {
    source: Entropy<'a>,
}

enum Entropy<'a> {
    Random(u64),
    Bytes(&'a [u8]),
}

impl<'a> Choices<'a> {
    /// Choices that depend on `seed` alone.
    pub fn from_seed(seed: u64) -> Choices<'static> {
        Choices { source: Entropy::Random(seed) }
    }

    /// Choices read from `bytes`; each takes as few as it needs.
    pub fn from_bytes(bytes: &'a [u8]) -> Choices<'a> {
        Choices { source: Entropy::Bytes(bytes) }
    }

    /// An independent random generator, for bulk data (register contents) that would exhaust a
    /// fuzzer's bytes.
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
            Entropy::Random(state) => (Self::random(state) >> 32) as u32,
            Entropy::Bytes(bytes) => take(bytes, 4),
        }
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u32) -> u32 {
        match &mut self.source {
            Entropy::Random(state) => (((Self::random(state) >> 32) * u64::from(n)) >> 32) as u32,
            Entropy::Bytes(bytes) => take(bytes, if n <= 1 << 8 { 1 } else { 4 }) % n,
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

    /// The index of one of `weights`, with a probability proportional to its weight.
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
