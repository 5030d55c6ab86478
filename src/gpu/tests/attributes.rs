//! Where an attribute comes from: every combination of array, bit in the mask of default attributes, written default,
//! and kind of draw. The expectations are the table of docs/gpu.md, Sources of an attribute.

use super::*;
use crate::gpu::Memory as GuestMemory;

const PAGE: &str = include_str!("../../../docs/gpu.md");
const START: u32 = 0x1000_0000;
/// What the array has for attribute 1, and what is written as its default.
const ARRAY: f32 = 0.25;
const WRITTEN: f32 = 0.75;

/// Three vertices of two floats, then three indices.
struct Guest {
    memory: Vec<u8>,
    /// The red of the first vertex, which attribute 1 gives.
    red: Option<f32>,
}

impl TriangleSink for Guest {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.red.get_or_insert(vertices[0][8]);
    }
}

impl Host for Guest {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let memory = self.memory.clone();
        gpu.draw(draw, &Regions(&[(START, &memory)]), &DrawOptions::default(), self);
    }
}

/// The red of a draw that `end` triggers.
fn red(backend: BackendChoice, [array, mask, written]: [bool; 3], end: impl Fn(&mut List)) -> f32 {
    let mut list = plain();
    if written {
        list.write(FIXEDATTRIB_INDEX, 1).immediate(&[[WRITTEN; 4]]);
    }
    list.write(ATTRIBBUFFERS_LOC, START >> 3)
        .write(ATTRIBBUFFERS_FORMAT_LOW, 0x33)
        .write(ATTRIBBUFFERS_FORMAT_HIGH, 1 << 28 | u32::from(mask) << 17)
        .write(ATTRIBBUFFER0_OFFSET, 0)
        .write(ATTRIBBUFFER0_OFFSET + 1, 0x10)
        .write(ATTRIBBUFFER0_OFFSET + 2, (1 + u32::from(array)) << 28 | 8 << 16)
        .write(INDEXBUFFER_CONFIG, 24)
        .write(NUMVERTICES, 3)
        .write(VERTEX_OFFSET, 0);
    end(&mut list);
    let numbers = [0.0f32, ARRAY, 0.5, ARRAY, 1.0, ARRAY];
    let memory = numbers.iter().flat_map(|x| x.to_le_bytes()).chain([0, 1, 2]).collect();
    let mut guest = Guest { memory, red: None };
    Gpu::new(engine(backend)).execute(&list.0, &mut guest);
    guest.red.expect("a triangle")
}

#[test]
fn every_combination_of_sources_has_its_row() {
    let (_, table) = PAGE.split_once("| array | mask bit | default written |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut met = std::collections::BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let case = [0, 1, 2].map(|n| cells[n] == "yes");
        for backend in [BackendChoice::NativeRequired, BackendChoice::NoNative, BackendChoice::Oracle] {
            let drawn = [
                red(backend, case, |list| _ = list.arrays()),
                red(backend, case, |list| _ = list.elements()),
                red(backend, case, |list| {
                    list.write(FIXEDATTRIB_INDEX, 0xF).immediate(&[[1.0; 4], [2.0; 4], [3.0; 4]]);
                }),
            ];
            let name = |value: f32| match value {
                ARRAY => "array",
                WRITTEN => "default",
                0.0 => "0",
                _ => "something else",
            };
            assert_eq!(drawn.map(name)[..], cells[3..6], "{row} {backend:?}");
        }
        met.insert(case);
    }
    assert_eq!(met.len(), 8, "every combination");
}

#[test]
fn an_empty_rest_of_a_region_supplies_nothing() {
    let (first, second) = ([1u8; 8], [2u8; 8]);
    let regions = [(0x1000_0000, &first[..]), (0x1000_0000 + 8, &[][..]), (0x1000_0000 + 8, &second[..])];
    assert_eq!(Regions(&regions).bytes(0x1000_0000 + 8, 4), [2; 4]);
    assert!(Regions(&regions).bytes(0x1000_0000 + 16, 4).is_empty());
}
