//! A path -> [`Loaded`]: a program and its entries, from any kind of file. Folders -> the shaders
//! in them.
//!
//! The first bytes identify a container, the ending of the name identifies assembly.

use crate::display::{path_name, printable};
use crate::embedded;
use crate::pipe;
use crate::report;
use crate::source::{Source, SourceFile};
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::{Dvle, Shbin, ShbinError};
use picajit::isa::Pc;
use picajit::program::{Entry, Program};
use picajit::text::{self, AsmError, Assembler, Assembly, Options, Warning};
use picajit_containers::cursor::FormatError;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest file that is read, far above any shader.
pub const MAX_FILE: u64 = 4 << 20;

/// Errors of a source that are printed.
const MOST_ERRORS: usize = 50;

/// Folders that are not searched.
const LEFT_OUT: [&str; 2] = [".git", "target"];

/// Endings of assembly files. Picasso's own `.v.pica` and `.g.pica` are among them.
const SOURCE_ENDINGS: [&str; 5] = ["pica", "vsh", "gsh", "s", "asm"];

/// A shader, ready to inspect or run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The path as given.
    pub name: String,
    /// The kind of file.
    pub form: FileKind,
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
    /// The text, if it is assembly.
    pub source: Option<Source>,
    /// The bytes of a container.
    pub bytes: Vec<u8>,
    /// The object, with the lines of its words.
    pub object: Option<Dvoj>,
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
pub enum FileKind {
    /// A container.
    Container(Kind),
    /// Assembly text.
    Source,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileKind::Container(kind) => kind.fmt(f),
            FileKind::Source => f.write_str("PICA200 assembly"),
        }
    }
}

impl Loaded {
    /// The shader as `lint` and the cost analysis see it.
    pub fn subject(&self) -> picajit_lint::Subject<'_> {
        let subject = picajit_lint::Subject::file(&self.program, &self.shbin);
        match &self.source {
            Some(source) => {
                let sources = source.texts().into_iter().map(|file| file.text.as_str()).collect();
                picajit_lint::Subject { lines: &source.lines, sources, ..subject }
            }
            None => subject,
        }
    }

    /// The file and line that an object has for a word.
    pub fn object_line(&self, pc: Pc) -> Option<(String, u32)> {
        let object = self.object.as_ref()?;
        let row = object.lines.get(usize::from(pc))?;
        Some((object.symbol(row.file)?.into_owned(), row.line))
    }

    /// The same for people: `shader.vsh:12`.
    pub fn object_place(&self, pc: Pc) -> Option<String> {
        self.object_line(pc).map(|(file, line)| format!("{}:{line}", printable(&file)))
    }

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
        /// The limit in bytes.
        limit: u64,
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
    /// A file without shaders inside of it.
    NothingInside {
        /// The path.
        name: String,
    },
    /// A large container in standard input.
    NoPipe {
        /// Its kind.
        kind: Kind,
    },
    /// A container of another GPU.
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
        /// The first bytes, at most 16.
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
    /// A container of another GPU that is damaged.
    DamagedForeign {
        /// The path.
        name: String,
        /// Its kind by its first bytes.
        kind: Kind,
        /// The reader's error.
        error: FormatError,
    },
    /// A fat file without one chosen library.
    Slice {
        /// The path.
        name: String,
        /// The wanted slice.
        arch: Option<String>,
        /// Slices that fit.
        chosen: usize,
        /// All slices: number, name, contents.
        slices: Vec<String>,
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
    /// Another file among objects that are to be linked.
    NotObject {
        /// The path.
        name: String,
    },
    /// A container among files that are to become one program.
    NotJoined {
        /// The path.
        name: String,
    },
    /// Assembly with errors, at least one.
    Source(Vec<AsmError>),
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

const READS: &str = "picajit reads SHBIN, DVOJ, and assembly whose name ends in .pica, .vsh, .gsh, .s or .asm; inspect and \
                     lint --scan find shaders inside of other files, and FILE@OFFSET is one of them";

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io { name, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "{name}: no such file\nhelp: check the path")
            }
            LoadError::Io { name, error } => write!(f, "{name}: can't be read: {error}"),
            LoadError::TooLarge { name, limit } => {
                write!(f, "{name}: larger than {} MiB, so it is no shader\nhelp: {READS}", limit >> 20)
            }
            LoadError::IsFolder { name } => write!(f, "{name}: is a folder\nhelp: name one shader file in it"),
            LoadError::EmptyFolder { name } => write!(f, "{name}: has no shader files in it\nhelp: {READS}"),
            LoadError::NothingInside { name } => {
                write!(f, "{name}: no shader is inside of it\nhelp: unpack it first if it is compressed or encrypted")
            }
            LoadError::NoPipe { kind } => {
                write!(f, "-: is a {kind}, which is not read from standard input\nhelp: name the file")
            }
            LoadError::Foreign { name, kind } => {
                write!(f, "{name}: is a {kind}, no PICA200 shader\nhelp: `inspect`, `verify` and `extract` read it")
            }
            LoadError::Unknown { name, begins } if begins.is_empty() => {
                write!(f, "{name}: is empty\nhelp: {READS}")
            }
            LoadError::Unknown { name, begins } if near_miss(begins).is_some() => {
                let (what, help) = near_miss(begins).unwrap_or_default();
                write!(f, "{name}: is {what}\nhelp: {help}")
            }
            LoadError::Unknown { name, begins } => {
                write!(
                    f,
                    "{name}: no known shader file begins with \"{}\"\nhelp: {READS}",
                    begins[..begins.len().min(4)].escape_ascii()
                )
            }
            LoadError::Damaged { name, kind, error } => {
                write!(f, "{name}: begins like a {kind} and is damaged or cut off: {error}")
            }
            LoadError::DamagedForeign { name, kind, error } => {
                write!(f, "{name}: begins like a {kind} and is damaged or cut off: {error}")
            }
            LoadError::Slice { name, arch, chosen, slices } => {
                match (arch, chosen) {
                    (Some(arch), 0) => write!(f, "{name}: has no slice {}", printable(arch))?,
                    (Some(arch), 1) => write!(f, "{name}: the slice {} is no Metal library", printable(arch))?,
                    (Some(arch), n) => write!(f, "{name}: has {n} slices {}", printable(arch))?,
                    (None, 0) => write!(f, "{name}: is a fat file without a Metal library")?,
                    (None, n) => write!(f, "{name}: is a fat file with {n} Metal libraries")?,
                }
                write!(f, "\nhelp: --arch takes a name or number of its slices: {}", slices.join(", "))
            }
            LoadError::NotText { name, offset } if !is_source(Path::new(name)) => {
                write!(f, "{name}: is not UTF-8 text (byte {offset:#x}), so it is no assembly")
            }
            LoadError::NotText { name, offset } => {
                write!(f, "{name}: is named like assembly and is not UTF-8 text (byte {offset:#x})")
            }
            LoadError::NotAssembly { name, kind } if kind.is_pica() => {
                let article = if *kind == Kind::Dvoj { "an" } else { "a" };
                write!(
                    f,
                    "{name}: is already {article} {kind}\nhelp: `disasm` prints its assembly text, which `asm` takes"
                )
            }
            LoadError::NotAssembly { name, kind } => write!(f, "{name}: is a {kind}\nhelp: `asm` takes assembly text"),
            LoadError::NotObject { name } => {
                write!(
                    f,
                    "{name}: is no object (DVOJ)\nhelp: `asm --object` assembles text to one; all files are linked"
                )
            }
            LoadError::NotJoined { name } => {
                write!(f, "{name}: is no assembly text\nhelp: several files are sources of one program")
            }
            LoadError::Source(errors) => {
                let (shown, more) = errors.split_at(errors.len().min(MOST_ERRORS));
                let shown: Vec<String> = shown.iter().map(AsmError::to_string).collect();
                f.write_str(&shown.join("\n"))?;
                if more.is_empty() { Ok(()) } else { write!(f, "\n{} further errors are left out", more.len()) }
            }
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
    /// The file that it concerns; of sources the first one with an error.
    pub fn file(&self) -> String {
        let text = self.to_string();
        match self {
            LoadError::Source(errors) => errors.first().map_or(String::new(), |error| error.file.clone()),
            // Every other text begins with it.
            _ => text.split_once(": ").map_or(text.as_str(), |(name, _)| name).into(),
        }
    }

    /// The same as JSON, for the file `name`. The assembler's errors have their places.
    pub fn json(&self, name: &str) -> Value {
        let mut json = json!({ "file": name, "error": self.to_string() });
        if let LoadError::Source(errors) = self {
            let of = |e: &AsmError| {
                let (file, message, help) = (&e.file, e.kind.to_string(), &e.help);
                json!({ "file": file, "line": e.line, "column": e.column, "message": message, "help": help })
            };
            json["errors"] = errors.iter().map(of).collect();
        }
        json
    }

    /// Prints it. The assembler's errors begin with a place and have their own `error:`.
    pub fn report(&self) {
        match self {
            LoadError::Source(_) => report::plain(self),
            other => report::error(other),
        }
    }
}

/// Reads a shader file.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    let name = path.display().to_string();
    let shown = printable(&name);
    let begins = begins(path)?;
    let kind = Kind::sniff(&begins);
    // Standard input has no name; what isn't a container is text.
    let is_source = is_source(path) && !(pipe::is_pipe(path) && kind.is_some());
    if let Some(kind) = kind.filter(|kind| !kind.is_pica() && !is_source) {
        return Err(LoadError::Foreign { name: shown, kind });
    }
    if kind.is_none() && !is_source {
        return Err(LoadError::Unknown { name: shown, begins });
    }
    let bytes = read(path, MAX_FILE)?;
    let damaged = |kind| {
        let name = shown.clone();
        move |error| LoadError::Damaged { name, kind, error }
    };
    match kind {
        Some(kind @ Kind::Shbin) => {
            let shbin = Shbin::parse(&bytes).map_err(damaged(kind))?;
            let size = bytes.len();
            Ok(Loaded { bytes, ..loaded(name, FileKind::Container(kind), size, shbin, Vec::new()) })
        }
        Some(kind @ Kind::Dvoj) => {
            let object = Dvoj::parse(&bytes).map_err(damaged(kind))?;
            let form = FileKind::Container(kind);
            let alone = loaded(name, form, bytes.len(), object.clone().linked_alone(), Vec::new());
            Ok(Loaded { bytes, object: Some(object), ..alone })
        }
        _ => {
            let text = text(&shown, &bytes)?;
            let Assembly { shbin, warnings, lines, .. } = assemble(&[(&shown, &text)], Options::default())?;
            let source = Source::single(shown.clone(), text.into_owned(), lines);
            Ok(Loaded { warnings, size: bytes.len(), ..assembled(name.clone(), shbin, source) })
        }
    }
}

/// Reads the files of one program: a shader file, or several sources. Its name is that of the first
/// source with an entry.
pub fn load_all(paths: &[PathBuf]) -> Result<Loaded, LoadError> {
    if let [path] = paths {
        return load(path);
    }
    let mut files = Vec::new();
    for path in paths {
        let name = path_name(path);
        if !is_source(path) || Kind::sniff(&begins(path)?).is_some() {
            return Err(LoadError::NotJoined { name });
        }
        let text = text(&name, &read(path, MAX_FILE)?)?.into_owned();
        files.push(SourceFile::new(name, text));
    }
    let texts: Vec<(&str, &str)> = files.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    let Assembly { shbin, warnings, lines, .. } = assemble(&texts, Options::default())?;
    let main = files.iter().zip(paths).find(|(file, _)| !file.is_library()).or(files.iter().zip(paths).next());
    let name = main.map(|(_, path)| path.display().to_string()).unwrap_or_default();
    Ok(Loaded { warnings, ..assembled(name, shbin, Source { files, lines }) })
}

/// Assembles files, given by name and text, to one program.
pub fn assemble(files: &[(&str, &str)], options: Options) -> Result<Assembly, LoadError> {
    let mut assembler = Assembler::new(options);
    let added = files.iter().try_for_each(|(name, text)| assembler.add_file(name, text));
    added.and_then(|()| assembler.finish()).map_err(|first| {
        let all = text::errors(files, options);
        LoadError::Source(if all.is_empty() { vec![first] } else { all })
    })
}

/// An assembled text.
pub fn assembled(name: String, shbin: Shbin, source: Source) -> Loaded {
    let size = source.files.iter().map(|file| file.text.len()).sum();
    Loaded { source: Some(source), ..loaded(name, FileKind::Source, size, shbin, Vec::new()) }
}

/// The first bytes of a file, at most 16.
pub fn begins(path: &Path) -> Result<Vec<u8>, LoadError> {
    if pipe::is_pipe(path) {
        return piped(u64::MAX).map(|bytes| bytes[..bytes.len().min(16)].to_vec());
    }
    if path.is_dir() {
        return Err(LoadError::IsFolder { name: path_name(path) });
    }
    let io = |error| LoadError::Io { name: path_name(path), error };
    let (file, _, size) = embedded::open(path).map_err(io)?;
    let mut begins = Vec::new();
    file.take(size.min(16)).read_to_end(&mut begins).map_err(io)?;
    Ok(begins)
}

/// What a file of another kind is, and a remedy.
fn near_miss(begins: &[u8]) -> Option<(&'static str, &'static str)> {
    const NEAR_MISSES: [(&[u8], &str, &str); 16] = [
        (b"\x1f\x8b", "gzip-compressed", "decompress it with gunzip"),
        (b"MBS2", "an MBS2, the format of later Mali GPUs", "picajit reads MBS1, of Mali-200 and Mali-400"),
        (b"\xDE\xC0\x17\x0B", BITCODE.0, BITCODE.1),
        (b"BC\xC0\xDE", BITCODE.0, BITCODE.1),
        (b"\x03\x02\x23\x07", "bare SPIR-V, without a container", "`spirv-val` and `spirv-dis` read it"),
        (b"\x07\x23\x02\x03", "bare SPIR-V of the other byte order", "`spirv-val` and `spirv-dis` read it"),
        (b"\xCA\xFE\xBA\xBE", FAT.0, FAT.1),
        (b"\xBE\xBA\xFE\xCA", FAT.0, FAT.1),
        (b"\xCB\xFE\xBA\xBE", FAT.0, FAT.1),
        (b"\xBE\xBA\xFE\xCB", FAT.0, FAT.1),
        (b"\xCF\xFA\xED\xFE", "a Mach-O file, such as the code for one GPU", "picajit reads Metal libraries (MTLB)"),
        (b"PK\x03\x04", "a ZIP archive", "unpack it"),
        (b"<!DOCTYPE", PAGE.0, PAGE.1),
        (b"<!doctype", PAGE.0, PAGE.1),
        (b"<html", PAGE.0, PAGE.1),
        (b"version https://", "a pointer of Git LFS, not the file itself", "`git lfs pull` downloads the file"),
    ];
    const BITCODE: (&str, &str) = (
        "LLVM bitcode, such as a compiled .air, without a library around it",
        "`llvm-bcanalyzer` and `llvm-dis` read it",
    );
    const FAT: (&str, &str) = (
        "a fat file with a slice for each GPU",
        "`inspect` lists its slices, and `metal-lipo -thin air64` extracts the Metal library",
    );
    const PAGE: (&str, &str) = ("a web page", "download the file itself");
    let is_cut_off = !begins.is_empty() && Kind::ALL.iter().any(|k| begins.len() < 4 && k.magic().starts_with(begins));
    if is_cut_off {
        return Some(("cut off within its first four bytes", "download it again"));
    }
    NEAR_MISSES.iter().find(|(magic, ..)| begins.starts_with(magic)).map(|(_, what, help)| (*what, *help))
}

/// The bytes of a file as text.
pub fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<Cow<'a, str>, LoadError> {
    text::decode(bytes).map_err(|offset| LoadError::NotText { name: name.into(), offset })
}

fn loaded(name: String, form: FileKind, size: usize, shbin: Shbin, warnings: Vec<Warning>) -> Loaded {
    let program = shbin.program().expect("readers and the assembler give no more code than a program holds");
    let entries = (shbin.dvles.iter().enumerate())
        .map(|(index, dvle)| LoadedEntry { index, entry: dvle.entry(), dvle: dvle.clone() })
        .collect();
    Loaded {
        name,
        form,
        size,
        program: Arc::new(program),
        shbin,
        entries,
        warnings,
        source: None,
        bytes: Vec::new(),
        object: None,
    }
}

/// Standard input; an error if it has more than `limit` bytes.
pub fn piped(limit: u64) -> Result<&'static [u8], LoadError> {
    let name = || "-".to_string();
    let bytes = pipe::input().map_err(|error| LoadError::Io { name: name(), error })?;
    if pipe::is_too_long(bytes.len(), limit) { Err(LoadError::TooLarge { name: name(), limit }) } else { Ok(bytes) }
}

/// The bytes of a file, or of the shader at `FILE@OFFSET`; an error if there are more than `limit`.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    if pipe::is_pipe(path) {
        return piped(limit).map(<[u8]>::to_vec);
    }
    let name = || path_name(path);
    let io = |error| LoadError::Io { name: name(), error };
    if path.is_dir() {
        return Err(LoadError::IsFolder { name: name() });
    }
    let place = embedded::place(path).map(|_| embedded::open(path)).transpose().map_err(io)?;
    // Devices have no size.
    let (file, size) = match place {
        Some((file, _, size)) => (file, size),
        None => (File::open(path).map_err(io)?, u64::MAX),
    };
    let mut bytes = Vec::new();
    file.take(size.min(limit + 1)).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit { Err(LoadError::TooLarge { name: name(), limit }) } else { Ok(bytes) }
}

/// Replaces each folder by all shaders in it and in folders below it, in the order of their names.
pub fn expand_all(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(inside(path, |_| true)?),
            false => files.push(path.clone()),
        }
    }
    Ok(files)
}

/// The sources and the `wanted` containers in a folder and in folders below it, at least one, in the
/// order of their names. Folders of version control and of builds are left out, and so are links to
/// folders.
pub fn inside(folder: &Path, wanted: impl Fn(Kind) -> bool) -> Result<Vec<PathBuf>, LoadError> {
    let mut inside = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let io = |error| LoadError::Io { name: path_name(&folder), error };
        for entry in fs::read_dir(&folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            if entry.file_type().map_err(io)?.is_dir() {
                if !LEFT_OUT.iter().any(|name| entry.file_name() == *name) {
                    folders.push(entry.path());
                }
                continue;
            }
            let file = entry.path();
            if file.is_file()
                && (is_source(&file) || begins(&file).ok().and_then(|b| Kind::sniff(&b)).is_some_and(&wanted))
            {
                inside.push(file);
            }
        }
    }
    if inside.is_empty() {
        return Err(LoadError::EmptyFolder { name: path_name(folder) });
    }
    inside.sort();
    Ok(inside)
}

/// Whether the name's ending is one of assembly, or it is standard input.
pub fn is_source(path: &Path) -> bool {
    pipe::is_pipe(path) || path.extension().is_some_and(|e| SOURCE_ENDINGS.iter().any(|s| e.eq_ignore_ascii_case(s)))
}
