//! `picajit playground`: the WebAssembly module in this build -> one HTML file with editors.

use crate::display::path_name;
use crate::{Status, VerbResult, html, output_path};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// The module of `.ci/playground`.
#[cfg(feature = "playground-module")]
const MODULE: Option<&[u8]> =
    Some(include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/playground/playground.wasm")));
#[cfg(not(feature = "playground-module"))]
const MODULE: Option<&[u8]> = None;

/// The texts that the editors begin with.
const SOURCE: &str = include_str!("../../../examples/playground/example.pica");
const VALUES: &str = include_str!("../../../examples/playground/values.txt");

#[derive(clap::Args)]
#[command(after_help = "\
The page needs no other file and no network. A source and values in editors, with words, SSA and traces after each keystroke. \
`explore --serve FILE` serves the same page for a file.")]
pub struct Args {
    /// File to write the page to; - is standard output
    #[arg(short, long, value_name = "PAGE")]
    output: PathBuf,
}

/// Why there is no page.
#[derive(Debug)]
enum PlaygroundError {
    NoModule,
}

impl fmt::Display for PlaygroundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaygroundError::NoModule => f.write_str(
                "this build has no WebAssembly module\n\
                 help: `picajit explore --serve FILE.pica` serves the same page without one",
            ),
        }
    }
}

impl std::error::Error for PlaygroundError {}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let page = html::playground(MODULE.ok_or(PlaygroundError::NoModule)?, SOURCE, VALUES);
    let shown = path_name(&args.output);
    output_path::put(&args.output, page.as_bytes())?;
    output_path::say(&args.output, format_args!("{shown}: {} bytes", page.len()), out)?;
    Ok(Status::Fine)
}
