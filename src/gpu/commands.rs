//! A command list -> register writes, in order.
//!
//! A list consists of pairs of words: value and header. Header bits: 15:0 register, 19:16 byte
//! mask, 27:20 number of extra values that follow, 31 whether each extra value goes to the next
//! register. Padding fills the extra values up to a whole number of pairs (3dbrew).
//!
//! Invariant: any words form a list, with at most one write per word. This file must not know the
//! meaning of registers.

/// A register write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The register.
    pub id: u16,
    /// The value.
    pub value: u32,
    /// The bytes to write: bit n for bits 8n+7:8n. Only the low four bits count.
    pub mask: u8,
}

/// How the execution of a command list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListExit {
    /// With the last word.
    End,
    /// The engine is cancelled. The registers of the units are unspecified, and the last draw may be
    /// incomplete.
    Cancelled,
    /// A draw wanted more vertices than [`Limits::list`](super::Limits::list) leaves it. Those that it
    /// left are drawn, and the state is that of the console at this point of the list.
    VertexLimit,
}

/// The writes of a command list.
#[derive(Clone, Debug)]
pub struct Commands<'a> {
    words: &'a [u32],
    /// Of the current command: values left, their register, and its step.
    left: usize,
    id: u16,
    step: u16,
    mask: u8,
    /// Whether a padding word follows the last value.
    padded: bool,
}

impl<'a> Commands<'a> {
    /// The list may end anywhere; missing values are not written.
    pub fn new(words: &'a [u32]) -> Commands<'a> {
        Commands { words, left: 0, id: 0, step: 0, mask: 0, padded: false }
    }

    fn next_word(&mut self) -> Option<u32> {
        let (&word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }
}

impl Iterator for Commands<'_> {
    type Item = Write;

    fn next(&mut self) -> Option<Write> {
        if self.left > 0 {
            self.left -= 1;
            self.id = self.id.wrapping_add(self.step);
            let write = Write { id: self.id, value: self.next_word()?, mask: self.mask };
            if self.left == 0 && std::mem::take(&mut self.padded) {
                self.next_word();
            }
            return Some(write);
        }
        let (value, header) = (self.next_word()?, self.next_word()?);
        self.id = header as u16;
        self.mask = (header >> 16 & 0xF) as u8;
        self.left = (header >> 20 & 0xFF) as usize;
        self.step = (header >> 31) as u16;
        self.padded = !self.left.is_multiple_of(2);
        Some(Write { id: self.id, value, mask: self.mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(words: &[u32]) -> Vec<(u16, u32, u8)> {
        Commands::new(words).map(|w| (w.id, w.value, w.mask)).collect()
    }

    #[test]
    fn a_command_is_a_value_a_header_and_more_values() {
        assert_eq!(writes(&[7, 0x000F_0229]), [(0x229, 7, 15)]);
        assert_eq!(
            writes(&[1, 0x802F_02C0, 2, 3, 9, 0x0001_0045]),
            [(0x2C0, 1, 15), (0x2C1, 2, 15), (0x2C2, 3, 15), (0x45, 9, 1)]
        );
        assert_eq!(
            writes(&[1, 0x001F_02C1, 2, 0xFFFF_FFFF, 9, 0x0001_0045]),
            [(0x2C1, 1, 15), (0x2C1, 2, 15), (0x45, 9, 1)],
            "an odd number of values is padded"
        );
    }

    #[test]
    fn a_list_may_end_anywhere() {
        let words = [1, 0x802F_02C0, 2, 3];
        let counts: Vec<usize> = (0..=4).map(|n| writes(&words[..n]).len()).collect();
        assert_eq!(counts, [0, 0, 1, 2, 3]);
        assert_eq!(writes(&[1, 0xFFFF_FFFF, 2]), [(0xFFFF, 1, 15), (0, 2, 15)], "ids wrap around");
    }
}
