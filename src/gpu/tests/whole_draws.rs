//! Draws from guest memory: which vertices run, what the unit is afterwards, and hostile sizes.

use super::*;
use crate::state::Exit;
use crate::testing::miri_or;

const START: u32 = 0x1800_0000;

/// Draws with attribute 0 as one f32 at the start of memory, and indices of 8 bits after it.
pub(super) fn drawn(
    gpu: &mut Gpu,
    draw: Draw,
    xs: &[f32],
    indices: &[u8],
    options: &DrawOptions,
) -> (Report, Vec<[f32; 3]>) {
    let mut memory: Vec<u8> = xs.iter().flat_map(|x| x.to_le_bytes()).collect();
    let count = if draw == Draw::Arrays { xs.len() } else { indices.len() };
    for (id, value) in [
        (ATTRIBBUFFERS_LOC, START >> 3),
        (ATTRIBBUFFERS_FORMAT_LOW, 0b11),
        (ATTRIBBUFFER0_OFFSET + 2, 1 << 28 | 4 << 16),
        (INDEXBUFFER_CONFIG, memory.len() as u32),
        (NUMVERTICES, count as u32),
    ] {
        assert_eq!(gpu.write(id, value, 15), Effect::None);
    }
    memory.extend(indices);
    let mut triangles: Vec<[Semantics; 3]> = Vec::new();
    let report = gpu.draw(draw, &Regions(&[(START, &memory)]), options, &mut triangles);
    (report, triangles.iter().map(|t| t.map(|v| v[0])).collect())
}

fn gpu(list: &List) -> Gpu {
    let mut console = Console::new(BackendChoice::NativeRequired);
    console.execute(list);
    console.gpu
}

/// A GPU with this program of one attribute and one output.
pub(super) fn gpu_of(source: &str) -> Gpu {
    let mut list = plain();
    list.shader(VSH, source, 1, 1);
    gpu(&list)
}

#[test]
fn independent_vertices_run_once() {
    let mut list = plain();
    list.shader(VSH, "mov r5, v0\nmov o0, v0", 1, 1);
    let mut gpu = gpu(&list);
    let xs: Vec<f32> = (0..200).map(|n| n as f32).collect();
    let indices: Vec<u8> = (0..150).chain(0..150).chain([7, 9, 8]).collect();
    for vertex_cache in [64, 0] {
        let options = DrawOptions { vertex_cache, ..DrawOptions::default() };
        let (report, triangles) = drawn(&mut gpu, Draw::Elements, &xs, &indices, &options);
        assert_eq!((report.vertices, report.reused, report.triangles), (150, 153, 101));
        assert_eq!((triangles[51], triangles[100]), ([3.0, 4.0, 5.0], [7.0, 9.0, 8.0]));
        assert_eq!(gpu.state().vertex.unit.r[5][0], 8.0, "the unit is as the last index leaves it");
    }
    // A range with gaps, and a sparse one.
    let report = |gpu: &mut Gpu, indices: &[u8]| {
        let report = drawn(gpu, Draw::Elements, &xs, indices, &DrawOptions::default()).0;
        (report.vertices, report.reused)
    };
    let many = |[a, b, c]: [u8; 3]| [a, b, c].repeat(5);
    assert_eq!(report(&mut gpu, &many([10, 12, 10])), (3, 12));
    assert_eq!(report(&mut gpu, &many([10, 15, 12])), (6, 9));
    assert_eq!(gpu.state().vertex.unit.r[5][0], 12.0, "the unit is as the last index leaves it");
    assert_eq!(report(&mut gpu, &many([10, 199, 10])), (2, 13));
    // Few run in sequence, and only those that an index names.
    assert_eq!(report(&mut gpu, &[10, 12, 10]), (2, 1));
    assert_eq!(gpu.state().vertex.unit.r[5][0], 10.0, "the unit is as the last index leaves it");
}

#[test]
fn a_draw_without_vertices_keeps_the_incomplete_primitive() {
    let mut list = plain();
    list.shader(VSH, "mov o0, v0", 1, 1);
    for kind in [Draw::Arrays, Draw::Elements] {
        let (mut gpu, options) = (gpu(&list), DrawOptions::default());
        drawn(&mut gpu, kind, &[1.0, 2.0], &[0, 1], &options);
        drawn(&mut gpu, kind, &[], &[], &options);
        gpu.engine().cancel();
        drawn(&mut gpu, kind, &[3.0], &[0], &options);
        gpu.engine().resume();
        assert_eq!(gpu.state().assembly.count, 2);
        assert_eq!(drawn(&mut gpu, kind, &[4.0], &[0], &options).1, [[1.0, 2.0, 4.0]]);
    }
}

#[test]
fn the_unit_is_current_whatever_reads_it() {
    let mut list = plain();
    list.shader(VSH, "add r5, c0, v0\nmov o0, v0", 1, 1);
    let draw = |gpu: &mut Gpu, draw: Draw, xs: &[f32]| {
        drawn(gpu, draw, xs, &[0, 1, 0], &DrawOptions::default());
    };
    for kind in [Draw::Arrays, Draw::Elements] {
        let r5 = |gpu: &Gpu| gpu.state().vertex.unit.r[5][0];
        let mut gpu = gpu(&list);
        let uniform = gpu.state().vertex.uniforms.c[0][0];
        draw(&mut gpu, kind, &[1.0, 2.0, 3.0]);
        draw(&mut gpu, kind, &[4.0, 5.0, 6.0]);
        let last = if kind == Draw::Arrays { 6.0 } else { 4.0 };
        // A copy leaves the original as it is. A second read is of the same state.
        assert_eq!([r5(&gpu.clone()), r5(&gpu), r5(&gpu)], [uniform + last; 3]);
        // A later draw, and a write that another read precedes.
        draw(&mut gpu, kind, &[7.0, 8.0, 9.0]);
        let last = if kind == Draw::Arrays { 9.0 } else { 7.0 };
        assert_eq!(r5(&gpu), uniform + last);
        assert_eq!(gpu.write(0x123, 45, 15), Effect::None);
        assert_eq!((r5(&gpu), gpu.state().registers.get(0x123)), (uniform + last, 45));
        // The run had the uniforms of its draw.
        draw(&mut gpu, kind, &[1.0, 2.0, 3.0]);
        let last = if kind == Draw::Arrays { 3.0 } else { 1.0 };
        for (at, value) in
            [(offset::FLOATUNIFORM_INDEX, 1 << 31)].into_iter().chain([(offset::FLOATUNIFORM_DATA0, 0x4480_0000); 4])
        {
            assert_eq!(gpu.write(VSH + at, value, 15), Effect::None);
        }
        assert_eq!((gpu.state().vertex.uniforms.c[0], r5(&gpu)), ([1024.0; 4], uniform + last));
        draw(&mut gpu, kind, &[1.0, 2.0, 3.0]);
        assert_eq!(gpu.state_mut().vertex.unit.r[5][0], 1024.0 + last);
    }
}

#[test]
fn another_program_finds_the_unit_as_the_last_vertex_left_it() {
    let leaves = |list: &mut List| _ = list.shader(VSH, "mov r5, v0\nmov o0, v0", 1, 1);
    let mut list = plain();
    leaves(&mut list);
    for kind in [Draw::Arrays, Draw::Elements] {
        let mut gpu = gpu(&list);
        drawn(&mut gpu, kind, &[1.0, 2.0, 3.0], &[0, 1, 2], &DrawOptions::default());
        let mut reads = List::default();
        reads.shader(VSH, "mov o0, r5", 1, 1);
        let mut console = Console { gpu, ..Console::new(BackendChoice::NativeRequired) };
        console.execute(&reads);
        let (_, triangles) = drawn(&mut console.gpu, kind, &[0.0; 3], &[0, 1, 2], &DrawOptions::default());
        assert_eq!(triangles, [[3.0; 3]]);
    }
}

#[test]
fn dependent_vertices_follow_the_cache() {
    let mut list = plain();
    list.shader(VSH, "add r0, v0, r0\nmov o0, r0", 1, 1);
    for (vertex_cache, want) in [(64, [1.0, 3.0, 1.0]), (0, [1.0, 3.0, 4.0]), (1, [1.0, 3.0, 4.0])] {
        let options = DrawOptions { vertex_cache, ..DrawOptions::default() };
        let (_, triangles) = drawn(&mut gpu(&list), Draw::Elements, &[0.0, 1.0, 2.0], &[1, 2, 1], &options);
        assert_eq!(triangles, [want]);
    }
}

#[test]
fn a_vertex_that_does_not_end_makes_the_draw_run_in_order() {
    // Vertices below 0 have no loop to leave, and leave the output of the vertex before.
    let mut list = plain();
    list.shader(VSH, "cmp c0, gt, gt, v0\nbreakc cmp.x\nmov o0, v0", 1, 1);
    let mut gpu = gpu(&list);
    let (report, triangles) =
        drawn(&mut gpu, Draw::Elements, &[5.0, -1.0, 6.0], &[0, 1, 2, 2, 1, 0], &DrawOptions::default());
    assert_eq!((report.vertex_exit, report.vertices, report.reused), (Exit::BreakOutsideLoop, 3, 3));
    assert_eq!(triangles, [[5.0, 5.0, 6.0], [6.0, 5.0, 5.0]]);
}

/// The vertex program of these tests: a vertex below 0 runs out of fuel.
const ENDLESS: &str = "cmp c0, gt, gt, v0\nrjmpc cmp.x, 1\nmov o0, v0";

fn endless(backend: BackendChoice) -> Gpu {
    let mut list = plain();
    list.shader(VSH, ENDLESS, 1, 1);
    let mut console = Console::new(backend);
    console.execute(&list);
    console.gpu
}

const BACKENDS: [BackendChoice; 3] = [BackendChoice::NativeRequired, BackendChoice::NoNative, BackendChoice::Oracle];

#[test]
fn a_draw_ends_at_the_first_vertex_that_runs_out_of_fuel() {
    for backend in BACKENDS {
        for last in [0, 1, 5, 143, 144, 300, 599] {
            let xs: Vec<f32> = (0..600).map(|n| if n >= last { -1.0 } else { n as f32 }).collect();
            let attributes: Vec<Attributes> = xs.iter().map(|&x| vertex(x)).collect();
            for source in ["memory", "array", "immediate"] {
                let mut gpu = endless(backend);
                let mut triangles: Vec<[Semantics; 3]> = Vec::new();
                let (report, got) = match source {
                    "memory" => drawn(&mut gpu, Draw::Arrays, &xs, &[], &DrawOptions::default()),
                    _ => {
                        let report = match source {
                            "array" => gpu.draw_arrays(&attributes, &mut triangles),
                            _ => gpu.draw_immediate(&attributes, &mut triangles),
                        };
                        (report, triangles.iter().map(|t| t.map(|v| v[0])).collect())
                    }
                };
                let ran = last + 1;
                assert_eq!((report.vertex_exit, report.vertices), (Exit::Fuel, ran as u64), "{backend:?} {source}");
                assert_eq!((got.len(), report.triangles), (ran / 3, ran as u64 / 3), "{backend:?} {source} {last}");
                // The last vertex has the output of the vertex before.
                let x = |n: usize| n.min(last.saturating_sub(1)) as f32;
                assert!(got.iter().enumerate().all(|(n, t)| *t == [0, 1, 2].map(|k| x(3 * n + k))), "{got:?}");
                // The next draw continues the primitive.
                let (_, got) = drawn(&mut gpu, Draw::Arrays, &[7.0; 3], &[], &DrawOptions::default());
                let mut want = [7.0; 3];
                (0..ran % 3).for_each(|n| want[n] = x(ran / 3 * 3 + n));
                assert_eq!(got, [want], "{backend:?} {source} {last}");
            }
        }
    }
}

#[test]
fn an_indexed_draw_ends_at_the_first_vertex_that_runs_out_of_fuel() {
    let mut xs: Vec<f32> = (0..200).map(|n| n as f32).collect();
    xs[150] = -1.0;
    let cases: [(Vec<u8>, [u64; 3]); 3] = [
        (vec![0, 1, 2, 2, 1, 0, 150, 1, 1, 150, 199], [4, 3, 2]),
        (vec![150; 9], [1, 0, 0]),
        ((0..150).chain([140, 141, 150]).chain(0..99).collect(), [151, 2, 51]),
    ];
    for backend in BACKENDS {
        for (indices, want) in &cases {
            let counts = |report: Report| (report.vertex_exit, [report.vertices, report.reused, report.triangles]);
            let (report, from_memory) =
                drawn(&mut endless(backend), Draw::Elements, &xs, indices, &DrawOptions::default());
            assert_eq!(counts(report), (Exit::Fuel, *want), "{backend:?}");
            let mut triangles: Vec<[Semantics; 3]> = Vec::new();
            let fetch = |n: u32| vertex(xs[n as usize]);
            let all = indices.iter().map(|&n| u32::from(n));
            let report = endless(backend).draw_elements(all, fetch, 64, &mut triangles);
            assert_eq!(counts(report), (Exit::Fuel, *want), "{backend:?}");
            assert_eq!(triangles.iter().map(|t| t.map(|v| v[0])).collect::<Vec<_>>(), from_memory, "{backend:?}");
        }
    }
}

#[test]
fn hostile_counts_and_bases_end() {
    let mut list = plain();
    list.shader(VSH, "mov o0, v0", 1, 1).write(VERTEX_OFFSET, u32::MAX - 1);
    let mut gpu = gpu(&list);
    let options = DrawOptions { limit: Some(3000), ..DrawOptions::default() };
    for draw in [Draw::Arrays, Draw::Elements] {
        for (location, count, index) in [(0, u32::MAX, u32::MAX), (u32::MAX, u32::MAX - 2, 0), (START >> 3, 1 << 31, 0)]
        {
            for (id, value) in [(ATTRIBBUFFERS_LOC, location), (NUMVERTICES, count), (INDEXBUFFER_CONFIG, index)] {
                assert_eq!(gpu.write(id, value, 15), Effect::None);
            }
            let mut triangles: Vec<[Semantics; 3]> = Vec::new();
            let report = gpu.draw(draw, &Regions(&[(START, &[1; 5])]), &options, &mut triangles);
            assert_eq!((report.triangles, triangles.len()), (1000, 1000));
        }
    }
    let none = DrawOptions { limit: Some(0), ..options };
    let report = gpu.draw(Draw::Elements, &Regions(&[]), &none, &mut Vec::<[Semantics; 3]>::new());
    assert_eq!(report, Report { limited: true, ..Report::default() });
    // Without a limit of its own, a draw has those of the GPU.
    gpu.set_limits(Limits { draw: 30, list: 0 });
    let report = gpu.draw(Draw::Arrays, &Regions(&[]), &DrawOptions::default(), &mut Vec::<[Semantics; 3]>::new());
    assert_eq!((report.vertices, report.limited), (30, true));
}

#[test]
fn an_incomplete_primitive_has_the_semantics_that_a_format_leaves_out() {
    struct Colours(Vec<f32>);
    impl Sink for Colours {
        fn format(&self) -> VertexFormat {
            VertexFormat::new(std::array::from_fn(|n| (n == 8).then_some(0)), 1).expect("0 is below 1")
        }
        fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
            self.0.extend(triangles.as_flattened().iter().map(|&n| vertices[n as usize]));
        }
    }
    for draw in [Draw::Arrays, Draw::Elements] {
        let mut gpu = gpu(&plain());
        drawn(&mut gpu, draw, &[5.0, 6.0], &[0, 1], &DrawOptions { limit: Some(0), ..DrawOptions::default() });
        let memory: Vec<u8> = [5.0f32, 6.0].iter().flat_map(|x| x.to_le_bytes()).chain([0, 1]).collect();
        let mut sink = Colours(Vec::new());
        gpu.draw(draw, &Regions(&[(START, &memory)]), &DrawOptions::default(), &mut sink);
        assert_eq!(gpu.state().assembly.vertices.map(|v| v[0]), [5.0, 6.0]);
        // The third vertex completes it, in the format of this draw.
        let (_, triangles) = drawn(&mut gpu, draw, &[7.0], &[0], &DrawOptions::default());
        assert_eq!((sink.0.len(), triangles), (0, vec![[5.0, 6.0, 7.0]]));
    }
}

#[test]
fn the_vertex_cache_keeps_its_outputs_through_a_long_draw() {
    let count = miri_or(700, 5000);
    // A new vertex, then two that ran before. The cache has lost some of them.
    let indices = || (0..count).flat_map(|n: u32| [n, n.saturating_sub(n * 31 % 400), n.saturating_sub(200)]);
    // Independent vertices, and sums of all vertices that ran.
    for source in ["mov o0, v0", "add r0, v0, r0\nmov o0, r0"] {
        let mut cached = std::collections::VecDeque::new();
        let (mut sum, mut ran) = (0.0f32, 0);
        let want = indices().map(|n| {
            if let Some(&(_, x)) = cached.iter().find(|&&(index, _)| index == n) {
                return x;
            }
            sum += n as f32;
            ran += 1;
            let x = if source.starts_with("mov") { n as f32 } else { sum };
            cached.push_back((n, x));
            if cached.len() > 255 {
                cached.pop_front();
            }
            x
        });
        let want: Vec<[f32; 3]> = want.collect::<Vec<_>>().as_chunks().0.to_vec();
        assert!((u64::from(count) + 40..2 * u64::from(count)).contains(&ran), "some run again, most do not: {ran}");
        for with_geometry in [false, true] {
            let mut list = plain();
            list.shader(VSH, source, 1, 1);
            if with_geometry {
                list.geometry(0, 0, 1).shader(GSH, super::TRIANGLE, 3, 1).outmap(1).topology(Topology::Geometry);
            }
            let mut triangles: Vec<[Semantics; 3]> = Vec::new();
            let report = gpu(&list).draw_elements(indices(), |n| vertex(n as f32), 255, &mut triangles);
            assert_eq!((report.vertices, report.reused), (ran, indices().count() as u64 - ran));
            let got: Vec<[f32; 3]> = triangles.iter().map(|t| t.map(|v| v[0])).collect();
            assert!(got == want, "{source} {with_geometry}");
        }
    }
}

#[test]
fn a_panic_of_the_sink_leaves_a_usable_gpu() {
    struct Panics;
    impl TriangleSink for Panics {
        fn triangle(&mut self, _: [&Semantics; 3]) {
            panic!("a sink's own");
        }
    }
    let mut list = plain();
    list.shader(VSH, "mov o0, v0", 1, 1);
    let mut gpu = gpu(&list);
    let indices = [2, 1, 0];
    for draw in [Draw::Arrays, Draw::Elements] {
        let (_, want) = drawn(&mut gpu, draw, &[1.0, 2.0, 3.0], &indices, &DrawOptions::default());
        let memory = Regions(&[]);
        let panics = std::panic::AssertUnwindSafe(|| gpu.draw(draw, &memory, &DrawOptions::default(), &mut Panics));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(drawn(&mut gpu, draw, &[1.0, 2.0, 3.0], &indices, &DrawOptions::default()).1, want);
    }
}

#[test]
fn few_vertices_come_from_any_number_of_arrays() {
    let sum = "add r0, v0, v1\nadd r0, r0, v2\nadd r0, r0, v3\nadd r0, r0, v4\nmov o0, r0";
    // Array k begins at number 100 k, so that each vertex shows which ones it read.
    let memory: Vec<u8> = (0..600).flat_map(|n| (n as f32).to_le_bytes()).collect();
    for arrays in 1..=5u16 {
        let mut list = plain();
        list.shader(VSH, sum, 5, 1);
        list.write(ATTRIBBUFFERS_LOC, START >> 3).write(ATTRIBBUFFERS_FORMAT_LOW, 0x33333);
        list.write(ATTRIBBUFFERS_FORMAT_HIGH, 0).write(NUMVERTICES, 3).write(VERTEX_OFFSET, 0);
        for k in 0..12 {
            let header = if k < arrays { 1 << 28 | 4 << 16 } else { 0 };
            list.run(ATTRIBBUFFER0_OFFSET + 3 * k, &[400 * u32::from(k), k.into(), header]);
        }
        list.write(INDEXBUFFER_CONFIG, 2400);
        let mut memory = memory.clone();
        memory.extend([0, 1, 2]);
        let mut gpu = gpu(&list);
        for draw in [Draw::Arrays, Draw::Elements] {
            let mut triangles: Vec<[Semantics; 3]> = Vec::new();
            gpu.draw(draw, &Regions(&[(START, &memory)]), &DrawOptions::default(), &mut triangles);
            let x = |vertex: u16| (0..arrays).map(|k| f32::from(100 * k + vertex)).sum::<f32>();
            let xs: Vec<[f32; 3]> = triangles.iter().map(|t| t.map(|v| v[0])).collect();
            assert_eq!(xs, [[x(0), x(1), x(2)]], "{arrays} arrays, {draw:?}");
        }
    }
}
