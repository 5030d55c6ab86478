//! A path -> a [`Foreign`]: an opened container of another GPU.
//!
//! Each format has its own size limit. Metal libraries have none: only their metadata are read.

use crate::display::path_name;
use crate::load::{self, LoadError};
use picajit::container::Kind;
use picajit::container::cursor::FormatError;
use picajit::container::finding::Finding;
use picajit::container::mbs::Mbs;
use picajit::container::metallib::Metallib;
use picajit::container::vbc::{Dialect, Vbc};
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::Path;

/// Largest MBS file that is read, far above any shader.
const MAX_MBS: u64 = 4 << 20;
/// Largest VBC file that is read: five stages of any plausible size.
const MAX_VBC: u64 = 64 << 20;

/// An opened file.
pub struct Foreign {
    /// Its kind.
    pub kind: Kind,
    /// Bytes of the file.
    pub size: u64,
    /// What is in it.
    pub content: Content,
}

/// The model of each format.
pub enum Content {
    /// Mali.
    Mbs(Mbs),
    /// LibVega.
    Vbc(Box<Vbc>),
    /// Metal, and the file for everything that is read later.
    Metallib(Box<Metallib>, BufReader<File>),
}

/// Opens a file if it is a container of another GPU. `dialect` forces a layout of VBC.
pub fn open(path: &Path, dialect: Option<Dialect>) -> Result<Option<Foreign>, LoadError> {
    let Some(kind) = Kind::sniff(&load::begins(path)?).filter(|k| !k.is_pica()) else { return Ok(None) };
    let damaged = |error: FormatError| LoadError::DamagedForeign { name: path_name(path), kind, error };
    let (size, content) = match kind {
        Kind::Mbs => {
            let bytes = load::read(path, MAX_MBS)?;
            (bytes.len() as u64, Content::Mbs(Mbs::parse(&bytes).map_err(damaged)?))
        }
        Kind::Vbc => {
            let bytes = load::read(path, MAX_VBC)?;
            let vbc = match dialect {
                Some(dialect) => Vbc::parse_as(&bytes, dialect),
                None => Vbc::parse(&bytes),
            };
            (bytes.len() as u64, Content::Vbc(Box::new(vbc.map_err(damaged)?)))
        }
        Kind::Metallib => {
            let io = |error| LoadError::Io { name: path_name(path), error };
            let mut source = BufReader::new(File::open(path).map_err(io)?);
            let size = source.seek(SeekFrom::End(0)).map_err(io)?;
            let library = Metallib::open(&mut source).map_err(damaged)?;
            (size, Content::Metallib(Box::new(library), source))
        }
        Kind::Shbin | Kind::Dvoj => return Ok(None),
    };
    Ok(Some(Foreign { kind, size, content }))
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
