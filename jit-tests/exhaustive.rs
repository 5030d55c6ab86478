//! What is few enough to try in full, on every engine and against [`Precision`]:
//!
//! | tests | arguments |
//! |---|---|
//! | `rcp`, `rsq`, `ex2`, `lg2`, `flr-litp`, `addresses` | operations with one argument: every f32, or every float24 number |
//! | `rounding` | every f32 from 2^-63 to 2^65, and its negative, as a sum that float24 rounds |
//! | `pairs`, `comparisons` | operations with two arguments: every pair of 4,096 special values |
//! | `swizzles` | every selector, sign and mask, in each source |
//!
//! Arguments come in batches of 1,024. By default one batch in 16,384 of the long tests runs, and
//! one in 512 of the others; `PICAJIT_FULL=1` runs all, and `PICAJIT_EXHAUSTIVE=K/N` part K, from 0 to
//! N - 1, of N. The interpreter, which calls [`Precision`], is not among the engines.

mod engines;
mod extent;
mod hosted;
mod prerequisites;

#[path = "exhaustive/swizzles.rs"]
mod swizzles;
#[path = "exhaustive/tables.rs"]
mod tables;

use engines::Engine;
use libtest_mimic::{Arguments, Failed, Trial};
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::numeric::{Precision, same};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, Exit, NoEmitter, Uniforms, Unit, Vec4, Vertices, VerticesMut};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use tables::{ANSWERS, Table};

/// Vertices of a batch, a power of two.
const BATCH: u64 = 1 << 10;

/// From this number of arguments on a table is long.
const LONG: u64 = 1 << 30;

/// Trials of a table of which many batches run, so that every core has one.
const SLICES: u64 = 8;

/// From this number of batches on they are many.
const MANY: u64 = 1 << 14;

/// Special values that a kernel may meet; then it is compiled again, since it would soon no longer
/// speculate or run groups.
const MOST_BAILOUTS: u32 = 32;

/// One vertex in N runs in a group at least: in float24 groups have half of all exponents, and RSQ
/// half of these; of eight slices of the pairs of special values three have 3 in 16. A small part may
/// have other exponents only.
const LEAST_IN_GROUPS: u64 = 6;
const SMALL: u64 = 256 * BATCH;

/// Vertices of a group of native code.
const GROUP: u64 = 4;

/// Which of all batches or programs run: part `part` of `parts`.
#[derive(Clone, Copy)]
struct Share {
    part: u64,
    parts: u64,
}

impl Share {
    fn of(self, all: u64) -> Range<u64> {
        all * self.part / self.parts..all * (self.part + 1) / self.parts
    }
}

/// The share of a table's batches.
fn share_of(table: &Table, precision: Precision) -> Range<u64> {
    let arguments = (table.arguments)(precision);
    share(if arguments >= LONG { 1 << 14 } else { 1 << 9 }).of(arguments / BATCH)
}

fn share(short: u64) -> Share {
    match extent::part("PICAJIT_EXHAUSTIVE") {
        Some((k, n)) => Share { part: k as u64, parts: n as u64 },
        None => Share { part: 0, parts: if extent::full() { 1 } else { short } },
    }
}

/// Number `n` of all, in an order in which any range has some of everything.
fn spread(n: u64, all: u64) -> u64 {
    assert!(all.is_power_of_two());
    // An odd factor permutes the numbers below a power of two; this one is near the golden ratio.
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15 >> (64 - all.ilog2()) | 1) % all
}

/// An engine's kernels for a program.
struct Subject {
    engine: Engine,
    program: Arc<Program>,
    precision: Precision,
    /// It speculates and runs groups.
    kernel: Arc<dyn Kernel>,
    /// An earlier one that has met many special values.
    spoilt: Option<Arc<dyn Kernel>>,
    /// The exponents of which it runs all batches: others would only spoil more kernels.
    special: HashSet<u64>,
    /// Vertices that ran, and those of them that ran in groups.
    vertices: u64,
    in_groups: u64,
}

impl Subject {
    fn new(engine: Engine, program: &Arc<Program>, precision: Precision) -> Result<Subject, Failed> {
        let kernel = Subject::compile(&engine, program, precision)?;
        let (program, spoilt, special) = (program.clone(), None, HashSet::new());
        Ok(Subject { engine, program, precision, kernel, spoilt, special, vertices: 0, in_groups: 0 })
    }

    fn compile(engine: &Engine, program: &Arc<Program>, precision: Precision) -> Result<Arc<dyn Kernel>, Failed> {
        let config = Config { precision, ..Config::default() };
        let kernel = engine.backend.compile(program, Entry::vertex(0), &config);
        Ok(kernel.map_err(|e| format!("{}: {e}", engine.name))?)
    }

    /// Runs vertices with v0 from `inputs`, which have one exponent; `outputs` receives o0 and so
    /// on.
    fn run<const N: usize>(
        &mut self,
        uniforms: &Uniforms,
        exponent: u64,
        inputs: &[[Vec4; 1]],
        outputs: &mut [[Vec4; N]],
    ) -> Result<(), Failed> {
        let count = inputs.len();
        let mut batch = Batch {
            inputs: Vertices::packed(inputs.as_flattened(), 1, count).expect("one register each"),
            outputs: VerticesMut::packed(outputs.as_flattened_mut(), N, count).expect("N registers each"),
            input_mask: 1,
            output_mask: ((1u32 << N) - 1) as u16,
            preserve_unit: false,
        };
        let spoilt = self.spoilt.clone().filter(|_| self.special.contains(&exponent));
        let kernel = spoilt.as_ref().unwrap_or(&self.kernel).clone();
        let before = kernel.stats();
        let exit = kernel.run_batch(uniforms, &mut Unit::new(), &mut batch, &mut NoEmitter);
        if exit != Exit::End {
            return Err(format!("{} ends with {exit:?}", self.engine.name).into());
        }
        let after = kernel.stats();
        let in_groups = GROUP * u64::from(after.groups - before.groups);
        self.vertices += count as u64;
        self.in_groups += in_groups;
        if spoilt.is_none() && after.deoptimised + after.bailouts > MOST_BAILOUTS {
            let deoptimised = (after.deoptimised - before.deoptimised) as usize;
            if deoptimised == count || self.has_groups() && in_groups == 0 {
                self.special.insert(exponent);
            }
            self.spoilt = Some(kernel);
            self.kernel = Subject::compile(&self.engine, &self.program, self.precision)?;
        }
        Ok(())
    }

    fn has_groups(&self) -> bool {
        self.engine.name.starts_with("batch")
    }

    /// An error if an engine that has groups ran few of the vertices in them.
    fn check_groups(&self) -> Result<(), Failed> {
        let Subject { in_groups, vertices, .. } = *self;
        let least = if vertices < SMALL { 1 } else { vertices / LEAST_IN_GROUPS };
        if self.has_groups() && in_groups < least {
            return Err(format!("{} ran {in_groups} of {vertices} vertices in groups", self.engine.name).into());
        }
        Ok(())
    }
}

fn check(table: &Table, precision: Precision, slice: u64, slices: u64) -> Result<(), Failed> {
    let arguments = (table.arguments)(precision);
    let program = Arc::new(picajit::text::assemble(table.source)?.shbin.program()?);
    let new = |engine| Subject::new(engine, &program, precision);
    let mut subjects: Vec<Subject> = engines::on_units().into_iter().map(new).collect::<Result<_, _>>()?;
    let uniforms = tables::uniforms();
    let mut inputs = vec![[[0.0; 4]]; BATCH as usize];
    let mut want = vec![[[0.0; 4]; ANSWERS]; BATCH as usize];
    let mut got = want.clone();
    let batches = arguments / BATCH;
    for batch in share_of(table, precision).skip(slice as usize).step_by(slices as usize) {
        // Neighbours have one sign and exponent, so a batch with infinities has no other numbers.
        let first = spread(batch, batches) * BATCH;
        for (n, (input, want)) in (first..).zip(inputs.iter_mut().zip(&mut want)) {
            input[0] = (table.input)(precision, n);
            *want = (table.answers)(precision, input[0]);
        }
        for subject in &mut subjects {
            got.fill([[f32::MAX; 4]; ANSWERS]);
            subject.run(&uniforms, first >> (table.mantissa)(precision), &inputs, &mut got)?;
            for (input, (got, want)) in inputs.iter().zip(got.iter().zip(&want)) {
                let all =
                    |a: &[Vec4], b: &[Vec4]| a.as_flattened().iter().zip(b.as_flattened()).all(|(a, b)| same(*a, *b));
                if !all(got, want) {
                    let [x, y, ..] = input[0];
                    let name = subject.engine.name;
                    return Err(format!("{name}: of {x:e} and {y:e} it is {got:?}, not {want:?}").into());
                }
            }
        }
    }
    subjects.iter().try_for_each(Subject::check_groups)
}

fn main() {
    let mut trials = swizzles::trials();
    for table in &tables::ALL {
        for precision in Precision::ALL {
            let batches = share_of(table, precision);
            let slices = match batches.end - batches.start {
                0 => continue,
                MANY.. => SLICES,
                _ => 1,
            };
            for slice in 0..slices {
                let part = if slices == 1 { String::new() } else { format!("::{slice}") };
                let name = format!("{}::{precision}{part}", table.name);
                trials.push(Trial::test(name, move || check(table, precision, slice, slices)));
            }
        }
    }
    if !extent::full() {
        extent::announce("short form: a part of all arguments; PICAJIT_FULL=1 tries all of them");
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
