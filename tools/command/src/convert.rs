//! `picajit convert`: a container -> the same in another dialect, or repaired.

use crate::display::{count, path_name};
use crate::foreign::{self, Content, Reading};
use crate::load::LoadError;
use crate::output_path;
use crate::verify;
use crate::{Status, VerbResult, report};
use picajit_containers::cursor::FormatError;
use picajit_containers::finding::Severity;
use picajit_containers::mbs::Mbs;
use picajit_containers::vbc::{Dialect, Vbc};
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  picajit convert old.vbc --to C -o new.vbc
  picajit convert leaky.vbc --repair -o clean.vbc")]
pub struct Args {
    /// A VBC or MBS file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Dialect of the result: A2 or C (VBC only)
    #[arg(long, value_name = "DIALECT", value_parser = verify::dialect, required_unless_present = "repair")]
    to: Option<Dialect>,
    /// Layout of a VBC input: A0, A1, A2 or C; by default the one that fits
    #[arg(long, value_name = "DIALECT", value_parser = verify::dialect)]
    dialect: Option<Dialect>,
    /// Replace what the compiler wrote against the rules
    #[arg(long)]
    repair: bool,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let name = path_name(&args.file);
    let file = foreign::open(&args.file, Reading { dialect: args.dialect, ..Reading::default() })?;
    let (bytes, findings) = match file.map(|f| f.content) {
        Some(Content::Vbc(vbc)) => {
            let vbc = vbc_result(*vbc, args).map_err(|e| format!("{name}: {}", e.message))?;
            (vbc.write(), vbc.verify())
        }
        Some(Content::Mbs(mbs)) if args.to.is_none() => {
            let mbs: Mbs = mbs.canonical();
            let kind = picajit::container::Kind::Mbs;
            let bytes = mbs.write().map_err(|error| LoadError::DamagedForeign { name: name.clone(), kind, error })?;
            (bytes, mbs.verify())
        }
        _ => {
            return Err(format!(
                "{name}: has no other dialect\nhelp: VBC files have dialects; MBS files take --repair alone"
            )
            .into());
        }
    };
    output_path::write(&args.output, &args.file, &bytes)?;
    let target = path_name(&args.output);
    for finding in findings.iter().filter(|f| f.severity == Severity::Error) {
        report::warning(format_args!("{target}: {finding}"));
    }
    output_path::say(&args.output, format_args!("{target}: {}", count(bytes.len(), "byte")), out)?;
    Ok(Status::Fine)
}

fn vbc_result(vbc: Vbc, args: &Args) -> Result<Vbc, FormatError> {
    let vbc = if args.repair { vbc.repaired()? } else { vbc };
    args.to.map_or(Ok(vbc.clone()), |dialect| vbc.converted(dialect))
}
