//! [`State`] <-> `pj_gpu_state`.
//!
//! Invariant: a round trip gives the same state, except for vertices that no primitive waits for, and
//! for memories of other lengths than a console's, which C cannot express. This file must not know
//! the meaning of states.

use super::types::{PjGpuState, PjGpuUnit};
use crate::gpu::{Assembly, FixedAttributes, GeometryInput, PartialVector, RegisterFile, ShaderState, State};
use crate::isa::Stage;
use crate::semantics::SEMANTICS;
use crate::state::{EmitState, Uniforms, Unit};

impl PjGpuUnit {
    fn new(state: &ShaderState) -> PjGpuUnit {
        let ShaderState { unit, uniforms, .. } = state;
        PjGpuUnit {
            v: unit.v,
            r: unit.r,
            o: unit.o,
            slots: unit.slots,
            c: uniforms.c,
            opdescs: words(&state.opdescs),
            a0: unit.a0,
            al: unit.al,
            float_words: state.float_words.words,
            i: uniforms.i,
            b: uniforms.b,
            code_index: state.code_index,
            opdesc_index: state.opdesc_index,
            float_index: state.float_index,
            float32: state.float32.into(),
            float_count: state.float_words.count,
            cmp: unit.cmp.map(u8::from),
            bank: unit.bank,
            emit_vertex: unit.setemit.vertex,
            emit_primitive: unit.setemit.primitive.into(),
            emit_winding: unit.setemit.winding.into(),
            reserved: 0,
        }
    }

    fn shader_state(&self, code: &[u32]) -> ShaderState {
        ShaderState {
            code: code.into(),
            opdescs: self.opdescs.into(),
            uniforms: Uniforms { c: self.c, i: self.i, b: self.b },
            unit: Unit {
                v: self.v,
                r: self.r,
                o: self.o,
                slots: self.slots,
                a0: self.a0,
                al: self.al,
                cmp: self.cmp.map(|flag| flag != 0),
                bank: self.bank,
                setemit: EmitState {
                    vertex: self.emit_vertex,
                    primitive: self.emit_primitive != 0,
                    winding: self.emit_winding != 0,
                },
            },
            code_index: self.code_index,
            opdesc_index: self.opdesc_index,
            float_index: self.float_index,
            float32: self.float32 != 0,
            float_words: PartialVector { words: self.float_words, count: self.float_count },
            ..ShaderState::new(Stage::Vertex)
        }
    }
}

impl Default for PjGpuState {
    /// The state at power-on.
    fn default() -> PjGpuState {
        PjGpuState::new(&State::default())
    }
}

impl PjGpuState {
    pub(super) fn new(state: &State) -> PjGpuState {
        let State { registers, vertex, geometry, fixed, geometry_input, assembly } = state;
        // The others are left from earlier triangles: equal states have equal bytes.
        let mut assembly_vertices = [[0.0; SEMANTICS]; 2];
        let pending = usize::from(assembly.count).min(2);
        assembly_vertices[..pending].copy_from_slice(&assembly.vertices[..pending]);
        PjGpuState {
            struct_size: size_of::<PjGpuState>(),
            registers: *registers.0,
            vertex_code: words(&vertex.code),
            geometry_code: words(&geometry.code),
            vertex: PjGpuUnit::new(vertex),
            geometry: PjGpuUnit::new(geometry),
            fixed_defaults: fixed.defaults,
            fixed_vertex: fixed.vertex,
            fixed_words: fixed.words.words,
            fixed_index: fixed.index,
            fixed_words_count: fixed.words.count,
            fixed_count: fixed.count,
            assembly_count: assembly.count,
            assembly_vertices,
            geometry_input_vectors: geometry_input.vectors,
            geometry_input_vertices: geometry_input.vertices,
            geometry_input_expected: geometry_input.expected,
            geometry_input_count: geometry_input.count,
            geometry_input_uniform: geometry_input.uniform,
            assembly_oldest: assembly.oldest,
            reserved: [0; 5],
        }
    }

    pub(super) fn state(&self) -> State {
        State {
            registers: RegisterFile(Box::new(self.registers)),
            vertex: self.vertex.shader_state(&self.vertex_code),
            geometry: self.geometry.shader_state(&self.geometry_code),
            fixed: FixedAttributes {
                index: self.fixed_index,
                words: PartialVector { words: self.fixed_words, count: self.fixed_words_count },
                defaults: self.fixed_defaults,
                vertex: self.fixed_vertex,
                count: self.fixed_count,
                written: 0,
            },
            geometry_input: GeometryInput {
                vectors: self.geometry_input_vectors,
                count: self.geometry_input_count,
                vertices: self.geometry_input_vertices,
                expected: self.geometry_input_expected,
                uniform: self.geometry_input_uniform,
            },
            assembly: Assembly {
                vertices: self.assembly_vertices,
                count: self.assembly_count,
                oldest: self.assembly_oldest,
            },
        }
    }
}

/// The first `N` words, padded with zeros.
fn words<const N: usize>(from: &[u32]) -> [u32; N] {
    let mut to = [0; N];
    let count = from.len().min(N);
    to[..count].copy_from_slice(&from[..count]);
    to
}
