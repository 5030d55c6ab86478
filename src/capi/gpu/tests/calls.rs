//! Draws in detail, calls from callbacks, and invalid calls.

use super::*;

/// A GPU that draws plain triangles, on the interpreter.
fn drawing() -> *mut PjGpu {
    let engine = engine(&PjOptions { backend: PJ_INTERPRETER, ..PjOptions::ZERO }).expect("an engine");
    let gpu = gpu(engine);
    // SAFETY: the last use.
    unsafe { pj_engine_free(engine) };
    assert_eq!(execute(gpu, &plain(), &mut World::new(&[], &[])), PJ_OK);
    gpu
}

/// The x of the positions.
fn xs(world: &World) -> Vec<[f32; 3]> {
    world.triangles.iter().map(|t| t.map(|v| v[0])).collect()
}

#[test]
fn attributes_come_from_memory_or_from_a_callback() {
    let gpu = drawing();
    let mut world = World::new(&[1.0, 2.0, 3.0, 4.0], &[]);
    let user = &raw mut world;
    // SAFETY: all are valid; the vector is not changed.
    unsafe {
        let vertices = (*user).vertices.as_ptr();
        let memory = PjDraw { count: 4, vertices, ..pj_draw(user.cast()) };
        let callback = PjDraw { vertices: null(), fetch: Some(fetch), ..memory };
        let (mut a, mut b) = (empty_report(), empty_report());
        assert_eq!(pj_gpu_draw_arrays(gpu, &memory, &mut a), PJ_OK);
        // The fourth vertex continues with these.
        assert_eq!(pj_gpu_draw_arrays(gpu, &callback, &mut b), PJ_OK);
        assert_eq!(xs(&*user), [[1.0, 2.0, 3.0], [4.0, 1.0, 2.0]]);
        assert_eq!(
            a,
            PjReport { vertices: 4, triangles: 1, struct_size: size_of::<PjReport>(), ..PjReport::default() }
        );
        assert_eq!((b.vertices, b.triangles), (4, 1));
        let nothing = PjDraw { count: 0, fetch: None, ..callback };
        assert_eq!(pj_gpu_draw_immediate(gpu, &nothing, null_mut()), PJ_OK, "no vertices need no memory");
        assert_eq!(pj_gpu_free(gpu), PJ_OK);
    }
}

#[test]
fn indices_have_one_two_or_four_bytes_and_the_host_sizes_the_cache() {
    let indices = [0u8, 1, 2, 2, 1, 3];
    let wide = |bytes: usize| -> Vec<u8> {
        let each = |n: &u8| match bytes {
            1 => vec![*n],
            2 => u16::from(*n).to_ne_bytes().to_vec(),
            _ => u32::from(*n).to_ne_bytes().to_vec(),
        };
        // One byte first: every index is misaligned.
        [0xEE].into_iter().chain(indices.iter().flat_map(each)).collect()
    };
    for (index_bytes, vertex_cache_entries, reused) in [(1, 0, 0), (2, 64, 2), (4, 1, 1)] {
        let (gpu, memory) = (drawing(), wide(index_bytes as usize));
        let mut world = World::new(&[1.0, 2.0, 3.0, 4.0], &[]);
        let user = &raw mut world;
        let draw = PjDraw {
            count: indices.len(),
            indices: memory[1..].as_ptr().cast(),
            index_bytes,
            vertex_cache_entries,
            fetch: Some(fetch),
            ..pj_draw(user.cast())
        };
        let mut report = empty_report();
        // SAFETY: all are valid.
        unsafe {
            assert_eq!(pj_gpu_draw_elements(gpu, &draw, &mut report), PJ_OK);
            assert_eq!(xs(&*user), [[1.0, 2.0, 3.0], [3.0, 2.0, 4.0]]);
            assert_eq!((report.vertices, report.reused), (6 - reused, reused));
            assert_eq!(pj_gpu_free(gpu), PJ_OK);
        }
    }
}

/// The statuses of each kind of call in a callback: free, write, two that draw, read, state.
fn every_call(gpu: *mut PjGpu) -> Vec<i32> {
    let (mut attributes, mut value, mut other) = ([[[0.0; 4]; 16]], 0, World::new(&[], &[]));
    let mut state = Box::new(PjGpuState::default());
    let list = List::default();
    let user = &raw mut other;
    let nothing = pj_draw(user.cast());
    // SAFETY: all are valid, or null.
    unsafe {
        let mut got = vec![
            pj_gpu_free(gpu),
            pj_gpu_write(gpu, 0x100, 1, 15, attributes.as_mut_ptr()),
            pj_gpu_draw_arrays(gpu, &PjDraw { vertices: attributes.as_ptr(), ..nothing }, null_mut()),
            execute(gpu, &list, user),
            pj_gpu_read(gpu, 0x100, &mut value),
            pj_gpu_state_get(gpu, &mut *state),
        ];
        // Restores the state just saved.
        got.push(if got[5] == PJ_OK { pj_gpu_state_set(gpu, &*state) } else { pj_gpu_state_set(gpu, null()) });
        got
    }
}

/// The same on a thread that is in no callback.
fn every_call_elsewhere(gpu: *mut PjGpu) -> Vec<i32> {
    struct Sent(*mut PjGpu);
    // SAFETY: the header allows calls from other threads, which return PJ_BUSY.
    unsafe impl Send for Sent {}
    let sent = Sent(gpu);
    let calls = move || {
        let sent = sent;
        every_call(sent.0)
    };
    std::thread::spawn(calls).join().expect("no panic")
}

#[test]
fn a_gpu_lent_to_a_callback_is_busy_on_other_threads() {
    let gpu = drawing();
    let mut world = World::new(&[1.0, 2.0, 3.0], &[0, 1, 2]);
    world.nested_calls = Some(every_call_elsewhere);
    world.gpu = gpu;
    let mut list = List::default();
    list.elements();
    let user = &raw mut world;
    assert_eq!(execute(gpu, &list, user), PJ_OK);
    // SAFETY: valid, and the last use.
    let (world, freed) = unsafe { (&mut *user, pj_gpu_free(gpu)) };
    for callback in ["draw", "wrote", "triangle", "fetch"] {
        let all: Vec<_> =
            world.nested_results.iter().filter(|(w, _)| *w == callback).map(|(_, gave)| &gave[..]).collect();
        assert!(!all.is_empty() && all.iter().all(|gave| *gave == [PJ_BUSY; 7]), "{callback}: {all:?}");
    }
    assert_eq!((xs(world), freed), (vec![[1.0, 2.0, 3.0]], PJ_OK));
}

#[test]
fn draw_may_use_the_gpu_and_wrote_may_read_it() {
    const BUSY: [i32; 7] = [PJ_BUSY; 7];
    let gpu = drawing();
    let mut world = World::new(&[1.0, 2.0, 3.0], &[0, 1, 2]);
    world.nested_calls = Some(every_call);
    world.gpu = gpu;
    let mut list = List::default();
    list.elements().write(FIXEDATTRIB_INDEX, 15).immediate(&[[1.0; 4], [2.0; 4], [3.0; 4]]);
    let user = &raw mut world;
    assert_eq!(execute(gpu, &list, user), PJ_OK);
    // SAFETY: all are valid.
    let world = unsafe {
        let indices = [0u8];
        let draw = PjDraw {
            count: 1,
            indices: indices.as_ptr().cast(),
            index_bytes: 1,
            fetch: Some(fetch),
            ..pj_draw(user.cast())
        };
        assert_eq!(pj_gpu_draw_elements(gpu, &draw, null_mut()), PJ_OK);
        &mut *user
    };
    let gave = |callback: &str| {
        let all: Vec<_> =
            world.nested_results.iter().filter(|(w, _)| *w == callback).map(|(_, gave)| &gave[..]).collect();
        assert!(!all.is_empty() && all.iter().all(|gave| *gave == all[0]), "{callback}: {all:?}");
        all[0].to_vec()
    };
    assert_eq!([gave("triangle"), gave("fetch")], [BUSY; 2]);
    assert_eq!(gave("draw"), [PJ_BUSY, PJ_OK, PJ_OK, PJ_OK, PJ_OK, PJ_OK, PJ_OK], "every call but freeing");
    assert_eq!(gave("wrote"), [PJ_BUSY, PJ_BUSY, PJ_BUSY, PJ_BUSY, PJ_OK, PJ_OK, PJ_BUSY], "reads only");
    assert_eq!(xs(world), [[1.0, 2.0, 3.0]; 2]);
    // SAFETY: the last use.
    assert_eq!(unsafe { pj_gpu_free(gpu) }, PJ_OK, "idle again");
}

#[test]
fn a_draw_of_a_list_may_execute_a_list() {
    unsafe extern "C" fn again(user: *mut c_void, gpu: *mut PjGpu, effect: i32) {
        let mut list = List::default();
        list.arrays();
        // SAFETY: pointers of the test below; `draw` is the usual one.
        unsafe {
            draw(user, gpu, effect);
            assert_eq!(execute(gpu, &list, user.cast()), PJ_OK);
            draw(user, gpu, effect);
        }
    }
    let (gpu, mut world, mut list) = (drawing(), World::new(&[1.0, 2.0, 3.0], &[]), List::default());
    list.arrays();
    let user = &raw mut world;
    let host = PjGpuHost {
        struct_size: size_of::<PjGpuHost>(),
        triangle: Some(triangle),
        draw: Some(again),
        wrote: None,
        user: user.cast(),
    };
    // SAFETY: all are valid.
    unsafe {
        assert_eq!(pj_gpu_execute(gpu, list.0.as_ptr(), list.0.len(), &host), PJ_OK);
        assert_eq!(xs(&*user), [[1.0, 2.0, 3.0]; 3]);
        assert_eq!(pj_gpu_free(gpu), PJ_OK);
    }
}

#[test]
fn misuse_returns_a_status_and_draws_nothing() {
    let gpu = drawing();
    let mut world = World::new(&[1.0, 2.0, 3.0], &[]);
    let user = &raw mut world;
    let indices = [0u8, 1, 2];
    let (mut report, mut value, mut attributes) = (empty_report(), 0u32, [[[0.0; 4]; 16]]);
    // SAFETY: the library detects each invalid pointer.
    unsafe {
        let good = PjDraw {
            count: 3,
            vertices: (*user).vertices.as_ptr(),
            fetch: Some(fetch),
            indices: indices.as_ptr().cast(),
            index_bytes: 1,
            ..pj_draw(user.cast())
        };
        let mut arrays = |change: fn(&mut PjDraw)| {
            let mut draw = good;
            change(&mut draw);
            pj_gpu_draw_arrays(gpu, &draw, &mut report)
        };
        assert_eq!(arrays(|d| d.triangle = None), PJ_NULL);
        assert_eq!(arrays(|d| (d.vertices, d.fetch) = (null(), None)), PJ_NULL);
        assert_eq!(arrays(|d| d.vertices = d.vertices.wrapping_byte_add(2)), PJ_MISALIGNED);
        assert_eq!(arrays(|d| d.count = usize::MAX / 8), PJ_INVALID_ARGUMENT);
        assert_eq!(arrays(|d| d.struct_size = 0), PJ_INVALID_ARGUMENT);
        assert_eq!(arrays(|d| d.struct_size -= 1), PJ_INVALID_ARGUMENT);
        if usize::BITS > 32 {
            assert_eq!(arrays(|d| (d.vertices, d.count) = (null(), usize::MAX)), PJ_INVALID_ARGUMENT);
        }
        let elements = |change: fn(&mut PjDraw)| {
            let mut draw = good;
            change(&mut draw);
            pj_gpu_draw_elements(gpu, &draw, null_mut())
        };
        assert_eq!(elements(|d| d.fetch = None), PJ_NULL);
        assert_eq!(elements(|d| d.indices = null()), PJ_NULL);
        for width in [3, 8] {
            assert_eq!(
                pj_gpu_draw_elements(gpu, &PjDraw { index_bytes: width, ..good }, null_mut()),
                PJ_INVALID_ARGUMENT
            );
        }
        assert_eq!(elements(|d| d.vertex_cache_entries = 256), PJ_INVALID_ARGUMENT);
        assert_eq!(elements(|d| (d.count, d.index_bytes) = (usize::MAX, 4)), PJ_INVALID_ARGUMENT);
        assert_eq!(pj_gpu_draw_immediate(gpu, &PjDraw { vertices: null(), ..good }, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_draw_arrays(gpu, null(), null_mut()), PJ_NULL);
        let mut small = PjReport { struct_size: 1, ..report };
        assert_eq!(pj_gpu_draw_arrays(gpu, &good, &mut small), PJ_INVALID_ARGUMENT);
        assert_eq!((*user).triangles.len(), 0);
        assert_eq!(report, empty_report());

        let host = PjGpuHost {
            struct_size: size_of::<PjGpuHost>(),
            triangle: Some(triangle),
            draw: Some(draw),
            wrote: None,
            user: user.cast(),
        };
        let execute = |host: &PjGpuHost| pj_gpu_execute(gpu, [0u32; 2].as_ptr(), 2, host);
        assert_eq!(execute(&PjGpuHost { triangle: None, ..host }), PJ_NULL);
        assert_eq!(execute(&PjGpuHost { draw: None, ..host }), PJ_NULL);
        assert_eq!(execute(&PjGpuHost { struct_size: 16, ..host }), PJ_INVALID_ARGUMENT);
        assert_eq!(pj_gpu_execute(gpu, null(), 2, &host), PJ_NULL);
        assert_eq!(pj_gpu_execute(gpu, null(), 0, &host), PJ_OK);
        assert_eq!(pj_gpu_execute(gpu, null(), 0, null()), PJ_NULL);

        assert_eq!(pj_gpu_write(gpu, VSH, 5, 15, null_mut()), PJ_NULL);
        let mut position = PjListPosition::default();
        let (list, to) = ([5, 0x000F_02B0, 5, 0x00FF_02B0], attributes.as_mut_ptr());
        let at = &raw mut position;
        assert_eq!(pj_gpu_write_list(gpu, list.as_ptr(), 4, at, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_write_list(gpu, list.as_ptr(), 4, null_mut(), to), PJ_NULL);
        assert_eq!(pj_gpu_write_list(gpu, null(), 4, at, to), PJ_NULL);
        assert_eq!(pj_gpu_write_list(gpu, list.as_ptr().byte_add(1), 1, at, to), PJ_MISALIGNED);
        assert_eq!(pj_gpu_write_list(gpu, list.as_ptr(), usize::MAX, at, to), PJ_INVALID_ARGUMENT);
        assert_eq!(pj_gpu_write_list(null_mut(), list.as_ptr(), 4, at, to), PJ_NULL);
        assert_eq!(position, PjListPosition::default());
        assert_eq!(pj_gpu_read(gpu, VSH, &mut value), PJ_OK);
        assert_eq!(value, 0, "nothing is written");
        for (command, values) in [(usize::MAX, 0), (3, usize::MAX), (2, 7), (4, 1), (1, 1)] {
            position = PjListPosition { command, values };
            assert_eq!(pj_gpu_write_list(gpu, list.as_ptr(), 4, &mut position, to), PJ_EFFECT_NONE);
            assert!(position.command <= 4, "{position:?}");
        }
        assert_eq!(pj_gpu_read(gpu, VSH, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_default_attribute(gpu, 0, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_upload_stats_get(gpu, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_state_get(gpu, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_state_set(gpu, null()), PJ_NULL);
        assert_eq!(pj_gpu_free(gpu), PJ_OK);
        let none = null_mut::<PjGpu>();
        assert_eq!(pj_gpu_free(none), PJ_OK);
        assert_eq!(pj_gpu_new(null(), null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_write(none, VSH, 5, 15, attributes.as_mut_ptr()), PJ_NULL);
        assert_eq!(pj_gpu_read(none, VSH, &mut value), PJ_NULL);
        assert_eq!(pj_gpu_default_attribute(none, 0, attributes[0].as_mut_ptr()), PJ_NULL);
        assert_eq!(pj_gpu_draw_arrays(none, &good, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_draw_elements(none, &good, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_draw_immediate(none, &good, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_execute(none, null(), 0, &host), PJ_NULL);
        assert_eq!(pj_gpu_upload_stats_get(none, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_state_get(none, null_mut()), PJ_NULL);
        assert_eq!(pj_gpu_state_set(none, null()), PJ_NULL);
    }
}

#[test]
fn every_status_has_a_text() {
    let text = |status| {
        // SAFETY: static text that ends.
        unsafe { std::ffi::CStr::from_ptr(pj_status_text(status)) }.to_str().expect("text")
    };
    let known: std::collections::BTreeSet<&str> = (PJ_NO_MEMORY..=PJ_VERTEX_LIMIT).map(text).collect();
    assert_eq!(known.len(), 20, "{known:?}");
    assert_eq!([text(PJ_NO_MEMORY - 1), text(PJ_VERTEX_LIMIT + 1)], ["unknown status"; 2]);
    assert_eq!(
        [text(PJ_BUSY), text(PJ_OK), text(PJ_OUT_OF_FUEL)],
        ["the GPU is in use", "no error", "the run is out of fuel"]
    );
}

#[test]
fn lists_end_at_the_limit_of_vertices() {
    let gpu = drawing();
    let mut list = List::default();
    list.arrays().arrays().arrays();
    let mut world = World::new(&[1.0, 2.0, 3.0, 4.0], &[]);
    // SAFETY: a live handle, and null.
    unsafe {
        assert_eq!(pj_gpu_limits_set(null_mut(), 1, 1), PJ_NULL);
        assert_eq!(pj_gpu_limits_set(gpu, 3, 5), PJ_OK);
    }
    assert_eq!(execute(gpu, &list, &raw mut world), PJ_VERTEX_LIMIT);
    let reports: Vec<(u64, u32)> = world.reports.iter().map(|r| (r.vertices, r.limited)).collect();
    assert_eq!(reports, [(3, 1), (2, 1)]);
    // SAFETY: a live handle.
    unsafe { assert_eq!(pj_gpu_limits_set(gpu, 0, 0), PJ_OK) };
    assert_eq!(execute(gpu, &list, &raw mut world), PJ_OK, "0 is the default");
    assert_eq!(world.reports.len(), 5);
    // SAFETY: the last use.
    unsafe { assert_eq!(pj_gpu_free(gpu), PJ_OK) };
}

#[test]
fn a_cancelled_engine_executes_no_list() {
    let engine = engine(&PjOptions { backend: PJ_INTERPRETER, ..PjOptions::ZERO }).expect("an engine");
    let gpu = gpu(engine);
    let mut world = World::new(&[1.0, 2.0, 3.0], &[]);
    let list = lists().remove(0).1;
    // SAFETY: live handles, freed at the end.
    unsafe {
        assert_eq!(crate::capi::pj_engine_cancel(engine), PJ_OK);
        assert_eq!((execute(gpu, &list, &raw mut world), world.writes), (PJ_CANCELLED, 0));
        let (mut report, user) = (empty_report(), &raw mut world);
        let draw = PjDraw { count: 3, vertices: (*user).vertices.as_ptr(), ..pj_draw(user.cast()) };
        assert_eq!(pj_gpu_draw_arrays(gpu, &draw, &mut report), PJ_OK);
        assert_eq!((report.vertex_exit, report.vertices), (PJ_CANCELLED, 0));
        assert_eq!(crate::capi::pj_engine_resume(engine), PJ_OK);
        assert_eq!(execute(gpu, &list, user), PJ_OK);
        pj_engine_free(engine);
        assert_eq!(pj_gpu_free(gpu), PJ_OK);
    }
}
