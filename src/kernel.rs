//! What every engine offers: a [`Backend`] compiles an entry of a program to a [`Kernel`], and a kernel runs it.
//!
//! The contract that makes engines interchangeable: for the same program, entry, [`Config`], uniforms and unit, every
//! kernel leaves the same bits in the unit and the outputs (any NaN equals any NaN), emits the same triangles in the same
//! order, and returns the same [`Exit`]. This file must not know any engine.

use crate::isa::Pc;
use crate::isa::numeric::Precision;
use crate::layout::{Host, HostEmitter, Layout};
use crate::program::{Entry, Program};
pub use crate::state::copy_registers;
use crate::state::{Batch, EmitState, Emitter, Exit, Registers, Uniforms, Unit, VertexLayout};
use std::fmt;
use std::sync::Arc;

/// Backward transfers a run may take unless told otherwise.
pub const DEFAULT_FUEL: u32 = 65_536;

/// What changes the meaning of a run, or the code for it, and is therefore part of every cache key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Config {
    /// Number format of results.
    pub precision: Precision,
    /// Backward transfers (next pc not above pc) that one run may take; the one after these ends it with
    /// [`Exit::Fuel`], before the transfer is made.
    pub fuel: u32,
    /// Where the host keeps what is run on, if not in [`Unit`] and [`Uniforms`]. Changes no result: a kernel runs on any
    /// memory, and on memory of this layout without copying it.
    pub layout: Option<Layout>,
}

impl Default for Config {
    fn default() -> Config {
        Config { precision: Precision::default(), fuel: DEFAULT_FUEL, layout: None }
    }
}

/// Turns programs into kernels.
pub trait Backend: Send + Sync {
    /// A short name: `interp`, `vec4`, `unoptimised`.
    fn name(&self) -> &'static str;

    /// Compiles what `entry` reaches. An error is a reason to use another engine, not a fault of the program.
    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported>;
}

/// One entry of one program, ready to run. Immutable: many threads may run it at once, each on its own unit.
pub trait Kernel: Send + Sync {
    /// Runs one vertex (or one geometry invocation) on `unit`. In a vertex program `EMIT` and `SETEMIT` do nothing, and
    /// `emitter` is not called.
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit;

    /// Runs the vertices of `batch` one after the other on `unit`, as if each were loaded into `unit.v`, run, and its
    /// outputs copied away; on a copy of it, if [it is to stay](Batch::preserve_unit). All of them run; the result is the first exit
    /// that is not [`Exit::End`], if there is one.
    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> Exit {
        in_turn(unit, batch, |unit| self.run(uniforms, unit, emitter))
    }

    /// [`Kernel::run`] on a host's memory. The same results, also where the host keeps flags as other bytes than 0 and 1.
    fn run_on(&self, host: &Host<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        copied(host, emitter, |uniforms, unit, emitter| self.run(uniforms, unit, emitter))
    }

    /// [`Kernel::run_batch`] on a host's memory.
    fn run_batch_on(&self, host: &Host<'_>, batch: &mut Batch<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        batch_copied(host, batch, emitter, |uniforms, unit, batch, emitter| {
            self.run_batch(uniforms, unit, batch, emitter)
        })
    }

    /// The layout that it was compiled for; see [`Config::layout`].
    fn layout(&self) -> Option<&Layout> {
        None
    }

    /// What it has seen so far.
    fn stats(&self) -> KernelStats {
        KernelStats::default()
    }

    /// Bytes of memory it occupies, to the best of its knowledge: code, programs, tables. What a cache counts.
    fn held_bytes(&self) -> usize {
        self.native_bytes()
    }

    /// Bytes of native code; 0 for an interpreter.
    fn native_bytes(&self) -> usize {
        0
    }
}

/// Runs `work` on copies of a host's registers and uniforms, and puts the registers back.
// Kilobytes of stack, which whoever also has a faster way must not pay for.
#[inline(never)]
pub(crate) fn copied<T>(
    host: &Host<'_>,
    emitter: &mut dyn HostEmitter,
    work: impl FnOnce(&Uniforms, &mut Unit, &mut dyn Emitter) -> T,
) -> T {
    let (mut unit, uniforms) = host.load();
    let exit = work(&uniforms, &mut unit, &mut Sent(emitter));
    host.store(&unit);
    exit
}

/// The same for a batch, behind which the registers may have to be as they were, to the byte.
#[inline(never)]
pub(crate) fn batch_copied(
    host: &Host<'_>,
    batch: &mut Batch<'_>,
    emitter: &mut dyn HostEmitter,
    work: impl FnOnce(&Uniforms, &mut Unit, &mut Batch<'_>, &mut dyn Emitter) -> Exit,
) -> Exit {
    let (mut unit, uniforms) = host.load();
    let exit = work(&uniforms, &mut unit, batch, &mut Sent(emitter));
    if !batch.preserve_unit {
        host.store(&unit);
    }
    exit
}

/// Hands each `EMIT` on to a host that keeps its own slots.
struct Sent<'a>(&'a mut dyn HostEmitter);

impl Emitter for Sent<'_> {
    fn vertex(&mut self, outputs: &Registers, how: EmitState) {
        self.0.emit(outputs, how);
    }
    fn triangle(&mut self, _: [&Registers; 3], _: bool) {}
}

/// What a kernel has seen so far. Counters stop or wrap where it no longer matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Runs of one vertex that met something rare (infinities, NaN, in float24 numbers that are none) and were run
    /// again by exact code.
    pub deoptimised: u32,
    /// Interleave of vertices that ran side by side.
    pub groups: u32,
    /// Interleave that were given up, because vertices disagreed on a branch or met something rare, and run one by one.
    pub bailouts: u32,
    /// Why batches run one vertex after the other, if that is so and known.
    pub sequential_reason: Option<String>,
}

/// Runs the vertices of a batch one after the other, as [`Kernel::run_batch`] has it.
#[inline]
pub(crate) fn in_turn(unit: &mut Unit, batch: &mut Batch<'_>, run: impl FnMut(&mut Unit) -> Exit) -> Exit {
    if batch.preserve_unit { on_copy(unit, |unit| each(unit, batch, run)) } else { each(unit, batch, run) }
}

/// Runs `work` on a copy of a unit, which stays as it is.
// Kilobytes of stack, as above.
#[inline(never)]
pub(crate) fn on_copy<T>(unit: &Unit, work: impl FnOnce(&mut Unit) -> T) -> T {
    work(&mut unit.clone())
}

#[inline]
fn each(unit: &mut Unit, batch: &mut Batch<'_>, mut run: impl FnMut(&mut Unit) -> Exit) -> Exit {
    if batch.layout == VertexLayout::Soa {
        return each_by_components(unit, batch, run);
    }
    let (count, taken, wanted) = (batch.len(), batch.inputs_taken(), batch.outputs_wanted());
    let (input_stride, output_stride) = (batch.inputs.stride(), batch.outputs.stride());
    // Not by number: a batch of one would notice the multiplications.
    let (mut inputs, mut outputs) = (batch.inputs.registers(), batch.outputs.registers());
    let mut result = Exit::End;
    for _ in 0..count {
        let (input, output);
        (input, inputs) = inputs.split_at(input_stride);
        (output, outputs) = outputs.split_at_mut(output_stride);
        copy_registers(taken, input, &mut unit.v);
        let exit = run(unit);
        copy_registers(wanted, unit.outputs(), output);
        if result == Exit::End {
            result = exit;
        }
    }
    result
}

/// The same of vertices that lie by components.
#[inline(never)]
fn each_by_components(unit: &mut Unit, batch: &mut Batch<'_>, mut run: impl FnMut(&mut Unit) -> Exit) -> Exit {
    let mut result = Exit::End;
    for n in 0..batch.len() {
        batch.take(n, &mut unit.v);
        let exit = run(unit);
        batch.give(n, u16::MAX, unit.outputs());
        if result == Exit::End {
            result = exit;
        }
    }
    result
}

/// Why a backend can't serve a program. The interpreter always can.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unsupported {
    /// The build has no JIT, or it is for another architecture, or the CPU lacks what the code needs.
    HostIsa {
        /// What is missing.
        missing: &'static str,
    },
    /// The system gave no memory, or did not let it become executable.
    NoExecMemory {
        /// What the system said.
        error: std::io::ErrorKind,
    },
    /// The program's scopes multiply beyond the limit on blocks.
    TooManyStates {
        /// The limit.
        limit: usize,
        /// Where the exploration stood.
        pc: Pc,
    },
    /// The program has more blocks than code is generated for.
    TooManyBlocks {
        /// The limit.
        limit: usize,
        /// How many there are.
        blocks: usize,
    },
    /// It is a geometry program, and the host's layout has no place for what these change.
    NoGeometry,
    /// The code generator refused; a bug worth reporting.
    Codegen {
        /// Its words.
        message: String,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::HostIsa { missing } => write!(f, "this host can't run native code: {missing}"),
            Unsupported::NoExecMemory { error } => write!(f, "the system gives no executable memory: {error}"),
            Unsupported::TooManyStates { limit, pc } => {
                write!(f, "control flow has more than {limit} states (at pc {pc})")
            }
            Unsupported::TooManyBlocks { limit, blocks } => {
                write!(f, "control flow has {blocks} blocks, more than {limit}")
            }
            Unsupported::NoGeometry => {
                f.write_str("the host's layout has no place for what geometry programs change (`geometry`)")
            }
            Unsupported::Codegen { message } => write!(f, "the code generator refused: {message}"),
        }
    }
}

impl std::error::Error for Unsupported {}
