//! `picajit build`: the JSON of `inspect --json` -> a file with the same fields.
//!
//! The result is read again as its format. A file that no reader accepts is not written.

use crate::display::{count, path_name};
use crate::fields::{self, FieldsError};
use crate::load;
use crate::output_path;
use crate::{Status, VerbResult};
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::Shbin;
use picajit_containers::mbs::Mbs;
use picajit_containers::vbc::{Dialect, Vbc};
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Every value of `fields` can be edited. The rest of the JSON follows from the file and is not read.
Example: picajit inspect --json shader.mbs | sed 's/\"flags\": 24/\"flags\": 16/' | \\
    picajit build - -o new.mbs")]
pub struct Args {
    /// JSON of `inspect --json` with one file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

/// Largest JSON text that is read: the largest file has two digits a byte.
const MAX_JSON: u64 = 192 << 20;

/// Why JSON gives no file.
#[derive(Debug)]
enum BuildError {
    /// It is no JSON.
    Json { name: String, error: serde_json::Error },
    /// It has other than one file.
    Files { name: String, files: usize },
    /// It has no fields.
    NoFields { name: String },
    /// A field is wrong.
    Fields { name: String, error: FieldsError },
    /// The result is no file of its format.
    Result { name: String, kind: Kind, error: String },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Json { name, error } => {
                write!(f, "{name}: is no JSON: {error}\nhelp: `inspect --json` prints what `build` reads")
            }
            BuildError::Files { name, files } => {
                write!(f, "{name}: has {files} files\nhelp: `build` writes one file; inspect one at a time")
            }
            BuildError::NoFields { name } => {
                write!(
                    f,
                    "{name}: has no `fields`\nhelp: `inspect --json` prints them for SHBIN, DVOJ, MBS and VBC files"
                )
            }
            BuildError::Fields { name, error } => write!(f, "{name}: {error}"),
            BuildError::Result { name, kind, error } => {
                write!(f, "{name}: the fields are no {kind}: {error}\nhelp: nothing is written")
            }
        }
    }
}

impl Error for BuildError {}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let name = path_name(&args.file);
    let text = load::read(&args.file, MAX_JSON)?;
    output_path::not_an_input(&args.output, [args.file.as_path()])?;
    let json: Value = serde_json::from_slice(&text).map_err(|error| BuildError::Json { name: name.clone(), error })?;
    let file = match &json {
        Value::Array(files) if files.len() == 1 => &files[0],
        Value::Array(files) => return Err(BuildError::Files { name, files: files.len() }.into()),
        one => one,
    };
    let no_fields = || BuildError::NoFields { name: name.clone() };
    let fields = file.get("fields").filter(|fields| fields.get("format").is_some()).ok_or_else(no_fields)?;
    let (kind, bytes) = fields::build(fields).map_err(|error| BuildError::Fields { name: name.clone(), error })?;
    check(kind, &bytes, fields).map_err(|error| BuildError::Result { name, kind, error })?;
    output_path::write(&args.output, &args.file, &bytes)?;
    let size = count(bytes.len(), "byte");
    output_path::say(&args.output, format_args!("{}: {size}", path_name(&args.output)), out)?;
    Ok(Status::Fine)
}

/// Reads the result as its format.
fn check(kind: Kind, bytes: &[u8], fields: &Value) -> Result<(), String> {
    let dialect = fields["dialect"].as_str().and_then(Dialect::from_name);
    match kind {
        Kind::Shbin => Shbin::parse(bytes).map(drop).map_err(|e| e.to_string()),
        Kind::Dvoj => Dvoj::parse(bytes).map(drop).map_err(|e| e.to_string()),
        Kind::Mbs => Mbs::parse(bytes).map(drop).map_err(|e| e.to_string()),
        Kind::Vbc => {
            let dialect = dialect.ok_or("no dialect")?;
            Vbc::parse_as(bytes, dialect).map(drop).map_err(|e| e.to_string())
        }
        Kind::Metallib => Err("`build` writes no Metal library".into()),
    }
}
