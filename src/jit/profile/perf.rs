//! Functions -> records in the files that Linux perf looks for.
//!
//! It does not know how code is compiled.

use crate::jit::profile::file::{self, Records};
use crate::jit::profile::jitdump::{self, LineEntry, Load};
use crate::jit::profile::{Installed, digits, listing};
use crate::jit::runtime::code_memory;
use crate::profiler::{Profiler, ProfilerError};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

/// The destination of records.
pub(crate) enum Output {
    /// Names only.
    Map(Arc<Records>),
    /// Names, code and lines.
    Dump(Arc<Records>),
}

/// perf's fixed directory for maps; it ignores `TMPDIR`.
const MAPS: &str = "/tmp";

impl Output {
    /// Opens the file of the profiler, or this process's open one.
    pub(crate) fn open(profiler: &Profiler) -> Result<Option<Output>, ProfilerError> {
        let pid = process::id();
        Ok(match profiler {
            Profiler::None => None,
            Profiler::PerfMap => {
                let path = Path::new(MAPS).join(format!("perf-{pid}.map"));
                // Other programs may append to a map, so the end of its whole lines is unknown.
                Some(Output::Map(file::open(path, |path| Ok((file::new_or_own(path)?, None)))?))
            }
            Profiler::Jitdump { directory } => {
                let failed = |e: std::io::Error| ProfilerError::Create { path: directory.clone(), error: e.kind() };
                std::fs::create_dir_all(directory).map_err(failed)?;
                // Every record has the name, and perf may run in another directory.
                let path = directory.canonicalize().map_err(failed)?.join(format!("jit-{pid}.dump"));
                Some(Output::Dump(file::open(path, begin)?))
            }
        })
    }

    /// Writes all records of one function in one call.
    pub(crate) fn record(&self, installed: &Installed<'_>) -> Result<(), ProfilerError> {
        let Installed { name, code, .. } = installed;
        let address = code.as_ptr() as u64;
        match self {
            Output::Map(file) => file.append(|_| format!("{address:x} {:x} {name}\n", code.len()).into_bytes()),
            Output::Dump(file) => {
                let listed = list(file.path(), installed);
                let recorded = file.append(|index| {
                    let now = now();
                    let mut records = Vec::new();
                    // perf's fields are bytes, but its readers print them as text, so a path that
                    // is not UTF-8 is left out.
                    if let Some(source) = listed.as_ref().ok().and_then(|path| path.to_str()) {
                        let rows: Vec<_> =
                            installed.rows.iter().map(|&(offset, line)| LineEntry { offset, line }).collect();
                        // The format wants lines before the code that they belong to.
                        records.extend(jitdump::debug_info(now, address, source, &rows));
                    }
                    let ids = [process::id(), rustix::thread::gettid().as_raw_nonzero().get() as u32];
                    records.extend(jitdump::load(now, &Load { ids, address, index, name, code }));
                    records
                });
                recorded.and(listed.map(drop))
            }
        }
    }
}

/// A new dump with its header, announced to perf.
fn begin(path: &Path) -> Result<(std::fs::File, Option<u64>), ProfilerError> {
    let mut file = file::new(path)?;
    let header = jitdump::header(process::id(), now());
    let begun = file
        .write_all(&header)
        .map_err(|e| ProfilerError::Write { path: path.into(), error: e.kind() })
        .and_then(|()| {
            code_memory::show_to_perf(&file)
                .map_err(|e| ProfilerError::NotMapped { path: path.into(), error: e.kind() })
        });
    if let Err(why) = begun {
        // Useless, and in the way of the next attempt.
        let _ = std::fs::remove_file(path);
        return Err(why);
    }
    Ok((file, Some(header.len() as u64)))
}

/// Writes the listing of a program next to the dump, once a process; its name is the program's
/// hash.
fn list(dump: &Path, installed: &Installed<'_>) -> Result<PathBuf, ProfilerError> {
    static LISTED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let path = dump.with_file_name(format!("jit-{}-{:.16}.pica", process::id(), digits(installed.program)));
    // The lock is held until the listing is complete: a path in the set is a whole file.
    let mut guard = LISTED.lock().unwrap_or_else(PoisonError::into_inner);
    let listed = guard.get_or_insert_default();
    if !listed.contains(&path) {
        let failed = |e: std::io::Error| ProfilerError::Write { path: path.clone(), error: e.kind() };
        file::new(&path)?.write_all(listing(installed.program).as_bytes()).map_err(failed)?;
        listed.insert(path.clone());
    }
    Ok(path)
}

/// Nanoseconds of the clock that the format prescribes.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
