//! The C functions as a host calls them, and compared with what Rust's own host gets for the same command lists.

mod calls;
mod states;

use super::super::tests::{engine, own_without_geometry};
use super::super::*;
use crate::gpu::registers::*;
use crate::gpu::tests::traps::VARIABLE;
use crate::gpu::tests::{List, TRIANGLE, plain, vertex};
use crate::gpu::{Attributes, Commands, Draw, Gpu, RoundRobin, Sink, Topology, Write};
use crate::semantics::Semantics;
use crate::state::Vec4;
use crate::testing::miri_or;
use std::ptr::{null, null_mut};

/// What both hosts have and get.
#[derive(Default)]
struct World {
    vertices: Vec<Attributes>,
    indices: Vec<u16>,
    triangles: Vec<[Semantics; 3]>,
    reports: Vec<PjReport>,
    writes: usize,
    /// What is called from callbacks, and what that gave.
    meddle: Option<fn(*mut PjGpu) -> Vec<i32>>,
    meddled: Vec<(&'static str, Vec<i32>)>,
    gpu: *mut PjGpu,
}

impl World {
    fn new(vertices: &[f32], indices: &[u16]) -> World {
        let vertices = vertices.iter().map(|&x| vertex(x)).collect();
        World { vertices, indices: indices.to_vec(), gpu: null_mut(), ..World::default() }
    }

    fn meddle(&mut self, whence: &'static str) {
        if let Some(meddle) = self.meddle {
            self.meddled.push((whence, meddle(self.gpu)));
        }
    }
}

/// Rust's host.
impl Sink for World {
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
                gpu.draw_elements(indices, |n| vertices[n as usize], &mut RoundRobin::new(8), self)
            }
        };
        self.reports.push(PjReport::new(&report));
    }

    fn wrote(&mut self, _: &Gpu, _: Write) {
        self.writes += 1;
    }
}

/// The host's own, which every callback is given.
///
/// # Safety
/// Nobody else uses it meanwhile.
unsafe fn world<'a>(user: *mut c_void) -> &'a mut World {
    // SAFETY: every call below is given one.
    unsafe { &mut *user.cast() }
}

/// A vertex of a triangle.
///
/// # Safety
/// What the header says of them.
unsafe fn semantics(from: *const f32) -> Semantics {
    // SAFETY: the caller's.
    unsafe { *from.cast::<Semantics>() }
}

unsafe extern "C" fn triangle(user: *mut c_void, a: *const f32, b: *const f32, c: *const f32) {
    // SAFETY: the header's words.
    let (world, vertices) = unsafe { (world(user), [a, b, c].map(|v| semantics(v))) };
    world.triangles.push(vertices);
    world.meddle("triangle");
}

unsafe extern "C" fn fetch(user: *mut c_void, index: u32, attributes: *mut Vec4) {
    // SAFETY: the header's words.
    let (world, attributes) = unsafe { (world(user), &mut *attributes.cast::<Attributes>()) };
    assert_eq!(*attributes, Attributes::default());
    *attributes = world.vertices[index as usize];
    world.meddle("fetch");
}

unsafe extern "C" fn lookup(user: *mut c_void, index: u32) -> u32 {
    // SAFETY: the header's words.
    let world = unsafe { world(user) };
    world.meddle("lookup");
    match index {
        // The first time these are stored, afterwards reused.
        n if world.writes & 1 << n != 0 => PJ_LOOKUP_REUSE + n,
        n => {
            world.writes |= 1 << n;
            PJ_LOOKUP_STORE + n
        }
    }
}

fn pj_draw(user: *mut c_void) -> PjDraw {
    PjDraw { struct_size: size_of::<PjDraw>(), triangle: Some(triangle), user, ..PjDraw::NOTHING }
}

fn empty_report() -> PjReport {
    PjReport { struct_size: size_of::<PjReport>(), vertices: 99, ..PjReport::default() }
}

unsafe extern "C" fn draw(user: *mut c_void, gpu: *mut PjGpu, effect: i32) {
    let (draw, mut report) = {
        // SAFETY: until the block ends nobody else uses it.
        let world = unsafe { world(user) };
        world.meddle("draw");
        let draw = match effect {
            PJ_EFFECT_DRAW_ARRAYS => {
                PjDraw { count: world.vertices.len(), vertices: world.vertices.as_ptr(), ..pj_draw(user) }
            }
            _ => PjDraw {
                count: world.indices.len(),
                indices: world.indices.as_ptr().cast(),
                index_bytes: 2,
                cache: 8,
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
    // SAFETY: the header's words.
    let world = unsafe { world(user) };
    world.writes += 1;
    let mut value = 0;
    // SAFETY: all are valid.
    assert_eq!(unsafe { pj_gpu_read(gpu, id, &mut value) }, PJ_OK);
    world.meddle("wrote");
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

/// One write after the other, by a host with a command processor of its own.
fn write_all(gpu: *mut PjGpu, list: &List, user: *mut World) {
    let mut attributes = [[[7.0; 4]; 16]];
    for Write { id, value, mask } in Commands::new(&list.0) {
        // SAFETY: all are valid.
        let effect = unsafe { pj_gpu_write(gpu, id, value, mask, attributes.as_mut_ptr()) };
        // SAFETY: nobody else uses it here.
        unsafe { (*user).writes += 1 };
        match effect {
            PJ_EFFECT_NONE => {}
            PJ_EFFECT_VERTEX => {
                let one = PjDraw { count: 1, vertices: attributes.as_ptr(), ..pj_draw(user.cast()) };
                // SAFETY: all are valid.
                assert_eq!(unsafe { pj_gpu_draw_immediate(gpu, &one, null_mut()) }, PJ_OK);
            }
            // SAFETY: what `pj_gpu_execute` calls.
            _ => unsafe { draw(user.cast(), gpu, effect) },
        }
    }
}

/// All that is remembered. There is nothing between the fields of the structure.
fn remembered(gpu: *const PjGpu) -> Vec<u8> {
    let mut state = Box::new(PjGpuState { registers: [77; 768], ..PjGpuState::default() });
    // SAFETY: all are valid; a state is as many bytes without padding.
    unsafe {
        assert_eq!(pj_gpu_state_get(gpu, &mut *state), PJ_OK);
        slice::from_raw_parts((&raw const *state).cast::<u8>(), size_of::<PjGpuState>()).to_vec()
    }
}

/// One list for each way that vertices can go.
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
fn lists_and_single_writes_give_what_rust_gives() {
    for backend in [PJ_NATIVE, PJ_INTERPRETER].into_iter().skip(miri_or(1, 0)) {
        let engine = engine(&PjOptions { backend, ..PjOptions::DEFAULT }).expect("an engine");
        for (name, list) in lists().into_iter().step_by(miri_or(3, 1)) {
            let fresh = || World::new(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3, 0, 1, 2, 3, 4, 1, 0]);
            let mut want = fresh();
            // SAFETY: it was made above.
            let mut rust = Gpu::new(unsafe { (*engine).engine.clone() });
            rust.execute(&list.0, &mut want);
            let [mut whole, mut single] = [fresh(), fresh()];
            let (a, b) = (gpu(engine), gpu(engine));
            (whole.gpu, single.gpu) = (a, b);
            assert_eq!(execute(a, &list, &raw mut whole), PJ_OK);
            write_all(b, &list, &raw mut single);
            assert!(!want.triangles.is_empty(), "{name}");
            for (gpu, got) in [(a, &whole), (b, &single)] {
                assert_eq!(got.triangles, want.triangles, "{name}");
                assert_eq!((&got.reports, got.writes), (&want.reports, want.writes), "{name}");
                let mut work =
                    PjGpuWork { struct_size: size_of::<PjGpuWork>(), comparisons: 9, programs: 9, lookups: 9 };
                // SAFETY: all are valid.
                assert_eq!(unsafe { pj_gpu_work_get(gpu, &mut work) }, PJ_OK);
                let seen = rust.work();
                assert_eq!(
                    (work.comparisons, work.programs, work.lookups),
                    (seen.comparisons, seen.programs, seen.lookups)
                );
                let state = PjGpuState::new(rust.state());
                // SAFETY: a state is as many bytes without padding.
                let bytes = unsafe { slice::from_raw_parts((&raw const state).cast::<u8>(), size_of::<PjGpuState>()) };
                assert!(remembered(gpu) == bytes, "{name}: what is remembered");
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
    let engine = engine(&PjOptions { backend: PJ_INTERPRETER, ..PjOptions::DEFAULT }).expect("an engine");
    let gpu = gpu(engine);
    // SAFETY: the last use of this one; the GPU keeps what it needs.
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
