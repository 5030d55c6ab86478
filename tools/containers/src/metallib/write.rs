//! [`Metallib`] -> the bytes it was read from.

use super::tags::{Group, write_tags};
use super::{Header, Metallib, Part, Section};
use crate::cursor::FormatError;
use std::io::{Read, Seek, SeekFrom, Write};

/// Bytes that are copied at once.
const WINDOW: u64 = 64 << 10;

impl Header {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(b"MTLB");
        [self.major, self.minor, self.patch].iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend([self.file_type, self.platform]);
        out.extend(self.system.0.to_le_bytes());
        out.extend([self.system.1, self.system.2]);
        out.extend(self.file_size.to_le_bytes());
        for section in [self.functions, self.public, self.private, self.modules] {
            out.extend(section.offset.to_le_bytes());
            out.extend(section.size.to_le_bytes());
        }
    }
}

impl Metallib {
    /// Writes the library as it is, a linker's defects included. `source` is the file it was read
    /// from.
    pub fn write(&self, source: &mut (impl Read + Seek), out: &mut impl Write) -> Result<(), FormatError> {
        let mut bytes = Vec::new();
        self.header.write(&mut bytes);
        put(out, &bytes)?;
        for (part, section) in &self.parts {
            bytes.clear();
            match part {
                Part::Functions => write_list(&self.functions, &mut bytes)?,
                Part::Extension => write_tags(self.extension.as_deref().unwrap_or(&[]), &mut bytes)?,
                Part::Public => write_groups(&self.public, &mut bytes)?,
                Part::Private => write_groups(&self.private, &mut bytes)?,
                Part::Modules | Part::Tagged(_) | Part::Gap => copy(source, *section, out)?,
            }
            put(out, &bytes)?;
        }
        Ok(())
    }
}

pub(super) fn write_list(functions: &[Group], out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.extend((functions.len() as u32).to_le_bytes());
    write_groups(functions, out)
}

pub(super) fn write_groups(groups: &[Group], out: &mut Vec<u8>) -> Result<(), FormatError> {
    groups.iter().try_for_each(|g| g.write(out))
}

pub(super) fn put(out: &mut impl Write, bytes: &[u8]) -> Result<(), FormatError> {
    out.write_all(bytes).map_err(|e| FormatError::new(0, format!("the result can't be written: {e}")))
}

/// Copies an extent of the file, a window at a time.
pub(super) fn copy(source: &mut (impl Read + Seek), extent: Section, out: &mut impl Write) -> Result<(), FormatError> {
    windows(source, extent, |bytes| put(out, bytes))
}

/// Calls `each` for consecutive windows of an extent.
pub(super) fn windows(
    source: &mut (impl Read + Seek),
    extent: Section,
    mut each: impl FnMut(&[u8]) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let fail = |at: u64, e: std::io::Error| FormatError::new(at, format!("the file can't be read: {e}"));
    source.seek(SeekFrom::Start(extent.offset)).map_err(|e| fail(extent.offset, e))?;
    let mut window = vec![0; extent.size.min(WINDOW) as usize];
    let mut done = 0;
    while done < extent.size {
        let n = (extent.size - done).min(WINDOW) as usize;
        source.read_exact(&mut window[..n]).map_err(|e| fail(extent.offset + done, e))?;
        each(&window[..n])?;
        done += n as u64;
    }
    Ok(())
}
