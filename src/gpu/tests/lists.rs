//! Lists that are written in parts, and the registers that writes must reach.

use super::hostile::{Adversary, Noise, console};
use super::*;
use crate::testing::miri_or;

/// What a list leaves behind. The text shows every bit but those of NaNs.
fn state(gpu: &Gpu) -> String {
    format!("{:?}", gpu.state())
}

#[test]
fn a_list_stops_where_a_write_has_an_effect() {
    let list = [1, 0x000F_022E, 1, 0x003F_022F, 2, 3, 4, 5, 7, 0x000F_0100];
    let mut gpu = Gpu::new(engine(BackendChoice::NoNative));
    let mut commands = Commands::new(&list);
    let mut stops = Vec::new();
    loop {
        let effect = gpu.write_list(&mut commands);
        stops.push((effect, commands.position()));
        if effect == Effect::None {
            break;
        }
    }
    let elements = |position| (Effect::Draw(Draw::Elements), position);
    let want = [
        (Effect::Draw(Draw::Arrays), (2, 0)),
        elements((2, 1)),
        elements((2, 2)),
        elements((2, 3)),
        elements((8, 0)),
        (Effect::None, (10, 0)),
    ];
    assert_eq!(stops, want);
    assert_eq!((gpu.read(DRAWELEMENTS), gpu.read(0x100)), (4, 7));
}

/// A host with a loop of its own, which returns to positions.
fn write_parts(gpu: &mut Gpu, list: &[u32], host: &mut Adversary) {
    let mut position = (0, 0);
    let mut vertices = Vec::new();
    loop {
        let mut commands = Commands::at(list, position);
        // `execute` draws consecutive vertices together.
        if !vertices.is_empty() && commands.clone().next().is_none_or(|w| Kind::of(w.id) != Kind::FixedData) {
            gpu.draw_immediate(&vertices, host);
            vertices.clear();
        }
        let whole = vertices.is_empty();
        let effect = match whole {
            true => gpu.write_list(&mut commands),
            false => commands.next().map_or(Effect::None, |w| gpu.write(w.id, w.value, w.mask)),
        };
        position = commands.position();
        match effect {
            Effect::None if whole => return,
            Effect::None => {}
            Effect::Draw(draw) => host.draw(gpu, draw),
            Effect::Vertex => vertices.push(*gpu.immediate_vertex()),
        }
    }
}

#[test]
fn garbage_lists_in_parts_do_what_whole_lists_do() {
    let mut draws = 0;
    for seed in 1..=miri_or(2, 300) {
        let mut noise = Noise(seed);
        let lists: Vec<_> = (0..miri_or(2, 20)).map(|_| noise.list()).collect();
        let [whole, parts] = [false, true].map(|in_parts| {
            let (mut gpu, mut host) = (console(BackendChoice::Oracle, State::default()), Adversary::new(seed));
            for list in &lists {
                match in_parts {
                    true => write_parts(&mut gpu, list, &mut host),
                    false => _ = gpu.execute(list, &mut host),
                }
                draws += std::mem::take(&mut host.draws);
            }
            (host.triangles, state(&gpu))
        });
        assert_eq!(whole, parts, "{seed}");
    }
    assert!(cfg!(miri) || draws > 1000, "{draws}");
}

#[test]
fn unused_registers_need_no_writes() {
    for seed in 1..=miri_or(2, 300) {
        let mut noise = Noise(seed);
        let lists: Vec<_> = (0..miri_or(2, 20)).map(|_| noise.list()).collect();
        let [all, used] = [false, true].map(|only_used| {
            let (mut gpu, mut host) = (console(BackendChoice::Oracle, State::default()), Adversary::new(seed));
            for list in &lists {
                let mut forwarded = List::default();
                for Write { id, value, mask } in Commands::new(list) {
                    if !(only_used && Kind::of(id) == Kind::Unused) {
                        forwarded.masked(id, value, mask);
                    }
                }
                gpu.execute(&forwarded.0, &mut host);
                host.draws = 0;
            }
            let words = &mut gpu.state_mut().registers.0;
            (0..).zip(words.iter_mut()).filter(|(id, _)| Kind::of(*id) == Kind::Unused).for_each(|(_, word)| *word = 0);
            (host.triangles, state(&gpu))
        });
        assert_eq!(all, used, "{seed}");
    }
}

/// The comment of `pj_gpu_write` lists the registers that are used. The end of an upload is not: it
/// does nothing.
#[test]
fn the_header_lists_the_registers_that_a_host_must_pass_on() {
    let header = include_str!("../../../include/picajit.h");
    let (_, list) = header.split_once("draws with these registers.").expect("the list");
    let (list, _) = list.split_once("*/").expect("a comment");
    let mut listed = Vec::new();
    for range in list.split_whitespace().filter_map(|word| word.trim_end_matches(',').strip_prefix("0x")) {
        let (first, last) = range.split_once("-0x").unwrap_or((range, range));
        let [first, last] = [first, last].map(|id| u16::from_str_radix(id, 16).expect("an id"));
        listed.extend(first..=last);
    }
    let used = |id: &u16| !matches!(Kind::of(*id), Kind::Unused | Kind::TransferEnd);
    let used: Vec<u16> = (0..REGISTERS as u16).filter(used).collect();
    assert_eq!(listed, used);
}

#[test]
fn a_write_that_changes_no_uniform_leaves_the_last_vertex_deferred() {
    let mut gpu = whole_draws::gpu_of("add r5, c0, v0\nmov o0, v0");
    let r5 = |gpu: &Gpu| gpu.state().vertex.unit.r[5][0];
    let float24 = |x: f32| {
        let mut list = List::default();
        list.float24(VSH, 0, &[[x; 4]]);
        list
    };
    let write = |gpu: &mut Gpu, list: &List| assert_eq!(gpu.write_list(&mut Commands::new(&list.0)), Effect::None);
    write(&mut gpu, &float24(2.0));
    // Enough for a batch; with indices, every engine defers the last run.
    let xs: Vec<f32> = (-10..=3).map(|n| n as f32).collect();
    let indices: Vec<u8> = (0..14).collect();
    whole_draws::drawn(&mut gpu, Draw::Elements, &xs, &indices, &DrawOptions::default());
    let deferred = |gpu: &Gpu| gpu.state.vertex.unit.r[5][0] != 5.0;
    assert!(deferred(&gpu));
    let mut same = float24(2.0);
    same.write(VSH, 0).write(VSH + 1, 0).code(VSH, 0, &program("nop"));
    same.write(VSH + offset::ENTRYPOINT, 1).write(VSH + offset::INPUTBUFFER_CONFIG, 3);
    write(&mut gpu, &same);
    assert!(deferred(&gpu));
    for (id, value) in [(VSH, 1), (VSH + 1, 1), (VSH + 4, 1)] {
        let mut gpu = gpu.clone();
        assert_eq!(gpu.write(id, value, 15), Effect::None);
        assert!(!deferred(&gpu) && r5(&gpu) == 5.0, "{id:x}");
    }
    // Only the last word of a vector changes the uniform.
    let list = float24(4.0);
    for (n, write) in Commands::new(&list.0).enumerate() {
        assert_eq!(gpu.write(write.id, write.value, write.mask), Effect::None);
        assert_eq!(deferred(&gpu), n < 3);
    }
    assert_eq!((r5(&gpu), gpu.state().vertex.uniforms.c[0]), (5.0, [4.0; 4]));
    assert_eq!(gpu.state().geometry.uniforms.c[0], [4.0; 4]);
}

#[test]
fn units_that_received_different_words_complete_different_vectors() {
    let mut list = List::default();
    // The geometry unit has one word more, then both receive the same three.
    list.write(GSH + offset::FLOATUNIFORM_DATA0, 0x0041_0000);
    list.queue(VSH + offset::FLOATUNIFORM_DATA0, &[1, 2, 3]);
    // Another format, in the geometry unit only.
    list.write(VSH + offset::FLOATUNIFORM_INDEX, 5).write(GSH + offset::FLOATUNIFORM_INDEX, 0x8000_0005);
    list.queue(VSH + offset::FLOATUNIFORM_DATA0, &[1.0f32.to_bits(); 4]);
    let mut gpu = Gpu::new(engine(BackendChoice::NoNative));
    assert_eq!(gpu.write_list(&mut Commands::new(&list.0)), Effect::None);
    let State { vertex, geometry, .. } = gpu.state();
    assert_eq!(vertex.uniforms.c[0], upload::f24_vector([1, 2, 3]));
    assert_eq!(geometry.uniforms.c[0], upload::f24_vector([0x0041_0000, 1, 2]));
    assert_eq!((vertex.uniforms.c[5], geometry.uniforms.c[5]), (upload::f24_vector([1.0f32.to_bits(); 3]), [1.0; 4]));
    assert_eq!((vertex.float_words.count, geometry.float_words.count), (1, 0));
}

#[test]
fn a_position_after_more_values_than_a_command_has_is_after_its_padding() {
    // Two values and padding; then another command.
    let list = [1, 0x801F_0280, 2, 0xFFFF_FFFF, 3, 0x000F_0290];
    let rest = |position| Vec::from_iter(Commands::at(&list, position).map(|write| (write.id, write.value)));
    for values in [2, 3, 100] {
        assert_eq!(rest((0, values)), [(0x290, 3)], "{values}");
    }
    assert_eq!(rest((0, 1)), [(0x281, 2), (0x290, 3)]);
}
