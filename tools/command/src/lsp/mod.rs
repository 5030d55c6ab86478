//! `picajit lsp`: a language server for picasso's assembly language, on standard input and output.
//!
//! | file | from | to |
//! |---|---|---|
//! | `server` | messages | answers and diagnostics |
//! | `text` | edits | a text and its positions |
//! | `libraries` | a text, settings, files | the other files of its program |
//! | `settings` | what the editor sends | libraries and options |
//! | `document` | a text and its libraries | their analysis |
//! | `diagnostics` | an analysis | errors and warnings |
//! | `hover`, `registers` | a position | what the operand, name or instruction there means |
//! | `names` | a position | definitions, uses, highlights, and a rename that keeps the words |
//! | `completion` | a half-typed line | the words that may continue it |
//! | `signature` | a half-typed statement | its arguments |
//! | `actions` | a range | edits that remove causes of diagnostics |
//! | `tokens` | an analysis | the kind of each word |
//! | `folding` | a text | lines that can be folded |
//! | `layout` | a text | edits that indent and space it |
//! | `outline` | an analysis | procedures, labels, declarations |
//! | `manual` | | one line about each instruction and directive |
//!
//! The library's assembler reads the text; this folder has no second reading of the language.

mod actions;
mod completion;
mod diagnostics;
mod document;
mod folding;
mod hover;
mod layout;
mod libraries;
mod manual;
mod names;
mod outline;
mod registers;
mod server;
mod settings;
mod signature;
#[cfg(test)]
mod tests;
mod text;
mod tokens;

use crate::{Status, VerbResult};
use lsp_server::{Connection, ProtocolError};
use std::path::PathBuf;
use std::{fmt, io};

use settings::Settings;

#[derive(clap::Args)]
pub struct Args {
    /// Treat texts as `asm --no-nop` does: insert no NOPs at the ends of blocks
    #[arg(short, long)]
    no_nop: bool,
    /// A library (`.nodvle`) of each text's program; may be repeated. By default those beside a text
    /// whose procedures it calls. The editor's setting `libraries` has precedence
    #[arg(long, value_name = "FILE")]
    library: Vec<PathBuf>,
    /// The only transport; editors pass it
    #[arg(long, hide = true)]
    stdio: bool,
}

/// Why the server ends early.
#[derive(Debug)]
enum ServerError {
    /// The editor doesn't keep to the protocol.
    Protocol(ProtocolError),
    /// Standard input is no messages, or standard output is closed.
    Transport(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Protocol(error) => write!(f, "the language server ends: {error}"),
            ServerError::Transport(error) => write!(
                f,
                "the language server ends: {error}\nhelp: editors start `picajit lsp` and send it messages, see docs/editors.md"
            ),
        }
    }
}

impl std::error::Error for ServerError {}

pub fn run(args: &Args) -> VerbResult {
    let (connection, threads) = Connection::stdio();
    let libraries = Some(args.library.clone()).filter(|libraries| !libraries.is_empty());
    let settings = Settings { no_nop: args.no_nop, libraries };
    let ended = server::serve(&connection, settings).map_err(ServerError::Protocol);
    // The writer ends when no sender is left.
    drop(connection);
    match ended {
        Ok(server::Ended::AfterShutdown) => {
            threads.join().map_err(ServerError::Transport)?;
            Ok(Status::Fine)
        }
        // As the protocol requires: code 1 without `shutdown`.
        Ok(server::Ended::WithoutShutdown) => {
            threads.join().map_err(ServerError::Transport)?;
            Ok(Status::Different)
        }
        // The reader may wait for a message that never comes, so it isn't joined.
        Ok(server::Ended::OutputClosed) => Ok(Status::Different),
        Err(error) => Err(error.into()),
    }
}
