//! Batches of one to three vertices, before and after code is compiled for them.

use super::super::*;
use crate::layout::Image;
use crate::layout::Layout;
use crate::state::{Batch, BatchExit, NoEmitter, Uniforms, Unit, Vertices, VerticesMut};
use crate::testing::miri_or;

struct Case {
    name: &'static str,
    code: &'static [u32],
    opdescs: &'static [u32],
}

const MUL: u32 = 0x08 << 26;
const MOV: u32 = 0x13 << 26;
const END: u32 = 0x22 << 26;
const ALL: u32 = 0x36F;
const ONLY_X: u32 = 0x368;
const OUTPUT_1: u32 = 1 << 21;
const R0: u32 = 0x10;
const V1_FIRST: u32 = 1 << 12;
const V1_SECOND: u32 = 1 << 7;

const CASES: [Case; 5] = [
    // Outputs-only code serves a batch of one that wants no other outputs.
    Case { name: "both outputs", code: &[MOV, MOV | OUTPUT_1 | V1_FIRST, END], opdescs: &[ALL] },
    Case { name: "a product, which deoptimises for 0 * inf", code: &[MUL | V1_SECOND, END], opdescs: &[ALL] },
    Case { name: "one component of an output", code: &[MOV, END], opdescs: &[ONLY_X] },
    // mov o1, r0; mov r0, v0: each vertex outputs what the one before left.
    Case { name: "a carried register", code: &[MOV | OUTPUT_1 | R0 << 12, MOV | R0 << 21, END], opdescs: &[ALL] },
    Case { name: "no END", code: &[MOV], opdescs: &[ALL] },
];

fn value(n: usize) -> f32 {
    [0.0, f32::INFINITY, 1.5, f32::NAN, -2.0, -0.0, 3.0][n % 7]
}

fn same(a: &[[f32; 4]], b: &[[f32; 4]]) -> bool {
    let same = |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    a.as_flattened().iter().zip(b.as_flattened()).all(same)
}

fn batch<'a>(inputs: &'a [[f32; 4]], outputs: &'a mut [[f32; 4]], count: usize, preserve_unit: bool) -> Batch<'a> {
    Batch {
        inputs: Vertices::packed(inputs, 2, count).expect("two registers each"),
        outputs: VerticesMut::packed(outputs, 2, count).expect("two registers each"),
        input_mask: 3,
        output_mask: 3,
        preserve_unit,
    }
}

/// Runs `repeat` batches of each size, on picajit's types or on a host's memory, and compares each
/// with the interpreter. `preserves` says whether the nth batches preserve the unit.
fn agrees(layout: Option<Layout>, preserves: fn(usize) -> bool, repeat: usize) {
    let native = Engine::new(Options { layout, ..Options::at_once() });
    let oracle = Engine::new(Options { backend: BackendChoice::Oracle, ..Options::at_once() });
    for Case { name, code, opdescs } in CASES {
        let program = Program::from_words(code, opdescs).expect("short");
        let [tested, reference] = [&native, &oracle].map(|engine| engine.shader(&program, Entry::vertex(0)));
        let uniforms = Uniforms::new();
        let mut units = [Unit::new(), Unit::new()];
        units.iter_mut().for_each(|unit| unit.o[0] = [[7.0; 4]; 16]);
        for n in 0..repeat {
            let preserve_unit = preserves(n);
            for count in 1..=3 {
                let inputs: Vec<[f32; 4]> =
                    (0..2 * count).map(|k| [value(n + k), value(n / 7 + k), 1.0, 2.0]).collect();
                let mut outputs = [vec![[9.0; 4]; 2 * count], vec![[9.0; 4]; 2 * count]];
                let [want, got] = &mut outputs;
                let [want_unit, got_unit] = &mut units;
                let exits = [
                    reference.run_batch(&uniforms, want_unit, &mut batch(&inputs, want, count, preserve_unit)),
                    run(layout, &tested, &uniforms, got_unit, &mut batch(&inputs, got, count, preserve_unit)),
                ];
                assert_eq!(exits[0], exits[1], "{name}, batch {n} of {count}");
                assert!(same(want, got), "{name}, batch {n} of {count}: {want:?} {got:?}");
                for (a, b) in
                    [(&want_unit.v, &got_unit.v), (&want_unit.r, &got_unit.r), (&want_unit.o[0], &got_unit.o[0])]
                {
                    assert!(same(a, b), "{name}, batch {n} of {count}: the unit");
                }
            }
        }
    }
}

fn run(
    layout: Option<Layout>,
    shader: &Shader,
    uniforms: &Uniforms,
    unit: &mut Unit,
    batch: &mut Batch<'_>,
) -> BatchExit {
    match layout {
        None => shader.run_batch(uniforms, unit, batch),
        Some(layout) => Image::run(layout, uniforms, unit, &mut NoEmitter, |host, _| shader.run_batch_on(host, batch)),
    }
}

/// More vertices than it takes until code for batches is compiled, and than deoptimise before
/// speculation ends.
fn enough() -> usize {
    miri_or(4, 8000)
}

#[test]
fn small_batches_agree_with_the_interpreter() {
    agrees(None, |_| false, enough());
}

#[test]
fn small_batches_that_preserve_the_unit_agree_with_the_interpreter() {
    agrees(None, |_| true, enough());
}

/// Every second batch changes the unit from then on when outputs-only code serves the others.
#[test]
fn small_batches_that_change_the_unit_after_others_preserved_it() {
    let preserves = |n: usize| n < miri_or(2, 2000) || n.is_multiple_of(2);
    agrees(None, preserves, miri_or(4, 2100));
    agrees(Some(Layout::OWN), preserves, miri_or(4, 2100));
}

#[test]
fn small_batches_on_a_hosts_memory_agree_with_the_interpreter() {
    let layout = Layout::OWN;
    agrees(Some(layout), |_| false, miri_or(2, 300));
    agrees(Some(layout), |_| true, enough());
}
