//! A program's entry -> machine code: host, settings, the pipeline with its times.
//!
//! The only user of Cranelift. [`Jit`] is a [`Backend`]; each of its variants reads the same words and must give the
//! interpreter's bits. Stages are files: [`crate::ir`] up to SSA, `lower` (with `memory`, `math`, `elementary`,
//! `narrow`, `shape`, `arm`, `dots`, `speculate`) to CLIF, Cranelift to machine code (`target` says for which CPU, `generator`
//! drives all this), `code` to executable memory.

mod abi;
mod arm;
mod code;
mod dots;
mod elementary;
mod generator;
mod lower;
mod math;
mod memory;
mod narrow;
mod shape;
mod speculate;
mod target;

use crate::ir::cfg::Limits;
use crate::ir::{Func, Node};
use crate::isa::numeric::Precision;
use crate::kernel::{Backend, Config, Kernel, Unsupported, copy_registers};
use crate::program::{Entry, Program};
use crate::state::{Batch, Emitter, Exit, Uniforms, Unit};
use code::{Code, CodeMemory};
use cranelift_codegen::Context;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};
use generator::{Generator, Scratch};
use math::Care;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub use generator::Stages;
#[cfg(feature = "targets")]
pub use generator::explain_for;
#[cfg(feature = "targets")]
pub use target::Target;
pub use target::{Allocator, Cpu, Settings};

/// Which code is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// One vertex, registers in SIMD registers.
    Vec4,
    /// The same lowering with every register in memory, stored after each instruction, always multiplying exactly: the
    /// second witness in tests, and the yardstick in benchmarks, because most engines work so.
    Unoptimised,
}

/// Compiles programs to native code.
pub struct Jit {
    generator: Generator,
    /// Allocations that compiling can use again.
    scratch: Mutex<Vec<Scratch>>,
    memory: fn() -> CodeMemory,
    /// What serves a run that must be redone when there is no memory for the exact code.
    last_resort: Arc<dyn Backend>,
}

/// How long each stage of a compilation took, and what came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// Words to blocks.
    pub cfg: Duration,
    /// Blocks to simplified SSA.
    pub ssa: Duration,
    /// SSA to CLIF.
    pub lower: Duration,
    /// CLIF to machine code.
    pub codegen: Duration,
    /// Machine code to executable memory.
    pub install: Duration,
}

impl Timings {
    /// All stages together.
    pub fn total(&self) -> Duration {
        self.cfg + self.ssa + self.lower + self.codegen + self.install
    }
}

/// One entry as native code.
pub struct NativeKernel {
    /// The code that runs first.
    code: Code,
    /// Whether `code` speculates and may ask to be redone.
    speculates: bool,
    /// The exact code, compiled when it is first asked for, or the interpreter if that fails.
    exact: OnceLock<Result<Code, Unsupported>>,
    /// What to compile it from.
    source: Source,
    redos: AtomicU32,
    /// The `v` registers that the code reads; bit n is `vn`.
    reads: u16,
    timings: Timings,
    blocks: usize,
}

struct Source {
    jit: Arc<Jit>,
    func: Func,
    program: Arc<Program>,
    entry: Entry,
    config: Config,
}

/// After this many redone runs a kernel stops speculating, for good: what it is given really holds infinities or NaN,
/// or, in float24, numbers that are none.
const MAX_REDOS: u32 = 4096;

impl Jit {
    /// A JIT for this host. The first of a process takes a millisecond to warm up. `last_resort` must never fail to
    /// compile; the interpreter doesn't. It serves a run that has to be redone when the system gives no memory for the
    /// exact code any more.
    ///
    /// Fails with [`Unsupported::HostIsa`] where no native code can be made.
    pub fn new(variant: Variant, last_resort: Arc<dyn Backend>) -> Result<Arc<Jit>, Unsupported> {
        Jit::with(variant, Settings::default(), last_resort)
    }

    /// [`Jit::new`] with code made in another way, for tests.
    pub fn with(variant: Variant, settings: Settings, last_resort: Arc<dyn Backend>) -> Result<Arc<Jit>, Unsupported> {
        let jit = Jit {
            generator: Generator { isa: target::host(settings)?, variant, limits: Limits::default() },
            scratch: Mutex::default(),
            memory: CodeMemory::default,
            last_resort,
        };
        let jit = Arc::new(jit);
        // The first compilation of a process costs several times as much as the next, for pages that nobody has touched
        // yet. Better here than at a game's first shader; it does not matter if it fails.
        static WARM: AtomicBool = AtomicBool::new(false);
        if !WARM.swap(true, Ordering::Relaxed)
            && let Ok(tiny) = Program::from_words(&[0x4C00_0000, 0x8800_0000], &[0x36F])
        {
            let _ = jit.compile_native(&Arc::new(tiny), Entry::vertex(0), &Config::default());
        }
        Ok(jit)
    }

    /// Compiles what `entry` reaches.
    pub fn compile_native(
        self: &Arc<Jit>,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<NativeKernel, Unsupported> {
        let mut timings = Timings::default();
        let (blocks, func) = self.generator.ssa(program, entry, config, &mut timings)?;
        let care = self.generator.care(&func, config.precision);
        let code = self.native(&func, care, config.precision, &mut timings)?;
        let input = |mask, node: &Node| if let Node::Input(n) = node { mask | 1 << n } else { mask };
        Ok(NativeKernel {
            code,
            reads: func.nodes.iter().fold(0, input),
            speculates: care == Care::Speculate,
            exact: OnceLock::new(),
            source: Source { jit: self.clone(), func, program: program.clone(), entry, config: *config },
            redos: AtomicU32::new(0),
            timings,
            blocks,
        })
    }

    /// Compiles what `entry` reaches and prints every stage on the way.
    pub fn explain(&self, program: &Program, entry: Entry, config: &Config) -> Result<Stages, Unsupported> {
        self.generator.explain(program, entry, config)
    }

    fn native(
        &self,
        func: &Func,
        care: Care,
        precision: Precision,
        timings: &mut Timings,
    ) -> Result<Code, Unsupported> {
        let pool = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = pool().pop().unwrap_or_default();
        let start = Instant::now();
        self.generator.lower(func, care, precision, &mut scratch);
        timings.lower = start.elapsed();
        let code = self.install(&mut scratch.context, func.emits(), timings);
        pool().push(scratch);
        code
    }

    fn install(&self, context: &mut Context, emits: bool, timings: &mut Timings) -> Result<Code, Unsupported> {
        let start = Instant::now();
        let memory = (self.memory)();
        let refused = |e: ModuleError| match memory.refusal() {
            Some(error) => Unsupported::NoExecMemory { error },
            None => Unsupported::Codegen { message: e.to_string() },
        };
        let mut builder = JITBuilder::with_isa(self.generator.isa.clone(), cranelift_module::default_libcall_names());
        builder.memory_provider(Box::new(memory.clone()));
        let mut module = JITModule::new(builder);
        let id = module.declare_anonymous_function(&context.func.signature).map_err(refused)?;
        debug_assert!(module.declarations().get_function_decl(id).linkage == Linkage::Local);
        module.define_function(id, context).map_err(refused)?;
        let len = context.compiled_code().map_or(0, |c| c.code_buffer().len());
        timings.codegen = start.elapsed();
        let start = Instant::now();
        module.finalize_definitions().map_err(refused)?;
        let entry = module.get_finalized_function(id);
        drop(module);
        let code = memory
            .into_code(entry, len, emits)
            .ok_or_else(|| Unsupported::Codegen { message: "the function is not in its memory".into() });
        timings.install = start.elapsed();
        code
    }
}

impl Backend for Arc<Jit> {
    fn name(&self) -> &'static str {
        match self.generator.variant {
            Variant::Vec4 => "vec4",
            Variant::Unoptimised => "unoptimised",
        }
    }

    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Ok(Arc::new(self.compile_native(program, entry, config)?))
    }
}

impl NativeKernel {
    /// How long compiling took.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Blocks of the control-flow graph.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// How many runs were redone by exact code.
    pub fn redos(&self) -> u32 {
        self.redos.load(Ordering::Relaxed)
    }

    fn run_with(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        inputs: Option<&crate::state::Registers>,
        uniforms_seen: &mut bool,
        emitter: &mut dyn Emitter,
    ) -> Exit {
        let speculate = !self.speculates || self.redos.load(Ordering::Relaxed) < MAX_REDOS;
        if speculate && let Some(exit) = self.code.run(uniforms, unit, inputs, *uniforms_seen, emitter) {
            *uniforms_seen = true;
            return exit;
        }
        self.redo(uniforms, unit, inputs, emitter)
    }

    #[cold]
    fn redo(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        inputs: Option<&crate::state::Registers>,
        emitter: &mut dyn Emitter,
    ) -> Exit {
        self.redos.fetch_add(u32::from(self.redos() < MAX_REDOS), Ordering::Relaxed);
        let s = &self.source;
        let exact =
            self.exact.get_or_init(|| s.jit.native(&s.func, Care::Exact, s.config.precision, &mut Timings::default()));
        if let Ok(code) = exact
            && let Some(exit) = code.run(uniforms, unit, inputs, false, emitter)
        {
            return exit;
        }
        let kernel = s.jit.last_resort.compile(&s.program, s.entry, &s.config);
        let kernel = kernel.expect("the last resort compiles everything");
        // It reads inputs in the unit only. They are lent for the run: the batch's mask may leave registers out.
        let own = unit.v;
        unit.v = *inputs.unwrap_or(&own);
        let exit = kernel.run(uniforms, unit, emitter);
        unit.v = own;
        exit
    }
}

impl Kernel for NativeKernel {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        self.run_with(uniforms, unit, None, &mut false, emitter)
    }

    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> Exit {
        let mut result = Exit::End;
        let mut uniforms_seen = false;
        let pairs = batch.inputs.iter().zip(batch.outputs.iter_mut());
        let last = pairs.len().wrapping_sub(1);
        for (n, (input, output)) in pairs.enumerate() {
            // If the batch has all that the code reads, it is read there; only the last inputs must be in the unit.
            let whole = self.reads & !batch.input_mask == 0;
            if !whole || n == last {
                copy_registers(batch.input_mask, input, &mut unit.v);
            }
            let exit = self.run_with(uniforms, unit, whole.then_some(input), &mut uniforms_seen, emitter);
            copy_registers(batch.output_mask, unit.outputs(), output);
            if result == Exit::End {
                result = exit;
            }
        }
        result
    }

    fn held_bytes(&self) -> usize {
        // Code in whole pages, twice where an exact kernel may follow, and what it would be compiled from.
        let code = self.code.len().next_multiple_of(4096) * if self.speculates { 2 } else { 1 };
        let Source { func, program, .. } = &self.source;
        let insts: usize = func.blocks.iter().map(|b| size_of_val(&*b.insts) + size_of_val(b)).sum();
        code + insts + size_of_val(&*func.nodes) + program.bytes() + size_of::<Self>()
    }

    fn native_bytes(&self) -> usize {
        self.code.len() + self.exact.get().and_then(|e| e.as_ref().ok()).map_or(0, Code::len)
    }
}

#[cfg(test)]
mod tests;
