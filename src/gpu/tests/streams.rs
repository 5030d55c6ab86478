//! Whole command streams: uploads, then draws, on every path of the vertices.

use super::traps::VARIABLE;
use super::*;
use crate::state::Exit;
use crate::testing::miri_or;

#[test]
fn point_mode_runs_on_each_full_set_of_attributes() {
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, TRIANGLE, 3, 1).outmap(1).topology(Topology::Geometry).arrays();
    let mut console = play(&list, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &[]);
    assert_eq!(console.xs(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert_eq!(console.memory.report.geometry_runs, 2);
    // The next draw discards the seventh vertex.
    let mut again = List::default();
    again.arrays();
    assert_eq!(console.execute(&again).xs(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let mut indexed = List::default();
    indexed.elements();
    console.memory.indices = vec![4, 3, 2];
    assert_eq!(console.execute(&indexed).xs(), [[5.0, 4.0, 3.0]], "an indexed draw discards it too");
    // The geometry unit has a permutation of its own.
    again.write(GSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x012);
    again.0.rotate_right(2);
    assert_eq!(console.execute(&again).xs(), [[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]]);
}

#[test]
fn point_mode_splits_vertices_between_runs() {
    let mut list = plain();
    // Two vectors per vertex, three per run.
    list.geometry(0, 0, 2).shader(GSH, TRIANGLE, 3, 1).arrays();
    let mut console = play(&list, &[1.0, 2.0, 3.0, 4.0], &[]);
    assert_eq!(console.xs(), [[1.0, 1.0625, 2.0], [2.0625, 3.0, 3.0625]]);
    assert_eq!(console.gpu.state().geometry_input.count, 2);
    // Sixteen vectors per vertex, one per run: as many runs as vectors.
    list.write(VSH_OUTMAP_TOTAL1, 15).write(GSH + offset::INPUTBUFFER_CONFIG, 0).arrays();
    assert_eq!(play(&list, &[1.0], &[]).memory.report.geometry_runs, 16);
}

#[test]
fn variable_mode_stores_count_and_vertices_in_uniforms() {
    let mut list = plain();
    // Two main vertices store two vectors each, the others one.
    list.geometry(1, 1, 2).shader(GSH, VARIABLE, 1, 1).write(GSH + offset::INPUTBUFFER_CONFIG, 0x0800_0100).elements();
    let indices = [4, 0, 1, 2, 3, 1, 3, 0, 5, 2];
    let mut console = play(&list, &[10.0, 11.0, 12.0, 13.0], &indices);
    assert_eq!(console.xs(), [[10.0, 10.0625, 11.0], [13.0, 13.0625, 11.0], [13.0, 13.0625, 11.0]]);
    let c = console.uniforms(GSH).c.map(|c| c[0]);
    // The second primitive has one vertex, the third none. Of the fourth one vertex has arrived.
    assert_eq!(console.memory.report.geometry_runs, 3);
    assert_eq!(c[..8], [5.0, 12.0, 12.0625, 11.0, 11.0625, 12.0, 13.0, 0.0]);
    assert_eq!(console.gpu.state().geometry.float_index, 0, "the upload index is independent");
    // The fourth is discarded: the next stream begins with a count.
    console.memory.indices = vec![3, 0, 1, 2];
    let mut again = List::default();
    again.elements();
    assert_eq!(console.execute(&again).xs(), [[10.0, 10.0625, 11.0]]);
}

#[test]
fn variable_mode_without_indices_drops_all_vertices() {
    let mut list = plain();
    list.geometry(1, 1, 1).shader(GSH, VARIABLE, 1, 1).arrays();
    let mut console = play(&list, &[3.0, 1.0, 2.0, 3.0], &[]);
    let report = console.memory.report;
    assert_eq!((console.xs().len(), report.vertices, report.dropped, report.geometry_runs), (0, 4, 4, 0));
}

#[test]
fn variable_mode_writes_nothing_past_the_last_uniform() {
    let mut list = plain();
    list.shader(VSH, "mov o0, v0", 1, u32::MAX).geometry(1, 31, 16).shader(GSH, VARIABLE, 1, 1).elements();
    let indices: Vec<u32> = [300].into_iter().chain(0..300).chain([u32::MAX]).chain(0..300).collect();
    let vertices: Vec<f32> = (0..300).map(|n| n as f32).collect();
    let console = play(&list, &vertices, &indices);
    let c = &console.uniforms(GSH).c;
    assert_eq!((c[0][0], c[1][0], c[17][0], c[81][0], c[95][0]), (u32::MAX as f32, 0.0, 1.0, 5.0, 0.0));
    assert_eq!(console.memory.report.geometry_runs, 1);
}

#[test]
fn fixed_mode_fills_a_block_of_uniforms() {
    let source = VARIABLE.replace("c3", "c20").replace("c2\n", "c15\n").replace("c1\n", "c10\n");
    let mut list = plain();
    // Three vertices of two vectors each, at strides of five uniforms from c10 on.
    list.geometry(0x010A_4202, 0, 2).shader(GSH, &source, 1, 1).write(GSH + offset::INPUTBUFFER_CONFIG, 0x0800_0100);
    list.arrays();
    let mut console = play(&list, &[1.0, 2.0, 3.0, 4.0], &[]);
    assert_eq!(console.xs(), [[1.0, 2.0, 3.0]]);
    let c = console.uniforms(GSH).c.map(|c| c[0]);
    assert_eq!(c[9..23], [0.0, 4.0, 4.0625, 0.0, 0.0, 0.0, 2.0, 2.0625, 0.0, 0.0, 0.0, 3.0, 3.0625, 0.0]);
    // More vectors than the stride: the first ones are stored.
    list.write(GSH_MISC0, 0x010A_0202).arrays();
    let console = play(&list, &[1.0, 2.0, 3.0], &[]);
    assert_eq!(console.uniforms(GSH).c[10..13].iter().map(|c| c[0]).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    // Past the last uniform.
    list.write(GSH_MISC0, 0x015E_FF02).arrays();
    assert_eq!(play(&list, &[1.0; 40], &[]).memory.report.geometry_runs, 2);
}

#[test]
fn a_draw_ends_at_the_first_geometry_run_without_fuel() {
    // After its triangle, a run whose first vertex is below 0 does not end.
    let source = format!("{TRIANGLE}\ncmp c0, gt, gt, v0\nrjmpc cmp.x, 10");
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, &source, 3, 1).arrays().elements();
    let mut console = play(&list, &[1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let report = console.memory.report;
    assert_eq!((report.vertex_exit, report.geometry_exit, report.geometry_runs), (Exit::End, Exit::Fuel, 2));
    assert_eq!(console.xs(), [[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0], [1.0, 2.0, 3.0], [-4.0, 5.0, 6.0]]);
}

#[test]
fn no_run_of_a_vertex_follows_one_without_fuel() {
    // Each of a vertex's three vectors starts a run, which does not end below 0.
    let source = ".gsh point c0\ncmp c0, gt, gt, v0\nagain:\njmpc cmp.x, again";
    let mut list = plain();
    list.geometry(0, 0, 3).shader(GSH, source, 1, 1).arrays();
    let report = play(&list, &[1.0, -2.0, 3.0], &[]).memory.report;
    assert_eq!((report.geometry_exit, report.geometry_runs), (Exit::Fuel, 4));
}

#[test]
fn winding_applies_to_one_triangle_in_the_geometry_topology() {
    let source = TRIANGLE.replace("2, prim", "2, prim inv") + "\nsetemit 2, prim\nmov o0, v2\nemit";
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, &source, 3, 1).topology(Topology::Geometry).arrays();
    assert_eq!(play(&list, &[1.0, 2.0, 3.0], &[]).xs(), [[2.0, 1.0, 3.0], [1.0, 2.0, 3.0]]);
    list.topology(Topology::List).arrays();
    assert_eq!(play(&list, &[1.0, 2.0, 3.0], &[]).xs()[2..], [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]);
}

#[test]
fn emitted_vertices_go_through_primitive_assembly() {
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, TRIANGLE, 3, 1).topology(Topology::Fan).arrays();
    let fan = [[1.0, 2.0, 3.0], [1.0, 3.0, 4.0], [1.0, 4.0, 5.0], [1.0, 5.0, 6.0]];
    assert_eq!(play(&list, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[]).xs(), fan);
}

#[test]
fn primitives_continue_across_draws_until_restarted() {
    let mut list = plain();
    list.topology(Topology::Strip).arrays().arrays();
    let two = [[1.0, 2.0, 1.0], [1.0, 2.0, 2.0]];
    assert_eq!(play(&list, &[1.0, 2.0], &[]).xs(), two);
    let mut restarted = list.clone();
    restarted.write(RESTART_PRIMITIVE, 0).arrays();
    assert_eq!(play(&restarted, &[1.0, 2.0], &[]).xs(), two);
    // Writing the same topology again does not restart, another topology does.
    let mut same = list.clone();
    same.write(PRIMITIVE_CONFIG, 0x10F).arrays();
    assert_eq!(play(&same, &[1.0, 2.0], &[]).xs().len(), 4);
    let mut other = list.clone();
    other.write(PRIMITIVE_CONFIG, 0x200).arrays();
    assert_eq!(play(&other, &[1.0, 2.0], &[]).xs().len(), 2);
}

#[test]
fn topology_three_is_a_list_without_geometry() {
    let mut list = plain();
    list.topology(Topology::Geometry).arrays();
    assert_eq!(play(&list, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[]).xs(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
}

#[test]
fn immediate_mode_collects_attributes_and_permutes_them() {
    let mut list = plain();
    list.write(VSH_NUM_ATTR, 1).write(VSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x01).write(FIXEDATTRIB_INDEX, 0xF);
    for x in [1.0, 2.0, 3.0, 4.0] {
        list.immediate(&[[0.5; 4], [x; 4]]);
    }
    let mut console = play(&list, &[], &[]);
    let colour = console.memory.triangles[0][0][8];
    assert_eq!((console.xs(), colour), (vec![[1.0, 2.0, 3.0]], 0.5));
    // Selecting immediate mode again discards half a vertex and half an attribute, and keeps the
    // vertex of the incomplete triangle.
    let mut rest = List::default();
    rest.immediate(&[[9.0; 4]]).queue(FIXEDATTRIB_DATA0, &[1, 2]).write(FIXEDATTRIB_INDEX, 0xF);
    rest.immediate(&[[0.5; 4], [5.0; 4], [0.5; 4], [6.0; 4]]);
    assert_eq!(console.execute(&rest).xs(), [[4.0, 5.0, 6.0]]);
}

#[test]
fn immediate_vertices_are_drawn_before_later_writes() {
    let mut list = plain();
    list.shader(VSH, "add o0, c0, v0", 1, 1).write(FIXEDATTRIB_INDEX, 0xF);
    for x in [10.0, 20.0] {
        list.float24(VSH, 0, &[[x; 4]]).immediate(&[[1.0; 4], [2.0; 4], [3.0; 4]]);
    }
    assert_eq!(play(&list, &[], &[]).xs(), [[11.0, 12.0, 13.0], [21.0, 22.0, 23.0]]);
}

#[test]
fn missing_attributes_of_immediate_vertices_are_defaults() {
    let mut list = plain();
    list.write(FIXEDATTRIB_INDEX, 1).immediate(&[[0.25; 4]]).write(FIXEDATTRIB_INDEX, 0xF);
    list.immediate(&[[1.0; 4], [2.0; 4], [3.0; 4]]);
    let mut console = play(&list, &[], &[]);
    assert!(console.memory.triangles[0].iter().all(|v| v[8] == 0.25));
    assert_eq!(console.xs(), [[1.0, 2.0, 3.0]]);
}

#[test]
fn default_attributes_are_consecutive_and_never_become_vertices() {
    let mut list = List::default();
    list.write(FIXEDATTRIB_INDEX, 0).immediate(&std::array::from_fn::<Vec4, 20, _>(|n| [n as f32; 4]));
    let console = play(&list, &[], &[]);
    let got: Vec<f32> = (0..17).map(|n| console.gpu.default_attribute(n)[0]).collect();
    let want: Vec<f32> = (0..14).map(|n| n as f32).chain([19.0, 0.0, 0.0]).collect();
    assert_eq!(got, want);
    assert_eq!(console.memory.report.vertices, 0);
}

/// Citra#2865: geometry programs run in immediate mode too.
#[test]
fn immediate_mode_reaches_the_geometry_unit_across_command_lists() {
    for (misc0, source) in [(0, TRIANGLE), (0x0101_0202, VARIABLE)] {
        let mut list = plain();
        list.geometry(misc0, 0, 1).shader(GSH, source, 3, 1).write(FIXEDATTRIB_INDEX, 0xF);
        list.immediate(&[[1.0; 4], [2.0; 4]]);
        let mut console = play(&list, &[], &[]);
        assert_eq!(console.xs().len(), 0);
        let mut rest = List::default();
        rest.immediate(&[[3.0; 4], [4.0; 4]]);
        assert_eq!(console.execute(&rest).xs(), [[1.0, 2.0, 3.0]]);
        // Selecting immediate mode again discards the fourth vertex.
        let mut restarted = List::default();
        restarted.write(FIXEDATTRIB_INDEX, 0xF).immediate(&[[5.0; 4], [6.0; 4], [7.0; 4]]);
        assert_eq!(console.execute(&restarted).xs(), [[5.0, 6.0, 7.0]]);
    }
}

/// A combined image passes the queue of the vertex units. Words that exceed their memory arrive in
/// the fourth unit all the same.
#[test]
fn a_geometry_program_uploaded_by_mirroring_runs() {
    let mut list = plain();
    list.code(VSH, 600, &program(TRIANGLE)).code(VSH, 0, &program(PLAIN));
    list.code(VSH, 600, &program(TRIANGLE));
    // Both programs use one descriptor, that of a plain MOV.
    list.geometry(0, 0, 1).run(GSH + offset::INPUTBUFFER_CONFIG, &[2, 0x7FFF_0258, 0x7654_3210]);
    list.write(GSH + offset::OUTMAP_MASK, 1).arrays();
    let mut console = play(&list, &[1.0, 2.0, 3.0], &[]);
    assert_eq!(console.xs(), [[1.0, 2.0, 3.0]]);
    assert_eq!((console.memory.report.vertex_exit, console.memory.report.geometry_exit), (Exit::End, Exit::End));
}

#[test]
fn equal_uploads_request_no_shader_and_known_ones_create_no_program() {
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, TRIANGLE, 3, 1).arrays();
    let mut console = play(&list, &[1.0, 2.0, 3.0], &[]);
    assert_eq!(console.gpu.upload_stats(), UploadStats { lookups: 2, programs: 2 });
    for _ in 0..3 {
        console.execute(&list);
    }
    // The list writes PLAIN to both units, then TRIANGLE to one: its words change, and are those of the
    // last draw again.
    assert_eq!(console.gpu.upload_stats(), UploadStats { lookups: 2, programs: 2 });
    assert_eq!(console.xs().len(), 4);

    let mut uniforms = List::default();
    uniforms.write(VSH, 5).float24(VSH, 0, &[[1.0; 4]]).arrays();
    console.execute(&uniforms);
    assert_eq!(console.gpu.upload_stats().lookups, 2, "uniforms are no part of a program");
    let mut entry = List::default();
    entry.write(VSH + offset::ENTRYPOINT, 1).arrays().write(VSH + offset::ENTRYPOINT, 0).arrays();
    console.execute(&entry).execute(&entry);
    assert_eq!(console.gpu.upload_stats(), UploadStats { lookups: 3, programs: 3 }, "one lookup per entry");
    for n in 0..20 {
        let mut other = List::default();
        other.write(VSH + offset::CODETRANSFER_INDEX, 100).write(VSH + offset::CODETRANSFER_DATA0, n + 1).arrays();
        console.execute(&other);
    }
    assert_eq!(console.gpu.upload_stats(), UploadStats { lookups: 3, programs: 3 });
    // Two programs in turn.
    let mut turns = List::default();
    (0..2).for_each(|_| _ = turns.code(VSH, 0, &program("mov o0, v1")).arrays().code(VSH, 0, &program(PLAIN)).arrays());
    console.execute(&turns);
    assert_eq!(console.gpu.upload_stats(), UploadStats { lookups: 7, programs: 4 });
    assert_eq!(console.gpu.engine().cache_stats().entries, 4, "unreachable words explore and compile nothing");
}

#[test]
fn a_part_of_a_program_is_uploaded() {
    let mut list = plain();
    list.arrays();
    // One word in the middle of the program.
    let add = program("nop\nadd o1, v1, v1").code()[1];
    list.write(VSH + offset::CODETRANSFER_INDEX, 1).write(VSH + offset::CODETRANSFER_DATA0, add).arrays();
    let triangles = play(&list, &[0.125; 3], &[]).memory.triangles;
    assert_eq!([triangles[0][0], triangles[1][0]].map(|v| (v[0], v[8])), [(0.125, 0.1875), (0.125, 0.375)]);
}

#[test]
fn uniforms_arrive_in_any_split() {
    let value = [1.0, -2.5, 3.0, 0.125];
    let mut list = List::default();
    // As in libctru: index and one vector in one command.
    let [a, b, c] = words24(value);
    list.run(VSH + offset::FLOATUNIFORM_INDEX, &[4, a, b, c]);
    // As in citro3d: a stream of f32.
    let words: Vec<u32> = [value, [0.1; 4]].iter().flat_map(|v| v.iter().rev().map(|x| x.to_bits())).collect();
    list.write(VSH + offset::FLOATUNIFORM_INDEX, 0x8000_0005).queue(VSH + offset::FLOATUNIFORM_DATA0, &words);
    // A vector split over two lists.
    list.write(VSH + offset::FLOATUNIFORM_INDEX, 7).queue(VSH + offset::FLOATUNIFORM_DATA0, &[a, b]);
    let mut console = play(&list, &[], &[]);
    let mut rest = List::default();
    rest.write(VSH + offset::FLOATUNIFORM_DATA0 + 7, c);
    console.execute(&rest);
    assert_eq!(console.uniforms(VSH).c[4..9], [value, value, [0.1; 4], value, [0.0; 4]]);
}

#[test]
fn a_restored_state_continues_like_the_original() {
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, TRIANGLE, 3, 1).topology(Topology::Strip).write(FIXEDATTRIB_INDEX, 0xF);
    list.immediate(&[[1.0; 4], [2.0; 4], [3.0; 4], [4.0; 4], [5.0; 4]])
        .queue(FIXEDATTRIB_DATA0, &words24([6.0; 4])[..2]);
    let mut console = play(&list, &[], &[]);
    console.xs();
    let saved = console.gpu.state();
    let mut rest = List::default();
    rest.write(FIXEDATTRIB_DATA0, words24([6.0; 4])[2]).immediate(&[[7.0; 4]]);
    let mut restored =
        Console { gpu: Gpu::with_state(engine(BackendChoice::NativeRequired), saved.clone()), ..console.clone() };
    let mut copied = console.clone();
    let want = console.execute(&rest).xs();
    assert_eq!(want.len(), 3);
    assert_eq!((restored.execute(&rest).xs(), copied.execute(&rest).xs()), (want.clone(), want.clone()));
    // Restored into a GPU that has run another program since.
    let mut other = plain();
    other.shader(VSH, "mov o0, -v0", 1, 1).shader(GSH, "nop", 1, 1);
    console.execute(&other);
    *console.gpu.state_mut() = saved;
    assert_eq!(console.execute(&rest).xs(), want);
}

#[test]
fn long_draws_give_the_results_of_single_vertices() {
    let mut list = plain();
    list.shader(VSH, "add r0, v0, v0\nmov o0, r0\nmov o1, v1", 2, 0b11).topology(Topology::Strip).arrays().elements();
    let count = miri_or(30, 3000);
    let xs: Vec<f32> = (0..count).map(|n| n as f32).collect();
    let indices: Vec<u32> = (0..2 * count).map(|n| n * 7 % 50 + n / 100 * 50).collect();
    let console = play(&list, &xs, &indices);
    let xs_drawn: Vec<f32> = xs.iter().copied().chain(indices.iter().map(|&n| n as f32)).map(|x| 2.0 * x).collect();
    assert_eq!(console.memory.triangles.len(), 3 * count as usize - 2);
    for (n, triangle) in console.memory.triangles.iter().enumerate() {
        let mut want = [xs_drawn[n], xs_drawn[n + 1], xs_drawn[n + 2]];
        if n % 2 != 0 {
            want.swap(0, 1);
        }
        let mut got = triangle.map(|v| v[0]);
        // A strip exchanges the two older vertices in every second triangle.
        assert_eq!(got[2], want[2]);
        got[..2].sort_by(f32::total_cmp);
        want[..2].sort_by(f32::total_cmp);
        assert_eq!(got, want, "triangle {n}");
    }
    let report = console.memory.report;
    assert_eq!((report.vertices, report.reused), (u64::from(count), u64::from(count)));
    assert_eq!(play_with(&list, &xs, &indices, 0).memory.triangles, console.memory.triangles);
    assert_eq!(play_with(&list, &xs, &indices, 3).memory.triangles, console.memory.triangles);
}

#[test]
fn reports_have_vertex_exits_and_registers_carry_over() {
    let mut list = plain();
    // r0 counts vertices across draws: nothing clears units.
    list.shader(VSH, "add r0, v1, r0\nmov o0, r0", 2, 1).arrays().arrays();
    let mut console = play(&list, &[0.9375; 3], &[]);
    assert_eq!(console.xs(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    list.shader(VSH, "rjmpu !b0, 0", 1, 1).arrays();
    assert_eq!(play(&list, &[1.0; 3], &[]).memory.report.vertex_exit, Exit::Fuel);
    list.shader(VSH, "break", 1, 1).arrays();
    assert_eq!(play(&list, &[1.0; 3], &[]).memory.report.vertex_exit, Exit::BreakOutsideLoop);
}
