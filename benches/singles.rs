//! One vertex a call, registers copied as a host does: `cargo bench --features capi --bench singles
//! [-- FILE...]`, for the built-in shaders or for files.
//!
//! The yardstick is unoptimised native code, run through Rust. Against it: `Shader::run`, `pj_run`
//! and a direct call through the C interface. For each vertex the host copies the input registers
//! of the shader's mask to the unit, runs, and copies the outputs of the mask. Nanoseconds a vertex;
//! doors take turns, medians.

#![allow(unsafe_code)] // calls the C interface

#[allow(dead_code, unused_imports)]
#[path = "../src/bin/picajit/builtin.rs"]
mod builtin;
#[allow(dead_code, unused_imports)]
#[allow(dead_code)] // this bench uses a part of it
#[path = "../src/bin/picajit/measure.rs"]
mod measure;

use measure::{Stride, Workload, median};
use picajit::capi::{self, PjEngine, PjOptions, PjShader, PjUniforms, PjUnit};
use picajit::container::shbin::{Dvle, Shbin};
use picajit::engine::{DirectCall, Engine, Options};
use picajit::internals::generator;
use picajit::interp::Interp;
use picajit::isa::Stage;
use picajit::jit::{Jit, Variant};
use picajit::kernel::{Backend, Config, copy_registers};
use picajit::program::Program;
use picajit::state::{NoEmitter, Registers, Unit};
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::{from_mut, from_ref, null_mut};
use std::sync::Arc;
use std::time::Instant;

/// Vertices in a pass: their registers stay in the second cache.
const VERTICES: usize = 256;
const DOORS: [&str; 4] = ["yardstick", "Shader::run", "pj_run", "direct call"];

fn shaders() -> Vec<(String, Shbin)> {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let read = |path: &String| {
        let bytes = std::fs::read(path).map_err(|e| e.to_string());
        match bytes.and_then(|bytes| Shbin::parse(&bytes).map_err(|e| e.to_string())) {
            Ok(shbin) => Some((path.rsplit('/').next().unwrap_or(path).to_string(), shbin)),
            Err(error) => {
                println!("{path}: {error}");
                None
            }
        }
    };
    if files.is_empty() {
        let assemble = |source| picajit::text::assemble(source).expect("a test assembles each").shbin;
        return builtin::BUILTINS.iter().map(|b| (b.name.to_string(), assemble(b.source))).collect();
    }
    files.iter().filter_map(read).collect()
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let rounds = if std::env::args().any(|a| a == "--bench") { 2001 } else { 3 };
    let yardstick = match Jit::new(Variant::Unoptimised, Arc::new(Interp)) {
        Ok(jit) => jit,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let mut c_engine: *mut PjEngine = null_mut();
    let options = PjOptions { backend: capi::PJ_NATIVE_REQUIRED, ..PjOptions::DEFAULT };
    // SAFETY: all is valid. The engine is never freed.
    let status = unsafe { capi::pj_engine_new(&options, &mut c_engine, null_mut(), 0) };
    assert_eq!(status, capi::PJ_OK);
    let engine = Engine::new(Options { compile_after: 0, ..Options::default() });
    println!("{:40}{}  yardstick / pj_run", "ns a vertex", DOORS.map(|door| format!("{door:>12}")).concat());
    let mut ratios = Vec::new();
    for (name, shbin) in shaders() {
        let Ok(program) = shbin.program() else { continue };
        for dvle in shbin.dvles.iter().filter(|dvle| dvle.entry().stage == Stage::Vertex) {
            let ns = measure(&yardstick, &engine, c_engine, &program, dvle, rounds);
            ratios.push(ns[0] / ns[2]);
            let columns = ns.map(|ns| format!("{ns:12.1}")).concat();
            println!("{:40}{columns}{:20.2}", name.chars().take(39).collect::<String>(), ns[0] / ns[2]);
        }
    }
    let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{} entries: geometric mean {mean:.2}, least {least:.2}", ratios.len());
}

/// Nanoseconds a vertex of each door.
fn measure(
    yardstick: &Arc<Jit>,
    engine: &Engine,
    c_engine: *mut PjEngine,
    program: &Program,
    dvle: &Dvle,
    rounds: usize,
) -> [f64; 4] {
    let entry = dvle.entry();
    let program = Arc::new(program.clone());
    let inputs = generator::inputs(VERTICES);
    let work = Workload::new(dvle, &program, generator::uniforms(dvle), inputs, Stride::File);
    let kernel = yardstick.compile(&program, entry, &Config::default()).expect("real shaders are within the limits");
    let shader = engine.shader(&program, entry);
    let c_shader = c_shader(c_engine, &program, entry.pc);
    let mut call = MaybeUninit::<DirectCall>::uninit();
    // SAFETY: the handle is live and `call` writable.
    assert_eq!(unsafe { capi::pj_shader_direct_call(c_shader, call.as_mut_ptr()) }, capi::PJ_OK);
    // SAFETY: written.
    let call = unsafe { call.assume_init() };
    let mut unit = Unit::new();
    // SAFETY: all zero is both.
    let (mut c_unit, mut c_uniforms): (Box<PjUnit>, Box<PjUniforms>) =
        unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
    (c_uniforms.c, c_uniforms.i, c_uniforms.b) = (work.uniforms.c, work.uniforms.i, work.uniforms.b);
    let (at, constants): (*mut c_void, *const c_void) = (from_mut(&mut *c_unit).cast(), from_ref(&*c_uniforms).cast());
    let mut outputs = vec![[[0.0; 4]; 16]; VERTICES];
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        let ns = [
            pass(&work, &mut outputs, &mut |vertex, to| {
                copy_registers(work.input_mask, vertex, &mut unit.v);
                let exit = kernel.run(black_box(&work.uniforms), &mut unit, &mut NoEmitter);
                copy_registers(work.output_mask, unit.outputs(), to);
                exit as i32
            }),
            pass(&work, &mut outputs, &mut |vertex, to| {
                copy_registers(work.input_mask, vertex, &mut unit.v);
                let exit = shader.run(black_box(&work.uniforms), &mut unit);
                copy_registers(work.output_mask, unit.outputs(), to);
                exit as i32
            }),
            pass(&work, &mut outputs, &mut |vertex, to| {
                // SAFETY: a live unit and uniforms; the run is over before the host copies.
                unsafe {
                    copy_registers(work.input_mask, vertex, &mut (*at.cast::<PjUnit>()).v);
                    let exit = capi::pj_run(c_shader, at, black_box(constants), None, null_mut());
                    copy_registers(work.output_mask, &(*at.cast::<PjUnit>()).o[0], to);
                    exit
                }
            }),
            pass(&work, &mut outputs, &mut |vertex, to| {
                // SAFETY: the same.
                unsafe {
                    copy_registers(work.input_mask, vertex, &mut (*at.cast::<PjUnit>()).v);
                    let exit = (call.function)(call.context, at, black_box(constants));
                    copy_registers(work.output_mask, &(*at.cast::<PjUnit>()).o[0], to);
                    exit
                }
            }),
        ];
        times.iter_mut().zip(ns).for_each(|(all, ns)| all.push(ns));
    }
    // SAFETY: the last use.
    unsafe { capi::pj_shader_release(c_shader) };
    times.map(|mut times| median(&mut times))
}

/// Nanoseconds a vertex of one pass.
fn pass(work: &Workload, outputs: &mut [Registers], run: &mut dyn FnMut(&Registers, &mut Registers) -> i32) -> f64 {
    let start = Instant::now();
    for (vertex, to) in work.inputs.iter().zip(&mut *outputs) {
        black_box(run(vertex, to));
    }
    black_box(outputs);
    start.elapsed().as_nanos() as f64 / work.inputs.len() as f64
}

fn c_shader(engine: *mut PjEngine, program: &Program, pc: u16) -> *mut PjShader {
    let mut shader = null_mut();
    let (code, opdescs) = (program.code(), program.opdescs());
    // SAFETY: all pointers are valid.
    let status = unsafe {
        let (words, descriptors) = (code.as_ptr(), opdescs.as_ptr());
        capi::pj_shader_get(
            engine,
            words,
            code.len(),
            descriptors,
            opdescs.len(),
            pc.into(),
            capi::PJ_VERTEX,
            &mut shader,
            null_mut(),
            0,
        )
    };
    assert_eq!(status, capi::PJ_OK);
    shader
}
