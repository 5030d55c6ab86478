//! `picajit asm`: assembly text -> a SHBIN file and, with `-h`, a C header. Several files become
//! one program with an entry point each.
//!
//! The options are picasso's, so that a build can name either command; `-h` is the header there,
//! not help. Nothing is written unless everything assembles.

use crate::display::{count, path_name, printable};
use crate::load::{self, LoadError};
use crate::output_path::WriteError;
use crate::{Status, VerbResult, output_path, report};
use picajit::container::Kind;
use picajit::text::Options;
use serde_json::json;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Assembly files, joined in this order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// SHBIN file to write
    #[arg(short, long, alias = "out", value_name = "OUT")]
    output: PathBuf,
    /// C header to write, with the registers of the uniforms; byte for byte picasso's
    #[arg(short = 'h', long, value_name = "HEADER")]
    header: Option<PathBuf>,
    /// Insert no NOPs at the ends of blocks; warn instead
    #[arg(short, long)]
    no_nop: bool,
    /// Print a JSON object about the written files
    #[arg(long)]
    json: bool,
    /// Print help (`-h` is the header)
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Largest assembly file that is read, far above any real one.
const MAX_FILE: u64 = 4 << 20;

/// A path that can't take the header.
#[derive(Debug)]
enum HeaderError {
    /// The SHBIN is written there.
    IsOutput(String),
    /// Its name is one of assembly text.
    NamedLikeSource(String),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::IsOutput(name) => {
                write!(f, "{name}: the SHBIN and the header are the same file\nhelp: give the header another name")
            }
            HeaderError::NamedLikeSource(name) => {
                write!(f, "{name}: is a name of assembly text\nhelp: -h takes a C header to write, --help prints help")
            }
        }
    }
}

impl std::error::Error for HeaderError {}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    output_path::not_source(&args.output)?;
    output_path::not_an_input(&args.output, args.files.iter().map(PathBuf::as_path))?;
    if let Some(header) = &args.header {
        if load::is_source(header) {
            return Err(HeaderError::NamedLikeSource(path_name(header)).into());
        }
        output_path::not_an_input(header, args.files.iter().map(PathBuf::as_path))?;
        if header == &args.output || output_path::not_an_input(header, [args.output.as_path()]).is_err() {
            return Err(HeaderError::IsOutput(path_name(header)).into());
        }
    }
    let mut sources = Vec::new();
    for path in &args.files {
        let name = path_name(path);
        let bytes = load::read(path, MAX_FILE)?;
        if let Some(kind) = Kind::sniff(&bytes) {
            return Err(LoadError::NotAssembly { name, kind }.into());
        }
        sources.push((load::text(&name, &bytes)?.into_owned(), name));
    }
    let files: Vec<(&str, &str)> = sources.iter().map(|(text, name)| (name.as_str(), text.as_str())).collect();
    let assembly = load::assemble(&files, Options { no_nop: args.no_nop })?;
    for warning in &assembly.warnings {
        report::plain(format_args!("{warning:#}"));
    }
    let shbin = &assembly.shbin;
    let bytes = shbin.write()?;
    let name = args.output.display().to_string();
    write(&args.output, &bytes)?;
    if let Some(header) = &args.header {
        write(header, assembly.c_header().as_bytes())?;
    }
    if args.json {
        let object = json!({
            "file": name,
            "header": args.header.as_ref().map(|path| path.display().to_string()),
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

fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    std::fs::write(path, bytes).map_err(|error| WriteError { name: path_name(path), error })
}
