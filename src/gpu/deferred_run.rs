//! The last vertex of a draw -> the registers that its run leaves in the vertex unit, on demand.
//!
//! Vertices of a draw that are independent leave the unit unchanged, apart from the last one. Its
//! run is deferred until the unit is read, a uniform of the unit changes, or another shader draws.
//! The next draw of the same shader replaces it, because it overwrites the same registers.
//!
//! Invariant: the unit after the deferred run is as the vertices in order leave it. Until then no
//! uniform changes, and only the vertices of the deferred run's shader run. This file must not know
//! draws.

use super::State;
use super::upload::ShaderState;
use crate::engine::Shader;
use crate::fp_mode::DefaultMode;
use crate::isa::REGS;
use crate::state::{Registers, Vec4, copy_registers};

/// A vertex whose run is deferred.
#[derive(Clone)]
#[repr(C)] // most draws only see whether there is one
struct DeferredVertex {
    shader: Shader,
    input_mask: u16,
    inputs: Registers,
}

/// What the vertex unit lacks.
#[derive(Clone, Default)]
pub(super) struct DeferredRun {
    vertex: Option<DeferredVertex>,
}

impl DeferredRun {
    /// Runs the vertex, so that the unit is current.
    #[inline]
    pub(super) fn run(&mut self, memory: &mut ShaderState) {
        if let Some(vertex) = self.vertex.take() {
            vertex.run(memory);
        }
    }

    /// [`DeferredRun::run`] before a draw, unless that draw overwrites the same registers: its
    /// vertices are independent, and `shader` and `input_mask` are those of the last draw.
    #[inline]
    pub(super) fn run_unless_replaced(&mut self, shader: &Shader, input_mask: u16, memory: &mut ShaderState) {
        let replaces = |last: &DeferredVertex| last.shader.same_as(shader) && last.input_mask == input_mask;
        if !self.vertex.as_ref().is_some_and(replaces) {
            self.run(memory);
        }
    }

    /// Defers the run of a vertex. It reaches an END, and its draw called
    /// [`DeferredRun::run_unless_replaced`].
    #[inline]
    pub(super) fn defer(&mut self, shader: &Shader, input_mask: u16, inputs: &[Vec4]) {
        let fresh = || DeferredVertex { shader: shader.clone(), input_mask, inputs: [[0.0; 4]; REGS] };
        copy_registers(input_mask, inputs, &mut self.vertex.get_or_insert_with(fresh).inputs);
    }

    /// Whether the unit lacks a run.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.vertex.is_some()
    }

    /// A copy of `state` with the run that it lacks.
    pub(super) fn complete(&self, state: &State) -> State {
        let mut state = state.clone();
        if let Some(vertex) = &self.vertex {
            vertex.run(&mut state.vertex);
        }
        state
    }
}

impl DeferredVertex {
    #[cold]
    fn run(&self, ShaderState { uniforms, unit, .. }: &mut ShaderState) {
        let _mode = DefaultMode::enter();
        copy_registers(self.input_mask, &self.inputs, &mut unit.v);
        self.shader.run(uniforms, unit);
    }
}
