//! The `picajit` command that Cargo built for these tests.

use std::ffi::OsString;
use std::process::Command;

/// The repository: this package is in a folder of it.
#[allow(dead_code)] // not every test program reads files
pub const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The emulator that runs a command of another CPU, from `PICAJIT_RUNNER`.
pub fn emulator() -> Option<OsString> {
    std::env::var_os("PICAJIT_RUNNER")
}

/// How many times as long as on a plain machine a command may take, from `PICAJIT_SLOW`.
#[allow(dead_code)] // not every test binary has a limit of time
pub fn slowness() -> u32 {
    std::env::var("PICAJIT_SLOW").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// The command without arguments.
pub fn picajit() -> Command {
    let picajit = env!("CARGO_BIN_EXE_picajit");
    match emulator() {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(picajit);
            command
        }
        None => Command::new(picajit),
    }
}
