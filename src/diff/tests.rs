//! The comparison of kernels with one known difference.

use super::*;
use crate::interp::{Interp, InterpKernel};
use crate::isa::Stage;
use crate::kernel::{Config, OnUnits, UnitKernel};
use crate::program::Entry;
use crate::state::{BatchExit, Emitter};
use crate::testing::miri_or;
use crate::text::assemble;
use std::sync::Mutex;

fn kernel(body: &str, stage: Stage) -> InterpKernel {
    let program = assemble(&format!(".raw\n.proc main\n{body}\nend\n.end\n")).unwrap().shbin.program().unwrap();
    Interp.kernel(&program, Entry { pc: 0, stage }, &Config::default())
}

fn inputs(count: usize) -> Vec<Registers> {
    (0..count).map(|n| [[n as f32, 1.0, -0.0, 2.5]; 16]).collect()
}

fn diff(want: &dyn Kernel, got: &dyn Kernel, count: usize) -> Report {
    let (uniforms, unit, inputs) = (Uniforms::new(), Unit::new(), inputs(count));
    let work = Work { uniforms: &uniforms, unit: &unit, inputs: &inputs, input_mask: 0b11, output_mask: 0xFF };
    let mut seen = 0;
    let report =
        compare(NamedKernel { name: "one", kernel: want }, NamedKernel { name: "two", kernel: got }, &work, &mut |n| {
            seen += n;
        });
    assert_eq!(seen, count as u64);
    assert_eq!(report.vertices, count as u64);
    report
}

fn differs(want: &str, got: &str, stage: Stage) -> Option<Difference> {
    diff(&kernel(want, stage), &kernel(got, stage), 3).first
}

#[test]
fn a_kernel_equals_itself_over_any_number_of_vertices() {
    let k = kernel("add r0, r0, v0\nmov o0, r0\nsetemit 2, prim\nemit", Stage::Geometry);
    let most = miri_or(2, 200);
    for count in [0, 1, 2, 63, 64, 65, 200].into_iter().filter(|&count| count <= most) {
        let report = diff(&k, &k, count);
        assert_eq!(report.differences, 0, "{}", report.first.unwrap());
    }
}

#[test]
fn every_part_of_the_state_is_compared() {
    let vertex = [
        ("mov o1.y, v0", "nop", "o1.y (bank 0)"),
        ("mov r7.w, v0", "nop", "r7.w"),
        ("mova a0.y, v0.yyyy", "nop", "a0.y"),
        ("cmp v0, eq, ne, v0", "nop", "cmp.x"),
    ];
    let geometry = [
        ("setemit 1", "nop", "setemit: vertex"),
        ("setemit 0, inv", "setemit 0", "setemit: inverted"),
        ("setemit 1\nemit\nsetemit 0", "setemit 0\nemit", "bank 0"),
        ("emit", "nop", "bank"),
        ("setemit 0, prim\nemit\nsetemit 0", "setemit 0\nemit", "triangles"),
        ("setemit 0, prim inv\nemit\nsetemit 0", "setemit 0, prim\nemit\nsetemit 0", "triangle 0: inverted"),
    ];
    let cases = vertex.map(|c| (c, Stage::Vertex)).into_iter().chain(geometry.map(|c| (c, Stage::Geometry)));
    for ((want, got, place), stage) in cases {
        if place == "bank 0" {
            // Both leave the same slots, all zero, and the same bank.
            assert!(differs(want, got, stage).is_none());
            continue;
        }
        let found = differs(want, got, stage).unwrap_or_else(|| panic!("{want} equals {got}"));
        assert!(found.rows.iter().any(|r| r.location == place && r.differs), "{place} isn't in\n{found}");
        assert_eq!(found.how, How::Run);
    }
    assert!(differs("break", "nop", Stage::Vertex).unwrap().rows.iter().any(|r| r.location == "exit"));
}

#[test]
fn zeros_differ_by_sign_and_nans_not_at_all() {
    // c0 is zero, so its reciprocal is infinite. Infinity minus infinity is NaN, and negation flips
    // its sign.
    let nan = "rcp r1, c0\nadd r1, r1, -r1\nmov o0, r1";
    assert!(differs(nan, &nan.replace("mov o0, r1", "mov o0, -r1\nmov r1, -r1"), Stage::Vertex).is_none());
    let found = differs("mov o0, c0", "mov o0, -c0", Stage::Vertex).unwrap();
    let text = found.to_string();
    assert!(text.contains("[00000000]") && text.contains("[80000000]  <- differs"), "{text}");
}

#[test]
fn each_difference_counts_once() {
    // Without continuing from the reference's state, each difference would repeat in later
    // vertices.
    let uses_old = kernel("mov o0, r0\nadd r0, r0, v0.yyyy", Stage::Vertex);
    let forgets = kernel("mov o0, r0\nadd r0, r0, v0.yyyy\nmul r1, v0.xxxx, v0.xxxx", Stage::Vertex);
    // Vertex 0 multiplies zeros, so r1 stays equal; the others differ in r1.
    assert_eq!(diff(&uses_old, &forgets, 10).differences, 9);
}

/// A kernel whose `run` is correct and whose `run_batch` corrupts the outputs of one vertex.
struct BadBatch<K>(K, Mutex<usize>);

impl<K: Kernel> UnitKernel for BadBatch<K> {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        self.0.run(uniforms, unit, emitter)
    }
    fn run_batch(&self, u: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>, e: &mut dyn Emitter) -> BatchExit {
        let exit = self.0.run_batch(u, unit, batch, e);
        let mut done = self.1.lock().unwrap();
        if (*done..*done + batch.inputs.len()).contains(&11) {
            batch.outputs[11 - *done][0][3] += 1.0;
        }
        *done += batch.inputs.len();
        exit
    }
}

#[test]
fn batches_are_compared_vertex_by_vertex() {
    let good = kernel("mov o0, v0", Stage::Vertex);
    let bad = OnUnits(BadBatch(kernel("mov o0, v0", Stage::Vertex), Mutex::new(0)));
    let report = diff(&good, &bad, 64);
    assert_eq!(report.differences, 1);
    let first = report.first.unwrap();
    // After batches of 1, 3 and 4, vertex 11 is the fourth of the batch of five.
    assert_eq!((first.vertex, first.how), (11, How::Batch { first: 8, size: 5 }));
    assert_eq!(first.inputs[0], (0, [11.0, 1.0, -0.0, 2.5]));
    let text = first.to_string();
    assert!(
        text.starts_with("vertex 11, through run_batch of 5 from vertex 8 on\n  v0 = (11, 1, -0, 2.5)\n"),
        "{text}"
    );
    assert!(text.contains("output o0.w  2.5            [40200000]  3.5            [40600000]  <- differs"), "{text}");
}

#[test]
fn cancelled_runs_differ_from_none() {
    let flag = crate::kernel::cancel::CancelFlag::default();
    let source = "again:\nadd r0, v0, r0\nmov o0, r0\njmpu b0, again";
    let (cancelled, other) = (kernel(source, Stage::Vertex), kernel(source, Stage::Vertex));
    let cancelled = cancelled.cancelled_by(&flag);
    // One ends at its first backward transfer, the other one when it has no fuel.
    let (uniforms, unit, inputs) = (Uniforms { b: 1, ..Uniforms::new() }, Unit::new(), inputs(3));
    let work = Work { uniforms: &uniforms, unit: &unit, inputs: &inputs, input_mask: 0b11, output_mask: 0xFF };
    flag.set(true);
    for (want, got) in [(&cancelled, &other), (&other, &cancelled)] {
        let (one, two) = (NamedKernel { name: "one", kernel: want }, NamedKernel { name: "two", kernel: got });
        let report = compare(one, two, &work, &mut |_| ());
        assert_eq!((report.vertices, report.differences), (3, 0));
    }
}
