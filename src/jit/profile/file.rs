//! Whole records -> the files that perf reads: opened once a process, shared by all engines of it, never through somebody's link.
//!
//! Invariant: a file holds whole records only, in the order they were made. Both files are found by the process's number, so
//! there can be just one of each (of dumps, one a directory): a second engine goes on in the first one's. They stay open until the
//! process ends, as a later engine could not tell its own process's dump from another's. It must not know what records mean.

use crate::profiler::ProfilerError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that records are appended to.
pub(crate) struct Records {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// Or why nothing is written any more.
    file: Result<File, ProfilerError>,
    /// Bytes of whole records, where nobody else writes to the file.
    whole: Option<u64>,
    records: u64,
}

/// Nobody else needs to read it, and perf run by root may.
const MODE: u32 = 0o600;

/// Every file that this process has opened.
static OPEN: Mutex<Vec<Arc<Records>>> = Mutex::new(Vec::new());

/// The file of this process at `path`: the one that is open, or what `make` opens.
pub(crate) fn open(
    path: PathBuf,
    make: impl FnOnce(&Path) -> Result<(File, Option<u64>), ProfilerError>,
) -> Result<Arc<Records>, ProfilerError> {
    // The lock is held meanwhile, so that two engines that begin at once make one file.
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(records) = all.iter().find(|r| r.path == path) {
        return Ok(records.clone());
    }
    let (file, whole) = make(&path)?;
    let state = Mutex::new(State { file: Ok(file), whole, records: 0 });
    let records = Arc::new(Records { path, state });
    all.push(records.clone());
    Ok(records)
}

/// A new file. `O_EXCL` makes sure of that: it follows no link, and takes no file that somebody planted.
pub(crate) fn new(path: &Path) -> Result<File, ProfilerError> {
    let file = OpenOptions::new().read(true).append(true).create_new(true).mode(MODE).open(path);
    file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => ProfilerError::Taken { path: path.into() },
        error => ProfilerError::Create { path: path.into(), error },
    })
}

/// A new file, or one that this process's user has made there. In a directory that everybody may write to, anybody can have put
/// a link there, to a file that they would like to be written to: `O_NOFOLLOW` refuses symbolic ones, and of hard ones
/// the count tells. `O_NONBLOCK` refuses a pipe that nobody reads, where opening would wait for ever.
pub(crate) fn new_or_own(path: &Path) -> Result<File, ProfilerError> {
    use rustix::fs::OFlags;
    let taken = || ProfilerError::Taken { path: path.into() };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags).open(path);
    let file = file.map_err(|error| match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => taken(),
        _ => ProfilerError::Create { path: path.into(), error: error.kind() },
    })?;
    let about = file.metadata().map_err(|error| ProfilerError::Create { path: path.into(), error: error.kind() })?;
    let own = about.is_file() && about.nlink() == 1 && about.uid() == rustix::process::geteuid().as_raw();
    if own { Ok(file) } else { Err(taken()) }
}

impl Records {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends what `record` makes, given how many were appended before. After an error nothing is written any more.
    pub(crate) fn append(&self, record: impl FnOnce(u64) -> Vec<u8>) -> Result<(), ProfilerError> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { file, whole, records } = &mut *guard;
        let open = file.as_mut().map_err(|why| why.clone())?;
        let bytes = record(*records);
        // In one call: others may write to the same file.
        if let Err(error) = open.write_all(&bytes) {
            if let Some(whole) = whole {
                // A part of a record would make readers lose their way. If that fails too it is the last thing in the file.
                let _ = open.set_len(*whole);
            }
            let why = ProfilerError::Write { path: self.path.clone(), error: error.kind() };
            *file = Err(why.clone());
            return Err(why);
        }
        *records += 1;
        if let Some(whole) = whole {
            *whole += bytes.len() as u64;
        }
        Ok(())
    }

    /// For tests: a file that only takes what is in it already.
    #[cfg(test)]
    pub(crate) fn full(&self) {
        let file = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        self.state.lock().expect("no panic").file = Ok(file);
    }
}
