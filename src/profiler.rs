//! Who is told what the JIT compiles, and why nobody is after all: two values that hosts name.
//!
//! They are there in every build, also where nothing is compiled. It must not know how anybody is told.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Who is told of native code, so that a profiler shows shaders by name instead of addresses without one. Off by default; off
/// costs nothing. Only Linux has these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profiler {
    /// Nobody.
    #[default]
    None,
    /// `perf report`, through lines `START SIZE name` in `/tmp/perf-PID.map`. Names only, and the file can't say that code is gone:
    /// where shaders come and go, a dump tells more. Other code generators of the process may write to the same file.
    PerfMap,
    /// `perf inject --jit`, through `jit-PID.dump` in perf's jitdump format: names, code, and for each stretch of code the
    /// instruction it was made from, as a line of a listing that is written next to the dump. Times are those of
    /// `perf record -k mono`.
    Jitdump {
        /// Where both are written; made if it is not there.
        directory: PathBuf,
    },
}

/// Why a profiler is not told, or no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProfilerError {
    /// It is not Linux.
    Platform,
    /// Nothing is compiled: the interpreter runs everything.
    NoNativeCode,
    /// The file could not be made.
    Create {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::ErrorKind,
    },
    /// There is something of that name that nothing should be written to: an older dump, a symbolic link, somebody else's file.
    Taken {
        /// Which.
        path: PathBuf,
    },
    /// The dump may not be mapped executable, which is how perf notices it; as on a file system mounted `noexec`.
    NotMapped {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::ErrorKind,
    },
    /// Writing failed, and was not tried again. What is in the file is whole.
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::ErrorKind,
    },
}

impl fmt::Display for ProfilerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfilerError::Platform => f.write_str("only Linux has perf"),
            ProfilerError::NoNativeCode => f.write_str("shaders are interpreted, there is no native code to name"),
            ProfilerError::Create { path, error } => write!(f, "can't make {}: {error}", path.display()),
            ProfilerError::Taken { path } => {
                write!(f, "{} is there already and is not this process's to write to", path.display())
            }
            ProfilerError::NotMapped { path, error } => {
                write!(f, "{} can't be mapped executable, so perf would not notice it: {error}", path.display())
            }
            ProfilerError::Write { path, error } => write!(f, "can't write to {} any more: {error}", path.display()),
        }
    }
}

impl std::error::Error for ProfilerError {}
