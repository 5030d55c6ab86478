//! Parts with offsets -> a file. Parts may share bytes that are the same in both.

use super::FieldsError;

/// Largest file that is built.
const MOST: usize = 64 << 20;

/// A file of a given size.
pub struct Canvas {
    bytes: Vec<u8>,
    taken: Vec<bool>,
}

impl Canvas {
    /// `size` zeros.
    pub fn new(size: usize) -> Result<Canvas, FieldsError> {
        if size > MOST {
            return Err(FieldsError::TooLarge { path: "fields.size".into(), value: size as u64, most: MOST as u64 });
        }
        Ok(Canvas { bytes: vec![0; size], taken: vec![false; size] })
    }

    /// Places a part. Fails outside of the file, and on other bytes of another part.
    pub fn put(&mut self, at: usize, part: &[u8], path: &str) -> Result<(), FieldsError> {
        let size = self.bytes.len();
        let end = at.checked_add(part.len()).filter(|&end| end <= size);
        let end = end.ok_or_else(|| FieldsError::PastEnd { path: path.into(), at, len: part.len(), size })?;
        for ((byte, taken), &new) in self.bytes[at..end].iter_mut().zip(&mut self.taken[at..end]).zip(part) {
            if std::mem::replace(taken, true) && *byte != new {
                return Err(FieldsError::Overlap { path: path.into(), at, len: part.len() });
            }
            *byte = new;
        }
        Ok(())
    }

    /// The file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
