//! A [`Unit`] and [`Uniforms`] -> memory of our own in a host's layout, and back. It serves kernels
//! compiled for a layout that receive a [`Unit`], and hosts that test a layout.

use super::host::{Host, HostEmitter};
use super::offsets::{Layout, Offsets, VEC4};
use crate::state::{EmitState, Emitter, Registers, Uniforms, Unit};
use std::cell::Cell;

/// Memory of our own in a host's layout. Bytes outside all fields are 0xA5.
pub struct Image {
    layout: Layout,
    /// Both blocks, each with padding to align it.
    memory: [Vec<u8>; 2],
}

impl Image {
    /// An image of `unit` and `uniforms`.
    pub fn new(layout: Layout, unit: &Unit, uniforms: &Uniforms) -> Image {
        let Offsets { unit_bytes, uniforms_bytes, .. } = layout.0;
        let memory = [unit_bytes, uniforms_bytes].map(|bytes| vec![0xA5; bytes as usize + VEC4 as usize]);
        let mut image = Image { layout, memory };
        image.with(|host| {
            host.store(unit);
            host.store_uniforms(uniforms);
        });
        image
    }

    /// Calls `f` with the image as a host's memory.
    pub fn with<T>(&mut self, f: impl FnOnce(&Host<'_>) -> T) -> T {
        let [unit, uniforms] = self.memory.each_mut().map(|bytes| {
            let start = bytes.as_ptr().addr().wrapping_neg() % VEC4 as usize;
            let end = start + bytes.len() - VEC4 as usize;
            Cell::from_mut(&mut bytes[start..end]).as_slice_of_cells()
        });
        f(&Host::new(&self.layout, unit, uniforms).expect("made for this layout"))
    }

    /// Runs `work` on an image of `unit`. The resulting state goes back to `unit`, and triangles to
    /// `emitter`.
    // Not inlined: it needs kilobytes of stack, which callers with a faster path must not pay for.
    #[inline(never)]
    pub fn run<T>(
        layout: Layout,
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        work: impl FnOnce(&Host<'_>, &mut dyn HostEmitter) -> T,
    ) -> T {
        let mut slots = Slots { slots: unit.slots, emitter };
        let (exit, after) = Image::new(layout, unit, uniforms).with(|host| {
            let exit = work(host, &mut slots);
            (exit, host.load().0)
        });
        // A layout with one bank receives and returns the current bank only; the other state is
        // unchanged.
        *unit = match layout.offsets().geometry {
            Some(_) => Unit { slots: slots.slots, ..after },
            None => {
                let mut o = unit.o;
                o[usize::from(unit.bank & 1)] = after.o[0];
                Unit { slots: slots.slots, o, bank: unit.bank, setemit: unit.setemit, ..after }
            }
        };
        exit
    }
}

/// A host's vertex slots, filled as by [`Unit::emit`].
struct Slots<'a> {
    slots: [Registers; 4],
    emitter: &'a mut dyn Emitter,
}

impl HostEmitter for Slots<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        how.emit(outputs, &mut self.slots, self.emitter);
    }
}
