//! Any engine, made to run on memory that a host has laid out in its own way: one structure for everything, far apart, nothing
//! where [`Unit`] and [`Uniforms`] have it, flags that are neither 0 nor 1.

use picajit::kernel::{Backend, Config, Kernel, Unsupported};
use picajit::layout::{Bools, GeometryOffsets, HostEmitter, Image, Layout, Offsets};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, EmitState, Emitter, Exit, Registers, Uniforms, Unit};
use std::sync::Arc;

/// Offsets beyond what a displacement of 16 bits reaches, banks at a distance that is no power of two.
const OFFSETS: Offsets = Offsets {
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

/// A backend whose kernels are given such memory.
pub struct Hosted {
    backend: Arc<dyn Backend>,
    layout: Layout,
}

impl Hosted {
    pub fn new(backend: Arc<dyn Backend>) -> Hosted {
        Hosted { backend, layout: Layout::new(OFFSETS).expect("the offsets are right") }
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
        let config = Config { layout: Some(self.layout), ..*config };
        Ok(Arc::new(OnHost { kernel: self.backend.compile(program, entry, &config)?, layout: self.layout }))
    }
}

/// The host's slots.
struct Slots<'a> {
    slots: [Registers; 4],
    emitter: &'a mut dyn Emitter,
}

impl HostEmitter for Slots<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        self.slots[usize::from(how.vertex & 3)] = *outputs;
        if how.primitive {
            self.emitter.triangle([&self.slots[0], &self.slots[1], &self.slots[2]], how.winding);
        }
    }
}

impl OnHost {
    fn on_host(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        run: impl FnOnce(&dyn Kernel, &picajit::layout::Host<'_>, &mut dyn HostEmitter) -> Exit,
    ) -> Exit {
        let mut slots = Slots { slots: unit.slots, emitter };
        let mut image = Image::new(self.layout, unit, uniforms);
        let (exit, after) = image.with(|host| {
            // Whatever is not 0 is true.
            for at in OFFSETS.cmp {
                let flag = &host.unit()[at as usize];
                flag.set(flag.get() * 0x82);
            }
            let exit = run(&*self.kernel, host, &mut slots);
            (exit, host.load())
        });
        let same = |a: &[[f32; 4]], b: &[[f32; 4]]| {
            a.as_flattened().iter().zip(b.as_flattened()).all(|(a, b)| a.to_bits() == b.to_bits())
        };
        assert!(
            same(&after.1.c, &uniforms.c) && (after.1.i, after.1.b) == (uniforms.i, uniforms.b),
            "uniforms changed"
        );
        *unit = Unit { slots: slots.slots, ..after.0 };
        exit
    }
}

impl Kernel for OnHost {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        self.on_host(uniforms, unit, emitter, |kernel, host, slots| kernel.run_on(host, slots))
    }

    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> Exit {
        self.on_host(uniforms, unit, emitter, |kernel, host, slots| kernel.run_batch_on(host, batch, slots))
    }

    fn stats(&self) -> picajit::kernel::KernelStats {
        self.kernel.stats()
    }
}
