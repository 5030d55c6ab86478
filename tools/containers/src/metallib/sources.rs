//! The section of embedded sources -> archives, and the files in them.

use super::tags::Group;
use crate::cursor::{Cursor, FormatError};
use std::io::Read;
use tar::EntryType;

/// Most bytes that all archives of a library may unpack to.
pub const MOST_UNPACKED: u64 = 64 << 20;

/// The section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Options of the linker.
    pub link_options: Vec<u8>,
    /// Working directory, from 1.2.6 on.
    pub working_directory: Option<Vec<u8>>,
    /// One group for each archive: `SARC` holds an id and a compressed archive.
    pub archives: Vec<Group>,
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Number of its archive.
    pub archive: usize,
    /// Its path as stored, never to be used unchecked.
    pub path: Vec<u8>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An entry of an archive that is no file with bytes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Number of its archive.
    pub archive: usize,
    /// Its path as stored.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: &'static str,
    /// The path that a link leads to.
    pub target: Vec<u8>,
}

/// The contents of all archives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Files in the order of the archives.
    pub files: Vec<SourceFile>,
    /// Links, devices and pipes. Folders are not among them.
    pub skipped: Vec<Skipped>,
}

impl Sources {
    /// Reads the section, whose bytes start at `offset` of the file.
    pub fn parse(offset: u64, section: &[u8], has_directory: bool) -> Result<Sources, FormatError> {
        let mut c = Cursor::new(offset, section);
        let count = c.u32("the number of archives")?;
        let link_options = text(&mut c)?;
        let working_directory = if has_directory { Some(text(&mut c)?) } else { None };
        let archives = super::tags::parse_groups(c)?;
        if archives.len() as u64 != u64::from(count) {
            return Err(FormatError::new(
                offset,
                format!("{count} archives announced, the section has {}", archives.len()),
            ));
        }
        Ok(Sources { link_options, working_directory, archives })
    }

    /// Unpacks every archive. Fails if one is damaged, or beyond [`MOST_UNPACKED`] bytes.
    pub fn unpack(&self) -> Result<Unpacked, FormatError> {
        let mut all = Unpacked::default();
        let mut left = MOST_UNPACKED;
        for (n, group) in self.archives.iter().enumerate() {
            let Some((_, packed)) = archive(group) else { continue };
            unpack(group.offset, packed, &mut left, n, &mut all)?;
        }
        Ok(all)
    }
}

/// Id and compressed bytes of an archive.
pub fn archive(group: &Group) -> Option<(&[u8], &[u8])> {
    let body = group.tag(b"SARC")?;
    let end = body.iter().position(|&b| b == 0)?;
    Some((&body[..end], &body[end + 1..]))
}

fn text(c: &mut Cursor<'_>) -> Result<Vec<u8>, FormatError> {
    let len = c.rest().iter().position(|&b| b == 0);
    let len = len.ok_or_else(|| FormatError::new(c.offset(), "a text without a zero byte at its end"))?;
    let text = c.take(len as u64, "a text")?.to_vec();
    c.u8("a zero byte")?;
    Ok(text)
}

fn unpack(at: u64, packed: &[u8], left: &mut u64, number: usize, all: &mut Unpacked) -> Result<(), FormatError> {
    let damaged = |e: std::io::Error| FormatError::new(at, format!("a source archive is damaged: {e}"));
    // Bytes after the end of the compressed stream are padding.
    let mut tar = Vec::new();
    bzip2::read::BzDecoder::new(packed).take(*left + 1).read_to_end(&mut tar).map_err(damaged)?;
    let too_large = || FormatError::new(at, format!("the sources unpack to more than {} MiB", MOST_UNPACKED >> 20));
    *left = left.checked_sub(tar.len() as u64).ok_or_else(too_large)?;
    // Sparse files can be larger than their archive, and so can their sum.
    let mut room = tar.len() as u64;
    let mut archive = tar::Archive::new(&tar[..]);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path_bytes().into_owned();
        let entry_type = entry.header().entry_type();
        if !entry_type.is_file() {
            if let Some(kind) = skipped_kind(entry_type) {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                all.skipped.push(Skipped { archive: number, path, kind, target });
            }
            continue;
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(room + 1).read_to_end(&mut bytes).map_err(damaged)?;
        room = room.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
        all.files.push(SourceFile { archive: number, path, bytes });
    }
    Ok(())
}

/// The name of an entry that is left out; `None` for folders.
fn skipped_kind(entry: EntryType) -> Option<&'static str> {
    Some(match entry {
        EntryType::Directory => return None,
        EntryType::Link => "hard link",
        EntryType::Symlink => "symbolic link",
        EntryType::Fifo => "named pipe",
        EntryType::Char | EntryType::Block => "device",
        _ => "special entry",
    })
}
