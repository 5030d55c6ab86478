//! One vertex a call, registers copied as a host does: `cargo bench --features capi --bench singles
//! [-- [--tiers] FILE...]`, for the built-in shaders or for files.
//!
//! The yardstick is unoptimised native code, run through Rust. Against it: `Shader::run`, `pj_run`
//! and a direct call through the C interface. With `--tiers`: tier 0 against the oracle. For each
//! vertex the host copies the input registers of the shader's mask to the unit, runs, and copies
//! the outputs of the mask. Nanoseconds a vertex; calls take turns, medians.

#![allow(unsafe_code)] // calls the C interface

#[allow(dead_code, unused_imports)]
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[allow(dead_code, unused_imports)] // this bench uses a part of it
#[path = "../tools/command/src/measure.rs"]
mod measure;
#[path = "common/shaders.rs"]
mod shaders;

use measure::{Stride, Workload, median};
use picajit::capi::{self, PjEngine, PjOptions, PjShader, PjUniforms, PjUnit};
use picajit::container::shbin::Dvle;
use picajit::engine::{BackendChoice, DirectCall, Engine, Options};
use picajit::internals::generator;
use picajit::internals::jit::{Jit, Variant};
use picajit::internals::kernel::{Config, Kernel, Unsupported, copy_registers};
use picajit::isa::Stage;
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

/// What is measured, and the ratios that are printed: times of the first divided by the second.
struct Plan {
    calls: [&'static str; 4],
    ratios: &'static [(usize, usize)],
}

/// Native code.
const NATIVE: Plan = Plan { calls: ["yardstick", "Shader::run", "pj_run", "direct call"], ratios: &[(0, 2)] };
/// Tier 0 and the oracle, through Rust and through C.
const TIERS: Plan = Plan { calls: ["oracle", "tier 0", "oracle, C", "tier 0, C"], ratios: &[(0, 1), (2, 3)] };

fn main() {
    // `cargo test --benches` only checks that this starts.
    let rounds: usize = if std::env::args().any(|a| a == "--bench") { 2001 } else { 3 };
    let of_tiers = std::env::args().any(|a| a == "--tiers");
    let plan = if of_tiers { TIERS } else { NATIVE };
    let engines = if of_tiers { Engines::tiers() } else { Engines::native() };
    let engines = match engines {
        Ok(engines) => engines,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let name = |&(a, b): &(usize, usize)| format!("  {} / {}", plan.calls[a], plan.calls[b]);
    let columns = plan.calls.map(|call| format!("{call:>12}")).concat();
    println!("{:40}{columns}{}", "ns a vertex", plan.ratios.iter().map(name).collect::<String>());
    let mut all = vec![Vec::new(); plan.ratios.len()];
    for (title, shbin) in shaders::shaders() {
        let Ok(program) = shbin.program() else { continue };
        for dvle in shbin.dvles.iter().filter(|dvle| dvle.entry().stage == Stage::Vertex) {
            let ns = measure(&engines, &program, dvle, if of_tiers { rounds.div_ceil(10) } else { rounds });
            let mut columns = ns.map(|ns| format!("{ns:12.1}")).concat();
            for (ratio, all) in plan.ratios.iter().zip(&mut all) {
                all.push(ns[ratio.0] / ns[ratio.1]);
                columns += &format!("{:width$.2}", ns[ratio.0] / ns[ratio.1], width = name(ratio).len());
            }
            println!("{:40}{columns}", title.chars().take(39).collect::<String>());
        }
    }
    for (ratio, all) in plan.ratios.iter().zip(&all) {
        let mean = (all.iter().map(|r: &f64| r.ln()).sum::<f64>() / all.len() as f64).exp();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{} entries,{}: geometric mean {mean:.2}, least {least:.2}", all.len(), name(ratio));
    }
}

/// What serves the calls.
#[allow(clippy::large_enum_variant)] // a process has one
enum Engines {
    /// The yardstick, an engine, and one of the C interface.
    Native(Arc<Jit>, Engine, *mut PjEngine),
    /// The oracle and tier 0 of both interfaces.
    Tiers([(Engine, *mut PjEngine); 2]),
}

impl Engines {
    fn native() -> Result<Engines, Unsupported> {
        let yardstick = Jit::new(Variant::Unoptimised)?;
        let engine = Engine::new(Options { compile_after: 0, ..Options::default() });
        Ok(Engines::Native(yardstick, engine, c_engine(capi::PJ_NATIVE_REQUIRED)))
    }

    fn tiers() -> Result<Engines, Unsupported> {
        let both = [(BackendChoice::Oracle, capi::PJ_ORACLE), (BackendChoice::NoNative, capi::PJ_INTERPRETER)];
        Ok(Engines::Tiers(
            both.map(|(backend, c_backend)| {
                (Engine::new(Options { backend, ..Options::default() }), c_engine(c_backend))
            }),
        ))
    }
}

/// An engine of the C interface. It is never freed.
fn c_engine(backend: u32) -> *mut PjEngine {
    let mut engine: *mut PjEngine = null_mut();
    let options = PjOptions { backend, ..PjOptions::ZERO };
    // SAFETY: all is valid.
    let status = unsafe { capi::pj_engine_new_for(capi::pj_version(), &options, &mut engine) };
    assert_eq!(status, capi::PJ_OK);
    engine
}

/// A host's loop body: runs a vertex and copies its outputs.
type Call<'a> = Box<dyn FnMut(&Registers, &mut Registers) -> i32 + 'a>;

/// Nanoseconds a vertex of each call.
fn measure(engines: &Engines, program: &Program, dvle: &Dvle, rounds: usize) -> [f64; 4] {
    let entry = dvle.entry();
    let program = Arc::new(program.clone());
    let inputs = generator::inputs(VERTICES);
    let work = Workload::new(dvle, &program, generator::uniforms(dvle), inputs, Stride::File);
    let work = &work;
    // SAFETY: all zero is both.
    let (mut c_unit, mut c_uniforms): (Box<PjUnit>, Box<PjUniforms>) =
        unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
    (c_uniforms.c, c_uniforms.i, c_uniforms.b) = (work.uniforms.c, work.uniforms.i, work.uniforms.b);
    let (at, constants): (*mut c_void, *const c_void) = (from_mut(&mut *c_unit).cast(), from_ref(&*c_uniforms).cast());
    let by_rust = |engine: &Engine| -> Call<'_> {
        let (shader, mut unit) = (engine.shader(&program, entry), Unit::new());
        Box::new(move |vertex, to| {
            copy_registers(work.input_mask, vertex, &mut unit.v);
            let exit = shader.run(black_box(&work.uniforms), &mut unit);
            copy_registers(work.output_mask, unit.outputs(), to);
            exit as i32
        })
    };
    let by_c = |c_shader: *mut PjShader| -> Call<'_> {
        Box::new(move |vertex, to| {
            // SAFETY: a live unit and uniforms; the run is over before the host copies.
            unsafe {
                copy_registers(work.input_mask, vertex, &mut (*at.cast::<PjUnit>()).v);
                let exit = capi::pj_run(c_shader, at, black_box(constants), None, null_mut());
                copy_registers(work.output_mask, &(*at.cast::<PjUnit>()).o[0], to);
                exit
            }
        })
    };
    let mut held = Vec::new();
    let mut c_shader = |engine| {
        held.push(self::c_shader(engine, &program, entry.pc));
        held[held.len() - 1]
    };
    let mut calls: [Call<'_>; 4] = match engines {
        Engines::Native(yardstick, engine, c_engine) => {
            let kernel =
                Arc::new(yardstick.compile_native(&program, entry, &Config::default()).expect("within the limits"));
            let mut unit = Unit::new();
            let by_kernel = move |vertex: &Registers, to: &mut Registers| {
                copy_registers(work.input_mask, vertex, &mut unit.v);
                let exit = kernel.run(black_box(&work.uniforms), &mut unit, &mut NoEmitter);
                copy_registers(work.output_mask, unit.outputs(), to);
                exit as i32
            };
            let shader = c_shader(*c_engine);
            let mut call = MaybeUninit::<DirectCall>::uninit();
            // SAFETY: the handle is live and `call` writable.
            assert_eq!(unsafe { capi::pj_shader_direct_call(shader, call.as_mut_ptr()) }, capi::PJ_OK);
            // SAFETY: written.
            let call = unsafe { call.assume_init() };
            let directly = move |vertex: &Registers, to: &mut Registers| {
                // SAFETY: as for `pj_run`.
                unsafe {
                    copy_registers(work.input_mask, vertex, &mut (*at.cast::<PjUnit>()).v);
                    let exit = (call.function)(call.context, at, black_box(constants));
                    copy_registers(work.output_mask, &(*at.cast::<PjUnit>()).o[0], to);
                    exit
                }
            };
            [Box::new(by_kernel), by_rust(engine), by_c(shader), Box::new(directly)]
        }
        Engines::Tiers([(oracle, c_oracle), (tier0, c_tier0)]) => {
            [by_rust(oracle), by_rust(tier0), by_c(c_shader(*c_oracle)), by_c(c_shader(*c_tier0))]
        }
    };
    let mut outputs = vec![[[0.0; 4]; 16]; VERTICES];
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        let ns = calls.each_mut().map(|call| pass(work, &mut outputs, &mut **call));
        times.iter_mut().zip(ns).for_each(|(all, ns)| all.push(ns));
    }
    drop(calls);
    // SAFETY: the last use.
    held.into_iter().for_each(|shader| unsafe { capi::pj_shader_release(shader) });
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
        )
    };
    assert_eq!(status, capi::PJ_OK);
    shader
}
