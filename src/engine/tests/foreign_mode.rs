//! Batches and draws on a thread whose floating-point mode is not the default.

use super::*;
use crate::fp_mode::in_foreign_modes;

/// Arithmetic, comparisons, elementary functions, and a loop.
const SOURCE: &str = ".proc main
mul r0, c0, v0
add r1, v0, r0
mad r2, v0, c1, r1
dp4 o0, r2, v0
rcp r3, v0.x
rsq r4, v0.y
ex2 r5, v0.z
lg2 r6, v0.w
for i0
add r7, v0, r7
.end
max o1, r2, r3
min o2, r4, r5
slt o3, c0, v0
add o4, r6, r7
flr o5, v0
mul o6, v0, v0
end
.end";

fn vertices() -> Vec<Registers> {
    let special = [
        0x0000_0001,
        0x007F_FFFF,
        0x0080_0000,
        0x8000_0001,
        0x8000_0000,
        0x3F80_0001,
        0x7F7F_FFFF,
        0x7F80_0000,
        0xFF80_0000,
        0x7FC0_0000,
        0x3EAA_AAAB,
        0x2000_0001,
        0xBF80_0000,
        0x4B00_0001,
        0x3F80_0000,
        0x1F80_0000,
    ];
    let value = |n: usize| f32::from_bits(special[n % special.len()]);
    (0..132).map(|n| [[value(n), value(n / 3), value(n / 2 + 5), value(7 * n)]; 16]).collect()
}

/// The outputs of a batch, NaN alike.
fn bits(shader: &Shader, inputs: &[Registers], preserve_unit: bool) -> Vec<u32> {
    let mut uniforms = Uniforms::new();
    uniforms.c[0] = [0.3, f32::from_bits(5), -1.0 / 3.0, 1.0e-20];
    uniforms.c[1] = [1.0e-30, 3.0, 0.1, 7.0];
    uniforms.i[0] = [2, 0, 1, 0];
    let mut outputs = vec![[[0.0; 4]; 16]; inputs.len()];
    let mut unit = Unit::new();
    unit.r[7] = [0.0; 4];
    let mut batch = Batch {
        inputs: inputs.into(),
        outputs: outputs.as_mut_slice().into(),
        input_mask: 1,
        output_mask: 0x7F,
        preserve_unit,
    };
    shader.run_batch(&uniforms, &mut unit, &mut batch);
    let all = outputs.iter().flatten().flatten();
    all.map(|x| if x.is_nan() { 0x7FC0_0000 } else { x.to_bits() }).collect()
}

#[test]
fn batches_have_the_same_results_in_foreign_modes() {
    let program = crate::text::assemble(SOURCE).expect("a good source").shbin.program().expect("short");
    let inputs = vertices();
    for precision in Precision::ALL {
        let want = {
            let options = Options { backend: BackendChoice::Oracle, precision, ..Options::at_once() };
            let shader = Engine::new(options).shader(&program, Entry::vertex(0));
            bits(&shader, &inputs, false)
        };
        // A build without native code reports that.
        let native = cfg!(feature = "jit").then_some(BackendChoice::NativeRequired);
        for backend in native.into_iter().chain([BackendChoice::NoNative, BackendChoice::Oracle]) {
            for crosscheck in [0, 1] {
                let (events, handler) = collecting();
                let options = Options { backend, precision, crosscheck, events: handler, ..Options::at_once() };
                let engine = Engine::new(options);
                let shader = engine.shader(&program, Entry::vertex(0));
                // Code for groups serves the later ones.
                (0..16).for_each(|_| _ = bits(&shader, &inputs, false));
                in_foreign_modes(|| {
                    for preserve_unit in [false, true] {
                        let context = (backend, precision, crosscheck, preserve_unit);
                        assert!(bits(&shader, &inputs, preserve_unit) == want, "{context:?}");
                        // Batches of one have a way of their own.
                        let one = bits(&shader, &inputs[..1], preserve_unit);
                        assert!(one[..28] == want[..28], "one vertex, {context:?}");
                        let three = bits(&shader, &inputs[..3], preserve_unit);
                        assert!(three == want[..3 * 64], "three vertices, {context:?}");
                    }
                });
                let events: Vec<String> = lock(&events).iter().map(Event::to_string).collect();
                assert!(events.is_empty(), "{events:?}");
            }
        }
    }
}

#[test]
fn interpreters_run_single_vertices_in_foreign_modes() {
    let program = crate::text::assemble(SOURCE).expect("a good source").shbin.program().expect("short");
    for backend in [BackendChoice::NoNative, BackendChoice::Oracle] {
        let shader = Engine::new(Options { backend, ..Options::at_once() }).shader(&program, Entry::vertex(0));
        let run = || {
            let mut unit = Unit::new();
            unit.v = vertices()[1];
            shader.run(&Uniforms::new(), &mut unit);
            unit.outputs().map(|o| o.map(|x| if x.is_nan() { 0 } else { x.to_bits() }))
        };
        let want = run();
        in_foreign_modes(|| assert!(run() == want, "{backend:?}"));
    }
}

#[test]
#[cfg(all(debug_assertions, feature = "jit"))]
fn single_runs_of_native_code_check_the_mode_in_debug_builds() {
    let engine = Engine::new(Options { backend: BackendChoice::NativeRequired, ..Options::at_once() });
    let shader = engine.shader(&program(3, &[]), Entry::vertex(0));
    let mut panics = 0;
    in_foreign_modes(|| {
        let run = std::panic::AssertUnwindSafe(|| shader.run(&Uniforms::new(), &mut Unit::new()));
        panics += usize::from(std::panic::catch_unwind(run).is_err());
    });
    // aarch64's default NaN, one of its eight, is no foreign mode.
    assert_eq!(panics, if cfg!(target_arch = "aarch64") { 7 } else { 8 });
}
