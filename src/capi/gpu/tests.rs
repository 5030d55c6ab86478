//! The C functions as a host calls them. Their results equal those of a Rust host for the same
//! command lists.

mod calls;
mod states;

use super::super::tests::{AT_ONCE, engine, own_without_geometry, zeroed};
use super::super::*;
use crate::gpu::registers::*;
use crate::gpu::tests::traps::VARIABLE;
use crate::gpu::tests::{List, TRIANGLE, plain, vertex};
use crate::gpu::{Attributes, Commands, Draw, Gpu, Topology, TriangleSink, Write};
use crate::semantics::Semantics;
use crate::state::Vec4;
use crate::testing::miri_or;
use std::ptr::{null, null_mut};

/// The memory and the results of a host, in C or Rust.
#[derive(Default)]
struct World {
    vertices: Vec<Attributes>,
    indices: Vec<u16>,
    triangles: Vec<[Semantics; 3]>,
    reports: Vec<PjReport>,
    writes: usize,
    /// Calls that callbacks make, and the statuses that they return.
    nested_calls: Option<fn(*mut PjGpu) -> Vec<i32>>,
    nested_results: Vec<(&'static str, Vec<i32>)>,
    gpu: *mut PjGpu,
}

impl World {
    fn new(vertices: &[f32], indices: &[u16]) -> World {
        let vertices = vertices.iter().map(|&x| vertex(x)).collect();
        World { vertices, indices: indices.to_vec(), gpu: null_mut(), ..World::default() }
    }

    fn nested_calls(&mut self, callback: &'static str) {
        if let Some(nested_calls) = self.nested_calls {
            self.nested_results.push((callback, nested_calls(self.gpu)));
        }
    }
}

/// The Rust host.
impl TriangleSink for World {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.triangles.push(vertices.map(|v| *v));
    }
}

impl crate::gpu::Host for World {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let vertices = self.vertices.clone();
        let report = match draw {
            Draw::Arrays => gpu.draw_arrays(&vertices, self),
            Draw::Elements => {
                let indices: Vec<u32> = self.indices.iter().map(|&n| n.into()).collect();
                gpu.draw_elements(indices, |n| vertices[n as usize], 8, self)
            }
        };
        self.reports.push(PjReport::new(&report));
    }

    fn wrote(&mut self, _: &Gpu, _: Write) {
        self.writes += 1;
    }
}

/// The host's own data, from a callback's `user`.
///
/// # Safety
/// No other code uses it meanwhile.
unsafe fn world<'a>(user: *mut c_void) -> &'a mut World {
    // SAFETY: every call below passes one.
    unsafe { &mut *user.cast() }
}

/// A vertex of a triangle.
///
/// # Safety
/// As the header guarantees.
unsafe fn semantics(from: *const f32) -> Semantics {
    // SAFETY: the caller guarantees it.
    unsafe { *from.cast::<Semantics>() }
}

unsafe extern "C" fn triangle(user: *mut c_void, a: *const f32, b: *const f32, c: *const f32) {
    // SAFETY: as the header guarantees.
    let (world, vertices) = unsafe { (world(user), [a, b, c].map(|v| semantics(v))) };
    world.triangles.push(vertices);
    world.nested_calls("triangle");
}

unsafe extern "C" fn fetch(user: *mut c_void, index: u32, attributes: *mut Vec4) {
    // SAFETY: as the header guarantees.
    let (world, attributes) = unsafe { (world(user), &mut *attributes.cast::<Attributes>()) };
    assert_eq!(*attributes, Attributes::default());
    *attributes = world.vertices[index as usize];
    world.nested_calls("fetch");
}

fn pj_draw(user: *mut c_void) -> PjDraw {
    PjDraw { struct_size: size_of::<PjDraw>(), triangle: Some(triangle), user, ..zeroed() }
}

fn empty_report() -> PjReport {
    PjReport { struct_size: size_of::<PjReport>(), vertices: 99, ..PjReport::default() }
}

unsafe extern "C" fn draw(user: *mut c_void, gpu: *mut PjGpu, effect: i32) {
    let (draw, mut report) = {
        // SAFETY: no other code uses it in this block.
        let world = unsafe { world(user) };
        world.nested_calls("draw");
        let draw = match effect {
            PJ_EFFECT_DRAW_ARRAYS => {
                PjDraw { count: world.vertices.len(), vertices: world.vertices.as_ptr(), ..pj_draw(user) }
            }
            _ => PjDraw {
                count: world.indices.len(),
                indices: world.indices.as_ptr().cast(),
                index_bytes: 2,
                vertex_cache_entries: 8,
                fetch: Some(fetch),
                ..pj_draw(user)
            },
        };
        (draw, empty_report())
    };
    // SAFETY: all are valid, and the vectors are not changed.
    let status = unsafe {
        match effect {
            PJ_EFFECT_DRAW_ARRAYS => pj_gpu_draw_arrays(gpu, &draw, &mut report),
            _ => pj_gpu_draw_elements(gpu, &draw, &mut report),
        }
    };
    assert_eq!(status, PJ_OK);
    // SAFETY: as above.
    unsafe { world(user) }.reports.push(report);
}

unsafe extern "C" fn wrote(user: *mut c_void, gpu: *const PjGpu, id: u16, _: u32, _: u8) {
    // SAFETY: as the header guarantees.
    let world = unsafe { world(user) };
    world.writes += 1;
    let mut value = 0;
    // SAFETY: all are valid.
    assert_eq!(unsafe { pj_gpu_read(gpu, id, &mut value) }, PJ_OK);
    world.nested_calls("wrote");
}

fn gpu(engine: *const PjEngine) -> *mut PjGpu {
    let mut gpu = null_mut();
    // SAFETY: all are valid.
    assert_eq!(unsafe { pj_gpu_new(engine, &mut gpu) }, PJ_OK);
    gpu
}

fn execute(gpu: *mut PjGpu, list: &List, user: *mut World) -> i32 {
    let host = PjGpuHost {
        struct_size: size_of::<PjGpuHost>(),
        triangle: Some(triangle),
        draw: Some(draw),
        wrote: Some(wrote),
        user: user.cast(),
    };
    // SAFETY: all are valid.
    unsafe { pj_gpu_execute(gpu, list.0.as_ptr(), list.0.len(), &host) }
}

/// Single writes, as from a host with its own command processor.
fn write_all(gpu: *mut PjGpu, list: &List, user: *mut World) {
    let mut attributes = [[[7.0; 4]; 16]];
    for Write { id, value, mask } in Commands::new(&list.0) {
        // SAFETY: all are valid.
        let effect = unsafe { pj_gpu_write(gpu, id, value, mask, attributes.as_mut_ptr()) };
        // SAFETY: no other code uses it.
        unsafe { (*user).writes += 1 };
        match effect {
            PJ_EFFECT_NONE => {}
            PJ_EFFECT_VERTEX => {
                let one = PjDraw { count: 1, vertices: attributes.as_ptr(), ..pj_draw(user.cast()) };
                // SAFETY: all are valid.
                assert_eq!(unsafe { pj_gpu_draw_immediate(gpu, &one, null_mut()) }, PJ_OK);
            }
            // SAFETY: as `pj_gpu_execute` calls it.
            _ => unsafe { draw(user.cast(), gpu, effect) },
        }
    }
}

/// A list in parts, from effect to effect.
fn write_parts(gpu: *mut PjGpu, list: &List, user: *mut World) {
    let mut attributes = [[[7.0; 4]; 16]];
    let mut position = PjListPosition::default();
    loop {
        // SAFETY: all are valid.
        let effect =
            unsafe { pj_gpu_write_list(gpu, list.0.as_ptr(), list.0.len(), &mut position, attributes.as_mut_ptr()) };
        match effect {
            PJ_EFFECT_NONE => break,
            PJ_EFFECT_VERTEX => {
                let one = PjDraw { count: 1, vertices: attributes.as_ptr(), ..pj_draw(user.cast()) };
                // SAFETY: all are valid.
                assert_eq!(unsafe { pj_gpu_draw_immediate(gpu, &one, null_mut()) }, PJ_OK);
            }
            // SAFETY: as `pj_gpu_execute` calls it.
            _ => unsafe { draw(user.cast(), gpu, effect) },
        }
    }
    assert_eq!((position.command, position.values), (list.0.len(), 0));
    // SAFETY: no other code uses it.
    unsafe { (*user).writes = Commands::new(&list.0).count() };
}

/// The whole state. The structure has no padding.
fn state_bytes(gpu: *const PjGpu) -> Vec<u8> {
    let mut state = Box::new(PjGpuState { registers: [77; 768], ..PjGpuState::default() });
    // SAFETY: all are valid; a state has no padding.
    unsafe {
        assert_eq!(pj_gpu_state_get(gpu, &mut *state), PJ_OK);
        std::slice::from_raw_parts((&raw const *state).cast::<u8>(), size_of::<PjGpuState>()).to_vec()
    }
}

/// One list for each path of the vertices.
fn lists() -> Vec<(&'static str, List)> {
    let with = |change: fn(&mut List)| {
        let mut list = plain();
        change(&mut list);
        list
    };
    vec![
        ("strip", with(|l| _ = l.topology(Topology::Strip).arrays().elements())),
        ("point", with(|l| _ = l.geometry(0, 0, 1).shader(GSH, TRIANGLE, 3, 1).arrays().elements())),
        ("variable", with(|l| _ = l.geometry(1, 1, 1).shader(GSH, VARIABLE, 1, 1).elements().arrays())),
        ("fixed", with(|l| _ = l.geometry(0x0101_0202, 0, 1).shader(GSH, VARIABLE, 1, 1).arrays().elements())),
        (
            "immediate",
            with(|l| {
                l.write(FIXEDATTRIB_INDEX, 15).immediate(&[[1.0; 4], [2.0; 4], [3.0; 4], [4.0; 4]]);
                l.write(VSH, 1).immediate(&[[5.0; 4], [6.0; 4], [7.0; 4]]);
            }),
        ),
    ]
}

#[test]
fn lists_and_single_writes_match_a_rust_host() {
    for backend in [AT_ONCE, PJ_INTERPRETER].into_iter().skip(miri_or(1, 0)) {
        let engine = engine(&PjOptions { backend, ..PjOptions::ZERO }).expect("an engine");
        for (name, list) in lists().into_iter().step_by(miri_or(3, 1)) {
            let fresh = || World::new(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3, 0, 1, 2, 3, 4, 1, 0]);
            let mut want = fresh();
            // SAFETY: a live handle.
            let mut rust = Gpu::new(unsafe { (*engine).engine.clone() });
            rust.execute(&list.0, &mut want);
            let [mut whole, mut single, mut parts] = [fresh(), fresh(), fresh()];
            let [a, b, c] = [(); 3].map(|()| gpu(engine));
            (whole.gpu, single.gpu, parts.gpu) = (a, b, c);
            assert_eq!(execute(a, &list, &raw mut whole), PJ_OK);
            write_all(b, &list, &raw mut single);
            write_parts(c, &list, &raw mut parts);
            assert!(!want.triangles.is_empty(), "{name}");
            for (gpu, got) in [(a, &whole), (b, &single), (c, &parts)] {
                assert_eq!(got.triangles, want.triangles, "{name}");
                assert_eq!((&got.reports, got.writes), (&want.reports, want.writes), "{name}");
                let struct_size = size_of::<PjGpuUploadStats>();
                let mut stats = PjGpuUploadStats { struct_size, lookups: 9, programs: 9 };
                // SAFETY: all are valid.
                assert_eq!(unsafe { pj_gpu_upload_stats_get(gpu, &mut stats) }, PJ_OK);
                // The engine knows the programs.
                assert_eq!((stats.lookups, stats.programs), (rust.upload_stats().lookups, 0), "{name}");
                let state = PjGpuState::new(&rust.state());
                // SAFETY: a state has no padding.
                let bytes =
                    unsafe { std::slice::from_raw_parts((&raw const state).cast::<u8>(), size_of::<PjGpuState>()) };
                let differs = state_bytes(gpu).iter().zip(bytes).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{name}: the first byte of the state that differs");
                // SAFETY: the last use.
                assert_eq!(unsafe { pj_gpu_free(gpu) }, PJ_OK);
            }
        }
        // SAFETY: the last use.
        unsafe { pj_engine_free(engine) };
    }
}

#[test]
fn registers_and_default_attributes_are_read() {
    let engine = engine(&PjOptions { backend: PJ_INTERPRETER, ..PjOptions::ZERO }).expect("an engine");
    let gpu = gpu(engine);
    // SAFETY: the last use of the engine, which the GPU outlives.
    unsafe { pj_engine_free(engine) };
    let mut list = List::default();
    list.masked(VSH, 0xAABB_CCDD, 0b0110).write(VSH + offset::CODETRANSFER_INDEX, 5);
    list.write(FIXEDATTRIB_INDEX, 2).immediate(&[[1.0, 2.0, 3.0, 4.0]]);
    assert_eq!(execute(gpu, &list, &mut World::new(&[], &[])), PJ_OK);
    let read = |id| {
        let mut value = 1;
        // SAFETY: all are valid.
        assert_eq!(unsafe { pj_gpu_read(gpu, id, &mut value) }, PJ_OK);
        value
    };
    assert_eq!([VSH, VSH + offset::CODETRANSFER_INDEX, FIXEDATTRIB_INDEX, 0xFFFF].map(read), [0x00BB_CC00, 0, 2, 0]);
    let attribute = |n| {
        let mut value = [9.0; 4];
        // SAFETY: all are valid.
        assert_eq!(unsafe { pj_gpu_default_attribute(gpu, n, &mut value) }, PJ_OK);
        value
    };
    assert_eq!([1, 2, 15, u32::MAX].map(attribute), [[0.0; 4], [1.0, 2.0, 3.0, 4.0], [0.0; 4], [0.0; 4]]);
    // SAFETY: the last use.
    assert_eq!(unsafe { pj_gpu_free(gpu) }, PJ_OK);
}
