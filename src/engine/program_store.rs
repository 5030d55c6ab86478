//! Programs that were asked for -> files of a directory, one for each, and back.
//!
//! A file has what can be executed of a program, and its entry: data, which whoever reads it compiles as it compiles what a game
//! uploads. Machine code is never written, since code from a file that anybody may have changed must never run. So whatever
//! is in the directory, it costs time and memory within bounds, and no result depends on it.
//!
//! Invariant: who reads a file sees a whole one, or one that is refused; nobody who runs shaders is stopped by what the file
//! system says. It must not know the cache, nor how code is made.
//!
//! | bytes | of a file, whole numbers little endian |
//! |---|---|
//! | 8 | [`MAGIC`], the version of this format among them |
//! | 4 | the stage: 0 vertex, 1 geometry |
//! | 4 | 1 if it was asked for by [`own_shader`](super::Engine::own_shader), else 0 |
//! | 4 | the address of the entry |
//! | 4, 4 | how many code words follow, and how many operand descriptors |
//! | 4 each | these |
//! | 16 | FNV-1a, 128 bits, of all before; it is the file's name too |

use super::{Event, EventHandler, lock};
use crate::background::Queue;
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
/// Bytes before the words, and behind them.
const HEAD: usize = MAGIC.len() + 5 * 4;
const TAIL: usize = 16;
/// Bytes of the largest file.
const MOST_BYTES: usize = HEAD + 4 * (MAX_CODE_WORDS + OPDESCS) + TAIL;
/// Programs of one directory, as far as one engine sees. A game has some hundred.
pub(super) const MOST: usize = 4096;
/// Entries of a directory that are looked at, whatever they are.
const MOST_ENTRIES: usize = 16 * MOST;
const EXTENSION: &str = ".pica";

/// Why programs are not kept, or no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory can't be made or looked into.
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::ErrorKind,
    },
    /// A file could not be written, which was not tried again.
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::ErrorKind,
    },
    /// There are as many programs as an engine writes to a directory, with those of others that it has seen there.
    Full {
        /// Which.
        path: PathBuf,
        /// How many that is.
        most: usize,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Directory { path, error } => write!(f, "can't use {} as a directory: {error}", path.display()),
            StoreError::Write { path, error } => write!(f, "can't write {}: {error}", path.display()),
            StoreError::Full { path, most } => write!(f, "{} has {most} programs, which is the most", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) program: Program,
    pub(super) entry: Entry,
    /// Whether for runs on [`Unit`](crate::state::Unit) only.
    pub(super) own: bool,
}

impl Asked {
    /// The bytes of its file.
    fn bytes(&self) -> Vec<u8> {
        let (code, opdescs) = (self.program.code(), self.program.opdescs());
        let stage = match self.entry.stage {
            Stage::Vertex => 0,
            Stage::Geometry => 1,
        };
        let head = [stage, self.own.into(), self.entry.pc.into(), code.len() as u32, opdescs.len() as u32];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(head.iter().chain(code).chain(opdescs).flat_map(|word| word.to_le_bytes()));
        bytes.extend(sum(&bytes).to_le_bytes());
        bytes
    }

    /// From the bytes of a file; `None` if they are not exactly what is written for some program.
    fn parse(bytes: &[u8]) -> Option<Asked> {
        let (body, tail) = bytes.split_at_checked(bytes.len().checked_sub(TAIL)?)?;
        if tail != sum(body).to_le_bytes() {
            return None;
        }
        let words: Vec<u32> = body.strip_prefix(&MAGIC)?.chunks(4).map(word).collect::<Option<_>>()?;
        let (&[stage, own, pc, code, opdescs], words) = words.split_first_chunk::<5>()?;
        let stage = match stage {
            0 => Stage::Vertex,
            1 => Stage::Geometry,
            _ => return None,
        };
        let own = match own {
            0 => false,
            1 => true,
            _ => return None,
        };
        let entry = Entry { pc: pc.try_into().ok()?, stage };
        let (code, rest) = words.split_at_checked(code.try_into().ok()?)?;
        if rest.len() > OPDESCS || u32::try_from(rest.len()) != Ok(opdescs) {
            return None;
        }
        Some(Asked { program: Program::from_words(code, rest).ok()?, entry, own })
    }
}

/// A whole word of four bytes.
fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// What a file has last. It changes with any single byte.
fn sum(bytes: &[u8]) -> u128 {
    let mut hash = Fnv128::new();
    // What is no whole word is no file, and was not written.
    bytes.chunks_exact(4).filter_map(word).for_each(|word| hash.word(word));
    hash.finish().0
}

/// The name of the file with these bytes.
fn name(bytes: &[u8]) -> String {
    let sum = sum(&bytes[..bytes.len() - TAIL]);
    format!("{sum:032x}{EXTENSION}")
}

/// Whether a file may be one of ours.
fn is_name(name: &OsStr) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let digits = name.to_str().and_then(|name| name.strip_suffix(EXTENSION));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(hex))
}

/// `O_NONBLOCK` and `O_NOFOLLOW`, where they are known: opening neither waits for who writes to a pipe nor follows a link. The
/// numbers are those of each system's `fcntl.h`.
#[cfg(unix)]
const OPEN_FLAGS: i32 = match () {
    _ if cfg!(target_vendor = "apple") => 0x0004 | 0x0100,
    _ if !cfg!(any(target_os = "linux", target_os = "android")) => 0,
    _ if cfg!(any(target_arch = "x86_64", target_arch = "x86")) => 0o4000 | 0o40_0000,
    _ if cfg!(any(target_arch = "aarch64", target_arch = "arm")) => 0o4000 | 0o10_0000,
    _ => 0,
};

/// A file that is small enough to be one of ours, and neither a link nor what would keep us waiting, as a pipe does.
fn open(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, OPEN_FLAGS);
    let file = options.open(path).ok()?;
    let seen = file.metadata().ok()?;
    (seen.is_file() && seen.len() <= MOST_BYTES as u64).then_some(file)
}

/// The bytes of such a file.
fn read(path: &Path) -> Option<Vec<u8>> {
    // First by its name, since opening a device may do something. Another may take that name before it is opened.
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // It may have grown meanwhile.
    open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// What is in a directory.
#[derive(Default)]
pub(super) struct Found {
    /// Files that may be programs, [`MOST`] at most, in the same order each time.
    pub(super) files: Vec<PathBuf>,
    /// More of them.
    pub(super) more: usize,
    /// What is something else.
    pub(super) others: usize,
}

impl Found {
    /// Looks into a directory, which need not be there: then it is empty.
    pub(super) fn look(directory: &Path) -> io::Result<Found> {
        let mut found = Found::default();
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries.take(MOST_ENTRIES) {
            let entry = entry?;
            match is_name(&entry.file_name()) {
                true => found.files.push(entry.path()),
                false => found.others += 1,
            }
        }
        found.files.sort();
        found.more = found.files.len().saturating_sub(MOST);
        found.files.truncate(MOST);
        Ok(found)
    }
}

/// The program of a file, if it is one and has the name that it was written under.
pub(super) fn load(path: &Path) -> Option<Asked> {
    let bytes = read(path)?;
    let asked = Asked::parse(&bytes)?;
    (path.file_name() == Some(OsStr::new(&name(&bytes)))).then_some(asked)
}

/// Where one engine keeps programs.
pub(super) struct ProgramStore {
    directory: PathBuf,
    /// Programs that are there, once it is known; less those that others have written since.
    count: Mutex<Option<usize>>,
    /// Something went wrong, and somebody has been told.
    bailouts: AtomicBool,
    events: EventHandler,
}

impl ProgramStore {
    /// Nothing is done before there is a program to keep.
    pub(super) fn new(directory: PathBuf, events: EventHandler) -> ProgramStore {
        ProgramStore { directory, count: Mutex::default(), bailouts: AtomicBool::new(false), events }
    }

    /// Where that is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes what a key covers, unless it is there: on one of the threads that make code, or, where there are none, here and now.
    pub(super) fn keep(self: &Arc<ProgramStore>, key: ShaderKey, own: bool, queue: &Queue) {
        if self.bailouts.load(Ordering::Relaxed) {
            return;
        }
        if queue.open() {
            let (this, key) = (self.clone(), key.clone());
            if queue.push(Box::new(move || this.keep_now(&key, own))) {
                return;
            }
        }
        self.keep_now(&key, own);
    }

    fn keep_now(&self, key: &ShaderKey, own: bool) {
        if self.bailouts.load(Ordering::Relaxed) {
            return;
        }
        let bytes = Asked { program: key.program(), entry: key.entry(), own }.bytes();
        // Who hears of it may ask for shaders: nothing is locked, and it won't come here again.
        if let Err(reason) = self.write(&bytes)
            && !self.bailouts.swap(true, Ordering::Relaxed)
        {
            (self.events)(&Event::StoreFailed { reason });
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.directory.join(name(bytes));
        // A file that was broken, as by a machine that lost power, is written again.
        if read(&path).is_some_and(|there| there == bytes) {
            return Ok(());
        }
        // It has been counted, or will be when somebody looks.
        if fs::symlink_metadata(&path).is_err() {
            self.count_one()?;
        }
        let made = self.temporary(&path).and_then(|(temporary, mut file)| {
            let done = file.write_all(bytes).and_then(|()| {
                // Some systems rename no open file.
                drop(file);
                fs::rename(&temporary, &path)
            });
            done.or_else(|error| {
                drop(fs::remove_file(&temporary));
                // Windows replaces no file that somebody reads. If it is this one, it is there.
                if read(&path).is_some_and(|there| there == bytes) { Ok(()) } else { Err(error) }
            })
        });
        made.map_err(|error| StoreError::Write { path, error: error.kind() })
    }

    /// Makes the directory if it is not there, and counts one more program in it, if it may have one.
    fn count_one(&self) -> Result<(), StoreError> {
        let path = || self.directory.clone();
        let mut count = lock(&self.count);
        if count.is_none() {
            let found = fs::create_dir_all(&self.directory).and_then(|()| Found::look(&self.directory));
            let found = found.map_err(|error| StoreError::Directory { path: path(), error: error.kind() })?;
            *count = Some(found.files.len() + found.more);
        }
        let count = count.get_or_insert_default();
        if *count >= MOST {
            return Err(StoreError::Full { path: path(), most: MOST });
        }
        *count += 1;
        Ok(())
    }

    /// A new file beside `path`, under a name that nobody else takes: others may be writing the same program. One that a process
    /// with this one's number left half done is not touched.
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
