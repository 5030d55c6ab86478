use super::super::tests::{AT_ONCE, engine, uniforms, unit};
use super::super::*;
use crate::state::Registers;
use crate::text::assemble;
use std::ffi::CStr;
use std::ptr::null_mut;

/// A recorded step.
#[derive(Clone, Debug, PartialEq)]
struct RecordedStep {
    text: String,
    pc: u32,
    next: i32,
    wrote: u32,
    /// Index, mask and value, if the step wrote an output or a temporary.
    register: Option<(u32, u32, [f32; 4])>,
}

/// a0, aL, cmp; bank and the state of SETEMIT.
type ScalarState = ([i32; 2], i32, [u8; 2], [u8; 4]);

/// A host that records steps and stops after `stop_at` of them.
#[derive(Default)]
struct Host {
    seen: Vec<RecordedStep>,
    last: Option<ScalarState>,
    emitted: Vec<(Registers, u32, u32, u32)>,
    stop_at: usize,
}

unsafe extern "C" fn step(user: *mut c_void, step: *const PjStep) -> i32 {
    // SAFETY: the pointer of the run below, and a step as the header describes.
    let (host, step) = unsafe { (&mut *user.cast::<Host>(), &*step) };
    assert_eq!(step.struct_size, size_of::<PjStep>());
    // SAFETY: the text ends with 0.
    let text = unsafe { CStr::from_ptr(step.text) }.to_str().expect("text").to_owned();
    let register = (step.wrote & 3 != 0).then_some((step.index, step.mask, step.value));
    host.seen.push(RecordedStep { text, pc: step.pc, next: step.next, wrote: step.wrote, register });
    let emit = [step.bank, step.emit_vertex, step.emit_primitive, step.emit_winding];
    host.last = Some((step.a0, step.al, step.cmp, emit));
    // Any value but 0 stops.
    if host.seen.len() == host.stop_at { -7 } else { 0 }
}

unsafe extern "C" fn emit(user: *mut c_void, outputs: *const [f32; 4], vertex: u32, primitive: u32, winding: u32) {
    // SAFETY: as above; sixteen vectors.
    let (host, outputs) = unsafe { (&mut *user.cast::<Host>(), *outputs.cast::<Registers>()) };
    host.emitted.push((outputs, vertex, primitive, winding));
}

/// Runs a program with and without a trace on each engine and compares the results. Returns the
/// exit, the unit and the host.
fn traced(
    source: &str,
    stage: u32,
    prepare: fn(&mut PjUnit, &mut PjUniforms),
    stop_at: usize,
) -> (i32, Box<PjUnit>, Host) {
    let program = assemble(source).unwrap_or_else(|e| panic!("{e}")).shbin.program().expect("short");
    let mut all = [PJ_ORACLE, AT_ONCE].map(|backend| {
        let engine = engine(&PjOptions { backend, fuel: 20, ..PjOptions::ZERO }).expect("an engine");
        let (code, opdescs, mut shader) = (program.code(), program.opdescs(), null_mut());
        // SAFETY: all are valid.
        let status = unsafe {
            let (code, opdescs) = ((code.as_ptr(), code.len()), (opdescs.as_ptr(), opdescs.len()));
            pj_shader_get(engine, code.0, code.1, opdescs.0, opdescs.1, 0, stage, &mut shader)
        };
        assert_eq!(status, PJ_OK);
        let (mut plain, mut uniforms) = (unit(), uniforms());
        prepare(&mut plain, &mut uniforms);
        let mut unit = unit();
        // SAFETY: both are plain data.
        unsafe { (&raw mut *unit).copy_from(&raw const *plain, 1) };
        let c = (&raw mut *uniforms).cast::<c_void>().cast_const();
        let (mut host, mut other) = (Host { stop_at, ..Host::default() }, Host::default());
        let [user, untraced_user] = [&raw mut host, &raw mut other].map(<*mut Host>::cast);
        // SAFETY: all are valid.
        let exits = unsafe {
            let traced = pj_run_traced(shader, (&raw mut *unit).cast(), c, Some(emit), Some(step), user);
            let exits = (traced, pj_run(shader, (&raw mut *plain).cast(), c, Some(emit), untraced_user));
            pj_shader_release(shader);
            pj_engine_free(engine);
            exits
        };
        if stop_at == 0 {
            assert_eq!(exits.0, exits.1);
            assert_eq!(bytes(&unit), bytes(&plain), "the same bits");
            assert_eq!(host.emitted, other.emitted);
        }
        (exits.0, unit, host)
    });
    let [interpreter, native] = &mut all;
    assert_eq!(
        (native.0, bytes(&native.1), &native.2.seen),
        (interpreter.0, bytes(&interpreter.1), &interpreter.2.seen)
    );
    std::mem::replace(interpreter, (0, unit(), Host::default()))
}

/// The fields of a unit. The compiler's padding is no part of it.
fn bytes(unit: &PjUnit) -> Vec<u32> {
    let PjUnit { v, r, o, a0, al, cmp, bank, emit_vertex, emit_primitive, emit_winding, reserved: _ } = unit;
    let vectors = [v, r, &o[0], &o[1]].into_iter().flatten().flatten().map(|x| x.to_bits());
    let small = [cmp[0], cmp[1], *bank, *emit_vertex, *emit_primitive, *emit_winding].map(u32::from);
    vectors.chain([a0[0], a0[1], *al].map(|n| n as u32)).chain(small).collect()
}

#[test]
fn each_instruction_is_reported_with_its_effect() {
    let source = ".proc main
    mova a0.y, v0.x
    rloop i0, 3
    add r1.xz, r1, v0
    mov o2, c4[aL]
    cmp v0, lt, ge, v0.yx
    litp r2._, v0
    rcall 8, 1
    end
    nop
    .end";
    let prepare = |unit: &mut PjUnit, uniforms: &mut PjUniforms| {
        unit.v[0] = [3.0, 5.0, 7.0, -1.0];
        unit.al = 9;
        uniforms.i[0] = [1, 2, 5, 0];
    };
    let (exit, unit, host) = traced(source, PJ_VERTEX, prepare, 0);
    let shown: Vec<(&str, u32, i32, u32)> = host.seen.iter().map(|s| (&*s.text, s.pc, s.next, s.wrote)).collect();
    let (output, temporary) = (PJ_WROTE_OUTPUT, PJ_WROTE_TEMPORARY);
    assert_eq!(
        shown,
        [
            ("mova a0.y, v0.xxxx", 0, 1, PJ_WROTE_ADDRESS),
            ("rloop i0, 3", 1, 2, PJ_WROTE_LOOP_COUNTER),
            ("add r1.xz, r1, v0", 2, 3, temporary),
            ("mov o2, c4[aL]", 3, 2, output | PJ_WROTE_LOOP_COUNTER),
            ("add r1.xz, r1, v0", 2, 3, temporary),
            ("mov o2, c4[aL]", 3, 4, output | PJ_WROTE_LOOP_COUNTER),
            ("cmp v0, lt, ge, v0.yxxx", 4, 5, PJ_WROTE_FLAGS),
            ("litp r2._, v0", 5, 6, PJ_WROTE_FLAGS),
            ("rcall 8, 1", 6, 8, 0),
            ("nop", 8, 7, 0),
            ("end", 7, -1, 0),
        ]
    );
    let registers: Vec<_> = host.seen.iter().filter_map(|s| s.register).collect();
    let add = |n: f32| (1, 0b101, [3.0 * n, 0.0, 7.0 * n, 0.0]);
    assert_eq!(registers, [add(1.0), (2, 0b1111, [6.0; 4]), add(2.0), (2, 0b1111, [11.0; 4])]);
    assert_eq!(exit, PJ_END);
    assert_eq!(host.last, Some((unit.a0, unit.al, unit.cmp, [0; 4])));
    assert_eq!((unit.a0, unit.al), ([0, 3], 12));
}

#[test]
fn emitted_vertices_are_reported() {
    let source = ".gsh point c0
    .proc main
    setemit 2, prim inv
    mov o0, v0
    emit
    mov o0, v1
    end
    .end";
    let prepare = |unit: &mut PjUnit, _: &mut PjUniforms| (unit.v[0], unit.v[1]) = ([1.5; 4], [2.5; 4]);
    let (exit, unit, host) = traced(source, PJ_GEOMETRY, prepare, 0);
    let wrote: Vec<u32> = host.seen.iter().map(|s| s.wrote).collect();
    assert_eq!(wrote, [PJ_WROTE_SETEMIT, PJ_WROTE_OUTPUT, PJ_WROTE_EMIT, PJ_WROTE_OUTPUT, 0]);
    assert_eq!(host.seen[3].register, Some((0, 0b1111, [2.5; 4])));
    assert_eq!(host.emitted.iter().map(|e| (e.0[0], e.1, e.2, e.3)).collect::<Vec<_>>(), [([1.5; 4], 2, 1, 1)]);
    assert_eq!((exit, host.last, unit.bank), (PJ_END, Some(([0; 2], 0, [0; 2], [1, 2, 1, 1])), 1));
}

#[test]
fn a_stopped_run_has_the_effects_so_far() {
    let source = ".proc main\nmov o0, v0\nmov o1, v0\nmov o2, v0\nend\n.end";
    let prepare = |unit: &mut PjUnit, _: &mut PjUniforms| unit.v[0] = [4.0; 4];
    for stop_at in 1..=4 {
        let (exit, unit, host) = traced(source, PJ_VERTEX, prepare, stop_at);
        let written = unit.o[0].iter().filter(|o| o[0] == 4.0).count();
        assert_eq!((exit, written, host.seen.len()), (PJ_STOPPED, stop_at.min(3), stop_at));
    }
    assert_eq!(traced(source, PJ_VERTEX, prepare, 5).0, PJ_END);
}

#[test]
fn exits_equal_those_of_untraced_runs() {
    let exit = |source: &str| {
        let (exit, _, host) = traced(source, PJ_VERTEX, |_, _| (), 0);
        (exit, host.seen.len(), host.seen.last().expect("some").next)
    };
    assert_eq!(exit(".proc main\n.raw\nrjmpu !b1, 0\n.end"), (PJ_OUT_OF_FUEL, 21, -1));
    assert_eq!(exit(".raw\n.proc main\nbreak\n.end"), (PJ_BREAK_OUTSIDE_LOOP, 1, -1));
    assert_eq!(exit(".raw\n.proc main\nnop\n.end"), (PJ_PAST_END, 1, 1));
}

/// Cancels the engine, which `user` is, at each step.
unsafe extern "C" fn cancel(user: *mut c_void, _: *const PjStep) -> i32 {
    // SAFETY: the pointer of the run below.
    unsafe { pj_engine_cancel(user.cast()) }
}

#[test]
fn cancelling_ends_a_traced_run() {
    let program = assemble(".proc main\n.raw\nrjmpu !b1, 0\n.end").expect("valid").shbin.program().expect("short");
    let engine = engine(&PjOptions::ZERO).expect("an engine");
    let shader = super::super::tests::shader(engine, program.code(), PJ_VERTEX).expect("a shader");
    let (mut unit, mut uniforms) = (unit(), uniforms());
    let (u, c) = ((&raw mut *unit).cast::<c_void>(), (&raw mut *uniforms).cast::<c_void>().cast_const());
    // SAFETY: all are valid.
    unsafe {
        assert_eq!(pj_run_traced(shader, u, c, None, Some(cancel), engine.cast()), PJ_CANCELLED);
        pj_shader_release(shader);
        pj_engine_free(engine);
    }
}

#[test]
fn missing_pointers_are_errors() {
    let engine = engine(&PjOptions::ZERO).expect("an engine");
    let code = [0x8800_0000];
    let mut shader = null_mut();
    let (mut unit, mut uniforms) = (unit(), uniforms());
    let (u, none) = ((&raw mut *unit).cast::<c_void>(), null_mut());
    let c = (&raw mut *uniforms).cast::<c_void>().cast_const();
    // SAFETY: the library detects each invalid pointer.
    unsafe {
        let status = pj_shader_get(engine, code.as_ptr(), 1, std::ptr::null(), 0, 0, PJ_VERTEX, &mut shader);
        assert_eq!(status, PJ_OK);
        assert_eq!(pj_run_traced(shader, u, c, None, None, none), PJ_NULL);
        assert_eq!(pj_run_traced(shader, none, c, None, Some(step), none), PJ_NULL);
        assert_eq!(pj_run_traced(shader, u.wrapping_byte_add(4), c, None, Some(step), none), PJ_MISALIGNED);
        assert_eq!(pj_run_traced(std::ptr::null(), u, c, None, Some(step), none), PJ_NULL);
        pj_shader_release(shader);
        pj_engine_free(engine);
    }
}
