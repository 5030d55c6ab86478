//! Functions -> records in the files that Linux perf looks for.
//!
//! It must not know how code is made.

use super::file::{self, Records};
use super::jitdump::{self, Load, Row};
use super::{Installed, digits, listing};
use crate::jit::code;
use crate::profiler::{Profiler, Unprofiled};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

/// Where records go.
pub(super) enum Output {
    /// Names.
    Map(Arc<Records>),
    /// All there is to know.
    Dump(Arc<Records>),
}

/// Where perf looks for maps, whatever `TMPDIR` says.
const MAPS: &str = "/tmp";

impl Output {
    /// Opens the file, or goes on in it.
    pub(super) fn open(profiler: &Profiler) -> Result<Option<Output>, Unprofiled> {
        let pid = process::id();
        Ok(match profiler {
            Profiler::None => None,
            Profiler::PerfMap => {
                let path = Path::new(MAPS).join(format!("perf-{pid}.map"));
                // Others may append to it, so that nobody knows where whole lines end.
                Some(Output::Map(file::open(path, |path| Ok((file::new_or_own(path)?, None)))?))
            }
            Profiler::Jitdump { directory } => {
                let failed = |e: std::io::Error| Unprofiled::Create { path: directory.clone(), error: e.kind() };
                std::fs::create_dir_all(directory).map_err(failed)?;
                // The name goes into every record, and perf may run elsewhere.
                let path = directory.canonicalize().map_err(failed)?.join(format!("jit-{pid}.dump"));
                Some(Output::Dump(file::open(path, begin)?))
            }
        })
    }

    /// Writes all of one function at once.
    pub(super) fn record(&self, installed: &Installed<'_>) -> Result<(), Unprofiled> {
        let Installed { name, code, .. } = installed;
        let address = code.as_ptr() as u64;
        match self {
            Output::Map(file) => file.append(|_| format!("{address:x} {:x} {name}\n", code.len()).into_bytes()),
            Output::Dump(file) => {
                let listed = list(file.path(), installed);
                let recorded = file.append(|index| {
                    let now = now();
                    let mut records = Vec::new();
                    // A name that is no text can't be told; perf's fields are bytes, but its readers print them.
                    if let Some(source) = listed.as_ref().ok().and_then(|path| path.to_str()) {
                        let rows: Vec<_> = installed.rows.iter().map(|&(offset, line)| Row { offset, line }).collect();
                        // Lines come before the code that they are of, says the document.
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

/// A new dump with its header, known to perf.
fn begin(path: &Path) -> Result<(std::fs::File, Option<u64>), Unprofiled> {
    let mut file = file::new(path)?;
    let header = jitdump::header(process::id(), now());
    let begun =
        file.write_all(&header).map_err(|e| Unprofiled::Write { path: path.into(), error: e.kind() }).and_then(|()| {
            code::show_to_perf(&file).map_err(|e| Unprofiled::NotMapped { path: path.into(), error: e.kind() })
        });
    if let Err(why) = begun {
        // Of no use, and in the way of the next try.
        let _ = std::fs::remove_file(path);
        return Err(why);
    }
    Ok((file, Some(header.len() as u64)))
}

/// Writes the listing of a program next to the dump, unless this process has done it; its name is the program's hash.
fn list(dump: &Path, installed: &Installed<'_>) -> Result<PathBuf, Unprofiled> {
    static LISTED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let path = dump.with_file_name(format!("jit-{}-{:.16}.pica", process::id(), digits(installed.source)));
    // Held until it is written: whoever finds it in there finds it whole.
    let mut guard = LISTED.lock().unwrap_or_else(PoisonError::into_inner);
    let listed = guard.get_or_insert_default();
    if !listed.contains(&path) {
        let failed = |e: std::io::Error| Unprofiled::Write { path: path.clone(), error: e.kind() };
        file::new(&path)?.write_all(listing(installed.source).as_bytes()).map_err(failed)?;
        listed.insert(path.clone());
    }
    Ok(path)
}

/// Nanoseconds of the clock that the document asks for.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
