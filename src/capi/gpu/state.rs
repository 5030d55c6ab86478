//! [`State`] -> the structure that C has of it, and back.
//!
//! Invariant: there and back is the same state, but for memories of other lengths than a console's, which C has no way to
//! make. It must not know what a state means.

use super::types::{PjGpuState, PjGpuUnit};
use crate::gpu::{Assembly, Fed, FixedAttributes, RegisterFile, ShaderState, State, Words};
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

    fn translated(&self, code: &[u32]) -> ShaderState {
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
            float_words: Words { words: self.float_words, count: self.float_count },
        }
    }
}

impl Default for PjGpuState {
    /// As when the console is switched on.
    fn default() -> PjGpuState {
        PjGpuState::new(&State::default())
    }
}

impl PjGpuState {
    pub(super) fn new(state: &State) -> PjGpuState {
        let State { registers, vertex, geometry, fixed, fed, assembly } = state;
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
            assembly_vertices: assembly.vertices,
            fed_vectors: fed.vectors,
            fed_vertices: fed.vertices,
            fed_expected: fed.expected,
            fed_count: fed.count,
            fed_uniform: fed.uniform,
            assembly_oldest: assembly.oldest,
            reserved: [0; 5],
        }
    }

    pub(super) fn translated(&self) -> State {
        State {
            registers: RegisterFile(Box::new(self.registers)),
            vertex: self.vertex.translated(&self.vertex_code),
            geometry: self.geometry.translated(&self.geometry_code),
            fixed: FixedAttributes {
                index: self.fixed_index,
                words: Words { words: self.fixed_words, count: self.fixed_words_count },
                defaults: self.fixed_defaults,
                vertex: self.fixed_vertex,
                count: self.fixed_count,
            },
            fed: Fed {
                vectors: self.fed_vectors,
                count: self.fed_count,
                vertices: self.fed_vertices,
                expected: self.fed_expected,
                uniform: self.fed_uniform,
            },
            assembly: Assembly {
                vertices: self.assembly_vertices,
                count: self.assembly_count,
                oldest: self.assembly_oldest,
            },
        }
    }
}

/// As many words as C has room for.
fn words<const N: usize>(from: &[u32]) -> [u32; N] {
    let mut to = [0; N];
    let count = from.len().min(N);
    to[..count].copy_from_slice(&from[..count]);
    to
}
