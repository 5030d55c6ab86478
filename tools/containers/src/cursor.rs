//! Bytes of a file in order -> checked fields, and the error that every sequential reader returns.
//!
//! A cursor never reads outside its extent, and an extent never leaves the one that contains it.
//! Offsets are those of the file. Nothing is allocated here.

use std::fmt;

/// Why bytes are not a file of the expected format, with the offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// Absolute offset of the invalid field.
    pub offset: u64,
    /// What is wrong. Bytes from the file are escaped.
    pub message: String,
}

impl FormatError {
    /// An error at `offset`.
    pub fn new(offset: u64, message: impl Into<String>) -> FormatError {
        FormatError { offset, message: message.into() }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x}: {}", self.offset, self.message)
    }
}

impl std::error::Error for FormatError {}

/// An extent of a file and a position in it. Numbers are little endian.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    base: u64,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor over `bytes`, which start at `base` of the file.
    pub const fn new(base: u64, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { base, rest: bytes }
    }

    /// Absolute offset of the next byte.
    pub const fn offset(&self) -> u64 {
        self.base
    }

    /// The bytes up to the end of the extent.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether the extent has no further byte.
    pub const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes; `part` names them in an error.
    pub fn take(&mut self, len: u64, part: &str) -> Result<&'a [u8], FormatError> {
        if len > self.rest.len() as u64 {
            let left = self.rest.len();
            return Err(FormatError::new(self.base, format!("{part} needs {len:#x} bytes, and {left:#x} are left")));
        }
        let (taken, rest) = self.rest.split_at(len as usize);
        self.rest = rest;
        self.base += len;
        Ok(taken)
    }

    /// A cursor over the next `len` bytes, which this cursor skips.
    pub fn extent(&mut self, len: u64, part: &str) -> Result<Cursor<'a>, FormatError> {
        let base = self.base;
        Ok(Cursor { base, rest: self.take(len, part)? })
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self, part: &str) -> Result<[u8; N], FormatError> {
        Ok(*self.take(N as u64, part)?.first_chunk().expect("N bytes were taken"))
    }

    /// The next byte.
    pub fn u8(&mut self, part: &str) -> Result<u8, FormatError> {
        Ok(self.array::<1>(part)?[0])
    }

    /// The next 16-bit number.
    pub fn u16(&mut self, part: &str) -> Result<u16, FormatError> {
        Ok(u16::from_le_bytes(self.array(part)?))
    }

    /// The next 32-bit number.
    pub fn u32(&mut self, part: &str) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array(part)?))
    }

    /// The next 64-bit number.
    pub fn u64(&mut self, part: &str) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array(part)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_ends_before_the_file() {
        let bytes: Vec<u8> = (0..16).collect();
        let mut file = Cursor::new(0x100, &bytes);
        let mut inner = file.extent(6, "a part").unwrap();
        assert_eq!((inner.u16("x"), inner.u32("x"), inner.offset()), (Ok(0x0100), Ok(0x0504_0302), 0x106));
        assert_eq!(
            inner.u8("the field").unwrap_err().to_string(),
            "at 0x106: the field needs 0x1 bytes, and 0x0 are left"
        );
        assert_eq!((file.offset(), file.u64("x")), (0x106, Ok(0x0D0C_0B0A_0908_0706)));
        assert!(file.take(u64::MAX, "x").is_err() && file.take(2, "x").is_ok() && file.is_at_end());
    }
}
