//! A batch: groups of independent vertices through [`Group`], or vertices in order.
//!
//! Invariant: the result is as if the vertices ran in order on the unit. Groups read the unit
//! before they run and write it when the batch ends, so vertices that run alone in between find it
//! as the group before leaves it.

use super::arith::{Format, Lanes};
use super::code::{Code, Register};
use super::columns::{LANES, QUADS};
use super::group::{Bailout, Group, first_exit};
use super::lane_ints::LaneInts;
use super::vertex::{self, narrow};
use crate::isa::FLOAT_UNIFORMS;
use crate::isa::float24::is_subnormal;
use crate::isa::numeric::Precision;
use crate::layout::{File, HostEmitter, HostMemory};
use crate::state::{Batch, BatchExit, Vec4};
use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x4, mask32x4};
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// A group, reused from batch to batch.
    static GROUP: Cell<Option<Box<Group>>> = const { Cell::new(None) };
}

/// Fewer vertices run in order: the set-up of a group takes longer.
const LEAST_GROUP: usize = 8;

/// Counts for [`KernelStats`](crate::kernel::KernelStats).
#[derive(Default)]
pub struct Counts {
    /// Groups that ran.
    pub groups: u32,
    /// Groups that bailed out.
    pub bailouts: u32,
}

/// Runs all vertices of a batch.
#[inline(always)]
pub fn run<S: Simd, V: Lanes<S>, F: Format>(
    simd: S,
    format: F,
    code: &Code,
    (memory, emitter): (&HostMemory<'_>, &mut dyn HostEmitter),
    batch: &mut Batch<'_>,
    counts: &mut Counts,
) -> BatchExit {
    let count = batch.len();
    if count == 0 {
        return BatchExit::NONE;
    }
    let in_groups = count >= LEAST_GROUP && code.usage.dependence.is_none();
    let mut run = BatchRun { simd, format, code, memory, emitter, result: BatchExit::NONE };
    if !in_groups {
        run.in_order_preserving(batch, 0..count);
        return run.result;
    }
    let mut group = GROUP.take().unwrap_or_else(|| Box::new(Group::new()));
    run.groups::<V>(&mut group, batch, counts);
    GROUP.set(Some(group));
    run.result
}

/// A batch that runs.
struct BatchRun<'a, 'm, S, F> {
    simd: S,
    format: F,
    code: &'a Code,
    memory: &'a HostMemory<'m>,
    emitter: &'a mut dyn HostEmitter,
    result: BatchExit,
}

impl<S: Simd, F: Format> BatchRun<'_, '_, S, F> {
    /// Vertices in order, on a copy of the unit if the batch preserves it.
    #[inline(never)]
    fn in_order_preserving(&mut self, batch: &mut Batch<'_>, range: Range<usize>) {
        match batch.preserve_unit {
            true => self.memory.preserving_unit(|| self.in_order(batch, range)),
            false => self.in_order(batch, range),
        }
    }

    fn in_order(&mut self, batch: &mut Batch<'_>, range: Range<usize>) {
        let (input_mask, output_mask) = (batch.inputs_taken(), batch.outputs_wanted());
        for n in range {
            if self.code.is_cancelled() {
                self.result.cancel();
                return;
            }
            self.memory.take_inputs(input_mask, &batch.inputs[n]);
            let exit = vertex::run(self.format, self.code, self.memory, self.emitter);
            self.memory.copy_outputs(output_mask, &mut batch.outputs[n]);
            if !self.result.count(exit) {
                return;
            }
        }
    }

    #[inline(always)]
    fn groups<V: Lanes<S>>(&mut self, group: &mut Group, batch: &mut Batch<'_>, counts: &mut Counts) {
        let (memory, count) = (self.memory, batch.len());
        let mut carried = Carried::new(self.code, memory, std::mem::take(&mut group.carried));
        let is_normal = prepare(self.code, group, memory, batch);
        let mut at = 0;
        while at < count {
            let vertices = at..count.min(at + LANES);
            let is_normal = self.load_inputs(group, batch, vertices.clone()) && is_normal;
            let format = self.format.assuming_normal(is_normal);
            group.columns.begin(vertices.len());
            let exits = match self.code.is_cancelled() {
                true => Err(Bailout),
                false => group.run::<S, V, F>(self.simd, format, self.code, vertices.len()),
            };
            let Ok(exits) = exits else {
                counts.bailouts += 1;
                let rest = at..count;
                if batch.preserve_unit {
                    memory.preserving_unit(|| {
                        carried.store(self.code, memory);
                        self.in_order(batch, rest);
                    });
                } else {
                    carried.store(self.code, memory);
                    self.in_order(batch, rest);
                }
                return;
            };
            counts.groups += 1;
            self.result.count_group(first_exit(&exits), vertices.len());
            at = vertices.end;
            carried.fill_outputs(self.code, group, batch.outputs_wanted(), vertices.len());
            self.store_outputs(group, batch, vertices);
            carried.take(self.code, group, at == count && !batch.preserve_unit);
        }
        if !batch.preserve_unit {
            carried.store(self.code, memory);
            // The unit keeps the last vertex's inputs.
            memory.take_inputs(batch.inputs_taken(), &batch.inputs[count - 1]);
        }
        group.carried = carried.slots;
    }

    /// The inputs of a group, transposed. Lanes after the last vertex repeat it. Whether no input is subnormal.
    #[inline(always)]
    fn load_inputs(&self, group: &mut Group, batch: &Batch<'_>, vertices: Range<usize>) -> bool {
        let mut subnormal = mask32x4::splat(self.simd, false);
        let (code, taken, stride) = (self.code, batch.inputs_taken(), batch.inputs.stride());
        let registers = batch.inputs.registers_of(vertices.clone());
        let (count, last) = (vertices.len(), vertices.len() - 1);
        for (slot, &register) in (0..).zip(&*code.registers) {
            let Register::Input(k) = register else { continue };
            if taken >> k & 1 == 0 {
                continue;
            }
            let k = usize::from(k);
            let mut columns = group.columns.quads_mut(slot);
            for quad in 0..(count.next_multiple_of(8) / 4).min(QUADS) {
                let first = 4 * quad;
                let rows = if first + 4 <= count {
                    let rows = &registers[first * stride + k..];
                    [rows[0], rows[stride], rows[2 * stride], rows[3 * stride]]
                } else {
                    let row = |n: usize| registers[n.min(last) * stride + k];
                    [row(first), row(first + 1), row(first + 2), row(first + 3)]
                };
                let [a, b, c, d] = f32x4::load_four_interleaved(self.simd, rows.as_flattened());
                for (to, component) in columns.iter_mut().zip([a, b, c, d]) {
                    let operand = self.format.operand(component);
                    subnormal |= self.format.is_subnormal(operand);
                    to[quad] = operand.to_array();
                }
            }
        }
        !subnormal.any_true()
    }

    /// The outputs of a group to the batch.
    #[inline(always)]
    fn store_outputs(&self, group: &mut Group, batch: &mut Batch<'_>, vertices: Range<usize>) {
        let (stride, mut wanted) = (batch.outputs.stride(), batch.outputs_wanted());
        let count = vertices.len();
        let outputs = batch.outputs.registers_of(vertices);
        for (slot, &register) in (0..).zip(&*self.code.registers) {
            let Register::Output(k) = register else { continue };
            if wanted >> k & 1 == 0 {
                continue;
            }
            wanted &= !(1 << k);
            let k = usize::from(k);
            let [x, y, z, w] = group.columns.quads_mut(slot);
            for quad in 0..count.div_ceil(4).min(QUADS) {
                let first = 4 * quad;
                let components = [
                    f32x4::load_array(self.simd, x[quad]),
                    f32x4::load_array(self.simd, y[quad]),
                    f32x4::load_array(self.simd, z[quad]),
                    f32x4::load_array(self.simd, w[quad]),
                ];
                let mut rows: [Vec4; 4] = [[0.0; 4]; 4];
                f32x4::store_four_interleaved(components, rows.as_flattened_mut());
                let to = &mut outputs[first * stride + k..];
                if first + 4 <= count {
                    (to[0], to[stride], to[2 * stride], to[3 * stride]) = rows.into();
                } else {
                    for n in 0..count - first {
                        to[n * stride] = rows[n];
                    }
                }
            }
        }
        // Outputs that the program does not name are the unit's.
        for k in (0..16u8).filter(|k| wanted >> k & 1 != 0) {
            let (value, k) = (self.memory.file(File::Outputs).get(k), usize::from(k));
            (0..count).for_each(|n| outputs[n * stride + k] = value);
        }
    }
}

/// Fills columns that are the same for every vertex of the batch. Whether none of them has a subnormal, or a
/// NaN, whose tail a host may have set.
fn prepare(code: &Code, group: &mut Group, memory: &HostMemory<'_>, batch: &Batch<'_>) -> bool {
    let precision = code.precision;
    let is_normal =
        |value: &Vec4| precision == Precision::F32 || value.iter().all(|&x| !is_subnormal(x) && !x.is_nan());
    let mut are_normal = true;
    group.columns.reserve(code.registers.len());
    let taken = batch.inputs_taken();
    for (slot, &register) in (0..).zip(&*code.registers) {
        let value = match register {
            Register::Input(n) if taken >> n & 1 != 0 => continue,
            Register::Input(n) => narrow(precision, memory.file(File::Inputs).get(n)),
            Register::Uniform(n) => {
                let value = narrow(precision, memory.file(File::Uniforms).get(n));
                are_normal &= is_normal(&value);
                group.columns.set_uniform(slot, value);
                continue;
            }
            Register::Temp(n) => memory.file(File::Temps).get(n),
            Register::Output(n) => memory.file(File::Outputs).get(n),
            Register::Fetched => continue,
        };
        are_normal &= is_normal(&value);
        let written = register.components_in(&code.usage.written);
        for c in (0..4).filter(|c| written >> c & 1 == 0) {
            group.columns.column_mut(slot, c).fill(value[c]);
        }
    }
    group.columns.flags = memory.flags().map(|flag| if flag != 0 { !0 } else { 0 });
    group.addresses = memory.address_registers().map(LaneInts::Uniform);
    group.bools = memory.bools();
    group.ints = [0, 1, 2, 3].map(|n| memory.int(n));
    if code.fetches {
        let uniforms = (0..FLOAT_UNIFORMS as u8).map(|n| narrow(precision, memory.file(File::Uniforms).get(n)));
        group.uniforms.clear();
        group.uniforms.extend(uniforms);
        are_normal &= group.uniforms.iter().all(is_normal);
    }
    are_normal
}

/// The registers, flags and address registers that vertices so far leave.
struct Carried {
    /// By slot; only slots that are written.
    slots: Vec<Vec4>,
    flags: [u8; 2],
    addresses: [i32; 3],
}

impl Carried {
    /// What the batch finds. `slots` is memory of an earlier batch.
    fn new(code: &Code, memory: &HostMemory<'_>, mut slots: Vec<Vec4>) -> Carried {
        let values = code.registers.iter().map(|&register| match register {
            Register::Temp(n) => memory.file(File::Temps).get(n),
            Register::Output(n) => memory.file(File::Outputs).get(n),
            Register::Input(_) | Register::Uniform(_) | Register::Fetched => [0.0; 4],
        });
        slots.clear();
        slots.extend(values);
        Carried { slots, flags: memory.flags(), addresses: memory.address_registers() }
    }

    /// Outputs that a vertex kept are those of the vertex before.
    fn fill_outputs(&self, code: &Code, group: &mut Group, wanted: u16, count: usize) {
        for (slot, &register) in (0..).zip(&*code.registers) {
            let Register::Output(n) = register else { continue };
            let kept = register.components_in(&code.usage.kept);
            for c in (0..4).filter(|c| wanted >> n & 1 != 0 && kept >> c & 1 != 0) {
                let written = group.columns.written(slot, c);
                let mut value = self.slots[usize::from(slot)][c];
                for (lane, x) in group.columns.column_mut(slot, c)[..count].iter_mut().enumerate() {
                    if written >> lane & 1 != 0 {
                        value = *x;
                    } else {
                        *x = value;
                    }
                }
            }
        }
    }

    /// What a group leaves: of every component that it wrote the value of the last lane. Unless it
    /// is the batch's last group, only components that a later group may keep.
    fn take(&mut self, code: &Code, group: &Group, last: bool) {
        let usage = &code.usage;
        for (slot, &register) in (0..).zip(&*code.registers) {
            let components = register.components_in(if last { &usage.written } else { &usage.kept });
            for c in (0..4).filter(|c| components >> c & 1 != 0) {
                if let Some(lane) = last_lane(group.columns.written(slot, c)) {
                    self.slots[usize::from(slot)][c] = group.columns.column(slot, c)[lane];
                }
            }
        }
        if let Some(lane) = last_lane(group.columns.flags_written) {
            self.flags = group.columns.flags.map(|flags| (flags >> lane & 1) as u8);
        }
        for (n, address) in self.addresses.iter_mut().enumerate() {
            if let Some(lane) = last_lane(group.addresses_written[n]) {
                *address = group.addresses[n].get(lane);
            }
        }
    }

    fn store(&self, code: &Code, memory: &HostMemory<'_>) {
        vertex::store(code, memory, &self.slots);
        vertex::store_state(code, memory, &self.addresses, self.flags);
    }
}

fn last_lane(lanes: u64) -> Option<usize> {
    lanes.checked_ilog2().map(|n| n as usize)
}
