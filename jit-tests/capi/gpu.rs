//! The command list of `examples/c/gpu.c`, recorded here (`BLESS=1` writes the header). C and Rust
//! replay it on both engines, and their outputs must be equal.

use crate::{built, compilers, read, ready, run_successfully};
use picajit::engine::{BackendChoice, Engine, Options};
use picajit::gpu::{Attributes, Draw, Gpu, Host, Report, TriangleSink, Write};
use picajit::internals::registers::{self as reg, offset};
use picajit::semantics::Semantics;
use picajit::state::Exit;
use picajit::text::assemble;
use std::fmt::Write as _;
use std::sync::Arc;

const LIST: &str = "examples/c/gpu_list.h";

/// A command list under construction, with a comment for each part.
#[derive(Default)]
struct List(Vec<(&'static str, Vec<u32>)>);

impl List {
    fn comment(&mut self, what: &'static str) -> &mut List {
        self.0.push((what, Vec::new()));
        self
    }

    /// One command with all values, for one register or consecutive registers.
    fn values(&mut self, id: u16, values: &[u32], consecutive: bool) -> &mut List {
        let words = &mut self.0.last_mut().expect("a comment comes first").1;
        let extra = values.len() as u32 - 1;
        words.extend([values[0], u32::from(consecutive) << 31 | extra << 20 | 0xF << 16 | u32::from(id)]);
        words.extend(&values[1..]);
        if !extra.is_multiple_of(2) {
            words.push(0);
        }
        self
    }

    fn write(&mut self, id: u16, value: u32) -> &mut List {
        self.values(id, &[value], false)
    }

    /// A program at word 0 with outputs o0 and o1. `input` is the value of INPUTBUFFER_CONFIG.
    fn program(&mut self, block: u16, input: u32, source: &str) -> &mut List {
        let program = assemble(source).unwrap_or_else(|e| panic!("{e}")).shbin.program().expect("short");
        self.write(block + offset::CODETRANSFER_INDEX, 0)
            .values(block + offset::CODETRANSFER_DATA0, program.code(), false)
            .write(block + offset::CODETRANSFER_END, 1)
            .write(block + offset::OPDESCS_INDEX, 0)
            .values(block + offset::OPDESCS_DATA0, program.opdescs(), false);
        let input = [input, 0x7FFF_0000, 0x7654_3210, 0xFEDC_BA98];
        self.values(block + offset::INPUTBUFFER_CONFIG, &input, true).write(block + offset::OUTMAP_MASK, 0b11)
    }

    /// The mode of the geometry unit, with two vectors per vertex.
    fn geometry(&mut self, misc0: u32, misc1: u32) -> &mut List {
        self.write(reg::GEOSTAGE_CONFIG, 2).write(reg::GSH_MISC0, misc0).write(reg::GSH_MISC1, misc1);
        self.write(reg::VSH_OUTMAP_TOTAL1, 1).write(reg::VSH_OUTMAP_TOTAL2, 1)
    }

    fn words(&self) -> Vec<u32> {
        self.0.iter().flat_map(|(_, words)| words).copied().collect()
    }

    fn as_c(&self, name: &str) -> String {
        let mut text = format!("static const uint32_t {name}[] = {{\n");
        for (what, words) in &self.0 {
            let _ = writeln!(text, "    /* {what} */");
            for line in words.chunks(8) {
                let line: Vec<String> = line.iter().map(|word| format!("0x{word:08X},")).collect();
                let _ = writeln!(text, "    {}", line.join(" "));
            }
        }
        text + "};\n"
    }
}

/// A program that emits a triangle. Each corner has registers for position and colour.
fn triangle(corners: [&str; 6]) -> String {
    let mut text = String::from(".gsh point c0\n.proc main\n");
    for (n, corner) in corners.chunks(2).enumerate() {
        let prim = if n == 2 { ", prim" } else { "" };
        let _ = write!(text, "setemit {n}{prim}\nmov o0, {}\nmov o1, {}\nemit\n", corner[0], corner[1]);
    }
    text + "end\n.end\n"
}

/// The two halves: one draw for each path of the vertices.
fn record() -> [List; 2] {
    let mut first = List::default();
    first
        .comment("no geometry; the output map: position, colour; strips")
        .write(reg::START_DRAW_FUNC0, 1)
        .write(reg::GEOSTAGE_CONFIG, 0)
        .write(reg::VSH_COM_MODE, 0)
        .values(reg::SH_OUTMAP_TOTAL, &[2, 0x0302_0100, 0x0B0A_0908], true)
        .write(reg::PRIMITIVE_CONFIG, 1 << 8)
        .write(reg::RESTART_PRIMITIVE, 1)
        .comment("the vertex program: mul o0, c0, v0; mov o1, v1; end")
        .program(reg::VSH, 0xA000_0001, ".proc main\nmul o0, c0, v0\nmov o1, v1\nend\n.end\n")
        .comment("c0 = (2, 2, 2, 1), as f32, w first")
        .write(reg::VSH + offset::FLOATUNIFORM_INDEX, 0x8000_0000)
        .values(reg::VSH + offset::FLOATUNIFORM_DATA0, &[1.0f32, 2.0, 2.0, 2.0].map(f32::to_bits), false)
        .comment("a strip of arrays, then one by indices")
        .write(reg::DRAWARRAYS, 1)
        .write(reg::RESTART_PRIMITIVE, 1)
        .write(reg::DRAWELEMENTS, 1)
        .comment("geometry, as lists: three vertices are the six attributes of a run")
        .write(reg::VSH_COM_MODE, 1)
        .write(reg::PRIMITIVE_CONFIG, 3 << 8)
        .geometry(0, 0)
        .program(reg::GSH, 0x0800_0005, &triangle(["v0", "v1", "v2", "v3", "v4", "v5"]))
        .write(reg::DRAWARRAYS, 1)
        .comment("primitives of variable size: their vertices are uniforms from c1 on")
        .geometry(1, 2)
        .program(reg::GSH, 0x0800_0100, &triangle(["c1", "c2", "c3", "c4", "c5", "c6"]))
        .write(reg::DRAWELEMENTS, 1);
    let mut second = List::default();
    second
        .comment("primitives of fixed size: three vertices, two uniforms each, from c1 on")
        .geometry(0x0101_1202, 0)
        .write(reg::DRAWARRAYS, 1)
        .comment("immediate mode without geometry, as a fan: each attribute three words of float24, w first")
        .write(reg::GEOSTAGE_CONFIG, 0)
        .write(reg::PRIMITIVE_CONFIG, 2 << 8)
        .write(reg::VSH_NUM_ATTR, 1)
        .write(reg::FIXEDATTRIB_INDEX, 15);
    // 1.0, 0.5 and 2.0 in float24.
    let [one, half, two] = [0x3F_0000u32, 0x3E_0000, 0x40_0000];
    for [x, y] in [[0, 0], [one, 0], [one, two], [half, two]] {
        for [x, y, z, w] in [[x, y, half, one], [y, x, one, half]] {
            second.values(reg::FIXEDATTRIB_DATA0, &[w << 8 | z >> 16, z << 16 | y >> 8, y << 24 | x], true);
        }
    }
    [first, second]
}

fn recorded() -> String {
    let [first, second] = record();
    format!(
        "/*\n * A command list in two halves, as a game's library would write it: pairs of a value and the header that says \
         where it\n * goes. Made by jit-tests/capi/gpu.rs.\n */\n#include <stdint.h>\n\n{}\n{}",
        first.as_c("first_list"),
        second.as_c("second_list")
    )
}

/// The host of `examples/c/gpu.c` in Rust.
struct Emulator {
    vertices: Vec<Attributes>,
    indices: &'static [u32],
    writes: usize,
    text: String,
}

impl TriangleSink for Emulator {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        let bits = |from: &[f32]| from.iter().map(|x| format!(" {:08x}", x.to_bits())).collect::<String>();
        let each = vertices.map(|v| format!("{},{}", bits(&v[..4]), bits(&v[8..12])));
        let _ = writeln!(self.text, "  {}", each.join(" |"));
    }
}

impl Host for Emulator {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let vertices = self.vertices.clone();
        let (name, report) = match draw {
            Draw::Arrays => ("arrays", gpu.draw_arrays(&vertices, self)),
            Draw::Elements => {
                let indices = std::mem::replace(&mut self.indices, &[3, 0, 1, 2, 4, 3, 4, 5, 6]);
                let fetch = |n: u32| vertices[n as usize];
                let indices = indices.iter().copied();
                ("elements", gpu.draw_elements(indices, fetch, 64, self))
            }
        };
        let Report { vertices, reused, geometry_runs, triangles, .. } = report;
        assert_eq!((report.vertex_exit, report.geometry_exit), (Exit::End, Exit::End));
        let _ = writeln!(
            self.text,
            "{name}: {vertices} vertices, {reused} reused, {geometry_runs} geometry runs, {triangles} triangles"
        );
        let notes = report.notes.to_string();
        notes.split_terminator("; ").for_each(|note| _ = writeln!(self.text, "note: {note}"));
    }

    fn wrote(&mut self, _: &Gpu, _: Write) {
        self.writes += 1;
    }
}

/// The output of the example.
fn expected(backend: BackendChoice) -> String {
    let vertex = |n: usize| -> Attributes {
        let x = n as f32;
        let mut attributes = Attributes::default();
        attributes[0] = [x, 0.25 * x * x, -1.5, 1.0];
        attributes[1] = [0.125 * x, 0.5, 1.0 - 0.125 * x, 1.0];
        attributes
    };
    let vertices = (0..7).map(vertex).collect();
    let mut emulator = Emulator { vertices, indices: &[0, 1, 2, 3, 2, 4], writes: 0, text: String::new() };
    let mut gpu = Gpu::new(Arc::new(Engine::new(Options { backend, ..Options::default() })));
    let [first, second] = record();
    gpu.set_diagnostics(true);
    gpu.execute(&first.words(), &mut emulator);
    let _ = writeln!(emulator.text, "restored");
    let mut other = Gpu::with_state(gpu.engine().clone(), gpu.state());
    other.set_diagnostics(true);
    other.execute(&second.words(), &mut emulator);
    let lookups = other.upload_stats().lookups;
    let _ = writeln!(emulator.text, "{} writes; {lookups} lookups after the savestate", emulator.writes);
    emulator.text
}

#[test]
fn the_example_has_the_recorded_list() {
    let text = recorded();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST), &text).expect("written");
    }
    assert_eq!(read(LIST), text);
}

#[test]
fn c_and_rust_replay_a_list_to_the_same_triangles() {
    let want = expected(BackendChoice::Oracle);
    assert_eq!(want, expected(BackendChoice::NativePreferred));
    // One draw for each path, and every one has triangles.
    let draws: Vec<&str> = want.lines().filter(|l| l.contains(" geometry runs, ")).collect();
    let triangles: Vec<&str> = draws.iter().map(|l| l.rsplit(", ").next().expect("the last part")).collect();
    assert_eq!(triangles, ["5 triangles", "4 triangles", "2 triangles", "2 triangles", "2 triangles"]);
    assert_eq!(want.lines().filter(|l| l.starts_with("  ")).count(), 17, "two of them are immediate");
    if !ready(false) {
        return;
    }
    for compiler in compilers().iter().filter(|c| !c.cpp) {
        for standard in compiler.program_standards() {
            let program = built(*compiler, standard, "examples/c/gpu.c", &[]);
            assert_eq!(run_successfully(&program, &[], &[], &[]), want, "{}", compiler.command);
        }
    }
}
