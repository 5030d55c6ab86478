//! Saved, restored and random states.

use super::*;

#[test]
fn a_restored_state_continues_like_the_original() {
    let engine = engine(&PjOptions { backend: PJ_INTERPRETER, ..PjOptions::ZERO }).expect("an engine");
    for (name, list) in lists().into_iter().step_by(miri_or(3, 1)) {
        let commands: Vec<Write> = Commands::new(&list.0).collect();
        let mut world = World::new(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3, 0, 1, 2, 3, 4, 1, 0]);
        let (original, user) = (gpu(engine), &raw mut world);
        execute(original, &list, user);
        // An incomplete uniform, an incomplete attribute, upload indices in mid-range.
        let mut half = List::default();
        half.write(VSH + offset::FLOATUNIFORM_INDEX, 0x8000_0005).queue(VSH + offset::FLOATUNIFORM_DATA0, &[1, 2, 3]);
        half.write(VSH + offset::CODETRANSFER_INDEX, 500).queue(FIXEDATTRIB_DATA0, &[4, 5]);
        execute(original, &half, user);
        let saved = state_bytes(original);
        let copy = gpu(engine);
        let mut state = Box::new(PjGpuState::default());
        // SAFETY: as many bytes; any bytes are a valid state.
        unsafe {
            (&raw mut *state).cast::<u8>().copy_from(saved.as_ptr(), saved.len());
            assert_eq!(pj_gpu_state_set(copy, &*state), PJ_OK);
        }
        assert!(state_bytes(copy) == saved, "{name}");
        let mut rest = List::default();
        rest.queue(VSH + offset::FLOATUNIFORM_DATA0, &[4]).queue(FIXEDATTRIB_DATA0, &[6]).arrays();
        let mut seen = Vec::new();
        for gpu in [original, copy] {
            // SAFETY: no other code uses it.
            unsafe { (*user).triangles.clear() };
            assert_eq!(execute(gpu, &rest, user), PJ_OK);
            // SAFETY: as above.
            seen.push((state_bytes(gpu), unsafe { (*user).triangles.clone() }));
        }
        assert!(seen[0] == seen[1], "{name}");
        assert!(!commands.is_empty());
        // SAFETY: the last uses.
        unsafe { (pj_gpu_free(original), pj_gpu_free(copy)) };
    }
    // SAFETY: the last use.
    unsafe { pj_engine_free(engine) };
}

#[test]
fn any_bytes_are_a_valid_state() {
    let options = PjOptions { backend: PJ_INTERPRETER, fuel: 3, ..PjOptions::ZERO };
    let engine = engine(&options).expect("an engine");
    let gpu = gpu(engine);
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    for _ in 0..miri_or(1, 4) {
        let mut state = Box::new(PjGpuState::default());
        let bytes = (&raw mut *state).cast::<u8>();
        for n in size_of::<usize>()..size_of::<PjGpuState>() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // SAFETY: inside the state; any bytes are valid.
            unsafe { bytes.add(n).write((seed >> 56) as u8) };
        }
        // SAFETY: all are valid.
        assert_eq!(unsafe { pj_gpu_state_set(gpu, &*state) }, PJ_OK);
        let first = state_bytes(gpu);
        // SAFETY: as many bytes.
        let given = unsafe { std::slice::from_raw_parts(bytes.cast_const(), size_of::<PjGpuState>()) };
        let differ = first.iter().zip(given).filter(|(a, b)| a != b).count();
        assert!(differ <= 2 * 5 + 7, "flags become 0 or 1 and reserved bytes 0, nothing else changes: {differ}");
        let mut world = World::new(&[1.0, 2.0, 3.0], &[2, 1, 0, 1]);
        let mut list = List::default();
        list.arrays().elements().immediate(&[[1.0; 4]; miri_or(7, 40)]);
        assert_eq!(execute(gpu, &list, &raw mut world), PJ_OK);
    }
    // SAFETY: the last uses.
    unsafe { (pj_gpu_free(gpu), pj_engine_free(engine)) };
}

#[test]
fn a_state_of_an_unknown_size_is_an_error() {
    let engine = engine(&PjOptions { backend: PJ_INTERPRETER, ..PjOptions::ZERO }).expect("an engine");
    let gpu = gpu(engine);
    execute(gpu, &plain(), &mut World::new(&[], &[]));
    // SAFETY: all are valid; no structure declares more than its size without being rejected.
    unsafe {
        let before = state_bytes(gpu);
        for struct_size in [0, size_of::<PjGpuState>() - 8, usize::MAX] {
            let mut state = Box::new(PjGpuState { struct_size, ..PjGpuState::default() });
            state.registers[usize::from(VSH)] = 0x1234;
            assert_eq!(pj_gpu_state_set(gpu, &*state), PJ_INVALID_ARGUMENT);
            assert_eq!(pj_gpu_state_get(gpu, &mut *state), PJ_INVALID_ARGUMENT);
            assert_eq!((state.struct_size, state.registers[usize::from(VSH)]), (struct_size, 0x1234));
        }
        assert!(state_bytes(gpu) == before);
        assert_eq!(pj_gpu_free(gpu), PJ_OK);
        pj_engine_free(engine);
    }
}

#[test]
fn geometry_programs_are_native_whatever_the_layout() {
    unsafe extern "C" fn event(user: *mut c_void, _: u32, _: *const std::ffi::c_char) {
        // SAFETY: the pointer of the engine below.
        unsafe { *user.cast::<u32>() += 1 };
    }
    let layout = own_without_geometry();
    let mut events = 0u32;
    let user = (&raw mut events).cast();
    let options = PjOptions { layout: &layout, event: Some(event), user, ..PjOptions::ZERO };
    let engine = engine(&options).expect("an engine");
    let (gpu, mut world) = (gpu(engine), World::new(&[1.0, 2.0, 3.0], &[]));
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, TRIANGLE, 3, 1).arrays();
    assert_eq!(execute(gpu, &list, &raw mut world), PJ_OK);
    assert_eq!(world.triangles.len(), 1);
    // SAFETY: the last uses.
    unsafe { (pj_gpu_free(gpu), pj_engine_free(engine)) };
    assert_eq!(events, u32::from(cfg!(not(feature = "jit"))), "without native code: one event");
}
