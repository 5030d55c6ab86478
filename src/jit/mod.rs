//! A program's entry -> machine code: host, settings, the pipeline with its times.
//!
//! The only user of Cranelift. [`Jit`] is a [`Backend`]; each of its variants reads the same words and must give the
//! interpreter's bits. Stages are files: [`crate::ir`] up to SSA, `lower` (with `memory`, `math`, `elementary`,
//! `narrow`, `shape`, `arm`, `dots`, `speculate`; `lanes` for batches) to CLIF, Cranelift to machine code (`target` says for
//! which CPU, `generator` drives all this), `code` to executable memory, of which `profile` tells profilers. `kernel` is what runs it.

mod abi;
mod arm;
mod code;
mod dots;
mod elementary;
mod generator;
mod kernel;
mod lanes;
mod lower;
mod math;
mod memory;
mod narrow;
mod place;
mod profile;
mod shape;
mod speculate;
mod target;

use crate::background::Queue;
use crate::executable::ExecutableMemory;
use crate::ir::cfg::Limits;
use crate::kernel::{Backend, Config, Kernel, Unsupported};
use crate::profiler::Unprofiled;
use crate::program::{Entry, Program};
use crate::state::Order;
use code::{Code, CodeMemory, Needs};
use cranelift_codegen::Context;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};
use generator::{Generator, Scratch};
use kernel::{SideBySide, Source, Way};
use math::Care;
use profile::Profile;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

#[cfg(feature = "targets")]
pub use generator::explain_for;
pub use generator::{NoCode, Stages};
pub use kernel::NativeKernel;
#[cfg(feature = "targets")]
pub use target::Target;
pub use target::{Allocator, Cpu, Groups, Settings};

/// Which code is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// One vertex, registers in SIMD registers.
    Vec4,
    /// The same for one vertex. In a batch, components of four vertices share a SIMD register, as [`Groups`] says, if the vertices provably
    /// don't see each other.
    Lanes,
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
    lanes_after: u32,
    lent: Lent,
    /// What serves a run that must be redone when there is no memory for the exact code.
    last_resort: Arc<dyn Backend>,
    /// Who is told of code; set behind the warm-up, which nobody wants to know of.
    profile: OnceLock<Profile>,
}

/// What a host lends a JIT.
#[derive(Clone, Default)]
pub struct Lent {
    /// Where code is made that runs want and have no need to wait for: for batches, and for what is rare. Without it, or when
    /// nobody is there any more, it is made by the run that wants it first.
    pub queue: Option<Queue>,
    /// Where code is kept. Without it that is pages of the JIT's own.
    pub memory: Option<Arc<dyn ExecutableMemory>>,
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
        Jit::hosted(variant, settings, Lent::default(), last_resort)
    }

    /// [`Jit::with`] things of the host's.
    pub fn hosted(
        variant: Variant,
        settings: Settings,
        lent: Lent,
        last_resort: Arc<dyn Backend>,
    ) -> Result<Arc<Jit>, Unsupported> {
        let jit = Jit {
            generator: Generator {
                isa: target::host(&settings)?,
                variant,
                groups: settings.groups,
                limits: Limits::default(),
            },
            scratch: Mutex::default(),
            memory: CodeMemory::default,
            lanes_after: settings.lanes_after,
            lent,
            last_resort,
            profile: OnceLock::new(),
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
        jit.profile.get_or_init(|| Profile::open(&settings.profiler));
        Ok(jit)
    }

    /// Hears why the profiler of the [`Settings`] is not told of code, if it is not: once, at once or when it turns out. Only the
    /// first handler counts. Without one nobody hears it.
    pub fn on_unprofiled(&self, handler: impl Fn(&Unprofiled) + Send + Sync + 'static) {
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
        let mut timings = Timings::default();
        let (blocks, func) = self.generator.ssa(program, entry, config, &mut timings)?;
        let care = self.generator.care(&func, config.precision);
        let source = Source { jit: self.clone(), func, program: program.clone(), entry, config: *config };
        let code = self.native(&source, care, &mut timings)?;
        Ok(NativeKernel::new(code, care == Care::Speculate, source, timings, blocks))
    }

    /// Compiles what `entry` reaches and prints every stage on the way. Of [`Variant::Lanes`] it is the code for batches,
    /// if vertices can run side by side.
    pub fn explain(&self, program: &Program, entry: Entry, config: &Config) -> Result<Stages, NoCode> {
        self.generator.explain(program, entry, config)
    }

    /// Machine code of a function, run as [`Care`] says.
    fn native(&self, source: &Source, care: Care, timings: &mut Timings) -> Result<Code, Unsupported> {
        self.with_scratch(|scratch| {
            let start = Instant::now();
            self.generator.lower(&source.func, care, &source.config, scratch);
            timings.lower = start.elapsed();
            let code = self.install(&mut scratch.context, source, lanes::WIDTH, timings)?;
            self.tell_profiler(source, profile::kind(self.generator.variant, care), &code, &scratch.context);
            Ok(code)
        })
    }

    /// Machine code for batches whose vertices lie in this order.
    fn side_by_side(&self, source: &Source, way: Way) -> Result<SideBySide, NoCode> {
        let side = generator::provable(&source.func, way.order, source.config.precision)?;
        let kind = match (way.order, way.two) {
            (Order::Registers, false) => "lanes",
            (Order::Registers, true) => "lanes8",
            (Order::Components, false) => "components",
            (Order::Components, true) => "components8",
        };
        // By components, a vertex is not to be had apart from its group.
        let step = if way.two && way.order == Order::Registers { 1 } else { lanes::WIDTH };
        let code = self.with_scratch(|scratch| {
            self.generator.lower_lanes(&source.func, &side, way, &source.config, scratch);
            let code = self.install(&mut scratch.context, source, step, &mut Timings::default())?;
            self.tell_profiler(source, kind, &code, &scratch.context);
            Ok(code)
        });
        // Everything would run on, one vertex after the other, and no test would notice.
        if cfg!(debug_assertions)
            && let Err(refused @ Unsupported::Codegen { .. }) = &code
        {
            panic!("code for batches: {refused}");
        }
        Ok(SideBySide::new(code.map_err(NoCode::Unsupported)?, &side))
    }

    fn tell_profiler(&self, source: &Source, kind: &str, code: &Code, context: &Context) {
        if let Some(profile) = self.profile.get() {
            profile.record(source, kind, code, context);
        }
    }

    fn with_scratch<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let pool = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = pool().pop().unwrap_or_default();
        let result = work(&mut scratch);
        pool().push(scratch);
        result
    }

    fn install(
        &self,
        context: &mut Context,
        source: &Source,
        step: usize,
        timings: &mut Timings,
    ) -> Result<Code, Unsupported> {
        let start = Instant::now();
        let memory = match &self.lent.memory {
            Some(host) => CodeMemory::of(host.clone()),
            None => (self.memory)(),
        };
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
        let compiled = context.compiled_code().expect("just defined");
        let len = compiled.code_buffer().len();
        if !compiled.buffer.relocs().is_empty() {
            // It may be copied to a host's memory, where it would not find that.
            return Err(Unsupported::Codegen { message: "the code refers to something outside of it".into() });
        }
        timings.codegen = start.elapsed();
        let start = Instant::now();
        module.finalize_definitions().map_err(refused)?;
        let entry = module.get_finalized_function(id);
        drop(module);
        let inputs = (u16::BITS - source.func.inputs_read().leading_zeros()) as usize;
        let needs = Needs { emits: source.func.emits(), inputs, step, layout: source.config.layout };
        let code = memory
            .into_code(entry, len, needs)
            .ok_or_else(|| Unsupported::Codegen { message: "the function is not in its memory".into() });
        timings.install = start.elapsed();
        code
    }
}

impl Backend for Arc<Jit> {
    fn name(&self) -> &'static str {
        match self.generator.variant {
            Variant::Vec4 => "vec4",
            Variant::Lanes => "lanes",
            Variant::Unoptimised => "unoptimised",
        }
    }

    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Ok(Arc::new(self.compile_native(program, entry, config)?))
    }
}

#[cfg(test)]
mod tests;
