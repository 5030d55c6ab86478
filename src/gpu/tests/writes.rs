//! Register writes against a slow model of the registers: what the specification says, one write at a
//! time, without shortcuts for whole words or unchanged values.

use super::hostile::Noise;
use super::*;
use crate::container::float24::f24_to_f32;
use crate::isa::Stage;
use crate::testing::miri_or;

/// One unit's memories.
struct ModelUnit {
    code: Vec<u32>,
    opdescs: Vec<u32>,
    floats: Vec<[u32; 4]>,
    integers: [[u8; 4]; 4],
    booleans: u16,
    code_index: u32,
    opdesc_index: u32,
    float_index: u32,
    words: Vec<u32>,
}

struct Model {
    registers: Vec<u32>,
    vertex: ModelUnit,
    geometry: ModelUnit,
    fixed_index: u32,
    fixed_words: Vec<u32>,
    defaults: Vec<Vec4>,
    /// Attributes of a vertex of immediate mode.
    attributes: Vec<Vec4>,
    /// The last complete vertex of immediate mode.
    complete: Attributes,
}

/// NaN equals NaN.
fn bits(vectors: &[Vec4]) -> Vec<[u32; 4]> {
    vectors.iter().map(|vector| vector.map(f32::to_bits)).collect()
}

fn merged(old: u32, value: u32, mask: u8) -> u32 {
    let bytes = (0..4).map(|n| if mask >> n & 1 != 0 { value } else { old } >> (8 * n) & 0xFF);
    bytes.rev().fold(0, |all, byte| all << 8 | byte)
}

fn vector24(words: &[u32]) -> Vec4 {
    // WWWWWWZZ ZZZZYYYY YYXXXXXX
    let digits: String = words.iter().map(|word| format!("{word:08X}")).collect();
    let part = |n: usize| f24_to_f32(u32::from_str_radix(&digits[6 * n..6 * n + 6], 16).expect("digits"));
    [part(3), part(2), part(1), part(0)]
}

impl ModelUnit {
    fn new(words: usize) -> ModelUnit {
        ModelUnit {
            code: vec![0; words],
            opdescs: vec![0; 128],
            floats: vec![[0; 4]; 96],
            integers: [[0; 4]; 4],
            booleans: 0,
            code_index: 0,
            opdesc_index: 0,
            float_index: 0,
            words: Vec::new(),
        }
    }

    /// `register` is the whole register after the write.
    fn write(&mut self, at: u16, value: u32, mask: u8, register: u32) {
        match at {
            0x00 => self.booleans = register as u16,
            0x01..=0x04 => self.integers[usize::from(at) - 1] = register.to_le_bytes(),
            0x10 => {
                self.float_index = merged(self.float_index, value, mask) & 0x8000_00FF;
                self.words.clear();
            }
            0x11..=0x18 => {
                self.words.push(value);
                let is_f32 = self.float_index >> 31 != 0;
                if self.words.len() == if is_f32 { 4 } else { 3 } {
                    let words = std::mem::take(&mut self.words);
                    let index = self.float_index as usize & 0xFF;
                    let vector = match is_f32 {
                        true => [words[3], words[2], words[1], words[0]],
                        false => vector24(&words).map(f32::to_bits),
                    };
                    if let Some(uniform) = self.floats.get_mut(index) {
                        *uniform = vector;
                        self.float_index += 1;
                    }
                }
            }
            0x1B => self.code_index = merged(self.code_index, value, mask) & 0xFFF,
            0x1C..=0x23 => {
                if let Some(word) = self.code.get_mut(self.code_index as usize) {
                    *word = value;
                }
                self.code_index += 1;
            }
            0x25 => self.opdesc_index = merged(self.opdesc_index, value, mask) & 0xFFF,
            0x26..=0x2D => {
                if let Some(word) = self.opdescs.get_mut(self.opdesc_index as usize) {
                    *word = value;
                }
                self.opdesc_index += 1;
            }
            _ => {}
        }
    }
}

impl Model {
    fn new() -> Model {
        let mut registers = vec![0; 0x300];
        registers[usize::from(GSH + offset::INPUTBUFFER_CONFIG)] = GSH_INPUTBUFFER_CONFIG_AT_RESET;
        Model {
            registers,
            vertex: ModelUnit::new(512),
            geometry: ModelUnit::new(4096),
            fixed_index: 0,
            fixed_words: Vec::new(),
            defaults: vec![[0.0; 4]; 16],
            attributes: Vec::new(),
            complete: Attributes::default(),
        }
    }

    fn write(&mut self, id: u16, value: u32, mask: u8) -> Effect {
        let Some(register) = self.registers.get_mut(usize::from(id)) else { return Effect::None };
        *register = merged(*register, value, mask);
        let register = *register;
        match id {
            DRAWARRAYS => return Effect::Draw(Draw::Arrays),
            DRAWELEMENTS => return Effect::Draw(Draw::Elements),
            FIXEDATTRIB_INDEX => {
                self.fixed_index = merged(self.fixed_index, value, mask) & 15;
                self.fixed_words.clear();
                if self.fixed_index == 15 {
                    self.attributes.clear();
                }
            }
            FIXEDATTRIB_DATA0..=FIXEDATTRIB_DATA2 => {
                self.fixed_words.push(value);
                if self.fixed_words.len() == 3 {
                    let vector = vector24(&std::mem::take(&mut self.fixed_words));
                    return self.fixed_attribute(vector);
                }
            }
            GSH..VSH => self.geometry.write(id - GSH, value, mask, register),
            VSH..0x2E0 => {
                self.vertex.write(id - VSH, value, mask, register);
                // Registers that the fourth unit has for itself: input, entry point, permutation.
                let own = (0x05..=0x0C).contains(&(id - VSH)) || id - VSH == 0x0E;
                let unused = [0x19, 0x1A, 0x24, 0x2E, 0x2F].contains(&(id - VSH));
                let mirrors = self.registers[usize::from(VSH_COM_MODE)] & 1 == 0
                    && self.registers[usize::from(GEOSTAGE_CONFIG)] & 3 == 0;
                if mirrors && !own && !unused {
                    let _ = self.write(id - (VSH - GSH), value, mask);
                }
            }
            _ => {}
        }
        Effect::None
    }

    fn fixed_attribute(&mut self, vector: Vec4) -> Effect {
        if self.fixed_index < 15 {
            self.defaults[self.fixed_index as usize] = vector;
            self.fixed_index = (self.fixed_index + 1).min(14);
            return Effect::None;
        }
        let count = (self.registers[usize::from(VSH_NUM_ATTR)] & 15) as usize + 1;
        // A count that shrinks within a vertex: the last attribute replaces.
        self.attributes.truncate(count - 1);
        self.attributes.push(vector);
        if self.attributes.len() < count {
            return Effect::None;
        }
        self.complete = self.defaults.clone().try_into().expect("sixteen");
        self.complete[..count].copy_from_slice(&self.attributes);
        self.attributes.clear();
        Effect::Vertex
    }

    /// Fails where the state differs.
    fn compare(&self, state: &State, context: &str) {
        assert_eq!(state.registers.0[..], self.registers[..], "registers, {context}");
        for (name, unit, model) in
            [("vertex", &state.vertex, &self.vertex), ("geometry", &state.geometry, &self.geometry)]
        {
            assert!(unit.code == model.code && unit.opdescs == model.opdescs, "words of {name}, {context}");
            let floats: Vec<[u32; 4]> = unit.uniforms.c.iter().map(|c| c.map(f32::to_bits)).collect();
            assert_eq!(floats, model.floats, "floats of {name}, {context}");
            assert_eq!((unit.uniforms.i, unit.uniforms.b), (model.integers, model.booleans), "{name}, {context}");
            let indices = (u32::from(unit.code_index), u32::from(unit.opdesc_index));
            assert_eq!(indices, (model.code_index, model.opdesc_index), "{name}, {context}");
            let float_index = u32::from(unit.float_index) | u32::from(unit.float32) << 31;
            assert_eq!(float_index, model.float_index, "{name}, {context}");
            let words = &unit.float_words.words[..usize::from(unit.float_words.count)];
            assert_eq!(words, model.words, "{name}, {context}");
        }
        let fixed = &state.fixed;
        assert_eq!(u32::from(fixed.index), self.fixed_index, "{context}");
        assert_eq!(fixed.words.words[..usize::from(fixed.words.count)], self.fixed_words, "{context}");
        assert_eq!(bits(&fixed.defaults), bits(&self.defaults), "{context}");
        assert_eq!(bits(&fixed.vertex[..usize::from(fixed.count)]), bits(&self.attributes), "{context}");
    }
}

/// A register, usually one with a queue, and a value that is often an index of one.
fn write(noise: &mut Noise) -> (u16, u32, u8) {
    let block = [GSH, VSH, VSH][noise.below(3) as usize];
    let (id, value) = match noise.below(20) {
        0 => (noise.below(0x310) as u16, noise.word()),
        1 => (VSH_COM_MODE, noise.below(2)),
        2 => (GEOSTAGE_CONFIG, noise.below(4)),
        3 => (FIXEDATTRIB_INDEX, [noise.below(16), 15, noise.word()][noise.below(3) as usize]),
        4 => (VSH_NUM_ATTR, noise.below(4)),
        5 | 11..=14 => (FIXEDATTRIB_DATA0 + noise.below(3) as u16, noise.word()),
        6 => (block + noise.below(0x30) as u16, noise.word()),
        7 => (block + 0x10, noise.below(2) << 31 | [noise.below(100), noise.word()][noise.below(2) as usize]),
        8 => (block + [0x1B, 0x25][noise.below(2) as usize], [noise.below(520), noise.word()][noise.below(2) as usize]),
        9 => (block + [0x1C, 0x26][noise.below(2) as usize] + noise.below(8) as u16, noise.word()),
        10 => (block + noise.below(5) as u16, noise.word()),
        // The quick way of words of floats. Zeros of both signs and NaN differ by their bits alone.
        _ => (block + 0x11 + noise.below(8) as u16, [noise.word(), 0, 1 << 31, u32::MAX][noise.below(4) as usize]),
    };
    let mask = if noise.below(4) == 0 { noise.below(256) as u8 } else { 15 };
    (id, value, mask)
}

#[test]
fn random_writes_equal_a_slow_model() {
    let mut vertices = 0;
    for seed in 1..=miri_or(2, 60) {
        let mut noise = Noise(seed);
        let (mut gpu, mut model) = (Gpu::new(engine(BackendChoice::Oracle)), Model::new());
        for n in 0..miri_or(100, 2000) {
            let (id, value, mask) = write(&mut noise);
            let (got, want) = (gpu.write(id, value, mask), model.write(id, value, mask));
            let context = format!("seed {seed}, write {n}: {value:#X} to {id:#05X}, mask {mask:#X}");
            assert_eq!(got, want, "{context}");
            if got == Effect::Vertex {
                assert_eq!(bits(gpu.immediate_vertex()), bits(&model.complete), "{context}");
                vertices += 1;
            }
            if n % 8 == 0 {
                model.compare(&gpu.state(), &context);
            }
        }
    }
    assert!(cfg!(miri) || vertices > 300, "{vertices} vertices");
}

#[test]
fn queues_read_as_zero_and_entry_points_have_their_bits() {
    let mut gpu = Gpu::new(engine(BackendChoice::Oracle));
    for id in 0..0x300 {
        let _ = gpu.write(id, u32::MAX, 15);
    }
    for block in [GSH, VSH] {
        let queues = (0x0F..0x2E).filter(|at| ![0x19, 0x1A, 0x24].contains(at));
        queues.for_each(|at| assert_eq!(gpu.read(block + at), 0, "{:#X}", block + at));
        assert_eq!(gpu.read(block + offset::BOOLUNIFORM), u32::MAX);
    }
    assert_eq!(gpu.read(VSH + offset::ENTRYPOINT), 0x01FF_01FF);
    assert_eq!(gpu.read(GSH + offset::ENTRYPOINT), 0x0FFF_0FFF);
    let entry = |stage| gpu.state().registers.entry(stage).pc;
    assert_eq!((entry(Stage::Vertex), entry(Stage::Geometry)), (0x1FF, 0xFFF));
}
