//! `picajit asm`: assembly text -> a SHBIN file. Several files become one program with an entry point each.
//!
//! Nothing is written unless everything assembles.

use crate::load::{self, LoadError};
use crate::names::{count, path_name, printable};
use crate::{Outcome, Status, report, target};
use picajit::container::Kind;
use picajit::text::{Assembler, Options};
use serde_json::json;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Assembly files, joined in this order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where the SHBIN goes
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Insert no NOPs where blocks end; warn instead
    #[arg(long)]
    no_nop: bool,
    /// A JSON object about what was written
    #[arg(long)]
    json: bool,
}

/// No assembly file comes near this.
const MAX_FILE: u64 = 4 << 20;

/// A file that can't be written.
#[derive(Debug)]
pub struct WriteError {
    /// The path.
    pub name: String,
    /// The system's words.
    pub error: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: can't be written: {}", self.name, self.error)
    }
}

impl std::error::Error for WriteError {}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    target::not_source(&args.output)?;
    target::not_an_input(&args.output, args.files.iter().map(PathBuf::as_path))?;
    let mut sources = Vec::new();
    for path in &args.files {
        let name = path_name(path);
        let bytes = load::read(path, MAX_FILE)?;
        if let Some(kind) = Kind::sniff(&bytes) {
            return Err(LoadError::NotAssembly { name, kind }.into());
        }
        sources.push((load::text(&name, &bytes)?.to_string(), name));
    }
    let mut assembler = Assembler::new(Options { no_nop: args.no_nop });
    for (text, name) in &sources {
        assembler.add_file(name, text).map_err(source_error)?;
    }
    let assembly = assembler.finish().map_err(source_error)?;
    for warning in &assembly.warnings {
        report::plain(warning);
    }
    let shbin = &assembly.shbin;
    let bytes = shbin.write()?;
    let name = args.output.display().to_string();
    std::fs::write(&args.output, &bytes).map_err(|error| WriteError { name: printable(&name), error })?;
    if args.json {
        let object = json!({
            "file": name,
            "bytes": bytes.len(),
            "words": shbin.code.len(),
            "descriptors": shbin.opdescs.len(),
            "entries": shbin.dvles.len(),
            "warnings": assembly.warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>(),
        });
        writeln!(out, "{object:#}")?;
    } else {
        let (words, descriptors) = (count(shbin.code.len(), "word"), count(shbin.opdescs.len(), "descriptor"));
        let (entries, bytes) = (count(shbin.dvles.len(), "entry"), count(bytes.len(), "byte"));
        let name = printable(&name);
        report::plain(format_args!("{name}: {words}, {descriptors}, {entries}, {bytes}"));
    }
    Ok(Status::Fine)
}

fn source_error(error: picajit::text::AsmError) -> LoadError {
    LoadError::Source(Box::new(error))
}
