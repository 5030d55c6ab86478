use super::*;

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

/// Attribute 1 is two s8, 0 is two s16 after a byte of alignment, then a word of padding, 2 is one
/// f32.
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
    Fetch::new(&plan, base(file), &Attributes::default(), &regions, range).vertex(n - range[0], &mut vertex);
    vertex
}

#[test]
fn every_format_is_fetched() {
    let memory: Vec<u8> = (1..65).collect();
    let s16 = |low: u8| f32::from(i16::from_le_bytes([low, low + 1]));
    let file = file(MIXED);
    let [zero, one] = [0, 1].map(|n| vertex(&file, &memory, [0, 1], n));
    assert_eq!(zero[1], [2.0, 3.0, 0.0, 1.0]);
    assert_eq!(zero[0], [s16(5), s16(7), 0.0, 1.0]);
    assert_eq!(zero[2], [f32::from_le_bytes([13, 14, 15, 16]), 0.0, 0.0, 1.0]);
    assert_eq!(one[1], [22.0, 23.0, 0.0, 1.0]);
    assert_eq!(one[0], [s16(25), s16(27), 0.0, 1.0]);
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

#[test]
fn bytes_past_the_end_of_memory_are_zero() {
    let memory: Vec<u8> = (1..65).collect();
    let file = file(MIXED);
    // The float of vertex 0 is at 12.
    for (length, bytes) in [(16, [13, 14, 15, 16]), (15, [13, 14, 15, 0]), (13, [13, 0, 0, 0]), (12, [0; 4])] {
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
