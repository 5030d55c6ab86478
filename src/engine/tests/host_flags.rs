//! The bytes of flags in a host's memory, of which any that is not zero is true: a run writes 0 or 1
//! to those that it sets, and leaves the others as they are.

use super::*;
use crate::layout::Image;
use crate::layout::Layout;
use crate::state::{NoEmitter, Vertices, VerticesMut};

/// Whether a run that begins with this `cmp.x` sets the flags.
type Sets = fn(bool) -> bool;

const SOURCES: [(&str, Sets); 7] = [
    ("mov o0, v0", |_| false),
    ("cmp c0, lt, gt, v0\nmov o0, v0", |_| true),
    ("litp r0, v0\nmov o0, v0", |_| true),
    // On one path, which runs take.
    ("mov o0, v0\njmpu b0, over\ncmp c0, lt, lt, v0\nover:\nnop", |_| true),
    // On the other one.
    ("mov o0, v0\njmpu !b0, over\ncmp c0, lt, lt, v0\nover:\nnop", |_| false),
    ("ifc cmp.x\ncmp c0, gt, lt, v0\n.end\nmov o0, v0", |x| x),
    ("ifc cmp.x && cmp.y\nmov o0, v0\n.else\nifc !cmp.x || !cmp.y\nmov o0, c1\n.end\n.end", |_| false),
];

/// Geometry programs, and whether a run sets the flags of SETEMIT.
const GEOMETRY: [(&str, bool); 3] = [
    ("mov o0, v0\nemit", false),
    ("setemit 1, prim\nmov o0, v0\nemit", true),
    ("jmpu !b0, over\nsetemit 1, inv\nover:\nmov o0, v0\nemit", false),
];

/// The flags of a host after a run, or after a batch of `count`, and the first vertex's output.
fn after(shader: &Shader, layout: &Layout, flags: [u8; 4], count: usize, preserve_unit: bool) -> ([u8; 4], [f32; 4]) {
    let input = [3.0, -3.0, 0.0, 0.0];
    let mut unit = Unit::new();
    unit.v[0] = input;
    Image::new(*layout, &unit, &Uniforms::new()).with_cells(|host, unit, _| {
        let places = layout.flags().map(|at| &unit[at.expect("the layout has all") as usize]);
        places.iter().zip(flags).for_each(|(place, flag)| place.set(flag));
        let mut outputs = vec![[0.0; 4]; count.max(1)];
        if count == 0 {
            assert_eq!(shader.run_on(host, &mut NoEmitter), Exit::End);
            host.copy_outputs(1, &mut outputs);
        } else {
            let inputs = vec![input; count];
            let mut batch = Batch {
                inputs: Vertices::packed(&inputs, 1, count).expect("enough"),
                outputs: VerticesMut::packed(&mut outputs, 1, count).expect("enough"),
                input_mask: 1,
                output_mask: 1,
                preserve_unit,
            };
            assert_eq!(shader.run_batch_on(host, &mut batch), Exit::End);
        }
        (places.map(|place| place.get()), outputs[0])
    })
}

/// A shader on each engine. A build without native code runs tier 0 twice.
fn shaders(source: &str) -> [Shader; 3] {
    let shbin = crate::text::assemble(source).expect("a good source").shbin;
    [BackendChoice::NativePreferred, BackendChoice::NoNative, BackendChoice::Oracle].map(|backend| {
        let engine = Engine::new(Options { backend, layout: Some(Layout::OWN), ..Options::at_once() });
        engine.shader(&shbin.program().expect("short"), shbin.dvles[0].entry())
    })
}

const FLAGS: [[u8; 4]; 4] = [[0, 1, 0, 1], [5, 0, 0, 0x80], [0xFF, 2, 3, 0], [1, 7, 1, 1]];

#[test]
fn every_engine_leaves_the_same_bytes() {
    let layout = Layout::OWN;
    for (source, sets) in SOURCES {
        let shaders = shaders(&format!(".proc main\n{source}\nend\n.end"));
        // Code for groups and for outputs alone serves the later batches.
        for (shader, n) in shaders.iter().flat_map(|shader| (0..miri_or(0, 40)).map(move |n| (shader, n))) {
            after(shader, &layout, [0; 4], 100, n % 2 != 0);
        }
        for flags in FLAGS {
            // A run; batches of one, in order, and in groups.
            let counts = &[0, 1, 3, 8, 100][..miri_or(4, 5)];
            for (count, preserve_unit) in counts.iter().flat_map(|&n| [(n, false), (n, true)]) {
                let all = shaders.each_ref().map(|shader| after(shader, &layout, flags, count, preserve_unit));
                assert_eq!(all, [all[2]; 3], "{flags:?}, {count}, {preserve_unit}: {source}");
                let got = all[2].0;
                assert_eq!(got[2..], flags[2..], "{count}: {source}");
                if preserve_unit && count > 0 || !sets(flags[0] != 0) {
                    assert_eq!(got, flags, "{count}: {source}");
                } else {
                    assert!(got[..2].iter().all(|&flag| flag <= 1), "{got:?}, {count}: {source}");
                }
            }
        }
    }
}

#[test]
fn geometry_programs_leave_the_same_bytes() {
    for (source, sets) in GEOMETRY {
        let shaders = shaders(&format!(".gsh point c0\n.proc main\n{source}\nend\n.end"));
        for flags in FLAGS {
            let all = shaders.each_ref().map(|shader| after(shader, &Layout::OWN, flags, 0, false).0);
            assert_eq!(all, [all[2]; 3], "{flags:?}: {source}");
            assert_eq!(all[2][..2], flags[..2], "{source}");
            let [.., primitive, winding] = all[2];
            assert_eq!([primitive, winding], if sets { [1, 0] } else { [flags[2], flags[3]] }, "{source}");
        }
    }
}
