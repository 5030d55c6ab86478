//! Whole draws, timed: guest memory -> a consumer of triangles.
//!
//! Each layout is drawn by `Gpu::draw`, by a host that fetches each vertex itself, and by two
//! ceilings: fetch and output map by hand around the batch kernel, and everything by hand. All four
//! feed the same consumer, and their sums are compared.

// The bench includes this file, so the path can't follow from the module's name.
#[path = "draws/by_hand.rs"]
mod by_hand;

use by_hand::{ByHand, Hand, Kernel, Transform};
use picajit::engine::{Engine, Options, Shader};
use picajit::gpu::{Attributes, Draw, DrawOptions, Gpu, Regions, Sink, TriangleSink};
use picajit::internals::registers::{self as reg, offset};
use picajit::semantics::Semantics;
use picajit::state::{Uniforms, Vec4};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A transform of 7 words, and lighting of 34.
const PROGRAMS: [(&str, &str); 2] = [
    (
        "7 words",
        ".proc main\ndp4 o0.x, c0, v0\ndp4 o0.y, c1, v0\ndp4 o0.z, c2, v0\ndp4 o0.w, c3, v0\nmov o1, v1\nmov o2, v2\nend\n.end\n",
    ),
    (
        "34 words",
        ".proc main
dp4 r0.x, c0, v0\ndp4 r0.y, c1, v0\ndp4 r0.z, c2, v0\ndp4 r0.w, c3, v0
dp4 o0.x, c4, r0\ndp4 o0.y, c5, r0\ndp4 o0.z, c6, r0\ndp4 o0.w, c7, r0
mul r2, c8, v1
dp3 r3.x, r0, r0\nrsq r3.x, r3.x\nmul r4, r0, r3.xxxx
dp3 r5.x, c9, r4\nmax r5.x, c10.x, r5.x\nmad r6, r5.xxxx, c11, r2
dp3 r5.x, c12, r4\nmax r5.x, c10.x, r5.x\nmad r6, r5.xxxx, c13, r6
dp3 r5.x, c14, r4\nmax r5.x, c10.x, r5.x\nmad r6, r5.xxxx, c15, r6
dp3 r5.x, c16, r4\nmax r5.x, c10.x, r5.x\nmad r6, r5.xxxx, c17, r6
min r6, c18.x, r6\nmov o1, r6
mul r7, c19, v2\nadd r7, c20, r7
dp4 r8.x, c21, v0\ndp4 r8.y, c22, v0
add r7.xy, r8, r7\nmul r7, c18, r7\nmov o2, r7
end\n.end\n",
    ),
];

/// Where guest memory begins.
const START: u32 = 0x1800_0000;
/// Where indices begin in it.
const INDICES: u32 = 0x0040_0000;
const GRID: usize = 32;

/// The arrays of a layout: attributes, and how a hand-written host reads them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrays {
    /// One array of f32x3, u8x4, f32x2.
    Mixed,
    /// The same with s16x3.
    ShortPositions,
    /// u8x3, u8x4, u8x2.
    Bytes,
    /// The first array, without the colour, which is a default attribute.
    FixedColour,
    /// Three arrays.
    Separate,
}

/// Which vertices a draw takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    List(usize),
    Strip(usize),
    /// Triangles of a grid, by indices.
    Grid,
    /// The same vertices, each 61 apart.
    Sparse,
    /// Strips of the grid by indices of 16 bits.
    GridStrips,
}

struct Layout {
    name: &'static str,
    arrays: Arrays,
    order: Order,
    /// What a time is divided by.
    unit: &'static str,
}

const LAYOUTS: [Layout; 9] = {
    const fn layout(name: &'static str, arrays: Arrays, order: Order, unit: &'static str) -> Layout {
        Layout { name, arrays, order, unit }
    }
    [
        layout("1,023 vertices", Arrays::Mixed, Order::List(1023), "vertex"),
        layout("32x32 grid", Arrays::Mixed, Order::Grid, "index"),
        layout("strip of 4", Arrays::Mixed, Order::Strip(4), "draw"),
        layout("s16 positions", Arrays::ShortPositions, Order::List(1023), "vertex"),
        layout("u8 everything", Arrays::Bytes, Order::List(1023), "vertex"),
        layout("fixed colour", Arrays::FixedColour, Order::List(1023), "vertex"),
        layout("three arrays", Arrays::Separate, Order::List(1023), "vertex"),
        layout("sparse indices", Arrays::Mixed, Order::Sparse, "index"),
        layout("strips by index", Arrays::Mixed, Order::GridStrips, "index"),
    ]
};

/// The consumer: a sum over the vertices of each triangle, and their number.
#[derive(Default)]
struct Consumer {
    sum: [f32; 4],
    triangles: u64,
}

impl Consumer {
    #[inline(always)]
    fn add(&mut self, vertices: [&Semantics; 3]) {
        for vertex in vertices {
            for (sum, n) in self.sum.iter_mut().zip([0, 8, 12, 23]) {
                *sum += vertex[n];
            }
        }
        self.triangles += 1;
    }
}

struct Slices<'a>(&'a mut Consumer);

impl Sink for Slices<'_> {
    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
        let vertices: &[Semantics] = vertices.as_chunks().0;
        // Not `array::map`, which is not always inlined.
        let vertex = |n: u32| &vertices[n as usize];
        triangles.iter().for_each(|&[a, b, c]| self.0.add([vertex(a), vertex(b), vertex(c)]));
    }
}

struct Each<'a>(&'a mut Consumer);

impl TriangleSink for Each<'_> {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.0.add(vertices);
    }
}

/// A layout, ready to be drawn in each way.
struct Scene {
    order: Order,
    gpu: Gpu,
    memory: Vec<u8>,
    arrays: Arrays,
    indices: Vec<u16>,
    shader: Shader,
    /// The uniforms of the hand-written draws.
    uniforms: Uniforms,
    hand: Hand,
}

fn number(seed: &mut u32) -> u32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *seed >> 8
}

impl Arrays {
    /// Types of attributes 0-2, and the arrays: offset, components, stride and their number.
    fn registers(self) -> (u32, u32, Vec<[u32; 3]>) {
        // Format in bits 1:0, components minus 1 in bits 3:2.
        let types = match self {
            Arrays::ShortPositions => 0b0111_1101_1010,
            Arrays::Bytes => 0b0101_1101_1001,
            _ => 0b0111_1101_1011,
        };
        let one = |components, count: u32, stride: u32| vec![[0, components, count << 28 | stride << 16]];
        match self {
            Arrays::Mixed => (types, 0, one(0x210, 3, 24)),
            // Padding to four bytes after six.
            Arrays::ShortPositions => (types, 0, one(0x210, 3, 20)),
            Arrays::Bytes => (types, 0, one(0x210, 3, 9)),
            Arrays::FixedColour => (types, 1 << 17, one(0x20, 2, 20)),
            Arrays::Separate => (
                types,
                0,
                vec![[0, 0, 1 << 28 | 12 << 16], [0x10_0000, 1, 1 << 28 | 4 << 16], [0x20_0000, 2, 1 << 28 | 8 << 16]],
            ),
        }
    }

    /// Calls `draw` with the hand-written fetch of this layout.
    fn with_fetch<T>(self, memory: &[u8], draw: impl Draws<T>) -> T {
        fn f32s<const N: usize>(memory: &[u8], at: usize) -> [f32; N] {
            let bytes = &memory[at..at + 4 * N];
            std::array::from_fn(|n| {
                f32::from_le_bytes([bytes[4 * n], bytes[4 * n + 1], bytes[4 * n + 2], bytes[4 * n + 3]])
            })
        }
        fn u8s<const N: usize>(memory: &[u8], at: usize) -> [f32; N] {
            let bytes = &memory[at..at + N];
            std::array::from_fn(|n| f32::from(bytes[n]))
        }
        let two = |[u, v]: [f32; 2]| [u, v, 0.0, 1.0];
        let three = |[x, y, z]: [f32; 3]| [x, y, z, 1.0];
        match self {
            Arrays::Mixed => draw.draw(|n| {
                let bytes = &memory[24 * n..24 * n + 24];
                [three(f32s(bytes, 0)), u8s(bytes, 12), two(f32s(bytes, 16))]
            }),
            Arrays::ShortPositions => draw.draw(|n| {
                let bytes = &memory[20 * n..20 * n + 20];
                let short = |at: usize| f32::from(i16::from_le_bytes([bytes[at], bytes[at + 1]]));
                [three([short(0), short(2), short(4)]), u8s(bytes, 6), two(f32s(bytes, 12))]
            }),
            Arrays::Bytes => draw.draw(|n| {
                let bytes = &memory[9 * n..9 * n + 9];
                [three(u8s(bytes, 0)), u8s(bytes, 3), two(u8s(bytes, 7))]
            }),
            Arrays::FixedColour => draw.draw(|n| {
                let bytes = &memory[20 * n..20 * n + 20];
                [three(f32s(bytes, 0)), FIXED, two(f32s(bytes, 12))]
            }),
            Arrays::Separate => {
                let [a, b, c] = [0, 0x10_0000, 0x20_0000].map(|at| &memory[at..]);
                draw.draw(|n| [three(f32s(a, 12 * n)), u8s(b, 4 * n), two(f32s(c, 8 * n))])
            }
        }
    }
}

const FIXED: Vec4 = [0.25, 0.5, 0.75, 1.0];

/// A draw that takes any fetch.
trait Draws<T> {
    fn draw(self, fetch: impl Fn(usize) -> [Vec4; 3] + Copy) -> T;
}

fn uniforms() -> Uniforms {
    let mut uniforms = Uniforms::new();
    let mut seed = 7;
    uniforms.c.iter_mut().flatten().for_each(|x| *x = number(&mut seed) as f32 / (1 << 25) as f32);
    uniforms.c[10] = [0.0; 4];
    uniforms.c[18] = [1.0; 4];
    uniforms
}

impl Scene {
    fn new(engine: &Arc<Engine>, source: &str, layout: &Layout) -> Scene {
        let program = picajit::text::assemble(source).expect("a test assembles it").shbin.program().expect("it fits");
        let mut gpu = Gpu::new(engine.clone());
        let mut write = |id: u16, value: u32| _ = gpu.write(id, value, 0xF);
        let vsh = |at: u16| reg::VSH + at;
        program.code().iter().for_each(|&word| write(vsh(offset::CODETRANSFER_DATA0), word));
        program.opdescs().iter().for_each(|&word| write(vsh(offset::OPDESCS_DATA0), word));
        write(vsh(offset::INPUTBUFFER_CONFIG), 0xA000_0002);
        write(vsh(offset::ATTRIBUTES_PERMUTATION_LOW), 0x210);
        write(vsh(offset::OUTMAP_MASK), 0b111);
        write(reg::SH_OUTMAP_TOTAL, 3);
        for (n, word) in [0x0302_0100, 0x0B0A_0908, 0x1F1F_0D0C].into_iter().enumerate() {
            write(reg::SH_OUTMAP_O0 + n as u16, word);
        }
        let (types, fixed, arrays) = layout.arrays.registers();
        write(reg::ATTRIBBUFFERS_LOC, START >> 3);
        write(reg::ATTRIBBUFFERS_FORMAT_LOW, types);
        write(reg::ATTRIBBUFFERS_FORMAT_HIGH, fixed);
        for (n, words) in arrays.iter().enumerate() {
            (0..).zip(words).for_each(|(k, &word)| write(reg::ATTRIBBUFFER0_OFFSET + 3 * n as u16 + k, word));
        }
        let strip = matches!(layout.order, Order::Strip(_) | Order::GridStrips);
        write(reg::PRIMITIVE_CONFIG, u32::from(strip) << 8);
        write(reg::INDEXBUFFER_CONFIG, 1 << 31 | INDICES);
        let indices = layout.order.indices();
        let count = match layout.order {
            Order::List(count) | Order::Strip(count) => count,
            _ => indices.len(),
        };
        write(reg::NUMVERTICES, count as u32);
        gpu.state_mut().vertex.uniforms = uniforms();
        gpu.state_mut().fixed.defaults[1] = FIXED;
        let mut seed = 1;
        let mut memory: Vec<u8> = (0..0x80_0000).map(|_| number(&mut seed) as u8).collect();
        // Small finite numbers wherever an f32 may be.
        memory.chunks_exact_mut(4).for_each(|word| {
            let f = number(&mut seed) as f32 / (1 << 24) as f32;
            if layout.arrays != Arrays::Bytes {
                word.copy_from_slice(&f.to_le_bytes());
            }
        });
        memory[INDICES as usize..]
            .iter_mut()
            .zip(indices.iter().flat_map(|n| n.to_le_bytes()))
            .for_each(|(to, n)| *to = n);
        let entry = picajit::program::Entry { pc: 0, stage: picajit::isa::Stage::Vertex };
        let shader = engine.shader(&program, entry);
        shader.compile_now();
        Scene {
            order: layout.order,
            gpu,
            memory,
            arrays: layout.arrays,
            indices,
            shader,
            uniforms: uniforms(),
            hand: Hand::default(),
        }
    }

    fn units(&self, unit: &str) -> f64 {
        match (unit, self.order) {
            ("draw", _) => 1.0,
            (_, Order::List(count) | Order::Strip(count)) => count as f64,
            _ => self.indices.len() as f64,
        }
    }

    fn kind(&self) -> Draw {
        if self.indices.is_empty() { Draw::Arrays } else { Draw::Elements }
    }

    /// `Gpu::draw`.
    fn library(&mut self, to: &mut Consumer) {
        let _ = self.gpu.write(reg::RESTART_PRIMITIVE, 1, 0xF);
        let regions = [(START, &self.memory[..])];
        let kind = self.kind();
        black_box(self.gpu.draw(kind, &Regions(&regions), &DrawOptions::default(), &mut Slices(to)));
    }

    /// A host that fetches each vertex itself, with a callback per triangle.
    fn by_vertex(&mut self, to: &mut Consumer) {
        struct ByVertex<'a>(&'a mut Gpu, Order, &'a [u16], &'a mut Consumer);
        impl Draws<()> for ByVertex<'_> {
            fn draw(self, fetch: impl Fn(usize) -> [Vec4; 3] + Copy) {
                let ByVertex(gpu, order, indices, consumer) = self;
                let vertex = |n: usize| -> Attributes {
                    let mut attributes = Attributes::default();
                    attributes[..3].copy_from_slice(&fetch(n));
                    attributes
                };
                let report = match order {
                    Order::List(count) | Order::Strip(count) => {
                        gpu.draw_arrays((0..count).map(vertex), &mut Each(consumer))
                    }
                    _ => gpu.draw_elements(
                        indices.iter().map(|&n| n.into()),
                        |n| vertex(n as usize),
                        64,
                        &mut Each(consumer),
                    ),
                };
                black_box(report);
            }
        }
        let _ = self.gpu.write(reg::RESTART_PRIMITIVE, 1, 0xF);
        let draw = ByVertex(&mut self.gpu, self.order, &self.indices, to);
        self.arrays.with_fetch(&self.memory, draw);
    }

    /// Fetch, output map and assembly by hand, around the batch kernel.
    fn by_hand(&mut self, to: &mut Consumer) {
        let run = Kernel { shader: &self.shader, uniforms: &self.uniforms };
        let draw = ByHand(run, &mut self.hand, self.order, &self.indices, to);
        self.arrays.with_fetch(&self.memory, draw);
    }

    /// All by hand, for the transform.
    fn all_by_hand(&mut self, to: &mut Consumer) {
        let draw = ByHand(Transform { uniforms: &self.uniforms }, &mut self.hand, self.order, &self.indices, to);
        self.arrays.with_fetch(&self.memory, draw);
    }
}

impl Order {
    fn indices(self) -> Vec<u16> {
        let at = |x: usize, y: usize| (y * GRID + x) as u16 * if self == Order::Sparse { 61 } else { 1 };
        let cells = (0..GRID - 1).flat_map(|y| (0..GRID - 1).map(move |x| (x, y)));
        match self {
            Order::List(_) | Order::Strip(_) => vec![],
            Order::GridStrips => {
                (0..GRID - 1).flat_map(|y| (0..GRID).flat_map(move |x| [at(x, y), at(x, y + 1)])).collect()
            }
            _ => cells
                .flat_map(|(x, y)| [at(x, y), at(x + 1, y), at(x, y + 1), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1)])
                .collect(),
        }
    }
}

/// The ways to draw.
pub const WAYS: [&str; 4] = ["library", "by vertex", "hand, kernel", "all by hand"];

/// The times of a layout and program, in nanoseconds.
pub struct Row {
    /// Layout and program.
    pub name: String,
    /// What a time is divided by.
    pub unit: &'static str,
    /// The least time of each of [`WAYS`]; none of a ceiling that does not exist.
    pub ns: [Option<f64>; 4],
}

/// Draws each layout whose name contains `name` with each program in every way. Each way is timed
/// `samples` times.
pub fn measure(samples: usize, name: &str) -> Vec<Row> {
    let options = Options { compile_after: 0, ..Options::default() };
    let engine = Arc::new(Engine::new(options));
    let mut rows = Vec::new();
    for layout in LAYOUTS.iter().filter(|layout| layout.name.contains(name)) {
        for (program, (name, source)) in PROGRAMS.iter().enumerate() {
            let mut scene = Scene::new(&engine, source, layout);
            let ways: &[fn(&mut Scene, &mut Consumer)] =
                &[Scene::library, Scene::by_vertex, Scene::by_hand, Scene::all_by_hand][..4 - program];
            let mut results = Vec::new();
            for draw in ways {
                // The second draw runs on compiled code.
                let mut consumer = Consumer::default();
                (0..40).for_each(|_| draw(&mut scene, &mut Consumer::default()));
                draw(&mut scene, &mut consumer);
                results.push((consumer.sum, consumer.triangles));
            }
            for result in &results {
                let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
                let equal = result.1 == results[0].1 && result.0.iter().zip(&results[0].0).all(close);
                assert!(equal, "{} {name}: {results:?}", layout.name);
            }
            let mut least = [f64::INFINITY; 4];
            let mut repeats = [1u32; 4];
            for (draw, repeats) in ways.iter().zip(&mut repeats) {
                let mut consumer = Consumer::default();
                let start = Instant::now();
                draw(&mut scene, &mut consumer);
                let one = start.elapsed().max(Duration::from_nanos(20));
                *repeats = (Duration::from_micros(100).as_nanos() / one.as_nanos()).clamp(1, 2000) as u32;
            }
            for _ in 0..samples {
                for ((draw, repeats), least) in ways.iter().zip(repeats).zip(&mut least) {
                    let mut consumer = Consumer::default();
                    let start = Instant::now();
                    (0..repeats).for_each(|_| draw(&mut scene, &mut consumer));
                    let time = start.elapsed().as_nanos() as f64 / f64::from(repeats);
                    black_box(consumer.sum);
                    *least = least.min(time / scene.units(layout.unit));
                }
            }
            let ns = least.map(|ns| ns.is_finite().then_some(ns));
            rows.push(Row { name: format!("{}, {name}", layout.name), unit: layout.unit, ns });
        }
    }
    rows
}

/// The rows as text.
pub fn table(rows: &[Row]) -> String {
    let header = WAYS.map(|way| format!("{way:>14}")).concat();
    let mut text = format!("{:28}{:>8}{header}   library / hand\n", "ns", "a");
    for Row { name, unit, ns } in rows {
        let columns = ns.map(|ns| ns.map_or(format!("{:>14}", "-"), |ns| format!("{ns:14.1}"))).concat();
        let ratio = ns[0].zip(ns[2]).map_or(String::new(), |(library, hand)| format!("{:17.2}", library / hand));
        text += &format!("{name:28}{unit:>8}{columns}{ratio}\n");
    }
    text
}
