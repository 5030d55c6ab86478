//! What draws note: each note with a case that has it and one that has not.

use super::*;

const START: u32 = 0x1000_0000;

/// A host whose memory is zeros.
#[derive(Default)]
struct Guest {
    notes: Vec<Notes>,
}

impl Sink for Guest {
    fn triangles(&mut self, _: &[f32], _: &[[u32; 3]]) {}
}

impl Host for Guest {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let report = gpu.draw(draw, &Regions(&[(START, &[0; 256])]), &DrawOptions::default(), self);
        self.notes.push(report.notes);
    }
}

/// The notes of each draw of a list.
fn notes_of(list: &List) -> Vec<Notes> {
    let [on, off] = [true, false].map(|is_on| {
        let (mut gpu, mut guest) = (Gpu::new(engine(BackendChoice::Oracle)), Guest::default());
        gpu.set_diagnostics(is_on);
        gpu.execute(&list.0, &mut guest);
        guest.notes
    });
    assert!(off.iter().all(|notes| notes.is_empty()), "off");
    on
}

/// Ends the list with a draw of three vertices. The array's components are two attributes of one float
/// and `others`, in `stride` bytes.
fn draw(list: &mut List, others: u32, stride: u32) -> &mut List {
    let count = 2 + others.checked_ilog2().map_or(0, |bits| bits / 4 + 1);
    list.write(ATTRIBBUFFERS_LOC, START >> 3)
        .write(ATTRIBBUFFERS_FORMAT_LOW, 0x33)
        .write(ATTRIBBUFFER0_OFFSET, 0)
        .write(ATTRIBBUFFER0_OFFSET + 1, others << 8 | 0x10)
        .write(ATTRIBBUFFER0_OFFSET + 2, count << 28 | stride << 16)
        .write(NUMVERTICES, 3)
        .arrays()
}

/// The notes of a draw with this vertex program of two attributes.
fn notes_with(source: &str, then: impl Fn(&mut List)) -> Notes {
    let mut list = plain();
    list.shader(VSH, source, 2, 0b11);
    then(&mut list);
    draw(&mut list, 0, 8);
    notes_of(&list)[0]
}

#[test]
fn a_stride_is_the_sum_of_its_components() {
    let notes = |others, stride| notes_of(draw(&mut plain(), others, stride))[0];
    assert_eq!(notes(0, 8), Notes::default());
    assert_eq!(notes(0, 12), Notes::STRIDE);
    assert_eq!(notes(0, 0), Notes::STRIDE);
    assert_eq!(notes(0xC, 12), Notes::default(), "padding of four bytes");
    assert_eq!(notes(0xC, 8), Notes::STRIDE);
}

#[test]
fn a_uniform_that_is_read_was_written() {
    const READS: &str = "add o0, c5, v0\nmov o1, v1";
    assert_eq!(notes_with(READS, |_| ()), Notes::UNIFORM);
    assert_eq!(notes_with(READS, |list| _ = list.float24(VSH, 4, &[[1.0; 4]])), Notes::UNIFORM);
    assert_eq!(notes_with(READS, |list| _ = list.float24(VSH, 5, &[[0.0; 4]])), Notes::default());
    // One word at a time, of which two bytes count.
    let masked = |list: &mut List| {
        list.write(VSH + offset::FLOATUNIFORM_INDEX, 5);
        (0..3).for_each(|_| _ = list.masked(VSH + offset::FLOATUNIFORM_DATA0, 0, 3));
    };
    assert_eq!(notes_with(READS, masked), Notes::default());
    assert_eq!(notes_with("add o0, c5[a0.x], v0\nmov o1, v1", |_| ()), Notes::default(), "any register");
}

#[test]
fn a_state_brings_uniforms() {
    let mut list = plain();
    list.shader(VSH, "add o0, c5, v0\nmov o1, v1", 2, 0b11);
    let mut gpu = Gpu::new(engine(BackendChoice::Oracle));
    gpu.set_diagnostics(true);
    gpu.state_mut().vertex.uniforms.c[5] = [0.0, 0.0, 0.0, 1.0];
    let mut guest = Guest::default();
    gpu.execute(&draw(&mut list, 0, 8).0, &mut guest);
    assert_eq!(guest.notes, [Notes::default()]);
}

#[test]
fn vertices_fill_uniforms_of_the_geometry_unit() {
    let notes = |misc0, uniforms: &dyn Fn(&mut List)| {
        let mut list = plain();
        list.shader(GSH, ".gsh point c0\nmov o0, c7\nmov o1, v0\nsetemit 2, prim\nemit", 1, 0b11);
        uniforms(&mut list);
        list.geometry(misc0, 0, 2);
        notes_of(draw(&mut list, 0, 8))[0]
    };
    assert_eq!(notes(0, &|_| ()), Notes::UNIFORM, "point mode");
    assert_eq!(notes(0, &|list| _ = list.float24(GSH, 7, &[[0.0; 4]])), Notes::default());
    let fixed = |first: u32| 2 | 2 << 8 | 1 << 12 | first << 16;
    assert_eq!(notes(fixed(4), &|_| ()), Notes::default());
    assert_eq!(notes(fixed(8), &|_| ()), Notes::UNIFORM);
}

#[test]
fn a_mapped_output_is_written() {
    assert_eq!(notes_with("mov o0, v0", |_| ()), Notes::OUTPUT);
    assert_eq!(notes_with("mov o0, v0\nmov o1.xyz, v1", |_| ()), Notes::OUTPUT, "a component");
    let unmapped = |list: &mut List| _ = list.write(SH_OUTMAP_O0 + 1, 0x1F0A_0908);
    assert_eq!(notes_with("mov o0, v0\nmov o1.xyz, v1", unmapped), Notes::default());
    assert_eq!(notes_with("mov o0, v0", |list| _ = list.outmap(1)), Notes::default());
}

#[test]
fn the_map_names_a_position() {
    let with = |words: &'static [u32]| {
        notes_with("mov o0, v0\nmov o1, v1", move |list| {
            words.iter().enumerate().for_each(|(n, word)| _ = list.write(SH_OUTMAP_O0 + n as u16, *word));
        })
    };
    assert_eq!(with(&[0x1F1F_1F1F, 0x0B0A_0908]), Notes::POSITION, "a colour alone");
    assert_eq!(with(&[0x1F1F_1F1F, 0x1F1F_001F]), Notes::default(), "x");
    assert_eq!(with(&[0x031F_1F1F, 0x0B0A_0908]), Notes::default(), "w");
}

#[test]
fn an_attribute_has_an_array_or_a_default() {
    let three = |source: &str, then: &dyn Fn(&mut List)| {
        notes_with(source, |list| {
            list.shader(VSH, source, 3, 0b11);
            then(list);
        })
    };
    assert_eq!(three(PLAIN, &|_| ()), Notes::default(), "it is not read");
    const READS: &str = "mov o0, v2\nmov o1, v1";
    assert_eq!(three(READS, &|_| ()), Notes::ATTRIBUTE);
    let default = |list: &mut List| _ = list.write(FIXEDATTRIB_INDEX, 2).immediate(&[[0.0; 4]]);
    assert_eq!(three(READS, &default), Notes::default());
    assert_eq!(notes_with(READS, |_| ()), Notes::ATTRIBUTE, "no attribute goes to v2");
}

#[test]
fn immediate_mode_supplies_the_first_attributes() {
    let notes = |count: u32, default: &dyn Fn(&mut List)| {
        let mut gpu = Gpu::new(engine(BackendChoice::Oracle));
        gpu.set_diagnostics(true);
        let mut list = plain();
        default(list.write(VSH_NUM_ATTR, count - 1));
        gpu.execute(&list.0, &mut Guest::default());
        gpu.draw_immediate(&[vertex(1.0)], &mut Guest::default()).notes
    };
    assert_eq!(notes(2, &|_| ()), Notes::default());
    assert_eq!(notes(1, &|_| ()), Notes::ATTRIBUTE);
    let default = |list: &mut List| _ = list.write(FIXEDATTRIB_INDEX, 1).immediate(&[[0.0; 4]]);
    assert_eq!(notes(1, &default), Notes::default());
}

#[test]
fn geometry_code_is_replaced_while_the_unit_is_off() {
    let mut list = plain();
    list.geometry(0, 0, 2).shader(GSH, TRIANGLE, 3, 1).outmap(1);
    draw(&mut list, 0, 8);
    // The same words again, then others, then others with the unit off.
    list.shader(GSH, TRIANGLE, 3, 1).arrays();
    list.shader(GSH, ".gsh point c0\nnop\nmov o0, v0", 3, 1).arrays().arrays();
    list.write(GEOSTAGE_CONFIG, 0).write(GEOSTAGE_CONFIG, 2).shader(GSH, TRIANGLE, 3, 1).arrays();
    let replaced: Vec<bool> = notes_of(&list).iter().map(|notes| notes.contains(Notes::GEOMETRY_CODE)).collect();
    assert_eq!(replaced, [false, false, true, false, false]);
}

#[test]
fn memory_has_the_arrays_and_the_indices() {
    // The guest has 256 bytes. Three vertices of 8 bytes from this one on, then their indices.
    let notes = |offset: u32, first: u32, indices: Option<u32>| {
        let mut list = plain();
        draw(&mut list, 0, 8);
        list.write(ATTRIBBUFFER0_OFFSET, offset).write(VERTEX_OFFSET, first);
        match indices {
            Some(config) => list.write(INDEXBUFFER_CONFIG, config).elements(),
            None => list.arrays(),
        };
        notes_of(&list)[1]
    };
    const WIDE: u32 = 1 << 31;
    assert_eq!(notes(232, 0, None), Notes::default(), "the last bytes");
    assert_eq!(notes(233, 0, None), Notes::MEMORY);
    assert_eq!(notes(0, 29, None), Notes::default());
    assert_eq!(notes(0, 30, None), Notes::MEMORY);
    assert_eq!(notes(0x0FFF_FFF0, 0, None), Notes::MEMORY, "none of the bytes");
    assert_eq!(notes(0, 0, Some(253)), Notes::default(), "three indices");
    assert_eq!(notes(0, 0, Some(254)), Notes::MEMORY);
    assert_eq!(notes(0, 0, Some(250 | WIDE)), Notes::default(), "of two bytes");
    assert_eq!(notes(0, 0, Some(251 | WIDE)), Notes::MEMORY);
    // The address exceeds 32 bits.
    let mut list = plain();
    draw(&mut list, 0, 8);
    list.write(ATTRIBBUFFERS_LOC, 0x1FFF_FFFE).write(ATTRIBBUFFER0_OFFSET, 0x100).arrays();
    assert_eq!(notes_of(&list)[1], Notes::MEMORY);
}

#[test]
fn notes_are_texts() {
    assert_eq!(Notes::default().to_string(), "");
    let both = (Notes::STRIDE | Notes::OUTPUT).to_string();
    assert_eq!(both, "a stride differs from the sum of the components; a mapped output is never written");
    let all = Notes(127).to_string();
    assert!(all.split("; ").all(|text| text.len() > 10) && all.matches("; ").count() == 6, "{all}");
}
