//! Which outputs an emit buffer receives.

use super::*;

/// What the host has in its buffer.
const OLD: PjEmitted = PjEmitted { outputs: [[-1.0; 4]; 16], vertex: 9, primitive: 9, winding: 9, reserved: 9 };

/// Keeps the vertices of a full buffer, and puts back what was there.
unsafe extern "C" fn keep(kept: *mut c_void, vertices: *const PjEmitted, count: usize) {
    // SAFETY: the test passes a vector, and the library vertices of the test's buffer.
    let (kept, vertices) =
        unsafe { (&mut *kept.cast::<Vec<PjEmitted>>(), std::slice::from_raw_parts_mut(vertices.cast_mut(), count)) };
    kept.extend_from_slice(vertices);
    vertices.fill(OLD);
}

#[test]
fn a_buffer_receives_the_outputs_of_its_mask() {
    // Writes o1 and o2.
    let source = ".gsh point c0\n.proc main\n setemit 1, prim\n mul o1, c1, v0\n emit\n mov o2, v0\n emit\n end\n.end";
    let program = crate::text::assemble(source).expect("a good source").shbin.program().expect("short");
    let (code, opdescs) = (program.code(), program.opdescs());
    for backend in [PJ_NATIVE, AT_ONCE, PJ_INTERPRETER, PJ_ORACLE] {
        let engine = engine(&PjOptions { backend, ..PjOptions::ZERO }).expect("an engine");
        let mut shader = null_mut();
        // SAFETY: all are valid.
        let status = unsafe {
            let (words, descriptors) = ((code.as_ptr(), code.len()), (opdescs.as_ptr(), opdescs.len()));
            let (stage, to) = (PJ_GEOMETRY, &mut shader);
            pj_shader_get(engine, words.0, words.1, descriptors.0, descriptors.1, 0, stage, to)
        };
        assert_eq!(status, PJ_OK);
        for mask in [0, 0xFFFF, 6, 2, 0x8006, 0x8002, 0x8000] {
            for (capacity, x) in [(2, 1.0), (1, 1.0), (2, f32::INFINITY)] {
                let (mut unit, mut uniforms) = (unit(), uniforms());
                unit.v[0] = [0.0, 2.0, 3.0, 4.0];
                uniforms.c[1] = [x, 1.0, 1.0, 1.0];
                for (n, o) in unit.o.as_flattened_mut().iter_mut().enumerate() {
                    *o = [n as f32 + 10.0; 4];
                }
                let (mut vertices, mut kept) = ([OLD; 2], Vec::<PjEmitted>::new());
                let mut buffer = PjEmitBuffer {
                    struct_size: size_of::<PjEmitBuffer>(),
                    vertices: vertices.as_mut_ptr(),
                    capacity,
                    count: 0,
                    full: Some(keep),
                    user: from_mut(&mut kept).cast(),
                    output_mask: mask,
                };
                let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
                // SAFETY: all are valid.
                assert_eq!(unsafe { pj_run_geometry(shader, u, c, &mut buffer) }, PJ_END);
                // SAFETY: the buffer has that many.
                unsafe { keep(from_mut(&mut kept).cast(), buffer.vertices, buffer.count) };
                assert_eq!(kept.len(), 2);
                for (bank, vertex) in kept.iter().enumerate() {
                    let got: Vec<f32> = vertex.outputs.iter().map(|o| o[1]).collect();
                    let want: Vec<f32> = (0..16)
                        .map(|n| match mask == 0 || mask >> n & 1 != 0 {
                            false => -1.0,
                            true if n == bank + 1 => 2.0,
                            true => (bank * 16 + n) as f32 + 10.0,
                        })
                        .collect();
                    assert_eq!(got, want, "{backend} {mask:x} {capacity} {x}");
                    assert_eq!((vertex.vertex, vertex.primitive, vertex.winding, vertex.reserved), (1, 1, 0, 0));
                }
            }
        }
        // SAFETY: the last uses.
        unsafe { (pj_shader_release(shader), pj_engine_free(engine)) };
    }
}
