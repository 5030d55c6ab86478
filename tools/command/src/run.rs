//! `picajit run`: an entry and values -> its outputs, vertex by vertex or triangle by triangle.
//!
//! Registers begin at zero and carry over from one run to the next, as on hardware; so does b15,
//! which the geometry unit sets after each run. Memory use does not grow with the number of
//! vertices, unless their inputs are a file.

use crate::display::path_name;
use crate::load::{self, Loaded, LoadedEntry};
use crate::show::Shower;
use crate::{Status, VerbResult, floats, generator, jit_or_stub, output_path, pipe, report, trace};
use picajit::container::shbin::GeometryMode;
use picajit::internals::interp::{Interp, InterpKernel};
use picajit::internals::kernel::{Backend, Config, Kernel};
use picajit::internals::tier0::Tier0;
use picajit::isa::numeric::Precision;
use picajit::isa::{INT_UNIFORMS, Stage};
use picajit::program::{Entry, Program};
use picajit::state::{Emitter, Exit, Registers, Uniforms, Unit};
use picajit_explore::trace::Values;
use picajit_explore::values;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
#[command(after_help = "\
Files are raw little-endian f32: uniforms c0-c95, inputs and outputs v0-v15 and o0-o15 of each vertex, x y z w each. A \
geometry entry writes the three vertices of each triangle.
Missing values are generated, in [-1, 1), the same each time; the entry's constants override generated uniforms. \
Integers default to (3, 0, 1, 0) and booleans to false, then the entry's constants apply, then --int and --bools.
The exit code is 0 for every end of a run: running out of fuel or past the last word is shown (with --json, under \
\"exits\") and is no failure of the command.")]
pub struct Args {
    /// Shader file, or the sources of one program; - is standard input, also as F
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Entry point, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    entry: usize,
    /// Engine to run it on
    #[arg(long, value_enum, default_value_t = Choice::Interp)]
    backend: Choice,
    /// Number format of results: f32, f24-nearest or f24-zero
    #[arg(long, value_name = "FORMAT", default_value_t)]
    precision: Precision,
    /// Vertices (geometry: invocations) to run [default: 1, or all of --inputs, or up to the last one that --values names]
    #[arg(long, value_name = "N", value_parser = vertices)]
    vertices: Option<usize>,
    /// Words that a run may execute before its next backward jump ends it [default: 262144,
    /// geometry: 4194304]
    #[arg(long, value_name = "WORDS")]
    fuel: Option<u32>,
    /// Float uniforms: 1536 bytes
    #[arg(long, value_name = "F")]
    uniforms: Option<PathBuf>,
    /// Inputs: 256 bytes a vertex
    #[arg(long, value_name = "F")]
    inputs: Option<PathBuf>,
    /// Text with values of registers, over those of files, such as `tint = 1, 0, 0, 1`, `b2 = true`,
    /// or `3: position = 0, 1, 0, 1` for vertex 3
    #[arg(long, value_name = "F")]
    values: Option<PathBuf>,
    /// Boolean uniforms, bit n = bn: 0x8001
    #[arg(long, value_name = "MASK", value_parser = mask)]
    bools: Option<u16>,
    /// An integer uniform; may be repeated
    #[arg(long, value_name = "K=x,y,z", value_parser = int)]
    int: Vec<(usize, [u8; 4])>,
    /// File to write outputs to, or -, instead of showing them: 256 bytes a vertex, geometry: 768 a
    /// triangle
    #[arg(long, value_name = "F")]
    outputs: Option<PathBuf>,
    /// Show every executed instruction and its results (interpreter only)
    #[arg(long)]
    trace: bool,
    /// Print a JSON object with all results
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// The interpreter
    Interp,
    /// Native code, or tier 0 if there is none
    Jit,
}

fn vertices(text: &str) -> Result<usize, &'static str> {
    const WANTED: &str = "expected a number from 1 to 1048576";
    text.parse().ok().filter(|n| (1..=floats::MAX_VERTICES).contains(n)).ok_or(WANTED)
}

fn mask(text: &str) -> Result<u16, &'static str> {
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| "expected sixteen bits, bit n for bn, such as 5 or 0x8001")
}

fn int(text: &str) -> Result<(usize, [u8; 4]), &'static str> {
    const WANTED: &str = "expected K=x,y,z with K from 0 to 3 and the others from 0 to 255, such as 0=3,0,1";
    let (register, values) = text.split_once('=').ok_or(WANTED)?;
    let register = register.strip_prefix('i').unwrap_or(register).parse().ok();
    let values: Option<Vec<u8>> = values.split(',').map(|v| v.trim().parse::<u8>().ok()).collect();
    match (register, values.as_deref()) {
        (Some(n @ 0..INT_UNIFORMS), Some(&[x, y, z])) => Ok((n, [x, y, z, 0])),
        (Some(n @ 0..INT_UNIFORMS), Some(&[x, y, z, w])) => Ok((n, [x, y, z, w])),
        _ => Err(WANTED),
    }
}

/// Largest text of values.
const MAX_VALUES: u64 = 1 << 20;
/// Most triangles of a command.
const MAX_TRIANGLES: usize = 1 << 20;
/// Most triangles of one invocation, far above any real program.
const MAX_OF_ONE: usize = 1 << 14;

/// Why a run can't begin or end.
#[derive(Debug)]
enum RunError {
    /// Native code can't be traced.
    TraceNative,
    /// Outputs and a text on standard output.
    TwoResults,
    /// The JSON of a trace has the outputs.
    TraceAndOutputs,
    /// Too many triangles.
    TooManyTriangles { limit: usize, run: usize },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::TraceNative => {
                f.write_str("only the interpreter can trace\nhelp: leave out --backend jit or --trace")
            }
            RunError::TwoResults => f.write_str(
                "outputs and a text both go to standard output\nhelp: name a file for --outputs, or leave out --json and --trace",
            ),
            RunError::TraceAndOutputs => {
                f.write_str("--trace --json prints the outputs too\nhelp: leave out --outputs")
            }
            RunError::TooManyTriangles { limit, run } => {
                write!(f, "more than {limit} triangles (in invocation {run})")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// The executing engine.
enum Executor {
    Kernel(Arc<dyn Kernel>),
    Traced(InterpKernel),
}

/// Collects triangles, up to a limit.
#[derive(Default)]
struct Triangles {
    kept: Vec<([Registers; 3], bool)>,
    overflowed: bool,
}

impl Emitter for Triangles {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        if self.kept.len() == MAX_OF_ONE {
            self.overflowed = true;
        } else {
            self.kept.push((vertices.map(|v| *v), winding));
        }
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let has_two = args.outputs.as_deref().is_some_and(pipe::is_pipe) && (args.json || args.trace);
    if has_two {
        return Err(RunError::TwoResults.into());
    }
    if args.trace && args.json && args.outputs.is_some() {
        return Err(RunError::TraceAndOutputs.into());
    }
    if args.trace && args.backend == Choice::Jit {
        return Err(RunError::TraceNative.into());
    }
    if let Some(path) = &args.outputs {
        let inputs = args.files.iter().chain(&args.uniforms).chain(&args.inputs).chain(&args.values);
        output_path::not_an_input(path, inputs.map(PathBuf::as_path))?;
    }
    let loaded = load::load_all(&args.files)?;
    loaded.warnings.iter().for_each(report::plain);
    let entry = loaded.entry(args.entry)?;
    let (mut uniforms, inputs) = values(args, entry)?;
    let count = inputs.as_ref().map_or(args.vertices.unwrap_or(1), Vec::len);
    if args.uniforms.is_none()
        && args.values.is_none()
        && matches!(entry.dvle.geometry, GeometryMode::Fixed { .. } | GeometryMode::Variable { .. })
    {
        report::note(
            "this entry takes its vertices from uniforms, which are generated\nhelp: --uniforms or --values sets them",
        );
    }
    let (executor, backend) = executor(args, &loaded.program, entry.entry);
    let survey = picajit_lint::survey::survey(&loaded.program, entry.entry);
    let mut shower = Shower::new(&loaded.name, entry, survey.outputs, backend, count, args.json);
    if let Some(path) = &args.outputs {
        shower.write_to(path)?;
    }

    let visible = args.outputs.is_some() || !io::stdout().is_terminal();
    let progress = visible.then(|| report::Progress::new(count as u64, "vertices"));
    let mut generator = generator::Generator::new(generator::INPUT_SEED);
    let mut unit = Unit::new();
    let mut triangles = Triangles::default();
    let mut total = 0;
    shower.begin(out)?;
    for n in 0..count {
        unit.v = inputs.as_ref().map_or_else(|| generator.vertex(), |vertices| vertices[n]);
        if args.trace {
            shower.announce(n, out)?;
        }
        let traced = Traced { loaded: &loaded, stage: entry.entry.stage, json: args.json };
        let exit = executor.step(&traced, &uniforms, &mut unit, &mut triangles, out)?;
        match entry.entry.stage {
            Stage::Vertex => shower.vertex(n, exit, unit.outputs(), out)?,
            Stage::Geometry => {
                uniforms.b |= 1 << 15;
                total += triangles.kept.len();
                if triangles.overflowed || total > MAX_TRIANGLES {
                    let limit = if triangles.overflowed { MAX_OF_ONE } else { MAX_TRIANGLES };
                    return Err(RunError::TooManyTriangles { limit, run: n }.into());
                }
                shower.invocation(n, exit, &triangles.kept, out)?;
                triangles.kept.clear();
            }
        }
        if let Some(progress) = &progress {
            progress.add(1);
        }
    }
    if let Some(progress) = progress {
        progress.finish();
    }
    shower.end(out)?;
    Ok(Status::Fine)
}

/// Uniforms, and the inputs of each run if they are not generated.
type Given = (Uniforms, Option<Vec<Registers>>);

/// Generated or given uniforms, then the entry's constants, as a host binds them, then arguments; and
/// the inputs of each run, if they are given.
fn values(args: &Args, entry: &LoadedEntry) -> Result<Given, Box<dyn std::error::Error>> {
    let mut inputs = args.inputs.as_deref().map(|path| floats::read_inputs(path, args.vertices)).transpose()?;
    let mut uniforms = generator::uniforms(&entry.dvle);
    if let Some(path) = &args.uniforms {
        uniforms.c = floats::read_uniforms(path)?;
        entry.dvle.apply_constants(&mut uniforms);
    }
    if let Some(path) = &args.values {
        let (name, bytes) = (path_name(path), load::read(path, MAX_VALUES)?);
        let text = load::text(&name, &bytes)?;
        let named = args.vertices.unwrap_or_else(|| values::vertices(&text).clamp(1, floats::MAX_VERTICES));
        let inputs_of_runs = inputs.take().unwrap_or_else(|| generator::inputs(named));
        let mut given = Values { uniforms, inputs: inputs_of_runs, origin: String::new() };
        values::assign_all(&text, &entry.dvle, &mut given).map_err(|error| format!("{name}: {error}"))?;
        (uniforms, inputs) = (given.uniforms, Some(given.inputs));
    }
    args.int.iter().for_each(|&(n, value)| uniforms.i[n] = value);
    uniforms.b = args.bools.unwrap_or(uniforms.b);
    Ok((uniforms, inputs))
}

/// The requested engine or, with a warning, tier 0; and its name.
fn executor(args: &Args, program: &Arc<Program>, entry: Entry) -> (Executor, &'static str) {
    let default = Config::of(entry.stage);
    let config = Config { precision: args.precision, fuel: args.fuel.unwrap_or(default.fuel), ..default };
    if args.backend == Choice::Jit {
        let native = jit_or_stub::backend().and_then(|jit| Ok((jit.compile(program, entry, &config)?, jit.name())));
        match native {
            Ok((kernel, name)) => return (Executor::Kernel(kernel), name),
            Err(why) => report::warning(format_args!("running on tier 0, without native code: {why}")),
        }
        let tier0 = Tier0::default();
        let kernel = tier0.compile(program, entry, &config).expect("it takes every program");
        return (Executor::Kernel(kernel), tier0.name());
    }
    let kernel = Interp.kernel(program, entry, &config);
    let executor = if args.trace { Executor::Traced(kernel) } else { Executor::Kernel(Arc::new(kernel)) };
    (executor, Interp.name())
}

/// What a trace shows.
struct Traced<'a> {
    loaded: &'a Loaded,
    stage: Stage,
    json: bool,
}

impl Executor {
    fn step(
        &self,
        traced: &Traced<'_>,
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        out: &mut dyn Write,
    ) -> io::Result<Exit> {
        match self {
            Executor::Kernel(kernel) => Ok(kernel.run(uniforms, unit, emitter)),
            Executor::Traced(kernel) => {
                let mut written = Ok(());
                let mut al = unit.al;
                let mut separator = "\n";
                let exit = kernel.run_traced(uniforms, unit, emitter, &mut |step| {
                    let place = traced.loaded.object_place(step.pc);
                    if written.is_ok() && traced.json {
                        written = write!(out, "{separator}{}", trace::json(&step, traced.stage, &mut al, place));
                        separator = ",\n";
                    } else if written.is_ok() {
                        written = writeln!(out, "{}", trace::line(&step, traced.stage, &mut al, place));
                    }
                });
                written.map(|()| exit)
            }
        }
    }
}
