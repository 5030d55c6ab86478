//! `picajit completions`: a shell's name -> its script that completes verbs and options.

use crate::{Cli, Status, VerbResult};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  picajit completions bash > ~/.local/share/bash-completion/completions/picajit
  picajit completions fish > ~/.config/fish/completions/picajit.fish
  picajit completions zsh > ~/.zfunc/_picajit")]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "picajit", &mut script);
    out.write_all(&script)?;
    Ok(Status::Fine)
}
