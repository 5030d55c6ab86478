//! A frame -> its triangles, by the library or another way to draw.

use super::frame::{Frame, Kind};
use picajit::engine::Engine;
use picajit::gpu::{Attributes, DrawOptions, Effect, Gpu, Regions, Sink, Write};
use picajit::semantics::Semantics;
use picajit::state::Exit;
use std::sync::Arc;

/// The triangles of a draw. Every way to draw stores them here, 24 numbers a vertex.
pub type Triangles = Vec<[Semantics; 3]>;

/// Most triangles of a draw: a geometry program may emit any number.
pub const MOST_TRIANGLES: usize = 1 << 17;
/// The error of a draw with more.
pub const TOO_MANY: &str = "more than 131,072 triangles";

/// A way to draw frames.
pub trait Way {
    /// Writes a register. Draws are up to the caller.
    fn write(&mut self, write: Write);

    /// Draws. The error says what it can't do.
    fn draw(&mut self, kind: Kind, frame: &Frame, to: &mut Triangles) -> Result<(), &'static str>;
}

/// [`Gpu`], as a host uses it.
pub struct Library {
    gpu: Gpu,
    /// Vertices of immediate mode.
    pending: Vec<Attributes>,
}

impl Library {
    pub fn new(engine: &Arc<Engine>, frame: &Frame) -> Library {
        Library { gpu: Gpu::with_state(engine.clone(), frame.start.clone()), pending: Vec::new() }
    }
}

/// Stores triangles.
struct Store<'a>(&'a mut Triangles);

impl Sink for Store<'_> {
    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
        let vertices: &[Semantics] = vertices.as_chunks().0;
        let most = (MOST_TRIANGLES + 1).saturating_sub(self.0.len());
        let vertex = |n: u32| vertices[n as usize];
        self.0.extend(triangles.iter().take(most).map(|&[a, b, c]| [vertex(a), vertex(b), vertex(c)]));
    }
}

impl Way for Library {
    #[inline(always)]
    fn write(&mut self, write: Write) {
        if self.gpu.write(write.id, write.value, write.mask) == Effect::Vertex {
            self.pending.extend_from_slice(std::slice::from_ref(self.gpu.immediate_vertex()));
        }
    }

    #[inline(never)]
    fn draw(&mut self, kind: Kind, frame: &Frame, to: &mut Triangles) -> Result<(), &'static str> {
        let report = match kind {
            Kind::Guest(draw) => {
                let regions = [(frame.address, &frame.memory[..])];
                self.gpu.draw(draw, &Regions(&regions), &DrawOptions::default(), &mut Store(to))
            }
            Kind::Immediate => {
                let report = self.gpu.draw_immediate(&self.pending, &mut Store(to));
                self.pending.clear();
                report
            }
        };
        match (report.vertex_exit, report.geometry_exit) {
            (Exit::End, Exit::End) if to.len() <= MOST_TRIANGLES => Ok(()),
            (Exit::End, Exit::End) => Err(TOO_MANY),
            (Exit::End, _) => Err("its geometry program does not reach END"),
            _ => Err("its vertex program does not reach END"),
        }
    }
}

/// Draws a frame. `each` gets the number of a draw and its triangles; the error is a draw's and its
/// number.
pub fn replay<W: Way>(
    way: &mut W,
    frame: &Frame,
    mut each: impl FnMut(usize, &Triangles),
) -> Result<(), (usize, &'static str)> {
    let mut triangles = Triangles::new();
    for (n, step) in frame.steps.iter().enumerate() {
        frame.writes[step.writes.clone()].iter().for_each(|write| way.write(*write));
        if let Some(kind) = step.draw {
            triangles.clear();
            way.draw(kind, frame, &mut triangles).map_err(|error| (n, error))?;
            each(n, &triangles);
        }
    }
    Ok(())
}
