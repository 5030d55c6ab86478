//! The profiler that receives the names of compiled shaders, and the errors of writing for it.
//!
//! Both types exist in every build, also without the JIT.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The profiler that receives native code, so that it shows shaders by name instead of bare
/// addresses. Off by default, at no cost. Linux only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profiler {
    /// No profiler.
    #[default]
    None,
    /// `perf report`, through lines `START SIZE name` in `/tmp/perf-PID.map`. The file has names
    /// only and can't express that code is freed; if shaders are evicted, prefer a jitdump. Other
    /// code generators of the process may write to the same file.
    PerfMap,
    /// `perf inject --jit`, through `jit-PID.dump` in perf's jitdump format. The dump has names,
    /// code, and the source instruction of each code range, as a line of a listing that is written
    /// next to the dump. Times are those of `perf record -k mono`.
    Jitdump {
        /// Directory of dump and listing; created if missing.
        directory: PathBuf,
    },
}

/// Why a profiler does not receive code, or no longer does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProfilerError {
    /// The system is not Linux.
    Platform,
    /// Nothing is compiled: the interpreter runs everything.
    NoNativeCode,
    /// The file could not be created.
    Create {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::ErrorKind,
    },
    /// The name is taken by a file that must not be overwritten: an older dump, a symbolic link, or
    /// a file of another owner.
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// The dump can't be mapped executable, as on a file system mounted `noexec`. perf finds a dump
    /// by that mapping.
    NotMapped {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::ErrorKind,
    },
    /// Writing failed and is not retried. The records in the file are complete.
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::ErrorKind,
    },
}

impl fmt::Display for ProfilerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfilerError::Platform => f.write_str("only Linux has perf"),
            ProfilerError::NoNativeCode => f.write_str("shaders are interpreted: there is no native code to name"),
            ProfilerError::Create { path, error } => write!(f, "can't create {}: {error}", path.display()),
            ProfilerError::Taken { path } => {
                write!(f, "{} already exists and does not belong to this process", path.display())
            }
            ProfilerError::NotMapped { path, error } => {
                write!(f, "{} can't be mapped executable, so perf would not find it: {error}", path.display())
            }
            ProfilerError::Write { path, error } => write!(f, "can't write to {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ProfilerError {}
