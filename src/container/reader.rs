//! Bytes of a file -> bounds-checked tables and their records.
//!
//! Offsets are absolute and 64 bits wide, so that no sum of two fields of a file wraps. Nothing is
//! allocated here: a caller knows that a table is inside the file before it allocates.

use std::fmt;

/// A whole file. Numbers are little endian.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

/// A table that ends past the end of the file: `count` entries of `size` bytes at `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastEnd {
    /// Absolute offset of the first entry.
    pub start: u64,
    /// Number of entries; of bytes if `size` is 1.
    pub count: u64,
    /// Bytes per entry.
    pub size: usize,
    /// Length of the file.
    pub len: usize,
}

impl fmt::Display for PastEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PastEnd { start, count, size, len } = self;
        match size {
            1 => write!(f, "({count:#x} bytes at {start:#x})")?,
            _ if *count == 1 => write!(f, "(1 entry of {size} bytes at {start:#x})")?,
            _ => write!(f, "({count} entries of {size} bytes at {start:#x})")?,
        }
        write!(f, " reaches past the end of the file ({len:#x} bytes)")
    }
}

impl std::error::Error for PastEnd {}

impl<'a> Reader<'a> {
    /// A reader of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// Length of the file.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the file has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// `count` entries of `size` bytes (not zero) at `start`.
    pub fn table(&self, start: u64, count: u64, size: usize) -> Result<Table<'a>, PastEnd> {
        let past = PastEnd { start, count, size, len: self.len() };
        let end = count.checked_mul(size as u64).and_then(|n| start.checked_add(n)).ok_or(past)?;
        if end > self.len() as u64 {
            return Err(past);
        }
        // Both casts are exact, since start <= end <= len.
        Ok(Table { at: start as usize, size, bytes: &self.bytes[start as usize..end as usize] })
    }

    /// One entry of `size` bytes (not zero) at `start`, such as a header.
    pub fn record(&self, start: u64, size: usize) -> Result<Record<'a>, PastEnd> {
        let Table { at, bytes, .. } = self.table(start, size as u64, 1)?;
        Ok(Record { at, bytes })
    }
}

/// A table inside the file.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    at: usize,
    size: usize,
    bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// A table without entries.
    pub const EMPTY: Table<'static> = Table { at: 0, size: 1, bytes: &[] };

    /// All bytes of the table.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'a>> + use<'a> {
        let Table { at, size, bytes } = *self;
        bytes.chunks_exact(size).enumerate().map(move |(i, bytes)| Record { at: at + i * size, bytes })
    }
}

/// An entry inside the file. Field offsets are constants of the program, so an offset beyond the
/// entry's size is a bug and panics.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    at: usize,
    bytes: &'a [u8],
}

impl Record<'_> {
    /// Absolute offset of the field at `field`.
    pub const fn at(&self, field: usize) -> usize {
        self.at + field
    }

    /// The `N` bytes at `field`.
    pub fn array<const N: usize>(&self, field: usize) -> [u8; N] {
        *self.bytes[field..].first_chunk().expect("the field is inside the entry")
    }

    /// The byte at `field`.
    pub fn u8(&self, field: usize) -> u8 {
        self.bytes[field]
    }

    /// The 16-bit number at `field`.
    pub fn u16(&self, field: usize) -> u16 {
        u16::from_le_bytes(self.array(field))
    }

    /// The 32-bit number at `field`.
    pub fn u32(&self, field: usize) -> u32 {
        u32::from_le_bytes(self.array(field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_offsets_absolute() {
        let bytes: Vec<u8> = (0..16).collect();
        let table = Reader::new(&bytes).table(4, 3, 4).unwrap();
        let last = table.iter().nth(2).unwrap();
        assert_eq!((last.u8(1), last.u16(1), last.u32(0)), (13, 0x0E0D, 0x0F0E0D0C));
        assert_eq!((last.at(3), last.array::<2>(2)), (15, [14, 15]));
        assert_eq!(table.iter().len(), 3);
    }

    #[test]
    fn a_table_may_end_with_the_file_and_not_a_byte_later() {
        let r = Reader::new(&[0; 16]);
        assert!(r.table(0, 2, 8).is_ok() && r.table(16, 0, 8).is_ok() && r.record(15, 1).is_ok());
        for (start, count, size) in [(1, 2, 8), (0, 17, 1), (17, 0, 8), (u64::MAX, 1, 1), (8, u64::MAX, 8)] {
            let past = r.table(start, count, size).unwrap_err();
            assert_eq!(past, PastEnd { start, count, size, len: 16 });
        }
        assert_eq!(
            r.table(9, 1, 8).unwrap_err().to_string(),
            "(1 entry of 8 bytes at 0x9) reaches past the end of the file (0x10 bytes)"
        );
        assert_eq!(
            r.record(9, 8).unwrap_err().to_string(),
            "(0x8 bytes at 0x9) reaches past the end of the file (0x10 bytes)"
        );
    }
}
