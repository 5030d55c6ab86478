//! Receivers of the vertices that a geometry program emits.

use crate::state::{EmitState, EmittedVertex, Emitter, NoEmitter, Registers};
use std::cell::Cell;

/// Receives the vertices of a geometry program that runs on a host's memory. The host has the
/// vertex slots.
///
/// Vertices arrive in the order of their `EMIT`s, during the run or when it has ended. Until the
/// run returns, the unit's contents are unspecified.
pub trait HostEmitter {
    /// `EMIT`: the outputs of the current bank, all and not compacted, go to slot
    /// [`EmitState::vertex`]. Then, with [`EmitState::primitive`], slots 0-2 form a triangle.
    fn emit(&mut self, outputs: &Registers, how: EmitState);

    /// Several vertices, in order.
    fn emit_all(&mut self, vertices: &[EmittedVertex]) {
        vertices.iter().for_each(|vertex| self.emit(&vertex.outputs, vertex.how()));
    }

    /// The outputs that vertices in [`buffer`](HostEmitter::buffer) receive; bit n is `on`. The
    /// others stay there as they are.
    fn outputs(&self) -> u16 {
        u16::MAX
    }

    /// Free memory of the emitter's own, to which native code stores vertices, or `None`. The
    /// memory may be full now: then [`stored`](HostEmitter::stored) precedes the next request. If
    /// that request brings no memory either, vertices arrive by [`emit_all`](HostEmitter::emit_all).
    fn buffer(&mut self) -> Option<&[Cell<EmittedVertex>]> {
        None
    }

    /// The first `count` vertices of the last [`buffer`](HostEmitter::buffer) now hold what was
    /// emitted, in order. With `full` the run needs more memory, and requests the buffer again.
    fn stored(&mut self, count: usize, full: bool) {
        let _ = (count, full);
    }
}

impl HostEmitter for NoEmitter {
    fn emit(&mut self, _: &Registers, _: EmitState) {}
    fn emit_all(&mut self, _: &[EmittedVertex]) {}
}

/// A unit's vertex slots, and the receiver of its triangles.
pub(super) struct VertexSlots<'a> {
    pub(super) slots: &'a mut [Registers; 4],
    pub(super) emitter: &'a mut dyn Emitter,
    /// Whether the slots are to be [restored](VertexSlots::restore).
    pub(super) preserve: bool,
    pub(super) before: Option<Box<[Registers; 4]>>,
}

impl VertexSlots<'_> {
    fn save(&mut self) {
        // Most programs emit nothing, and the slots are a kilobyte.
        if self.preserve && self.before.is_none() {
            self.before = Some(Box::new(*self.slots));
        }
    }

    /// The slots as they were, if they are to be preserved.
    pub(super) fn restore(self) {
        if let Some(before) = self.before {
            *self.slots = *before;
        }
    }
}

impl HostEmitter for VertexSlots<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        self.save();
        how.emit(outputs, self.slots, self.emitter);
    }

    /// [`EmitState::emit`] for each, but a slot receives its last vertex only.
    fn emit_all(&mut self, vertices: &[EmittedVertex]) {
        self.save();
        let mut last: [Option<&Registers>; 4] = [None; 4];
        for vertex in vertices {
            let how = vertex.how();
            self.emitter.vertex(&vertex.outputs, how);
            last[usize::from(how.vertex)] = Some(&vertex.outputs);
            if how.primitive {
                self.emitter.triangle([0, 1, 2].map(|n| last[n].unwrap_or(&self.slots[n])), how.winding);
            }
        }
        for (slot, last) in self.slots.iter_mut().zip(last) {
            if let Some(outputs) = last {
                *slot = *outputs;
            }
        }
    }
}

/// Passes each `EMIT` to a host that assembles triangles itself.
pub(super) struct ToHost<'a>(pub(super) &'a mut dyn HostEmitter);

impl Emitter for ToHost<'_> {
    fn vertex(&mut self, outputs: &Registers, how: EmitState) {
        self.0.emit(outputs, how);
    }
    fn triangle(&mut self, _: [&Registers; 3], _: bool) {}
}
