//! `picajit strip`: a Metal library -> the same without sources and debug paths.

use crate::display::{count, path_name};
use crate::foreign::{self, Content, Reading};
use crate::load::LoadError;
use crate::output_path::{self, WriteError};
use crate::{Status, VerbResult, pipe};
use picajit::container::Kind;
use picajit_containers::metallib;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Modules are unchanged, so paths inside of their debug information stay.
Example: picajit strip default.metallib -o small.metallib")]
pub struct Args {
    /// A Metal library
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Slice of a fat Metal library, by name or number; by default its only library
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Also remove the reflection of arguments, which Apple's tools read
    #[arg(long)]
    reflection: bool,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let name = path_name(&args.file);
    let mut file = foreign::open(&args.file, Reading { arch: args.arch.as_deref(), ..Reading::default() })?;
    let Some(Content::Metallib(library, source)) = file.as_mut().map(|f| &mut f.content) else {
        return Err(format!("{name}: is no Metal library\nhelp: other formats have nothing to strip").into());
    };
    let what = metallib::Strip { sources: true, debug: true, reflection: args.reflection };
    output_path::not_an_input(&args.output, [args.file.as_path()])?;
    let mut strip = |out: &mut dyn Write| {
        let damaged = |error| LoadError::DamagedForeign { name: name.clone(), kind: Kind::Metallib, error };
        library.strip(source, what, &mut &mut *out).map_err(damaged)
    };
    // A library that can't be stripped leaves the target as it is. Large ones are never in memory.
    let mut counted = Counted(0);
    strip(&mut counted)?;
    let fail = |error| WriteError { name: path_name(&args.output), error };
    let mut target: Box<dyn Write> = match pipe::is_pipe(&args.output) {
        true => Box::new(io::stdout()),
        false => Box::new(BufWriter::new(File::create(&args.output).map_err(fail)?)),
    };
    strip(&mut target)?;
    target.flush().map_err(fail)?;
    let before = file.map_or(0, |f| f.size);
    let (name, size) = (path_name(&args.output), count(counted.0, "byte"));
    output_path::say(&args.output, format_args!("{name}: {size} of {before}"), out)?;
    Ok(Status::Fine)
}

/// A result of which only the length matters.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
