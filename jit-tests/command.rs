//! The `picajit` command that Cargo built for these tests.

use std::ffi::OsString;
use std::process::Command;

/// The emulator that runs a command of another CPU, from `PICAJIT_RUNNER`.
pub fn emulator() -> Option<OsString> {
    std::env::var_os("PICAJIT_RUNNER")
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
