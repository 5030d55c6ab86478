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

/// The writes of a command list, from a position in it on. A copy is a position to return to.
#[derive(Clone, Debug)]
pub struct Commands<'a> {
    list: &'a [u32],
    /// The next word.
    next: usize,
    /// Of the current command: its header, values left, and the register of the last one.
    header: u32,
    left: usize,
    id: u16,
}

/// The number of extra values of a command.
const fn extra_values(header: u32) -> usize {
    (header >> 20 & 0xFF) as usize
}

impl<'a> Commands<'a> {
    /// All writes of a list. It may end anywhere; missing values are not written.
    pub fn new(list: &'a [u32]) -> Commands<'a> {
        Commands { list, next: 0, header: 0, left: 0, id: 0 }
    }

    /// The writes from a [`Commands::position`] on. Any position is safe: after more values than a
    /// command has, and in the middle of a command, words are what they are for a list from there on.
    pub fn at(list: &'a [u32], (command, values): (usize, usize)) -> Commands<'a> {
        let mut commands = Commands { next: command.min(list.len()), ..Commands::new(list) };
        if let (Some(&header), Some(more)) = (list.get(commands.next + 1), values.checked_sub(1)) {
            commands.header = header;
            let more = more.min(extra_values(header));
            commands.left = extra_values(header) - more;
            commands.id = (header as u16).wrapping_add((header >> 31) as u16 * more as u16);
            commands.next += 2 + more;
            commands.skip_padding();
        }
        commands
    }

    /// Where the next write is: the first word of its command, and the number of values of that
    /// command that are written. A list begins at (0, 0).
    pub fn position(&self) -> (usize, usize) {
        // A word for each value and one for the header.
        let values = extra_values(self.header) + 1 - self.left;
        match self.left {
            0 => (self.next.min(self.list.len()), 0),
            _ => (self.next - values - 1, values),
        }
    }

    /// The next write, if its register is one of these.
    #[inline]
    pub(super) fn next_if(&mut self, is_taken: impl FnOnce(u16) -> bool) -> Option<Write> {
        let id = match self.left {
            0 => *self.list.get(self.next + 1)? as u16,
            _ => self.next_id(),
        };
        if is_taken(id) { self.next() } else { None }
    }

    /// Skips the padding after the last of several extra values.
    #[inline]
    fn skip_padding(&mut self) {
        self.next += usize::from(self.left == 0 && !extra_values(self.header).is_multiple_of(2));
    }

    /// The register of the next value of the current command.
    #[inline]
    fn next_id(&self) -> u16 {
        self.id.wrapping_add((self.header >> 31) as u16)
    }
}

impl Iterator for Commands<'_> {
    type Item = Write;

    #[inline]
    fn next(&mut self) -> Option<Write> {
        let value = *self.list.get(self.next)?;
        if self.left == 0 {
            self.header = *self.list.get(self.next + 1)?;
            self.next += 2;
            (self.left, self.id) = (extra_values(self.header), self.header as u16);
        } else {
            self.next += 1;
            self.left -= 1;
            self.id = self.next_id();
            self.skip_padding();
        }
        Some(Write { id: self.id, value, mask: (self.header >> 16 & 0xF) as u8 })
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

    #[test]
    fn every_position_is_one_to_return_to() {
        let list = [7, 0x000F_0229, 1, 0x802F_02C0, 2, 3, 1, 0x001F_02C1, 2, 0xFFFF_FFFF, 9, 0x0FF1_0045, 1, 2];
        for end in 0..=list.len() {
            let mut commands = Commands::new(&list[..end]);
            loop {
                let again = Commands::at(&list[..end], commands.position());
                assert_eq!(again.position(), commands.position());
                assert_eq!(again.collect::<Vec<_>>(), commands.clone().collect::<Vec<_>>());
                if commands.next().is_none() {
                    break;
                }
            }
        }
        let command = |command, values| Commands::at(&list, (command, values)).next().map(|w| w.id);
        assert_eq!([command(2, 1), command(2, 3), command(2, 4)], [Some(0x2C1), Some(0x2C1), Some(0x2C1)]);
        assert_eq!([command(usize::MAX, usize::MAX), command(14, 0)], [None; 2]);
    }
}
