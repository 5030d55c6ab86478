//! A recording -> a picture: the parts of an emulator around `picajit::gpu`.
//!
//! Invariant: any recording ends, within the limits on vertices and rasteriser work below.

use super::raster::{Comparison, Culling, Picture, Style};
use super::registers::{DEPTH_COLOR_MASK, FACECULLING_CONFIG};
use picajit::engine::{Engine, Options};
use picajit::gpu::{Draw, DrawOptions, Gpu, Host, Regions, RegisterFile, Report, TriangleSink, Write};
use picajit::internals::recording::Recording;
use picajit::semantics::Semantics;
use picajit::state::Exit;
use std::sync::Arc;

/// Most vertices of a recording, and the fuel of a shader. Both are far above the scene's needs.
pub const VERTICES: u32 = 1 << 15;
const FUEL: u32 = 1024;

/// Statistics of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rendering {
    pub vertices: u64,
    pub reused: u64,
    pub geometry_runs: u64,
    /// Including those of immediate mode.
    pub triangles: u64,
    /// A shader did not end with END.
    pub ended_early: bool,
    /// Vertices were left out, or the rasteriser stopped.
    pub cut_short: bool,
}

struct Console<'a> {
    recording: &'a Recording,
    /// The recording's memory as bytes.
    memory: &'a [u8],
    picture: Picture,
    style: Style,
    vertices_left: u32,
    outcome: Rendering,
}

/// Executes a recording from power-on.
pub fn play(recording: &Recording, options: Options, size: [usize; 2]) -> (Picture, Rendering) {
    let mut gpu = Gpu::new(Arc::new(Engine::new(Options { fuel: FUEL, geometry_fuel: FUEL, ..options })));
    let memory: Vec<u8> = recording.memory.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut console = Console {
        recording,
        memory: &memory,
        picture: Picture::new(size[0], size[1]),
        style: style(&gpu),
        vertices_left: VERTICES,
        outcome: Rendering::default(),
    };
    gpu.execute(&recording.list.words, &mut console);
    let Console { picture, mut outcome, .. } = console;
    outcome.cut_short |= picture.work_left == 0;
    (picture, outcome)
}

impl TriangleSink for Console<'_> {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.outcome.triangles += 1;
        // Position, and after the quaternion the colour.
        let vertex = |s: &Semantics| std::array::from_fn(|n| f64::from(if n < 4 { s[n] } else { s[n + 4] }));
        self.picture.triangle(vertices.map(vertex), self.style);
    }
}

impl Host for Console<'_> {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let asked = gpu.read(RegisterFile::NUMVERTICES);
        let count = asked.min(self.vertices_left);
        self.vertices_left -= count;
        self.outcome.cut_short |= count < asked;
        let region = [(self.recording.address, self.memory)];
        let options = DrawOptions { limit: Some(count), ..DrawOptions::default() };
        let report = gpu.draw(draw, &Regions(&region), &options, self);
        self.note(&report);
    }

    fn wrote(&mut self, gpu: &Gpu, write: Write) {
        // Immediate mode draws at once, so the style is set before.
        if matches!(write.id, FACECULLING_CONFIG | DEPTH_COLOR_MASK) {
            self.style = style(gpu);
        }
    }
}

impl Console<'_> {
    fn note(&mut self, report: &Report) {
        self.outcome.vertices += report.vertices;
        self.outcome.reused += report.reused;
        self.outcome.geometry_runs += report.geometry_runs;
        self.outcome.ended_early |= [report.vertex_exit, report.geometry_exit] != [Exit::End; 2];
    }
}

fn style(gpu: &Gpu) -> Style {
    use Comparison::*;
    let mask = gpu.read(DEPTH_COLOR_MASK);
    let comparison =
        [Never, Always, Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual][(mask >> 4 & 7) as usize];
    Style {
        culling: match gpu.read(FACECULLING_CONFIG) & 3 {
            1 => Culling::Front,
            2 => Culling::Back,
            _ => Culling::None,
        },
        depth_test: (mask & 1 != 0).then_some(comparison),
        writes_depth: mask >> 12 & 1 != 0,
        writes_colour: mask >> 8 & 7 != 0,
    }
}
