//! The text of a recording -> a frame: the state at its start, then register writes and draws.
//!
//! The comment `; the frame` in the list ends the writes that restore the state at the start; without
//! it the frame starts from the state at power-on.
//!
//! Invariant: a frame draws at most [`MOST_VERTICES`] vertices or indices, and each draw counts as one
//! at least. This file must not depend
//! on how frames are drawn.

use picajit::gpu::{Commands, Draw, Effect, Gpu, State, Write};
use picajit::internals::recording::{Recording, RecordingError};
use picajit::internals::registers::{FIXEDATTRIB_DATA0, FIXEDATTRIB_DATA2, NUMVERTICES};
use std::fmt;
use std::ops::Range;

/// Most vertices or indices of a frame. Real frames have thousands.
pub const MOST_VERTICES: u64 = 1 << 18;
/// The comment that begins the frame.
const MARK: &str = "the frame";

/// What a draw takes its vertices from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Guest memory.
    Guest(Draw),
    /// The vertices that the writes completed.
    Immediate,
}

/// Register writes, and the draw after them.
#[derive(Clone, Debug)]
pub struct Step {
    /// Positions in [`Frame::writes`].
    pub writes: Range<usize>,
    /// None after the last writes.
    pub draw: Option<Kind>,
    /// Vertices, or indices, that the draw wants.
    pub vertices: u32,
}

/// A frame of a program.
pub struct Frame {
    /// The state at its start.
    pub start: State,
    /// Physical address of the memory.
    pub address: u32,
    /// What draws read.
    pub memory: Vec<u8>,
    /// All register writes.
    pub writes: Vec<Write>,
    /// The writes and draws in order.
    pub steps: Vec<Step>,
}

/// Why a text gives no frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The text is no recording.
    Text(RecordingError),
    /// A draw precedes the frame.
    EarlyDraw,
    /// No draw.
    NoDraw,
    /// More vertices than [`MOST_VERTICES`], at this draw.
    TooManyVertices { draw: usize },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Text(error) => error.fmt(f),
            FrameError::EarlyDraw => write!(f, "a draw precedes the comment `{MARK}`"),
            FrameError::NoDraw => f.write_str("the frame has no draw"),
            FrameError::TooManyVertices { draw } => {
                write!(f, "draw {draw}: the frame has more than {MOST_VERTICES} vertices up to this draw")
            }
        }
    }
}

impl Frame {
    /// Reads a frame.
    pub fn read(text: &str) -> Result<Frame, FrameError> {
        let recording: Recording = text.parse().map_err(FrameError::Text)?;
        let Recording { address, memory, list } = recording;
        let begin = list.notes.iter().find(|(_, note)| note == MARK).map_or(0, |(word, _)| *word);
        let (before, after) = list.words.split_at(begin);
        let mut gpu = Gpu::default();
        for write in Commands::new(before) {
            if gpu.write(write.id, write.value, write.mask) != Effect::None {
                return Err(FrameError::EarlyDraw);
            }
        }
        let start = gpu.state();
        let mut frame = Frame {
            start,
            address,
            memory: memory.words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            writes: Commands::new(after).collect(),
            steps: Vec::new(),
        };
        frame.steps = frame.find_draws(&mut gpu)?;
        Ok(frame)
    }

    fn find_draws(&self, gpu: &mut Gpu) -> Result<Vec<Step>, FrameError> {
        let (mut steps, mut from, mut pending, mut vertices) = (Vec::new(), 0, 0, 0);
        let mut end = |at: usize, draw: Option<Kind>, wanted: u32| {
            // So draws are bounded too.
            vertices += u64::from(wanted.max(draw.is_some().into()));
            if vertices > MOST_VERTICES {
                return Err(FrameError::TooManyVertices { draw: steps.len() });
            }
            steps.push(Step { writes: from..at, draw, vertices: wanted });
            from = at;
            Ok(())
        };
        for (n, write) in self.writes.iter().enumerate() {
            // Consecutive vertices of immediate mode are drawn together, as `Gpu::execute` does.
            if pending > 0 && !(FIXEDATTRIB_DATA0..=FIXEDATTRIB_DATA2).contains(&write.id) {
                end(n, Some(Kind::Immediate), std::mem::take(&mut pending))?;
            }
            match gpu.write(write.id, write.value, write.mask) {
                Effect::None => {}
                Effect::Draw(draw) => end(n + 1, Some(Kind::Guest(draw)), gpu.read(NUMVERTICES))?,
                Effect::Vertex => pending += 1,
            }
        }
        // The writes after the last draw, or none.
        end(self.writes.len(), (pending > 0).then_some(Kind::Immediate), pending)?;
        match steps.iter().any(|step| step.draw.is_some()) {
            true => Ok(steps),
            false => Err(FrameError::NoDraw),
        }
    }

    /// The number of draws.
    pub fn draws(&self) -> usize {
        self.steps.iter().filter(|step| step.draw.is_some()).count()
    }

    /// The median of the vertices, or indices, of a draw.
    pub fn median_vertices(&self) -> u32 {
        let mut vertices: Vec<u32> = self.steps.iter().filter(|s| s.draw.is_some()).map(|s| s.vertices).collect();
        vertices.sort_unstable();
        vertices[vertices.len() / 2]
    }
}
