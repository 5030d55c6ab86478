//! A recording and an entry -> the uniforms and vertices of a draw that runs it.
//!
//! The command list runs up to that draw without drawing. Vertices are those that the draw fetches,
//! each once, in the order in which it names them first.

use crate::display::path_name;
use crate::load::{self, Loaded, LoadedEntry};
use picajit::gpu::{Draw, Gpu, Host, Regions, TriangleSink};
use picajit::internals::recording::{Recording, RecordingError};
use picajit::isa::{Pc, Stage};
use picajit::program::Program;
use picajit::semantics::Semantics;
use picajit_explore::trace::Values;
use picajit_lint::survey;
use std::fmt;
use std::path::Path;

/// Largest text of a recording.
const MAX_TEXT: u64 = 64 << 20;

/// Why a recording gives no values.
#[derive(Debug)]
pub enum RecordedError {
    /// The text is no recording.
    Text { name: String, error: RecordingError },
    /// Fewer draws run the entry than the number asks for.
    NoDraw { name: String, found: usize },
    /// Only vertices are fetched.
    Geometry,
}

impl fmt::Display for RecordedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordedError::Text { name, error } => write!(f, "{name}: {error}"),
            RecordedError::NoDraw { name, found: 0 } => write!(
                f,
                "{name}: no draw of arrays or indices runs this entry\nhelp: the code words that the entry reaches must be \
                 those of the recording"
            ),
            RecordedError::NoDraw { name, found } => {
                write!(f, "{name}: {found} draws run this entry\nhelp: --draw counts them from 0")
            }
            RecordedError::Geometry => f.write_str(
                "a recording gives the inputs of vertex entries only\nhelp: --values sets those of geometry",
            ),
        }
    }
}

impl std::error::Error for RecordedError {}

/// The values of draw `number` among those that run `entry`, with at most `most` vertices.
pub fn values(
    path: &Path,
    loaded: &Loaded,
    entry: &LoadedEntry,
    number: usize,
    most: usize,
) -> Result<Values, Box<dyn std::error::Error>> {
    if entry.entry.stage == Stage::Geometry {
        return Err(RecordedError::Geometry.into());
    }
    let name = path_name(path);
    let bytes = load::read(path, MAX_TEXT)?;
    let text = load::text(&name, &bytes)?;
    let recording: Recording = text.parse().map_err(|error| RecordedError::Text { name: name.clone(), error })?;
    let reached = survey::survey(&loaded.program, entry.entry).reachable;
    let mut capture =
        Capture { recording: &recording, program: &loaded.program, entry, reached, number, most, met: 0, values: None };
    Gpu::default().execute(&recording.list.words, &mut capture);
    match capture.values {
        Some(values) => Ok(Values { origin: format!("{name}, draw {number} of this entry"), ..values }),
        None => Err(RecordedError::NoDraw { name, found: capture.met }.into()),
    }
}

/// A host that looks for one draw.
struct Capture<'a> {
    recording: &'a Recording,
    program: &'a Program,
    entry: &'a LoadedEntry,
    /// Words that must be equal.
    reached: Vec<Pc>,
    number: usize,
    most: usize,
    /// Draws of the entry up to here.
    met: usize,
    values: Option<Values>,
}

impl TriangleSink for Capture<'_> {
    fn triangle(&mut self, _: [&Semantics; 3]) {}
}

impl Host for Capture<'_> {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let state = gpu.state();
        let Ok(uploaded) = Program::from_words(&state.vertex.code, &state.vertex.opdescs) else { return };
        let is_same = |&pc: &Pc| uploaded.inst(pc) == self.program.inst(pc);
        if state.registers.entry(Stage::Vertex) != self.entry.entry || !self.reached.iter().all(is_same) {
            return;
        }
        self.met += 1;
        if self.met != self.number + 1 {
            return;
        }
        let memory: Vec<u8> = self.recording.memory.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let regions = [(self.recording.address, &memory[..])];
        let (inputs, uniforms) =
            (gpu.vertex_inputs(draw, &Regions(&regions), self.most), state.vertex.uniforms.clone());
        self.values = Some(Values { uniforms, inputs, origin: String::new() });
    }
}
