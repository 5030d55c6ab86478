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
mod lanes;
mod lower;
mod math;
mod memory;
mod narrow;
mod shape;
mod speculate;
mod target;

use crate::ir::batch::Sequential;
use crate::ir::cfg::Limits;
use crate::ir::{Func, Node};
use crate::isa::numeric::Precision;
use crate::kernel::{Backend, Config, Kernel, KernelStats, Unsupported, copy_registers};
use crate::program::{Entry, Program};
use crate::state::{Batch, Emitter, Exit, Uniforms, Unit};
use code::{Code, CodeMemory};
use cranelift_codegen::Context;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};
use generator::{Generator, Scratch};
use lanes::WIDTH;
use math::Care;
use std::fmt;
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
    /// The same for one vertex. In a batch, components of four vertices share a SIMD register, if the vertices provably
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
    /// The code for batches, compiled when it is first wanted, or why there is none.
    side_by_side: OnceLock<Result<SideBySide, NoCode>>,
    /// What to compile it from.
    source: Source,
    redos: AtomicU32,
    /// Vertices in batches so far, up to where it no longer matters.
    batched: AtomicU32,
    /// Groups that ran side by side.
    groups: AtomicU32,
    /// Groups that had to be given up.
    given_up: AtomicU32,
    /// The `v` registers that the code reads; bit n is `vn`.
    reads: u16,
    timings: Timings,
    blocks: usize,
}

/// Code for batches.
struct SideBySide {
    code: Code,
    /// Output registers that it writes; the others are as the unit has them.
    writes: u16,
    /// Whether every run ends as it should.
    always_ends: bool,
}

/// Why there is no code of a kind; of that for batches, which then run one vertex after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoCode {
    /// The vertices may see each other.
    Sequential(Sequential),
    /// Such code is made in single precision only.
    Precision,
    /// The program is larger than any real one.
    TooLarge,
    /// It did not compile.
    Unsupported(Unsupported),
}

impl std::error::Error for NoCode {}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCode::Sequential(why) => why.fmt(f),
            NoCode::Precision => f.write_str("vertices run side by side in single precision only"),
            NoCode::TooLarge => f.write_str("the program is too large to run vertices side by side"),
            NoCode::Unsupported(why) => why.fmt(f),
        }
    }
}

/// From so many groups given up on it is asked whether that is too many.
const OFTEN: u32 = 64;

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
            lanes_after: settings.lanes_after,
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
            side_by_side: OnceLock::new(),
            source: Source { jit: self.clone(), func, program: program.clone(), entry, config: *config },
            redos: AtomicU32::new(0),
            batched: AtomicU32::new(0),
            groups: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
            timings,
            blocks,
        })
    }

    /// Compiles what `entry` reaches and prints every stage on the way. Of [`Variant::Lanes`] it is the code for batches,
    /// if vertices can run side by side.
    pub fn explain(&self, program: &Program, entry: Entry, config: &Config) -> Result<Stages, NoCode> {
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

    fn side_by_side(&self, func: &Func, precision: Precision) -> Result<SideBySide, NoCode> {
        let side = generator::provable(func, precision)?;
        let pool = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = pool().pop().unwrap_or_default();
        self.generator.lower_lanes(func, &side, &mut scratch);
        let code = self.install(&mut scratch.context, false, &mut Timings::default());
        pool().push(scratch);
        let writes = (0..16).filter(|&n| side.written[n] != 0).fold(0, |m, n| m | 1 << n);
        code.map(|code| SideBySide { code, writes, always_ends: side.always_ends }).map_err(NoCode::Unsupported)
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
            Variant::Lanes => "lanes",
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

    /// How many groups of vertices ran side by side, and how many were given up and run one by one.
    pub fn groups(&self) -> (u32, u32) {
        (self.groups.load(Ordering::Relaxed), self.given_up.load(Ordering::Relaxed))
    }

    /// Whether giving up costs more than the groups save that are not given up, so far.
    fn gives_up_often(&self) -> bool {
        let (groups, given_up) = self.groups();
        given_up >= OFTEN && given_up > groups / 4
    }

    /// The code for a batch of so many vertices with these inputs, if there is any and it pays.
    fn side_by_side(&self, count: usize, input_mask: u16) -> Option<&SideBySide> {
        let jit = &self.source.jit;
        if jit.generator.variant != Variant::Lanes || count < WIDTH || self.reads & !input_mask != 0 {
            return None;
        }
        if self.side_by_side.get().is_none() {
            let before = self.batched.fetch_add(count as u32, Ordering::Relaxed);
            if before < jit.lanes_after {
                return None;
            }
        }
        if self.gives_up_often() {
            return None;
        }
        self.side_by_side
            .get_or_init(|| jit.side_by_side(&self.source.func, self.source.config.precision))
            .as_ref()
            .ok()
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
        let count = batch.inputs.len().min(batch.outputs.len());
        let mut run = Run { kernel: self, uniforms, unit, emitter, uniforms_seen: false, result: Exit::End, count };
        let begun = match self.side_by_side(count, batch.input_mask) {
            Some(code) => run.side_by_side(code, batch),
            None => 0,
        };
        (begun..count).for_each(|n| run.one(batch, n));
        run.result
    }

    fn stats(&self) -> KernelStats {
        let (groups, given_up) = self.groups();
        let one_by_one = self.side_by_side.get().and_then(|s| s.as_ref().err()).map(|why| why.to_string());
        KernelStats { redone: self.redos(), groups, given_up, one_by_one }
    }

    fn held_bytes(&self) -> usize {
        // Code in whole pages, once more for an exact kernel that may follow, twice more for one that runs batches, and
        // what these would be compiled from.
        let batches = self.source.jit.generator.variant == Variant::Lanes;
        let times = 1 + usize::from(self.speculates) + 2 * usize::from(batches);
        let code = self.code.len().next_multiple_of(4096) * times;
        let Source { func, program, .. } = &self.source;
        let insts: usize = func.blocks.iter().map(|b| size_of_val(&*b.insts) + size_of_val(b)).sum();
        code + insts + size_of_val(&*func.nodes) + program.bytes() + size_of::<Self>()
    }

    fn native_bytes(&self) -> usize {
        let exact = self.exact.get().and_then(|e| e.as_ref().ok()).map_or(0, Code::len);
        let batches = self.side_by_side.get().and_then(|s| s.as_ref().ok()).map_or(0, |s| s.code.len());
        self.code.len() + exact + batches
    }
}

/// A batch that is being run.
struct Run<'a> {
    kernel: &'a NativeKernel,
    uniforms: &'a Uniforms,
    unit: &'a mut Unit,
    emitter: &'a mut dyn Emitter,
    uniforms_seen: bool,
    result: Exit,
    count: usize,
}

impl Run<'_> {
    /// Vertex `n`, alone.
    fn one(&mut self, batch: &mut Batch<'_>, n: usize) {
        let (kernel, input) = (self.kernel, &batch.inputs[n]);
        // If the batch has all that the code reads, it is read there; only the last inputs must be in the unit.
        let whole = kernel.reads & !batch.input_mask == 0;
        if !whole || n + 1 == self.count {
            copy_registers(batch.input_mask, input, &mut self.unit.v);
        }
        let inputs = whole.then_some(input);
        let exit = kernel.run_with(self.uniforms, self.unit, inputs, &mut self.uniforms_seen, self.emitter);
        copy_registers(batch.output_mask, self.unit.outputs(), &mut batch.outputs[n]);
        if self.result == Exit::End {
            self.result = exit;
        }
    }

    /// As many whole groups as there are, or as it pays to run; how many vertices that were. Behind it the unit is as
    /// the last of them leaves it, or as good as that for the next one.
    fn side_by_side(&mut self, lanes: &SideBySide, batch: &mut Batch<'_>) -> usize {
        let whole = self.count / WIDTH * WIDTH;
        // What no run writes is copied from the unit.
        let same = batch.output_mask & !lanes.writes;
        let (mut at, mut groups, mut given_up) = (0, 0u32, 0u32);
        // Whether the unit is as the vertex before `at` leaves it.
        let mut known = true;
        while at < whole && !self.kernel.gives_up_often() {
            let (inputs, outputs) = (&batch.inputs[at..whole], &mut batch.outputs[at..whole]);
            let done = lanes.code.run_lanes(self.uniforms, self.unit, inputs, outputs, batch.output_mask);
            if same != 0 {
                outputs[..done].iter_mut().for_each(|o| copy_registers(same, self.unit.outputs(), o));
            }
            groups += (done / WIDTH) as u32;
            known &= done == 0;
            at += done;
            if at < whole {
                given_up += 1;
                self.know(&mut known, batch, at);
                (at..at + WIDTH).for_each(|n| self.one(batch, n));
                at += WIDTH;
            }
        }
        self.kernel.groups.fetch_add(groups, Ordering::Relaxed);
        self.kernel.given_up.fetch_add(given_up, Ordering::Relaxed);
        if at == self.count || !lanes.always_ends {
            self.know(&mut known, batch, at);
        }
        at
    }

    /// Makes the unit what the vertex before `at` leaves, by running that alone.
    fn know(&mut self, known: &mut bool, batch: &mut Batch<'_>, at: usize) {
        if !std::mem::replace(known, true) {
            self.one(batch, at - 1);
        }
    }
}

#[cfg(test)]
mod tests;
