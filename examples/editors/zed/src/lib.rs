//! Tells Zed how to start `picajit lsp`.

use zed_extension_api::{self as zed, Command, LanguageServerId, Result, Worktree};

struct Picasso;

impl zed::Extension for Picasso {
    fn new() -> Self {
        Picasso
    }

    fn language_server_command(&mut self, _: &LanguageServerId, worktree: &Worktree) -> Result<Command> {
        let command = worktree.which("picajit").ok_or("picajit is not in the PATH")?;
        Ok(Command { command, args: vec!["lsp".into()], env: worktree.shell_env() })
    }
}

zed::register_extension!(Picasso);
