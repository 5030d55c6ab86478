//! Buffers of emitted vertices: memory that emitters lend, and panics while a buffer is emptied.

use super::*;
use crate::layout::Image;
use crate::layout::{HostEmitter, Layout};
use crate::state::{EmitState, EmittedVertex};
use std::cell::Cell;

/// Emits 1, 2, 3 ... in slot 1, 41 times.
const COUNTING: &str = ".gsh point c0\n.setf c0(1.0, 1.0, 1.0, 1.0)\n.seti i0(40, 0, 1, 0)\n.proc main\n setemit 1, prim\n \
                        for i0\n add r0, c0, r0\n mov o0, r0\n emit\n .end\n end\n.end";

fn counting() -> (NativeKernel, Uniforms) {
    let jit = Jit::new(Variant::Vec4).expect("tests run where there is native code");
    let (program, entry) = program(COUNTING);
    let config = Config { layout: Some(Layout::OWN), ..Config::default() };
    let mut uniforms = Uniforms::new();
    (uniforms.c[0], uniforms.i[0]) = ([1.0; 4], [40, 0, 1, 0]);
    (jit.compile_native(&program, entry, &config).expect("native"), uniforms)
}

/// Lends parts of its memory, of the sizes in `sizes` and then none.
struct Lender<'a> {
    memory: &'a [Cell<EmittedVertex>],
    sizes: Vec<usize>,
    received: Vec<f32>,
    full: usize,
    single: usize,
}

impl HostEmitter for Lender<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        assert_eq!(how, EmitState { vertex: 1, primitive: true, winding: false });
        self.received.push(outputs[0][0]);
        self.single += 1;
    }

    fn buffer(&mut self) -> Option<&[Cell<EmittedVertex>]> {
        Some(&self.memory[..self.sizes.pop().unwrap_or(0)])
    }

    fn stored(&mut self, count: usize, full: bool) {
        self.received.extend(self.memory[..count].iter().map(|vertex| vertex.get().outputs[0][0]));
        self.full += usize::from(full);
    }
}

#[test]
fn vertices_arrive_in_order_whatever_memory_an_emitter_lends() {
    let (kernel, uniforms) = counting();
    let mut memory = vec![EmittedVertex::default(); 64];
    let memory = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
    for (sizes, full, single) in [
        (vec![41], 0, 0),
        (vec![64], 0, 0),
        (vec![0, 41], 0, 0),
        (vec![40, 1], 1, 0),
        (vec![64, 0], 1, 0),
        // Without memory, vertices pass through the runtime's own.
        (vec![0, 10], 1, 31),
        (vec![64, 0, 10], 1, 16),
        (vec![64, 1, 1, 1], 3, 0),
        (vec![], 1, 41),
    ] {
        let lender = Lender { memory, sizes: sizes.clone(), received: Vec::new(), full: 0, single: 0 };
        let mut lender = lender;
        let exit = Image::new(Layout::OWN, &Unit::new(), &uniforms).with(|host| kernel.run_on(host, &mut lender));
        assert_eq!(exit, Some(Exit::End));
        let want: Vec<f32> = (1..=41).map(|n| n as f32).collect();
        assert_eq!(lender.received, want, "{sizes:?}");
        assert_eq!((lender.full, lender.single), (full, single), "{sizes:?}");
    }
}

#[test]
fn flags_that_a_host_left_arrive_as_0_or_1() {
    // SETEMIT is the host's: true is any byte but 0.
    let jit = Jit::new(Variant::Vec4).expect("tests run where there is native code");
    let (program, entry) = program(".gsh point c0\n.proc main\n mov o0, v0\n emit\n end\n.end");
    let config = Config { layout: Some(Layout::OWN), ..Config::default() };
    let kernel = jit.compile_native(&program, entry, &config).expect("native");
    let mut memory = [EmittedVertex::default()];
    let memory = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
    let lender = Lender { memory, sizes: vec![1], received: Vec::new(), full: 0, single: 0 };
    let mut lender = lender;
    let exit = Image::new(Layout::OWN, &Unit::new(), &Uniforms::new()).with_cells(|host, unit, _| {
        let geometry = Layout::OWN.offsets().geometry.expect("our own units emit");
        for (at, byte) in [(geometry.vertex, 0xF6), (geometry.primitive, 0x80), (geometry.winding, 2)] {
            unit[at as usize].set(byte);
        }
        kernel.run_on(host, &mut lender)
    });
    assert_eq!((exit, lender.received.len()), (Some(Exit::End), 1));
    let EmittedVertex { vertex, primitive, winding, .. } = memory[0].get();
    assert_eq!((vertex, primitive, winding), (2, 1, 1));
}

#[test]
fn a_run_without_room_is_exact_and_so_are_later_ones_with_as_little() {
    let jit = Jit::new(Variant::Vec4).expect("tests run where there is native code");
    let (program, entry) = program(&COUNTING.replace("mov o0, r0", "mul o0, c1, r0"));
    let config = Config { layout: Some(Layout::OWN), ..Config::default() };
    let kernel = jit.compile_native(&program, entry, &config).expect("native");
    let mut uniforms = Uniforms::new();
    (uniforms.c[0], uniforms.c[1], uniforms.i[0]) = ([1.0; 4], [1.0; 4], [40, 0, 1, 0]);
    let mut memory = vec![EmittedVertex::default(); 64];
    let memory = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
    // The last size is the first that is lent; exact code asks again.
    for (sizes, requests, room) in
        [(vec![64], 1, 0), (vec![64, 3], 2, 4), (vec![64, 2], 2, 4), (vec![64, 4], 2, 5), (vec![64], 1, 5)]
    {
        let lent = sizes.len();
        let mut lender = Lender { memory, sizes, received: Vec::new(), full: 0, single: 0 };
        let exit = Image::new(Layout::OWN, &Unit::new(), &uniforms).with(|host| kernel.run_on(host, &mut lender));
        let want: Vec<f32> = (1..=41).map(|n| n as f32).collect();
        assert_eq!((exit, lender.received, lent - lender.sizes.len()), (Some(Exit::End), want, requests));
        assert_eq!(kernel.code.room.load(std::sync::atomic::Ordering::Relaxed), room);
    }
    assert_eq!(kernel.deoptimisations(), 0);
    uniforms.c[1][1] = f32::NAN;
    let mut lender = Lender { memory, sizes: vec![64, 64], received: Vec::new(), full: 0, single: 0 };
    Image::new(Layout::OWN, &Unit::new(), &uniforms).with(|host| kernel.run_on(host, &mut lender));
    assert_eq!((lender.received.len(), kernel.deoptimisations()), (41, 1));
}

/// Panics at the `n`th vertex.
struct PanicsAt(usize);

impl HostEmitter for PanicsAt {
    fn emit(&mut self, _: &Registers, _: EmitState) {
        assert_ne!(self.0, 0, "no vertex after the panic");
        self.0 -= 1;
        if self.0 == 0 {
            // `panic!` would print a message.
            std::panic::resume_unwind(Box::new("out of vertices"));
        }
    }
}

#[test]
fn a_panic_resumes_whether_it_comes_from_a_full_buffer_or_after_the_run() {
    let (kernel, uniforms) = counting();
    for n in [1, 16, 17, 32, 33, 41] {
        let mut emitter = PanicsAt(n);
        let run = catch_unwind(AssertUnwindSafe(|| {
            Image::new(Layout::OWN, &Unit::new(), &uniforms).with(|host| kernel.run_on(host, &mut emitter))
        }));
        let payload = run.expect_err("the panic is not swallowed");
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"out of vertices"), "vertex {n}");
        assert_eq!(emitter.0, 0, "vertex {n}");
    }
}
