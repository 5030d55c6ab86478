//! A [`Unit`] and [`Uniforms`] -> memory in another layout, and back: for crosschecks, which compare
//! on units, and for tests.

#[cfg(test)]
use super::HostEmitter;
use super::{Bools, HostMemory, Layout, Offsets};
#[cfg(test)]
use crate::state::Emitter;
use crate::state::{Uniforms, Unit};
use std::cell::Cell;

/// Memory in a layout. Bytes outside all fields are 0xA5.
pub struct Image {
    layout: Layout,
    /// Both blocks, each with padding to align it.
    memory: [Vec<u8>; 2],
}

impl Image {
    /// An image of `unit` and `uniforms`.
    pub fn new(layout: Layout, unit: &Unit, uniforms: &Uniforms) -> Image {
        let Offsets { unit_bytes, uniforms_bytes, c, i, b, .. } = *layout.offsets();
        let memory = [unit_bytes, uniforms_bytes].map(|bytes| vec![0xA5; bytes as usize + 16]);
        let mut image = Image { layout, memory };
        image.with_cells(|memory, _, constants| {
            memory.store(unit);
            let put = |at: u32, bytes: &[u8]| {
                constants[at as usize..].iter().zip(bytes).for_each(|(cell, byte)| cell.set(*byte));
            };
            (0..).zip(uniforms.c.as_flattened()).for_each(|(n, x)| put(c + 4 * n, &x.to_ne_bytes()));
            put(i, uniforms.i.as_flattened());
            match b {
                Bools::Mask(at) => put(at, &uniforms.b.to_ne_bytes()),
                Bools::Bytes(at) => put(at, &std::array::from_fn::<u8, 16, _>(|n| (uniforms.b >> n & 1) as u8)),
            }
        });
        image
    }

    /// Calls `f` with the memory.
    pub fn with<T>(&mut self, f: impl FnOnce(&HostMemory<'_>) -> T) -> T {
        self.with_cells(|memory, _, _| f(memory))
    }

    /// Calls `f` with the memory and the bytes of both blocks.
    pub fn with_cells<T>(&mut self, f: impl FnOnce(&HostMemory<'_>, &[Cell<u8>], &[Cell<u8>]) -> T) -> T {
        let [unit, uniforms] = self.memory.each_mut().map(|bytes| {
            let start = bytes.as_ptr().addr().wrapping_neg() % 16;
            let end = start + bytes.len() - 16;
            Cell::from_mut(&mut bytes[start..end]).as_slice_of_cells()
        });
        f(&HostMemory::new(&self.layout, unit, uniforms).expect("made for this layout"), unit, uniforms)
    }

    /// Runs `work` on a copy of `memory` in `layout`. The resulting state goes back.
    // Not inlined: the copies take kilobytes of stack, which a caller's fast path must not reserve.
    #[inline(never)]
    pub fn of<T>(memory: &HostMemory<'_>, layout: Layout, work: impl FnOnce(&HostMemory<'_>) -> T) -> T {
        let (unit, uniforms) = memory.load();
        Image::new(layout, &unit, &uniforms).with(|copy| {
            let result = work(copy);
            let (after, _) = copy.load();
            memory.store(&match layout.offsets().geometry {
                Some(_) => after,
                // It receives and returns the current bank only; the other state is unchanged.
                None => {
                    let mut o = unit.o;
                    o[usize::from(unit.bank & 1)] = after.o[0];
                    Unit { o, bank: unit.bank, setemit: unit.setemit, ..after }
                }
            });
            result
        })
    }

    /// [`Image::of`] a unit and uniforms.
    #[cfg(test)]
    pub(crate) fn run<T>(
        layout: Layout,
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        work: impl FnOnce(&HostMemory<'_>, &mut dyn HostEmitter) -> T,
    ) -> T {
        HostMemory::with_unit(uniforms, unit, emitter, false, |memory, emitter| {
            Image::of(memory, layout, |copy| work(copy, emitter))
        })
    }
}
