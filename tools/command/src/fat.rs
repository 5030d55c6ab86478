//! A fat file: an index, and a slice for each GPU. Only the slice for AIR is a Metal library.
//!
//! Tools write the index in either byte order, so the order is the one whose slices are inside of
//! the file.

use picajit::container::Kind;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// First bytes of a fat file, with the numbers of either byte order.
const MAGICS: [[u8; 4]; 4] = [*b"\xCA\xFE\xBA\xBE", *b"\xBE\xBA\xFE\xCA", *b"\xCB\xFE\xBA\xBE", *b"\xBE\xBA\xFE\xCB"];
/// Most slices of an index. There are fewer GPUs.
const MOST_SLICES: u32 = 256;
/// Bytes of a row of the index.
const ROW: usize = 20;

/// A slice of a fat file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The CPU type.
    pub cpu: u32,
    /// Its subtype.
    pub subtype: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Alignment, a power of two.
    pub align: u32,
    /// Whether it is a Metal library.
    pub is_library: bool,
}

impl Slice {
    /// The name that `--arch` takes.
    pub fn arch(&self) -> String {
        match self.cpu {
            0x0100_0013 => "applegpu".into(),
            0x0100_0014 => "amdgpu".into(),
            0x0100_0015 => "intelgpu".into(),
            0x0100_0017 => "air64".into(),
            cpu => format!("{cpu:#x}"),
        }
    }

    /// For `inspect`.
    pub fn json(&self) -> Value {
        json!({
            "arch": self.arch(),
            "cpu_type": self.cpu,
            "cpu_subtype": self.subtype,
            "offset": self.offset,
            "size": self.size,
            "align": self.align,
            "library": self.is_library,
        })
    }
}

/// The slices of a fat file; `None` if it is no such file.
pub fn slices(file: &mut File) -> io::Result<Option<Vec<Slice>>> {
    let len = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut index = Vec::new();
    file.by_ref().take(8 + u64::from(MOST_SLICES) * ROW as u64).read_to_end(&mut index)?;
    if !MAGICS.iter().any(|magic| index.starts_with(magic)) {
        return Ok(None);
    }
    let Some(mut slices) =
        [u32::from_be_bytes, u32::from_le_bytes].into_iter().find_map(|order| rows(&index, len, order))
    else {
        return Ok(None);
    };
    for slice in &mut slices {
        let mut begins = Vec::new();
        file.seek(SeekFrom::Start(slice.offset))?;
        file.by_ref().take(slice.size.min(4)).read_to_end(&mut begins)?;
        slice.is_library = Kind::sniff(&begins) == Some(Kind::Metallib);
    }
    Ok(Some(slices))
}

fn rows(index: &[u8], len: u64, order: impl Fn([u8; 4]) -> u32) -> Option<Vec<Slice>> {
    let (_, rest) = index.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let count = order(*count);
    if count == 0 || count > MOST_SLICES {
        return None;
    }
    let end = 8 + ROW as u64 * u64::from(count);
    let row = |row: &[u8; ROW]| {
        let (words, _) = row.as_chunks::<4>();
        let [cpu, subtype, offset, size, align] = [0, 1, 2, 3, 4].map(|n| order(words[n]));
        let (offset, size) = (u64::from(offset), u64::from(size));
        let is_inside = offset >= end && offset + size <= len;
        is_inside.then_some(Slice { cpu, subtype, offset, size, align, is_library: false })
    };
    let (rows, _) = rest.as_chunks::<ROW>();
    rows.get(..count as usize)?.iter().map(row).collect()
}

/// A part of a file, read as a file of its own.
pub struct Window {
    file: File,
    start: u64,
    len: u64,
    at: u64,
}

/// What Metal libraries are read from.
pub type Library = BufReader<Window>;

impl Window {
    /// `len` bytes from `start` on.
    pub fn new(mut file: File, start: u64, len: u64) -> io::Result<Window> {
        file.seek(SeekFrom::Start(start))?;
        Ok(Window { file, start, len, at: 0 })
    }
}

impl Read for Window {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(self.at);
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = self.file.read(&mut buffer[..most])?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::End(n) => self.len.checked_add_signed(n),
            SeekFrom::Current(n) => self.at.checked_add_signed(n),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a position before the start");
        let at = at.filter(|at| self.start.checked_add(*at).is_some()).ok_or_else(outside)?;
        self.file.seek(SeekFrom::Start(self.start + at))?;
        self.at = at;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_either_order() {
        let row = [0x0100_0017u32, 0, 64, 8, 4];
        let index = |order: fn(u32) -> [u8; 4], magic: [u8; 4]| {
            [magic.to_vec(), order(1).to_vec(), row.iter().flat_map(|n| order(*n)).collect()].concat()
        };
        for bytes in [index(u32::to_le_bytes, MAGICS[2]), index(u32::to_be_bytes, MAGICS[0])] {
            let found = [u32::from_be_bytes, u32::from_le_bytes].into_iter().find_map(|order| rows(&bytes, 72, order));
            let found = found.unwrap();
            assert_eq!((found[0].arch().as_str(), found[0].offset, found[0].size), ("air64", 64, 8));
            // A slice that the file lacks.
            for order in [u32::from_be_bytes, u32::from_le_bytes] {
                assert_eq!(rows(&bytes, 71, order), None);
                assert_eq!(rows(&bytes[..27], 72, order), None);
            }
        }
    }

    #[test]
    fn a_window_has_its_own_offsets() {
        let path = std::env::temp_dir().join(format!("picajit-window-{}", std::process::id()));
        std::fs::write(&path, b"0123456789").unwrap();
        let mut window = Window::new(File::open(&path).unwrap(), 2, 5).unwrap();
        let mut text = String::new();
        window.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), window.seek(SeekFrom::End(-2)).unwrap()), ("23456", 3));
        text.clear();
        window.read_to_string(&mut text).unwrap();
        assert_eq!(text, "56");
        assert_eq!((window.seek(SeekFrom::Start(9)).unwrap(), window.read(&mut [0; 4]).unwrap()), (9, 0));
        assert!(window.seek(SeekFrom::Current(-10)).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
