mod batches;
mod fields;
mod geometry;

use super::*;
use crate::state::Vec4;
use crate::testing::miri_or;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{from_mut, null, null_mut};

// mov o0, v0; mova a0.x, v0.x; add o1, c0[a0.x], v0; end. Descriptor 0 is the identity.
pub(super) const CODE: [u32; 4] = [0x4C00_0000, 0x4800_0000, 0x0022_0000 | 1 << 19, 0x8800_0000];
const OPDESCS: [u32; 1] = [0x36F];

pub(super) fn unit() -> Box<PjUnit> {
    // SAFETY: all zero is a unit.
    Box::new(unsafe { std::mem::zeroed() })
}

pub(super) fn uniforms() -> Box<PjUniforms> {
    // SAFETY: all zero is one.
    let mut uniforms: Box<PjUniforms> = Box::new(unsafe { std::mem::zeroed() });
    uniforms.c.iter_mut().enumerate().for_each(|(n, c)| *c = [n as f32; 4]);
    uniforms
}

pub(super) fn engine(options: &PjOptions) -> Result<*mut PjEngine, (i32, String)> {
    let mut engine = null_mut();
    // SAFETY: all are valid.
    let status = unsafe { pj_engine_new_for(pj_version(), options, &mut engine) };
    if status == PJ_OK { Ok(engine) } else { Err((status, last_error())) }
}

/// The text of the last error.
pub(super) fn last_error() -> String {
    // SAFETY: it is a text of this thread, until its next error.
    unsafe { std::ffi::CStr::from_ptr(pj_last_error()) }.to_str().expect("UTF-8").to_owned()
}

pub(super) fn shader(engine: *const PjEngine, code: &[u32], stage: u32) -> Result<*mut PjShader, (i32, String)> {
    let mut shader = null_mut();
    // SAFETY: all are valid.
    let status =
        unsafe { pj_shader_get(engine, code.as_ptr(), code.len(), OPDESCS.as_ptr(), 1, 0, stage, &mut shader) };
    if status == PJ_OK { Ok(shader) } else { Err((status, last_error())) }
}

/// A text that ends.
pub(super) fn text(bytes: &[u8]) -> String {
    std::ffi::CStr::from_bytes_until_nul(bytes).expect("it ends").to_string_lossy().into_owned()
}

/// A structure of zeros.
pub(super) fn zeroed<T: arguments::Structure>() -> T {
    // SAFETY: any bytes are valid.
    unsafe { std::mem::zeroed() }
}

/// A batch of `count` vertices, AoS, of 16 registers each.
pub(super) fn batch(inputs: *const c_void, outputs: *mut c_void, masks: (u16, u16), count: usize) -> PjBatch {
    let ((input_mask, output_mask), struct_size) = (masks, size_of::<PjBatch>());
    let (inputs, outputs) = (inputs.cast(), outputs.cast());
    PjBatch { struct_size, count, inputs, outputs, input_mask, output_mask, ..zeroed() }
}

/// The backend whose lookups compile, where there is native code.
pub(super) const AT_ONCE: u32 = if cfg!(feature = "jit") { PJ_NATIVE_REQUIRED } else { PJ_NATIVE };

#[test]
fn a_shader_serves_the_words_that_its_entry_reaches() {
    let engine = engine(&PjOptions { backend: PJ_INTERPRETER, ..PjOptions::ZERO }).expect("an engine");
    let shader = shader(engine, &CODE, PJ_GEOMETRY).expect("a shader");
    // SAFETY: a live handle, and arrays of these lengths.
    let serves = |code: &[u32], opdescs: &[u32], entry| unsafe {
        pj_shader_serves(shader, code.as_ptr(), code.len(), opdescs.as_ptr(), opdescs.len(), entry)
    };
    let longer = [&CODE[..], &[1, 2, 3]].concat();
    let mut other = CODE;
    other[0] ^= 1 << 21;
    assert_eq!([serves(&CODE, &OPDESCS, 0), serves(&longer, &OPDESCS, 0)], [1; 2]);
    assert_eq!([serves(&other, &OPDESCS, 0), serves(&CODE[1..], &OPDESCS, 0), serves(&[], &OPDESCS, 0)], [0; 3]);
    assert_eq!([serves(&CODE, &[], 0), serves(&CODE, &OPDESCS, 1), serves(&CODE, &OPDESCS, 1 << 16)], [0; 3]);
    // SAFETY: too many words are not read; null is an error; the last use of both handles.
    unsafe {
        assert_eq!(pj_shader_serves(shader, CODE.as_ptr(), MAX_CODE_WORDS + 1, OPDESCS.as_ptr(), 1, 0), 0);
        assert_eq!(pj_shader_serves(null(), CODE.as_ptr(), 1, OPDESCS.as_ptr(), 1, 0), PJ_NULL);
        assert_eq!(pj_shader_serves(shader, null(), 1, OPDESCS.as_ptr(), 1, 0), PJ_NULL);
        pj_shader_release(shader);
        pj_engine_free(engine);
    }
}

#[test]
fn single_vertices_and_batches_run() {
    for backend in [PJ_NATIVE, AT_ONCE, PJ_INTERPRETER, PJ_ORACLE] {
        let engine = engine(&PjOptions { backend, ..PjOptions::ZERO }).expect("an engine");
        let shader = shader(engine, &CODE, PJ_VERTEX).expect("a shader");
        let (mut unit, mut uniforms) = (unit(), uniforms());
        unit.v[0] = [3.0, 1.0, 2.0, 0.5];
        let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
        // SAFETY: all are valid.
        assert_eq!(unsafe { pj_run(shader, u, c, None, null_mut()) }, PJ_END);
        assert_eq!((unit.o[0][0], unit.o[0][1], unit.a0), ([3.0, 1.0, 2.0, 0.5], [6.0; 4], [3, 1]));
        let inputs: Vec<Registers> = (0..7).map(|n| [[n as f32; 4]; 16]).collect();
        let mut outputs = vec![[[-1.0; 4]; 16]; 7];
        let batch = batch(inputs.as_ptr().cast(), outputs.as_mut_ptr().cast(), (1, 2), 7);
        let u = from_mut(&mut *unit).cast();
        // SAFETY: all are valid.
        assert_eq!(unsafe { pj_run_batch(shader, u, c, &batch) }, PJ_END);
        for (n, output) in outputs.iter().enumerate() {
            assert_eq!((output[0], output[1]), ([-1.0; 4], [2.0 * n as f32; 4]));
        }
        assert_eq!(unit.a0, [6, 6]);
        for (batch, a0) in [(PjBatch { preserve_unit: 1, ..batch }, [7, 7]), (batch, [6, 6])] {
            let flag = if a0 == [7, 7] { 3 } else { 1 };
            (unit.a0, unit.cmp) = ([7; 2], [flag, 0]);
            let u = from_mut(&mut *unit).cast();
            // SAFETY: all are valid.
            assert_eq!(unsafe { pj_run_batch(shader, u, c, &batch) }, PJ_END);
            assert_eq!((unit.a0, unit.cmp, outputs[6][1]), (a0, [flag, 0], [12.0; 4]));
            outputs[6][1] = [0.0; 4];
        }
        // SAFETY: the last uses.
        unsafe { (pj_shader_release(shader), pj_engine_free(engine)) };
    }
}

#[test]
fn compiler_threads_publish_native_code() {
    for backend in [PJ_NATIVE, PJ_NATIVE_REQUIRED, PJ_INTERPRETER, PJ_ORACLE] {
        let Ok(engine) = engine(&PjOptions { backend, threads: 1, ..PjOptions::ZERO }) else {
            assert!(backend == PJ_NATIVE_REQUIRED && cfg!(not(feature = "jit")));
            continue;
        };
        let shader = shader(engine, &CODE, PJ_VERTEX).expect("a shader");
        let tier = || {
            let mut info = PjShaderInfo { struct_size: size_of::<PjShaderInfo>(), tier: 9, ..zeroed() };
            // SAFETY: valid.
            assert_eq!(unsafe { pj_shader_info_get(shader, &mut info) }, PJ_OK);
            info.tier
        };
        if backend == PJ_NATIVE_REQUIRED {
            assert_eq!(tier(), PJ_TIER_NATIVE, "compiled by pj_shader_get");
        }
        let (mut unit, mut uniforms) = (unit(), uniforms());
        let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
        // SAFETY: all are valid, and these the last uses.
        unsafe {
            assert_eq!(pj_run(shader, u, c, None, null_mut()), PJ_END);
            assert_eq!((pj_engine_wait(engine), pj_engine_wait(null())), (PJ_OK, PJ_NULL));
            let native = matches!(backend, PJ_NATIVE | PJ_NATIVE_REQUIRED) && cfg!(feature = "jit");
            let other = if backend == PJ_ORACLE { PJ_TIER_ORACLE } else { PJ_TIER_0 };
            assert_eq!(tier(), if native { PJ_TIER_NATIVE } else { other });
            assert_eq!(pj_run(shader, u, c, None, null_mut()), PJ_END);
            pj_engine_free(engine);
            pj_shader_release(shader);
        }
    }
}

#[test]
fn misuse_returns_a_status_with_a_message() {
    let error_of = |change: fn(&mut PjOptions)| {
        let mut options = PjOptions::ZERO;
        change(&mut options);
        engine(&options).expect_err("wrong")
    };
    let number = |text: &str| (PJ_INVALID_ARGUMENT, text.to_owned());
    assert_eq!(error_of(|o| o.backend = 4), number("pj_options.backend is 4; help: PJ_NATIVE (0) to PJ_ORACLE (3)"));
    assert_eq!(error_of(|o| o.profiler = PJ_JITDUMP), (PJ_NULL, "pj_options.profile_directory is null".to_owned()));
    let size = size_of::<PjOptions>();
    assert_eq!(
        error_of(|o| o.struct_size = 0),
        number(&format!("pj_options.struct_size is 0; help: {size}, the sizeof"))
    );
    let layout = PjLayout { struct_size: size_of::<PjLayout>(), ..PjLayout::default() };
    let (status, text) = engine(&PjOptions { layout: &layout, ..PjOptions::ZERO }).expect_err("wrong");
    assert_eq!((status, &*text), (PJ_INVALID_LAYOUT, "pj_layout: v ends at byte 256, its block at byte 0"));
    // SAFETY: null is an error, or allowed.
    unsafe {
        assert_eq!(pj_engine_new_for(pj_version(), null(), null_mut()), PJ_NULL);
        assert_eq!(pj_engine_clear(null()), PJ_NULL);
        assert_eq!(pj_run(null(), null_mut(), null(), None, null_mut()), PJ_NULL);
        assert_eq!(pj_shader_text(null(), 0, null_mut(), 0), i64::from(PJ_NULL));
        pj_engine_free(null_mut());
        pj_shader_retain(null());
        pj_shader_release(null());
    }
    let engine = engine(&PjOptions::ZERO).expect("an engine");
    let long = vec![0; 5000];
    assert_eq!(shader(engine, &long, PJ_VERTEX).expect_err("long").0, PJ_PROGRAM_TOO_LONG);
    let stage = number("stage is 2; help: PJ_VERTEX (0) or PJ_GEOMETRY (1)");
    assert_eq!(shader(engine, &CODE, 2).expect_err("no stage"), stage);
    let shader = shader(engine, &CODE, PJ_VERTEX).expect("a shader");
    let (mut unit, mut uniforms) = (unit(), uniforms());
    let (u, c): (*mut c_void, *const c_void) =
        (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
    let batch = |inputs, outputs, count| batch(inputs, outputs, (1, 1), count);
    let (mut memory, elsewhere) = (vec![[[0.0f32; 4]; 16]; 4], vec![[[0.0f32; 4]; 16]; 4]);
    let (m, e): (*mut c_void, *const c_void) = (memory.as_mut_ptr().cast(), elsewhere.as_ptr().cast());
    // SAFETY: the library detects each invalid pointer.
    unsafe {
        assert_eq!(pj_run(shader, null_mut(), c, None, null_mut()), PJ_NULL);
        assert_eq!(pj_run(shader, u.wrapping_byte_add(4), c, None, null_mut()), PJ_MISALIGNED);
        assert_eq!(pj_run_batch(shader, u, c, &batch(m, m.wrapping_byte_add(512), 3)), PJ_OVERLAP);
        assert_eq!(pj_run_batch(shader, u, c, &batch(u, m, 1)), PJ_OVERLAP, "runs write the unit's inputs");
        assert_eq!(pj_run_batch(shader, u, c, &batch(e, u, 1)), PJ_OVERLAP);
        assert_eq!(pj_run_batch(shader, u, c, &batch(e, c.cast_mut(), 1)), PJ_OVERLAP);
        for (input_stride, output_stride) in [(17, 0), (0, 17), (0xFFFF, 1)] {
            let wide = PjBatch { input_stride, output_stride, ..batch(e, m, 1) };
            assert_eq!(pj_run_batch(shader, u, c, &wide), PJ_INVALID_ARGUMENT);
            assert_eq!(
                pj_run_batch(shader, u, c, &PjBatch { preserve_unit: 2, ..batch(e, m, 1) }),
                PJ_INVALID_ARGUMENT
            );
            let reserved = PjBatch { reserved: 1, ..batch(e, m, 1) };
            assert_eq!(pj_run_batch(shader, u, c, &reserved), PJ_INVALID_ARGUMENT);
        }
        let narrow = PjBatch { input_stride: 1, output_stride: 2, ..batch(m, m.wrapping_byte_add(32), 2) };
        assert_eq!(pj_run_batch(shader, u, c, &narrow), PJ_END);
        assert_eq!(pj_run_batch(shader, u, c, &PjBatch { count: 3, ..narrow }), PJ_OVERLAP);
        assert_eq!(pj_run_batch(shader, u, c, &batch(e.wrapping_byte_add(2), m, 1)), PJ_MISALIGNED);
        assert_eq!(pj_run_batch(shader, u, c, &batch(null(), m, 1)), PJ_NULL);
        assert_eq!(pj_run_batch(shader, u, c, &batch(e, m, usize::MAX / 4)), PJ_INVALID_ARGUMENT);
        assert_eq!(pj_run_batch(shader, u, c, &batch(null(), null_mut(), 0)), PJ_END, "nothing to do");
        let short = PjBatch { struct_size: 16, ..batch(e, m, 1) };
        assert_eq!(pj_run_batch(shader, u, c, &short), PJ_INVALID_ARGUMENT);
        assert_eq!(pj_run_batch(shader, u, c, &batch(e, m, 4)), PJ_END);
        pj_shader_release(shader);
        pj_engine_free(engine);
    }
}

#[test]
fn versions_must_agree() {
    let refused = |version| {
        let mut engine = null_mut();
        // SAFETY: all are valid.
        assert_eq!(unsafe { pj_engine_new_for(version, null(), &mut engine) }, PJ_VERSION_MISMATCH);
        assert!(engine.is_null());
        last_error()
    };
    let (major, minor) = (VERSION >> 16, VERSION >> 8 & 0xFF);
    for other in [major << 16 | (minor - 1) << 8, major << 16 | (minor + 1) << 8 | 3, (major + 1) << 16, 0] {
        let text = refused(other);
        let versions = [other, VERSION].map(|v| format!("{}.{}.{}", v >> 16, v >> 8 & 0xFF, v & 0xFF));
        assert!(versions.iter().all(|version| text.contains(version)), "{text}");
    }
    // Another patch changes nothing.
    let mut engine = null_mut();
    // SAFETY: all are valid; the last use.
    unsafe {
        assert_eq!(pj_engine_new_for(VERSION ^ 0xFF, null(), &mut engine), PJ_OK);
        pj_engine_free(engine);
    }
    // Headers before 0.7 have another function, with room for a text.
    let mut message = [1u8; 20];
    // SAFETY: the text has its size.
    unsafe {
        assert_eq!(pj_engine_new(null(), &mut engine, message.as_mut_ptr().cast(), 20), PJ_VERSION_MISMATCH);
        assert_eq!(pj_engine_new(null(), null_mut(), null_mut(), 1000), PJ_VERSION_MISMATCH);
    }
    assert_eq!(&message[..], b"the host was compil\0");
    assert!(last_error().starts_with("the host was compiled with a header before 0.7, the library is "));
}

#[test]
fn errors_of_one_thread_are_no_errors_of_another() {
    // SAFETY: null is an error.
    assert_eq!(unsafe { pj_engine_clear(null()) }, PJ_NULL);
    assert_eq!(last_error(), "engine is null");
    std::thread::spawn(|| assert_eq!(last_error(), "")).join().expect("no panic");
    let long = "ä".repeat(600);
    assert_eq!(
        fault::catch_panics(|| Err(Fault::NoNative(crate::kernel::Unsupported::Codegen { message: long }))),
        PJ_NO_NATIVE
    );
    let text = last_error();
    assert!(text.len() >= 510 && text.starts_with("the code generator refused: ä") && text.ends_with('ä'), "{text}");
    assert_eq!(fault::catch_panics(|| panic!("seeded")), PJ_INTERNAL);
    assert_eq!(last_error(), "internal error: seeded");
}

#[test]
fn misaligned_results_are_errors() {
    let engine = engine(&PjOptions::ZERO).expect("an engine");
    let mut room = [0usize; 3];
    let odd = room.as_mut_ptr().wrapping_byte_add(1);
    // SAFETY: checked before anything is written.
    unsafe {
        assert_eq!(pj_engine_new_for(pj_version(), null(), odd.cast()), PJ_MISALIGNED);
        let (code, opdescs) = (CODE.as_ptr(), OPDESCS.as_ptr());
        let get = |to: *mut usize, code| pj_shader_get(engine, code, CODE.len(), opdescs, 1, 0, PJ_VERTEX, to.cast());
        assert_eq!(get(odd, code), PJ_MISALIGNED);
        assert_eq!(get(room.as_mut_ptr(), code.wrapping_byte_add(1)), PJ_MISALIGNED);
        assert_eq!(pj_engine_stats(engine, odd.cast()), PJ_MISALIGNED);
        pj_engine_free(engine);
    }
    assert_eq!(room, [0; 3]);
}

/// A host whose callback uses the engine that called it.
struct NestedHost {
    engine: *mut PjEngine,
    got: *mut PjShader,
    events: u32,
}

/// Requests the same shader, clears the cache and frees the engine.
unsafe extern "C" fn nested_calls(user: *mut c_void, kind: u32, _: *const c_char) {
    // SAFETY: the engine's `user` pointer, which no other code uses during the call.
    unsafe {
        let host = user.cast::<NestedHost>();
        (*host).events += 1 + kind;
        (*host).got = shader((*host).engine, &CODE, PJ_GEOMETRY).expect("the same");
        assert_eq!(pj_engine_clear((*host).engine), PJ_OK);
        pj_engine_free((*host).engine);
    }
}

#[test]
fn a_callback_may_use_and_free_the_engine_that_calls_it() {
    let host = Box::into_raw(Box::new(NestedHost { engine: null_mut(), got: null_mut(), events: 0 }));
    let layout = own_without_geometry();
    let event: Option<PjEventFn> = Some(nested_calls);
    let options = PjOptions { layout: &layout, event, user: host.cast(), compile_after: 1, ..PjOptions::ZERO };
    let engine = engine(&options).expect("an engine");
    let (mut unit, mut uniforms) = (unit(), uniforms());
    let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
    // SAFETY: no other code uses the memory of `host`.
    let host = unsafe {
        (*host).engine = engine;
        // A geometry program has no native code with such a layout: an event, from within the run
        // that compiles. Without native code the lookup says so.
        let first = shader(engine, &CODE, PJ_GEOMETRY).expect("a shader");
        assert_eq!(pj_run(first, u, c, None, null_mut()), PJ_END);
        assert_eq!(pj_run((*host).got, u, c, None, null_mut()), PJ_END);
        pj_shader_release(first);
        pj_shader_release((*host).got);
        Box::from_raw(host)
    };
    assert_eq!(host.events, 1 + PJ_EVENT_FALLBACK);
    assert_eq!(unit.o[0][1], [0.0; 4]);
}

/// The layout of `pj_unit` and `pj_uniforms` without geometry state.
pub(super) fn own_without_geometry() -> PjLayout {
    PjLayout {
        struct_size: size_of::<PjLayout>(),
        unit_bytes: UNIT_LAYOUT.unit_bytes,
        v: UNIT_LAYOUT.v,
        r: UNIT_LAYOUT.r,
        o: UNIT_LAYOUT.o,
        a0x: UNIT_LAYOUT.a0[0],
        a0y: UNIT_LAYOUT.a0[1],
        al: UNIT_LAYOUT.al,
        cmp_x: UNIT_LAYOUT.cmp[0],
        cmp_y: UNIT_LAYOUT.cmp[1],
        uniforms_bytes: UNIT_LAYOUT.uniforms_bytes,
        c: UNIT_LAYOUT.c,
        i: UNIT_LAYOUT.i,
        b: offset_of!(PjUniforms, b) as u32,
        ..PjLayout::default()
    }
}

#[test]
fn threads_share_engines_and_shaders() {
    struct Shared(*mut PjEngine, *mut PjShader);
    // SAFETY: the header allows both on several threads.
    unsafe impl Sync for Shared {}
    let made = engine(&PjOptions::ZERO).expect("an engine");
    let shared = Shared(made, shader(made, &CODE, PJ_VERTEX).expect("a shader"));
    std::thread::scope(|scope| {
        for thread in 0..miri_or(2, 4) {
            let shared = &shared;
            scope.spawn(move || {
                let Shared(engine, held) = *shared;
                let (mut unit, mut uniforms) = (unit(), uniforms());
                let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
                // SAFETY: both handles live until all threads have ended.
                unsafe {
                    for n in 0..miri_or(2, 100) {
                        pj_shader_retain(held);
                        let mut code = CODE;
                        code[2] = code[2] & !0xF80 | ((n + thread) % 5) << 7;
                        let own = shader(engine, &code, PJ_VERTEX).expect("a shader");
                        assert_eq!(pj_run(own, u, c, None, null_mut()), PJ_END);
                        assert_eq!(pj_run(held, u, c, None, null_mut()), PJ_END);
                        assert_eq!(pj_engine_clear(engine), PJ_OK);
                        pj_shader_release(own);
                        pj_shader_release(held);
                    }
                }
            });
        }
    });
    // SAFETY: the last uses.
    unsafe {
        pj_engine_free(shared.0);
        pj_shader_release(shared.1);
    }
}

#[test]
fn texts_are_cut_at_a_whole_character() {
    let copied = |text: &str, room: usize| {
        let mut bytes = [0xFFu8; 16];
        // SAFETY: `room` bytes are in bounds.
        unsafe { copy_text(text, bytes.as_mut_ptr().cast(), room) };
        assert!(bytes[room..].iter().all(|&b| b == 0xFF));
        if room == 0 { String::new() } else { super::tests::text(&bytes) }
    };
    assert_eq!([0, 1, 3, 4, 10].map(|room| copied("abc", room)), ["", "", "ab", "abc", "abc"]);
    assert_eq!([2, 3, 4].map(|room| copied("aä", room)), ["a", "a", "aä"]);
}

#[test]
fn a_panic_is_a_status_and_shaders_outlive_their_engine() {
    assert_eq!(catch_panics(|| panic!("a bug")), PJ_INTERNAL);
    let engine = engine(&PjOptions::ZERO).expect("an engine");
    let first = shader(engine, &CODE, PJ_VERTEX).expect("a shader");
    let mut stats = PjStats { struct_size: size_of::<PjStats>(), ..zeroed() };
    // SAFETY: all are valid; the shader has one reference more than is released.
    unsafe {
        pj_shader_retain(first);
        pj_shader_release(first);
        pj_shader_release(shader(engine, &CODE, PJ_VERTEX).expect("the same"));
        assert_eq!(pj_engine_stats(engine, &mut stats), PJ_OK);
        assert_eq!(pj_engine_clear(engine), PJ_OK);
        pj_engine_free(engine);
        let (mut unit, mut uniforms) = (unit(), uniforms());
        unit.v[0] = [1.0; 4];
        let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
        assert_eq!(pj_run(first, u, c, None, null_mut()), PJ_END);
        assert_eq!(unit.o[0][1], [2.0; 4]);
        pj_shader_release(first);
    }
    assert_eq!((stats.hits, stats.misses, stats.entries), (1, 1, 1));
}

/// Runs `code` with this v0 on an engine with these options. Returns the exit and o1.x.
fn first_component(options: PjOptions, code: &[u32], x: f32) -> (i32, f32) {
    let engine = engine(&options).expect("an engine");
    let shader = shader(engine, code, PJ_VERTEX).expect("a shader");
    let (mut unit, mut uniforms) = (unit(), uniforms());
    unit.v[0] = [x; 4];
    uniforms.c[0] = [1.0; 4];
    let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
    // SAFETY: all are valid.
    let exit = unsafe {
        let exit = pj_run(shader, u, c, None, null_mut());
        pj_shader_release(shader);
        pj_engine_free(engine);
        exit
    };
    (exit, unit.o[0][1][0])
}

#[test]
fn options_select_precision_and_fuel() {
    // 1 + 1.99 * 2^-17: between two 24-bit numbers, nearer to the upper one.
    let x = 1.99 / 131_072.0;
    let with = |precision| first_component(PjOptions { precision, ..PjOptions::ZERO }, &CODE, x).1;
    assert_eq!([PJ_F32, PJ_F24_NEAREST, PJ_F24_TOWARD_ZERO].map(with), [1.0 + x, 1.0 + 1.0 / 65_536.0, 1.0]);
    // A jump to itself.
    let endless = [0x2C << 26 | 3 << 22, 0xB000_0000, 0x8800_0000];
    // 0 means 262,144, which takes Miri minutes.
    for (fuel, backend) in [(0, AT_ONCE), (1, AT_ONCE), (7, PJ_INTERPRETER)].into_iter().skip(miri_or(1, 0)) {
        assert_eq!(first_component(PjOptions { fuel, backend, ..PjOptions::ZERO }, &endless, 0.0).0, PJ_OUT_OF_FUEL);
    }
}

#[test]
fn events_and_texts_reach_the_host() {
    unsafe extern "C" fn event(user: *mut c_void, kind: u32, text: *const c_char) {
        // SAFETY: the pointer of the engine below; the text ends with 0.
        let (reported, text) = unsafe { (&mut *user.cast::<Vec<(u32, String)>>(), std::ffi::CStr::from_ptr(text)) };
        reported.push((kind, text.to_string_lossy().into_owned()));
    }
    let mut reported: Vec<(u32, String)> = Vec::new();
    let layout = own_without_geometry();
    let user = from_mut(&mut reported).cast();
    let options = PjOptions { layout: &layout, event: Some(event), user, threads: 1, ..PjOptions::ZERO };
    let engine = engine(&options).expect("an engine");
    let [vertex, geometry] = [PJ_VERTEX, PJ_GEOMETRY].map(|stage| shader(engine, &CODE, stage).expect("a shader"));
    // SAFETY: a live handle.
    assert_eq!(unsafe { pj_engine_wait(engine) }, PJ_OK);
    let shader_text = |shader: *const PjShader, kind: u32| {
        let mut text = [0u8; 200];
        // SAFETY: valid, of the declared length.
        let len = unsafe { pj_shader_text(shader, kind, text.as_mut_ptr().cast(), text.len()) };
        (len, super::tests::text(&text))
    };
    let native = cfg!(feature = "jit");
    let reason = match native {
        true => "the host's layout has no place for what geometry programs change (`geometry`)",
        false => "this host can't run native code: the `jit` feature of this build",
    };
    assert_eq!(shader_text(geometry, PJ_TEXT_FALLBACK), (reason.len() as i64, reason.to_owned()));
    assert_eq!(shader_text(geometry, PJ_TEXT_DIVERGENCE), (0, String::new()));
    assert_eq!(shader_text(geometry, 3), (PJ_INVALID_ARGUMENT.into(), String::new()));
    assert_eq!(shader_text(vertex, PJ_TEXT_FALLBACK).0 == 0, native);
    let required = PjOptions { backend: PJ_NATIVE_REQUIRED, ..options };
    match super::tests::engine(&required) {
        Ok(engine) => {
            assert!(native);
            assert_eq!(shader(engine, &CODE, PJ_GEOMETRY).expect_err("not native"), (PJ_NO_NATIVE, reason.to_owned()));
            // SAFETY: the last use.
            unsafe { pj_engine_free(engine) };
        }
        Err(why) => assert_eq!((native, why), (false, (PJ_NO_NATIVE, reason.to_owned()))),
    }
    // SAFETY: the last uses.
    unsafe {
        pj_shader_release(vertex);
        pj_shader_release(geometry);
        pj_engine_free(engine);
    }
    assert!(
        !reported.is_empty()
            && reported.iter().all(|(kind, text)| *kind == PJ_EVENT_FALLBACK && text.ends_with(reason))
    );
}
