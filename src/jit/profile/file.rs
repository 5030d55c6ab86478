//! Records -> the files that perf reads: one of each kind a process, shared by all its engines,
//! never opened through a link.
//!
//! Invariant: a file holds whole records only, in the order of their creation. perf finds both
//! files by the process's number, so there is one map a process and one dump a directory: a second
//! engine appends to the first one's. Files stay open until the process ends, because a later
//! engine can't tell its own process's dump from another's.

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
    /// Or the error that ended writing.
    file: Result<File, ProfilerError>,
    /// Bytes of whole records, if no other program writes to the file.
    whole: Option<u64>,
    records: u64,
}

/// Owner-only; perf run by root reads it all the same.
const MODE: u32 = 0o600;

/// Every file that this process has open.
static OPEN: Mutex<Vec<Arc<Records>>> = Mutex::new(Vec::new());

/// This process's file at `path`: the open one, or the one that `make` opens.
pub(crate) fn open(
    path: PathBuf,
    make: impl FnOnce(&Path) -> Result<(File, Option<u64>), ProfilerError>,
) -> Result<Arc<Records>, ProfilerError> {
    // The lock is held during `make`: two engines that start at once make one file.
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

/// A new file. With `O_EXCL` the call follows no link and opens no existing file.
pub(crate) fn new(path: &Path) -> Result<File, ProfilerError> {
    let file = OpenOptions::new().read(true).append(true).create_new(true).mode(MODE).open(path);
    file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => ProfilerError::Taken { path: path.into() },
        error => ProfilerError::Create { path: path.into(), error },
    })
}

/// A new file, or one that this process's user made. In a directory that every user may write to,
/// another user may have put a link to a victim's file: `O_NOFOLLOW` rejects symbolic links, the
/// link count reveals hard links, and `O_NONBLOCK` rejects a pipe without readers, which would
/// block.
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
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the record that `record` makes from the number of earlier records. After an error
    /// the file is closed to writing.
    pub(crate) fn append(&self, record: impl FnOnce(u64) -> Vec<u8>) -> Result<(), ProfilerError> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { file, whole, records } = &mut *guard;
        let open = file.as_mut().map_err(|why| why.clone())?;
        let bytes = record(*records);
        // One call: other programs may append to the same file.
        if let Err(error) = open.write_all(&bytes) {
            if let Some(whole) = whole {
                // A partial record would confuse readers. If truncation fails too, it stays the
                // last one.
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

    /// For tests: a file that accepts no more bytes.
    #[cfg(test)]
    pub(crate) fn full(&self) {
        let file = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        self.state.lock().expect("no panic").file = Ok(file);
    }
}
