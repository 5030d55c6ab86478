//! Register writes and fetched vertices -> triangles for the rasteriser: all of the PICA200 that has to do with
//! shaders.
//!
//! A host hands over the register writes of its command lists ([`Gpu::write`], or whole lists, [`Gpu::execute`]), is
//! told what they set off ([`Effect`]), fetches attributes from guest memory, and draws ([`Gpu::draw_arrays`],
//! [`Gpu::draw_elements`]). Triangles of what the rasteriser takes ([`Semantics`]) come back through a [`Sink`].
//!
//! | file | turns | into |
//! |---|---|---|
//! | [`registers`] | writes by id | kept words, and their fields |
//! | [`commands`] | a command list | writes |
//! | `upload` | words of queues | code, descriptors, uniforms ([`ShaderState`]) |
//! | `shaders` | code and entry | a [`Shader`](crate::engine::Shader), when it is needed |
//! | `draw` | attributes | outputs, in batches |
//! | [`cache`] | indices | which vertices are run |
//! | `geometry` | outputs | runs of the geometry unit |
//! | `wiring` | outputs | what the rasteriser takes |
//! | `assembly` | vertices | triangles |
//!
//! Invariant: [`State`] is all there is to know. Everything else can be made again from it and only saves time, so a
//! savestate is a copy of it. Any words, any state and any answers of a host are safe, and end; how long a shader may
//! run is the [engine's](crate::engine::Options::fuel) to say.
//!
//! What is not known of the hardware is decided in the table of `docs/gpu.md`. This module must not know what is behind
//! [`crate::engine`], guest memory, or what becomes of triangles.
//!
//! # Example
//! ```
//! use picajit::gpu::{Attributes, Effect, Gpu, registers as reg};
//! use picajit::semantics::Semantics;
//!
//! # let program = picajit::text::assemble(".proc main\nmov o0, v0\nend\n.end\n").unwrap().shbin.program().unwrap();
//! let mut gpu = Gpu::default();
//! // What a game's command list does. All bytes of each register are written.
//! let mut write = |id, value| assert!(matches!(gpu.write(id, value, 0xF), Effect::None));
//! write(reg::VSH + reg::offset::CODETRANSFER_INDEX, 0);
//! program.code().iter().for_each(|&word| write(reg::VSH + reg::offset::CODETRANSFER_DATA0, word));
//! write(reg::VSH + reg::offset::OPDESCS_INDEX, 0);
//! program.opdescs().iter().for_each(|&word| write(reg::VSH + reg::offset::OPDESCS_DATA0, word));
//! write(reg::VSH + reg::offset::ENTRYPOINT, 0x7FFF_0000);
//! write(reg::VSH + reg::offset::INPUTBUFFER_CONFIG, 0xA000_0000); // one attribute
//! write(reg::VSH + reg::offset::OUTMAP_MASK, 0b1);
//! write(reg::SH_OUTMAP_TOTAL, 1);
//! write(reg::SH_OUTMAP_O0, 0x0302_0100); // position
//!
//! // What the host has fetched for the draw.
//! let vertex = |x: f32| -> Attributes { std::array::from_fn(|n| if n == 0 { [x, 0.0, 0.0, 1.0] } else { [0.0; 4] }) };
//! let mut triangles: Vec<[Semantics; 3]> = Vec::new();
//! let report = gpu.draw_arrays([1.0, 2.0, 3.0].map(vertex), &mut triangles);
//! assert_eq!((report.vertices, report.triangles), (3, 1));
//! assert_eq!(triangles[0][2][..4], [3.0, 0.0, 0.0, 1.0]);
//! assert_eq!(triangles[0][2][8], 1.0); // what no output is mapped to
//! ```

pub mod cache;
pub mod commands;
pub mod registers;

mod assembly;
mod draw;
mod geometry;
mod shaders;
mod upload;
mod wiring;

pub use assembly::{Assembly, Topology};
pub use cache::{NoCache, RoundRobin, VertexCache};
pub use commands::{Commands, Write};
pub use draw::Report;
pub use geometry::{Fed, Feed};
pub use registers::RegisterFile;
pub use shaders::Work;
pub use upload::{ShaderState, VERTEX_CODE_WORDS, Words};

use crate::engine::Engine;
use crate::isa::{REGS, Stage};
use crate::semantics::Semantics;
use crate::state::Vec4;
use shaders::Shaders;
use std::sync::Arc;

/// The attributes of a vertex in the order of the input buffer, before permutation. Components that an array does not
/// have are (0, 0, 0, 1), not those of a default attribute (3dbrew).
pub type Attributes = [Vec4; REGS];

/// Receives triangles.
pub trait Sink {
    /// One triangle, its vertices in the order that says which side is seen. Nothing is clipped, culled or divided.
    fn triangle(&mut self, vertices: [&Semantics; 3]);
}

impl Sink for Vec<[Semantics; 3]> {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.push(vertices.map(|v| *v));
    }
}

/// What a register write asks of the host.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "of many writes few give a vertex, and those give it at once")]
pub enum Effect {
    /// Nothing, unless the host itself has something to do with the register.
    None,
    /// Vertices are to be drawn.
    Draw(Draw),
    /// Immediate mode has completed a vertex: it is for [`Gpu::draw_immediate`], before any other register is written
    /// than those of attribute words.
    Vertex(Attributes),
}

/// A draw that a game asks for. Where vertices are, and how many, is in registers that are the host's to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// In their order: fetch them, then [`Gpu::draw_arrays`].
    Arrays,
    /// In the order of indices: [`Gpu::draw_elements`].
    Elements,
}

/// A host that has its command lists executed.
pub trait Host: Sink {
    /// A draw: fetch vertices, and draw them with `gpu`, `self` being the sink.
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw);

    /// A register has been written, of whatever use it is; `gpu` knows about it. What the write sets off comes after.
    fn wrote(&mut self, gpu: &Gpu, write: Write) {
        let _ = (gpu, write);
    }
}

/// The words and vectors of `FIXEDATTRIB_DATA`.
#[derive(Clone, Debug)]
pub struct FixedAttributes {
    /// Which attribute is next; 15 in immediate mode.
    pub index: u8,
    /// Words of one that is not complete.
    pub words: Words,
    /// The default attributes. The last has no register.
    pub defaults: Attributes,
    /// Attributes of a vertex of immediate mode that is not complete.
    pub vertex: Attributes,
    /// How many of them there are.
    pub count: u8,
}

/// All that a GPU of this module remembers: plain data to copy, save and restore. Whatever its fields hold is safe.
#[derive(Clone, Debug)]
pub struct State {
    /// Registers as written.
    pub registers: RegisterFile,
    /// The vertex units.
    pub vertex: ShaderState,
    /// The geometry unit, which is the fourth vertex unit while no geometry program is in use.
    pub geometry: ShaderState,
    /// Default attributes and immediate mode.
    pub fixed: FixedAttributes,
    /// Input of the geometry unit that is not complete.
    pub fed: Fed,
    /// Vertices that wait for a triangle.
    pub assembly: Assembly,
}

impl Default for State {
    /// As when the console is switched on, as far as known; all that isn't is 0.
    fn default() -> State {
        let zeros = Attributes::default();
        State {
            registers: RegisterFile::default(),
            vertex: ShaderState::new(Stage::Vertex),
            geometry: ShaderState::new(Stage::Geometry),
            fixed: FixedAttributes { index: 0, words: Words::default(), defaults: zeros, vertex: zeros, count: 0 },
            fed: Fed::default(),
            assembly: Assembly::default(),
        }
    }
}

/// The shader side of the GPU. A clone is independent of it, but for the engine.
pub struct Gpu {
    engine: Arc<Engine>,
    state: State,
    vertex: Shaders,
    geometry: Shaders,
    work: Work,
    scratch: draw::Scratch,
}

impl Default for Gpu {
    fn default() -> Gpu {
        Gpu::new(Arc::default())
    }
}

impl Clone for Gpu {
    fn clone(&self) -> Gpu {
        let (vertex, geometry) = (self.vertex.clone(), self.geometry.clone());
        let (engine, state) = (self.engine.clone(), self.state.clone());
        Gpu { engine, state, vertex, geometry, work: self.work, scratch: draw::Scratch::default() }
    }
}

impl Gpu {
    /// A GPU as when the console is switched on, whose shaders `engine` runs.
    pub fn new(engine: Arc<Engine>) -> Gpu {
        Gpu::with_state(engine, State::default())
    }

    /// A GPU that goes on from `state`. Programs are made again when they are first needed.
    pub fn with_state(engine: Arc<Engine>, state: State) -> Gpu {
        let [vertex, geometry] = std::array::from_fn(|_| Shaders::new());
        Gpu { engine, state, vertex, geometry, work: Work::default(), scratch: draw::Scratch::default() }
    }

    /// Who runs shaders.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// All that it remembers.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The same, to be changed at will. Programs are made again if it changes what is uploaded.
    pub fn state_mut(&mut self) -> &mut State {
        self.vertex.words_changed();
        self.geometry.words_changed();
        &mut self.state
    }

    /// What uploads have cost.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Default attribute `n`, as a vertex has it whose attribute is not an array's; zeros from 15 on.
    pub fn default_attribute(&self, n: usize) -> Vec4 {
        self.state.fixed.defaults.get(n).copied().unwrap_or_default()
    }

    /// What a read of register `id` gives. Index, data and end registers of uploads are 0, and of entry points only
    /// those bits that there are come back (both measured: GBATEK); all others are as written.
    pub fn read(&self, id: u16) -> u32 {
        self.state.registers.read(id)
    }

    /// Writes the bytes of register `id` that `mask` names. Registers that have nothing to do with shaders are kept and
    /// do nothing. Queues and triggers act on every write, with the whole value, whatever the mask (as in every known
    /// emulator; unknown on hardware). Writes to the vertex units count at once, also between draws where games must
    /// not make them ([`START_DRAW_FUNC0`](registers::START_DRAW_FUNC0)).
    pub fn write(&mut self, id: u16, value: u32, mask: u8) -> Effect {
        use registers::*;
        let (old, new) = self.state.registers.write(id, value, mask);
        if let Some((stage, at)) = place(id) {
            self.write_unit(stage, at, value, mask, new);
            if stage == Stage::Vertex && is_mirrored(at) && self.state.registers.is_mirroring() {
                let (_, copy) = self.state.registers.write(GSH + at, value, mask);
                self.write_unit(Stage::Geometry, at, value, mask, copy);
            }
            return Effect::None;
        }
        match id {
            DRAWARRAYS => return Effect::Draw(Draw::Arrays),
            DRAWELEMENTS => return Effect::Draw(Draw::Elements),
            FIXEDATTRIB_INDEX => self.begin_fixed(value, mask),
            FIXEDATTRIB_DATA0..=FIXEDATTRIB_DATA2 => {
                if let Some(vertex) = self.push_fixed(value) {
                    return Effect::Vertex(vertex);
                }
            }
            PRIMITIVE_CONFIG if Topology::from_register(old) != Topology::from_register(new) => {
                self.state.assembly.restart();
            }
            RESTART_PRIMITIVE => self.state.assembly.restart(),
            _ => {}
        }
        Effect::None
    }

    fn write_unit(&mut self, stage: Stage, at: u16, value: u32, mask: u8, merged: u32) {
        let (memory, shaders) = match stage {
            Stage::Vertex => (&mut self.state.vertex, &mut self.vertex),
            Stage::Geometry => (&mut self.state.geometry, &mut self.geometry),
        };
        if memory.write(at, value, mask, merged) {
            shaders.words_changed();
        }
    }

    fn begin_fixed(&mut self, value: u32, mask: u8) {
        let fixed = &mut self.state.fixed;
        fixed.index = (registers::merge(u32::from(fixed.index), value, mask) & 0xF) as u8;
        fixed.words.clear();
        if fixed.index == IMMEDIATE {
            fixed.count = 0;
            self.state.fed = Fed::default();
        }
    }

    /// A word of an attribute. Gives the vertex that it completes in immediate mode.
    fn push_fixed(&mut self, word: u32) -> Option<Attributes> {
        let attributes = self.state.registers.immediate_attributes();
        let fixed = &mut self.state.fixed;
        let vector = upload::f24_vector(fixed.words.push::<3>(word)?);
        if fixed.index != IMMEDIATE {
            let index = fixed.index & 0xF;
            fixed.defaults[usize::from(index)] = vector;
            // Up to the last one: defaults never turn into vertices.
            fixed.index = (index + 1).min(IMMEDIATE - 1);
            return None;
        }
        let n = usize::from(fixed.count).min(attributes - 1);
        fixed.vertex[n] = vector;
        fixed.count = n as u8 + 1;
        if n + 1 < attributes {
            return None;
        }
        fixed.count = 0;
        let mut vertex = fixed.defaults;
        vertex[..attributes].copy_from_slice(&fixed.vertex[..attributes]);
        Some(vertex)
    }

    /// Executes a command list: writes its registers, and draws what they set off. Vertices of immediate mode are drawn
    /// together as far as nothing else comes between. Ends with the list: jumps to other lists are the host's.
    pub fn execute(&mut self, list: &[u32], host: &mut impl Host) {
        let mut waiting = Vec::new();
        for write in Commands::new(list) {
            if !matches!(write.id, registers::FIXEDATTRIB_DATA0..=registers::FIXEDATTRIB_DATA2) {
                self.draw_waiting(&mut waiting, host);
            }
            let effect = self.write(write.id, write.value, write.mask);
            host.wrote(self, write);
            match effect {
                Effect::None => {}
                Effect::Draw(draw) => host.draw(self, draw),
                Effect::Vertex(vertex) => waiting.push(vertex),
            }
        }
        self.draw_waiting(&mut waiting, host);
    }

    fn draw_waiting(&mut self, waiting: &mut Vec<Attributes>, host: &mut impl Host) {
        if !waiting.is_empty() {
            self.draw_immediate(waiting, host);
            waiting.clear();
        }
    }
}

/// The index that begins immediate mode.
const IMMEDIATE: u8 = 15;

#[cfg(test)]
pub(crate) mod tests;
