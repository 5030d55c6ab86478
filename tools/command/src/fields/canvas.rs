//! Parts with offsets -> a file. Parts may share bytes that are the same in both.

use super::FieldsError;

/// Largest file that is built, and the largest that is read.
const MOST: usize = 4 << 20;

/// A file of a given size. Memory goes as far as its parts.
pub struct Canvas {
    size: usize,
    bytes: Vec<u8>,
    taken: Vec<bool>,
}

impl Canvas {
    /// `size` zeros.
    pub fn new(size: usize) -> Result<Canvas, FieldsError> {
        if size > MOST {
            return Err(FieldsError::TooLarge { path: "fields.size".into(), value: size as u64, most: MOST as u64 });
        }
        Ok(Canvas { size, bytes: Vec::new(), taken: Vec::new() })
    }

    /// Places a part. Fails outside of the file, and on other bytes of another part.
    pub fn put(&mut self, at: usize, part: &[u8], path: &str) -> Result<(), FieldsError> {
        let size = self.size;
        let end = at.checked_add(part.len()).filter(|&end| end <= size);
        let end = end.ok_or_else(|| FieldsError::PastEnd { path: path.into(), at, len: part.len(), size })?;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
            self.taken.resize(end, false);
        }
        for ((byte, taken), &new) in self.bytes[at..end].iter_mut().zip(&mut self.taken[at..end]).zip(part) {
            if std::mem::replace(taken, true) && *byte != new {
                return Err(FieldsError::Overlap { path: path.into(), at, len: part.len() });
            }
            *byte = new;
        }
        Ok(())
    }

    /// The file.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.resize(self.size, 0);
        self.bytes
    }
}
