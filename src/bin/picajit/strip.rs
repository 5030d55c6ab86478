//! `picajit strip`: a Metal library -> the same without sources and debug paths.

use crate::display::{count, path_name};
use crate::foreign::{self, Content};
use crate::load::LoadError;
use crate::output_path;
use crate::{Status, VerbResult};
use picajit::container::metallib;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Modules are unchanged, so paths inside of their debug information stay.
Example: picajit strip default.metallib -o small.metallib")]
pub struct Args {
    /// A Metal library
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Also remove the reflection of arguments, which Apple's tools read
    #[arg(long)]
    reflection: bool,
    /// File to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let name = path_name(&args.file);
    let mut file = foreign::open(&args.file, None)?;
    let Some(Content::Metallib(library, source)) = file.as_mut().map(|f| &mut f.content) else {
        return Err(format!("{name}: is no Metal library\nhelp: other formats have nothing to strip").into());
    };
    let what = metallib::Strip { sources: true, debug: true, reflection: args.reflection };
    let mut bytes = Vec::new();
    let kind = picajit::container::Kind::Metallib;
    library.strip(source, what, &mut bytes).map_err(|error| LoadError::DamagedForeign { name, kind, error })?;
    output_path::write(&args.output, &args.file, &bytes)?;
    let before = file.map_or(0, |f| f.size);
    writeln!(out, "{}: {} of {before}", path_name(&args.output), count(bytes.len(), "byte"))?;
    Ok(Status::Fine)
}
