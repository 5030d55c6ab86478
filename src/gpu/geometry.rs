//! Vertices that have left the vertex units -> runs of the geometry unit -> vertices for primitive assembly.
//!
//! The unit is fed in one of three ways ([`Feed`]). What has come of an input that is not complete waits in [`Fed`].
//! Invariant: a vertex sets off a bounded number of runs, and nothing is written outside of a register or uniform that
//! there is, whatever a game or a saved state says. It must not know where vertices come from, nor who runs the
//! program.

use super::assembly::{Assembly, Topology};
use super::registers::{GSH, GSH_MISC0, GSH_MISC1, RegisterFile, offset};
use super::upload::ShaderState;
use super::wiring::Wiring;
use super::{Attributes, Report, Sink};
use crate::engine::Shader;
use crate::isa::{REGS, Stage};
use crate::state::{Emitter, Exit, Registers, Vec4};

/// How vertices become the input of a geometry program (3dbrew has two constants; the fields are those that libctru
/// writes and Azahar reads).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// The vectors of vertices fill the unit's attributes; as many as it takes are a run.
    Point,
    /// A vertex count in the index stream, then the vertices: the count goes to c0, the vertices to c1 and up. The
    /// first `main` ones leave all their vectors there, the others the first one only.
    Variable {
        /// Main vertices, 1-32.
        main: usize,
    },
    /// Vertices fill uniforms.
    Fixed {
        /// The first one.
        first: usize,
        /// Uniforms a vertex, 1-16.
        stride: usize,
        /// Vertices a run, 1-16.
        vertices: usize,
    },
}

impl Feed {
    /// From `GSH_MISC0` and `GSH_MISC1`. Modes that nobody has described are as mode 0.
    pub fn from_registers(registers: &RegisterFile) -> Feed {
        let word = registers.get(GSH_MISC0);
        let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as usize;
        match field(0, 8) {
            1 => Feed::Variable { main: (registers.get(GSH_MISC1) & 0x1F) as usize + 1 },
            2 => Feed::Fixed { first: field(16, 8), stride: field(12, 4) + 1, vertices: field(8, 4) + 1 },
            _ => Feed::Point,
        }
    }
}

/// What has come of an input that is not complete.
#[derive(Clone, Debug, Default)]
pub struct Fed {
    /// Attributes, in [`Feed::Point`].
    pub vectors: Attributes,
    /// How many of them there are.
    pub count: u8,
    /// Vertices that have come, in the other ways.
    pub vertices: u32,
    /// In [`Feed::Variable`], vertices that are to come in all; 0 between primitives.
    pub expected: u32,
    /// In [`Feed::Variable`], the uniform that the next vector goes to.
    pub uniform: u8,
}

/// The geometry unit as it is set up for a draw.
pub(super) struct Geometry {
    pub(super) shader: Shader,
    pub(super) feed: Feed,
    /// Vectors of a vertex that arrive here.
    outputs: usize,
    attributes: usize,
    permutation: [u8; REGS],
    wiring: Wiring,
    topology: Topology,
}

/// What it works on.
pub(super) struct Work<'a> {
    pub(super) registers: &'a mut RegisterFile,
    pub(super) memory: &'a mut ShaderState,
    pub(super) fed: &'a mut Fed,
    pub(super) assembly: &'a mut Assembly,
    pub(super) report: &'a mut Report,
    pub(super) sink: &'a mut dyn Sink,
}

impl Geometry {
    pub(super) fn new(registers: &RegisterFile, topology: Topology, shader: Shader) -> Geometry {
        Geometry {
            shader,
            feed: Feed::from_registers(registers),
            outputs: registers.vertex_outputs(),
            attributes: registers.attributes(Stage::Geometry),
            permutation: registers.permutation(Stage::Geometry),
            wiring: Wiring::new(&registers.output_map(Stage::Geometry)),
            topology,
        }
    }

    /// A vertex count of the index stream. That of a primitive without vertices is all there is of it, so it runs.
    pub(super) fn vertex_count(&self, count: u32, work: &mut Work<'_>) {
        *work.fed = Fed { expected: count, uniform: 1, ..Fed::default() };
        work.memory.uniforms.c[0] = [count as f32; 4];
        if count == 0 {
            self.run(work);
        }
    }

    /// A vertex: what `mask` lets out of `outputs`.
    pub(super) fn vertex(&self, mask: u16, outputs: &Registers, work: &mut Work<'_>) {
        let vectors = compact(mask, outputs);
        let vectors = &vectors[..self.outputs];
        match self.feed {
            Feed::Point => vectors.iter().for_each(|vector| self.attribute(vector, work)),
            Feed::Variable { main } => {
                if work.fed.vertices >= work.fed.expected {
                    // No count has announced it: the draw is not an indexed one.
                    work.report.dropped += 1;
                    return;
                }
                let taken = if (work.fed.vertices as usize) < main { self.outputs } else { 1 };
                for vector in &vectors[..taken] {
                    store(work, usize::from(work.fed.uniform), vector);
                    work.fed.uniform = work.fed.uniform.saturating_add(1);
                }
                work.fed.vertices += 1;
                if work.fed.vertices == work.fed.expected {
                    work.fed.expected = 0;
                    self.run(work);
                }
            }
            Feed::Fixed { first, stride, vertices } => {
                let at = first + (work.fed.vertices as usize).min(vertices) * stride;
                for (n, vector) in vectors.iter().take(stride).enumerate() {
                    store(work, at + n, vector);
                }
                work.fed.vertices = work.fed.vertices.saturating_add(1);
                if work.fed.vertices as usize >= vertices {
                    work.fed.vertices = 0;
                    self.run(work);
                }
            }
        }
    }

    fn attribute(&self, vector: &Vec4, work: &mut Work<'_>) {
        let n = usize::from(work.fed.count).min(self.attributes - 1);
        work.fed.vectors[n] = *vector;
        work.fed.count = n as u8 + 1;
        if n + 1 == self.attributes {
            work.fed.count = 0;
            for (&register, vector) in self.permutation.iter().zip(&work.fed.vectors[..self.attributes]) {
                work.memory.unit.v[usize::from(register)] = *vector;
            }
            self.run(work);
        }
    }

    fn run(&self, work: &mut Work<'_>) {
        let ShaderState { uniforms, unit, .. } = &mut *work.memory;
        let mut emitter = ToAssembly {
            wiring: &self.wiring,
            topology: self.topology,
            assembly: work.assembly,
            triangles: &mut work.report.triangles,
            sink: work.sink,
        };
        let exit = self.shader.run_geometry(uniforms, unit, &mut emitter);
        work.report.geometry_runs += 1;
        if work.report.geometry_exit == Exit::End {
            work.report.geometry_exit = exit;
        }
        // The unit does this behind each run. The register is the uniform, so a write of its upper byte takes it back.
        uniforms.b |= B15;
        work.registers.set_bits(GSH + offset::BOOLUNIFORM, u32::from(B15));
    }
}

const B15: u16 = 1 << 15;

/// A uniform of the geometry unit, past the index that uploads use. Those there are not are passed over.
fn store(work: &mut Work<'_>, uniform: usize, vector: &Vec4) {
    if let Some(c) = work.memory.uniforms.c.get_mut(uniform) {
        *c = *vector;
    }
}

/// The registers that `mask` lets out, in the order of their numbers; zeros behind them.
fn compact(mask: u16, outputs: &Registers) -> Attributes {
    let mut vectors = [[0.0; 4]; REGS];
    let leaving = (0..REGS).filter(|n| mask >> n & 1 != 0);
    leaving.zip(&mut vectors).for_each(|(n, vector)| *vector = outputs[n]);
    vectors
}

struct ToAssembly<'a> {
    wiring: &'a Wiring,
    topology: Topology,
    assembly: &'a mut Assembly,
    triangles: &'a mut u64,
    sink: &'a mut dyn Sink,
}

impl Emitter for ToAssembly<'_> {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        // In the topology where the flag counts three vertices complete one triangle, whichever of them it is.
        for vertex in vertices {
            let vertex = self.wiring.apply(vertex);
            *self.triangles += u64::from(self.assembly.push(self.topology, &vertex, winding, self.sink));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_say_how_the_unit_is_fed() {
        let feed = |misc0: u32, misc1: u32| {
            let mut registers = RegisterFile::default();
            registers.write(GSH_MISC0, misc0, 15);
            registers.write(GSH_MISC1, misc1, 15);
            Feed::from_registers(&registers)
        };
        assert_eq!(feed(0, 7), Feed::Point);
        assert_eq!(feed(0x0100_4302, 7), Feed::Fixed { first: 0, stride: 5, vertices: 4 });
        assert_eq!(feed(0x01FF_FF02, 7), Feed::Fixed { first: 255, stride: 16, vertices: 16 });
        assert_eq!(feed(1, 0xFFFF_FFE2), Feed::Variable { main: 3 });
        assert_eq!(feed(3, 2), Feed::Point, "unknown");
    }

    #[test]
    fn outputs_are_compacted_and_filled_with_zeros() {
        let outputs: Registers = std::array::from_fn(|n| [n as f32 + 1.0; 4]);
        let got = compact(0x8014, &outputs);
        assert_eq!(got.map(|v| v[0])[..4], [3.0, 5.0, 16.0, 0.0]);
        assert_eq!(compact(0xFFFF, &outputs), outputs);
    }
}
