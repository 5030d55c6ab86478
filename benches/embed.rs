//! What a call costs that runs a shader or looks it up:
//! `cargo bench --features capi --bench embed [-- --plot FILE]`. Each call runs each built-in shader;
//! the result is nanoseconds a call over the raw kernel, the machine code called through its pointer.
//!
//! Calls take turns, so that a slow-down of the machine affects all of them. A figure is the median,
//! over the rounds, of a call's time less its reference's time in the same round.

#![allow(unsafe_code)] // calls machine code and the C interface

#[allow(dead_code, unused_imports)] // this bench uses a part of each
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[path = "common/calls.rs"]
mod calls;
#[allow(dead_code, unused_imports)]
#[path = "../tools/command/src/measure.rs"]
mod measure;
#[path = "common/picture.rs"]
mod picture;
#[allow(dead_code)]
#[path = "../tools/command/src/plot.rs"]
mod plot;

use calls::{Calls, Over, Table, median, timed};
use measure::{Stride, Workload};
use picajit::analysis::Analysis;
use picajit::capi::{self, PjBatch, PjEmitBuffer, PjEmitted, PjEngine, PjOptions, PjShader, PjUniforms, PjUnit};
use picajit::engine::{DirectCall, Engine, Options};
use picajit::internals::cache::ShaderKey;
use picajit::internals::direct::MachineCode;
use picajit::internals::generator;
use picajit::internals::jit::{Jit, Variant};
use picajit::internals::kernel::{Config, Kernel, copy_registers};
use picajit::isa::{OPDESCS, Stage};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, EmitState, Emitter, NoEmitter, Registers, Uniforms, Unit, Vec4, Vertices, VerticesMut};
use plot::{Group, Plot};
use std::cell::RefCell;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

/// Vertices that are timed together.
const VERTICES: usize = 256;
/// Fewest calls that are timed together: the clock has a resolution.
const FEWEST_CALLS: usize = 32;
/// Sizes of batches. The last one is compared with the kernel's own batch.
const BATCHES: [usize; 4] = [1, 2, 4, 64];
/// Geometry invocations of a batch, and vertices that the host's buffer holds.
const INVOCATIONS: usize = 1024;
/// Vertices that an invocation of the programs of [`emissions`] emits.
const EMITTED: usize = 32;
/// Code words of a game's memory.
const MEMORY_WORDS: usize = 512;

/// The memory of both interfaces, with the same values.
struct Memory {
    uniforms: Uniforms,
    unit: RefCell<Unit>,
    c_uniforms: Box<PjUniforms>,
    c_unit: RefCell<Box<PjUnit>>,
}

impl Memory {
    fn new(work: &Workload) -> Memory {
        let mut unit = Unit::new();
        unit.v = work.inputs[0];
        // SAFETY: all zero is both.
        let (mut c_unit, mut c_uniforms): (Box<PjUnit>, Box<PjUniforms>) =
            unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
        c_unit.v = unit.v;
        let uniforms = work.uniforms.clone();
        (c_uniforms.c, c_uniforms.i, c_uniforms.b) = (uniforms.c, uniforms.i, uniforms.b);
        Memory { uniforms, unit: unit.into(), c_uniforms, c_unit: c_unit.into() }
    }

    /// The arguments of the C interface.
    fn c(&self) -> (*mut c_void, *const c_void) {
        let unit: *mut PjUnit = &mut **self.c_unit.borrow_mut();
        (unit.cast(), (&raw const *self.c_uniforms).cast())
    }

    /// The same for the Rust types.
    fn own(&self) -> (*mut c_void, *const c_void) {
        (self.unit.as_ptr().cast(), (&raw const self.uniforms).cast())
    }
}

/// A shader of both interfaces.
struct Subject<'a> {
    program: &'a Program,
    entry: Entry,
    work: &'a Workload,
    engine: &'a Engine,
    c_engine: *mut PjEngine,
    memory: &'a Memory,
}

impl<'a> Subject<'a> {
    /// Single runs of a vertex shader, and batches.
    fn vertex_calls(&self, jit: &Arc<Jit>) -> (Calls<'a>, Calls<'a>) {
        let Subject { work, memory, .. } = *self;
        let shader = self.engine.shader(self.program, self.entry);
        let c = self.c_shader(self.program);
        let pairs = black_box((shader.direct_call(), c_pair(c)));
        let mut calls = Calls::default();
        let raw = calls.add("raw", Over::Nothing, raw(pairs.0, memory.own()));
        let c_raw = calls.add("raw C", Over::Nothing, self::raw(pairs.1, memory.c()));
        let run = shader.clone();
        calls.add("run", Over::Times(raw, 1), move || {
            let unit = &mut *memory.unit.borrow_mut();
            timed(VERTICES, || run.run(black_box(&memory.uniforms), unit) as i32)
        });
        calls.add("pair", Over::Times(raw, 1), by_pair(pairs.0, memory.own()));
        let (c_unit, c_uniforms) = memory.c();
        calls.add("pj_run", Over::Times(c_raw, 1), move || {
            // SAFETY: all pointers are valid, and no other code uses them.
            timed(VERTICES, || unsafe { capi::pj_run(c, c_unit, black_box(c_uniforms), None, null_mut()) })
        });
        calls.add("pj pair", Over::Times(c_raw, 1), by_pair(pairs.1, memory.c()));

        let mut batches = Calls::default();
        let raw = batches.add("", Over::Nothing, self::raw(pairs.0, memory.own()));
        let c_raw = batches.add("", Over::Nothing, self::raw(pairs.1, memory.c()));
        // A host without batches copies the same registers around its runs.
        let (of, mut places) = (work.vertices().part(0..1), work.places());
        let run = shader.clone();
        batches.add("run", Over::Times(raw, 1), move || {
            let unit = &mut *memory.unit.borrow_mut();
            timed(VERTICES, || {
                copy_registers(work.input_mask, black_box(of.registers()), &mut unit.v);
                let exit = run.run(black_box(&memory.uniforms), unit);
                copy_registers(work.output_mask, unit.outputs(), black_box(&mut places));
                exit as i32
            })
        });
        let mut places = work.places();
        batches.add("C run", Over::Times(c_raw, 1), move || {
            // SAFETY: all pointers are valid, and no other code uses the unit while the host copies.
            timed(VERTICES, || unsafe {
                copy_registers(work.input_mask, black_box(of.registers()), &mut (*c_unit.cast::<PjUnit>()).v);
                let status = capi::pj_run(c, c_unit, black_box(c_uniforms), None, null_mut());
                copy_registers(work.output_mask, &(*c_unit.cast::<PjUnit>()).o[0], black_box(&mut places));
                status
            })
        });
        let kernel = jit.compile_native(&Arc::new(self.program.clone()), self.entry, &Config::default());
        let kernel = Arc::new(kernel.expect("a test compiles each"));
        for (count, preserve_unit) in BATCHES.into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let vertices = work.vertices().part(0..count);
            let mut places = work.places();
            let kept = if preserve_unit { " kept" } else { "" };
            let (mut over, mut c_over) = (Over::Times(raw, count), Over::Times(c_raw, count));
            let stride = Vertices::stride_for(work.output_mask);
            if count == 64 {
                let (kernel, mut places) = (kernel.clone(), work.places());
                let own = batches.add("", Over::Nothing, move || {
                    let unit = &mut *memory.unit.borrow_mut();
                    timed(repeats(count), || {
                        let mut batch = rust_batch(work, vertices, &mut places, stride, preserve_unit);
                        kernel.run_batch(black_box(&memory.uniforms), unit, &mut batch, &mut NoEmitter).exit as i32
                    })
                });
                (over, c_over) = (Over::Times(own, 1), Over::Times(own, 1));
            }
            let shader = shader.clone();
            batches.add(format!("{count}{kept}"), over, move || {
                let unit = &mut *memory.unit.borrow_mut();
                timed(repeats(count), || {
                    let mut batch = rust_batch(work, vertices, &mut places, stride, preserve_unit);
                    shader.run_batch(black_box(&memory.uniforms), unit, &mut batch).exit as i32
                })
            });
            let mut places = work.places();
            batches.add(format!("C {count}{kept}"), c_over, move || {
                let batch = PjBatch {
                    struct_size: size_of::<PjBatch>(),
                    count,
                    inputs: vertices.registers().as_ptr().cast(),
                    outputs: places.as_mut_ptr().cast(),
                    input_mask: work.input_mask,
                    output_mask: work.output_mask,
                    input_stride: Vertices::stride_for(work.input_mask) as u16,
                    output_stride: stride as u16,
                    preserve_unit: preserve_unit.into(),
                    reserved: 0,
                    ran: std::ptr::null_mut(),
                };
                // SAFETY: all pointers are valid, and no other code uses them.
                timed(repeats(count), || unsafe {
                    capi::pj_run_batch(c, c_unit, black_box(c_uniforms), black_box(&batch))
                })
            });
        }
        (calls, batches)
    }

    /// Geometry invocations.
    fn geometry_calls(&self, jit: &Arc<Jit>) -> Calls<'a> {
        let memory = self.memory;
        let kernel = jit.compile_native(&Arc::new(self.program.clone()), self.entry, &Config::default());
        let kernel = Arc::new(kernel.expect("a test compiles each"));
        let shader = self.engine.shader(self.program, self.entry);
        let c = self.c_shader(self.program);
        let mut calls = Calls::default();
        let raw = calls.add("kernel", Over::Nothing, move || {
            let unit = &mut *memory.unit.borrow_mut();
            timed(VERTICES, || kernel.run(black_box(&memory.uniforms), unit, &mut Receiver) as i32)
        });
        calls.add("run_geometry", Over::Times(raw, 1), move || {
            let unit = &mut *memory.unit.borrow_mut();
            timed(VERTICES, || shader.run_geometry(black_box(&memory.uniforms), unit, &mut Receiver) as i32)
        });
        let (c_unit, c_uniforms) = memory.c();
        let mut emitted =
            vec![PjEmitted { outputs: [[0.0; 4]; 16], vertex: 0, primitive: 0, winding: 0, reserved: 0 }; 64];
        calls.add("pj_run_geometry", Over::Times(raw, 1), move || {
            let vertices = emitted.as_mut_ptr();
            timed(VERTICES, || {
                let mut buffer = PjEmitBuffer {
                    struct_size: size_of::<PjEmitBuffer>(),
                    vertices,
                    capacity: 64,
                    count: 0,
                    full: Some(read_triangles),
                    user: null_mut(),
                    output_mask: 0,
                };
                // SAFETY: all pointers are valid, and no other code uses them.
                let exit = unsafe { capi::pj_run_geometry(c, c_unit, black_box(c_uniforms), &mut buffer) };
                // SAFETY: the run has stored that many.
                unsafe { read_triangles(null_mut(), vertices, buffer.count) };
                exit
            })
        });
        self.geometry_batch_calls(&mut calls, raw);
        let mut slots = Box::new([[[0f32; 4]; 16]; 4]);
        calls.add("pj_run", Over::Times(raw, 1), move || {
            let slots = (&raw mut *slots).cast();
            // SAFETY: all pointers are valid, and no other code uses them.
            timed(VERTICES, || unsafe { capi::pj_run(c, c_unit, black_box(c_uniforms), Some(fill_slot), slots) })
        });
        calls
    }

    /// Invocations with inputs of their own, for a host that takes what the program writes: singly, and in
    /// one batch. The host's reading of the vertices is not in these times.
    fn geometry_batch_calls(&self, calls: &mut Calls<'a>, raw: usize) {
        let (c, (unit, uniforms)) = (self.c_shader(self.program), self.memory.c());
        let analysis = Analysis::new(self.program, self.entry).expect("small");
        let stride = Vertices::stride_for(analysis.inputs);
        let inputs: Vec<Vec4> = (0..INVOCATIONS * stride).map(|n| [n as f32 * 0.25, 1.0, 2.0, 3.0]).collect();
        for batched in [false, true] {
            let inputs = inputs.clone();
            let vertex = PjEmitted { outputs: [[0.0; 4]; 16], vertex: 0, primitive: 0, winding: 0, reserved: 0 };
            let mut emitted = vec![vertex; INVOCATIONS];
            let name = if batched { "pj_run_geometry_batch" } else { "pj_run_geometry, mask" };
            calls.add(name, Over::Times(raw, 1), move || {
                let mut buffer = PjEmitBuffer {
                    struct_size: size_of::<PjEmitBuffer>(),
                    vertices: emitted.as_mut_ptr(),
                    capacity: emitted.len(),
                    count: 0,
                    full: Some(take_nothing),
                    user: null_mut(),
                    output_mask: analysis.outputs.into(),
                };
                let batch = PjBatch {
                    struct_size: size_of::<PjBatch>(),
                    count: INVOCATIONS,
                    inputs: inputs.as_ptr().cast(),
                    outputs: null_mut(),
                    input_mask: analysis.inputs,
                    output_mask: 0,
                    input_stride: stride as u16,
                    output_stride: 0,
                    preserve_unit: 0,
                    reserved: 0,
                    ran: null_mut(),
                };
                let mut n = 0;
                // SAFETY: all pointers are valid, and no other code uses them. A unit of C begins with `v`.
                let ns = timed(if batched { 1 } else { INVOCATIONS }, || unsafe {
                    if batched {
                        return capi::pj_run_geometry_batch(c, unit, black_box(uniforms), &batch, &mut buffer);
                    }
                    unit.cast::<Vec4>().copy_from_nonoverlapping(inputs.as_ptr().add(n * stride), stride);
                    n = (n + 1) % INVOCATIONS;
                    capi::pj_run_geometry(c, unit, black_box(uniforms), &mut buffer)
                });
                if batched { ns / INVOCATIONS as f64 } else { ns }
            });
        }
    }

    /// Lookups of the program, which the engines know.
    fn lookup_calls(&self) -> Calls<'a> {
        let (engine, c_engine, entry) = (self.engine, self.c_engine, self.entry);
        let mut calls = Calls::default();
        for (program, words) in [(self.program.clone(), "own"), (in_memory(self.program), "512")] {
            let (known, held) = (program.clone(), self.engine.shader(&program, entry));
            calls.add(format!("shader, {words}"), Over::Nothing, move || {
                timed(VERTICES, || {
                    let found = engine.shader(black_box(&known), entry);
                    i32::from(!found.same_as(&held))
                })
            });
            calls.add(format!("pj_shader_get, {words}"), Over::Nothing, move || {
                timed(VERTICES, || {
                    let shader = black_box(c_shader_of(c_engine, &program, entry));
                    // SAFETY: the last use.
                    unsafe { capi::pj_shader_release(shader) };
                    0
                })
            });
        }
        calls
    }

    /// The shader in C's engine, held for good.
    fn c_shader(&self, program: &Program) -> *mut PjShader {
        c_shader_of(self.c_engine, program, self.entry)
    }
}

/// What an EMIT costs over the stores of its vertex, through the host's buffer.
fn emissions(engine: *mut PjEngine, rounds: usize) {
    let vertex = PjEmitted { outputs: [[0.5; 4]; 16], vertex: 1, primitive: 0, winding: 0, reserved: 0 };
    let mut emitted = vec![vertex; EMITTED];
    let vertices = emitted.as_mut_ptr();
    let (mut unit, uniforms) =
        (Box::new([0u8; size_of::<PjUnit>() + 16]), Box::new([0u8; size_of::<PjUniforms>() + 16]));
    let unit: *mut c_void = unit.as_mut_ptr().map_addr(|at| at.next_multiple_of(16)).cast();
    let uniforms: *const c_void = uniforms.as_ptr().map_addr(|at| at.next_multiple_of(16)).cast();
    let mut calls = Calls::default();
    let mut invocation = |count: usize| {
        let body = "    setemit 1\n    emit\n".repeat(count);
        let source = format!(".gsh point c0\n.out o position\n.proc main\n    mov o, v0\n{body}    end\n.end\n");
        let shbin = picajit::text::assemble(&source).expect("a geometry program").shbin;
        let program = shbin.program().expect("fewer words than the limit");
        let shader = c_shader_of(engine, &program, shbin.dvles[0].entry());
        let name = format!("{count} EMITs");
        calls.add(name, Over::Nothing, move || {
            timed(VERTICES, || {
                let mut buffer = PjEmitBuffer {
                    struct_size: size_of::<PjEmitBuffer>(),
                    vertices,
                    capacity: EMITTED,
                    count: 0,
                    full: Some(read_triangles),
                    user: null_mut(),
                    output_mask: 0,
                };
                // SAFETY: all pointers are valid, and no other code uses them.
                let exit = unsafe { capi::pj_run_geometry(shader, unit, black_box(uniforms), &mut buffer) };
                exit | i32::from(buffer.count != count)
            })
        })
    };
    let none = invocation(0);
    invocation(EMITTED);
    calls.add("stores", Over::Nothing, || {
        timed(VERTICES, || {
            // SAFETY: the vertices of the buffer, which no other code uses now.
            let emitted = unsafe { std::slice::from_raw_parts_mut(vertices, EMITTED) };
            emitted.iter_mut().for_each(|to| *to = *black_box(&vertex));
            black_box(emitted);
            0
        })
    });
    let ns: Vec<f64> = calls.measure(rounds).into_iter().map(|(_, ns)| ns).collect();
    let [emit, stores] = [ns[none + 1] - ns[none], ns[none + 2]].map(|ns| ns / EMITTED as f64);
    println!("EMIT through a buffer: {emit:.1} ns, of which the stores of a vertex take {stores:.1} ns\n");
}

/// The raw kernel: machine code through its pointer.
fn raw(pair: DirectCall, (unit, uniforms): (*mut c_void, *const c_void)) -> impl FnMut() -> f64 {
    // SAFETY: the shader is held, and its code stays: no run of this bench deoptimises.
    let MachineCode { function, v, frame } = unsafe { pair.machine_code() }.expect("native code that emits nothing");
    let inputs: *const Vec4 = unit.wrapping_byte_add(v).cast_const().cast();
    move || {
        // SAFETY: uniforms, unit and inputs of the code's layout, which no other code uses.
        timed(VERTICES, || unsafe { function(black_box(uniforms.cast()), unit.cast(), inputs, frame) as i32 })
    }
}

/// Function and context.
fn by_pair(pair: DirectCall, (unit, uniforms): (*mut c_void, *const c_void)) -> impl FnMut() -> f64 {
    // SAFETY: the shader is held; unit and uniforms of its layout, which no other code uses.
    move || timed(VERTICES, || unsafe { (pair.function)(pair.context, unit, black_box(uniforms)) })
}

/// Calls that are timed together, with this many vertices each.
const fn repeats(count: usize) -> usize {
    let calls = VERTICES / count;
    if calls < FEWEST_CALLS { FEWEST_CALLS } else { calls }
}

/// A program in a game's memory: as the first words and descriptors of many.
fn in_memory(program: &Program) -> Program {
    let (mut code, mut opdescs) = (program.code().to_vec(), program.opdescs().to_vec());
    code.extend((code.len()..MEMORY_WORDS).map(|n| 0x0200_0000 | n as u32));
    opdescs.extend((opdescs.len()..OPDESCS).map(|n| n as u32));
    Program::from_words(&code, &opdescs).expect("512 words")
}

fn c_shader_of(engine: *mut PjEngine, program: &Program, entry: Entry) -> *mut PjShader {
    let (code, opdescs) = (program.code(), program.opdescs());
    let stage = if entry.stage == Stage::Vertex { capi::PJ_VERTEX } else { capi::PJ_GEOMETRY };
    let (mut shader, pc) = (null_mut(), u32::from(entry.pc));
    // SAFETY: the engine lives as long as the process; the rest is valid.
    let status = unsafe {
        let (words, descriptors) = (code.len(), opdescs.len());
        let (code, opdescs) = (code.as_ptr(), opdescs.as_ptr());
        capi::pj_shader_get(engine, code, words, opdescs, descriptors, pc, stage, &mut shader)
    };
    assert_eq!(status, capi::PJ_OK);
    shader
}

fn c_pair(shader: *mut PjShader) -> DirectCall {
    let mut pair = std::mem::MaybeUninit::uninit();
    // SAFETY: a live handle, and a pair that is written on success.
    unsafe {
        assert_eq!(capi::pj_shader_direct_call(shader, pair.as_mut_ptr()), capi::PJ_OK);
        pair.assume_init()
    }
}

/// A batch as a host makes it for each call. `stride`: registers of a vertex's outputs.
fn rust_batch<'b>(
    work: &Workload,
    inputs: Vertices<'b>,
    places: &'b mut [Vec4],
    stride: usize,
    preserve_unit: bool,
) -> Batch<'b> {
    let outputs = VerticesMut::packed(places, stride, inputs.len());
    Batch {
        inputs,
        outputs: outputs.expect("there are as many"),
        input_mask: work.input_mask,
        output_mask: work.output_mask,
        preserve_unit,
    }
}

/// A host's assembly: it has the triangles, and does nothing with them.
struct Receiver;

impl Emitter for Receiver {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        black_box((vertices, winding));
    }
}

/// The same in C: the host copies the outputs to its slot.
unsafe extern "C" fn fill_slot(slots: *mut c_void, outputs: *const Vec4, vertex: u32, primitive: u32, winding: u32) {
    // SAFETY: the bench passes four slots; the outputs are sixteen registers.
    let (slots, outputs) = unsafe { (&mut *slots.cast::<[Registers; 4]>(), &*outputs.cast::<Registers>()) };
    let how = EmitState { vertex: vertex as u8, primitive: primitive == 1, winding: winding == 1 };
    how.emit(outputs, slots, &mut Receiver);
}

/// Receives a buffer of vertices, and reads none.
unsafe extern "C" fn take_nothing(_: *mut c_void, _: *const PjEmitted, _: usize) {}

/// Receives a buffer of vertices: the slots are indices, and the vertices stay where they are.
unsafe extern "C" fn read_triangles(_: *mut c_void, vertices: *const PjEmitted, count: usize) {
    // SAFETY: the library passes that many vertices.
    let vertices = unsafe { std::slice::from_raw_parts(vertices, count) };
    let mut last = [0; 4];
    for (n, vertex) in vertices.iter().enumerate() {
        last[vertex.vertex as usize & 3] = n;
        if vertex.primitive == 1 {
            black_box(([0, 1, 2].map(|slot| &vertices[last[slot]].outputs), vertex.winding));
        }
    }
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    let rounds = if std::env::args().any(|a| a == "--bench") { 2001 } else { 3 };
    let jit = match Jit::new(Variant::Batch) {
        Ok(jit) => jit,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let (engine, mut c_engine) = (Engine::new(Options { compile_after: 0, ..Options::default() }), null_mut());
    let options = PjOptions { backend: capi::PJ_NATIVE_REQUIRED, ..PjOptions::ZERO };
    // SAFETY: all is valid. The engine is never freed.
    let status = unsafe { capi::pj_engine_new_for(capi::pj_version(), &options, &mut c_engine) };
    assert_eq!(status, capi::PJ_OK);
    let mut single = Table::new(
        "one vertex",
        "raw, raw C: the machine code for Rust's and for C's structures, called through its pointer. Others: over it.",
    );
    let mut batches = Table::new(
        "batches of 1, 2, 4, 64",
        "1, 2, 4: over so many calls of the raw kernel. 64: over the kernel's own run_batch. kept: the unit is preserved. \
         run: one run, around which the host copies the same registers.",
    );
    let mut geometry = Table::new(
        "geometry",
        "kernel: called through Rust. Others: over it. pj_run: a callback for each EMIT. pj_run_geometry: a buffer of the host's.",
    );
    let mut lookups = Table::new(
        "lookup of a known program",
        "The time itself. own: the program's own words. 512: in 512 words and 128 descriptors. C also makes the program.",
    );
    for builtin in builtin::BUILTINS {
        let shbin = picajit::text::assemble(builtin.source).expect("a test assembles each").shbin;
        let program = shbin.program().expect("they are shorter than any limit");
        let (dvle, name) = (&shbin.dvles[0], builtin.name);
        let (uniforms, inputs) = (generator::uniforms(dvle), generator::inputs(64));
        let work = Workload::new(dvle, &program, uniforms, inputs, Stride::Least);
        let memory = Memory::new(&work);
        let entry = dvle.entry();
        let subject = Subject { program: &program, entry, work: &work, engine: &engine, c_engine, memory: &memory };
        match entry.stage {
            Stage::Vertex => {
                let (one, several) = subject.vertex_calls(&jit);
                single.rows.push((name, one.measure(rounds)));
                batches.rows.push((name, several.measure(rounds)));
            }
            Stage::Geometry => geometry.rows.push((name, subject.geometry_calls(&jit).measure(rounds))),
        }
        lookups.rows.push((name, subject.lookup_calls().measure(rounds)));
    }
    [&single, &batches, &geometry, &lookups].into_iter().for_each(Table::print);
    emissions(c_engine, rounds);
    explorations(rounds.min(301));
    if let Some(file) = picture::file() {
        draw(&single, &batches, &geometry, &file);
    }
}

/// Draws medians over shaders into a file. A call that costs no more than the raw kernel has no bar.
fn draw(single: &Table, batches: &Table, geometry: &Table, file: &str) {
    let all = [single.summary(), batches.summary(), geometry.summary()];
    let group = |title: String, table: usize, calls: [&str; 2]| {
        let found = calls.map(|call| all[table].iter().find(|s| s.0 == call).expect("a call of that name"));
        let ceiling = Some(found.map(|s| s.2).into_iter().fold(0.0, f64::max));
        Group { title, bars: found.map(|s| Some(s.1.max(0.0))).to_vec(), ceiling }
    };
    let mut groups = vec![
        group("single run".into(), 0, ["run", "pj_run"]),
        group("direct call".into(), 0, ["pair", "pj pair"]),
        group("geometry".into(), 2, ["run_geometry", "pj_run"]),
    ];
    for (count, kept) in BATCHES.into_iter().flat_map(|n| [(n, ""), (n, " kept")]) {
        let (rust, c) = (format!("{count}{kept}"), format!("C {count}{kept}"));
        groups.push(group(format!("batch of {count}{kept}"), 1, [&rust, &c]));
    }
    let series = ["Rust", "C"].map(String::from);
    let title = "Nanoseconds a call over the raw kernel: medians over the built-in shaders";
    let plot = Plot { title, one: "1 ns", series: &series, groups: &groups, ceilings: Some("the most") };
    picture::draw(&plot, file);
}

/// The cost of a lookup in a game's memory, for programs of several lengths: of a known program,
/// and of one whose control flow must be explored.
fn explorations(rounds: usize) {
    let engine = Engine::new(Options { compile_after: 0, ..Options::default() });
    for len in [2, 30, 100, 511] {
        // `add r0, r0, vn` and `end`, then words of other programs.
        let mut code: Vec<u32> = (0..len - 1).map(|n| 0x0201_0000 | (n % 16) << 7).collect();
        code.push(0x8800_0000);
        let program = in_memory(&Program::from_words(&code, &[0x6_C36F; 5]).expect("512 words"));
        let (entry, config) = (Entry::vertex(0), Config::default());
        let first = engine.shader(&program, entry);
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            let known = timed(VERTICES, || i32::from(!engine.shader(black_box(&program), entry).same_as(&first)));
            let start = Instant::now();
            black_box(ShaderKey::new(black_box(&program), entry, config));
            times.iter_mut().zip([known, start.elapsed().as_nanos() as f64]).for_each(|(all, ns)| all.push(ns));
        }
        let [known, explored] = times.map(median);
        println!("{len:>4} words: lookup of a known program {known:7.0} ns, exploring {explored:8.0} ns");
    }
}
