//! `picajit inspect`: files -> their contents, as aligned text or as one JSON array with an element
//! for each file.
//!
//! An unreadable file is reported; the others are still shown. Nothing runs.

use crate::display::{self, count, printable};
use crate::fields::{self, Fields, Unusual};
use crate::foreign::{self, Foreign, Reading};
use crate::load::{self, FileKind, LoadError, Loaded, LoadedEntry};
use crate::programs::groups;
use crate::scan;
use crate::{Status, VerbResult};
use crate::{foreign_json, json_text, mali};
use picajit::container::dvoj::{Dvoj, OperandNote};
use picajit::container::shbin::{Constant, GeometryMode, Label, Output, Uniform};
use picajit::isa::table::Row;
use picajit::isa::{Pc, Stage};
use picajit::program::Program;
use picajit_containers::vbc::Dialect;
use picajit_lint::cost::{Cost, LineCost, TIMING, WordCost};
use picajit_lint::survey::{self, Survey};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;

#[derive(clap::Args)]
#[command(after_help = "\
The first 256 functions of a Metal library are shown with target and producer.
Example: picajit inspect shader.shbin default.metallib")]
pub struct Args {
    /// Shader files, - for standard input, or folders to their depth
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Layout of VBC files: A0, A1, A2 or C; by default the one that fits
    #[arg(long, value_name = "DIALECT", value_parser = crate::verify::dialect)]
    dialect: Option<Dialect>,
    /// Slice of a fat Metal library, by name or number; by default its only library
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Count instructions: on the shortest and longest path, and for each word
    #[arg(long)]
    cost: bool,
    /// Find the shaders inside of files of any kind, such as .3dsx, .elf and .a; every verb opens one
    /// as FILE@OFFSET
    #[arg(long)]
    scan: bool,
    /// Show every field as it is stored, with offsets and values that never vary
    #[arg(long)]
    all: bool,
    /// Print a JSON array with one object for each file; `build` writes files from its `fields`
    #[arg(long)]
    json: bool,
}

impl Args {
    fn reading(&self) -> Reading<'_> {
        Reading { dialect: self.dialect, arch: self.arch.as_deref() }
    }
}

/// Numbers of the first registers of the classes in uniform tables.
const FIRST_UNIFORM: u16 = 0x10;

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let mut status = Status::Fine;
    let mut separator = if args.json { "[\n" } else { "" };
    let programs = match args.scan {
        true => scan::all(&args.files, |_| true),
        false => programs(&args.files)?.into_iter().map(Ok).collect(),
    };
    for paths in programs {
        let opened = paths.map(|paths| (open(&paths, args.reading()), paths));
        let (opened, path) = match opened {
            Ok((opened, paths)) => (opened, paths[0].clone()),
            Err((path, error)) => (Err(error), path),
        };
        match opened {
            Ok(file) => {
                write!(out, "{separator}")?;
                separator = if args.json { ",\n" } else { "\n" };
                match file {
                    Opened::Foreign(mut file) => {
                        let (json, unusual) = foreign_json::contents(&path.display().to_string(), &mut file);
                        if args.json {
                            write!(out, "{json:#}")?;
                        } else {
                            foreign_text(json, &unusual, args.all, out)?;
                        }
                    }
                    Opened::Pica(loaded) => {
                        let view = View::new(&loaded, args.cost);
                        if args.json { write!(out, "{:#}", view.json())? } else { view.text(args.all, out)? }
                    }
                }
            }
            Err(error) => {
                status = status.max(scan::status(&error));
                // Keeps the order of both streams on a terminal.
                out.flush()?;
                error.report();
                if !args.json {
                    continue;
                }
                let name = path.display().to_string();
                write!(out, "{separator}{:#}", error.json(&name))?;
                separator = ",\n";
            }
        }
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

/// The files of each program.
fn programs(files: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>, LoadError> {
    let (groups, errors) = groups(files, |_| true);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(groups.into_iter().map(|group| group.paths).collect()),
    }
}

fn open(paths: &[PathBuf], reading: Reading<'_>) -> Result<Opened, LoadError> {
    let file = match paths {
        [path] => foreign::open(path, reading)?,
        _ => None,
    };
    match file {
        Some(file) => Ok(Opened::Foreign(Box::new(file))),
        None => Ok(Opened::Pica(Box::new(load::load_all(paths)?))),
    }
}

/// Name, kind and size, then the other fields.
fn foreign_text(mut json: Value, unusual: &[Unusual], all: bool, out: &mut dyn Write) -> io::Result<()> {
    let Some(fields) = json.as_object_mut() else { return Ok(()) };
    let stored = fields.shift_remove("fields").unwrap_or_default();
    if let Some(programs) = fields.get_mut("programs").and_then(Value::as_array_mut) {
        programs.iter_mut().for_each(|program| mali::for_text(program, all));
    }
    let [name, kind, bytes] = ["file", "kind", "bytes"].map(|field| fields.shift_remove(field).unwrap_or_default());
    writeln!(out, "{}", printable(name.as_str().unwrap_or_default()))?;
    writeln!(out, "  {}, {bytes} bytes", kind.as_str().unwrap_or_default())?;
    json_text::object(fields, 4, out)?;
    stored_fields(&stored, unusual, all, out)
}

/// The fields that no other view shows.
fn stored_fields(fields: &Value, unusual: &[Unusual], all: bool, out: &mut dyn Write) -> io::Result<()> {
    section(out, "unusual", unusual.iter().map(|u| format!("at {:#x}: {} {}", u.at, u.name, u.value)).collect())?;
    match fields {
        Value::Object(fields) if all || fields.contains_key("error") => {
            writeln!(out, "\n    fields")?;
            json_text::tree(fields, 6, out)
        }
        _ => Ok(()),
    }
}

/// A file with its analysis.
struct View<'a> {
    loaded: &'a Loaded,
    surveys: Vec<Rc<Survey>>,
    /// For each entry, if wanted and its control flow is small enough.
    costs: Vec<Option<Cost>>,
    opcodes: Vec<(&'static str, usize)>,
    reached: usize,
}

impl<'a> View<'a> {
    fn new(loaded: &'a Loaded, with_cost: bool) -> View<'a> {
        let surveys = survey::surveys(&loaded.program, loaded.entries.iter().map(|e| e.entry));
        let subject = loaded.subject();
        let cost = |point| if with_cost { Cost::new(&subject, point).ok() } else { None };
        let costs = subject.entries.iter().map(cost).collect();
        let mut pcs: BTreeSet<Pc> = surveys.iter().flat_map(|s| &s.reachable).copied().collect();
        let reached = pcs.len();
        if loaded.entries.is_empty() {
            pcs = (0..loaded.program.code().len() as Pc).collect();
        }
        let opcodes = opcodes(&loaded.program, pcs);
        View { loaded, surveys, costs, opcodes, reached }
    }

    fn text(&self, all: bool, out: &mut dyn Write) -> io::Result<()> {
        let Loaded { name, form, size, program, shbin, .. } = self.loaded;
        writeln!(out, "{}", printable(name))?;
        let version =
            if *form == FileKind::Source { String::new() } else { format!(", version {:#x}", self.version()) };
        writeln!(out, "  {form}, {}{version}", count(*size, "byte"))?;
        let words = count(shbin.code.len(), "word");
        let descriptors = count(shbin.opdescs.len(), "descriptor");
        let entries = count(self.loaded.entries.len(), "entry");
        section(out, "program", vec![format!("{words} ({} reachable), {descriptors}, {entries}", self.reached)])?;
        section(out, "hash", vec![program.hash128().to_string()])?;
        section(out, "opcodes", wrapped(self.opcodes.iter().map(|(name, n)| format!("{n} {name}"))))?;
        section(out, "sources", shbin.file_names.iter().map(|n| printable(n)).collect())?;
        section(out, "asm", self.loaded.warnings.iter().map(|w| w.to_string()).collect())?;
        for ((entry, survey), cost) in self.loaded.entries.iter().zip(&self.surveys).zip(&self.costs) {
            writeln!(out)?;
            self.entry(entry, survey, out)?;
            if let Some(cost) = cost {
                self.cost(cost, out)?;
            }
        }
        if let Some(object) = &self.loaded.object {
            writeln!(out)?;
            section(out, "lines", object_lines(object))?;
            section(out, "operands", rows(object.notes.iter().map(note).collect()))?;
        }
        let (fields, unusual) = self.fields();
        stored_fields(&fields, &unusual, all, out)
    }

    /// The version of the program, or of the object.
    fn version(&self) -> u32 {
        self.loaded.object.as_ref().map_or(self.loaded.shbin.version, |object| object.version.into())
    }

    /// Every field of a container, and those with unusual values.
    fn fields(&self) -> (Value, Vec<Unusual>) {
        let Loaded { form: FileKind::Container(kind), bytes, .. } = self.loaded else {
            return (Value::Null, Vec::new());
        };
        match fields::of(*kind, bytes, None) {
            Ok(Fields { json, unusual }) => (json.into(), unusual),
            Err(error) => (json!({ "error": error.to_string() }), Vec::new()),
        }
    }

    /// The cost of an entry: its paths, then each word with its executions.
    fn cost(&self, cost: &Cost, out: &mut dyn Write) -> io::Result<()> {
        let bound = |most: Option<u64>| most.map_or("unbounded".into(), |n| n.to_string());
        let shortest = cost.shortest.map_or("none ends".into(), |n| n.to_string());
        let paths = format!("{shortest} to {} instructions a run", bound(cost.longest));
        section(out, "cost", vec![paths, TIMING.to_string()])?;
        let lines = self.loaded.source.as_ref().map(|source| (source, cost.by_line(&source.lines)));
        let rows_of = |w: &WordCost| {
            let inst = self.loaded.program.inst(w.pc).map(|inst| inst.to_string()).unwrap_or_default();
            (format!("{:>4}  {}-{}", w.pc, w.least, bound(w.most)), inst)
        };
        section(out, "words", rows(cost.words.iter().map(rows_of).collect()))?;
        let Some((source, lines)) = lines else { return Ok(()) };
        let row = |(&place, cost): (&(u32, u32), &LineCost)| {
            let ((_, line), text) = (place, source.line(place).map_or("", |(_, text)| text));
            (format!("{line:>4}  {}-{}", cost.least, bound(cost.most)), printable(text))
        };
        section(out, "lines", rows(lines.iter().map(row).collect()))
    }

    fn entry(&self, entry: &LoadedEntry, survey: &Survey, out: &mut dyn Write) -> io::Result<()> {
        let dvle = &entry.dvle;
        let end = if dvle.end == 0 { String::new() } else { format!(" to {}", dvle.end) };
        let mode = match entry.entry.stage {
            Stage::Vertex if dvle.geometry == GeometryMode::Point => String::new(),
            _ => format!(", {}", display::geometry(dvle.geometry)),
        };
        let merge = if dvle.merge_outmaps { ", output maps merged" } else { "" };
        writeln!(out, "  entry {}: {} at {}{end}{mode}{merge}", entry.index, entry.entry.stage, entry.entry.pc)?;
        let reaches = match survey.blocks {
            Some(blocks) => {
                format!("{} in {}", count(survey.reachable.len(), "word"), count(blocks, "block"))
            }
            None => format!("unknown: {}", survey.too_much.as_ref().map_or(String::new(), |why| why.to_string())),
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
        let costs = self.costs.iter();
        let all = self.loaded.entries.iter().zip(&self.surveys).zip(costs);
        let entries = all.map(|((e, s), cost)| {
            let mut json = entry_json(e, s);
            if let (Some(cost), Some(fields)) = (cost, json.as_object_mut()) {
                fields.insert("cost".into(), cost_json(cost));
            }
            json
        });
        json!({
            "file": name,
            "kind": form.to_string(),
            "bytes": size,
            "version": self.version(),
            "words": shbin.code.len(),
            "reachable": self.reached,
            "descriptors": shbin.opdescs.len(),
            "hash": program.hash128().to_string(),
            "opcodes": opcodes,
            "sources": shbin.file_names,
            "warnings": self.loaded.warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>(),
            "entries": entries.collect::<Vec<_>>(),
            "lines": self.loaded.object.as_ref().map(lines_json),
            "operands": self.loaded.object.as_ref().map(|o| o.notes.iter().map(note_json).collect::<Vec<_>>()),
            "fields": self.fields().0,
        })
    }
}

/// The file and line of each instruction of an object; one row for neighbours in one file.
fn object_lines(object: &Dvoj) -> Vec<String> {
    let mut lines = Vec::new();
    let mut first = 0;
    for run in object.lines.chunk_by(|a, b| a.file == b.file) {
        let name = object.symbol(run[0].file).map_or_else(|| format!("file {:#x}", run[0].file), |n| printable(&n));
        let numbers: Vec<String> = run.iter().map(|row| row.line.to_string()).collect();
        let place = if run.len() == 1 { first.to_string() } else { format!("{first}-{}", first + run.len() - 1) };
        lines.push(format!("{place}  {name}: {}", numbers.join(" ")));
        first += run.len();
    }
    lines
}

fn lines_json(object: &Dvoj) -> Value {
    object.lines.iter().map(|row| json!({ "file": object.symbol(row.file), "line": row.line })).collect()
}

fn note(note: &OperandNote) -> (String, String) {
    let [a, b] = note.unknown;
    (note.instruction.to_string(), format!("{a:#x} {b:#x}"))
}

fn note_json(note: &OperandNote) -> Value {
    json!({ "instruction": note.instruction, "unknown": note.unknown })
}

fn cost_json(cost: &Cost) -> Value {
    let word = |w: &WordCost| json!({ "pc": w.pc, "least": w.least, "most": w.most });
    json!({
        "estimate": TIMING,
        "shortest": cost.shortest,
        "longest": cost.longest,
        "words": cost.words.iter().map(word).collect::<Vec<_>>(),
    })
}

/// Instructions at `pcs` by name, with their counts; most frequent first, then by name.
fn opcodes(program: &Program, pcs: impl IntoIterator<Item = Pc>) -> Vec<(&'static str, usize)> {
    let mut counts = BTreeMap::new();
    for pc in pcs {
        if let Some(&word) = program.code().get(usize::from(pc)) {
            *counts.entry(Row::of_word(word).map_or("undefined", |row| row.mnemonic)).or_insert(0) += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(name, n)| (std::cmp::Reverse(n), name));
    counts
}

fn entry_json(entry: &LoadedEntry, survey: &Survey) -> Value {
    let dvle = &entry.dvle;
    let uniform = |u: &Uniform| json!({ "name": u.name, "registers": display::unified_range(u.first, u.last) });
    let output = |o: &Output| {
        let mut json = json!({
            "register": format!("o{}", o.register),
            "components": display::components(o.mask),
            "semantic": display::semantic(o.semantic),
        });
        if o.unknown != 0 {
            json["unknown"] = json!(o.unknown);
        }
        json
    };
    let constant =
        |c: &Constant| json!({ "register": display::constant_register(c), "value": display::constant_json(c) });
    let label =
        |l: &Label| json!({ "name": l.name, "id": l.id, "unknown": l.unknown, "position": l.position, "size": l.size });
    let list = |prefix: &str, mask| display::bits(mask).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let numbered = |set: &BTreeSet<usize>| set.iter().map(|n| format!("c{n}")).collect::<Vec<_>>();
    json!({
        "index": entry.index,
        "stage": entry.entry.stage.to_string(),
        "pc": entry.entry.pc,
        "end": dvle.end,
        "geometry": (entry.entry.stage == Stage::Geometry).then(|| display::geometry(dvle.geometry)),
        "geometry_bytes": dvle.geometry.to_bytes(),
        "merge_outmaps": dvle.merge_outmaps,
        "version": dvle.version,
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
