//! A command list -> register writes, in order.
//!
//! A list is pairs of words, value and header. Header bits: 15:0 register, 19:16 which bytes are written, 27:20 how
//! many more values follow, 31 whether each of these goes to the register after. What follows is filled up to a whole
//! number of pairs (3dbrew). Invariant: any words make a list, as many writes at most as there are words. It must not
//! know what a register is for.

/// A register write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Which register.
    pub id: u16,
    /// What.
    pub value: u32,
    /// Which bytes: bit n for bits 8n+7:8n. Only the low four bits count.
    pub mask: u8,
}

/// The writes of a command list.
#[derive(Clone, Debug)]
pub struct Commands<'a> {
    words: &'a [u32],
    /// Of the command that has begun: how many values are left, where they go, by how much the register changes.
    left: usize,
    id: u16,
    step: u16,
    mask: u8,
    /// Whether a word follows that only fills a pair.
    filled: bool,
}

impl<'a> Commands<'a> {
    /// The list may end anywhere; what is missing is not written.
    pub fn new(words: &'a [u32]) -> Commands<'a> {
        Commands { words, left: 0, id: 0, step: 0, mask: 0, filled: false }
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
            if self.left == 0 && std::mem::take(&mut self.filled) {
                self.next_word();
            }
            return Some(write);
        }
        let (value, header) = (self.next_word()?, self.next_word()?);
        self.id = header as u16;
        self.mask = (header >> 16 & 0xF) as u8;
        self.left = (header >> 20 & 0xFF) as usize;
        self.step = (header >> 31) as u16;
        self.filled = !self.left.is_multiple_of(2);
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
            "an odd number of values is filled up"
        );
    }

    #[test]
    fn a_list_may_end_anywhere() {
        let words = [1, 0x802F_02C0, 2, 3];
        let counts: Vec<usize> = (0..=4).map(|n| writes(&words[..n]).len()).collect();
        assert_eq!(counts, [0, 0, 1, 2, 3]);
        assert_eq!(writes(&[1, 0xFFFF_FFFF, 2]), [(0xFFFF, 1, 15), (0, 2, 15)], "ids go round, not out of bounds");
    }
}
