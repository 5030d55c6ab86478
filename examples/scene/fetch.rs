//! Registers and guest memory -> attributes of a vertex, indices of a draw: a task of
//! `picajit::gpu`'s host.
//!
//! Fields are those of 3dbrew. Invariant: memory is never read out of bounds for any register
//! values; such reads give 0.

use self::registers::*;
use picajit::gpu::recording::Recording;
use picajit::gpu::{Attributes, Gpu};
use picajit::state::Vec4;

/// Registers outside the shader side. `picajit::gpu` only stores them.
pub mod registers {
    /// 0: no culling. 1: culls the front, which is counter-clockwise. 2: culls the back.
    pub const FACECULLING_CONFIG: u16 = 0x040;
    /// Bit 0: depth test. Bits 6:4: comparison. Bits 11:8: written colour channels. Bit 12: depth
    /// write.
    pub const DEPTH_COLOR_MASK: u16 = 0x107;
    /// Bits 28:1: the address, an eighth, that offsets of arrays and indices count from.
    pub const ATTRIBBUFFERS_LOC: u16 = 0x200;
    /// Types of attributes 0-7, four bits each.
    pub const ATTRIBBUFFERS_FORMAT_LOW: u16 = 0x201;
    /// Types of attributes 8-11; bits 27:16: attributes without an array.
    pub const ATTRIBBUFFERS_FORMAT_HIGH: u16 = 0x202;
    /// The first of twelve groups of three: offset; components 0-7 of a vertex; components 8-11,
    /// stride in bits 23:16, number of components in bits 31:28.
    pub const ATTRIBBUFFER0_OFFSET: u16 = 0x203;
    /// Bits 27:0: offset. Bit 31: indices have 16 bits, not 8.
    pub const INDEXBUFFER_CONFIG: u16 = 0x227;
    /// Vertices or indices of a draw.
    pub const NUMVERTICES: u16 = 0x228;
    /// The first vertex of a draw without indices.
    pub const VERTEX_OFFSET: u16 = 0x22A;
}

/// Attributes that arrays can provide.
const ARRAYED: usize = 12;

/// An array that one attribute is fetched from.
#[derive(Clone, Copy)]
struct AttributeArray {
    /// Address of the attribute of vertex 0.
    address: u32,
    stride: u32,
    kind: Kind,
    count: u32,
}

/// Format of a component.
#[derive(Clone, Copy)]
enum Kind {
    S8,
    U8,
    S16,
    F32,
}

impl Kind {
    fn bytes(self) -> u32 {
        match self {
            Kind::S8 | Kind::U8 => 1,
            Kind::S16 => 2,
            Kind::F32 => 4,
        }
    }
}

/// The arrays of a draw.
pub struct Arrays<'a> {
    memory: &'a Recording,
    base: u32,
    sources: [Option<AttributeArray>; ARRAYED],
    /// Values of attributes without an array.
    defaults: Attributes,
}

impl<'a> Arrays<'a> {
    pub fn new(gpu: &Gpu, memory: &'a Recording) -> Arrays<'a> {
        let base = (gpu.read(ATTRIBBUFFERS_LOC) & 0x1FFF_FFFE) << 3;
        let formats =
            u64::from(gpu.read(ATTRIBBUFFERS_FORMAT_HIGH)) << 32 | u64::from(gpu.read(ATTRIBBUFFERS_FORMAT_LOW));
        let mut sources = [None; ARRAYED];
        for group in 0..ARRAYED as u16 {
            let [offset, low, high] = [0, 1, 2].map(|n| gpu.read(ATTRIBBUFFER0_OFFSET + 3 * group + n));
            let components = u64::from(high) << 32 | u64::from(low);
            let mut at = offset & 0x0FFF_FFFF;
            for n in 0..(high >> 28).min(ARRAYED as u32) {
                let component = (components >> (4 * n) & 0xF) as usize;
                let Some(source) = sources.get_mut(component) else {
                    // 12 to 15 are one to four words of padding.
                    at = at.next_multiple_of(4) + 4 * (component - ARRAYED + 1) as u32;
                    continue;
                };
                let format = formats >> (4 * component) & 0xF;
                let kind = [Kind::S8, Kind::U8, Kind::S16, Kind::F32][(format & 3) as usize];
                let count = (format >> 2) as u32 + 1;
                at = at.next_multiple_of(kind.bytes());
                *source =
                    Some(AttributeArray { address: base.wrapping_add(at), stride: high >> 16 & 0xFF, kind, count });
                at += kind.bytes() * count;
            }
        }
        for (n, source) in sources.iter_mut().enumerate() {
            if formats >> (48 + n) & 1 != 0 {
                *source = None;
            }
        }
        let defaults = std::array::from_fn(|n| gpu.default_attribute(n));
        Arrays { memory, base, sources, defaults }
    }

    /// The attributes of vertex `n`.
    pub fn vertex(&self, n: u32) -> Attributes {
        let mut attributes = self.defaults;
        for (attribute, source) in attributes.iter_mut().zip(&self.sources) {
            let Some(source) = source else { continue };
            let mut at = source.address.wrapping_add(n.wrapping_mul(source.stride));
            let mut vector: Vec4 = [0.0, 0.0, 0.0, 1.0];
            for lane in vector.iter_mut().take(source.count as usize) {
                let [a, b, c, d] = std::array::from_fn(|n| byte(self.memory, at.wrapping_add(n as u32)));
                *lane = match source.kind {
                    Kind::S8 => f32::from(a as i8),
                    Kind::U8 => f32::from(a),
                    Kind::S16 => f32::from(i16::from_le_bytes([a, b])),
                    Kind::F32 => f32::from_le_bytes([a, b, c, d]),
                };
                at = at.wrapping_add(source.kind.bytes());
            }
            *attribute = vector;
        }
        attributes
    }

    /// The first `count` indices of the draw.
    pub fn indices(&self, gpu: &Gpu, count: u32) -> impl Iterator<Item = u32> + use<'a> {
        let (config, memory) = (gpu.read(INDEXBUFFER_CONFIG), self.memory);
        let start = self.base.wrapping_add(config & 0x0FFF_FFFF);
        (0..count).map(move |n| {
            let at = |n: u32| byte(memory, start.wrapping_add(n));
            match config >> 31 {
                0 => u32::from(at(n)),
                _ => u32::from(u16::from_le_bytes([at(n.wrapping_mul(2)), at(n.wrapping_mul(2).wrapping_add(1))])),
            }
        })
    }
}

fn byte(memory: &Recording, address: u32) -> u8 {
    let at = address.wrapping_sub(memory.address) as usize;
    memory.memory.words.get(at / 4).map_or(0, |word| word.to_le_bytes()[at % 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use picajit::gpu::recording::Words;

    fn gpu(writes: &[(u16, u32)]) -> Gpu {
        let mut gpu = Gpu::default();
        for &(id, value) in writes {
            let _ = gpu.write(id, value, 0xF);
        }
        gpu
    }

    /// Bytes 1, 2, 3, ... at 0x2000_0000.
    fn memory() -> Recording {
        let words = (0..16).map(|n| u32::from_le_bytes([1, 2, 3, 4].map(|b| b + 4 * n))).collect();
        Recording { address: 0x2000_0000, memory: Words { words, notes: vec![] }, ..Recording::default() }
    }

    #[test]
    fn every_format_is_fetched() {
        // Attribute 1 is two s8, 0 is two s16 after a byte of alignment, then a word of padding, 2
        // is one f32.
        let gpu = gpu(&[
            (ATTRIBBUFFERS_LOC, 0x2000_0000 >> 3),
            (ATTRIBBUFFERS_FORMAT_LOW, 0x0030 << 4 | 0x4 << 4 | 0x6),
            (ATTRIBBUFFER0_OFFSET, 1),
            (ATTRIBBUFFER0_OFFSET + 1, 0x2C01),
            (ATTRIBBUFFER0_OFFSET + 2, 4 << 28 | 20 << 16),
            (0x232, 5),
        ]);
        let memory = memory();
        let arrays = Arrays::new(&gpu, &memory);
        let s16 = |low: u8| f32::from(i16::from_le_bytes([low, low + 1]));
        assert_eq!(arrays.vertex(0)[1], [2.0, 3.0, 0.0, 1.0]);
        assert_eq!(arrays.vertex(0)[0], [s16(5), s16(7), 0.0, 1.0]);
        assert_eq!(arrays.vertex(0)[2], [f32::from_le_bytes([13, 14, 15, 16]), 0.0, 0.0, 1.0]);
        assert_eq!(arrays.vertex(1)[1], [22.0, 23.0, 0.0, 1.0]);
        assert_eq!(arrays.vertex(1)[0], [s16(25), s16(27), 0.0, 1.0]);
        assert_eq!(arrays.vertex(u32::MAX / 20 * 7)[2], [0.0, 0.0, 0.0, 1.0], "no memory there");
        assert_eq!(arrays.vertex(0)[3], [0.0; 4], "a default attribute");
    }

    #[test]
    fn indices_have_one_or_two_bytes() {
        let memory = memory();
        for (config, expected) in [(2, [3, 4]), (0x8000_0002, [0x0403, 0x0605])] {
            let gpu = gpu(&[(ATTRIBBUFFERS_LOC, 0x2000_0000 >> 3), (INDEXBUFFER_CONFIG, config)]);
            assert_eq!(Arrays::new(&gpu, &memory).indices(&gpu, 2).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn registers_of_garbage_do_no_harm() {
        let memory = memory();
        for word in [u32::MAX, 0xF0F0_F0F0, 0xCDEF_CDEF, 0x8000_0000] {
            let writes: Vec<_> = (ATTRIBBUFFERS_LOC..=INDEXBUFFER_CONFIG).map(|id| (id, word)).collect();
            let gpu = gpu(&writes);
            let arrays = Arrays::new(&gpu, &memory);
            let _ = [0, 1, u32::MAX].map(|n| arrays.vertex(n));
            assert_eq!(arrays.indices(&gpu, 300).count(), 300);
        }
    }
}
