//! Draws and lists whose registers request more vertices than a limit.

use super::*;
use crate::state::Exit;

const BACKENDS: [BackendChoice; 3] = [BackendChoice::NativeRequired, BackendChoice::NoNative, BackendChoice::Oracle];

/// A host that draws from guest memory, or from its own vertices.
struct Guest {
    from_memory: bool,
    reports: Vec<Report>,
    triangles: u64,
}

impl TriangleSink for Guest {
    fn triangle(&mut self, _: [&Semantics; 3]) {
        self.triangles += 1;
    }
}

impl Host for Guest {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let attributes = |n: u32| vertex(n as f32);
        let report = match draw {
            draw if self.from_memory => gpu.draw(draw, &Regions(&[]), &DrawOptions::default(), self),
            Draw::Arrays => gpu.draw_arrays((0..).map(attributes), self),
            Draw::Elements => gpu.draw_elements((0..).map(|n| n % 5), attributes, 3, self),
        };
        self.reports.push(report);
    }
}

fn list(kinds: &[u16]) -> List {
    let mut list = plain();
    list.write(NUMVERTICES, u32::MAX).write(ATTRIBBUFFERS_LOC, 0x0300_0000).write(INDEXBUFFER_CONFIG, 0);
    kinds.iter().for_each(|&kind| _ = list.write(kind, 1));
    list.write(0x100, 7);
    list
}

#[test]
fn every_engine_draws_as_many_vertices_as_the_limits_allow() {
    for from_memory in [false, true] {
        let results = BACKENDS.map(|backend| {
            let mut gpu = Gpu::new(engine(backend));
            gpu.set_limits(Limits { draw: 1000, list: 2500 });
            let mut host = Guest { from_memory, reports: Vec::new(), triangles: 0 };
            let kinds = [DRAWARRAYS, DRAWELEMENTS, DRAWARRAYS, DRAWARRAYS];
            assert_eq!(gpu.execute(&list(&kinds).0, &mut host), ListExit::VertexLimit, "{backend:?}");
            let counts: Vec<u64> = host.reports.iter().map(|r| r.vertices + r.reused).collect();
            assert_eq!((counts, gpu.read(0x100)), (vec![1000, 1000, 500], 0), "{backend:?}");
            assert!(host.reports.iter().all(|r| r.limited && r.vertex_exit == Exit::End));
            // A primitive continues in the next draw.
            assert_eq!(host.triangles, 2500 / 3);
            // The next list has the whole limit, and draws within it are not limited.
            assert_eq!(gpu.execute(&list(&kinds[..2]).0, &mut host), ListExit::End);
            let mut copy = gpu.clone();
            assert_eq!(copy.execute(&list(&kinds[..2]).0, &mut host), ListExit::End);
            assert_eq!(host.reports.len(), 7);
            gpu.set_limits(Limits { draw: u32::MAX, list: 1001 });
            assert_eq!(gpu.execute(&list(&kinds[..1]).0, &mut host), ListExit::VertexLimit);
            let mut exact = List::default();
            exact.write(NUMVERTICES, 1001).write(DRAWARRAYS, 1);
            let mut guest = Guest { from_memory: true, reports: Vec::new(), triangles: 0 };
            assert_eq!(gpu.execute(&exact.0, &mut guest), ListExit::End, "as many as the limit");
            assert!(!guest.reports[0].limited);
            (host.reports, host.triangles)
        });
        assert!(results.iter().all(|result| *result == results[0]));
    }
}

#[test]
fn immediate_mode_counts_too() {
    let mut gpu = Gpu::new(engine(BackendChoice::NoNative));
    gpu.set_limits(Limits { draw: 4, list: 7 });
    let mut list = plain();
    list.write(VSH_NUM_ATTR, 0);
    for _ in 0..3 {
        list.write(FIXEDATTRIB_INDEX, 15).immediate(&[[1.0; 4]; 6]);
    }
    list.write(0x100, 7);
    let mut host = Guest { from_memory: false, reports: Vec::new(), triangles: 0 };
    assert_eq!(gpu.execute(&list.0, &mut host), ListExit::VertexLimit);
    assert_eq!((host.triangles, gpu.read(0x100)), (2, 0));
}

#[test]
fn a_small_draw_reports_its_limit() {
    let mut gpu = Gpu::new(engine(BackendChoice::NoNative));
    for (limit, limited) in [(4, true), (5, false)] {
        gpu.set_limits(Limits { draw: limit, ..Limits::default() });
        let mut list = plain();
        list.write(NUMVERTICES, 5).write(ATTRIBBUFFERS_LOC, 0x0300_0000);
        let mut host = Guest { from_memory: true, reports: Vec::new(), triangles: 0 };
        assert_eq!(gpu.execute(&list.0, &mut host), ListExit::End);
        let count = u64::from(limit);
        let vertices: [_; 5] = std::array::from_fn(|n| vertex(n as f32));
        let immediate = gpu.draw_immediate(&vertices, &mut Vec::new());
        assert_eq!((immediate.vertices, immediate.limited), (count, limited));
        for draw in [Draw::Arrays, Draw::Elements] {
            let report = gpu.draw(draw, &Regions(&[]), &DrawOptions::default(), &mut Vec::new());
            assert_eq!((report.vertices + report.reused, report.limited), (count, limited), "{draw:?}");
        }
    }
}

#[test]
fn vertices_count_by_the_words_that_they_may_execute() {
    // (i0 + 1) * (4 * (i1 + 1) + 2) + 2 words.
    const LOOPS: &str = "for i0\nfor i1\nnop\nnop\nmov o0, v0\nmov o1, v1\n.end\nnop\n.end\nend";
    // Only fuel bounds it: 2^18, which may be exceeded by the 4,096 words of a program.
    const JUMPS: &str = "again: mov o0, v0\nmov o1, v1\njmpu b9, again\nend";
    for (source, ints, weight) in [(LOOPS, [0, 0], 1), (LOOPS, [9, 100], 1), (LOOPS, [9, 101], 2), (JUMPS, [0, 0], 65)]
    {
        for backend in BACKENDS {
            let options = Options { backend, ..Options::at_once() };
            let mut gpu = Gpu::new(Arc::new(Engine::new(options)));
            gpu.set_limits(Limits { draw: 100, list: 129 });
            let mut host = Guest { from_memory: true, reports: Vec::new(), triangles: 0 };
            let mut start = list(&[]);
            start.shader(VSH, source, 2, 0b11);
            assert_eq!(gpu.execute(&start.0, &mut host), ListExit::End);
            let uniforms = &mut gpu.state_mut().vertex.uniforms;
            (uniforms.i[0][0], uniforms.i[1][0]) = (ints[0], ints[1]);
            let report = gpu.draw(Draw::Arrays, &Regions(&[]), &DrawOptions::default(), &mut Vec::new());
            assert_eq!((report.vertices, report.limited), (100 / weight, true), "{source} {ints:?} {backend:?}");
            let streamed = gpu.draw_arrays((0..).map(|n| vertex(n as f32)), &mut Vec::new());
            assert_eq!((streamed.vertices, streamed.limited), (100 / weight, true));
            let mut draws = List::default();
            draws.write(DRAWARRAYS, 1).write(DRAWARRAYS, 1);
            assert_eq!(gpu.execute(&draws.0, &mut host), ListExit::VertexLimit);
            let counts: Vec<u64> = host.reports.iter().map(|report| report.vertices).collect();
            assert_eq!(counts, [100 / weight, 129 / weight - 100 / weight], "{source} {ints:?} {backend:?}");
        }
    }
}

#[test]
fn a_run_of_no_words_counts_once() {
    for backend in BACKENDS {
        let mut gpu = Gpu::new(engine(backend));
        let mut host = Guest { from_memory: true, reports: Vec::new(), triangles: 0 };
        assert_eq!(gpu.execute(&list(&[]).0, &mut host), ListExit::End);
        // A host may restore a state without program memory.
        gpu.state_mut().vertex.code = Default::default();
        gpu.set_limits(Limits { draw: 100, list: 130 });
        let mut draws = List::default();
        draws.write(DRAWARRAYS, 1).write(DRAWARRAYS, 1);
        assert_eq!(gpu.execute(&draws.0, &mut host), ListExit::VertexLimit);
        let ran: Vec<u64> = host.reports.iter().map(|report| report.vertices).collect();
        assert_eq!((ran, host.reports[0].vertex_exit), (vec![100, 30], Exit::PastEnd), "{backend:?}");
    }
}

#[test]
fn a_panic_of_the_host_ends_the_list() {
    struct Panics;
    impl TriangleSink for Panics {
        fn triangle(&mut self, _: [&Semantics; 3]) {}
    }
    impl Host for Panics {
        fn draw(&mut self, _: &mut Gpu, _: Draw) {
            panic!("the host's");
        }
    }
    let mut gpu = Gpu::new(engine(BackendChoice::NoNative));
    gpu.set_limits(Limits { draw: 10, list: 5 });
    let list = list(&[DRAWARRAYS]);
    let execute = std::panic::AssertUnwindSafe(|| gpu.execute(&list.0, &mut Panics));
    assert!(std::panic::catch_unwind(execute).is_err());
    let report = gpu.draw_arrays(vec![vertex(1.0); 12], &mut Vec::new());
    assert_eq!((report.vertices, report.limited), (10, true), "the limit of a draw, not of the list");
}

#[test]
#[cfg_attr(miri, ignore = "four million vertices")]
fn registers_that_request_all_vertices_end_soon_by_default() {
    let mut host = Guest { from_memory: true, reports: Vec::new(), triangles: 0 };
    let mut gpu = Gpu::new(engine(BackendChoice::NativeRequired));
    let start = std::time::Instant::now();
    // Five draws of 2^22 exceed the limit of a list.
    assert_eq!(gpu.execute(&list(&[DRAWARRAYS; 6]).0, &mut host), ListExit::VertexLimit);
    assert_eq!(host.reports.iter().map(|r| r.vertices).sum::<u64>(), 1 << 24);
    assert_eq!(host.triangles, (1 << 24) / 3);
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}
