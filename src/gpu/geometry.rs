//! Outputs of vertices -> runs of the geometry unit -> vertices for primitive assembly.
//!
//! [`GeometryMode`] selects how vertices form the input of a run; [`GeometryInput`] holds an
//! incomplete input.
//!
//! Invariant: a vertex triggers a bounded number of runs, and every write hits an existing register
//! or uniform, for any register contents and any saved state. This file must not know where
//! vertices come from, nor which engine runs the program.

use super::assembly::{Assembly, Topology};
use super::output_mapping::OutputPlan;
use super::registers::{GSH, GSH_MISC0, GSH_MISC1, RegisterFile, offset};
use super::upload::ShaderState;
use super::{Attributes, Report, Sink};
use crate::engine::{CancelFlag, Shader};
use crate::isa::{REGS, Stage};
use crate::semantics::{SEMANTICS, Semantics};
use crate::state::{BatchExit, EmitState, Emitter, Exit, Registers, Uniforms, Unit, Vec4};

/// How vertices become the input of a geometry program. 3dbrew documents two constants; the fields
/// are those that libctru writes and Azahar reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryMode {
    /// The vectors of vertices fill the attributes; a full set starts a run.
    Point,
    /// Primitives of variable size: a vertex count in the index stream, then the vertices. The
    /// count goes to c0, the vertices to c1 and up. The first `main` vertices store all their
    /// vectors, the others the first only.
    Variable {
        /// Main vertices, 1-32.
        main: usize,
    },
    /// Primitives of fixed size: vertices fill uniforms.
    Fixed {
        /// The first uniform.
        first: usize,
        /// Uniforms per vertex, 1-16.
        stride: usize,
        /// Vertices per run, 1-16.
        vertices: usize,
    },
}

impl GeometryMode {
    /// Decodes `GSH_MISC0` and `GSH_MISC1`. Undocumented modes are as mode 0.
    pub fn from_registers(registers: &RegisterFile) -> GeometryMode {
        let word = registers.get(GSH_MISC0);
        let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as usize;
        match field(0, 8) {
            1 => GeometryMode::Variable { main: (registers.get(GSH_MISC1) & 0x1F) as usize + 1 },
            2 => GeometryMode::Fixed { first: field(16, 8), stride: field(12, 4) + 1, vertices: field(8, 4) + 1 },
            _ => GeometryMode::Point,
        }
    }
}

/// An incomplete input of the geometry unit.
#[derive(Clone, Debug, Default)]
#[repr(C)] // what most draws write comes last
pub struct GeometryInput {
    /// Attributes, in [`GeometryMode::Point`]; those from `count` on are of no account.
    pub vectors: Attributes,
    /// Vertices received, in the other modes.
    pub vertices: u32,
    /// Vertices of the primitive, in [`GeometryMode::Variable`]; 0 between primitives.
    pub expected: u32,
    /// Number of attributes in `vectors`.
    pub count: u8,
    /// The uniform for the next vector, in [`GeometryMode::Variable`].
    pub uniform: u8,
}

impl GeometryInput {
    /// Discards the input.
    // The vectors stay: a small draw would touch six lines of memory for them.
    #[inline]
    pub(super) fn discard(&mut self) {
        (self.count, self.vertices, self.expected, self.uniform) = (0, 0, 0, 0);
    }
}

/// The configuration of the geometry unit.
pub(super) struct Geometry {
    pub(super) mode: GeometryMode,
    /// Vectors per vertex that reach the unit.
    pub(super) outputs: usize,
    pub(super) attributes: usize,
    pub(super) permutation: [u8; REGS],
    /// The fewest vertices whose invocations run [together](super::invocations); `usize::MAX`: none do.
    pub(super) together_from: usize,
    plan: OutputPlan,
    /// Whether the sink takes [`Semantics`].
    sends_semantics: bool,
    topology: Topology,
}

/// The state that the geometry unit changes during a draw.
pub(super) struct GeometryContext<'a> {
    pub(super) cancel: &'a CancelFlag,
    pub(super) shader: &'a Shader,
    pub(super) registers: &'a mut RegisterFile,
    pub(super) memory: &'a mut ShaderState,
    pub(super) input: &'a mut GeometryInput,
    pub(super) assembly: &'a mut Assembly,
    pub(super) report: &'a mut Report,
    pub(super) sink: &'a mut dyn Sink,
}

impl Geometry {
    pub(super) fn new(registers: &RegisterFile, topology: Topology, sends_semantics: bool) -> Geometry {
        let (mode, outputs) = (GeometryMode::from_registers(registers), registers.vertex_outputs());
        let attributes = registers.attributes(Stage::Geometry);
        let together_from = match mode {
            GeometryMode::Point => (LEAST_TOGETHER * attributes).div_ceil(outputs),
            GeometryMode::Variable { .. } | GeometryMode::Fixed { .. } => usize::MAX,
        };
        Geometry {
            sends_semantics,
            mode,
            outputs,
            attributes,
            together_from,
            permutation: registers.permutation(Stage::Geometry),
            plan: OutputPlan::semantics(&registers.output_map(Stage::Geometry)),
            topology,
        }
    }

    /// Takes a vertex count of the index stream. A primitive without vertices is complete, so it
    /// runs.
    pub(super) fn vertex_count(&self, count: u32, context: &mut GeometryContext<'_>) {
        *context.input = GeometryInput { expected: count, uniform: 1, ..GeometryInput::default() };
        context.memory.uniforms.c[0] = [count as f32; 4];
        if count == 0 {
            self.run(context);
        }
    }

    /// Takes a vertex, unless the engine is cancelled: the registers of `outputs` that `mask` selects.
    pub(super) fn vertex(&self, mask: u16, outputs: &[Vec4], context: &mut GeometryContext<'_>) {
        if context.cancel.is_set() {
            context.report.note_geometry(Exit::Cancelled);
            return;
        }
        let vectors = compact(mask, outputs);
        let vectors = &vectors[..self.outputs];
        match self.mode {
            GeometryMode::Point => {
                for vector in vectors {
                    // The vectors of one vertex may start several runs.
                    if context.report.geometry_ended() {
                        break;
                    }
                    self.attribute(vector, context);
                }
            }
            GeometryMode::Variable { main } => {
                if context.input.vertices >= context.input.expected {
                    // No count precedes this vertex: the draw is not indexed.
                    context.report.dropped += 1;
                    return;
                }
                let stored = if (context.input.vertices as usize) < main { self.outputs } else { 1 };
                for vector in &vectors[..stored] {
                    store(context, usize::from(context.input.uniform), vector);
                    context.input.uniform = context.input.uniform.saturating_add(1);
                }
                context.input.vertices += 1;
                if context.input.vertices == context.input.expected {
                    context.input.expected = 0;
                    self.run(context);
                }
            }
            GeometryMode::Fixed { first, stride, vertices } => {
                let at = first + (context.input.vertices as usize).min(vertices) * stride;
                for (n, vector) in vectors.iter().take(stride).enumerate() {
                    store(context, at + n, vector);
                }
                context.input.vertices = context.input.vertices.saturating_add(1);
                if context.input.vertices as usize >= vertices {
                    context.input.vertices = 0;
                    self.run(context);
                }
            }
        }
    }

    fn attribute(&self, vector: &Vec4, context: &mut GeometryContext<'_>) {
        let n = usize::from(context.input.count).min(self.attributes - 1);
        context.input.vectors[n] = *vector;
        context.input.count = n as u8 + 1;
        if n + 1 == self.attributes {
            context.input.count = 0;
            for (&register, vector) in self.permutation.iter().zip(&context.input.vectors[..self.attributes]) {
                context.memory.unit.v[usize::from(register)] = *vector;
            }
            self.run(context);
        }
    }

    fn run(&self, context: &mut GeometryContext<'_>) {
        self.run_with(context, |shader, uniforms, unit, emitter| BatchExit {
            exit: shader.run_geometry(uniforms, unit, emitter),
            ran: 1,
        });
    }

    /// Runs invocations. Returns how many ran.
    #[inline(always)]
    pub(super) fn run_with(
        &self,
        context: &mut GeometryContext<'_>,
        run: impl FnOnce(&Shader, &Uniforms, &mut Unit, &mut AssemblyEmitter<'_>) -> BatchExit,
    ) -> usize {
        let ShaderState { uniforms, unit, .. } = &mut *context.memory;
        let mut emitter = AssemblyEmitter {
            plan: &self.plan,
            topology: self.topology,
            assembly: context.assembly,
            triangles: &mut context.report.triangles,
            sends_semantics: self.sends_semantics,
            sink: context.sink,
            slots: [[1.0; SEMANTICS]; 4],
            mapped: 0,
        };
        let BatchExit { exit, ran } = run(context.shader, uniforms, unit, &mut emitter);
        context.report.geometry_runs += ran as u64;
        context.report.note_geometry(exit);
        // As hardware does after each run. The register and the uniform are the same bits, so a
        // write of the upper byte can clear it.
        uniforms.b |= B15;
        context.registers.set_bits(GSH + offset::BOOLUNIFORM, u32::from(B15));
        ran
    }
}

pub(super) const B15: u16 = 1 << 15;
/// Fewer invocations run singly, which touches less code.
const LEAST_TOGETHER: usize = 8;

/// Writes a uniform of the geometry unit, independent of the upload index. Uniforms that do not
/// exist are ignored.
fn store(context: &mut GeometryContext<'_>, uniform: usize, vector: &Vec4) {
    if let Some(c) = context.memory.uniforms.c.get_mut(uniform) {
        *c = *vector;
    }
}

/// Moves the registers that `mask` selects to the front, in order; zeros follow.
pub(super) fn compact(mut mask: u16, outputs: &[Vec4]) -> Attributes {
    let mut vectors = [[0.0; 4]; REGS];
    for vector in &mut vectors {
        let Some(register) = outputs.get(mask.trailing_zeros() as usize) else { break };
        *vector = *register;
        mask &= mask - 1;
    }
    vectors
}

/// Emitted vertices -> triangles. A vertex is mapped once, when it arrives: most are in several
/// triangles.
pub(super) struct AssemblyEmitter<'a> {
    plan: &'a OutputPlan,
    topology: Topology,
    assembly: &'a mut Assembly,
    triangles: &'a mut u64,
    sink: &'a mut dyn Sink,
    /// Whether the sink takes [`Semantics`].
    sends_semantics: bool,
    /// The unit's vertex slots, mapped. What no output is mapped to is 1.
    slots: [Semantics; 4],
    /// The slots that are mapped: those that a vertex of this run fills.
    mapped: u8,
}

impl Emitter for AssemblyEmitter<'_> {
    fn vertex(&mut self, outputs: &Registers, how: EmitState) {
        self.map(usize::from(how.vertex & 3), outputs);
    }

    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        if self.mapped & 7 != 7 {
            self.map_earlier(vertices);
        }
        let forms_lists = matches!(self.topology, Topology::List | Topology::Geometry);
        if forms_lists && self.assembly.pending() == 0 && self.sends_semantics {
            // They are a triangle by themselves.
            let exchanged = winding && self.topology == Topology::Geometry;
            let order = if exchanged { [1, 0, 2] } else { [0, 1, 2] };
            self.sink.triangles(self.slots[..3].as_flattened(), &[order]);
            *self.triangles += 1;
            return;
        }
        // In [`Topology::Geometry`] three vertices complete one triangle, so the flag applies to
        // the same triangle whichever of them completes it.
        for vertex in &self.slots[..3] {
            *self.triangles += u64::from(self.assembly.push(self.topology, vertex, winding, self.sink));
        }
    }
}

impl AssemblyEmitter<'_> {
    fn map(&mut self, slot: usize, outputs: &Registers) {
        // Each vertex writes the same numbers of its slot.
        self.plan.map(outputs.as_flattened(), &mut self.slots[slot]);
        self.mapped |= 1 << slot;
    }

    /// Maps the vertices of earlier runs.
    #[cold]
    fn map_earlier(&mut self, vertices: [&Registers; 3]) {
        for (slot, outputs) in vertices.into_iter().enumerate() {
            if self.mapped >> slot & 1 == 0 {
                self.map(slot, outputs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_select_the_geometry_mode() {
        let decode = |misc0: u32, misc1: u32| {
            let mut registers = RegisterFile::default();
            registers.write(GSH_MISC0, misc0, 15);
            registers.write(GSH_MISC1, misc1, 15);
            GeometryMode::from_registers(&registers)
        };
        assert_eq!(decode(0, 7), GeometryMode::Point);
        assert_eq!(decode(0x0100_4302, 7), GeometryMode::Fixed { first: 0, stride: 5, vertices: 4 });
        assert_eq!(decode(0x01FF_FF02, 7), GeometryMode::Fixed { first: 255, stride: 16, vertices: 16 });
        assert_eq!(decode(1, 0xFFFF_FFE2), GeometryMode::Variable { main: 3 });
        assert_eq!(decode(3, 2), GeometryMode::Point, "unknown");
    }

    #[test]
    fn outputs_are_compacted_and_filled_with_zeros() {
        let outputs: Registers = std::array::from_fn(|n| [n as f32 + 1.0; 4]);
        let got = compact(0x8014, &outputs);
        assert_eq!(got.map(|v| v[0])[..4], [3.0, 5.0, 16.0, 0.0]);
        assert_eq!(compact(0xFFFF, &outputs), outputs);
    }
}
