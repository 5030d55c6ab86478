//! `picajit extract`: one stage, one function, or all sources of a container -> files.
//!
//! Only the command's argument names a path. Names from the file give paths of sources alone, below
//! the given folder and after a check.

use crate::display::{count, path_name, printable};
use crate::fat::Library;
use crate::foreign::{self, Content, Reading};
use crate::load::LoadError;
use crate::output_path::{self, WriteError};
use crate::{Status, VerbResult, report};
use picajit::container::Kind;
use picajit_containers::mbs::MbsStage;
use picajit_containers::metallib::bitcode::Bitcode;
use picajit_containers::metallib::sources::{Skipped, Unpacked};
use picajit_containers::metallib::{Function, Metallib};
use picajit_containers::vbc::{STAGES, Vbc};
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Component, Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  picajit extract shader.vbc --stage frag -o frag.spv
  picajit extract shader.mbs --stage vertex -o vertex.bin
  picajit extract default.metallib --function blit -o blit.bc
  picajit extract default.metallib --sources -o folder")]
pub struct Args {
    /// A container: MBS, VBC or Metal library
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Stage to extract: vertex or fragment (MBS: machine code); vert, tesc, tese, geom or frag
    /// (VBC: SPIR-V)
    #[arg(long, value_name = "NAME", required_unless_present_any = ["function", "sources"], conflicts_with_all = ["function", "sources"])]
    stage: Option<String>,
    /// Function of a Metal library to extract, as bitcode in its wrapper
    #[arg(long, value_name = "NAME", conflicts_with = "sources")]
    function: Option<String>,
    /// Which of several functions of that name, from 0
    #[arg(long, value_name = "N", requires = "function")]
    index: Option<usize>,
    /// Slice of a fat Metal library, by name or number; by default its only library
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Extract the embedded sources of a Metal library
    #[arg(long)]
    sources: bool,
    /// File to write, or - for standard output; with --sources a folder
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

/// Why there is nothing to extract.
#[derive(Debug)]
pub enum ExtractError {
    /// The format has no such parts.
    NoSuchPart { name: String, kind: Kind, part: &'static str },
    /// The file lacks the stage.
    NoStage { name: String, stage: String, stages: Vec<String> },
    /// The library lacks the function.
    NoFunction { name: String, function: String },
    /// Several functions have the name.
    Ambiguous { name: String, function: String, count: usize },
    /// A path of a source is not below the folder.
    UnsafePath { name: String, path: String },
}

impl fmt::Display for ExtractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExtractError::NoSuchPart { name, kind, part } => {
                write!(f, "{name}: is a {kind}, which has no {part}\nhelp: `picajit extract --help` shows examples")
            }
            ExtractError::NoStage { name, stage, stages } => {
                write!(f, "{name}: has no stage {stage}\nhelp: its stages are {}", stages.join(", "))
            }
            ExtractError::NoFunction { name, function } => {
                write!(f, "{name}: has no function {function}\nhelp: `picajit inspect` lists them")
            }
            ExtractError::Ambiguous { name, function, count } => {
                write!(f, "{name}: has {count} functions {function}\nhelp: --index chooses one, 0 to {}", count - 1)
            }
            ExtractError::UnsafePath { name, path } => {
                write!(f, "{name}: a source has the path {path}, which leaves the folder\nhelp: nothing is extracted")
            }
        }
    }
}

impl std::error::Error for ExtractError {}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let path = &args.file;
    let name = path_name(path);
    let Some(mut file) = foreign::open(path, Reading { arch: args.arch.as_deref(), ..Reading::default() })? else {
        // The loader names what the file is.
        let kind = crate::load::load(path)?.form;
        return Err(
            format!("{name}: is a {kind}, which has no parts to extract\nhelp: `disasm` prints its code").into()
        );
    };
    output_path::not_an_input(&args.output, [path.as_path()])?;
    let kind = file.kind;
    let part = if args.sources {
        "embedded sources"
    } else if args.stage.is_some() {
        "stages"
    } else {
        "functions"
    };
    let no_part = || ExtractError::NoSuchPart { name: name.clone(), kind, part };
    let bytes = match (&mut file.content, &args.stage, &args.function) {
        (Content::Mbs(mbs), Some(stage), _) => {
            let program = mbs.programs().find(|p| p.stage.to_string() == *stage);
            let stages = [MbsStage::Vertex, MbsStage::Fragment].into_iter().filter(|s| mbs.program(*s).is_some());
            let missing = || ExtractError::NoStage {
                name: name.clone(),
                stage: printable(stage),
                stages: stages.map(|s| s.to_string()).collect(),
            };
            program.and_then(|p| p.code()).ok_or_else(missing)?.to_vec()
        }
        (Content::Vbc(vbc), Some(stage), _) => {
            let present = (0..5).filter(|&n| !vbc.modules[n].is_empty());
            let missing = || ExtractError::NoStage {
                name: name.clone(),
                stage: printable(stage),
                stages: present.map(|n| STAGES[n].into()).collect(),
            };
            let module = Vbc::stage(stage).map(|n| &vbc.modules[n]).filter(|m| !m.is_empty());
            module.ok_or_else(missing)?.clone()
        }
        (Content::Metallib(library, source), None, Some(wanted)) => module(library, source, &name, wanted, args.index)?,
        (Content::Metallib(library, source), None, None) => return sources(library, source, &name, args, out),
        _ => return Err(no_part().into()),
    };
    output_path::write(&args.output, path, &bytes)?;
    let size = count(bytes.len(), "byte");
    output_path::say(&args.output, format_args!("{}: {size}", path_name(&args.output)), out)?;
    Ok(Status::Fine)
}

fn module(
    library: &Metallib,
    source: &mut Library,
    name: &str,
    wanted: &str,
    index: Option<usize>,
) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let found: Vec<Function<'_>> = library.functions().filter(|f| f.name() == wanted.as_bytes()).collect();
    let (name, function) = (name.to_string(), printable(wanted));
    let chosen = match (found.len(), index) {
        (0, _) => return Err(ExtractError::NoFunction { name, function }.into()),
        (1, None) => 0,
        (count, None) => return Err(ExtractError::Ambiguous { name, function, count }.into()),
        (count, Some(n)) if n >= count => return Err(ExtractError::Ambiguous { name, function, count }.into()),
        (_, Some(n)) => n,
    };
    let damaged = |error| LoadError::DamagedForeign { name, kind: Kind::Metallib, error };
    let bytes = library.module(source, found[chosen]).map_err(damaged)?;
    if let Ok(bitcode) = Bitcode::parse(&bytes) {
        let shown =
            |text: Option<String>| text.filter(|t| !t.is_empty()).map_or_else(|| "unknown".into(), |t| printable(&t));
        report::note(format_args!(
            "target {}, producer {}",
            shown(bitcode.triple),
            shown(bitcode.ident.or(bitcode.producer))
        ));
    }
    Ok(bytes)
}

fn sources(library: &Metallib, source: &mut Library, name: &str, args: &Args, out: &mut dyn Write) -> VerbResult {
    let damaged = |error| LoadError::DamagedForeign { name: name.into(), kind: Kind::Metallib, error };
    let Some(sources) = library.sources(source) else {
        return Err(ExtractError::NoSuchPart {
            name: name.into(),
            kind: Kind::Metallib,
            part: "embedded sources in this file",
        }
        .into());
    };
    let sources = sources.map_err(damaged)?;
    let Unpacked { files, skipped } = sources.unpack().map_err(damaged)?;
    // All paths are checked before the first file is written.
    let mut targets = Vec::new();
    let mut absolute = 0;
    for file in &files {
        let path = String::from_utf8_lossy(&file.path);
        // As tar does. Tools of today store absolute paths.
        let relative = path.trim_start_matches('/');
        absolute += usize::from(relative.len() < path.len());
        let below =
            below(relative).ok_or_else(|| ExtractError::UnsafePath { name: name.into(), path: printable(&path) })?;
        // Archives hold files of the same names.
        let folder =
            if sources.archives.len() > 1 { args.output.join(file.archive.to_string()) } else { args.output.clone() };
        targets.push((folder.join(below), &file.bytes));
    }
    if absolute > 0 {
        let paths = count(absolute, "path");
        report::note(format_args!("removing the leading `/` of {paths}"));
    }
    for Skipped { path, kind, target, .. } in skipped {
        let [path, target] = [path, target].map(|bytes| printable(&String::from_utf8_lossy(&bytes)));
        let to = if target.is_empty() { String::new() } else { format!(" to {target}") };
        report::warning(format_args!("{path} is a {kind}{to} and is left out"));
    }
    for (target, bytes) in targets {
        let fail = |error| WriteError { name: path_name(&target), error };
        fs::create_dir_all(target.parent().unwrap_or(Path::new("."))).map_err(fail)?;
        // An existing file, or one of the same name in the archive, is never replaced.
        File::create_new(&target).and_then(|mut f| f.write_all(bytes)).map_err(fail)?;
        writeln!(out, "{}: {}", path_name(&target), count(bytes.len(), "byte"))?;
    }
    Ok(Status::Fine)
}

/// A path below its folder on every system; `None` for any other.
fn below(path: &str) -> Option<&Path> {
    let is_odd = |c: char| c.is_control() || matches!(c, '\\' | ':');
    let path = Path::new(Some(path).filter(|p| !p.contains(is_odd))?);
    let is_plain = path.components().all(|c| matches!(c, Component::Normal(_)));
    (is_plain && path.file_name().is_some()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_their_folder() {
        for path in ["/etc/passwd", "../up", "a/../../b", "..", "", ".", "./a", "c:\\x", "a\\..\\b", "a\0b", "//x"] {
            assert_eq!(below(path), None, "{path:?}");
        }
        assert_eq!(below("Users/a/b.metal"), Some(Path::new("Users/a/b.metal")));
    }
}
