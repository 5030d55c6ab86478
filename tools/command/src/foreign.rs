//! A path -> a [`Foreign`]: an opened container of another GPU.
//!
//! Each format has its own size limit. Metal libraries have none: only their metadata are read.

use crate::display::path_name;
use crate::embedded;
use crate::fat::{self, Library, Slice, Window};
use crate::load::{self, LoadError};
use crate::pipe;
use picajit::container::Kind;
use picajit_containers::cursor::FormatError;
use picajit_containers::finding::Finding;
use picajit_containers::mbs::Mbs;
use picajit_containers::metallib::Metallib;
use picajit_containers::vbc::{Dialect, Vbc};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// Largest MBS file that is read, far above any shader.
const MAX_MBS: u64 = 4 << 20;
/// Largest VBC file that is read: five stages of any plausible size.
const MAX_VBC: u64 = 64 << 20;
/// Bytes of the header of a Metal library.
const HEADER: u64 = 88;

/// An opened file.
pub struct Foreign {
    /// Its kind.
    pub kind: Kind,
    /// Bytes of the file.
    pub size: u64,
    /// What is in it.
    pub content: Content,
    /// The file; its header in a Metal library.
    pub bytes: Vec<u8>,
    /// The slices of the fat file around it.
    pub slices: Vec<Slice>,
}

/// The model of each format.
pub enum Content {
    /// Mali.
    Mbs(Mbs),
    /// LibVega.
    Vbc(Box<Vbc>),
    /// Metal, and the file for everything that is read later.
    Metallib(Box<Metallib>, Library),
}

/// How files are read that allow several readings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// The layout of a VBC file; by default the one that fits.
    pub dialect: Option<Dialect>,
    /// The slice of a fat file, by name or number; by default its only library.
    pub arch: Option<&'a str>,
}

/// Opens a file if it is a container of another GPU, or a fat file with one.
pub fn open(path: &Path, reading: Reading<'_>) -> Result<Option<Foreign>, LoadError> {
    let begins = load::begins(path)?;
    let io = |error| LoadError::Io { name: path_name(path), error };
    let Some(kind) = Kind::sniff(&begins).filter(|k| !k.is_pica()) else {
        if pipe::is_pipe(path) {
            return Ok(None);
        }
        // Offsets of slices are those of the whole file.
        let (mut file, start, _) = embedded::open(path).map_err(io)?;
        return match fat::slices(&mut file).map_err(io)?.filter(|_| start == 0) {
            Some(slices) => library_of(path, file, slices, reading.arch).map(Some),
            None => Ok(None),
        };
    };
    let damaged = |error: FormatError| LoadError::DamagedForeign { name: path_name(path), kind, error };
    let (size, content, bytes) = match kind {
        Kind::Mbs => {
            let bytes = load::read(path, MAX_MBS)?;
            (bytes.len() as u64, Content::Mbs(Mbs::parse(&bytes).map_err(damaged)?), bytes)
        }
        Kind::Vbc => {
            let bytes = load::read(path, MAX_VBC)?;
            let vbc = match reading.dialect {
                Some(dialect) => Vbc::parse_as(&bytes, dialect),
                None => Vbc::parse(&bytes),
            };
            (bytes.len() as u64, Content::Vbc(Box::new(vbc.map_err(damaged)?)), bytes)
        }
        Kind::Metallib if pipe::is_pipe(path) => return Err(LoadError::NoPipe { kind }),
        Kind::Metallib => {
            let (file, start, size) = embedded::open(path).map_err(io)?;
            return library(path, file, (start, size), Vec::new()).map(Some);
        }
        Kind::Shbin | Kind::Dvoj => return Ok(None),
    };
    Ok(Some(Foreign { kind, size, content, bytes, slices: Vec::new() }))
}

/// The library in an extent of a file.
fn library(path: &Path, file: File, (start, size): (u64, u64), slices: Vec<Slice>) -> Result<Foreign, LoadError> {
    let io = |error| LoadError::Io { name: path_name(path), error };
    let kind = Kind::Metallib;
    let mut source = BufReader::new(Window::new(file, start, size).map_err(io)?);
    let damaged = |error| LoadError::DamagedForeign { name: path_name(path), kind, error };
    let library = Metallib::open(&mut source).map_err(damaged)?;
    let mut bytes = Vec::new();
    source.rewind().and_then(|()| source.by_ref().take(HEADER).read_to_end(&mut bytes)).map_err(io)?;
    Ok(Foreign { kind, size, content: Content::Metallib(Box::new(library), source), bytes, slices })
}

/// The chosen library of a fat file.
fn library_of(path: &Path, file: File, slices: Vec<Slice>, arch: Option<&str>) -> Result<Foreign, LoadError> {
    let is_chosen = |(n, slice): &(usize, &Slice)| match arch {
        Some(arch) => arch == slice.arch() || arch == n.to_string(),
        None => slice.is_library,
    };
    let chosen: Vec<&Slice> = slices.iter().enumerate().filter(is_chosen).map(|(_, slice)| slice).collect();
    let extent = match chosen[..] {
        [slice] if slice.is_library => (slice.offset, slice.size),
        _ => {
            let list = slices.iter().enumerate().map(|(n, s)| {
                format!("{n} {} ({})", s.arch(), if s.is_library { "Metal library" } else { "no Metal library" })
            });
            let (name, chosen) = (path_name(path), chosen.len());
            return Err(LoadError::Slice { name, arch: arch.map(Into::into), chosen, slices: list.collect() });
        }
    };
    library(path, file, extent, slices)
}

impl Foreign {
    /// Everything that a verification finds.
    pub fn verify(&mut self) -> Result<Vec<Finding>, FormatError> {
        match &mut self.content {
            Content::Mbs(mbs) => Ok(mbs.verify()),
            Content::Vbc(vbc) => Ok(vbc.verify()),
            Content::Metallib(library, source) => library.verify(source),
        }
    }
}
