//! A program -> its compile and run times on each engine. The measuring core of the `bench` verb
//! and of the benches, which include this file.
//!
//! *Compiling* is one call of [`Backend::compile`]; the median of several, after a warm-up call.
//! *Running a batch of 1* is, for each vertex, copying its input registers to the unit and one call
//! of `run`. *Larger batches* are `run_batch`, which copies inputs and outputs by the same masks.
//! By default a vertex has only the registers in the shader's own masks.
//!
//! All engines run the same vertices, few enough to stay in the cache; triangles are discarded.
//! Engines take turns, so that a slow-down of the machine affects all of them. The result is the
//! median over the rounds. A slow engine (the interpreter) runs a part of the vertices in each
//! round, the next part in the next. Its batches end with that part; they are a loop around `run`,
//! so their size does not matter. Nothing here prints.

use picajit::container::shbin::Dvle;
use picajit::internals::interp::Interp;
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::ir::{Form, Func};
#[cfg(feature = "jit")]
use picajit::internals::jit::{Allocator, Jit, Settings, Variant};
use picajit::internals::kernel::{Backend, Config, Kernel, Unsupported, copy_registers};
use picajit::internals::tier0::{self, Tier0};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::profiler::{Profiler, ProfilerError};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, Exit, NoEmitter, Registers, Uniforms, Unit, Vec4, Vertices, VerticesMut};
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Vertices in a pass.
pub const VERTICES: usize = 1024;
/// Measured batch sizes.
pub const BATCHES: [usize; 4] = [1, 4, 64, VERTICES];
/// Longest pass. It is shorter than a time slice of a busy machine; otherwise the median would be
/// one of interrupted passes.
const SHORT_PASS: Duration = Duration::from_micros(200);
/// Fewest vertices of a pass, unless they take longer than [`LONGEST_PASS`].
const FEWEST_VERTICES: usize = 64;
/// See [`FEWEST_VERTICES`].
const LONGEST_PASS: Duration = Duration::from_millis(20);
/// The same for a small budget.
const SHORTEST_LONG_PASS: Duration = Duration::from_millis(2);
/// Fewest passes of each engine. Odd, for the median.
const FEWEST_ROUNDS: usize = 5;
/// Fewest compilations of each engine.
const FEWEST_COMPILES: usize = 3;
/// Vertices that show whether a program ends.
pub const PROBED: usize = 4;
/// A longer run counts as endless.
const ENDLESS_VERTEX: Duration = Duration::from_millis(500);
/// Fuel of an endless program; less if that exceeds [`SLOW_VERTEX`].
const ENDLESS_FUEL: u32 = 4096;
/// Longest time for a vertex of an endless program on the interpreter.
const SLOW_VERTEX: Duration = Duration::from_millis(2);

/// An engine of this build.
pub enum Engine {
    /// The oracle.
    Interp,
    /// The fast interpreter.
    Tier0(Tier0),
    /// Native code.
    #[cfg(feature = "jit")]
    Native(Arc<Jit>, Arc<dyn Backend>),
}

/// CPU features that native code and tier 0 may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// All of this machine.
    Host,
    /// The least that native code needs.
    Baseline,
}

/// The available engines, slow ones first, and the reason if native code is missing.
pub fn engines() -> (Vec<Engine>, Option<Unsupported>) {
    make(Cpu::Host, false, &Profiler::None)
}

/// The same for `cpu`, with a profiler.
pub fn profiled(cpu: Cpu, profiler: &Profiler) -> (Vec<Engine>, Option<Unsupported>) {
    make(cpu, false, profiler)
}

/// Engines that share as little as possible, with native code for `cpu`. The slower one also uses
/// another register allocator.
pub fn witnesses(cpu: Cpu) -> (Vec<Engine>, Option<Unsupported>) {
    make(cpu, true, &Profiler::None)
}

/// The engines that every build has.
fn interpreters(cpu: Cpu) -> Vec<Engine> {
    let cpu = match cpu {
        Cpu::Host => tier0::Cpu::Detected,
        Cpu::Baseline => tier0::Cpu::Baseline,
    };
    vec![Engine::Interp, Engine::Tier0(Tier0::new(cpu))]
}

#[cfg_attr(not(feature = "jit"), allow(unused_variables))]
fn make(cpu: Cpu, unlike: bool, profiler: &Profiler) -> (Vec<Engine>, Option<Unsupported>) {
    #[cfg(not(feature = "jit"))]
    return (interpreters(cpu), Some(Unsupported::HostIsa { missing: "picajit was built without the jit feature" }));
    #[cfg(feature = "jit")]
    {
        let mut engines = interpreters(cpu);
        let cpu = match cpu {
            Cpu::Host => picajit::internals::jit::Cpu::Host,
            Cpu::Baseline => picajit::internals::jit::Cpu::Baseline,
        };
        let variants: &[Variant] = match unlike {
            // Their code for one vertex is the same.
            true => &[Variant::Unoptimised, Variant::Batch],
            false => &[Variant::Unoptimised, Variant::Vec4, Variant::Batch],
        };
        for &variant in variants {
            let allocator = match variant {
                Variant::Unoptimised if unlike => Allocator::SinglePass,
                _ => Allocator::Backtracking,
            };
            // Batch code from the first call on; small measured batches run as a host's would.
            let batch_threshold = if unlike { 0 } else { 1 };
            let settings =
                Settings { cpu, allocator, batch_threshold, profiler: profiler.clone(), ..Settings::default() };
            match Jit::with(variant, settings) {
                Ok(jit) => engines.push(Engine::native(jit)),
                Err(reason) => return (engines, Some(reason)),
            }
        }
        (engines, None)
    }
}

/// An entry of a program, compiled by one engine.
pub struct Compiled {
    /// The engine.
    pub engine: &'static str,
    /// The compiled kernel.
    pub kernel: Arc<dyn Kernel>,
    /// Compile time.
    pub time: Duration,
    /// Times of its stages by name; none for interpreters.
    pub stages: Vec<(&'static str, Duration)>,
}

impl Engine {
    /// Whether it compiles to native code.
    pub fn is_native(&self) -> bool {
        !matches!(self, Engine::Interp | Engine::Tier0(_))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Engine::Interp => Interp.name(),
            Engine::Tier0(tier0) => tier0.name(),
            #[cfg(feature = "jit")]
            Engine::Native(jit, _) => jit.name(),
        }
    }

    /// See [`Jit::on_profiler_error`]; interpreters never call it.
    #[cfg_attr(not(feature = "jit"), allow(unused_variables))]
    pub fn on_profiler_error(&self, handler: impl Fn(&ProfilerError) + Send + Sync + 'static) {
        match self {
            Engine::Interp | Engine::Tier0(_) => {}
            #[cfg(feature = "jit")]
            Engine::Native(jit, _) => jit.on_profiler_error(handler),
        }
    }

    /// An engine of this JIT.
    #[cfg(feature = "jit")]
    pub fn native(jit: Arc<Jit>) -> Engine {
        let backend = jit.clone().with_fallback(Arc::new(Interp));
        Engine::Native(jit, backend)
    }

    /// The engine itself.
    pub fn backend(&self) -> &dyn Backend {
        match self {
            Engine::Interp => &Interp,
            Engine::Tier0(tier0) => tier0,
            #[cfg(feature = "jit")]
            Engine::Native(_, backend) => &**backend,
        }
    }

    /// Compiles once, with the default fuel.
    pub fn compile(&self, program: &Arc<Program>, entry: Entry) -> Result<Compiled, Unsupported> {
        self.compile_for(program, entry, &Config::of(entry.stage))
    }

    /// Compiles once.
    pub fn compile_for(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Compiled, Unsupported> {
        let start = Instant::now();
        match self {
            Engine::Interp | Engine::Tier0(_) => {
                let kernel = self.backend().compile(program, entry, config)?;
                let time = start.elapsed();
                Ok(Compiled { engine: self.name(), kernel, time, stages: Vec::new() })
            }
            #[cfg(feature = "jit")]
            Engine::Native(jit, _) => {
                let kernel = jit.compile_native(program, entry, config)?;
                let time = start.elapsed();
                let t = kernel.timings();
                let stages = vec![
                    ("cfg", t.cfg),
                    ("ssa", t.ssa),
                    ("lower", t.lower),
                    ("codegen", t.codegen),
                    ("install", t.install),
                ];
                Ok(Compiled { engine: self.name(), kernel: Arc::new(kernel), time, stages })
            }
        }
    }

    /// Compiles once and then `times` times. Returns the last result with the medians of all but
    /// the first. After `within`, a few compilations are enough.
    pub fn compile_often(
        &self,
        program: &Arc<Program>,
        entry: Entry,
        config: &Config,
        times: usize,
        within: Duration,
    ) -> Result<Compiled, Unsupported> {
        let start = Instant::now();
        let mut last = self.compile_for(program, entry, config)?;
        let (mut totals, mut stages) = (Vec::new(), vec![Vec::new(); last.stages.len()]);
        for n in 0..times {
            if n >= FEWEST_COMPILES && start.elapsed() > within {
                break;
            }
            last = self.compile_for(program, entry, config)?;
            totals.push(last.time);
            last.stages.iter().zip(&mut stages).for_each(|((_, time), all)| all.push(*time));
        }
        if !totals.is_empty() {
            last.time = median(&mut totals);
            last.stages.iter_mut().zip(&mut stages).for_each(|((_, time), all)| *time = median(all));
        }
        Ok(last)
    }
}

/// Inputs of an entry's runs.
pub struct Workload {
    /// The uniforms.
    pub uniforms: Uniforms,
    /// The vertices.
    pub inputs: Vec<Registers>,
    /// The shader's input mask.
    pub input_mask: u16,
    /// The shader's output mask.
    pub output_mask: u16,
    /// [`Batch::preserve_unit`]; false by default.
    pub preserve_unit: bool,
    /// The same vertices packed for batches, and registers a vertex, in and out.
    packed: Vec<Vec4>,
    strides: (usize, usize),
}

/// Registers of a vertex in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// The registers in the masks.
    Least,
    /// A whole register file.
    File,
}

/// A shader's own input and output masks; a mask that the file leaves empty becomes full.
pub fn masks(dvle: &Dvle) -> (u16, u16) {
    let or_all = |mask| if mask == 0 { u16::MAX } else { mask };
    (or_all(dvle.input_mask), or_all(dvle.output_mask))
}

/// The input registers that an entry reads and the output registers that it writes. All, if it is
/// too large to explore.
fn used(program: &Program, entry: Entry) -> (u16, u16) {
    let Ok(cfg) = Cfg::build(program, entry, Limits::default()) else { return (u16::MAX, u16::MAX) };
    let mut func = Func::build(&cfg, Config::of(cfg.entry.stage).fuel, Form::Ssa);
    func.simplify(Precision::F32);
    (func.inputs_read(), func.outputs_written())
}

impl Workload {
    /// With the masks of a shader; an empty mask is replaced by the registers that the code uses. Of a
    /// geometry program hosts want the vertices that it emits, and no outputs.
    pub fn new(dvle: &Dvle, program: &Program, uniforms: Uniforms, inputs: Vec<Registers>, stride: Stride) -> Workload {
        let (read, written) = used(program, dvle.entry());
        let or = |mask, other| if mask == 0 { other } else { mask };
        let input_mask = or(dvle.input_mask, read);
        let output_mask = match dvle.stage {
            Stage::Vertex => or(dvle.output_mask, written),
            Stage::Geometry => 0,
        };
        let strides = match stride {
            Stride::Least => (Vertices::stride_for(input_mask), Vertices::stride_for(output_mask)),
            Stride::File => (16, 16),
        };
        let packed = inputs.iter().flat_map(|file| &file[..strides.0]).copied().collect();
        Workload { uniforms, inputs, input_mask, output_mask, preserve_unit: false, packed, strides }
    }

    /// All vertices as a batch.
    pub fn vertices(&self) -> Vertices<'_> {
        Vertices::packed(&self.packed, self.strides.0, self.inputs.len()).expect("the buffer has that many vertices")
    }

    /// Memory for the outputs of all vertices.
    pub fn places(&self) -> Vec<Vec4> {
        vec![[0.0; 4]; self.inputs.len() * self.strides.1]
    }

    /// One batch.
    pub fn batch(&self, unit: &mut Unit, kernel: &dyn Kernel, inputs: Vertices<'_>, places: &mut [Vec4]) -> Exit {
        let outputs = VerticesMut::packed(places, self.strides.1, inputs.len()).expect("there are as many");
        let Workload { input_mask, output_mask, preserve_unit, .. } = *self;
        let mut batch = Batch { inputs, outputs, input_mask, output_mask, preserve_unit };
        kernel.run_batch(&self.uniforms, unit, &mut batch, &mut NoEmitter).exit
    }

    /// One pass of `kernel` over the vertices in `range`.
    fn pass(&self, kernel: &dyn Kernel, batch: usize, range: Range<usize>, unit: &mut Unit, places: &mut [Vec4]) {
        if batch == 1 {
            for input in black_box(&self.inputs[range]) {
                copy_registers(self.input_mask, input, &mut unit.v);
                black_box(kernel.run(&self.uniforms, unit, &mut NoEmitter));
            }
        } else {
            let all = black_box(self.vertices());
            for (first, places) in range.clone().step_by(batch).zip(places.chunks_mut(batch * self.strides.1)) {
                let inputs = all.part(first..range.end.min(first + batch));
                black_box(self.batch(unit, kernel, inputs, places));
            }
        }
        black_box((unit, places));
    }

    /// A configuration that bounds endless programs: `config` if the first vertices end in time
    /// with it, otherwise one with little fuel. Fuel and code also bound the triangles of a run.
    /// Also returns the longest time of such a vertex on the interpreter.
    pub fn config(&self, program: &Program, entry: Entry, mut config: Config) -> (Config, Duration) {
        loop {
            let kernel = Interp.kernel(program, entry, &config);
            let (mut longest, mut endless) = (Duration::ZERO, false);
            for vertex in 0..PROBED.min(self.inputs.len()) {
                let start = Instant::now();
                endless |= self.exit(&kernel, vertex) == Exit::Fuel;
                longest = longest.max(start.elapsed());
                if longest > ENDLESS_VERTEX {
                    endless = true;
                    break;
                }
            }
            match endless {
                true if config.fuel > ENDLESS_FUEL => config.fuel = ENDLESS_FUEL,
                true if longest > SLOW_VERTEX && config.fuel > 1 => config.fuel /= 4,
                _ => return (config, longest),
            }
        }
    }

    /// The exit of vertex `vertex` on a new unit.
    pub fn exit(&self, kernel: &dyn Kernel, vertex: usize) -> Exit {
        let mut unit = Unit::new();
        copy_registers(self.input_mask, &self.inputs[vertex], &mut unit.v);
        kernel.run(&self.uniforms, &mut unit, &mut NoEmitter)
    }
}

/// A note about a program with less than the default fuel.
pub fn stopped(fuel: u32) -> String {
    format!("vertices do not end soon: every run stops at its first backward jump after {fuel} words, on all engines")
}

/// Run times.
pub struct Speed {
    /// Nanoseconds a vertex: one row for each kernel, one column for each of [`BATCHES`].
    pub ns: Vec<[f64; BATCHES.len()]>,
    /// For each kernel, the vertices of a timed pass; its batches were never larger.
    pub vertices: Vec<usize>,
}

/// Runs all kernels in turn for about `budget`.
pub fn run(kernels: &[&dyn Kernel], work: &Workload, budget: Duration) -> Speed {
    let mut units = vec![Unit::new(); kernels.len()];
    let mut outputs = work.places();
    let passes = (kernels.len() * BATCHES.len() * FEWEST_ROUNDS) as u32;
    let longest = (budget / passes).clamp(SHORTEST_LONG_PASS, LONGEST_PASS);
    let mut vertices = Vec::new();
    for (kernel, unit) in kernels.iter().zip(&mut units) {
        let count = fitting(*kernel, work, longest, unit, &mut outputs);
        BATCHES.iter().for_each(|&batch| work.pass(*kernel, batch, 0..count, unit, &mut outputs));
        vertices.push(count);
    }
    let mut times = vec![[const { Vec::new() }; BATCHES.len()]; kernels.len()];
    let start = Instant::now();
    let mut round = 0;
    while round < FEWEST_ROUNDS || start.elapsed() < budget {
        for (column, &batch) in BATCHES.iter().enumerate() {
            for (row, (kernel, unit)) in kernels.iter().zip(&mut units).enumerate() {
                let first = round * vertices[row] % work.inputs.len();
                let range = first..(first + vertices[row]).min(work.inputs.len());
                let count = range.len() as f64;
                let start = Instant::now();
                work.pass(*kernel, batch, range, unit, &mut outputs);
                times[row][column].push(start.elapsed().as_secs_f64() * 1e9 / count);
            }
        }
        round += 1;
    }
    Speed { ns: times.iter_mut().map(|row| row.each_mut().map(|times| median(times))).collect(), vertices }
}

/// Vertices of a pass: as many as take [`SHORT_PASS`], at least [`FEWEST_VERTICES`] unless those
/// take `longest`, at most all.
fn fitting(kernel: &dyn Kernel, work: &Workload, longest: Duration, unit: &mut Unit, outputs: &mut [Vec4]) -> usize {
    let mut count = 1;
    while count < work.inputs.len() {
        let next = (count * 2).min(work.inputs.len());
        let mut once = || {
            let start = Instant::now();
            work.pass(kernel, 1, 0..next, unit, outputs);
            start.elapsed()
        };
        let mut time = once();
        if time > SHORT_PASS && time < longest {
            // It may have been interrupted.
            time = time.min(once()).min(once());
        }
        if time > longest || time > SHORT_PASS && next > FEWEST_VERTICES {
            break;
        }
        count = next;
    }
    count
}

/// The median; the upper one of an even number.
pub fn median<T: PartialOrd + Copy>(values: &mut [T]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("times are no NaN"));
    values[values.len() / 2]
}
