//! Any engine, running on memory in a host's layout: fields far apart, no offset equal to that in
//! [`Unit`] and [`Uniforms`], flags that are neither 0 nor 1.

use picajit::internals::kernel::{Backend, Config, Kernel, KernelStats, NextKernel, Unsupported};
use picajit::layout::{Bools, GeometryOffsets, HostEmitter, HostMemory, Image, Layout, Offsets};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, BatchExit, Exit};
use std::cell::Cell;
use std::sync::Arc;

/// Offsets beyond what a displacement of 16 bits reaches, banks at a distance that is no power of
/// two.
const FAR: Offsets = Offsets {
    unit_bytes: 0x1_4000,
    v: 0x20,
    r: 0x1_2340,
    o: 0x1000,
    geometry: Some(GeometryOffsets { bank_stride: 0x130, bank: 0x1A, vertex: 7, primitive: 0x1_3FFF, winding: 0 }),
    a0: [0x1_0000, 0x14],
    al: 8,
    cmp: [0x13, 0xF_F01],
    uniforms_bytes: 0x2000,
    c: 0x900,
    i: 0x801,
    b: Bools::Bytes(0xF3),
};

/// A smaller layout, with less memory to check after each run.
const NEAR: Offsets = Offsets {
    unit_bytes: 0x800,
    r: 0x360,
    o: 0x130,
    geometry: Some(GeometryOffsets { bank_stride: 0x110, bank: 0x1A, vertex: 7, primitive: 0x7FF, winding: 0 }),
    a0: [0x704, 0x14],
    cmp: [0x13, 0x703],
    uniforms_bytes: 0x680,
    c: 0x40,
    i: 1,
    b: Bools::Bytes(0x13),
    ..FAR
};

/// A backend whose kernels run on such memory.
pub struct Hosted {
    backend: Arc<dyn Backend>,
    near: Layout,
    far: Layout,
}

impl Hosted {
    pub fn new(backend: Arc<dyn Backend>) -> Hosted {
        let [near, far] = [NEAR, FAR].map(|offsets| Layout::new(offsets).expect("the offsets are right"));
        Hosted { backend, near, far }
    }
}

struct OnHost {
    kernel: Arc<dyn Kernel>,
    layout: Layout,
}

impl Backend for Hosted {
    fn name(&self) -> &'static str {
        "hosted"
    }

    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        let layout = if program.code().len().is_multiple_of(8) { self.far } else { self.near };
        let config = Config { layout: Some(layout), ..*config };
        Ok(Arc::new(OnHost { kernel: self.backend.compile(program, entry, &config)?, layout }))
    }
}

impl OnHost {
    /// Runs `run` on an image of this memory.
    fn on_image<T>(&self, memory: &HostMemory<'_>, run: impl FnOnce(&dyn Kernel, &HostMemory<'_>) -> T) -> T {
        let offsets = self.layout.offsets();
        let geometry = offsets.geometry.expect("there");
        let (unit, uniforms) = memory.load();
        let before = unit.bank;
        let mut image = Image::new(self.layout, &unit, &uniforms);
        image.with_cells(|host, registers, constants| {
            // Any value but 0 is true.
            for at in offsets.cmp.into_iter().chain([geometry.primitive, geometry.winding]) {
                let flag = &registers[at as usize];
                flag.set(flag.get() * 0x82);
            }
            // Only one bit of the bank has a meaning.
            let bank = &registers[geometry.bank as usize];
            bank.set(before | 0xFE);
            let exit = run(&*self.kernel, host);
            if bank.get() == before | 0xFE {
                bank.set(before);
            }
            // Only the fields were written.
            let (after, _) = host.load();
            host.store(&after);
            Image::new(self.layout, &after, &uniforms).with_cells(|_, clean_registers, clean_constants| {
                let bytes = |memory: &[Cell<u8>]| memory.iter().map(Cell::get).collect::<Vec<u8>>();
                assert!(bytes(registers) == bytes(clean_registers), "memory outside the registers was written");
                assert!(bytes(constants) == bytes(clean_constants), "uniforms were written");
            });
            memory.store(&after);
            exit
        })
    }
}

impl Kernel for OnHost {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        self.on_image(memory, |kernel, host| kernel.run_on(host, emitter))
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        next: &dyn NextKernel,
    ) -> BatchExit {
        self.on_image(memory, |kernel, host| kernel.run_batch_on(host, batch, emitter, next))
    }

    fn stats(&self) -> KernelStats {
        self.kernel.stats()
    }
}
