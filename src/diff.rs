//! Two kernels and one workload -> [`Report`]: on how many vertices they differ, and the first difference with the
//! registers of both side by side.
//!
//! Every vertex is run four times by the second kernel: through `run`, through `run_batch` in batches of mixed sizes,
//! through `run_batch` with all vertices of a chunk, and in batches whose registers lie by components; batches up to an even vertex have no more registers each than the masks
//! ask for. The first kernel runs once, vertex by vertex, which is what a
//! batch means. Equal are the same bits, or two NaN; everything counts: registers, both output banks, vertex slots,
//! addresses, flags, bank, `SETEMIT`'s parameters, copied outputs, triangles, exit. After a difference the second kernel
//! continues from the first one's state, so that each counts once. It must not know which kernels there are.

mod report;
mod triangles;

use crate::isa::REGS;
use crate::kernel::{Kernel, copy_registers};
use crate::state::{Batch, Exit, Registers, Uniforms, Unit, Vec4, VertexLayout, Vertices, VerticesMut};
pub use report::{ComparedValue, Difference, How, Report};
use report::{exit_row, register_rows, same_registers, same_unit, unit_rows};
use triangles::Triangles;

/// Vertices whose states are kept at a time.
const CHUNK: usize = 64;
/// Sizes of the mixed batches, around the lane widths that engines may have. One round of them is a chunk.
const BATCHES: [usize; 6] = [1, 3, 4, 5, 17, 34];
/// The same of those that lie by components.
const TURNED: [usize; 4] = [8, 4, 20, 32];
/// What outputs hold before a batch: nothing that a program computes by chance, so that what is left alone shows.
pub(crate) const UNTOUCHED: Registers = [[-12_345.678; 4]; 16];

/// A kernel and the name it goes by in a report.
#[derive(Clone, Copy)]
pub struct NamedKernel<'a> {
    /// The name.
    pub name: &'a str,
    /// The kernel.
    pub kernel: &'a dyn Kernel,
}

/// What both kernels are given.
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
    /// Which `o` registers are copied away after each vertex of a batch.
    pub output_mask: u16,
}

/// Runs `work` on both. `progress` is called with the number of vertices that have just been done.
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

/// What the first kernel makes of some work, vertex by vertex, for any number of other kernels to be held against. It keeps
/// the whole state after each vertex, some 2 KiB; [`compare`] does with less for many vertices.
pub struct Reference<'a> {
    name: &'a str,
    work: Work<'a>,
    after: Vec<After>,
}

/// What a kernel left behind after one vertex.
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

    /// How each vertex ended.
    pub fn exits(&self) -> impl Iterator<Item = Exit> {
        self.after.iter().map(|a| a.exit)
    }

    /// Triangles that were sent in all.
    pub fn triangles(&self) -> u64 {
        self.after.iter().map(|a| u64::from(a.triangles.count)).sum()
    }

    /// The unit before vertex `n`, its inputs not yet loaded.
    pub fn unit_before(&self, n: usize) -> &Unit {
        n.checked_sub(1).map_or(self.work.unit, |n| &self.after[n].unit)
    }

    /// The unit after the last vertex.
    pub fn last_unit(&self) -> &Unit {
        self.unit_before(self.after.len())
    }

    /// Runs the same work on `got` in every way.
    pub fn compare(&self, got: NamedKernel<'_>) -> Report {
        let mut against = Against { reference: self, got, differs: vec![false; self.after.len()], first: None };
        against.alone();
        against.batches(&BATCHES, VertexLayout::Aos);
        against.batches(&[self.after.len()], VertexLayout::Aos);
        against.batches(&TURNED, VertexLayout::Soa);
        let differences = against.differs.iter().filter(|&&d| d).count() as u64;
        Report { vertices: self.after.len() as u64, differences, first: against.first }
    }
}

struct Against<'a> {
    reference: &'a Reference<'a>,
    got: NamedKernel<'a>,
    differs: Vec<bool>,
    first: Option<Difference>,
}

impl Against<'_> {
    fn alone(&mut self) {
        let Work { uniforms, unit, inputs, input_mask, .. } = self.reference.work;
        let mut unit = unit.clone();
        for (n, (input, want)) in inputs.iter().zip(&self.reference.after).enumerate() {
            let mut triangles = Triangles::default();
            copy_registers(input_mask, input, &mut unit.v);
            let exit = self.got.kernel.run(uniforms, &mut unit, &mut triangles);
            if exit == want.exit && same_unit(&want.unit, &unit) && want.triangles.same(&triangles) {
                continue;
            }
            self.found(n, How::Run, || {
                let mut rows = exit_row(want.exit, exit);
                rows.extend(unit_rows(&want.unit, &unit));
                rows.extend(want.triangles.rows(&triangles));
                rows
            });
            unit.clone_from(&want.unit);
        }
    }

    /// Of whole blocks, by components.
    fn batches(&mut self, sizes: &[usize], layout: VertexLayout) {
        let count = match self.reference.after.len() {
            count if layout == VertexLayout::Soa => count / 4 * 4,
            count => count,
        };
        let mut start = 0;
        for &size in sizes.iter().cycle() {
            if start == count {
                break;
            }
            let size = size.min(count - start);
            self.batch(start, size, layout);
            start += size;
        }
    }

    /// The batch of `size` vertices that begins with `first`, from the unit on that the first kernel has there.
    fn batch(&mut self, first: usize, size: usize, layout: VertexLayout) {
        let Reference { work: Work { uniforms, inputs, input_mask, output_mask, .. }, after, .. } = self.reference;
        let (inputs, reference) = (&inputs[first..first + size], &after[first..first + size]);
        let Some(last) = reference.last() else { return };
        let how = How::Batch { first, size, layout };
        let mut unit = self.reference.unit_before(first).clone();
        let mut triangles = Triangles::default();
        // Some batches have whole register files, and some no more of them than it takes.
        let packed = (first + size).is_multiple_of(2);
        let stride = |mask| if packed { Vertices::stride_for(mask) } else { REGS };
        let (input_stride, output_stride) = (stride(*input_mask), stride(*output_mask));
        let soa = layout == VertexLayout::Soa;
        let mut inputs: Vec<Vec4> = inputs.iter().flat_map(|file| &file[..input_stride]).copied().collect();
        if soa {
            inputs.chunks_mut(4 * input_stride).for_each(turn_to_components);
        }
        // One place more than there are vertices: it must be left alone.
        let mut outputs = vec![UNTOUCHED[0]; (size + 1) * output_stride];
        let mut batch = Batch {
            inputs: Vertices::packed(&inputs, input_stride, size).expect("so many"),
            outputs: VerticesMut::packed(&mut outputs, output_stride, size + 1).expect("so many"),
            input_mask: *input_mask,
            output_mask: *output_mask,
            // Some leave the unit as it is.
            preserve_unit: first != 0 && if soa { (first + size).is_multiple_of(8) } else { (first + size) % 4 < 2 },
            layout,
        };
        let preserve_unit = batch.preserve_unit;
        let exit = self.got.kernel.run_batch(uniforms, &mut unit, &mut batch, &mut triangles);
        let file = |row: &[Vec4]| {
            let mut file = UNTOUCHED;
            file[..output_stride].copy_from_slice(row);
            file
        };
        if soa {
            outputs[..size * output_stride].chunks_mut(4 * output_stride).for_each(turn_to_registers);
        }
        let outputs: Vec<Registers> = outputs.chunks(output_stride).map(file).collect();
        for (n, (want, got)) in reference.iter().zip(&outputs).enumerate() {
            if !same_registers(&want.outputs, got) {
                self.found(first + n, how, || register_rows(|r| format!("output o{r}"), &want.outputs, got));
            }
        }
        let want_unit = if preserve_unit { self.reference.unit_before(first) } else { &last.unit };
        let want_exit = reference.iter().map(|a| a.exit).find(|&e| e != Exit::End).unwrap_or(Exit::End);
        let mut want_triangles = Triangles::default();
        reference.iter().for_each(|a| want_triangles.append(&a.triangles));
        if exit != want_exit
            || !same_registers(&UNTOUCHED, &outputs[size])
            || !same_unit(want_unit, &unit)
            || !want_triangles.same(&triangles)
        {
            self.found(first + size - 1, how, || {
                let mut rows = exit_row(want_exit, exit);
                rows.extend(register_rows(|r| format!("behind the batch: o{r}"), &UNTOUCHED, &outputs[size]));
                rows.extend(unit_rows(want_unit, &unit));
                rows.extend(want_triangles.rows(&triangles));
                rows
            });
        }
    }

    fn found(&mut self, vertex: usize, how: How, rows: impl FnOnce() -> Vec<ComparedValue>) {
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

/// Registers of four vertices, in a row, to a block of their components.
fn turn_to_components(block: &mut [Vec4]) {
    let (stride, registers) = (block.len() / 4, block.to_vec());
    for (at, vector) in block.iter_mut().enumerate() {
        *vector = [0, 1, 2, 3].map(|vertex| registers[vertex * stride + at / 4][at % 4]);
    }
}

/// And back.
fn turn_to_registers(block: &mut [Vec4]) {
    let (stride, components) = (block.len() / 4, block.to_vec());
    for (at, vector) in block.iter_mut().enumerate() {
        *vector = [0, 1, 2, 3].map(|c| components[at % stride * 4 + c][at / stride]);
    }
}

#[cfg(test)]
mod tests;
