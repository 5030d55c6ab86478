//! A shader as a function and its context.

#![allow(unsafe_code)]

use super::*;

/// A call of the pair on picajit's own types.
fn call(pair: DirectCall, uniforms: &Uniforms, unit: &mut Unit) -> i32 {
    let (unit, uniforms) = ((&raw mut *unit).cast(), (&raw const *uniforms).cast());
    // SAFETY: the tests hold the shaders, which have no layout.
    unsafe { (pair.function)(pair.context, unit, uniforms) }
}

pub(super) fn end(pair: DirectCall) {
    let mut unit = Unit::new();
    unit.v[0] = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(call(pair, &Uniforms::new(), &mut unit), Exit::End as i32);
    assert_eq!(unit.outputs()[0], [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn the_pair_follows_the_shader_to_native_code() {
    let (_, engine, gate) = gated();
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    let pair = shader.direct_call();
    gate.begun.recv().expect("compilation begins without a run");
    end(pair);
    assert_eq!(shader.backend(), "tier0");
    gate.finish.send(true).expect("received");
    engine.wait();
    assert_eq!(shader.backend(), "gate");
    end(pair);
    let again = shader.clone().direct_call();
    assert_eq!((again.function as usize, again.context), (pair.function as usize, pair.context));
}

#[test]
fn the_pair_works_without_native_code() {
    for backend in [BackendChoice::Oracle, BackendChoice::NativeRequired] {
        let engine = Engine::new(Options { backend, ..Options::at_once() });
        let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
        end(shader.direct_call());
        // Past the end at once.
        let empty = engine.shader(&Program::from_words(&[], &[]).expect("short"), Entry::vertex(0));
        assert_eq!(call(empty.direct_call(), &Uniforms::new(), &mut Unit::new()), Exit::PastEnd as i32);
    }
}

#[test]
fn a_crosscheck_reports_a_wrong_kernel_that_the_pair_ran() {
    struct Wrong(Arc<dyn Kernel>);
    impl UnitKernel for Wrong {
        fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
            let exit = self.0.run(uniforms, unit, emitter);
            unit.o[0][0][2] += 1.0;
            exit
        }
    }
    let (events, engine) = crosschecking(3, |kernel| Arc::new(OnUnits(Wrong(kernel))));
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    for _ in 0..6 {
        let mut unit = Unit::new();
        assert_eq!(call(shader.direct_call(), &Uniforms::new(), &mut unit), 0);
        assert_eq!(unit.outputs()[0][2], 1.0, "the run itself is the kernel's");
    }
    let events = events.lock().expect("no panic");
    assert!(matches!(&events[..], [Event::Divergence { .. }]), "{events:?}");
    assert!(shader.divergence().expect("found").contains("o0.z"));
}

#[test]
#[cfg(feature = "jit")]
fn a_crosscheck_publishes_no_code_that_skips_it() {
    let engine = Engine::new(Options { crosscheck: 2, ..Options::at_once() });
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    assert_eq!(shader.backend(), "batch");
    let pair = shader.direct_call();
    // SAFETY: the shader is held.
    assert!(unsafe { pair.machine_code() }.is_none(), "direct code would skip the crosscheck");
    end(pair);
    assert_eq!(shader.divergence(), None);
}

#[test]
fn the_pair_outlives_the_cache_entry_and_the_engine() {
    for threads in [0, 1] {
        let engine = Engine::new(Options { threads, ..Options::at_once() });
        let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
        let pair = shader.direct_call();
        engine.clear();
        end(pair);
        assert!(!engine.shader(&program(0, &[]), Entry::vertex(0)).same_as(&shader), "evicted");
        drop(engine);
        end(pair);
        let held = shader.clone();
        drop(shader);
        end(pair);
        drop(held);
    }
}

#[test]
fn a_panic_is_a_result() {
    struct Panics;
    impl UnitKernel for Panics {
        fn run(&self, _: &Uniforms, _: &mut Unit, _: &mut dyn Emitter) -> Exit {
            panic!("a seeded bug");
        }
    }
    let (_, engine) = crosschecking(0, |_| Arc::new(OnUnits(Panics)));
    let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
    assert_eq!(call(shader.direct_call(), &Uniforms::new(), &mut Unit::new()), DirectCall::FAILED);
}

#[cfg(feature = "jit")]
mod native {
    use super::*;
    use crate::kernel::direct::{DirectCode, Vertex};
    use crate::layout::Image;
    use crate::layout::{Bools, GeometryOffsets, HostMemory, Offsets};
    use crate::state::{NoEmitter, Vertices, VerticesMut};
    use std::cell::Cell;

    /// More runs than a kernel deoptimises before it stops speculating.
    const RUNS: usize = 4096 + 100;

    /// `mul r0, c0, v0`, `mov o0, r0`, `end`.
    fn products() -> Program {
        let source = ".fvec scale\n.in a\n.out o position\n.proc main\nmul r0, scale, a\nmov o, r0\nend\n.end";
        let bytes = crate::text::assemble(source).expect("right").shbin.write().expect("small");
        crate::container::shbin::Shbin::parse(&bytes).expect("just written").program().expect("short")
    }

    fn bits(unit: &Unit) -> [[[u32; 4]; 2]; 2] {
        [unit.r, *unit.outputs()].map(|file| [file[0], file[1]].map(|register| register.map(f32::to_bits)))
    }

    /// 0 * infinity in x and y; every third run has none.
    fn inputs(n: usize) -> [f32; 4] {
        if n.is_multiple_of(3) { [1.0, 2.0, 3.0, n as f32] } else { [0.0, f32::INFINITY, -1.0, n as f32] }
    }

    fn scale() -> Uniforms {
        let mut uniforms = Uniforms::new();
        uniforms.c[0] = [f32::INFINITY, 0.0, 2.5, -0.5];
        uniforms
    }

    #[test]
    fn deoptimised_runs_have_the_oracles_bits_for_as_long_as_code_speculates_and_after() {
        let oracle = Engine::new(Options { backend: BackendChoice::Oracle, ..Options::at_once() });
        let oracle = oracle.shader(&products(), Entry::vertex(0));
        let engine = Engine::new(Options::at_once());
        let shader = engine.shader(&products(), Entry::vertex(0));
        let (pair, uniforms) = (shader.direct_call(), scale());
        let (mut unit, mut expected) = (Unit::new(), Unit::new());
        let mut functions = Vec::new();
        for n in 0..RUNS * 3 / 2 {
            (unit.v[0], expected.v[0]) = (inputs(n), inputs(n));
            let exit = oracle.run(&uniforms, &mut expected);
            assert_eq!(call(pair, &uniforms, &mut unit), exit as i32);
            assert_eq!(bits(&unit), bits(&expected), "run {n}");
            // SAFETY: the shader is held.
            let function = unsafe { pair.machine_code() }.expect("the code emits nothing").function as usize;
            if functions.last() != Some(&function) {
                functions.push(function);
            }
        }
        assert_eq!(shader.stats().deoptimised, 4096, "then the kernel stops speculating");
        assert_eq!(functions.len(), 2, "speculating code, then exact code");
    }

    /// A host's structure: uniforms and registers in an order of its own.
    #[repr(C, align(16))]
    struct Registers2 {
        c: [[f32; 4]; 96],
        o: [[[f32; 4]; 16]; 2],
        r: [[f32; 4]; 16],
        v: [[f32; 4]; 16],
        i: [[u8; 4]; 4],
        a0: [i32; 2],
        al: i32,
        b: u16,
        cmp: [u8; 2],
        geometry: [u8; 4],
    }

    fn layout() -> Layout {
        macro_rules! at {
            ($field:ident) => {
                std::mem::offset_of!(Registers2, $field) as u32
            };
        }
        Layout::new(Offsets {
            unit_bytes: size_of::<Registers2>() as u32,
            v: at!(v),
            r: at!(r),
            o: at!(o),
            geometry: Some(GeometryOffsets {
                bank_stride: 256,
                bank: at!(geometry),
                vertex: at!(geometry) + 1,
                primitive: at!(geometry) + 2,
                winding: at!(geometry) + 3,
            }),
            a0: [at!(a0), at!(a0) + 4],
            al: at!(al),
            cmp: [at!(cmp), at!(cmp) + 1],
            uniforms_bytes: size_of::<Registers2>() as u32,
            c: at!(c),
            i: at!(i),
            b: Bools::Mask(at!(b)),
        })
        .expect("no overlap")
    }

    #[test]
    fn the_pair_runs_on_a_hosts_structure() {
        let options =
            |backend, crosscheck| Options { backend, crosscheck, layout: Some(layout()), ..Options::at_once() };
        let own = Engine::new(Options::at_once());
        for (backend, crosscheck) in
            [(BackendChoice::NativeRequired, 0), (BackendChoice::NativeRequired, 1), (BackendChoice::Oracle, 0)]
        {
            let engine = Engine::new(options(backend, crosscheck));
            let shader = engine.shader(&products(), Entry::vertex(0));
            let expected = own.shader(&products(), Entry::vertex(0));
            let mut cells = [const { Cell::new(0u128) }; size_of::<Registers2>() / 16];
            let memory = cells.as_mut_ptr().cast::<Registers2>();
            let (uniforms, mut unit) = (scale(), Unit::new());
            for n in 0..50 {
                unit.v[0] = inputs(n);
                // SAFETY: the cells are as large and as aligned as the structure, of which any
                // bytes are valid. Uniforms and registers share it.
                let exit = unsafe {
                    (*memory).c[0] = uniforms.c[0];
                    (*memory).v[0] = inputs(n);
                    let pair = shader.direct_call();
                    (pair.function)(pair.context, memory.cast(), memory.cast_const().cast())
                };
                assert_eq!(exit, call(expected.direct_call(), &uniforms, &mut unit));
                // SAFETY: as above.
                let (r, o) = unsafe { ((*memory).r[0], (*memory).o[0][0]) };
                let got = [r, o].map(|register| register.map(f32::to_bits));
                assert_eq!(got, bits(&unit).map(|file| file[0]), "run {n}");
            }
            assert_eq!(shader.divergence(), None);
        }
    }

    #[test]
    fn direct_code_of_a_layout_runs_on_no_other_memory() {
        let engine = Engine::new(Options { layout: Some(layout()), ..Options::at_once() });
        // Moves alone: it never deoptimises.
        let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
        assert!(shader.0.direct().get().is_some());
        with_memory(Layout::OWN, |other| {
            assert_eq!(shader.0.direct().run_on(other), None);
            assert_eq!(shader.0.direct().run_copied(other, &[[0.0; 4]], 1), None);
        });
        assert_eq!(shader.run(&Uniforms::new(), &mut Unit::new()), Exit::End, "tier 0 runs it");
    }

    #[test]
    fn safe_runs_on_other_memory_than_the_codes_have_the_same_bits() {
        let hosted = Engine::new(Options { layout: Some(layout()), ..Options::at_once() });
        let (hosted, own) =
            (hosted.shader(&products(), Entry::vertex(0)), hosted.own_shader(&products(), Entry::vertex(0)));
        let (uniforms, mut by_hosted, mut by_own) = (scale(), Unit::new(), Unit::new());
        let zeros = [const { Cell::new(0u128) }; size_of::<Registers2>() / 16];
        // SAFETY: cells of other cells' bytes.
        let cells = unsafe { std::slice::from_raw_parts(zeros.as_ptr().cast::<Cell<u8>>(), size_of::<Registers2>()) };
        let layout = layout();
        let host = HostMemory::new(&layout, cells, cells).expect("aligned");
        let mut unit = Unit::new();
        unit.v[0] = inputs(1);
        unit.v[1] = [5.0; 4];
        host.store(&unit);
        // `c0` is the structure's first field.
        let bytes = scale().c[0].map(f32::to_le_bytes);
        cells.iter().zip(bytes.as_flattened()).for_each(|(cell, byte)| cell.set(*byte));
        assert_eq!((hosted.layout(), own.layout()), (Some(&layout), None));
        assert_eq!(own.run_on(&host, &mut NoEmitter), Exit::End, "own code on a host's memory");
        assert_eq!(own.run(&uniforms, &mut unit), Exit::End);
        assert_eq!(bits(&host.load().0), bits(&unit));
        for n in 0..6 {
            (by_hosted.v[0], by_own.v[0]) = (inputs(n), inputs(n));
            assert_eq!(hosted.run(&uniforms, &mut by_hosted), own.run(&uniforms, &mut by_own));
            assert_eq!(bits(&by_hosted), bits(&by_own));
        }
    }

    #[test]
    fn a_batch_of_one_takes_from_the_unit_what_it_does_not_provide() {
        // `add o0, v0, v1`: the batch has both registers, and provides the first.
        let code = [1 << 7, END];
        let program = Program::from_words(&code, &[0x36F]).expect("short");
        let engine = Engine::new(Options::at_once());
        let shader = engine.shader(&program, Entry::vertex(0));
        let inputs = [[1.0; 4], [100.0; 4]];
        for preserve_unit in [true, false] {
            // Outputs-only code is compiled after some batches.
            for n in 0..miri_or(4, 3000) {
                let mut unit = Unit::new();
                unit.v[1] = [n as f32; 4];
                let mut outputs = [[0.0; 4]; 2];
                let mut batch = Batch {
                    input_mask: if n % 2 == 0 { 3 } else { 1 },
                    preserve_unit,
                    ..Batch::of(
                        Vertices::packed(&inputs, 2, 1).expect("two registers"),
                        VerticesMut::packed(&mut outputs, 2, 1).expect("two registers"),
                    )
                };
                assert_eq!(shader.run_batch(&Uniforms::new(), &mut unit, &mut batch), Exit::End);
                assert_eq!(outputs[0][0], if n % 2 == 0 { 101.0 } else { 1.0 + n as f32 }, "{n}, {preserve_unit}");
            }
        }
    }

    fn with_memory<T>(layout: Layout, work: impl FnOnce(&HostMemory<'_>) -> T) -> T {
        Image::run(layout, &Uniforms::new(), &mut Unit::new(), &mut NoEmitter, |host, _| work(host))
    }

    #[test]
    fn runs_on_a_hosts_memory_publish_exact_code_too() {
        let engine = Engine::new(Options { layout: Some(Layout::OWN), ..Options::at_once() });
        let shader = engine.shader(&products(), Entry::vertex(0));
        assert!(shader.native_bytes() > 0);
        // SAFETY: the shader is held.
        let function = || unsafe { shader.direct_call().machine_code() }.expect("it emits nothing").function as usize;
        let speculating = function();
        with_memory(Layout::OWN, |host| {
            for n in 0..RUNS * 3 / 2 {
                let mut unit = Unit::new();
                unit.v[0] = inputs(n);
                host.store(&unit);
                // Zero times infinity deoptimises.
                assert_eq!(shader.run_on(host, &mut NoEmitter), Exit::End);
            }
        });
        assert_eq!(shader.stats().deoptimised, 4096);
        assert_ne!(function(), speculating);
    }

    #[test]
    fn batches_of_one_publish_the_code_that_preserves_the_unit() {
        for layout in [None, Some(Layout::OWN)] {
            let engine = Engine::new(Options { layout, ..Options::at_once() });
            let shader = engine.shader(&program(0, &[]), Entry::vertex(0));
            with_memory(Layout::OWN, |host| {
                for _ in 0..3000 {
                    let (inputs, mut outputs) = ([[1.0; 4]], [[0.0; 4]]);
                    let mut batch = Batch {
                        preserve_unit: true,
                        ..Batch::of(
                            Vertices::packed(&inputs, 1, 1).expect("one register"),
                            VerticesMut::packed(&mut outputs, 1, 1).expect("one register"),
                        )
                    };
                    let exit = match layout {
                        Some(_) => shader.run_batch_on(host, &mut batch),
                        None => shader.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch),
                    };
                    assert_eq!((exit.exit, outputs), (Exit::End, [[1.0; 4]]));
                }
                // On memory of its layout only.
                let on = |run: &dyn Fn(Vertex<'_>) -> Option<Exit>| {
                    let (inputs, mut outputs) = ([[1.0; 4]], [[0.0; 4]]);
                    let exit = run(Vertex { inputs: &inputs, outputs: &mut outputs, input_mask: 1, output_mask: 1 });
                    assert_eq!(outputs[0][0] == 1.0, exit.is_some());
                    exit.is_some()
                };
                let direct = shader.0.direct();
                assert!(on(&|vertex| direct.run_outputs(host, vertex)), "a unit's layout, under either name");
                with_memory(self::layout(), |other| {
                    assert!(!on(&|vertex| direct.run_outputs(other, vertex)));
                    assert_eq!(direct.run_on(other), None);
                });
            });
        }
    }

    #[test]
    fn a_batch_of_one_that_provides_no_register_of_the_code() {
        // `mov o0, v1`; the batch provides v0.
        let program = Program::from_words(&[0x13 << 26 | 1 << 12, END], &[0x36F]).expect("short");
        let shader = Engine::new(Options::at_once()).shader(&program, Entry::vertex(0));
        let inputs = [[1.0; 4], [100.0; 4]];
        for preserve_unit in [true, false] {
            let (mut unit, mut outputs) = (Unit::new(), [[0.0; 4]]);
            unit.v[1] = [7.0; 4];
            let mut batch = Batch {
                preserve_unit,
                ..Batch::of(
                    Vertices::packed(&inputs, 2, 1).expect("two registers"),
                    VerticesMut::packed(&mut outputs, 1, 1).expect("one register"),
                )
            };
            assert_eq!(shader.run_batch(&Uniforms::new(), &mut unit, &mut batch), Exit::End);
            assert_eq!((outputs, unit.v[1]), ([[7.0; 4]], [7.0; 4]));
        }
    }

    #[test]
    fn a_vertex_has_the_registers_of_its_masks() {
        for (input_mask, output_mask, fits) in [(1, 3, true), (2, 3, false), (1, 4, false), (0x8000, 0, false)] {
            let run = || {
                let (inputs, mut outputs) = ([[0.0; 4]], [[0.0; 4]; 2]);
                let vertex = Vertex { inputs: &inputs, outputs: &mut outputs, input_mask, output_mask };
                with_memory(Layout::OWN, |memory| DirectCode::new(None).run_outputs(memory, vertex))
            };
            assert_eq!(std::panic::catch_unwind(run).is_ok(), fits, "{input_mask}, {output_mask}");
        }
    }
}
