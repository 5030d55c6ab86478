//! The module as a host uses it: command lists in, triangles out. Every list runs on both engines,
//! native code (where the build has it) and the interpreter, whose results must be equal.

mod attributes;
mod cancel;
mod derived_state;
mod geometry_groups;
#[cfg(feature = "gpu-code")]
mod hand_over;
mod hostile;
mod limits;
mod lists;
mod notes;
mod streams;
pub(crate) mod traps;
mod whole_draws;
mod writes;

use super::registers::*;
use super::*;
use crate::container::float24::f32_to_f24_truncating;
use crate::engine::{BackendChoice, Options};
use crate::program::Program;
use crate::semantics::Semantics;
use crate::text::assemble;

/// A command list under construction, as a game's library records it.
#[derive(Clone, Default)]
pub(crate) struct List(pub(crate) Vec<u32>);

impl List {
    pub(crate) fn masked(&mut self, id: u16, value: u32, mask: u8) -> &mut List {
        self.0.extend([value, u32::from(mask) << 16 | u32::from(id)]);
        self
    }

    pub(crate) fn write(&mut self, id: u16, value: u32) -> &mut List {
        self.masked(id, value, 0xF)
    }

    /// One command with extra values, or several if one cannot hold them.
    pub(crate) fn burst(&mut self, id: u16, values: &[u32], step: u16) -> &mut List {
        for (n, values) in values.chunks(256).enumerate() {
            let (extra, id) = (values.len() as u32 - 1, id + 256 * n as u16 * step);
            self.0.extend([values[0], u32::from(step) << 31 | extra << 20 | 0xF_0000 | u32::from(id)]);
            self.0.extend(&values[1..]);
            if extra % 2 != 0 {
                self.0.push(0xFFFF_FFFF);
            }
        }
        self
    }

    /// Writes all values to one register.
    pub(crate) fn queue(&mut self, id: u16, values: &[u32]) -> &mut List {
        self.burst(id, values, 0)
    }

    /// Writes the values to consecutive registers.
    pub(crate) fn run(&mut self, id: u16, values: &[u32]) -> &mut List {
        self.burst(id, values, 1)
    }

    /// Uploads code from word `at` on, and descriptors.
    pub(crate) fn code(&mut self, block: u16, at: u32, program: &Program) -> &mut List {
        self.write(block + offset::CODETRANSFER_INDEX, at)
            .queue(block + offset::CODETRANSFER_DATA0, program.code())
            .write(block + offset::CODETRANSFER_END, 1)
            .write(block + offset::OPDESCS_INDEX, 0);
        self.queue(block + offset::OPDESCS_DATA0, program.opdescs())
    }

    /// A program with entry point 0, its attributes in registers of the same numbers, and the
    /// outputs of `mask`.
    pub(crate) fn shader(&mut self, block: u16, source: &str, attributes: u32, mask: u32) -> &mut List {
        let mode = if block == GSH { 0x0800_0000 } else { 0xA000_0000 };
        self.code(block, 0, &program(source))
            .run(block + offset::INPUTBUFFER_CONFIG, &[mode | (attributes - 1), 0x7FFF_0000, 0x7654_3210, 0xFEDC_BA98])
            .write(block + offset::OUTMAP_MASK, mask)
    }

    /// Semantics of the slots: position, colour, texture coordinates 0, in this order.
    pub(crate) fn outmap(&mut self, total: u32) -> &mut List {
        self.run(SH_OUTMAP_TOTAL, &[total, 0x0302_0100, 0x0B0A_0908, 0x1F1F_0D0C])
    }

    pub(crate) fn topology(&mut self, topology: Topology) -> &mut List {
        self.write(PRIMITIVE_CONFIG, (topology as u32) << 8).write(RESTART_PRIMITIVE, 1)
    }

    /// Enables the geometry unit in this mode, with `outputs` vectors per vertex.
    pub(crate) fn geometry(&mut self, misc0: u32, misc1: u32, outputs: u32) -> &mut List {
        self.write(GEOSTAGE_CONFIG, 2)
            .write(VSH_COM_MODE, 1)
            .write(GSH_MISC0, misc0)
            .write(GSH_MISC1, misc1)
            .write(VSH_OUTMAP_TOTAL1, outputs - 1)
            .write(VSH_OUTMAP_TOTAL2, outputs - 1)
    }

    pub(crate) fn float24(&mut self, block: u16, index: u32, values: &[Vec4]) -> &mut List {
        self.write(block + offset::FLOATUNIFORM_INDEX, index);
        let words: Vec<u32> = values.iter().flat_map(|&v| words24(v)).collect();
        self.queue(block + offset::FLOATUNIFORM_DATA0, &words)
    }

    pub(crate) fn arrays(&mut self) -> &mut List {
        self.write(DRAWARRAYS, 1)
    }

    pub(crate) fn elements(&mut self) -> &mut List {
        self.write(DRAWELEMENTS, 1)
    }

    pub(crate) fn immediate(&mut self, attributes: &[Vec4]) -> &mut List {
        for &attribute in attributes {
            self.run(FIXEDATTRIB_DATA0, &words24(attribute));
        }
        self
    }
}

/// The words of a float24 vector, in upload order.
fn words24(vector: Vec4) -> [u32; 3] {
    let [x, y, z, w] = vector.map(f32_to_f24_truncating);
    [w << 8 | z >> 16, z << 16 | y >> 8, y << 24 | x]
}

fn program(source: &str) -> Program {
    let text = source.trim_start();
    let (head, body) = if text.starts_with(".gsh") { text.split_once('\n').unwrap() } else { ("", text) };
    let body = if body.contains(".proc") { body.to_string() } else { format!(".proc main\n{body}\nend\n.end") };
    assemble(&format!(".raw\n{head}\n{body}\n")).unwrap_or_else(|e| panic!("{e}")).shbin.program().unwrap()
}

/// A vertex whose attribute 0 is (x, 0, 0, 1), and whose attribute n is x + n/16 in all components.
pub(crate) fn vertex(x: f32) -> Attributes {
    std::array::from_fn(|n| if n == 0 { [x, 0.0, 0.0, 1.0] } else { [x + n as f32 / 16.0; 4] })
}

/// A host, whose memory supplies the vertices of every draw.
#[derive(Clone)]
struct Console {
    gpu: Gpu,
    memory: Memory,
}

#[derive(Clone, Default)]
struct Memory {
    vertices: Vec<Attributes>,
    indices: Vec<u32>,
    cache: u8,
    /// Whether the library fetches the vertices, from memory in the format of the console.
    is_guest: bool,
    fetched: Vec<u32>,
    writes: usize,
    triangles: Vec<[Semantics; 3]>,
    report: Report,
}

impl TriangleSink for Memory {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.triangles.push(vertices.map(|v| *v));
    }
}

impl Host for Memory {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let vertices = self.vertices.clone();
        if self.is_guest {
            self.report = self.draw_from_guest_memory(gpu, draw, &vertices);
            return;
        }
        self.report = match draw {
            Draw::Arrays => gpu.draw_arrays(&vertices, self),
            Draw::Elements => {
                let mut fetched = Vec::new();
                let fetch = |index: u32| {
                    fetched.push(index);
                    vertices.get(index as usize).copied().unwrap_or_default()
                };
                let indices = self.indices.clone();
                let report = gpu.draw_elements(indices, fetch, self.cache, self);
                self.fetched = fetched;
                report
            }
        };
    }

    fn wrote(&mut self, gpu: &Gpu, write: Write) {
        let _ = gpu.read(write.id);
        self.writes += 1;
    }
}

impl Memory {
    /// One array of twelve attributes of four floats, and indices of 16 bits.
    fn draw_from_guest_memory(&mut self, gpu: &mut Gpu, draw: Draw, vertices: &[Attributes]) -> Report {
        const START: u32 = 0x1000_0000;
        let mut memory: Vec<u8> =
            vertices.iter().flat_map(|v| v[..12].as_flattened()).flat_map(|x| x.to_le_bytes()).collect();
        let config = 1 << 31 | memory.len() as u32;
        memory.extend(self.indices.iter().flat_map(|&n| (n as u16).to_le_bytes()));
        let count = if draw == Draw::Arrays { vertices.len() } else { self.indices.len() };
        for (id, value) in [
            (ATTRIBBUFFERS_LOC, START >> 3),
            (ATTRIBBUFFERS_FORMAT_LOW, u32::MAX),
            (ATTRIBBUFFERS_FORMAT_HIGH, 0xFFFF),
            (ATTRIBBUFFER0_OFFSET, 0),
            (ATTRIBBUFFER0_OFFSET + 1, 0x7654_3210),
            (ATTRIBBUFFER0_OFFSET + 2, 12 << 28 | 192 << 16 | 0xBA98),
            (INDEXBUFFER_CONFIG, config),
            (NUMVERTICES, count as u32),
            (VERTEX_OFFSET, 0),
        ] {
            assert_eq!(gpu.write(id, value, 15), Effect::None);
        }
        let arrays = [(START, &memory[..])];
        gpu.draw(draw, &Regions(&arrays), &DrawOptions { vertex_cache: self.cache, ..DrawOptions::default() }, self)
    }
}

fn engine(backend: BackendChoice) -> Arc<Engine> {
    Arc::new(Engine::new(Options {
        backend,
        fuel: 1000,
        geometry_fuel: 1000,
        events: Arc::new(|_| ()),
        ..Options::at_once()
    }))
}

impl Console {
    fn new(backend: BackendChoice) -> Console {
        Console { gpu: Gpu::new(engine(backend)), memory: Memory::default() }
    }

    fn execute(&mut self, list: &List) -> &mut Console {
        self.gpu.execute(&list.0, &mut self.memory);
        self
    }

    fn uniforms(&self, block: u16) -> crate::state::Uniforms {
        let state = self.gpu.state();
        if block == GSH { state.geometry.uniforms } else { state.vertex.uniforms }
    }

    /// The x of the positions of triangles since the last call.
    fn xs(&mut self) -> Vec<[f32; 3]> {
        self.memory.triangles.drain(..).map(|t| t.map(|v| v[0])).collect()
    }
}

/// Executes `list` on both engines with these vertices and indices. Returns the console with native
/// code.
fn play(list: &List, vertices: &[f32], indices: &[u32]) -> Console {
    play_with(list, vertices, indices, 64)
}

fn play_with(list: &List, vertices: &[f32], indices: &[u32], cache: u8) -> Console {
    let backends = [BackendChoice::NativeRequired, BackendChoice::Oracle, BackendChoice::NativeRequired];
    let mut is_guest = [false, false, true].into_iter();
    let [mut native, interpreted, guest] = backends.map(|backend| {
        let mut console = Console::new(backend);
        console.memory.is_guest = is_guest.next().expect("one for each");
        console.memory.vertices = vertices.iter().map(|&x| vertex(x)).collect();
        console.memory.indices = indices.to_vec();
        console.memory.cache = cache;
        console.execute(list);
        console
    });
    let bits = |c: &Console| -> Vec<u32> {
        c.memory
            .triangles
            .iter()
            .flatten()
            .flatten()
            .map(|x| if x.is_nan() { 0x7FC0_0000 } else { x.to_bits() })
            .collect()
    };
    assert_eq!(bits(&native), bits(&interpreted), "both engines give the same triangles");
    assert_eq!(native.memory.report, interpreted.memory.report);
    if indices.iter().all(|&n| (n as usize) < vertices.len()) {
        assert_eq!(bits(&native), bits(&guest), "the library fetches the same vertices");
        let [mut want, got] = [&native, &guest].map(|console| console.memory.report);
        // Independent vertices run once each, whatever the cache.
        (want.vertices, want.reused) = (got.vertices, got.reused);
        assert_eq!(want, got);
    }
    assert_eq!(native.memory.writes, Commands::new(&list.0).count());
    native.memory.writes = 0;
    native
}

/// v0 is the position, v1 the colour.
pub(crate) const PLAIN: &str = "mov o0, v0\nmov o1, v1";

/// Point mode: three vectors form a triangle.
pub(crate) const TRIANGLE: &str = ".gsh point c0
setemit 0
mov o0, v0
emit
setemit 1
mov o0, v1
emit
setemit 2, prim
mov o0, v2
emit";

/// A list that sets up [`PLAIN`] without a geometry program.
pub(crate) fn plain() -> List {
    let mut list = List::default();
    list.write(GEOSTAGE_CONFIG, 0).write(VSH_COM_MODE, 0);
    list.shader(VSH, PLAIN, 2, 0b11).outmap(2).topology(Topology::List);
    list
}

#[test]
fn a_gpu_is_send() {
    fn is_send<T: Send>() {}
    is_send::<Gpu>();
}
