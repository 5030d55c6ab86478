//! `picajit explore`: a shader and values for it -> one HTML file; or a server of the page with editors.

use crate::jit_or_stub::{self, Making, Shape};
use crate::load::{self, Loaded, LoadedEntry};
use crate::source::Source;
use crate::{
    Status, VerbResult, display, floats, generator, gpu_code, html, machine_code, output_path, recorded, report, serve,
};
use picajit::internals::kernel::Config;
use picajit::isa::numeric::Precision;
use picajit_explore::trace::{Bounds, Values, trace};
use picajit_explore::{Subject, values};
use serde_json::{Value, json};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Largest page.
const PAGE_BYTES: usize = 3_000_000;
/// Most runs of each entry.
const RUNS: usize = 1024;

#[derive(clap::Args)]
#[command(after_help = "\
The page needs no other file and no network. It shows source or disassembly beside the control-flow graph, SSA, CLIF, \
machine code of both CPUs and code for GPUs, with lines of one instruction in one colour; each bit of each word; and a trace that steps \
forward and back.
A trace ends after 20,000 instructions or 700 kB of the page, and says so. Values are those of `run`, then those of \
--values: lines such as `c4 = 1, 0, 0, 0`, `matrix[0] = ...`, `b2 = true`, or `3: position = 0, 1, 0, 1` for vertex 3.
--serve serves the page of `playground` with the text of one source, to browsers of this machine, and follows the file. \
The address it prints holds a secret: it lets a browser read the source and the values.")]
pub struct Args {
    /// Shader file, or the sources of one program; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File to write the page to; - is standard output
    #[arg(short, long, value_name = "PAGE", required_unless_present = "serve")]
    output: Option<PathBuf>,
    /// Serve the page with editors on 127.0.0.1 until Ctrl-C
    #[arg(long, conflicts_with_all = [
        "output", "entry", "vertices", "trace", "uniforms", "inputs", "recording", "draw", "shape", "precision",
    ])]
    serve: bool,
    /// Port of --serve; 0 is any that is free
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "output")]
    port: u16,
    /// Entry point, counted from 0 [default: all]
    #[arg(long, value_name = "N")]
    entry: Option<usize>,
    /// Vertices (geometry: invocations) to run [default: 64, or all of --inputs up to 1024]
    #[arg(long, value_name = "N", value_parser = runs)]
    vertices: Option<usize>,
    /// Vertices to trace, such as 0,3,8-11
    #[arg(long, value_name = "LIST", default_value = "0-3", value_parser = list)]
    trace: List,
    /// Float uniforms: 1536 bytes
    #[arg(long, value_name = "F")]
    uniforms: Option<PathBuf>,
    /// Inputs: 256 bytes a vertex
    #[arg(long, value_name = "F")]
    inputs: Option<PathBuf>,
    /// Recording of a command list, whose draw gives uniforms and vertices
    #[arg(long, value_name = "F", conflicts_with_all = ["inputs", "uniforms"])]
    recording: Option<PathBuf>,
    /// Draw of the recording, counted from 0 among those that run the entry
    #[arg(long, value_name = "N", default_value_t = 0, requires = "recording")]
    draw: usize,
    /// Text with values of registers
    #[arg(long, value_name = "F")]
    values: Option<PathBuf>,
    /// Shape of the code
    #[arg(long, value_enum, default_value_t)]
    shape: Shape,
    /// Number format of results: f32, f24-nearest or f24-zero
    #[arg(long, value_name = "FORMAT", default_value_t)]
    precision: Precision,
}

/// Numbers of vertices.
#[derive(Clone, Debug)]
struct List(Vec<usize>);

fn runs(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|n| (1..=RUNS).contains(n)).ok_or("expected a number from 1 to 1024")
}

fn list(text: &str) -> Result<List, &'static str> {
    const WANTED: &str = "expected numbers and ranges below 1024, such as 0,3,8-11";
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < RUNS => all.extend(first..=last),
            _ => return Err(WANTED),
        }
    }
    Ok(List(all))
}

/// Why there is no page.
#[derive(Debug)]
enum ExploreError {
    Values { name: String, error: values::ValuesError },
}

impl fmt::Display for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExploreError::Values { name, error } => write!(f, "{name}: {error}"),
        }
    }
}

impl std::error::Error for ExploreError {}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let Some(output) = &args.output else {
        return serve::run(&args.files, args.values.as_deref(), args.port, out);
    };
    let others = [&args.uniforms, &args.inputs, &args.values, &args.recording].into_iter().flatten();
    output_path::not_an_input(output, args.files.iter().chain(others).map(PathBuf::as_path))?;
    let loaded = load::load_all(&args.files)?;
    loaded.warnings.iter().for_each(report::plain);
    let chosen: Vec<&LoadedEntry> = match args.entry {
        Some(n) => vec![loaded.entry(n)?],
        None => loaded.entries.iter().collect(),
    };
    let (name, kind) = (display::printable(&loaded.name), loaded.form.to_string());
    let name = name.rsplit('/').next().unwrap_or(&name);
    let source = loaded.source.as_ref().map(Source::joined);
    let source = source.as_ref().map(|(text, lines)| (text.as_str(), lines.as_slice()));
    let subject = Subject { name, kind: &kind, shbin: &loaded.shbin, program: &loaded.program, source };
    let mut left = PAGE_BYTES - html::explored(&picajit_explore::page(&subject, Vec::new())).len().min(PAGE_BYTES);
    let mut entries = Vec::new();
    for (n, entry) in chosen.iter().enumerate() {
        let mut view = picajit_explore::entry(&subject, entry.index);
        left = left.saturating_sub(view.to_string().len());
        let share = left / (chosen.len() - n);
        let bounds = Bounds { bytes: Bounds::default().bytes.min(share / 3), ..Bounds::default() };
        let config = Config { precision: args.precision, ..Config::of(entry.entry.stage) };
        let values = values_of(args, &loaded, entry)?;
        let traced = trace(&loaded.program, &entry.dvle, &values, &args.trace.0, config, bounds);
        left = left.saturating_sub(traced.to_string().len());
        view["trace"] = traced;
        for (id, stage) in native(args, &loaded, entry).into_iter().chain(for_gpus(args, &loaded, entry)) {
            let size = stage.to_string().len();
            view[id] = match left.checked_sub(size + 1000) {
                Some(rest) => {
                    left = rest;
                    stage
                }
                None => {
                    json!(format!("left out, because the page would become too large; try --entry {}", entry.index))
                }
            };
        }
        entries.push(view);
    }
    let page = html::explored(&picajit_explore::page(&subject, entries));
    let shown = display::path_name(output);
    output_path::put(output, page.as_bytes())?;
    output_path::say(output, format_args!("{shown}: {} bytes", page.len()), out)?;
    Ok(Status::Fine)
}

/// Values for the runs of an entry.
fn values_of(args: &Args, loaded: &Loaded, entry: &LoadedEntry) -> Result<Values, Box<dyn std::error::Error>> {
    let mut values = match &args.recording {
        Some(path) => recorded::values(path, loaded, entry, args.draw, args.vertices.unwrap_or(RUNS))?,
        None => file_values(args, entry)?,
    };
    if let Some(path) = &args.values {
        let (name, bytes) = (display::path_name(path), load::read(path, 1 << 20)?);
        let text = load::text(&name, &bytes)?;
        values::assign_all(&text, &entry.dvle, &mut values).map_err(|error| ExploreError::Values { name, error })?;
    }
    Ok(values)
}

/// Values of files of floats, and generated ones.
fn file_values(args: &Args, entry: &LoadedEntry) -> Result<Values, Box<dyn std::error::Error>> {
    let mut given = args.inputs.as_deref().map(|path| floats::read_inputs(path, None)).transpose()?;
    if let Some(inputs) = &mut given {
        inputs.truncate(args.vertices.unwrap_or(RUNS));
    }
    let count = given.as_ref().map_or(args.vertices.unwrap_or(64), Vec::len);
    let mut values = Values {
        uniforms: generator::uniforms(&entry.dvle),
        inputs: given.unwrap_or_else(|| generator::inputs(count)),
        origin: match &args.inputs {
            Some(path) => display::path_name(path),
            None => "generated, in [-1, 1), equal on every machine".into(),
        },
    };
    if let Some(path) = &args.uniforms {
        values.uniforms.c = floats::read_uniforms(path)?;
    }
    Ok(values)
}

/// CLIF, and machine code of each CPU; where there is none, the reason.
fn native(args: &Args, loaded: &Loaded, entry: &LoadedEntry) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for (id, target) in [("x86-64", "x86-64-v3"), ("aarch64", "aarch64")] {
        let making = Making { target: Some(target), shape: args.shape, precision: args.precision };
        match jit_or_stub::explain(&loaded.program, entry.entry, making) {
            Ok(stages) => {
                if all.is_empty() {
                    all.push(("clif", Value::from(stages.clif.lines().map(clif_line).collect::<Vec<_>>())));
                }
                all.push((id, machine_code::lines(target, &stages.code, &stages.ranges).into()));
            }
            Err(why) => all.push((id, json!(format!("There is no code: {why}")))),
        }
    }
    all
}

/// The code for a host's GPU; where there is none, the reason.
fn for_gpus(args: &Args, loaded: &Loaded, entry: &LoadedEntry) -> Vec<(&'static str, Value)> {
    match gpu_code::of(&loaded.program, entry.entry, args.precision, gpu_code::Surroundings::default()) {
        Ok(code) => {
            let lines = |text: String| text.lines().map(|line| json!([null, line])).collect::<Vec<_>>().into();
            let language = gpu_code::Language::default();
            vec![("glsl", lines(gpu_code::glsl(&code, language))), ("spirv", lines(gpu_code::spirv(&code)))]
        }
        Err(why) => vec![("glsl", json!(format!("There is no code: {why}")))],
    }
}

/// `@000c   v1 = ...` -> the address and the rest.
fn clif_line(line: &str) -> Value {
    let pc = line.strip_prefix('@').and_then(|rest| u32::from_str_radix(rest.get(..4)?, 16).ok());
    let text = if pc.is_some() { &line[5..] } else { line };
    let indent = text.len() - text.trim_start().len();
    json!([pc, format!("{}{}", " ".repeat(indent.saturating_sub(27).min(4)), text.trim_start())])
}
