//! A path -> [`Loaded`]: a program and its entries, from any kind of file. Folders -> the shaders
//! in them.
//!
//! The first bytes identify a container, the ending of the name identifies assembly.

use crate::display::{path_name, printable};
use crate::report;
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::{Dvle, Shbin, ShbinError};
use picajit::program::{Entry, Program};
use picajit::text::{self, AsmError, Assembler, Options, Warning};
use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest file that is read, far above any shader.
const MAX_FILE: u64 = 4 << 20;

/// Endings of assembly files. Picasso's own `.v.pica` and `.g.pica` are among them.
const SOURCE_ENDINGS: [&str; 3] = ["pica", "s", "asm"];

/// A shader, ready to inspect or run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The path as given.
    pub name: String,
    /// The kind of file.
    pub form: Form,
    /// Bytes of the file.
    pub size: usize,
    /// The program for the engines.
    pub program: Arc<Program>,
    /// Code and tables. An object is linked alone.
    pub shbin: Shbin,
    /// Entry points in file order; at least one unless the file has none.
    pub entries: Vec<LoadedEntry>,
    /// The assembler's warnings.
    pub warnings: Vec<Warning>,
}

/// An entry point of a [`Loaded`].
#[derive(Clone, Debug)]
pub struct LoadedEntry {
    /// Its index in the file, from 0.
    pub index: usize,
    /// Its address and stage.
    pub entry: Entry,
    /// Its tables.
    pub dvle: Dvle,
}

/// The kind of a shader file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A container.
    Container(Kind),
    /// Assembly text.
    Source,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Container(kind) => kind.fmt(f),
            Form::Source => f.write_str("PICA200 assembly"),
        }
    }
}

impl Loaded {
    /// Entry `index`.
    pub fn entry(&self, index: usize) -> Result<&LoadedEntry, LoadError> {
        let error = || LoadError::NoSuchEntry { name: printable(&self.name), index, count: self.entries.len() };
        self.entries.get(index).ok_or_else(error)
    }
}

/// Why a path gives no shader, and a remedy. Its paths are escaped for terminals.
#[derive(Debug)]
pub enum LoadError {
    /// The system returned an error.
    Io {
        /// The path.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// Larger than any shader.
    TooLarge {
        /// The path.
        name: String,
    },
    /// A folder in place of one file.
    IsFolder {
        /// The path.
        name: String,
    },
    /// A folder without shaders.
    EmptyFolder {
        /// The path.
        name: String,
    },
    /// A container that is recognised and not supported.
    Foreign {
        /// The path.
        name: String,
        /// Its kind.
        kind: Kind,
    },
    /// An unknown format.
    Unknown {
        /// The path.
        name: String,
        /// The first bytes, at most four.
        begins: Vec<u8>,
    },
    /// A container that is damaged.
    Damaged {
        /// The path.
        name: String,
        /// Its kind by its first bytes.
        kind: Kind,
        /// The reader's error.
        error: ShbinError,
    },
    /// Assembly that is not UTF-8.
    NotText {
        /// The path.
        name: String,
        /// Offset of the first bad byte.
        offset: usize,
    },
    /// A container in place of assembly.
    NotAssembly {
        /// The path.
        name: String,
        /// Its kind.
        kind: Kind,
    },
    /// Assembly with an error.
    Source(Box<AsmError>),
    /// An entry that the file lacks.
    NoSuchEntry {
        /// The path.
        name: String,
        /// The requested index.
        index: usize,
        /// The number of entries.
        count: usize,
    },
}

const READS: &str = "picajit reads SHBIN, DVOJ, and assembly whose name ends in .pica, .s or .asm";

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io { name, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "{name}: no such file\nhelp: check the path")
            }
            LoadError::Io { name, error } => write!(f, "{name}: can't be read: {error}"),
            LoadError::TooLarge { name } => {
                write!(f, "{name}: larger than {} MiB, so it is no shader\nhelp: {READS}", MAX_FILE >> 20)
            }
            LoadError::IsFolder { name } => write!(f, "{name}: is a folder\nhelp: name one shader file in it"),
            LoadError::EmptyFolder { name } => write!(f, "{name}: has no shader files in it\nhelp: {READS}"),
            LoadError::Foreign { name, kind } => {
                write!(f, "{name}: is a {kind}, which is not supported\nhelp: {READS}")
            }
            LoadError::Unknown { name, begins } if begins.is_empty() => {
                write!(f, "{name}: is empty\nhelp: {READS}")
            }
            LoadError::Unknown { name, begins } if begins.starts_with(b"\x1f\x8b") => {
                write!(f, "{name}: is gzip-compressed\nhelp: decompress it with gunzip")
            }
            LoadError::Unknown { name, begins } => {
                write!(f, "{name}: no known shader file begins with \"{}\"\nhelp: {READS}", begins.escape_ascii())
            }
            LoadError::Damaged { name, kind, error } => {
                write!(f, "{name}: begins like a {kind} and is damaged or cut off: {error}")
            }
            LoadError::NotText { name, offset } if !is_source(Path::new(name)) => {
                write!(f, "{name}: is not UTF-8 text (byte {offset:#x}), so it is no assembly")
            }
            LoadError::NotText { name, offset } => {
                write!(f, "{name}: is named like assembly and is not UTF-8 text (byte {offset:#x})")
            }
            LoadError::NotAssembly { name, kind } if kind.is_readable() => {
                write!(f, "{name}: is already a {kind}\nhelp: `disasm` prints its assembly text, which `asm` takes")
            }
            LoadError::NotAssembly { name, kind } => write!(f, "{name}: is a {kind}\nhelp: `asm` takes assembly text"),
            LoadError::Source(error) => error.fmt(f),
            LoadError::NoSuchEntry { name, count: 0, .. } => {
                write!(f, "{name}: has no entry points")
            }
            LoadError::NoSuchEntry { name, index, count: 1 } => {
                write!(f, "{name}: has no entry {index}\nhelp: its only entry is 0")
            }
            LoadError::NoSuchEntry { name, index, count } => {
                write!(f, "{name}: has no entry {index}\nhelp: its entries are 0 to {}", count - 1)
            }
        }
    }
}

impl std::error::Error for LoadError {}

impl LoadError {
    /// Prints it. The assembler's errors begin with a place and have their own `error:`.
    pub fn report(&self) {
        match self {
            LoadError::Source(error) => report::plain(error),
            other => report::error(other),
        }
    }
}

/// Reads a shader file.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    let name = path.display().to_string();
    let shown = printable(&name);
    let bytes = read(path, MAX_FILE)?;
    let damaged = |kind| {
        let name = shown.clone();
        move |error| LoadError::Damaged { name, kind, error }
    };
    match Kind::sniff(&bytes) {
        Some(kind @ Kind::Shbin) => {
            let shbin = Shbin::parse(&bytes).map_err(damaged(kind))?;
            Ok(loaded(name, Form::Container(kind), bytes.len(), shbin, Vec::new()))
        }
        Some(kind @ Kind::Dvoj) => {
            let object = Dvoj::parse(&bytes).map_err(damaged(kind))?;
            Ok(loaded(name, Form::Container(kind), bytes.len(), object.linked_alone(), Vec::new()))
        }
        _ if is_source(path) => {
            let text = text(&shown, &bytes)?;
            let mut assembler = Assembler::new(Options::default());
            let assembly = assembler.add_file(&shown, &text).and_then(|()| assembler.finish());
            let text::Assembly { shbin, warnings, .. } = assembly.map_err(|e| LoadError::Source(Box::new(e)))?;
            Ok(loaded(name.clone(), Form::Source, bytes.len(), shbin, warnings))
        }
        Some(kind) => Err(LoadError::Foreign { name: shown, kind }),
        None => Err(LoadError::Unknown { name: shown, begins: bytes[..bytes.len().min(4)].to_vec() }),
    }
}

/// The bytes of a file as text.
pub fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<Cow<'a, str>, LoadError> {
    text::decode(bytes).map_err(|offset| LoadError::NotText { name: name.into(), offset })
}

fn loaded(name: String, form: Form, size: usize, shbin: Shbin, warnings: Vec<Warning>) -> Loaded {
    let program = shbin.program().expect("readers and the assembler give no more code than a program holds");
    let entries = (shbin.dvles.iter().enumerate())
        .map(|(index, dvle)| LoadedEntry { index, entry: dvle.entry(), dvle: dvle.clone() })
        .collect();
    Loaded { name, form, size, program: Arc::new(program), shbin, entries, warnings }
}

/// The bytes of a file, or an error if there are more than `limit`.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let name = || path_name(path);
    let io = |error| LoadError::Io { name: name(), error };
    if path.is_dir() {
        return Err(LoadError::IsFolder { name: name() });
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit { Err(LoadError::TooLarge { name: name() }) } else { Ok(bytes) }
}

/// Replaces each folder by the shader files in it (not in folders below it), in the order of their
/// names.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let name = || path_name(path);
        let io = |error| LoadError::Io { name: name(), error };
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(io)? {
            let file = entry.map_err(io)?.path();
            if file.is_file() && is_shader(&file) {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(LoadError::EmptyFolder { name: name() });
        }
        inside.sort();
        files.append(&mut inside);
    }
    Ok(files)
}

/// Whether the name's ending is one of assembly.
pub fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|e| SOURCE_ENDINGS.iter().any(|s| e.eq_ignore_ascii_case(s)))
}

fn is_shader(path: &Path) -> bool {
    let begins = || {
        let mut begins = Vec::new();
        File::open(path).and_then(|f| f.take(4).read_to_end(&mut begins)).ok();
        matches!(Kind::sniff(&begins), Some(Kind::Shbin | Kind::Dvoj))
    };
    is_source(path) || begins()
}
