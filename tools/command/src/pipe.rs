//! `-` as a path -> standard input, read once.

use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

/// Most bytes of standard input, as of the JSON text of the largest file.
const MOST: u64 = 192 << 20;

/// Whether a path is `-`.
pub fn is_pipe(path: &Path) -> bool {
    path == Path::new("-")
}

/// Standard input; one byte more than [`MOST`] if it is longer.
pub fn input() -> io::Result<&'static [u8]> {
    static INPUT: OnceLock<Result<Vec<u8>, io::ErrorKind>> = OnceLock::new();
    let read = || {
        let mut bytes = Vec::new();
        io::stdin().take(MOST + 1).read_to_end(&mut bytes).map_err(|error| error.kind())?;
        Ok(bytes)
    };
    INPUT.get_or_init(read).as_deref().map_err(|kind| (*kind).into())
}

/// Whether standard input, of this length, is too long for a limit.
pub fn is_too_long(len: usize, limit: u64) -> bool {
    len as u64 > limit.min(MOST)
}
