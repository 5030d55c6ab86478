//! The `picajit` command that Cargo built for these tests.

use std::process::Command;

/// The command without arguments. `PICAJIT_RUNNER` is the emulator that runs a command of another
/// CPU.
pub fn picajit() -> Command {
    let picajit = env!("CARGO_BIN_EXE_picajit");
    match std::env::var_os("PICAJIT_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(picajit);
            command
        }
        None => Command::new(picajit),
    }
}
