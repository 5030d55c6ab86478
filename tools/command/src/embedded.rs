//! `FILE@OFFSET` -> the shader that begins there inside of another file, opened, with its size.

use crate::fields;
use picajit::container::Kind;
use picajit_containers::mbs::Mbs;
use picajit_containers::metallib::Metallib;
use picajit_containers::vbc::Vbc;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of a Metal library's header, with its size at 0x10.
const METALLIB: usize = 88;

/// File and offset of `FILE@OFFSET`. A file that has the whole name is that file.
pub fn place(path: &Path) -> Option<(PathBuf, u64)> {
    let (file, offset) = path.to_str()?.rsplit_once('@')?;
    let offset = match offset.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => offset.parse().ok()?,
    };
    (!path.exists() && Path::new(file).is_file()).then(|| (file.into(), offset))
}

/// A file, opened, with the start and the size of the part that `path` names: all of it, or the
/// shader at the offset of `FILE@OFFSET`.
pub fn open(path: &Path) -> io::Result<(File, u64, u64)> {
    let Some((file, start)) = place(path) else {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        return Ok((file, 0, size));
    };
    let mut file = File::open(file)?;
    let left = file.metadata()?.len().saturating_sub(start);
    file.seek(SeekFrom::Start(start))?;
    let mut head = [0; METALLIB];
    let is_library = file.read_exact(&mut head).is_ok() && Kind::sniff(&head) == Some(Kind::Metallib);
    let mut found = if is_library { library_size(&head) } else { None };
    // Hardly any shader is larger than the first part.
    for most in [MOST_PICA / 4, MOST] {
        if found.is_none() && !is_library {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.by_ref().take(most).read_to_end(&mut bytes)?;
            found = Kind::sniff(&bytes).and_then(|kind| size(kind, &bytes)).map(|size| size as u64);
        }
    }
    file.seek(SeekFrom::Start(start))?;
    // A damaged shader has no size; its reader names the damage.
    Ok((file, start, found.unwrap_or(left).min(left)))
}

/// Largest shader inside of a file: of any format but Metal libraries, and for the PICA200.
const MOST: u64 = 64 << 20;
const MOST_PICA: u64 = 4 << 20;

/// Bytes of the shader of a kind at the start of `bytes`; `None` if its reader rejects them.
pub fn size(kind: Kind, bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let most = |most: u64| &bytes[..bytes.len().min(most as usize)];
    match kind {
        Kind::Shbin | Kind::Dvoj => fields::size(kind, most(MOST_PICA)),
        Kind::Mbs => {
            let size = word(4)?.checked_add(8)?;
            Mbs::parse(bytes.get(..size)?).is_ok().then_some(size)
        }
        Kind::Vbc => Vbc::size(most(MOST)),
        Kind::Metallib => {
            let size = usize::try_from(library_size(bytes.first_chunk()?)?).ok()?;
            Metallib::parse(bytes.get(..size)?).is_ok().then_some(size)
        }
    }
}

fn library_size(header: &[u8; METALLIB]) -> Option<u64> {
    Some(u64::from_le_bytes(*header[0x10..].first_chunk()?))
}
