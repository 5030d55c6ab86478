//! The lean reference: what the author of an emulator writes around the engine's direct call.
//!
//! A register write is a store, and a `match` for queues. A draw makes a table of attributes and one
//! of outputs; a loop fetches, runs, maps and pushes vertex by vertex. It is a yardstick: it supports
//! what real frames do, compares no code words when a draw begins, and checks no arguments.
//!
//! Invariant: where [`Lean`] returns no error and programs reach END, its triangles are the library's.

#![allow(unsafe_code)] // direct calls

use super::frame::{Frame, Kind};
use super::replay::{MOST_TRIANGLES, TOO_MANY, Triangles, Way};
use picajit::container::float24::f24_to_f32;
use picajit::engine::{Engine, Shader};
use picajit::gpu::{Draw, GeometryInput, GeometryMode, RegisterFile, ShaderState, State, Topology, Write};
use picajit::internals::registers::{self as reg, offset};
use picajit::isa::{REGS, Stage};
use picajit::program::{Entry, Program};
use picajit::semantics::{SEMANTICS, SLOTS, Semantics};
use picajit::state::{Emitter, Exit, Registers, Vec4};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The bits of the bytes that a mask selects.
const BYTES: [u32; 16] = [
    0,
    0xFF,
    0xFF00,
    0xFFFF,
    0xFF_0000,
    0xFF_00FF,
    0xFF_FF00,
    0xFF_FFFF,
    0xFF00_0000,
    0xFF00_00FF,
    0xFF00_FF00,
    0xFF00_FFFF,
    0xFFFF_0000,
    0xFFFF_00FF,
    0xFFFF_FF00,
    0xFFFF_FFFF,
];

/// A shader unit: its memories, and the shader that they hold.
struct ShaderUnit {
    stage: Stage,
    state: ShaderState,
    /// Whether code or descriptors have changed since the last draw.
    changed: bool,
    shader: Option<(Entry, Shader)>,
    known: HashMap<(u64, Entry), Shader>,
}

impl ShaderUnit {
    fn new(stage: Stage, state: &ShaderState) -> ShaderUnit {
        ShaderUnit { stage, state: state.clone(), changed: true, shader: None, known: HashMap::new() }
    }

    fn write(&mut self, at: u16, value: u32, merged: u32) {
        let state = &mut self.state;
        match at {
            offset::BOOLUNIFORM => state.uniforms.b = merged as u16,
            offset::INTUNIFORM_I0..=0x04 => state.uniforms.i[usize::from(at) - 1] = merged.to_le_bytes(),
            offset::FLOATUNIFORM_INDEX => {
                (state.float_index, state.float32) = (value as u8, value >> 31 != 0);
                state.float_words.count = 0;
            }
            offset::FLOATUNIFORM_DATA0..=0x18 => {
                let last = if state.float32 { 3 } else { 2 };
                let count = usize::from(state.float_words.count);
                if count < last {
                    state.float_words.words[count] = value;
                    state.float_words.count += 1;
                    return;
                }
                let [a, b, c] = state.float_words.words;
                state.float_words.count = 0;
                if let Some(to) = state.uniforms.c.get_mut(usize::from(state.float_index)) {
                    *to = if last == 3 { [value, c, b, a].map(f32::from_bits) } else { f24_vector([a, b, value]) };
                    state.float_index += 1;
                }
            }
            offset::CODETRANSFER_INDEX => state.code_index = (value & 0xFFF) as u16,
            offset::OPDESCS_INDEX => state.opdesc_index = (value & 0xFFF) as u16,
            offset::CODETRANSFER_DATA0..=0x23 => {
                self.changed |= store(&mut state.code, &mut state.code_index, value);
            }
            offset::OPDESCS_DATA0..=0x2D => {
                self.changed |= store(&mut state.opdescs, &mut state.opdesc_index, value);
            }
            _ => {}
        }
    }

    /// Finds the shader, by the handle of the last draw unless words have changed.
    fn find(&mut self, engine: &Engine, entry: Entry) {
        if !self.changed && self.shader.as_ref().is_some_and(|(of, _)| *of == entry) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        (&self.state.code, &self.state.opdescs).hash(&mut hasher);
        let shader = self.known.entry((hasher.finish(), entry)).or_insert_with(|| {
            let program = Program::from_words(&self.state.code, &self.state.opdescs).expect("a unit's memory");
            engine.shader(&program, entry)
        });
        (self.shader, self.changed) = (Some((entry, shader.clone())), false);
    }

    fn shader(&self) -> &Shader {
        &self.shader.as_ref().expect("found when the draw began").1
    }
}

fn store(memory: &mut [u32], index: &mut u16, value: u32) -> bool {
    let at = usize::from(*index);
    *index = index.saturating_add(1);
    memory.get_mut(at).is_some_and(|word| std::mem::replace(word, value) != value)
}

fn f24_vector([a, b, c]: [u32; 3]) -> Vec4 {
    [c, b << 8 | c >> 24, a << 16 | b >> 16, a >> 8].map(f24_to_f32)
}

/// An attribute of a draw: its register and source.
#[derive(Clone, Copy)]
struct Attribute {
    register: usize,
    source: Source,
}

#[derive(Clone, Copy)]
enum Source {
    Default(Vec4),
    /// The position of vertex 0 in memory, bytes from vertex to vertex, type bits.
    Array {
        at: usize,
        stride: usize,
        format: u32,
    },
}

impl Source {
    fn fetch(self, memory: &[u8], vertex: usize) -> Vec4 {
        let (at, stride, format) = match self {
            Source::Default(value) => return value,
            Source::Array { at, stride, format } => (at, stride, format),
        };
        let bytes = memory.get(at.wrapping_add(vertex * stride)..).unwrap_or_default();
        let mut value = [0.0, 0.0, 0.0, 1.0];
        for (n, to) in value.iter_mut().enumerate().take((format >> 2 & 3) as usize + 1) {
            let byte = |k: usize| bytes.get(k).copied().unwrap_or(0);
            *to = match format & 3 {
                0 => f32::from(byte(n) as i8),
                1 => f32::from(byte(n)),
                2 => f32::from(i16::from_le_bytes([byte(2 * n), byte(2 * n + 1)])),
                _ => f32::from_le_bytes([byte(4 * n), byte(4 * n + 1), byte(4 * n + 2), byte(4 * n + 3)]),
            };
        }
        value
    }
}

/// The semantics of the components of each output register that leaves a unit.
type OutputTable = Vec<(usize, [u8; 4])>;

fn map(table: &OutputTable, outputs: &Registers) -> Semantics {
    let mut vertex = [1.0; SEMANTICS];
    for (register, semantics) in table {
        for (component, semantic) in outputs[*register].iter().zip(semantics) {
            if let Some(to) = vertex.get_mut(usize::from(*semantic)) {
                *to = *component;
            }
        }
    }
    vertex[8..12].iter_mut().for_each(|c| *c = if c.abs() < 1.0 { c.abs() } else { 1.0 });
    vertex
}

/// The vertices of an incomplete primitive, and the topology.
struct Assembly {
    vertices: [Semantics; 2],
    count: usize,
    oldest: usize,
    topology: Topology,
}

impl Assembly {
    fn push(&mut self, vertex: &Semantics, winding: bool, to: &mut Triangles) {
        if self.count < 2 {
            self.vertices[self.count] = *vertex;
            self.count += 1;
            return;
        }
        let [a, b] = self.vertices;
        match winding && self.topology == Topology::Geometry {
            true => to.push([b, a, *vertex]),
            false => to.push([a, b, *vertex]),
        }
        match self.topology {
            Topology::Strip => {
                self.vertices[self.oldest] = *vertex;
                self.oldest ^= 1;
            }
            Topology::Fan => self.vertices[1] = *vertex,
            _ => (self.count, self.oldest) = (0, 0),
        }
    }
}

/// The GPU of the lean reference.
pub struct Lean {
    engine: Arc<Engine>,
    registers: RegisterFile,
    vertex: ShaderUnit,
    geometry: ShaderUnit,
    defaults: [Vec4; REGS],
    fixed_index: usize,
    fixed_words: [u32; 3],
    fixed_count: usize,
    /// The vertex of immediate mode that is incomplete, and the complete ones.
    immediate: ([Vec4; REGS], usize),
    pending: Vec<[Vec4; REGS]>,
    input: GeometryInput,
    assembly: Assembly,
    // Of the present draw.
    attributes: Vec<Attribute>,
    outputs: OutputTable,
    mapped: Vec<Semantics>,
    indices: Vec<u16>,
}

impl Lean {
    pub fn new(engine: &Arc<Engine>, start: &State) -> Lean {
        let State { registers, vertex, geometry, fixed, geometry_input, assembly } = start.clone();
        Lean {
            engine: engine.clone(),
            vertex: ShaderUnit::new(Stage::Vertex, &vertex),
            geometry: ShaderUnit::new(Stage::Geometry, &geometry),
            defaults: fixed.defaults,
            fixed_index: fixed.index.into(),
            fixed_words: fixed.words.words,
            fixed_count: fixed.words.count.into(),
            immediate: (fixed.vertex, fixed.count.into()),
            pending: Vec::new(),
            input: geometry_input,
            assembly: Assembly {
                vertices: assembly.vertices,
                count: usize::from(assembly.count).min(2),
                oldest: usize::from(assembly.oldest & 1),
                topology: Topology::from_register(registers.get(reg::PRIMITIVE_CONFIG)),
            },
            registers,
            attributes: Vec::new(),
            outputs: Vec::new(),
            mapped: Vec::new(),
            indices: Vec::new(),
        }
    }

    fn push_fixed(&mut self, word: u32) {
        self.fixed_words[self.fixed_count] = word;
        self.fixed_count += 1;
        if self.fixed_count < 3 {
            return;
        }
        self.fixed_count = 0;
        let vector = f24_vector(self.fixed_words);
        if self.fixed_index < 15 {
            self.defaults[self.fixed_index] = vector;
            self.fixed_index = (self.fixed_index + 1).min(14);
            return;
        }
        let (vertex, count) = &mut self.immediate;
        let attributes = self.registers.immediate_attributes();
        vertex[(*count).min(attributes - 1)] = vector;
        *count += 1;
        if *count >= attributes {
            let mut whole = self.defaults;
            whole[..attributes].copy_from_slice(&vertex[..attributes]);
            self.pending.push(whole);
            *count = 0;
        }
    }

    /// Makes the table of attributes, of an address in memory.
    fn load_attributes(&mut self, address: u32) {
        let file = &self.registers;
        let formats = u64::from(file.get(reg::ATTRIBBUFFERS_FORMAT_HIGH)) << 32
            | u64::from(file.get(reg::ATTRIBBUFFERS_FORMAT_LOW));
        let base = ((file.get(reg::ATTRIBBUFFERS_LOC) & 0x1FFF_FFFE) << 3).wrapping_sub(address);
        let mut sources = self.defaults.map(Source::Default);
        for group in 0..12 {
            let [offset, low, high] = [0, 1, 2].map(|n| file.get(reg::ATTRIBBUFFER0_OFFSET + 3 * group + n));
            let (components, stride) = (u64::from(high) << 32 | u64::from(low), (high >> 16 & 0xFF) as usize);
            let mut at = 0u32;
            for n in 0..(high >> 28).min(12) {
                let component = (components >> (4 * n) & 0xF) as usize;
                if component >= 12 {
                    at = at.next_multiple_of(4) + 4 * (component as u32 - 11);
                    continue;
                }
                let format = (formats >> (4 * component) & 0xF) as u32;
                let size = [1, 1, 2, 4][(format & 3) as usize];
                at = at.next_multiple_of(size);
                let first = base.wrapping_add((offset & 0x0FFF_FFFF) + at) as i32 as usize;
                sources[component] = Source::Array { at: first, stride, format };
                at += size * ((format >> 2 & 3) + 1);
            }
        }
        self.attributes.clear();
        let permutation = file.permutation(Stage::Vertex);
        let attributes = permutation.iter().zip(sources).take(file.attributes(Stage::Vertex));
        self.attributes.extend(attributes.map(|(&register, source)| Attribute { register: register.into(), source }));
    }

    /// Makes the table of outputs of a unit.
    fn load_outputs(&mut self, stage: Stage) {
        let mask = self.registers.output_mask(stage);
        let leaving = (0..REGS).filter(|n| mask >> n & 1 != 0);
        let total = ((self.registers.get(reg::SH_OUTMAP_TOTAL) & 7) as usize).min(SLOTS);
        let words = (0..total as u16).map(|n| self.registers.get(reg::SH_OUTMAP_O0 + n));
        self.outputs.clear();
        self.outputs.extend(leaving.zip(words).map(|(n, word)| (n, word.to_le_bytes().map(|byte| byte & 0x1F))));
    }

    /// Runs the vertex whose inputs are in the unit.
    fn run(&mut self) -> Result<(), &'static str> {
        let call = self.vertex.shader().direct_call();
        let ShaderState { unit, uniforms, .. } = &mut self.vertex.state;
        // SAFETY: the shader is held, and without a layout these are its blocks, borrowed here alone.
        let exit = unsafe { (call.function)(call.context, (&raw mut *unit).cast(), (&raw const *uniforms).cast()) };
        if exit == Exit::End as i32 { Ok(()) } else { Err("its vertex program does not reach END") }
    }

    /// Fetches and runs vertex `n`.
    fn vertex(&mut self, memory: &[u8], n: usize) -> Result<(), &'static str> {
        for Attribute { register, source } in &self.attributes {
            self.vertex.state.unit.v[*register] = source.fetch(memory, n);
        }
        self.run()
    }

    /// Passes the outputs of a vertex on, to the geometry unit or primitive assembly.
    fn pass_on(&mut self, has_geometry: bool, to: &mut Triangles) -> Result<(), &'static str> {
        if has_geometry {
            return self.geometry_vertex(to);
        }
        let vertex = map(&self.outputs, self.vertex.state.unit.outputs());
        self.assembly.push(&vertex, false, to);
        Ok(())
    }

    fn geometry_vertex(&mut self, to: &mut Triangles) -> Result<(), &'static str> {
        let mask = self.registers.output_mask(Stage::Vertex);
        let outputs = *self.vertex.state.unit.outputs();
        let mut vectors = [[0.0; 4]; REGS];
        let leaving = (0..REGS).filter(|n| mask >> n & 1 != 0);
        leaving.zip(&mut vectors).for_each(|(n, vector)| *vector = outputs[n]);
        let vectors = &vectors[..self.registers.vertex_outputs()];
        match GeometryMode::from_registers(&self.registers) {
            GeometryMode::Point => {
                let attributes = self.registers.attributes(Stage::Geometry);
                let permutation = self.registers.permutation(Stage::Geometry);
                for vector in vectors {
                    let n = usize::from(self.input.count).min(attributes - 1);
                    self.geometry.state.unit.v[usize::from(permutation[n])] = *vector;
                    self.input.count = n as u8 + 1;
                    if n + 1 == attributes {
                        self.input.count = 0;
                        self.run_geometry(to)?;
                    }
                }
                Ok(())
            }
            GeometryMode::Fixed { first, stride, vertices } => {
                let at = first + self.input.vertices as usize * stride;
                for (n, vector) in vectors.iter().take(stride).enumerate() {
                    if let Some(c) = self.geometry.state.uniforms.c.get_mut(at + n) {
                        *c = *vector;
                    }
                }
                self.input.vertices += 1;
                if self.input.vertices as usize == vertices {
                    self.input.vertices = 0;
                    self.run_geometry(to)?;
                }
                Ok(())
            }
            GeometryMode::Variable { .. } => Err("the lean reference has no primitives of variable size"),
        }
    }

    fn run_geometry(&mut self, to: &mut Triangles) -> Result<(), &'static str> {
        struct Emitted<'a>(&'a OutputTable, &'a mut Assembly, &'a mut Triangles);
        impl Emitter for Emitted<'_> {
            fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
                vertices.iter().for_each(|outputs| self.1.push(&map(self.0, outputs), winding, self.2));
            }
        }
        let (_, shader) = self.geometry.shader.as_ref().expect("found when the draw began");
        let ShaderState { unit, uniforms, .. } = &mut self.geometry.state;
        let exit = shader.run_geometry(uniforms, unit, &mut Emitted(&self.outputs, &mut self.assembly, to));
        let is_bounded = to.len() <= MOST_TRIANGLES;
        uniforms.b |= 1 << 15;
        self.registers.0[usize::from(reg::GSH)] |= 1 << 15;
        match exit {
            Exit::End if is_bounded => Ok(()),
            Exit::End => Err(TOO_MANY),
            _ => Err("its geometry program does not reach END"),
        }
    }

    fn elements(
        &mut self,
        memory: &[u8],
        address: u32,
        has_geometry: bool,
        to: &mut Triangles,
    ) -> Result<(), &'static str> {
        let config = self.registers.get(reg::INDEXBUFFER_CONFIG);
        let start = ((self.registers.get(reg::ATTRIBBUFFERS_LOC) & 0x1FFF_FFFE) << 3).wrapping_sub(address);
        let bytes = memory.get(start.wrapping_add(config & 0x0FFF_FFFF) as i32 as usize..).unwrap_or_default();
        let byte = |n: usize| bytes.get(n).copied().unwrap_or(0);
        let index =
            |n| if config >> 31 != 0 { u16::from_le_bytes([byte(2 * n), byte(2 * n + 1)]) } else { byte(n).into() };
        let count = self.registers.get(reg::NUMVERTICES) as usize;
        self.indices.clear();
        self.indices.extend((0..count).map(index));
        let (least, greatest) = self.indices.iter().fold((u16::MAX, 0), |(a, b), &n| (a.min(n), b.max(n)));
        if has_geometry || usize::from(greatest.saturating_sub(least)) >= count {
            for n in 0..count {
                self.vertex(memory, self.indices[n].into())?;
                self.pass_on(has_geometry, to)?;
            }
            return Ok(());
        }
        self.mapped.clear();
        for n in least..=greatest {
            self.vertex(memory, n.into())?;
            self.mapped.push(map(&self.outputs, self.vertex.state.unit.outputs()));
        }
        for &n in &self.indices {
            self.assembly.push(&self.mapped[usize::from(n - least)], false, to);
        }
        Ok(())
    }
}

impl Way for Lean {
    #[inline(always)]
    fn write(&mut self, Write { id, value, mask }: Write) {
        let Some(word) = self.registers.0.get_mut(usize::from(id)) else { return };
        let bits = BYTES[usize::from(mask & 15)];
        let old = *word;
        let merged = old & !bits | value & bits;
        *word = merged;
        match id {
            reg::GSH..reg::VSH => self.geometry.write(id - reg::GSH, value, merged),
            reg::VSH..0x2E0 => {
                let at = id - reg::VSH;
                self.vertex.write(at, value, merged);
                let is_own = (offset::INPUTBUFFER_CONFIG..offset::OUTMAP_MASK).contains(&at);
                if !is_own && self.registers.is_mirroring() {
                    let copy = &mut self.registers.0[usize::from(reg::GSH + at)];
                    *copy = *copy & !bits | value & bits;
                    self.geometry.write(at, value, *copy);
                }
            }
            reg::FIXEDATTRIB_INDEX => {
                (self.fixed_index, self.fixed_count) = ((value & 0xF) as usize, 0);
                if self.fixed_index == 15 {
                    self.immediate.1 = 0;
                    (self.input.count, self.input.vertices) = (0, 0);
                }
            }
            reg::FIXEDATTRIB_DATA0..=reg::FIXEDATTRIB_DATA2 => self.push_fixed(value),
            reg::PRIMITIVE_CONFIG => {
                let topology = Topology::from_register(merged);
                if topology != self.assembly.topology {
                    (self.assembly.topology, self.assembly.count, self.assembly.oldest) = (topology, 0, 0);
                }
            }
            reg::RESTART_PRIMITIVE => (self.assembly.count, self.assembly.oldest) = (0, 0),
            _ => {}
        }
    }

    #[inline(never)]
    fn draw(&mut self, kind: Kind, frame: &Frame, to: &mut Triangles) -> Result<(), &'static str> {
        let has_geometry = self.registers.has_geometry();
        self.vertex.find(&self.engine, self.registers.entry(self.vertex.stage));
        if has_geometry {
            self.geometry.find(&self.engine, self.registers.entry(self.geometry.stage));
        }
        self.load_outputs(if has_geometry { Stage::Geometry } else { Stage::Vertex });
        let memory = &frame.memory[..];
        if kind != Kind::Immediate {
            (self.input.count, self.input.vertices) = (0, 0);
            self.load_attributes(frame.address);
        }
        match kind {
            Kind::Guest(Draw::Arrays) => {
                let first = self.registers.get(reg::VERTEX_OFFSET) as usize;
                for n in first..first + self.registers.get(reg::NUMVERTICES) as usize {
                    self.vertex(memory, n)?;
                    self.pass_on(has_geometry, to)?;
                }
                Ok(())
            }
            Kind::Guest(Draw::Elements) => self.elements(memory, frame.address, has_geometry, to),
            Kind::Immediate => {
                let permutation = self.registers.permutation(Stage::Vertex);
                let attributes = self.registers.attributes(Stage::Vertex);
                for n in 0..self.pending.len() {
                    for (&register, value) in permutation[..attributes].iter().zip(&self.pending[n]) {
                        self.vertex.state.unit.v[usize::from(register)] = *value;
                    }
                    self.run()?;
                    self.pass_on(has_geometry, to)?;
                }
                self.pending.clear();
                Ok(())
            }
        }
    }
}
