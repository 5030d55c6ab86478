//! `picajit link-check`: two MBS files -> whether their programs fit.

use crate::display::path_name;
use crate::foreign::{self, Content, Reading};
use crate::{Status, VerbResult};
use picajit_containers::finding::Severity;
use picajit_containers::mbs::{Mbs, link_check};
use serde_json::json;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Example: picajit link-check scene_vert.mbs scene_frag.mbs")]
pub struct Args {
    /// An MBS file with a vertex program, and one with a fragment program, in either order
    #[arg(value_name = "FILE", num_args = 2, required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON array of findings
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let [a, b] = [mbs(&args.files[0])?, mbs(&args.files[1])?];
    let findings = link_check(&a, &b);
    if args.json {
        let rows = findings.iter().map(|f| json!({ "severity": f.severity.to_string(), "message": f.message }));
        writeln!(out, "{:#}", rows.collect::<serde_json::Value>())?;
    } else {
        for f in &findings {
            writeln!(out, "{}: {}", f.severity, f.message)?;
        }
        if findings.is_empty() {
            writeln!(out, "the programs fit")?;
        }
    }
    let fails = findings.iter().any(|f| f.severity == Severity::Error);
    Ok(if fails { Status::Different } else { Status::Fine })
}

fn mbs(path: &Path) -> Result<Mbs, Box<dyn Error>> {
    match foreign::open(path, Reading::default())?.map(|f| f.content) {
        Some(Content::Mbs(mbs)) => Ok(mbs),
        _ => {
            Err(format!("{}: is no Mali shader (MBS1)\nhelp: link-check compares two MBS files", path_name(path))
                .into())
        }
    }
}
