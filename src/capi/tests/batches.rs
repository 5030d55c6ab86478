//! Which registers a batch takes, and where it ends.

use super::*;

#[test]
fn a_batch_reads_no_register_outside_of_its_masks() {
    for backend in [PJ_NATIVE, AT_ONCE, PJ_INTERPRETER, PJ_ORACLE] {
        let engine = engine(&PjOptions { backend, crosscheck: 1, ..PjOptions::ZERO }).expect("an engine");
        let shader = shader(engine, &CODE, PJ_VERTEX).expect("a shader");
        let (mut unit, mut uniforms) = (unit(), uniforms());
        let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
        // Uninitialised, as from malloc, except for the inputs in the mask.
        let mut inputs = [const { MaybeUninit::<Registers>::uninit() }; 6];
        let mut outputs = [const { MaybeUninit::<Registers>::uninit() }; 6];
        for (n, input) in inputs.iter_mut().enumerate() {
            // SAFETY: in bounds.
            unsafe { input.as_mut_ptr().cast::<Vec4>().write([n as f32; 4]) };
        }
        let batch = batch(inputs.as_ptr().cast(), outputs.as_mut_ptr().cast(), (1, 2), 6);
        // SAFETY: all are valid, initialised as far as the masks require.
        unsafe {
            assert_eq!(pj_run_batch(shader, u, c, &batch), PJ_END);
            pj_shader_release(shader);
            pj_engine_free(engine);
        }
        for (n, output) in outputs.iter().enumerate() {
            // SAFETY: the second register was written.
            let o1 = unsafe { output.as_ptr().cast::<Vec4>().add(1).read() };
            assert_eq!(o1, [2.0 * n as f32; 4]);
        }
    }
}

#[test]
fn a_batch_ends_at_the_first_vertex_that_runs_out_of_fuel() {
    // `cmp c0, le, le, v0`, a jump to itself if `cmp.x`, and `end`.
    let code = [0x17 << 27 | 3 << 24 | 3 << 21 | 0x20 << 12, 0x2C << 26 | 1 << 25 | 2 << 22 | 1 << 10, 0x22 << 26];
    for backend in [PJ_NATIVE, AT_ONCE, PJ_INTERPRETER, PJ_ORACLE] {
        let options = PjOptions { backend, fuel: 9, ..PjOptions::ZERO };
        let engine = engine(&options).expect("an engine");
        let shader = shader(engine, &code, PJ_VERTEX).expect("a shader");
        let (mut unit, mut uniforms) = (unit(), uniforms());
        uniforms.c[0] = [10.0; 4];
        for (x, ran, exit) in [(0.0, 7, PJ_END), (7.0, 4, PJ_OUT_OF_FUEL), (10.0, 1, PJ_OUT_OF_FUEL)] {
            for count in [1, 7] {
                // Vertex n has n + x.
                let inputs: Vec<Registers> = (0..7).map(|n| [[n as f32 + x; 4]; 16]).collect();
                let (mut outputs, mut done): ([Registers; 7], _) = ([[[-1.0; 4]; 16]; 7], usize::MAX);
                let (from, to) = (inputs.as_ptr().cast(), outputs.as_mut_ptr().cast());
                let batch = PjBatch { ran: &mut done, ..batch(from, to, (1, 1), count) };
                let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
                // SAFETY: all are valid.
                let got = unsafe { pj_run_batch(shader, u, c, &batch) };
                let want = if ran <= count && exit != PJ_END { exit } else { PJ_END };
                assert_eq!((got, done), (want, ran.min(count)), "{backend} {x} {count}");
                let untouched = outputs.iter().filter(|o| o[0] == [-1.0; 4]).count();
                assert_eq!(untouched, 7 - done, "{backend} {x} {count}: {:?}", outputs.map(|o| o[0]));
            }
        }
        // SAFETY: the last uses.
        unsafe {
            pj_shader_release(shader);
            pj_engine_free(engine);
        }
    }
}

#[test]
fn a_cancelled_engine_runs_nothing_until_it_resumes() {
    // MOV o0, v0; JMPU b0 to word 0; END.
    let code = [CODE[0], 0x2D << 26, CODE[3]];
    for backend in [AT_ONCE, PJ_INTERPRETER, PJ_ORACLE] {
        let engine = engine(&PjOptions { backend, fuel: u32::MAX, ..PjOptions::ZERO }).expect("an engine");
        let shader = shader(engine, &code, PJ_VERTEX).expect("a shader");
        let (mut unit, mut uniforms) = (unit(), uniforms());
        uniforms.b = 1;
        let inputs = [[[2.0f32; 4]; 16]; 9];
        let mut outputs = [[[0.0f32; 4]; 16]; 9];
        let mut ran = 99;
        let mut batch = batch(inputs.as_ptr().cast(), outputs.as_mut_ptr().cast(), (1, 1), 9);
        let ran = &raw mut ran;
        batch.ran = ran;
        // SAFETY: live handles, blocks of the engine's layout, and arrays of nine vertices.
        unsafe {
            assert_eq!(pj_engine_cancel(engine), PJ_OK);
            let (unit, uniforms) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast());
            assert_eq!(pj_run(shader, unit, uniforms, None, null_mut()), PJ_CANCELLED);
            assert_eq!((pj_run_batch(shader, unit, uniforms, &batch), *ran), (PJ_CANCELLED, 0));
            assert_eq!(pj_engine_resume(engine), PJ_OK);
            (*uniforms.cast::<PjUniforms>()).b = 0;
            assert_eq!((pj_run_batch(shader, unit, uniforms, &batch), *ran), (PJ_END, 9));
            assert_eq!([pj_engine_cancel(null()), pj_engine_resume(null())], [PJ_NULL; 2]);
            pj_shader_release(shader);
            pj_engine_free(engine);
        }
        assert_eq!(outputs[8][0], [2.0; 4]);
    }
}

/// A batch of one takes a shorter way through direct code, with the same rules.
#[test]
fn a_batch_of_one_has_the_rules_of_all() {
    // MOV r0, v1; ADD o0, r0, v0; MOV o1, v0; END.
    let code = [CODE[0] | 0x10 << 21 | 1 << 12, 0x10 << 12, CODE[0] | 1 << 21, CODE[3]];
    for backend in [AT_ONCE, PJ_NATIVE, PJ_INTERPRETER, PJ_ORACLE] {
        let engine = engine(&PjOptions { backend, ..PjOptions::ZERO }).expect("an engine");
        let (idle, shader) =
            (shader(engine, &code[3..], PJ_VERTEX), shader(engine, &code, PJ_VERTEX).expect("a shader"));
        let idle = idle.expect("a shader that only ends");
        let (mut unit, mut uniforms) = (unit(), uniforms());
        let (u, c) = (from_mut(&mut *unit), from_mut(&mut *uniforms).cast_const().cast());
        // The second row lies beyond a stride of one.
        let inputs = [[1.0f32; 4], [100.0; 4]];
        let mut outputs = [[0.0f32; 4]; 2];
        let mut ran = [99usize; 2];
        let (from, to) = (inputs.as_ptr().cast(), outputs.as_mut_ptr());
        let one = PjBatch { ran: ran.as_mut_ptr(), output_stride: 2, ..batch(from, to.cast(), (3, 3), 1) };
        // Direct code leaves masks beyond the stride to the general case.
        for (preserve_unit, input_mask) in [(0, 3), (1, 3), (0, 1), (1, 1)] {
            let one = PjBatch { input_stride: 1, preserve_unit, input_mask, ..one };
            // SAFETY: all are valid, or the library detects it.
            let run = move |batch: PjBatch| unsafe { pj_run_batch(shader, u.cast(), c, &batch) };
            let wrong = [
                PjBatch { preserve_unit: 2, ..one },
                PjBatch { reserved: 1, ..one },
                PjBatch { input_stride: 17, ..one },
                PjBatch { output_stride: 17, ..one },
            ];
            for (n, wrong) in wrong.into_iter().enumerate() {
                assert_eq!(run(wrong), PJ_INVALID_ARGUMENT, "{backend} {n}: {}", last_error());
            }
            let misaligned = one.ran.wrapping_byte_add(4);
            assert_eq!(run(PjBatch { ran: misaligned, ..one }), PJ_MISALIGNED, "{backend}");
            for bank in 0..4 {
                // SAFETY: no run uses the unit meanwhile.
                unsafe {
                    (*u).v[1] = [5.0; 4];
                    (*u).bank = bank;
                    to.cast::<[Vec4; 2]>().write([[-1.0; 4]; 2]);
                }
                assert_eq!(run(one), PJ_END);
                // SAFETY: as above.
                let (got, ran) = unsafe { (to.cast::<[Vec4; 2]>().read(), one.ran.read()) };
                assert_eq!((got, ran), ([[6.0; 4], [1.0; 4]], 1), "{backend}, bank {bank}, {preserve_unit}");
            }
            assert_eq!(run(PjBatch { count: 0, ..one }), PJ_END);
            // SAFETY: as above.
            assert_eq!(unsafe { one.ran.read() }, 0, "{backend}");
        }
        // A program that writes nothing leaves the bank as the host has it, of which the lowest bit counts.
        for bank in 0..4 {
            // SAFETY: as above.
            let got = unsafe {
                (*u).bank = bank;
                (*u).o = [[[7.0; 4]; 16], [[9.0; 4]; 16]];
                assert_eq!(pj_run_batch(idle, u.cast(), c, &one), PJ_END);
                to.cast::<[Vec4; 2]>().read()
            };
            assert_eq!(got, [[[7.0; 4], [9.0; 4]][usize::from(bank & 1)]; 2], "{backend}, bank {bank}");
        }
        // SAFETY: the last uses.
        unsafe {
            pj_shader_release(idle);
            pj_shader_release(shader);
            pj_engine_free(engine);
        }
    }
}
