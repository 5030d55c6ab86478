//! `picajit verify`: files -> whether they obey the rules of their format, with every finding.
//!
//! A damaged file is a failed check: exit code 1. A file of an unknown kind is unusable input.

use crate::display::printable;
use crate::foreign::{self, Reading};
use crate::load::{self, LoadError};
use crate::{Status, VerbResult};
use picajit_containers::finding::{Finding, Severity};
use picajit_containers::vbc::Dialect;
use picajit_lint::Rule;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "\
Example: picajit verify shader.mbs default.metallib
Exit codes: 0 no error, 1 an error in a file, 2 an input that is no shader file.")]
pub struct Args {
    /// Shader files, - for standard input, or folders to their depth
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Layout of VBC files: A0, A1, A2 or C; by default the one that fits
    #[arg(long, value_name = "DIALECT", value_parser = dialect)]
    dialect: Option<Dialect>,
    /// Slice of a fat Metal library, by name or number; by default its only library
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Print a JSON array with one object for each file
    #[arg(long)]
    json: bool,
}

/// The dialect of this name.
pub fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::from_name(name).ok_or_else(|| "expected A0, A1, A2 or C".into())
}

/// A finding of any format. PICA200 shaders have warnings without offsets.
struct Row {
    severity: Severity,
    offset: Option<u64>,
    message: String,
}

impl From<Finding> for Row {
    fn from(f: Finding) -> Row {
        Row { severity: f.severity, offset: Some(f.offset), message: f.message }
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let mut status = Status::Fine;
    let mut results = Vec::new();
    for path in load::expand_all(&args.files)? {
        let name = path.display().to_string();
        let (kind, rows) = match findings(&path, Reading { dialect: args.dialect, arch: args.arch.as_deref() }) {
            Ok(found) => found,
            Err(error) => {
                status = Status::Unusable;
                out.flush()?;
                error.report();
                results.push(error.json(&name));
                continue;
            }
        };
        let errors = rows.iter().filter(|r| r.severity == Severity::Error).count();
        if errors > 0 && status == Status::Fine {
            status = Status::Different;
        }
        let finding = |r: &Row| json!({ "severity": r.severity.to_string(), "offset": r.offset, "message": r.message });
        results.push(json!({ "file": name, "kind": kind, "sound": errors == 0, "findings": rows.iter().map(finding).collect::<Vec<_>>() }));
        if args.json {
            continue;
        }
        let shown = printable(&name);
        for r in &rows {
            let at = r.offset.map_or(String::new(), |o| format!("at {o:#x}: "));
            writeln!(out, "{shown}: {}: {at}{}", r.severity, r.message)?;
        }
        if errors == 0 {
            writeln!(out, "{shown}: {kind}, sound")?;
        }
    }
    if args.json {
        writeln!(out, "{:#}", serde_json::Value::from(results))?;
    }
    Ok(status)
}

/// The rules of `lint` that concern the format instead of the shader.
const OF_FORMAT: [Rule; 6] = [
    Rule::UndefinedOpcode,
    Rule::LengthBits,
    Rule::MissingDescriptor,
    Rule::UndeclaredInput,
    Rule::DuplicateOutput,
    Rule::NoEntries,
];

fn findings(path: &Path, reading: Reading<'_>) -> Result<(String, Vec<Row>), LoadError> {
    let damaged = |kind: picajit::container::Kind, offset, message| {
        (kind.to_string(), vec![Row { severity: Severity::Error, offset: Some(offset), message }])
    };
    match foreign::open(path, reading) {
        Ok(Some(mut file)) => Ok(match file.verify() {
            Ok(found) => (file.kind.to_string(), found.into_iter().map(Row::from).collect()),
            Err(e) => damaged(file.kind, e.offset, e.message),
        }),
        Err(LoadError::DamagedForeign { kind, error, .. }) => Ok(damaged(kind, error.offset, error.message)),
        Err(e) => Err(e),
        Ok(None) => match load::load(path) {
            Ok(loaded) => {
                let found = picajit_lint::lint(&loaded.subject());
                let warnings = found.iter().filter(|f| OF_FORMAT.contains(&f.rule));
                let row = |f: &picajit_lint::Finding| Row {
                    severity: Severity::Warning,
                    offset: None,
                    message: f.to_string(),
                };
                Ok((loaded.form.to_string(), warnings.map(row).collect()))
            }
            Err(LoadError::Damaged { kind, error, .. }) => {
                Ok(damaged(kind, error.offset as u64, error.kind.to_string()))
            }
            Err(e) => Err(e),
        },
    }
}
