//! `picajit asm`: assembly text -> a SHBIN file and, with `-h`, a C header. Several files become
//! one program with an entry point each. With `--object` the result is an unlinked object (DVOJ);
//! objects in place of texts are linked to a SHBIN file.
//!
//! The options are picasso's, so that a build can name either command; `-h` is the header there,
//! not help. Nothing is written unless everything assembles.

use crate::display::{count, path_name, printable};
use crate::load::{self, LoadError};
use crate::{Status, VerbResult, object, output_path, pipe, report};
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::Shbin;
use picajit::text::Options;
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Assembly files, joined in this order, or objects (DVOJ) to link; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// SHBIN file or object to write; - is standard output
    #[arg(short, long, alias = "out", value_name = "OUT")]
    output: PathBuf,
    /// C header to write, with the registers of the uniforms; byte for byte picasso's
    #[arg(short = 'h', long, value_name = "HEADER")]
    header: Option<PathBuf>,
    /// Insert no NOPs at the ends of blocks; warn instead
    #[arg(short, long)]
    no_nop: bool,
    /// Write an object (DVOJ) that is to be linked
    #[arg(long, conflicts_with = "header")]
    object: bool,
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

impl Error for HeaderError {}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    output_path::not_source(&args.output)?;
    output_path::not_an_input(&args.output, args.files.iter().map(PathBuf::as_path))?;
    if let Some(header) = &args.header {
        if load::is_source(header) && !pipe::is_pipe(header) {
            return Err(HeaderError::NamedLikeSource(path_name(header)).into());
        }
        output_path::not_an_input(header, args.files.iter().map(PathBuf::as_path))?;
        if header == &args.output || output_path::not_an_input(header, [args.output.as_path()]).is_err() {
            return Err(HeaderError::IsOutput(path_name(header)).into());
        }
    }
    let results = [Some(&args.output), args.header.as_ref()].into_iter().flatten();
    if args.json && results.into_iter().any(|path| pipe::is_pipe(path)) {
        return Err("--json and a result both go to standard output\nhelp: name a file for the result".into());
    }
    let Output { bytes, warnings, header, kind, counts } = match objects(&args.files)? {
        Some(objects) => linked(args, objects)?,
        None => assembled(args)?,
    };
    let name = args.output.display().to_string();
    output_path::put(&args.output, &bytes)?;
    if let (Some(path), Some(text)) = (&args.header, &header) {
        output_path::put(path, text.as_bytes())?;
    }
    let [words, descriptors, entries] = counts;
    if args.json {
        let object = json!({
            "file": name,
            "kind": kind.to_string(),
            "header": args.header.as_ref().map(|path| path.display().to_string()),
            "bytes": bytes.len(),
            "words": words,
            "descriptors": descriptors,
            "entries": entries,
            "warnings": warnings,
        });
        writeln!(out, "{object:#}")?;
    } else {
        let (words, descriptors) = (count(words, "word"), count(descriptors, "descriptor"));
        let (entries, bytes) = (count(entries, "entry"), count(bytes.len(), "byte"));
        let name = printable(&name);
        report::plain(format_args!("{name}: {words}, {descriptors}, {entries}, {bytes}"));
    }
    Ok(Status::Fine)
}

/// What is written and reported.
struct Output {
    bytes: Vec<u8>,
    warnings: Vec<String>,
    header: Option<String>,
    kind: Kind,
    /// Words, descriptors, entries.
    counts: [usize; 3],
}

fn counts(shbin: &Shbin) -> [usize; 3] {
    [shbin.code.len(), shbin.opdescs.len(), shbin.dvles.len()]
}

fn assembled(args: &Args) -> Result<Output, Box<dyn Error>> {
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
    let warnings = assembly.warnings.iter().map(|w| w.to_string()).collect();
    let header = args.header.as_ref().map(|_| assembly.c_header());
    let counts = counts(&assembly.shbin);
    let (bytes, kind) = match args.object {
        true => (object::object(assembly)?.write()?, Kind::Dvoj),
        false => (assembly.shbin.write()?, Kind::Shbin),
    };
    Ok(Output { bytes, warnings, header, kind, counts })
}

/// The objects, if the first file is one.
fn objects(paths: &[PathBuf]) -> Result<Option<Vec<(String, Dvoj)>>, LoadError> {
    let is_object = |path: &Path| Ok::<_, LoadError>(Kind::sniff(&load::begins(path)?) == Some(Kind::Dvoj));
    if !is_object(&paths[0])? {
        return Ok(None);
    }
    let mut objects = Vec::new();
    for path in paths {
        let name = path_name(path);
        if !is_object(path)? {
            return Err(LoadError::NotObject { name });
        }
        let damaged = |error| LoadError::Damaged { name: name.clone(), kind: Kind::Dvoj, error };
        let object = Dvoj::parse(&load::read(path, MAX_FILE)?).map_err(damaged)?;
        objects.push((name, object));
    }
    Ok(Some(objects))
}

fn linked(args: &Args, objects: Vec<(String, Dvoj)>) -> Result<Output, Box<dyn Error>> {
    let option = [("--object", args.object), ("--header", args.header.is_some()), ("--no-nop", args.no_nop)];
    if let Some((option, _)) = option.into_iter().find(|(_, is_given)| *is_given) {
        return Err(format!("{option} is for assembly text, and the files are objects\nhelp: leave it out").into());
    }
    let (shbin, warnings) = object::link(objects)?;
    warnings.iter().for_each(report::warning);
    Ok(Output { bytes: shbin.write()?, warnings, header: None, kind: Kind::Shbin, counts: counts(&shbin) })
}
