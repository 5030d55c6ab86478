use super::*;
use crate::engine::{BackendChoice, Engine, Event, Options};
use crate::kernel::{Backend, Config};
use crate::program::{Entry, Program};
use crate::state::{Batch, Exit, NoEmitter};
use crate::state::{EmitState, Registers, Uniforms, Unit, Vec4};
use crate::text::assemble;
use crate::tier0::Tier0;
use std::cell::Cell;
use std::sync::{Arc, Mutex};

/// Both blocks in one structure; one bank, no geometry state.
const ONE_STRUCT: Offsets = Offsets {
    unit_bytes: 0x1000,
    v: 0x100,
    r: 0x200,
    o: 0x300,
    geometry: None,
    a0: [0x0C, 0x08],
    al: 0x10,
    cmp: [0x15, 0x14],
    uniforms_bytes: 0x1000,
    c: 0x400,
    i: 0x20,
    b: Bools::Bytes(0x30),
};

type Change = fn(&mut Offsets);

fn wrong(change: Change) -> String {
    let mut offsets = *Layout::OWN.offsets();
    change(&mut offsets);
    Layout::new(offsets).expect_err("wrong").to_string()
}

#[test]
fn the_layout_of_our_own_types_is_valid() {
    assert_eq!(Layout::new(*Layout::OWN.offsets()), Ok(Layout::OWN));
}

#[test]
fn an_invalid_offset_is_named() {
    let cases: [(Change, &str); 14] = [
        (|o| o.v = 0xFFFF_FF00, "v ends at byte 4294967296, its block at byte 1042"),
        (|o| o.r += 8, "r is at 264, which is no multiple of 16"),
        (|o| o.r = o.v + 0xF0, "v and r share bytes"),
        (|o| o.a0[1] += 2, "a0.y is at 1030, which is no multiple of 4"),
        (|o| o.al = o.a0[0], "a0.x and aL share bytes"),
        (|o| o.cmp[0] = o.cmp[1], "cmp.x and cmp.y share bytes"),
        (|o| o.cmp[0] = o.o + 1, "o and cmp.x share bytes"),
        (|o| o.unit_bytes = 17 << 20, "the unit block has more than 16777216 bytes"),
        (|o| o.c += 4, "c is at 4, which is no multiple of 16"),
        (|o| o.i = o.c + 95 * 16, "c and i share bytes"),
        (|o| (o.b, o.uniforms_bytes) = (Bools::Mask(o.i + 17), 2048), "b is at 1553, which is no multiple of 2"),
        (|o| o.b = Bools::Bytes(1 << 20), "b ends at byte 1048592, its block at byte 1554"),
        (|o| o.geometry.as_mut().expect("there").bank_stride = 8, "bank_stride is at 8, which is no multiple of 16"),
        (|o| o.geometry.as_mut().expect("there").bank_stride = 16, "o and the second bank share bytes"),
    ];
    for (change, text) in cases {
        assert_eq!(wrong(change), text);
    }
    let far = wrong(|o| o.geometry.as_mut().expect("there").bank_stride = 0xFFFF_FFF0);
    assert!(far.starts_with("the second bank ends at byte 4294"), "{far}");
}

#[test]
fn memory_that_does_not_fit_is_rejected() {
    let layout = Layout::new(ONE_STRUCT).expect("right");
    let mut memory = vec![0u8; 0x1020];
    let start = memory.as_ptr().addr().wrapping_neg() % 16;
    let memory = Cell::from_mut(&mut memory[start..]).as_slice_of_cells();
    assert!(HostMemory::new(&layout, memory, memory).is_ok());
    let error = |unit, uniforms| HostMemory::new(&layout, unit, uniforms).expect_err("wrong").to_string();
    assert_eq!(error(&memory[16..][..0xFFF], memory), "the unit block has 4095 bytes, not the 4096 of the layout");
    assert_eq!(error(memory, &memory[..5]), "the uniforms block has 5 bytes, not the 4096 of the layout");
    assert_eq!(error(&memory[4..], memory), "the unit block is not aligned to 16 bytes");
}

/// A unit and uniforms with a distinct value in every field.
fn filled() -> (Unit, Uniforms) {
    let (mut unit, mut uniforms) = (Unit::new(), Uniforms::new());
    let mut next = 0.0;
    let mut fill = |vs: &mut [Vec4]| {
        vs.as_flattened_mut().iter_mut().for_each(|x| {
            next += 1.0;
            *x = next;
        });
    };
    fill(&mut unit.v);
    fill(&mut unit.r);
    fill(unit.o.as_flattened_mut());
    fill(&mut uniforms.c);
    (unit.a0, unit.al, unit.cmp, unit.bank) = ([-5, 7], 1000, [false, true], 1);
    unit.setemit = EmitState { vertex: 2, primitive: true, winding: true };
    uniforms.i = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]];
    uniforms.b = 0xA5C3;
    (unit, uniforms)
}

#[test]
fn load_returns_what_store_wrote() {
    let (unit, uniforms) = filled();
    let mut image = Image::new(Layout::OWN, &unit, &uniforms);
    let (loaded, constants) = image.with(|host| host.load());
    assert_eq!(format!("{loaded:?} {constants:?}"), format!("{unit:?} {uniforms:?}"));
    let (loaded, constants) = Image::new(Layout::new(ONE_STRUCT).expect("right"), &unit, &uniforms).with(|h| h.load());
    assert_eq!(format!("{constants:?}"), format!("{uniforms:?}"));
    // The only bank receives the current one.
    let rest = Unit { o: [unit.o[1], Unit::new().o[0]], bank: 0, setemit: EmitState::default(), ..unit };
    assert_eq!(format!("{loaded:?}"), format!("{rest:?}"));
}

const TRANSFORM: &str = "
.proc main
    dp4 o0.x, c0, v0
    dp4 o0.y, c1, v0
    mova a0.xy, v1.xy
    add o0.zw, c4[a0.y], v0
    cmp v0.xx, lt, ge, v0.yz
    mov r3, o0
    ifu b5
        add o0.x, c0, v0
    .end
    mov o1, v1
    end
.end";

/// An engine and its events.
fn engine(options: Options) -> (Engine, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let to = said.clone();
    let events = Arc::new(move |event: &Event| to.lock().expect("no panic").push(event.to_string()));
    (Engine::new(Options { events, ..options }), said)
}

#[test]
fn an_engine_for_one_layout_runs_on_any_other() {
    let layout = Layout::new(ONE_STRUCT).expect("right");
    let (program, entry) = program(TRANSFORM);
    let (unit, uniforms) = filled();
    let mut want = unit.clone();
    Engine::new(Options::at_once()).shader(&program, entry).run(&uniforms, &mut want);
    assert_eq!(want.bank, 1, "the results are in the second bank, which this layout does not have");
    for options in engines(layout) {
        let (engine, said) = engine(options);
        let shader = engine.shader(&program, entry);
        let mut own = unit.clone();
        assert_eq!(shader.run(&uniforms, &mut own), Exit::End);
        let (two_banks, _) = Image::new(Layout::OWN, &unit, &uniforms).with(|host| {
            assert_eq!(shader.run_on(host, &mut NoEmitter), Exit::End);
            host.load()
        });
        for got in [own, two_banks] {
            assert_eq!(format!("{got:?}"), format!("{want:?}"), "{}", shader.backend());
        }
        assert_eq!((shader.divergence(), said.lock().expect("no panic").len()), (None, 0));
    }
}

/// An engine for `layout`, native code without a layout, tier 0, and the oracle.
fn engines(layout: Layout) -> [Options; 4] {
    // Without native code, `BackendChoice::NativeRequired` reports an event.
    let backend = if cfg!(feature = "jit") { BackendChoice::NativeRequired } else { BackendChoice::NoNative };
    let native = Options { backend, layout: Some(layout), crosscheck: 1, ..Options::at_once() };
    let [tier0, oracle] =
        [BackendChoice::NoNative, BackendChoice::Oracle].map(|backend| Options { backend, ..native.clone() });
    [native, Options { backend, ..Options::at_once() }, tier0, oracle]
}

fn program(source: &str) -> (Program, Entry) {
    let shbin = assemble(source).expect("right").shbin;
    (shbin.program().expect("short"), shbin.dvles[0].entry())
}

#[test]
fn every_engine_runs_equally_on_a_hosts_memory_and_on_our_own() {
    let layout = Layout::new(ONE_STRUCT).expect("right");
    let (program, entry) = program(TRANSFORM);
    let (unit, uniforms) = filled();
    let inputs: Vec<Registers> = (0..9).map(|n| [[n as f32, 1.0, 2.0, 3.0]; 16]).collect();
    let mut want = Unit { bank: 0, setemit: EmitState::default(), o: [unit.o[1], Unit::new().o[0]], ..unit.clone() };
    let mut want_outputs = vec![[[0.0; 4]; 16]; 9];
    let reference = Engine::new(Options::at_once()).shader(&program, entry);
    assert_eq!(reference.run(&uniforms, &mut want), Exit::End);
    let mut batch = Batch {
        inputs: (&inputs).into(),
        outputs: (&mut want_outputs).into(),
        input_mask: 3,
        output_mask: 3,
        preserve_unit: false,
    };
    reference.run_batch(&uniforms, &mut want, &mut batch);
    for options in engines(layout) {
        let (engine, said) = engine(options);
        let shader = engine.shader(&program, entry);
        let mut outputs = vec![[[0.0; 4]; 16]; 9];
        let (after, constants) = Image::new(layout, &unit, &uniforms).with(|host| {
            assert_eq!(shader.run_on(host, &mut NoEmitter), Exit::End);
            let mut batch = Batch {
                inputs: (&inputs).into(),
                outputs: (&mut outputs).into(),
                input_mask: 3,
                output_mask: 3,
                preserve_unit: false,
            };
            assert_eq!(shader.run_batch_on(host, &mut batch), Exit::End);
            host.load()
        });
        assert_eq!(format!("{after:?} {constants:?}"), format!("{want:?} {uniforms:?}"), "{}", shader.backend());
        assert_eq!(outputs, want_outputs, "{}", shader.backend());
        assert_eq!((shader.divergence(), said.lock().expect("no panic").len()), (None, 0));
    }
}

#[test]
fn a_geometry_program_without_geometry_offsets_runs_on_tier_0_and_keeps_no_state() {
    struct Sent(Vec<(f32, EmitState)>);
    impl HostEmitter for Sent {
        fn emit(&mut self, outputs: &Registers, how: EmitState) {
            self.0.push((outputs[0][0], how));
        }
    }
    let layout = Layout::new(ONE_STRUCT).expect("right");
    let (program, _) = program(".gsh point c0\n.proc main\n mov o0, v0\n emit\n setemit 1, prim\n emit\n end\n.end");
    let (unit, uniforms) = filled();
    let mut fallbacks = 0;
    for options in engines(layout) {
        let (engine, said) = engine(options);
        let shader = engine.shader(&program, Entry::geometry(0));
        let mut sent = Sent(Vec::new());
        Image::new(layout, &unit, &uniforms).with(|host| {
            assert_eq!(shader.run_on(host, &mut sent), Exit::End);
            assert_eq!(shader.run_on(host, &mut sent), Exit::End);
        });
        // Nothing was written to the second EMIT's bank.
        let [first, second] = [EmitState::default(), EmitState { vertex: 1, primitive: true, winding: false }];
        assert_eq!(sent.0, [(1.0, first), (0.0, second), (1.0, first), (0.0, second)], "{}", shader.backend());
        let said = said.lock().expect("no panic").clone();
        let reason = "the geometry shader at 0 runs on tier 0: the host's layout has no place for what geometry \
                      programs change (`geometry`)";
        let expected = if shader.fallback_reason().is_some() { vec![reason.to_owned()] } else { vec![] };
        assert_eq!(said, expected);
        fallbacks += expected.len();
    }
    assert_eq!(fallbacks, usize::from(cfg!(feature = "jit")), "only where native code would need the offsets");
    // A kernel of tier 0 runs such a program on copies by itself.
    let config = Config { layout: Some(layout), ..Config::default() };
    let kernel = Tier0::default().compile(&Arc::new(program), Entry::geometry(0), &config).expect("any program");
    let mut sent = Sent(Vec::new());
    let exit = Image::new(layout, &unit, &uniforms).with(|host| kernel.run_on(host, &mut sent));
    let [first, second] = [EmitState::default(), EmitState { vertex: 1, primitive: true, winding: false }];
    assert_eq!((exit, sent.0), (Some(Exit::End), vec![(1.0, first), (0.0, second)]));
}

#[test]
fn a_unit_is_preserved_to_the_byte() {
    let layout = Layout::new(ONE_STRUCT).expect("right");
    let (unit, uniforms) = filled();
    Image::new(layout, &unit, &uniforms).with_cells(|host, registers, _| {
        // Any byte but 0 is a flag that is set.
        ONE_STRUCT.cmp.into_iter().for_each(|at| registers[at as usize].set(0x82));
        let before: Vec<u8> = registers.iter().map(Cell::get).collect();
        host.preserving_unit(|| {
            host.store(&Unit::new());
            assert_ne!(before, registers.iter().map(Cell::get).collect::<Vec<u8>>());
        });
        assert_eq!(before, registers.iter().map(Cell::get).collect::<Vec<u8>>());
    });
}
