//! Frames of real programs, timed: register writes and draws, by the library and by the lean
//! reference.
//!
//! *Hot*: the frame repeated. *Cold*: before each draw's register writes, other code and data
//! displace the caches. Each draw and its writes are timed apart. The cost of a clock's reading,
//! measured in the same pass, is subtracted. The ways take turns. A figure of a draw is the least of
//! all hot passes, or the median of the cold ones. Nothing here prints.

// The bench and the tests include these files, so the paths can't follow from the module's name.
#[path = "frames/displace.rs"]
pub mod displace;
#[path = "frames/frame.rs"]
pub mod frame;
#[path = "frames/lean.rs"]
pub mod lean;
#[path = "frames/replay.rs"]
pub mod replay;

use displace::Displacer;
use frame::{Frame, FrameError};
use lean::Lean;
use picajit::engine::{BackendChoice, Engine, Options};
use replay::{Library, Triangles, Way, replay};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Passes that compile all code.
const WARM: usize = 20;
/// Fuel of a run: a frame must end soon.
const FUEL: u32 = 1 << 14;

/// Why a recording can't be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableFrame {
    /// It is no frame.
    Frame(FrameError),
    /// A draw, and what is wrong with it.
    Draw(usize, &'static str),
}

impl fmt::Display for UnusableFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableFrame::Frame(error) => error.fmt(f),
            UnusableFrame::Draw(draw, what) => write!(f, "draw {draw}: {what}"),
        }
    }
}

/// An engine for frames.
pub fn engine() -> Arc<Engine> {
    let backend = if cfg!(feature = "jit") { BackendChoice::NativePreferred } else { BackendChoice::NoNative };
    Arc::new(Engine::new(Options { backend, compile_after: 0, fuel: FUEL, geometry_fuel: FUEL, ..Options::default() }))
}

/// Both ways to draw a frame, after passes that compile all code and compare the triangles.
pub fn prepare(engine: &Arc<Engine>, frame: &Frame) -> Result<(Library, Lean), UnusableFrame> {
    let (mut library, mut lean) = (Library::new(engine, frame), Lean::new(engine, &frame.start));
    let error = |(draw, what)| UnusableFrame::Draw(draw, what);
    // The first pass and the second one: later ones begin with the state that a frame leaves.
    for _ in 0..2 {
        let mut want = Vec::new();
        replay(&mut library, frame, |_, triangles| want.push(digest(triangles))).map_err(error)?;
        let mut different = None;
        replay(&mut lean, frame, |draw, triangles| {
            if digest(triangles) != want[draw] && different.is_none() {
                different = Some(draw);
            }
        })
        .map_err(error)?;
        if let Some(draw) = different {
            return Err(UnusableFrame::Draw(draw, "the lean reference draws other triangles"));
        }
    }
    for _ in 0..WARM {
        replay(&mut library, frame, |_, _| {}).map_err(error)?;
        replay(&mut lean, frame, |_, _| {}).map_err(error)?;
    }
    engine.wait();
    Ok((library, lean))
}

/// The number of triangles, and a hash of all their numbers; any NaN equals any NaN.
fn digest(triangles: &Triangles) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    triangles.iter().flatten().flatten().for_each(|x| hasher.write_u32(bits(x)));
    (triangles.len(), hasher.finish())
}

/// Nanoseconds of register writes and draws.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// All register writes of the frame.
    pub writes: f64,
    /// All its draws.
    pub draws: f64,
}

impl Times {
    /// The frame.
    pub fn sum(self) -> f64 {
        self.writes + self.draws
    }
}

/// What is measured of a frame.
pub struct Row {
    /// The name of the recording.
    pub name: String,
    /// Draws.
    pub draws: usize,
    /// Median of the vertices, or indices, of a draw.
    pub vertices: u32,
    /// Register writes.
    pub writes: usize,
    /// Hot: the library, the lean reference.
    pub hot: [Times; 2],
    /// Cold: the same.
    pub cold: [Times; 2],
}

/// Times of one way: for each step those of all passes.
#[derive(Clone)]
struct Samples(Vec<[Vec<u64>; 2]>);

impl Samples {
    fn times(&mut self, pick: fn(&mut [u64]) -> u64) -> Times {
        let mut sum = |n: usize| self.0.iter_mut().map(|step| pick(&mut step[n]) as f64).sum();
        Times { writes: sum(0), draws: sum(1) }
    }
}

/// One timed pass.
fn pass<W: Way>(
    way: &mut W,
    frame: &Frame,
    mut displacer: Option<&mut Displacer>,
    samples: &mut Samples,
) -> Result<(), (usize, &'static str)> {
    let mut triangles = Triangles::with_capacity(1 << 12);
    let mut clock = Vec::with_capacity(frame.steps.len());
    for (n, (step, samples)) in frame.steps.iter().zip(&mut samples.0).enumerate() {
        if let Some(displacer) = &mut displacer {
            displacer.run();
        }
        triangles.clear();
        // The clock's own code is no part of the frame: the first reading fetches it.
        black_box(Instant::now());
        let before = Instant::now();
        let start = Instant::now();
        frame.writes[step.writes.clone()].iter().for_each(|write| way.write(*write));
        let written = Instant::now();
        if let Some(kind) = step.draw {
            way.draw(kind, frame, &mut triangles).map_err(|error| (n, error))?;
        }
        let end = Instant::now();
        black_box(&triangles);
        clock.push((start - before).as_nanos() as u64);
        samples[0].push((written - start).as_nanos() as u64);
        // Not of a step without a draw.
        samples[1].push(if step.draw.is_some() { (end - written).as_nanos() as u64 } else { u64::MAX });
    }
    let cost = median(&mut clock);
    for samples in samples.0.iter_mut().flatten() {
        let last = samples.last_mut().expect("of this pass");
        *last = if *last == u64::MAX { 0 } else { last.saturating_sub(cost) };
    }
    Ok(())
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn least(values: &mut [u64]) -> u64 {
    values.iter().min().copied().unwrap_or(0)
}

/// Measures a frame in that many hot and cold passes.
pub fn measure(name: &str, text: &str, hot: usize, cold: usize) -> Result<Row, UnusableFrame> {
    let frame = Frame::read(text).map_err(UnusableFrame::Frame)?;
    let (mut library, mut lean) = prepare(&engine(), &frame)?;
    let mut run = |passes: usize, mut displacer: Option<&mut Displacer>, pick| {
        let mut samples = [(); 2].map(|()| Samples(vec![Default::default(); frame.steps.len()]));
        for _ in 0..passes {
            pass(&mut library, &frame, displacer.as_deref_mut(), &mut samples[0])?;
            pass(&mut lean, &frame, displacer.as_deref_mut(), &mut samples[1])?;
        }
        Ok(samples.map(|mut samples| samples.times(pick)))
    };
    let error = |(draw, what)| UnusableFrame::Draw(draw, what);
    let hot = run(hot, None, least).map_err(error)?;
    let cold = run(cold, Some(&mut Displacer::new()), median).map_err(error)?;
    Ok(Row {
        name: name.to_string(),
        draws: frame.draws(),
        vertices: frame.median_vertices(),
        writes: frame.writes.len(),
        hot,
        cold,
    })
}

/// The rows as text.
pub fn table(rows: &[Row]) -> String {
    let mut text =
        format!("{:18}{:>24}{:>24}   picajit / lean reference\n{:18}", "us a frame", "picajit", "lean reference", "");
    text += &format!(
        "{:>12}{:>12}{:>12}{:>12}{:>11}{:>9}{:>9}\n",
        "writes", "draws", "writes", "draws", "writes", "draws", "frame"
    );
    for row in rows {
        let Row { name, draws, vertices, writes, hot, cold } = row;
        text += &format!("{name}: draws {draws}, vertices of a draw {vertices} (median), register writes {writes}\n");
        for (state, [library, lean]) in [("hot", hot), ("cold", cold)] {
            text += &format!("  {state:16}");
            for ns in [library.writes, library.draws, lean.writes, lean.draws] {
                text += &format!("{:12.1}", ns / 1e3);
            }
            let ratio = |of: fn(&Times) -> f64| of(library) / of(lean).max(1.0);
            let ratios = [ratio(|t| t.writes), ratio(|t| t.draws), ratio(|t| t.sum())];
            text += &format!("{:11.2}{:9.2}{:9.2}\n", ratios[0], ratios[1], ratios[2]);
        }
    }
    text
}
