//! The shader side of the GPU: register writes and guest memory -> triangles for the rasteriser.
//!
//! A host passes the register writes of its command lists to [`Gpu::write`], or whole lists to
//! [`Gpu::execute`]. The returned [`Effect`] says what the host must do. On a draw the host calls
//! [`Gpu::draw`] with its guest [`Memory`]. Hosts with attributes of their own call
//! [`Gpu::draw_arrays`] or [`Gpu::draw_elements`]. A [`Sink`] receives the triangles in the
//! rasteriser's input format ([`Semantics`](crate::semantics::Semantics)), or in a [`VertexFormat`] of the host.
//!
//! | file | input | output |
//! |---|---|---|
//! | `registers` | writes by id | stored words and their fields |
//! | `state` | | all that a savestate holds |
//! | `fixed_attributes` | words of attributes | defaults, vertices of immediate mode |
//! | [`commands`] | a command list | writes |
//! | `recording` | a text | guest memory and a command list |
//! | `upload` | words of upload queues | code, descriptors, uniforms ([`ShaderState`]) |
//! | `program_cache` | code and entry | a [`Shader`](crate::engine::Shader), on demand |
//! | `configuration` | registers | plans of fetch and output map, kept until one changes |
//! | `fetch` | guest memory | input registers and indices, in groups |
//! | `inputs` | guest memory | input registers alone, for tools |
//! | `guest_draw`, `host_draw` | a draw | its vertices, in drawing order |
//! | `placement`, `hand_over` | a draw | its vertices and triangles for a host's GPU, and whether that may run them |
//! | `limits` | vertices that a draw wants | how many it runs |
//! | `diagnostics` | state and programs of a draw | what looks wrong ([`Notes`]) |
//! | `deferred_run` | a draw's last vertex | the vertex unit, when something reads it |
//! | `draw` | vertices | vertex outputs, in drawing order |
//! | `prefetch` | a draw that begins | its data in the near caches |
//! | `few_vertices` | at most 12 vertices | their triangles, by little code |
//! | `vertex_cache` | an index | the outputs of an earlier run |
//! | `geometry` | vertex outputs | runs of the geometry unit |
//! | `lanes` | one to four components | vectors of four |
//! | `output_mapping` | output registers | the rasteriser's input |
//! | `rows` | mapped vertices | slices of triangles |
//! | `sink` | slices of triangles | the host |
//! | `assembly` | vertices | triangles |
//!
//! Invariant: [`State`] is the whole state. All else is derived from it and only saves time, so a
//! savestate is a copy of it. Any words, any state and any answers of a host are safe, and every
//! call ends; [`Options::fuel`](crate::engine::Options::fuel) bounds each run, and [`Limits`] bound
//! their number.
//!
//! `docs/gpu.md` lists the choices where the hardware's behaviour is unknown. This module must not
//! depend on the engine's internals, on where guest memory is, or on the rasteriser.
//!
//! # Example
//! ```
//! use picajit::gpu::{Attributes, Effect, Gpu, RegisterFile as Reg};
//! use picajit::semantics::Semantics;
//!
//! # let source = ".proc main\nmov o0, v0\nend\n.end\n";
//! # let program = picajit::text::assemble(source).unwrap().shbin.program().unwrap();
//! let mut gpu = Gpu::default();
//! // What a game's command list does. All bytes of each register are written.
//! let mut write = |id, value| assert!(matches!(gpu.write(id, value, 0xF), Effect::None));
//! write(Reg::VSH_CODETRANSFER_INDEX, 0);
//! program.code().iter().for_each(|&word| write(Reg::VSH_CODETRANSFER_DATA0, word));
//! write(Reg::VSH_OPDESCS_INDEX, 0);
//! program.opdescs().iter().for_each(|&word| write(Reg::VSH_OPDESCS_DATA0, word));
//! write(Reg::VSH_ENTRYPOINT, 0x7FFF_0000);
//! write(Reg::VSH_INPUTBUFFER_CONFIG, 0xA000_0000); // one attribute
//! write(Reg::VSH_OUTMAP_MASK, 0b1);
//! write(Reg::SH_OUTMAP_TOTAL, 1);
//! write(Reg::SH_OUTMAP_O0, 0x0302_0100); // position
//!
//! // The attributes that the host fetched for the draw.
//! let vertex = |x: f32| -> Attributes {
//!     std::array::from_fn(|n| if n == 0 { [x, 0.0, 0.0, 1.0] } else { [0.0; 4] })
//! };
//! let mut triangles: Vec<[Semantics; 3]> = Vec::new();
//! let report = gpu.draw_arrays([1.0, 2.0, 3.0].map(vertex), &mut triangles);
//! assert_eq!((report.vertices, report.triangles), (3, 1));
//! assert_eq!(triangles[0][2][..4], [3.0, 0.0, 0.0, 1.0]);
//! assert_eq!(triangles[0][2][8], 1.0); // a semantic that no output is mapped to
//! ```

pub mod commands;
pub(crate) mod recording;
mod register_writes;
pub(crate) mod registers;

mod assembly;
mod buffers;
mod configuration;
mod deferred_run;
mod diagnostics;
mod draw;
mod fetch;
mod few_vertices;
mod fixed_attributes;
mod geometry;
mod guest_draw;
#[cfg(feature = "gpu-code")]
mod hand_over;
mod host_draw;
mod inputs;
mod invocations;
mod lanes;
mod limits;
mod notes;
mod output_mapping;
#[cfg(feature = "gpu-code")]
mod placement;
mod prefetch;
mod program_cache;
mod report;
mod rows;
mod sink;
mod state;
mod upload;
mod vertex_cache;
mod vertex_format;

pub use assembly::{Assembly, Topology};
pub use commands::{Commands, ListExit, Write};
#[cfg(feature = "gpu-code")]
pub use fetch::streams::{STREAMS, StreamAttribute, StreamLayout};
pub use fetch::{ComponentType, Memory, Regions};
pub use fixed_attributes::FixedAttributes;
pub use geometry::{GeometryInput, GeometryMode};
pub use guest_draw::DrawOptions;
#[cfg(feature = "gpu-code")]
pub use hand_over::{HandedDraw, Stream};
pub use limits::Limits;
pub use notes::Notes;
#[cfg(feature = "gpu-code")]
pub use placement::{CpuOnly, Placement};
pub use program_cache::UploadStats;
pub use registers::RegisterFile;
pub use report::Report;
pub use sink::{Sink, TriangleSink};
pub use state::State;
pub use upload::{PartialVector, ShaderState, VERTEX_CODE_WORDS};
pub use vertex_format::VertexFormat;

use crate::engine::{CancelFlag, Engine};
use crate::isa::REGS;
use crate::state::{Uniforms, Vec4};
use buffers::Buffers;
use configuration::DrawConfiguration;
use deferred_run::DeferredRun;
use diagnostics::Diagnostics;
use limits::Budget;
use program_cache::ProgramCache;
use registers::Kind;
use std::sync::Arc;

/// The attributes of a vertex in the order of the input buffer, before permutation. Components that
/// an array does not supply are (0, 0, 0, 1), not those of a default attribute (3dbrew).
pub type Attributes = [Vec4; REGS];

/// What the host must do after a register write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Nothing for the shader side.
    None,
    /// Draw vertices.
    Draw(Draw),
    /// Immediate mode completed a vertex, [`Gpu::immediate_vertex`]: pass it to [`Gpu::draw_immediate`]
    /// before the next write that is not to `FIXEDATTRIB_DATA`.
    Vertex,
}

/// A draw that a game requests, for [`Gpu::draw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Vertices in order.
    Arrays,
    /// Vertices in the order of indices.
    Elements,
}

/// The callbacks of [`Gpu::execute`].
pub trait Host: Sink {
    /// Draws with `gpu`; `self` is the sink.
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw);

    /// Called after each register write, before the draw that it triggers.
    fn wrote(&mut self, gpu: &Gpu, write: Write) {
        let _ = (gpu, write);
    }
}

/// The shader side of the GPU. A clone shares the engine and nothing else.
///
/// [The module](self#example) has an example with a program.
/// ```
/// use picajit::gpu::{Draw, Effect, Gpu, RegisterFile as Reg};
///
/// let mut gpu = Gpu::default();
/// assert!(matches!(gpu.write(Reg::NUMVERTICES, 3, 0xF), Effect::None));
/// assert_eq!(gpu.read(Reg::NUMVERTICES), 3);
/// assert!(matches!(gpu.write(Reg::DRAWARRAYS, 1, 0xF), Effect::Draw(Draw::Arrays)));
/// let savestate = gpu.state();
/// gpu.write(Reg::NUMVERTICES, 9, 0xF);
/// *gpu.state_mut() = savestate;
/// assert_eq!(gpu.read(Reg::NUMVERTICES), 3);
/// ```
// In this order, so that what each draw reads lies together: often it is in no near cache.
#[repr(C)]
pub struct Gpu {
    engine: Arc<Engine>,
    /// The engine's: without it, a draw would read the engine, too.
    cancel: CancelFlag,
    budget: Budget,
    diagnostics: Diagnostics,
    vertex: ProgramCache,
    /// The run that `state.vertex` lacks.
    deferred: DeferredRun,
    buffers: Buffers,
    /// What derives from the registers, until one of these changes.
    configuration: Option<DrawConfiguration>,
    state: State,
    geometry: ProgramCache,
    upload_stats: UploadStats,
}

impl Default for Gpu {
    fn default() -> Gpu {
        Gpu::new(Arc::default())
    }
}

impl Clone for Gpu {
    fn clone(&self) -> Gpu {
        Gpu {
            budget: Budget::new(self.budget.limits),
            diagnostics: self.diagnostics,
            vertex: self.vertex.clone(),
            deferred: self.deferred.clone(),
            geometry: self.geometry.clone(),
            upload_stats: self.upload_stats,
            ..Gpu::of(self.engine.clone(), self.state.clone())
        }
    }
}

impl Gpu {
    /// A GPU in its state at power-on, whose shaders `engine` compiles and runs.
    pub fn new(engine: Arc<Engine>) -> Gpu {
        Gpu::with_state(engine, State::default())
    }

    /// A GPU that continues from `state`. Programs are compiled again on demand. In float24 the float uniforms are
    /// rounded to that format.
    pub fn with_state(engine: Arc<Engine>, mut state: State) -> Gpu {
        state.set_precision(engine.precision());
        Gpu::of(engine, state)
    }

    /// A GPU that has drawn nothing.
    fn of(engine: Arc<Engine>, state: State) -> Gpu {
        Gpu {
            cancel: engine.cancel_flag().clone(),
            engine,
            budget: Budget::default(),
            diagnostics: Diagnostics::default(),
            vertex: ProgramCache::new(),
            deferred: DeferredRun::default(),
            buffers: Buffers::default(),
            configuration: None,
            state,
            geometry: ProgramCache::new(),
            upload_stats: UploadStats::default(),
        }
    }

    /// The engine that compiles and runs shaders.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Sets the most vertices of each draw and list from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.budget.limits = limits;
    }

    /// A copy of the whole state. [`Gpu::state_mut`] gives it without a copy, [`Gpu::read`] a register.
    pub fn state(&self) -> State {
        self.deferred.complete(&self.state)
    }

    /// The whole state, for any change. The next draw searches for the programs again. A whole state of
    /// another number format belongs in [`Gpu::with_state`]: it rounds the float uniforms, without which
    /// float24 takes twice the time ([`Uniforms::narrow`]).
    pub fn state_mut(&mut self) -> &mut State {
        self.vertex.words_changed();
        self.geometry.words_changed();
        self.configuration = None;
        self.deferred.run(&mut self.state.vertex);
        &mut self.state
    }

    /// Replaces the whole state. In float24 the float uniforms are rounded to that format.
    #[cfg(feature = "capi")]
    pub(crate) fn set_state(&mut self, mut state: State) {
        state.set_precision(self.engine.precision());
        *self.state_mut() = state;
    }

    /// The vertex format of the last draw, unless a register has changed that a draw depends on.
    #[cfg(feature = "capi")]
    pub(crate) fn vertex_format(&self) -> Option<&VertexFormat> {
        self.configuration.as_ref().map(|configuration| configuration.plan.format())
    }

    /// The cost of uploads since the GPU was created.
    pub fn upload_stats(&self) -> UploadStats {
        self.upload_stats
    }

    /// The uniforms of the vertex units.
    pub fn vertex_uniforms(&self) -> &Uniforms {
        &self.state.vertex.uniforms
    }

    /// Default attribute `n`, for vertices whose arrays do not supply it; zeros from 15 on.
    pub fn default_attribute(&self, n: usize) -> Vec4 {
        self.state.fixed.defaults.get(n).copied().unwrap_or_default()
    }

    /// The vertex that the last write completed ([`Effect::Vertex`]): attributes of immediate mode, then
    /// default attributes.
    #[inline]
    pub fn immediate_vertex(&self) -> &Attributes {
        &self.state.fixed.vertex
    }

    /// Reads register `id`. Index, data and end registers of uploads are 0. Entry points return
    /// only their existing bits (both measured: GBATEK). All other registers are as written.
    pub fn read(&self, id: u16) -> u32 {
        self.state.registers.read(id)
    }

    /// Writes registers of a command list until one has an [`Effect`], and returns that;
    /// [`Effect::None`] after the last write. A further call goes on after the write of the last one.
    /// The host handles jumps to other lists.
    pub fn write_list(&mut self, list: &mut Commands<'_>) -> Effect {
        // A copy, which the compiler can hold in registers.
        let mut writes = list.clone();
        let effect = self.write_all(&mut writes, |_, _| ());
        *list = writes;
        effect
    }

    #[inline]
    fn write_all(&mut self, writes: &mut impl Iterator<Item = Write>, mut wrote: impl FnMut(&Gpu, Write)) -> Effect {
        for write in writes {
            let effect = self.write(write.id, write.value, write.mask);
            wrote(self, write);
            if !matches!(effect, Effect::None) {
                return effect;
            }
        }
        Effect::None
    }

    /// Executes a command list: writes its registers and draws. Consecutive vertices of immediate
    /// mode are drawn together. Execution ends with the list; or with a draw, if the engine is
    /// cancelled or draws exceed the [`Limits`] of the list. The host handles jumps to other lists. A
    /// list that a callback executes shares the limit of the present one.
    pub fn execute(&mut self, list: &[u32], host: &mut impl Host) -> ListExit {
        let ends = self.budget.begin_list();
        // Also if a callback panics.
        let executing = ExecutingList { gpu: self, ends };
        executing.gpu.execute_writes(Commands::new(list), host)
    }

    fn execute_writes(&mut self, mut list: Commands<'_>, host: &mut impl Host) -> ListExit {
        let mut vertices = Vec::new();
        while self.list_exit().is_none() {
            match self.write_all(&mut list, |gpu, write| host.wrote(gpu, write)) {
                Effect::None => break,
                Effect::Draw(draw) => host.draw(self, draw),
                Effect::Vertex => {
                    let mut words = std::iter::from_fn(|| list.next_if(|id| Kind::of(id) == Kind::FixedData));
                    loop {
                        // `push` would copy it twice.
                        vertices.extend_from_slice(std::slice::from_ref(self.immediate_vertex()));
                        if self.write_all(&mut words, |gpu, write| host.wrote(gpu, write)) != Effect::Vertex {
                            break;
                        }
                    }
                    self.draw_immediate(&vertices, host);
                    vertices.clear();
                }
            }
        }
        self.list_exit().unwrap_or(ListExit::End)
    }

    /// Why the list ends before its last word.
    fn list_exit(&self) -> Option<ListExit> {
        if self.cancel.is_set() {
            return Some(ListExit::Cancelled);
        }
        self.budget.is_exceeded().then_some(ListExit::VertexLimit)
    }
}

/// A list in execution, and whether the budget ends with it.
struct ExecutingList<'a> {
    gpu: &'a mut Gpu,
    ends: bool,
}

impl Drop for ExecutingList<'_> {
    fn drop(&mut self) {
        if self.ends {
            self.gpu.budget.end_list();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
