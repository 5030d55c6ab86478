//! Draws that a host's GPU runs: the same triangles and the same state as on the CPU. The device is
//! the CPU, which evaluates the code as a GPU that computes exactly, and fetches as Vulkan does.

use super::*;
use crate::gpu_code::{Clip, Component, Depth, Device, GpuCode, Interface, Outputs, Position, UniformBlock};
use crate::isa::numeric::Precision;
use crate::testing::miri_or;

const START: u32 = 0x1800_0000;

/// A linear congruential generator.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// Triangles in any format, as bits; NaNs are one.
#[derive(Debug, Default, PartialEq)]
struct Bits(Vec<u32>);

struct Recorder(VertexFormat, Bits);

impl Bits {
    fn add<'a>(&mut self, stride: usize, vertices: &'a [f32], triangles: &[[u32; 3]]) {
        let vertex = |n: &u32| -> &'a [f32] { &vertices[stride * *n as usize..][..stride] };
        let numbers = triangles.as_flattened().iter().flat_map(vertex);
        self.0.extend(numbers.map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }));
    }
}

impl Sink for Recorder {
    fn format(&self) -> VertexFormat {
        self.0
    }

    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
        self.1.add(self.0.stride(), vertices, triangles);
    }
}

/// The registers that a GPU fetches for a vertex.
fn fetched(layout: &StreamLayout, interface: &Interface, streams: &[Stream<'_>], vertex: usize) -> [Vec4; REGS] {
    let crate::gpu_code::Inputs::Attributes(attributes) = &interface.inputs else { unreachable!("a vertex stage") };
    std::array::from_fn(|n| {
        let (at, attribute) = (layout.attributes[n], attributes[n]);
        let stream = streams[usize::from(at.stream)];
        assert_eq!(stream.stride, layout.strides[usize::from(at.stream)]);
        if stream.bytes.is_empty() {
            return [f32::NAN; 4]; // the program reads none of it
        }
        let size = match at.component {
            ComponentType::S8 | ComponentType::U8 => 1,
            ComponentType::S16 => 2,
            ComponentType::F32 => 4,
        };
        let place = vertex * stream.stride as usize + at.offset as usize;
        assert_eq!((at.offset % size, stream.stride % size), (0, 0), "GPUs want attributes aligned");
        // Four are read of three small ones; what follows may belong to another attribute.
        let reads_four = at.components == 3 && at.component != ComponentType::F32;
        let read = if reads_four { 4 } else { usize::from(at.components) };
        let mut registers = [0.0, 0.0, 0.0, 1.0];
        for (c, to) in registers.iter_mut().enumerate().take(read) {
            let byte = |k: usize| stream.bytes.get(place + c * size as usize + k).copied();
            let bytes = std::array::from_fn(|k| if k < size as usize { byte(k).unwrap_or(0xAA) } else { 0 });
            assert!(c == 3 && reads_four || byte(size as usize - 1).is_some(), "only a fourth lies outside");
            let bits = u32::from_le_bytes(bytes);
            *to = match at.component {
                ComponentType::S8 => f32::from(bits as i8),
                ComponentType::U8 => f32::from(bits as u8),
                ComponentType::S16 => f32::from(bits as i16),
                ComponentType::F32 => f32::from_bits(bits),
            };
        }
        if attribute.fixed_w {
            registers[3] = 1.0;
        }
        registers
    })
}

/// Runs the vertices of a draw as a GPU does, if it may.
fn hand_over(
    gpu: &mut Gpu,
    format: VertexFormat,
    draw: Draw,
    memory: &Regions<'_>,
    options: &DrawOptions,
    to: &mut Bits,
) -> Result<Report, String> {
    let placement = gpu.placement(format);
    if let Some(reason) = placement.cpu_only {
        return Err(reason.to_string());
    }
    let position =
        Position { components: placement.position(), depth: Depth::Unchanged, flip_y: false, clip: Clip::None };
    let varyings = placement.varyings();
    let outputs = Outputs::Mapped { varyings: varyings.clone(), position: Some(position) };
    let interface = Interface { uniforms: UniformBlock::default(), inputs: placement.inputs(), outputs };
    let layout = placement.layout;
    let code: GpuCode = placement.shader.gpu_code(&interface, &Device::PLAIN).map_err(|reason| reason.to_string())?;
    let uniforms = gpu.vertex_uniforms().clone();
    let handed = gpu.hand_over(&code, format, draw, memory, options).map_err(|reason| reason.to_string())?;
    let mut vertices = Vec::new();
    for n in 0..handed.vertices {
        let v = fetched(&layout, &interface, &handed.streams, n);
        let o = code.evaluate(&uniforms, &v).expect("it ends");
        let component = |component: &Component| match *component {
            Component::Zero => 0.0,
            Component::One => 1.0,
            Component::Register(n, _) | Component::Colour(n, _) if code.outputs() >> n & 1 == 0 => 0.0,
            Component::Register(n, c) => o[usize::from(n)][usize::from(c)],
            Component::Colour(n, c) => {
                let magnitude = o[usize::from(n)][usize::from(c)].abs();
                if magnitude < 1.0 { magnitude } else { 1.0 }
            }
        };
        vertices.extend(varyings.iter().flat_map(|varying| &varying.components).map(component));
    }
    to.add(format.stride(), &vertices, handed.triangles);
    assert_eq!(handed.report.triangles, handed.triangles.len() as u64);
    Ok(handed.report)
}

/// Programs of independent vertices; attributes v0 to v3, outputs o0 to o2.
const PROGRAMS: [&str; 5] = [
    "mov o0, v0\nmov o1, v1\nmov o2, v2",
    "dp4 o0.x, c0, v0\ndp4 o0.y, c1, v0\nadd r5, v1, v3\nmov o0.zw, r5\nmul o1, c4, v1\nrcp r1.x, v2.x\nmov o2, r1.x",
    "ifu b1\nmov o0, v0\n.else\nmov o0, v3\n.end\nmul r2, v1, v1\nmov o1, r2\nmov o2, v2",
    "mov o0, v0\nmov r3, c7\nfor i0\nadd r3, v1, r3\n.end\nmov o1, r3\nmov o2, v2",
    // It reads r9, which no run of it writes, and leaves o2 as it is.
    "add o0, v0, r9\nmov o1, v1",
];
/// It leaves values in registers that the last of them reads.
const LEAVES: &str = "mov r9, v1\nmov o0, v0\nmov o1, v1\nmov o2, v2";

fn configure(list: &mut List, rng: &mut Rng) {
    let mut word = |bits: u32| (rng.next() as u32) & ((1 << bits) - 1);
    // Any types of four attributes; two arrays with any strides, some with padding.
    list.write(ATTRIBBUFFERS_LOC, START >> 3).write(ATTRIBBUFFERS_FORMAT_LOW, word(16));
    let first = [0x10, 0x210, 0x21C, 0x3210, 0xD10][word(3) as usize % 5];
    let stride = [16, 24, 33, 48, 64, 7, 66, 0][word(3) as usize];
    let count = if first == 0x3210 { 4 } else { 3 };
    list.run(ATTRIBBUFFER0_OFFSET, &[word(4), first, count << 28 | stride << 16]);
    let second = [0x3, 0x32, 0x12][word(2) as usize % 3];
    list.run(ATTRIBBUFFER0_OFFSET + 3, &[4096 + word(3), second, (1 + word(1)) << 28 | (4 * word(4)) << 16]);
    list.write(PRIMITIVE_CONFIG, (word(2) % 3) << 8);
    if word(2) != 0 {
        list.write(RESTART_PRIMITIVE, 1);
    }
    list.write(INDEXBUFFER_CONFIG, word(1) << 31 | (8192 + word(2)));
    list.write(NUMVERTICES, [3, 4, 6, 60, 200, 500][word(3) as usize % 6] + word(1)).write(VERTEX_OFFSET, word(3));
    list.write(VSH + offset::BOOLUNIFORM, word(2));
    // Sometimes attribute 3 goes to v7, and v3 keeps what it holds.
    let permutation = if word(2) == 0 { 0x7654_7210 } else { 0x7654_3210 };
    list.write(VSH + offset::ATTRIBUTES_PERMUTATION_LOW, permutation);
}

#[test]
fn the_host_s_gpu_gives_the_same_triangles_and_state() {
    let mut rng = Rng::new(44);
    let (mut handed, mut reasons) = (0, std::collections::BTreeMap::<String, u32>::new());
    for precision in [Precision::F32, Precision::F24 { rounding: crate::isa::float24::Rounding::TowardZero }] {
        let engine = || Engine::new(Options { precision, ..Options::default() });
        let mut gpus = [(); 2].map(|()| Gpu::new(std::sync::Arc::new(engine())));
        let mut memory: Vec<u8> = (0..16384).map(|_| rng.next() as u8).collect();
        // Indices of vertices that lie close together.
        memory[8192..].iter_mut().enumerate().for_each(|(n, byte)| *byte = if n % 2 == 0 { *byte / 4 } else { 0 });
        let rows: [u8; 3] = [12, 13, 200];
        let narrow = VertexFormat::new(
            std::array::from_fn(|n| [0, 1, 2, 3].contains(&n).then_some(n as u8).or((n == 8).then_some(4))),
            5,
        );
        let formats = [VertexFormat::default(), narrow.expect("4 is below 5")];
        for n in 0..miri_or(30, 3000) {
            let mut list = List::default();
            if rng.next().is_multiple_of(4) || n == 0 {
                let source = match rng.next() % 6 {
                    5 => LEAVES,
                    n => PROGRAMS[n as usize],
                };
                list.shader(VSH, source, 4, 0b111).outmap(3).write(VSH + offset::INTUNIFORM_I0, u32::from(rows[n % 3]));
            }
            configure(&mut list, &mut rng);
            let constants: Vec<u32> = (0..12).map(|_| rng.next() as u32 & 0x3F7F_FFFF).collect();
            list.write(VSH + offset::FLOATUNIFORM_INDEX, 1 << 31).queue(VSH + offset::FLOATUNIFORM_DATA0, &constants);
            for gpu in &mut gpus {
                let mut commands = Commands::new(&list.0);
                assert!(matches!(gpu.write_list(&mut commands), Effect::None));
            }
            if rng.next().is_multiple_of(16) {
                // As a draw with the geometry unit leaves it.
                gpus.iter_mut().for_each(|gpu| gpu.state_mut().geometry_input.vertices = 2);
            }
            let draw = if rng.next().is_multiple_of(2) { Draw::Arrays } else { Draw::Elements };
            // Some draws lack the end of their memory.
            let end = if rng.next().is_multiple_of(8) { 5000 } else { memory.len() };
            let regions = [(START, &memory[..end])];
            let memory = Regions(&regions);
            let (options, format) = (DrawOptions::default(), formats[rng.next() as usize % 2]);
            let [cpu, gpu] = &mut gpus;
            let mut want = Recorder(format, Bits::default());
            let report = cpu.draw(draw, &memory, &options, &mut want);
            let mut got = Bits::default();
            match hand_over(gpu, format, draw, &memory, &options, &mut got) {
                Ok(handed_report) => {
                    assert_eq!(handed_report.triangles, report.triangles);
                    handed += 1;
                }
                Err(reason) => {
                    *reasons.entry(reason).or_default() += 1;
                    let mut sink = Recorder(format, Bits::default());
                    gpu.draw(draw, &memory, &options, &mut sink);
                    got = sink.1;
                }
            }
            assert!(got == want.1, "draw {n} of {draw:?}, {precision:?}");
            if rng.next().is_multiple_of(4) {
                let [a, b] = [&*cpu, &*gpu].map(|gpu| format!("{:?}", gpu.state()));
                assert!(a == b, "state after draw {n} of {draw:?}, {precision:?}");
            }
        }
    }
    println!("{handed} handed over; {reasons:?}");
    let seen = |text: &str| reasons.keys().any(|reason| reason.contains(text));
    assert!(handed > miri_or(10, 2000), "{handed} {reasons:?}");
    assert!(cfg!(miri) || seen("continues") && seen("an earlier program left values"), "{reasons:?}");
}

/// The last vertex of a draw may run later. What it leaves counts where a program reads it.
#[test]
fn registers_of_a_deferred_run_are_current_before_the_gpu_takes_a_draw() {
    let backend = if cfg!(feature = "jit") { BackendChoice::NativeRequired } else { BackendChoice::NoNative };
    let mut gpu = Gpu::new(engine(backend));
    let memory: Vec<u8> = (0..4096u32).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let regions = [(START, &memory[..])];
    let memory = Regions(&regions);
    let mut list = List::default();
    list.write(GEOSTAGE_CONFIG, 0).write(VSH_COM_MODE, 1).topology(Topology::List).outmap(3);
    list.write(ATTRIBBUFFERS_LOC, START >> 3).write(ATTRIBBUFFERS_FORMAT_LOW, 0xFFFF);
    list.run(ATTRIBBUFFER0_OFFSET, &[0, 0x3210, 4 << 28 | 64 << 16]).write(NUMVERTICES, 60);
    list.shader(VSH, LEAVES, 4, 0b111);
    gpu.execute(&list.0, &mut super::Memory::default());
    gpu.draw(Draw::Arrays, &memory, &DrawOptions::default(), &mut super::Memory::default());
    let is_deferred = gpu.deferred.is_pending();
    assert!(is_deferred || cfg!(not(feature = "jit")));
    let mut list = List::default();
    list.shader(VSH, PROGRAMS[4], 4, 0b111);
    gpu.execute(&list.0, &mut super::Memory::default());
    assert_eq!(gpu.deferred.is_pending(), is_deferred);
    let format = VertexFormat::default();
    let handed = hand_over(&mut gpu, format, Draw::Arrays, &memory, &DrawOptions::default(), &mut Bits::default());
    assert!(handed.is_err_and(|reason| reason.contains("an earlier program left values")));
}

#[test]
fn reasons_for_the_cpu() {
    let cpu_only = |list: &List| {
        let mut console = Console::new(BackendChoice::NoNative);
        console.execute(list);
        console.gpu.placement(VertexFormat::default()).cpu_only
    };
    let with = |source: &str| {
        let mut list = plain();
        list.shader(VSH, source, 1, 1);
        list
    };
    assert_eq!(cpu_only(&with("mov o0, v0")), None);
    // A vertex that depends on the one before, and one that may leave another register than the next.
    assert_eq!(cpu_only(&with("add r0, v0, r0\nmov o0, r0")), Some(CpuOnly::Dependent));
    let kept = "mov o0, v0\ncmp c0, gt, gt, v0\nifc cmp.x\nmov r1, v0\n.end";
    assert_eq!(cpu_only(&with(kept)), Some(CpuOnly::Dependent));
    // Nested loops: too long at 256 times 256, and by their uniforms only.
    let mut loops = with("mov r1, c0\nfor i0\nfor i1\nadd r1, v0, r1\n.end\nnop\n.end\nmov o0, r1");
    loops.write(VSH + offset::INTUNIFORM_I0, 3).write(VSH + offset::INTUNIFORM_I0 + 1, 200);
    assert_eq!(cpu_only(&loops), None);
    loops.write(VSH + offset::INTUNIFORM_I0, 255).write(VSH + offset::INTUNIFORM_I0 + 1, 255);
    assert_eq!(cpu_only(&loops), Some(CpuOnly::LongRuns));
    // It may break out of no loop; the hardware hangs.
    assert_eq!(cpu_only(&with("mov o0, v0\nifu b1\nbreakc cmp.x\n.end")), Some(CpuOnly::LongRuns));
    let mut geometry = with("mov o0, v0");
    geometry.geometry(0, 0, 1).shader(GSH, super::TRIANGLE, 3, 1).topology(Topology::Geometry);
    assert_eq!(cpu_only(&geometry), Some(CpuOnly::Geometry));
}
