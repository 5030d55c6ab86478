//! Registers and uniforms of ours -> memory of ours that is laid out as a host's, and back: for engines that were made for such
//! memory and are given a [`Unit`], and for those who try a layout out. It must not know who runs, nor how.

use super::host::{Host, HostEmitter};
use super::offsets::{Layout, Offsets, VEC4};
use crate::state::{EmitState, Emitter, Exit, Registers, Uniforms, Unit};
use std::cell::Cell;

/// Memory of our own, laid out as a host's. Bytes that no field has are 0xA5.
pub struct Image {
    layout: Layout,
    /// Both blocks, and as much behind each as it takes to align it.
    memory: [Vec<u8>; 2],
}

impl Image {
    /// Holds a copy of this.
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

    /// What is done on it as a host's memory.
    pub fn with<T>(&mut self, f: impl FnOnce(&Host<'_>) -> T) -> T {
        let [unit, uniforms] = self.memory.each_mut().map(|bytes| {
            let start = bytes.as_ptr().addr().wrapping_neg() % VEC4 as usize;
            let end = start + bytes.len() - VEC4 as usize;
            Cell::from_mut(&mut bytes[start..end]).as_slice_of_cells()
        });
        f(&Host::new(&self.layout, unit, uniforms).expect("made for this layout"))
    }

    /// Runs `work` on a copy of `unit` that is laid out so; what it leaves and emits goes to `unit` and `emitter`. The inverse of
    /// running on copies of a host's memory.
    // Kilobytes of stack, which whoever also has a faster way must not pay for.
    #[inline(never)]
    pub fn run(
        layout: Layout,
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        work: impl FnOnce(&Host<'_>, &mut dyn HostEmitter) -> Exit,
    ) -> Exit {
        let mut slots = Slots { slots: unit.slots, emitter };
        let (exit, after) = Image::new(layout, unit, uniforms).with(|host| {
            let exit = work(host, &mut slots);
            (exit, host.load().0)
        });
        // With one bank the current one went there and comes back; of the rest nothing did.
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

/// What a host does with what is emitted.
struct Slots<'a> {
    slots: [Registers; 4],
    emitter: &'a mut dyn Emitter,
}

impl HostEmitter for Slots<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        how.emit(outputs, &mut self.slots, self.emitter);
    }
}
