//! Requested programs -> files of a directory, one per program, and back.
//!
//! A file holds the executable words of a program and its entry. A reader compiles it like a
//! program that a game uploads. The store never writes machine code: code from a file that other
//! programs can change must not run. So a directory with arbitrary contents costs bounded time and
//! memory, and changes no result.
//!
//! Invariants: a reader sees a complete file or rejects it; no file system error stops a run. This
//! file must not depend on the cache, nor on how shaders are compiled.
//!
//! | bytes | content, integers in little endian |
//! |---|---|
//! | 8 | [`MAGIC`], which includes the version of the format |
//! | 4 | the stage: 0 vertex, 1 geometry |
//! | 4 | 1 if [`own_shader`](super::Engine::own_shader) requested it, else 0 |
//! | 4 | the address of the entry |
//! | 4, 4 | the number of code words and of operand descriptors |
//! | 4 each | the code words, then the descriptors |
//! | 16 | 128-bit FNV-1a of all bytes before; also the file's name |

use super::{Event, EventHandler, lock};
use crate::background::{Priority, Queue};
use crate::cache::ShaderKey;
use crate::isa::{MAX_CODE_WORDS, OPDESCS, Stage};
use crate::program::{Entry, Fnv128, Program};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"picaprg1";
/// Bytes before and after the words.
const HEADER_BYTES: usize = MAGIC.len() + 5 * 4;
const CHECKSUM_BYTES: usize = 16;
/// Bytes of the largest file.
const MAX_BYTES: usize = HEADER_BYTES + 4 * (MAX_CODE_WORDS + OPDESCS) + CHECKSUM_BYTES;
/// Limit on the programs of a directory. A game has some hundred.
pub(super) const MAX_PROGRAMS: usize = 4096;
/// Limit on the directory entries to read, programs or not.
const MAX_ENTRIES: usize = 16 * MAX_PROGRAMS;
const EXTENSION: &str = ".pica";

/// Why an engine has stopped storing programs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory can't be created or read.
    Directory {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::ErrorKind,
    },
    /// A file can't be written.
    Write {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::ErrorKind,
    },
    /// The directory has reached its limit on programs, which includes those of other engines.
    Full {
        /// Its path.
        path: PathBuf,
        /// The limit.
        most: usize,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Directory { path, error } => write!(f, "can't use {} as a directory: {error}", path.display()),
            StoreError::Write { path, error } => write!(f, "can't write {}: {error}", path.display()),
            StoreError::Full { path, most } => write!(f, "{} has {most} programs, which is the limit", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredProgram {
    pub(super) program: Program,
    pub(super) entry: Entry,
    /// Whether it runs on [`Unit`](crate::state::Unit) rather than on the host's layout.
    pub(super) on_unit: bool,
}

impl StoredProgram {
    /// Encodes a file.
    fn bytes(&self) -> Vec<u8> {
        let (code, opdescs) = (self.program.code(), self.program.opdescs());
        let stage = match self.entry.stage {
            Stage::Vertex => 0,
            Stage::Geometry => 1,
        };
        let head = [stage, self.on_unit.into(), self.entry.pc.into(), code.len() as u32, opdescs.len() as u32];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(head.iter().chain(code).chain(opdescs).flat_map(|word| word.to_le_bytes()));
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a file. `None` unless the bytes are exactly the encoding of a program.
    fn parse(bytes: &[u8]) -> Option<StoredProgram> {
        let (body, tail) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
        if tail != checksum(body).to_le_bytes() {
            return None;
        }
        let words: Vec<u32> = body.strip_prefix(&MAGIC)?.chunks(4).map(word).collect::<Option<_>>()?;
        let (&[stage, on_unit, pc, code, opdescs], words) = words.split_first_chunk::<5>()?;
        let stage = match stage {
            0 => Stage::Vertex,
            1 => Stage::Geometry,
            _ => return None,
        };
        let on_unit = match on_unit {
            0 => false,
            1 => true,
            _ => return None,
        };
        let entry = Entry { pc: pc.try_into().ok()?, stage };
        let (code, rest) = words.split_at_checked(code.try_into().ok()?)?;
        if rest.len() > OPDESCS || u32::try_from(rest.len()) != Ok(opdescs) {
            return None;
        }
        Some(StoredProgram { program: Program::from_words(code, rest).ok()?, entry, on_unit })
    }
}

/// A word of exactly four bytes.
fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The checksum of a file. Any change of a single byte changes it.
fn checksum(bytes: &[u8]) -> u128 {
    let mut hash = Fnv128::new();
    // Encoded files are whole words; the decoder rejects others.
    bytes.chunks_exact(4).filter_map(word).for_each(|word| hash.word(word));
    hash.finish().0
}

/// The name of a file with these bytes.
fn file_name(bytes: &[u8]) -> String {
    let sum = checksum(&bytes[..bytes.len() - CHECKSUM_BYTES]);
    format!("{sum:032x}{EXTENSION}")
}

/// Whether the store gives its files such names.
fn is_name(name: &OsStr) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let digits = name.to_str().and_then(|name| name.strip_suffix(EXTENSION));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(hex))
}

/// `O_NONBLOCK` and `O_NOFOLLOW`: opening neither waits for a pipe's writer nor follows a link. The
/// values are those of each system's `fcntl.h`; 0 for systems not listed.
#[cfg(unix)]
const OPEN_FLAGS: i32 = match () {
    _ if cfg!(target_vendor = "apple") => 0x0004 | 0x0100,
    _ if !cfg!(any(target_os = "linux", target_os = "android")) => 0,
    _ if cfg!(any(target_arch = "x86_64", target_arch = "x86")) => 0o4000 | 0o40_0000,
    _ if cfg!(any(target_arch = "aarch64", target_arch = "arm")) => 0o4000 | 0o10_0000,
    _ => 0,
};

/// Opens a regular file of at most [`MAX_BYTES`]. Rejects links, pipes and devices.
fn open(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, OPEN_FLAGS);
    let file = options.open(path).ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.len() <= MAX_BYTES as u64).then_some(file)
}

/// Reads such a file.
fn read(path: &Path) -> Option<Vec<u8>> {
    // Checked by name first, because opening a device may have side effects. `open` checks again:
    // the name may change hands.
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // The file may have grown since `open`.
    open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The entries of a directory.
#[derive(Default)]
pub(super) struct DirectoryListing {
    /// Files with a program's name, at most [`MAX_PROGRAMS`], sorted.
    pub(super) files: Vec<PathBuf>,
    /// The number of such files above the limit.
    pub(super) excess: usize,
    /// The number of other entries.
    pub(super) others: usize,
}

impl DirectoryListing {
    /// Reads a directory. One that does not exist is empty.
    pub(super) fn read(directory: &Path) -> io::Result<DirectoryListing> {
        let mut listing = DirectoryListing::default();
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            entries => entries?,
        };
        for entry in entries.take(MAX_ENTRIES) {
            let entry = entry?;
            match is_name(&entry.file_name()) {
                true => listing.files.push(entry.path()),
                false => listing.others += 1,
            }
        }
        listing.files.sort();
        listing.excess = listing.files.len().saturating_sub(MAX_PROGRAMS);
        listing.files.truncate(MAX_PROGRAMS);
        Ok(listing)
    }
}

/// Loads a file. `None` unless it is a program under the name that the store gives it.
pub(super) fn load(path: &Path) -> Option<StoredProgram> {
    let bytes = read(path)?;
    let stored = StoredProgram::parse(&bytes)?;
    (path.file_name() == Some(OsStr::new(&file_name(&bytes)))).then_some(stored)
}

/// Writes the programs of one engine to a directory.
pub(super) struct ProgramStore {
    directory: PathBuf,
    /// The number of programs in the directory, read before the first write. Other engines' later
    /// writes don't count.
    count: Mutex<Option<usize>>,
    /// Set by the first error. The store then writes nothing more.
    failed: AtomicBool,
    events: EventHandler,
}

impl ProgramStore {
    /// A store. It creates the directory with the first program.
    pub(super) fn new(directory: PathBuf, events: EventHandler) -> ProgramStore {
        ProgramStore { directory, count: Mutex::default(), failed: AtomicBool::new(false), events }
    }

    /// The directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the program of a key, unless its file exists: as a job of `queue`, or here if that is
    /// closed.
    pub(super) fn store(self: &Arc<ProgramStore>, key: ShaderKey, on_unit: bool, queue: &Queue) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        if queue.open() {
            let (this, key) = (self.clone(), key.clone());
            if queue.push(Priority::Idle, Box::new(move || this.store_now(&key, on_unit))) {
                return;
            }
        }
        self.store_now(&key, on_unit);
    }

    fn store_now(&self, key: &ShaderKey, on_unit: bool) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let bytes = StoredProgram { program: key.program(), entry: key.entry(), on_unit }.bytes();
        // The handler may request shaders: no lock is held, and `failed` prevents recursion.
        if let Err(reason) = self.write(&bytes)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            (self.events)(&Event::StoreFailed { reason });
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.directory.join(file_name(bytes));
        // A broken file, for example after a power failure, is replaced.
        if read(&path).is_some_and(|existing| existing == bytes) {
            return Ok(());
        }
        // An existing file is counted already, or will be with the directory.
        if fs::symlink_metadata(&path).is_err() {
            self.count_one()?;
        }
        let written = self.temporary(&path).and_then(|(temporary, mut file)| {
            let result = file.write_all(bytes).and_then(|()| {
                // Some systems can't rename an open file.
                drop(file);
                fs::rename(&temporary, &path)
            });
            result.or_else(|error| {
                drop(fs::remove_file(&temporary));
                // Windows can't replace a file that is open elsewhere. If it is this program's, the
                // write is superfluous.
                if read(&path).is_some_and(|existing| existing == bytes) { Ok(()) } else { Err(error) }
            })
        });
        written.map_err(|error| StoreError::Write { path, error: error.kind() })
    }

    /// Creates the directory if necessary, and counts one more program. Fails at the limit.
    fn count_one(&self) -> Result<(), StoreError> {
        let path = || self.directory.clone();
        let mut count = lock(&self.count);
        if count.is_none() {
            let listing = fs::create_dir_all(&self.directory).and_then(|()| DirectoryListing::read(&self.directory));
            let listing = listing.map_err(|error| StoreError::Directory { path: path(), error: error.kind() })?;
            *count = Some(listing.files.len() + listing.excess);
        }
        let count = count.get_or_insert_default();
        if *count >= MAX_PROGRAMS {
            return Err(StoreError::Full { path: path(), most: MAX_PROGRAMS });
        }
        *count += 1;
        Ok(())
    }

    /// Creates a file next to `path` under a unique name: other engines may be writing the same
    /// program. Files that an earlier process with the same id left incomplete stay untouched.
    fn temporary(&self, path: &Path) -> io::Result<(PathBuf, File)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut tries = 0;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let temporary = path.with_extension(format!("{}-{number}.new", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 8 => tries += 1,
                file => return Ok((temporary, file?)),
            }
        }
    }
}

#[cfg(all(test, feature = "jit"))]
mod tests;
