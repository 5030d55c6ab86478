//! The cost of calls: `cargo bench --features capi --bench embed`. Nanoseconds a call of the kernel
//! alone, through the engine, on a host's layout, and through the C interface; in turn, medians.
//! Then geometry invocations, and the cost of a lookup of a known shader.

#![allow(unsafe_code)] // calls the C interface

use picajit::capi::{self, PjBatch, PjEmitBuffer, PjEmitted, PjEngine, PjOptions, PjShader, PjUniforms, PjUnit};
use picajit::engine::{Engine, Options};
use picajit::internals::cache::ShaderKey;
use picajit::kernel::{Backend, Config};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, Emitter, NoEmitter, Registers, Uniforms, Unit, Vec4, VertexLayout, Vertices, VerticesMut};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::{from_mut, from_ref, null_mut};
use std::sync::Arc;
use std::time::Instant;

/// `dp4` four times, `mul`, `end`: as small as real shaders get.
const CODE: [u32; 6] = [0x0802_0000, 0x0802_1001, 0x0802_2002, 0x0802_3003, 0x2022_4084, 0x8800_0000];
const OPDESCS: [u32; 5] = [0x6_C368, 0x6_C364, 0x6_C362, 0x6_C361, 0x6_C36F];
/// `setemit`, `mov o0, v0`, `emit` for the three vertices of a triangle.
const TRIANGLE: [u32; 9] = [
    0xAC00_0000,
    0x4C00_0004,
    0xA800_0000,
    0xAD00_0000,
    0x4C00_0004,
    0xA800_0000,
    0xAE80_0000,
    0x4C00_0004,
    0xA800_0000,
];
const END: u32 = 0x8800_0000;
/// Registers of a vertex in batches.
const STRIDE: usize = 2;
/// Calls that are timed together.
const CALLS: usize = 1000;

fn main() {
    let rounds = if std::env::args().any(|a| a == "--bench") { 2001 } else { 3 };
    let program = Program::from_words(&CODE, &OPDESCS).expect("short");
    let shader = Engine::new(Options::default()).shader(&program, Entry::vertex(0));
    let Ok(jit) = picajit::jit::Jit::new(picajit::jit::Variant::Batch, Arc::new(picajit::interp::Interp)) else {
        println!("skipped: no native code here");
        return;
    };
    let kernel = jit.compile(&Arc::new(program), Entry::vertex(0), &Config::default()).expect("native");
    let c = c_shader(&CODE, capi::PJ_VERTEX);
    let (uniforms, mut unit) = (Uniforms::new(), Unit::new());
    // SAFETY: all zero is both.
    let (mut c_unit, c_uniforms): (Box<PjUnit>, Box<PjUniforms>) =
        unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
    let at: (*mut c_void, *const c_void) = (from_mut(&mut *c_unit).cast(), from_ref(&*c_uniforms).cast());
    for count in [1usize, 4, 64] {
        let inputs = vec![[1.0f32; 4]; count * STRIDE];
        let mut outputs = vec![[0.0f32; 4]; count * STRIDE];
        let mut c_outputs = outputs.clone();
        let batch = PjBatch {
            struct_size: size_of::<PjBatch>(),
            count,
            inputs: inputs.as_ptr().cast(),
            outputs: c_outputs.as_mut_ptr().cast(),
            input_mask: 3,
            output_mask: 3,
            input_stride: STRIDE as u16,
            output_stride: STRIDE as u16,
            preserve_unit: 0,
            vertex_layout: 0,
        };
        let mut times = [const { Vec::new() }; 3];
        for round in 0..rounds + 100 {
            let ns = [
                timed(|| match count {
                    1 => kernel.run(black_box(&uniforms), &mut unit, &mut NoEmitter) as u32,
                    _ => kernel.run_batch(
                        black_box(&uniforms),
                        &mut unit,
                        &mut rust_batch(&inputs, &mut outputs),
                        &mut NoEmitter,
                    ) as u32,
                }),
                timed(|| match count {
                    1 => shader.run(black_box(&uniforms), &mut unit) as u32,
                    _ => {
                        shader.run_batch(black_box(&uniforms), &mut unit, &mut rust_batch(&inputs, &mut outputs)) as u32
                    }
                }),
                timed(|| match count {
                    // SAFETY: all pointers are valid, and no other code uses them.
                    1 => unsafe { capi::pj_run(c, at.0, black_box(at.1), None, null_mut()) as u32 },
                    // SAFETY: as above.
                    _ => unsafe { capi::pj_run_batch(c, at.0, black_box(at.1), &batch) as u32 },
                }),
            ];
            // The first calls compile the batch code.
            if round >= 100 {
                times.iter_mut().zip(ns).for_each(|(all, ns)| all.push(ns));
            }
        }
        let [kernel, engine, c] = times.map(median);
        println!(
            "{count:>4} vertices a call: kernel {kernel:7.1} ns, engine {engine:+6.1} more",
            engine = engine - kernel
        );
        println!("{:>33}C {:+10.1} more", "", c - kernel);
    }
    // SAFETY: the last use.
    unsafe { capi::pj_shader_release(c) };
    for triangles in [0, 1, 2, 4, 8] {
        geometry(triangles, rounds);
    }
    lookups(rounds.min(301));
}

/// The cost of a lookup with all words of a game's memory, for programs of several lengths: of a
/// known program, and of one whose control flow must be explored.
fn lookups(rounds: usize) {
    let engine = Engine::new(Options::default());
    for len in [2, 30, 100, 511] {
        // `add r0, r0, vn` and `end`, then words of other programs.
        let mut code: Vec<u32> = (0..len - 1).map(|n| 0x0201_0000 | (n % 16) << 7).collect();
        code.extend([0x8800_0000].into_iter().chain((len..512).map(|n| 0x0200_0000 | n)));
        let program = Program::from_words(&code, &OPDESCS).expect("512 words");
        let (entry, config) = (Entry::vertex(0), Config::default());
        let first = engine.shader(&program, entry);
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            let known = timed(|| black_box(engine.shader(black_box(&program), entry)).same_as(&first) as u32);
            let start = Instant::now();
            black_box(ShaderKey::new(black_box(&program), entry, config));
            times.iter_mut().zip([known, start.elapsed().as_nanos() as f64]).for_each(|(all, ns)| all.push(ns));
        }
        let [known, explored] = times.map(median);
        println!("{len:>4} words: lookup of a known program {known:7.0} ns, exploring {explored:8.0} ns");
    }
}

fn rust_batch<'a>(inputs: &'a [Vec4], outputs: &'a mut [Vec4]) -> Batch<'a> {
    let count = inputs.len() / STRIDE;
    let inputs = Vertices::packed(inputs, STRIDE, count).expect("the buffer has that many vertices");
    let outputs = VerticesMut::packed(outputs, STRIDE, count).expect("the buffer has that many vertices");
    Batch { inputs, outputs, input_mask: 3, output_mask: 3, preserve_unit: false, layout: VertexLayout::Aos }
}

/// An emitter that reads what it receives.
struct Sum(f32);

impl Emitter for Sum {
    fn triangle(&mut self, vertices: [&Registers; 3], _: bool) {
        self.0 += vertices[2][0][0];
    }
}

unsafe extern "C" fn emit(user: *mut c_void, outputs: *const Vec4, _: u32, primitive: u32, _: u32) {
    // SAFETY: the pointer that the run received, and sixteen registers.
    unsafe { *user.cast::<f32>() += if primitive == 1 { (*outputs)[0] } else { 0.0 } };
}

unsafe extern "C" fn full(_: *mut c_void, _: *const PjEmitted, _: usize) {
    unreachable!("the buffer is large enough");
}

/// An invocation that emits triangles: from Rust, and through C by a callback and to a buffer.
fn geometry(triangles: usize, rounds: usize) {
    let code: Vec<u32> = TRIANGLE.repeat(triangles).into_iter().chain([END]).collect();
    let program = Program::from_words(&code, &OPDESCS).expect("short");
    let shader = Engine::new(Options::default()).shader(&program, Entry::geometry(0));
    let c = c_shader(&code, capi::PJ_GEOMETRY);
    let (uniforms, mut unit, mut sum) = (Uniforms::new(), Unit::new(), Sum(0.0));
    // SAFETY: all zero is valid.
    let (mut c_unit, c_uniforms, mut vertices): (Box<PjUnit>, Box<PjUniforms>, Box<[PjEmitted; 32]>) =
        unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
    let at: (*mut c_void, *const c_void) = (from_mut(&mut *c_unit).cast(), from_ref(&*c_uniforms).cast());
    let mut buffer = PjEmitBuffer {
        struct_size: size_of::<PjEmitBuffer>(),
        vertices: vertices.as_mut_ptr(),
        capacity: vertices.len(),
        count: 0,
        full: Some(full),
        user: null_mut(),
    };
    let (mut c_sum, mut buffer_sum) = (0.0f32, 0.0f32);
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        let ns = [
            timed(|| shader.run_geometry(black_box(&uniforms), &mut unit, &mut sum) as u32),
            timed(|| {
                // SAFETY: all pointers are valid, and no other code uses them.
                unsafe { capi::pj_run(c, at.0, black_box(at.1), Some(emit), from_mut(&mut c_sum).cast()) as u32 }
            }),
            timed(|| {
                buffer.count = 0;
                // SAFETY: as above; the run has written `count` vertices.
                unsafe {
                    let exit = capi::pj_run_geometry(c, at.0, black_box(at.1), &mut buffer) as u32;
                    for vertex in std::slice::from_raw_parts(buffer.vertices, buffer.count) {
                        buffer_sum += if vertex.primitive == 1 { vertex.outputs[0][0] } else { 0.0 };
                    }
                    exit
                }
            }),
        ];
        times.iter_mut().zip(ns).for_each(|(all, ns)| all.push(ns));
    }
    black_box((sum.0, c_sum, buffer_sum));
    let [rust, callback, to_buffer] = times.map(median);
    println!(
        "{:>4} emitted vertices: Rust {rust:7.1} ns, C with a callback {:+6.1} more, C with a buffer {:+6.1} more",
        3 * triangles,
        callback - rust,
        to_buffer - rust
    );
    // SAFETY: the last use.
    unsafe { capi::pj_shader_release(c) };
}

fn c_shader(words: &[u32], stage: u32) -> *mut PjShader {
    let (mut engine, mut shader): (*mut PjEngine, *mut PjShader) = (null_mut(), null_mut());
    let none: *const PjOptions = std::ptr::null();
    // SAFETY: null selects the defaults; the rest is valid. The shader may outlive its engine.
    let status = unsafe {
        let made = capi::pj_engine_new(none, &mut engine, null_mut(), 0);
        let (code, opdescs) = (words.as_ptr(), OPDESCS.as_ptr());
        let got = capi::pj_shader_get(
            engine,
            code,
            words.len(),
            opdescs,
            OPDESCS.len(),
            0,
            stage,
            &mut shader,
            null_mut(),
            0,
        );
        capi::pj_engine_free(engine);
        (made, got)
    };
    assert_eq!(status, (0, 0));
    shader
}

/// Nanoseconds a call.
fn timed(mut call: impl FnMut() -> u32) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(call());
    }
    start.elapsed().as_nanos() as f64 / CALLS as f64
}

fn median(mut ns: Vec<f64>) -> f64 {
    ns.sort_by(f64::total_cmp);
    ns[ns.len() / 2]
}
