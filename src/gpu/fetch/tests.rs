use super::*;
use crate::isa::REGS;

fn file(writes: &[(u16, u32)]) -> RegisterFile {
    let mut file = RegisterFile::default();
    // As many attributes as a vertex can have, in registers of the same numbers.
    let [input, low, high] =
        [offset::INPUTBUFFER_CONFIG, offset::ATTRIBUTES_PERMUTATION_LOW, offset::ATTRIBUTES_PERMUTATION_HIGH];
    for (id, value) in [(VSH + input, 15), (VSH + low, 0x7654_3210), (VSH + high, 0xFEDC_BA98)] {
        file.write(id, value, 15);
    }
    writes.iter().for_each(|&(id, value)| _ = file.write(id, value, 15));
    file
}

const START: u32 = 0x2000_0000;

/// In vertices of 20 bytes from an odd address on, attribute 1 is two s8, 0 is two s16, then a word
/// of padding, 2 is one f32.
const MIXED: &[(u16, u32)] = &[
    (ATTRIBBUFFERS_LOC, START >> 3),
    (ATTRIBBUFFERS_FORMAT_LOW, 0x0030 << 4 | 0x4 << 4 | 0x6),
    (ATTRIBBUFFER0_OFFSET, 1),
    (ATTRIBBUFFER0_OFFSET + 1, 0x2C01),
    (ATTRIBBUFFER0_OFFSET + 2, 4 << 28 | 20 << 16),
];

/// The input registers of vertex `n`, in a draw of the vertices of `range`.
fn vertex(file: &RegisterFile, memory: &[u8], range: [u64; 2], n: u64) -> [Vec4; REGS] {
    let (plan, mut vertex) = (FetchPlan::new(file), [[9.0; 4]; REGS]);
    let regions = [(START, memory)];
    let regions = Regions(&regions);
    plan.constants(&Attributes::default(), &mut vertex, REGS);
    let fetch: Fetch<'_, '_> = Fetch::new(&plan, file, &regions, range);
    fetch.vertex(n - range[0], &mut vertex);
    vertex
}

#[test]
fn every_format_is_fetched() {
    let memory: Vec<u8> = (1..65).collect();
    let s16 = |low: u8| f32::from(i16::from_le_bytes([low, low + 1]));
    let file = file(MIXED);
    let [zero, one] = [0, 1].map(|n| vertex(&file, &memory, [0, 1], n));
    assert_eq!(zero[1], [2.0, 3.0, 0.0, 1.0]);
    assert_eq!(zero[0], [s16(4), s16(6), 0.0, 1.0]);
    assert_eq!(zero[2], [f32::from_le_bytes([14, 15, 16, 17]), 0.0, 0.0, 1.0]);
    assert_eq!(one[1], [22.0, 23.0, 0.0, 1.0]);
    assert_eq!(one[0], [s16(24), s16(26), 0.0, 1.0]);
    assert_eq!(zero[3], [0.0; 4], "a default attribute");
    let far = u64::from(u32::MAX / 20 * 7);
    assert_eq!(vertex(&file, &memory, [far, far], far)[2], [0.0, 0.0, 0.0, 1.0], "no memory there");
    for format in 0..4 {
        for components in 1..=4 {
            let bits = format | (components - 1) << 2;
            let element = Element::from_register(bits as u8);
            let mut row = [[9.0; 4]; 2];
            let to = convert::Column { rows: &mut row, stride: 2, register: 1 };
            element.convert(
                &[0x80, 0xFF, 0x40, 0x41, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
                0,
                Selection::From(5),
                to,
            );
            let first = [-128.0, 128.0, -128.0, f32::from_le_bytes([0x80, 0xFF, 0x40, 0x41])][format as usize];
            assert_eq!((row[0], row[1][0]), ([9.0; 4], first), "format {format}");
            let missing = [0.0, 0.0, 0.0, 1.0];
            assert_eq!(row[1][components as usize..], missing[components as usize..]);
        }
    }
}

/// Attribute `wanted` of vertex `n`, by the rule alone: components align to their size inside the
/// vertex, padding of 4 to 16 bytes aligns to 4, and missing components are (0, 0, 0, 1).
fn slow(memory: &[u8], [offset, stride, n]: [usize; 3], list: &[usize], types: u64, wanted: usize) -> Vec4 {
    let mut inside = 0usize;
    let mut align = |to: usize, size: usize| {
        inside = inside.div_ceil(to) * to + size;
        inside - size
    };
    for &component in list {
        if component >= 12 {
            align(4, 4 * (component - 11));
            continue;
        }
        let (format, count) = (types >> (4 * component) & 3, (types >> (4 * component + 2) & 3) as usize + 1);
        let size = [1, 1, 2, 4][format as usize];
        let start = offset + stride * n + align(size, size * count);
        if component != wanted {
            continue;
        }
        let mut value = [0.0, 0.0, 0.0, 1.0];
        for (at, x) in value[..count].iter_mut().enumerate() {
            let bytes = &memory[start + at * size..];
            *x = match format {
                0 => f32::from(bytes[0] as i8),
                1 => f32::from(bytes[0]),
                2 => f32::from(i16::from_le_bytes([bytes[0], bytes[1]])),
                _ => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            };
        }
        return value;
    }
    unreachable!("the list has it")
}

#[test]
fn components_align_inside_the_vertex() {
    // Every byte differs from its neighbours, and no float is NaN.
    let memory: Vec<u8> = (0..1024u32).map(|n| (n * 7 % 128) as u8).collect();
    let mut checked = 0u64;
    for first in 0..16u32 {
        for second in 0..16u32 {
            let types = first | second << 4;
            let every = crate::testing::miri_or(15, 1);
            for padding in [None, Some(12), Some(13), Some(14), Some(15)] {
                let list: Vec<usize> = [Some(0), padding, Some(1)].into_iter().flatten().collect();
                let components = list.iter().rev().fold(0, |word, &id| word << 4 | id as u32);
                // None, odd, smaller than the vertex, as large as most, larger than any.
                for stride in [0, 3, 7, 16, 40] {
                    for offset in (0..16).step_by(every) {
                        let file = file(&[
                            (ATTRIBBUFFERS_LOC, START >> 3),
                            (ATTRIBBUFFERS_FORMAT_LOW, types),
                            (ATTRIBBUFFER0_OFFSET, offset),
                            (ATTRIBBUFFER0_OFFSET + 1, components),
                            (ATTRIBBUFFER0_OFFSET + 2, (list.len() as u32) << 28 | stride << 16),
                        ]);
                        for n in [0, 1, 5] {
                            let got = vertex(&file, &memory, [0, 5], n);
                            for (attribute, got) in got[..2].iter().enumerate() {
                                let at = [offset as usize, stride as usize, n as usize];
                                let want = slow(&memory, at, &list, types.into(), attribute);
                                assert_eq!(*got, want, "{attribute} of {n}: {types:x} {list:?} {at:?}");
                                checked += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(cfg!(miri) || checked > 600_000, "{checked}");
}

#[test]
fn every_integer_is_converted_in_every_component() {
    let step = crate::testing::miri_or(4_099, 1);
    for (format, size, values) in [(0u8, 1, 1 << 8), (1, 1, 1 << 8), (2, 2, 1 << 16)] {
        let of = |bits: u32| match format {
            0 => f32::from(bits as i8),
            1 => f32::from(bits as u8),
            _ => f32::from(bits as i16),
        };
        for components in 1..=4usize {
            let element = Element::from_register(format | (components as u8 - 1) << 2);
            for first in (0..values).step_by(step) {
                // Neighbours differ, and the last bits are no component's.
                let bits: [u32; 5] = std::array::from_fn(|n| (first + 85 * n as u32) % values);
                let memory: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
                let memory: Vec<u8> = memory.into_iter().chain([0xAA; 16]).collect();
                let mut rows = [[9.0; 4]; 3];
                let mut convert = |memory: &[u8], register| {
                    let to = convert::Column { rows: &mut rows, stride: 3, register };
                    element.convert(memory, 0, Selection::From(0), to);
                };
                convert(&memory, 0);
                // Memory that ends with the attribute.
                convert(&memory[..components * size], 1);
                element.convert_one(&memory, &mut rows[2]);
                let mut want = [0.0, 0.0, 0.0, 1.0];
                want.iter_mut().zip(bits).take(components).for_each(|(x, bits)| *x = of(bits));
                assert_eq!(rows, [want; 3], "format {format}, {components} components, {bits:x?}");
            }
        }
    }
}

#[test]
fn bytes_past_the_end_of_memory_are_zero() {
    let memory: Vec<u8> = (1..65).collect();
    let file = file(MIXED);
    // The float of vertex 0 is at 13.
    for (length, bytes) in [(17, [14, 15, 16, 17]), (16, [14, 15, 16, 0]), (14, [14, 0, 0, 0]), (13, [0; 4])] {
        assert_eq!(vertex(&file, &memory[..length], [0, 0], 0)[2][0], f32::from_le_bytes(bytes));
    }
    // Memory begins after the array: the slice is empty, whatever lies further on.
    let mut before = file.clone();
    before.write(ATTRIBBUFFERS_LOC, (START >> 3) - 8, 15);
    assert_eq!(vertex(&before, &memory, [0, 5], 5)[1], [0.0, 0.0, 0.0, 1.0]);
    // Vertex 4 is at 80 bytes from 64 bytes before memory, and its first byte follows.
    assert_eq!(vertex(&before, &memory, [4, 5], 5)[1][0], f32::from(memory[5 * 20 - 64 + 1]));
    assert_eq!(vertex(&file, &memory, [u64::from(u32::MAX); 2], u64::from(u32::MAX))[1][0], 0.0);
}

#[test]
fn registers_of_garbage_do_no_harm() {
    let memory: Vec<u8> = (1..65).collect();
    for word in [u32::MAX, 0xF0F0_F0F0, 0xCDEF_CDEF, 0x8000_0000, 0] {
        let writes: Vec<_> = (ATTRIBBUFFERS_LOC..=INDEXBUFFER_CONFIG).map(|id| (id, word)).collect();
        let file = file(&writes);
        for n in [0, 1, u64::from(u32::MAX)] {
            vertex(&file, &memory, [0, n], n);
            vertex(&file, &memory, [n, n], n);
        }
    }
}

#[test]
fn indices_have_one_or_two_bytes() {
    let memory: Vec<u8> = (1..65).collect();
    let regions = [(START, &memory[..])];
    let memory = Regions(&regions);
    for (config, expected) in [(2, [3, 4]), (0x8000_0002, [0x0403, 0x0605])] {
        let file = file(&[(ATTRIBBUFFERS_LOC, START >> 3), (INDEXBUFFER_CONFIG, config)]);
        let indices = indices::Indices::new(&file, &memory, 2);
        let mut ids = Vec::new();
        indices.consecutive(0..2, 0, 0, &mut ids);
        assert_eq!(
            (ids, [0, 1].map(|n| indices.get(n)), indices.range()),
            (expected.to_vec(), expected, Some(expected))
        );
    }
    // The last index is half there, the others are missing.
    let file = file(&[(ATTRIBBUFFERS_LOC, START >> 3), (INDEXBUFFER_CONFIG, 0x8000_003D)]);
    let indices = indices::Indices::new(&file, &memory, 4);
    let (mut list, mut ids) = (indices::VertexList::default(), Vec::new());
    assert_eq!(indices.range(), Some([0, 0x3F3E]));
    for _ in 0..2 {
        list.collect(&indices, 0);
        ids.clear();
        indices.listed(0..4, &list, 2, &mut ids);
        assert_eq!((&list.vertices[..], &ids[..]), (&[0x3F3E, 0x40, 0][..], &[2, 3, 4, 4][..]));
    }
    indices.consecutive(1..4, 0, 0, &mut ids);
    assert_eq!(ids[4..], [0x40, 0, 0]);
}
