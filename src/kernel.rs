//! The interface of every backend: a [`Backend`] compiles an entry of a program to a [`Kernel`],
//! and a kernel runs it.
//!
//! The contract that makes backends interchangeable: for the same program, entry, [`Config`],
//! uniforms and unit, every kernel leaves the same bits in the unit and the outputs (any NaN equals
//! any NaN), emits the same triangles in the same order, and returns the same [`Exit`].
//! [`Exit::Cancelled`] is the exception: when a run notices depends on the backend, and registers
//! are then unspecified.

pub(crate) mod cancel;
pub(crate) mod direct;
mod fallback;
mod units;

use crate::isa::flow::MAX_FUEL;
use crate::isa::numeric::Precision;
use crate::isa::{MAX_CODE_WORDS, Pc, Stage};
use crate::layout::{HostEmitter, HostMemory, Layout};
use crate::program::{Entry, Program};
pub use crate::state::copy_registers;
use crate::state::{Batch, BatchExit, Emitter, Exit, Uniforms, Unit};
use direct::DirectFunctions;
pub use fallback::WithFallback;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use units::run_in_order;
#[doc(hidden)]
pub use units::{OnUnits, UnitKernel};

/// The default of [the fuel](field@Config::fuel). No real program comes near it.
///
/// A vertex run takes at most 100 ms with it on any engine. A geometry run takes less than a second on
/// tier 0; its fuel lasts for 40 words for each of 96,000 triangles, which a program is known to emit in
/// one run on a console.
pub const fn default_fuel(stage: Stage) -> u32 {
    match stage {
        Stage::Vertex => 1 << 18,
        Stage::Geometry => 1 << 22,
    }
}

/// The most words that a run with the default fuel executes: fuel is tested at backward transfers, so
/// a run exceeds it by the words of the program at most.
pub(crate) const fn most_words(stage: Stage) -> u64 {
    default_fuel(stage) as u64 + MAX_CODE_WORDS as u64
}

/// Options that change the meaning of a run or its code. They are part of every cache key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Config {
    /// Number format of results.
    pub precision: Precision,
    /// Words that a run may execute. A run that has executed more ends at its next backward transfer,
    /// with [`Exit::Fuel`]. Values above 2^30 count as 2^30.
    pub fuel: u32,
    /// The host's layout of registers and uniforms, if it is not that of [`Unit`] and [`Uniforms`].
    /// Changes no result: a kernel runs on memory of any layout, and on memory of this one without
    /// copying.
    pub layout: Option<Layout>,
}

impl Default for Config {
    /// The defaults of a vertex entry.
    fn default() -> Config {
        Config::of(Stage::Vertex)
    }
}

impl Config {
    /// The defaults of an entry of `stage`.
    pub const fn of(stage: Stage) -> Config {
        Config { precision: Precision::F32, fuel: default_fuel(stage), layout: None }
    }

    /// The fuel that engines count with.
    pub(crate) fn fuel(&self) -> u32 {
        self.fuel.min(MAX_FUEL)
    }
}

/// Compiles programs to kernels.
pub trait Backend: Send + Sync {
    /// A short name: `interp`, `vec4`, `batch`, `unoptimised`.
    fn name(&self) -> &'static str;

    /// Compiles what `entry` reaches, to a kernel that serves every run. An error means that another
    /// backend must serve the program, not that the program is invalid.
    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported>;
}

/// One entry of one program, ready to run. Immutable: many threads may run it at once, each on its
/// own unit.
pub trait Kernel: Send + Sync {
    /// Runs one vertex (or one geometry invocation). In a vertex program `EMIT` and `SETEMIT` do
    /// nothing, and `emitter` is not called. `None`: the kernel does not serve this run. It has
    /// written and emitted nothing, and another kernel must run.
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit>;

    /// Runs all vertices of `batch`. The result is as if they ran in order: load a vertex into the
    /// unit's `v`, run, copy its outputs away. With [`Batch::preserve_unit`] they run on a copy of
    /// the unit. The batch ends at the first vertex that runs out of fuel, or is cancelled. `next`
    /// gives the kernel for vertices that this one does not serve.
    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        next: &dyn NextKernel,
    ) -> BatchExit {
        let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
        let preserve = batch.preserve_unit;
        let mut in_order = || {
            let mut result = BatchExit::NONE;
            for n in 0..batch.len() {
                memory.take_inputs(taken, &batch.inputs[n]);
                let exit = self.run_on(memory, emitter).or_else(|| next.kernel().run_on(memory, emitter));
                memory.copy_outputs(wanted, &mut batch.outputs[n]);
                if !result.count(exit.expect("the next kernel serves every run")) {
                    break;
                }
            }
            result
        };
        if preserve { memory.preserving_unit(in_order) } else { in_order() }
    }

    /// [`Kernel::run_on`] a unit, whose slots receive what it emits. Panics if the kernel does not
    /// serve the run. Those of [`Backend::compile`] serve every run.
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        HostMemory::with_unit(uniforms, unit, emitter, false, |memory, emitter| self.run_on(memory, emitter))
            .expect("the kernel serves every run")
    }

    /// [`Kernel::run_batch_on`] a unit. Panics like [`Kernel::run`].
    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        HostMemory::with_unit(uniforms, unit, emitter, batch.preserve_unit, |memory, emitter| {
            self.run_batch_on(memory, batch, emitter, &NoNextKernel)
        })
    }

    /// [`Config::layout`] of its compilation.
    fn layout(&self) -> Option<&Layout> {
        None
    }

    /// The code with which it now serves a run, if that code needs nothing but registers and
    /// uniforms.
    #[doc(hidden)]
    fn direct_functions(&self) -> DirectFunctions {
        DirectFunctions::default()
    }

    /// Counters of its runs, over all threads.
    fn stats(&self) -> KernelStats {
        KernelStats::default()
    }

    /// How long compiling its first code took; zero for an interpreter.
    #[doc(hidden)]
    fn compile_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Bytes of memory it occupies, approximately: code, programs, tables. Caches count these.
    fn held_bytes(&self) -> usize {
        self.native_bytes()
    }

    /// Bytes of native code; 0 for an interpreter.
    fn native_bytes(&self) -> usize {
        0
    }
}

/// Gives the kernel that serves what another one does not.
pub trait NextKernel: Send + Sync {
    /// The kernel, which serves every run. It may be made now.
    fn kernel(&self) -> &dyn Kernel;
}

/// For kernels that serve every run.
pub(crate) struct NoNextKernel;

impl NextKernel for NoNextKernel {
    fn kernel(&self) -> &dyn Kernel {
        panic!("the kernel serves every run");
    }
}

/// Counters of a kernel's runs. They saturate or wrap at values where the exact count no longer
/// matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Single-vertex runs that deoptimised: they met an infinity or NaN (with float24 also a value
    /// outside the format), and exact code ran them again.
    pub deoptimised: u32,
    /// Groups of vertices that batch code has run.
    pub groups: u32,
    /// Groups that bailed out, because of a divergent branch or a failed guard. Their vertices ran
    /// sequentially.
    pub bailouts: u32,
    /// The places at which groups may bail out, with the bailouts counted there; see
    /// [`Settings::count_bailouts`](crate::jit::Settings). Empty without batch code.
    pub bailout_reasons: Vec<(&'static str, u32)>,
    /// Sets of components that some vertices of a batch write and others keep, in batch code.
    pub kept_sets: u32,
    /// Components of outputs in these sets.
    pub kept_outputs: u32,
    /// Why batches run sequentially, if they do and the reason is known.
    pub sequential_reason: Option<String>,
}

/// Why a backend can't compile a program. The interpreter compiles every program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unsupported {
    /// The build has no JIT, the JIT does not support the architecture, or the CPU lacks an
    /// instruction set extension.
    HostIsa {
        /// What is missing.
        missing: &'static str,
    },
    /// The system provides no memory, or does not make it executable; or the memory that the host lends
    /// has no room.
    NoExecMemory {
        /// The system's error, or that of [`ExecutableMemory::install`](crate::executable::ExecutableMemory).
        /// `InvalidData`: the host's address is no multiple of 64.
        error: std::io::ErrorKind,
        /// Whether the memory is the host's.
        lent: bool,
    },
    /// The process has too little memory left to compile.
    NoMemory {
        /// What a compilation may take.
        bytes: usize,
    },
    /// The thread that would compile has too small a stack.
    SmallStack {
        /// Bytes that are left of it.
        left: usize,
        /// Bytes that a compilation may take.
        needed: usize,
    },
    /// Nested scopes give control flow more `(pc, scopes)` states than the limit.
    TooManyStates {
        /// The limit.
        limit: usize,
        /// The address at which exploration reached the limit.
        pc: Pc,
    },
    /// Control flow has more blocks than the limit.
    TooManyBlocks {
        /// The limit.
        limit: usize,
        /// The number of blocks.
        blocks: usize,
    },
    /// Native code would have more instructions of CLIF, the code generator's input, than the limit.
    TooMuchCode {
        /// The limit.
        limit: usize,
        /// The number of instructions, at most.
        estimate: usize,
    },
    /// The entry is a geometry program, and the host's layout has no offsets for the state that
    /// `SETEMIT` changes.
    NoGeometry,
    /// The code generator failed: a bug in picajit.
    Codegen {
        /// Its error message.
        message: String,
    },
}

impl Unsupported {
    /// A few words, the same for every program of the kind: to count by.
    #[doc(hidden)]
    pub fn name(&self) -> &'static str {
        match self {
            Unsupported::HostIsa { .. } => "host",
            Unsupported::NoExecMemory { .. } => "no executable memory",
            Unsupported::NoMemory { .. } => "no memory",
            Unsupported::SmallStack { .. } => "a small stack",
            Unsupported::TooManyStates { .. } => "too many states",
            Unsupported::TooManyBlocks { .. } => "too many blocks",
            Unsupported::TooMuchCode { .. } => "too much code",
            Unsupported::NoGeometry => "layout without geometry",
            Unsupported::Codegen { .. } => "code generator",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::HostIsa { missing } => write!(f, "this host can't run native code: {missing}"),
            Unsupported::NoExecMemory { error, lent: false } => {
                write!(f, "the system gives no executable memory: {error}")
            }
            Unsupported::NoExecMemory { error: std::io::ErrorKind::InvalidData, lent: true } => {
                f.write_str("the memory that the host lends is misaligned; help: `install` returns a multiple of 64")
            }
            Unsupported::NoExecMemory { error, lent: true } => {
                write!(f, "the memory that the host lends has no room: `install` failed: {error}")
            }
            Unsupported::NoMemory { bytes } => write!(f, "there are no {} MiB of memory to compile", bytes >> 20),
            Unsupported::SmallStack { left, needed } => {
                let [left, needed] = [left, needed].map(|bytes| bytes >> 10);
                write!(f, "{left} KiB of the thread's stack are left, and compiling takes {needed} KiB")
            }
            Unsupported::TooManyStates { limit, pc } => {
                write!(f, "control flow has more than {limit} states (at pc {pc})")
            }
            Unsupported::TooManyBlocks { limit, blocks } => {
                write!(f, "control flow has {blocks} blocks, more than {limit}")
            }
            Unsupported::TooMuchCode { limit, estimate } => {
                write!(f, "native code would have some {estimate} instructions, more than {limit}")
            }
            Unsupported::NoGeometry => {
                f.write_str("the host's layout has no place for what geometry programs change (`geometry`)")
            }
            Unsupported::Codegen { message } => write!(f, "the code generator refused: {message}"),
        }
    }
}

impl std::error::Error for Unsupported {}
