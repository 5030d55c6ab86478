//! Behaviour that emulators have implemented wrongly, one test each.

use super::*;
use crate::isa::Stage;
use crate::state::Exit;

const BOOL: u16 = offset::BOOLUNIFORM;
const INT: u16 = offset::INTUNIFORM_I0;
const FLOAT: u16 = offset::FLOATUNIFORM_DATA0;
const FLOAT_INDEX: u16 = offset::FLOATUNIFORM_INDEX;

/// Citra#7367 and citra#7381: which writes reach the fourth unit, and when.
#[test]
fn mirroring_to_the_fourth_unit() {
    let mut upload = List::default();
    upload
        .write(VSH + BOOL, 0x7FFF_1234)
        .write(VSH + INT + 2, 0x0403_0201)
        .float24(VSH, 10, &[[1.0, 2.0, 3.0, 4.0]])
        .shader(VSH, "mov o3, v2", 5, 0x8);
    // Mirroring is on at power-on.
    let console = play(&upload, &[], &[]);
    let state = console.gpu.state();
    for unit in [&state.vertex, &state.geometry] {
        assert_eq!((unit.uniforms.b, unit.uniforms.i[2]), (0x1234, [1, 2, 3, 4]));
        assert_eq!(unit.uniforms.c[10], [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(unit.code[..2], state.vertex.code[..2]);
        assert_ne!((unit.code[0], unit.opdescs[0]), (0, 0));
    }
    let both = |at| [VSH + at, GSH + at].map(|id| console.gpu.read(id));
    assert_eq!(both(BOOL), [0x7FFF_1234; 2]);
    assert_eq!(both(offset::OUTMAP_MASK), [8; 2]);
    // Registers that each unit has for itself.
    assert_eq!(both(offset::INPUTBUFFER_CONFIG), [0xA000_0004, 0xA000_0001]);
    assert_eq!(both(offset::ATTRIBUTES_PERMUTATION_LOW), [0x7654_3210, 0]);
    let mut entry = upload.clone();
    entry.write(VSH + offset::ENTRYPOINT, 0x7FFF_0001);
    assert_eq!(play(&entry, &[], &[]).gpu.read(GSH + offset::ENTRYPOINT), 0);

    // No write reaches a unit with a configuration of its own or a geometry program; and none goes
    // back.
    for (geometry, own) in [(0, 1), (2, 0), (2, 1), (1, 0)] {
        let mut list = List::default();
        list.write(GEOSTAGE_CONFIG, geometry).write(VSH_COM_MODE, own);
        list.0.extend(&upload.0);
        let state = play(&list, &[], &[]).gpu.state();
        assert_eq!((state.geometry.uniforms.b, state.geometry.code[0], state.vertex.uniforms.b), (0, 0, 0x1234));
        assert_eq!(state.registers.output_mask(Stage::Geometry), 0);
    }
    let mut back = List::default();
    back.write(GSH + BOOL, 7).float24(GSH, 1, &[[5.0; 4]]);
    let console = play(&back, &[], &[]);
    assert_eq!((console.uniforms(VSH).b, console.uniforms(VSH).c[1]), (0, [0.0; 4]));
    assert_eq!((console.uniforms(GSH).b, console.uniforms(GSH).c[1]), (7, [5.0; 4]));
}

/// The hardware sets b15 of the geometry unit after each run; it stays until it is written.
#[test]
fn b15_after_a_geometry_run() {
    let source = ".gsh point c0\nifu b15\nmov o0, v0.yyyy\n.else\nmov o0, v0\n.end\nsetemit 0, prim\nemit";
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, source, 1, 1).write(GSH + BOOL, 0x7FFF_0001).arrays();
    let mut console = play(&list, &[5.0, 6.0], &[]);
    assert_eq!(console.xs(), [[5.0, 0.0, 0.0], [0.0; 3]], "the second run reads it");
    assert_eq!((console.uniforms(GSH).b, console.uniforms(VSH).b), (0x8001, 0));
    assert_eq!(console.gpu.read(GSH + BOOL), 0x7FFF_8001);
    let mut b = |id, value, mask| {
        let mut list = List::default();
        list.masked(id, value, mask);
        console.execute(&list).uniforms(GSH).b
    };
    assert_eq!(b(GSH + INT, 1, 15), 0x8001, "another register leaves it");
    assert_eq!(b(GSH + BOOL, 0x7FFF_0002, 0b0001), 0x8002, "a write of other bytes leaves it");
    assert_eq!(b(GSH + BOOL, 0x7FFF_0002, 0b1111), 0x0002);
}

/// The output registers of the mask fill slots in order, whatever the totals.
#[test]
fn outmap_compaction_and_totals_that_disagree() {
    let source = "mov o2, v0\nmov o5, v1\nmov o9, v2";
    let mut list = plain();
    list.shader(VSH, source, 3, 1 << 2 | 1 << 5 | 1 << 9).outmap(3).arrays();
    let console = play(&list, &[0.25; 3], &[]);
    let v = console.memory.triangles[0][0];
    assert_eq!((v[0], v[8], v[12]), (0.25, 0.3125, 0.375));
    // Fewer slots than registers in the mask, and more.
    for (total, mask, want) in [(1, 0x224, [0.25, 1.0, 1.0]), (3, 0x204, [0.25, 0.375, 1.0])] {
        let mut list = list.clone();
        list.outmap(total).write(VSH + offset::OUTMAP_MASK, mask).arrays();
        let v = play(&list, &[0.25; 3], &[]).memory.triangles[1][0];
        assert_eq!([v[0], v[8], v[12]], want);
    }
    // The first total is the number of vectors that the geometry unit takes; missing ones are
    // zeros.
    list.geometry(0, 0, 4).shader(GSH, TRIANGLE, 4, 1).write(VSH_OUTMAP_TOTAL2, 0).arrays();
    let console = play(&list, &[0.25; 3], &[]);
    assert_eq!(console.memory.report.geometry_runs, 3);
    let v = console.gpu.state().geometry.unit.v;
    assert_eq!([v[0], v[1], v[2], v[3]], [[0.25, 0.0, 0.0, 1.0], [0.3125; 4], [0.375; 4], [0.0; 4]]);
}

/// Attribute n goes to the register of nibble n; the inverse permutation would differ.
#[test]
fn permutation_is_attribute_to_register() {
    let mut list = plain();
    // Attribute 0 to v2, 1 to v0, 2 to v1.
    list.shader(VSH, "mov o0, v0\nmov o1, v1", 3, 0b11).write(VSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x102);
    list.arrays();
    let v = play(&list, &[0.5; 3], &[]).memory.triangles[0][0];
    assert_eq!((v[0], v[8]), (0.5625, 0.625));
    // Of two attributes in one register the later one counts. A register without an attribute
    // retains its value.
    list.write(VSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x000).arrays();
    let console = play(&list, &[0.5; 3], &[]);
    let v = console.memory.triangles[1][0];
    assert_eq!((v[0], v[8]), (0.625, 0.625));
    assert_eq!(console.gpu.state().vertex.unit.v[2][0], 0.5, "from the previous draw");
}

/// Citra#6966.
#[test]
fn unset_semantics_are_one() {
    let mut list = plain();
    list.run(SH_OUTMAP_TOTAL, &[2, 0x1F1F_0100, 0x1F1F_1F1F]).arrays();
    let v = play(&list, &[7.0; 3], &[]).memory.triangles[0][0];
    assert_eq!(v[..2], [7.0, 0.0]);
    assert_eq!(v[2..], [1.0; 22]);
}

/// Citra#2709: booleans and integers take the register's value, queues the written word.
#[test]
fn bool_and_int_writes_are_merged_and_float_words_are_raw() {
    let mut list = List::default();
    list.write(VSH + BOOL, 0x1234).masked(VSH + BOOL, 0xABCD, 0b0010);
    list.write(VSH + INT, 0x0403_0201).masked(VSH + INT, 0x1413_1211, 0b0101);
    let [a, b, c] = words24([1.0, 2.0, 3.0, 4.0]);
    list.write(VSH + FLOAT_INDEX, 3).masked(VSH + FLOAT, a, 1).masked(VSH + FLOAT + 1, b, 0).masked(VSH + FLOAT, c, 8);
    list.masked(VSH + offset::CODETRANSFER_DATA0, 0x8800_0000, 1).masked(VSH + offset::OPDESCS_DATA0, 0x36F, 2);
    let console = play(&list, &[], &[]);
    let uniforms = console.uniforms(VSH);
    assert_eq!((uniforms.b, uniforms.i[0]), (0xAB34, [0x11, 2, 0x13, 4]));
    assert_eq!(uniforms.c[3], [1.0, 2.0, 3.0, 4.0]);
    let state = console.gpu.state().vertex;
    assert_eq!((state.code[0], state.opdescs[0]), (0x8800_0000, 0x36F));
}

/// Azahar#2412: the index increments by itself, persists from list to list, and stops after the
/// last uniform.
#[test]
fn uniform_index_increments_and_stops_at_96() {
    let mut list = List::default();
    list.float24(VSH, 94, &[[1.0; 4]]);
    let mut console = play(&list, &[], &[]);
    let send = |console: &mut Console, value: f32| {
        let mut list = List::default();
        list.queue(VSH + FLOAT, &words24([value; 4]));
        console.execute(&list);
        (console.gpu.state().vertex.float_index, console.gpu.state().geometry.float_index)
    };
    assert_eq!(send(&mut console, 2.0), (96, 96), "the fourth unit's own index increments too");
    assert_eq!(send(&mut console, 3.0), (96, 96));
    assert_eq!(console.uniforms(VSH).c[93..], [[0.0; 4], [1.0; 4], [2.0; 4]]);
    for index in [0x7F, 0x80, 0xE0, 0xFF] {
        let mut list = List::default();
        list.float24(VSH, index, &[[9.0; 4]; 3]);
        assert_eq!(u32::from(console.execute(&list).gpu.state().vertex.float_index), index);
    }
    assert!(console.uniforms(VSH).c.iter().all(|c| c[0] < 9.0));
}

/// Software writes 0x7FFF above the entry point, which has only the bits that its memory needs.
#[test]
fn entry_points_have_an_upper_half() {
    let mut list = plain();
    list.code(VSH, 0x1FE, &program(".proc main\nmov o0, v1\nend\n.end"));
    list.write(VSH + offset::ENTRYPOINT, 0x7FFF_01FE).write(GSH + offset::ENTRYPOINT, u32::MAX).arrays();
    let mut console = play(&list, &[1.0; 3], &[]);
    assert_eq!(console.xs(), [[1.0625; 3]]);
    assert_eq!(console.memory.report.vertex_exit, Exit::End);
    assert_eq!(console.gpu.read(VSH + offset::ENTRYPOINT), 0x01FF_01FE, "bits 9 and up do not exist");
    assert_eq!(console.gpu.read(GSH + offset::ENTRYPOINT), 0x0FFF_0FFF);
    list.write(VSH + offset::ENTRYPOINT, 0xFFFF_FFFE).arrays();
    assert_eq!(play(&list, &[1.0; 3], &[]).xs(), [[1.0625; 3]; 2]);
}

/// Registers that read as 0 after a write (GBATEK).
#[test]
fn index_data_and_end_registers_read_as_zero() {
    let mut gpu = Gpu::default();
    for block in [GSH, VSH] {
        for at in 0..BLOCK {
            let _ = gpu.write(block + at, u32::MAX, 15);
        }
        let read: Vec<u16> = (0..BLOCK).filter(|at| gpu.read(block + at) == 0).collect();
        let want: Vec<u16> = [0x0F].into_iter().chain(0x10..=0x18).chain(0x1B..=0x23).chain(0x25..=0x2D).collect();
        assert_eq!(read, want);
    }
}

/// Citra#2865: outputs are reused before the geometry unit, and vertex counts are not indices.
#[test]
fn vertex_cache_sits_before_geometry_and_never_sees_counts() {
    let mut list = plain();
    list.geometry(1, 1, 1).shader(GSH, VARIABLE, 1, 1).elements();
    // The counts 3 and 4 are also valid indices, one of them cached.
    let indices = [3, 0, 1, 3, 4, 3, 4, 0, 1];
    let mut console = play(&list, &[10.0, 11.0, 12.0, 13.0, 14.0], &indices);
    assert_eq!(console.xs(), [[10.0, 11.0, 13.0], [13.0, 14.0, 10.0]]);
    assert_eq!(console.memory.fetched, [0, 1, 3, 4]);
    let report = console.memory.report;
    assert_eq!((report.vertices, report.reused, report.geometry_runs), (4, 3, 2));
    let uncached = play_with(&list, &[10.0, 11.0, 12.0, 13.0, 14.0], &indices, 0).memory;
    assert_eq!((uncached.fetched, uncached.report.reused), (vec![0, 1, 3, 3, 4, 0, 1], 0));
}

/// Variable and fixed mode: c1 to c3 form a triangle.
pub(crate) const VARIABLE: &str = ".gsh point c0
setemit 0
mov o0, c1
emit
setemit 1
mov o0, c2
emit
setemit 2, prim
mov o0, c3
emit";

/// Citra#7381: *Tales of the Abyss* never writes the register.
#[test]
fn geometry_input_config_at_power_on() {
    let gpu = Gpu::default();
    assert_eq!(gpu.read(GSH + offset::INPUTBUFFER_CONFIG), 0xA000_0001);
    let mut list = plain();
    list.geometry(0, 0, 1).code(GSH, 0, &program(TRIANGLE)).write(GSH + offset::OUTMAP_MASK, 1);
    list.write(GSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x10).arrays();
    let mut console = play(&list, &[1.0, 2.0, 3.0, 4.0], &[]);
    assert_eq!(console.xs(), [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]], "two attributes");
}

/// As in M2's 3D Classics.
#[test]
fn geometry_program_without_end_stops_at_the_end_of_memory() {
    let source = format!("{TRIANGLE}\nrjmpu !b1, 4090");
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, &source, 3, 1);
    let nop = assemble(".proc main\nnop\n.end").unwrap().shbin.code[0];
    list.write(GSH + offset::CODETRANSFER_INDEX, 4088).queue(GSH + offset::CODETRANSFER_DATA0, &[nop; 20]).arrays();
    let mut console = play(&list, &[1.0, 2.0, 3.0], &[]);
    assert_eq!(console.xs(), [[1.0, 2.0, 3.0]]);
    assert_eq!(console.memory.report.geometry_exit, Exit::PastEnd);
    assert_eq!(console.uniforms(GSH).b, 0x8000, "such a run counts too");
}

/// Undefined on hardware; every known emulator applies such writes at once.
#[test]
fn vertex_configuration_written_during_a_draw_applies_at_once() {
    let mut list = plain();
    list.write(START_DRAW_FUNC0, 0).arrays();
    list.write(VSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x01)
        .code(VSH, 0, &program("add o0, v0, v0\nmov o1, v1"))
        .arrays();
    assert_eq!(play(&list, &[1.0; 3], &[]).xs(), [[1.0; 3], [2.125; 3]]);
}
