//! A program -> how long it takes to compile and to run on each engine. The measuring core of the `bench` verb and of the
//! benches, which include this file.
//!
//! What is timed. *Compiling*: one call of [`Backend::compile`] with everything in it; the median of several, after one
//! that is not counted. *Running a batch of 1*: for every vertex, copying its input registers to the unit and one call of
//! `run`. *Larger batches*: `run_batch`, which copies inputs and outputs by the same masks, of vertices that have no more
//! registers than the masks ask for, unless told otherwise. The masks are the shader's own. All engines are given the same vertices, few enough to stay in the cache; triangles are thrown away. Engines take
//! turns, so that a machine that slows down slows all of them; the result is the median over the rounds. A slow engine
//! (the interpreter) gets a part of the vertices in each round, the next part in the next, and its batches end with that
//! part; they are a loop around `run`, so their size changes nothing. It must not print.

use picajit::container::shbin::Dvle;
use picajit::interp::Interp;
use picajit::ir::cfg::{Cfg, Limits};
use picajit::ir::{Form, Func};
use picajit::isa::numeric::Precision;
#[cfg(feature = "jit")]
use picajit::jit::{Allocator, Jit, Settings, Variant};
use picajit::kernel::{Backend, Config, Kernel, Unsupported, copy_registers};
use picajit::profiler::{Profiler, ProfilerError};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, Exit, NoEmitter, Registers, Uniforms, Unit, Vec4, VertexLayout, Vertices, VerticesMut};
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Vertices in a pass.
pub const VERTICES: usize = 1024;
/// The batches that are measured.
pub const BATCHES: [usize; 4] = [1, 4, 64, VERTICES];
/// What is timed at once should be shorter than what a busy machine gives a program before another one has its turn, or
/// the median is of interrupted passes.
const SHORT_PASS: Duration = Duration::from_micros(200);
/// Fewer vertices than this are timed at once only if ...
const FEWEST_VERTICES: usize = 64;
/// ... they take longer than this.
const LONGEST_PASS: Duration = Duration::from_millis(20);
/// Or, where the budget is small, than this.
const SHORTEST_LONG_PASS: Duration = Duration::from_millis(2);
/// Passes of each engine, however little time there is. Odd, for the median.
const FEWEST_ROUNDS: usize = 5;
/// Compilations of each engine, however long they take.
const FEWEST_COMPILES: usize = 3;
/// Vertices that tell whether a program ends.
pub const PROBED: usize = 4;
/// What takes longer than this counts as not ending.
const ENDLESS_VERTEX: Duration = Duration::from_millis(500);
/// What a program gets that does not end, less if [`SLOW_VERTEX`] is not enough for it.
const ENDLESS_FUEL: u32 = 256;
/// What a vertex of a program that does not end should take at most on the interpreter.
const SLOW_VERTEX: Duration = Duration::from_millis(2);

/// An engine of this build.
pub enum Engine {
    /// The interpreter.
    Interp,
    /// Native code.
    #[cfg(feature = "jit")]
    Native(Arc<Jit>),
}

/// Which instructions native code may use: all that the CPU has, or no more than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// All.
    Host,
    /// No more than needed.
    Baseline,
}

/// The engines that there are, slow ones first, and why native code is missing if it is.
pub fn engines() -> (Vec<Engine>, Option<Unsupported>) {
    make(Cpu::Host, false, &Profiler::None)
}

/// The same, and a profiler is told of their code.
pub fn profiled(profiler: &Profiler) -> (Vec<Engine>, Option<Unsupported>) {
    make(Cpu::Host, false, profiler)
}

/// Engines that are as unlike as can be, with native code for `cpu`: the slower one has another register allocator too.
pub fn witnesses(cpu: Cpu) -> (Vec<Engine>, Option<Unsupported>) {
    make(cpu, true, &Profiler::None)
}

#[cfg_attr(not(feature = "jit"), allow(unused_variables))]
fn make(cpu: Cpu, unlike: bool, profiler: &Profiler) -> (Vec<Engine>, Option<Unsupported>) {
    #[cfg(not(feature = "jit"))]
    return (vec![Engine::Interp], Some(Unsupported::HostIsa { missing: "picajit was built without the jit feature" }));
    #[cfg(feature = "jit")]
    {
        let mut engines = vec![Engine::Interp];
        let cpu = match cpu {
            Cpu::Host => picajit::jit::Cpu::Host,
            Cpu::Baseline => picajit::jit::Cpu::Baseline,
        };
        let variants: &[Variant] = match unlike {
            // One vertex at a time, the code of both of these is the same.
            true => &[Variant::Unoptimised, Variant::Batch],
            false => &[Variant::Unoptimised, Variant::Vec4, Variant::Batch],
        };
        for &variant in variants {
            let allocator = match variant {
                Variant::Unoptimised if unlike => Allocator::SinglePass,
                _ => Allocator::Backtracking,
            };
            // Code for batches at once; what is measured runs small ones as a host's would run.
            let batch_threshold = if unlike { 0 } else { 1 };
            let settings = Settings {
                cpu,
                allocator,
                interleave: Default::default(),
                batch_threshold,
                profiler: profiler.clone(),
            };
            match Jit::with(variant, settings, Arc::new(Interp)) {
                Ok(jit) => engines.push(Engine::Native(jit)),
                Err(reason) => return (engines, Some(reason)),
            }
        }
        (engines, None)
    }
}

/// An entry of a program as one engine made it.
pub struct Compiled {
    /// The engine.
    pub engine: &'static str,
    /// What runs.
    pub kernel: Arc<dyn Kernel>,
    /// How long one call took.
    pub time: Duration,
    /// Its stages by name; none for the interpreter.
    pub stages: Vec<(&'static str, Duration)>,
}

impl Engine {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Engine::Interp => Interp.name(),
            #[cfg(feature = "jit")]
            Engine::Native(jit) => jit.name(),
        }
    }

    /// See [`Jit::on_profiler_error`]; never, of an engine that compiles nothing.
    #[cfg_attr(not(feature = "jit"), allow(unused_variables))]
    pub fn on_profiler_error(&self, handler: impl Fn(&ProfilerError) + Send + Sync + 'static) {
        match self {
            Engine::Interp => {}
            #[cfg(feature = "jit")]
            Engine::Native(jit) => jit.on_profiler_error(handler),
        }
    }

    /// The engine itself.
    pub fn backend(&self) -> &dyn Backend {
        match self {
            Engine::Interp => &Interp,
            #[cfg(feature = "jit")]
            Engine::Native(jit) => jit,
        }
    }

    /// Compiles once, for the usual fuel.
    pub fn compile(&self, program: &Arc<Program>, entry: Entry) -> Result<Compiled, Unsupported> {
        self.compile_for(program, entry, &Config::default())
    }

    /// Compiles once.
    pub fn compile_for(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Compiled, Unsupported> {
        let start = Instant::now();
        match self {
            Engine::Interp => {
                let kernel = Interp.compile(program, entry, config)?;
                let time = start.elapsed();
                Ok(Compiled { engine: self.name(), kernel, time, stages: Vec::new() })
            }
            #[cfg(feature = "jit")]
            Engine::Native(jit) => {
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

    /// Compiles once and then `times` times, and returns the last with the medians of all but the first. After `within`,
    /// a few are enough.
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

/// What an entry is run on.
pub struct Workload {
    /// The uniforms.
    pub uniforms: Uniforms,
    /// The vertices.
    pub inputs: Vec<Registers>,
    /// Input registers that the shader has.
    pub input_mask: u16,
    /// Output registers that it has.
    pub output_mask: u16,
    /// Whether batches leave the unit as it is; they don't unless this is set.
    pub preserve_unit: bool,
    /// How a batch takes its registers to lie. They do so as [`VertexLayout::Aos`] has it: by components it is other vertices.
    pub layout: VertexLayout,
    /// The same vertices, as batches have them, and registers a vertex there, in and out.
    packed: Vec<Vec4>,
    strides: (usize, usize),
}

/// How many registers a vertex has in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// As few as the masks ask for.
    Least,
    /// A whole register file.
    File,
}

/// A shader's own input and output masks; one that a file leaves empty becomes a full one.
pub fn masks(dvle: &Dvle) -> (u16, u16) {
    let or_all = |mask| if mask == 0 { u16::MAX } else { mask };
    (or_all(dvle.input_mask), or_all(dvle.output_mask))
}

/// The input registers that an entry reads and the output registers that it writes. All, if it is too large to look at.
fn used(program: &Program, entry: Entry) -> (u16, u16) {
    let Ok(cfg) = Cfg::build(program, entry, Limits::default()) else { return (u16::MAX, u16::MAX) };
    let mut func = Func::build(&cfg, Config::default().fuel, Form::Ssa);
    func.simplify(Precision::F32);
    (func.inputs_read(), func.outputs_written())
}

impl Workload {
    /// With the masks of a shader; one that a file leaves empty has the registers that the code uses, as a host's would.
    pub fn new(dvle: &Dvle, program: &Program, uniforms: Uniforms, inputs: Vec<Registers>, stride: Stride) -> Workload {
        let (read, written) = used(program, dvle.entry());
        let or = |mask, other| if mask == 0 { other } else { mask };
        let (input_mask, output_mask) = (or(dvle.input_mask, read), or(dvle.output_mask, written));
        let strides = match stride {
            Stride::Least => (Vertices::stride_for(input_mask), Vertices::stride_for(output_mask)),
            Stride::File => (16, 16),
        };
        let packed = inputs.iter().flat_map(|file| &file[..strides.0]).copied().collect();
        Workload {
            uniforms,
            inputs,
            input_mask,
            output_mask,
            preserve_unit: false,
            layout: VertexLayout::Aos,
            packed,
            strides,
        }
    }

    /// All vertices as a batch.
    pub fn vertices(&self) -> Vertices<'_> {
        Vertices::packed(&self.packed, self.strides.0, self.inputs.len()).expect("so many")
    }

    /// Places for the outputs of all vertices.
    pub fn places(&self) -> Vec<Vec4> {
        vec![[0.0; 4]; self.inputs.len() * self.strides.1]
    }

    /// One batch.
    pub fn batch(&self, unit: &mut Unit, kernel: &dyn Kernel, inputs: Vertices<'_>, places: &mut [Vec4]) -> Exit {
        let outputs = VerticesMut::packed(places, self.strides.1, inputs.len()).expect("there are as many");
        let Workload { input_mask, output_mask, preserve_unit, layout, .. } = *self;
        let mut batch = Batch { inputs, outputs, input_mask, output_mask, preserve_unit, layout };
        kernel.run_batch(&self.uniforms, unit, &mut batch, &mut NoEmitter)
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

    /// What to compile with so that nobody waits for a program that does not end: `config` if the first vertices come to
    /// an end with it in time, and if not, with so little fuel that each is soon over. Triangles are bounded by the same,
    /// as a run has no more than fuel and code allow. Also the longest that one of them then takes on the interpreter.
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

    /// How vertex `vertex` ends on a new unit.
    pub fn exit(&self, kernel: &dyn Kernel, vertex: usize) -> Exit {
        let mut unit = Unit::new();
        copy_registers(self.input_mask, &self.inputs[vertex], &mut unit.v);
        kernel.run(&self.uniforms, &mut unit, &mut NoEmitter)
    }
}

/// A note about a program that was given less than the usual fuel.
pub fn stopped(fuel: u32) -> String {
    format!("vertices do not end, or not soon: every run is stopped after {fuel} backward jumps, on all engines")
}

/// What running took.
pub struct Speed {
    /// Nanoseconds a vertex: one row for each kernel, one column for each of [`BATCHES`].
    pub ns: Vec<[f64; BATCHES.len()]>,
    /// For each kernel, how many vertices at a time were timed; its batches were never larger than that.
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

/// How many vertices to time at once: as many as take [`SHORT_PASS`], at least [`FEWEST_VERTICES`] unless those take
/// `longest`, at most all.
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

/// The middle one, the upper of two.
pub fn median<T: PartialOrd + Copy>(values: &mut [T]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("times are no NaN"));
    values[values.len() / 2]
}
