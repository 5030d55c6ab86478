//! Two kernels and one workload -> [`Report`]: the number of vertices on which they differ, and the
//! first difference with the values of both.
//!
//! The first kernel, the reference, runs once, vertex by vertex: this defines the meaning of a
//! batch. The second kernel runs every vertex three times:
//!
//! * through `run`;
//! * through `run_batch` in batches of mixed sizes;
//! * through `run_batch` with all vertices of a chunk.
//!
//! Batches that end at an even vertex have the least stride that the masks allow. Of those that emit, some
//! want no outputs, as hosts do.
//!
//! Two values are equal if they have the same bits or are both NaN. The comparison covers
//! registers, both output banks, vertex slots, addresses, flags, bank, `SETEMIT`'s parameters,
//! copied outputs, triangles and the exit. After a difference the second kernel continues from the
//! reference's state, so that each difference counts once.

mod report;
mod triangles;

use crate::isa::REGS;
use crate::kernel::{Kernel, copy_registers};
use crate::state::{Batch, BatchExit, Exit, Registers, Uniforms, Unit, Vec4, Vertices, VerticesMut};
pub use report::{ComparedValue, Difference, How, Report};
use report::{exit_row, ran_row, register_rows, same_registers, same_unit, unit_rows};
use triangles::Triangles;

/// Vertices whose states are in memory at a time.
const CHUNK: usize = 64;
/// Sizes of the mixed batches, around the group sizes of engines. One round of them is a chunk.
const BATCHES: [usize; 6] = [1, 3, 4, 5, 17, 34];
/// Content of outputs before a batch. No program computes this value by chance, so unwritten
/// outputs are recognisable.
#[doc(hidden)]
pub const UNTOUCHED: Registers = [[-12_345.678; 4]; 16];

/// A kernel and its name in a report.
#[derive(Clone, Copy)]
pub struct NamedKernel<'a> {
    /// The name.
    pub name: &'a str,
    /// The kernel.
    pub kernel: &'a dyn Kernel,
}

/// The workload of both kernels.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The uniforms.
    pub uniforms: &'a Uniforms,
    /// The unit before the first vertex.
    pub unit: &'a Unit,
    /// The vertices.
    pub inputs: &'a [Registers],
    /// Which `v` registers are taken from `inputs`; bit n is `vn`.
    pub input_mask: u16,
    /// Which `o` registers are copied to the outputs after each vertex of a batch.
    pub output_mask: u16,
}

/// Runs `work` on both. `progress` receives the number of vertices of each chunk when it is done.
pub fn compare(want: NamedKernel<'_>, got: NamedKernel<'_>, work: &Work<'_>, progress: &mut dyn FnMut(u64)) -> Report {
    let mut report = Report::default();
    let mut unit = work.unit.clone();
    for (n, inputs) in work.inputs.chunks(CHUNK).enumerate() {
        let reference = Reference::run(want, &Work { unit: &unit, inputs, ..*work });
        let mut found = reference.compare(got);
        if let Some(first) = &mut found.first {
            first.move_by(n * CHUNK);
        }
        report.add(found);
        unit = reference.last_unit().clone();
        progress(inputs.len() as u64);
    }
    report
}

/// The results of the first kernel, vertex by vertex, for comparison with any number of other
/// kernels. It holds the whole state after each vertex, about 2 KiB; [`compare`] needs less memory
/// for many vertices.
pub struct Reference<'a> {
    name: &'a str,
    work: Work<'a>,
    after: Vec<After>,
}

/// The state after one vertex.
struct After {
    unit: Unit,
    outputs: Registers,
    exit: Exit,
    triangles: Triangles,
}

impl<'a> Reference<'a> {
    /// Runs `work` on `want`.
    pub fn run(want: NamedKernel<'a>, work: &Work<'a>) -> Reference<'a> {
        let mut unit = work.unit.clone();
        let vertex = |input: &Registers| {
            let mut triangles = Triangles::default();
            copy_registers(work.input_mask, input, &mut unit.v);
            let exit = want.kernel.run(work.uniforms, &mut unit, &mut triangles);
            let mut outputs = UNTOUCHED;
            copy_registers(work.output_mask, unit.outputs(), &mut outputs);
            After { unit: unit.clone(), outputs, exit, triangles }
        };
        let after = work.inputs.iter().map(vertex).collect();
        Reference { name: want.name, work: *work, after }
    }

    /// The exit of each vertex.
    pub fn exits(&self) -> impl Iterator<Item = Exit> {
        self.after.iter().map(|a| a.exit)
    }

    /// Triangles of all vertices.
    pub fn triangles(&self) -> u64 {
        self.after.iter().map(|a| u64::from(a.triangles.count)).sum()
    }

    /// Emitted vertices of all vertices.
    pub fn emitted(&self) -> u64 {
        self.after.iter().map(|a| u64::from(a.triangles.vertices)).sum()
    }

    /// The unit before vertex `n`, its inputs not yet loaded.
    pub fn unit_before(&self, n: usize) -> &Unit {
        n.checked_sub(1).map_or(self.work.unit, |n| &self.after[n].unit)
    }

    /// The unit after the last vertex.
    pub fn last_unit(&self) -> &Unit {
        self.unit_before(self.after.len())
    }

    /// Runs the same work on `got` through every entry point. Runs that are cancelled
    /// compare as equal.
    pub fn compare(&self, got: NamedKernel<'_>) -> Report {
        if self.exits().any(|exit| exit == Exit::Cancelled) {
            return Report { vertices: self.after.len() as u64, ..Report::default() };
        }
        let mut comparison = Comparison { reference: self, got, differs: vec![false; self.after.len()], first: None };
        comparison.single_runs();
        comparison.batches(&BATCHES);
        comparison.batches(&[self.after.len()]);
        let differences = comparison.differs.iter().filter(|&&d| d).count() as u64;
        Report { vertices: self.after.len() as u64, differences, first: comparison.first }
    }
}

struct Comparison<'a> {
    reference: &'a Reference<'a>,
    got: NamedKernel<'a>,
    differs: Vec<bool>,
    first: Option<Difference>,
}

impl Comparison<'_> {
    fn single_runs(&mut self) {
        let Work { uniforms, unit, inputs, input_mask, .. } = self.reference.work;
        let mut unit = unit.clone();
        for (n, (input, want)) in inputs.iter().zip(&self.reference.after).enumerate() {
            let mut triangles = Triangles::default();
            copy_registers(input_mask, input, &mut unit.v);
            let exit = self.got.kernel.run(uniforms, &mut unit, &mut triangles);
            if exit == Exit::Cancelled {
                return;
            }
            if exit == want.exit && same_unit(&want.unit, &unit) && want.triangles.same(&triangles) {
                continue;
            }
            self.record(n, How::Run, || {
                let mut rows = exit_row(want.exit, exit);
                rows.extend(unit_rows(&want.unit, &unit));
                rows.extend(want.triangles.rows(&triangles));
                rows
            });
            unit.clone_from(&want.unit);
        }
    }

    /// Runs batches of these sizes, in turn.
    fn batches(&mut self, sizes: &[usize]) {
        let count = self.reference.after.len();
        let mut start = 0;
        for &size in sizes.iter().cycle() {
            if start == count {
                break;
            }
            let size = size.min(count - start);
            self.batch(start, size);
            start += size;
        }
    }

    /// Runs the batch of `size` vertices from `first` on, starting with the reference's unit.
    fn batch(&mut self, first: usize, size: usize) {
        let Reference { work: Work { uniforms, inputs, input_mask, output_mask, .. }, after, .. } = self.reference;
        let (inputs, reference) = (&inputs[first..first + size], &after[first..first + size]);
        // Fuel ends a batch.
        let ran = reference.iter().position(|after| after.exit == Exit::Fuel).map_or(size, |n| n + 1);
        let Some(last) = reference[..ran].last() else { return };
        let how = How::Batch { first, size };
        let mut unit = self.reference.unit_before(first).clone();
        let mut triangles = Triangles::default();
        // Some batches have whole register files, others the least stride.
        let packed = (first + size).is_multiple_of(2);
        let stride = |mask| if packed { Vertices::stride_for(mask) } else { REGS };
        let emits = reference.iter().any(|after| after.triangles.vertices != 0);
        let output_mask = if emits && !(first + size).is_multiple_of(3) { 0 } else { *output_mask };
        let (input_stride, output_stride) = (stride(*input_mask), stride(output_mask));
        let inputs: Vec<Vec4> = inputs.iter().flat_map(|file| &file[..input_stride]).copied().collect();
        // One vertex more than the batch has: it must stay unwritten.
        let mut outputs = vec![UNTOUCHED[0]; (size + 1) * output_stride];
        let mut batch = Batch {
            inputs: Vertices::packed(&inputs, input_stride, size).expect("the buffer holds this many vertices"),
            outputs: VerticesMut::packed(&mut outputs, output_stride, size + 1)
                .expect("the buffer holds this many vertices"),
            input_mask: *input_mask,
            output_mask,
            // Some batches preserve the unit.
            preserve_unit: first != 0 && (!emits || output_mask != 0) && (first + size) % 4 < 2,
        };
        let preserve_unit = batch.preserve_unit;
        let exit = self.got.kernel.run_batch(uniforms, &mut unit, &mut batch, &mut triangles);
        if exit.exit == Exit::Cancelled {
            return;
        }
        let file = |row: &[Vec4]| {
            let mut file = UNTOUCHED;
            file[..output_stride].copy_from_slice(row);
            file
        };
        let outputs: Vec<Registers> = outputs.chunks(output_stride).map(file).collect();
        for (n, (after, got)) in reference.iter().zip(&outputs).enumerate() {
            let mut want = UNTOUCHED;
            if n < ran {
                copy_registers(output_mask, &after.outputs, &mut want);
            }
            let want = &want;
            if !same_registers(want, got) {
                self.record(first + n, how, || register_rows(|r| format!("output o{r}"), want, got));
            }
        }
        let reference = &reference[..ran];
        let want_unit = if preserve_unit { self.reference.unit_before(first) } else { &last.unit };
        let want_exit = match last.exit {
            Exit::Fuel => Exit::Fuel,
            _ => reference.iter().map(|a| a.exit).find(|&e| e != Exit::End).unwrap_or(Exit::End),
        };
        let BatchExit { exit, ran: got_ran } = exit;
        let mut want_triangles = Triangles::default();
        reference.iter().for_each(|a| want_triangles.append(&a.triangles));
        if exit != want_exit
            || got_ran != ran
            || !same_registers(&UNTOUCHED, &outputs[size])
            || !same_unit(want_unit, &unit)
            || !want_triangles.same(&triangles)
        {
            self.record(first + size - 1, how, || {
                let mut rows = exit_row(want_exit, exit);
                rows.extend(ran_row(ran, got_ran));
                rows.extend(register_rows(|r| format!("after the batch: o{r}"), &UNTOUCHED, &outputs[size]));
                rows.extend(unit_rows(want_unit, &unit));
                rows.extend(want_triangles.rows(&triangles));
                rows
            });
        }
    }

    fn record(&mut self, vertex: usize, how: How, rows: impl FnOnce() -> Vec<ComparedValue>) {
        self.differs[vertex] = true;
        if self.first.is_some() {
            return;
        }
        let Work { inputs, input_mask, .. } = self.reference.work;
        let taken = (0..REGS).filter(|n| input_mask >> n & 1 != 0);
        let inputs = taken.map(|n| (n, inputs[vertex][n])).collect();
        let names = [self.reference.name.to_string(), self.got.name.to_string()];
        self.first = Some(Difference { names, vertex, how, inputs, rows: rows() });
    }
}

#[cfg(test)]
mod tests;
