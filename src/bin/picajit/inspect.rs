//! `picajit inspect`: files -> their contents, as aligned text or as one JSON array with an element
//! for each file.
//!
//! An unreadable file is reported; the others are still shown. Nothing runs.

use crate::display::{self, count, printable};
use crate::foreign::{self, Foreign};
use crate::lint::{self, Finding, Survey};
use crate::load::{self, FileKind, LoadError, Loaded, LoadedEntry};
use crate::{Status, VerbResult};
use crate::{foreign_json, json_text};
use picajit::container::shbin::{Constant, Label, Output, Uniform};
use picajit::container::vbc::Dialect;
use picajit::isa::{Pc, Stage};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

#[derive(clap::Args)]
#[command(after_help = "\
The first 256 functions of a Metal library are shown with target and producer.
Example: picajit inspect shader.shbin default.metallib")]
pub struct Args {
    /// Shader files, or folders with shader files in them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Layout of VBC files: A0, A1, A2 or C; by default the one that fits
    #[arg(long, value_name = "DIALECT", value_parser = crate::verify::dialect)]
    dialect: Option<Dialect>,
    /// Print a JSON array with one object for each file
    #[arg(long)]
    json: bool,
}

/// Numbers of the first registers of the classes in uniform tables.
const FIRST_UNIFORM: u16 = 0x10;

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let mut status = Status::Fine;
    let mut separator = if args.json { "[\n" } else { "" };
    for path in load::expand_all(&args.files)? {
        match open(&path, args.dialect) {
            Ok(Opened::Foreign(mut file)) => {
                let json = foreign_json::contents(&path.display().to_string(), &mut file);
                write!(out, "{separator}")?;
                if args.json { write!(out, "{json:#}")? } else { foreign_text(json, out)? }
            }
            Ok(Opened::Pica(loaded)) => {
                let view = View::new(&loaded);
                write!(out, "{separator}")?;
                if args.json { write!(out, "{:#}", view.json())? } else { view.text(out)? }
            }
            Err(error) => {
                status = Status::Unusable;
                // Keeps the order of both streams on a terminal.
                out.flush()?;
                error.report();
                if !args.json {
                    continue;
                }
                let name = path.display().to_string();
                write!(out, "{separator}{:#}", json!({ "file": name, "error": error.to_string() }))?;
            }
        }
        separator = if args.json { ",\n" } else { "\n" };
    }
    if args.json {
        writeln!(out, "\n]")?;
    }
    Ok(status)
}

/// A file of either sort.
enum Opened {
    Pica(Box<Loaded>),
    Foreign(Box<Foreign>),
}

fn open(path: &Path, dialect: Option<Dialect>) -> Result<Opened, LoadError> {
    match foreign::open(path, dialect)? {
        Some(file) => Ok(Opened::Foreign(Box::new(file))),
        None => Ok(Opened::Pica(Box::new(load::load(path)?))),
    }
}

/// Name, kind and size, then the other fields.
fn foreign_text(mut json: Value, out: &mut dyn Write) -> io::Result<()> {
    let Some(fields) = json.as_object_mut() else { return Ok(()) };
    let [name, kind, bytes] = ["file", "kind", "bytes"].map(|field| fields.shift_remove(field).unwrap_or_default());
    writeln!(out, "{}", printable(name.as_str().unwrap_or_default()))?;
    writeln!(out, "  {}, {bytes} bytes", kind.as_str().unwrap_or_default())?;
    json_text::object(fields, 4, out)
}

/// A file with its analysis.
struct View<'a> {
    loaded: &'a Loaded,
    surveys: Vec<Rc<Survey>>,
    findings: Vec<Finding>,
    opcodes: Vec<(&'static str, usize)>,
    reached: usize,
}

impl<'a> View<'a> {
    fn new(loaded: &'a Loaded) -> View<'a> {
        let surveys = lint::surveys(loaded);
        let findings = lint::findings(loaded, &surveys);
        let mut pcs: BTreeSet<Pc> = surveys.iter().flat_map(|s| &s.reachable).copied().collect();
        let reached = pcs.len();
        if loaded.entries.is_empty() {
            pcs = (0..loaded.program.code().len() as Pc).collect();
        }
        let opcodes = lint::opcodes(&loaded.program, pcs);
        View { loaded, surveys, findings, opcodes, reached }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Loaded { name, form, size, program, shbin, .. } = self.loaded;
        writeln!(out, "{}", printable(name))?;
        let version = if *form == FileKind::Source { String::new() } else { format!(", version {:#x}", shbin.version) };
        writeln!(out, "  {form}, {}{version}", count(*size, "byte"))?;
        let words = count(shbin.code.len(), "word");
        let descriptors = count(shbin.opdescs.len(), "descriptor");
        let entries = count(self.loaded.entries.len(), "entry");
        section(out, "program", vec![format!("{words} ({} reachable), {descriptors}, {entries}", self.reached)])?;
        section(out, "hash", vec![program.hash128().to_string()])?;
        section(out, "opcodes", wrapped(self.opcodes.iter().map(|(name, n)| format!("{n} {name}"))))?;
        section(out, "sources", shbin.file_names.iter().map(|n| printable(n)).collect())?;
        section(out, "asm", self.loaded.warnings.iter().map(|w| w.to_string()).collect())?;
        for (entry, survey) in self.loaded.entries.iter().zip(&self.surveys) {
            writeln!(out)?;
            self.entry(entry, survey, out)?;
        }
        if !self.findings.is_empty() {
            writeln!(out)?;
        }
        for finding in &self.findings {
            writeln!(out, "  {}: {finding}", if finding.is_note() { "note" } else { "warning" })?;
        }
        Ok(())
    }

    fn entry(&self, entry: &LoadedEntry, survey: &Survey, out: &mut dyn Write) -> io::Result<()> {
        let dvle = &entry.dvle;
        let end = if dvle.end == 0 { String::new() } else { format!(" to {}", dvle.end) };
        let mode = match entry.entry.stage {
            Stage::Vertex => String::new(),
            Stage::Geometry => format!(", {}", display::geometry(dvle.geometry)),
        };
        let merge = if dvle.merge_outmaps { ", output maps merged" } else { "" };
        writeln!(out, "  entry {}: {} at {}{end}{mode}{merge}", entry.index, entry.entry.stage, entry.entry.pc)?;
        let reaches = match survey.blocks {
            Some(blocks) => {
                format!("{} in {}", count(survey.reachable.len(), "word"), count(blocks, "block"))
            }
            None => "unknown: control flow has too many states".into(),
        };
        section(out, "reaches", vec![reaches])?;
        section(out, "reads", wrapped(reads(survey)))?;
        section(out, "writes", wrapped(Some(display::mask("o", survey.outputs)).filter(|t| !t.is_empty())))?;
        section(out, "inputs", rows(inputs(entry)))?;
        let output = |o: &Output| {
            let unknown = if o.unknown == 0 { String::new() } else { format!(" (last field {:#x})", o.unknown) };
            (display::wired(o), display::semantic(o.semantic) + &unknown)
        };
        section(out, "outputs", rows(dvle.outputs.iter().map(output).collect()))?;
        section(out, "uniforms", rows(named(dvle.uniforms.iter().filter(|u| u.first >= FIRST_UNIFORM))))?;
        let constant = |c: &Constant| (display::constant_register(c), display::constant_value(c));
        section(out, "constants", rows(dvle.constants.iter().map(constant).collect()))?;
        let label = |l: &Label| {
            let size = l.size.map_or(String::new(), |s| format!(", {}", count(s as usize, "word")));
            (l.position.to_string(), format!("{}{size}", printable(&l.name)))
        };
        section(out, "labels", rows(dvle.labels.iter().map(label).collect()))
    }

    fn json(&self) -> Value {
        let Loaded { name, form, size, program, shbin, .. } = self.loaded;
        let opcodes: Map<String, Value> = self.opcodes.iter().map(|&(op, n)| (op.to_string(), json!(n))).collect();
        let finding = |f: &Finding| {
            let severity = if f.is_note() { "note" } else { "warning" };
            json!({ "severity": severity, "id": f.id(), "pc": f.pc(), "text": f.to_string() })
        };
        let entries = self.loaded.entries.iter().zip(&self.surveys).map(|(e, s)| entry_json(e, s));
        json!({
            "file": name,
            "kind": form.to_string(),
            "bytes": size,
            "version": shbin.version,
            "words": shbin.code.len(),
            "reachable": self.reached,
            "descriptors": shbin.opdescs.len(),
            "hash": program.hash128().to_string(),
            "opcodes": opcodes,
            "sources": shbin.file_names,
            "warnings": self.loaded.warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>(),
            "entries": entries.collect::<Vec<_>>(),
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

fn entry_json(entry: &LoadedEntry, survey: &Survey) -> Value {
    let dvle = &entry.dvle;
    let uniform = |u: &Uniform| json!({ "name": u.name, "registers": display::unified_range(u.first, u.last) });
    let output = |o: &Output| {
        json!({
            "register": format!("o{}", o.register),
            "components": display::components(o.mask),
            "semantic": display::semantic(o.semantic),
        })
    };
    let constant =
        |c: &Constant| json!({ "register": display::constant_register(c), "value": display::constant_json(c) });
    let label = |l: &Label| json!({ "name": l.name, "id": l.id, "position": l.position, "size": l.size });
    let list = |prefix: &str, mask| display::bits(mask).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let numbered = |set: &BTreeSet<usize>| set.iter().map(|n| format!("c{n}")).collect::<Vec<_>>();
    json!({
        "index": entry.index,
        "stage": entry.entry.stage.to_string(),
        "pc": entry.entry.pc,
        "end": dvle.end,
        "geometry": (entry.entry.stage == Stage::Geometry).then(|| display::geometry(dvle.geometry)),
        "merge_outmaps": dvle.merge_outmaps,
        "input_mask": dvle.input_mask,
        "output_mask": dvle.output_mask,
        "reachable": survey.reachable.len(),
        "blocks": survey.blocks,
        "reads": {
            "inputs": list("v", survey.inputs),
            "floats": numbered(&survey.floats),
            "relative": numbered(&survey.relative),
            "ints": list("i", survey.ints),
            "bools": list("b", survey.bools),
        },
        "writes": list("o", survey.outputs),
        "inputs": dvle.uniforms.iter().filter(|u| u.first < FIRST_UNIFORM).map(uniform).collect::<Vec<_>>(),
        "outputs": dvle.outputs.iter().map(output).collect::<Vec<_>>(),
        "uniforms": dvle.uniforms.iter().filter(|u| u.first >= FIRST_UNIFORM).map(uniform).collect::<Vec<_>>(),
        "constants": dvle.constants.iter().map(constant).collect::<Vec<_>>(),
        "labels": dvle.labels.iter().map(label).collect::<Vec<_>>(),
    })
}

fn reads(survey: &Survey) -> Vec<String> {
    let floats = display::ranges("c", survey.floats.iter().copied());
    let mut all = vec![
        display::mask("v", survey.inputs),
        floats,
        display::mask("i", survey.ints),
        display::mask("b", survey.bools),
    ];
    if !survey.relative.is_empty() {
        all.push(format!("relative to {}", display::ranges("c", survey.relative.iter().copied())));
    }
    all.retain(|text| !text.is_empty());
    all
}

/// Named inputs, then inputs that only the mask declares.
fn inputs(entry: &LoadedEntry) -> Vec<(String, String)> {
    let named_ones: Vec<&Uniform> = entry.dvle.uniforms.iter().filter(|u| u.first < FIRST_UNIFORM).collect();
    let has_name = |n: &usize| named_ones.iter().any(|u| (u.first.into()..=u.last.into()).contains(n));
    let nameless = display::ranges("v", display::bits(entry.dvle.input_mask).filter(|n| !has_name(n)));
    let mut all = named(named_ones.iter().copied());
    if !nameless.is_empty() {
        all.push((nameless, "(declared without a name)".into()));
    }
    all
}

fn named<'u>(uniforms: impl Iterator<Item = &'u Uniform>) -> Vec<(String, String)> {
    uniforms.map(|u| (display::unified_range(u.first, u.last), printable(&u.name))).collect()
}

/// Two columns.
fn rows(rows: Vec<(String, String)>) -> Vec<String> {
    let width = rows.iter().map(|(a, _)| a.len()).max().unwrap_or(0);
    rows.into_iter().map(|(a, b)| format!("{a:width$}  {b}").trim_end().to_string()).collect()
}

/// Items joined to lines of a readable length.
fn wrapped(items: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.len() + item.len() < 80 => {
                line.push_str(", ");
                line.push_str(&item);
            }
            _ => lines.push(item),
        }
    }
    lines
}

/// A heading with its lines to the right; nothing if there are none.
fn section(out: &mut dyn Write, heading: &str, lines: Vec<String>) -> io::Result<()> {
    for (n, line) in lines.iter().enumerate() {
        writeln!(out, "    {:<11}{line}", if n == 0 { heading } else { "" })?;
    }
    Ok(())
}
