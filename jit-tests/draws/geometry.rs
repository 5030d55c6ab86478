//! The slow geometry unit: outputs of vertices -> runs of the interpreter -> emitted triangles.

use picajit::engine::{Engine, Shader};
use picajit::gpu::{GeometryMode, State};
use picajit::isa::Stage;
use picajit::program::Program;
use picajit::state::{Emitter, Exit, Registers};

/// Programs of the unit, for any mode.
pub const SOURCES: [&str; 8] = [
    "setemit 0\nmov o0, v0\nemit\nsetemit 1\nmov o0, v1\nemit\nsetemit 2, prim\nmov o0, v2\nmov o1, v0\nemit",
    "setemit 0\nmov o0, c0\nemit\nsetemit 1\nmov o0, c1\nemit\nsetemit 2, prim inv\nmov o0, c2\nmov o2, c3\nemit",
    // Independent runs, whose vertices have the same registers.
    "setemit 0\nmov o0, v0\nmov o1, v1\nemit\nsetemit 1\nmov o0, v1\nmov o1, c0\nemit\n\
     setemit 2, prim\nmov o0, v2\nmov o1, v0\nemit",
    // Independent runs. A loop emits once, twice or three times; of an output some components stay.
    "mov r0, v0\nfor i0\nsetemit 0, prim inv\nadd r0, c0, r0\nmov o0, r0\nmov o2.xyz, r0\nemit\n.end",
    // Each run adds to what the others left.
    "add r0, v0, r0\nsetemit 0, prim\nmov o0, r0\nmov o1, c1\nemit",
    // The first run after an upload sets up; the unit keeps vertices that it emitted earlier.
    "jmpu b15, over\nmov r1, c0\nover:\nsetemit 1, prim inv\nmov o0, r1\nmov o1, v0\nemit\nemit",
    // Some runs run out of fuel after they have emitted.
    "setemit 2, prim\nmov o0, v0\nemit\ncmp c1, gt, gt, v0\nagain:\njmpc cmp.x, again\nmov r2, v1",
    // Some leave a loop that is none; a loop emits.
    "for i0\nsetemit 0, prim\nmov o0, v1\nemit\n.end\ncmp c2, gt, gt, v0\nbreakc cmp.x\nmov o1, v0",
];

/// An input under construction.
pub struct GeometryUnit {
    shader: Shader,
    mode: GeometryMode,
    vectors: Registers,
    count: usize,
    vertices: usize,
    expected: usize,
    uniform: usize,
    /// How the runs ended, of which a draw stops at the first without fuel.
    pub exit: Exit,
    pub runs: u64,
    pub dropped: u64,
}

impl GeometryUnit {
    /// The unit, if vertices pass through it.
    pub fn new(oracle: &Engine, state: &State) -> Option<GeometryUnit> {
        let file = &state.registers;
        if !file.has_geometry() {
            return None;
        }
        let program = Program::from_words(&state.geometry.code, &state.geometry.opdescs).expect("of a unit");
        Some(GeometryUnit {
            shader: oracle.shader(&program, file.entry(Stage::Geometry)),
            mode: GeometryMode::from_registers(file),
            vectors: [[0.0; 4]; 16],
            count: 0,
            vertices: 0,
            expected: 0,
            uniform: 0,
            exit: Exit::End,
            runs: 0,
            dropped: 0,
        })
    }

    /// Whether an index stream holds counts of vertices.
    pub fn is_counted(&self) -> bool {
        matches!(self.mode, GeometryMode::Variable { .. })
    }

    /// A count of vertices.
    pub fn count(&mut self, count: u64, state: &mut State, emitted: &mut Emitted) {
        (self.expected, self.vertices, self.uniform) = (count as usize, 0, 1);
        state.geometry.uniforms.c[0] = [count as f32; 4];
        if count == 0 {
            self.run(state, emitted);
        }
    }

    /// A vertex that has run.
    pub fn vertex(&mut self, outputs: &Registers, state: &mut State, emitted: &mut Emitted) {
        let file = state.registers.clone();
        let mask = file.output_mask(Stage::Vertex);
        let mut vectors = vec![[0.0; 4]; 16];
        for (n, register) in (0..16).filter(|k| mask >> k & 1 != 0).enumerate() {
            vectors[n] = outputs[register];
        }
        vectors.truncate(file.vertex_outputs());
        match self.mode {
            GeometryMode::Point => {
                let attributes = file.attributes(Stage::Geometry);
                for vector in vectors {
                    if self.exit == Exit::Fuel {
                        return;
                    }
                    self.vectors[self.count] = vector;
                    self.count += 1;
                    if self.count == attributes {
                        self.count = 0;
                        for (&register, vector) in
                            file.permutation(Stage::Geometry).iter().zip(&self.vectors[..attributes])
                        {
                            state.geometry.unit.v[usize::from(register)] = *vector;
                        }
                        self.run(state, emitted);
                    }
                }
            }
            GeometryMode::Variable { main } => {
                if self.vertices >= self.expected {
                    self.dropped += 1;
                    return;
                }
                if self.vertices >= main {
                    vectors.truncate(1);
                }
                for vector in vectors {
                    if let Some(c) = state.geometry.uniforms.c.get_mut(self.uniform) {
                        *c = vector;
                    }
                    // The hardware's counter has eight bits, and stays at the last.
                    self.uniform = (self.uniform + 1).min(255);
                }
                self.vertices += 1;
                if self.vertices == self.expected {
                    self.expected = 0;
                    self.run(state, emitted);
                }
            }
            GeometryMode::Fixed { first, stride, vertices } => {
                for (n, vector) in vectors.into_iter().take(stride).enumerate() {
                    if let Some(c) = state.geometry.uniforms.c.get_mut(first + self.vertices * stride + n) {
                        *c = vector;
                    }
                }
                self.vertices += 1;
                if self.vertices == vertices {
                    self.vertices = 0;
                    self.run(state, emitted);
                }
            }
        }
    }

    fn run(&mut self, state: &mut State, emitted: &mut Emitted) {
        let ended = self.shader.run_geometry(&state.geometry.uniforms, &mut state.geometry.unit, emitted);
        self.exit = if self.exit == Exit::End || ended == Exit::Fuel { ended } else { self.exit };
        self.runs += 1;
        state.geometry.uniforms.b |= 1 << 15;
    }
}

/// The triangles of runs, and whether each is wound the other way.
#[derive(Default)]
pub struct Emitted(pub Vec<([Registers; 3], bool)>);

impl Emitter for Emitted {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.0.push((vertices.map(|v| *v), winding));
    }
}

/// The mode registers of one of the unit's modes, from two numbers.
pub fn mode_words(kind: u32, number: u32) -> [u32; 2] {
    match kind % 4 {
        0 => [0, number],
        1 => [1, number % 4],
        // Vertices, uniforms a vertex, the first uniform.
        2 => [2 | (number % 5) << 8 | (number / 5 % 3) << 12 | (number / 15 % 4) << 16, 0],
        _ => [number, number >> 3],
    }
}
