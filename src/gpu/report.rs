//! The statistics of one draw, and how its runs ended.

use super::notes::Notes;
use crate::engine::CancelFlag;
use crate::state::Exit;

/// The statistics of one draw.
///
/// ```
/// use picajit::gpu::{Attributes, Gpu};
///
/// let mut triangles = Vec::new();
/// let report = Gpu::default().draw_arrays([Attributes::default(); 4], &mut triangles);
/// // Three vertices are a triangle of a list; the fourth waits for the next draw.
/// assert_eq!((report.vertices, report.triangles, report.limited), (4, 1, false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Vertices that a vertex unit ran. [`Gpu::draw`](super::Gpu::draw) may run some that no index names.
    pub vertices: u64,
    /// Vertices that reused the outputs of an earlier one: where each runs once, what the indices
    /// exceed [`Report::vertices`] by.
    pub reused: u64,
    /// Runs of the geometry unit.
    pub geometry_runs: u64,
    /// Vertices that no geometry run takes: in variable mode, those without a count.
    pub dropped: u64,
    /// Triangles that the sink received.
    pub triangles: u64,
    /// [`Exit::Fuel`] if a vertex ran out of fuel: the draw ends there. [`Exit::Cancelled`] if the
    /// engine is cancelled: the draw ends with the last vertex that is known to be complete.
    /// Otherwise [`Exit::End`], or the first other exit of the vertex program.
    pub vertex_exit: Exit,
    /// The same of the geometry program, whose runs a draw ends at likewise.
    pub geometry_exit: Exit,
    /// Whether the draw has more vertices, or indices, than a limit: [`DrawOptions::limit`] or one of
    /// [`Limits`]. All up to the limit were drawn.
    ///
    /// [`DrawOptions::limit`]: super::DrawOptions::limit
    /// [`Limits`]: super::Limits
    pub limited: bool,
    /// What looks wrong in the draw, if [`Gpu::set_diagnostics`](super::Gpu::set_diagnostics) is on.
    pub notes: Notes,
}

impl Report {
    /// Whether the draw ends: a run of either unit ran out of fuel, or was cancelled.
    pub(super) fn ended(&self) -> bool {
        self.vertex_exit.ends_batch() || self.geometry_ended()
    }

    /// Whether the geometry unit takes no further vertex: a run ran out of fuel, or was cancelled.
    pub(super) fn geometry_ended(&self) -> bool {
        self.geometry_exit.ends_batch()
    }

    /// Whether the draw ends between two batches, or two vertices that run alone.
    #[inline]
    pub(super) fn ends_now(&mut self, cancel: &CancelFlag) -> bool {
        if cancel.is_set() {
            self.note_cancelled();
        }
        self.ended()
    }

    #[cold]
    #[inline(never)]
    fn note_cancelled(&mut self) {
        self.note_vertices(Exit::Cancelled);
    }

    /// Notes how runs of the vertex unit ended.
    pub(super) fn note_vertices(&mut self, exit: Exit) {
        self.vertex_exit = self.vertex_exit.and_then(exit);
    }

    /// Notes how a run of the geometry unit ended.
    pub(super) fn note_geometry(&mut self, exit: Exit) {
        self.geometry_exit = self.geometry_exit.and_then(exit);
    }
}

impl Default for Report {
    fn default() -> Report {
        let [vertex_exit, geometry_exit] = [Exit::End; 2];
        Report {
            vertices: 0,
            reused: 0,
            geometry_runs: 0,
            dropped: 0,
            triangles: 0,
            vertex_exit,
            geometry_exit,
            limited: false,
            notes: Notes::default(),
        }
    }
}
