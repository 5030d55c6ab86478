//! Register writes, one call each -> a [`Recording`], as a game's graphics library writes one.
//!
//! Invariant: a list holds whole commands.

use picajit::container::float24::f32_to_f24_truncating;
use picajit::container::shbin::{Constant, Dvle, Output};
use picajit::gpu::RegisterFile as Reg;
use picajit::internals::recording::Recording;
use picajit::isa::Stage;
use picajit::program::Program;
use picajit::state::Vec4;
use picajit::text::{AsmError, Assembler, Options};

/// An assembled program with its tables.
pub struct Shader {
    program: Program,
    dvle: Dvle,
}

impl Shader {
    /// `name` is for messages.
    pub fn assemble(name: &str, source: &str) -> Result<Shader, AsmError> {
        let mut assembler = Assembler::new(Options::default());
        assembler.add_file(name, source)?;
        let shbin = assembler.finish()?.shbin;
        let program = shbin.program().expect("the assembler gives no more words than units have");
        let dvle = shbin.dvles.into_iter().next().expect("a file without an entry is an error");
        Ok(Shader { program, dvle })
    }

    /// The register of the program's unit that the vertex units have as `id`.
    fn id(&self, id: u16) -> u16 {
        match self.dvle.stage {
            Stage::Vertex => id,
            Stage::Geometry => id - (Reg::VSH_BOOLUNIFORM - Reg::GSH_BOOLUNIFORM),
        }
    }

    /// The register of a declared name, numbered as in the uniform table: c0 is 0x10, b0 is 0x78.
    fn register(&self, name: &str) -> u16 {
        let row = self.dvle.uniforms.iter().find(|row| row.name == name);
        row.expect("the scene names what its programs declare").first
    }
}

/// A recording in the making.
pub struct Recorder(Recording);

impl Recorder {
    /// Memory will begin at `address`.
    pub fn new(address: u32) -> Recorder {
        Recorder(Recording { address, ..Recording::default() })
    }

    pub fn finish(self) -> Recording {
        self.0
    }

    /// A comment in the list.
    pub fn note(&mut self, text: &str) {
        let list = &mut self.0.list;
        list.notes.push((list.words.len(), text.to_string()));
    }

    /// Stores bytes in memory. Returns their offset from the start of memory.
    pub fn store(&mut self, note: &str, bytes: &[u8]) -> u32 {
        let memory = &mut self.0.memory;
        let start = memory.words.len();
        memory.notes.push((start, format!("+{:X}: {note}, {} bytes", 4 * start, bytes.len())));
        memory.words.extend(bytes.chunks(4).map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        }));
        4 * start as u32
    }

    /// The same of indices.
    pub fn store_indices(&mut self, note: &str, indices: &[u16]) -> u32 {
        let bytes: Vec<u8> = indices.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.store(note, &bytes)
    }

    /// A register.
    pub fn write(&mut self, id: u16, value: u32) {
        self.0.list.words.extend([value, 0x000F_0000 | u32::from(id)]);
    }

    /// Each value to the register after the last.
    pub fn run(&mut self, id: u16, values: &[u32]) {
        self.burst(id, values, true);
    }

    /// All values to one register.
    pub fn queue(&mut self, id: u16, values: &[u32]) {
        // A command has eight bits of further values; games send 128 words at most.
        values.chunks(128).for_each(|values| self.burst(id, values, false));
    }

    fn burst(&mut self, id: u16, values: &[u32], step: bool) {
        let (Some(&first), words) = (values.first(), &mut self.0.list.words) else { return };
        let further = values.len() as u32 - 1;
        words.extend([first, u32::from(step) << 31 | further << 20 | 0x000F_0000 | u32::from(id)]);
        words.extend(&values[1..]);
        if !further.is_multiple_of(2) {
            words.push(0);
        }
    }

    /// Uploads the programs of a pipeline and sets up their inputs and outputs. `attributes` is the
    /// number of attributes of a vertex; each goes to the input register of its number.
    pub fn bind(&mut self, vertex: &Shader, geometry: Option<&Shader>, attributes: u32) {
        let is_on = geometry.is_some();
        self.run(Reg::GEOSTAGE_CONFIG, &[if is_on { 2 } else { 0 }]);
        self.write(Reg::VSH_COM_MODE, u32::from(is_on));
        self.upload(vertex, 0xA000_0000, attributes);
        self.write(Reg::VSH_NUM_ATTR, attributes - 1);
        let leaving = vertex.dvle.output_mask.count_ones();
        self.write(Reg::VSH_OUTMAP_TOTAL1, leaving - 1);
        self.write(Reg::VSH_OUTMAP_TOTAL2, leaving - 1);
        if let Some(geometry) = geometry {
            // Point mode: one vertex an invocation if the program takes as many attributes as the
            // vertex unit writes.
            self.upload(geometry, 0x0800_0000, leaving);
            self.write(Reg::GSH_MISC0, 0);
        }
        let last = geometry.unwrap_or(vertex);
        let map = output_map(&last.dvle);
        self.write(Reg::SH_OUTMAP_TOTAL, map.len() as u32);
        self.run(Reg::SH_OUTMAP_O0, &map);
    }

    fn upload(&mut self, shader: &Shader, mode: u32, attributes: u32) {
        let id = |id| shader.id(id);
        self.write(id(Reg::VSH_CODETRANSFER_INDEX), 0);
        self.queue(id(Reg::VSH_CODETRANSFER_DATA0), shader.program.code());
        self.write(id(Reg::VSH_CODETRANSFER_END), 1);
        self.write(id(Reg::VSH_OPDESCS_INDEX), 0);
        self.queue(id(Reg::VSH_OPDESCS_DATA0), shader.program.opdescs());
        self.write(id(Reg::VSH_ENTRYPOINT), 0x7FFF_0000 | shader.dvle.entry);
        self.write(id(Reg::VSH_INPUTBUFFER_CONFIG), mode | (attributes - 1));
        self.run(id(Reg::VSH_ATTRIBUTES_PERMUTATION_LOW), &[0x7654_3210, 0xFEDC_BA98]);
        self.write(id(Reg::VSH_OUTMAP_MASK), u32::from(shader.dvle.output_mask));
        let mut booleans = 0;
        for constant in &shader.dvle.constants {
            match *constant {
                Constant::Bool { register, value } => booleans |= u32::from(value) << register,
                Constant::Int { register, value } => {
                    self.write(id(Reg::VSH_INTUNIFORM_I0) + register, u32::from_le_bytes(value));
                }
                Constant::Float { register, value } => {
                    self.write(id(Reg::VSH_FLOATUNIFORM_INDEX), u32::from(register));
                    self.queue(id(Reg::VSH_FLOATUNIFORM_DATA0), &float24_words(value));
                }
            }
        }
        self.write(id(Reg::VSH_BOOLUNIFORM), 0x7FFF_0000 | booleans);
    }

    /// Float uniforms from the first register of `name` on, as f32.
    pub fn floats(&mut self, shader: &Shader, name: &str, values: &[Vec4]) {
        let first = u32::from(shader.register(name) - 0x10);
        self.write(shader.id(Reg::VSH_FLOATUNIFORM_INDEX), 0x8000_0000 | first);
        let words: Vec<u32> = values.iter().flat_map(|&[x, y, z, w]| [w, z, y, x].map(f32::to_bits)).collect();
        self.queue(shader.id(Reg::VSH_FLOATUNIFORM_DATA0), &words);
    }

    /// A boolean uniform; the others of the program become false.
    pub fn boolean(&mut self, shader: &Shader, name: &str, value: bool) {
        let bit = u32::from(value) << (shader.register(name) - 0x78);
        self.write(shader.id(Reg::VSH_BOOLUNIFORM), 0x7FFF_0000 | bit);
    }

    /// A vertex of immediate mode.
    pub fn vertex(&mut self, attributes: &[Vec4]) {
        for attribute in attributes {
            self.run(Reg::FIXEDATTRIB_DATA0, &float24_words(attribute.map(f32_to_f24_truncating)));
        }
    }
}

/// A vector in upload order: its last component first.
fn float24_words([x, y, z, w]: [u32; 4]) -> [u32; 3] {
    [w << 8 | z >> 16 & 0xFF, z << 16 | y >> 8 & 0xFFFF, y << 24 | x & 0xFF_FFFF]
}

/// The semantic of each component of each exported output register: the words of `SH_OUTMAP`.
fn output_map(dvle: &Dvle) -> Vec<u32> {
    let leaving = (0..16).filter(|n| dvle.output_mask >> n & 1 != 0);
    leaving
        .map(|register| {
            let mut lanes = [0x1F; 4];
            for Output { semantic, mask, .. } in dvle.outputs.iter().filter(|row| row.register == register) {
                let first = match semantic {
                    0 => 0x00, // position
                    2 => 0x08, // colour
                    _ => continue,
                };
                (0..4).filter(|lane| mask >> lane & 1 != 0).for_each(|lane| lanes[lane] = first + lane as u8);
            }
            u32::from_le_bytes(lanes)
        })
        .collect()
}
