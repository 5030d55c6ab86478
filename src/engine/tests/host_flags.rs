//! The bytes of flags in a host's memory, of which any that is not zero is true.

use super::*;
use crate::layout::Image;
use crate::layout::Layout;
use crate::state::{NoEmitter, Vertices, VerticesMut};

/// No flag; one that some vertices set; both, always; and a test of what was there before.
const SOURCES: [&str; 4] = [
    "mov o0, v0",
    "mov o0, v0\njmpu b0, over\ncmp c0, lt, lt, v0\nover:\nnop",
    "cmp c0, lt, gt, v0\nmov o0, v0",
    "ifc cmp.x && cmp.y\nmov o0, v0\n.else\nmov o0, c1\n.end",
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

#[test]
fn every_engine_leaves_the_same_bytes() {
    let layout = Layout::OWN;
    // A build without native code runs tier 0 twice.
    let engines = [BackendChoice::NativePreferred, BackendChoice::NoNative, BackendChoice::Oracle]
        .map(|backend| Engine::new(Options { backend, layout: Some(layout), ..Options::at_once() }));
    for source in SOURCES {
        let shbin = crate::text::assemble(&format!(".proc main\n{source}\nend\n.end")).expect("a good source").shbin;
        let shaders = engines.each_ref().map(|e| e.shader(&shbin.program().expect("short"), Entry::vertex(0)));
        // Code for groups and for outputs alone serves the later batches.
        for (shader, n) in shaders.iter().flat_map(|shader| (0..miri_or(0, 40)).map(move |n| (shader, n))) {
            after(shader, &layout, [0; 4], 100, n % 2 != 0);
        }
        for flags in [[0, 1, 0, 1], [5, 0, 0, 0x80], [0xFF, 2, 3, 0], [1, 7, 1, 1]] {
            // A run; batches of one, in order, and in groups.
            let counts = &[0, 1, 3, 8, 100][..miri_or(4, 5)];
            for (count, preserve_unit) in counts.iter().flat_map(|&n| [(n, false), (n, true)]) {
                let all = shaders.each_ref().map(|shader| after(shader, &layout, flags, count, preserve_unit));
                assert_eq!(all, [all[2]; 3], "{flags:?}, {count}, {preserve_unit}: {source}");
                let got = all[2].0;
                if preserve_unit && count > 0 {
                    assert_eq!(got, flags, "{count}: {source}");
                } else {
                    assert!(got.iter().all(|&flag| flag <= 1), "{got:?}, {count}: {source}");
                    assert_eq!(got[2..], [flags[2].min(1), flags[3].min(1)]);
                }
            }
        }
    }
}
