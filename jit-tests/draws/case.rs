//! Numbers -> draws from guest memory, each compared with a slow reference: vertex by vertex on the
//! interpreter, scalar code for the rest. Some draws have a [geometry](geometry) program.
//!
//! The reference shares with the library only the decoding of shader registers, the output map and
//! the interpreter. This file must not depend on a test runner, so that a fuzz target can use it.

mod geometry;
mod numbers;

use geometry::{Emitted, GeometryUnit};
pub use numbers::Numbers;
use picajit::engine::{BackendChoice, Engine, Options};
use picajit::gpu::{Draw, DrawOptions, Gpu, Regions, Report, Sink, State, Topology, VertexFormat};
use picajit::internals::registers::{self as reg, offset};
use picajit::isa::Stage;
use picajit::program::Program;
use picajit::semantics::{SEMANTICS, Semantics};
use picajit::state::{Exit, Registers, Unit};
use std::collections::VecDeque;
use std::sync::Arc;

/// Where guest memory begins.
const START: u32 = 0x1800_0000;
/// The limit of most draws.
const MOST: u32 = 400;

const SOURCES: [&str; 9] = [
    "mov o0, v0\nmov o1, v1\nmov o2, v2\nend",
    "dp4 o0.x, c0, v0\ndp4 o0.y, c1, v0\ndp4 o0.z, c2, v0\ndp4 o0.w, c3, v0\nmov o1, v1\nmov o2, v2\nend",
    // Each vertex adds to what the others left.
    "add r0, v0, r0\nmov o0, r0\nmov o1, v1\nmov o2, v2\nend",
    // Some vertices leave an output alone.
    "mov o1, v1\ncmp c0, gt, gt, v0\nifc cmp.x\nmov o0, v2\n.end\nmov o2, v0\nend",
    // Both sides write the same registers.
    "cmp c0, gt, gt, v0\nifc cmp.x\nmov o0, v2\n.else\nmul o0, v1, v0\n.end\nmov o1, v1\nmov o2, v0\nend",
    // Some vertices run out of fuel before they write.
    "mov o1, v1\ncmp c0, gt, gt, v0\nagain:\njmpc cmp.x, again\nmov o0, v0\nmov o2, v2\nend",
    // Some leave a loop that is none.
    "mov o0, v0\ncmp c0, gt, gt, v1\nbreakc cmp.y\nmov o1, v1\nmov o2, v2\nend",
    // A vertex reads the output of the one before.
    "mov r1, v0\nmad o0, r1, c1, r2\nmov r2, r1\nmov o1, v1\nend",
    // A loop, and outputs that no vertex writes.
    "mov r0, v0\nfor i0\nadd r0, c0, r0\n.end\nmov o0, r0\nmov o2.xy, v2\nend",
];

/// The engines and programs of many cases.
pub struct Bench {
    engine: Arc<Engine>,
    oracle: Engine,
    programs: Vec<Program>,
    geometry_programs: Vec<Program>,
}

/// Where guest memory is while a case draws.
pub trait Place {
    /// The same bytes.
    fn place<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8];
}

/// Memory that stays where it is.
#[allow(dead_code)] // a user may have another place
pub struct AsIs;

impl Place for AsIs {
    fn place<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        bytes
    }
}

/// How often the interesting things happened, for a check that cases reach them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub draws: u64,
    pub triangles: u64,
    pub reused: u64,
    pub early_exits: u64,
    pub continued: u64,
    pub cut_off: u64,
    /// Draws with index lists that leave memory.
    pub short_lists: u64,
    /// Draws in which a component follows padding that begins 0, 1, 2 or 3 bytes after a multiple
    /// of 4.
    pub paddings: [u64; 4],
    /// Draws after one of the same program, with and without access to the unit in between: they
    /// keep or replace the run that the first one defers.
    pub runs_kept: u64,
    pub runs_replaced: u64,
    pub geometry_runs: u64,
    /// Groups of runs of one geometry program: the most of any.
    pub geometry_groups: u64,
}

impl Bench {
    pub fn new(backend: BackendChoice) -> Bench {
        let options = |backend| Options {
            backend,
            fuel: 20,
            geometry_fuel: 20,
            compile_after: 0,
            events: Arc::new(|_| ()),
            ..Options::default()
        };
        let program = |head: &str, body: &str| {
            let source = format!(".raw\n{head}.proc main\n{body}\n.end\n");
            picajit::text::assemble(&source).unwrap_or_else(|e| panic!("{e}")).shbin.program().expect("short")
        };
        Bench {
            engine: Arc::new(Engine::new(options(backend))),
            oracle: Engine::new(options(BackendChoice::Oracle)),
            programs: SOURCES.iter().map(|body| program("", body)).collect(),
            geometry_programs: geometry::SOURCES
                .iter()
                .map(|body| program(".gsh point c0\n", &format!("{body}\nend")))
                .collect(),
        }
    }

    /// Runs one case: a few draws, with other registers each. Returns the first difference.
    pub fn run(&self, numbers: &mut Numbers<'_>, place: &impl Place, tally: &mut Tally) -> Result<(), String> {
        let mut gpu = Gpu::new(self.engine.clone());
        let memory = memory(numbers);
        let memory = place.place(&memory);
        self.configure(&mut gpu, numbers, true);
        for n in 0..1 + numbers.below(3) {
            let same_program = n > 0 && !self.configure(&mut gpu, numbers, false);
            let draw = if numbers.one_in(2) { Draw::Arrays } else { Draw::Elements };
            let vertex_cache = [64, 64, 0, 3][numbers.below(4) as usize];
            let options = DrawOptions { limit: Some(1 + numbers.below(MOST)), vertex_cache };
            let (offsets, stride) = format(numbers);
            let format = VertexFormat::new(offsets, stride).expect("offsets are below the stride");
            let mut sink = Collector { format, triangles: Vec::new() };
            // Access for changes ends what the vertex unit defers; a copy of the state does not.
            let reads = numbers.one_in(4);
            let before = if reads { gpu.state_mut().clone() } else { gpu.state() };
            let report = gpu.draw(draw, &Regions(&[(START, memory)]), &options, &mut sink);
            let want = Reference { state: before, memory, oracle: &self.oracle, reached: Reached::default() };
            let registers = gpu.state().registers.clone();
            let want = want.draw(draw, options);
            tally.draws += 1;
            tally.triangles += report.triangles;
            tally.reused += report.reused;
            tally.early_exits += u64::from(report.vertex_exit != Exit::End);
            tally.continued += u64::from(want.state.assembly.count > 0);
            let Reached { cut_off, short_list, paddings } = want.reached;
            tally.cut_off += u64::from(cut_off);
            tally.short_lists += u64::from(short_list);
            tally.paddings.iter_mut().zip(paddings).for_each(|(count, has)| *count += u64::from(has));
            *(if reads { &mut tally.runs_kept } else { &mut tally.runs_replaced }) += u64::from(same_program);
            tally.geometry_runs += report.geometry_runs;
            let context = || format!("draw {n} ({draw:?}, {options:?}): {registers:x?}");
            let copy = gpu.clone();
            let state = &if reads { gpu.state() } else { copy.state() };
            if report.geometry_runs > 0 {
                let program = Program::from_words(&state.geometry.code, &state.geometry.opdescs).expect("of a unit");
                let stats = self.engine.shader(&program, state.registers.entry(Stage::Geometry)).stats();
                tally.geometry_groups = tally.geometry_groups.max(u64::from(stats.groups));
            }
            check(&want, &sink, (&offsets, stride), state, &report, draw)
                .map_err(|difference| format!("{difference}\n{}", context()))?;
        }
        Ok(())
    }

    /// A geometry program, and how vertices become its input.
    fn configure_geometry(&self, write: &mut impl FnMut(u16, u32), numbers: &mut Numbers<'_>) {
        let gsh = |at: u16| reg::GSH + at;
        let program = &self.geometry_programs[numbers.below(geometry::SOURCES.len() as u32) as usize];
        upload(write, reg::GSH, program);
        write(gsh(offset::BOOLUNIFORM), 0x7FFF_0000);
        write(gsh(offset::INTUNIFORM_I0), 0x0001_0002);
        write(gsh(offset::FLOATUNIFORM_INDEX), 0x8000_0000);
        (0..16).for_each(|n| write(gsh(offset::FLOATUNIFORM_DATA0), (n as f32 * 0.5 - 2.0).to_bits()));
        write(gsh(offset::INPUTBUFFER_CONFIG), 0x0800_0000 | numbers.below(4));
        let usual = !numbers.one_in(4);
        write(gsh(offset::ATTRIBUTES_PERMUTATION_LOW), if usual { 0x7654_3210 } else { numbers.word() });
        write(gsh(offset::ATTRIBUTES_PERMUTATION_HIGH), if usual { 0xFEDC_BA98 } else { numbers.word() });
        write(gsh(offset::OUTMAP_MASK), if usual { 0b111 } else { numbers.word() & 0xFFFF });
        let [misc0, misc1] = geometry::mode_words(numbers.below(4), numbers.word() >> 8);
        write(reg::GSH_MISC0, misc0);
        write(reg::GSH_MISC1, misc1);
        let outputs = if numbers.one_in(4) { numbers.below(16) } else { numbers.below(3) };
        write(reg::VSH_OUTMAP_TOTAL1, outputs);
        write(reg::VSH_OUTMAP_TOTAL2, outputs);
    }

    /// Writes registers: all, or some. Returns whether a vertex program is among them.
    fn configure(&self, gpu: &mut Gpu, numbers: &mut Numbers<'_>, all: bool) -> bool {
        let mut write = |id: u16, value: u32| _ = gpu.write(id, value, 0xF);
        let vsh = |at: u16| reg::VSH + at;
        let new_program = all || numbers.one_in(3);
        if new_program {
            let program = &self.programs[numbers.below(SOURCES.len() as u32) as usize];
            upload(&mut write, reg::VSH, program);
        }
        if all || numbers.one_in(4) {
            let in_use = numbers.one_in(3);
            write(reg::GEOSTAGE_CONFIG, if in_use { 2 } else { 0 });
            write(reg::VSH_COM_MODE, u32::from(in_use));
            if in_use {
                self.configure_geometry(&mut write, numbers);
            }
        }
        if all {
            write(vsh(offset::INTUNIFORM_I0), 0x0001_0003);
            write(vsh(offset::FLOATUNIFORM_INDEX), 0x8000_0000);
            (0..16).for_each(|n| write(vsh(offset::FLOATUNIFORM_DATA0), (n as f32 * 0.25 - 1.0).to_bits()));
            write(reg::FIXEDATTRIB_INDEX, 0);
            (0..36).for_each(|_| write(reg::FIXEDATTRIB_DATA0, numbers.word()));
        }
        if all || numbers.one_in(3) {
            let count = if numbers.one_in(4) { numbers.below(16) } else { numbers.below(4) };
            write(vsh(offset::INPUTBUFFER_CONFIG), 0xA000_0000 | count);
            let usual = !numbers.one_in(4);
            write(vsh(offset::ATTRIBUTES_PERMUTATION_LOW), if usual { 0x7654_3210 } else { numbers.word() });
            write(vsh(offset::ATTRIBUTES_PERMUTATION_HIGH), if usual { 0xFEDC_BA98 } else { numbers.word() });
        }
        if all || numbers.one_in(3) {
            let usual = !numbers.one_in(4);
            write(vsh(offset::OUTMAP_MASK), if usual { 0b111 } else { numbers.word() & 0xFFFF });
            write(reg::SH_OUTMAP_TOTAL, if usual { 3 } else { numbers.below(8) });
            let words = [0x0302_0100, 0x0B0A_0908, 0x1F1F_0D0C, 0x0706_0504, 0x1F10_1716, 0x1F14_1312, 0x0302_0100];
            for (n, word) in words.into_iter().enumerate() {
                write(reg::SH_OUTMAP_O0 + n as u16, if numbers.one_in(6) { numbers.word() } else { word });
            }
        }
        if all || numbers.one_in(2) {
            let jitter = numbers.below(8);
            write(
                reg::ATTRIBBUFFERS_LOC,
                if numbers.one_in(12) { numbers.word() } else { (START >> 3) - u32::from(jitter == 0) },
            );
            write(reg::ATTRIBBUFFERS_FORMAT_LOW, numbers.word());
            let fixed = if numbers.one_in(3) { numbers.word() & 0x0FFF_0000 } else { 0 };
            write(reg::ATTRIBBUFFERS_FORMAT_HIGH, numbers.word() & 0xFFFF | fixed);
            let arrays = 1 + numbers.below(3) as u16;
            for group in 0..12 {
                let components = numbers.word();
                let usual = [0x0000_0210, 0x0000_3210, 0x0000_0C10, 0x0000_0543][numbers.below(4) as usize];
                let stride = [0, 4, 12, 24, 255, numbers.below(256)][numbers.below(6) as usize];
                let count = if group < arrays || numbers.one_in(20) { 1 + numbers.below(4) } else { 0 };
                let count = if numbers.one_in(30) { 15 } else { count };
                let words = [
                    if numbers.one_in(16) { numbers.word() } else { numbers.below(600) },
                    if numbers.one_in(4) { components } else { usual << (4 * u32::from(group) % 24) },
                    count << 28 | stride << 16 | numbers.below(1 << 16),
                ];
                (0..).zip(words).for_each(|(n, word)| write(reg::ATTRIBBUFFER0_OFFSET + 3 * group + n, word));
            }
        }
        write(
            reg::INDEXBUFFER_CONFIG,
            numbers.below(2) << 31 | if numbers.one_in(16) { numbers.word() } else { numbers.below(900) },
        );
        let count = numbers.below(90);
        write(reg::NUMVERTICES, if numbers.one_in(12) { u32::MAX - count } else { count });
        let first = numbers.below(20);
        write(reg::VERTEX_OFFSET, if numbers.one_in(12) { u32::MAX - first } else { first });
        if all || numbers.one_in(3) {
            write(reg::PRIMITIVE_CONFIG, numbers.below(4) << 8);
        }
        if numbers.one_in(3) {
            write(reg::RESTART_PRIMITIVE, 1);
        }
        new_program
    }
}

/// Uploads code and descriptors to a unit.
fn upload(write: &mut impl FnMut(u16, u32), unit: u16, program: &Program) {
    write(unit + offset::CODETRANSFER_INDEX, 0);
    program.code().iter().for_each(|&word| write(unit + offset::CODETRANSFER_DATA0, word));
    write(unit + offset::OPDESCS_INDEX, 0);
    program.opdescs().iter().for_each(|&word| write(unit + offset::OPDESCS_DATA0, word));
}

/// Guest memory: floats, bytes, and runs of small numbers, which indices of meshes are.
fn memory(numbers: &mut Numbers<'_>) -> Vec<u8> {
    let length = [0, 1, 7, 100, 1000, 2000, 3000][numbers.below(7) as usize] + numbers.below(40) as usize;
    let mut memory = Vec::with_capacity(length + 64);
    while memory.len() < length {
        let kind = numbers.below(6);
        let top = 1 + numbers.below(300) as u16;
        for _ in 0..8 {
            let word = numbers.word();
            match kind {
                0 => memory.extend(word.to_le_bytes()),
                1 => memory.extend([f32::NAN, f32::INFINITY, -0.0, -f32::INFINITY][word as usize % 4].to_le_bytes()),
                2 | 3 => memory.extend((word as i32 as f32 / (1 << 28) as f32).to_le_bytes()),
                _ => memory.extend([word as u16 % top, (word >> 16) as u16 % top].iter().flat_map(|n| n.to_le_bytes())),
            }
        }
    }
    memory.truncate(length);
    memory
}

type Offsets = [Option<u8>; SEMANTICS];

fn format(numbers: &mut Numbers<'_>) -> (Offsets, u8) {
    if !numbers.one_in(4) {
        return (std::array::from_fn(|n| Some(n as u8)), SEMANTICS as u8);
    }
    let stride = 40 + numbers.below(30) as u8;
    let mut free: Vec<u8> = (0..stride).collect();
    let mut offset = || (!numbers.one_in(3)).then(|| free.swap_remove(numbers.below(free.len() as u32) as usize));
    (std::array::from_fn(|_| offset()), stride)
}

/// What the library sends.
struct Collector {
    format: VertexFormat,
    triangles: Vec<[Vec<u32>; 3]>,
}

impl Sink for Collector {
    fn format(&self) -> VertexFormat {
        self.format
    }

    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
        let rows: Vec<&[f32]> = vertices.chunks_exact(self.format.stride()).collect();
        self.triangles.extend(triangles.iter().map(|t| t.map(|n| bits(rows[n as usize]))));
    }
}

/// Any NaN equals any NaN.
fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

fn check(
    want: &Done,
    got: &Collector,
    (offsets, stride): (&Offsets, u8),
    state: &State,
    report: &Report,
    draw: Draw,
) -> Result<(), String> {
    let stored = |vertex: &Semantics| {
        let mut numbers = vec![0.0; stride.into()];
        offsets.iter().zip(vertex).for_each(|(offset, x)| _ = offset.map(|n| numbers[usize::from(n)] = *x));
        bits(&numbers)
    };
    if want.triangles.len() != got.triangles.len() || report.triangles != got.triangles.len() as u64 {
        return Err(format!("{} triangles, not {}", got.triangles.len(), want.triangles.len()));
    }
    for (n, (want, got)) in want.triangles.iter().zip(&got.triangles).enumerate() {
        let want = want.map(|vertex| stored(&vertex));
        if want != *got {
            return Err(format!("triangle {n}: {got:x?}, not {want:x?}"));
        }
    }
    let (assembly, old) = (&state.assembly, &want.state.assembly);
    let pending = usize::from(old.count);
    if (assembly.count, assembly.oldest & 1) != (old.count, old.oldest & 1) {
        return Err(format!("{assembly:?}, not {old:?}"));
    }
    if assembly.vertices.iter().zip(&old.vertices).take(pending).any(|(a, b)| bits(a) != bits(b)) {
        return Err(format!("the incomplete primitive is {assembly:?}, not {old:?}"));
    }
    let unit = want.geometry.as_ref();
    let geometry = unit.map_or((0, 0, Exit::End), |unit| (unit.runs, unit.dropped, unit.exit));
    if (report.geometry_runs, report.dropped, report.geometry_exit) != geometry {
        let got = (report.geometry_runs, report.dropped, report.geometry_exit);
        return Err(format!("geometry: {got:?}, not {geometry:?}"));
    }
    let registers = |unit: &Unit| [unit.v, unit.r, *unit.outputs()].map(|r| bits(r.as_flattened()));
    if registers(&state.geometry.unit) != registers(&want.state.geometry.unit) {
        return Err("the geometry unit differs".into());
    }
    // How many vertices have run when a geometry program runs out of fuel is the library's choice.
    if geometry.2 == Exit::Fuel {
        return Ok(());
    }
    if report.vertex_exit != want.exit {
        return Err(format!("{:?}, not {:?}", report.vertex_exit, want.exit));
    }
    // Which vertex of an indexed draw is the last to run is the library's choice.
    if draw == Draw::Arrays && registers(&state.vertex.unit) != registers(&want.state.vertex.unit) {
        return Err("the unit differs".into());
    }
    Ok(())
}

/// Colours as the rasteriser takes them.
fn clamped(mut semantics: Semantics) -> Semantics {
    for colour in &mut semantics[8..12] {
        *colour = if colour.is_nan() || colour.abs() > 1.0 { 1.0 } else { colour.abs() };
    }
    semantics
}

/// The slow draw.
struct Reference<'a> {
    state: State,
    memory: &'a [u8],
    oracle: &'a Engine,
    reached: Reached,
}

/// What a draw reaches, for [`Tally`].
#[derive(Clone, Copy, Default)]
struct Reached {
    cut_off: bool,
    short_list: bool,
    paddings: [bool; 4],
}

/// Its results.
struct Done {
    state: State,
    triangles: Vec<[Semantics; 3]>,
    exit: Exit,
    geometry: Option<GeometryUnit>,
    reached: Reached,
}

/// A vertex by number, or a count of vertices.
#[derive(Clone, Copy)]
enum Item {
    Vertex(u64),
    Count(u64),
}

impl Reference<'_> {
    fn draw(mut self, draw: Draw, options: DrawOptions) -> Done {
        let get = |state: &State, id: u16| state.registers.get(id);
        let count = get(&self.state, reg::NUMVERTICES).min(options.limit.unwrap_or(u32::MAX));
        let config = get(&self.state, reg::INDEXBUFFER_CONFIG);
        let first = u64::from(get(&self.state, reg::VERTEX_OFFSET));
        let indices = self.base() + u64::from(config & 0x0FFF_FFFF);
        let mut geometry = GeometryUnit::new(self.oracle, &self.state);
        let counted = draw == Draw::Elements && geometry.as_ref().is_some_and(GeometryUnit::is_counted);
        let mut left = 0;
        let items: Vec<Item> = (0..u64::from(count))
            .map(|n| match (draw, config >> 31) {
                (Draw::Arrays, _) => first + n,
                (_, 0) => u64::from(self.byte(indices, n)),
                _ => u64::from(self.byte(indices, 2 * n)) | u64::from(self.byte(indices, 2 * n + 1)) << 8,
            })
            .map(|number| match counted && left == 0 {
                true => {
                    left = number;
                    Item::Count(number)
                }
                false => {
                    left = left.saturating_sub(1);
                    Item::Vertex(number)
                }
            })
            .collect();
        self.reached.short_list = self.reached.cut_off;
        let numbers = items.iter().filter_map(|item| if let Item::Vertex(n) = item { Some(*n) } else { None });
        let lowest = numbers.min().unwrap_or(0);
        let file = &self.state.registers;
        let map = file.output_map(Stage::Vertex);
        let topology = Topology::from_register(file.get(reg::PRIMITIVE_CONFIG));
        let program = Program::from_words(&self.state.vertex.code, &self.state.vertex.opdescs).expect("of a unit");
        let shader = self.oracle.shader(&program, file.entry(Stage::Vertex));
        let (mut triangles, mut exit) = (Vec::new(), Exit::End);
        // Recent outputs by index, the oldest first.
        let mut cache: VecDeque<(u64, Registers)> = VecDeque::new();
        for item in items {
            let mut emitted = Emitted::default();
            let vertex = match item {
                Item::Vertex(vertex) => vertex,
                Item::Count(count) => {
                    let unit = geometry.as_mut().expect("it counts");
                    unit.count(count, &mut self.state, &mut emitted);
                    self.assemble(emitted, topology, &mut triangles);
                    if unit.exit == Exit::Fuel {
                        break;
                    }
                    continue;
                }
            };
            let cached =
                cache.iter().find(|(n, _)| *n == vertex && draw == Draw::Elements).map(|(_, outputs)| *outputs);
            let outputs = cached.unwrap_or_else(|| {
                self.load(vertex, lowest);
                let state = &mut self.state.vertex;
                let ended = shader.run(&state.uniforms, &mut state.unit);
                exit = if exit == Exit::End || ended == Exit::Fuel { ended } else { exit };
                if cache.len() == usize::from(options.vertex_cache) {
                    cache.pop_front();
                }
                if options.vertex_cache > 0 {
                    cache.push_back((vertex, *state.unit.outputs()));
                }
                *state.unit.outputs()
            });
            match &mut geometry {
                Some(unit) => {
                    unit.vertex(&outputs, &mut self.state, &mut emitted);
                    self.assemble(emitted, topology, &mut triangles);
                }
                None => self.push(topology, clamped(map.apply(&outputs)), false, &mut triangles),
            }
            // A draw ends with the vertex or the invocation that runs out of fuel.
            if exit == Exit::Fuel || geometry.as_ref().is_some_and(|unit| unit.exit == Exit::Fuel) {
                break;
            }
        }
        Done { state: self.state, triangles, exit, geometry, reached: self.reached }
    }

    /// Triangles of a geometry program, whose vertices pass through primitive assembly.
    fn assemble(&mut self, emitted: Emitted, topology: Topology, triangles: &mut Vec<[Semantics; 3]>) {
        let map = self.state.registers.output_map(Stage::Geometry);
        for (vertices, winding) in emitted.0 {
            for vertex in vertices {
                self.push(topology, clamped(map.apply(&vertex)), winding, triangles);
            }
        }
    }

    fn base(&self) -> u64 {
        u64::from(self.state.registers.get(reg::ATTRIBBUFFERS_LOC) & 0x1FFF_FFFE) << 3
    }

    /// Byte `n` from an address on, 0 unless memory holds the address and the byte.
    fn byte(&mut self, address: u64, n: u64) -> u8 {
        let start = u64::from(START);
        let holds = |at: u64| at >= start && at < start + self.memory.len() as u64 && at <= u64::from(u32::MAX);
        if !(holds(address) && holds(address + n)) {
            self.reached.cut_off = true;
            return 0;
        }
        self.memory[(address + n - start) as usize]
    }

    /// Loads the input registers of a vertex. The draw reads each array from its lowest vertex on.
    fn load(&mut self, vertex: u64, lowest: u64) {
        let file = self.state.registers.clone();
        let types = u64::from(file.get(reg::ATTRIBBUFFERS_FORMAT_HIGH)) << 32
            | u64::from(file.get(reg::ATTRIBBUFFERS_FORMAT_LOW));
        let mut attributes = self.state.fixed.defaults;
        for array in 0..12 {
            let [offset, low, high] = [0, 1, 2].map(|n| file.get(reg::ATTRIBBUFFER0_OFFSET + 3 * array + n));
            let (offset, stride) = (u64::from(offset & 0x0FFF_FFFF), u64::from(high >> 16 & 0xFF));
            let slice = self.base() + offset + lowest * stride;
            let (mut position, mut padding) = (0u64, None);
            for n in 0..(high >> 28).min(12) {
                let component = (u64::from(high) << 32 | u64::from(low)) >> (4 * n) & 15;
                if component >= 12 {
                    padding.get_or_insert(position % 4);
                    position = position.next_multiple_of(4) + 4 * (component - 11);
                    continue;
                }
                if let Some(before) = padding.take() {
                    self.reached.paddings[before as usize] = true;
                }
                let kind = types >> (4 * component) & 15;
                let bytes = [1, 1, 2, 4][(kind & 3) as usize];
                position = position.next_multiple_of(bytes);
                let mut vector = [0.0, 0.0, 0.0, 1.0];
                for number in &mut vector[..(kind >> 2) as usize + 1] {
                    let at = (vertex - lowest) * stride + position;
                    let [a, b, c, d] = [0, 1, 2, 3].map(|n| if n < bytes { self.byte(slice, at + n) } else { 0 });
                    *number = match kind & 3 {
                        0 => f32::from(a as i8),
                        1 => f32::from(a),
                        2 => f32::from(i16::from_le_bytes([a, b])),
                        _ => f32::from_le_bytes([a, b, c, d]),
                    };
                    position += bytes;
                }
                // Whatever the mask of default attributes says.
                attributes[component as usize] = vector;
            }
        }
        let permutation = file.permutation(Stage::Vertex);
        for (attribute, register) in attributes.iter().zip(permutation).take(file.attributes(Stage::Vertex)) {
            self.state.vertex.unit.v[usize::from(register)] = *attribute;
        }
    }

    fn push(&mut self, topology: Topology, vertex: Semantics, winding: bool, triangles: &mut Vec<[Semantics; 3]>) {
        let assembly = &mut self.state.assembly;
        if assembly.count < 2 {
            assembly.vertices[usize::from(assembly.count)] = vertex;
            assembly.count += 1;
            return;
        }
        let [a, b] = assembly.vertices;
        triangles.push(if winding && topology == Topology::Geometry { [b, a, vertex] } else { [a, b, vertex] });
        match topology {
            Topology::List | Topology::Geometry => (assembly.count, assembly.oldest) = (0, 0),
            Topology::Fan => assembly.vertices = [a, vertex],
            Topology::Strip => {
                assembly.vertices[usize::from(assembly.oldest & 1)] = vertex;
                assembly.oldest ^= 1;
            }
        }
    }
}
