//! A program's entry -> native code: the one user of Cranelift.
//!
//! Each [`Variant`] of a [`Jit`] compiles the same words, and its code gives the
//! interpreter's bits. One compilation is a straight pipe, [`Jit::compile_native`]:
//!
//! | stage | from -> to | in |
//! |---|---|---|
//! | cfg | words -> states -> blocks | [`crate::ir::cfg`] |
//! | ssa | blocks -> simplified SSA | `ir` |
//! | plan | SSA -> what code multiplies, when it runs groups | `codegen`, `batch::policy` |
//! | clif | SSA -> CLIF | `vertex`, `batch`, both on `emit` |
//! | install | CLIF -> machine code in executable memory | `runtime` |
//! | kernel | code -> runs | `runtime::kernel` |
//!
//! Folders import downward only: `abi <- emit <- vertex, batch <- runtime`, `profile` <- this file.

mod abi;
mod batch;
mod codegen;
mod emit;
mod profile;
mod runtime;
mod settings;
mod stages;
mod target;
mod vertex;

use crate::background::Queue;
use crate::executable::ExecutableMemory;
use crate::headroom;
use crate::ir::analysis::{Dependence, RegisterUse};
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::{Block, Func};
use crate::kernel::cancel::CancelFlag;
use crate::kernel::{Backend, Config, Unsupported, WithFallback};
use crate::profiler::ProfilerError;
use crate::program::{Entry, Program};
use abi::Stores;
use batch::policy::{BatchPlan, BatchVariant, Thresholds};
use codegen::{CodeGenerator, Scratch};
use emit::Products;
use profile::Profile;
use runtime::call::{Code, Needs};
use runtime::code_memory::CodeMemory;
use runtime::install::install;
use runtime::lazy_code::{BatchCode, LazyCode, OutputsCode, Recompiler};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub use batch::policy::{BatchShape, NoBatchCode};
#[cfg(feature = "targets")]
pub use codegen::explain_for;
pub use runtime::kernel::NativeKernel;
#[doc(hidden)]
pub use runtime::lazy_code::LazyKind;
pub use settings::{Allocator, Cpu, Interleave, Settings, Variant};
pub use stages::{Stages, Timings};
#[cfg(feature = "targets")]
pub use target::Target;

/// Compiles programs to native code.
pub struct Jit {
    generator: CodeGenerator,
    /// Memory for one function, where the host provides none.
    memory: fn() -> CodeMemory,
    host: HostServices,
    /// Set after the warm-up, of which no profiler should hear.
    profile: OnceLock<Profile>,
}

/// What a host provides to a JIT.
#[derive(Clone, Default)]
pub struct HostServices {
    /// Where to leave compilations that a run can do without: batch code, and code for what is
    /// rare. Without a queue, or once its threads have ended, the run that wants the code compiles
    /// it.
    pub queue: Option<Queue>,
    /// Executable memory. Without it the JIT maps pages of its own.
    pub memory: Option<Arc<dyn ExecutableMemory>>,
    /// Ends runs. Code has its address, and each kernel owns this JIT.
    pub(crate) cancel: CancelFlag,
}

impl Jit {
    /// A JIT for this host. The first of a process takes a millisecond to warm up.
    ///
    /// Fails with [`Unsupported::HostIsa`] where no native code can be made.
    pub fn new(variant: Variant) -> Result<Arc<Jit>, Unsupported> {
        Jit::with(variant, Settings::default())
    }

    /// [`Jit::new`] with other settings.
    pub fn with(variant: Variant, settings: Settings) -> Result<Arc<Jit>, Unsupported> {
        Jit::hosted(variant, settings, HostServices::default())
    }

    /// [`Jit::with`] services of the host.
    pub fn hosted(variant: Variant, settings: Settings, host: HostServices) -> Result<Arc<Jit>, Unsupported> {
        let isa = target::host(&settings)?;
        let profiler = settings.profiler.clone();
        let generator = CodeGenerator { isa, variant, settings, limits: Limits::default() };
        let profile = OnceLock::new();
        let jit = Arc::new(Jit { generator, memory: CodeMemory::default, host, profile });
        // The first compilation of a process costs several times as much as the next: it touches
        // new pages. Better here than at a game's first shader; it does not matter if it fails.
        static WARM: AtomicBool = AtomicBool::new(false);
        if !WARM.swap(true, Ordering::Relaxed)
            && let Ok(tiny) = Program::from_words(&[0x4C00_0000, 0x8800_0000], &[0x36F])
        {
            let _ = jit.compile_native(&Arc::new(tiny), Entry::vertex(0), &Config::default());
        }
        jit.profile.get_or_init(|| Profile::open(&profiler));
        Ok(jit)
    }

    /// Calls `handler` with the reason why the profiler of the [`Settings`] does not hear of code,
    /// if there is one: once, now or when it turns out. Only the first handler counts.
    pub fn on_profiler_error(&self, handler: impl Fn(&ProfilerError) + Send + Sync + 'static) {
        if let Some(profile) = self.profile.get() {
            profile.on_problem(Box::new(handler));
        }
    }

    /// Compiles what `entry` reaches.
    pub fn compile_native(
        self: &Arc<Jit>,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<NativeKernel, Unsupported> {
        self.compile_graph(|limits| Cfg::build(program, entry, limits), program, entry, config)
    }

    /// [`Jit::compile_native`] from the graph of `entry` that `build` gives, within
    /// [`Limits::default`].
    pub(crate) fn compile_graph(
        self: &Arc<Jit>,
        build: impl FnOnce(Limits) -> Result<Cfg, Unsupported>,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
    ) -> Result<NativeKernel, Unsupported> {
        check_headroom()?;
        let mut timings = Timings::default();
        let cfg = self.generator.cfg(build, entry, config, &mut timings)?;
        let func = self.generator.ssa(&cfg, config, &mut timings);
        let products = self.generator.products(&func, config.precision);
        let thresholds = match self.generator.variant {
            Variant::Batch => Thresholds::new(&func, &self.generator.settings),
            Variant::Vec4 | Variant::Unoptimised => Thresholds::NEVER,
        };
        let registers = RegisterUse::new(&cfg);
        let source = Source { jit: self.clone(), func, registers, program: program.clone(), entry, config: *config };
        let code = source.vertex_code(&source.func, products, Stores::Unit, &mut timings)?;
        // The kernel keeps a copy: the vectors of the original have the capacity that the function took before
        // simplification.
        let source = Source { func: source.func.clone(), ..source };
        Ok(NativeKernel {
            code,
            speculates: products == Products::Speculative,
            thresholds,
            groups: AtomicU32::new(0),
            bailouts: AtomicU32::new(0),
            reads: source.func.inputs_read(),
            has_outputs_code: self.generator.has_outputs_code(&source.func),
            layout: config.layout,
            timings,
            blocks: cfg.blocks.len(),
            cancel: self.host.cancel.clone(),
            lazy: LazyCode::new(Box::new(source), self.host.queue.clone(), &self.host.cancel),
        })
    }

    /// Compiles what `entry` reaches and prints every stage. Of [`Variant::Batch`] it is the batch
    /// code, if vertices are independent.
    pub fn explain(&self, program: &Program, entry: Entry, config: &Config) -> Result<Stages, NoBatchCode> {
        self.generator.explain(program, entry, config)
    }

    fn code_memory(&self) -> CodeMemory {
        match &self.host.memory {
            Some(host) => CodeMemory::of(host.clone()),
            None => (self.memory)(),
        }
    }
}

/// Whether a compilation may begin on this thread: the code generator aborts the process if memory or stack
/// runs out, where tier 0 can serve the run.
fn check_headroom() -> Result<(), Unsupported> {
    /// What a compilation within its limits allocates, at most (`cargo bench --bench worst-compilation`).
    const MEMORY: usize = 32 << 20;
    /// The stack that it takes, with room: `jit-tests/capi/small_stack.c` compiles with little more.
    const STACK: usize = 400 << 10;
    if let Some(left) = headroom::stack().filter(|&left| left < STACK) {
        return Err(Unsupported::SmallStack { left, needed: STACK });
    }
    if headroom::has_memory(MEMORY) { Ok(()) } else { Err(Unsupported::NoMemory { bytes: MEMORY }) }
}

/// What all code of a kernel is compiled from.
struct Source {
    jit: Arc<Jit>,
    func: Func,
    registers: RegisterUse,
    program: Arc<Program>,
    entry: Entry,
    config: Config,
}

impl Source {
    /// Code for one vertex: clif, install.
    fn vertex_code(
        &self,
        func: &Func,
        products: Products,
        stores: Stores,
        timings: &mut Timings,
    ) -> Result<Code, Unsupported> {
        check_headroom()?;
        let generator = &self.jit.generator;
        generator.check_size(func, products, &self.config)?;
        let (start, mut scratch) = (Instant::now(), Scratch::new(&self.jit.host.cancel));
        generator.vertex_clif(func, products, stores, &self.config, &mut scratch);
        timings.lower = start.elapsed();
        let (kind, emits) = (profile::kind(generator.variant, products, stores), self.func.emits());
        self.install(&mut scratch, kind, emits, [1, 0], timings)
    }

    /// Installs the function in `scratch`, `kind` in profiles. Whether its frame is one of code that
    /// emits; its vertices come in multiples of `step`, with this many written masks.
    fn install(
        &self,
        scratch: &mut Scratch,
        kind: &str,
        emits: bool,
        [step, written_masks]: [usize; 2],
        timings: &mut Timings,
    ) -> Result<Code, Unsupported> {
        let Jit { generator, profile, .. } = &*self.jit;
        let inputs = (u16::BITS - self.func.inputs_read().leading_zeros()) as usize;
        let needs = Needs {
            emits,
            emitted: self.func.outputs_written(),
            inputs,
            step,
            written_masks,
            layout: self.config.layout,
        };
        let code = install(&generator.isa, &mut scratch.context, self.jit.code_memory(), needs, timings)?;
        if let Some(profile) = profile.get() {
            let Source { program, entry, config, .. } = self;
            profile.record(
                profile::Subject { program, entry: *entry, precision: config.precision, kind },
                &code,
                &scratch.context,
            );
        }
        Ok(code)
    }
}

impl Recompiler for Source {
    fn exact_code(&self) -> Result<Code, Unsupported> {
        self.vertex_code(&self.func, Products::Exact, Stores::Unit, &mut Timings::default())
    }

    fn outputs_code(&self, exact: bool) -> Result<OutputsCode, Unsupported> {
        let func = self.func.outputs_only(self.config.precision);
        let products = if exact { Products::Exact } else { self.jit.generator.products(&func, self.config.precision) };
        let code = self.vertex_code(&func, products, Stores::Outputs, &mut Timings::default())?;
        // The proof concerns all registers, so it needs the whole function. A kept output is that
        // of the vertex before, and each vertex finds the unit as the batch does.
        let independent = self.registers.dependence.is_none() && self.func.reaches_end() && !self.func.keeps_outputs();
        Ok(OutputsCode { code, writes: func.outputs_written(), independent })
    }

    fn batch_code(&self, variant: BatchVariant) -> Result<BatchCode, NoBatchCode> {
        check_headroom().map_err(NoBatchCode::Unsupported)?;
        let mut plan = BatchPlan::new(&self.func, &self.registers, self.config.precision)?;
        if plan.emits && variant.interleaved {
            return Err(NoBatchCode::Dependent(Dependence::Emits));
        }
        plan.counts_bailouts = self.jit.generator.settings.count_bailouts;
        batch::estimate::check_size(&plan, variant.interleaved)?;
        let mut scratch = Scratch::new(&self.jit.host.cancel);
        self.jit.generator.batch_clif(&plan, variant, &self.config, &mut scratch);
        let vertices = [variant.step(), plan.written_masks.len()];
        let code = self.install(&mut scratch, variant.name(), plan.emits, vertices, &mut Timings::default());
        // Vertices would run in order from then on, and no test would notice.
        if cfg!(debug_assertions)
            && let Err(failed @ Unsupported::Codegen { .. }) = &code
        {
            panic!("batch code: {failed}");
        }
        Ok(BatchCode::new(code.map_err(NoBatchCode::Unsupported)?, &plan, &self.jit.host.cancel))
    }

    fn held_bytes(&self) -> usize {
        let block = |b: &Block| {
            let args: usize = b.term.edges().map(|edge| size_of_val(&*edge.args)).sum();
            size_of_val(b) + size_of_val(&*b.insts) + size_of_val(&*b.params) + args
        };
        let blocks: usize = self.func.blocks.iter().map(block).sum();
        blocks + size_of_val(&*self.func.nodes) + self.program.bytes()
    }
}

impl Jit {
    /// The name of code of this variant: `vec4`, `batch`, `unoptimised`.
    pub fn name(&self) -> &'static str {
        match self.generator.variant {
            Variant::Vec4 => "vec4",
            Variant::Batch => "batch",
            Variant::Unoptimised => "unoptimised",
        }
    }

    /// This JIT as a backend. `fallback` serves runs that deoptimise while there is no exact code.
    pub fn with_fallback(self: Arc<Jit>, fallback: Arc<dyn Backend>) -> Arc<dyn Backend> {
        let name = self.name();
        let compile = move |program: &Arc<Program>, entry, config: &Config| self.compile_native(program, entry, config);
        Arc::new(WithFallback::new(name, compile, fallback))
    }
}

#[cfg(test)]
mod tests;
