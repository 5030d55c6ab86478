//! Draws and lists of an engine that is cancelled.

use super::*;
use crate::state::Exit;
use std::time::Duration;

/// A host that cancels at the nth triangle or draw.
struct Cancelling {
    engine: Arc<Engine>,
    triangles: usize,
    draws: usize,
    at_triangle: usize,
    at_draw: usize,
    vertices: usize,
    report: Report,
}

impl TriangleSink for Cancelling {
    fn triangle(&mut self, _: [&Semantics; 3]) {
        self.triangles += 1;
        if self.triangles == self.at_triangle {
            self.engine.cancel();
        }
    }
}

impl Host for Cancelling {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        self.draws += 1;
        if self.draws == self.at_draw {
            self.engine.cancel();
        }
        let attributes = |n: u32| vertex(n as f32);
        self.report = match draw {
            Draw::Arrays => gpu.draw_arrays((0..self.vertices as u32).map(attributes), self),
            Draw::Elements => {
                let indices = (0..self.vertices as u32).map(|n| n % 3);
                gpu.draw_elements(indices, attributes, 3, self)
            }
        };
    }
}

fn host(backend: BackendChoice, vertices: usize) -> Cancelling {
    let (engine, report) = (engine(backend), Report::default());
    Cancelling { engine, triangles: 0, draws: 0, at_triangle: 0, at_draw: 0, vertices, report }
}

const BACKENDS: [BackendChoice; 3] = [BackendChoice::NativeRequired, BackendChoice::NoNative, BackendChoice::Oracle];

#[test]
fn a_list_ends_with_the_draw_that_is_cancelled() {
    for backend in BACKENDS {
        let mut list = plain();
        for _ in 0..4 {
            list.write(DRAWARRAYS, 1);
        }
        list.write(0x100, 7);
        let mut host = Cancelling { at_draw: 3, ..host(backend, 3) };
        let mut gpu = Gpu::new(host.engine.clone());
        assert_eq!(gpu.execute(&list.0, &mut host), ListExit::Cancelled);
        assert_eq!((host.draws, host.triangles, gpu.read(0x100)), (3, 2, 0), "{backend:?}");
        assert_eq!((host.report.vertex_exit, host.report.vertices), (Exit::Cancelled, 0));
        assert_eq!(gpu.execute(&list.0, &mut host), ListExit::Cancelled, "a later list does not begin");
        assert_eq!(host.draws, 3);
        host.engine.resume();
        assert_eq!(gpu.execute(&list.0, &mut host), ListExit::End);
        assert_eq!((host.draws, host.triangles, gpu.read(0x100)), (7, 6, 7));
    }
}

#[test]
fn draws_end_at_the_batch_after_which_they_are_cancelled() {
    for backend in BACKENDS {
        for kind in [DRAWARRAYS, DRAWELEMENTS] {
            let mut list = plain();
            list.write(kind, 1);
            let mut host = Cancelling { at_triangle: 1, ..host(backend, 100_000) };
            let mut gpu = Gpu::new(host.engine.clone());
            assert_eq!(gpu.execute(&list.0, &mut host), ListExit::Cancelled);
            assert_eq!(host.report.vertex_exit, Exit::Cancelled, "{backend:?}");
            assert!(host.triangles <= 4096 / 3 + 1, "{backend:?} {kind:x}: {}", host.triangles);
            assert_eq!(host.report.triangles, host.triangles as u64);
        }
    }
}

#[test]
fn geometry_runs_end_when_they_are_cancelled() {
    for backend in BACKENDS {
        // The invocations of 15 vertices run singly, those of 100 together.
        for vertices in [15, 100] {
            let mut list = plain();
            list.shader(GSH, TRIANGLE, 3, 1).geometry(0, 0, 1);
            list.write(DRAWARRAYS, 1);
            let mut host = Cancelling { at_triangle: 2, ..host(backend, vertices) };
            let mut gpu = Gpu::new(host.engine.clone());
            assert_eq!(gpu.execute(&list.0, &mut host), ListExit::Cancelled);
            assert_eq!((host.triangles, host.report.geometry_runs), (2, 2), "{backend:?}");
            assert_eq!(host.report.geometry_exit, Exit::Cancelled, "{backend:?}");
        }
    }
}

#[test]
fn draws_from_guest_memory_end_when_they_are_cancelled() {
    for backend in BACKENDS {
        // Independent vertices, and vertices in order.
        for source in ["mov o0, v0", "add r0, v0, r0\nmov o0, r0"] {
            for draw in [Draw::Arrays, Draw::Elements] {
                let mut list = plain();
                list.shader(VSH, source, 1, 1);
                let mut host = Cancelling { at_triangle: 1, ..host(backend, 0) };
                let mut gpu = Gpu::new(host.engine.clone());
                assert_eq!(gpu.execute(&list.0, &mut host), ListExit::End);
                for (id, value) in [
                    (ATTRIBBUFFERS_LOC, 0x1800_0000 >> 3),
                    (ATTRIBBUFFERS_FORMAT_LOW, 0b11),
                    (ATTRIBBUFFER0_OFFSET + 2, 1 << 28 | 4 << 16),
                    (INDEXBUFFER_CONFIG, 0),
                    (NUMVERTICES, 100_000),
                ] {
                    assert_eq!(gpu.write(id, value, 15), Effect::None);
                }
                let memory: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
                let memory = [(0x1800_0000, &memory[..])];
                let options = DrawOptions::default();
                let report = gpu.draw(draw, &Regions(&memory), &options, &mut host);
                assert_eq!(report.vertex_exit, Exit::Cancelled, "{backend:?} {draw:?}");
                assert!((1..=4096).contains(&host.triangles), "{backend:?} {draw:?}: {}", host.triangles);
                assert_eq!(report.triangles, host.triangles as u64);
                let report = gpu.draw(draw, &Regions(&memory), &options, &mut host);
                assert_eq!((report.vertex_exit, report.triangles), (Exit::Cancelled, 0), "{backend:?} {draw:?}");
                host.engine.resume();
                let report = gpu.draw(draw, &Regions(&memory), &options, &mut host);
                assert_eq!((report.vertex_exit, report.triangles), (Exit::End, 100_000 / 3), "{backend:?} {draw:?}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "it waits for a thread")]
fn an_interrupted_vertex_makes_no_triangle() {
    // Endless from the fourth vertex on: in order, since a register carries, and in a batch.
    const ENDLESS: &str = "cmp c0.x, lt, lt, v0.x\nagain:\njmpc cmp.x, again";
    for source in ["add r0, v0, r0\nmov o0, r0", "mov o0, v0"] {
        for backend in BACKENDS {
            // Too early, the batch is cancelled, which leaves no vertex; too late, the fourth vertex is out of fuel.
            // The time between is searched for, since it depends on the machine.
            let (mut early, mut late) = (Duration::ZERO, None);
            let in_the_middle = (0..50).any(|_| {
                let wait = late.map_or(early * 2, |late| (early + late) / 2).max(Duration::from_millis(5));
                let options = Options { backend, fuel: u32::MAX, geometry_fuel: u32::MAX, ..Options::at_once() };
                let mut host = Cancelling { engine: Arc::new(Engine::new(options)), ..host(backend, 0) };
                let mut list = plain();
                list.shader(VSH, &format!("{source}\n{ENDLESS}"), 1, 1);
                let mut gpu = Gpu::new(host.engine.clone());
                assert_eq!(gpu.execute(&list.0, &mut host), ListExit::End);
                // All code is compiled before the clock starts.
                gpu.draw_arrays((0..100).map(|_| vertex(-1.0)), &mut host);
                host.triangles = 0;
                let report = std::thread::scope(|scope| {
                    let engine = host.engine.clone();
                    scope.spawn(move || {
                        std::thread::sleep(wait);
                        engine.cancel();
                    });
                    gpu.draw_arrays((0..100).map(|n| vertex(n as f32 - 2.5)), &mut host)
                });
                if report.vertex_exit == Exit::Fuel {
                    late = Some(wait);
                    return false;
                }
                assert_eq!(report.vertex_exit, Exit::Cancelled, "{backend:?}");
                assert!(report.vertices <= 3, "{backend:?}: {report:?}");
                assert_eq!(host.triangles as u64, report.vertices / 3, "{backend:?}");
                early = wait;
                // On a busy machine a wait may be too long once and too short later.
                late = late.filter(|late| *late > early + Duration::from_millis(5));
                report.vertices == 3
            });
            assert!(in_the_middle, "{backend:?} {source}");
        }
    }
}
